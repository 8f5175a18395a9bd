"""The JDBC connectors with a database reached through its driver's jar: H2, in its own process."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from penstock.api import SourceOffset
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import DatabaseBusy, DatabaseRefused, RowRefused
from penstock.connectors.jdbc.drivers.jvm.connection import DriverConnection
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.source import JdbcSource
from penstock.connectors.jdbc.write.tables import TableMismatch
from penstock.data import schema as s
from penstock.data.records import Records
from penstock.data.schema import Schema, Value
from penstock.errors import ConfigInvalid, DataError, PenstockError
from penstock.host import jars
from penstock.testing.conformance import (
    SinkConformance,
    SinkEndToEnd,
    SourceEndToEnd,
    records_of,
)
from penstock.testing.waiting import wait_until
from tests.servers.databases import DatabaseServer

from .tables import (
    MOST,
    NotesConformance,
    Target,
    ids_read_around_a_kill,
    ids_written_around_kills,
    only_poll,
    only_row,
    open_reader,
    polls,
    props,
    read,
    reader_of,
    row,
    rows_of,
    run,
    write,
)

# Its JVM lives in the test process; with what all other tests leave behind in a process it crashes
# at the end.
pytestmark = pytest.mark.alone

_names = itertools.count(1)


class H2Server(DatabaseServer):
    """H2, with its files in a folder."""

    @property
    def url(self) -> str:
        return f"jdbc:h2:tcp://127.0.0.1:{self.port}/./{self.database};WRITE_DELAY=0"

    @property
    def jar(self) -> str:
        (jar,) = jars.folder("h2").glob("*.jar")
        return str(jar)

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "penstock.jdbc.driver.jars": self.jar}

    def connect(self) -> Connection:
        props = {**self.settings(), "topics": "t", "connection.attempts": "1"}
        return database_of(JDBC_SINK.parse(props)).connect()

    def _install(self) -> None:
        (self._folder / "data").mkdir()

    def _command(self) -> list[str]:
        return [
            *(jars.java(), "-Xmx256m", "-cp", self.jar, "org.h2.tools.Server", "-tcp"),
            *("-tcpPort", str(self.port), "-ifNotExists"),
            *("-baseDir", str(self._folder / "data")),
        ]

    def _as_nobody(self, command: Sequence[str]) -> list[str]:
        return list(command)

    def _create_database(self) -> None:
        self.connect().close()  # the first client creates it


@pytest.fixture(scope="module")
def server() -> Iterator[H2Server]:
    with H2Server() as server:
        assert isinstance(server, H2Server)
        yield server


@pytest.fixture
def table() -> str:
    return f"Orders_{next(_names)}"


class OnH2(NotesConformance):
    bad_configs = (
        ({"connection.password": "wrong"}, "connection.url"),
        ({"connection.url": "jdbc:nothing:x"}, "connection.url"),
        ({"penstock.jdbc.driver.jars": "no-such.jar"}, "penstock.jdbc.driver.jars"),
        ({"penstock.jdbc.driver.class": "no.such.Driver"}, "penstock.jdbc.driver.class"),
        ({"dialect.name": "PostgreSqlDatabaseDialect"}, "dialect.name"),
    )
    notes = '"notes"'
    dialect: ClassVar[str] = ""

    @pytest.fixture(autouse=True)
    def _fresh(self, server: H2Server) -> None:
        self.server = server
        run(
            server,
            'DROP TABLE IF EXISTS "notes"',
            'CREATE TABLE "notes" ("id" INTEGER NOT NULL PRIMARY KEY, "text" VARCHAR(200), '
            '"changed" TIMESTAMP(6) NOT NULL)',
        )

    def config(self) -> dict[str, str]:
        return {**super().config(), "dialect.name": self.dialect}


class TestIncrementing(OnH2):
    pass


class TestBoth(OnH2):
    mode = "timestamp+incrementing"


class TestGenericDialect(OnH2):
    mode = "timestamp+incrementing"
    dialect = "GenericDatabaseDialect"


READ: dict[str, tuple[str, str, Schema, object]] = {
    "b": ("BOOLEAN", "TRUE", s.BOOLEAN, True),
    "i1": ("TINYINT", "-1", s.INT8, -1),
    "i2": ("SMALLINT", "-2", s.INT16, -2),
    "i4": ("INTEGER", "4", s.INT32, 4),
    "i8": ("BIGINT", "-9223372036854775808", s.INT64, -(1 << 63)),
    "f4": ("REAL", "0.1", s.FLOAT32, 0.10000000149011612),
    "f8": ("DOUBLE PRECISION", "0.1", s.FLOAT64, 0.1),
    "nan": ("DOUBLE PRECISION", "'Infinity'", s.FLOAT64, float("inf")),
    "n": ("NUMERIC(10,3)", "12.5", s.decimal(3), Decimal("12.500")),
    "d2": ("DECIMAL(40,20)", "-1e-20", s.decimal(20), Decimal("-1e-20")),
    "df": ("DECFLOAT", "7", s.decimal(0), Decimal(7)),
    "txt": ("VARCHAR", "'a\"b,' || CHAR(10) || 'ä🚰'", s.STRING, 'a"b,\nä🚰'),
    "empty": ("VARCHAR(5)", "''", s.STRING, ""),
    "ch": ("CHAR(3)", "'c'", s.STRING, "c  "),
    "clb": ("CLOB", "REPEAT('ü', 5000)", s.STRING, "ü" * 5000),
    "raw": ("VARBINARY(9)", "X'00ff'", s.BYTES, b"\0\xff"),
    "blb": ("BLOB", "X'ff'", s.BYTES, b"\xff"),
    "u": (
        "UUID",
        "'6f8f5771-5090-da26-3245-3988d9a1501b'",
        s.BYTES,
        bytes.fromhex("6f8f57715090da2632453988d9a1501b"),
    ),
    "d": ("DATE", "'2024-02-29'", s.DATE, date(2024, 2, 29)),
    "old": ("DATE", "'1500-02-28'", s.DATE, date(1500, 2, 28)),
    "t": ("TIME(6)", "'23:59:59.123456'", s.TIME, time(23, 59, 59, 123_000)),
    "ttz": ("TIME WITH TIME ZONE", "'01:00:00+02'", s.TIME, time(23)),
    "ts": (
        "TIMESTAMP(9)",
        "'2024-07-01 12:00:00.123456789'",
        s.TIMESTAMP,
        datetime(2024, 7, 1, 12, 0, 0, 123_000, tzinfo=UTC),
    ),
    "early": ("TIMESTAMP", "'1500-01-01 00:00:00'", s.TIMESTAMP, datetime(1500, 1, 1, tzinfo=UTC)),
    "before": (
        "TIMESTAMP",
        "'1969-12-31 23:59:59.5'",
        s.TIMESTAMP,
        datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC),
    ),
    "tstz": (
        "TIMESTAMP WITH TIME ZONE",
        "'2024-07-01 12:00:00+02'",
        s.TIMESTAMP,
        datetime(2024, 7, 1, 10, tzinfo=UTC),
    ),
}


def test_every_type_has_its_schema_and_value(server: H2Server, table: str) -> None:
    columns = ", ".join(f'"{name}" {each[0]} NOT NULL' for name, each in READ.items())
    maybe = ", ".join(f'"o_{name}" {each[0]}' for name, each in READ.items())
    names = ", ".join(f'"{name}"' for name in READ)
    run(
        server,
        f'CREATE TABLE "{table}" ("id" INTEGER PRIMARY KEY, {columns}, {maybe})',
        f'INSERT INTO "{table}" ("id", {names}) VALUES (1, '
        f"{', '.join(each[1] for each in READ.values())})",
    )
    row, schema = only_row(open_reader(server, table, incrementing__column__name="id"))
    assert schema.name == table
    wanted = {name: each[2] for name, each in READ.items()}
    assert {name: field.schema for name in wanted if (field := schema.field(name))} == wanted
    optional = {f"o_{name}": each[2].as_optional() for name, each in READ.items()}
    assert {name: field.schema for name in optional if (field := schema.field(name))} == optional
    assert {name: row[name] for name in READ} == {name: each[3] for name, each in READ.items()}
    assert {row[name] for name in optional} == {None}


def test_columns_without_a_type_of_connect_are_left_out_and_told(
    server: H2Server, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("id" INT PRIMARY KEY, "tags" INT ARRAY, "j" JSON, "name" CHAR)',
        f"INSERT INTO \"{table}\" VALUES (1, ARRAY[1], JSON '1', 'n')",
    )
    row, _ = only_row(open_reader(server, table, incrementing__column__name="id"))
    assert row == {"id": 1, "name": "n"}
    assert "column 'tags' is of type INTEGER ARRAY" in caplog.text
    assert "column 'j' is of type JSON" in caplog.text


def test_the_column_that_the_database_counts_by_itself_is_found(
    server: H2Server, table: str
) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("n" NUMERIC(18) GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, '
        '"s" VARCHAR)',
        f'INSERT INTO "{table}" ("s") SELECT \'row\' FROM SYSTEM_RANGE(1, 500)',
    )
    reader = open_reader(server, table, range_bytes=1000)
    rows, end = read(reader)
    assert [row["n"] for row in rows] == list(range(1, 501))
    assert end == [
        SourceOffset({"protocol": "1", "table": f"SHOP.PUBLIC.{table}"}, {"incrementing": 500})
    ]


@pytest.mark.parametrize("dialect", ["", "GenericDatabaseDialect"])
def test_a_query_is_read_by_timestamp_in_the_zone_of_the_setting(
    server: H2Server, table: str, dialect: str
) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("at" TIMESTAMP(9) NOT NULL, "s" VARCHAR)',
        f"INSERT INTO \"{table}\" SELECT TIMESTAMP '2024-07-01 12:00:00.000000900' + "
        "(X / 3) * INTERVAL '0.000001' SECOND, '50%?' FROM SYSTEM_RANGE(0, 299)",
    )
    settings: dict[str, object] = {
        "mode": "timestamp",
        "query": f'SELECT "at", "s" FROM "{table}" WHERE "s" LIKE \'%?\'',
        "timestamp__column__name": "at",
        "db__timezone": "Europe/Berlin",
        "dialect__name": dialect,
    }
    reader = open_reader(server, table, range_bytes=100, **settings)
    rows, end = read(reader)
    assert len(rows) == 300
    assert rows[0]["at"] == datetime(2024, 7, 1, 10, tzinfo=UTC)
    assert read(reader) == ([], [])
    assert read(open_reader(server, table, end, **settings)) == ([], [])
    reader = open_reader(server, table, **settings)
    done = 0
    for polled in polls(reader, 500):
        done += len(polled.records)
        rest = open_reader(server, table, polled.offsets, **settings)
        assert len(read(rest)[0]) == 300 - done


def test_a_bulk_query_runs_as_it_is(server: H2Server, table: str) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("id" INT, "at" TIMESTAMP(9), "tags" INT ARRAY)',
        f"INSERT INTO \"{table}\" VALUES (1, '2024-07-01 12:00:00', ARRAY[1]), (2, NULL, NULL)",
    )
    for query, wanted in (
        (f'SELECT "id" FROM "{table}" ORDER BY 1 DESC -- all', [{"id": 2}, {"id": 1}]),
        (
            f'SELECT "tags", "at", "id" FROM "{table}" WHERE "id" = 1;',
            [{"at": datetime(2024, 7, 1, 12, tzinfo=UTC), "id": 1}],
        ),
        ("CALL 1 + 1", [{"1 + 1": 2}]),
    ):
        given: dict[str, object] = {"mode": "bulk", "query": query, "poll__interval__ms": 9_999_999}
        config = JDBC_SOURCE.parse(props(server, "", **given))
        assert not [found for found in JdbcSource().validate_live(config) if found.error]
        found = read(open_reader(server, "", **given))[0]
        assert [dict(zip(wanted[0], row.values(), strict=True)) for row in found] == wanted
    (schemas,) = read(
        open_reader(server, "", mode="bulk", query="SHOW SCHEMAS", poll__interval__ms=9_999_999)
    )[:1]
    assert "PUBLIC" in [name for row in schemas for name in row.values()]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("zoned", ["", " WITH TIME ZONE"])
def test_nanoseconds_are_compared_stored_and_read(
    server: H2Server, table: str, zoned: str, mode: str
) -> None:
    start = 1_719_835_200_123_456_000
    run(
        server,
        f'CREATE TABLE "{table}" ("id" INT NOT NULL, "at" TIMESTAMP(9){zoned} NOT NULL)',
        # The later of two rows has the smaller id.
        *(
            f'INSERT INTO "{table}" VALUES ({id}, TIMESTAMP{zoned} '
            f"'2024-07-01 12:00:00.{123456000 + ns:09}{'+00' if zoned else ''}')"
            for id, ns in ((5, 0), (4, 1), (3, 2), (2, 2), (1, 999))
        ),
    )
    settings: dict[str, object] = {
        "mode": mode,
        "timestamp__column__name": "at",
        "incrementing__column__name": "id",
        "timestamp__granularity": "nanos_long",
    }
    reader = open_reader(server, table, **settings)
    rows, end = read(reader)
    assert [(row["at"] - start) for row in rows] == [0, 1, 2, 2, 999], "and the newest at once"
    assert end[0].offset is not None
    assert end[0].offset["timestamp_nanos"] == 123_456_999
    reader = open_reader(server, table, **settings)
    done = 0
    for polled in polls(reader, 1):
        done += len(polled.records)
        if polled.offsets:
            rest = open_reader(server, table, polled.offsets, **settings)
            assert len(read(rest)[0]) == 5 - done
    assert done == 5


@pytest.mark.parametrize("value", ["'10000-01-01'", "'300000-01-01'", "'-0043-03-15'"])
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP(9) WITH TIME ZONE"])
def test_the_rows_before_a_bad_one_are_delivered(
    server: H2Server, table: str, kind: str, value: str
) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("id" INT PRIMARY KEY, "x" {kind})',
        f"INSERT INTO \"{table}\" VALUES (1, '2024-01-01'), (2, NULL), (3, {value})",
    )
    reader = open_reader(server, table, incrementing__column__name="id")
    before = reader.poll(MOST, 0)
    assert before is not None
    assert [row["id"] for row in rows_of(reader, before)] == [1, 2]
    with pytest.raises(DataError, match="Column 'x'"):
        reader.poll(MOST, 0)


def test_a_table_with_a_zone_in_its_timestamps_is_read_to_the_end(
    server: H2Server, table: str
) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("id" INT PRIMARY KEY, "at" TIMESTAMP(6) WITH TIME ZONE NOT NULL)',
        f"INSERT INTO \"{table}\" SELECT X, TIMESTAMP WITH TIME ZONE '2024-07-01 12:00:00+02' + "
        "X * INTERVAL '1' SECOND FROM SYSTEM_RANGE(1, 300)",
        f"INSERT INTO \"{table}\" VALUES (1000, CURRENT_TIMESTAMP + INTERVAL '1' HOUR)",
    )
    settings: dict[str, object] = {
        "mode": "timestamp",
        "timestamp__column__name": "at",
        "db__timezone": "GMT+5",
    }
    reader = open_reader(server, table, range_bytes=500, **settings)
    rows, end = read(reader)
    assert [row["id"] for row in rows] == list(range(1, 301)), "not what is still to come"
    assert rows[0]["at"] == datetime(2024, 7, 1, 10, 0, 1, tzinfo=UTC)
    run(server, f'INSERT INTO "{table}" VALUES (1001, CURRENT_TIMESTAMP)')
    later: list[int] = []

    def new_row() -> bool:
        later.extend(row["id"] for row in read(reader)[0])
        return bool(later)

    wait_until(new_row, 10, "the new row")
    assert later == [1001]
    assert [row["id"] for row in read(open_reader(server, table, end, **settings))[0]] == [1001]


@pytest.mark.parametrize("dialect", ["", "GenericDatabaseDialect"])
def test_a_table_in_parts_is_read_once(server: H2Server, table: str, dialect: str) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("id" BIGINT PRIMARY KEY)',
        f'INSERT INTO "{table}" SELECT 7 * X FROM SYSTEM_RANGE(0, 4999)',
    )
    given = JDBC_SOURCE.parse(
        props(
            server,
            table,
            incrementing__column__name="id",
            penstock__table__parts=3,
            penstock__table__part__keys=500,
            penstock__read__parallelism=2,
            dialect__name=dialect,
        )
    )
    found = [
        [row["id"] for row in read(reader_of(task, range_bytes=5000))[0]]
        for task in JdbcSource().plan_tasks(given, 3)
    ]
    assert all(len(each) > 1000 for each in found)
    assert sorted(itertools.chain(*found)) == [7 * at for at in range(5000)]


def test_a_bulk_poll_reads_rows_of_all_sizes(server: H2Server, table: str) -> None:
    run(
        server,
        f'CREATE TABLE "{table}" ("id" INT PRIMARY KEY, "s" CLOB)',
        f"INSERT INTO \"{table}\" SELECT X, CASE WHEN MOD(X, 1000) = 0 THEN REPEAT('x', 3000000) "
        "ELSE 'y' END FROM SYSTEM_RANGE(1, 20000)",
    )
    reader = open_reader(server, table, mode="bulk", transaction__isolation__mode="SERIALIZABLE")
    rows: list[Any] = []
    while (polled := reader.poll(1 << 20, 0)) is not None:
        rows += rows_of(reader, polled)
        if polled.offsets:
            break
    assert sorted(row["id"] for row in rows) == list(range(1, 20_001))
    assert sum(len(row["s"]) for row in rows) == 20 * 3_000_000 + 19_980


def test_views_and_tables_of_other_schemas_are_found(server: H2Server, table: str) -> None:
    run(
        server,
        f'CREATE SCHEMA "{table}"',
        f'CREATE TABLE "{table}"."{table}" ("id" INT PRIMARY KEY)',
        f'CREATE VIEW "{table}"."{table}_seen" AS SELECT * FROM "{table}"."{table}"',
        f'INSERT INTO "{table}"."{table}" VALUES (5)',
    )
    for name, kind in ((table, "TABLE"), (f"{table}_seen", "VIEW")):
        reader = open_reader(
            server,
            f"{table}.{name}",
            table__types=kind,
            schema__pattern=table,
            incrementing__column__name="id",
            validate__non__null="false",
        )
        assert [row["id"] for row in read(reader)[0]] == [5]


NOON = datetime(2024, 2, 29, 12, 34, 56, 789_000, tzinfo=UTC)
TYPES: list[tuple[str, Schema, Value]] = [
    ("i8", s.INT8, -128),
    ("i16", s.INT16, 32_767),
    ("i32", s.INT32, -(2**31)),
    ("i64", s.INT64, 2**63 - 1),
    ("f32", s.FLOAT32, 1.5),
    ("f64", s.FLOAT64, -2.2250738585072014e-308),
    ("flag", s.BOOLEAN, True),
    ("text", s.STRING, "tab\tnewline\nback\\slash 'quoted\" \\N ü 🚰\0"),
    ("empty", s.STRING, ""),
    ("data", s.BYTES, b"\x00\xff\\x'\n"),
    ("nothing", s.BYTES, b""),
    ("price", s.decimal(2), Decimal("-1234.50")),
    ("huge", s.decimal(30), Decimal("1" * 40 + "." + "2" * 30)),
    ("day", s.DATE, date(1969, 12, 31)),
    ("old", s.DATE, date(1500, 2, 28)),
    ("clock", s.TIME, time(23, 59, 59, 999_000)),
    ("moment", s.TIMESTAMP, NOON),
    ("early", s.TIMESTAMP, datetime(1500, 1, 1, tzinfo=UTC)),
]


@pytest.fixture
def target(server: H2Server, table: str) -> Iterator[Target]:
    with server.connect() as connection:
        made = Target(server.settings(), table, connection)
        try:
            yield made
        finally:
            made.close()


UPSERTS = [
    pytest.param("", id="merge"),
    pytest.param("GenericDatabaseDialect", id="update-then-insert"),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_there_and_back(server: H2Server, target: Target, zone: str) -> None:
    columns = {name: schema for name, schema, _ in TYPES}
    schema = s.struct(
        {"id": s.INT32, **{name: each.as_optional() for name, each in columns.items()}},
        name=target.table,
    )
    full = {"id": 1, **{name: value for name, _, value in TYPES}}
    empty = {"id": 2, **dict.fromkeys(columns)}
    writer = target.sink(auto__create="true", db__timezone=zone, pk__mode="record_value",
                         pk__fields="id")  # fmt: skip
    assert write(writer, target.records([full, empty], schema)) == {}
    reader = open_reader(server, target.table, incrementing__column__name="id", db__timezone=zone)
    rows, _ = read(reader)
    assert rows[0] == full
    assert rows[1] == empty
    again = open_reader(server, target.table, incrementing__column__name="id", db__timezone=zone)
    ((found, _, _),) = only_poll(again).records.values.slices()
    assert found == schema


def test_timestamps_are_those_of_the_time_zone(target: Target) -> None:
    target.create('"id" INT, "wall" TIMESTAMP(6), "instant" TIMESTAMP(6) WITH TIME ZONE')
    schema = s.struct({"id": s.INT32, "wall": s.TIMESTAMP, "instant": s.TIMESTAMP})
    writer = target.sink(db__timezone="GMT+5")
    assert write(writer, target.records([{"id": 1, "wall": NOON, "instant": NOON}], schema)) == {}
    assert target.rows() == [(1, NOON.replace(hour=17, tzinfo=None), NOON.replace(tzinfo=None))]


@pytest.mark.parametrize("dialect", UPSERTS)
def test_the_last_of_several_rows_with_one_key_counts(target: Target, dialect: str) -> None:
    writer = target.sink(
        auto__create="true",
        insert__mode="upsert",
        pk__mode="record_value",
        pk__fields="id",
        dialect__name=dialect,
    )
    batch = [row(1, "a"), row(2, "b"), row(1, "c", 5), row(3, "d"), row(1, "e")]
    assert write(writer, target.records(batch)) == {}
    assert target.rows() == [(1, "e", None), (2, "b", None), (3, "d", None)]
    assert write(writer, target.records([row(2, "z", 9), row(4)])) == {}
    assert target.rows() == [(1, "e", None), (2, "z", 9), (3, "d", None), (4, None, None)]


@pytest.mark.parametrize("dialect", UPSERTS)
def test_rows_that_are_all_key_are_upserted(target: Target, dialect: str) -> None:
    schema = s.struct({"a": s.INT32, "b": s.INT32})
    writer = target.sink(auto__create="true", insert__mode="upsert", pk__mode="record_value",
                         dialect__name=dialect)  # fmt: skip
    records = target.records([{"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 1}], schema)
    assert write(writer, records) == {}
    assert write(writer, records) == {}
    assert target.rows() == [(1, 1), (2, 2)]


@pytest.mark.parametrize("dialect", ["Db2DatabaseDialect"])
def test_the_merge_of_other_databases_is_one_that_the_standard_has(
    target: Target, dialect: str
) -> None:
    target.create('"id" BIGINT PRIMARY KEY, "name" VARCHAR(20), "amount" BIGINT, "o" INT DEFAULT 7')
    writer = target.sink(insert__mode="upsert", pk__mode="record_value", pk__fields="id",
                         dialect__name=dialect)  # fmt: skip
    assert write(writer, target.records([row(1, "a"), row(2, "b", 5)])) == {}
    target.connection.execute(f'UPDATE "{target.table}" SET "o" = 8')
    assert write(writer, target.records([row(2, None, 6), row(3, "c")])) == {}
    assert target.rows() == [(1, "a", None, 8), (2, None, 6, 8), (3, "c", None, 7)]


def test_an_update_changes_rows_that_are_there_and_makes_none(target: Target) -> None:
    target.create('"id" BIGINT PRIMARY KEY, "name" VARCHAR(20), "amount" BIGINT, "o" INT DEFAULT 7')
    target.connection.execute(
        f'INSERT INTO "{target.table}" ("id", "name") VALUES (1, \'a\'), (2, \'b\')'
    )
    writer = target.sink(insert__mode="update", pk__mode="record_key")
    batch = [(1, row(1, "x", 1)), (3, row(3, "y")), (1, row(1, "z", 2))]
    assert write(writer, target.keyed(batch)) == {}
    assert target.rows() == [(1, "z", 2, 7), (2, "b", None, 7)]


@pytest.mark.parametrize("dialect", UPSERTS)
def test_tombstones_delete(target: Target, dialect: str) -> None:
    writer = target.sink(
        auto__create="true",
        insert__mode="upsert",
        pk__mode="record_key",
        delete__enabled="true",
        dialect__name=dialect,
    )
    batch: list[tuple[int, Value]] = [(at, row(at, "a")) for at in range(1, 6)]
    assert write(writer, target.keyed([*batch, (2, None), (9, None)])) == {}
    assert [number for number, *_ in target.rows()] == [1, 3, 4, 5]
    again: list[tuple[int, Value]] = [(3, None), (3, row(3, "back")), (4, row(4, "x")), (4, None)]
    assert write(writer, target.keyed(again)) == {}
    assert target.rows('"id", "name"') == [(1, "a"), (3, "back"), (5, "a")]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
@pytest.mark.parametrize("dialect", UPSERTS)
def test_rows_that_are_refused_cost_no_others(target: Target, dialect: str, mode: str) -> None:
    target.create(
        '"id" BIGINT PRIMARY KEY, "name" VARCHAR(5), "amount" BIGINT CHECK ("amount" < 100)'
    )
    writer = target.sink(dialect__name=dialect, insert__mode=mode, pk__mode="record_value",
                         pk__fields="id", errors__tolerance="all")  # fmt: skip
    rows = [row(at, "ok", at) for at in range(98)]
    rows[10]["name"], rows[50]["amount"], rows[97]["name"] = "longer", 100, "half \ud800"
    failed = write(writer, target.records(rows, first=1000))
    assert sorted(failed) == [10, 50, 97]
    assert "offset=1010" in str(failed[10])
    assert isinstance(failed[50], RowRefused)
    assert isinstance(failed[97], DataError)
    assert [number for number, *_ in target.rows()] == [
        at for at in range(98) if at not in (10, 50, 97)
    ]


def test_columns_are_added_if_that_is_allowed_and_they_may_be_null(target: Target) -> None:
    target.create('"id" BIGINT')
    failed = write(target.sink(), target.records([row(1)]))
    assert "is missing fields ('name', 'amount') and auto-evolution is disabled" in str(failed[0])
    writer = target.sink(auto__evolve="true")
    assert write(writer, target.records([row(1, "a", 5)])) == {}
    fields = {
        "id": s.INT64,
        "n": Schema(s.INT32.type, default=3),
        "flag": Schema(s.BOOLEAN.type, default=True),
        "t": Schema(s.STRING.type, default="it's"),
        "raw": Schema(s.BYTES.type, default=b"\0\xff"),
    }
    default = s.struct(fields)
    full = {"id": 2, "n": 1, "flag": False, "t": "x", "raw": b""}
    assert write(writer, target.records([full], default)) == {}
    assert target.rows('"id", "name", "n", "flag", "t", "raw"') == [
        (1, "a", 3, True, "it's", b"\0\xff"),
        (2, None, 1, False, "x", b""),
    ]


def test_defaults_of_moments_are_those_of_the_schema(target: Target) -> None:
    fields = {
        "id": s.INT64,
        "d": replace(s.DATE, default=date(2024, 2, 29)),
        "t": replace(s.TIME, default=time(1, 2, 3)),
        "ts": replace(s.TIMESTAMP, default=NOON),
        "n": replace(s.decimal(2), default=Decimal("1.50")),
    }
    writer = target.sink(auto__create="true", pk__mode="record_value", pk__fields="id")
    full = {"id": 1, "d": date(2000, 1, 1), "t": time(0), "ts": NOON, "n": Decimal("2.00")}
    assert write(writer, target.records([full], s.struct(fields))) == {}
    target.connection.execute(f'INSERT INTO "{target.table}" ("id") VALUES (2)')
    assert target.rows('"d", "t", "ts", "n"')[1] == (
        date(2024, 2, 29), time(1, 2, 3), NOON.replace(tzinfo=None), Decimal("1.50"),
    )  # fmt: skip


def test_a_table_that_is_missing_is_reported(target: Target) -> None:
    failed = write(target.sink(), target.records([row(1), row(2)]))
    assert isinstance(failed[0], TableMismatch)
    assert f'Table "{target.table}" is missing and auto-creation is disabled' in str(failed[0])


def test_a_table_with_wildcards_in_its_name_is_not_another_one(target: Target) -> None:
    target.connection.execute(f'CREATE TABLE "{target.table.replace("_", "x")}" ("id" BIGINT)')
    assert write(target.sink(auto__create="true"), target.records([row(1, "a", 2)])) == {}
    assert target.rows() == [(1, "a", 2)]


def test_names_are_not_quoted_if_that_is_asked_for(target: Target) -> None:
    name = f"plain_{target.table}"
    writer = target.sink(
        auto__create="true",
        quote__sql__identifiers="never",
        table__name__format="plain_${topic}",
        insert__mode="upsert",
        pk__mode="record_value",
        pk__fields="id",
    )
    for amount in (1, 2):
        assert write(writer, target.records([row(1, "a", amount)])) == {}
    assert target.connection.rows(f"SELECT * FROM {name}") == [(1, "a", 2)]


def test_a_schema_may_qualify_the_table(target: Target) -> None:
    target.connection.execute('CREATE SCHEMA IF NOT EXISTS "Other"')
    writer = target.sink(auto__create="true", table__name__format="Other.${topic}")
    assert write(writer, target.records([row(1, "a", 5)])) == {}
    assert target.connection.rows(f'SELECT * FROM "Other"."{target.table}"') == [(1, "a", 5)]


@pytest.mark.parametrize("dialect", UPSERTS)
def test_with_exactly_once_nothing_is_inserted_twice(target: Target, dialect: str) -> None:
    settings = {
        "auto.create": "true",
        "penstock.exactly.once": "true",
        "penstock.offsets.table": f"offsets_{target.table}",
        "dialect.name": dialect,
    }
    rows = [row(at) for at in range(10)]
    whole = target.records(rows, first=100)
    for start, stop in ((0, 4), (0, 10), (2, 7), (0, 10)):
        writer = target.sink(**settings)
        assert write(writer, whole.only(range(start, stop))) == {}
        writer.close()
    assert [number for number, *_ in target.rows()] == list(range(10))
    config = JDBC_SINK.parse(target.props(**settings))
    assert JdbcSink().alter_offsets(config, {(target.table, 0): 108})
    assert write(target.sink(**settings), whole) == {}
    assert sorted(number for number, *_ in target.rows()) == [*range(8), 8, 8, 9, 9]


PAIR = s.struct({"id": s.INT64, "name": s.STRING})


class IntoH2(SinkConformance):
    connector = JdbcSink
    bad_configs = OnH2.bad_configs[2:]  # the others fail only when something is written
    dialect: ClassVar[str] = ""
    server: DatabaseServer

    @pytest.fixture(autouse=True)
    def _fresh(self, server: H2Server, request: pytest.FixtureRequest) -> None:
        self.server = server
        self.user: dict[str, str] = {}
        run(server, 'DROP TABLE IF EXISTS "rows"', 'DROP TABLE IF EXISTS "penstock_offsets"')
        if "fatal" in request.node.name:
            self.user = {"connection.user": "WRITER", "connection.password": "secret"}
            run(server, "CREATE USER IF NOT EXISTS WRITER PASSWORD 'secret' ADMIN")

    def config(self) -> dict[str, str]:
        return {
            **self.server.settings(),
            **self.user,
            "connection.attempts": "1",
            "retry.backoff.ms": "0",
            "table.name.format": "rows",
            "auto.create": "true",
            "dialect.name": self.dialect,
            "errors.tolerance": "all",  # otherwise a refused record costs its batch
        }

    def contents(self) -> list[Any]:
        with self.server.connect() as connection:
            try:
                found = connection.rows('SELECT "id", "name" FROM "rows" ORDER BY _ROWID_')
            except DatabaseRefused as error:
                assert "not found" in str(error)  # noqa: PT017 - anything else is a failure
                found = []
        return [{"id": id, "name": name} for id, name in found]

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        if not schema:
            return None
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        return records_of(
            rows, schema=PAIR, keys=list(numbers), key_schema=s.INT64, first=numbers.start
        )

    def bad_records(self) -> Records | None:
        rows = [{"id": 5, "name": "\ud800"}, {"id": 6, "name": "\udfff"}]
        return records_of(rows, schema=PAIR, keys=[1, 2], key_schema=s.INT64, first=900)

    def unreachable_target(self) -> AbstractContextManager[object] | None:
        @contextmanager
        def away() -> Iterator[None]:
            self.server.stop()
            try:
                yield
            finally:
                self.server.start()

        return away()

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        """The user may not write any more."""
        run(self.server, "ALTER USER WRITER ADMIN FALSE")
        try:
            yield
        finally:
            run(self.server, "ALTER USER WRITER ADMIN TRUE")


class TestInserting(IntoH2):
    pass


class TestUpserting(IntoH2):
    idempotent = True
    ordered = False

    def config(self) -> dict[str, str]:
        keys = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
        return {**super().config(), **keys}


class TestUpsertingByUpdates(TestUpserting):
    dialect = "GenericDatabaseDialect"


class TestExactlyOnce(IntoH2):
    idempotent = True

    def config(self) -> dict[str, str]:
        # Otherwise a rejected record fails its batch.
        return {**super().config(), "penstock.exactly.once": "true", "errors.tolerance": "all"}

    @pytest.mark.skip("the records are of one partition and its offsets go back and forth")
    def test_two_writers_write_side_by_side(self) -> None: ...


def test_a_statement_is_given_up_when_it_takes_too_long(server: H2Server) -> None:
    url = database_of(JDBC_SINK.parse({**server.settings(), "topics": "t"})).url
    quick = replace(url, options={**url.options, "statement_s": 1})
    with Database(quick).connect() as connection, pytest.raises(DatabaseBusy):
        connection.rows(
            "SELECT COUNT(*) FROM SYSTEM_RANGE(1, 100000) a, SYSTEM_RANGE(1, 100000) b "
            "WHERE a.X + b.X = -1"
        )


@pytest.mark.parametrize("skipped", [0, 2, 3])
def test_rows_are_skipped_by_the_driver_where_the_database_is_not_known(
    server: H2Server, skipped: int
) -> None:
    with server.connect() as connection:
        assert isinstance(connection, DriverConnection)
        found = connection.first("SELECT X FROM SYSTEM_RANGE(1, 3) ORDER BY X", skipped)
        assert found == ([(skipped + 1,)] if skipped < 3 else [])


def test_a_wrong_password_is_reported_at_once_and_not_tried_again(target: Target) -> None:
    writer = target.sink(connection__password="wrong", connection__attempts="5",
                         connection__backoff__ms="60000")  # fmt: skip
    with pytest.raises(DatabaseRefused, match=r"connection\.url.*as 'penstock'") as refused:
        write(writer, target.records([row(1)]))
    assert "wrong" not in str(refused.value)


def test_a_lock_that_is_not_given_in_time_may_be_tried_again(target: Target) -> None:
    writer = target.sink(auto__create="true", insert__mode="upsert", pk__mode="record_value",
                         pk__fields="id")  # fmt: skip
    assert write(writer, target.records([row(1, "a")])) == {}
    with target.connection.transaction():
        target.connection.execute(f'UPDATE "{target.table}" SET "amount" = 1')
        with pytest.raises(DatabaseBusy):
            write(writer, target.records([row(1, "b")]))
    assert write(writer, target.records([row(1, "b")])) == {}
    assert target.rows('"name"') == [("b",)]


def test_rows_written_during_an_outage_are_read_when_the_server_is_back() -> None:
    with H2Server() as server:
        run(
            server,
            'CREATE TABLE "t" ("id" INT PRIMARY KEY)',
            'INSERT INTO "t" SELECT X FROM SYSTEM_RANGE(1, 1000)',
        )
        assert ids_read_around_a_kill(server, "t") == list(range(1, 1001))


@pytest.mark.parametrize("once", [False, True], ids=["upsert", "exactly-once"])
def test_a_server_that_is_killed_while_it_is_written_to_loses_and_repeats_nothing(
    once: bool,
) -> None:
    with H2Server() as server:
        count, retries, found = ids_written_around_kills(server, once)
    assert retries >= 3
    assert found == list(range(count))


class TestSourceOnAWorker(SourceEndToEnd, OnH2):
    """Planned in the worker, read in processes that Spark forks."""


class TestSinkOnAWorker(SinkEndToEnd, TestUpserting):
    pass


_FORKING = """
import os, signal, sys
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
import penstock.flow.spark.daemon  # what the forked workers of Spark have imported

