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
    """The schema. Raises DataError, which says what is wrong."""
    try:
        given = orjson.loads(text)
    except ValueError as cause:
        raise DataError(f"It is no JSON: {cause}") from cause
    return _schema(given, "the schema")


def schema_problem(text: str | None) -> str | None:
    """What is wrong with a schema; an empty text is none."""
    if not text:
        return None
    try:
        schema = parsed_schema(text)
    except DataError as error:
        return str(error)
    return None if schema.type is Type.STRUCT else "It is no STRUCT"


def _schema(given: Any, place: str) -> Schema:
    if not isinstance(given, Mapping):
        raise DataError(f"{place} is no object")
    try:
        type = Type[str(given.get("type"))]
    except KeyError as cause:
        raise DataError(f"{place} has no type that there is: {given.get('type')!r}") from cause
    about: dict[str, Any] = {
        "optional": bool(given.get("isOptional", False)),
        "name": given.get("name"),
        "version": given.get("version"),
        "doc": given.get("doc"),
        "parameters": given.get("parameters") or None,
    }
    if type is Type.STRUCT:
        members = given.get("fieldSchemas")
        if not isinstance(members, Mapping):
            raise DataError(f"{place} has no fieldSchemas")
        schemas = {name: _schema(each, f"field '{name}'") for name, each in members.items()}
        return Schema(type, **about, fields=fields_of(schemas))
    if type in (Type.ARRAY, Type.MAP):
        about["value_schema"] = _schema(given.get("valueSchema"), f"the valueSchema of {place}")
    if type is Type.MAP:
        about["key_schema"] = _schema(given.get("keySchema"), f"the keySchema of {place}")
    return Schema(type, **about)
