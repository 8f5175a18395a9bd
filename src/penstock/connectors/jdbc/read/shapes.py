"""The units that a task reads (tables, parts of tables, or a query), their columns, and the order
in which they are read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from penstock.api import PenstockError, Primitive
from penstock.api.settings import Config, Key, compile_java
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read import columns as c
from penstock.connectors.jdbc.read import offsets
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Blocks, Columns, Order, Reading
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import source as k

log = logging.getLogger(__name__)

_AT: Final = "penstock_at"
_INT64_DIGITS: Final = 19


class Unfit(PenstockError):
    """A table or the query does not meet the needs of a setting; `setting` is its name."""

    def __init__(self, text: str, setting: str = "") -> None:
        self.setting = setting
        super().__init__(text)


def table_names(table: TableId) -> tuple[str, str, str]:
    """The names of a table in settings: in full, without the catalog, and alone."""
    return str(table), f"{table.schema}.{table.name}" if table.schema else str(table), table.name


@dataclass(frozen=True, slots=True)
class Unit:
    """A source partition: a table, one part of it, or (no table) the query."""

    table: TableId | None
    part: int = 0
    parts: int = 1

    @property
    def partition(self) -> Mapping[str, Primitive]:
        if self.table is None:
            return offsets.QUERY
        return self.table.partition("" if self.parts == 1 else f"{self.part}/{self.parts}")

    @property
    def called(self) -> str:
        """The subject of messages about the unit."""
        return "The query" if self.table is None else f"Table '{self.table}'"


def written(units: Sequence[Unit]) -> str:
    """Units as the value of the task's setting `tables`."""
    cells = [
        [unit.table.catalog, unit.table.schema, unit.table.name, unit.part, unit.parts]
        for unit in units
        if unit.table
    ]
    return orjson.dumps(cells).decode()


def units_of(config: Config) -> list[Unit]:
    """The units of a task's configuration."""
    if config[k.QUERY].strip():
        return [Unit(None)]
    return [
        Unit(TableId(catalog, schema, name), part, parts)
        for catalog, schema, name, part, parts in orjson.loads(config[k.TABLES] or "[]")
    ]


@dataclass(frozen=True, slots=True)
class Shape:
    """How to read a unit: its columns, and the order in which it is read."""

    source: str
    columns: tuple[SqlColumn, ...]
    order: Order | None  # None: in no order, mode bulk
    key: SqlColumn | None  # numbers rows, so that ranges of them can be read in parallel

    def select(self, reading: Reading) -> str:
        """The statement that reads the columns, up to and including its FROM."""
        selected = ", ".join(reading.selected(column) for column in self.columns)
        return f"SELECT {selected} FROM {self.source}"

    def select_placed(self, reading: Reading) -> tuple[str, list[SqlColumn], list[int]]:
        """`select` with each row's position, the statement's columns, and the indexes of those
        columns whose cells `Order.position` takes."""
        columns, order = list(self.columns), self.order
        if order is None:
            return self.select(reading), columns, []
        selected = [reading.selected(column) for column in columns]
        names = [reading.name(column.name) for column in columns]
        position_columns = []
        if order.timestamp in names:
            position_columns.append(names.index(order.timestamp))
        elif order.timestamp:
            assert order.column is not None
            position_columns.append(len(columns))
            columns.append(replace(order.column, name=_AT, sql_type=Sql.TIMESTAMP))
            selected.append(f"{order.column.sql.replace('%', order.timestamp)} AS {_AT}")
        if order.incrementing:
            position_columns.append(names.index(order.incrementing))
        return f"SELECT {', '.join(selected)} FROM {self.source}", columns, position_columns


