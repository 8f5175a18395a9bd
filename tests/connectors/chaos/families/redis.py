"""The Redis sink under chaos."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import redis

from penstock.testing.redis import RedisServer

from .base import HOT, JSON, Family


class RedisHashes(Family):
    """Hashes in Redis; the user may not write some keys for a while."""

    _own: ClassVar = ("~row:k*", "~com.redis.kafka.connect.sink.offset.*")
    schema = True

    def __init__(self) -> None:
        self._server = RedisServer(appends=True)
        self._server.start()
        self._client = redis.Redis(port=self._server.port)

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        """Keys need no preparation."""

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": "com.redis.kafka.connect.RedisSinkConnector",
            "redis.uri": f"redis://127.0.0.1:{port}",
            "redis.type": "HASH",
            "redis.keyspace": "row",
            "value.converter": JSON,
        }

    def refuse(self, keys: Iterable[str]) -> None:
        allowed = {f"~row:hot{number}" for number in range(HOT)} - {f"~row:{key}" for key in keys}
        self._client.execute_command("ACL", "SETUSER", "default", "resetkeys", *self._own, *allowed)

    def mend(self) -> None:
        self._client.execute_command("ACL", "SETUSER", "default", "allkeys")

    def stored(self) -> Iterable[tuple[str, int]]:
        for name in self._client.scan_iter("row:*", 10_000):
            yield name.decode().removeprefix("row:"), int(self._client.hget(name, "n") or -1)

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._client.close()
        self._server.close()
