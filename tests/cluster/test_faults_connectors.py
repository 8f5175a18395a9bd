"""Failing and changing connectors, bad records and bad requests on a cluster under load: the other
connectors continue, and every line arrives.

No test here interrupts a task, so nothing may be repeated. The tests run in turn on one cluster,
whose three topics held foreign and corrupt records before its first worker started.
"""

from __future__ import annotations

import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import pytest
from confluent_kafka import TopicPartition

from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker
from penstock.testing.cluster import Flow, FlowWatch, GrowingFile, WorkerCluster
from penstock.testing.group_log import read_group_log
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

START_S: Final = 240.0
REST_S: Final = 2.5
LINES_S: Final = 400
WIDE: Final = 3  # partitions of the topic whose sink has several tasks
FLOWS: Final = {"a": 1, "b": 1, "wide": WIDE}

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(220)]

SETTINGS: Final = {
    "scheduled_rebalance_max_delay_ms": "0",
    "session_timeout_ms": "6000",
    "heartbeat_interval_ms": "300",
    "offset_storage_partitions": "2",
    "task_shutdown_graceful_timeout_ms": "10000",
    "spark_driver_memory": "600m",
}

Garbage = dict[str, list[tuple[bytes, bytes | None]]]

GARBAGE: Final[Garbage] = {
    "config": [
        (b"somebody-elses", b"text"),
        (b"\xff\xfe", b"\x00\x01"),
        (b"connector-broken", b"{not json"),
        (b"connector-list", b"[]"),
        (b"connector-number", b'{"properties":7}'),
        (b"task-nobody-0", b'{"properties":{}}'),
        (b"task-nobody-many", b'{"properties":{}}'),
        (b"task-x", b'{"properties":{}}'),
        (b"commit-nobody", b'{"tasks":3}'),
        (b"commit-nobody", b'{"tasks":"three"}'),
        (b"target-state-nobody", b'{"state":"FLYING"}'),
        (b"tasks-fencing-nobody", b'{"task-count":-1}'),
        (b"session-key", b'{"key":5,"algorithm":null}'),
        (b"session-key", None),
        (b"logger-cluster-penstock", b'{"level":7}'),
        (b"restart-connector-nobody", b'{"include-tasks":"yes"}'),
    ],
    "status": [
        (b"somebody-elses", b"text"),
        (b"\xff\xfe", b"\x00\x01"),
        (b"status-task-nobody-0", b'{"state":"FLYING","worker_id":"x","generation":1}'),
        (b"status-task-nobody-1", b'{"state":"RUNNING","worker_id":"x","generation":1.5}'),
        (b"status-task-nobody", b"[]"),
        (b"status-connector-nobody", b"{not json"),
        (b"status-topic-t", b'{"topic":{}}'),
        (b"status-topic-t:connector-nobody", b'{"topic":{"name":7}}'),
    ],
    "offset": [
        (b"no json", b"text"),
        (b"\xff\xfe", b"\x00\x01"),
        (b"{}", b'{"position":1}'),
        (b'["alone"]', b'{"position":1}'),
        (b'["a-src","no map"]', b'{"position":1}'),
        (b'["a-src",{"filename":"another"}]', b'{"position":"seven"}'),
        (b'["a-src",{"filename":"third"}]', b"{not json"),
        (b"[7,{}]", None),
    ],
}


@pytest.fixture(scope="module")
def flows(
    topics: Topics, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Flow]]:
    folder = tmp_path_factory.mktemp("flows")
    made: list[Flow] = []
    for name, partitions in FLOWS.items():
        growing = GrowingFile(folder / f"{name}.txt", lines_s=LINES_S, piece_s=1.0)
        topic = topics.create(f"{cluster}-{name}", partitions)
        made.append(Flow(name, folder, topic, growing, partitions))
    yield made
    for flow in made:
        flow.growing.stop()


