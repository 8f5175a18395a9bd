"""The base of converters whose messages begin with the id of their schema.

A format parses schemas of the registry, translates them to Connect's and back, and compiles
functions that read and write messages. This module does the rest, the same for all formats: it
finds schemas in the registry, keeps what was compiled, reports errors, and loops over a batch. It
asks the format once for neighbours.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from penstock.api.converter import Converter, Use
from penstock.config.define import Config
from penstock.convert.lru import LruCache
from penstock.convert.runs import RunStarts
from penstock.data.records import Column, Failed
from penstock.data.schema import Schema, Value
from penstock.errors import DataError, PenstockError
from penstock.schema_registry import settings
from penstock.schema_registry.client import (
    Lookups,
    RegistryClient,
    RegistrySchema,
    WriterSchemas,
    explained,
)
from penstock.schema_registry.rules import RuleMode, refuse_rules
from penstock.schema_registry.subjects import SubjectNames
from penstock.schema_registry.wire import HEAD_SIZE, schema_id

ReadBytes = Callable[[bytes], Value]
"""The value of a message, which includes the id of its schema. It raises DataError for values that
do not fit the schema, and any exception for malformed bytes."""
WriteBytes = Callable[[Value], bytes | None]
"""The message of a value; None if the value has none."""

P = TypeVar("P")
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads the messages of one topic that begin with `prefix`; `schema` is None for data without
    a schema."""

    prefix: bytes
    schema: Schema | None
    read: ReadBytes


@dataclass(frozen=True, slots=True)
class OwnSchema(Generic[W]):
    """A Connect schema in the format: as the registry's, with the name that its subject may
    contain; `work` is what the format keeps to write its values."""

    schema: RegistrySchema
    record: str | None
    work: W


@dataclass(frozen=True, slots=True)
class ChosenSchema(Generic[P]):
    """The registry's schema to write with; `parsed` is None if it is the Connect schema's own."""

    id: int
    schema: RegistrySchema
    parsed: P | None


