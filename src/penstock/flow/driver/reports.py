"""What running tasks report to the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.api import Figure
from penstock.flow.counts import Counts
from penstock.flow.traces import Trace
from penstock.ids import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """What a task has done since the last report of this kind."""

    task: TaskId
    run: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Committed:
    """A sink task has tried to commit what it has written; `partitions` are those it owns."""

    task: TaskId
    run: int
    ok: bool
    ms: float
    partitions: int


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task ended although nobody stopped it; `trace` says why."""

    task: TaskId
    run: int
    trace: Trace


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a running task: a sink's lag by partition, its slot, whether other tasks share
    that slot, and the share of the last second it was busy."""

    behind: Mapping[TopicPartition, int] = field(default_factory=dict)
    slot: int | None = None
    shared: bool = True
    busy: float = 0.0


@dataclass(frozen=True, slots=True)
class SlotStanding:
    """The state of a slot: the number of its tasks, and the memory of its process."""

    number: int
    shared: bool
    tasks: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class InterceptorFigures:
    """The current figures of a task's interceptors; they replace the previous ones."""

    task: TaskId
    run: int
    figures: Sequence[Figure]


Report = Callable[[TaskProgress | Committed | InterceptorFigures], None]
"""Receives what a task did, on the engine's threads; must not block."""
