"""Exactly once in the herder: starts of source tasks wait for a round of fencing
(kafka-connect.md §4.2, §4.8, §5.7; KIP-618)."""

from __future__ import annotations

import pytest

from penstock.cluster import events as e
from penstock.cluster.fencing import GIVE_UP_MS
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import next_wakeup
from penstock.cluster.records import ConnectorConfig, Target, TargetState, TaskStatus

from .fencing_worker import (
    CONFIG,
    KEY,
    ONE,
    OTHER_URL,
    SINK,
    T0,
    T1,
    TWO,
    Worker,
    answers,
    follower,
    leader,
    only,
    settings,
    task_set,
    work,
)


def test_a_leader_starts_its_own_tasks_after_a_round() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *TWO)
    reading = worker.join(work(T0, T1))
    assert only(e.StartTask, reading) == []
    assert worker.phase() is RunPhase.FENCING
    starting = worker.store(worker.reached_end(reading))
    assert [(start.task, start.generation) for start in only(e.StartTask, starting)] == [
        (T0, 0),
        (T1, 0),
    ]
    assert worker.state.fencing.preflights == {}


def test_a_follower_asks_the_leader_once_for_all_tasks_of_a_connector() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *TWO)
    [ask] = only(e.ForwardFence, worker.join(work(T0, T1), leader="m2"))
    assert (ask.leader_url, ask.connector) == (OTHER_URL, "c")
    starting = worker.take(e.FenceForwarded("c", ask.ticket))
    assert [start.task for start in only(e.StartTask, starting)] == [T0, T1]


def test_sinks_and_at_least_once_sources_start_at_once() -> None:
    sink = follower(ConnectorConfig("c", SINK), *ONE)
    assert len(only(e.StartTask, sink.join(work(T0), leader="m2"))) == 1
    preparing = Worker(settings(exactly_once=False))
    preparing.read(KEY, ConnectorConfig("c", CONFIG), *ONE)
    preparing.take(e.LogsReady())
    assert len(only(e.StartTask, preparing.join(work(T0), leader="m2"))) == 1


def test_a_wish_that_is_not_granted_is_repeated_for_a_minute_and_then_fails_the_tasks() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    begin, waits = worker.now, list[int]()
    while True:
        commands = worker.take(e.FenceForwarded("c", ask.ticket, e.Refused(500, "no coordinator")))
        if worker.phase() is RunPhase.FAILED:
            break
        wakeup = next_wakeup(worker.state)
        assert wakeup is not None
        waits.append(wakeup - worker.now)
        [ask] = only(e.ForwardFence, worker.tick(waits[-1]))
    assert waits[:6] == [250, 500, 1_000, 2_000, 4_000, 5_000]
    assert worker.now - begin >= GIVE_UP_MS
    [status] = only(e.AppendStatus, commands)
    assert isinstance(status.record, TaskStatus)
    assert status.record.status is not None
    assert status.record.status.trace == "no coordinator"
    assert worker.state.fencing.preflights == {}


@pytest.mark.parametrize("status", [400, 404])
def test_a_refusal_for_good_fails_the_tasks_at_once(status: int) -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.take(e.FenceForwarded("c", ask.ticket, e.Refused(status, "no")))
    assert worker.phase() is RunPhase.FAILED


def test_a_failed_wish_is_made_again_when_the_task_is_restarted() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.take(e.FenceForwarded("c", ask.ticket, e.Refused(400, "no")))
    assert len(only(e.ForwardFence, worker.take(e.Requested("r", e.RestartTask(T0))))) == 1


def test_a_new_leader_is_asked_at_once() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    [again] = only(e.ForwardFence, worker.join(leader="m3"))
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []
    assert len(only(e.StartTask, worker.take(e.FenceForwarded("c", again.ticket)))) == 1


