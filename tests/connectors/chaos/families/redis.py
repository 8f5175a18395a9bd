"""The Redis sink under chaos."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import orjson
import redis

from tests.servers import redis_modules
from tests.servers.redis import RedisServer

from .base import HOT, JSON, Family


class _Redis(Family):
    """What is written as `kind`."""

    kind: ClassVar[str]

    def __init__(self, server: RedisServer | None = None) -> None:
        self._server = server or RedisServer(appends=True)
        self._server.start()
        self._client = redis.Redis(port=self._server.port)
        self._topic = ""

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        self._topic = topic

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "com.redis.kafka.connect.RedisSinkConnector",
            "redis.uri": f"redis://127.0.0.1:{port}",
            "redis.type": self.kind,
            "redis.keyspace": "row",
            "value.converter": JSON,
            "value.converter.schemas.enable": str(self.schema).lower(),
        }

    @abstractmethod
    def allowed(self, refused: frozenset[str]) -> Iterable[str]:
        """The patterns of the keys in Redis that the sink may write, without those of some of its
        records' keys."""

    def refuse(self, keys: Iterable[str]) -> None:
        offsets = "~com.redis.kafka.connect.sink.offset.*"
        allowed = self.allowed(frozenset(keys))
        self._client.execute_command("ACL", "SETUSER", "default", "resetkeys", offsets, *allowed)

    def mend(self) -> None:
        self._client.execute_command("ACL", "SETUSER", "default", "allkeys")

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._client.close()
        self._server.close()


class RedisHashes(_Redis):
    """Hashes; the user may not write some keys for a while."""

    kind = "HASH"
    schema = True

    def allowed(self, refused: frozenset[str]) -> Iterable[str]:
        hot = {f"hot{number}" for number in range(HOT)} - refused
        return ["~row:k*", *(f"~row:{key}" for key in sorted(hot))]

    def stored(self) -> Iterable[tuple[str, int]]:
        for name in self._client.scan_iter("row:*", 10_000):
            yield name.decode().removeprefix("row:"), self.number(name)

    def number(self, name: bytes) -> int:
        """The number that a key holds; -1 if it holds none."""
        return int(self._client.hget(name, "n") or -1)


class RedisJson(RedisHashes):
    """JSON; the user may not write some keys for a while."""

    kind = "JSON"
    schema = False

    def __init__(self) -> None:
        super().__init__(RedisServer(appends=True, modules=redis_modules.folder()))

    def number(self, name: bytes) -> int:
        return int(orjson.loads(self._client.execute_command("JSON.GET", name))["n"])


class RedisStream(_Redis):
    """A stream's entries; the user may not write the stream for a while."""

    kind = "STREAM"
    schema = True
    keyed = deletes = False
    blocks = True

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {**super().config(topic, port), "redis.keyspace": "${topic}"}

    def allowed(self, refused: frozenset[str]) -> Iterable[str]:
        return ()

    def stored(self) -> Iterable[tuple[str, int]]:
        last = "-"
        while entries := self._entries(last):
            for _, fields in entries:
                yield fields[b"id"].decode(), int(fields[b"n"])
            last = f"({entries[-1][0].decode()}"

    def _entries(self, first: str) -> Any:
        return self._client.xrange(self._topic, first, count=5_000)
