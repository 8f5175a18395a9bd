"""Columns of real PostgreSQL and MariaDB servers as schemas and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from penstock.data import schema as s
from penstock.data.schema import Schema
from penstock.errors import DataError
from tests.servers.databases import DatabaseServer, PostgresServer

from .tables import only_row, open_reader, read, run


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, DatabaseServer)
    return found


@pytest.fixture
def table(unique: Callable[[str], str]) -> str:
    return unique("t").replace("-", "_")[:40]


POSTGRESQL: Mapping[str, tuple[str, str, Schema, object]] = {
    "b": ("boolean", "true", s.BOOLEAN, True),
    "i2": ("smallint", "-2", s.INT16, -2),
    "i4": ("integer", "4", s.INT32, 4),
    "i8": ("bigint", "8", s.INT64, 8),
    "f4": ("real", "0.5", s.FLOAT32, 0.5),
    "f8": ("double precision", "0.1", s.FLOAT64, 0.1),
    "inf": ("double precision", "'-Infinity'", s.FLOAT64, float("-inf")),
    "cash": ("money", "'$1,234.50'", s.FLOAT64, 1234.5),
    "n": ("numeric(10,3)", "12.5", s.decimal(3), Decimal("12.500")),
    "whole": ("numeric(5)", "12345", s.decimal(0), Decimal(12345)),
    "free": ("numeric", "7", s.decimal(0), Decimal(7)),
    "txt": ("text", "E'a\"b,\\n\\\\ä'", s.STRING, 'a"b,\n\\ä'),
    "empty": ("text", "''", s.STRING, ""),
    "vc": ("varchar(9)", "'v'", s.STRING, "v"),
    "ch": ("char(3)", "'c'", s.STRING, "c  "),
    "j": ("json", "'{\"a\": 1}'", s.STRING, '{"a": 1}'),
    "jb": ("jsonb", "'{\"a\":1}'", s.STRING, '{"a": 1}'),
    "u": (
        "uuid",
        "'6f8f57715090da2632453988d9a1501b'",
        s.STRING,
        "6f8f5771-5090-da26-3245-3988d9a1501b",
    ),
    "x": ("xml", "'<a/>'", s.STRING, "<a/>"),
    "mood": ("mood", "'happy'", s.STRING, "happy"),
    "dom": ("positive", "5", s.INT32, 5),
    "raw": ("bytea", "'\\x00ff'", s.BYTES, b"\0\xff"),
    "own_raw": ("sealed", "'\\xff'", s.BYTES, b"\xff"),
    "own_bits": ("flags", "'1010000011'", s.BYTES, b"\xa0\xc0"),
    "own_varbits": ("some_flags", "'101'", s.BYTES, b"\xa0"),
    "noraw": ("bytea", "''", s.BYTES, b""),
    "d": ("date", "'2024-02-29'", s.DATE, date(2024, 2, 29)),
    "t": ("time", "'23:59:59.123456'", s.TIME, time(23, 59, 59, 123_000)),
    "ttz": ("timetz", "'01:00:00+02'", s.TIME, time(23)),
    "ts": (
        "timestamp",
        "'2024-07-01 12:00:00.123456'",
        s.TIMESTAMP,
        datetime(2024, 7, 1, 12, 0, 0, 123_000, tzinfo=UTC),
    ),
    "tstz": (
        "timestamptz",
        "'2024-07-01 12:00:00+02'",
        s.TIMESTAMP,
        datetime(2024, 7, 1, 10, tzinfo=UTC),
    ),
    "bit1": ("bit(1)", "B'1'", s.BOOLEAN, True),
    "bit8": ("bit(8)", "B'10000001'", s.INT8, -127),
    "bit9": ("bit(9)", "B'100000001'", s.BYTES, b"\x80\x80"),
}
MARIADB: Mapping[str, tuple[str, str, Schema, object]] = {
    "b1": ("tinyint(1)", "1", s.INT8, 1),
    "i1": ("tinyint", "-1", s.INT8, -1),
    "u1": ("tinyint unsigned", "255", s.INT16, 255),
    "u2": ("smallint unsigned", "65535", s.INT32, 65535),
    "i3": ("mediumint", "-3", s.INT32, -3),
    "u4": ("int unsigned", "4294967295", s.INT64, 4294967295),
    "i8": ("bigint", "-8", s.INT64, -8),
    "f4": ("float", "0.5", s.FLOAT32, 0.5),
    "f8": ("double", "0.1", s.FLOAT64, 0.1),
    "n": ("decimal(10,3)", "12.5", s.decimal(3), Decimal("12.500")),
    "un": ("decimal(10,0) unsigned", "12", s.decimal(0), Decimal(12)),
    "txt": ("text", "'a\"b,\\n\\\\ä🙂'", s.STRING, 'a"b,\n\\ä🙂'),
    "empty": ("varchar(5)", "''", s.STRING, ""),
    "j": ("json", "'{\"a\": 1}'", s.STRING, '{"a": 1}'),
    "e": ("enum('a','b')", "'b'", s.STRING, "b"),
    "st": ("set('a','b')", "'a,b'", s.STRING, "a,b"),
    "raw": ("varbinary(5)", "x'00ff'", s.BYTES, b"\0\xff"),
    "blb": ("blob", "x'ff'", s.BYTES, b"\xff"),
    "bit1": ("bit(1)", "b'1'", s.INT8, 1),
    "bit9": ("bit(9)", "b'100000001'", s.BYTES, b"\x01\x01"),
    "d": ("date", "'2024-02-29'", s.DATE, date(2024, 2, 29)),
    "y": ("year", "2024", s.DATE, date(2024, 1, 1)),
    "t": ("time(6)", "'23:59:59.123456'", s.TIME, time(23, 59, 59, 123_000)),
    "t0": ("time", "'23:59:59'", s.TIME, time(23, 59, 59)),
    "dt": (
        "datetime(6)",
        "'2024-07-01 12:00:00.123456'",
        s.TIMESTAMP,
        datetime(2024, 7, 1, 12, 0, 0, 123_000, tzinfo=UTC),
    ),
    "ts": (
        "timestamp",
        "'2024-07-01 12:00:00'",
        s.TIMESTAMP,
        datetime(2024, 7, 1, 12, tzinfo=UTC),
    ),
}


def made(server: DatabaseServer, table: str) -> Mapping[str, tuple[str, str, Schema, object]]:
    """A table with a row of every type."""
    types = POSTGRESQL if isinstance(server, PostgresServer) else MARIADB
    if isinstance(server, PostgresServer):
        run(
            server,
            "DROP TYPE IF EXISTS mood CASCADE",
            "DROP DOMAIN IF EXISTS positive CASCADE",
            "CREATE TYPE mood AS ENUM ('sad', 'happy')",
            *(
                f"DROP DOMAIN IF EXISTS {each} CASCADE"
                for each in ("sealed", "flags", "some_flags")
            ),
            "CREATE DOMAIN sealed AS bytea",
            "CREATE DOMAIN flags AS bit(10)",
            "CREATE DOMAIN some_flags AS bit varying",
            "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
        )
    columns = ", ".join(f"{name} {each[0]} NOT NULL" for name, each in types.items())
    maybe = ", ".join(f"o_{name} {each[0]} NULL" for name, each in types.items())
    values = ", ".join(each[1] for each in types.values())
    names = ", ".join(types)
    run(
        server,
        f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, {columns}, {maybe})",
        f"INSERT INTO {table} (id, {names}) VALUES (1, {values})",
    )
    return types


def test_every_type_has_its_schema_and_value(server: DatabaseServer, table: str) -> None:
    types = made(server, table)
    row, schema = only_row(open_reader(server, table, incrementing__column__name="id"))
    assert schema.name == table
    wanted = {name: each[2] for name, each in types.items()}
    assert {name: field.schema for name in wanted if (field := schema.field(name))} == wanted
    optional = {f"o_{name}": each[2].as_optional() for name, each in types.items()}
    assert {name: field.schema for name in optional if (field := schema.field(name))} == optional
    assert {name: row[name] for name in types} == {name: each[3] for name, each in types.items()}
    assert {row[name] for name in optional} == {None}


def test_a_query_has_the_types_and_nulls_of_its_columns(
    postgresql: DatabaseServer, table: str
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id serial PRIMARY KEY, n numeric(6,2) NOT NULL, s text)",
        f"INSERT INTO {table} (n, s) VALUES (1.5, '100%')",
    )
    reader = open_reader(
        postgresql,
        table,
        query=f"SELECT id, n, s FROM {table} WHERE s LIKE '%\\%'",
        incrementing__column__name="id",
    )
    row, schema = only_row(reader)
    assert row == {"id": 1, "n": Decimal("1.50"), "s": "100%"}
    assert schema == s.struct({"id": s.INT32, "n": s.decimal(2), "s": s.OPTIONAL_STRING})


@pytest.mark.parametrize(
    ("mapping", "schemas"),
    [
        ("none", [s.decimal(0), s.decimal(0), s.decimal(2), s.decimal(20), s.decimal(0)]),
        ("precision_only", [s.INT8, s.INT64, s.decimal(2), s.decimal(20), s.decimal(0)]),
        ("best_fit", [s.INT8, s.INT64, s.FLOAT64, s.decimal(20), s.FLOAT64]),
        ("best_fit_eager_double", [s.INT8, s.INT64, s.FLOAT64, s.FLOAT64, s.FLOAT64]),
    ],
)
def test_numbers_are_mapped(
    postgresql: DatabaseServer, table: str, mapping: str, schemas: list[Schema]
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id serial PRIMARY KEY, a numeric(2) NOT NULL, "
        "b numeric(18) NOT NULL, c numeric(9,2) NOT NULL, d numeric(30,20) NOT NULL, "
        "e numeric NOT NULL)",
        f"INSERT INTO {table} (a, b, c, d, e) VALUES (99, 999999999999999999, 1.25, 1.5, 3)",
    )
    row, schema = only_row(open_reader(postgresql, table, numeric__mapping=mapping))
    found = [each.schema for each in schema.fields[1:]]
    assert found == schemas
    values = [Decimal(str(row[name])) for name in "abcde"]
    assert values == [99, 999999999999999999, Decimal("1.25"), Decimal("1.5"), 3]


def test_a_number_without_limits_needs_a_scale_for_its_fractions(
    postgresql: DatabaseServer, table: str
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id serial PRIMARY KEY, n numeric)",
        f"INSERT INTO {table} (n) VALUES (1.25)",
    )
    with pytest.raises(DataError, match=r"'n' \(numeric\).*penstock.numeric.scale"):
        only_row(open_reader(postgresql, table))
    row, _ = only_row(open_reader(postgresql, table, penstock__numeric__scale=4))
    assert row["n"] == Decimal("1.2500")


def test_columns_without_a_type_of_connect_are_left_out_and_told(
    postgresql: DatabaseServer, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id serial PRIMARY KEY, tags text[], net inet, name text)",
        f"INSERT INTO {table} (tags, net, name) VALUES ('{{a,b}}', '127.0.0.1', 'n')",
    )
    row, _ = only_row(open_reader(postgresql, table))
    assert row == {"id": 1, "name": "n"}
    assert "column 'tags' is an array" in caplog.text
    assert "column 'net' is of type inet" in caplog.text


@pytest.mark.parametrize("value", ["'infinity'", "'0044-03-15 BC'"])
def test_dates_that_connect_does_not_have_name_the_column(
    postgresql: DatabaseServer, table: str, value: str
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id serial PRIMARY KEY, d date)",
        f"INSERT INTO {table} (d) VALUES ({value})",
    )
    with pytest.raises(DataError, match=rf"Table 'shop.public.{table}': Column 'd' \(date\)"):
        only_row(open_reader(postgresql, table))


def test_moments_without_a_zone_are_those_of_the_setting(
    server: DatabaseServer, table: str
) -> None:
    kind = "timestamp" if isinstance(server, PostgresServer) else "datetime"
    run(
        server,
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at {kind} NOT NULL)",
        f"INSERT INTO {table} VALUES (1, '2024-07-01 12:00:00'), (2, '2024-10-27 02:30:00')",
    )
    settings: dict[str, object] = {
        "mode": "timestamp",
        "timestamp__column__name": "at",
        "db__timezone": "Europe/Berlin",
    }
    reader = open_reader(server, table, range_bytes=1, **settings)
    rows, end = read(reader)
    assert [row["at"] for row in rows] == [
        datetime(2024, 7, 1, 10, tzinfo=UTC),
        datetime(2024, 10, 27, 1, 30, tzinfo=UTC),  # of the two, as in Java
    ]
    assert read(reader) == ([], [])
    assert read(open_reader(server, table, end, **settings)) == ([], [])


@pytest.mark.parametrize(
    ("granularity", "value"),
    [
        ("micros_long", 1_719_835_200_123_456),
        ("micros_string", "1719835200123456"),
        ("micros_iso_datetime_string", "2024-07-01T12:00:00.123456"),
        ("nanos_long", 1_719_835_200_123_456_000),
        ("nanos_string", "1719835200123456000"),
        ("nanos_iso_datetime_string", "2024-07-01T12:00:00.123456000"),
    ],
)
def test_moments_keep_microseconds_where_it_is_wished(
    server: DatabaseServer, table: str, granularity: str, value: object
) -> None:
    kind = "timestamp" if isinstance(server, PostgresServer) else "datetime(6)"
    run(
        server,
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at {kind} NOT NULL)",
        f"INSERT INTO {table} VALUES (1, '2024-07-01 12:00:00.123456')",
    )
    reader = open_reader(
        server, table, incrementing__column__name="id", timestamp__granularity=granularity
    )
    assert only_row(reader)[0]["at"] == value
