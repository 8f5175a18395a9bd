"""When a worker starts, stops and restarts tasks (kafka-connect.md §5, §6)."""

from __future__ import annotations

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder.reconciliation import WARMING_UP
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.records import (
    ConnectorConfig,
    ConnectorStatus,
    RestartRequest,
    State,
    Status,
    Target,
    TargetState,
    TaskCommit,
    TaskStatus,
)
from penstock.ids import TaskId

from .herder_worker import (
    ANY_KEY,
    CONFIG,
    ME,
    T0,
    T1,
    Worker,
    answers,
    leader,
    only,
    phases,
    running,
    shown,
    task_set,
    work,
)


def test_an_assigned_task_is_started_and_shown_running_once_it_runs() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    commands = worker.join(work(T0))
    [start] = only(e.StartTask, commands)
    assert (start.task, start.connector_config, start.task_config) == (T0, CONFIG, {"v": "1"})
    assert shown(commands) == []
    assert shown(worker.take(e.TaskStarted(T0, start.run))) == [("c-0", "RUNNING")]


def test_a_task_waits_for_spark_and_says_why() -> None:
    worker = Worker(spark=False)
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(1))
    worker.take(e.LogsReady())
    commands = worker.join(work(T0))
    assert only(e.StartTask, commands) == []
    [status] = only(e.AppendStatus, commands)
    assert status.record == TaskStatus(T0, Status(State.UNASSIGNED, ME, 1, WARMING_UP))
    assert shown(worker.join()) == []
    assert len(only(e.StartTask, worker.take(e.SparkReady()))) == 1


def test_a_task_that_waits_for_spark_can_be_reassigned_at_once() -> None:
    worker = Worker(spark=False)
    worker.read(ANY_KEY, ConnectorConfig("c", CONFIG), *task_set(1))
    worker.take(e.LogsReady())
    worker.join(work(T0))
    assert e.JoinGroup() in worker.join(revoked=work(T0))
    assert only(e.StartTask, worker.take(e.SparkReady())) == []


def test_a_commit_stops_the_tasks_and_starts_them_after_the_round() -> None:
    worker = running(2)
    commands = worker.read(*task_set(2, "2"))
    assert {stop.task for stop in only(e.StopTask, commands)} == {T0, T1}
    assert e.JoinGroup() in commands
    stopped = worker.stop_all(commands)
    assert only(e.StartTask, stopped) == []
    assert shown(stopped) == [("c-0", "UNASSIGNED"), ("c-1", "UNASSIGNED")]
    starts = only(e.StartTask, worker.join())
    assert {(start.task, start.task_config["v"]) for start in starts} == {(T0, "2"), (T1, "2")}


def test_a_task_that_stops_after_the_round_is_started_at_once() -> None:
    worker = running(1)
    commands = worker.read(*task_set(1, "2"))
    assert only(e.StartTask, worker.join()) == []
    assert len(only(e.StartTask, worker.stop_all(commands))) == 1


def test_a_task_is_not_told_twice_to_stop() -> None:
    worker = running(1)
    worker.read(*task_set(1, "2"))
    assert only(e.StopTask, worker.read(*task_set(1, "3"))) == []


def test_a_starting_task_is_stopped_when_it_has_started() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    [start] = only(e.StartTask, worker.join(work(T0)))
    assert only(e.StopTask, worker.read(*task_set(1, "2"))) == []
    assert only(e.StopTask, worker.take(e.TaskStarted(T0, start.run))) == [
        e.StopTask(T0, start.run)
    ]


def test_pausing_stops_the_tasks_without_a_round_and_resuming_starts_them() -> None:
    worker = running(2)
    paused = worker.read(TargetState("c", Target.PAUSED))
    assert e.JoinGroup() not in paused
    assert shown(paused) == [("c", "PAUSED")]
    assert shown(worker.stop_all(paused)) == [("c-0", "PAUSED"), ("c-1", "PAUSED")]
    resumed = worker.read(TargetState("c", Target.STARTED))
    assert len(only(e.StartTask, resumed)) == 2
    assert len(only(e.StartConnector, resumed)) == 1


