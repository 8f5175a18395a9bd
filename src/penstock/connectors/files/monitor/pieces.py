"""Splits a file that is read in slices into records. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A record of a file."""

    body: bytes
    end: int
    """The position in the file after it."""
    key_offset: int
    """The offset in the key: the end of a slice, but 0 for one that ends with a line
    (connectors.md §10)."""


Read = Callable[[int], bytes]
"""Reads this many bytes, or fewer at the end."""


def slices(read: Read, start: int, stop: int, size: int) -> Iterator[Piece]:
    """Slices of `size` bytes, the last one shorter."""
    at = start
    while at < stop:
        body = read(min(size, stop - at))
        if not body:
            return
        at += len(body)
        yield Piece(body, at, at)


def line_slices(read: Read, start: int, stop: int, size: int) -> Iterator[Piece]:
    """As many whole lines as fit into `size` bytes; more for a single longer line. The last slice
    is the rest, whether or not a line ends there."""
    at = start  # the end of the last piece
    held = b""  # bytes read after that
    while at < stop:
        count = size - len(held)
        while True:
            block = read(min(count, stop - at - len(held)))
            held += block
            if not block or at + len(held) >= stop:
                yield Piece(held, at + len(held), at + len(held))
                return
            if cut := held.rfind(b"\n") + 1:
                break
            count = size
        at += cut
        yield Piece(held[:cut], at, 0)
        held = held[cut:]
