"""Task contexts without an engine, for previews, and for tests that open a reader or a writer
themselves.

>>> from penstock.api import SourceOffset
>>> context = SourceContextStub([SourceOffset({"file": "a"}, {"line": 3})])
>>> context.stored_offset({"file": "a"})
{'line': 3}
>>> context.stop()
>>> context.wait(60.0), context.is_running
(True, False)
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api import (
    Offsets,
    Primitive,
    RecordRef,
    Records,
    SourceOffset,
    TaskId,
    TopicPartition,
)

_TASK: Final = TaskId("connector", 0)


class _TaskContextStub:
    """The common part of the contexts of sources and sinks."""

    def __init__(self, task: TaskId) -> None:
        self._task = task
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self.commit_requests = 0
        """How often the task requested a commit."""

    @property
    def task(self) -> TaskId:
        return self._task

    @property
    def is_running(self) -> bool:
        return not self._stopped.is_set()

    def wait(self, seconds: float) -> bool:
        return self._stopped.wait(seconds)

    def request_commit(self) -> None:
        self.commit_requests += 1

    def stop(self) -> None:
        """Stops the task: `is_running` is False from now on, and every `wait` returns."""
        self._stopped.set()
        self._woken.set()


class SinkContextStub(_TaskContextStub):
    """A `SinkContext` that records the writer's calls."""

    def __init__(self, task: TaskId = _TASK, *, tolerates_errors: bool = False) -> None:
        super().__init__(task)
        self._tolerates_errors = tolerates_errors
        self.reported: list[tuple[RecordRef, Exception]] = []
        """The records that were reported, with their errors, in order."""
        self.paused: frozenset[TopicPartition] = frozenset()
        """The partitions that are paused now."""
        self.sought: list[Mapping[TopicPartition, int]] = []
        """The offsets that the writer has sought, in order."""
        self.lineages: dict[TopicPartition, str] = {}
        """The lineages of partitions; by default, all have the same."""
        self.topic_ids: dict[str, str | None] = {}
        """The ids of topics; by default, they have none."""

    @property
    def tolerates_errors(self) -> bool:
        return self._tolerates_errors

    def report(self, record: RecordRef, error: Exception) -> None:
        self.reported.append((record, error))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused |= frozenset(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= frozenset(partitions)

    def lineage(self, partition: TopicPartition) -> str:
        return self.lineages.get(partition, "1")

    def topic_id(self, topic: str) -> str | None:
        return self.topic_ids.get(topic)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.sought.append(dict(offsets))


class SourceContextStub(_TaskContextStub):
    """A `SourceContext` of a task that starts with these stored offsets."""

    def __init__(
        self,
        stored_offsets: Offsets = (),
        task: TaskId = _TASK,
        *,
        tolerates_errors: bool = False,
    ) -> None:
        super().__init__(task)
        self._initial = tuple(stored_offsets)
        self._stored = list(self._initial)
        self._tolerates_errors = tolerates_errors
        self.reported: list[tuple[Records, Exception]] = []
        """The records that the reader could not build, with their errors, in order."""

    @property
    def tolerates_errors(self) -> bool:
        return self._tolerates_errors

    def report(self, record: Records, error: Exception) -> None:
        """Raises the error unless errors are tolerated, as the engine fails the task."""
        self.reported.append((record, error))
        if not self._tolerates_errors:
            raise error

    def wait(self, seconds: float) -> bool:
        self._woken.wait(seconds)
        if self.is_running:
            self._woken.clear()
        return not self.is_running

    def wake(self) -> None:
        """See `SourceContext.wake`."""
        self._woken.set()

    @property
    def stored_offsets(self) -> Offsets:
        return self._initial

    def stored_offset(self, partition: Mapping[str, Primitive]) -> Mapping[str, Primitive] | None:
        for stored in reversed(self._stored):
            if stored.partition == partition:
                return stored.offset
        return None

    def store(self, offsets: Iterable[SourceOffset]) -> None:
        """Stores offsets, as the engine does when Kafka has acknowledged the records of a poll."""
        self._stored += offsets


@dataclass(frozen=True, slots=True)
class ConsumedFrom:
    """The place in Kafka of the records of a batch; see `Consumed`."""

    place: TopicPartition

    def partition(self, origin: int, /) -> TopicPartition:
        """The same for every record."""
        return self.place
