"""The contract of a source connector.

A source task is a `SourceReader` that is polled, in its own thread inside a Spark task:

    open → poll → (converted, produced, acknowledged; offsets stored) → committed → poll … → close

Offsets are `SourceOffset`s, as Kafka Connect stores them: a source partition (a file, a table) with
its offset. The engine stores the offsets of a poll once Kafka has acknowledged all of its records;
with exactly once, both are in one transaction (KIP-618).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from penstock.api.connector import Connector
from penstock.api.offsets import Offsets
from penstock.api.task import SourceContext
from penstock.config.define import Config
from penstock.data.records import Records


class Transaction(Enum):
    """The state of a poll's transaction, with `transaction.boundary=connector`."""

    OPEN = "open"  # more polls follow
    COMPLETE = "complete"  # it ends with this poll
    ABORTED = "aborted"  # it is discarded, including this poll, and not read again


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of a poll.

    `offsets` are stored when Kafka has acknowledged all records; if a partition occurs several
    times, its last offset counts, so both one per record, in order, and one at the end are valid.
    Without offsets, the records belong to those of the following polls, up to one with offsets:
    with exactly once, they are in one transaction. Records may be empty if only the offset
    advances.

    `offsets_before(n)`, if given, are the offsets after the first `n` records, fewer than all: to
    be stored if the next record fails the task. They may cover fewer records, which are then read
    again, or none: `()`. Without it nothing of the poll is stored then, and if the record cannot be
    converted, nothing of it is sent.

    `parts`, if given, are read instead of `records`: the engine may read them in parallel, each by
    `SourceReader.read`, whatever their total size. Records of different parts may reach Kafka in
    any order.
    """

    records: Records = field(default_factory=Records.none)
    offsets: Offsets = ()
    transaction: Transaction = Transaction.OPEN
    parts: Sequence[str] = ()
    offsets_before: Callable[[int], Offsets] | None = None


class SourceReader(ABC):
    """Reads one task's share of the source system.

    One thread calls all methods but `read`, and they may block without delaying other tasks. Raise
    an error with `retriable` from `poll` to be called again after a backoff; any other error fails
    the task.
    """

    idle_ms: int = 100
    """How long the engine waits after a poll that returned None. 0 for readers that wait in `poll`
    themselves."""

    @abstractmethod
    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        """The next records, at most about `max_bytes` of them; None when there are none.

        May wait for records, for `wait_ms` at most. Continues after the previous poll, even if its
        offsets are not stored yet; a new reader resumes after the stored offsets. After a
        retriable error it has to return the same records.
        """

    def read(self, part: str) -> Iterator[Records]:
        """The records of one of the `parts` of a poll. Possibly called on another reader, in
        another process, that was never polled. A part may be read again after a failure."""
        raise NotImplementedError(
            f"{type(self).__name__} returned parts but does not implement `read`."
        )

    def committed(self, offsets: Offsets) -> None:  # noqa: B027 - most sources ignore it
        """Called when Kafka has acknowledged the records of all polls up to `offsets` and the
        offsets are stored, so that the source system may delete them. By the polling thread,
        between polls."""

    def close(self) -> None:  # noqa: B027 - not every reader holds resources
        """Releases resources. Called once, when the task stops or has failed."""


class SourceConnector(Connector):
    """Moves data from another system into Kafka."""

    def replan_ms(self, config: Config) -> int | None:
        """After how many milliseconds `plan_tasks` is called again, because the source may change
        (new tables, new topics); None: only on request. If the task configurations differ, the
        tasks restart with them; if it raises, it is called again after the same time."""
        return None

    def exactly_once(self, config: Config) -> bool | None:
        """Whether a task that resumes at a stored offset neither repeats nor loses records; None:
        unknown (KIP-618)."""
        return None

    def defines_transactions(self, config: Config) -> bool:
        """Whether readers define transaction boundaries (KIP-618)."""
        return False

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        """Called before a user's offsets of a stopped connector are stored; a partition without an
        offset is reset. Raise PenstockError to refuse them. Return True if no offsets have to be
        altered outside of Kafka (KIP-875)."""
        return False

    @abstractmethod
    def open(self, config: Config, context: SourceContext) -> SourceReader:
        """A reader for one task; `config` is the task's own configuration."""
