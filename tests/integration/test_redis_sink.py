"""The Redis sinks, against real servers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC
from decimal import Decimal
from itertools import count
from typing import Any

import orjson
import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from penstock.api import Header, Records, TopicPartition
from penstock.api import schema as s
from penstock.connectors.redis.client.errors import RecordRefused, RedisRefused, RedisUnavailable
from penstock.connectors.redis.sink import (
    DatamountaineerRedisSink,
    JcustenborderRedisSink,
    LensesRedisSink,
    RedisSink,
    _RedisSink,
)
from penstock.testing.certificates import Authority
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.redis import MISSING, RedisCluster, RedisSentinel, RedisServer
from penstock.testing.waiting import wait_until

from .redis_sinks import Client, Task, findings, lenses, ours, texts, write

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

NUMBERS = count()
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

    def target_away(self) -> AbstractContextManager[object]:
        @contextmanager
        def away() -> Iterator[None]:
            self.proxy.cut()
            try:
                yield
            finally:
                self.proxy.restore()

        return away()

    @pytest.fixture(autouse=True)
    def _server(
        self, server: RedisServer, client: Client, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        self.client = client
        self.port = server.port
        # The proxy is in this process, whose open files are counted.
        if "away" not in request.node.name:
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
        return {"redis.uri": uri, "redis.type": "HASH", "redis.keyspace": "rows"}

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
        return [(int(each[b"id"]), each[b"name"].decode()) for each in found]

    def bad_records(self) -> Records | None:
        self.client.set("rows:taken", "a text")
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
        }

    def contents(self) -> list[Any]:
        with redis.Redis(port=self.client.get_connection_kwargs()["port"], db=1) as other:
            keys = [key for key in other.scan_iter() if not key.startswith(b"__kafka")]
            return [other.get(key).decode() for key in keys]

    def bad_records(self) -> Records | None:
        return records_of(["x", {"a": 1}, "y", "z"], keys=[None, "k", "", 5])


class TestLists(_Away):
    connector = RedisSink

    def config(self) -> dict[str, str]:
        uri = f"redis://127.0.0.1:{self.port}"
        return {"redis.uri": uri, "redis.type": "LIST", "redis.keyspace": "list"}

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
                # The server says why, and hangs up while more is being written to it: what it said
                # may be lost with the connection. It is asked again, as a worker would.
                continue
        assert sorted(failed) == [2]
        with redis.Redis(port=small.port) as other:
            assert other.exists("k0", "k1", "k3", "k4") == 4


def test_a_full_server_is_waited_for() -> None:
    with (
        RedisServer({"maxmemory-policy": "noeviction"}) as full,
        redis.Redis(port=full.port) as other,
        Task(RedisSink, ours(full, "LIST")) as task,
    ):
        other.config_set("maxmemory", other.info("memory")["used_memory"] + 3_000_000)
        total = 10_000
        keys = [f"{number:06}" + "x" * 500 for number in range(total)]
        records = records_of([1] * total, keys=keys, topic="t")
        with pytest.raises(RedisUnavailable, match="OOM") as raised:
            task.write(records)
        assert raised.value.retriable
        written = other.llen("t")
        assert 0 < written < total
        other.config_set("maxmemory", "100mb")
        assert task.write(records) == {}
        # What was answered is not sent again; some of what follows was before it.
        assert sorted(other.lrange("t", 0, -1)) == [each.encode() for each in keys]


def test_a_busy_server_is_waited_for() -> None:
    with RedisServer({"busy-reply-threshold": "50"}) as busy:
        running = threading.Thread(
            target=lambda: busy.ask("EVAL", "while true do end", "0"), daemon=True
        )
        running.start()
        with Task(RedisSink, ours(busy)) as task:
            wait_until(lambda: _raises(lambda: task.write(texts(3))), 10, "the script")
            assert busy.ask("SCRIPT", "KILL") == "OK"
            running.join(10)
            assert task.write(texts(3)) == {}


def test_a_replica_is_left_for_the_primary(server: RedisServer, client: Client) -> None:
    with RedisServer() as other:
        other.ask("REPLICAOF", "127.0.0.1", str(server.port))
        with Task(RedisSink, ours(other)) as task:
            with pytest.raises(RedisUnavailable, match="READONLY"):
                task.write(texts(3))
            other.ask("REPLICAOF", "NO", "ONE")
            assert task.write(texts(3)) == {}
        with redis.Redis(port=other.port) as there:
            assert there.get("t:key-2") == b"value 2"


def test_replicas_are_waited_for(server: RedisServer, client: Client) -> None:
    settings = ours(server, redis_wait_replicas="1", redis_wait_timeout="500")
    with Task(RedisSink, settings) as task, RedisServer() as replica:
        with pytest.raises(RedisUnavailable, match=r"redis\.wait\.replicas"):
            task.write(texts(3))
        replica.ask("REPLICAOF", "127.0.0.1", str(server.port))
        wait_until(
            lambda: client.info("replication").get("connected_slaves") == 1, 20, "the replica"
        )
        wait_until(lambda: not _raises(lambda: task.write(texts(3))), 20, "the replica's answer")
        with redis.Redis(port=replica.port) as there:
            assert there.get("t:key-2") == b"value 2"


def _raises(act: Callable[[], object]) -> bool:
    try:
        act()
    except RedisUnavailable:
        return True
    return False


def until_taken(task: Task, records: Records) -> None:
    """Writes as the engine does: again after an error that passes."""
    for _ in range(10_000):
        try:
            assert task.write(records) == {}
            return
        except RedisUnavailable:
            continue
    raise TimeoutError


def test_a_server_that_is_killed_gets_everything() -> None:
    total, step = 100_000, 2_000
    with (
        RedisServer(appends=True) as server,
        Task(RedisSink, ours(server)) as strings,
        Task(RedisSink, ours(server, "LIST", redis_keyspace="list")) as lists,
    ):

        def restart() -> None:
            server.kill()
            server.start()

        restarts: list[threading.Thread] = []
        for start in range(0, total, step):
            if start % 40_000 == 20_000:
                restarts.append(threading.Thread(target=restart))
                restarts[-1].start()
            records = texts(step, first=start)
            until_taken(strings, records)
            until_taken(lists, records)
        for each in restarts:
            each.join()
        with redis.Redis(port=server.port) as client:
            assert client.dbsize() == total + 1
            assert client.get(f"t:key-{total - 1}") == f"value {total - 1}".encode()
            listed = client.lrange("list", 0, -1)
            assert len(set(listed)) == total
            # Pipelines whose replies were lost may be there twice.
            assert len(listed) - total <= len(restarts) * step


def test_a_slow_answer_is_waited_for(server: RedisServer, client: Client) -> None:
    with Proxy(server.port) as proxy:
        settings = {
            **ours(server),
            "redis.uri": f"redis://127.0.0.1:{proxy.port}",
            "redis.timeout": "1",
        }
        with Task(RedisSink, settings) as task:
            assert task.write(texts(10)) == {}
            proxy.hang()
            with pytest.raises(RedisUnavailable, match=r"imeout|timed out"):
                task.write(texts(10, first=10))
            proxy.restore()
            assert task.write(texts(10, first=10)) == {}
            assert client.get("t:key-19") == b"value 19"
        patient = {**settings, "redis.timeout": "30"}
        with Task(RedisSink, patient) as task:
            proxy.hang()
            done = threading.Thread(target=lambda: task.write(texts(5, first=50)))
            done.start()
            wait_until(lambda: proxy.connections > 0, 10, "a connection")
            done.join(0.5)
            assert done.is_alive()
            proxy.restore()
            done.join(20)
            assert client.get("t:key-54") == b"value 54"


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


def test_a_cluster_gets_every_record_at_its_node() -> None:
    with (
        RedisCluster() as cluster,
        redis.RedisCluster("127.0.0.1", cluster.nodes[0].port) as client,
    ):
        first = cluster.nodes[0].address
        settings = {"redis.uri": f"redis://{first}", "redis.cluster": "true"}
        rows = records_of(
            [{"v": number} for number in range(3_000)],
            keys=[f"k{number}" for number in range(3_000)],
            topic="t",
        )
        with Task(RedisSink, {**settings, "redis.type": "HASH"}) as task:
            task.writer.assigned({TopicPartition("t", 0): 0})
            assert task.write(rows) == {}
            assert task.writer.pre_commit({TopicPartition("t", 0): 3_000})
            assert client.get("com.redis.kafka.connect.sink.offset.t.0") is not None
            assert all(int(node.ask("DBSIZE")) > 500 for node in cluster.nodes), [
                node.ask("DBSIZE") for node in cluster.nodes
            ]
            slot, target = _move_slot(cluster, client)
            for number in range(3_000):
                rows.values.values[number] = {"v": -number}
            assert task.write(rows) == {}  # the key is asked for elsewhere
            assert sum(int(node.ask("DBSIZE")) for node in cluster.nodes) == 3_001
            for node in cluster.nodes:
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", target)
            assert task.write(rows) == {}  # the slot has moved
            assert sum(int(node.ask("DBSIZE")) for node in cluster.nodes) == 3_001
        hosts = ",".join(cluster.addresses)
        plain = {"redis.hosts": hosts, "redis.client.mode": "Cluster"}
        assert write(JcustenborderRedisSink, plain, texts(500)) == {}
        assert client.get("key-499") == b"value 499"
        alone = {"redis.uri": f"redis://{first}", "redis.type": "STRING"}
        assert "redis.cluster=true" in findings(RedisSink, alone)["redis.uri"]
        with pytest.raises(RedisRefused, match=r"redis\.cluster=true"):
            write(RedisSink, alone, texts(50))


def _move_slot(cluster: RedisCluster, client: redis.RedisCluster) -> tuple[str, str]:
    """Begins to move a slot with one key to another node, the key first: who asks the old node for
    it is sent there. The slot, and the id of the new node."""
    slots = [str(client.keyslot(f"t:k{number}")) for number in range(3_000)]
    key, slot = next((f"t:k{n}", each) for n, each in enumerate(slots) if slots.count(each) == 1)
    ids = [node.ask("CLUSTER", "MYID").split("\r\n")[-1] for node in cluster.nodes]
    source = int(slot) // (16_384 // 3 + 1)
    target = (source + 1) % 3
    cluster.nodes[target].ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    cluster.nodes[source].ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    port = str(cluster.nodes[target].port)
    moved = cluster.nodes[source].ask("MIGRATE", "127.0.0.1", port, key, "0", "5000")
    assert moved == "OK", moved
    return slot, ids[target]


def test_sentinels_tell_the_primary() -> None:
    with RedisServer() as first, RedisServer() as second:
        second.ask("REPLICAOF", "127.0.0.1", str(first.port))
        with RedisSentinel({"orders": first}) as sentinel:
            uri = f"redis-sentinel://{sentinel.address}#orders"
            settings = {"redis.uri": uri, "redis.type": "STRING", "redis.timeout": "2"}
            with Task(RedisSink, settings) as task:
                assert task.write(texts(10)) == {}
                with redis.Redis(port=sentinel.port, decode_responses=True) as asked:
                    wait_until(lambda: bool(asked.sentinel_slaves("orders")), 30, "the replica")
                first.kill()
                wait_until(
                    lambda: not _raises(lambda: task.write(texts(10, first=10))), 60, "a failover"
                )
            with redis.Redis(port=second.port) as client:
                assert client.get("t:key-19") == b"value 19"
            config = RedisSink.plugin.config.parse({**settings, "redis.uri": uri + "x"})
            told = list(RedisSink().validate_live(config))
            assert [each.setting for each in told] == ["redis.uri"]
            assert "ordersx" in str(told[0].error)


def test_tls_and_users() -> None:
    authority = Authority()
    with RedisServer(authority=authority, password="secret") as server:
        server.ask("ACL", "SETUSER", "writer", "on", ">pass", "~t:*", "+@all", "-flushall")
        server.ask("ACL", "SETUSER", "reader", "on", ">pass", "~*", "+@read", "+ping", "+command")
        trust = str(server.folder / "trust.pem")
        base = {
            "redis.uri": f"rediss://{server.address}",
            "redis.type": "STRING",
            "redis.cacert": trust,
            "redis.password": "secret",
        }
        assert findings(RedisSink, base) == {}
        assert write(RedisSink, base, texts(3)) == {}
        told = findings(RedisSink, {**base, "redis.password": "wrong"})
        assert list(told) == ["redis.password"]
        assert "WRONGPASS" in told["redis.password"] or "invalid" in told["redis.password"]
        without = {name: each for name, each in base.items() if name != "redis.password"}
        assert list(findings(RedisSink, without)) == ["redis.password"]
        strange = {name: each for name, each in base.items() if name != "redis.cacert"}
        assert "certificate" in findings(RedisSink, strange)["redis.uri"]
        assert findings(RedisSink, {**strange, "redis.insecure": "true"}) == {}
        missing = findings(RedisSink, {**base, "redis.cacert": trust + "x"})
        assert list(missing) == ["redis.cacert"]
        plain = findings(RedisSink, {**base, "redis.uri": f"redis://{server.address}"})
        assert list(plain) == ["redis.uri"]
        user = {**base, "redis.username": "writer", "redis.password": "pass"}
        records = records_of(["v", "w"], keys=["a", "b"], topic="t")
        assert write(RedisSink, user, records) == {}
        elsewhere = records_of(["v"], keys=["a"], topic="u")
        assert "NOPERM" in str(write(RedisSink, user, elsewhere)[0])
        inside = {**base, "redis.uri": f"rediss://reader:pass@{server.address}"}
        inside.pop("redis.password")
        with pytest.raises(RedisRefused, match="NOPERM"):
            write(RedisSink, inside, texts(1))
        jcustenborder = {
            "redis.hosts": server.address,
            "redis.ssl.enabled": "true",
            "redis.ssl.truststore.path": trust,
            "redis.password": "secret",
        }
        assert findings(JcustenborderRedisSink, jcustenborder) == {}
        assert write(JcustenborderRedisSink, jcustenborder, texts(3)) == {}
        by_kcql = {
            "connect.redis.host": "localhost",
            "connect.redis.port": str(server.port),
            "connect.redis.kcql": "SELECT * FROM t PK id",
            "connect.redis.ssl.enabled": "true",
            "connect.redis.password": "secret",
            "ssl.truststore.location": trust,
            "ssl.truststore.type": "PEM",
        }
        assert findings(LensesRedisSink, by_kcql) == {}
        assert write(LensesRedisSink, by_kcql, records_of([{"id": 1}])) == {}


def test_validation_tells_what_is_missing(server: RedisServer, client: Client) -> None:
    assert findings(RedisSink, ours(server)) == {}
    assert "JSON.SET" in findings(RedisSink, ours(server, "JSON"))["redis.type"]
    assert "TS.ADD" in findings(RedisSink, ours(server, "TIMESERIES"))["redis.type"]
    proxy = Proxy(server.port)  # nobody listens
    away = {"redis.uri": f"redis://127.0.0.1:{proxy.port}"}
    assert list(findings(RedisSink, away)) == ["redis.uri"]
    proxy.close()
    cluster = {**ours(server), "redis.cluster": "true"}
    assert "cluster support disabled" in findings(RedisSink, cluster)["redis.uri"]
    no_database = {"redis.hosts": server.address, "redis.database": "99"}
    assert list(findings(JcustenborderRedisSink, no_database)) == ["redis.hosts"]
    with pytest.raises(RedisRefused, match=r"redis\.type"):
        write(RedisSink, ours(server, "JSON"), texts(1))


def test_a_socket_of_the_machine(server: RedisServer, client: Client) -> None:
    for uri in (f"redis-socket://{server.socket}?database=2", f"unix://{server.socket}?db=2"):
        assert write(RedisSink, {"redis.uri": uri, "redis.type": "STRING"}, texts(3)) == {}
    with redis.Redis(port=server.port, db=2) as other:
        assert other.get("t:key-1") == b"value 1"


def test_a_preview_tells_the_commands() -> None:
    config = RedisSink.plugin.config.parse(
        {"name": "s", "topics": "t", "redis.type": "HASH", "redis.key.ttl": "5"}
    )
    told: list[str] = []
    writer = RedisSink().open_preview(config, SinkContextStub(), told.append)
    writer.write(records_of([{"a b": 1}, None], keys=["k", "k"]), {})
    assert told == [
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
