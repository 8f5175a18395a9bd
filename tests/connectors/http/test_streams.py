"""Events, WebSockets and webhooks, against the suite's own server, and as a server."""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from penstock.api import PenstockError, SourceConnector, SourceOffset, SourceReader
from penstock.connectors.http.live.events import EventParser
from penstock.connectors.http.stream import SseSource, WebhookSource, WebSocketSource
from penstock.kafka.broker import free_port
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub
from penstock.testing.waiting import wait_until
from tests.servers.certificates import Authority
from tests.servers.web import WebServer

NUMBERS = count()


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"e{next(NUMBERS)}"


def items(numbers: range, **more: Any) -> list[dict[str, Any]]:
    return [{"id": n, "data": f"item {n}", **more} for n in numbers]


class Conformance(SourceConformance):
    server: ClassVar[WebServer]
    wait_ms = 150

    @pytest.fixture(autouse=True)
    def _server(self, server: WebServer) -> None:
        type(self).server = server
        self.name = f"c{next(NUMBERS)}"

    def add(self, numbers: range) -> None:
        self.server.add(self.name, items(numbers))


class TestSse(Conformance):
    connector = SseSource
    bad_configs = (
        ({"sse.url": None}, "sse.url"),
        ({"sse.url": "ws://x"}, "sse.url"),
        ({"topic": ""}, "topic"),
        ({"sse.headers": "x"}, "sse.headers"),
        ({"sse.connect.timeout.ms": "0"}, "sse.connect.timeout.ms"),
        ({"penstock.http.api.key.value": "x"}, "penstock.http.api.key.name"),
    )

    def config(self) -> dict[str, str]:
        return {"sse.url": f"{self.server.url}/events/{self.name}", "topic": "t"}


class TestWebSocket(Conformance):
    connector = WebSocketSource
    bad_configs = (
        ({"websocket.url": "http://x"}, "websocket.url"),
        ({"topic": None}, "topic"),
        ({"websocket.offset.pointer": "id"}, "websocket.offset.pointer"),
        ({"websocket.subscribe": "${offset.id"}, "websocket.subscribe"),
    )

    def config(self) -> dict[str, str]:
        return {
            "websocket.url": f"{self.server.url.replace('http', 'ws')}/socket/{self.name}",
            "websocket.subscribe": "{\"after\": ${offset.id!'-1'}}",
            "websocket.offset.pointer": "/id",
            "websocket.key.pointer": "/id",
            "topic": "t",
        }


class Task:
    def __init__(
        self, connector: SourceConnector, config: dict[str, str], context: SourceContextStub
    ) -> None:
        parsed = connector.plugin.config.parse({"topic": "t", **config})
        connector.plan_tasks(parsed, 1)
        self.context = context
        self.reader: SourceReader = connector.open(parsed, context)
        self.last: Any = None

    def read(self, wanted: int, timeout_s: float = 10.0) -> list[Any]:
        """So many values."""
        found: list[Any] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < wanted and time.monotonic() < deadline:
            if polled := self.reader.poll(1 << 20, 50):
                self.last = polled
                found += polled.records.values.values
        return found


Make = Callable[..., Task]


@pytest.fixture
def task() -> Iterator[Make]:
    made: list[Task] = []

    def make(connector: SourceConnector, stored: Any = (), **given: str) -> Task:
        config = {key.replace("_", "."): value for key, value in given.items()}
        made.append(Task(connector, config, SourceContextStub(stored)))
        return made[-1]

    yield make
    for each in made:
        each.reader.close()


def test_events_continue_after_the_last_one_when_the_connection_ends(
    server: WebServer, task: Make, name: str
) -> None:
    server.add(name, [*items(range(3)), *items(range(3, 4), end=True)])
    source = task(SseSource(), sse_url=f"{server.url}/events/{name}", sse_reconnect_ms="10")
    assert source.read(4) == [f"item {n}" for n in range(4)]
    server.add(name, items(range(4, 6)))
    assert source.read(2) == ["item 4", "item 5"]
    asked = [each["headers"].get("last-event-id") for each in server.taken(f"read-{name}")]
    assert asked[0] is None
    assert asked[-1] == "3"
    assert source.last.offsets[-1].offset == {"id": "5"}


