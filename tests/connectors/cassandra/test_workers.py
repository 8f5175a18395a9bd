"""The Cassandra connectors on a real worker: a topic is written to a table while the server is
killed and started again, and the table to a topic across a restart of the connector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import orjson
import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.cassandra import DATACENTER, CassandraServer

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow(80)]

WAIT_S: Final = 120.0
RECORDS: Final = 100_000
BEGIN_MS: Final = 1_700_000_000_000
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
SCHEMALESS: Final = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def worker(shared_worker: WorkerProcess) -> WorkerProcess:
    return shared_worker


@pytest.fixture(scope="module")
def server() -> Iterator[CassandraServer]:
    with CassandraServer() as running:
        running.execute(
            "CREATE KEYSPACE shop WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        running.execute(
            "CREATE TABLE shop.orders (bucket int, at timestamp, id int, text text, "
            "PRIMARY KEY (bucket, at, id))"
        )
        yield running


def test_a_topic_becomes_a_table_and_the_table_a_topic(
    worker: WorkerProcess, server: CassandraServer, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic, sink = topics.create(unique("cassandra")), unique("sink")
    dead = topics.create(unique("dead"))
    bad = set(range(0, RECORDS, 20_000))
    topics.append(
        topic,
        (
            b"[1]"
            if number in bad
            else orjson.dumps(
                {"bucket": number % 50, "at": BEGIN_MS + number, "id": number, "text": "x"}
            )
            for number in range(RECORDS)
        ),
    )
    config = {
        "connector.class": "com.datastax.oss.kafka.sink.CassandraSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "contactPoints": "127.0.0.1",
        "port": str(server.port),
        "loadBalancing.localDc": DATACENTER,
        "queryExecutionTimeout": "5",
        f"topic.{topic}.shop.orders.mapping": "bucket=value.bucket, at=value.at, id=value.id, "
        "text=value.text",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
        **SCHEMALESS,
    }
    wrong = {**config, f"topic.{topic}.shop.orders.mapping": "bucket=value.bucket, no=value.no"}
    body = {"name": unique("wrong"), "config": wrong}
    answer = worker.request("POST", "/connectors", body)
    assert answer.status_code == 400
    assert "do not exist in table orders: no" in answer.text
    assert worker.create(sink, config).status_code == 201
    wait_until(lambda: rows(server) >= RECORDS / 10, WAIT_S, "the first records")
    server.kill()
    server.start()
    good = RECORDS - len(bad)
    wait_until(lambda: rows(server) >= good, WAIT_S, "the rest of them")
    wait_until(
        lambda: sum(topics.committed(f"connect-{sink}", topic).values()) == RECORDS,
        WAIT_S,
        "its commit",
    )
    ids = {row[0] for row in server.execute("SELECT id FROM shop.orders")}
    assert ids == {number for number in range(RECORDS) if number not in bad}
    assert set(topics.values(dead)) == {b"[1]"}
    assert worker.states(sink) == ["RUNNING", "RUNNING"]

    out, source = topics.create(unique("rows")), unique("source")
    config = {
        "connector.class": "io.lenses.streamreactor.connect.cassandra.source."
        "CassandraSourceConnector",
        "connect.cassandra.contact.points": "127.0.0.1",
        "connect.cassandra.port": str(server.port),
        "connect.cassandra.key.space": "shop",
        "connect.cassandra.slice.delay.ms": "0",
        "connect.cassandra.import.poll.interval": "200",
        "connect.cassandra.kcql": f"INSERT INTO {out} SELECT * FROM orders PK at "
        "INCREMENTALMODE=timestamp",
        **SCHEMALESS,
    }
    assert worker.create(source, config).status_code == 201
    wait_until(lambda: topics.count(out) >= good, WAIT_S, "what exists")
    moment = datetime.fromtimestamp((BEGIN_MS + RECORDS - 1) / 1000, UTC)
    last = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}Z"
    wait_until(lambda: offset(worker, source) == last, WAIT_S, "its offset")
    worker.request("PUT", f"/connectors/{source}/stop")
    wait_until(lambda: worker.states(source) == ["STOPPED"], WAIT_S, "it to stop")
    for number in range(RECORDS, RECORDS + 10):
        server.execute(
            "INSERT INTO shop.orders (bucket, at, id, text) VALUES (1, %s, %s, 'y')",
            (BEGIN_MS + number, number),
        )
    worker.request("PUT", f"/connectors/{source}/resume")
    wait_until(lambda: topics.count(out) >= good + 10, WAIT_S, "what is new")
    found = [orjson.loads(each or b"")["id"] for each in topics.values(out)]
    assert sorted(found) == [n for n in range(RECORDS + 10) if n not in bad]


def rows(server: CassandraServer) -> int:
    try:
        return int(server.execute("SELECT count(*) FROM shop.orders")[0][0])
    except Exception:  # the driver's, until it reconnects to the restarted server
        return 0


def offset(worker: WorkerProcess, name: str) -> str:
    found = worker.request("GET", f"/connectors/{name}/offsets").json()["offsets"]
    return "".join(each["offset"]["at"] for each in found)
