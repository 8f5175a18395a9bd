"""The polling HTTP source, against the suite's own server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, ClassVar

import pytest

from penstock.api import Offsets, PenstockError, Records, SourceOffset, SourceReader
from penstock.connectors.http.source import CastormHttpSource
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub
from tests.servers.web import WebServer

NUMBERS = count()
LIST = {
    "http.response.list.pointer": "/items",
    "http.response.record.offset.pointer": "key=/id, timestamp=/time",
    "http.timer.interval.millis": "20",
    "http.timer.catchup.interval.millis": "20",
    "http.client.read.timeout.millis": "20000",
    "kafka.topic": "t",
}


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"s{next(NUMBERS)}"


def items(numbers: range) -> list[dict[str, Any]]:
    return [{"id": n, "time": 1_700_000_000_000 + n, "text": f"item {n}"} for n in numbers]


class Conformance(SourceConformance):
    resumes_within_polls = True
    connector = CastormHttpSource
    server: ClassVar[WebServer]
    more: ClassVar[dict[str, str]] = {}

    @pytest.fixture(autouse=True)
    def _server(self, server: WebServer) -> None:
        type(self).server = server
        self.name = f"c{next(NUMBERS)}"

    def config(self) -> dict[str, str]:
        return {"http.request.url": f"{self.server.url}/items/{self.name}", **LIST, **self.more}

    def add(self, numbers: range) -> None:
        self.server.add(self.name, items(numbers))


class TestSource(Conformance):
    bad_configs = (
        ({"http.request.url": None}, "http.request.url"),
        ({"http.request.url": "ftp://x"}, "http.request.url"),
        ({"kafka.topic": None}, "kafka.topic"),
        ({"http.response.list.pointer": "items"}, "http.response.list.pointer"),
        ({"http.response.record.offset.pointer": "key"}, "http.response.record.offset.pointer"),
        ({"http.request.params": "a=${offset.key"}, "http.request.params"),
        ({"http.request.body": "<#if x>"}, "http.request.body"),
        ({"http.request.params": "a=${offset.key?eval}"}, "eval"),
        ({"http.response.policy.codes.skip": "3xx"}, "http.response.policy.codes.skip"),
        ({"http.response.record.timestamp.parser": "my.Parser"}, "timestamp.parser"),
        ({"http.response.record.timestamp.parser.pattern": "yyyy-QQ"}, "parser.pattern"),
        ({"http.response.record.timestamp.parser.zone": "Mars"}, "parser.zone"),
        ({"http.auth.type": "Basic"}, "http.auth.user"),
        ({"penstock.http.page.mode": "next"}, "penstock.http.page.pointer"),
        ({"http.client.keystore": "/nowhere"}, "ssl.keystore.location"),
        ({"http.offset.initial": "x"}, "http.offset.initial"),
    )


class TestOffsetsInTheRequest(Conformance):
    more: ClassVar = {"http.request.params": "after=${offset.key!'-1'}"}


class TestPages(Conformance):
    more: ClassVar = {
        "http.request.params": "limit=7",
        "penstock.http.page.mode": "link",
        "http.response.list.order.direction": "ASC",
        "http.response.record.mapper": "StringKvSourceRecordMapper",
    }


class Task:
    def __init__(self, stored: Offsets = (), **given: str) -> None:
        connector = CastormHttpSource()
        settings = {key.replace("_", "."): value for key, value in given.items()}
        config = connector.plugin.config.parse({**LIST, **settings})
        connector.plan_tasks(config, 1)
        self.context = SourceContextStub(stored)
        self.reader: SourceReader = connector.open(config, self.context)
        self.offset: dict[str, Any] = {}

    def read(self, wanted: int, timeout_s: float = 10.0) -> list[Any]:
        """This many values, and those read with them."""
        found: list[Any] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < wanted and time.monotonic() < deadline:
            found += self.poll()
        return found

    def poll(self, wait_ms: int = 50) -> list[Any]:
        polled = self.reader.poll(1 << 20, wait_ms)
        if polled is None:
            return []
        self.offset = dict(polled.offsets[-1].offset or {})
        assert polled.offsets[-1].partition == {}
        self.records: Records = polled.records
        return list(polled.records.values.values)


Make = Callable[..., Task]


@pytest.fixture
def task() -> Iterator[Make]:
    made: list[Task] = []

    def make(stored: Offsets = (), **given: str) -> Task:
        made.append(Task(stored, **given))
        return made[-1]

    yield make
    for each in made:
        each.reader.close()


def test_records_and_offsets_are_castorms(server: WebServer, task: Make, name: str) -> None:
    server.add(name, items(range(2)))
    source = task(http_request_url=f"{server.url}/items/{name}")
    assert source.read(2)[1] == {
        "value": '{"id":1,"time":1700000000001,"text":"item 1"}',
        "key": "1",
        "timestamp": 1_700_000_000_001,
    }
    assert source.offset == {"key": "1", "timestamp": "2023-11-14T22:13:20.001Z"}
    assert source.records.keys.values[0] == {"key": "0"}
    assert source.records.keys.runs[0].schema is not None
    assert source.records.keys.runs[0].schema.name == "com.github.castorm.kafka.connect.http.Key"
    assert source.records.timestamps == [1_700_000_000_000, 1_700_000_000_001]


def test_an_offset_of_the_jvm_connector_is_resumed(
    server: WebServer, task: Make, name: str
) -> None:
    server.add(name, items(range(10)))
    stored = {"key": "6", "timestamp": "2023-11-14T22:13:20.006Z"}
    source = task([SourceOffset({}, stored)], http_request_url=f"{server.url}/items/{name}")
    assert [value["key"] for value in source.read(3)] == ["7", "8", "9"]
    assert source.poll() == []


@pytest.mark.parametrize(
    "settings",
    [
        {"penstock.http.page.mode": "link"},
        {"penstock.http.page.mode": "next", "penstock.http.page.pointer": "/next"},
        {
            "penstock.http.page.mode": "cursor",
            "penstock.http.page.pointer": "/cursor",
            "penstock.http.page.parameter": "cursor",
        },
        {"penstock.http.page.mode": "page"},
    ],
    ids=lambda settings: settings["penstock.http.page.mode"],
)
@pytest.mark.parametrize("direction", ["ASC", "DESC", "IMPLICIT"])
def test_all_pages_are_read(
    server: WebServer, task: Make, name: str, settings: dict[str, str], direction: str
) -> None:
    listed = items(range(1_000))
    server.add(name, list(reversed(listed)) if direction == "DESC" else listed)
    url = f"{server.url}/items/{name}?limit=60"
    given = {"http.response.list.order.direction": direction, **settings}
    source = task(http_request_url=url, **given)
    assert [int(value["key"]) for value in source.read(1_000)] == list(range(1_000))
    assert source.poll() == []


def test_pages_without_end_are_refused(server: WebServer, task: Make, name: str) -> None:
    given = {"penstock.http.page.mode": "next", "penstock.http.page.pointer": "/next"}
    source = task(http_request_url=f"{server.url}/endless", **given)
    with pytest.raises(PenstockError, match=r"penstock\.http\.page\.mode"):
        source.read(1_000)
    server.add(name, items(range(50)))
    given |= {"penstock.http.page.max": "3", "http.response.list.order.direction": "ASC"}
    source = task(http_request_url=f"{server.url}/items/{name}?limit=5", **given)
    with pytest.raises(PenstockError, match=r"penstock\.http\.page\.max"):
        source.read(1_000)


def test_an_answer_that_has_not_changed_is_not_sent_again(
    server: WebServer, task: Make, name: str
) -> None:
    server.add(name, items(range(3)))
    source = task(http_request_url=f"{server.url}/etag/{name}")
    assert len(source.read(3)) == 3
    assert source.poll(100) == []
    server.add(name, items(range(3, 4)))
    assert [value["key"] for value in source.read(1)] == ["3"]
    reads = server.taken(f"read-{name}")
    assert "if-none-match" not in reads[0]["headers"]
    assert reads[1]["headers"]["if-none-match"] == '"3"'


def test_intervals_are_kept_to(server: WebServer, task: Make, name: str) -> None:
    source = task(http_request_url=f"{server.url}/items/{name}", http_timer_interval_millis="400")
    began = time.monotonic()
    while time.monotonic() - began < 1.5:
        assert source.poll(100) == []
    assert 3 <= len(server.taken(f"read-{name}")) <= 5


def test_a_source_that_is_behind_polls_at_the_shorter_interval(
    server: WebServer, task: Make, name: str
) -> None:
    server.add(name, items(range(40)))
    source = task(
        http_request_url=f"{server.url}/items/{name}?limit=10",
        http_request_params="after=${offset.key!'-1'}",
        http_timer_interval_millis="60000",
        http_timer_catchup_interval_millis="10",
    )
    assert len(source.read(40)) == 40


def test_a_limit_of_the_rate(server: WebServer, task: Make, name: str) -> None:
    server.add(name, items(range(10)))
    given = {
        "penstock.http.page.mode": "link",
        "penstock.http.requests.per.second": "10",
        "http.response.list.order.direction": "ASC",
    }
    source = task(http_request_url=f"{server.url}/items/{name}?limit=2", **given)
    began = time.monotonic()
    assert len(source.read(10)) == 10
    assert time.monotonic() - began >= 0.35


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server: WebServer, task: Make, name: str, code: int) -> None:
    given = {"penstock.http.retry.backoff.ms": "10", "http.response.list.pointer": "/"}
    given["http.response.record.offset.pointer"] = ""
    source = task(http_request_url=f"{server.url}/flaky/2/{code}/{name}", **given)
    for _ in range(2):
        with pytest.raises(PenstockError, match=str(code)) as caught:
            source.read(1)
        assert caught.value.retriable
    assert len(source.read(1)) == 1


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 418, 451])
def test_a_refusal_fails_the_task_unless_it_is_left_out(
    server: WebServer, task: Make, name: str, code: int
) -> None:
    url = f"{server.url}/status/{code}/{name}"
    with pytest.raises(PenstockError, match=r"codes\.skip") as caught:
        task(http_request_url=url).read(1)
    assert not caught.value.retriable
    assert task(http_request_url=url, http_response_policy_codes_skip="400..499").poll() == []


@pytest.mark.parametrize(
    ("path", "settings", "reported"),
    [
        ("text", {}, "no JSON"),
        ("items/bad", {"http.response.list.pointer": "/nothing"}, "list.pointer"),
        ("items/bad", {"http.response.record.pointer": "/nothing"}, "record.pointer"),
        ("items/bad", {"http.response.record.key.pointer": "/nothing"}, "record.key.pointer"),
        ("items/bad", {"http.response.record.timestamp.pointer": "/text"}, "timestamp.parser"),
        ("items/bad", {"http.response.record.offset.pointer": "key=/no"}, "offset.pointer"),
        ("items/bad", {"http.request.params": "a=${offset.page}"}, "http.offset.initial"),
        ("items/bad", {"http.offset.initial": "timestamp=soon"}, "http.offset.initial"),
        ("large/3000", {"penstock.http.max.response.bytes": "2999"}, "max.response.bytes"),
    ],
)
def test_an_unreadable_response_names_the_setting(
    server: WebServer, task: Make, path: str, settings: dict[str, str], reported: str
) -> None:
    server.add("bad", items(range(1)))
    source = task(http_request_url=f"{server.url}/{path}", **settings)
    with pytest.raises(PenstockError, match=reported) as caught:
        source.read(1, 2)
    assert not caught.value.retriable


def test_authentication(server: WebServer, task: Make, name: str) -> None:
    given = {"http.response.list.pointer": "/", "http.response.record.offset.pointer": ""}
    known = {"http.auth.type": "Basic", "http.auth.user": "me", "http.auth.password": "secret"}
    assert task(http_request_url=f"{server.url}/basic/{name}", **given, **known).read(1)
    oauth = {
        "http.auth.type": "OAuth2",
        "penstock.http.oauth2.token.url": f"{server.url}/token",
        "penstock.http.oauth2.client.id": "id",
        "penstock.http.oauth2.client.secret": "secret",
    }
    source = task(http_request_url=f"{server.url}/bearer/{name}", **given, **oauth)
    assert source.read(1)
    server.forget_tokens()
    assert source.read(1)
