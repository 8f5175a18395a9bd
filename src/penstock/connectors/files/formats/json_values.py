"""Converts JSON nodes to values of Connect's schemas: the inverse of `formats.json`.

Decimals are base64 of their unscaled value, or numbers. Members that are not in the schema are
refused.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable
from decimal import Decimal, DecimalException
from functools import lru_cache

from penstock.api import DataError
from penstock.api.schema import (
    INT_BITS,
    Logical,
    Schema,
    Type,
    Value,
    bytes_to_decimal,
    days_to_date,
    float32,
    int_range,
    ms_to_time,
    ms_to_timestamp,
)

Read = Callable[[Value], Value]


@lru_cache(maxsize=256)
def reader(schema: Schema | None) -> Read:
    """The function that converts a node to a value of the schema. It raises DataError."""
    if schema is None:
        return _same
    make = _reader(schema)
    default, optional, kind = schema.default, schema.optional, schema.type.name

    def read(node: Value) -> Value:
        if node is None:
            if default is None and not optional:
                raise DataError(f"null does not fit {kind}, as the schema requires")
            return default
        return make(node)

    return read


@lru_cache(maxsize=256)
def has_decimals(schema: Schema | None) -> bool:
    """Whether values of the schema contain Decimals, which a `float` cannot represent."""
    if schema is None:
        return False
    fields = (field.schema for field in schema.fields)
    children = (schema.key_schema, schema.value_schema, *fields)
    return schema.logical is Logical.DECIMAL or any(map(has_decimals, children))


def _same(node: Value) -> Value:
    return node


def _reader(schema: Schema) -> Read:
    match schema.logical:
        case Logical.DECIMAL:
            return _decimal(schema.scale)
        case Logical.DATE:
            return lambda node: days_to_date(_of(int, node, "a Date in days"))
        case Logical.TIME:
            return lambda node: ms_to_time(_of(int, node, "a Time in ms"))
        case Logical.TIMESTAMP:
            return lambda node: ms_to_timestamp(_of(int, node, "a Timestamp in ms"))
    match schema.type:
        case Type.BYTES:
            return from_base64
        case Type.FLOAT32 | Type.FLOAT64:
            return _float(schema.type)
        case Type.BOOLEAN:
            return lambda node: _of(bool, node, "a BOOLEAN")
        case Type.STRING:
            return lambda node: _of(str, node, "a STRING")
        case Type.ARRAY:
            element = reader(schema.value_schema)
            return lambda node: [element(item) for item in _of(list, node, "an ARRAY")]
        case Type.MAP:
            return _map(schema)
        case Type.STRUCT:
            return _struct(schema)
    return _integer(schema.type)


def _of(kind: type, node: Value, description: str) -> Value:
    if type(node) is not kind:
        raise DataError(f"{_shown(node)} is not {description}")
    return node


def _shown(node: Value) -> str:
    text = repr(node)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _integer(kind: Type) -> Read:
    low, high = int_range(kind)
    assert kind in INT_BITS, "what is left"

    def read(node: Value) -> Value:
        if type(node) is not int or not low <= node <= high:
            raise DataError(f"{_shown(node)} is not of type {kind.name}")
        return node

    return read


def _float(kind: Type) -> Read:
    def read(node: Value) -> Value:
        if type(node) not in (int, float, Decimal):
            raise DataError(f"{_shown(node)} is not of type {kind.name}")
        try:
            value = float(node)
        except OverflowError as error:
            raise DataError(f"{_shown(node)} is not of type {kind.name}") from error
        return float32(value) if kind is Type.FLOAT32 else value

    return read


def from_base64(node: Value) -> bytes:
    """Decodes base64. Raises DataError."""
    try:
        return b64decode(_of(str, node, "BYTES in base64"), validate=True)
    except (NotBase64, ValueError) as error:
        raise DataError(f"{_shown(node)} is not BYTES in base64: {error}") from error


def _decimal(scale: int) -> Read:
    def read(node: Value) -> Value:
        if isinstance(node, str):
            return bytes_to_decimal(from_base64(node), scale)
        if isinstance(node, bool) or not isinstance(node, int | float | Decimal):
            raise DataError(f"{_shown(node)} is not a Decimal")
        return scaled(str(node), scale)

    return read


def _with_places(text: str, scale: int) -> bool:
    """Whether a number has exactly `scale` decimal places."""
    return text[-scale - 1 : -scale] == "." and text[-scale:].isdecimal()


def scaled(text: str, scale: int) -> Decimal:
    """A number with `scale` decimal places. Raises DataError if it has more, or is not a number."""
    if not text.isascii() or "_" in text:  # Python accepts them
        raise DataError(f"{_shown(text)} is not a Decimal")
    try:
        number = Decimal(text)
        if scale > 0 and _with_places(text, scale):
            return number
        if not number.is_finite():
            raise DataError(f"{text} is not a Decimal")
        digits = number.as_tuple()
        exponent = digits.exponent
        assert isinstance(exponent, int), "finite"
        unscaled = int("".join(map(str, digits.digits)))
        shift = exponent + scale
        if abs(shift) > _MAX_DIGITS:
            raise DataError(f"{text} is too large for a Decimal")
        unscaled, rest = (unscaled * 10**shift, 0) if shift >= 0 else divmod(unscaled, 10**-shift)
    except DecimalException as error:
        raise DataError(f"{_shown(text)} is not a Decimal") from error
    if rest:
        raise DataError(f"{text} has more than {scale} digits after the decimal point")
    return Decimal((digits.sign, tuple(map(int, str(unscaled))), -scale))


_MAX_DIGITS = 10_000


def _map(schema: Schema) -> Read:
    key, value = reader(schema.key_schema), reader(schema.value_schema)
    keys = schema.key_schema
    has_text_keys = keys is not None and keys.type is Type.STRING
    primitive = keys is None or keys.type.is_primitive

    def read(node: Value) -> Value:
        if has_text_keys and type(node) is dict:
            return {key(name): value(item) for name, item in node.items()}
        entries = []
        for pair in _of(list, node, "a MAP"):
            if type(pair) is not list or len(pair) != 2:
                raise DataError(f"{_shown(pair)} is not an entry of a MAP")
            entries.append((key(pair[0]), value(pair[1])))
        return dict(entries) if primitive else entries

    return read


def _struct(schema: Schema) -> Read:
    readers = [(field.name, reader(field.schema)) for field in schema.fields]
    names = frozenset(schema.field_names)

    def read(node: Value) -> Value:
        if not names.issuperset(_of(dict, node, "a STRUCT")):
            unknown = next(name for name in node if name not in names)
            raise DataError(f"The schema has no field '{unknown}'")
        get = node.get
        value = {}
        for name, make in readers:
            try:
                value[name] = make(get(name))
            except DataError as error:
                raise DataError(f"Field '{name}': {error}") from error
        return value

    return read
