"""Lines of a file as records, and records as lines of a file (kafka-connect.md §11).

A position counts bytes. The JVM's connector counts characters but skips bytes when it resumes,
which is the same for ASCII; for everything else only bytes resume at a line's start. See
docs/decisions/0003-file-positions-count-bytes.md.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from penstock.api import (
    KAFKA_VERSION,
    Failed,
    Finding,
    Offsets,
    PenstockError,
    Plugin,
    Polled,
    Primitive,
    Props,
    Records,
    SinkConnector,
    SinkContext,
    SinkWriter,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
    StartupFailed,
    Unsupported,
)
from penstock.api.schema import STRING as STRING_SCHEMA
from penstock.api.schema import column_texts, utf8
from penstock.api.settings import (
    HIGH,
    REQUIRED,
    Config,
    ConfigDef,
    Group,
    non_empty,
)
from penstock.connectors.changes import FILE_CHANGES

# fmt: off
_SETTINGS: Final = Group(importance=HIGH)
SOURCE_FILE: Final = _SETTINGS.text("file", None, "The file whose lines become records.")
TOPIC: Final = _SETTINGS.text("topic", REQUIRED, "The topic lines are sent to.", check=non_empty())
BATCH_SIZE: Final = _SETTINGS.ignored("batch.size", 2000,
    "a poll is bounded by bytes, which is faster")
SINK_FILE: Final = _SETTINGS.text("file", None, "The file records are appended to.")
# fmt: on

FILE_SOURCE: Final = ConfigDef(SOURCE_FILE, TOPIC, BATCH_SIZE)
FILE_SINK: Final = ConfigDef(SINK_FILE)

_NO_INPUT: Final = (
    "FileStreamSource does not support standard input, which cannot be read again after a "
    "failure. Set 'file'."
)
_NO_OUTPUT: Final = (
    "FileStreamSink does not support standard output, which tasks do not have. Set 'file'."
)
_BLOCK: Final = 1 << 17  # bytes read at once; malloc would return a larger block each time
_SAME_FILE_S: Final = 0.1  # how often the name is looked up
_LOOK_S: Final = 0.005  # pause before the next poll of a file that has just grown …
_LOOK_QUIET_S: Final = 0.05  # … and the longest pause, if it does not grow
_LOOK_MISSED_S: Final = 1.0  # … or if the kernel reports changes, for those it cannot see
_LOOKS: Final = 3  # about as many polls as this in the quiet time so far: they get rarer
_LINE_END: Final = re.compile("\r\n|\n|\r")
_LINE_END_BYTES: Final = re.compile(rb"\r\n|\n|\r")


def _findings(file: str | None, unset: str) -> Iterable[Finding]:
    """Problems of `file` that do not depend on the machine that runs the task."""
    if not file:
        yield Finding("file", unset)


class FileStreamSource(SourceConnector):
    """Sends each line of a local file to a topic, and continues as the file grows."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.file.FileStreamSourceConnector",
        version=KAFKA_VERSION,
        config=FILE_SOURCE,
        task_class="org.apache.kafka.connect.file.FileStreamSourceTask",
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return _findings(config[SOURCE_FILE], _NO_INPUT)

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
        for source_offset in offsets:
            if source_offset.offset is None:
                continue  # any offset may be reset
            if "position" not in source_offset.offset:
                raise PenstockError(
                    "Offset objects should either be null or contain the key 'position'"
                )
            position = source_offset.offset["position"]
            if isinstance(position, bool) or not isinstance(position, int):
                raise PenstockError(
                    "The value for the 'position' key in the offset is expected to be a Long value"
                )
            if position < 0:
                raise PenstockError(
                    "The value for the 'position' key in the offset should be a non-negative value"
                )
            if "filename" not in source_offset.partition:
                raise PenstockError("Partition objects should contain the key 'filename'")
        return True

    def open(self, config: Config, context: SourceContext) -> FileReader:
        file = config[SOURCE_FILE]
        if not file:
            raise Unsupported(_NO_INPUT)
        return FileReader(file, config[TOPIC], context)


