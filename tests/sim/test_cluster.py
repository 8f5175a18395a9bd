"""Many workers, one fake clock, a seed: what must hold whatever happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.cluster import events as e
from penstock.cluster.fencing import Stage
from penstock.cluster.herder import Phase
from penstock.cluster.records import Target, TaskCommit
from penstock.ids import TaskId
from penstock.testing.sim import LEADER, Broken, Chaos, Sim, config


def cluster(
    workers: int,
    *,
    seed: int = 0,
    connectors: int = 0,
    tasks: int = 3,
    exactly_once: bool = False,
) -> Sim:
    """A cluster at rest: workers w1, w2, …, connectors c1, c2, …"""
    sim = Sim(seed, exactly_once=exactly_once)
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


@pytest.mark.parametrize("protocol", ["sessioned", "compatible", "default"])
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_exactly_once_survives_it_too(protocol: str, first: int) -> None:
    commits = 0
    for seed in range(first, first + 20):
        sim = Sim(seed, protocol_name=protocol, exactly_once=True)
        try:
            Chaos(sim).run(120_000)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        commits += sim.commits
    assert commits > 10_000


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


# ── exactly once ─────────────────────────────────────────────────────────────────────────────────


def generation(sim: Sim, connector: str = "c1") -> int:
    found = sim.cluster().generation(connector)
    assert found is not None
    return found


def reconfigured(sim: Sim, name: str, tasks: int, version: int = 3) -> None:
    """The connector has another task set, and everything that can be is at rest with it."""
    before = generation(sim)
    sim.request(name, e.PutConfig("c1", config("c1", tasks, version)))
    sim.run_until(lambda: generation(sim) > before)
    sim.run_until(lambda: not sim.cluster().pending_fencing)


def other_than(sim: Sim, *names: str) -> str:
    return next(name for name in sim.workers if name not in names)


def leader_of(sim: Sim) -> str:
    return next(worker.name for worker in sim.workers.values() if worker.leads)


def test_a_zombies_transaction_is_refused_once_its_successor_has_begun() -> None:
    sim = cluster(3, connectors=1, exactly_once=True)
    name = other_than(sim, leader_of(sim))
    lost = owned(sim, name)
    sim.hang(name, 90_000)
    sim.advance(80_000)  # expelled, and the delay is over: others have begun
    assert sum(len(worker.live) for worker in sim.workers.values() if worker.name != name) == 3
    fenced = sim.fenced
    sim.advance(15_000)  # it goes on, and tries to commit what it had
    assert sim.fenced - fenced == len(lost) > 0
    sim.run_until(sim.balanced)


def test_tasks_of_a_larger_set_are_fenced_although_no_successor_takes_their_ids() -> None:
    sim = cluster(3, connectors=1, exactly_once=True)
    name = other_than(sim, leader_of(sim))
    lost = [task for task in owned(sim, name) if task.number > 0] or [TaskId("c1", 2)]
    epochs = {task: sim.epochs[str(task)] for task in lost}
    sim.hang(name, 60_000)
    reconfigured(sim, leader_of(sim), 1)
    sim.advance(30_000)
    assert sim.cluster().fencing_count("c1") == 1
    assert all(sim.epochs[str(task)] > epoch for task, epoch in epochs.items())
    sim.advance(60_000)  # the hanging worker is back; whatever it commits would be noticed
    sim.run_until(sim.balanced)


@pytest.mark.parametrize("stage", [Stage.READING, Stage.FENCING, Stage.CHECKING, Stage.WRITING])
@pytest.mark.parametrize("dies", [True, False])
def test_a_round_whose_leader_is_gone_is_done_again_by_the_next(stage: Stage, dies: bool) -> None:
    sim = cluster(3, connectors=1, exactly_once=True)
    old = leader_of(sim)
    sim.request(old, e.PutConfig("c1", config("c1", 2, 3)))

    def there() -> bool:
        return any(each.stage is stage for each in sim.workers[old].state.rounds.values())

    while not there():
        sim.advance(1)
    if dies:
        sim.crash(old)
    else:
        sim.hang(old, 40_000)
    sim.advance(25_000)
    assert leader_of(sim) != old or not dies
    assert sim.cluster().pending_fencing == frozenset()
    sim.advance(60_000)
    for worker in list(sim.workers.values()):  # a late round of the old leader may have hit some
        for task, run in worker.state.tasks.items():
            if run.phase is Phase.FAILED:
                sim.request(worker.name, e.RestartTask(task))
    sim.run_until(sim.balanced)
    assert sim.cluster().fencing_count("c1") == 2


def test_a_leader_that_was_away_does_not_write_what_it_was_asked_before() -> None:
    sim = cluster(3, connectors=1, exactly_once=True)
    old = leader_of(sim)
    sim.hang(old, 20_000)
    request = sim.request(old, e.PutConfig("c1", config("c1", 4, 9)))
    sim.advance(19_000)
    new = next(w.name for w in sim.workers.values() if w.leads and w.name != old)
    assert sim.ask(new, e.PutConfig("c1", config("c1", 2, 6))) == e.Done()
    sim.run_until(lambda: request.result is not None)
    sim.run_until(sim.balanced)
    applied = sim.cluster().config("c1")
    assert applied is not None
    assert (applied["version"] == "9") == (request.result == e.Done())


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


def test_a_commit_after_a_successor_has_begun_is_noticed() -> None:
    sim = cluster(1, connectors=1, tasks=1, exactly_once=True)
    task = TaskId("c1", 0)
    zombie = sim.workers["w1"].live[task]
    successor = replace(zombie, epoch=zombie.epoch)
    sim.begin(task, successor)
    with pytest.raises(Broken, match="c1-0 commits after its successor has started"):
        sim.commit(task, zombie)


def test_a_commit_of_an_older_set_is_noticed() -> None:
    sim = cluster(1, connectors=1, tasks=2, exactly_once=True)
    live = sim.workers["w1"].live
    sim.begin(TaskId("c1", 1), replace(live[TaskId("c1", 1)], generation=1))
    with pytest.raises(Broken, match="c1-0 of an older task set commits"):
        sim.commit(TaskId("c1", 0), live[TaskId("c1", 0)])


def test_a_leader_that_was_fenced_does_not_write() -> None:
    sim = cluster(1, connectors=1, exactly_once=True)
    worker, length = sim.workers["w1"], len(sim.configs)
    sim.take_id(LEADER)
    sim.append_config(worker, e.AppendConfig(0, (TaskCommit("c1", 0),), as_leader=True))
    assert len(sim.configs) == length
