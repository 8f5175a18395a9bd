"""A real Spark standalone cluster on loopback, from the jars inside PySpark.

One master process and some worker processes, each with its own folder; their executors use the
Python of `spark.pyspark.python`, and do not inherit the caller's environment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from penstock.host import jars
from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import wait_until

_START_S: Final = 60.0
_STOP_S: Final = 20.0
_HOST: Final = "127.0.0.1"
_SMALL: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass
class SparkWorker:
    """One worker process of the cluster; its executors are its children."""

    name: str
    folder: Path
    process: Process

    @property
    def pid(self) -> int:
        assert self.process.pid is not None, "the Spark worker was not started"
        return self.process.pid

    def executor_logs(self) -> list[Path]:
        """The output of its executors and their Python workers: a file per executor."""
        return sorted(self.folder.glob("app-*/*/stderr"))


class SparkCluster:
    """A master and `workers` workers of `cores` slots and `memory` each; as a context manager it is
    up when entered, with every worker registered, and gone afterwards.

    Cores are slots: there may be more of them than the machine has.
    """

    def __init__(
        self, folder: Path, *, workers: int = 2, cores: int = 4, memory: str = "2g"
    ) -> None:
        self.folder = folder
        self._port = free_port()
        self._ui_port = free_port()
        self.url = f"spark://{_HOST}:{self._port}"
        self._cores = cores
        self._memory = memory
        self._master = self._spark(
            "master", "org.apache.spark.deploy.master.Master",
            "--port", str(self._port), "--webui-port", str(self._ui_port),
        )  # fmt: skip
        self.workers = [self._worker(f"worker-{number + 1}") for number in range(workers)]

    def start(self) -> SparkCluster:
        """Starts the processes and waits until all workers are registered."""
        self._master.start()
        self._master.wait_for(self._answers, _START_S, "the Spark master to answer")
        for worker in self.workers:
            worker.process.start()
        wait_until(lambda: self.alive_workers() == len(self.workers), _START_S, "the Spark workers")
        return self

    def stop(self) -> None:
        """Stops every process and its children. Safe to call twice."""
        for worker in self.workers:
            worker.process.stop(_STOP_S)
        self._master.stop(_STOP_S)

    def applications(self) -> list[str]:
        """The names of the applications that have not ended."""
        return [app["name"] for app in self._state()["activeapps"]]

    def alive_workers(self) -> int:
        """How many workers the master knows and believes to be alive."""
        return sum(worker["state"] == "ALIVE" for worker in self._state()["workers"])

    def kill_application(self) -> None:
        """Has the master kill the one application it runs, as its web page does."""
        (app,) = self._state()["activeapps"]
        answer = httpx.post(
            f"http://{_HOST}:{self._ui_port}/app/kill/",
            data={"id": app["id"], "terminate": "true"},
            trust_env=False,
        )
        assert answer.status_code < 400, answer.text

    def _answers(self) -> bool:
        try:
            return bool(self._state()["url"] == self.url)
        except (httpx.TransportError, ValueError):
            return False

    def _state(self) -> dict[str, Any]:
        answer = httpx.get(f"http://{_HOST}:{self._ui_port}/json/", trust_env=False)
        state: dict[str, Any] = answer.json()
        return state

    def _worker(self, name: str) -> SparkWorker:
        folder = self.folder / name
        process = self._spark(
            name, "org.apache.spark.deploy.worker.Worker",
            "--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(folder),
            "--webui-port", "0", self.url,
        )  # fmt: skip
        return SparkWorker(name, folder, process)

    def _spark(self, name: str, main: str, *arguments: str) -> Process:
        """A Spark daemon that inherits nothing: its environment is made from scratch."""
        import pyspark

        self.folder.mkdir(parents=True, exist_ok=True)
        home = Path(next(iter(pyspark.__path__)))
        java_home = Path(jars.java()).resolve().parent.parent
        environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "JAVA_HOME": str(java_home),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / f"{name}-local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _SMALL,
            "SPARK_LAUNCHER_OPTS": _SMALL,
        }
        command = ["env", "-i", *(f"{key}={value}" for key, value in environment.items())]
        command += [str(home / "bin" / "spark-class"), main, "--host", _HOST, *arguments]
        return Process(command, self.folder / f"{name}.log", name=f"The Spark {name}")

    def __enter__(self) -> SparkCluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
