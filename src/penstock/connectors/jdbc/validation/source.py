"""What a look at the database says of a source's configuration."""

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
from penstock.connectors.jdbc.read.reading import Reading
from penstock.connectors.jdbc.read.shapes import Shapes, Unfit, Unit, table_names
from penstock.connectors.jdbc.read.tables import refuse_same_names, selected, tables_of
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import source as k
from penstock.connectors.jdbc.validation.connecting import look_at
from penstock.connectors.jdbc.validation.words import hidden, near, user

log = logging.getLogger(__name__)

_MOST_OFFERED: Final = 1000  # names of tables


def source_findings(config: Config) -> Iterator[Finding]:
    """What there is to say of a source's configuration."""
    yield from look_at(config, _source)


_LISTS: Final = (k.TABLE_WHITELIST, k.TABLE_INCLUDE, k.TABLE_BLACKLIST)


def _source(config: Config, connection: Connection, until: float) -> Iterator[Finding]:
    reading = READINGS[connection.kind](connection, keys.quotes(config))
    shapes = Shapes(config)
    units = [Unit(None)]
    chooser = k.QUERY.name
    if not config[k.QUERY].strip():
        there = tables_of(config, reading)
        chooser = next((key.name for key in _LISTS if config[key]), k.TABLE_WHITELIST.name)
        yield from _offered_tables(there)
        yield from _missing_tables(config, reading, there)
        tables = selected(config, there)
        try:
            refuse_same_names(tables)
        except Unfit as error:
            yield Finding(chooser, str(error))
        units = [Unit(table) for table in tables]
    looked: list[Sequence[SqlColumn]] = []
    for unit in units:
        if time.monotonic() > until:
            log.info("only %d of %d tables were looked at in time", len(looked), len(units))
            break
        try:
            columns, _ = reading.columns(shapes.source(unit, reading), unit.table)
        except (DatabaseRefused, DataError) as error:
            if time.monotonic() > until:
                break  # it was cut off
            yield Finding(chooser, _unreadable(connection, unit, error))
            continue
        looked.append(columns)
        try:
            shapes.order(unit, columns, reading)
        except Unfit as error:
            setting = chooser if error.setting == k.TABLE_WHITELIST.name else error.setting
            yield Finding(setting, str(error))
    yield from _offered_columns(config, looked)


def _unreadable(connection: Connection, unit: Unit, error: PenstockError) -> str:
    if unit.table is None:
        return f"The database refuses the query: {error}"
    return (
        f"Table '{unit.table}' cannot be read: {error}. Grant {user(connection)} SELECT on it, or "
        "do not choose it."
    )


def _offered_tables(there: Sequence[TableId]) -> Iterator[Finding]:
    """The tables as the lists name them: shortly where that is clear, and as regular expressions
    for whole names."""
    names = [table.name for table in there]
    plain = [
        table.name if names.count(table.name) == 1 else table_names(table)[1]
        for table in there[:_MOST_OFFERED]
    ]
    patterns = [_ESCAPED.sub(r"\\\g<0>", table_names(table)[1]) for table in there[:_MOST_OFFERED]]
    for key in (k.TABLE_WHITELIST, k.TABLE_BLACKLIST):
        yield Finding(key.name, recommended=[name for name in plain if "," not in name])
    for key in (k.TABLE_INCLUDE, k.TABLE_EXCLUDE):
        yield Finding(key.name, recommended=[name for name in patterns if "," not in name])


_ESCAPED: Final = re.compile(r"[\\^$|?*+()\[\]{}]")  # a dot matches itself


def _missing_tables(
    config: Config, reading: Reading, there: Sequence[TableId]
) -> Iterator[Finding]:
    known = {name for table in there for name in table_names(table)}
    missing = [name for name in config[k.TABLE_WHITELIST] if name not in known]
    for name in missing:
        yield Finding(
            k.TABLE_WHITELIST.name,
            invalid(k.TABLE_WHITELIST.name, name, _why_missing(config, reading, there, name)),
        )


def _why_missing(config: Config, reading: Reading, there: Sequence[TableId], name: str) -> str:
    for kind in k.KINDS:
        for table in reading.tables([kind], None, None):
            if name in table_names(table) and table not in there:
                return (
                    f"it is there as {table} ({kind}), which table.types, schema.pattern or "
                    "catalog.pattern leave out"
                )
    connection = reading.connection
    said = f"there is no such table in {connection.url.shown}{hidden(connection)}"
    qualified = "." in name
    return said + near(name, [table_names(each)[1 if qualified else 2] for each in there])


def _offered_columns(config: Config, looked: Sequence[Sequence[SqlColumn]]) -> Iterator[Finding]:
    """The columns that every chosen table has and could be read by, those first that the database
    numbers itself."""
    if not looked:
        return
    strict = config[k.VALIDATE_NON_NULL] and not config[k.QUERY].strip()

    def fitting(fits: Callable[[SqlColumn], bool]) -> list[str]:
        common: list[SqlColumn] = [each for each in looked[0] if fits(each)]
        for columns in looked[1:]:
            others = {each.name for each in columns if fits(each)}
            common = [each for each in common if each.name in others]
        return [each.name for each in sorted(common, key=lambda each: not each.counts)]

    def is_number(column: SqlColumn) -> bool:
        return (
            column.sql_type in c.NUMBERS and column.scale <= 0 and not (strict and column.nullable)
        )

    def is_moment(column: SqlColumn) -> bool:
        return column.sql_type in (Sql.TIMESTAMP, Sql.DATE) and not (strict and column.nullable)

    yield Finding(k.INCREMENTING_COLUMN.name, recommended=fitting(is_number))
    yield Finding(k.TIMESTAMP_COLUMNS.name, recommended=fitting(is_moment))
