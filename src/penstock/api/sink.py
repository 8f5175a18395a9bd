"""The contract of a sink connector.

A sink task is a `SinkWriter` that writes batches, in its own thread inside a Spark task:

    open → assigned → write, write → flush → pre_commit → (offsets committed) … → revoked → close
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.api.connector import Connector, Props
from penstock.api.task import SinkContext
from penstock.config.define import Config
from penstock.data.records import Failed, Records
from penstock.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Batching:
    """The size of a `write`; by default the engine passes the records that it has.

    `records`: the maximum number; 0: as they arrive, some thousand. `linger_ms`: how long to wait
    for more while there are fewer than `records`. `by_partition`: whether all records of a batch
    are of one topic partition; if not, they are in order within each.
    """

    records: int = 0
    linger_ms: int = 0
    by_partition: bool = True


class SinkWriter(ABC):
    """Writes one task's records to the target; stays open for as long as the task runs.

    One thread calls all methods, and they may block without delaying other tasks. Raise an error
    with `retriable` to be called again after a backoff; any other error fails the task. Then only
    `close` is called, and only what an earlier `flush` and `pre_commit` covered is committed. A
    writer that uses values as Arrow arrays, a field at a time, sets `takes_fields`; the values of a
    batch can be `Fields` then.
    """

    takes_fields: ClassVar[bool] = False

    batching: Batching = Batching()
    """May be set by `__init__`, from the configuration."""

    idle_ms: int = 0
    """How often `idle` is called; 0: never."""

    @abstractmethod
    def write(self, records: Records, failed: Failed) -> None:
        """Writes every record, in order. The target has them when it returns, or at the latest when
        `flush` returns.

        A record that the target rejects gets an entry in `failed`, by its row; the others are
        written. If `SinkContext.tolerates_errors` is false, the task fails then and the whole batch
        is written again: the writer should stop there, or take the batch back. A record that is
        rejected later is reported to the context, by `records.ref(row)`.
        After a retriable error it is called with the same records again, unless the task stops or
        their partition is revoked meanwhile. Do not modify the records.
        """

    def flush(self) -> None:  # noqa: B027 - most writers do not buffer
        """Returns when the target has stored everything that was written. Called before offsets are
        committed and before partitions are revoked, unless they are lost. After a retriable error
        it is called again, without a new `write`.

        A flush after a fatal error never succeeds: while the target lacks a record that `write` has
        accepted, it raises again, even if nothing is pending any more."""

    def idle(self) -> None:  # noqa: B027
        """Called about every `idle_ms`, whether there are records or not, for periodic work; the
        next time also after a retriable error."""

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets to commit; `reached` has the offset after the last written record of each
        partition. Omit a partition, or return a smaller offset, if the target has not stored its
        records durably, for example in a file that is still open; they are read again after a
        restart."""
        return reached

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:  # noqa: B027
        """The partitions assigned to the task, with their start offsets. Called before their first
        record is written."""

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:  # noqa: B027
        """The partitions revoked from the task. Finish open work of them; `pre_commit` is called
        next. `lost`: another task owns them already or their records could not be flushed, nothing
        is committed: drop open work, as the next owner writes the records again."""

    def close(self) -> None:  # noqa: B027 - not every target holds resources
        """Releases resources. Called once, when the task stops or has failed."""


class SinkConnector(Connector):
    """Moves records from Kafka into another system."""

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        """By default all tasks have the connector's configuration: Kafka distributes the
        partitions."""
        return [config.props] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Called before a user's offsets of a stopped connector (by topic and partition; None:
        reset) are committed. Raise PenstockError to refuse them. Return True if no offsets have to
        be altered outside of Kafka (KIP-875)."""
        return False

    def open_preview(
        self, config: Config, context: SinkContext, show: Callable[[str], None]
    ) -> SinkWriter | None:
        """A writer that changes nothing, and calls `show` with what it would write: a line for
        every file, document or statement. For `penstock preview`; None: not supported."""
        return None

    @abstractmethod
    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        """A writer for one task; `config` is the task's own configuration."""
