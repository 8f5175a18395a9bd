"""The commands of a batch, packed, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.connectors.redis.client.packing import pack


@dataclass(slots=True)
class Commands:
    """What is sent: of each command its row, its key and its bytes. `more` are second commands by
    the number of the first: they follow at once, and are of the same key.

    `once`: the numbers of those that must not be repeated without need, such as an entry of a list.
    `replaces`: each one replaces or deletes all that its key holds.
    """

    rows: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    more: dict[int, bytes] = field(default_factory=dict)
    once: set[int] = field(default_factory=set)
    replaces: bool = False

    def add(self, row: int, key: bytes, data: bytes, *, ttl_s: int = 0, once: bool = False) -> None:
        """Adds a command; with a `ttl_s`, the key expires after so many seconds."""
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
        """How many bytes are sent for a command."""
        return len(self.data[number]) + len(self.more.get(number, b""))

    def replies(self, number: int) -> int:
        """How many replies there are to a command."""
        return 2 if number in self.more else 1

    def bytes_of(self, numbers: Sequence[int]) -> list[bytes]:
        """What is sent for these."""
        if not self.more:
            data = self.data
            return [data[number] for number in numbers]
        sent = []
        for number in numbers:
            sent.append(self.data[number])
            if number in self.more:
                sent.append(self.more[number])
        return sent

    def cut(self, numbers: Sequence[int], records: int, size: int) -> list[Sequence[int]]:
        """The numbers of each pipeline: so many at most, and so many bytes unless it is one."""
        cuts: list[Sequence[int]] = []
        start = held = 0
        for at, number in enumerate(numbers):
            more = self.size(number)
            if at > start and (at - start >= records or held + more > size):
                cuts.append(numbers[start:at])
                start, held = at, 0
            held += more
        if start < len(numbers):
            cuts.append(numbers[start:])
        return cuts
