"""Lines of a file as records, and records as lines of a file (reference §11).

A position counts bytes. The JVM's connector counts characters but skips bytes when it resumes,
which is the same for ASCII; for everything else only bytes resume at a line's start. See
docs/decisions/0003-file-positions-count-bytes.md.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from penstock import KAFKA_VERSION
from penstock.api import (
    Failed,
    Offsets,
    Plugin,
    Props,
    SinkConnector,
    SinkWriter,
    SourceConnector,
    SourceOffset,
    SourceReader,
)
from penstock.config import checks
from penstock.config.define import HIGH, INT, LOW, STRING, Config, ConfigDef, Key
from penstock.data.records import Column, Records
from penstock.data.schema import STRING as STRING_SCHEMA
from penstock.data.text import column_texts, utf8
from penstock.errors import PenstockError, StartupFailed, Unsupported

SOURCE_FILE: Final = Key(
    "file", STRING, default=None, importance=HIGH, doc="The file whose lines become records."
)
TOPIC: Final = Key(
    "topic", STRING, importance=HIGH, check=checks.non_empty(), doc="The topic lines are sent to."
)
BATCH_SIZE: Final = Key(
    "batch.size",
    INT,
    default=2000,
    importance=LOW,
    doc="Accepted for compatibility; batches are planned by bytes, which is faster.",
)
SINK_FILE: Final = Key(
    "file", STRING, default=None, importance=HIGH, doc="The file records are appended to."
)

FILE_SOURCE: Final = ConfigDef(SOURCE_FILE, TOPIC, BATCH_SIZE)
FILE_SINK: Final = ConfigDef(SINK_FILE)

_BLOCK: Final = 1 << 19  # bytes read at once; some thousand lines, which fit a processor's cache
_SCAN: Final = 1 << 16  # bytes looked at when searching for a line's end
_LINE_END: Final = re.compile("\r\n|\n|\r")


class FileStreamSource(SourceConnector):
    """Sends each line of a local file to a topic, and goes on as the file grows."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.file.FileStreamSourceConnector",
        version=KAFKA_VERSION,
        config=FILE_SOURCE,
        task_class="org.apache.kafka.connect.file.FileStreamSourceTask",
    )

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]  # one reader: a file has one order

    def exactly_once(self, config: Config) -> bool:
        return config[SOURCE_FILE] is not None  # standard input cannot be read again

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        if not config[SOURCE_FILE]:
            raise PenstockError(
                "Offsets cannot be modified if the 'file' configuration is unspecified. This is "
                "because stdin is used for input and offsets are not tracked."
            )
        for each in offsets:
            if each.offset is None:
                continue  # whatever it is of, it may be forgotten
            if "position" not in each.offset:
                raise PenstockError(
                    "Offset objects should either be null or contain the key 'position'"
                )
            position = each.offset["position"]
            if isinstance(position, bool) or not isinstance(position, int):
                raise PenstockError(
                    "The value for the 'position' key in the offset is expected to be a Long value"
                )
            if position < 0:
                raise PenstockError(
                    "The value for the 'position' key in the offset should be a non-negative value"
                )
            if "filename" not in each.partition:
                raise PenstockError("Partition objects should contain the key 'filename'")
        return True

    def open(self, config: Config) -> FileReader:
        file = config[SOURCE_FILE]
        if not file:
            raise Unsupported(
                "FileStreamSource reads a file named by 'file'; standard input cannot be read "
                "again after a failure, so it is not offered. Set 'file'."
            )
        return FileReader(file, config[TOPIC])


