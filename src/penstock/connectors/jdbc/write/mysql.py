"""Writes rows to MySQL and MariaDB: many rows with each INSERT; updates and deletes by a temporary
table."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from penstock.api.schema import Logical, Schema, Type, Value
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.errors import DatabaseRefused
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
    Write,
    one_by_one,
    unchanged,
    unwritable,
    uuids,
    wall_time,
)

_STATEMENT: Final = 1 << 20
"""Characters of a statement; longer ones are no faster."""

_TABLE: Final = """\
SELECT t.table_type, c.column_name, c.column_type, c.is_nullable = 'YES',
  c.column_default IS NOT NULL OR c.extra LIKE '%%auto_increment%%', c.column_key = 'PRI',
  c.collation_name, t.engine IN ('MyISAM', 'Aria', 'MEMORY', 'CSV', 'ARCHIVE')
FROM information_schema.tables t JOIN information_schema.columns c
  ON c.table_schema = t.table_schema AND c.table_name = t.table_name
WHERE t.table_schema = COALESCE(%s, DATABASE()) AND t.table_name = %s
ORDER BY c.ordinal_position"""


class MySql(Dialect):
    """MySQL since version 5.7, MariaDB since 10.3."""

    quotes = ("`", "`")
    max_parts = 2
    types: Mapping[Type | Logical, str] = {
        Type.INT8: "TINYINT",
        Type.INT16: "SMALLINT",
        Type.INT32: "INT",
        Type.INT64: "BIGINT",
        Type.FLOAT32: "FLOAT",
        Type.FLOAT64: "DOUBLE",
        Type.BOOLEAN: "TINYINT",
        Type.STRING: "TEXT",
        Type.BYTES: "VARBINARY(1024)",
        Logical.DECIMAL: "DECIMAL(65,{scale})",
        Logical.DATE: "DATE",
        Logical.TIME: "TIME(3)",
        Logical.TIMESTAMP: "DATETIME(3)",
    }

    def table(self, connection: Connection, table: TableName) -> ExistingTable | None:
        rows = connection.rows(_TABLE, (table.schema, table.name))
        if not rows:
            return None
        kind = "VIEW" if "VIEW" in rows[0][0] else "TABLE"
        columns = [
            ExistingColumn(name, str(type), bool(nullable), bool(filled), bool(key), collation)
            for _, name, type, nullable, filled, key, collation, _ in rows
        ]
        return ExistingTable(kind, tuple(columns), transactional=not rows[0][-1])

    def session(self, connection: Connection) -> None:
        # Like the JVM's drivers: the server refuses a value that does not fit, and never truncates.
        # Backslashes escape in texts, as `_string` needs.
        connection.execute(
            "SET SESSION sql_mode = CONCAT(REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', ''), "
            "',STRICT_TRANS_TABLES')"
        )
        offset = datetime(2000, 1, 1, tzinfo=self.zone).strftime("%z")
        fixed = self.zone.key == "UTC" or self.zone.key.startswith("Etc/")
        zone = f"{offset[:3]}:{offset[3:]}" if fixed else self.zone.key
        try:
            connection.execute("SET SESSION time_zone = %s", (zone,))
        except DatabaseRefused as error:
            raise DatabaseRefused(
                f"The server does not know the time zone '{zone}' (db.timezone); load its time "
                f"zone tables (mysql_tzinfo_to_sql) or set an offset such as GMT+2. {error}"
            ) from error

    def encoder(self, schema: Schema, form: str | None = None) -> Encoder:
        literal = self._literal_of(schema)

        def encode(cells: Cells, bad: dict[int, Exception]) -> list[Value]:
            if None not in cells:
                try:
                    return list(map(literal, cells))
                except (ValueError, OverflowError):  # some are bad
                    pass
            return ["NULL" if text is None else text for text in one_by_one(literal, cells, bad)]

        return encode

    def _literal_of(self, schema: Schema) -> Callable[[Value], str]:
        match schema.logical:
            case Logical.TIMESTAMP:
                zone = self.zone
                if zone.key == "UTC":
                    return lambda value: f"'{str(value)[:-6]}'"  # without "+00:00"
                return lambda value: f"'{value.astimezone(zone).replace(tzinfo=None)}'"
            case Logical.TIME:
                zone = self.zone
                return lambda value: f"'{wall_time(value, zone)}'"
            case Logical.DATE:
                return lambda value: f"'{value}'"
            case Logical.DECIMAL:
                return lambda value: format(value, "f")
        match schema.type:
            case Type.STRING:
                return _string
            case Type.BYTES:
                return lambda value: f"X'{value.hex()}'"
            case Type.BOOLEAN:
                return lambda value: "1" if value else "0"
            case Type.FLOAT32 | Type.FLOAT64:
                return _float
            case Type.ARRAY | Type.MAP | Type.STRUCT:
                raise unwritable(schema)
        return str

    def identity(self, schema: Schema, column: ExistingColumn) -> Identity | None:
        type, _, modifier = column.type.partition("(")
        kind = schema.logical or schema.type
        if kind is Type.STRING and type == "uuid":
            return uuids
        if type.split()[0] not in _COMPARED.get(kind, ()):
            return None
        match kind:
            case Type.STRING:
                return _texts_in(column.collation or "")
            case Logical.DECIMAL:
                scale = modifier.partition(")")[0].partition(",")[2]
                return unchanged if (schema.scale or 0) <= int(scale or 0) else None
        return unchanged

    def prepare(self, connection: Connection, segment: Segment) -> None:
        if segment.write in (Write.UPDATE, Write.DELETE):
            columns = self.listed(segment.columns)
            self._create_stage(connection, segment.stage, segment, columns)

    sequential = False

    def prepare_keys(self, connection: Connection, keys: Segment) -> None:
        columns = f"{self.listed(keys.columns)}, 0 AS {NUMBER}"
        self._create_stage(connection, f"{keys.stage}_k", keys, columns)
        connection.execute("SET SESSION group_concat_max_len = 1048576")

    def equal_keys(
        self, connection: Connection, keys: Segment, columns: Sequence[Cells]
    ) -> list[list[int]]:
        stage, names = f"{keys.stage}_k", self.listed(keys.columns)
        connection.execute(f"DELETE FROM {stage}")
        numbers: Cells = list(map(str, range(len(columns[0]))))
        begin = f"INSERT INTO {stage} ({names}, {NUMBER}) VALUES "
        self._insert(connection, begin, [*columns, numbers], "")
        rows = connection.rows(
            f"SELECT GROUP_CONCAT({NUMBER}) FROM {stage} GROUP BY {names} HAVING COUNT(*) > 1"
        )
        return [list(map(int, str(group).split(","))) for (group,) in rows]

    def _create_stage(
        self, connection: Connection, stage: str, segment: Segment, columns: str
    ) -> None:
        connection.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {stage} AS "
            f"SELECT {columns} FROM {self.qualified(segment.table)} LIMIT 0"
        )

    def begin_offset(self, table: TableName, mark: str) -> str:
        marks = ", ".join([mark] * 4)
        return f"INSERT IGNORE INTO {self.qualified(table)} VALUES ({marks})"

    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        table, names = self.qualified(segment.table), self.listed(segment.columns)
        if segment.write in (Write.INSERT, Write.UPSERT):
            ending = self._on_duplicate(segment) if segment.write is Write.UPSERT else ""
            self._insert(connection, f"INSERT INTO {table} ({names}) VALUES ", columns, ending)
            return
        stage = segment.stage
        connection.execute(f"DELETE FROM {stage}")
        self._insert(connection, f"INSERT INTO {stage} ({names}) VALUES ", columns, "")
        keys = (self.quoted(segment.columns[at]) for at in segment.keys)
        same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        if segment.write is Write.DELETE:
            connection.execute(f"DELETE t FROM {table} AS t JOIN {stage} AS s ON {same}")
            return
        others = (self.quoted(segment.columns[at]) for at in segment.others)
        changes = ", ".join(f"t.{name} = s.{name}" for name in others)
        connection.execute(f"UPDATE {table} AS t JOIN {stage} AS s ON {same} SET {changes}")

    def _insert(
        self, connection: Connection, begin: str, columns: Sequence[Cells], ending: str
    ) -> None:
        rows = list(map(",".join, zip(*columns, strict=True)))
        packet = int(connection.rows("SELECT @@max_allowed_packet")[0][0])
        limit = min(_STATEMENT, packet // 4)  # a character may be four bytes
        for first, last in _runs(rows, limit):
            connection.execute(f"{begin}({'),('.join(rows[first:last])}){ending}")

    def _on_duplicate(self, segment: Segment) -> str:
        # If all columns are keys, sets one to itself: nothing changes, and nothing fails.
        changed = segment.others or segment.keys[:1]
        names = [self.quoted(segment.columns[at]) for at in changed]
        changes = ", ".join(f"{name} = VALUES({name})" for name in names)
        return f" ON DUPLICATE KEY UPDATE {changes}"


def _runs(rows: list[str], limit: int) -> Iterator[tuple[int, int]]:
    """Splits rows into ranges of at most about `limit` characters, but at least one row."""
    first = size = 0
    for at, row in enumerate(rows):
        if size and size + len(row) > limit:
            yield first, at
            first, size = at, 0
        size += len(row) + 3
    if rows:
        yield first, len(rows)


_INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_COMPARED: Final[Mapping[Type | Logical, tuple[str, ...]]] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), _INTEGERS),
    Type.STRING: ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
    Type.BYTES: ("varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
    Logical.DECIMAL: ("decimal",),
    Logical.DATE: ("date",),
}
"""Columns in which the server's comparison of values of a type is known: Python's, but for texts
that of `_texts_in`."""

_COLLATION: Final = re.compile(
    r"(?:(?:utf8mb[34]|utf8|latin1|ascii|uca1400)_)+(?:(?:general|unicode|unicode_520|swedish|0900)_)?"
    r"(?:nopad_)?(?:(?:ai|as)_)?(?P<case>ci|cs)|\w+_bin"
)


def _texts_in(collation: str) -> Identity | None:
    """How texts compare in a collation. Only for texts of printable ASCII characters: accents, and
    characters without a weight, depend on the collation and the server's version."""
    known = _COLLATION.fullmatch(collation)
    if known is None:
        return None

    def identity(cells: Cells) -> Cells | None:
        joined = "".join(cells)
        plain = joined.isascii() and joined.isprintable()
        # Most collations ignore blanks at the end.
        if not plain or (" " in joined and any(cell.endswith(" ") for cell in cells)):
            return None
        return "\n".join(cells).lower().split("\n") if known["case"] == "ci" else cells

    return identity


_SPECIAL: Final = re.compile("[\\\\'\0\n\r\x1a]")
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "'": "''", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"}
)


def _string(value: str) -> str:
    return f"'{value.translate(_ESCAPES)}'" if _SPECIAL.search(value) else f"'{value}'"


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"MySQL cannot store {value}")
    return repr(value)
