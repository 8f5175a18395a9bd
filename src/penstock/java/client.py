"""A worker's end of the connection to a Java host."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import orjson

from penstock.errors import PenstockError
from penstock.java import messages as m

_LENGTH: Final = struct.Struct(">I")


class HostEnded(PenstockError):
    """The host has ended before it answered."""


class HostClient:
    """Sends orders, from any thread. Events arrive in the reading thread, in order, and before the
    answer to an order that caused them. After the last one, `reason` finds out why the host has
    ended, and `on_end` is called with that."""

    def __init__(
        self,
        connection: socket.socket,
        on_event: Callable[[m.Event], None],
        reason: Callable[[], str],
        on_end: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._on_event = on_event
        self._reason = reason
        self._on_end = on_end
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # guards sending, and what is below
        self._waiting: dict[int, Future[Any]] = {}
        self._ended: str | None = None  # why
        threading.Thread(target=self._read, name="java-host", daemon=True).start()

    def order(self, order: m.Order, timeout_s: float | None = None) -> Any:
        """The answer, as soon as the host has done it, by default however long a plugin takes.
        Raises JavaError, HostEnded, or TimeoutError."""
        answer: Future[Any] = Future()
        number = next(self._numbers)
        frame = orjson.dumps(m.encoded(number, order))
        with self._lock:
            if self._ended is not None:
                raise HostEnded(self._ended)
            self._waiting[number] = answer
            with contextlib.suppress(OSError):  # it has ended: the reading thread answers
                self._connection.sendall(_LENGTH.pack(len(frame)) + frame)
        return answer.result(timeout_s)

    def close(self) -> None:
        """Closes the connection, which ends the host."""
        with contextlib.suppress(OSError):  # the host has closed it
            self._connection.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        with self._connection, self._connection.makefile("rb") as stream:
            try:
                while len(head := stream.read(_LENGTH.size)) == _LENGTH.size:
                    (length,) = _LENGTH.unpack(head)
                    text = stream.read(length)
                    if len(text) < length:
                        break
                    self._take(orjson.loads(text))
            except OSError:
                pass  # the host has ended
        reason = self._reason()
        with self._lock:
            self._ended = reason
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for answer in waiting:
            answer.set_exception(HostEnded(reason))
        self._on_end(reason)

    def _take(self, frame: dict[str, Any]) -> None:
        if "event" in frame:
            self._on_event(m.event(frame))
            return
        with self._lock:
            answer = self._waiting.pop(frame["re"])
        if "error" in frame:
            answer.set_exception(m.JavaError(m.cause(frame["error"])))
        else:
            answer.set_result(frame["result"])
