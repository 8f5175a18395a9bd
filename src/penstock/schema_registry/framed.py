"""The base of converters whose messages begin with the id of their schema.

A format implements `reading` (of messages with the same beginning) and `writing` (values of one
schema to one topic); both may ask the registry. This module has the error messages, and the loops
over a batch, which call them once for neighbours.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, TypeVar

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
from penstock.schema_registry.subjects import SubjectNames

ReadBytes = Callable[[bytes], Value]
WriteBytes = Callable[[Value], bytes | None]

D = TypeVar("D")
W = TypeVar("W")


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads the messages of one topic that begin with `prefix`.

    `read` takes the bytes after the prefix. It raises DataError for values that do not fit the
    schema, and any exception for malformed bytes.
    """

    prefix: bytes
    schema: Schema
    read: ReadBytes


class FramedConverter(Converter, Generic[W]):
    """A converter whose messages begin with the id of a schema.

    `W` writes the values of one Connect schema, for all topics and ids.
    """

    format_name: ClassVar[str]
    """The format's name in messages: JSON Schema, Protobuf."""
    data_name: ClassVar[str]
    """The name of its data in messages: Json, Protobuf."""

    def __init__(self, config: Config, use: Use, client: RegistryClient) -> None:
        super().__init__(config, use)
        self.client = client
        self.subjects = SubjectNames(config, use)
        self.schemas = WriterSchemas(client, config, self.incompatible)
        # Only the latest version may change; everything else is constant.
        latest = config[settings.USE_LATEST] or config[settings.USE_METADATA] is not None
        self._keeps_ids = not latest or config[settings.LATEST_CACHE_TTL] < 0
        size = config[settings.CACHE_SIZE]
        self.readings: LruCache[tuple[str, bytes], Reading] = LruCache(size)
        self._written: LruCache[Schema, W] = LruCache(size)
        self._writings: LruCache[tuple[str, Schema], WriteBytes] = LruCache(size)

    @abstractmethod
    def reading(self, topic: str, cell: bytes, lookups: Lookups) -> Reading:
        """The reading of this message, and of all messages of the topic with the same beginning."""

    @abstractmethod
    def written(self, schema: Schema) -> W:
        """Compiles the `W` for a schema. Raises DataError."""

    @abstractmethod
    def has_no_bytes(self, value: Value, written: W) -> bool:
        """Whether nothing is written for a value."""

    @abstractmethod
    def new_writing(self, topic: str, schema: Schema, written: W, lookups: Lookups) -> WriteBytes:
        """The function that writes a schema's values to a topic; registers the schema if needed."""

    @abstractmethod
    def incompatible(self, chosen: RegistrySchema, own: RegistrySchema) -> str | None:
        """Why data of `own` cannot be read as `chosen`; None if they can."""

    def writing(
        self, topic: str, schema: Schema, value: Value, lookups: Lookups
    ) -> WriteBytes | None:
        """The function that writes the schema's values to the topic; `value` is the first.

        None if that value has no bytes: then nothing is registered, and the next value tries again.
        """
        key = (topic, schema)
        known = self._writings.get(key)
        if known is not None:
            return known
        written = self._written.get(schema)
        if written is None:
            written = lookups.once(("written", schema), lambda: self.written(schema))
            self._written.put(schema, written)
        if self.has_no_bytes(value, written):
            return None
        plan = lookups.once(
            ("writing", key), lambda: self.new_writing(topic, schema, written, lookups)
        )
        return self._writings.put(key, plan) if self._keeps_ids else plan

    def stored(
        self,
        topic: str,
        id: int,
        lookups: Lookups,
        parse: Callable[[RegistrySchema], D],
        record: Callable[[D], str | None],
    ) -> tuple[D, int]:
        """The parsed schema with that id, and its version in the subject; `record` returns the name
        that the subject may contain."""
        by_topic = self.subjects.of(topic, None) if self.subjects.by_topic else None
        stored = lookups.of(
            ("schema", id, by_topic), lambda: self.client.schema(id, subject=by_topic)
        )
        parsed = parse(stored)
        subject = by_topic or self.subjects.of(topic, record(parsed))
        place = lookups.of(
            ("place", id, subject), lambda: self.client.lookup(subject, stored, deleted=True)
        )
        return parsed, place.version

    def chosen(
        self, topic: str, schema: Schema, own: RegistrySchema, record: str | None, lookups: Lookups
    ) -> tuple[int, RegistrySchema]:
        """The id and the schema to write with; `own` is the Connect schema in the format."""
        subject = self.subjects.of(topic, record)
        return lookups.of(("chosen", subject, schema), lambda: self.schemas.of(subject, own))

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        lookups = Lookups()
        values: list[Value] = []
        append = values.append
        starts = RunStarts()
        topic: str | None = None
        prefix, size = b"", 0
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
                    plan = self.reading(topics[row], cell, lookups)
                    prefix, schema, read = plan.prefix, plan.schema, plan.read
                    size, topic = len(prefix), topics[row]
                value = read(cell[size:])
            except Exception as cause:
                failed[row] = self._read_error(cause, topics[row])
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
            write: WriteBytes = _without_schema
            for row in range(start, stop):
                try:
                    if schema is not None and topics[row] != topic:
                        topic = None
                        plan = self.writing(topics[row], schema, values[row], lookups)
                        if plan is None:
                            append(None)
                            continue
                        write, topic = plan, topics[row]
                    append(write(values[row]))
                except Exception as cause:
                    failed[row] = self._write_error(cause, topics[row])
                    append(None)
        return cells

    @contextmanager
    def asking_to_read(self, topic: str) -> Iterator[None]:
        """Reports errors inside the context as Kafka Connect's converters report those of the
        registry."""
        try:
            yield
        except Exception as cause:
            raise explained(
                cause,
                network=f"Network connection error while deserializing data for topic {topic}:",
                refused=self._no_access(topic),
                failed=_NOT_READ.format(topic=topic),
            ) from cause

    @contextmanager
    def asking_to_write(self, topic: str) -> Iterator[None]:
        """`asking_to_read` for messages that are written."""
        try:
            yield
        except Exception as cause:
            raise explained(
                cause,
                network=f"Network connection error while serializing {self.data_name} data for "
                f"topic {topic}:",
                refused=self._no_access(topic),
                failed=_NOT_WRITTEN.format(topic=topic),
            ) from cause

    def _no_access(self, topic: str) -> str:
        return f"Failed to access {self.format_name} data from topic {topic} :"

    def _read_error(self, cause: Exception, topic: str) -> Exception:
        return _data_error(cause, _NOT_READ.format(topic=topic))

    def _write_error(self, cause: Exception, topic: str) -> Exception:
        return _data_error(cause, _NOT_WRITTEN.format(topic=topic))


_NOT_READ: Final = (
    "Converting byte[] to Kafka Connect data failed due to serialization error of topic {topic}:"
)
_NOT_WRITTEN: Final = (
    "Converting Kafka Connect data to byte[] failed due to serialization error of topic {topic}:"
)


def _unread(data: bytes) -> Value:
    raise AssertionError("no message was begun")


def _without_schema(value: Value) -> bytes | None:
    """The bytes of a value without a schema, which must be null."""
    if value is None:
        return None
    raise DataError("A value without a schema cannot be written in the format of a registry")


def _data_error(cause: Exception, message: str) -> Exception:
    if isinstance(cause, PenstockError):
        return cause
    error = DataError(f"{message} {cause}")
    error.__cause__ = cause
    return error
