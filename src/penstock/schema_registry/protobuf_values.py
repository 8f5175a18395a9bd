"""Connect values to and from Protobuf messages (kafka-connect.md §9.5).

Readers are compiled per message type, writers per schema. Protobuf's C code does most of the work:
one `attrgetter` reads a struct without logical types, and the message's constructor writes its
dict, and checks classes and ranges. Only values that it refuses are checked here, for the error
message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from penstock.convert.logical import not_date, not_decimal
from penstock.data.logical import (
    bytes_to_decimal,
    decimal_to_bytes,
    ms_to_timestamp,
    timestamp_to_ms,
)
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
    wrap_int,
)
from penstock.errors import DataError
from penstock.schema_registry.protobuf_connect import (
    LOGICAL,
    Member,
    is_map,
    parts_of,
    unwrapped,
)
from penstock.schema_registry.protobuf_files import field_params
from penstock.schema_registry.protobuf_names import (
    CONNECT_TYPE,
    DATE,
    DECIMAL,
    KEY,
    TIME,
    TIMESTAMP,
    TYPE,
    VALUE,
    WRAPPERS,
    Options,
    enum_mark,
    is_union,
)

_F = FieldDescriptor

Read = Callable[[Any], Value]
"""Makes a Connect value from a protobuf value."""
ReadBytes = Callable[[bytes], Value]
Write = Callable[[Value], Any]
"""Makes an argument for a message's constructor from a Connect value."""
WriteBytes = Callable[[Value], bytes]

_UNSIGNED: Final = (_F.TYPE_UINT64, _F.TYPE_FIXED64)
_HIGH: Final = 1 << 63
_NS_PER_MS: Final = 1_000_000


def reader(message: Descriptor, options: Options) -> ReadBytes:
    """The function that reads the messages of a type.

    It raises DataError for malformed bytes, and for values that Connect cannot represent.
    """
    parse: Callable[[bytes], Message] = GetMessageClass(message).FromString
    if options.wrapper_for_raw_primitives and message.full_name in WRAPPERS:
        read = _wrapped_reader(message)
    else:
        read = _struct_reader(message, options)

    def read_bytes(data: bytes) -> Value:
        try:
            message = parse(data)
        except DecodeError as cause:
            raise DataError(f"Invalid Protobuf message: {cause}") from cause
        return read(message)

    return read_bytes


def _struct_reader(message: Descriptor, options: Options) -> Read:
    parts = parts_of(message)
    always: list[Member] = []
    sometimes: list[tuple[str, str, Read | None]] = []
    unions: list[tuple[str, str, dict[str, Read | None]]] = []
    names: list[str] = []
    for oneof in parts.oneofs:
        if options.flatten_unions:
            names += [member.name for member in oneof.members]
            sometimes += [
                (member.name, member.name, _field_reader(member, options))
                for member in oneof.members
            ]
        else:
            name = oneof.field_name(options)
            names.append(name)
            choices = {member.name: _field_reader(member, options) for member in oneof.members}
            unions.append((name, oneof.descriptor.name, choices))
    defaults: list[tuple[str, Read]] = []
    for member in parts.members:
        names.append(member.name)
        read = _field_reader(member, options)
        if not member.absent_is_null(options):
            always.append(member)
            if read is not None:
                defaults.append((member.name, read))
        elif not (options.struct_for_nulls and _is_struct(member, options)):
            sometimes.append((member.name, member.name, read))
        else:
            assert read is not None  # structs always need a reader
            always.append(member)
            defaults.append((member.name, read))
    read_always = _getter([member.name for member in always])
    always_names = [member.name for member in always]
    if not sometimes and not unions:
        if not defaults:
            return lambda message: dict(zip(names, read_always(message), strict=True))

        def read_plain(message: Any) -> Value:
            row = dict(zip(names, read_always(message), strict=True))
            for name, read in defaults:
                row[name] = read(row[name])
            return row

        return read_plain
    empty: dict[str, Value] = dict.fromkeys(names)

    def read_struct(message: Any) -> Value:
        row = empty.copy()
        row.update(zip(always_names, read_always(message), strict=True))
        for name, read in defaults:
            row[name] = read(row[name])
        has_field = message.HasField
        for name, field, convert in sometimes:
            if has_field(field):
                inner = getattr(message, field)
                row[name] = inner if convert is None else convert(inner)
        for name, oneof, choices in unions:
            chosen = message.WhichOneof(oneof)
            if chosen is not None:
                convert = choices[chosen]
                inner = getattr(message, chosen)
                union: dict[str, Value] = dict.fromkeys(choices)
                union[chosen] = inner if convert is None else convert(inner)
                row[name] = union
        return row

    return read_struct


def _getter(names: Sequence[str]) -> Callable[[Any], Iterable[Any]]:
    """The function that returns the fields of a message."""
    if not names:
        return lambda message: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda message: (get(message),)


