"""The contract of a source connector.

A source is planned in ranges: it is asked how far the next one may go, how it splits into parts
that can be read side by side, and to read one part. Planning happens in the worker, reading in
Spark's Python workers, perhaps on other machines. Positions are what Kafka Connect stores:
`SourceOffset`s, each a source partition (which file, which table) with the offset reached in it.
Nothing here knows Spark; every method may run in another process than the one before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.api.connector import Connector
from penstock.config.define import Config
from penstock.data.records import Records

Primitive = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """How far one source partition has been read; `offset` None: nothing is stored."""

    partition: Mapping[str, Primitive]
    offset: Mapping[str, Primitive] | None


Offsets = Sequence[SourceOffset]


class AbortTransaction(Exception):
    """Raised by `records` when what was read is to be thrown away: nothing of the whole range, up
    to the `end` that `latest` gave it, reaches Kafka, and it is not read again (KIP-618)."""


class SourceReader(ABC):
    """Reads one task's share of the source system.

    `start` and `end` are positions as `latest` returned them, or what was stored when the task ran
    last; an empty `start` means from the beginning. Raise an error with `retriable` to be asked
    again; any other error fails the task.
    """

    idle_ms: int = 100
    """How long to wait before `latest` is asked again when there was nothing to read."""

    @abstractmethod
    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        """Where the next batch ends: at most about `max_bytes` after `start`, and equal to `start`
        when there is nothing to read yet.

        With exactly once each batch is a transaction. `transaction.boundary=connector` leaves to
        the reader alone where it ends; `max_bytes` has no meaning then.
        """

    def parts(self, start: Offsets, end: Offsets) -> Sequence[tuple[Offsets, Offsets]]:
        """The ranges of one batch that may be read side by side. Records of different parts may
        reach Kafka in any order; by default the batch is one part, so order is kept."""
        return [(start, end)]

    @abstractmethod
    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        """Everything in one part, in order, in batches of any size."""

    @abstractmethod
    def records(self, batch: pa.RecordBatch) -> Records:
        """The Connect records of one batch that `read` yielded."""


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
        """Whether readers end their batches where a transaction is to end (KIP-618)."""
        return False

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        """Called before a user's change of a stopped connector's offsets is stored; one without an
        offset is forgotten. Raise PenstockError to refuse it. True if nothing has to be changed
        elsewhere (KIP-875)."""
        return False

    @abstractmethod
    def open(self, config: Config) -> SourceReader:
        """A reader for one task; `config` is the task's own configuration."""
