"""Documents as keys and values of records (`output.format.key`, `output.format.value`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import bson
from bson import Binary, Decimal128, ObjectId, Timestamp
from bson.datetime_ms import DatetimeMS

from penstock.api import DataError
from penstock.api.schema import (
    BYTES,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
    Field,
    Logical,
    Schema,
    Type,
    days_to_date,
    decimal,
    float32,
    int_range,
    ms_to_time,
    ms_to_timestamp,
)
from penstock.connectors.mongodb.read.json import Mode, ms_of, text_of

Document = Mapping[str, Any]
Make = Callable[[Document], tuple[Schema, Any]]
"""Schema and value of a document; raises DataError."""

_ID: Final = "_id"
_INT32: Final = 1 << 31
_MS_PER_DAY: Final = 86_400_000


def json_maker(mode: Mode) -> Make:
    """Makes JSON texts."""
    return lambda document: (STRING, text_of({**document}, mode))


def bson_maker() -> Make:
    """Makes BSON."""
    return lambda document: (BYTES, bson.encode(document))


def struct_maker(schema: Schema, mode: Mode) -> Make:
    """Makes structs of one schema."""
    return lambda document: (schema, value_of(schema, {**document}, mode))


def inferring_maker(mode: Mode) -> Make:
    """Makes structs, each with the schema of its document."""

    def make(document: Document) -> tuple[Schema, Any]:
        schema = inferred(document)
        return schema, value_of(schema, {**document}, mode)

    return make


def value_of(schema: Schema, value: Any, mode: Mode) -> Any:
    """A BSON value, by a schema: a number fits any numeric type, a text takes any value as JSON.
    Raises DataError for a value that does not fit."""
    if value is None and schema.optional:
        return None
    match schema.type:
        case Type.STRING:
            return _string(value, mode)
        case Type.BOOLEAN:
            if isinstance(value, bool):
                return value
        case Type.BYTES:
            return _bytes(schema, value)
        case Type.ARRAY:
            if isinstance(value, list) and schema.value_schema is not None:
                inner = schema.value_schema
                return [value_of(inner, item, mode) for item in value]
        case Type.MAP:
            if isinstance(value, Mapping) and schema.value_schema is not None:
                inner = schema.value_schema
                return {name: value_of(inner, member, mode) for name, member in value.items()}
        case Type.STRUCT:
            if isinstance(value, Mapping):
                return {field.name: _member(field, value, mode) for field in schema.fields}
        case _:
            return _number(schema, value)
    raise _unfit(schema, value)


def _unfit(schema: Schema, value: Any) -> DataError:
    return DataError(
        f"Schema type of {schema.type.value.lower()} but value was of type: {kind_of(value)}"
    )


def kind_of(value: Any) -> str:
    """BSON's name for the type of a value."""
    names: Mapping[type, str] = {
        type(None): "null",
        str: "string",
        bool: "boolean",
        float: "double",
        list: "array",
        datetime: "date_time",
        DatetimeMS: "date_time",
        bytes: "binary",
        Binary: "binary",
        ObjectId: "object_id",
        Decimal128: "decimal128",
        Timestamp: "timestamp",
    }
    if isinstance(value, Mapping):
        return "document"
    if isinstance(value, int) and not isinstance(value, bool):
        return "int64" if isinstance(value, bson.Int64) else "int32"
    return names.get(type(value), type(value).__name__.lower())


def _member(field: Field, document: Document, mode: Mode) -> Any:
    exists, value = _lookup(document, field.name)
    if exists:
        return value_of(field.schema, value, mode)
    if field.schema.optional or field.schema.default is not None:
        return field.schema.default
    raise DataError(f"Missing field '{field.name}' in: '{text_of({**document}, mode)}'")


def _lookup(document: Document, path: str) -> tuple[bool, Any]:
    """A member by its name, or by a path with dots."""
    if path in document:
        return True, document[path]
    first, dot, rest = path.partition(".")
    inner = document.get(first)
    return _lookup(inner, rest) if dot and rest and isinstance(inner, Mapping) else (False, None)


def _string(value: Any, mode: Mode) -> str:
    if isinstance(value, str):
        return value
    text = text_of(value, mode)
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _bytes(schema: Schema, value: Any) -> Any:
    if schema.logical is Logical.DECIMAL:
        if isinstance(value, Decimal128):
            number = value.to_decimal()
            if number.is_finite():
                return number
        raise _unfit(schema, value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping):
        return bson.encode(value)
    raise _unfit(schema, value)


def _number(schema: Schema, value: Any) -> Any:
    match value:
        case bool():
            raise _unfit(schema, value)
        case Timestamp():
            number: float = value.time * 1000
        case datetime() | DatetimeMS():
            number = ms_of(value)
        case int() | float():
            number = value
        case _:
            raise _unfit(schema, value)
    if schema.type is Type.FLOAT64:
        return float(number)
    if schema.type is Type.FLOAT32:
        return float32(float(number))
    return _integer(schema, number)


