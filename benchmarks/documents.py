"""Topics into collections of MongoDB, next to MongoDB's own connector in Kafka Connect, and to the
client alone: pymongo's bulk writes of prepared documents, in one process. The server is
mongo-java-server, in memory on the same cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from pymongo import MongoClient, ReplaceOne

from benchmarks.inputs import JSON, PARTITIONS, WrongOutcome
from benchmarks.runtimes import PENSTOCK, Session
from benchmarks.scenarios import Load, Note, Scenario, note_curve
from benchmarks.watching import peak_memory, watch
from tests.servers.mongodb import MongoServer

_SINK: Final = "com.mongodb.kafka.connect.MongoSinkConnector"
_AT_ONCE: Final = 4_000  # the records of a full chunk
_OPTIONS: Final = ("-Xmx2g", "-XX:+UseSerialGC")


def _into_collections(session: Session, load: Load, note: Note) -> None:
    topic = load.topic(JSON)
    rate = None
    for run in ("cold", "warm"):
        name = session.name("documents")
        with MongoServer(options=_OPTIONS) as server:
            config = {
                "connector.class": _SINK,
                "topics": topic,
                "tasks.max": str(PARTITIONS),
                "connection.uri": server.uri,
                "database": "bench",
                "collection": "rows",
                "document.id.strategy": "com.mongodb.kafka.connect.sink.processor.id.strategy."
                "KafkaMetaDataStrategy",
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
            with MongoClient[dict[str, Any]](server.uri) as client:
                _check(client, load.records)
        note_curve(note, run, curve)
        rate = curve.rate
        note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
    if session.runtime == PENSTOCK:
        alone = _client_alone(load.records)
        note("hand", alone)
        note("share", None if rate is None else rate / alone)


def _client_alone(records: int) -> float:
    """The documents per second that pymongo alone writes."""
    with (
        MongoServer(options=_OPTIONS) as server,
        MongoClient[dict[str, Any]](server.uri) as client,
    ):
        collection = client["bench"]["rows"]
        spent = 0.0
        for operations in _operations(records):
            began_s = time.monotonic()
            collection.bulk_write(operations)
            spent += time.monotonic() - began_s
        _check(client, records)
    return records / spent


def _operations(records: int) -> Iterator[list[ReplaceOne[dict[str, Any]]]]:
    """The writes of `records` documents, the same as in the topic."""
    for start in range(0, records, _AT_ONCE):
        documents = [
            {
                "id": number,
                "name": f"name-{number}",
                "city": "Graz",
                "score": number / 2,
                "active": True,
                "_id": f"topic#0#{number}",
            }
            for number in range(start, min(start + _AT_ONCE, records))
        ]
        yield [
            ReplaceOne({"_id": document["_id"]}, document, upsert=True) for document in documents
        ]


def _check(client: MongoClient[dict[str, Any]], records: int) -> None:
    stored = client["bench"]["rows"].estimated_document_count()
    if stored != records:
        raise WrongOutcome(f"{records:,} documents were to be stored, {stored:,} are there")


SCENARIOS: Final = (
    Scenario(
        "mongodb-write",
        "topic → MongoDB",
        _into_collections,
        {"offset.flush.interval.ms": "200"},  # offsets tell how much is stored
        plugins=("mongo-kafka",),
    ),
)
