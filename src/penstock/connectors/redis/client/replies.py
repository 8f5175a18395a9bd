"""A parser for replies of any shape (RESP 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.connectors.redis.client.errors import Answered


class Replies:
    """Reads replies from `receive`, which returns the next bytes, at least one.

    >>> pieces = iter([b"*2\\r\\n$1\\r\\na\\r\\n", b":5\\r\\n"])
    >>> Replies(lambda: next(pieces)).value()
    [b'a', 5]
    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._data = b""
        self._at = 0

    def value(self) -> Any:
        """The next reply: bytes, an int, a list, None, or an Answered for an error."""
        line = self._line()
        kind = line[0]
        if kind == 36:  # $
            return self._bulk(int(line[1:]))
        if kind == 42:  # *
            return self._list(int(line[1:]))
        if kind == 58:  # :
            return int(line[1:])
        if kind == 45:  # -
            return Answered(line[1:].decode("utf-8", "replace"))
        return line[1:]

    def has_more(self) -> bool:
        """Whether there are unread bytes."""
        return self._at < len(self._data)

    def _list(self, count: int) -> list[Any] | None:
        if count < 0:
            return None
        items: list[Any] = []
        add = items.append
        data, at = self._data, self._at
        available = len(data)
        for _ in range(count):
            # Most elements are strings or lists that have begun to arrive.
            end = data.find(b"\r\n", at)
            if end > at:
                if data[at] == 36:  # $
                    start = end + 2
                    stop = start + int(data[at + 1 : end])
                    if start <= stop and stop + 2 <= available:
                        add(data[start:stop])
                        at = stop + 2
                        continue
                elif data[at] == 42:  # *
                    self._at = end + 2
                    add(self._list(int(data[at + 1 : end])))
                    data, at = self._data, self._at
                    available = len(data)
                    continue
            self._at = at
            add(self.value())
            data, at = self._data, self._at
            available = len(data)
        self._at = at
        return items

    def _bulk(self, size: int) -> bytes | None:
        if size < 0:
            return None
        self._await(size + 2)
        start = self._at
        self._at = start + size + 2
        return self._data[start : start + size]

    def _line(self) -> bytes:
        end = self._data.find(b"\r\n", self._at)
        while end < 0:
            self._more(1)
            end = self._data.find(b"\r\n", self._at)
        line = self._data[self._at : end]
        self._at = end + 2
        return line

    def _await(self, size: int) -> None:
        missing = self._at + size - len(self._data)
        if missing > 0:
            self._more(missing)

    def _more(self, size: int) -> None:
        """Receives at least `size` bytes; discards the ones already read."""
        parts = [self._data[self._at :]]
        while size > 0:
            parts.append(self._receive())
            size -= len(parts[-1])
        self._data = b"".join(parts)
        self._at = 0
