"""A table is copied through a topic into two tables of another database, while the worker and the
databases are killed.

Nothing may be lost. What may be repeated depends on the settings: a source with exactly-once
support (KIP-618) writes a record once, a sink that upserts has the last version of each row, and a
sink with `penstock.exactly.once` inserts each record once, however often it receives it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson
import psutil
import pytest

from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.errors import PenstockError
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Stored, Topics
from penstock.testing.waiting import wait_until
from tests.servers.databases import DatabaseServer, MariaDbServer, PostgresServer

WAIT_S: Final = 150.0
RUNNING: Final = ["RUNNING", "RUNNING"]
KILLS: Final = 2
PIECE: Final = 25  # rows per INSERT
PAUSE_S: Final = 0.1  # between two INSERTs
WIDE_ROWS: Final = 15_000
WIDE_BYTES: Final = 2_000  # of a row: one range that takes long enough to read to be interrupted

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"

SOAK = pytest.mark.soak
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(195)]


class Feed:
    """Inserts rows, numbered without gaps, into a table until `stop`; waits while its database is
    unreachable."""

    def __init__(self, server: DatabaseServer, table: str) -> None:
        self.table = table
        self.rows = 0
        self._server = server
        self._over = threading.Event()
        with server.connect() as connection:
            connection.execute(
                f"CREATE TABLE {table} (id integer PRIMARY KEY, text varchar(40) NOT NULL)"
            )
        self._thread = threading.Thread(target=self._run, name=f"feed-{table}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(PenstockError), self._server.connect() as connection:
                self._grow(connection)
            self._over.wait(PAUSE_S)

    def _grow(self, connection: Connection) -> None:
        # Only the table shows whether the last INSERT succeeded before the server was killed.
        ((self.rows,),) = connection.rows(f"SELECT COALESCE(MAX(id), 0) FROM {self.table}")
        while not self._over.is_set():
            numbers = range(self.rows + 1, self.rows + PIECE + 1)
            values = ", ".join(f"({number}, 'row {number}')" for number in numbers)
            connection.execute(f"INSERT INTO {self.table} VALUES {values}")
            self.rows += PIECE
            self._over.wait(PAUSE_S)


@dataclass
class Copying:
    """A source of a growing table, and two sinks of its topic."""

    name: str
    exactly_once: bool
    worker: WorkerProcess
    topics: Topics
    cluster: str
    origin: DatabaseServer
    target: DatabaseServer
    feed: Feed

    @property
    def topic(self) -> str:
        return f"{self.cluster}-{self.feed.table}"

    @property
    def connectors(self) -> tuple[str, ...]:
        return f"{self.name}-src", f"{self.name}-upsert", f"{self.name}-once"

    def create(self) -> None:
        self.topics.create(self.topic)
        self.worker.create(self.connectors[0], self.source(self.feed.table))
        upsert = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
        once = {"penstock.exactly.once": "true"}
        for connector, more in zip(self.connectors[1:], (upsert, once), strict=True):
            self.worker.create(connector, {**self.sink(connector), **more})

    def source(self, table: str) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
            "tasks.max": "1",
            **self.origin.settings(),
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": table,
            "topic.prefix": f"{self.cluster}-",
            "poll.interval.ms": "100",
            "table.poll.interval.ms": "1000",
            "connection.attempts": "1",
        }

    def sink(self, connector: str) -> dict[str, str]:
        return {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            **self.target.settings(),
            "topics": self.topic,
            "table.name.format": table_of(connector),
            "auto.create": "true",
            "max.retries": "1000",
            "retry.backoff.ms": "200",
            "connection.attempts": "1",
            "consumer.override.isolation.level": "read_committed",
            # A killed worker's consumers stay in the sinks' groups for this long.
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "1500",
        }

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of the target; none while it is unreachable or the table does not exist yet."""
        with contextlib.suppress(PenstockError), self.target.connect() as connection:
            return connection.rows(sql)
        return []

    def written(self, connector: str) -> list[int]:
        """The numbers of the rows that a sink has written, in order."""
        found = self.ask(f"SELECT id FROM {table_of(connector)} ORDER BY id")
        return [number for (number,) in found]

    def reached(self) -> int:
        """The last row that both sinks have written."""
        found = [self.ask(f"SELECT MAX(id) FROM {table_of(each)}") for each in self.connectors[1:]]
        return min((each[0][0] or 0) if each else 0 for each in found)

    def uncommitted(self) -> int:
        """Records that are written and noted in the table, and that Kafka would deliver again."""
        group = f"connect-{self.connectors[2]}"
        committed = self.topics.committed(group, self.topic).get(0, 0)
        found = self.ask(
            "SELECT MAX(next_offset) FROM penstock_offsets "
            f"WHERE connector = '{self.connectors[2]}'"
        )
        return (found[0][0] or 0) - committed if found else 0

    def await_more(self) -> None:
        """Waits until both sinks have written rows that are inserted after this call."""
        now = self.feed.rows
        wait_until(lambda: self.reached() > now, WAIT_S, f"row {now} in both tables", poll_s=0.2)

    def finish(self) -> list[int]:
        """Stops the feed, and waits until everything is committed; returns the topic's numbers."""
        self.feed.stop()
        last = self.feed.rows
        wait_until(lambda: self.reached() == last, WAIT_S, f"row {last}, the last", poll_s=0.2)
        found = self.topics.read(self.topic)
        for connector in self.connectors[1:]:
            group = f"connect-{connector}"
            wait_until(
                lambda g=group: self.topics.committed(g, self.topic).get(0, 0) > found[-1].offset,
                WAIT_S,
                f"{found[-1].offset} to be committed in '{group}'",
            )
        for connector in self.connectors:
            self.worker.await_states(connector, RUNNING)
        return numbers(found)

    def check(self) -> None:
        """Checks that every row arrived everywhere, as often as it must."""
        sent = self.finish()
        every = list(range(1, self.feed.rows + 1))
        upserted, inserted = map(self.written, self.connectors[1:])
        assert sorted(set(sent)) == every, "rows were lost on their way to the topic"
        if self.exactly_once:
            assert sent == every, "rows are in the topic twice, or out of order"
        assert upserted == every
        assert Counter(inserted) == Counter(sent), "records were lost, or written twice"
        again = len(sent) - len(every)
        print(f"{len(every)} rows, {again} of them again")  # noqa: T201 - a measurement

    def close(self) -> None:
        self.feed.stop()
        for connector in self.connectors:
            if self.worker.alive:
                self.worker.request("DELETE", f"/connectors/{connector}")


