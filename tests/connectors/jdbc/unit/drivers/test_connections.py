"""What database errors mean, and how connections behave."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pymysql
import pytest

from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
)
from penstock.connectors.jdbc.drivers.mysql import MysqlConnection
from penstock.connectors.jdbc.drivers.postgresql import PostgresqlConnection
from penstock.connectors.jdbc.drivers.sqlite import SqliteConnection
from penstock.connectors.jdbc.drivers.url import UrlInvalid, parse
from penstock.errors import PenstockError
from penstock.kafka.broker import free_port

POSTGRESQL: list[tuple[str, type[PenstockError]]] = [
    ("08006", DatabaseAway),  # connection failure
    ("53100", DatabaseAway),  # disk full
    ("53300", DatabaseAway),  # too many connections
    ("57P01", DatabaseAway),  # the server is shut down
    ("25006", DatabaseAway),  # it became a standby
    ("40P01", DatabaseBusy),  # deadlock
    ("40001", DatabaseBusy),  # serialization failure
    ("55P03", DatabaseBusy),  # lock not available
    ("22001", RowRefused),  # too long
    ("22P02", RowRefused),  # no number
    ("23502", RowRefused),  # null
    ("23505", RowRefused),  # unique
    ("42804", RowRefused),  # type mismatch
    ("42P01", DatabaseRefused),  # no such table
    ("42501", DatabaseRefused),  # no privilege
    ("28P01", DatabaseRefused),  # wrong password
]


@pytest.mark.parametrize(("state", "expected"), POSTGRESQL)
def test_states_of_postgresql(state: str, expected: type[PenstockError]) -> None:
    error = PostgresqlConnection.error_of(psycopg.errors.lookup(state)("its words"))
    assert type(error) is expected
    assert f"its words (SQLSTATE {state})" in str(error)


MYSQL: list[tuple[int, type[PenstockError]]] = [
    (2003, DatabaseAway),  # cannot connect
    (2006, DatabaseAway),  # gone away
    (2013, DatabaseAway),  # lost during the query
    (1040, DatabaseAway),  # too many connections
    (1021, DatabaseAway),  # disk full
    (1290, DatabaseAway),  # read only
    (1205, DatabaseBusy),  # lock wait timeout
    (1213, DatabaseBusy),  # deadlock
    (1406, RowRefused),  # too long
    (1264, RowRefused),  # out of range
    (1366, RowRefused),  # no number
    (1062, RowRefused),  # duplicate
    (1452, RowRefused),  # foreign key
    (4025, RowRefused),  # a check, MariaDB's
    (1146, DatabaseRefused),  # no such table
    (1142, DatabaseRefused),  # no privilege
    (1045, DatabaseRefused),  # wrong password
]


@pytest.mark.parametrize(("code", "expected"), MYSQL)
def test_codes_of_mysql(code: int, expected: type[PenstockError]) -> None:
    error = MysqlConnection.error_of(pymysql.err.OperationalError(code, "its words"))
    assert type(error) is expected
    assert str(error) == f"its words (error {code})"


@pytest.mark.parametrize("parameter", ["serverSslCert", "sslCert"])
def test_a_file_for_tls_that_cannot_be_used_is_named_with_its_parameter(parameter: str) -> None:
    url = parse(f"jdbc:mysql://127.0.0.1:1/d?sslMode=REQUIRED&{parameter}=absent.pem")
    with pytest.raises(
        UrlInvalid, match=rf"connection\.url: .* the file 'absent\.pem' of {parameter}"
    ):
        Database(url).connect()


def in_transaction(connection: Connection, *statements: str) -> None:
    with connection.transaction():
        for statement in statements:
            connection.execute(statement)


def test_a_full_disk_under_sqlite_is_waited_for(tmp_path: Path) -> None:
    with Database(parse(f"jdbc:sqlite:{tmp_path / 'a.db'}")).connect() as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.execute("PRAGMA max_page_count = 8")
        with pytest.raises(DatabaseAway, match="full"):
            in_transaction(
                connection, "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (zeroblob(100000))"
            )
        assert connection.rows("SELECT * FROM t") == []
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (2)")
        assert connection.rows("SELECT * FROM t") == [(2,)]


def test_a_lock_that_another_has_on_sqlite_is_waited_for(tmp_path: Path) -> None:
    database = Database(parse(f"jdbc:sqlite:{tmp_path / 'a.db'}?busy_timeout=1"))
    with database.connect() as one, database.connect() as other:
        one.execute("CREATE TABLE t (a)")
        with one.transaction(), pytest.raises(DatabaseBusy), other.transaction():
            pass
        with other.transaction():
            other.execute("INSERT INTO t VALUES (1)")


def test_an_error_in_a_transaction_rolls_it_back(tmp_path: Path) -> None:
    with Database(parse(f"jdbc:sqlite:{tmp_path / 'a.db'}")).connect() as connection:
        connection.execute("CREATE TABLE t (a)")
        with pytest.raises(DatabaseRefused, match="no such table"):
            in_transaction(connection, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
        assert connection.rows("SELECT * FROM t") == []


def test_rows_are_streamed_in_pieces(tmp_path: Path) -> None:
    with Database(parse(f"jdbc:sqlite:{tmp_path / 'a.db'}")).connect() as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.many("INSERT INTO t VALUES (?)", [(number,) for number in range(25)])
        pieces = list(connection.stream("SELECT a FROM t WHERE a > ? ORDER BY a", (1,), size=10))
        assert [len(piece) for piece in pieces] == [10, 10, 3]
        assert pieces[0][0] == (2,)


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "mariadb"])
def test_a_server_that_is_unreachable_is_tried_as_often_as_was_said(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = parse(f"jdbc:{kind}://127.0.0.1:{free_port()}/shop", "me")
    with pytest.raises(DatabaseAway) as away:
        Database(url, attempts=3, backoff_ms=1).connect()
    assert str(away.value).startswith(f"Cannot connect to {url.shown} (connection.url) as 'me': ")
    assert [record.args[:2] for record in caplog.records if record.args] == [(1, 3), (2, 3)]  # type: ignore[index]


def test_the_file_of_sqlite_may_come_later(tmp_path: Path) -> None:
    database = Database(parse(f"jdbc:sqlite:{tmp_path / 'later' / 'a.db'}"), attempts=1)
    with pytest.raises(DatabaseAway):
        database.connect()
    (tmp_path / "later").mkdir()
    database.connect().close()


def test_a_value_that_cannot_even_be_sent_is_the_rows_fault() -> None:
    connection = sqlite3.connect(":memory:")
    for value in (2**70, "\ud800", object()):
        with pytest.raises(Exception) as failure:  # noqa: PT011 - the driver's, of any kind
            connection.execute("SELECT ?", (value,))
        assert isinstance(failure.value, Exception)
        assert type(SqliteConnection.error_of(failure.value)) is RowRefused
    connection.close()
