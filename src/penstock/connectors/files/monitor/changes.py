"""Decides what to read of a changed file, and how much of that to send. Pure.

A file is new, or known by how much was sent. A *whole* file is read from its beginning whenever
its size or time differs; its hash shows whether its content changed. In *slices* only unsent bytes
are read, and only size and time indicate changes.

| | a new file | it grew, the beginning is the same | other changes | only its time differs |
|---|---|---|---|---|
| update | whole | whole | whole | nothing |
| tail | whole | what was appended | whole | nothing |
| update, slices | all | all again | all again | all again |
| tail, slices | all | what was appended | it shrank: all again | nothing |

connectors.md §10 lists where Stream Reactor's connector differs.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.api import Backoff
from penstock.connectors.files.monitor.known import WHOLE, FileState, Known

_SHORTEST_MS: Final = 500  # after a failure, also with a refresh of 0
_MAX_DOUBLINGS: Final = 40


class Mode(Enum):
    """What is sent of a changed file."""

    TAIL = "tail"
    UPDATE = "update"


class Shrunk(Enum):
    """What is sent of a tailed file that changed without growing."""

    WHOLE = "whole"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Tail:
    """Read what follows `start` if the bytes before it have this hash; else all of the file."""

    start: int
    digest: str


@dataclass(frozen=True, slots=True)
class All:
    """Send all of the file, unless its hash is `unless`. With `silently`, only note its state."""

    unless: str | None = None
    silently: bool = False


Look = Tail | All


def same_time(before: Known, seen: FileState) -> bool:
    """Whether two listings report the same time. The less precise one reports the interval that
    contains the other: servers report only the date of old files."""
    precision = before.precision_ms
    if precision is None or precision == seen.precision_ms:
        return before.modified_ms == seen.modified_ms
    if precision > seen.precision_ms:
        return 0 <= seen.modified_ms - before.modified_ms < precision
    return 0 <= before.modified_ms - seen.modified_ms < seen.precision_ms


def look(
    mode: Mode, before: Known | None, seen: FileState, shrunk: Shrunk = Shrunk.WHOLE
) -> Look | None:
    """What to read of a file that is not read in slices; None: it is unchanged."""
    if before is None:
        return All()
    if before.size == seen.size and same_time(before, seen) and before.sent == before.size:
        return None
    if mode is Mode.UPDATE or not before.hash:
        # A file that was read in slices has no hash: its sent bytes are not compared.
        if mode is Mode.TAIL and before.offset > WHOLE and seen.size >= before.offset > 0:
            return Tail(before.offset, "")
        return All(before.hash if before.size == seen.size and before.hash else None)
    if seen.size > before.size:
        return Tail(before.size, before.hash)
    return All(before.hash if before.size == seen.size else None, silently=shrunk is Shrunk.SKIP)


def slice_start(
    mode: Mode, before: Known | None, seen: FileState, shrunk: Shrunk = Shrunk.WHOLE
) -> int | None:
    """Where the next slice of a file begins; None: there is none."""
    if before is None:
        return 0 if seen.size else None
    unchanged = before.size == seen.size and _is_same_version(before, seen)
    if mode is Mode.UPDATE and not unchanged:
        return 0 if seen.size else None
    if before.sent == seen.size:
        return None
    if before.sent < seen.size:
        return before.sent
    return 0 if shrunk is Shrunk.WHOLE and seen.size else None


def _is_same_version(before: Known, seen: FileState) -> bool:
    """Whether a file of the same size is the same, judged by its time alone."""
    if same_time(before, seen):
        return True
    # The other connector stores times of the server's clock, to the minute or the day. A file
    # that was not written since then is the one that it read.
    return before.precision_ms is None and seen.modified_ms <= before.last_inspected_ms


def share_of(path: str, shares: int) -> int:
    """The task that reads a file: always the same one.

    >>> share_of("/a", 1), share_of("/a", 3) in range(3)
    (0, True)
    """
    return zlib.crc32(path.encode("utf-8", "surrogatepass")) % shares


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to list folders again: every `refresh_ms`; after failures with exponential backoff, at
    most `max_ms`."""

    refresh_ms: int
    max_ms: int
    due_ms: int = 0
    failures: int = 0

    def succeeded(self, now_ms: int) -> Schedule:
        return Schedule(self.refresh_ms, self.max_ms, now_ms + self.refresh_ms)

    def failed(self, now_ms: int) -> Schedule:
        failures = min(self.failures + 1, _MAX_DOUBLINGS)
        step = max(self.refresh_ms, _SHORTEST_MS)
        backoff = Backoff(step, max(self.max_ms, _SHORTEST_MS))
        pause_ms = int(backoff.delay_ms(failures + 1))
        return Schedule(self.refresh_ms, self.max_ms, now_ms + pause_ms, failures)
