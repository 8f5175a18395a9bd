"""Ranges, positions, growth and damage."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from penstock.api import Column, Fields
from penstock.api.schema import (
    BYTES,
    INT64,
    STRING,
    Schema,
    Value,
    struct,
)
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.columns import Orc, Parquet
from penstock.connectors.files.formats.csv_read import Dialect
from penstock.connectors.files.formats.decoder import (
    NotThisFormat,
    Position,
    Reading,
    Truncated,
)
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv, RawBytes
from penstock.connectors.files.settings.tables import (
    READINGS,
    FormatOptions,
)

from .readings import NAMES, START, File, read, reading, reading_back
from .test_formats import written

LINES: list[Value] = [{"id": number, "text": "x\ny" * (number % 3)} for number in range(7)]
ROW = struct({"id": INT64, "text": STRING}, name="row")


class SmallGroups(Parquet):
    """Parquet files of many groups of rows."""

    def open(self, schema: Schema | None, out: Any, seed: str) -> Any:
        encoder = super().open(schema, out, seed)
        append = encoder.append

        def each(encoded: Any) -> None:
            append(encoded)
            encoder.relieve()

        encoder.append = each  # type: ignore[method-assign]
        return encoder


NAMES[SmallGroups] = "Parquet"


def files() -> list[Any]:
    """Files with the readings that can be split, and their values."""
    raw = written(RawBytes(separator=b"\r\n"), BYTES, [b"a", b"", b"\n\r", b"b"])
    blocks = io.BytesIO()
    declared = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
    }
    fastavro.writer(blocks, declared, LINES, sync_interval=16)
    one_line = [{**row, "text": row["text"].replace("\n", " ")} for row in LINES]
    texts = [{name: str(cell) for name, cell in row.items()} for row in one_line]
    dialect = Dialect(newlines=False)
    return [
        ("Json", {}, written(JsonLines(), ROW, LINES), LINES),
        ("Json", {}, written(JsonLines(), ROW, LINES)[:-1], LINES),
        ("String", {}, b"a\n\nbc\r\nd", ["a", "", "bc", "d"]),
        ("ByteArray", {"separator": b"\r\n"}, raw, [b"a", b"", b"\n\r", b"b"]),
        ("ByteArray", {"separator": None, "slice_bytes": 3}, b"abcdefgh", [b"abc", b"def", b"gh"]),
        ("Csv", {"csv_dialect": dialect, "schema": ROW}, written(Csv(), ROW, one_line), one_line),
        (
            "Csv",
            {"csv_dialect": dialect, "csv_header": False, "csv_names": ("id", "text")},
            written(Csv(header=False), ROW, one_line),
            texts,
        ),
        ("Avro", {}, blocks.getvalue(), LINES),
        ("Parquet", {}, written(SmallGroups(), ROW, LINES[:2], LINES[2:3], LINES[3:]), LINES),
    ]


@pytest.mark.parametrize(("name", "options", "data", "expected"), files())
def test_two_ranges_have_each_record_once(
    name: str, options: dict[str, Any], data: bytes, expected: list[Value]
) -> None:
    its = reading(name, **options)
    assert its.splittable
    for cut in range(0, len(data) + 1, 29 if name == "Parquet" else 1):
        first = read(its, data, stop=cut)
        second = read(its, data, Position(0, cut))
        assert not first.failed | second.failed
        assert first.values + second.values == expected, cut
        if cut % 10:
            continue
        third = read(its, data, Position(0, cut), cut + 20)
        assert third.values == second.values[: len(third.values)]
        for position in third.positions[1:]:
            rest = read(its, data, position, cut + 20)
            assert rest.values == third.values[position.record :]


@pytest.mark.parametrize("max_bytes", [1, 20])
@pytest.mark.parametrize(
    ("name", "options", "data", "expected"),
    [*files(), ("Orc", {}, written(Orc(), ROW, LINES), LINES),
     ("Csv", {"schema": ROW}, written(Csv(), ROW, LINES), LINES)],
)  # fmt: skip
def test_from_each_position_the_rest_is_read(
    name: str, options: dict[str, Any], data: bytes, expected: list[Value], max_bytes: int
) -> None:
    its = reading(name, **options)
    whole = read(its, data, max_bytes=max_bytes)
    assert whole.values == expected
    for position in whole.positions:
        assert read(its, data, position).values == expected[position.record :]
        by_record = Position(position.record, None)
        assert read(its, data, by_record).values == expected[position.record :]
    assert whole.positions[-1].record == len(expected)


@pytest.mark.parametrize(
    ("name", "options", "data", "expected"),
    [*files(), ("Orc", {}, written(Orc(), ROW, LINES), LINES),
     ("Csv", {"schema": ROW}, written(Csv(), ROW, LINES), LINES),
     ("Json", {"compression": "gzip"}, written(JsonLines("gzip"), ROW, LINES), LINES),
     ("Json", {"compression": "bzip2"}, written(JsonLines("bzip2"), ROW, LINES), LINES),
     ("Json", {"compression": "zstd"}, written(JsonLines("zstd"), ROW, LINES), LINES),
     ("Json", {"compression": "snappy"}, written(JsonLines("snappy"), ROW, LINES), LINES),
     ("Json", {"json_documents": True}, json.dumps(LINES).encode(), LINES)],
)  # fmt: skip
def test_a_file_that_is_cut_off_has_no_half_records(
    name: str, options: dict[str, Any], data: bytes, expected: list[Value]
) -> None:
    its = reading(name, **options)
    for size in range(len(data)):
        result = read(its, data[:size])
        # In these formats a truncated last record may look complete.
        cannot_tell = name in ("String", "ByteArray", "Csv")
        good = result.values[:-1] if cannot_tell else result.values
        assert good == expected[: len(good)], size
        assert not result.failed or name == "Csv", size
        if len(result.values) < len(expected) and not result.failed:
            at_end = b"\n" in data[size - 1 : size + 1] and "compression" not in options
            ends_well = at_end or name in ("String", "ByteArray", "Csv", "Avro")
            assert isinstance(result.error, Truncated) or ends_well or not size, (size, result)
        if result.error is not None:
            assert isinstance(result.error, Truncated), (size, result.error)


@pytest.mark.parametrize("name", ["Avro", "Parquet", "Orc"])
def test_other_files_are_told_apart(name: str) -> None:
    with pytest.raises(NotThisFormat):
        reading(name).open(File(b'{"a": 1}\n' * 100), START).read(100)
    for other in (Avro(), Parquet(), Orc()):
        if NAMES[type(other)] != name:
            with pytest.raises(NotThisFormat):
                reading(name).open(File(written(other, ROW, LINES)), START).read(100)


@pytest.mark.parametrize("format", [Avro(), Avro("deflate"), Parquet(), JsonLines("gzip")])
def test_damaged_files_give_an_error_of_the_file(format: Format) -> None:
    data = written(format, ROW, LINES)
    for at in range(0, len(data), 3):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        read(reading_back(format), bytes(broken))  # no other error


@pytest.mark.parametrize(
    ("name", "options", "data", "expected"),
    [each for each in files() if each[0] != "Parquet"]
    + [("Csv", {"schema": ROW}, written(Csv(), ROW, LINES), LINES)],
)
def test_files_that_grow(
    name: str, options: dict[str, Any], data: bytes, expected: list[Value]
) -> None:
    file = File()
    decoder = reading(name, **options).open(file, START, growing=True)
    found: list[Value] = []
    for at in range(len(data)):
        file.grow(data[at : at + 1])
        while (chunk := decoder.read(100)) is not None:
            assert not chunk.failed
            found += chunk.values.values
        assert found == expected[: len(found)]
    complete = data.endswith(b"\n") or name in ("Avro", "ByteArray")
    last = len(expected) - (not complete)
    if "slice_bytes" in options:
        last = len(data) // 3
    assert found == expected[:last]


def test_every_format_that_is_written_is_read() -> None:
    from penstock.connectors.files.settings.tables import FORMATS

    assert READINGS.keys() == FORMATS.keys()
    for name, make in FORMATS.items():
        assert isinstance(make(FormatOptions()), Format)
        assert isinstance(reading(name), Reading)


def test_columns_stay_columns() -> None:
    chunk = reading("Parquet").open(File(written(Parquet(), ROW, LINES)), START).read(1 << 20)
    assert chunk is not None
    assert isinstance(chunk.values, Fields)
    assert chunk.values == Column.of(LINES, ROW)
