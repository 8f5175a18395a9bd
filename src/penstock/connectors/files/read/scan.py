"""Finds the files to be read next.

Files are listed in the order of their names, and each is read at once, so that memory does not grow
with their number. A task skips files that it does not own or has read; after many of these, the
listing jumps past them. When a listing ends, the next one begins after a pause.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from penstock.api import SourceOffset
from penstock.connectors.files.formats.decoder import Position
from penstock.connectors.files.read.ledger import Ledger, Progress
from penstock.connectors.files.read.names import Names, Target, share_of
from penstock.connectors.files.stores.reading import ListedFile, ReadStore

log = logging.getLogger(__name__)

_SKIPPED: Final = 2_000
"""Files of a lane that are skipped one by one before the listing jumps past them."""
_SORTED: Final = 10_000
"""The maximum number of files that are sorted in memory."""
_SETTLED: Final = 1_000
"""The ledger may forget files after this many."""

SortKey = Callable[[ListedFile], tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Work:
    """A file to be read from a position on."""

    found: ListedFile
    target: Target
    position: Position
    reread: bool = False
    """Whether the file changed and is read again from its beginning."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that was read, but whose policy was not applied because its task had stopped."""

    found: ListedFile
    target: Target
    error: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """Which files to look for, and how."""

    prefixes: Sequence[str]
    names: Names
    recursive: bool = True
    poll_ms: int = 60_000
    """From the end of a listing to the start of the next one."""
    since_ms: int = 0
    """Files that were modified earlier are not read."""
    start_after: str = ""
    """Files whose paths are not greater are not read."""
    min_age_ms: int = 0
    """Files that were modified more recently are not read yet."""
    marker: str = ""
    """Files are not read while a file exists with their name and this suffix."""
    below: Sequence[str] = ()
    """Folders that are skipped, because files are moved to them."""
    again: bool = False
    """Whether to read a file again when it is written again."""
    tails: bool = False
    """Whether files may grow."""
    removes: bool = False
    """Whether files are deleted or moved after they were read."""
    order: SortKey | None = None
    """None: by name."""


class Scan:
    """The files of a task."""

    def __init__(
        self, finding: Finding, store: ReadStore, ledger: Ledger, task: int, tasks: int
    ) -> None:
        self._finding = finding
        self._store = store
        self._ledger = ledger
        self._task = task
        self._tasks = tasks
        self._listing: Iterator[Work | Leftover] | None = None
        self._cursor = ""
        self._last = ""  # the last file that was returned
        self._began_ms = 0
        self._returned = 0
        self._held_back: set[str] = set()  # lanes
        self._more = False  # whether there are more files than were sorted
        self._marked = False  # whether a file is held back by a marker
        self._next_ms = 0
        self.forgotten: list[SourceOffset] = []
        """Offsets to store because files are forgotten. The caller clears them."""

    def next(self, now: int) -> Work | Leftover | None:
        """The next file, or None if none is due. The caller has read or given up the previous one.
        Raises errors of the store; the next call continues there."""
        if self._listing is None:
            if now < self._next_ms:
                return None
            if not self._cursor:
                self._began_ms = now
                self._held_back = set()
                self._marked = False
            self._listing = self._list(now)
        try:
            work = next(self._listing, None)
        except BaseException:
            self._listing = None
            self._cursor = self._last
            raise
        if work is not None:
            self._returned += 1
            if self._returned % _SETTLED == 0 and self._finding.order is None:
                self._settle(complete=False)  # all files before this one were read
            self._last = work.found.path
            return work
        self._listing = None
        if not self._more:
            self._settle(complete=True)
            self._next_ms = now + self._finding.poll_ms
        self._cursor = self._last = ""
        self._more = False
        return None

    def wait_ms(self, now: int) -> int:
        """How long to wait after `next` returned None."""
        return 0 if self._listing is not None else max(0, self._next_ms - now)

    def _settle(self, *, complete: bool) -> None:
        if self._marked:
            return  # the file may be old, and must be read
        cursor = "" if complete else self._last
        self.forgotten += self._ledger.listed(cursor, self._began_ms, complete=complete)

    def _list(self, now: int) -> Iterator[Work | Leftover]:
        order = self._finding.order
        if order is None:
            yield from self._eligible(now)
            return
        works = nsmallest(_SORTED, self._eligible(now), key=lambda work: order(work.found))
        self._more = len(works) == _SORTED
        yield from works

    def _eligible(self, now: int) -> Iterator[Work | Leftover]:
        for prefix in self._finding.prefixes:
            if self._cursor > prefix and not self._cursor.startswith(prefix):
                continue
            after, listing = max(self._cursor, self._finding.start_after), True
            while listing:
                listing = False
                skipped = 0
                for found in self._store.list(prefix, after, recursive=self._finding.recursive):
                    work, target = self._work(found, now)
                    if work is not None:
                        skipped = 0
                        yield work
                    elif target is not None:
                        skipped += 1
                        further = self._ledger.next_name(found, target)
                        if skipped >= _SKIPPED and further is not None:
                            after, listing = further, True
                            break

    def _work(self, found: ListedFile, now: int) -> tuple[Work | Leftover | None, Target | None]:
        """The work for a file, if any; and its target, if this task owns the file."""
        finding = self._finding
        if finding.below and found.path.startswith(tuple(finding.below)):
            return None, None
        target = finding.names(found.path)
        if target is None or share_of(target.lane, self._tasks) != self._task:
            return None, None
        if found.modified_ms < finding.since_ms or target.lane in self._held_back:
            return None, target
        progress = self._ledger.progress(found, target)
        work = self._work_after(found, target, progress)
        if isinstance(work, Work) and self._is_held_back(found, now):
            # Later files of its lane have to wait for it.
            if target.lane != found.path:
                self._held_back.add(target.lane)
            return None, target
        return work, target

    def _work_after(
        self, found: ListedFile, target: Target, progress: Progress | None
    ) -> Work | Leftover | None:
        finding = self._finding
        if progress is None:
            return Work(found, target, Position())
        if finding.tails:
            position = progress.position
            if position.byte is not None and found.size < position.byte:
                log.warning(
                    "The file '%s' became shorter; reading it from its beginning", found.path
                )
                return Work(found, target, Position(), reread=True)
            return Work(found, target, position) if found.size > (position.byte or 0) else None
        changed = bool(progress.version) and progress.version != found.version
        if changed and finding.again:
            log.warning("The file '%s' was rewritten; reading it again", found.path)
            return Work(found, target, Position(), reread=True)
        if not progress.is_read:
            return Work(found, target, progress.position)
        if finding.removes and progress.version == found.version:
            return Leftover(found, target, progress.error is not None)
        return None

    def _is_held_back(self, found: ListedFile, now: int) -> bool:
        finding = self._finding
        if finding.min_age_ms and found.modified_ms > now - finding.min_age_ms:
            return True
        if finding.marker and self._store.find(found.path + finding.marker) is not None:
            self._marked = True
            return True
        return False
