"""The text of a Connect value as Java's `toString` prints it (kafka-connect.md §9.3, §19).

    null                null
    boolean             true
    float, double       1.0E10, 0.1, NaN: the shortest digits that read back as the same number
    BigDecimal          123.45, 1E+3
    Date, Timestamp     Thu Feb 29 00:00:00 UTC 2024; a Time is on Thu Jan 01 1970; no ms
    list                [1, 2, 3]
    map                 {k=v, k2=v2}; text keys in the order of a Java HashMap, others in the map's
    struct              Struct{i8=5,s=ü,o=Struct{x=1,y=z}}, null fields left out
    byte[]              [B@ and the CRC-32 of the bytes in hex

Floating point numbers are as in JDK 19 and later; older versions sometimes print a digit too many.
Java prints an identity hash for bytes, which differs each time; here the same bytes always have the
same text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite, isnan
from operator import itemgetter
from typing import Any, Final
from zlib import crc32

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.data.columns import Fields
from penstock.data.java_maps import map_order, order_matters
from penstock.data.records import Column
from penstock.data.schema import Schema, Type, Value, float32, pairs

TextOf = Callable[[Value], str]
TextsOf = Callable[[list[Value]], pa.Array]
Piece = Any
"""A piece of the texts of many values: a `str` for all, or an Arrow array with one for each."""
Alike = Callable[[list[Value]], list[Piece] | None]
"""The pieces of the texts of many values, in order; None if the values are not uniform."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_SMALLEST_NORMAL_FLOAT: Final = 1.1754943508222875e-38


def text(schema: Schema | None, value: Value) -> str:
    """The Java text of one value; for many of one schema, keep `text_of(schema)`."""
    return text_of(schema)(value)


def texts_of(schema: Schema | None, end: str = "") -> TextsOf:
    """The function that writes the Java texts of many values of one schema (and of nulls), each
    followed by `end`, as an Arrow array of `large_string`.

    The texts are those of `text_of`, made a field at a time if the values are uniform. A lone
    surrogate becomes `?`, as in Java.
    """
    text = text_of(schema)
    alike: Alike | None = None
    if schema is None:
        alike = _maps_alike
    elif schema.type is Type.STRUCT and schema.logical is None and schema.fields:
        alike = _structs_alike(schema)

    def texts(values: list[Value]) -> pa.Array:
        pieces: list[Piece] | None = None
        if alike is not None and set(map(type, values)) == _DICT:
            pieces = alike(values)
        return _together([*(pieces or [_printed(values, text)]), end])

    return texts


def column_texts(column: Column, end: str = "") -> list[pa.Array]:
    """The texts of a column by `texts_of`: an array for each run."""
    if isinstance(column, Fields) and len(column):
        return [_together([*_of_fields(column), end])]
    return [texts_of(of, end)(column.values[start:stop]) for of, start, stop in column.slices()]


def utf8(texts: pa.Array) -> memoryview:
    """The concatenated bytes of an array from `texts_of`; not copied."""
    _, ends, data = texts.buffers()
    if data is None or not len(texts):
        return memoryview(b"")
    stops = memoryview(ends).cast("q")
    return memoryview(data)[stops[texts.offset] : stops[texts.offset + len(texts)]]


