"""Values as text and back, as Kafka Connect's `Values` does it (kafka-connect.md §9.4).

`parse` finds out what a text is by looking at it; `to_text` writes what `parse` may read again.

    null, true, false                   no schema, BOOLEAN
    12, -1.0, 1e3                       the smallest of INT8 … INT64 that holds it
    12.5, 1e30                          FLOAT32 if finite as one, else FLOAT64
    12345678901234567890, 1e400         Decimal
    2024-02-29                          Date
    13:14:15.016Z                       Time
    2024-02-29T13:14:15.016Z            Timestamp
    [1, "a", null], {"k": 1}            ARRAY, MAP
    anything else                       STRING

It is done as Kafka Connect does it, odd as some of it is: text after a number, array or map is
ignored, dates may have month 13, what looks like an array but is none is a STRING. Two differences:
the time zone is always UTC (there it is the JVM's), and a temporal that Python has no value for
(years before 1 or after 9999, hour 24 and later) makes the whole text a STRING.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from math import inf, isfinite, nextafter
from struct import pack
from typing import Final

from penstock.data.java_dates import DateFormat, Unparseable
from penstock.data.logical import (
    MS_PER_DAY,
    date_to_days,
    days_to_date,
    ms_to_time,
    ms_to_timestamp,
    time_to_ms,
    timestamp_to_ms,
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
    java_class,
    pairs,
)
from penstock.data.text import decimal_text, double_text, float_text, shortest_float32
from penstock.errors import DataError

Parsed = tuple[Schema | None, Value]

_BLANK: Final = "".join(map(chr, range(0x21)))  # what Java's `trim` takes away
_DELIMITERS: Final = frozenset(':,{}[]"')
# One delimiter, or everything up to the next one that has no backslash before it.
_TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:[^\\:,{}\[\]"]|\\(?:.|\Z))+', re.DOTALL)
_SPECIAL: Final = re.compile(r'[:,{}\[\]"\\]')
_NULL: Final[Parsed] = None, None


class _NotParsed(Exception):
    """What looked like an array or a map is none."""


class _NoValue(_NotParsed):
    """A temporal that Python has no value for."""


def parse(text: str) -> Parsed:
    """Schema and value of a text; `(None, None)` for `null`, STRING for what is nothing else.

    An element, key or value schema is None when the array or map has none of its own: it is empty,
    holds only nulls, or values that have nothing in common.

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
        """Steps over the token, and blank ones before it, if it is the expected one.

        Blank tokens in front of another are stepped over in any case.
        """
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
        """The value of the whole text. Raises _NotParsed if it is a STRING."""
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
        """The temporal or number that starts with the token, which was taken already."""
        # The colons of a time are tokens of their own.
        rest = self._tokens[self._at : self._at + 4]
        if len(rest) == 4 and _starts_number(token):
            found = _temporal(token + "".join(rest))
            if found is not None:
                self._at += 4
                return found
        return _scalar(token)

    def _array(self) -> Parsed:
        elements: list[Parsed] = []
        while self._at < self._count:
            if self._takes("]"):
                of_element = _common(elements)
                values = [_aligned(of_element, each) for each in elements]
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
    """The temporal or number that the token is as a whole. Raises _NotParsed if it is neither."""
    found: Parsed | None = None
    if _starts_number(token):
        found = _temporal(token) or _number(token)
    elif token[0] in "+-":
        found = _number(token)
    if found is None:
        raise _NotParsed
    return found


def _map_of(keys: list[Parsed], values: list[Parsed]) -> Parsed:
    """The map of these; of equal keys the last one's value counts, in the place of the first."""
    of_key = _common(keys)
    of_value = _common(values) if of_key is not None else None
    kept: dict[object, tuple[Parsed, Parsed]] = {}
    for key, value in zip(keys, values, strict=True):
        identity = _identity(key[1])
        first, _ = kept.get(identity, (key, value))
        kept[identity] = first, value
    # Once aligned, two keys may be equal that were not before.
    entries: dict[object, tuple[Value, Value]] = {}
    for key, value in kept.values():
        aligned = _aligned(of_key, key)
        identity = _identity(aligned)
        entries[identity] = entries.get(identity, (aligned,))[0], _aligned(of_value, value)
    schema = Schema(Type.MAP, key_schema=of_key, value_schema=of_value)
    return schema, _map_value(of_key, list(entries.values()))


def _map_value(of_key: Schema | None, entries: list[tuple[Value, Value]]) -> Value:
    """A dict, or pairs where the keys are such that a dict cannot hold them or tell them apart."""
    if of_key is not None:
        return dict(entries) if of_key.type.is_primitive else entries
    try:
        found = dict(entries)
    except TypeError:
        return entries
    return found if len(found) == len(entries) else entries  # 1 and true are one key to Python


def _identity(value: Value) -> object:
    """Equal for values that are equal in Java."""
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_identity, value))
    if isinstance(value, dict):
        return dict, frozenset((_identity(key), _identity(each)) for key, each in value.items())
    return type(value), value


def _common(parsed: list[Parsed]) -> Schema | None:
    """The schema that all but nulls have in common; None for none, be it that all are null."""
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
    """The value as one of the common schema. Raises _NotParsed if it cannot be.

    As in Kafka Connect, the inside of a list or map stays as it is.
    """
    schema, value = parsed
    if common is None:
        return _schemaless(schema, value)
    if value is None:
        raise _NotParsed  # what was parsed is never optional
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
    """The value where no schema says what it is: a 32-bit float has the digits it prints."""
    if schema is None:
        return value
    match schema.type:
        case Type.FLOAT32:
            return shortest_float32(value) if type(value) is float else value
        case Type.ARRAY:
            return [_schemaless(schema.value_schema, each) for each in value]
        case Type.MAP:
            of_key, of_value = schema.key_schema, schema.value_schema
            entries = [(_schemaless(of_key, k), _schemaless(of_value, v)) for k, v in pairs(value)]
            return dict(entries) if isinstance(value, dict) else entries
        case _:
            return value


