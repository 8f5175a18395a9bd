"""The reader of a polling source."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from penstock.api import (
    DataError,
    Polled,
    Primitive,
    SourceContext,
    SourceOffset,
    SourceReader,
    Unavailable,
)
from penstock.connectors.common.loops import Loop
from penstock.connectors.http.client.access import Client, ClientOptions
from penstock.connectors.http.client.auth import Auth
from penstock.connectors.http.client.messages import (
    Answer,
    Headers,
    Refused,
    Request,
    Unreachable,
    retry_after_ms,
)
from penstock.connectors.http.read.dates import millis, moment_of
from penstock.connectors.http.read.pages import following, with_parameter
from penstock.connectors.http.read.plan import Direction, Paging, SourcePlan
from penstock.connectors.http.read.records import (
    Fresh,
    Item,
    Unreadable,
    document_of,
    items_of,
    ordered,
    records_of,
)
from penstock.connectors.http.read.timer import Rate, Timer

log = logging.getLogger(__name__)

_BUSY = frozenset({408, 429, 500, 502, 503, 504})


class _Round:
    """One round of requests: the pages of a response."""

    def __init__(self, first: Request, fresh: Fresh) -> None:
        self.first = first
        self.request: Request | None = first
        self.fresh = fresh
        self.number = 0
        self.gathered: list[Item] = []


class HttpReader(SourceReader):
    """Polls a server for records after the offset. Completes all pages of a response before the
    next round of requests."""

    idle_ms = 0

    def __init__(
        self,
        plan: SourcePlan,
        options: ClientOptions,
        auth: Auth | None,
        context: SourceContext,
        clock: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._plan = plan
        self._context = context
        self._clock = clock
        self._loop = Loop(f"http-{context.task}")
        self._client = Client(options, auth)
        stored = context.stored_offset({})
        self._offset: Mapping[str, Any] = stored if stored else dict(plan.initial)
        self._queue: deque[Item] = deque()
        self._round: _Round | None = None
        self._timer = Timer(plan.interval_ms, plan.catchup_ms)
        self._rate = Rate(plan.per_second)
        self._validators: tuple[str, Headers] | None = None
        self._round_validators: tuple[str, Headers] | None = None

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        deadline = self._clock() + wait_ms
        has_fetched = False
        while not self._queue:
            if self._round is None and has_fetched and self._clock() >= deadline:
                return None
            if self._round is None and not self._wait(self._timer.due, deadline):
                return None
            if not self._context.is_running or not self._fetch(deadline):
                return None
            has_fetched = True
        return self._next(max_bytes)

    def close(self) -> None:
        self._loop.run(self._client.close())
        self._loop.close()

    def _wait(self, until: int, deadline: int) -> bool:
        """Waits until a time; False if the poll or the task ends first."""
        while (now := self._clock()) < until:
            if now >= deadline or self._context.wait((min(until, deadline) - now) / 1000):
                return False
        return self._context.is_running

    def _next(self, max_bytes: int) -> Polled:
        """The next queued records."""
        items: list[Item] = []
        size = 0
        while self._queue and (not items or size < max_bytes):
            item = self._queue.popleft()
            items.append(item)
            size += len(item.value) + 2 * len(item.key) + 100
        self._offset = items[-1].offset
        stored: dict[str, Primitive] = dict(items[-1].offset)
        if not self._queue and self._round is None:
            self._validators = self._round_validators
        return Polled(
            records_of(self._plan, items),
            (SourceOffset({}, stored),),
            offsets_before=lambda count: (SourceOffset({}, dict(items[count - 1].offset)),),
        )

    def _fetch(self, deadline: int) -> bool:
        """Requests a page. False if the poll ends before the rate limit allows it."""
        self._rate, wait = self._rate.asked(self._clock())
        if wait and not self._wait(self._clock() + wait, max(deadline, self._clock() + wait)):
            return False
        if self._round is None:
            self._round = _Round(self._first(), Fresh(self._plan.records.filter, self._offset))
            self._round_validators = None
        current = self._round
        assert current.request is not None
        request = current.request
        try:
            answer = self._loop.run(self._client.send(request))
        except Unreachable:
            self._round = None
            self._timer = self._timer.put_off(self._clock() + self._plan.backoff_ms)
            raise
        if not self._is_read(request, answer):
            self._end()
            return True
        document = document_of(answer)
        items = items_of(self._plan.records, answer, document, self._clock())
        direction = self._plan.records.direction
        if self._plan.pages.kind is Paging.NONE or direction is Direction.ASC:
            self._queue += current.fresh.of(ordered(direction, items))
        else:  # the oldest record may be on the last page
            current.gathered += items
        current.number += 1
        if current.number == 1:
            self._remember(request, answer)
        following_page = following(
            self._plan.pages, current.first, request, answer, document, current.number, len(items)
        )
        log.debug("%s: %d records, %d new", request.url, len(items), len(self._queue))
        if following_page is None:
            self._end()
        else:
            self._round_validators = None  # the first page may be unchanged when a later one is not
            current.request = following_page
        return True

    def _end(self) -> None:
        """Ends the round."""
        current, self._round = self._round, None
        if current is not None and current.gathered:
            direction = self._plan.records.direction
            self._queue += current.fresh.of(ordered(direction, current.gathered))
        newest = self._queue[-1].timestamp if self._queue else self._latest()
        self._timer = self._timer.polled(self._clock(), newest)
        if not self._queue:
            self._validators = self._round_validators or self._validators

    def _latest(self) -> int | None:
        text = self._offset.get("timestamp")
        try:
            return None if text is None else millis(moment_of(str(text)))
        except ValueError:
            return None

    def _is_read(self, request: Request, answer: Answer) -> bool:
        """Whether to read records from a response. Raises for a failure."""
        plan = self._plan
        if answer.status == 304 and self._validators is not None:
            return False
        if answer.status in plan.process:
            return True
        if answer.status in plan.skip:
            log.warning("Skipping %s: %s", request.url, answer.summary())
            return False
        self._round = None
        text = f"{request.method} {request.url}: {answer.summary()}"
        if answer.status in _BUSY:
            pause = max(retry_after_ms(answer.headers) or 0, plan.backoff_ms)
            self._timer = self._timer.put_off(self._clock() + pause)
            raise Unavailable(text)
        raise Refused(
            f"{text}. To skip this status, add it to http.response.policy.codes.skip.",
            answer.status,
        )

    def _remember(self, request: Request, answer: Answer) -> None:
        if not self._plan.request.conditional or request.method != "GET":
            return
        validators: list[tuple[str, str]] = []
        if tag := answer.headers.get("etag"):
            validators.append(("If-None-Match", tag))
        if modified := answer.headers.get("last-modified"):
            validators.append(("If-Modified-Since", modified))
        self._round_validators = (request.url, tuple(validators)) if validators else None

    def _first(self) -> Request:
        """The first request of a round."""
        plan, offset = self._plan.request, self._offset
        try:
            url = plan.url.render(offset)
            params = plan.params.render(offset)
            headers = _pairs(plan.headers.render(offset))
            body = plan.body.render(offset)
        except DataError as error:
            raise Unreadable(str(error)) from error
        if params:
            pairs = [tuple(param.split("=", 1)) for param in params.split("&") if "=" in param]
            mark = "&" if "?" in url else "?"
            url += mark + urlencode([(name.strip(), value.strip()) for name, value in pairs])
        pages = self._plan.pages
        if pages.kind is Paging.PAGE:
            url = with_parameter(url, pages.parameter, str(pages.first))
        if self._validators is not None and self._validators[0] == url:
            headers += self._validators[1]
        return Request(plan.method, url, headers, body.encode() or None)


def _pairs(text: str) -> Headers:
    """Parses headers `name:value` separated by commas; a backslash escapes a comma."""
    headers: list[tuple[str, str]] = []
    for entry in re.split(r"(?<!\\),", text):
        name, colon, value = entry.partition(":")
        if colon:
            headers.append((name.strip(), value.strip().replace("\\,", ",")))
    return tuple(headers)
