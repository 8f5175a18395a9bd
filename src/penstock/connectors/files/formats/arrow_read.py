"""Converts Arrow's schemas and arrays to Connect's.

int8 … int64, float32, float64, bool, string, binary      the same
uint8, uint16, uint32       INT16, INT32, INT64
uint64                      Decimal of scale 0
float16                     FLOAT32
decimal                     Decimal
date, time, timestamp       Date, Time, Timestamp, cut to ms; a local timestamp counts as UTC
list, map, struct           ARRAY, MAP, STRUCT
dictionary                  its value type
null                        STRING, always null
duration, interval          refused
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.api import Column, DataError, Failed, Fields
from penstock.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    EPOCH,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT_BITS,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    Value,
    array,
    decimal,
    map_of,
    struct,
    structs_of,
)

_PLAIN: Final[Mapping[Any, Schema]] = {
    pa.int8(): INT8,
    pa.int16(): INT16,
    pa.int32(): INT32,
    pa.int64(): INT64,
    pa.uint8(): INT16,
    pa.uint16(): INT32,
    pa.uint32(): INT64,
    pa.uint64(): decimal(0),
    pa.float16(): FLOAT32,
    pa.float32(): FLOAT32,
    pa.float64(): FLOAT64,
    pa.bool_(): BOOLEAN,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary_view(): BYTES,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.null(): STRING,
}
_COLUMNAR: Final[Mapping[Type, Any]] = {
    Type.STRING: pa.large_string(),
    Type.BOOLEAN: pa.bool_(),
    Type.FLOAT64: pa.float64(),
    **dict.fromkeys(INT_BITS, pa.int64()),
}
"""The Arrow types of members of `Fields`."""


def connect_schema(kind: Any, nullable: bool = False) -> Schema:
    """The Connect schema of an Arrow type. Raises DataError if there is none."""
    schema = _schema(kind)
    return schema.as_optional() if nullable or kinds.is_null(kind) else schema


def _schema(kind: Any) -> Schema:
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return _schema(kind.value_type)
    if kinds.is_decimal(kind):
        return decimal(kind.scale)
    if kinds.is_time(kind):
        return TIME
    if kinds.is_timestamp(kind):
        return TIMESTAMP
    if kinds.is_fixed_size_binary(kind):
        return BYTES
    if kinds.is_map(kind):
        mapped = connect_schema(kind.item_type, kind.item_field.nullable)
        return map_of(connect_schema(kind.key_type), mapped)
    if kinds.is_struct(kind):
        return struct_schema(kind)
    if kinds.is_nested(kind) and not kinds.is_union(kind):
        return array(connect_schema(kind.value_type, kind.value_field.nullable))
    if isinstance(kind, pa.BaseExtensionType):
        return _schema(kind.storage_type)
    raise DataError(f"Arrow's type {kind} has no counterpart in Kafka Connect")


def struct_schema(fields: Any) -> Schema:
    """The schema of structs with the fields of an Arrow schema or struct type."""
    members: dict[str, Schema] = {}
    for field in fields:
        if field.name in members:
            raise DataError(f"The file has two columns named '{field.name}'")
        members[field.name] = connect_schema(field.type, field.nullable)
    return struct(members)


def column_of(schema: Schema, batch: Any) -> tuple[Column, Failed]:
    """The rows of a record batch as structs of its schema; and the rows with values that Connect
    cannot represent."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:  # text that is not UTF-8, which Parquet files may have
        return _one_by_one(schema, batch)
    columnar = [_columnar(field.schema) for field in schema.fields]
    if schema.fields and all(columnar):
        members = {
            field.name: array if array.type == kind else pc.cast(_flat(array), kind)
            for field, array, kind in zip(schema.fields, batch.columns, columnar, strict=True)
        }
        return Fields(schema, members, batch.num_rows), {}
    failed: Failed = {}
    if not schema.fields:
        return Column.of([{} for _ in range(batch.num_rows)], schema), failed
    try:
        columns = [values_of(array) for array in batch.columns]
    except (DataError, ValueError, OverflowError):
        return _one_by_one(schema, batch)
    return Column.of(structs_of(schema.field_names)(columns), schema), failed


def _one_by_one(schema: Schema, batch: Any) -> tuple[Column, Failed]:
    values: list[Value] = []
    failed: Failed = {}
    make = structs_of(schema.field_names)
    for row in range(batch.num_rows):
        try:
            values += make([values_of(array.slice(row, 1)) for array in batch.columns])
        except (DataError, ValueError, OverflowError, pa.ArrowException) as error:
            values.append(None)
            failed[row] = DataError(str(error))
    return Column.of(values, schema), failed


def _columnar(schema: Schema) -> Any | None:
    return None if schema.logical is not None else _COLUMNAR.get(schema.type)


def _flat(array: Any) -> Any:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if kinds.is_dictionary(array.type):
        return array.dictionary_decode()
    if kinds.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    return array


