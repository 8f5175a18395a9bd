"""Schemas that tests of the JSON Schema converter share."""

from __future__ import annotations

from penstock.data import schema as s
from penstock.data.schema import Schema, Type
from penstock.schema_registry.json_schema_names import (
    ENUM,
    ONE_OF,
    ONE_OF_FIELD,
    Options,
)

PLAIN = Options()

BOOK = s.struct({"title": s.STRING, "pages": s.OPTIONAL_INT32}, name="Book")
UNION_OF = s.struct(
    {f"{ONE_OF_FIELD}0": s.OPTIONAL_STRING, f"{ONE_OF_FIELD}1": s.OPTIONAL_INT64}, name=ONE_OF
)
COLOR = Schema(Type.STRING, parameters={ENUM: "", f"{ENUM}.red": "red", f"{ENUM}.<NULL>": "<NULL>"})
PERSON = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
PERSON_SCHEMA = s.struct({"name": s.STRING}, name="Person")


def one_of(*schemas: Schema, optional: bool = False) -> Schema:
    fields = {f"{ONE_OF_FIELD}{at}": each.as_optional() for at, each in enumerate(schemas)}
    return s.struct(fields, name=ONE_OF, optional=optional)
