"""An HTTP client: HTTP/1.1 by aiohttp, HTTP/2 by httpx (docs/decisions/0025). It repeats a request
only after an expired token; other retries are the caller's task."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from penstock.api import DataError, PenstockError
from penstock.api.settings import Secret
from penstock.connectors.http.client.auth import Auth, basic_header
from penstock.connectors.http.client.messages import (
    Answer,
    Refused,
    Request,
    TooLarge,
    Unreachable,
)

_PIECE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of connections. Times in ms; 0: no limit."""

    connect_ms: int = 30_000
    read_ms: int = 30_000
    connections: int = 10
    tls: ssl.SSLContext | None = None  # None: Python's default
    proxy: str | None = None
    proxy_user: str | None = None
    proxy_password: Secret | None = None
    http2: bool = False
    redirects: bool = False
    max_bytes: int = 64 << 20
    max_bytes_setting: str = "penstock.http.max.response.bytes"


class _Transport(Protocol):
    async def send(self, request: Request) -> Answer: ...

    async def close(self) -> None: ...


class Client:
    """A client for one event loop."""

    def __init__(self, options: ClientOptions, auth: Auth | None = None) -> None:
        self._options = options
        self._auth = auth
        self._transport: _Transport = _Http2(options) if options.http2 else _Http1(options)

    async def send(self, request: Request) -> Answer:
        """The response, with any status. Raises Unreachable without one, Refused if the server is
        not trusted, TooLarge, and DataError for an invalid request."""
        auth = self._auth
        if auth is None:
            return await self._transport.send(request)
        authenticated = await auth.apply(request, self._transport.send)
        answer = await self._transport.send(authenticated)
        if not auth.renews(answer.status):
            return answer
        auth.forget(authenticated)
        return await self._transport.send(await auth.apply(request, self._transport.send))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """A response with a streamed body: HTTP/1.1, without a time limit."""
        transport = self._transport
        assert isinstance(transport, _Http1)
        authenticated = request
        if self._auth is not None:
            authenticated = await self._auth.apply(request, transport.send)
        async with transport.stream(authenticated) as response:
            if self._auth is not None and self._auth.renews(response[0].status):
                self._auth.forget(authenticated)
            yield response

    async def close(self) -> None:
        await self._transport.close()


