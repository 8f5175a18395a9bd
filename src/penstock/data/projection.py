"""Converts values of one schema to a compatible one.

For a sink with one table, whose records have several versions of a schema. Rules and messages are
those of Kafka Connect's `SchemaProjector`:

- numbers may widen, INT8 → INT16 → INT32 → INT64 → FLOAT32 → FLOAT64; otherwise types, names and
  parameters must be equal;
- an optional value may become required if a default replaces null;
- fields are matched by name; one that only the target has gets its default, or null if optional;
- the content of structs, arrays and maps is projected likewise. Only existing values are checked:
  an empty array projects to any array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Final, NoReturn

from penstock.data.schema import INT_BITS, Field, Schema, Type, Value, float32, pairs
from penstock.data.values import nearest_float32
from penstock.errors import DataError

Project = Callable[[Value], Value]
"""Projects a value; raises DataError."""


class ProjectionError(DataError):
    """The schemas are not compatible."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.errors.SchemaProjectorException"


def project(source: Schema, value: Value, target: Schema) -> Value:
    """`value`, which is of `source`, as one of `target`. Raises DataError.

    For many values keep `projector(source, target)`.
    """
    return projector(source, target)(value)


@lru_cache(maxsize=256)
def projector(source: Schema | None, target: Schema | None) -> Project:
    """The function that projects values, null included, from one schema to the other.

    It returns the value itself if nothing changes, and never modifies it.
    """
    if source is None or target is None:
        if source is target:
            return _same
        return _refuse("Only one of source and target has a schema for what is inside.")
    problem = _mismatch(source, target)
    if problem is not None:
        return _refuse(problem)
    if source.optional and not target.optional and target.default is None:
        return _refuse(
            "Writer schema is optional, however, target schema does not provide a default value."
        )
    default = target.default if source.optional and not target.optional else None
    convert = _converter(source, target)
    if convert is _same and default is None:
        return _same
    return lambda value: default if value is None else convert(value)


def _same(value: Value) -> Value:
    return value


def _refuse(message: str) -> Project:
    def refuse(value: Value) -> NoReturn:
        raise ProjectionError(message)

    return refuse


_PROMOTABLE: Final = (*INT_BITS, Type.FLOAT32, Type.FLOAT64)


def _promotable(source: Type, target: Type) -> bool:
    if source not in _PROMOTABLE or target not in _PROMOTABLE:
        return False
    return _PROMOTABLE.index(source) <= _PROMOTABLE.index(target)


def _mismatch(source: Schema, target: Schema) -> str | None:
    """Why the schemas are incompatible, apart from their content; or None."""
    if source.type is not target.type and not _promotable(source.type, target.type):
        return (
            f"Schema type mismatch. source type: {source.type.name} "
            f"and target type: {target.type.name}"
        )
    if source.name != target.name:
        return (
            f"Schema name mismatch. source name: {_shown(source.name)} "
            f"and target name: {_shown(target.name)}"
        )
    if source.parameters != target.parameters:
        return (
            f"Schema parameters not equal. source parameters: {_shown_map(source.parameters)} "
            f"and target parameters: {_shown_map(target.parameters)}"
        )
    return None


def _shown(text: str | None) -> str:
    return "null" if text is None else text


def _shown_map(parameters: Mapping[str, str] | None) -> str:
    if parameters is None:
        return "null"
    return f"{{{', '.join(f'{name}={value}' for name, value in parameters.items())}}}"


def _converter(source: Schema, target: Schema) -> Project:
    """The function that projects values that are not null, for compatible schemas."""
    match target.type:
        case Type.STRUCT:
            return _struct(source, target)
        case Type.ARRAY:
            return _array(projector(source.value_schema, target.value_schema))
        case Type.MAP:
            return _map(source, target)
        case Type.FLOAT32 | Type.FLOAT64 if source.type in INT_BITS:
            return _to_float32 if target.type is Type.FLOAT32 else _to_float64
        case _:
            return _same


_EXACT_INT: Final = 2**53


def _to_float32(value: Value) -> Value:
    if type(value) is not int:
        return value  # such as a Date
    near = -_EXACT_INT <= value <= _EXACT_INT
    return float32(float(value)) if near else nearest_float32(Decimal(value))


def _to_float64(value: Value) -> Value:
    return float(value) if type(value) is int else value


def _array(element: Project) -> Project:
    if element is _same:
        return _same
    return lambda value: [element(item) for item in value]


def _map(source: Schema, target: Schema) -> Project:
    key = projector(source.key_schema, target.key_schema)
    mapped = projector(source.value_schema, target.value_schema)
    if key is _same and mapped is _same:
        return _same
    hashable = target.key_schema is None or target.key_schema.type.is_primitive

    def project_map(value: Value) -> Value:
        entries = [(key(name), mapped(item)) for name, item in pairs(value)]
        return dict(entries) if hashable else entries

    return project_map


def _struct(source: Schema, target: Schema) -> Project:
    names = list(target.field_names)
    work = [(field.name, of) for field in target.fields if (of := _field(source, field))]
    required = [field for field in target.fields if not field.schema.optional]

    def project_struct(value: Value) -> Value:
        result = value
        if list(value) != names:
            result = dict(zip(names, map(value.get, names), strict=True))
        elif work:
            result = value.copy()
        for name, of in work:
            result[name] = of(result[name])
        if None in result.values():
            for field in required:
                if result[field.name] is None:
                    raise DataError(
                        f'Invalid value: null used for required field: "{field.name}", '
                        f"schema type: {field.schema.type.name}"
                    )
        return result

    return project_struct


def _field(source: Schema, target: Field) -> Project | None:
    """The projection of a field's value, if any is needed."""
    of = source.field(target.name)
    if of is None:
        default = target.schema.default
        if target.schema.optional:
            return lambda value: None
        if default is not None:
            return lambda value: default
        return _refuse(
            f"Required field `{target.name}` is missing from source schema: {_described(source)}"
        )
    convert = projector(of.schema, target.schema)
    default = of.schema.default
    if convert is _same:
        return None if default is None else lambda value: default if value is None else value

    def project_field(value: Value) -> Value:
        try:
            return convert(default if value is None else value)
        except ProjectionError as cause:
            raise ProjectionError(f"Error projecting {target.name}") from cause

    return project_field


def _described(schema: Schema) -> str:
    """`ConnectSchema.toString`."""
    kind = schema.type.name
    return f"Schema{{{kind}}}" if schema.name is None else f"Schema{{{schema.name}:{kind}}}"
