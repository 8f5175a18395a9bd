"""Reads files of lines: finds the lines, and decodes text."""

from __future__ import annotations

import codecs
import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np

from penstock.api import Column, DataError, Failed
from penstock.api.schema import OPTIONAL_STRING, STRING, Value
from penstock.connectors.files.formats.codecs_read import (
    PIECE,
    DecompressedStream,
    Transcoded,
    decompressing,
)
from penstock.connectors.files.formats.decoder import (
    Chunk,
    Decoder,
    Input,
    NotThisFormat,
    Position,
    Reading,
    TooLarge,
    Truncated,
)

NEWLINE: Final = b"\n"
BOM: Final = codecs.BOM_UTF8
MOST: Final = 1 << 26
"""The default for the largest size of a record in bytes."""

_NEWLINE: Final = 10
_LINE_END: Final = re.compile(rb"\n|\r\n|\r(?=[^\n])")
_LINE_END_KEEPS_CR: Final = re.compile(rb"\n")
_SPACE: Final = 32

L = TypeVar("L")

Ends = Callable[[bytes], Any]
"""Takes bytes that begin with a record; returns the ends of complete ones, as an array."""


@dataclass(frozen=True, slots=True)
class Block:
    """Complete records of a file, each with its separator."""

    data: bytes
    begin: int
    """The position of the first byte in the decompressed file."""
    complete: bool
    """Whether the last record has its separator."""


class Separated:
    """A file in blocks of complete records. `most` is the largest size of a record in bytes."""

    def __init__(
        self,
        stream: DecompressedStream,
        begin: int,
        stop: int | None,
        *,
        growing: bool,
        most: int,
        separator: bytes = NEWLINE,
        ends: Ends | None = None,
    ) -> None:
        self._stream = stream
        self._ends = ends
        self._stop = stop
        self._growing = growing
        self._most = most
        self._separator = separator
        self._held = b""
        self._at = 0
        self.begin = begin
        """Where the next block begins."""
        self.skipped = 0
        """How many lines `skip_lines` has skipped."""

    def skip_partial(self) -> None:
        """Moves past the next separator, where the first record of a range begins."""
        while True:
            at = self._held.find(self._separator)
            if at >= 0:
                self._at = at + len(self._separator)
                self.begin += self._at
                return
            tail = self._held[max(0, len(self._held) - len(self._separator) + 1) :]
            more = self._stream.read(PIECE)
            if not more:
                self.begin += len(self._held)
                self._held = b""
                return
            self.begin += len(self._held) - len(tail)
            self._held = tail + more

    def skip_lines(self, count: int, *, keeps_cr: bool = False) -> bool:
        """Moves past lines at the beginning of the file; False if a growing file does not have
        them yet. Without `keeps_cr`, a carriage return also ends a line."""
        line_end = _LINE_END_KEEPS_CR if keeps_cr else _LINE_END
        while self.skipped < count:
            match = line_end.search(self._held, self._at)
            if match is None:
                more = self._stream.read(PIECE)
                if more:
                    self._held += more
                    continue
                if self._growing:
                    return False
                self.begin += len(self._held) - self._at
                self._held, self._at = b"", 0
                return True
            self.begin += match.end() - self._at
            self._at = match.end()
            self.skipped += 1
        return True

    def block(self, max_bytes: int) -> Block | None:
        """About `max_bytes` of records, at least one; None at the end, or if none is complete.
        Raises TooLarge."""
        if self._stop is not None and self.begin >= self._stop:
            return None
        searched = self._at
        while (end := self._end(max_bytes, searched)) < 0:
            held = len(self._held) - self._at
            if held > self._most:
                raise TooLarge(self._most)
            more = self._stream.read(max(PIECE, held, min(max_bytes - held, self._most)))
            if not more:
                if self._growing or not held:
                    return None
                return self._take(len(self._held), False)
            searched = max(0, held - len(self._separator) + 1)
            self._held = self._held[self._at :] + more
            self._at = 0
        return self._take(end, True)

    def _end(self, max_bytes: int, searched: int) -> int:
        """The end of the last record in `max_bytes`, or of the first one if it is larger; -1 if it
        has not been read yet."""
        held, at, separator = self._held, self._at, self._separator
        if self._ends is not None:
            ends = self._ends(held[at : at + max_bytes])
            if not len(ends):
                ends = self._ends(held[at:])[:1]
            return at + int(ends[-1]) if len(ends) else -1
        size = len(separator)
        last = held.rfind(separator, at, at + max_bytes)
        if last < 0:
            last = held.find(separator, searched)
            if last < 0:
                return -1
            if last + size - at > self._most:
                raise TooLarge(self._most)
        if self._stop is not None and self.begin + last + size - at > self._stop:
            last = held.find(separator, max(at, at + self._stop - self.begin - size))
        return last + size

    def _take(self, end: int, complete: bool) -> Block:
        block = Block(self._held[self._at : end], self.begin, complete)
        self.begin += end - self._at
        self._at = end
        return block