class FileReader(SourceReader):
    """The lines of one file. A line ends with LF, CR or CRLF; a last line without an end, or with a
    CR that an LF may still follow, is read later. The reader waits for a missing file. If another
    file gets the name, it continues there, at the same position. Truncation is not detected (as in
    the reference).

    Bytes stay in a buffer until their lines are whole, so that no byte is read twice.
    """

    idle_ms = 0  # `poll` waits

    def __init__(self, file: str, topic: str, context: SourceContext) -> None:
        self._file = file
        self._topic = topic
        self._context = context
        self._partition: Mapping[str, Primitive] = {"filename": file}
        self._position = self._stored_position()  # of the first byte in the buffer
        self._buffer: bytes | bytearray = b""
        self._blocks: list[bytes] = []  # of the lines that are being polled
        self._searched = 0  # no line ends before this index of the buffer
        self._handle: int | None = None
        self._watch: int | None = None
        self._opened: tuple[int, int] | None = None  # device and inode
        now = time.monotonic()
        self._looked_up_at = now
        self._quiet_since = now

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        now = time.monotonic()
        deadline = now + wait_ms / 1000
        is_watched = False
        while not (lines := self._next_lines(max_bytes, now)):
            if now >= deadline or not self._context.is_running:
                return None
            # Polling again finds what was written before the kernel watches the file.
            if not is_watched and self._watches_changes(now):
                is_watched = True
                now = time.monotonic()
                continue
            pause = _LOOK_MISSED_S if is_watched else self._pause(now - self._quiet_since)
            self._context.wait(min(pause, deadline - now))
            is_watched = False
            now = time.monotonic()
        self._quiet_since = now
        blocks, self._blocks = self._blocks, []
        return Polled(
            Records.of(self._topic, lines, schema=STRING_SCHEMA),
            [SourceOffset(self._partition, {"position": self._position})],
            offsets_before=partial(self._offsets_before, self._position, blocks),
        )

    def close(self) -> None:
        if self._watch is not None:
            FILE_CHANGES.forget(self._watch, self._context.wake)
            self._watch = None
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _offsets_before(self, end: int, blocks: Sequence[bytes], lines: int) -> Offsets:
        """The offset after the first `lines` of the blocks before `end`."""
        text = b"".join(blocks)
        ends = (match.end() for match in _LINE_END_BYTES.finditer(text))
        position = end - len(text) + next(islice(ends, lines - 1, None))
        return [SourceOffset(self._partition, {"position": position})]

    def _stored_position(self) -> int:
        offset = self._context.stored_offset(self._partition)
        if offset is None:
            return 0
        position = offset.get("position")
        if isinstance(position, bool) or not isinstance(position, int):
            raise PenstockError(
                "Offset position is the incorrect type: "
                f"expected an integer for '{self._file}', found {position!r}."
            )
        return position

    def _watches_changes(self, now: float) -> bool:
        """Whether the kernel wakes the reader when the file changes. Not while lines arrive in
        quick succession: they would be read a few at a time."""
        if self._handle is None or now - self._quiet_since < _LOOK_S:
            return False
        self._watch = FILE_CHANGES.wake_at_next(self._handle, self._context.wake)
        return self._watch is not None

    @staticmethod
    def _pause(quiet_s: float) -> float:
        """Seconds to wait before the next poll of a file that has not grown for `quiet_s`."""
        return min(max(_LOOK_S, quiet_s / _LOOKS), _LOOK_QUIET_S)

    def _next_lines(self, max_bytes: int, now: float) -> list[str]:
        """The next whole lines, about `max_bytes` of them, or one that is longer."""
        self._follow_name(now)
        stop = self._position + max_bytes
        lines = self._next_block(max(1, min(_BLOCK, max_bytes)))
        while lines and self._position + _BLOCK <= stop and (more := self._next_block(_BLOCK)):
            lines += more
        return lines

    def _next_block(self, window: int) -> list[str]:
        """The next whole lines of about `window` bytes, or one that is longer."""
        if self._handle is None:
            return []
        more = True
        while more and len(self._buffer) < window:
            more = self._read()
        while not (end := self._end_of_lines(window)):
            if not (more and self._read()):
                return []
        block = bytes(self._buffer[:end])
        text = block.decode("utf-8", "replace")
        self._blocks.append(block)
        self._buffer = bytes(self._buffer[end:])
        self._position += end
        self._searched = 0
        return _lines(text)

    def _follow_name(self, now: float) -> None:
        """Opens the file that currently has the name, unless it is open."""
        if self._handle is not None:
            if now - self._looked_up_at < _SAME_FILE_S:
                return
            self._looked_up_at = now
            try:
                status = os.stat(self._file)
            except FileNotFoundError:
                status = None
            if status is not None and (status.st_dev, status.st_ino) == self._opened:
                return
            # The unfinished line is also read from the file that currently has the name.
            self.close()
            self._buffer = b""
            self._searched = 0
        try:
            self._handle = os.open(self._file, os.O_RDONLY)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreadable(error) from error
        status = os.fstat(self._handle)
        self._opened = status.st_dev, status.st_ino
        self._looked_up_at = now

    def _read(self) -> bool:
        """Reads a block into the buffer; False at the end of the file."""
        assert self._handle is not None, "looked for before"
        try:
            block = os.pread(self._handle, _BLOCK, self._position + len(self._buffer))
        except OSError as error:
            raise self._unreadable(error) from error
        if len(self._buffer) > _BLOCK and isinstance(self._buffer, bytes):
            self._buffer = bytearray(self._buffer)  # one long line, which grows without copies
        self._buffer += block
        return bool(block)

    def _unreadable(self, error: OSError) -> PenstockError:
        return PenstockError(f"Cannot read '{self._file}' (setting 'file'): {error.strerror}.")

    def _end_of_lines(self, window: int) -> int:
        """The index after the last whole line in the first `window` bytes of the buffer, or after
        the first line if that is longer; 0 while there is none."""
        buffer, size = self._buffer, len(self._buffer)
        window = min(size, window)
        lf = buffer.rfind(b"\n", self._searched, window)
        cr = buffer.rfind(b"\r", max(lf + 1, self._searched), window)
        if cr == size - 1:  # an LF may follow; the CR before it, if any, ended a line
            cr = buffer.rfind(b"\r", max(lf + 1, self._searched), max(cr, 0))
        if lf < 0 and cr < 0 and window < size:
            start = max(window, self._searched)
            lf = buffer.find(b"\n", start)
            cr = buffer.find(b"\r", start, size - 1 if lf < 0 else lf)
        if cr >= 0:
            return cr + 2 if buffer[cr + 1] == 0x0A else cr + 1
        if lf < 0:
            self._searched = max(0, size - 1)  # the last byte may be the CR of a CRLF to come
        return lf + 1


