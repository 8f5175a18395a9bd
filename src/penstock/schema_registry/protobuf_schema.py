"""Connect schemas as Protobuf files, as Confluent's ProtobufConverter (kafka-connect.md §9.5).

    INT8, INT16, INT32         int32; the width is in the field's option `confluent.field_meta`
    INT64                      int64, or what the parameter `….Type` says (uint32, sfixed64)
    FLOAT32, FLOAT64           float, double
    BOOLEAN, STRING, BYTES     bool, string, bytes
    STRING, INT32 of an enum   an enum, numbers from the parameters `….Enum.⟨symbol⟩`
    ARRAY                      repeated
    MAP                        repeated message of key and value, any types
    STRUCT                     message, nested where it is used
    union                      oneof
    Decimal, Date, Time        confluent.type.Decimal, google.type.Date, google.type.TimeOfDay
    Timestamp                  google.protobuf.Timestamp
    optional                   the same; `optional` or a wrapper message where settings say so
    no STRUCT at the root      the wrapper message of the type

The number of a field is its parameter `….Tag`, by default its place, from 1. As in the JVM, type
names are relative to their use, so that both converters register the same text. Defaults are not
written: proto3 has none, and `protoc` refuses the JVM's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from penstock.data.schema import SCALE, Field, Logical, Schema, Type
from penstock.errors import DataError
from penstock.schema_registry.protobuf_files import (
    DECIMAL_FILE,
    META_FILE,
    known_file,
    path_to,
    set_field_params,
)
from penstock.schema_registry.protobuf_names import (
    CONNECT_TYPE,
    DATE,
    DECIMAL,
    DEFAULT_NAME,
    GENERAL_UNION,
    KEY,
    PRECISION,
    TAG,
    TIME,
    TIMESTAMP,
    TYPE,
    UNION,
    VALUE,
    Options,
    entry_name,
    enum_mark,
    is_union,
)

_P = FieldDescriptorProto

_WRAPPERS_FILE: Final = "google/protobuf/wrappers.proto"

_LOGICAL: Final = {
    Logical.DECIMAL: (DECIMAL, DECIMAL_FILE),
    Logical.DATE: (DATE, "google/type/date.proto"),
    Logical.TIME: (TIME, "google/type/timeofday.proto"),
    Logical.TIMESTAMP: (TIMESTAMP, "google/protobuf/timestamp.proto"),
}
_SCALARS: Final = {
    Type.INT8: _P.TYPE_INT32,
    Type.INT16: _P.TYPE_INT32,
    Type.INT32: _P.TYPE_INT32,
    Type.INT64: _P.TYPE_INT64,
    Type.FLOAT32: _P.TYPE_FLOAT,
    Type.FLOAT64: _P.TYPE_DOUBLE,
    Type.BOOLEAN: _P.TYPE_BOOL,
    Type.STRING: _P.TYPE_STRING,
    Type.BYTES: _P.TYPE_BYTES,
}
_NAMED_SCALARS: Final = {
    "int32": _P.TYPE_INT32,
    "sint32": _P.TYPE_SINT32,
    "sfixed32": _P.TYPE_SFIXED32,
    "int64": _P.TYPE_INT64,
    "uint32": _P.TYPE_UINT32,
    "fixed32": _P.TYPE_FIXED32,
    "uint64": _P.TYPE_UINT64,
    "sint64": _P.TYPE_SINT64,
    "fixed64": _P.TYPE_FIXED64,
    "sfixed64": _P.TYPE_SFIXED64,
}
_ROOT_WRAPPERS: Final = {
    Type.INT8: "Int32Value",
    Type.INT16: "Int32Value",
    Type.INT32: "Int32Value",
    Type.INT64: "Int64Value",
    Type.FLOAT32: "FloatValue",
    Type.FLOAT64: "DoubleValue",
    Type.BOOLEAN: "BoolValue",
    Type.STRING: "StringValue",
    Type.BYTES: "BytesValue",
}


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file and one of its messages."""

    file: FileDescriptorProto
    full_name: str

    @property
    def path(self) -> list[int]:
        path = path_to(self.file, self.full_name)
        assert path is not None  # the file was built with the message
        return path


