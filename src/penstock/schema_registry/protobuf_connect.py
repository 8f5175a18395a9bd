"""Protobuf messages as Connect schemas, as Confluent's ProtobufConverter (kafka-connect.md §9.5).

    int32, sint32, sfixed32           INT32, or INT8 and INT16 by `confluent.field_meta`
    the other integers                INT64; the Protobuf type in the parameter `….Type`
    float, double, bool, string, bytes
    enum                              STRING with the numbers of its symbols as parameters
                                      (`int.for.enums`: INT32)
    repeated                          ARRAY
    map, repeated message …Entry      MAP
    oneof                             optional STRUCT `….Union.⟨name⟩`, field `⟨name⟩_⟨index⟩`
    message                           STRUCT; those of `LOGICAL` and wrappers as their values

Every field has its number as parameter `….Tag`, and all are optional unless
`optional.for.nullables` or `wrapper.for.nullables` says otherwise. Recursive messages are refused,
as a Connect schema is a finite value here; the JVM has schema objects that refer to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from penstock.data import schema as data
from penstock.data.schema import Schema, Type, fields_of
from penstock.errors import DataError
from penstock.schema_registry.protobuf_files import field_params
from penstock.schema_registry.protobuf_names import (
    CONNECT_TYPE,
    DATE,
    DECIMAL,
    ENTRY,
    ENUM,
    GENERAL_ENUM,
    GENERAL_UNION,
    KEY,
    PRECISION,
    TAG,
    TIME,
    TIMESTAMP,
    TYPE,
    UNION,
    VALUE,
    WRAPPERS,
    Options,
    map_name,
)

_F = FieldDescriptor

_SCALARS: Final = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), Type.INT32),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), Type.INT64),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_UINT64, _F.TYPE_SINT64), Type.INT64),
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64), Type.INT64),
    _F.TYPE_FLOAT: Type.FLOAT32,
    _F.TYPE_DOUBLE: Type.FLOAT64,
    _F.TYPE_BOOL: Type.BOOLEAN,
    _F.TYPE_STRING: Type.STRING,
    _F.TYPE_BYTES: Type.BYTES,
}
_TOLD: Final = {
    _F.TYPE_SINT32: "sint32",
    _F.TYPE_SFIXED32: "sfixed32",
    _F.TYPE_UINT32: "uint32",
    _F.TYPE_FIXED32: "fixed32",
    _F.TYPE_UINT64: "uint64",
    _F.TYPE_SINT64: "sint64",
    _F.TYPE_FIXED64: "fixed64",
    _F.TYPE_SFIXED64: "sfixed64",
}
"""Types that the Connect type alone does not determine."""

_SMALL: Final = {"int8": Type.INT8, "int16": Type.INT16}


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a message: its descriptor, and its FieldDescriptorProto."""

    field: FieldDescriptor
    proto: FieldDescriptorProto
    proto2: bool

    @property
    def name(self) -> str:
        name: str = self.field.name
        return name

    @property
    def optional_keyword(self) -> bool:
        """Whether it is declared `optional` (proto2: neither repeated nor required)."""
        return self.proto.proto3_optional or (
            self.proto2
            and self.proto.label == FieldDescriptorProto.LABEL_OPTIONAL
            and not self.proto.HasField("oneof_index")
        )

    def absent_is_null(self, options: Options) -> bool:
        """Whether a field that is not set is null, rather than its type's empty value."""
        if self.field.type == _F.TYPE_MESSAGE:
            return not self.field.is_repeated
        return self.proto.proto3_optional or (options.optional_for_proto2 and self.optional_keyword)


@dataclass(frozen=True, slots=True)
class Oneof:
    """A oneof of a message that is not just an `optional` field."""

    descriptor: OneofDescriptor
    index: int
    members: tuple[Member, ...]

    def field_name(self, options: Options) -> str:
        """The name of its Connect field."""
        name: str = self.descriptor.name
        return f"{name}_{self.index}" if options.index_for_unions else name


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a message: oneofs first, then fields outside of them."""

    oneofs: tuple[Oneof, ...]
    members: tuple[Member, ...]


def parts_of(message: Descriptor) -> Parts:
    """The parts of a message, in the order of their Connect fields."""
    proto = DescriptorProto()
    message.CopyToProto(proto)
    file = FileDescriptorProto.FromString(message.file.serialized_pb)
    proto2 = file.syntax in ("", "proto2")
    members = [
        Member(field, proto_field, proto2)
        for field, proto_field in zip(message.fields, proto.field, strict=True)
    ]
    oneofs = []
    for index, oneof in enumerate(message.oneofs):
        inside = tuple(
            member
            for member in members
            if member.proto.HasField("oneof_index") and member.proto.oneof_index == index
        )
        if not any(member.proto.proto3_optional for member in inside):
            oneofs.append(Oneof(oneof, index, inside))
    return Parts(
        tuple(oneofs),
        tuple(
            member
            for member in members
            if not member.proto.HasField("oneof_index") or member.proto.proto3_optional
        ),
    )


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map, or looks like one: repeated …Entry messages of key and value."""
    message = field.message_type
    return (
        field.is_repeated
        and message is not None
        and message.name.endswith(ENTRY)
        and [inner.name for inner in message.fields] == [KEY, VALUE]
        and not any(inner.is_repeated for inner in message.fields)
    )


