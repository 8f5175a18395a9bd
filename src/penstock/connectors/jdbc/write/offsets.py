"""The table of `penstock.exactly.once`: how far each topic partition was written, in the same
transaction as the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.write.dialect import OFFSET_COLUMNS, Dialect, TableName
from penstock.connectors.jdbc.write.tables import TableMismatch


def make_offsets(connection: Connection, dialect: Dialect, table: TableName) -> None:
    """Creates the table of `penstock.exactly.once` unless it is there."""
    if dialect.table(connection, table) is not None:
        return
    try:
        connection.execute(dialect.create_offsets(table))
    except DatabaseRefused as error:
        # Not every database has IF NOT EXISTS; another task may have been faster.
        if dialect.table(connection, table) is None:
            raise TableMismatch(
                f"penstock.exactly.once needs the table {table} (penstock.offsets.table), "
                f"which cannot be created: {error}"
            ) from error


def next_offsets(
    connection: Connection,
    dialect: Dialect,
    table: TableName,
    connector: str,
    places: Iterable[tuple[str, int]],
) -> dict[tuple[str, int], int]:
    """Where each partition goes on by the offsets table; locked until the transaction ends."""
    begin = dialect.begin_offset(table, connection.placeholder)
    next_offset, row = _offset_row(connection, dialect)
    select = f"SELECT {next_offset} FROM {dialect.qualified(table)} WHERE {row}{dialect.locking}"
    found = {}
    for place in sorted(places):
        connection.execute(begin, (connector, *place, 0))
        found[place] = int(connection.rows(select, (connector, *place))[0][0])
    return found


def store_offsets(
    connection: Connection,
    dialect: Dialect,
    table: TableName,
    connector: str,
    reached: Mapping[tuple[str, int], int],
) -> None:
    """Makes the offsets table say where each partition goes on; those it knows only, if not
    locked by `next_offsets` before."""
    next_offset, row = _offset_row(connection, dialect)
    changed = f"{next_offset} = {connection.placeholder}"
    update = f"UPDATE {dialect.qualified(table)} SET {changed} WHERE {row}"
    for place, at in sorted(reached.items()):
        connection.execute(update, (at, connector, *place))


def _offset_row(connection: Connection, dialect: Dialect) -> tuple[str, str]:
    """The offsets table's column for offsets, and what holds for the row of a partition."""
    *keys, next_offset = (dialect.quoted(name) for name in OFFSET_COLUMNS)
    return next_offset, " AND ".join(f"{key} = {connection.placeholder}" for key in keys)
