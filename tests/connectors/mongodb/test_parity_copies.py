"""MongoDB's own source in Kafka Connect, and ours: what `copy_existing` makes of a collection, byte
by byte. The documents are on two servers: neither suits both."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import bson
import orjson
import pytest
from pymongo import MongoClient

from penstock.api import Column, Failed, Use
from penstock.connectors.mongodb.source import MongoSource
from penstock.convert.json import JsonConverter
from penstock.convert.raw import ByteArrayConverter
from penstock.convert.text import StringConverter
from penstock.kafka.broker import Broker, free_port
from penstock.testing.contexts import SourceContextStub
from penstock.testing.processes import worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.places import TESTS
from tests.servers.mongodb import MongoServer
from tests.servers.reference import reference_worker

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
        "startup.mode.copy.existing.pipeline": '[{"$match": {"i": 5}}]',
        "topic.prefix": "p",
        "topic.suffix": "s",
        "topic.separator": "-",
    },
}


CONVERTERS: Final[Mapping[str, Any]] = {
    JSON: JsonConverter,
    TEXT: StringConverter,
    BYTES: ByteArrayConverter,
}
WIRE: Final = TESTS / "connectors" / "mongodb" / "wire.py"

Record = tuple[str, bytes | None, bytes | None]
Client = MongoClient[dict[str, Any]]


def settings_of(uri: str, case: str) -> dict[str, str]:
    return {
        "connector.class": SOURCE,
        "connection.uri": uri,
        "database": f"copy{case}",
        "collection": "c",
        "startup.mode": "copy_existing",
        **CASES[case],
    }


def topic_of(case: str) -> str:
    return f"p-copy{case}-c-s" if case == "pipeline" else f"copy{case}.c"


@pytest.fixture(scope="module")
def theirs(
    broker: Broker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[Record]]]:
    """What MongoDB's connector sends in Kafka Connect."""
    folder = tmp_path_factory.mktemp("mongodb-copies")
    worker = reference_worker(
        folder,
        worker_settings(broker.bootstrap, "copies-reference"),
        options=SMALL,
        families=["mongo-kafka"],
    )
    with MongoServer(oplog=True) as server, worker, Client(server.uri) as client:
        worker.await_rest(START_S)
        for case in CASES:
            client[f"copy{case}"]["c"].insert_many(DOCUMENTS)
            topics.create(topic_of(case))
            settings = settings_of(server.uri, case)
            answer = worker.request("PUT", f"/connectors/copy{case}/config", settings)
            assert answer.status_code in (200, 201), answer.text
        yield {case: _read(topics, case) for case in CASES}


def _read(topics: Topics, case: str) -> list[Record]:
    topic = topic_of(case)
    count = 1 if case == "pipeline" else len(DOCUMENTS)
    with contextlib.suppress(TimeoutError):  # the comparison shows which
        wait_until(lambda: topics.count(topic) >= count, WAIT_S, f"the documents of {case}")
    found = [(topic, each.key, each.value) for each in topics.read(topic)]
    return sorted(found, key=repr)


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """A server that the source can open a change stream on: mongo-java-server gives pymongo no
    start time."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(WIRE), str(port)])
    uri = f"mongodb://127.0.0.1:{port}/?replicaSet=rs"
    with Client(uri) as client:
        for case in CASES:
            client[f"copy{case}"]["c"].insert_many(DOCUMENTS)
    yield uri
    process.kill()
    process.wait(10)


def ours(uri: str, case: str) -> list[Record]:
    """What the source sends."""
    reader = MongoSource().open(
        MongoSource.plugin.config.parse(settings_of(uri, case)), SourceContextStub()
    )
    polled = reader.poll(1 << 20, 300)
    assert polled is not None
    found: list[Record] = []
    for part in polled.parts:
        for records in reader.read(part):
            keys, values = (
                _bytes(CASES[case][f"{side.value}.converter"], side, column)
                for side, column in ((Use.KEY, records.keys), (Use.VALUE, records.values))
            )
            found += zip(records.topics, keys, values, strict=True)
    reader.close()
    return sorted(found, key=repr)


def _bytes(name: str, side: Use, column: Column) -> list[bytes | None]:
    converter = CONVERTERS[name]
    failed: Failed = {}
    cells = converter(converter.plugin.config.parse({}), side).from_connect(
        ["t"] * len(column), column, failed
    )
    assert not failed
    return list(cells)


@pytest.mark.parametrize("case", CASES)
def test_a_copy_has_the_same_records(theirs: dict[str, list[Record]], uri: str, case: str) -> None:
    assert texts(ours(uri, case)) == texts(theirs[case])


def texts(records: Sequence[Record]) -> list[tuple[str, object, object]]:
    """Kafka's JsonConverter escapes some characters and writes numbers differently: its output is
    compared as JSON. Everything else is compared byte by byte."""
    return [(topic, _text(key), _text(value)) for topic, key, value in records]


def _text(cell: bytes | None) -> object:
    return orjson.loads(cell) if cell is not None and cell.startswith(b'{"schema"') else cell
