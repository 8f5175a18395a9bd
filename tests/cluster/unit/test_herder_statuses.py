"""Which statuses and topics a worker writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.cluster import events as e
from penstock.cluster.records import (
    ConnectorConfig,
    ConnectorStatus,
    State,
    Status,
    TaskStatus,
    TopicStatus,
    TopicUse,
)
from penstock.ids import TaskId

from .herder_worker import (
    CONFIG,
    OTHER,
    T0,
    T1,
    follower,
    leader,
    running,
    shown,
    task_set,
    work,
)


def a_status(state: State, worker: str, generation: int) -> Status:
    return Status(state, worker, generation)


@pytest.mark.parametrize(("generation", "written"), [(1, True), (2, False)])
def test_unassigned_and_failed_do_not_overwrite_a_newer_status(
    generation: int, written: bool
) -> None:
    worker = running(2)
    newer = a_status(State.RUNNING, OTHER, generation)
    worker.status(TaskStatus(T0, newer), TaskStatus(T1, newer))
    failed = worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    stopped = worker.stop_all(worker.take(e.StopRequested()))
    assert (("c-0", "FAILED") in shown(failed)) is written
    assert (("c-1", "UNASSIGNED") in shown(stopped)) is written


def test_running_is_always_written() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    worker.status(TaskStatus(T0, a_status(State.RUNNING, OTHER, 99)))
    assert shown(worker.start_all(worker.join(work(T0)))) == [("c-0", "RUNNING")]


def test_an_owner_corrects_what_a_worker_said_that_had_missed_a_round() -> None:
    worker = running(1)
    worker.join()
    old = a_status(State.UNASSIGNED, OTHER, 1)
    assert shown(worker.status(ConnectorStatus("c", old))) == [("c", "RUNNING")]
    assert shown(worker.status(TaskStatus(T0, replace(old, state=State.PAUSED)))) == [
        ("c-0", "RUNNING")
    ]
    newer = a_status(State.UNASSIGNED, OTHER, 99)
    assert shown(worker.status(ConnectorStatus("c", newer))) == []


def test_an_owner_corrects_a_late_deletion_of_its_statuses() -> None:
    worker = running(1)
    assert shown(worker.status(TaskStatus(T0, None))) == [("c-0", "RUNNING")]
    assert shown(worker.status(ConnectorStatus("c", None))) == [
        ("c", "RUNNING"),
        ("c-0", "RUNNING"),
    ]
    assert shown(worker.status(ConnectorStatus("other", None))) == []


def test_an_owner_that_was_away_corrects_statuses_when_it_is_back() -> None:
    worker = running(1)
    meanwhile = a_status(State.PAUSED, OTHER, 5)
    assert shown(worker.status(ConnectorStatus("c", meanwhile), TaskStatus(T0, meanwhile))) == []
    worker.generation = 6
    assert shown(worker.join()) == [("c", "RUNNING"), ("c-0", "RUNNING")]


def test_the_leader_forgets_the_statuses_of_what_is_gone() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    status = a_status(State.RUNNING, OTHER, 1)
    worker.status(
        ConnectorStatus("gone", status),
        TaskStatus(TaskId("gone", 0), status),
        TopicStatus("t", "gone", TopicUse(0, 1)),
        ConnectorStatus("c", status),
        TaskStatus(T0, status),
        TaskStatus(T1, status),
    )
    assert shown(worker.join()) == [("c-1", None), ("t", None), ("gone-0", None), ("gone", None)]


def test_a_follower_leaves_statuses_of_what_is_gone_to_the_leader() -> None:
    worker = follower()
    worker.status(ConnectorStatus("gone", a_status(State.RUNNING, OTHER, 1)))
    assert shown(worker.join(leads=False)) == []


def test_a_topic_is_noted_once_and_not_for_a_deleted_connector() -> None:
    worker = running(1)
    assert shown(worker.take(e.TopicUsed(T0, "t"))) == [("t", "used")]
    worker.status(TopicStatus("t", "c", TopicUse(0, worker.now)))
    assert worker.take(e.TopicUsed(T0, "t")) == []
    worker.read(ConnectorConfig("c", None))
    assert worker.take(e.TopicUsed(T0, "u")) == []
