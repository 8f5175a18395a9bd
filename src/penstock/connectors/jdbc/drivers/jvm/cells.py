"""Moves cells between a JDBC driver and Arrow, a column at a time; `Rows.java` is the Java side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from penstock.connectors.jdbc.drivers.connection import Connection, Row
from penstock.connectors.jdbc.drivers.errors import RowRefused
from penstock.connectors.jdbc.drivers.jvm.machine import closing, compiled_class, jvm
from penstock.connectors.jdbc.drivers.moments import clock_shift
from penstock.connectors.jdbc.drivers.types import ARROW, NANOS, Sql

_BLOCK_BYTES: Final = 1 << 24

TYPES: Final[dict[int, tuple[Sql, str]]] = {
    # java.sql.Types: our type of the column, and the letter by which `Rows.java` reads it.
    -7: (Sql.BIT, "l"),
    16: (Sql.BOOLEAN, "l"),
    -6: (Sql.TINYINT, "l"),
    5: (Sql.SMALLINT, "l"),
    4: (Sql.INTEGER, "l"),
    -5: (Sql.BIGINT, "l"),
    7: (Sql.REAL, "d"),
    6: (Sql.DOUBLE, "d"),
    8: (Sql.DOUBLE, "d"),
    2: (Sql.NUMERIC, "n"),
    3: (Sql.DECIMAL, "n"),
    1: (Sql.STRING, "s"),
    12: (Sql.STRING, "s"),
    -1: (Sql.STRING, "s"),
    -15: (Sql.STRING, "s"),
    -9: (Sql.STRING, "s"),
    -16: (Sql.STRING, "s"),
    70: (Sql.STRING, "s"),  # DATALINK
    2005: (Sql.STRING, "c"),
    2011: (Sql.STRING, "c"),
    2009: (Sql.STRING, "x"),
    -2: (Sql.BYTES, "b"),
    -3: (Sql.BYTES, "b"),
    -4: (Sql.BYTES, "b"),
    2004: (Sql.BYTES, "B"),
    91: (Sql.DATE, "D"),
    92: (Sql.TIME, "T"),
    2013: (Sql.TIME, "Z"),
    93: (Sql.TIMESTAMP, "M"),
    2014: (Sql.TIMESTAMP, "M"),
    # Database-specific.
    100: (Sql.REAL, "d"),  # Oracle's BINARY_FLOAT
    101: (Sql.DOUBLE, "d"),  # BINARY_DOUBLE
    -101: (Sql.TIMESTAMP, "M"),  # TIMESTAMP WITH TIME ZONE
    -102: (Sql.TIMESTAMP, "M"),  # WITH LOCAL TIME ZONE
    -155: (Sql.TIMESTAMP, "M"),  # SQL Server's DATETIMEOFFSET
}
ZONED: Final = frozenset({2013, 2014, -101, -102, -155})
_DEFAULT: Final = (Sql.STRING, "s")


FailedCells = list[tuple[int, int, str, str]]
"""Cells that a driver cannot convert: the column, the row, its value as a text, and why."""


def kinds_of(result: Any) -> list[tuple[Sql, str]]:
    metadata = result.getMetaData()
    return [_kind(metadata, at) for at in range(1, int(metadata.getColumnCount()) + 1)]


def digits_of(metadata: Any, at: int) -> int:
    """How many digits of a second a timestamp column has, at most nine."""
    return min(9, max(0, int(metadata.getScale(at))))


def _kind(metadata: Any, at: int) -> tuple[Sql, str]:
    sql_type, letter = TYPES.get(int(metadata.getColumnType(at)), _DEFAULT)
    return sql_type, "F" if letter == "M" and digits_of(metadata, at) > 6 else letter


def tuples(
    result: Any, kinds: Sequence[tuple[Sql, str]], size: int, skipped: int = 0
) -> Iterator[list[Row]]:
    for block, failed in blocks(result, kinds, size, skipped):
        for _, _, value, why in failed:
            raise RowRefused(f"cannot read {value!r}: {why}")
        columns = [
            [None if text is None else Decimal(text) for text in cells.to_pylist()]
            if letter == "n"
            else cells.to_pylist()
            for cells, (_, letter) in zip(block, kinds, strict=True)
        ]
        yield list(zip(*columns, strict=True))


def blocks(
    result: Any, kinds: Sequence[tuple[Sql, str]], size: int, skipped: int = 0
) -> Iterator[tuple[list[pa.Array], FailedCells]]:
    """The rows of a result, by column, and those of their cells that are null because the driver
    cannot convert them."""
    reader = compiled_class("Reader")(result, "".join(letter for _, letter in kinds), size)
    if not reader.skip(skipped):
        return
    while count := int(reader.fill(_BLOCK_BYTES)):
        failed = [
            (int(str(at)), int(str(row)), str(value), str(why))
            for at, row, value, why in reader.failed
        ]
        yield [_array(reader, at, count, *kind) for at, kind in enumerate(kinds)], failed


def _array(reader: Any, at: int, count: int, sql_type: Sql, letter: str) -> pa.Array:
    nulls = int(reader.nulls[at])
    valid = pa.py_buffer(bytes(memoryview(reader.valid[at]))) if nulls else None
    arrow_type = ARROW[sql_type]
    if letter in "nscxbB":
        ends = np.array(reader.ends[at])[: count + 1]
        data = np.array(reader.bytes[at])[: ends[-1]]
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(arrow_type, count, buffers, nulls)
    if letter == "d":
        cells = np.array(reader.fractions[at])[:count]
        return pa.Array.from_buffers(pa.float64(), count, [valid, pa.py_buffer(cells)], nulls)
    cells = np.array(reader.numbers[at])[:count]
    array = pa.Array.from_buffers(pa.int64(), count, [valid, pa.py_buffer(cells)], nulls)
    if arrow_type == pa.int64():
        return array
    if sql_type is Sql.DATE:
        array = array.cast(pa.int32())
    array = array.cast(arrow_type)
    if letter != "F":
        return array
    rests = pa.array(np.array(reader.rests[at])[:count])
    mask = array.is_null() if nulls else None
    return pa.StructArray.from_arrays([array, rests], fields=list(NANOS), mask=mask)


class Batch:
    """Rows, by column, to run statements for. Cells of one column are of one kind. `types` are the
    java.sql.Types of the columns (0: unknown). Moments are written to columns without a time zone
    in `zone`."""

    def __init__(self, columns: Sequence[Sequence[Any]], types: Sequence[int], zone: str) -> None:
        self.count = len(columns[0])
        self._cells = [
            # A column with a zone holds instants, to which `zone` does not apply.
            written(cells, "UTC" if type in ZONED else zone)
            for type, cells in zip(types, columns, strict=True)
        ]
        self._types = [
            type or _NULLS[letter] for type, (letter, _) in zip(types, self._cells, strict=True)
        ]

    def run(
        self,
        connection: Connection,
        sql: str,
        order: Iterable[int],
        rows: Sequence[int] | None = None,
        *,
        counted: bool = False,
    ) -> list[int]:
        """Runs a statement for all rows, or for `rows`; `order` are the columns of its parameters.
        Returns how many rows each run changed: -2 if the driver does not report it, never with
        `counted`."""
        jpype = jvm()
        integers = jpype.JArray(jpype.JInt)
        row_numbers = integers(list(range(self.count) if rows is None else rows))
        columns = integers(list(order))
        with connection.errors():
            changed = self._run(connection, sql, row_numbers, columns, singly=False)
            if counted and any(count < 0 for count in changed):
                # Running the statements a second time changes nothing more.
                changed = self._run(connection, sql, row_numbers, columns, singly=True)
        return changed

    def _run(
        self, connection: Connection, sql: str, rows: Any, order: Any, *, singly: bool
    ) -> list[int]:
        jpype = jvm()
        with closing(connection.raw.prepareStatement(sql)) as statement:
            letters = "".join(letter for letter, _ in self._cells)
            types = jpype.JArray(jpype.JInt)(self._types)
            writer = compiled_class("Writer")(statement, letters, types)
            for at, (letter, cells) in enumerate(self._cells):
                _hand_over(jpype, writer, at, letter, cells)
            changed = writer.runSingly(rows, order) if singly else writer.run(rows, order)
            return [int(count) for count in np.array(changed)]


_DAY_US: Final = 86_400_000_000
_NULLS: Final = {
    "l": -5, "z": 16, "d": 8, "n": 2, "s": 12, "b": -3, "D": 91, "T": 92, "M": 93,
}  # fmt: skip
_LETTERS: Final = (
    (pa.types.is_boolean, "z", pa.int64()),
    (pa.types.is_integer, "l", pa.int64()),
    (pa.types.is_floating, "d", pa.float64()),
    (pa.types.is_decimal, "n", None),
    (pa.types.is_string, "s", pa.string()),
    (pa.types.is_binary, "b", pa.binary()),
    (pa.types.is_date, "D", pa.int64()),
    (pa.types.is_time, "T", pa.int64()),
    (pa.types.is_timestamp, "M", pa.int64()),
)


def written(cells: Sequence[Any], zone: str) -> tuple[str, pa.Array]:
    """The letter of a column's kind, and its cells as an Arrow array; moments become wall clock
    times in `zone`.

    >>> from datetime import UTC, datetime
    >>> written([datetime(1970, 1, 1, tzinfo=UTC), None], "Etc/GMT-2")[1].to_pylist()
    [7200000000, None]
    """
    array = pa.array(cells)
    if pa.types.is_null(array.type):
        return "s", array.cast(pa.string())
    for is_kind, letter, sent_as in _LETTERS:
        if not is_kind(array.type):
            continue
        if letter == "n":
            texts = [None if cell is None else format(cell, "f") for cell in cells]
            return letter, pa.array(texts, pa.string())
        if letter == "T":
            return letter, _clock(array.cast(pa.time64("us")).cast(sent_as), zone)
        if letter == "M":
            array = array.cast(pa.timestamp("us", array.type.tz))
            if array.type.tz is not None and zone != "UTC":
                import pyarrow.compute as pc  # here, so that a worker starts without it

                array = pc.local_timestamp(array.cast(pa.timestamp("us", zone)))
            return letter, array.cast(sent_as)
        if letter == "D":
            return letter, array.cast(pa.date32()).cast(pa.int32()).cast(sent_as)
        return letter, array.cast(sent_as)
    raise RowRefused(f"{array.type} cannot be stored in a column")


def _clock(cells: pa.Array, zone: str) -> pa.Array:
    """Times in UTC as wall clock times in the zone."""
    shift = clock_shift(ZoneInfo(zone)) // timedelta(microseconds=1)
    if not shift:
        return cells
    local = [None if us is None else (us + shift) % _DAY_US for us in cells.to_pylist()]
    return pa.array(local, pa.int64())


def _hand_over(jpype: Any, writer: Any, at: int, letter: str, cells: pa.Array) -> None:
    valid = None
    if cells.null_count:
        bits = np.packbits(cells.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        valid = jpype.JArray(jpype.JByte)(bits.view(np.int8))
    if letter in "nsb":
        _, ends, data = cells.buffers()
        offsets = np.frombuffer(ends, np.int32)[cells.offset : cells.offset + len(cells) + 1]
        start, stop = int(offsets[0]), int(offsets[-1])
        used = np.frombuffer(data, np.int8)[start:stop] if data is not None else np.empty(0, "i1")
        writer.bytes(
            at,
            valid,
            jpype.JArray(jpype.JInt)(offsets - start),
            jpype.JArray(jpype.JByte)(used),
        )
        return
    values = cells.fill_null(0).to_numpy(zero_copy_only=False)
    if letter == "d":
        writer.fractions(at, valid, jpype.JArray(jpype.JDouble)(values))
    else:
        writer.numbers(at, valid, jpype.JArray(jpype.JLong)(values))
