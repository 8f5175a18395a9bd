"""What differs between databases when rows are written: names, types, statements.

A dialect is asked a segment at a time: rows of one table, with one set of columns, that are all
written the same way. It gets them by column, in the form its own `encoder`s made, and raises one
of `drivers.errors` when the database refuses them; finding the row to blame is not its concern.
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
"""The cells of one column as the dialect writes them; a cell that has no such form gets an entry,
by its place, in the mapping, and None in its place."""


class Write(Enum):
    """How rows are written; the value is what `insert.mode` says (or Kafka's tombstones)."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


class UnmappedType(PenstockError):
    """A schema has no type in the database."""

    code = "jdbc.type"


def unwritable(schema: Schema) -> UnmappedType:
    """The error for values of a schema that no column can hold."""
    return UnmappedType(f"Unsupported source data type: {schema.type.name}")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name with what qualifies it: schema, or catalog and schema.

    >>> TableName.parse('shop."Order.Lines"').parts
    ('shop', 'Order.Lines')
    """

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> TableName:
        """From the form `a.b.c`, where a part may be quoted."""
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
        """What qualifies the name; None: nothing does."""
        return self.parts[-2] if len(self.parts) > 1 else None

    def __str__(self) -> str:
        return ".".join(f'"{part}"' for part in self.parts)


_PART: Final = re.compile(r'("(?:[^"]|"")+"|`(?:[^`]|``)+`)|([^."`]+)')


@dataclass(frozen=True, slots=True)
class ColumnFound:
    """A column that a table has."""

    name: str
    type: str  # in the database's words
    nullable: bool = True
    filled: bool = False  # has a default, or the database makes up a value
    key: bool = False


@dataclass(frozen=True, slots=True)
class TableFound:
    """A table that is there: what kind of thing it is (`TABLE`, `VIEW`), and its columns."""

    type: str
    columns: tuple[ColumnFound, ...]

    def column(self, name: str) -> ColumnFound | None:
        """The column of that name; one whose name differs only by case if there is no other."""
        same = [each for each in self.columns if each.name == name]
        alike = [each for each in self.columns if each.name.lower() == name.lower()]
        found = same or alike
        return found[0] if found else None


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
    """Which columns of which table are written, and how. `keys` are places in `columns`."""

    write: Write
    table: TableName
    columns: tuple[str, ...]
    keys: tuple[int, ...]
    forms: tuple[str, ...] = ()  # see `Dialect.forms`

    @property
    def others(self) -> tuple[int, ...]:
        """The places of the columns that are no keys."""
        return tuple(at for at in range(len(self.columns)) if at not in self.keys)

    @property
    def stage(self) -> str:
        """The name of a temporary table for such rows; no other segment's has it."""
        said = repr((self.write.value, self.table.parts, self.columns))
        return f"penstock_{hashlib.sha256(said.encode()).hexdigest()[:16]}"


class Dialect(ABC):
    """One kind of database."""

    quotes: tuple[str, str] = ('"', '"')
    most_parts: ClassVar[int]  # of a table's name
    types: Mapping[Type | Logical, str]
    creates: str = "CREATE TABLE IF NOT EXISTS"

    def __init__(self, zone: ZoneInfo, *, quoting: bool = True) -> None:
        self.zone = zone
        self.quoting = quoting

    def quoted(self, name: str) -> str:
        """A name as it stands in statements."""
        return in_quotes(name, self.quotes) if self.quoting else name

    def qualified(self, table: TableName) -> str:
        """A table's name as it stands in statements."""
        return ".".join(self.quoted(part) for part in table.parts[-self.most_parts :])

    def listed(self, names: Iterable[str]) -> str:
        """Names, quoted, with commas between them."""
        return ", ".join(map(self.quoted, names))

    @abstractmethod
    def table(self, connection: Connection, table: TableName) -> TableFound | None:
        """The table of that name, or None."""

    def column_type(self, wanted: Wanted) -> str:
        """The type of a column that is to hold values of a schema; UnmappedType if there is none
        (connectors.md §3.2)."""
        schema = wanted.schema
        found = self.types.get(schema.logical or schema.type)
        if found is None:
            raise UnmappedType(
                f"{schema.name or ''} ({schema.type.name}) type doesn't have a mapping to the SQL "
                f"database column type of field '{wanted.name}'"
            )
        return found.format(scale=schema.scale) if "{scale}" in found else found

    def defined(self, wanted: Wanted) -> str:
        """A column as `CREATE TABLE` and `ALTER TABLE` define it."""
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
        raise UnmappedType(f"a default of type {schema.type.name} cannot be written in SQL")

    def boolean(self, value: bool) -> str:
        """A boolean as a literal of SQL."""
        return str(int(value))

    def binary(self, value: bytes) -> str:
        """Bytes as a literal of SQL."""
        return f"X'{value.hex()}'"

    def create(self, table: TableName, wanted: Sequence[Wanted]) -> str:
        """The statement that creates a table with these columns unless it is there."""
        rows = [self.defined(each) for each in wanted]
        keys = [each.name for each in wanted if each.key]
        if keys:
            rows.append(f"PRIMARY KEY({self.listed(keys)})")
        return f"{self.creates} {self.qualified(table)} (\n" + ",\n".join(rows) + ")"

    def add(self, table: TableName, wanted: Sequence[Wanted]) -> list[str]:
        """The statements that add columns to a table."""
        rows = ", ".join(f"ADD {self.defined(each)}" for each in wanted)
        return [f"ALTER TABLE {self.qualified(table)} {rows}"]

    def session(self, connection: Connection) -> None:  # noqa: B027 - not all need any
        """Sets up a new connection for writing."""

    def forms(
        self, schemas: Sequence[Schema], found: Sequence[ColumnFound | None]
    ) -> tuple[str, ...]:
        """The dialect's names of the columns' types, if all of them are just what the schemas
        need, and it has a faster way for such; else nothing."""
        return ()

    @abstractmethod
    def encoder(self, schema: Schema, form: str | None = None) -> Encoder:
        """How values of a schema are written, in the form that `forms` gave if it gave any;
        UnmappedType if they cannot be."""

    def prepare(self, connection: Connection, segment: Segment) -> None:  # noqa: B027
        """Makes what `write` needs besides the table; outside of any transaction, and once per
        connection."""

    @abstractmethod
    def write(self, connection: Connection, segment: Segment, columns: Sequence[Cells]) -> None:
        """Writes rows, inside a transaction: all of them, or none. With keys (UPSERT, UPDATE,
        DELETE), no two rows have the same."""

    offset_types: tuple[str, str] = ("VARCHAR(249)", "BIGINT")

    def create_offsets(self, table: TableName) -> str:
        """The statement that creates the table of `penstock.exactly.once`."""
        text, number = self.offset_types
        names = [self.quoted(name) for name in OFFSET_COLUMNS]
        kinds = (text, text, number, number)
        rows = [f"{name} {kind} NOT NULL" for name, kind in zip(names, kinds, strict=True)]
        rows.append(f"PRIMARY KEY({', '.join(names[:3])})")
        return f"{self.creates} {self.qualified(table)} ({', '.join(rows)})"

    locking: str = " FOR UPDATE"

    @abstractmethod
    def begin_offset(self, table: TableName, mark: str) -> str:
        """The statement that adds a row to the offsets table unless it has it."""

    def check_at_once(self, connection: Connection) -> None:  # noqa: B027
        """Has constraints checked with every statement, until the transaction ends."""


OFFSET_COLUMNS: Final = ("connector", "topic", "kafka_partition", "next_offset")


def one_by_one(
    convert: Callable[[Value], Value], cells: Cells, bad: dict[int, Exception]
) -> list[Value]:
    """The cells converted; for one that cannot be there is an entry in `bad`, and None."""
    found: list[Value] = []
    for at, cell in enumerate(cells):
        try:
            found.append(None if cell is None else convert(cell))
        except (ValueError, OverflowError) as error:
            bad[at] = error
            found.append(None)
    return found


def wall_time(value: time, zone: ZoneInfo) -> time:
    """What a Connect Time, which is in UTC, is on a wall clock in the zone."""
    if zone.key == "UTC":
        return value
    return (datetime.combine(_EPOCH_DAY, value, UTC) + clock_shift(zone)).time()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
