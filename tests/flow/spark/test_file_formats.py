"""Files for and from Spark."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.api import Column
from penstock.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
    Schema,
    Value,
    array,
    decimal,
    map_of,
    struct,
)
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.columns import Orc, Parquet
from penstock.connectors.files.formats.decoder import Position
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv, TextLines
from penstock.connectors.files.settings.tables import ReadOptions, reading_of
from penstock.flow.spark.session import Session


@pytest.fixture(scope="module")
def spark(session: Session) -> SparkSession:
    """Spark's SQL, which workers do without."""
    spark = SparkSession(session.get())
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


ROW = struct(
    {
        "i8": INT8,
        "id": INT64,
        "small": INT32,
        "f32": FLOAT32,
        "price": decimal(2, optional=True),
        "day": DATE,
        "at": TIMESTAMP,
        "flag": BOOLEAN,
        "text": OPTIONAL_STRING,
        "data": BYTES,
        "tags": array(STRING),
        "sizes": map_of(STRING, INT64),
        "point": struct({"x": FLOAT64}, optional=True),
    },
    name="shop.Row",
)
FULL: dict[str, Value] = {
    "i8": -8,
    "id": 1 << 60,
    "small": -32,
    "f32": 0.5,
    "price": Decimal("-12.30"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 13, 14, 15, 16_000, tzinfo=UTC),
    "flag": True,
    "text": 'ü "quoted", line',
    "data": b"\x00\xff",
    "tags": ["a", ""],
    "sizes": {"a": 1},
    "point": {"x": 0.1},
}
EMPTY = {**FULL, "price": None, "text": None, "tags": [], "sizes": {}, "point": None}
TYPES = {
    "i8": "tinyint",
    "id": "bigint",
    "small": "int",
    "f32": "float",
    "price": "decimal(38,2)",
    "day": "date",
    "at": "timestamp",
    "flag": "boolean",
    "text": "string",
    "data": "binary",
    "tags": "array<string>",
    "sizes": "map<string,bigint>",
    "point": "struct<x:double>",
}


class File(io.BytesIO):
    @property
    def size(self) -> int:
        return len(self.getbuffer())


def write(folder: Path, format: Format, schema: Schema | None, values: list[Value]) -> str:
    out = io.BytesIO()
    encoder = format.open(schema, out, "a name")
    encoded = encoder.encode(Column.of(values, schema))
    assert not isinstance(encoded, dict), encoded
    encoder.append(encoded)
    encoder.finish()
    path = folder / f"a{format.ending}"
    path.write_bytes(out.getvalue())
    return str(path)


def read(folder: Path, name: str, **options: Any) -> tuple[list[Value], Schema | None]:
    """The records of a folder that Spark wrote, with their schema."""
    values: list[Value] = []
    schema = None
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        decoder = reading_of(name, ReadOptions(**options), path.name).open(
            File(path.read_bytes()), Position()
        )
        while (chunk := decoder.read(1 << 20)) is not None:
            assert not chunk.failed
            values += chunk.values.values
            schema = chunk.values.runs[0].schema
    return values, schema


def plain(row: Any) -> Any:
    """A Spark row as a Connect value."""
    value = row.asDict(recursive=True)
    value["data"] = bytes(value["data"])
    value["at"] = value["at"].astimezone(UTC)
    return value


