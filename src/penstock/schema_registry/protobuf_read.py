"""Protobuf messages as Connect values (kafka-connect.md §9.5).

Readers are compiled per message type. Protobuf's C code does most of the work: one `attrgetter`
reads a struct without logical types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, time
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from penstock.data.logical import (
    bytes_to_decimal,
    ms_to_timestamp,
)
from penstock.data.paths import at_key, each, raise_in
from penstock.data.schema import (
    Type,
    Value,
    wrap_int,
)
from penstock.errors import DataError
from penstock.schema_registry.framed import ReadBytes
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
    TIME,
    TIMESTAMP,
    VALUE,
    WRAPPERS,
    Options,
)

_F = FieldDescriptor

Read = Callable[[Any], Value]
"""Makes a Connect value from a protobuf value."""

_UNSIGNED: Final = (_F.TYPE_UINT64, _F.TYPE_FIXED64)
_HIGH: Final = 1 << 63
_NS_PER_MS: Final = 1_000_000


def reader(message: Descriptor, options: Options, head: int) -> ReadBytes:
    """The function that reads the messages of a type, whose data begin after `head` bytes.

    It raises DataError for malformed bytes, and for values that Connect cannot represent.
    """
    parse: Callable[[bytes], Message] = GetMessageClass(message).FromString
    if options.wrapper_for_raw_primitives and message.full_name in WRAPPERS:
        read = _wrapped_reader(message)
    else:
        read = _struct_reader(message, options)

    def read_bytes(data: bytes) -> Value:
        try:
            message = parse(data[head:])
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
            name = ""
            try:
                for name, read in defaults:
                    row[name] = read(row[name])
            except DataError as cause:
                raise_in(name, cause)
            return row

        return read_plain
    empty: dict[str, Value] = dict.fromkeys(names)

    def read_struct(message: Any) -> Value:
        row = empty.copy()
        row.update(zip(always_names, read_always(message), strict=True))
        name = ""
        try:
            for name, read in defaults:
                row[name] = read(row[name])
            has_field = message.HasField
            for name, field, convert in sometimes:
                if has_field(field):
                    inner = getattr(message, field)
                    row[name] = inner if convert is None else convert(inner)
            for union, oneof, choices in unions:
                name = union
                chosen = message.WhichOneof(oneof)
                if chosen is not None:
                    name = f"{union}.{chosen}"
                    convert = choices[chosen]
                    inner = getattr(message, chosen)
                    fields: dict[str, Value] = dict.fromkeys(choices)
                    fields[chosen] = inner if convert is None else convert(inner)
                    row[union] = fields
        except DataError as cause:
            raise_in(name, cause)
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

    def read_list(items: Any) -> Value:
        return each(element, items)

    return read_list


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
        values = {}
        for name, item in items.items():
            try:
                values[name if key is None else key(name)] = item if value is None else value(item)
            except DataError as cause:
                raise_in(at_key(name), cause)
        return values

    def read_entries(items: Any) -> Value:
        entries = []
        for item in items:
            name, inner = item.key, item.value
            try:
                if absent and not item.HasField(VALUE):
                    inner = None
                elif value is not None:
                    inner = value(inner)
                entries.append((name if key is None else key(name), inner))
            except DataError as cause:
                raise_in(at_key(name), cause)
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
