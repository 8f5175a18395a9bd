"""The differences between databases in writing rows: names, types, statements.

A dialect writes a segment at a time: rows of one table, with one set of columns, that are all
written the same way. It receives columns that its own `encoder`s encoded, and raises one of
`drivers.errors` when the database refuses the rows; the caller finds the row at fault.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

from penstock.api import PenstockError
from penstock.api.schema import Logical, Schema, Type, Value
from penstock.connectors.jdbc.drivers.connection import Connection, in_quotes
from penstock.connectors.jdbc.drivers.moments import clock_shift

_EPOCH_DAY: Final = date(1970, 1, 1)

Cells = list[Value]
Encoder = Callable[[Cells, dict[int, Exception]], list[Value]]
"""Encodes the cells of one column for the dialect. A cell that cannot be encoded becomes None, and
its error an entry in the mapping, by its index."""
Identity = Callable[[Cells], Cells | None]
"""Maps the cells of a key column, as they are before encoding, to values that are equal in Python
exactly if the database considers the cells equal; None if that is unknown for one of them."""


class Write(Enum):
    """How rows are written; the value is that of `insert.mode` (`delete`: for tombstones)."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


class UnmappedType(PenstockError):
    """The database has no type for a schema."""


def unwritable(schema: Schema) -> UnmappedType:
    """The error for values of a schema that no column can hold."""
    return UnmappedType(f"Unsupported source data type: {schema.type.name}")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name with its qualifiers: schema, or catalog and schema.

    >>> TableName.parse('shop."Order.Lines"').parts
    ('shop', 'Order.Lines')
    """

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parses the form `a.b.c`, where a part may be quoted."""
        parts = tuple(
            quoted[1:-1].replace(quoted[0] * 2, quoted[0]) if quoted else plain
            for quoted, plain in _PART.findall(text)
        )
        return cls(parts or (text,))

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def schema(self) -> str | None:
        """The qualifier of the name; None: it is unqualified."""
        return self.parts[-2] if len(self.parts) > 1 else None

    def __str__(self) -> str:
        return ".".join(f'"{part}"' for part in self.parts)


_PART: Final = re.compile(r'("(?:[^"]|"")+"|`(?:[^`]|``)+`)|([^."`]+)')


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    """A column of an existing table."""

    name: str
    type: str  # in the database's words
    nullable: bool = True
    filled: bool = False  # has a default, or the database generates a value
    key: bool = False
    collation: str | None = None  # of texts, if some of them are equal that have other bytes
    ambiguous: bool = False  # a unique index compares it in another way
    code: int = 0  # one of java.sql.Types, if a JDBC driver describes the column


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """The type of an existing table (`TABLE`, `VIEW`), and its columns. Without transactions,
    nothing is rolled back: not a statement of which one row is refused, and no batch."""

    type: str
    columns: tuple[ExistingColumn, ...]
    transactional: bool = True

    def column(self, name: str) -> ExistingColumn | None:
        """The column of that name, or else the first whose name differs only by case."""
        same = [column for column in self.columns if column.name == name]
        alike = [column for column in self.columns if column.name.lower() == name.lower()]
        matching = same or alike
        return matching[0] if matching else None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column that records need."""

    name: str
    schema: Schema
    key: bool = False

    @property
    def nullable(self) -> bool:
        return self.schema.optional and not self.key


@dataclass(frozen=True, slots=True)
class Segment:
    """Which columns of which table are written, and how. `keys` are indexes of `columns`.
    `repeats`: several rows may have keys that the database considers equal. `singly`: only one row
    may be written at a time, as the database would keep others of a statement that it refuses."""

    write: Write
    table: TableName
    columns: tuple[str, ...]
    keys: tuple[int, ...]
    forms: tuple[str, ...] = ()  # see `Dialect.forms`
    repeats: bool = False
    singly: bool = False

    @property
    def others(self) -> tuple[int, ...]:
        """The indexes of the columns that are not keys."""
        return tuple(at for at in range(len(self.columns)) if at not in self.keys)

    @property
    def stage(self) -> str:
        """The name of a temporary table for the segment's rows, different for every segment."""
        identity = repr((self.write.value, self.table.parts, self.columns))
        return f"penstock_{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


