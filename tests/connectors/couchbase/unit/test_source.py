"""The source, over a double of the SDK's cluster."""

from __future__ import annotations

from typing import Any

import pytest
from couchbase.constants import FMT_JSON
from couchbase.exceptions import AuthenticationException

from penstock.api import ConfigInvalid, PenstockError, Polled, SourceOffset
from penstock.api import schema as s
from penstock.connectors.couchbase.client.errors import CouchbaseRefused, CouchbaseUnavailable
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.sdk import SdkStore
from penstock.connectors.couchbase.read.events import DCP_MESSAGE, vbucket
from penstock.connectors.couchbase.read.offsets import Position
from penstock.connectors.couchbase.read.statements import newest, page
from penstock.connectors.couchbase.settings.source import source_plan
from penstock.connectors.couchbase.source import CouchbaseSource
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub

from .sdk_double import FakeCluster, Server

PLACE = ("shop", "sales", "orders")
HANDLERS = "com.couchbase.connect.kafka.handler.source."
RAW = HANDLERS + "RawJsonSourceHandler"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server(places={PLACE})
    monkeypatch.setattr(SdkStore, "connected", lambda *given: SdkStore(FakeCluster(server)))
    return server


def settings(**changes: str) -> dict[str, str]:
    given = {
        "name": "source",
        "couchbase.seed.nodes": "a.example.org",
        "couchbase.username": "u",
        "couchbase.password": "p",
        "couchbase.bucket": "shop",
        "couchbase.source.handler": RAW,
        "couchbase.collections": "sales.orders",
        "penstock.couchbase.poll.interval.ms": "1",
    }
    return given | {f"couchbase.{name.replace('_', '.')}": value for name, value in changes.items()}


def reading(given: dict[str, str], *stored: SourceOffset) -> Any:
    config = CouchbaseSource.plugin.config.parse(given)
    return CouchbaseSource().open(config, SourceContextStub(stored))


def polled(given: dict[str, str], *stored: SourceOffset) -> Polled:
    reader = reading(given, *stored)
    try:
        found = reader.poll(1 << 20, 0)
        assert found is not None
        return found
    finally:
        reader.close()


class _Conformance(SourceConformance):
    resumes_within_polls = True
    connector = CouchbaseSource
    bad_configs = (
        ({"couchbase.bucket": None}, "couchbase.bucket"),
        ({"couchbase.source.handler": None}, "couchbase.source.handler"),
        ({"couchbase.source.handler": HANDLERS + "SchemaRegistrySourceHandler"}, "not supported"),
        ({"couchbase.event.filter": "org.example.Mine"}, "JVM classes"),
        ({"couchbase.xattrs": "true"}, "couchbase.xattrs"),
        ({"couchbase.jsonpath.filter": "$.a"}, "couchbase.jsonpath.filter"),
        ({"couchbase.headers": "seqno"}, "couchbase.headers"),
        ({"couchbase.stream.from": "SOME"}, "couchbase.stream.from"),
        ({"couchbase.collections": "orders"}, "couchbase.collections"),
        ({"couchbase.value.schema": '"int"'}, "couchbase.value.schema"),
    )

    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.server = server

    def config(self) -> dict[str, str]:
        given = settings()
        del given["name"]
        return given

    def add(self, numbers: range) -> None:
        for number in numbers:
            self.server.put(PLACE, f"order-{number}", {"n": number, "seq": number})


class TestByCas(_Conformance):
    pass


class TestByField(_Conformance):
    def config(self) -> dict[str, str]:
        return {**super().config(), "penstock.couchbase.sequence.field": "seq"}


class TestWithSchema(_Conformance):
    def config(self) -> dict[str, str]:
        return {
            **super().config(),
            "couchbase.source.handler": HANDLERS + "DefaultSchemaSourceHandler",
        }


class TestAllCollections(_Conformance):
    def config(self) -> dict[str, str]:
        given = super().config()
        del given["couchbase.collections"]
        return given


