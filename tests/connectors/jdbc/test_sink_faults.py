"""The JDBC sink when a task fails, or when a database is away, busy, full, or refuses the user."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from penstock.api import SinkWriter, TopicPartition
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseAway, DatabaseBusy, DatabaseRefused
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.settings.connection import database_of
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.write.writer import GaveUp
from penstock.data.schema import Value
from penstock.ids import TaskId
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until
from tests.servers.databases import DatabaseServer, MariaDbServer, PostgresServer

from .tables import Target, ids_written_around_kills, only, row, target_of, write
from .test_driver import H2Server

_names = itertools.count(1)


@pytest.fixture(scope="module")
def h2() -> Iterator[DatabaseServer]:
    with H2Server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    with target_of(request, tmp_path) as made:
        yield made


def test_with_exactly_once_nothing_is_inserted_twice(target: Target) -> None:
    offsets = f"offsets_{next(_names)}"
    settings = {"auto.create": "true", "penstock.exactly.once": "true",
                "penstock.offsets.table": offsets}  # fmt: skip
    rows = [row(at) for at in range(10)]
    whole = target.records(rows, first=100)
    try:
        for start, stop in ((0, 4), (0, 10), (2, 7), (0, 10)):
            writer = target.sink(**settings)
            assert write(writer, whole.only(range(start, stop))) == {}
            writer.close()
        assert [number for number, *_ in target.rows()] == list(range(10))
        config = JDBC_SINK.parse(target.props(**settings))
        assert JdbcSink().alter_offsets(config, {(target.table, 0): 108})
        assert write(target.sink(**settings), whole) == {}
        assert sorted(number for number, *_ in target.rows()) == [*range(8), 8, 8, 9, 9]
    finally:
        target.connection.execute(f"DROP TABLE IF EXISTS {target.quoted(offsets)}")


def test_with_exactly_once_a_topic_that_was_created_again_is_written(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = f"offsets_{next(_names)}"
    settings = {"auto.create": "true", "penstock.exactly.once": "true",
                "penstock.offsets.table": offsets}  # fmt: skip
    context = SinkContextStub(TaskId("sink", 0))
    topic = target.table

    def opened() -> SinkWriter:
        config = JDBC_SINK.parse(target.props(**settings))
        return JdbcSink().open(config, context)

    def numbers() -> list[int]:
        return [number for number, *_ in target.rows()]

    writer = opened()
    try:
        write(writer, target.records([row(0), row(1)]))
        context.topic_ids[topic] = "first"  # by a newer broker
        writer.close()
        writer = opened()
        write(writer, target.records([row(0), row(1), row(2)]))
        assert numbers() == [0, 1, 2], "the row without an id is the topic's"
        context.topic_ids[topic] = "second"
        write(writer, target.records([row(10), row(11)]))
        assert numbers() == [0, 1, 2, 10, 11], "noticed while the task runs"
        write(writer, target.records([row(10), row(11), row(12)]))
        assert numbers() == [0, 1, 2, 10, 11, 12]
        assert "Skipping 2 records" in caplog.text
        writer.close()
        context.topic_ids[topic] = "third"
        writer = opened()
        write(writer, target.records([row(20)]))
        assert numbers() == [0, 1, 2, 10, 11, 12, 20]
        writer.close()
        config = JDBC_SINK.parse(target.props(**settings))
        assert JdbcSink().alter_offsets(config, {(topic, 0): 1})
        writer = opened()
        write(writer, target.records([row(20), row(21)]))
        assert numbers() == [0, 1, 2, 10, 11, 12, 20, 21]
        write(writer, target.records([row(20), row(21)]))
        assert numbers() == [0, 1, 2, 10, 11, 12, 20, 21]
    finally:
        writer.close()
        target.connection.execute(f"DROP TABLE IF EXISTS {target.quoted(offsets)}")


@dataclass
class ConsumedFrom:
    """The engine's part of a batch: the topic partition where its records were read."""

    topic: str

    def partition(self, origin: int, /) -> TopicPartition:
        return TopicPartition(self.topic, 0)


