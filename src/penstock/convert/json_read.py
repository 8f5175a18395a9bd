"""JSON text to Connect values (kafka-connect.md §9.2), as Jackson and Kafka Connect read it.

`orjson` reads most messages. `parse` reads what `orjson` cannot:

- numbers whose exact digits matter (Decimal, integers of more than 64 bits),
- what Jackson tolerates and `orjson` does not: leading zeros, text after the value, UTF-16 and
  UTF-32, a byte order mark, lone surrogates, numbers beyond a double,
- empty messages, which are a missing value to Jackson.

A reader is compiled once per schema into functions over JSON nodes (from `orjson.loads` or
`parse`). As in Kafka Connect, a text instead of a number reads as 0, and a number instead of a text
as null. One difference: -0.0 reads as -0.0 here, as 0.0 in the JVM.
"""

from __future__ import annotations

import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import ClassVar, Final

import orjson

from penstock.convert.shapes import FieldWork, Shapes, both_ends, columns_of, convert_each
from penstock.data.logical import (
    bytes_to_decimal,
    days_to_date,
    ms_to_time,
    ms_to_timestamp,
)
from penstock.data.paths import at_key, each, raise_in
from penstock.data.schema import (
    INT_BITS,
    Field,
    Logical,
    Schema,
    Type,
    Value,
    float32,
    int_range,
    within,
    wrap_int,
)
from penstock.errors import DataError

Read = Callable[[Value], Value]
"""A Connect value from a JSON node."""
ReadMany = Callable[[list[Value]], list[Value] | None]
"""Connect values from JSON nodes; None if a node must be read separately."""


class Malformed(ValueError):
    """The bytes are not JSON."""


class Inexact(Exception):
    """`orjson` has rounded a number whose exact digits matter; `parse` must read the message."""


MISSING: Final = object()
"""The node of a blank message. Unlike null, it reads as 0 if a number is expected."""


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError as cause:
        raise Malformed(f"Number out of range: {text}") from cause


def _no_constant(text: str) -> Value:
    raise Malformed(f"Non-standard token '{text}'")


_DECODER: Final = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant)
_BLANK: Final = " \t\r\n"
_STRING_OR_NUMBER: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)0+(\d[\d.eE+-]*)|[\d.eE+-]+')


def parse(data: bytes) -> Value:
    """The first JSON value in `data`, exactly: integers as int, other numbers as Decimal.

    A blank message is MISSING. Raises Malformed for input that Jackson refuses.
    """
    try:
        text = data.decode(json.detect_encoding(data))
        text = text.strip(_BLANK)
        if not text:
            return MISSING
        try:
            return _first_value(text)
        except ValueError:
            normal = _STRING_OR_NUMBER.sub(_without_leading_zeros, text)
            if normal == text:
                raise
            return _first_value(normal)
    except Malformed:
        raise
    except (ValueError, RecursionError) as cause:
        raise Malformed(str(cause)) from cause


def _first_value(text: str) -> Value:
    value, end = _DECODER.raw_decode(text)
    # Text after a string, array or object is ignored, but not text directly after a number.
    if end < len(text) and text[end] not in _BLANK and not isinstance(value, str | list | dict):
        raise Malformed(f"Unexpected character '{text[end]}' at {end}")
    return value


def _without_leading_zeros(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}" if match[2] is not None else match[0]


def schemaless(node: Value) -> Value:
    """The Connect value of a node without a schema: integers wrap to 64 bits, other numbers are
    float."""
    if isinstance(node, Decimal):
        return float(node)
    if isinstance(node, int) and not isinstance(node, bool):
        return wrap_int(node, Type.INT64)
    if isinstance(node, list):
        return [schemaless(item) for item in node]
    if isinstance(node, dict):
        return {name: schemaless(item) for name, item in node.items()}
    return None if node is MISSING else node


# A number token of 19 digits or more that may not fit 64 bits.
_WIDE_INTEGER: Final = re.compile(rb"(?:^|[\[:,\s])-?(?:9[2-9]\d{17}|\d{20})")
_FOLD_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_NINETEEN_DIGITS: Final = b"0" * 19


