"""Reads raw bytes: whole files, pieces between separators, slices of a fixed size."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from penstock.api import Column, Failed
from penstock.api.schema import BYTES, Value
from penstock.connectors.files.formats.codecs_read import PIECE, DecompressedStream, decompressing
from penstock.connectors.files.formats.decoder import (
    Chunk,
    Decoder,
    Input,
    Position,
    Reading,
    TooLarge,
)
from penstock.connectors.files.formats.lines_read import MOST, LineDecoder, Separated, separated


class WholeReading(Reading):
    """Each file as one record."""

    def __init__(self, codec: str = "none", *, most: int = MOST) -> None:
        self._codec = codec
        self._most = most

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        if self._codec == "none" and source.size > self._most:
            raise TooLarge(self._most)
        source.seek(0)
        stream = decompressing(self._codec, source)
        return _SliceDecoder(stream, start.record, None, self._most, Position(), growing=False)


class SliceReading(Reading):
    """Slices of `size` bytes; the last one of a file may be shorter."""

    def __init__(self, codec: str = "none", *, size: int) -> None:
        self._codec = codec
        self._size = size
        self.splittable = codec == "none"

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        size = self._size
        if self._codec != "none" or start.byte is None:
            source.seek(0)
            stream = decompressing(self._codec, source)
            at = Position(0, None if self._codec != "none" else 0)
            return _SliceDecoder(stream, start.record, size, size, at, growing=growing)
        begin = start.byte
        if start.record == 0:
            begin = -(-begin // size) * size
        source.seek(begin)
        at = Position(start.record, begin)
        return _SliceDecoder(source, 0, size, size, at, stop=stop, growing=growing)


class _SliceDecoder(Decoder):
    """Slices; without a size, the whole file."""

    def __init__(
        self,
        stream: DecompressedStream,
        skip: int,
        size: int | None,
        most: int,
        start: Position,
        *,
        stop: int | None = None,
        growing: bool,
    ) -> None:
        self._stream = stream
        self._skip = skip
        self._size = size
        self._most = most
        self._after = start
        self._stop = stop
        self._growing = growing
        self._held = b""

    def read(self, max_bytes: int) -> Chunk | None:
        values: list[Value] = []
        ends: list[int] = []
        total = 0
        while total < max_bytes or not values:
            piece = self._next()
            if piece is None:
                break
            byte = self._after.byte
            after = None if byte is None else byte + len(piece)
            self._after = Position(self._after.record + 1, after)
            if self._skip:
                self._skip -= 1
                continue
            values.append(piece)
            total += len(piece)
            if after is not None:
                ends.append(after)
        if not values:
            return None
        without_bytes = self._size is None or self._after.byte is None
        position = Position(self._after.record, None) if without_bytes else self._after
        return Chunk(Column.of(values, BYTES), None if without_bytes else ends, position)

    def close(self) -> None:
        return None

    def _next(self) -> bytes | None:
        size = self._size
        if size is None:
            return self._all() if self._after.record == 0 else None
        byte = self._after.byte
        if self._stop is not None and byte is not None and byte >= self._stop:
            return None
        if len(self._held) < size:
            pieces = [self._held]
            held = len(self._held)
            while held < size and (data := self._stream.read(max(PIECE, size - held))):
                pieces.append(data)
                held += len(data)
            self._held = b"".join(pieces)
        if not self._held or (self._growing and len(self._held) < size):
            return None
        piece, self._held = self._held[:size], self._held[size:]
        return piece

    def _all(self) -> bytes:
        pieces: list[bytes] = []
        held = 0
        while data := self._stream.read(PIECE):
            pieces.append(data)
            held += len(data)
            if held > self._most:
                raise TooLarge(self._most)
        return b"".join(pieces)


class PiecesReading(Reading):
    """Bytes up to a separator; the last one of a file may have none."""

    def __init__(self, codec: str = "none", *, separator: bytes = b"\n", most: int = MOST) -> None:
        self._codec = codec
        self._separator = separator
        self._most = most
        # Which "aa" is found in "aaa" depends on where the search begins.
        overlaps = any(separator.startswith(separator[at:]) for at in range(1, len(separator)))
        self.splittable = codec == "none" and not overlaps

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
            separator=self._separator,
            is_text=False,
        )
        return _PiecesDecoder(lines, skip, start, self._codec == "none", self._separator)


class _PiecesDecoder(LineDecoder[bytes]):
    is_text = False

    def __init__(
        self, lines: Separated, skip: int, start: Position, in_bytes: bool, separator: bytes
    ) -> None:
        super().__init__(lines, skip, start, in_bytes)
        self._separator = separator
        self._pattern = re.compile(re.escape(separator))

    def find(self, data: bytes) -> Any:
        if len(self._separator) == 1:
            return np.flatnonzero(np.frombuffer(data, np.uint8) == self._separator[0]) + 1
        return np.array([match.end() for match in self._pattern.finditer(data)], np.int64)

    def split(self, data: bytes, ends: Any) -> list[bytes]:
        pieces = data.split(self._separator)
        del pieces[len(ends) :]
        return pieces

    def values(self, lines: list[bytes], failed: Failed) -> Column:
        return Column.of([*lines], BYTES)
