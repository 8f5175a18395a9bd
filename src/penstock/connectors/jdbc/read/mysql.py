"""MySQL and MariaDB: rows arrive as texts, and Arrow converts whole columns of them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.connectors.jdbc.drivers.connection import BLOCK_ROWS, Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
from penstock.connectors.jdbc.drivers.moments import digits, moment
from penstock.connectors.jdbc.drivers.types import ARROW, Sql
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reading import Blocks, Columns, Reading, block

_TYPES: Final = {
    # FIELD_TYPE of the protocol, and its type in Connector/J.
    0: Sql.DECIMAL,
    1: Sql.TINYINT,
    2: Sql.SMALLINT,
    3: Sql.INTEGER,
    4: Sql.REAL,
    5: Sql.DOUBLE,
    7: Sql.TIMESTAMP,
    8: Sql.BIGINT,
    9: Sql.INTEGER,  # MEDIUMINT
    10: Sql.DATE,
    11: Sql.TIME,
    12: Sql.TIMESTAMP,
    13: Sql.DATE,  # YEAR
    14: Sql.DATE,
    15: Sql.STRING,
    245: Sql.STRING,  # JSON
    246: Sql.DECIMAL,
    247: Sql.STRING,  # ENUM
    248: Sql.STRING,  # SET
    249: Sql.STRING,
    250: Sql.STRING,
    251: Sql.STRING,
    252: Sql.STRING,
    253: Sql.STRING,
    254: Sql.STRING,
    255: Sql.BYTES,  # GEOMETRY
}
_BIT: Final = 16
_TINYINT: Final = 1
_YEAR: Final = 13
_TIMESTAMP: Final = 7
_TEXTS: Final = frozenset({15, *range(249, 255)})
_BINARY: Final = 63  # the character set of bytes

_NOT_NULL: Final = 1
_UNSIGNED: Final = 32
_AUTO_INCREMENT: Final = 512

_MICROS: Final = "CAST(UNIX_TIMESTAMP(%) * 1000000 AS SIGNED)"
_NOT_PREPARED: Final = 1295  # the error of a statement that PREPARE does not support
_MAX_FIELDS: Final = 500  # of a statement
_MICROS_OF_SECONDS: Final = "CAST(% * 1000000 AS SIGNED)"
_US: Final = timedelta(microseconds=1)
_SET_BACK_S: Final = 4 * 3600
"""More than a zone's clocks are set back at a time."""

_KINDS: Final = {"TABLE": "BASE TABLE", "VIEW": "VIEW", "SYSTEM TABLE": "SYSTEM VIEW"}


