"""Values from text, as Kafka Connect's `Values` reads them (kafka-connect.md §9.4). `value_text`
writes them.

`parse` infers the schema from the text:

    null, true, false                   no schema, BOOLEAN
    12, -1.0, 1e3                       the smallest of INT8 … INT64 that holds it
    12.5, 1e30                          FLOAT32 if finite as one, else FLOAT64
    12345678901234567890, 1e400         Decimal
    2024-02-29                          Date
    13:14:15.016Z                       Time
    2024-02-29T13:14:15.016Z            Timestamp
    [1, "a", null], {"k": 1}            ARRAY, MAP
    anything else                       STRING

As in Kafka Connect, text after a number, array or map is ignored, dates may have month 13, and a
malformed array is a STRING. Two differences: the time zone is always UTC (in Kafka Connect, the
JVM's), and a temporal that Python cannot represent (years before 1 or after 9999, hour 24 and
later) makes the whole text a STRING.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from math import inf, isfinite, nextafter
from struct import pack
from typing import Final

from penstock.data.java_dates import Unparseable
from penstock.data.logical import (
    MS_PER_DAY,
    days_to_date,
    ms_to_time,
    ms_to_timestamp,
)
from penstock.data.schema import (
    BOOLEAN,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Logical,
    Schema,
    Type,
    Value,
    decimal,
    float32,
    int_range,
    pairs,
)
from penstock.data.text import shortest_float32
from penstock.data.value_text import DATE_FORMAT, TIME_FORMAT, TIMESTAMP_FORMAT
from penstock.errors import DataError

Parsed = tuple[Schema | None, Value]

_BLANK: Final = "".join(map(chr, range(0x21)))  # what Java's `trim` removes
_DELIMITERS: Final = frozenset(':,{}[]"')
# One delimiter, or everything up to the next one that has no backslash before it.
_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:[^\\:,{}\[\]"]|\\(?:.|\Z))+', re.DOTALL)
_SPECIAL: Final = re.compile(r'[:,{}\[\]"\\]')
_NULL: Final[Parsed] = None, None


class _NotParsed(Exception):
    """The text is a malformed array or map."""


class _NoValue(_NotParsed):
    """A temporal that Python cannot represent."""


def parse(text: str) -> Parsed:
    """Schema and value of a text; `(None, None)` for `null`, STRING for anything else.

    An element, key or value schema is None if the array or map is empty, or holds only nulls or
    values without a common schema.

    >>> parse("12")[1], parse('["a", "b"]')[1], parse("1, 2, 3")[1], parse("[1, 2")[1]
    (12, ['a', 'b'], 1, '[1, 2')
    """
    if not text:
        return STRING, text
    first = text[0]
    if not (first in _DELIMITERS or first in _BLANK or first in "+-" or first.isdecimal()):
        literal = text.strip(_BLANK)
        return _LITERAL_VALUES.get(literal) or (STRING, text)
    try:
        if _SPECIAL.search(text) is not None:
            return _Parser(text).top()
        token = text.strip(_BLANK)
        return _LITERAL_VALUES.get(token) or _scalar(token) if token else (STRING, text)
    except _NotParsed:
        return STRING, text


_LITERAL_VALUES: Final[dict[str, Parsed]] = {
    "null": _NULL,
    "true": (BOOLEAN, True),
    "false": (BOOLEAN, False),
}


class _Parser:
    """Reads one text, token by token."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._count = len(self._tokens)
        self._at = 0  # the next token

    def _takes(self, expected: str) -> bool:
        """Skips the token if it is the expected one. Skips blank tokens before it in any case."""
        at = self._at
        if at >= self._count:
            return False
        tokens = self._tokens
        while not (token := tokens[at].strip(_BLANK)) and at + 1 < self._count:
            at += 1
        if token == expected:
            self._at = at + 1
            return True
        self._at = at
        return False

    def top(self) -> Parsed:
        """The value of the whole text; raises _NotParsed if it is a STRING."""
        tokens = self._tokens
        for literal, value in _LITERAL_VALUES.items():
            self._at = 0
            if self._takes(literal) and self._at == self._count:
                return value
        self._at = 0
        try:
            if self._takes("["):
                return self._array()
            if self._takes("{"):
                return self._map()
        except _NoValue:
            raise
        except _NotParsed:
            self._at = 0
        token = tokens[self._at]
        self._at += 1
        trimmed = token.strip(_BLANK)
        return self._scalar(trimmed) if trimmed else (STRING, token)

    def _inner(self) -> Parsed:
        """An element, key or value."""
        if self._at >= self._count:
            return _NULL
        if self._takes('"'):
            return self._quoted()
        token = self._tokens[self._at].strip(_BLANK)
        self._at += 1
        if token == "[":
            return self._array()
        if token == "{":
            return self._map()
        literal = _LITERAL_VALUES.get(token)
        if literal is not None:
            return literal
        if not token:
            return STRING, self._tokens[self._at - 1]
        return self._scalar(token)

    def _quoted(self) -> Parsed:
        content = ""
        while self._at < self._count and not self._takes('"'):
            content += self._tokens[self._at]
            self._at += 1
        try:
            return _temporal(content) or (STRING, content)
        except _NoValue:
            return STRING, content

    def _scalar(self, token: str) -> Parsed:
        """The temporal or number that starts with the token, which was taken before."""
        # The colons of a time are separate tokens.
        rest = self._tokens[self._at : self._at + 4]
        if len(rest) == 4 and _starts_number(token):
            temporal = _temporal(token + "".join(rest))
            if temporal is not None:
                self._at += 4
                return temporal
        return _scalar(token)

    def _array(self) -> Parsed:
        elements: list[Parsed] = []
        while self._at < self._count:
            if self._takes("]"):
                of_element = _common(elements)
                values = [_aligned(of_element, element) for element in elements]
                return Schema(Type.ARRAY, value_schema=of_element), values
            if self._takes(","):
                break  # nothing before the comma
            elements.append(self._inner())
            if self._takes("]"):
                self._at -= 1
            elif not self._takes(","):
                break
        raise _NotParsed

    def _map(self) -> Parsed:
        keys: list[Parsed] = []
        values: list[Parsed] = []
        while self._at < self._count:
            if self._takes("}"):
                return _map_of(keys, values)
            if self._takes(","):
                break  # nothing before the comma
            key = self._inner()
            if key[1] is None or not self._takes(":"):
                break
            keys.append(key)
            values.append(self._inner())
            self._takes(",")  # may be missing, and may be the last
        raise _NotParsed


