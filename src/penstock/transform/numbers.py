"""Conversions between numbers, and from text, as in Java.

Functions that read raise NumberFormat where Java throws NumberFormatException.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from math import isnan
from typing import Final

from penstock.data.schema import INT_BITS, Type, Value, float32, int_range, wrap_int
from penstock.data.values import nearest_float32
from penstock.transform.java import NumberFormat

_SURE: Final = 1 << 53  # up to here a float holds every integer
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII
)
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII
)
_BIG_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?")
_BLANK: Final = "".join(map(chr, range(0x21)))


def narrowing(type: Type) -> Callable[[Value], int]:
    """`Number.byteValue` and so on for any number: integers and decimals wrap; a float is first
    limited to the range of an int, or of a long for INT64."""
    low, high = int_range(Type.INT64 if type is Type.INT64 else Type.INT32)

    def narrow(value: Value) -> int:
        if isinstance(value, float):
            if isnan(value):
                return 0
            if not low <= value <= high:
                return wrap_int(low if value < 0 else high, type)
        elif isinstance(value, Decimal):
            value = decimal_to_int(value)
        return wrap_int(int(value), type)

    return narrow


def decimal_to_int(value: Decimal) -> int:
    """The integer part, or another number with the same last 64 bits."""
    exponent = value.as_tuple().exponent
    # 10^64 is a multiple of 2^64; a text may contain an exponent of any size.
    return 0 if isinstance(exponent, int) and exponent >= 64 else int(value)


def to_float64(value: Value) -> float:
    """`Number.doubleValue`."""
    try:
        return float(value)
    except OverflowError:
        return float("-inf") if value < 0 else float("inf")


def to_float32(value: Value) -> float:
    """`Number.floatValue`, rounded once."""
    if isinstance(value, float) or (isinstance(value, int) and -_SURE <= value <= _SURE):
        return float32(value)
    return nearest_float32(Decimal(value))


_to_long: Final = narrowing(Type.INT64)


def is_true(value: Value) -> bool:
    """Whether a number, converted to long, is not 0."""
    return _to_long(value) != 0


def read_int(text: str, type: Type) -> int:
    """`Byte.parseByte` and so on: any decimal digits, no blanks, in range."""
    if _INTEGER.fullmatch(text) and len(text) <= _LONGEST:
        number = int(text)
        if number == wrap_int(number, type):
            return number
        if INT_BITS[type] < INT_BITS[Type.INT32] and number == wrap_int(number, Type.INT32):
            raise NumberFormat(f'Value out of range. Value:"{text}" Radix:10')
    raise NumberFormat(f'For input string: "{text}"')


_LONGEST: Final = 4000


def _float_text(text: str) -> str:
    """The text for Python's `float` that means what the text means in Java. Raises NumberFormat."""
    trimmed = text.strip(_BLANK)
    if not trimmed:
        raise NumberFormat("empty String")
    if not _DECIMAL.fullmatch(trimmed):
        raise NumberFormat(f'For input string: "{trimmed}"')
    # "Infinity" and "NaN" do not end in a type suffix.
    return trimmed.rstrip("fFdD")


def read_float64(text: str) -> float:
    """`Double.parseDouble`."""
    if match := _HEXADECIMAL.fullmatch(text.strip(_BLANK)):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return float("-inf") if match[1].startswith("-") else float("inf")
    return float(_float_text(text))


def read_float32(text: str) -> float:
    """`Float.parseFloat`, rounded once."""
    if _HEXADECIMAL.fullmatch(text.strip(_BLANK)):
        return float32(read_float64(text))
    plain = _float_text(text)
    if plain.lstrip("+-") in ("NaN", "Infinity"):
        return float(plain)
    wide = float(plain)
    return float32(wide) if wide in (0.0, float("inf"), float("-inf")) else _nearest(plain)


def _nearest(plain: str) -> float:
    return nearest_float32(Decimal(plain))


def read_decimal(text: str) -> Decimal:
    """`new BigDecimal(text)`, with the scale that the text has."""
    if not _BIG_DECIMAL.fullmatch(text):
        raise NumberFormat(_BAD_DECIMAL)
    try:
        number = Decimal(text)
    except InvalidOperation as cause:
        raise NumberFormat(_BAD_DECIMAL) from cause
    return number or number.copy_abs()  # there is no -0


_BAD_DECIMAL: Final = "Not a decimal number"

READERS: Final[Mapping[Type, Callable[[str], Value]]] = {
    **{
        type: (lambda text, type=type: read_int(text, type))  # type: ignore[misc]
        for type in INT_BITS
    },
    Type.FLOAT32: read_float32,
    Type.FLOAT64: read_float64,
}
"""Reads a number of a type from text."""
