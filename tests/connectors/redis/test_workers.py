"""The Redis connectors on a real worker: a stream is copied to a topic, and the topic to hashes,
while connections break and the server is killed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import pytest
import redis

from penstock.testing.processes import WorkerProcess
from penstock.testing.proxy import Proxy
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.redis import MISSING, RedisServer

pytestmark = [
    pytest.mark.slow(70),
    pytest.mark.timeout(300),
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]

WAIT_S: Final = 120.0
RECORDS: Final = 50_000
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
VALUES: Final = {"value.converter": JSON, "value.converter.schemas.enable": "true"}


def test_a_stream_becomes_a_topic_and_the_topic_hashes(
    shared_worker: WorkerProcess, topics: Topics, unique: Callable[[str], str]
) -> None:
    worker = shared_worker
    topic, source, sink = topics.create(unique("stream")), unique("source"), unique("sink")
    with (
        RedisServer(appends=True) as server,
        Proxy(server.port) as proxy,
        redis.Redis(port=server.port) as client,
    ):
        for first in range(0, RECORDS, 5_000):
            pipeline = client.pipeline(transaction=False)
            for number in range(first, first + 5_000):
                pipeline.xadd("events", {"n": number, "text": f"entry {number}"})
            pipeline.execute()
        reading = {
            "connector.class": "com.redis.kafka.connect.RedisStreamSourceConnector",
            "tasks.max": "2",
            "redis.uri": f"redis://127.0.0.1:{proxy.port}",
            "redis.stream.name": "events",
            "topic": topic,
            **VALUES,
        }
        writing = {
            "connector.class": "com.redis.kafka.connect.RedisSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "redis.uri": f"redis://127.0.0.1:{proxy.port}",
            "redis.type": "HASH",
            "redis.keyspace": "row",
            **VALUES,
        }
        assert worker.create(source, reading).status_code == 201
        assert worker.create(sink, writing).status_code == 201
        wait_until(lambda: topics.count(topic) >= RECORDS // 10, WAIT_S, "some records")
        proxy.cut()
        threading.Event().wait(1)
        proxy.restore()
        wait_until(lambda: client.dbsize() >= RECORDS // 3, WAIT_S, "some hashes")
        server.kill()
        server.start()
        wait_until(lambda: topics.count(topic) >= RECORDS, WAIT_S, "all records")
        wait_until(lambda: _count(client) >= RECORDS, WAIT_S, "all hashes")
        wait_until(
            lambda: client.xpending("events", "kafka-consumer-group")["pending"] == 0,
            WAIT_S,
            "the acknowledgement of all entries",
        )
        found = {key.decode().removeprefix("row:") for key in client.scan_iter("row:*", 10_000)}
        assert found == {entry.decode() for entry, _ in client.xrange("events")}
        one = client.xrange("events", count=1)[0]
        # In the order of a Java map.
        assert client.hgetall(b"row:" + one[0])[b"body"] == b"{text=entry 0, n=0}"
    assert worker.states(source) == ["RUNNING"] * 3
    assert worker.states(sink) == ["RUNNING"] * 2


def _count(client: redis.Redis) -> int:
    return sum(1 for _ in client.scan_iter("row:*", 10_000))
