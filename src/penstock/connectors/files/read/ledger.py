"""How far each file was read: the offsets of sources of files.

A `Ledger` is what was polled; it begins with the stored offsets and is told of all that follows. It
makes the offsets that are stored with records.

`FolderLedger` remembers the last file of each lane in a folder: what sorts before it was read. Its
offsets are those of Confluent's S3 source.

`FileLedger` remembers each file, so files may come in any order. That would be without end where
files stay, so beyond `limit` it forgets files that a mark covers. A mark tells of a share of all
names (`lane`'s hash modulo a number) that all files are read which

- had arrived `before_ms`; or
- sort up to `cursor`, and had arrived before `began_ms`, when the listing began that came so far.

A mark is true for ever, also when there are more or fewer tasks. Files that arrive within `late_ms`
of a listing's begin are never covered by its mark: clocks differ, and S3 dates an object from the
begin of its upload.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from penstock.api import DataError, Offsets, Primitive, SourceOffset
from penstock.connectors.files.formats.decoder import Position
from penstock.connectors.files.read.names import Target, share_of
from penstock.connectors.files.stores.reading import Found

Map = Mapping[str, Primitive]
Stored = Mapping[object, Map | None]
"""Offsets by the `key_of` their partitions."""


def key_of(partition: Map) -> object:
    """What partitions have in common that are the same."""
    return frozenset(partition.items())


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a file was read."""

    position: Position
    is_read: bool = False
    """Whether to the end."""
    version: str = ""
    """Of the file; "" if it is not known."""
    error: str | None = None
    """Why it was given up."""


class Ledger(ABC):
    """What was read. Used by one thread."""

    @abstractmethod
    def progress(self, found: Found, target: Target) -> Progress | None:
        """How far a file was read; None: not at all."""

    @abstractmethod
    def advance(self, found: Found, target: Target, progress: Progress) -> SourceOffset:
        """Remembers how far the file was read; returns the offset for that."""

    @abstractmethod
    def covers(self, offsets: Stored, found: Found, target: Target) -> bool:
        """Whether these offsets, once stored, say that the file was read to its end."""

    def next_name(self, found: Found, target: Target) -> str | None:
        """A name up to which all files of the lane were read, if it is greater."""
        return None

    def forget(self, found: Found, target: Target) -> SourceOffset | None:
        """Forgets a file that is gone from where it was found."""
        return None

    def listed(self, cursor: str, began_ms: int, *, complete: bool) -> list[SourceOffset]:
        """A listing that began then has come to `cursor`, or to its end, and what it gave was
        read. Forgets what need not be remembered."""
        return []


class FolderLedger(Ledger):
    """The last file of each lane in a folder.

    {"folder": "topics/a/partition=0/"} →
    {"lastFileRead": "topics/a/partition=0/a+0+0000000000.avro", "fileOffset": "3", "eof": "false"}

    `fileOffset` is how many records were read. We add the version of the file while it is being
    read, the place in bytes where the format has one, and to partitions of folders in which there
    are files of several Kafka partitions, which. The offset of a folder alone counts for all.
    """

    def __init__(self, stored: Offsets, *, one_lane: bool) -> None:
        """`one_lane`: a folder has files of one Kafka partition only."""
        self._one_lane = one_lane
        self._last: dict[tuple[str, str], tuple[str, Progress]] = {}
        for each in stored:
            folder, path = each.partition.get("folder"), (each.offset or {}).get("lastFileRead")
            if isinstance(folder, str) and isinstance(path, str) and each.offset is not None:
                lane = str(each.partition.get("files", ""))
                self._last[folder, lane] = path, _folder_progress(each.offset)

    def progress(self, found: Found, target: Target) -> Progress | None:
        known = self._known(found.path, target)
        if known is None or found.path > known[0]:
            return None
        if found.path == known[0]:
            return known[1]
        return Progress(Position(), is_read=True)

    def advance(self, found: Found, target: Target, progress: Progress) -> SourceOffset:
        folder, lane = self._key(found.path, target)
        self._last[folder, lane] = found.path, progress
        offset: dict[str, Primitive] = {
            "lastFileRead": found.path,
            "fileOffset": str(progress.position.record),
            "eof": "true" if progress.is_read else "false",
        }
        if not progress.is_read:
            if progress.position.byte is not None:
                offset["byte"] = progress.position.byte
            if progress.version:
                offset["version"] = progress.version
        if progress.error is not None:
            offset["error"] = progress.error
        return SourceOffset(self._partition(folder, lane), offset)

    def covers(self, offsets: Stored, found: Found, target: Target) -> bool:
        offset = offsets.get(key_of(self._partition(*self._key(found.path, target))))
        if offset is None:
            return False
        last = str(offset["lastFileRead"])
        return last > found.path or (last == found.path and offset["eof"] == "true")

    def next_name(self, found: Found, target: Target) -> str | None:
        known = self._known(found.path, target)
        return known[0] if known is not None and known[0] > found.path else None

    def _known(self, path: str, target: Target) -> tuple[str, Progress] | None:
        folder, lane = self._key(path, target)
        return self._last.get((folder, lane)) or self._last.get((folder, ""))

    def _key(self, path: str, target: Target) -> tuple[str, str]:
        return path[: path.rfind("/") + 1], "" if self._one_lane else target.lane

    def _partition(self, folder: str, lane: str) -> Map:
        return {"folder": folder, "files": lane} if lane else {"folder": folder}