def separated(
    source: Input,
    start: Position,
    stop: int | None,
    *,
    growing: bool,
    codec: str,
    most: int,
    encoding: str | None = None,
    separator: bytes = NEWLINE,
    ends: Ends | None = None,
    is_text: bool = True,
) -> tuple[Separated, int]:
    """The records of a file from a position on, and how many of them to skip to get there. With
    `encoding`, text is converted to UTF-8; `ends` finds the ends of records, if not every separator
    ends one."""
    make = partial(Separated, most=most, separator=separator, ends=ends)
    is_stream = codec != "none" or encoding is not None
    if is_stream:
        source.seek(0)
        stream = decompressing(codec, source)
        if encoding is not None:
            stream = Transcoded(stream, encoding)
        growing = growing and codec == "none"
        return make(stream, 0, None, growing=growing), start.record
    begin = start.byte or 0
    if not begin and is_text:
        refuse_binary(source)
    is_range = begin > 0 and start.record == 0
    if is_range:
        begin = max(0, begin - len(separator))
    source.seek(begin)
    lines = make(source, begin, stop, growing=growing)
    if is_range:
        lines.skip_partial()
    return lines, start.record if start.byte is None else 0


_BINARY: Final = {
    b"\x1f\x8b": "compressed with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"\x82SNAPPY\0": "compressed with snappy",
    b"\xff\x06\0\0sNaPpY": "compressed with snappy",
    b"PAR1\x15": "a Parquet file",
    b"Obj\x01": "an Avro file",
}
"""First bytes that no text file has."""


def refuse_binary(source: Input) -> None:
    """Raises NotThisFormat if the first bytes of the file are those of another format."""
    source.seek(0)
    head = source.read(max(map(len, _BINARY)))
    for magic, description in _BINARY.items():
        if head.startswith(magic):
            raise NotThisFormat(f"The file is {description}, not text")


class LineDecoder(Decoder, Generic[L]):
    """Reads a file in which each record is a line. With `in_bytes`, positions have bytes."""

    def __init__(self, lines: Separated, skip: int, start: Position, in_bytes: bool) -> None:
        self._lines = lines
        self._skip = skip
        self._record = start.record - skip
        self._in_bytes = in_bytes
        known = lines.begin == 0 or lines.skipped
        self._line: int | None = lines.skipped if known else None
        """The number of previous lines, if known."""
        self._broken: DataError | None = None

    def read(self, max_bytes: int) -> Chunk | None:
        while self._broken is None:
            block = self._lines.block(max_bytes)
            if block is None:
                return None
            chunk = self._chunk(block)
            if chunk is not None:
                return chunk
        raise self._broken

    def close(self) -> None:
        return None

    def _chunk(self, block: Block) -> Chunk | None:
        """The records of a block; None if there are none. If the last line of the file is cut off
        after other records, the next `read` raises the error."""
        data = block.data
        has_bom = self.is_text and block.begin == 0 and data.startswith(BOM)
        line_ends = self.find(data)
        if not (len(line_ends) and line_ends[-1] == len(data)):
            line_ends = np.append(line_ends, len(data))
        previous = self._line
        if previous is not None:
            self._line = previous + data.count(NEWLINE)
        blank = self._blank(data, line_ends, has_bom) if self.blanks else []
        size = len(BOM) if has_bom else 0
        lines = self.split(data[size:], line_ends - size)
        numbers = np.arange(len(line_ends))
        if blank:
            numbers = np.delete(numbers, blank)
            lines = [lines[at] for at in numbers]
        if self._skip:
            skipped = min(self._skip, len(lines))
            self._skip -= skipped
            self._record += skipped
            lines, numbers = lines[skipped:], numbers[skipped:]
        if not lines:
            return None
        failed: Failed = {}
        values = self.values(lines, failed)
        last = len(lines) - 1
        if not block.complete and last in failed and self.shows_its_end:
            error = Truncated(f"The file ends in the middle of a record: {failed.pop(last)}")
            if not last:
                raise error
            self._broken = error
            values = values.only(range(last))
            numbers = numbers[:last]
        for row, fault in failed.items():
            number = int(numbers[row])
            begin = block.begin + (int(line_ends[number - 1]) if number else 0)
            place = f"The line at byte {begin}"
            if previous is not None:
                place = f"Line {previous + data.count(NEWLINE, 0, begin - block.begin) + 1}"
            failed[row] = DataError(f"{place}: {fault}")
        self._record += len(values)
        if not self._in_bytes:
            return Chunk(values, None, Position(self._record, None), failed)
        ends: list[int] = (line_ends[numbers] + block.begin).tolist()
        return Chunk(values, ends, Position(self._record, ends[-1]), failed)

    def _blank(self, data: bytes, line_ends: Any, has_bom: bool) -> list[int]:
        """The numbers of blank lines in a block."""
        starts = np.concatenate(([0], line_ends[:-1]))
        candidates = np.flatnonzero(np.frombuffer(data, np.uint8)[starts] <= _SPACE).tolist()
        blank = [at for at in candidates if not data[starts[at] : line_ends[at]].strip(self.blanks)]
        if has_bom and not data[len(BOM) : line_ends[0]].strip(self.blanks):
            blank.append(0)
        return blank

    blanks: ClassVar[bytes] = b""
    """Lines of only these characters are not records."""
    is_text: ClassVar[bool] = True
    """Whether to drop a byte order mark at the beginning."""
    shows_its_end: ClassVar[bool] = False
    """Whether a cut-off record fails to decode."""

    def find(self, data: bytes) -> Any:
        """The ends of the records of a block, as an array."""
        return np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1

    def split(self, data: bytes, ends: Any) -> list[L]:
        """The records of a block, without separators."""
        lines = data.split(NEWLINE)
        del lines[len(ends) :]
        return lines  # type: ignore[return-value]  # subclasses with other types override this

    @abstractmethod
    def values(self, lines: list[L], failed: Failed) -> Column:
        """The values of lines; invalid ones are entries of `failed`."""


