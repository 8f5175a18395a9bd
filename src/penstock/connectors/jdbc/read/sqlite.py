"""SQLite: columns have declared types, regardless of content; moments are texts or milliseconds."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Generator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.api import DataError
from penstock.connectors.jdbc.drivers.connection import BLOCK_ROWS
from penstock.connectors.jdbc.drivers.moments import digits
from penstock.connectors.jdbc.drivers.types import ARROW, Sql
from penstock.connectors.jdbc.read.columns import (
    INT64,
    CellRefused,
    Refused,
    SqlColumn,
    each,
)
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Blocks, Columns, Reading, block

_TYPES: Final = {
    # sqlite-jdbc's type for a declared type.
    "BOOLEAN": Sql.BOOLEAN,
    "TINYINT": Sql.TINYINT,
    "SMALLINT": Sql.SMALLINT,
    "INT2": Sql.SMALLINT,
    "BIGINT": Sql.BIGINT,
    "INT8": Sql.BIGINT,
    "UNSIGNED BIG INT": Sql.BIGINT,
    "INT": Sql.INTEGER,
    "INTEGER": Sql.INTEGER,
    "MEDIUMINT": Sql.INTEGER,
    "DECIMAL": Sql.DECIMAL,
    "NUMERIC": Sql.NUMERIC,
    "DOUBLE": Sql.DOUBLE,
    "DOUBLE PRECISION": Sql.DOUBLE,
    "FLOAT": Sql.DOUBLE,
    "REAL": Sql.REAL,
    "BLOB": Sql.BYTES,
    "BINARY": Sql.BYTES,
    "DATE": Sql.DATE,
    "TIME": Sql.TIME,
    "DATETIME": Sql.TIMESTAMP,
    "TIMESTAMP": Sql.TIMESTAMP,
}
_DECLARED: Final = re.compile(
    r"\s*(?P<name>[^()]*?)\s*(?:\(\s*(?P<precision>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\).*)?",
    re.DOTALL,
)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock time
_US: Final = timedelta(microseconds=1)
_JULIAN_EPOCH: Final = 2440587.5
_SAMPLE_ROWS: Final = 20
_CLOCKS: Final = (Sql.TIMESTAMP, Sql.TIME)
_SECOND_US: Final = 1_000_000  # the unit of CURRENT_TIMESTAMP; columns do not declare theirs


class SqliteReading(Reading):
    """Tables of an SQLite file."""

    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        kinds = [f"'{kind.lower()}'" for kind in ("TABLE", "VIEW") if kind in types]
        rows = self.connection.rows(
            f"SELECT name FROM sqlite_master WHERE type IN ({', '.join(kinds)}) "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        return [TableId("", "", name) for (name,) in rows]

    def columns(self, source: str, table: TableId | None) -> Columns:
        if table is None:
            return self._query_columns(source), []
        rows = self.connection.rows(
            'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table.name,)
        )
        if not rows:
            raise DataError(f"Table '{table.name}' does not exist.")
        keys = sum(1 for row in rows if row[3])
        columns = [self._column(*row, alone=keys == 1) for row in rows]
        instants = self._instants(source, [c.name for c in columns if c.sql_type in _CLOCKS])
        return [replace(column, zoned=column.name in instants) for column in columns], []

    def _instants(self, source: str, names: Sequence[str]) -> set[str]:
        """Those of the columns that hold moments as milliseconds since the epoch, which have no
        time zone, by their first rows."""
        if not names:
            return set()
        kinds = ", ".join(f"typeof({self.name(name)})" for name in names)
        rows = self.connection.rows(f"SELECT {kinds} FROM {source} LIMIT {_SAMPLE_ROWS}")
        columns = zip(names, zip(*rows, strict=True), strict=True) if rows else ()
        return {
            name
            for name, cells in columns
            if next((cell for cell in cells if cell != "null"), "") == "integer"
        }

    def _column(
        self, name: str, declared: str, required: int, key: int, *, alone: bool
    ) -> SqlColumn:
        parts = _DECLARED.fullmatch(declared.upper())
        word = parts["name"] if parts else declared.upper()
        sql_type = _TYPES.get(word.removesuffix(" UNSIGNED"))
        if sql_type is None:
            sql_type = _by_affinity(word)
        is_rowid = bool(key) and alone and word == "INTEGER"
        return SqlColumn(
            name,
            sql_type,
            declared or "no type",
            nullable=not required and not is_rowid,
            precision=int(parts["precision"] or 0) if parts else 0,
            scale=int(parts["scale"] or 0) if parts else 0,
            auto_increment=is_rowid,
            resolution_us=_SECOND_US,
            widens=True,
        )

    def described(self, statement: str) -> Columns | None:
        self.connection.rows(f"EXPLAIN {statement}")
        return None

    def _run(self, statement: str) -> Generator[Columns | pa.RecordBatch, None, None]:
        with self.connection.errors(), contextlib.closing(self.connection.raw.cursor()) as cursor:
            cursor.execute(statement)
            rows = cursor.fetchmany(BLOCK_ROWS)
            columns = _guessed([field[0] for field in cursor.description or ()], rows)
            yield columns, []
            while rows:
                yield _block(columns, rows)
                rows = cursor.fetchmany(BLOCK_ROWS)

    def _query_columns(self, source: str) -> list[SqlColumn]:
        """The columns of a query, which have no declared types: the first rows decide."""
        with self.connection.errors():
            cursor = self.connection.raw.execute(f"SELECT * FROM {source} LIMIT 100")
            rows = cursor.fetchall()
            return _guessed([description[0] for description in cursor.description], rows)

    def now_us(self) -> int:
        ((now,),) = self.connection.rows("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")
        return (datetime.fromisoformat(now) - _EPOCH) // _US

    def clock_us(self, column: SqlColumn, zone: ZoneInfo) -> int:
        return self.now_us()  # what DEFAULT CURRENT_TIMESTAMP writes, in UTC

    def literal(self, at_ns: int, column: SqlColumn) -> str:
        return f"'{digits(at_ns, 3)}'"

    def comparable(self, column: SqlColumn) -> str:
        name = self.name(column.name)
        # Converts both forms of moments, of any precision, to a comparable one.
        return (
            f"(CASE typeof({name}) WHEN 'integer' THEN "
            f"strftime('%Y-%m-%d %H:%M:%f', {name} / 1000.0, 'unixepoch') "
            f"ELSE strftime('%Y-%m-%d %H:%M:%f', {name}) END)"
        )

    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        for rows in self.connection.stream(sql, size=BLOCK_ROWS):
            yield _block(columns, rows)


def _guessed(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[SqlColumn]:
    """The columns of rows, by their values."""
    columns = []
    for at, name in enumerate(names):
        kinds = {type(row[at]) for row in rows} - {type(None)}
        sql_type = next((sql_type for kind, sql_type in _BY_KIND if kind in kinds), Sql.STRING)
        columns.append(
            SqlColumn(name, sql_type, "a query's", guessed=True, resolution_us=_SECOND_US)
        )
    return columns


def _block(columns: Sequence[SqlColumn], rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    refused: Refused = {}
    cells = zip(columns, zip(*rows, strict=True), strict=True)
    return block(columns, [_cells(c, v, refused) for c, v in cells], refused)


_BY_KIND: Final = (
    (bytes, Sql.BYTES),
    (str, Sql.STRING),
    (float, Sql.DOUBLE),
    (int, Sql.BIGINT),
)
"""Types of a query's columns: the first whose kind is among the values."""


