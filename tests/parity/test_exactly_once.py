"""Kafka Connect and penstock in one group, both exactly once: each asks the other to fence, and
what leaders write is the same, record for record (KIP-618)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.reference import reference_worker

pytestmark = pytest.mark.slow(205)

START_S = 180.0
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Start = Callable[[str], WorkerProcess]


@pytest.fixture
def start(
    broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[tuple[str, Start]]:
    """The group's id, and what starts a `reference` or `penstock` worker in it."""
    cluster = unique("mixed")
    with contextlib.ExitStack() as running:

        def start(kind: str) -> WorkerProcess:
            settings = {
                **worker_settings(broker.bootstrap, cluster),
                "exactly.once.source.support": "enabled",
                "scheduled.rebalance.max.delay.ms": "0",
                "offset.storage.partitions": "1",
                "status.storage.partitions": "1",
                "offset.flush.interval.ms": "500",
            }
            folder = tmp_path / kind
            folder.mkdir()
            worker = (
                reference_worker(folder, settings, options=SMALL)
                if kind == "reference"
                else WorkerProcess(folder, settings)
            )
            running.enter_context(worker)
            worker.await_rest(START_S, "/connectors")
            return worker

        yield cluster, start


def source(file: Path, topic: str, **more: str) -> dict[str, str]:
    named = {"connector.class": "FileStreamSource", "tasks.max": "1"}
    return {**named, "file": str(file), "topic": topic, **more}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("leader", ["reference", "penstock"])
def test_whoever_leads_fences_for_the_other(
    leader: str, start: tuple[str, Start], topics: Topics, tmp_path: Path
) -> None:
    cluster, run = start
    first = run(leader)
    second = run("penstock" if leader == "reference" else "reference")
    names = [f"c{number}" for number in range(4)]
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
        topics.create(f"{cluster}-{name}")
        first.create(name, source(tmp_path / name, f"{cluster}-{name}"))
    for worker in (first, second):
        for name in names:
            worker.await_states(name, ["RUNNING", "RUNNING"], START_S)

    def owners() -> set[str]:
        return {task["worker_id"] for name in names for task in first.status(name)["tasks"]}

    wait_until(lambda: owners() == {first.id, second.id}, START_S, "both to run tasks")
    for name in names:
        wait_until(
            lambda n=name: topics.values(f"{cluster}-{n}") == [n.encode()], 60, f"{name} to arrive"
        )
    for name in names:  # new task sets: every owner asks the leader again
        changed = source(tmp_path / name, f"{cluster}-{name}", note="changed")
        answer = second.request("PUT", f"/connectors/{name}/config", changed)
        assert answer.status_code == 200, answer.text
        with (tmp_path / name).open("a") as file:
            file.write("more\n")
    for name in names:
        wait_until(
            lambda n=name: topics.values(f"{cluster}-{n}") == [n.encode(), b"more"],
            START_S,
            f"the second line of {name}",
        )
    for name in names:
        # The old task may have moved the second line, before the leader fences it.
        fencings: list[bytes | None] = []

        def fenced(of: str = name, fencings: list[bytes | None] = fencings) -> bool:
            """Whether every task set of the connector had its zombies fenced."""
            records = topics.read(f"{cluster}-config")
            fencings[:] = [
                row.value for row in records if row.key == f"tasks-fencing-{of}".encode()
            ]
            return len(fencings) == len(
                [row for row in records if row.key == f"commit-{of}".encode()]
            )

        wait_until(fenced, 60, f"the zombies of {name} to be fenced")
        assert set(fencings) == {b'{"task-count":1}'}


@pytest.mark.timeout(600)
def test_leaders_write_the_same_transactions(
    start: tuple[str, Start], topics: Topics, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    cluster, run = start
    log = f"{cluster}-config"
    written: dict[str, list[tuple[int, bytes]]] = {}
    for kind in ("reference", "penstock"):
        worker = run(kind)
        wait_until(lambda: topics.latest(log).get(b"session-key"), 60, "a session key")
        begin = topics.ends(log)[0]
        live(worker, source(tmp_path / "same", topics.create(unique(f"{kind}-out"))))
        rows = [row for row in topics.read(log) if row.offset >= begin]
        written[kind] = [(row.offset - begin, row.key or b"") for row in rows]
        worker.stop()
    assert len(written["reference"]) > 8
    assert written["penstock"] == written["reference"]


def live(worker: WorkerProcess, config: dict[str, str]) -> None:
    """A connector's life: created, paused, resumed, stopped and deleted."""
    Path(config["file"]).write_text("line\n")
    worker.create("same", config)
    worker.await_states("same", ["RUNNING", "RUNNING"], START_S)
    worker.request("PUT", "/connectors/same/pause")
    worker.await_states("same", ["PAUSED", "PAUSED"], START_S)
    worker.request("PUT", "/connectors/same/resume")
    worker.await_states("same", ["RUNNING", "RUNNING"], START_S)
    worker.request("PUT", "/connectors/same/stop")
    wait_until(lambda: worker.states("same")[:1] == ["STOPPED"], 60, "the stop")
    worker.request("DELETE", "/connectors/same")
    wait_until(lambda: worker.request("GET", "/connectors").json() == [], 60, "the deletion")