def values_of(array: Any) -> list[Value]:
    """The Connect values of an array. Raises DataError for moments that Python cannot represent."""
    array = _flat(array)
    return _maker(array.type)(array)


Make = Callable[[Any], list[Value]]


@lru_cache(maxsize=1024)
def _maker(kind: Any) -> Make:
    if kinds.is_timestamp(kind):
        return _timestamps
    if kinds.is_date(kind):
        return _dates
    if kinds.is_time(kind):
        return _times
    if kind == pa.uint64():
        return lambda array: _decimals(array.cast(pa.decimal128(20, 0)))
    if kinds.is_decimal(kind):
        return _decimals
    if kind == pa.float16():
        return lambda array: _natural(array.cast(pa.float32()))
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind):
        return _natural
    if kinds.is_map(kind):
        return _maps
    if kinds.is_struct(kind):
        return _structs
    if kinds.is_nested(kind):
        return _lists
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return lambda array: array.to_numpy(zero_copy_only=False).tolist()
    return lambda array: array.to_pylist()


def _natural(array: Any) -> list[Value]:
    """Numbers and booleans, through numpy, which has no null."""
    if not array.null_count:
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    filled = array.fill_null(False if kinds.is_boolean(array.type) else 0)
    return _with_nulls(filled.to_numpy(zero_copy_only=False).tolist(), array)


def _with_nulls(values: list[Value], array: Any) -> list[Value]:
    if array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[row] = None
    return values


def _decimals(array: Any) -> list[Value]:
    return array.to_pylist()  # type: ignore[no-any-return]


_UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "s": (1000, 1),
    "ms": (1, 1),
    "us": (1, 1000),
    "ns": (1, 1_000_000),
}
"""The factor and the divisor that convert numbers of a unit to ms."""


def _in_ms(array: Any, kind: Any) -> Any:
    """Times in ms, as numpy integers; 0 for null."""
    numbers = array.cast(kind).fill_null(0).to_numpy(zero_copy_only=False)
    factor, divisor = _UNITS[array.type.unit]
    return numbers * factor if divisor == 1 else numbers // divisor


_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999


def _timestamps(array: Any) -> list[Value]:
    ms = _in_ms(array, pa.int64())
    if array.type.unit == "s" and len(ms):
        seconds = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        if seconds.max() > _LAST_MS // 1000 or seconds.min() < _FIRST_MS // 1000:
            raise DataError("A Timestamp is outside the years 1 to 9999")
    if len(ms) and (ms.max() > _LAST_MS or ms.min() < _FIRST_MS):
        bad = ms[(ms > _LAST_MS) | (ms < _FIRST_MS)][0]
        raise DataError(f"Timestamp {bad} is outside the years 1 to 9999")
    epoch, delta = EPOCH, timedelta
    values: list[Value] = [epoch + delta(0, 0, 0, moment) for moment in ms.tolist()]
    return _with_nulls(values, array)


def _dates(array: Any) -> list[Value]:
    days = array.cast(pa.date32()) if kinds.is_date64(array.type) else array
    numbers = days.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)
    make, first = date.fromordinal, _EPOCH_DAY
    try:
        values: list[Value] = [make(first + day) for day in numbers.tolist()]
    except (ValueError, OverflowError) as error:
        raise DataError(f"A Date is outside the years 1 to 9999: {error}") from error
    return _with_nulls(values, array)


_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def _times(array: Any) -> list[Value]:
    ms = _in_ms(array, pa.int32() if kinds.is_time32(array.type) else pa.int64())
    values: list[Value] = [_time(moment) for moment in ms.tolist()]
    return _with_nulls(values, array)


def _time(ms: int) -> time:
    seconds, ms = divmod(ms, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    try:
        return time(hour, minute, second, ms * 1000)
    except ValueError as error:
        raise DataError(f"A Time is outside the 24 hours of a day: {error}") from error


def _lists(array: Any) -> list[Value]:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).tolist()
    items = values_of(array.flatten())
    values: list[Value] = []
    at = 0
    for length in lengths:
        values.append(items[at : at + length])
        at += length
    return _with_nulls(values, array)


def _maps(array: Any) -> list[Value]:
    keys, items = array.keys, array.items
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    # `keys` and `items` contain all rows, even if the array is a slice.
    pairs = list(
        zip(
            values_of(keys.slice(first, last - first)),
            values_of(items.slice(first, last - first)),
            strict=True,
        )
    )
    primitive = connect_schema(array.type.key_type).type.is_primitive
    values: list[Value] = []
    bounds = (offsets - first).tolist()
    for begin, end in pairwise(bounds):
        entries = pairs[begin:end]
        values.append(dict(entries) if primitive else entries)
    return _with_nulls(values, array)


def _structs(array: Any) -> list[Value]:
    names = tuple(field.name for field in array.type)
    if not names:
        return _with_nulls([{} for _ in range(len(array))], array)
    members = [values_of(member) for member in array.flatten()]
    return _with_nulls(structs_of(names)(members), array)
