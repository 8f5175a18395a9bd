"""Files as streams of lines: their content, whether two are equal, and where they differ.

The file source ends a line at LF, CR or CRLF and reads invalid UTF-8 as U+FFFD; the file sink ends
a line with LF and writes UTF-8. So two files are the same when their *normalised* lines are: every
line arrived once and in order. A last line without an end does not count, because the source waits
for its end; nor does one with a CR at the very end, which an LF may still follow.

Everything here accepts chunks of any size, cut anywhere, and keeps at most one chunk.
"""

from __future__ import annotations

import codecs
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final

from penstock.errors import PenstockError

LINE_LIMIT: Final = 1_048_000
"""The longest line, in bytes, that fits in one message. A broker accepts batches of 1,048,588 bytes
unless `message.max.bytes` says otherwise, and a batch of one record has up to 100 of overhead."""

_WINDOW: Final = 1_000  # how many lines around a difference are searched for its cause
_SHOWN: Final = 72  # characters of a line in a message


class LineTooLong(PenstockError):
    """A line does not fit in one Kafka message."""

    exit_code = 2

    def __init__(self, name: str, number: int, size: int, limit: int) -> None:
        self.number = number
        self.size = size
        super().__init__(
            f"Line {number:,} of {name} has {size:,} bytes, but one Kafka message can contain a "
            f"line of at most {limit:,} bytes (the limit is the broker's 'message.max.bytes' and "
            "the producer's 'max.request.size'). Shorten or split the line, then run the demo "
            "again."
        )


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a stream of bytes, read as lines."""

    lines: int  # whole ones
    size: int  # bytes up to the end of the last whole line
    tail: int  # bytes after it: a last line without an end
    sha256: str  # of these `size` bytes
    normal_size: int  # bytes of the same lines, normalised
    normal_sha256: str

    @property
    def plain(self) -> bool:
        """Whether the lines were normalised already, so that a copy has the same bytes."""
        return self.sha256 == self.normal_sha256


def pieces(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Raw bytes beside the same bytes normalised.

    A piece ends with a line's end or contains none, so `normal.endswith(b"\\n")` tells them apart.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = b""
    for chunk in chunks:
        raw = pending + chunk
        pending = b"\r" if raw.endswith(b"\r") else b""  # is it a CR, or half of a CRLF?
        raw = raw[: len(raw) - len(pending)]
        cut = max(raw.rfind(b"\n"), raw.rfind(b"\r")) + 1
        for piece in (raw[:cut], raw[cut:]):
            if piece:
                text = decoder.decode(piece)
                if "\r" in text:
                    text = text.replace("\r\n", "\n").replace("\r", "\n")
                yield piece, text.encode()
    if pending:
        yield pending, b""


def digest(chunks: Iterable[bytes], *, name: str = "the file", limit: int | None = None) -> Digest:
    """Reads the stream to its end; raises LineTooLong at the first whole line over `limit`."""
    raw_hash, normal_hash = hashlib.sha256(), hashlib.sha256()
    raw_at = normal_at = 0  # bytes read
    lines = size = normal_size = 0  # up to the last line's end
    sha256, normal_sha256 = raw_hash.copy(), normal_hash.copy()
    for raw, normal in pieces(chunks):
        raw_hash.update(raw)
        normal_hash.update(normal)
        if normal.endswith(b"\n"):
            if limit is not None:
                long_line = _over(normal, normal_at - normal_size, limit)
                if long_line:
                    raise LineTooLong(name, lines + long_line[0], long_line[1], limit)
            lines += normal.count(b"\n")
            size, normal_size = raw_at + len(raw), normal_at + len(normal)
            sha256, normal_sha256 = raw_hash.copy(), normal_hash.copy()
        raw_at += len(raw)
        normal_at += len(normal)
    return Digest(
        lines=lines,
        size=size,
        tail=raw_at - size,
        sha256=sha256.hexdigest(),
        normal_size=normal_size,
        normal_sha256=normal_sha256.hexdigest(),
    )


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The normalised whole lines without their ends."""
    begun: list[bytes] = []
    for _, normal in pieces(chunks):
        if normal.endswith(b"\n"):
            begun.append(normal)
            yield from b"".join(begun)[:-1].split(b"\n")
            begun = []
        else:
            begun.append(normal)


