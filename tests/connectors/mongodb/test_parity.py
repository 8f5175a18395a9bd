"""MongoDB's own sink in Kafka Connect, and ours: the same configurations and records, and the
collections that they leave, type by type."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import bson
import pytest
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import MongoClient

from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.mongodb import MongoServer
from tests.servers.reference import reference_worker

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow(145)]

SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_S: Final = 300.0
WAIT_S: Final = 120.0
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
SINK: Final = "com.mongodb.kafka.connect.MongoSinkConnector"
KAFKA: Final = "com.mongodb.kafka.connect.sink"
IDS: Final = f"{KAFKA}.processor.id.strategy"
STEPS: Final = f"{KAFKA}.processor"
WRITES: Final = f"{KAFKA}.writemodel.strategy"
CDC: Final = f"{KAFKA}.cdc"
CANONICAL: Final = json_util.CANONICAL_JSON_OPTIONS
OPTIONS: Final = CodecOptions[dict[str, Any]](
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_MS
)

Row = tuple[Any, Any]
SCHEMALESS: Final = {
    "key.converter": JSON, "key.converter.schemas.enable": "false",
    "value.converter": JSON, "value.converter.schemas.enable": "false",
}  # fmt: skip
TEXTS: Final = {"key.converter": TEXT, "value.converter": TEXT}
WITH_SCHEMA: Final = {**TEXTS, "value.converter": JSON, "value.converter.schemas.enable": "true"}


def struct(name: str, *fields: Mapping[str, Any], optional: bool = False) -> dict[str, Any]:
    return {"type": "struct", "name": name, "optional": optional, "fields": list(fields)}


def member(field_name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"field": field_name, "type": kind, "optional": True, **more}


ALL_TYPES: Final = struct(
    "all",
    member("i8", "int8"),
    member("i16", "int16"),
    member("i32", "int32"),
    member("i64", "int64"),
    member("f32", "float"),
    member("f64", "double"),
    member("yes", "boolean"),
    member("text", "string"),
    member("bytes", "bytes"),
    member("list", "array", items={"type": "int64", "optional": True}),
    member("map", "map", keys={"type": "string"}, values={"type": "int32", "optional": True}),
    member("price", "bytes", name="org.apache.kafka.connect.data.Decimal",
           parameters={"scale": "2"}, version=1),
    member("day", "int32", name="org.apache.kafka.connect.data.Date", version=1),
    member("time", "int32", name="org.apache.kafka.connect.data.Time", version=1),
    member("at", "int64", name="org.apache.kafka.connect.data.Timestamp", version=1),
    member("default", "int32", default=7),
    {"field": "inner", **struct("inner", member("a", "int64"), optional=True)},
)  # fmt: skip
FILLED: Final = {
    "i8": -5, "i16": 300, "i32": 70000, "i64": 5, "f32": 0.1, "f64": 0.1, "yes": True,
    "text": "é😀", "bytes": "AAE=", "list": [1, None, 1 << 40], "map": {"a": 1, "b": None},
    "price": "bg==", "day": 20484, "time": 45000005, "at": 1769862600000, "default": None,
    "inner": {"a": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A configuration, and records; `ids`: whether ids are the same each time."""

    name: str
    rows: Sequence[Row]
    config: Mapping[str, str] = field(default_factory=dict)
    converters: Mapping[str, str] = field(default_factory=lambda: SCHEMALESS)
    ids: bool = True