def test_with_exactly_once_topics_that_are_routed_to_one_are_told_apart(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = f"offsets_{next(_names)}"
    settings = {"auto.create": "true", "penstock.exactly.once": "true",
                "penstock.offsets.table": offsets}  # fmt: skip
    writer = target.sink(**settings)
    try:
        for again in (False, True):
            for number, topic in enumerate(("eu", "us")):
                records = target.records([row(10 * number + at) for at in range(4)])
                assert write(writer, replace(records, source=ConsumedFrom(topic))) == {}
                assert ("Skipping 4 records of us-0" in caplog.text) == (topic == "us" and again)
        assert [number for number, *_ in target.rows()] == [0, 1, 2, 3, 10, 11, 12, 13]
    finally:
        target.connection.execute(f"DROP TABLE IF EXISTS {target.quoted(offsets)}")


def test_with_exactly_once_a_batch_whose_task_fails_leaves_nothing(target: Target) -> None:
    offsets = f"offsets_{next(_names)}"
    target.create("id bigint PRIMARY KEY, name varchar(9), amount bigint")
    settings = {"penstock.exactly.once": "true", "penstock.offsets.table": offsets}
    records = target.records([row(1), row(2), row(1), row(3)])
    try:
        failed = write(target.sink(**settings), records)
        assert list(failed) == [2]
        assert "offset=2" in str(failed[2])
        assert target.rows() == []
        tolerant = target.sink(**settings, **{"errors.tolerance": "all"})
        assert list(write(tolerant, records)) == [2]
        assert write(tolerant, records) == {}, "it was told of before"
        assert [number for number, *_ in target.rows()] == [1, 2, 3]
    finally:
        target.connection.execute(f"DROP TABLE IF EXISTS {target.quoted(offsets)}")


MODES = [
    {"insert.mode": "insert"},
    {"insert.mode": "insert", "batch.size": "1"},
    {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true"},
]


@pytest.mark.parametrize("mode", MODES, ids=["insert", "batches", "upsert"])
@pytest.mark.parametrize("target", ["sqlite", "postgresql", "mariadb", "h2"], indirect=True)
def test_a_refused_record_undoes_its_batch_in_all_tables_if_the_task_fails(
    target: Target, mode: dict[str, str]
) -> None:
    id, name, amount = map(target.quoted, ("id", "name", "amount"))
    target.create(f"{id} bigint PRIMARY KEY, {name} varchar(9), {amount} int CHECK ({amount} < 9)")
    target.connection.execute(
        f"INSERT INTO {target.quoted(target.table)} ({id}, {name}) VALUES (3, 'old'), (4, 'old')"
    )
    second = f"{target.table}_b"
    settings = {**mode, "auto.create": "true", "topics.to.tables.mapping": f"second:{second}"}
    values: list[tuple[int, Value]] = [
        (1, row(1, "new")), (2, row(2, "new")), (5, row(5, "new", 10)), (6, row(6, "new")),
    ]  # fmt: skip
    if "delete.enabled" in mode:
        values += [(3, row(3, "new")), (4, None)]
    records = target.keyed(values)
    records.topics = [target.table, "second", *records.topics[2:]]
    try:
        assert list(write(target.sink(**settings), records)) == [2]
        assert target.rows(f"{id}, {name}") == [(3, "old"), (4, "old")]
        rows = f"SELECT {id} FROM {target.quoted(second)}"
        assert target.connection.rows(rows) == []
        tolerant = target.sink(**settings, **{"errors.tolerance": "all"})
        assert list(write(tolerant, records)) == [2]
        changed = "delete.enabled" in mode
        expected = [(1, "new"), (3, "new" if changed else "old"), (6, "new")]
        expected += [] if changed else [(4, "old")]
        assert target.rows(f"{id}, {name}") == sorted(expected)
        assert target.connection.rows(rows) == [(2,)]
    finally:
        target.connection.execute(f"DROP TABLE IF EXISTS {target.quoted(second)}")


@pytest.mark.parametrize("server_class", [PostgresServer, MariaDbServer])
def test_a_server_that_is_killed_gets_the_batch_when_it_is_back(
    server_class: type[DatabaseServer],
) -> None:
    with server_class() as server:
        with server.connect() as connection:
            target = Target(server.settings(), "orders", connection)
            writer = target.sink(auto__create="true", max__retries="3")
            assert write(writer, target.records([row(1, "a")])) == {}
        server.kill()
        for _ in range(3):
            with pytest.raises(DatabaseAway):
                write(writer, target.records([row(2, "b")]))
        with pytest.raises(GaveUp, match=r"max\.retries"):
            write(writer, target.records([row(2, "b")]))
        server.start()
        assert write(target.sink(), target.records([row(2, "b")])) == {}
        with server.connect() as connection:
            assert connection.rows("SELECT id, name FROM orders ORDER BY id") == [
                (1, "a"),
                (2, "b"),
            ]
        target.close()


def test_a_server_that_is_killed_leaves_no_memory_behind(postgresql: DatabaseServer) -> None:
    """Its shared memory is files in its folder, which is removed with it."""
    with postgresql.connect() as connection:
        ((process,),) = connection.rows("SELECT pg_backend_pid()")
        maps = Path(f"/proc/{process}/maps").read_text()
    assert "/pg_dynshmem/" in maps
    assert "/dev/shm/" not in maps


class LosesAnswers(Proxy):
    """Breaks the connection instead of passing on the answer to the next COMMIT; `before`: instead
    of passing on the COMMIT itself."""

    armed = before = losing = False

    async def _pass_on(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        while data := await source.read(1 << 16):
            commits = self.armed and b"COMMIT" in data
            if self.losing or (commits and self.before):
                self.armed = self.losing = False
                raise ConnectionResetError
            self.losing = commits
            sink.write(data)
            await sink.drain()
        sink.write_eof()


@only("postgresql")
@pytest.mark.parametrize("before", [True, False], ids=["no commit", "a commit"])
def test_a_batch_is_inserted_once_if_the_connection_is_lost_during_its_commit(
    target: Target, before: bool
) -> None:
    target.create("id bigint, name varchar(9), amount int CHECK (amount < 9)")
    server, port = target.url.rsplit(":", 1)
    number, _, database = port.partition("/")
    with LosesAnswers(int(number)) as proxy:
        writer = target.sink(
            connection__url=f"{server}:{proxy.port}/{database}", errors__tolerance="all"
        )
        assert write(writer, target.records([row(0)])) == {}
        records = target.records([row(1), row(2, amount=10), row(3)], first=1)
        proxy.armed, proxy.before = True, before
        with pytest.raises(DatabaseAway):
            write(writer, records)
        # The partition of the first record may have been revoked meanwhile.
        again = records if before else records.only([1, 2])
        assert list(write(writer, again)) == [1 if before else 0]
        assert [number for number, *_ in target.rows()] == [0, 1, 3]
        assert write(writer, target.records([row(4)], first=4)) == {}
        assert [number for number, *_ in target.rows()] == [0, 1, 3, 4]
        writer.close()


@only("postgresql", "mariadb")
def test_a_connection_that_is_cut_is_made_again(target: Target) -> None:
    writer = target.sink(auto__create="true")
    assert write(writer, target.records([row(1)])) == {}
    if target.kind is Kind.POSTGRESQL:
        target.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
    else:
        for (number,) in target.connection.rows(
            "SELECT id FROM information_schema.processlist "
            "WHERE id <> CONNECTION_ID() AND user = 'penstock'"
        ):
            target.connection.execute(f"KILL {number}")
    with pytest.raises(DatabaseAway):
        write(writer, target.records([row(2)]))
    assert write(writer, target.records([row(2)])) == {}
    assert [number for number, *_ in target.rows()] == [1, 2]


@only("postgresql", "mariadb")
def test_a_sink_that_is_the_victim_of_a_deadlock_may_write_its_batch_again(target: Target) -> None:
    writer = target.sink(
        auto__create="true", insert__mode="upsert", pk__mode="record_value", pk__fields="id"
    )
    assert write(writer, target.records([row(at, "old") for at in (1, 2, 3)])) == {}
    table = target.quoted(target.table)
    records = target.records([row(2, "new"), row(3, "new"), row(1, "new")])
    postgresql = target.kind is Kind.POSTGRESQL
    with (
        _another(target) as other,
        _another(target) as gate,
        ThreadPoolExecutor(2) as pool,
        other.transaction(),
    ):
        # PostgreSQL aborts the transaction that checks first, InnoDB the one with less work.
        if postgresql:
            other.execute("SET LOCAL deadlock_timeout = '1h'")
        other.execute(
            f"INSERT INTO {table} (id) VALUES {', '.join(f'({at})' for at in range(10, 60))}"
        )
        other.execute(f"UPDATE {table} SET amount = 1 WHERE id = 1")
        with gate.transaction():
            gate.execute(f"UPDATE {table} SET amount = 1 WHERE id = 3")
            written = pool.submit(write, writer, records)
            _await_waiting(target, 1)
            updated = pool.submit(other.execute, f"UPDATE {table} SET amount = 1 WHERE id = 2")
            _await_waiting(target, 2)
        with pytest.raises(DatabaseBusy, match="40P01" if postgresql else "1213") as busy:
            written.result(30)
        assert updated.result(30) == 1
    assert busy.value.retriable
    assert write(writer, records) == {}
    assert target.rows("id, name, amount") == [
        *((at, "new", None) for at in (1, 2, 3)),
        *((at, None, None) for at in range(10, 60)),
    ]


def _another(target: Target) -> Connection:
    return database_of(JDBC_SINK.parse(target.props(topics="t"))).connect()


def _await_waiting(target: Target, count: int) -> None:
    """Waits until `count` connections wait for a lock."""
    waiting = (
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        if target.kind is Kind.POSTGRESQL
        else "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    )
    # InnoDB's list of transactions is not refreshed while it is queried more often.
    wait_until(
        lambda: len(target.connection.rows(waiting)) == count,
        20,
        f"{count} to wait for a lock",
        poll_s=0.3,
    )


@only("postgresql", "mariadb")
def test_a_wrong_password_is_reported_at_once_and_not_tried_again(target: Target) -> None:
    writer = target.sink(connection__password="wrong", connection__attempts="5",
                         connection__backoff__ms="60000")  # fmt: skip
    with pytest.raises(DatabaseRefused, match=r"connection\.url.*as 'penstock'") as refused:
        write(writer, target.records([row(1)]))
    assert not refused.value.retriable
    assert "wrong" not in str(refused.value)


@only("postgresql", "mariadb")
def test_a_missing_privilege_is_reported(target: Target) -> None:
    target.create("id bigint, name varchar(9), amount bigint")
    user = f"reader_{next(_names)}"
    if target.kind is Kind.POSTGRESQL:
        target.connection.execute(f"CREATE USER {user} PASSWORD 'pw'")
        target.connection.execute(f"GRANT SELECT ON {target.quoted(target.table)} TO {user}")
    else:
        target.connection.execute(f"CREATE USER {user} IDENTIFIED BY 'pw'")
        target.connection.execute(f"GRANT SELECT ON shop.{target.quoted(target.table)} TO {user}")
    writer = target.sink(connection__user=user, connection__password="pw")
    with pytest.raises(DatabaseRefused, match=f"(?i)denied.*{target.table}"):
        write(writer, target.records([row(1)]))


@pytest.mark.parametrize("server_class", [PostgresServer, MariaDbServer])
@pytest.mark.parametrize("once", [False, True], ids=["upsert", "exactly-once"])
def test_a_server_that_is_killed_while_it_is_written_to_loses_and_repeats_nothing(
    server_class: type[DatabaseServer], once: bool
) -> None:
    with server_class() as server:
        count, retries, found = ids_written_around_kills(server, once)
    assert retries >= 3
    assert found == list(range(count))


class SmallMariaDb(MariaDbServer):
    """Has room for `room` megabytes in all tables together."""

    room = 20

    def _command(self) -> list[str]:
        space = f"--innodb-data-file-path=ibdata1:12M:autoextend:max:{self.room}M"
        return [*super()._command(), "--innodb-file-per-table=0", space]


def test_a_full_disk_at_the_server_leaves_nothing_half_done_and_gets_the_batch_later() -> None:
    with SmallMariaDb() as server:
        assert isinstance(server, SmallMariaDb)
        with server.connect() as connection:
            target = Target(server.settings(), "orders", connection)
            writer = target.sink(auto__create="true")
            assert write(writer, target.records([row(0)])) == {}
            records = target.records([row(at, "x" * 200) for at in range(1, 60_000)])
            with pytest.raises(DatabaseAway, match=r"orders.* full") as full:
                write(writer, records)
            assert full.value.retriable
            assert target.rows("COUNT(*)") == [(1,)]
        server.stop()
        server.room = 100
        server.start()
        assert write(writer, records) == {}
        with server.connect() as connection:
            found = replace(target, connection=connection).rows("id")
        assert found == [(at,) for at in range(60_000)]
        target.close()
