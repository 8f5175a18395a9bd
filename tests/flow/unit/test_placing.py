"""Which slot a task is placed on, and when it moves."""

from __future__ import annotations

import pytest

from penstock.flow.driver.placing import (
    BUSY,
    QUIET_S,
    Move,
    SlotFigures,
    SlotLimits,
    TaskFigures,
    choose,
    limits,
    moves,
)

IDLE = TaskFigures(0.0, 1.0)
AT_WORK = TaskFigures(0.9, 0.0)
LIMITS = SlotLimits(shared=2, own=2)


def shared(number: int, *tasks: TaskFigures) -> SlotFigures:
    return SlotFigures(number, True, {100 * number + at: task for at, task in enumerate(tasks)})


def own(number: int, task: TaskFigures) -> SlotFigures:
    return SlotFigures(number, False, {100 * number: task})


@pytest.mark.parametrize(
    ("cores", "threads", "on_cluster", "expected"),
    [
        (2, 64, False, SlotLimits(2, 8)),
        (1, 64, False, SlotLimits(1, 4)),
        (32, 64, False, SlotLimits(8, 16)),
        (2, 1, False, SlotLimits(1, 0)),  # spark.master=local
        (4, 3, False, SlotLimits(3, 0)),
        (1, 1, True, SlotLimits(1, 0)),
        (4, 4, True, SlotLimits(2, 2)),
        (100, 100, True, SlotLimits(8, 92)),
    ],
)
def test_slots_are_as_many_as_there_is_room_for(
    cores: int, threads: int, on_cluster: bool, expected: SlotLimits
) -> None:
    assert limits(cores, threads, on_cluster=on_cluster) == expected


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ([], None),
        ([shared(1, IDLE)], None),  # another slot is allowed
        ([shared(1, IDLE), shared(2)], 2),
        ([own(3, IDLE), shared(1, IDLE), shared(2, IDLE, IDLE)], 1),
        ([shared(1, AT_WORK), shared(2, IDLE, IDLE, IDLE)], 2),
        ([shared(1, AT_WORK, IDLE), shared(2, AT_WORK)], 2),
        ([shared(1, IDLE), shared(2, IDLE)], 1),
    ],
)
def test_a_task_is_placed_where_there_is_the_least_to_do(
    slots: list[SlotFigures], expected: int | None
) -> None:
    assert choose(slots, LIMITS) == expected


def test_the_busiest_of_several_tasks_gets_a_slot_of_its_own() -> None:
    busiest = TaskFigures(1.0, 0.0)
    assert moves([shared(1, AT_WORK, busiest, IDLE)], LIMITS) == [Move(101, own=True)]


@pytest.mark.parametrize(
    "slots",
    [
        [shared(1, AT_WORK)],  # it is alone already
        [shared(1, TaskFigures(BUSY - 0.01, 0.0), IDLE)],
        [shared(1, TaskFigures(1.0, 0.0, settled=False), IDLE)],
        [shared(1, AT_WORK, IDLE), own(2, AT_WORK), own(3, AT_WORK)],  # no more own slots
        [own(2, TaskFigures(0.0, QUIET_S - 1))],
        [own(2, TaskFigures(0.0, QUIET_S, settled=False))],
    ],
)
def test_nothing_moves_without_need(slots: list[SlotFigures]) -> None:
    assert moves(slots, LIMITS) == []


def test_a_task_that_is_quiet_again_returns_to_a_shared_slot() -> None:
    assert moves([own(2, TaskFigures(0.0, QUIET_S))], LIMITS) == [Move(200, own=False)]


def test_no_more_slots_are_asked_for_at_once_than_there_may_be() -> None:
    slots = [shared(1, AT_WORK, IDLE), shared(2, AT_WORK, IDLE), own(3, AT_WORK)]
    assert moves(slots, LIMITS) == [Move(100, own=True)]
