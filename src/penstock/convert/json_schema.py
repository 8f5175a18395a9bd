"""Connect schemas as JSON, both ways (kafka-connect.md §9.2).

Members are written in the order `type`, `items` or `keys`, `values` or `fields`, `optional`,
`name`, `version`, `doc`, `parameters`, `default`, and for a struct's field `field` last. When
reading, unknown members and most known ones of the wrong JSON type are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from penstock.data.schema import Field, Schema, Type, Value, check, wrap_int
from penstock.errors import DataError

JSON_TYPES: Final[Mapping[Type, str]] = {
    Type.BOOLEAN: "boolean",
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BYTES: "bytes",
    Type.STRING: "string",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "struct",
}
_TYPES: Final[Mapping[str, Type]] = {name: type for type, name in JSON_TYPES.items()}

DefaultReader = Callable[[Schema, Value], Value]
"""Reads the Connect value of a schema from its JSON."""

DefaultWriter = Callable[[Schema, Value], Value]
"""Writes a schema's value as JSON."""


def read_schema(node: Value, read_default: DefaultReader) -> Schema | None:
    """The schema that parsed JSON describes; None for null. Raises DataError."""
    if node is None:
        return None
    members: Mapping[str, Value] = node if isinstance(node, dict) else {}
    type_name = members.get("type")
    if not isinstance(type_name, str):
        raise DataError("Schema must contain 'type' field")
    schema = _bare_schema(type_name, members, read_default)
    schema = replace(
        schema,
        optional=members.get("optional") is True,
        name=_text(members.get("name")),
        version=_integer(members.get("version")),
        doc=_text(members.get("doc")),
        parameters=_parameters(members.get("parameters")),
    )
    if "default" not in members:
        return schema
    default = read_default(schema, members["default"])
    try:
        check(schema, default)
    except DataError as cause:
        raise DataError("Invalid default value") from cause
    return replace(schema, default=default)


def _bare_schema(
    type_name: str, members: Mapping[str, Value], read_default: DefaultReader
) -> Schema:
    """The type and its inner schemas."""
    type = _TYPES.get(type_name)
    match type:
        case None:
            raise DataError(f"Unknown schema type: {type_name}")
        case Type.ARRAY:
            items = members.get("items")
            if items is None:
                raise DataError("Array schema did not specify the element type")
            return Schema(type, value_schema=read_schema(items, read_default))
        case Type.MAP:
            for member, part in (("keys", "key"), ("values", "value")):
                if member not in members:
                    raise DataError(f"Map schema did not specify the {part} type")
            keys = read_schema(members["keys"], read_default)
            values = read_schema(members["values"], read_default)
            for inner, part in ((keys, "key"), (values, "value")):
                if inner is None:
                    raise DataError(f"{part}Schema cannot be null.")
            return Schema(type, key_schema=keys, value_schema=values)
        case Type.STRUCT:
            fields = members.get("fields")
            if not isinstance(fields, list):
                raise DataError('Struct schema\'s "fields" argument is not an array.')
            return Schema(
                type,
                fields=tuple(
                    _field(index, field, read_default) for index, field in enumerate(fields)
                ),
            )
        case _:
            return Schema(type)


def _field(index: int, node: Value, read_default: DefaultReader) -> Field:
    name = node.get("field") if isinstance(node, dict) else None
    if not isinstance(name, str):
        raise DataError("Struct schema's field name not specified properly")
    schema = read_schema(node, read_default)
    assert schema is not None  # the node is an object
    return Field(name, index, schema)


def _text(node: Value) -> str | None:
    return node if isinstance(node, str) else None


def _integer(node: Value) -> int | None:
    integral = isinstance(node, int) and not isinstance(node, bool)
    return wrap_int(node, Type.INT32) if integral else None


def _parameters(node: Value) -> Mapping[str, str] | None:
    if not isinstance(node, dict) or not node:
        return None
    if not all(isinstance(text, str) for text in node.values()):
        raise DataError("Schema parameters must have string values.")
    return node


def schema_node(schema: Schema | None, write_default: DefaultWriter) -> Value:
    """The JSON object that describes a schema, with members in the JVM's order; null for None."""
    if schema is None:
        return None
    node: dict[str, Value] = {"type": JSON_TYPES[schema.type]}
    match schema.type:
        case Type.ARRAY:
            node["items"] = schema_node(schema.value_schema, write_default)
        case Type.MAP:
            node["keys"] = schema_node(schema.key_schema, write_default)
            node["values"] = schema_node(schema.value_schema, write_default)
        case Type.STRUCT:
            node["fields"] = [
                {**schema_node(field.schema, write_default), "field": field.name}
                for field in schema.fields
            ]
    node["optional"] = schema.optional
    if schema.name is not None:
        node["name"] = schema.name
    if schema.version is not None:
        node["version"] = schema.version
    if schema.doc is not None:
        node["doc"] = schema.doc
    if schema.parameters is not None:
        node["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        node["default"] = write_default(schema, schema.default)
    return node
