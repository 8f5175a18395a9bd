"""Write times: the rows of a key get them in the order of the records in their partition.

Cassandra keeps the value with the latest write time, in whatever order writes arrive, and between a
value and a delete of the same time the delete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api import TopicPartition

_TICKS: Final = 1_000  # microseconds per unit of record timestamps
_SLACK_US: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class _Run:
    """Records of a partition whose write times follow each other: one microsecond per offset."""

    offset: int
    us: int

    def at(self, offset: int) -> int:
        return self.us + offset - self.offset


@dataclass(slots=True)
class _Place:
    """A partition: its last record and the run of that; and, of its last batch, the number, the
    first record, and the run before that. `own_us`: the last record's timestamp. `clean`: the last
    offset whose time does not depend on the records before it."""

    run: _Run
    last: int
    batch: int
    first: int
    before: _Run | None
    own_us: int
    clean: int


class RecordTimes:
    """Write times in microseconds from records' timestamps.

    A record's time is its timestamp plus its offset modulo 1,000, which is the same whenever it is
    written again. Where that is not later than the time of the record before it, it is one
    microsecond per offset after that. A record that is more than ten seconds older than its
    predecessor keeps its own time: then timestamps decide, as with DataStax's sink.
    """

    def __init__(self) -> None:
        self._places: dict[TopicPartition, _Place] = {}
        self._offered: dict[TopicPartition, int] = {}
        self._batch = 0

    def begin(self) -> None:
        """A batch begins; it may have the records of the one before it again."""
        self._batch += 1

    def of(self, partition: TopicPartition, offset: int, timestamp: int | None) -> int | None:
        """The write time of a record, given in the order of offsets; None if it has no
        timestamp."""
        if timestamp is None or timestamp < 0:
            return None
        own = timestamp * _TICKS + offset % _TICKS
        place = self._places.get(partition)
        before = None if place is None else self._before(place, offset)
        run = before
        if before is None or not 0 <= before.at(offset) - own <= _SLACK_US:
            run = _Run(offset, own)
        assert run is not None
        clean = offset if place is None or run.at(offset) == own else place.clean
        if place is None or place.batch != self._batch:
            place = _Place(run, offset, self._batch, offset, before, 0, 0)
            self._places[partition] = place
        place.run, place.last = run, offset
        place.own_us, place.clean = timestamp * _TICKS, clean
        return run.at(offset)

    def resumable(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets to commit, so that a task which resumes there writes with the same times.

        If the next record could have a time that is not later than the last one's, the task resumes
        before it, where times do not depend on earlier records. If nothing was written since the
        last call, the next record is younger.
        """
        allowed: dict[TopicPartition, int] = {}
        for partition, offset in reached.items():
            place = self._places.get(partition)
            if place is None:
                allowed[partition] = offset
            elif place.last >= offset:  # its batch is not written yet
                if place.clean <= offset:
                    allowed[partition] = place.clean
            elif (
                place.run.at(offset) > place.own_us + offset % _TICKS
                and self._offered.get(partition) != offset
            ):
                allowed[partition] = place.clean
            else:
                allowed[partition] = offset
        self._offered = dict(reached)
        return allowed

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets partitions that another task may have written meanwhile."""
        for partition in partitions:
            self._places.pop(partition, None)
            self._offered.pop(partition, None)

    def _before(self, place: _Place, offset: int) -> _Run | None:
        """The run of the record before this one; None if that is not known."""
        if offset > place.last:
            return place.run
        return place.before if offset == place.first else None


class Clock:
    """Write times of statements that say none: the present, and never the same twice. A statement
    that is sent again keeps its time, so it does not replace what was written after it."""

    def __init__(self, now_us: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._now_us = now_us
        self._last = 0

    def next(self) -> int:
        self._last = max(self._now_us(), self._last + 1)
        return self._last
