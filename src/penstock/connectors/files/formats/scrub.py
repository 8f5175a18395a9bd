"""Names of fields that Avro allows: `scrub.invalid.names`.

Only fields are renamed here; the schemas keep their names, which Avro's writer scrubs itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from penstock.api import Column, DataError, Fields
from penstock.api.avro import scrub
from penstock.api.schema import Field, Schema, Type, Value, pairs
from penstock.connectors.files.formats.shape import Shape, same


@lru_cache(maxsize=256)
def scrubbed_schema(schema: Schema) -> Schema:
    """The schema with the names of its fields scrubbed, at any depth. Raises DataError if two
    fields of a struct would have the same name."""
    key, value = schema.key_schema, schema.value_schema
    fields: list[Field] = []
    names: dict[str, str] = {}
    for field in schema.fields:
        name = scrub(field.name)
        if names.setdefault(name, field.name) != field.name:
            raise DataError(
                f"With scrub.invalid.names=true, the fields '{names[name]}' and '{field.name}' "
                f"would both be '{name}'; rename one of them"
            )
        fields.append(Field(name, field.index, scrubbed_schema(field.schema)))
    default = schema.default
    if default is not None and (renamed := _renaming(schema)) is not None:
        default = renamed(default)
    return replace(
        schema,
        default=default,
        key_schema=None if key is None else scrubbed_schema(key),
        value_schema=None if value is None else scrubbed_schema(value),
        fields=tuple(fields),
    )


def scrubbed_column(schema: Schema, column: Column) -> Column:
    """The column of values of a schema, for its scrubbed form."""
    rename = _renaming(schema)
    if rename is None:
        return column
    scrubbed = scrubbed_schema(schema)
    if isinstance(column, Fields) and all(
        _renaming(field.schema) is None for field in schema.fields
    ):
        members = {scrub(name): member for name, member in column.members.items()}
        return Fields(scrubbed, members, len(column))
    values = [None if value is None else rename(value) for value in column.values]
    return Column.of(values, scrubbed)


@lru_cache(maxsize=256)
def _renaming(schema: Schema | None) -> Shape | None:
    """Renames the fields of values; None if there are none to rename."""
    if schema is None:
        return None
    match schema.type:
        case Type.ARRAY:
            element = _renaming(schema.value_schema)
            return None if element is None else lambda value: [_of(element, item) for item in value]
        case Type.MAP:
            key, item = _renaming(schema.key_schema), _renaming(schema.value_schema)
            if key is None and item is None:
                return None
            return lambda value: _map(key or same, item or same, value)
        case Type.STRUCT:
            renamed = [
                (field.name, scrub(field.name), _renaming(field.schema)) for field in schema.fields
            ]
            if all(name == new and make is None for name, new, make in renamed):
                return None
            return lambda value: {
                new: value[name] if make is None else _of(make, value[name])
                for name, new, make in renamed
                if name in value
            }
    return None


def _of(make: Shape, value: Value) -> Value:
    return None if value is None else make(value)


def _map(key: Shape, item: Shape, value: Value) -> Value:
    renamed = [(_of(key, name), _of(item, member)) for name, member in pairs(value)]
    return dict(renamed) if isinstance(value, dict) else renamed
