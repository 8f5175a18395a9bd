"""The MongoDB connectors on a real worker: topics are written to collections while connections
break, and changes to a topic across a restart."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson
import pytest
from pymongo import MongoClient

from penstock.kafka.broker import free_port
from penstock.testing.processes import WorkerProcess
from penstock.testing.proxy import Proxy
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.places import TESTS
from tests.servers.mongodb import MongoServer

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow(85)]

WAIT_S: Final = 120.0
RECORDS: Final = 100_000
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
SCHEMALESS: Final = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
IDS: Final = "com.mongodb.kafka.connect.sink.processor.id.strategy"


@pytest.fixture(scope="module")
def worker(shared_worker: WorkerProcess) -> WorkerProcess:
    return shared_worker


@pytest.fixture(scope="module")
def server() -> Iterator[MongoServer]:
    with MongoServer() as running:
        yield running


def test_connections_break_while_records_pass_and_nothing_is_lost(
    worker: WorkerProcess, server: MongoServer, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic, name = topics.create(unique("mongo")), unique("sink")
    dead = topics.create(unique("dead"))
    bad = set(range(0, RECORDS, 20_000))
    topics.append(
        topic,
        (
            b"[1]" if number in bad else orjson.dumps({"_id": number, "text": f"row {number}"})
            for number in range(RECORDS)
        ),
    )
    with Proxy(server.port) as proxy, MongoClient[dict[str, Any]](server.uri) as client:
        collection = client["shop"][topic]
        config = {
            "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "connection.uri": f"mongodb://127.0.0.1:{proxy.port}/?serverSelectionTimeoutMS=1000",
            "database": "shop",
            "document.id.strategy": f"{IDS}.ProvidedInValueStrategy",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": dead,
            "errors.deadletterqueue.topic.replication.factor": "1",
            **SCHEMALESS,
        }
        assert worker.create(name, config).status_code == 201
        for share in (0.1, 0.4, 0.7):
            wait_until(
                lambda share=share: collection.estimated_document_count() >= share * RECORDS,
                WAIT_S,
                f"{share:.0%} of the records",
            )
            proxy.cut()
            threading.Event().wait(1.5)
            proxy.restore()
        good = RECORDS - len(bad)
        wait_until(
            lambda: collection.estimated_document_count() >= good, WAIT_S, "the rest of them"
        )
        wait_until(
            lambda: sum(topics.committed(f"connect-{name}", topic).values()) == RECORDS,
            WAIT_S,
            "its commit",
        )
        assert {each["_id"] for each in collection.find({}, {"_id": 1})} == {
            number for number in range(RECORDS) if number not in bad
        }
    assert set(topics.values(dead)) == {b"[1]"}
    assert worker.states(name) == ["RUNNING", "RUNNING"]


def test_changes_become_records_across_a_restart(
    worker: WorkerProcess, topics: Topics, unique: Callable[[str], str]
) -> None:
    port = free_port()
    program = TESTS / "connectors" / "mongodb" / "wire.py"
    process = subprocess.Popen([sys.executable, str(program), str(port)])
    uri = f"mongodb://127.0.0.1:{port}/?replicaSet=rs"
    name, topic = unique("source"), topics.create("mongoe2e.c")
    try:
        with MongoClient[dict[str, Any]](uri) as client:
            collection = client["mongoe2e"]["c"]
            collection.insert_many([{"_id": number} for number in range(100)])
            config = {
                "connector.class": "com.mongodb.kafka.connect.MongoSourceConnector",
                "connection.uri": uri,
                "database": "mongoe2e",
                "startup.mode": "copy_existing",
                "publish.full.document.only": "true",
            }
            assert worker.create(name, config).status_code == 201
            wait_until(lambda: topics.count(topic) >= 100, WAIT_S, "what exists")
            collection.insert_many([{"_id": number} for number in range(100, 200)])
            wait_until(lambda: topics.count(topic) >= 200, WAIT_S, "what is new")

            def stored() -> bool:
                found = worker.request("GET", f"/connectors/{name}/offsets").json()["offsets"]
                return any("_data" in str(each["offset"]) for each in found)

            wait_until(stored, WAIT_S, "an offset")
            wait_until(lambda: _is_up_to_date(worker, name, 200), WAIT_S, "the newest offset")
            worker.request("PUT", f"/connectors/{name}/stop")
            wait_until(lambda: worker.states(name) == ["STOPPED"], WAIT_S, "it to stop")
            collection.insert_many([{"_id": number} for number in range(200, 300)])
            worker.request("PUT", f"/connectors/{name}/resume")
            wait_until(lambda: topics.count(topic) >= 300, WAIT_S, "the rest")
    finally:
        process.kill()
        process.wait(10)
    values = [orjson.loads(each or b"")["_id"] for each in topics.values(topic)]
    assert sorted(values) == list(range(300))


def _is_up_to_date(worker: WorkerProcess, name: str, number: int) -> bool:
    """Whether the stored token belongs to this event or a later one."""
    found = worker.request("GET", f"/connectors/{name}/offsets").json()["offsets"]
    tokens = [orjson.loads(each["offset"]["_id"])["_data"] for each in found]
    return any(int(each[2:18], 16) >= number for each in tokens)