class Dialect(ABC):
    """One kind of database."""

    quotes: tuple[str, str] = ('"', '"')
    max_parts: ClassVar[int]  # of a table's name
    types: Mapping[Type | Logical, str]
    creates: str = "CREATE TABLE IF NOT EXISTS"

    def __init__(self, zone: ZoneInfo, *, quoting: bool = True) -> None:
        self.zone = zone
        self.quoting = quoting

    def quoted(self, name: str) -> str:
        """A name for use in statements, quoted if enabled."""
        return in_quotes(name, self.quotes) if self.quoting else name

    def qualified(self, table: TableName) -> str:
        """A table's name for use in statements."""
        return ".".join(self.quoted(part) for part in table.parts[-self.max_parts :])

    def listed(self, names: Iterable[str]) -> str:
        """Quoted names, separated by commas."""
        return ", ".join(map(self.quoted, names))

    @abstractmethod
    def table(self, connection: Connection, table: TableName) -> ExistingTable | None:
        """The table of that name, or None."""

    def column_type(self, wanted: Wanted) -> str:
        """The type of a new column; raises UnmappedType if there is none for its schema
        (connectors.md §3.2)."""
        schema = wanted.schema
        sql_type = self.types.get(schema.logical or schema.type)
        if sql_type is None:
            raise UnmappedType(
                f"{schema.name or ''} ({schema.type.name}) type doesn't have a mapping to the SQL "
                f"database column type of field '{wanted.name}'"
            )
        return sql_type.format(scale=schema.scale) if "{scale}" in sql_type else sql_type

    def defined(self, wanted: Wanted) -> str:
        """The definition of a column for `CREATE TABLE` and `ALTER TABLE`."""
        parts = [self.quoted(wanted.name), self.column_type(wanted)]
        if wanted.schema.default is not None and not wanted.key:
            parts.append(f"DEFAULT {self.default(wanted.schema)}")
        parts.append("NULL" if wanted.nullable else "NOT NULL")
        return " ".join(parts)

    def default(self, schema: Schema) -> str:
        """A schema's default as a literal of SQL."""
        value = schema.default
        match value:
            case bool():
                return self.boolean(value)
            case int() | float() | Decimal():
                return str(value)
            case datetime():
                return _text(value.astimezone(self.zone).replace(tzinfo=None).isoformat(" "))
            case date():
                return _text(value.isoformat())
            case time():
                return _text(wall_time(value, self.zone).isoformat())
            case bytes():
                return self.binary(value)
            case str():
                return _text(value)
        raise UnmappedType(f"a default of type {schema.type.name} cannot be expressed in SQL")

    def boolean(self, value: bool) -> str:
        """A boolean as a literal of SQL."""
        return str(int(value))

    def binary(self, value: bytes) -> str:
        """Bytes as a literal of SQL."""
        return f"X'{value.hex()}'"

    def create(self, table: TableName, wanted: Sequence[Wanted]) -> str:
        """The statement that creates a table with these columns, unless it exists."""
        definitions = [self.defined(column) for column in wanted]
        keys = [column.name for column in wanted if column.key]
        if keys:
            definitions.append(f"PRIMARY KEY({self.listed(keys)})")
        return f"{self.creates} {self.qualified(table)} (\n" + ",\n".join(definitions) + ")"

    def add(self, table: TableName, wanted: Sequence[Wanted]) -> list[str]:
        """The statements that add columns to a table."""
        additions = ", ".join(f"ADD {self.defined(column)}" for column in wanted)
        return [f"ALTER TABLE {self.qualified(table)} {additions}"]

    def session(self, connection: Connection) -> None:  # noqa: B027 - not all need any
        """Sets up a new connection for writing."""

    def forms(
        self, schemas: Sequence[Schema], existing: Sequence[ExistingColumn | None]
    ) -> tuple[str, ...]:
        """The dialect's names of the columns' types, if all of them fit the schemas exactly and the
        dialect has a faster way to write such columns; else empty."""
        return ()

    @abstractmethod
    def encoder(self, schema: Schema, form: str | None = None) -> Encoder:
        """The encoder for values of a schema, in a form that `forms` returned if any; raises
        UnmappedType if no column can hold them."""

    def identity(self, schema: Schema, column: ExistingColumn) -> Identity | None:
        """How values of a schema in a key column compare; None: only the database knows."""
        return None

    sequential: bool = True
    """Whether `write` writes rows one after the other, so that several may have the same key.
    Otherwise `equal_keys` is called first."""

    def prepare_keys(self, connection: Connection, keys: Segment) -> None:
        """Creates what `equal_keys` needs; outside of any transaction, and once per connection.
        `keys` has only key columns, and no forms."""
        raise NotImplementedError

    def equal_keys(
        self, connection: Connection, keys: Segment, columns: Sequence[Cells]
    ) -> list[list[int]]:
        """The groups of rows, by index, whose keys are equal to the database, inside a
        transaction. Raises RowRefused if it cannot have one of them."""
        raise NotImplementedError

    def prepare(self, connection: Connection, segment: Segment) -> None:  # noqa: B027
        """Creates what `write` needs besides the table; outside of any transaction, and once per
        connection."""

    @abstractmethod
    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        """Writes rows, inside a transaction: all of them, or none. With keys (UPSERT, UPDATE,
        DELETE), no two rows have the same key, unless the segment `repeats` them: then the rows
        are written one after the other."""

    offset_types: tuple[str, str] = ("VARCHAR(249)", "BIGINT")

    def create_offsets(self, table: TableName) -> str:
        """The statement that creates the table of `penstock.exactly.once`."""
        text, number = self.offset_types
        names = [self.quoted(name) for name in OFFSET_COLUMNS]
        types = (text, text, number, number)
        definitions = [f"{name} {type} NOT NULL" for name, type in zip(names, types, strict=True)]
        definitions.append(f"PRIMARY KEY({', '.join(names[:3])})")
        return f"{self.creates} {self.qualified(table)} ({', '.join(definitions)})"

    locking: str = " FOR UPDATE"

    @abstractmethod
    def begin_offset(self, table: TableName, mark: str) -> str:
        """The statement that adds a row to the offsets table, unless it exists; `mark` is the
        placeholder for parameters."""

    def check_at_once(self, connection: Connection) -> None:  # noqa: B027
        """Makes statements check constraints immediately, until the transaction ends."""