def may_hold_wide_integers(data: bytes) -> bool:
    """Whether `data` could hold an integer beyond 64 bits; cheap, and never wrongly False."""
    return _NINETEEN_DIGITS in data.translate(_FOLD_DIGITS)


def read_schemaless_strictly(data: bytes) -> Value:
    """The Connect value of one message without a schema.

    Raises ValueError for input that `orjson` refuses, even if Jackson and `parse` would read it.
    """
    node = orjson.loads(data)
    if may_hold_wide_integers(data) and _WIDE_INTEGER.search(data):
        return schemaless(parse(data))
    return node


def reader(schema: Schema | None, *, replace_null: bool) -> Read:
    """The function that reads a schema's values, null included.

    The function raises DataError for a node that does not fit the schema, and Inexact (only for
    nodes of `orjson`) if digits are missing. It may keep and change the node.
    """
    return JsonReaders(replace_null).slot(schema, None)


def batch_reader(schema: Schema | None, *, replace_null: bool) -> ReadMany | None:
    """The function that reads many nodes of `orjson` with one schema, a field at a time; None for
    schemas without such a fast path.

    It returns what `reader` would, or None if a node must be read separately. It raises the same
    errors, but does not say for which node. It may keep and change the nodes.
    """
    if schema is None or schema.type is not Type.STRUCT or schema.logical is not None:
        return None
    return JsonReaders(replace_null).structs(schema)


