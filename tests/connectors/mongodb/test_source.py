"""The MongoDB source, against the suite's own server of change streams (`wire`): it was not
run against MongoDB."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import bson
import orjson
import pytest
from pymongo import MongoClient

from penstock.api import Polled, Records, SourceOffset
from penstock.api.schema import BYTES, OPTIONAL_BYTES, STRING, Type, check
from penstock.connectors.mongodb.client.errors import MongoRefused, MongoUnavailable
from penstock.connectors.mongodb.read.events import EventRefused
from penstock.connectors.mongodb.read.reader import TokenLost
from penstock.connectors.mongodb.source import MongoSource
from penstock.kafka.broker import free_port
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until

pytestmark = pytest.mark.slow(135)

NUMBERS = count()
Client = MongoClient[dict[str, Any]]


class WireServer:
    """`wire` in its own process."""

    def __init__(self) -> None:
        self.port = free_port()
        self.uri = f"mongodb://127.0.0.1:{self.port}/?replicaSet=rs"
        self.start()

    def start(self) -> None:
        program = Path(__file__).with_name("wire.py")
        self.process = subprocess.Popen([sys.executable, str(program), str(self.port)])

        def answers() -> bool:
            assert self.process.poll() is None
            with MongoClient[dict[str, Any]](self.uri, serverSelectionTimeoutMS=200) as client:
                try:
                    client.admin.command("ping")
                except Exception:
                    return False
                return True

        wait_until(answers, 30, "its server")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    server = WireServer()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def client(server: WireServer) -> Iterator[Client]:
    client: Client = MongoClient(server.uri, tz_aware=True)
    yield client
    client.close()


def settings(uri: str, **changes: str) -> dict[str, str]:
    return {
        "name": "source",
        "connection.uri": uri,
        "database": f"db{next(NUMBERS)}",
        "collection": "c",
        "startup.mode": "timestamp",
        "startup.mode.timestamp.start.at.operation.time": "0",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


class Reading:
    """A reader, and what it has read."""

    def __init__(self, given: dict[str, str], stored: list[SourceOffset] | None = None) -> None:
        self.context = SourceContextStub(stored or [])
        config = MongoSource.plugin.config.parse(given)
        self.reader = MongoSource().open(config, self.context)
        self.offsets: list[SourceOffset] = []

    def poll(self) -> Polled | None:
        polled = self.reader.poll(1 << 20, 300)
        if polled is not None:
            self.offsets += polled.offsets
        return polled

    def records(self) -> list[Records]:
        """All records."""
        found = []
        while (polled := self.poll()) is not None:
            found += [polled.records]
            for part in polled.parts:
                found += self.reader.read(part)
        return [each for each in found if len(each)]

    def values(self) -> list[Any]:
        return [value for each in self.records() for value in each.values.values]

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *error: object) -> None:
        self.reader.close()


class TestMongoSource(SourceConformance):
    resumes_within_polls = True
    connector = MongoSource
    wait_ms = 300
    bad_configs = (
        ({"connection.uri": "localhost"}, "connection.uri"),
        ({"database": None}, "collection needs database"),
        ({"pipeline": "{"}, "pipeline"),
        ({"output.format.value": "xml"}, "output.format.value"),
        ({"output.schema.value": "{}"}, "output.schema.value"),
        ({"output.json.formatter": "com.example.Mine"}, "output.json.formatter"),
        ({"startup.mode": "yesterday"}, "startup.mode"),
        ({"startup.mode.timestamp.start.at.operation.time": "soon"}, "start.at.operation.time"),
        ({"startup.mode.copy.existing.namespace.regex": "("}, "namespace.regex"),
        ({"topic.namespace.map": '{"a/b": "c"}'}, "topic.namespace.map"),
        ({"topic.namespace.map": '{"/a": "{nope}"}'}, "topic.namespace.map"),
        ({"change.stream.full.document": "some"}, "change.stream.full.document"),
    )

    @pytest.fixture(autouse=True)
    def _server(self, server: WireServer, client: Client) -> None:
        self.client = client
        self.given = settings(server.uri)

    def config(self) -> dict[str, str]:
        return self.given

    def add(self, numbers: range) -> None:
        rows = [{"_id": number, "text": f"row {number}"} for number in numbers]
        if rows:
            self.client[self.given["database"]]["c"].insert_many(rows)


def test_events_are_json_with_the_documents_key(server: WireServer, client: Client) -> None:
    given = settings(server.uri)
    collection = client[given["database"]]["c"]
    collection.insert_one({"_id": 1, "a": "x"})
    collection.update_one({"_id": 1}, {"$set": {"a": "y"}, "$unset": {"b": ""}})
    collection.delete_one({"_id": 1})
    with Reading(given) as reading:
        (records,) = reading.records()
    assert records.topics == [f"{given['database']}.c"] * 3
    assert records.keys.values == ['{"_id": 1}'] * 3
    assert records.keys.schemas() == [STRING] * 3
    insert, update, delete = map(orjson.loads, records.values.values)
    assert insert["operationType"] == "insert"
    assert insert["fullDocument"] == {"_id": 1, "a": "x"}
    assert insert["clusterTime"].keys() == {"$timestamp"}
    assert update["updateDescription"]["updatedFields"] == {"a": "y"}
    assert "fullDocument" not in delete
    (offset,) = reading.offsets
    assert offset.partition == {"ns": f"mongodb://127.0.0.1:{server.port}/{given['database']}.c"}
    assert offset.offset is not None
    assert offset.offset.keys() == {"_id"}
    assert orjson.loads(str(offset.offset["_id"])) == delete["_id"]


def test_documents_alone_and_tombstones(server: WireServer, client: Client) -> None:
    given = settings(
        server.uri,
        publish_full_document_only="true",
        publish_full_document_only_tombstone_on_delete="true",
    )
    collection = client[given["database"]]["c"]
    collection.insert_one({"_id": 1, "a": 1})
    collection.update_one({"_id": 1}, {"$set": {"a": 2}})
    with Reading(given) as reading:
        assert [orjson.loads(each)["a"] for each in reading.values()] == [1, 2]
        collection.delete_one({"_id": 1})
        (records,) = reading.records()
    assert records.values.values == [None]
    assert records.keys.values == ['{"_id": 1}']
    with Reading({**given, "publish.full.document.only.tombstone.on.delete": "false"}) as reading:
        assert None not in reading.values()
        assert reading.offsets


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("DefaultJson", '{"_id": 1, "n": {"$numberLong": "5"}}'),
        ("ExtendedJson", '{"_id": {"$numberInt": "1"}, "n": {"$numberLong": "5"}}'),
        ("SimplifiedJson", '{"_id": 1, "n": 5}'),
    ],
)
def test_formatters(server: WireServer, client: Client, mode: str, expected: str) -> None:
    name = f"com.mongodb.kafka.connect.source.json.formatter.{mode}"
    given = settings(server.uri, publish_full_document_only="true", output_json_formatter=name)
    client[given["database"]]["c"].insert_one({"_id": 1, "n": bson.Int64(5)})
    with Reading(given) as reading:
        assert reading.values() == [expected]


def test_bson_structs_and_inferred_structs(server: WireServer, client: Client) -> None:
    given = settings(server.uri)
    document = {"_id": "x", "n": bson.Int64(5), "list": [1, None], "sub": {"b": True, "a": 1.5}}
    client[given["database"]]["c"].insert_one(document)
    only = {**given, "publish.full.document.only": "true"}
    with Reading({**only, "output.format.value": "bson", "output.format.key": "bson"}) as reading:
        (records,) = reading.records()
    assert records.values.schemas() == [BYTES]
    assert bson.decode(records.values.values[0]) == document
    assert bson.decode(records.keys.values[0]) == {"_id": "x"}
    with Reading({**given, "output.format.value": "schema", "output.format.key": "schema"}) as more:
        (records,) = more.records()
    (schema,), (value,) = records.values.schemas(), records.values.values
    assert schema is not None
    check(schema, value)
    assert (schema.name, value["operationType"]) == ("ChangeStream", "insert")
    assert orjson.loads(value["fullDocument"])["_id"] == "x"
    assert value["ns"] == {"db": given["database"], "coll": "c"}
    assert records.keys.values[0].keys() == {"_id"}
    inferring = {**only, "output.format.value": "schema", "output.schema.infer.value": "true"}
    with Reading(inferring) as last:
        (records,) = last.records()
    (schema,), (value,) = records.values.schemas(), records.values.values
    assert schema is not None
    check(schema, value)
    assert [each.name for each in schema.fields] == ["_id", "list", "n", "sub"]
    assert [each.schema.type for each in schema.fields] == [
        Type.STRING, Type.ARRAY, Type.INT64, Type.STRUCT,
    ]  # fmt: skip
    assert value == document


def test_databases_and_whole_deployments(server: WireServer, client: Client) -> None:
    given = settings(server.uri, collection="", topic_prefix="p", topic_suffix="s")
    given["topic.namespace.map"] = f'{{"{given["database"]}.b": "special"}}'
    database = client[given["database"]]
    database["a"].insert_one({"_id": 1})
    database["b"].insert_one({"_id": 2})
    with Reading(given) as reading:
        topics = [topic for each in reading.records() for topic in each.topics]
    assert topics == [f"p.{given['database']}.a.s", "p.special.s"]
    ns = orjson.dumps({"db": given["database"], "coll": "a"}).decode()
    whole = {**given, "database": "", "pipeline": f'[{{"$match": {{"ns": {ns}}}}}]'}
    with Reading(whole) as reading:
        assert len(reading.values()) == 1
    assert reading.offsets[0].partition == {"ns": f"mongodb://127.0.0.1:{server.port}/"}


def test_existing_documents_are_copied_and_then_changes_are_read(
    server: WireServer, client: Client
) -> None:
    given = settings(
        server.uri,
        collection="",
        startup_mode="copy_existing",
        startup_mode_copy_existing_namespace_regex=r"\.(a|b)$",
        startup_mode_copy_existing_pipeline='[{"$match": {"open": true}}]',
    )
    database = client[given["database"]]
    for name, number in itertools.product("abc", range(3)):
        database[name].insert_one({"_id": number, "open": number > 0})
    with Reading(given) as reading:
        copied = [orjson.loads(each) for each in reading.values()]
        assert sorted((each["ns"]["coll"], each["documentKey"]["_id"]) for each in copied) == [
            ("a", 1), ("a", 2), ("b", 1), ("b", 2),
        ]  # fmt: skip
        assert copied[0]["_id"] == {"_id": 1, "copyingData": True}
        database["a"].insert_one({"_id": 9})
        (event,) = reading.values()
        assert orjson.loads(event)["documentKey"] == {"_id": 9}
    with Reading(given, reading.offsets) as again:
        assert again.values() == []
    unfinished = [SourceOffset(reading.offsets[0].partition, {"_id": "{}", "copy": "true"})]
    with Reading(
        {**given, "pipeline": '[{$match: {operationType: "insert"}}]'}, unfinished
    ) as anew:
        assert len(anew.values()) == 4


def test_newer_events_only(server: WireServer, client: Client) -> None:
    given = settings(server.uri, startup_mode="latest")
    client[given["database"]]["c"].insert_one({"_id": 1})
    with Reading(given) as reading:
        assert reading.poll() is None
        client[given["database"]]["c"].insert_one({"_id": 2})
        assert len(reading.values()) == 1


def test_a_token_that_is_lost_fails_or_begins_again(server: WireServer, client: Client) -> None:
    given = settings(server.uri)
    collection = client[given["database"]]["c"]
    collection.insert_one({"_id": 1})
    with Reading(given) as reading:
        assert len(reading.values()) == 1
    collection.insert_one({"_id": 2})
    client.admin.command({"penstockTest": 1, "forget": True})
    lost = pytest.raises(TokenLost, match=r"offset\.partition\.name")
    with Reading(given, reading.offsets) as failing, lost:
        failing.poll()
    tolerant = {**given, "mongo.errors.tolerance": "all", "startup.mode": "latest"}
    with Reading(tolerant, reading.offsets) as anew:
        assert anew.values() == []
        collection.insert_one({"_id": 3})
        (event,) = anew.values()
        assert orjson.loads(event)["documentKey"] == {"_id": 3}
    with Reading({**given, "offset.partition.name": "other"}, reading.offsets) as named:
        assert len(named.values()) == 3


def test_a_stream_that_a_drop_ends_continues_after_it(server: WireServer, client: Client) -> None:
    given = settings(server.uri)
    database = client[given["database"]]
    database["c"].insert_one({"_id": 1})
    with Reading(given) as reading:
        assert len(reading.values()) == 1
        database.drop_collection("c")
        database["c"].insert_one({"_id": 2})
        kinds = [orjson.loads(each)["operationType"] for each in reading.values()]
        kinds += [orjson.loads(each)["operationType"] for each in reading.values()]
    assert kinds == ["drop", "invalidate", "insert"]


def test_heartbeats_store_tokens_where_nothing_happens(server: WireServer, client: Client) -> None:
    given = settings(server.uri, heartbeat_interval_ms="1", startup_mode="latest")
    with Reading(given) as reading:
        reading.poll()
        client["elsewhere"]["c"].insert_one({"x": 1})
        wait_until(lambda: len(reading.offsets) > 1 or bool(reading.poll() and False), 10, "a beat")
        client["elsewhere"]["c"].insert_one({"x": 1})
        polled = None
        for _ in range(10):
            polled = polled or reading.poll()
        assert polled is not None
    assert polled.records.topics == ["__mongodb_heartbeats"]
    assert polled.records.values.schemas() == [OPTIONAL_BYTES]
    (offset,) = polled.offsets
    assert offset.offset is not None
    assert offset.offset == {"_id": polled.records.keys.values[0], "HEARTBEAT": "true"}


def test_events_that_do_not_fit_a_schema(server: WireServer, client: Client) -> None:
    schema = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}'
    given = settings(
        server.uri,
        publish_full_document_only="true",
        output_format_value="schema",
        output_schema_value=schema,
    )
    client[given["database"]]["c"].insert_many([{"_id": 1, "n": 1}, {"_id": 2}, {"_id": 3, "n": 3}])
    with Reading(given) as reading:
        first = reading.poll()
        assert first is not None, "the event before the refused one"
        assert first.records.values.values == [{"n": 1}]
        assert reading.context.commit_requests == 1, "its offset is stored before the task fails"
        with pytest.raises(EventRefused, match="Missing field 'n'"):
            reading.poll()
    again = Reading(given, reading.offsets)
    with again, pytest.raises(EventRefused, match="Missing field 'n'"):
        again.poll()
    tolerant = {**given, "errors.tolerance": "all"}
    with Reading(tolerant) as reading:
        assert reading.values() == [{"n": 1}, {"n": 3}]
    with Reading({**tolerant, "mongo.errors.deadletterqueue.topic.name": "dead"}) as reading:
        (records,) = reading.records()
    assert records.topics[1] == "dead"
    assert (records.keys.values[1], records.values.values[1]) == ('{"_id": 2}', '{"_id": 2}')


def test_errors_of_the_server(server: WireServer, client: Client) -> None:
    given = settings(server.uri)
    with Reading(given) as reading:
        client.admin.command({"penstockTest": 1, "fail": 20, "on": "aggregate"})
        with pytest.raises(MongoRefused, match="replica set"):
            reading.poll()
        client.admin.command({"penstockTest": 1, "fail": 26, "on": "aggregate"})
        assert reading.poll() is None
    with Reading(given) as reading:
        client.admin.command({"penstockTest": 1, "fail": 11600, "on": "aggregate", "times": 5})
        with pytest.raises(MongoUnavailable):
            reading.poll()
    client.admin.command({"penstockTest": 1, "fail": 11600, "on": "aggregate", "times": 0})


def test_a_server_that_restarts(client: Client) -> None:
    server = WireServer()
    given = settings(server.uri + "&serverSelectionTimeoutMS=300")
    with Reading(given) as reading, MongoClient[dict[str, Any]](server.uri) as own:
        own[given["database"]]["c"].insert_one({"_id": 1})
        assert len(reading.values()) == 1
        server.kill()
        with pytest.raises(MongoUnavailable):
            reading.poll()
        server.start()  # it has forgotten everything, tokens are numbers
        own[given["database"]]["c"].insert_many([{"_id": 2}, {"_id": 3}])
        assert [orjson.loads(each)["documentKey"] for each in reading.values()] == [{"_id": 3}]
    server.kill()


def test_answers_that_do_not_come_are_asked_for_again(client: Client, server: WireServer) -> None:
    with Proxy(server.port) as proxy:
        given = settings(
            f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true&socketTimeoutMS=1500"
            "&serverSelectionTimeoutMS=1000"
        )
        collection = client[given["database"]]["c"]
        with Reading(given) as reading:
            collection.insert_one({"_id": 1})
            assert len(reading.values()) == 1
            proxy.hang()
            collection.insert_one({"_id": 2})
            with pytest.raises(MongoUnavailable) as raised:
                reading.poll()
            assert raised.value.retriable
            proxy.restore()
            read: list[Any] = []

            def again() -> bool:
                with contextlib.suppress(MongoUnavailable):
                    read.extend(reading.values())
                return bool(read)

            wait_until(again, 30, "the server")
            assert [orjson.loads(each)["documentKey"] for each in read] == [{"_id": 2}]


def test_validation(server: WireServer) -> None:
    def errors(given: dict[str, str]) -> dict[str, str | None]:
        config = MongoSource.plugin.config.parse(given)
        found = MongoSource().validate_live(config)
        return {each.setting: each.error for each in found if each.error}

    assert errors(settings(server.uri)) == {}
    away = settings(f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=200")
    assert "Unable to connect" in str(errors(away)["connection.uri"])
