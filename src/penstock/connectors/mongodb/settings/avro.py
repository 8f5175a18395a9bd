"""Avro schemas of settings as Connect's schemas (`output.schema.key`, `output.schema.value`).

It supports records, arrays, maps, primitive types, and unions with null, and ignores logical types,
as MongoDB's connector does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from penstock.api.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    Field,
    Schema,
    Type,
    array,
    map_of,
)

_PRIMITIVE: Final[Mapping[str, Schema]] = {
    "string": STRING,
    "bytes": BYTES,
    "int": INT32,
    "long": INT64,
    "float": FLOAT32,
    "double": FLOAT64,
    "boolean": BOOLEAN,
}
_INSTEAD: Final = {"fixed": "bytes", "enum": "string"}


class SchemaInvalid(ValueError):
    """A text that is not a supported Avro schema; the message says why."""


def schema_of(text: str) -> Schema:
    """The schema of a record, from Avro's JSON. Raises SchemaInvalid."""
    try:
        avro = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SchemaInvalid(f"Invalid Avro schema: {error}") from error
    schema = _Reader().schema(avro, "", "")
    if schema.type is not Type.STRUCT or schema.optional:
        raise SchemaInvalid("Only Record schemas are supported at the top-level.")
    return schema


class _Reader:
    """Reads one text; remembers its records by full name."""

    def __init__(self) -> None:
        self._known: dict[str, Schema | None] = {}

    def schema(self, avro: Any, path: str, space: str) -> Schema:
        if isinstance(avro, list):
            return self._union(avro, path, space)
        if isinstance(avro, str):
            return self._named(avro, path, space)
        if not isinstance(avro, Mapping) or "type" not in avro:
            raise _wrong(path, f"'{avro}' is not an Avro schema.")
        match avro["type"]:
            case "record":
                return self._record(avro, path, space)
            case "array":
                return array(self.schema(avro.get("items"), path, space))
            case "map":
                return map_of(STRING, self.schema(avro.get("values"), path, space))
        return self.schema(avro["type"], path, space)

    def _named(self, name: str, path: str, space: str) -> Schema:
        if name in _PRIMITIVE:
            return _PRIMITIVE[name]
        if name in _INSTEAD:
            raise _wrong(
                path,
                f"Unsupported Avro schema type: '{name.upper()}'. Use {_INSTEAD[name]} instead.",
            )
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self._known:
            raise _wrong(path, f"Unsupported Avro schema type: '{name}'.")
        schema = self._known[full]
        if schema is None:
            raise _wrong(path, f"The record '{full}' contains itself, which is not supported.")
        return schema

    def _union(self, branches: list[Any], path: str, space: str) -> Schema:
        others = [branch for branch in branches if branch != "null"]
        if len(branches) != 2 or len(others) != 1:
            raise _wrong(
                path,
                "Union Schemas are not supported, unless one value is null to represent an "
                "optional value.",
            )
        return self.schema(others[0], path, space).as_optional()

    def _record(self, record: Mapping[str, Any], path: str, space: str) -> Schema:
        name, fields = record.get("name"), record.get("fields")
        if not isinstance(name, str) or not isinstance(fields, list):
            raise _wrong(path, "A record needs a name and fields.")
        space = record.get("namespace", name.rpartition(".")[0] or space)
        full = name if "." in name or not space else f"{space}.{name}"
        self._known[full] = None
        converted: list[Field] = []
        for field in fields:
            if not isinstance(field, Mapping) or not isinstance(field.get("name"), str):
                raise _wrong(path, "A field needs a name and a type.")
            inside = f"{path}.{field['name']}" if path else field["name"]
            schema = self.schema(field.get("type"), inside, space)
            default = field.get("default")
            if default is not None:
                schema = replace(schema, default=_default(schema, default))
            converted.append(Field(field["name"], len(converted), schema))
        schema = Schema(Type.STRUCT, name=full, fields=tuple(converted))
        self._known[full] = schema
        return schema


def _default(schema: Schema, value: Any) -> Any:
    """A default as a Connect value: Avro writes bytes as a text of Latin-1."""
    if schema.type is Type.BYTES and isinstance(value, str):
        return value.encode("latin-1")
    if schema.type in (Type.FLOAT32, Type.FLOAT64) and isinstance(value, int):
        return float(value)
    return value


def _wrong(path: str, text: str) -> SchemaInvalid:
    return SchemaInvalid(f"Field '{path}' is invalid. {text}" if path else text)
