"""The table of types in docs/elasticsearch.md, from the code that makes mappings and documents."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import orjson

from penstock.api import schema as s
from penstock.api.schema import Logical, Schema, Type, struct
from penstock.connectors.keyed.documents import dump, node_writer
from penstock.connectors.search.write.mappings import LOGICAL_TYPES, TYPES, mapping_of
from tests.places import ROOT

PAGE: Final = ROOT / "docs" / "elasticsearch.md"
HEAD: Final = (
    "| Connect's type | mapping | in the document, for example | read again |",
    "|---|---|---|---|",
)
EXAMPLES: Final[tuple[tuple[str, Schema, Any], ...]] = (
    ("INT8", s.INT8, 7),
    ("INT16", s.INT16, 300),
    ("INT32", s.INT32, 70_000),
    ("INT64", s.INT64, 5_000_000_000),
    ("FLOAT32", s.FLOAT32, 0.5),
    ("FLOAT64", s.FLOAT64, 0.1),
    ("FLOAT32 or FLOAT64 that is not a number", s.FLOAT64, float("nan")),
    ("BOOLEAN", s.BOOLEAN, True),
    ("STRING", s.STRING, "text"),
    ("BYTES", s.BYTES, b"\x00\x01"),
    ("Decimal", s.decimal(2), Decimal("1.10")),
    ("Date", s.DATE, date(2026, 1, 31)),
    ("Time", s.TIME, time(12, 30)),
    ("Timestamp", s.TIMESTAMP, datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
    ("ARRAY", s.array(s.INT32), [1, 2]),
    ("MAP with texts as keys", s.map_of(s.STRING, s.INT32), {"a": 1}),
    ("MAP with other keys", s.map_of(s.INT32, s.STRING), {1: "a"}),
    ("STRUCT", struct({"id": s.INT64}), {"id": 1}),
    ("null", s.OPTIONAL_INT32, None),
)
READ: Final = {
    int: "INT64",
    float: "FLOAT64",
    str: "STRING",
    bool: "BOOLEAN",
    list: "ARRAY",
    dict: "MAP",
    type(None): "null",
}


def rows() -> list[str]:
    made = []
    for label, schema, value in EXAMPLES:
        mapping = mapping_of(schema)
        kind = mapping.get("type") or f"properties {', '.join(mapping['properties'])}"
        if "fields" in mapping:
            kind += ", with the field keyword"
        text = dump(node_writer(schema, mapped=True, compact=True)(value))
        made.append(f"| {label} | {kind} | `{text.decode()}` | {READ[type(orjson.loads(text))]} |")
    return made


def test_the_table_is_that_of_the_code() -> None:
    table = "\n".join([*HEAD, *rows()])
    assert table in PAGE.read_text(), f"the table has to be\n{table}"


def test_every_type_is_in_the_table() -> None:
    schemas = [schema for _, schema, _ in EXAMPLES]
    assert {schema.type for schema in schemas} == set(Type)
    assert {schema.logical for schema in schemas} == {None, *Logical}
    assert set(TYPES) | {Type.ARRAY, Type.MAP, Type.STRUCT} == set(Type)
    assert set(LOGICAL_TYPES) == set(Logical)
