"""Restarts connectors whose secrets have a TTL (kafka-connect.md §13.4)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from penstock.ids import TaskId

log = logging.getLogger(__name__)

Held = str | TaskId
"""A connector's name, or a task."""


class Reloads:
    """At most one scheduled restart for each connector and task; `due` is called in a separate
    thread when the time has come."""

    def __init__(self, due: Callable[[Held], None]) -> None:
        self._due = due
        self._dates: dict[Held, float] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def hold(self, target: Held, ms: int | None) -> None:
        """Schedules a restart in `ms`, replacing an earlier one; None cancels it."""
        with self._changed:
            if ms is None:
                self._dates.pop(target, None)
                return
            log.info("Scheduling a restart of %s in %d ms", target, ms)
            self._dates[target] = time.monotonic() + ms / 1000
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="reloads", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Cancels everything."""
        with self._changed:
            self._closed = True
            self._dates.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                due = [target for target, at in self._dates.items() if at <= now]
                for target in due:
                    del self._dates[target]
                if not due:
                    first = min(self._dates.values(), default=None)
                    self._changed.wait(None if first is None else first - now)
                    continue
            for target in due:
                self._due(target)
