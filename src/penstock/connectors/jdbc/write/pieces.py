"""Encoded rows that are written together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.api.schema import Value
from penstock.connectors.jdbc.write.dialect import Cells, Segment


@dataclass(slots=True)
class Piece:
    """Encoded rows that are written together. Each of `columns` is as long as `rows`, the rows'
    numbers in the batch."""

    segment: Segment
    columns: list[Cells]
    rows: list[int]

    def only(self, indexes: Sequence[int]) -> Piece:
        columns = [[cells[at] for at in indexes] for cells in self.columns]
        return Piece(self.segment, columns, [self.rows[at] for at in indexes])

    def part(self, start: int, stop: int) -> Piece:
        columns = [cells[start:stop] for cells in self.columns]
        return Piece(self.segment, columns, self.rows[start:stop])


def last_ones(pieces: list[Piece], earlier: dict[int, Piece], *, together: bool) -> list[Piece]:
    """The pieces without rows that a later row with the same key overrides; `earlier` gets those,
    by the row that follows. `together`: also if the later row is in another piece; then deletes
    come first, even of a key with a later row."""
    if not together and len(pieces) > 1:
        return [last for piece in pieces for last in last_ones([piece], earlier, together=True)]
    last_rows: dict[Value, int] = {}
    positions: dict[int, tuple[Piece, int]] = {}
    for piece in pieces:
        if not piece.segment.keys:
            return pieces
        if len(pieces) == 1 and len(set(_keys(piece))) == len(piece.rows):
            return pieces
        positions.update({row: (piece, at) for at, row in enumerate(piece.rows)})
    by_row = sorted(
        (row, key) for piece in pieces for row, key in zip(piece.rows, _keys(piece), strict=True)
    )
    for row, key in by_row:
        if key in last_rows:
            piece, at = positions[last_rows[key]]
            earlier[row] = piece.only([at])
        last_rows[key] = row
    remaining = set(last_rows.values())
    if len(pieces) > 1:
        values, deletes = pieces
        # Deletes a row even if it is inserted again: it must not keep old values, even in columns
        # that the new record lacks.
        remaining.update(dict(zip(_keys(deletes), deletes.rows, strict=True)).values())
        pieces = [deletes, values]
    thinned = [
        piece.only([at for at, row in enumerate(piece.rows) if row in remaining])
        for piece in pieces
    ]
    return [piece for piece in thinned if piece.rows]


def _keys(piece: Piece) -> list[Value]:
    # Sorted by name: the columns of deletes may be in another order than those of other rows.
    indexes = sorted(piece.segment.keys, key=piece.segment.columns.__getitem__)
    columns = [piece.columns[at] for at in indexes]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
