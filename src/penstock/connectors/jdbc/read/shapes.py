"""What a task reads: tables, parts of tables, or a query; their columns, and the order in which
they are read."""

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
from penstock.connectors.jdbc.read.reading import Order, Reading
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import source as k

log = logging.getLogger(__name__)

_AT: Final = "penstock_at"


class Unfit(PenstockError):
    """A table, or the query, is not what a setting needs; `setting` is its name."""

    code = "jdbc.unfit"

    def __init__(self, text: str, setting: str = "") -> None:
        self.setting = setting
        super().__init__(text)


def table_names(table: TableId) -> tuple[str, str, str]:
    """What a table may be called: its whole name, without the catalog, its name alone."""
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
        """For messages."""
        return "The query" if self.table is None else f"Table '{self.table}'"


def written(units: Sequence[Unit]) -> str:
    """Units as the task's setting holds them."""
    cells = [
        [u.table.catalog, u.table.schema, u.table.name, u.part, u.parts] for u in units if u.table
    ]
    return orjson.dumps(cells).decode()


def units_of(config: Config) -> list[Unit]:
    """The units of a task."""
    if config[k.QUERY].strip():
        return [Unit(None)]
    return [
        Unit(TableId(catalog, schema, name), part, parts)
        for catalog, schema, name, part, parts in orjson.loads(config[k.TABLES] or "[]")
    ]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a unit, to read it: its columns, and the order in which it is read."""

    source: str
    columns: tuple[SqlColumn, ...]
    order: Order | None  # None: in no order, mode bulk
    key: SqlColumn | None  # numbers rows, so that ranges of them can be read side by side

    def select(self, reading: Reading) -> str:
        """The statement that reads the columns, up to its FROM."""
        cells = ", ".join(reading.selected(each) for each in self.columns)
        return f"SELECT {cells} FROM {self.source}"

    def select_placed(self, reading: Reading) -> tuple[str, list[SqlColumn], list[int]]:
        """The same with what says the position of each row, and which of its columns that are:
        `Order.position` takes their cells."""
        columns, order = list(self.columns), self.order
        if order is None:
            return self.select(reading), columns, []
        cells = [reading.selected(each) for each in columns]
        named = [reading.name(each.name) for each in columns]
        places = []
        if order.timestamp in named:
            places.append(named.index(order.timestamp))
        elif order.timestamp:
            assert order.column is not None
            places.append(len(columns))
            columns.append(replace(order.column, name=_AT, sql_type=Sql.TIMESTAMP))
            cells.append(f"{order.column.sql.replace('%', order.timestamp)} AS {_AT}")
        if order.incrementing:
            places.append(named.index(order.incrementing))
        return f"SELECT {', '.join(cells)} FROM {self.source}", columns, places


class Shapes:
    """Finds out how units are read, as the settings want it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._mode = config[k.MODE]
        self._zone = zone(config[keys.DB_TIMEZONE])
        self._query = config[k.QUERY].strip().rstrip(";").rstrip()
        self._left_out: set[str] = set()

    def of(self, unit: Unit, reading: Reading) -> Shape:
        """Asks the database. Raises Unfit as `order` does."""
        source = self.source(unit, reading)
        columns, left_out = reading.columns(source, unit.table)
        for told in left_out:
            text = f"{unit.called}: {told}, which Connect has no type for"
            if text not in self._left_out:
                self._left_out.add(text)
                log.warning("%s; it is left out", text)
        return Shape(source, tuple(columns), self.order(unit, columns, reading), _numbered(columns))

    def source(self, unit: Unit, reading: Reading) -> str:
        """What is read, as it stands behind FROM."""
        if unit.table is None:
            return f"({self._query}) penstock_query"
        return reading.table(unit.table)

    def order(self, unit: Unit, columns: Sequence[SqlColumn], reading: Reading) -> Order | None:
        """The order in which a unit with these columns is read; None: in none. Raises Unfit if it
        cannot be read as the settings want it."""
        if not columns:
            raise Unfit(
                f"{unit.called} has no column of a type that Connect has.",
                (k.QUERY if unit.table is None else k.TABLE_WHITELIST).name,
            )
        if self._mode == k.BULK:
            return None
        by_name = {each.name: each for each in columns}
        key = _numbered(columns)

        def column(name: str, setting: str) -> SqlColumn:
            found = by_name.get(name) or next(
                (each for each in columns if each.name.lower() == name.lower()), None
            )
            if found is None:
                raise Unfit(
                    f"{unit.called} has no column '{name}' ({setting}); it has {c.names(columns)}.",
                    setting,
                )
            return found

        number, moments = "", []
        if self._mode in (k.INCREMENTING, k.BOTH):
            setting = self._naming(k.INCREMENTING_COLUMN, k.INCREMENTING_MAPPING)
            name = (
                self._config[k.INCREMENTING_COLUMN]
                or self._mapped(unit, k.INCREMENTING_MAPPING, (key.name,) if key else ())[0]
            )
            found = column(name, setting)
            if not found.guessed and (found.sql_type not in c.NUMBERS or found.scale > 0):
                raise Unfit(
                    f"{unit.called}: column '{name}' ({found.told}) holds no whole numbers "
                    f"({setting}).",
                    setting,
                )
            self._refuse_nulls(unit, [found], setting)
            number = reading.name(found.name)
        if self._mode in (k.TIMESTAMP, k.BOTH):
            setting = self._naming(k.TIMESTAMP_COLUMNS, k.TIMESTAMP_MAPPING)
            names = self._config[k.TIMESTAMP_COLUMNS] or self._mapped(unit, k.TIMESTAMP_MAPPING, ())
            moments = [column(name, setting) for name in names]
            for each in moments:
                if not each.guessed and each.sql_type not in (Sql.TIMESTAMP, Sql.DATE):
                    raise Unfit(
                        f"{unit.called}: column '{each.name}' ({each.told}) holds no "
                        f"timestamps ({setting}).",
                        setting,
                    )
            if all(each.nullable for each in moments):
                self._refuse_nulls(unit, moments, setting)
        timestamp = ", ".join(reading.comparable(each) for each in moments)
        if len(moments) > 1:
            timestamp = f"COALESCE({timestamp})"
        resolution = max((each.resolution_us for each in moments), default=1)
        at = replace(moments[0], resolution_us=resolution) if moments else None
        return Order(reading, self._zone, timestamp, at, number)

    def _naming(self, named: Key[Any], mapped: Key[Any]) -> str:
        """The setting that says which columns to go by."""
        return (mapped if self._config[mapped] else named).name

    def _mapped(
        self, unit: Unit, key: Key[tuple[str, ...]], otherwise: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The columns that a mapping by table names says, or what the database says itself."""
        mappings = [k.mapping(each) for each in self._config[key]]
        if not mappings:
            if otherwise:
                return otherwise
            raise Unfit(
                f"{unit.called} has no column, or several, that the database numbers by "
                f"itself; name the one to go by in '{k.INCREMENTING_COLUMN.name}'.",
                k.INCREMENTING_COLUMN.name,
            )
        assert unit.table is not None
        called = table_names(unit.table)[:2]
        found = [
            names
            for pattern, names in mappings
            if any(compile_java(pattern).fullmatch(name) for name in called)
        ]
        if len(found) != 1:
            raise Unfit(
                f"{unit.called} matches {len(found)} of the expressions in '{key.name}'; "
                "each table has to match exactly one.",
                key.name,
            )
        return found[0]

    def _refuse_nulls(self, unit: Unit, columns: Sequence[SqlColumn], setting: str) -> None:
        refuses = self._config[k.VALIDATE_NON_NULL] and unit.table is not None
        may = [each for each in columns if each.nullable]
        if refuses and may:
            raise Unfit(
                f"Cannot make incremental queries using {setting}: {c.names(may)} of "
                f"table '{unit.table}' may be null, and rows in which it is would never be "
                "read. Declare it NOT NULL, or set validate.non.null=false.",
                setting,
            )


def _numbered(columns: Sequence[SqlColumn]) -> SqlColumn | None:
    """The column that the database itself numbers, if there is just one."""
    numbered = [each for each in columns if each.counts and each.sql_type in c.NUMBERS]
    return numbered[0] if len(numbered) == 1 else None
