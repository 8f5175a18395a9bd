"""Topics into Redis, and a stream into a topic, beside the client alone: redis-py's pipelines of
commands that are ready, and its reads, in one process. The server is on the same cores, and keeps
nothing on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import redis

from benchmarks.inputs import JSON, PARTITIONS, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import Load, Note, Scenario, note_curve
from benchmarks.watching import peak_memory, watch
from penstock.testing.redis import RedisServer

_SINK: Final = "com.redis.kafka.connect.RedisSinkConnector"
_SOURCE: Final = "com.redis.kafka.connect.RedisStreamSourceConnector"
_AT_ONCE: Final = 2_000
_GROUP: Final = "alone"

Fill = Callable[["redis.client.Pipeline", int], None]


def _into(kind: str, fill: Fill) -> Callable[[Session, Load, Note], None]:
    def run_it(session: Session, load: Load, note: Note) -> None:
        topic = load.topic(JSON)
        rate = None
        for run in ("cold", "warm"):
            name = session.name("redis")
            with RedisServer() as server:
                config = {
                    "connector.class": _SINK,
                    "topics": topic,
                    "tasks.max": str(PARTITIONS),
                    "redis.uri": f"redis://{server.address}",
                    "redis.type": kind,
                    # Records have no keys; each gets one of its own.
                    "transforms": "key,text",
                    "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
                    "transforms.key.fields": "id",
                    "transforms.text.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
                    "transforms.text.field": "id",
                    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                    "value.converter.schemas.enable": "false",
                }

                def stored(name: str = name) -> int:
                    return sum(session.topics.committed(f"connect-{name}", topic).values())

                with (
                    peak_memory(session.worker.pid) as peak,
                    session.running({name: config}) as began,
                ):
                    curve = watch(stored, load.records, began, load.timeout_s, session.check)
                _check(server, load.records, PARTITIONS)
            note_curve(note, run, curve)
            rate = curve.rate
            note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
        with RedisServer() as server:
            spent = _alone(server, load.records, fill)
            _check(server, load.records)
        note("hand", load.records / spent)
        note("share", None if rate is None else rate * spent / load.records)

    return run_it


def _alone(server: RedisServer, records: int, fill: Fill) -> float:
    spent = 0.0
    with redis.Redis(port=server.port) as client:
        for numbers in _pieces(records):
            pipeline = client.pipeline(transaction=False)
            for number in numbers:
                fill(pipeline, number)
            began_s = time.monotonic()
            pipeline.execute()
            spent += time.monotonic() - began_s
    return spent


def _pieces(records: int) -> Iterator[range]:
    for start in range(0, records, _AT_ONCE):
        yield range(start, min(start + _AT_ONCE, records))


def _hash(pipeline: redis.client.Pipeline, number: int) -> None:
    row = {"id": number, "name": f"name-{number}", "city": "Graz", "score": number / 2}
    pipeline.hset(f"topic:{number}", mapping={**row, "active": "true"})  # type: ignore[arg-type]


def _entry(pipeline: redis.client.Pipeline, number: int) -> None:
    row = {"id": number, "name": f"name-{number}", "city": "Graz", "score": number / 2}
    pipeline.xadd("stream", {**row, "active": "true"})  # type: ignore[arg-type]


def _check(server: RedisServer, records: int, offsets: int = 0) -> None:
    found = int(server.ask("DBSIZE"))
    if not records <= found <= records + offsets:
        raise WrongOutcome(f"{records:,} keys were to be stored, {found:,} are there")


def _from_stream(session: Session, load: Load, note: Note) -> None:
    rate = None
    for run in ("cold", "warm"):
        name, topic = session.name("redis"), session.topics.create(session.name("stream"))
        with RedisServer() as server:
            _alone(server, load.records, _entry)
            config = {
                "connector.class": _SOURCE,
                "topic": topic,
                "tasks.max": str(PARTITIONS),
                "redis.uri": f"redis://{server.address}",
                "redis.stream.name": "stream",
                "batch.size": str(_AT_ONCE),
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
            }

            def sent(topic: str = topic) -> int:
                return session.topics.count(topic)

            with peak_memory(session.worker.pid) as peak, session.running({name: config}) as began:
                curve = watch(sent, load.records, began, load.timeout_s, session.check)
        note_curve(note, run, curve)
        rate = curve.rate
        note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
    with RedisServer() as server, redis.Redis(port=server.port) as client:
        _alone(server, load.records, _entry)
        client.xgroup_create("stream", _GROUP, "0-0")
        began_s = time.monotonic()
        count = 0
        while found := client.xreadgroup(_GROUP, "c", {"stream": ">"}, count=_AT_ONCE):
            entries = next(iter(found.values()))[0] if isinstance(found, dict) else found[0][1]
            client.xack("stream", _GROUP, *(entry for entry, _ in entries))
            count += len(entries)
        spent = time.monotonic() - began_s
        if count != load.records:
            raise WrongOutcome(f"{load.records:,} entries were to be read, {count:,} were")
    note("hand", load.records / spent)
    note("share", None if rate is None else rate * spent / load.records)


_SOON: Final = {"offset.flush.interval.ms": "200"}  # offsets tell how much is stored

SCENARIOS: Final = (
    Scenario("redis-hash", "topic → Redis hashes", _into("HASH", _hash), _SOON, alone=True),
    Scenario("redis-stream-read", "Redis stream → topic", _from_stream, alone=True),
)
