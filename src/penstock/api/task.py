"""The contexts of tasks and connectors.

A writer or reader gets its context when it is opened, and may use it from any thread until `close`
has returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from penstock.api.offsets import Offsets, Primitive
from penstock.data.records import RecordRef, Records
from penstock.ids import TaskId, TopicPartition


class TaskContext(Protocol):
    """The context of every task."""

    @property
    def task(self) -> TaskId:
        """The task's id."""

    @property
    def is_running(self) -> bool:
        """False once the task is being stopped: waits should return."""

    def wait(self, seconds: float) -> bool:
        """Waits; returns True early when the task is being stopped. Use it instead of sleeping."""

    def request_commit(self) -> None:
        """Commits offsets soon, without waiting for `offset.flush.interval.ms`."""


class SinkContext(TaskContext, Protocol):
    """The context of a sink task."""

    @property
    def tolerates_errors(self) -> bool:
        """Whether the task continues after a refused record (`errors.tolerance=all`)."""

    def report(self, record: RecordRef, error: Exception) -> None:
        """Reports an errant record, during `write` or later (KIP-610).

        It is logged and sent to the dead letter queue according to `errors.*`. Without
        `errors.tolerance=all` the task fails, and no offset after the record is committed.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pauses the delivery of records of these partitions; records read already are still
        delivered."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resumes the delivery."""

    def lineage(self, partition: TopicPartition) -> str:
        """Identifies the sequence of commits that the task continues in an assigned partition: the
        same in every task that began where its predecessor had committed. Another one, which is
        greater if the workers' clocks agree, if offsets were reset or altered, or if the topic was
        created again. For targets that recognize what they have stored: offsets alone do not show
        that."""

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic, which another topic of the same name does not have; None if it cannot
        be known: the broker has none, or only Java's clients can connect to it. Asks Kafka. Raises
        Unavailable."""

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continues the delivery of partitions at these offsets, back or ahead, for targets that
        track what they have stored.

        Once the writer's current call has returned, no record read before is delivered, not even
        again after a retriable error. These offsets are committed next, if `pre_commit` allows it.
        Unassigned partitions are ignored; beyond the records of a topic,
        `consumer.override.auto.offset.reset` applies. Raises ValueError for an offset below 0.
        """


class SourceContext(TaskContext, Protocol):
    """The context of a source task."""

    def wait(self, seconds: float) -> bool:
        """Waits; returns early after `wake`, and True when the task is to stop."""

    def wake(self) -> None:
        """Ends the current `wait`, or the next one if nothing waits: there may be records. For
        readers that learn of them in another thread."""

    @property
    def tolerates_errors(self) -> bool:
        """Whether the task continues after a record that failed (`errors.tolerance=all`)."""

    def report(self, record: Records, error: Exception) -> None:
        """Reports a record that the reader cannot build, during `poll` or `read`: a batch of one,
        with as much of it as could be read.

        It is counted, logged and sent to the dead letter queue according to `errors.*`. Without
        `errors.tolerance=all` this raises, and the task fails. So return the records before it
        first, with their offsets, and call `request_commit`: they are then stored before the next
        poll.
        """

    @property
    def stored_offsets(self) -> Offsets:
        """The connector's stored offsets when the task started."""

    def stored_offset(self, partition: Mapping[str, Primitive]) -> Mapping[str, Primitive] | None:
        """The stored offset of a source partition, including those that this task has stored."""


class ConnectorContext(Protocol):
    """The context of a connector."""

    def read_stored_offsets(self) -> Offsets:
        """Reads the stored offsets of a source connector; empty for sinks. Blocks."""

    def request_reconfiguration(self) -> None:
        """Requests that the worker calls `plan_tasks` again; if the task configurations differ, the
        tasks restart with them. Returns at once; may be called from any thread."""
