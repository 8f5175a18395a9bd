"""Folders and names of files (connectors.md §13):

<topics.dir>/<topic>/<encoded partition>/<topic>+<partition>+<first offset>.<extension>

with `+<last offset>` after the first one in HDFS (connectors.md §14). The topic is that of the
records after transforms. If other topics may be routed to it, `<source topic>+<partition>` stands
for the partition: partition 0 of two topics must not have one name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from penstock.api import DataError
from penstock.api.schema import EPOCH, Value
from penstock.connectors.files.boundaries.joda import Write

_MS: Final = timedelta(milliseconds=1)
_LOOKS_ENCODED: Final = re.compile("%(?=2F|5C|2E|25|[01][0-9A-F])")
_QUARTER_MS: Final = 900_000
_QUARTERS_SINCE_MS: Final = 100_000_000_000  # since then zone offsets are multiples of 15 minutes


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of a file: those of a partition from the offset `start` on. `source`: the topic
    of the partition, if the name needs it."""

    topic: str
    folder: str
    partition: int
    start: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class Naming:
    """The format of names."""

    root: str  # `topics.dir`
    delimiter: str = "/"
    between: str = "+"
    pad: int = 10
    has_end: bool = False
    """Whether names also contain the last offset."""

    def path(self, contents: Contents, ending: str, end: int = 0) -> str:
        """The full name of a file; `ending` begins with a dot. `end`: its last offset, if known."""
        offsets = (contents.start, end) if self.has_end else (contents.start,)
        parts = (
            contents.topic,
            contents.source,
            str(contents.partition),
            *(str(offset).zfill(self.pad) for offset in offsets),
        )
        name = self.between.join(part for part in parts if part)
        components = (self.root, contents.topic, contents.folder, f"{name}{ending}")
        return self.delimiter.join(component for component in components if component)


def default_folder(partition: int) -> str:
    """The folder of DefaultPartitioner."""
    return f"partition={partition}"


def field_text(name: str, value: Value) -> str:
    """`name=value` of FieldPartitioner. Raises DataError for values other than strings, numbers and
    booleans."""
    if isinstance(value, bool):
        return f"{name}={'true' if value else 'false'}"
    if isinstance(value, str | int):
        return f"{name}={value}"
    if value is None:
        return f"{name}=null"
    raise DataError(
        f"Field '{name}' of partition.field.name is of type {type(value).__name__}; only strings, "
        "integers and booleans can name a folder"
    )


def schema_text(name: str | None) -> str:
    """The folder of records whose schema has that name; None: records without a schema name."""
    return f"schema_name={'null' if name is None else name}"


def escaped(text: str, also: str = "") -> str:
    """A folder name that cannot escape its folder: slashes, backslashes, control characters and the
    names `.` and `..` are percent-encoded, and so is a percent sign that would look like one of
    these. So are the characters of `also`. Different texts have different names. For file systems;
    object stores accept any name.

    >>> escaped("name=a/../b"), escaped(".."), escaped("50%"), escaped("a%2Fb")
    ('name=a%2F..%2Fb', '%2E%2E', '50%', 'a%252Fb')
    >>> escaped("a:b", also=":"), escaped("a%3Ab", also=":")
    ('a%3Ab', 'a%253Ab')
    """
    if text in (".", ".."):
        return text.replace(".", "%2E")
    if "%" in text:
        text = _LOOKS_ENCODED.sub("%25", text)
        for c in also:
            text = text.replace(f"%{ord(c):02X}", f"%25{ord(c):02X}")
    if text.isprintable() and not any(c in text for c in f"/\\{also}"):
        return text
    return "".join(f"%{ord(c):02X}" if c in "/\\" + also or ord(c) < 32 else c for c in text)


class TimeFolders:
    """The folders of TimeBasedPartitioner: the beginning of the period that contains a time, in a
    time zone."""

    def __init__(self, write: Write, zone: ZoneInfo, duration_ms: int) -> None:
        self._write = write
        self._zone = zone
        self._duration_ms = duration_ms
        self._folders: dict[int, str] = {}
        self._by_quarter = duration_ms % _QUARTER_MS == 0

    def of(self, times: Sequence[int]) -> list[str]:
        """The folder of each time (ms since the epoch). Raises DataError beyond year 9999."""
        if not self._by_quarter or (times and min(times) < _QUARTERS_SINCE_MS):
            return [self._folder(time) for time in times]
        folders = self._folders
        try:
            return [folders[time // _QUARTER_MS] for time in times]
        except KeyError:
            if len(folders) > 10_000:
                folders.clear()
        for quarter in {time // _QUARTER_MS for time in times}.difference(folders):
            folders[quarter] = self._folder(quarter * _QUARTER_MS)
        return [folders[time // _QUARTER_MS] for time in times]

    def _folder(self, time: int) -> str:
        try:
            local = to_local(time, self._zone)
            begin = local - local % self._duration_ms
            naive = datetime(1970, 1, 1) + begin * _MS  # noqa: DTZ001 - the zone follows
            return self._write(
                naive.replace(tzinfo=self._zone).astimezone(UTC).astimezone(self._zone)
            )
        except (OverflowError, ValueError) as cause:
            raise DataError(f"The time {time} is outside the years 1 to 9999") from cause


def to_local(time: int, zone: ZoneInfo) -> int:
    """The local time in a zone: ms since the epoch, as if it were UTC."""
    offset = (EPOCH + time * _MS).astimezone(zone).utcoffset()
    assert offset is not None, "a zone has one at any time"
    return time + offset // _MS
