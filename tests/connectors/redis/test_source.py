"""The Redis sources, against real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from penstock.api import PenstockError, Polled, SourceOffset
from penstock.connectors.redis.client.errors import RedisRefused, RedisUnavailable
from penstock.connectors.redis.source import RedisKeysSource, RedisStreamSource
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until
from tests.servers.redis import MISSING, RedisCluster, RedisServer

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

Client = redis.Redis


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer({"notify-keyspace-events": "KEA"}) as running:
        yield running


@pytest.fixture
def client(server: RedisServer) -> Iterator[Client]:
    with redis.Redis(port=server.port) as client:
        client.flushall()
        yield client


class TestStreams(SourceConformance):
    resumes_within_polls = True
    connector = RedisStreamSource
    bad_configs = (
        ({"redis.stream.name": None}, "redis.stream.name"),
        ({"redis.stream.offset": "first"}, "redis.stream.offset"),
        ({"redis.stream.delivery": "once"}, "redis.stream.delivery"),
        ({"batch.size": "0"}, "batch.size"),
    )

    @pytest.fixture(autouse=True)
    def _server(self, server: RedisServer, client: Client) -> None:
        self.server, self.client = server, client

    def config(self) -> dict[str, str]:
        return {"redis.uri": f"redis://{self.server.address}", "redis.stream.name": "s"}

    def add(self, numbers: range) -> None:
        for number in numbers:
            self.client.xadd("s", {"number": number, "text": f"entry {number}"})


class TestKeys(SourceConformance):
    resumes_within_polls = True
    connector = RedisKeysSource
    bad_configs = (
        ({"mode": "DEAD"}, "mode"),
        ({"redis.keys.pattern": ""}, "redis.keys.pattern"),
    )
    wait_ms = 50

    @pytest.fixture(autouse=True)
    def _server(self, server: RedisServer, client: Client) -> None:
        self.server, self.client = server, client

    def config(self) -> dict[str, str]:
        return {"redis.uri": f"redis://{self.server.address}", "redis.keys.pattern": "k*"}

    def add(self, numbers: range) -> None:
        for number in numbers:
            self.client.set(f"k{number}", f"value {number}")

    # A scan has no order.
    def test_reading_it_again_reads_the_same(self) -> None:
        self._add(20)
        once, again = self._read(self._task()), self._read(self._task())
        assert len(once) == 20
        assert sorted(once) == sorted(again)

    def test_records_whose_offsets_were_not_stored_are_read_again(self) -> None:
        self._add(25)
        before = self._read(self._task())
        self.add(range(25, 40))
        again = self._read(self._task())
        assert set(again) >= set(before)
        assert len(again) == 40


class Task:
    """A reader of a stream; `number` is the task's."""

    def __init__(
        self, settings: dict[str, str], *, number: int = 0, stored: list[SourceOffset] | None = None
    ) -> None:
        connector = RedisStreamSource()
        config = connector.plugin.config.parse({"name": "n", **settings})
        props = connector.plan_tasks(config, number + 1)[number]
        self.context = SourceContextStub(stored or [])
        self.reader = connector.open(connector.plugin.config.parse(dict(props)), self.context)

    def read(self, wait_ms: int = 0) -> list[Polled]:
        """All polls until nothing is left."""
        return list(iter(lambda: self.reader.poll(1 << 20, wait_ms), None))  # type: ignore[arg-type]

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()


def ids(polls: list[Polled]) -> list[str]:
    return [str(key) for polled in polls for key in polled.records.keys.values]


