"""The contract of a format that is read.

A `Reading` opens a file of its format, or a range of one, and its `Decoder` gives the records in
chunks. What is given is complete: a file that ends in the middle of a record raises Truncated, and
one that is not of the format raises NotThisFormat. A record that alone cannot be decoded is an
entry of the chunk's `failed`, and the others go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.api import Column, DataError, Failed


class Truncated(DataError):
    """The file ends in the middle of something, or is damaged."""


class NotThisFormat(DataError):
    """The file is of another format."""


class TooLarge(DataError):
    """A record is larger than the limit, so that it would take too much memory."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"A record is larger than {limit} bytes; raise {RECORD_MAX} if that is right, or check "
            "that format and separator are those of the file"
        )


RECORD_MAX: Final = "penstock.record.max.bytes"
"""The setting for the size of records."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading goes on: after `record` records of the file.

    `byte` is the same place for formats whose uncompressed files can be entered there (lines of
    text), else None. With record 0 it is where a range begins. Formats of blocks (Avro, Parquet)
    keep it: their `record` counts from the first one of the range.
    """

    record: int = 0
    byte: int | None = 0


@dataclass(slots=True)
class Chunk:
    """Some records of a file, in order."""

    values: Column
    ends: Sequence[int] | None
    """The byte position after each record, where the format has them."""
    after: Position
    """Behind the last record."""
    failed: Failed = field(default_factory=dict)
    """The rows that could not be decoded, whose values are None, and why."""


class Input(Protocol):
    """A file that is open for reading, as a store gives it."""

    @property
    def size(self) -> int:
        """Its bytes, when it was opened."""

    def read(self, n: int = -1, /) -> bytes:
        """At most `n` bytes from the present place on; b"" at the end."""

    def seek(self, position: int, /) -> object:
        """Goes to a byte, counted from the beginning."""

    def tell(self) -> int:
        """The present place."""


class Decoder(ABC):
    """Reads one file, or a range of one."""

    @abstractmethod
    def read(self, max_bytes: int) -> Chunk | None:
        """The next records: about `max_bytes` of them at most, at least one. None at the end; or,
        for a file that grows, if there is no complete record now: call again then. Raises Truncated
        and NotThisFormat."""

    @abstractmethod
    def close(self) -> None:
        """Releases what reading holds. The input stays open."""


class Reading(ABC):
    """How a file becomes records."""

    splittable: bool = False
    """Whether a range of a file can be read by itself."""

    @abstractmethod
    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        """Begins to read at `start`.

        `stop` is the byte at which a range ends, for formats that are `splittable`. A record
        belongs to the range in which it begins: a range that begins at a byte of its own, with
        record 0, skips to the first record that begins in it (a line: after the previous newline; a
        block of Avro: after a sync marker; Parquet and ORC: row groups whose first byte is in the
        range).

        With `growing`, an incomplete last line is left for later; without, it is a record.

        Raises what `read` raises, for what the first bytes show.
        """
