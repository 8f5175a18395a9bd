"""One worker, as users see it: a file is copied through a topic into another file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from penstock import KAFKA_VERSION
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

LINES = "".join(f"line {n}: Füße, 日本, 🙂\n" for n in range(5_000)) + "\n\nbetween empty lines\n\n"


@dataclass
class Pipe:
    """A source and a sink connector with a topic between them, on one worker."""

    worker: WorkerProcess
    source: Path
    target: Path
    topic: str
    rest_s: float
    seen: list[str] = field(default_factory=list)  # traces of the source task while Spark started

    def source_config(self) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.source),
            "topic": self.topic,
        }

    def sink_config(self) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSink",
            "tasks.max": "1",
            "file": str(self.target),
            "topics": self.topic,
        }

    def arrived(self) -> bytes:
        return self.target.read_bytes() if self.target.exists() else b""


@pytest.fixture(scope="module")
def pipe(
    make_worker: Callable[..., WorkerProcess],
    topics: Topics,
    cluster: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Pipe:
    """A worker that just started, with both connectors; keeps the traces of the start."""
    folder = tmp_path_factory.mktemp("files")
    worker = make_worker(offset_storage_partitions="5").start()
    pipe = Pipe(worker, folder / "in.txt", folder / "out.txt", f"{cluster}-lines", 0.0)
    pipe.source.write_text(LINES)
    topics.create(pipe.topic)
    pipe.rest_s = worker.await_rest()
    worker.create("src", pipe.source_config())

    def runs() -> bool:
        status = worker.status("src")
        for task in status.get("tasks", ()):
            if task["state"] == "UNASSIGNED":
                pipe.seen.append(task.get("trace", ""))
            if task["state"] == "RUNNING":
                return True
        return False

    wait_until(runs, 120, "the source task to run")
    worker.create("snk", pipe.sink_config())
    worker.await_states("snk", ["RUNNING", "RUNNING"])
    return pipe


def test_rest_answers_before_spark_is_there(pipe: Pipe) -> None:
    print(f"REST answered after {pipe.rest_s:.2f} s")  # noqa: T201 - a measurement, for `-s`
    assert pipe.rest_s < 20  # two seconds on a machine that does nothing else
    assert pipe.seen, "no status of the source task was seen before it ran"
    assert all("Spark" in trace for trace in pipe.seen), set(pipe.seen)


def test_every_line_arrives_once_and_in_order(pipe: Pipe, topics: Topics) -> None:
    wait_until(lambda: len(pipe.arrived()) >= len(LINES.encode()), 60, "all lines in the target")
    assert pipe.arrived().startswith(LINES.encode())
    assert topics.values(pipe.topic)[: LINES.count("\n")] == [
        line.encode() for line in LINES.split("\n")[:-1]
    ]


def test_the_status_tells_state_place_and_type(pipe: Pipe) -> None:
    place = {"state": "RUNNING", "worker_id": pipe.worker.id, "version": "4.3.1"}
    assert pipe.worker.status("src") == {
        "name": "src",
        "connector": place,
        "tasks": [{"id": 0, **place}],
        "type": "source",
    }
    assert pipe.worker.status("snk")["type"] == "sink"


@pytest.mark.parametrize("connector", ["src", "snk"])
def test_the_topics_of_a_connector_are_reported(pipe: Pipe, connector: str) -> None:
    def reported() -> object:
        return pipe.worker.request("GET", f"/connectors/{connector}/topics").json()

    expected = {connector: {"topics": [pipe.topic]}}
    wait_until(lambda: reported() == expected, 30, f"{expected}, not {reported()}")


def test_the_config_topic_holds_the_bytes_of_kafka_connect(
    pipe: Pipe, topics: Topics, cluster: str
) -> None:
    # kafka-connect.md §4.1: compact JSON, members in order, string keys.
    found = topics.latest(f"{cluster}-config")
    key = found.pop(b"session-key")
    assert key is not None
    assert re.fullmatch(
        rb'\{"key":"[A-Za-z0-9+/]{43}=","algorithm":"HmacSHA256","creation-timestamp":\d{13}\}', key
    )
    source = {**pipe.source_config(), "name": "src"}
    sink = {**pipe.sink_config(), "name": "snk"}
    source_task = "org.apache.kafka.connect.file.FileStreamSourceTask"
    sink_task = "org.apache.kafka.connect.file.FileStreamSinkTask"
    targets = {key: found.pop(key) for key in list(found) if (key or b"").startswith(b"target-")}
    assert set(targets.values()) <= {b'{"state":"STARTED","state.v2":"STARTED"}'}
    tasks = {name: found.pop(f"task-{name}-0".encode()) for name in ("src", "snk")}
    assert found == {
        b"connector-src": orjson.dumps({"properties": source}),
        b"commit-src": b'{"tasks":1}',
        b"connector-snk": orjson.dumps({"properties": sink}),
        b"commit-snk": b'{"tasks":1}',
    }
    # Task properties have the order of a Java map; parity tests compare that.
    for name, props in (
        ("src", {**source, "task.class": source_task}),
        ("snk", {**sink, "task.class": sink_task}),
    ):
        value = orjson.loads(tasks[name] or b"")
        assert value == {"properties": props}
        assert tasks[name] == orjson.dumps(value)


def test_the_status_topic_holds_the_bytes_of_kafka_connect(
    pipe: Pipe, topics: Topics, cluster: str
) -> None:
    found = topics.latest(f"{cluster}-status")
    worker = re.escape(pipe.worker.id.encode())
    running = (
        rb'\{"state":"RUNNING","trace":null,"worker_id":"'
        + worker
        + rb'","generation":[1-9]\d*,"version":"'
        + re.escape(KAFKA_VERSION.encode())
        + rb'"\}'
    )
    for key in (b"status-connector-src", b"status-task-src-0", b"status-task-snk-0"):
        value = found[key]
        assert value is not None
        assert re.fullmatch(running, value), value
    topic = pipe.topic.encode()
    use = found[b"status-topic-" + topic + b":connector-src"]
    assert use is not None
    assert re.fullmatch(
        rb'\{"topic":\{"name":"' + topic + rb'","connector":"src","task":0,'
        rb'"discoverTimestamp":\d{13}\}\}',
        use,
    )


def test_the_offset_topic_holds_the_position_reached(
    pipe: Pipe, topics: Topics, cluster: str
) -> None:
    key = f'["src",{{"filename":"{pipe.source}"}}]'.encode()
    position = b'{"position":%d}' % pipe.source.stat().st_size

    def stored() -> bytes | None:
        return topics.latest(f"{cluster}-offset").get(key)

    wait_until(lambda: stored() == position, 30, f"{position!r} under {key!r}")


def test_the_offset_topic_is_made_as_configured(pipe: Pipe, topics: Topics, cluster: str) -> None:
    assert len(topics.ends(f"{cluster}-offset")) == 5
    assert topics.settings(f"{cluster}-offset")["cleanup.policy"] == "compact"


def test_written_records_are_committed_in_the_connectors_group(pipe: Pipe, topics: Topics) -> None:
    end = topics.ends(pipe.topic)
    wait_until(lambda: topics.committed("connect-snk", pipe.topic) == end, 30, f"offsets {end}")


def test_appended_lines_follow_and_an_unterminated_one_waits_for_its_end(pipe: Pipe) -> None:
    before = pipe.arrived()
    with pipe.source.open("a") as file:
        file.write("appended\nunfini")
        file.flush()
        wait_until(lambda: pipe.arrived() == before + b"appended\n", 30, "the appended line")
        file.write("shed\n")
    wait_until(lambda: pipe.arrived() == before + b"appended\nunfinished\n", 30, "the whole line")


def test_a_paused_connector_moves_nothing_until_it_is_resumed(pipe: Pipe) -> None:
    worker, before = pipe.worker, pipe.arrived()
    assert worker.request("PUT", "/connectors/src/pause").status_code == 202
    worker.await_states("src", ["PAUSED", "PAUSED"])
    with pipe.source.open("a") as file:
        file.write("written while paused\n")
    assert pipe.arrived() == before
    assert worker.request("PUT", "/connectors/src/resume").status_code == 202
    worker.await_states("src", ["RUNNING", "RUNNING"])
    wait_until(lambda: pipe.arrived() == before + b"written while paused\n", 60, "the line")


def test_a_file_that_is_not_there_yet_is_waited_for(
    pipe: Pipe, topics: Topics, tmp_path: Path
) -> None:
    file = tmp_path / "later.txt"
    topic = topics.create(f"{pipe.topic}-later")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    pipe.worker.create("later", config)
    pipe.worker.await_states("later", ["RUNNING", "RUNNING"])
    assert topics.count(topic) == 0
    file.write_text("here I am\n")
    wait_until(lambda: topics.count(topic) == 1, 30, "the line in the topic")
    assert topics.values(topic) == [b"here I am"]


def test_a_task_that_cannot_write_fails_with_the_reason_and_can_be_restarted(
    pipe: Pipe, topics: Topics, tmp_path: Path
) -> None:
    worker, folder = pipe.worker, tmp_path / "missing"
    topic = topics.create(f"{pipe.topic}-blocked")
    topics.append(topic, [b"one"])
    target = folder / "out.txt"
    config = {"connector.class": "FileStreamSink", "file": str(target), "topics": topic}
    worker.create("blocked", config)
    worker.await_states("blocked", ["RUNNING", "FAILED"])
    trace = worker.status("blocked")["tasks"][0]["trace"]
    assert f"Cannot write '{target}' (setting 'file'): No such file or directory" in trace
    assert "org.apache.spark" not in trace
    folder.mkdir()
    answer = worker.request("POST", "/connectors/blocked/tasks/0/restart")
    assert answer.status_code == 204
    worker.await_states("blocked", ["RUNNING", "RUNNING"])
    wait_until(lambda: target.exists() and target.read_bytes() == b"one\n", 30, "the record")


def test_a_deleted_connector_leaves_nothing_but_its_topics(
    pipe: Pipe, topics: Topics, tmp_path: Path
) -> None:
    file = tmp_path / "short.txt"
    file.write_text("gone soon\n")
    topic = topics.create(f"{pipe.topic}-gone")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    pipe.worker.create("gone", config)
    wait_until(lambda: topics.count(topic) == 1, 60, "the line in the topic")
    assert pipe.worker.request("DELETE", "/connectors/gone").status_code == 204
    assert pipe.worker.request("GET", "/connectors/gone").status_code == 404
    wait_until(lambda: not pipe.worker.states("gone"), 30, "its status to go")
    file.write_text("gone soon\nand nobody reads this\n")
    pipe.worker.await_states("src", ["RUNNING", "RUNNING"])
    assert topics.values(topic) == [b"gone soon"]


def test_metrics_tell_how_far_the_sink_is_and_what_slots_and_the_group_say(pipe: Pipe) -> None:
    def reported() -> str:
        return pipe.worker.request("GET", "/metrics").text

    of = 'connector="snk",partition="0",task="0"'
    nothing_left = f'penstock_sink_record_lag{{{of},topic="{pipe.topic}"}} 0.0\n'
    wait_until(lambda: nothing_left in reported(), 30, "the sink to be through")
    assert re.search(
        r'penstock_task_busy_ratio\{connector="snk",shared="true",slot="\d+"', reported()
    )
    hosted = re.findall(r"penstock_slot_tasks\{.*\} (\d+)", reported())
    assert sum(map(int, hosted)) >= 2
    wait_until(lambda: "penstock_slot_memory_bytes{" in reported(), 10, "the slots' memory")
    found = reported()
    assert 'kafka_connect_sink_task_sink_record_lag_max{connector="snk",task="0"} 0.0\n' in found
    assert re.search(r"^kafka_connect_coordinator_heartbeat_rate [0-9.]*[1-9]", found, re.MULTILINE)
    assert re.search(r"^kafka_connect_connection_count [1-9]", found, re.MULTILINE)


def test_log_lines_say_whose_they_are_also_those_of_sparks_python_processes(
    pipe: Pipe, topics: Topics, tmp_path: Path
) -> None:
    assert " INFO [src|task-0] Creating task src-0: " in pipe.worker.log_text()
    topic = topics.create(f"{pipe.topic}-text")
    topics.append(topic, [b"no JSON"])
    picky = {
        "connector.class": "FileStreamSink",
        "file": str(tmp_path / "picky.txt"),
        "topics": topic,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
    }
    pipe.worker.create("picky", picky)
    line = " ERROR [picky|task-0] Error encountered in task picky-0. Executing stage "
    wait_until(lambda: line in pipe.worker.log_text(), 60, "a refused record to be logged")
