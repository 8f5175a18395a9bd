"""The partitions that a sink task owns, and how far it is in each."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.flow.stage.chunks import Chunk
from penstock.flow.stage.events import Position
from penstock.flow.stage.progress import Progress
from penstock.ids import TopicPartition

Offsets = Mapping[TopicPartition, int]


class Owned:
    """A table of `Progress`, which the task's thread changes. The writer's threads may report
    records and request seeks at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards the table, the requests and `_is_certain`."""
        self._table: dict[TopicPartition, Progress] = {}
        self._requests: dict[TopicPartition, int] = {}  # of seeks that have not begun
        self._seeks = 0
        self._is_certain = True
        self.moves = 0
        """How often partitions were assigned, forgotten or sought; for the task's thread."""

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(self._table)

    @property
    def positions(self) -> Offsets:
        """The offset of the record to write next in each partition."""
        with self._lock:
            return {at: progress.position for at, progress in self._table.items()}

    @property
    def is_certain(self) -> bool:
        """Whether a flush that succeeds proves that all records reached are stored."""
        return self._is_certain

    def doubt(self) -> None:
        """From now on, a flush proves nothing: the writer is in an unknown state."""
        with self._lock:
            self._is_certain = False

    def assign(self, partitions: Mapping[TopicPartition, Position]) -> None:
        with self._lock:
            for at, start in partitions.items():
                self._table[at] = Progress(start.epoch, start.epoch, start.offset)
        self.moves += 1

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Assignments have ended."""
        with self._lock:
            for at in partitions:
                self._table.pop(at, None)
                self._requests.pop(at, None)
        self.moves += 1

    def has(self, chunk: Chunk) -> bool:
        """Whether a chunk is of an assignment that lasts, and its partition is not being sought."""
        progress = self._table.get(chunk.partition)
        return progress is not None and progress.epoch == chunk.epoch

    def reach(self, at: TopicPartition, epoch: int, position: int) -> None:
        """Records were written."""
        with self._lock:
            if (progress := self._table.get(at)) is not None:
                self._table[at] = progress.reach(epoch, position)

    def bar(self, at: TopicPartition, offset: int) -> None:
        """A record was reported that is not tolerated. The writer may not have reported others."""
        with self._lock:
            if (progress := self._table.get(at)) is not None:
                self._table[at] = progress.bar(offset)
            self._is_certain = False

    def reached(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last written record of each partition, as far as it is not
        committed."""
        table = self._table
        progress = {at: table[at].reached for at in partitions if at in table}
        return {at: offset for at, offset in progress.items() if offset is not None}

    def grant(self, offered: Offsets) -> bool:
        """A flush has succeeded, and the writer permits these offsets. False if that proves
        nothing."""
        with self._lock:
            if self._is_certain:
                for at, offset in offered.items():
                    self._table[at] = self._table[at].grant(offset)
            return self._is_certain

    def due(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset to commit of each partition that has one."""
        with self._lock:
            progress = {at: self._table[at].due for at in partitions if at in self._table}
        return {at: offset for at, offset in progress.items() if offset is not None}

    def commit(self, offsets: Offsets) -> None:
        """Kafka has committed offsets."""
        with self._lock:
            for at, offset in offsets.items():
                if (progress := self._table.get(at)) is not None:
                    self._table[at] = progress.commit(offset)

    def request_seek(self, offsets: Offsets) -> None:
        """Requests to read partitions from these offsets on. Raises ValueError for an offset below
        0."""
        for at, offset in offsets.items():
            if offset < 0:
                raise ValueError(f"{at} cannot be read from offset {offset}")
        with self._lock:
            self._requests |= offsets

    @property
    def seek_requested(self) -> bool:
        return bool(self._requests)

    def leave(self) -> tuple[int, Mapping[TopicPartition, list[Any]]]:
        """Begins the requested seeks of the partitions owned: no record that was read before is
        written. Returns their ticket, and the consumer's arguments for each."""
        with self._lock:
            requests, self._requests = self._requests, {}
            self._seeks += 1
            rows: dict[TopicPartition, list[Any]] = {}
            for at, offset in requests.items():
                if (progress := self._table.get(at)) is not None:
                    self._table[at] = progress.leave(self._seeks)
                    rows[at] = [*at, progress.assignment, offset]
        if rows:
            self.moves += 1
        return self._seeks, rows

    def arrive(self, seek: int, partitions: Mapping[TopicPartition, Position]) -> None:
        """The consumer has obeyed a seek."""
        with self._lock:
            for at, start in partitions.items():
                if (progress := self._table.get(at)) is not None:
                    self._table[at] = progress.arrive(seek, start.epoch, start.offset)
