"""A worker's Java host: started when it is first needed, and again after it has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from penstock.java import messages as m
from penstock.java.client import HostEnded
from penstock.java.process import HostProcess, HostSettings

log = logging.getLogger(__name__)

_CLOSE_S: Final = 10.0


class JavaHost:
    """Takes orders from any thread. After the host has ended, the next order starts another one;
    `on_end` is called with the reason before that, so that whoever had work in it can report it."""

    def __init__(
        self,
        settings: HostSettings,
        opening: Callable[[], m.OpenHost],
        on_event: Callable[[m.Event], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._opening = opening
        self._on_event = on_event
        self._on_end = on_end
        self._lock = threading.Lock()  # guards starting and ending
        self._process: HostProcess | None = None
        self._closed = False

    def order(self, order: m.Order) -> Any:
        """The answer. Starts the host if none runs. Raises JavaError, HostEnded, StartupFailed."""
        return self._started().client.order(order)

    def order_running(self, order: m.Order, timeout_s: float | None = None) -> Any:
        """The answer of a running host; None if none runs, which has nothing to stop. Raises
        JavaError, or TimeoutError."""
        process = self._process
        if process is None:
            return None
        try:
            return process.client.order(order, timeout_s)
        except HostEnded:
            return None

    def close(self) -> None:
        """Stops all that runs in the host, and ends it; none is started afterwards."""
        self._closed = True
        try:
            self.order_running(m.CloseHost(), _CLOSE_S)
        except (m.JavaError, TimeoutError) as error:
            log.warning("the Java host is killed, as it did not stop in time: %r", error)
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.close()

    def _started(self) -> HostProcess:
        with self._lock:
            if self._closed:
                raise HostEnded("The worker stops.")
            if self._process is None:
                log.info("starting the Java host, with a heap of %s", self._settings.heap)
                process = HostProcess(self._settings, self._on_event, self._on_ended)
                try:
                    process.client.order(self._opening())
                except BaseException:
                    process.close()
                    raise
                self._process = process
            return self._process

    def _on_ended(self, reason: str) -> None:
        log.error("%s", reason)
        with self._lock:
            self._process = None
        self._on_end(reason)
