"""Programs as processes: started in their own sessions, stopped with all their children.

Starts a worker, a broker or another runtime so that a Ctrl-C reaches only the starter, and nothing
outlives a clean stop.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed
from penstock.host.waiting import POLL_S, wait_until

_STOP_S: Final = 30.0
_LEFTOVERS_S: Final = 5.0
_LAST_WORDS: Final = 12  # lines


class Process:
    """One program, with its output appended to `log`; can be started again after it has ended.

    `folder` is its working directory, by default the starter's. It leads a session and a process
    group, which includes its children. Messages call it `name`, and end with the last lines of its
    log, and of the `logs` it writes itself. As a context manager, it starts on entry and stops on
    exit.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        folder: Path | None = None,
        *,
        name: str = "The worker",
        logs: Sequence[Path] = (),
    ) -> None:
        self.command = tuple(command)
        self.log = log
        self.name = name
        self._logs = (log, *logs)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, also after its end; None if it was never started."""
        return self._process.pid if self._process else None

    @property
    def ended(self) -> int | None:
        """The exit code, negative for a signal; None while it runs, or if it never started."""
        return self._process.poll() if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the program and returns at once."""
        assert not self.alive, "it is already running"
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self._folder,
            )

    def check(self, remark: Callable[[], str] = lambda: "") -> None:
        """Raises StartupFailed, with the end of the log, when the process has ended; a `remark`
        follows the exit code."""
        code = self.ended
        if code is not None:
            words = "\n".join(last_words(log) for log in self._logs if log.exists())
            raise StartupFailed(
                f"{self.name} exited unexpectedly ({exit_words(code)}){remark()}. The end of its "
                f"log, from {self.log}:\n{words}"
            )

    def wait_for(
        self, condition: Callable[[], bool], timeout_s: float, what: str, poll_s: float = POLL_S
    ) -> None:
        """Waits until `condition` holds. Raises StartupFailed when the process ends before that,
        TimeoutError, naming `what`, when it takes too long."""

        def holds() -> bool:
            self.check()
            return condition()

        wait_until(holds, timeout_s, what, poll_s)

    def end(self, timeout_s: float) -> int:
        """Sends SIGTERM, and returns the exit code. Raises TimeoutError when it takes too long."""
        assert self._process is not None, "it was not started"
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} did not end within {timeout_s:.0f} s") from None

    def wait(self) -> int:
        """Blocks until it ends by itself, and returns its exit code."""
        assert self._process is not None, "it was not started"
        return self._process.wait()

    def stop(self, timeout_s: float) -> bool:
        """Stops it and its process group; False if it had to be killed for taking too long. Safe to
        call twice, and before the start."""
        if self._process is None:
            return True
        in_time = True
        if self.alive:
            try:
                self.end(timeout_s)
            except TimeoutError:
                in_time = False
                self.kill()
        self._stop_leftovers(self._process.pid)
        return in_time

    def kill(self) -> None:
        """Kills it alone (SIGKILL), as a power cut would, without its children."""
        assert self._process is not None, "it was not started"
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """Kills it with its group, without waiting; safe to call from a signal handler."""
        if self._process is not None and self._process.poll() is None:
            _signal_group(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Process:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(_STOP_S)

    def _stop_leftovers(self, group: int) -> None:
        """Waits for a worker's JVM, which ends by itself, or kills it."""
        deadline = time.monotonic() + _LEFTOVERS_S
        while time.monotonic() < deadline:
            if not _signal_group(group, 0):
                return
            threading.Event().wait(0.05)
        _signal_group(group, signal.SIGKILL)


def worker_command(properties: Path) -> list[str]:
    """The command line of a penstock worker."""
    return [sys.executable, "-m", "penstock", "distributed", str(properties)]


def exit_words(code: int) -> str:
    """An exit code in words: `exit code 2`, or `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def last_words(log: Path, lines: int = _LAST_WORDS) -> str:
    """The last lines of a log, without reading all of it."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 16_384))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(unreadable: {error.strerror})"
    return "\n".join(text.splitlines()[-lines:]) or "(nothing)"


def _signal_group(group: int, number: int) -> bool:
    """Signals the group; False if it has no processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False