class FramedConverter(Converter, Generic[P, W]):
    """A converter whose messages begin with the id of a schema.

    `P` is a parsed schema of the registry. `W` is what the format keeps to write the values of a
    Connect schema, for all topics and ids.
    """

    format_name: ClassVar[str]
    """The format's name in messages: Avro, JSON Schema, Protobuf."""
    data_name: ClassVar[str]
    """The name of its data in messages: Avro, Json, Protobuf."""
    schema_type: ClassVar[str]
    """The type of its schemas in the registry."""
    not_read: ClassVar[str] = (
        "Converting byte[] to Kafka Connect data failed due to serialization error of topic {topic}"
    )
    not_written: ClassVar[str] = (
        "Converting Kafka Connect data to byte[] failed due to serialization error of topic {topic}"
    )
    writes_null: ClassVar[bool] = False
    """Whether null may have a message."""

    def __init__(self, config: Config, use: Use, client: RegistryClient | None = None) -> None:
        super().__init__(config, use)
        self.client = client or RegistryClient(config)
        self._what = "key" if use is Use.KEY else "value"
        self._subjects = SubjectNames(config, use)
        self._targets = WriterSchemas(self.client, config, self._incompatible)
        # Only the latest version may change; everything else is constant.
        latest = not config[settings.AUTO_REGISTER] and (
            config[settings.USE_LATEST] or config[settings.USE_METADATA] is not None
        )
        self._keeps_ids = not latest or config[settings.LATEST_CACHE_TTL] < 0
        size = config[settings.CACHE_SIZE]
        self._parsed: LruCache[RegistrySchema, P] = LruCache(size)
        self._readings: LruCache[tuple[str, bytes], Reading] = LruCache(size)
        self._own: LruCache[Schema | None, OwnSchema[W]] = LruCache(size)
        self._writings: LruCache[tuple[str, Schema | None], WriteBytes] = LruCache(size)

    @abstractmethod
    def parse(self, text: str, built_on: Mapping[str, str]) -> P:
        """Parses a schema of the registry; `built_on` has the texts of those it refers to, each
        after those it refers to itself. Raises DataError."""

    @abstractmethod
    def record_name(self, parsed: P, prefix: bytes) -> str | None:
        """The name in the subject of messages with this prefix, if subjects are named by it."""

    @abstractmethod
    def reader(self, parsed: P, prefix: bytes, version: int) -> tuple[Schema | None, ReadBytes]:
        """The Connect schema of messages with this prefix, and the function that reads them.
        `version` is the schema's version in its subject. Raises DataError."""

    @abstractmethod
    def own(self, schema: Schema | None) -> OwnSchema[W]:
        """The Connect schema in the format. Raises DataError if it has none."""

    @abstractmethod
    def writer(
        self, schema: Schema | None, own: OwnSchema[W], target: ChosenSchema[P]
    ) -> WriteBytes:
        """The function that writes values of `schema`. Raises DataError if none can be written."""

    @abstractmethod
    def obstacles(self, chosen: RegistrySchema, own: RegistrySchema) -> list[str]:
        """Why data of `own` cannot be read as `chosen`."""

    def prefix(self, cell: bytes) -> bytes:
        """The beginning of all messages that are read like this one. Raises DataError."""
        schema_id(cell)
        return cell[:HEAD_SIZE]

    def refusal_of_null(self, schema: Schema) -> str | None:
        """Why null is not a value of the schema, if null has no message; None if it is."""
        return None

    def has_message(self, value: Value, own: OwnSchema[W]) -> bool:
        """Whether the first value of a schema has a message. If not, the schema is not registered
        for it."""
        return True

    def parsed(self, stored: RegistrySchema, lookups: Lookups) -> P:
        """The parsed schema, with those that it refers to. Raises DataError."""
        known = self._parsed.get(stored)
        if known is not None:
            return known
        if stored.type != self.schema_type:
            raise DataError(f"The schema is of type {stored.type}, not {self.schema_type}")
        schemas = lookups.of(("built on", stored), lambda: self.client.referenced(stored))
        built_on = {name: schema.text for name, schema in schemas.items()}
        return self._parsed.put(stored, self.parse(stored.text, built_on))

    def _incompatible(self, chosen: RegistrySchema, own: RegistrySchema) -> str | None:
        """Why data of `own` cannot be read as `chosen`; None if they can."""
        if chosen.type != self.schema_type:
            return f"it is of type {chosen.type}"
        return "; ".join(self.obstacles(chosen, own)) or None

    def _reading(self, topic: str, cell: bytes, lookups: Lookups) -> Reading:
        """The reading of this message, and of all messages of the topic with the same prefix."""
        with self._asking_to_read(topic):
            prefix = self.prefix(cell)
        key = (topic, prefix)
        known = self._readings.get(key)
        if known is not None:
            return known
        reading = lookups.once(("reading", key), lambda: self._new_reading(topic, prefix, lookups))
        return self._readings.put(key, reading)

    def _new_reading(self, topic: str, prefix: bytes, lookups: Lookups) -> Reading:
        id = schema_id(prefix)
        by_topic = self._subjects.of(topic, None) if self._subjects.by_topic else None
        with self._asking_to_read(topic, f"schema for id {id}"):
            stored = lookups.of(
                ("schema", id, by_topic), lambda: self.client.schema(id, subject=by_topic)
            )
            refuse_rules(stored.rules, RuleMode.READ)
            parsed = self.parsed(stored, lookups)
            subject = self._subjects.of(topic, self.record_name(parsed, prefix))
        with self._asking_to_read(topic, f"schema version for id {id}"):
            place = lookups.of(
                ("place", id, subject), lambda: self.client.lookup(subject, stored, deleted=True)
            )
        return Reading(prefix, *self.reader(parsed, prefix, place.version))

    def _writing(
        self, topic: str, schema: Schema | None, value: Value, lookups: Lookups
    ) -> WriteBytes | None:
        """The function that writes the schema's values to the topic; `value` is the first.

        None if that value has no message: then nothing is registered, and the next value tries
        again.
        """
        key = (topic, schema)
        known = self._writings.get(key)
        if known is not None:
            return known
        own = self._own.get(schema)
        if own is None:
            own = lookups.once(("own", schema), lambda: self.own(schema))
            self._own.put(schema, own)
        if not self.has_message(value, own):
            return None
        writing = lookups.once(
            ("writing", key), lambda: self._new_writing(topic, schema, own, lookups)
        )
        return self._writings.put(key, writing) if self._keeps_ids else writing

    def _new_writing(
        self, topic: str, schema: Schema | None, own: OwnSchema[W], lookups: Lookups
    ) -> WriteBytes:
        """Registers the schema if needed."""
        with self._asking_to_write(topic):
            subject = self._subjects.of(topic, own.record)
            id, chosen = lookups.of(
                ("chosen", subject, schema), lambda: self._targets.of(subject, own.schema)
            )
            parsed = None if chosen is own.schema else self.parsed(chosen, lookups)
        return self.writer(schema, own, ChosenSchema(id, chosen, parsed))

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        lookups = Lookups()
        values: list[Value] = []
        append = values.append
        starts = RunStarts()
        topic: str | None = None
        prefix = b""
        read: ReadBytes = _unread
        schema: Schema | None = None
        for row, cell in enumerate(cells):
            if cell is None:
                append(None)
                if starts.schema is not None:
                    starts.begin(row, None)
                continue
            try:
                if topics[row] != topic or not cell.startswith(prefix):
                    topic = None
                    reading = self._reading(topics[row], cell, lookups)
                    prefix, schema, read = reading.prefix, reading.schema, reading.read
                    topic = topics[row]
                value = read(cell)
            except Exception as cause:
                failed[row] = self._read_error(cause, topics[row], cell)
                append(None)  # in the current run
                continue
            append(value)
            if schema is not starts.schema:
                starts.begin(row, schema)
        return Column(values, starts.runs(len(values)))

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        lookups = Lookups()
        cells: list[bytes | None] = []
        append = cells.append
        values = column.values
        for schema, start, stop in column.slices():
            topic: str | None = None
            write: WriteBytes = _unwritten
            is_absent = schema is None or not self.writes_null
            refusal = None if schema is None or not is_absent else self.refusal_of_null(schema)
            for row in range(start, stop):
                value = values[row]
                if value is None and is_absent:
                    append(None)
                    if refusal is not None:
                        failed[row] = DataError(refusal)
                    continue
                try:
                    if topics[row] != topic:
                        topic = None
                        writing = self._writing(topics[row], schema, value, lookups)
                        if writing is None:
                            append(None)
                            continue
                        write, topic = writing, topics[row]
                    append(write(value))
                except Exception as cause:
                    failed[row] = self._write_error(cause, topics[row])
                    append(None)
        return cells

    @contextmanager
    def _asking_to_read(self, topic: str, part: str = "") -> Iterator[None]:
        """Reports errors inside the context as Kafka Connect's converters report those of the
        registry; `part` is what it is asked for."""
        try:
            yield
        except Exception as cause:
            retrieving = f" Error retrieving {self.format_name} {self._what} {part}:"
            raise explained(
                cause,
                network=f"Network connection error while deserializing data for topic {topic}:",
                refused=f"Failed to access {self.format_name} data from topic {topic} :",
                failed=f"{self.not_read.format(topic=topic)}:{retrieving if part else ''}",
            ) from cause

    @contextmanager
    def _asking_to_write(self, topic: str) -> Iterator[None]:
        """`_asking_to_read` for messages that are written."""
        try:
            yield
        except Exception as cause:
            raise explained(
                cause,
                network=f"Network connection error while serializing {self.data_name} data for "
                f"topic {topic}:",
                refused=f"Failed to access {self.format_name} data from topic {topic} :",
                failed=f"{self.not_written.format(topic=topic)}:",
            ) from cause

    def _read_error(self, cause: Exception, topic: str, cell: bytes) -> Exception:
        if isinstance(cause, PenstockError):
            return cause
        return self._malformed(cause, self.not_read, topic, "deserializing", schema_id(cell))

    def _write_error(self, cause: Exception, topic: str) -> Exception:
        if isinstance(cause, PenstockError):
            return cause
        return self._malformed(cause, self.not_written, topic, "serializing")

    def _malformed(
        self, cause: Exception, failed: str, topic: str, doing: str, id: int | None = None
    ) -> DataError:
        """The error for bytes or values that a library refuses."""
        which = "" if id is None else f" for id {id}"
        error = DataError(
            f"{failed.format(topic=topic)}: Error {doing} {self.format_name} message{which} "
            f"({type(cause).__name__}: {cause})"
        )
        error.__cause__ = cause
        return error


def with_schema(schema: Schema | None) -> Schema:
    """The schema; raises DataError for values without one, in formats that need it."""
    if schema is None:
        raise DataError("A value without a schema cannot be written in the format of a registry")
    return schema


def _unread(cell: bytes) -> Value:
    raise AssertionError("no message was begun")


def _unwritten(value: Value) -> bytes | None:
    raise AssertionError("no value was begun")
