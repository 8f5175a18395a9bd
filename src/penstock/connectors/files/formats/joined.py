"""Files of records that are already bytes: Aiven's CSV, JSON and JSON lines. And files that are
compressed as a whole, although their format has its own compression."""

from __future__ import annotations

from typing import Any

from penstock.api import Column
from penstock.api.schema import Schema
from penstock.connectors.files.formats.codecs import compressing
from penstock.connectors.files.formats.format import Encoder, Format, Out


class Joined(Format):
    """Concatenates records, with bytes before the first, between two, and after the last."""

    def __init__(
        self, codec: str, *, begin: bytes = b"", between: bytes = b"\n", end: bytes = b""
    ) -> None:
        self._codec = codec
        self.begin = begin
        self.between = between
        self.end = end

    @property
    def ending(self) -> str:
        return ""

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _JoinedEncoder(self, compressing(self._codec, None, out))


class _JoinedEncoder(Encoder[list[bytes]]):
    def __init__(self, format: Joined, stream: Any) -> None:
        self._format = format
        self._stream = stream
        self._next = format.begin

    def encode(self, column: Column) -> list[bytes]:
        return column.values

    def append(self, encoded: list[bytes]) -> None:
        if encoded:
            self._stream.write(self._next + self._format.between.join(encoded))
            self._next = self._format.between

    def finish(self) -> None:
        self._stream.write(self._format.end)
        self._stream.finish()


class Compressed(Format):
    """The files of another format, compressed as a whole."""

    def __init__(self, format: Format, codec: str) -> None:
        self._format = format
        self._codec = codec

    @property
    def ending(self) -> str:
        return ""

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        stream = compressing(self._codec, None, out)
        return _CompressedEncoder(self._format.open(schema, stream, seed), stream)


class _CompressedEncoder(Encoder[Any]):
    def __init__(self, encoder: Encoder[Any], stream: Any) -> None:
        self._encoder = encoder
        self._stream = stream

    def encode(self, column: Column) -> Any:
        return self._encoder.encode(column)

    def append(self, encoded: Any) -> None:
        self._encoder.append(encoded)

    def finish(self) -> None:
        self._encoder.finish()
        self._stream.finish()
