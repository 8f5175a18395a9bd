"""One command per record: for jcustenborder's sink and Redis' (connectors.md §8)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.api import DataError, Failed, Header, Records
from penstock.api.schema import Schema, Value, text_of
from penstock.connectors.keyed.documents import dump
from penstock.connectors.redis.client.packing import pack
from penstock.connectors.redis.write.cells import Fields, double, fields_of, number
from penstock.connectors.redis.write.commands import Commands
from penstock.connectors.redis.write.json import node_of
from penstock.connectors.redis.write.plan import KeyedPlan, Kind

log = logging.getLogger(__name__)

TTL_HEADER: Final = "redis.key.ttl"
TOPIC: Final = "${topic}"
_ALONE: Final = frozenset({Kind.STRING, Kind.JSON, Kind.DELETE})
_ONCE: Final = frozenset({Kind.STREAM, Kind.LIST, Kind.LIST_HEAD})

Make = Callable[[bytes, Value, Value], bytes | None]
"""Makes the command for a target key, a record's key and its value; None: no command."""


class KeyedMaker:
    """Makes one command for each record."""

    def __init__(self, plan: KeyedPlan) -> None:
        self._plan = plan
        self._charset = plan.charset
        self._collections: dict[str, bytes] = {}

    def make(self, records: Records, failed: Failed) -> Commands:
        """See `Maker`."""
        plan = self._plan
        commands = Commands(replaces=plan.kind in _ALONE)
        keys, values, topics = records.keys.values, records.values.values, records.topics
        headers = records.headers
        once = plan.kind in _ONCE
        target: Callable[[int], bytes]
        for schema, start, stop in records.values.slices():
            make = self._make_for(schema)
            for key_schema, first, last in records.keys.slices():
                low, high = max(start, first), min(stop, last)
                if low >= high:
                    continue
                target = self._key_for(key_schema, keys, topics)
                for row in range(low, high):
                    value = values[row]
                    try:
                        key = target(row)
                        ttl_s = self._ttl(headers[row] if headers else ())
                        if value is None:
                            ttl_s = 0
                            data = self._delete(key, keys[row])
                        else:
                            data = make(key, keys[row], value)
                    except DataError as error:
                        failed[row] = error
                        continue
                    if data is not None:
                        commands.add(row, key, data, ttl_s=ttl_s, once=once)
        return commands

    def _key_for(
        self, schema: Schema | None, keys: Sequence[Value], topics: Sequence[str]
    ) -> Callable[[int], bytes]:
        """The function for a row's key in Redis."""
        plan, charset = self._plan, self._charset
        if plan.kind.is_collection:
            return lambda row: self._keyspace(topics[row])
        if not plan.keyspace:
            if not plan.plain:
                return lambda row: charset.text_or_bytes(keys[row], "key")

            def plain(row: int) -> bytes:
                if keys[row] is None or keys[row] in ("", b""):
                    raise DataError(
                        "The key of the record is null or empty; every record needs one (use a "
                        "transform such as ValueToKey)"
                    )
                return charset.text_or_bytes(keys[row], "key")

            return plain
        word = charset.word(schema)
        if schema is None:
            text = text_of(None)

            def any_word(value: Value) -> bytes:
                return value if isinstance(value, bytes) else charset.encode(text(value))

            word = any_word
        separator = charset.encode(plan.separator)
        return lambda row: self._keyspace(topics[row]) + separator + word(keys[row])

    def _keyspace(self, topic: str) -> bytes:
        if topic not in self._collections:
            name = self._plan.keyspace.replace(TOPIC, topic)
            self._collections[topic] = self._charset.encode(name)
        return self._collections[topic]

    def _ttl(self, headers: Sequence[Header]) -> int:
        """The time to live of a record's key, in seconds; 0: none."""
        for header in headers:
            if header.name != TTL_HEADER:
                continue
            raw = header.value
            text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
            try:
                ttl_s = int(text)
            except ValueError:
                log.warning("The header %s is not a valid number of seconds: %r", TTL_HEADER, raw)
                continue
            if ttl_s > 0:
                return ttl_s
        return max(self._plan.ttl_s, 0)

    def _delete(self, key: bytes, member: Value) -> bytes | None:
        """The command for a record without a value; None: no command."""
        match self._plan.kind:
            case Kind.STRING | Kind.HASH | Kind.JSON | Kind.DELETE:
                return pack(b"DEL", key)
            case Kind.SET:
                return pack(b"SREM", key, self._charset.text_or_bytes(member, "key"))
            case Kind.ZSET:
                return pack(b"ZREM", key, self._charset.text_or_bytes(member, "key"))
            case Kind.LIST | Kind.LIST_HEAD:
                return pack(b"LREM", key, b"0", self._charset.text_or_bytes(member, "key"))
        return None  # entries and samples have no name to delete by

    def _make_for(self, schema: Schema | None) -> Make:
        charset = self._charset
        match self._plan.kind:
            case Kind.STRING:
                return self._set
            case Kind.HASH:
                return _hash(fields_of(schema, charset))
            case Kind.STREAM:
                return _entry(fields_of(schema, charset))
            case Kind.JSON:
                return self._json(schema)
            case Kind.LIST:
                return self._member(b"RPUSH")
            case Kind.LIST_HEAD:
                return self._member(b"LPUSH")
            case Kind.SET:
                return self._member(b"SADD")
            case Kind.ZSET:
                return self._scored
            case Kind.TIMESERIES:
                return _sample
            case Kind.DELETE:
                return lambda key, member, value: pack(b"DEL", key)

    def _set(self, key: bytes, member: Value, value: Value) -> bytes:
        data = self._charset.text_or_bytes(value, "value")
        return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(data), data)

    def _json(self, schema: Schema | None) -> Make:
        node = node_of(schema, lenses=False)
        encode = self._charset.encode

        def document(key: bytes, member: Value, value: Value) -> bytes:
            if isinstance(value, bytes):
                text = value
            else:
                text = encode(value) if type(value) is str else dump(node(value))
            return pack(b"JSON.SET", key, b"$", text)

        return document

    def _member(self, command: bytes) -> Make:
        encode = self._charset.text_or_bytes
        return lambda key, member, value: pack(command, key, encode(member, "key"))

    def _scored(self, key: bytes, member: Value, value: Value) -> bytes:
        score = double(number(value, "value"))
        return pack(b"ZADD", key, score, self._charset.text_or_bytes(member, "key"))


def _hash(fields: Fields) -> Make:
    def command(key: bytes, member: Value, value: Any) -> bytes:
        count, words = fields(value)
        return b"*%d\r\n$4\r\nHSET\r\n$%d\r\n%b\r\n%b" % (count + 2, len(key), key, words)

    return command


def _entry(fields: Fields) -> Make:
    def command(key: bytes, member: Value, value: Any) -> bytes:
        count, words = fields(value)
        head = b"*%d\r\n$4\r\nXADD\r\n$%d\r\n%b\r\n$1\r\n*\r\n" % (count + 3, len(key), key)
        return head + words

    return command


def _sample(key: bytes, member: Value, value: Value) -> bytes:
    if isinstance(member, bool) or not isinstance(member, int):
        raise DataError(
            "The key of the record must be an integer, the time of the sample in ms; use a "
            "transform, or the LongConverter (key.converter)"
        )
    # A repeated sample replaces itself; without this the server would refuse it.
    sample = double(number(value, "value"))
    return pack(b"TS.ADD", key, b"%d" % member, sample, b"ON_DUPLICATE", b"LAST")
