"""The two workers that are compared, as processes, and requests to them."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

from penstock.kafka.broker import free_port
from penstock.testing.processes import WorkerProcess
from tests.servers.reference import reference_worker

from .script import Ask, Reply

START_S: Final = 180.0
STEP_S: Final = 90.0

_BUSY: Final = (
    "stale configuration",
    "no known leader URL",
    "conflicting operation",
    "a rebalance is expected",
)
"""What a worker says while its group settles; both may say it at different moments."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """One running worker: the name that stands for `@worker@`, its port, the shared folder."""

    name: str
    port: int
    folder: Path

    def ask(self, ask: Ask) -> Reply:
        """The answer, in placeholders; retried while the group settles or until `ask.until`."""
        deadline = monotonic() + STEP_S
        while True:
            reply = self._once(ask)
            settled = not (reply.status >= 400 and any(text in reply.body for text in _BUSY))
            if (settled and (ask.until is None or ask.until(reply))) or monotonic() > deadline:
                return reply
            Event().wait(0.05)

    def _once(self, ask: Ask) -> Reply:
        body = None if ask.bytes is None else self._own(ask.bytes)
        headers: dict[str, str] = {}
        if ask.content_type is not None and (body is not None or ask.method in ("POST", "PUT")):
            headers["Content-Type"] = ask.content_type
        if ask.accept is not None:
            headers["Accept"] = ask.accept
        if body is not None or ask.method in ("POST", "PUT"):
            headers["Content-Length"] = str(len(body or b""))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        with contextlib.closing(connection):
            path = self._own(ask.path.encode()).decode()
            connection.putrequest(ask.method, path, skip_accept_encoding=True)
            for name, text in headers.items():
                connection.putheader(name, text)
            connection.endheaders(body)
            answer = connection.getresponse()
            text = answer.read().decode()
        allow = answer.getheader("Allow")
        location = answer.getheader("Location")
        return Reply(
            status=answer.status,
            content_type=answer.getheader("Content-Type"),
            location=None if location is None else self.placed(location),
            allow=None if allow is None else tuple(allow.split(",")),
            body=self.placed(text),
        )

    def _own(self, asked: bytes) -> bytes:
        return asked.replace(b"@worker@", self.name.encode()).replace(
            b"@dir@", str(self.folder).encode()
        )

    def placed(self, text: str) -> str:
        """The text, with placeholders for everything specific to this worker."""
        return (
            text.replace(f"127.0.0.1:{self.port}", "@address@")
            .replace(str(self.folder), "@dir@")
            .replace(self.name, "@worker@")
        )


@contextlib.contextmanager
def reference(bootstrap: str, folder: Path) -> Iterator[Runtime]:
    """Kafka Connect itself, in a JVM as small as possible."""
    runtime = Runtime("parityreference", free_port(), folder)
    small = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    worker = reference_worker(_home(runtime), _settings(runtime, bootstrap), options=small)
    with _running(worker):
        yield runtime


@contextlib.contextmanager
def ours(bootstrap: str, folder: Path) -> Iterator[Runtime]:
    """A penstock worker."""
    runtime = Runtime("paritypenstock", free_port(), folder)
    with _running(WorkerProcess(_home(runtime), _settings(runtime, bootstrap))):
        yield runtime


def _home(runtime: Runtime) -> Path:
    home = runtime.folder / runtime.name
    home.mkdir()
    return home


def _settings(runtime: Runtime, bootstrap: str) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": runtime.name,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": f"{runtime.name}-configs",
        "offset.storage.topic": f"{runtime.name}-offsets",
        "status.storage.topic": f"{runtime.name}-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "offset.storage.partitions": "1",
        "status.storage.replication.factor": "1",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "500",
        "heartbeat.interval.ms": "500",
        "consumer.heartbeat.interval.ms": "500",
        "listeners": f"http://127.0.0.1:{runtime.port}",
    }


@contextlib.contextmanager
def _running(worker: WorkerProcess) -> Iterator[None]:
    with worker:
        worker.await_rest(START_S, "/health")
        yield
