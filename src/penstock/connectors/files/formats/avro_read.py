"""Reads Avro files: the header, then block by block.

The functions of the converter decode records (`penstock.api.avro`), so that files and messages of a
schema have the same values. They are about as fast as fastavro, without converting its results.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from penstock.api import Column, DataError, Failed
from penstock.api.avro import AvroData, reads
from penstock.api.schema import Value
from penstock.connectors.files.formats.codecs_read import AVRO_DECODERS, PIECE
from penstock.connectors.files.formats.decoder import (
    Chunk,
    Decoder,
    Input,
    NotThisFormat,
    Position,
    Reading,
    Truncated,
)

_MAGIC: Final = b"Obj\x01"
_SYNC_SIZE: Final = 16
_MAX_META: Final = 1 << 26


class AvroReading(Reading):
    """Avro object container files."""

    splittable = True

    def open(
        self, source: Input, start: Position, stop: int | None = None, *, growing: bool = False
    ) -> Decoder:
        return _AvroDecoder(source, start, stop, growing)


class _Buffered:
    """Reads an input in large pieces."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._held = b""
        self._at = 0
        self._begin = 0
        """The position of `_held`."""

    def tell(self) -> int:
        return self._begin + self._at

    def seek(self, position: int) -> None:
        inside = position - self._begin
        if 0 <= inside <= len(self._held):
            self._at = inside
            return
        self._source.seek(position)
        self._held, self._at, self._begin = b"", 0, position

    def forget(self) -> None:
        """Discards the buffer, to read bytes that were appended."""
        position = self.tell()
        self._source.seek(position)
        self._held, self._at, self._begin = b"", 0, position

    def fill(self, size: int) -> int:
        """Buffers the next `size` bytes, if available. Returns how many are buffered."""
        available = len(self._held) - self._at
        if available >= size:
            return available
        pieces = [self._held[self._at :]]
        while available < size:
            data = self._source.read(max(PIECE, size - available))
            if not data:
                break
            pieces.append(data)
            available += len(data)
        self._begin += self._at
        self._held, self._at = b"".join(pieces), 0
        return available

    def exactly(self, size: int) -> bytes:
        if self.fill(size) < size:
            raise Truncated("The file ends in the middle of a block")
        data = self._held[self._at : self._at + size]
        self._at += size
        return data

    def find(self, piece: bytes) -> bool:
        """Moves past the next occurrence; returns whether there is one."""
        while True:
            at = self._held.find(piece, self._at)
            if at >= 0:
                self._at = at + len(piece)
                return True
            self._at = max(self._at, len(self._held) - len(piece) + 1)
            available = len(self._held) - self._at
            if self.fill(available + 1) <= available:
                return False

    def long(self) -> int:
        """An Avro long. Raises Truncated."""
        number = shift = 0
        while True:
            byte = self.exactly(1)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                return (number >> 1) ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise Truncated("The file is damaged: a number does not end")


