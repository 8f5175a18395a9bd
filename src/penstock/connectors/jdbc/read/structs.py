"""Rows as records. A row with a cell that its field cannot hold costs no other row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.api import Records
from penstock.api.schema import Schema, Value, structs_of
from penstock.connectors.jdbc.drivers.types import NANOS
from penstock.connectors.jdbc.read import columns as c
from penstock.connectors.jdbc.read.columns import CellRefused, Refused, SqlColumn
from penstock.connectors.jdbc.read.reading import refused_rows


@dataclass(frozen=True, slots=True)
class Structs:
    """Converts the rows of one table to records."""

    topic: str
    schema: Schema
    columns: tuple[SqlColumn, ...]
    cells: tuple[c.Cells, ...]

    def values(self, blocks: Sequence[pa.RecordBatch]) -> tuple[list[Value], Refused]:
        """The rows as structs, and those that cannot become records; what is returned in their
        place is not to be used."""
        make_structs = structs_of(self.schema.field_names)
        values: list[Value] = []
        refused: Refused = {}
        for block in blocks:
            failed = refused_rows(block)
            # After the columns there may be one for the position.
            columns = [
                self._column(at, block.column(at), failed) for at in range(len(self.columns))
            ]
            refused |= {len(values) + row: error for row, error in failed.items()}
            values += make_structs(columns)
        return values, refused

    def records(self, values: list[Value]) -> Records:
        """Structs as records."""
        return Records.of(self.topic, values, schema=self.schema)

    def remains(self, block: pa.RecordBatch, row: int, error: CellRefused) -> Records:
        """What is left of a refused row: its cells as texts, without a schema."""
        texts: dict[str, Value] = {
            column.name: _text(block.column(at).slice(row, 1))
            for at, column in enumerate(self.columns)
        }
        return Records.of(self.topic, [{**texts, error.words["column"]: error.words["value"]}])

    def _column(self, at: int, cells: pa.Array, failed: Refused) -> list[Value]:
        column, convert = self.columns[at], self.cells[at]
        if cells.null_count and not column.nullable:
            for row in cells.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                failed.setdefault(row, CellRefused.of(column, None, "its field must have a value"))
        return _converted(column, convert, cells, failed, 0)


def _converted(
    column: SqlColumn, convert: c.Cells, cells: pa.Array, failed: Refused, start: int
) -> list[Value]:
    """Cells as values, the first of them in row `start`. The search for cells that cannot be
    converted halves the column, so that the others are still converted together."""
    try:
        return convert(cells)
    except CellRefused as error:
        refused = error
    except (OverflowError, ValueError):
        refused = CellRefused.of(column, _text(cells[:1]), c.DATES)
    if len(cells) == 1:
        failed.setdefault(start, refused)
        return [None]
    middle = len(cells) // 2
    return [
        *_converted(column, convert, cells[:middle], failed, start),
        *_converted(column, convert, cells[middle:], failed, start + middle),
    ]


def _text(cell: pa.Array) -> str | None:
    """The only cell of an array, as a text; bytes in hexadecimal."""
    if pa.types.is_binary(cell.type):
        value = cell[0].as_py()
        return None if value is None else value.hex()
    if cell.type == NANOS:
        cell = cell.flatten()[0]
    text: str | None = cell.cast(pa.string())[0].as_py()
    return text
