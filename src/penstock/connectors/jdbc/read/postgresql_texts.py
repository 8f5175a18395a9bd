"""PostgreSQL's values as texts, and the rows of statements that COPY cannot run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, time
from typing import Any, Final

import pyarrow as pa

from penstock.connectors.jdbc.drivers.connection import BLOCK_ROWS
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.reading import block


def plain_rows(
    libpq: Any, statement: str, places: Mapping[int, SqlColumn]
) -> Iterator[pa.RecordBatch]:
    """The rows of a statement, with the columns of these places."""
    from psycopg import errors, pq

    columns = list(places.values())
    cells: list[list[Any]] = [[] for _ in columns]
    readers = [_READERS.get(column.type_name, _as_it_is(column)) for column in columns]
    libpq.send_query_params(statement.encode(), None)
    libpq.set_single_row_mode()
    failed = None
    while (result := libpq.get_result()) is not None:
        if result.status == pq.ExecStatus.SINGLE_TUPLE:
            for at, read, column_cells in zip(places, readers, cells, strict=True):
                value = result.get_value(0, at)
                column_cells.append(None if value is None else read(value.decode()))
            if len(cells[0]) == BLOCK_ROWS:
                yield _block(columns, cells)
                cells = [[] for _ in columns]
        elif result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            failed = failed or result
    if failed is not None:
        raise errors.error_from_result(failed)
    if cells[0]:
        yield _block(columns, cells)


def _block(columns: list[SqlColumn], cells: list[list[Any]]) -> pa.RecordBatch:
    arrays = [
        pa.array(values, pa.binary() if column.sql_type is Sql.BYTES else pa.string())
        for column, values in zip(columns, cells, strict=True)
    ]
    return block(columns, arrays)


def _as_it_is(column: SqlColumn) -> Callable[[str], Any]:
    if column.sql_type is Sql.BYTES:
        return from_hex if column.sql == "%" else packed
    if column.sql_type is Sql.BIT:  # as a signed byte, like Connect's INT8
        return lambda bits: str((int(bits, 2) + 128) % 256 - 128)
    return lambda text: text


def _instant(text: str) -> str:
    """A timestamp with a zone in UTC; as it is, if Python has no such time."""
    try:
        return str(datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None))
    except (ValueError, OverflowError):
        return text


def _clock(text: str) -> str:
    """A time with an offset in UTC."""
    at = time.fromisoformat(text)
    return str(datetime.combine(datetime(2000, 1, 2, tzinfo=UTC), at).astimezone(UTC).time())


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "timestamptz": _instant,
    "timetz": _clock,
    "money": lambda text: re.sub(r"[^\d.-]", "", text),
}


def from_hex(text: str) -> bytes:
    """The bytes of a `bytea`."""
    return bytes.fromhex(text[2:])  # without the leading \\x


def packed(bits: str) -> bytes:
    """Bits as bytes, the first bit highest, padded with zeros at the end.

    >>> packed("101000001")
    b'\\xa0\\x80'
    """
    size = -(-len(bits) // 8)
    return int(bits.ljust(size * 8, "0") or "0", 2).to_bytes(size, "big")
