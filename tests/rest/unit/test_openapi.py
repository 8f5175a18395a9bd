"""The API's description: valid, complete, and from the table of routes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import schemathesis

from penstock.rest.app import admin_routes, application, main_routes
from penstock.rest.openapi import document, markdown
from penstock.rest.routes import ROUTES, Route
from tests.places import ROOT

WHOLE = document(ROUTES)
PAGE = ROOT / "docs" / "rest-api.md"


def served(routes: Sequence[Route]) -> httpx.Response:
    """The answer of a listener with these routes to a request for its description."""
    context: Any = SimpleNamespace(worker=None, client=None)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(application(context, routes))
        async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
            return await client.get("/openapi.json")

    return asyncio.run(ask())


def operations(description: Any) -> set[tuple[str, str]]:
    return {
        (method.upper(), path)
        for path, methods in description["paths"].items()
        for method in methods
    }


def refs(value: object) -> Iterator[str]:
    """The references in a part of the document."""
    match value:
        case {"$ref": str(target)}:
            yield target
        case dict():
            for each in value.values():
                yield from refs(each)
        case list():
            for each in value:
                yield from refs(each)


def test_it_is_openapi() -> None:
    schemathesis.openapi.from_dict(WHOLE).validate()


def test_an_invalid_description_would_be_noticed() -> None:
    broken = json.loads(json.dumps(WHOLE))
    del broken["paths"]["/connectors"]["get"]["responses"]["200"]["description"]
    with pytest.raises(Exception, match="description"):
        schemathesis.openapi.from_dict(broken).validate()


def test_every_route_is_in_it_and_nothing_else() -> None:
    assert operations(WHOLE) == {(route.method, route.path) for route in ROUTES}


def test_the_descriptions_references_exist_and_everything_is_referred_to() -> None:
    components = {
        f"#/components/{kind}/{name}"
        for kind, parts in WHOLE["components"].items()
        for name in parts
    }
    assert set(refs(WHOLE)) == components


def test_names_of_operations_are_unique() -> None:
    names = [each["operationId"] for path in WHOLE["paths"].values() for each in path.values()]
    assert len(set(names)) == len(names) == len(ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_says_what_there_is_to_say(route: Route) -> None:
    assert route.summary
    assert route.answers
    assert all(200 <= status < 300 for status in route.answers if route.path != "/health")
    assert not set(route.errors) & set(route.answers)
    described = WHOLE["paths"][route.path][route.method.lower()]
    placed = {each["name"] for each in described.get("parameters", ()) if each["in"] == "path"}
    assert placed == set(re.findall(r"\{(\w+)\}", route.path))
    # A GET for a connector may name one that does not exist.
    if route.method == "GET" and "{connector}" in route.path and not route.path.endswith("topics"):
        assert 404 in route.errors


def test_it_is_served() -> None:
    answer = served(ROUTES)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == WHOLE


def test_a_listener_describes_what_it_offers() -> None:
    without = served(main_routes([])).json()
    assert operations(without) == operations(WHOLE) - operations(document(admin_routes()))
    assert served(admin_routes()).status_code == 404  # admin listeners offer nothing else


def test_the_page_has_the_table() -> None:
    assert markdown(ROUTES) in PAGE.read_text()
