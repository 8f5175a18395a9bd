"""Reads the files of a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from penstock.api import (
    Column,
    DataError,
    Failed,
    Header,
    Offsets,
    PenstockError,
    Polled,
    Records,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.connectors.files.formats.decoder import Chunk, Position
from penstock.connectors.files.read.ledger import Progress, key_of
from penstock.connectors.files.read.names import Target
from penstock.connectors.files.read.opened import Opened
from penstock.connectors.files.read.plan import SourcePlan
from penstock.connectors.files.read.ranges import Range, is_split, records_of, window
from penstock.connectors.files.read.rows import Side, dressed
from penstock.connectors.files.read.scan import Leftover, Scan, Work
from penstock.connectors.files.stores.reading import FileChanged, ListedFile, ReadStore
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

_TIDY_AGAIN_MS: Final = 5_000
_LARGE: Final = 1_000
"""Chunks of this many records are not joined with others: that would copy columns."""
_LOGGED: Final = 10
"""Skipped records of a file that are logged with a line each."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """A file that was read or given up, whose offset is not stored yet."""

    found: ListedFile
    target: Target
    error: bool


class FilesReader(SourceReader):
    """Reads files one by one.

    Only the ledger knows what was polled: after an error the file is reopened where the last poll
    ended.
    """

    idle_ms = 0  # `poll` waits

    def __init__(
        self,
        plan: SourcePlan,
        store: ReadStore,
        context: SourceContext,
        task: int,
        tasks: int,
        now: Callable[[], int],
    ) -> None:
        self._plan = plan
        self._store = store
        self._context = context
        self._now = now
        self._ledger = plan.ledger(context.stored_offsets, task, tasks)
        self._scan = Scan(plan.finding, store, self._ledger, task, tasks)
        self._work: Work | None = None
        self._file: Opened | None = None
        self._broken: Exception | None = None  # the error of the next record of the file
        self._skipped = 0
        self._ended: dict[str, _Ended] = {}  # by path
        self._stored: list[_Ended] = []  # files whose offset is stored
        self._forgotten: list[SourceOffset] = []
        self._tidy_at_ms = 0
        self._halt: Exception | None = None  # raised once all ended files are tidied up

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        now = self._now()
        deadline = now + wait_ms
        while True:
            self._tidy(now)
            if self._halt is not None and not self._ended:
                raise self._halt
            polled = None if self._halt is not None else self._gather(max_bytes, now)
            if polled is not None:
                return polled
            now = self._now()
            if self._halt is not None or now >= deadline or not self._context.is_running:
                return None
            self._context.wait(max(1, min(deadline - now, self._scan.wait_ms(now))) / 1000)
            now = self._now()

    def committed(self, offsets: Offsets) -> None:
        if not self._ended:
            return
        stored = {key_of(entry.partition): entry.offset for entry in offsets}
        for path, ended in list(self._ended.items()):
            if self._ledger.covers(stored, ended.found, ended.target):
                del self._ended[path]
                self._stored.append(ended)
        self._context.wake()

    def read(self, part: str) -> Iterator[Records]:
        return records_of(self._plan, self._store, self._context, Range.of(part))

    def close(self) -> None:
        self._close_file()
        self._store.close()

    def _gather(self, max_bytes: int, now: int) -> Polled | None:
        """The next records: of one file, or of several small ones."""
        gathered = _Gathered()
        self._report_forgotten(gathered)
        if (forgotten := gathered.polled()) is not None:
            return forgotten
        remaining = max_bytes
        while remaining > 0:
            if self._work is None:
                work = self._next(now, gathered)
                if work is None:
                    break
                self._work = work
                if work.reread:
                    gathered.add(self._advance())
            if is_split(self._plan, self._work):
                return gathered.polled() if gathered.records else self._split(gathered)
            try:
                result = self._read(remaining)
            except Exception as error:
                self._close_file()
                if gathered.records:
                    break  # the next poll reports it
                self._handle(error, gathered)
                break
            if result is None:
                self._end(gathered)
                continue
            chunk, side = result
            before = self._work.position
            self._take(chunk, side, gathered)
            after = self._work.position
            if len(chunk.values) >= _LARGE:
                break
            if before.byte is not None and after.byte is not None:
                remaining -= max(after.byte - before.byte, 1)
            else:
                remaining -= min(remaining, max(self._work.found.size, 1))
        return gathered.polled()

    def _split(self, gathered: _Gathered) -> Polled:
        """The next ranges of a file, to be read in parallel."""
        work = self._work
        assert work is not None, "there is a file"
        ranges, stop = window(self._plan, work)
        self._work = replace(work, position=Position(0, stop))
        if stop == work.found.size:
            self._end(gathered)
        else:
            gathered.add(self._advance())
        return Polled(offsets=gathered.offsets(), parts=[range.part() for range in ranges])

    def _next(self, now: int, gathered: _Gathered) -> Work | None:
        """The next file. Cleans up files that a stopped task left over."""
        while True:
            try:
                work = self._scan.next(now)
            except StoreUnavailable:
                if gathered.records:
                    return None
                raise
            if not isinstance(work, Leftover):
                self._skipped = 0
                return work
            if work.found.path not in self._ended:  # else its offset is not stored yet
                self._stored.append(_Ended(work.found, work.target, work.error))
                self._tidy(now)
                if self._stored:
                    return None  # the store is unavailable
                self._report_forgotten(gathered)

    def _report_forgotten(self, gathered: _Gathered) -> None:
        """Adds the offsets of files that are no longer remembered."""
        for offset in (*self._scan.forgotten, *self._forgotten):
            gathered.add(offset)
        self._scan.forgotten = []
        self._forgotten = []

    def _read(self, max_bytes: int) -> tuple[Chunk, Side] | None:
        if self._broken is not None:
            raise self._broken
        assert self._work is not None, "there is a file"
        if self._file is None:
            self._file = Opened(self._plan, self._store, self._work)
        return self._file.read(max_bytes)

    def _take(self, chunk: Chunk, side: Side, gathered: _Gathered) -> None:
        """Adds a chunk, up to the first failed record unless such records are skipped."""
        work = self._work
        assert work is not None, "there is a file"
        first = chunk.after.record - len(chunk.values)
        failed: Failed = dict(chunk.failed)
        records = dressed(self._plan.dress, work, first, chunk.values, side, failed)
        position = chunk.after
        if failed and self._plan.errors.skips_records:
            self._log_skipped(failed)
            records = records.but(failed)
        elif failed:
            row = min(failed)
            self._broken = failed[row]
            records = records.only(range(row))
            position = work.position if row == 0 else _position(chunk, row)
        self._work = replace(work, position=position)
        if len(records):
            gathered.take(records, partial(self._offset_within, work, chunk))
        if position != work.position:
            gathered.add(self._advance())

    def _advance(self, *, is_read: bool = False, error: str | None = None) -> SourceOffset:
        """Updates the ledger with the position in the file; returns the offset."""
        work = self._work
        assert work is not None, "there is a file"
        progress = Progress(work.position, is_read, self._version(work), error)
        return self._ledger.advance(work.found, work.target, progress)

    def _offset_within(self, work: Work, chunk: Chunk, rows: int) -> SourceOffset:
        """The offset after the first `rows` of a chunk."""
        progress = Progress(_position(chunk, rows), version=self._version(work))
        return self._ledger.offset(work.found, work.target, progress)

    def _version(self, work: Work) -> str:
        return "" if self._plan.finding.tails else work.found.version

    def _end(self, gathered: _Gathered, error: str | None = None) -> None:
        """Ends a file that was read to its end, or that is given up."""
        work = self._work
        assert work is not None, "there is a file"
        self._close_file()
        if not self._plan.finding.tails or error is not None:
            gathered.add(self._advance(is_read=True, error=error))
            after = self._plan.after
            if after.removes if error is None else after.errors is not None:
                ended = _Ended(work.found, work.target, error is not None)
                self._ended[work.found.path] = ended
        self._work = None
        self._broken = None

    def _handle(self, error: Exception, gathered: _Gathered) -> None:
        """Handles an error of the current file."""
        work = self._work
        assert work is not None, "there is a file"
        if not isinstance(error, DataError | StoreRefused):
            raise error
        if isinstance(error, FileChanged) and self._plan.finding.again:
            log.warning("%s It will be checked again.", error)
            self._work = self._broken = None
            return
        errors = self._plan.errors
        text = f"The file '{work.found.path}' cannot be read: {str(error).rstrip('.')}."
        if errors.skips_files:
            log.error("%s The rest of it is skipped (%s).", text, errors.setting)
            self._end(gathered, str(error))
            return
        failure = DataError(
            f"{text} {work.position.record} records of it were read. Repair or remove the file, "
            f"or set {errors.setting} to skip such files."
        )
        failure.__cause__ = error
        if self._plan.after.errors is None:
            raise failure
        self._end(gathered, str(error))
        self._halt = failure  # raised once the file is moved

    def _log_skipped(self, failed: Failed) -> None:
        assert self._work is not None, "there is a file"
        for row in sorted(failed):
            self._skipped += 1
            if self._skipped <= _LOGGED:
                path = self._work.found.path
                log.error("A record of '%s' is skipped: %s", path, failed[row])
            elif self._skipped == _LOGGED + 1:
                log.error("More records of '%s' are skipped", self._work.found.path)

    def _tidy(self, now: int) -> None:
        """Applies the policy to files whose offsets are stored."""
        if not self._stored or now < self._tidy_at_ms:
            return
        while self._stored:
            ended = self._stored[0]
            try:
                removed = self._plan.after.apply(self._store, ended.found, error=ended.error)
            except StoreUnavailable as error:
                log.warning(
                    "Cannot apply the cleanup policy to '%s' yet: %s", ended.found.path, error
                )
                self._tidy_at_ms = now + _TIDY_AGAIN_MS
                return
            except StoreRefused as error:
                raise PenstockError(
                    f"'{ended.found.path}' was read, but cannot be removed: {error}"
                ) from error
            del self._stored[0]
            offset = self._ledger.forget(ended.found, ended.target) if removed else None
            if offset is not None:
                self._forgotten.append(offset)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _position(chunk: Chunk, rows: int) -> Position:
    """The position after the first `rows` of a chunk."""
    record = chunk.after.record - len(chunk.values) + rows
    return Position(record, chunk.after.byte if chunk.ends is None else chunk.ends[rows - 1])


@dataclass(frozen=True, slots=True)
class _Taken:
    """Records of a chunk; `offset_after` gives the offset after its first rows."""

    records: Records
    offset_after: Callable[[int], SourceOffset]


class _Gathered:
    """The records and offsets of a poll."""

    def __init__(self) -> None:
        self.records: list[Records] = []
        self._steps: list[_Taken | SourceOffset] = []

    def take(self, records: Records, offset_after: Callable[[int], SourceOffset]) -> None:
        self.records.append(records)
        self._steps.append(_Taken(records, offset_after))

    def add(self, offset: SourceOffset) -> None:
        self._steps.append(offset)

    def polled(self) -> Polled | None:
        if not self._steps:
            return None
        return Polled(_joined(self.records), self.offsets(), offsets_before=self.offsets)

    def offsets(self, count: int | None = None) -> list[SourceOffset]:
        """The last offset of each partition, after all records or the first `count`."""
        offsets: dict[object, SourceOffset] = {}

        def add(offset: SourceOffset) -> None:
            offsets[key_of(offset.partition)] = offset

        for step in self._steps:
            if isinstance(step, SourceOffset):
                add(step)
            elif count is not None and count < len(step.records):
                if count:
                    add(step.offset_after(step.records.origins[count - 1] + 1))
                break
            elif count is not None:
                count -= len(step.records)
        return list(offsets.values())


def _joined(parts: Sequence[Records]) -> Records:
    if len(parts) < 2:
        return parts[0] if parts else Records.none()
    headers: list[Sequence[Header]] = []
    if any(part.headers for part in parts):
        headers = [row for part in parts for row in part.headers or [()] * len(part)]
    return Records(
        topics=[cell for part in parts for cell in part.topics],
        partitions=[cell for part in parts for cell in part.partitions],
        timestamps=[cell for part in parts for cell in part.timestamps],
        keys=_column([part.keys for part in parts]),
        values=_column([part.values for part in parts]),
        headers=headers,
    )


def _column(columns: Sequence[Column]) -> Column:
    values = [value for column in columns for value in column.values]
    return Column.gather(values, [schema for column in columns for schema in column.schemas()])
