"""What connections of Python's drivers have in common."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.api import PenstockError
from penstock.connectors.jdbc.drivers.connection import BLOCK_ROWS, Connection, Parameters, Row
from penstock.connectors.jdbc.drivers.errors import RowRefused


class DbApiConnection(Connection):
    """A connection of a Python driver, which Python's DB-API describes."""

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
            with contextlib.suppress(PenstockError):  # the first error is what is told
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
        """Begins a transaction, as `transaction` says."""

    def _end(self, how: str) -> None:
        self.execute(how)

    def _streaming(self) -> Any:
        """A cursor whose rows arrive as they are taken."""
        return self.raw.cursor()

    def _run(self, cursor: Any, sql: str, parameters: Parameters) -> None:
        if parameters:
            cursor.execute(sql, parameters)
        else:
            cursor.execute(sql)  # without parameters a '%' is a '%'
