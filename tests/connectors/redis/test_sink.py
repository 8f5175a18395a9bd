"""The Redis sinks, against real servers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC
from decimal import Decimal
from typing import Any

import orjson
import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from penstock.api import Header, Records, TopicPartition
from penstock.api import schema as s
from penstock.connectors.redis.client.errors import RecordRefused, RedisUnavailable
from penstock.connectors.redis.sink import (
    DatamountaineerRedisSink,
    JcustenborderRedisSink,
    LensesRedisSink,
    RedisSink,
    _RedisSink,
)
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until
from tests.servers.redis import MISSING, RedisServer

from .sinks import Client, Task, lenses, ours, texts, write

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

ROW = s.struct({"id": s.INT64, "name": s.OPTIONAL_STRING}, name="row")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def client(server: RedisServer) -> Iterator[Client]:
    with redis.Redis(port=server.port) as client:
        client.flushall()
        yield client


class _Away(SinkConformance):
    """A target behind a proxy."""

    proxy: Proxy

    def unreachable_target(self) -> AbstractContextManager[object]:
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
        """The user may only read."""
        self.client.execute_command("ACL", "SETUSER", "default", "-@write")
        try:
            yield
        finally:
            self.client.execute_command("ACL", "SETUSER", "default", "+@all")

    @pytest.fixture(autouse=True)
    def _server(
        self, server: RedisServer, client: Client, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        self.client = client
        self.port = server.port
        # The proxy is in this process, whose open files are counted.
        if "unreachable" not in request.node.name:
            yield
            return
        with Proxy(server.port) as self.proxy:
            self.port = self.proxy.port
            yield


class TestHashes(_Away):
    connector = RedisSink
    idempotent = True
    ordered = False
    bad_configs = (
        ({"redis.uri": "http://localhost"}, "redis.uri"),
        ({"redis.uri": "redis://a,b"}, "redis.cluster=true"),
        ({"redis.type": "TREE"}, "redis.type"),
        ({"redis.charset": "runes"}, "redis.charset"),
        ({"redis.multiexec": "true"}, "redis.multiexec"),
        ({"redis.key.ttl": "soon"}, "redis.key.ttl"),
        ({"redis.username": "reader"}, "redis.password"),
    )

    def config(self) -> dict[str, str]:
        uri = f"redis://127.0.0.1:{self.port}"
        return {
            "redis.uri": uri,
            "redis.type": "HASH",
            "redis.keyspace": "rows",
            "errors.tolerance": "all",
        }

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        return records_of(
            rows,
            schema=ROW if schema else None,
            keys=[f"k{number}" for number in numbers],
            key_schema=s.STRING if schema else None,
            first=numbers.start,
        )

    def expected(self, records: Records) -> list[Any]:
        return [(each["id"], each["name"]) for each in records.values.values if each is not None]

    def contents(self) -> list[Any]:
        found = [self.client.hgetall(key) for key in self.client.scan_iter("rows:*", _type="HASH")]
        return sorted((int(each[b"id"]), each[b"name"].decode()) for each in found)

    def bad_records(self) -> Records | None:
        self.client.set("rows:taken", "a string")
        values = [{"id": 1, "name": "x"}, "no struct"]
        return records_of(values, keys=["taken", "other"])

    @pytest.fixture(autouse=True)
    def _forget(self, _server: None) -> Iterator[None]:
        yield
        self.client.flushall()


class TestTexts(_Away):
    connector = JcustenborderRedisSink
    idempotent = True
    ordered = False
    bad_configs = (
        ({"redis.hosts": "localhost:http"}, "redis.hosts"),
        ({"redis.hosts": "a:1,b:2"}, "redis.client.mode=Cluster"),
        ({"redis.client.mode": "Chaos"}, "redis.client.mode"),
        ({"redis.connection.attempts": "0"}, "redis.connection.attempts"),
    )

    def config(self) -> dict[str, str]:
        return {
            "redis.hosts": f"127.0.0.1:{self.port}",
            "redis.connection.retry.delay.ms": "100",
            "errors.tolerance": "all",
        }

    def contents(self) -> list[Any]:
        with redis.Redis(port=self.client.get_connection_kwargs()["port"], db=1) as other:
            keys = [key for key in other.scan_iter() if not key.startswith(b"__kafka")]
            return sorted(other.get(key).decode() for key in keys)

    def bad_records(self) -> Records | None:
        return records_of(["x", {"a": 1}, "y", "z"], keys=[None, "k", "", 5])


class TestLists(_Away):
    connector = RedisSink

    def config(self) -> dict[str, str]:
        uri = f"redis://127.0.0.1:{self.port}"
        return {
            "redis.uri": uri,
            "redis.type": "LIST",
            "redis.keyspace": "list",
            "errors.tolerance": "all",
        }

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        return records_of(
            [True] * len(numbers),
            keys=[f"k{number}" for number in numbers],
            key_schema=s.STRING if schema else None,
            first=numbers.start,
        )

    def expected(self, records: Records) -> list[Any]:
        rows = zip(records.keys.values, records.values.values, strict=True)
        return [key for key, value in rows if value is not None]

    def contents(self) -> list[Any]:
        return [each.decode() for each in self.client.lrange("list", 0, -1)]


def test_every_structure_has_what_records_say(server: RedisServer, client: Client) -> None:
    members = records_of([1, 2.5, None, 3], keys=["a", "b", "b", "c"], topic="t")
    assert write(RedisSink, ours(server, "ZSET"), members) == {}
    assert client.zrange("t", 0, -1, withscores=True) == [(b"a", 1.0), (b"c", 3.0)]
    client.delete("t")
    assert write(RedisSink, ours(server, "SET"), members) == {}
    assert client.smembers("t") == {b"a", b"c"}
    client.delete("t")
    assert write(RedisSink, ours(server, "LIST"), members) == {}
    assert client.lrange("t", 0, -1) == [b"a", b"c"]
    client.delete("t")
    old = {"redis.uri": f"redis://{server.address}", "redis.command": "LPUSH", "redis.key": "l"}
    assert write(RedisSink, old, members.only([0, 1, 3])) == {}
    assert client.lrange("l", 0, -1) == [b"c", b"b", b"a"]
    rows = records_of(
        [{"id": 1, "name": None}, None, {"id": 2, "name": "ü"}], schema=ROW, topic="t"
    )
    assert write(RedisSink, ours(server, "STREAM"), rows) == {}
    entries = [fields for _, fields in client.xrange("t")]
    assert entries == [{b"id": b"1", b"name": b""}, {b"id": b"2", b"name": "ü".encode()}]
    wrong = records_of(["x", True, {"a": 1}], keys=["a", "b", "c"], topic="z")
    assert sorted(write(RedisSink, ours(server, "ZSET"), wrong)) == [0, 1, 2]


def test_a_batch_with_a_record_that_fails_the_task_is_not_written(
    server: RedisServer, client: Client
) -> None:
    records = records_of([{"v": 1}, "no fields", {"v": 3}], topic="t")
    with Task(RedisSink, ours(server, "STREAM"), tolerates=False) as task:
        for _ in range(2):  # a restart
            assert list(task.write(records)) == [1]
    assert client.xlen("t") == 0


def test_keys_are_made_of_the_keyspace(server: RedisServer, client: Client) -> None:
    records = records_of(["v"] * 3, keys=[7, "x", {"id": 1}], key_schema=None, topic="orders")
    assert write(RedisSink, ours(server), records) == {}
    assert sorted(client.keys("orders*")) == [b"orders:7", b"orders:x", b"orders:{id=1}"]
    client.flushall()
    plain = ours(server, redis_keyspace="")
    failed = write(RedisSink, plain, records)
    assert sorted(failed) == [0, 2]
    assert "key.converter" in str(failed[0])
    assert client.get("x") == b"v"
    separate = ours(
        server, redis_keyspace="a-${topic}", redis_separator="/", redis_charset="UTF-16LE"
    )
    assert write(RedisSink, separate, records.only([1])) == {}
    assert "a-orders/x".encode("utf-16-le") in list(client.scan_iter())


def test_the_last_value_of_a_key_counts(server: RedisServer, client: Client) -> None:
    values = ["1", "2", None, "4", None, "6"]
    records = records_of(values, keys=["a", "b", "a", "a", "b", "c"])
    assert write(RedisSink, ours(server, redis_keyspace=""), records) == {}
    assert (client.get("a"), client.get("b"), client.get("c")) == (b"4", None, b"6")
    hashes = records_of(
        [{"x": 1}, {"y": 2}, None, {"z": 3}, {"w": 1}], keys=["h", "h", "g", "g", "h"]
    )
    assert write(RedisSink, ours(server, "HASH", redis_keyspace=""), hashes) == {}
    assert client.hgetall("h") == {b"x": b"1", b"y": b"2", b"w": b"1"}
    assert client.hgetall("g") == {b"z": b"3"}


def test_keys_expire(server: RedisServer, client: Client) -> None:
    records = records_of(["v"] * 4, keys=["a", "b", "c", "d"])
    records.headers = [
        (),
        [Header("redis.key.ttl", "50")],
        [Header("redis.key.ttl", b"60")],
        [Header("redis.key.ttl", "soon")],
    ]
    for kind, values in (("STRING", ["v"] * 4), ("HASH", [{"v": 1}] * 4)):
        client.flushall()
        given = records.with_values(records_of(values).values)
        settings = ours(server, kind, redis_keyspace="", redis_key_ttl="1000")
        assert write(RedisSink, settings, given) == {}
        found = [client.ttl(key) for key in "abcd"]
        assert [each // 10 for each in found] == [100, 5, 6, 100] or found == [999, 49, 59, 999]
    assert write(RedisSink, ours(server, "SET", redis_key_ttl="90"), texts(3)) == {}
    assert 85 <= client.ttl("t") <= 90


def test_refused_records_cost_only_themselves(server: RedisServer, client: Client) -> None:
    client.rpush("key-3", "x")
    client.rpush("key-7", "x")
    rows = records_of([{"v": number} for number in range(10)], keys=[f"key-{n}" for n in range(10)])
    settings = ours(server, "HASH", redis_keyspace="", penstock_pipeline_records="3")
    failed = write(RedisSink, settings, rows)
    assert sorted(failed) == [3, 7]
    assert all(isinstance(each, RecordRefused) for each in failed.values())
    assert "WRONGTYPE" in str(failed[3])
    assert len(client.keys()) == 10
    assert client.hget("key-9", "v") == b"9"


@pytest.mark.parametrize("kind", ["LIST", "ZSET"])
def test_transactions(server: RedisServer, client: Client, kind: str) -> None:
    records = records_of(list(range(10)), keys=[f"m{number}" for number in range(10)], topic="tx")
    settings = ours(server, kind, redis_multiexec="true", penstock_pipeline_records="4")
    assert write(RedisSink, settings, records) == {}
    stored = client.lrange("tx", 0, -1) if kind == "LIST" else client.zrange("tx", 0, -1)
    assert stored == [f"m{number}".encode() for number in range(10)]
    client.set("bad", "x")
    mixed = records_of([1, 2], keys=["m", "n"], topic="bad")
    failed = write(RedisSink, settings, mixed)
    assert sorted(failed) == [0, 1]


def test_a_record_too_large_for_the_server_is_refused(client: Client, server: RedisServer) -> None:
    with RedisServer({"proto-max-bulk-len": "1mb"}) as small:
        values = ["x" * (3 << 20) if number == 2 else "y" for number in range(5)]
        records = records_of(values, keys=[f"k{number}" for number in range(5)])
        for _ in range(50):
            try:
                failed = write(RedisSink, ours(small, redis_keyspace=""), records)
                break
            except RedisUnavailable:
                # The server reports why, and disconnects during further writes: the report may be
                # lost with the connection. The test retries, as a worker would.
                continue
        assert sorted(failed) == [2]
        with redis.Redis(port=small.port) as other:
            assert other.exists("k0", "k1", "k3", "k4") == 4


def test_offsets_are_kept_in_redis_and_gone_on_from(server: RedisServer, client: Client) -> None:
    at, other = TopicPartition("t", 0), TopicPartition("t", 3)
    cases: list[tuple[type[_RedisSink], dict[str, str], str, int]] = [
        (RedisSink, ours(server), "com.redis.kafka.connect.sink.offset.t.0", 0),
        (
            JcustenborderRedisSink,
            {"redis.hosts": server.address},
            "__kafka.offset.t.0",
            1,
        ),
    ]
    for sink, settings, key, database in cases:
        with redis.Redis(port=server.port, db=database) as stored:
            with Task(sink, settings) as task:
                task.writer.assigned({at: 0, other: 5})
                assert task.context.sought == [{other: 0}]  # as after a server that forgot
                task.write(texts(10))
                assert task.writer.pre_commit({at: 10}) == {at: 10}
            data = orjson.loads(stored.get(key))
            assert data == {"topic": "t", "partition": 0, "offset": 10}
            stored.set(key, '{"topic":"t","partition":0,"offset":4}')
            with Task(sink, settings) as task:
                task.writer.assigned({at: 10})
                assert task.context.sought == [{at: 4}]
            config = sink.plugin.config.parse({"name": "s", "topics": "t", **settings})
            assert sink().alter_offsets(config, {("t", 0): 7, ("t", 1): None})
            assert orjson.loads(stored.get(key))["offset"] == 7
            stored.set(key, "[]")
            with Task(sink, settings) as task, pytest.raises(Exception, match=key):
                task.writer.assigned({at: 10})


@pytest.mark.parametrize("sink", [RedisSink, JcustenborderRedisSink])
def test_no_record_is_skipped_for_an_offset_of_another_lineage(
    server: RedisServer, client: Client, sink: type[_RedisSink]
) -> None:
    """As after a topic was created again, or its offsets were reset."""
    at = TopicPartition("t", 0)
    settings = ours(server) if sink is RedisSink else {"redis.hosts": server.address}

    def sought(position: int, lineage: str) -> list[dict[TopicPartition, int]]:
        with Task(sink, settings) as task:
            task.context.lineages[at] = lineage
            task.writer.assigned({at: position})
            return task.context.sought

    with Task(sink, settings) as task:
        task.context.lineages[at] = "first"
        task.writer.assigned({at: 0})
        task.write(texts(10))
        assert task.writer.pre_commit({at: 10}) == {at: 10}
    assert sought(7, "first") == [{at: 10}], "its commit to Kafka was lost"
    assert sought(3, "second") == [], "records 3 to 9 are others"
    assert sought(50, "second") == [{at: 10}], "none between is skipped"
    with Task(sink, settings) as task:
        task.context.lineages[at] = "second"
        task.writer.assigned({at: 0})
        assert task.writer.pre_commit({at: 10}) == {at: 10}
    assert sought(7, "second") == [{at: 10}]


def test_lenses_statements(server: RedisServer, client: Client) -> None:
    person = s.struct({"firstName": s.STRING}, name="Child")
    schema = s.struct(
        {"firstName": s.STRING, "age": s.INT32, "threshold": s.OPTIONAL_FLOAT64, "child": person}
    )
    alex = {"firstName": "Alex", "age": 30, "threshold": None, "child": {"firstName": "Junior"}}
    rows = records_of([alex], schema=schema, topic="people")
    text = records_of([orjson.dumps(alex).decode()], schema=s.STRING, topic="people")
    for records in (rows, text, records_of([alex], topic="people")):
        client.flushall()
        kcql = (
            "SELECT * FROM people PK firstName, child.firstName; "
            "INSERT INTO p- SELECT age, child.firstName AS c FROM people PK firstName TTL=60;"
            "INSERT INTO `all` SELECT age FROM people STOREAS SortedSet(score=age)"
        )
        assert write(LensesRedisSink, lenses(server, kcql), records) == {}
        assert orjson.loads(client.get("Alex.Junior")) == alex
        assert orjson.loads(client.get("p-Alex")) == {"age": 30, "c": "Junior"}
        assert 55 <= client.ttl("p-Alex") <= 60
        assert client.zrange("all", 0, -1, withscores=True) == [(b'{"age":30}', 30.0)]
    kcql = "SELECT age FROM people PK firstName STOREAS SortedSet(score=age)"
    dashed = lenses(server, kcql, connect_redis_pk_delimiter="-")
    assert write(DatamountaineerRedisSink, dashed, rows) == {}
    assert client.zscore("Alex", b'{"age":30}') == 30.0
    kcql = "INSERT INTO st SELECT * FROM people IGNORE child STOREAS STREAM"
    assert write(LensesRedisSink, lenses(server, kcql), rows) == {}
    entry = client.xrange("st")[0][1]
    assert entry == {b"firstName": b"Alex", b"age": b"30", b"threshold": b"null"}
    places = records_of(
        [
            {"town": "Graz", "country": "AT", "lon": "15.4", "lat": 47.1},
            {"town": "Nowhere", "country": "AT", "lon": "x", "lat": 1},
            {"town": "Pole", "country": "AT", "lon": 1, "lat": 90},
        ],
        topic="towns",
    )
    kcql = (
        "INSERT INTO geo: SELECT town FROM towns PK country "
        "STOREAS GeoAdd(longitudeField=lon,latitudeField=lat)"
    )
    assert sorted(write(LensesRedisSink, lenses(server, kcql), places)) == [2]
    assert client.zrange("geo:AT", 0, -1) == [b'{"town":"Graz"}']
    assert (
        write(LensesRedisSink, lenses(server, kcql, connect_redis_error_policy="NOOP"), places)
        == {}
    )
    with client.pubsub() as heard:
        heard.subscribe("news")
        wait_until(lambda: heard.get_message() is not None, 10, "the subscription")
        kcql = "SELECT text FROM n STOREAS PubSub(channel=ch)"
        news = records_of([{"ch": "news", "text": "x"}, {"text": "y"}], topic="n")
        assert sorted(write(LensesRedisSink, lenses(server, kcql), news)) == [1]
        messages: list[Any] = []
        wait_until(lambda: bool(messages.append(heard.get_message()) or messages[-1]), 10, "it")
        assert messages[-1]["data"] == b'{"text":"x"}'
    client.set("7", "x")
    gone = records_of([None, None], keys=[7, None], topic="people")
    kcql = "SELECT age FROM people PK id"
    assert sorted(write(LensesRedisSink, lenses(server, kcql), gone)) == [1]
    assert client.get("7") is None


def test_a_preview_tells_the_commands() -> None:
    config = RedisSink.plugin.config.parse(
        {"name": "s", "topics": "t", "redis.type": "HASH", "redis.key.ttl": "5"}
    )
    reported: list[str] = []
    writer = RedisSink().open_preview(config, SinkContextStub(), reported.append)
    writer.write(records_of([{"a b": 1}, None], keys=["k", "k"]), {})
    assert reported == [
        'HSET conformance:k "a b" 1',
        "EXPIRE conformance:k 5",
        "DEL conformance:k",
    ]


CELLS: dict[s.Schema, st.SearchStrategy[Any]] = {
    s.INT8: st.integers(-128, 127),
    s.INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    s.FLOAT64: st.floats(),
    s.BOOLEAN: st.booleans(),
    s.STRING: st.text(),
    s.BYTES: st.binary(),
    s.array(s.INT32): st.lists(st.integers(0, 9), max_size=3),
    s.map_of(s.STRING, s.STRING): st.dictionaries(st.text("ab"), st.text("cd"), max_size=2),
    ROW: st.fixed_dictionaries({"id": st.integers(0, 9), "name": st.none() | st.text("xy")}),
    s.decimal(2): st.integers(-(10**20), 10**20).map(lambda each: Decimal(each).scaleb(-2)),
    s.DATE: st.dates(),
    s.TIME: st.times().map(lambda each: each.replace(microsecond=0)),
    s.TIMESTAMP: st.datetimes(timezones=st.just(UTC)).map(lambda each: each.replace(microsecond=0)),
    s.OPTIONAL_STRING: st.none(),
}


@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_fields_hold_what_the_table_says(
    data: st.DataObject, server: RedisServer, client: Client
) -> None:
    kind = data.draw(st.sampled_from(list(CELLS)))
    value = data.draw(CELLS[kind])
    with_schema = records_of([{"f": value}], schema=s.struct({"f": kind}), keys=["k"])
    client.delete("k")
    assert write(RedisSink, ours(server, "HASH", redis_keyspace=""), with_schema) == {}
    stored = client.hget("k", "f")
    if value is None:
        assert stored == b""
    elif isinstance(value, bytes):
        assert stored == value
    elif isinstance(value, bool):
        assert stored == (b"true" if value else b"false")
    elif isinstance(value, (int, Decimal, str)):
        assert stored == str(value).encode("utf-8", "replace")
    elif isinstance(value, float):
        assert math.isnan(value) or float(stored.replace(b"Infinity", b"inf")) == value
    else:
        assert stored == s.text(kind, value).encode()
    assert isinstance(stored, bytes)
