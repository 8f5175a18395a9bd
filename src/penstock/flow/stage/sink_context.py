"""The context of a sink task's writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from penstock.api import RecordRef
from penstock.ids import TaskId, TopicPartition


class SinkTaskPort(Protocol):
    """The part of a sink task that its context uses."""

    task: TaskId

    @property
    def stopping(self) -> bool: ...

    @property
    def tolerates_errors(self) -> bool: ...

    def wait(self, seconds: float) -> bool: ...

    def request_commit(self) -> None: ...

    def report(self, record: RecordRef, error: Exception) -> None: ...

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None: ...

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def lineage(self, at: TopicPartition, /) -> str: ...

    def topic_id(self, topic: str, /) -> str | None: ...


class StageSinkContext:
    """A `SinkContext`."""

    def __init__(self, task: SinkTaskPort) -> None:
        self._task = task

    @property
    def task(self) -> TaskId:
        return self._task.task

    @property
    def is_running(self) -> bool:
        return not self._task.stopping

    def wait(self, seconds: float) -> bool:
        return self._task.wait(seconds)

    def request_commit(self) -> None:
        self._task.request_commit()

    @property
    def tolerates_errors(self) -> bool:
        return self._task.tolerates_errors

    def report(self, record: RecordRef, error: Exception) -> None:
        self._task.report(record, error)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._task.pause(partitions, True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._task.pause(partitions, False)

    def lineage(self, partition: TopicPartition) -> str:
        return self._task.lineage(partition)

    def topic_id(self, topic: str) -> str | None:
        return self._task.topic_id(topic)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._task.seek(offsets)
