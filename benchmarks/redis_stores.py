"""Topics into Redis, and a stream into a topic, next to the client alone: redis-py's pipelines of
prepared commands, and its reads, in one process. The server is on the same cores, and stores
nothing on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import orjson
import redis
from confluent_kafka import Producer

from benchmarks.inputs import PARTITIONS, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import Load, Note, Scenario, note_curve
from benchmarks.watching import peak_memory, watch
from tests.servers.redis import RedisServer

_SINK: Final = "com.redis.kafka.connect.RedisSinkConnector"
_SOURCE: Final = "com.redis.kafka.connect.RedisStreamSourceConnector"
_TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_AT_ONCE: Final = 2_000
_GROUP: Final = "alone"

Fill = Callable[["redis.client.Pipeline", int], None]
Measure = Callable[[Session, Load, Note], None]


def _into(kind: str, converter: Mapping[str, str], fill: Fill) -> Measure:
    def measure(session: Session, load: Load, note: Note) -> None:
        topic = _keyed_topic(session, load.records)
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
                    "key.converter": _TEXT,
                    **converter,
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

    return measure


def _keyed_topic(session: Session, records: int) -> str:
    """A topic with rows whose keys are their numbers."""
    topic = session.topics.create(session.name("keyed"), partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": session.topics.bootstrap, "linger.ms": 50})
    for numbers in _pieces(records):
        for partition in range(PARTITIONS):
            messages = [
                {"key": b"%d" % number, "value": orjson.dumps(_row(number))}
                for number in numbers
                if number % PARTITIONS == partition
            ]
            producer.produce_batch(topic, messages, partition=partition)
        producer.flush(60)
    return topic


def _row(number: int) -> dict[str, str | int | float]:
    name = f"name-{number}"
    return {"id": number, "name": name, "city": "Graz", "score": number / 2, "active": "true"}


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


def _text(pipeline: redis.client.Pipeline, number: int) -> None:
    pipeline.set(f"topic:{number}", orjson.dumps(_row(number)))


def _hash(pipeline: redis.client.Pipeline, number: int) -> None:
    pipeline.hset(f"topic:{number}", mapping=_row(number))  # type: ignore[arg-type]


def _entry(pipeline: redis.client.Pipeline, number: int) -> None:
    pipeline.xadd("stream", _row(number))  # type: ignore[arg-type]


def _check(server: RedisServer, records: int, offsets: int = 0) -> None:
    keys = int(server.ask("DBSIZE"))
    if not records <= keys <= records + offsets:
        raise WrongOutcome(f"{records:,} keys were to be stored, {keys:,} are there")


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
                "key.converter": _TEXT,
                "value.converter": _JSON,
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
        while batch := client.xreadgroup(_GROUP, "c", {"stream": ">"}, count=_AT_ONCE):
            entries = next(iter(batch.values()))[0] if isinstance(batch, dict) else batch[0][1]
            client.xack("stream", _GROUP, *(entry for entry, _ in entries))
            count += len(entries)
        spent = time.monotonic() - began_s
        if count != load.records:
            raise WrongOutcome(f"{load.records:,} entries were to be read, {count:,} were")
    note("hand", load.records / spent)
    note("share", None if rate is None else rate * spent / load.records)


_SOON: Final = {"offset.flush.interval.ms": "200"}  # offsets tell how much is stored

SCENARIOS: Final = (
    Scenario(
        "redis-set",
        "topic → Redis strings",
        _into("STRING", {"value.converter": _TEXT}, _text),
        _SOON,
        alone=True,
    ),
    Scenario(
        "redis-hash",
        "topic → Redis hashes",
        _into("HASH", {"value.converter": _JSON, "value.converter.schemas.enable": "false"}, _hash),
        _SOON,
        alone=True,
    ),
    Scenario("redis-stream-read", "Redis stream → topic", _from_stream, alone=True),
)
