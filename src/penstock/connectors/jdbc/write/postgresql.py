"""Writes rows to PostgreSQL by COPY: inserts go straight into the table, other rows into a
temporary table, from which one statement upserts, updates or deletes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from penstock.api.schema import Logical, Schema, Type, Value
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.write.dialect import (
    NUMBER,
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
    shorter_than,
    unchanged,
    unwritable,
    uuids,
    wall_time,
)

_NULL: Final = "\\N"
_SPECIAL: Final = re.compile(r"[\\\t\n\r]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

_TABLE: Final = """\
SELECT c.relkind::text, c.relispartition, a.attname, format_type(a.atttypid, a.atttypmod),
  NOT a.attnotnull, a.atthasdef OR a.attidentity <> '',
  COALESCE(a.attnum = ANY(i.indkey), false),
  (SELECT l.collname FROM pg_collation l
    WHERE l.oid = a.attcollation AND NOT l.collisdeterministic),
  EXISTS (SELECT FROM pg_index u,
    unnest(u.indkey::int2[], u.indcollation::oid[]) AS part (attnum, used),
    pg_collation l
    WHERE u.indrelid = c.oid AND u.indisunique AND part.attnum = a.attnum
    AND l.oid = part.used AND l.oid <> a.attcollation AND NOT l.collisdeterministic)
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
    """PostgreSQL since version 12."""

    max_parts = 2  # a connection sees one database
    types: Mapping[Type | Logical, str] = {
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

    def table(self, connection: Connection, table: TableName) -> ExistingTable | None:
        rows = connection.rows(_TABLE, (self.qualified(table),))
        if not rows:
            return None
        columns = [ExistingColumn(*row[2:]) for row in rows if row[2] is not None]
        return ExistingTable(_KINDS.get(rows[0][0], "OTHER"), tuple(columns))

    def column_type(self, wanted: Wanted) -> str:
        schema = wanted.schema
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            return f"{self.column_type(Wanted(wanted.name, schema.value_schema))}[]"
        return super().column_type(wanted)

    def boolean(self, value: bool) -> str:
        return "TRUE" if value else "FALSE"

    def binary(self, value: bytes) -> str:
        return f"'\\x{value.hex()}'"

    def forms(
        self, schemas: Sequence[Schema], existing: Sequence[ExistingColumn | None]
    ) -> tuple[str, ...]:
        forms: list[str] = []
        for schema, column in zip(schemas, existing, strict=True):
            type = column.type.partition("(")[0] if column is not None else ""
            form = _FORMS.get(type)
            if form is None or type not in _EXACT.get(schema.logical or schema.type, ()):
                return ()
            forms.append(form)
        return tuple(forms)

    def encoder(self, schema: Schema, form: str | None = None) -> Encoder:
        if form is not None:
            return self._plain(form)
        text_of = self._text_of(schema)
        plain = schema.type in _PLAIN and schema.logical is None

        def encode(cells: Cells, bad: dict[int, Exception]) -> list[Value]:
            try:
                texts = list(map(text_of, cells)) if None not in cells else None
            except (ValueError, OverflowError):  # `one_by_one` finds the bad ones
                texts = None
            if texts is not None:
                # A single search in all texts is much cheaper than one in each.
                if plain or not _SPECIAL.search("".join(texts)):
                    return texts
                return [text.translate(_ESCAPES) for text in texts]
            nullable = one_by_one(text_of, cells, bad)
            if plain:
                return [_NULL if text is None else text for text in nullable]
            return [_NULL if text is None else text.translate(_ESCAPES) for text in nullable]

        return encode

    def _plain(self, form: str) -> Encoder:
        zone = self.zone
        match form:
            case "time" if zone.key != "UTC":
                return partial(one_by_one, lambda cell: wall_time(cell, zone))
            case "timestamp":
                return partial(one_by_one, lambda cell: cell.astimezone(zone).replace(tzinfo=None))
        return lambda cells, bad: cells

    def _text_of(self, schema: Schema) -> Callable[[Value], str]:
        """The text of a value, which PostgreSQL can read as any suitable type."""
        match schema.logical:
            case Logical.TIMESTAMP:
                # With its offset: a column without a zone ignores it, one with a zone needs it.
                zone = self.zone
                if zone.key == "UTC":
                    return str
                return lambda value: str(value.astimezone(zone))
            case Logical.TIME:
                zone = self.zone
                return lambda value: str(wall_time(value, zone))
            case Logical.DECIMAL | Logical.DATE:
                return str
        match schema.type:
            case Type.BYTES:
                return lambda value: f"\\x{value.hex()}"
            case Type.ARRAY if schema.value_schema is not None:
                return _array(self._text_of(schema.value_schema), schema.value_schema)
            case Type.MAP | Type.STRUCT | Type.ARRAY:
                raise unwritable(schema)
            case Type.FLOAT32:
                return _float32
            case Type.FLOAT64:
                return _float64
        return str

    def identity(self, schema: Schema, column: ExistingColumn) -> Identity | None:
        type, _, modifier = column.type.partition("(")
        kind = schema.logical or schema.type
        if kind is Type.STRING and type == "uuid":
            return uuids
        if column.ambiguous or column.collation is not None or type not in _COMPARED.get(kind, ()):
            return None
        if "-" in modifier:  # numeric(3,-2) rounds
            return None
        match kind:
            case Type.STRING if modifier:
                return shorter_than(int(modifier.removesuffix(")")) + 1)
            case Logical.TIMESTAMP if modifier or (
                type == "timestamp without time zone" and self.zone.key != "UTC"
            ):
                return None  # rounds, or has two instants at one wall clock time
            case Logical.DECIMAL if modifier:
                scale = modifier.removesuffix(")").partition(",")[2]
                return unchanged if (schema.scale or 0) <= int(scale or 0) else None
        return unchanged

    def prepare(self, connection: Connection, segment: Segment) -> None:
        if segment.write is Write.INSERT:
            return
        self._create_stage(connection, _stage(segment), segment, self.listed(segment.columns))

    sequential = False

    def prepare_keys(self, connection: Connection, keys: Segment) -> None:
        columns = f"{self.listed(keys.columns)}, 0 AS {NUMBER}"
        self._create_stage(connection, f"{_stage(keys)}_k", keys, columns)

    def equal_keys(
        self, connection: Connection, keys: Segment, columns: Sequence[Cells]
    ) -> list[list[int]]:
        stage, names = f"{_stage(keys)}_k", self.listed(keys.columns)
        connection.execute(f"DELETE FROM {stage}")
        numbers: Cells = list(map(str, range(len(columns[0]))))
        self._copy(connection, f"{stage} ({names}, {NUMBER})", (), [*columns, numbers])
        rows = connection.rows(
            f"SELECT array_agg({NUMBER}) FROM {stage} GROUP BY {names} HAVING count(*) > 1"
        )
        return [group for (group,) in rows]

    def _create_stage(
        self, connection: Connection, stage: str, segment: Segment, columns: str
    ) -> None:
        connection.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {stage} ON COMMIT DELETE ROWS AS "
            f"SELECT {columns} FROM {self.qualified(segment.table)} WITH NO DATA"
        )

    def begin_offset(self, table: TableName, mark: str) -> str:
        marks = ", ".join([mark] * 4)
        return f"INSERT INTO {self.qualified(table)} VALUES ({marks}) ON CONFLICT DO NOTHING"

    def check_at_once(self, connection: Connection) -> None:
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        stage, names, forms = _stage(segment), self.listed(segment.columns), segment.forms
        if segment.write is Write.INSERT:
            self._copy(connection, f"{self.qualified(segment.table)} ({names})", forms, columns)
            return
        connection.execute(f"DELETE FROM {stage}")  # an earlier segment may have left rows
        self._copy(connection, f"{stage} ({names})", forms, columns)
        connection.execute(self._from_stage(segment, stage))

    def _copy(
        self,
        connection: Connection,
        into: str,
        forms: tuple[str, ...],
        columns: Sequence[Sequence[Value]],
    ) -> None:
        statement = f"COPY {into} FROM STDIN{' (FORMAT BINARY)' if forms else ''}"
        rows = zip(*columns, strict=True)
        with connection.errors(), connection.raw.cursor() as cursor, cursor.copy(statement) as copy:
            if forms:
                copy.set_types(forms)
                for row in rows:
                    copy.write_row(row)
            else:
                copy.write("\n".join(map("\t".join, rows)).encode())
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


