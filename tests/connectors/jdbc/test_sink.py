"""Rows, keys, columns and tables of the JDBC sink in real databases: SQLite files, PostgreSQL,
MariaDB."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pytest

from penstock.connectors.jdbc.drivers.errors import RowRefused
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.write.dialect import TableName, Wanted
from penstock.connectors.jdbc.write.settings import dialect_of, settings_of
from penstock.connectors.jdbc.write.tables import TableMismatch, Tables
from penstock.data.records import Column
from penstock.data.schema import (
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
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Value,
    array,
    decimal,
    struct,
)
from penstock.errors import DataError

from .tables import ROW, Target, only, row, target_of, write


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    with target_of(request, tmp_path) as made:
        yield made


NOON = datetime(2024, 2, 29, 12, 34, 56, 789_000, tzinfo=UTC)
TYPES: list[tuple[str, Schema, Value, dict[Kind, Value]]] = [
    ("i8", INT8, -128, {}),
    ("i16", INT16, 32_767, {}),
    ("i32", INT32, -(2**31), {}),
    ("i64", INT64, 2**63 - 1, {}),
    ("f32", FLOAT32, 1.5, {}),
    ("f64", FLOAT64, -2.2250738585072014e-308, {}),
    ("flag", BOOLEAN, True, {}),
    ("text", STRING, "tab\tnewline\nback\\slash 'quoted\" \\N ü 🚰", {}),
    ("empty", STRING, "", {}),
    ("data", BYTES, b"\x00\xff\\x'\n", {}),
    ("price", decimal(2), Decimal("-1234.50"), {Kind.SQLITE: -1234.5}),
    ("day", DATE, date(1969, 12, 31), {Kind.SQLITE: -86_400_000}),
    ("clock", TIME, time(23, 59, 59, 999_000), {Kind.SQLITE: 86_399_999}),
    ("moment", TIMESTAMP, NOON, {Kind.SQLITE: int(NOON.timestamp() * 1000)}),
]


@pytest.mark.parametrize("deletes", [False, True])  # PostgreSQL: as binary values, as texts
def test_every_type_is_written_into_a_table_made_for_it(target: Target, deletes: bool) -> None:
    columns = {name: schema for name, schema, _, _ in TYPES}
    schema = struct({"id": INT32, **{name: each.as_optional() for name, each in columns.items()}})
    full = {"id": 1, **{name: value for name, _, value, _ in TYPES}}
    keyed = {"delete.enabled": "true", "pk.mode": "record_key", "pk.fields": "zz"}
    writer = target.sink(auto__create="true", **(keyed if deletes else {}))
    keys = ([7, 8], INT32) if deletes else (None, None)
    assert write(writer, target.records([full, {"id": 2}], schema, *keys)) == {}
    first, second = target.rows(", ".join(("id", *columns)))
    for found, (name, _, value, otherwise) in zip(first[1:], TYPES, strict=True):
        expected = otherwise.get(target.kind, value)
        if name == "clock" and target.kind is Kind.MYSQL:
            found = (datetime(2000, 1, 1, tzinfo=UTC) + found).time()
        if name == "moment" and isinstance(expected, datetime):
            expected = expected.replace(tzinfo=None)
        assert found == expected, name
    assert second[1:] == (None,) * len(TYPES)


@only("postgresql")
@pytest.mark.parametrize("exact", [True, False], ids=["binary", "text"])
def test_values_that_cannot_even_be_sent_cost_no_others(target: Target, exact: bool) -> None:
    target.create(f"id {'bigint' if exact else 'numeric'}, name varchar(5), amount bigint")
    rows = [row(1, "a"), row(2, "\ud800"), row(3, "b"), row(4, "nul\0"), row(5, "longer"), row(6)]
    assert sorted(write(target.sink(errors__tolerance="all"), target.records(rows))) == [1, 3, 4]
    assert target.rows("id, name") == [(1, "a"), (3, "b"), (6, None)]


@only("postgresql")
def test_arrays_are_written(target: Target) -> None:
    schema = struct({"id": INT32, "tags": array(OPTIONAL_STRING), "grid": array(array(INT32))})
    tags = ['a"b', "c\\d", None, "NULL", "", "x,y\n{}"]
    writer = target.sink(auto__create="true")
    assert (
        write(writer, target.records([{"id": 1, "tags": tags, "grid": [[1], [2]]}], schema)) == {}
    )
    # "integer[]" has no number of dimensions.
    assert target.rows() == [(1, tags, [[1], [2]])]


@only("postgresql")
def test_texts_become_what_the_column_is(target: Target) -> None:
    target.create("id int, u uuid, j jsonb, i inet, d date, tz timestamptz")
    names = {"id": INT32, "u": STRING, "j": STRING, "i": STRING, "d": STRING, "tz": TIMESTAMP}
    uuid = "8f14e45f-ceea-467f-a0e6-3d1f2b5a9c11"
    good = {"id": 1, "u": uuid, "j": '{"a":[1]}', "i": "10.0.0.1", "d": "2024-02-29", "tz": NOON}
    bad = {**good, "id": 2, "j": "{"}
    failed = write(
        target.sink(errors__tolerance="all"),
        target.records([good, bad, {**good, "id": 3}], struct(names)),
    )
    assert list(failed) == [1]
    assert "json" in str(failed[1])
    assert target.rows("id, u::text, j->'a'->>0, host(i), d, tz") == [
        (number, uuid, "1", "10.0.0.1", date(2024, 2, 29), NOON) for number in (1, 3)
    ]


@only("postgresql", "sqlite")
def test_nan_and_infinity_are_written_if_the_database_supports_them(target: Target) -> None:
    schema = struct({"id": INT32, "f": FLOAT64.as_optional(), "g": FLOAT32.as_optional()})
    values = [math.inf, -math.inf, math.nan]
    rows = [{"id": at, "f": value, "g": value} for at, value in enumerate(values)]
    assert write(target.sink(auto__create="true"), target.records(rows, schema)) == {}
    found = [value for _, *pair in target.rows() for value in pair]
    none = None if target.kind is Kind.SQLITE else math.nan  # SQLite makes NaN a null
    assert list(map(repr, found)) == [
        repr(v) for v in (math.inf,) * 2 + (-math.inf,) * 2 + (none,) * 2
    ]


@only("mariadb")
def test_nan_and_infinity_are_refused_if_the_database_does_not_support_them(target: Target) -> None:
    schema = struct({"id": INT32, "f": FLOAT64})
    rows = [{"id": at, "f": value} for at, value in enumerate((1.5, math.nan, math.inf, 2.5))]
    failed = write(
        target.sink(errors__tolerance="all", auto__create="true"), target.records(rows, schema)
    )
    assert sorted(failed) == [1, 2]
    assert "column 'f'" in str(failed[1])
    assert target.rows() == [(0, 1.5), (3, 2.5)]


@only("postgresql", "mariadb")
def test_timestamps_are_those_of_the_time_zone(target: Target) -> None:
    kinds = (
        ("timestamp", "timestamptz")
        if target.kind is Kind.POSTGRESQL
        else ("datetime(3)", "timestamp(3)")
    )
    target.create(f"id int, wall {kinds[0]} NULL, instant {kinds[1]} NULL")
    schema = struct({"id": INT32, "wall": TIMESTAMP, "instant": TIMESTAMP})
    writer = target.sink(db__timezone="GMT+5")
    assert write(writer, target.records([{"id": 1, "wall": NOON, "instant": NOON}], schema)) == {}
    zone = "SET TimeZone = 'UTC'" if target.kind is Kind.POSTGRESQL else "SET time_zone = '+00:00'"
    target.connection.execute(zone)
    ((_, wall, instant),) = target.rows()
    assert wall == NOON.replace(hour=17, tzinfo=None)
    assert instant.replace(tzinfo=UTC) == NOON


@pytest.mark.parametrize("kind", ["time(3)", "varchar(20)"])  # in two of PostgreSQL's forms
def test_times_are_those_of_the_time_zone(target: Target, kind: str) -> None:
    target.create(f"id int, at {kind} NULL")
    writer = target.sink(db__timezone="GMT+5")
    rows = [{"id": 1, "at": NOON.time()}, {"id": 2, "at": None}]
    schema = struct({"id": INT32, "at": TIME.as_optional()})
    assert write(writer, target.records(rows, schema)) == {}
    (_, first), (_, none) = target.rows()
    expected = "45296789" if target.kind is Kind.SQLITE else "17:34:56.789"  # an instant there
    assert str(first).startswith(expected)
    assert none is None


@only("mariadb")
@pytest.mark.parametrize("keys", [{}, {"insert.mode": "upsert", "pk.mode": "record_key"}])
def test_a_table_without_transactions_gets_each_row_once_and_none_truncated(
    target: Target, keys: dict[str, str]
) -> None:
    key = "PRIMARY KEY" if keys else ""
    target.create(f"id bigint {key}, name varchar(3), amount int")
    target.connection.execute(f"ALTER TABLE {target.quoted(target.table)} ENGINE = MyISAM")
    records = target.keyed([(at, row(at, "ok" if at != 2 else "long")) for at in range(6)])
    failed = write(target.sink(errors__tolerance="all", **keys), records)
    assert list(failed) == [2]
    assert target.rows("id, name") == [(at, "ok") for at in (0, 1, 3, 4, 5)]


@only("postgresql")
def test_whole_numbers_of_floats_fit_integers(target: Target) -> None:
    target.create("a int, b bigint, c text, d numeric(4,1)")
    names = dict.fromkeys("abcd", FLOAT64)
    rows: list[Value] = [dict.fromkeys("abcd", 2.0), {**dict.fromkeys("abcd", 3.0), "a": 2.5}]
    failed = write(target.sink(errors__tolerance="all"), target.records(rows, struct(names)))
    assert list(failed) == [1]
    assert "column 'a'" in str(failed[1])
    assert target.rows() == [(2, 2, "2", Decimal("2.0"))]


def test_records_for_tables_that_differ_by_case_keep_their_order(target: Target) -> None:
    writer = target.sink(
        auto__create="true", insert__mode="upsert", pk__mode="record_key",
        quote__sql__identifiers="never", table__name__format="${topic}",
    )  # fmt: skip
    records = target.keyed([(1, row(1, "a")), (1, row(1, "b")), (1, row(1, "c"))])
    name = f"case_{target.table}".lower()
    one = name.upper() if target.kind is not Kind.MYSQL else name  # MariaDB tells them apart here
    records.topics = [name, one, name]
    try:
        assert write(writer, records) == {}
        assert target.connection.rows(f"SELECT name FROM {name}") == [("c",)]
    finally:
        target.connection.execute(f"DROP TABLE IF EXISTS {name}")


def test_columns_are_added_although_another_task_has_just_added_some(target: Target) -> None:
    config = JDBC_SINK.parse(target.props(auto__evolve="true"))
    tables = Tables(target.connection, dialect_of(config), settings_of(config))
    target.create("id bigint")
    name = TableName((target.table,))
    wanted = [Wanted(field.name, field.schema) for field in ROW.fields]
    tables.fitting(name, wanted[:1])
    target.connection.execute(f"ALTER TABLE {target.quoted(target.table)} ADD name varchar(20)")
    fitting = tables.fitting(name, wanted)
    assert [column.name for column in fitting.columns] == ["id", "name", "amount"]


DAY = date(2024, 3, 1)
DATES = [
    ({}, DAY),
    ({"date.timezone": "UTC"}, DAY),
    ({"date.timezone": "db_timezone"}, date(2024, 2, 29)),
    ({"date.timezone": "DB_TIMEZONE", "db.timezone": "GMT+9"}, DAY),
]


@pytest.mark.parametrize("given", ["the record", "the default", "the table's default", "the key"])
@pytest.mark.parametrize(("settings", "written"), DATES, ids=[str(each) for each, _ in DATES])
def test_a_date_is_unchanged_unless_it_is_to_be_one_of_the_time_zone(
    target: Target, settings: dict[str, str], written: date, given: str
) -> None:
    settings = {"auto.create": "true", "db.timezone": "GMT-5", **settings}
    day = replace(DATE, optional=True, default=DAY)
    if given == "the key":
        keys = {"pk.mode": "record_key", "pk.fields": "day", "insert.mode": "upsert"}
        records = target.records([{"id": 1}], struct({"id": INT32}), [DAY], DATE)
        assert write(target.sink(**settings, **keys), records) == {}
    else:
        schema = struct({"id": INT32, "day": DATE if given == "the record" else day})
        cell = DAY if given == "the record" else None
        assert (
            write(target.sink(**settings), target.records([{"id": 1, "day": cell}], schema)) == {}
        )
    if given == "the table's default":
        table = target.quoted(target.table)
        target.connection.execute(f"DELETE FROM {table}")
        target.connection.execute(f"INSERT INTO {table} (id) VALUES (1)")
    ((found,),) = target.rows("day")
    if target.kind is not Kind.SQLITE:
        assert found == written
    elif given == "the table's default":
        assert found == str(written)
    else:
        assert found == (written - date(1970, 1, 1)).days * 86_400_000


def test_numbers_and_texts_are_written_as_timestamps_where_that_is_asked_for(
    target: Target,
) -> None:
    schema = struct({"id": INT32, "at": INT64, "said": STRING})
    rows = [
        {"id": 1, "at": 1_709_210_096_789_000, "said": "2024-02-29T13:34:56.789+01:00"},
        {"id": 2, "at": 0, "said": "yesterday"},
    ]
    writer = target.sink(
        errors__tolerance="all", auto__create="true", timestamp__fields__list="at,said"
    )
    failed = write(writer, target.records(rows, schema))
    assert list(failed) == [1]
    assert "column 'said'" in str(failed[1])
    ((_, at, said),) = target.rows()
    assert (
        at
        == said
        == (
            int(NOON.timestamp() * 1000)
            if target.kind is Kind.SQLITE
            else NOON.replace(tzinfo=None)
        )
    )


def test_the_last_of_several_rows_with_one_key_counts(target: Target) -> None:
    writer = target.sink(
        auto__create="true", insert__mode="upsert", pk__mode="record_value", pk__fields="id"
    )
    batch = [row(1, "a"), row(2, "b"), row(1, "c", 5), row(3, "d"), row(1, "e")]
    assert write(writer, target.records(batch)) == {}
    assert target.rows() == [(1, "e", None), (2, "b", None), (3, "d", None)]
    assert write(writer, target.records([row(2, "z", 9), row(4)])) == {}
    assert target.rows() == [(1, "e", None), (2, "z", 9), (3, "d", None), (4, None, None)]


def test_rows_that_are_all_key_are_upserted(target: Target) -> None:
    schema = struct({"a": INT32, "b": INT32})
    writer = target.sink(auto__create="true", insert__mode="upsert", pk__mode="record_value")
    records = target.records([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 1}], schema)
    assert write(writer, records) == {}
    assert write(writer, records) == {}
    assert target.rows(order="1, 2") == [(1, 1), (1, 2)]


def test_an_update_changes_rows_that_are_there_and_makes_none(target: Target) -> None:
    target.create("id bigint PRIMARY KEY, name varchar(20), amount bigint, other int DEFAULT 7")
    target.connection.execute(
        f"INSERT INTO {target.quoted(target.table)} (id, name) VALUES (1, 'a'), (2, 'b')"
    )
    writer = target.sink(insert__mode="update", pk__mode="record_key")
    batch = [(1, row(1, "x", 1)), (3, row(3, "y")), (1, row(1, "z", 2))]
    assert write(writer, target.keyed(batch)) == {}
    assert target.rows() == [(1, "z", 2, 7), (2, "b", None, 7)]


def test_tombstones_delete_and_what_follows_them_is_there_again(target: Target) -> None:
    writer = target.sink(
        auto__create="true", insert__mode="upsert", pk__mode="record_key", delete__enabled="true"
    )
    batch: list[tuple[int, Value]] = [
        (1, row(1, "a")), (2, row(2, "b")), (1, None), (3, None), (3, row(3, "c")),
        (2, row(2, "d")),
    ]  # fmt: skip
    assert write(writer, target.keyed(batch)) == {}
    assert target.rows() == [(2, "d", None), (3, "c", None)]
    assert write(writer, target.keyed([(2, None), (4, row(4)), (4, None), (3, row(3, "e"))])) == {}
    assert target.rows() == [(3, "e", None)]


@only("postgresql", "mariadb")  # SQLite replaces whole rows anyway
def test_a_row_that_is_there_again_has_nothing_of_the_one_that_was_deleted(target: Target) -> None:
    target.create("id bigint PRIMARY KEY, name varchar(9), amount bigint, note varchar(9)")
    keyed = {"pk.mode": "record_key", "pk.fields": "id", "delete.enabled": "true"}
    writer = target.sink(insert__mode="upsert", **keyed)
    assert write(writer, target.keyed([(at, row(at, "old")) for at in range(5)])) == {}
    target.connection.execute(f"UPDATE {target.quoted(target.table)} SET note = 'mine'")
    batch = [(0, row(0, "new")), (1, None), (1, row(1, "new")), (2, None), (3, row(3, "new"))]
    batch += [(3, None), (2, row(2, "new")), (2, None), (2, row(2, "newer"))]
    assert write(writer, target.keyed(batch)) == {}
    assert target.rows("id, name, note") == [
        (0, "new", "mine"),
        (1, "new", None),
        (2, "newer", None),
        (4, "old", "mine"),
    ]


def test_deletes_and_inserts_keep_their_order(target: Target) -> None:
    writer = target.sink(auto__create="true", pk__mode="record_key", delete__enabled="true")
    batch = [(1, row(1, "a")), (1, None), (1, row(1, "b")), (2, None), (1, None), (1, row(1, "c"))]
    assert write(writer, target.keyed(batch)) == {}
    assert target.rows() == [(1, "c", None)]


def test_rows_of_a_key_of_several_columns_are_deleted(target: Target) -> None:
    key = struct({"z": INT32, "a": STRING})
    value = struct({"a": STRING, "n": INT32, "z": INT32})
    target.create("a varchar(20), z int, n int, PRIMARY KEY (a, z)")
    writer = target.sink(insert__mode="upsert", pk__mode="record_key", delete__enabled="true")
    keys = [{"z": at, "a": "k"} for at in (1, 2, 1)]
    rows = [{"a": "k", "n": 5, "z": 1}, {"a": "k", "n": 6, "z": 2}, None]
    assert write(writer, target.records(rows, value, keys, key)) == {}
    assert target.rows() == [("k", 2, 6)]


def test_a_key_that_is_no_struct_has_the_name_that_is_given(target: Target) -> None:
    schema = struct({"name": STRING})
    writer = target.sink(
        auto__create="true", insert__mode="upsert", pk__mode="record_key", pk__fields="number"
    )
    records = target.records(
        [{"name": "a"}, {"name": "b"}, {"name": "c"}], schema, [1, 2, 1], INT32
    )
    assert write(writer, records) == {}
    assert target.rows("number, name") == [(1, "c"), (2, "b")]


def test_topic_partition_and_offset_may_be_the_key(target: Target) -> None:
    target.create(
        "__connect_topic varchar(80), __connect_partition int, __connect_offset bigint, "
        "id bigint, name varchar(20), amount bigint, "
        "PRIMARY KEY (__connect_topic, __connect_partition, __connect_offset)"
    )
    writer = target.sink(insert__mode="upsert", pk__mode="kafka")
    records = target.records([row(7), row(8)], first=41)
    for _ in range(2):
        assert write(writer, records) == {}
    assert target.rows(order="3") == [
        (target.table, 0, 41, 7, None, None),
        (target.table, 0, 42, 8, None, None),
    ]


def test_texts_go_into_a_column_of_their_own(target: Target) -> None:
    writer = target.sink(auto__create="true")
    assert write(writer, target.records(["a", "b"], OPTIONAL_STRING)) == {}
    assert target.rows("record_value") == [("a",), ("b",)]


def test_several_schemas_and_tables_in_one_batch(target: Target) -> None:
    wide = struct({"id": INT64, "more": OPTIONAL_STRING})
    writer = target.sink(
        auto__create="true", auto__evolve="true", insert__mode="upsert", pk__mode="record_value",
        pk__fields="id", topics__to__tables__mapping=f"second:{target.table}_b",
    )  # fmt: skip
    schemas = [ROW, wide, ROW, wide]
    values: list[Value] = [row(1, "a"), {"id": 1, "more": "m"}, row(2, "b"), {"id": 3, "more": "n"}]
    records = target.records(values)
    records.values = Column.gather(values, schemas)
    records.topics = [target.table, target.table, "second", target.table]
    second = target.quoted(f"{target.table}_b")
    try:
        assert write(writer, records) == {}
        lost = None if target.kind is Kind.SQLITE else "a"  # INSERT OR REPLACE replaces the row
        assert target.rows("id, name, more") == [(1, lost, "m"), (3, None, "n")]
        assert target.connection.rows(f"SELECT id, name FROM {second}") == [(2, "b")]
    finally:
        target.connection.execute(f"DROP TABLE IF EXISTS {second}")


def test_rows_that_are_refused_are_named_and_their_neighbours_written(target: Target) -> None:
    target.create(
        "id bigint PRIMARY KEY, name varchar(5) NOT NULL CHECK (length(name) < 6), amount int"
    )
    writer = target.sink(errors__tolerance="all")
    rows = [row(at, "good") for at in range(1000)]
    rows[17] = row(17, "much too long")
    rows[400] = row(3, "twice")
    rows[999] = row(999, None)
    failed = write(writer, target.records(rows, first=5000))
    assert sorted(failed) == [17, 400, 999]
    assert all(isinstance(error, RowRefused) for error in failed.values())
    assert f'Table "{target.table}"' in str(failed[17])
    assert "offset=5017" in str(failed[17])
    assert len(target.rows()) == 997
    assert write(writer, target.records([row(17, "again")])) == {}


def test_the_row_before_one_that_is_refused_comes_into_its_own(target: Target) -> None:
    target.create("id bigint PRIMARY KEY, name varchar(5) CHECK (length(name) < 6), amount bigint")
    writer = target.sink(
        errors__tolerance="all",
        insert__mode="upsert",
        pk__mode="record_key",
        delete__enabled="true",
    )
    batch: list[tuple[int, Value]] = [
        (1, row(1, "a")), (2, row(2, "b")), (1, row(1, "c")), (1, row(1, "too long")),
        (2, None), (2, row(2, "too long")), (3, row(3, "d")),
    ]  # fmt: skip
    assert sorted(write(writer, target.keyed(batch))) == [3, 5]
    assert target.rows() == [(1, "c", None), (3, "d", None)]


def test_a_null_in_a_key_is_reported_with_table_column_and_record(target: Target) -> None:
    key = struct({"id": OPTIONAL_INT64})
    writer = target.sink(
        errors__tolerance="all", auto__create="true", insert__mode="upsert", pk__mode="record_key"
    )
    records = target.records(
        [row(1), row(2), row(3)], ROW, [{"id": 1}, {"id": None}, {"id": 3}], key, first=10
    )
    failed = write(writer, records)
    assert list(failed) == [1]
    assert f"column 'id' of table \"{target.table}\"" in str(failed[1])
    assert "offset=11" in str(failed[1])
    assert [number for number, *_ in target.rows()] == [1, 3]


def test_records_without_a_schema_or_a_value_are_refused(target: Target) -> None:
    target.create("id bigint, name varchar(5), amount bigint")
    values: list[Value] = [row(1), None, {"id": 2}]
    records = target.records(values)
    records.values = Column.gather(values, [ROW, None, None])
    failed = write(target.sink(errors__tolerance="all"), records)
    assert sorted(failed) == [1, 2]
    assert "requires records with a non-null Struct value and non-null Struct schema" in str(
        failed[1]
    )
    assert all(isinstance(error, DataError) for error in failed.values())
    assert len(target.rows()) == 1


def test_a_table_that_is_missing_is_reported(target: Target) -> None:
    failed = write(target.sink(), target.records([row(1), row(2)]))
    assert sorted(failed) == [0, 1]
    assert isinstance(failed[0], TableMismatch)
    assert f'Table "{target.table}" is missing and auto-creation is disabled' in str(failed[0])
    target.create("id bigint, name varchar(5), amount bigint")
    writer = target.opened[0]
    assert write(writer, target.records([row(1), row(2)])) == {}, "the table is there now"


def test_columns_are_added_if_that_is_allowed_and_they_may_be_null(target: Target) -> None:
    target.create("id bigint")
    failed = write(target.sink(), target.records([row(1)]))
    assert "is missing fields ('name', 'amount') and auto-evolution is disabled" in str(failed[0])
    writer = target.sink(auto__evolve="true")
    assert write(writer, target.records([row(1, "a", 5)])) == {}
    strict = struct({"id": INT64, "must": INT32})
    failed = write(writer, target.records([{"id": 2, "must": 1}], strict))
    assert "as the field is not optional and does not have a default value" in str(failed[0])
    default = struct({"id": INT64, "must": Schema(INT32.type, default=3)})
    assert write(writer, target.records([{"id": 2, "must": 1}], default)) == {}
    assert target.rows("id, name, amount, must") == [(1, "a", 5, 3), (2, None, None, 1)]


def test_a_table_that_is_altered_while_it_is_written_to(target: Target) -> None:
    writer = target.sink(auto__create="true", auto__evolve="true")
    assert write(writer, target.records([row(1, "a", 1)])) == {}
    target.connection.execute(f"DROP TABLE {target.quoted(target.table)}")
    target.create("amount bigint, id bigint")
    assert write(writer, target.records([row(2, "b", 2)])) == {}
    assert target.rows("id, name, amount") == [(2, "b", 2)]


def test_nested_values_are_refused_before_anything_is_written(target: Target) -> None:
    schema = struct({"id": INT64, "inside": ROW})
    failed = write(target.sink(auto__create="true"), target.records([{"id": 1}], schema))
    assert "inside" in str(failed[0])


def test_only_the_fields_that_are_listed_are_written(target: Target) -> None:
    writer = target.sink(auto__create="true", fields__whitelist="name", pk__mode="record_value",
                         pk__fields="id")  # fmt: skip
    assert write(writer, target.records([row(1, "a", 5)])) == {}
    assert target.rows() == [(1, "a")]


def test_names_are_not_quoted_if_that_is_asked_for(target: Target) -> None:
    writer = target.sink(auto__create="true", quote__sql__identifiers="never",
                         table__name__format="plain_${topic}")  # fmt: skip
    name = f"plain_{target.table}"
    try:
        assert write(writer, target.records([row(1, "a", 5)])) == {}
        assert target.connection.rows(f"SELECT * FROM {name}") == [(1, "a", 5)]
    finally:
        target.connection.execute(f"DROP TABLE IF EXISTS {name}")


@only("postgresql")
def test_a_schema_may_qualify_the_table(target: Target) -> None:
    target.connection.execute('CREATE SCHEMA "Other"')
    try:
        writer = target.sink(auto__create="true", table__name__format="Other.${topic}")
        assert write(writer, target.records([row(1, "a", 5)])) == {}
        assert target.connection.rows(f'SELECT * FROM "Other"."{target.table}"') == [(1, "a", 5)]
    finally:
        target.connection.execute('DROP SCHEMA "Other" CASCADE')


@only("postgresql", "sqlite")
def test_a_constraint_that_is_checked_at_the_end_refuses_its_row(target: Target) -> None:
    parent = f"{target.table}_parent"
    target.connection.execute(f'CREATE TABLE "{parent}" (id bigint PRIMARY KEY)')
    target.connection.execute(f'INSERT INTO "{parent}" VALUES (1), (3)')
    late = "" if target.kind is Kind.SQLITE else "DEFERRABLE INITIALLY DEFERRED"
    target.create(f'id bigint REFERENCES "{parent}" {late}, name varchar(9), amount bigint')
    url = target.url + ("?foreign_keys=on" if target.kind is Kind.SQLITE else "")
    try:
        failed = write(
            target.sink(errors__tolerance="all", connection__url=url),
            target.records([row(1), row(2), row(3)]),
        )
        assert list(failed) == [1]
        assert [number for number, *_ in target.rows()] == [1, 3]
    finally:
        target.connection.execute(f"DROP TABLE {target.quoted(target.table)}")
        target.connection.execute(f'DROP TABLE "{parent}"')