settings = {"topics": "t", **dict(zip(sys.argv[1::2], sys.argv[2::2]))}
database = database_of(JDBC_SINK.parse(settings))
assert "jpype" not in sys.modules, "nothing of it before the fork"
# A shell has what it runs in the background ignore it, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)
children = []
for _ in range(2):
    child = os.fork()
    if not child:
        before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        with database.connect() as connection:
            assert connection.rows("SELECT 6 * 7") == [(42,)]
        assert before == {each: signal.getsignal(each) for each in before}
        grandchild = os.fork()
        if not grandchild:
            try:
                database.connect()
            except Exception as error:
                assert "forked from one with a JVM" in str(error), error
                os._exit(0)
            os._exit(1)
        assert os.waitpid(grandchild, 0)[1] == 0
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigtimedwait([], 10)
        except KeyboardInterrupt:
            os._exit(7)
        os._exit(1)
    children.append(child)
ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert ends == [7, 7], ends
print("the children ended as Python said")
"""


def _python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_each_forked_process_has_a_jvm_of_its_own_that_leaves_signals_to_python(
    server: H2Server,
) -> None:
    done = _python(_FORKING, *itertools.chain(*server.settings().items()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as Python said" in done.stdout


_ENDING = """
import atexit, sys
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
import jpype