@dataclass
class Pair:
    """Two workers, and the records that flow through them."""

    cluster: WorkerCluster
    watch: FlowWatch
    topics: Topics
    group: str
    items: int  # connectors and tasks

    @property
    def workers(self) -> list[WorkerProcess]:
        return self.cluster.workers

    def shared(self, more: int = 0) -> dict[str, str]:
        """The owners of connectors and tasks, once all are assigned, including `more` of them."""
        return self.cluster.await_shared(self.items + more, self.workers, START_S)

    def generation(self) -> int:
        return read_group_log(self.topics).generation(self.group)

    def rest(self) -> int:
        """The generation, once it stayed the same for a while. A worker that has stopped a deleted
        task requests a rebalance, which cannot be foreseen; the others learn of a rebalance with
        their next heartbeat."""
        seen = self.generation()
        since = time.monotonic()

        def rests() -> bool:
            nonlocal seen, since
            now = self.generation()
            if now != seen:
                seen, since = now, time.monotonic()
            return time.monotonic() - since > REST_S

        wait_until(rests, START_S, "the group to rest", poll_s=0.5)
        return seen

    def put(self, connector: str, config: dict[str, str]) -> None:
        """Changes a configuration, through the second worker."""
        path = f"/connectors/{connector}/config"
        assert self.workers[1].request("PUT", path, config).status_code == 200


@pytest.fixture(scope="module")
def pair(
    make_worker: Callable[..., WorkerProcess], topics: Topics, cluster: str, flows: list[Flow]
) -> Iterator[Pair]:
    for store, partitions in (("config", 1), ("status", 3), ("offset", 2)):
        topics.create(f"{cluster}-{store}", partitions, cleanup_policy="compact")
    pour(topics, cluster)
    workers = [make_worker(**SETTINGS).start() for _ in range(2)]
    for worker in workers:
        worker.await_rest(START_S)
    for flow in flows:
        workers[0].create(flow.source, flow.source_config())
        workers[1].create(flow.sink, flow.sink_config())
    with FlowWatch(topics, cluster, flows) as watch:
        pair = Pair(WorkerCluster(workers), watch, topics, cluster, 4 * len(flows))
        try:
            pair.shared()
            watch.arriving()
            yield pair
        finally:
            for worker in pair.cluster.up():
                worker.kill()


@pytest.fixture(autouse=True)
def only_the_flows(pair: Pair) -> Iterator[None]:
    """Deletes a test's connectors when it ends or fails: other tests count connectors."""
    yield
    names = {name for flow in pair.watch.flows.values() for name in (flow.source, flow.sink)}
    for name in set(pair.workers[0].request("GET", "/connectors").json()) - names:
        pair.workers[0].request("DELETE", f"/connectors/{name}")


def pour(topics: Topics, cluster: str) -> None:
    """Appends the garbage to the three topics."""
    for store, rows in GARBAGE.items():
        for key, value in rows:
            topics.append(f"{cluster}-{store}", [value], key=key)


def test_foreign_and_corrupt_records_are_passed_over(pair: Pair, cluster: str) -> None:
    before, starts, generation = pair.shared(), pair.cluster.starts(), pair.rest()
    with pair.watch.trial() as trial:
        pour(pair.topics, cluster)  # workers have read the earlier garbage already
        pair.watch.arriving()
        names = {flow.source for flow in pair.watch.flows.values()}
        names |= {flow.sink for flow in pair.watch.flows.values()}
        for worker in pair.workers:
            assert set(worker.request("GET", "/connectors").json()) == names
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)
    assert (pair.shared(), pair.cluster.starts()) == (before, starts)
    assert pair.generation() == generation