def test_a_task_resumed_while_it_stops_starts_again() -> None:
    worker = running(1)
    paused = worker.read(TargetState("c", Target.PAUSED))
    worker.read(TargetState("c", Target.STARTED))
    assert len(only(e.StartTask, worker.stop_all(paused))) == 1


def test_stopping_a_connector_ends_its_tasks_without_a_status() -> None:
    worker = running(1)
    commands = worker.read(TaskCommit("c", 0), TargetState("c", Target.STOPPED))
    assert shown(commands) == [("c", "STOPPED")]
    assert shown(worker.stop_all(commands)) == []


def test_a_deleted_connector_stops_and_gets_no_further_status() -> None:
    worker = running(2)
    commands = worker.read(ConnectorConfig("c", None), TargetState("c", None))
    assert len(only(e.StopTask, commands)) == 2
    assert shown(commands) == []
    assert shown(worker.stop_all(commands)) == []


def test_a_task_that_starts_or_fails_after_its_deletion_gets_no_status() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(2))
    first, second = only(e.StartTask, worker.join(work(T0, T1)))
    worker.read(ConnectorConfig("c", None))
    commands = worker.take(
        e.TaskStarted(first.task, first.run), e.TaskFailed(second.task, second.run, "boom")
    )
    assert shown(commands) == []


def test_a_failed_task_stays_failed_through_rounds_and_pauses() -> None:
    worker = running(1)
    failed = worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    assert shown(failed) == [("c-0", "FAILED")]
    assert shown(worker.join()) == []
    worker.read(TargetState("c", Target.PAUSED), TargetState("c", Target.STARTED))
    worker.join()
    assert phases(worker) == {"c-0": RunPhase.FAILED}


def test_a_failed_task_starts_when_its_configuration_changes() -> None:
    worker = running(1)
    worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    worker.read(*task_set(1, "2"))
    assert len(only(e.StartTask, worker.join())) == 1


@pytest.mark.parametrize("number", [1, 7, -1])
def test_a_task_that_a_connector_does_not_have_is_not_found(number: int) -> None:
    task = TaskId("c", number)
    [(_, result)] = answers(running(1).take(e.Requested("r", e.RestartTask(task))))
    assert result == e.Refused(404, f"Unknown task: {task}")


def test_restarting_a_task_is_shown_and_stops_it_at_once() -> None:
    worker = running(1)
    commands = worker.take(e.Requested("r", e.RestartTask(T0)))
    assert answers(commands) == [("r", e.Done())]
    assert shown(commands) == [("c-0", "RESTARTING")]
    assert len(only(e.StartTask, worker.stop_all(commands))) == 1


def test_restarting_a_failed_task_starts_it() -> None:
    worker = running(1)
    worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    assert len(only(e.StartTask, worker.take(e.Requested("r", e.RestartTask(T0))))) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_restarting_a_task_of_a_paused_connector_ends_in_a_pause(fails: bool) -> None:
    worker = running(1)
    if fails:
        worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    worker.stop_all(worker.read(TargetState("c", Target.PAUSED)))
    commands = worker.take(e.Requested("r", e.RestartTask(T0)))
    assert shown(commands) == [("c-0", "RESTARTING"), ("c-0", "PAUSED")]


def test_restarting_a_connector_starts_its_instance_only() -> None:
    worker = running(1)
    commands = worker.take(e.Requested("r", e.RestartConnector("c")))
    assert shown(commands) == [("c", "RESTARTING")]
    assert len(only(e.StartConnector, commands)) == 1
    assert only(e.StopTask, commands) == []


def test_restarting_a_paused_connector_shows_the_pause_again() -> None:
    worker = running(1)
    worker.read(TargetState("c", Target.PAUSED))
    commands = worker.take(e.Requested("r", e.RestartConnector("c")))
    assert shown(commands) == [("c", "RESTARTING"), ("c", "PAUSED")]


