"""Requests to slots whose answers come later, by ticket."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Tickets(Generic[T]):
    """The waiter of each open request. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._open: dict[int, T] = {}

    def open(self, waiting: T) -> int:
        """The ticket of a new request."""
        with self._lock:
            self._last += 1
            self._open[self._last] = waiting
            return self._last

    def waiting(self, ticket: int) -> T | None:
        """The waiter of a request; None once it is closed."""
        with self._lock:
            return self._open.get(ticket)

    def close(self, ticket: int) -> T | None:
        """Closes a request and returns its waiter."""
        with self._lock:
            return self._open.pop(ticket, None)
