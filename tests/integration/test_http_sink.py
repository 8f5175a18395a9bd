"""The HTTP sinks, against the suite's own servers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock.api import ConfigInvalid, Failed, Header, PenstockError, Records, SinkWriter
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.http.sink import AivenHttpSink, ConfluentHttpSink, LensesHttpSink
from penstock.testing.certificates import Authority
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.proxy import Proxy
from penstock.testing.web import WebServer

NUMBERS = count()
ROW = struct({"id": INT64, "name": STRING.as_optional()}, name="row")


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
    def _server(self, server: WebServer) -> Iterator[None]:
        type(self).server = server
        self.base = server.url
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
        }


class Task:
    """A writer, and what it reports."""

    def __init__(self, url: str, connector: Any = None, **given: str) -> None:
        settings = {key.replace("_", "."): value for key, value in given.items()}
        self.connector = connector or ConfluentHttpSink()
        base = {"http.api.url": url, "retry.backoff.ms": "10"}
        if connector is not None:
            base = {}
        self.config = self.connector.plugin.config.parse({**base, **settings})
        self.connector.plan_tasks(self.config, 1)
        self.context = SinkContextStub(tolerates_errors=True)
        self.writer: SinkWriter = self.connector.open(self.config, self.context)

    def write(self, records: Records) -> dict[int, str]:
        """Writes and flushes; the messages of refused rows."""
        failed: Failed = {}
        self.writer.write(records, failed)
        self.writer.flush()
        return {row: str(error) for row, error in failed.items()}


@pytest.fixture
def task() -> Iterator[Callable[..., Task]]:
    made: list[Task] = []

    def make(url: str, connector: Any = None, **given: str) -> Task:
        made.append(Task(url, connector, **given))
        return made[-1]

    yield make
    for each in made:
        each.writer.close()


Make = Callable[..., Task]


def rows(numbers: range, **given: Any) -> Records:
    return records_of(
        [{"id": number, "name": f"name {number}"} for number in numbers],
        schema=ROW,
        keys=[f"k{number}" for number in numbers],
        key_schema=STRING,
        first=numbers.start,
        **given,
    )


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


def test_what_was_taken_before_a_failure_is_not_sent_again(
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


def test_a_refused_batch_that_is_not_divided_is_refused_as_a_whole(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(f"{server.url}/refuse/bad/{name}", batch_max_size="4", retry_on_status_codes="500-")
    values = ["bad" if n == 5 else f"good{n}" for n in range(12)]
    assert set(sink.write(records_of(values))) == {4, 5, 6, 7}


@pytest.mark.parametrize("mode", ["header", "url"])
def test_oauth2_tokens_are_asked_for_and_renewed(
    server: WebServer, task: Make, name: str, mode: str
) -> None:
    sink = task(
        f"{server.url}/bearer/{name}",
        auth_type="oauth2",
        oauth2_token_url=f"{server.url}/token",
        oauth2_client_id="id",
        oauth2_client_secret="secret",
        oauth2_client_auth_mode=mode,
        penstock_http_order="none",
    )
    assert sink.write(rows(range(20))) == {}
    server.forget_tokens()
    assert sink.write(rows(range(20, 40))) == {}
    taken = server.taken(name)
    assert len(taken) == 40
    assert len({each["headers"]["authorization"] for each in taken}) == 2


def test_wrong_client_credentials_name_what_to_check(
    server: WebServer, task: Make, name: str
) -> None:
    sink = task(
        f"{server.url}/bearer/{name}",
        auth_type="oauth2",
        oauth2_token_url=f"{server.url}/token",
        oauth2_client_id="id",
        oauth2_client_secret="wrong",
    )
    with pytest.raises(PenstockError, match="client secret") as caught:
        sink.write(rows(range(1)))
    assert not caught.value.retriable


def test_other_authentication(server: WebServer, task: Make, name: str) -> None:
    known = {"auth_type": "basic", "connection_user": "me", "connection_password": "secret"}
    assert task(f"{server.url}/basic/{name}", **known).write(rows(range(1))) == {}
    for where in ("header", "query"):
        given = {
            "penstock_http_api_key_name": "x-key",
            "penstock_http_api_key_value": "k",
            "penstock_http_api_key_in": where,
        }
        assert task(f"{server.url}/key/{name}", **given).write(rows(range(1))) == {}
    assert len(server.taken(name)) == 3
    assert task(f"{server.url}/key/{name}", max_retries="0").write(rows(range(1))) != {}


def test_a_key_in_the_url_is_in_no_message(server: WebServer, task: Make, name: str) -> None:
    given = {
        "penstock_http_api_key_name": "x-key",
        "penstock_http_api_key_value": "hush",
        "penstock_http_api_key_in": "query",
        "max_retries": "0",
    }
    reported = task(f"{server.url}/key/{name}", **given).write(rows(range(1)))
    assert "401" in reported[0]
    assert "hush" not in reported[0]
    with pytest.raises(PenstockError) as caught:
        task("http://127.0.0.1:1/", **given).write(rows(range(1)))
    assert "hush" not in str(caught.value)


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


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    (folder / "ca.pem").write_text(authority.pem())
    (folder / "server.pem").write_text(authority.issue("server", "127.0.0.1").pem())
    (folder / "client.pem").write_text(authority.issue("client", "client").pem())
    return authority, folder


def test_http2_and_mutual_tls(task: Make, name: str, authority: tuple[Authority, Path]) -> None:
    folder = authority[1]
    trust = {"https_ssl_truststore_location": str(folder / "ca.pem")}
    with WebServer(cert=folder / "server.pem", http2=True) as server:
        sink = task(
            f"{server.url}/take/{name}",
            penstock_http_version="2",
            penstock_http_order="none",
            **trust,
        )
        assert sink.write(rows(range(300))) == {}
        taken = server.taken(name)
        assert len(taken) == 300
        assert {each["version"] for each in taken} == {"2"}
        with pytest.raises(PenstockError, match="trust store") as caught:
            task(f"{server.url}/take/{name}", penstock_http_version="2").write(rows(range(1)))
        assert not caught.value.retriable
    with WebServer(cert=folder / "server.pem", ca=folder / "ca.pem") as server:
        url = f"{server.url}/take/{name}"
        known = {"https_ssl_keystore_location": str(folder / "client.pem"), **trust}
        assert task(url, **known).write(rows(range(1))) == {}
        with pytest.raises(PenstockError):
            task(url, max_retries="0", **trust).write(rows(range(1)))


def test_an_expired_certificate_fails_the_task_with_the_reason(
    task: Make, name: str, authority: tuple[Authority, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import penstock.testing.certificates as certificates

    class Past(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(UTC) - timedelta(days=30)

    issuer, folder = authority
    monkeypatch.setattr(certificates, "datetime", Past)
    (folder / "old.pem").write_text(issuer.issue("server", "127.0.0.1").pem())
    with WebServer(cert=folder / "old.pem") as server:
        given = {"https_ssl_truststore_location": str(folder / "ca.pem")}
        with pytest.raises(PenstockError, match="expired") as caught:
            task(f"{server.url}/take/{name}", **given).write(rows(range(1)))
        assert not caught.value.retriable


def test_requests_pass_a_proxy(server: WebServer, task: Make, name: str) -> None:
    # Requested by its full URL, the server answers like a proxy to itself.
    sink = task(
        f"http://elsewhere.test/take/{name}",
        http_proxy_host="127.0.0.1",
        http_proxy_port=str(server.port),
        http_proxy_user="u",
        http_proxy_password="p",
    )
    assert sink.write(rows(range(1))) == {}
    (taken,) = server.taken(name)
    assert taken["headers"]["host"] == "elsewhere.test"
    assert taken["headers"]["proxy-authorization"] == "Basic dTpw"


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
