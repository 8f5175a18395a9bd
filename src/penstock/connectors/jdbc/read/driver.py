"""Databases behind a JDBC driver: Java fills Arrow arrays with their rows."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.connectors.jdbc.drivers.connection import Connection, Row
from penstock.connectors.jdbc.drivers.jvm.cells import TYPES, ZONED, FailedCells, digits_of
from penstock.connectors.jdbc.drivers.jvm.connection import BASE_TABLE, DriverConnection, metadata
from penstock.connectors.jdbc.drivers.moments import digits, moment, wall_us
from penstock.connectors.jdbc.drivers.products import product_of
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read.columns import CellRefused, Refused, SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Blocks, Columns, Reading, block

_DIGITS: Final = 6  # of a second that are always compared
_MAX_DIGITS: Final = 9  # that an offset has
_EPOCH: Final = moment(0)
_US: Final = timedelta(microseconds=1)
_ORACLE_UNLIMITED: Final = -127  # the scale of a NUMBER declared without one
_ORACLE_SCALE: Final = 127  # as the JVM's connector reads it
_SYSTEM_SCHEMA: Final = "INFORMATION_SCHEMA"
_LIMITED: Final = (Sql.NUMERIC, Sql.DECIMAL)


class DriverReading(Reading):
    """Tables of a database behind a JDBC driver."""

    connection: DriverConnection

    def __init__(self, connection: Connection, quoting: bool) -> None:
        assert isinstance(connection, DriverConnection)
        self._product = product_of(connection.url)
        super().__init__(connection, quoting)

    def prepare(self) -> None:
        self.quotes = self._product.quotes or self.connection.quotes()
        with self.connection.errors():
            catalog = self.connection.raw.getCatalog()
        self._catalog = "" if catalog is None else str(catalog)

    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        jdbc_types = [*types, *([BASE_TABLE] if "TABLE" in types else [])]
        with self.connection.errors():
            about = self.connection.raw.getMetaData()
            result = about.getTables(catalog, schema, "%", _strings(jdbc_types))
            tables = [TableId(*(name or "" for name in row)) for row in metadata(result, (1, 2, 3))]
        return sorted(table for table in tables if schema or table.schema.upper() != _SYSTEM_SCHEMA)

    def table(self, table: TableId) -> str:
        # In a database without schemas, the catalog takes their place.
        qualified = table.catalog and (not table.schema or table.catalog != self._catalog)
        parts = (table.catalog if qualified else "", table.schema, table.name)
        return ".".join(self.name(part) for part in parts if part)

    def columns(self, source: str, table: TableId | None) -> Columns:
        sql = f"SELECT * FROM {source} WHERE 1 = 0"
        with self.connection.errors(), self.connection.described(sql) as about:
            places, unsupported = self._columns_of(about)
        return list(places.values()), unsupported

    def _columns_of(self, about: Any) -> tuple[dict[int, SqlColumn], list[str]]:
        """The columns of a result by their places, and descriptions of the others."""
        coarse = self._product.coarse
        columns: dict[int, SqlColumn] = {}
        unsupported: list[str] = []
        for at in range(1, int(about.getColumnCount()) + 1):
            name, type_name = str(about.getColumnLabel(at)), str(about.getColumnTypeName(at))
            code = int(about.getColumnType(at))
            if code not in TYPES:
                unsupported.append(f"column '{name}' is of type {type_name}")
                continue
            column = _column(about, at, name, type_name, code)
            if type_name.lower() in coarse and column.sql_type is Sql.TIMESTAMP:
                resolution_us = coarse[type_name.lower()].resolution_us
                column = replace(column, resolution_us=resolution_us)
            columns[at - 1] = column
        return columns, unsupported

    def described(self, statement: str) -> Columns | None:
        with self.connection.errors(), self.connection.prepared(statement) as about:
            if about is None:
                return None
            places, unsupported = self._columns_of(about)
        return list(places.values()), unsupported

    def _run(self, statement: str) -> Generator[Columns | pa.RecordBatch, None, None]:
        with (
            self.connection.transaction(writing=False),
            self.connection.errors(),
            self.connection.reading(statement) as (about, blocks),
        ):
            places, unsupported = self._columns_of(about)
            yield list(places.values()), unsupported
            for cells, failed in blocks:
                found = [each for each in failed if each[0] in places]
                yield _block(places, [cells[at] for at in places], found)

    def now_us(self) -> int:
        now, _ = self.connection.moment(self._product.now)
        return _micros(now)

    def clock_us(self, column: SqlColumn, zone: ZoneInfo) -> int:
        if column.zoned:
            return self.now_us()
        now, has_zone = self.connection.moment(self._product.clock or self._product.now)
        return wall_us(_micros(now), zone) if has_zone else _micros(now)

    def sample(self, sql: str, columns: Sequence[SqlColumn], rows: int) -> Iterator[pa.RecordBatch]:
        return self._blocks(sql, columns, rows)

    def first(self, sql: str, skipped: int = 0) -> list[Row]:
        limit = self._product.limit.value
        if limit:
            return self.connection.first(sql + limit.format(skipped=skipped))
        return self.connection.first(sql, skipped)

    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        # Outside a transaction, some drivers read all rows at once.
        with self.connection.transaction(writing=False):
            yield from self._blocks(sql, columns, 0)

    def _blocks(
        self, sql: str, columns: Sequence[SqlColumn], most: int
    ) -> Iterator[pa.RecordBatch]:
        for cells, failed in self.connection.blocks(sql, most):
            yield _block(dict(enumerate(columns)), cells, failed)

    def literal(self, at_ns: int, column: SqlColumn) -> str:
        coarse = self._product.coarse.get(column.type_name.lower())
        if coarse is not None:
            return coarse.literal.format(at=digits(at_ns, coarse.digits))
        literal = self._product.zoned if column.zoned else self._product.moment
        count = min(self._product.digits, max(_DIGITS, column.digits))
        return literal.format(at=digits(at_ns, count))

    def comparable(self, column: SqlColumn) -> str:
        name = self.name(column.name)
        if self._product.exact and column.scale > _MAX_DIGITS and not column.zoned:
            return self._product.exact.format(name=name)
        return name

    def stripe(self, key: str, keys: int, parts: int) -> str:
        return self._product.remainder.format(number=f"FLOOR({key} / {keys})", parts=parts)


def _block(
    places: Mapping[int, SqlColumn], cells: Sequence[pa.Array], failed: FailedCells
) -> pa.RecordBatch:
    refused: Refused = {}
    for at, row, value, why in failed:
        refused.setdefault(row, CellRefused.of(places[at], value, why))
    return block(list(places.values()), cells, refused)


def _column(about: Any, at: int, name: str, type_name: str, code: int) -> SqlColumn:
    sql_type, _ = TYPES[code]
    precision, scale = int(about.getPrecision(at)), int(about.getScale(at))
    resolution_us, second_digits = 1, _DIGITS
    if sql_type is Sql.TIMESTAMP:
        second_digits = digits_of(about, at)
        resolution_us = 10 ** (_DIGITS - min(_DIGITS, second_digits))
    elif sql_type in _LIMITED and scale == _ORACLE_UNLIMITED:
        precision, scale = 0, _ORACLE_SCALE
    elif sql_type not in _LIMITED or type_name == "DECFLOAT":
        precision = scale = 0
    return SqlColumn(
        name,
        sql_type,
        type_name,
        nullable=int(about.isNullable(at)) != 0,  # "unknown" counts as nullable
        precision=precision,
        scale=scale,
        signed=bool(about.isSigned(at)),
        zoned=code in ZONED,
        auto_increment=bool(about.isAutoIncrement(at)),
        resolution_us=resolution_us,
        digits=second_digits,
    )


def _micros(at: datetime) -> int:
    return (at.replace(tzinfo=UTC) - _EPOCH) // _US


def _strings(texts: Sequence[str]) -> Any:
    import jpype

    return jpype.JArray(jpype.JString)(list(texts))
