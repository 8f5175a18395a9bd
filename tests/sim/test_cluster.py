"""Many workers, one fake clock, a seed: what must hold whatever happens."""

from __future__ import annotations

import pytest

from penstock.cluster import events as e
from penstock.cluster.records import Target
from penstock.ids import TaskId
from penstock.testing.sim import Broken, Chaos, Sim, config


def cluster(workers: int, *, seed: int = 0, connectors: int = 0, tasks: int = 3) -> Sim:
    """A cluster at rest: workers w1, w2, …, connectors c1, c2, …"""
    sim = Sim(seed)
    for number in range(1, workers + 1):
        sim.start(f"w{number}")
    for number in range(1, connectors + 1):
        sim.request("w1", e.PutConfig(f"c{number}", config(f"c{number}", tasks)))
    sim.run_until(sim.balanced)
    return sim


def owned(sim: Sim, name: str) -> set[TaskId]:
    return set(sim.workers[name].live)


# ── trouble ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_a_cluster_survives_two_minutes_of_trouble(first: int) -> None:
    for seed in range(first, first + 20):
        try:
            Chaos(Sim(seed)).run(120_000)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("protocol", ["default", "compatible"])
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_so_does_a_cluster_of_an_older_protocol(protocol: str, first: int) -> None:
    for seed in range(first, first + 10):
        try:
            Chaos(Sim(seed, protocol_name=protocol)).run(120_000)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize(
    ("seed", "protocol", "what"),
    [
        (66, "sessioned", "a round revoked what it had just given, and nobody joined again"),
        (106, "sessioned", "a connector kept through an expulsion was not shown RUNNING again"),
        (168, "sessioned", "an UNASSIGNED from before an expulsion hid the owner's RUNNING"),
        (170, "sessioned", "a late RUNNING of an expelled worker hid the owner's"),
        (40, "sessioned", "a worker that was ahead of the group did not obey a revocation"),
        (833, "sessioned", "a plan of an expelled worker replaced a newer one"),
        (1134, "sessioned", "two leaders' task sets mixed and left statuses behind"),
        (6156, "compatible", "an expelled leader forgot the statuses of what ran elsewhere"),
        (5399, "default", "a status was written after its task was gone"),
    ],
)
def test_seeds_that_once_failed(seed: int, protocol: str, what: str) -> None:
    Chaos(Sim(seed, protocol_name=protocol)).run(120_000)


def test_the_same_seed_is_the_same_history() -> None:
    histories = []
    for _ in range(2):
        sim = Sim(7)
        Chaos(sim).run(60_000)
        histories.append((sim.steps, sim.now, sim.configs, sim.statuses))
    assert histories[0] == histories[1]


# ── single stories ───────────────────────────────────────────────────────────────────────────────


def test_a_restarting_worker_gets_its_tasks_back() -> None:
    sim = cluster(3, connectors=3)
    name = next(worker.name for worker in sim.workers.values() if not worker.leads)
    before = owned(sim, name)
    sim.crash(name)
    sim.advance(12_000)  # its session has ended, the delay has not
    assert sum(len(worker.live) for worker in sim.workers.values()) == 6
    sim.start(name)
    sim.run_until(sim.balanced)
    assert owned(sim, name) == before


def test_a_new_leader_gives_the_old_leaders_work_out_at_once() -> None:
    sim = cluster(3, connectors=3)
    sim.crash(next(worker.name for worker in sim.workers.values() if worker.leads))
    sim.advance(16_000)
    assert sum(len(worker.live) for worker in sim.workers.values()) == 9


def test_a_worker_that_ends_in_order_hands_its_work_on_after_the_delay() -> None:
    sim = cluster(2, connectors=2)
    sim.stop("w1")
    sim.run_until(lambda: "w1" not in sim.workers)
    assert sim.workers["w2"].state.statuses.task(TaskId("c1", 0)) is not None
    sim.run_until(sim.balanced)
    assert len(owned(sim, "w2")) == 6


def test_the_last_worker_ends_in_order_too() -> None:
    sim = cluster(1, connectors=1)
    sim.stop("w1")
    sim.run_until(lambda: not sim.workers)
    assert sim.coordinator.members == {}


def test_a_worker_without_coordinator_runs_nothing_and_is_back_afterwards() -> None:
    sim = cluster(2, connectors=2)
    sim.cut("w1", 60_000)
    sim.advance(9_000)  # shorter than a session
    assert owned(sim, "w1") == set()
    sim.advance(60_000)
    sim.run_until(sim.balanced)
    assert len(owned(sim, "w1")) == 3


def test_a_short_loss_of_the_coordinator_within_the_session_is_recovered_from() -> None:
    # The membership outlives it, so nobody but the worker itself begins another round.
    sim = cluster(2, connectors=2)
    sim.cut("w2", 4_000)
    sim.advance(30_000)
    sim.run_until(sim.balanced)
    assert len(owned(sim, "w2")) == 3


def test_a_request_reaches_the_leader_and_the_owner_from_any_worker() -> None:
    sim = cluster(3, connectors=1)
    for name in sim.workers:
        assert sim.ask(name, e.PutConfig("c1", config("c1", 3, 1))) == e.Done()
        sim.run_until(sim.balanced)
        for number in range(3):
            assert sim.ask(name, e.RestartTask(TaskId("c1", number))) == e.Done()
        assert sim.ask(name, e.RestartConnector("c1")) == e.Done()
        sim.run_until(sim.balanced)


def test_a_stopped_connector_has_no_tasks_until_it_is_resumed() -> None:
    sim = cluster(2, connectors=2)
    assert sim.ask("w2", e.SetTarget("c1", Target.STOPPED)) == e.Done()
    sim.run_until(sim.balanced)
    assert sim.cluster().tasks("c1") == ()
    assert sim.ask("w1", e.SetTarget("c1", Target.STARTED)) == e.Done()
    sim.run_until(sim.balanced)
    assert len(sim.cluster().tasks("c1")) == 3


def test_a_deleted_connector_leaves_nothing_behind() -> None:
    sim = cluster(2, connectors=2)
    assert sim.ask("w2", e.DeleteConnector("c1")) == e.Done()
    sim.run_until(sim.balanced)
    assert "c1" not in sim.shown().names()


def test_a_hundred_connectors_of_ten_tasks_settle_on_ten_workers() -> None:
    sim = cluster(10, connectors=100, tasks=10)
    assert sum(len(worker.live) for worker in sim.workers.values()) == 1_000
    assert sim.coordinator.generation < 60
    sim.crash("w3")
    sim.run_until(sim.balanced)
    assert sum(len(worker.live) for worker in sim.workers.values()) == 1_000


# ── the simulation itself notices ────────────────────────────────────────────────────────────────


def test_a_task_that_runs_twice_is_noticed() -> None:
    sim = cluster(2, connectors=1, tasks=1)
    task = TaskId("c1", 0)
    other = next(worker for worker in sim.workers.values() if task not in worker.live)
    with pytest.raises(Broken, match="c1-0 runs on w1 and w2"):
        other._perform(e.StartTask(task, 99, {}, {}))


def test_a_stop_of_what_does_not_run_is_noticed() -> None:
    sim = cluster(1)
    with pytest.raises(Broken, match="w1 stops c1-0"):
        sim.workers["w1"]._perform(e.StopTask(TaskId("c1", 0), 1))


def test_a_task_that_does_not_run_is_a_problem() -> None:
    sim = cluster(1, connectors=1, tasks=1)
    sim.workers["w1"].live.clear()
    assert sim.problems() == ["c1-0 does not run on w1: None"]
