"""Protobuf, with the schema in a Schema Registry (kafka-connect.md §9.5).

A message consists of the schema's id, the path to the message type in the schema's file, and the
data. Schemas are mapped in `protobuf_schema` and `protobuf_connect`, and exchanged with the
registry in `protobuf_files` as serialized descriptors, as confluent-kafka's serializers do. The
registry stores them as `.proto` text, like the schemas that the JVM's converter registers, so that
both find each other's schemas.

Only values with a schema can be written; a primitive value as the wrapper message of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from penstock import VERSION
from penstock.api.converter import Use
from penstock.api.plugin import Plugin
from penstock.config.declare import flag
from penstock.config.define import Config
from penstock.data.schema import Schema, Value
from penstock.errors import DataError
from penstock.schema_registry import settings
from penstock.schema_registry.client import (
    Lookups,
    Registered,
    RegistryClient,
    RegistrySchema,
)
from penstock.schema_registry.compatibility import protobuf_obstacles
from penstock.schema_registry.framed import (
    ChosenSchema,
    FramedConverter,
    OwnSchema,
    ReadBytes,
    WriteBytes,
    with_schema,
)
from penstock.schema_registry.protobuf_connect import connect_schema
from penstock.schema_registry.protobuf_files import (
    decode_path,
    encode_path,
    from_base64,
    message_at,
    path_to,
    pool_of,
    to_base64,
)
from penstock.schema_registry.protobuf_names import Options
from penstock.schema_registry.protobuf_read import reader
from penstock.schema_registry.protobuf_schema import MessageFile, message_file
from penstock.schema_registry.protobuf_write import writer
from penstock.schema_registry.wire import HEAD_SIZE, head, schema_id

# fmt: off
ENHANCED: Final = flag("enhanced.protobuf.schema.support", False,
    "Whether structs, enums and unions that are read have the package in their names.")
INT_FOR_ENUMS: Final = flag("int.for.enums", False,
    "Whether enums are read as numbers rather than names.")
OPTIONAL_NULLABLES: Final = flag("optional.for.nullables", False,
    "Whether optional fields are written as proto3 optional, and only those read as optional.")
OPTIONAL_PROTO2: Final = flag("optional.for.proto2", True,
    "Whether fields that proto2 declares optional are null when they are not set.")
WRAPPER_NULLABLES: Final = flag("wrapper.for.nullables", False,
    "Whether optional fields are written as wrapper messages, and other fields read as required.")
WRAPPER_PRIMITIVES: Final = flag("wrapper.for.raw.primitives", True,
    "Whether a wrapper message is read as the value in it.")
STRUCT_FOR_NULLS: Final = flag("generate.struct.for.nulls", False,
    "Whether a message field that is not set is read as a struct of empty values.")
INDEX_FOR_UNIONS: Final = flag("generate.index.for.unions", True,
    "Whether the oneof's number is appended to the name of its field.")
FLATTEN_UNIONS: Final = flag("flatten.unions", False,
    "Whether the fields of a oneof are read as fields of the message, not of a struct of its own.")
# fmt: on

PROTOBUF_CONVERTER: Final = settings.REGISTRY.extended(
    settings.SCRUB_NAMES,
    ENHANCED,
    INT_FOR_ENUMS,
    OPTIONAL_NULLABLES,
    OPTIONAL_PROTO2,
    WRAPPER_NULLABLES,
    WRAPPER_PRIMITIVES,
    STRUCT_FOR_NULLS,
    INDEX_FOR_UNIONS,
    FLATTEN_UNIONS,
)

_SERIALIZED: Final = "serialized"


class _DescriptorClient(RegistryClient):
    """Requests all schemas as descriptors."""

    def schema(
        self, schema_id: int, *, subject: str | None = None, format: str | None = None
    ) -> RegistrySchema:
        return super().schema(schema_id, subject=subject, format=format or _SERIALIZED)

    def latest(self, subject: str, metadata: Mapping[str, str] | None = None) -> Registered:
        place = super().latest(subject, metadata)
        return replace(place, schema=self.schema(place.id, subject=subject))

    def version(self, subject: str, version: int, *, format: str | None = None) -> Registered:
        return super().version(subject, version, format=format or _SERIALIZED)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A schema of the registry: its file and those it refers to."""

    file: FileDescriptorProto
    references: tuple[FileDescriptorProto, ...]

    def message(self, path: Sequence[int]) -> Descriptor:
        return message_at(pool_of(self.file, self.references), self.file.name, path)

    def message_of(self, prefix: bytes) -> Descriptor:
        """The type of messages that begin with this."""
        return self.message(decode_path(prefix, HEAD_SIZE)[0])

    def with_full_names(self) -> FileDescriptorProto:
        """The file with full names of types, for comparison."""
        pool = pool_of(self.file, self.references)
        return FileDescriptorProto.FromString(pool.FindFileByName(self.file.name).serialized_pb)


