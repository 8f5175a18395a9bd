"""Third-party clients of Kafka Connect do all they can with a live worker.

Each test ends with a check that it used everything that the client offers. Where a call fails
because of the client, and would with Kafka Connect too, a comment at the call says so.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import requests
from click.testing import CliRunner
from kafka_connect.cli import cli as kafka_connect_cli
from kafka_connect.kafka_connect import KafkaConnect
from kafka_connect_api import aws_lambdas
from kafka_connect_api.errors import ConnectApiException, GenericConflict, GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector, Task
from kafkaconnect.cli import main as kafkaconnect_cli
from kafkaconnect.connect import Connect

from penstock.api import SinkConnector, SourceConnector
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.places import TESTS

pytestmark = pytest.mark.timeout(900)

FILES: Final = TESTS / "rest" / "clients"
LINES: Final = "one\ntwo\nthree\n"
WAIT_S: Final = 240.0  # a busy machine may take a minute for Spark to start
RUNNING: Final = ["RUNNING", "RUNNING"]
PAUSED: Final = ["PAUSED", "PAUSED"]


@dataclass(frozen=True, slots=True)
class Site:
    """A worker, a file with three lines, and a topic for them."""

    worker: WorkerProcess
    file: Path
    topic: str

    @property
    def url(self) -> str:
        return self.worker.url

    @property
    def config(self) -> dict[str, str]:
        return {"connector.class": "FileStreamSource", "file": str(self.file), "topic": self.topic}

    def named(self, connector: str) -> dict[str, str]:
        """The configuration with the connector's name, as validation requires it."""
        return {"name": connector, **self.config}

    def reached(self, connector: str, states: list[str]) -> None:
        self.worker.await_states(connector, states, WAIT_S)

    def gone(self, connector: str) -> None:
        wait_until(lambda: not self.worker.status(connector), 60, f"{connector} to be gone")

    def has_sent(self, connector: str) -> None:
        """Waits until the connector's offset is stored and its topic is known."""

        def sent() -> bool:
            answer = self.worker.request("GET", f"/connectors/{connector}/topics").json()
            stored = self.worker.request("GET", f"/connectors/{connector}/offsets").json()
            return answer[connector]["topics"] == [self.topic] and bool(stored["offsets"])

        wait_until(sent, 60, f"records of {connector}")


