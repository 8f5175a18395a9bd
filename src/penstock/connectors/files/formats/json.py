"""JSON lines, as Kafka Connect's JsonConverter writes values without schemas.

STRUCT                      an object with all fields
MAP                         an object; an array of pairs if the keys are not strings
BYTES                       base64
Decimal                     base64 of the unscaled value, or a number (`json.decimal.format`)
Date, Time, Timestamp       days, ms of the day, ms since the epoch
NaN, infinite               null
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import orjson

from penstock.api import Column, DataError, Failed
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
from penstock.connectors.files.formats.codecs import FILE_CODECS, compressing
from penstock.connectors.files.formats.format import Encoder, Format, Out

Plain = Callable[[Value], Any]
"""Converts a Connect value to one that the JSON library can write."""

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


class JsonLines(Format):
    """One JSON value on each line."""

    def __init__(self, codec: str = "none", level: int | None = None, *, numeric: bool = False):
        self._codec = codec
        self._level = level
        self._numeric = numeric

    @property
    def ending(self) -> str:
        return f".json{FILE_CODECS[self._codec]}"

    def open(self, schema: Schema | None, out: Out, seed: str) -> Encoder[Any]:
        return _JsonEncoder(self, schema, out)

    def texts(self, schema: Schema | None, values: list[Value]) -> list[bytes] | Failed:
        """A line for each value."""
        plain = plain_of(schema, self._numeric)
        dumps = orjson.dumps
        try:
            if plain is None:
                return [dumps(value, _default, _OPTIONS) for value in values]
            return [dumps(plain(value), _default, _OPTIONS) for value in values]
        except Exception:
            return _one_by_one(plain, values)

    def stream(self, out: Out) -> Any:
        return compressing(self._codec, self._level, out)


class _JsonEncoder(Encoder[list[bytes]]):
    def __init__(self, format: JsonLines, schema: Schema | None, out: Out) -> None:
        self._format = format
        self._schema = schema
        self._stream = format.stream(out)

    def encode(self, column: Column) -> list[bytes] | Failed:
        return self._format.texts(self._schema, column.values)

    def append(self, encoded: list[bytes]) -> None:
        self._stream.write(b"".join(encoded))

    def finish(self) -> None:
        self._stream.finish()


def _one_by_one(plain: Plain | None, values: list[Value]) -> list[bytes] | Failed:
    lines: list[bytes] = []
    failed: Failed = {}
    for row, value in enumerate(values):
        try:
            lines.append(line(value if plain is None else plain(value)))
        except DataError as error:
            failed[row] = error
        except Exception as error:
            failed[row] = DataError(f"The value cannot be written as JSON: {error}")
    return failed or lines


def line(value: Any) -> bytes:
    """A line with a value that `plain_of` converted."""
    try:
        return orjson.dumps(value, _default, _OPTIONS)
    except TypeError:
        # Integers beyond 64 bits; other values fail again.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _default(value: Any) -> Any:
    """Converts values without a schema that JSON cannot represent."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} is not JSON")


@lru_cache(maxsize=256)
def plain_of(schema: Schema | None, numeric: bool) -> Plain | None:
    """The function that converts values of a schema for JSON; None: no conversion is needed."""
    if schema is None:
        return None
    make = _plain(schema, numeric)
    default = schema.default
    if default is not None:
        plain_default = default if make is None else make(default)
        if make is None:
            return lambda value: plain_default if value is None else value
        return lambda value: plain_default if value is None else make(value)
    if make is None:
        return None
    return lambda value: None if value is None else make(value)


def _plain(schema: Schema, numeric: bool) -> Plain | None:
    match schema.logical:
        case Logical.DECIMAL if numeric:
            return lambda value: orjson.Fragment(str(value))
        case Logical.DECIMAL:
            scale = schema.scale
            return lambda value: b64encode(decimal_to_bytes(value, scale)).decode()
        case Logical.DATE:
            return date_to_days
        case Logical.TIME:
            return time_to_ms
        case Logical.TIMESTAMP:
            return timestamp_to_ms
    match schema.type:
        case Type.BYTES:
            return lambda value: b64encode(value).decode()
        case Type.FLOAT32:
            return np.float32  # prints the shortest digits for 32 bits
        case Type.ARRAY:
            element = plain_of(schema.value_schema, numeric)
            return None if element is None else lambda value: [element(item) for item in value]
        case Type.MAP:
            return _map(schema, numeric)
        case Type.STRUCT:
            return _struct(schema, numeric)
    return None


def _map(schema: Schema, numeric: bool) -> Plain | None:
    key = plain_of(schema.key_schema, numeric) or _same
    value = plain_of(schema.value_schema, numeric) or _same
    if schema.key_schema is not None and schema.key_schema.type is Type.STRING:
        if value is _same:
            return None
        return lambda map: {name: value(item) for name, item in map.items()}
    return lambda map: [[key(name), value(item)] for name, item in pairs(map)]


def _struct(schema: Schema, numeric: bool) -> Plain:
    conversions = [(name, make) for name, make in _fields(schema, numeric) if make is not None]
    names = schema.field_names
    count = len(names)

    def struct(value: Value) -> Any:
        if len(value) != count:
            value = {name: value.get(name) for name in names}
        if not conversions:
            return value
        changed = dict(value)
        for name, make in conversions:
            changed[name] = make(changed[name])
        return changed

    return struct


def _fields(schema: Schema, numeric: bool) -> list[tuple[str, Plain | None]]:
    return [(field.name, plain_of(field.schema, numeric)) for field in schema.fields]


def _same(value: Value) -> Any:
    return value
