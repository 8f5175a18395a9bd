"""Response headers from settings: `access.control.*` (CORS) and
`response.http.headers.config`.

See kafka-connect.md §1.1. As there, every response of the main listeners has them, including
errors, but no response of the admin listeners. A header that the handler sets wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.clock import Clock
from penstock.config import listeners
from penstock.config import worker_keys as keys
from penstock.config.define import Config, invalid
from penstock.config.regex import RegexInvalid, compile_java
from penstock.errors import ConfigInvalid

Header = tuple[str, str]
Rule = Callable[[str, Mapping[str, str], int], list[Header]]
"""The headers of the response to a request: its method, its headers, the time in milliseconds."""

_ANY: Final = "*"
_DEFAULT_METHODS: Final = ("GET", "POST", "HEAD")
_PREFLIGHT_AGE_S: Final = 60
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,13}")


def rules(config: Config) -> list[Rule]:
    """The rules from the settings. ConfigInvalid: an origin is not a pattern, a date not a
    number."""
    return [*_cross_origin(config), *_configured(config)]


def with_headers(app: ASGIApp, applied: Sequence[Rule], clock: Clock) -> ASGIApp:
    """The application, with the rules' headers on every response."""
    if not applied:
        return app

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        request_headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                now = clock.now()
                added = [
                    header
                    for rule in applied
                    for header in rule(scope["method"], request_headers, now)
                ]
                message = {**message, "headers": _merged(added, message["headers"])}
            await send(message)

        await app(scope, receive, sending)

    return wrapped


def _merged(
    added: Sequence[Header], own: Sequence[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in own}
    extra = [(name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in added]
    return [*(header for header in extra if header[0] not in names), *own]


def _cross_origin(config: Config) -> list[Rule]:
    origins = _entries(config[keys.ACCESS_CONTROL_ALLOW_ORIGIN])
    if not origins:
        return []
    methods = _entries(config[keys.ACCESS_CONTROL_ALLOW_METHODS]) or _DEFAULT_METHODS
    # Like Jetty: '*' is any origin; all others are regular expressions for a whole origin.
    patterns = [_pattern(origin) for origin in origins if origin != _ANY]

    def allowed(origin: str) -> bool:
        return _ANY in origins or any(pattern.fullmatch(origin) for pattern in patterns)

    def rule(method: str, request_headers: Mapping[str, str], now_ms: int) -> list[Header]:
        vary = ("Vary", "Origin")  # always: the response to another origin may differ
        origin = request_headers.get("origin")
        if origin is None or not any(map(allowed, origin.split())):
            return [vary]
        shared = [vary, ("Access-Control-Allow-Origin", origin)]
        if method != "OPTIONS" or "access-control-request-method" not in request_headers:
            return shared
        return [
            *shared,
            ("Access-Control-Max-Age", str(_PREFLIGHT_AGE_S)),
            ("Access-Control-Allow-Methods", ",".join(methods)),
            ("Access-Control-Allow-Headers", "Content-Type"),
        ]

    return [rule]


def _entries(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def _pattern(origin: str) -> re.Pattern[str]:
    try:
        return compile_java(origin)
    except RegexInvalid as problem:
        name = keys.ACCESS_CONTROL_ALLOW_ORIGIN.name
        raise ConfigInvalid([invalid(name, origin, str(problem))]) from problem


def _configured(config: Config) -> list[Rule]:
    text = config[keys.RESPONSE_HEADERS]
    rules = listeners.parse_header_rules(text)
    for header_rule in rules:
        if header_rule.action.endswith("Date") and not _NUMBER.fullmatch(header_rule.value):
            problem = (
                f"'{header_rule.value}' is not a number of milliseconds from now, as dates require"
            )
            raise ConfigInvalid([invalid(keys.RESPONSE_HEADERS.name, text, problem)])

    def rule(method: str, request_headers: Mapping[str, str], now_ms: int) -> list[Header]:
        headers: list[Header] = []
        for header_rule in rules:
            value = header_rule.value
            if header_rule.action.endswith("Date"):
                value = formatdate((now_ms + int(value)) / 1000, usegmt=True)
            if header_rule.action.startswith("set"):
                headers = [have for have in headers if have[0].lower() != header_rule.name.lower()]
            headers.append((header_rule.name, value))
        return headers

    return [rule] if rules else []
