"""How long a task has worked, in contrast to waited."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.flow.messages import TaskLoad


class WorkingTime:
    """The task's thread measures; any thread may read `load`, which may be a moment old."""

    def __init__(self) -> None:
        self._busy_s = 0.0
        self._since: float | None = None
        self._in_call = False

    @property
    def is_busy(self) -> bool:
        return self._since is not None

    def load(self, now: float) -> TaskLoad:
        since = self._since
        busy_s = self._busy_s + (0.0 if since is None else now - since)
        return TaskLoad(busy_s, since is not None or self._in_call)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Counts the time in the block as the task's own work."""
        if self._since is not None:
            yield  # nested
            return
        self._since = began = time.monotonic()
        try:
            yield
        finally:
            self._since = None
            self._busy_s += time.monotonic() - began

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Connector code runs in the block, but may only wait: counts just its CPU time."""
        began = time.thread_time()
        self._in_call = True
        try:
            yield
        finally:
            self._in_call = False
            self._busy_s += time.thread_time() - began