class MysqlReading(Reading):
    """Tables of MySQL or MariaDB."""

    quotes = ("`", "`")

    def tables(
        self, types: Collection[str], schema: str | None, catalog: str | None
    ) -> list[TableId]:
        kinds = [f"'{_KINDS[type]}'" for type in types if type in _KINDS] or ["''"]
        rows = self.connection.rows(
            "SELECT table_schema, table_name FROM information_schema.tables "
            f"WHERE table_type IN ({', '.join(kinds)}) AND table_schema LIKE %s ORDER BY 1, 2",
            (self.connection.url.database if catalog is None else catalog,),
        )
        return [TableId(catalog, "", name) for catalog, name in rows]

    def table(self, table: TableId) -> str:
        return ".".join(self.name(part) for part in (table.catalog, table.name) if part)

    def columns(self, source: str, table: TableId | None) -> Columns:
        with self.connection.errors(), contextlib.closing(self.connection.raw.cursor()) as cursor:
            cursor.execute(f"SELECT * FROM {source} LIMIT 0")
            fields = list(cursor._result.fields)
        options = self.connection.url.options
        columns = [_column(field, options) for field in fields if _is_supported(field)]
        return columns, _unsupported(fields)

    def now_us(self) -> int:
        ((now,),) = self.connection.rows(f"SELECT {_MICROS.replace('%', 'CURRENT_TIMESTAMP(6)')}")
        return int(now)

    def clock_us(self, column: SqlColumn, zone: ZoneInfo) -> int:
        if column.zoned:
            return self.now_us()
        # In the zone of the session, like the moments that DEFAULT CURRENT_TIMESTAMP writes.
        ((now,),) = self.connection.rows("SELECT CAST(CURRENT_TIMESTAMP(6) AS CHAR)")
        return (datetime.fromisoformat(now).replace(tzinfo=UTC) - moment(0)) // _US

    def literal(self, at_ns: int, column: SqlColumn) -> str:
        if not column.zoned:
            return super().literal(at_ns, column)
        seconds, rest = divmod(max(0, at_ns), 1_000_000_000)
        return f"{seconds}.{rest // 1000:06}"

    def compared(self, sql: str, column: SqlColumn) -> str:
        # The session's zone stays that of the server, so that expressions in views and queries
        # have the values that other clients see. In most zones, an hour of each year is there
        # twice: only as a number is a TIMESTAMP unambiguous.
        return f"UNIX_TIMESTAMP({sql})" if column.sql == _MICROS else sql

    def first_of(self, columns: Sequence[SqlColumn]) -> tuple[str, SqlColumn]:
        if not columns[0].zoned:
            return super().first_of(columns)
        # MySQL's COALESCE makes a DATETIME of its arguments.
        numbers = ", ".join(f"UNIX_TIMESTAMP({self.name(column.name)})" for column in columns)
        return f"COALESCE({numbers})", replace(columns[0], sql=_MICROS_OF_SECONDS)

    def near(self, sql: str, at_ns: int, column: SqlColumn, *, later: bool) -> str:
        if column.sql != _MICROS:
            return ""
        # Where clocks were set back shortly after or before that moment, this is earlier or later.
        seconds = max(0, at_ns) // 1_000_000_000 + (not later)
        other = max(0, seconds + (_SET_BACK_S if later else -_SET_BACK_S))
        choice, sign, operator = ("LEAST", "-", ">=") if later else ("GREATEST", "+", "<=")
        shifted = f"FROM_UNIXTIME({other}) {sign} INTERVAL {abs(other - seconds)} SECOND"
        return f"{sql} {operator} CAST({choice}(FROM_UNIXTIME({seconds}), {shifted}) AS DATETIME)"

    def stripe(self, key: str, keys: int, parts: int) -> str:
        return f"({key} DIV {keys}) % {parts}"

    def blocks(self, sql: str, columns: Sequence[SqlColumn]) -> Blocks:
        for _, rows in self._streamed(sql):
            cells = zip(columns, zip(*rows, strict=True), strict=True)
            yield block(columns, [_cells(column, values) for column, values in cells])

    def described(self, statement: str) -> Columns | None:
        try:
            self.connection.execute("PREPARE penstock FROM %s", (statement,))
        except DatabaseRefused as error:
            if f"(error {_NOT_PREPARED})" not in str(error):
                raise
        else:
            self.connection.execute("DEALLOCATE PREPARE penstock")
        return None

    def _run(self, statement: str) -> Generator[Columns | pa.RecordBatch, None, None]:
        columns: dict[int, SqlColumn] = {}
        with contextlib.ExitStack() as clocks:
            instants = _Instants(self.connection, clocks)
            for fields, rows in self._streamed(statement, described=True):
                if not rows:
                    options = self.connection.url.options
                    unsupported = _unsupported(fields)
                    columns = {
                        at: _column(field, options)
                        for at, field in enumerate(fields)
                        if _is_supported(field)
                    }
                    yield list(columns.values()), unsupported
                    continue
                cells = list(zip(*rows, strict=True))
                yield block(
                    list(columns.values()),
                    [
                        _cells(column, instants.of(cells[at]) if column.zoned else cells[at])
                        for at, column in columns.items()
                    ],
                )

    def _streamed(
        self, sql: str, *, described: bool = False
    ) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
        """The fields of a statement's result, and its rows, thousands at a time; with `described`,
        first the fields alone."""
        from pymysql.cursors import SSCursor

        raw = self.connection.raw
        decoders, raw.decoders = raw.decoders, {}  # leaves texts, which Arrow converts by column
        try:
            with self.connection.errors(), contextlib.closing(raw.cursor(SSCursor)) as cursor:
                cursor.execute(sql)
                fields = cursor._result.fields if cursor.description else []
                try:
                    if described:
                        yield fields, ()
                    while rows := cursor.fetchmany(BLOCK_ROWS):
                        yield fields, rows
                except BaseException:
                    # Cursor and result would read all remaining rows before closing, perhaps the
                    # whole table. So close the connection, which is no longer needed.
                    cursor._result.unbuffered_active = False
                    raw.close()
                    raise
        finally:
            raw.decoders = decoders