def _is_struct(member: Member, options: Options) -> bool:
    """Whether a message field is a STRUCT, not a value of another type."""
    message = member.field.message_type
    return (
        member.field.type == _F.TYPE_MESSAGE
        and message.full_name not in LOGICAL
        and unwrapped(message, options) is None
    )


def _field_reader(member: Member, options: Options) -> Read | None:
    """The reader of a field that is set; None if protobuf's value is the Connect value."""
    field = member.field
    if is_map(field):
        return _map_reader(field, options)
    element = _element_reader(member, options)
    if not field.is_repeated:
        return element
    if element is None:
        return list
    return lambda items: [element(item) for item in items]


def _element_reader(member: Member, options: Options) -> Read | None:
    field = member.field
    match field.type:
        case _F.TYPE_MESSAGE | _F.TYPE_GROUP:
            logical = _READ_LOGICAL.get(field.message_type.full_name)
            if logical is not None:
                return logical
            if unwrapped(field.message_type, options) is not None:
                return _wrapped_reader(field.message_type)
            return _struct_reader(field.message_type, options)
        case _F.TYPE_ENUM:
            return None if options.int_for_enums else _enum_reader(field)
        case _F.TYPE_UINT64 | _F.TYPE_FIXED64:
            return _signed
        case _F.TYPE_INT32 | _F.TYPE_SINT32 | _F.TYPE_SFIXED32:
            small = field_params(member.proto).get(CONNECT_TYPE)
            if small in ("int8", "int16"):
                type = Type[small.upper()]
                return lambda number: wrap_int(number, type)
    return None


def _signed(number: int) -> int:
    """The same 64 bits, signed, as in Java."""
    return number if number < _HIGH else number - (_HIGH << 1)


def _wrapped_reader(message: Descriptor) -> Read:
    (field,) = message.fields
    if field.type in _UNSIGNED:
        return lambda wrapper: _signed(wrapper.value)
    return attrgetter(VALUE)


def _enum_reader(field: FieldDescriptor) -> Read:
    enum = field.enum_type
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)

    def read_enum(number: int) -> str:
        name = names.get(number)
        # The name that Java's protobuf gives an unknown number.
        return f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}" if name is None else name

    return read_enum


def _map_reader(field: FieldDescriptor, options: Options) -> Read:
    entry = field.message_type
    key_member, value_member = parts_of(entry).members
    key, value = (_field_reader(member, options) for member in (key_member, value_member))
    absent = value_member.absent_is_null(options)
    hashable = not (key_member.field.type == _F.TYPE_MESSAGE and _is_struct(key_member, options))

    def read_items(items: Any) -> Value:
        return {
            (name if key is None else key(name)): item if value is None else value(item)
            for name, item in items.items()
        }

    def read_entries(items: Any) -> Value:
        entries = []
        for item in items:
            name, inner = item.key, item.value
            if absent and not item.HasField(VALUE):
                inner = None
            elif value is not None:
                inner = value(inner)
            entries.append((name if key is None else key(name), inner))
        return dict(entries) if hashable else entries

    return read_items if entry.GetOptions().map_entry else read_entries


def _read_decimal(message: Any) -> Value:
    return bytes_to_decimal(message.value, message.scale)


def _read_date(message: Any) -> Value:
    try:
        return date(message.year, message.month, message.day)
    except ValueError as cause:
        raise DataError(
            f"Invalid google.type.Date: {message.year}-{message.month}-{message.day} ({cause})"
        ) from cause


def _read_time(message: Any) -> Value:
    try:
        ms = message.nanos // _NS_PER_MS
        return time(message.hours, message.minutes, message.seconds, ms * 1000)
    except ValueError as cause:
        raise DataError(f"Invalid google.type.TimeOfDay: {cause}") from cause


def _read_timestamp(message: Any) -> Value:
    return ms_to_timestamp(message.seconds * 1000 + message.nanos // _NS_PER_MS)


_READ_LOGICAL: Final[dict[str, Read]] = {
    DECIMAL: _read_decimal,
    DATE: _read_date,
    TIME: _read_time,
    TIMESTAMP: _read_timestamp,
}


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
            for item in value:
                _complain(schema.value_schema, item)
        case Type.MAP:
            for name, item in pairs(value):
                _complain(schema.key_schema, name)
                _complain(schema.value_schema, item)
        case Type.STRUCT:
            if any(schema.field(name) is None for name in value):
                raise DataError("Mismatching struct schema")
            for field in schema.fields:
                _complain(field.schema, value.get(field.name))


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
            return value if element is None else [element(item) for item in value]

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
            return [
                {
                    KEY: None if name is None else key(name),
                    VALUE: None if item is None else mapped(item),
                }
                for name, item in pairs(value)
            ]

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
            row[name] = inner if convert is None else convert(inner)
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
