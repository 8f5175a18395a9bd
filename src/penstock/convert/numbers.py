"""Numbers and booleans as the bytes of Kafka's own serializers (kafka-connect.md §9.3).

    BooleanConverter    1 byte, 0 or 1
    ShortConverter      2 bytes, big endian, as all that follow
    IntegerConverter    4 bytes
    LongConverter       8 bytes
    FloatConverter      4 bytes, IEEE 754
    DoubleConverter     8 bytes, IEEE 754

A value must be of exactly the converter's Java class: the IntegerConverter refuses a Long (an
integer without a schema counts as one), and otherwise ignores the schema. The BooleanConverter
requires a BOOLEAN schema, even for null.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from penstock import KAFKA_VERSION
from penstock.api.converter import Converter
from penstock.api.plugin import Plugin
from penstock.convert.settings import ANY_CONVERTER
from penstock.data.records import Column, Failed
from penstock.data.schema import (
    FLOAT64,
    INT64,
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    Schema,
    Type,
    Value,
    int_range,
    java_class,
)
from penstock.errors import DataError

_JAVA_CLASSES: Final[Mapping[Type, str]] = {
    Type.INT8: "class java.lang.Byte",
    Type.INT16: "class java.lang.Short",
    Type.INT32: "class java.lang.Integer",
    Type.FLOAT32: "class java.lang.Float",
    Type.MAP: "class java.util.HashMap",
    Type.STRUCT: "class org.apache.kafka.connect.data.Struct",
}


def _java_class(schema: Schema | None, value: Value) -> str:
    """The Java class of a schema's value; that of its Python class if it does not fit the
    schema."""
    if schema is not None and schema.logical is None:
        kind = type(value)
        match schema.type:
            case Type.INT8 | Type.INT16 | Type.INT32:
                low, high = int_range(schema.type)
                fits = kind is int and low <= value <= high
            case Type.FLOAT32:
                fits = kind is float
            case Type.MAP:
                # A map with arrays, maps or structs as keys is a list of pairs.
                fits = kind is dict or (
                    kind is list and all(type(entry) is tuple for entry in value)
                )
            case Type.STRUCT:
                fits = kind is dict
            case _:
                fits = False
        if fits:
            return _JAVA_CLASSES[schema.type]
    return java_class(value)


class _NumberConverter(Converter):
    """The common part of the number converters; subclasses name the type."""

    _name: ClassVar[str]
    _schema: ClassVar[Schema]
    _format: ClassVar[struct.Struct]
    _python: ClassVar[type]

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        present = [cell for cell in cells if cell is not None]
        size = self._format.size
        if set(map(len, present)) <= {size}:
            numbers = self._many(len(present)).unpack(b"".join(present))
            return Column.of(_among(numbers, cells), self._schema)
        values: list[Value] = []
        for row, cell in enumerate(cells):
            if cell is None or len(cell) == size:
                values.append(None if cell is None else self._format.unpack(cell)[0])
                continue
            failed[row] = error = DataError(f"Failed to deserialize {self._name}: ")
            error.__cause__ = ValueError(f"Size of data received is not {size}")
            values.append(None)
        return Column.of(values, self._schema)

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        cells: list[bytes | None] = []
        for schema, start, stop in column.slices():
            values = column.values[start:stop]
            try:
                cells += self._packed(schema, values)
            except (ValueError, struct.error, OverflowError):
                self._write_each(schema, values, start, cells, failed)
        return cells

    def _packed(self, schema: Schema | None, values: list[Value]) -> list[bytes | None]:
        """The cells of values that are null or numbers of the class; raises an error for others."""
        own = self._schema
        if schema is None:
            schema = INT64 if self._python is int else FLOAT64
        if schema.type is not own.type or schema.logical is not None:
            raise ValueError
        present = [value for value in values if value is not None]
        if not set(map(type, present)) <= {self._python}:
            raise ValueError
        data, size = self._many(len(present)).pack(*present), self._format.size
        packed = [data[at : at + size] for at in range(0, len(data), size)]
        return _among(packed, values)

    def _write_each(
        self,
        schema: Schema | None,
        values: list[Value],
        start: int,
        cells: list[bytes | None],
        failed: Failed,
    ) -> None:
        expected = _JAVA_CLASSES.get(self._schema.type) or java_class(self._python())
        for row, value in enumerate(values, start):
            kind = expected if value is None else _java_class(schema, value)
            if kind == expected:
                cells.append(None if value is None else self._format.pack(value))
                continue
            failed[row] = DataError(f"Failed to serialize to {self._name} (was {kind}): ")
            cells.append(None)

    def _many(self, count: int) -> struct.Struct:
        return struct.Struct(f">{count}{self._format.format[1:]}")


def _among(values: Sequence[Value], cells: Sequence[object]) -> list[Value]:
    """A value for each cell: null for null, otherwise the next of `values`."""
    if len(values) == len(cells):
        return list(values)
    following = iter(values)
    return [None if cell is None else next(following) for cell in cells]


class ShortConverter(_NumberConverter):
    """Reads optional INT16 from two bytes; writes Shorts."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.converters.ShortConverter",
        version=KAFKA_VERSION,
        config=ANY_CONVERTER,
    )
    _name = "short"
    _schema = OPTIONAL_INT16
    _format = struct.Struct(">h")
    _python = int