class Shapes:
    """Determines how units are read, from the database and the settings."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._mode = config[k.MODE]
        self._zone = zone(config[keys.DB_TIMEZONE])
        self._query = config[k.QUERY].strip()
        self._suffix = config[k.QUERY_SUFFIX]
        self._warned: set[str] = set()

    def of(self, unit: Unit, reading: Reading) -> Shape:
        """The shape of a unit, from the database; raises Unfit like `order`."""
        source = self.source(unit, reading)
        return self._shape(unit, reading, source, reading.columns(source, unit.table))

    def statement(self, unit: Unit) -> str | None:
        """The statement that reads a unit as it is: the query, in mode bulk. None: it is made of
        the unit's shape."""
        if unit.table is not None or self._mode != k.BULK:
            return None
        if not self._suffix:
            return self._query
        return f"{self._query.rstrip(';')}\n{self._suffix}"

    def run(self, unit: Unit, reading: Reading, statement: str) -> tuple[Shape, Blocks]:
        """Runs such a statement: the shape of its rows, and the rows."""
        columns, rows = reading.run(statement)
        try:
            return self._shape(unit, reading, statement, columns), rows
        except BaseException:
            rows.close()
            raise

    def _shape(self, unit: Unit, reading: Reading, source: str, found: Columns) -> Shape:
        columns, unsupported = found
        for description in unsupported:
            text = f"{unit.called}: {description}, which has no Connect type"
            self._warn_once(f"{text}; skipping it")
        return Shape(source, tuple(columns), self.order(unit, columns, reading), _numbered(columns))

    def source(self, unit: Unit, reading: Reading) -> str:
        """The table or query of a unit, for use after FROM."""
        if unit.table is None:
            return f"({self._query.rstrip(';')}\n) penstock_query"  # it may end with a comment
        return reading.table(unit.table)

    def order(self, unit: Unit, columns: Sequence[SqlColumn], reading: Reading) -> Order | None:
        """The order in which a unit with these columns is read; None: no order. Raises Unfit if the
        settings do not allow reading it."""
        if not columns:
            raise Unfit(
                f"{unit.called} has no column of a supported type.",
                (k.QUERY if unit.table is None else k.TABLE_WHITELIST).name,
            )
        all_names = [column.name for column in columns]
        twice = next((name for name in all_names if all_names.count(name) > 1), None)
        if twice is not None:
            raise Unfit(
                f"{unit.called} has several columns named '{twice}'; rename them with AS.",
                k.QUERY.name,
            )
        if self._mode == k.BULK:
            return None
        by_name = {column.name: column for column in columns}
        key = _numbered(columns)

        def column_named(name: str, setting: str) -> SqlColumn:
            column = by_name.get(name) or next(
                (column for column in columns if column.name.lower() == name.lower()), None
            )
            if column is None:
                raise Unfit(
                    f"{unit.called} has no column '{name}' ({setting}); it has {c.names(columns)}.",
                    setting,
                )
            return column

        number, unlimited, moments = "", False, []
        if self._mode in (k.INCREMENTING, k.BOTH):
            setting = self._setting_of(k.INCREMENTING_COLUMN, k.INCREMENTING_MAPPING)
            name = (
                self._config[k.INCREMENTING_COLUMN]
                or self._mapped(unit, k.INCREMENTING_MAPPING, (key.name,) if key else ())[0]
            )
            column = column_named(name, setting)
            whole = not column.precision or column.scale <= 0
            if not column.guessed and not (column.sql_type in c.NUMBERS and whole):
                raise Unfit(
                    f"{unit.called}: column '{name}' ({column.type_name}) is not an integer column "
                    f"({setting}).",
                    setting,
                )
            self._refuse_nulls(unit, [column], setting)
            number, unlimited = reading.name(column.name), _exceeds(column)
        if self._mode in (k.TIMESTAMP, k.BOTH):
            setting = self._setting_of(k.TIMESTAMP_COLUMNS, k.TIMESTAMP_MAPPING)
            names = self._config[k.TIMESTAMP_COLUMNS] or self._mapped(unit, k.TIMESTAMP_MAPPING, ())
            moments = [column_named(name, setting) for name in names]
            for column in moments:
                if not column.guessed and column.sql_type not in (Sql.TIMESTAMP, Sql.DATE):
                    raise Unfit(
                        f"{unit.called}: column '{column.name}' ({column.type_name}) is not a "
                        f"timestamp column ({setting}).",
                        setting,
                    )
            days = [column.name for column in moments if column.sql_type is Sql.DATE]
            if days and not number:
                self._warn_once(
                    f"{unit.called}: column '{days[0]}' has no time, so rows added later on a "
                    f"day are missed; use mode={k.BOTH}, or set {k.TIMESTAMP_DELAY.name} to a day"
                )
            if all(column.nullable for column in moments):
                self._refuse_nulls(unit, moments, setting)
        timestamp, first = "", None
        if moments:
            timestamp, first = reading.comparable(moments[0]), moments[0]
            if len(moments) > 1:
                timestamp, first = reading.first_of(moments)
            first = replace(
                first,
                resolution_us=max(column.resolution_us for column in moments),
                digits=max(column.digits for column in moments),
            )
        return Order(reading, self._zone, timestamp, first, number, unlimited)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning(text)

    def _setting_of(self, named: Key[Any], mapped: Key[Any]) -> str:
        """The setting that names the columns: the mapping if it is set."""
        return (mapped if self._config[mapped] else named).name

    def _mapped(
        self, unit: Unit, key: Key[tuple[str, ...]], default: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The columns of a table in a mapping; without a mapping, the default."""
        mappings = [k.mapping(entry) for entry in self._config[key]]
        if not mappings:
            if default:
                return default
            raise Unfit(
                f"{unit.called} does not have exactly one auto-increment column; name the column "
                f"to use in '{k.INCREMENTING_COLUMN.name}'.",
                k.INCREMENTING_COLUMN.name,
            )
        assert unit.table is not None
        whole_names = table_names(unit.table)[:2]
        matching = [
            columns
            for pattern, columns in mappings
            if any(compile_java(pattern).fullmatch(name) for name in whole_names)
        ]
        if len(matching) != 1:
            raise Unfit(
                f"{unit.called} matches {len(matching)} of the expressions in '{key.name}'; "
                "each table must match exactly one.",
                key.name,
            )
        return matching[0]

    def _refuse_nulls(self, unit: Unit, columns: Sequence[SqlColumn], setting: str) -> None:
        refuses = self._config[k.VALIDATE_NON_NULL] and unit.table is not None
        nullable = [column for column in columns if column.nullable]
        if refuses and nullable:
            raise Unfit(
                f"Cannot make incremental queries using {setting}: {c.names(nullable)} of "
                f"table '{unit.table}' may be null, and rows with null there would never be read. "
                "Declare it NOT NULL, or set validate.non.null=false.",
                setting,
            )


def _exceeds(column: SqlColumn) -> bool:
    """Whether a column of numbers may hold larger ones than INT64."""
    if column.sql_type in (Sql.NUMERIC, Sql.DECIMAL):
        return not 0 < column.precision < _INT64_DIGITS
    return column.sql_type is Sql.BIGINT and not column.signed


def _numbered(columns: Sequence[SqlColumn]) -> SqlColumn | None:
    """The column that the database itself numbers, if there is exactly one."""
    numbered = [
        column for column in columns if column.auto_increment and column.sql_type in c.NUMBERS
    ]
    return numbered[0] if len(numbered) == 1 else None
