"""Texts that match a regular expression, as Python's own `re` judges them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from penstock.api import DataError
from penstock.connectors.generator.patterns import texts_of

UNDERSTOOD = [
    "",
    "abc",
    "User_[1-9]",
    "Item_[1-9][0-9]{0,2}",
    r"[A-Z]{2}\d{6}[A-Z]",
    r"\[[0-9][0-9],[0-9][0-9]\]",
    "https://www[.]acme[.]com/product/[a-z]{5}",
    "(web|ios|(?:and)roid)+",
    "x?y*z+",
    "[^a-z ]{3,}",
    r"\w\s\S\D-?",
    "^a.b$",
    "[a-]",
    "02(-[0-9A-F]{2}){5}",
    "a||b",
]


@pytest.mark.parametrize("pattern", UNDERSTOOD)
def test_texts_match(pattern: str) -> None:
    texts = texts_of(pattern)(np.random.default_rng(7), 200)
    assert len(texts) == 200
    for text in texts:
        assert re.fullmatch(pattern, text), text


def test_everything_that_may_come_does() -> None:
    texts = texts_of("(a|b)[0-2]?")(np.random.default_rng(1), 500)
    assert set(texts) == {"a", "b", *(f"{each}{digit}" for each in "ab" for digit in "012")}


@pytest.mark.parametrize(
    "pattern",
    ["(a", "a)", "[a", "a{2", "a{3,1}", "a{x}", "*a", "(?=a)", r"\b", r"(a)\1", "[b-a]", "\\"],
)
def test_an_unsupported_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(DataError, match="Cannot generate strings for the regex"):
        texts_of(pattern)
