"""The sources of Elasticsearch and OpenSearch, against the servers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import count
from typing import Any, ClassVar

import orjson
import pytest

from penstock.api import PenstockError, Primitive, SourceOffset
from penstock.connectors.search.read import reader
from penstock.connectors.search.source import ElasticsearchSource, OpenSearchSource
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub
from tests.servers.search import PRODUCTS, SearchServer, shared

pytestmark = pytest.mark.slow(120)

NUMBERS = count()
SOURCES = {"opensearch": OpenSearchSource, "elasticsearch": ElasticsearchSource}


@pytest.fixture(scope="module", params=PRODUCTS)
def server(request: pytest.FixtureRequest) -> SearchServer:
    return shared(request.param)


@pytest.fixture
def index() -> str:
    return f"index-{next(NUMBERS)}"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll waits for its requests, however busy the machine is: None means all is read."""
    monkeypatch.setattr(reader, "_ANSWER_MS", 30_000)


def make(server: SearchServer, index: str, shards: int = 1, **properties: str) -> None:
    """An index; `properties`: types of fields."""
    types = {name: {"type": type} for name, type in properties.items()}
    body = {"settings": {"number_of_shards": shards}, "mappings": {"properties": types}}
    server.request("PUT", f"/{index}", body)


def put(server: SearchServer, index: str, documents: Mapping[str, Any]) -> None:
    """Writes documents; no search finds them before a refresh."""
    lines = b"".join(
        orjson.dumps({"index": {"_id": id}}) + b"\n" + orjson.dumps(document) + b"\n"
        for id, document in documents.items()
    )
    assert not server.bulk(index, lines)["errors"]


