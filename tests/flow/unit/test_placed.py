"""The phases of a placed task, and how busy it is."""

from __future__ import annotations

import threading
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.driver.busyness import PERIOD_S, Busyness
from penstock.flow.driver.placed import LAUNCHING, PLACED_MOVES, STARTED, Placed, PlacedPhase
from penstock.flow.driver.placing import BUSY, QUIET
from penstock.flow.driver.ports import Beginning, SlotDied, StoppedMeanwhile
from penstock.flow.messages import TaskLoad
from penstock.ids import TaskId


class PlanStub:
    task = TaskId("c", 0)


def placed_in(phase: PlacedPhase) -> Placed:
    plan: Any = PlanStub()
    return Placed(plan, lambda: Beginning([]), threading.Condition(), phase=phase)


def enter(placed: Placed, phase: PlacedPhase, cause: BaseException | None = None) -> None:
    with placed.changed:
        placed.enter(phase, cause)


@pytest.mark.parametrize(
    ("old", "new"), list(product(PlacedPhase, PlacedPhase)), ids=lambda phase: phase.value
)
def test_a_task_moves_as_the_table_says(old: PlacedPhase, new: PlacedPhase) -> None:
    placed = placed_in(old)
    if new in PLACED_MOVES[old]:
        enter(placed, new)
        assert placed.phase is new
    else:
        with pytest.raises(AssertionError, match=f"task c-0: {old} to {new}"):
            enter(placed, new)
        assert placed.phase is old


def test_every_phase_can_end_and_only_the_end_is_final() -> None:
    for phase in PlacedPhase:
        assert (PlacedPhase.ENDED in PLACED_MOVES[phase]) is (phase is not PlacedPhase.ENDED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (old, new)
        for old in PlacedPhase
        if old in LAUNCHING
        for new in PlacedPhase
        if new in PLACED_MOVES[old] - LAUNCHING
    ],
    ids=lambda phase: phase.value,
)
def test_a_launch_ends_with_the_phases_it_waits_for(old: PlacedPhase, new: PlacedPhase) -> None:
    placed, cause = placed_in(old), SlotDied("gone")
    if new in STARTED:
        enter(placed, new)
        assert placed.launched.result(0) is None
    else:
        enter(placed, new, cause)
        assert placed.launched.exception(0) is cause


@pytest.mark.parametrize("old", sorted(LAUNCHING, key=lambda phase: phase.value))
def test_a_launch_that_is_stopped_says_so(old: PlacedPhase) -> None:
    placed = placed_in(old)
    enter(placed, PlacedPhase.STOPPING)
    with pytest.raises(StoppedMeanwhile, match="Task c-0 was stopped before it ran"):
        placed.launched.result(0)


def test_a_wait_ends_with_the_phase() -> None:
    placed = placed_in(PlacedPhase.PREPARING)
    assert not placed.await_end_of(PlacedPhase.PREPARING, 0)
    assert not placed.await_end(0)
    threading.Thread(target=enter, args=(placed, PlacedPhase.ENDED)).start()
    assert placed.await_end_of(PlacedPhase.PREPARING, 30)
    assert placed.await_end(0)


LOADS = st.lists(st.tuples(st.floats(0, 2), st.floats(0.1, 3)), max_size=20)


@given(LOADS)
def test_the_share_is_between_nothing_and_all_of_the_time(loads: list[tuple[float, float]]) -> None:
    busyness, now, worked_s = Busyness.idle(0.0), 0.0, 0.0
    for more_s, passed_s in loads:
        now, worked_s = now + passed_s, worked_s + more_s
        busyness = busyness.loaded(TaskLoad(worked_s, False), now)
        assert 0 <= busyness.share <= 1
        assert busyness.quiet_since <= now


def test_a_task_that_works_all_the_time_is_busy_after_two_periods() -> None:
    busyness = Busyness.idle(10.0)
    for at in (11.0, 12.0):
        busyness = busyness.loaded(TaskLoad(at - 10, True), at)
    assert busyness.share > BUSY
    assert busyness.quiet_since == 12.0
    assert busyness.in_call


def test_a_task_without_loads_becomes_quiet() -> None:
    busyness = Busyness.idle(0.0).loaded(TaskLoad(1.0, False), 1.0)
    assert busyness.passed(1.0 + PERIOD_S) == busyness  # its next load may only be late
    for at in (4.0, 5.0, 6.0):
        busyness = busyness.passed(at)
    assert busyness.share < QUIET
    assert busyness.quiet_since == 1.0
