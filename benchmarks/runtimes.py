"""The two runtimes that are compared, one worker at a time, and what is asked of one."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.reference import reference_worker
from penstock.testing.topics import Topics

PENSTOCK: Final = "penstock"
REFERENCE: Final = "reference"

START_S: Final = 300.0
SETTLE_S: Final = 300.0

_LOOK_S: Final = 0.01
_CONFLICT: Final = 409  # the group settles; the same request is answered soon


class RunFailed(Exception):
    """A worker refused a connector, or a task failed: there is nothing to measure."""


_WORKERS: Final[Mapping[str, Callable[[Path, Mapping[str, str]], WorkerProcess]]] = {
    PENSTOCK: WorkerProcess,
    REFERENCE: reference_worker,
}

_numbers = itertools.count(1)


class Session:
    """One worker from its start to its end, alone on the machine but for the broker."""

    def __init__(self, runtime: str, worker: WorkerProcess, folder: Path, topics: Topics) -> None:
        self.runtime = runtime
        self.worker = worker
        self.folder = folder
        self.topics = topics
        self.rest_s = 0.0
        """From the start of the process to the first answer."""

    def name(self, what: str) -> str:
        """A name nobody else uses, for a connector, its topic and its file."""
        return f"bench-{self.runtime}-{what}-{next(_numbers)}"

    def start(self) -> None:
        self.worker.start()
        _wait_until(self.worker.answers, START_S, "REST to answer")
        self.rest_s = time.monotonic() - self.worker.started
        left = self.worker.request("GET", "/connectors").json()
        if left:
            raise RunFailed(f"the worker should have no connectors, it has {left}")

    def put(self, connector: str, config: Mapping[str, str]) -> float:
        """Configures a connector; when, on the monotonic clock, that was asked first. Raises
        RunFailed when the worker refuses it."""
        began = time.monotonic()
        self._ask("PUT", f"{_path(connector)}/config", dict(config))
        return began

    def drop(self, *connectors: str) -> None:
        """Deletes connectors and waits until nothing of them runs."""
        for connector in connectors:
            self._ask("DELETE", _path(connector))
        for connector in connectors:
            _wait_until(partial(self._gone, connector), SETTLE_S, f"'{connector}' to be gone")

    @contextlib.contextmanager
    def running(self, configs: Mapping[str, Mapping[str, str]]) -> Iterator[float]:
        """Connectors for the length of the block; when they were asked for."""
        began = min([self.put(name, config) for name, config in configs.items()])
        try:
            yield began
        except BaseException:
            with contextlib.suppress(Exception):  # what went wrong first is what counts
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
        """Waits until so many tasks run."""

        def run() -> bool:
            self.check()
            states = [
                task["state"] for status in self._statuses().values() for task in status["tasks"]
            ]
            return states.count("RUNNING") == tasks

        _wait_until(run, timeout_s, f"{tasks} tasks to run", look_s=0.25)

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
def session(runtime: str, folder: Path, topics: Topics) -> Iterator[Session]:
    """A fresh worker with its runtime's defaults, ended when the block is left."""
    home = folder / f"{runtime}-{next(_numbers)}"
    home.mkdir()
    settings = worker_settings(topics.bootstrap, f"bench-{runtime}")
    settings.pop("offset.flush.interval.ms", None)  # tests are in a hurry, defaults are not
    with contextlib.closing(_WORKERS[runtime](home, settings)) as worker:
        found = Session(runtime, worker, home, topics)
        found.start()
        yield found


def _path(connector: str) -> str:
    return f"/connectors/{quote(connector, safe='')}"


def _wait_until(
    there: Callable[[], bool], timeout_s: float, what: str, look_s: float = _LOOK_S
) -> None:
    deadline = time.monotonic() + timeout_s
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        threading.Event().wait(look_s)
