"""The contract of formats for reading.

A `Reading` opens a file of its format, or a range of one, and its `Decoder` returns the records in
chunks. A file that ends in the middle of a record raises Truncated, and one of another format
raises NotThisFormat. A single record that cannot be decoded is an entry of the chunk's `failed`,
and does not affect the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.api import Column, DataError, Failed


class Truncated(DataError):
    """The file ends too early, or is damaged."""


class NotThisFormat(DataError):
    """The file is of another format."""


class TooLarge(DataError):
    """A record exceeds the size limit, which bounds memory."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"A record is larger than {limit} bytes; increase {RECORD_MAX}, or check that format "
            "and separator match the file"
        )


RECORD_MAX: Final = "penstock.record.max.bytes"
"""The setting for the largest size of records."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading continues: after `record` records of the file.

    `byte` is the same position in bytes if reading can start there (uncompressed lines of text),
    else None. With record 0 it is where a range begins. Block formats (Avro, Parquet) keep it:
    their `record` counts from the first one of the range.
    """

    record: int = 0
    byte: int | None = 0


@dataclass(slots=True)
class Chunk:
    """Some records of a file, in order."""

    values: Column
    ends: Sequence[int] | None
    """The byte position after each record, if the format has them."""
    after: Position
    """The position after the last record."""
    failed: Failed = field(default_factory=dict)
    """The errors of rows that could not be decoded, whose values are None."""


class Input(Protocol):
    """A file of a store that is open for reading."""

    @property
    def size(self) -> int:
        """Its size in bytes when it was opened."""

    def read(self, n: int = -1, /) -> bytes:
        """At most `n` bytes from the current position on; b"" at the end."""

    def seek(self, position: int, /) -> object:
        """Moves to a byte, counted from the beginning."""

    def tell(self) -> int:
        """The current position."""


class Decoder(ABC):
    """Reads one file, or a range of one."""

    @abstractmethod
    def read(self, max_bytes: int) -> Chunk | None:
        """The next records: at least one, and at most about `max_bytes`. None at the end; or, for a
        growing file, if there is no complete record yet: call again later. Raises Truncated and
        NotThisFormat."""

    @abstractmethod
    def close(self) -> None:
        """Releases resources of the decoder. The input stays open."""


class Reading(ABC):
    """Reads files of a format."""

    splittable: bool = False
    """Whether files can be read in ranges."""

    @abstractmethod
    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        """Starts to read at `start`.

        `stop` is the byte at which a range ends, for formats that are `splittable`. A record
        belongs to the range in which it begins: a range that begins at a byte, with record 0,
        skips to the first record that begins in it (a line: after the previous newline; a
        block of Avro: after a sync marker; Parquet and ORC: row groups whose first byte is in the
        range).

        With `growing`, an incomplete last line is not read yet; without, it is a record.

        Raises the errors of `read`, if the first bytes show them.
        """