class _Http1:
    """HTTP/1.1."""

    def __init__(self, options: ClientOptions) -> None:
        import aiohttp
        import yarl

        self._aiohttp = aiohttp
        self._url = yarl.URL
        self._options = options
        self._extra: dict[str, Any] = {}
        if options.proxy:
            self._extra["proxy"] = options.proxy
            if options.proxy_user:
                # aiohttp sends it as Proxy-Authorization, with the request or its CONNECT.
                header = basic_header(options.proxy_user, options.proxy_password)
                self._extra["proxy_headers"] = {"Authorization": header}
        self._open: Any = None

    def _session(self) -> Any:
        if self._open is None:
            aiohttp, options = self._aiohttp, self._options
            self._open = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=options.connections, ssl=options.tls if options.tls is not None else True
                ),
                timeout=aiohttp.ClientTimeout(
                    total=options.read_ms / 1000 or None, connect=options.connect_ms / 1000 or None
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=True,
            )
        return self._open

    async def send(self, request: Request) -> Answer:
        try:
            async with self._session().request(
                request.method,
                self._url(request.address, encoded=True),
                data=request.body,
                headers=request.headers,
                allow_redirects=self._options.redirects,
                skip_auto_headers=("Content-Type", "User-Agent"),
                **self._extra,
            ) as response:
                return _answer(request, response, await self._body(request, response))
        except (self._aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise self._error_of(request, error) from error

    async def _body(self, request: Request, response: Any) -> bytes:
        most = self._options.max_bytes
        is_plain = "Content-Encoding" not in response.headers  # compressed bodies grow
        if is_plain and response.content_length is not None and response.content_length <= most:
            body: bytes = await response.read()
            if len(body) <= most:
                return body
            raise _too_large(request, self._options)
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_chunked(_PIECE):
            size += len(piece)
            if size > most:
                raise _too_large(request, self._options)
            pieces.append(piece)
        return b"".join(pieces)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        connect = self._options.connect_ms / 1000 or None
        try:
            async with self._session().request(
                request.method,
                self._url(request.address, encoded=True),
                data=request.body,
                headers=request.headers,
                allow_redirects=True,
                timeout=self._aiohttp.ClientTimeout(
                    total=None, connect=connect, sock_read=self._options.read_ms / 1000 or None
                ),
                **self._extra,
            ) as response:
                body = b"" if response.status == 200 else await self._body(request, response)
                yield _answer(request, response, body), response.content.iter_any()
        except (self._aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise self._error_of(request, error) from error

    def _error_of(self, request: Request, error: Exception) -> Exception:
        aiohttp = self._aiohttp
        if isinstance(error, PenstockError):
            return error
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return untrusted(request, error)
        if isinstance(error, aiohttp.InvalidURL):
            return DataError(f"'{request.url}' is not a URL")
        if isinstance(error, ValueError) and not isinstance(error, OSError):
            return DataError(f"{request.method} {request.url} is not a valid request: {error}")
        return unreachable(request, error)

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()


class _Http2:
    """HTTP/2 if the server supports it: requests share a connection."""

    def __init__(self, options: ClientOptions) -> None:
        import httpx

        self._httpx = httpx
        self._options = options
        proxy = None
        if options.proxy:
            proxy = httpx.Proxy(options.proxy)
            if options.proxy_user:
                header = basic_header(options.proxy_user, options.proxy_password)
                proxy = httpx.Proxy(options.proxy, headers={"Proxy-Authorization": header})
        self._open = httpx.AsyncClient(
            http2=True,
            verify=options.tls if options.tls is not None else True,
            proxy=proxy,
            timeout=httpx.Timeout(
                options.read_ms / 1000 or None, connect=options.connect_ms / 1000 or None
            ),
            limits=httpx.Limits(max_connections=options.connections),
            trust_env=False,
            follow_redirects=options.redirects,
        )

    async def send(self, request: Request) -> Answer:
        httpx = self._httpx
        try:
            async with self._open.stream(
                request.method, request.address, content=request.body, headers=list(request.headers)
            ) as response:
                pieces: list[bytes] = []
                size = 0
                async for piece in response.aiter_bytes():
                    size += len(piece)
                    if size > self._options.max_bytes:
                        raise _too_large(request, self._options)
                    pieces.append(piece)
                return Answer(
                    response.status_code,
                    response.reason_phrase,
                    {name.lower(): value for name, value in response.headers.items()},
                    b"".join(pieces),
                    request.url,
                )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise DataError(f"'{request.url}' is not a URL: {error}") from error
        except httpx.HTTPError as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, ssl.SSLError):
                    raise untrusted(request, error) from error
                cause = cause.__cause__ or cause.__context__
            raise unreachable(request, error) from error

    async def close(self) -> None:
        await self._open.aclose()


def _answer(request: Request, response: Any, body: bytes) -> Answer:
    return Answer(
        response.status,
        response.reason or "",
        {name.lower(): value for name, value in response.headers.items()},
        body,
        request.url,
    )


def _too_large(request: Request, options: ClientOptions) -> TooLarge:
    return TooLarge(
        f"The response to {request.method} {request.url} has more than {options.max_bytes:,} "
        f"bytes: raise {options.max_bytes_setting}, or request less at once"
    )


def untrusted(request: Request, error: Exception) -> Refused:
    """The error for failed TLS: no retry helps."""
    return Refused(
        f"TLS with the server of {request.url} failed: {error}. Check the server's certificate and "
        "the configured trust store and key store."
    )


def unreachable(request: Request, error: Exception) -> Unreachable:
    """The error for a missing response."""
    reason = str(error) or (
        "no response in time" if isinstance(error, TimeoutError) else repr(error)
    )
    return Unreachable(f"{request.method} {request.url}: {reason}")
