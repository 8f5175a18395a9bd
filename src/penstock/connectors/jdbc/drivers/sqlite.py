"""SQLite, by Python's own module."""

from __future__ import annotations

import sqlite3
from typing import Final, Self

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.dbapi import DbApiConnection
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
    other_error,
)
from penstock.connectors.jdbc.drivers.url import Url

_TIMEOUT_S: Final = 30.0

_AWAY: Final = frozenset({7, 10, 13, 14, 15})  # NOMEM, IOERR, FULL, CANTOPEN, PROTOCOL
_BUSY: Final = frozenset({5, 6, 17})  # BUSY, LOCKED, SCHEMA
_ROW: Final = frozenset({18, 19, 20, 25})  # TOOBIG, CONSTRAINT, MISMATCH, RANGE


class SqliteConnection(DbApiConnection):
    """A connection of `sqlite3`."""

    placeholder = "?"

    @classmethod
    def open(cls, url: Url) -> Self:
        raw = sqlite3.connect(
            url.database,
            timeout=_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            uri=url.database.startswith("file:"),
        )
        try:
            for name, value in url.options.items():
                raw.execute(f"PRAGMA {name} = {value}").close()
            raw.execute("SELECT 1 FROM sqlite_master LIMIT 1").close()  # SQLite opens the file now
        except BaseException:
            raw.close()
            raise
        return cls(url, raw)

    @staticmethod
    def error_of(error: Exception) -> PenstockError:
        if not isinstance(error, sqlite3.Error):
            return other_error(error)
        code = getattr(error, "sqlite_errorcode", None)
        text = str(error)
        if code is None:  # an error of the module: a value that cannot be bound
            unbound = isinstance(error, sqlite3.InterfaceError | sqlite3.ProgrammingError)
            return (RowRefused if unbound and "bind" in text else DatabaseRefused)(text)
        named = f"{text} ({error.sqlite_errorname})"
        primary = code & 0xFF
        if primary in _AWAY:
            return DatabaseAway(named)
        if primary in _BUSY:
            return DatabaseBusy(named)
        if primary in _ROW:
            return RowRefused(named)
        return DatabaseRefused(named)

    @property
    def is_open(self) -> bool:
        return self.raw is not None

    def isolate(self, level: str) -> None:
        """SQLite has one level only, the strictest."""

    def close(self) -> None:
        super().close()
        self.raw = None

    def _begin(self, isolation: str, writing: bool) -> None:
        self.execute("BEGIN IMMEDIATE" if writing else "BEGIN")

    def _end(self, statement: str) -> None:
        if self.raw.in_transaction:  # some errors end it, such as a full disk
            super()._end(statement)
