"""The connectors to Elasticsearch and OpenSearch on a real worker: a topic becomes an index while
the server is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import orjson
import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.search import PRODUCTS, SearchServer
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

WAIT_S: Final = 120.0
RECORDS: Final = 60_000
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
SCHEMALESS: Final = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
SINKS: Final = {
    "opensearch": "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
    "elasticsearch": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
}


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    started = make_worker().start()
    started.await_rest()
    return started


@pytest.fixture(scope="module", params=PRODUCTS)
def server(request: pytest.FixtureRequest) -> Iterator[SearchServer]:
    with SearchServer(request.param) as running:
        yield running


def count(server: SearchServer, index: str) -> int:
    """The documents of an index; 0 while there is no answer."""
    try:
        return server.count(index)
    except httpx.HTTPError:
        return 0


def test_a_server_is_killed_while_records_pass_and_nothing_is_lost(
    worker: WorkerProcess, server: SearchServer, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic, name = topics.create(unique("search")), unique("sink")
    dead = topics.create(unique("dead"))
    bad = set(range(0, RECORDS, 20_000))
    mapping = {"mappings": {"properties": {"number": {"type": "long"}}}}
    server.request("PUT", f"/{topic}", mapping)

    def append(numbers: range) -> None:
        topics.append(
            topic,
            (
                b'{"number":"none"}' if number in bad else orjson.dumps({"number": number})
                for number in numbers
            ),
        )

    append(range(RECORDS // 2))
    config: dict[str, Any] = {
        "connector.class": SINKS[server.product],
        "tasks.max": "1",
        "topics": topic,
        "connection.url": server.url,
        "key.ignore": "true",
        "schema.ignore": "true",
        "read.timeout.ms": "20000",
        "max.retries": "1",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        **SCHEMALESS,
    }
    assert worker.create(name, config).status_code == 201
    wait_until(lambda: count(server, topic) >= RECORDS // 10, WAIT_S, "the first records")
    server.kill()
    append(range(RECORDS // 2, RECORDS))
    server.start()
    good = RECORDS - len(bad)
    wait_until(lambda: count(server, topic) >= good, WAIT_S, "the rest of them")
    wait_until(
        lambda: sum(topics.committed(f"connect-{name}", topic).values()) == RECORDS,
        WAIT_S,
        "its commit",
    )
    assert count(server, topic) == good
    assert set(topics.values(dead)) == {b'{"number":"none"}'}
    assert topics.count(dead) >= len(bad)
    assert worker.states(name) == ["RUNNING", "RUNNING"]
    worker.request("DELETE", f"/connectors/{name}")