def table_of(connector: str) -> str:
    return connector.replace("-", "_")


def numbers(records: list[Stored]) -> list[int]:
    return [orjson.loads(row.value or b"")["payload"]["id"] for row in records]


@pytest.fixture(scope="module")
def origin() -> Iterator[DatabaseServer]:
    """A server only for these tests: they kill it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def target() -> Iterator[DatabaseServer]:
    with MariaDbServer() as server:
        yield server


@pytest.fixture(scope="module", params=[pytest.param("at-least-once", marks=SOAK), "exactly-once"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess], cluster: str, kind: str) -> Any:
    """A worker in its own cluster. Sinks commit so seldom that Kafka delivers records again after a
    worker died."""
    own = f"{cluster}-{kind}"
    started = make_worker(
        group_id=own,
        **{f"{store}_storage_topic": f"{own}-{store}" for store in ("config", "offset", "status")},
        exactly_once_source_support="enabled" if kind == "exactly-once" else "disabled",
        offset_storage_partitions="2",
        offset_flush_interval_ms="4000",
        scheduled_rebalance_max_delay_ms="0",
        session_timeout_ms="6000",
        heartbeat_interval_ms="1500",
        key_converter=JSON,
        value_converter=JSON,
    ).start()
    started.await_rest()
    yield started
    started.close()


@pytest.fixture
def copying(
    request: pytest.FixtureRequest,
    worker: WorkerProcess,
    kind: str,
    topics: Topics,
    cluster: str,
    origin: DatabaseServer,
    target: DatabaseServer,
) -> Iterator[Copying]:
    """The three connectors, running."""
    what = "killed" if "worker" in request.node.name else "away"
    name = f"{what}-{kind[:2]}"
    feed = Feed(origin, f"feed_{what}_{kind[:2]}")
    found = Copying(
        name, kind == "exactly-once", worker, topics, f"{cluster}-{kind}", origin, target, feed
    )
    try:
        found.create()
        found.await_more()
        yield found
    finally:
        found.close()


def test_a_worker_that_is_killed_loses_nothing_and_writes_nothing_twice(copying: Copying) -> None:
    worker, handed_out_again = copying.worker, 0
    for _ in range(KILLS):
        handed_out_again += wait_until(
            lambda: max(0, copying.uncommitted()), WAIT_S, "records written and not committed"
        )
        children = psutil.Process(worker.pid).children(recursive=True)
        worker.kill()
        wait_until(
            lambda c=children: not any(child.is_running() for child in c), 30, "its children to end"
        )
        assert copying.reached() < copying.feed.rows, "killed when there was nothing to do"
        worker.start().await_rest()
        copying.await_more()
    assert handed_out_again > 0
    copying.check()


def test_databases_that_are_killed_are_waited_for_and_nothing_is_lost(
    copying: Copying, kind: str
) -> None:
    """The target is killed during writes, and the origin while a wide table is read."""
    worker, origin, target = copying.worker, copying.origin, copying.target
    since = len(worker.log_text())
    with away(target):
        for connector in copying.connectors[1:]:
            await_said(worker, since, connector, "write failed, retrying")
    copying.await_more()
    for connector in copying.connectors:
        assert worker.states(connector) == RUNNING

    table = f"wide_{kind[:2]}"
    with origin.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, text text NOT NULL)")
        connection.execute(
            f"INSERT INTO {table} SELECT n, repeat('x', {WIDE_BYTES}) "
            f"FROM generate_series(1, {WIDE_ROWS}) n"
        )
        topic = copying.topics.create(f"{copying.cluster}-{table}")
        worker.create(table, copying.source(table))
        since = len(worker.log_text())
        wait_until(
            lambda: connection.rows(
                "SELECT 1 FROM pg_stat_activity WHERE state = 'active' "
                f"AND query LIKE 'COPY%{table}%' AND query NOT LIKE '%LIMIT%' "
                "AND pid <> pg_backend_pid()"
            ),
            WAIT_S,
            "the table to be read",
            poll_s=0.002,
        )
        with away(origin):
            await_said(worker, since, copying.connectors[0], "poll failed, retrying")
    try:
        copying.check()
        every = list(range(1, WIDE_ROWS + 1))
        wait_until(
            lambda: copying.topics.count(topic) >= WIDE_ROWS, WAIT_S, "all of the wide table"
        )
        wait_until(
            lambda: sorted(set(numbers(copying.topics.read(topic)))) == every,
            WAIT_S,
            "all of the wide table",
            poll_s=1,
        )
        if copying.exactly_once:
            assert numbers(copying.topics.read(topic)) == every
        worker.await_states(table, RUNNING)
        # Some of the rows had been sent already: the task continued after them.
        assert worker.log_text().count(f" Creating task {table}-0: ") == 1
    finally:
        worker.request("DELETE", f"/connectors/{table}")


@contextlib.contextmanager
def away(server: DatabaseServer) -> Iterator[None]:
    """Kills a server; starts it again at the end of the block."""
    server.kill()
    try:
        yield
    finally:
        server.start()


def await_said(worker: WorkerProcess, since: int, connector: str, words: str) -> None:
    """Waits until the worker has logged this about a connector's task."""

    def said() -> bool:
        lines = worker.log_text()[since:].splitlines()
        return any(f"[{connector}|task-0]" in line and words in line for line in lines)

    wait_until(said, WAIT_S, f"'{words}' of {connector}", poll_s=0.2)
