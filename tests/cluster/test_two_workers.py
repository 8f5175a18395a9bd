"""Two workers on one machine form one cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from httpx import Response

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until


@pytest.fixture(scope="module")
def pair(make_worker: Callable[..., WorkerProcess]) -> list[WorkerProcess]:
    """Two workers of one group that both answer."""
    settings = {
        "scheduled_rebalance_max_delay_ms": "0",
        "session_timeout_ms": "6000",
        "heartbeat_interval_ms": "1500",
    }
    workers = [make_worker(**settings).start() for _ in range(2)]
    for worker in workers:
        worker.await_rest()
    return workers


def source_of(file: Path, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}


def owner_of(workers: list[WorkerProcess], connector: str) -> WorkerProcess:
    """The worker that runs the connector's only task."""

    def owner() -> WorkerProcess | None:
        tasks: list[dict[str, Any]] = workers[0].status(connector).get("tasks", [])
        running = [task["worker_id"] for task in tasks if task["state"] == "RUNNING"]
        return next((worker for worker in workers if worker.id in running), None)

    found = wait_until(owner, 120, f"the task of '{connector}' to run")
    assert found is not None
    return found


def test_they_are_one_cluster(pair: list[WorkerProcess], topics: Topics, tmp_path: Path) -> None:
    names = ["first", "second", "third"]
    for name in names:
        (tmp_path / name).write_text(f"{name}\n")
    # Only the leader writes, so a follower forwards at least one of these requests.
    for worker, name in zip([*pair, pair[0]], names, strict=True):
        topic = topics.create(f"pair-{name}")
        config = source_of(tmp_path / name, topic)
        answer = worker.create(name, config)
        assert answer.json() == {
            "name": name,
            "config": {**config, "name": name},
            "tasks": [],
            "type": "source",
        }
        assert answer.headers["location"].endswith(f"/connectors/{name}")
        assert answer.headers["content-type"] == "application/json"
    for worker in pair:
        wait_until(
            lambda w=worker: sorted(w.request("GET", "/connectors").json()) == sorted(names),
            30,
            f"{worker.id} to list {names}",
        )
    for name in names:
        wait_until(
            lambda n=name: topics.values(f"pair-{n}") == [n.encode()], 120, f"{name} in its topic"
        )
    owners = {owner_of(pair, name).id for name in names}
    assert owners == {worker.id for worker in pair}, "the work is not shared out"


def test_records_are_traced_by_whichever_worker_is_asked(
    pair: list[WorkerProcess], topics: Topics, tmp_path: Path
) -> None:
    file, topic = tmp_path / "traced", topics.create("pair-traced")
    file.write_text("")
    config = {
        **source_of(file, topic),
        "transforms": "wrap",
        "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.wrap.field": "line",
    }
    pair[0].create("traced", config)
    owner_of(pair, "traced")
    for number, worker in enumerate(pair):
        with ThreadPoolExecutor(1) as asking:
            path = "/connectors/traced/trace?records=1&timeout=30000"
            answer = asking.submit(worker.request, "GET", path)

            def asked(answer: Future[Response] = answer) -> bool:
                with file.open("a") as lines:
                    lines.write("again\n")
                return answer.done()

            wait_until(asked, 60, "a record to be traced")
        body = answer.result().json()
        assert body["connector"] == "traced", (number, body)
        (record,) = body["records"]
        steps = {each.get("alias", each["step"]): each for each in record["steps"]}
        assert steps["READ"]["value"] == "again"
        assert steps["wrap"]["value"] == {"line": "again"}
        assert record["outcome"] == "converted"
    wrong = pair[0].request("GET", "/connectors/traced/trace?records=0")
    assert wrong.status_code == 400
    assert "records must be a number from 1 to 100" in wrong.json()["message"]
    for path in ("/connectors/nobody/trace", "/connectors/traced/trace?task=7"):
        assert [worker.request("GET", path).status_code for worker in pair] == [404, 404]


def test_a_request_is_refused_alike_by_both(pair: list[WorkerProcess]) -> None:
    bodies = [
        worker.request("DELETE", "/connectors/nothing-of-this-name").json() for worker in pair
    ]
    assert (
        bodies == [{"error_code": 404, "message": "Connector nothing-of-this-name not found"}] * 2
    )


def test_the_tasks_of_a_worker_that_dies_continue_at_the_other(
    pair: list[WorkerProcess], topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create("pair-moved")
    file = tmp_path / "moved.txt"
    file.write_text("before\n")
    pair[0].create("moved", source_of(file, topic))
    dying = owner_of(pair, "moved")
    survivor = next(worker for worker in pair if worker is not dying)
    wait_until(lambda: topics.values(topic) == [b"before"], 60, "the first line")
    dying.kill()
    with file.open("a") as more:
        more.write("after\n")
    wait_until(
        lambda: owner_of([survivor], "moved") is survivor, 120, "the task to run on the other"
    )
    wait_until(lambda: topics.values(topic)[-1:] == [b"after"], 60, "the line after the move")
    lines = topics.values(topic)
    assert lines in ([b"before", b"after"], [b"before", b"before", b"after"])