class _Instants:
    """Converts TIMESTAMPs in the session's time zone, by the server that knows it; the connection
    for that is closed with `until`."""

    def __init__(self, connection: Connection, until: contextlib.ExitStack) -> None:
        self._connection = connection
        self._until = until
        self._other: Connection | None = None

    def of(self, texts: Sequence[str | None]) -> list[str | None]:
        """Texts as microseconds since the epoch, 0 for no date."""
        if self._other is None:
            opened = type(self._connection).open(self._connection.url)
            self._other = self._until.enter_context(opened)
        known: dict[str, str] = {}
        distinct = list({text for text in texts if text})
        for start in range(0, len(distinct), _MAX_FIELDS):
            some = distinct[start : start + _MAX_FIELDS]
            fields = ", ".join(_MICROS.replace("%", f"'{text}'") for text in some)
            ((*numbers,),) = self._other.rows(f"SELECT {fields}")
            known |= {text: str(number or 0) for text, number in zip(some, numbers, strict=True)}
        return [text and known[text] for text in texts]


def _unsupported(fields: Sequence[Any]) -> list[str]:
    return [
        f"column '{field.name}' is of MySQL type {field.type_code}"
        for field in fields
        if not _is_supported(field)
    ]


def _is_supported(field: Any) -> bool:
    return field.type_code == _BIT or field.type_code in _TYPES


def _column(field: Any, options: Mapping[str, str | int | bool]) -> SqlColumn:
    code: int = field.type_code
    binary = field.charsetnr == _BINARY
    precision = scale = 0
    if code == _BIT:
        # Connector/J: one bit is a BIT, several are bytes.
        sql_type = Sql.BIT if field.length == 1 else Sql.BYTES
        type_name = f"bit({field.length})"
    else:
        sql_type = _TYPES[code]
        type_name = sql_type.value.lower()
        if code in _TEXTS and binary:
            sql_type, type_name = Sql.BYTES, "binary"
        elif code == _YEAR:
            sql_type = Sql.DATE if options["year_is_date"] else Sql.SMALLINT
            type_name = "year"
        elif code == _TINYINT and _is_boolean(field, options):
            sql_type, type_name = Sql.BOOLEAN, "tinyint(1)"
    if sql_type is Sql.DECIMAL:
        scale = field.scale
        unsigned = bool(field.flags & _UNSIGNED)
        precision = field.length - (1 if scale else 0) - (0 if unsigned else 1)
        type_name = f"decimal({precision},{scale})"
    digits = min(6, field.scale) if sql_type is Sql.TIMESTAMP else 6
    return SqlColumn(
        field.name,
        sql_type,
        type_name,
        nullable=not field.flags & _NOT_NULL,
        precision=precision,
        scale=scale,
        # YEAR has the flag, too; Connector/J's SMALLINT for it is signed.
        signed=code == _YEAR or not field.flags & _UNSIGNED,
        zoned=code == _TIMESTAMP,
        auto_increment=bool(field.flags & _AUTO_INCREMENT),
        resolution_us=10 ** (6 - digits),
        zero_dates=str(options["zero_dates"]),
        sql=_MICROS if code == _TIMESTAMP else "%",
    )


def _is_boolean(field: Any, options: Mapping[str, str | int | bool]) -> bool:
    """Whether the URL asks for TINYINT(1) as a truth value."""
    narrow = field.length == 1 and not field.flags & _UNSIGNED
    return bool(narrow and options["tiny_int_is_bit"] and options["bit_is_boolean"])


def _cells(column: SqlColumn, values: Sequence[Any]) -> pa.Array:
    if column.sql_type is Sql.BIT:
        return pa.array(
            [None if v is None else int.from_bytes(v, "big") for v in values], pa.int64()
        )
    if column.sql_type is Sql.BYTES:
        return pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary())
    if column.type_name == "year" and column.sql_type is Sql.DATE:
        return pa.array([None if v is None else f"{int(v):04}-01-01" for v in values], pa.string())
    if column.sql in (_MICROS, _MICROS_OF_SECONDS):
        texts = pa.array(values, pa.string())
        if "0" not in values:
            return texts.cast(pa.int64()).cast(ARROW[Sql.TIMESTAMP])
        return pa.array([v and _from_micros(int(v)) for v in values], pa.string())
    if column.sql_type is Sql.TIME:
        return pa.array([None if v is None else _padded(v) for v in values], pa.string())
    if (
        column.sql_type is Sql.BOOLEAN
    ):  # as Connector/J reads numbers: negative ones but -1 are false
        return pa.array(
            [None if v is None else v == "-1" or not v.startswith(("0", "-")) for v in values]
        )
    return pa.array(values, pa.string())


def _from_micros(us: int) -> str:
    """A TIMESTAMP as a text: 0 is that of no date, which the type can hold."""
    return digits(us * 1000) if us else "0000-00-00 00:00:00"


def _padded(text: str) -> str:
    """A time in ISO's form, with a fraction of six digits if it has any."""
    whole, dot, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(6, '0')}" if dot else whole
