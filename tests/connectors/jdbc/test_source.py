"""Tables of real PostgreSQL and MariaDB servers as records: what is read, when, and where reading
continues."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

import pytest

from penstock.api import SourceOffset
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.source import JdbcSource
from penstock.errors import PenstockError, Unavailable
from penstock.testing.waiting import wait_until
from tests.servers.databases import DatabaseServer, PostgresServer

from .tables import (
    MOST,
    NotesConformance,
    ids_read_around_a_kill,
    only_poll,
    open_reader,
    polls,
    props,
    read,
    reader_of,
    rows_of,
    run,
)


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, DatabaseServer)
    return found


@pytest.fixture
def table(unique: Callable[[str], str]) -> str:
    return unique("t").replace("-", "_")[:40]


class OfServer(NotesConformance):
    bad_configs = (
        ({"connection.password": "wrong"}, "connection.url"),
        ({"connection.url": "jdbc:nothing:x"}, "connection.url"),
    )
    stamp: ClassVar[str]

    def fresh(self, server: DatabaseServer) -> None:
        self.server = server
        run(
            server,
            "DROP TABLE IF EXISTS notes",
            "CREATE TABLE notes (id INTEGER NOT NULL PRIMARY KEY, text VARCHAR(200), "
            f"changed {self.stamp} NOT NULL)",
        )


class OnPostgresql(OfServer):
    stamp = "TIMESTAMPTZ"

    @pytest.fixture(autouse=True)
    def _fresh(self, postgresql: DatabaseServer) -> None:
        self.fresh(postgresql)


class OnMariaDb(OfServer):
    stamp = "DATETIME(6)"

    @pytest.fixture(autouse=True)
    def _fresh(self, mariadb: DatabaseServer) -> None:
        self.fresh(mariadb)


class TestPostgresqlIncrementing(OnPostgresql):
    pass


class TestPostgresqlBoth(OnPostgresql):
    mode = "timestamp+incrementing"


class TestMariaDbIncrementing(OnMariaDb):
    pass


class TestMariaDbBoth(OnMariaDb):
    mode = "timestamp+incrementing"


def test_partitions_are_named_as_the_jvms_connector_names_them(
    server: DatabaseServer, table: str
) -> None:
    run(server, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)", f"INSERT INTO {table} VALUES (3)")
    reader = open_reader(server, table, incrementing__column__name="id")
    whole = f"shop.public.{table}" if isinstance(server, PostgresServer) else f"shop.{table}"
    assert only_poll(reader).offsets == [
        SourceOffset({"protocol": "1", "table": whole}, {"incrementing": 3})
    ]
    for name in (f"public.{table}", table):
        if isinstance(server, PostgresServer):
            stored = [SourceOffset({"protocol": "1", "table": name}, {"incrementing": 3})]
            again = open_reader(server, table, stored, incrementing__column__name="id")
            assert read(again) == ([], [])


def test_a_transaction_that_commits_late_inside_the_delay_is_not_lost(
    postgresql: DatabaseServer, table: str
) -> None:
    run(
        postgresql,
        f"CREATE TABLE {table} (id serial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())",
    )
    settings: dict[str, object] = {
        "mode": "timestamp+incrementing",
        "timestamp__column__name": "at",
        "incrementing__column__name": "id",
    }
    with postgresql.connect() as slow:
        slow.execute("BEGIN")
        slow.execute(f"INSERT INTO {table} DEFAULT VALUES")  # the earliest, and the last to commit
        run(postgresql, f"INSERT INTO {table} DEFAULT VALUES")
        hasty = open_reader(postgresql, table, **settings)
        patient = open_reader(postgresql, table, **settings, timestamp__delay__interval__ms=60_000)
        seen, reached = read(hasty)
        assert [row["id"] for row in seen] == [2]
        waited = read(patient)
        slow.execute("COMMIT")
    run(postgresql, f"UPDATE {table} SET at = at - interval '2 minutes'")
    assert waited == ([], [])
    assert [row["id"] for row in read(patient)[0]] == [1, 2]
    assert read(hasty)[0] == [], "why there is a delay"
    assert read(open_reader(postgresql, table, reached, **settings))[0] == []


@pytest.mark.parametrize(
    ("name", "id", "kind"),
    [
        ("mariadb", "INTEGER AUTO_INCREMENT", "DATETIME"),
        ("postgresql", "SERIAL", "TIMESTAMP(0)"),
        ("postgresql", "SERIAL", "TIMESTAMPTZ(1)"),
    ],
)
def test_of_a_clock_in_whole_seconds_the_running_one_is_left_for_later(
    request: pytest.FixtureRequest, table: str, name: str, id: str, kind: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(name)
    run(
        server,
        f"CREATE TABLE {table} (id {id} PRIMARY KEY, n INTEGER, "
        f"at {kind} NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    )
    reader = open_reader(
        server, table, range_bytes=2000, mode="timestamp", timestamp__column__name="at"
    )
    seen: list[int] = []
    stop = threading.Event()

    def write() -> None:
        with server.connect() as connection:
            for _ in range(300):
                connection.execute(f"INSERT INTO {table} (n) VALUES (1)")
                stop.wait(0.01)
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not stop.is_set():
            seen += [row["id"] for row in read(reader)[0]]
    finally:
        stop.set()
        writer.join()
    assert len(seen) == len(set(seen))
    assert sorted(seen) == list(range(1, len(seen) + 1))
    assert len(seen) > 50


def test_rows_written_meanwhile_are_read_once_and_in_order(
    server: DatabaseServer, table: str
) -> None:
    run(server, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, text VARCHAR(80))")
    done = threading.Event()

    def write() -> None:
        with server.connect() as connection:
            for low in range(0, 20_000, 500):
                rows = ", ".join(f"({at}, 'row {at}')" for at in range(low, low + 500))
                connection.execute(f"INSERT INTO {table} VALUES {rows}")
        done.set()

    reader = open_reader(server, table, range_bytes=20_000, incrementing__column__name="id")
    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    while not done.is_set():
        seen += [row["id"] for row in read(reader)[0]]
    writer.join()
    seen += [row["id"] for row in read(reader)[0]]
    assert seen == list(range(20_000))


def test_a_table_in_parts_is_read_once(server: DatabaseServer, table: str) -> None:
    run(server, f"CREATE TABLE {table} (id BIGINT PRIMARY KEY)")
    for low in range(0, 5000, 1000):
        rows = ", ".join(f"({7 * at})" for at in range(low, low + 1000))
        run(server, f"INSERT INTO {table} VALUES {rows}")
    settings = {
        "incrementing__column__name": "id",
        "penstock__table__parts": 3,
        "penstock__table__part__keys": 500,
        "penstock__read__parallelism": 2,
    }
    given = JDBC_SOURCE.parse(props(server, table, **settings))
    tasks = JdbcSource().plan_tasks(given, 3)
    found = [[row["id"] for row in read(reader_of(task, range_bytes=5000))[0]] for task in tasks]
    assert all(len(each) > 1000 for each in found)
    assert sorted(itertools.chain(*found)) == [7 * at for at in range(5000)]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("zoned", [True, False], ids=["zoned", "wall clock"])
@pytest.mark.parametrize("columns", ["at", "changed,at"])
def test_reading_continues_exactly_behind_every_piece(
    server: DatabaseServer, table: str, mode: str, zoned: bool, columns: str
) -> None:
    kinds = ("datetime(6)", "timestamp(6)")
    if isinstance(server, PostgresServer):
        kinds = ("timestamp", "timestamptz")
    rows = ", ".join(
        f"({each}, NULL, '2024-07-01 12:00:00.{each // 3:06}')" for each in range(1, 200)
    )
    run(
        server,
        f"CREATE TABLE {table} (id NUMERIC(18) NOT NULL PRIMARY KEY, "
        f"changed {kinds[zoned]} NULL, at {kinds[zoned]} NOT NULL)",
        f"INSERT INTO {table} VALUES {rows}",
    )
    settings: dict[str, object] = {
        "mode": mode,
        "timestamp__column__name": columns,
        "incrementing__column__name": "id",
        "db__timezone": "Europe/Berlin",
        "validate__non__null": False,
    }
    reader = open_reader(server, table, **settings)
    done: list[int] = []
    pieces = list(polls(reader, 1000))
    for polled in pieces:
        done += [int(row["id"]) for row in rows_of(reader, polled)]
        assert polled.offsets
        rest = open_reader(server, table, polled.offsets, **settings)
        assert sorted(int(row["id"]) for row in read(rest)[0]) == list(range(len(done) + 1, 200))
    assert sorted(done) == list(range(1, 200))
    assert len(pieces) > 3
    assert not server_is_busy(server)


def server_is_busy(server: DatabaseServer) -> bool:
    """Whether a PostgreSQL server has a statement or a transaction open, besides this one."""
    if not isinstance(server, PostgresServer):
        return False
    with server.connect() as connection:
        return bool(
            connection.rows(
                "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' "
                "AND state <> 'idle' AND pid <> pg_backend_pid()"
            )
        )


@pytest.mark.parametrize("mode", ["incrementing", "bulk"])
def test_closing_a_reader_between_two_pieces_ends_its_statement(
    server: DatabaseServer, table: str, mode: str
) -> None:
    run(
        server,
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, text VARCHAR(1000))",
        f"INSERT INTO {table} WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n "
        f"WHERE id < 1000) SELECT id, REPEAT('x', 1000) FROM n",
        *(f"INSERT INTO {table} SELECT id + {1000 << at}, text FROM {table}" for at in range(4)),
    )
    reader = open_reader(server, table, mode=mode, incrementing__column__name="id")
    given = reader.poll(1 << 20, 0)
    assert given is not None
    assert 900 < len(given.records) < 1100
    assert bool(given.offsets) == (mode == "incrementing")
    reader.close()
    wait_until(lambda: not server_is_busy(server), 10, "the statement to end")


def test_a_server_that_went_away_is_read_from_again_when_it_is_back(table: str) -> None:
    with PostgresServer() as server:
        run(
            server,
            f"CREATE TABLE {table} AS SELECT generate_series(1, 1000) AS id",
            f"ALTER TABLE {table} ALTER id SET NOT NULL",
        )
        assert ids_read_around_a_kill(server, table) == list(range(1, 1001))


def test_a_server_that_went_away_between_two_pieces_is_read_from_again(table: str) -> None:
    count = 200_000
    with PostgresServer() as server:
        run(
            server,
            f"CREATE TABLE {table} AS SELECT id, repeat('x', 100) AS text, "
            f"TIMESTAMP '2024-01-01' + id / 7 * INTERVAL '1 ms' AS at "
            f"FROM generate_series(1, {count}) AS id",
            f"ALTER TABLE {table} ALTER id SET NOT NULL",
            f"ALTER TABLE {table} ALTER at SET NOT NULL",
            f"ALTER TABLE {table} SET (parallel_workers = 2)",
            f"ALTER DATABASE {server.database} SET parallel_setup_cost = 0",
            f"ALTER DATABASE {server.database} SET parallel_tuple_cost = 0",
        )
        readers = [
            open_reader(server, table, incrementing__column__name="id"),
            open_reader(server, table, mode="timestamp", timestamp__column__name="at"),
        ]
        seen: list[list[int]] = [[], []]
        for reader, rows in zip(readers, seen, strict=True):
            for _ in range(3):
                given = reader.poll(1 << 20, 0)
                assert given is not None
                rows += [row["id"] for row in rows_of(reader, given)]
        server.kill()
        for reader, rows in zip(readers, seen, strict=True):
            with suppress(Unavailable):  # what was sent before still arrives
                for polled in polls(reader, 1 << 20):
                    rows += [row["id"] for row in rows_of(reader, polled)]
            assert len(rows) < count
        server.start()
        for reader, rows in zip(readers, seen, strict=True):
            rows += [row["id"] for row in read(reader, 1 << 20)[0]]
        assert seen[0] == list(range(1, count + 1))
        assert sorted(seen[1]) == seen[0]


def test_a_refusal_names_its_origin_and_reason(server: DatabaseServer, table: str) -> None:
    run(server, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
    reader = open_reader(server, table, incrementing__column__name="id")
    run(server, f"DROP TABLE {table}")
    with pytest.raises(PenstockError) as refused:
        reader.poll(MOST, 0)
    assert table in str(refused.value)
    wrong = {**props(server, table), "connection.password": "wrong"}
    with pytest.raises(PenstockError) as refused:
        JdbcSource().plan_tasks(JDBC_SOURCE.parse(wrong), 1)
    assert server.user in str(refused.value)
    assert "wrong" not in str(refused.value)


def test_tables_of_the_same_name_in_two_schemas_need_a_choice(
    postgresql: DatabaseServer, table: str
) -> None:
    run(
        postgresql,
        "CREATE SCHEMA IF NOT EXISTS other",
        f"CREATE TABLE {table} (id serial PRIMARY KEY)",
        f"CREATE TABLE other.{table} (id serial PRIMARY KEY)",
    )
    with pytest.raises(PenstockError, match=f"shop.other.{table}, shop.public.{table}"):
        open_reader(postgresql, table)
    assert open_reader(postgresql, table, schema__pattern="other").poll(MOST, 0) is None
    assert open_reader(postgresql, f"other.{table}").poll(MOST, 0) is None
