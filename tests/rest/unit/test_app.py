"""The entry point of every request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import BadRequest
from penstock.rest.app import accepts, application
from penstock.rest.call import Call, HttpError, Response
from penstock.rest.routes import Route
from penstock.rest.shapes import ref


async def echo(call: Call) -> Response:
    return Response(body={"path": call.path, "params": dict(call.params), "json": call.json()})


async def figures(call: Call) -> Response:
    return Response(body=b"one 1\n", headers={"Content-Type": "text/plain; version=0.0.4"})


async def refused(call: Call) -> Response:
    raise BadRequest("not like this")


async def broken(call: Call) -> Response:
    raise RuntimeError("it broke")


async def conflict(call: Call) -> Response:
    raise HttpError(409, "busy", 40901)


ROUTES = (
    Route("GET", "/things/{thing}", echo),
    Route("POST", "/things", echo, body=ref("GivenConfig")),
    Route("GET", "/figures", figures, media="text/plain; version=0.0.4"),
    Route("GET", "/any", echo, any_type=True),
    Route("GET", "/refused", refused),
    Route("GET", "/broken", broken),
    Route("GET", "/conflict", conflict),
)


class Gone(Exception):
    """The connection has nothing left to receive."""


def ask(
    method: str,
    target: bytes,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    cut: bool = False,
) -> list[dict[str, Any]]:
    """What the application sends for a request as an HTTP server passes it; with `cut`, the client
    disconnects in the middle of the body."""
    sent: list[dict[str, Any]] = []
    incoming: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": cut}]
    if cut:
        incoming.append({"type": "http.disconnect"})

    async def receive() -> Any:
        if not incoming:
            raise Gone
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    path, _, query = target.partition(b"?")
    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "server": ("worker", 8083),
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
    }
    context: Any = SimpleNamespace(
        worker=SimpleNamespace(state=SimpleNamespace(membership=SimpleNamespace(ready=True))),
        client=None,
    )
    asyncio.run(application(context, ROUTES)(scope, receive, send))
    return sent


def status(sent: list[dict[str, Any]]) -> int:
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    "target",
    [b"/things/a%0Ab", b"/things/%00", b"/things/%E2%80%A8", b"/things/%FF", b"/things/x?y=%zz"],
)
def test_a_path_of_any_text_is_ours_to_answer(target: bytes) -> None:
    sent = ask("GET", target)
    assert status(sent) == 200
    assert b"things" in sent[1]["body"]


def test_a_target_that_is_for_a_proxy_is_taken() -> None:
    sent = ask("GET", b"http://worker:8083/things/x")
    assert status(sent) == 200
    assert b'"path":"/things/x"' in sent[1]["body"]


def test_who_goes_away_in_the_middle_is_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    sent = ask("POST", b"/things", b'{"a":', {"Content-Type": "application/json"}, cut=True)
    assert sent == []
    assert caplog.records == []


@pytest.mark.parametrize(
    ("target", "code", "text", "logged"),
    [
        (b"/refused", 400, "not like this", False),
        (b"/conflict", 409, "busy", False),
        (b"/broken", 500, "it broke", True),
    ],
)
def test_errors_are_reported_and_only_surprises_are_logged(
    target: bytes, code: int, text: str, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    sent = ask("GET", target)
    assert status(sent) == code
    assert text.encode() in sent[1]["body"]
    assert bool(caplog.records) is logged


@pytest.mark.parametrize(
    ("target", "headers", "expected"),
    [
        (b"/things/x", {}, 200),
        (b"/things/x", {"Content-Type": "text/plain"}, 415),
        (b"/things/x", {"Content-Type": "json"}, 400),
        (b"/things/x", {"Accept": "text/plain"}, 406),
        (b"/any", {"Content-Type": "text/plain"}, 200),
        (b"/any", {"Content-Type": "json"}, 400),
        (b"/figures", {"Accept": "text/plain"}, 200),
        (b"/figures", {"Accept": "application/openmetrics-text, text/plain;q=0.5"}, 200),
        (b"/figures", {"Accept": "application/json"}, 406),
    ],
)
def test_media_types_are_those_of_the_route(
    target: bytes, headers: dict[str, str], expected: int
) -> None:
    assert status(ask("GET", target, headers=headers)) == expected


@pytest.mark.parametrize(
    "body", [b"{", b'{"a": NaN}', b'{"a": "\\ud800"}', b"[" * 100_000, b"\xff"]
)
def test_malformed_json_is_a_500(body: bytes) -> None:
    assert status(ask("POST", b"/things", body, {"Content-Type": "application/json"})) == 500


@pytest.mark.parametrize(
    ("accept", "media", "passes"),
    [
        ("", "application/json", True),
        ("*/*", "text/plain", True),
        ("application/*", "application/json", True),
        ("application/*", "text/plain", False),
        ("text/html, APPLICATION/JSON;q=0.1", "application/json", True),
        ("application/json;q=0", "application/json", False),
    ],
)
def test_accept(accept: str, media: str, passes: bool) -> None:
    assert accepts(accept, media) is passes
