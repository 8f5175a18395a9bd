"""Readers of connections that bring messages by themselves."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

from penstock.api import Offsets, Polled, Primitive, SourceContext, SourceOffset, SourceReader
from penstock.connectors.http.client.loop import Loop
from penstock.connectors.http.live.inbox import Inbox, records_of

log = logging.getLogger(__name__)

_LONGEST_MS: Final = 60_000


class StreamReader(SourceReader):
    """Has a coroutine receive messages, and returns them when it is polled."""

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
        """Receives for ever; an error ends it, and `poll` raises it."""

    async def release(self) -> None:
        """Closes what `receive` has opened."""

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if self._running is None:
            self._running = self._loop.start(self._receive())
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            messages = self._inbox.take(max_bytes)
            if messages:
                stored = SourceOffset(self._partition, messages[-1].offset)
                return Polled(records_of(self._topic, messages), (stored,))
            left = deadline - time.monotonic()
            if left <= 0 or self._context.wait(left):
                return None

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
    """The pause before a connection is opened again.

    >>> [pause_ms(1_000, tries) for tries in (1, 2, 20)]
    [1000, 2000, 60000]
    """
    return int(min(first_ms << min(tries - 1, 16), max(_LONGEST_MS, first_ms)))
