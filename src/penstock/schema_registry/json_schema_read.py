"""The JSON of a JSON Schema converter as Connect values (kafka-connect.md §9.5).

As `convert.json_read`, with these differences:

- null is refused for a required field, and a missing property too, except in the outermost struct,
  where it is null: only a struct in another one is validated (Kafka's `Struct.put`);
- maps whose keys are not text are lists of `{"key": …, "value": …}`;
- a union is the first alternative that has the value's JSON type, or else the struct that has most
  of the object's properties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from penstock.convert.json_read import MISSING, JsonReaders, Read, node_type
from penstock.data.paths import raise_in
from penstock.data.schema import INT_BITS, Field, Schema, Type, Value
from penstock.errors import DataError
from penstock.schema_registry.json_schema_names import (
    ABSENT,
    KEY,
    VALUE,
    is_text_key,
    is_union,
)


def reader(schema: Schema) -> Read:
    """The function that reads a schema's values, null and ABSENT included.

    It raises DataError for a node that does not fit the schema, and `json_read.Inexact` (only for
    nodes of `orjson`) if digits are missing. It may keep and change the node.
    """
    return _Readers(replace_null=True).slot(schema, None)


class _Readers(JsonReaders):
    absent = ABSENT

    def slot(self, schema: Schema | None, location: str | None) -> Read:
        if schema is None:
            raise DataError("Array schema did not specify the items type")
        read = self.value(schema, location)
        default, optional = schema.default, schema.optional
        refused = f"Invalid null value for required {schema.type.name} field"

        def read_slot(node: Value) -> Value:
            if node is None or node is ABSENT or node is MISSING:
                if default is not None:
                    return default
                if optional or node is not None:
                    return None
                raise DataError(refused)
            return read(node)

        return read_slot

    def inner(self, schema: Schema | None, location: str | None) -> Read:
        read = self.slot(schema, location)
        if location is None or schema is None or schema.optional:
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

    def field(self, schema: Schema, location: str, struct_location: str | None) -> Read:
        return (self.slot if struct_location is None else self.inner)(schema, location)

    def is_object(self, key: Schema) -> bool:
        return is_text_key(key)

    def entries_of(self, node: Value) -> Iterable[Sequence[Value]]:
        if type(node) is not list:
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of objects, "
                f"but found {node_type(node)}"
            )
        entries: list[tuple[Value, Value]] = []
        for entry in node:
            if type(entry) is not dict:
                raise DataError(f"Found invalid map entry instead of object: {node_type(entry)}")
            if len(entry) != 2:
                raise DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(entry)}"
                )
            entries.append((entry.get(KEY, ABSENT), entry.get(VALUE, ABSENT)))
        return entries

    def struct(self, schema: Schema, location: str | None) -> Read:
        return self._union(schema) if is_union(schema) else super().struct(schema, location)

    def _union(self, schema: Schema) -> Read:
        alternatives = [
            (
                field.name,
                _FITS[field.schema.type],
                self.slot(field.schema, None),
                _properties(field),
            )
            for field in schema.fields
        ]

        def read_union(node: Value) -> Value:
            best: tuple[str, Read] | None = None
            most = -1
            for name, fits, read, properties in alternatives:
                if fits(node):
                    return {name: _read_alternative(name, read, node)}
                if properties is not None and type(node) is dict:
                    known = len(properties & node.keys())
                    if known > most:
                        best, most = (name, read), known
            if best is None:
                raise DataError("Did not find matching oneof field for data")
            name, read = best
            return {name: _read_alternative(name, read, node)}

        return read_union


_FITS: Final[Mapping[Type, Callable[[Value], bool]]] = {
    **dict.fromkeys(INT_BITS, lambda node: type(node) is int),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), lambda node: type(node) in (int, float, Decimal)),
    Type.BOOLEAN: lambda node: type(node) is bool,
    Type.STRING: lambda node: type(node) is str,
    # A Decimal is written as a number with a fraction. Text is never read as bytes.
    Type.BYTES: lambda node: type(node) in (float, Decimal),
    Type.ARRAY: lambda node: type(node) is list,
    Type.MAP: lambda node: type(node) in (dict, list),
    Type.STRUCT: lambda node: False,
}


def _read_alternative(name: str, read: Read, node: Value) -> Value:
    try:
        return read(node)
    except DataError as cause:
        raise_in(name, cause)


def _properties(field: Field) -> frozenset[str] | None:
    """The property names of an alternative; None if it is not a struct."""
    schema = field.schema
    return frozenset(schema.field_names) if schema.type is Type.STRUCT else None