def test_raw_records_are_documents(server: Server) -> None:
    server.put(PLACE, "a", {"n": 1.5, "t": "ü"})
    found = polled(settings(headers="bucket,qualifiedKey,cas,partition"))
    records = found.records
    assert records.topics == ["shop.sales.orders"]
    assert (records.keys.values, records.keys.schemas()) == (["a"], [s.STRING])
    assert (records.values.values, records.values.schemas()) == (
        [b'{"n": 1.5, "t": "\\u00fc"}'],
        [None],
    )
    assert [tuple(header) for header in records.headers[0]] == [
        ("couchbase.bucket", "shop", s.STRING),
        ("couchbase.qualifiedKey", "sales.orders.a", s.STRING),
        ("couchbase.cas", 1, s.INT64),
        ("couchbase.partition", vbucket("a"), s.INT32),
    ]
    assert found.offsets == [
        SourceOffset({"bucket": "shop", "collection": "sales.orders"}, {"cas": 1, "id": "a"})
    ]


def test_records_with_metadata(server: Server) -> None:
    import orjson

    server.put(PLACE, "a", {"n": 1})
    given = settings(source_handler=HANDLERS + "RawJsonWithMetadataSourceHandler")
    about = {
        "event": "mutation",
        "bucket": "shop",
        "partition": vbucket("a"),
        "vBucketUuid": None,
        "key": "a",
        "cas": 1,
        "bySeqno": 1,
        "revSeqno": 0,
        "expiration": None,
        "flags": FMT_JSON,
        "lockTime": 0,
    }
    (value,) = polled(given).records.values.values
    assert orjson.loads(value) == {**about, "content": {"n": 1}}
    (value,) = polled({**given, "couchbase.no.value": "true"}).records.values.values
    assert orjson.loads(value) == {**about, "flags": 0}


def test_records_with_the_default_schema(server: Server) -> None:
    server.put(PLACE, "a", {"n": 1})
    given = settings(source_handler=HANDLERS + "DefaultSchemaSourceHandler")
    records = polled(given).records
    assert records.values.schemas() == [DCP_MESSAGE]
    assert records.values.values[0]["content"] == b'{"n": 1}'


def test_records_with_a_schema_of_the_configuration(server: Server) -> None:
    server.put(PLACE, "a", {"n": 1, "b": "AAE=", "f": 1, "l": [1], "m": {"x": "y"}})
    server.put(PLACE, "b", {"n": "no number", "b": "AAE="})
    server.put(PLACE, "c", {"unknown": 1})
    given = settings(source_handler=HANDLERS + "ConfigurableSchemaSourceHandler")
    with pytest.raises(PenstockError, match=r"couchbase.value.schema\[sales.orders\]"):
        reading(given)
    fields = ", ".join(
        f'{{"name": "{name}", "type": {kind}}}'
        for name, kind in (
            ("n", '"int"'),
            ("b", '"bytes"'),
            ("f", '["null", "float"]'),
            ("l", '["null", {"type": "array", "items": "int"}]'),
            ("m", '["null", {"type": "map", "values": "string"}]'),
        )
    )
    given["couchbase.value.schema[sales.orders]"] = (
        f'{{"type": "record", "name": "Order", "fields": [{fields}]}}'
    )
    found = polled(given)
    assert found.records.keys.values == ["a"]
    assert found.records.values.values == [
        {"n": 1, "b": b"\x00\x01", "f": 1.0, "l": [1], "m": {"x": "y"}}
    ]
    assert list(found.offsets)[-1].offset == {"cas": 3, "id": "c"}


def test_system_documents_are_left_out_by_default(server: Server) -> None:
    server.put(PLACE, "_txn:1", {})
    server.put(PLACE, "a", {})
    assert polled(settings()).records.keys.values == ["a"]
    given = settings(event_filter="com.couchbase.connect.kafka.filter.AllPassIncludingSystemFilter")
    assert polled(given).records.keys.values == ["_txn:1", "a"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["sales.orders", "sales.returns", "_default._default"]),
        ({"scope": "sales"}, ["sales.orders", "sales.returns"]),
        ({"collections": "x.y"}, ["x.y"]),
    ],
)
def test_collections_are_spread_over_tasks(
    server: Server, changes: dict[str, str], expected: list[str]
) -> None:
    server.places |= {
        ("shop", "sales", "returns"),
        ("shop", "_default", "_default"),
        ("shop", "_system", "x"),
        ("other", "a", "b"),
    }
    given = {**settings(), "couchbase.collections": ""} | {
        f"couchbase.{name}": value for name, value in changes.items()
    }
    config = CouchbaseSource.plugin.config.parse(given)
    tasks = CouchbaseSource().plan_tasks(config, 2)
    assert len(tasks) == min(2, len(expected))
    named = [each for task in tasks for each in task["couchbase.collections"].split(",")]
    assert sorted(named) == sorted(expected)
    assert (CouchbaseSource().replan_ms(config) is None) == ("collections" in changes)


