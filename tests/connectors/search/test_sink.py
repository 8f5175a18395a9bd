"""The sinks to Elasticsearch and OpenSearch, against the servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any, ClassVar

import httpx
import pytest

from penstock.api import Failed, PenstockError, Records, SinkWriter, TopicPartition
from penstock.api import schema as s
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.search.client.errors import WriteFailed
from penstock.connectors.search.sink import ElasticsearchSink, OpenSearchSink
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from tests.servers.search import PRODUCTS, SearchServer, shared

from .front import Front

pytestmark = pytest.mark.slow(125)

NUMBERS = count()
ROW = struct({"id": INT64, "name": STRING.as_optional()}, name="row")


@pytest.fixture(scope="module", params=PRODUCTS)
def server(request: pytest.FixtureRequest) -> SearchServer:
    return shared(request.param)


@pytest.fixture
def topic() -> str:
    return f"topic-{next(NUMBERS)}"


class Conformance(SinkConformance):
    ordered = False
    idempotent = True
    server: ClassVar[SearchServer]

    @pytest.fixture(autouse=True)
    def _server(self, server: SearchServer, request: pytest.FixtureRequest) -> Iterator[None]:
        type(self).server = server
        self.proxy = Proxy(server.port)
        self.url = server.url
        self.topic = f"conformance-{next(NUMBERS)}"
        self.status: int | None = None
        front = Front(server, lambda asked: self.status if asked.bulk is not None else None)
        # The front is in this process, whose open files are counted.
        if "fatal" in request.node.name:
            self.url = front.url
        with front, self.proxy:
            yield

    def config(self) -> dict[str, str]:
        return {
            "connection.url": self.url,
            "schema.ignore": "true",
            "read.timeout.ms": "20000",
            "max.retries": "1",
            "retry.backoff.ms": "10",
        }

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": each, "name": f"name {each}"} for each in numbers]
        keys = [str(each) for each in numbers]
        return records_of(
            rows,
            schema=ROW if schema else None,
            keys=keys,
            key_schema=STRING if schema else None,
            topic=self.topic,
            first=numbers.start,
        )

    def contents(self) -> list[Any]:
        try:
            return list(self.server.documents(self.topic).values())
        except httpx.HTTPStatusError:
            return []

    def bad_records(self) -> Records | None:
        self.server.request(
            "PUT", f"/{self.topic}", {"mappings": {"properties": {"id": {"type": "long"}}}}
        )
        rows = [{"id": "no number"}, {"id": {"nested": 1}}, "no object"]
        return records_of(rows, keys=["b1", "b2", "b3"], topic=self.topic)

    def unreachable_target(self) -> AbstractContextManager[None] | None:
        self.url = f"http://127.0.0.1:{self.proxy.port}"

        @contextmanager
        def away() -> Iterator[None]:
            self.proxy.cut()
            try:
                yield
            finally:
                self.proxy.restore()

        return away()

    @contextmanager
    def refusing_target(self) -> Iterator[None]:
        """The user may not write any more, as a front says."""
        self.status = 403
        try:
            yield
        finally:
            self.status = None


class TestElasticsearchSink(Conformance):
    connector = ElasticsearchSink
    bad_configs = (
        ({"connection.url": None}, "connection.url"),
        ({"connection.url": "ftp://x"}, "connection.url"),
        ({"connection.username": "u"}, "connection.password"),
        ({"kerberos.user.principal": "me"}, "kerberos.user.principal"),
        ({"data.stream.type": "LOGS"}, "data.stream.dataset"),
        ({"write.method": "MERGE"}, "write.method"),
        ({"batch.size": "10000"}, "max.buffered.records"),
        ({"external.resource.usage": "INDEX"}, "topic.to.external.resource.mapping"),
    )

    def config(self) -> dict[str, str]:
        return {**super().config(), "behavior.on.null.values": "delete"}


class TestOpenSearchSink(Conformance):
    connector = OpenSearchSink
    bad_configs = (
        ({"routing.type": "value"}, "routing.type.record.value.path"),
        ({"aws.access_key_id": "a", "aws.secret_access_key": "b"}, "aws.region"),
        ({"existing.resource.type": "index"}, "topic.to.existing.resource.mapping"),
        ({"data.stream.enabled": "true", "index.write.method": "upsert"}, "index.write.method"),
    )


class Task:
    """A writer, and what it reports."""

    def __init__(
        self, url: str, connector: Any = ElasticsearchSink, *, tolerates: bool = True, **given: str
    ) -> None:
        settings = {name.replace("_", "."): value for name, value in given.items()}
        self.connector = connector()
        self.config = connector.plugin.config.parse({"connection.url": url, **settings})
        self.context = SinkContextStub(tolerates_errors=tolerates)
        self.writer: SinkWriter = self.connector.open(self.config, self.context)
        self.failed: Failed = {}

    def write(self, records: Records) -> list[str]:
        """Writes and flushes; the offsets and messages of refused records."""
        self.failed = {}
        self.writer.write(records, self.failed)
        self.writer.flush()
        messages = [f"{ref.offset} {error}" for ref, error in self.context.reported]
        return messages + [f"{records.offsets[row]} {error}" for row, error in self.failed.items()]

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()


EVERYTHING = struct(
    {
        "i8": s.INT8,
        "i16": s.INT16,
        "i32": s.INT32,
        "i64": s.INT64,
        "f32": s.FLOAT32,
        "f64": s.FLOAT64,
        "flag": s.BOOLEAN,
        "text": s.STRING,
        "bytes": s.BYTES,
        "decimal": s.decimal(2),
        "date": s.DATE,
        "time": s.TIME,
        "timestamp": s.TIMESTAMP,
        "list": s.array(s.INT32),
        "map": s.map_of(s.INT32, s.STRING),
        "nested": struct({"x": s.INT16}),
        "null": s.OPTIONAL_INT32,
    }
)
VALUE = {
    "i8": -128,
    "i16": 300,
    "i32": 70_000,
    "i64": 2**63 - 1,
    "f32": 0.5,
    "f64": 0.1,
    "flag": True,
    "text": "zwölf 𝔘",
    "bytes": b"\x00\xff",
    "decimal": Decimal("1.10"),
    "date": date(2026, 1, 31),
    "time": time(12, 30),
    "timestamp": datetime(2026, 1, 31, 12, 30, tzinfo=UTC),
    "list": [1, 2],
    "map": {1: "a"},
    "nested": {"x": 1},
    "null": None,
}


def test_types_are_mapped_and_come_back(server: SearchServer, topic: str) -> None:
    with Task(server.url) as task:
        records = records_of([VALUE], schema=EVERYTHING, keys=[1], key_schema=INT64, topic=topic)
        assert task.write(records) == []
    properties = server.request("GET", f"/{topic}/_mapping")[topic]["mappings"]["properties"]
    types = {name: about.get("type") for name, about in properties.items()}
    assert types == {
        "i8": "byte",
        "i16": "short",
        "i32": "integer",
        "i64": "long",
        "f32": "float",
        "f64": "double",
        "flag": "boolean",
        "text": "text",
        "bytes": "binary",
        "decimal": "double",
        "date": "date",
        "time": "date",
        "timestamp": "date",
        "list": "integer",
        "map": None,
        "nested": None,
        "null": "integer",
    }
    assert properties["map"]["properties"]["key"] == {"type": "integer"}
    assert server.documents(topic)["1"] == {
        **VALUE,
        "bytes": "AP8=",
        "decimal": 1.1,
        "date": 20_484,
        "time": 45_000_000,
        "timestamp": 1_769_862_600_000,
        "map": [{"key": 1, "value": "a"}],
    }


def test_records_that_are_written_again_change_nothing(server: SearchServer, topic: str) -> None:
    old = records_of([{"v": 1}, {"v": 2}], keys=["k", "k"], topic=topic)
    with Task(server.url, schema_ignore="true") as task:
        assert task.write(old) == []
        assert task.write(old.only([0])) == []
    assert server.documents(topic) == {"k": {"v": 2}}


def test_tombstones_delete(server: SearchServer, topic: str) -> None:
    records = records_of([{"v": 1}, {"v": 2}, None], keys=["a", "b", "a"], topic=topic)
    with Task(server.url, schema_ignore="true", behavior_on_null_values="delete") as task:
        assert task.write(records) == []
        assert server.documents(topic) == {"b": {"v": 2}}
        assert task.write(records.only([0])) == []  # an old record does not bring it back
    assert server.documents(topic) == {"b": {"v": 2}}


def test_a_tombstone_deletes_a_document_that_was_updated(server: SearchServer, topic: str) -> None:
    rows = [{"v": 1}, {"v": 2}, {"v": 3}, None, {"v": 4}, None, {"v": 5}]
    records = records_of(rows, keys=["a", "a", "b", "a", "c", "c", "c"], topic=topic)
    settings = {"write_method": "UPSERT", "behavior_on_null_values": "delete"}
    with Task(server.url, schema_ignore="true", **settings) as task:
        assert task.write(records.only(range(3))) == []
        assert task.write(records.only([3])) == []
        assert server.documents(topic) == {"b": {"v": 3}}
        assert task.write(records.only(range(4, 7))) == []
        assert server.documents(topic) == {"b": {"v": 3}, "c": {"v": 5}}
        assert task.write(records) == []  # once more, as after a crash
    assert server.documents(topic) == {"b": {"v": 3}, "c": {"v": 5}}


def test_records_are_not_taken_for_written_while_one_before_them_is_refused(
    server: SearchServer, topic: str
) -> None:
    records = records_of([{"v": n} for n in range(10)], keys=list(map(str, range(10))), topic=topic)
    with (
        Front(server, forbidden={"4"}) as front,
        Task(front.url, schema_ignore="true", batch_size="5") as task,
    ):
        task.writer.write(records, {})
        for _ in range(3):
            with pytest.raises(WriteFailed, match=r"security_exception.*\(status 403\)"):
                task.writer.flush()
    assert "4" not in server.documents(topic)


def test_ignored_conflicts_are_logged(
    server: SearchServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = records_of([{"v": 1}, {"v": 2}], keys=["k", "k"], topic=topic, first=7)
    again = records_of([{"v": 3}], keys=["k"], topic=topic)
    with Task(server.url, schema_ignore="true") as task:
        assert task.write(records) == []
        assert task.write(records.only([1])) == []  # the same record
        assert not caplog.records
        assert task.write(again) == []
    assert server.documents(topic) == {"k": {"v": 2}}
    [line] = [record.message for record in caplog.records]
    assert f"Ignored 1 records of topic {topic}: the index has later versions" in line


def test_updates_of_a_document_follow_each_other(server: SearchServer, topic: str) -> None:
    rows = [{"v": number, f"f{number % 3}": number} for number in range(300)]
    records = records_of(rows, keys=["k"] * 300, topic=topic)
    with Task(server.url, schema_ignore="true", write_method="UPSERT", batch_size="7") as task:
        assert task.write(records) == []
    assert server.documents(topic) == {"k": {"v": 299, "f0": 297, "f1": 298, "f2": 299}}


def test_data_streams_of_both_dialects(server: SearchServer, topic: str) -> None:
    if server.product == "elasticsearch":
        pytest.skip("its data stream module is not available")
    dataset = f"d{next(NUMBERS)}"
    server.request(
        "PUT",
        f"/_index_template/{dataset}",
        {"index_patterns": [f"logs-{dataset}-*"], "data_stream": {}, "priority": 500},
    )
    records = records_of([{"v": 1}, {"v": 2}], keys=["a", "a"], topic=topic)
    records.timestamps = [1_000, 2_000]
    with Task(
        server.url,
        schema_ignore="true",
        key_ignore="true",
        data_stream_type="LOGS",
        data_stream_dataset=dataset,
    ) as task:
        assert task.write(records) == []
        assert task.write(records) == []
    name = f"logs-{dataset}-{topic}"
    assert server.documents(name) == {
        f"{topic}+0+0": {"v": 1, "@timestamp": 1_000},
        f"{topic}+0+1": {"v": 2, "@timestamp": 2_000},
    }
    with Task(
        server.url,
        OpenSearchSink,
        schema_ignore="true",
        key_ignore="true",
        data_stream_enabled="true",
        data_stream_prefix=f"p{next(NUMBERS)}",
    ) as task:
        assert task.write(records) == []
        prefix = task.config.props["data.stream.prefix"]
    assert len(server.documents(f"{prefix}-{topic}")) == 2


def test_routing_from_the_value(server: SearchServer, topic: str) -> None:
    with Task(
        server.url,
        OpenSearchSink,
        schema_ignore="true",
        **{"routing.type": "value", "routing.type.record.value.path": "/shop/id"},
    ) as task:
        messages = task.write(
            records_of([{"shop": {"id": 7}}, {"shop": {}}], keys=["a", "b"], topic=topic)
        )
    assert [each.split()[0] for each in messages] == ["1"]
    server.request("POST", f"/{topic}/_refresh")
    found = server.request("GET", f"/{topic}/_search?routing=7")["hits"]["hits"]
    assert [each["_routing"] for each in found] == ["7"]


def test_refused_records_are_named_one_by_one(server: SearchServer, topic: str) -> None:
    rows = [{"id": number, "name": None} for number in range(9)]
    with Task(server.url, batch_size="4") as task:
        good = records_of(rows, schema=ROW, keys=list("abcdefghi"), key_schema=STRING, topic=topic)
        assert task.write(good) == []
        values = [{"id": "x"} if row % 3 == 1 else {"id": row} for row in range(9)]
        messages = task.write(records_of(values, keys=list("abcdefghi"), topic=topic, first=100))
    assert sorted(each.split()[0] for each in messages) == ["101", "104", "107"]
    assert all("mapper_parsing_exception" in each for each in messages)
    assert server.documents(topic)["a"] == {"id": 0}
    assert server.documents(topic)["b"] == {"id": 1, "name": None}


def test_ids_that_cannot_be(server: SearchServer, topic: str) -> None:
    keys = [None, "", "x" * 513, {"a": 1}, True, 5]
    records = records_of([{"v": 1}] * 6, keys=keys, topic=topic)
    with Task(server.url, schema_ignore="true") as task:
        messages = task.write(records)
    assert sorted(each.split()[0] for each in messages) == ["0", "1", "2", "3", "4"]
    assert list(server.documents(topic)) == ["5"]


@pytest.mark.parametrize("behavior", ["warn", "ignore"])
def test_malformed_ids_are_skipped_if_malformed_documents_are(
    server: SearchServer, topic: str, behavior: str, caplog: pytest.LogCaptureFixture
) -> None:
    records = records_of([{"v": 1}] * 4, keys=["", "x" * 513, None, "5"], topic=topic)
    with Task(
        server.url,
        tolerates=False,
        schema_ignore="true",
        behavior_on_malformed_documents=behavior,
    ) as task:
        assert task.write(records) == []
    assert list(server.documents(topic)) == ["5"]
    lines = [record.message for record in caplog.records if "malformed" in record.message]
    assert len(lines) == (3 if behavior == "warn" else 0)


def test_after_a_fatal_error_no_call_succeeds(server: SearchServer, topic: str) -> None:
    good = records_of([{"v": 1}], keys=["a"], topic=topic)
    with Task(server.url, schema_ignore="true", tolerates=False) as task:
        assert task.write(good) == []
        server.request("POST", f"/{topic}/_close")
        with pytest.raises(PenstockError, match="index_closed_exception") as first:
            task.write(records_of([{"v": 2}], keys=["b"], topic=topic, first=1))
        assert not getattr(first.value, "retriable", False)
        server.request("POST", f"/{topic}/_open")
        for again in (
            task.writer.flush,
            task.writer.idle,
            lambda: task.writer.write(good, {}),
            lambda: task.writer.pre_commit({TopicPartition(topic, 0): 2}),
        ):
            with pytest.raises(PenstockError, match="index_closed_exception"):
                again()


def test_a_request_that_is_sent_again_has_no_conflicts_with_itself(
    server: SearchServer, topic: str
) -> None:
    records = records_of([{"v": 1}, {"v": 2}], keys=["a", "a"], topic=topic)
    with Task(server.url, OpenSearchSink, schema_ignore="true") as task:
        assert task.write(records) == []
        assert task.write(records) == []
    assert server.documents(topic) == {"a": {"v": 2}}


def test_a_busy_cluster_is_asked_again(server: SearchServer, topic: str) -> None:
    records = records_of([{"v": 1}] * 10, keys=list(range(10)), topic=topic)
    with (
        Front(server, lambda asked: 429 if asked.bulk in (0, 1, 2) else None) as front,
        Task(front.url, schema_ignore="true", retry_backoff_ms="5") as task,
    ):
        assert task.write(records) == []
        assert front.sent == 4
    assert server.count(topic) == 10


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_server_that_is_killed_gets_everything(product: str, topic: str) -> None:
    total, step = 24_000, 2_000
    with (
        SearchServer(product) as server,
        Task(
            server.url,
            schema_ignore="true",
            max_retries="2",
            retry_backoff_ms="50",
            read_timeout_ms="20000",
        ) as task,
    ):
        restarted: threading.Thread | None = None

        def restart() -> None:
            server.kill()
            server.start()

        def until_taken(act: Callable[[], None]) -> None:
            for _ in range(1_000):
                try:
                    act()
                    return
                except Exception as error:
                    if not getattr(error, "retriable", False):
                        raise
            raise TimeoutError

        for start in range(0, total, step):
            numbers = range(start, start + step)
            records = records_of(
                [{"v": each} for each in numbers], keys=list(numbers), topic=topic, first=start
            )
            if start == total // 2:
                restarted = threading.Thread(target=restart)
                restarted.start()
            until_taken(lambda records=records: task.writer.write(records, task.failed))
        until_taken(task.writer.flush)
        assert restarted is not None
        restarted.join()
        assert task.failed == {}
        assert task.context.reported == []
        assert server.count(topic) == total


def test_validation_tells_what_is_missing(server: SearchServer, topic: str) -> None:
    def findings(url: str, **changes: str) -> dict[str, str]:
        settings = {name.replace("_", "."): value for name, value in changes.items()}
        config = ElasticsearchSink.plugin.config.parse(
            {"connection.url": url, "topics": topic, **settings}
        )
        messages: dict[str, str] = {}
        for each in ElasticsearchSink().validate_live(config):
            messages[each.setting] = messages.get(each.setting, "") + str(each.error)
        return messages

    assert findings(server.url) == {}
    proxy = Proxy(server.port)  # nobody listens
    assert list(findings(f"http://127.0.0.1:{proxy.port}")) == ["connection.url"]
    proxy.close()
    mapping = "topic.to.external.resource.mapping"
    external = {"external_resource_usage": "INDEX", mapping: f"{topic}:nowhere"}
    messages = findings(server.url, **external)
    assert messages == {mapping: "'nowhere' does not exist in the cluster"}
    messages = findings(server.url, **{**external, mapping: "other:nowhere"})
    assert "not configured" in messages[mapping]
    assert "not mapped" in messages[mapping]
    with Front(server) as front:
        assert findings(front.url, connection_username="u", connection_password="p") == {}
