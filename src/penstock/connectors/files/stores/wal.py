"""The write-ahead log of Confluent's HDFS connector, which may exist when penstock takes over
(connectors.md §14): `<logs.dir>/<topic>/<partition>/log`.

    "WAL" 00, 16 bytes of a sync mark
    entries: int size of both strings, int size of the first, two strings
    int -1, the mark: between entries, now and then

A string is its size in bytes, as Hadoop's variable-length integer, and UTF-8. Entries are `BEGIN`,
then a temporary and a final name for each file of a commit, then `END`. The files of a commit that
has its `END` must be renamed; a commit without one never happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MAGIC: Final = b"WAL\x00"
_MARK_SIZE: Final = 16

Commit = Sequence[tuple[str, str]]
"""The temporary and the final name of each file."""


class NotALog(ValueError):
    """The bytes are not a log; the message says why."""


def commits(data: bytes) -> list[Commit]:
    """The complete, non-empty commits of a log. An entry that is cut off at the end was never
    written. Raises NotALog."""
    if not data:
        return []
    if data[:4] != _MAGIC:
        raise NotALog(f"it begins with {data[:4]!r}, not with {_MAGIC!r}")
    complete: list[Commit] = []
    files: list[tuple[str, str]] | None = None
    for temporary, final in _entries(data):
        if temporary == "BEGIN":
            files = []
        elif temporary == "END":
            if files:
                complete.append(files)
            files = None
        elif files is not None:
            files.append((temporary, final))
    return complete


def _entries(data: bytes) -> list[tuple[str, str]]:
    mark = data[4 : 4 + _MARK_SIZE]
    entries: list[tuple[str, str]] = []
    at = 4 + _MARK_SIZE
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], signed=True)
        at += 4
        if size == -1:
            if data[at : at + _MARK_SIZE] != mark[: len(data) - at]:
                raise NotALog(f"no entry begins at byte {at}")
            at += _MARK_SIZE
            continue
        if size < 0:
            raise NotALog(f"the entry at byte {at} has the size {size}")
        entry = data[at + 4 : at + 4 + size]
        at += 4 + size
        if len(entry) < size:
            break  # the writer was killed here
        first, rest = _text(entry)
        second, _ = _text(rest)
        entries.append((first, second))
    return entries


def _text(data: bytes) -> tuple[str, bytes]:
    try:
        size, at = _number(data)
        if size < 0 or len(data) < at + size:
            raise NotALog(f"a string has the size {size}")
        return data[at : at + size].decode(), data[at + size :]
    except (IndexError, UnicodeDecodeError) as cause:
        raise NotALog(f"an entry has no valid string: {cause}") from cause


def _number(data: bytes) -> tuple[int, int]:
    """Hadoop's variable-length integer, and its size: one byte from -112 to 127, or a byte that
    encodes the sign and how many bytes follow."""
    first = data[0] - 256 if data[0] > 127 else data[0]
    if first >= -112:
        return first, 1
    negative = first < -120
    size = -(first + 120) if negative else -(first + 112)
    value = int.from_bytes(data[1 : 1 + size])
    return (~value if negative else value), 1 + size
