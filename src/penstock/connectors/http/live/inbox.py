"""Messages waiting to be polled: an event loop adds them, the task's thread takes them."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api import Column, Header, Primitive, Records
from penstock.api.schema import BYTES, STRING, Schema, Value

_LOOK_S: Final = 0.01
_OVERHEAD: Final = 100


@dataclass(frozen=True, slots=True)
class Message:
    """A record to be polled, and its offset."""

    value: Value
    key: str | None
    offset: Mapping[str, Primitive]
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        text = self.value if isinstance(self.value, str | bytes) else repr(self.value)
        return len(text) + len(self.key or "") + _OVERHEAD


class Inbox:
    """An ordered queue of messages, limited to about `max_bytes`."""

    def __init__(self, max_bytes: int, wake: Callable[[], None]) -> None:
        self._max_bytes = max_bytes
        self._wake = wake
        self._lock = threading.Lock()
        self._messages: deque[Message] = deque()
        self._size = 0
        self._error: Exception | None = None

    async def put(self, message: Message) -> None:
        """Adds a message; waits while the inbox is full."""
        while self._size >= self._max_bytes:
            await asyncio.sleep(_LOOK_S)
        with self._lock:
            self._messages.append(message)
            self._size += message.size
        self._wake()

    def fail(self, error: Exception) -> None:
        """Makes `take` raise this error once no messages are left."""
        self._error = error
        self._wake()

    def take(self, max_bytes: int) -> list[Message]:
        """Removes and returns the next messages, if any. Raises the error that ended the stream."""
        messages: list[Message] = []
        size = 0
        with self._lock:
            while self._messages and (not messages or size < max_bytes):
                message = self._messages.popleft()
                messages.append(message)
                size += message.size
            self._size -= size
        if not messages and self._error is not None:
            error, self._error = self._error, None
            raise error
        return messages


def records_of(topic: str, messages: Sequence[Message]) -> Records:
    """The messages as a batch."""
    records = Records.of(
        topic,
        [message.value for message in messages],
        keys=[message.key for message in messages],
        key_schema=STRING.as_optional(),
        timestamps=[message.timestamp for message in messages],
        headers=[message.headers for message in messages]
        if any(message.headers for message in messages)
        else (),
    )
    schemas = [_schema(message.value) for message in messages]
    return records.with_values(Column.gather([message.value for message in messages], schemas))


def _schema(value: Value) -> Schema | None:
    if isinstance(value, str):
        return STRING
    return BYTES if isinstance(value, bytes) else None
