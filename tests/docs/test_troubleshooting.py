"""docs/troubleshooting.md: each failure on the page is provoked, and operators see the line that
the page shows. A failed task is marked ERROR in the log; a healthy worker logs no warnings.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker, free_port
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.places import ROOT

PAGE: Final = ROOT / "docs" / "troubleshooting.md"
TIMEOUT_S: Final = 120
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
AVRO: Final = "io.confluent.connect.avro.AvroConverter"

PLUGINS: Final = """
from penstock.api import *
from penstock.api.settings import ConfigDef

NOTHING = ConfigDef()
FAR = Extra("far", "buggy", ("a_module_that_is_not_installed",))


class Bugs(SinkConnector):
    plugin = Plugin("bugs.WriteConnector", "1", NOTHING)

    def plan_tasks(self, config, max_tasks):
        return [config.props]

    def open(self, config, context):
        return Writer()


class Writer(SinkWriter):
    def write(self, records, failed):
        raise KeyError("price")


class PollBugs(SourceConnector):
    plugin = Plugin("bugs.PollConnector", "1", NOTHING)

    def plan_tasks(self, config, max_tasks):
        return [config.props]

    def open(self, config, context):
        return Reader()


class Reader(SourceReader):
    def poll(self, max_bytes, wait_ms):
        return 1 / 0


class PlanBugs(PollBugs):
    plugin = Plugin("bugs.PlanConnector", "1", NOTHING)

    def plan_tasks(self, config, max_tasks):
        raise RuntimeError("no plan")


class Far(PollBugs):
    plugin = Plugin("bugs.FarConnector", "1", NOTHING, extra=FAR)
"""


def entries() -> dict[str, str]:
    """The page's lines by their headings, as regular expressions; `…` stands for anything."""
    text = PAGE.read_text()
    found = re.findall(r"^### ([^\n]+)\n+```text\n(.+?)\n```", text, re.MULTILINE | re.DOTALL)
    assert len(found) == text.count("\n### "), "a heading without a line below it"
    return {
        heading: ".*?".join(map(re.escape, line.replace("\n", " ").split("…")))
        for heading, line in found
    }


def check(heading: str, seen: str) -> None:
    """Raises AssertionError unless the page has this line under this heading."""
    pattern = entries()[heading]
    assert re.search(pattern, re.sub(r"\s*\n\s*", " ", seen), re.DOTALL), (
        f"docs/troubleshooting.md, '{heading}', has not what was seen:\n{seen[-3000:]}"
    )


# Workers that fail to start: how their settings differ from those of a worker that starts.
WORKERS: Final[Mapping[str, Mapping[str, str]]] = {
    "No broker answers": {"bootstrap.servers": "127.0.0.1:@free@"},
    "A setting of the worker is missing": {"group.id": ""},
    "A converter class is unknown": {"value.converter": "org.example.AvroConverter"},
    "A port is in use": {"listeners": "http://127.0.0.1:@taken@"},
    "The cluster has too few brokers": {"config.storage.replication.factor": "3"},
    "An internal topic is not compacted": {"status.storage.topic": "@deleted@"},
    "The config topic has several partitions": {"config.storage.topic": "@several@"},
    "There is no Java": {"JAVA_HOME": "/nowhere"},
}

SINK: Final = {"connector.class": "FileStreamSink", "topics": "@topic@", "file": "@dir@/out"}
SOURCE: Final = {"connector.class": "FileStreamSource", "topic": "@topic@", "file": "@dir@/in"}
JDBC: Final = {"topics": "@topic@", "connection.url": "jdbc:sqlite:@dir@/db"}
JDBC_SINK: Final = {"connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", **JDBC}

