"""JSON, with or without an envelope that carries the schema (kafka-connect.md §9.2).

Schemas are compiled once and cached by the bytes of the message up to its payload, so that most
messages cost one comparison, one `orjson` call and the work for their fields. A message that begins
differently from the previous one takes the slow, exact path; see `json_read`, `json_write`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast

import orjson

from penstock import KAFKA_VERSION
from penstock.api.converter import Converter, Use
from penstock.api.plugin import Plugin
from penstock.config.declare import Group
from penstock.config.define import HIGH, LOW, Config, ConfigDef, Width
from penstock.convert.json_fields import (
    Attempts,
    ReadFields,
    map_fields,
    payloads,
    struct_fields,
)
from penstock.convert.json_read import (
    Inexact,
    Malformed,
    Read,
    ReadMany,
    batch_reader,
    may_hold_wide_integers,
    parse,
    read_schemaless_strictly,
    reader,
    schemaless,
)
from penstock.convert.json_schema import read_schema, schema_node
from penstock.convert.json_write import (
    DecimalFormat,
    Write,
    WriteMany,
    batch_writer,
    dump,
    schemaless_bytes,
    writer,
)
from penstock.convert.lru import LruCache
from penstock.convert.runs import RunStarts
from penstock.convert.settings import CONVERTER_TYPE
from penstock.data.columns import Cells, Fields
from penstock.data.records import Column, Failed
from penstock.data.schema import Schema, Value
from penstock.errors import DataError

# fmt: off
_SCHEMAS: Final = Group("Schemas", importance=HIGH, first=0)
SCHEMAS_ENABLE: Final = _SCHEMAS.flag("schemas.enable", True,
    "Include schemas within each of the serialized values and keys.", width=Width.MEDIUM,
    label="Enable Schemas")
CACHE_SIZE: Final = _SCHEMAS.number("schemas.cache.size", 1000,
    "The maximum number of schemas that can be cached in this converter instance.",
    width=Width.MEDIUM, label="Schema Cache Size")
SCHEMA_CONTENT: Final = _SCHEMAS.text("schema.content", None,
    "When set, this is used as the schema for all messages, and the schemas within each of the "
    "message will be ignored.Otherwise, the schema will be included in the content of each "
    "message. This configuration applies only 'schemas.enable' is true, and it exclusively "
    "affects the sink connector.", width=Width.MEDIUM, label="Schema Content")
_SERIALIZATION: Final = Group("Serialization", importance=LOW, first=0)
DECIMAL_FORMAT: Final = _SERIALIZATION.choice(
    "decimal.format",
    DecimalFormat.BASE64.value,
    (DecimalFormat.NUMERIC.value, DecimalFormat.BASE64.value),
    "Controls which format this converter will serialize decimals in. This value is case "
    "insensitive and can be either 'BASE64' (default) or 'NUMERIC'", ignore_case=True,
    width=Width.MEDIUM, label="Decimal Format")
REPLACE_NULL: Final = _SERIALIZATION.flag("replace.null.with.default", True,
    "Whether to replace fields that have a default value and that are null to the default value. "
    "When set to true, the default value is used, otherwise null is used.", width=Width.MEDIUM,
    label="Replace null with default")
# fmt: on

JSON_CONVERTER: Final = ConfigDef(CONVERTER_TYPE, *_SCHEMAS, *_SERIALIZATION)

_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
    "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false "
    "in your converter configuration."
)
_NOT_READ: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_NOT_WRITTEN: Final = "Converting Kafka Connect data to byte[] failed due to serialization error: "

_SCHEMA_MEMBER: Final = re.compile(rb'\s*\{\s*"schema"\s*:')
_PAYLOAD_MEMBER: Final = re.compile(rb'\s*,\s*"payload"\s*:')
# What follows the schema in compact JSON, as `orjson` and Jackson write it.
_COMPACT_PAYLOAD: Final = b',"payload":'
_CLOSING_BRACE: Final = ord("}")
_MOST_LOOKALIKES: Final = 8

WriteBytes = Callable[[Value], bytes | None]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Reads payloads of one schema: from bytes, and from nodes of `parse`.

    `from_bytes` raises ValueError for bytes that `orjson` refuses.
    """

    schema: Schema | None
    from_bytes: Read
    from_node: Read
    read_many: ReadMany | None = None
    read_fields: ReadFields | None = None


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes values of one schema: one, which raises DataError, and many at once. With a `head`, a
    message begins with it and ends with a brace."""

    write: WriteBytes
    write_many: WriteMany | None = None
    head: bytes = b""

    def alike(self, values: list[Value]) -> list[bytes] | None:
        """The messages of many values; None if one of them must be written separately."""
        if self.write_many is None:
            return None
        try:
            nodes = self.write_many(values)
            if nodes is None:
                return None
            bodies = map(orjson.dumps, nodes)
            head = self.head
            return [head + body + b"}" for body in bodies] if head else list(bodies)
        except Exception:  # writing one by one shows which value failed, and why
            return None


_BARE: Final = _Plan(None, read_schemaless_strictly, schemaless, None, map_fields)


class JsonConverter(Converter):
    """Reads and writes JSON exactly as Kafka Connect's JsonConverter does.

    As in Kafka Connect, NaN is written as the text `"NaN"`, which is read as 0.0, and an integer
    too large for its type is wrapped when read, not refused.
    """

    plugin = Plugin(
        class_name="org.apache.kafka.connect.json.JsonConverter",
        version=KAFKA_VERSION,
        config=JSON_CONVERTER,
    )

    def __init__(self, config: Config, use: Use) -> None:
        super().__init__(config, use)
        self._enveloped = config[SCHEMAS_ENABLE]
        self._replace_null = config[REPLACE_NULL]
        self._decimals = DecimalFormat(config[DECIMAL_FORMAT].upper())
        size = config[CACHE_SIZE]
        self._plans_by_head: LruCache[bytes, _Plan] = LruCache(size)
        self._plans_by_schema: LruCache[str, _Plan] = LruCache(size)
        self._writings: LruCache[Schema | None, _Writing] = LruCache(size)
        # The head of the last message: everything before its payload. No message begins with the
        # initial head.
        self._last: tuple[bytes, _Plan] = (b"\0", _BARE)
        self._attempts = Attempts()
        content = config[SCHEMA_CONTENT]
        self._fixed: _Plan | None = None
        if self._enveloped and content is not None and content.strip():
            try:
                node = parse(content.encode())
                self._fixed = None if node is None else self._plan(node)
            except Malformed as cause:
                raise DataError(
                    "Failed to parse schema in converter config due to serialization error: "
                ) from cause

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        if self._enveloped and self._fixed is None:
            return self._read_envelopes(cells, failed)
        return self._read_payloads(self._fixed or _BARE, cells, failed)

    def to_fields(self, cells: Cells) -> Fields | None:
        if cells.rests.null_count or not len(cells) or not self._attempts.due():
            return None
        fields = self._read_fields(cells)
        self._attempts.record(fields is not None)
        return fields

    def _read_fields(self, cells: Cells) -> Fields | None:
        if not self._enveloped or self._fixed is not None:
            read = (self._fixed or _BARE).read_fields
            return read(cells.whole()) if read else None
        head, plan = self._last
        first = cells.head + cells.rests[0].as_py()
        if not first.startswith(head):
            located = self._find(first)
            if located is None:
                return None
            self._last = head, plan = located
        bodies = payloads(cells, head) if plan.read_fields else None
        return plan.read_fields(bodies) if plan.read_fields and bodies is not None else None

    def _read_payloads(self, plan: _Plan, cells: Sequence[bytes | None], failed: Failed) -> Column:
        """The column of messages without an envelope."""
        if (alike := _read_alike(plan, cells, b"")) is not None:
            return Column.of(alike, plan.schema)
        values: list[Value] = []
        starts = RunStarts()
        append, read, schema = values.append, plan.from_bytes, plan.schema
        for row, cell in enumerate(cells):
            if cell is None:
                if starts.schema is not None:
                    starts.begin(row, None)
                append(None)
                continue
            try:
                try:
                    append(read(cell))
                except ValueError:
                    append(plan.from_node(parse(cell)))
            except Exception as cause:
                failed[row] = _data_error(cause, _NOT_READ)
                append(None)
                continue
            if starts.schema is not schema:
                starts.begin(row, schema)
        return Column(values, starts.runs(len(values)))

    def _read_envelopes(self, cells: Sequence[bytes | None], failed: Failed) -> Column:
        """The column of messages with an envelope."""
        head, plan = self._last
        if (alike := _read_alike(plan, cells, head)) is not None:
            return Column.of(alike, plan.schema)
        values: list[Value] = []
        starts = RunStarts()
        append = values.append
        read, size = plan.from_bytes, len(head)
        for row, cell in enumerate(cells):
            if cell is None:
                if starts.schema is not None:
                    starts.begin(row, None)
                append(None)
                continue
            try:
                if not cell.startswith(head):
                    schema, value = self._read_unlike(cell)
                    head, plan = self._last
                    read, size = plan.from_bytes, len(head)
                elif cell[-1] != _CLOSING_BRACE:
                    schema, value = self._read_whole(cell)
                else:
                    # The message consists of the head, one JSON value and the brace.
                    try:
                        schema, value = plan.schema, read(cell[size:-1])
                    except ValueError:
                        schema, value = self._read_whole(cell)
            except Exception as cause:
                failed[row] = _data_error(cause, _NOT_READ)
                append(None)
                continue
            append(value)
            if starts.schema is not schema:
                starts.begin(row, schema)
        return Column(values, starts.runs(len(values)))

    def _read_unlike(self, cell: bytes) -> tuple[Schema | None, Value]:
        """Schema and value of a message that begins differently from the last one; the next message
        is compared with its head."""
        located = self._find(cell)
        if located is None:
            return self._read_whole(cell)
        self._last = head, plan = located
        if cell[-1] == _CLOSING_BRACE:
            try:
                return plan.schema, plan.from_bytes(cell[len(head) : -1])
            except ValueError:
                pass
        return self._read_whole(cell)

    def _read_whole(self, cell: bytes) -> tuple[Schema | None, Value]:
        """Schema and value of a message, read on the exact path."""
        node = parse(cell)
        if not isinstance(node, dict) or node.keys() != {"schema", "payload"}:
            raise DataError(_NO_ENVELOPE)
        plan = self._plan(node["schema"])
        return plan.schema, plan.from_node(node["payload"])

    def _find(self, cell: bytes) -> tuple[bytes, _Plan] | None:
        """The head of a message that has its schema first, and the plan for its payload.

        None for other messages, and if the schema is invalid: the exact path then raises the error
        that Kafka Connect raises first.
        """
        end = cell.find(_COMPACT_PAYLOAD)
        if end >= 0:
            head = cell[: end + len(_COMPACT_PAYLOAD)]
            plan = self._plans_by_head.get(head)
            if plan is not None:
                return head, plan
        opening = _SCHEMA_MEMBER.match(cell)
        if opening is None:
            return None
        # A schema may contain text that looks like the beginning of the payload; but only the text
        # before the real payload is a complete JSON value.
        for payload in islice(_PAYLOAD_MEMBER.finditer(cell, opening.end()), _MOST_LOOKALIKES):
            schema = cell[opening.end() : payload.start()]
            try:
                orjson.loads(schema)
            except ValueError:
                continue
            head = cell[: payload.end()]
            try:
                return head, self._plans_by_head.put(head, self._plan(parse(schema)))
            except (DataError, Malformed):
                return None
        return None

    def _plan(self, node: Value) -> _Plan:
        """The plan for payloads of a schema, whose JSON is `node`; raises DataError."""
        if node is None:
            return _BARE
        key = repr(node)
        plan = self._plans_by_schema.get(key)
        if plan is None:
            schema = read_schema(node, self._read_default)
            read = reader(schema, replace_null=self._replace_null)
            plan = self._plans_by_schema.put(
                key,
                _Plan(
                    schema,
                    _bytes_reader(read),
                    read,
                    batch_reader(schema, replace_null=self._replace_null),
                    struct_fields(schema, replace_null=self._replace_null),
                ),
            )
        return plan

    def _read_default(self, schema: Schema, node: Value) -> Value:
        return reader(schema, replace_null=self._replace_null)(node)

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        cells: list[bytes | None] = []
        append = cells.append
        values = column.values
        for schema, start, stop in column.slices():
            writing = self._writing(schema)
            if (alike := writing.alike(values[start:stop])) is not None:
                cells += alike
                continue
            for row in range(start, stop):
                try:
                    append(writing.write(values[row]))
                except Exception as cause:
                    failed[row] = _data_error(cause, _NOT_WRITTEN)
                    append(None)
        return cells

    def _writing(self, schema: Schema | None) -> _Writing:
        """The `_Writing` of a schema, cached."""
        writing = self._writings.get(schema)
        if writing is None:
            writing = self._writings.put(schema, self._new_writing(schema))
        return writing

    def _new_writing(self, schema: Schema | None) -> _Writing:
        if schema is None:
            return _Writing(_write_bare_in_envelope if self._enveloped else _write_bare)
        try:
            node = self._node_writer(schema)
            many = batch_writer(schema, decimals=self._decimals, replace_null=self._replace_null)
            if not self._enveloped:
                return _Writing(lambda value: dump(node(value)), many)
            described = dump(schema_node(schema, lambda of, value: self._node_writer(of)(value)))
        except Exception as cause:
            return _Writing(_refuse(_data_error(cause, _NOT_WRITTEN)))
        head = b'{"schema":' + described + _COMPACT_PAYLOAD
        return _Writing(lambda value: head + dump(node(value)) + b"}", many, head)

    def _node_writer(self, schema: Schema) -> Write:
        return writer(schema, decimals=self._decimals, replace_null=self._replace_null)


def _bytes_reader(read: Read) -> Read:
    loads = orjson.loads

    def from_bytes(data: bytes) -> Value:
        try:
            return read(loads(data))
        except Inexact:
            return read(parse(data))

    return from_bytes


def _read_alike(plan: _Plan, cells: Sequence[bytes | None], head: bytes) -> list[Value] | None:
    """Reads the payloads of messages that all begin with `head` at once; None if one of them must
    be read separately. A message with a head ends with its closing brace."""
    if None in cells or (plan.schema is not None and plan.read_many is None):
        return None
    present = cast("Sequence[bytes]", cells)
    if head:
        size = len(head)
        bodies = [cell[size:-1] for cell in present if cell.startswith(head)]
        if len(bodies) < len(present) or {cell[-1] for cell in present} != {_CLOSING_BRACE}:
            return None
    else:
        bodies = list(present)
    try:
        nodes = list(map(orjson.loads, bodies))
        if plan.read_many is None:
            return None if may_hold_wide_integers(b"\n".join(bodies)) else nodes
        return plan.read_many(nodes)
    except Exception:  # reading one by one shows which message failed, and why
        return None


def _write_bare(value: Value) -> bytes | None:
    return None if value is None else schemaless_bytes(value)


def _write_bare_in_envelope(value: Value) -> bytes | None:
    if value is None:
        return None
    return b'{"schema":null,"payload":' + schemaless_bytes(value) + b"}"


def _refuse(error: DataError) -> WriteBytes:
    """A writer for a schema that cannot be written as JSON."""

    def refuse(value: Value) -> bytes | None:
        raise error.with_traceback(None)

    return refuse


def _data_error(cause: Exception, message: str) -> DataError:
    if isinstance(cause, DataError):
        return cause
    error = DataError(message)
    error.__cause__ = cause
    return error
