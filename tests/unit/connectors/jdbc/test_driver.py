"""Databases behind a JDBC driver, as far as it takes neither a driver nor a JVM: where jars are
found, what errors mean, and the statements that each product is sent."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.config.define import Secret
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
)
from penstock.connectors.jdbc.drivers.jvm.cells import written
from penstock.connectors.jdbc.drivers.jvm.errors import meaning
from penstock.connectors.jdbc.drivers.jvm.jars import jars_of, problem
from penstock.connectors.jdbc.drivers.products import DIALECT_NAMES, Product, product_of
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.drivers.url import Kind, Url, UrlInvalid, parse
from penstock.connectors.jdbc.read.columns import Mapping as Columns
from penstock.connectors.jdbc.read.columns import SqlColumn, cells_of
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.write.dialect import (
    Segment,
    TableName,
    UnmappedType,
    Wanted,
    Write,
    wall_time,
)
from penstock.connectors.jdbc.write.driver import Generic
from penstock.connectors.jdbc.write.settings import dialect_of
from penstock.data import schema as s
from penstock.data.schema import Schema
from penstock.errors import PenstockError

# ── URLs ─────────────────────────────────────────────────────────────────────────────────────────

SHOWN = {
    "jdbc:h2:tcp://db:9092/./shop;USER=sa;PASSWORD=hush": (
        "h2", "jdbc:h2:tcp://db:9092/./shop",
    ),
    "jdbc:oracle:thin:scott/hush@//db:1521/orcl": (
        "oracle:thin", "jdbc:oracle:thin:@//db:1521/orcl",
    ),
    "jdbc:oracle:thin:@db:1521:orcl": ("oracle:thin", "jdbc:oracle:thin:@db:1521:orcl"),
    "jdbc:sqlserver://db:1433;databaseName=shop;user=me;password=hush": (
        "sqlserver", "jdbc:sqlserver://db:1433",
    ),
    "jdbc:microsoft:sqlserver://db:1433": ("microsoft:sqlserver", "jdbc:microsoft:sqlserver://db:1433"),
    "jdbc:db2://db:50000/shop:user=me;password=hush;": ("db2", "jdbc:db2://db:50000/shop"),
    "jdbc:sap://db:30015/?user=me&password=hush": ("sap", "jdbc:sap://db:30015/"),
    "jdbc:clickhouse://me:hush@db:8123/shop": ("clickhouse", "jdbc:clickhouse://db:8123/shop"),
}  # fmt: skip


@pytest.mark.parametrize("text", SHOWN)
def test_any_other_url_is_for_its_driver_and_shows_no_password(text: str) -> None:
    url = parse(text, "one", Secret("secret"))
    assert url.kind is Kind.OTHER
    assert (url.database, url.shown) == SHOWN[text]
    assert (url.user, url.password, url.address) == ("one", Secret("secret"), Secret(text))
    assert "hush" not in repr(url)


@pytest.mark.parametrize("text", ["jdbc:", "jdbc:h2", "jdbc:h2:", "jdbc::x", "jdbc://x"])
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(UrlInvalid, match=r"connection\.url.*jdbc:"):
        parse(text)


# ── jars ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "jars" / "driver.jar"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("META-INF/services/java.sql.Driver", "some.Driver")
        archive.writestr("some/Driver.class", b"")
    (path.parent / "other.JAR").write_bytes(b"no archive")
    (path.parent / "notes.txt").write_text("no jar")
    return path


def other(jars: str = "", named: str = "") -> Url:
    return replace(parse("jdbc:some:thing"), options={"jars": jars, "class": named})


def test_jars_are_named_by_file_by_folder_and_as_in_a_class_path(jar: Path) -> None:
    both = [str(jar), str(jar.parent / "other.JAR")]
    assert jars_of([str(jar)]) == [str(jar)]
    assert jars_of([str(jar.parent)]) == both
    assert jars_of([f"{jar.parent}/*"]) == both
    assert jars_of([str(jar), str(jar.parent)]) == both, "each once"
    assert jars_of([], f"{jar.parent}/*{os.pathsep}{jar}{os.pathsep}") == both
    assert jars_of([], "") == []


def test_a_relative_name_is_found_where_spark_puts_files(
    jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jars_of(["driver.jar"]) == []
    monkeypatch.syspath_prepend(str(jar.parent))
    assert jars_of(["driver.jar"]) == [str(jar)]


def test_what_is_missing_is_told_with_the_setting(
    jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLASSPATH", raising=False)
    assert problem(other(str(jar))) is None
    assert problem(other(str(jar), "some.Driver")) is None
    for jars, named, setting, said in (
        ("", "", "connection.url", "penstock.jdbc.driver.jars"),
        (str(jar.parent / "other.JAR"), "", "connection.url", "none of these jars has one"),
        (f"{jar},gone.jar", "", "penstock.jdbc.driver.jars", "gone.jar"),
        (str(jar), "another.Driver", "penstock.jdbc.driver.class", "another.Driver"),
    ):
        told = problem(other(jars, named))
        assert told is not None
        assert told[0] == setting
        assert said in told[1]
    monkeypatch.setenv("CLASSPATH", str(jar))
    assert problem(other()) is None
    monkeypatch.setattr("penstock.connectors.jdbc.drivers.jvm.jars.find_spec", lambda name: None)
    told = problem(other())
    assert told is not None
    assert "pip install JPype1" in told[1]


def test_the_dialect_has_to_be_one_of_a_driver(jar: Path) -> None:
    given = {"connection.url": "jdbc:some:thing", "penstock.jdbc.driver.jars": str(jar)}
    for name in DIALECT_NAMES:
        config = JDBC_SINK.parse({**given, "dialect.name": name})
        assert product_of(database_of(config).url).name == name
    with pytest.raises(PenstockError, match=r"dialect\.name=MySqlDatabaseDialect"):
        JDBC_SINK.parse({**given, "dialect.name": "MySqlDatabaseDialect"})
    with pytest.raises(PenstockError, match=r"dialect\.name"):
        JDBC_SINK.parse({"connection.url": "jdbc:sqlite:a", "dialect.name": DIALECT_NAMES[0]})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("jdbc:oracle:thin:@db:1521:x", "OracleDatabaseDialect"),
        ("jdbc:sqlserver://db", "SqlServerDatabaseDialect"),
        ("jdbc:jtds:sqlserver://db", "SqlServerDatabaseDialect"),
        ("jdbc:jtds:sybase://db", "SybaseDatabaseDialect"),
        ("jdbc:db2://db/x", "Db2DatabaseDialect"),
        ("jdbc:derby://db/x", "DerbyDatabaseDialect"),
        ("jdbc:sap://db", "SapHanaDatabaseDialect"),
        ("jdbc:vertica://db/x", "VerticaDatabaseDialect"),
        ("jdbc:clickhouse://db/x", "GenericDatabaseDialect"),
    ],
)
def test_the_url_says_which_product_it_is(url: str, name: str) -> None:
    assert product_of(parse(url)).name == name


# ── errors ───────────────────────────────────────────────────────────────────────────────────────

MEANINGS = [
    ("08001", (), DatabaseAway),
    ("57030", (), DatabaseAway),
    ("90067", ("java.sql.SQLNonTransientConnectionException",), DatabaseAway),
    ("57014", (), DatabaseBusy),
    ("40001", ("java.sql.SQLTransactionRollbackException",), DatabaseBusy),
    ("HYT00", ("org.h2.X", "java.sql.SQLTimeoutException"), DatabaseBusy),
    ("22001", ("java.sql.SQLDataException",), RowRefused),
    ("23505", (), RowRefused),
    ("28000", ("java.sql.SQLNonTransientConnectionException",), DatabaseRefused),
    ("42S02", ("java.sql.SQLSyntaxErrorException",), DatabaseRefused),
    ("", ("oracle.X", "java.sql.SQLRecoverableException"), DatabaseAway),
    ("72000", ("java.sql.SQLIntegrityConstraintViolationException",), RowRefused),
    ("", ("java.sql.SQLException",), DatabaseRefused),
]  # fmt: skip


@pytest.mark.parametrize(("state", "classes", "expected"), MEANINGS)
def test_states_and_classes_of_errors(
    state: str, classes: tuple[str, ...], expected: type[PenstockError]
) -> None:
    assert meaning(state, classes) is expected


# ── values ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("cells", "letter", "given"),
    [
        ([1, None, -(1 << 63)], "l", [1, None, -(1 << 63)]),
        ([True, None], "z", [1, None]),
        ([0.5], "d", [0.5]),
        ([Decimal("1E+3"), None], "n", ["1000", None]),
        ([Decimal("0." + "0" * 50 + "1")], "n", ["0." + "0" * 50 + "1"]),
        (["ä", None], "s", ["ä", None]),
        ([None, None], "s", [None, None]),
        ([b"\0"], "b", [b"\0"]),
        ([date(1969, 12, 31)], "D", [-1]),
        ([time(1), time(23)], "T", [3 * 3_600_000_000, 3_600_000_000]),
        ([datetime(1970, 1, 1, tzinfo=UTC), None], "M", [7_200_000_000, None]),
    ],
)
def test_cells_are_handed_to_java_by_kind(
    cells: list[object], letter: str, given: list[object]
) -> None:
    found, array = written(cells, "Etc/GMT-2")
    assert found == letter
    assert array.to_pylist() == given


def test_cells_of_several_kinds_are_refused() -> None:
    with pytest.raises((RowRefused, pa.ArrowException)):
        written([1, "a"], "UTC")


@pytest.mark.parametrize(
    ("zone", "clock"),
    [
        ("UTC", time(9, 30)),
        ("Europe/London", time(10, 30)),  # it had summer time all that winter
        ("Asia/Kolkata", time(15)),
        ("Africa/Monrovia", time(8, 45, 30)),
    ],
)
def test_times_are_those_of_a_clock_in_1970_to_all_who_write_and_read(
    zone: str, clock: time
) -> None:
    assert wall_time(time(9, 30), ZoneInfo(zone)) == clock
    _, array = written([time(9, 30), None], zone)
    cells = array.cast(pa.time64("us"))
    assert cells.to_pylist() == [clock, None]
    column = SqlColumn("at", Sql.TIME, "time")
    read = cells_of(column, s.TIME, Columns(zone=ZoneInfo(zone)))
    assert read(cells) == [time(9, 30), None]


# ── statements ───────────────────────────────────────────────────────────────────────────────────

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
    ], "this file is no jar"


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


def test_numbers_that_are_none_are_refused_where_there_are_not() -> None:
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
        ("jdbc:sqlserver://x", "AS datetime2(6))", "AS datetimeoffset(6))"),
    ],
)
def test_moments_are_compared_in_the_words_of_the_database(
    url: str, plain: str, zoned: str
) -> None:
    product = product_of(parse(url))
    at = "2024-07-01 12:00:00.000000"
    assert plain in product.moment.format(at=at)
    assert zoned in product.zoned.format(at=at)


def test_the_sink_uses_the_dialect_of_the_url(jar: Path) -> None:
    given = {"connection.url": "jdbc:oracle:thin:@x", "penstock.jdbc.driver.jars": str(jar)}
    found = dialect_of(JDBC_SINK.parse(given))
    assert isinstance(found, Generic)
    assert found.quoted('a"b') == '"a""b"'