def test_thousands_of_events_and_those_that_are_wanted(
    server: WebServer, task: Make, name: str
) -> None:
    total = 4_000
    server.add(
        name, [item for n in range(total) for item in items(range(n, n + 1), event="ab"[n % 2])]
    )
    source = task(
        SseSource(),
        sse_url=f"{server.url}/events/{name}",
        sse_events="b",
        sse_buffer_bytes="2000",
    )
    assert source.read(total // 2) == [f"item {n}" for n in range(1, total, 2)]
    assert [header.value for header in source.last.records.headers[0]] == ["b"]


def test_an_event_stream_resumes_at_the_stored_id(server: WebServer, task: Make, name: str) -> None:
    url = f"{server.url}/events/{name}"
    server.add(name, items(range(10)))
    source = task(SseSource(), [SourceOffset({"url": url}, {"id": "7"})], sse_url=url)
    assert source.read(2) == ["item 8", "item 9"]


@pytest.mark.parametrize(
    ("path", "reported"), [("status/404/x", "404"), ("status/401/x", "401"), ("items/x", "sse.url")]
)
def test_a_response_that_is_no_event_stream_fails_the_task(
    server: WebServer, task: Make, path: str, reported: str
) -> None:
    source = task(SseSource(), sse_url=f"{server.url}/{path}")
    with pytest.raises(PenstockError, match=reported) as caught:
        source.read(1)
    assert not caught.value.retriable


def test_events_are_the_same_however_they_are_cut() -> None:
    whole = (
        "\ufeffid: 1\r\ndata: ä\rdata\n\n: note\ndata:x\nretry: 5\nid: 2\n\n\nevent: e\ndata: y\n\n"
    )
    expected = list(EventParser(1_000).feed(whole.encode()))
    assert [(each.data, each.kind, each.id) for each in expected] == [
        ("ä\n", "message", "1"),
        ("x", "message", "2"),
        ("y", "e", "2"),
    ]
    for size in (1, 2, 3, 7):
        parser = EventParser(1_000)
        data = whole.encode()
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert [event for piece in pieces for event in parser.feed(piece)] == expected
        assert parser.retry_ms == 5
    with pytest.raises(PenstockError, match=r"max\.response\.bytes"):
        list(EventParser(10).feed(b"data: 01234567890"))


def test_a_websocket_is_opened_again(server: WebServer, task: Make, name: str) -> None:
    url = f"{server.url.replace('http', 'ws')}/socket/{name}"
    server.add(name, [*items(range(500)), *items(range(500, 501), end=True)])
    source = task(
        WebSocketSource(),
        websocket_url=url,
        websocket_subscribe="{\"after\": ${offset.id!'-1'}}",
        websocket_offset_pointer="/id",
        websocket_reconnect_ms="10",
    )
    assert len(source.read(501)) == 501
    server.add(name, items(range(501, 503)))
    assert len(source.read(2)) == 2
    assert [each["after"] for each in server.taken(f"read-{name}")][:2] == [-1, 500]
    assert source.last.offsets[-1].offset == {"received": 503, "id": "502"}


class Hook:
    """A webhook with a thread that polls it, like a worker; `commits` pauses and resumes."""

    def __init__(self, **given: str) -> None:
        self.port = free_port()
        settings = {key.replace("_", "."): value for key, value in given.items()}
        config = {"webhook.port": str(self.port), "webhook.auth.type": "none", **settings}
        self.task = Task(WebhookSource(), config, SourceContextStub())
        scheme = "https" if "webhook.ssl.keystore.location" in config else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}{config.get('webhook.path', '/')}"
        self.commits = threading.Event()
        self.commits.set()
        self.values: list[Any] = []
        self.records: list[Any] = []
        self._ends = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(self._answers, 10, "the webhook")

    def _answers(self) -> bool:
        try:
            return httpx.get(self.url, verify=False, trust_env=False).status_code == 405
        except httpx.TransportError:
            return False

    def _run(self) -> None:
        waiting: list[Any] = []
        while not self._ends:
            polled = self.task.reader.poll(1 << 20, 20)
            if polled is not None:
                self.values += polled.records.values.values
                self.records.append(polled.records)
                waiting += polled.offsets
            if waiting and self.commits.is_set():
                self.task.reader.committed(waiting)
                waiting = []

    def post(self, body: bytes | str = b"x", **headers: str) -> httpx.Response:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return httpx.post(
            self.url, content=body, headers=named, trust_env=False, timeout=30, verify=False
        )

    def close(self) -> None:
        self._ends = True
        self.task.context.stop()
        self._thread.join()
        self.task.reader.close()


@pytest.fixture
def hook() -> Iterator[Callable[..., Hook]]:
    made: list[Hook] = []

    def make(**given: str) -> Hook:
        made.append(Hook(**given))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_request_is_answered_when_its_record_is_in_kafka(hook: Callable[..., Hook]) -> None:
    running = hook()
    assert running.post("first").status_code == 200
    running.commits.clear()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(running.post, "second")
        wait_until(lambda: running.values == ["first", "second"], 10, "the record")
        assert not asked.done()
        running.commits.set()
        assert asked.result().status_code == 200


def test_thousands_of_requests_become_records_once(hook: Callable[..., Hook]) -> None:
    running = hook()
    total = 2_000
    with (
        httpx.Client(base_url=running.url, trust_env=False, timeout=60) as client,
        ThreadPoolExecutor(16) as pool,
    ):
        statuses = list(
            pool.map(lambda n: client.post("/", content=str(n)).status_code, range(total))
        )
    assert set(statuses) == {200}
    assert sorted(map(int, running.values)) == list(range(total))


