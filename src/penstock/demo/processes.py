"""The signals that end the demo, and its broker.

No process that was started here outlives the demo: each has its own session
(`penstock.host.processes`), so a Ctrl-C reaches only the demo, which stops them cleanly.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from penstock.kafka.broker import Broker

WORKER_STOP_S: Final = 20


class DemoInterrupted(KeyboardInterrupt):
    """The user, or the system, asked the demo to end."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(signal.Signals(number).name)


class Interrupts:
    """Turns Ctrl-C, SIGTERM and SIGHUP into one `DemoInterrupted`, raised in the main thread.

    After that, or after `ending`, further signals do not interrupt the clean-up; they call the
    functions in `hurry`, which kill the processes.
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

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ending(self) -> None:
        """From here on the demo is cleaning up."""
        self._ending = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Delays a signal until the end of the block; for steps that must not be interrupted."""
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
        raise DemoInterrupted(number)


class BrokerProcess:
    """The embedded broker; an interrupted start leaves no process behind."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._problem: BaseException | None = None
        self._started = threading.Event()  # or failed

    @property
    def alive(self) -> bool:
        return self._broker.pid is not None

    def start(self, interrupts: Interrupts) -> None:
        """Starts the broker and waits until it answers; raises StartupFailed if it does not."""
        # In a thread, because signals interrupt only the main one: there, a signal between the
        # start of the process and the assignment of its handle would leave the process running.
        # (And an event, because Python considers a thread dead whose `join` is interrupted.)
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

    def check(self) -> None:
        """Raises StartupFailed, with the end of its log, if the broker has exited."""
        self._broker.check()

    def stop(self) -> None:
        self._broker.stop()

    def kill(self) -> None:
        """Ends it at once; safe to call from a signal handler."""
        if self._broker.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._broker.pid, signal.SIGKILL)

    def _start(self) -> None:
        try:
            self._broker.start()
        except BaseException as error:
            self._problem = error
        finally:
            self._started.set()
