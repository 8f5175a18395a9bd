"""A Java host takes orders: it runs Kafka Connect's own file connectors, and its end has words."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from penstock.errors import StartupFailed
from penstock.host import jars
from penstock.ids import TaskId
from penstock.java import messages as m
from penstock.java.client import HostEnded
from penstock.java.process import HostProcess, HostSettings
from penstock.testing.processes import worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.java.plugins import BROKEN, compiled_plugin

pytestmark = pytest.mark.slow(60)

SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
WAIT_S: Final = 60
LINES: Final = [f"line {number}" for number in range(1000)]


class Host:
    """A host process, and what it has reported."""

    def __init__(self, settings: HostSettings) -> None:
        self.events: queue.Queue[m.Event] = queue.Queue()
        self.ended: queue.Queue[str] = queue.Queue()
        self.process = HostProcess(settings, self.events.put, self.ended.put)
        self.order = self.process.client.order

    def next(self, kind: type[m.Event]) -> m.Event:
        event = self.events.get(timeout=WAIT_S)
        assert isinstance(event, kind), event
        return event

    def start_task(
        self, name: str, config: dict[str, str], *, run: int = 1, exactly_once: bool = False
    ) -> TaskId:
        """Starts a connector and its first task."""
        self.order(m.StartJavaConnector(name, run, config))
        [task_config, *_] = self.order(m.GenerateTaskConfigs(name, config))
        task = TaskId(name, 0)
        started = m.StartJavaTask(task, run, config, task_config, exactly_once)
        assert self.order(started) is True
        return task


@pytest.fixture(scope="module")
def settings(
    topics: Topics, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Settings of a worker with two plugins in `plugin.path`."""
    path = tmp_path_factory.mktemp("plugins")
    (path / "file").mkdir()
    for jar in jars.folder("java-file").glob("*.jar"):
        shutil.copy(jar, path / "file")
    compiled_plugin(path / "broken")
    props = worker_settings(topics.bootstrap, cluster)
    topics.create(props["offset.storage.topic"], cleanup_policy="compact")
    return {**props, "plugin.path": str(path), "plugin.discovery": "hybrid_warn"}


@pytest.fixture(scope="module")
def opened(settings: dict[str, str]) -> Iterator[Host]:
    """A host for all tests that do not end it."""
    host = Host(HostSettings("256m"))
    host.order(m.OpenHost(settings, "127.0.0.1:8083", "cluster-id"))
    yield host
    host.process.close()


@pytest.fixture
def host(opened: Host) -> Host:
    while not opened.events.empty():
        opened.events.get()
    return opened


def test_a_file_moves_to_a_topic_and_back(
    host: Host,
    topics: Topics,
    settings: dict[str, str],
    tmp_path: Path,
    unique: Callable[[str], str],
) -> None:
    name, topic, file, copy = unique("in"), unique("t"), tmp_path / "in", tmp_path / "out"
    file.write_text("".join(f"{line}\n" for line in LINES))
    source_config = {"name": name, "connector.class": SOURCE, "file": str(file), "topic": topic}
    source = host.start_task(name, source_config)
    assert host.next(m.JavaTaskStarted) == m.JavaTaskStarted(source, 1)
    wait_until(lambda: topics.count(topic) == len(LINES), WAIT_S, "the records")

    out = unique("out")
    sink_config = {"name": out, "connector.class": SINK, "file": str(copy), "topics": topic}
    sink = host.start_task(out, sink_config)
    assert host.next(m.JavaTaskStarted) == m.JavaTaskStarted(sink, 1)
    wait_until(lambda: copy.exists() and copy.read_text() == file.read_text(), WAIT_S, "the copy")

    host.order(m.StopJavaTask(source, 1))
    host.order(m.StopJavaTask(sink, 1))
    # The offset is in the cluster's own topic, with Kafka Connect's key and value.
    key = json.dumps([name, {"filename": str(file)}], separators=(",", ":")).encode()
    value = topics.latest(settings["offset.storage.topic"])[key]
    assert json.loads(value or b"") == {"position": file.stat().st_size}

    assert host.order(m.ReadOffsets(name, source_config)) == {
        "offsets": [
            {
                "partition": {"filename": str(file)},
                "offset": {"position": file.stat().st_size},
            }
        ]
    }
    host.order(m.StopJavaConnector(name))
    altered = {"partition": {"filename": str(file)}, "offset": {"position": 0}}
    answer = host.order(m.AlterOffsets(name, source_config, [altered]))
    assert "altered successfully" in answer["message"]

    def stored() -> object:
        return host.order(m.ReadOffsets(name, source_config))["offsets"]

    # The runtime lists the partitions that it knows before it reads the topic to its end.
    wait_until(lambda: stored() == [altered], WAIT_S, "the altered offset")
    assert "reset successfully" in host.order(m.AlterOffsets(name, source_config, None))["message"]
    wait_until(lambda: stored() == [], WAIT_S, "the offset to be gone")


def test_a_validation_reports_the_plugins_own_problems(host: Host) -> None:
    infos = host.order(m.Validate({"name": "x", "connector.class": SOURCE, "file": "/tmp/x"}))
    errors = {
        info["value"]["name"]: info["value"]["errors"]
        for info in infos["configs"]
        if info["value"]["errors"]
    }
    assert errors == {
        "topic": ['Missing required configuration "topic" which has no default value.']
    }
    assert infos["error_count"] == 1


