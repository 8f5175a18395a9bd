"""How rows get into SQLite: a prepared statement run for every row, inside SQLite itself."""

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
    ColumnFound,
    Dialect,
    Encoder,
    Segment,
    TableFound,
    TableName,
    Wanted,
    Write,
    one_by_one,
    unwritable,
)


class Sqlite(Dialect):
    """SQLite. Dates, times and timestamps are milliseconds since the epoch, as the JVM's driver
    stores them unless it is told otherwise."""

    most_parts = 2
    locking = ""  # the transaction holds the only lock there is
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

    def table(self, connection: Connection, table: TableName) -> TableFound | None:
        schema = f"{self.quoted(table.schema)}." if table.schema else ""
        kinds = connection.rows(
            f"SELECT type, name FROM {schema}sqlite_master "
            "WHERE type IN ('table', 'view') AND lower(name) = lower(?)",
            (table.name,),
        )
        if not kinds:
            return None
        kind, name = next((each for each in kinds if each[1] == table.name), kinds[0])
        rows = connection.rows(f"PRAGMA {schema}table_xinfo({self.quoted(name)})")
        keys = sum(1 for row in rows if row[5])
        columns = tuple(
            ColumnFound(
                name=row[1],
                type=row[2],
                nullable=not row[3],
                # The only INTEGER key is the row's number, which SQLite makes up.
                filled=row[4] is not None or (row[5] and keys == 1 and row[2].upper() == "INTEGER"),
                key=bool(row[5]),
            )
            for row in rows
            if row[6] != 1  # a column of a virtual table that is not to be seen
        )
        return TableFound(kind.upper(), columns)

    def add(self, table: TableName, wanted: Sequence[Wanted]) -> list[str]:
        name = self.qualified(table)
        return [f"ALTER TABLE {name} ADD {self.defined(each)}" for each in wanted]

    def encoder(self, schema: Schema, form: str | None = None) -> Encoder:
        one = _value_of(schema)
        if one is None:
            return lambda cells, bad: cells
        return partial(one_by_one, one)

    def begin_offset(self, table: TableName, mark: str) -> str:
        marks = ", ".join([mark] * 4)
        return f"INSERT OR IGNORE INTO {self.qualified(table)} VALUES ({marks})"

    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        order = (*segment.others, *segment.keys) if segment.write is Write.UPDATE else None
        chosen = [columns[at] for at in order] if order else columns
        connection.many(self._statement(segment), zip(*chosen, strict=True))

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
    """How a value is turned into one of SQLite's; None: it is one."""
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
