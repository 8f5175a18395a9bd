"""A record in the middle of a file that fails the task: what Kafka Connect and penstock send and
store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.reference import reference_worker

START_S: Final = 180.0
SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

TRANSFORM: Final = {
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.spec": "int32",
}
CONVERTER: Final = {"value.converter": "org.apache.kafka.connect.converters.IntegerConverter"}


@pytest.fixture(params=["reference", "penstock"])
def worker(
    request: pytest.FixtureRequest,
    broker: Broker,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[WorkerProcess]:
    settings = {
        **worker_settings(broker.bootstrap, unique("failing")),
        "offset.flush.interval.ms": "500",
    }
    running = (
        reference_worker(tmp_path, settings, options=SMALL)
        if request.param == "reference"
        else WorkerProcess(tmp_path, settings)
    )
    with running:
        running.await_rest(START_S, "/connectors")
        yield running


def offset(worker: WorkerProcess, name: str) -> object:
    found = worker.request("GET", f"/connectors/{name}/offsets").json()["offsets"]
    return found[0]["offset"] if found else None


@pytest.mark.timeout(600)
def test_only_the_lines_before_the_refused_one_are_sent_and_stored(
    worker: WorkerProcess, unique: Callable[[str], str], topics: Topics, tmp_path: Path
) -> None:
    cases = {
        # The second record of the first; the first one of the second, as its type is a string.
        "transform": (TRANSFORM, [b"1", b"2"], {"position": 4}),
        "converter": (CONVERTER, [], None),
    }
    expected, names = {}, {}
    for case, (more, values, stored) in cases.items():
        name, topic, file = unique(case), topics.create(unique(case)), tmp_path / f"{case}.txt"
        file.write_text("1\n2\nx\n3\n")
        names[case] = name, topic, file
        expected[case] = values, stored
        worker.create(
            name,
            {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": str(file),
                "topic": topic,
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                **more,
            },
        )
    for name, _, _ in names.values():
        worker.await_states(name, ["RUNNING", "FAILED"], START_S)
    for case, (name, topic, _) in names.items():
        values, stored = expected[case]
        wait_until(lambda name=name, stored=stored: offset(worker, name) == stored, 30, case)
        assert topics.values(topic) == values

    # A new configuration starts the task again, where it failed.
    for name, topic, file in names.values():
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(file),
            "topic": topic,
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        }
        answer = worker.request("PUT", f"/connectors/{name}/config", config)
        assert answer.status_code == 200, answer.text
    for case, (_, topic, _) in names.items():
        wait_until(lambda topic=topic: topics.count(topic) >= 4, START_S, f"the rest of {case}")
        assert topics.values(topic) == [b"1", b"2", b"x", b"3"], "nothing is repeated"