def test_an_answer_about_an_older_task_set_starts_nothing() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.read(*task_set(1, "2"))
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []
    [again] = only(e.ForwardFence, worker.join(leader="m2"))
    [start] = only(e.StartTask, worker.take(e.FenceForwarded("c", again.ticket)))
    assert start.generation == 1


def test_an_answer_during_a_round_of_the_group_counts_afterwards() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.take(e.MetadataRequested("metadata"))
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []
    assert len(only(e.StartTask, worker.join(leader="m2"))) == 1


def test_a_task_that_waits_to_be_started_is_reassigned_at_once() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    commands = worker.join(revoked=work(T0), leader="m2")
    assert commands[-1] == e.JoinGroup()
    assert worker.state.running.tasks == {}
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []


def test_in_an_eager_group_it_does_not_keep_the_group_waiting() -> None:
    worker = Worker()
    worker.protocol = "default"
    worker.read(ConnectorConfig("c", CONFIG), *ONE)
    worker.take(e.LogsReady())
    worker.join(work(T0), leader="m2")
    assert len(only(e.ReturnMetadata, worker.take(e.MetadataRequested("metadata")))) == 1


def test_a_task_that_waits_is_paused_at_once() -> None:
    worker = follower(ConnectorConfig("c", CONFIG), *ONE)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    worker.read(TargetState("c", Target.PAUSED))
    assert worker.phase() is RunPhase.PAUSED
    assert worker.take(e.FenceForwarded("c", ask.ticket)) == []


def starting() -> tuple[Worker, e.StartTask]:
    worker = follower(ConnectorConfig("c", CONFIG), *TWO)
    [ask] = only(e.ForwardFence, worker.join(work(T0), leader="m2"))
    [start] = only(e.StartTask, worker.take(e.FenceForwarded("c", ask.ticket)))
    return worker, start


def checked(worker: Worker, start: e.StartTask) -> e.Result:
    check = e.CheckStart(start.task, start.run, start.generation)
    [(_, result)] = answers(worker.take(e.Requested("check", check)))
    return result


def test_a_task_that_is_still_wanted_may_begin_also_during_a_round_of_the_group() -> None:
    worker, start = starting()
    assert checked(worker, start) == e.Done()
    worker.take(e.MetadataRequested("metadata"))
    assert checked(worker, start) == e.Done()


def test_a_task_of_an_older_set_may_not_begin() -> None:
    worker, start = starting()
    worker.read(*task_set(2, "2"))
    assert checked(worker, start) == e.Refused(
        500,
        "Cannot start source task c-0 with exactly-once support as the connector has already "
        "generated a new set of task configs",
    )


def test_a_reassigned_task_may_not_start() -> None:
    worker, start = starting()
    text = "Cannot start source task c-0 as it has already been revoked from this worker"
    worker.join(revoked=work(T0), leader="m2")
    assert checked(worker, start) == e.Refused(500, text)
    worker, start = starting()
    worker.take(e.CoordinatorLost())
    assert checked(worker, start) == e.Refused(500, text)
    worker, start = starting()
    worker.take(e.StopRequested())
    assert checked(worker, start) == e.Refused(500, text)


def test_a_task_that_may_not_start_because_it_was_reassigned_is_not_failed() -> None:
    worker, start = starting()
    worker.join(revoked=work(T0), leader="m2")
    commands = worker.take(e.TaskFailed(T0, start.run, "revoked"))
    records = [append.record for append in only(e.AppendStatus, commands)]
    assert [
        record.status and record.status.state
        for record in records
        if isinstance(record, TaskStatus)
    ] == ["UNASSIGNED"]


def test_a_task_of_an_old_set_starts_again_with_the_new_one() -> None:
    worker, start = starting()
    worker.read(*task_set(2, "2"))
    worker.take(e.TaskFailed(T0, start.run, "old"))
    [ask] = only(e.ForwardFence, worker.join(leader="m2"))
    [again] = only(e.StartTask, worker.take(e.FenceForwarded("c", ask.ticket)))
    assert again.generation == 1