@pytest.mark.parametrize(
    ("start", "stored", "keys"),
    [
        ("SAVED_OFFSET_OR_BEGINNING", False, ["a", "b", "c"]),
        ("SAVED_OFFSET_OR_BEGINNING", True, ["b", "c"]),
        ("SAVED_OFFSET_OR_NOW", False, ["c"]),
        ("SAVED_OFFSET_OR_NOW", True, ["b", "c"]),
        ("BEGINNING", True, ["a", "b", "c"]),
        ("NOW", True, ["c"]),
    ],
)
def test_a_task_begins_where_it_is_told(
    server: Server, start: str, stored: bool, keys: list[str]
) -> None:
    for id in "ab":
        server.put(PLACE, id, {})
    partition = {"bucket": "shop", "collection": "sales.orders"}
    offsets = [SourceOffset(partition, {"cas": 1, "id": "a"})] if stored else []
    reader = reading(settings(stream_from=start), *offsets)
    found: list[Any] = []
    first = reader.poll(1 << 20, 0)
    server.put(PLACE, "c", {})
    reader._not_before = 0
    for each in (first, reader.poll(1 << 20, 0)):
        found += [] if each is None else each.records.keys.values
    reader.close()
    assert found == keys


def test_offsets_of_the_change_protocol_are_reported(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(PLACE, "a", {})
    dcp = SourceOffset({"bucket": "shop", "partition": "12"}, {"bySeqno": 7, "vbuuid": 1})
    assert polled(settings(), dcp).records.keys.values == ["a"]
    assert "cannot be used" in caplog.text


def test_offsets_of_another_field_are_not_used(server: Server) -> None:
    server.put(PLACE, "a", {"x": {"seq": 5}, "t": 1})
    partition = {"bucket": "shop", "collection": "sales.orders"}
    given = settings() | {"penstock.couchbase.sequence.field": "x.seq"}
    first = polled(given)
    (offset,) = first.offsets
    assert offset == SourceOffset(partition, {"field": "x.seq", "sequence": 5, "id": "a"})
    given["penstock.couchbase.sequence.field"] = "t"
    assert polled(given, offset).records.keys.values == ["a"]


def test_pages_are_asked_for_by_position() -> None:
    keyspace = Keyspace("shop", "sales", "orders")
    plan = source_plan(CouchbaseSource.plugin.config.parse(settings()))
    statement, parameters = page(plan, keyspace, Position(7, "a"))
    assert statement == (
        "SELECT META(d).id AS id, META(d).cas AS mark FROM `shop`.`sales`.`orders` AS d "
        "WHERE META(d).cas >= $mark AND (META(d).cas > $mark OR META(d).id > $id) "
        "AND META(d).cas <= (NOW_MILLIS() - $delay) * 1000000 "
        "ORDER BY META(d).cas, META(d).id LIMIT $most"
    )
    assert parameters == {"mark": 7, "id": "a", "delay": 5_000, "most": 2_000}
    given = settings(no_value="true") | {"penstock.couchbase.sequence.field": "a.b"}
    plan = source_plan(CouchbaseSource.plugin.config.parse(given))
    statement, parameters = page(plan, keyspace, Position(None))
    assert "d.`a`.`b` AS mark FROM" in statement
    assert "WHERE d.`a`.`b` IS VALUED ORDER BY d.`a`.`b`, META(d).id" in statement
    assert parameters == {"most": 2_000}
    assert newest(plan, keyspace)[0] == (
        "SELECT MAX(d.`a`.`b`) AS mark FROM `shop`.`sales`.`orders` AS d"
    )


def test_a_cluster_that_is_unreachable_is_asked_again(server: Server) -> None:
    server.put(PLACE, "a", {})
    reader = reading(settings())
    server.away = True
    with pytest.raises(CouchbaseUnavailable):
        reader.poll(1 << 20, 0)
    server.away = False
    assert reader.poll(1 << 20, 0).records.keys.values == ["a"]
    reader.close()


def test_documents_that_go_or_change_while_they_are_read(server: Server) -> None:
    for id in "abc":
        server.put(PLACE, id, {"v": 1})

    def meanwhile(call: str, id: str) -> None:
        if call == "get" and id == "a":
            server.put(PLACE, "a", {"v": 2})
            server.documents[PLACE].pop("b", None)

    server.refuses = meanwhile
    reader = reading(settings())
    first = reader.poll(1 << 20, 0)
    assert first.records.keys.values == ["a", "c"]
    assert first.records.values.values == [b'{"v": 2}', b'{"v": 1}']
    assert first.offsets[-1].offset == {"cas": 3, "id": "c"}
    server.refuses = lambda call, id: None
    again = reader.poll(1 << 20, 0)
    assert again.records.keys.values == ["a"], "its change comes again, in its own place"
    reader.close()


def test_documents_that_are_no_json_are_left_out(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.put(PLACE, "a", b"\x00binary")
    found = polled(settings())
    assert len(found.records) == 0
    assert found.offsets[-1].offset == {"cas": 1, "id": "a"}
    assert "'a', which is not JSON" in caplog.text


def test_a_document_that_cannot_be_read_is_no_document_that_is_left_out(server: Server) -> None:
    server.put(PLACE, "a", {})
    reader = reading(settings())
    server.refuses = lambda call, id: AuthenticationException("no") if call == "get" else None
    with pytest.raises(CouchbaseRefused):
        reader.poll(1 << 20, 0)
    server.refuses = lambda call, id: None
    assert reader.poll(1 << 20, 0).records.keys.values == ["a"]
    reader.close()


def test_topics_of_collections(server: Server) -> None:
    given = settings(collection_to_topic="sales.orders=o", topic="${bucket}-%${collection}")
    given["couchbase.topic[sales.returns]"] = "r"
    plan = source_plan(CouchbaseSource.plugin.config.parse(given))
    topics = [plan.topic(Keyspace("shop", "sales", name)) for name in ("orders", "returns", "x")]
    assert topics == ["o", "r", "shop-_x"]


def test_a_jsonpath_filter_of_one_collection_is_refused() -> None:
    given = settings() | {"couchbase.jsonpath.filter[a.b]": "$.x"}
    with pytest.raises(ConfigInvalid, match="JSONPath"):
        source_plan(CouchbaseSource.plugin.config.parse(given))


def test_a_collection_that_does_not_exist_is_found(server: Server) -> None:
    config = CouchbaseSource.plugin.config.parse(settings(collections="sales.nothing"))
    (finding,) = CouchbaseSource().validate_live(config)
    assert finding.setting == "couchbase.collections"
    assert finding.recommended == ["sales.orders"]
    valid = CouchbaseSource.plugin.config.parse(settings())
    assert list(CouchbaseSource().validate_live(valid)) == []


def test_a_cluster_that_is_unreachable_is_a_finding(server: Server) -> None:
    server.away = True
    config = CouchbaseSource.plugin.config.parse(settings())
    (finding,) = CouchbaseSource().validate_live(config)
    assert finding.setting == "couchbase.seed.nodes"
    assert "TemporaryFailException" in (finding.error or "")


@pytest.mark.parametrize(
    ("partition", "offset", "problem"),
    [
        ({"bucket": "b"}, None, "collection"),
        ({"bucket": "b", "collection": "s.c"}, {"x": 1}, "cas"),
        ({"bucket": "b", "collection": "s.c"}, {"cas": "1", "id": ""}, "not an integer"),
    ],
)
def test_offsets_of_users_are_checked(
    partition: dict[str, Any], offset: dict[str, Any] | None, problem: str
) -> None:
    config = CouchbaseSource.plugin.config.parse(settings())
    with pytest.raises(PenstockError, match=problem):
        CouchbaseSource().alter_offsets(config, [SourceOffset(partition, offset)])