PEOPLE: Final[Sequence[Row]] = (
    (
        {"id": 1, "zip": "8010"},
        {"name": "A", "n": 1, "x": {"a": 1.5, "b": None}, "l": [1, {"z": 1}]},
    ),
    ({"id": 2, "zip": "8020"}, {"name": "B", "n": 1 << 40, "x": {"a": 2, "c": True}}),
    ({"id": 1, "zip": "8010"}, {"name": "C", "n": -3, "x": {}}),
)
CASES: Final = (
    Case("default", PEOPLE, ids=False),
    Case("fullkey", PEOPLE, {"document.id.strategy": f"{IDS}.FullKeyStrategy"}),
    Case("metadata", PEOPLE, {"document.id.strategy": f"{IDS}.KafkaMetaDataStrategy"}),
    Case("partialkey", PEOPLE, {
        "document.id.strategy": f"{IDS}.PartialKeyStrategy",
        "document.id.strategy.partial.key.projection.type": "AllowList",
        "document.id.strategy.partial.key.projection.list": "zip"}),
    Case("partialvalue", PEOPLE, {
        "document.id.strategy": f"{IDS}.PartialValueStrategy",
        "document.id.strategy.partial.value.projection.type": "BlockList",
        "document.id.strategy.partial.value.projection.list": "n,x,l"}),
    Case("business", PEOPLE, {
        "document.id.strategy": f"{IDS}.PartialValueStrategy",
        "document.id.strategy.partial.value.projection.type": "AllowList",
        "document.id.strategy.partial.value.projection.list": "x.a",
        "writemodel.strategy": f"{WRITES}.ReplaceOneBusinessKeyStrategy"}, ids=False),
    Case("update", PEOPLE, {
        "document.id.strategy": f"{IDS}.FullKeyStrategy",
        "writemodel.strategy": f"{WRITES}.UpdateOneDefaultStrategy"}),
    Case("tombstones", [*PEOPLE, ({"id": 2, "zip": "8020"}, None)], {
        "document.id.strategy": f"{IDS}.FullKeyStrategy", "delete.on.null.values": "true"}),
    Case("allow", PEOPLE, {
        "post.processor.chain": f"{STEPS}.AllowListValueProjector,{STEPS}.DocumentIdAdder",
        "value.projection.type": "AllowList", "value.projection.list": "name,x.*,l.z",
        "document.id.strategy": f"{IDS}.KafkaMetaDataStrategy"}),
    Case("block", PEOPLE, {
        "post.processor.chain": f"{STEPS}.BlockListValueProjector,{STEPS}.DocumentIdAdder",
        "value.projection.type": "BlockList", "value.projection.list": "x.a,l.z,na*",
        "document.id.strategy": f"{IDS}.KafkaMetaDataStrategy"}),
    Case("rename", PEOPLE, {
        "post.processor.chain": f"{STEPS}.DocumentIdAdder,{STEPS}.field.renaming.RenameByMapping,"
        f"{STEPS}.field.renaming.RenameByRegExp,{STEPS}.KafkaMetaAdder,"
        f"{STEPS}.NullFieldValueRemover",
        "field.renamer.mapping": '[{"oldName":"value.name","newName":"n"},'
        '{"oldName":"value.x","newName":"y"}]',
        "field.renamer.regexp":
            '[{"regexp":"^value\\\\.y\\\\..*$","pattern":"^(.)$","replace":"_$1$1"}]',
        "document.id.strategy": f"{IDS}.KafkaMetaDataStrategy"}),
    Case("namespaces", [(None, {"_id": 1, "where": {"c": "special"}}), (None, {"_id": 2})], {
        "namespace.mapper": f"{KAFKA}.namespace.mapping.FieldPathNamespaceMapper",
        "namespace.mapper.value.collection.field": "where.c"}),
    Case("texts", [
        (None, '{"_id": 1, "n": 5, "big": 5000000000, "d": {"$date": "2020-01-01T00:00:00Z"}}'),
        (None, "{_id: 2, o: ObjectId('65a000000000000000000001'), l: NumberLong(5), r: /a/i}"),
        (None, '{"_id": {"$oid": "65a000000000000000000001"}, "x": {"$numberDecimal": "1.50"}}'),
    ], converters=TEXTS),
    Case("bson", [(None, bson.encode({"_id": 1, "n": bson.Int64(5), "b": b"x"}))],
         converters={**TEXTS, "value.converter": BYTES}),
    Case("types", [
        ("k", {"schema": ALL_TYPES, "payload": FILLED}),
        ("l", {"schema": ALL_TYPES, "payload": dict.fromkeys(FILLED)}),
    ], {"document.id.strategy": f"{IDS}.KafkaMetaDataStrategy"}, WITH_SCHEMA),
    Case("rdbms", [
        ({"id": 1}, {"op": "c", "before": None, "after": {"id": 1, "a": "x"}}),
        ({"id": 2}, {"op": "r", "before": None, "after": {"id": 2, "a": None}}),
        ({"id": 1}, {"op": "u", "before": {"id": 1}, "after": {"id": 1, "a": "y"}}),
        ({"id": 2}, {"op": "d", "before": {"id": 2, "a": None}, "after": None}),
        ({"id": 2}, None),
    ], {"change.data.capture.handler": f"{CDC}.debezium.rdbms.postgres.PostgresHandler"}),
    Case("debezium", [
        ({"id": "1"}, {"op": "c", "after": '{"_id": 1, "n": {"$numberLong": "5"}}'}),
        ({"id": '"a"'}, {"op": "r", "after": '{"_id": "a"}'}),
        ({"id": "1"}, {"op": "u", "after": '{"_id": 1, "n": {"$numberLong": "6"}}'}),
        ({"id": '"a"'}, {"op": "d"}),
        ({"id": '"a"'}, None),
    ], {"change.data.capture.handler": f"{CDC}.debezium.mongodb.ChangeStreamHandler"}),
    Case("changes", [
        (None, {"operationType": "insert", "documentKey": {"_id": 1}, "fullDocument": {"_id": 1}}),
        (None, {"operationType": "update", "documentKey": {"_id": 1},
                "updateDescription": {"updatedFields": {"a": 2}, "removedFields": ["b"]}}),
        (None, {"operationType": "insert", "documentKey": {"_id": 2}, "fullDocument": {"_id": 2}}),
        (None, {"operationType": "delete", "documentKey": {"_id": 2}}),
        (None, {"operationType": "rename"}),
    ], {"change.data.capture.handler": f"{CDC}.mongodb.ChangeStreamHandler"}),
    Case("tolerant", [(None, "{nonsense"), (None, '{"_id": 1}'), (None, '{"_id": 2}')],
         {"mongo.errors.tolerance": "all"}, TEXTS),
)  # fmt: skip


