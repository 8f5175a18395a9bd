"""The text of a Connect value as Java's `toString` prints it (reference §9.3, §19).

    null                null
    boolean             true
    float, double       1.0E10, 0.1, NaN: the shortest digits that read back as the same number
    BigDecimal          123.45, 1E+3
    Date, Timestamp     Thu Feb 29 00:00:00 UTC 2024; a Time is on Thu Jan 01 1970; no ms
    list                [1, 2, 3]
    map                 {k=v, k2=v2}; text keys in the order of a Java HashMap, others in the map's
    struct              Struct{i8=5,s=ü,o=Struct{x=1,y=z}}, null fields left out
    byte[]              [B@ and the CRC-32 of the bytes in hex

Floating point numbers are as JDK 19 and later print them; older ones had a digit too many at
times. Java prints an identity hash for bytes, another one each time; ours depends on the bytes
alone, so that the same value always gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from math import isfinite, isnan
from operator import itemgetter
from typing import Final
from zlib import crc32

import orjson

from penstock.data.java_maps import hash_map_order
from penstock.data.schema import Schema, Type, Value, float32, pairs

TextOf = Callable[[Value], str]
TextsOf = Callable[[list[Value]], list[str]]

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_SMALLEST_NORMAL_FLOAT: Final = 1.1754943508222875e-38


def text(schema: Schema | None, value: Value) -> str:
    """The Java text of one value; for many of one schema, keep `text_of(schema)`."""
    return text_of(schema)(value)


def texts_of(schema: Schema | None) -> TextsOf:
    """The function that gives the Java texts of many values of one schema (and of nulls).

    The same texts as `text_of` gives, made a field at a time where the values are alike.
    """
    text = text_of(schema)
    if schema is None:
        return lambda values: _all_plain(values) or _maps_alike(values) or list(map(text, values))
    if schema.type is Type.STRUCT and schema.logical is None:
        return _struct_texts(schema, text)
    return lambda values: _all_plain(values) or list(map(text, values))


def text_of(schema: Schema | None) -> TextOf:
    """The function that gives the Java text of a schema's values (and of null).

    A value that is none of its schema's has the text of its class, as it would in Java.
    """
    if schema is None:
        return _any_text
    if schema.logical is not None:
        return _any_text
    match schema.type:
        case Type.FLOAT32:
            return _float_text
        case Type.ARRAY:
            return _list_text(text_of(schema.value_schema))
        case Type.MAP:
            return _map_text(text_of(schema.key_schema), text_of(schema.value_schema))
        case Type.STRUCT:
            return _struct_text(schema)
        case _:
            return _any_text


def _any_text(value: Value) -> str:
    """The text of a value whose class says all: schemaless, primitive or logical."""
    kind = type(value)
    if kind is str:
        return str(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        return double_text(value)
    if kind is list:
        return _ANY_LIST(value)
    if kind is dict:
        return _ANY_MAP(value)
    if isinstance(value, bytes):
        return f"[B@{crc32(value):x}"
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, datetime):
        return _moment_text(value.astimezone(UTC))
    if isinstance(value, date):
        return _moment_text(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, time):
        return _moment_text(datetime.combine(date(1970, 1, 1), value, UTC))
    return str(value)


def _float_text(value: Value) -> str:
    return float_text(value) if isinstance(value, float) else _any_text(value)


def _list_text(of_element: TextOf) -> TextOf:
    def list_text(value: Value) -> str:
        if type(value) is not list:
            return _any_text(value)
        return f"[{', '.join(map(of_element, value))}]"

    return list_text


def _map_text(of_key: TextOf, of_value: TextOf) -> TextOf:
    def map_text(value: Value) -> str:
        if not isinstance(value, dict | list):
            return _any_text(value)
        if type(value) is dict:
            keys = tuple(value)
            order = _map_order(keys) if set(map(type, keys)) <= _STR else keys
            inside = ", ".join([f"{of_key(key)}={of_value(value[key])}" for key in order])
        else:
            inside = ", ".join(f"{of_key(key)}={of_value(each)}" for key, each in pairs(value))
        return f"{{{inside}}}"

    return map_text


@lru_cache(maxsize=4096)
def _map_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The order in which a map filled in this order is printed."""
    return tuple(hash_map_order(keys))


@lru_cache(maxsize=4096)
def _order_matters(keys: tuple[str, ...]) -> bool:
    """Whether a map with these keys, filled in another order, may be printed in another one."""
    return hash_map_order(keys) != hash_map_order(reversed(keys))


def _struct_text(schema: Schema) -> TextOf:
    parts = [(each.name, text_of(each.schema)) for each in schema.fields]

    def struct_text(value: Value) -> str:
        if type(value) is not dict:
            return _any_text(value)
        get = value.get
        inside = ",".join(
            f"{name}={of(field)}" for name, of in parts if (field := get(name)) is not None
        )
        return f"Struct{{{inside}}}"

    return struct_text


_ANY_LIST: Final = _list_text(_any_text)
_ANY_MAP: Final = _map_text(_any_text, _any_text)


# --- many at a time ------------------------------------------------------------------------------


def _all_plain(values: list[Value]) -> list[str] | None:
    """The values themselves if all are texts."""
    return values if set(map(type, values)) == _STR else None


