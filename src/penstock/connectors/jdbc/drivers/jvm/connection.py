"""Connections of JDBC drivers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Self

import pyarrow as pa

from penstock.api import ConfigInvalid, PenstockError
from penstock.connectors.jdbc.drivers.connection import BLOCK_ROWS, Connection, Parameters, Row
from penstock.connectors.jdbc.drivers.errors import RowRefused
from penstock.connectors.jdbc.drivers.jvm.cells import (
    ZONED,
    Batch,
    FailedCells,
    blocks,
    kinds_of,
    tuples,
)
from penstock.connectors.jdbc.drivers.jvm.errors import error_of
from penstock.connectors.jdbc.drivers.jvm.jars import CLASS
from penstock.connectors.jdbc.drivers.jvm.machine import closing, driver_of, jvm
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.drivers.url import Url

_LOGIN_S: Final = 30

LEVELS: Final = {
    "READ UNCOMMITTED": 1,
    "READ COMMITTED": 2,
    "REPEATABLE READ": 4,
    "SERIALIZABLE": 8,
    "SQL SERVER SNAPSHOT": 4096,
}

BASE_TABLE: Final = "BASE TABLE"  # some drivers' name of TABLE


class DriverConnection(Connection):
    """A connection of a JDBC driver."""

    placeholder = "?"
    modules = ("jpype",)

    @classmethod
    def open(cls, url: Url) -> Self:
        """A new connection. Besides the driver's settings, the URL's options may have the time
        limits `login_s` and `statement_s`."""
        assert url.address is not None
        jpype = jvm()
        driver, loader = driver_of(url, url.address.value)
        properties = jpype.JClass("java.util.Properties")()
        if url.user is not None:
            properties.setProperty("user", url.user)
        if url.password is not None:
            properties.setProperty("password", url.password.value)
        limit_s = int(url.options.get("login_s", _LOGIN_S))
        jpype.JClass("java.sql.DriverManager").setLoginTimeout(limit_s)  # drivers look it up there
        thread = jpype.JClass("java.lang.Thread").currentThread()
        previous_loader = thread.getContextClassLoader()
        thread.setContextClassLoader(loader)  # drivers load their classes by it
        try:
            raw = driver.connect(url.address.value, properties)
        finally:
            thread.setContextClassLoader(previous_loader or loader)  # Python's threads have none
        if raw is None:
            raise ConfigInvalid(
                [f"{CLASS}: this driver does not accept '{url.shown}' (connection.url)"]
            )
        return cls(url, raw)

    @staticmethod
    def error_of(error: Exception) -> PenstockError:
        return error_of(error)

    @property
    def is_open(self) -> bool:
        if self.raw is None:
            return False
        with contextlib.suppress(Exception):
            return not self.raw.isClosed()
        return False

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        with self.errors():
            if parameters:
                with closing(self.raw.prepareStatement(sql)) as statement:
                    self._bind(statement, parameters)
                    return int(statement.executeUpdate())
            with closing(self.raw.createStatement()) as statement:
                self._limit_time(statement)
                statement.execute(sql)
                return int(statement.getUpdateCount())

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return [row for rows in self.stream(sql, parameters) for row in rows]

    def first(self, sql: str, skipped: int = 0) -> list[Row]:
        """A list of the first row of a query after the skipped ones, or an empty list. Further
        rows are not requested."""
        with self.errors(), self._result(sql, (), most=skipped + 1) as result:
            return [row for rows in tuples(result, kinds_of(result), 1, skipped) for row in rows]

    def stream(
        self, sql: str, parameters: Parameters = (), size: int = BLOCK_ROWS
    ) -> Iterator[list[Row]]:
        with self.errors(), self._result(sql, parameters) as result:
            yield from tuples(result, kinds_of(result), size)

    def blocks(self, sql: str, most: int = 0) -> Iterator[tuple[list[pa.Array], FailedCells]]:
        """The columns of a query, thousands of rows at a time, and the cells that the driver cannot
        convert; `most`: the maximum of rows in all (0: no limit)."""
        size = min(most, BLOCK_ROWS) or BLOCK_ROWS
        with self.errors(), self._result(sql, (), most=most) as result:
            yield from blocks(result, kinds_of(result), size)

    @contextlib.contextmanager
    def described(self, sql: str) -> Iterator[Any]:
        """The driver's `ResultSetMetaData` of a query; use it within `errors`."""
        with self._result(sql, ()) as result:
            yield result.getMetaData()

    @contextlib.contextmanager
    def prepared(self, sql: str) -> Iterator[Any]:
        """The driver's `ResultSetMetaData` of a statement that is not run; None if it is not known
        before. Use it within `errors`."""
        with closing(self.raw.prepareStatement(sql)) as statement:
            yield statement.getMetaData()

    @contextlib.contextmanager
    def reading(
        self, sql: str
    ) -> Iterator[tuple[Any, Iterator[tuple[list[pa.Array], FailedCells]]]]:
        """The `ResultSetMetaData` of a query, and its `blocks`. Use it within `errors`."""
        with self._result(sql, ()) as result:
            yield result.getMetaData(), blocks(result, kinds_of(result), BLOCK_ROWS)

    def moment(self, sql: str) -> tuple[datetime, bool]:
        """The timestamp that a query selects, and whether it has a time zone; if so, it is in
        UTC."""
        with self.errors(), self._result(sql, ()) as result:
            has_zone = int(result.getMetaData().getColumnType(1)) in ZONED
            kinds = [(Sql.TIMESTAMP, "M")]
            ((row,),) = [row for rows in tuples(result, kinds, 1) for row in rows]
            return row, has_zone

    def many(self, sql: str, rows: Iterable[Parameters]) -> None:
        columns = [list(cells) for cells in zip(*rows, strict=True)]
        if columns:
            Batch(columns, [0] * len(columns), "UTC").run(self, sql, range(len(columns)))

    @contextlib.contextmanager
    def transaction(self, *, isolation: str = "", writing: bool = True) -> Iterator[None]:
        with self.errors():
            previous_level = self.raw.getTransactionIsolation()
            if isolation:
                self.raw.setTransactionIsolation(LEVELS[isolation.upper()])
            self.raw.setAutoCommit(False)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # report the first error
                self.raw.rollback()
                self._leave_transaction(isolation, previous_level)
            raise
        with self.errors():
            self.raw.commit()
            self._leave_transaction(isolation, previous_level)

    def _leave_transaction(self, isolation: str, previous_level: int) -> None:
        self.raw.setAutoCommit(True)
        if isolation:
            self.raw.setTransactionIsolation(previous_level)

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        with self.errors():
            savepoint = self.raw.setSavepoint()
        try:
            yield
        except RowRefused:
            with self.errors():
                self.raw.rollback(savepoint)
            raise
        with contextlib.suppress(Exception):  # Oracle cannot release one, and need not
            self.raw.releaseSavepoint(savepoint)

    def quotes(self) -> tuple[str, str]:
        """The opening and closing quotes of names, from the driver; empty if it reports a blank."""
        with self.errors():
            quote = str(self.raw.getMetaData().getIdentifierQuoteString()).strip()
        return quote, quote

    def isolate(self, level: str) -> None:
        with self.errors():
            self.raw.setTransactionIsolation(LEVELS[level])

    def close(self) -> None:
        raw, self.raw = self.raw, None
        if raw is not None:
            with contextlib.suppress(Exception):
                raw.close()

    @contextlib.contextmanager
    def _result(self, sql: str, parameters: Parameters, most: int = 0) -> Iterator[Any]:
        created = self.raw.prepareStatement(sql) if parameters else self.raw.createStatement()
        with closing(created) as statement:
            with contextlib.suppress(Exception):  # a hint that drivers may not know
                statement.setFetchSize(min(most, BLOCK_ROWS) or BLOCK_ROWS)
            if most:
                statement.setMaxRows(most)
            self._limit_time(statement)
            if parameters:
                self._bind(statement, parameters)
                result = statement.executeQuery()
            else:
                result = statement.executeQuery(sql)
            with closing(result):
                yield result

    def _limit_time(self, statement: Any) -> None:
        if limit_s := int(self.url.options.get("statement_s", 0)):
            statement.setQueryTimeout(limit_s)

    def _bind(self, statement: Any, parameters: Parameters) -> None:
        for at, value in enumerate(parameters, 1):
            match value:
                case None:
                    statement.setObject(at, None)
                case bool():
                    statement.setBoolean(at, value)
                case int():
                    statement.setLong(at, value)
                case float():
                    statement.setDouble(at, value)
                case _:
                    statement.setString(at, str(value))


def metadata(result: Any, columns: Sequence[int]) -> list[tuple[Any, ...]]:
    """Columns, by number, of a driver's metadata about tables, as texts; None for those missing in
    the result. Closes the result."""
    rows = []
    with closing(result):
        width = int(result.getMetaData().getColumnCount())
        while result.next():
            cells = [result.getString(at) if at <= width else None for at in columns]
            rows.append(tuple(None if cell is None else str(cell) for cell in cells))
    return rows
