"""The herder's inbox: events from all threads, and replies from the herder's own."""

from __future__ import annotations

import contextlib
import queue
import threading
from concurrent.futures import Future
from typing import Final, TypeVar

from penstock.cluster import events as e

T = TypeVar("T")

_REPLY_S: Final = 10.0  # a turn of the loop takes milliseconds
_LOOK_S: Final = 0.1  # how soon a waiting thread notices that the loop has ended


class EventInbox:
    """The only lock between the herder's thread and all others."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
        self._closed = threading.Event()

    def post(self, event: e.Event) -> None:
        """Adds an event. Does not block."""
        self._events.put(event)

    def next(self, timeout_s: float) -> e.Event:
        """The next event, or a tick after the time-out."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return e.Tick()

    def request(self, operation: e.Operation) -> Future[e.Result]:
        """Requests an operation; the future stays empty if the worker ends."""
        reply: Future[e.Result] = Future()
        self.post(e.Requested(reply, operation))
        return reply

    def wait(self, reply: Future[T]) -> T:
        """The herder's reply. Raises TimeoutError after 10 s, or when the herder has ended."""
        for _ in range(int(_REPLY_S / _LOOK_S)):
            with contextlib.suppress(TimeoutError):
                return reply.result(_LOOK_S)
            if self._closed.is_set():
                break
        raise TimeoutError("The herder did not answer the group in time.")

    def close(self) -> None:
        """The herder has ended: `wait` raises from now on."""
        self._closed.set()


def resolve(reply: e.Reply, result: object) -> None:
    """Sets a reply's result, unless it has one."""
    assert isinstance(reply, Future)
    if not reply.done():
        reply.set_result(result)


def reject(reply: e.Reply, error: Exception) -> None:
    """Sets a reply's error, unless it has a result."""
    assert isinstance(reply, Future)
    if not reply.done():
        reply.set_exception(error)