# Configurations that a worker refuses to create.
REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "The connector class is unknown": {**SINK, "connector.class": "com.acme.AcmeSink"},
    "A setting of the connector is missing": {"connector.class": "FileStreamSource", "file": "x"},
    "The packages of a connector are not installed": {"connector.class": "bugs.FarConnector"},
    "The database cannot be reached": {
        **JDBC_SINK,
        "connection.url": "jdbc:postgresql://127.0.0.1:@free@/db",
    },
    "A sink's table is missing": {
        **JDBC_SINK,
        "value.converter": JSON,
        "topics": "@schemas@",
        "table.name.format": "orders",
    },
    "A client setting may not be overridden": {
        **SINK,
        "consumer.override.bootstrap.servers": "elsewhere:9092",
    },
}

# Tasks and connectors that fail while they run.
FAILING: Final[Mapping[str, Mapping[str, str]]] = {
    "A record is not JSON": {
        **SINK,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    },
    "JSON without a schema": {**SINK, "topics": "@json@", "value.converter": JSON},
    "A record is not Avro of a Schema Registry": {
        **SINK,
        "value.converter": AVRO,
        "value.converter.schema.registry.url": "http://127.0.0.1:@free@",
    },
    "A transform fails": {
        **SINK,
        "transforms": "n",
        "transforms.n.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.n.spec": "int32",
    },
    "A file cannot be written": {**SINK, "file": "@dir@/no/such/folder/out"},
    "A plugin's writer has a bug": {"connector.class": "bugs.WriteConnector", "topics": "@topic@"},
    "A plugin's reader has a bug": {"connector.class": "bugs.PollConnector"},
    "A plugin's plan_tasks has a bug": {"connector.class": "bugs.PlanConnector"},
}

OTHER: Final = ("No worker answers",)


def test_every_entry_of_the_page_has_a_test() -> None:
    assert set(entries()) == {*WORKERS, *REFUSED, *FAILING, *OTHER}
    assert len(entries()) >= 20


@pytest.fixture(scope="module")
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def ended(
    broker: Broker, topics: Topics, taken_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[str]]]:
    """The output of the workers that fail to start; they run while the other tests do."""

    def run(heading: str) -> str:
        number = list(WORKERS).index(heading)
        group = f"trouble-{taken_port}-{number}"
        words = {"@free@": str(free_port()), "@taken@": str(taken_port)}
        if "@deleted@" in WORKERS[heading].values():
            words["@deleted@"] = topics.create(f"{group}-deleted", cleanup_policy="delete")
        if "@several@" in WORKERS[heading].values():
            words["@several@"] = topics.create(
                f"{group}-several", partitions=2, cleanup_policy="compact"
            )
        given = filled(WORKERS[heading], words)
        environment = {**os.environ, "JAVA_HOME": given.pop("JAVA_HOME", "")}
        if not environment["JAVA_HOME"]:
            del environment["JAVA_HOME"]
        settings = {**worker_settings(broker.bootstrap, group), **given}
        file = tmp_path_factory.mktemp("trouble") / "worker.properties"
        file.write_bytes(render_properties({k: v for k, v in settings.items() if v}))
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "distributed", str(file)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
            check=False,
        )
        assert done.returncode > 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    with ThreadPoolExecutor(2) as pool:
        yield {heading: pool.submit(run, heading) for heading in WORKERS}


@pytest.fixture(scope="module")
def worker(
    make_worker: Callable[..., WorkerProcess],
    ended: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> WorkerProcess:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "bugs.py").write_text(PLUGINS)
    started = make_worker(
        plugin_path=str(folder),
        plugin_discovery="only_scan",
        connector_client_config_override_policy="Principal",
    ).start()
    started.await_rest()
    return started


