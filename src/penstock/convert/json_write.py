"""Connect values to JSON (kafka-connect.md §9.2), as Kafka Connect and Jackson write it.

A writer is compiled once per schema into functions that return nodes for `orjson`. The values are
Jackson's; the bytes may differ where JSON leaves a choice:

- exponents: `1e+16` here, `1.0E16` in Jackson; and which numbers have one;
- control characters: `\\u001f` here, `\\u001F` in Jackson; characters beyond U+FFFF: UTF-8 here, a
  pair of escapes in Jackson;
- maps: in insertion order here, in the order of a Java HashMap in Kafka Connect.

NaN and the infinities are the texts `"NaN"`, `"Infinity"`, `"-Infinity"`, as in Jackson.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import ClassVar, Final

import orjson

from penstock.convert.logical import TEMPORAL_WRITERS, not_decimal
from penstock.convert.shapes import (
    AllFit,
    FieldWork,
    Fits,
    Shapes,
    Values,
    both_ends,
    columns_of,
)
from penstock.data.logical import decimal_to_bytes
from penstock.data.paths import at_key, each, raise_in
from penstock.data.schema import (
    INT_BITS,
    Field,
    Logical,
    Schema,
    Type,
    Value,
    float32,
    invalid_type,
    java_class,
    pairs,
    within,
)
from penstock.data.structs import structs_of
from penstock.data.text import decimal_text, double_text, shortest_float32
from penstock.errors import DataError

Write = Callable[[Value], Value]
"""The node of a Connect value, which `orjson` can write."""

WriteMany = Callable[[list[Value]], list[Value] | None]
"""The nodes of many values; None if one of them must be written separately."""


class DecimalFormat(Enum):
    """How Decimal values are written (`decimal.format`)."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


def base64_text(data: bytes) -> str:
    """Padded base64 of the standard alphabet."""
    return b2a_base64(data, newline=False).decode("ascii")


def writer(schema: Schema | None, *, decimals: DecimalFormat, replace_null: bool) -> Write:
    """The function that writes a schema's values, null included. It raises DataError."""
    return JsonWriters(decimals, replace_null).slot(schema)


def batch_writer(
    schema: Schema | None, *, decimals: DecimalFormat, replace_null: bool
) -> WriteMany | None:
    """The function that writes many values of one schema, a field at a time; None for schemas
    without such a fast path.

    It returns what `writer` would, or None, and raises the same errors, but does not say for which
    value.
    """
    if schema is None or schema.type is not Type.STRUCT or not schema.fields:
        return None
    return JsonWriters(decimals, replace_null).structs(schema)


def schemaless_bytes(value: Value) -> bytes:
    """The JSON of a value without a schema. Raises DataError if its class cannot be written."""
    try:
        data = orjson.dumps(value, option=_OWN_CLASSES_ONLY)
        # orjson writes NaN as null.
        if b"null" not in data or not _has_infinite(value):
            return data
    except TypeError:
        pass
    return dump(_write_any(value))


def dump(node: Value) -> bytes:
    """The JSON of a node. Raises TypeError or ValueError."""
    try:
        return orjson.dumps(node)
    except TypeError:
        # Nested too deeply for orjson, or with a lone surrogate, which must be escaped.
        return json.dumps(node, separators=(",", ":")).encode()


_OWN_CLASSES_ONLY: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


def _has_infinite(value: Value) -> bool:
    if type(value) is float:
        return not isfinite(value)
    if type(value) is dict:
        return any(map(_has_infinite, value.values()))
    return type(value) is list and any(map(_has_infinite, value))


def _write_any(value: Value) -> Value:
    """The node of a value without a schema."""
    match value:
        case None | bool() | str():
            return value
        case int() if -(2**63) <= value < 2**64:
            return value
        case float():
            return value if isfinite(value) else double_text(value)
        case bytes() | bytearray() | memoryview():
            return base64_text(bytes(value))
        case list():
            return each(_write_any, value)
        case dict():
            entries: list[list[Value]] = []
            for name, item in value.items():
                try:
                    entries.append([_write_any(name), _write_any(item)])
                except DataError as cause:
                    raise_in(name if isinstance(name, str) else at_key(name), cause)
            return dict(entries) if all(isinstance(name, str) for name in value) else entries
        case _:
            raise DataError(
                f"Java class {java_class(value)} does not have corresponding schema type."
            )


