"""Files of lines, read: where the lines are, and text."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np

from penstock.api import Column, DataError, Failed
from penstock.api.schema import OPTIONAL_STRING, STRING, Value
from penstock.connectors.files.formats.codecs_read import PIECE, Stream, Transcoded, decompressing
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
"""The largest size of a record in bytes, if settings say nothing else."""

_NEWLINE: Final = 10
_SPACE: Final = 32

L = TypeVar("L")

Ends = Callable[[bytes], Any]
"""Takes bytes that begin with a record; returns where complete ones end, as an array."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records of a file, each with its separator."""

    data: bytes
    begin: int
    """The place of the first byte, in the file as it is decompressed."""
    complete: bool
    """Whether the last record has its separator."""


class Separated:
    """A file in blocks of whole records. `most` is the largest size of a record in bytes."""

    def __init__(
        self,
        stream: Stream,
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

    def skip_partial(self) -> None:
        """Goes behind the next separator, where the first record of a range begins."""
        while True:
            at = self._held.find(self._separator)
            if at >= 0:
                self._at = at + len(self._separator)
                self.begin += self._at
                return
            rest = self._held[max(0, len(self._held) - len(self._separator) + 1) :]
            more = self._stream.read(PIECE)
            if not more:
                self.begin += len(self._held)
                self._held = b""
                return
            self.begin += len(self._held) - len(rest)
            self._held = rest + more

    def block(self, max_bytes: int) -> Block | None:
        """About so many bytes of records, at least one; None at the end, or if there is none now.
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
                return self._taken(len(self._held), False)
            searched = max(0, held - len(self._separator) + 1)
            self._held = self._held[self._at :] + more
            self._at = 0
        return self._taken(end, True)

    def _end(self, max_bytes: int, searched: int) -> int:
        """The end of the last record in so many bytes, or of the first one if it is larger; -1
        if it has not been read yet."""
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

    def _taken(self, end: int, complete: bool) -> Block:
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
    """The records of a file, from a position on, and how many of them have to be skipped to get
    there. With `encoding`, text is read as UTF-8; `ends` finds the ends of records, where these are
    not all separators."""
    made = partial(Separated, most=most, separator=separator, ends=ends)
    streamed = codec != "none" or encoding is not None
    if streamed:
        source.seek(0)
        stream = decompressing(codec, source)
        if encoding is not None:
            stream = Transcoded(stream, encoding)
        growing = growing and codec == "none"
        return made(stream, 0, None, growing=growing), start.record
    begin = start.byte or 0
    if not begin and is_text:
        refuse_binary(source)
    inside = begin > 0 and start.record == 0
    if inside:
        begin = max(0, begin - len(separator))
    source.seek(begin)
    lines = made(source, begin, stop, growing=growing)
    if inside:
        lines.skip_partial()
    return lines, start.record if start.byte is None else 0


_BINARY: Final = {
    b"\x1f\x8b": "compressed with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"\x82SNAPPY\0": "compressed with snappy",
    b"\xff\x06\0\0sNaPpY": "compressed with snappy",
    b"PAR1\x15": "of Parquet",
    b"Obj\x01": "of Avro",
}
"""What no text begins with."""


def refuse_binary(source: Input) -> None:
    """Raises NotThisFormat for a file that is of another format by its first bytes."""
    source.seek(0)
    head = source.read(max(map(len, _BINARY)))
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise NotThisFormat(f"The file is {what}, and not text")


class LineDecoder(Decoder, Generic[L]):
    """Reads a file in which each record is a line. With `in_bytes` it tells places in bytes."""

    def __init__(self, lines: Separated, skip: int, start: Position, in_bytes: bool) -> None:
        self._lines = lines
        self._skip = skip
        self._record = start.record - skip
        self._in_bytes = in_bytes
        self._line: int | None = 0 if lines.begin == 0 else None
        """How many lines are before, if that is known."""
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
        """The records of a block; None if there are none. If the last line of the file was cut off,
        the next `read` tells, where records are before it."""
        data = block.data
        marked = self.is_text and block.begin == 0 and data.startswith(BOM)
        found = self.find(data)
        if not block.complete and not (len(found) and found[-1] == len(data)):
            found = np.append(found, len(data))
        before = self._line
        if before is not None:
            self._line = before + data.count(NEWLINE)
        blank = self._blank(data, found, marked) if self.blanks else []
        size = len(BOM) if marked else 0
        lines = self.split(data[size:], found - size)
        numbers = np.arange(len(found))
        if blank:
            numbers = np.delete(numbers, blank)
            lines = [lines[at] for at in numbers]
        if self._skip:
            left_out = min(self._skip, len(lines))
            self._skip -= left_out
            self._record += left_out
            lines, numbers = lines[left_out:], numbers[left_out:]
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
            begin = block.begin + (int(found[number - 1]) if number else 0)
            place = f"The line at byte {begin}"
            if before is not None:
                place = f"Line {before + data.count(NEWLINE, 0, begin - block.begin) + 1}"
            failed[row] = DataError(f"{place}: {fault}")
        self._record += len(values)
        if not self._in_bytes:
            return Chunk(values, None, Position(self._record, None), failed)
        ends: list[int] = (found[numbers] + block.begin).tolist()
        return Chunk(values, ends, Position(self._record, ends[-1]), failed)

    def _blank(self, data: bytes, found: Any, marked: bool) -> list[int]:
        """Lines of nothing but blanks, by their numbers in a block."""
        starts = np.concatenate(([0], found[:-1]))
        few = np.flatnonzero(np.frombuffer(data, np.uint8)[starts] <= _SPACE).tolist()
        blank = [at for at in few if not data[starts[at] : found[at]].strip(self.blanks)]
        if marked and not data[len(BOM) : found[0]].strip(self.blanks):
            blank.append(0)
        return blank

    blanks: ClassVar[bytes] = b""
    """Lines of nothing but these are no records."""
    is_text: ClassVar[bool] = True
    """Whether a byte order mark at the beginning is none of a record."""
    shows_its_end: ClassVar[bool] = False
    """Whether a record that was cut off cannot be decoded."""

    def find(self, data: bytes) -> Any:
        """Where the records of a block end, as an array."""
        return np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1

    def split(self, data: bytes, ends: Any) -> list[L]:
        """The records of a block, without what ends them."""
        lines = data.split(NEWLINE)
        del lines[len(ends) :]
        return lines  # type: ignore[return-value]  # who has other ones says how

    @abstractmethod
    def values(self, lines: list[L], failed: Failed) -> Column:
        """The values of lines; those that are none are entries of `failed`."""


class TextReading(Reading):
    """Each line as a text."""

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
                    failed[row] = DataError(f"it is no text in {self._encoding}: {error}")
                    texts[row] = None
        if any("\r" in text for text in texts if text is not None):
            texts = [None if text is None else text.removesuffix("\r") for text in texts]
        schema = OPTIONAL_STRING if failed else STRING
        return Column.of(texts, schema)


_STATEFUL: Final = ("utf-7", "utf_7", "iso2022", "hz", "utf-16", "utf-32", "utf_16", "utf_32")


def has_other_newlines(encoding: str) -> bool:
    """Whether lines cannot be found in its bytes: a newline is not one byte, or depends on what is
    before. Raises LookupError for an encoding that there is not."""
    name = codecs.lookup(encoding).name
    return name.startswith(_STATEFUL) or "\n".encode(name) != NEWLINE
