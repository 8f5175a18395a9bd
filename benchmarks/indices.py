"""Topics into an index of OpenSearch and an index into a topic, next to the client alone: its
helpers for bulk requests and for scans, in one process. The server is on the same cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import orjson
from opensearchpy import OpenSearch, helpers

from benchmarks.inputs import JSON, PARTITIONS, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import Load, Note, Scenario, note_curve
from benchmarks.watching import peak_memory, topic_ends, watch
from tests.servers.search import SearchServer

_SINK: Final = "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector"
_SOURCE: Final = "io.penstock.search.OpenSearchSourceConnector"
_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
_AT_ONCE: Final = 2_000  # the sink's batch.size
_HEAP: Final = "1g"
_INDEX: Final[Any] = {
    "settings": {"number_of_shards": 1, "number_of_replicas": 0},
    "mappings": {
        "properties": {
            "id": {"type": "long"},
            "name": {"type": "keyword"},
            "city": {"type": "keyword"},
            "score": {"type": "double"},
            "active": {"type": "boolean"},
        }
    },
}


def _into_index(session: Session, load: Load, note: Note) -> None:
    topic = load.topic(JSON)
    rate = None
    with SearchServer(heap=_HEAP, options=["-XX:+UseSerialGC"]) as server:
        for run in ("cold", "warm"):
            name = session.name("documents")
            server.request("PUT", f"/{topic}", _INDEX)
            config = {
                "connector.class": _SINK,
                "topics": topic,
                "tasks.max": str(PARTITIONS),
                "connection.url": server.url,
                "key.ignore": "true",
                "schema.ignore": "true",
                "read.timeout.ms": "60000",
                "value.converter": _CONVERTER,
                "value.converter.schemas.enable": "false",
            }

            def stored(name: str = name) -> int:
                return sum(session.topics.committed(f"connect-{name}", topic).values())

            with (
                peak_memory(session.worker.pid) as peak,
                session.running({name: config}) as began,
            ):
                curve = watch(stored, load.records, began, load.timeout_s, session.check)
            _check(server, topic, load.records)
            note_curve(note, run, curve)
            rate = curve.rate
            note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
            server.request("DELETE", f"/{topic}")
        server.request("PUT", "/hand", _INDEX)
        alone = load.records / _fill(server, "hand", load.records)
        _check(server, "hand", load.records)
    note("hand", alone)
    note("share", None if rate is None else rate / alone)


def _from_index(session: Session, load: Load, note: Note) -> None:
    rate = None
    with SearchServer(heap=_HEAP, options=["-XX:+UseSerialGC"]) as server:
        server.request("PUT", "/rows", _INDEX)
        _fill(server, "rows", load.records)
        _check(server, "rows", load.records)
        for run in ("cold", "warm"):
            name = session.name("scan")
            topic = session.topics.create(name)
            config = {
                "connector.class": _SOURCE,
                "connection.url": server.url,
                "indices": "rows",
                "topic": topic,
                "value.converter": _CONVERTER,
                "value.converter.schemas.enable": "false",
            }
            ends = topic_ends(session.topics, [topic])
            with (
                peak_memory(session.worker.pid) as peak,
                session.running({name: config}) as began,
            ):
                curve = watch(ends, load.records, began, load.timeout_s, session.check)
            note_curve(note, run, curve)
            rate = curve.rate
            note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
        with OpenSearch(server.url) as client:
            began = time.monotonic()
            documents = 0
            for hit in helpers.scan(client, index="rows", size=5_000, preserve_order=True):
                documents += len(orjson.dumps(hit["_source"])) > 0
            alone = documents / (time.monotonic() - began)
    note("hand", alone)
    note("share", None if rate is None else rate / alone)


def _fill(server: SearchServer, index: str, records: int) -> float:
    """Writes as many documents as the topic has, with as many threads as tasks; returns the
    seconds."""
    with OpenSearch(server.url, timeout=60, maxsize=PARTITIONS) as client:
        began = time.monotonic()
        done = helpers.parallel_bulk(
            client, _actions(index, records), thread_count=PARTITIONS, chunk_size=_AT_ONCE
        )
        for _ in done:
            pass
        return time.monotonic() - began


def _actions(index: str, records: int) -> Iterator[dict[str, Any]]:
    for number in range(records):
        yield {
            "_index": index,
            "_id": f"topic+0+{number}",
            "_source": {
                "id": number,
                "name": f"name-{number}",
                "city": "Graz",
                "score": number / 2,
                "active": True,
            },
        }


def _check(server: SearchServer, index: str, records: int) -> None:
    stored = server.count(index)
    if stored != records:
        raise WrongOutcome(f"{records:,} documents were to be stored, {stored:,} are there")


SCENARIOS: Final = (
    Scenario(
        "search-index",
        "topic → OpenSearch",
        _into_index,
        {"offset.flush.interval.ms": "200"},  # offsets tell how much is stored
        alone=True,
    ),
    Scenario("search-read", "OpenSearch → topic", _from_index, alone=True),
)
