"""A worker whose queries run on a Spark cluster: a real master and two Spark workers.

Their executors have a Python with penstock's dependencies, but neither penstock nor the plugin of
this test; the worker has to send them both.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import psutil
import pytest

from penstock.flow.spark import executor_env
from penstock.kafka.broker import free_port
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.spark_cluster import SparkCluster, SparkWorker

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(225)]

WIDTH: Final = 64  # bytes of a line, including its end
LINES: Final = 400_000
TIMEOUT_S: Final = 400
STORES: Final = ("config", "offset", "status")
EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
SECRET: Final = "not-for-everybody"
SMALL: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

# As third parties write them: a package that is found by its entry point.
PLUGIN: Final = '''
import json, os, sys
from importlib.metadata import version
from pathlib import Path

import penstock
from penstock.api import Plugin, SinkConnector, SinkWriter
from penstock.config.define import STRING, ConfigDef, Key

FOLDER = Key("folder", STRING, doc="Where to tell where it ran.")


class WhereSink(SinkConnector):
    """Writes no records, but where they would have been written."""

    plugin = Plugin(class_name="example.WhereSink", version="1.0", config=ConfigDef(FOLDER))

    def plan_tasks(self, config, max_tasks):
        return [config.props]

    def open(self, config, context):
        return Where(Path(config[FOLDER]))


class Where(SinkWriter):
    def __init__(self, folder):
        self.folder = folder

    def write(self, records, failed):
        facts = {
            "cwd": os.getcwd(),
            "python": os.path.abspath(sys.executable),
            "penstock": penstock.__file__,
            "plugin": __file__,
            "version": version("where-plugin"),
        }
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(facts))
'''


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers with room for the executors of two penstock workers."""
    folder = tmp_path_factory.mktemp("spark")
    with SparkCluster(folder, workers=2, cores=4, memory="2g") as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def unanswered(make_worker: MakeWorker, cluster: str) -> WorkerProcess:
    """A worker, in its own cluster, whose Spark master does not answer: it retries for half a
    minute while the other tests run."""
    own = {f"{store}_storage_topic": f"{cluster}-unanswered-{store}" for store in STORES}
    master = f"spark://127.0.0.1:{free_port()}"
    return make_worker(group_id=f"{cluster}-unanswered", spark_master=master, **own).start()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive that docs/spark-cluster.md tells users to make."""
    archive = tmp_path_factory.mktemp("environment") / "environment.tar.gz"
    executor_env.write(archive, executor_env.needed(executor_env.own_distributions()))
    return archive


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an installed plugin, in the `PYTHONPATH` of workers that start meanwhile."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "where_plugin").mkdir()
    (folder / "where_plugin" / "__init__.py").write_text(PLUGIN)
    about = folder / "where_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: where-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[penstock.plugins]\nwhere = where_plugin:WhereSink\n")
    files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    (about / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield folder


MakeWorker = Callable[..., WorkerProcess]


@pytest.fixture(scope="module")
def on_spark(make_worker: MakeWorker, spark: SparkCluster) -> MakeWorker:
    """Makes penstock workers on the cluster, each with at most two executors of two slots."""

    def make(**settings: str) -> WorkerProcess:
        defaults = {
            "spark_master": spark.url,
            "spark_cores_max": "4",
            "spark_executor_cores": "2",
            "spark_executor_memory": "512m",
            "spark_executor_extraJavaOptions": SMALL,
        }
        return make_worker(**{**defaults, **settings})

    return make


@pytest.fixture(scope="module")
def worker(on_spark: MakeWorker, environment: Path, plugin: Path) -> WorkerProcess:
    """The penstock worker; its executors unpack their Python from the archive."""
    worker = on_spark(
        spark_archives=f"{environment}#environment",
        spark_pyspark_python="./environment/bin/python",
        spark_hadoop_example_password=SECRET,
    )
    worker.start().await_rest()
    return worker


@dataclass
class Pipe:
    """A source and a sink connector with a topic of four partitions between them."""

    name: str
    folder: Path
    topics: Topics
    cluster: str
    sent: int = 0

    @property
    def source(self) -> Path:
        return self.folder / f"{self.name}.txt"

    @property
    def target(self) -> Path:
        return self.folder / f"{self.name}.out"

    @property
    def topic(self) -> str:
        return f"{self.cluster}-{self.name}"

    def append(self, lines: int) -> None:
        """Appends numbered lines, all different."""
        first, self.sent = self.sent, self.sent + lines
        numbers = np.char.zfill(np.arange(first, self.sent).astype("S9"), 9)
        text = np.full((lines, WIDTH), ord("."), np.uint8)
        text[:, :9] = numbers.view(np.uint8).reshape(lines, 9)
        text[:, -1] = ord("\n")
        with self.source.open("ab") as file:
            file.write(text.tobytes())

    def create(self, worker: WorkerProcess) -> None:
        self.topics.create(self.topic, 4)
        worker.create(
            f"{self.name}-src",
            {
                "connector.class": "FileStreamSource",
                "tasks.max": "1",
                "file": str(self.source),
                "topic": self.topic,
            },
        )
        worker.create(
            f"{self.name}-snk",
            {
                "connector.class": "FileStreamSink",
                "tasks.max": "1",
                "file": str(self.target),
                "topics": self.topic,
            },
        )

    def written(self) -> int:
        """Whole lines in the target."""
        return self.target.stat().st_size // WIDTH if self.target.exists() else 0

    def await_written(self, lines: int, worker: WorkerProcess) -> None:
        """Waits for this many lines. Raises AssertionError if a task fails."""

        def there() -> bool:
            for connector in (f"{self.name}-src", f"{self.name}-snk"):
                status = worker.status(connector)
                assert "FAILED" not in worker.states(connector), status
            return self.written() >= lines

        wait_until(there, TIMEOUT_S, f"{lines} lines in the target")

    def delivered(self) -> np.ndarray[Any, Any]:
        """How often the target contains each line; compares every line with the one sent."""
        sent = np.fromfile(self.source, f"S{WIDTH}")
        got = np.fromfile(self.target, f"S{WIDTH}")
        assert self.target.stat().st_size % WIDTH == 0, "a line was torn"
        numbers = got.astype("S9").astype(np.int64)
        assert (got == sent[numbers]).all(), "a line was altered"
        return np.bincount(numbers, minlength=len(sent))


def executors_of(worker: SparkWorker) -> list[psutil.Process]:
    """The running executors of a Spark worker."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(worker.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if EXECUTOR in child.cmdline():
                    found.append(child)
    return found