@dataclass(frozen=True, slots=True)
class _Work:
    """The message and the function that writes values of one Connect schema, for all ids."""

    message: MessageFile
    write: Callable[[Value], bytes]


class ProtobufConverter(FramedConverter[_Parsed, _Work]):
    """Reads and writes Protobuf as Confluent's ProtobufConverter does."""

    plugin = Plugin(
        class_name="io.confluent.connect.protobuf.ProtobufConverter",
        version=VERSION,
        config=PROTOBUF_CONVERTER,
    )
    format_name = data_name = "Protobuf"
    schema_type = "PROTOBUF"

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use, _DescriptorClient(config))
        self._options = Options(
            generalized=config[settings.SUM_TYPES],
            ignore_default=config[settings.IGNORE_DEFAULT],
            enhanced=config[ENHANCED],
            scrub=config[settings.SCRUB_NAMES],
            int_for_enums=config[INT_FOR_ENUMS],
            optional_for_nullables=config[OPTIONAL_NULLABLES],
            optional_for_proto2=config[OPTIONAL_PROTO2],
            wrapper_for_nullables=config[WRAPPER_NULLABLES],
            wrapper_for_raw_primitives=config[WRAPPER_PRIMITIVES],
            struct_for_nulls=config[STRUCT_FOR_NULLS],
            index_for_unions=config[INDEX_FOR_UNIONS],
            flatten_unions=config[FLATTEN_UNIONS],
        )

    def parse(self, text: str, built_on: Mapping[str, str]) -> _Parsed:
        references = tuple(from_base64(file, name) for name, file in built_on.items())
        return _Parsed(from_base64(text), references)

    def prefix(self, cell: bytes) -> bytes:
        schema_id(cell)
        return cell[: decode_path(cell, HEAD_SIZE)[1]]

    def record_name(self, parsed: _Parsed, prefix: bytes) -> str | None:
        return str(parsed.message_of(prefix).full_name)

    def reader(self, parsed: _Parsed, prefix: bytes, version: int) -> tuple[Schema, ReadBytes]:
        message = parsed.message_of(prefix)
        schema = connect_schema(message, self._options, version)
        return schema, reader(message, self._options, len(prefix))

    def own(self, schema: Schema | None) -> OwnSchema[_Work]:
        schema = with_schema(schema)
        target = message_file(schema, self._options)
        text = to_base64(target.file)
        message = self.parse(text, {}).message(target.path)
        work = _Work(target, writer(schema, message, self._options))
        return OwnSchema(RegistrySchema(text, "PROTOBUF"), target.full_name, work)

    def writer(
        self, schema: Schema | None, own: OwnSchema[_Work], target: ChosenSchema[_Parsed]
    ) -> WriteBytes:
        full_name, path = own.work.message.full_name, own.work.message.path
        if target.parsed is not None:
            # The bytes are the same; only the path is the other schema's.
            existing = path_to(target.parsed.file, full_name)
            if existing is None:
                raise DataError(f"The schema {target.id} has no message {full_name}")
            path = existing
        start, to_bytes = head(target.id) + encode_path(path), own.work.write
        return lambda value: start + to_bytes(value)

    def obstacles(self, chosen: RegistrySchema, own: RegistrySchema) -> list[str]:
        files = (self.parsed(schema, Lookups()).with_full_names() for schema in (chosen, own))
        return protobuf_obstacles(*files)
