"""Avro, with the schema in a Schema Registry (kafka-connect.md §9.5).

`data.avro.read` translates schemas of the registry and reads their data; `avro_schema` and
`avro_write` do so for Connect's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock import VERSION
from penstock.api.converter import Use
from penstock.api.plugin import Plugin
from penstock.config.declare import flag, ignored
from penstock.config.define import LOW, Config, Key
from penstock.convert.lru import LruCache
from penstock.data.avro import schema as names
from penstock.data.avro.read import ReadSettings, connect_schema, reader
from penstock.data.schema import Schema
from penstock.schema_registry import settings
from penstock.schema_registry.avro_schema import WriteSettings, avro_schema
from penstock.schema_registry.avro_write import AvroWriter, writer
from penstock.schema_registry.client import RegistrySchema
from penstock.schema_registry.compatibility import avro_obstacles, parse_avro
from penstock.schema_registry.framed import (
    ChosenSchema,
    FramedConverter,
    OwnSchema,
    ReadBytes,
    WriteBytes,
)
from penstock.schema_registry.wire import HEAD_SIZE, head

# fmt: off
ENHANCED: Final = flag("enhanced.avro.schema.support", False,
    "Write strings that were Avro enums as enums again, and name the branches of unions with "
    "their namespaces.")
METADATA: Final = flag("connect.meta.data", True,
    "Write what Avro cannot express of Connect's schemas as connect.… properties, and read it.",
    importance=LOW)
DISCARD: Final = flag("discard.type.doc.default", False,
    "Deprecated: keep only the fields' docs and defaults.", importance=LOW)
OPTIONAL_KEYS: Final = flag("allow.optional.map.keys", False,
    "Write maps with optional string keys as Avro maps too.", importance=LOW)
FLATTEN: Final = flag("flatten.singleton.union", True,
    "Read a union of one type as that type.", importance=LOW)
# fmt: on
_SERIALIZER: Final[tuple[Key[object], ...]] = (
    ignored("avro.use.logical.type.converters", False),
    ignored("avro.reflection.allow.null", False),
    ignored("avro.remove.java.properties", False),
    ignored("specific.avro.reader", False),
)

AVRO_CONVERTER: Final = settings.REGISTRY.extended(
    *(ENHANCED, settings.SCRUB_NAMES, METADATA, DISCARD, OPTIONAL_KEYS, FLATTEN), *_SERIALIZER
)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A schema as a tree, and the named types in it and in those it refers to."""

    node: names.Node
    named: names.Nodes


class AvroConverter(FramedConverter[_Parsed, _Parsed]):
    """Reads and writes Avro as Confluent's AvroConverter does.

    Not supported: records that contain themselves, and schema ids in message headers, which
    converters do not receive.
    """

    plugin = Plugin(
        class_name="io.confluent.connect.avro.AvroConverter",
        version=VERSION,
        config=AVRO_CONVERTER,
    )
    format_name = data_name = "Avro"
    schema_type = "AVRO"
    not_read = "Failed to deserialize data for topic {topic} to Avro"
    not_written = "Failed to serialize Avro data from topic {topic}"

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use)
        self._read_settings = ReadSettings(
            metadata=config[METADATA],
            enhanced=config[ENHANCED],
            shared_sum_types=config[settings.SUM_TYPES],
            discard_doc_default=config[DISCARD],
            flatten_singletons=config[FLATTEN],
        )
        self._write_settings = WriteSettings(
            metadata=config[METADATA],
            enhanced=config[ENHANCED],
            shared_sum_types=config[settings.SUM_TYPES],
            ignore_default=config[settings.IGNORE_DEFAULT],
            scrub=config[settings.SCRUB_NAMES],
            discard_doc_default=config[DISCARD],
            optional_keys=config[OPTIONAL_KEYS],
        )
        size = config[settings.CACHE_SIZE]
        self._writers: LruCache[tuple[Schema | None, RegistrySchema], AvroWriter] = LruCache(size)

    def parse(self, text: str, built_on: Mapping[str, str]) -> _Parsed:
        return _Parsed(*names.parse(text, built_on))

    def record_name(self, parsed: _Parsed, prefix: bytes) -> str | None:
        return _record_name(parsed.node)

    def reader(
        self, parsed: _Parsed, prefix: bytes, version: int
    ) -> tuple[Schema | None, ReadBytes]:
        node, named = parsed.node, parsed.named
        schema = connect_schema(node, named, self._read_settings, version)
        return schema, reader(node, named, self._read_settings, HEAD_SIZE)

    def refusal_of_null(self, schema: Schema) -> str | None:
        return None if schema.optional else "Found null value for non-optional schema"

    def own(self, schema: Schema | None) -> OwnSchema[_Parsed]:
        node = avro_schema(schema, self._write_settings)
        text = names.text_of(node)
        return OwnSchema(RegistrySchema(text), _record_name(node), self.parse(text, {}))

    def writer(
        self, schema: Schema | None, own: OwnSchema[_Parsed], target: ChosenSchema[_Parsed]
    ) -> WriteBytes:
        key = (schema, target.schema)
        known = self._writers.get(key)
        if known is None:
            parsed = target.parsed or own.work
            compiled = writer(schema, parsed.node, parsed.named, self._write_settings)
            known = self._writers.put(key, compiled)
        return known.after(head(target.id))

    def obstacles(self, chosen: RegistrySchema, own: RegistrySchema) -> list[str]:
        one, other = (
            parse_avro(
                schema.text,
                {name: target.text for name, target in self.client.referenced(schema).items()},
            )
            for schema in (chosen, own)
        )
        return avro_obstacles(one, other)


def _record_name(node: names.Node) -> str | None:
    """The full name of a record's schema, for subjects that are named after it."""
    is_record = isinstance(node, dict) and node["type"] == "record"
    return node["name"] if is_record else None