class JsonWriters:
    """Makes writers. The methods without an underscore are what other JSON of the same schemas
    writes differently."""

    absent: ClassVar[Value | None] = None
    """The node of a property that is omitted, if properties may be."""

    def __init__(self, decimals: DecimalFormat, replace_null: bool) -> None:
        self._decimals = decimals
        self.replace_null = replace_null

    def slot(self, schema: Schema | None) -> Write:
        """The writer of values that may be null."""
        if schema is None:
            return _write_any
        write = self.value(schema)
        if schema.default is not None and self.replace_null:
            default = schema.default
            return lambda value: write(default if value is None else value)
        if schema.optional:
            return lambda value: None if value is None else write(value)

        def required(value: Value) -> Value:
            if value is None:
                raise DataError(
                    "Conversion error: null value for field that is required "
                    "and has no default value"
                )
            return write(value)

        return required

    def inner(self, schema: Schema | None) -> Write:
        """The writer of an element or value."""
        return self.slot(schema)

    def key(self, schema: Schema | None) -> Write:
        """The writer of a key."""
        return self.slot(schema)

    def is_object(self, key: Schema | None) -> bool:
        """Whether a map with such keys is a JSON object, otherwise a list of entries."""
        return key is not None and key.type is Type.STRING

    def entries_of(self, pairs: list[list[Value]]) -> list[Value]:
        """The entries of nodes of keys and values."""
        return [*pairs]

    def value(self, schema: Schema) -> Write:
        """The writer of values that are not null."""
        match schema.logical:
            case Logical.DECIMAL:
                return self._decimal(schema)
            case Logical.DATE | Logical.TIME | Logical.TIMESTAMP:
                return TEMPORAL_WRITERS[schema.logical]
        match schema.type:
            case Type.ARRAY:
                return self._array(schema)
            case Type.MAP:
                return self._map(schema)
            case Type.STRUCT:
                return self.struct(schema)
            case Type.BYTES:
                return _write_bytes
            case Type.FLOAT32:
                return _float32_writer(schema)
            case _:
                return _natural_writer(schema)

    def _decimal(self, schema: Schema) -> Write:
        numeric = self._decimals is DecimalFormat.NUMERIC

        def write_decimal(value: Value) -> Value:
            if not isinstance(value, Decimal) or not value.is_finite():
                raise not_decimal(value)
            if numeric:
                return orjson.Fragment(decimal_text(value))
            return base64_text(decimal_to_bytes(value, schema.scale))

        return write_decimal

    def _array(self, schema: Schema) -> Write:
        element = self.inner(schema.value_schema)

        def write_array(value: Value) -> Value:
            if type(value) is not list:
                raise invalid_type(schema, value)
            return each(element, value)

        return write_array

    def _map(self, schema: Schema) -> Write:
        key, mapped = self.key(schema.key_schema), self.inner(schema.value_schema)
        entries_of = self.entries_of

        def write_object(value: Value) -> Value:
            if type(value) is not dict:
                raise invalid_type(schema, value)
            node = {}
            for name, item in value.items():
                try:
                    text = key(name)
                    # As with Jackson's `asText`, a null key is "null".
                    node["null" if text is None else text] = mapped(item)
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return node

        def write_entries(value: Value) -> Value:
            if not isinstance(value, dict | list):
                raise invalid_type(schema, value)
            nodes: list[list[Value]] = []
            for name, item in pairs(value):
                try:
                    nodes.append([key(name), mapped(item)])
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return entries_of(nodes)

        return write_object if self.is_object(schema.key_schema) else write_entries

    def struct(self, schema: Schema) -> Write:
        """The writer of structs."""
        names = list(schema.field_names)
        known = frozenset(names)
        fields = [self._field(field) for field in schema.fields]
        shapes = Shapes(fields)
        everything = [(field.name, field.convert) for field in fields]
        absent = self.absent

        def write_struct(value: Value) -> Value:
            if type(value) is not dict:
                raise invalid_type(schema, value)
            if list(value) != names:
                if not known.issuperset(value):
                    raise DataError("Mismatching schema.")
                value = dict(zip(names, map(value.get, names), strict=True))
            checks, conversions = shapes[tuple(map(type, value.values()))]
            for name, fits in checks:
                if not fits(value[name]):
                    conversions = everything
                    break
            if not conversions:
                return value
            node = value.copy()
            name = ""
            try:
                for name, convert in conversions:
                    node[name] = convert(value[name])
            except DataError as cause:
                raise_in(name, cause)
            if absent is not None:
                for name, _ in conversions:
                    if node[name] is absent:
                        del node[name]
            return node

        return write_struct

    def structs(self, schema: Schema) -> WriteMany:
        """The writer of many structs at once."""
        names = schema.field_names
        fields = [self._field(field) for field in schema.fields]
        structs = structs_of(names)

        def write_structs(values: list[Value]) -> list[Value] | None:
            columns = columns_of(names, values)
            if columns is None:
                return None
            natural = True
            for at, field in enumerate(fields):
                if not field.stand(columns[at]):
                    columns[at] = list(map(field.convert, columns[at]))
                    natural = False
            return values if natural else structs(columns)

        return write_structs

    def _field(self, field: Field) -> FieldWork:
        schema = field.schema
        natural, fits, all_fit = _NATURAL.get(schema.type, (None, None, None))
        return FieldWork(
            field.name,
            self.slot(schema),
            natural if schema.logical is None else None,
            fits,
            null_stays=schema.optional and (schema.default is None or not self.replace_null),
            all_fit=all_fit,
        )


def _natural_int(kind: Type) -> tuple[type, Fits, AllFit]:
    fits = within(kind)
    return int, fits, both_ends(fits)


def _all_finite(column: Values) -> bool:
    """The sum is not finite if a value is not; an overflow only costs the slow path."""
    return isfinite(sum(column))


_NATURAL: Final[Mapping[Type, tuple[type, Fits | None, AllFit | None]]] = {
    Type.STRING: (str, None, None),
    Type.BOOLEAN: (bool, None, None),
    Type.FLOAT64: (float, isfinite, _all_finite),
    **{type: _natural_int(type) for type in INT_BITS},
}
"""Types whose values are nodes, if they have the class and pass the checks."""


def _natural_writer(schema: Schema) -> Write:
    kind, fits, _ = _NATURAL[schema.type]

    def write_natural(value: Value) -> Value:
        if type(value) is kind and (fits is None or fits(value)):
            return value
        if kind is float and type(value) is float:
            return double_text(value)
        raise invalid_type(schema, value)

    return write_natural


def _float32_writer(schema: Schema) -> Write:
    def write_float32(value: Value) -> Value:
        if type(value) is not float:
            raise invalid_type(schema, value)
        narrow = float32(value)
        return shortest_float32(narrow) if isfinite(narrow) else double_text(narrow)

    return write_float32


def _write_bytes(value: Value) -> Value:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise DataError(f"Invalid type for bytes type: {java_class(value)}")
    return base64_text(bytes(value))