def test_a_full_webhook_says_when_to_come_again(hook: Callable[..., Hook]) -> None:
    running = hook(webhook_max_pending="3", webhook_retry_after_seconds="7")
    running.commits.clear()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(running.post, str(n)) for n in range(3)]
        wait_until(lambda: len(running.values) == 3, 10, "three records")
        refused = running.post("4")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "7")
        running.commits.set()
        assert {each.result().status_code for each in waiting} == {200}
    assert running.post("5").status_code == 200


def test_a_request_that_waits_for_too_long_is_to_be_repeated(hook: Callable[..., Hook]) -> None:
    running = hook(webhook_timeout_ms="100")
    running.commits.clear()
    assert running.post("x").status_code == 503


def test_a_webhook_that_ends_confirms_nothing() -> None:
    running = Hook()
    running.commits.clear()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(running.post, "x")
        wait_until(lambda: running.values == ["x"], 10, "the record")
        running.close()
        assert asked.result().status_code == 503


def test_a_webhook_authenticates_its_senders(hook: Callable[..., Hook]) -> None:
    body = b'{"id": 1}'
    digest = hmac.new(b"k", body, hashlib.sha256)
    given = {"webhook_auth_type": "hmac", "webhook_auth_secret": "k"}
    running = hook(**given)
    for good in (
        f"sha256={digest.hexdigest()}",
        digest.hexdigest(),
        b64encode(digest.digest()).decode(),
    ):
        assert running.post(body, x_hub_signature_256=good).status_code == 200
    for bad in ("", "sha256=00", f"sha1={digest.hexdigest()}", "zz"):
        assert running.post(body, x_hub_signature_256=bad).status_code == 401
    assert running.post(b"else", x_hub_signature_256=digest.hexdigest()).status_code == 401
    given = {"webhook_auth_type": "bearer", "webhook_auth_secret": "t"}
    running = hook(**given)
    assert running.post(authorization="Bearer t").status_code == 200
    assert running.post(authorization="Bearer u").status_code == 401
    assert running.post().status_code == 401
    given = {"webhook_auth_type": "basic", "webhook_auth_secret": "p", "webhook_auth_user": "u"}
    running = hook(**given)
    assert running.post(authorization="Basic dTpw").status_code == 200
    assert running.post(authorization="Basic eA==").status_code == 401


def test_a_webhook_refuses_invalid_requests(hook: Callable[..., Hook]) -> None:
    running = hook(webhook_path="/a/b", webhook_max_bytes="10", webhook_body_format="json")
    assert running.post("x" * 11).status_code == 413
    assert running.post("{no").status_code == 400
    assert running.post("[1]").status_code == 200
    base = running.url.removesuffix("/a/b")
    assert httpx.post(f"{base}/a", trust_env=False).status_code == 404
    assert httpx.delete(running.url, trust_env=False).status_code == 405
    assert running.values == [[1]]


def test_keys_headers_and_tls(hook: Callable[..., Hook], tmp_path: Path) -> None:
    (tmp_path / "server.pem").write_text(Authority().issue("server", "127.0.0.1").pem())
    running = hook(
        webhook_key_pointer="/order/id",
        webhook_headers="X-Event",
        webhook_ssl_keystore_location=str(tmp_path / "server.pem"),
    )
    assert running.post('{"order": {"id": 7}}', x_event="made", x_other="y").status_code == 200
    (records,) = running.records
    assert records.keys.values == ["7"]
    assert [(header.name, header.value) for header in records.headers[0]] == [("X-Event", "made")]


def test_a_port_that_is_taken_is_named(hook: Callable[..., Hook], task: Make) -> None:
    running = hook()
    given = {"webhook_port": str(running.port), "webhook_auth_type": "none"}
    other = task(WebhookSource(), **given)
    with pytest.raises(PenstockError, match=r"webhook\.port") as caught:
        other.read(1)
    assert caught.value.retriable


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"webhook.port": None}, "webhook.port"),
        ({"webhook.port": "70000"}, "webhook.port"),
        ({"webhook.auth.type": None}, "webhook.auth.type"),
        ({"webhook.auth.type": "hmac"}, "webhook.auth.secret"),
        ({"webhook.path": "x"}, "webhook.path"),
        ({"webhook.hmac.algorithm": "md5"}, "webhook.hmac.algorithm"),
        ({"webhook.ssl.keystore.location": "/nowhere"}, "webhook.ssl.keystore.location"),
    ],
)
def test_bad_webhooks_name_the_setting(changes: dict[str, str | None], reported: str) -> None:
    whole = {"webhook.port": "1", "webhook.auth.type": "none", "topic": "t", **changes}
    connector = WebhookSource()
    given = {name: value for name, value in whole.items() if value is not None}
    with pytest.raises(PenstockError, match=reported):
        connector.plan_tasks(connector.plugin.config.parse(given), 1)
