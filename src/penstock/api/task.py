"""What the engine offers a running task of a connector.

A writer or reader gets its context when it is opened, and may use it from any thread, until its
`close` has returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from penstock.api.offsets import Offsets, Primitive
from penstock.data.records import RecordRef
from penstock.ids import TaskId, TopicPartition


class TaskContext(Protocol):
    """What every task may ask of the engine."""

    @property
    def task(self) -> TaskId:
        """Which task this is."""

    @property
    def is_running(self) -> bool:
        """False once the task is to stop: whatever waits should return."""

    def wait(self, seconds: float) -> bool:
        """Waits; returns True early when the task is to stop. Use it instead of sleeping."""

    def request_commit(self) -> None:
        """Commits offsets soon, rather than when `offset.flush.interval.ms` is over."""


class SinkContext(TaskContext, Protocol):
    """What a sink task may ask of the engine."""

    def report(self, record: RecordRef, error: Exception) -> None:
        """Reports a record that the target refused, now or after `write` returned (KIP-610).

        It is logged and sent to the dead letter queue as `errors.*` say. Without
        `errors.tolerance=all` the task fails; nothing after the record is committed then.
        """

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops the delivery of records of these partitions; those read already still come."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resumes the delivery."""


class SourceContext(TaskContext, Protocol):
    """What a source task may ask of the engine."""

    def wait(self, seconds: float) -> bool:
        """Waits; returns early after `wake`, and True when the task is to stop."""

    def wake(self) -> None:
        """Ends the current `wait`, or the next one if nothing waits: there may be records. For
        readers that are told of them in another thread."""

    @property
    def stored_offsets(self) -> Offsets:
        """What the offsets topic held of the connector when the task started."""

    def stored_offset(self, partition: Mapping[str, Primitive]) -> Mapping[str, Primitive] | None:
        """The offset that is stored of a source partition, with what this task has stored since."""


class ConnectorContext(Protocol):
    """What a connector, which plans the tasks, may ask of its worker."""

    def read_stored_offsets(self) -> Offsets:
        """Reads what the offsets topic holds of a source connector; empty for sinks. Blocks."""

    def request_reconfiguration(self) -> None:
        """Has the worker ask `plan_tasks` again; where the answer is another one, the connector's
        tasks are started anew with it. Returns at once; may be called from any thread."""