class Conformance(SourceConformance):
    resumes_within_polls = True
    bad_configs = (
        ({"indices": None}, "indices"),
        ({"query": "{"}, "query"),
        ({"value.format": "xml"}, "value.format"),
        ({"refresh": "false", "position.field": "_seq_no"}, "delay.ms"),
        ({"batch.size": "20000"}, "batch.size"),
        ({"connection.username": "u"}, "connection.password"),
    )
    product: ClassVar[str]
    server: ClassVar[SearchServer]

    @pytest.fixture(autouse=True)
    def _server(self, index: str) -> None:
        type(self).server = shared(self.product)
        self.index = index
        make(self.server, index, **self.properties)

    properties: ClassVar[dict[str, str]] = {}

    def config(self) -> dict[str, str]:
        return {
            "connection.url": self.server.url,
            "indices": f"{self.index}*",
            "topic": "from-${index}",
            "poll.interval.ms": "50",
        }

    def add(self, numbers: range) -> None:
        put(self.server, self.index, {str(each): {"at": each // 2} for each in numbers})


class TestElasticsearchSource(Conformance):
    connector = ElasticsearchSource
    product = "elasticsearch"


class TestOpenSearchSource(Conformance):
    """By a field whose values are not unique."""

    connector = OpenSearchSource
    product = "opensearch"
    properties: ClassVar = {"at": "date"}

    def config(self) -> dict[str, str]:
        return {**super().config(), "position.field": "at", "value.format": "json"}

    def add(self, numbers: range) -> None:
        super().add(numbers)
        self.server.request("POST", f"/{self.index}/_refresh")


class Task:
    """The tasks of a connector, one after the other, and what is stored."""

    def __init__(self, server: SearchServer, indices: str, tasks: int = 1, **given: str) -> None:
        settings = {name.replace("_", "."): value for name, value in given.items()}
        self.connector = SOURCES[server.product]()
        self.config = self.connector.plugin.config.parse(
            {"connection.url": server.url, "indices": indices, "poll.interval.ms": "1", **settings}
        )
        self.stored: dict[str, SourceOffset] = {}
        self.tasks = tasks

    def plans(self) -> list[Any]:
        parse = self.connector.plugin.config.parse
        return [parse(props) for props in self.connector.plan_tasks(self.config, self.tasks)]

    def read(self, enough: int = 0) -> list[tuple[str, Any, Any]]:
        """What new readers read, until they find no more, or have `enough`: topics, keys, values,
        sorted."""
        found: list[tuple[str, Any, Any]] = []
        for plan in self.plans():
            opened = self.connector.open(plan, SourceContextStub([*self.stored.values()]))
            try:
                while (polled := opened.poll(10_000, 0)) is not None:
                    records = polled.records
                    found += zip(
                        records.topics, records.keys.values, records.values.values, strict=True
                    )
                    for each in polled.offsets:
                        self.stored[str(each.partition)] = each
                    if enough and len(found) >= enough:
                        break
            finally:
                opened.close()
        return sorted(found, key=repr)


def test_changes_are_read_again_and_deletions_are_not(server: SearchServer, index: str) -> None:
    make(server, index)
    put(server, index, {"a": {"v": 1}, "b": {"v": 1}, "c": {"v": 1}})
    task = Task(server, index)
    assert task.read() == [(index, id, {"v": 1}) for id in "abc"]
    put(server, index, {"b": {"v": 2}})
    server.request("DELETE", f"/{index}/_doc/c")
    assert task.read() == [(index, "b", {"v": 2})]
    assert task.read() == []


def test_patterns_are_spread_over_tasks_and_shards(server: SearchServer, index: str) -> None:
    make(server, f"{index}-a", shards=3)
    make(server, f"{index}-b", shards=2)
    make(server, f"{index}-not")
    for each in ("a", "b", "not"):
        put(server, f"{index}-{each}", {f"{each}{n}": {"n": n} for n in range(500)})
    task = Task(server, f"{index}-*,-{index}-not", tasks=2, topic="t")
    assert [len(plan.props["penstock.task.shards"].split(",")) for plan in task.plans()] == [3, 2]
    assert [key for _, key, _ in task.read()] == sorted(
        f"{each}{n}" for each in "ab" for n in range(500)
    )
    assert task.read() == []
    make(server, f"{index}-c")
    put(server, f"{index}-c", {"c": {}})
    assert [key for _, key, _ in task.read()] == ["c"]


def test_an_index_that_is_made_again_is_read_again(server: SearchServer, index: str) -> None:
    make(server, index)
    put(server, index, {str(n): {} for n in range(9)})
    task = Task(server, index)
    assert len(task.read()) == 9
    server.request("DELETE", f"/{index}")
    make(server, index)
    put(server, index, {str(n): {} for n in range(5)})
    assert len(task.read()) == 5


@pytest.mark.parametrize(
    ("kind", "keep_alive"),
    [
        ("date", "300000"),
        ("date_nanos", "300000"),
        ("long", "0"),
        ("double", "300000"),
        ("unsigned_long", "300000"),
    ],
)
def test_documents_of_one_position_are_read_once(
    server: SearchServer, index: str, kind: str, keep_alive: str
) -> None:
    if kind == "unsigned_long" and server.product == "elasticsearch":
        pytest.skip("its unsigned_long module is not available")
    make(server, index, at=kind)
    numbers = range(400)
    put(server, index, {str(n): {"at": 1_700_000_000_000 + n // 100} for n in numbers})
    put(server, index, {"without": {}})
    server.request("POST", f"/{index}/_refresh")
    settings = {
        "position.field": "at",
        "batch.size": "30",
        "point.in.time.keep.alive.ms": keep_alive,
    }
    task = Task(server, index, **settings)
    read: list[str] = []
    while found := task.read(enough=40):
        read += [key for _, key, _ in found]
    assert sorted(read, key=int) == [str(n) for n in numbers]
    put(server, index, {"late": {"at": 1}, "new": {"at": 1_800_000_000_000}})
    server.request("POST", f"/{index}/_refresh")
    assert [key for _, key, _ in task.read()] == ["new"]


@pytest.mark.parametrize(("kind", "field"), [("date", "at"), ("long", "at"), ("long", "_seq_no")])
def test_late_documents_are_waited_for(
    server: SearchServer, index: str, kind: str, field: str
) -> None:
    make(server, index, at=kind)
    task = Task(server, index, position_field=field, delay_ms="1000", fields="at")
    (plan,) = task.plans()
    now = [1_700_000_001_500]
    opened: Any = task.connector.open(plan, SourceContextStub())
    clock = lambda: now[0]  # noqa: E731
    opened._clock = clock
    for pages in opened._waiting:
        pages._clock = clock
    with_delay: list[str] = []

    def read() -> list[str]:
        now[0] += 10
        keys: list[str] = []
        while (polled := opened.poll(1_000, 0)) is not None:
            keys += polled.records.keys.values
        with_delay.extend(keys)
        return keys

    put(server, index, {"1": {"at": 1_700_000_000_001}, "3": {"at": 1_700_000_001_003}})
    server.request("POST", f"/{index}/_refresh")
    assert read() == (["1"] if kind == "date" else [])
    put(server, index, {"2": {"at": 1_700_000_001_002}})
    server.request("POST", f"/{index}/_refresh")
    assert read() == []
    now[0] += 985
    assert (
        read()
        == {
            "date": ["2", "3"],
            "long": ["1", "2", "3"] if field == "at" else ["1", "3"],
        }[kind]
    )
    now[0] += 1_000
    assert read() == ([] if field == "at" else ["2"])
    assert sorted(with_delay) == ["1", "2", "3"]
    opened.close()


def test_a_query_and_fields_choose(server: SearchServer, index: str) -> None:
    make(server, index)
    put(server, index, {str(n): {"n": n, "x": {"y": 1, "z": 2}} for n in range(10)})
    task = Task(server, index, query='{"range":{"n":{"gte":8}}}', fields="x.y")
    assert [(key, value) for _, key, value in task.read()] == [
        ("8", {"x": {"y": 1}}),
        ("9", {"x": {"y": 1}}),
    ]


def test_timestamps_and_topics_of_data_streams(server: SearchServer, index: str) -> None:
    if server.product == "elasticsearch":
        pytest.skip("its data stream module is not available")
    server.request(
        "PUT",
        f"/_index_template/{index}",
        {"index_patterns": [f"logs-{index}*"], "data_stream": {}, "priority": 500},
    )
    name = f"logs-{index}"
    server.request("PUT", f"/_data_stream/{name}")
    for at in (5, 4, 6):
        server.request("POST", f"/{name}/_doc?refresh=true", {"@timestamp": at})
    server.request("POST", f"/{name}/_rollover")
    server.request("POST", f"/{name}/_doc?refresh=true", {"@timestamp": 7})
    task = Task(server, f"{name}*", position_field="@timestamp")
    (plan,) = task.plans()
    opened = task.connector.open(plan, SourceContextStub())
    times: list[int | None] = []
    while (polled := opened.poll(10_000, 0)) is not None:
        assert set(polled.records.topics) == {name}
        times += polled.records.timestamps
    opened.close()
    assert sorted(times, key=lambda at: at or 0) == [4, 5, 6, 7]


def test_nothing_is_missed_while_others_write(server: SearchServer, index: str) -> None:
    make(server, index, shards=2)
    total, writers = 8_000, 4
    task = Task(server, index)
    (plan,) = task.plans()

    def write(first: int) -> None:
        for start in range(first, total, writers * 50):
            put(server, index, {str(n): {"n": n} for n in range(start, min(start + 50, total))})

    threads = [threading.Thread(target=write, args=(n * 50,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    opened = task.connector.open(plan, SourceContextStub())
    read: list[Any] = []
    while any(thread.is_alive() for thread in threads) or len(read) < total:
        polled = opened.poll(100_000, 200)
        if polled is None:
            assert any(thread.is_alive() for thread in threads), f"{len(read)} were read"
            continue
        read += polled.records.keys.values
    assert opened.poll(100_000, 0) is None
    opened.close()
    assert len(read) == total
    assert len(set(read)) == total


def test_points_in_time_that_are_gone_are_opened_again(server: SearchServer, index: str) -> None:
    make(server, index)
    put(server, index, {str(n): {"n": n} for n in range(500)})
    task = Task(server, index, batch_size="50")
    (plan,) = task.plans()
    opened: Any = task.connector.open(plan, SourceContextStub())
    read: list[Any] = []
    while (polled := opened.poll(100, 0)) is not None:
        for pages in opened._waiting:
            if pages._point is not None:
                opened._points.close(pages._point)
        read += polled.records.keys.values
    opened.close()
    assert sorted(read, key=int) == [str(n) for n in range(500)]


def test_unreadable_input_is_reported(server: SearchServer, index: str) -> None:
    connector = SOURCES[server.product]()

    def reported(**changes: str) -> dict[str, str]:
        settings = {name.replace("_", "."): value for name, value in changes.items()}
        config = connector.plugin.config.parse({"connection.url": server.url, **settings})
        return {each.setting: str(each.error) for each in connector.validate_live(config)}

    make(server, index, name="keyword")
    assert reported(indices=f"{index},nothing-*") == {}
    assert "There is no index" in reported(indices="nowhere")["indices"]
    assert "type keyword" in reported(indices=index, position_field="name")["position.field"]
    server.request("PUT", f"/{index}-x", {"mappings": {"_source": {"enabled": False}}})
    put(server, f"{index}-x", {"1": {}})
    with pytest.raises(PenstockError, match="_source"):
        Task(server, f"{index}-x").read()


def test_offsets_can_be_altered(index: str) -> None:
    connector = ElasticsearchSource()
    config = connector.plugin.config.parse({"connection.url": "http://x", "indices": index})
    place: dict[str, Primitive] = {"index": index, "shard": 0}
    assert connector.alter_offsets(config, [SourceOffset(place, {"seq_no": 7})])
    assert connector.alter_offsets(config, [SourceOffset({"anything": 1}, None)])
    wrong: list[tuple[Mapping[str, Primitive], Mapping[str, Primitive]]] = [
        ({"index": index}, {"seq_no": 7}),
        (place, {"seq_no": "7"}),
        (place, {"seq_no": 7, "value": 3}),
        (place, {"value": 3, "field": "at"}),
    ]
    for partition, offset in wrong:
        with pytest.raises(PenstockError, match="objects should"):
            connector.alter_offsets(config, [SourceOffset(partition, offset)])