def _lines(text: str) -> list[str]:
    lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
    if not lines[-1]:
        lines.pop()  # nothing follows the last line's end
    return lines


class FileStreamSink(SinkConnector):
    """Appends each record's value, as text, to a local file; one line per record."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.file.FileStreamSinkConnector",
        version=KAFKA_VERSION,
        config=FILE_SINK,
        task_class="org.apache.kafka.connect.file.FileStreamSinkTask",
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        return _findings(config[SINK_FILE], _NO_OUTPUT)

    def alter_offsets(self, config: Config, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        return True

    def open(self, config: Config, context: SinkContext) -> LineWriter:
        file = config[SINK_FILE]
        if not file:
            raise Unsupported(_NO_OUTPUT)
        return LineWriter(file)


class LineWriter(SinkWriter):
    """Appends whole lines under a lock: several tasks may share the file, and a write that fails
    half way (a full disk) leaves nothing behind. After a line that a killed worker has cut off, it
    begins a new one."""

    takes_fields = True

    def __init__(self, file: str) -> None:
        self._file = file
        try:
            self._handle = self._open()
        except OSError as error:
            raise StartupFailed(
                f"Cannot write '{file}' (setting 'file'): {error.strerror}."
            ) from error

    def write(self, records: Records, failed: Failed) -> None:
        lines = list(map(utf8, column_texts(records.values, end="\n")))
        if lines:
            self._append(lines[0] if len(lines) == 1 else b"".join(lines))

    def close(self) -> None:
        os.close(self._handle)

    def _open(self) -> int:
        flags = os.O_CREAT | os.O_APPEND
        self._reads = os.path.isfile(self._file) or not os.path.exists(self._file)
        if self._reads:  # not of a pipe, which must have a reader
            try:
                return os.open(self._file, os.O_RDWR | flags, 0o666)
            except PermissionError:
                self._reads = False
        return os.open(self._file, os.O_WRONLY | flags, 0o666)

    def _append(self, data: bytes | memoryview) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            before = os.fstat(self._handle).st_size
            begin = b"\n" if self._is_cut_off(before) else b""
            rest = memoryview(b"".join((begin, data)) if begin else data)
            try:
                while rest:
                    rest = rest[os.write(self._handle, rest) :]
            except OSError as error:
                text = (
                    f"Cannot append {len(data)} bytes to '{self._file}' (setting 'file'): "
                    f"{error.strerror}."
                )
                try:
                    os.ftruncate(self._handle, before)
                except OSError:
                    written = os.fstat(self._handle).st_size - before
                    if written:
                        raise PenstockError(
                            f"{text} {written} bytes of this batch were written and cannot be "
                            "removed; it is written again when the task is restarted."
                        ) from error
                raise PenstockError(
                    f"{text} None of this batch was written; free disk space and restart the task."
                ) from error
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _is_cut_off(self, size: int) -> bool:
        """Whether the file ends within a line."""
        return size > 0 and self._reads and os.pread(self._handle, 1, size - 1) != b"\n"
