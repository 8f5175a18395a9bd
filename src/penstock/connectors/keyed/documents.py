"""Values as the JSON of documents (connectors.md §15).

With its schema a value follows the mapping made from the schema; without (`schema.ignore`, or no
schema at all) it is what the JsonConverter writes.

type                with its schema                     without
Decimal             a number (double)                   base64 of the unscaled value
MAP, texts as keys  an object, or as other maps         an object
MAP, other keys     an array of {"key": …, "value": …}  an array of pairs
BYTES               base64                              base64
Date, Time,         days, ms of the day,                the same
Timestamp           ms since the epoch
NaN, infinite       "NaN", "Infinity", "-Infinity"      the same
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import orjson

from penstock.api import DataError
from penstock.api.schema import (
    Logical,
    Schema,
    Type,
    Value,
    date_to_days,
    decimal_to_bytes,
    pairs,
    time_to_ms,
    timestamp_to_ms,
)

Node = Callable[[Value], Any]
"""Converts a value to a type that the JSON library can write."""


@lru_cache(maxsize=1_000)
def node_writer(schema: Schema | None, *, mapped: bool, compact: bool) -> Node:
    """The function that converts a schema's values into nodes; it raises DataError. `mapped`: for
    the mapping made from the schema; `compact`: maps with texts as keys are objects then."""
    node = any_node if schema is None else _node(schema, mapped, compact)

    def write(value: Value) -> Any:
        try:
            return node(value)
        except DataError:
            raise
        except Exception as cause:
            raise DataError(f"The value cannot be written as JSON: {cause}") from cause

    return write


def dump(node: Any) -> bytes:
    """The JSON of a node. Raises DataError if JSON cannot hold it."""
    try:
        return orjson.dumps(node)
    except TypeError:
        # Greater than 64 bits, nested too deeply, or with a lone surrogate.
        try:
            return json.dumps(node, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as cause:
            raise DataError(f"The value cannot be written as JSON: {cause}") from cause


def float_node(value: Value) -> Any:
    """A number, or the name of one that JSON does not have."""
    if isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def bytes_node(value: Value) -> str:
    return b64encode(value).decode()


LOGICAL: Final[dict[Logical, Node]] = {
    Logical.DATE: date_to_days,
    Logical.TIME: time_to_ms,
    Logical.TIMESTAMP: timestamp_to_ms,
}


def _same(value: Value) -> Any:
    return value


def _node(schema: Schema, mapped: bool, compact: bool) -> Node:
    """Like `_plain`, for null too."""
    plain = _plain(schema, mapped, compact)
    if schema.default is not None:
        default = plain(schema.default)

        def with_default(value: Value) -> Any:
            return default if value is None else plain(value)

        return with_default
    if schema.optional:
        if plain is _same:
            return _same

        def optional(value: Value) -> Any:
            return None if value is None else plain(value)

        return optional

    def required(value: Value) -> Any:
        if value is None:
            raise DataError("null value for field that is required and has no default value")
        return plain(value)

    return required


def _plain(schema: Schema, mapped: bool, compact: bool) -> Node:
    if schema.logical is Logical.DECIMAL:
        if mapped:
            return lambda value: float_node(float(value))
        scale = schema.scale
        return lambda value: bytes_node(decimal_to_bytes(value, scale))
    if schema.logical is not None:
        return LOGICAL[schema.logical]
    match schema.type:
        case Type.STRUCT:
            return _struct(schema, mapped, compact)
        case Type.MAP:
            return _map(schema, mapped, compact)
        case Type.ARRAY:
            element = _inner(schema.value_schema, mapped, compact)
            return lambda value: [element(item) for item in value]
        case Type.BYTES:
            return bytes_node
        case Type.FLOAT32 | Type.FLOAT64:
            return float_node
    return _same


def _inner(schema: Schema | None, mapped: bool, compact: bool) -> Node:
    return any_node if schema is None else _node(schema, mapped, compact)


def _struct(schema: Schema, mapped: bool, compact: bool) -> Node:
    fields = [(field.name, _node(field.schema, mapped, compact)) for field in schema.fields]

    def struct(value: Value) -> Any:
        get = value.get
        return {name: node(get(name)) for name, node in fields}

    return struct


def _map(schema: Schema, mapped: bool, compact: bool) -> Node:
    keys = _inner(schema.key_schema, mapped, compact)
    values = _inner(schema.value_schema, mapped, compact)
    of_texts = schema.key_schema is not None and schema.key_schema.type is Type.STRING
    if of_texts and (compact or not mapped):
        return lambda value: {keys(key): values(item) for key, item in pairs(value)}
    if mapped:
        return lambda value: [
            {"key": keys(key), "value": values(item)} for key, item in pairs(value)
        ]
    return lambda value: [[keys(key), values(item)] for key, item in pairs(value)]


def any_node(value: Value) -> Any:
    """A value without a schema."""
    kind = type(value)
    if value is None or kind in (str, int, bool):
        return value
    if kind is float:
        return float_node(value)
    if kind is dict:
        if all(type(key) is str for key in value):
            return {key: any_node(item) for key, item in value.items()}
        return [[any_node(key), any_node(item)] for key, item in value.items()]
    if kind is list:
        return [any_node(item) for item in value]
    if kind is bytes:
        return bytes_node(value)
    raise DataError(f"A value of {kind.__name__} without a schema cannot be written as JSON")