class DifferenceKind(Enum):
    """How two streams of lines differ."""

    LOST = "lost"
    ADDED = "added"
    DOUBLED = "doubled"
    SWAPPED = "swapped"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between expected and received lines. Lines count from 1."""

    kind: DifferenceKind
    line: int
    count: int  # how many lines it affects
    expected: str | None  # the start of the line; None at the end of the stream
    found: str | None

    def __str__(self) -> str:
        lines = "1 line" if self.count == 1 else f"{self.count:,} lines"
        at = f"line {self.line:,}"
        match self.kind:
            case DifferenceKind.LOST if self.found is None:
                problem = f"the last {lines} did not arrive, from {at} on"
            case DifferenceKind.LOST:
                problem = f"{lines} lost at {at}"
            case DifferenceKind.ADDED if self.expected is None:
                problem = f"{lines} more than expected, from {at} on"
            case DifferenceKind.ADDED:
                problem = f"{lines} too many at {at}"
            case DifferenceKind.DOUBLED:
                problem = f"{lines} arrived twice, the second time at {at}"
            case DifferenceKind.SWAPPED:
                problem = f"{at} and the next one were swapped"
            case DifferenceKind.CHANGED:
                problem = f"{at} arrived changed"
        return f"{problem} (expected {_quoted(self.expected)}, found {_quoted(self.found)})"


def first_difference(expected: Iterable[bytes], found: Iterable[bytes]) -> Difference | None:
    """The first difference between two streams of lines, or None if they are equal.

    The kind is the best explanation of the next lines; only a window of lines is compared, which
    limits the count, except at the end of a stream, where it is exact.
    """
    ours, theirs = iter(expected), iter(found)
    before: deque[bytes] = deque(maxlen=_WINDOW)
    number = 0
    while True:
        number += 1
        want, received = next(ours, None), next(theirs, None)
        if want is None and received is None:
            return None
        if want is not None and want == received:
            before.append(_mark(want))
            continue
        if want is None:
            marks = [_mark(received or b""), *map(_mark, islice(theirs, _WINDOW))]
            count = len(marks) + sum(1 for _ in theirs)
            kind = (
                DifferenceKind.DOUBLED if list(before)[-count:] == marks else DifferenceKind.ADDED
            )
            return Difference(kind, number, count, None, _shown(received))
        if received is None:
            count = 1 + sum(1 for _ in ours)
            return Difference(DifferenceKind.LOST, number, count, _shown(want), None)
        expected_marks = [_mark(want), *map(_mark, islice(ours, _WINDOW))]
        received_marks = [_mark(received), *map(_mark, islice(theirs, _WINDOW))]
        kind, count = _cause(list(before), expected_marks, received_marks)
        return Difference(kind, number, count, _shown(want), _shown(received))


def _cause(
    before: list[bytes], expected: list[bytes], received: list[bytes]
) -> tuple[DifferenceKind, int]:
    """Which kind of difference makes two windows of lines start differently, and its length."""
    if expected[:2] == received[1::-1]:
        return DifferenceKind.SWAPPED, 2
    for count in range(1, max(len(expected), len(received))):
        if _agree(expected[count:], received):
            return DifferenceKind.LOST, count
        if _agree(expected, received[count:]):
            doubled = before[-count:] == received[:count]
            return (DifferenceKind.DOUBLED if doubled else DifferenceKind.ADDED), count
    return DifferenceKind.CHANGED, 1


def _agree(one: list[bytes], other: list[bytes], enough: int = 3) -> bool:
    """Whether two windows begin with the same lines: a few, because empty lines are all equal."""
    return bool(one and other) and one[:enough] == other[: len(one[:enough])]


def _over(normal: bytes, begun: int, limit: int) -> tuple[int, int] | None:
    """Which line (from 1) of a piece of whole lines is over `limit` bytes, and how long it is.

    `begun` bytes of its first line came before. Jumps from line end to line end as far as the
    limit reaches, so short lines cost next to nothing.
    """
    first = normal.find(b"\n")
    if begun + first > limit:
        return 1, begun + first
    start = first + 1
    while start < len(normal):
        end = normal.rfind(b"\n", start, start + limit + 1)
        if end < 0:
            return normal.count(b"\n", 0, start) + 1, normal.find(b"\n", start) - start
        start = end + 1
    return None


def _mark(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _shown(line: bytes | None) -> str | None:
    return None if line is None else line[: 4 * _SHOWN].decode(errors="replace")[:_SHOWN]


def _quoted(line: str | None) -> str:
    return "nothing" if line is None else repr(line)