def _by_affinity(word: str) -> Sql:
    """SQLite's own rules, for types that no driver knows."""
    if "INT" in word:
        return Sql.BIGINT
    if any(part in word for part in ("CHAR", "CLOB", "TEXT")) or not word:
        return Sql.STRING
    if "BLOB" in word:
        return Sql.BYTES
    if any(part in word for part in ("REAL", "FLOA", "DOUB")):
        return Sql.DOUBLE
    return Sql.STRING


def _cells(column: SqlColumn, values: Sequence[Any], refused: Refused) -> pa.Array:
    arrow_type = ARROW[column.sql_type]
    if column.sql_type in _DIRECT:
        try:
            return pa.array(values, arrow_type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    return pa.array(each(_cell, column, values, refused), arrow_type)


_DIRECT: Final = frozenset(
    {
        Sql.TINYINT,
        Sql.SMALLINT,
        Sql.INTEGER,
        Sql.BIGINT,
        Sql.REAL,
        Sql.DOUBLE,
        Sql.STRING,
        Sql.BYTES,
    }
)


def _cell(column: SqlColumn, value: Any) -> Any:
    try:
        match column.sql_type:
            case Sql.BOOLEAN:
                return bool(int(value))
            case Sql.REAL | Sql.DOUBLE:
                return float(value)
            case Sql.NUMERIC | Sql.DECIMAL:
                return repr(value) if isinstance(value, float) else str(value)
            case Sql.STRING:
                return value.decode() if isinstance(value, bytes) else str(value)
            case Sql.BYTES:
                return value if isinstance(value, bytes) else str(value).encode()
            case Sql.DATE:
                return _date(value) if isinstance(value, str) else _wall(value).date()
            case Sql.TIME:
                return time.fromisoformat(value) if isinstance(value, str) else _wall(value).time()
            case Sql.TIMESTAMP:
                return _wall(value)
        if int(value) == float(value) and int(value) in INT64:
            return int(value)
    except (TypeError, ValueError, OverflowError, UnicodeDecodeError):
        pass
    raise CellRefused.of(column, value, "it does not match the column's type")


def _date(text: str) -> date:
    return datetime.fromisoformat(text).date()


def _wall(value: Any) -> datetime:
    """A stored moment: milliseconds, sqlite-jdbc's default, a Julian day, or a text."""
    if isinstance(value, int):
        return _EPOCH + timedelta(milliseconds=value)
    if isinstance(value, float):
        return _EPOCH + timedelta(days=value - _JULIAN_EPOCH)
    return datetime.fromisoformat(value).replace(tzinfo=None)
