"""Stored offsets of files: those of Stream Reactor's FTP source (connectors.md §10), so that either
connector resumes where the other one stopped.

Ours have an additional member, `penstock.precision`: the precision of the server's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api import DataError, Offsets, Primitive, SourceOffset

PATH: Final = "path"
PRECISION: Final = "penstock.precision"
WHOLE: Final = -1
"""The `offset` of a file that was not read in slices."""

_NUMBERS: Final = ("size", "timestamp", "firstfetched", "lastmodified", "lastinspected")


@dataclass(frozen=True, slots=True)
class FileState:
    """A file, as it was listed."""

    path: str
    size: int
    modified_ms: int
    precision_ms: int = 1000
    """`modified_ms` is the first moment of an interval of this length."""


@dataclass(frozen=True, slots=True)
class Known:
    """How much of a file was sent. Times are in ms since the epoch."""

    size: int
    modified_ms: int
    hash: str
    """The SHA-256 of its first `size` bytes in hexadecimal; empty if it is read in slices."""
    first_fetched_ms: int
    last_modified_ms: int
    """When its content was last sent."""
    last_inspected_ms: int
    offset: int = WHOLE
    """How many bytes were sent if it is read in slices."""
    precision_ms: int | None = None
    """The precision of `modified_ms`; None: the other connector does not store it."""

    @property
    def sent(self) -> int:
        """How many bytes were sent."""
        return self.size if self.offset < 0 else self.offset

    def stored(self, path: str) -> SourceOffset:
        """The source offset for Kafka Connect."""
        offset: dict[str, Primitive] = {
            "size": self.size,
            "timestamp": self.modified_ms,
            "hash": self.hash,
            "firstfetched": self.first_fetched_ms,
            "lastmodified": self.last_modified_ms,
            "lastinspected": self.last_inspected_ms,
            "offset": self.offset,
        }
        if self.precision_ms is not None:
            offset[PRECISION] = self.precision_ms
        return SourceOffset({PATH: path}, offset)

    def inspected(self, seen: FileState, digest: str, now_ms: int, *, sent: bool = True) -> Known:
        """The state after the whole file was read, up to the listed size."""
        return Known(
            seen.size,
            seen.modified_ms,
            digest,
            self.first_fetched_ms,
            now_ms if sent else self.last_modified_ms,
            now_ms,
            WHOLE,
            seen.precision_ms,
        )

    def advanced(self, seen: FileState, offset: int, now_ms: int) -> Known:
        """The state after a slice that ends at `offset`."""
        return Known(
            seen.size,
            seen.modified_ms,
            "",
            self.first_fetched_ms,
            self.last_modified_ms if offset else now_ms,
            now_ms,
            offset,
            seen.precision_ms,
        )


def first(now_ms: int) -> Known:
    """The state of a new file."""
    return Known(0, -1, "", now_ms, now_ms, now_ms, 0)


def known(offset: Mapping[str, Primitive]) -> Known:
    """The state that an offset stores. Raises DataError if it is not an offset of files."""
    numbers: dict[str, int] = {}
    for name in _NUMBERS:
        numbers[name] = _integer(offset, name, None)
    digest = offset.get("hash")
    if not isinstance(digest, str):
        raise DataError(f"The value for the 'hash' key in the offset is not a string: {digest!r}")
    precision = _integer(offset, PRECISION, 0)
    return Known(
        numbers["size"],
        numbers["timestamp"],
        digest,
        numbers["firstfetched"],
        numbers["lastmodified"],
        numbers["lastinspected"],
        _integer(offset, "offset", WHOLE),
        precision or None,
    )


def _integer(offset: Mapping[str, Primitive], name: str, default: int | None) -> int:
    value = offset.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataError(
            f"The value for the '{name}' key in the offset is not an integer: {value!r}"
        )
    return value


def by_path(offsets: Offsets) -> dict[str, Known]:
    """The stored state of each file."""
    files: dict[str, Known] = {}
    for entry in offsets:
        path = entry.partition.get(PATH)
        if isinstance(path, str) and entry.offset is not None:
            files[path] = known(entry.offset)
    return files


def name_of_old(path: str) -> str:
    """The name that the other connector stores for a file of an FTP server with UTF-8 names: it
    reads them as Latin-1.

    >>> name_of_old("/ü")
    '/Ã¼'
    """
    return path.encode("utf-8", "surrogatepass").decode("latin-1")
