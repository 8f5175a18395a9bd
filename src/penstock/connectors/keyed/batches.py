"""Selects which of several writes with one key to execute, and which may be sent together.

A store that executes the writes of a batch in any order must not get two of one key at once. If
each write replaces or deletes the whole document, the last one of a key is enough; otherwise they
are sent in rounds.

>>> last_ones(["a", "b", "a", None, "a"])
{1: None, 3: None, 4: 2}
>>> rounds(["a", "b", "a", None, "a"])
[[0, 1, 3], [2], [4]]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from penstock.api import Records


def last_ones(keys: Sequence[Hashable | None]) -> dict[int, int | None]:
    """The last row of each key, in order, with the row of that key before it: the one to write
    instead if the store refuses the last. A row without a key (None) stands alone.

    For the row before that one, see `previous`.
    """
    predecessors = previous(keys)
    replaced = set(predecessors.values())
    return {row: predecessors.get(row) for row in range(len(keys)) if row not in replaced}


def previous(keys: Sequence[Hashable | None]) -> dict[int, int]:
    """By row: the last row before it with the same key, if any."""
    last: dict[Hashable, int] = {}
    predecessors: dict[int, int] = {}
    for row, key in enumerate(keys):
        if key is None:
            continue
        if key in last:
            predecessors[row] = last[key]
        last[key] = row
    return predecessors


def rounds(keys: Sequence[Hashable | None]) -> list[list[int]]:
    """The rows in rounds: no key occurs twice in one, and those of a key are in order."""
    counts: dict[Hashable, int] = {}
    grouped: list[list[int]] = []
    for row, key in enumerate(keys):
        number = 0
        if key is not None:
            number = counts.get(key, 0)
            counts[key] = number + 1
        while len(grouped) <= number:
            grouped.append([])
        grouped[number].append(row)
    return grouped


def pieces(rows: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """The rows in order, at most `most` at a time; 0: all together."""
    if not rows:
        return
    step = most or len(rows)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def identity(records: Records) -> Hashable:
    """Identifies a batch of at least one record. The engine repeats a batch unchanged, so that a
    writer recognizes it and continues where it was interrupted."""
    last = len(records) - 1
    return (
        len(records),
        records.topics[0],
        records.partitions[0],
        records.offsets[0],
        records.topics[last],
        records.partitions[last],
        records.offsets[last],
    )