atexit.register(lambda: print("the last words are Python's", flush=True))
settings = {"topics": "t", **dict(zip(sys.argv[1::2], sys.argv[2::2]))}
connection = database_of(JDBC_SINK.parse(settings)).connect()
# A thread that waits for ever and is not a daemon, as some drivers have one.
pool = jpype.JClass("java.util.concurrent.Executors").newSingleThreadExecutor()
pool.execute(jpype.JClass("java.lang.Thread")())
sys.exit(5)
"""


def test_a_process_with_a_jvm_ends_when_python_says_so(server: H2Server) -> None:
    done = _python(_ENDING, *itertools.chain(*server.settings().items()))
    assert done.returncode == 5, done.stdout + done.stderr
    assert "the last words are Python's" in done.stdout


def test_sigterm_ends_a_process_with_a_jvm(server: H2Server) -> None:
    script = _ENDING.replace("sys.exit(5)", "print('waits', flush=True); sys.stdin.read()")
    process = subprocess.Popen(
        [sys.executable, "-c", script, *itertools.chain(*server.settings().items())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM
    finally:
        process.kill()
        process.communicate()


_THREADED = """
import sys, threading
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK

settings = {"topics": "t", **dict(zip(sys.argv[1::2], sys.argv[2::2]))}
found = []

