"""Reads keys: those that exist, and those that change, by keyspace notifications (connectors.md
§8).

Notifications are not kept by the server: what happens while nobody listens is not told. After a
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
_HELD: Final = 1_000_000  # keys that changed; beyond, the reader does not listen
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
    """What is read; `scans`: keys that exist, too."""

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
        self._listening: dict[Node, Link] = {}
        self._cursors: dict[Node, bytes] = {}
        self._changed: dict[bytes, Node] = {}
        self._size = float(_FIRST_SIZE)
        self._prefix = f"__keyspace@{plan.database}__:".encode()

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        until = time.monotonic() + wait_ms / 1000
        count = max(1, min(self._plan.batch, int(max_bytes / self._size)))
        try:
            while True:
                if not self._listening:
                    self._listen()
                self._hear(0)
                if len(self._changed) < count:
                    self._scan(count)
                if self._changed:
                    return self._polled(count)
                left_s = until - time.monotonic()
                if self._cursors:
                    continue
                if left_s <= 0 or not self._context.is_running:
                    return None
                self._hear(min(left_s, _SLICE_S))
        except Exception as error:
            self._forget()
            raise error_of(error, "Cannot read keys") from error

    def close(self) -> None:
        self._forget()
        self._servers.close()

    def _forget(self) -> None:
        """Ends the subscriptions; the next poll subscribes, and reads all keys again."""
        for node, link in self._listening.items():
            link.close()
            node.link.close()
        self._listening = {}
        self._cursors = {}
        self._servers.refresh()

    def _listen(self) -> None:
        """Subscribes at every primary, and then begins with the keys that exist."""
        pattern = self._prefix + self._plan.pattern.encode()
        for node in self._servers.primaries():
            link = Link(self._access, node.address)
            self._listening[node] = link
            link.call(b"PSUBSCRIBE", pattern)
        if self._plan.scans:
            self._cursors = dict.fromkeys(self._listening, b"0")

    def _hear(self, wait_s: float) -> None:
        """Takes the notifications that are there, waiting for one."""
        share_s = wait_s / len(self._listening)
        for node, link in self._listening.items():
            while len(self._changed) < _HELD and link.can_receive(share_s):
                message = link.receive()
                share_s = 0.0
                if message[0] == b"pmessage":
                    self._changed.setdefault(message[2][len(self._prefix) :], node)

    def _scan(self, count: int) -> None:
        """Takes some of the keys that exist."""
        for node, cursor in list(self._cursors.items()):
            words = [b"MATCH", self._plan.pattern.encode(), b"COUNT", b"%d" % max(count, 10)]
            following, keys = node.link.call(b"SCAN", cursor, *words)
            for key in keys:
                self._changed.setdefault(key, node)
            if following == b"0":
                del self._cursors[node]
            else:
                self._cursors[node] = following
            if len(self._changed) >= count:
                return

    def _polled(self, count: int) -> Polled:
        chosen = list(self._changed.items())[:count]
        values: list[dict[str, Any]] = []
        by_node: dict[Node, list[bytes]] = {}
        for key, node in chosen:
            by_node.setdefault(node, []).append(key)
        for node, keys in by_node.items():
            values += _values(node.link, keys)
        for key, _ in chosen:
            del self._changed[key]
        size = sum(100 + len(repr(each)) for each in values)
        self._size = max(1.0, 0.5 * self._size + 0.5 * size / len(values))
        records = Records.of(
            self._plan.topic,
            values,
            keys=[each["key"] for each in values],
            schema=VALUE,
            key_schema=STRING,
        )
        return Polled(records, [SourceOffset(PARTITION, {})])


def _values(link: Link, keys: Sequence[bytes]) -> list[dict[str, Any]]:
    """The values of keys, as records have them."""
    for key in keys:
        link.send(b"TYPE", key)
        link.send(b"PTTL", key)
    about = [(link.receive().decode(), link.receive()) for _ in keys]
    readable = [(key, kind) for key, (kind, _) in zip(keys, about, strict=True) if kind in _READS]
    for key, kind in readable:
        command, *more = _READS[kind]
        link.send(command, key, *more)
    found: dict[bytes, Any] = {}
    for key, _ in readable:
        try:
            found[key] = link.receive()
        except Answered as error:
            # Another type by now: there is a notification of it, too.
            log.debug("%r changed while it was read: %s", key, error)
    return [
        _value(key, kind, ttl_ms, found.get(key))
        for key, (kind, ttl_ms) in zip(keys, about, strict=True)
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
