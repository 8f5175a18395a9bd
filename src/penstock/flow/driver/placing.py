"""Which slot a task is placed on, and when it moves: decisions over figures.

Quiet tasks share slots, about one per core. A task that was busy for half of the last seconds
beside others gets a dedicated slot, while there are free ones; when it has been quiet for a while
it returns to a shared slot. A task whose slot's process died while it was at work starts again on a
dedicated slot, so that it can harm nobody if that was its doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

BUSY: Final = 0.5
QUIET: Final = 0.1
QUIET_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """How busy a task is: the share of the last seconds it worked, and how long it has been
    quiet."""

    busy: float = 0.0
    quiet_s: float = 0.0
    settled: bool = True  # neither starting, stopping nor moving


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """A slot and its tasks, by the numbers that the engine gave them."""

    number: int
    shared: bool
    tasks: Mapping[int, TaskFigures] = field(default_factory=dict)

    @property
    def busy(self) -> float:
        return sum(task.busy for task in self.tasks.values())


@dataclass(frozen=True, slots=True)
class Limits:
    """How many slots of each kind there may be."""

    shared: int
    own: int


@dataclass(frozen=True, slots=True)
class Move:
    """A task is to leave its slot, for one of its own or for a shared one."""

    task: int
    own: bool


def limits(cores: int, threads: int, *, on_cluster: bool) -> Limits:
    """The limits of a worker with so many cores. On a Spark cluster a slot takes a core for good,
    so some are left for tasks that are busy; on one machine it takes one of the threads that
    `spark.master` allows, and a process."""
    if on_cluster:
        shared = max(1, min(8, cores // 2))
        return Limits(shared, max(0, cores - shared))
    shared = max(1, min(8, cores, threads))
    return Limits(shared, max(0, min(max(4, min(16, 4 * cores)), threads - shared)))


def choose(slots: Iterable[SlotFigures], limits: Limits) -> int | None:
    """The shared slot for another task: the one with the least to do; None: a new one."""
    shared = [slot for slot in slots if slot.shared]
    free = [slot for slot in shared if not slot.tasks]
    if free:
        return min(free, key=lambda slot: slot.number).number
    if len(shared) < limits.shared:
        return None
    return min(shared, key=lambda slot: (round(slot.busy, 1), len(slot.tasks), slot.number)).number


def moves(slots: Sequence[SlotFigures], limits: Limits) -> list[Move]:
    """The tasks to move now. At most one busy task per slot: the others may have room then."""
    planned: list[Move] = []
    own = sum(not slot.shared for slot in slots)
    for slot in slots:
        if not slot.shared:
            planned += [
                Move(number, own=False)
                for number, task in slot.tasks.items()
                if task.settled and task.quiet_s >= QUIET_S
            ]
            continue
        busy = [
            (task.busy, number)
            for number, task in slot.tasks.items()
            if task.settled and task.busy >= BUSY
        ]
        if busy and len(slot.tasks) > 1 and own < limits.own:
            own += 1
            planned.append(Move(max(busy)[1], own=True))
    return planned