def unchanged(cells: Cells) -> Cells:
    """The identity of cells that the database compares as Python does."""
    return cells


def shorter_than(limit: int) -> Identity:
    """The identity of texts that the database compares as Python does, unless they are longer and
    lose blanks at the end."""

    def identity(cells: Cells) -> Cells | None:
        return cells if max(map(len, cells), default=0) < limit else None

    return identity


def uuids(cells: Cells) -> Cells | None:
    """The identity of UUIDs as texts, in any of the forms that databases read.

    >>> uuids(["{0A0E1C00-0000-4000-8000-000000000000}", "0a0e1c00000040008000000000000000"])
    ['0a0e1c00000040008000000000000000', '0a0e1c00000040008000000000000000']
    """
    plain = "\n".join(cells).lower().replace("-", "").replace("{", "").replace("}", "").split("\n")
    return plain if len(plain) == len(cells) else None


NUMBER: Final = "penstock_row"
"""The column with the number of a row, in a temporary table for keys."""

OFFSET_COLUMNS: Final = ("connector", "topic", "kafka_partition", "next_offset")


def one_by_one(
    convert: Callable[[Value], Value], cells: Cells, bad: dict[int, Exception]
) -> list[Value]:
    """Converts cells; one that cannot be converted becomes None, and its error an entry in
    `bad`."""
    converted: list[Value] = []
    for at, cell in enumerate(cells):
        try:
            converted.append(None if cell is None else convert(cell))
        except (ValueError, OverflowError) as error:
            bad[at] = error
            converted.append(None)
    return converted


def wall_time(value: time, zone: ZoneInfo) -> time:
    """The wall clock time in the zone for a Connect Time, which is in UTC."""
    if zone.key == "UTC":
        return value
    return (datetime.combine(_EPOCH_DAY, value, UTC) + clock_shift(zone)).time()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
