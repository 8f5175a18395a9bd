"""Rows of real PostgreSQL and MariaDB servers that are easily lost or changed on their way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

import pytest

from penstock.connectors.jdbc.read.reader import JdbcReader
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.source import JdbcSource
from penstock.data import schema as s
from penstock.data.schema import Schema
from penstock.errors import DataError
from penstock.testing.contexts import SourceContextStub
from tests.servers.databases import DatabaseServer

from .tables import MOST, only_row, open_reader, props, read, rows_of, run


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, DatabaseServer)
    return found


@pytest.fixture
def table(unique: Callable[[str], str]) -> str:
    return unique("t").replace("-", "_")[:40]


TEXTS = ["a@b.c", None, "", "\ufefffirst", "\\.", "\\N", "NULL", '"', "\n", "\r\n", " x ", "\t"]


@pytest.mark.parametrize("first", range(len(TEXTS)))
def test_a_query_for_one_column_returns_every_row_as_it_is(
    server: DatabaseServer, table: str, first: int
) -> None:
    texts = [*TEXTS[first:], *TEXTS[:first]]
    run(server, f"CREATE TABLE {table} (id INTEGER, email VARCHAR(20))")
    with server.connect() as connection:
        connection.many(
            f"INSERT INTO {table} VALUES (%s, %s)", [list(row) for row in enumerate(texts)]
        )
    reader = open_reader(
        server,
        table,
        mode="bulk",
        query=f"SELECT email FROM {table} ORDER BY id",
        poll__interval__ms=3_600_000,
    )
    assert [row["email"] for row in read(reader)[0]] == texts


@pytest.mark.parametrize("kind", ["INTEGER", "NUMERIC(9,2)", "DATE", "TIME", "REAL", "VARCHAR(9)"])
def test_rows_of_nulls_are_rows(server: DatabaseServer, table: str, kind: str) -> None:
    run(server, f"CREATE TABLE {table} (x {kind})", f"INSERT INTO {table} VALUES (NULL), (NULL)")
    reader = open_reader(server, table, mode="bulk", poll__interval__ms=3_600_000)
    assert read(reader)[0] == [{"x": None}, {"x": None}]


BAD: Mapping[str, tuple[str, str, str, str, str]] = {
    # The server, a column, a good value, a bad one, and what the message contains.
    "infinite date": ("postgresql", "date", "'2024-01-01'", "'infinity'", "year 1 to 9999"),
    "infinite time": ("postgresql", "timestamp", "'2024-01-01'", "'-infinity'", "year 1 to 9999"),
    "infinite zoned": ("postgresql", "timestamptz", "'2024-01-01'", "'infinity'", "1 to 9999"),
    "far date": ("postgresql", "date", "'2024-01-01'", "'10000-01-01'", "year 1 to 9999"),
    "old time": ("postgresql", "timestamp", "'2024-01-01'", "'0044-03-15 BC'", "1 to 9999"),
    "NaN": ("postgresql", "numeric(10,2)", "1.5", "'NaN'", "finite; set numeric.mapping=best_fit"),
    "infinite number": ("postgresql", "numeric", "1", "'Infinity'", "numeric.mapping=best_fit"),
    "fraction": ("postgresql", "numeric", "1", "1.25", "penstock.numeric.scale"),
    "zero date": ("mysql", "date", "'2024-01-01'", "'0000-00-00'", "zeroDateTimeBehavior"),
    "zero time": ("mysql", "datetime(6)", "'2024-01-01'", "'0000-00-00'", "zeroDateTimeBehavior"),
    "zero zoned": ("mysql", "timestamp", "'2024-01-01'", "'0000-00-00'", "zeroDateTimeBehavior"),
    "no day": ("mariadb", "date", "'2024-01-01'", "'2024-00-10'", "year 1 to 9999"),
    "unsigned": (
        "mariadb",
        "bigint unsigned",
        "1",
        "18446744073709551615",
        "out of range for INT64",
    ),
    "duration": ("mariadb", "time", "'12:00:00'", "'838:59:59'", "not a time of the day"),
}


@dataclass(frozen=True)
class Bad:
    """A table of five rows, the third of which cannot become a record, and the message about it."""

    server: DatabaseServer
    settings: Mapping[str, object]
    text: str


@pytest.fixture(params=BAD)
def bad(request: pytest.FixtureRequest, table: str) -> Bad:
    name, kind, good, cell, text = BAD[request.param]
    server = request.getfixturevalue("mariadb" if name == "mysql" else name)
    assert isinstance(server, DatabaseServer)
    rows = ", ".join(f"({id}, {cell if id == 3 else good})" for id in range(1, 6))
    lax = [] if name == "postgresql" else ["SET sql_mode = 'ALLOW_INVALID_DATES'"]
    run(
        server,
        *lax,
        f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, x {kind} NULL)",
        f"INSERT INTO {table} VALUES {rows}",
    )
    url = server.url.replace("jdbc:mariadb:", f"jdbc:{name}:")
    return Bad(server, {"connection__url": url, "incrementing__column__name": "id"}, text)


def reader_with(
    server: DatabaseServer, table: str, context: SourceContextStub, **settings: object
) -> JdbcReader:
    (task,) = JdbcSource().plan_tasks(JDBC_SOURCE.parse(props(server, table, **settings)), 1)
    return JdbcReader(JDBC_SOURCE.parse(task), context, range_bytes=MOST)


def test_the_rows_before_a_bad_one_are_delivered_and_their_offset_is_stored(
    bad: Bad, table: str
) -> None:
    context = SourceContextStub()
    reader = reader_with(bad.server, table, context, **bad.settings)
    before = reader.poll(MOST, 0)
    assert before is not None
    assert [row["id"] for row in rows_of(reader, before)] == [1, 2]
    assert [each.offset for each in before.offsets] == [{"incrementing": 2}]
    assert context.commit_requests == 1, "so that it is stored before the task fails"
    wanted = rf"Table '.*{table}': Column 'x' \(.*{re.escape(bad.text)}.*errors.tolerance=all"
    with pytest.raises(DataError, match=wanted):
        reader.poll(MOST, 0)
    again = open_reader(bad.server, table, before.offsets, **bad.settings)
    with pytest.raises(DataError, match=wanted):
        again.poll(MOST, 0)


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_bad_row_that_is_tolerated_costs_no_other_row(
    bad: Bad, table: str, parallel: int
) -> None:
    context = SourceContextStub(tolerates_errors=True)
    settings = {**bad.settings, "penstock__read__parallelism": parallel}
    found, stored = read(reader_with(bad.server, table, context, **settings))
    assert [row["id"] for row in found] == [1, 2, 4, 5]
    assert [each.offset for each in stored] == [{"incrementing": 5}]
    ((record, error),) = context.reported
    assert bad.text in str(error)
    assert record.topics == [f"shop-{table}"]
    (remains,) = record.values.values
    assert remains["id"] == "3"
    assert remains["x"] is not None


def test_in_a_bulk_read_the_rows_before_a_bad_one_are_delivered(bad: Bad, table: str) -> None:
    settings = {**bad.settings, "mode": "bulk", "poll__interval__ms": 3_600_000}
    reader = open_reader(bad.server, table, **settings)
    before = reader.poll(MOST, 0)
    assert before is not None
    assert [row["id"] for row in rows_of(reader, before)] == [1, 2]
    with pytest.raises(DataError, match=re.escape(bad.text)):
        reader.poll(MOST, 0)


def test_rows_with_the_timestamp_of_a_bad_one_are_delivered_without_an_offset(
    postgresql: DatabaseServer, table: str
) -> None:
    rows = ", ".join(
        f"({id}, '2024-01-0{1 + id // 3}', '{'infinity' if id == 5 else '2024-01-01'}')"
        for id in range(1, 8)
    )
    run(
        postgresql,
        f"CREATE TABLE {table} (id integer, at timestamp NOT NULL, x date)",
        f"INSERT INTO {table} VALUES {rows}",
    )
    reader = open_reader(postgresql, table, mode="timestamp", timestamp__column__name="at")
    polled = [reader.poll(MOST, 0), reader.poll(MOST, 0)]
    with pytest.raises(DataError, match="'x'"):
        reader.poll(MOST, 0)
    assert all(polled)
    assert [[row["id"] for row in rows_of(reader, each)] for each in polled if each] == [
        [1, 2],
        [3, 4],
    ]
    assert [len(each.offsets) for each in polled if each] == [1, 0]


@pytest.mark.parametrize(
    ("url", "value"),
    [
        ("mysql://?zeroDateTimeBehavior=CONVERT_TO_NULL", None),
        ("mysql://?zeroDateTimeBehavior=convertToNull", None),
        ("mysql://?zeroDateTimeBehavior=round", date(1, 1, 1)),
        ("mariadb://", None),
    ],
)
def test_zero_dates_are_what_the_driver_makes_of_them(
    mariadb: DatabaseServer, table: str, url: str, value: date | None
) -> None:
    run(
        mariadb,
        "SET sql_mode = ''",
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, d DATE, t DATETIME, z TIMESTAMP NULL)",
        f"INSERT INTO {table} VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00')",
    )
    reader = open_reader(
        mariadb, table, connection__url=of(mariadb, url), incrementing__column__name="id"
    )
    moment = value and datetime(1, 1, 1, tzinfo=UTC)
    assert read(reader)[0] == [{"id": 1, "d": value, "t": moment, "z": moment}]


def of(server: DatabaseServer, url: str) -> str:
    """The server's URL with another driver and its parameters."""
    driver, _, parameters = url.partition("://")
    return server.url.replace("mariadb:", f"{driver}:") + parameters


