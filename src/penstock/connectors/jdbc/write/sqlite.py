"""Writes rows to SQLite with a prepared statement, which SQLite itself runs for every row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.api.schema import (
    Logical,
    Schema,
    Type,
    Value,
    date_to_days,
    time_to_ms,
    timestamp_to_ms,
)
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.write.dialect import (
    Cells,
    Dialect,
    Encoder,
    ExistingColumn,
    ExistingTable,
    Identity,
    Segment,
    TableName,
    Wanted,
    Write,
    one_by_one,
    unchanged,
    unwritable,
)


class Sqlite(Dialect):
    """SQLite. Dates, times and timestamps are milliseconds since the epoch, the default of the
    JVM's driver."""

    max_parts = 2
    locking = ""  # the transaction holds SQLite's only lock
    types: Mapping[Type | Logical, str] = {
        Type.INT8: "INTEGER",
        Type.INT16: "INTEGER",
        Type.INT32: "INTEGER",
        Type.INT64: "INTEGER",
        Type.FLOAT32: "REAL",
        Type.FLOAT64: "REAL",
        Type.BOOLEAN: "INTEGER",
        Type.STRING: "TEXT",
        Type.BYTES: "BLOB",
        Logical.DECIMAL: "NUMERIC",
        Logical.DATE: "NUMERIC",
        Logical.TIME: "NUMERIC",
        Logical.TIMESTAMP: "NUMERIC",
    }

    def table(self, connection: Connection, table: TableName) -> ExistingTable | None:
        schema = f"{self.quoted(table.schema)}." if table.schema else ""
        matching = connection.rows(
            f"SELECT type, name FROM {schema}sqlite_master "
            "WHERE type IN ('table', 'view') AND lower(name) = lower(?)",
            (table.name,),
        )
        if not matching:
            return None
        kind, name = next((row for row in matching if row[1] == table.name), matching[0])
        # SQLite reports the collation of an index, but not that of a column.
        collates = connection.rows(
            f"SELECT 1 FROM {schema}sqlite_master "
            "WHERE tbl_name = ? AND lower(sql) LIKE '%collate%'",
            (name,),
        )
        rows = connection.rows(f"PRAGMA {schema}table_xinfo({self.quoted(name)})")
        keys = sum(1 for row in rows if row[5])
        columns = tuple(
            ExistingColumn(
                name=row[1],
                type=row[2],
                nullable=not row[3],
                # A single INTEGER key is the row's number, which SQLite generates.
                filled=row[4] is not None or (row[5] and keys == 1 and row[2].upper() == "INTEGER"),
                key=bool(row[5]),
                collation="unknown" if collates or kind == "view" else None,
            )
            for row in rows
            if row[6] != 1  # a hidden column of a virtual table
        )
        return ExistingTable(kind.upper(), columns)

    def add(self, table: TableName, wanted: Sequence[Wanted]) -> list[str]:
        name = self.qualified(table)
        return [f"ALTER TABLE {name} ADD {self.defined(column)}" for column in wanted]

    def encoder(self, schema: Schema, form: str | None = None) -> Encoder:
        convert = _value_of(schema)
        if convert is None:
            return lambda cells, bad: cells
        return partial(one_by_one, convert)

    def identity(self, schema: Schema, column: ExistingColumn) -> Identity | None:
        type = column.type.upper()
        match schema.logical or schema.type:
            case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
                return unchanged if "INT" in type else None
            case Type.STRING:
                textual = any(word in type for word in ("CHAR", "CLOB", "TEXT"))
                if textual and "INT" not in type and column.collation is None:
                    return unchanged
            case Type.BYTES:
                return unchanged if not type or "BLOB" in type else None
        return None

    def begin_offset(self, table: TableName, mark: str) -> str:
        marks = ", ".join([mark] * 4)
        return f"INSERT OR IGNORE INTO {self.qualified(table)} VALUES ({marks})"

    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        order = (*segment.others, *segment.keys) if segment.write is Write.UPDATE else None
        ordered = [columns[at] for at in order] if order else columns
        connection.many(self._statement(segment), zip(*ordered, strict=True))

    def _statement(self, segment: Segment) -> str:
        table, names = self.qualified(segment.table), self.listed(segment.columns)
        same = " AND ".join(f"{self.quoted(segment.columns[at])} = ?" for at in segment.keys)
        match segment.write:
            case Write.UPDATE:
                changed = (segment.columns[at] for at in segment.others)
                changes = ", ".join(f"{self.quoted(name)} = ?" for name in changed)
                return f"UPDATE {table} SET {changes} WHERE {same}"
            case Write.DELETE:
                return f"DELETE FROM {table} WHERE {same}"
        verb = "INSERT" if segment.write is Write.INSERT else "INSERT OR REPLACE"
        marks = ", ".join("?" * len(segment.columns))
        return f"{verb} INTO {table} ({names}) VALUES ({marks})"


def _value_of(schema: Schema) -> Callable[[Value], Value] | None:
    """Converts values of a schema to SQLite's; None: they need no conversion."""
    match schema.logical:
        case Logical.DECIMAL:
            return lambda value: format(value, "f")
        case Logical.DATE:
            return lambda value: date_to_days(value) * 86_400_000
        case Logical.TIME:
            return time_to_ms
        case Logical.TIMESTAMP:
            return timestamp_to_ms
    if schema.type is Type.BOOLEAN:
        return int
    if not schema.type.is_primitive:
        raise unwritable(schema)
    return None
