"""The contract of a source connector.

A source task is a `SourceReader` that is polled, in a thread of its own inside a Spark task:

    open → poll → (converted, produced, acknowledged; offsets stored) → committed → poll … → close

Offsets are what Kafka Connect stores: `SourceOffset`s, each a source partition (which file, which
table) with the offset reached in it. The engine stores the offsets of a poll once Kafka has all of
its records; exactly once, both are in one transaction (KIP-618).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from penstock.api.connector import Connector
from penstock.api.offsets import Offsets
from penstock.api.task import SourceContext
from penstock.config.define import Config
from penstock.data.records import Records


class Transaction(Enum):
    """What a poll says of the transaction it is part of, with `transaction.boundary=connector`."""

    OPEN = "open"  # more of it is to come
    COMPLETE = "complete"  # it ends with this poll
    ABORTED = "aborted"  # all of it, this poll included, is to be thrown away and not read again


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll found.

    `offsets` are stored when Kafka has all records; of a partition that is named several times the
    last one counts, so one for each record, in order, is right as well as one at the end. Where
    there are none, the records belong together with those of the polls that follow, until one has
    offsets: exactly once, they are in one transaction. Records may be empty where only the offset
    moves on.

    `parts`, where given, are what is to be read instead of `records`: pieces that the engine may
    have read side by side, each by `SourceReader.read`, however large they are together. Records of
    different parts may reach Kafka in any order.
    """

    records: Records = field(default_factory=Records.none)
    offsets: Offsets = ()
    transaction: Transaction = Transaction.OPEN
    parts: Sequence[str] = ()


class SourceReader(ABC):
    """Reads one task's share of the source system.

    All methods but `read` are called by one thread, and may block: they hold up nobody else. Raise
    an error with `retriable` from `poll` to be called again after a while; any other error fails
    the task.
    """

    idle_ms: int = 100
    """How long the engine waits after a poll that found nothing. 0 for readers that wait in `poll`
    themselves."""

    @abstractmethod
    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        """The next records, at most about `max_bytes` of them; None when there are none.

        May wait for records, for `wait_ms` at most. Goes on after what the poll before returned,
        even where that is not stored yet; a new reader goes on after the stored offsets. After a
        retriable error the same records have to come again.
        """

    def read(self, part: str) -> Iterator[Records]:
        """The records of one of the `parts` of a poll. The reader may be another one, which was
        never polled, in another process. A part may be read again after a failure."""
        raise NotImplementedError(f"{type(self).__name__} gave parts but does not read them.")

    def committed(self, offsets: Offsets) -> None:  # noqa: B027 - most sources need no answer
        """Kafka has the records of all polls up to `offsets`, and the offsets are stored: the
        source system may forget them. Called by the polling thread, between two polls."""

    def close(self) -> None:  # noqa: B027 - not every reader holds something open
        """Lets go of what is held open. Called once, when the task stops or has failed."""


class SourceConnector(Connector):
    """Moves data from another system into Kafka."""

    def replan_ms(self, config: Config) -> int | None:
        """After how many milliseconds `plan_tasks` is to be asked again, since what there is to
        read may change (new tables, new topics); None: never by itself. Where the answer is another
        one the tasks are started anew with it; one that raises is asked again as late."""
        return None

    def exactly_once(self, config: Config) -> bool | None:
        """Whether a task that goes on from a stored offset sends nothing twice and leaves nothing
        out; None: unknown (KIP-618)."""
        return None

    def defines_transactions(self, config: Config) -> bool:
        """Whether readers say where a transaction ends (KIP-618)."""
        return False

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        """Called before a user's change of a stopped connector's offsets is stored; one without an
        offset is forgotten. Raise PenstockError to refuse it. True if nothing has to be changed
        elsewhere (KIP-875)."""
        return False

    @abstractmethod
    def open(self, config: Config, context: SourceContext) -> SourceReader:
        """A reader for one task; `config` is the task's own configuration."""
