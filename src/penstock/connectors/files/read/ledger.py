"""How far each file was read: the offsets of sources of files.

A `Ledger` tracks what was polled: it starts with the stored offsets, and every poll updates it. It
creates the offsets that are stored with records.

`FolderLedger` remembers the last file of each lane in a folder: all files that sort before it were
read. Its offsets are those of Confluent's S3 source.

`FileLedger` remembers each file, so files may come in any order. It would grow without limit if
files remain, so beyond `limit` it forgets files that a mark covers. For a share of all names
(`lane`'s hash modulo a number), a mark states that all files were read that

- had arrived before `before_ms`; or
- sort up to `cursor`, and had arrived before `began_ms`, the start of the listing that reached it.

A mark stays valid if the number of tasks changes. A mark never covers files that arrive within
`late_ms` of the start of its listing: clocks differ, and S3 dates an object by the start of its
upload.
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
from penstock.connectors.files.stores.reading import ListedFile

Map = Mapping[str, Primitive]
Stored = Mapping[object, Map | None]
"""Offsets by the `key_of` their partitions."""


def key_of(partition: Map) -> object:
    """A hashable key, equal for equal partitions."""
    return frozenset(partition.items())


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a file was read."""

    position: Position
    is_read: bool = False
    """Whether it was read to its end."""
    version: str = ""
    """The version of the file; "" if it is not known."""
    error: str | None = None
    """Why reading was given up."""


class Ledger(ABC):
    """How far files were read. Used by one thread."""

    @abstractmethod
    def progress(self, found: ListedFile, target: Target) -> Progress | None:
        """How far a file was read; None: not at all."""

    def advance(self, found: ListedFile, target: Target, progress: Progress) -> SourceOffset:
        """Records how far the file was read; returns the offset."""
        self._record(found, target, progress)
        return self.offset(found, target, progress)

    @abstractmethod
    def offset(self, found: ListedFile, target: Target, progress: Progress) -> SourceOffset:
        """The offset of a file that was read so far."""

    @abstractmethod
    def _record(self, found: ListedFile, target: Target, progress: Progress) -> None:
        """Records how far the file was read."""

    @abstractmethod
    def covers(self, offsets: Stored, found: ListedFile, target: Target) -> bool:
        """Whether these stored offsets say that the file was read to its end."""

    def next_name(self, found: ListedFile, target: Target) -> str | None:
        """A greater name up to which all files of the lane were read, if there is one."""
        return None

    def forget(self, found: ListedFile, target: Target) -> SourceOffset | None:
        """Forgets a file that was moved or deleted."""
        return None

    def listed(self, cursor: str, began_ms: int, *, complete: bool) -> list[SourceOffset]:
        """A listing that began at `began_ms` has reached `cursor`, or its end, and its files were
        read. Forgets files that a mark can cover; returns the changed offsets."""
        return []


class FolderLedger(Ledger):
    """The last file of each lane in a folder.

    {"folder": "topics/a/partition=0/"} →
    {"lastFileRead": "topics/a/partition=0/a+0+0000000000.avro", "fileOffset": "3", "eof": "false"}

    `fileOffset` is the number of records read. We add the version of the file while it is being
    read, the byte position if the format has one, and the lane to partitions of folders with files
    of several Kafka partitions. The offset of a folder without a lane is for all lanes.
    """

    def __init__(self, stored: Offsets, *, one_lane: bool) -> None:
        """`one_lane`: a folder has files of one Kafka partition only."""
        self._one_lane = one_lane
        self._last: dict[tuple[str, str], tuple[str, Progress]] = {}
        for entry in stored:
            folder, path = entry.partition.get("folder"), (entry.offset or {}).get("lastFileRead")
            if isinstance(folder, str) and isinstance(path, str) and entry.offset is not None:
                lane = str(entry.partition.get("files", ""))
                self._last[folder, lane] = path, _folder_progress(entry.offset)

    def progress(self, found: ListedFile, target: Target) -> Progress | None:
        last = self._last_of(found.path, target)
        if last is None or found.path > last[0]:
            return None
        if found.path == last[0]:
            return last[1]
        return Progress(Position(), is_read=True)

    def _record(self, found: ListedFile, target: Target, progress: Progress) -> None:
        self._last[self._key(found.path, target)] = found.path, progress

    def offset(self, found: ListedFile, target: Target, progress: Progress) -> SourceOffset:
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
        return SourceOffset(self._partition(*self._key(found.path, target)), offset)

    def covers(self, offsets: Stored, found: ListedFile, target: Target) -> bool:
        offset = offsets.get(key_of(self._partition(*self._key(found.path, target))))
        if offset is None:
            return False
        last = str(offset["lastFileRead"])
        return last > found.path or (last == found.path and offset["eof"] == "true")

    def next_name(self, found: ListedFile, target: Target) -> str | None:
        last = self._last_of(found.path, target)
        return last[0] if last is not None and last[0] > found.path else None

    def _last_of(self, path: str, target: Target) -> tuple[str, Progress] | None:
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
    """A number of an offset, which may be a string. Raises DataError."""
    value = offset.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise DataError(f"An offset has {value!r} as '{name}', which is not a number")
    try:
        number = int(value)
    except ValueError as cause:
        raise DataError(f"An offset has {value!r} as '{name}', which is not a number") from cause
    if number < 0:
        raise DataError(f"An offset has {value!r} as '{name}', which is negative")
    return number


