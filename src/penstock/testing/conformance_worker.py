"""The tests of the conformance suite with a real worker, Spark and a broker."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pytest
from confluent_kafka import Producer

from penstock.api import (
    Failed,
    Use,
)
from penstock.convert.json import JsonConverter
from penstock.kafka.broker import BRIEF, Broker
from penstock.testing.conformance_case import Case, SinkCase, SourceCase, compare, either_records
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

_RECORDS: Final = 200
_ARRIVE_S: Final = 120.0

_numbers = itertools.count(1)


class RunningConnector:
    """A worker process with the connector, and the broker's topics."""

    def __init__(self, worker: WorkerProcess, topics: Topics) -> None:
        self.worker = worker
        self.topics = topics

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Creates a connector, and waits until it runs."""
        self.worker.create(name, config)
        self.await_running(name)

    def await_running(self, name: str) -> None:
        """Waits until the connector and all of its tasks run; raises with the trace if it fails."""

        def runs() -> bool:
            status = self.worker.status(name)
            parts = [status["connector"], *status["tasks"]] if status else []
            for part in parts:
                if part["state"] == "FAILED":
                    pytest.fail(f"'{name}' has failed: {part.get('trace')}")
            return len(parts) > 1 and all(part["state"] == "RUNNING" for part in parts)

        wait_until(runs, _ARRIVE_S, f"'{name}' to run")

    def restart(self) -> None:
        """Stops the worker gracefully, and starts it again."""
        assert self.worker.stop() == 0, self.worker.log_text()
        self.worker.start().await_rest()

    def append(
        self, topic: str, keys: Sequence[bytes | None], values: Sequence[bytes | None]
    ) -> None:
        """Appends records, and returns when all are stored."""
        producer = Producer(
            {"bootstrap.servers": self.topics.bootstrap, "enable.idempotence": True}
        )
        for key, value in zip(keys, values, strict=True):
            producer.produce(topic, value, key)
        assert producer.flush(_ARRIVE_S) == 0, f"failed to produce records to '{topic}'"

    def topics_of(self, name: str) -> list[str]:
        """The active topics of a connector."""
        answer = self.worker.request("GET", f"/connectors/{name}/topics").json()
        return cast("list[str]", answer.get(name, {}).get("topics", []))


class _EndToEnd(Case):
    """A test with a real worker, Spark and a broker."""

    @pytest.fixture
    def running(
        self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[RunningConnector]:
        """A worker with the connector, and with the broker of a fixture `broker` or its own."""
        folder = tmp_path_factory.mktemp("worker")
        try:
            broker: Broker = request.getfixturevalue("broker")
        except pytest.FixtureLookupError:
            with Broker(tmp_path_factory.mktemp("broker"), java_options=[BRIEF]) as own:
                yield from self._worker(folder, own)
        else:
            yield from self._worker(folder, broker)

    def _worker(self, folder: Path, broker: Broker) -> Iterator[RunningConnector]:
        settings = worker_settings(broker.bootstrap, f"conformance-{os.getpid()}-{next(_numbers)}")
        if self.plugin_path:
            settings["plugin.path"] = str(self.plugin_path)
        worker = WorkerProcess(folder, settings)
        try:
            worker.start().await_rest()
            yield RunningConnector(worker, Topics(broker.bootstrap))
        finally:
            worker.close()

    def _create(self, running: RunningConnector, name: str, config: Mapping[str, str]) -> None:
        try:
            running.create(name, config)
        except AssertionError as refused:
            if "Failed to find any class" in str(refused):
                refused.add_note("set `plugin_path` if the connector is not installed")
            raise


def _json(schema: bool) -> JsonConverter:
    settings = {"schemas.enable": str(schema).lower(), "converter.type": "value"}
    return JsonConverter(JsonConverter.plugin.config.parse(settings), Use.VALUE)


def _json_settings(schema: bool) -> dict[str, str]:
    name = JsonConverter.plugin.class_name
    return {
        "key.converter": name,
        "value.converter": name,
        "key.converter.schemas.enable": str(schema).lower(),
        "value.converter.schemas.enable": str(schema).lower(),
    }


class SourceEndToEnd(_EndToEnd, SourceCase):
    """A source in a real worker, through Spark to Kafka. Its topics are its own."""

    def test_records_reach_kafka_and_a_restart_neither_loses_nor_repeats_any(
        self, running: RunningConnector
    ) -> None:
        name = f"conformance-{next(_numbers)}"
        self.add(range(_RECORDS))
        config = {**self._props(), **_json_settings(schema=True), "name": name}
        self._create(running, name, config)
        self._await_records(running, name, _RECORDS)
        running.restart()
        running.await_running(name)
        self.add(range(_RECORDS, _RECORDS + 20))
        self._await_records(running, name, _RECORDS + 20)
        # These records come after any that the restart repeated.
        self.add(range(_RECORDS + 20, _RECORDS + 21))
        self._await_records(running, name, _RECORDS + 21)

    def _await_records(self, running: RunningConnector, name: str, count: int) -> None:
        """Waits for exactly this number of different records in the topics, each once unless the
        connector says that it may repeat some."""

        def read() -> list[tuple[str, bytes | None, bytes | None]]:
            return [
                (topic, row.key, row.value)
                for topic in running.topics_of(name)
                for row in running.topics.read(topic)
            ]

        def arrived() -> bool:
            return len(set(read())) >= count

        wait_until(
            arrived,
            _ARRIVE_S,
            f"{count} different records in Kafka; does `add` add one for each number, where "
            "`config` reads",
            poll_s=0.5,
        )
        rows = read()
        assert len(set(rows)) == count, "records of different numbers have to be distinct"
        if self.connector().exactly_once(self._parsed()) is not False:
            assert len(rows) == count, (
                "the restart has repeated records; return False from "
                "`SourceConnector.exactly_once` if the source may do so"
            )


class SinkEndToEnd(_EndToEnd, SinkCase):
    """A sink in a real worker, from Kafka through Spark to the target."""

    def test_records_reach_the_target_and_a_restart_neither_loses_nor_repeats_any(
        self, running: RunningConnector
    ) -> None:
        name = f"conformance-{next(_numbers)}"
        topic = running.topics.create(f"{name}-{os.getpid()}")
        expected = self._send(running, topic, range(_RECORDS))
        schema = either_records(self, range(1))[1]
        config = {**self._props(), **_json_settings(schema), "name": name, "topics": topic}
        self._create(running, name, config)
        self._await_records(expected)
        running.restart()
        running.await_running(name)
        expected += self._send(running, topic, range(_RECORDS, _RECORDS + 20))
        self._await_records(expected)

    def _send(self, running: RunningConnector, topic: str, numbers: range) -> list[Any]:
        """Produces records; returns their expected contents in the target."""
        records, schema = either_records(self, numbers)
        converter = _json(schema)
        failed: Failed = {}
        columns = (records.keys, records.values)
        keys, values = (
            converter.from_connect(records.topics, column, failed) for column in columns
        )
        assert not failed, f"the records cannot be written as JSON: {failed}"
        running.append(topic, keys, values)
        return self.expected(records)

    def _await_records(self, expected: list[Any]) -> None:
        wait_until(
            lambda: len(self.contents()) >= len(expected),
            _ARRIVE_S,
            f"{len(expected)} records in the target; does `contents` read where `config` writes, "
            "and is `expected` what is written",
            poll_s=0.2,
        )
        compare(self, self.contents(), expected)
