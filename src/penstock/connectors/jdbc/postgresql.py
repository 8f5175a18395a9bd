"""How rows get into PostgreSQL: by COPY, straight into the table where they are only inserted, else
into a temporary table from which one statement upserts, updates or deletes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from penstock.connectors.jdbc.database import Connection
from penstock.connectors.jdbc.dialect import (
    Cells,
    ColumnFound,
    Dialect,
    Encoder,
    Segment,
    TableFound,
    TableName,
    UnmappedType,
    Wanted,
    Write,
)
from penstock.data.schema import Logical, Schema, Type, Value

_NULL: Final = "\\N"
_SPECIAL: Final = re.compile(r"[\\\t\n\r]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

_TABLE: Final = """\
SELECT c.relkind::text, c.relispartition, a.attname, format_type(a.atttypid, a.atttypmod),
  NOT a.attnotnull, a.atthasdef OR a.attidentity <> '',
  COALESCE(a.attnum = ANY(i.indkey), false)
FROM pg_class c
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.oid = to_regclass(%s) ORDER BY a.attnum"""
_KINDS: Final = {
    "r": "TABLE",
    "p": "PARTITIONED TABLE",
    "v": "VIEW",
    "m": "MATERIALIZED VIEW",
    "f": "FOREIGN TABLE",
}


class PostgreSql(Dialect):
    """PostgreSQL, from version 12 on."""

    quote = '"'
    most_parts = 2  # a connection sees one database
    types: ClassVar = {
        Type.INT8: "SMALLINT",
        Type.INT16: "SMALLINT",
        Type.INT32: "INT",
        Type.INT64: "BIGINT",
        Type.FLOAT32: "REAL",
        Type.FLOAT64: "DOUBLE PRECISION",
        Type.BOOLEAN: "BOOLEAN",
        Type.STRING: "TEXT",
        Type.BYTES: "BYTEA",
        Logical.DECIMAL: "DECIMAL",
        Logical.DATE: "DATE",
        Logical.TIME: "TIME",
        Logical.TIMESTAMP: "TIMESTAMP",
    }

    def table(self, connection: Connection, table: TableName) -> TableFound | None:
        rows = connection.rows(_TABLE, (self.qualified(table),))
        if not rows:
            return None
        columns = [ColumnFound(*row[2:]) for row in rows if row[2] is not None]
        return TableFound(_KINDS.get(rows[0][0], "OTHER"), tuple(columns))

    def column_type(self, wanted: Wanted) -> str:
        schema = wanted.schema
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            return f"{self.column_type(Wanted(wanted.name, schema.value_schema))}[]"
        return super().column_type(wanted)

    def boolean(self, value: bool) -> str:
        return "TRUE" if value else "FALSE"

    def binary(self, value: bytes) -> str:
        return f"'\\x{value.hex()}'"

    def encoder(self, schema: Schema, found: ColumnFound | None) -> Encoder:
        one = self._text_of(schema)
        plain = schema.type in _PLAIN and schema.logical is None

        def encode(cells: Cells, bad: dict[int, Exception]) -> list[Value]:
            if None not in cells:
                texts = list(map(one, cells))
                # To look at all of them at once is much cheaper than to look at each.
                if plain or not _SPECIAL.search("".join(texts)):
                    return texts
                return [text.translate(_ESCAPES) for text in texts]
            if plain:
                return [_NULL if cell is None else one(cell) for cell in cells]
            return [_NULL if cell is None else one(cell).translate(_ESCAPES) for cell in cells]

        return encode

    def _text_of(self, schema: Schema) -> Callable[[Value], str]:
        """How a value is written so that PostgreSQL reads it as any type that can mean it."""
        match schema.logical:
            case Logical.TIMESTAMP:
                # With its offset: a column without a zone ignores it, one with a zone needs it.
                zone = self.zone
                if zone.key == "UTC":
                    return str
                return lambda value: str(value.astimezone(zone))
            case Logical.DECIMAL | Logical.DATE | Logical.TIME:
                return str
        match schema.type:
            case Type.BYTES:
                return lambda value: f"\\x{value.hex()}"
            case Type.ARRAY if schema.value_schema is not None:
                return _array(self._text_of(schema.value_schema), schema.value_schema)
            case Type.MAP | Type.STRUCT | Type.ARRAY:
                raise UnmappedType(f"Unsupported source data type: {schema.type.name}")
            case Type.FLOAT32:
                return _float32
        return str

    def prepare(self, connection: Connection, segment: Segment) -> None:
        if segment.write is Write.INSERT:
            return
        columns = self.listed(segment.columns)
        connection.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {_stage(segment)} ON COMMIT DELETE ROWS AS "
            f"SELECT {columns} FROM {self.qualified(segment.table)} WITH NO DATA"
        )

    def begin_offset(self, table: TableName, mark: str) -> str:
        marks = ", ".join([mark] * 4)
        return f"INSERT INTO {self.qualified(table)} VALUES ({marks}) ON CONFLICT DO NOTHING"

    def check_at_once(self, connection: Connection) -> None:
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        lines = "\n".join(map("\t".join, zip(*columns, strict=True)))
        stage, names = _stage(segment), self.listed(segment.columns)
        if segment.write is Write.INSERT:
            self._copy(connection, self.qualified(segment.table), names, lines)
            return
        connection.execute(f"DELETE FROM {stage}")  # what an earlier segment left in it
        self._copy(connection, stage, names, lines)
        connection.execute(self._from_stage(segment, stage))

    def _copy(self, connection: Connection, table: str, names: str, lines: str) -> None:
        statement = f"COPY {table} ({names}) FROM STDIN"
        with (
            connection.errors(),
            connection.raw.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            copy.write(lines.encode())
            copy.write(b"\n")

    def _from_stage(self, segment: Segment, stage: str) -> str:
        table, names = self.qualified(segment.table), self.listed(segment.columns)
        keys = [self.quoted(segment.columns[at]) for at in segment.keys]
        others = [self.quoted(segment.columns[at]) for at in segment.others]
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        match segment.write:
            case Write.UPDATE:
                changes = ", ".join(f"{name} = s.{name}" for name in others)
                return f"UPDATE {table} AS t SET {changes} FROM {stage} AS s WHERE {same}"
            case Write.DELETE:
                return f"DELETE FROM {table} AS t USING {stage} AS s WHERE {same}"
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        then = f"UPDATE SET {changes}" if others else "NOTHING"
        return (
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {stage} "
            f"ON CONFLICT ({', '.join(keys)}) DO {then}"
        )


_PLAIN: Final = frozenset(
    {Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN}
)
"""Types whose texts need no escapes."""


def _float32(value: float) -> str:
    # As few digits as tell it from its neighbours: a REAL would take more, a TEXT would show them.
    return f"{value:.9g}"


def _stage(segment: Segment) -> str:
    said = repr((segment.write.value, segment.table.parts, segment.columns))
    return f"pg_temp.penstock_{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _array(one: Callable[[Value], str], schema: Schema) -> Callable[[Value], str]:
    nested = schema.type is Type.ARRAY

    def cell(value: Value) -> str:
        if value is None:
            return "NULL"
        text = one(value)
        if nested:
            return text
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    return lambda value: "{" + ",".join(map(cell, value)) + "}"
