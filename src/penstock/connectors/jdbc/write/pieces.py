"""Encoded rows that are written together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.api.schema import Value
from penstock.connectors.jdbc.write.dialect import Cells, Segment


@dataclass(slots=True)
class Piece:
    """Encoded rows that are written together; `columns` are as long as `rows`."""

    segment: Segment
    columns: list[Cells]
    rows: list[int]

    def only(self, places: Sequence[int]) -> Piece:
        columns = [[cells[at] for at in places] for cells in self.columns]
        return Piece(self.segment, columns, [self.rows[at] for at in places])

    def part(self, start: int, stop: int) -> Piece:
        columns = [cells[start:stop] for cells in self.columns]
        return Piece(self.segment, columns, self.rows[start:stop])


def last_ones(found: list[Piece], earlier: dict[int, Piece], *, together: bool) -> list[Piece]:
    """The pieces without rows after which another row has the same key; those are found in
    `earlier` by the row that follows. `together`: also where the other is of another piece; then
    what is deleted comes first, even if there is another row later."""
    if not together and len(found) > 1:
        return [one for piece in found for one in last_ones([piece], earlier, together=True)]
    last: dict[Value, int] = {}
    where: dict[int, tuple[Piece, int]] = {}
    for piece in found:
        if not piece.segment.keys:
            return found
        keys = _keys(piece)
        if len(found) == 1:
            last = dict(zip(keys, piece.rows, strict=True))
            if len(last) == len(piece.rows):
                return found
            last = {}
        where.update({row: (piece, at) for at, row in enumerate(piece.rows)})
    by_row = sorted(
        (row, key) for piece in found for row, key in zip(piece.rows, _keys(piece), strict=True)
    )
    for row, key in by_row:
        if key in last:
            piece, at = where[last[key]]
            earlier[row] = piece.only([at])
        last[key] = row
    kept = set(last.values())
    if len(found) > 1:
        values, deletes = found
        # A row that was deleted and is there again has nothing left of what it was, also in
        # columns that its record does not know.
        kept.update(dict(zip(_keys(deletes), deletes.rows, strict=True)).values())
        found = [deletes, values]
    thinned = [
        piece.only([at for at, row in enumerate(piece.rows) if row in kept]) for piece in found
    ]
    return [piece for piece in thinned if piece.rows]


def _keys(piece: Piece) -> list[Value]:
    # By name: the columns of deletes may be in another order than those of what they delete.
    places = sorted(piece.segment.keys, key=piece.segment.columns.__getitem__)
    columns = [piece.columns[at] for at in places]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
