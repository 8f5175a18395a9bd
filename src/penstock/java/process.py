"""The process of a Java host: a JVM with a bounded heap, which ends with its worker."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Final

from penstock.errors import StartupFailed
from penstock.host import janino, jars
from penstock.host.processes import exit_words
from penstock.java import messages as m
from penstock.java.client import HostClient

log = logging.getLogger(__name__)
output = logging.getLogger("penstock.java.output")

_CONNECT_S: Final = 60.0
_POLL_S: Final = 0.1
_END_S: Final = 5.0
_LAST_WORDS: Final = 12  # lines
_LINE: Final = re.compile(r"(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) \[")
_LEVELS: Final = {"WARN": logging.WARNING, "ERROR": logging.ERROR, "FATAL": logging.CRITICAL}
_MEMORY: Final = re.compile(r"java\.lang\.OutOfMemoryError: ?(.*)")
_MEMORY_EXIT: Final = 3  # of -XX:+ExitOnOutOfMemoryError


@dataclass(frozen=True, slots=True)
class HostSettings:
    """A host's JVM: the maximum size of its heap, such as `1g`, and further options."""

    heap: str
    options: Sequence[str] = ()


class HostProcess:
    """A running host; `client` is the connection to it.

    `on_end` is called once when it has ended, with the reason in words.
    """

    def __init__(
        self,
        settings: HostSettings,
        on_event: Callable[[m.Event], None],
        on_end: Callable[[str], None],
    ) -> None:
        """Starts it, and returns when it can take orders. Raises StartupFailed, with the JVM's
        words, when that fails."""
        self._settings = settings
        self._on_event = on_event
        self._on_end = on_end
        self._exit: m.Exiting | None = None
        self._closed = False
        self._words: deque[str] = deque(maxlen=_LAST_WORDS)
        folder = Path(tempfile.mkdtemp(prefix="penstock-java-", dir=_place()))  # private: mode 700
        try:
            self._process, connection = self._started(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.client = HostClient(connection, self._take, self._reason, self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Ends it; its connectors and tasks should have been stopped. `on_end` is not called."""
        self._closed = True
        self.client.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _started(self, folder: Path) -> tuple[subprocess.Popen[str], socket.socket]:
        path = folder / "socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind(str(path))
            server.listen(1)
            server.settimeout(_POLL_S)
            process = subprocess.Popen(
                self._command(path),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                start_new_session=True,  # a Ctrl-C reaches the worker alone, which stops it
            )
            assert process.stdout is not None
            self._reader = threading.Thread(
                target=self._log, args=(process.stdout,), name="java-output", daemon=True
            )
            self._reader.start()
            for _ in range(int(_CONNECT_S / _POLL_S)):
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    if process.poll() is None:
                        continue
                    break
                connection.settimeout(None)
                return process, connection
        process.kill()
        process.wait()
        self._reader.join(_END_S)
        raise StartupFailed(
            f"The Java host did not start ({exit_words(process.returncode)}). "
            f"Its last words:\n{self._last_words()}"
        )

    def _command(self, path: Path) -> list[str]:
        classpath = sorted(jars.folder("java-host", log.info).glob("*.jar"))
        program = janino.compiled_jar("java-host", sources(), classpath)
        logging_file = resources.files(__package__).joinpath("log4j2.properties")
        return [
            jars.java(),
            f"-Xmx{self._settings.heap}",
            "-XX:+ExitOnOutOfMemoryError",
            f"-Dlog4j2.configurationFile={logging_file}",
            *self._settings.options,
            "-cp",
            os.pathsep.join(map(str, [program, *classpath])),
            "penstock.JavaHost",
            str(path),
        ]

    def _log(self, stream: IO[str]) -> None:
        """Passes the host's output to the worker's log; lines without a level belong to the one
        before."""
        level = logging.INFO
        with stream:
            for line in stream:
                text = line.rstrip("\n")
                self._words.append(text)
                if start := _LINE.match(text):
                    level = _LEVELS.get(start[1], logging.INFO)
                    text = text[len(start[1]) + 1 :]
                output.log(level, "%s", text)

    def _take(self, event: m.Event) -> None:
        if isinstance(event, m.Exiting):
            self._exit = event
        else:
            self._on_event(event)

    def _end(self, reason: str) -> None:
        if not self._closed:
            self._on_end(reason)

    def _reason(self) -> str:
        """Why it has ended: waits for the end, and for its last words."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:  # it has closed the connection, but does not end
            self._process.kill()
            code = self._process.wait()
        self._reader.join(_END_S)
        if self._exit is not None:
            return (
                f"A plugin ended the Java host with System.exit({code}), in the thread "
                f"'{self._exit.thread}'. Every Java task of this worker failed with it."
                f"{self._exit.trace}"
            )
        if code == _MEMORY_EXIT:
            matches = [match[1] for line in self._words if (match := _MEMORY.search(line))]
            what = matches[0] if matches and matches[0] else "out of memory"
            return (
                f"The Java host ended: {what}; raise penstock.java.heap, which is "
                f"{self._settings.heap}, in the worker's settings. Every Java task of this worker "
                "failed with it."
            )
        return (
            f"The Java host ended unexpectedly ({exit_words(code)}). Every Java task of this "
            f"worker failed with it. Its last words:\n{self._last_words()}"
        )

    def _last_words(self) -> str:
        return "\n".join(self._words)


def sources() -> dict[str, str]:
    """The host's classes, as Java source by name."""
    files = sorted(resources.files(__package__).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".java"): file.read_text()
        for file in files
        if file.name.endswith(".java")
    }


def _place() -> str | None:
    """Where the folder of the socket goes: a path of a socket has at most 104 bytes."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
