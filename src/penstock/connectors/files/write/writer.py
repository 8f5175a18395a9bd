"""Writes the records of one sink task into files.

Files of a span are open until a cut completes them (`boundaries.spans`), then a few threads store
them while the next ones are written. Offsets are committed up to the last cut before the first file
that is not stored.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from penstock.api import (
    DataError,
    Failed,
    Records,
    SinkContext,
    SinkWriter,
    TopicPartition,
)
from penstock.connectors.files.boundaries.paths import to_local
from penstock.connectors.files.boundaries.spans import (
    EMPTY,
    Add,
    Cut,
    OpenFile,
    Span,
    advance,
    is_due,
    is_over,
)
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.stores.store import Store
from penstock.connectors.files.write.files import OpenFiles, Storing
from penstock.connectors.files.write.plan import Clock, SinkPlan
from penstock.connectors.files.write.rows import RowReader

log = logging.getLogger(__name__)

_THREADS: Final = 8
_SPANS: Final = 8  # of one topic partition that are stored at once, before its task waits
_IDLE_MS: Final = 1_000
_HELD_BYTES: Final = 128 << 20  # by the formats of all open files of a task


@dataclass(slots=True)
class _Partition:
    """The files of one topic partition."""

    at: TopicPartition
    span: Span = EMPTY
    open: dict[str, OpenFiles | DataError] = field(default_factory=dict)  # by folder
    storing: deque[Storing] = field(default_factory=deque)
    stored: int | None = None  # the last cut whose files are stored, and all before it
    next: int = 0  # the offset after the last record
    revoked: bool = False


class FileWriter(SinkWriter):
    """Writes a task's records into files of a store."""

    takes_fields = True

    def __init__(
        self,
        plan: SinkPlan,
        store: Store,
        context: SinkContext,
        now: Callable[[], int],
    ) -> None:
        """`now`: ms since the epoch."""
        self._plan = plan
        self._store = store
        self._context = context
        self._now = now
        self._reader = RowReader(plan)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="files")
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._formats: list[tuple[str, Format]] = [("values", plan.values)]
        if plan.keys is not None:
            self._formats.append(("keys", plan.keys))
        if plan.headers is not None:
            self._formats.append(("headers", plan.headers))
        self._closes_when_idle = plan.clock is Clock.WALL and plan.rules.interval_ms is not None
        if plan.rules.schedule_ms is not None or self._closes_when_idle:
            self.idle_ms = _IDLE_MS

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        # What the store does not take is told before anything is written, not half way.
        at = TopicPartition(records.topics[0], records.partitions[0] or 0)
        partition = self._partitions.get(at)
        if partition is None:
            partition = self._partitions[at] = _Partition(at)
        self._settle(partition)
        now = self._now()
        taken = self._reader.read(records, now, failed, lambda row: self._ignore(row, failed))
        places = taken.places
        span, actions, refused = advance(
            self._plan.rules, partition.span, taken.rows, self._local(now)
        )
        bad: Failed = {row: DataError(why) for row, why in refused.items()}
        for action in actions:
            match action:
                case Add(file, rows):
                    opened = self._opened(partition, file)
                    if isinstance(opened, DataError):
                        bad.update(dict.fromkeys(rows, opened))
                    else:
                        opened.write(taken.records, rows, bad)
                case Cut(offset):
                    self._cut(partition, offset)
        partition.span = span
        self._limit_memory()
        partition.next = records.offsets[-1] + 1
        for row, error in bad.items():
            failed[row if places is None else places[row]] = error

    def idle(self) -> None:
        now = self._now()
        local = self._local(now)
        for partition in self._partitions.values():
            if partition.revoked:
                continue
            due = is_due(self._plan.rules, partition.span, local)
            if self._closes_when_idle:
                due = due or is_over(self._plan.rules, partition.span, now)
            if due:
                self._cut(partition, partition.next)
                partition.span = EMPTY

    def flush(self) -> None:
        self._try_again()
        # Nothing is under way when an error is raised, so the next try is one of everything.
        for partition in self._partitions.values():
            for storing in partition.storing:
                storing.wait_for_all()
        for partition in self._partitions.values():
            self._take_stored(partition, wait_for=0)

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        allowed: dict[TopicPartition, int] = {}
        for at, offset in reached.items():
            partition = self._partitions.get(at)
            if partition is None:
                allowed[at] = offset
                continue
            self._take_stored(partition, wait_for=None)
            if not partition.storing and not partition.span.count:
                allowed[at] = offset
            elif partition.stored is not None:
                allowed[at] = partition.stored
        return allowed

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
        for at, offset in partitions.items():
            self._drop(at)
            self._partitions[at] = _Partition(at, next=offset)

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        for at in partitions:
            if lost:
                self._drop(at)
                self._partitions.pop(at, None)
            elif (partition := self._partitions.get(at)) is not None:
                # Its next owner writes these again. The span stays, and holds their offsets back.
                partition.revoked = True
                self._drop_open(partition)

    def close(self) -> None:
        for at in list(self._partitions):
            self._drop(at)
        self._partitions = {}
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._store.close()

    def _opened(self, partition: _Partition, file: OpenFile) -> OpenFiles | DataError:
        """The file, new if it is not open; or why there cannot be one."""
        opened = partition.open.get(file.folder)
        if opened is None:
            topic, number = partition.at
            # Tombstones have no value to be written.
            formats = self._formats[1:] if file.tombstones else self._formats
            try:
                opened = OpenFiles(
                    self._store,
                    file.schemas,
                    formats,
                    lambda ending: self._plan.naming.path(
                        topic, file.folder, number, file.start, ending
                    ),
                )
            except DataError as error:
                opened = error
            partition.open[file.folder] = opened
        return opened

    def _cut(self, partition: _Partition, offset: int) -> None:
        """Completes all open files."""
        files = []
        for opened in partition.open.values():
            if isinstance(opened, DataError):
                continue
            if opened.rows:
                files += opened.finish()
            else:
                opened.drop()
        partition.open = {}
        partition.storing.append(Storing(offset, files, self._pool))

    def _limit_memory(self) -> None:
        """Has formats write what they hold, those first that hold most, until it is little."""
        opened = [
            each
            for partition in self._partitions.values()
            for each in partition.open.values()
            if isinstance(each, OpenFiles)
        ]
        held = sum(each.held_bytes for each in opened)
        if held <= _HELD_BYTES:
            return
        for each in sorted(opened, key=lambda each: -each.held_bytes):
            held -= each.held_bytes
            each.relieve()
            if held <= _HELD_BYTES // 2:
                return

    def _settle(self, partition: _Partition) -> None:
        """Has the store take what is due, and does not let complete files pile up."""
        if len(partition.storing) > _SPANS:
            self._try_again()
        self._take_stored(partition, wait_for=_SPANS)
        for opened in partition.open.values():
            if isinstance(opened, OpenFiles):
                opened.settle()

    def _try_again(self) -> None:
        for partition in self._partitions.values():
            for storing in partition.storing:
                storing.try_again()

    def _take_stored(self, partition: _Partition, wait_for: int | None) -> None:
        """Notes the spans that are stored; waits until at most so many are not."""
        storing = partition.storing
        while storing:
            if wait_for is not None and len(storing) > wait_for:
                storing[0].wait()
            elif not storing[0].is_stored:
                return
            partition.stored = storing.popleft().offset

    def _drop_open(self, partition: _Partition) -> None:
        for opened in partition.open.values():
            if isinstance(opened, OpenFiles):
                opened.drop()
        partition.open = {}

    def _drop(self, at: TopicPartition) -> None:
        partition = self._partitions.get(at)
        if partition is not None:
            self._drop_open(partition)
            while partition.storing:
                partition.storing.popleft().drop()

    def _ignore(self, row: int, failed: Failed) -> None:
        """Leaves a record without a value out."""
        if self._plan.report_nulls and self._context.tolerates_errors:
            failed[row] = DataError(
                "The record has no value, and behavior.on.null.values is 'ignore'"
            )

    def _local(self, now: int) -> int:
        return to_local(now, self._plan.zone) if self._plan.rules.schedule_ms else now
