"""Which of several writes with one key count, and which may go together.

A store that does the writes of a batch in any order must not get two of one key at once. Where each
write replaces or deletes the whole document, the last one of a key is enough; else they follow each
other in rounds.

>>> last_ones(["a", "b", "a", None, "a"])
{1: None, 3: None, 4: 2}
>>> rounds(["a", "b", "a", None, "a"])
[[0, 1, 3], [2], [4]]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from penstock.api import Records


def last_ones(keys: Sequence[Hashable | None]) -> dict[int, int | None]:
    """The rows that count, in order, each with the row before it that has the same key: the one to
    write instead if the store refuses it. A row without a key (None) stands for itself.

    For the row before that one, see `previous`.
    """
    before = previous(keys)
    replaced = set(before.values())
    return {row: before.get(row) for row in range(len(keys)) if row not in replaced}


def previous(keys: Sequence[Hashable | None]) -> dict[int, int]:
    """By row: the last row before it with the same key, where there is one."""
    last: dict[Hashable, int] = {}
    found: dict[int, int] = {}
    for row, key in enumerate(keys):
        if key is None:
            continue
        if key in last:
            found[row] = last[key]
        last[key] = row
    return found


def rounds(keys: Sequence[Hashable | None]) -> list[list[int]]:
    """The rows in rounds: no key occurs twice in one, and those of a key are in order."""
    seen: dict[Hashable, int] = {}
    found: list[list[int]] = []
    for row, key in enumerate(keys):
        number = 0
        if key is not None:
            number = seen.get(key, 0)
            seen[key] = number + 1
        while len(found) <= number:
            found.append([])
        found[number].append(row)
    return found


def pieces(rows: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """The rows in order, at most `most` at a time; 0: all together."""
    if not rows:
        return
    step = most or len(rows)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def identity(records: Records) -> Hashable:
    """What tells batches apart, of which there is at least one record. The engine repeats a batch
    as it was, so that a writer knows it again and goes on where it was interrupted."""
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
