"""docs/cassandra.md has the table of types of the code."""

from __future__ import annotations

from tests.places import ROOT

from .types_table import table


def test_the_table_of_types_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "cassandra.md").read_text()
    assert table() in page, f"docs/cassandra.md does not have the table that {__name__} compares"
