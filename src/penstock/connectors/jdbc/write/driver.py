"""Writes rows through a JDBC driver, with prepared statements that run for many rows at once.

The driver describes tables (`DatabaseMetaData`), as for the JVM's connectors.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from datetime import date, datetime, time
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from penstock.api.schema import Logical, Schema, Type, Value
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import RowRefused
from penstock.connectors.jdbc.drivers.jvm.cells import Batch
from penstock.connectors.jdbc.drivers.jvm.connection import BASE_TABLE, DriverConnection, metadata
from penstock.connectors.jdbc.drivers.products import Product, Upsert
from penstock.connectors.jdbc.write.dialect import (
    OFFSET_COLUMNS,
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
    wall_time,
)

_FLOATS = (Type.FLOAT32, Type.FLOAT64)
_WHOLE = (-6, 5, 4, -5, 2, 3)  # java.sql.Types: TINYINT, …, BIGINT, NUMERIC, DECIMAL


class Generic(Dialect):
    """A database behind a JDBC driver. `holds_lock`: MERGE locks the keys that it does not find,
    if the database can."""

    max_parts = 3

    def __init__(
        self, zone: ZoneInfo, product: Product, *, quoting: bool = True, holds_lock: bool = True
    ) -> None:
        super().__init__(zone, quoting=quoting)
        self._product = product
        self.quotes = product.quotes or self.quotes
        self.types = product.types
        self.creates = product.create
        self.offset_types = ("VARCHAR(249)", product.types[Type.INT64])
        if product.upsert is Upsert.SELECT:
            # SQL Server has no FOR UPDATE; the later UPDATE detects that it came too late.
            self.locking = ""
        self._holds_lock = holds_lock and product.holds_lock
        self._sql_types: dict[tuple[str, str], int] = {}

    def session(self, connection: Connection) -> None:
        assert isinstance(connection, DriverConnection)
        self.quotes = self._product.quotes or connection.quotes()

    def table(self, connection: Connection, table: TableName) -> ExistingTable | None:
        self.session(connection)  # not every caller has done so
        with connection.errors():
            about = connection.raw.getMetaData()
            schema = table.schema or _current_schema(connection.raw)
            catalog = table.parts[-3] if len(table.parts) > 2 else None
            name = table.name
            if not self.quoting:
                schema, catalog = (part and _folded(about, part) for part in (schema, catalog))
                name = _folded(about, name)
            escape = str(about.getSearchStringEscape() or "")
            patterns = [_escaped(part, escape) for part in (schema, name)]
            rows = metadata(about.getTables(catalog, *patterns, None), (1, 2, 3, 4))
            table_row = next((row for row in rows if row[2] == name), None)
            if table_row is None:
                return None
            catalog, schema, _, kind = table_row
            patterns = [_escaped(part, escape) for part in (schema, name)]
            keys = {row[0] for row in metadata(about.getPrimaryKeys(catalog, schema, name), (4,))}
            columns = []
            for owner, column, code, type, nullable, default, auto_increment, generated in metadata(
                about.getColumns(catalog, *patterns, "%"), (3, 4, 5, 6, 11, 13, 23, 24)
            ):
                if owner != name:
                    continue
                self._sql_types[name, column] = int(code)
                filled = default is not None or "YES" in (auto_increment, generated)
                columns.append(
                    ExistingColumn(
                        column,
                        type,
                        int(nullable) != 0,
                        filled,
                        column in keys,
                        code=int(code),
                    )
                )
        return ExistingTable("TABLE" if kind == BASE_TABLE else str(kind), tuple(columns))

    def column_type(self, wanted: Wanted) -> str:
        if wanted.schema.type is Type.STRING and wanted.key and self._product.text_key:
            return self._product.text_key
        return super().column_type(wanted)

    def defined(self, wanted: Wanted) -> str:
        text = super().defined(wanted)
        if not wanted.nullable or self._product.null:
            return text
        return text.removesuffix(" NULL")

    def default(self, schema: Schema) -> str:
        value = schema.default
        text = super().default(schema)
        if not self._product.literals:
            return text
        match value:
            case datetime():
                return f"TIMESTAMP {text}"
            case date():
                return f"DATE {text}"
            case time():
                if self.types[Logical.TIME] == "DATE":
                    clock = wall_time(value, self.zone)
                    return f"TO_DATE('1970-01-01 {clock:%H:%M:%S}', 'YYYY-MM-DD HH24:MI:SS')"
                return f"TIME {text}"
        return text

    def boolean(self, value: bool) -> str:
        if self.types[Type.BOOLEAN] == "BOOLEAN":
            return "TRUE" if value else "FALSE"
        return super().boolean(value)

    def binary(self, value: bytes) -> str:
        return self._product.bytes.format(hex=value.hex())

    def add(self, table: TableName, wanted: Sequence[Wanted]) -> list[str]:
        name = self.qualified(table)
        return [
            f"ALTER TABLE {name} {self._product.add.format(column=self.defined(column))}"
            for column in wanted
        ]

    def encoder(self, schema: Schema, form: str | None = None) -> Encoder:
        if not schema.type.is_primitive:
            raise unwritable(schema)
        if schema.type is Type.STRING:
            return _texts
        if schema.type in _FLOATS and self.types[Type.FLOAT64] == "float":
            return partial(one_by_one, _finite)
        return lambda cells, bad: cells

    def identity(self, schema: Schema, column: ExistingColumn) -> Identity | None:
        # JDBC reports no collations, so only numbers compare in a known way.
        whole = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
        known = schema.logical is None and schema.type in whole
        return unchanged if known and column.code in _WHOLE else None

    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        assert isinstance(connection, DriverConnection)
        table = segment.table.name
        with connection.errors():
            if not self.quoting:
                table = _folded(connection.raw.getMetaData(), table)
            types = [self._sql_types.get((table, name), 0) for name in segment.columns]
            batch = Batch(columns, types, self.zone.key)
        all_columns = range(len(segment.columns))
        match segment.write:
            case Write.INSERT:
                batch.run(connection, self._insert(segment), all_columns)
            case Write.UPDATE:
                order = (*segment.others, *segment.keys)
                batch.run(connection, self._update(segment, segment.others), order)
            case Write.DELETE:
                sql = f"DELETE FROM {self.qualified(segment.table)} WHERE {self._same(segment)}"
                batch.run(connection, sql, segment.keys)
            case Write.UPSERT:
                if self._product.upsert is Upsert.TWICE:
                    self._upsert_twice(connection, segment, batch)
                else:
                    batch.run(connection, self._merge(segment), all_columns)

    def _upsert_twice(self, connection: DriverConnection, segment: Segment, batch: Batch) -> None:
        # If all columns are keys, sets one to itself: that shows whether the row exists.
        changed = segment.others or segment.keys[:1]
        update, insert = self._update(segment, changed), self._insert(segment)
        order, all_columns = (*changed, *segment.keys), range(len(segment.columns))
        counts = batch.run(connection, update, order, counted=True)
        missing = [row for row, count in enumerate(counts) if not count]
        if not missing:
            return
        batch.run(connection, insert, all_columns, missing)
        if segment.repeats and len(missing) > 1:
            # A unique index would have refused equal keys, but the table may have none.
            again = batch.run(connection, update, order, missing, counted=True)
            if any(count > 1 for count in again):
                raise RowRefused("the keys of several rows are equal to the database")

    def _insert(self, segment: Segment) -> str:
        marks = ", ".join("?" * len(segment.columns))
        table, names = self.qualified(segment.table), self.listed(segment.columns)
        return f"INSERT INTO {table} ({names}) VALUES ({marks})"

    def _update(self, segment: Segment, changed: Sequence[int]) -> str:
        changes = ", ".join(f"{self.quoted(segment.columns[at])} = ?" for at in changed)
        return f"UPDATE {self.qualified(segment.table)} SET {changes} WHERE {self._same(segment)}"

    def _same(self, segment: Segment) -> str:
        return " AND ".join(f"{self.quoted(segment.columns[at])} = ?" for at in segment.keys)

    def _merge(self, segment: Segment) -> str:
        table, names = self.qualified(segment.table), self.listed(segment.columns)
        columns = [self.quoted(name) for name in segment.columns]
        marks = ", ".join("?" * len(columns))
        keys = [columns[at] for at in segment.keys]
        if self._product.upsert is Upsert.H2:
            return f"MERGE INTO {table} ({names}) KEY ({', '.join(keys)}) VALUES ({marks})"
        lock = " WITH (HOLDLOCK)" if self._holds_lock else ""
        if self._product.upsert is Upsert.VALUES:
            rows = f"(VALUES ({marks})) s ({names})"
        else:
            cells = ", ".join(f"? AS {name}" for name in columns)
            rows = f"(SELECT {cells}{self._product.one_row}) s"
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        changes = ", ".join(f"{columns[at]} = s.{columns[at]}" for at in segment.others)
        update = f"WHEN MATCHED THEN UPDATE SET {changes} " if changes else ""
        values = ", ".join(f"s.{name}" for name in columns)
        end = ";" if self._product.upsert is Upsert.SELECT else ""  # SQL Server requires it
        return (
            f"MERGE INTO {table}{lock} t USING {rows} ON ({same}) {update}"
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values}){end}"
        )

    def begin_offset(self, table: TableName, mark: str) -> str:
        text, number = self.offset_types
        names = [self.quoted(name) for name in OFFSET_COLUMNS]
        pairs = zip((text, text, number, number), names, strict=True)
        cells = ", ".join(f"CAST({mark} AS {type}) AS {name}" for type, name in pairs)
        same = " AND ".join(f"o.{name} = s.{name}" for name in names[:3])
        qualified, listed = self.qualified(table), ", ".join(names)
        return (
            f"INSERT INTO {qualified} ({listed}) SELECT {', '.join(f's.{name}' for name in names)} "
            f"FROM (SELECT {cells}{self._product.one_row}) s "
            f"WHERE NOT EXISTS (SELECT 1 FROM {qualified} o WHERE {same})"
        )


def _texts(cells: Cells, bad: dict[int, Exception]) -> list[Value]:
    """Checks texts: one with half of a surrogate pair cannot be encoded."""
    try:
        "".join(cell for cell in cells if cell is not None).encode()
    except UnicodeEncodeError:
        return one_by_one(_whole, cells, bad)
    return cells


def _whole(text: str) -> str:
    text.encode()
    return text


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(f"the database cannot store {number}")
    return number


def _current_schema(raw: Any) -> str | None:
    with contextlib.suppress(Exception):  # drivers older than JDBC 4.1 do not know it
        schema = raw.getSchema()
        return None if schema is None else str(schema)
    return None


def _folded(about: Any, name: str) -> str:
    """The form in which the database stores an unquoted name."""
    if about.storesUpperCaseIdentifiers():
        return name.upper()
    return name.lower() if about.storesLowerCaseIdentifiers() else name


def _escaped(name: str | None, escape: str) -> str | None:
    """A pattern that matches only this name."""
    if name is None or not escape:
        return name
    for special in (escape, "_", "%"):
        name = name.replace(special, escape + special)
    return name
