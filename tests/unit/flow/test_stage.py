"""The parts of the stage that need neither Spark nor Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.data.records import Column, RecordError, Records, Stage
from penstock.errors import DataError
from penstock.flow import stage
from penstock.flow.plan import Tolerance, TopicGroup
from penstock.flow.stage import RESULT, ToleranceExceeded
from penstock.ids import TaskId

NONE = Tolerance()
ALL = Tolerance(tolerate_all=True)


def failed(rows: list[int], *, offsets: bool = True) -> Records:
    """Three records of topic `t`, some of which have failed."""
    return Records(
        topics=["t"] * 3,
        partitions=[4] * 3,
        timestamps=[None] * 3,
        keys=Column.of([None] * 3, None),
        values=Column.of(["a", "b", "c"], None),
        offsets=[10, 11, 12] if offsets else [],
        errors=[RecordError(row, Stage.VALUE_CONVERTER, DataError("no good")) for row in rows],
    )


def test_records_without_errors_pass() -> None:
    assert stage._judge(failed([]), NONE) == set()


def test_the_first_failed_record_is_named_with_its_place() -> None:
    with pytest.raises(ToleranceExceeded) as raised:
        stage._judge(failed([1, 2]), NONE)
    assert str(raised.value) == (
        "Tolerance exceeded in error handler: VALUE_CONVERTER failed for a record of topic 't', "
        "partition 4, offset 11: no good"
    )
    assert isinstance(raised.value.__cause__, DataError)


def test_a_record_on_its_way_to_kafka_has_no_place_yet() -> None:
    with pytest.raises(ToleranceExceeded, match="for a record of topic 't': no good"):
        stage._judge(failed([0], offsets=False), NONE)


def test_tolerated_rows_are_counted_once() -> None:
    assert stage._judge(failed([0, 2, 2]), ALL) == {0, 2}


@pytest.mark.parametrize(
    ("tolerance", "said"),
    [
        (Tolerance(tolerate_all=True), []),
        (
            Tolerance(tolerate_all=True, log=True),
            ["[c-0] VALUE_CONVERTER failed for a record, which is left out: no good"],
        ),
        (
            Tolerance(tolerate_all=True, log=True, log_messages=True),
            [
                "[c-0] VALUE_CONVERTER failed for a record of topic 't', partition 4, offset 12, "
                "which is left out: no good"
            ],
        ),
    ],
)
def test_tolerated_failures_are_logged_as_far_as_wanted(
    tolerance: Tolerance, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    stage._log_tolerated(TaskId("c", 0), failed([2]), tolerance)
    assert caplog.messages == said


def test_a_row_has_one_error_the_first() -> None:
    batch = failed([1])
    stage._add_errors(batch, {0: DataError("key"), 1: DataError("key")}, Stage.KEY_CONVERTER)
    assert [(error.row, error.stage) for error in batch.errors] == [
        (1, Stage.VALUE_CONVERTER),
        (0, Stage.KEY_CONVERTER),
    ]


TOPICS: list[tuple[list[str], set[int], list[tuple[str, list[int]]]]] = [
    ([], set(), []),
    (["a", "a"], set(), [("a", [0, 1])]),
    (["a", "a"], {0}, [("a", [1])]),
    (["a"], {0}, []),
    (["a", "b", "a"], set(), [("a", [0, 2]), ("b", [1])]),
    (["a", "b", "a"], {1}, [("a", [0, 2])]),
]


@pytest.mark.parametrize(("topics", "failures", "expected"), TOPICS)
def test_rows_are_grouped_by_topic_in_order_without_the_failed(
    topics: list[str], failures: set[int], expected: list[tuple[str, list[int]]]
) -> None:
    grouped = [(topic, list(rows)) for topic, rows in stage._by_topic(topics, failures)]
    assert grouped == expected


def test_a_message_says_only_what_is_known() -> None:
    assert stage._message(None, b"v", None, None) == {"key": None, "value": b"v"}
    assert stage._message(b"k", None, 0, 0) == {
        "key": b"k",
        "value": None,
        "partition": 0,
        "timestamp": 0,
    }


RESULTS: list[tuple[dict[str, int], list[dict[str, Any]]]] = [
    ({}, [{"records": 5, "done": 4, "failed": 1, "topic": ""}]),
    ({"a": 4}, [{"records": 5, "done": 4, "failed": 1, "topic": "a"}]),
    (
        {"a": 3, "b": 1},
        [
            {"records": 5, "done": 4, "failed": 1, "topic": "a"},
            {"records": 0, "done": 0, "failed": 0, "topic": "b"},
        ],
    ),
]


@pytest.mark.parametrize(("topics", "rows"), RESULTS)
def test_a_result_counts_once_and_names_every_topic(
    topics: dict[str, int], rows: list[dict[str, Any]]
) -> None:
    result = stage._result(5, 4, 1, topics)
    assert result.schema == RESULT
    assert result.to_pylist() == rows


def test_an_admin_client_gets_the_producers_connection_and_no_more() -> None:
    producer = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca",
        "sasl.username": "me",
        "linger.ms": 5,
        "acks": "all",
    }
    assert stage._admin_settings(producer) == {
        name: value for name, value in producer.items() if name not in ("linger.ms", "acks")
    }


# ── what is kept open ────────────────────────────────────────────────────────────────────────────


@dataclass
class End:
    """An open end that knows whether it was closed."""

    plan: Plan
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class Plan:
    """As much of a plan as matters here."""

    task: TaskId
    run: int
    made: list[End] = field(default_factory=list, compare=False)


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    """What tests open is not kept for others."""
    before = dict(stage._OPENED)
    stage._OPENED.clear()
    yield
    stage._OPENED.clear()
    stage._OPENED.update(before)


def opened(task: str, run: int) -> End:
    end: End = stage._open(Plan(TaskId(task, 0), run), End)  # type: ignore[arg-type]
    return end


def test_a_run_of_a_task_is_opened_once() -> None:
    assert opened("a", 1) is opened("a", 1)


def test_a_new_run_closes_the_one_before_and_no_others() -> None:
    old, other = opened("a", 1), opened("b", 1)
    new = opened("a", 2)
    assert new is not old
    assert (old.closed, other.closed, new.closed) == (True, False, False)


def test_what_was_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(stage.time, "monotonic", lambda: now[0])
    idle, busy = opened("idle", 1), opened("busy", 1)
    now[0] += 200
    opened("busy", 1)
    now[0] += 200
    assert opened("busy", 1) is busy
    assert idle.closed
    assert not busy.closed


GROUPS = [
    (TopicGroup(("a.*",), (), 1, 1, {}), "abc", True),
    (TopicGroup(("a.*",), (), 1, 1, {}), "xabc", False),  # the whole name has to match
    (TopicGroup(("a.*",), (".*c",), 1, 1, {}), "abc", False),
    (TopicGroup(("x", "a.*"), ("y",), 1, 1, {}), "abc", True),
    (TopicGroup((), (), 1, 1, {}), "abc", False),
]


@pytest.mark.parametrize(("group", "topic", "matches"), GROUPS)
def test_a_topic_group_takes_what_it_includes_and_does_not_exclude(
    group: TopicGroup, topic: str, matches: bool
) -> None:
    assert group.matches(topic) is matches