class IntegerConverter(_NumberConverter):
    """Reads optional INT32 from four bytes; writes Integers."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.converters.IntegerConverter",
        version=KAFKA_VERSION,
        config=ANY_CONVERTER,
    )
    _name = "integer"
    _schema = OPTIONAL_INT32
    _format = struct.Struct(">i")
    _python = int


class LongConverter(_NumberConverter):
    """Reads optional INT64 from eight bytes; writes Longs."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.converters.LongConverter",
        version=KAFKA_VERSION,
        config=ANY_CONVERTER,
    )
    _name = "long"
    _schema = OPTIONAL_INT64
    _format = struct.Struct(">q")
    _python = int


class FloatConverter(_NumberConverter):
    """Reads optional FLOAT32 from four bytes; writes Floats."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.converters.FloatConverter",
        version=KAFKA_VERSION,
        config=ANY_CONVERTER,
    )
    _name = "float"
    _schema = OPTIONAL_FLOAT32
    _format = struct.Struct(">f")
    _python = float


class DoubleConverter(_NumberConverter):
    """Reads optional FLOAT64 from eight bytes; writes Doubles."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.converters.DoubleConverter",
        version=KAFKA_VERSION,
        config=ANY_CONVERTER,
    )
    _name = "double"
    _schema = OPTIONAL_FLOAT64
    _format = struct.Struct(">d")
    _python = float


_BOOLEANS: Final[Mapping[bytes | None, bool | None]] = {b"\0": False, b"\1": True, None: None}
_BOOLEAN_CELLS: Final[Mapping[bool | None, bytes | None]] = {
    value: cell for cell, value in _BOOLEANS.items()
}


class BooleanConverter(Converter):
    """Reads optional BOOLEAN from a byte that is 0 or 1; writes Booleans."""

    plugin = Plugin(
        class_name="org.apache.kafka.connect.converters.BooleanConverter",
        version=KAFKA_VERSION,
        config=ANY_CONVERTER,
    )

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        values: list[Value]
        try:
            values = [_BOOLEANS[cell] for cell in cells]
        except KeyError:
            values = [_BOOLEANS.get(cell) for cell in cells]
            for row, cell in enumerate(cells):
                if cell not in _BOOLEANS:
                    failed[row] = error = DataError("Failed to deserialize boolean: ")
                    error.__cause__ = ValueError(f"Neither a byte 0 nor a byte 1: {cell!r}")
        return Column.of(values, OPTIONAL_BOOLEAN)

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        cells: list[bytes | None] = []
        for schema, start, stop in column.slices():
            values = column.values[start:stop]
            if schema is not None and schema.type is not Type.BOOLEAN:
                message = f"Invalid schema type for BooleanConverter: {schema.type.name}"
                failed.update((row, DataError(message)) for row in range(start, stop))
                cells += [None] * len(values)
            elif set(map(type, values)) <= {bool, type(None)}:
                cells += [_BOOLEAN_CELLS[value] for value in values]
            else:
                self._write_each(values, start, cells, failed)
        return cells

    def _write_each(
        self, values: list[Value], start: int, cells: list[bytes | None], failed: Failed
    ) -> None:
        for row, value in enumerate(values, start):
            if value is None or type(value) is bool:
                cells.append(_BOOLEAN_CELLS[value])
                continue
            failed[row] = DataError(
                f"BooleanConverter is not compatible with objects of type {java_class(value)}"
            )
            cells.append(None)