@pytest.fixture(scope="module")
def words(topics: Topics, cluster: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The values of the placeholders in configurations."""
    rows = {
        "@topic@": b"no JSON, no Avro, no number",
        "@json@": b'{"a": 1}',
        "@schemas@": b'{"schema": {"type": "struct", "fields": [{"field": "a", "type": "int32"}]}, '
        b'"payload": {"a": 1}}',
    }
    made = {"@dir@": str(tmp_path_factory.mktemp("trouble")), "@free@": str(free_port())}
    for word, value in rows.items():
        made[word] = topics.create(f"{cluster}-{word.strip('@')}")
        topics.append(made[word], [value])
    return made


def filled(config: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    """The configuration with values instead of placeholders."""
    found = dict(config)
    for word, own in words.items():
        found = {name: text.replace(word, own) for name, text in found.items()}
    return found


def test_a_healthy_worker_warns_of_nothing(
    worker: WorkerProcess, words: dict[str, str], topics: Topics
) -> None:
    lines = Path(words["@dir@"]) / "in"
    lines.write_text("one\n")
    topic = topics.create(f"{words['@topic@']}-healthy")
    here = {**words, "@topic@": topic}
    worker.create("in", filled(SOURCE, here))
    worker.create("out", filled(SINK, here))
    for name in ("in", "out"):
        worker.await_states(name, ["RUNNING", "RUNNING"], TIMEOUT_S)
    target = Path(words["@dir@"]) / "out"
    wait_until(lambda: target.exists() and target.read_text() == "one\n", 60, "the line")
    for state, action in (("PAUSED", "pause"), ("RUNNING", "resume")):
        assert worker.request("PUT", f"/connectors/out/{action}").status_code == 202
        worker.await_states("out", [state, state], TIMEOUT_S)
    changed = {**filled(SINK, here), "tasks.max": "2"}
    assert worker.request("PUT", "/connectors/out/config", changed).status_code == 200
    worker.await_states("out", ["RUNNING"] * 3, TIMEOUT_S)
    for name in ("in", "out"):
        assert worker.request("DELETE", f"/connectors/{name}").status_code == 204
    wait_until(lambda: worker.request("GET", "/connectors").json() == [], 60, "no connector")
    wait_until(lambda: "Stopping task in-0" in worker.log_text(), 60, "the source to stop")
    text = worker.log_text()
    assert re.findall(r"^\[[^]]*\] (?:WARN|ERROR|FATAL) .*", text, re.MULTILINE) == []
    assert "Traceback" not in text
    assert "Exception" not in text


@pytest.mark.parametrize("heading", REFUSED)
def test_a_refused_configuration_has_the_message_of_its_heading(
    heading: str, worker: WorkerProcess, words: dict[str, str]
) -> None:
    body = {"name": "refused", "config": filled(REFUSED[heading], words)}
    answer = worker.request("POST", "/connectors", body)
    assert answer.status_code in (400, 500), answer.text
    check(heading, answer.json()["message"])


@pytest.mark.parametrize("heading", FAILING)
def test_a_failing_task_has_the_message_of_its_heading(
    heading: str, worker: WorkerProcess, words: dict[str, str]
) -> None:
    name = f"f{list(FAILING).index(heading)}"
    planned = heading != "A plugin's plan_tasks has a bug"
    worker.create(name, filled({**FAILING[heading], "penstock.restart.policy": "off"}, words))
    worker.await_states(name, ["RUNNING", "FAILED"] if planned else ["FAILED"], TIMEOUT_S)
    status = worker.status(name)
    trace = (status["tasks"][0] if planned else status["connector"])["trace"]
    reason = trace.split("\n", 1)[0]
    check(heading, reason)
    what = "task-0" if planned else "worker"
    marked = f" ERROR [{name}|{what}] "
    wait_until(lambda: marked in worker.log_text(), 10, "the failure to be logged")
    text = worker.log_text()
    [line] = [line for line in text.splitlines() if marked in line]
    assert reason in line
    assert text.count(f" failed: {reason}") == 1, "the failure is told more than once"
    assert len(re.findall(rf" (?:WARN|ERROR) \[{name}\|", text)) == 1
    assert "py4j" not in trace
    assert "/pyspark/" not in trace


@pytest.mark.parametrize("heading", WORKERS)
def test_a_worker_that_does_not_start(heading: str, ended: dict[str, Future[str]]) -> None:
    check(heading, ended[heading].result(TIMEOUT_S))


def test_no_worker_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "status", "--url", f"http://127.0.0.1:{free_port()}"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode > 0
    check("No worker answers", done.stderr)
