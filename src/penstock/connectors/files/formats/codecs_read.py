"""Decompression: of whole files, and of the blocks of Avro files.

Files may have several consecutive members or frames. A file that ends within one raises Truncated
after the data before it was read; one that begins unlike its codec raises NotThisFormat.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from penstock.api import DataError
from penstock.connectors.files.formats.codecs import FILE_CODECS
from penstock.connectors.files.formats.decoder import Input, NotThisFormat, Truncated

PIECE: Final = 1 << 16
"""The minimum number of bytes that are read at once."""

_LARGEST_BLOCK: Final = 1 << 28
_ENDS_EARLY: Final = "The file ends in the middle of compressed data"


class DecompressedStream(Protocol):
    """The decompressed bytes of a file."""

    def read(self, n: int, /) -> bytes:
        """At least one byte, about `n` at most; b"" at the end."""


def codec_of(name: str) -> str:
    """The codec of a file, by the suffix of its name.

    >>> codec_of("topics/a/a+0+0.json.gz"), codec_of("a.json")
    ('gzip', 'none')
    """
    lower = name.lower()
    suffixes = {**FILE_CODECS, "none": "/", "framed": ".sz"}
    codec = next((codec for codec, suffix in suffixes.items() if lower.endswith(suffix)), "none")
    return "snappy" if codec == "framed" else codec


def decompressing(codec: str, source: Input) -> DecompressedStream:
    """The content of a file; `source` must be at its beginning."""
    match codec:
        case "gzip":
            return _Members(source, _Gzip, b"\x1f\x8b")
        case "bzip2":
            return _Members(source, bz2.BZ2Decompressor, b"BZh")
        case "zstd":
            return _Zstd(source)
        case "snappy":
            return _Blocks(source)
    return source


def _require_magic(source: Input, magic: bytes) -> None:
    """Raises NotThisFormat for a file that does not begin with these bytes, unless it ends within
    them."""
    head = source.read(len(magic))
    source.seek(0)
    if not magic.startswith(head):
        raise NotThisFormat("The file is not compressed as its name or the setting specifies")


class _Gzip:
    """A member of a gzip file, with the interface of `bz2`."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(wbits=31)
        self._rest = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._decompressor.decompress(self._rest + data, max_length)
        self._rest = self._decompressor.unconsumed_tail
        return out

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def needs_input(self) -> bool:
        return not self._rest

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data


class _Members:
    """Decompresses consecutive members. Zeros between and after them are padding."""

    def __init__(self, source: Input, member: Callable[[], Any], magic: bytes) -> None:
        _require_magic(source, magic)
        self._source = source
        self._make = member
        self._member: Any = None
        self._data = b""

    def read(self, n: int) -> bytes:
        while True:
            if not self._data and (self._member is None or self._member.needs_input):
                self._data = self._source.read(PIECE)
                ended = not self._data
            else:
                ended = False
            if self._member is None:
                self._data = self._data.lstrip(b"\0")
                if ended:
                    return b""
                if not self._data:
                    continue
                self._member = self._make()
            member = self._member
            try:
                out: bytes = member.decompress(self._data, n)
            except (zlib.error, OSError, EOFError) as error:
                raise Truncated(f"The compressed data is damaged: {error}") from error
            self._data = b""
            if member.eof:
                self._data = member.unused_data
                self._member = None
            if out:
                return out
            if ended and not member.eof:
                raise Truncated(_ENDS_EARLY)


