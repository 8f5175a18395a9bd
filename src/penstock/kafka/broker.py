"""The embedded broker: a real Apache Kafka in KRaft mode, one process, on loopback.

For demos and tests. Its data folder holds all of its state; starting it again on the same folder
keeps the topics.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import StartupFailed
from penstock.host import class_archive, jars
from penstock.host.processes import Process

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
ROOM_MB = 300
BRIEF: Final = "-XX:TieredStopAtLevel=1"
"""The JVM option for short-lived processes: Java's optimizing compiler costs more CPU time than it
saves there."""

_OUTGOING: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST: Final = 10_000
_TRIES: Final = 20

_LOG4J = """\
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
class BrokerListener:
    """A further listener of a broker: clients that bootstrap from `port` connect to `advertised`
    afterwards, which may be a proxy's port."""

    name: str  # in capitals
    port: int
    advertised: int


class Broker:
    """One Kafka broker process. Use it as a context manager, or call `start` and `stop`.

    `port` 0 picks a free one. `settings` are added to its server properties and override them,
    `java_options` to the JVM's. It can be started again after a stop or a kill: on the same port,
    with the same state.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        listeners: Sequence[BrokerListener] = (),
        heap_mb: int = 512,
        java_options: Sequence[str] = (),
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.folder = folder.absolute()
        self.port = port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._settings = dict(settings or {})
        self._listeners = tuple(listeners)
        self._heap_mb = heap_mb
        self._java_options = tuple(java_options)
        self._say = say
        self._process: Process | None = None

    @property
    def pid(self) -> int | None:
        """The broker's process id while it runs."""
        return self._process.pid if self._process and self._process.alive else None

    def start(self) -> Broker:
        """Starts the broker and waits until it answers; raises StartupFailed if it does not."""
        java = jars.java()
        classes = sorted(jars.folder("broker", self._say).glob("*.jar"))
        if port_in_use(self.port):
            raise StartupFailed(
                f"Port {self.port} is in use; choose another one for the broker (--port)."
            )
        room_mb = disk_free_mb(self.folder)
        if room_mb < ROOM_MB:
            raise StartupFailed(
                f"Only {room_mb} MB are free where the broker keeps its data ({self.folder}); it "
                f"needs {ROOM_MB} MB to begin with. Make room or choose another place (--data)."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self._write_properties()
        logging = self.folder / "log4j2.properties"
        logging.write_text(_LOG4J.format(log=self.folder / "broker.log"))
        base = [java, *class_archive.options("broker", java, classes)]
        base += [f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC"]
        program = [f"-Dlog4j2.configurationFile={logging}"]
        program += ["-cp", os.pathsep.join(map(str, classes))]
        if not (self.folder / "data" / "meta.properties").exists():
            self._say("formatting the broker's storage")
            self._format([*base, BRIEF, *program], properties)
        self._say(f"starting Kafka on {self.bootstrap}")
        self._process = Process(
            [*base, *self._java_options, *program, "kafka.Kafka", str(properties)],
            self.folder / "broker.out",
            name="Kafka",
            logs=[self.folder / "broker.log"],
        )
        self._process.start()
        self._await_answer()
        return self

    def stop(self) -> None:
        """Stops the broker cleanly; kills it if it does not end in time. Safe to call twice."""
        process, self._process = self._process, None
        if process:
            process.stop(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """Kills the broker."""
        process, self._process = self._process, None
        if process:
            process.kill()

    def check(self) -> None:
        """Raises StartupFailed, with the end of its log, if the broker has died."""
        if self._process:
            self._process.check(
                lambda: f"; {disk_free_mb(self.folder)} MB are free where it keeps its data"
            )

    def wait(self) -> int:
        """Blocks until the broker exits; returns its exit code, 0 if it is not running."""
        return self._process.wait() if self._process else 0

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write_properties(self) -> Path:
        controller = free_port()
        ways = [("PLAINTEXT", self.port, self.port)]
        ways += [
            (listener.name, listener.port, listener.advertised) for listener in self._listeners
        ]
        listeners = [f"{name}://127.0.0.1:{port}" for name, port, _ in ways]
        names = [name for name, *_ in ways] + ["CONTROLLER"]
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{to}" for name, _, to in ways),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "10",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "10",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A group whose last member has left is remembered, with its generation.
            "offsets.retention.check.interval.ms": str(7 * 24 * 3600 * 1000),
            "controlled.shutdown.enable": "false",
            # A restart waits until the session of the previous run has expired.
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "1000",
        } | self._settings
        file = self.folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file

    def _format(self, base: list[str], properties: Path) -> None:
        command = [*base, "kafka.tools.StorageTool", "format", "-t", _cluster_id()]
        command += ["-c", str(properties)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StartupFailed(
                f"Failed to format the broker's storage in {self.folder}: "
                f"{(done.stderr or done.stdout).strip()}"
            )

    def _await_answer(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        admin = AdminClient(
            # Nothing listens at first; do not log that.
            {"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.ms": 50}
        )
        while time.monotonic() < deadline:
            self.check()
            if not port_in_use(self.port):
                Event().wait(0.05)
                continue
            with contextlib.suppress(KafkaException):
                if admin.list_topics(timeout=2).brokers:
                    return
        self.stop()
        raise StartupFailed(
            f"Kafka did not answer within {START_TIMEOUT_S} s; see {self.folder / 'broker.log'}."
        )


def archive_classes(say: Callable[[str], None]) -> Path:
    """The class archive of brokers; creates it if it is missing (about six seconds, 50 MB). Raises
    StartupFailed."""

    def run(path: Path) -> None:
        options = [BRIEF, *class_archive.writing_options(path)]
        with tempfile.TemporaryDirectory() as folder, Broker(Path(folder), java_options=options):
            pass

    classes = sorted(jars.folder("broker", say).glob("*.jar"))
    return class_archive.make("broker", jars.java(), classes, run, say)


def _cluster_id() -> str:
    """A random id in Kafka's format; it never begins with a dash, as an option does."""
    first, *rest = uuid.uuid4().bytes
    return urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def free_port() -> int:
    """A free loopback port.

    If possible outside the range of ephemeral ports: otherwise a client that reconnects while the
    listener restarts could connect to itself.
    """
    with contextlib.suppress(OSError, ValueError):
        first = int(_OUTGOING.read_text().split()[0])
        for port in Random().sample(range(min(_LOWEST, first), first), _TRIES):
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_in_use(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def disk_free_mb(folder: Path) -> int:
    """Free space where `folder` is (or will be), in MB."""
    while not folder.exists():
        folder = folder.parent
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize // 1_000_000
