"""Connectors written in Java are connectors like any other: a worker's REST API creates, pauses,
restarts, stops and deletes them, and their offsets are in the cluster's topics."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from penstock.host import jars
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.conftest import MakeWorker
from tests.java.plugins import BROKEN, compiled_plugin

pytestmark = pytest.mark.slow(120)

SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
JAVA: Final = {"penstock.java.plugin": "true"}
WAIT_S: Final = 120
SEARCH_S: Final = 300


@pytest.fixture(scope="module")
def worker(make_worker: MakeWorker, tmp_path_factory: pytest.TempPathFactory) -> WorkerProcess:
    path = tmp_path_factory.mktemp("plugins")
    (path / "file").mkdir()
    for jar in jars.folder("java-file").glob("*.jar"):
        shutil.copy(jar, path / "file")
    compiled_plugin(path / "broken")
    declared = {"plugin_path": str(path), "plugin_discovery": "service_load"}
    worker = make_worker(**declared, penstock_java_heap="256m").start()
    worker.await_rest()
    text = "connectors written in Java: 3"
    wait_until(lambda: text in worker.log_text(), SEARCH_S, "the search of the jars")
    return worker


def states(worker: WorkerProcess, name: str) -> list[str]:
    status = worker.request("GET", f"/connectors/{name}/status")
    if status.status_code == 404:
        return []
    body = status.json()
    return [body["connector"]["state"], *(task["state"] for task in body["tasks"])]


def await_states(worker: WorkerProcess, name: str, *wanted: str) -> dict[str, Any]:
    wait_until(lambda: states(worker, name) == list(wanted), WAIT_S, f"{name} to be {wanted}")
    body: dict[str, Any] = worker.request("GET", f"/connectors/{name}/status").json()
    return body


def create(worker: WorkerProcess, name: str, **config: str) -> None:
    dotted = {key.replace("_", "."): text for key, text in config.items()}
    body = {"name": name, "config": {**JAVA, **dotted}}
    answer = worker.request("POST", "/connectors", body=body)
    assert answer.status_code == 201, answer.text


def host_of(worker: WorkerProcess) -> psutil.Process | None:
    for child in psutil.Process(worker.pid).children():
        if "penstock.JavaHost" in child.cmdline():
            return child
    return None


def test_plugins_are_listed_without_a_host(worker: WorkerProcess) -> None:
    listed = worker.request("GET", "/connector-plugins").json()
    assert {"class": BROKEN, "type": "source", "version": "0.1"} in listed
    # A class that exists in both worlds is listed once.
    assert [each["class"] for each in listed].count(SOURCE) == 1
    settings = worker.request("GET", f"/connector-plugins/{BROKEN}/config").json()
    [own] = [each for each in settings if each["name"] == "throw"]
    assert (own["type"], own["importance"], own["default_value"]) == ("STRING", "HIGH", "")
    assert host_of(worker) is None


def test_a_validation_is_the_plugins_own(worker: WorkerProcess) -> None:
    config = {"name": "x", "connector.class": SOURCE, "file": "/tmp/x", **JAVA}
    path = "/connector-plugins/FileStreamSource/config/validate"
    infos = worker.request("PUT", path, body=config).json()
    errors = {
        info["value"]["name"]: info["value"]["errors"]
        for info in infos["configs"]
        if info["value"]["errors"]
    }
    assert errors == {
        "topic": ['Missing required configuration "topic" which has no default value.']
    }
    assert "penstock.java.plugin" in [info["value"]["name"] for info in infos["configs"]]


def test_a_source_and_a_sink_from_their_creation_to_their_end(
    worker: WorkerProcess, topics: Topics, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    source, sink, topic = unique("in"), unique("out"), unique("t")
    file, copy = tmp_path / "in", tmp_path / "copy"
    file.write_text("one\ntwo\n")
    create(worker, source, connector_class=SOURCE, file=str(file), topic=topic)
    create(worker, sink, connector_class=SINK, file=str(copy), topics=topic)
    status = await_states(worker, source, "RUNNING", "RUNNING")
    assert status["connector"]["version"] == "4.3.1"
    await_states(worker, sink, "RUNNING", "RUNNING")
    wait_until(lambda: copy.exists() and copy.read_text() == "one\ntwo\n", WAIT_S, "the copy")
    [task] = worker.request("GET", f"/connectors/{source}/tasks").json()
    assert task["config"]["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"

    worker.request("PUT", f"/connectors/{source}/pause")
    await_states(worker, source, "PAUSED", "PAUSED")
    with file.open("a") as more:
        more.write("three\n")
    worker.request("PUT", f"/connectors/{source}/resume")
    await_states(worker, source, "RUNNING", "RUNNING")
    wait_until(lambda: copy.read_text() == "one\ntwo\nthree\n", WAIT_S, "the third line")
    worker.request("POST", f"/connectors/{source}/restart?includeTasks=true")
    await_states(worker, source, "RUNNING", "RUNNING")

    worker.request("PUT", f"/connectors/{source}/stop")
    await_states(worker, source, "STOPPED")
    partition = {"filename": str(file)}
    offsets = f"/connectors/{source}/offsets"
    stored = [{"partition": partition, "offset": {"position": file.stat().st_size}}]
    assert worker.request("GET", offsets).json() == {"offsets": stored}
    second = [{"partition": partition, "offset": {"position": 4}}]
    answer = worker.request("PATCH", offsets, body={"offsets": second})
    assert "altered successfully" in answer.json()["message"]
    assert worker.request("GET", offsets).json() == {"offsets": second}
    worker.request("PUT", f"/connectors/{source}/resume")
    await_states(worker, source, "RUNNING", "RUNNING")
    wait_until(lambda: topics.count(topic) == 5, WAIT_S, "the last two lines again")
    assert topics.values(topic)[3:] == [b"two", b"three"]

    worker.request("DELETE", f"/connectors/{source}")
    wait_until(lambda: states(worker, source) == [], WAIT_S, "its end")
    with file.open("a") as more:
        more.write("four\n")
    worker.request("PUT", f"/connectors/{sink}/stop")
    await_states(worker, sink, "STOPPED")
    [committed] = worker.request("GET", f"/connectors/{sink}/offsets").json()["offsets"]
    assert committed["partition"] == {"kafka_topic": topic, "kafka_partition": 0}
    assert committed["offset"] == {"kafka_offset": 5}
    assert topics.count(topic) == 5


def test_a_failed_task_shows_javas_trace_and_starts_again(
    worker: WorkerProcess, unique: Callable[[str], str]
) -> None:
    name = unique("broken")
    create(worker, name, connector_class=BROKEN, throw="poll")
    status = await_states(worker, name, "RUNNING", "FAILED")
    trace = status["tasks"][0]["trace"]
    assert "org.apache.kafka.connect.errors.ConnectException: broken in poll" in trace
    assert "at suite.Broken$Task.poll" in trace
    fixed = {**JAVA, "connector.class": BROKEN}
    worker.request("PUT", f"/connectors/{name}/config", body=fixed)
    await_states(worker, name, "RUNNING", "RUNNING")
    worker.request("DELETE", f"/connectors/{name}")


def test_a_host_that_ends_fails_its_tasks_with_the_cause_and_a_restart_starts_another(
    worker: WorkerProcess, unique: Callable[[str], str]
) -> None:
    calm, bad = unique("calm"), unique("bad")
    create(worker, calm, connector_class=BROKEN)
    await_states(worker, calm, "RUNNING", "RUNNING")
    before = host_of(worker)
    assert before is not None
    create(worker, bad, connector_class=BROKEN, throw="memory")
    await_states(worker, bad, "FAILED", "FAILED")
    status = await_states(worker, calm, "FAILED", "FAILED")
    for trace in (status["connector"]["trace"], status["tasks"][0]["trace"]):
        assert "Java heap space; raise penstock.java.heap, which is 256m" in trace
    worker.request("DELETE", f"/connectors/{bad}")
    worker.request("POST", f"/connectors/{calm}/restart?includeTasks=true&onlyFailed=true")
    await_states(worker, calm, "RUNNING", "RUNNING")
    after = host_of(worker)
    assert after is not None
    assert after.pid != before.pid


def test_a_killed_worker_leaves_no_host(worker: WorkerProcess) -> None:
    host = host_of(worker)
    assert host is not None
    os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: not host.is_running(), WAIT_S, "the host to end")
