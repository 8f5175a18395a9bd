"""Many workers, one fake clock, a seed: what must always hold."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from penstock.cluster import events as e
from penstock.cluster.fencing import FencingStage
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.protocol import Assignment, encode_assignment
from penstock.cluster.records import (
    ConnectorStatus,
    State,
    Status,
    Target,
    TaskCommit,
    TaskConfig,
    TaskStatus,
    encode_config,
    encode_status,
)
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId
from tests.cluster.simulated import Sim, chaos, simulation
from tests.cluster.simulated.chaos import kind_of, survive
from tests.cluster.simulated.connectors import config
from tests.cluster.simulated.faults import NO_FAULTS, Broken
from tests.cluster.simulated.tasks import LEADER


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


FIRST, SEEDS, AT_ONCE = 0, 100, 25
"""The seeds that every run tries; `make soak` tries many more."""


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, AT_ONCE))
def test_a_cluster_survives_two_minutes_of_trouble(first: int) -> None:
    commits = sum(survive(seed).transactions.commits for seed in range(first, first + AT_ONCE))
    assert commits > 5_000  # of the seeds that deliver exactly once


def test_every_protocol_has_its_share_of_the_seeds() -> None:
    kinds = {kind_of(seed) for seed in range(FIRST, FIRST + SEEDS)}
    assert kinds == set(product(("sessioned", "compatible", "default"), (False, True)))


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
        (123, "sessioned", "half a task set was left, and its commit compacted to one with holes"),
        (219, "sessioned", "the same, with a worker that starts after it"),
        (288, "sessioned", "the same"),
        (939, "sessioned", "a tombstone was compacted away before a status it had outdated"),
    ],
)
def test_seeds_that_once_failed(seed: int, protocol: str, what: str) -> None:
    survive(seed, protocol, exactly_once=False)


@pytest.mark.parametrize(("arguments", "code"), [((), 0), (("--protocol", "nonsense"), 2)])
def test_the_command_says_how_many_passed(arguments: tuple[str, ...], code: int) -> None:
    command = [sys.executable, "-m", "tests.cluster.simulated.chaos", "--seeds", "2", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code
    assert ("2 of 2 seeds passed, 0 failed" in done.stdout) == (code == 0)


def test_the_command_names_the_seed_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int, protocol: str | None, exactly_once: bool | None) -> None:
        raise AssertionError(f"seed {seed}: c1-0 runs on w1 and w2")

    monkeypatch.setattr(chaos, "survive", fails)
    job, error = chaos._outcome((7, None, None))
    assert job == (7, None, None)
    assert error == "seed 7: c1-0 runs on w1 and w2"


def test_the_same_seed_is_the_same_history() -> None:
    histories = []
    for _ in range(2):
        sim = survive(7)
        histories.append((sim.steps, sim.now, sim.configs.rows, sim.statuses.rows))
    assert histories[0] == histories[1]


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
    # The membership outlives it, so only the worker itself starts a rebalance.
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


def test_a_worker_that_starts_after_compaction_sees_what_the_others_see() -> None:
    sim = cluster(2, connectors=3)
    for version in range(3, 12, 3):
        assert sim.ask("w1", e.PutConfig("c1", config("c1", 2, version))) == e.Done()
        sim.run_until(sim.balanced)
    assert sim.ask("w2", e.DeleteConnector("c2")) == e.Done()
    sim.run_until(sim.balanced)
    written = len(sim.configs)
    sim.compact(1.0)
    offsets = [offset for offset, _, _ in sim.configs.read(0, written)]
    assert offsets != list(range(len(offsets)))  # they have gaps
    sim.start("w3")
    sim.run_until(sim.balanced)
    assert not sim.workers["w3"].whole
    assert sim.workers["w3"].state.cluster.offset == written
    for connector in ("c1", "c3"):
        old, new = (sim.workers[name].state.cluster for name in ("w1", "w3"))
        assert new.task_configs(connector) == old.task_configs(connector)
    assert sim.workers["w3"].state.cluster.generation("c1") == 0  # of four: it has seen one commit


def test_tombstones_go_once_everybody_has_read_them() -> None:
    sim = cluster(2, connectors=2)
    assert sim.ask("w1", e.DeleteConnector("c1")) == e.Done()
    sim.run_until(sim.balanced)
    assert sim.ask("w1", e.PutConfig("c3", config("c3", 1))) == e.Done(created=True)
    sim.run_until(sim.balanced)
    keys = []
    for _ in range(2):
        sim.compact(1.0)
        keys.append({key for _, key, _ in sim.configs.read(0, len(sim.configs))})
    assert b"connector-c1" in keys[0] - keys[1]
    sim.start("w3")
    sim.run_until(sim.balanced)


def test_users_that_write_to_all_workers_at_once_get_one_outcome() -> None:
    sim = cluster(3, connectors=1)
    sim.request("w1", e.PutConfig("c1", config("c1", 1, 3)))
    sim.request("w2", e.DeleteConnector("c1"))
    sim.request("w3", e.PutConfig("c1", config("c1", 2, 6)))
    sim.request("w2", e.SetTarget("c1", Target.PAUSED))
    sim.request("w1", e.RestartAll("c1", include_tasks=True, only_failed=False))
    sim.run_until(sim.balanced)
    assert all(request.result is not None for request in sim.requests)


@pytest.mark.parametrize("ms", [-60_000, 60_000])
def test_a_clock_that_is_set_moves_nothing(ms: int) -> None:
    sim = cluster(3, connectors=3)
    before = {name: owned(sim, name) for name in sim.workers}
    for name in list(sim.workers):
        sim.jump(name, ms)
        sim.advance(30_000)
        sim.jump(name, -ms)
    sim.run_until(sim.balanced)
    assert {name: owned(sim, name) for name in sim.workers} == before


@pytest.mark.parametrize("ms", [-60_000, 60_000])
def test_a_clock_change_of_the_leader_does_not_prolong_a_rebalance_delay(ms: int) -> None:
    sim = cluster(3, connectors=3)
    leader = leader_of(sim)
    sim.crash(other_than(sim, leader))
    sim.advance(12_000)
    sim.jump(leader, ms)
    sim.run_until(sim.balanced, 120_000)


def test_a_worker_that_is_back_at_once_under_its_name_takes_part_as_itself() -> None:
    sim = cluster(3, connectors=3)
    name = other_than(sim, leader_of(sim))
    for _ in range(3):  # the group still has its old members
        sim.crash(name)
        sim.start(name)
        sim.advance(2_000)
    assert len(sim.coordinator.members) > 3
    sim.run_until(sim.balanced)
    assert len(sim.coordinator.members) == 3


def test_a_write_that_is_stored_when_nobody_waits_for_it_counts_all_the_same() -> None:
    sim = cluster(2, connectors=1)
    sim.faults = replace(NO_FAULTS, append_is_late=1.0)
    random, sim.random = sim.random, Slow()
    request = sim.request(leader_of(sim), e.PutConfig("c1", config("c1", 3, 1)))
    sim.advance(35_000)
    sim.random, sim.faults = random, NO_FAULTS
    assert isinstance(request.result, e.Refused)
    assert request.result.status == 500
    sim.advance(15_000)
    applied = sim.cluster().config("c1")
    assert applied is not None
    assert applied["version"] == "1"
    sim.run_until(sim.balanced)


class Slow(Random):
    """Everything takes as long as it can, and nothing waits in a process that may crash."""

    def randint(self, a: int, b: int) -> int:
        return b

    def random(self) -> float:
        return 0.5


def test_messages_between_a_group_and_its_coordinator_may_be_lost() -> None:
    sim = cluster(3, connectors=3)
    sim.faults = replace(NO_FAULTS, message_is_lost=0.2, message_is_late=0.2)
    sim.start("w4")
    sim.advance(60_000)
    sim.faults = NO_FAULTS
    sim.run_until(sim.balanced)


def test_requests_between_workers_may_be_lost_or_late() -> None:
    sim = cluster(3, connectors=2)
    sim.faults = replace(NO_FAULTS, forward_is_lost=0.3, forward_is_late=0.3)
    for version in range(3, 30, 3):
        for name in sim.workers:
            sim.request(name, e.PutConfig("c1", config("c1", version % 4, version)))
        sim.advance(5_000)
    sim.faults = NO_FAULTS
    sim.advance(100_000)
    for connector in sorted(sim.suspects):
        sim.request("w1", e.RestartConnector(connector))
    sim.run_until(sim.balanced)


def test_half_of_a_task_set_is_completed_before_compaction_makes_holes_of_it() -> None:
    # The leader died between a set and its commit. Workers that read everything still have the
    # older set; for those started after compaction, its commit lacks the rewritten records.
    sim = cluster(2, connectors=2)
    half = sim.planned("c1")[:2]
    sim.write_config(*(encode_config(TaskConfig(TaskId("c1", n), t)) for n, t in enumerate(half)))
    sim.advance(1_000)
    assert sim.ask("w1", e.RestartConnector("c1")) == e.Done()
    assert sim.ask("w1", e.PutConfig("c2", config("c2", 1, 3))) == e.Done()
    sim.run_until(sim.balanced)
    sim.compact(1.0)
    for name in ("w3", "w4", "w5"):  # four tasks on five workers: some run on these
        sim.start(name)
    sim.run_until(sim.balanced, 120_000)


def test_late_statuses_do_not_hide_a_running_task() -> None:
    sim = cluster(2, connectors=1)
    late = Status(State.UNASSIGNED, "gone:8083", 0)
    for number in range(3):
        sim.write_status(encode_status(TaskStatus(TaskId("c1", number), late)))
    sim.write_status((b"the last record is in no segment that is compacted", None))
    sim.advance(10_000)
    sim.compact(1.0)
    sim.start("w3")
    sim.run_until(sim.balanced, 120_000)


def test_a_task_that_is_gone_is_not_shown_again_by_compaction() -> None:
    # A status written while its connector was being deleted.
    sim = cluster(2, connectors=1)
    late = Status(State.RUNNING, "gone:8083", 1)
    sim.write_status(encode_status(TaskStatus(TaskId("c1", 7), late)))
    sim.write_status(encode_status(ConnectorStatus("c1", None)))
    sim.run_until(sim.balanced)
    sim.compact(1.0)
    sim.start("w3")
    sim.run_until(sim.balanced, 120_000)


def generation(sim: Sim, connector: str = "c1") -> int:
    count = sim.cluster().generation(connector)
    assert count is not None
    return count


def reconfigured(sim: Sim, name: str, tasks: int, version: int = 3) -> None:
    """Waits until the connector has a new task set, and its fencing is done."""
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
    fenced = sim.transactions.fenced
    sim.advance(15_000)  # it resumes, and tries to commit what it had
    assert sim.transactions.fenced - fenced == len(lost) > 0
    sim.run_until(sim.balanced)


def test_tasks_of_a_larger_set_are_fenced_although_no_successor_takes_their_ids() -> None:
    sim = cluster(3, connectors=1, exactly_once=True)
    name = other_than(sim, leader_of(sim))
    lost = [task for task in owned(sim, name) if task.number > 0] or [TaskId("c1", 2)]
    epochs = {task: sim.transactions.epochs[str(task)] for task in lost}
    sim.hang(name, 60_000)
    reconfigured(sim, leader_of(sim), 1)
    sim.advance(30_000)
    assert sim.cluster().fencing_count("c1") == 1
    assert all(sim.transactions.epochs[str(task)] > epoch for task, epoch in epochs.items())
    sim.advance(60_000)  # the hung worker is back; any commit of it would be noticed
    sim.run_until(sim.balanced)


@pytest.mark.parametrize(
    "stage",
    [FencingStage.READING, FencingStage.FENCING, FencingStage.CHECKING, FencingStage.WRITING],
)
@pytest.mark.parametrize("dies", [True, False])
def test_the_next_leader_repeats_an_interrupted_fencing_round(
    stage: FencingStage, dies: bool
) -> None:
    sim = cluster(3, connectors=1, exactly_once=True)
    old = leader_of(sim)
    sim.request(old, e.PutConfig("c1", config("c1", 2, 3)))

    def is_reached() -> bool:
        rounds = sim.workers[old].state.fencing.rounds
        return any(fencing.stage is stage for fencing in rounds.values())

    while not is_reached():
        sim.advance(1)
    if dies:
        sim.crash(old)
    else:
        sim.hang(old, 40_000)
    sim.advance(25_000)
    assert leader_of(sim) != old or not dies
    assert sim.cluster().pending_fencing == frozenset()
    sim.advance(60_000)
    for worker in list(sim.workers.values()):  # the old leader's late round may have fenced some
        for task, run in worker.state.running.tasks.items():
            if run.phase is RunPhase.FAILED:
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
    sim.transactions.begin(task, successor)
    with pytest.raises(Broken, match="c1-0 commits after its successor has started"):
        sim.transactions.commit(task, zombie)


def test_a_commit_of_an_older_set_is_noticed() -> None:
    sim = cluster(1, connectors=1, tasks=2, exactly_once=True)
    live = sim.workers["w1"].live
    sim.transactions.begin(TaskId("c1", 1), replace(live[TaskId("c1", 1)], task_set=2))
    with pytest.raises(Broken, match="c1-0 of an older task set commits"):
        sim.transactions.commit(TaskId("c1", 0), live[TaskId("c1", 0)])


def test_a_leader_that_was_fenced_does_not_write() -> None:
    sim = cluster(1, connectors=1, exactly_once=True)
    worker, length = sim.workers["w1"], len(sim.configs)
    sim.transactions.init_producer(LEADER)
    worker.producers.append_config(e.AppendConfig(0, (TaskCommit("c1", 0),), as_leader=True))
    assert len(sim.configs) == length


def test_a_worker_that_sees_another_cluster_than_the_others_is_noticed() -> None:
    sim = cluster(2, connectors=2)
    worker = sim.workers["w2"]
    entries = dict(worker.state.cluster.entries)
    entries["c1"] = replace(entries["c1"], fencing_count=7)
    seen = replace(worker.state.cluster, entries=entries)
    worker.state = replace(worker.state, cluster=seen)
    with pytest.raises(Broken, match=r"w2 at offset \d+ sees c1"):
        sim.problems()
    sim.request("w1", e.SetTarget("c1", Target.PAUSED))
    with pytest.raises(Broken, match=r"w2 at offset \d+ sees c1"):
        sim.advance(10_000)


def test_a_worker_whose_statuses_are_not_the_topics_is_a_problem() -> None:
    sim = cluster(2, connectors=1)
    worker = sim.workers["w1"]
    worker.state = replace(worker.state, statuses=StatusState())
    problems = sim.problems()
    assert len(problems) == 4
    assert problems[0].startswith("w1 sees None as the status of c1, which is Status(")


def test_a_task_set_that_is_counted_down_is_noticed() -> None:
    sim = cluster(1, connectors=1)
    worker = sim.workers["w1"]
    before = worker.state.cluster
    later = replace(before.entries["c1"], generation=5)
    with pytest.raises(Broken, match="w1 counts c1's task sets down: 5, 0"):
        worker.check_config(replace(before, offset=0, entries={"c1": later}))


def test_a_generation_that_goes_back_is_noticed() -> None:
    sim = cluster(1, connectors=1)
    worker = sim.workers["w1"]
    data = encode_assignment(Assignment("m1", "http://w1:8083/", 1), 2)
    with pytest.raises(Broken, match="w1 is in generation 0 after a later one"):
        worker.post(e.Joined(0, "m1", "sessioned", data))


def test_a_status_of_an_earlier_generation_is_noticed() -> None:
    sim = cluster(1, connectors=1)
    status = TaskStatus(TaskId("c1", 0), Status(State.RUNNING, "w1:8083", 0))
    with pytest.raises(Broken, match="after a later generation"):
        sim.workers["w1"]._perform(e.AppendStatus(status))


def test_a_cluster_that_never_rests_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = cluster(1, connectors=1)
    monkeypatch.setattr(simulation, "MOST_STEPS", sim.steps + 3)
    sim.request("w1", e.PutConfig("c1", config("c1", 1, 3)))
    with pytest.raises(Broken, match="does not come to rest"):
        sim.advance(60_000)


def test_work_that_begins_at_another_offset_than_was_agreed_on_is_noticed() -> None:
    sim = cluster(1, connectors=1)
    worker = sim.workers["w1"]
    offset = worker.state.cluster.offset
    worker._assignment = Assignment("m1", "http://w1:8083/", offset + 1)
    with pytest.raises(Broken, match=f"w1 begins work at offset {offset}, but was given"):
        worker._check_agreement()