def test_a_zero_date_that_is_null_is_refused_where_a_field_must_have_a_value(
    mariadb: DatabaseServer, table: str
) -> None:
    run(
        mariadb,
        "SET sql_mode = ''",
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, d DATE NOT NULL)",
        f"INSERT INTO {table} VALUES (1, '0000-00-00')",
    )
    reader = open_reader(mariadb, table, incrementing__column__name="id")
    with pytest.raises(DataError, match=r"'d' .* must have a value"):
        reader.poll(MOST, 0)


@pytest.mark.parametrize(
    ("parameters", "row", "schemas"),
    [
        ("", {"b": 2, "y": date(2024, 1, 1)}, [s.INT8, s.DATE]),
        ("?tinyInt1isBit=false", {"b": 2, "y": date(2024, 1, 1)}, [s.INT8, s.DATE]),
        ("?transformedBitIsBoolean=true", {"b": True, "y": date(2024, 1, 1)}, [s.BOOLEAN, s.DATE]),
        ("?yearIsDateType=false", {"b": 2, "y": 2024}, [s.INT8, s.INT16]),
    ],
)
def test_small_numbers_and_years_are_what_the_url_says(
    mariadb: DatabaseServer,
    table: str,
    parameters: str,
    row: Mapping[str, object],
    schemas: list[Schema],
) -> None:
    run(
        mariadb,
        f"CREATE TABLE {table} (b TINYINT(1) NOT NULL, y YEAR NOT NULL)",
        f"INSERT INTO {table} VALUES (2, 2024)",
    )
    url = mariadb.url + parameters
    reader = open_reader(mariadb, table, mode="bulk", connection__url=url, poll__interval__ms=9999)
    found, schema = only_row(reader)
    assert found == row
    assert [each.schema for each in schema.fields] == schemas


