"""The ASGI application over the table of routes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response as HttpResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.config.listeners import Listener
from penstock.config.redaction import redacted
from penstock.data.java_maps import hash_map_order
from penstock.errors import PenstockError
from penstock.rest import openapi
from penstock.rest.call import Call, HttpError, Response, Unroutable, error_of
from penstock.rest.forward import Client
from penstock.rest.operations import ready
from penstock.rest.routes import ALWAYS, ROUTES, Route
from penstock.runtime.worker import Worker

log = logging.getLogger(__name__)

_JSON: Final = "application/json"
_PASS_OVER_BYTES: Final = 16 << 20
_PASS_OVER_S: Final = 1.0
_ABSOLUTE: Final = re.compile(r"^https?://[^/]*", re.IGNORECASE)
"""The absolute form of a request target, which a server must accept too (RFC 9112, 3.2.2)."""
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MEDIA_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~\w-]+/[!#$%&'*+.^_`|~\w-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Context:
    """What handlers use; a value of the application, not of the module."""

    worker: Worker
    client: Client


def main_routes(admin: Sequence[Listener] | None) -> tuple[Route, ...]:
    """The routes of the main listeners, with the admin endpoints only if `admin.listeners` is
    unset: with its own listeners, or an empty list, they are not here."""
    return ROUTES if admin is None else tuple(row for row in ROUTES if not row.admin)


def admin_routes() -> tuple[Route, ...]:
    """The routes of the admin listeners."""
    return tuple(row for row in ROUTES if row.admin)


def application(context: Context, routes: Sequence[Route] = ROUTES) -> ASGIApp:
    """One handler looks up every request in the table, regardless of its path."""
    description = openapi.document(routes)

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await _serve(context, routes, description, request)
        except ClientDisconnect:
            return  # the client has disconnected while sending its body
        except Exception as error:
            status, code, message = error_of(error)
            if not isinstance(error, HttpError | PenstockError):
                log.exception("%s %s failed", request.method, request.url.path)
            body = {"error_code": code, "message": redacted(message)}
            response = _response(Response(status, body), typed=not isinstance(error, Unroutable))
        if "expect" not in request.headers:
            await _pass_over(request)
        await response(scope, receive, send)

    return door


async def _pass_over(request: Request) -> None:
    """Reads an unwanted body, up to a limit: closing the connection before the client has sent
    everything could lose the response."""
    passed = 0
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(_PASS_OVER_S):
            async for part in request.stream():  # includes what was read already
                passed += len(part)
                if passed >= _PASS_OVER_BYTES:
                    return


async def _serve(
    context: Context,
    routes: Sequence[Route],
    description: Mapping[str, object],
    request: Request,
) -> HttpResponse:
    raw = request.scope.get("raw_path", request.url.path.encode()).split(b"?")[0].decode("latin-1")
    raw = _ABSOLUTE.sub("", raw)
    if "//" in raw or _BAD_ESCAPE.search(raw):
        raise HttpError(400, "The path has an empty segment or a '%' that is not an escape")
    segments = raw.strip("/").split("/") if raw.strip("/") else []
    matching = [(row, params) for row in routes if (params := row.match(segments)) is not None]
    if not matching:
        raise Unroutable(404, "HTTP 404 Not Found")
    if request.method == "OPTIONS":
        allowed = _allowed([row for row, _ in matching])
        headers = {"Allow": ",".join(allowed), "Content-Type": "text/plain"}
        return HttpResponse(", ".join(allowed), headers=headers)
    method = "GET" if request.method == "HEAD" else request.method
    row = next(((row, params) for row, params in matching if row.method == method), None)
    if row is None:
        raise Unroutable(405, "HTTP 405 Method Not Allowed")
    route, params = row
    body = await request.body()
    _check_media_types(route, request, body)
    call = Call(
        worker=context.worker,
        client=context.client,
        method=method,
        path=raw,
        params=params,
        query=parse_qs(request.url.query, keep_blank_values=True),
        headers=request.headers,
        body=body,
        scheme=request.url.scheme,
        description=description,
    )
    if route.handler not in ALWAYS:
        await ready(call)
    return _response(await route.handler(call))


def _allowed(matching: Sequence[Route]) -> list[str]:
    """The methods of a path, in the order in which a Kafka Connect worker lists them."""
    methods = [row.method for row in matching]
    return hash_map_order([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])


def _check_media_types(route: Route, request: Request, body: bytes) -> None:
    """Checks the media types of a request: its body is JSON and says so, and it accepts the route's
    response. Only a request without a body needs no Content-Type."""
    content_type = request.headers.get("content-type")
    if content_type is None:
        if route.takes_body and body:
            raise HttpError(415, "HTTP 415 Unsupported Media Type")
    elif not _MEDIA_TYPE.match(content_type.strip()):
        raise HttpError(400, f"The Content-Type '{content_type}' is not a media type")
    elif _media_type(content_type) != _JSON and not route.any_type:
        raise Unroutable(415, "HTTP 415 Unsupported Media Type")
    if not accepts(request.headers.get("accept", ""), _media_type(route.media)):
        raise Unroutable(406, "HTTP 406 Not Acceptable")


def accepts(accept: str, media: str = _JSON) -> bool:
    """Whether an `Accept` header accepts this media type; an empty one does."""
    ranges = [part.split(";") for part in accept.split(",") if part.strip()]
    acceptable = (media, f"{media.split('/')[0]}/*", "*/*")
    return not ranges or any(
        name.strip().lower() in acceptable and not _refused(parameters)
        for name, *parameters in ranges
    )


def _refused(parameters: Sequence[str]) -> bool:
    return any(re.fullmatch(r"\s*q=0(\.0*)?\s*", parameter) for parameter in parameters)


def _media_type(text: str) -> str:
    return text.split(";")[0].strip().lower()


def _response(answer: Response, *, typed: bool = True) -> HttpResponse:
    headers: Mapping[str, str] = answer.headers
    if answer.body is None:
        return HttpResponse(status_code=answer.status, headers=dict(headers))
    if isinstance(answer.body, bytes):  # other media types are set by the handler
        return HttpResponse(answer.body, status_code=answer.status, headers=dict(headers))
    if typed:
        headers = {**headers, "Content-Type": _JSON}
    return HttpResponse(orjson.dumps(answer.body), status_code=answer.status, headers=dict(headers))