class _AvroDecoder(Decoder):
    def __init__(self, source: Input, start: Position, stop: int | None, growing: bool) -> None:
        self._source = source
        self._input = _Buffered(source)
        self._start = start
        self._stop = stop
        self._growing = growing
        self._record = 0
        self._skip = start.record
        self._data: AvroData | None = None
        self._text = ""
        self._sync = b""
        self._decompress: Callable[[bytes], bytes] = bytes
        self._block = b""
        self._at = 0
        self._remaining = 0  # records in the block
        self._ended = False
        self._broken: DataError | None = None

    def close(self) -> None:
        return None

    def read(self, max_bytes: int) -> Chunk | None:
        if self._broken is not None:
            raise self._broken
        if self._data is None and not self._begin():
            return None
        assert self._data is not None, "it has begun"
        values: list[Value] = []
        failed: Failed = {}
        size = 0
        try:
            while size < max_bytes or not values:
                if not self._remaining and not self._next_block():
                    break
                size += self._decode(max_bytes - size, values, failed)
        except DataError as error:
            if not values:
                raise
            self._broken = error
        if not values:
            return None
        byte = self._start.byte or None
        column = Column.of(values, self._data.schema)
        return Chunk(column, None, Position(self._record, byte), failed)

    def _may_grow(self, position: int) -> bool:
        """Whether the missing bytes may be appended later."""
        if self._growing:
            self._input.seek(position)
            self._input.forget()
        return self._growing

    def _begin(self) -> bool:
        """Reads the header; False if it is not complete yet."""
        try:
            self._read_header()
        except NotThisFormat:
            raise
        except Truncated:
            if self._may_grow(0):
                return False
            raise
        byte = self._start.byte or 0
        if byte > self._input.tell():
            self._input.seek(byte - _SYNC_SIZE)
            self._ended = not self._input.find(self._sync)
        return True

    def _read_header(self) -> None:
        source = self._input
        source.seek(0)
        head = source.exactly(min(len(_MAGIC), source.fill(len(_MAGIC))))
        if not _MAGIC.startswith(head):
            raise NotThisFormat("The file is not an Avro file: it does not begin with 'Obj'")
        if head != _MAGIC:
            raise Truncated("The file ends in its header")
        meta: dict[str, bytes] = {}
        while count := source.long():
            if count < 0:
                source.long()  # bytes
            for _ in range(abs(count)):
                name = self._sized().decode("utf-8", "replace")
                meta[name] = self._sized()
        self._sync = source.exactly(_SYNC_SIZE)
        codec = meta.get("avro.codec", b"null").decode("utf-8", "replace")
        if codec not in AVRO_DECODERS:
            raise DataError(f"Avro files with the codec '{codec}' cannot be read")
        self._decompress = AVRO_DECODERS[codec]
        self._text = meta.get("avro.schema", b"").decode("utf-8", "replace")
        try:
            self._data = _reads(self._text)
        except DataError as error:
            raise DataError(f"The schema of the Avro file cannot be read: {error}") from error

    def _sized(self) -> bytes:
        size = self._input.long()
        if not 0 <= size <= _MAX_META:
            raise Truncated("The file is damaged: a size in its header is invalid")
        return self._input.exactly(size)

    def _next_block(self) -> bool:
        """Reads a block; False at the end, or if none is available."""
        source = self._input
        while not self._ended:
            position = source.tell()
            if self._stop is not None and position >= self._stop:
                self._ended = True
                break
            if not source.fill(1):
                return False
            try:
                count, size = source.long(), source.long()
                if count < 0 or size < 0:
                    raise Truncated("The file is damaged: the size of a block is invalid")
                if not self._growing and source.tell() + size + _SYNC_SIZE > self._source.size:
                    raise Truncated("The file ends in the middle of a block")
                if 0 < count <= self._skip:
                    source.seek(source.tell() + size)
                    data = b""
                else:
                    data = source.exactly(size)
                if source.exactly(_SYNC_SIZE) != self._sync:
                    raise Truncated("The file is damaged: a block does not end where it should")
            except Truncated:
                if self._may_grow(position):
                    return False
                raise
            if count <= self._skip:
                self._skip -= count
                self._record += count
                continue
            try:
                self._block = self._decompress(data)
            except DataError:
                raise
            except Exception as error:
                raise Truncated(f"A compressed block is damaged: {error}") from error
            self._at = 0
            self._remaining = count
            return True
        return False

    def _decode(self, max_bytes: int, values: list[Value], failed: Failed) -> int:
        """Appends records of the block; returns their size in bytes."""
        assert self._data is not None, "it has begun"
        block, begin, remaining = self._block, self._at, self._remaining
        count = remaining
        if len(block) - begin > max_bytes:
            count = max(1, remaining * max_bytes // (len(block) - begin))
        count = max(count, min(remaining, self._skip + 1))
        decoded: list[Value] = []
        add, decode = decoded.append, self._data.decode
        at = begin
        try:
            for _ in range(count):
                value, at = decode(block, at)
                add(value)
        except Exception as error:
            at = self._decode_rest(error, at, count, decoded, len(values) - self._skip, failed)
        if at > len(block) or (count == remaining and at != len(block)):
            raise Truncated("The file is damaged: a block does not match its record count")
        self._at = at
        self._remaining -= count
        self._record += count
        if self._skip:
            del decoded[: self._skip]
            self._skip = 0
        values += decoded
        return at - begin

    def _decode_rest(
        self, error: Exception, at: int, count: int, decoded: list[Value], row: int, failed: Failed
    ) -> int:
        """Decodes the rest of `count` records after one raised `error`. If only its value is
        invalid, only that row fails."""
        assert self._data is not None, "it has begun"
        if not isinstance(error, DataError):
            raise Truncated(f"The file is damaged: a record cannot be decoded: {error}") from error
        plain = _reads(json.dumps(_without_logical_types(json.loads(self._text))))
        while len(decoded) < count:
            try:
                value, after = self._data.decode(self._block, at)
            except DataError as fault:
                number = self._record + len(decoded) + 1
                failed[row + len(decoded)] = DataError(f"Record {number}: {fault}")
                value = None
                try:
                    after = plain.decode(self._block, at)[1]
                except Exception as cause:
                    raise Truncated(f"The file is damaged: {cause}") from cause
            except Exception as cause:
                raise Truncated(f"The file is damaged: {cause}") from cause
            decoded.append(value)
            at = after
        for skipped in [index for index in failed if index < 0]:
            del failed[skipped]
        return at


_reads: Final = lru_cache(maxsize=256)(reads)


def _without_logical_types(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_logical_types(member) for member in node]
    if not isinstance(node, dict):
        return node
    return {
        name: [{**field, "type": _without_logical_types(field["type"])} for field in member]
        if name == "fields"
        else _without_logical_types(member)
        if name in ("type", "items", "values")
        else member
        for name, member in node.items()
        if not name.startswith("connect.") and name not in ("logicalType", "default")
    }
