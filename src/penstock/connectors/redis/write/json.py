"""Values as JSON, like the JsonConverter without schemas, or like Lenses' connectors.

type                 JsonConverter                    Lenses
Decimal              base64 of the unscaled value     a number
Date                 days since 1970                  "2026-01-31T00:00:00.000Z"
Time                 ms of the day                    "12:30:00.000+0000"
Timestamp            ms since the epoch               the same
BYTES                base64                           base64
MAP of strings       an object                        an object
other MAPs           an array of pairs                an array of pairs
NaN, infinite        "NaN", "Infinity", "-Infinity"   the same
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import orjson

from penstock.api import DataError
from penstock.api.schema import (
    Logical,
    Schema,
    Type,
    Value,
    decimal_text,
    decimal_to_bytes,
    pairs,
    timestamp_to_ms,
)
from penstock.connectors.keyed.documents import LOGICAL, Node, any_node, bytes_node, float_node


@lru_cache(maxsize=1_000)
def node_of(schema: Schema | None, *, lenses: bool) -> Node:
    """The function that converts values of a schema to JSON nodes; it raises DataError."""
    node = any_node if schema is None else _node(schema, lenses)

    def write(value: Value) -> Any:
        try:
            return node(value)
        except DataError:
            raise
        except Exception as cause:
            raise DataError(f"The value cannot be written as JSON: {cause}") from cause

    return write


_LENSES: Final[dict[Logical, Node]] = {
    Logical.DECIMAL: lambda value: orjson.Fragment(decimal_text(value)),
    Logical.DATE: lambda value: f"{value.isoformat()}T00:00:00.000Z",
    Logical.TIME: lambda value: f"{value.isoformat('milliseconds')}+0000",
    Logical.TIMESTAMP: timestamp_to_ms,
}


def _node(schema: Schema, lenses: bool) -> Node:
    plain = _plain(schema, lenses)
    default = None if schema.default is None else plain(schema.default)
    if default is None and not schema.optional and plain is not _same:
        return plain
    return lambda value: default if value is None else plain(value)


def _same(value: Value) -> Any:
    return value


def _plain(schema: Schema, lenses: bool) -> Node:
    if schema.logical is not None:
        if lenses:
            return _LENSES[schema.logical]
        if schema.logical is Logical.DECIMAL:
            scale = schema.scale
            return lambda value: bytes_node(decimal_to_bytes(value, scale))
        return LOGICAL[schema.logical]
    match schema.type:
        case Type.STRUCT:
            fields = [(field.name, _node(field.schema, lenses)) for field in schema.fields]
            return lambda value: {name: node(value.get(name)) for name, node in fields}
        case Type.MAP:
            return _map(schema, lenses)
        case Type.ARRAY:
            element = _inner(schema.value_schema, lenses)
            return lambda value: [element(item) for item in value]
        case Type.BYTES:
            return bytes_node
        case Type.FLOAT32 | Type.FLOAT64:
            return float_node
    return _same


def _inner(schema: Schema | None, lenses: bool) -> Node:
    return any_node if schema is None else _node(schema, lenses)


def _map(schema: Schema, lenses: bool) -> Node:
    keys, values = _inner(schema.key_schema, lenses), _inner(schema.value_schema, lenses)
    if schema.key_schema is not None and schema.key_schema.type is Type.STRING:
        return lambda value: {keys(key): values(item) for key, item in pairs(value)}
    return lambda value: [[keys(key), values(item)] for key, item in pairs(value)]
