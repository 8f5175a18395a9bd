"""Connect values to and from the JSON of a JSON Schema converter (kafka-connect.md §9.5).

Like `convert.json_read` and `convert.json_write`, which handle primitives, with these differences:

- null for a required field is allowed when writing: the property is omitted. A missing property of
  the outermost struct reads as null. One of a struct in it is refused, because Kafka's `Struct.put`
  validates structs; so is an explicit null for a required field;
- maps whose keys are not text are lists of `{"key": …, "value": …}`;
- a union is the JSON of the alternative that is set. Reading chooses the first alternative that
  has the value's JSON type, or else the struct that has most of the object's properties.

Functions are compiled once per schema; the nodes are what `orjson.loads` or `parse` return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from math import isfinite
from typing import Final

import orjson

from penstock.convert import json_read, json_write
from penstock.convert.json_read import MISSING, Read, node_type
from penstock.convert.json_write import Write
from penstock.convert.shapes import FieldWork, Shapes, convert_each
from penstock.data.paths import at_key, each, raise_in
from penstock.data.schema import (
    INT_BITS,
    Field,
    Schema,
    Type,
    Value,
    invalid_type,
    pairs,
    within,
)
from penstock.data.text import decimal_text
from penstock.errors import DataError
from penstock.schema_registry.json_schema_names import KEY, VALUE, Options, is_union, keyed_by_text


class _Absent:
    """The class of `ABSENT`: a missing property, as opposed to null."""


ABSENT: Final = _Absent()


def writer(schema: Schema, options: Options) -> Write:
    """The function that makes nodes for `orjson` of a schema's values.

    It returns ABSENT for null if null is neither allowed nor replaced by a default. It raises
    DataError for a value that is not of the schema.
    """
    return _Writers(options).slot(schema)


def reader(schema: Schema) -> Read:
    """The function that reads a schema's values, null and ABSENT included.

    It raises DataError for a node that does not fit the schema, and `json_read.Inexact` (only for
    nodes of `orjson`) if digits are missing. It may keep and change the node.
    """
    return _slot_reader(schema, None)


_NATURAL: Final[Mapping[Type, tuple[type, Callable[[Value], bool] | None]]] = {
    Type.STRING: (str, None),
    Type.BOOLEAN: (bool, None),
    Type.FLOAT64: (float, isfinite),
    **{type: (int, within(type)) for type in INT_BITS},
}
"""Types whose values are their nodes, if they have the class and pass the check."""


class _Writers:
    def __init__(self, options: Options) -> None:
        self._options = options

    def slot(self, schema: Schema | None) -> Write:
        """The writer of values that may be null."""
        if schema is None:
            raise DataError("A JSON Schema cannot express an array or map of anything")
        write = self._value(schema)
        null: Value = ABSENT
        if schema.default is not None and not self._options.ignore_default:
            null = write(schema.default)
        elif schema.optional:
            null = None
        return lambda value: null if value is None else write(value)

    def inner(self, schema: Schema | None) -> Write:
        """The writer of an element, key or value, which cannot be omitted."""
        write = self.slot(schema)

        def write_inner(value: Value) -> Value:
            node = write(value)
            return None if node is ABSENT else node

        return write_inner

    def _value(self, schema: Schema) -> Write:
        """The writer of values that are not null."""
        if schema.logical is None:
            match schema.type:
                case Type.ARRAY:
                    return self._array(schema)
                case Type.MAP:
                    return self._map(schema)
                case Type.STRUCT:
                    return self._union(schema) if is_union(schema) else self._struct(schema)
        leaf = replace(schema, optional=False, default=None)
        write = json_write.writer(leaf, decimals=self._options.decimals, replace_null=False)
        if schema.type is Type.BYTES and schema.logical is None:
            return lambda value: _number(value) if isinstance(value, Decimal) else write(value)
        return write

    def _array(self, schema: Schema) -> Write:
        element = self.inner(schema.value_schema)

        def write_array(value: Value) -> Value:
            if type(value) is not list:
                raise invalid_type(schema, value)
            return each(element, value)

        return write_array

    def _map(self, schema: Schema) -> Write:
        key, mapped = self.inner(schema.key_schema), self.inner(schema.value_schema)

        def write_object(value: Value) -> Value:
            if type(value) is not dict:
                raise invalid_type(schema, value)
            node = {}
            for name, item in value.items():
                if name is None:
                    raise DataError("Invalid value: null used for required key of map")
                try:
                    node[key(name)] = mapped(item)
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return node

        def write_entries(value: Value) -> Value:
            if not isinstance(value, dict | list):
                raise invalid_type(schema, value)
            nodes: list[Value] = []
            for name, item in pairs(value):
                try:
                    nodes.append({KEY: key(name), VALUE: mapped(item)})
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return nodes

        return write_object if keyed_by_text(schema) else write_entries

    def _union(self, schema: Schema) -> Write:
        alternatives = [(field.name, self._value(field.schema)) for field in schema.fields]
        known = frozenset(schema.field_names)
        null: Value = None if schema.optional else ABSENT

        def write_union(value: Value) -> Value:
            if type(value) is not dict:
                raise invalid_type(schema, value)
            if not known.issuperset(value):
                raise DataError("Mismatching schema.")
            for name, write in alternatives:
                inner = value.get(name)
                if inner is not None:
                    try:
                        return write(inner)
                    except DataError as cause:
                        raise_in(name, cause)
            return null

        return write_union

    def _struct(self, schema: Schema) -> Write:
        names = list(schema.field_names)
        known = frozenset(names)
        fields = [self._field(field) for field in schema.fields]
        shapes = Shapes(fields)

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
                    conversions = [(field.name, field.convert) for field in fields]
                    break
            if not conversions:
                return value
            node = value.copy()
            name = ""
            try:
                for name, convert in conversions:
                    inner = convert(value[name])
                    if inner is ABSENT:
                        del node[name]
                    else:
                        node[name] = inner
            except DataError as cause:
                raise_in(name, cause)
            return node

        return write_struct

    def _field(self, field: Field) -> FieldWork:
        schema = field.schema
        natural, fits = _NATURAL.get(schema.type, (None, None))
        return FieldWork(
            field.name,
            self.slot(schema),
            natural if schema.logical is None else None,
            fits,
            null_stays=schema.optional and (schema.default is None or self._options.ignore_default),
        )


def _number(value: Decimal) -> Value:
    return orjson.Fragment(decimal_text(value))


def _slot_reader(schema: Schema | None, location: str | None) -> Read:
    """The reader of nodes that may be null or absent. `location` is the place inside a struct, None
    outside: only values in a struct are validated (Kafka's `Struct.put`)."""
    if schema is None:
        raise DataError("Array schema did not specify the items type")
    read = _value_reader(schema, location)
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


def _inner_reader(schema: Schema | None, location: str | None) -> Read:
    """The reader of an element, key or value; inside a struct, a required one must not be null."""
    read = _slot_reader(schema, location)
    assert schema is not None
    if location is None or schema.optional:
        return read
    message = f"Invalid value: null used for required {location}, schema type: {schema.type.name}"

    def checked(node: Value) -> Value:
        value = read(node)
        if value is None:
            raise DataError(message)
        return value

    return checked


def _value_reader(schema: Schema, location: str | None) -> Read:
    """The reader of nodes that are neither null nor absent."""
    if schema.logical is None:
        match schema.type:
            case Type.ARRAY:
                return _array_reader(schema, location)
            case Type.MAP:
                return _map_reader(schema, location)
            case Type.STRUCT:
                return (
                    _union_reader(schema)
                    if is_union(schema)
                    else _struct_reader(schema, is_validated=location is not None)
                )
    return json_read.reader(replace(schema, optional=True, default=None), replace_null=False)


def _array_reader(schema: Schema, location: str | None) -> Read:
    element = _inner_reader(schema.value_schema, location and f"element of array {location}")

    def read_array(node: Value) -> Value:
        # Jackson iterates over any node: over the values of an object, over nothing for others.
        if type(node) is dict:
            node = list(node.values())
        elif type(node) is not list:
            return []
        return each(element, node)

    return read_array


def _map_reader(schema: Schema, location: str | None) -> Read:
    key = _inner_reader(schema.key_schema, location and f"key of map {location}")
    mapped = _inner_reader(schema.value_schema, location and f"value of map {location}")
    assert schema.key_schema is not None
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
                values[name] = mapped(item)
            except DataError as cause:
                raise_in(at_key(name), cause)
        return values

    def read_entries(node: Value) -> Value:
        if type(node) is not list:
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of objects, "
                f"but found {node_type(node)}"
            )
        for entry in node:
            if type(entry) is not dict:
                raise DataError(f"Found invalid map entry instead of object: {node_type(entry)}")
            if len(entry) != 2:
                raise DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(entry)}"
                )
        entries: list[tuple[Value, Value]] = []
        for entry in node:
            try:
                entries.append((key(entry.get(KEY, ABSENT)), mapped(entry.get(VALUE, ABSENT))))
            except DataError as cause:
                raise_in(at_key(entry.get(KEY)), cause)
        return dict(entries) if hashable else entries

    return read_object if keyed_by_text(schema) else read_entries


