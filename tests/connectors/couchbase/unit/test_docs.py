"""The table of types in docs/couchbase.md is what the sink writes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from penstock.api import schema as s
from penstock.connectors.couchbase.write.documents import dump
from penstock.connectors.keyed.documents import node_writer
from tests.places import ROOT

DOCS: Final = ROOT / "docs" / "couchbase.md"
TYPES: Final[tuple[tuple[str, s.Schema | None, Any], ...]] = (
    ("INT8, INT16, INT32, INT64", s.INT64, 7),
    ("FLOAT32, FLOAT64", s.FLOAT64, 1.5),
    ("NaN, infinite numbers", s.FLOAT64, float("nan")),
    ("BOOLEAN", s.BOOLEAN, True),
    ("STRING", s.STRING, "text"),
    ("BYTES", s.BYTES, b"\x00\x01"),
    ("ARRAY", s.array(s.INT32), [1, 2]),
    ("MAP with texts as keys", s.map_of(s.STRING, s.INT32), {"a": 1}),
    ("MAP with other keys", s.map_of(s.INT32, s.STRING), {1: "a"}),
    ("STRUCT", s.struct({"id": s.INT64, "name": s.OPTIONAL_STRING}), {"id": 1}),
    ("Decimal", s.decimal(2), Decimal("1.10")),
    ("Date", s.DATE, date(1970, 1, 3)),
    ("Time", s.TIME, time(0, 0, 1)),
    ("Timestamp", s.TIMESTAMP, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ("null", s.OPTIONAL_STRING, None),
)


def table() -> str:
    """The table, as Markdown."""
    rows = ["| Connect | for example | in the document |", "|---|---|---|"]
    for name, schema, value in TYPES:
        written = dump(node_writer(schema, mapped=False, compact=True)(value)).decode()
        shown = repr(value) if isinstance(value, str | bytes) else str(value)
        rows.append(f"| {name} | `{shown}` | `{written}` |")
    return "\n".join(rows)


def test_the_table_of_types_is_what_is_written() -> None:
    assert table() in DOCS.read_text(), f"docs/couchbase.md needs this table:\n{table()}"
