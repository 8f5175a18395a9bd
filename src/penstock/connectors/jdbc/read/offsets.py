"""Source offsets of tables in the format of the JVM's connector (connectors.md §2.3), so that each
connector can resume where the other stopped.

    {"protocol": "1", "table": "db.schema.table"}  the partition of a table
    {"table": "table"}                             the same before protocol 1, and in mode bulk
    {"query": "query"}                             the partition of any query
    {"incrementing": 7, "timestamp": ms, "timestamp_nanos": nanoseconds of the second}

The JVM's connector stores null for a bulk poll. Here `polled` is the time at which the poll was
planned, in ms, so that a restart neither repeats nor skips one; the JVM's connector ignores it.
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
    """The incrementing column of the last row read, and its timestamp in nanoseconds since the
    epoch; None where the mode has none or no row was read yet."""

    incrementing: int | None = None
    timestamp_ns: int | None = None

    def stored(self) -> dict[str, Primitive]:
        """The source offset of the position.

        >>> Position(7, 1_500_250_001).stored()
        {'incrementing': 7, 'timestamp': 1500, 'timestamp_nanos': 500250001}
        """
        offset: dict[str, Primitive] = {}
        if self.incrementing is not None:
            offset[INCREMENTING] = self.incrementing
        if self.timestamp_ns is not None:
            offset[TIMESTAMP] = self.timestamp_ns // 1_000_000
            offset[NANOS] = self.timestamp_ns % 1_000_000_000
        return offset


def position(offset: Mapping[str, Primitive] | None) -> Position:
    """The position of a stored offset; raises PenstockError if it is not one of a table.

    Without `timestamp_nanos`, as in older versions' offsets, the timestamp's milliseconds count.
    """
    if not offset:
        return Position()
    at_ms, nanos = _whole(offset, TIMESTAMP), _whole(offset, NANOS)
    if at_ms is not None and nanos is not None:
        if not 0 <= nanos < 1_000_000_000:
            raise PenstockError(
                f"The value for the '{NANOS}' key in the offset should be from 0 to 999999999, "
                f"not {nanos}"
            )
        at_ns: int | None = at_ms // 1000 * 1_000_000_000 + nanos
    else:
        at_ns = None if at_ms is None else at_ms * 1_000_000
    return Position(_whole(offset, INCREMENTING), at_ns)


def polled(offset: Mapping[str, Primitive] | None) -> int | None:
    """The time at which a bulk poll was planned, in ms; None: never."""
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
    """The names of a table; empty where the database has no catalogs or schemas."""

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
        Drivers of the JVM include or omit the catalog, depending on their version."""
        short = f"{self.schema}.{self.name}" if self.schema else self.name
        names = dict.fromkeys((str(self), short, self.name))
        partitions: list[dict[str, Primitive]]
        partitions = [{"protocol": "1", "table": name} for name in names]
        partitions += [{"table": name} for name in names]
        return partitions
