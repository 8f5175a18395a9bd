"""Avro, with the schema in a Schema Registry (kafka-connect.md §9.5).

`data.avro.read` and `avro_write` do the work per schema; this module loops over a batch. It looks
up a message's plan, first in memory, then in the registry, only if the schema id or topic differs
from the previous message's.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock import VERSION
from penstock.api.converter import Converter, Use
from penstock.api.plugin import Plugin
from penstock.config.declare import flag, ignored
from penstock.config.define import LOW, Config, Key
from penstock.convert.lru import LruCache
from penstock.convert.runs import RunStarts
from penstock.data.avro import schema as names
from penstock.data.avro.read import ReadBytes, ReadSettings, connect_schema, reader
from penstock.data.records import Column, Failed
from penstock.data.schema import Schema, Value
from penstock.errors import DataError, PenstockError
from penstock.schema_registry import settings, wire
from penstock.schema_registry.avro_write import WriteBytes, writer
from penstock.schema_registry.avro_write_schema import WriteSettings, avro_schema
from penstock.schema_registry.client import (
    Lookups,
    RegistryClient,
    RegistrySchema,
    WriterSchemas,
    explained,
)
from penstock.schema_registry.compatibility import avro_obstacles, parse_avro
from penstock.schema_registry.subjects import SubjectNames
from penstock.schema_registry.wire import HEAD_SIZE

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
class _Plan:
    """Reads the messages of a topic with one schema."""

    schema: Schema | None
    read: ReadBytes


@dataclass(frozen=True, slots=True)
class _Own:
    """A Connect schema in Avro."""

    text: RegistrySchema
    record: str | None  # its full name


class AvroConverter(Converter):
    """Reads and writes Avro as Confluent's AvroConverter does.

    Not supported: records that contain themselves, and schema ids in message headers, which
    converters do not receive.
    """

    plugin = Plugin(
        class_name="io.confluent.connect.avro.AvroConverter",
        version=VERSION,
        config=AVRO_CONVERTER,
    )

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use)
        self._client = RegistryClient(config)
        self._subjects = SubjectNames(config, use)
        self._targets = WriterSchemas(self._client, config, self._incompatible)
        self._lasting = config[settings.AUTO_REGISTER] or not (
            config[settings.USE_LATEST] or config[settings.USE_METADATA]
        )
        self._reading = ReadSettings(
            metadata=config[METADATA],
            enhanced=config[ENHANCED],
            shared_sum_types=config[settings.SUM_TYPES],
            discard_doc_default=config[DISCARD],
            flatten_singletons=config[FLATTEN],
        )
        self._writing = WriteSettings(
            metadata=config[METADATA],
            enhanced=config[ENHANCED],
            shared_sum_types=config[settings.SUM_TYPES],
            ignore_default=config[settings.IGNORE_DEFAULT],
            scrub=config[settings.SCRUB_NAMES],
            discard_doc_default=config[DISCARD],
            optional_keys=config[OPTIONAL_KEYS],
        )
        self._what = "key" if use is Use.KEY else "value"
        size = config[settings.CACHE_SIZE]
        self._plans: LruCache[Hashable, _Plan] = LruCache(size)
        self._owns: LruCache[Hashable, _Own] = LruCache(size)
        self._heads: LruCache[Hashable, tuple[bytes, WriteBytes]] = LruCache(size)
        self._writers: LruCache[Hashable, WriteBytes] = LruCache(size)

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        lookups = Lookups()
        values: list[Value] = []
        append = values.append
        starts = RunStarts()
        topic: str | None = None
        head, plan = b"", _NO_PLAN
        read, schema = plan.read, plan.schema
        for row, cell in enumerate(cells):
            if cell is None:
                append(None)
                if starts.schema is not None:
                    starts.begin(row, None)
                continue
            try:
                if topics[row] != topic or not cell.startswith(head):
                    topic = None
                    plan = self._plan(topics[row], cell, lookups)
                    topic, head = topics[row], cell[: wire.HEAD_SIZE]
                    read, schema = plan.read, plan.schema
                append(read(cell))
            except Exception as cause:
                failed[row] = self._not_read(cause, topics[row], cell)
                append(None)  # in the current run
                continue
            if schema is not starts.schema:
                starts.begin(row, schema)
        return Column(values, starts.runs(len(values)))

    def _plan(self, topic: str, cell: bytes, lookups: Lookups) -> _Plan:
        schema_id = wire.schema_id(cell)
        key = (topic, schema_id)
        plan = self._plans.get(key)
        if plan is None:
            plan = lookups.once(("read", key), lambda: self._new_plan(topic, schema_id, lookups))
            self._plans.put(key, plan)
        return plan

    def _new_plan(self, topic: str, schema_id: int, lookups: Lookups) -> _Plan:
        def find() -> tuple[RegistrySchema, dict[str, RegistrySchema]]:
            schema = self._client.schema(schema_id)
            return schema, self._client.referenced(schema)

        try:
            text, built_on = lookups.of(("id", schema_id), find)
        except PenstockError as cause:
            raise self._explained(
                cause, topic, f"Error retrieving Avro {self._what} schema for id {schema_id}"
            ) from cause
        if text.type != "AVRO":
            raise DataError(
                f"Failed to deserialize data for topic {topic} to Avro: schema {schema_id} is of "
                f"type {text.type}"
            )
        node, named = names.parse(text.text, {n: schema.text for n, schema in built_on.items()})
        subject = self._subjects.of(topic, _record_name(node))
        try:
            place = lookups.of(
                ("version", subject, schema_id),
                lambda: self._client.lookup(subject, text, deleted=True),
            )
        except PenstockError as cause:
            raise self._explained(
                cause,
                topic,
                f"Error retrieving Avro {self._what} schema version for id {schema_id}",
            ) from cause
        schema = connect_schema(node, named, self._reading, place.version)
        return _Plan(schema, reader(node, named, self._reading, HEAD_SIZE))

    def _explained(self, cause: Exception, topic: str, part: str) -> PenstockError:
        return explained(
            cause,
            network=f"Network connection error while deserializing data for topic {topic}:",
            refused=f"Failed to access Avro data from topic {topic} :",
            failed=f"Failed to deserialize data for topic {topic} to Avro: {part}:",
        )

    def _not_read(self, cause: Exception, topic: str, cell: bytes) -> Exception:
        if isinstance(cause, PenstockError) and not isinstance(cause, wire.NotFramed):
            return cause
        message = str(cause)
        if not isinstance(cause, wire.NotFramed):
            number = wire.schema_id(cell)
            message = f"Error deserializing Avro message for id {number}"
            message += f" ({type(cause).__name__}: {cause})"
        error = DataError(f"Failed to deserialize data for topic {topic} to Avro: {message}")
        error.__cause__ = cause
        return error

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        lookups = Lookups()
        cells: list[bytes | None] = []
        append = cells.append
        values = column.values
        for schema, start, stop in column.slices():
            topic: str | None = None
            head = b""
            write: WriteBytes = _never
            refuses_null = schema is not None and not schema.optional
            for row in range(start, stop):
                value = values[row]
                if value is None:
                    append(None)
                    if refuses_null:
                        failed[row] = DataError("Found null value for non-optional schema")
                    continue
                try:
                    if topics[row] != topic:
                        topic = None
                        head, write = self._writer(topics[row], schema, lookups)
                        topic = topics[row]
                    data = write(value)
                    append(None if data is None else head + data)
                except Exception as cause:
                    failed[row] = self._not_written(cause, topics[row])
                    append(None)
        return cells

    def _writer(
        self, topic: str, schema: Schema | None, lookups: Lookups
    ) -> tuple[bytes, WriteBytes]:
        """The head of messages with the schema in that topic, and the function that writes them."""
        key = (topic, schema)
        known = self._heads.get(key) if self._lasting else None
        if known is not None:
            return known
        head = lookups.once(("write", key), lambda: self._new_writer(topic, schema, lookups))
        return self._heads.put(key, head)

    def _new_writer(
        self, topic: str, schema: Schema | None, lookups: Lookups
    ) -> tuple[bytes, WriteBytes]:
        own = self._owns.get(schema)
        if own is None:
            own = lookups.once(("own", schema), lambda: self._own(schema))
            self._owns.put(schema, own)
        own_schema = own.text
        subject = self._subjects.of(topic, own.record)

        def find() -> tuple[int, RegistrySchema, dict[str, RegistrySchema]]:
            number, target = self._targets.of(subject, own_schema)
            return number, target, self._client.referenced(target)

        try:
            number, target, built_on = lookups.of(("target", subject, own_schema), find)
        except PenstockError as cause:
            raise explained(
                cause,
                network=f"Network connection error while serializing Avro data for topic {topic}:",
                refused=f"Failed to access Avro data from topic {topic} :",
                failed=f"Failed to serialize Avro data from topic {topic}:",
            ) from cause
        key = (schema, target)
        write = self._writers.get(key)
        if write is None:
            node, named = names.parse(
                target.text, {name: schema.text for name, schema in built_on.items()}
            )
            write = self._writers.put(key, writer(schema, node, named, self._writing))
        return wire.head(number), write

    def _own(self, schema: Schema | None) -> _Own:
        node = avro_schema(schema, self._writing)
        return _Own(RegistrySchema(names.text_of(node)), _record_name(node))

    def _incompatible(self, chosen: RegistrySchema, own: RegistrySchema) -> str | None:
        """Why data of `own` cannot be read as `chosen`; None if they can."""
        one, other = (
            parse_avro(
                schema.text,
                {name: target.text for name, target in self._client.referenced(schema).items()},
            )
            for schema in (chosen, own)
        )
        obstacles = avro_obstacles(one, other)
        return "; ".join(obstacles) if obstacles else None

    def _not_written(self, cause: Exception, topic: str) -> Exception:
        if isinstance(cause, PenstockError):
            return cause
        error = DataError(
            f"Failed to serialize Avro data from topic {topic}: Error serializing Avro message "
            f"({type(cause).__name__}: {cause})"
        )
        error.__cause__ = cause
        return error


def _record_name(node: names.Node) -> str | None:
    """The full name of a record's schema, for subjects that are named after it."""
    is_record = isinstance(node, dict) and node["type"] == "record"
    return node["name"] if is_record else None


def _not_yet(cell: bytes) -> Value:
    raise AssertionError("no message was looked at")


def _never(value: Value) -> bytes | None:
    raise AssertionError("no value was looked at")


_NO_PLAN: Final = _Plan(None, _not_yet)