class FileReader(SourceReader):
    """The lines of one file by byte ranges. A line ends with LF, CR or CRLF; a last line without
    an end, or with a CR that an LF may still follow, is left for later. A missing file is waited
    for. Truncation is not detected (as in the reference).

    What is read are blocks of whole lines; they become lines where they become records, for a few
    large rows pass through Spark at a fraction of the cost of many small ones.
    """

    schema = pa.schema([pa.field("lines", pa.binary(), nullable=False)])
    idle_ms = 25  # to look costs two system calls

    def __init__(self, file: str, topic: str) -> None:
        self._file = file
        self._topic = topic
        self._endless_from = -1  # where the unfinished last line was seen to start …
        self._endless_to = -1  # … and how far it was searched for its end

    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        position = self._position(start)
        try:
            file = os.open(self._file, os.O_RDONLY)
        except FileNotFoundError:
            return start
        try:
            end = self._end_of_lines(file, position, max_bytes)
        finally:
            os.close(file)
        return start if end == position else self._offsets(end)

    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        position, stop = self._position(start), self._position(end)
        with open(self._file, "rb") as file:
            file.seek(position)
            rest = b""
            while position < stop:
                block = file.read(min(_BLOCK, stop - position))
                if not block:
                    raise PenstockError(
                        f"File '{self._file}' ended at byte {position} although it reached "
                        f"{stop} before: it was truncated while being read. Restore it, or alter "
                        "the connector's offsets."
                    )
                position += len(block)
                if position < stop:
                    block, rest = _cut(rest + block)
                else:
                    block, rest = rest + block, b""
                if block:
                    yield pa.RecordBatch.from_pydict({"lines": [block]}, schema=self.schema)

    def records(self, batch: pa.RecordBatch) -> Records:
        values: list[str] = []
        for block in batch.column(0).to_pylist():
            values += _lines(block)
        nothing: list[None] = [None] * len(values)
        return Records(
            topics=[self._topic] * len(values),
            partitions=[*nothing],
            timestamps=[*nothing],
            keys=Column.of([*nothing], None),
            values=Column.of(values, STRING_SCHEMA),
        )

    def _offsets(self, position: int) -> Offsets:
        return [SourceOffset({"filename": self._file}, {"position": position})]

    def _position(self, offsets: Offsets) -> int:
        for known in offsets:
            if known.partition == {"filename": self._file} and known.offset is not None:
                position = known.offset.get("position")
                if isinstance(position, bool) or not isinstance(position, int):
                    raise PenstockError(
                        "Offset position is the incorrect type: "
                        f"expected an integer for '{self._file}', found {position!r}."
                    )
                return position
        return 0

    def _end_of_lines(self, file: int, position: int, max_bytes: int) -> int:
        """The end of the last whole line in the next `max_bytes`, or of one line that is longer."""
        size = os.fstat(file).st_size
        window = min(size, position + max_bytes)
        searched = self._endless_to if self._endless_from == position else position
        for low in range(_floor(window), _floor(searched) - 1, -_SCAN):
            begin, low_end = max(low, searched), min(low + _SCAN, window)
            if low_end <= begin:
                continue  # all of it was searched before, or lies beyond the end
            block = os.pread(file, low_end - begin, begin)
            end = self._line_end(file, block, begin, size, last=True)
            if end is not None:
                return end
        for low in range(max(window, searched), size, _SCAN):
            block = os.pread(file, _SCAN, low)
            end = self._line_end(file, block, low, size, last=False)
            if end is not None:
                return end
        # Look again from the last byte: it may be the CR of a CRLF to come.
        self._endless_from, self._endless_to = position, max(position, size - 1)
        return position

    def _line_end(self, file: int, block: bytes, at: int, size: int, *, last: bool) -> int | None:
        """The position after the last (or first) line end in `block`, which starts at `at`."""
        stop, begin = len(block), 0
        while begin < stop:
            if last:
                found = max(block.rfind(b"\n", 0, stop), block.rfind(b"\r", 0, stop))
            else:
                ends = (block.find(b"\n", begin), block.find(b"\r", begin))
                found = min((end for end in ends if end >= 0), default=-1)
            if found < 0:
                return None
            end = at + found + 1
            if block[found] == 0x0A:
                return end
            if end < size:  # a CR, and what follows it is known
                return end + 1 if os.pread(file, 1, end) == b"\n" else end
            stop, begin = (found, begin) if last else (stop, found + 1)
        return None


def _lines(block: bytes) -> list[str]:
    text = block.decode("utf-8", "replace")
    lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
    if not lines[-1]:
        lines.pop()  # nothing follows the last line's end
    return lines


def _floor(position: int) -> int:
    return position - position % _SCAN


def _cut(block: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and the rest that belongs to the next block."""
    cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
    return block[:cut], block[cut:]


class FileStreamSink(SinkConnector):
    """Appends each record's value, as text, to a local file; one line per record."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.file.FileStreamSinkConnector",
        version=KAFKA_VERSION,
        config=FILE_SINK,
        task_class="org.apache.kafka.connect.file.FileStreamSinkTask",
    )

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props] * max_tasks

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config) -> LineWriter:
        file = config[SINK_FILE]
        if not file:
            raise Unsupported(
                "FileStreamSink writes a file named by 'file'; a task has no standard output of "
                "its own, so that is not offered. Set 'file'."
            )
        return LineWriter(file)


class LineWriter(SinkWriter):
    """Appends whole lines under a lock: several tasks may share the file, and a write that fails
    half way (a full disk) leaves nothing of itself behind."""

    takes_fields = True

    def __init__(self, file: str) -> None:
        self._file = file
        try:
            self._handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise StartupFailed(
                f"Cannot write the file '{file}' that 'file' names: {error.strerror}."
            ) from error

    def write(self, records: Records, failed: Failed) -> None:
        lines = list(map(utf8, column_texts(records.values, end="\n")))
        if lines:
            self._append(lines[0] if len(lines) == 1 else b"".join(lines))

    def close(self) -> None:
        os.close(self._handle)

    def _append(self, data: bytes | memoryview) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            before = os.fstat(self._handle).st_size
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._handle, rest) :]
            except OSError as error:
                os.ftruncate(self._handle, before)
                raise PenstockError(
                    f"Cannot append {len(data)} bytes to '{self._file}' (setting 'file'): "
                    f"{error.strerror}. Nothing of this batch was written; make room and restart "
                    "the task."
                ) from error
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)
