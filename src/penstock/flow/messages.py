"""The messages between a worker and the stages of its slots.

Both ends are ours, and the connection is authenticated before anything is read; see `control`.
Each placement of a task on a slot has a number, `id`, that is unique within the worker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.api import Figure, Offsets
from penstock.flow.counts import Counts
from penstock.flow.plan import FlowPlan, SourcePlan
from penstock.flow.traces import Trace
from penstock.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Open:
    """Places a task on the slot. A sink starts at once; a source waits for `Begin`."""

    id: int
    plan: FlowPlan


@dataclass(frozen=True, slots=True)
class OpenPart:
    """Reads one part of a source task's poll on the slot. It ends as a task does: `Stopped` when
    Kafka has its records, or `Failed`."""

    id: int
    plan: SourcePlan
    part: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Starts a source task at its stored offsets. `keys`: the key bytes under which the offsets
    topic already stores source partitions, by partition key."""

    id: int
    offsets: Offsets
    keys: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """Stops a task at a record boundary; after `grace_s` it is cancelled. May be sent again, with
    less time."""

    id: int
    grace_s: float


@dataclass(frozen=True, slots=True)
class OffsetsStored:
    """The offsets of a `StoreOffsets` are stored; or why they are not, as a trace."""

    id: int
    ticket: int
    error: Trace | None = None


@dataclass(frozen=True, slots=True)
class PartsRead:
    """Kafka has the records of all parts of a `ReadParts`; or why not, as a trace."""

    id: int
    ticket: int
    error: Trace | None = None


@dataclass(frozen=True, slots=True)
class AskPositions:
    """Requests `Positions`."""

    ticket: int


@dataclass(frozen=True, slots=True)
class WatchRecords:
    """Requests the next records of a task, as `WatchedRecords`, for `seconds`."""

    id: int
    ticket: int
    records: int
    seconds: float
    hidden: re.Pattern[str] | None
    """Fields whose names match are hidden."""


@dataclass(frozen=True, slots=True)
class End:
    """Ends the slot; the tasks on it have been stopped."""


Order = (
    Open | OpenPart | Begin | Stop | OffsetsStored | PartsRead | AskPositions | WatchRecords | End
)


@dataclass(frozen=True, slots=True)
class Hello:
    """The stage of a slot has started."""

    slot: int
    pid: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A source task has its producer; with exactly once, older ones are fenced. Awaits `Begin`."""

    id: int


@dataclass(frozen=True, slots=True)
class TaskOpened:
    """A task's writer or reader is open."""

    id: int


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """What a task has done since the last message of this kind."""

    id: int
    counts: Counts


@dataclass(frozen=True, slots=True)
class Intercepted:
    """The current figures of a task's interceptors."""

    id: int
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """A sink task has tried to commit; `partitions` are those it owns."""

    id: int
    ok: bool
    ms: float
    partitions: int


@dataclass(frozen=True, slots=True)
class StoreOffsets:
    """Asks the worker to store source offsets. `forget_only`: they are tombstones, to be written
    before a transaction that stores the other offsets."""

    id: int
    ticket: int
    offsets: Offsets
    forget_only: bool = False


@dataclass(frozen=True, slots=True)
class ReadParts:
    """Asks the worker to read the parts of a poll in parallel, on any slots."""

    id: int
    ticket: int
    parts: Sequence[str]


@dataclass(frozen=True, slots=True)
class TransactionCommitted:
    """A transaction with these source offsets is committed."""

    id: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Stopped:
    """A task has stopped; `in_time`: it was not cancelled. `stuck`: its thread still runs."""

    id: int
    in_time: bool
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A task has ended because it could not continue."""

    id: int
    trace: Trace


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """How busy a task is: seconds spent converting, in connector code and producing since it was
    placed, and whether it is in such a call now."""

    busy_s: float
    in_call: bool


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a slot's tasks are; sent periodically while they are. `rss` in bytes."""

    rss: int
    tasks: Mapping[int, TaskLoad]


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of the slot's sink tasks."""

    ticket: int
    tasks: Mapping[int, Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class WatchedRecords:
    """Records of a `WatchRecords`, with what happened to them step by step (`stage.tap`)."""

    ticket: int
    records: Sequence[Mapping[str, Any]]


TaskNews = (
    Ready
    | TaskOpened
    | ProgressMade
    | Intercepted
    | OffsetsCommitted
    | ReadParts
    | TransactionCommitted
    | Stopped
    | Failed
)
"""Messages about one task, or one part."""

News = Hello | Load | Positions | WatchedRecords | StoreOffsets | TaskNews