def test_a_restart_request_in_the_topic_reaches_what_it_names() -> None:
    worker = running(2)
    worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))
    commands = worker.read(RestartRequest("c", include_tasks=True, only_failed=True))
    assert [start.task for start in only(e.StartTask, commands)] == [T0]
    assert only(e.StopTask, commands) == []
    everything = worker.read(RestartRequest("c", include_tasks=True, only_failed=False))
    assert len(only(e.StartConnector, everything)) == 1
    assert [stop.task for stop in only(e.StopTask, everything)] == [T1]
    assert only(e.StopTask, worker.read(RestartRequest("c", False, False))) == []


def test_of_several_requests_the_widest_counts() -> None:
    worker = running(2)
    narrow, wide = RestartRequest("c", False, True), RestartRequest("c", True, False)
    commands = worker.read(wide, narrow)
    assert [stop.task for stop in only(e.StopTask, commands)] == [T0, T1]
    assert shown(commands).count(("c", "RESTARTING")) == 1


def known(worker: Worker, *states: State, version: str | None = None) -> None:
    """Sets the known statuses of connector `c` and its tasks."""
    first, *tasks = (Status(state, ME, 1, None, version) for state in states)
    worker.status(
        ConnectorStatus("c", first),
        *(TaskStatus(TaskId("c", number), status) for number, status in enumerate(tasks)),
    )


@pytest.mark.parametrize(
    ("include_tasks", "only_failed", "connector", "tasks"),
    [
        (True, False, State.RESTARTING, [State.RESTARTING, State.RESTARTING]),
        (True, True, State.RUNNING, [State.RUNNING, State.RESTARTING]),
        (False, False, State.RESTARTING, [State.RUNNING, State.FAILED]),
        (False, True, State.RUNNING, [State.RUNNING, State.FAILED]),
    ],
)
def test_a_restart_of_several_is_written_for_all_workers_to_read(
    include_tasks: bool, only_failed: bool, connector: State, tasks: list[State]
) -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(2))
    known(worker, State.RUNNING, State.RUNNING, State.FAILED, version="4.2.0")
    commands = worker.take(e.Requested("r", e.RestartAll("c", include_tasks, only_failed)))
    [append] = only(e.AppendConfig, commands)
    assert append.records == (RestartRequest("c", include_tasks, only_failed),)
    known(worker, *[State.UNASSIGNED] * 3)  # another worker acted before the answer
    now, *then = (Status(state, ME, 1, None, "4.2.0") for state in (connector, *tasks))
    restarting = e.Restarting(now, dict(enumerate(then)))
    assert answers(worker.take(e.Appended(append.ticket, 9))) == [
        ("r", e.Done(restarting=restarting))
    ]


def test_a_restart_without_a_status_is_not_found_once_it_is_written() -> None:
    worker = leader(ConnectorConfig("c", CONFIG))
    commands = worker.take(e.Requested("r", e.RestartAll("c", True, False)))
    refused = e.Refused(404, "Status for connector c not found")
    assert answers(worker.store(commands)) == [("r", refused)]


def test_reports_of_an_older_run_are_ignored() -> None:
    worker = running(1)
    old = worker.state.running.tasks[T0].run
    [start] = only(e.StartTask, worker.stop_all(worker.take(e.Requested("r", e.RestartTask(T0)))))
    assert start.run != old
    before = worker.state
    late = (e.TaskStarted(T0, old), e.TaskFailed(T0, old, "boom"), e.TaskStopped(T0, old))
    assert worker.take(*late) == []
    assert worker.state == before


def test_a_task_that_failed_before_its_start_was_reported_stays_failed() -> None:
    worker = leader(ConnectorConfig("c", CONFIG), *task_set(1))
    [start] = only(e.StartTask, worker.join(work(T0)))
    commands = worker.take(e.TaskFailed(T0, start.run, "boom"), e.TaskStarted(T0, start.run))
    assert shown(commands) == [("c-0", "FAILED")]
    assert phases(worker) == {"c-0": RunPhase.FAILED}


def test_a_failure_while_a_task_stops_is_no_failure() -> None:
    worker = running(1)
    worker.read(TargetState("c", Target.PAUSED))
    assert shown(worker.take(e.TaskFailed(T0, worker.state.running.tasks[T0].run, "boom"))) == []
