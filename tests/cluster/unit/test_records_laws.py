"""Laws of the internal topics' records, over generated records and bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.offset_records import (
    Members,
    OffsetRecord,
    decode_offset,
    encode_offset,
    partition_key,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    LoggerLevel,
    RestartRequest,
    SessionKey,
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
from penstock.data.java_maps import hash_map_order
from penstock.ids import TaskId

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = texts.filter(bool)
task_ids = st.builds(TaskId, names, st.integers(0, 2**31 - 1))
properties = st.dictionaries(texts, st.none() | texts, max_size=5)
counts = st.integers(0, 10_000)
integers = st.integers(-(2**63), 2**63 - 1)

config_records = st.one_of(
    st.builds(ConnectorConfig, names, st.none() | properties),
    st.builds(TaskConfig, task_ids, properties),
    st.builds(TaskCommit, names, counts),
    st.builds(TargetState, names, st.none() | st.sampled_from(Target)),
    st.builds(TaskFencing, names, counts),
    st.builds(SessionKey, st.binary(max_size=40), texts, integers),
    st.builds(RestartRequest, names, st.booleans(), st.booleans()),
    st.builds(LoggerLevel, texts, texts),
)
stored_states = st.sampled_from([state for state in State if state is not State.DESTROYED])
statuses = st.builds(Status, stored_states, texts, integers, st.none() | texts)
topics = names.filter(lambda name: ":" not in name)
status_records = st.one_of(
    st.builds(ConnectorStatus, names, st.none() | statuses),
    st.builds(TaskStatus, task_ids, st.none() | statuses),
    st.builds(TopicStatus, topics, names, st.none() | st.builds(TopicUse, integers, integers)),
)
primitives = (
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts
)
members = st.dictionaries(texts, primitives, max_size=20)
offsets = st.builds(OffsetRecord, texts, members, st.none() | members)


@given(config_records)
def test_a_config_record_reads_back_as_it_was_written(record: ConfigRecord) -> None:
    assert decode_config(*encode_config(record)) == record


@given(status_records)
def test_a_status_record_reads_back_as_it_was_written(record: StatusRecord) -> None:
    assert decode_status(*encode_status(record)) == record


@given(offsets)
def test_an_offset_record_reads_back_as_it_was_written(record: OffsetRecord) -> None:
    key, value = encode_offset(record)
    read = decode_offset(key, value)
    assert read == record
    assert isinstance(read, OffsetRecord)
    assert encode_offset(read) == (key, value)


@given(properties)
def test_properties_are_written_in_the_order_given(given_properties: dict[str, str | None]) -> None:
    _, value = encode_config(ConnectorConfig("c", given_properties))
    assert value is not None
    assert list(json.loads(value)["properties"].items()) == list(given_properties.items())


junk = st.none() | st.binary(max_size=30)
keys = st.one_of(
    junk,
    st.sampled_from(
        [
            b"connector-c",
            b"task-c-0",
            b"commit-c",
            b"target-state-c",
            b"tasks-fencing-c",
            b"session-key",
            b"restart-connector-c",
            b"logger-cluster-x",
            b"status-connector-c",
            b"status-task-c-0",
            b"status-topic-t:connector-c",
            b'["c",{"a":1}]',
        ]
    ),
)
json_values = st.recursive(
    primitives,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["properties", "tasks", "state", "state.v2", "key", "topic", "task", "level"]
            )
            | texts,
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())


@given(keys, junk | json_values)
def test_readers_never_raise(key: bytes | None, value: bytes | None) -> None:
    decode_config(key, value)
    decode_status(key, value)
    decode_offset(key, value)


@given(members)
def test_a_partition_is_found_whatever_the_order_of_its_members(partition: Members) -> None:
    turned = dict(reversed(partition.items()))
    assert partition_key(partition) == partition_key(turned)


@given(st.lists(texts, unique=True, max_size=40))
def test_hash_map_order_lists_every_key_once_and_is_stable(listed: list[str]) -> None:
    once = hash_map_order(listed)
    assert sorted(once) == sorted(listed)
    assert hash_map_order(once) == once
