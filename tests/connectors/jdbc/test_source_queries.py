"""Queries in mode bulk: real PostgreSQL and MariaDB servers run them as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time
from typing import Any

import pytest

from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.source import JdbcSource
from penstock.errors import PenstockError
from tests.servers.databases import DatabaseServer

from .tables import MOST, only_row, open_reader, props, read, run


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, DatabaseServer)
    return found


@pytest.fixture
def table(unique: Callable[[str], str]) -> str:
    return unique("t").replace("-", "_")[:40]


def rows(server: DatabaseServer, query: str, **settings: object) -> list[dict[str, Any]]:
    """The rows of a query, after its validation has found nothing."""
    given: dict[str, object] = {
        "mode": "bulk",
        "query": query,
        "poll__interval__ms": 3_600_000,
        **settings,
    }
    config = JDBC_SOURCE.parse(props(server, "", **given))
    found = [str(each) for each in JdbcSource().validate_live(config) if each.error]
    assert found == []
    return read(open_reader(server, "", **given))[0]


@pytest.mark.parametrize(
    ("query", "parallel"),
    [("{} -- all", 1), ("{} -- all", 4), ("{};", 1), ("{}; -- all", 1), ("/* all */ {}", 1)],
)
def test_comments_and_semicolons_do_no_harm(
    server: DatabaseServer, table: str, query: str, parallel: int
) -> None:
    run(server, f"CREATE TABLE {table} (id INTEGER)", f"INSERT INTO {table} VALUES (2), (1), (3)")
    text = query.format(f"SELECT id FROM {table} ORDER BY id DESC")
    settings = {"penstock__read__parallelism": parallel}
    assert rows(server, text, **settings) == [{"id": 3}, {"id": 2}, {"id": 1}]
    if "-- all" not in query or ";" not in query:
        assert len(rows(server, text, query__suffix="LIMIT 2")) == 2


@pytest.mark.parametrize("mode", ["incrementing", "bulk"])
def test_a_comment_at_the_end_hides_no_condition(
    server: DatabaseServer, table: str, mode: str
) -> None:
    run(server, f"CREATE TABLE {table} (id INTEGER)", f"INSERT INTO {table} VALUES (1)")
    query = f"SELECT id FROM {table} -- all"
    settings = {"mode": mode, "incrementing__column__name": "id"}
    assert rows(server, query, **settings) == [{"id": 1}]


def test_statements_other_than_select_return_their_rows(server: DatabaseServer, table: str) -> None:
    run(server, f"CREATE TABLE {table} (id INTEGER)")
    if server.url.startswith("jdbc:mariadb"):
        run(
            server,
            f"CREATE PROCEDURE {table}_p () BEGIN INSERT INTO {table} VALUES (7); "
            f"SELECT id, 'é%' AS s FROM {table}; END",
        )
        assert rows(server, f"SHOW TABLES LIKE '{table}'")[0].popitem()[1] == table
        assert rows(server, f"CALL {table}_p()") == [{"id": 7, "s": "é%"}]
        assert rows(server, f"CALL {table}_p()") == [{"id": 7, "s": "é%"}] * 2
        return
    run(
        server,
        f"CREATE PROCEDURE {table}_p (INOUT n integer) LANGUAGE sql AS 'SELECT n + 1'",
    )
    assert rows(server, "SHOW server_encoding") == [{"server_encoding": "UTF8"}]
    assert rows(server, f"CALL {table}_p(7)") == [{"n": 8}]
    assert rows(server, "EXPLAIN SELECT 1 AS one")[0]["QUERY PLAN"].startswith("Result")
    query = (
        f"WITH new AS (INSERT INTO {table} VALUES (7) RETURNING *) SELECT id, 'é%' AS s FROM new"
    )
    assert rows(server, query) == [{"id": 7, "s": "é%"}]
    assert rows(server, f"TABLE {table}") == [{"id": 7}]


PLAIN = {
    "b": ("true", True),
    "i": ("8::bigint", 8),
    "f": ("'-Infinity'::float8", float("-inf")),
    "cash": ("'-$1,234.50'::money", -1234.5),
    "raw": ("'\\x00ff'::bytea", b"\0\xff"),
    "ttz": ("'01:00:00+02'::timetz", time(23)),
    "tstz": ("'2024-07-01 12:00:00+02'::timestamptz", datetime(2024, 7, 1, 10, tzinfo=UTC)),
    "ts": ("'2024-07-01 12:00:00'::timestamp", datetime(2024, 7, 1, 12, tzinfo=UTC)),
    "bit1": ("B'1'::bit(1)", True),
    "bit8": ("B'10000001'::bit(8)", -127),
    "bit9": ("B'100000001'::bit(9)", b"\x80\x80"),
    "nothing": ("NULL::integer", None),
    "empty": ("''", ""),
}


@pytest.mark.parametrize("copied", [True, False])
def test_every_type_has_its_value_however_the_rows_arrive(
    postgresql: DatabaseServer, table: str, copied: bool
) -> None:
    run(postgresql, f"CREATE TABLE {table} (id INTEGER)")
    selected = ", ".join(f"{text} AS {name}" for name, (text, _) in PLAIN.items())
    query = f"SELECT {selected}, ARRAY[1] AS tags"
    if not copied:  # COPY cannot contain such a statement
        query = f"WITH new AS (INSERT INTO {table} VALUES (1)) {query}"
    ((row),) = rows(postgresql, query)
    assert row == {name: value for name, (_, value) in PLAIN.items()}


def test_a_timestamp_of_mariadb_is_an_instant_in_a_query_as_in_a_table(
    mariadb: DatabaseServer, table: str
) -> None:
    run(
        mariadb,
        "SET time_zone = '+00:00', sql_mode = ''",
        f"CREATE TABLE {table} (id INTEGER, at TIMESTAMP(6) NULL)",
        f"INSERT INTO {table} VALUES (1, '2024-07-01 12:00:00.5'), (2, NULL), (3, '0000-00-00')",
    )
    url = f"{mariadb.url}?sessionVariables=time_zone='%2B05:00'"
    found = rows(mariadb, f"SELECT at FROM {table} ORDER BY id", connection__url=url)
    assert [row["at"] for row in found] == [
        datetime(2024, 7, 1, 12, 0, 0, 500_000, tzinfo=UTC),
        None,
        None,
    ]


def test_a_query_without_rows_is_read_again_in_time(server: DatabaseServer, table: str) -> None:
    run(server, f"CREATE TABLE {table} (id INTEGER)")
    assert rows(server, f"SELECT id FROM {table} -- none yet") == []


def test_a_query_that_cannot_run_is_reported(server: DatabaseServer, table: str) -> None:
    for query, text in (
        (f"SELECT nothing FROM {table}_missing", f"{table}_missing"),
        ("SELEKT 1", "SELEKT"),
    ):
        given = {"mode": "bulk", "query": query}
        findings = JdbcSource().validate_live(JDBC_SOURCE.parse(props(server, "", **given)))
        messages = [str(each.error) for each in findings if each.error]
        assert len(messages) == 1
        assert "The database rejected the query" in messages[0]
        assert text in messages[0]
        with pytest.raises(PenstockError, match=text):
            open_reader(server, "", **given).poll(MOST, 0)


def test_columns_of_one_name_are_refused_by_it(server: DatabaseServer, table: str) -> None:
    reader = open_reader(server, "", mode="bulk", query="SELECT 1 AS id, 2 AS id")
    with pytest.raises(PenstockError, match="several columns named 'id'; rename them with AS"):
        only_row(reader)
