"""The ASGI application over the table of routes, and the server that runs it."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from penstock.config import worker as keys
from penstock.config.define import Config
from penstock.errors import PenstockError, StartupFailed
from penstock.rest.forward import Client
from penstock.rest.routes import ALWAYS, ROUTES, Answer, Call, HttpError, Route, error_of, ready
from penstock.worker import Worker

log = logging.getLogger(__name__)

_METHODS: Final = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]
_STOP_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Context:
    """What requests are served with; a value of the application, not of the module."""

    worker: Worker
    client: Client


def application(context: Context) -> Starlette:
    """Every request goes through one door, which looks it up in the table."""

    async def door(request: Request) -> Response:
        try:
            return await _serve(context, request)
        except Exception as error:
            status, code, message = error_of(error)
            if not isinstance(error, HttpError | PenstockError):
                log.exception("%s %s failed", request.method, request.url.path)
            return _response(Answer(status, {"error_code": code, "message": message}))

    return Starlette(routes=[StarletteRoute("/{path:path}", door, methods=_METHODS)])


async def _serve(context: Context, request: Request) -> Response:
    raw = request.scope.get("raw_path", request.url.path.encode()).split(b"?")[0].decode("latin-1")
    segments = [part for part in raw.strip("/").split("/") if part] if raw.strip("/") else []
    matching = [(row, params) for row in ROUTES if (params := row.match(segments)) is not None]
    if not matching:
        raise HttpError(404, "HTTP 404 Not Found")
    if request.method == "OPTIONS":
        return Response(status_code=200, headers={"Allow": _allowed(matching)})
    method = "GET" if request.method == "HEAD" else request.method
    row = next(((row, params) for row, params in matching if row.method == method), None)
    if row is None:
        raise HttpError(405, "HTTP 405 Method Not Allowed")
    route, params = row
    if route.takes_body and not _is_json(request):
        raise HttpError(415, "HTTP 415 Unsupported Media Type")
    call = Call(
        worker=context.worker,
        client=context.client,
        method=method,
        path=raw,
        params=params,
        query=parse_qs(request.url.query, keep_blank_values=True),
        headers=request.headers,
        body=await request.body(),
    )
    if route.handler not in ALWAYS:
        await ready(call)
    return _response(await route.handler(call))


def _allowed(matching: Sequence[tuple[Route, object]]) -> str:
    methods = [row.method for row, _ in matching]
    return ",".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").split(";")[0].strip() == "application/json"


def _response(answer: Answer) -> Response:
    if answer.body is None:
        return Response(status_code=answer.status, headers=dict(answer.headers))
    return Response(
        orjson.dumps(answer.body),
        status_code=answer.status,
        headers=dict(answer.headers),
        media_type="application/json",
    )


class Server:
    """Listens on the worker's `listeners`; bound when made, serving after `start`."""

    def __init__(self, config: Config) -> None:
        self._sockets = [_bind(listener) for listener in keys.listeners(config)]
        self.port = int(self._sockets[0].getsockname()[1])
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, context: Context) -> None:
        """Serves in a thread of its own; returns at once."""
        config = uvicorn.Config(
            application(context),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            loop="asyncio",
            http="h11",
            ws="none",
            timeout_graceful_shutdown=5,
        )
        server = uvicorn.Server(config)
        self._server = server
        self._thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(self._sockets)), name="rest", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops accepting, lets requests finish for a while, and ends."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_STOP_S)
        for each in self._sockets:
            each.close()


def _bind(listener: keys.Listener) -> socket.socket:
    if listener.protocol != "http":
        raise StartupFailed(
            "https listeners are not offered yet: give 'listeners' http:// addresses and put a "
            "TLS proxy in front."
        )
    family = socket.AF_INET6 if ":" in (listener.host or "") else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((listener.host or "", listener.port))
        bound.listen(128)
    except OSError as error:
        bound.close()
        shown = f"{listener.protocol}://{listener.host or ''}:{listener.port}"
        if error.errno == errno.EADDRINUSE:
            raise StartupFailed(
                f"Port {listener.port} is in use already; give 'listeners' another one than "
                f"{shown}."
            ) from error
        raise StartupFailed(
            f"Cannot listen on {shown}, which 'listeners' names: {error.strerror}."
        ) from error
    return bound
