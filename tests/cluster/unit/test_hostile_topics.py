"""Foreign records in the internal topics have no effect, and valid records are not lost.

Any client with write access may write anything; so may an older version, or a tool that was
pointed at the wrong topic. None of it raises, and everything else is read as if it were absent
(kafka-connect.md §4).
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster import events as e
from penstock.cluster.herder import step
from penstock.cluster.herder.state import HerderSettings, HerderState
from penstock.cluster.offset_records import OffsetRecord, decode_offset, encode_offset
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    RestartRequest,
    SessionKey,
    SkippedRecord,
    State,
    Status,
    StatusRecord,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
    TaskStatus,
    TopicStatus,
    TopicUse,
    decode_config,
    decode_status,
    encode_config,
    encode_status,
)
from penstock.cluster.state import Changes, ClusterState, fold_all
from penstock.cluster.statuses import StatusState, fold_statuses
from penstock.ids import TaskId

Row = tuple[bytes | None, bytes | None]

NAME = "good"
TASK = TaskId(NAME, 0)
KEY = SessionKey(b"secret", "HmacSHA256", 1_000)
CONFIGS: list[ConfigRecord] = [
    KEY,
    TargetState(NAME, Target.PAUSED),
    ConnectorConfig(NAME, {"name": NAME}),
    TaskConfig(TASK, {"n": "0"}),
    TaskConfig(TaskId(NAME, 1), {"n": "1"}),
    TaskCommit(NAME, 2),
    TaskFencing(NAME, 2),
    RestartRequest(NAME, include_tasks=True, only_failed=False),
    TargetState(NAME, Target.STARTED),
]
STATUSES: list[StatusRecord] = [
    ConnectorStatus(NAME, Status(State.RUNNING, "w1", 3)),
    TaskStatus(TASK, Status(State.FAILED, "w1", 3, "trace")),
    TopicStatus("t", NAME, TopicUse(0, 5)),
    TaskStatus(TASK, Status(State.RUNNING, "w1", 4)),
]
DEEP = b"[" * 100_000
HUGE = str(2**63 - 1).encode()

# Key, value, and words of the reason.
HOSTILE_CONFIGS: list[tuple[bytes | None, bytes | None, str]] = [
    # foreign and invalid keys
    (b"", b"{}", "unknown key ''"),
    (b"connectors-good", b'{"properties":{}}', "unknown key 'connectors-good'"),
    (b"Connector-good", b'{"properties":{}}', "unknown key"),
    (b"status-connector-good", b'{"state":"RUNNING"}', "unknown key"),
    (b'["good",{"file":"x"}]', b'{"position":1}', "unknown key"),
    (b"session-key\n", b"{}", "unknown key"),
    (None, b'{"properties":{}}', "no key"),
    (None, None, "no key"),
    (b"connector-\xff\xfe", b'{"properties":{}}', "not UTF-8"),
    (b"\x00\x01\x02\x80", None, "not UTF-8"),
    (b"task-good-\xed\xa0\x80", b"{}", "not UTF-8"),
    # task numbers
    (b"task-good--1", None, "is null"),
    (b"task-good-2147483648", b'{"properties":{}}', "not the key of a task"),
    (b"task-good-99999999999999999999", b'{"properties":{}}', "not the key of a task"),
    (b"task-good-+1", b'{"properties":{}}', "not the key of a task"),
    (b"task-good-1_0", b'{"properties":{}}', "not the key of a task"),
    ("task-good-\u0661".encode(), b'{"properties":{}}', "not the key of a task"),
    (b"task-good", b'{"properties":{}}', "not the key of a task"),
    (b"task-", b'{"properties":{}}', "not the key of a task"),
    # counts
    (b"commit-good", b'{"tasks":-1}', "no count"),
    (b"commit-good", b'{"tasks":2.0}', "no count"),
    (b"commit-good", b'{"tasks":"2"}', "no count"),
    (b"commit-good", b'{"tasks":[2]}', "no count"),
    (b"commit-good", b'{"tasks":1e400}', "not JSON"),
    (b"commit-good", b"2", "no count"),
    (b"commit-good", None, "no count"),
    (b"tasks-fencing-good", b'{"task-count":-7}', "no count"),
    (b"tasks-fencing-good", b'{"tasks":1}', "no count"),
    # contents
    (b"connector-good", b"[]", "no object called 'properties'"),
    (b"connector-good", b'"text"', "no object called 'properties'"),
    (b"connector-good", b'{"properties":null}', "no object called 'properties'"),
    (b"connector-good", b'{"properties":[["a","b"]]}', "no object called 'properties'"),
    (b"connector-good", b'{"properties":{"a":{"b":"c"}}}', "'a' is not a string"),
    (b"task-good-0", b'{"properties":{"a":7}}', "'a' is not a string"),
    (b"target-state-good", b'{"state":"started"}', "unknown target state 'started'"),
    (b"target-state-good", b'{"state":"PAUSED","state.v2":"DESTROYED"}', "'DESTROYED'"),
    (b"target-state-good", b"[1]", "list, not an object"),
    # session keys
    (b"session-key", b'{"key":"","algorithm":7,"creation-timestamp":1}', "lacks a member"),
    (b"session-key", b'{"key":"=A==","algorithm":"x","creation-timestamp":1}', "not Base64"),
    (b"session-key", b'{"key":"A","algorithm":"x","creation-timestamp":1}', "not Base64"),
    (b"session-key", '{"key":"ü","algorithm":"x","creation-timestamp":1}'.encode(), "64"),
    (b"session-key", b'{"key":"AA==","algorithm":"x","creation-timestamp":true}', "lacks"),
    (b"session-key", None, "NoneType, not an object"),
    # events
    (b"restart-connector-good", None, "not an object"),
    (b"logger-cluster-root", b'{"level":null}', "not a string"),
]
NOT_JSON: list[bytes] = [
    b"{",
    b'{"properties":{}',
    b'{"properties":{}}{}',
    b"\xff\xfe\x00",
    b'{"properties":{"a":"\xff"}}',
    b"NaN",
    b"'text'",
    b"\x00\x00\x00\x00\x01\x06abc",  # as schema registries frame values
    DEEP,
]
HOSTILE_STATUSES: list[tuple[bytes | None, bytes | None, str]] = [
    (b"connector-good", b'{"properties":{}}', "unknown key"),
    (b"status-good", b"{}", "unknown key"),
    (None, b"{}", "no key"),
    (b"status-task-good-\xff", b"{}", "not UTF-8"),
    (b"status-connector-", b"{}", "does not name a connector"),
    (b"status-connector-good", b'{"state":"GONE","worker_id":"w","generation":9}', "'GONE'"),
    (b"status-connector-good", b'{"state":null,"worker_id":"w","generation":9}', "None"),
    (b"status-connector-good", b'{"state":"RUNNING","generation":9}', "worker_id"),
    (b"status-connector-good", b'{"state":"RUNNING","worker_id":"w"}', "generation"),
    (b"status-task-good-0", b'{"state":"RUNNING","worker_id":"w","generation":1.5}', "generation"),
    (b"status-task-good-0", b'{"state":"RUNNING","worker_id":"w","generation":"1"}', "generation"),
    (
        b"status-task-good-0",
        b'{"state":"RUNNING","trace":{},"worker_id":"w","generation":9}',
        "trace is not a string",
    ),
    (b"status-task-good-0", b"7", "int, not an object"),
    (b"status-task-good-2147483648", None, "not the key of a task"),
    (b"status-task-0", None, "not the key of a task"),
    (b"status-topic-t", None, "does not name a topic"),
    (b"status-topic-t:good", None, "does not name a topic"),
    (b"status-topic-:connector-good", None, "does not name a topic"),
    (b"status-topic-t:connector-", None, "does not name a topic"),
    (b"status-topic-t:connector-good", b'{"topic":[]}', "no object called 'topic'"),
    (b"status-topic-t:connector-good", b'{"topic":{"task":0}}', "discoverTimestamp"),
    (
        b"status-topic-t:connector-good",
        b'{"topic":{"task":"0","discoverTimestamp":1}}',
        "integer task",
    ),
]


def rows(records: Iterable[ConfigRecord]) -> list[Row]:
    return [encode_config(record) for record in records]


def folded(log: list[Row]) -> tuple[ClusterState, Changes]:
    return fold_all(ClusterState(), [(at, decode_config(*row)) for at, row in enumerate(log)])


def everywhere(log: list[Row], hostile: Row) -> list[Row]:
    """The log with the hostile record before, between and after all others."""
    spread = [hostile]
    for row in log:
        spread += [row, hostile]
    return spread


@pytest.mark.parametrize(("key", "value", "why"), HOSTILE_CONFIGS)
def test_a_hostile_config_record_is_skipped_for_a_reason_and_nothing_else_is_lost(
    key: bytes | None, value: bytes | None, why: str
) -> None:
    skipped = decode_config(key, value)
    assert isinstance(skipped, SkippedRecord)
    assert why in skipped.reason
    log = rows(CONFIGS)
    clean, changes = folded(log)
    state, same_changes = folded(everywhere(log, (key, value)))
    assert (state.entries, state.session_key) == (clean.entries, KEY)
    assert same_changes == changes
    assert state.tasks(NAME) == (TASK, TaskId(NAME, 1))
    assert skipped.unreadable or state.offset == 2 * len(log) + 1


@pytest.mark.parametrize("value", NOT_JSON, ids=range(len(NOT_JSON)))
@pytest.mark.parametrize(
    "key", [b"connector-good", b"commit-good", b"task-good-0", b"session-key", b"\xff", None]
)
def test_a_value_that_is_no_json_has_no_effect_and_does_not_move_the_offset(
    key: bytes | None, value: bytes
) -> None:
    skipped = decode_config(key, value)
    assert isinstance(skipped, SkippedRecord)
    assert skipped.unreadable
    log = rows(CONFIGS)
    state, changes = folded(everywhere(log, (key, value)))
    clean, clean_changes = folded(log)
    assert (state.entries, state.session_key, changes) == (clean.entries, KEY, clean_changes)
    assert state.offset == 2 * len(log)  # just after the last readable record


@pytest.mark.parametrize(("key", "value", "why"), HOSTILE_STATUSES)
def test_a_hostile_status_record_is_skipped_for_a_reason_and_nothing_else_is_lost(
    key: bytes | None, value: bytes | None, why: str
) -> None:
    skipped = decode_status(key, value)
    assert isinstance(skipped, SkippedRecord)
    assert why in skipped.reason
    log: list[Row] = [encode_status(record) for record in STATUSES]
    hostile = [decode_status(*row) for row in everywhere(log, (key, value))]
    assert fold_statuses(StatusState(), hostile) == fold_statuses(StatusState(), STATUSES)


@pytest.mark.parametrize("value", NOT_JSON, ids=range(len(NOT_JSON)))
def test_statuses_and_offsets_that_are_no_json_are_skipped(value: bytes) -> None:
    assert isinstance(decode_status(b"status-connector-good", value), SkippedRecord)
    assert isinstance(decode_offset(b'["good",{"file":"x"}]', value), SkippedRecord)
    assert isinstance(decode_offset(value, b'{"position":1}'), SkippedRecord)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"null",
        b"{}",
        b'["good"]',
        b'["good",{},{}]',
        b'[7,{"file":"x"}]',
        b'["good",[]]',
        b'["good",{"file":{"deep":1}}]',
        b'["good",{"file":["x"]}]',
        b"connector-good",
    ],
)
def test_an_offset_with_a_foreign_key_is_skipped(key: bytes | None) -> None:
    assert isinstance(decode_offset(key, b'{"position":1}'), SkippedRecord)


@pytest.mark.parametrize("count", [3, 2**31 - 1, 2**31, 2**63 - 1, 2**64 - 1])
def test_a_commit_of_more_tasks_than_were_written_leaves_the_connector_without_tasks_only(
    count: int,
) -> None:
    before = time.process_time()
    state, _ = folded([*rows(CONFIGS), (b"commit-good", b'{"tasks":%d}' % count)])
    assert state.inconsistent == {NAME}
    assert state.tasks(NAME) == ()
    assert time.process_time() - before < 1.0  # no loop counts up to the number
    mended, _ = fold_all(state, [(90, CONFIGS[3]), (91, CONFIGS[4]), (92, CONFIGS[5])])
    assert mended.inconsistent == frozenset()
    assert mended.tasks(NAME) == (TASK, TaskId(NAME, 1))


def test_a_commit_of_an_unknown_connector_is_no_news() -> None:
    log = [*rows(CONFIGS), (b"task-bad-0", b'{"properties":{}}'), (b"commit-bad", b'{"tasks":1}')]
    state, changes = folded(log)
    assert not state.contains("bad")
    assert state.tasks("bad") == ()
    assert "bad" not in changes.committed


def test_a_task_number_at_the_end_of_the_range_is_one() -> None:
    state, _ = folded([*rows(CONFIGS), (b"task-good-2147483647", b'{"properties":{}}')])
    assert state.tasks(NAME) == (TASK, TaskId(NAME, 1))
    state, _ = fold_all(state, [(90, TaskCommit(NAME, 0))])
    assert state.tasks(NAME) == ()


def test_the_last_of_members_that_are_there_twice_counts() -> None:
    assert decode_config(b"commit-c", b'{"tasks":9,"tasks":2}') == TaskCommit("c", 2)
    twice = b'{"properties":{"a":"1","a":"2"}}'
    assert decode_config(b"connector-c", twice) == ConnectorConfig("c", {"a": "2"})
    status = b'{"state":"PAUSED","state":"RUNNING","worker_id":"w","generation":1}'
    assert decode_status(b"status-connector-c", status) == ConnectorStatus(
        "c", Status(State.RUNNING, "w", 1)
    )


def test_a_name_may_be_empty_or_look_like_a_key() -> None:
    log: list[Row] = [
        (b"connector-", b'{"properties":{}}'),
        (b"task--0", b'{"properties":{}}'),
        (b"commit-", b'{"tasks":1}'),
        (b"connector-task-a-0", b'{"properties":{}}'),
        (b"connector-connector-a", b'{"properties":{}}'),
    ]
    state, _ = folded(log)
    assert state.connectors() == ("", "connector-a", "task-a-0")
    assert state.tasks("") == (TaskId("", 0),)


def test_offsets_with_gaps_are_only_offsets() -> None:
    log = rows(CONFIGS)
    gaps = [(7 * at * at, decode_config(*row)) for at, row in enumerate(log)]
    state, changes = fold_all(ClusterState(), gaps)
    dense, same_changes = folded(log)
    assert (state.entries, changes) == (dense.entries, same_changes)
    assert state.offset == 7 * (len(log) - 1) ** 2 + 1


def test_statuses_of_what_does_not_exist_are_kept_until_a_leader_forgets_them() -> None:
    ghost = TaskStatus(TaskId("gone", 2**31 - 1), Status(State.RUNNING, "w9", 2**62))
    shown = fold_statuses(StatusState(), [*STATUSES, ghost])
    assert shown.names() == {NAME, "gone"}
    assert shown.task(TASK) == Status(State.RUNNING, "w1", 4)


def reading(configs: list[Row], statuses: list[Row]) -> HerderState:
    """A worker that has read these topics at its start, and again afterwards."""
    state = HerderState(HerderSettings("http://me:8083/", "me:8083"))
    for start, ready in ((0, True), (len(configs), False)):
        entries = tuple((at, key, value) for at, (key, value) in enumerate(configs, start))
        taken: list[e.Event] = [e.ConfigRead(entries), e.StatusRead(tuple(statuses))]
        for event in [*taken, e.LogsReady()] if ready else taken:
            state, _ = step(state, event, 1_000)
    return state


def test_a_worker_that_starts_amid_hostile_records_knows_what_is_there() -> None:
    configs: list[Row] = [(key, value) for key, value, _ in HOSTILE_CONFIGS]
    configs += [(b"connector-good", value) for value in NOT_JSON]
    statuses: list[Row] = [(key, value) for key, value, _ in HOSTILE_STATUSES]
    statuses += [(b"status-task-good-0", value) for value in NOT_JSON]
    log = [*configs, *rows(CONFIGS), *configs]
    said: list[Row] = [*statuses, *(encode_status(record) for record in STATUSES), *statuses]
    state = reading(log, said)
    assert state.cluster.tasks(NAME) == (TASK, TaskId(NAME, 1))
    assert state.cluster.session_key == KEY
    assert state.statuses == fold_statuses(StatusState(), STATUSES)


PREFIXES = [
    b"",
    b"target-state-",
    b"connector-",
    b"task-",
    b"commit-",
    b"restart-connector-",
    b"tasks-fencing-",
    b"session-key",
    b"logger-cluster-",
    b"status-connector-",
    b"status-task-",
    b"status-topic-",
]
SHAPES = [
    b'{"properties":%s}',
    b'{"tasks":%s}',
    b'{"task-count":%s}',
    b'{"state":%s}',
    b'{"state":"RUNNING","worker_id":"w","generation":%s}',
    b'{"state":"PAUSED","worker_id":%s,"generation":1}',
    b'{"key":%s,"algorithm":"x","creation-timestamp":1}',
    b'{"key":"","algorithm":"x","creation-timestamp":%s}',
    b'{"topic":%s}',
    b'{"topic":{"task":0,"discoverTimestamp":%s}}',
    b'{"level":%s}',
]
json_pieces = st.sampled_from(
    [b"null", b"true", b"-1", b"0", b"1.5", HUGE, b"1" * 30, b'"a"', b"{}", b"[]", b'{"a":1}', b""]
)
any_keys = st.none() | st.builds(
    lambda prefix, rest: prefix + rest,
    st.sampled_from(PREFIXES),
    st.binary(max_size=12)
    | st.sampled_from([b"x", b"x-0", b"x--1", b"x-%s" % HUGE, b"t:connector-x"]),
)
any_values = (
    st.none()
    | st.binary(max_size=40)
    | st.builds(lambda shape, piece: shape % piece, st.sampled_from(SHAPES), json_pieces)
)
any_rows = st.lists(st.tuples(any_keys, any_values), max_size=9)


@settings(max_examples=60)
@given(any_rows)
def test_any_bytes_are_folded_and_what_they_do_not_name_stays_as_it_is(hostile: list[Row]) -> None:
    log = rows(CONFIGS)
    mixed = [row for pair in zip(log, hostile, strict=False) for row in pair]
    mixed += log[len(hostile) :] + hostile[len(log) :]
    decoded = [(at, decode_config(*row)) for at, row in enumerate(mixed)]
    state, _ = fold_all(ClusterState(), decoded)
    clean, _ = folded(log)
    assert state.entries[NAME] == clean.entries[NAME]
    assert state.offset <= len(mixed)
    for connector in state.connectors():
        assert len(state.tasks(connector)) <= len(state.entries[connector].applied)


@settings(max_examples=60)
@given(any_rows, any_rows)
def test_a_worker_takes_any_bytes_from_its_topics(configs: list[Row], statuses: list[Row]) -> None:
    said: list[Row] = [encode_status(record) for record in STATUSES]
    state = reading([*configs, *rows(CONFIGS), *configs], [*statuses, *said])
    assert state.cluster.contains(NAME)
    assert state.statuses.task(TASK) == Status(State.RUNNING, "w1", 4)


@given(any_keys, any_values)
def test_any_bytes_are_an_offset_or_are_skipped(key: bytes | None, value: bytes | None) -> None:
    assert isinstance(decode_offset(key, value), OffsetRecord | SkippedRecord)


def test_an_offset_survives_among_what_is_none() -> None:
    row = encode_offset(OffsetRecord("c", {"file": "x"}, {"position": 2}))
    assert decode_offset(*row) == OffsetRecord("c", {"file": "x"}, {"position": 2})
