"""Connect values as Protobuf messages (kafka-connect.md §9.5).

Writers are compiled per schema. The message's constructor writes its dict, and checks classes and
ranges, in C; only values that it refuses are checked here, for the error message.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from penstock.convert.logical import not_date, not_decimal
from penstock.data.logical import (
    decimal_to_bytes,
    timestamp_to_ms,
)
from penstock.data.paths import at_index, at_key, each, raise_in
from penstock.data.schema import (
    INT_BITS,
    Logical,
    Schema,
    Type,
    Value,
    int_range,
    invalid_type,
    java_class,
    pairs,
)
from penstock.errors import DataError
from penstock.schema_registry.protobuf_names import (
    KEY,
    TYPE,
    VALUE,
    Options,
    enum_mark,
    is_union,
)

Write = Callable[[Value], Any]
"""Makes an argument for a message's constructor from a Connect value."""
WriteBytes = Callable[[Value], bytes]

_NS_PER_MS: Final = 1_000_000


def writer(schema: Schema, message: Descriptor, options: Options) -> WriteBytes:
    """The function that writes a schema's values, not null, as messages.

    `message` is from `protobuf_schema.message_file`. The function raises DataError for a value that
    is not of the schema.
    """
    message_class: Callable[..., Message] = GetMessageClass(message)
    if schema.type is not Type.STRUCT:
        convert = _Writers(options).scalar(schema) or (lambda value: value)
        return _checked(
            schema, lambda value: message_class(value=convert(value)).SerializeToString()
        )
    arguments = _Writers(options).struct(schema, message)
    if arguments is None:
        return _checked(schema, lambda value: message_class(**value).SerializeToString())
    return _checked(schema, lambda value: message_class(**arguments(value)).SerializeToString())


def _checked(schema: Schema, write: WriteBytes) -> WriteBytes:
    """The writer, with Connect's messages for protobuf's errors."""

    def write_checked(value: Value) -> bytes:
        try:
            return write(value)
        except (TypeError, ValueError, AttributeError, OverflowError) as cause:
            _complain(schema, value)
            raise DataError(f"Invalid value for the Protobuf schema: {cause}") from cause

    return write_checked


_CLASSES: Final[dict[Type, tuple[type, ...]]] = {
    **dict.fromkeys(INT_BITS, (int,)),
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list,),
    Type.MAP: (dict, list),
    Type.STRUCT: (dict,),
}


def _complain(schema: Schema | None, value: Value) -> None:
    """Raises DataError for the first value that is not of its schema, with the JVM's message."""
    if schema is None or value is None or schema.logical is not None:
        return
    fits = isinstance(value, _CLASSES[schema.type])
    if schema.type in INT_BITS and fits:
        low, high = int_range(schema.type)
        fits = type(value) is not bool and low <= value <= high
    if not fits:
        raise invalid_type(schema, value)
    match schema.type:
        case Type.ARRAY:
            for number, item in enumerate(value):
                _complain_in(at_index(number), schema.value_schema, item)
        case Type.MAP:
            for name, item in pairs(value):
                _complain_in(at_key(name), schema.key_schema, name)
                _complain_in(at_key(name), schema.value_schema, item)
        case Type.STRUCT:
            if any(schema.field(name) is None for name in value):
                raise DataError("Mismatching struct schema")
            for field in schema.fields:
                _complain_in(field.name, field.schema, value.get(field.name))


def _complain_in(step: str, schema: Schema | None, value: Value) -> None:
    try:
        _complain(schema, value)
    except DataError as cause:
        raise_in(step, cause)