def message_file(schema: Schema, options: Options) -> MessageFile:
    """The file with the message of a Connect schema. Raises DataError for a schema without one."""
    if schema.type is not Type.STRUCT:
        wrapper = _ROOT_WRAPPERS.get(schema.type)
        if wrapper is None:
            raise DataError(f"Unsupported root schema of type {schema.type.name}")
        known = known_file(_WRAPPERS_FILE)
        assert known is not None  # it is part of protobuf
        return MessageFile(known, f"google.protobuf.{wrapper}")
    return _Builder(options).build(schema)


class _Builder:
    """Makes one file. Messages without a name are numbered in order."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._unnamed = 0
        self._file = FileDescriptorProto(name="default", syntax="proto3")

    def build(self, schema: Schema) -> MessageFile:
        full_name = schema.name or self._default_name()
        package, _, name = full_name.rpartition(".")
        # `scrub.invalid.names`: each part of the package separately.
        package = ".".join(map(self._options.name, package.split(".")))
        name = self._options.name(name)
        if package:
            self._file.package = package
        self._message(self._file.message_type.add(name=name), schema)
        return MessageFile(self._file, f"{package}.{name}" if package else name)

    def _message(self, message: DescriptorProto, schema: Schema) -> None:
        """Fills in the fields of a STRUCT."""
        optionals: list[FieldDescriptorProto] = []
        used = {tag for field in schema.fields for tag in _tags(field)}
        numbers = iter(number for number in range(1, 1 << 29) if number not in used)
        for member in schema.fields:
            if is_union(member.schema):
                oneof = len(message.oneof_decl)
                message.oneof_decl.add(name=self._union_name(member.schema))
                for choice in member.schema.fields:
                    number = _tag(choice.schema) or next(numbers)
                    field = self._field(message, choice.schema, choice.name, number)
                    if field.label == _P.LABEL_REPEATED:
                        raise DataError(
                            f"The oneof {message.oneof_decl[oneof].name} cannot have the "
                            f"repeated field {field.name}"
                        )
                    field.oneof_index = oneof
                continue
            field = self._field(
                message, member.schema, member.name, _tag(member.schema) or next(numbers)
            )
            if (
                self._options.optional_for_nullables
                and member.schema.optional
                and field.label != _P.LABEL_REPEATED
            ):
                optionals.append(field)
        # An `optional` field is in its own oneof; these come after the others.
        for field in optionals:
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _field(
        self, message: DescriptorProto, schema: Schema, name: str, number: int
    ) -> FieldDescriptorProto:
        """Adds a field, and its message or enum."""
        field = message.field.add(
            name=self._options.name(name), number=number, label=_P.LABEL_OPTIONAL
        )
        if schema.type is Type.ARRAY:
            field.label = _P.LABEL_REPEATED
            if schema.value_schema is None:
                raise DataError(f"Protobuf cannot express that anything may be in {name}")
            schema = schema.value_schema
            if schema.type in (Type.ARRAY, Type.MAP) or is_union(schema):
                raise DataError(f"Array cannot be nested: {name} is one of {schema.type.name}")
        self._type(message, field, schema)
        return field

    def _type(self, message: DescriptorProto, field: FieldDescriptorProto, schema: Schema) -> None:
        """Sets the type of a field."""
        if schema.logical is not None:
            type_name, path = _LOGICAL[schema.logical]
            self._refer(field, type_name, path)
            if schema.logical is Logical.DECIMAL:
                parameters = schema.parameters or {}
                attributes = (("precision", PRECISION), ("scale", SCALE))
                self._describe(
                    field, {ours: parameters[key] for ours, key in attributes if key in parameters}
                )
            return
        if mark := enum_mark(schema, generalized=self._options.generalized):
            self._enum(message, field, schema, mark)
            return
        match schema.type:
            case Type.STRUCT:
                self._nested(message, field, schema)
            case Type.MAP:
                self._map(message, field, schema)
            case _:
                self._scalar(field, schema)

    def _scalar(self, field: FieldDescriptorProto, schema: Schema) -> None:
        if schema.type in (Type.INT8, Type.INT16):
            self._describe(field, {CONNECT_TYPE: schema.type.value.lower()})
        named = (schema.parameters or {}).get(TYPE, "")
        integral = schema.type in (Type.INT32, Type.INT64)
        scalar = _NAMED_SCALARS.get(named) if integral else None
        if not (self._options.wrapper_for_nullables and schema.optional):
            field.type = scalar or _SCALARS[schema.type]
            return
        wrapper = _ROOT_WRAPPERS[schema.type]
        if schema.type is Type.INT64 and scalar is not None:
            unsigned = {"uint32": "UInt32Value", "fixed32": "UInt32Value"}
            unsigned |= {"uint64": "UInt64Value", "fixed64": "UInt64Value"}
            wrapper = unsigned.get(named, wrapper)
        self._refer(field, f"google.protobuf.{wrapper}", _WRAPPERS_FILE)

    def _refer(self, field: FieldDescriptorProto, type_name: str, path: str) -> None:
        field.type = _P.TYPE_MESSAGE
        field.type_name = type_name
        self._import(path)

    def _describe(self, field: FieldDescriptorProto, params: dict[str, str]) -> None:
        if params:
            set_field_params(field, params)
            self._import(META_FILE)

    def _import(self, path: str) -> None:
        if path not in self._file.dependency:
            self._file.dependency.append(path)

    def _enum(
        self, message: DescriptorProto, field: FieldDescriptorProto, schema: Schema, mark: str
    ) -> None:
        parameters = schema.parameters or {}
        name = parameters[mark].rpartition(".")[2] or f"{field.name.capitalize()}Enum"
        name = self._options.name(name)
        field.type = _P.TYPE_ENUM
        field.type_name = name
        if any(enum.name == name for enum in message.enum_type):
            return
        enum = message.enum_type.add(name=name)
        for key, number in parameters.items():
            if key.startswith(f"{mark}."):
                enum.value.add(name=key[len(mark) + 1 :], number=_number(number))
        # In proto3 the default value, zero, must be the first.
        values = sorted(enum.value, key=lambda value: value.number != 0)
        del enum.value[:]
        enum.value.extend(values)
        if not values or values[0].number:
            raise DataError(f"The enum {name} has no symbol with number 0, which proto3 requires")
        if len({value.number for value in values}) < len(values):
            enum.options.allow_alias = True

    def _nested(
        self, message: DescriptorProto, field: FieldDescriptorProto, schema: Schema
    ) -> None:
        if is_union(schema):
            raise DataError(f"A oneof cannot be inside of {field.name}")
        name = self._options.name((schema.name or self._default_name()).rpartition(".")[2])
        if name == field.name:
            # A message and a field of the same name cannot be in one message.
            name += "Message"
        nested = DescriptorProto(name=name)
        self._message(nested, schema)
        self._define(message, field, nested)

    def _map(self, message: DescriptorProto, field: FieldDescriptorProto, schema: Schema) -> None:
        if schema.key_schema is None or schema.value_schema is None:
            raise DataError(f"Protobuf cannot express that anything may be in {field.name}")
        name = (schema.name or self._default_name()).rpartition(".")[2]
        entry = DescriptorProto(name=entry_name(self._options.name(name)))
        for number, (part, inner) in enumerate(
            ((KEY, schema.key_schema), (VALUE, schema.value_schema)), 1
        ):
            self._field(entry, inner, part, number)
        field.label = _P.LABEL_REPEATED
        self._define(message, field, entry)

    def _define(
        self, message: DescriptorProto, field: FieldDescriptorProto, nested: DescriptorProto
    ) -> None:
        """Nests a message in the one that uses it, unless it is nested already."""
        field.type = _P.TYPE_MESSAGE
        field.type_name = nested.name
        known = [
            message_type for message_type in message.nested_type if message_type.name == nested.name
        ]
        if not known:
            message.nested_type.append(nested)
        elif known[0] != nested:
            raise DataError(
                f"Two different schemas named {nested.name} cannot be in one Protobuf message; "
                "rename one"
            )

    def _union_name(self, schema: Schema) -> str:
        general = (schema.parameters or {}).get(GENERAL_UNION)
        name = schema.name or ""
        if name.startswith(UNION) and not (general and self._options.generalized):
            general = name.removeprefix(f"{UNION}.")
        return self._options.name((general or name or self._default_name()).rpartition(".")[2])

    def _default_name(self) -> str:
        self._unnamed += 1
        return f"{DEFAULT_NAME}{self._unnamed}"


def _tags(field: Field) -> list[int]:
    """The numbers in the parameters of a field, or of the fields of a oneof."""
    inside = field.schema.fields if is_union(field.schema) else (field,)
    return [tag for member in inside if (tag := _tag(member.schema))]


def _tag(schema: Schema) -> int | None:
    text = (schema.parameters or {}).get(TAG)
    return None if text is None else _number(text)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as cause:
        raise DataError(f'For input string: "{text}"') from cause