def _maps_alike(values: list[Value]) -> list[str] | None:
    """The texts of maps that all have the same keys, filled in the same order where it matters."""
    if set(map(type, values)) != _DICT:
        return None
    keys = tuple(values[0])
    if not keys or not set(map(type, keys)) <= _STR:
        return None
    order = _map_order(keys)
    if _order_matters(keys):
        if set(map(tuple, values)) != {keys}:
            return None
    elif set(map(len, values)) != {len(keys)}:
        return None
    try:
        columns = [_printable(column, _any_text) for column in _columns(values, order)]
    except KeyError:
        return None
    inside = ", ".join(f"{_escaped(key)}=%s" for key in order)
    return [f"{{{inside}}}" % row for row in zip(*columns, strict=True)]


def _struct_texts(schema: Schema, text: TextOf) -> TextsOf:
    names = schema.field_names
    texts = [text_of(field.schema) for field in schema.fields]
    template = f"Struct{{{','.join(f'{_escaped(name)}=%s' for name in names)}}}"

    def struct_texts(values: list[Value]) -> list[str]:
        if not names or set(map(type, values)) != _DICT:
            return list(map(text, values))
        try:
            columns = _columns(values, names)
        except KeyError:  # a struct may leave out what is null
            return list(map(text, values))
        printable: list[Sequence[Value]] = []
        for column, of in zip(columns, texts, strict=True):
            if None in column:  # such a field has no text at all
                return list(map(text, values))
            printable.append(_printable(column, of))
        return [template % row for row in zip(*printable, strict=True)]

    return struct_texts


def _columns(values: list[Value], names: Sequence[Value]) -> list[Sequence[Value]]:
    """The members of many maps by name; raises KeyError where one is missing."""
    if len(names) == 1:
        (name,) = names
        return [[value[name] for value in values]]
    return list(zip(*map(itemgetter(*names), values), strict=True))


def _printable(column: Sequence[Value], text: TextOf) -> Sequence[Value]:
    """Values that `%s` prints as `text` would."""
    kinds = set(map(type, column))
    if text is _any_text:
        if kinds <= _PRINT_THEMSELVES:
            return column
        if kinds == _BOOL:
            return ["true" if value else "false" for value in column]
        if kinds == _FLOAT:
            return _double_texts(column)
    return list(map(text, column))


def _double_texts(values: Sequence[float]) -> Sequence[Value]:
    """`double_text` of each."""
    if min(values) >= 1e-3 and max(values) < 1e7 and not isnan(sum(values)):
        # The same shortest digits, in a fraction of the time.
        return orjson.dumps(values)[1:-1].decode().split(",")
    return list(map(double_text, values))


def _escaped(name: str) -> str:
    return name.replace("%", "%%")


_STR: Final = {str}
_DICT: Final = {dict}
_BOOL: Final = {bool}
_FLOAT: Final = {float}
_PRINT_THEMSELVES: Final = {int, str}


def _moment_text(moment: datetime) -> str:
    """`java.util.Date.toString` in UTC."""
    return (
        f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:02d} "
        f"{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d} UTC {moment.year:04d}"
    )


def decimal_text(value: Decimal) -> str:
    """`BigDecimal.toString`, which agrees with Python's but for the sign of zero."""
    return str(value if value else value.copy_abs())


def double_text(value: float) -> str:
    """`Double.toString`.

    >>> double_text(1e10), double_text(100.0), double_text(5e-324)
    ('1.0E10', '100.0', '4.9E-324')
    """
    if not isfinite(value):
        return _infinite_text(value)
    shortest = repr(value)
    if 1e-3 <= abs(value) < 1e7 or value == 0:
        return shortest
    return _scientific(value, shortest)


def float_text(value: float) -> str:
    """`Float.toString` of a value that a 32-bit float can hold.

    >>> float_text(float32(0.1)), float_text(float32(16777216.0))
    ('0.1', '1.6777216E7')
    """
    if not isfinite(value):
        return _infinite_text(value)
    short = shortest_float32(value)
    if 1e-3 <= abs(value) < 1e7 or value == 0:
        return repr(short)
    return _scientific(value, repr(short))


def shortest_float32(value: float) -> float:
    """The float with the fewest decimal digits that is `value` as a 32-bit float.

    Printing it prints what Java prints for a Float: 0.1, not 0.10000000149011612.
    """
    # Six digits always survive the way through a normal 32-bit float, so that many are never
    # too many; below the normal range fewer may do.
    for digits in range(6 if abs(value) >= _SMALLEST_NORMAL_FLOAT else 2, 9):
        short = float(f"{value:.{digits}g}")
        if float32(short) == value:
            return short
    return float(f"{value:.9g}")


def _infinite_text(value: float) -> str:
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _scientific(value: float, shortest: str) -> str:
    """Java's `d.ddE±x` of a value whose shortest text in Python is `shortest`."""
    digits = len(shortest.partition("e")[0].lstrip("-").replace(".", "").strip("0"))
    # Java prints two digits at least, and where one would do the two that are nearest.
    text = f"{value:.1e}" if digits == 1 else f"{Decimal(shortest):.{digits - 1}e}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}E{int(exponent)}"
