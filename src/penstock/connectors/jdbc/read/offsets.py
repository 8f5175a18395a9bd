"""How far a table has been read, in the words in which the JVM's connector stores it
(connectors.md §2.3), so that either goes on where the other stopped.

    {"protocol": "1", "table": "db.schema.table"}  the partition of a table
    {"table": "table"}                             what it was before protocol 1, and in mode bulk
    {"query": "query"}                             the partition of a query, whatever its text
    {"incrementing": 7, "timestamp": ms, "timestamp_nanos": nanoseconds of the second}

A bulk poll is stored by the JVM's connector as null. Here it says when it was planned, in ms, as
`polled`, so that a restart neither repeats nor leaves out one; the JVM's does not look at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.api import PenstockError, Primitive

QUERY: Final[Mapping[str, Primitive]] = {"query": "query"}

INCREMENTING: Final = "incrementing"
TIMESTAMP: Final = "timestamp"
NANOS: Final = "timestamp_nanos"
POLLED: Final = "polled"
PART: Final = "penstock.part"
FROM: Final = "penstock.from"
TO: Final = "penstock.to"


@dataclass(frozen=True, slots=True)
class Position:
    """The last row that was read: its incrementing column and its timestamp in microseconds since
    the epoch; None where the mode has none or nothing was read yet."""

    incrementing: int | None = None
    timestamp_us: int | None = None

    def stored(self) -> dict[str, Primitive]:
        """As it is stored.

        >>> Position(7, 1_500_250).stored()
        {'incrementing': 7, 'timestamp': 1500, 'timestamp_nanos': 500250000}
        """
        found: dict[str, Primitive] = {}
        if self.incrementing is not None:
            found[INCREMENTING] = self.incrementing
        if self.timestamp_us is not None:
            found[TIMESTAMP] = self.timestamp_us // 1000
            found[NANOS] = self.timestamp_us % 1_000_000 * 1000
        return found


def position(offset: Mapping[str, Primitive] | None) -> Position:
    """What a stored offset says; PenstockError for one that is no offset of a table.

    Without `timestamp_nanos`, as older versions stored it, the timestamp's milliseconds count.
    """
    if not offset:
        return Position()
    at, nanos = _whole(offset, TIMESTAMP), _whole(offset, NANOS)
    if at is not None and nanos is not None:
        if not 0 <= nanos < 1_000_000_000:
            raise PenstockError(
                f"The value for the '{NANOS}' key in the offset should be from 0 to 999999999, "
                f"not {nanos}"
            )
        at_us: int | None = at // 1000 * 1_000_000 + nanos // 1000
    else:
        at_us = None if at is None else at * 1000
    return Position(_whole(offset, INCREMENTING), at_us)


def polled(offset: Mapping[str, Primitive] | None) -> int | None:
    """When a bulk poll was planned, in ms; None: never."""
    return _whole(offset, POLLED) if offset else None


def _whole(offset: Mapping[str, Primitive], name: str) -> int | None:
    value = offset.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise PenstockError(
            f"The value for the '{name}' key in the offset is expected to be a Long value, "
            f"not {value!r}"
        )
    return value


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table by its names; empty where the database has no such thing."""

    catalog: str
    schema: str
    name: str

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)

    def partition(self, part: str = "") -> dict[str, Primitive]:
        """The source partition of the table, or of a part of it (`0/4`)."""
        whole: dict[str, Primitive] = {"protocol": "1", "table": str(self)}
        return {**whole, PART: part} if part else whole

    def partitions(self) -> list[dict[str, Primitive]]:
        """The source partitions under which the whole table may be stored, the likeliest first.
        Drivers of the JVM leave out the catalog, or say it, depending on their version."""
        short = f"{self.schema}.{self.name}" if self.schema else self.name
        names = dict.fromkeys((str(self), short, self.name))
        found: list[dict[str, Primitive]] = [{"protocol": "1", "table": each} for each in names]
        found += [{"table": each} for each in names]
        return found
