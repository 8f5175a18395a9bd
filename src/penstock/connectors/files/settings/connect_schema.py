"""Schemas as the spooldir connectors write them in `key.schema` and `value.schema`:

{"name": "User", "type": "STRUCT", "isOptional": false,
 "fieldSchemas": {"id": {"type": "INT64", "isOptional": false}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from penstock.api import DataError
from penstock.api.schema import Schema, Type, fields_of


def parsed_schema(text: str) -> Schema:
    """The schema. Raises DataError with the problem."""
    try:
        document = orjson.loads(text)
    except ValueError as cause:
        raise DataError(f"It is not JSON: {cause}") from cause
    return _schema(document, "the schema")


def schema_problem(text: str | None) -> str | None:
    """The problem of a schema, or None; an empty text has none."""
    if not text:
        return None
    try:
        schema = parsed_schema(text)
    except DataError as error:
        return str(error)
    return None if schema.type is Type.STRUCT else "It is not a STRUCT"


def _schema(node: Any, place: str) -> Schema:
    if not isinstance(node, Mapping):
        raise DataError(f"{place} is not an object")
    try:
        type = Type[str(node.get("type"))]
    except KeyError as cause:
        raise DataError(f"{place} has an unknown type: {node.get('type')!r}") from cause
    attributes: dict[str, Any] = {
        "optional": bool(node.get("isOptional", False)),
        "name": node.get("name"),
        "version": node.get("version"),
        "doc": node.get("doc"),
        "parameters": node.get("parameters") or None,
    }
    if type is Type.STRUCT:
        fields = node.get("fieldSchemas")
        if not isinstance(fields, Mapping):
            raise DataError(f"{place} has no fieldSchemas")
        schemas = {name: _schema(field, f"field '{name}'") for name, field in fields.items()}
        return Schema(type, **attributes, fields=fields_of(schemas))
    if type in (Type.ARRAY, Type.MAP):
        attributes["value_schema"] = _schema(node.get("valueSchema"), f"the valueSchema of {place}")
    if type is Type.MAP:
        attributes["key_schema"] = _schema(node.get("keySchema"), f"the keySchema of {place}")
    return Schema(type, **attributes)
