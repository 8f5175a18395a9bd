"""A worker whose tasks fail: restarted by an operator, automatically, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

RUNNING = ["RUNNING", "RUNNING"]
FAILED = ["RUNNING", "FAILED"]


@pytest.fixture(scope="module")
def worker(shared_worker: WorkerProcess) -> WorkerProcess:
    return shared_worker


def sink(file: Path, topic: str, **settings: str) -> dict[str, str]:
    """A sink connector; in the names of settings an underscore is a dot."""
    return {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(file),
        "topics": topic,
        **{name.replace("_", "."): text for name, text in settings.items()},
    }


def trace(worker: WorkerProcess, connector: str) -> str:
    [task] = worker.status(connector)["tasks"]
    return str(task.get("trace", ""))


@pytest.fixture(scope="module")
def topic(topics: Topics, cluster: str) -> str:
    name = f"{cluster}-lines"
    topics.create(name)
    topics.append(name, [b"one", b"two"])
    return name


def test_a_task_recovers_by_itself_once_its_target_is_there(
    worker: WorkerProcess, topic: str, tmp_path: Path
) -> None:
    target = tmp_path / "later" / "out.txt"
    worker.create(
        "patient",
        sink(
            target,
            topic,
            penstock_restart_policy="any",
            penstock_restart_attempts="-1",
            penstock_restart_backoff_ms="500",
            penstock_restart_backoff_max_ms="2000",
        ),
    )
    wait_until(
        lambda: (
            worker.states("patient") == FAILED
            and "Automatic restart in" in trace(worker, "patient")
        ),
        120,
        "a failure that is followed by a restart",
    )
    target.parent.mkdir()
    worker.await_states("patient", RUNNING)
    wait_until(
        lambda: target.exists() and target.read_text() == "one\ntwo\n", 60, "both records, once"
    )


def test_a_failure_that_will_not_pass_is_left_alone_until_somebody_restarts_it(
    worker: WorkerProcess, topic: str, tmp_path: Path
) -> None:
    target = tmp_path / "later" / "out.txt"
    worker.create("stuck", sink(target, topic))
    worker.await_states("stuck", FAILED)
    assert "restarted by itself" not in trace(worker, "stuck")
    target.parent.mkdir()
    answer = worker.request("POST", "/connectors/stuck/restart?includeTasks=true&onlyFailed=true")
    assert answer.status_code == 202
    reported = answer.json()
    assert reported["connector"]["state"] == "RUNNING"  # it has not failed
    assert [task["state"] for task in reported["tasks"]] == ["RESTARTING"]
    worker.await_states("stuck", RUNNING)
    wait_until(lambda: target.exists() and target.read_text() == "one\ntwo\n", 60, "the records")


def test_everything_of_a_connector_is_restarted(
    worker: WorkerProcess, topic: str, tmp_path: Path
) -> None:
    worker.create("busy", sink(tmp_path / "out.txt", topic))
    worker.await_states("busy", RUNNING)
    answer = worker.request("POST", "/connectors/busy/restart?includeTasks=true")
    assert answer.status_code == 202
    states = [answer.json()["connector"]["state"], answer.json()["tasks"][0]["state"]]
    assert states == ["RESTARTING", "RESTARTING"]
    worker.await_states("busy", RUNNING)
    assert worker.request("POST", "/connectors/none/restart?includeTasks=true").status_code == 404
