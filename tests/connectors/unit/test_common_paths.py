"""What paths find in documents: the table in `penstock.connectors.common.paths`, both ways."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from penstock.connectors.common.paths import MISSING, member, node, steps_of

DOCUMENT: Any = {"a": {"b": 1, "n": None, "l": [7, {"c": 8}]}, "s": "text", "": 9}


@pytest.mark.parametrize(
    ("path", "by_name", "by_step"),
    [
        ((), DOCUMENT, DOCUMENT),
        (("a", "b"), 1, 1),
        (("",), 9, 9),
        (("a", "n"), None, None),
        (("a", "x"), MISSING, MISSING),
        (("x", "b"), MISSING, MISSING),
        (("a", "n", "b"), MISSING, MISSING),
        (("s", "0"), MISSING, MISSING),
        (("a", "b", "0"), MISSING, MISSING),
        (("a", "l", "0"), MISSING, 7),
        (("a", "l", "1", "c"), MISSING, 8),
        (("a", "l", "2"), MISSING, MISSING),
        (("a", "l", "-1"), MISSING, MISSING),
        (("a", "l", "c"), MISSING, MISSING),
    ],
    ids=range(14),
)
def test_a_path_finds_what_the_table_says(path: Any, by_name: Any, by_step: Any) -> None:
    for document in (DOCUMENT, MappingProxyType(DOCUMENT)):
        expected = [document if each is DOCUMENT else each for each in (by_name, by_step)]
        found = [member(document, path), node(document, path)]
        assert [a is b or a == b for a, b in zip(found, expected, strict=True)] == [True, True]


def test_slashes_and_tildes_in_names_are_escaped() -> None:
    assert steps_of("/a~1b/m~0n/0") == ("a/b", "m~n", "0")
