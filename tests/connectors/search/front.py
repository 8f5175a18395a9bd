"""Servers in front of a cluster: one may answer in its place, perhaps with TLS; and a proxy."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

import orjson

from tests.servers.certificates import Authority
from tests.servers.search import SearchServer

_PASSED: Final = ("content-type", "content-encoding", "accept")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `bulk`: the number of a bulk request, from 0 on; None for others."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    bulk: int | None


class _Serving:
    """An HTTP server with a thread per connection."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients hang up
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Front:
    """Forwards requests, except where `answer` has a status; refuses the actions of bulk requests
    for the ids in `forbidden`, as a security filter does."""

    def __init__(
        self,
        server: SearchServer,
        answer: Callable[[Asked], int | None] = lambda asked: None,
        *,
        forbidden: Collection[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        numbers = count()
        self.asked: list[Asked] = []
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                bulk = next(numbers) if "_bulk" in self.path else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body, bulk)
                front.asked.append(asked)
                status = answer(asked)
                if status is None and bulk is not None and forbidden:
                    status, data = _filtered(asked, server.port, forbidden)
                elif status is None:
                    status, data = _forwarded(asked, server.port)
                else:
                    reason = {"type": "es_rejected_execution_exception", "reason": "full"}
                    data = orjson.dumps({"error": reason, "status": status})
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

            def log_message(self, format: str, *arguments: object) -> None:
                return None

        self._serving = _Serving(Handler, tls)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._serving.port}"

    @property
    def sent(self) -> int:
        """The number of bulk requests."""
        return sum(asked.bulk is not None for asked in self.asked)

    def __enter__(self) -> Front:
        self._serving.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._serving.close()


def _forwarded(asked: Asked, port: int) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {name: asked.headers[name] for name in _PASSED if name in asked.headers}
    try:
        connection.request(asked.method, asked.path, asked.body, headers)
        got = connection.getresponse()
        return got.status, got.read()
    finally:
        connection.close()


def _filtered(asked: Asked, port: int, forbidden: Collection[str]) -> tuple[int, bytes]:
    """Forwards a bulk request without the actions that are forbidden, which are refused."""
    passed, refused = b"", {}
    lines, position = iter(asked.body.splitlines(keepends=True)), 0
    for line in lines:
        [(operation, metadata)] = orjson.loads(line).items()
        action = line if operation == "delete" else line + next(lines)
        if metadata.get("_id") in forbidden:
            reason = {"type": "security_exception", "reason": "action is unauthorized"}
            refused[position] = {operation: {**metadata, "status": 403, "error": reason}}
        else:
            passed += action
        position += 1
    answer: dict[str, Any] = {"took": 1, "errors": False, "items": []}
    if passed:
        status, data = _forwarded(replace(asked, body=passed), port)
        if status != 200:
            return status, data
        answer = orjson.loads(data)
    items = iter(answer["items"])
    answer["items"] = [refused.get(at) or next(items) for at in range(position)]
    answer["errors"] = answer["errors"] or bool(refused)
    return 200, orjson.dumps(answer)


class HttpProxy:
    """A proxy for http and https, which requires these credentials, if any."""

    def __init__(self, credentials: str = "") -> None:
        self.targets: list[str] = []
        proxy = self
        wanted = f"Basic {base64.b64encode(credentials.encode()).decode()}" if credentials else None

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _refused(self) -> bool:
                if wanted is None or self.headers.get("Proxy-Authorization") == wanted:
                    return False
                self.send_response(407)
                self.send_header("content-length", "0")
                self.end_headers()
                return True

            def do_CONNECT(self) -> None:
                if self._refused():
                    return
                proxy.targets.append(self.path)
                host, _, port = self.path.rpartition(":")
                with socket.create_connection((host, int(port))) as other:
                    self.send_response(200)
                    self.end_headers()
                    _join(self.connection, other)
                self.close_connection = True

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self._refused():
                    return
                parts = urlsplit(self.path)
                proxy.targets.append(parts.netloc)
                path = parts.path + (f"?{parts.query}" if parts.query else "")
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, data = _forwarded(
                    Asked(self.command, path, headers, body, None), parts.port or 80
                )
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

            def log_message(self, format: str, *arguments: object) -> None:
                return None

        self._serving = _Serving(Handler, None)
        self.port = self._serving.port

    def __enter__(self) -> HttpProxy:
        self._serving.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._serving.close()


def _join(one: socket.socket, other: socket.socket) -> None:
    """Passes bytes between two connections until one ends."""
    while True:
        ready, _, _ = select.select([one, other], [], [], 60)
        if not ready:
            return
        for source in ready:
            data = source.recv(65_536)
            if not data:
                return
            (other if source is one else one).sendall(data)


def server_tls(
    authority: Authority, folder: Path, host: str = "127.0.0.1", *, clients: bool = False
) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate for this host; `clients` need one, too."""
    folder.mkdir(exist_ok=True)
    pem = folder / f"{host}.pem"
    pem.write_text(authority.issue("server", host).pem())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.pem())
    return context


def is_signed(asked: Asked, secret: str) -> bool:
    """Whether a request has the signature (SigV4) that this secret makes of it."""
    given = asked.headers.get("authorization", "")
    kind, _, rest = given.partition(" ")
    if kind != "AWS4-HMAC-SHA256":
        return False
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    _, day, region, service, _ = parts["Credential"].split("/")
    names = parts["SignedHeaders"].split(";")
    path, _, query = asked.path.partition("?")
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join(
        [
            asked.method,
            quote(path),
            "&".join(
                f"{quote(name, safe='-_.~')}={quote(text, safe='-_.~')}" for name, text in pairs
            ),
            *(f"{name}:{' '.join(asked.headers[name].split())}" for name in names),
            "",
            ";".join(names),
            hashlib.sha256(asked.body).hexdigest(),
        ]
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join(
        [
            kind,
            asked.headers["x-amz-date"],
            scope,
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), parts["Signature"])
