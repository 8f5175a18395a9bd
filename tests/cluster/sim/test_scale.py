"""A cluster's cost stays proportional to what it runs."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

import pytest

from penstock.cluster import events as e
from penstock.cluster.assign import Memory, assign_cooperative, assign_eager
from penstock.cluster.protocol import Assignment, MemberMetadata, Work
from penstock.ids import TaskId
from tests.cluster.simulated import Sim
from tests.cluster.simulated.connectors import config

TASKS = 10  # of each connector
WORKERS, CONNECTORS = (50, 1_000) if "PENSTOCK_SOAK_S" in os.environ else (20, 300)


def settled(workers: int, connectors: int) -> Sim:
    """A cluster at rest; all connectors were created at once."""
    sim = Sim(0)
    for number in range(1, workers + 1):
        sim.start(f"w{number}")
    for number in range(1, connectors + 1):
        sim.request("w1", e.PutConfig(f"c{number}0", config(f"c{number}0", TASKS)))
    sim.run_until(sim.balanced)
    return sim


def running(sim: Sim) -> int:
    return sum(len(worker.live) for worker in sim.workers.values())


def test_a_hundred_connectors_settle_on_ten_workers_and_survive_one_of_them() -> None:
    sim = settled(10, 100)
    assert running(sim) == 1_000
    assert sim.coordinator.generation < 60
    sim.crash("w3")
    sim.run_until(sim.balanced)
    assert running(sim) == 1_000


@pytest.mark.timeout(900)
def test_many_connectors_of_ten_tasks_settle_on_many_workers() -> None:
    before = time.process_time()
    sim = settled(WORKERS, CONNECTORS)
    assert running(sim) == CONNECTORS * TASKS
    assert sim.coordinator.generation < 60
    # Every worker reads all records, 23 of each connector, at some 25 µs each.
    assert time.process_time() - before < WORKERS * CONNECTORS * 23 * 170e-6


def configured(tasks: int) -> Work:
    connectors = tuple(f"c{number:06}" for number in range(tasks // TASKS))
    return Work(connectors, tuple(TaskId(c, n) for c in connectors for n in range(TASKS)))


def members(work: Work, count: int = 10) -> dict[str, MemberMetadata]:
    """Members that run this work, balanced except for the last one, which has just joined."""
    held = [
        Work(work.connectors[number :: count - 1], work.tasks[number :: count - 1])
        for number in range(count - 1)
    ]
    return {
        f"m{number}": MemberMetadata("u", 1, Assignment("m0", "u", 1, part))
        for number, part in enumerate([*held, Work()])
    }


def share_out(given: dict[str, MemberMetadata], work: Work) -> None:
    assign_cooperative(
        Memory(),
        given,
        work,
        last_completed_generation=1,
        generation=2,
        now_ms=1_000,
        max_delay_ms=300_000,
    )


def eagerly(tasks: int) -> Callable[[], object]:
    work = configured(tasks)
    return lambda: assign_eager([f"m{number}" for number in range(10)], work)


def from_nothing(tasks: int) -> Callable[[], object]:
    work = configured(tasks)
    return lambda: share_out(members(Work()), work)


def to_a_newcomer(tasks: int) -> Callable[[], object]:
    work = configured(tasks)
    given = members(work)
    return lambda: share_out(given, work)


def after_a_loss(tasks: int) -> Callable[[], object]:
    work = configured(tasks)
    given = members(work)
    del given["m0"]
    return lambda: share_out(given, work)


def duration(act: Callable[[], object]) -> float:
    """The best of several runs, in CPU seconds, without garbage collections."""
    took = []
    gc.disable()
    try:
        for _ in range(7):
            before = time.process_time()
            act()
            took.append(time.process_time() - before)
    finally:
        gc.enable()
    return min(took)


@pytest.mark.parametrize("case", [eagerly, from_nothing, to_a_newcomer, after_a_loss])
def test_four_times_the_tasks_take_about_four_times_as_long_to_share_out(
    case: Callable[[int], Callable[[], object]],
) -> None:
    small, large = duration(case(20_000)), duration(case(80_000))
    assert large / small < 12  # quadratic would be 16, and more with cache misses
