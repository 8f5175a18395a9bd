"""Compression: of whole files, and of the blocks of Avro files."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import pyarrow as pa

from penstock.connectors.files.formats.format import Data, Out


class Stream(Protocol):
    """Compresses the bytes of a file on their way out."""

    def write(self, data: Data, /) -> int: ...

    def finish(self) -> None:
        """Writes what is left. The file behind stays open."""


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
    """By Arrow, which knows one level: Python has none yet."""

    def __init__(self, out: Out) -> None:
        self._stream = pa.CompressedOutputStream(pa.PythonFile(Handle(out), "w"), "zstd")

    def write(self, data: Data) -> int:
        self._stream.write(data)
        return len(data)

    def finish(self) -> None:
        self._stream.close()


class Handle:
    """What Arrow takes for a file that is open for writing."""

    closed = False

    def __init__(self, out: Out) -> None:
        self.write = out.write

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None


FILE_CODECS: Final[Mapping[str, str]] = {"none": "", "gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}
"""Codecs of whole files, and what they add to a file's name."""


def compressing(codec: str, level: int | None, out: Out) -> Stream:
    """What compresses a file; `level` None is the codec's own."""
    if codec == "gzip":
        # Without a time, so that the same records make the same file.
        chosen = zlib.Z_DEFAULT_COMPRESSION if level is None else level
        return _Compressed(out, zlib.compressobj(chosen, wbits=31))
    if codec == "bzip2":
        return _Compressed(out, bz2.BZ2Compressor(9 if level is None else level))
    if codec == "zstd":
        return _Zstd(out)
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
"""Codecs of Avro's blocks, by the names that its files have for them."""
