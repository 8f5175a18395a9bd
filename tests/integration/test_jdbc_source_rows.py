"""Rows of real PostgreSQL and MariaDB servers that are easily lost or changed on their way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.testing.databases import DatabaseServer

from .jdbc_tables import open_reader, read, run


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