@pytest.fixture(scope="module")
def site(
    shared_worker: WorkerProcess,
    topics: Topics,
    cluster: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Site:
    file = tmp_path_factory.mktemp("files") / "in.txt"
    file.write_text(LINES)
    return Site(shared_worker, file, topics.create(f"{cluster}-lines"))


@pytest.fixture(autouse=True)
def clean(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bypasses proxies, and deletes the connectors of every test, even of one that fails."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    for name in site.worker.request("GET", "/connectors").json():
        site.worker.request("DELETE", f"/connectors/{name}")
        site.gone(name)


class Repertoire:
    """The public members of a client's classes, and those that were used. Setting a property
    counts separately, as `name=`."""

    def __init__(self, patch: pytest.MonkeyPatch, *classes: type) -> None:
        self.offered: set[str] = set()
        self.used: set[str] = set()
        for cls in classes:
            for name, member in list(vars(cls).items()):
                if name.startswith("_"):
                    continue
                title = f"{cls.__name__}.{name}"
                if isinstance(member, property):
                    getter = self._noted(title, member.fget)
                    setter = member.fset and self._noted(f"{title}=", member.fset)
                    patch.setattr(cls, name, property(getter, setter))
                elif callable(member):
                    patch.setattr(cls, name, self._noted(title, member))

    def _noted(self, title: str, function: Any) -> Any:
        self.offered.add(title)

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.used.add(title)
            return function(*args, **kwargs)

        return noted

    @property
    def missed(self) -> set[str]:
        return self.offered - self.used


def refused(call: Callable[[], object], status: int, text: str) -> None:
    """Checks that `requests` raises this status and text."""
    with pytest.raises(requests.HTTPError) as error:
        call()
    assert error.value.response.status_code == status
    said = error.value.response.json()
    assert said["error_code"] == status
    assert text in said["message"]


def test_kafka_connect_py(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    repertoire = Repertoire(monkeypatch, KafkaConnect)
    client, name = KafkaConnect(site.url), "kc-py"
    assert client.get_cluster_info()["version"] == "4.3.1"
    assert "org.apache.kafka.connect.file.FileStreamSinkConnector" in {
        plugin["class"] for plugin in client.list_connector_plugins()
    }
    plugin = "FileStreamSource"
    assert client.validate_connector_config(plugin, site.named(name))["error_count"] == 0
    bad = {**site.named(name), "tasks.max": "0"}
    assert client.validate_connector_config(plugin, bad)["error_count"] == 1

    created = client.create_connector({"name": name, "config": site.config})
    assert created == {
        "name": name,
        "config": site.named(name),
        "tasks": [],
        "type": "source",
    }
    again = {"name": name, "config": site.config}
    refused(lambda: client.create_connector(again), 409, f"Connector {name} already exists")
    refused(lambda: client.create_connector({"name": name, "config": bad}), 400, "tasks.max")
    site.reached(name, RUNNING)

    assert client.list_connectors() == [name]
    assert client.list_connectors(expand="status")[name]["status"]["type"] == "source"
    assert client.list_connectors(expand="info", pattern="kc-")[name]["info"]["name"] == name
    assert client.list_connectors(pattern="other") == []
    assert client.list_connectors(state="running") == [name]
    assert client.list_connectors(expand="info", state="paused") == {}
    assert client.get_connector(name)["tasks"] == [{"connector": name, "task": 0}]
    assert client.get_connector_config(name) == site.named(name)
    assert client.get_connector_status(name)["tasks"][0]["state"] == "RUNNING"
    assert [task["id"] for task in client.list_connector_tasks(name)] == [
        {"connector": name, "task": 0}
    ]
    assert client.get_connector_task_status(name, 0)["state"] == "RUNNING"
    for call in (
        lambda: client.get_connector("none"),
        lambda: client.get_connector_config("none"),
        lambda: client.get_connector_status("none"),
        lambda: client.list_connector_tasks("none"),
        lambda: client.get_connector_task_status(name, 5),
        lambda: client.restart_connector_task(name, 5),
        lambda: client.pause_connector("none"),
        lambda: client.resume_connector("none"),
        lambda: client.stop_connector("none"),
        lambda: client.delete_connector("none"),
    ):
        refused(call, 404, "")

    updated = client.update_connector(name, {**site.config, "batch.size": 7})
    assert updated["config"]["batch.size"] == "7"
    site.has_sent(name)
    assert client.list_connector_topics(name) == {name: {"topics": [site.topic]}}
    assert client.reset_connector_topics(name) is None
    wait_until(
        lambda: client.list_connector_topics(name) == {name: {"topics": []}}, 30, "no topics"
    )

    assert client.restart_connector(name) is None
    site.reached(name, RUNNING)
    reported = client.restart_connector(name, include_tasks=True)
    assert [reported["connector"]["state"], reported["tasks"][0]["state"]] == [
        "RESTARTING",
        "RESTARTING",
    ]

    def nothing_to_restart() -> bool:
        reported = client.restart_connector(name, include_tasks=True, only_failed=True)
        return [
            reported["connector"]["state"],
            *(each["state"] for each in reported["tasks"]),
        ] == RUNNING

    # The worker may not have read the status of the previous restart yet.
    wait_until(nothing_to_restart, WAIT_S, "everything to run, none of it to be restarted")
    with pytest.raises(requests.HTTPError, match="Unknown connector: none"):
        client.restart_connector("none")
    assert client.restart_connector_task(name, 0) is None
    site.reached(name, RUNNING)
    assert client.restart_all_connectors(include_tasks=True, pattern=name) is None
    site.reached(name, RUNNING)

    client.pause_connector(name)
    site.reached(name, PAUSED)
    client.resume_connector(name)
    site.reached(name, RUNNING)
    client.stop_connector(name)
    site.reached(name, ["STOPPED"])
    client.resume_all_connectors(pattern=name, state="stopped")
    site.reached(name, RUNNING)
    client.pause_all_connectors(pattern=name)
    site.reached(name, PAUSED)
    client.stop_all_connectors(pattern=name)
    site.reached(name, ["STOPPED"])

    client.delete_connector(name)
    client.create_connector({"name": f"{name}-2", "config": site.config})
    site.reached(f"{name}-2", RUNNING)  # `all` excludes connectors without a status
    client.delete_all_connectors(pattern=name)
    assert client.list_connectors() == []
    site.gone(f"{name}-2")
    assert repertoire.missed == set()


def test_the_command_of_kafka_connect_py(site: Site) -> None:
    used: set[str] = set()
    name = "kc-cli"
    options = {"env": {"KAFKA_CONNECT_URL": site.url}}

    def run(command: str, *arguments: str) -> Any:
        used.add(command)
        ran = CliRunner().invoke(kafka_connect_cli, [command, *arguments], **options)
        assert ran.exit_code == 0, ran.output
        return json.loads(ran.output) if ran.output.strip() else None

    assert run("info")["version"] == "4.3.1"
    assert run("list-plugins")
    data = json.dumps({"name": name, "config": site.config})
    assert run("create", "--config-data", data)["name"] == name
    site.reached(name, RUNNING)
    assert run("list") == [name]
    assert run("list", "--expand", "info")[name]["info"]["type"] == "source"
    assert run("get", name)["type"] == "source"
    assert run("config", name) == site.named(name)
    assert run("status", name)["connector"]["state"] == "RUNNING"
    assert run("list-tasks", name)[0]["id"]["task"] == 0
    assert run("task-status", name, "0")["state"] == "RUNNING"
    changed = json.dumps({**site.config, "batch.size": "3"})
    assert run("update", name, "--config-data", changed)["config"]["batch.size"] == "3"
    site.has_sent(name)
    assert run("list-topics", name) == {name: {"topics": [site.topic]}}
    assert run("reset-topics", name) is None
    run("restart-task", name, "0")
    site.reached(name, RUNNING)
    assert run("restart", name, "--include-tasks")["name"] == name
    site.reached(name, RUNNING)
    run("pause", "--all", "--pattern", name)
    site.reached(name, PAUSED)
    run("resume", name)
    site.reached(name, RUNNING)
    run("delete", name)
    site.gone(name)
    # It encodes the configuration twice, so the body is a string instead of an object.
    ran = CliRunner().invoke(
        kafka_connect_cli, ["validate-config", "FileStreamSource", "-d", changed], **options
    )
    assert isinstance(ran.exception, requests.HTTPError)
    assert ran.exception.response.status_code == 500
    assert set(kafka_connect_cli.commands) == used | {"validate-config"}


def test_kafka_connect_api(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    repertoire = Repertoire(monkeypatch, Api, Cluster, Connector, Task)
    place, name = urlsplit(site.url), "kc-api"
    api = Api(hostname=place.hostname, port=place.port)
    assert repr(api) == site.url
    assert Api(url=site.url, username="someone", password="secret").get("/")["version"] == "4.3.1"
    cluster = Cluster(api)
    assert cluster.version == "4.3.1"
    assert cluster.kafka_cluster in repr(cluster)
    assert cluster.connectors == {}

    connector = Connector(cluster, name)
    with pytest.raises(GenericNotFound):  # it raises before its `return False`
        connector.exists()
    with pytest.raises(ConnectApiException) as error:
        connector.config = {**site.config, "tasks.max": "0"}
    assert (error.value.code, "tasks.max" in str(error.value.details)) == (400, True)
    connector.config = site.config
    assert connector.exists()
    site.reached(name, RUNNING)
    assert list(cluster.connectors) == [name]
    assert cluster.connectors[name].cluster is cluster
    assert connector.config == site.named(name)
    assert connector.connector_class == "FileStreamSource"
    assert connector.status["type"] == "source"
    assert connector.state == "RUNNING"
    with pytest.raises(GenericConflict):
        api.post("/connectors", json={"name": name, "config": site.config})

    [task] = connector.tasks
    assert (task.id, task.connector, task.config["topic"]) == (0, connector, site.topic)
    assert task.status["worker_id"] == site.worker.id
    assert task.state == "RUNNING"
    assert task.is_running()
    assert repr(task) == f"{name}.0"
    for act in (task.restart, connector.restart, connector.restart_all_tasks):
        act()
        site.reached(name, RUNNING)
    connector.pause()
    site.reached(name, PAUSED)
    assert not task.is_running()
    connector.resume()
    site.reached(name, RUNNING)
    connector.cycle_connector()
    site.reached(name, RUNNING)

    assert cluster.root_logger["level"] == cluster.loggers["root"]["level"]
    before = cluster.root_logger["level"]
    cluster.root_logger = "DEBUG"
    assert cluster.root_logger["level"] == "DEBUG"
    assert "root" in cluster.set_logger_log_level("root", before)
    with pytest.raises(GenericNotFound):  # it confuses this Python level with one of Java's
        cluster.set_logger_log_level("root", "CRITICAL")

    site.has_sent(name)
    api.put_raw(f"/connectors/{name}/stop")
    site.reached(name, ["STOPPED"])
    assert "reset successfully" in api.delete(f"/connectors/{name}/offsets")["message"]
    connector.delete()
    site.gone(name)
    with pytest.raises(GenericNotFound):
        connector.delete()
    assert repertoire.missed == set()


def test_the_handlers_of_kafka_connect_api(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its AWS Lambda handlers are plain functions; here they get their worker in both ways."""
    place, name = urlsplit(site.url), "kc-lambda"
    monkeypatch.setenv("CONNECT_CLUSTER_URL", site.url)
    monkeypatch.setattr(logging.getLogger(), "level", logging.getLogger().level)
    reported = {"cluster": {"hostname": place.hostname, "port": place.port}}
    event: dict[str, Any] = {"connector": {"name": name, "config": site.config}}
    assert aws_lambdas.create_update_connector(event, None) == 0
    site.reached(name, RUNNING)
    assert aws_lambdas.check_connector_health(event | reported, None) is True
    assert aws_lambdas.restart_connector(event, None) == 0
    site.reached(name, RUNNING)
    assert aws_lambdas.restart_all_connectors(reported, None) == 0
    site.reached(name, RUNNING)
    assert aws_lambdas.delete_connector(event, None) == 0
    site.gone(name)


def test_kafkaconnect(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    repertoire = Repertoire(monkeypatch, Connect)
    client, name = Connect(site.url), "kafkaconnect"
    good = json.dumps(site.named(name))
    plugins = json.loads(client.plugins())
    assert {plugin["type"] for plugin in plugins} == {"sink", "source"}
    assert json.loads(client.validate("FileStreamSource", good))["error_count"] == 0
    bad = json.dumps({**site.named(name), "tasks.max": "0"})
    assert json.loads(client.validate_and_create(name, bad))["error_count"] == 1
    assert json.loads(client.list()) == []
    assert json.loads(client.validate_and_create(name, good))["name"] == name
    site.reached(name, RUNNING)
    assert json.loads(client.list()) == [name]
    assert json.loads(client.info(name))["tasks"] == [{"connector": name, "task": 0}]
    assert json.loads(client.status(name))["connector"]["state"] == "RUNNING"
    assert json.loads(client.config(name)) == site.named(name)
    assert json.loads(client.tasks(name))[0]["config"]["topic"] == site.topic
    changed = json.dumps({**site.config, "batch.size": "9"})
    assert json.loads(client.create_or_update(name, changed))["config"]["batch.size"] == "9"
    site.has_sent(name)
    assert json.loads(client.topics(name)) == {name: {"topics": [site.topic]}}
    assert client.restart(name) == ""
    site.reached(name, RUNNING)
    assert client.pause(name) == ""
    site.reached(name, PAUSED)
    assert client.resume(name) == ""
    site.reached(name, RUNNING)
    assert client.remove(name) == ""
    site.gone(name)
    assert client.info(name).endswith("not found.")
    assert client.remove(name).endswith("not found.")
    assert repertoire.missed == set()


def test_the_command_of_kafkaconnect(site: Site, tmp_path: Path) -> None:
    used: set[str] = set()
    name = "kafkaconnect-cli"

    def run(command: str, *arguments: str) -> str:
        used.add(command)
        options = ["--connect", site.url, command, *arguments]
        ran = CliRunner().invoke(kafkaconnect_cli, options)
        assert ran.exit_code == 0, ran.output
        return ran.output

    file = tmp_path / "connector.json"
    file.write_text(json.dumps(site.config))
    # It validates with the plugin that `connector.class` names.
    assert json.loads(run("upload", "--dry-run", "--name", name, str(file)))["error_count"] == 0
    assert name in run("upload", "--name", name, str(file))
    site.reached(name, RUNNING)
    assert json.loads(run("list")) == [name]
    assert json.loads(run("info", name))["name"] == name
    assert json.loads(run("status", name))["name"] == name
    assert json.loads(run("config", name))["name"] == name
    assert json.loads(run("tasks", name))[0]["id"]["connector"] == name
    site.has_sent(name)
    assert json.loads(run("topics", name)) == {name: {"topics": [site.topic]}}
    assert json.loads(run("plugins"))
    run("restart", name)
    site.reached(name, RUNNING)
    run("pause", name)
    site.reached(name, PAUSED)
    run("resume", name)
    site.reached(name, RUNNING)
    run("delete", name)
    site.gone(name)
    # `create` is about connectors that do not exist here; `help` sends no request.
    assert set(kafkaconnect_cli.commands) == used | {"create", "help"}


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """The folder with the packages of `package-lock.json`, which are installed once."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no Node.js")
    names = ("package.json", "package-lock.json", ".npmrc", "repertoire.js")
    digest = hashlib.sha256(b"".join((FILES / name).read_bytes() for name in names[:3]))
    folder = Path(os.environ["PENSTOCK_HOME"]) / "clients" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(FILES / name, folder / name)
    ready = folder / "installed"
    if not ready.exists():
        ran = subprocess.run(
            ["npm", "ci", "--no-progress"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        ready.touch()
    return folder


def builtin_connectors() -> list[object]:
    """The connectors of penstock's own package."""
    found: list[object] = []
    for entry in entry_points(group="penstock.plugins"):
        if entry.value.startswith("penstock.connectors."):
            classes = entry.load()
            found += classes if isinstance(classes, tuple) else [classes]
    kinds = (SinkConnector, SourceConnector)
    return [each for each in found if isinstance(each, type) and issubclass(each, kinds)]


def test_kafka_connect_client(site: Site, node_modules: Path) -> None:
    place, name = urlsplit(site.url), "kc-js"
    assert place.hostname is not None
    command = ["node", "repertoire.js", place.hostname, str(place.port), name]
    ran = subprocess.run(
        [*command, json.dumps(site.config)],
        cwd=node_modules,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["missed"] == []
    reported = {each["what"]: each for each in result["told"]}
    # axios sends a POST or PUT without a body as a form (its default type), and Kafka Connect
    # 4.3.1 refuses that with 415, too.
    statuses = {what: each.get("status") for what, each in reported.items()}
    assert statuses == {
        "getCluster": 200,
        "getConnectorPlugins": 200,
        "getConnectorPlugins all": 200,
        "validate": 200,
        "validate bad": 200,
        "createConnector": 201,
        "createConnector again": 409,
        "createConnector bad": 400,
        "create": 201,
        "getConnectors": 200,
        "getConnectors expanded": 200,
        "get": 200,
        "getConfig": 200,
        "getStatus": 200,
        "getTasks": 200,
        "getTaskStatus": 200,
        "updateConfig": 200,
        "restart": 204,
        "restart with tasks": 204,  # it sends its options in the body, which is ignored
        "restartTask": 415,
        "getTopics": None,  # it reads the topics before parsing the answer
        "resetTopics": 415,
        "pause": 415,
        "resume": 415,
        "alterOffsets too early": 400,
        "stop": 415,
        "getOffsets": 200,
        "alterOffsets": 200,
        "getOffsets altered": 200,
        "resetOffsets": 200,
        "getOffsets reset": 200,
        "delete": 204,
        "delete again": 404,
        "delete other": 204,
        "get unknown": 404,
        "getStatus unknown": 404,
    }
    assert "TypeError" in reported["getTopics"]["error"]
    bodies = {what: each.get("body") for what, each in reported.items()}
    assert bodies["getCluster"]["version"] == "4.3.1"
    assert len(bodies["getConnectorPlugins"]) == len(builtin_connectors())
    assert len(bodies["getConnectorPlugins"]) < len(bodies["getConnectorPlugins all"])
    assert bodies["validate"]["error_count"] == 0
    assert bodies["validate bad"]["error_count"] == 1
    assert reported["createConnector"]["location"] == f"{site.url}/connectors/{name}"
    assert bodies["createConnector again"]["message"] == f"Connector {name} already exists"
    assert set(bodies["getConnectors"]) == {name, f"{name}-other"}
    assert bodies["getConnectors expanded"][name]["status"]["connector"]["state"] == "RUNNING"
    assert bodies["get"]["name"] == name
    assert bodies["getConfig"] == site.named(name)
    assert bodies["getStatus"]["tasks"][0]["state"] == "RUNNING"
    assert bodies["getTasks"][0]["id"] == {"connector": name, "task": 0}
    assert bodies["getTaskStatus"]["id"] == 0
    assert bodies["updateConfig"]["config"]["batch.size"] == "7"
    partition = {"filename": str(site.file)}
    assert bodies["getOffsets altered"] == {
        "offsets": [{"partition": partition, "offset": {"position": 4}}]
    }
    assert bodies["alterOffsets"]["message"].endswith("altered successfully")
    assert bodies["resetOffsets"]["message"].endswith("reset successfully")
    assert bodies["getOffsets reset"] == {"offsets": []}
    site.gone(name)
