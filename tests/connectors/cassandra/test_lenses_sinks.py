"""Lenses' sinks to Cassandra, against the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from penstock.api import Failed, Header, SinkConnector
from penstock.api import schema as s
from penstock.api.schema import STRING, struct
from penstock.connectors.cassandra.sink import LensesJsonSink, LensesSink
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from tests.servers.cassandra import CassandraServer, shared

pytestmark = pytest.mark.timeout(300)

NUMBERS = count()
KS = "lenses"
P = "connect.cassandra."


@pytest.fixture(scope="module")
def server() -> CassandraServer:
    running = shared()
    running.execute(
        f"CREATE KEYSPACE IF NOT EXISTS {KS} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    return running


@pytest.fixture
def table() -> str:
    return f"t{next(NUMBERS)}"


class Task:
    """A writer of a sink."""

    def __init__(
        self, connector: SinkConnector, server: CassandraServer, kcql: str, **given: str
    ) -> None:
        self.connector = connector
        self.props = {
            f"{P}contact.points": "127.0.0.1",
            f"{P}port": str(server.port),
            f"{P}kcql": kcql,
            **{f"{P}{name.replace('__', '.')}": value for name, value in given.items()},
        }
        if not isinstance(connector, LensesSink):
            self.props[f"{P}key.space"] = KS
        self.config = connector.plugin.config.parse(self.props)
        self.writer = connector.open(self.config, SinkContextStub(tolerates_errors=True))

    def write(self, *values: Any, headers: Any = (), **given: Any) -> Failed:
        failed: Failed = {}
        records = records_of(list(values), topic="orders", **given)
        self.writer.write(records.with_headers(headers) if headers else records, failed)
        self.writer.flush()
        return failed

    def findings(self) -> list[tuple[str, str]]:
        return [
            (each.setting, each.error or "") for each in self.connector.validate_live(self.config)
        ]


MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(server: CassandraServer) -> Iterator[MakeTask]:
    tasks: list[Task] = []

    def make(connector: SinkConnector, kcql: str, **given: str) -> Task:
        tasks.append(Task(connector, server, kcql, **given))
        return tasks[-1]

    yield make
    for task in tasks:
        task.writer.close()


def test_kcql_maps_keys_values_and_headers(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    server.execute(f"CREATE TABLE {KS}.{table} (id int PRIMARY KEY, v text, h text, n timeuuid)")
    task = make_task(
        LensesSink(),
        f"INSERT INTO {KS}.{table} SELECT _key.id, name AS v, _header.h AS h, now() AS n "
        "FROM orders PROPERTIES('ttl'='3600', 'codec.unit'='SECONDS')",
    )
    assert task.findings() == []
    headers = [[Header("h", "x", STRING)], [Header("h", "y", STRING)]]
    keys = [{"id": 1}, {"id": 2}]
    assert task.write({"name": "a"}, {"name": "b"}, keys=keys, headers=headers) == {}
    found = sorted(server.execute(f"SELECT id, v, h, ttl(v) FROM {KS}.{table}"))
    assert [row[:3] for row in found] == [(1, "a", "x"), (2, "b", "y")]
    assert 3_500 < found[0][3] <= 3_600


@pytest.mark.parametrize(
    ("kcql", "text"),
    [
        ("INSERT INTO t SELECT a AS b FROM orders", "in the form namespace.table"),
        (f"INSERT INTO {KS}.t SELECT * FROM orders", "does not map columns"),
        (f"INSERT INTO {KS}.1t SELECT a AS b FROM orders", "Invalid Cassandra table name"),
        (f"INSERT INTO {KS}.none SELECT a AS b FROM orders", "Table none does not exist"),
        (
            f"INSERT INTO {KS}.t SELECT a AS b FROM orders PROPERTIES('some'='x')",
            "does not match topic.keyspace.table",
        ),
    ],
)
def test_problems_of_kcql_are_reported(server: CassandraServer, kcql: str, text: str) -> None:
    props = {f"{P}contact.points": "127.0.0.1", f"{P}port": str(server.port), f"{P}kcql": kcql}
    config = LensesSink.plugin.config.parse(props)
    ((setting, error),) = [
        (each.setting, each.error or "") for each in LensesSink().validate_live(config)
    ]
    assert (setting, text in error) == (f"{P}kcql", True), error


def test_records_are_written_as_json(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    server.execute(f"CREATE TYPE IF NOT EXISTS {KS}.place (street text)")
    server.execute(
        f"CREATE TABLE {KS}.{table} (id int PRIMARY KEY, v text, d date, at timestamp, "
        "n decimal, l list<int>, p frozen<place>, m map<text, int>)"
    )
    task = make_task(LensesJsonSink(), f"INSERT INTO {table} SELECT * FROM orders")
    assert task.findings() == []
    schema = struct(
        {
            "id": s.INT32,
            "v": STRING,
            "d": s.DATE,
            "at": s.TIMESTAMP,
            "n": s.decimal(2),
            "l": s.array(s.INT32),
            "p": struct({"street": STRING}),
            "m": s.map_of(STRING, s.INT32),
        }
    )
    moment = datetime(2026, 1, 31, 12, 30, 0, 5000, tzinfo=UTC)
    value = {
        "id": 1, "v": "x", "d": date(2026, 1, 31), "at": moment, "n": Decimal("1.50"),
        "l": [1, 2], "p": {"street": "s"}, "m": {"a": 1},
    }  # fmt: skip
    failed = task.write(value, schema=schema)
    assert failed == {}
    failed = task.write({"id": 2, "v": "y"}, '{"id": 3, "n": 1.10}', {"id": "no"}, "text", first=1)
    assert sorted(failed) == [2, 3]
    found = {row[0]: row[1:] for row in server.execute(f"SELECT JSON id FROM {KS}.{table}")}
    assert len(found) == 3
    ((day, at, n, numbers, place, entries),) = server.execute(
        f"SELECT d, at, n, l, p, m FROM {KS}.{table} WHERE id = 1"
    )
    assert (str(day), str(at)) == ("2026-01-31", "2026-01-31 12:30:00.005000")
    assert (n, numbers, place[0], dict(entries)) == (Decimal("1.50"), [1, 2], "s", {"a": 1})
    assert server.execute(f"SELECT n FROM {KS}.{table} WHERE id = 3") == [(Decimal("1.10"),)]


def test_fields_are_selected_and_rows_deleted(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    server.execute(f"CREATE TABLE {KS}.{table} (a int, b int, v text, PRIMARY KEY (a, b))")
    task = make_task(
        LensesJsonSink(),
        f"INSERT INTO {table} SELECT a, inner.b AS b, text AS v FROM orders IGNORE c TTL=600",
        delete__enabled="true",
        delete__statement=f"DELETE FROM {KS}.{table} WHERE a = ? AND b = ?",
        delete__struct_flds="a,b",
        default__value="UNSET",
    )
    rows = [{"a": 1, "inner": {"b": n}, "text": "x", "c": 5} for n in range(3)]
    assert task.write(*rows) == {}
    failed = task.write(None, None, keys=[{"a": 1, "b": 1}, {"a": 1}], first=3)
    assert "no field b" in str(failed[1])
    found = server.execute(f"SELECT a, b, v, ttl(v) FROM {KS}.{table}")
    assert sorted(row[:3] for row in found) == [(1, 0, "x"), (1, 2, "x")]
    assert all(500 < row[3] <= 600 for row in found)
    plain = make_task(LensesJsonSink(), f"INSERT INTO {table} SELECT * FROM orders")
    assert "delete.enabled is false" in str(plain.write(None, keys=["1"])[0])
    ignoring = make_task(
        LensesJsonSink(), f"INSERT INTO {table} SELECT * FROM orders", error__policy="NOOP"
    )
    assert ignoring.write(None, {"a": "no"}, keys=["1", "2"]) == {}


def test_statements_that_cannot_be_prepared_are_reported(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    server.execute(f"CREATE TABLE {KS}.{table} (a int PRIMARY KEY)")
    kcql = f"INSERT INTO {table} SELECT * FROM orders"
    task = make_task(
        LensesJsonSink(), kcql, delete__enabled="true", delete__statement="DELETE nothing"
    )
    assert task.findings()[0][0] == f"{P}delete.statement"
    task = make_task(LensesJsonSink(), "INSERT INTO none SELECT * FROM orders")
    assert task.findings()[0] == (f"{P}kcql", f"{P}kcql: Table none does not exist.")
    task = make_task(LensesJsonSink(), f"INSERT INTO {table} SELECT b FROM orders")
    assert "do not exist in table" in task.findings()[0][1]
