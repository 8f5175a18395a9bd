"""The phases of a worker, how it shuts down and when it wakes up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import product

import pytest

from penstock.cluster import events as e
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import CONNECTOR_MOVES, PHASE_MOVES, Run, RunPhase, Runs
from penstock.cluster.herder.state import (
    GROUP_MOVES,
    AwaitingSpark,
    BackingOff,
    GroupPlace,
    Joining,
    Membership,
    Replaying,
    Stable,
    Syncing,
    next_wakeup,
)
from penstock.cluster.protocol import (
    Assignment,
)

from .herder_worker import (
    ANY_KEY,
    CONFIG,
    MY_URL,
    T0,
    T2,
    Worker,
    answers,
    follower,
    leader,
    only,
    running,
    shown,
    task_set,
    work,
)


def test_every_phase_has_its_moves() -> None:
    connectors_only = {RunPhase.STOPPED}
    assert set(PHASE_MOVES) == set(RunPhase) - connectors_only
    assert PHASE_MOVES[RunPhase.STOPPING] == frozenset()
    assert set(CONNECTOR_MOVES) == set(RunPhase) - {
        RunPhase.WAITING,
        RunPhase.FENCING,
        RunPhase.STOPPING,
    }


@pytest.mark.parametrize("moves", [PHASE_MOVES, CONNECTOR_MOVES], ids=["tasks", "connectors"])
def test_a_phase_follows_another_only_as_the_table_says(
    moves: Mapping[RunPhase, frozenset[RunPhase]],
) -> None:
    for before, after in product(moves, RunPhase):
        runs = Runs({"it": Run(1, before)}, moves)
        if after is before or after in moves[before]:
            runs.set("it", Run(2, after))
        else:
            with pytest.raises(AssertionError, match="goes from"):
                runs.set("it", Run(2, after))


def test_a_membership_moves_only_as_the_table_says() -> None:
    member = GroupPlace("m1", 1, "sessioned", "m1", MY_URL)
    phases = [
        Replaying(),
        AwaitingSpark(),
        Joining(),
        Syncing(member, Assignment("m1", MY_URL, 1)),
        Stable(member),
        BackingOff(Joining(member), 1, 1),
    ]
    assert {type(phase) for phase in phases} == set(GROUP_MOVES)
    for before, after in product(phases, phases):
        if type(after) in GROUP_MOVES[type(before)]:
            assert Membership(before).enter(after).phase == after
        else:
            with pytest.raises(AssertionError, match="goes from"):
                Membership(before).enter(after)


def test_a_worker_that_ends_stops_everything_and_leaves_once() -> None:
    worker = running(2)
    commands = worker.take(e.StopRequested())
    assert ("c", "UNASSIGNED") in shown(commands)
    first, second = only(e.StopTask, commands)
    assert e.LeaveGroup() not in worker.take(e.TaskStopped(first.task, first.run))
    last = worker.take(e.TaskStopped(second.task, second.run))
    assert shown(last) == [(str(second.task), "UNASSIGNED")]
    assert last[-1] == e.LeaveGroup()
    assert worker.take(e.Tick(), e.StopRequested()) == []


def test_a_worker_that_runs_nothing_leaves_at_once() -> None:
    assert Worker().take(e.StopRequested()) == [e.LeaveGroup()]


def test_a_worker_that_ends_waits_for_its_writes() -> None:
    worker = leader()
    commands = worker.take(e.Requested("r", e.PutConfig("c", CONFIG)))
    assert worker.take(e.StopRequested()) == []
    last = worker.store(commands)
    assert answers(last) == [("r", e.Done(created=True))]
    assert last[-1] == e.LeaveGroup()


def test_a_worker_that_ends_joins_no_round_and_starts_nothing() -> None:
    worker = running(1)
    worker.take(e.StopRequested())
    assert e.JoinGroup() not in worker.read(*task_set(3, "2"))
    assert only(e.StartTask, worker.join(work(T2))) == []
    assert worker.reported().running == work("c", T0, T2)


def test_a_settled_worker_sleeps_until_its_key_is_old() -> None:
    worker = leader()
    assert next_wakeup(worker.state) == ANY_KEY.created_ms + 3_600_000
    assert next_wakeup(follower().state) is None


def test_one_report_among_a_thousand_tasks_is_cheap() -> None:
    worker = running(1_000)
    run = worker.state.running.tasks[T0].run
    spent = []
    for _ in range(5):
        start = time.process_time()
        step(worker.state, e.TaskFailed(T0, run, "boom"), worker.now)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.005  # 0.1 ms on an idle machine
