"""Databases by their URLs, and the connections of each kind."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from penstock.api import Extra, PenstockError
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseAway
from penstock.connectors.jdbc.drivers.jvm.connection import DriverConnection
from penstock.connectors.jdbc.drivers.mysql import MysqlConnection
from penstock.connectors.jdbc.drivers.postgresql import PostgresqlConnection
from penstock.connectors.jdbc.drivers.sqlite import SqliteConnection
from penstock.connectors.jdbc.drivers.url import Kind, Url

log = logging.getLogger(__name__)

CONNECTIONS: Final[Mapping[Kind, type[Connection]]] = {
    Kind.POSTGRESQL: PostgresqlConnection,
    Kind.MYSQL: MysqlConnection,
    Kind.SQLITE: SqliteConnection,
    Kind.OTHER: DriverConnection,
}

JDBC: Final = Extra(
    "jdbc",
    "JDBC connectors",
    tuple(module for connection in CONNECTIONS.values() for module in connection.modules),
)
"""The packages of the whole family; each database needs only those its connections import."""


@dataclass(frozen=True, slots=True)
class Database:
    """One database, by its URL. While it is unreachable, `connect` tries `attempts` times,
    `backoff_ms` apart."""

    url: Url
    attempts: int = 3
    backoff_ms: int = 10_000

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules needed to connect."""
        return CONNECTIONS[self.url.kind].modules

    def connect(self) -> Connection:
        """A new connection. Raises DatabaseAway when the last attempt fails, and DatabaseRefused
        (a wrong password, no such database) at once."""
        for attempt in itertools.count(1):
            try:
                return self._connect()
            except DatabaseAway as error:
                if attempt >= self.attempts:
                    raise
                log.warning("Attempt %d of %d to connect failed: %s", attempt, self.attempts, error)
            threading.Event().wait(self.backoff_ms / 1000)
        raise AssertionError("unreachable")

    def _connect(self) -> Connection:
        driver = CONNECTIONS[self.url.kind]
        if self.url.without_effect:
            _log_once(self.url.shown, ", ".join(self.url.without_effect))
        try:
            return driver.open(self.url)
        except PenstockError:
            raise
        except Exception as error:
            translated = driver.error_of(error)
            raise type(translated)(
                f"Cannot connect to {self.url.shown} (connection.url){_as_user(self.url)}: "
                f"{translated}"
            ) from error


@cache
def _log_once(shown: str, names: str) -> None:
    log.info("%s (connection.url): without effect here: %s", shown, names)


def _as_user(url: Url) -> str:
    return f" as '{url.user}'" if url.user else ""
