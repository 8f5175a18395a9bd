"""A worker as a process of its own, for tests that start, stop and kill real ones."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from penstock.config.properties import render_properties
from penstock.host.processes import Process, worker_command
from penstock.kafka.broker import free_port
from penstock.testing.waiting import wait_until

STOP_S: Final = 40.0
_REQUEST_S: Final = 95.0
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"


def worker_settings(bootstrap: str, cluster: str) -> dict[str, str]:
    """The settings of a worker of the cluster `cluster`: its group and topics are named after it,
    it listens on a free loopback port, its converters pass text through, and sinks commit and
    members send heartbeats twice a second."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": cluster,
        "key.converter": _STRING,
        "value.converter": _STRING,
        "offset.flush.interval.ms": "500",
        "heartbeat.interval.ms": "500",
        "consumer.heartbeat.interval.ms": "500",
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    for store in ("config", "offset", "status"):
        settings[f"{store}.storage.topic"] = f"{cluster}-{store}"
        settings[f"{store}.storage.replication.factor"] = "1"
    return settings


class WorkerProcess:
    """One `penstock distributed` process, in `folder`; its output goes to `log`.

    Another `command` (a function of the properties file) makes it a worker of another kind with the
    same REST API; requests to one that listens on https use `tls`. May be restarted after it ended.
    As a context manager it is started, and stopped at the end with all its child processes.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        name: str = "worker",
        command: Callable[[Path], list[str]] = worker_command,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.settings = dict(settings)
        self.file = folder / f"{name}.properties"
        self.log = folder / f"{name}.log"
        self.url = settings["listeners"]
        self.started = 0.0  # when, on the monotonic clock
        self._process = Process(command(self.file), self.log, folder)
        self._http = httpx.Client(
            base_url=self.url, timeout=_REQUEST_S, trust_env=False, verify=tls or True
        )

    @property
    def id(self) -> str:
        """The worker's name in every status."""
        return self.url.partition("://")[2]

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "the worker was not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.alive

    def start(self) -> WorkerProcess:
        """Starts the process and returns at once; `await_rest` waits until it answers."""
        self.file.write_bytes(render_properties(self.settings))
        self.started = time.monotonic()
        self._process.start()
        return self

    def answers(self, path: str = "/") -> bool:
        """Whether a GET returns 200. Raises StartupFailed when the worker has ended."""
        self._process.check()
        with contextlib.suppress(httpx.TransportError):
            return self._http.get(path).status_code == 200
        return False

    def await_rest(self, timeout_s: float = 60, path: str = "/") -> float:
        """Waits until the REST API answers; returns the seconds since its start."""
        wait_until(lambda: self.answers(path), timeout_s, f"an answer from {self.url}{path}")
        return time.monotonic() - self.started

    def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """The response to one request; a `body` is sent as JSON."""
        if body is None:
            return self._http.request(method, path)
        return self._http.request(method, path, json=body)

    def create(self, connector: str, config: Mapping[str, str]) -> httpx.Response:
        """Configures a new connector; raises when the worker refuses it."""
        answer = self.request("POST", "/connectors", {"name": connector, "config": dict(config)})
        assert answer.status_code == 201, answer.text
        return answer

    def status(self, connector: str) -> dict[str, Any]:
        """The connector's status; empty while the worker knows none."""
        answer = self.request("GET", f"/connectors/{connector}/status")
        return answer.json() if answer.status_code == 200 else {}

    def states(self, connector: str) -> list[str]:
        """The states of the connector and of its tasks, in that order."""
        status = self.status(connector)
        if not status:
            return []
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def await_states(self, connector: str, states: list[str], timeout_s: float = 90) -> None:
        """Waits until the connector and its tasks are in these states."""
        try:
            wait_until(lambda: self.states(connector) == states, timeout_s, str(states))
        except TimeoutError as error:
            raise TimeoutError(f"{error}; status: {self.status(connector)}") from None

    def kill(self) -> None:
        """Kills the process (SIGKILL), like a power cut, but not its children."""
        self._process.kill()

    def stop(self, timeout_s: float = STOP_S) -> int:
        """Asks the process to end (SIGTERM); returns its exit code. TimeoutError when it is too
        slow."""
        return self._process.end(timeout_s)

    def ask_to_stop(self) -> None:
        """Asks the process to end (SIGTERM) without waiting for it; see `exit_code`."""
        os.kill(self.pid, signal.SIGTERM)

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or if it never did; negative for a signal."""
        return self._process.ended

    def log_text(self) -> str:
        """The output of the process so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def close(self) -> None:
        """Stops the process and the rest of its process group. Safe to call twice."""
        self._http.close()
        self._process.stop(STOP_S)

    def __enter__(self) -> WorkerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()
