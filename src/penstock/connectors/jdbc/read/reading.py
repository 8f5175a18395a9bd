"""How tables are read: the statements that are the same for every database, and what each of them
is asked in its own words (`Reading`).

Statements hold numbers and moments as literals: both are made here, from integers, so that a `%`
or `?` in a query of the user's means what it means to the database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.api import DataError
from penstock.connectors.jdbc.drivers.connection import Connection, Row, in_quotes
from penstock.connectors.jdbc.drivers.moments import instant_us, moment, wall_us
from penstock.connectors.jdbc.drivers.types import ARROW
from penstock.connectors.jdbc.read.columns import SqlColumn, from_texts
from penstock.connectors.jdbc.read.offsets import Position, TableId

_US: Final = timedelta(microseconds=1)

Rows = Sequence[tuple[object, ...]]

Blocks = Generator[pa.RecordBatch, None, None]
"""Rows as they arrive; closing it ends the statement."""


class Reading(ABC):
    """A connection of which tables are read."""

    quotes: tuple[str, str] = ('"', '"')

    def __init__(self, connection: Connection, quoting: bool) -> None:
        self.connection = connection
        self._quoting = quoting
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - not every database needs it
        """Settles how the session writes what it is asked for."""

    @abstractmethod
    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        """The tables there are, of these types (in JDBC's words, upper case), whose schema and
        catalog are LIKE the patterns; None: any."""

    @abstractmethod
    def columns(self, source: str, table: TableId | None) -> tuple[list[SqlColumn], list[str]]:
        """The columns of `SELECT * FROM source`, which is a table or a query in parentheses; and
        of those that Connect has no type for, what to say."""

    @abstractmethod
    def now_us(self) -> int:
        """The database's clock, in microseconds since the epoch."""

    def keys(self, sql: str) -> Iterator[list[Row]]:
        """The rows of a statement that selects keys, never all of them in memory."""
        with self.connection.transaction(writing=False):
            yield from self.connection.stream(sql)

    @abstractmethod
    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        """The rows of a statement that selects these columns, some thousand at a time."""

    def sample(self, sql: str, columns: Sequence[SqlColumn], rows: int) -> Iterator[pa.RecordBatch]:
        """The first rows of such a statement."""
        return self.blocks(f"{sql} LIMIT {rows}", columns)

    def first(self, sql: str, skipped: int = 0) -> list[Row]:
        """The first row of a statement in order, after so many that are skipped; or none."""
        return self.connection.rows(f"{sql} LIMIT 1 OFFSET {skipped}")

    def literal(self, at_us: int, column: SqlColumn, zone: ZoneInfo) -> str:
        """A moment as it compares with the column."""
        at = moment(at_us if column.zoned else wall_us(at_us, zone))
        return f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f}'"

    def comparable(self, column: SqlColumn) -> str:
        """The column as it compares with `literal`s."""
        return self.name(column.name)

    def stripe(self, key: str, keys: int, parts: int) -> str:
        """Which of the parts a row is in, when parts take turns for so many keys each."""
        return f"({key} / {keys}) % {parts}"

    def name(self, text: str) -> str:
        """A name as it stands in statements."""
        return in_quotes(text, self.quotes) if self._quoting else text

    def table(self, table: TableId) -> str:
        """A table as it stands in statements."""
        return ".".join(self.name(part) for part in (table.schema, table.name) if part)

    def selected(self, column: SqlColumn) -> str:
        """What reads the column."""
        name = self.name(column.name)
        return name if column.sql == "%" else f"{column.sql.replace('%', name)} AS {name}"


@dataclass(frozen=True, slots=True)
class Order:
    """In which order a table is read, and so what a position in it is: by its timestamp, by a
    number, or by both. `timestamp` and `incrementing` are SQL; empty: not by that."""

    reading: Reading
    zone: ZoneInfo
    timestamp: str = ""
    column: SqlColumn | None = None  # of the timestamp
    incrementing: str = ""

    @property
    def by(self) -> str:
        """The order, as SQL says it."""
        keys = [each for each in (self.timestamp, self.incrementing) if each]
        return ", ".join(keys)

    @property
    def backwards(self) -> str:
        """The same from the end, of the columns that `keys` selects."""
        keys = [("penstock_at", self.timestamp), ("penstock_id", self.incrementing)]
        return ", ".join(f"{name} DESC" for name, sql in keys if sql)

    @property
    def keys(self) -> str:
        """What is selected of a row to know its position."""
        keys = [("penstock_at", self.timestamp), ("penstock_id", self.incrementing)]
        return ", ".join(f"{sql} AS {name}" for name, sql in keys if sql)

    def moment(self, at_us: int) -> str:
        assert self.column is not None
        return self.reading.literal(at_us, self.column, self.zone)

    def after(self, start: Position) -> str:
        """The rows behind a position."""
        number = f"{self.incrementing} > {start.incrementing}"
        if not self.timestamp:
            return number
        at = self.moment(start.timestamp_us or 0)
        if not self.incrementing:
            return f"{self.timestamp} > {at}"
        return f"{self.timestamp} >= {at} AND ({self.timestamp} > {at} OR {number})"

    def up_to(self, end: Position) -> str:
        """The rows before a position, and the one at it."""
        number = f"{self.incrementing} <= {end.incrementing}"
        if not self.timestamp:
            return number
        at = self.moment(end.timestamp_us or 0)
        if not self.incrementing:
            return f"{self.timestamp} <= {at}"
        return f"{self.timestamp} <= {at} AND ({self.timestamp} < {at} OR {number})"

    def before(self, bound_us: int) -> str:
        """The rows older than that."""
        return f"{self.timestamp} < {self.moment(bound_us)}"

    def position(self, row: Sequence[object]) -> Position:
        """That of a row, of which these are the timestamp and the number, as far as the order has
        them. DataError if they are none."""
        cells = list(row)
        at_us = self._micros(cells.pop(0)) if self.timestamp else None
        number = whole(cells.pop(0), f"Column {self.incrementing}") if self.incrementing else None
        return Position(number, at_us)

    def _micros(self, value: object) -> int:
        """A moment as a driver returns it, in microseconds since the epoch."""
        assert self.column is not None
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime):
            raise DataError(
                f"Column '{self.column.name}' ({self.column.told}) holds {value!r}, no timestamp."
            )
        wall = (value.replace(tzinfo=UTC) - moment(0)) // _US
        if self.column.zoned:
            return wall if value.tzinfo is None else (value - moment(0)) // _US
        return instant_us(wall, self.zone)


def where(*conditions: str) -> str:
    """What has to hold, all of it."""
    held = [each for each in conditions if each]
    return f" WHERE {' AND '.join(held)}" if held else ""


def block(columns: Sequence[SqlColumn], cells: Sequence[pa.Array]) -> pa.RecordBatch:
    """Cells, each column's as texts or as it should be, as a batch of rows."""
    arrays = [from_texts(column, each) for column, each in zip(columns, cells, strict=True)]
    names = [each.name for each in columns]
    fields = [
        pa.field(name, ARROW[each.sql_type]) for name, each in zip(names, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def whole(value: object, what: str) -> int:
    """A number of an incrementing column; DataError for one that is none or too large."""
    try:
        found = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or found != value or not -(1 << 63) <= found < 1 << 63:
        raise DataError(f"{what} holds {value!r}, which is not a whole number of 64 bits.")
    return int(found)
