"""The records of the JDBC source."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from penstock.api import SourceOffset
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.source import JdbcSource
from penstock.data import schema as s

from .shop import Shop, ids, notes, poll, read_all


def test_a_row_is_a_struct_named_after_its_table_without_a_key(shop: Shop) -> None:
    shop(
        "CREATE TABLE things (id INTEGER PRIMARY KEY, small SMALLINT NOT NULL, big BIGINT, "
        "price DECIMAL(10, 2), ratio REAL, weight DOUBLE, good BOOLEAN, name VARCHAR(20), "
        "raw BLOB, day DATE, at TIME, stamp TIMESTAMP)"
    )
    shop(
        "INSERT INTO things VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (1, 2, 1 << 40, "12.5", 0.5, 0.1, 1, "ä", b"\0\xff", "2024-02-29", "23:59:59.5", 1500),
        (2, -2, None, None, None, None, None, None, None, None, None, None),
    )
    reader = shop.reader()
    records = poll(reader).records
    assert records.topics == ["shop-things"] * 2
    assert records.keys.values == [None, None]
    assert records.timestamps == [None, None]
    assert records.values.values == [
        {
            "id": 1,
            "small": 2,
            "big": 1 << 40,
            "price": Decimal("12.50"),
            "ratio": 0.5,
            "weight": 0.1,
            "good": True,
            "name": "ä",
            "raw": b"\0\xff",
            "day": date(2024, 2, 29),
            "at": time(23, 59, 59, 500_000),
            "stamp": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        },
        {**dict.fromkeys(records.values.values[0]), "id": 2, "small": -2},
    ]
    ((schema, _, _),) = records.values.slices()
    assert schema == s.struct(
        {
            "id": s.INT32,
            "small": s.INT16,
            "big": s.OPTIONAL_INT64,
            "price": s.decimal(2, optional=True),
            "ratio": s.OPTIONAL_FLOAT32,
            "weight": s.OPTIONAL_FLOAT64,
            "good": s.OPTIONAL_BOOLEAN,
            "name": s.OPTIONAL_STRING,
            "raw": s.OPTIONAL_BYTES,
            "day": s.DATE.as_optional(),
            "at": s.TIME.as_optional(),
            "stamp": s.TIMESTAMP.as_optional(),
        },
        name="things",
    )


def test_an_integer_beyond_32_bits_widens_its_batch(shop: Shop) -> None:
    shop("CREATE TABLE n (id INTEGER PRIMARY KEY, v INTEGER)")
    shop("INSERT INTO n VALUES (?, ?)", (1, 7))
    reader = shop.reader()
    rows, _ = read_all(reader)
    shop("INSERT INTO n VALUES (?, ?)", (2, 1 << 40))
    ((schema, _, _),) = poll(reader).records.values.slices()
    assert schema is not None
    field = schema.field("v")
    assert field is not None
    assert field.schema == s.OPTIONAL_INT64
    assert rows == [{"id": 1, "v": 7}]


def test_rows_of_a_query_have_the_prefix_as_topic_and_no_name(shop: Shop) -> None:
    notes(shop, [None])
    reader = shop.reader(
        query="SELECT id, 'it''s 100%' AS text FROM notes;", incrementing__column__name="id"
    )
    polled = poll(reader)
    assert polled.offsets == [SourceOffset({"query": "query"}, {"incrementing": 1})]
    records = polled.records
    assert records.topics == ["shop-"]
    assert records.values.values == [{"id": 1, "text": "it's 100%"}]
    assert [each.schema and each.schema.name for each in records.values.runs] == [None]


def test_a_suffix_that_limits_loses_nothing(shop: Shop) -> None:
    notes(shop, [None] * 25)
    assert ids(read_all(shop.reader(query__suffix="LIMIT 10"))[0]) == list(range(1, 26))


def test_a_suffix_that_limits_loses_no_row_of_an_equal_timestamp(shop: Shop) -> None:
    notes(shop, ["2024-01-01 12:00:00"] * 15 + ["2024-01-02 12:00:00"] * 10)
    for suffix in ("LIMIT 10", "limit 7", ""):
        reader = shop.reader(
            mode="timestamp",
            timestamp__column__name="changed",
            validate__non__null=False,
            query__suffix=suffix,
        )
        assert sorted(ids(read_all(reader)[0])) == list(range(1, 26))


def test_names_that_need_quotes(shop: Shop) -> None:
    shop('CREATE TABLE "my ""table""" ("the id" INTEGER PRIMARY KEY, "select" TEXT)')
    shop('INSERT INTO "my ""table""" VALUES (?, ?)', (1, "x"))
    assert read_all(shop.reader())[0] == [{"the id": 1, "select": "x"}]


def test_a_column_that_is_added_while_it_runs_is_in_the_next_rows(shop: Shop) -> None:
    notes(shop, [None])
    reader = shop.reader()
    read_all(reader)
    shop("ALTER TABLE notes ADD COLUMN text TEXT; INSERT INTO notes (text) VALUES ('new')")
    rows, _ = read_all(reader)
    assert rows == [{"id": 2, "changed": None, "text": "new"}]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT id FROM notes ORDER BY id DESC -- all", [{"id": 2}, {"id": 1}]),
        ("SELECT id FROM notes WHERE id > 1;", [{"id": 2}]),
        ("VALUES (NULL), ('%')", [{"column1": None}, {"column1": "%"}]),
        ("PRAGMA encoding", [{"encoding": "UTF-8"}]),
        ("SELECT id FROM notes WHERE id > 2 -- none", []),
    ],
)
def test_a_bulk_query_runs_as_it_is(shop: Shop, query: str, rows: list[object]) -> None:
    notes(shop, [None, None])
    props = shop.props(mode="bulk", query=query, poll__interval__ms=1000)
    assert not [
        found for found in JdbcSource().validate_live(JDBC_SOURCE.parse(props)) if found.error
    ]
    assert read_all(shop.open(props))[0] == rows
