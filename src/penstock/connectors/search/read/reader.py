"""Reads the shards of one task.

Several shards are read at once, each by one request at a time. The limit of requests in flight
includes pages that wait to be polled.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any, Final

import orjson

from penstock.api import (
    Offsets,
    PenstockError,
    Polled,
    Records,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.schema import STRING
from penstock.connectors.search.client.access import Client
from penstock.connectors.search.read.checkpoints import Checkpoints
from penstock.connectors.search.read.pages import Page, ShardPages
from penstock.connectors.search.read.plan import Format, ReadPlan
from penstock.connectors.search.read.points import Points
from penstock.connectors.search.read.positions import in_ms, offset_of, position_of, reached
from penstock.connectors.search.read.shards import DATES, Shard, topic_of

_ANSWER_MS: Final = 1_000  # how long a poll waits for a request in flight
_CHECK_S: Final = 0.1  # how often it then checks whether the task stops
_CLOSE_S: Final = 2.0


class SearchReader(SourceReader):
    """Reads a task's shards."""

    idle_ms = 0

    def __init__(
        self,
        plan: ReadPlan,
        client: Client,
        shards: Sequence[Shard],
        context: SourceContext,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._plan = plan
        self._client = client
        self._context = context
        self._clock = clock
        self._points = Points(client, plan.keep_alive_ms)
        checkpoints = Checkpoints(client, refreshes=plan.refreshes)
        # Shards in a round come first, so that few points in time are open.
        self._waiting = deque(
            ShardPages(
                plan,
                client,
                self._points,
                checkpoints,
                shard,
                position_of(plan, shard, context.stored_offset(shard.partition)),
                clock,
            )
            for shard in shards
        )
        self._pages: deque[Page] = deque()
        self._running: dict[Future[Page | None], ShardPages] = {}
        self._pool = ThreadPoolExecutor(plan.in_flight, thread_name_prefix="search")

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        begun, now = time.monotonic(), self._clock()

        def remaining_s(ms: int) -> float:
            return begun + ms / 1000 - time.monotonic()

        while self._context.is_running:
            # Shards that become due meanwhile wait for the next poll.
            self._submit(self._clock() if remaining_s(wait_ms) > 0 else now)
            if self._pages:
                return self._polled(max_bytes)
            if self._running:
                pause = remaining_s(max(wait_ms, _ANSWER_MS))
                if pause <= 0:
                    return None
                done, _ = wait_for(self._running, min(pause, _CHECK_S), FIRST_COMPLETED)
                self._collect(done)
                continue
            pause = remaining_s(wait_ms)
            if pause <= 0:
                return None
            self._context.wait(min(pause, max(self._next_due(), 0.001)))
        return None

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait_for([future for future in self._running if not future.cancelled()], _CLOSE_S)
        for pages in [*self._waiting, *self._running.values()]:
            pages.close()
        self._pool.shutdown(wait=all(future.done() for future in self._running))
        self._client.close()

    def _submit(self, now: int) -> None:
        """Requests the next pages of due shards."""
        for _ in range(len(self._waiting)):
            if len(self._running) + len(self._pages) >= self._plan.in_flight:
                return
            pages = self._waiting.popleft()
            if pages.due <= now:
                self._running[self._pool.submit(pages.page)] = pages
            else:
                self._waiting.append(pages)

    def _collect(self, done: set[Future[Page | None]]) -> None:
        failure: BaseException | None = None
        for future in done:
            pages = self._running.pop(future)
            error = future.exception()
            if error is not None:
                failure = error
                self._waiting.append(pages)
                continue
            page = future.result()
            if page is not None:
                self._pages.append(page)
            if pages.is_gone:
                continue
            if page is not None:
                self._waiting.appendleft(pages)
            else:
                self._waiting.append(pages)
        if failure is not None:
            raise failure

    def _next_due(self) -> float:
        """Seconds until the next shard is due."""
        if not self._waiting:
            return self._plan.poll_ms / 1000
        return (min(pages.due for pages in self._waiting) - self._clock()) / 1000

    def _polled(self, max_bytes: int) -> Polled:
        page = self._pages[0]
        rows = max(1, max_bytes // page.size)
        hits = page.hits
        if rows < len(hits):
            page.hits = hits[rows:]
            hits = hits[:rows]
        else:
            self._pages.popleft()
        return Polled(
            self._records(page, hits),
            self._offsets(page, hits[-1]),
            offsets_before=lambda count: self._offsets(page, hits[count - 1]),
        )

    def _offsets(self, page: Page, last: dict[str, Any]) -> Offsets:
        plan = self._plan
        position = reached(plan, last["sort"])
        return [SourceOffset(page.shard.partition, offset_of(plan, page.shard, position))]

    def _records(self, page: Page, hits: Sequence[dict[str, Any]]) -> Records:
        try:
            values: list[Any] = [hit["_source"] for hit in hits]
        except KeyError:
            raise PenstockError(
                f"Index '{page.shard.index}' does not store `_source`, so its documents cannot be "
                "read"
            ) from None
        schema = None
        if self._plan.format is Format.JSON:
            values = [orjson.dumps(value).decode() for value in values]
            schema = STRING
        timestamps = None
        if page.kind in DATES:
            timestamps = [in_ms(page.kind, hit["sort"][0]) for hit in hits]
        return Records.of(
            topic_of(self._plan.topic, page.shard.index),
            values,
            keys=[hit["_id"] for hit in hits],
            schema=schema,
            key_schema=STRING,
            timestamps=timestamps,
        )
