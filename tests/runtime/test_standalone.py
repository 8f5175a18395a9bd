"""A standalone worker, as users see it: connectors from files, offsets in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker, free_port
from penstock.offsets.file import read, write
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

STRING = "org.apache.kafka.connect.storage.StringConverter"
LINES = "".join(f"line {number}\n" for number in range(1_000))
WAIT_S = 240.0  # for every wait; a busy machine may take a minute for Spark to start

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow(165)]
SECRET = "hush-hush-7f3a"


class Alone:
    """A standalone worker, its folder and its connector files."""

    def __init__(self, folder: Path, bootstrap: str, **settings: str) -> None:
        self.folder = folder
        self.offsets = folder / "connect.offsets"
        self.files: list[Path] = []
        props = {
            "bootstrap.servers": bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": str(self.offsets),
            "offset.flush.interval.ms": "500",
            "listeners": f"http://127.0.0.1:{free_port()}",
            **{name.replace("_", "."): text for name, text in settings.items()},
        }
        self.worker = WorkerProcess(folder, props, command=self._command)

    def _command(self, file: Path) -> list[str]:
        # `WorkerProcess` needs the command before the connector files are known.
        penstock = f"PYTHONPATH='{self.folder}' exec '{sys.executable}' -m penstock standalone"
        return ["sh", "-c", f'{penstock} "$0" $(cat files)', str(file)]

    def start(self, *files: Path) -> WorkerProcess:
        """Starts the worker with these connector files."""
        (self.folder / "files").write_text(" ".join(map(str, files)))
        return self.worker.start()

    def describe(self, name: str, config: Mapping[str, str]) -> Path:
        """Writes a connector's properties file."""
        file = self.folder / f"{name}.properties"
        file.write_bytes(render_properties({"name": name, **config}))
        return file

    def describe_json(self, name: str, content: Mapping[str, Any]) -> Path:
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(content))
        return file

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The status and body of an answer."""
        answer = self.worker.request(method, path, body)
        return answer.status_code, answer.json() if answer.content else None

    def stored(self) -> dict[str, str | None]:
        """The offset file's content, as text."""
        return {
            (key or b"").decode(): None if value is None else value.decode()
            for key, value in read(self.offsets).items()
        }


def source(file: Path | str, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}


def sink(file: Path | str, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}


@pytest.fixture
def alone(tmp_path: Path, broker: Broker) -> Iterator[Alone]:
    """A worker only for this test, not started yet."""
    made = Alone(tmp_path, broker.bootstrap)
    yield made
    made.worker.close()


VAULT = """\
import json
from pathlib import Path

from penstock.api import ConfigProvider, Lookup, Plugin
from penstock.config.define import STRING, ConfigDef, Key

FILE = Key("file", STRING)


class Vault(ConfigProvider):
    plugin = Plugin("org.example.Vault", "1", ConfigDef(FILE))

    def get(self, path, keys):
        content = json.loads(Path(self.config[FILE]).read_text())
        return Lookup({key: content[key] for key in keys if key in content}, ttl_ms=1_000)
"""


def install_vault(folder: Path) -> None:
    """Installs a package with a config provider, whose secrets expire after a second."""
    (folder / "vault.py").write_text(VAULT)
    package = folder / "vault-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: vault\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[penstock.plugins]\nvault = vault:Vault\n")


