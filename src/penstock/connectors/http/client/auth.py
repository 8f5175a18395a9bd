"""Authentication of requests: with user and password, a token, a key, or OAuth 2 with client
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
    """Authenticates requests."""

    async def apply(self, request: Request, send: Send) -> Request:
        """The request with credentials."""

    def renews(self, status: int) -> bool:
        """Whether to repeat a request with new credentials after this status."""

    def forget(self, request: Request) -> None:
        """Discards the credentials of this request, which were refused."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Fixed headers and URL parameters for every request."""

    headers: Headers = field(default=(), repr=False)
    parameters: Headers = field(default=(), repr=False)

    async def apply(self, request: Request, send: Send) -> Request:
        return self.applied(request)

    def applied(self, request: Request) -> Request:
        """The request with the headers and parameters."""
        applied = request.with_headers(*self.headers) if self.headers else request
        return replace(applied, secrets=self.parameters) if self.parameters else applied

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
    """The header's value."""
    pair = f"{user}:{password.value if password is not None else ''}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def bearer(token: Secret) -> Fixed:
    """A token that does not change (RFC 6750)."""
    return Fixed(((_AUTHORIZATION, f"Bearer {token.value}"),))


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """The token endpoint and the parameters of token requests."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    in_header: bool = True  # send id and secret in a header; else in the form
    token_property: str = "access_token"
    grant_type: str = "client_credentials"
    grant_name: str = "grant_type"
    id_name: str = "client_id"
    secret_name: str = "client_secret"
    headers: Headers = ()
    renew_on: frozenset[int] = frozenset({401})


class OAuth2:
    """Tokens of an authorization server: requested on first use, renewed before they expire and
    after a refusal. Used on one event loop."""

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
            raise Unreachable(f"No access token from {options.url}: {answer.summary()}")
        if not answer.ok:
            raise Refused(
                f"{options.url} refused an access token: {answer.summary()}. Check the client id, "
                "the client secret and the scope.",
                answer.status,
            )
        try:
            document = orjson.loads(answer.body)
            token = document[options.token_property]
            lifetime_s = float(document.get("expires_in") or 3600)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Refused(
                f"The response of {options.url} has no '{options.token_property}': check the "
                "setting that names the property of the token"
            ) from None
        kind = str(document.get("token_type") or "Bearer")
        self._header = f"{'Bearer' if kind.lower() == 'bearer' else kind} {token}"
        self._until = self._clock() + max(lifetime_s - _MARGIN_S, lifetime_s / 2)
