"""Avro schemas of settings as Connect's schemas (`output.schema.key`, `output.schema.value`).

Of Avro's types there are records, arrays, maps, the primitive ones, and unions with null; logical
types do not count, as in MongoDB's connector.
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
    """A text that is no Avro schema that can be used; the message tells why."""


def schema_of(text: str) -> Schema:
    """The schema of a text with a record. Raises SchemaInvalid."""
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SchemaInvalid(f"Invalid Avro schema: {error}") from error
    schema = _Reader().schema(given, "", "")
    if schema.type is not Type.STRUCT or schema.optional:
        raise SchemaInvalid("Only Record schemas are supported at the top-level.")
    return schema


class _Reader:
    """Reads one text; knows the records it has met, by full name."""

    def __init__(self) -> None:
        self._known: dict[str, Schema | None] = {}

    def schema(self, given: Any, path: str, space: str) -> Schema:
        if isinstance(given, list):
            return self._union(given, path, space)
        if isinstance(given, str):
            return self._named(given, path, space)
        if not isinstance(given, Mapping) or "type" not in given:
            raise _wrong(path, f"'{given}' is no Avro schema.")
        match given["type"]:
            case "record":
                return self._record(given, path, space)
            case "array":
                return array(self.schema(given.get("items"), path, space))
            case "map":
                return map_of(STRING, self.schema(given.get("values"), path, space))
        return self.schema(given["type"], path, space)

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
        found = self._known[full]
        if found is None:
            raise _wrong(path, f"The record '{full}' contains itself, which is not supported.")
        return found

    def _union(self, given: list[Any], path: str, space: str) -> Schema:
        others = [each for each in given if each != "null"]
        if len(given) != 2 or len(others) != 1:
            raise _wrong(
                path,
                "Union Schemas are not supported, unless one value is null to represent an "
                "optional value.",
            )
        return self.schema(others[0], path, space).as_optional()

    def _record(self, given: Mapping[str, Any], path: str, space: str) -> Schema:
        name, fields = given.get("name"), given.get("fields")
        if not isinstance(name, str) or not isinstance(fields, list):
            raise _wrong(path, "A record needs a name and fields.")
        space = given.get("namespace", name.rpartition(".")[0] or space)
        full = name if "." in name or not space else f"{space}.{name}"
        self._known[full] = None
        found: list[Field] = []
        for each in fields:
            if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
                raise _wrong(path, "A field needs a name and a type.")
            inside = f"{path}.{each['name']}" if path else each["name"]
            schema = self.schema(each.get("type"), inside, space)
            default = each.get("default")
            if default is not None:
                schema = replace(schema, default=_default(schema, default))
            found.append(Field(each["name"], len(found), schema))
        schema = Schema(Type.STRUCT, name=full, fields=tuple(found))
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
