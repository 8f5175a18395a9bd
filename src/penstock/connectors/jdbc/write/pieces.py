"""Encoded rows that are written together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from penstock.api.schema import Value
from penstock.connectors.jdbc.write.dialect import Cells, Segment


@dataclass(slots=True)
class Piece:
    """Encoded rows that are written together. Each of `columns` is as long as `rows`, the rows'
    numbers in the batch, in order. `keys` are the rows' keys, equal exactly if the database
    considers them equal; None: there are none, or only the database knows."""

    segment: Segment
    columns: list[Cells]
    rows: list[int]
    keys: list[Value] | None = None

    def only(self, indexes: Sequence[int]) -> Piece:
        columns = [[cells[at] for at in indexes] for cells in self.columns]
        keys = None if self.keys is None else [self.keys[at] for at in indexes]
        return Piece(self.segment, columns, [self.rows[at] for at in indexes], keys)

    def part(self, start: int, stop: int) -> Piece:
        columns = [cells[start:stop] for cells in self.columns]
        keys = None if self.keys is None else self.keys[start:stop]
        return Piece(self.segment, columns, self.rows[start:stop], keys)


def in_order(pieces: Sequence[Piece], *, singly: bool = False) -> list[Piece]:
    """The same rows in pieces that can be written one after the other, whichever of their keys are
    equal: a piece ends where a row of another piece follows, or, `singly`, after each row."""
    if len(pieces) == 1 and not singly:
        return [_repeating(pieces[0])]
    places = sorted(
        (row, number, at)
        for number, piece in enumerate(pieces)
        for at, row in enumerate(piece.rows)
    )
    return [
        _repeating(pieces[run[0][1]].only([at for _, _, at in run]))
        for run in ([list(run) for _, run in groupby(places, itemgetter(0 if singly else 1))])
    ]


def _repeating(piece: Piece) -> Piece:
    return replace(piece, segment=replace(piece.segment, repeats=len(piece.rows) > 1))


def last_ones(pieces: list[Piece], earlier: dict[int, Piece], *, together: bool) -> list[Piece]:
    """The pieces, which have `keys`, without rows that a later row with the same key overrides;
    `earlier` gets those, by the row that follows. `together`: also if the later row is in another
    piece; then deletes come first, even of a key with a later row.

    Keys that are equal may differ in their cells: a row has those of the first row of its key, as
    if it had changed that one."""
    if not together and len(pieces) > 1:
        return [last for piece in pieces for last in last_ones([piece], earlier, together=True)]
    last_rows: dict[Value, int] = {}
    positions: dict[int, tuple[Piece, int]] = {}
    if len(pieces) == 1 and len(set(_keys(pieces[0]))) == len(pieces[0].rows):
        return pieces
    for piece in pieces:
        positions.update({row: (piece, at) for at, row in enumerate(piece.rows)})
        for column in piece.segment.keys:  # they are changed below, and may be the records' own
            piece.columns[column] = list(piece.columns[column])
    by_row = sorted(
        ((row, key) for piece in pieces for row, key in zip(piece.rows, _keys(piece), strict=True)),
        key=itemgetter(0),
    )
    for row, key in by_row:
        if key in last_rows:
            (piece, at), (later, place) = positions[last_rows[key]], positions[row]
            earlier[row] = piece.only([at])
            if later is piece:
                for column in piece.segment.keys:
                    piece.columns[column][place] = piece.columns[column][at]
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
    assert piece.keys is not None, "rows without known keys are written in order"
    return piece.keys
