"""Every format, read by other libraries."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from penstock.api import Column, DataError, Fields
from penstock.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_INT32,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    Value,
    array,
    decimal,
    map_of,
    struct,
)
from penstock.connectors.files.formats.avro import Avro, avro_schema
from penstock.connectors.files.formats.codecs import AVRO_CODECS
from penstock.connectors.files.formats.columns import PARQUET_CODECS, Orc, Parquet
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv, RawBytes, TextLines

POINT = struct({"x": INT32, "y": OPTIONAL_INT32}, name="geo.Point", optional=True)
EVERYTHING = struct(
    {
        "i8": INT8,
        "i16": INT16,
        "i32": INT32,
        "i64": INT64,
        "f32": FLOAT32,
        "f64": FLOAT64,
        "flag": BOOLEAN,
        "text": OPTIONAL_STRING,
        "data": BYTES,
        "price": decimal(2, optional=True),
        "day": DATE,
        "clock": TIME.as_optional(),
        "at": TIMESTAMP.as_optional(),
        "tags": array(STRING),
        "points": array(POINT, optional=True),
        "by_name": map_of(STRING, INT64),
        "by_number": map_of(INT32, OPTIONAL_STRING),
        "point": POINT,
        "level": Schema(Type.INT32, default=7),
    },
    name="shop.Everything",
    version=3,
)
FULL: dict[str, Value] = {
    "i8": -8,
    "i16": 16,
    "i32": -32,
    "i64": 1 << 62,
    "f32": 0.10000000149011612,
    "f64": 0.1,
    "flag": True,
    "text": 'ü "quoted", 🐟\nline',
    "data": b"\x00\xff",
    "price": Decimal("-12.30"),
    "day": date(2024, 2, 29),
    "clock": time(13, 14, 15, 16_000),
    "at": datetime(2024, 2, 29, 13, 14, 15, 16_000, tzinfo=UTC),
    "tags": ["a", ""],
    "points": [{"x": 1, "y": None}, None],
    "by_name": {"a": 1},
    "by_number": {1: "one", 2: None},
    "point": {"x": 1, "y": 2},
    "level": 5,
}
EMPTY = {
    **FULL,
    **dict.fromkeys(("text", "price", "clock", "at", "points", "point", "level")),
    "tags": [],
    "by_name": {},
    "by_number": {},
}


def written(format: Format, schema: Schema | None, *batches: list[Value]) -> bytes:
    """A file with these records."""
    out = io.BytesIO()
    encoder = format.open(schema, out, "a name")
    for batch in batches:
        encoded = encoder.encode(Column.of(batch, schema))
        assert not isinstance(encoded, dict), encoded
        encoder.append(encoded)
    encoder.finish()
    return out.getvalue()


def refused(format: Format, schema: Schema | None, values: list[Value]) -> dict[int, str]:
    failed = format.open(schema, io.BytesIO(), "a name").encode(Column.of(values, schema))
    assert isinstance(failed, dict)
    assert all(isinstance(error, DataError) for error in failed.values())
    return {row: str(error) for row, error in failed.items()}


def parquet_rows(data: bytes) -> list[Any]:
    return pq.read_table(io.BytesIO(data)).to_pylist()


def avro_rows(data: bytes) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(data)))


def as_arrow(row: dict[str, Value]) -> dict[str, Value]:
    """What pyarrow returns: maps as pairs, null as its default."""
    pairs = {name: list(row[name].items()) for name in ("by_name", "by_number")}
    return {**row, **pairs, "level": 7 if row["level"] is None else row["level"]}


def as_avro(row: dict[str, Value]) -> dict[str, Value]:
    entries = [{"key": key, "value": value} for key, value in row["by_number"].items()]
    return {**row, "by_number": entries, "level": 7 if row["level"] is None else row["level"]}


@pytest.mark.parametrize("codec", PARQUET_CODECS)
def test_parquet_files_are_read_by_arrow(codec: str) -> None:
    format = Parquet(codec)
    data = written(format, EVERYTHING, [FULL], [EMPTY, FULL])
    assert parquet_rows(data) == [as_arrow(row) for row in (FULL, EMPTY, FULL)]
    types = {
        each.name: (str(each.type), each.nullable) for each in pq.read_schema(io.BytesIO(data))
    }
    assert types["price"] == ("decimal128(38, 2)", True)
    assert types["day"] == ("date32[day]", False)
    assert types["clock"] == ("time32[ms]", True)
    assert types["at"] == ("timestamp[ms, tz=UTC]", True)
    assert types["i8"] == ("int8", False)
    assert types["text"] == ("string", True)
    assert format.ending.endswith(".parquet")


@pytest.mark.parametrize("codec", AVRO_CODECS)
def test_avro_files_are_read_by_fastavro(codec: str) -> None:
    if codec == "snappy":
        pytest.importorskip("cramjam", reason="fastavro reads snappy with cramjam")
    if codec == "zstandard":
        pytest.importorskip("backports.zstd", reason="fastavro reads zstandard with it")
    data = written(Avro(codec), EVERYTHING, [FULL], [EMPTY, FULL])
    assert avro_rows(data) == [as_avro(row) for row in (FULL, EMPTY, FULL)]


def test_avro_schemas_are_those_of_confluent() -> None:
    declared = avro_schema(EVERYTHING)
    assert (declared["name"], declared["connect.version"]) == ("shop.Everything", 3)
    types = {each["name"]: each["type"] for each in declared["fields"]}
    assert types["i8"] == {"type": "int", "connect.type": "int8"}
    assert types["text"] == ["null", "string"]
    assert types["at"] == [
        "null",
        {
            "type": "long",
            "logicalType": "timestamp-millis",
            "connect.version": 1,
            "connect.name": "org.apache.kafka.connect.data.Timestamp",
        },
    ]
    assert types["price"][1]["logicalType"] == "decimal"
    assert types["price"][1]["precision"] == 64
    assert declared["fields"][-1]["default"] == 7
    assert avro_schema(struct({"id": INT32}))["name"] == "io.confluent.connect.avro.ConnectDefault"


@pytest.mark.parametrize("format", [Avro("deflate"), Parquet(), JsonLines("gzip"), Csv()])
def test_the_same_records_make_the_same_file_however_they_come(format: Format) -> None:
    schema = struct({"id": INT64, "name": STRING}, name="row")
    rows: list[Value] = [{"id": number, "name": f"name {number}"} for number in range(5000)]
    whole = written(format, schema, rows)
    assert written(format, schema, rows[:1], rows[1:2345], rows[2345:]) == whole


def test_long_avro_files_have_blocks() -> None:
    rows: list[Value] = list(range(-1500, 1500))
    data = written(Avro(), INT64, rows[:10], rows[10:])
    assert avro_rows(data) == rows
    assert [each.num_records for each in fastavro.block_reader(io.BytesIO(data))] == [1000] * 3


def test_long_parquet_files_have_groups_of_rows() -> None:
    rows: list[Value] = list(range(300_000))
    data = written(Parquet(), INT64, rows[:7], rows[7:])
    metadata = pq.read_metadata(io.BytesIO(data))
    groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    assert groups == [131_072, 131_072, 37_856]
    assert pq.read_table(io.BytesIO(data)).column("value").to_pylist() == rows


def test_orc_files_are_read_by_arrow() -> None:
    data = written(Orc(), EVERYTHING, [FULL], [EMPTY])
    table = orc.ORCFile(pa.BufferReader(data)).read()
    rows = table.to_pylist()
    assert rows[0]["clock"] == 47_655_016
    assert rows[0]["at"] == FULL["at"]
    for name in ("i8", "f32", "text", "data", "price", "day", "tags", "points", "point"):
        assert [row[name] for row in rows] == [FULL[name], EMPTY[name]], name


def test_fields_are_written_as_values_are() -> None:
    schema = struct({"id": INT32, "name": OPTIONAL_STRING, "at": FLOAT64}, name="row")
    values: list[Value] = [{"id": 1, "name": None, "at": 0.5}, {"id": 2, "name": "b", "at": 1.5}]
    members = {
        "id": pa.array([1, 2], pa.int64()),
        "name": pa.array([None, "b"], pa.large_string()),
        "at": pa.array([0.5, 1.5], pa.float64()),
    }
    for format in (Parquet(), Avro(), JsonLines(), Csv(), TextLines()):
        out = io.BytesIO()
        encoder = format.open(schema, out, "a name")
        encoder.append(encoder.encode(Fields(schema, members, 2)))
        encoder.finish()
        assert out.getvalue() == written(format, schema, values)


def test_json_lines_are_those_of_the_json_converter() -> None:
    lines = written(JsonLines(), EVERYTHING, [FULL, EMPTY]).decode().splitlines()
    assert json.loads(lines[0]) == {
        **FULL,
        "f32": 0.1,
        "data": "AP8=",
        "price": "+zI=",
        "day": 19782,
        "clock": 47_655_016,
        "at": 1_709_212_455_016,
        "by_number": [[1, "one"], [2, None]],
    }
    assert json.loads(lines[1])["level"] == 7
    numeric = written(JsonLines(numeric=True), EVERYTHING, [FULL]).decode()
    assert '"price":-12.30' in numeric


@pytest.mark.parametrize(
    ("codec", "opened"),
    [
        ("none", lambda data: data),
        ("gzip", gzip.decompress),
        ("bzip2", bz2.decompress),
        ("zstd", lambda data: pa.input_stream(pa.BufferReader(data), "zstd").read()),
    ],
)
def test_lines_are_compressed(codec: str, opened: Callable[[bytes], bytes]) -> None:
    format = JsonLines(codec)
    data = written(format, None, [{"a": 1}, "text", None], [[1, 2.5], 1 << 70])
    assert opened(data) == b'{"a":1}\n"text"\nnull\n[1,2.5]\n1180591620717411303424\n'
    assert format.ending == {
        "none": ".json", "gzip": ".json.gz", "bzip2": ".json.bz2", "zstd": ".json.zst",
    }[codec]  # fmt: skip


def test_csv_is_read_by_others() -> None:
    data = written(Csv(), EVERYTHING, [FULL], [EMPTY]).decode()
    rows = list(csv.DictReader(io.StringIO(data)))
    assert rows[0]["text"] == FULL["text"]
    assert rows[0]["at"] == "2024-02-29T13:14:15.016Z"
    assert (rows[0]["day"], rows[0]["price"], rows[0]["data"]) == ("2024-02-29", "-12.30", "AP8=")
    assert (rows[1]["text"], rows[1]["level"], rows[1]["flag"]) == ("", "7", "true")
    assert json.loads(rows[0]["point"]) == {"x": 1, "y": 2}


def test_csv_of_maps_has_the_columns_of_the_first() -> None:
    format = Csv(delimiter=";")
    data = written(format, None, [{"a": 1, "b": "x;y"}], [{"b": None, "a": ""}])
    assert data == b'a;b\n1;"x;y"\n"";\n'
    assert list(refused(format, None, [{"a": 1}, {"b": 1}, {"a": 1, "c": 2}, "text"])) == [1, 2, 3]
    assert written(Csv(header=False), None, [{"a": 1}]) == b"1\n"


def test_text_and_bytes() -> None:
    assert (
        written(TextLines(), None, ["ü", None, 1, {"a": True}]) == "ü\nnull\n1\n{a=true}\n".encode()
    )
    assert written(RawBytes(), BYTES, [b"a", b"", b"\xff"]) == b"a\n\n\xff\n"
    raw = RawBytes(extension=".raw", separator=b"")
    assert written(raw, BYTES, [b"a", b"b"]) == b"ab"
    assert raw.ending == ".raw"
    assert "ByteArrayConverter" in refused(RawBytes(), None, [b"a", "text"])[1]


@pytest.mark.parametrize("format", [Parquet(), Avro(), Orc()])
def test_formats_with_schemas_need_one(format: Format) -> None:
    with pytest.raises(DataError, match="need records with a schema"):
        format.open(None, io.BytesIO(), "a name")


ROW = struct({"id": INT32, "name": STRING}, name="row")


@pytest.mark.parametrize("format", [Parquet(), Avro(), JsonLines(), Csv(), Orc()])
def test_a_row_that_a_format_cannot_hold_is_rejected(format: Format) -> None:
    good = {"id": 1, "name": "a"}
    assert list(refused(format, ROW, [good, {"id": 2, "name": "\ud800"}, good])) == [1]
    if format.needs_schema:
        bad = [good, {"id": None, "name": "x"}, {"id": "x", "name": "x"}, good, {"id": 3}]
        assert list(refused(format, ROW, bad)) == [1, 2, 4]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (struct({"a-b": INT32}), "'a-b' is not a valid Avro name"),
        (
            struct({"a": map_of(STRING, INT32), "b": Schema(Type.ARRAY)}),
            "need schemas for the elements",
        ),
        (
            struct({"a": struct({"x": INT32}, name="P"), "b": struct({"y": INT32}, name="P")}),
            "Two different types",
        ),
    ],
)
def test_schemas_that_avro_does_not_have(schema: Schema, text: str) -> None:
    with pytest.raises(DataError, match=text):
        Avro().open(schema, io.BytesIO(), "a name")


def test_memory_that_others_need_is_given_up() -> None:
    out = io.BytesIO()
    encoder = Parquet().open(INT64, out, "a name")
    for first in range(0, 3000, 3):
        encoder.append(encoder.encode(Column.of(list(range(first, first + 3)), INT64)))
        if first == 1500:
            assert encoder.held_bytes > 1500 * 8
            encoder.relieve()
            encoder.relieve()
            assert encoder.held_bytes == 0
    encoder.finish()
    assert [row["value"] for row in parquet_rows(out.getvalue())] == list(range(3000))
    assert pq.read_metadata(io.BytesIO(out.getvalue())).num_row_groups == 2
