"""Questions to slots whose answers come later, by tickets."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Tickets(Generic[T]):
    """What waits for the answer to each open question. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._open: dict[int, T] = {}

    def open(self, waiting: T) -> int:
        """The ticket of a new question."""
        with self._lock:
            self._last += 1
            self._open[self._last] = waiting
            return self._last

    def waiting(self, ticket: int) -> T | None:
        """What waits for an answer; None if nobody does any more."""
        with self._lock:
            return self._open.get(ticket)

    def close(self, ticket: int) -> T | None:
        """The same, and nobody waits any more."""
        with self._lock:
            return self._open.pop(ticket, None)
