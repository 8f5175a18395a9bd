"""The Cassandra sinks under chaos."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from tests.servers.cassandra import DATACENTER, CassandraServer

from .base import JSON, Marking

_TOO_LARGE: Final = 66_000
"""Bytes of a text that no index accepts."""


class Cassandra(Marking):
    """DataStax's sink; an index refuses rows whose text it cannot hold."""

    _connector: ClassVar = "com.datastax.oss.kafka.sink.CassandraSinkConnector"

    def __init__(self) -> None:
        super().__init__()
        self._server = CassandraServer()
        self._server.__enter__()

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        self._server.execute(
            "CREATE KEYSPACE shop WITH replication = "
            "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        self._server.execute("CREATE TABLE shop.chaos (id text PRIMARY KEY, n bigint, mark text)")

    def config(self, topic: str, port: int) -> dict[str, str]:
        return {
            "connector.class": self._connector,
            "contactPoints": "127.0.0.1",
            "port": str(port),
            "loadBalancing.localDc": DATACENTER,
            "queryExecutionTimeout": "3",
            f"topic.{topic}.shop.chaos.mapping": "id=key, n=value.n, mark=value.mark",
            f"topic.{topic}.shop.chaos.deletesEnabled": "true",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        }

    def mark(self, key: str, number: int) -> str:
        return "x" * _TOO_LARGE

    def refuse_marks(self, keys: Iterable[str]) -> None:
        self._server.execute("CREATE INDEX IF NOT EXISTS refusing ON shop.chaos (mark)")

    def accept_marks(self) -> None:
        self._server.execute("DROP INDEX IF EXISTS shop.refusing")

    def stored(self) -> Iterable[tuple[str, int]]:
        for key, number in self._server.execute("SELECT id, n FROM shop.chaos"):
            yield str(key), int(number)

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()


class Lenses(Cassandra):
    """Lenses' sink."""

    _connector = "io.lenses.streamreactor.connect.cassandra.CassandraSinkConnector"

    def config(self, topic: str, port: int) -> dict[str, str]:
        given = {
            "contact.points": "127.0.0.1",
            "port": str(port),
            "load.balancing.local.dc": DATACENTER,
            "query.timeout.ms": "3000",
            "kcql": f"INSERT INTO shop.chaos SELECT _key AS id, n, mark FROM {topic} "
            "PROPERTIES('deletesEnabled'='true')",
        }
        return {
            "connector.class": self._connector,
            **{f"connect.cassandra.{name}": value for name, value in given.items()},
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
        }