class TextReading(Reading):
    """Each line as a string."""

    def __init__(self, codec: str = "none", *, encoding: str = "utf-8", most: int = MOST) -> None:
        self._codec = codec
        self._most = most
        self._encoding = codecs.lookup(encoding).name
        self._transcoded = has_other_newlines(self._encoding)
        self.splittable = codec == "none" and not self._transcoded

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        lines, skip = separated(
            source,
            start,
            stop,
            growing=growing,
            codec=self._codec,
            most=self._most,
            encoding=self._encoding if self._transcoded else None,
        )
        encoding = "utf-8" if self._transcoded else self._encoding
        return _TextDecoder(lines, skip, start, self.splittable, encoding)


class _TextDecoder(LineDecoder[str | bytes]):
    def __init__(
        self, lines: Separated, skip: int, start: Position, in_bytes: bool, encoding: str
    ) -> None:
        super().__init__(lines, skip, start, in_bytes)
        self._encoding = encoding

    def split(self, data: bytes, ends: Any) -> list[str | bytes]:
        try:
            texts: list[str | bytes] = [*data.decode(self._encoding).split("\n")]
        except UnicodeDecodeError:
            texts = [*data.split(NEWLINE)]
        del texts[len(ends) :]
        return texts

    def values(self, lines: list[str | bytes], failed: Failed) -> Column:
        texts: list[Value] = [*lines]
        if not isinstance(lines[0], str):
            for row, line in enumerate(lines):
                try:
                    texts[row] = str(line, self._encoding)  # type: ignore[arg-type]  # bytes all
                except UnicodeDecodeError as error:
                    failed[row] = DataError(f"it is not text in {self._encoding}: {error}")
                    texts[row] = None
        if any("\r" in text for text in texts if text is not None):
            texts = [None if text is None else text.removesuffix("\r") for text in texts]
        schema = OPTIONAL_STRING if failed else STRING
        return Column.of(texts, schema)


_STATEFUL: Final = ("utf-7", "utf_7", "iso2022", "hz", "utf-16", "utf-32", "utf_16", "utf_32")


def has_other_newlines(encoding: str) -> bool:
    """Whether lines cannot be found in the bytes: a newline is not a single byte, or depends on
    previous bytes. Raises LookupError for an unknown encoding."""
    name = codecs.lookup(encoding).name
    return name.startswith(_STATEFUL) or "\n".encode(name) != NEWLINE
