"""Tables and cells in the dialect of each database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.write.dialect import Segment, TableName, Wanted, Write
from penstock.connectors.jdbc.write.mysql import MySql
from penstock.connectors.jdbc.write.postgresql import PostgreSql
from penstock.connectors.jdbc.write.sqlite import Sqlite
from penstock.data.schema import (
    FLOAT64,
    INT64,
    TIMESTAMP,
    Schema,
    Type,
    Value,
    decimal,
)

WANTED = (
    Wanted("id", INT64, key=True),
    Wanted("price", decimal(2, optional=True)),
    Wanted("name", Schema(Type.STRING, default="it's")),
    Wanted("flag", Schema(Type.BOOLEAN, optional=True, default=True)),
    Wanted("data", Schema(Type.BYTES, optional=True, default=b"\x01\xff")),
)
CREATED = [
    (
        PostgreSql,
        'CREATE TABLE IF NOT EXISTS "s"."t" (\n"id" BIGINT NOT NULL,\n"price" DECIMAL NULL,\n'
        "\"name\" TEXT DEFAULT 'it''s' NOT NULL,\n\"flag\" BOOLEAN DEFAULT TRUE NULL,\n"
        '"data" BYTEA DEFAULT \'\\x01ff\' NULL,\nPRIMARY KEY("id"))',
    ),
    (
        MySql,
        "CREATE TABLE IF NOT EXISTS `s`.`t` (\n`id` BIGINT NOT NULL,\n"
        "`price` DECIMAL(65,2) NULL,\n`name` TEXT DEFAULT 'it''s' NOT NULL,\n"
        "`flag` TINYINT DEFAULT 1 NULL,\n`data` VARBINARY(1024) DEFAULT X'01ff' NULL,\n"
        "PRIMARY KEY(`id`))",
    ),
    (
        Sqlite,
        'CREATE TABLE IF NOT EXISTS "s"."t" (\n"id" INTEGER NOT NULL,\n"price" NUMERIC NULL,\n'
        "\"name\" TEXT DEFAULT 'it''s' NOT NULL,\n\"flag\" INTEGER DEFAULT 1 NULL,\n"
        '"data" BLOB DEFAULT X\'01ff\' NULL,\nPRIMARY KEY("id"))',
    ),
]


@pytest.mark.parametrize(("dialect", "expected"), CREATED)
def test_tables_are_created_with_the_types_of_the_reference(
    dialect: type[PostgreSql] | type[MySql] | type[Sqlite], expected: str
) -> None:
    assert dialect(zone("UTC")).create(TableName(("c", "s", "t")), WANTED) == expected


NAMES = [
    ("orders", ("orders",)),
    ("s.orders", ("s", "orders")),
    ('s."a.b"', ("s", "a.b")),
    ('"say ""hi"""', ('say "hi"',)),
    ("`x.y`.z", ("x.y", "z")),
]


@pytest.mark.parametrize(("text", "parts"), NAMES)
def test_parts_of_a_table_name_may_be_quoted(text: str, parts: tuple[str, ...]) -> None:
    assert TableName.parse(text).parts == parts


def test_names_cannot_end_their_quotes() -> None:
    assert PostgreSql(zone("UTC")).quoted('a"; DROP') == '"a""; DROP"'
    assert MySql(zone("UTC")).quoted("a`; DROP") == "`a``; DROP`"
    assert PostgreSql(zone("UTC"), quoting=False).quoted("plain") == "plain"


def test_the_columns_that_are_no_keys_are_the_others() -> None:
    segment = Segment(Write.UPDATE, TableName(("t",)), ("a", "b", "c"), (1,))
    assert segment.others == (0, 2)


NAN = float("nan")
FIRST = datetime(1, 1, 1, tzinfo=UTC)  # the year before in America
WRITTEN: list[tuple[Schema, list[Value], list[Value], list[int]]] = [
    (FLOAT64, [1.5, 2.0], ["1.5", "2.0"], []),
    (FLOAT64, [1.5, NAN, 2.0], ["1.5", "NULL", "2.0"], [1]),
    (FLOAT64, [NAN, None, 2.0], ["NULL", "NULL", "2.0"], [0]),
    (
        TIMESTAMP,
        [FIRST, datetime(2024, 1, 1, 5, tzinfo=UTC)],
        ["NULL", "'2024-01-01 00:00:00'"],
        [0],
    ),
]


@pytest.mark.parametrize(("schema", "cells", "written", "wrong"), WRITTEN)
def test_a_cell_that_mysql_cannot_have_is_no_matter_to_the_others(
    schema: Schema, cells: list[Value], written: list[Value], wrong: list[int]
) -> None:
    bad: dict[int, Exception] = {}
    assert MySql(zone("America/New_York")).encoder(schema)(cells, bad) == written
    assert list(bad) == wrong


LATE: Value = datetime(2024, 1, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "cells", "written"),
    [
        (None, [FIRST, LATE], ["\\N", "2024-01-01 00:00:00-05:00"]),
        (None, [FIRST, None], ["\\N", "\\N"]),
        ("timestamp", [FIRST, LATE, None], [None, datetime(2024, 1, 1), None]),  # noqa: DTZ001
    ],
)
def test_a_moment_that_postgresql_cannot_have_is_no_matter_to_the_others(
    form: str | None, cells: list[Value], written: list[Value]
) -> None:
    bad: dict[int, Exception] = {}
    dialect = PostgreSql(zone("America/New_York"))
    assert dialect.encoder(TIMESTAMP, form)(cells, bad) == written
    assert list(bad) == [0]