def look():
    with database_of(JDBC_SINK.parse(settings)).connect() as connection:
        found.extend(connection.rows("SELECT 6 * 7"))

threads = [threading.Thread(target=look) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
print(found)
"""


def test_any_thread_may_start_the_jvm_and_several_use_it(server: H2Server) -> None:
    done = _python(_THREADED, *itertools.chain(*server.settings().items()))
    assert "[(42,), (42,), (42,)]" in done.stdout, done.stderr


def test_a_driver_is_found_in_the_class_path_and_by_its_class(
    server: H2Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    props = {"topics": "t", **server.settings(), "connection.attempts": "1"}
    del props["penstock.jdbc.driver.jars"]
    with pytest.raises(ConfigInvalid, match=r"needs a JDBC driver.*penstock\.jdbc\.driver\.jars"):
        JDBC_SINK.parse(props)
    monkeypatch.setenv("CLASSPATH", os.path.join(os.path.dirname(server.jar), "*"))
    for named in ("", "org.h2.Driver"):
        config = JDBC_SINK.parse({**props, "penstock.jdbc.driver.class": named})
        with database_of(config).connect() as connection:
            assert connection.rows("SELECT 1") == [(1,)]
    config = JDBC_SINK.parse({**props, "penstock.jdbc.driver.class": "org.h2.tools.Server"})
    with pytest.raises(PenstockError, match=r"penstock\.jdbc\.driver\.class"):
        database_of(config).connect()
