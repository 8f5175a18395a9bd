"""Server-sent events (the HTML standard, section 9.2)."""

from __future__ import annotations

import asyncio
import logging
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.api import Header, SourceContext
from penstock.api.schema import STRING
from penstock.connectors.http.client.access import Client, ClientOptions
from penstock.connectors.http.client.auth import Auth
from penstock.connectors.http.client.messages import Headers, Refused, Request, Unreachable
from penstock.connectors.http.live.inbox import Message
from penstock.connectors.http.live.stream import StreamReader, pause_ms

log = logging.getLogger(__name__)

_BUSY: Final = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `id` is the last one in the stream so far."""

    data: str
    kind: str = "message"
    id: str = ""


class EventParser:
    """Parses events from the pieces of a stream.

    >>> parser = EventParser(1_000)
    >>> list(parser.feed(b"id: 1\\nevent: tick\\nda"))
    []
    >>> list(parser.feed(b"ta: a\\r\\ndata: b\\n\\n"))
    [Event(data='a\\nb', kind='tick', id='1')]
    """

    def __init__(self, max_bytes: int, last_id: str = "") -> None:
        self.retry_ms: int | None = None
        self._max_bytes = max_bytes
        self._rest = b""
        self._begun = False
        self._data: list[str] = []
        self._size = 0
        self._kind = ""
        self._id = last_id

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that a piece completes. Raises Refused for one over the size limit."""
        text = self._rest + piece
        if not self._begun:
            if len(text) < len(BOM_UTF8) and BOM_UTF8.startswith(text):
                self._rest = text
                return
            text = text.removeprefix(BOM_UTF8)
            self._begun = True
        # A final CR may be half of a line break.
        pending_cr = b"\r" if text.endswith(b"\r") else b""
        text = text[: len(text) - len(pending_cr)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._rest = rest + pending_cr
        if self._size + len(self._rest) > self._max_bytes:
            raise self._too_large()
        for line in lines:
            if event := self._line(line):
                yield event

    def _line(self, line: bytes) -> Event | None:
        if not line:
            event = Event("\n".join(self._data), self._kind or "message", self._id)
            is_event = bool(self._data)
            self._data, self._kind, self._size = [], "", 0
            return event if is_event else None
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
                self._size += len(line)
                if self._size > self._max_bytes:
                    raise self._too_large()
            case "event":
                self._kind = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isdecimal():
                self.retry_ms = int(value)
        return None

    def _too_large(self) -> Refused:
        return Refused(
            f"An event has more than {self._max_bytes:,} bytes: raise "
            "penstock.http.max.response.bytes"
        )


class EventReader(StreamReader):
    """Reads the events of one address; reconnects after the last event it has read."""

    def __init__(
        self,
        topic: str,
        url: str,
        headers: Headers,
        kinds: Sequence[str],
        options: ClientOptions,
        auth: Auth | None,
        context: SourceContext,
        *,
        buffer_bytes: int,
        reconnect_ms: int,
    ) -> None:
        super().__init__(topic, {"url": url}, context, buffer_bytes)
        self._url = url
        self._headers = headers
        self._kinds = frozenset(kinds)
        self._client = Client(options, auth)
        self._options = options
        self._reconnect_ms = reconnect_ms
        self._last_id = str(self._offset.get("id") or "")

    async def receive(self) -> None:
        tries = 0
        while True:
            last_id = self._last_id
            try:
                if not await self._read():
                    log.info("%s ended the event stream (204)", self._url)
                    return
            except Unreachable as error:
                log.warning("The event stream was interrupted: %s", error)
            tries = 1 if self._last_id != last_id else tries + 1
            await asyncio.sleep(pause_ms(self._reconnect_ms, tries) / 1000)

    async def _read(self) -> bool:
        """Reads one connection to its end; False if the server wants no reconnect."""
        request = Request("GET", self._url, self._headers).with_headers(
            ("Accept", "text/event-stream"), ("Cache-Control", "no-store")
        )
        if self._last_id:
            request = request.with_headers(("Last-Event-ID", self._last_id))
        async with self._client.stream(request) as (answer, pieces):
            if answer.status == 204:
                return False
            if answer.status in _BUSY or answer.status >= 500:
                raise Unreachable(f"GET {self._url}: {answer.summary()}")
            kind = answer.headers.get("content-type", "")
            if answer.status != 200:
                raise Refused(f"GET {self._url}: {answer.summary()}", answer.status)
            if not kind.startswith("text/event-stream"):
                raise Refused(
                    f"{self._url} responded with '{kind}' instead of events (text/event-stream): "
                    "check sse.url"
                )
            parser = EventParser(self._options.max_bytes, self._last_id)
            async for piece in pieces:
                for event in parser.feed(piece):
                    self._last_id = event.id
                    if not self._kinds or event.kind in self._kinds:
                        await self._inbox.put(_message(event))
                if parser.retry_ms is not None:
                    self._reconnect_ms = parser.retry_ms
        return True

    async def release(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self._client.close()


def _message(event: Event) -> Message:
    return Message(
        event.data,
        event.id or None,
        {"id": event.id},
        (Header("event", event.kind, STRING),),
    )
