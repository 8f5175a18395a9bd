"""Plugins of `plugin.path` in a real worker, on this machine and on a Spark cluster; and the
conformance suite for penstock's own connectors, with a real worker."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from penstock.connectors.file import FileStreamSink, FileStreamSource
from penstock.flow.spark import executor_env
from penstock.template import project
from penstock.testing.conformance import SinkEndToEnd, SourceEndToEnd
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.plugin_folders import described, jar, wheel, write
from tests.servers.spark_cluster import SparkCluster

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(200)]

WAIT_S: Final = 300
STORES: Final = ("config", "offset", "status")

WHERE: Final = '''
import json, os, sys
from pathlib import Path

import where_helper
from penstock.api import Plugin, SinkConnector, SinkWriter
from penstock.config.define import STRING, ConfigDef, Key

FOLDER = Key("folder", STRING, doc="Where to tell where it ran.")


class WhereSink(SinkConnector):
    """Writes no records, but where they would have been written."""

    plugin = Plugin("example.WhereSink", "1.0", ConfigDef(FOLDER))

    def plan_tasks(self, config, max_tasks):
        return [config.props]

    def open(self, config, context):
        return Where(Path(config[FOLDER]))


class Where(SinkWriter):
    def __init__(self, folder):
        self.folder = folder

    def write(self, records, failed):
        facts = {
            "pid": os.getpid(),
            "cwd": os.getcwd(),
            "plugin": __file__,
            "helper": where_helper.__file__,
            "path": sys.path,
            "values": records.values.values,
        }
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(facts))
'''


@dataclass
class Listed:
    """A listed folder: a module with a helper, a wheel, jars, and a broken file."""

    folder: Path
    wheel: Path


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Listed:
    folder = tmp_path_factory.mktemp("plugins")
    write(folder, {"where_it_ran.py": WHERE, "where_helper.py": ""})
    write(folder, {"broken_plugin.py": "import penstock.api\nimport no_such_module_of_mine\n"})
    jar(folder / "kafka-connect-acme" / "acme.jar", "com.acme.AcmeSink")
    code = {
        place: text
        for place, text in project("wheeled", example=True)
        if place.startswith("wheeled/")
    }
    entries = {
        "source": "wheeled.source:WheeledSource",
        "sink": "wheeled.sink:WheeledSink",
    }
    path = wheel(
        folder / "wheeled-0.1.0-py3-none-any.whl", described("wheeled-connector", entries, code)
    )
    return Listed(folder, path)


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess], listed: Listed) -> WorkerProcess:
    gone = listed.folder / "not-there"
    worker = make_worker(plugin_path=f"{listed.folder},{gone}").start()
    worker.await_rest()
    return worker


def test_the_worker_has_the_plugins_and_says_what_it_left_out(
    worker: WorkerProcess, listed: Listed
) -> None:
    reported = worker.request("GET", "/connector-plugins").json()
    versions = {each["class"]: each["version"] for each in reported}
    assert versions["wheeled.WheeledSourceConnector"] == "0.1.0"
    assert versions["wheeled.WheeledSinkConnector"] == "0.1.0"
    assert versions["example.WhereSink"] == "1.0"
    log = worker.log_text()
    gone = listed.folder / "not-there"
    assert f"Could not get listing for plugin path: {gone} (No such file or directory)" in log
    assert "ModuleNotFoundError: No module named 'no_such_module_of_mine'" in log
    assert "not declared by entry points" in log
    assert "[example.WhereSink]" in log
    assert log.count("is skipped") == 1


def test_a_source_and_a_sink_of_a_wheel_run_in_sparks_python_workers(
    worker: WorkerProcess, topics: Topics, cluster: str, tmp_path: Path
) -> None:
    topic, inbox, database = f"{cluster}-notes", tmp_path / "inbox", tmp_path / "notes.db"
    topics.create(topic)
    inbox.mkdir()
    for number in range(20):
        (inbox / f"{number:02}.txt").write_text(f"note {number}")
    source = {"connector.class": "WheeledSource", "wheeled.folder": str(inbox), "topic": topic}
    worker.create("wheel-in", source)
    worker.await_states("wheel-in", ["RUNNING", "RUNNING"])
    wait_until(lambda: topics.count(topic) == 20, WAIT_S, "the notes in the topic")
    assert topics.values(topic) == [f"note {number}".encode() for number in range(20)]
    sink = {"connector.class": "WheeledSink", "wheeled.file": str(database), "topics": topic}
    worker.create("wheel-out", sink)
    worker.await_states("wheel-out", ["RUNNING", "RUNNING"])
    wait_until(lambda: rows(database) == 20, WAIT_S, "the notes in the database")


def rows(database: Path) -> int:
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(database)) as opened:
        try:
            (count,) = opened.execute("SELECT count(*) FROM wheeled").fetchone()
        except sqlite3.OperationalError:
            return 0
    return int(count)


def facts_of(folder: Path, worker: WorkerProcess, connector: str) -> list[dict[str, Any]]:
    assert "FAILED" not in worker.states(connector), worker.status(connector)
    facts = []
    for file in folder.glob("*.json"):
        with contextlib.suppress(orjson.JSONDecodeError):  # a partly written file
            facts.append(orjson.loads(file.read_bytes()))
    return facts


def test_a_module_is_imported_from_where_it_is_after_everything_else(
    worker: WorkerProcess, topics: Topics, cluster: str, listed: Listed, tmp_path: Path
) -> None:
    topic = topics.create(f"{cluster}-where")
    topics.append(topic, [b"one"])
    config = {"connector.class": "WhereSink", "folder": str(tmp_path), "topics": topic}
    worker.create("where", config)
    wait_until(lambda: facts_of(tmp_path, worker, "where"), WAIT_S, "the plugin to run")
    (facts,) = facts_of(tmp_path, worker, "where")
    assert facts["pid"] != worker.pid
    assert facts["plugin"] == str(listed.folder / "where_it_ran.py")
    assert facts["helper"] == str(listed.folder / "where_helper.py")
    assert set(facts["path"][-2:]) == {str(listed.wheel), str(listed.folder)}


@pytest.fixture
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("spark")
    with SparkCluster(folder, workers=1, cores=2, memory="1g") as cluster:
        yield cluster


def test_plugins_reach_executors_that_do_not_have_them(
    make_worker: Callable[..., WorkerProcess],
    spark: SparkCluster,
    listed: Listed,
    topics: Topics,
    cluster: str,
    tmp_path: Path,
) -> None:
    archive = tmp_path / "environment.tar.gz"
    executor_env.write(archive, executor_env.needed({"penstock"}))
    names = {f"{store}_storage_topic": f"{cluster}-far-{store}" for store in STORES}
    worker = make_worker(
        group_id=f"{cluster}-far",
        plugin_path=str(listed.folder),
        spark_master=spark.url,
        spark_cores_max="2",
        spark_executor_cores="2",
        spark_executor_memory="512m",
        spark_archives=f"{archive}#environment",
        spark_pyspark_python="./environment/bin/python",
        **names,
    )
    worker.start().await_rest()
    topic = topics.create(f"{cluster}-far")
    inbox, facts = tmp_path / "inbox", tmp_path / "facts"
    for folder in (inbox, facts):
        folder.mkdir()
    for number in range(5):
        (inbox / f"{number}.txt").write_text(f"note {number}")
    source = {"connector.class": "WheeledSource", "wheeled.folder": str(inbox), "topic": topic}
    worker.create("far-in", source)
    wait_until(lambda: topics.count(topic) == 5, WAIT_S, "the notes in the topic")
    sink = {"connector.class": "WhereSink", "folder": str(facts), "topics": topic}
    worker.create("far-out", sink)
    wait_until(lambda: facts_of(facts, worker, "far-out"), WAIT_S, "the plugin to run")
    for fact in facts_of(facts, worker, "far-out"):
        run_in = Path(fact["cwd"])
        assert run_in.is_relative_to(spark.folder), "not the folder of an executor"
        for ours in ("plugin", "helper"):
            sent = Path(fact[ours]).relative_to(run_in).parts[0]
            assert sent.startswith("penstock-"), fact
        assert str(listed.folder) not in fact["path"]


class TestFileStreamSource(SourceEndToEnd):
    connector = FileStreamSource

    def config(self) -> dict[str, str]:
        return {"file": str(self.folder / "in.txt"), "topic": f"lines-{self.folder.parent.name}"}

    def add(self, numbers: range) -> None:
        with (self.folder / "in.txt").open("a") as file:
            file.writelines(f"Zeile {number}: Füße\n" for number in numbers)


class TestFileStreamSink(SinkEndToEnd):
    connector = FileStreamSink

    def config(self) -> dict[str, str]:
        return {"file": str(self.folder / "out.txt")}

    def contents(self) -> list[str]:
        file = self.folder / "out.txt"
        return file.read_text().splitlines() if file.exists() else []
