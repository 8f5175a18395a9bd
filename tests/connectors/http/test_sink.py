"""Requests of the HTTP sinks and what answers cause, against the suite's own servers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any, ClassVar

import pytest

from penstock.api import ConfigInvalid, Failed, Header, PenstockError, Records
from penstock.api.schema import STRING
from penstock.connectors.http.sink import AivenHttpSink, ConfluentHttpSink, LensesHttpSink
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from tests.servers.web import WebServer

from .sinks import Make, rows, tasks

NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"n{next(NUMBERS)}"


class Conformance(SinkConformance):
    ordered = True
    server: ClassVar[WebServer]
    path = "refuse/bad"

    @pytest.fixture(autouse=True)
    def _server(self, server: WebServer, request: pytest.FixtureRequest) -> Iterator[None]:
        type(self).server = server
        self.base = server.url
        self.authenticates = "fatal" in request.node.name
        if self.authenticates:
            self.path = "bearer"
        self.name = f"c{next(NUMBERS)}"
        self.proxy = Proxy(server.port)
        with self.proxy:
            yield

    def config(self) -> dict[str, str]:
        return {
            "http.api.url": f"{self.base}/{self.path}/{self.name}",
            "max.retries": "1",
            "retry.backoff.ms": "10",
            "retry.on.status.codes": "500-",
            "behavior.on.null.values": "fail",
            **(self.access() if self.authenticates else {}),
        }

    def access(self) -> dict[str, str]:
        """Settings for tokens."""
        return {
            "auth.type": "oauth2",
            "oauth2.token.url": f"{self.server.url}/token",
            "oauth2.client.id": "id",
            "oauth2.client.secret": "secret",
        }

    def contents(self) -> list[Any]:
        return self.server.bodies(self.name)

    def bad_records(self) -> Records | None:
        return records_of(["bad 1", "bad 2"], schema=STRING, keys=["b1", "b2"], key_schema=STRING)

    def unreachable_target(self) -> AbstractContextManager[None] | None:
        self.base = f"http://127.0.0.1:{self.proxy.port}"

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
        """The token is not valid any more, and there is no other."""
        self.server.refuse("token", ["grant_type"])
        self.server.forget_tokens()
        try:
            yield
        finally:
            self.server.refuse("token", [])


class TestConfluentSink(Conformance):
    connector = ConfluentHttpSink
    bad_configs = (
        ({"http.api.url": None}, "http.api.url"),
        ({"http.api.url": "ftp://x"}, "http.api.url"),
        ({"http.api.url": "http://x/${key"}, "http.api.url"),
        ({"request.method": "SHOUT"}, "request.method"),
        ({"headers": "no colon"}, "headers"),
        ({"auth.type": "basic"}, "connection.user"),
        ({"auth.type": "oauth2"}, "oauth2.token.url"),
        ({"retry.on.status.codes": "abc"}, "retry.on.status.codes"),
        ({"batch.max.size": "0"}, "batch.max.size"),
        ({"batch.json.as.array": "true"}, "request.body.format"),
        ({"regex.patterns": "a~b", "regex.replacements": "c"}, "regex.replacements"),
        ({"regex.patterns": "(", "regex.replacements": "c"}, "regex.patterns"),
        ({"https.ssl.truststore.location": "/nowhere"}, "https.ssl.truststore.location"),
        ({"penstock.http.version": "2"}, "penstock.http.version"),
        ({"penstock.http.order": "any"}, "penstock.http.order"),
        ({"penstock.http.api.key.name": "X"}, "penstock.http.api.key.value"),
        (
            {"reporter.bootstrap.servers": "x:1", "reporter.producer.interceptor.classes": "x"},
            "interceptor.classes",
        ),
    )


class TestAivenSink(Conformance):
    connector = AivenHttpSink
    bad_configs = (
        ({"http.url": None}, "http.url"),
        ({"http.authorization.type": None}, "http.authorization.type"),
        ({"http.authorization.type": "static"}, "http.headers.authorization"),
        ({"http.authorization.type": "oauth2"}, "oauth2.access.token.url"),
        ({"http.headers.additional": "x"}, "http.headers.additional"),
        ({"http.headers.additional": "a:1,A:2"}, "http.headers.additional"),
        ({"http.proxy.host": "x"}, "http.proxy.port"),
        ({"oauth2.token.renew.on.status.codes": "x"}, "oauth2.token.renew.on.status.codes"),
    )

    def config(self) -> dict[str, str]:
        return {
            "http.url": f"{self.base}/{self.path}/{self.name}",
            "http.authorization.type": "none",
            "max.retries": "0",
            "retry.backoff.ms": "10",
            **(self.access() if self.authenticates else {}),
        }

    def access(self) -> dict[str, str]:
        return {
            "http.authorization.type": "oauth2",
            "oauth2.access.token.url": f"{self.server.url}/token",
            "oauth2.client.id": "id",
            "oauth2.client.secret": "secret",
        }


class TestLensesSink(Conformance):
    connector = LensesHttpSink
    bad_configs = (
        ({"connect.http.endpoint": None}, "connect.http.endpoint"),
        ({"connect.http.request.content": "{{nothing}}"}, "connect.http.request.content"),
        ({"connect.http.request.content": "{{value"}, "connect.http.request.content"),
        ({"connect.http.request.content": "{{#message}}x"}, "connect.http.request.content"),
        ({"connect.http.batch.count": "5"}, "connect.http.batch.count"),
        ({"connect.http.null.payload.handler": "x"}, "connect.http.null.payload.handler"),
        ({"connect.reporting.error.config.enabled": "true"}, "bootstrap.servers"),
    )

    def config(self) -> dict[str, str]:
        return {
            "connect.http.endpoint": f"{self.base}/{self.path}/{self.name}",
            "connect.http.request.content": "{{value}}",
            "connect.http.retries.max.retries": "0",
            **(self.access() if self.authenticates else {}),
        }

    def access(self) -> dict[str, str]:
        prefix = "connect.http.authentication"
        return {
            f"{prefix}.type": "oauth2",
            f"{prefix}.oauth2.token.url": f"{self.server.url}/token",
            f"{prefix}.oauth2.client.id": "id",
            f"{prefix}.oauth2.client.secret": "secret",
        }


@pytest.fixture
def task() -> Iterator[Make]:
    with tasks() as make:
        yield make


def test_templates_make_urls_headers_and_bodies(server: WebServer, task: Make, name: str) -> None:
    sink = task(
        f"{server.url}/take/{name}/${{topic}}/${{key}}?n=${{name}}",
        request_method="PUT",
        request_body_format="json",
        headers="X-Id: ${id}|X-Trace: ${header.trace}",
    )
    batch = rows(range(1), topic="t/1 ü")
    batch.headers = [[Header("trace", "abc")]]
    assert sink.write(batch) == {}
    (taken,) = server.taken(name)
    assert taken["method"] == "PUT"
    assert taken["path"] == f"/take/{name}/t/1 ü/k0"
    assert taken["query"] == "n=name%200"
    assert taken["headers"]["x-id"] == "0"
    assert taken["headers"]["x-trace"] == "abc"
    assert taken["headers"]["content-type"] == "application/json"
    assert json.loads(taken["body"]) == {"id": 0, "name": "name 0"}


def test_a_record_that_a_template_does_not_fit_costs_only_itself(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(f"{server.url}/take/{name}/${{city}}", request_body_format="json")
    values = [{"city": "Graz"}, {"town": "Pau"}, {"city": None}, {"city": "Łódź"}, "text"]
    reported = sink.write(records_of(values))
    assert set(reported) == {1, 2, 4}
    assert "city" in reported[1]
    assert len(server.taken(name)) == 2


@pytest.mark.parametrize("tolerates", [True, False])
@pytest.mark.parametrize(
    ("settings", "bad"),
    [({}, "bad"), ({"request.body.format": "json", "headers": "X: ${id}"}, {"no": "id"})],
    ids=["server", "template"],
)
def test_no_record_after_a_refused_one_is_sent_unless_errors_are_tolerated(
    server: WebServer, task: Make, name: str, tolerates: bool, settings: dict[str, str], bad: Any
) -> None:
    url = f"{server.url}/refuse/bad/{name}"
    sink = task(url, tolerates_errors=tolerates, max_retries="0", **settings)
    good: list[Any] = [{"id": number} for number in range(4)] if settings else list("abcd")
    assert set(sink.write(records_of([*good[:2], bad, *good[2:]]))) == {2}
    assert len(server.bodies(name)) == (4 if tolerates else 2)


@pytest.mark.parametrize(
    ("settings", "bodies"),
    [
        ({"batch.max.size": "3"}, ["0,1,2", "3,4,5", "6"]),
        (
            {"batch.max.size": "4", "batch.json.as.array": "true", "request.body.format": "json"},
            ['["0","1","2","3"]', '["4","5","6"]'],
        ),
        (
            {"batch.max.size": "9", "batch.separator": "\n", "batch.suffix": "\n"},
            ["0\n1\n2\n3\n4\n5\n6\n"],
        ),
        (
            {"batch.max.size": "9", "penstock.http.max.request.bytes": "4"},
            ["0,1", "2,3", "4,5", "6"],
        ),
    ],
)
def test_batches(
    server: WebServer, task: Make, name: str, settings: dict[str, str], bodies: list[str]
) -> None:
    sink = task(f"{server.url}/take/{name}", **settings)
    assert sink.write(records_of([str(number) for number in range(7)])) == {}
    assert server.bodies(name) == bodies


def test_a_deletion_comes_after_what_was_before_it(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(
        f"{server.url}/take/{name}/x", behavior_on_null_values="delete", batch_max_size="10"
    )
    sink.write(records_of(["a", "b", None, "c"], keys=["k", "k", "k", "k"]))
    assert [(each["method"], each["body"]) for each in server.taken(name)] == [
        ("POST", "a,b"),
        ("DELETE", ""),
        ("POST", "c"),
    ]


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_thousands_of_requests_arrive_once_and_in_order(
    server: WebServer, task: Make, name: str, order: str
) -> None:
    sink = task(f"{server.url}/take/{name}", penstock_http_order=order)
    total = 2_000
    batch = records_of([str(n) for n in range(total)], keys=[f"k{n % 7}" for n in range(total)])
    batch.partitions = [n % 3 for n in range(total)]
    assert sink.write(batch) == {}
    seen = [int(body) for body in server.bodies(name)]
    assert sorted(seen) == list(range(total))
    lanes: Any = {
        "partition": lambda n: n % 3,
        "key": lambda n: (n % 3, n % 7),
        "none": lambda n: n,
    }
    for lane in {lanes[order](n) for n in range(total)}:
        mine = [n for n in seen if lanes[order](n) == lane]
        assert mine == sorted(mine)


@pytest.mark.parametrize("code", ["408", "429", "500", "502", "503", "504", "404"])
def test_a_status_that_passes_costs_nothing(
    server: WebServer, task: Make, name: str, code: str
) -> None:
    sink = task(f"{server.url}/flaky/3/{code}/{name}", max_retries="3")
    assert sink.write(rows(range(4))) == {}
    assert len(server.taken(name)) == 4


def test_retry_after_is_waited_for(server: WebServer, task: Make, name: str) -> None:
    sink = task(f"{server.url}/flaky/1/429/{name}?after=1", max_retries="1")
    began = time.monotonic()
    assert sink.write(rows(range(1))) == {}
    assert time.monotonic() - began >= 1


def test_a_limit_of_the_rate_is_kept_to(server: WebServer, task: Make, name: str) -> None:
    sink = task(f"{server.url}/limited/20/{name}", max_retries="5", penstock_http_order="none")
    assert sink.write(rows(range(45))) == {}
    assert len(server.taken(name)) == 45


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 410, 413, 418, 422, 451])
def test_a_refusal_is_of_its_record(server: WebServer, task: Make, name: str, code: int) -> None:
    sink = task(f"{server.url}/status/{code}/{name}", retry_on_status_codes="500-")
    reported = sink.write(rows(range(2)))
    assert set(reported) == {0, 1}
    assert str(code) in reported[0]


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_stays_busy_is_waited_for(
    server: WebServer, task: Make, name: str, code: int
) -> None:
    sink = task(f"{server.url}/status/{code}/{name}", max_retries="1")
    with pytest.raises(PenstockError, match=str(code)) as caught:
        sink.write(rows(range(1)))
    assert caught.value.retriable


def test_a_server_that_stays_busy_costs_records_if_errors_are_ignored(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(f"{server.url}/status/503/{name}", max_retries="1", behavior_on_error="ignore")
    assert sink.write(rows(range(1))) == {}


def test_records_accepted_before_a_failure_are_not_sent_again(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(f"{server.url}/${{url}}", max_retries="0")
    values = [
        {"url": f"take/{name}"},
        {"url": f"take/{name}"},
        {"url": f"flaky/1/503/{name}"},
        {"url": f"take/{name}"},
    ]
    batch = records_of(values)
    with pytest.raises(PenstockError):
        sink.write(batch)
    assert len(server.taken(name)) == 2
    assert sink.write(batch) == {}
    assert len(server.taken(name)) == 4


def test_a_refused_batch_is_divided(server: WebServer, task: Make, name: str) -> None:
    sink = task(
        f"{server.url}/refuse/bad/{name}",
        batch_max_size="100",
        retry_on_status_codes="500-",
        penstock_http_batch_divide="true",
    )
    values = ["bad" if n in (17, 63) else f"good{n}" for n in range(100)]
    assert set(sink.write(records_of(values))) == {17, 63}
    sent = [text for body in server.bodies(name) for text in body.split(",")]
    assert sent == [value for value in values if value != "bad"]


@pytest.mark.parametrize("tolerates", [True, False])
def test_no_part_of_a_divided_batch_follows_a_refused_record_unless_errors_are_tolerated(
    server: WebServer, task: Make, name: str, tolerates: bool
) -> None:
    sink = task(
        f"{server.url}/refuse/bad/{name}",
        tolerates_errors=tolerates,
        batch_max_size="100",
        retry_on_status_codes="500-",
        penstock_http_batch_divide="true",
    )
    values = ["bad" if n == 17 else f"good{n}" for n in range(100)]
    assert set(sink.write(records_of(values))) == {17}
    sent = [text for body in server.bodies(name) for text in body.split(",")]
    assert sent == (values[:17] + values[18:] if tolerates else values[:17])


def test_a_refused_batch_that_is_not_divided_is_refused_as_a_whole(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(f"{server.url}/refuse/bad/{name}", batch_max_size="4", retry_on_status_codes="500-")
    values = ["bad" if n == 5 else f"good{n}" for n in range(12)]
    assert set(sink.write(records_of(values))) == {4, 5, 6, 7}


def test_a_packed_answer_counts_by_what_is_in_it(server: WebServer, task: Make) -> None:
    sink = task(f"{server.url}/packed/1000000", penstock_http_max_response_bytes="500000")
    assert "penstock.http.max.response.bytes" in sink.write(rows(range(1)))[0]


def test_a_payload_over_the_limit_is_refused(server: WebServer, task: Make, name: str) -> None:
    sink = task(f"{server.url}/take/{name}", penstock_http_max_request_bytes="100")
    reported = sink.write(records_of(["short", "x" * 101, "also short"]))
    assert set(reported) == {1}
    assert "penstock.http.max.request.bytes" in reported[1]
    assert server.bodies(name) == ["short", "also short"]


def test_an_answer_over_the_limit_is_refused(server: WebServer, task: Make) -> None:
    sink = task(f"{server.url}/large/5000", penstock_http_max_response_bytes="4999")
    assert "penstock.http.max.response.bytes" in sink.write(rows(range(1)))[0]
    assert task(f"{server.url}/large/4999").write(rows(range(1))) == {}


def test_line_breaks_in_headers_are_refused(server: WebServer, task: Make, name: str) -> None:
    sink = task(f"{server.url}/take/{name}", headers="X-Name: ${name}", max_retries="0")
    reported = sink.write(records_of([{"name": "a\r\nX-Evil: 1"}, {"name": "b"}]))
    assert set(reported) == {0}
    assert "X-Name" in reported[0]


def test_a_slow_server_times_out_and_gets_it_again(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(f"{server.url}/slow/2000/{name}", http_request_timeout_ms="100", max_retries="0")
    with pytest.raises(PenstockError, match="/slow/") as caught:
        sink.write(rows(range(1)))
    assert caught.value.retriable


def test_a_task_that_is_stopped_does_not_wait_for_its_pauses(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(f"{server.url}/status/503/{name}", retry_backoff_ms="60000")
    threading.Timer(0.3, sink.context.stop).start()
    began = time.monotonic()
    with pytest.raises(PenstockError, match="stopped"):
        sink.write(rows(range(1)))
    assert time.monotonic() - began < 5


def test_values_are_replaced_by_patterns(server: WebServer, task: Make, name: str) -> None:
    sink = task(
        f"{server.url}/take/{name}",
        regex_patterns=r"(\d+)-(\d+)~secret",
        regex_replacements="$2-$1~${key}",
    )
    sink.write(records_of(["12-34 secret"], keys=["k"]))
    assert server.bodies(name) == ["34-12 k"]


def test_aivens_batches_and_json(server: WebServer, task: Make, name: str) -> None:
    given = {
        "http.url": f"{server.url}/take/{name}",
        "http.authorization.type": "static",
        "http.headers.authorization": "Token x",
        "http.headers.additional": "A:1,B: 2",
        "batching.enabled": "true",
        "batch.prefix": "<",
        "batch.suffix": "\\n>",
    }
    sink = task("", AivenHttpSink(), **given)
    reported = sink.write(records_of([{"a": 1}, "text", None, 5]))
    assert set(reported) == {2, 3}
    (taken,) = server.taken(name)
    assert taken["body"] == '<{"a":1}\ntext\n>'
    assert taken["headers"]["authorization"] == "Token x"
    assert (taken["headers"]["a"], taken["headers"]["b"]) == ("1", "2")


def test_lenses_loops_and_nulls(server: WebServer, task: Make, name: str) -> None:
    given = {
        "connect.http.endpoint": f"{server.url}/take/{name}/{{{{topic}}}}",
        "connect.http.request.content": '{"all":[{{#message}}{"n":"{{value.n}}"},{{/message}}]}',
        "connect.http.batch.count": "2",
        "connect.http.json.tidy": "true",
        "connect.http.null.payload.handler": "custom",
        "connect.http.null.payload.handler.custom": "none",
        "connect.http.request.headers": "X-Topic:{{topic}}",
    }
    sink = task("", LensesHttpSink(), **given)
    assert sink.write(records_of([{"n": 1}, {"n": None}, {"n": 3}])) == {}
    assert [json.loads(body) for body in server.bodies(name)] == [
        {"all": [{"n": "1"}, {"n": "none"}]},
        {"all": [{"n": "3"}]},
    ]
    assert server.taken(name)[0]["headers"]["x-topic"] == "conformance"


def test_settings_are_checked_before_a_task_starts() -> None:
    connector = ConfluentHttpSink()
    with pytest.raises(ConfigInvalid, match=r"connection\.user"):
        connector.plugin.config.parse({"http.api.url": "http://x", "auth.type": "basic"})


def test_the_preview_tells_requests_and_sends_none() -> None:
    connector = ConfluentHttpSink()
    reported: list[str] = []
    config = connector.plugin.config.parse(
        {"http.api.url": "http://nowhere.test/${key}", "batch.max.size": "2"}
    )
    writer = connector.open_preview(config, SinkContextStub(), reported.append)
    failed: Failed = {}
    writer.write(records_of(["a", "b"], keys=["k", "k"]), failed)
    assert reported == ["POST http://nowhere.test/k a,b"]
