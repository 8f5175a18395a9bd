"""The Elasticsearch and OpenSearch connectors on a real worker: a topic is written to an index
while the server is killed, and an index to a topic across restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import orjson
import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.search import SearchServer

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow(115)]

WAIT_S: Final = 120.0
RECORDS: Final = 100_000
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
SOURCES: Final = {
    "opensearch": "io.penstock.search.OpenSearchSourceConnector",
    "elasticsearch": "io.penstock.search.ElasticsearchSourceConnector",
}


@pytest.fixture(scope="module")
def worker(shared_worker: WorkerProcess) -> WorkerProcess:
    return shared_worker


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[SearchServer]:
    with SearchServer(request.param) as running:
        yield running


def count(server: SearchServer, index: str) -> int:
    """The number of documents in an index; 0 while the server does not answer."""
    try:
        return server.count(index)
    except httpx.HTTPError:
        return 0


@pytest.mark.parametrize("server", ["elasticsearch"], indirect=True)
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


@pytest.mark.parametrize("server", ["opensearch"], indirect=True)
def test_an_index_becomes_a_topic_across_a_restart(
    worker: WorkerProcess, server: SearchServer, topics: Topics, unique: Callable[[str], str]
) -> None:
    index, name = unique("index"), unique("source")
    topic = topics.create(unique("topic"))
    server.request("PUT", f"/{index}", {"settings": {"number_of_shards": 2}})

    def put(numbers: range) -> None:
        lines = (f'{{"index":{{"_id":"{n}"}}}}\n{{"number":{n}}}\n' for n in numbers)
        assert not server.bulk(index, "".join(lines).encode())["errors"]

    put(range(5_000))
    config = {
        "connector.class": SOURCES[server.product],
        "tasks.max": "2",
        "connection.url": server.url,
        "indices": f"{index}*",
        "topic": topic,
        "poll.interval.ms": "100",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    assert worker.create(name, config).status_code == 201
    wait_until(lambda: topics.count(topic) >= 5_000, WAIT_S, "the first documents")
    server.kill()
    server.start()
    put(range(5_000, 10_000))
    wait_until(lambda: topics.count(topic) >= 10_000, WAIT_S, "those after the restart")
    worker.request("PUT", f"/connectors/{name}/stop")
    wait_until(lambda: worker.states(name) == ["STOPPED"], WAIT_S, "it to stop")
    put(range(10_000, 12_000))
    worker.request("PUT", f"/connectors/{name}/resume")
    wait_until(lambda: topics.count(topic) >= 12_000, WAIT_S, "the rest")
    numbers = [orjson.loads(value or b"")["number"] for value in topics.values(topic)]
    assert sorted(numbers) == list(range(12_000))
    offsets = worker.request("GET", f"/connectors/{name}/offsets").json()["offsets"]
    assert sorted(each["partition"]["shard"] for each in offsets) == [0, 1]
    worker.request("DELETE", f"/connectors/{name}")
