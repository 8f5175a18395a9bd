"""Foreign files, read; and ours, read by others."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from penstock.api import DataError
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
    OPTIONAL_INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Value,
    array,
    decimal,
    map_of,
    struct,
)
from penstock.connectors.files.formats.codecs import AVRO_CODECS
from penstock.connectors.files.formats.columns import Parquet
from penstock.connectors.files.formats.decoder import (
    Position,
    Truncated,
)
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv

from .readings import START, File, read, reading, values
from .test_formats import EMPTY, EVERYTHING, FULL, written


def test_avro_of_fastavro() -> None:
    schema = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "fixed", "type": {"type": "fixed", "name": "Two", "size": 2}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                       "scale": 2}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
            {"name": "either", "type": ["null", "string", "int"]},
            {"name": "tags", "type": {"type": "map", "values": ["null", "double"]}},
        ],
    }  # fmt: skip
    moment = datetime(2024, 2, 29, 13, 14, 15, 16_017, tzinfo=UTC)
    row = {
        "id": 7,
        "kind": "B",
        "fixed": b"ab",
        "price": Decimal("1.50"),
        "day": date(2024, 2, 29),
        "clock": time(1, 2, 3, 4_005),
        "at": moment,
        "local": datetime(2024, 2, 29, 13, 14, 15, 16_000),  # noqa: DTZ001
        "either": 5,
        "tags": {"a": None, "b": 0.5},
    }
    for codec in AVRO_CODECS:
        out = io.BytesIO()
        fastavro.writer(out, schema, [row] * 300, codec=codec, sync_interval=1000)
        result = read(reading("Avro"), out.getvalue())
        cut = moment.replace(microsecond=16_000)
        assert result.values == 300 * [
            {**row, "clock": time(1, 2, 3, 4_000), "at": cut, "local": cut,
             "either": {"int": 5}}
        ]  # fmt: skip
        its = result.schemas[0]
        assert its is not None
        assert (its.name, its.fields[3].schema.scale) == ("shop.Order", 2)
        kinds = [field.schema.logical and field.schema.logical.name for field in its.fields]
        assert kinds[4:8] == ["DATE", "TIME", "TIMESTAMP", "TIMESTAMP"]


def test_values_of_avro_that_connect_does_not_have_fail_by_themselves() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "text", "type": "string"},
        ],
    }
    out = io.BytesIO()
    rows = [{"id": 1, "day": 0, "text": "a"}, {"id": 2, "day": 2**31 - 1, "text": "b"}]
    fastavro.writer(out, schema, rows + rows[:1])
    result = read(reading("Avro"), out.getvalue())
    assert [row and row["text"] for row in result.values] == ["a", None, "a"]
    assert "Record 2: Date 2147483647 is outside" in str(result.failed[1])
    assert values(reading("Avro"), out.getvalue(), Position(2, None))[0]["id"] == 1


ARROW: list[tuple[Any, list[Any], Schema, list[Value]]] = [
    (pa.uint8(), [255, None], INT16, [255, None]),
    (pa.uint16(), [65535], INT32, [65535]),
    (pa.uint32(), [2**32 - 1], INT64, [2**32 - 1]),
    (pa.uint64(), [2**64 - 1, None], decimal(0), [Decimal(2**64 - 1), None]),
    (pa.float32(), [0.5, None], FLOAT32, [0.5, None]),
    (pa.float64(), [0.5, None], FLOAT64, [0.5, None]),
    (pa.int8(), [-1, None], INT8, [-1, None]),
    (pa.bool_(), [True, None], BOOLEAN, [True, None]),
    (pa.large_string(), ["ü", None], STRING, ["ü", None]),
    (pa.large_binary(), [b"\xff", None], BYTES, [b"\xff", None]),
    (pa.binary(2), [b"ab", None], BYTES, [b"ab", None]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a", None], STRING, ["a", "b", "a", None]),
    (pa.decimal128(9, 2), [Decimal("1.50"), None], decimal(2), [Decimal("1.50"), None]),
    (pa.decimal256(50, 3), [Decimal("1.500")], decimal(3), [Decimal("1.500")]),
    (pa.date32(), [date(2024, 2, 29), None], DATE, [date(2024, 2, 29), None]),
    (pa.date64(), [date(2024, 2, 29), None], DATE, [date(2024, 2, 29), None]),
    (pa.time32("ms"), [time(1, 2, 3, 4000), None], TIME, [time(1, 2, 3, 4000), None]),
    (pa.time64("us"), [time(1, 2, 3, 4005), None], TIME, [time(1, 2, 3, 4000), None]),
    (pa.time64("ns"), [time(1, 2, 3, 4005)], TIME, [time(1, 2, 3, 4000)]),
    *(
        (
            pa.timestamp(unit, zone),
            [datetime(1960, 2, 29, 1, 2, 3, tzinfo=UTC), None],
            TIMESTAMP,
            [datetime(1960, 2, 29, 1, 2, 3, tzinfo=UTC), None],
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin")
    ),
    (
        pa.list_(pa.int32()),
        [[1, None], [], None],
        array(INT32.as_optional()),
        [[1, None], [], None],
    ),
    (pa.list_(pa.int32(), 2), [[1, 2], [3, None]], array(INT32.as_optional()), [[1, 2], [3, None]]),
    (
        pa.map_(pa.string(), pa.timestamp("us")),
        [[("a", datetime(2024, 1, 1))], [], None],  # noqa: DTZ001
        map_of(STRING, TIMESTAMP.as_optional()),
        [{"a": datetime(2024, 1, 1, tzinfo=UTC)}, {}, None],
    ),
    (
        pa.struct([("x", pa.uint8()), ("y", pa.list_(pa.date32()))]),
        [{"x": 1, "y": [date(2024, 1, 1)]}, None],
        struct({"x": INT16.as_optional(), "y": array(DATE.as_optional(), optional=True)}),
        [{"x": 1, "y": [date(2024, 1, 1)]}, None],
    ),
    (pa.null(), [None], STRING, [None]),
]


@pytest.mark.parametrize(("kind", "given", "schema", "expected"), ARROW, ids=str)
def test_parquet_of_arrow(
    kind: Any, given: list[Any], schema: Schema, expected: list[Value]
) -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": range(len(given)), "x": pa.array(given, kind)}), out)
    for start in range(len(given)):
        result = read(reading("Parquet"), out.getvalue(), Position(start, None), max_bytes=1)
        assert [row["x"] for row in result.values] == expected[start:]
        assert result.schemas[0] == struct({"id": OPTIONAL_INT64, "x": schema.as_optional()})


def test_timestamps_of_old_spark_and_impala() -> None:
    out = io.BytesIO()
    moment = datetime(2024, 2, 29, 13, 14, 15, 16_000, tzinfo=UTC)
    table = pa.table({"at": pa.array([moment], pa.timestamp("ns"))})
    pq.write_table(table, out, use_deprecated_int96_timestamps=True)
    assert values(reading("Parquet"), out.getvalue()) == [{"at": moment}]


def test_moments_that_python_does_not_have_fail_by_themselves() -> None:
    out = io.BytesIO()
    numbers = pa.array([0, 1 << 61, 1], pa.int64()).cast(pa.timestamp("ms"))
    pq.write_table(pa.table({"at": numbers}), out)
    result = read(reading("Parquet"), out.getvalue())
    assert [row is None for row in result.values] == [False, True, False]
    assert "Record 2: Timestamp 2305843009213693952 is outside the years" in str(result.failed[1])


def test_types_without_a_counterpart_are_refused() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"for": pa.array([1], pa.duration("ms"))}), out)
    with pytest.raises(DataError, match=r"duration\[ms\] has no counterpart"):
        reading("Parquet").open(File(out.getvalue()), START).read(100)


def test_orc_of_arrow() -> None:
    out = io.BytesIO()
    table = pa.table(
        {
            "id": pa.array([1, None], pa.int32()),
            "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], pa.timestamp("ns", "UTC")),
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "tags": pa.array([["a"], None], pa.list_(pa.string())),
        }
    )
    orc.write_table(table, out)
    assert values(reading("Orc"), out.getvalue()) == [
        {"id": 1, "at": datetime(2024, 1, 1, tzinfo=UTC), "price": Decimal("1.50"), "tags": ["a"]},
        dict.fromkeys(("id", "at", "price", "tags")),
    ]


def test_files_of_duckdb(tmp_path: Any) -> None:
    query = """select 1::integer id, 'a' as name, 1.5::decimal(9, 2) price,
        date '2024-02-29' as day, timestamp '2024-02-29 13:14:15.016' as "at",
        ['x', 'y'] tags, {'x': 1::bigint} point"""
    row = {
        "id": 1,
        "name": "a",
        "price": Decimal("1.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 13, 14, 15, 16_000, tzinfo=UTC),
        "tags": ["x", "y"],
        "point": {"x": 1},
    }
    duckdb.sql(f"copy ({query}) to '{tmp_path}/a.parquet'")
    assert values(reading("Parquet"), (tmp_path / "a.parquet").read_bytes()) == [row]
    simple = 'select id, name, price, day, "at"'
    duckdb.sql(f"copy ({simple} from ({query})) to '{tmp_path}/a.csv.gz'")
    found = values(
        reading("Csv", "a.csv.gz", csv_infer_rows=5), (tmp_path / "a.csv.gz").read_bytes()
    )
    assert found == [{**{name: row[name] for name in ("id", "name", "day", "at")}, "price": 1.5}]
    duckdb.sql(f"copy (select id, tags, point from ({query})) to '{tmp_path}/a.json'")
    found = values(reading("Json"), (tmp_path / "a.json").read_bytes())
    assert found == [{"id": 1, "tags": ["x", "y"], "point": {"x": 1}}]


def test_duckdb_reads_our_files(tmp_path: Any) -> None:
    for format in (Parquet(), Csv("gzip"), JsonLines("zstd")):
        path = tmp_path / f"a{format.ending}"
        path.write_bytes(written(format, EVERYTHING, [FULL], [EMPTY]))
        table = duckdb.sql(f"from '{path}'")
        types = dict(zip(table.columns, map(str, table.types), strict=True))
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
        assert [row["i64"] for row in rows] == [1 << 62, 1 << 62]
        assert [row["text"] for row in rows] == [FULL["text"], None]
        if isinstance(format, Parquet):
            assert (types["i8"], types["price"], types["day"]) == (
                "TINYINT",
                "DECIMAL(38,2)",
                "DATE",
            )
            assert (types["clock"], types["at"]) == ("TIME", "TIMESTAMP WITH TIME ZONE")
            assert rows[0]["price"] == FULL["price"]
            assert rows[0]["by_number"] == FULL["by_number"]
        if isinstance(format, Csv):
            assert (types["i64"], types["flag"], types["day"]) == ("BIGINT", "BOOLEAN", "DATE")


def test_checksums_of_parquet_are_verified() -> None:
    out = io.BytesIO()
    table = pa.table({"text": ["a" * 40, "b" * 40]})
    pq.write_table(
        table, out, compression="none", use_dictionary=False, write_page_checksum=True,
        write_statistics=False, store_schema=False,
    )  # fmt: skip
    data = out.getvalue()
    assert len(values(reading("Parquet"), data)) == 2
    result = read(reading("Parquet"), data.replace(b"aaaab", b"aaacb").replace(b"aaaa", b"aaac"))
    assert isinstance(result.error, Truncated)
