"""The MongoDB sink, against mongo-java-server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from time import monotonic
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pymongo import MongoClient

from penstock.api import Column, Failed, Records
from penstock.api import schema as s
from penstock.connectors.mongodb.client.codec import OPTIONS
from penstock.connectors.mongodb.client.errors import MongoRefused, MongoUnavailable
from penstock.connectors.mongodb.sink import MongoSink
from penstock.kafka.broker import free_port
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.waiting import wait_until
from tests.servers.mongodb import FerretServer, MongoServer

from .test_source import WireServer

pytestmark = pytest.mark.slow(140)

NUMBERS = count()
ROW = s.struct({"id": s.INT64, "name": s.OPTIONAL_STRING}, name="row")
IDS = "com.mongodb.kafka.connect.sink.processor.id.strategy"
STRATEGIES = "com.mongodb.kafka.connect.sink.writemodel.strategy"

Client = MongoClient[dict[str, Any]]


@pytest.fixture(scope="module", params=[MongoServer, FerretServer], ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[MongoServer]:
    if request.param is FerretServer and not FerretServer.program().is_file():
        pytest.skip("ferretdb is missing: make tools")
    with request.param() as running:
        yield running


@pytest.fixture(scope="module")
def client(server: MongoServer) -> Iterator[Client]:
    client: Client = MongoClient(server.uri, tz_aware=True)
    yield client
    client.close()


def needs_decimals(server: MongoServer) -> None:
    if isinstance(server, FerretServer):
        pytest.skip("FerretDB has no decimals: it closes a connection that brings one")


def settings(uri: str, **changes: str) -> dict[str, str]:
    return {
        "name": "sink",
        "topics": "conformance",
        "connection.uri": uri,
        "database": f"db{next(NUMBERS)}",
        "collection": "c",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def write(
    records: Records, given: dict[str, str], context: SinkContextStub | None = None
) -> Failed:
    if context is None:
        given = {"errors.tolerance": "all", **given}
        context = SinkContextStub(tolerates_errors=True)
    config = MongoSink.plugin.config.parse(given)
    writer = MongoSink().open(config, context)
    failed: Failed = {}
    try:
        writer.write(records, failed)
        writer.flush()
    finally:
        writer.close()
    return failed


def stored(client: Client, given: dict[str, str]) -> list[dict[str, Any]]:
    return list(client[given["database"]][given["collection"]].find())


class TestMongo(SinkConformance):
    connector = MongoSink
    idempotent = True
    ordered = False
    bad_configs = (
        ({"database": None}, "database"),
        ({"connection.uri": "localhost"}, "connection.uri"),
        ({"max.batch.size": "-1"}, "max.batch.size"),
        ({"delete.on.null.values": "true", "document.id.strategy": f"{IDS}.BsonOidStrategy"},
         "delete.on.null.values"),
    )  # fmt: skip

    @pytest.fixture(autouse=True)
    def _server(
        self, server: MongoServer, client: Client, request: pytest.FixtureRequest
    ) -> Iterator[None]:
        self.client = client
        self.proxy = Proxy(server.port)
        # The proxy is in this process, whose open files are counted.
        away = "unreachable" in request.node.name
        if "fatal" in request.node.name:
            yield from self._wire()
            return
        uri = f"mongodb://127.0.0.1:{self.proxy.port}/?serverSelectionTimeoutMS=2000"
        self.given = settings(
            uri if away else server.uri,
            document_id_strategy=f"{IDS}.ProvidedInKeyStrategy",
            delete_on_null_values="true",
            errors_tolerance="all",
        )
        if not away:
            yield
            return
        with self.proxy:
            yield

    def _wire(self) -> Iterator[None]:
        """Uses the suite's own server, which can withdraw permissions."""
        server = WireServer()
        self.client = MongoClient(server.uri)
        self.given = settings(
            server.uri,
            document_id_strategy=f"{IDS}.ProvidedInKeyStrategy",
            writemodel_strategy=f"{STRATEGIES}.InsertOneDefaultStrategy",
            errors_tolerance="all",
        )
        try:
            yield
        finally:
            self.client.close()
            server.kill()

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        unauthorized = {"fail": 13, "on": "insert", "times": 100}
        self.client.admin.command("penstockTest", **unauthorized)
        try:
            yield
        finally:
            self.client.admin.command("penstockTest", **unauthorized | {"times": 0})

    def unreachable_target(self) -> AbstractContextManager[object]:
        @contextmanager
        def away() -> Iterator[None]:
            self.proxy.cut()
            try:
                yield
            finally:
                self.proxy.restore()

        return away()

    def config(self) -> dict[str, str]:
        return {"errors.tolerance": "all", **self.given}

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        keys = [{"_id": number} for number in numbers]
        key_schema = s.struct({"_id": s.INT64}) if schema else None
        kind = ROW if schema else None
        return records_of(rows, schema=kind, keys=keys, key_schema=key_schema, first=numbers.start)

    def contents(self) -> list[Any]:
        return [
            {"id": each["id"], "name": each["name"]} for each in stored(self.client, self.given)
        ]

    def bad_records(self) -> Records | None:
        return records_of([{"id": 1}, {"id": 2}], keys=[{"other": 1}, {"_id": 1 << 70}])


