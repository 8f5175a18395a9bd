"""The table of routes: what matches what."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest

from penstock.rest.call import HttpError, error_of
from penstock.rest.routes import ALWAYS, ROUTES, Route


async def handler(call: object) -> Any:
    raise NotImplementedError


STATUS = Route("GET", "/connectors/{connector}/status", handler)
ROOT = Route("GET", "/", handler)
TASK = Route("GET", "/connectors/{connector}/tasks/{task}/status", handler)

MATCHES = [
    (STATUS, ["connectors", "a", "status"], {"connector": "a"}),
    (STATUS, ["connectors", "a%2Fb", "status"], {"connector": "a/b"}),
    (STATUS, ["connectors", "z%C3%B6%20%25", "status"], {"connector": "zö %"}),
    (STATUS, ["connectors", "a+b", "status"], {"connector": "a+b"}),
    (STATUS, ["connectors", "status", "status"], {"connector": "status"}),
    (STATUS, ["c%6Fnnectors", "a", "status"], {"connector": "a"}),
    (STATUS, ["connectors", "a"], None),
    (STATUS, ["connectors", "a", "Status"], None),
    (STATUS, ["connectors", "a", "status", "more"], None),
    (STATUS, ["connectors", "a/b", "status"], {"connector": "a/b"}),
    (TASK, ["connectors", "a", "tasks", "0", "status"], {"connector": "a", "task": "0"}),
    (ROOT, [], {}),
    (ROOT, ["connectors"], None),
]


@pytest.mark.parametrize(("route", "segments", "params"), MATCHES)
def test_a_path_matches_segment_by_segment(
    route: Route, segments: list[str], params: dict[str, str] | None
) -> None:
    assert route.match(segments) == params


@pytest.mark.parametrize("name", ["a", "a/b", "zö 日", "100%", "a?b#c", "..", "{connector}"])
def test_any_name_comes_back_as_it_was_encoded(name: str) -> None:
    assert STATUS.match(["connectors", quote(name, safe=""), "status"]) == {"connector": name}


def test_no_two_routes_answer_the_same_request() -> None:
    shapes = Counter((route.method, re.sub(r"\{\w+\}", "{}", route.path)) for route in ROUTES)
    assert [shape for shape, count in shapes.items() if count > 1] == []


def test_no_path_has_the_same_parameter_twice() -> None:
    for route in ROUTES:
        names = re.findall(r"\{(\w+)\}", route.path)
        assert len(names) == len(set(names)), route.path


def test_routes_that_always_answer_are_in_the_table() -> None:
    assert {route.handler for route in ROUTES} >= ALWAYS


def test_an_unexpected_error_is_a_500() -> None:
    assert error_of(ValueError("odd")) == (500, 500, "odd")
    assert error_of(HttpError(409, "busy", 40901)) == (409, 40901, "busy")