@pytest.fixture(scope="module")
def running(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    """A running worker without connectors that may read secrets from files in its folder."""
    folder = tmp_path_factory.mktemp("standalone")
    install_vault(folder)
    made = Alone(
        folder,
        broker.bootstrap,
        config_providers="file,vault",
        config_providers_vault_class="org.example.Vault",
        config_providers_vault_param_file=str(folder / "vault.json"),
        config_providers_file_class="org.apache.kafka.common.config.provider.FileConfigProvider",
        config_providers_file_param_allowed_paths=str(folder),
    )
    made.start().await_rest(WAIT_S, "/health")
    yield made
    made.worker.close()


def test_connectors_from_files_run_and_continue_where_they_stopped(
    alone: Alone, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    it = alone
    topic, src, snk = unique("lines"), unique("src"), unique("snk")
    topics.create(topic)
    given, taken = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text(LINES)
    key = json.dumps([src, {"filename": str(given)}], separators=(",", ":"))
    write(it.offsets, {key.encode(): None, b"of nobody": b"x"})
    files = (
        it.describe(src, source(given, topic)),
        it.describe_json(
            "request", {"name": snk, "config": sink(taken, topic), "initial_state": "PAUSED"}
        ),
        it.describe_json("flat", {"name": "idle", **sink(tmp_path / "idle.txt", topic)}),
    )
    worker = it.start(*files)
    worker.await_rest(WAIT_S, "/health")
    assert sorted(it.ask("GET", "/connectors")[1]) == sorted([src, snk, "idle"])
    assert it.ask("GET", "/")[1]["kafka_cluster_id"]

    # A connector that is created paused gets its tasks when it is resumed.
    worker.await_states(snk, ["PAUSED"], WAIT_S)
    assert it.ask("PUT", f"/connectors/{snk}/resume")[0] == 202
    worker.await_states(snk, ["RUNNING", "RUNNING"], WAIT_S)
    worker.await_states(src, ["RUNNING", "RUNNING"], WAIT_S)
    wait_until(lambda: taken.exists() and taken.read_text() == LINES, WAIT_S, "all lines")
    position = json.dumps({"position": len(LINES)}, separators=(",", ":"))
    wait_until(lambda: it.stored().get(key) == position, WAIT_S, "the position in the file")
    assert it.stored()["of nobody"] == "x"  # unknown entries are kept

    assert worker.stop() == 0
    given.write_text(LINES + "one more\n")
    worker = it.start(files[0])
    worker.await_rest(WAIT_S, "/health")
    assert it.ask("GET", "/connectors") == (200, [src])  # nothing else is remembered
    wait_until(lambda: len(topics.values(topic)) > LINES.count("\n"), WAIT_S, "the new line")
    assert topics.values(topic)[-2:] == [b"line 999", b"one more"]
    assert topics.values(topic).count(b"line 0") == 1
    assert worker.stop() == 0


def test_rest_is_that_of_a_standalone_worker(
    running: Alone, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    it = running
    topic, name = unique("lines"), unique("src")
    topics.create(topic)
    given = tmp_path / "in.txt"  # written after the restart, which might repeat lines

    # The worker answers after the connector has started, so the answer has its tasks.
    config = {"name": name, **source(given, topic)}
    task = {"connector": name, "task": 0}
    info = {"name": name, "config": config, "tasks": [task], "type": "source"}
    assert it.ask("POST", "/connectors", {"name": name, "config": config}) == (201, info)
    assert it.ask("POST", "/connectors", {"name": name, "config": config}) == (
        409,
        {"error_code": 409, "message": f"Connector {name} already exists"},
    )
    changed = {**config, "batch.size": "10"}
    info = {**info, "config": changed}
    assert it.ask("PUT", f"/connectors/{name}/config", changed) == (200, info)
    assert (
        it.ask("PATCH", f"/connectors/{name}/config", {"batch.size": None})[1]["config"] == config
    )
    for method, path, status, message in (
        ("POST", "/connectors/no/restart", 404, "Connector no not found"),
        ("POST", "/connectors/no/tasks/0/restart", 404, "Connector no not found"),
        ("POST", f"/connectors/{name}/tasks/7/restart", 404, f"Task {name}-7 not found"),
        (
            "PUT",
            f"/connectors/{name}/fence",
            500,
            "Kafka Connect in standalone mode does not support exactly-once source connectors.",
        ),
        (
            "POST",
            f"/connectors/{name}/tasks",
            500,
            "Kafka Connect in standalone mode does not support externally setting task "
            "configurations.",
        ),
    ):
        body = [] if path.endswith("/tasks") else None
        assert it.ask(method, path, body) == (status, {"error_code": status, "message": message})

    it.worker.await_states(name, ["RUNNING", "RUNNING"], WAIT_S)
    assert it.ask("POST", f"/connectors/{name}/restart?includeTasks=true")[0] == 202
    it.worker.await_states(name, ["RUNNING", "RUNNING"], WAIT_S)
    given.write_text("one\ntwo\n")
    wait_until(lambda: topics.values(topic) == [b"one", b"two"], WAIT_S, "both lines")

    # Offsets are read and changed; the file has them at once.
    pair = {"partition": {"filename": str(given)}, "offset": {"position": 8}}
    known = 200, {"offsets": [pair]}
    wait_until(lambda: it.ask("GET", f"/connectors/{name}/offsets") == known, WAIT_S, "offsets")
    assert it.ask("PUT", f"/connectors/{name}/stop")[0] == 204
    it.worker.await_states(name, ["STOPPED"], WAIT_S)
    pair["offset"] = {"position": 4}
    assert it.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": [pair]})[0] == 200
    wait_until(lambda: '{"position":4}' in it.stored().values(), WAIT_S, "the position")
    assert it.ask("PUT", f"/connectors/{name}/resume")[0] == 202
    wait_until(lambda: topics.values(topic) == [b"one", b"two", b"two"], WAIT_S, "the second line")
    assert it.ask("DELETE", f"/connectors/{name}")[0] == 204
    assert it.ask("GET", f"/connectors/{name}/config")[0] == 404


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("connector.class=FileStreamSink\n", "is missing the mandatory 'name' configuration"),
        (
            "name=x\nconnector.class=FileStreamSink\n",
            "Must configure one of topics or topics.regex",
        ),
    ],
)
def test_a_connector_that_cannot_be_created_ends_the_worker(
    alone: Alone, tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "wrong.properties"
    file.write_text(content)
    worker = alone.start(file)
    wait_until(lambda: worker.exit_code is not None, WAIT_S, "the end of the worker")
    assert worker.exit_code == 3
    assert f"Failed to create connector for {file}: " in worker.log_text()
    assert message in worker.log_text()


def test_an_offset_file_that_is_none_is_left_alone(alone: Alone) -> None:
    alone.offsets.write_text("not a map")
    worker = alone.start()
    wait_until(lambda: worker.exit_code is not None, WAIT_S, "the end of the worker")
    assert worker.exit_code == 2
    assert "cannot be used. It is not a serialized Java object" in worker.log_text()
    assert alone.offsets.read_text() == "not a map"


def test_a_secret_that_expires_is_asked_for_again(
    running: Alone, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    it, first, second, name = running, unique("first"), unique("second"), unique("src")
    for topic in (first, second):
        topics.create(topic)
    vault, given = it.folder / "vault.json", tmp_path / "in.txt"
    vault.write_text(json.dumps({"topic": first}))
    given.write_text("one\n")
    config = source(given, "${vault:topic}")
    assert it.ask("POST", "/connectors", {"name": name, "config": config})[0] == 201
    wait_until(lambda: topics.values(first) == [b"one"], WAIT_S, "the line")
    vault.write_text(json.dumps({"topic": second}))
    with given.open("a") as out:
        # Lines in flight may still go to the first topic; later ones go to the second.
        def written() -> bool:
            out.write("more\n")
            out.flush()
            return bool(topics.values(second))

        wait_until(written, WAIT_S, "a line in the second topic", 0.5)
    assert it.ask("GET", f"/connectors/{name}/config")[1]["topic"] == "${vault:topic}"
    assert it.ask("DELETE", f"/connectors/{name}")[0] == 204


def test_secrets_come_from_files_and_stay_there(
    running: Alone, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    it = running
    topic, name = unique("lines"), unique("src")
    topics.create(topic)
    given = tmp_path / f"{SECRET}.txt"
    given.write_text("one\n")
    secrets = it.folder / "secrets.properties"
    secrets.write_text(f"file={given}\ntopic={topic}\n")
    config = source(f"${{file:{secrets}:file}}", f"${{file:{secrets}:topic}}")
    assert it.ask("POST", "/connectors", {"name": name, "config": config})[0] == 201
    it.worker.await_states(name, ["RUNNING", "RUNNING"], WAIT_S)
    wait_until(lambda: topics.values(topic) == [b"one"], WAIT_S, "the line")

    raw = {"name": name, **config}
    assert it.ask("GET", f"/connectors/{name}/config") == (200, raw)
    [task] = it.ask("GET", f"/connectors/{name}/tasks")[1]
    assert {key: task["config"][key] for key in ("file", "topic")} == {
        "file": config["file"],
        "topic": config["topic"],
    }
    infos = it.ask("PUT", "/connector-plugins/FileStreamSource/config/validate", raw)[1]
    assert infos["error_count"] == 0
    assert SECRET not in json.dumps(infos)

    # A restart reads the secrets again; if it cannot, the connector fails with the reason.
    other = unique("other")
    topics.create(other)
    secrets.write_text(f"file={given}\ntopic={other}\n")
    assert it.ask("POST", f"/connectors/{name}/restart?includeTasks=true")[0] == 202
    sent = [b"one"]

    def one_more_arrives() -> bool:
        sent.append(b"%d" % len(sent))
        with given.open("a") as more:
            more.write(f"{sent[-1].decode()}\n")
        return bool(topics.values(other))

    wait_until(one_more_arrives, WAIT_S, "a line in the other topic", 0.2)
    wait_until(
        lambda: topics.values(topic) + topics.values(other) == sent, WAIT_S, "every line, once"
    )
    secrets.unlink()
    assert it.ask("POST", f"/connectors/{name}/restart")[0] == 204
    wait_until(lambda: it.worker.states(name)[:1] == ["FAILED"], WAIT_S, "the failure")
    trace = it.worker.status(name)["connector"]["trace"]
    assert f"Could not read properties from file {secrets}" in trace
    assert it.ask("PUT", f"/connectors/{name}/config", raw)[0] == 500

    # A failure that quotes the configuration hides the secret.
    secrets.write_text(f"file={tmp_path / SECRET / 'no' / 'where'}\ntopic={topic}\n")
    sunk = sink(f"${{file:{secrets}:file}}", topic)
    name = unique("snk")
    assert it.ask("POST", "/connectors", {"name": name, "config": sunk})[0] == 201
    it.worker.await_states(name, ["RUNNING", "FAILED"], WAIT_S)
    [task] = it.worker.status(name)["tasks"]
    assert "[hidden]" in task["trace"]
    assert SECRET not in task["trace"]
    assert it.worker.stop() == 0
    assert [line for line in it.worker.log_text().splitlines() if SECRET in line] == []
