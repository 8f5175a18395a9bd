"""How requests say who sends them: a user and a password, a token, a key, or OAuth 2 with client
credentials (RFC 6749, section 4.4)."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import urlencode

import orjson

from penstock.api.settings import Secret
from penstock.connectors.http.client.messages import (
    Answer,
    Headers,
    Refused,
    Request,
    Unreachable,
)

Send = Callable[[Request], Awaitable[Answer]]

_MARGIN_S = 30.0
_AUTHORIZATION = "Authorization"


class Auth(Protocol):
    """Makes requests known."""

    async def apply(self, request: Request, send: Send) -> Request:
        """The request as it is sent."""

    def renews(self, status: int) -> bool:
        """Whether an answer of this status may be another one with new credentials."""

    def forget(self, request: Request) -> None:
        """The credentials of this request were refused."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same headers, and the same parameters of the URL, for every request."""

    headers: Headers = field(default=(), repr=False)
    parameters: Headers = field(default=(), repr=False)

    async def apply(self, request: Request, send: Send) -> Request:
        return self.applied(request)

    def applied(self, request: Request) -> Request:
        """The request with them."""
        known = request.with_headers(*self.headers) if self.headers else request
        return replace(known, secrets=self.parameters) if self.parameters else known

    def renews(self, status: int) -> bool:
        return False

    def forget(self, request: Request) -> None:
        return None


def basic(user: str, password: Secret | None) -> Fixed:
    """Basic authentication (RFC 7617).

    >>> basic("me", Secret("x")).applied(Request("GET", "http://h")).headers
    (('Authorization', 'Basic bWU6eA=='),)
    """
    return Fixed(((_AUTHORIZATION, basic_header(user, password)),))


def basic_header(user: str, password: Secret | None) -> str:
    """The value of the header."""
    pair = f"{user}:{password.value if password is not None else ''}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def bearer(token: Secret) -> Fixed:
    """A token that does not change (RFC 6750)."""
    return Fixed(((_AUTHORIZATION, f"Bearer {token.value}"),))


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """Where tokens come from, and what asks for them."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    in_header: bool = True  # whether id and secret are in a header; if not, in the form
    token_property: str = "access_token"
    grant_type: str = "client_credentials"
    grant_name: str = "grant_type"
    id_name: str = "client_id"
    secret_name: str = "client_secret"
    headers: Headers = ()
    renew_on: frozenset[int] = frozenset({401})


class OAuth2:
    """Tokens of an authorization server: asked for when first needed, renewed before they expire
    and when they are refused. Used on one event loop."""

    def __init__(self, options: TokenOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._header: str | None = None
        self._until = 0.0
        self._asking = asyncio.Lock()

    async def apply(self, request: Request, send: Send) -> Request:
        async with self._asking:
            if self._header is None or self._clock() >= self._until:
                await self._ask(send)
        assert self._header is not None
        return request.with_headers((_AUTHORIZATION, self._header))

    def renews(self, status: int) -> bool:
        return status in self._options.renew_on

    def forget(self, request: Request) -> None:
        if any(value == self._header for name, value in request.headers if name == _AUTHORIZATION):
            self._header = None

    async def _ask(self, send: Send) -> None:
        options = self._options
        form = [(options.grant_name, options.grant_type)]
        headers: Headers = (("Content-Type", "application/x-www-form-urlencoded"),)
        if options.in_header:
            header = basic_header(options.client_id, options.client_secret)
            headers += ((_AUTHORIZATION, header),)
        else:
            form.append((options.id_name, options.client_id))
            form.append((options.secret_name, options.client_secret.value))
        if options.scope:
            form.append(("scope", options.scope))
        request = Request("POST", options.url, headers, urlencode(form).encode())
        answer = await send(request.with_headers(*options.headers))
        if answer.status in (408, 429) or answer.status >= 500:
            raise Unreachable(f"No access token from {options.url}: {answer.told()}")
        if not answer.ok:
            raise Refused(
                f"{options.url} refuses an access token: {answer.told()}. Check the client id, "
                "the client secret and the scope.",
                answer.status,
            )
        try:
            told = orjson.loads(answer.body)
            token = told[options.token_property]
            lasts = float(told.get("expires_in") or 3600)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Refused(
                f"The answer of {options.url} has no '{options.token_property}': check the "
                "setting that names the property of the token"
            ) from None
        kind = str(told.get("token_type") or "Bearer")
        self._header = f"{'Bearer' if kind.lower() == 'bearer' else kind} {token}"
        self._until = self._clock() + max(lasts - _MARGIN_S, lasts / 2)
