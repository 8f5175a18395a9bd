"""Validates a source's configuration against the database."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from penstock.api import DataError, Finding, PenstockError
from penstock.api.settings import Config, invalid
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read import columns as c
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.pool import READINGS
from penstock.connectors.jdbc.read.reading import Columns, Reading
from penstock.connectors.jdbc.read.shapes import Shapes, Unfit, Unit, table_names
from penstock.connectors.jdbc.read.tables import refuse_same_names, selected, tables_of
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import source as k
from penstock.connectors.jdbc.validation.connecting import look_at
from penstock.connectors.jdbc.validation.words import hidden, near, user

log = logging.getLogger(__name__)

_MAX_OFFERED: Final = 1000  # names of tables


def source_findings(config: Config) -> Iterator[Finding]:
    """The findings about a source's configuration."""
    yield from look_at(config, _source)


_LISTS: Final = (k.TABLE_WHITELIST, k.TABLE_INCLUDE, k.TABLE_BLACKLIST)


def _source(config: Config, connection: Connection, until: float) -> Iterator[Finding]:
    reading = READINGS[connection.kind](connection, keys.quotes(config))
    shapes = Shapes(config)
    units = [Unit(None)]
    selecting = k.QUERY.name
    if not config[k.QUERY].strip():
        existing = tables_of(config, reading)
        selecting = next((key.name for key in _LISTS if config[key]), k.TABLE_WHITELIST.name)
        yield from _offered_tables(existing)
        yield from _missing_tables(config, reading, existing)
        tables = selected(config, existing)
        try:
            refuse_same_names(tables)
        except Unfit as error:
            yield Finding(selecting, str(error))
        units = [Unit(table) for table in tables]
    columns_of_units: list[Sequence[SqlColumn]] = []
    for unit in units:
        if time.monotonic() > until:
            log.info("Checked only %d of %d tables in time", len(columns_of_units), len(units))
            break
        try:
            found = _columns(unit, shapes, reading)
            if found is None:
                continue
            columns, _ = found
        except (DatabaseRefused, DataError) as error:
            if time.monotonic() > until:
                break  # the statement was cancelled
            yield Finding(selecting, _unreadable(connection, unit, error))
            continue
        columns_of_units.append(columns)
        try:
            shapes.order(unit, columns, reading)
        except Unfit as error:
            setting = selecting if error.setting == k.TABLE_WHITELIST.name else error.setting
            yield Finding(setting, str(error))
    yield from _offered_columns(config, columns_of_units)


def _columns(unit: Unit, shapes: Shapes, reading: Reading) -> Columns | None:
    """The columns of a unit; None if a query has them only when it runs."""
    statement = shapes.statement(unit)
    if statement is not None:
        found = reading.described(statement)
        if found is not None:
            return found
    try:
        return reading.columns(shapes.source(unit, reading), unit.table)
    except (DatabaseRefused, DataError):
        if statement is None:
            raise
        return None  # it is no SELECT


def _unreadable(connection: Connection, unit: Unit, error: PenstockError) -> str:
    if unit.table is None:
        return f"The database rejected the query: {error}"
    return (
        f"Table '{unit.table}' cannot be read: {error}. Grant {user(connection)} SELECT on it, or "
        "exclude it."
    )


def _offered_tables(tables: Sequence[TableId]) -> Iterator[Finding]:
    """Recommends the tables: by the short name where that is unambiguous, and as regular
    expressions for whole names."""
    names = [table.name for table in tables]
    offered = tables[:_MAX_OFFERED]
    plain = [
        table.name if names.count(table.name) == 1 else table_names(table)[1] for table in offered
    ]
    patterns = [_ESCAPED.sub(r"\\\g<0>", table_names(table)[1]) for table in offered]
    for key in (k.TABLE_WHITELIST, k.TABLE_BLACKLIST):
        yield Finding(key.name, recommended=[name for name in plain if "," not in name])
    for key in (k.TABLE_INCLUDE, k.TABLE_EXCLUDE):
        yield Finding(key.name, recommended=[name for name in patterns if "," not in name])


_ESCAPED: Final = re.compile(r"[\\^$|?*+()\[\]{}]")  # a dot matches itself


def _missing_tables(
    config: Config, reading: Reading, tables: Sequence[TableId]
) -> Iterator[Finding]:
    known = {name for table in tables for name in table_names(table)}
    missing = [name for name in config[k.TABLE_WHITELIST] if name not in known]
    for name in missing:
        yield Finding(
            k.TABLE_WHITELIST.name,
            invalid(k.TABLE_WHITELIST.name, name, _why_missing(reading, tables, name)),
        )


def _why_missing(reading: Reading, tables: Sequence[TableId], name: str) -> str:
    for kind in k.KINDS:
        for table in reading.tables([kind], None, None):
            if name in table_names(table) and table not in tables:
                return (
                    f"it exists as {table} ({kind}), which table.types, schema.pattern or "
                    "catalog.pattern exclude"
                )
    connection = reading.connection
    reason = f"it does not exist in {connection.url.shown}{hidden(connection)}"
    qualified = "." in name
    return reason + near(name, [table_names(table)[1 if qualified else 2] for table in tables])


def _offered_columns(
    config: Config, columns_of_units: Sequence[Sequence[SqlColumn]]
) -> Iterator[Finding]:
    """Recommends columns that all selected tables have and could be read by; first those that
    the database itself numbers."""
    if not columns_of_units:
        return
    strict = config[k.VALIDATE_NON_NULL] and not config[k.QUERY].strip()

    def fitting(fits: Callable[[SqlColumn], bool]) -> list[str]:
        common: list[SqlColumn] = [column for column in columns_of_units[0] if fits(column)]
        for columns in columns_of_units[1:]:
            names = {column.name for column in columns if fits(column)}
            common = [column for column in common if column.name in names]
        common.sort(key=lambda column: not column.auto_increment)
        return [column.name for column in common]

    def is_number(column: SqlColumn) -> bool:
        return (
            column.sql_type in c.NUMBERS and column.scale <= 0 and not (strict and column.nullable)
        )

    def is_moment(column: SqlColumn) -> bool:
        return column.sql_type in (Sql.TIMESTAMP, Sql.DATE) and not (strict and column.nullable)

    yield Finding(k.INCREMENTING_COLUMN.name, recommended=fitting(is_number))
    yield Finding(k.TIMESTAMP_COLUMNS.name, recommended=fitting(is_moment))