class _Writers:
    """Compiles writers. A writer is None if there is nothing to convert: the message's constructor
    accepts the values unchanged."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def struct(self, schema: Schema, message: Descriptor) -> Write | None:
        """The function that makes the constructor's arguments for a struct."""
        fields = {descriptor.name: descriptor for descriptor in message.fields}
        renamed: dict[str, str] = {}
        conversions: list[tuple[str, str, Write, Value]] = []
        unions: list[tuple[str, list[tuple[str, str, Write | None]]]] = []
        for field in schema.fields:
            if is_union(field.schema):
                unions.append((field.name, self._choices(field.schema, fields)))
                continue
            name = self._options.name(field.name)
            convert = self._field(field.schema, fields[name])
            default = None if self._options.ignore_default else field.schema.default
            if name != field.name:
                renamed[field.name] = name
            if convert is not None or default is not None:
                natural = convert or (lambda value: value)
                conversions.append(
                    (field.name, name, natural, None if default is None else natural(default))
                )
        if not conversions and not unions and not renamed:
            return None

        def write_struct(value: Value) -> Any:
            if type(value) is not dict:
                raise DataError(f"Invalid type for STRUCT: {java_class(value)}")
            row: dict[str, Any] = value.copy()
            if renamed:
                row = {renamed.get(name, name): inner for name, inner in row.items()}
            source = ""
            try:
                for source, name, convert, default in conversions:
                    inner = value.get(source)
                    if inner is not None:
                        row[name] = convert(inner)
                    elif default is not None:
                        row[name] = default
                for source, choices in unions:
                    union = row.pop(source, None)
                    if union is not None:
                        _put_choice(row, union, choices)
            except DataError as cause:
                raise_in(source, cause)
            return row

        return write_struct

    def _choices(
        self, union: Schema, fields: dict[str, FieldDescriptor]
    ) -> list[tuple[str, str, Write | None]]:
        """The choices of a union, by their names in Connect and in the message."""
        choices = []
        for field in union.fields:
            name = self._options.name(field.name)
            choices.append((field.name, name, self._field(field.schema, fields[name])))
        return choices

    def _field(self, schema: Schema, field: FieldDescriptor) -> Write | None:
        if schema.type is Type.MAP and schema.logical is None:
            return self._map(schema, field.message_type)
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            element = self._element(schema.value_schema, field)
            return self._array(schema, element)
        return self._element(schema, field)

    def _array(self, schema: Schema, element: Write | None) -> Write:
        def write_array(value: Value) -> Any:
            if type(value) is not list:
                raise DataError(f"Invalid type for ARRAY: {java_class(value)}")
            if None in value:
                raise DataError("Protobuf cannot have null in a repeated field")
            if element is None:
                return value
            return each(element, value)

        return write_array

    def _element(self, schema: Schema, field: FieldDescriptor) -> Write | None:
        """The writer of a field's value, or of its elements."""
        if schema.logical is None and schema.type is Type.STRUCT:
            return self.struct(schema, field.message_type)
        convert = self.scalar(schema)
        message = field.message_type
        if schema.logical is not None or message is None:
            return convert
        # A wrapper: `wrapper.for.nullables`.
        if convert is None:
            return lambda value: {VALUE: value}
        return lambda value: {VALUE: convert(value)}

    def scalar(self, schema: Schema) -> Write | None:
        """The writer of primitive values."""
        if schema.logical is not None:
            return _WRITE_LOGICAL[schema.logical]
        mark = enum_mark(schema, generalized=self._options.generalized)
        if mark is not None and schema.type is Type.STRING:
            return _enum_writer(schema, mark)
        match schema.type:
            case Type.INT8 | Type.INT16:
                low, high = int_range(schema.type)
                return lambda value: _within(value, low, high, schema)
            case Type.INT64:
                bits = _UNSIGNED_BITS.get((schema.parameters or {}).get(TYPE, ""))
                if bits is not None:
                    mask = (1 << bits) - 1
                    return lambda value: _integer(value, schema) & mask
        return None

    def _map(self, schema: Schema, entry: Descriptor) -> Write:
        key_schema, value_schema = schema.key_schema, schema.value_schema
        assert key_schema is not None  # otherwise it has no message
        assert value_schema is not None
        key = self._field(key_schema, entry.fields_by_name[KEY]) or (lambda value: value)
        mapped = self._field(value_schema, entry.fields_by_name[VALUE]) or (lambda value: value)

        def write_map(value: Value) -> Any:
            if not isinstance(value, dict | list):
                raise DataError(f"Invalid type for MAP: {java_class(value)}")
            entries = []
            for name, item in pairs(value):
                try:
                    written = None if name is None else key(name)
                    entries.append({KEY: written, VALUE: None if item is None else mapped(item)})
                except DataError as cause:
                    raise_in(at_key(name), cause)
            return entries

        return write_map


def _put_choice(
    row: dict[str, Any], union: Value, choices: list[tuple[str, str, Write | None]]
) -> None:
    """Adds the field of a union that is set to the fields of the message."""
    if type(union) is not dict:
        raise DataError(f"Invalid type for STRUCT: {java_class(union)}")
    for source, name, convert in choices:
        inner = union.get(source)
        if inner is not None:
            try:
                row[name] = inner if convert is None else convert(inner)
            except DataError as cause:
                raise_in(source, cause)
            return
    raise DataError("Cannot find non-null field")


_UNSIGNED_BITS: Final = {"uint32": 32, "fixed32": 32, "uint64": 64, "fixed64": 64}


def _integer(value: Value, schema: Schema) -> int:
    if type(value) is not int:
        raise invalid_type(schema, value)
    return value


def _within(value: Value, low: int, high: int, schema: Schema) -> int:
    if type(value) is int and low <= value <= high:
        return value
    raise invalid_type(schema, value)


def _enum_writer(schema: Schema, mark: str) -> Write:
    prefix = f"{mark}."
    numbers = {
        name.removeprefix(prefix): int(number)
        for name, number in (schema.parameters or {}).items()
        if name.startswith(prefix)
    }

    def write_enum(value: Value) -> int:
        number = numbers.get(value) if type(value) is str else None
        if number is None:
            raise DataError(
                f"{value!r} is not a symbol of the enum {(schema.parameters or {})[mark]}"
            )
        return number

    return write_enum


def _write_decimal(value: Value) -> Any:
    if not isinstance(value, Decimal) or not value.is_finite():
        raise not_decimal(value)
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    return {
        VALUE: decimal_to_bytes(value, scale),
        "precision": len(digits),
        "scale": scale,
    }


def _write_date(value: Value) -> Any:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise not_date("Date", value)
    return {"year": value.year, "month": value.month, "day": value.day}


def _write_time(value: Value) -> Any:
    if not isinstance(value, time):
        raise not_date("Time", value)
    return {
        "hours": value.hour,
        "minutes": value.minute,
        "seconds": value.second,
        "nanos": value.microsecond // 1000 * _NS_PER_MS,
    }


def _write_timestamp(value: Value) -> Any:
    if not isinstance(value, datetime):
        raise not_date("Timestamp", value)
    seconds, ms = divmod(timestamp_to_ms(value), 1000)
    return {"seconds": seconds, "nanos": ms * _NS_PER_MS}


_WRITE_LOGICAL: Final[dict[Logical, Write]] = {
    Logical.DECIMAL: _write_decimal,
    Logical.DATE: _write_date,
    Logical.TIME: _write_time,
    Logical.TIMESTAMP: _write_timestamp,
}
