"""What has arrived and was not polled yet: an event loop fills it, the task's thread empties it."""

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
    """One record to be. `offset` is stored with it."""

    value: Value
    key: str | None
    offset: Mapping[str, Primitive]
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None

    @property
    def size(self) -> int:
        """About how many bytes it is."""
        text = self.value if isinstance(self.value, str | bytes) else repr(self.value)
        return len(text) + len(self.key or "") + _OVERHEAD


class Inbox:
    """Messages in order, at most about `max_bytes` of them."""

    def __init__(self, max_bytes: int, wake: Callable[[], None]) -> None:
        self._max_bytes = max_bytes
        self._wake = wake
        self._lock = threading.Lock()
        self._messages: deque[Message] = deque()
        self._size = 0
        self._error: Exception | None = None

    async def put(self, message: Message) -> None:
        """Adds a message; waits while there is no room."""
        while self._size >= self._max_bytes:
            await asyncio.sleep(_LOOK_S)
        with self._lock:
            self._messages.append(message)
            self._size += message.size
        self._wake()

    def fail(self, error: Exception) -> None:
        """The next `take` that has no messages raises this."""
        self._error = error
        self._wake()

    def take(self, max_bytes: int) -> list[Message]:
        """The next messages, possibly none. Raises the error that ended the stream."""
        taken: list[Message] = []
        size = 0
        with self._lock:
            while self._messages and (not taken or size < max_bytes):
                message = self._messages.popleft()
                taken.append(message)
                size += message.size
            self._size -= size
        if not taken and self._error is not None:
            error, self._error = self._error, None
            raise error
        return taken


def records_of(topic: str, messages: Sequence[Message]) -> Records:
    """The batch."""
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
