"""The mapping of an index, from the schema of its records (connectors.md §15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.api import DataError
from penstock.api.schema import (
    Logical,
    Schema,
    Type,
    date_to_days,
    time_to_ms,
    timestamp_to_ms,
)

TYPES: Final[Mapping[Type, str]] = {
    Type.BOOLEAN: "boolean",
    Type.INT8: "byte",
    Type.INT16: "short",
    Type.INT32: "integer",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.STRING: "text",
    Type.BYTES: "binary",
}
"""Field types by Connect's types; an array has the type of its elements."""

LOGICAL_TYPES: Final[Mapping[Logical, str]] = {
    Logical.DECIMAL: "double",
    Logical.DATE: "date",
    Logical.TIME: "date",
    Logical.TIMESTAMP: "date",
}

_MS_PER_DAY: Final = 86_400_000
_KEYWORD: Final = {"keyword": {"type": "keyword", "ignore_above": 256}}
_WITHOUT_NULL: Final = ("text", "binary")  # they have no `null_value`


def mapping_of(schema: Schema | None) -> dict[str, Any]:
    """The mapping of documents with this schema. Raises DataError without one.

    >>> from penstock.api.schema import INT32, struct
    >>> mapping_of(struct({"id": INT32}))
    {'properties': {'id': {'type': 'integer'}}}
    """
    if schema is None:
        raise DataError("Cannot infer mapping without schema.")
    if schema.logical is not None:
        return _primitive(LOGICAL_TYPES[schema.logical], _default(schema))
    match schema.type:
        case Type.ARRAY:
            return mapping_of(schema.value_schema)
        case Type.MAP:
            return {
                "properties": {
                    "key": mapping_of(schema.key_schema),
                    "value": mapping_of(schema.value_schema),
                }
            }
        case Type.STRUCT:
            return {"properties": {field.name: mapping_of(field.schema) for field in schema.fields}}
    return _primitive(TYPES[schema.type], schema.default)


def _primitive(type: str, default: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = {"type": type}
    if type == "text":
        mapping["fields"] = _KEYWORD
    if default is not None and type not in _WITHOUT_NULL:
        mapping["null_value"] = default
    return mapping


def _default(schema: Schema) -> Any:
    """The default of a logical type, in the form of the mapping: dates in ms."""
    default = schema.default
    if default is None:
        return None
    match schema.logical:
        case Logical.DATE:
            return date_to_days(default) * _MS_PER_DAY
        case Logical.TIME:
            return time_to_ms(default)
        case Logical.TIMESTAMP:
            return timestamp_to_ms(default)
    return float(default)
