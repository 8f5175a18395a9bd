"""The contract of a sink connector.

A sink task is a `SinkWriter` that is given batches, in a thread of its own inside a Spark task:

    open → assigned → write, write → flush → pre_commit → (offsets committed) … → revoked → close
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.api.connector import Connector
from penstock.api.task import SinkContext
from penstock.config.define import Config
from penstock.data.records import Failed, Records
from penstock.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Batching:
    """What one `write` is given, where the engine's own choice does not fit: it gives what it has.

    `records`: at most so many; 0: as they come, some thousand. `linger_ms`: how long it waits for
    more while there are fewer than `records`. `by_partition`: whether all records of a batch are of
    one topic partition; if not, they are in order within each.
    """

    records: int = 0
    linger_ms: int = 0
    by_partition: bool = True


class SinkWriter(ABC):
    """Writes one task's records to the target; stays open for as long as the task runs.

    One thread calls all methods, and they may block: they hold up nobody else. Raise an error with
    `retriable` to be called again after a while; any other error fails the task. A writer that can
    use values as Arrow's arrays, a field at a time, says so by `takes_fields`; the values of a
    batch may be `Fields` then. For others these would only be a detour.
    """

    takes_fields: ClassVar[bool] = False

    batching: Batching = Batching()
    """May be set by `__init__`, from the configuration."""

    idle_ms: int = 0
    """How often `idle` is called; 0: never."""

    @abstractmethod
    def write(self, records: Records, failed: Failed) -> None:
        """Writes every record, in order. When it returns the target has them, or gets them at the
        latest by `flush`.

        A record that the target refuses gets an entry in `failed`, by its row; the others are
        written. A record that is refused later is reported to the context, by `records.ref(row)`.
        After a retriable error the same records come again. What is given stays as it is.
        """

    def flush(self) -> None:  # noqa: B027 - most writers hold nothing back
        """Returns when the target has everything that was written. Called before offsets are
        committed and before partitions are revoked, unless they are lost. After a retriable error
        it is called again; nothing is written again."""

    def idle(self) -> None:  # noqa: B027
        """Called about every `idle_ms`, whether there are records or not: what has to be finished
        because its time has come is finished here."""

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """What may be committed, given what was written: for each partition the offset after the
        last record. Leave out, or give a smaller offset for, what the target does not have for
        good, such as the open file of a partition; its records come again after a restart."""
        return reached

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:  # noqa: B027
        """These partitions are the task's from now on, read from these offsets. Called before the
        first of their records is written."""

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:  # noqa: B027
        """These partitions are no longer the task's. Finish what is open of them: `pre_commit` is
        called after that. `lost`: others have them already, nothing is committed: drop it."""

    def close(self) -> None:  # noqa: B027 - not every target holds something open
        """Lets go of what is held open. Called once, when the task stops or has failed."""


class SinkConnector(Connector):
    """Moves records from Kafka into another system."""

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Called before a user's change of a stopped connector's offsets (by topic and partition;
        None: forgotten) is committed. Raise PenstockError to refuse it. True if nothing has to be
        changed elsewhere (KIP-875)."""
        return False

    @abstractmethod
    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        """A writer for one task; `config` is the task's own configuration."""