def _folder_progress(offset: Map) -> Progress:
    record = _number(offset, "fileOffset")
    byte = offset.get("byte")
    return Progress(
        Position(record, byte if isinstance(byte, int) else (None if record else 0)),
        is_read=str(offset.get("eof")).lower() == "true",
        version=str(offset.get("version", "")),
    )


def _number(offset: Map, name: str) -> int:
    """A number of an offset, which may be a text. Raises DataError."""
    value = offset.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise DataError(f"An offset has {value!r} as '{name}', which is no number")
    try:
        number = int(value)
    except ValueError as cause:
        raise DataError(f"An offset has {value!r} as '{name}', which is no number") from cause
    if number < 0:
        raise DataError(f"An offset has {value!r} as '{name}', which is negative")
    return number


class Key(Enum):
    """By what a file is known."""

    PATH = "path"
    NAME = "name"  # the last part of the path
    IDENTITY = "identity"  # also under another name


@dataclass(frozen=True, slots=True)
class Shape:
    """How offsets of files are written.

    `key` of the partition holds what a file is known by; `fixed` are the same for all. `record` of
    the offset is how many records were read.
    """

    key: str
    record: str
    fixed: Map
    by: Key = Key.PATH

    def key_of(self, found: Found) -> str:
        match self.by:
            case Key.NAME:
                return found.path[found.path.rfind("/") + 1 :]
            case Key.IDENTITY:
                return found.identity
        return found.path

    def partition(self, key: str) -> Map:
        return {**self.fixed, self.key: key}

    def key_in(self, partition: Map) -> str | None:
        """What the file is known by; None if this is no partition of a file of ours."""
        key = partition.get(self.key)
        ours = all(partition.get(name) == value for name, value in self.fixed.items())
        return key if isinstance(key, str) and ours else None

    def offset(self, progress: Progress) -> Map:
        position = progress.position
        offset: dict[str, Primitive] = {self.record: position.record}
        if position.byte is not None:
            offset["byte"] = position.byte
        if progress.is_read:
            offset["eof"] = True
        if progress.version:
            offset["version"] = progress.version
        if progress.error is not None:
            offset["error"] = progress.error
        return offset

    def progress(self, offset: Map) -> Progress:
        """Raises DataError."""
        record = _number(offset, self.record)
        byte = offset.get("byte")
        return Progress(
            Position(record, byte if isinstance(byte, int) else (None if record else 0)),
            is_read=offset.get("eof") is True,
            version=str(offset.get("version", "")),
        )


def _arrived_ms(found: Found) -> int:
    return max(found.arrived_ms, found.modified_ms)


_MARK: Final = "penstock.files.read"


def is_of(partition: Map, name: str) -> bool:
    """Whether a partition is one of files, whose path it has under that name, or of a mark."""
    return name in partition or _MARK in partition


