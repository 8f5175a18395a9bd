"""Files in memory, read."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from penstock.api import DataError, Failed
from penstock.api.schema import Schema, Value
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.columns import Orc, Parquet
from penstock.connectors.files.formats.decoder import Chunk, Decoder, Position, Reading
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv, RawBytes, TextLines
from penstock.connectors.files.settings.tables import ReadOptions, reading_of

START = Position()


class File(io.BytesIO):
    """An opened file that can grow."""

    @property
    def size(self) -> int:
        return len(self.getbuffer())

    def grow(self, data: bytes) -> None:
        place = self.tell()
        self.seek(0, io.SEEK_END)
        self.write(data)
        self.seek(place)


class Result(NamedTuple):
    values: list[Value]
    schemas: list[Schema | None]
    failed: Failed
    positions: list[Position]
    """Where each record begins, and where the last one ends, if chunks have ends."""
    error: DataError | None


def drained(decoder: Decoder, start: Position = START, max_bytes: int = 1 << 20) -> Result:
    """A decoder's results, up to its end or an error."""
    result = Result([], [], {}, [start], None)
    try:
        while (chunk := decoder.read(max_bytes)) is not None:
            check_chunk(chunk)
            for row, error in chunk.failed.items():
                result.failed[len(result.values) + row] = error
            result.values.extend(chunk.values.values)
            result.schemas.extend(chunk.values.schemas())
            result.positions.append(chunk.after)
    except DataError as error:
        return result._replace(error=error)
    finally:
        decoder.close()
    return result


def check_chunk(chunk: Chunk) -> None:
    """What holds for every chunk."""
    assert len(chunk.values) >= 1
    assert all(chunk.values.values[row] is None for row in chunk.failed)
    assert all(isinstance(error, DataError) for error in chunk.failed.values())
    if chunk.ends is not None:
        assert len(chunk.ends) == len(chunk.values)
        assert list(chunk.ends) == sorted(chunk.ends)
        assert chunk.after.byte == chunk.ends[-1]


def read(
    reading: Reading,
    data: bytes,
    start: Position = START,
    stop: int | None = None,
    *,
    max_bytes: int = 1 << 20,
) -> Result:
    try:
        decoder = reading.open(File(data), start, stop)
    except DataError as error:
        return Result([], [], {}, [start], error)
    return drained(decoder, start, max_bytes)


def values(reading: Reading, data: bytes, start: Position = START, **options: int) -> list[Value]:
    """The values of an intact file."""
    result = read(reading, data, start, **options)
    assert result.error is None, result.error
    assert not result.failed, result.failed
    return result.values


NAMES: dict[type[Format], str] = {
    JsonLines: "Json",
    Avro: "Avro",
    Parquet: "Parquet",
    Orc: "Orc",
    Csv: "Csv",
    TextLines: "String",
    RawBytes: "ByteArray",
}


def reading(name: str, file: str = "a", **options: Any) -> Reading:
    return reading_of(name, ReadOptions(**options), file)


def reading_back(format: Format, **options: Any) -> Reading:
    """The reading of a format's files."""
    return reading(NAMES[type(format)], f"a{format.ending}", **options)
