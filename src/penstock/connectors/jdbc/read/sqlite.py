"""SQLite: types are what the table says, whatever is stored; moments are texts or milliseconds."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.api import DataError
from penstock.connectors.jdbc.drivers.connection import BLOCK_ROWS
from penstock.connectors.jdbc.drivers.moments import moment, wall_us
from penstock.connectors.jdbc.drivers.types import ARROW, Sql
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Blocks, Reading, block

_TYPES: Final = {
    # What sqlite-jdbc makes of the type that a column was declared with.
    "BOOLEAN": Sql.BOOLEAN,
    "TINYINT": Sql.TINYINT,
    "SMALLINT": Sql.SMALLINT,
    "INT2": Sql.SMALLINT,
    "BIGINT": Sql.BIGINT,
    "INT8": Sql.BIGINT,
    "UNSIGNED BIG INT": Sql.BIGINT,
    "INT": Sql.INTEGER,
    "INTEGER": Sql.INTEGER,
    "MEDIUMINT": Sql.INTEGER,
    "DECIMAL": Sql.DECIMAL,
    "NUMERIC": Sql.NUMERIC,
    "DOUBLE": Sql.DOUBLE,
    "DOUBLE PRECISION": Sql.DOUBLE,
    "FLOAT": Sql.DOUBLE,
    "REAL": Sql.REAL,
    "BLOB": Sql.BYTES,
    "BINARY": Sql.BYTES,
    "DATE": Sql.DATE,
    "TIME": Sql.TIME,
    "DATETIME": Sql.TIMESTAMP,
    "TIMESTAMP": Sql.TIMESTAMP,
}
_DECLARED: Final = re.compile(
    r"\s*(?P<name>[^()]*?)\s*(?:\(\s*(?P<precision>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\).*)?",
    re.DOTALL,
)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock's
_US: Final = timedelta(microseconds=1)


class SqliteReading(Reading):
    """Tables of an SQLite file."""

    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        kinds = [f"'{kind.lower()}'" for kind in ("TABLE", "VIEW") if kind in types]
        rows = self.connection.rows(
            f"SELECT name FROM sqlite_master WHERE type IN ({', '.join(kinds)}) "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        return [TableId("", "", name) for (name,) in rows]

    def columns(self, source: str, table: TableId | None) -> tuple[list[SqlColumn], list[str]]:
        if table is None:
            return self._of_query(source), []
        rows = self.connection.rows(
            'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table.name,)
        )
        if not rows:
            raise DataError(f"There is no table '{table.name}'.")
        keys = sum(1 for row in rows if row[3])
        return [self._column(*row, alone=keys == 1) for row in rows], []

    def _column(self, name: str, told: str, required: int, key: int, *, alone: bool) -> SqlColumn:
        found = _DECLARED.fullmatch(told.upper())
        word = found["name"] if found else told.upper()
        sql_type = _TYPES.get(word.removesuffix(" UNSIGNED"))
        if sql_type is None:
            sql_type = _by_affinity(word)
        counts = bool(key) and alone and word == "INTEGER"  # it is the row's number then
        return SqlColumn(
            name,
            sql_type,
            told or "no type",
            nullable=not required and not counts,
            precision=int(found["precision"] or 0) if found else 0,
            scale=int(found["scale"] or 0) if found else 0,
            counts=counts,
            widens=True,
        )

    def _of_query(self, source: str) -> list[SqlColumn]:
        """A query's columns have no declared types here: those of the first rows count."""
        with self.connection.errors():
            cursor = self.connection.raw.execute(f"SELECT * FROM {source} LIMIT 100")
            rows = cursor.fetchall()
            names = [each[0] for each in cursor.description]
        found = []
        for at, name in enumerate(names):
            kinds = {type(row[at]) for row in rows} - {type(None)}
            sql_type = Sql.STRING
            for kind, meant in ((bytes, Sql.BYTES), (str, Sql.STRING), (float, Sql.DOUBLE)):
                if kind in kinds:
                    sql_type = meant
                    break
            else:
                sql_type = Sql.BIGINT if int in kinds else Sql.STRING
            found.append(SqlColumn(name, sql_type, "a query's", guessed=True))
        return found

    def now_us(self) -> int:
        ((found,),) = self.connection.rows("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")
        return (datetime.fromisoformat(found) - _EPOCH) // _US

    def literal(self, at_us: int, column: SqlColumn, zone: ZoneInfo) -> str:
        return f"'{moment(wall_us(at_us, zone)):%Y-%m-%d %H:%M:%S.%f}'"[:-4] + "'"

    def comparable(self, column: SqlColumn) -> str:
        name = self.name(column.name)
        # Both forms of moments, and every precision of them, as one that can be compared.
        return (
            f"(CASE typeof({name}) WHEN 'integer' THEN "
            f"strftime('%Y-%m-%d %H:%M:%f', {name} / 1000.0, 'unixepoch') "
            f"ELSE strftime('%Y-%m-%d %H:%M:%f', {name}) END)"
        )

    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        for rows in self.connection.stream(sql, size=BLOCK_ROWS):
            yield block(
                columns,
                [_cells(c, v) for c, v in zip(columns, zip(*rows, strict=True), strict=True)],
            )


def _by_affinity(word: str) -> Sql:
    """SQLite's own rules, for words that no driver knows."""
    if "INT" in word:
        return Sql.BIGINT
    if any(each in word for each in ("CHAR", "CLOB", "TEXT")) or not word:
        return Sql.STRING
    if "BLOB" in word:
        return Sql.BYTES
    if any(each in word for each in ("REAL", "FLOA", "DOUB")):
        return Sql.DOUBLE
    return Sql.STRING


def _cells(column: SqlColumn, values: Sequence[Any]) -> pa.Array:
    wanted = ARROW[column.sql_type]
    if column.sql_type in _DIRECT:
        try:
            return pa.array(values, wanted)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    return pa.array([_cell(column, value) for value in values], wanted)


_DIRECT: Final = frozenset(
    {
        Sql.TINYINT,
        Sql.SMALLINT,
        Sql.INTEGER,
        Sql.BIGINT,
        Sql.REAL,
        Sql.DOUBLE,
        Sql.STRING,
        Sql.BYTES,
    }
)


def _cell(column: SqlColumn, value: Any) -> Any:
    if value is None:
        return None
    try:
        match column.sql_type:
            case Sql.BOOLEAN:
                return bool(int(value))
            case Sql.REAL | Sql.DOUBLE:
                return float(value)
            case Sql.NUMERIC | Sql.DECIMAL:
                return repr(value) if isinstance(value, float) else str(value)
            case Sql.STRING:
                return value.decode() if isinstance(value, bytes) else str(value)
            case Sql.BYTES:
                return value if isinstance(value, bytes) else str(value).encode()
            case Sql.DATE:
                return _wall(value).date() if isinstance(value, int) else _date(value)
            case Sql.TIME:
                return _wall(value).time() if isinstance(value, int) else time.fromisoformat(value)
            case Sql.TIMESTAMP:
                return _wall(value)
        if int(value) == float(value):
            return int(value)
    except (TypeError, ValueError, OverflowError, UnicodeDecodeError):
        pass
    raise DataError(f"Column '{column.name}' ({column.told}) holds {value!r}, which is none.")


def _date(text: str) -> date:
    return datetime.fromisoformat(text).date()


def _wall(value: Any) -> datetime:
    """sqlite-jdbc stores moments as milliseconds unless it is told to write them as texts."""
    if isinstance(value, int | float):
        return _EPOCH + timedelta(milliseconds=value)
    return datetime.fromisoformat(value).replace(tzinfo=None)
