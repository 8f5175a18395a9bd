"""The two workers that are compared, as processes, and how they are asked."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final

from penstock import jars
from penstock.kafka.broker import free_port

from .script import Ask, Reply

START_S: Final = 60.0
STEP_S: Final = 90.0
STOP_S: Final = 20.0

_BUSY: Final = (
    "stale configuration",
    "no known leader URL",
    "conflicting operation",
    "a rebalance is expected",
)
"""What a worker says while its group settles; both may say it at different moments."""

_LOG4J: Final = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """One running worker: the name that stands for `@worker@`, its port, the shared folder."""

    name: str
    port: int
    folder: Path

    def ask(self, ask: Ask) -> Reply:
        """The answer, in placeholders; repeated while the group settles or until `ask.until`."""
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
            connection.putrequest(ask.method, ask.path, skip_accept_encoding=True)
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

    def _own(self, body: bytes) -> bytes:
        return body.replace(b"@worker@", self.name.encode()).replace(
            b"@dir@", str(self.folder).encode()
        )

    def placed(self, text: str) -> str:
        """The text with everything that is this worker's alone put back to placeholders."""
        return (
            text.replace(f"127.0.0.1:{self.port}", "@address@")
            .replace(str(self.folder), "@dir@")
            .replace(self.name, "@worker@")
        )


@contextlib.contextmanager
def reference(bootstrap: str, folder: Path) -> Iterator[Runtime]:
    """Kafka Connect itself, with the FileStream connectors in a plugin folder of their own."""
    runtime = Runtime("parityreference", free_port(), folder)
    home = folder / runtime.name
    plugin = home / "plugins" / "file"
    plugin.mkdir(parents=True)
    found = sorted(jars.folder("connect").glob("*.jar"))
    for jar in found:
        if jar.name.startswith("connect-file-"):
            (plugin / jar.name).symlink_to(jar)
    classes = os.pathsep.join(str(jar) for jar in found if not jar.name.startswith("connect-file-"))
    logging = home / "log4j2.properties"
    logging.write_text(_LOG4J.format(log=home / "worker.log"))
    properties = _properties(runtime, bootstrap, home, {"plugin.path": str(home / "plugins")})
    command = [jars.java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dlog4j2.configurationFile={logging}", "-cp", classes]
    command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
    with _running(command, runtime, home):
        yield runtime


@contextlib.contextmanager
def ours(bootstrap: str, folder: Path) -> Iterator[Runtime]:
    """A penstock worker."""
    runtime = Runtime("paritypenstock", free_port(), folder)
    home = folder / runtime.name
    home.mkdir()
    properties = _properties(runtime, bootstrap, home, {})
    command = [sys.executable, "-m", "penstock", "distributed", str(properties)]
    with _running(command, runtime, home):
        yield runtime


def _properties(runtime: Runtime, bootstrap: str, home: Path, more: dict[str, str]) -> Path:
    settings = {
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
        "listeners": f"http://127.0.0.1:{runtime.port}",
        **more,
    }
    file = home / "worker.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    return file


@contextlib.contextmanager
def _running(command: list[str], runtime: Runtime, home: Path) -> Iterator[None]:
    with (home / "out.log").open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=home
        )
    try:
        _await_answer(process, runtime, home)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_answer(process: subprocess.Popen[bytes], runtime: Runtime, home: Path) -> None:
    deadline = monotonic() + START_S
    while monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError, http.client.HTTPException):
            if runtime.ask(Ask("GET", "/health")).status == 200:
                return
        Event().wait(0.1)
    last = (home / "out.log").read_text(errors="replace")[-2000:]
    raise AssertionError(f"{runtime.name} did not start: {last}")
