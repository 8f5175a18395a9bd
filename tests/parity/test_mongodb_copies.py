"""MongoDB's own source in Kafka Connect, and ours: what `copy_existing` makes of a collection, byte
by byte."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import bson
import pytest
from pymongo import MongoClient

from penstock.host import jars
from penstock.kafka.broker import Broker
from penstock.testing.mongodb import MongoServer
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.reference import reference_worker
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

START_S: Final = 300.0
WAIT_S: Final = 120.0
SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
SOURCE: Final = "com.mongodb.kafka.connect.MongoSourceConnector"
FORMATS: Final = "com.mongodb.kafka.connect.source.json.formatter"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
TEXTS: Final = {"key.converter": TEXT, "value.converter": TEXT}
SCHEMAS: Final = {"key.converter": JSON, "value.converter": JSON}
DOCUMENTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "_id": bson.ObjectId("65a000000000000000000001"),
        "i": 5,
        "l": bson.Int64(1 << 40),
        "d": 0.1,
        "big": 1e22,
        "yes": True,
        "text": 'é😀"\\\n',
        "at": datetime(2026, 1, 31, 12, 30, 0, 5000, UTC),
        "price": bson.Decimal128("1.50"),
        "bytes": b"\x00\x01",
        "inner": {"a": 1, "b": None, "c": [1, 2]},
        "list": [{"x": 1}, {"x": 2}],
        "none": None,
    },
    {"_id": 7, "i": -1, "inner": {"a": 2}},
    {"_id": "text", "list": []},
)
CASES: Final[Mapping[str, Mapping[str, str]]] = {
    "default": TEXTS,
    "extended": {**TEXTS, "output.json.formatter": f"{FORMATS}.ExtendedJson"},
    "simplified": {**TEXTS, "output.json.formatter": f"{FORMATS}.SimplifiedJson"},
    "documents": {**TEXTS, "publish.full.document.only": "true"},
    "bson": {
        "key.converter": BYTES,
        "value.converter": BYTES,
        "output.format.key": "bson",
        "output.format.value": "bson",
        "publish.full.document.only": "true",
    },
    "schemas": {**SCHEMAS, "output.format.key": "schema", "output.format.value": "schema"},
    "inferred": {
        **SCHEMAS,
        "output.format.value": "schema",
        "output.schema.infer.value": "true",
        "publish.full.document.only": "true",
    },
    "pipeline": {
        **TEXTS,
        "startup.mode.copy.existing.pipeline": '[{"$match": {"i": {"$gte": 0}}}]',
        "topic.prefix": "p",
        "topic.suffix": "s",
        "topic.separator": "-",
    },
}


RUNTIMES: Final = ("jvm", "our")  # of one length, for BSON has lengths

Pair = tuple[bytes | None, bytes | None]
Outcomes = dict[str, dict[str, list[Pair]]]


def topic_of(case: str, database: str) -> str:
    return f"p-{database}-c-s" if case == "pipeline" else f"{database}.c"


@pytest.fixture(scope="module")
def outcomes(
    broker: Broker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcomes]:
    folder = tmp_path_factory.mktemp("mongodb-copies")
    theirs = reference_worker(
        folder, worker_settings(broker.bootstrap, "copies-reference"), options=SMALL
    )
    plugins = folder / "reference-plugins" / "mongodb"
    plugins.mkdir()
    for jar in sorted(jars.folder("mongo-kafka").glob("*.jar")):
        (plugins / jar.name).symlink_to(jar)
    ours = WorkerProcess(folder, worker_settings(broker.bootstrap, "copies-penstock"), name="ours")
    with (
        MongoServer(oplog=True) as server,
        theirs,
        ours,
        MongoClient[dict[str, Any]](server.uri) as client,
    ):
        workers = dict(zip(RUNTIMES, (theirs, ours), strict=True))
        for who, worker in workers.items():
            worker.await_rest(START_S)
            for case, config in CASES.items():
                database = f"{who}{case}"
                client[database]["c"].insert_many(DOCUMENTS)
                topics.create(topic_of(case, database))
                settings = {
                    "connector.class": SOURCE,
                    "connection.uri": server.uri,
                    "database": database,
                    "collection": "c",
                    "startup.mode": "copy_existing",
                    **config,
                }
                answer = worker.request("PUT", f"/connectors/{database}/config", settings)
                assert answer.status_code in (200, 201), answer.text
        yield {who: {case: _read(topics, who, case) for case in CASES} for who in workers}


def _read(topics: Topics, who: str, case: str) -> list[Pair]:
    """The records of a case, without the name of the runtime."""
    topic = topic_of(case, f"{who}{case}")
    count = 1 if case == "pipeline" else len(DOCUMENTS)
    with contextlib.suppress(TimeoutError):  # the comparison tells which it is
        wait_until(lambda: topics.count(topic) >= count, WAIT_S, f"the documents of {case}")
    pairs = [(_plain(each.key, who), _plain(each.value, who)) for each in topics.read(topic)]
    return sorted(pairs, key=repr)


def _plain(cell: bytes | None, who: str) -> bytes | None:
    return None if cell is None else cell.replace(who.encode(), b"who")


@pytest.mark.parametrize("case", CASES)
def test_a_copy_has_the_same_records(outcomes: Outcomes, case: str) -> None:
    assert outcomes["our"][case] == outcomes["jvm"][case]
    assert outcomes["our"][case]