def _integer(schema: Schema, number: float) -> int | date | time | datetime:
    try:
        whole = int(number)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{number} is not an integer") from error
    match schema.logical:
        case Logical.TIMESTAMP:
            return ms_to_timestamp(whole)
        case Logical.TIME:
            return ms_to_time(whole % _MS_PER_DAY)
        case Logical.DATE:
            return days_to_date(whole if abs(whole) < _INT32 else whole // _MS_PER_DAY)
    low, high = int_range(schema.type)
    if not low <= whole <= high:
        raise DataError(f"{whole} is too large for {schema.type.value.lower()}")
    return whole


def inferred(document: Document) -> Schema:
    """The schema of a document: `_id` first, then the members sorted by name, all optional. Arrays
    have the schema that all their elements fit, or else hold texts."""
    return _inferred("default", document, optional=False)


def _inferred(path: str, document: Document, *, optional: bool = True) -> Schema:
    members = {}
    if _ID in document:
        members[_ID] = _schema(_ID, document[_ID])
    for name in sorted((member for member in document if member != _ID), key=_utf16):
        inner = name if path == "default" else f"{path}_{name}"
        members[name] = _schema(inner, document[name])
    return _struct(path, members, optional=optional)


def _utf16(name: str) -> bytes:
    """Java compares texts by UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def _struct(name: str | None, members: Mapping[str, Schema], *, optional: bool = True) -> Schema:
    fields = tuple(Field(member, at, schema) for at, (member, schema) in enumerate(members.items()))
    return Schema(Type.STRUCT, optional=optional, name=name, fields=fields)


class _Anything:
    """Stands for the schema of null, or of an empty array's elements; any schema fits."""


_ANYTHING: Final = _Anything()


def _schema(path: str, value: Any) -> Schema:
    schema = _schema_or_any(path, value)
    return OPTIONAL_STRING if isinstance(schema, _Anything) else schema


def _schema_or_any(path: str, value: Any) -> Schema | _Anything:
    match value:
        case None:
            return _ANYTHING
        case bool():
            return OPTIONAL_BOOLEAN
        case bson.Int64():
            return OPTIONAL_INT64
        case int():
            return OPTIONAL_INT32 if -_INT32 <= value < _INT32 else OPTIONAL_INT64
        case float():
            return OPTIONAL_FLOAT64
        case Decimal128():
            return decimal(_scale(value.to_decimal())).as_optional()
        case datetime() | DatetimeMS() | Timestamp():
            return TIMESTAMP.as_optional()
        case Mapping():
            return _inferred(path, value)
        case list():
            return _array(path, value)
        case bytes():
            return OPTIONAL_BYTES
    return OPTIONAL_STRING


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"{number} is not a Kafka Connect Decimal")
    return -exponent


def _array(path: str, values: list[Any]) -> Schema:
    whole: Schema | _Anything = _ANYTHING
    for value in values:
        whole = _combined(whole, _schema_or_any(path, value))
        if whole is _INCOMPATIBLE:
            break
    inner = OPTIONAL_STRING if isinstance(whole, _Anything) else whole
    return Schema(Type.ARRAY, optional=True, name=path, value_schema=inner)


_INCOMPATIBLE: Final = Schema(Type.STRING, optional=True)
"""Texts, for elements without a common schema."""


def _combined(one: Schema | _Anything, other: Schema | _Anything) -> Schema | _Anything:
    if isinstance(one, _Anything):
        return other
    if isinstance(other, _Anything) or one == other:
        return one
    if one.type is not other.type:
        return _INCOMPATIBLE
    if one.type is Type.ARRAY and one.value_schema and other.value_schema:
        inner = _combined(one.value_schema, other.value_schema)
        element = OPTIONAL_STRING if isinstance(inner, _Anything) else inner
        return Schema(Type.ARRAY, optional=True, name=one.name, value_schema=element)
    if one.type is Type.STRUCT:
        ours = {field.name: field.schema for field in one.fields}
        theirs = {field.name: field.schema for field in other.fields}
        ids = [_ID] if _ID in ours or _ID in theirs else []
        rest = sorted((ours.keys() | theirs.keys()) - {_ID}, key=_utf16)
        members: dict[str, Schema] = {}
        for name in (*ids, *rest):
            combined = _combined(ours.get(name, _ANYTHING), theirs.get(name, _ANYTHING))
            members[name] = OPTIONAL_STRING if isinstance(combined, _Anything) else combined
        return _struct(one.name, members)
    return _INCOMPATIBLE