def _starts_number(token: str) -> bool:
    return token[0].isdecimal() and token[0] <= "\uffff"  # what Java calls a digit


def _scalar(token: str) -> Parsed:
    """The temporal or number of the whole token; raises _NotParsed if it is neither."""
    scalar: Parsed | None = None
    if _starts_number(token):
        scalar = _temporal(token) or _number(token)
    elif token[0] in "+-":
        scalar = _number(token)
    if scalar is None:
        raise _NotParsed
    return scalar


def _map_of(keys: list[Parsed], values: list[Parsed]) -> Parsed:
    """A map. Of equal keys, the first keeps its place and gets the value of the last."""
    of_key = _common(keys)
    of_value = _common(values) if of_key is not None else None
    distinct: dict[object, tuple[Parsed, Parsed]] = {}
    for key, value in zip(keys, values, strict=True):
        identity = _identity(key[1])
        first, _ = distinct.get(identity, (key, value))
        distinct[identity] = first, value
    # Different keys may be equal after alignment.
    entries: dict[object, tuple[Value, Value]] = {}
    for key, value in distinct.values():
        aligned = _aligned(of_key, key)
        identity = _identity(aligned)
        entries[identity] = entries.get(identity, (aligned,))[0], _aligned(of_value, value)
    schema = Schema(Type.MAP, key_schema=of_key, value_schema=of_value)
    return schema, _map_value(of_key, list(entries.values()))


def _map_value(of_key: Schema | None, entries: list[tuple[Value, Value]]) -> Value:
    """A dict, or a list of pairs if a dict cannot hold the keys or tell them apart."""
    if of_key is not None:
        return dict(entries) if of_key.type.is_primitive else entries
    try:
        mapping = dict(entries)
    except TypeError:
        return entries
    return mapping if len(mapping) == len(entries) else entries  # 1 and true are one key to Python


def _identity(value: Value) -> object:
    """Equal for values that are equal in Java."""
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_identity, value))
    if isinstance(value, dict):
        return dict, frozenset((_identity(key), _identity(item)) for key, item in value.items())
    return type(value), value


def _common(parsed: list[Parsed]) -> Schema | None:
    """The common schema of all non-null values; None if there is none, or all are null."""
    common: Schema | None = None
    for schema, _ in parsed:
        if schema is None:
            continue
        common = schema if common is None else _merged(common, schema)
        if common is None:
            return None
    return common