class Key(Enum):
    """What identifies a file in offsets."""

    PATH = "path"
    NAME = "name"  # the last part of the path
    IDENTITY = "identity"  # stays the same when a file is renamed


@dataclass(frozen=True, slots=True)
class OffsetShape:
    """The format of offsets of files.

    `key` is the member of the partition that identifies a file; `fixed` are members with the same
    values for all files. `record` is the member of the offset with the number of records read.
    """

    key: str
    record: str
    fixed: Map
    by: Key = Key.PATH

    def key_of(self, found: ListedFile) -> str:
        match self.by:
            case Key.NAME:
                return found.path[found.path.rfind("/") + 1 :]
            case Key.IDENTITY:
                return found.identity
        return found.path

    def partition(self, key: str) -> Map:
        return {**self.fixed, self.key: key}

    def key_in(self, partition: Map) -> str | None:
        """The key of the file; None if this is not the partition of a file of ours."""
        key = partition.get(self.key)
        is_ours = all(partition.get(name) == value for name, value in self.fixed.items())
        return key if isinstance(key, str) and is_ours else None

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


def _arrived_ms(found: ListedFile) -> int:
    return max(found.arrived_ms, found.modified_ms)


_MARK: Final = "penstock.files.read"


def is_of(partition: Map, name: str) -> bool:
    """Whether a partition is that of a file, identified by the member `name`, or of a mark."""
    return name in partition or _MARK in partition


@dataclass(frozen=True, slots=True)
class Mark:
    """See the docstring of the module."""

    before_ms: int = 0
    cursor: str = ""
    began_ms: int = 0

    def covers(self, path: str, arrived_ms: int) -> bool:
        return arrived_ms < self.before_ms or (path <= self.cursor and arrived_ms < self.began_ms)


class FileLedger(Ledger):
    """Remembers each file."""

    def __init__(
        self,
        stored: Offsets,
        shape: OffsetShape,
        place: str,
        task: int,
        tasks: int,
        *,
        limit: int,
        late_ms: int,
    ) -> None:
        """`place` identifies the files' location in marks."""
        self._shape = shape
        self._place = place
        self._share = (task, tasks)
        self._limit = limit
        self._late_ms = late_ms
        self._progress: dict[str, Progress] = {}
        self._arrivals: dict[str, tuple[str, int]] = {}  # the path of each key, and when it arrived
        self._listed: set[str] = set()  # keys in this listing, if files may be renamed
        self._marks: dict[tuple[int, int], Mark] = {}
        for entry in stored:
            if entry.offset is None:
                continue
            if entry.partition.get(_MARK) == place:
                key = (_number(entry.partition, "share"), _number(entry.partition, "of"))
                self._marks[key] = Mark(
                    _number(entry.offset, "before_ms"),
                    str(entry.offset.get("cursor", "")),
                    _number(entry.offset, "began_ms"),
                )
            elif (file := shape.key_in(entry.partition)) is not None:
                self._progress[file] = shape.progress(entry.offset)

    def progress(self, found: ListedFile, target: Target) -> Progress | None:
        key = self._shape.key_of(found)
        if self._shape.by is Key.IDENTITY:
            self._listed.add(key)
        progress = self._progress.get(key)
        if progress is not None:
            self._arrivals[key] = found.path, _arrived_ms(found)
            return progress
        for (share, tasks), mark in self._marks.items():
            in_share = share_of(target.lane, tasks) == share
            if in_share and mark.covers(found.path, _arrived_ms(found)):
                return Progress(Position(), is_read=True)
        return None

    def _record(self, found: ListedFile, target: Target, progress: Progress) -> None:
        key = self._shape.key_of(found)
        self._progress[key] = progress
        self._arrivals[key] = found.path, _arrived_ms(found)

    def offset(self, found: ListedFile, target: Target, progress: Progress) -> SourceOffset:
        partition = self._shape.partition(self._shape.key_of(found))
        return SourceOffset(partition, self._shape.offset(progress))

    def covers(self, offsets: Stored, found: ListedFile, target: Target) -> bool:
        offset = offsets.get(key_of(self._shape.partition(self._shape.key_of(found))))
        return offset is not None and "eof" in offset

    def forget(self, found: ListedFile, target: Target) -> SourceOffset | None:
        key = self._shape.key_of(found)
        progress = self._progress.get(key)
        if progress is None or progress.version != found.version:
            return None  # another file has replaced it
        return self._drop(key)

    def listed(self, cursor: str, began_ms: int, *, complete: bool) -> list[SourceOffset]:
        if self._shape.by is Key.IDENTITY:
            if not complete:
                return []
            removed = [
                key for key in self._progress if key in self._arrivals and key not in self._listed
            ]
            self._listed = set()
            return [self._drop(key) for key in removed]
        if len(self._progress) <= self._limit:
            return []
        previous = self._marks.get(self._share, Mark())
        safe_ms = began_ms - self._late_ms
        if complete:
            mark = Mark(max(previous.before_ms, safe_ms))
        else:
            mark = replace(previous, cursor=cursor, began_ms=safe_ms)
        covered = [
            key
            for key, (path, arrived_ms) in self._arrivals.items()
            if self._progress[key].is_read and mark.covers(path, arrived_ms)
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
        return result + [self._drop(key) for key in covered]

    def _drop(self, key: str) -> SourceOffset:
        del self._progress[key]
        self._arrivals.pop(key, None)
        return SourceOffset(self._shape.partition(key), None)
