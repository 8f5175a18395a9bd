"""An HTTP server for tests, in its own process on loopback: it stores requests, and fails, waits,
limits, authenticates, pages and streams, depending on the path.

| path | answers |
|---|---|
| `/take/NAME` | 200, and stores the request |
| `/status/CODE/NAME` | that status, and stores the request |
| `/flaky/N/CODE/NAME` | CODE to the first N requests (`Retry-After: ?after=`), then as `/take` |
| `/refuse/WORD/NAME` | 422 to bodies that contain the word, else as `/take` |
| `/gate/NAME` | 422 to bodies that contain a word given to `refuse`, else as `/take` |
| `/slow/MS/NAME` | as `/take`, later |
| `/limited/N/NAME` | 429 with `Retry-After: 1` beyond N requests in a second |
| `/basic/NAME`, `/bearer/NAME`, `/key/NAME` | 401 without `me:secret`, a token, `X-Key: k` |
| `/token` | an access token, to the client `id` with `secret`; 401 to a word given to `refuse` |
| `/large/BYTES`, `/packed/BYTES` | this number of bytes, plain or compressed |
| `/items/NAME` | added items: all, or `?after=ID`, in pages of `?limit=` |
| `/etag/NAME` | all, with `ETag`; 304 if it matches |
| `/endless` | a page that names itself as the next |
| `/events/NAME` | added items, as server-sent events after `Last-Event-ID` |
| `/socket/NAME` | the same as messages of a WebSocket, after the first message `{"after": ID}` |

As a program it serves on a port: `python -m tests.servers.web PORT`.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import re
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import httpx
import orjson

from penstock.host.processes import Process
from penstock.kafka.broker import free_port
from penstock.testing.waiting import is_listening

_START_S: Final = 30.0
_STOP_S: Final = 10.0
_EVENT_S: Final = 0.02

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class WebServer:
    """The server, started with `start` or as a context manager; `stop` and `start` keep its port,
    not its requests and items."""

    def __init__(
        self, *, cert: Path | None = None, ca: Path | None = None, http2: bool = False
    ) -> None:
        """`cert`: a PEM file with key and certificates, for https. `ca`: clients need a certificate
        that it has issued."""
        self.port = free_port()
        scheme = "http" if cert is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._folder = TemporaryDirectory(prefix="penstock-web-")
        command = [sys.executable, "-m", "tests.servers.web", str(self.port)]
        command += ["http2" if http2 else "http1", str(cert or ""), str(ca or "")]
        self._process = Process(command, Path(self._folder.name) / "log", name="The web server")
        self._http = httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=30)
        self._needs_certificate = ca is not None

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        self._process.start()
        self._process.wait_for(self._answers, _START_S, "an answer of the web server")

    def _answers(self) -> bool:
        try:
            if self._needs_certificate:
                return is_listening(self.port)
            return self._http.get("/_ready").status_code == 200
        except (OSError, httpx.TransportError):
            return False

    def stop(self) -> None:
        """Kills it."""
        if self._process.alive:
            self._process.kill()

    def close(self) -> None:
        self._http.close()
        self.stop()
        self._process.stop(_STOP_S)
        self._folder.cleanup()

    def taken(self, name: str) -> list[dict[str, Any]]:
        """The requests of a name: `method`, `path`, `query`, `headers`, `body`, `at`, `version`."""
        requests: list[dict[str, Any]] = orjson.loads(self._http.get(f"/_taken/{name}").content)
        return requests

    def bodies(self, name: str) -> list[str]:
        """The bodies of `taken`."""
        return [request["body"] for request in self.taken(name)]

    def add(self, name: str, items: Sequence[Mapping[str, Any]]) -> None:
        """Adds items."""
        self._http.post(f"/_items/{name}", content=orjson.dumps(list(items)))

    def refuse(self, name: str, words: Sequence[str]) -> None:
        """From now on `/gate/NAME`, and `/token` for the name `token`, refuse bodies with one of
        these words; an empty list ends that."""
        self._http.post(f"/_refuse/{name}", content=orjson.dumps(list(words)))

    def forget_tokens(self) -> None:
        """Revokes every token."""
        self._http.post("/_revoke")

    def __enter__(self) -> WebServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Site:
    """The ASGI application."""

    def __init__(self) -> None:
        self.taken: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.items: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.failures: dict[str, int] = defaultdict(int)
        self.times: dict[str, list[float]] = defaultdict(list)
        self.tokens: set[str] = set()
        self.refused: dict[str, list[bytes]] = defaultdict(list)
        self.issued = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope["path"].split("/")[2], receive, send)
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        query = parse_qs(scope["query_string"].decode())
        path = re.sub("^https?://[^/]*", "", scope["path"])  # requests to a proxy have it
        steps = [unquote(step) for step in path.split("/")[1:]]
        if steps[0] == "events":
            await self._events(steps[1], headers, send, receive)
            return
        status, answered, content = await self._answer(scope, steps, headers, query, body)
        pairs = [(name.encode(), value.encode()) for name, value in answered.items()]
        pairs.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": content})

    def _take(self, name: str, scope: Scope, headers: dict[str, str], body: bytes) -> int:
        requests = self.taken[name]
        requests.append(
            {
                "method": scope["method"],
                "path": scope["path"],
                "query": scope["query_string"].decode(),
                "headers": headers,
                "body": body.decode("utf-8", "replace"),
                "at": time.monotonic(),
                "version": scope["http_version"],
            }
        )
        return len(requests)

    async def _answer(
        self,
        scope: Scope,
        steps: list[str],
        headers: dict[str, str],
        query: dict[str, list[str]],
        body: bytes,
    ) -> tuple[int, dict[str, str], bytes]:
        def take(name: str, status: int = 200) -> tuple[int, dict[str, str], bytes]:
            return status, {}, f'{{"taken":{self._take(name, scope, headers, body)}}}'.encode()

        match steps:
            case ["_ready"]:
                return 200, {}, b""
            case ["_taken", name]:
                return 200, {}, orjson.dumps(self.taken[name])
            case ["_items", name]:
                self.items[name] += orjson.loads(body)
                return 200, {}, b""
            case ["_refuse", name]:
                self.refused[name] = [word.encode() for word in orjson.loads(body)]
                return 200, {}, b""
            case ["_revoke"]:
                self.tokens.clear()
                return 200, {}, b""
            case ["take", name, *_]:
                return take(name)
            case ["status", code, name, *_]:
                return take(name, int(code))
            case ["flaky", most, code, name, *_]:
                if self.failures[name] < int(most):
                    self.failures[name] += 1
                    after = query.get("after")
                    return int(code), {"retry-after": after[0]} if after else {}, b"not now"
                return take(name)
            case ["refuse", word, name, *_]:
                if word.encode() in body:
                    return 422, {}, f"it has {word} in it".encode()
                return take(name)
            case ["gate", name, *_]:
                if any(word in body for word in self.refused[name]):
                    return 422, {}, b"it has a refused word in it"
                return take(name)
            case ["slow", ms, name, *_]:
                await asyncio.sleep(int(ms) / 1000)
                return take(name)
            case ["limited", most, name, *_]:
                now = time.monotonic()
                recent = [at for at in self.times[name] if at > now - 1]
                if len(recent) >= int(most):
                    return 429, {"retry-after": "1"}, b"too many"
                self.times[name] = [*recent, now]
                return take(name)
            case ["basic", name, *_]:
                pair = base64.b64encode(b"me:secret").decode()
                allowed = headers.get("authorization") == f"Basic {pair}"
                return take(name) if allowed else (401, {}, b"who?")
            case ["key", name, *_]:
                allowed = headers.get("x-key") == "k" or query.get("x-key") == ["k"]
                return take(name) if allowed else (401, {}, b"who?")
            case ["bearer", name, *_]:
                token = headers.get("authorization", "").removeprefix("Bearer ")
                return take(name) if token in self.tokens else (401, {}, b"who?")
            case ["token"]:
                return self._token(headers, body)
            case ["packed", size]:
                return 200, {"content-encoding": "gzip"}, gzip.compress(b"x" * int(size))
            case ["large", size]:
                return 200, {}, b"x" * int(size)
        return self._read(steps, headers, query, take)

    def _token(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        if any(word in body for word in self.refused["token"]):
            return 401, {}, b'{"error":"invalid_client"}'
        form = parse_qs(body.decode())
        pair = base64.b64encode(b"id:secret").decode()
        by_form = form.get("client_id") == ["id"] and form.get("client_secret") == ["secret"]
        if headers.get("authorization") != f"Basic {pair}" and not by_form:
            return 401, {}, b'{"error":"invalid_client"}'
        self.issued += 1
        token = f"token-{self.issued}"
        self.tokens.add(token)
        grant = {"access_token": token, "token_type": "bearer", "expires_in": 3600}
        return 200, {}, orjson.dumps(grant)

    def _read(
        self, steps: list[str], headers: dict[str, str], query: dict[str, list[str]], take: Any
    ) -> tuple[int, dict[str, str], bytes]:
        match steps:
            case ["items", name]:
                take(f"read-{name}")
                return self._items(name, query)
            case ["etag", name]:
                take(f"read-{name}")
                items = self.items[name]
                tag = f'"{len(items)}"'
                if headers.get("if-none-match") == tag:
                    return 304, {"etag": tag}, b""
                return 200, {"etag": tag}, orjson.dumps({"items": items})
            case ["endless"]:
                page = {"items": [{"id": 1, "time": 1}], "next": "/endless"}
                return 200, {}, orjson.dumps(page)
            case ["text"]:
                return 200, {}, b"<html>no JSON</html>"
        return 404, {}, b"no such path"

    def _items(self, name: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        def parameter(name: str, default: int) -> int:
            text = query.get(name, [""])[0]
            return int(text) if text.isdecimal() else default

        after = parameter("after", -1)
        items = [item for item in self.items[name] if item["id"] > after]
        limit = parameter("limit", 0)
        if not limit:
            return 200, {}, orjson.dumps({"items": items})
        start = parameter("cursor", (parameter("page", 1) - 1) * limit)
        page: dict[str, Any] = {"items": items[start : start + limit]}
        headers: dict[str, str] = {}
        if start + limit < len(items):
            url = f"/items/{name}?limit={limit}&cursor={start + limit}"
            url += f"&after={after}" if after >= 0 else ""
            page |= {"next": url, "cursor": str(start + limit)}
            headers["link"] = f'<{url}>; rel="next", </items>; rel="first"'
        return 200, headers, orjson.dumps(page)

    async def _socket(self, name: str, receive: Receive, send: Send) -> None:
        """Sends items after the one in the first message, until the client disconnects or an item
        has `end`."""
        await receive()
        await send({"type": "websocket.accept"})
        first = orjson.loads((await receive())["text"])
        self.taken[f"read-{name}"].append(first)
        after = int(first["after"])
        disconnected = asyncio.ensure_future(receive())
        while not disconnected.done():
            for item in [item for item in self.items[name] if item["id"] > after]:
                after = item["id"]
                await send({"type": "websocket.send", "text": orjson.dumps(item).decode()})
                if item.get("end"):
                    disconnected.cancel()
                    await send({"type": "websocket.close", "code": 1001})
                    return
            await asyncio.sleep(_EVENT_S)

    async def _events(
        self, name: str, headers: dict[str, str], send: Send, receive: Receive
    ) -> None:
        """Sends events until the client disconnects, or an item has `end`."""
        self.taken[f"read-{name}"].append({"headers": headers})
        kind = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        after = int(headers.get("last-event-id") or -1)
        disconnected = asyncio.ensure_future(receive())
        while not disconnected.done():
            for item in [item for item in self.items[name] if item["id"] > after]:
                after = item["id"]
                text = f"id: {after}\nevent: {item.get('event', 'message')}\n"
                text += "".join(f"data: {row}\n" for row in str(item["data"]).split("\n")) + "\n"
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                if item.get("end"):
                    await send({"type": "http.response.body", "body": b""})
                    disconnected.cancel()
                    return
            await asyncio.sleep(_EVENT_S)


def _serve(port: int, kind: str, cert: str, ca: str) -> None:
    site: Any = _Site()
    if kind == "http2":
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"127.0.0.1:{port}"]
        config.certfile = config.keyfile = cert or None
        asyncio.run(serve(site, config))
        return
    import uvicorn

    options: dict[str, Any] = {}
    if cert:
        options = {"ssl_certfile": cert, "ssl_keyfile": cert}
    if ca:
        options |= {"ssl_ca_certs": ca, "ssl_cert_reqs": 2}
    uvicorn.run(site, host="127.0.0.1", port=port, log_level="error", lifespan="off", **options)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), *sys.argv[2:5])
