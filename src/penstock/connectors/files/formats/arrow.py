"""Connect's schemas and values as Arrow's, for the formats that are columns.

    INT8 … INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES      the same
    Decimal                     decimal128, or decimal256 beyond 38 digits
    Date, Time, Timestamp       date32, time32[ms], timestamp[ms, UTC]
    ARRAY, MAP, STRUCT          list, map, struct

A value that is no struct is a column `value`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from penstock.api import Column, DataError, Failed, Fields
from penstock.api.schema import Logical, Schema, Type, Value, check, pairs

_PRIMITIVES: Final[Mapping[Type, Any]] = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_LOGICAL: Final[Mapping[Logical, Any]] = {
    Logical.DATE: pa.date32(),
    Logical.TIME: pa.time32("ms"),
    Logical.TIMESTAMP: pa.timestamp("ms", tz="UTC"),
}
_PRECISION: Final = "connect.decimal.precision"
_WIDEST: Final = 38

Shape = Callable[[Value], Any]


def arrow_type(schema: Schema | None) -> Any:
    """The type of a schema's values. Raises DataError where there is none."""
    if schema is None:
        raise DataError("Files of columns need schemas for all that is in arrays and maps")
    if schema.logical is Logical.DECIMAL:
        precision = int((schema.parameters or {}).get(_PRECISION, _WIDEST))
        kind = pa.decimal128 if precision <= _WIDEST else pa.decimal256
        return kind(max(precision, 1), schema.scale)
    if schema.logical is not None:
        return _LOGICAL[schema.logical]
    match schema.type:
        case Type.ARRAY:
            return pa.list_(_field("element", schema.value_schema))
        case Type.MAP:
            return pa.map_(arrow_type(schema.key_schema), _field("value", schema.value_schema))
        case Type.STRUCT:
            if not schema.fields:
                raise DataError("Files of columns cannot have structs without fields")
            return pa.struct([_field(each.name, each.schema) for each in schema.fields])
    return _PRIMITIVES[schema.type]


def _field(name: str, schema: Schema | None) -> Any:
    optional = schema is not None and schema.optional
    return pa.field(name, arrow_type(schema), nullable=optional)


@lru_cache(maxsize=256)
def file_schema(schema: Schema) -> Any:
    """The columns of a file. Raises DataError."""
    if _is_struct(schema):
        return pa.schema(list(arrow_type(schema)))
    return pa.schema([_field("value", schema)])


def batch_of(schema: Schema, column: Column) -> Any | Failed:
    """The values of a column as a record batch of the file's columns; or the rows that cannot be in
    it, and why."""
    columns = file_schema(schema)
    if isinstance(column, Fields) and _is_struct(schema):
        batch = _of_fields(schema, column, columns)
        if batch is not None:
            return batch
    values = column.values
    try:
        batch = _of_values(schema, values, columns)
        if all(
            each.nullable or not array.null_count
            for each, array in zip(columns, batch, strict=True)
        ):
            return batch
    except (pa.ArrowException, ValueError, TypeError, AttributeError, OverflowError):
        pass
    return _refused(schema, values, columns)


def _of_fields(schema: Schema, column: Fields, columns: Any) -> Any | None:
    """Of arrays that are there already."""
    members = column.members
    if len(members) != len(columns) or any(each.name not in members for each in columns):
        return None
    try:
        arrays = [members[each.name].cast(each.type) for each in columns]
    except pa.ArrowException:
        return None
    missing = any(
        array.null_count and (not field.nullable or of.schema.default is not None)
        for array, field, of in zip(arrays, columns, schema.fields, strict=True)
    )
    return None if missing else pa.RecordBatch.from_arrays(arrays, schema=columns)


def _of_values(schema: Schema, values: list[Value], columns: Any) -> Any:
    if not _is_struct(schema):
        shape = _shape(schema)
        given = values if shape is None else [shape(value) for value in values]
        return pa.RecordBatch.from_arrays([pa.array(given, columns[0].type)], schema=columns)
    arrays = []
    for field, into in zip(schema.fields, columns, strict=True):
        name, shape = field.name, _shape(field.schema)
        cells = [value.get(name) for value in values]
        if shape is not None:
            cells = [shape(cell) for cell in cells]
        arrays.append(pa.array(cells, into.type))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _refused(schema: Schema, values: list[Value], columns: Any) -> Failed:
    failed: Failed = {}
    for row, value in enumerate(values):
        try:
            check(schema, value)
            _of_values(schema, [value], columns).validate(full=True)
        except DataError as error:
            failed[row] = error
        except Exception as error:
            failed[row] = DataError(f"The value cannot be in a column: {error}")
    if not failed:
        raise AssertionError("values that are good one by one are good together")
    return failed


def _is_struct(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and bool(schema.fields)


@lru_cache(maxsize=256)
def _shape(schema: Schema | None) -> Shape | None:
    """What gives values the form that Arrow reads: maps as pairs, defaults in place of null. None:
    they have it."""
    if schema is None:
        return None
    make: Shape | None = None
    match schema.type:
        case Type.ARRAY:
            element = _shape(schema.value_schema)
            if element is not None:
                make = lambda value: [element(each) for each in value]  # noqa: E731
        case Type.MAP:
            key, of = _shape(schema.key_schema) or _same, _shape(schema.value_schema) or _same
            make = lambda value: [(key(name), of(each)) for name, each in pairs(value)]  # noqa: E731
        case Type.STRUCT:
            make = _struct_shape(schema)
    default = schema.default
    if make is None:
        return None if default is None else lambda value: default if value is None else value
    return lambda value: default if value is None else make(value)


def _struct_shape(schema: Schema) -> Shape | None:
    work = [(each.name, make) for each in schema.fields if (make := _shape(each.schema))]
    if not work:
        return None

    def struct(value: Value) -> Any:
        changed = dict(value)
        for name, make in work:
            changed[name] = make(changed.get(name))
        return changed

    return struct


def _same(value: Value) -> Any:
    return value