_FORMS: Final = {
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "real": "float4",
    "double precision": "float8",
    "boolean": "bool",
    "text": "text",
    "character varying": "text",
    "bytea": "bytea",
    "numeric": "numeric",
    "date": "date",
    "time without time zone": "time",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
}
_EXACT: Final[Mapping[Type | Logical, tuple[str, ...]]] = {
    Type.INT8: ("smallint", "integer", "bigint"),
    Type.INT16: ("smallint", "integer", "bigint"),
    Type.INT32: ("integer", "bigint"),
    Type.INT64: ("bigint",),
    Type.FLOAT32: ("real", "double precision"),
    Type.FLOAT64: ("double precision",),
    Type.BOOLEAN: ("boolean",),
    Type.STRING: ("text", "character varying"),
    Type.BYTES: ("bytea",),
    Logical.DECIMAL: ("numeric",),
    Logical.DATE: ("date",),
    Logical.TIME: ("time without time zone",),
    Logical.TIMESTAMP: ("timestamp without time zone", "timestamp with time zone"),
}
"""Columns that hold any value of a type unchanged: rows are then sent in PostgreSQL's binary form,
which takes both sides less than half as long as texts (200,000 rows of five columns: 560,000
rows/s, as texts 150,000, by ADBC 270,000). Texts also fit types that are read from them: a UUID,
JSON, an enumeration."""

_COMPARED: Final[Mapping[Type | Logical, tuple[str, ...]]] = {
    **dict.fromkeys(
        (Type.INT8, Type.INT16, Type.INT32, Type.INT64),
        ("smallint", "integer", "bigint", "numeric", "text"),
    ),
    Type.BOOLEAN: ("boolean",),
    Type.STRING: ("text", "character varying"),
    Type.BYTES: ("bytea",),
    Logical.DECIMAL: ("numeric",),
    Logical.DATE: ("date",),
    Logical.TIMESTAMP: ("timestamp without time zone", "timestamp with time zone"),
}
"""Columns in which PostgreSQL considers values of a type equal exactly if Python does."""

_PLAIN: Final = frozenset(
    {Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN}
)
"""Types whose texts need no escapes."""


def _float32(value: float) -> str:
    # The fewest digits that distinguish it: a REAL would accept more, a TEXT would show them.
    return f"{value:.9g}"


def _float64(value: float) -> str:
    return str(value).removesuffix(".0")  # as PostgreSQL shows it; an INTEGER refuses a fraction


def _stage(segment: Segment) -> str:
    return f"pg_temp.{segment.stage}"


def _array(text_of: Callable[[Value], str], schema: Schema) -> Callable[[Value], str]:
    nested = schema.type is Type.ARRAY

    def cell(value: Value) -> str:
        if value is None:
            return "NULL"
        text = text_of(value)
        if nested:
            return text
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    return lambda value: "{" + ",".join(map(cell, value)) + "}"
