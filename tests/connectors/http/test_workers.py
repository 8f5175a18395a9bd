"""The HTTP connectors on a real worker: a topic goes to a server that is sometimes unreachable,
with reports; the items and events of a server, and incoming requests, become topics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import orjson
import pytest

from penstock.kafka.broker import Broker, free_port
from penstock.testing.processes import WorkerProcess
from penstock.testing.proxy import Proxy
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.web import WebServer

pytestmark = pytest.mark.timeout(300)

WAIT_S: Final = 120.0
RECORDS: Final = 5_000
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
TEXTS: Final = {"key.converter": STRING, "value.converter": STRING}


@pytest.fixture(scope="module")
def worker(shared_worker: WorkerProcess) -> WorkerProcess:
    return shared_worker


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        yield running


def test_a_topic_goes_to_a_server_that_is_unreachable_now_and_then(
    worker: WorkerProcess,
    server: WebServer,
    broker: Broker,
    topics: Topics,
    unique: Callable[[str], str],
) -> None:
    topic, name = topics.create(unique("http")), unique("sink")
    dead, results = topics.create(unique("dead")), unique("results")
    bad = set(range(0, RECORDS, 1_000))
    topics.append(topic, (f"{'bad' if n in bad else 'row'} {n}".encode() for n in range(RECORDS)))
    with Proxy(server.port) as proxy:
        config = {
            "connector.class": "io.confluent.connect.http.HttpSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "http.api.url": f"http://127.0.0.1:{proxy.port}/refuse/bad/e2e",
            "retry.on.status.codes": "500-",
            "retry.backoff.ms": "50",
            "max.retries": "1",
            "penstock.http.order": "none",
            "reporter.bootstrap.servers": broker.bootstrap,
            "reporter.result.topic.name": results,
            "reporter.result.topic.replication.factor": "1",
            "reporter.result.topic.value.format": "string",
            "reporter.error.topic.name": f"{results}-errors",
            "reporter.error.topic.replication.factor": "1",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": dead,
            "errors.deadletterqueue.topic.replication.factor": "1",
            **TEXTS,
        }
        assert worker.create(name, config).status_code == 201
        for share in (0.1, 0.5):
            wait_until(
                lambda share=share: len(server.taken("e2e")) >= share * RECORDS,
                WAIT_S,
                f"{share:.0%} of the records",
            )
            proxy.cut()
            threading.Event().wait(1)
            proxy.restore()
        wait_until(
            lambda: sum(topics.committed(f"connect-{name}", topic).values()) == RECORDS,
            WAIT_S,
            "its commit",
        )
    seen = {int(body.split()[1]) for body in server.bodies("e2e")}
    assert seen == set(range(RECORDS)) - bad
    assert set(topics.values(dead)) == {f"bad {n}".encode() for n in bad}
    assert topics.count(results) >= RECORDS - len(bad)
    reports = topics.values(f"{results}-errors")
    assert len(reports) >= len(bad)
    assert all(b"HTTP Response code: 422" in (each or b"") for each in reports)
    assert worker.states(name) == ["RUNNING", "RUNNING"]


def test_a_server_its_events_and_requests_of_others_become_topics(
    worker: WorkerProcess, server: WebServer, topics: Topics, unique: Callable[[str], str]
) -> None:
    def items(numbers: range) -> list[dict[str, Any]]:
        return [{"id": n, "time": 1_700_000_000_000 + n, "data": f"item {n}"} for n in numbers]

    polled, events, hooks = (topics.create(unique(each)) for each in ("polled", "events", "hooks"))
    source = unique("source")
    port = free_port()
    server.add("all", items(range(500)))
    configs = {
        source: {
            "connector.class": "com.github.castorm.kafka.connect.http.HttpSourceConnector",
            "http.request.url": f"{server.url}/items/all?limit=100",
            "http.response.list.pointer": "/items",
            "http.response.record.offset.pointer": "key=/id, timestamp=/time",
            "http.response.record.mapper": "StringKvSourceRecordMapper",
            "http.timer.interval.millis": "200",
            "penstock.http.page.mode": "link",
            "kafka.topic": polled,
        },
        unique("sse"): {
            "connector.class": "io.penstock.http.SseSourceConnector",
            "sse.url": f"{server.url}/events/all",
            "topic": events,
        },
        unique("hook"): {
            "connector.class": "io.penstock.http.WebhookSourceConnector",
            "webhook.port": str(port),
            "webhook.auth.type": "bearer",
            "webhook.auth.secret": "t",
            "topic": hooks,
        },
    }
    for name, config in configs.items():
        assert worker.create(name, {**config, **TEXTS}).status_code == 201
    wait_until(lambda: topics.count(polled) >= 500, WAIT_S, "the list")
    wait_until(lambda: topics.count(events) >= 500, WAIT_S, "the events")

    def post(text: str) -> bool:
        try:
            answer = httpx.post(
                f"http://127.0.0.1:{port}/",
                content=text,
                headers={"Authorization": "Bearer t"},
                trust_env=False,
                timeout=60,
            )
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    wait_until(lambda: post("first"), WAIT_S, "the webhook")
    for number in range(5):
        assert post(f"post {number}")
        assert topics.values(hooks)[-1] == f"post {number}".encode()

    def stored() -> bool:
        found = worker.request("GET", f"/connectors/{source}/offsets").json()["offsets"]
        return any(each["offset"]["key"] == "499" for each in found)

    wait_until(stored, WAIT_S, "the last offset")
    worker.request("PUT", f"/connectors/{source}/stop")
    wait_until(lambda: worker.states(source) == ["STOPPED"], WAIT_S, "it to stop")
    server.add("all", items(range(500, 600)))
    worker.request("PUT", f"/connectors/{source}/resume")
    wait_until(lambda: topics.count(polled) >= 600, WAIT_S, "what is new")
    wait_until(lambda: topics.count(events) >= 600, WAIT_S, "new events")
    ids = [orjson.loads(each or b"")["id"] for each in topics.values(polled)]
    assert sorted(ids) == list(range(600))
