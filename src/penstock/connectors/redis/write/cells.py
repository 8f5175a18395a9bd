"""Values as words of commands: strings in the charset, bytes unchanged, other values as Java prints
them, like JVM connectors (plugins.md, "Values").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from penstock.api import DataError
from penstock.api.schema import Schema, Type, Value, pairs, text_of

Word = Callable[[Value], bytes]

_NAMES: Final = 10_000  # cached encoded field names

_ANY_TEXT: Final = text_of(None)
_INTEGERS: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})


class Charset:
    """The encoding of strings; characters it lacks become `?`, as in Java."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._is_utf8 = name.lower().replace("_", "-") in ("utf-8", "utf8")

    def encode(self, text: str) -> bytes:
        """Encodes a string."""
        if self._is_utf8:
            try:
                return text.encode()
            except UnicodeEncodeError:
                return text.encode("utf-8", "replace")
        return text.encode(self.name, "replace")

    def text_or_bytes(self, value: Value, part: str) -> bytes:
        """Encodes a string; returns bytes unchanged. Raises DataError for other values; `part`: key
        or value, for the message."""
        if type(value) is str:
            return self.encode(value)
        if isinstance(value, bytes):
            return value
        raise DataError(
            f"The {part} of the record must be a string or bytes, not {_kind(value)}. Use the "
            f"StringConverter or the ByteArrayConverter ({part}.converter), or a transform"
        )

    def word(self, schema: Schema | None) -> Word:
        """The function that encodes values of a schema. Null is `null`."""
        encode = self.encode
        if schema is None:
            return self._any
        if schema.logical is None:
            if schema.type is Type.STRING:
                return lambda value: encode("null" if value is None else value)
            if schema.type in _INTEGERS:
                return lambda value: b"null" if value is None else b"%d" % value
            if schema.type is Type.BYTES:
                return lambda value: b"null" if value is None else value
        text = text_of(schema)
        return lambda value: b"null" if value is None else encode(text(value))

    def _any(self, value: Value) -> bytes:
        kind = type(value)
        if kind is str:
            return self.encode(value)
        if kind is int:
            return b"%d" % value
        if kind is bool:
            return b"true" if value else b"false"
        if kind is bytes:
            return bytes(value)
        return self.encode(_ANY_TEXT(value))


Fields = Callable[[Any], tuple[int, bytes]]
"""Encodes a value's fields: the number of words, and their bytes."""


def fields_of(schema: Schema | None, charset: Charset) -> Fields:
    """The function that encodes names and values of a struct's fields, or the entries of a map with
    string keys. A null field of a struct is empty, a null entry of a map is `null`. It raises
    DataError for other values."""
    if schema is not None and schema.type is Type.STRUCT:
        return _struct(schema, charset)
    if schema is not None and schema.type is not Type.MAP:
        kind = schema.type.name

        def refuse(value: Any) -> tuple[int, bytes]:
            raise DataError(_not_fields(kind))

        return refuse
    return _map(schema, charset)


def _map(schema: Schema | None, charset: Charset) -> Fields:
    of_value = charset.word(schema.value_schema if schema is not None else None)
    heads: dict[str, bytes] = {}

    def head(name: Any) -> bytes:
        if type(name) is not str:
            raise DataError(f"A field name must be a string, not {_kind(name)}")
        word = charset.encode(name)
        encoded = b"$%d\r\n%b\r\n" % (len(word), word)
        if len(heads) < _NAMES:
            heads[name] = encoded
        return encoded

    def entries(value: Any) -> tuple[int, bytes]:
        if type(value) is not dict:
            if schema is None:
                raise DataError(_not_fields(_kind(value)))
            value = dict(pairs(value))
        parts = []
        for name, cell in value.items():
            word = of_value(cell)
            parts.append(b"%b$%d\r\n%b\r\n" % (heads.get(name) or head(name), len(word), word))
        return 2 * len(value), b"".join(parts)

    return entries


def _struct(schema: Schema, charset: Charset) -> Fields:
    fields = []
    for field in schema.fields:
        name = charset.encode(field.name)
        word, default = charset.word(field.schema), field.schema.default
        null = b"" if default is None else word(default)
        fields.append((field.name, b"$%d\r\n%b\r\n" % (len(name), name), word, null))
    count = 2 * len(fields)

    def struct(value: Any) -> tuple[int, bytes]:
        get = value.get
        parts = []
        for name, head, word, null in fields:
            cell = get(name)
            data = null if cell is None else word(cell)
            parts.append(b"%b$%d\r\n%b\r\n" % (head, len(data), data))
        return count, b"".join(parts)

    return struct


def number(value: Value, part: str) -> float:
    """Converts a number to a float. Raises DataError."""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return float(value)
    raise DataError(
        f"The {part} of the record must be a number, not {_kind(value)}. Use a transform that "
        "extracts it from the record"
    )


def double(value: float) -> bytes:
    """Encodes a number for commands.

    >>> double(1.0), double(0.1), double(float("-inf"))
    (b'1', b'0.1', b'-inf')
    """
    if math.isfinite(value) and value == int(value) and abs(value) < 1 << 53:
        return b"%d" % int(value)
    return repr(value).encode()


def _kind(value: Value) -> str:
    return "null" if value is None else type(value).__name__


def _not_fields(kind: str) -> str:
    return (
        f"The value of the record must be a struct or a map, not {kind}: its fields become those "
        "of the hash or the entry (value.converter, redis.type)"
    )


TYPES: Final[tuple[tuple[str, str], ...]] = (
    ("INT8, INT16, INT32, INT64", "its digits, `5`"),
    ("FLOAT32, FLOAT64", "as Java prints it, `1.5`, `1.0E10`"),
    ("BOOLEAN", "`true`, `false`"),
    ("STRING", "the string, in `redis.charset`"),
    ("BYTES", "the bytes themselves"),
    ("ARRAY", "`[1, 2]`"),
    ("MAP", "`{k=v}`"),
    ("STRUCT", "`Struct{id=5}`"),
    ("Decimal", "its digits, `1.10`"),
    ("Date, Time, Timestamp", "as Java prints it, `Sat Jan 31 12:30:00 UTC 2026`"),
    ("null", "empty in a struct, `null` in a map"),
)
"""The contents of fields of hashes and entries, for the docs."""


def types_table() -> str:
    """The table in Markdown, for the docs."""
    rows = [f"| {connect} | {word} |" for connect, word in TYPES]
    return "\n".join(["| Connect | in Redis |", "|---|---|", *rows])
