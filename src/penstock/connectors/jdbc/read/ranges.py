"""The rows of a range, on their way from the database to the engine."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from penstock.api import Records
from penstock.api import schema as s
from penstock.api.schema import Schema, structs_of
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read import columns as c
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import Position
from penstock.connectors.jdbc.read.pool import ReadingPool
from penstock.connectors.jdbc.read.reading import Blocks, Reading, where
from penstock.connectors.jdbc.read.shapes import Shape, Unit

MOST_ROWS: Final = 1 << 14
"""Of a piece: as records, small rows are much larger than here."""


class Range:
    """The rows of a range, on their way from the database. The connection is kept for the next
    range as soon as the last row is here."""

    def __init__(self, unit: Unit, shape: Shape, pool: ReadingPool, reading: Reading) -> None:
        self.unit = unit
        self.shape = shape
        self._pool = pool
        self._reading = reading
        self._blocks: Blocks | None = None
        self._ahead: deque[pa.RecordBatch] = deque()  # read, and not taken
        self._columns: list[SqlColumn] = []
        self._places: list[int] = []

    def begin(self, held: Sequence[str], end: str) -> None:
        """Runs the statement: `held` are its conditions, `end` what it ends with."""
        select, self._columns, self._places = self.shape.select_placed(self._reading)
        self._blocks = self._reading.blocks(f"{select}{where(*held)}{end}", self._columns)

    def has_more(self) -> bool:
        """Whether there is another row; reads ahead to know it."""
        while not self._ahead and self._blocks is not None:
            block = next(self._blocks, None)
            if block is None:
                self._blocks = None
                self._pool.keep(self._reading)
            elif block.num_rows:
                self._ahead.append(block)
        return bool(self._ahead)

    def take(self, max_bytes: int) -> list[pa.RecordBatch]:
        """The next rows, about so many bytes of them."""
        taken = []
        left, left_rows = max_bytes, MOST_ROWS
        while left > 0 and left_rows > 0 and self.has_more():
            block = self._ahead.popleft()
            rows = max(1, min(block.num_rows, left_rows, left * block.num_rows // _size(block)))
            if rows < block.num_rows:
                self._ahead.appendleft(block.slice(rows))
                block = block.slice(0, rows)
            taken.append(block)
            left, left_rows = left - _size(block), left_rows - rows
        return taken

    def end_at_position(self, taken: list[pa.RecordBatch]) -> Position | None:
        """The position of the last row taken. Rows of the same position as those that follow are
        put back before; None if that would be all of them, or if there are no positions."""
        if not self._places:
            return None
        following = self._position(self._ahead[0], 0)
        for at in reversed(range(len(taken))):
            block = taken[at]
            tied = self._first_at(following, block)
            if tied:
                back = [block.slice(tied), *taken[at + 1 :]]
                self._ahead.extendleft(each for each in reversed(back) if each.num_rows)
                taken[at:] = [block.slice(0, tied)]
                return self._position(block, tied - 1)
        return None

    def _first_at(self, position: Position, block: pa.RecordBatch) -> int:
        """The first of the rows at the end of a block that are at this position."""
        rows = range(block.num_rows)
        if self._position(block, rows[-1]) != position:
            return len(rows)
        return bisect_left(rows, True, key=lambda row: self._position(block, row) == position)

    def _position(self, block: pa.RecordBatch, row: int) -> Position:
        assert self.shape.order is not None
        cells = [_cell(self._columns[at], block.column(at)[row].as_py()) for at in self._places]
        return self.shape.order.position(cells)

    def close(self) -> None:
        """Ends the statement if it has not ended; its connection is of no use then."""
        if self._blocks is not None:
            with contextlib.suppress(Exception):
                self._blocks.close()
            self._reading.connection.close()
            self._blocks = None
        self._ahead.clear()


def _size(block: pa.RecordBatch) -> int:
    return max(1, int(block.nbytes))


def _cell(column: SqlColumn, value: Any) -> object:
    if column.sql_type in (Sql.NUMERIC, Sql.DECIMAL) and isinstance(value, str):
        with contextlib.suppress(InvalidOperation):
            return Decimal(value)
    return value


@dataclass(frozen=True, slots=True)
class Structs:
    """What turns the rows of one table into records."""

    topic: str
    schema: Schema
    cells: tuple[c.Cells, ...]

    def records(self, blocks: Sequence[pa.RecordBatch]) -> Records:
        of = structs_of(self.schema.field_names)
        values: list[s.Value] = []
        for block in blocks:
            # Behind the columns there may be one that says the position.
            columns = block.columns[: len(self.cells)]
            values += of([read(cells) for read, cells in zip(self.cells, columns, strict=True)])
        return Records.of(self.topic, values, schema=self.schema)


def too_wide(columns: Sequence[SqlColumn], blocks: Sequence[pa.RecordBatch]) -> frozenset[int]:
    """The columns of 32 bits that hold more, which only SQLite's can."""
    return frozenset(
        at
        for at, each in enumerate(columns)
        if each.widens and each.sql_type is Sql.INTEGER
        for block in blocks
        if c.not_within(block.column(at), s.Type.INT32) is not None
    )
