"""The two runtimes that are compared, one at a time, and requests to them."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.reference import reference_worker

PENSTOCK: Final = "penstock"
REFERENCE: Final = "reference"

START_S: Final = 300.0
SETTLE_S: Final = 300.0

_LOOK_S: Final = 0.01
_CONFLICT: Final = 409  # the group rebalances; a retry succeeds soon


class RunFailed(Exception):
    """A worker refused a connector, or a task failed: there is nothing to measure."""


_numbers = itertools.count(1)


class Session:
    """One worker from its start to its end, alone on the machine except for the broker and the
    workers that `join` adds to its cluster."""

    def __init__(
        self,
        runtime: str,
        folder: Path,
        topics: Topics,
        settings: Mapping[str, str],
        plugins: Sequence[str],
    ) -> None:
        self.runtime = runtime
        self.folder = folder
        self.topics = topics
        self._settings = settings
        self._plugins = plugins
        self._workers: list[WorkerProcess] = []
        self.worker = self._made()
        self.rest_s = 0.0
        """From the start of the process to the first answer."""
        self.connectors_s = 0.0
        """From the start of the process to the list of connectors."""

    @property
    def status_topic(self) -> str:
        return self.worker.settings["status.storage.topic"]

    def _made(self) -> WorkerProcess:
        settings = worker_settings(self.topics.bootstrap, f"bench-{self.runtime}")
        settings.pop("offset.flush.interval.ms", None)  # tests shorten it; use the default
        home = self.folder / f"worker-{len(self._workers) + 1}"
        home.mkdir()
        settings = {**settings, **self._settings}
        if self.runtime == PENSTOCK:
            worker = WorkerProcess(home, settings)
        else:
            worker = reference_worker(home, settings, families=self._plugins)
        self._workers.append(worker)
        return worker

    def join(self) -> WorkerProcess:
        """Starts another worker of the cluster; returns when it answers."""
        worker = self._made()
        self._start(worker)
        return worker

    def back(self, worker: WorkerProcess) -> None:
        """Starts a worker again that was stopped or killed."""
        self._start(worker)

    def _start(self, worker: WorkerProcess) -> None:
        worker.start()
        wait_until(worker.answers, START_S, "REST to answer", _LOOK_S)

    def close(self) -> None:
        """Ends all workers, the last one first."""
        with contextlib.ExitStack() as closing:
            for worker in self._workers:
                closing.callback(worker.close)

    def name(self, purpose: str) -> str:
        """A unique name for a connector, its topic and its file."""
        return f"bench-{self.runtime}-{purpose}-{next(_numbers)}"

    def start(self) -> None:
        self._start(self.worker)
        self.rest_s = time.monotonic() - self.worker.started
        wait_until(lambda: self.worker.answers("/connectors"), START_S, "connectors", _LOOK_S)
        self.connectors_s = time.monotonic() - self.worker.started
        connectors = self.worker.request("GET", "/connectors").json()
        if connectors:
            raise RunFailed(f"the worker should have no connectors, it has {connectors}")

    def put(self, connector: str, config: Mapping[str, str]) -> float:
        """Configures a connector; returns the time of the first request on the monotonic clock.
        Raises RunFailed when the worker refuses it."""
        began = time.monotonic()
        self._ask("PUT", f"{_path(connector)}/config", dict(config))
        return began

    def drop(self, *connectors: str) -> None:
        """Deletes connectors and waits until they are gone."""
        for connector in connectors:
            self._ask("DELETE", _path(connector))
        for connector in connectors:
            wait_until(
                partial(self._gone, connector), SETTLE_S, f"'{connector}' to be gone", _LOOK_S
            )

    @contextlib.contextmanager
    def running(self, configs: Mapping[str, Mapping[str, str]]) -> Iterator[float]:
        """Runs connectors for the length of the block; yields the time of the first request."""
        with self.running_each(configs) as began:
            yield min(began)

    @contextlib.contextmanager
    def running_each(self, configs: Mapping[str, Mapping[str, str]]) -> Iterator[list[float]]:
        """Runs connectors for the length of the block; yields the time of each request."""
        began = [self.put(name, config) for name, config in configs.items()]
        try:
            yield began
        except BaseException:
            with contextlib.suppress(Exception):  # the first error counts
                self.drop(*configs)
            raise
        self.drop(*configs)

    def check(self) -> None:
        """Raises RunFailed, with the trace, when a connector or a task has failed."""
        for name, status in self._statuses().items():
            for part in (status["connector"], *status["tasks"]):
                if part["state"] == "FAILED":
                    raise RunFailed(f"'{name}' failed: {part.get('trace', 'no trace')}")

    def await_tasks(self, tasks: int, timeout_s: float = SETTLE_S) -> None:
        """Waits until `tasks` tasks run."""

        def run() -> bool:
            return [state for state, _ in self.tasks().values()].count("RUNNING") == tasks

        self.wait(run, f"{tasks} tasks to run", timeout_s, look_s=0.25)

    def await_connectors(self, connectors: int, timeout_s: float = SETTLE_S) -> None:
        """Waits until `connectors` connectors run, with one task each."""

        def run() -> bool:
            states = [
                part["state"]
                for status in self._statuses().values()
                for part in (status["connector"], *status["tasks"])
            ]
            return states == ["RUNNING"] * (2 * connectors)

        self.wait(run, f"{connectors} connectors and their tasks to run", timeout_s, look_s=0.25)

    def wait(
        self,
        there: Callable[[], bool],
        what: str,
        timeout_s: float = SETTLE_S,
        look_s: float = 0.1,
    ) -> None:
        """Waits for a condition. Raises RunFailed when anything fails, TimeoutError when it takes
        too long."""

        def found() -> bool:
            self.check()
            return there()

        wait_until(found, timeout_s, what, look_s)

    def tasks(self) -> dict[str, tuple[str, str]]:
        """The state of every task and the worker that reports it; a task's name is
        `⟨connector⟩-⟨number⟩`."""
        return {
            f"{name}-{task['id']}": (task["state"], task["worker_id"])
            for name, status in self._statuses().items()
            for task in status["tasks"]
        }

    def _gone(self, connector: str) -> bool:
        return self.worker.request("GET", f"{_path(connector)}/status").status_code == 404

    def _statuses(self) -> dict[str, Any]:
        answer = self.worker.request("GET", "/connectors?expand=status")
        if answer.status_code == _CONFLICT:
            return {}
        return {name: entry["status"] for name, entry in answer.json().items() if entry}

    def _ask(self, method: str, path: str, body: object = None) -> None:
        deadline = time.monotonic() + SETTLE_S
        while True:
            answer = self.worker.request(method, path, body)
            if answer.status_code < 400:
                return
            if answer.status_code != _CONFLICT or time.monotonic() > deadline:
                raise RunFailed(f"{method} {path} was refused: {answer.text}")
            threading.Event().wait(_LOOK_S)


@contextlib.contextmanager
def session(
    runtime: str,
    folder: Path,
    topics: Topics,
    settings: Mapping[str, str] | None = None,
    plugins: Sequence[str] = (),
) -> Iterator[Session]:
    """A fresh worker with its runtime's defaults, except for `settings`; stopped at the end of the
    block. `plugins`: families of jars that Kafka Connect gets in addition to its own."""
    home = folder / f"{runtime}-{next(_numbers)}"
    home.mkdir()
    with contextlib.closing(Session(runtime, home, topics, settings or {}, plugins)) as opened:
        opened.start()
        yield opened


def _path(connector: str) -> str:
    return f"/connectors/{quote(connector, safe='')}"
