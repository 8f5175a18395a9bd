"""Which schema can read what another one wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.schema_registry.compatibility import (
    InvalidSchema,
    avro_obstacles,
    json_obstacles,
    parse_avro,
)


def rec(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


F = {"name": "f", "type": "int"}
E1 = {"type": "enum", "name": "E", "symbols": ["A"]}
E2 = {"type": "enum", "name": "E", "symbols": ["A", "B"]}

AVRO: list[tuple[Any, Any, str | None]] = [
    # reader, writer, incompatibility
    ("int", "int", None),
    ("long", "int", None),
    ("int", "long", "TYPE_MISMATCH"),
    ("double", "float", None),
    ("float", "double", "TYPE_MISMATCH"),
    ("string", "bytes", None),
    (["null", "int"], "int", None),
    ("int", ["null", "int"], "TYPE_MISMATCH"),
    (["null", "string"], ["null", "int"], "MISSING_UNION_BRANCH"),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, None),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "TYPE_MISMATCH"),
    (rec(), rec(F), None),
    (rec(F), rec(), "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/0: f"),
    (rec({**F, "default": 1}), rec(), None),
    (rec(F), rec({"name": "f", "type": "string"}), "TYPE_MISMATCH"),
    (rec({"name": "g", "type": "int", "aliases": ["f"]}), rec(F), None),
    (rec(name="Q"), rec(), "NAME_MISMATCH"),
    (E2, E1, None),
    (E1, E2, "MISSING_ENUM_SYMBOLS"),
    ({**E1, "default": "A"}, E2, None),
    (
        {"type": "fixed", "name": "X", "size": 2},
        {"type": "fixed", "name": "X", "size": 3},
        "FIXED_SIZE_MISMATCH",
    ),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 9}, "bytes", None),
]


@pytest.mark.parametrize(("reader", "writer", "obstacle"), AVRO)
def test_avro(reader: Any, writer: Any, obstacle: str | None) -> None:
    found = avro_obstacles(parse_avro(json.dumps(reader)), parse_avro(json.dumps(writer)))
    if obstacle is None:
        assert found == []
    else:
        assert obstacle in found[0]


def test_avro_schemas_are_parsed_with_what_they_are_built_on() -> None:
    inner = json.dumps(rec(F, name="n.A"))
    outer = json.dumps(rec({"name": "a", "type": "n.A"}))
    parse_avro(outer, {"n.A": inner})
    with pytest.raises(InvalidSchema):
        parse_avro(outer)


INT, TEXT = {"type": "integer"}, {"type": "string"}


def obj(required: tuple[str, ...] = (), more: Any = None, **properties: Any) -> dict[str, Any]:
    closed = {} if more is None else {"additionalProperties": more}
    return {"type": "object", "properties": properties, "required": list(required), **closed}


JSON: list[tuple[Any, Any, str | None]] = [
    (INT, INT, None),
    ({"type": "number"}, INT, None),
    (INT, {"type": "number"}, "TYPE_CHANGED"),
    ({"type": ["string", "null"]}, TEXT, None),
    (TEXT, {"type": ["string", "null"]}, "TYPE_CHANGED at #: null"),
    (True, INT, None),
    (False, INT, "SCHEMA_REMOVED"),
    ({}, INT, None),
    (INT, {}, "TYPE_CHANGED"),
    (obj(("a",), a=INT), obj(a=INT), "REQUIRED_ATTRIBUTE_ADDED"),
    (obj(("a",), a={**INT, "default": 1}), obj(a=INT), None),
    (obj(a=INT), obj(("a",), a=INT), None),
    (obj(a=TEXT), obj(a=INT), "TYPE_CHANGED at #/properties/a"),
    (obj(a=INT, b=INT), obj(a=INT), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (obj(more=False, a=INT, b=INT), obj(more=False, a=INT), None),
    (obj(more=False), obj(more=False, a=INT), "SCHEMA_REMOVED at #/properties/a"),
    (obj(more=False, a=INT), obj(a=INT), "SCHEMA_REMOVED at #/additionalProperties"),
    (obj(more=INT), obj(more=False, a=INT), None),
    ({"enum": [1, 2]}, {"enum": [1]}, None),
    ({"enum": [1]}, {"enum": [1, 2]}, "ENUM_ARRAY_NARROWED"),
    ({**TEXT, "maxLength": 5}, TEXT, "MAXLENGTH"),
    ({**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 4}, None),
    ({**INT, "minimum": 5}, {**INT, "minimum": 4}, "MINIMUM"),
    ({**TEXT, "pattern": "a"}, {**TEXT, "pattern": "b"}, "PATTERN"),
    ({"type": "array", "items": INT}, {"type": "array", "items": TEXT}, "TYPE_CHANGED at #/items"),
    ({"oneOf": [{"type": "null"}, INT]}, INT, None),
    ({"oneOf": [{"type": "null"}, INT]}, {"oneOf": [{"type": "null"}, TEXT]}, "SUM_TYPE_NARROWED"),
    (
        {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"n": {"$ref": "#"}}}]},
        {"oneOf": [{"type": "object", "properties": {"n": {"$ref": "#"}}}, {"type": "null"}]},
        None,
    ),
    (
        {"$ref": "#/definitions/x", "definitions": {"x": INT}},
        {"$ref": "#/definitions/y", "definitions": {"y": TEXT}},
        "TYPE_CHANGED",
    ),
    (
        {"properties": {"next": {"$ref": "#"}}, "type": "object", "additionalProperties": False},
        {"properties": {"next": {"$ref": "#"}}, "type": "object", "additionalProperties": False,
         "title": "another"},
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("reader", "writer", "obstacle"), JSON)
def test_json_schema(reader: Any, writer: Any, obstacle: str | None) -> None:
    found = json_obstacles(reader, writer)
    if obstacle is None:
        assert found == []
    else:
        assert any(obstacle in each for each in found), found
