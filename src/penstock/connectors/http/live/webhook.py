"""A webhook: incoming requests become records, and are answered when these are in Kafka."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import ssl
import sys
import time
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import orjson

from penstock.api import Header, Offsets, Polled, SourceContext, Unavailable
from penstock.api.schema import STRING, Value
from penstock.api.settings import Secret
from penstock.connectors.common.paths import MISSING
from penstock.connectors.http.live.inbox import Message
from penstock.connectors.http.live.stream import StreamReader
from penstock.connectors.http.pointers import Pointer, plain

log = logging.getLogger(__name__)

_NAMES: Final = {"sha1": hashlib.sha1, "sha256": hashlib.sha256, "sha512": hashlib.sha512}


class Access(Enum):
    """How incoming requests are authenticated."""

    NONE = "none"
    BASIC = "basic"
    BEARER = "bearer"
    HMAC = "hmac"


class Format(Enum):
    """The type of the value that a body becomes."""

    STRING = "string"
    JSON = "json"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class HookPlan:
    """Where a webhook listens, and how it handles requests. Times in ms."""

    topic: str
    host: str
    port: int
    path: str
    access: Access
    user: str = ""
    secret: Secret = field(default_factory=lambda: Secret(""))
    signature_header: str = "X-Hub-Signature-256"
    algorithm: str = "sha256"
    format: Format = Format.STRING
    key_header: str = ""
    key: Pointer | None = None
    copied: Mapping[str, str] = field(default_factory=dict)  # by names in lower case
    max_bytes: int = 1 << 20
    most: int = 1_000  # pending requests
    timeout_ms: int = 30_000
    retry_after_s: int = 1
    tls: ssl.SSLContext | None = None


class HookReader(StreamReader):
    """Listens on a port. Requests that are not in Kafka when the task ends get no 2xx, so that
    their senders repeat them."""

    def __init__(self, plan: HookPlan, context: SourceContext) -> None:
        super().__init__(plan.topic, {"webhook": plan.path}, context, sys.maxsize)
        self._plan = plan
        self._number = int(self._offset.get("received") or 0)
        self._waiting: deque[tuple[int, asyncio.Future[bool]]] = deque()
        self._runner: Any = None

    async def receive(self) -> None:
        from aiohttp import web

        plan = self._plan
        app = web.Application(client_max_size=plan.max_bytes)
        app.router.add_route("*", plan.path, self._answer)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        site = web.TCPSite(runner, plan.host, plan.port, ssl_context=plan.tls)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise Unavailable(
                f"Cannot listen at {plan.host}:{plan.port} ({error.strerror or error}): check "
                "webhook.host and webhook.port; only one task can listen at a port"
            ) from error
        self._runner = runner
        await asyncio.Event().wait()

    def committed(self, offsets: Offsets) -> None:
        for source_offset in offsets:
            if source_offset.partition == self._partition and source_offset.offset is not None:
                self._loop.call(self._confirm, int(str(source_offset.offset["received"])))

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        polled = super().poll(max_bytes, wait_ms)
        if polled is not None:
            self._context.request_commit()
        return polled

    async def release(self) -> None:
        for _, confirmation in self._waiting:
            if not confirmation.done():
                confirmation.set_result(False)
        if self._runner is not None:
            await self._runner.cleanup()

    def _confirm(self, number: int) -> None:
        while self._waiting and self._waiting[0][0] <= number:
            confirmation = self._waiting.popleft()[1]
            if not confirmation.done():
                confirmation.set_result(True)

    async def _answer(self, request: Any) -> Any:
        from aiohttp import web

        plan = self._plan
        if request.method not in ("POST", "PUT"):
            return web.Response(status=405, headers={"Allow": "POST, PUT"})
        if len(self._waiting) >= plan.most:
            return self._retry_later(web)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, text=f"more than {plan.max_bytes} bytes")
        if not self._is_authenticated(request.headers, body):
            kind = {Access.BASIC: "Basic", Access.BEARER: "Bearer"}.get(plan.access, "HMAC")
            return web.Response(status=401, headers={"WWW-Authenticate": kind})
        try:
            value = self._value(body)
        except ValueError:
            return web.Response(status=400, text="the body is not JSON")
        if len(self._waiting) >= plan.most:
            return self._retry_later(web)
        self._number += 1
        confirmation: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._number, confirmation))
        await self._inbox.put(self._message(request.headers, body, value, self._number))
        try:
            stored = await asyncio.wait_for(asyncio.shield(confirmation), plan.timeout_ms / 1000)
        except TimeoutError:
            log.warning("A webhook request was not stored in Kafka within %d ms", plan.timeout_ms)
            return self._retry_later(web)
        return web.Response(status=200) if stored else self._retry_later(web)

    def _retry_later(self, web: Any) -> Any:
        return web.Response(status=503, headers={"Retry-After": str(self._plan.retry_after_s)})

    def _is_authenticated(self, headers: Mapping[str, str], body: bytes) -> bool:
        plan = self._plan
        secret = plan.secret.value
        authorization = headers.get("Authorization", "")
        match plan.access:
            case Access.NONE:
                return True
            case Access.BASIC:
                pair = b64encode(f"{plan.user}:{secret}".encode()).decode()
                return _same(authorization, f"Basic {pair}")
            case Access.BEARER:
                return _same(authorization, f"Bearer {secret}")
        signature = headers.get(plan.signature_header, "")
        digest = signature.removeprefix(f"{plan.algorithm}=")
        expected = hmac.new(secret.encode(), body, _NAMES[plan.algorithm])
        return _same(digest.lower(), expected.hexdigest()) or _same(
            digest, b64encode(expected.digest()).decode()
        )

    def _value(self, body: bytes) -> Value:
        if self._plan.format is Format.BYTES:
            return body
        if self._plan.format is Format.JSON:
            document: Value = orjson.loads(body)
            return document
        return body.decode("utf-8", "replace")

    def _message(
        self, headers: Mapping[str, str], body: bytes, value: Value, number: int
    ) -> Message:
        plan = self._plan
        key: str | None = headers.get(plan.key_header) if plan.key_header else None
        if plan.key is not None:
            try:
                document = value if plan.format is Format.JSON else orjson.loads(body)
                node = plan.key.find(document)
            except orjson.JSONDecodeError:
                node = MISSING
            key = None if node is MISSING else plain(node)
        copied_headers = tuple(
            Header(plan.copied[name.lower()], text, STRING)
            for name, text in headers.items()
            if name.lower() in plan.copied
        )
        return Message(value, key, {"received": number}, copied_headers, int(time.time() * 1000))


def _same(actual: str, expected: str) -> bool:
    return hmac.compare_digest(actual.encode("utf-8", "replace"), expected.encode())
