"""Protobuf schemas of the registry as descriptors (kafka-connect.md §9.5).

A registry stores a schema as the text of a `.proto` file. With `format=serialized` it returns a
serialized FileDescriptorProto in base64 instead, which it also accepts as a schema. This module
uses these, as confluent-kafka's serializers do, because Python's protobuf has no parser for
`.proto` text.

Files that are part of Protobuf and of the registry (`google/protobuf/…`, `google/type/…`,
`confluent/…`) are never registered; every pool has them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from penstock.errors import DataError

META_FILE: Final = "confluent/meta.proto"
DECIMAL_FILE: Final = "confluent/type/decimal.proto"
META_NUMBER: Final = 1088
"""The number of the option with a `confluent.Meta`, on fields and everything else."""

_Field = FieldDescriptorProto
_MAIN: Final = "default"


def to_base64(file: FileDescriptorProto) -> str:
    """The text of a schema, as the registry accepts it."""
    return b64encode(file.SerializeToString(deterministic=True)).decode("ascii")


def from_base64(text: str, name: str = _MAIN) -> FileDescriptorProto:
    """The file of a schema's text; imports use `name`. Raises DataError for other texts."""
    try:
        file = FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (ValueError, DecodeError) as cause:
        raise DataError(
            "The registry did not answer with a serialized Protobuf descriptor, as requested "
            "(format=serialized); .proto text is not supported"
        ) from cause
    file.name = name
    return file


@cache
def known_file(path: str) -> FileDescriptorProto | None:
    """The well-known file at a path; None if it must be in the registry."""
    if path == META_FILE:
        return _meta_file()
    if path == DECIMAL_FILE:
        return _decimal_file()
    if not path.startswith(("google/protobuf/", "google/type/", "google/api/", "google/rpc/")):
        return None
    try:
        module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _meta_file() -> FileDescriptorProto:
    file = FileDescriptorProto(
        name=META_FILE,
        package="confluent",
        syntax="proto3",
        dependency=["google/protobuf/descriptor.proto"],
    )
    meta = file.message_type.add(name="Meta")
    _add(meta, "doc", 1, _Field.TYPE_STRING)
    _add(meta, "params", 2, _Field.TYPE_MESSAGE, repeated=True, of=".confluent.Meta.ParamsEntry")
    _add(meta, "tags", 3, _Field.TYPE_STRING, repeated=True)
    _add(meta, "rules", 4, _Field.TYPE_MESSAGE, repeated=True, of=".confluent.Rule")
    entry = meta.nested_type.add(name="ParamsEntry")
    entry.options.map_entry = True
    _add(entry, "key", 1, _Field.TYPE_STRING)
    _add(entry, "value", 2, _Field.TYPE_STRING)
    rule = file.message_type.add(name="Rule")
    for number, name in enumerate(("name", "doc", "expr", "sql"), 1):
        _add(rule, name, number, _Field.TYPE_STRING)
    for name, options in (
        ("file_meta", "FileOptions"),
        ("message_meta", "MessageOptions"),
        ("field_meta", "FieldOptions"),
        ("enum_meta", "EnumOptions"),
        ("enum_value_meta", "EnumValueOptions"),
    ):
        file.extension.add(
            name=name,
            extendee=f".google.protobuf.{options}",
            number=META_NUMBER,
            label=_Field.LABEL_OPTIONAL,
            type=_Field.TYPE_MESSAGE,
            type_name=".confluent.Meta",
        )
    return file


def _decimal_file() -> FileDescriptorProto:
    file = FileDescriptorProto(name=DECIMAL_FILE, package="confluent.type", syntax="proto3")
    message = file.message_type.add(name="Decimal")
    _add(message, "value", 1, _Field.TYPE_BYTES)
    _add(message, "precision", 2, _Field.TYPE_UINT32)
    _add(message, "scale", 3, _Field.TYPE_INT32)
    return file


