"""What running tasks report to the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.api import Figure
from penstock.flow.traces import Trace
from penstock.ids import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Records that a task has moved since the last report of this kind; `topics` are those they
    are of or for."""

    task: TaskId
    run: int
    records: int
    done: int
    failed: int
    topics: frozenset[str] = frozenset()
    ms: float = 0.0  # spent in the connector's own code
    retries: int = 0
    lost: int = 0  # dead letters that Kafka did not take


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
    """A task ended without being asked to; `trace` says why."""

    task: TaskId
    run: int
    trace: Trace


@dataclass(frozen=True, slots=True)
class Standing:
    """How a running task stands at this moment: how many records of each partition a sink has
    before it, on which slot it is, whether others are on it, and which part of the last second it
    was busy."""

    behind: Mapping[TopicPartition, int] = field(default_factory=dict)
    slot: int | None = None
    shared: bool = True
    busy: float = 0.0


@dataclass(frozen=True, slots=True)
class SlotStanding:
    """How a slot stands: how many tasks it hosts, and how much memory its process has."""

    number: int
    shared: bool
    tasks: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class InterceptorFigures:
    """The present figures of a task's interceptors, in place of the ones before."""

    task: TaskId
    run: int
    figures: Sequence[Figure]


Report = Callable[[TaskProgress | Committed | InterceptorFigures], None]
"""Told what a task does, from threads of the engine's; must not block."""