def test_every_way_to_write_leaves_what_it_says(server: MongoServer, client: Client) -> None:
    replaced = settings(server.uri, document_id_strategy=f"{IDS}.FullKeyStrategy")
    rows = [{"a": 1}, {"a": 2}, {"b": 3}]
    keys = [{"k": 1}, {"k": 2}, {"k": 1}]
    assert write(records_of(rows, keys=keys), replaced) == {}
    assert stored(client, replaced) == [{"_id": {"k": 1}, "b": 3}, {"_id": {"k": 2}, "a": 2}]

    updated = settings(
        server.uri,
        document_id_strategy=f"{IDS}.FullKeyStrategy",
        writemodel_strategy=f"{STRATEGIES}.UpdateOneTimestampsStrategy",
    )
    assert write(records_of(rows, keys=keys), updated) == {}
    (one, two) = stored(client, updated)
    assert (one["a"], one["b"], two["a"]) == (1, 3, 2)
    assert one["_insertedTS"] <= one["_modifiedTS"]

    business = settings(
        server.uri,
        document_id_strategy=f"{IDS}.PartialValueStrategy",
        document_id_strategy_partial_value_projection_type="AllowList",
        document_id_strategy_partial_value_projection_list="n",
        writemodel_strategy=f"{STRATEGIES}.ReplaceOneBusinessKeyStrategy",
    )
    values = [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "x", "v": 3}]
    assert write(records_of(values), business) == {}
    found = stored(client, business)
    assert [(each["n"], each["v"]) for each in found] == [("x", 3), ("y", 2)]
    assert all(isinstance(each["_id"], bson.ObjectId) for each in found)


@pytest.mark.parametrize("ordered", ["true", "false"])
@pytest.mark.parametrize("most", ["0", "2"])
def test_of_writes_with_one_key_the_last_one_counts(
    server: MongoServer, client: Client, ordered: str, most: str
) -> None:
    given = settings(
        server.uri,
        document_id_strategy=f"{IDS}.ProvidedInKeyStrategy",
        delete_on_null_values="true",
        bulk_write_ordered=ordered,
        max_batch_size=most,
    )
    values: list[Any] = [{"v": 1}, {"v": 2}, None, {"v": 4}, {"v": 5}, None]
    keys = [{"_id": each} for each in (1, 2, 1, 3, 1, 2)]
    assert write(records_of(values, keys=keys), given) == {}
    assert {each["_id"]: each["v"] for each in stored(client, given)} == {1: 5, 3: 4}


@pytest.mark.parametrize("ordered", ["true", "false"])
def test_a_refused_write_costs_its_record_alone(
    server: MongoServer, client: Client, ordered: str
) -> None:
    given = settings(
        server.uri,
        writemodel_strategy=f"{STRATEGIES}.InsertOneDefaultStrategy",
        bulk_write_ordered=ordered,
    )
    rows = [{"_id": "a"}, {"_id": "b"}, {"_id": "a"}, {"_id": "c"}, {"_id": "b"}, {"_id": "d"}]
    failed = write(records_of(rows), given)
    assert sorted(failed) == [2, 4]
    assert "code=11000" in str(failed[2])
    assert sorted(each["_id"] for each in stored(client, given)) == ["a", "b", "c", "d"]


