"""Reads existing keys, and changed keys by keyspace notifications (connectors.md §8).

The server does not store notifications: changes while the reader is disconnected are lost. After a
broken connection a LIVE reader reads all keys again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.api import Polled, Records, SourceContext, SourceOffset, SourceReader
from penstock.api.schema import (
    FLOAT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    array,
    map_of,
    struct,
)
from penstock.connectors.redis.client.access import Access
from penstock.connectors.redis.client.errors import Answered, error_of
from penstock.connectors.redis.client.link import Link
from penstock.connectors.redis.client.servers import Node, Servers

log = logging.getLogger(__name__)

VALUE: Final = struct(
    {
        "key": STRING,
        "ttl": OPTIONAL_INT64,
        "type": STRING,
        "hash": map_of(STRING, STRING, optional=True),
        "string": OPTIONAL_STRING,
        "json": OPTIONAL_STRING,
        "list": array(STRING, optional=True),
        "set": array(STRING, optional=True),
        "zset": map_of(FLOAT64, STRING, optional=True),
    },
    name="com.redis.kafka.connect.keys.Value",
)
PARTITION: Final[dict[str, str]] = {}

_SLICE_S: Final = 0.2
_HELD: Final = 1_000_000  # changed keys, at which the reader stops listening
_JSON: Final = "ReJSON-RL"
_FIRST_SIZE: Final = 1_000

_READS: Final[dict[str, tuple[bytes, ...]]] = {
    "hash": (b"HGETALL",),
    "string": (b"GET",),
    "list": (b"LRANGE", b"0", b"-1"),
    "set": (b"SMEMBERS",),
    "zset": (b"ZRANGE", b"0", b"-1", b"WITHSCORES"),
    _JSON: (b"JSON.GET",),
}


@dataclass(frozen=True, slots=True)
class KeysPlan:
    """The plan of a task; `scans`: also read existing keys."""

    topic: str
    pattern: str
    scans: bool
    batch: int
    database: int


class KeysReader(SourceReader):
    """Reads keys and their values."""

    idle_ms = 0

    def __init__(self, plan: KeysPlan, access: Access, context: SourceContext) -> None:
        self._plan = plan
        self._access = access
        self._context = context
        self._servers = Servers(access, context.wait)
        self._subscriptions: dict[Node, Link] = {}
        self._cursors: dict[Node, bytes] = {}
        self._changed: dict[bytes, Node] = {}
        self._size = float(_FIRST_SIZE)
        self._prefix = f"__keyspace@{plan.database}__:".encode()

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        deadline = time.monotonic() + wait_ms / 1000
        count = max(1, min(self._plan.batch, int(max_bytes / self._size)))
        try:
            while True:
                if not self._subscriptions:
                    self._subscribe()
                self._receive_notifications(0)
                if len(self._changed) < count:
                    self._scan(count)
                if self._changed:
                    return self._polled(count)
                remaining_s = deadline - time.monotonic()
                if self._cursors:
                    continue
                if remaining_s <= 0 or not self._context.is_running:
                    return None
                self._receive_notifications(min(remaining_s, _SLICE_S))
        except Exception as error:
            self._unsubscribe()
            raise error_of(error, "Cannot read keys") from error

    def close(self) -> None:
        self._unsubscribe()
        self._servers.close()

    def _unsubscribe(self) -> None:
        """Ends the subscriptions; the next poll subscribes and reads all keys again."""
        for node, link in self._subscriptions.items():
            link.close()
            node.link.close()
        self._subscriptions = {}
        self._cursors = {}
        self._servers.refresh()

    def _subscribe(self) -> None:
        """Subscribes at every primary; then starts the scan of existing keys."""
        pattern = self._prefix + self._plan.pattern.encode()
        for node in self._servers.primaries():
            link = Link(self._access, node.address)
            self._subscriptions[node] = link
            link.call(b"PSUBSCRIBE", pattern)
        if self._plan.scans:
            self._cursors = dict.fromkeys(self._subscriptions, b"0")

    def _receive_notifications(self, wait_s: float) -> None:
        """Receives notifications; waits up to `wait_s` for the first."""
        share_s = wait_s / len(self._subscriptions)
        for node, link in self._subscriptions.items():
            while len(self._changed) < _HELD and link.can_receive(share_s):
                message = link.receive()
                share_s = 0.0
                if message[0] == b"pmessage":
                    self._changed.setdefault(message[2][len(self._prefix) :], node)

    def _scan(self, count: int) -> None:
        """Scans existing keys, until there are `count` keys to read."""
        for node, cursor in list(self._cursors.items()):
            words = [b"MATCH", self._plan.pattern.encode(), b"COUNT", b"%d" % max(count, 10)]
            next_cursor, keys = node.link.call(b"SCAN", cursor, *words)
            for key in keys:
                self._changed.setdefault(key, node)
            if next_cursor == b"0":
                del self._cursors[node]
            else:
                self._cursors[node] = next_cursor
            if len(self._changed) >= count:
                return

    def _polled(self, count: int) -> Polled:
        batch = list(self._changed.items())[:count]
        values: list[dict[str, Any]] = []
        by_node: dict[Node, list[bytes]] = {}
        for key, node in batch:
            by_node.setdefault(node, []).append(key)
        for node, keys in by_node.items():
            values += _values(node.link, keys)
        for key, _ in batch:
            del self._changed[key]
        size = sum(100 + len(repr(value)) for value in values)
        self._size = max(1.0, 0.5 * self._size + 0.5 * size / len(values))
        records = Records.of(
            self._plan.topic,
            values,
            keys=[value["key"] for value in values],
            schema=VALUE,
            key_schema=STRING,
        )
        offsets = [SourceOffset(PARTITION, {})]
        return Polled(records, offsets, offsets_before=lambda count: offsets)


def _values(link: Link, keys: Sequence[bytes]) -> list[dict[str, Any]]:
    """Reads the record values of keys."""
    for key in keys:
        link.send(b"TYPE", key)
        link.send(b"PTTL", key)
    infos = [(link.receive().decode(), link.receive()) for _ in keys]
    readable = [(key, kind) for key, (kind, _) in zip(keys, infos, strict=True) if kind in _READS]
    for key, kind in readable:
        command, *arguments = _READS[kind]
        link.send(command, key, *arguments)
    replies: dict[bytes, Any] = {}
    for key, _ in readable:
        try:
            replies[key] = link.receive()
        except Answered as error:
            # Its type has changed; a notification follows.
            log.debug("%r changed while it was read: %s", key, error)
    return [
        _value(key, kind, ttl_ms, replies.get(key))
        for key, (kind, ttl_ms) in zip(keys, infos, strict=True)
    ]


def _value(key: bytes, kind: str, ttl_ms: int, data: Any) -> dict[str, Any]:
    value: dict[str, Any] = dict.fromkeys(VALUE.field_names)
    name = "json" if kind == _JSON else kind
    value |= {"key": _text(key), "ttl": ttl_ms, "type": name}
    if data is None or name not in value:
        return value
    match name:
        case "hash":
            texts = list(map(_text, data))
            value["hash"] = dict(zip(texts[::2], texts[1::2], strict=True))
        case "zset":
            value["zset"] = {
                float(score): _text(member)
                for member, score in zip(data[::2], data[1::2], strict=True)
            }
        case "list" | "set":
            value[name] = list(map(_text, data))
        case _:
            value[name] = _text(data)
    return value


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")