@pytest.mark.parametrize("number", [0, 1])
def test_an_internal_request_signed_with_another_key_is_refused(pair: Pair, number: int) -> None:
    before, starts = pair.shared(), pair.cluster.starts()
    config_end = pair.topics.ends(f"{pair.group}-config")
    url = f"{pair.workers[number].url}/connectors/a-src/tasks"
    body = orjson.dumps([{"file": "another"}])
    kind = {"Content-Type": "application/json"}
    signed = {
        **kind,
        "X-Connect-Authorization": b64encode(bytes(32)).decode(),
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    answers = [
        httpx.post(url, content=body, headers=headers, trust_env=False, timeout=30)
        for headers in (signed, kind)
    ]
    assert [(answer.status_code, answer.json()) for answer in answers] == [
        (403, {"error_code": 403, "message": "Internal request contained invalid signature."}),
        (400, {"error_code": 400, "message": "Internal request missing required signature"}),
    ]
    pair.watch.arriving()
    assert pair.topics.ends(f"{pair.group}-config") == config_end
    assert (pair.shared(), pair.cluster.starts()) == (before, starts)


def test_a_second_worker_on_the_same_port_does_not_start_and_nobody_notices(
    pair: Pair, broker: Broker, tmp_path: Path
) -> None:
    before, starts, generation = pair.shared(), pair.cluster.starts(), pair.rest()
    port = pair.workers[0].url.rpartition(":")[2]
    settings = {**worker_settings(broker.bootstrap, pair.group), "listeners": pair.workers[0].url}
    with pair.watch.trial() as trial:
        said = refused(tmp_path, settings)
        pair.watch.arriving()
    assert f"Port {port} is in use" in said
    assert "'listeners'" in said
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)
    assert (pair.shared(), pair.cluster.starts()) == (before, starts)
    assert pair.generation() == generation