@pytest.mark.parametrize(
    ("parameters", "zone"), [("", "UTC"), ("?options=-c%20TimeZone=Asia/Tokyo", "Asia/Tokyo")]
)
def test_a_session_of_postgresql_has_the_time_zone_of_the_url(
    postgresql: DatabaseServer, table: str, parameters: str, zone: str
) -> None:
    reader = open_reader(
        postgresql,
        table,
        mode="bulk",
        connection__url=postgresql.url + parameters,
        query="SELECT current_setting('TimeZone') AS zone, TIMESTAMPTZ '2024-07-01 12:00+02' AS at",
        poll__interval__ms=3_600_000,
    )
    assert read(reader)[0] == [{"zone": zone, "at": datetime(2024, 7, 1, 10, tzinfo=UTC)}]


@pytest.mark.parametrize(
    ("name", "kind", "beyond"),
    [
        ("mariadb", "BIGINT UNSIGNED", "9223372036854775808"),
        ("mariadb", "DECIMAL(20)", "9223372036854775808"),
        ("postgresql", "NUMERIC", "9223372036854775808"),
        ("postgresql", "NUMERIC", "'NaN'"),
    ],
)
def test_the_rows_before_a_number_that_is_no_offset_are_delivered(
    request: pytest.FixtureRequest, table: str, name: str, kind: str, beyond: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(name)
    run(
        server,
        f"CREATE TABLE {table} (id {kind} NOT NULL PRIMARY KEY)",
        f"INSERT INTO {table} VALUES (1), (9223372036854775807), ({beyond})",
    )
    settings = {"incrementing__column__name": "id"}
    reader = open_reader(server, table, **settings)
    before = reader.poll(MOST, 0)
    assert before is not None
    assert [int(row["id"]) for row in rows_of(reader, before)] == [1, (1 << 63) - 1]
    assert [each.offset for each in before.offsets] == [{"incrementing": (1 << 63) - 1}]
    with pytest.raises(DataError, match="larger than an offset can be"):
        reader.poll(MOST, 0)
    context = SourceContextStub(tolerates_errors=True)
    reader = reader_with(server, table, context, **settings)
    assert [int(row["id"]) for row in read(reader)[0]] == [1, (1 << 63) - 1]
    assert read(reader) == ([], [])
    assert len(context.reported) == 1
