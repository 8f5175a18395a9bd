"""Base of readers whose connections push messages."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from penstock.api import Offsets, Polled, Primitive, SourceContext, SourceOffset, SourceReader
from penstock.connectors.common.loops import Loop
from penstock.connectors.http.live.inbox import Inbox, Message, records_of

_LONGEST_MS: Final = 60_000


class StreamReader(SourceReader):
    """Receives messages in a coroutine, and returns them when polled."""

    idle_ms = 0

    def __init__(
        self,
        topic: str,
        partition: Mapping[str, Primitive],
        context: SourceContext,
        buffer_bytes: int,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._context = context
        self._offset: Mapping[str, Any] = context.stored_offset(partition) or {}
        self._inbox = Inbox(buffer_bytes, context.wake)
        self._loop = Loop(f"http-{context.task}")
        self._running: Any = None

    @abstractmethod
    async def receive(self) -> None:
        """Receives messages indefinitely; `poll` raises its error."""

    async def release(self) -> None:
        """Closes the resources of `receive`."""

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if self._running is None:
            self._running = self._loop.start(self._receive())
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            messages = self._inbox.take(max_bytes)
            if messages:
                return Polled(
                    records_of(self._topic, messages),
                    self._offsets(messages, len(messages)),
                    offsets_before=partial(self._offsets, messages),
                )
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or self._context.wait(remaining_s):
                return None

    def _offsets(self, messages: Sequence[Message], count: int) -> Offsets:
        return (SourceOffset(self._partition, messages[count - 1].offset),)

    async def _receive(self) -> None:
        try:
            await self.receive()
        except Exception as error:
            self._running = None
            self._inbox.fail(error)

    def committed(self, offsets: Offsets) -> None:
        return None

    def close(self) -> None:
        self._loop.run(self.release())
        self._loop.close()


def pause_ms(first_ms: int, tries: int) -> int:
    """The delay before a reconnect.

    >>> [pause_ms(1_000, tries) for tries in (1, 2, 20)]
    [1000, 2000, 60000]
    """
    return int(min(first_ms << min(tries - 1, 16), max(_LONGEST_MS, first_ms)))
