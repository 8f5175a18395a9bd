"""The commands of a batch, packed, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.connectors.redis.client.packing import pack


@dataclass(slots=True)
class Commands:
    """Packed commands with their rows and keys. `more`: second commands by the number of the first
    one, right after it, with the same key.

    `once`: the numbers of commands that must not be repeated needlessly, such as entries of lists.
    `replaces`: each command replaces or deletes the whole value of its key.
    """

    rows: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    more: dict[int, bytes] = field(default_factory=dict)
    once: set[int] = field(default_factory=set)
    replaces: bool = False

    def add(self, row: int, key: bytes, data: bytes, *, ttl_s: int = 0, once: bool = False) -> None:
        """Adds a command; with `ttl_s`, also the expiry of its key."""
        if ttl_s > 0:
            self.more[len(self.rows)] = pack(b"EXPIRE", key, b"%d" % ttl_s)
        if once:
            self.once.add(len(self.rows))
        self.rows.append(row)
        self.keys.append(key)
        self.data.append(data)

    def __len__(self) -> int:
        return len(self.rows)

    def size(self, number: int) -> int:
        """The size of a command in bytes."""
        return len(self.data[number]) + len(self.more.get(number, b""))

    def replies(self, number: int) -> int:
        """The number of replies to a command."""
        return 2 if number in self.more else 1

    def bytes_of(self, numbers: Sequence[int]) -> list[bytes]:
        """The bytes of these commands."""
        if not self.more:
            data = self.data
            return [data[number] for number in numbers]
        parts = []
        for number in numbers:
            parts.append(self.data[number])
            if number in self.more:
                parts.append(self.more[number])
        return parts

    def cut(self, numbers: Sequence[int], records: int, size: int) -> list[Sequence[int]]:
        """Splits numbers into pipelines of at most `records` commands and, unless it is a single
        one, `size` bytes."""
        cuts: list[Sequence[int]] = []
        start = total = 0
        for index, number in enumerate(numbers):
            added = self.size(number)
            if index > start and (index - start >= records or total + added > size):
                cuts.append(numbers[start:index])
                start, total = index, 0
            total += added
        if start < len(numbers):
            cuts.append(numbers[start:])
        return cuts
