"""Decides which slot a task is placed on, and when it moves, from figures alone.

Quiet tasks share slots, about one per core. A task that shares its slot and was busy for half of
the last seconds moves to a dedicated slot if one is free; when it has been quiet for a while it
returns to a shared slot. A task that was working when its slot's process died restarts on a
dedicated slot: if it was the cause, it harms no other task.
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
    """A slot and its tasks, by the numbers that the engine assigned."""

    number: int
    shared: bool
    tasks: Mapping[int, TaskFigures] = field(default_factory=dict)

    @property
    def busy(self) -> float:
        return sum(task.busy for task in self.tasks.values())


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """The maximum number of slots of each kind."""

    shared: int
    own: int


@dataclass(frozen=True, slots=True)
class Move:
    """Moves a task from its slot to a dedicated or a shared one."""

    task: int
    own: bool


def limits(cores: int, threads: int, *, on_cluster: bool) -> SlotLimits:
    """The limits of a worker with so many cores. On a Spark cluster a slot occupies a core
    permanently, so some are reserved for busy tasks; on one machine it occupies a process and one
    of the threads that `spark.master` allows."""
    if on_cluster:
        shared = max(1, min(8, cores // 2))
        return SlotLimits(shared, max(0, cores - shared))
    shared = max(1, min(8, cores, threads))
    return SlotLimits(shared, max(0, min(max(4, min(16, 4 * cores)), threads - shared)))


def choose(slots: Iterable[SlotFigures], limits: SlotLimits) -> int | None:
    """The shared slot for another task: the least busy one; None: a new one."""
    shared = [slot for slot in slots if slot.shared]
    free = [slot for slot in shared if not slot.tasks]
    if free:
        return min(free, key=lambda slot: slot.number).number
    if len(shared) < limits.shared:
        return None
    return min(shared, key=lambda slot: (round(slot.busy, 1), len(slot.tasks), slot.number)).number


def moves(slots: Sequence[SlotFigures], limits: SlotLimits) -> list[Move]:
    """The tasks to move now. At most one busy task per slot: the others may then have room."""
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
