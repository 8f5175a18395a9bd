"""The sink, over a double of the SDK's cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from couchbase.exceptions import (
    AuthenticationException,
    CollectionNotFoundException,
    InvalidArgumentException,
)

from penstock.api import Failed, Records
from penstock.api import schema as s
from penstock.connectors.couchbase.client.errors import CouchbaseRefused, CouchbaseUnavailable
from penstock.connectors.couchbase.client.sdk import SdkStore
from penstock.connectors.couchbase.settings.sink import sink_plan
from penstock.connectors.couchbase.sink import CouchbaseSink
from penstock.connectors.couchbase.write.writer import CouchbaseWriter
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub

from .sdk_double import FakeCluster, Server

PLACE = ("shop", "_default", "_default")
HANDLERS = "com.couchbase.connect.kafka.handler.sink."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(SdkStore, "connected", lambda *given: SdkStore(FakeCluster(server)))
    return server


def settings(**changes: str) -> dict[str, str]:
    return {
        "name": "sink",
        "topics": "conformance",
        "couchbase.seed.nodes": "a.example.org",
        "couchbase.username": "u",
        "couchbase.password": "p",
        "couchbase.bucket": "shop",
        **{f"couchbase.{name.replace('_', '.')}": value for name, value in changes.items()},
    }


def write(
    records: Records, given: dict[str, str], context: SinkContextStub | None = None
) -> Failed:
    writer = CouchbaseSink().open(
        CouchbaseSink.plugin.config.parse(given), context or SinkContextStub()
    )
    failed: Failed = {}
    try:
        writer.write(records, failed)
        writer.flush()
    finally:
        writer.close()
    return failed


class TestConformance(SinkConformance):
    connector = CouchbaseSink
    idempotent = True
    ordered = False
    bad_configs = (
        ({"couchbase.bucket": None}, "couchbase.bucket"),
        ({"couchbase.seed.nodes": None}, "couchbase.seed.nodes"),
        ({"couchbase.document.expiration": "soon"}, "couchbase.document.expiration"),
        ({"couchbase.document.id": "nothing"}, "couchbase.document.id"),
        ({"couchbase.durability": "SOME"}, "must be one of [NONE, MAJORITY"),
        ({"couchbase.default.collection": "a"}, "couchbase.default.collection"),
        ({"couchbase.topic.to.collection": "a"}, "couchbase.topic.to.collection"),
        (
            {"couchbase.durability": "MAJORITY", "couchbase.persist.to": "ONE"},
            "Invalid durability config",
        ),
        ({"couchbase.sink.handler": HANDLERS + "AnalyticsSinkHandler"}, "not supported"),
        ({"couchbase.sink.handler": "org.example.Mine"}, "JVM classes"),
        ({"couchbase.document.mode": "SUBDOCUMENT"}, "couchbase.subdocument.path"),
        (
            {"couchbase.document.mode": "N1QL", "couchbase.n1ql.operation": "UPDATE_WHERE"},
            "couchbase.n1ql.where.fields",
        ),
    )

    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        self.server = server

    def config(self) -> dict[str, str]:
        return {
            name: value for name, value in settings().items() if name not in ("name", "topics")
        } | {"topics": "conformance"}

    def contents(self) -> list[Any]:
        return list(self.server.contents(PLACE).values())

    def bad_records(self) -> Records:
        self.server.refuses = lambda call, id: (
            InvalidArgumentException("bad id") if id == "bad" else None
        )
        return records_of(["x"], keys=["bad"])

    def unreachable_target(self) -> AbstractContextManager[object]:
        @contextmanager
        def away() -> Iterator[None]:
            self.server.away = True
            try:
                yield
            finally:
                self.server.away = False

        return away()

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        self.server.refuses = lambda call, id: AuthenticationException("no longer")
        try:
            yield
        finally:
            self.server.refuses = lambda call, id: None


ROW = s.struct({"id": s.INT64, "at": s.OPTIONAL_STRING}, name="row")


def test_a_value_is_the_document_that_the_json_converter_writes(server: Server) -> None:
    schema = s.struct(
        {
            "number": s.INT32,
            "amount": s.decimal(2),
            "day": s.DATE,
            "raw": s.BYTES,
            "tags": s.array(s.STRING),
            "more": s.OPTIONAL_STRING,
        }
    )
    value = {
        "number": 7,
        "amount": Decimal("1.10"),
        "day": date(1970, 1, 3),
        "raw": b"\x00\x01",
        "tags": ["a"],
    }
    write(records_of([value], schema=schema, keys=["k"], key_schema=s.STRING), settings())
    assert server.contents(PLACE) == {
        "k": {
            "number": 7,
            "amount": "bg==",
            "day": 2,
            "raw": "AAE=",
            "tags": ["a"],
            "more": None,
        }
    }


@pytest.mark.parametrize(
    ("format", "value", "id"),
    [
        ("widget::${/id}", {"id": 7}, "widget::7"),
        ("${/a/b}-${/c/0}", {"a": {"b": "x"}, "c": [True]}, "x-true"),
        ("/id", {"id": "i"}, "i"),
        ("${/a~1b}", {"a/b": "x"}, "x"),
        ("${/a}-${/b}", {"a": "${/b}", "b": "x"}, "${/b}-x"),
        ("${/id}", {"id": None}, "key"),
        ("${/id}", {"id": {}}, "key"),
        ("${/id}", ["no object"], "key"),
        ("", {"id": 7}, "key"),
    ],
)
def test_ids_are_made_of_the_record(server: Server, format: str, value: Any, id: str) -> None:
    write(records_of([value], keys=["key"]), settings(document_id=format))
    assert list(server.contents(PLACE)) == [id]


@pytest.mark.parametrize(
    ("schema", "key", "id"),
    [
        (s.INT64, 5, "5"),
        (s.BOOLEAN, True, "true"),
        (s.FLOAT64, 1.0, "1.0"),
        (s.BYTES, b"abc", "abc"),
        (s.decimal(1), Decimal("1.5"), "1.5"),
        (ROW, {"id": 1, "at": None}, "conformance/0/0"),
        (None, None, "conformance/0/0"),
    ],
)
def test_keys_are_ids(server: Server, schema: s.Schema | None, key: Any, id: str) -> None:
    write(records_of([{"a": 1}], keys=[key], key_schema=schema), settings())
    assert list(server.contents(PLACE)) == [id]


def test_the_fields_of_an_id_can_be_left_out(server: Server) -> None:
    given = settings(document_id="${/a/0}-${/a/1}-${/b}", remove_document_id="true")
    write(records_of([{"a": [1, 2, 3], "b": 4, "c": 5}]), given)
    assert server.contents(PLACE) == {"1-2-4": {"a": [3], "c": 5}}


def test_topics_have_collections_and_ids_of_their_own(server: Server) -> None:
    given = settings(
        default_collection="s.rest",
        topic_to_collection="a=s.a,b=other.s.b",
        topic_to_document_id="a=${/x}",
    )
    given["couchbase.default.collection[b]"] = "`my.bucket`.s.b"
    given["couchbase.document.id[b]"] = "${/y}"
    given["couchbase.remove.document.id[b]"] = "true"
    given["couchbase.document.expiration[b]"] = "30m"
    for topic in "abc":
        write(records_of([{"x": 1, "y": 2}], keys=["k"], topic=topic), given)
    assert server.contents(("shop", "s", "a")) == {"1": {"x": 1, "y": 2}}
    assert server.contents(("my.bucket", "s", "b")) == {"2": {"x": 1}}
    assert server.contents(("shop", "s", "rest")) == {"k": {"x": 1, "y": 2}}
    assert [getattr(request, "expiry", None) for _, request in server.calls] == [None, 1800, None]


def test_a_setting_of_one_topic_that_is_wrong_is_refused(server: Server) -> None:
    given = settings()
    given["couchbase.document.expiration[b]"] = "soon"
    config = CouchbaseSink.plugin.config.parse(given)
    with pytest.raises(Exception, match=r"couchbase.document.expiration\[b\]"):
        list(CouchbaseSink().validate_live(config))


def test_null_deletes_in_every_mode(server: Server) -> None:
    for mode, more in (
        ("DOCUMENT", {}),
        ("SUBDOCUMENT", {"subdocument_path": "a"}),
        ("N1QL", {}),
    ):
        server.put(PLACE, "k", {})
        write(records_of([None], keys=["k"]), settings(document_mode=mode, **more))
        assert server.contents(PLACE) == {}


def test_writes_of_a_document_are_in_order(server: Server) -> None:
    values = [{"n": 1}, {"n": 2}, None, {"n": 3}, {"n": 4}]
    write(records_of(values, keys=["a", "a", "a", "b", "a"]), settings())
    assert server.contents(PLACE) == {"a": {"n": 4}, "b": {"n": 3}}
    assert [name for name, _ in server.calls] == [
        "upsert",
        "upsert",
        "upsert",
        "remove",
        "upsert",
    ]


def test_records_become_parts_of_documents(server: Server) -> None:
    given = settings(
        sink_handler=HANDLERS + "SubDocumentSinkHandler",
        document_id="${/order}",
        remove_document_id="true",
        subdocument_path="/where",
        subdocument_operation="ARRAY_APPEND",
    )
    values = [{"order": 1, "where": "items", "n": n} for n in (1, 2)]
    assert write(records_of(values), given) == {}
    assert server.contents(PLACE) == {"1": {"items": [{"n": 1}, {"n": 2}]}}


def test_a_part_needs_a_path_and_perhaps_a_document(server: Server) -> None:
    given = settings(
        document_mode="SUBDOCUMENT",
        subdocument_path="/where",
        subdocument_create_document="false",
        document_expiration="2d",
        durability="MAJORITY",
    )
    server.put(PLACE, "a", {})
    values = [{"x": 1}, {"where": "p", "x": 1}, {"where": "p", "x": 2}]
    failed = write(records_of(values, keys=["a", "b", "a"]), given)
    assert sorted(failed) == [0, 1]
    assert "couchbase.subdocument.path" in str(failed[0])
    assert "DocumentNotFoundException" in str(failed[1])
    assert server.contents(PLACE) == {"a": {"p": {"x": 2}}}
    request = server.calls[-1][1]
    assert (request.expiry, request.durability_level) == (2 * 86_400, 1)


def queries(server: Server) -> list[tuple[str, dict[str, Any]]]:
    return [(given[0], given[1]) for name, given in server.calls if name == "query"]


def test_records_become_statements(server: Server) -> None:
    given = settings(document_mode="N1QL", default_collection="s.c")
    write(records_of([{"a`b": 1, "c": {"d": 2}}], keys=["k"]), given)
    write(records_of([{"a": 1}], keys=["k"]), {**given, "couchbase.create.document": "false"})
    assert queries(server) == [
        (
            "MERGE INTO `shop`.`s`.`c` AS doc USING 1 AS o ON KEY $id WHEN MATCHED THEN UPDATE SET "
            "doc.`a``b` = $f0, doc.`c` = $f1 WHEN NOT MATCHED THEN INSERT $content",
            {"f0": 1, "f1": {"d": 2}, "id": "k", "content": {"a`b": 1, "c": {"d": 2}}},
        ),
        (
            "UPDATE `shop`.`s`.`c` USE KEYS $id SET `a` = $f0 RETURNING META().id;",
            {"f0": 1, "id": "k"},
        ),
    ]


def test_statements_can_be_about_other_documents(server: Server) -> None:
    given = settings(
        document_mode="N1QL",
        n1ql_operation="UPDATE_WHERE",
        n1ql_where_fields="type:it's,code",
    )
    failed = write(records_of([{"code": 1, "name": "x"}, {"name": "y"}, 5, {}]), given)
    assert queries(server) == [
        (
            "UPDATE `shop` SET `code` = $f0, `name` = $f1 WHERE `type` = $w0 AND `code` = $f0 "
            "RETURNING META().id;",
            {"f0": 1, "f1": "x", "w0": "it's"},
        )
    ]
    assert sorted(failed) == [1, 2, 3]


def test_records_that_are_written_are_not_written_again_after_an_outage(server: Server) -> None:
    given = settings(
        document_mode="SUBDOCUMENT", subdocument_path="list", subdocument_operation="ARRAY_APPEND"
    )
    plan = sink_plan(CouchbaseSink.plugin.config.parse(given))
    writer = CouchbaseWriter(plan, lambda: SdkStore(FakeCluster(server)), SinkContextStub())
    records = records_of([1, 2, 3, 4], keys=["a", "b", "a", "b"])
    failed: Failed = {}
    from couchbase.exceptions import TemporaryFailException

    server.refuses = lambda call, id: TemporaryFailException("busy") if id == "b" else None
    with pytest.raises(CouchbaseUnavailable):
        writer.write(records, failed)
    server.refuses = lambda call, id: None
    writer.write(records, failed)
    writer.close()
    assert failed == {}
    assert server.contents(PLACE) == {"a": {"list": [1, 3]}, "b": {"list": [2, 4]}}


def test_the_task_fails_after_the_retry_timeout(server: Server) -> None:
    plan = sink_plan(CouchbaseSink.plugin.config.parse(settings(retry_timeout="10s")))
    now = [0.0]
    writer = CouchbaseWriter(
        plan, lambda: SdkStore(FakeCluster(server)), SinkContextStub(), lambda: now[0]
    )
    server.away = True
    for at in (0.0, 9.0):
        now[0] = at
        with pytest.raises(CouchbaseUnavailable):
            writer.write(records_of([1], keys=["a"]), {})
    now[0] = 10.0
    with pytest.raises(CouchbaseRefused, match=r"couchbase.retry.timeout"):
        writer.write(records_of([1], keys=["a"]), {})
    writer.close()


def test_a_collection_that_does_not_exist_fails_the_task(server: Server) -> None:
    server.refuses = lambda call, id: CollectionNotFoundException("none")
    writer = CouchbaseSink().open(CouchbaseSink.plugin.config.parse(settings()), SinkContextStub())
    with closing(writer):
        with pytest.raises(CouchbaseRefused, match="CollectionNotFoundException"):
            writer.write(records_of([1], keys=["a"]), {})
        server.refuses = lambda call, id: None
        with pytest.raises(CouchbaseRefused, match="CollectionNotFoundException"):
            writer.flush()
        with pytest.raises(CouchbaseRefused, match="CollectionNotFoundException"):
            writer.pre_commit({})


@pytest.mark.parametrize(
    ("redaction", "shown"), [("NONE", "'secret'"), ("PARTIAL", "<ud>secret</ud>")]
)
def test_ids_are_tagged_for_redaction(server: Server, redaction: str, shown: str) -> None:
    server.refuses = lambda call, id: InvalidArgumentException("too long")
    failed = write(records_of([1], keys=["secret"]), settings(log_redaction=redaction))
    assert shown in str(failed[0])


def test_a_preview_tells_what_would_be_written() -> None:
    reported: list[str] = []
    config = CouchbaseSink.plugin.config.parse(settings())
    writer = CouchbaseSink().open_preview(config, SinkContextStub(), reported.append)
    writer.write(records_of([{"a": 1}, None], keys=["x", "y"]), {})
    writer.close()
    assert sorted(reported) == [
        "remove shop._default._default y",
        'upsert shop._default._default x {"a":1}',
    ]


def test_the_environment_replaces_passwords() -> None:
    from penstock.connectors.couchbase.settings.connection import access_of

    config = CouchbaseSink.plugin.config.parse(
        {**settings(), "couchbase.env.timeout.kvTimeout": "9s"}
    )
    assert access_of(config, {}).password.value == "p"
    access = access_of(config, {"KAFKA_COUCHBASE_PASSWORD": "other"})
    assert access.password.value == "other"
    assert access.timeouts_ms == {"kv_timeout": 9_000}
