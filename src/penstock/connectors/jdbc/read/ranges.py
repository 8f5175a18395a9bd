"""The rows of a range, on their way from the database to the engine."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from penstock.api import schema as s
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read import columns as c
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import Position
from penstock.connectors.jdbc.read.pool import ReadingPool
from penstock.connectors.jdbc.read.reading import Blocks, Reading, where
from penstock.connectors.jdbc.read.shapes import Shape, Unit

MAX_ROWS: Final = 1 << 14
"""Rows of a piece: small rows take much more memory as records than in Arrow arrays."""


class Range:
    """The rows of a range, on their way from the database. Its connection returns to the pool as
    soon as the last row has arrived."""

    def __init__(self, unit: Unit, shape: Shape, pool: ReadingPool, reading: Reading) -> None:
        self.unit = unit
        self.shape = shape
        self._pool = pool
        self._reading = reading
        self._blocks: Blocks | None = None
        self._ahead: deque[pa.RecordBatch] = deque()  # read, and not taken yet
        self._columns: list[SqlColumn] = []
        self._position_columns: list[int] = []

    def begin(self, conditions: Sequence[str], end: str) -> None:
        """Runs the statement with these conditions; `end` follows them."""
        select, self._columns, self._position_columns = self.shape.select_placed(self._reading)
        self._blocks = self._reading.blocks(f"{select}{where(*conditions)}{end}", self._columns)

    def begin_rows(self, columns: Sequence[SqlColumn], rows: Blocks) -> None:
        """Takes the rows of a statement that runs already."""
        self._columns, self._blocks = list(columns), rows

    def has_more(self) -> bool:
        """Whether there is another row; reads ahead to find out."""
        while not self._ahead and self._blocks is not None:
            block = next(self._blocks, None)
            if block is None:
                self._blocks = None
                self._pool.keep(self._reading)
            elif block.num_rows:
                self._ahead.append(block)
        return bool(self._ahead)

    def take(self, max_bytes: int) -> list[pa.RecordBatch]:
        """The next rows, about `max_bytes` of them."""
        blocks = []
        bytes_left, rows_left = max_bytes, MAX_ROWS
        while bytes_left > 0 and rows_left > 0 and self.has_more():
            block = self._ahead.popleft()
            fitting = bytes_left * block.num_rows // _size(block)
            rows = max(1, min(block.num_rows, rows_left, fitting))
            if rows < block.num_rows:
                self._ahead.appendleft(block.slice(rows))
                block = block.slice(0, rows)
            blocks.append(block)
            bytes_left, rows_left = bytes_left - _size(block), rows_left - rows
        return blocks

    def put_back(self, blocks: list[pa.RecordBatch], row: int) -> None:
        """Puts back the rows of `blocks` from `row` on."""
        for at, block in enumerate(blocks):
            if row < block.num_rows:
                back = [block.slice(row), *blocks[at + 1 :]]
                self._ahead.extendleft(rows for rows in reversed(back) if rows.num_rows)
                blocks[at:] = [block.slice(0, row)] if row else []
                return
            row -= block.num_rows

    def end_at_position(self, blocks: list[pa.RecordBatch]) -> Position | None:
        """The position of the last row in `blocks`, after putting back the rows at the end that
        have the same position as the row that follows. None if those are all rows, or if there are
        no positions."""
        if not self._position_columns:
            return None
        found = self._last_before(self._position(self._ahead[0], 0), blocks)
        if found is None:
            return None
        rows, position = found
        self.put_back(blocks, rows)
        return position

    def position_before(self, blocks: Sequence[pa.RecordBatch], row: int) -> Position | None:
        """The position of the last row before `row` of `blocks` that has another position than that
        one. None if all have the same, or if there are no positions."""
        if not self._position_columns:
            return None
        before: list[pa.RecordBatch] = []
        for block in blocks:
            if row < block.num_rows:
                found = self._last_before(
                    self._position(block, row), [*before, block.slice(0, row)]
                )
                return None if found is None else found[1]
            before.append(block)
            row -= block.num_rows
        return None

    def _last_before(
        self, following: Position, blocks: Sequence[pa.RecordBatch]
    ) -> tuple[int, Position] | None:
        """How many rows are left without those at the end that have the position that follows, and
        the position of the last of them; None if there are none."""
        start = sum(block.num_rows for block in blocks)
        for block in reversed(blocks):
            start -= block.num_rows
            rows = self._first_at(following, block) if block.num_rows else 0
            if rows:
                return start + rows, self._position(block, rows - 1)
        return None

    def _first_at(self, position: Position, block: pa.RecordBatch) -> int:
        """The index of the first of the rows at the end of a block that have this position."""
        rows = range(block.num_rows)
        if self._position(block, rows[-1]) != position:
            return len(rows)
        return bisect_left(rows, True, key=lambda row: self._position(block, row) == position)

    def _position(self, block: pa.RecordBatch, row: int) -> Position:
        assert self.shape.order is not None
        cells = [
            _cell(self._columns[at], block.column(at)[row].as_py()) for at in self._position_columns
        ]
        return self.shape.order.position(cells)

    def close(self) -> None:
        """Ends the statement and closes the connection, unless all rows have arrived."""
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


def too_wide(columns: Sequence[SqlColumn], blocks: Sequence[pa.RecordBatch]) -> frozenset[int]:
    """The 32-bit columns with larger values, which only SQLite can have."""
    return frozenset(
        at
        for at, column in enumerate(columns)
        if column.widens and column.sql_type is Sql.INTEGER
        for block in blocks
        if c.not_within(block.column(at), s.Type.INT32) is not None
    )