def _temporal_of(logical: Logical, number: int) -> Value:
    """The temporal that a number in its company stands for."""
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


# Numbers

_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?")
_INT_RANGES: Final = [(schema, *int_range(schema.type)) for schema in (INT8, INT16, INT32, INT64)]
_BEYOND_LONG: Final = Decimal("1e19")
_INT_MIN, _INT_MAX = int_range(Type.INT32)
# Characters that are two for Java and never digits.
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def _units(token: str) -> str:
    """The token with as many characters as it has in Java."""
    return token if token.isascii() else _ASTRAL.sub("\uffff\uffff", token)


def _number(token: str) -> Parsed | None:
    """The number that the token is as a whole, or None."""
    found = _NUMBER.fullmatch(_units(token))
    if found is None:
        return None
    if found.lastindex is None and len(token) < 20:
        return _integral(int(token)) or (decimal(0), Decimal(token))
    sign, exponent_digits = (found[3] or "")[:1], (found[3] or "").lstrip("+-0")
    if len(exponent_digits) > 10:
        return None
    exponent = int(exponent_digits or 0) * (-1 if sign == "-" else 1)
    scale = len(found[1] or found[2] or "") - exponent
    # Java's BigDecimal keeps both in an int.
    if not (_INT_MIN <= exponent <= _INT_MAX and _INT_MIN <= scale <= _INT_MAX):
        return None
    exact = Decimal(token)
    if not exact:
        return INT8, 0
    if 1 <= exact.copy_abs() <= _BEYOND_LONG:
        whole = int(exact)
        integral = _integral(whole) if whole == exact else None
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

    Rounding to a double first may end up at the wrong neighbour; so that double is made the odd
    one of its two candidates, which no 32-bit float and no middle of two is.
    """
    wide = float(exact)
    if isfinite(wide) and Decimal(wide) != exact and not pack(">d", wide)[-1] & 1:
        wide = nextafter(wide, inf if exact > Decimal(wide) else -inf)
    return float32(wide)


# Temporals

_DATE_FORMAT: Final = DateFormat("yyyy-MM-dd")
_TIME_FORMAT: Final = DateFormat("HH:mm:ss.SSS'Z'")
_TIMESTAMP_FORMAT: Final = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_FORMATS: Final[dict[int, tuple[Schema, Callable[[str], Value]]]] = {
    10: (DATE, lambda token: _DATE_FORMAT.parse_moment(token).date()),
    13: (TIME, lambda token: ms_to_time(_TIME_FORMAT.parse(token))),
    24: (TIMESTAMP, _TIMESTAMP_FORMAT.parse_moment),
}


def _temporal(token: str) -> Parsed | None:
    """The Date, Time or Timestamp that the token is by its length, or None.

    Read leniently: numbers may be short, long, negative and out of range, and what follows the
    last one is ignored. Raises _NoValue when Python cannot tell the moment.
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


# Writing

TextOf = Callable[[Value], str]


def to_text(schema: Schema | None, value: Value) -> str | None:
    """The text of a value, None for null; DataError for a value that is none.

    Text is written as it is, within an array, map or struct in quotes. Bytes are base64. Nothing in
    the text tells a struct from a map. A temporal before 1970-01-02 is written as a time only.

    >>> to_text(None, ["a", 1, {"k": None}]), to_text(FLOAT32, float32(0.1))
    ('["a",1,{"k":null}]', '0.1')
    """
    return None if value is None else text_of(schema)(value)


def text_of(schema: Schema | None) -> TextOf:
    """The function that gives the text of a schema's values that are not null."""
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
    """Whether a value is a map in the form that any key can have."""
    return type(value) is list and (not value or type(value[0]) is tuple)


def _map_writer(of_key: TextOf, of_value: TextOf, any_text: TextOf) -> TextOf:
    def write(value: Value) -> str:
        if not isinstance(value, dict) and not _is_pairs(value):
            return any_text(value)
        inside = ",".join(f"{of_key(key)}:{of_value(each)}" for key, each in pairs(value))
        return f"{{{inside}}}"

    return write


def _struct_writer(schema: Schema, any_text: TextOf) -> TextOf:
    fields = [
        (_quoted_text(each.name), each.name, each.schema.default, _inner_writer(each.schema))
        for each in schema.fields
    ]

    def write(value: Value) -> str:
        if type(value) is not dict:
            return any_text(value)
        inside = []
        for quoted, name, default, of in fields:
            each = value.get(name)
            inside.append(f"{quoted}:{of(default if each is None else each)}")
        return f"{{{','.join(inside)}}}"

    return write


def _quoted_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _any_inner(value: Value) -> str:
    """The text of a value within another, which may be null."""
    if value is None:
        return "null"
    if type(value) is str:
        return _quoted_text(value)
    text = _any_text(value)
    return f'"{text}"' if isinstance(value, bytes | bytearray | memoryview) else text


def _any_text(value: Value) -> str:
    """The text of a value whose class says all: schemaless, primitive or logical."""
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
    """Date, time or both, as the number of ms since the epoch suggests."""
    if ms < MS_PER_DAY:
        return _TIME_FORMAT.format(ms)
    return (_TIMESTAMP_FORMAT if ms % MS_PER_DAY else _DATE_FORMAT).format(ms)
