"""The JDBC sink under chaos."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from tests.servers.databases import DatabaseServer, MariaDbServer, PostgresServer

from .base import HOT, JSON, Family

_MAX: Final = 500_000
"""Rows that can be updated: more than there are records."""


class Postgres(Family):
    """The JDBC sink with PostgreSQL; a check constraint refuses rows."""

    schema = True
    server: ClassVar[type[DatabaseServer]] = PostgresServer

    def __init__(self, mode: str = "upsert") -> None:
        self.keyed = mode != "insert"
        self.deletes = mode == "upsert"  # an update of a deleted row would change nothing
        self._mode = mode
        self._server = self.server()
        self._server.__enter__()

    @property
    def port(self) -> int:
        return self._server.port

    def prepare(self, topic: str) -> None:
        key = "k varchar(20) PRIMARY KEY, " if self.keyed else "seq serial, "
        self._execute(f"CREATE TABLE chaos ({key} n bigint, id varchar(20), text varchar(40))")
        if self._mode == "update":
            for kind, rows in (("hot", HOT), ("k", _MAX)):
                self._execute(
                    f"INSERT INTO chaos (k) SELECT '{kind}' || g FROM generate_series(0, {rows}) g"
                )

    def config(self, topic: str, port: int) -> dict[str, str]:
        modes = {"pk.mode": "record_key", "pk.fields": "k"}
        modes["delete.enabled"] = str(self.deletes).lower()
        return {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            **self._server.settings(),
            "connection.url": self._server.url.replace(f":{self.port}/", f":{port}/"),
            "table.name.format": "chaos",
            "insert.mode": self._mode,
            "max.retries": "4",
            "retry.backoff.ms": "300",
            "connection.attempts": "1",
            "value.converter": JSON,
            **(modes if self.keyed else {}),
        }

    def refuse(self, keys: Iterable[str]) -> None:
        names = ", ".join(f"'{key}'" for key in keys)
        self._execute(
            "ALTER TABLE chaos DROP CONSTRAINT IF EXISTS refused",
            f"ALTER TABLE chaos ADD CONSTRAINT refused CHECK (id NOT IN ({names})) NOT VALID",
        )

    def mend(self) -> None:
        self._execute("ALTER TABLE chaos DROP CONSTRAINT IF EXISTS refused")

    def stored(self) -> Iterable[tuple[str, int]]:
        with self._server.connect() as connection:
            order = "k" if self.keyed else "seq"
            for key, number in connection.rows(
                f"SELECT id, n FROM chaos WHERE n IS NOT NULL ORDER BY {order}"
            ):
                yield str(key), int(number)

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()

    def _execute(self, *statements: str) -> None:
        with self._server.connect() as connection:
            for statement in statements:
                connection.execute(statement)


class MariaDb(Postgres):
    """The JDBC sink with MariaDB; a trigger refuses rows."""

    server = MariaDbServer

    def refuse(self, keys: Iterable[str]) -> None:
        names = ", ".join(f"'{key}'" for key in keys)
        self._execute(
            "CREATE OR REPLACE TRIGGER refused BEFORE INSERT ON chaos FOR EACH ROW "
            f"IF NEW.id IN ({names}) THEN SIGNAL SQLSTATE '23000' "
            "SET MESSAGE_TEXT = 'this key is refused'; END IF"
        )

    def mend(self) -> None:
        self._execute("DROP TRIGGER IF EXISTS refused")