def _add(
    message: DescriptorProto,
    name: str,
    number: int,
    type: FieldDescriptorProto.Type.ValueType,
    *,
    repeated: bool = False,
    of: str | None = None,
) -> None:
    label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    message.field.add(name=name, number=number, type=type, label=label, type_name=of)


def pool_of(
    file: FileDescriptorProto, references: Iterable[FileDescriptorProto] = ()
) -> DescriptorPool:
    """A pool with the file, those it refers to and the well-known ones.

    `references` come after those they import. Raises DataError for an invalid file.
    """
    pool = DescriptorPool()
    added: set[str] = set()

    def add(file: FileDescriptorProto) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for path in file.dependency:
            known = known_file(path)
            if known is not None:
                add(known)
        pool.Add(file)

    try:
        for reference in references:
            add(reference)
        add(file)
        # Adding is lazy: errors are raised by the look-up.
        pool.FindFileByName(file.name)
    except (TypeError, KeyError) as cause:
        raise DataError(f"Invalid Protobuf schema: {cause}") from cause
    return pool


def message_at(pool: DescriptorPool, name: str, path: Sequence[int]) -> Descriptor:
    """The message at a path of indexes: in the file, then among nested messages.

    Raises DataError if there is none.
    """
    file = pool.FindFileByName(name)
    messages: Sequence[Descriptor] = list(file.message_types_by_name.values())
    message: Descriptor | None = None
    for index in path:
        if not 0 <= index < len(messages):
            raise DataError(f"Invalid message indexes: {list(path)}")
        message = messages[index]
        messages = message.nested_types
    if message is None:
        raise DataError(f"Invalid message indexes: {list(path)}")
    return message


def path_to(file: FileDescriptorProto, full_name: str) -> list[int] | None:
    """The path of indexes of a message in a file, by its full name; None if there is none."""
    prefix = f"{file.package}." if file.package else ""
    if not full_name.startswith(prefix):
        return None
    path: list[int] = []
    messages: Iterable[DescriptorProto] = file.message_type
    for name in full_name[len(prefix) :].split("."):
        for index, message in enumerate(messages):
            if message.name == name:
                path.append(index)
                messages = message.nested_type
                break
        else:
            return None
    return path


def encode_path(path: Sequence[int]) -> bytes:
    """The path as bytes: its length and its indexes, as zig-zag varints.

    The path to the first message of a file is a single zero byte.

    >>> encode_path([0]), encode_path([1, 0]), encode_path([200])
    (b'\\x00', b'\\x04\\x02\\x00', b'\\x02\\x90\\x03')
    """
    if list(path) == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(path), *path))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def decode_path(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The path at `start`, and the position after it.

    Raises DataError if there is no path.
    """
    count, at = _read_varint(data, start)
    if count == 0:
        return (0,), at
    if count < 0 or count > len(data):
        raise DataError(f"Invalid message indexes: there cannot be {count}")
    path = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        path.append(index)
    return tuple(path), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise DataError("Invalid message indexes: a number does not end")


@cache
def _meta_class() -> Any:
    """A message class that reads only the `confluent.Meta` of a field's options."""
    file = FileDescriptorProto(name="meta", syntax="proto3", dependency=[META_FILE])
    options = file.message_type.add(name="Options")
    _add(options, "meta", META_NUMBER, _Field.TYPE_MESSAGE, of=".confluent.Meta")
    return GetMessageClass(message_at(pool_of(file), "meta", [0]))


def field_params(field: FieldDescriptorProto) -> Mapping[str, str]:
    """The parameters in a field's `confluent.field_meta` option."""
    if not field.HasField("options"):
        return {}
    # If Confluent's module has been imported, the option is known, otherwise unknown; the bytes are
    # the same.
    options = _meta_class().FromString(field.options.SerializeToString())
    return dict(options.meta.params)


def set_field_params(field: FieldDescriptorProto, params: Mapping[str, str]) -> None:
    """Sets the `confluent.field_meta` option of a field to these parameters."""
    options = _meta_class()(meta={"params": dict(params)})
    field.options.MergeFromString(options.SerializeToString(deterministic=True))