@dataclass(frozen=True, slots=True)
class Mark:
    """See the module."""

    before_ms: int = 0
    cursor: str = ""
    began_ms: int = 0

    def covers(self, path: str, arrived_ms: int) -> bool:
        return arrived_ms < self.before_ms or (path <= self.cursor and arrived_ms < self.began_ms)


class FileLedger(Ledger):
    """Each file."""

    def __init__(
        self,
        stored: Offsets,
        shape: Shape,
        place: str,
        task: int,
        tasks: int,
        *,
        limit: int,
        late_ms: int,
    ) -> None:
        """`place` tells apart where files are, in marks."""
        self._shape = shape
        self._place = place
        self._share = (task, tasks)
        self._limit = limit
        self._late_ms = late_ms
        self._known: dict[str, Progress] = {}
        self._seen: dict[str, tuple[str, int]] = {}  # the path of each, and when it arrived
        self._met: set[str] = set()  # in this listing, where files may be renamed
        self._marks: dict[tuple[int, int], Mark] = {}
        for each in stored:
            if each.offset is None:
                continue
            if each.partition.get(_MARK) == place:
                key = (_number(each.partition, "share"), _number(each.partition, "of"))
                self._marks[key] = Mark(
                    _number(each.offset, "before_ms"),
                    str(each.offset.get("cursor", "")),
                    _number(each.offset, "began_ms"),
                )
            elif (file := shape.key_in(each.partition)) is not None:
                self._known[file] = shape.progress(each.offset)

    def progress(self, found: Found, target: Target) -> Progress | None:
        key = self._shape.key_of(found)
        if self._shape.by is Key.IDENTITY:
            self._met.add(key)
        known = self._known.get(key)
        if known is not None:
            self._seen[key] = found.path, _arrived_ms(found)
            return known
        for (share, tasks), mark in self._marks.items():
            ours = share_of(target.lane, tasks) == share
            if ours and mark.covers(found.path, _arrived_ms(found)):
                return Progress(Position(), is_read=True)
        return None

    def advance(self, found: Found, target: Target, progress: Progress) -> SourceOffset:
        key = self._shape.key_of(found)
        self._known[key] = progress
        self._seen[key] = found.path, _arrived_ms(found)
        return SourceOffset(self._shape.partition(key), self._shape.offset(progress))

    def covers(self, offsets: Stored, found: Found, target: Target) -> bool:
        offset = offsets.get(key_of(self._shape.partition(self._shape.key_of(found))))
        return offset is not None and "eof" in offset

    def forget(self, found: Found, target: Target) -> SourceOffset | None:
        key = self._shape.key_of(found)
        known = self._known.get(key)
        if known is None or known.version != found.version:
            return None  # another file has come in its place
        return self._dropped(key)

    def listed(self, cursor: str, began_ms: int, *, complete: bool) -> list[SourceOffset]:
        if self._shape.by is Key.IDENTITY:
            if not complete:
                return []
            gone = [key for key in self._known if key in self._seen and key not in self._met]
            self._met = set()
            return [self._dropped(key) for key in gone]
        if len(self._known) <= self._limit:
            return []
        before = self._marks.get(self._share, Mark())
        safe_ms = began_ms - self._late_ms
        if complete:
            mark = Mark(max(before.before_ms, safe_ms))
        else:
            mark = replace(before, cursor=cursor, began_ms=safe_ms)
        covered = [
            key
            for key, (path, arrived_ms) in self._seen.items()
            if self._known[key].is_read and mark.covers(path, arrived_ms)
        ]
        if not covered:
            return []
        self._marks[self._share] = mark
        share, tasks = self._share
        result = [
            SourceOffset(
                {_MARK: self._place, "share": share, "of": tasks},
                {
                    "before_ms": mark.before_ms,
                    "cursor": mark.cursor,
                    "began_ms": mark.began_ms,
                },
            )
        ]
        return result + [self._dropped(key) for key in covered]

    def _dropped(self, key: str) -> SourceOffset:
        del self._known[key]
        self._seen.pop(key, None)
        return SourceOffset(self._shape.partition(key), None)
