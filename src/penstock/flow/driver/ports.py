"""The engine's ports: a task's beginning, the offset store, and the errors it raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.api import Offsets
from penstock.errors import PenstockError
from penstock.flow.traces import Carried
from penstock.ids import TaskId


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a source task starts: the connector's stored offsets, and the key bytes under which the
    offsets topic stores them, by partition key."""

    offsets: Offsets
    keys: Mapping[bytes, bytes] = field(default_factory=dict)


Begins = Callable[[], Beginning]
"""Where a task starts reading. Called when no earlier run can write any more, and again when the
task is moved; raises when the task must not start after all."""


@dataclass(frozen=True, slots=True)
class Storing:
    """Offsets being stored. `wait` returns when they are stored, and raises when they cannot be;
    `apart`: they go to the connector's own topic, possibly on another broker."""

    wait: Callable[[], None]
    apart: bool = False


class OffsetsPort(Protocol):
    """The worker's offset store, for source tasks."""

    def store(self, task: TaskId, offsets: Offsets) -> Storing:
        """Sends the offsets; raises when they must not be stored."""

    def forget(self, task: TaskId, offsets: Offsets) -> None:
        """Forgets offsets in the worker's own topic before a transaction forgets them; otherwise
        they would reappear from there."""

    def committed(self, task: TaskId, offsets: Offsets) -> None:
        """A transaction with these offsets is committed. Must not block."""


class StartFailed(Carried):
    """A task did not start."""


class StoppedMeanwhile(PenstockError):
    """A task was stopped before it had started."""


class SlotDied(PenstockError):
    """The slot of a task died before the task had started."""

    retriable = True


class NoSlot(PenstockError):
    """Spark had no room for the slot of a task."""

    retriable = True