@pytest.mark.parametrize("point", ["start", "poll"])
def test_an_exception_of_a_plugin_fails_its_task_with_the_java_trace(
    host: Host, unique: Callable[[str], str], point: str
) -> None:
    name = unique("broken")
    task = host.start_task(name, {"name": name, "connector.class": BROKEN, "throw": point})
    if point == "poll":
        host.next(m.JavaTaskStarted)
    failed = host.next(m.JavaTaskFailed)
    assert isinstance(failed, m.JavaTaskFailed)
    assert failed.task == task
    assert f"broken in {point}" in failed.cause.message + failed.cause.trace
    assert f"suite.Broken$Task.{point}" in failed.cause.trace
    host.order(m.StopJavaTask(task, 1))
    # The host has forgotten the failed task, and runs it again.
    host.order(m.StopJavaConnector(name))
    host.start_task(name, {"name": name, "connector.class": BROKEN}, run=2)
    assert host.next(m.JavaTaskStarted) == m.JavaTaskStarted(task, 2)


def test_an_error_in_the_connector_is_the_answer_to_its_start(
    host: Host, unique: Callable[[str], str]
) -> None:
    name = unique("broken")
    config = {"name": name, "connector.class": BROKEN, "throw": "connector"}
    with pytest.raises(m.JavaError) as raised:
        host.order(m.StartJavaConnector(name, 1, config))
    assert "broken in connector" in raised.value.cause.trace
    assert "suite.Broken.start" in raised.value.cause.trace
    assert isinstance(host.next(m.JavaConnectorFailed), m.JavaConnectorFailed)


def test_a_connector_requests_a_reconfiguration(host: Host, unique: Callable[[str], str]) -> None:
    name = unique("asking")
    config = {"name": name, "connector.class": BROKEN, "throw": "reconfigure"}
    host.order(m.StartJavaConnector(name, 7, config))
    assert host.next(m.JavaReconfiguration) == m.JavaReconfiguration(name, 7)


def test_an_exactly_once_task_starts_when_the_worker_allows_it(
    settings: dict[str, str], topics: Topics, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    host = Host(HostSettings("256m"))
    name, topic, file = unique("in"), unique("t"), tmp_path / "in"
    file.write_text("one\ntwo\n")
    config = {"name": name, "connector.class": SOURCE, "file": str(file), "topic": topic}
    try:
        enabled = {**settings, "exactly.once.source.support": "enabled"}
        host.order(m.OpenHost(enabled, "127.0.0.1:8083", "cluster-id"))
        task = host.start_task(name, config, exactly_once=True)
        assert host.next(m.ProducerReady) == m.ProducerReady(task, 1)
        host.order(m.AllowStart(task, 1, "the task belongs to an older set"))
        failed = host.next(m.JavaTaskFailed)
        assert isinstance(failed, m.JavaTaskFailed)
        assert "the task belongs to an older set" in failed.cause.trace
        host.order(m.StopJavaTask(task, 1))
        host.order(m.StopJavaConnector(name))

        host.start_task(name, config, run=2, exactly_once=True)
        assert host.next(m.ProducerReady) == m.ProducerReady(task, 2)
        host.order(m.AllowStart(task, 2, None))
        assert host.next(m.JavaTaskStarted) == m.JavaTaskStarted(task, 2)
        wait_until(lambda: topics.values(topic) == [b"one", b"two"], WAIT_S, "the records")
    finally:
        host.process.close()


@pytest.mark.parametrize(
    ("throw", "words"),
    [
        ("exit", ["System.exit(5)", "suite.Broken$Task.poll", "task-thread-"]),
        ("memory", ["Java heap space; raise penstock.java.heap, which is 256m"]),
    ],
)
def test_a_plugin_that_ends_the_host_is_named(
    settings: dict[str, str], unique: Callable[[str], str], throw: str, words: list[str]
) -> None:
    host = Host(HostSettings("256m"))
    host.order(m.OpenHost(settings, "127.0.0.1:8083", "cluster-id"))
    name = unique("broken")
    host.start_task(name, {"name": name, "connector.class": BROKEN, "throw": throw})
    host.next(m.JavaTaskStarted)
    reason = host.ended.get(timeout=WAIT_S)
    for word in words:
        assert word in reason
    with pytest.raises(HostEnded):
        host.order(m.StopJavaConnector(name))


def test_a_host_ends_with_its_worker() -> None:
    host = Host(HostSettings("64m"))
    pid = host.process.pid
    host.process.client.close()
    assert "exit code 0" in host.ended.get(timeout=WAIT_S)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_killed_host_is_reported() -> None:
    host = Host(HostSettings("64m"))
    os.kill(host.process.pid, signal.SIGKILL)
    assert "killed by SIGKILL" in host.ended.get(timeout=WAIT_S)


def test_a_jvm_that_does_not_start_says_why() -> None:
    with pytest.raises(StartupFailed, match="Unrecognized VM option"):
        Host(HostSettings("64m", ["-XX:+NoSuchOption"]))