def encoded(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def load(worker: WorkerProcess, name: str, config: Mapping[str, str]) -> None:
    answer = worker.request("PUT", f"/connectors/{name}/config", dict(config))
    assert answer.status_code in (200, 201), answer.text


def contents(client: MongoClient[Any], database: str, case: Case) -> dict[str, list[str]]:
    """The documents of a database by collection: canonical JSON with sorted members."""
    found = client.get_database(database, codec_options=OPTIONS)
    return {
        name: sorted(
            json_util.dumps(_sorted(each, case.ids), json_options=CANONICAL)
            for each in found[name].find()
        )
        for name in sorted(found.list_collection_names())
    }


def _sorted(document: dict[str, Any], ids: bool) -> dict[str, Any]:
    """Sorted members: there, a schemaless map has Java's order. That of an `_id` counts."""
    return {name: document[name] for name in sorted(document) if ids or name != "_id"}


@pytest.fixture(scope="module")
def outcomes(
    broker: Broker, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, dict[str, dict[str, list[str]]]]]:
    folder = tmp_path_factory.mktemp("mongodb")
    theirs = reference_worker(
        folder,
        worker_settings(broker.bootstrap, "mongo-reference"),
        options=SMALL,
        families=["mongo-kafka"],
    )
    ours = WorkerProcess(folder, worker_settings(broker.bootstrap, "mongo-penstock"), name="ours")
    for case in CASES:
        topics.create(f"parity-{case.name}")
        for key, value in case.rows:
            topics.append(f"parity-{case.name}", [encoded(value)], key=encoded(key))
    with (
        MongoServer() as server,
        theirs,
        ours,
        MongoClient[dict[str, Any]](server.uri) as client,
    ):
        for worker in (theirs, ours):
            worker.await_rest(START_S)
        runtimes = {"theirs": theirs, "ours": ours}

        def create(place: tuple[str, Case]) -> None:
            who, case = place
            config = {
                "connector.class": SINK,
                "tasks.max": "1",
                "topics": f"parity-{case.name}",
                "connection.uri": server.uri,
                "database": f"{who}-{case.name}",
                "collection": "c",
                **case.converters,
                **case.config,
            }
            load(runtimes[who], f"{who}-{case.name}", config)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(create, [(who, case) for who in runtimes for case in CASES]))

        def done() -> bool:
            return all(
                sum(topics.committed(f"connect-{who}-{case.name}", f"parity-{case.name}").values())
                == len(case.rows)
                for who in runtimes
                for case in CASES
            )

        with contextlib.suppress(TimeoutError):  # the comparison shows which
            wait_until(done, WAIT_S, "both to commit everything")
        yield {
            who: {case.name: contents(client, f"{who}-{case.name}", case) for case in CASES}
            for who in runtimes
        }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_store_has_the_same(
    outcomes: dict[str, dict[str, dict[str, list[str]]]], case: Case
) -> None:
    assert outcomes["ours"][case.name] == outcomes["theirs"][case.name]
    assert any(outcomes["ours"][case.name].values())
