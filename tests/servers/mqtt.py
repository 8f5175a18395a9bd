"""MQTT brokers for tests, on loopback: mosquitto, from Debian, and HiveMQ, embedded in a small Java
program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from penstock.host import jars
from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import is_listening, wait_until

_START_S: Final = 60.0
_STOP_S: Final = 10.0
NO_MOSQUITTO: Final = "mosquitto is not installed; run: apt-get install mosquitto"

_HIVEMQ: Final = """\
import com.hivemq.embedded.EmbeddedHiveMQ;
import java.nio.file.Files;
import java.nio.file.Path;

public class HiveMQServer {
  public static void main(String[] arguments) throws Exception {
    Path home = Path.of(arguments[0]);
    Path configuration = Files.createDirectories(home.resolve("conf"));
    Path data = Files.createDirectories(home.resolve("data"));
    Path extensions = Files.createDirectories(home.resolve("extensions"));
    Files.writeString(configuration.resolve("config.xml"), "<hivemq><listeners><tcp-listener><port>"
        + arguments[1] + "</port><bind-address>127.0.0.1</bind-address></tcp-listener></listeners>"
        + "<mqtt><packets><max-packet-size>1000000</max-packet-size></packets>"
        + "<queued-messages><max-queue-size>100000</max-queue-size></queued-messages></mqtt>"
        + "<anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>"
        + "</hivemq>");
    EmbeddedHiveMQ server = EmbeddedHiveMQ.builder().withConfigurationFolder(configuration)
        .withDataFolder(data).withExtensionsFolder(extensions).build();
    server.start().join();
    System.out.println("STARTED");
    Thread.sleep(Long.MAX_VALUE);
  }
}
"""


def mosquitto() -> str | None:
    """The path of mosquitto, or None."""
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def let_go(client: Any) -> None:
    """Disconnects a paho client, and ends its loop's thread."""
    client.disconnect()
    with contextlib.suppress(AttributeError):  # the thread may end while paho checks it
        client.loop_stop()


class Mosquitto:
    """A mosquitto, started with `start` or as a context manager. It keeps its port across restarts,
    even after `kill`, and with `persistent` the sessions and messages of its last stop.

    `settings` are configuration lines; `users` have passwords, and the others may not connect,
    unless `anonymous`.
    """

    def __init__(
        self,
        settings: Sequence[str] = (),
        *,
        users: Mapping[str, str] | None = None,
        anonymous: bool = False,
        persistent: bool = False,
        port: int | None = None,
    ) -> None:
        self.port = free_port() if port is None else port
        self.uri = f"tcp://127.0.0.1:{self.port}"
        self._settings = list(settings)
        self._users = dict(users or {})
        self._anonymous = anonymous or not users
        self._persistent = persistent
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-mosquitto-")
        self._process: Process | None = None

    def start(self) -> None:
        """Starts the broker, and returns when it answers."""
        program = mosquitto()
        assert program is not None, NO_MOSQUITTO
        folder = Path(self._folder.name)
        lines = [
            f"listener {self.port} 127.0.0.1",
            f"allow_anonymous {'true' if self._anonymous else 'false'}",
            *self._settings,
        ]
        if os.getuid() == 0:
            lines.append("user root")
        if self._persistent:
            lines += ["persistence true", f"persistence_location {folder}/"]
        if self._users:
            lines.append(f"password_file {self._passwords(folder)}")
        configuration = folder / "mosquitto.conf"
        configuration.write_text("\n".join(lines) + "\n")
        self._process = process = Process(
            [program, "-c", str(configuration)], folder / "log", name="mosquitto"
        )
        process.start()
        _await_port(self.port, process, folder / "log")

    def _passwords(self, folder: Path) -> Path:
        file = folder / "passwords"
        file.write_text("".join(f"{user}:{password}\n" for user, password in self._users.items()))
        file.chmod(0o600)
        subprocess.run(["mosquitto_passwd", "-U", str(file)], check=True)
        return file

    def set_users(self, users: Mapping[str, str]) -> None:
        """Replaces the users, from their next connection on."""
        self._users = dict(users)
        self._passwords(Path(self._folder.name))
        self.reload()

    def reload(self) -> None:
        """Makes it read its users and access rules again."""
        assert self._process is not None, "it was not started"
        pid = self._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGHUP)

    def kill(self) -> None:
        """Kills it."""
        if self._process is not None and self._process.alive:
            self._process.kill()

    def stop(self) -> None:
        """Stops it gracefully: it stores sessions and messages."""
        if self._process is not None and self._process.alive:
            self._process.stop(_STOP_S)

    def close(self) -> None:
        self.stop()
        self._folder.cleanup()

    def __enter__(self) -> Mosquitto:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class HiveMQ:
    """A HiveMQ Community Edition, as a context manager. It accepts packets of a million bytes, and
    forgets everything when it ends."""

    def __init__(self) -> None:
        self.port = free_port()
        self.uri = f"tcp://127.0.0.1:{self.port}"
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-hivemq-")
        self._process: Process | None = None

    def start(self) -> None:
        """Starts the broker, and returns when it answers."""
        folder = Path(self._folder.name)
        program = folder / "HiveMQServer.java"
        program.write_text(_HIVEMQ)
        classes = os.pathsep.join(str(jar) for jar in sorted(jars.folder("hivemq").glob("*.jar")))
        command = [jars.java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", classes, str(program), str(folder), str(self.port)]
        self._process = process = Process(command, folder / "log", name="hivemq")
        process.start()
        _await_port(self.port, process, folder / "log")

    def close(self) -> None:
        if self._process is not None and self._process.alive:
            self._process.kill()
        self._folder.cleanup()

    def __enter__(self) -> HiveMQ:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _await_port(port: int, process: Process, log: Path) -> None:
    def answers() -> bool:
        assert process.alive, f"the broker has ended: {log.read_text()}"
        return is_listening(port)

    wait_until(answers, _START_S, "the broker")