class JsonReaders:
    """Makes readers. `location` is the place of a value inside a struct, None outside of structs:
    only values in a struct are validated (Kafka's `Struct.put`).

    The methods without an underscore are what other JSON of the same schemas reads differently.
    """

    absent: ClassVar[Value] = None
    """The node of a property that an object lacks."""

    def __init__(self, replace_null: bool) -> None:
        self._replace_null = replace_null

    def slot(self, schema: Schema | None, location: str | None) -> Read:
        """The reader of nodes that may be null."""
        if schema is None:
            return _read_any
        read = self._checked(schema, location)
        if schema.default is not None and self._replace_null:
            default = schema.default
            return lambda node: default if node is None else read(node)
        if schema.optional:
            return lambda node: None if node is None else read(node)
        message = f"Invalid null value for required {schema.type.name} field"

        def required(node: Value) -> Value:
            if node is None:
                raise DataError(message)
            return read(node)

        return required

    def inner(self, schema: Schema | None, location: str | None) -> Read:
        """The reader of an element, key or value."""
        return self.slot(schema, location)

    def field(self, schema: Schema, location: str, struct_location: str | None) -> Read:
        """The reader of a struct's field; `struct_location` is that of the struct."""
        return self.slot(schema, location)

    def is_object(self, key: Schema) -> bool:
        """Whether a map with such keys is a JSON object, otherwise a list of entries."""
        return key.type is Type.STRING

    def entries_of(self, node: Value) -> Iterable[Sequence[Value]]:
        """The nodes of keys and values in a list of entries. Raises DataError."""
        if type(node) is not list:
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of tuples, "
                f"but found {node_type(node)}"
            )
        for entry in node:
            if type(entry) is not list:
                raise DataError(
                    f"Found invalid map entry instead of array tuple: {node_type(entry)}"
                )
            if len(entry) != 2:
                raise DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(entry)}"
                )
        return node

    def _checked(self, schema: Schema, location: str | None) -> Read:
        read = self.value(schema, location)
        lenient = schema.logical is None and schema.type in (Type.STRING, Type.BYTES)
        if schema.optional or location is None or not lenient:
            return read
        message = (
            f"Invalid value: null used for required {location}, schema type: {schema.type.name}"
        )

        def checked(node: Value) -> Value:
            value = read(node)
            if value is None:
                raise DataError(message)
            return value

        return checked

    def value(self, schema: Schema, location: str | None) -> Read:
        """The reader of nodes that are neither null nor absent."""
        match schema.logical:
            case Logical.DECIMAL:
                return _decimal_reader(schema)
            case Logical.DATE:
                return _read_date
            case Logical.TIME:
                return _read_time
            case Logical.TIMESTAMP:
                return _read_timestamp
        match schema.type:
            case Type.ARRAY:
                return self._array(schema, location)
            case Type.MAP:
                return self._map(schema, location)
            case Type.STRUCT:
                return self.struct(schema, location)
            case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
                return _integer_reader(schema.type)
            case _:
                return _PRIMITIVES[schema.type]

    def _array(self, schema: Schema, location: str | None) -> Read:
        element = self.inner(schema.value_schema, location and f"element of array {location}")

        def read_array(node: Value) -> Value:
            if type(node) is dict:
                node = node.values()
            elif type(node) is not list:
                return []
            return each(element, node)

        return read_array

    def _map(self, schema: Schema, location: str | None) -> Read:
        assert schema.key_schema is not None
        key = self.inner(schema.key_schema, location and f"key of map {location}")
        value = self.inner(schema.value_schema, location and f"value of map {location}")
        entries_of = self.entries_of
        hashable = schema.key_schema.type.is_primitive

        def read_object(node: Value) -> Value:
            if type(node) is not dict:
                raise DataError(
                    "Maps with string fields should be encoded as JSON objects, "
                    f"but found {node_type(node)}"
                )
            values = {}
            for name, item in node.items():
                try:
                    values[name] = value(item)
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return values

        def read_entries(node: Value) -> Value:
            entries: list[tuple[Value, Value]] = []
            for name, item in entries_of(node):
                try:
                    entries.append((key(name), value(item)))
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return dict(entries) if hashable else entries

        return read_object if self.is_object(schema.key_schema) else read_entries

    def struct(self, schema: Schema, location: str | None) -> Read:
        """The reader of objects that are structs."""
        names = list(schema.field_names)
        fields = [self._field(field, location) for field in schema.fields]
        shapes = Shapes(fields)
        absent = [self.absent] * len(names)

        def read_struct(node: Value) -> Value:
            if type(node) is not dict:
                raise DataError(
                    f"Structs should be encoded as JSON objects, but found {node_type(node)}"
                )
            if list(node) != names:
                node = dict(zip(names, map(node.get, names, absent), strict=True))
            checks, conversions = shapes[tuple(map(type, node.values()))]
            for name, fits in checks:
                if not fits(node[name]):
                    return convert_each(fields, node)
            # No conversions: the parsed object is the struct.
            name = ""
            try:
                for name, convert in conversions:
                    node[name] = convert(node[name])
            except DataError as cause:
                raise_in(name, cause)
            return node

        return read_struct

    def structs(self, schema: Schema) -> ReadMany:
        """The reader of many structs at once."""
        names = schema.field_names
        fields = [self._field(field, None) for field in schema.fields]

        def read_structs(nodes: list[Value]) -> list[Value] | None:
            columns = columns_of(names, nodes)
            if columns is None:
                return None
            for field, column in zip(fields, columns, strict=True):
                if not field.stand(column):
                    name, convert = field.name, field.convert
                    for node, value in zip(nodes, column, strict=True):
                        node[name] = convert(value)
            return nodes

        return read_structs if names else lambda nodes: None

    def _field(self, field: Field, struct_location: str | None) -> FieldWork:
        schema = field.schema
        natural, fits = _NATURAL.get(schema.type, (None, None))
        return FieldWork(
            field.name,
            self.field(schema, f'field: "{field.name}"', struct_location),
            natural if schema.logical is None else None,
            fits,
            null_stays=schema.optional and (schema.default is None or not self._replace_null),
            all_fit=fits and both_ends(fits),
        )


_NATURAL: Final[Mapping[Type, tuple[type, Callable[[Value], bool] | None]]] = {
    Type.STRING: (str, None),
    Type.BOOLEAN: (bool, None),
    Type.FLOAT64: (float, None),
    **{type: (int, within(type)) for type in INT_BITS},
}
"""Types whose nodes are the values, if they have the class and pass the check."""


def node_type(node: Value) -> str:
    """Jackson's name for the type of a node."""
    match node:
        case None:
            return "NULL"
        case bool():
            return "BOOLEAN"
        case int() | float() | Decimal():
            return "NUMBER"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
        case dict():
            return "OBJECT"
        case _:
            return "MISSING"


