"""The statements that read tables, and the parts of them that differ between databases
(`Reading`).

Numbers and moments are literals in statements, generated here from integers. There are no
parameters, so a `%` or `?` in the user's query reaches the database unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.api import DataError
from penstock.connectors.jdbc.drivers.connection import Connection, Row, in_quotes
from penstock.connectors.jdbc.drivers.moments import digits, instant_us, moment, wall_us
from penstock.connectors.jdbc.drivers.types import arrow_of
from penstock.connectors.jdbc.read.columns import CellRefused, Refused, SqlColumn, from_texts
from penstock.connectors.jdbc.read.offsets import Position, TableId

_US: Final = timedelta(microseconds=1)

Rows = Sequence[tuple[object, ...]]

Columns = tuple[list[SqlColumn], list[str]]
"""Columns, and a description of each that Connect has no type for."""

Blocks = Generator[pa.RecordBatch, None, None]
"""Rows as they arrive; closing it ends the statement."""


class Reading(ABC):
    """A connection for reading tables."""

    quotes: tuple[str, str] = ('"', '"')

    def __init__(self, connection: Connection, quoting: bool) -> None:
        self.connection = connection
        self._quoting = quoting
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - not every database needs it
        """Sets the formats in which the session returns values."""

    @abstractmethod
    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        """The existing tables of these types (JDBC's, upper case) whose schema and catalog are
        LIKE the patterns; None: any."""

    @abstractmethod
    def columns(self, source: str, table: TableId | None) -> Columns:
        """The columns of `SELECT * FROM source`, a table or a query in parentheses; and a
        description of each column that Connect has no type for."""

    @abstractmethod
    def now_us(self) -> int:
        """The database's clock, in microseconds since the epoch."""

    def keys(self, sql: str) -> Iterator[list[Row]]:
        """The rows of a statement that selects keys, never all at once in memory."""
        with self.connection.transaction(writing=False):
            yield from self.connection.stream(sql)

    @abstractmethod
    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        """The rows of a statement that selects these columns, thousands at a time."""

    @abstractmethod
    def described(self, statement: str) -> Columns | None:
        """Has the database check a statement without running it. Its columns, as `columns` returns
        them; None if they are known only when it runs."""

    def run(self, statement: str) -> tuple[Columns, Blocks]:
        """Runs a statement as it is: its columns, as `columns` returns them, and its rows."""
        rows = self._run(statement)
        columns = next(rows)
        assert isinstance(columns, tuple)
        return columns, cast(Blocks, rows)

    @abstractmethod
    def _run(self, statement: str) -> Generator[Columns | pa.RecordBatch, None, None]:
        """The statement's columns, and then its rows."""

    def sample(self, sql: str, columns: Sequence[SqlColumn], rows: int) -> Iterator[pa.RecordBatch]:
        """The first rows of such a statement."""
        return self.blocks(f"{sql} LIMIT {rows}", columns)

    def first(self, sql: str, skipped: int = 0) -> list[Row]:
        """A list of the first row of an ordered statement after the skipped ones, or an empty
        list."""
        return self.connection.rows(f"{sql} LIMIT 1 OFFSET {skipped}")

    def clock_us(self, column: SqlColumn, zone: ZoneInfo) -> int:
        """The database's clock as it would be written to the column: in microseconds since the
        epoch, or since 1970 on a wall clock. `zone` is that of columns without one."""
        now = self.now_us()
        return now if column.zoned else wall_us(now, zone)

    def literal(self, at_ns: int, column: SqlColumn) -> str:
        """A moment of the column as a literal to compare with it."""
        return f"TIMESTAMP '{digits(at_ns)}'"

    def comparable(self, column: SqlColumn) -> str:
        """The column as an expression to sort by, and to compare with `literal`s."""
        return self.name(column.name)

    def first_of(self, columns: Sequence[SqlColumn]) -> tuple[str, SqlColumn]:
        """The first moment of several columns that is not null, as an expression to sort by, and a
        column for it."""
        return f"COALESCE({', '.join(map(self.comparable, columns))})", columns[0]

    def compared(self, sql: str, column: SqlColumn) -> str:
        """The expression to compare with `literal`s, if it is another one than is sorted by."""
        return sql

    def near(self, sql: str, at_ns: int, column: SqlColumn, *, later: bool) -> str:
        """A condition that rows from a moment of the column on meet, or (not `later`) those up to
        it: others may meet it, too. For an index that `compared` cannot use."""
        return ""

    def stripe(self, key: str, keys: int, parts: int) -> str:
        """The expression for the part a row belongs to, if parts take turns every `keys` keys."""
        return f"({key} / {keys}) % {parts}"

    def name(self, text: str) -> str:
        """A name for use in statements, quoted if enabled."""
        return in_quotes(text, self.quotes) if self._quoting else text

    def table(self, table: TableId) -> str:
        """A table's qualified name for use in statements."""
        return ".".join(self.name(part) for part in (table.schema, table.name) if part)

    def selected(self, column: SqlColumn) -> str:
        """The expression that selects the column. It has no name, which would hide the column from
        ORDER BY, and so an index."""
        return column.sql.replace("%", self.name(column.name))


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which a table is read, and so the meaning of its positions: by a timestamp, by
    a number, or by both. `timestamp` and `incrementing` are SQL, or empty."""

    reading: Reading
    zone: ZoneInfo
    timestamp: str = ""
    column: SqlColumn | None = None  # of the timestamp
    incrementing: str = ""
    unlimited: bool = False  # numbers may be larger than an offset can be

    @property
    def by(self) -> str:
        """The terms for ORDER BY."""
        return ", ".join(sql for sql in (self.timestamp, self.incrementing) if sql)

    @property
    def backwards(self) -> str:
        """The terms for the reverse order."""
        return ", ".join(f"{sql} DESC" for sql in (self.timestamp, self.incrementing) if sql)

    @property
    def keys(self) -> str:
        """The columns to select for the position of a row."""
        keys = [("penstock_at", self._compared), ("penstock_id", self.incrementing)]
        return ", ".join(f"{sql} AS {name}" for name, sql in keys if sql)

    @property
    def _compared(self) -> str:
        if self.column is None:
            return ""
        return self.reading.compared(self.timestamp, self.column)

    def after(self, start: Position) -> str:
        """The condition for rows after a position."""
        number = f"{self.incrementing} > {start.incrementing}"
        if self.unlimited:
            number += f" AND {self.incrementing} <= {LARGEST}"
        if not self.timestamp:
            return number
        at_ns, at = self._moment(start.timestamp_ns or 0)
        newer = f"{self._compared} > {at}"
        if self.incrementing:
            newer = f"{self._compared} >= {at} AND ({newer} OR {number})"
        return self._near(at_ns, newer, later=True)

    def up_to(self, end: Position) -> str:
        """The condition for rows up to and including a position."""
        number = f"{self.incrementing} <= {end.incrementing}"
        if not self.timestamp:
            return number
        at_ns, at = self._moment(end.timestamp_ns or 0)
        older = f"{self._compared} <= {at}"
        if self.incrementing:
            older = f"{older} AND ({self._compared} < {at} OR {number})"
        return self._near(at_ns, older, later=False)

    def before(self, clock_us: int) -> str:
        """The condition for rows older than a time on the clock of the database."""
        assert self.column is not None
        at_ns = clock_us * 1000
        older = f"{self._compared} < {self.reading.literal(at_ns, self.column)}"
        return self._near(at_ns, older, later=False)

    def _near(self, at_ns: int, condition: str, *, later: bool) -> str:
        assert self.column is not None
        near = self.reading.near(self.timestamp, at_ns, self.column, later=later)
        return f"{near} AND {condition}" if near else condition

    def _moment(self, at_ns: int) -> tuple[int, str]:
        """A moment as the column holds it, and its literal."""
        assert self.column is not None
        if not self.column.zoned:
            at_ns = wall_us(at_ns // 1000, self.zone) * 1000 + at_ns % 1000
        return at_ns, self.reading.literal(at_ns, self.column)

    def position(self, row: Sequence[object]) -> Position:
        """The position of a row, given its timestamp and its number, if the order has them. Raises
        DataError if a cell is neither."""
        cells = list(row)
        at_ns = self._nanos(cells.pop(0)) if self.timestamp else None
        number = whole(cells.pop(0), f"Column {self.incrementing}") if self.incrementing else None
        return Position(number, at_ns)

    def _nanos(self, value: Any) -> int:
        """A moment that a driver returned, in nanoseconds since the epoch."""
        assert self.column is not None
        if isinstance(value, int | Decimal):  # seconds
            return int(value * 1_000_000_000)
        rest = 0
        if isinstance(value, dict):  # see `drivers.types`
            value, rest = value["us"], value["ns"]
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime):
            raise DataError(
                f"Column '{self.column.name}' ({self.column.type_name}) contains {value!r}, which "
                "is not a timestamp."
            )
        wall = (value.replace(tzinfo=UTC) - moment(0)) // _US
        if not self.column.zoned:
            return instant_us(wall, self.zone) * 1000 + rest
        at_us = wall if value.tzinfo is None else (value - moment(0)) // _US
        return at_us * 1000 + rest


LARGEST: Final = (1 << 63) - 1
"""The largest number that an offset can hold."""


def where(*conditions: str) -> str:
    """A WHERE clause of all conditions that are not empty."""
    terms = [condition for condition in conditions if condition]
    return f" WHERE {' AND '.join(terms)}" if terms else ""


_FAILED: Final = "penstock_failed"
_WORDS: Final = pa.struct([(word, pa.string()) for word in ("column", "value", "text")])


def block(
    columns: Sequence[SqlColumn], cells: Sequence[pa.Array], refused: Refused | None = None
) -> pa.RecordBatch:
    """A batch of rows from the cells of each column, which are texts or of the column's type.
    `refused` are rows known to have a cell that cannot be read. If there are any such rows, another
    column says why: see `refused_rows`."""
    refused = {} if refused is None else refused
    arrays = [
        from_texts(column, texts, refused) for column, texts in zip(columns, cells, strict=True)
    ]
    fields = [pa.field(column.name, arrow_of(column.sql_type, column.digits)) for column in columns]
    if refused:
        errors = map(refused.get, range(len(arrays[0])))
        arrays.append(pa.array([error and error.words for error in errors], _WORDS))
        fields.append(pa.field(_FAILED, _WORDS))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def refused_rows(rows: pa.RecordBatch) -> Refused:
    """The rows of a batch with a cell that could not be read."""
    if rows.schema.names[-1] != _FAILED:
        return {}
    words = rows.column(rows.num_columns - 1).to_pylist()
    return {row: CellRefused(**cell) for row, cell in enumerate(words) if cell is not None}


def whole(value: object, shown: str) -> int:
    """The number in an incrementing column; raises DataError if it is not whole or too large.
    `shown` names the column."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != value or not -(1 << 63) <= number < 1 << 63:
        raise DataError(f"{shown} contains {value!r}, which is not a 64-bit integer.")
    return int(number)
