"""Programs as processes: started in sessions of their own, ended with all they started.

Whoever needs a worker, a broker or another runtime beside itself starts it here, so that a Ctrl-C
reaches only the starter, and nothing that was started outlives an orderly end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.errors import StartupFailed

_LEFTOVERS_S: Final = 5.0
_LAST_WORDS: Final = 12  # lines


class Process:
    """One program, what it says appended to `log`; may be started again after it ended.

    `folder` is where it runs, by default the starter's. It leads a session and so a process group,
    to which belongs what it starts itself.
    """

    def __init__(self, command: Sequence[str], log: Path, folder: Path | None = None) -> None:
        self.command = tuple(command)
        self.log = log
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, also when it has ended; None if it was never started."""
        return self._process.pid if self._process else None

    @property
    def ended(self) -> int | None:
        """The exit code, negative for a signal; None as long as it runs, or if it never did."""
        return self._process.poll() if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts the program and returns at once; that it works is for the caller to see."""
        assert not self.alive, "it runs already"
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self._folder,
            )

    def check(self, what: str = "The worker") -> None:
        """Raises StartupFailed, with the end of the log, when the process has ended."""
        code = self.ended
        if code is not None:
            raise StartupFailed(
                f"{what} ended by itself ({exit_words(code)}). Its last words, from "
                f"{self.log}:\n{last_words(self.log)}"
            )

    def end(self, timeout_s: float) -> int:
        """Asks it to end (SIGTERM); its exit code. Raises TimeoutError when it takes too long."""
        assert self._process is not None, "it was not started"
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} did not end within {timeout_s:.0f} s") from None

    def wait(self) -> int:
        """Blocks until it ends by itself; its exit code."""
        assert self._process is not None, "it was not started"
        return self._process.wait()

    def stop(self, timeout_s: float) -> bool:
        """Ends it and what is left of its group; False when it had to be killed for taking too
        long. Safe to call twice, and before the start."""
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
        """Ends it alone, at once (SIGKILL), as a power cut would; its children see to
        themselves."""
        assert self._process is not None, "it was not started"
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """Ends it at once with its group, without waiting; safe to call from a signal handler."""
        if self._process is not None and self._process.poll() is None:
            _signal_group(self._process.pid, signal.SIGKILL)

    def _stop_leftovers(self, group: int) -> None:
        """A worker's JVM ends with it, by itself; one that does not is not left behind."""
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
    """An exit code as people say it: `exit code 2`, or `killed by SIGKILL`."""
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
    """Whether there was anybody in the group to signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False
