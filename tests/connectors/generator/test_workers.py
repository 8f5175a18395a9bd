"""Generated records on a real worker: each exists once although the worker is killed; some are dead
letters of the sink that discards records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import orjson

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

WAIT_S: Final = 90.0
RECORDS: Final = 20_000
JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
}


def test_records_are_made_once_and_forgotten(
    make_worker: Callable[..., WorkerProcess], topics: Topics, unique: Callable[[str], str]
) -> None:
    topic, dead = topics.create(unique("orders")), topics.create(unique("dead"))
    worker = make_worker(exactly_once_source_support="enabled").start()
    worker.await_rest()
    source, sink = unique("datagen"), unique("blackhole")
    worker.create(
        source,
        {
            "connector.class": "DatagenConnector",
            "kafka.topic": topic,
            "quickstart": "orders",
            "iterations": str(RECORDS),
            "penstock.records.per.second": "4000",
            "penstock.at.end": "idle",
            "random.seed": "5",
            **JSON,
        },
    ).raise_for_status()
    wait_until(lambda: topics.count(topic) > RECORDS // 10, WAIT_S, "records come")
    worker.kill()
    worker.start()
    wait_until(lambda: len(topics.values(topic)) >= RECORDS, WAIT_S, "all records come")
    numbers = [orjson.loads(value)["orderid"] for value in topics.values(topic)]
    assert sorted(numbers) == list(range(RECORDS))

    worker.await_rest()
    worker.create(
        sink,
        {
            "connector.class": "io.penstock.blackhole.BlackholeSinkConnector",
            "topics": topic,
            "blackhole.error.rate": "0.01",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": dead,
            "errors.deadletterqueue.topic.replication.factor": "1",
            **JSON,
        },
    ).raise_for_status()
    wait_until(
        lambda: 0.005 * RECORDS < len(topics.values(dead)) < 0.02 * RECORDS,
        WAIT_S,
        "a share of the records is refused",
    )
