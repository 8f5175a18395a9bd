"""The common part of connections of Python's drivers."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.connection import BLOCK_ROWS, Connection, Parameters, Row
from penstock.connectors.jdbc.drivers.errors import RowRefused


class DbApiConnection(Connection):
    """A connection of a driver that follows Python's DB-API."""

    placeholder = "%s"

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        with self.errors(), contextlib.closing(self.raw.cursor()) as cursor:
            self._run(cursor, sql, parameters)
            return int(cursor.rowcount)

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        with self.errors(), contextlib.closing(self.raw.cursor()) as cursor:
            self._run(cursor, sql, parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def stream(
        self, sql: str, parameters: Parameters = (), size: int = BLOCK_ROWS
    ) -> Iterator[list[Row]]:
        with self.errors(), contextlib.closing(self._streaming()) as cursor:
            self._run(cursor, sql, parameters)
            while rows := cursor.fetchmany(size):
                yield list(rows)

    def many(self, sql: str, rows: Iterable[Parameters]) -> None:
        with self.errors(), contextlib.closing(self.raw.cursor()) as cursor:
            cursor.executemany(sql, rows)

    @contextlib.contextmanager
    def transaction(self, *, isolation: str = "", writing: bool = True) -> Iterator[None]:
        self._begin(isolation, writing)
        try:
            yield
        except BaseException:
            with contextlib.suppress(PenstockError):  # report the first error
                self._end("ROLLBACK")
            raise
        self._end("COMMIT")

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        self.execute("SAVEPOINT penstock")
        try:
            yield
        except RowRefused:
            self.execute("ROLLBACK TO SAVEPOINT penstock")
            raise
        self.execute("RELEASE SAVEPOINT penstock")

    def close(self) -> None:
        if self.is_open:
            with contextlib.suppress(Exception):
                self.raw.close()

    @abstractmethod
    def _begin(self, isolation: str, writing: bool) -> None:
        """Begins a transaction; the parameters are those of `transaction`."""

    def _end(self, statement: str) -> None:
        self.execute(statement)

    def _streaming(self) -> Any:
        """A cursor that fetches rows as they are read."""
        return self.raw.cursor()

    def _run(self, cursor: Any, sql: str, parameters: Parameters) -> None:
        if parameters:
            cursor.execute(sql, parameters)
        else:
            cursor.execute(sql)  # without parameters the driver keeps a '%'
