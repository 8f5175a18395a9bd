"""Connect schemas as JSON Schemas, and back; JSON Schemas that others have written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.data import schema as s
from penstock.data.schema import Schema, Type
from penstock.errors import DataError
from penstock.schema_registry.json_schema_connect import Document, connect_schema
from penstock.schema_registry.json_schema_names import ENUM, GENERAL_ENUM, UNION, Options
from penstock.schema_registry.json_schema_read import reader
from penstock.schema_registry.json_schema_schema import json_schema
from penstock.schema_registry.json_schema_write import writer

from .json_schema_examples import BOOK, COLOR, PERSON, PERSON_SCHEMA, PLAIN, UNION_OF, one_of

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"

# Connect schema, JSON Schema: written and read.
SCHEMAS: list[tuple[Schema, dict[str, Any]]] = [
    (s.INT8, {"type": "integer", "connect.type": "int8"}),
    (s.INT16, {"type": "integer", "connect.type": "int16"}),
    (s.INT32, {"type": "integer", "connect.type": "int32"}),
    (s.INT64, {"type": "integer", "connect.type": "int64"}),
    (s.FLOAT32, {"type": "number", "connect.type": "float32"}),
    (s.FLOAT64, {"type": "number", "connect.type": "float64"}),
    (s.BOOLEAN, {"type": "boolean"}),
    (s.STRING, {"type": "string"}),
    (s.BYTES, {"type": "string", "connect.type": "bytes"}),
    (s.OPTIONAL_STRING, {"oneOf": [{"type": "null"}, {"type": "string"}]}),
    (
        s.decimal(2),
        {
            "title": "org.apache.kafka.connect.data.Decimal",
            "type": "number",
            "connect.type": "bytes",
            "connect.version": 1,
            "connect.parameters": {"scale": "2"},
        },
    ),
    (
        s.DATE,
        {
            "title": "org.apache.kafka.connect.data.Date",
            "type": "integer",
            "connect.type": "int32",
            "connect.version": 1,
        },
    ),
    (
        s.TIMESTAMP,
        {
            "title": "org.apache.kafka.connect.data.Timestamp",
            "type": "integer",
            "connect.type": "int64",
            "connect.version": 1,
        },
    ),
    (s.array(s.STRING), {"type": "array", "items": {"type": "string"}}),
    (
        s.map_of(s.STRING, s.BOOLEAN),
        {"type": "object", "additionalProperties": {"type": "boolean"}, "connect.type": "map"},
    ),
    (
        s.map_of(s.OPTIONAL_STRING, s.BOOLEAN),
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "key": {
                        "oneOf": [{"type": "null"}, {"type": "string"}],
                        "connect.index": 0,
                    },
                    "value": {"type": "boolean", "connect.index": 1},
                },
            },
            "connect.type": "map",
        },
    ),
    (
        BOOK,
        {
            "title": "Book",
            "type": "object",
            "properties": {
                "title": {"type": "string", "connect.index": 0},
                "pages": {
                    "oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}],
                    "connect.index": 1,
                },
            },
        },
    ),
    (
        Schema(Type.INT16, default=5, name="n", version=7, doc="why", parameters={"a": "b"}),
        {
            "title": "n",
            "description": "why",
            "default": 5,
            "type": "integer",
            "connect.type": "int16",
            "connect.version": 7,
            "connect.parameters": {"a": "b"},
        },
    ),
    (
        replace(BOOK, default={"title": "?", "pages": None}),
        {
            "title": "Book",
            "default": {"title": "?", "pages": None},
            "type": "object",
            "properties": {
                "title": {"type": "string", "connect.index": 0},
                "pages": {
                    "oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}],
                    "connect.index": 1,
                },
            },
        },
    ),
    (
        UNION_OF,
        {
            "oneOf": [
                {"type": "string", "connect.index": 0},
                {"type": "integer", "connect.type": "int64", "connect.index": 1},
            ]
        },
    ),
    (
        UNION_OF.as_optional(),
        {
            "oneOf": [
                {"type": "null"},
                {"type": "string", "connect.index": 0},
                {"type": "integer", "connect.type": "int64", "connect.index": 1},
            ]
        },
    ),
    (COLOR, {"enum": ["red", None]}),
]


@pytest.mark.parametrize(("schema", "node"), SCHEMAS)
def test_schemas_are_written_and_read(schema: Schema, node: dict[str, Any]) -> None:
    written = json_schema(schema, PLAIN)
    assert written == node
    assert list(written) == list(node)
    assert read_schema(node) == schema


def read_schema(
    node: Any, options: Options = PLAIN, version: int | None = None, **references: Any
) -> Schema:
    texts = {f"{name}.json": json.dumps(each) for name, each in references.items()}
    return connect_schema(Document.of(json.dumps(node), texts), options, version)


# JSON Schemas that others write, and their Connect schemas.
FOREIGN: dict[str, tuple[Any, Schema]] = {
    "integer": ({"type": "integer"}, s.INT64),
    "number": ({"type": "number"}, s.FLOAT64),
    "integer with a format": ({"type": "integer", "format": "int32"}, s.INT64),
    "types": ({"type": ["string", "null"]}, s.OPTIONAL_STRING),
    "three types": (
        {"type": ["string", "null", "integer"]},
        one_of(s.STRING, s.INT64, optional=True),
    ),
    "anyOf": (
        {"anyOf": [{"type": "boolean"}, {"type": "number"}]},
        one_of(s.BOOLEAN, s.FLOAT64),
    ),
    "combinations come first in a union": (
        {"oneOf": [{"type": "boolean"}, {"oneOf": [{"type": "string"}, {"type": "null"}]}]},
        one_of(s.STRING, s.BOOLEAN),
    ),
    "no type, but properties": (
        {"properties": {"a": {"type": "boolean"}}},
        s.struct({"a": s.BOOLEAN}),
    ),
    "no type, but a limit": ({"minimum": 0}, s.FLOAT64),
    "no type, but a pattern": ({"pattern": "^a"}, s.STRING),
    "a string enum": (
        {"type": "string", "enum": ["a", "b"]},
        Schema(Type.STRING, parameters={ENUM: "", f"{ENUM}.a": "a", f"{ENUM}.b": "b"}),
    ),
    "a number enum": ({"type": "integer", "enum": [1, 2]}, s.INT64),
    "a constant": ({"type": "string", "const": "x"}, s.STRING),
    "order by index": (
        {
            "type": "object",
            "properties": {
                "b": {"type": "boolean", "connect.index": 1},
                "a": {"type": "string", "connect.index": 0},
            },
        },
        s.struct({"a": s.STRING, "b": s.BOOLEAN}),
    ),
    "a reference": (
        {
            "type": "object",
            "properties": {"p": {"$ref": "#/definitions/P"}, "q": {"$ref": "#/definitions/P"}},
            "definitions": {"P": PERSON},
        },
        s.struct({"p": PERSON_SCHEMA, "q": PERSON_SCHEMA}),
    ),
    "an optional reference": (
        {
            "type": "object",
            "properties": {"p": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/P"}]}},
            "$schema": DRAFT_2020,
            "$defs": {"P": PERSON},
        },
        s.struct({"p": PERSON_SCHEMA.as_optional()}),
    ),
    "an anchor": (
        {
            "$schema": DRAFT_2020,
            "type": "array",
            "items": {"$ref": "#person"},
            "$defs": {"P": {"$anchor": "person", **PERSON}},
        },
        s.array(PERSON_SCHEMA),
    ),
    "draft 4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://example.com/root.json",
            "type": "object",
            "properties": {"p": {"$ref": "#/definitions/P"}},
            "definitions": {"P": PERSON},
        },
        s.struct({"p": PERSON_SCHEMA}),
    ),
    "allOf": (
        {"allOf": [PERSON, {"properties": {"age": {"type": "integer"}}}]},
        s.struct({"name": s.STRING, "age": s.INT64}),
    ),
    "allOf beside properties": (
        {
            "type": "object",
            "title": "Employee",
            "properties": {"age": {"type": "integer"}},
            "allOf": [{"$ref": "#/definitions/P"}],
            "definitions": {"P": PERSON},
        },
        s.struct({"name": s.STRING, "age": s.INT64}),
    ),
    "allOf of one reference": (
        {"allOf": [{"$ref": "#/definitions/N"}], "definitions": {"N": {"type": "number"}}},
        s.FLOAT64,
    ),
    "a number as allOf": ({"allOf": [{"type": "number"}, {"const": 1}]}, s.FLOAT64),
    "a default": (
        {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}},
        s.struct({"n": replace(s.INT64, default=3)}),
    ),
    "an object without properties": ({"type": "object"}, s.struct({})),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_schemas_of_others_are_read(case: str) -> None:
    node, schema = FOREIGN[case]
    assert read_schema(node) == schema


def test_references_to_other_documents_are_followed() -> None:
    node = {"type": "object", "properties": {"p": {"$ref": "person.json"}}}
    expected = s.struct({"p": PERSON_SCHEMA})
    assert read_schema(node, person=PERSON) == expected
    assert read_schema({"$id": "http://e.com/a/b.json", **node}, person=PERSON) == expected
    inner = {"definitions": {"P": PERSON}}
    node = {"type": "array", "items": {"$ref": "lib.json#/definitions/P"}}
    assert read_schema(node, lib=inner) == s.array(PERSON_SCHEMA)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({}, "Unsupported schema type org.everit.json.schema.EmptySchema"),
        (True, "Unsupported schema type org.everit.json.schema.EmptySchema"),
        ({"type": "array"}, "Array schema did not specify the items type"),
        ({"type": "integer", "connect.type": "int7"}, "Unsupported type int7"),
        ({"type": "thing"}, r"unknown type: \[thing\]"),
        ({"not": {"type": "string"}}, "Unsupported schema type org.everit.json.schema.NotSchema"),
        ({"$ref": "#/definitions/none"}, "Could not resolve reference #/definitions/none"),
        (
            {"title": "Tree", "type": "object", "properties": {"left": {"$ref": "#"}}},
            "The JSON Schema Tree contains itself",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/definitions/A"}},
                "definitions": {"A": {"type": "array", "items": {"$ref": "#/definitions/A"}}},
            },
            "contains itself",
        ),
        ({"allOf": [{"type": "array", "items": {"type": "string"}}]}, "Unsupported criterion"),
    ],
)
def test_schemas_without_a_connect_schema_are_refused(node: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_schema(node)


def test_the_version_is_the_subjects_unless_the_schema_says_one() -> None:
    assert read_schema({"type": "boolean"}, version=4).version == 4
    assert read_schema({"type": "boolean", "connect.version": 9}, version=4).version == 9
    inside = read_schema({"type": "array", "items": {"type": "boolean"}}, version=4)
    assert inside.version == 4
    assert inside.value_schema == s.BOOLEAN


def test_generalized_sum_types_have_the_common_representation() -> None:
    options = Options(generalized=True)
    union = read_schema({"oneOf": [{"type": "string"}, {"type": "integer"}]}, options)
    assert union == Schema(
        Type.STRUCT,
        name="connect_union_0",
        parameters={UNION: "connect_union_0"},
        fields=s.fields_of(
            {"connect_union_field_0": s.OPTIONAL_STRING, "connect_union_field_1": s.OPTIONAL_INT64}
        ),
    )
    enum = read_schema({"enum": ["a", None]}, options)
    assert enum.parameters == {
        GENERAL_ENUM: "",
        f"{GENERAL_ENUM}.a": "0",
        f"{GENERAL_ENUM}.<NULL>": "1",
    }
    assert json_schema(enum, options) == {"enum": ["a", None]} | {
        "connect.parameters": dict(enum.parameters or {})
    }
    assert reader(union)("x") == {"connect_union_field_0": "x"}
    assert writer(union, options)({"connect_union_field_1": 3}) == 3


def test_additional_properties_can_be_refused() -> None:
    node = json_schema(s.struct({}), Options(additional_properties=False))
    assert node == {"type": "object", "additionalProperties": False}


def test_properties_that_are_not_required_can_be_optional() -> None:
    node = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    assert read_schema(node, Options(optional_nonrequired=True)) == s.struct(
        {"a": s.STRING, "b": s.OPTIONAL_STRING}
    )
    both = {"allOf": [node, {"properties": {"c": {"type": "string"}}}]}
    assert read_schema(both, Options(optional_nonrequired=True)) == s.struct(
        {"a": s.STRING, "b": s.OPTIONAL_STRING, "c": s.OPTIONAL_STRING}
    )
