"""When a worker itself restarts what has failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import (
    next_wakeup,
)
from penstock.cluster.protocol import (
    NO_WORK,
)
from penstock.cluster.records import (
    ConnectorConfig,
    State,
    Target,
    TargetState,
    TaskStatus,
)
from penstock.cluster.recovery import Causes, RestartPolicy
from penstock.ids import TaskId

from .herder_worker import (
    T0,
    Worker,
    only,
    phases,
    running,
    settings,
    shown,
    work,
)


def recovering(tasks: int = 1, **changes: object) -> Worker:
    policy = RestartPolicy(
        **{"causes": Causes.RETRIABLE, "backoff_ms": 1_000, "attempts": 3} | changes  # type: ignore[arg-type]
    )
    return running(tasks, of=replace(settings(), restarts=lambda config: policy))


def fail(worker: Worker, task: TaskId = T0, *, retriable: bool = True) -> str:
    """Fails the task; returns its trace."""
    run = worker.state.running.tasks[task].run
    commands = worker.take(e.TaskFailed(task, run, "boom", retriable))
    [append] = only(e.AppendStatus, commands)
    assert isinstance(append.record, TaskStatus)
    status = append.record.status
    assert status is not None
    assert status.state is State.FAILED
    return status.trace or ""


def test_a_failed_task_is_restarted_after_a_wait_that_doubles() -> None:
    worker = recovering()
    for attempt, most in enumerate((1_000, 2_000, 4_000), 1):
        assert f"restart {attempt} of 3" in fail(worker)
        due = next_wakeup(worker.state)
        assert due is not None
        assert most * 0.8 <= due - worker.now <= most
        assert worker.tick(due - worker.now - 1) == []
        commands = worker.tick(1)
        assert shown(commands) == [("c-0", "RESTARTING")]
        worker.start_all(commands)
        assert phases(worker) == {"c-0": RunPhase.RUNNING}
    assert "restarted 3 times" in fail(worker)
    assert worker.tick(3_500_000) == []


def test_failures_of_long_ago_do_not_count() -> None:
    worker = recovering(attempts=1, window_ms=60_000)
    fail(worker)
    worker.start_all(worker.tick(1_000))
    worker.tick(60_000)
    assert "restart 1 of 1" in fail(worker)


@pytest.mark.parametrize(
    ("causes", "retriable", "restarts"),
    [
        (Causes.OFF, True, False),
        (Causes.RETRIABLE, False, False),
        (Causes.RETRIABLE, True, True),
        (Causes.ANY, False, True),
    ],
)
def test_the_policy_says_which_failures_are_followed_by_a_restart(
    causes: Causes, retriable: bool, restarts: bool
) -> None:
    worker = recovering(causes=causes)
    trace = fail(worker, retriable=retriable)
    assert (trace == "boom") is not restarts
    assert bool(only(e.StartTask, worker.tick(1_000))) is restarts


def test_a_task_that_somebody_restarts_is_not_restarted_again() -> None:
    worker = recovering()
    fail(worker)
    worker.start_all(worker.take(e.Requested("r", e.RestartTask(T0))))
    assert worker.tick(10_000) == []


def test_a_failed_task_of_a_paused_connector_waits_for_the_resumption() -> None:
    worker = recovering()
    fail(worker)
    worker.read(TargetState("c", Target.PAUSED))
    assert worker.tick(10_000) == []
    worker.read(TargetState("c", Target.STARTED))
    assert len(only(e.StartTask, worker.tick(10_000))) == 1


def test_a_failed_task_that_moves_away_is_its_new_owners() -> None:
    worker = recovering()
    fail(worker)
    worker.join(NO_WORK, revoked=work(T0))
    assert worker.state.running.recoveries == {}
    assert shown(worker.tick(10_000)) == []


def test_a_connector_that_could_not_plan_is_asked_again() -> None:
    worker = recovering()
    [start] = only(e.StartConnector, worker.read(ConnectorConfig("c", {"name": "c", "v": "2"})))
    worker.take(e.ConnectorPlanned("c", start.run, (), "the database is away", retriable=True))
    commands = worker.tick(1_000)
    assert shown(commands) == [("c", "RESTARTING")]
    assert len(only(e.StartConnector, commands)) == 1