@pytest.mark.parametrize("format", [Parquet(), Parquet("zstd"), Orc()])
def test_spark_reads_files_of_columns(spark: SparkSession, tmp_path: Path, format: Format) -> None:
    path = write(tmp_path, format, ROW, [FULL, EMPTY])
    name = "orc" if isinstance(format, Orc) else "parquet"
    frame = spark.read.format(name).load(path)
    assert dict(frame.dtypes) == TYPES
    assert [plain(row) for row in frame.collect()] == [FULL, EMPTY]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_java_reads_avro(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    """With the library that Spark's Avro package uses; only that package is missing."""
    path = write(tmp_path, Avro(codec), ROW, [FULL, EMPTY])
    jvm = spark._jvm
    assert jvm is not None
    datums = jvm.org.apache.avro.generic.GenericDatumReader()
    file = jvm.org.apache.avro.file.DataFileReader(jvm.java.io.File(path), datums)
    assert file.getSchema().getFullName() == "shop.Row"
    at = file.getSchema().getField("at").schema()
    assert at.getLogicalType().getName() == "timestamp-millis"
    rows = [file.next(), file.next()]
    assert not file.hasNext()
    file.close()
    assert [row.get("id") for row in rows] == [1 << 60] * 2
    assert [str(row.get("text")) for row in rows] == [FULL["text"], "None"]
    assert rows[0].get("point").get("x") == 0.1
    assert rows[0].get("at") == 1_709_212_455_016


@pytest.mark.parametrize("codec", ["none", "gzip", "bzip2", "snappy"])
def test_spark_reads_lines(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    lines: list[Value] = [f"line {number}" for number in range(50_000)]
    frame = spark.read.text(write(tmp_path, TextLines(codec), STRING, lines))
    assert [row.value for row in frame.collect()] == lines
    rows: list[Value] = [{"id": 1, "name": "ü"}, {"id": 2, "name": None}]
    frame = spark.read.json(write(tmp_path, JsonLines(codec), None, rows))
    assert [row.asDict() for row in frame.collect()] == rows


def test_spark_reads_csv(spark: SparkSession, tmp_path: Path) -> None:
    schema = struct({"id": INT64, "text": OPTIONAL_STRING, "day": DATE})
    rows: list[Value] = [
        {"id": 1, "text": 'a "b",\nc', "day": date(2024, 2, 29)},
        {"id": 2, "text": None, "day": date(2024, 2, 29)},
        {"id": 3, "text": "", "day": date(2024, 2, 29)},
    ]
    path = write(tmp_path, Csv(), schema, rows)
    frame = spark.read.csv(
        path, header=True, inferSchema=True, multiLine=True, escape='"', nullValue="none"
    )
    assert [row.asDict() for row in frame.collect()] == rows


@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_parquet_of_spark(spark: SparkSession, tmp_path: Path, times: str) -> None:
    frame = spark.read.parquet(write(tmp_path, Parquet(), ROW, [FULL, EMPTY]))
    spark.conf.set("spark.sql.parquet.outputTimestampType", times)
    try:
        frame.write.parquet(str(tmp_path / "out"))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    values, schema = read(tmp_path / "out", "Parquet")
    assert values == [FULL, EMPTY]
    assert schema is not None
    assert {field.name: field.schema.as_required().type for field in schema.fields} == {
        field.name: field.schema.type for field in ROW.fields
    }
    assert [field.schema.logical for field in schema.fields] == [
        field.schema.logical for field in ROW.fields
    ]


def test_orc_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.read.parquet(write(tmp_path, Parquet(), ROW, [FULL, EMPTY]))
    frame.write.orc(str(tmp_path / "out"))
    assert read(tmp_path / "out", "Orc")[0] == [FULL, EMPTY]


@pytest.mark.parametrize("codec", ["none", "gzip", "bzip2", "snappy"])
def test_lines_of_spark(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    spark.range(30_000).write.json(str(tmp_path / "json"), compression=codec)
    found = read(tmp_path / "json", "Json")[0]
    assert sorted(row["id"] for row in found) == list(range(30_000))
    rows = [(1, 'a "b", c', date(2024, 2, 29)), (2, None, date(2024, 3, 1)), (3, "", None)]
    frame = spark.createDataFrame(rows, "id long, text string, day date").coalesce(1)
    frame.write.csv(str(tmp_path / "csv"), header=True, escape='"', compression=codec)
    found, _ = read(tmp_path / "csv", "Csv", csv_infer_rows=10)
    assert [tuple(row.values()) for row in found] == rows
