"""Connect schemas as JSON Schema, as Confluent's JsonSchemaConverter (kafka-connect.md §9.5).

    INT8 … INT64, FLOAT32, FLOAT64   integer or number, `connect.type` says which
    BOOLEAN, STRING                  boolean, string; a STRING with enum parameters: enum
    BYTES                            string, `connect.type` bytes; a Decimal: number
    ARRAY                            array
    MAP                              object with `additionalProperties`, `connect.type` map; with
                                     keys that are not text an array of {key, value} objects
    STRUCT                           object, each property with its `connect.index`
    union                            oneOf
    optional                         oneOf null and the schema

Name, doc, version and parameters are `title`, `description`, `connect.version` and
`connect.parameters`. Properties are in the order of the fields; in the JVM they are in the order of
a hash map, so a registry that compares texts may take one schema for two (`normalize.schemas` puts
both in one order).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.data.schema import Logical, Schema, Type, Value
from penstock.errors import DataError
from penstock.schema_registry.json_schema_names import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    GENERAL_ENUM,
    KEY,
    MAP,
    NAMESPACE,
    NULL_SYMBOL,
    VALUE,
    Options,
    is_text_key,
    is_union,
)
from penstock.schema_registry.json_schema_write import writer

Node = dict[str, Value]

_CONNECT_TYPES = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
}


def json_schema(schema: Schema, options: Options) -> Node:
    """The JSON Schema of a Connect schema. Raises DataError for a schema without one."""
    return _node(schema, None, options)


def _node(schema: Schema | None, index: int | None, options: Options) -> Node:
    if schema is None:
        raise DataError("A JSON Schema cannot express an array or map of anything")
    if is_union(schema):
        null: list[Node] = [{"type": "null"}] if schema.optional else []
        return _indexed(
            {
                "oneOf": null
                + [
                    _node(replace(field.schema, optional=False), field.index, options)
                    for field in schema.fields
                ]
            },
            index,
        )
    if schema.optional:
        inner = _node(replace(schema, optional=False), None, options)
        return _indexed({"oneOf": [{"type": "null"}, inner]}, index)
    node: Node = {}
    if schema.name is not None:
        node["title"] = schema.name
    if schema.doc is not None:
        node["description"] = schema.doc
    if schema.default is not None:
        node["default"] = writer(schema, options)(schema.default)
    node |= _shape(schema, options)
    if schema.version is not None:
        node[CONNECT_VERSION] = schema.version
    # The converter's parameters only repeat what the rest of the document says.
    parameters = {
        name: text
        for name, text in (schema.parameters or {}).items()
        if not name.startswith(NAMESPACE)
    }
    if parameters:
        node[CONNECT_PARAMETERS] = parameters
    return _indexed(node, index)


def _indexed(node: Node, index: int | None) -> Node:
    if index is not None:
        node[CONNECT_INDEX] = index
    return node


def _shape(schema: Schema, options: Options) -> Node:
    """The members that determine the type."""
    match schema.type:
        case Type.BOOLEAN:
            return {"type": "boolean"}
        case Type.STRING:
            symbols = _symbols(schema, options)
            return {"type": "string"} if symbols is None else {"enum": symbols}
        case Type.BYTES:
            kind = "number" if schema.logical is Logical.DECIMAL else "string"
            return {"type": kind, CONNECT_TYPE: "bytes"}
        case Type.ARRAY:
            return {"type": "array", "items": _node(schema.value_schema, None, options)}
        case Type.MAP if is_text_key(schema.key_schema):
            values = _node(schema.value_schema, None, options)
            return {"type": "object", "additionalProperties": values, CONNECT_TYPE: MAP}
        case Type.MAP:
            entry = {
                KEY: _node(schema.key_schema, 0, options),
                VALUE: _node(schema.value_schema, 1, options),
            }
            items = {"type": "object", "properties": entry}
            return {"type": "array", "items": items, CONNECT_TYPE: MAP}
        case Type.STRUCT:
            node: Node = {"type": "object"}
            if schema.fields:
                node["properties"] = {
                    field.name: _node(field.schema, field.index, options) for field in schema.fields
                }
            if not options.additional_properties:
                node["additionalProperties"] = False
            return node
        case _:
            kind, connect_type = _CONNECT_TYPES[schema.type]
            return {"type": kind, CONNECT_TYPE: connect_type}


def _symbols(schema: Schema, options: Options) -> list[str | None] | None:
    """The symbols of a STRING that is an enum, in order; None for others."""
    parameters = schema.parameters or {}
    marks = (GENERAL_ENUM, ENUM) if options.generalized else (ENUM, GENERAL_ENUM)
    mark = next((name for name in marks if name in parameters), None)
    if mark is None:
        return None
    names = [name[len(mark) + 1 :] for name in parameters if name.startswith(f"{mark}.")]
    return [None if name == NULL_SYMBOL else name for name in names]