def test_a_config_topic_with_two_partitions_is_refused(
    broker: Broker, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    settings = worker_settings(broker.bootstrap, unique("two"))
    topic = topics.create(settings["config.storage.topic"], 2, cleanup_policy="compact")
    assert (
        f"Topic '{topic}' supplied via the 'config.storage.topic' property is required to have a "
        "single partition in order to guarantee consistency of connector configurations, but found "
        "2 partitions."
    ) in refused(tmp_path, settings)


def refused(folder: Path, settings: dict[str, str]) -> str:
    """The message of a worker that fails to start."""
    file = folder / "worker.properties"
    file.write_bytes(render_properties(settings))
    command = [sys.executable, "-m", "penstock", "distributed", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr[ended.stderr.index("penstock: ") :]


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_task_that_fails_fails_alone(
    pair: Pair, topics: Topics, kind: str, tmp_path: Path
) -> None:
    name, topic = f"failing-{kind}", topics.create(f"{pair.group}-failing-{kind}")
    file, away = tmp_path / "file", tmp_path / "away"
    if kind == "source":
        file.write_bytes(b"one\n")
        config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    else:
        config = {
            "connector.class": "FileStreamSink",
            "file": str(file),
            "topics": topic,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
    pair.workers[0].create(name, config)
    pair.shared(more=2)
    if kind == "source":
        wait_until(lambda: topics.values(topic) == [b"one"], START_S, "the line")
    before = owners_but(pair, name)
    starts, generation = pair.cluster.starts(), pair.rest()
    with pair.watch.trial() as trial:
        if kind == "source":
            file.rename(away)
            file.symlink_to(file)  # a loop: unreadable even for root
        else:
            topics.append(topic, [b"{no json"])
        pair.workers[0].await_states(name, ["RUNNING", "FAILED"])
        pair.watch.arriving()
    trace = pair.workers[0].status(name)["tasks"][0]["trace"]
    assert (str(file) if kind == "source" else f"topic '{topic}', partition 0, offset 0") in trace
    status = status_of(pair, f"status-task-{name}-0")
    assert (status["state"], status["generation"]) == ("FAILED", generation)
    assert pair.generation() == generation, "a task that failed caused a rebalance"
    assert (owners_but(pair, name), pair.cluster.starts()) == (before, starts)
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)

    # After a restart it resumes where it was, again without any effect on others.
    if kind == "source":
        file.unlink()
        file.write_bytes(b"one\ntwo\n")
    else:
        [deleted] = topics.admin.delete_records([TopicPartition(topic, 0, 1)]).values()
        deleted.result()
        topics.append(topic, [b'"one"'])
    answer = pair.workers[1].request("POST", f"/connectors/{name}/tasks/0/restart")
    assert answer.status_code == 204
    if kind == "source":
        wait_until(lambda: topics.values(topic) == [b"one", b"two"], START_S, "the next line")
    else:
        wait_until(lambda: file.exists() and file.read_bytes() == b"one\n", START_S, "the record")
    assert pair.generation() == generation
    assert pair.workers[0].request("DELETE", f"/connectors/{name}").status_code == 204
    pair.shared()


def owners_but(pair: Pair, connector: str) -> dict[str, str]:
    owners = pair.cluster.owners()
    return {item: owner for item, owner in owners.items() if not item.startswith(connector)}


def status_of(pair: Pair, key: str) -> dict[str, Any]:
    value = pair.topics.latest(f"{pair.group}-status")[key.encode()]
    assert value is not None
    found: dict[str, Any] = orjson.loads(value)
    return found


def test_the_number_of_tasks_can_be_changed_under_load(pair: Pair) -> None:
    flow = pair.watch.flows["wide"]
    pair.shared()
    with pair.watch.trial() as trial:
        for tasks in (WIDE, 1, 2):
            pair.put(flow.sink, {"name": flow.sink, **flow.sink_config(tasks_max=str(tasks))})
            pair.items = 4 * len(FLOWS) + tasks - 1
            owners = pair.shared()
            assert {item for item in owners if item.startswith(f"{flow.sink}-")} == {
                f"{flow.sink}-{number}" for number in range(tasks)
            }
            pair.watch.arriving()
    print(f"\ntasks changed: longest pause {trial.stall_s:.1f} s")  # noqa: T201 - for `-s`
    # The tasks of the previous set stop cleanly, and commit what they have written.
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)
    # Moving partitions does not pause tasks for long.
    assert trial.stall_s < 8.0 * trial.slowness


def test_a_deleted_connector_stops_everywhere_and_continues_where_it_was_when_made_again(
    pair: Pair, cluster: str
) -> None:
    flow = pair.watch.flows["a"]
    pair.shared()
    with pair.watch.trial() as trial:
        for name in (flow.source, flow.sink):
            assert pair.workers[1].request("DELETE", f"/connectors/{name}").status_code == 204
        for worker in pair.workers:
            wait_until(lambda w=worker: gone(w, flow), 30, f"{worker.id} to forget them")
        statuses = pair.topics.latest(f"{cluster}-status")
        ours = {
            key: value
            for key, value in statuses.items()
            if key and any(f"-{name}".encode() in key for name in (flow.source, flow.sink))
        }
        assert ours.keys() >= {f"status-task-{flow.source}-0".encode()}
        assert set(ours.values()) == {None}, "a status is left"
        # Deleting a connector deletes neither its offsets nor the sink's group.
        sent, written = pair.topics.count(flow.topic), pair.watch.lines_in_target(flow)
        assert pair.watch.positions()[flow.name] == sent
        assert pair.watch.committed(flow) == written
        lines = flow.growing.lines
        pair.workers[0].create(flow.source, flow.source_config())
        pair.workers[0].create(flow.sink, flow.sink_config())
        pair.shared()
        pair.watch.arriving()
        assert lines > sent, "the file did not grow meanwhile: nothing is shown"
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)
    others_stall = max(trial.target_stall_s[name] for name in FLOWS if name != flow.name)
    assert others_stall < 8.0 * trial.slowness, "the others were kept from going on"


def gone(worker: WorkerProcess, flow: Flow) -> bool:
    """Whether the worker no longer knows the flow's connectors."""
    return not worker.states(flow.source) and not worker.states(flow.sink)