@pytest.fixture(scope="module")
def pipe(
    worker: WorkerProcess, topics: Topics, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> Pipe:
    """A pipe whose file holds `LINES` lines when it starts."""
    pipe = Pipe("pipe", tmp_path_factory.mktemp("files"), topics, cluster)
    pipe.append(LINES)
    pipe.create(worker)
    return pipe


def test_every_line_arrives_once(pipe: Pipe, worker: WorkerProcess, spark: SparkCluster) -> None:
    pipe.await_written(LINES, worker)
    assert (pipe.delivered() == 1).all()
    assert spark.applications() == ["penstock"]


def test_the_work_is_done_by_executors_that_have_neither_penstock_nor_the_plugin(
    pipe: Pipe, worker: WorkerProcess, spark: SparkCluster, plugin: Path, tmp_path: Path
) -> None:
    config = {"connector.class": "WhereSink", "folder": str(tmp_path), "topics": pipe.topic}
    worker.create("where", config)

    def reported() -> list[dict[str, str]]:
        assert "FAILED" not in worker.states("where"), worker.status("where")
        facts = []
        for file in tmp_path.glob("*.json"):
            with contextlib.suppress(orjson.JSONDecodeError):  # a partly written file
                facts.append(orjson.loads(file.read_bytes()))
        return facts

    def workers_of(facts: list[dict[str, str]]) -> set[str]:
        folders = {Path(fact["cwd"]).parents[1] for fact in facts}
        return {each.name for each in spark.workers if each.folder in folders}

    # One task runs on one slot, on any executor that had a free core.
    wait_until(lambda: workers_of(reported()), TIMEOUT_S, "the plugin to run on an executor")
    for fact in reported():
        run_in = Path(fact["cwd"])
        assert run_in.parents[1].parent == spark.folder, "not the folder of an executor"
        assert Path(fact["python"]).is_relative_to(run_in / "environment")
        for ours in ("penstock", "plugin"):
            archive = Path(fact[ours]).relative_to(run_in).parts[0]
            assert archive.startswith("penstock-"), fact
            assert archive.endswith(".zip"), fact
        assert fact["version"] == "1.0"
    assert worker.request("DELETE", "/connectors/where").status_code == 204


def test_secret_settings_are_on_no_command_line(pipe: Pipe, worker: WorkerProcess) -> None:
    assert SECRET in worker.file.read_text()
    lines = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            lines[process.pid] = " ".join(process.cmdline())
    jvms = [line for line in lines.values() if "--conf spark.cores.max=4" in line]
    assert jvms, "the driver's JVM was not seen"
    assert not [line for line in lines.values() if SECRET in line]


def test_the_flow_continues_when_a_spark_worker_is_killed(
    pipe: Pipe, worker: WorkerProcess, spark: SparkCluster
) -> None:
    victim, other = spark.workers
    lost = executors_of(victim)
    assert lost, "the worker to be killed has no executor"
    before = pipe.written()
    pipe.append(LINES)
    pipe.await_written(before + 1, worker)
    victim.process.kill()
    assert pipe.written() < pipe.sent, "killed too late to show anything"
    pipe.append(LINES)

    def finished() -> bool:
        assert "FAILED" not in worker.states("pipe-snk"), worker.status("pipe-snk")
        assert "FAILED" not in worker.states("pipe-src"), worker.status("pipe-src")
        return pipe.written() >= pipe.sent and bool((pipe.delivered() >= 1).all())

    wait_until(finished, TIMEOUT_S, "every line in the target")
    again = pipe.written() - pipe.sent
    print(f"{again} lines of {pipe.sent} were written again")  # noqa: T201 - a measurement
    wait_until(lambda: spark.alive_workers() == 1, 60, "the master to notice")
    wait_until(lambda: not any(each.is_running() for each in lost), 60, "its executor to end")

    wait_until(lambda: len(executors_of(other)) == 2, 60, "another in its place")

    victim.process.start()
    wait_until(lambda: spark.alive_workers() == 2, 60, "the worker to be back")
    before = pipe.written()
    pipe.append(1_000)
    pipe.await_written(before + 1_000, worker)


def test_a_worker_that_ends_leaves_no_application_behind(
    pipe: Pipe, worker: WorkerProcess, spark: SparkCluster
) -> None:
    family = psutil.Process(worker.pid).children(recursive=True)
    assert spark.applications() == ["penstock"]
    assert worker.stop() == 0, worker.log_text()[-2000:]
    wait_until(lambda: not spark.applications(), 10, "the application to be gone")
    wait_until(lambda: not any(each.is_running() for each in family), 30, "its processes to end")
    wait_until(lambda: not any(map(executors_of, spark.workers)), 30, "its executors to end")


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python without any packages."""
    base = Path(os.path.realpath(sys.executable))
    (tmp_path / "bare" / "bin").mkdir(parents=True)
    python = tmp_path / "bare" / "bin" / "python"
    python.symlink_to(base)
    settings = f"home = {base.parent}\ninclude-system-site-packages = false\n"
    (tmp_path / "bare" / "pyvenv.cfg").write_text(settings)
    return python


def test_a_python_that_lacks_what_is_needed_fails_the_task_and_a_killed_application_the_worker(
    on_spark: MakeWorker, spark: SparkCluster, topics: Topics, bare_python: Path, cluster: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    own = {f"{store}_storage_topic": f"{cluster}-bare-{store}" for store in STORES}
    worker = on_spark(group_id=f"{cluster}-bare", spark_pyspark_python=str(bare_python), **own)
    worker.start().await_rest()
    file = tmp_path / "in.txt"
    file.write_text("one\n")
    topic = topics.create(f"{cluster}-bare")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    worker.create("bare", config)
    worker.await_states("bare", ["RUNNING", "FAILED"], TIMEOUT_S)
    trace = worker.status("bare")["tasks"][0]["trace"]
    assert "ModuleNotFoundError: No module named 'pyarrow'" in trace  # the first import
    assert str(bare_python) in trace
    assert "spark.archives" in trace
    assert topics.count(topic) == 0

    spark.kill_application()
    wait_until(lambda: not worker.alive, 60, "the worker to end")
    assert worker.stop() == 1
    assert "the Spark cluster has ended this worker's application" in worker.log_text()
    assert not spark.applications()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"spark_speculation": "true"}, "spark.speculation=true is refused"),
        ({"spark_submit_deployMode": "cluster"}, "spark.submit.deployMode=cluster is refused"),
        ({"spark_master": "spark://nowhere"}, "spark.master=spark://nowhere is not an address"),
    ],
)
def test_settings_that_cannot_work_keep_the_worker_from_starting(
    make_worker: MakeWorker, settings: dict[str, str], says: str
) -> None:
    worker = make_worker(**settings).start()
    wait_until(lambda: not worker.alive, 60, "the worker to end")
    assert worker.stop() == 2
    assert f"penstock: {says}" in worker.log_text()


def test_a_master_that_does_not_answer_is_named_after_a_while(unanswered: WorkerProcess) -> None:
    wait_until(lambda: not unanswered.alive, 90, "the worker to end")
    assert unanswered.stop() == 2
    master = unanswered.settings["spark.master"]
    assert f"No Spark master answers at spark.master={master}" in unanswered.log_text()
    assert "Connection refused" in unanswered.log_text()
