"""Reads new content of monitored files, one file after the other (connectors.md §10).

A round lists the monitored folders and notes the files that changed; polls read them. The reader
remembers what each poll returns, so after any failure the next round continues after it. A server
that does not answer ends the round: the next one is delayed with backoff, and the task continues.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from penstock.api import (
    Column,
    Offsets,
    Polled,
    Records,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.schema import BYTES, STRING
from penstock.connectors.files.monitor import changes
from penstock.connectors.files.monitor.changes import Mode, Schedule
from penstock.connectors.files.monitor.known import (
    PATH,
    FileState,
    Known,
    by_path,
    first,
    name_of_old,
)
from penstock.connectors.files.monitor.pieces import Piece, line_slices, slices
from penstock.connectors.files.monitor.plan import Cleanup, MonitorPlan, Watch
from penstock.connectors.files.stores.folders import (
    FolderStore,
    IdentityRefused,
    Item,
    LoginRefused,
)
from penstock.connectors.files.stores.reading import (
    FileChanged,
    ListedFile,
    OpenFile,
    move_without_replacing,
)
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable

log = logging.getLogger(__name__)

_BLOCK: Final = 1 << 20  # bytes that are hashed at once
_POLL_MS: Final = 500  # a slow server must not delay records that were read
_LONG_REST_MS: Final = 30_000  # idle connections are not kept that long


@dataclass(slots=True)
class _Batch:
    """The records of a poll."""

    topics: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    key_offsets: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    offsets: list[SourceOffset] = field(default_factory=list)
    reached: list[int] = field(default_factory=list)
    """How many offsets there were after each record."""
    size: int = 0

    def add(self, topic: str, path: str, key_offset: int, body: bytes) -> None:
        self.topics.append(topic)
        self.names.append(path)
        self.key_offsets.append(key_offset)
        self.bodies.append(body)
        self.reached.append(len(self.offsets))
        self.size += len(path) + len(body)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _ticks_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class MonitorReader(SourceReader):
    """Reads the files of one task. `now_ms` returns the time since the epoch; `ticks_ms`, a
    monotonic clock, schedules rounds."""

    def __init__(
        self,
        plan: MonitorPlan,
        store: FolderStore,
        context: SourceContext,
        *,
        now_ms: Callable[[], int] = _now_ms,
        ticks_ms: Callable[[], int] = _ticks_ms,
    ) -> None:
        self._plan = plan
        self._store = store
        self._context = context
        self._now_ms = now_ms
        self._ticks_ms = ticks_ms
        self._known = by_path(context.stored_offsets)
        self._schedule = Schedule(plan.refresh_ms, plan.max_backoff_ms, ticks_ms())
        self._changed: deque[tuple[Watch, FileState]] = deque()
        self._pieces: Generator[None] | None = None
        """Adds the pieces of the current file to the batch, one at a time."""
        self._path = ""
        """The path of the current file."""
        self._deferred: set[str] = set()
        """Files on which the server failed: others are read first."""
        self._batch = _Batch()
        self._warned: set[str] = set()  # paths with a logged warning
        self._is_resting = True
        self.idle_ms = min(200, max(20, plan.refresh_ms // 5))

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        self._batch = _Batch()
        try:
            self._read(max_bytes)
        except StoreUnavailable as error:
            self._fail(error)
        except (LoginRefused, IdentityRefused) as error:  # the server may be reconfigured
            self._fail(error)
        batch = self._batch
        if not batch.offsets:
            return None
        return Polled(
            self._records(batch),
            batch.offsets,
            offsets_before=lambda count: batch.offsets[: batch.reached[count - 1]],
        )

    def committed(self, offsets: Offsets) -> None:
        if self._plan.after is Cleanup.NOTHING:
            return
        for entry in offsets:
            path = str(entry.partition.get(PATH))
            known = self._known.get(path)
            if known is not None and entry == known.stored(path) and self._is_update(path):
                self._finish_quietly(ListedFile(path, known.size, known.modified_ms), known)

    def close(self) -> None:
        self._end_file()
        self._store.close()

    def _read(self, max_bytes: int) -> None:
        """Fills the batch, up to about `max_bytes`."""
        started_ms = self._ticks_ms()
        if not self._has_work():
            if self._ticks_ms() < self._schedule.due_ms:
                self._rest()
                return
            self._list_folders()
        while self._has_work() and self._context.is_running:
            if self._pieces is None:
                watch, seen = self._changed.popleft()
                self._path = seen.path
                self._pieces = self._pieces_of(watch, seen)
            try:
                next(self._pieces)
            except StopIteration:
                self._pieces = None
            except (LoginRefused, IdentityRefused):
                raise
            except StoreRefused as error:
                self._end_file()
                self._leave_out(self._path, error)
            batch = self._batch
            if batch.size >= max_bytes or len(batch.bodies) >= self._plan.max_records:
                return
            if batch.offsets and self._ticks_ms() - started_ms >= _POLL_MS:
                return

    def _has_work(self) -> bool:
        return self._pieces is not None or bool(self._changed)

    def _list_folders(self) -> None:
        """Lists the monitored folders."""
        now, plan = self._now_ms(), self._plan
        self._is_resting = False
        listed: set[str] = set()
        for watch in plan.watches:
            for path, item in watch.pattern.files(self._items):
                seen = FileState(path, item.size, item.modified_ms, item.precision_ms)
                if path in listed or not self._is_ours(seen, now):
                    continue
                listed.add(path)
                known = self._known_of(path)
                if self._differs(watch.mode, known, seen):
                    self._changed.append((watch, seen))
                elif known is not None and watch.mode is Mode.UPDATE:
                    self._finish_leftover(seen, known)
        if self._deferred:
            self._changed = deque(
                sorted(self._changed, key=lambda change: change[1].path in self._deferred)
            )
        self._schedule = self._schedule.succeeded(self._ticks_ms())

    def _known_of(self, path: str) -> Known | None:
        known = self._known.get(path)
        if known is None and not path.isascii():
            known = self._known.get(name_of_old(path))
            if known is not None:
                self._known[path] = known
        return known

    def _items(self, folder: str) -> Sequence[Item]:
        """The items of a folder; none if it is missing or may not be listed."""
        try:
            items = self._store.items(folder)
        except (LoginRefused, IdentityRefused):
            raise
        except StoreRefused as error:
            self._leave_out(folder, error)
            return []
        self._warned.discard(folder)
        return items

    def _is_ours(self, seen: FileState, now_ms: int) -> bool:
        plan = self._plan
        return (
            (seen.modified_ms <= 0 or now_ms - seen.modified_ms <= plan.max_age_ms)
            and plan.name_filter.fullmatch(seen.path.rpartition("/")[2]) is not None
            and changes.share_of(seen.path, plan.shares) == plan.share
        )

    def _differs(self, mode: Mode, known: Known | None, seen: FileState) -> bool:
        if self._plan.slice_bytes:
            return changes.slice_start(mode, known, seen, self._plan.shrunk) is not None
        return changes.look(mode, known, seen, self._plan.shrunk) is not None

    def _pieces_of(self, watch: Watch, seen: FileState) -> Generator[None]:
        known = self._known.get(seen.path)
        found = ListedFile(seen.path, seen.size, seen.modified_ms)
        if self._plan.slice_bytes:
            start = changes.slice_start(watch.mode, known, seen, self._plan.shrunk)
            if start is None:
                return
            with closing(self._store.open(found, start, growing=True)) as file:
                yield from self._in_slices(watch, seen, known, file, start)
            return
        look = changes.look(watch.mode, known, seen, self._plan.shrunk)
        if look is None:
            return
        with closing(self._store.open(found, growing=True)) as file:
            self._at_once(watch, seen, known, file, look)
        yield

    def _in_slices(
        self, watch: Watch, seen: FileState, known: Known | None, file: OpenFile, start: int
    ) -> Generator[None]:
        is_resent = known is not None and watch.mode is Mode.UPDATE and not start and known.sent > 0
        cut = line_slices if self._plan.whole_lines else slices
        for piece in cut(file.read, start, seen.size, self._plan.slice_bytes):
            key_offset = 0 if is_resent else piece.key_offset
            is_resent = False
            before = self._known.get(seen.path) or first(self._now_ms())
            self._advance(seen.path, before.advanced(seen, piece.end, self._now_ms()))
            self._batch.add(watch.topic, seen.path, key_offset, piece.body)
            yield

    def _at_once(
        self, watch: Watch, seen: FileState, known: Known | None, file: OpenFile, look: changes.Look
    ) -> None:
        """Reads a file up to its listed size: anything beyond is a change for the next round."""
        piece: Piece | None
        if isinstance(look, changes.Tail):
            hasher = _hashed(file, seen.path, look.start)
            if look.digest in ("", hasher.hexdigest()):
                body = _bytes(file, seen.path, seen.size - look.start)
                hasher.update(body)
                digest = hasher.hexdigest()
                piece = Piece(body, seen.size, look.start) if body else None
            else:
                log.warning(
                    "%s cannot be tailed, since its beginning has changed; sending all of it",
                    seen.path,
                )
                file.seek(0)
                piece, digest = _whole(file, seen.path, seen.size)
        elif look.silently:
            log.warning("%s changed but did not grow; skipping it", seen.path)
            piece, digest = None, _hashed(file, seen.path, seen.size).hexdigest()
        else:
            piece, digest = _whole(file, seen.path, seen.size)
            is_same = digest == look.unless
            was_emptied = known is not None and watch.mode is Mode.TAIL and not piece.body
            if is_same or was_emptied:
                piece = None
            elif known is not None and watch.mode is Mode.TAIL:
                log.warning("%s changed but did not grow; sending all of it", seen.path)
        now = self._now_ms()
        before = known or first(now)
        self._advance(seen.path, before.inspected(seen, digest, now, sent=piece is not None))
        if piece is not None:
            self._batch.add(watch.topic, seen.path, piece.key_offset, piece.body)

    def _advance(self, path: str, known: Known) -> None:
        self._known[path] = known
        self._batch.offsets.append(known.stored(path))
        self._warned.discard(path)
        self._deferred.discard(path)

    def _records(self, batch: _Batch) -> Records:
        count, schema = len(batch.bodies), self._plan.key_schema
        if schema is None:
            keys = Column.of(list(batch.names), STRING)
        else:
            pairs = zip(batch.names, batch.key_offsets, strict=True)
            keys = Column.of([{"name": name, "offset": offset} for name, offset in pairs], schema)
        nulls: list[int | None] = [None] * count
        values = Column.of(list(batch.bodies), BYTES)
        return Records(batch.topics, list(nulls), list(nulls), keys, values)

    def _fail(self, error: StoreRefused | StoreUnavailable) -> None:
        """Ends the round. The next one continues after what was read."""
        if self._pieces is not None:
            self._deferred.add(self._path)
        self._end_file()
        self._changed.clear()
        now = self._ticks_ms()
        self._schedule = self._schedule.failed(now)
        log.warning("%s; retrying in %.1f s", error, (self._schedule.due_ms - now) / 1000)

    def _end_file(self) -> None:
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None

    def _leave_out(self, path: str, error: StoreRefused) -> None:
        """Leaves a file or folder out for this round. Warns once per path, except for files that
        changed while they were read."""
        if isinstance(error, FileChanged):
            log.info("%s It will be read again.", error)
        elif path not in self._warned:
            self._warned.add(path)
            log.warning("%s; it is skipped for now", error)

    def _rest(self) -> None:
        if not self._is_resting and self._schedule.due_ms - self._ticks_ms() > _LONG_REST_MS:
            self._is_resting = True
            self._store.rest()

    def _is_update(self, path: str) -> bool:
        """Whether a file belongs to a watch of mode UPDATE."""
        watches = (watch for watch in self._plan.watches if watch.pattern.fits(path))
        watch = next(watches, None)
        return watch is not None and watch.mode is Mode.UPDATE

    def _finish_leftover(self, seen: FileState, known: Known) -> None:
        """Finishes a file whose offset is stored, in case an earlier task did not."""
        if self._plan.after is Cleanup.NOTHING:
            return
        stored = self._context.stored_offset({PATH: seen.path})
        if stored == known.stored(seen.path).offset:
            self._finish_quietly(ListedFile(seen.path, seen.size, seen.modified_ms), known)

    def _finish_quietly(self, found: ListedFile, known: Known) -> None:
        """Deletes or moves a file that was sent, unless it has changed. A failure is retried in the
        next round."""
        if known.sent != known.size:
            return
        try:
            if self._plan.after is Cleanup.DELETE:
                self._store.delete(found)
            else:
                move_without_replacing(self._store, found, self._plan.moved(found.path))
        except (StoreUnavailable, StoreRefused) as error:
            if found.path not in self._warned:
                self._warned.add(found.path)
                log.warning("%s; it will be moved or deleted later", error)


def _hashed(file: OpenFile, path: str, count: int) -> hashlib._Hash:
    """The hash of the next `count` bytes. Raises FileChanged if there are fewer."""
    hasher = hashlib.sha256()
    while count:
        block = file.read(min(count, _BLOCK))
        if not block:
            raise FileChanged(path, "became shorter")
        hasher.update(block)
        count -= len(block)
    return hasher


def _bytes(file: OpenFile, path: str, count: int) -> bytes:
    body = file.read(count) if count else b""
    if len(body) < count:
        raise FileChanged(path, "became shorter")
    return body


def _whole(file: OpenFile, path: str, size: int) -> tuple[Piece, str]:
    body = _bytes(file, path, size)
    return Piece(body, size, 0), hashlib.sha256(body).hexdigest()
