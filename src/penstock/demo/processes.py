"""The demo's processes and the signals that end them.

Whatever happens, nothing that was started here outlives the demo: processes have sessions of their
own, so a Ctrl-C reaches only us, and we stop them in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

from penstock.errors import StartupFailed
from penstock.kafka.broker import Broker

WORKER_STOP_S: Final = 20
_LEFTOVERS_S: Final = 5
_LAST_WORDS: Final = 12  # lines


class Interrupted(KeyboardInterrupt):
    """The user, or the system, asked the demo to end."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(signal.Signals(number).name)


class Interrupts:
    """Turns Ctrl-C, SIGTERM and SIGHUP into one `Interrupted`, raised in the main thread.

    Once it was raised, or from `ending` on, further signals do not disturb the clean-up any more;
    they kill what `hurry` knows, so that it is over soon.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.hurry: list[Callable[[], None]] = []
        self._ending = False
        self._held = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ending(self) -> None:
        """From here on the demo is cleaning up."""
        self._ending = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Puts a signal off until the end of the block; for what must not be torn in two."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self.received is not None and not self._ending:
                self._raise(self.received)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._ending:
            if self.received is None:
                self.received = number
            for kill in self.hurry:
                kill()
            return
        self.received = number
        if not self._held:
            self._raise(number)

    def _raise(self, number: int) -> None:
        self._ending = True
        raise Interrupted(number)


class BrokerProcess:
    """The embedded broker; an interruption at any moment of its start leaves nothing behind."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._problem: BaseException | None = None
        self._started = threading.Event()  # in order or not

    @property
    def alive(self) -> bool:
        return self._broker.pid is not None

    def start(self, interrupts: Interrupts) -> None:
        """Starts the broker and waits until it answers; raises StartupFailed if it does not."""
        # In a thread, because signals interrupt only the main one: there, one that comes between
        # the birth of the process and the assignment of its handle would leave it behind.
        # (And an event, because a thread whose `join` is interrupted is taken for dead.)
        thread = threading.Thread(target=self._start, name="broker-start", daemon=True)
        try:
            with interrupts.held():
                thread.start()
            while not self._started.wait(0.1):
                pass
        except BaseException:
            while not (self.alive or self._started.wait(0.05)):
                pass
            self.stop()
            self._started.wait()
            raise
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        self._broker.stop()

    def kill(self) -> None:
        """Ends it at once; safe to call from a signal handler."""
        if self._broker.pid is not None:
            _signal(self._broker.pid, signal.SIGKILL)

    def _start(self) -> None:
        try:
            self._broker.start()
        except BaseException as error:
            self._problem = error
        finally:
            self._started.set()


class WorkerProcess:
    """One `penstock distributed` process, its output in a log file."""

    def __init__(self, properties: Path, log: Path) -> None:
        self.properties = properties
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> list[str]:
        return worker_command(self.properties)

    @property
    def pid(self) -> int | None:
        """The worker's process id, also when it has ended."""
        return self._process.pid if self._process else None

    @property
    def ended(self) -> int | None:
        """The exit code, negative for a signal; None as long as it runs."""
        return self._process.poll() if self._process else None

    def start(self, interrupts: Interrupts) -> None:
        """Starts the process; that it answers is for the caller to see."""
        with interrupts.held(), self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> bool:
        """Asks the worker to end and waits; kills it when it takes too long. False if it had to."""
        process = self._process
        if process is None:
            return True
        in_time = True
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(WORKER_STOP_S)
            except subprocess.TimeoutExpired:
                in_time = False
                process.kill()
                process.wait()
        self._stop_leftovers(process.pid)
        return in_time

    def kill(self) -> None:
        """Ends it at once with its children; safe to call from a signal handler."""
        if self._process is not None and self._process.poll() is None:
            _signal_group(self._process.pid, signal.SIGKILL)

    def check(self) -> None:
        """Raises StartupFailed when the process has ended."""
        code = self.ended
        if code is not None:
            raise StartupFailed(
                f"The worker ended by itself ({exit_words(code)}). Its last words, from "
                f"{self.log}:\n{last_words(self.log)}"
            )

    def _stop_leftovers(self, group: int) -> None:
        """Its JVM ends with it, by itself; one that does not is not left behind."""
        deadline = time.monotonic() + _LEFTOVERS_S
        while time.monotonic() < deadline:
            if not _signal_group(group, 0):
                return
            threading.Event().wait(0.05)
        _signal_group(group, signal.SIGKILL)


def worker_command(properties: Path) -> list[str]:
    """The command line of a worker."""
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


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
