"""The command line against a real worker, which `connect-distributed -daemon` has started."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker
from penstock.testing.processes import STOP_S, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.places import ROOT

BIN = ROOT / "bin"
LINES = "".join(f"line {number}\n" for number in range(100))


@dataclass
class Place:
    """A worker, and the folder with all its files."""

    folder: Path
    url: str
    settings: Path

    def run(self, *args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Runs the command in a new process, for at most two minutes."""
        return subprocess.run(
            [sys.executable, "-m", "penstock", *args],
            input=stdin,
            capture_output=True,
            text=True,
            env={**clean_environment(), "PENSTOCK_URL": self.url, **env},
            cwd=self.folder,
            timeout=120,
            check=False,
        )

    def reported(self, *args: str, stdin: str = "") -> str:
        """Returns what the command prints; it must exit with 0."""
        done = self.run(*args, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *args: str) -> Any:
        return json.loads(self.reported(*args, "--json"))

    def processes(self) -> list[psutil.Process]:
        """The worker's process, or none when it has ended."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.settings) in process.cmdline()[2:]:
                    found.append(process)
        return found

    def rows(self, *args: str) -> list[list[str]]:
        """A table's cells, without the header; no cell may contain a blank."""
        return [line.split() for line in self.reported(*args).splitlines()[1:]]


