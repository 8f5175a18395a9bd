"""Connect values as the JSON of a JSON Schema converter (kafka-connect.md §9.5).

As `convert.json_write`, with these differences:

- null for a required field is allowed: the property is omitted;
- maps whose keys are not text are lists of `{"key": …, "value": …}`;
- a union is the JSON of the alternative that is set;
- a Decimal is a number where the schema is plain BYTES.
"""

from __future__ import annotations

from decimal import Decimal

import orjson

from penstock.convert.json_write import JsonWriters, Write
from penstock.data.paths import raise_in
from penstock.data.schema import Schema, Type, Value, invalid_type
from penstock.data.text import decimal_text
from penstock.errors import DataError
from penstock.schema_registry.json_schema_names import (
    ABSENT,
    KEY,
    VALUE,
    Options,
    is_text_key,
    is_union,
)


def writer(schema: Schema, options: Options) -> Write:
    """The function that makes nodes for `orjson` of a schema's values.

    It returns ABSENT for null if null is neither allowed nor replaced by a default. It raises
    DataError for a value that is not of the schema.
    """
    return _Writers(options.decimals, replace_null=not options.ignore_default).slot(schema)


class _Writers(JsonWriters):
    absent = ABSENT

    def slot(self, schema: Schema | None) -> Write:
        return self._slot(schema, ABSENT)

    def inner(self, schema: Schema | None) -> Write:
        """An element or value cannot be omitted."""
        write = self._slot(schema, None)
        if schema is None or not is_union(schema):
            return write

        def write_union(value: Value) -> Value:
            node = write(value)
            return None if node is ABSENT else node

        return write_union

    def _slot(self, schema: Schema | None, required: Value) -> Write:
        """`required` is the node of null where null is not allowed."""
        if schema is None:
            raise DataError("A JSON Schema cannot express an array or map of anything")
        write = self.value(schema)
        null = None if schema.optional else required
        if schema.default is not None and self.replace_null:
            null = write(schema.default)
        return lambda value: null if value is None else write(value)

    def key(self, schema: Schema | None) -> Write:
        write = self.inner(schema)
        if not self.is_object(schema):
            return write

        def write_key(value: Value) -> Value:
            if value is None:
                raise DataError("Invalid value: null used for required key of map")
            return write(value)

        return write_key

    def is_object(self, key: Schema | None) -> bool:
        return is_text_key(key)

    def entries_of(self, pairs: list[list[Value]]) -> list[Value]:
        return [{KEY: key, VALUE: value} for key, value in pairs]

    def value(self, schema: Schema) -> Write:
        write = super().value(schema)
        if schema.type is Type.BYTES and schema.logical is None:
            return lambda value: _number(value) if isinstance(value, Decimal) else write(value)
        return write

    def struct(self, schema: Schema) -> Write:
        return self._union(schema) if is_union(schema) else super().struct(schema)

    def _union(self, schema: Schema) -> Write:
        alternatives = [(field.name, self.value(field.schema)) for field in schema.fields]
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


def _number(value: Decimal) -> Value:
    return orjson.Fragment(decimal_text(value))
