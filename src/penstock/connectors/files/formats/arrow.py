"""Converts Connect's schemas and values to Arrow's, for columnar formats.

    INT8 … INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES      the same
    Decimal                     decimal128, or decimal256 beyond 38 digits
    Date, Time, Timestamp       date32, time32[ms], timestamp[ms, UTC]
    ARRAY, MAP, STRUCT          list, map, struct

A value that is not a struct becomes a column `value`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from penstock.api import Column, DataError, Failed, Fields
from penstock.api.schema import Logical, Schema, Type, Value, check, pairs
from penstock.connectors.files.formats.shape import Shape, same, struct_shape, with_default

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


def arrow_type(schema: Schema | None) -> Any:
    """The Arrow type of a schema's values. Raises DataError if there is none."""
    if schema is None:
        raise DataError("Columnar files need schemas for the elements of arrays and maps")
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
                raise DataError("Columnar files cannot contain structs without fields")
            return pa.struct([_field(field.name, field.schema) for field in schema.fields])
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
    """The values of a column as a record batch of the file's columns; or the rows that do not fit,
    with their errors."""
    columns = file_schema(schema)
    if isinstance(column, Fields) and _is_struct(schema):
        batch = _of_fields(schema, column, columns)
        if batch is not None:
            return batch
    values = column.values
    try:
        batch = _of_values(schema, values, columns)
        if all(
            field.nullable or not array.null_count
            for field, array in zip(columns, batch, strict=True)
        ):
            return batch
    except (pa.ArrowException, ValueError, TypeError, AttributeError, OverflowError):
        pass
    return _refused(schema, values, columns)


def _of_fields(schema: Schema, column: Fields, columns: Any) -> Any | None:
    """A batch of existing arrays; None if they need a conversion."""
    members = column.members
    if len(members) != len(columns) or any(field.name not in members for field in columns):
        return None
    try:
        arrays = [members[field.name].cast(field.type) for field in columns]
    except pa.ArrowException:
        return None
    missing = any(
        array.null_count and (not target.nullable or field.schema.default is not None)
        for array, target, field in zip(arrays, columns, schema.fields, strict=True)
    )
    return None if missing else pa.RecordBatch.from_arrays(arrays, schema=columns)


def _of_values(schema: Schema, values: list[Value], columns: Any) -> Any:
    if not _is_struct(schema):
        shape = _shape(schema)
        cells = values if shape is None else [shape(value) for value in values]
        return pa.RecordBatch.from_arrays([pa.array(cells, columns[0].type)], schema=columns)
    arrays = []
    for field, column in zip(schema.fields, columns, strict=True):
        name, shape = field.name, _shape(field.schema)
        cells = [value.get(name) for value in values]
        if shape is not None:
            cells = [shape(cell) for cell in cells]
        arrays.append(pa.array(cells, column.type))
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
            failed[row] = DataError(f"The value cannot be written to a column: {error}")
    if not failed:
        raise AssertionError("values that are good one by one are good together")
    return failed


def _is_struct(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and bool(schema.fields)


@lru_cache(maxsize=256)
def _shape(schema: Schema | None) -> Shape | None:
    """Converts values to the form that Arrow reads: maps as pairs, defaults instead of null. None:
    no conversion is needed."""
    if schema is None:
        return None
    make: Shape | None = None
    match schema.type:
        case Type.ARRAY:
            element = _shape(schema.value_schema)
            if element is not None:
                make = lambda value: [element(item) for item in value]  # noqa: E731
        case Type.MAP:
            key = _shape(schema.key_schema) or same
            item = _shape(schema.value_schema) or same
            make = lambda value: [(key(name), item(member)) for name, member in pairs(value)]  # noqa: E731
        case Type.STRUCT:
            make = struct_shape(schema, _shape)
    return with_default(make, schema.default)
