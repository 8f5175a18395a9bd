"""Which status wins (kafka-connect.md §4.4)."""

from __future__ import annotations

import pytest

from penstock.cluster.records import (
    ConnectorStatus,
    SkippedRecord,
    State,
    Status,
    TaskStatus,
    TopicStatus,
    TopicUse,
)
from penstock.cluster.statuses import StatusState, fold_status, fold_statuses, may_put_safely
from penstock.ids import TaskId

TASK = TaskId("c", 0)


def status(state: State, generation: int = 1, worker: str = "w1") -> Status:
    return Status(state, worker, generation)


SAFE = [
    (None, True),
    (Status(State.RUNNING, "me", 9), True),
    (Status(State.RUNNING, "other", 2), True),
    (Status(State.RUNNING, "other", 3), True),
    (Status(State.RUNNING, "other", 4), False),
]


@pytest.mark.parametrize(("cached", "allowed"), SAFE)
def test_a_safe_write_does_not_overwrite_a_newer_worker(
    cached: Status | None, allowed: bool
) -> None:
    assert may_put_safely(cached, "me", 3) is allowed


LATE = [
    (State.RUNNING, 2, State.UNASSIGNED, 1, False),
    (State.RUNNING, 2, State.UNASSIGNED, 2, False),
    (State.RUNNING, 2, State.UNASSIGNED, 3, True),
    (State.PAUSED, 2, State.UNASSIGNED, 1, True),
    (State.RUNNING, 2, State.FAILED, 1, True),
    (State.RUNNING, 2, State.RUNNING, 1, True),
]


@pytest.mark.parametrize(("cached", "cached_generation", "state", "generation", "wins"), LATE)
def test_the_last_status_wins_but_for_a_late_unassigned(
    cached: State, cached_generation: int, state: State, generation: int, wins: bool
) -> None:
    before, after = status(cached, cached_generation), status(state, generation)
    folded = fold_statuses(StatusState(), [TaskStatus(TASK, before), TaskStatus(TASK, after)])
    assert folded.task(TASK) == (after if wins else before)


def test_a_connectors_unassigned_always_wins() -> None:
    after = status(State.UNASSIGNED, 1)
    folded = fold_statuses(
        StatusState(),
        [ConnectorStatus("c", status(State.RUNNING, 2)), ConnectorStatus("c", after)],
    )
    assert folded.connector("c") == after


def test_a_connectors_tombstone_drops_its_tasks_and_nobody_elses() -> None:
    running = status(State.RUNNING)
    use = TopicUse(0, 1)
    folded = fold_statuses(
        StatusState(),
        [
            ConnectorStatus("c", running),
            TaskStatus(TASK, running),
            TaskStatus(TaskId("d", 0), running),
            TopicStatus("t", "c", use),
            ConnectorStatus("c", None),
        ],
    )
    assert folded == StatusState({}, {"d": {0: running}}, {"c": {"t": use}})
    assert folded.names() == {"d"}


def test_a_tasks_tombstone_drops_that_task() -> None:
    running = status(State.RUNNING)
    both = fold_statuses(StatusState(), [TaskStatus(TaskId("c", n), running) for n in (1, 0)])
    assert list(both.tasks_of("c")) == [TaskId("c", 0), TaskId("c", 1)]
    one = fold_status(both, TaskStatus(TASK, None))
    assert one.tasks_of("c") == {TaskId("c", 1): running}
    assert both.task(TASK) == running
    assert fold_status(one, TaskStatus(TaskId("c", 1), None)) == StatusState()


def test_topics_are_remembered_until_their_tombstone() -> None:
    use = TopicUse(0, 5)
    folded = fold_statuses(
        StatusState(), [TopicStatus("b", "c", use), TopicStatus("a", "c", use), SkippedRecord("x")]
    )
    assert list(folded.topics_of("c")) == ["a", "b"]
    assert fold_status(folded, TopicStatus("a", "c", None)).topics_of("c") == {"b": use}
