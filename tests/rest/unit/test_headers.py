"""Headers that settings put on responses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.config.worker_keys import REST
from penstock.errors import ConfigInvalid
from penstock.rest.headers import Header, rules, with_headers

NOW_MS = 1_792_000_000_000  # Wed, 14 Oct 2026 17:46:40 GMT
ORIGIN = "access.control.allow.origin"
METHODS = "access.control.allow.methods"
CUSTOM = "response.http.headers.config"


class Stopped:
    """A clock that stands still."""

    def now(self) -> int:
        return NOW_MS


def answered(
    props: dict[str, str],
    method: str = "GET",
    asked: dict[str, str] | None = None,
    own: list[Header] | None = None,
) -> list[Header]:
    """The headers of an answer whose handler sets `own`."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(name.encode(), text.encode()) for name, text in own or []]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Any:
        raise AssertionError("nobody reads the request")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(name.encode(), text.encode()) for name, text in (asked or {}).items()]
    scope = {"type": "http", "method": method, "headers": headers}
    wrapped = with_headers(app, rules(REST.parse(props)), Stopped())
    asyncio.run(wrapped(scope, receive, send))
    start, body = sent
    assert body["type"] == "http.response.body"
    return [(name.decode(), text.decode()) for name, text in start["headers"]]


VARY = ("vary", "Origin")
HERE = {"origin": "http://here.example"}
SHARED = [VARY, ("access-control-allow-origin", "http://here.example")]
PREFLIGHT = {**HERE, "access-control-request-method": "PUT"}


def preflight(methods: str) -> list[Header]:
    return [
        *SHARED,
        ("access-control-max-age", "60"),
        ("access-control-allow-methods", methods),
        ("access-control-allow-headers", "Content-Type"),
    ]


@pytest.mark.parametrize(
    ("props", "method", "asked", "expected"),
    [
        ({}, "GET", HERE, []),
        ({ORIGIN: "  "}, "GET", HERE, []),
        ({METHODS: "PUT"}, "OPTIONS", PREFLIGHT, []),
        ({ORIGIN: "*"}, "GET", {}, [VARY]),
        ({ORIGIN: "*"}, "GET", HERE, SHARED),
        ({ORIGIN: "http://here.example"}, "POST", HERE, SHARED),
        ({ORIGIN: "http://a.example, http://here.example"}, "GET", HERE, SHARED),
        ({ORIGIN: r"https?://.*\.example"}, "GET", HERE, SHARED),
        ({ORIGIN: "http://here"}, "GET", HERE, [VARY]),
        ({ORIGIN: "http://other.example"}, "GET", HERE, [VARY]),
        ({ORIGIN: "http://other.example"}, "OPTIONS", PREFLIGHT, [VARY]),
        ({ORIGIN: "*"}, "OPTIONS", HERE, SHARED),
        ({ORIGIN: "*"}, "OPTIONS", PREFLIGHT, preflight("GET,POST,HEAD")),
        ({ORIGIN: "*", METHODS: "GET, PUT"}, "OPTIONS", PREFLIGHT, preflight("GET,PUT")),
        ({ORIGIN: "*", METHODS: "PUT"}, "PUT", PREFLIGHT, SHARED),
    ],
)
def test_pages_of_other_origins(
    props: dict[str, str], method: str, asked: dict[str, str], expected: list[Header]
) -> None:
    assert answered(props, method, asked) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set X-Frame-Options:DENY", [("x-frame-options", "DENY")]),
        (
            'add X-A: 1, "add Cache-Control: no-cache, no-store"',
            [("x-a", "1"), ("cache-control", "no-cache, no-store")],
        ),
        ("add X-A:1,add X-A:2", [("x-a", "1"), ("x-a", "2")]),
        ("add X-A:1,set x-a:2", [("x-a", "2")]),
        ("setDate Expires: 60000", [("expires", "Wed, 14 Oct 2026 17:47:40 GMT")]),
        ("addDate Last-Modified: -1000", [("last-modified", "Wed, 14 Oct 2026 17:46:39 GMT")]),
        ("set Content-Type:text/html", []),
    ],
)
def test_headers_of_the_users_own(text: str, expected: list[Header]) -> None:
    own = ("content-type", "application/json")
    assert answered({CUSTOM: text}, own=[own]) == [*expected, own]


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({ORIGIN: "*.example"}, "Invalid value *.example for configuration " + ORIGIN),
        (
            {CUSTOM: "setDate Expires: tomorrow"},
            "'tomorrow' is not a number of milliseconds from now",
        ),
    ],
)
def test_meaningless_rules_of_headers_are_refused(props: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        rules(REST.parse(props))
    assert text in str(refused.value)
