"""Messages of a WebSocket (RFC 6455)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from penstock.api import DataError, SourceContext
from penstock.connectors.common.paths import MISSING
from penstock.connectors.http.client.auth import Fixed
from penstock.connectors.http.client.messages import Headers, Refused, Request
from penstock.connectors.http.live.inbox import Message
from penstock.connectors.http.live.stream import StreamReader, pause_ms
from penstock.connectors.http.pointers import Pointer, plain
from penstock.connectors.http.read.freemarker import OffsetTemplate

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SocketPlan:
    """The address to connect to, and how messages become records. Times in ms."""

    topic: str
    url: str
    headers: Headers
    subscribe: Sequence[OffsetTemplate]
    offset: Pointer | None
    key: Pointer | None
    protocols: Sequence[str]
    max_bytes: int
    buffer_bytes: int
    reconnect_ms: int
    connect_ms: int
    ping_ms: int
    tls: ssl.SSLContext | None = None


class SocketReader(StreamReader):
    """Receives messages from one address. Messages sent while it is disconnected are lost, unless
    the server repeats them from an offset in the subscription."""

    def __init__(self, plan: SocketPlan, auth: Fixed | None, context: SourceContext) -> None:
        super().__init__(plan.topic, {"url": plan.url}, context, plan.buffer_bytes)
        self._plan = plan
        self._auth = auth
        self._received = int(self._offset.get("received") or 0)
        self._last: dict[str, Any] = dict(self._offset)

    async def receive(self) -> None:
        from websockets.exceptions import InvalidStatus, WebSocketException

        tries = 0
        while True:
            received = self._received
            try:
                await self._read()
            except InvalidStatus as error:
                status = error.response.status_code
                if status < 500 and status not in (408, 429):
                    raise Refused(
                        f"{self._plan.url} responded with HTTP {status}", status
                    ) from error
                log.warning("%s responded with HTTP %d", self._plan.url, status)
            except ssl.SSLError as error:
                raise Refused(f"TLS with {self._plan.url} failed: {error}") from error
            except (WebSocketException, OSError, TimeoutError) as error:
                log.warning("The WebSocket of %s was interrupted: %s", self._plan.url, error)
            tries = 1 if self._received != received else tries + 1
            await asyncio.sleep(pause_ms(self._plan.reconnect_ms, tries) / 1000)

    async def _read(self) -> None:
        from websockets.asyncio.client import connect
        from websockets.typing import Subprotocol

        plan = self._plan
        request = Request("GET", plan.url, plan.headers)
        if self._auth is not None:
            request = self._auth.applied(request)
        options: dict[str, Any] = {}
        if plan.url.startswith("wss:") and plan.tls is not None:
            options["ssl"] = plan.tls
        async with connect(
            request.address,
            additional_headers=list(request.headers),
            subprotocols=[Subprotocol(protocol) for protocol in plan.protocols] or None,
            max_size=plan.max_bytes,
            open_timeout=plan.connect_ms / 1000,
            ping_interval=plan.ping_ms / 1000 or None,
            ping_timeout=plan.ping_ms / 1000 or None,
            proxy=None,
            **options,
        ) as socket:
            for template in plan.subscribe:
                try:
                    await socket.send(template.render(self._last))
                except DataError as error:
                    raise Refused(f"websocket.subscribe: {error}") from error
            async for received in socket:
                await self._inbox.put(self._message(received))

    def _message(self, received: str | bytes) -> Message:
        plan = self._plan
        self._received += 1
        offset: dict[str, Any] = {"received": self._received}
        key = None
        if plan.offset is not None or plan.key is not None:
            try:
                document = orjson.loads(received)
            except orjson.JSONDecodeError:
                document = None  # a message of another kind, such as a greeting
            if plan.key is not None:
                node = plan.key.find(document)
                key = None if node is MISSING else plain(node)
            if plan.offset is not None:
                node = plan.offset.find(document)
                if node is MISSING or node is None:
                    if "id" in self._last:
                        offset["id"] = self._last["id"]
                else:
                    offset["id"] = plain(node)
        self._last = offset
        return Message(received, key, offset)