def test_a_record_that_bson_cannot_hold_is_rejected(server: MongoServer, client: Client) -> None:
    given = settings(server.uri)
    rows: list[Any] = [
        {"_id": "ok"},
        {"_id": "large", "text": "x" * (17 << 20)},
        {"_id": "wide", "number": 1 << 64},
        {"_id": "nul", "a\0b": 1},
        {"_id": "lone", "text": "\ud800"},
        "no document",
        "[1]",
        None,
        {"_id": "also ok"},
    ]
    failed = write(records_of(rows), given)
    assert sorted(failed) == [1, 2, 3, 4, 5, 6, 7]
    assert "17,8" in str(failed[1])
    assert "16,777,216" in str(failed[1])
    assert sorted(each["_id"] for each in stored(client, given)) == ["also ok", "ok"]


def test_values_may_be_texts_with_json_and_bson(server: MongoServer, client: Client) -> None:
    needs_decimals(server)
    given = settings(server.uri)
    texts = ['{"_id": 1, "n": {"$numberDecimal": "1.5"}}', "{_id: 2, d: ISODate('2020-01-01')}"]
    assert write(records_of(texts, schema=s.STRING), given) == {}
    assert write(records_of([bson.encode({"_id": 3})], schema=s.BYTES), given) == {}
    assert stored(client, given) == [
        {"_id": 1, "n": Decimal128("1.5")},
        {"_id": 2, "d": datetime(2020, 1, 1, tzinfo=UTC)},
        {"_id": 3},
    ]
    assert set(write(records_of([b"\x05"], schema=s.BYTES), given)) == {0}


TYPES: list[tuple[s.Schema, Any, Any, str]] = [
    (s.INT8, -128, -128, "int"),
    (s.INT16, 300, 300, "int"),
    (s.INT32, 70000, 70000, "int"),
    (s.INT64, 5, 5, "long"),
    (s.FLOAT32, s.float32(0.1), s.float32(0.1), "double"),
    (s.FLOAT64, 0.1, 0.1, "double"),
    (s.BOOLEAN, True, True, "bool"),
    (s.STRING, "text é😀", "text é😀", "string"),
    (s.BYTES, b"\x00\x01", b"\x00\x01", "binData"),
    (s.array(s.INT64), [1, 2], [1, 2], "array"),
    (s.map_of(s.STRING, s.INT32), {"a": 1}, {"a": 1}, "object"),
    (s.decimal(2), Decimal("1.10"), Decimal128("1.10"), "decimal"),
    (s.DATE, date(2026, 1, 31), datetime(2026, 1, 31, tzinfo=UTC), "date"),
    (s.TIME, time(12, 30, 0, 5000), datetime(1970, 1, 1, 12, 30, 0, 5000, tzinfo=UTC), "date"),
    (s.TIMESTAMP, datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 1, 31, 12, tzinfo=UTC),
     "date"),
    (s.OPTIONAL_STRING, None, None, "null"),
    (s.struct({"x": s.decimal(0), "y": s.array(s.DATE)}),
     {"x": Decimal(5), "y": [date(1970, 1, 2)]},
     {"x": Decimal128("5"), "y": [datetime(1970, 1, 2, tzinfo=UTC)]}, "object"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "expected", "kind"), TYPES)
def test_types(
    server: MongoServer, client: Client, schema: s.Schema, value: Any, expected: Any, kind: str
) -> None:
    if "Decimal128" in repr(expected):
        needs_decimals(server)
    given = settings(server.uri)
    record = s.struct({"_id": s.INT32, "v": schema})
    assert write(records_of([{"_id": 1, "v": value}], schema=record), given) == {}
    assert stored(client, given) == [{"_id": 1, "v": expected}]
    collection = client[given["database"]][given["collection"]]
    if kind != "array":  # of an array it would be the type of its elements
        assert collection.count_documents({"v": {"$type": kind}}) == 1


NUMERIC = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20),
                      max_value=10**20)  # fmt: skip
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))
MOMENTS = st.datetimes(timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
WIDE = s.struct(
    {
        "_id": s.INT64,
        "number": s.OPTIONAL_INT64,
        "small": s.OPTIONAL_INT32,
        "real": s.OPTIONAL_FLOAT64,
        "text": s.OPTIONAL_STRING,
        "data": s.OPTIONAL_BYTES,
        "day": s.DATE.as_optional(),
        "at": s.TIMESTAMP.as_optional(),
        "price": s.decimal(3).as_optional(),
        "list": s.array(s.STRING, optional=True),
        "map": s.map_of(s.STRING, s.INT64, optional=True),
    }
)
ROWS = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "small": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        "real": st.none() | st.floats(allow_nan=False),
        "text": st.none() | TEXTS,
        "data": st.none() | st.binary(max_size=20),
        "day": st.none() | DAYS,
        "at": st.none() | MOMENTS,
        "price": st.none() | NUMERIC,
        "list": st.none() | st.lists(TEXTS, max_size=3),
        "map": st.none()
        | st.dictionaries(
            st.text("abc", min_size=1, max_size=3), st.integers(-(1 << 63), (1 << 63) - 1)
        ),
    }
)


