"""Which fields a trace hides."""

from __future__ import annotations

import pytest

from penstock.config.tracing import HIDDEN_FIELDS, hidden_fields


def test_by_default_names_of_secrets_are_hidden_in_any_case() -> None:
    hidden = hidden_fields({}, {})
    assert hidden is not None
    assert all(map(hidden.search, ("Password", "api_key", "dbSecret", "accessToken")))
    assert not hidden.search("name")


@pytest.mark.parametrize("pattern", ["iban", "ib(?:a|x)++n", r"\p{Lower}ban"])
def test_the_connectors_regex_counts_and_is_one_of_javas(pattern: str) -> None:
    hidden = hidden_fields({HIDDEN_FIELDS.name: "name"}, {HIDDEN_FIELDS.name: pattern})
    assert hidden is not None
    assert hidden.search("iban")
    assert not hidden.search("name")


def test_an_empty_one_hides_nothing() -> None:
    assert hidden_fields({}, {HIDDEN_FIELDS.name: ""}) is None