class Held:
    """A file-like object that Arrow can read from; closing it has no effect."""

    closed = False
    fault: Exception | None = None
    """The error that the input raised: Arrow reports it as a damaged file."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self.tell = source.tell
        self._seek = source.seek
        self._size = source.size

    def size(self) -> int:
        return self._size

    def read(self, n: int = -1) -> bytes:
        """Exactly `n` bytes, unless the file ends: to Arrow, fewer mean the end."""
        remaining = n if n >= 0 else max(0, self._size - self.tell())
        data = self._read(remaining) if remaining else b""
        if len(data) == remaining or not data:
            return data
        pieces = [data]
        remaining -= len(data)
        while remaining and (data := self._read(remaining)):
            pieces.append(data)
            remaining -= len(data)
        return b"".join(pieces)

    def _read(self, n: int) -> bytes:
        try:
            return self._source.read(n)
        except Exception as error:
            self.fault = error
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = 0) -> int:
        at = position + (0, self.tell(), self._size)[whence]
        self._seek(at)
        return at

    def close(self) -> None:
        return None

    flush = close


class _Zstd:
    """Uses Arrow: Python has no zstd yet."""

    def __init__(self, source: Input) -> None:
        _require_magic(source, b"\x28\xb5\x2f\xfd")
        self._held = Held(source)
        self._decompressor = pa.CompressedInputStream(pa.PythonFile(self._held, "r"), "zstd")

    def read(self, n: int) -> bytes:
        try:
            data: bytes = self._decompressor.read(n)
        except (pa.ArrowException, OSError) as error:
            if self._held.fault is not None:
                raise self._held.fault from None
            raise Truncated(f"The compressed data is damaged: {error}") from error
        return data


class _Blocks:
    """Snappy, in its three framings: Hadoop's (`.snappy`, as Spark writes it), snappy's own (`.sz`;
    its checksums are not verified), and that of snappy-java."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self._blocks = self._begin()

    def read(self, n: int) -> bytes:
        return next(self._blocks, b"")

    def _begin(self) -> Iterator[bytes]:
        head = self._exactly_or_none(4)
        if not head:
            return iter(())
        if head == _FRAMED[:4]:
            return self._framed(head)
        if head == _XERIAL[:4]:
            return self._xerial(head)
        return self._hadoop(head)

    def _hadoop(self, head: bytes) -> Iterator[bytes]:
        began = False
        while head:
            remaining = self._number(head, began)
            while remaining:
                piece = self._piece(self._number(self._exactly(4), began), began)
                if len(piece) > remaining:
                    raise NotThisFormat("The file is not compressed with snappy")
                remaining -= len(piece)
                began = True
                if piece:
                    yield piece
            head = self._exactly_or_none(4)

    def _xerial(self, head: bytes) -> Iterator[bytes]:
        while head:
            if head == _XERIAL[:4]:
                if self._exactly(4) != _XERIAL[4:]:
                    raise NotThisFormat("The file is not compressed with snappy")
                self._exactly(8)  # versions
            else:
                piece = self._piece(self._number(head, True), True)
                if piece:
                    yield piece
            head = self._exactly_or_none(4)

    def _framed(self, head: bytes) -> Iterator[bytes]:
        while head:
            kind, size = head[0], int.from_bytes(head[1:], "little")
            data = self._exactly(size)
            if kind == 0:
                yield _unsnap(data[4:])
            elif kind == 1:
                yield data[4:]
            elif kind < 0x80:
                raise Truncated(f"A snappy chunk has the unknown type {kind}")
            elif kind == 0xFF and data != _FRAMED[4:]:
                raise NotThisFormat("The file is not compressed with snappy")
            head = self._exactly_or_none(4)

    def _piece(self, size: int, began: bool) -> bytes:
        data = self._exactly(size)
        try:
            return _unsnap(data)
        except DataError as error:
            if began:
                raise
            raise NotThisFormat("The file is not compressed with snappy") from error

    def _number(self, data: bytes, began: bool) -> int:
        number = int.from_bytes(data)
        if number > _LARGEST_BLOCK:
            kind = Truncated if began else NotThisFormat
            raise kind("The file is not compressed with snappy, or damaged")
        return number

    def _exactly_or_none(self, size: int) -> bytes:
        """Exactly `size` bytes, or none at the end."""
        data = self._source.read(size)
        while 0 < len(data) < size:
            more = self._source.read(size - len(data))
            if not more:
                raise Truncated(_ENDS_EARLY)
            data += more
        return data

    def _exactly(self, size: int) -> bytes:
        data = self._exactly_or_none(size) if size else b""
        if len(data) < size:
            raise Truncated(_ENDS_EARLY)
        return data


_FRAMED: Final = b"\xff\x06\x00\x00sNaPpY"
_XERIAL: Final = b"\x82SNAPPY\x00"


def _unsnap(data: bytes) -> bytes:
    """Decompresses a block of snappy, which begins with its size."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if not data or size > _LARGEST_BLOCK:
        raise Truncated("The compressed data is damaged")
    try:
        return pa.decompress(data, size, "snappy", asbytes=True)  # type: ignore[no-any-return]
    except (pa.ArrowException, OSError) as error:
        raise Truncated(f"The compressed data is damaged: {error}") from error


class Transcoded:
    """Converts text of another encoding to UTF-8. Raises DataError for invalid bytes."""

    def __init__(self, stream: DecompressedStream, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def read(self, n: int) -> bytes:
        while True:
            data = self._stream.read(n)
            try:
                text = self._decoder.decode(data, not data)
            except UnicodeDecodeError as error:
                if not data:
                    raise Truncated(
                        f"The file ends in the middle of a character: {error}"
                    ) from error
                raise DataError(f"The file is not text in {self._encoding}: {error}") from error
            if text or not data:
                return text.encode("utf-8", "surrogatepass")


def _inflate(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=-15)
    out = decompressor.decompress(data)
    if not decompressor.eof:
        raise Truncated("A compressed block is damaged")
    return out


def _snappy(data: bytes) -> bytes:
    out = _unsnap(data[:-4])
    if zlib.crc32(out) != int.from_bytes(data[-4:]):
        raise Truncated("A compressed block is damaged: its checksum does not match")
    return out


def _zstandard(data: bytes) -> bytes:
    stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    return stream.read()  # type: ignore[no-any-return]


AVRO_DECODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _inflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}
"""Decoders of Avro blocks, by the names of codecs in Avro files."""
