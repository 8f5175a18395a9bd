"""Values as text, as Kafka Connect's `Values` writes them (kafka-connect.md §9.4). `values.parse`
may read them again."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Final

from penstock.data.java_dates import DateFormat
from penstock.data.logical import MS_PER_DAY, date_to_days, time_to_ms, timestamp_to_ms
from penstock.data.schema import Schema, Type, Value, java_class, pairs
from penstock.data.text import decimal_text, double_text, float_text
from penstock.errors import DataError

DATE_FORMAT: Final = DateFormat("yyyy-MM-dd")
TIME_FORMAT: Final = DateFormat("HH:mm:ss.SSS'Z'")
TIMESTAMP_FORMAT: Final = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")

TextOf = Callable[[Value], str]


def to_text(schema: Schema | None, value: Value) -> str | None:
    """The text of a value; None for null. Raises DataError if it is not a Connect value.

    Strings are in quotes within an array, map or struct. Bytes are base64. A struct looks like a
    map. A temporal before 1970-01-02 is written as a time only.

    >>> to_text(None, ["a", 1, {"k": None}])
    '["a",1,{"k":null}]'
    """
    return None if value is None else text_of(schema)(value)


def text_of(schema: Schema | None) -> TextOf:
    """The function that writes a schema's values that are not null."""
    return _any_text if schema is None else _writer(schema, False)


@lru_cache(maxsize=1024)
def _inner_writer(schema: Schema) -> TextOf:
    write = _writer(schema, True)
    return lambda value: "null" if value is None else write(value)


def _inner_of(schema: Schema | None) -> TextOf:
    return _any_inner if schema is None else _inner_writer(schema)


@lru_cache(maxsize=1024)
def _writer(schema: Schema, inner: bool) -> TextOf:
    any_text = _any_inner if inner else _any_text
    if schema.logical is not None:
        return any_text
    match schema.type:
        case Type.FLOAT32:
            return lambda value: float_text(value) if type(value) is float else any_text(value)
        case Type.ARRAY:
            element = _inner_of(schema.value_schema)
            return lambda value: (
                f"[{','.join(map(element, value))}]" if type(value) is list else any_text(value)
            )
        case Type.MAP:
            of_key, of_value = _inner_of(schema.key_schema), _inner_of(schema.value_schema)
            return _map_writer(of_key, of_value, any_text)
        case Type.STRUCT:
            return _struct_writer(schema, any_text)
        case _:
            return any_text


def _is_pairs(value: Value) -> bool:
    """Whether a value is a map as a list of pairs."""
    return type(value) is list and (not value or type(value[0]) is tuple)


def _map_writer(of_key: TextOf, of_value: TextOf, any_text: TextOf) -> TextOf:
    def write(value: Value) -> str:
        if not isinstance(value, dict) and not _is_pairs(value):
            return any_text(value)
        inside = ",".join(f"{of_key(key)}:{of_value(item)}" for key, item in pairs(value))
        return f"{{{inside}}}"

    return write


def _struct_writer(schema: Schema, any_text: TextOf) -> TextOf:
    fields = [
        (_quoted_text(field.name), field.name, field.schema.default, _inner_writer(field.schema))
        for field in schema.fields
    ]

    def write(value: Value) -> str:
        if type(value) is not dict:
            return any_text(value)
        inside = []
        for quoted, name, default, of in fields:
            member = value.get(name)
            inside.append(f"{quoted}:{of(default if member is None else member)}")
        return f"{{{','.join(inside)}}}"

    return write


def _quoted_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _any_inner(value: Value) -> str:
    """The text of a value within another; it may be null."""
    if value is None:
        return "null"
    if type(value) is str:
        return _quoted_text(value)
    text = _any_text(value)
    return f'"{text}"' if isinstance(value, bytes | bytearray | memoryview) else text


def _any_text(value: Value) -> str:
    """The text of a schemaless, primitive or logical value, by its class."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        return double_text(value)
    if kind is list:
        if value and _is_pairs(value):
            return _ANY_MAP(value)
        return f"[{','.join(map(_any_inner, value))}]"
    if kind is dict:
        return _ANY_MAP(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, datetime):
        return _moment_text(timestamp_to_ms(value))
    if isinstance(value, date):
        return _moment_text(date_to_days(value) * MS_PER_DAY)
    if isinstance(value, time):
        return _moment_text(time_to_ms(value))
    java = java_class(value).removeprefix("class ")
    raise DataError(f"Failed to serialize unexpected value type {java}: {value}")


_ANY_MAP: Final = _map_writer(_any_inner, _any_inner, _any_inner)


def _moment_text(ms: int) -> str:
    """Date, time or both, depending on the number of ms since the epoch."""
    if ms < MS_PER_DAY:
        return TIME_FORMAT.format(ms)
    return (TIMESTAMP_FORMAT if ms % MS_PER_DAY else DATE_FORMAT).format(ms)