def clean_environment() -> dict[str, str]:
    """The environment without variables that would influence the tests."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("KAFKA_", "CONNECT_", "PENSTOCK_")) or name == "PENSTOCK_HOME"
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return {**kept, "PATH": path, "PENSTOCK_CONFIG": os.devnull}


@pytest.fixture(scope="module")
def place(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("cli")
    settings = worker_settings(broker.bootstrap, "cli")
    file = folder / "worker.properties"
    file.write_bytes(render_properties(settings))
    place = Place(folder, settings["listeners"], file)
    started = subprocess.run(
        [str(BIN / "connect-distributed"), "-daemon", str(file)],
        env={**clean_environment(), "LOG_DIR": str(folder / "logs")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    family: list[psutil.Process] = []
    try:
        yield place
    finally:
        for process in place.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                family += process.children(recursive=True)
                process.terminate()
                with contextlib.suppress(psutil.TimeoutExpired):
                    process.wait(STOP_S)
                if process.is_running():
                    process.kill()
        for child in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture(scope="module")
def healthy(place: Place) -> Place:
    """The worker, once it is healthy."""
    place.reported("health", "--wait", "--timeout", "100")
    return place


@pytest.fixture
def source(
    healthy: Place, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[str]:
    """The name of a running file source whose lines go to a topic."""
    name, topic, file = unique("src"), unique("lines"), tmp_path / "in.txt"
    topics.create(topic)
    file.write_text(LINES)
    done = healthy.run(
        "create", "-", "--name", name, "--set", f"file={file}", "--set", f"topic={topic}",
        "--set", "db.password=hunter2", "--wait", "--timeout", "110",
        stdin="connector.class = FileStreamSource\ntasks.max = 1\n",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == f"created {name} (source)"
    yield name
    healthy.run("delete", name)


def test_a_daemon_answers_and_writes_its_log(healthy: Place) -> None:
    [process] = healthy.processes()
    assert process.is_running()
    assert "REST listens on" in (healthy.folder / "logs" / "connectDistributed.out").read_text()
    [[url, word, *_]] = healthy.rows("health")
    assert (url, word) == (healthy.url, "healthy")
    assert healthy.json("health")["status"] == "healthy"


def test_plugins_of_the_worker_are_listed(healthy: Place) -> None:
    classes = [row[1] for row in healthy.rows("list", "plugins")]
    assert "org.apache.kafka.connect.file.FileStreamSinkConnector" in classes
    every = healthy.json("list", "plugins", "--all")
    assert len(every) > len(classes)
    assert {plugin["type"] for plugin in every} >= {"source", "converter", "transformation"}


def test_a_predefined_connector_is_loaded_shown_and_unloaded(healthy: Place) -> None:
    # It waits for its file, which does not exist. While stopped, it never looks.
    loaded = json.loads(healthy.reported("load", "file-source", "--set", "topic=predefined"))
    assert loaded["config"] == {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": "test.txt",
        "topic": "predefined",
        "name": "file-source",
    }
    assert healthy.reported("stop", "file-source").strip() == "file-source: target state is STOPPED"
    assert ["file-source", "source"] in [row[:2] for row in healthy.rows("list", "connectors")]
    again = healthy.run("load", "file-source")
    assert again.returncode == 8
    assert "Connector file-source already exists (HTTP 409)" in again.stderr
    assert healthy.reported("unload", "file-source") == "deleted file-source\n"
    gone = healthy.run("unload", "file-source", "--json")
    assert gone.returncode == 5
    assert json.loads(gone.stdout)["error_code"] == 404


def test_files_are_applied_and_applied_again(healthy: Place, source: str, tmp_path: Path) -> None:
    resource = {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaConnector",
        "metadata": {"name": "applied", "labels": {"strimzi.io/cluster": "main"}},
        "spec": {
            "class": "FileStreamSource",
            "tasksMax": 1,
            "config": {"file": str(tmp_path / "in.txt"), "topic": "applied"},
        },
    }
    (tmp_path / "in.txt").write_text(LINES)
    file = tmp_path / "applied.yaml"
    file.write_text(json.dumps(resource))  # JSON is YAML
    arguments = ["apply", "-f", str(tmp_path), "--wait"]

    would = healthy.run("apply", "-f", str(tmp_path), "--dry-run")
    assert (would.returncode, would.stdout.splitlines()[0]) == (1, "would create applied")
    assert healthy.reported(*arguments).splitlines()[0] == "created applied"
    assert healthy.reported(*arguments).splitlines()[0] == "applied is unchanged"

    resource["spec"] |= {"state": "paused", "config": {"file": "other.txt", "topic": "applied"}}
    file.write_text(json.dumps(resource))
    assert "target state is PAUSED" in healthy.reported(*arguments)
    assert ["file", "other.txt"] in healthy.rows("config", "applied")

    resource["spec"]["class"] = "NoSuchConnector"
    file.write_text(json.dumps(resource))
    refused = healthy.run(*arguments)
    assert (refused.returncode, "NoSuchConnector" in refused.stderr) == (3, True)

    file.unlink()
    pruned = healthy.reported(
        "apply", "-f", str(tmp_path), "--prune", "--allow-empty", "--keep", source
    )
    assert pruned == "deleted applied\n"
    assert [row[0] for row in healthy.rows("list", "connectors")] == [source]


def test_a_status_tells_what_runs_where(healthy: Place, source: str) -> None:
    place = healthy.url.removeprefix("http://")
    assert healthy.rows("status", source) == [
        [source, "source", "-", "RUNNING", place],
        [source, "source", "0", "RUNNING", place],
    ]
    assert [source, "source", "0", "RUNNING", place] in healthy.rows("status", "connectors")
    assert healthy.json("status", source)["name"] == source
    assert healthy.run("wait", source, "--tasks", "2", "--timeout", "1").returncode == 7
    assert healthy.run("status", "nobody").returncode == 5


def test_a_configuration_is_shown_compared_and_changed(
    healthy: Place, source: str, tmp_path: Path
) -> None:
    assert ["db.password", "********"] in healthy.rows("config", source)
    stored = healthy.json("config", source)
    file = tmp_path / "again.properties"
    file.write_text(healthy.reported("config", source, "--properties"))
    assert healthy.run("diff", str(file)).returncode == 0
    changed = healthy.run("diff", str(file), "--set", "batch.size=7", "--validate")
    assert changed.returncode == 1
    assert "+batch.size=7" in changed.stdout.splitlines()
    assert f"'{source}' is valid." in changed.stdout
    assert healthy.json("config", source) == stored

    reported = healthy.reported("update", str(file), "--set", "batch.size=7")
    assert reported == f"updated {source}\n+batch.size=7\n"
    patched = healthy.reported("patch", source, "--set", "batch.size=8", "--unset", "db.password")
    assert patched.splitlines() == [
        f"updated {source}",
        "-batch.size=7",
        "+batch.size=8",
        "-db.password=********",
    ]
    expected = {**stored, "batch.size": "8"}
    del expected["db.password"]
    assert healthy.json("config", source) == expected


def test_a_bad_configuration_is_reported_by_key_and_not_stored(healthy: Place) -> None:
    bad = "name=bad\nconnector.class=FileStreamSource\ntasks.max=many\n"
    found = healthy.run("validate", "-", stdin=bad)
    assert found.returncode == 3
    errors = {line.split()[0] for line in found.stdout.splitlines()[1:]}
    assert errors == {"tasks.max", "topic"}
    refused = healthy.run("create", "-", stdin=bad)
    assert refused.returncode == 3
    assert "(HTTP 400)" in refused.stderr
    assert "bad" not in healthy.json("list", "connectors")
    strange = healthy.run("validate", "-", stdin="name=bad\nconnector.class=Nope\n")
    assert strange.returncode == 3, strange.stderr


def test_a_connector_pauses_resumes_and_restarts(healthy: Place, source: str) -> None:
    states = [row[2] for row in healthy.rows("pause", source, "--wait") if row[0] == source]
    assert states == ["PAUSED", "PAUSED"]
    assert healthy.json("status", source)["connector"]["state"] == "PAUSED"
    healthy.reported("resume", source, "--wait")
    healthy.reported("restart", source)
    healthy.reported("restart", source, "--task", "0")
    healthy.reported("restart", source, "--include-tasks", "--wait")
    assert {task["state"] for task in healthy.json("status", source)["tasks"]} == {"RUNNING"}
    assert healthy.run("restart", source, "--task", "9").returncode == 5


def test_a_failure_is_reported_with_its_reason(
    healthy: Place, unique: Callable[[str], str], topics: Topics, tmp_path: Path
) -> None:
    name, topic = unique("broken"), unique("broken")
    topics.create(topic)
    topics.append(topic, [b"x"])
    missing = tmp_path / "no such folder" / "out.txt"
    description = {
        "name": name,
        "config": {
            "connector.class": "FileStreamSink",
            "topics": topic,
            "file": str(missing),
            "penstock.restart.policy": "off",
        },
    }
    healthy.reported("create", "-", stdin=json.dumps(description))
    healthy.reported("wait", name, "--state", "failed", "--timeout", "110")
    failed = healthy.run("wait", name)
    assert failed.returncode == 4
    assert "task 0: " in failed.stderr
    shown = healthy.run("status", name, "--trace")
    assert shown.returncode == 4
    assert f"{name}, task 0, on " in shown.stdout
    assert healthy.run("status").returncode == 4
    healthy.reported("delete", name)


def test_offsets_are_shown_set_and_forgotten(healthy: Place, source: str, tmp_path: Path) -> None:
    file = healthy.json("config", source)["file"]
    end = [json.dumps({"filename": file}), json.dumps({"position": len(LINES)})]

    def shown() -> list[list[str]]:
        lines = healthy.reported("offsets", "get", source).splitlines()[1:]
        return [line.split("  ") for line in lines]

    wait_until(lambda: shown() == [end], 60, f"offsets {end}")
    running = healthy.run("offsets", "reset", source)
    assert running.returncode == 8
    assert "must be in the STOPPED state" in running.stderr
    assert f"penstock stop {source} --wait" in running.stderr

    healthy.reported("stop", source, "--wait")
    saved = healthy.json("offsets", "get", source)
    saved["offsets"][0]["offset"]["position"] = 7
    altered = healthy.reported("offsets", "alter", source, "-", stdin=json.dumps(saved))
    assert "altered successfully" in altered
    assert shown() == [[end[0], '{"position": 7}']]
    assert "reset successfully" in healthy.reported("offsets", "reset", source)
    assert shown() == []


def test_topics_in_use_are_shown_and_forgotten(healthy: Place, source: str) -> None:
    topic = healthy.json("config", source)["topic"]
    wait_until(lambda: healthy.reported("topics", source) == f"{topic}\n", 60, f"the topic {topic}")
    healthy.reported("stop", source, "--wait")
    healthy.reported("topics", source, "--reset")
    wait_until(lambda: healthy.reported("topics", source) == "", 30, "no topic")


def test_a_level_is_changed_and_shown(healthy: Place) -> None:
    name = "org.example.cli"
    assert healthy.reported("logs", "level", name, "debug") == f"{name} is DEBUG\n"
    [[shown, level, *changed]] = healthy.rows("logs", "level", name)
    assert (shown, level) == (name, "DEBUG")
    assert changed
    assert name in healthy.json("logs", "level")
    wide = healthy.reported("logs", "level", name, "WARN", "--cluster-wide")
    assert wide == f"{name} is WARN on every worker\n"
    wait_until(lambda: healthy.json("logs", "level", name)["level"] == "WARN", 30, "the level WARN")
    assert healthy.run("logs", "level", "org.example.nobody").returncode == 5


def test_a_worker_is_found_among_several_and_by_its_clusters_name(
    healthy: Place, tmp_path: Path
) -> None:
    nobody = "http://127.0.0.1:9"
    config = tmp_path / "config.toml"
    config.write_text(f'[clusters.here]\nurl = ["{nobody}", "{healthy.url}"]\n')
    env = {"PENSTOCK_URL": "", "PENSTOCK_CONFIG": str(config)}
    assert healthy.run("list", "connectors", **env).returncode == 0
    assert healthy.run("list", "connectors", "--cluster", "here", **env).returncode == 0
    alone = healthy.run("list", "connectors", "--url", nobody, **env)
    assert alone.returncode == 6
    assert nobody in alone.stderr
    assert "penstock distributed" in alone.stderr


def test_a_reader_that_leaves_early_is_no_error_to_speak_of(healthy: Place) -> None:
    command = f'"{sys.executable}" -m penstock list plugins --all | head -n 1'
    done = subprocess.run(
        ["sh", "-c", command],
        env={**clean_environment(), "PENSTOCK_URL": healthy.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("TYPE")
    assert done.stderr == ""
