"""docs/cassandra.md has the table of types of the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

FOLDER = Path(__file__).parent


def test_the_table_of_types_is_that_of_the_code() -> None:
    spec = importlib.util.spec_from_file_location("cassandra_types", FOLDER / "cassandra_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (FOLDER.parents[2] / "docs" / "cassandra.md").read_text()
    assert module.table() in page, (
        "docs/cassandra.md does not have the table that tests/unit/docs/cassandra_types.py prints"
    )