_WIDTHS: Final = {
    type: width
    for width, type in enumerate(
        (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
    )
}


def _merged(one: Schema, other: Schema) -> Schema | None:
    if one.type is other.type:
        return other  # whatever its elements or logical type
    if one.type not in _WIDTHS or other.type not in _WIDTHS:
        return None
    return one if _WIDTHS[one.type] > _WIDTHS[other.type] else other


def _aligned(common: Schema | None, parsed: Parsed) -> Value:
    """The value converted to the common schema; raises _NotParsed if that is impossible.

    As in Kafka Connect, the content of a list or map is not converted.
    """
    schema, value = parsed
    if common is None:
        return _schemaless(schema, value)
    if value is None:
        raise _NotParsed  # a parsed schema is never optional
    if schema is common:
        return value
    kind = type(value)
    match common.type:
        case Type.ARRAY | Type.MAP:
            return value if schema == common else _schemaless(schema, value)
        case Type.FLOAT32 | Type.FLOAT64:
            if kind is not int and kind is not float:
                raise _NotParsed
            return float32(float(value)) if common.type is Type.FLOAT32 else float(value)
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            if common.logical is None:
                if kind is not int:
                    raise _NotParsed
                return value
            if kind is not int:
                return value  # a temporal, perhaps of another kind
            return _temporal_of(common.logical, value)
        case _:
            return value


def _schemaless(schema: Schema | None, value: Value) -> Value:
    """The value without a schema: a 32-bit float becomes the double with the same digits."""
    if schema is None:
        return value
    match schema.type:
        case Type.FLOAT32:
            return shortest_float32(value) if type(value) is float else value
        case Type.ARRAY:
            return [_schemaless(schema.value_schema, item) for item in value]
        case Type.MAP:
            of_key, of_value = schema.key_schema, schema.value_schema
            entries = [(_schemaless(of_key, k), _schemaless(of_value, v)) for k, v in pairs(value)]
            return dict(entries) if isinstance(value, dict) else entries
        case _:
            return value


def _temporal_of(logical: Logical, number: int) -> Value:
    """The temporal of a number in a list of temporals."""
    try:
        match logical:
            case Logical.DATE:
                return days_to_date(number)
            case Logical.TIME:
                if not 0 <= number <= MS_PER_DAY:
                    raise _NotParsed
                return ms_to_time(number)
            case _:
                return ms_to_timestamp(number)
    except DataError as cause:
        raise _NoValue from cause


_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?")
_INT_RANGES: Final = [(schema, *int_range(schema.type)) for schema in (INT8, INT16, INT32, INT64)]
_BEYOND_LONG: Final = Decimal("1e19")
_INT_MIN, _INT_MAX = int_range(Type.INT32)
# Java counts these as two characters, never digits.
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def _units(token: str) -> str:
    """The token with Java's number of characters."""
    return token if token.isascii() else _ASTRAL.sub("\uffff\uffff", token)


def _number(token: str) -> Parsed | None:
    """The number of the whole token, or None."""
    match = _NUMBER.fullmatch(_units(token))
    if match is None:
        return None
    if match.lastindex is None and len(token) < 20:
        return _integral(int(token)) or (decimal(0), Decimal(token))
    sign, exponent_digits = (match[3] or "")[:1], (match[3] or "").lstrip("+-0")
    if len(exponent_digits) > 10:
        return None
    exponent = int(exponent_digits or 0) * (-1 if sign == "-" else 1)
    scale = len(match[1] or match[2] or "") - exponent
    # Java's BigDecimal keeps both in an int.
    if not (_INT_MIN <= exponent <= _INT_MAX and _INT_MIN <= scale <= _INT_MAX):
        return None
    exact = Decimal(token)
    if not exact:
        return INT8, 0
    if 1 <= exact.copy_abs() <= _BEYOND_LONG:
        rounded = int(exact)
        integral = _integral(rounded) if rounded == exact else None
        if integral is not None:
            return integral
    if scale:
        narrow = nearest_float32(exact)
        if isfinite(narrow):
            return FLOAT32, narrow
        wide = float(exact)
        if isfinite(wide):
            return FLOAT64, wide
    return decimal(scale), exact


def _integral(number: int) -> Parsed | None:
    """The number with the smallest integer type that holds it, if one does."""
    for schema, low, high in _INT_RANGES:
        if low <= number <= high:
            return schema, number
    return None


def nearest_float32(exact: Decimal) -> float:
    """The 32-bit float nearest to a number, as Java's `BigDecimal.floatValue` finds it.

    Rounding to a double first may lead to the wrong neighbour. So an inexact double is rounded to
    odd: no 32-bit float, and no midpoint of two, is an odd double.
    """
    wide = float(exact)
    if isfinite(wide) and Decimal(wide) != exact and not pack(">d", wide)[-1] & 1:
        wide = nextafter(wide, inf if exact > Decimal(wide) else -inf)
    return float32(wide)


_FORMATS: Final[dict[int, tuple[Schema, Callable[[str], Value]]]] = {
    10: (DATE, lambda token: DATE_FORMAT.parse_moment(token).date()),
    13: (TIME, lambda token: ms_to_time(TIME_FORMAT.parse(token))),
    24: (TIMESTAMP, TIMESTAMP_FORMAT.parse_moment),
}


def _temporal(token: str) -> Parsed | None:
    """The Date, Time or Timestamp of a token, which its length determines; or None.

    Numbers may be short, long, negative and out of range, and text after the last is ignored.
    Raises _NoValue if Python cannot represent the moment.
    """
    token = _units(token).replace("\\:", ":")
    if len(token) not in _FORMATS:
        return None
    schema, read = _FORMATS[len(token)]
    try:
        return schema, read(token)
    except Unparseable:
        return None
    except DataError as cause:
        raise _NoValue from cause
