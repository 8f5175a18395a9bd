"""The statements sent to each database behind a JDBC driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from penstock.connectors.jdbc.drivers.moments import digits
from penstock.connectors.jdbc.drivers.products import Product, product_of
from penstock.connectors.jdbc.drivers.url import parse
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.write.dialect import (
    Segment,
    TableName,
    UnmappedType,
    Wanted,
    Write,
)
from penstock.connectors.jdbc.write.driver import Generic
from penstock.connectors.jdbc.write.settings import dialect_of
from penstock.data import schema as s
from penstock.data.schema import Schema

TABLE = TableName(("app", "t"))
UPSERT = Segment(Write.UPSERT, TABLE, ("id", "x"), (0,))
MERGES: Mapping[str, str] = {
    "jdbc:h2:x": 'MERGE INTO "app"."t" ("id", "x") KEY ("id") VALUES (?, ?)',
    "jdbc:oracle:thin:@x": 'MERGE INTO "app"."t" t USING (SELECT ? AS "id", ? AS "x" FROM DUAL) s '
    'ON (t."id" = s."id") WHEN MATCHED THEN UPDATE SET "x" = s."x" '
    'WHEN NOT MATCHED THEN INSERT ("id", "x") VALUES (s."id", s."x")',
    "jdbc:sqlserver://x": "MERGE INTO [app].[t] WITH (HOLDLOCK) t USING (SELECT ? AS [id], "
    "? AS [x]) s ON (t.[id] = s.[id]) WHEN MATCHED THEN UPDATE SET [x] = s.[x] "
    "WHEN NOT MATCHED THEN INSERT ([id], [x]) VALUES (s.[id], s.[x]);",
    "jdbc:db2://x": 'MERGE INTO "app"."t" t USING (VALUES (?, ?)) s ("id", "x") '
    'ON (t."id" = s."id") WHEN MATCHED THEN UPDATE SET "x" = s."x" '
    'WHEN NOT MATCHED THEN INSERT ("id", "x") VALUES (s."id", s."x")',
}


def dialect(url: str, zone: str = "UTC", *, holds_lock: bool = True) -> Generic:
    product: Product = product_of(parse(url))
    return Generic(ZoneInfo(zone), product, holds_lock=holds_lock)


@pytest.mark.parametrize("url", MERGES)
def test_an_upsert_is_one_statement_where_the_database_has_it(url: str) -> None:
    assert dialect(url)._merge(UPSERT) == MERGES[url]


def test_sql_server_locks_only_if_that_is_wished() -> None:
    assert "HOLDLOCK" not in dialect("jdbc:sqlserver://x", holds_lock=False)._merge(UPSERT)
    given = {"connection.url": "jdbc:sqlserver://x", "mssql.use.merge.holdlock": "false",
             "penstock.jdbc.driver.jars": __file__, "penstock.jdbc.driver.class": "x"}  # fmt: skip
    assert [each.name for each in JDBC_SINK.validate(given) if each.errors] == [
        "penstock.jdbc.driver.class"
    ], "this file is not a jar"


def test_rows_that_are_all_key_are_merged_without_an_update() -> None:
    merge = dialect("jdbc:db2://x")._merge(Segment(Write.UPSERT, TABLE, ("a", "b"), (0, 1)))
    assert "WHEN MATCHED" not in merge


FULL = [
    Wanted("k", s.STRING, key=True),
    Wanted("i", Schema(s.INT32.type, default=3)),
    Wanted("b", s.BOOLEAN.as_optional()),
    Wanted("n", s.decimal(2)),
    Wanted("at", replace(s.TIMESTAMP, default=datetime(2024, 2, 29, tzinfo=UTC))),
]
CREATED: Mapping[str, str] = {
    "jdbc:sqlserver://x": "CREATE TABLE [t] (\n[k] varchar(900) NOT NULL,\n[i] int DEFAULT 3 "
    "NOT NULL,\n[b] bit NULL,\n[n] decimal(38,2) NOT NULL,\n[at] datetime2 DEFAULT "
    "'2024-02-29 00:00:00' NOT NULL,\nPRIMARY KEY([k]))",
    "jdbc:oracle:thin:@x": 'CREATE TABLE "t" (\n"k" VARCHAR2(4000) NOT NULL,\n"i" NUMBER(10,0) '
    'DEFAULT 3 NOT NULL,\n"b" NUMBER(1,0) NULL,\n"n" NUMBER(*,2) NOT NULL,\n"at" TIMESTAMP '
    "DEFAULT TIMESTAMP '2024-02-29 00:00:00' NOT NULL,\nPRIMARY KEY(\"k\"))",
    "jdbc:db2://x": 'CREATE TABLE "t" (\n"k" VARCHAR(255) NOT NULL,\n"i" INTEGER DEFAULT 3 '
    'NOT NULL,\n"b" SMALLINT,\n"n" DECIMAL(31,2) NOT NULL,\n"at" TIMESTAMP DEFAULT TIMESTAMP '
    "'2024-02-29 00:00:00' NOT NULL,\nPRIMARY KEY(\"k\"))",
}


@pytest.mark.parametrize("url", CREATED)
def test_a_table_is_created_in_the_words_of_the_database(url: str) -> None:
    assert dialect(url).create(TableName(("t",)), FULL) == CREATED[url]


def test_a_default_time_is_a_clocks_in_the_zone() -> None:
    at = dialect("jdbc:oracle:thin:@x", "Etc/GMT-2").default(replace(s.TIME, default=time(9, 30)))
    assert at == "TO_DATE('1970-01-01 11:30:00', 'YYYY-MM-DD HH24:MI:SS')"


def test_columns_are_added_one_by_one() -> None:
    wanted = [Wanted("a", s.OPTIONAL_STRING), Wanted("b", s.OPTIONAL_INT64)]
    assert dialect("jdbc:oracle:thin:@x").add(TABLE, wanted) == [
        'ALTER TABLE "app"."t" ADD ("a" VARCHAR2(4000) NULL)',
        'ALTER TABLE "app"."t" ADD ("b" NUMBER(19,0) NULL)',
    ]


def test_nested_values_have_no_type() -> None:
    with pytest.raises(UnmappedType, match="'inside'"):
        dialect("jdbc:h2:x").column_type(Wanted("inside", s.struct({"a": s.INT8})))
    with pytest.raises(UnmappedType, match="Unsupported source data type"):
        dialect("jdbc:h2:x").encoder(s.struct({"a": s.INT8}))


def test_the_table_of_offsets_is_filled_only_once() -> None:
    sql = dialect("jdbc:oracle:thin:@x").begin_offset(TableName(("o",)), "?")
    assert sql.count("?") == 4
    assert "FROM DUAL" in sql
    assert "NOT EXISTS" in sql


def test_nan_and_infinity_are_refused_if_the_database_does_not_support_them() -> None:
    bad: dict[int, Exception] = {}
    encode = dialect("jdbc:sqlserver://x").encoder(s.FLOAT64)
    assert encode([1.5, float("nan"), None], bad) == [1.5, None, None]
    assert list(bad) == [1]
    assert dialect("jdbc:h2:x").encoder(s.FLOAT64)([float("inf")], {}) == [float("inf")]


def test_half_a_surrogate_pair_is_refused_and_costs_nothing_else() -> None:
    bad: dict[int, Exception] = {}
    encode = dialect("jdbc:h2:x").encoder(s.STRING)
    assert encode(["ä", None], bad) == ["ä", None]
    assert not bad
    assert encode(["ä", "a\ud800", None, ""], bad) == ["ä", None, None, ""]
    assert list(bad) == [1]


@pytest.mark.parametrize(
    ("url", "plain", "zoned"),
    [
        ("jdbc:some:x", "{ts '2024-07-01 12:00:00.000000'}", "TIMESTAMP '"),
        ("jdbc:oracle:thin:@x", "TIMESTAMP '2024-07-01 12:00:00.000000'", " +00:00'"),
        ("jdbc:sqlserver://x", "AS datetime2(7))", "AS datetimeoffset(7))"),
    ],
)
def test_moments_are_compared_in_the_words_of_the_database(
    url: str, plain: str, zoned: str
) -> None:
    product = product_of(parse(url))
    at = "2024-07-01 12:00:00.000000"
    assert plain in product.moment.format(at=at)
    assert zoned in product.zoned.format(at=at)


def test_a_type_in_ticks_is_compared_with_a_literal_of_its_own() -> None:
    coarse = product_of(parse("jdbc:sqlserver://x")).coarse
    at_ns = 1_500_003_000_000
    literals = [each.literal.format(at=digits(at_ns, each.digits)) for each in coarse.values()]
    assert literals == [
        "CONVERT(datetime, '1970-01-01 00:25:00.003', 121)",
        "CONVERT(smalldatetime, '1970-01-01 00:25:00', 120)",
    ]


def test_the_sink_uses_the_dialect_of_the_url(jar: Path) -> None:
    given = {"connection.url": "jdbc:oracle:thin:@x", "penstock.jdbc.driver.jars": str(jar)}
    found = dialect_of(JDBC_SINK.parse(given))
    assert isinstance(found, Generic)
    assert found.quoted('a"b') == '"a""b"'