def unwrapped(message: Descriptor, options: Options) -> Type | None:
    """The Connect type of the value in a wrapper message; None for any other message."""
    if options.wrapper_for_raw_primitives or options.wrapper_for_nullables:
        return WRAPPERS.get(message.full_name)
    return None


def connect_schema(message: Descriptor, options: Options, version: int | None = None) -> Schema:
    """The Connect schema of a message. Raises DataError if it has none.

    `version` is the schema's version in its subject.
    """
    root = WRAPPERS.get(message.full_name) if options.wrapper_for_raw_primitives else None
    if root is not None:
        return Schema(root, version=version)
    return replace(_Reader(options).struct(message), version=version)


class _Reader:
    """Reads one message; `_open` has the names of the messages around it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._open: list[str] = []

    def struct(self, message: Descriptor) -> Schema:
        full_name = message.full_name
        if full_name in self._open:
            raise DataError(
                f"The Protobuf message {full_name} contains itself, which a Connect schema cannot "
                "express here"
            )
        self._open.append(full_name)
        try:
            parts = parts_of(message)
            fields = dict(self._fields(parts))
        finally:
            self._open.pop()
        return Schema(Type.STRUCT, name=self._name(message), fields=fields_of(fields))

    def _fields(self, parts: Parts) -> Iterator[tuple[str, Schema]]:
        for oneof in parts.oneofs:
            if self._options.flatten_unions:
                yield from ((member.name, self.field(member)) for member in oneof.members)
            else:
                yield oneof.field_name(self._options), self._union(oneof)
        yield from ((member.name, self.field(member)) for member in parts.members)

    def _union(self, oneof: Oneof) -> Schema:
        name: str = oneof.descriptor.name
        general = self._options.generalized
        shown = oneof.descriptor.full_name if self._options.enhanced else name
        return Schema(
            Type.STRUCT,
            optional=True,
            name=name if general else f"{UNION}.{shown}",
            parameters={GENERAL_UNION: name} if general else None,
            fields=fields_of({member.name: self.field(member) for member in oneof.members}),
        )

    def field(self, member: Member) -> Schema:
        """The schema of a field."""
        field = member.field
        schema = self._element(member)
        if field.is_repeated and schema.type is not Type.MAP:
            schema = data.array(schema.as_optional(), optional=True)
        if self._options.optional_for_nullables:
            if member.optional_keyword:
                schema = schema.as_optional()
        elif not self._options.wrapper_for_nullables:
            schema = schema.as_optional()
        return replace(schema, parameters={**(schema.parameters or {}), TAG: str(field.number)})

    def _element(self, member: Member) -> Schema:
        """The schema of a field, or of its elements."""
        field = member.field
        if field.type == _F.TYPE_ENUM:
            return self._enum(field)
        if field.type in (_F.TYPE_MESSAGE, _F.TYPE_GROUP):
            return self._message(member).as_optional()
        type = _SCALARS[field.type]
        if type is Type.INT32:
            small = _SMALL.get(field_params(member.proto).get(CONNECT_TYPE, ""))
            if small is not None:
                return Schema(small)
        type_name = _TOLD.get(field.type)
        return Schema(type, parameters=None if type_name is None else {TYPE: type_name})

    def _enum(self, field: FieldDescriptor) -> Schema:
        enum = field.enum_type
        mark = GENERAL_ENUM if self._options.generalized else ENUM
        return Schema(
            Type.INT32 if self._options.int_for_enums else Type.STRING,
            optional=True,
            name=self._name(enum),
            parameters={mark: enum.name}
            | {f"{mark}.{value.name}": str(value.number) for value in enum.values},
        )

    def _message(self, member: Member) -> Schema:
        message = member.field.message_type
        logical = LOGICAL.get(message.full_name)
        if logical is not None:
            return logical(member)
        type = unwrapped(message, self._options)
        if type is not None:
            return Schema(type)
        if not is_map(member.field):
            return self.struct(message)
        key, value = parts_of(message).members
        return Schema(
            Type.MAP,
            name=map_name(self._name(message)),
            key_schema=self.field(key),
            value_schema=self.field(value),
        )

    def _name(self, descriptor: Descriptor) -> str:
        name: str = descriptor.full_name if self._options.enhanced else descriptor.name
        return name


def _decimal(member: Member) -> Schema:
    params = field_params(member.proto)
    schema = data.decimal(_integer(params.get("scale")) or 0)
    precision = _integer(params.get("precision"))
    if precision is None:
        return schema
    return replace(schema, parameters={**(schema.parameters or {}), PRECISION: str(precision)})


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None  # as in the JVM: no reason to refuse the schema


LOGICAL: Final[dict[str, Callable[[Member], Schema]]] = {
    DECIMAL: _decimal,
    DATE: lambda member: data.DATE,
    TIME: lambda member: data.TIME,
    TIMESTAMP: lambda member: data.TIMESTAMP,
}
"""Messages that represent logical types, and the schemas of fields of these types."""