def text_of(schema: Schema | None) -> TextOf:
    """The function that writes the Java text of a schema's values (and of null).

    The text of a value that is not of the schema depends on its class, as in Java.
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
    """The text of a schemaless, primitive or logical value, by its class."""
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
            order = map_order(keys) if set(map(type, keys)) <= _STR else keys
            inside = ", ".join([f"{of_key(key)}={of_value(value[key])}" for key in order])
        else:
            inside = ", ".join(f"{of_key(key)}={of_value(item)}" for key, item in pairs(value))
        return f"{{{inside}}}"

    return map_text


def _struct_text(schema: Schema) -> TextOf:
    parts = [(field.name, text_of(field.schema)) for field in schema.fields]

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


def _maps_alike(values: list[Value]) -> list[Piece] | None:
    """The texts of maps with the same keys, filled in the same order if it matters."""
    keys = tuple(values[0])
    if not keys or not set(map(type, keys)) <= _STR:
        return None
    if order_matters(keys):
        if set(map(tuple, values)) != {keys}:
            return None
    elif set(map(len, values)) != {len(keys)}:
        return None
    try:
        columns = {key: list(map(itemgetter(key), values)) for key in keys}
    except KeyError:
        return None
    return _map_pieces({key: _printed(columns[key], _any_text) for key in keys})


def _map_pieces(members: Mapping[str, pa.Array]) -> list[Piece]:
    pieces: list[Piece] = ["{"]
    for key in map_order(tuple(members)):
        pieces += [f"{key}=", members[key], ", "]
    pieces[-1] = "}"
    return pieces


def _structs_alike(schema: Schema) -> Alike:
    fields = [(field.name, text_of(field.schema)) for field in schema.fields]

    def structs_alike(values: list[Value]) -> list[Piece]:
        return _struct_pieces(
            {name: _printed(_members(values, name), of, null=None) for name, of in fields}
        )

    return structs_alike


def _struct_pieces(members: Mapping[str, pa.Array]) -> list[Piece]:
    if any(member.null_count for member in members.values()):  # nulls are omitted
        shown = [_together([f",{name}=", member]).fill_null("") for name, member in members.items()]
        return [pc.utf8_replace_slice(_together(shown), 0, 1, "Struct{"), "}"]
    pieces: list[Piece] = ["Struct{"]
    for name, member in members.items():
        pieces += [f"{name}=", member, ","]
    pieces[-1] = "}"
    return pieces


def _of_fields(fields: Fields) -> list[Piece]:
    texts = {name: _shown(member) for name, member in fields.members.items()}
    if fields.schema is not None:  # its order counts, not that of the members
        return _struct_pieces({name: texts[name] for name in fields.schema.field_names})
    return _map_pieces(texts) if texts else ["{}"]


def _members(structs: list[Value], name: str) -> list[Value]:
    """A field of many structs, which may omit nulls."""
    try:
        return list(map(itemgetter(name), structs))
    except KeyError:
        return [struct.get(name) for struct in structs]


def _together(pieces: Sequence[Piece]) -> pa.Array:
    """Concatenates texts by row; null if one of them is."""
    some = [piece for piece in pieces if not isinstance(piece, str) or piece]
    if len(some) == 1 and not isinstance(some[0], str):
        return some[0]
    operands = [pa.scalar(piece, _TEXT) if isinstance(piece, str) else piece for piece in some]
    return pc.binary_join_element_wise(*operands, pa.scalar("", _TEXT))


def _printed(column: Sequence[Value], text: TextOf, null: str | None = "null") -> pa.Array:
    """The texts of many values, with `null` for None."""
    kinds = set(map(type, column))
    holes = type(None) in kinds
    kinds.discard(type(None))
    texts: pa.Array | None = None
    with suppress(OverflowError, UnicodeEncodeError, pa.ArrowInvalid):
        if kinds == _STR:
            texts = pa.array(column, _TEXT)
        elif kinds == _INT:
            texts = _shown(pa.array(column, pa.int64()))
        elif kinds == _BOOL:
            texts = _shown(pa.array(column, pa.bool_()))
        elif kinds == _FLOAT and text is _any_text:
            texts = _shown(pa.array(column, pa.float64()))
    if texts is None:
        printed = [None if value is None else _encodable(text(value)) for value in column]
        texts = pa.array(printed, _TEXT)
    return texts.fill_null(null) if holes and null is not None else texts


def _shown(array: pa.Array) -> pa.Array:
    """The texts of strings, integers, booleans or doubles; null for null."""
    if array.type == _TEXT:
        return array
    return _double_texts(array) if pa.types.is_floating(array.type) else array.cast(_TEXT)


def _double_texts(array: pa.Array) -> pa.Array:
    """`double_text` of each."""
    numbers = array.fill_null(1.0).to_numpy(zero_copy_only=False)
    size = np.abs(numbers)
    if not np.all((size >= 1e-3) & (size < 1e7) | (size == 0)):
        printed = [None if number is None else double_text(number) for number in array.to_pylist()]
        return pa.array(printed, _TEXT)
    # The same shortest digits, in a fraction of the time.
    digits = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode()
    texts = pc.split_pattern(pa.array([digits], _TEXT), ",").flatten()
    return pc.if_else(array.is_valid(), texts, None) if array.null_count else texts


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


_TEXT: Final = pa.large_string()
_STR: Final = {str}
_DICT: Final = {dict}
_BOOL: Final = {bool}
_FLOAT: Final = {float}
_INT: Final = {int}


def _moment_text(moment: datetime) -> str:
    """`java.util.Date.toString` in UTC."""
    return (
        f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:02d} "
        f"{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d} UTC {moment.year:04d}"
    )


def decimal_text(value: Decimal) -> str:
    """`BigDecimal.toString`: as in Python, apart from the sign of zero."""
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
    """The float with the fewest digits that rounds to `value` as a 32-bit float.

    Its text is Java's for a Float: 0.1, not 0.10000000149011612.
    """
    # A normal 32-bit float always preserves six digits, so six are never too many; below the normal
    # range fewer may suffice.
    for digits in range(6 if abs(value) >= _SMALLEST_NORMAL_FLOAT else 2, 9):
        short = float(f"{value:.{digits}g}")
        if float32(short) == value:
            return short
    return float(f"{value:.9g}")


def _infinite_text(value: float) -> str:
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _scientific(value: float, shortest: str) -> str:
    """Java's `d.ddE±x` of a value; `shortest` is its text in Python."""
    digits = len(shortest.partition("e")[0].lstrip("-").replace(".", "").strip("0"))
    # Java prints at least two digits: where one would suffice, the nearest two.
    text = f"{value:.1e}" if digits == 1 else f"{Decimal(shortest):.{digits - 1}e}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}E{int(exponent)}"
