"""The table of `penstock.exactly.once`: how far each topic partition was written, in the same
transaction as the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.write.dialect import OFFSET_COLUMNS, Dialect, TableName
from penstock.connectors.jdbc.write.tables import TableMismatch


def make_offsets(connection: Connection, dialect: Dialect, table: TableName) -> None:
    """Creates the table of `penstock.exactly.once`, unless it exists."""
    if dialect.table(connection, table) is not None:
        return
    try:
        connection.execute(dialect.create_offsets(table))
    except DatabaseRefused as error:
        # Not every database has IF NOT EXISTS, and another task may have been faster.
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
    topic_partitions: Iterable[tuple[str, int]],
) -> dict[tuple[str, int], int]:
    """The next offset of each topic partition in the offsets table, whose rows stay locked until
    the transaction ends."""
    begin = dialect.begin_offset(table, connection.placeholder)
    next_offset, row = _offset_row(connection, dialect)
    select = f"SELECT {next_offset} FROM {dialect.qualified(table)} WHERE {row}{dialect.locking}"
    next_by_partition = {}
    for topic_partition in sorted(topic_partitions):
        connection.execute(begin, (connector, *topic_partition, 0))
        rows = connection.rows(select, (connector, *topic_partition))
        next_by_partition[topic_partition] = int(rows[0][0])
    return next_by_partition


def store_offsets(
    connection: Connection,
    dialect: Dialect,
    table: TableName,
    connector: str,
    next_by_partition: Mapping[tuple[str, int], int],
) -> None:
    """Stores the next offset of each topic partition. Only updates rows: `next_offsets` creates
    and locks them."""
    next_offset, row = _offset_row(connection, dialect)
    changed = f"{next_offset} = {connection.placeholder}"
    update = f"UPDATE {dialect.qualified(table)} SET {changed} WHERE {row}"
    for topic_partition, offset in sorted(next_by_partition.items()):
        connection.execute(update, (offset, connector, *topic_partition))


def _offset_row(connection: Connection, dialect: Dialect) -> tuple[str, str]:
    """The offsets table's column for offsets, and the condition for the row of a partition."""
    *keys, next_offset = (dialect.quoted(name) for name in OFFSET_COLUMNS)
    return next_offset, " AND ".join(f"{key} = {connection.placeholder}" for key in keys)
