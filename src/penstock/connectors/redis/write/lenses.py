"""Commands for records according to KCQL statements (connectors.md §8)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from penstock.api import DataError, Failed, Header, Records
from penstock.api.schema import Schema, Type, Value, text_of
from penstock.connectors.keyed.documents import dump
from penstock.connectors.redis.client.packing import pack
from penstock.connectors.redis.write.cells import Charset, double
from penstock.connectors.redis.write.commands import Commands
from penstock.connectors.redis.write.json import node_of
from penstock.connectors.redis.write.kcql import Statement, Store

log = logging.getLogger(__name__)

_UTF8 = Charset("utf-8")
_ONCE = frozenset({Store.STREAM, Store.PUBSUB})

Typed = tuple[Schema | None, Value]


class LensesMaker:
    """Makes a command for each record and each statement of its topic."""

    def __init__(self, statements: Sequence[Statement], delimiter: str) -> None:
        self._statements: dict[str, list[Statement]] = {}
        for statement in statements:
            self._statements.setdefault(statement.topic, []).append(statement)
        self._delimiter = delimiter
        self._replaces = all(statement.store is Store.CACHE for statement in statements)
        self._unknown: set[str] = set()

    def make(self, records: Records, failed: Failed) -> Commands:
        """See `Maker`."""
        commands = Commands(replaces=self._replaces)
        key_schemas, schemas = records.keys.schemas(), records.values.schemas()
        for row, topic in enumerate(records.topics):
            statements = self._statements.get(topic)
            if statements is None:
                self._skip(topic)
                continue
            record = _Record(
                (key_schemas[row], records.keys.values[row]),
                (schemas[row], records.values.values[row]),
                records.headers[row] if records.headers else (),
            )
            try:
                record_commands = [self._command(statement, record) for statement in statements]
            except DataError as error:
                failed[row] = error
                continue
            for statement, command in zip(statements, record_commands, strict=True):
                if command is not None:
                    key, data, ttl_s = command
                    commands.add(row, key, data, ttl_s=ttl_s, once=statement.store in _ONCE)
        return commands

    def _skip(self, topic: str) -> None:
        if topic not in self._unknown:
            self._unknown.add(topic)
            log.warning(
                "connect.redis.kcql has no statement for topic %s; skipping its records", topic
            )

    def _command(self, statement: Statement, record: _Record) -> tuple[bytes, bytes, int] | None:
        if record.value[1] is None:
            if statement.store is not Store.CACHE:
                raise DataError("The record has no value")
            key = _UTF8.encode(statement.target + self._key_of_tombstone(statement, record))
            return key, pack(b"DEL", key), 0
        record.read_json()
        if statement.store is Store.STREAM:
            return _stream_command(statement, record)
        if statement.store is Store.PUBSUB:
            channel = record.text(statement.parameter("channel", "channel"))
            name = _UTF8.encode(channel)
            return name, pack(b"PUBLISH", name, _payload(statement, record)), 0
        joined = self._delimiter.join(record.text(path) for path in statement.keys)
        key = _UTF8.encode(statement.target + joined)
        if statement.store is Store.CACHE:
            payload = _payload(statement, record)
            if statement.ttl_s > 0:
                return key, pack(b"SETEX", key, b"%d" % statement.ttl_s, payload), 0
            return key, pack(b"SET", key, payload), 0
        if statement.store is Store.SORTED_SET:
            path = statement.parameter("score", "timestamp")
            score = record.number(path)
            payload = _payload(statement, record, path if statement.keys else None)
            return key, pack(b"ZADD", key, double(score), payload), statement.ttl_s
        return _geo_command(statement, record, key)

    def _key_of_tombstone(self, statement: Statement, record: _Record) -> str:
        """The key that a record without a value deletes: from fields of its key, or its key."""
        schema, key = record.key
        if isinstance(key, dict):
            names = [path[1:] if path[0] == "_key" else path for path in statement.keys]
            return self._delimiter.join(record.text(("_key", *path)) for path in names)
        if key is None or len(statement.keys) != 1:
            raise DataError(
                "The record has neither a value nor a key with the PK fields, so the key to delete "
                "is unknown"
            )
        return text_of(schema)(key)


class _Record:
    """A record with access to its parts by paths."""

    def __init__(self, key: Typed, value: Typed, headers: Sequence[Header]) -> None:
        self.key = key
        self.value = value
        self._headers = headers

    def read_json(self) -> None:
        """Parses the value if it is JSON in a string. Raises DataError if it is not an object."""
        value = self.value[1]
        if isinstance(value, (str, bytes)):
            try:
                self.value = None, orjson.loads(value)
            except ValueError as error:
                raise DataError(f"The value of the record is not valid JSON: {error}") from error
        if not isinstance(self.value[1], dict):
            raise DataError("The value of the record must be a struct, a map or a JSON object")

    def at(self, path: tuple[str, ...]) -> Typed:
        """The schema and value at a path. Raises DataError if there is none."""
        rest = path
        if path[0] == "_key":
            schema, value = self.key
            rest = path[1:]
        elif path[0] == "_header" and len(path) > 1:
            matching = [header for header in self._headers if header.name == path[1]]
            if not matching:
                raise DataError(f"The record has no header '{path[1]}'")
            schema, value = matching[-1].schema, matching[-1].value
            rest = path[2:]
        else:
            schema, value = self.value
            rest = path[1:] if path[0] == "_value" else path
        for name in rest:
            schema, value = _member(schema, value, name, path)
        return schema, value

    def text(self, path: tuple[str, ...]) -> str:
        """The text of the value at a path. Raises DataError if it is null."""
        schema, value = self.at(path)
        if value is None:
            raise DataError(f"The field '{'.'.join(path)}' of the record is null")
        return text_of(schema)(value)

    def number(self, path: tuple[str, ...]) -> float:
        """The number at a path. Raises DataError."""
        text = self.text(path)
        try:
            return float(text)
        except ValueError:
            schema, value = self.at(path)
            if schema is not None and schema.logical is not None:
                node = node_of(schema, lenses=False)(value)
                if isinstance(node, int):
                    return float(node)
            raise DataError(f"The field '{'.'.join(path)}' is not a number: {text}") from None


def _member(schema: Schema | None, value: Any, name: str, path: tuple[str, ...]) -> Typed:
    shown = ".".join(path)
    if not isinstance(value, dict):
        raise DataError(f"The record has no field '{shown}'")
    if schema is not None and schema.type is Type.STRUCT:
        for field in schema.fields:
            if field.name == name:
                cell = value.get(name)
                return field.schema, field.schema.default if cell is None else cell
        raise DataError(f"The record has no field '{shown}'")
    if name not in value:
        raise DataError(f"The record has no field '{shown}'")
    return (None if schema is None else schema.value_schema), value[name]


def _selected(
    statement: Statement, record: _Record, extra: tuple[str, ...] | None = None
) -> dict[str, Any]:
    """The fields that a statement writes, as JSON nodes."""
    nodes: dict[str, Any] = {}
    if not statement.fields:
        nodes = dict(_fields(record.value))
        for name in statement.ignored:
            nodes.pop(name, None)
    for field in statement.fields:
        if field.path[-1] == "*":
            nodes.update(_fields(record.at(field.path[:-1]) if field.path[:-1] else record.value))
        else:
            schema, value = record.at(field.path)
            nodes[field.name] = node_of(schema, lenses=True)(value)
    if extra is not None and extra[-1] not in nodes:
        schema, value = record.at(extra)
        nodes[extra[-1]] = node_of(schema, lenses=True)(value)
    return nodes


def _fields(typed: Typed) -> Mapping[str, Any]:
    schema, value = typed
    node = node_of(schema, lenses=True)(value)
    if not isinstance(node, dict):
        raise DataError("SELECT * needs a struct or a map of strings")
    return node


def _payload(statement: Statement, record: _Record, extra: tuple[str, ...] | None = None) -> bytes:
    return dump(_selected(statement, record, extra))


def _stream_command(statement: Statement, record: _Record) -> tuple[bytes, bytes, int]:
    key = _UTF8.encode(statement.target)
    words: list[bytes] = []
    for name, node in _selected(statement, record).items():
        if isinstance(node, orjson.Fragment):
            text = bytes(orjson.dumps(node)).decode()
        else:
            text = text_of(None)(node)
        words += [_UTF8.encode(name), _UTF8.encode(text)]
    return key, pack(b"XADD", key, b"*", *words), 0


def _geo_command(
    statement: Statement, record: _Record, key: bytes
) -> tuple[bytes, bytes, int] | None:
    paths = (
        statement.parameter("longitudeField", "longitude"),
        statement.parameter("latitudeField", "latitude"),
    )
    try:
        longitude, latitude = (double(record.number(path)) for path in paths)
    except DataError as error:
        log.warning("Skipping a record without a position: %s", error)
        return None
    payload = _payload(statement, record)
    return key, pack(b"GEOADD", key, longitude, latitude, payload), 0