def _read_any(node: Value) -> Value:
    """`schemaless` for a node inside a schema, which `orjson` may have parsed."""
    match node:
        case float():
            if abs(node) >= 2**63:
                raise Inexact
            return node
        case list():
            return [_read_any(item) for item in node]
        case dict():
            return {name: _read_any(item) for name, item in node.items()}
        case _:
            return schemaless(node)


def _integer_reader(type_: Type) -> Read:
    low, high = int_range(type_)

    def read_integer(node: Value) -> Value:
        if type(node) is int:
            return node if low <= node <= high else wrap_int(node, type_)
        if type(node) is float:
            raise Inexact
        if isinstance(node, Decimal):
            # 10^64 is a multiple of 2^64: no low bits are left, however large the exponent.
            exponent = node.as_tuple().exponent
            return 0 if isinstance(exponent, int) and exponent >= 64 else wrap_int(int(node), type_)
        return 0

    return read_integer


def _read_float64(node: Value) -> Value:
    if type(node) is float:
        return node
    if isinstance(node, bool) or not isinstance(node, int | Decimal):
        return 0.0
    try:
        return float(node)
    except OverflowError:
        return float("inf") if node > 0 else float("-inf")


def _read_float32(node: Value) -> Value:
    return float32(_read_float64(node))


def _read_boolean(node: Value) -> Value:
    return node is True


def _read_string(node: Value) -> Value:
    return node if type(node) is str else None


def _read_bytes(node: Value) -> Value:
    if type(node) is not str:
        return None
    try:
        return base64_bytes(node)
    except ValueError as cause:
        raise DataError("Invalid bytes field") from cause


_PRIMITIVES: Final[Mapping[Type, Read]] = {
    Type.FLOAT32: _read_float32,
    Type.FLOAT64: _read_float64,
    Type.BOOLEAN: _read_boolean,
    Type.STRING: _read_string,
    Type.BYTES: _read_bytes,
}


def base64_bytes(text: str) -> bytes:
    """The bytes of padded base64 text; as in Jackson, blanks between groups of four are allowed."""
    try:
        return a2b_base64(text, strict_mode=True)
    except Base64Error:
        if not _BLANK_SEPARATED_QUADS.fullmatch(text):
            raise
        return a2b_base64(_BLANKS.sub("", text), strict_mode=True)


_BLANKS: Final = re.compile(r"[\0- ]+")
_BLANK_SEPARATED_QUADS: Final = re.compile(r"(?:[\0- ]*[^\0- ]{4})*[\0- ]*")


def _decimal_reader(schema: Schema) -> Read:
    def read_decimal(node: Value) -> Value:
        if type(node) is str:
            try:
                return bytes_to_decimal(base64_bytes(node), schema.scale)
            except (ValueError, DataError) as cause:
                raise DataError("Invalid bytes for Decimal field") from cause
        if type(node) is float:
            raise Inexact
        if isinstance(node, Decimal):
            return node
        if type(node) is int:
            return Decimal(node)
        raise DataError(
            "Invalid type for Decimal, underlying representation should be numeric or bytes "
            f"but was {node_type(node)}"
        )

    return read_decimal


_is_int32: Final = within(Type.INT32)
_is_int64: Final = within(Type.INT64)


def _read_date(node: Value) -> Value:
    if type(node) is not int or not _is_int32(node):
        raise _not_int32("Date", node)
    return days_to_date(node)


def _read_time(node: Value) -> Value:
    if type(node) is not int or not _is_int32(node):
        raise _not_int32("Time", node)
    return ms_to_time(node)


def _not_int32(logical: str, node: Value) -> DataError:
    return DataError(
        f"Invalid type for {logical}, underlying representation should be integer "
        f"but was {node_type(node)}"
    )


def _read_timestamp(node: Value) -> Value:
    if type(node) is int:
        return ms_to_timestamp(node if _is_int64(node) else wrap_int(node, Type.INT64))
    if type(node) is float:
        raise Inexact
    raise DataError(
        "Invalid type for Timestamp, underlying representation should be integral "
        f"but was {node_type(node)}"
    )
