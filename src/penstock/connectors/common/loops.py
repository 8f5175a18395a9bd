"""An event loop in a separate thread, for tasks with blocking calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")
_END_S: Final = 5.0  # for coroutines that are cancelled


class Loop:
    """Runs coroutines for other threads until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
        """Runs the coroutine to its end; returns its result or raises its error. Raises
        TimeoutError if it takes longer."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(within_s)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Starts the coroutine; closing the loop cancels it."""

        async def begin() -> asyncio.Future[Any]:
            return asyncio.ensure_future(work)

        return self.run(begin())

    def call(self, action: Any, *arguments: Any) -> None:
        """Schedules a function call on the loop; does nothing once it is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action, *arguments)

    def close(self) -> None:
        """Cancels running coroutines and ends the thread. Idempotent."""
        if self._loop.is_closed():
            return
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def end_lookups(self) -> None:
        """Waits for the threads that look up addresses."""
        await self._loop.shutdown_default_executor()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), _END_S)
