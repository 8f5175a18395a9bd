"""Databases behind a JDBC driver: rows arrive as Arrow's arrays, which Java fills."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.connectors.jdbc.drivers.connection import Connection, Row
from penstock.connectors.jdbc.drivers.jvm.cells import TYPES, ZONED
from penstock.connectors.jdbc.drivers.jvm.connection import BASE_TABLE, DriverConnection, metadata
from penstock.connectors.jdbc.drivers.moments import moment, wall_us
from penstock.connectors.jdbc.drivers.products import product_of
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Blocks, Reading, block

_DIGITS: Final = 6  # of a second, that are told apart
_EPOCH: Final = moment(0)
_US: Final = timedelta(microseconds=1)
_ORACLE_UNLIMITED: Final = -127  # the scale of a NUMBER that was declared without one
_ABOUT: Final = "INFORMATION_SCHEMA"
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
        wanted = [*types, *([BASE_TABLE] if "TABLE" in types else [])]
        with self.connection.errors():
            about = self.connection.raw.getMetaData()
            result = about.getTables(catalog, schema, "%", _strings(wanted))
            found = [TableId(*(each or "" for each in row)) for row in metadata(result, (1, 2, 3))]
        return sorted(each for each in found if schema or each.schema.upper() != _ABOUT)

    def table(self, table: TableId) -> str:
        # Where there are no schemas the catalog is what other databases call one.
        outside = table.catalog and (not table.schema or table.catalog != self._catalog)
        parts = (table.catalog if outside else "", table.schema, table.name)
        return ".".join(self.name(part) for part in parts if part)

    def columns(self, source: str, table: TableId | None) -> tuple[list[SqlColumn], list[str]]:
        found: list[SqlColumn] = []
        left_out: list[str] = []
        sql = f"SELECT * FROM {source} WHERE 1 = 0"
        with self.connection.errors(), self.connection.described(sql) as about:
            for at in range(1, int(about.getColumnCount()) + 1):
                name, told = str(about.getColumnLabel(at)), str(about.getColumnTypeName(at))
                code = int(about.getColumnType(at))
                if code not in TYPES:
                    left_out.append(f"column '{name}' is of type {told}")
                    continue
                found.append(_column(about, at, name, told, code))
        return found, left_out

    def now_us(self) -> int:
        ((found,),) = self.connection.rows(self._product.now)
        return int((found.replace(tzinfo=UTC) - _EPOCH) // _US)

    def sample(self, sql: str, columns: Sequence[SqlColumn], rows: int) -> Iterator[pa.RecordBatch]:
        return self._blocks(sql, columns, rows)

    def first(self, sql: str, skipped: int = 0) -> list[Row]:
        limit = self._product.limit.value
        if limit:
            return self.connection.first(sql + limit.format(skipped=skipped))
        return self.connection.first(sql, skipped)

    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        # Some drivers read everything at once unless there is a transaction.
        with self.connection.transaction(writing=False):
            yield from self._blocks(sql, columns, 0)

    def _blocks(
        self, sql: str, columns: Sequence[SqlColumn], most: int
    ) -> Iterator[pa.RecordBatch]:
        for cells in self.connection.blocks(sql, most):
            yield block(columns, cells)

    def literal(self, at_us: int, column: SqlColumn, zone: ZoneInfo) -> str:
        form = self._product.zoned if column.zoned else self._product.moment
        at = moment(at_us if column.zoned else wall_us(at_us, zone))
        return form.format(at=f"{at:%Y-%m-%d %H:%M:%S.%f}")

    def comparable(self, column: SqlColumn) -> str:
        name = self.name(column.name)
        if self._product.exact and column.scale > _DIGITS and not column.zoned:
            return self._product.exact.format(name=name)
        return name

    def stripe(self, key: str, keys: int, parts: int) -> str:
        return self._product.remainder.format(number=f"FLOOR({key} / {keys})", parts=parts)


def _column(about: Any, at: int, name: str, told: str, code: int) -> SqlColumn:
    sql_type, _ = TYPES[code]
    precision, scale = int(about.getPrecision(at)), int(about.getScale(at))
    resolution_us = 1
    if sql_type is Sql.TIMESTAMP:
        resolution_us = 10 ** (_DIGITS - min(_DIGITS, max(0, scale)))
    elif sql_type not in _LIMITED or scale == _ORACLE_UNLIMITED or told == "DECFLOAT":
        precision = scale = 0
    return SqlColumn(
        name,
        sql_type,
        told,
        nullable=int(about.isNullable(at)) != 0,  # not known counts as yes
        precision=precision,
        scale=scale,
        signed=bool(about.isSigned(at)),
        zoned=code in ZONED,
        counts=bool(about.isAutoIncrement(at)),
        resolution_us=resolution_us,
    )


def _strings(texts: Sequence[str]) -> Any:
    import jpype

    return jpype.JArray(jpype.JString)(list(texts))