def _struct_reader(schema: Schema, *, is_validated: bool) -> Read:
    names = list(schema.field_names)
    fields = [_field_reader(field, is_validated=is_validated) for field in schema.fields]
    shapes = Shapes(fields)
    absent = dict.fromkeys(names, ABSENT)

    def read_struct(node: Value) -> Value:
        if type(node) is not dict:
            raise DataError(
                f"Structs should be encoded as JSON objects, but found {node_type(node)}"
            )
        if list(node) != names:
            original = node
            node = {name: original.get(name, ABSENT) for name in absent}
        checks, conversions = shapes[tuple(map(type, node.values()))]
        for name, fits in checks:
            if not fits(node[name]):
                return convert_each(fields, node)
        name = ""
        try:
            for name, convert in conversions:
                node[name] = convert(node[name])
        except DataError as cause:
            raise_in(name, cause)
        return node

    return read_struct


def _field_reader(field: Field, *, is_validated: bool) -> FieldWork:
    schema = field.schema
    natural, fits = _NATURAL.get(schema.type, (None, None))
    location = f'field: "{field.name}"'
    read = (_inner_reader if is_validated else _slot_reader)(schema, location)
    return FieldWork(
        field.name,
        read,
        natural if schema.logical is None else None,
        None if schema.type is Type.FLOAT64 else fits,
        null_stays=schema.optional and schema.default is None,
    )


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


def _union_reader(schema: Schema) -> Read:
    alternatives = [
        (field.name, _FITS[field.schema.type], _slot_reader(field.schema, None), _properties(field))
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


def _read_alternative(name: str, read: Read, node: Value) -> Value:
    try:
        return read(node)
    except DataError as cause:
        raise_in(name, cause)


def _properties(field: Field) -> frozenset[str] | None:
    """The property names of an alternative; None if it is not a struct."""
    schema = field.schema
    return frozenset(schema.field_names) if schema.type is Type.STRUCT else None
