"""Databases behind a JDBC driver, without a driver or a JVM: where jars are found, what errors
mean, and how cells are passed."""

from __future__ import annotations

import os
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
from penstock.connectors.jdbc.drivers.products import DIALECT_NAMES, product_of
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.drivers.url import Kind, Url, UrlInvalid, parse
from penstock.connectors.jdbc.read.columns import Mapping as Columns
from penstock.connectors.jdbc.read.columns import SqlColumn, cells_of
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.write.dialect import (
    wall_time,
)
from penstock.data import schema as s
from penstock.errors import PenstockError

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
def test_an_invalid_url_is_refused(text: str) -> None:
    with pytest.raises(UrlInvalid, match=r"connection\.url.*jdbc:"):
        parse(text)


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


def test_a_missing_driver_is_reported_with_the_setting(
    jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLASSPATH", raising=False)
    assert problem(other(str(jar))) is None
    assert problem(other(str(jar), "some.Driver")) is None
    for jars, named, setting, said in (
        ("", "", "connection.url", "penstock.jdbc.driver.jars"),
        (str(jar.parent / "other.JAR"), "", "connection.url", "none of these jars contains one"),
        (f"{jar},gone.jar", "", "penstock.jdbc.driver.jars", "gone.jar"),
        (str(jar), "another.Driver", "penstock.jdbc.driver.class", "another.Driver"),
    ):
        reported = problem(other(jars, named))
        assert reported is not None
        assert reported[0] == setting
        assert said in reported[1]
    monkeypatch.setenv("CLASSPATH", str(jar))
    assert problem(other()) is None


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
