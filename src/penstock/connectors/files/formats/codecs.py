"""Compression: of whole files, and of the blocks of Avro files."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import pyarrow as pa

from penstock.connectors.files.formats.format import Data, Out


class CompressingStream(Protocol):
    """Compresses the bytes of a file while they are written."""

    def write(self, data: Data, /) -> int: ...

    def finish(self) -> None:
        """Writes the rest. The underlying file stays open."""


class Plain:
    """No compression."""

    def __init__(self, out: Out) -> None:
        self.write = out.write

    def finish(self) -> None:
        return None


class _Compressor(Protocol):
    def compress(self, data: Data, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Compressed:
    def __init__(self, out: Out, compressor: _Compressor) -> None:
        self._out = out
        self._compressor = compressor

    def write(self, data: Data) -> int:
        compressed = self._compressor.compress(data)
        if compressed:
            self._out.write(compressed)
        return len(data)

    def finish(self) -> None:
        self._out.write(self._compressor.flush())


class _Zstd:
    """Uses Arrow, which has a single level: Python has no zstd yet."""

    def __init__(self, out: Out) -> None:
        self._stream = pa.CompressedOutputStream(pa.PythonFile(Handle(out), "w"), "zstd")

    def write(self, data: Data) -> int:
        self._stream.write(data)
        return len(data)

    def finish(self) -> None:
        self._stream.close()


_SNAPPY_BLOCK: Final = 1 << 17  # Hadoop decompresses up to 256 KB at once


class _Snappy:
    """In Hadoop's framing, which Spark reads too: the size of a block, then its compressed size and
    data."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._held = bytearray()

    def write(self, data: Data) -> int:
        self._held += data
        while len(self._held) >= _SNAPPY_BLOCK:
            self._write_block(bytes(self._held[:_SNAPPY_BLOCK]))
            del self._held[:_SNAPPY_BLOCK]
        return len(data)

    def finish(self) -> None:
        if self._held:
            self._write_block(bytes(self._held))

    def _write_block(self, data: bytes) -> None:
        compressed: bytes = pa.compress(data, "snappy", asbytes=True)
        self._out.write(len(data).to_bytes(4) + len(compressed).to_bytes(4) + compressed)


class _Xerial:
    """In the framing of Java's SnappyOutputStream: a header, and blocks of 32 KB with sizes."""

    _HEAD: Final = b"\x82SNAPPY\x00" + (1).to_bytes(4) * 2
    _BLOCK: Final = 32 << 10

    def __init__(self, out: Out) -> None:
        self._out = out
        self._held = bytearray()
        out.write(self._HEAD)

    def write(self, data: Data) -> int:
        self._held += data
        full = len(self._held) - len(self._held) % self._BLOCK
        if full:
            self._write_blocks(bytes(self._held[:full]))
            del self._held[:full]
        return len(data)

    def finish(self) -> None:
        self._write_blocks(bytes(self._held))

    def _write_blocks(self, data: bytes) -> None:
        for start in range(0, len(data), self._BLOCK):
            block = pa.compress(data[start : start + self._BLOCK], "snappy", asbytes=True)
            self._out.write(len(block).to_bytes(4) + block)


class Handle:
    """A file-like object that Arrow can write to."""

    closed = False

    def __init__(self, out: Out) -> None:
        self.write = out.write

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None


FILE_CODECS: Final[Mapping[str, str]] = {
    "none": "",
    "gzip": ".gz",
    "bzip2": ".bz2",
    "zstd": ".zst",
    "snappy": ".snappy",
}
"""Codecs of whole files, and their file name suffixes."""


def compressing(codec: str, level: int | None, out: Out) -> CompressingStream:
    """A stream that compresses a file; `level` None is the default of the codec."""
    if codec == "gzip":
        # Without a timestamp, so that the same records make the same file.
        gzip_level = zlib.Z_DEFAULT_COMPRESSION if level is None else level
        return _Compressed(out, zlib.compressobj(gzip_level, wbits=31))
    if codec == "bzip2":
        return _Compressed(out, bz2.BZ2Compressor(9 if level is None else level))
    if codec == "zstd":
        return _Zstd(out)
    if codec == "snappy":
        return _Snappy(out)
    if codec == "xerial":
        return _Xerial(out)
    return Plain(out)


Compress = Callable[[bytes], bytes]


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


def _snappy(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, "snappy", asbytes=True)
    return compressed + zlib.crc32(data).to_bytes(4)


def _zstandard(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)  # type: ignore[no-any-return]


AVRO_CODECS: Final[Mapping[str, Compress]] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
"""Codecs of Avro blocks, by their names in Avro files."""