@given(st.lists(ROWS, min_size=1, max_size=20))
@examples(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_written_records_are_in_the_collection(
    server: MongoServer, client: Client, rows: list[dict[str, Any]]
) -> None:
    needs_decimals(server)
    given = settings(server.uri)
    values = [{"_id": number, **row} for number, row in enumerate(rows)]
    assert write(records_of(values, schema=WIDE), given) == {}
    collection = client[given["database"]][given["collection"]].with_options(codec_options=OPTIONS)
    for value, document in zip(values, collection.find().sort("_id"), strict=True):
        back = dict(document)
        if back["price"] is not None:
            back["price"] = back["price"].to_decimal()
        if back["day"] is not None:
            back["day"] = back["day"].date()
        assert back == value
        assert all(
            isinstance(back[name], Int64) for name in ("_id", "number") if back[name] is not None
        )
    client.drop_database(given["database"])


def test_a_server_that_is_unreachable_is_waited_for_and_gets_the_same_ids() -> None:
    server = MongoServer()
    given = settings(server.uri + "?serverSelectionTimeoutMS=200")
    config = MongoSink.plugin.config.parse(given)
    writer = MongoSink().open(config, SinkContextStub())
    records = records_of([{"n": number} for number in range(10)])
    try:
        for _ in range(2):
            with pytest.raises(MongoUnavailable) as raised:
                writer.write(records, {})
            assert raised.value.retriable
        server.start()
        failed: Failed = {}
        writer.write(records, failed)
        assert failed == {}
        with MongoClient[dict[str, Any]](server.uri) as client:
            assert [each["n"] for each in stored(client, given)] == list(range(10))
    finally:
        writer.close()
        server.close()


def test_answers_that_do_not_come_are_waited_for_no_longer_than_configured(
    server: MongoServer, client: Client
) -> None:
    with Proxy(server.port) as proxy:
        given = settings(
            f"mongodb://127.0.0.1:{proxy.port}/?socketTimeoutMS=300&serverSelectionTimeoutMS=1000"
        )
        writer = MongoSink().open(MongoSink.plugin.config.parse(given), SinkContextStub())
        first = records_of([{"n": number} for number in range(10)])
        rest = records_of([{"n": number} for number in range(10, 20)], first=10)
        failed: Failed = {}
        try:
            writer.write(first, failed)
            proxy.hang()
            began = monotonic()
            with pytest.raises(MongoUnavailable) as raised:
                writer.write(rest, failed)
            assert raised.value.retriable
            assert monotonic() - began < 10
            proxy.restore()
            wait_until(lambda: len(stored(client, given)) == 20, 30, "the write that was held up")

            def written() -> bool:
                try:
                    writer.write(rest, failed)
                except MongoUnavailable:
                    return False
                return True

            wait_until(written, 30, "the server")
        finally:
            writer.close()
    assert failed == {}
    assert [each["n"] for each in stored(client, given)] == list(range(20))


def test_inserts_whose_answer_is_lost_are_not_done_twice(
    server: MongoServer, client: Client
) -> None:
    given = settings(server.uri, writemodel_strategy=f"{STRATEGIES}.InsertOneDefaultStrategy")
    config = MongoSink.plugin.config.parse(given)
    writer: Any = MongoSink().open(config, SinkContextStub())
    records = records_of([{"n": number} for number in range(10)])
    real = writer._do

    def lose(jobs: Any, refused: Any) -> None:
        job = jobs[0]
        real([job], refused)
        job.repeated = True
        raise MongoUnavailable("the answer is lost")

    writer._do = lose
    with pytest.raises(MongoUnavailable):
        writer.write(records, {})
    writer._do = real
    failed: Failed = {}
    writer.write(records, failed)
    writer.close()
    assert failed == {}
    assert [each["n"] for each in stored(client, given)] == list(range(10))


@pytest.mark.parametrize(
    ("given", "tolerates", "outcome"),
    [
        ({}, False, "failed"),
        ({"errors.tolerance": "all"}, True, "failed"),
        ({"errors.tolerance": "all", "mongo.errors.tolerance": "none"}, True, "raised"),
        ({"mongo.errors.tolerance": "all"}, False, "skipped"),
        ({"mongo.errors.tolerance": "data"}, False, "skipped"),
        ({"mongo.errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}, False,
         "failed"),
    ],
)  # fmt: skip
def test_who_decides_on_a_refused_record(
    server: MongoServer, client: Client, given: dict[str, str], tolerates: bool, outcome: str
) -> None:
    whole = {**settings(server.uri), **given}
    records = records_of([{"_id": 1}, "no document", {"_id": 2}])
    context = SinkContextStub(tolerates_errors=tolerates)
    if outcome == "raised":
        config = MongoSink.plugin.config.parse(whole)
        with closing(MongoSink().open(config, context)) as writer:
            for call in (
                lambda: writer.write(records, {}),
                writer.flush,
                lambda: writer.pre_commit({}),
            ):
                with pytest.raises(MongoRefused, match=r"mongo\.errors\.tolerance=none"):
                    call()
        return
    assert set(write(records, whole, context)) == ({1} if outcome == "failed" else set())
    # If the task fails, the batch is written again.
    written = [] if not tolerates and "mongo.errors.tolerance" not in given else [1, 2]
    assert [each["_id"] for each in stored(client, whole)] == written


def test_a_task_that_a_refused_record_fails_writes_nothing_after_it(
    server: MongoServer, client: Client
) -> None:
    given = settings(
        server.uri,
        writemodel_strategy=f"{STRATEGIES}.InsertOneDefaultStrategy",
        max_batch_size="2",
    )
    rows = [{"_id": "a"}, {"_id": "a"}, {"_id": "c"}, {"_id": "d"}]
    failed = write(records_of(rows), given, SinkContextStub())
    assert list(failed) == [1]
    assert [each["_id"] for each in stored(client, given)] == ["a"]


def findings(given: dict[str, str]) -> dict[str, str]:
    config = MongoSink.plugin.config.parse(given)
    return {
        each.setting: each.error
        for each in MongoSink().validate_live(config)
        if each.error is not None
    }


def test_validation_looks_at_the_server(server: MongoServer, client: Client) -> None:
    assert findings(settings(server.uri)) == {}
    away = f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=300"
    assert "Unable to connect" in findings(settings(away))["connection.uri"]
    unknown = "mongodb://u:secret@no-such-host.invalid/?serverSelectionTimeoutMS=300"
    reported = findings(settings(unknown))["connection.uri"]
    assert "no-such-host.invalid" in reported
    assert "secret" not in reported
    login = f"mongodb://u:secret@127.0.0.1:{server.port}/"
    assert "The server refused the user" in findings(settings(login))["connection.uri"]
    missing = settings(f"{server.uri}?tls=true", connection_ssl_truststore="/no/such/file")
    assert "cannot be read" in findings(missing)["connection.ssl.truststore"]
    assert findings({**missing, "connection.uri": server.uri}) == {}  # as MongoDB's: no effect


def test_a_preview_tells_every_write() -> None:
    given = settings("mongodb://127.0.0.1:1/", document_id_strategy="ProvidedInValueStrategy")
    config = MongoSink.plugin.config.parse(given)
    lines: list[str] = []
    writer = MongoSink().open_preview(config, SinkContextStub(), lines.append)
    failed: Failed = {}
    writer.write(records_of([{"_id": "a", "n": 1}, {"n": 2}]), failed)
    assert set(failed) == {1}
    (line,) = lines
    head, _, rest = line.partition(" {")
    assert head == f"replace {given['database']}.c"
    assert json.loads(rest.partition("} ")[2]) == {"_id": "a", "n": 1}


def test_records_of_several_schemas_and_columns(server: MongoServer, client: Client) -> None:
    given = settings(server.uri)
    older, newer = s.struct({"_id": s.INT64}), s.struct({"_id": s.INT64, "b": s.OPTIONAL_STRING})
    records = records_of([{"_id": 1}, {"_id": 2, "b": "x"}, {"_id": 3}])
    records = records.with_values(Column.gather(records.values.values, [older, newer, None]))
    assert write(records, given) == {}
    assert stored(client, given) == [{"_id": 1}, {"_id": 2, "b": "x"}, {"_id": 3}]
