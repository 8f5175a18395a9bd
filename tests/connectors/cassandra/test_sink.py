"""The Cassandra sinks, against the server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any, ClassVar

import orjson
import pytest
from cassandra import OperationTimedOut

from penstock.api import (
    ConfigInvalid,
    Failed,
    Header,
    PenstockError,
    Records,
    TopicPartition,
    Unavailable,
)
from penstock.api import schema as s
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.cassandra.client.reactor import connection_class, on_asyncio
from penstock.connectors.cassandra.sink import CassandraSink
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.proxy import Proxy
from tests.servers.cassandra import DATACENTER, CassandraServer, shared

from .tasks import CREATE_KEYSPACE, KS, Task, rows

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow(130)]

NUMBERS = count()
ROW = struct({"id": INT64, "name": STRING.as_optional()}, name="row")


@pytest.fixture(scope="module")
def server() -> CassandraServer:
    running = shared()
    running.execute(CREATE_KEYSPACE)
    return running


@pytest.fixture
def table() -> str:
    return f"t{next(NUMBERS)}"


class TestCassandraSink(SinkConformance):
    connector = CassandraSink
    ordered = False
    idempotent = True
    server: ClassVar[CassandraServer]
    bad_configs = (
        ({"contactPoints": "localhost", "loadBalancing.localDc": None}, "contactPoints"),
        ({"port": "0"}, "port"),
        ({"compression": "zip"}, "compression"),
        ({"ignoreErrors": "some"}, "ignoreErrors"),
        ({"auth.password": "p"}, "auth.username"),
        ({"auth.provider": "LDAP"}, "auth.provider"),
        ({"auth.gssapi.keyTab": "/k"}, "auth.gssapi.keyTab"),
        ({"ssl.openssl.privateKey": "/k"}, "ssl.openssl.keyCertChain"),
        ({"cloud.secureConnectBundle": "b.zip"}, "contactPoints"),
        ({"topic.t.ks": "x"}, "topic.t.ks"),
    )

    @pytest.fixture(autouse=True)
    def _server(self, server: CassandraServer) -> Iterator[None]:
        type(self).server = server
        self.topic = f"conformance-{next(NUMBERS)}"
        self.table = f"c{next(NUMBERS)}"
        server.execute(f"CREATE TABLE {KS}.{self.table} (id bigint PRIMARY KEY, name text)")
        self.port = server.port
        self.proxy = Proxy(server.port)
        with self.proxy:
            yield

    def config(self) -> dict[str, str]:
        prefix = f"topic.{self.topic}.{KS}.{self.table}."
        return {
            "contactPoints": "127.0.0.1",
            "loadBalancing.localDc": DATACENTER,
            "port": str(self.port),
            "queryExecutionTimeout": "5",
            f"{prefix}mapping": "id=value.id, name=value.name",
            f"{prefix}deletesEnabled": "false",
        }

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        return records_of(
            [{"id": each, "name": f"name {each}"} for each in numbers],
            schema=ROW if schema else None,
            keys=[str(each) for each in numbers],
            key_schema=STRING if schema else None,
            topic=self.topic,
            first=numbers.start,
        )

    def contents(self) -> list[Any]:
        rows = self.server.execute(f"SELECT id, name FROM {KS}.{self.table}")
        return [{"id": number, "name": name} for number, name in rows]

    def bad_records(self) -> Records | None:
        rows = [{"id": "no number", "name": "x"}, {"name": "x"}, "no object"]
        return records_of(rows, keys=["b1", "b2", "b3"], topic=self.topic)

    def unreachable_target(self) -> AbstractContextManager[None] | None:
        self.port = self.proxy.port

        @contextmanager
        def away() -> Iterator[None]:
            self.proxy.cut()
            try:
                yield
            finally:
                self.proxy.restore()

        return away()

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        """The table is gone."""
        self.server.execute(f"DROP TABLE {KS}.{self.table}")
        yield


MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(server: CassandraServer, table: str) -> Iterator[MakeTask]:
    tasks: list[Task] = []

    def make(columns: str, mapping: str, **given: str) -> Task:
        server.execute(f"CREATE TABLE IF NOT EXISTS {KS}.{table} ({columns})")
        tasks.append(Task(server, table, mapping, **given))
        return tasks[-1]

    yield make
    for task in tasks:
        task.close()


def test_keys_headers_and_whole_values_are_mapped(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task(
        'id int PRIMARY KEY, "Name" text, h text, whole text, made timeuuid',
        'id=key.id, "Name"=value.name, h=header.h, whole=value, made=now()',
    )
    failed: Failed = {}
    config = CassandraSink.plugin.config.parse(task.props)
    task.writer = task.connector.open(config, task.context)
    records = records_of([{"name": "n"}], keys=[{"id": 1}], topic=task.topic)
    task.writer.write(records.with_headers([[Header("h", "x", STRING)]]), failed)
    assert failed == {}
    (found,) = rows(server, table, 'id, "Name", h, whole, made')
    assert found[:4] == (1, "n", "x", '{"name":"n"}')
    assert found[4].version == 1


def test_texts_of_json_have_fields(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task("id int PRIMARY KEY, d decimal", "id=key.id, d=value.d")
    failed = task.write('{"d": 1.10000000000000000000001}', keys=['{"id": 5}'])
    assert failed == {}
    assert rows(server, table) == [(5, Decimal("1.10000000000000000000001"))]


def test_later_records_win_whatever_their_value_and_writes_can_be_repeated(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task("id int PRIMARY KEY, v text", "id=key, v=value.v")
    values = [{"v": "z"}, {"v": "a"}, None, {"v": "b"}, {"v": "a"}]
    for _ in range(2):
        assert task.write(*values, keys=[1] * len(values)) == {}
        assert rows(server, table) == [(1, "a")]
    (written,) = rows(server, table, "writetime(v)")
    assert written[0] % 1000 == 4


def test_a_record_of_nothing_but_its_key_deletes_the_row_if_all_columns_are_mapped(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task("a int, b int, v text, PRIMARY KEY (a, b)", "a=key.a, b=key.b, v=value.v")
    keys = [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert task.write({"v": "x"}, {"v": "y"}, {"v": "z"}, keys=keys) == {}
    assert task.write(None, {"v": None}, keys=keys[:2], first=3) == {}
    assert rows(server, table) == [(1, 3, "z")]


def test_null_leaves_a_column_as_it_is_or_deletes_it(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    columns, mapping = "id int PRIMARY KEY, v text, w text", "id=key, v=value.v, w=value.w"
    task = make_task(columns, mapping)
    assert task.write({"v": "x", "w": "x"}, {"v": None, "w": "y"}, keys=[1, 1]) == {}
    assert rows(server, table, "v, w") == [("x", "y")]
    task = make_task(columns, mapping, nullToUnset="false")
    assert task.write({"v": None, "w": "z"}, keys=[1], first=2) == {}
    assert rows(server, table, "v, w") == [(None, "z")]


def test_times_to_live_and_write_times_are_of_settings_or_fields(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    columns = "id int PRIMARY KEY, v text"
    task = make_task(columns, "id=key, v=value.v", ttl="2", ttlTimeUnit="HOURS")
    assert task.write({"v": "x"}, keys=[1]) == {}
    task = make_task(
        columns,
        "id=key, v=value.v, __ttl=value.ttl, __timestamp=value.at",
        ttlTimeUnit="MINUTES",
        timestampTimeUnit="SECONDS",
    )
    failed = task.write(
        {"v": "x", "ttl": 60, "at": 1_700_000_000},
        {"v": "x", "ttl": -1, "at": 1},
        {"v": "x", "ttl": "soon", "at": 1},
        keys=[2, 3, 4],
    )
    assert "used as a TTL is not a Number" in str(failed.pop(2))
    assert failed == {}
    found = {row[0]: row[1:] for row in rows(server, table, "id, ttl(v), writetime(v)")}
    assert 7_100 < found[1][0] <= 7_200
    assert 3_500 < found[2][0] <= 3_600
    assert found[2][1] == 1_700_000_000_000_000
    assert found[3] == (None, 1_000_000)


def test_a_statement_of_the_users_takes_the_place_of_the_generated_one(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task(
        "id int PRIMARY KEY, s set<text>",
        "k=key, more=value.s",
        query=f"UPDATE {KS}.{table} SET s = s + :more WHERE id = :k",
        deletesEnabled="false",
    )
    assert task.write({"s": ["a"]}, {"s": ["b", "a"]}, keys=[1, 1]) == {}
    assert [(key, set(found)) for key, found in rows(server, table)] == [(1, {"a", "b"})]


@pytest.mark.parametrize("first", [998, 999, 1_999])
def test_the_later_of_two_records_of_a_millisecond_wins_whatever_their_offsets(
    server: CassandraServer, table: str, make_task: MakeTask, first: int
) -> None:
    task = make_task("id int PRIMARY KEY, name text", "id=key, name=value", deletesEnabled="false")
    records = records_of(["a", "z", "m"], keys=[1, 1, 1], topic=task.topic, first=first)
    records.timestamps = [1_700_000_000_000] * 3
    task.write("open", keys=[0])
    assert task.writer is not None
    for row in range(3):
        task.writer.write(records.only([row]), {})
        assert (1, records.values.values[row]) in rows(server, table)


@pytest.mark.parametrize(
    "settings", [{"query": "INSERT INTO {} (id, name) VALUES (:id, :name)"}, {}]
)
def test_a_write_that_is_repeated_does_not_replace_a_later_one(
    server: CassandraServer, table: str, make_task: MakeTask, settings: dict[str, str]
) -> None:
    settings = {name: text.format(f"{KS}.{table}") for name, text in settings.items()}
    task = make_task(
        "id int PRIMARY KEY, name text", "id=key, name=value", deletesEnabled="false", **settings
    )
    task.write("open", keys=[0])
    writer: Any = task.writer
    records = records_of(["old", "new"], keys=[1, 1], topic=task.topic)
    records.timestamps = [None, None]
    execute, refused = writer._session.execute_async, [OperationTimedOut()]

    def execute_async(statement: Any) -> Any:
        if refused:
            raise refused.pop()
        return execute(statement)

    writer._session.execute_async = execute_async
    with pytest.raises(Unavailable):
        writer.write(records, {})
    writer.write(records, {})
    assert (1, "new") in rows(server, table)


def test_counters_are_added_to(server: CassandraServer, table: str, make_task: MakeTask) -> None:
    task = make_task("id int PRIMARY KEY, n counter", "id=key, n=value.n")
    assert task.write({"n": 2}, {"n": 3}, {"n": -1}, keys=[1, 1, 2]) == {}
    assert rows(server, table) == [(1, 5), (2, -1)]


def test_a_topic_may_feed_several_tables(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    other = f"{table}_other"
    server.execute(f"CREATE TABLE {KS}.{other} (id int PRIMARY KEY)")
    task = make_task("id int PRIMARY KEY, v text", "id=key, v=value.v")
    task.props[f"topic.{task.topic}.{KS}.{other}.mapping"] = "id=key"
    assert task.write({"v": "x"}, keys=[1]) == {}
    assert (rows(server, table), rows(server, other)) == ([(1, "x")], [(1,)])


REFUSED = [
    ({"v": "no number"}, 9, "Column v: 'no number' is not a number"),
    ({"v": 1 << 40}, 9, "out of range for int"),
    ({"w": 1}, 9, "Required field 'value.v' (mapped to column v) was missing from record"),
    ({"v": 1}, None, "Primary key column id cannot be mapped to null"),
]


def test_refused_records_cost_no_others(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task("id int PRIMARY KEY, v int", "id=key, v=value.v")
    good = [({"v": number}, number) for number in range(100)]
    mixed = [*good[:50], *[(value, key) for value, key, _ in REFUSED], *good[50:]]
    failed = task.write(*[value for value, _ in mixed], keys=[key for _, key in mixed])
    assert sorted(failed) == [50, 51, 52, 53]
    for row, (_, _, text) in enumerate(REFUSED, 50):
        assert text in str(failed[row])
    assert rows(server, table) == [(number, number) for number in range(100)]


def test_a_record_that_the_server_refuses_is_rejected_alone(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    # An indexed value may have 64 KB at most: only the server knows.
    columns, mapping = "p int, id int, v text, PRIMARY KEY (p, id)", "p=value.p, id=key, v=value.v"
    task = make_task(columns, mapping)
    server.execute(f"CREATE INDEX ON {KS}.{table} (v)")
    values = [{"p": 1, "v": "x" * (70_000 if key == 7 else 10)} for key in range(20)]
    failed = task.write(*values, keys=list(range(20)))
    assert list(failed) == [7]
    assert "statement: INSERT INTO" in str(failed[7])
    assert [row[1] for row in rows(server, table)] == [key for key in range(20) if key != 7]
    ignoring = make_task(columns, mapping, ignoreErrors="Driver")
    assert ignoring.write(values[7], {"p": 2, "v": "ok"}, keys=[7, 30], first=40) == {}
    assert (2, 30, "ok") in rows(server, table)
    failed = ignoring.write({"p": "none", "v": "x"}, keys=[1], first=50)
    assert list(failed) == [0]
    assert make_task(columns, mapping, ignoreErrors="All").write({"p": "none"}, keys=[1]) == {}


def test_a_row_that_is_too_large_is_rejected_and_a_missing_table_fails_the_task(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task("p int, id int, v blob, PRIMARY KEY (p, id)", "p=value.p, id=key, v=value.v")
    values = [{"p": 1, "v": b"x" * size} for size in (1, 20_000_000, 2)]
    failed = task.write(*values, keys=[1, 2, 3])
    assert list(failed) == [1]
    assert "exceeds allowed maximum" in str(failed[1])
    assert [row[1] for row in rows(server, table)] == [1, 3]
    server.execute(f"DROP TABLE {KS}.{table}")
    with pytest.raises(PenstockError, match="does not exist") as raised:
        task.write(*values[:1], keys=[1], first=10)
    assert not isinstance(raised.value, Unavailable)
    assert task.writer is not None
    with pytest.raises(PenstockError, match="does not exist"):
        task.writer.flush()
    with pytest.raises(PenstockError, match="does not exist"):
        task.writer.pre_commit({TopicPartition(task.topic, 0): 11})


TYPES: dict[str, tuple[Any, Any]] = {
    "ascii": ("a", "a"),
    "bigint": (1 << 60, 1 << 60),
    "blob": ("0x0102", b"\x01\x02"),
    "boolean": (True, True),
    "date": (date(2026, 1, 31), "2026-01-31"),
    "decimal": (Decimal("1.10"), Decimal("1.10")),
    "double": (0.5, 0.5),
    "duration": ("1mo2d3h", "1mo2d10800000000000ns"),
    "float": (0.5, 0.5),
    "inet": ("::1", "::1"),
    "int": (7, 7),
    "smallint": (300, 300),
    "text": ("grün", "grün"),
    "time": (time(12, 30, 0, 5000), "12:30:00.005000000"),
    "timestamp": (datetime(2026, 1, 31, 12, 30, tzinfo=UTC), "2026-01-31 12:30:00"),
    "timeuuid": (
        "50554d6e-29bb-11e5-b345-feff819cdc9f",
        uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"),
    ),
    "tinyint": (-5, -5),
    "uuid": (str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    "varint": (1 << 80, 1 << 80),
    "list<int>": ([2, 1, 2], [2, 1, 2]),
    "set<text>": (["b", "a", "b"], {"a", "b"}),
    "map<text, int>": ({"a": 1}, {"a": 1}),
    "frozen<list<frozen<map<text, frozen<set<int>>>>>>": ([{"a": [1]}], [{"a": {1}}]),
    "tuple<int, text>": ([1, None], (1, None)),
    "vector<float, 2>": ([0.5, 1.5], [0.5, 1.5]),
    "frozen<place>": ({"street": "s", "numbers": [1, 2]}, ("s", [1, 2])),
}


def _text(value: Any) -> str:
    if isinstance(value, (bool, list, dict)):
        return orjson.dumps(value).decode()
    return str(value)


def _plain(value: Any) -> Any:
    name = type(value).__name__
    if name in ("SortedSet", "set"):
        return set(value)
    if name in ("OrderedMapSerializedKey", "OrderedMap", "dict"):
        return {key: _plain(each) for key, each in value.items()}
    if name == "list":
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in value)
    return str(value) if name in ("Date", "Time", "Duration", "datetime") else value


def test_every_type_is_written_from_values_texts_and_json(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    server.execute(f"CREATE TYPE IF NOT EXISTS {KS}.place (street text, numbers frozen<list<int>>)")
    names = {f"c{number}": kind for number, kind in enumerate(TYPES)}
    columns = ", ".join(f"{name} {kind}" for name, kind in names.items())
    mapping = ", ".join(f"{name}=value.{name}" for name in names)
    task = make_task(f"id int PRIMARY KEY, {columns}", f"id=key, {mapping}")
    value = {name: TYPES[kind][0] for name, kind in names.items()}
    as_texts = {
        name: each if isinstance(each, str) else _text(each) for name, each in value.items()
    }
    failed = task.write(value, as_texts, dict.fromkeys(names), keys=[1, 2, 3])
    assert failed == {}
    found = {row[0]: row[1:] for row in rows(server, table, f"id, {', '.join(names)}")}
    for row in (1, 2):
        for (name, kind), got in zip(names.items(), found[row], strict=True):
            assert _plain(got) == TYPES[kind][1], (row, name, kind)
    assert 3 not in found


def test_texts_are_read_as_the_codec_settings_say(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task(
        "id int PRIMARY KEY, n double, at timestamp, d date, t time, s timestamp",
        "id=key, n=value.n, at=value.at, d=value.d, t=value.t, s=value.s",
        codec_locale="de_DE",
        codec_timeZone="Europe/Vienna",
        codec_timestamp="dd.MM.yyyy HH:mm",
        codec_date="dd.MM.yyyy",
        codec_time="HH.mm",
        codec_unit="SECONDS",
    )
    value = {"n": "1.234,5", "at": "31.01.2026 12:30", "d": "31.01.2026", "t": "12.30"}
    assert task.write({**value, "s": 1_700_000_000}, keys=[1]) == {}
    ((_, at, day, number, second, clock),) = rows(server, table, "id, at, d, n, s, t")
    assert str(at) == "2026-01-31 11:30:00"
    assert (str(day), number, str(clock)) == ("2026-01-31", 1234.5, "12:30:00.000000000")
    assert str(second) == "2023-11-14 22:13:20"


def test_structs_become_user_types_and_logical_types_their_own(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    server.execute(f"CREATE TYPE IF NOT EXISTS {KS}.point (x int, y decimal)")
    task = make_task("id int PRIMARY KEY, p frozen<point>", "id=value.id, p=value.p")
    point = struct({"x": s.INT32, "y": s.decimal(2)})
    schema = struct({"id": s.INT32, "p": point})
    assert task.write({"id": 1, "p": {"x": 1, "y": Decimal("2.50")}}, schema=schema) == {}
    assert rows(server, table) == [(1, (1, Decimal("2.50")))]
    failed = task.write({"id": 1, "p": {"x": 1, "z": 2}}, first=5)
    assert "missing: y; unknown: z" in str(failed[0])


@pytest.mark.parametrize("connections", [connection_class, on_asyncio])
def test_answers_arrive_in_pieces_whatever_the_event_loop(
    server: CassandraServer,
    table: str,
    make_task: MakeTask,
    monkeypatch: pytest.MonkeyPatch,
    connections: Callable[..., Any],
) -> None:
    where = "penstock.connectors.cassandra.client.access.connection_class"
    monkeypatch.setattr(where, connections)
    with Proxy(server.port, piece=7) as proxy:
        mapping = "id=key, v=value.v"
        task = make_task("id int PRIMARY KEY, v int", mapping, port=str(proxy.port))
        values = [{"v": number} for number in range(1000)]
        assert task.write(*values, keys=list(range(1000))) == {}
        task.close()
    assert rows(server, table) == [(number, number) for number in range(1000)]


def test_a_preview_tells_the_statements_and_executes_none(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task("id int PRIMARY KEY, v text", "id=key, v=value.v")
    config = CassandraSink.plugin.config.parse(task.props)
    reported: list[str] = []
    writer = task.connector.open_preview(config, task.context, reported.append)
    failed: Failed = {}
    records = records_of([{"v": "x"}, None, {"v": "y"}], keys=[1, 2, "none"], topic=task.topic)
    writer.write(records, failed)
    assert list(failed) == [2]
    assert reported[0].startswith(f'INSERT INTO "{KS}"."{table}"("id","v")')
    assert "[id=1, v='x', message_internal_timestamp=" in reported[0]
    assert reported[1].startswith("DELETE FROM")
    assert rows(server, table) == []


def test_unknown_names_are_reported_at_validation(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    task = make_task("id int PRIMARY KEY, v int", "id=key, v=value.v")
    assert task.findings() == []
    prefix = f"topic.{task.topic}."
    mapping = task.props.pop(f"{prefix}{KS}.{table}.mapping")
    cases = {
        f"{prefix}Sinks.{table}.mapping": (mapping, "a keyspace sinks was found"),
        f"{prefix}nowhere.{table}.mapping": (mapping, "Keyspace nowhere does not exist"),
        f"{prefix}{KS}.nothing.mapping": (mapping, "Table nothing does not exist"),
        f"{prefix}{KS}.{table}.mapping": ("id=key, w=value.w", f"in table {table}: w"),
    }
    for name, (value, text) in cases.items():
        task.props[name] = value
        ((setting, error),) = task.findings()
        assert (setting, text in error) == (name, True), error
        with pytest.raises(ConfigInvalid, match=r"topic\."):
            task.write({"v": 1}, keys=[1])
        task.close()
        del task.props[name]
    for value, text in (
        ("v=value.v", "part of the primary key but are not mapped: id"),
        ("id=key, id=key", "Mapping already defined for column 'id'"),
        ("id=other.x", "Invalid field name 'other.x'"),
        ("id", "Unexpected end"),
        ("id=key v=x", "Expected ','"),
    ):
        task.props[f"{prefix}{KS}.{table}.mapping"] = value
        ((setting, error),) = task.findings()
        assert text in error, error
    task.props[f"{prefix}{KS}.{table}.mapping"] = "id=key"
    for name, value in (
        ("consistencyLevel", "SOME"),
        ("ttl", "-2"),
        ("ttlTimeUnit", "AGES"),
        ("query", "SELECT"),
    ):
        own = f"{prefix}{KS}.{table}.{name}"
        found = {setting for setting, _ in task.findings(**{own: value})}
        assert own in found, name
    assert task.findings(**{f"{prefix}codec.locale": "xx"})[0][0] == f"{prefix}codec.locale"
    assert task.findings(**{f"{prefix}codec.date": "bbb"})[0][0] == f"{prefix}codec.date"
    assert task.findings(**{"topics": "other"})[0][0] == "topics"
    own = f"{prefix}{KS}.{table}."
    task.props[f"{own}deletesEnabled"] = "false"
    ((setting, error),) = task.findings(**{f"{own}query": "SELECT nothing FROM nowhere"})
    assert setting == f"{own}query"
    assert "Prepare failed" in error
    assert task.findings(**{"port": "1"})[0][0] == "contactPoints"
    ((setting, error),) = task.findings(**{"loadBalancing.localDc": "nowhere"})
    assert (setting, "data center nowhere" in error) == ("contactPoints", True), error


def test_answers_that_do_not_come_are_waited_for_and_the_records_written_again(
    server: CassandraServer, table: str, make_task: MakeTask
) -> None:
    with Proxy(server.port) as proxy:
        task = make_task(
            "id int PRIMARY KEY, v int",
            "id=key, v=value.v",
            port=str(proxy.port),
            queryExecutionTimeout="1",
        )
        values = [{"v": number} for number in range(1000)]
        assert task.write(*values[:10], keys=list(range(10))) == {}
        proxy.hang()
        with pytest.raises(Unavailable):
            task.write(*values, keys=list(range(1000)), first=10)
        proxy.restore()
        written = False
        for _ in range(30):
            try:
                assert task.write(*values, keys=list(range(1000)), first=10) == {}
                written = True
                break
            except Unavailable:
                threading.Event().wait(0.5)
        assert written
    assert rows(server, table) == [(number, number) for number in range(1000)]


def test_the_server_is_killed_while_records_pass_and_nothing_is_lost(table: str) -> None:
    with CassandraServer() as own:
        own.execute(CREATE_KEYSPACE)
        own.execute(f"CREATE TABLE {KS}.{table} (p int, id int, v int, PRIMARY KEY (p, id))")
        task = Task(own, table, "p=value.p, id=key, v=value.v")
        restarter = threading.Thread(target=lambda: (own.kill(), own.start()))
        try:
            for number in range(60):
                if number == 20:
                    restarter.start()
                keys = list(range(number * 100, number * 100 + 100))
                for attempt in range(200):
                    try:
                        values = [{"p": key % 7, "v": key} for key in keys]
                        assert task.write(*values, keys=keys, first=number * 100) == {}
                        break
                    except Unavailable:
                        assert attempt < 199
                        threading.Event().wait(0.3)
        finally:
            restarter.join()
            task.close()
        assert sorted(row[2] for row in rows(own, table)) == list(range(6000))
