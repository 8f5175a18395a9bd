"""What a store must hold, by the topic and the dead letters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sent:
    """A record in the topic; `number` None is a tombstone."""

    partition: int
    offset: int
    key: str
    number: int | None

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


@dataclass
class Difference:
    """Descriptions of what is lost, wrong, or out of order; how many records are there again."""

    lost: list[object] = field(default_factory=list)
    wrong: list[object] = field(default_factory=list)
    unordered: list[object] = field(default_factory=list)
    repeated: int = 0


def compare_keys(
    sent: Iterable[Sent], dead: Set[tuple[int, int]], stored: Iterable[tuple[str, int]]
) -> Difference:
    """Compares a store of the last record of each key. A dead letter after that record may be there
    instead: it may have been written before an answer was lost."""
    allowed: dict[str, set[int | None]] = defaultdict(lambda: {None})
    for row in sorted(sent, key=lambda row: row.place):
        if row.place in dead:
            allowed[row.key].add(row.number)
        else:
            allowed[row.key] = {row.number}
    found = dict(stored)
    difference = Difference()
    for key, numbers in allowed.items():
        if found.get(key) not in numbers:
            wanted = ", ".join(sorted(str(number) for number in numbers))
            kind = difference.wrong if key in found else difference.lost
            kind.append(f"{key}: stored {found.get(key)}, allowed {wanted}")
    difference.wrong += [f"{key}: not in the topic" for key in found.keys() - allowed.keys()]
    return difference


def compare_records(
    sent: Sequence[Sent],
    dead: Set[tuple[int, int]],
    stored: Iterable[tuple[str, int]],
    stream: Callable[[str, int], object] = lambda key, number: None,
) -> Difference:
    """Compares a store that appends, in its order; the records of a partition and a
    `stream` are in the order of the partition.

    Each task begins where its predecessor committed, or before, and appends every record from there
    on. So a record may be there again, also after later ones, but the first occurrences are in the
    order of their partition: no record comes before an earlier one that the store does not have
    yet. A dead letter is in no order: it may be there, and another task may append it later."""
    numbers = [number for _, number in stored]
    counts = Counter(numbers)
    known = {row.number: row for row in sent}
    difference = Difference(repeated=len(numbers) - len(counts))
    difference.lost += [row for row in sent if row.number not in counts and row.place not in dead]
    difference.wrong += [f"{number}: not in the topic" for number in counts.keys() - known.keys()]
    last: dict[object, int] = {}
    for number in counts:  # in the order of their first occurrences
        row = known.get(number)
        if row is None or row.place in dead:
            continue
        place = row.partition, stream(row.key, number)
        if row.offset < last.get(place, -1):
            difference.unordered.append(row)
        last[place] = max(row.offset, last.get(place, -1))
    return difference