def stream(server: RedisServer, **more: str) -> dict[str, str]:
    return {
        "redis.uri": f"redis://{server.address}",
        "redis.stream.name": "s",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def pending(client: Client) -> int:
    return int(client.xpending("s", "kafka-consumer-group")["pending"])


def test_entries_are_acknowledged_when_they_are_committed(
    server: RedisServer, client: Client
) -> None:
    added = [client.xadd("s", {"n": number, "t": "ü"}).decode() for number in range(1_200)]
    with Task(stream(server, topic="redis_${stream}")) as task:
        polls = task.read()
        assert [len(polled.records) for polled in polls][:1] == [500]
        first = polls[0].records
        assert first.topics[0] == "redis_s"
        assert first.values.values[0] == {
            "id": added[0],
            "body": {"n": "0", "t": "ü"},
            "stream": "s",
        }
        assert ids(polls) == added
        assert polls[-1].offsets == [SourceOffset({}, {"offset": added[-1]})]
        assert pending(client) == 1_200
        task.reader.committed(polls[1].offsets)
        assert pending(client) == 1_200 - len(polls[0].records) - len(polls[1].records)
    # Uncommitted entries are read again by the next task of that name, and by no other.
    with Task(stream(server), number=1) as other:
        assert other.read() == []
    with Task(stream(server)) as task:
        again = task.read()
        assert ids(again) == ids(polls[2:])
        task.reader.committed(again[-1].offsets)
    assert pending(client) == 0


def test_tasks_share_a_stream(server: RedisServer, client: Client) -> None:
    added = {client.xadd("s", {"n": number}).decode() for number in range(1_000)}
    settings = stream(server, batch_size="100", redis_stream_consumer_name="c-${task}")
    with Task(settings) as one, Task(settings, number=1) as two:
        found: list[str] = []
        for _ in range(5):
            for task in (one, two):
                polled = task.reader.poll(1 << 20, 0)
                assert polled is not None
                found += ids([polled])
        assert len(found) == 1_000
        assert set(found) == added
    names = {each["name"] for each in client.xinfo_consumers("s", "kafka-consumer-group")}
    assert names == {b"c-0", b"c-1"}


def test_a_group_begins_where_it_is_told(server: RedisServer, client: Client) -> None:
    added = [client.xadd("s", {"n": number}).decode() for number in range(10)]
    with Task(stream(server, redis_stream_offset=added[4])) as task:
        assert ids(task.read()) == added[5:]
    stored = [SourceOffset({}, {"offset": added[7]})]
    with Task(stream(server, redis_stream_consumer_group="g2"), stored=stored) as task:
        assert ids(task.read()) == added[8:]
    with Task(stream(server, redis_stream_consumer_group="g3", redis_stream_offset="$")) as task:
        assert task.read() == []
        new = client.xadd("s", {"n": 10}).decode()
        assert ids(task.read()) == [new]
    connector = RedisStreamSource()
    config = connector.plugin.config.parse(
        {"name": "n", **stream(server, redis_stream_consumer_group="g3")}
    )
    assert connector.alter_offsets(config, [SourceOffset({}, {"offset": added[8]})])
    with Task(dict(config.props), number=1) as task:
        assert ids(task.read()) == [added[9], new]
    with pytest.raises(PenstockError, match="offset"):
        connector.alter_offsets(config, [SourceOffset({"a": 1}, {"offset": "1-1"})])


def test_at_most_once_leaves_nothing_pending(server: RedisServer, client: Client) -> None:
    for number in range(10):
        client.xadd("s", {"n": number})
    with Task(stream(server, redis_stream_delivery="at-most-once")) as task:
        assert len(ids(task.read())) == 10
    assert pending(client) == 0


def test_entries_that_are_deleted_while_pending_are_left_out(
    server: RedisServer, client: Client
) -> None:
    added = [client.xadd("s", {"n": number}).decode() for number in range(10)]
    with Task(stream(server)) as task:
        task.read()
    client.xdel("s", *added[2:5])
    with Task(stream(server)) as task:
        polls = task.read()
        assert ids(polls) == added[:2] + added[5:]
        task.reader.committed(polls[-1].offsets)
    assert pending(client) == 0


def test_a_stream_that_is_gone_is_awaited(server: RedisServer, client: Client) -> None:
    client.xadd("s", {"n": 1})
    with Task(stream(server)) as task:
        assert len(ids(task.read())) == 1
        client.xgroup_destroy("s", "kafka-consumer-group")
        second = client.xadd("s", {"n": 2}).decode()
        wait_until(lambda: ids(task.read()) == [second], 10, "the group is made anew")
        client.delete("s")
        task.read()
        third = client.xadd("s", {"n": 3}, id="1-1").decode()
        wait_until(lambda: ids(task.read()) == [third], 10, "the new stream")


def test_nothing_is_lost_while_connections_break(server: RedisServer, client: Client) -> None:
    total = 100_000
    for first in range(0, total, 5_000):
        pipeline = client.pipeline(transaction=False)
        for number in range(first, first + 5_000):
            pipeline.xadd("s", {"n": number})
        pipeline.execute()
    found: list[str] = []
    with Proxy(server.port) as proxy:
        settings = {
            **stream(server, batch_size="2000"),
            "redis.uri": f"redis://127.0.0.1:{proxy.port}",
        }
        with Task(settings) as task:
            cuts = list(range(total * 9 // 10, 0, -total // 10))

            def read() -> bool:
                if cuts and len(found) >= cuts[-1]:
                    cuts.pop()
                    proxy.cut()
                    proxy.restore()
                with suppress(RedisUnavailable):
                    polled = task.reader.poll(1 << 20, 100)
                    if polled is not None:
                        found.extend(each["body"]["n"] for each in polled.records.values.values)
                        task.reader.committed(polled.offsets)
                return len(found) >= total and not cuts

            wait_until(read, 90, "all entries")
            client.xadd("s", {"n": "last"})
            wait_until(lambda: read() or pending(client) == 0, 20, "all acknowledgements")
    assert found[-1] == "last"
    assert list(map(int, found[:-1])) == list(range(total))  # in order, none twice


def test_a_stream_in_a_cluster() -> None:
    with (
        RedisCluster() as cluster,
        redis.RedisCluster("127.0.0.1", cluster.nodes[0].port) as client,
    ):
        added = [client.xadd("s", {"n": number}).decode() for number in range(100)]
        settings = {
            "redis.uri": ",".join(cluster.addresses),
            "redis.cluster": "true",
            "redis.stream.name": "s",
        }
        with Task(settings) as task:
            assert ids(task.read()) == added
        wrong = next(node for node in cluster.nodes if node.ask("EXISTS", "s") != "1")
        alone = {"redis.uri": f"redis://{wrong.address}", "redis.stream.name": "s"}
        with Task(alone) as task, pytest.raises(RedisRefused, match=r"redis\.cluster=true"):
            task.read()
        for number in range(30):
            client.set(f"k{number}", number)
        for node in cluster.nodes:
            node.ask("CONFIG", "SET", "notify-keyspace-events", "KEA")
        keys = RedisKeysSource()
        config = keys.plugin.config.parse({**settings, "name": "n", "redis.keys.pattern": "k*"})
        assert list(keys.validate_live(config)) == []
        reader = keys.open(config, SourceContextStub())
        try:
            polls = list(iter(lambda: reader.poll(1 << 20, 0), None))
            assert sorted(ids(polls)) == sorted(f"k{number}" for number in range(30))
            client.set("k7", "new")
            wait_until(lambda: _polled(reader, "k7"), 10, "the change")
        finally:
            reader.close()


def _polled(reader: Any, key: str) -> bool:
    polled = reader.poll(1 << 20, 100)
    return polled is not None and key in polled.records.keys.values


def test_keys_of_every_type(server: RedisServer, client: Client) -> None:
    client.set("string", "text", px=100_000)
    client.hset("hash", mapping={"a": 1, "b": "ü"})
    client.rpush("list", "x", "y")
    client.sadd("set", "m")
    client.zadd("zset", {"m": 1.5, "n": 2})
    client.xadd("stream", {"f": "v"})
    keys = RedisKeysSource()
    settings = {"name": "n", "redis.uri": f"redis://{server.address}", "topic": "changes"}
    config = keys.plugin.config.parse(settings)
    reader = keys.open(config, SourceContextStub())
    try:
        polled = reader.poll(1 << 20, 1_000)
        assert polled is not None
        assert set(polled.records.topics) == {"changes"}
        values = {each["key"]: each for each in polled.records.values.values}
        held = {key: (each["type"], each.get(each["type"])) for key, each in values.items()}
        assert held == {
            "string": ("string", "text"),
            "hash": ("hash", {"a": "1", "b": "ü"}),
            "list": ("list", ["x", "y"]),
            "set": ("set", ["m"]),
            "zset": ("zset", {1.5: "m", 2.0: "n"}),
            "stream": ("stream", None),
        }
        assert 0 < values["string"]["ttl"] <= 100_000
        assert values["hash"]["ttl"] == -1
        client.delete("hash")
        client.rpush("list", "z")
        found: dict[str, Any] = {}

        def changed() -> bool:
            more = reader.poll(1 << 20, 100)
            if more is not None:
                found.update((each["key"], each) for each in more.records.values.values)
            return found.keys() == {"hash", "list"}

        wait_until(changed, 10, "the changes")
        assert found["hash"]["type"] == "none"
        assert found["hash"]["ttl"] == -2
        assert found["list"]["list"] == ["x", "y", "z"]
    finally:
        reader.close()
    only = keys.plugin.config.parse({**settings, "mode": "LIVEONLY"})
    reader = keys.open(only, SourceContextStub())
    try:
        assert reader.poll(1 << 20, 100) is None
        client.set("string", "new")
        wait_until(lambda: _polled(reader, "string"), 10, "the change")
    finally:
        reader.close()


def test_keys_are_read_again_after_a_broken_connection(server: RedisServer, client: Client) -> None:
    for number in range(50):
        client.set(f"k{number}", number)
    with Proxy(server.port) as proxy:
        keys = RedisKeysSource()
        settings = {"name": "n", "redis.uri": f"redis://127.0.0.1:{proxy.port}"}
        reader = keys.open(keys.plugin.config.parse(settings), SourceContextStub())
        try:
            assert len(ids(list(iter(lambda: reader.poll(1 << 20, 0), None)))) == 50
            proxy.cut()
            client.set("k3", "while nobody listens")
            with pytest.raises(RedisUnavailable):
                wait_until(lambda: bool(reader.poll(1 << 20, 100)), 10, "an error")
            proxy.restore()
            polled = reader.poll(1 << 20, 1_000)
            assert polled is not None
            values = {each["key"]: each["string"] for each in polled.records.values.values}
            assert values["k3"] == "while nobody listens"
        finally:
            reader.close()


def test_validation_tells_what_is_missing(server: RedisServer, client: Client) -> None:
    keys = RedisKeysSource()
    config = keys.plugin.config.parse({"name": "n", "redis.uri": f"redis://{server.address}"})
    assert list(keys.validate_live(config)) == []
    client.config_set("notify-keyspace-events", "")
    try:
        reported = list(keys.validate_live(config))
        assert [each.setting for each in reported] == ["redis.keys.pattern"]
        assert "notify-keyspace-events" in str(reported[0].error)
    finally:
        client.config_set("notify-keyspace-events", "KEA")
    source = RedisStreamSource()
    config = source.plugin.config.parse({"name": "n", **stream(server)})
    assert list(source.validate_live(config)) == []
    wrong = source.plugin.config.parse(
        {"name": "n", **stream(server), "redis.username": "nobody", "redis.password": "x"}
    )
    assert [each.setting for each in source.validate_live(wrong)] == ["redis.password"]
    client.set("s", "no stream")
    with Task(stream(server)) as task, pytest.raises(RedisRefused, match=r"redis\.stream\.name"):
        task.read()
