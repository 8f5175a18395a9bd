"""The connections of a source: opened when needed, and kept for reuse."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.url import Kind
from penstock.connectors.jdbc.read.driver import DriverReading
from penstock.connectors.jdbc.read.mysql import MysqlReading
from penstock.connectors.jdbc.read.postgresql import PostgresqlReading
from penstock.connectors.jdbc.read.reading import Reading
from penstock.connectors.jdbc.read.sqlite import SqliteReading
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import source as k

READINGS: Final[Mapping[Kind, type[Reading]]] = {
    Kind.POSTGRESQL: PostgresqlReading,
    Kind.MYSQL: MysqlReading,
    Kind.SQLITE: SqliteReading,
    Kind.OTHER: DriverReading,
}


class ReadingPool:
    """Connections to the database of a configuration: opened when needed, kept for reuse unless an
    error occurred."""

    def __init__(self, config: Config) -> None:
        self._database = keys.database_of(config)
        self._quoting = keys.quotes(config)
        self._level = config[k.ISOLATION].upper().replace("_", " ")
        self._idle: list[Reading] = []
        self.close = weakref.finalize(self, _close_all, self._idle)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reading]:
        """A connection for the duration of a block; closed instead of kept if it raises."""
        reading = self.take()
        try:
            yield reading
        except BaseException:
            reading.connection.close()
            raise
        self.keep(reading)

    def take(self, *, fresh: bool = False) -> Reading:
        if fresh:
            _close_all(self._idle)
        while self._idle:
            reading = self._idle.pop()
            if reading.connection.is_open:
                return reading
        connection = self._database.connect()
        try:
            self._isolate(connection)
            return READINGS[connection.kind](connection, self._quoting)
        except BaseException:
            connection.close()
            raise

    def keep(self, reading: Reading) -> None:
        self._idle.append(reading)

    def _isolate(self, connection: Connection) -> None:
        unknown = self._level == "SQL SERVER SNAPSHOT" and connection.kind is not Kind.OTHER
        if self._level != "DEFAULT" and not unknown:
            connection.isolate(self._level)


def _close_all(idle: list[Reading]) -> None:
    while idle:
        idle.pop().connection.close()
