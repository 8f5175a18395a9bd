"""Maps records with one pair of schemas to rows of one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Final

from penstock.api import DataError, PenstockError, Records
from penstock.api.schema import INT32, INT64, STRING, TIMESTAMP, Logical, Schema, Type, Value
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.moments import moment
from penstock.connectors.jdbc.write.dialect import (
    Cells,
    Dialect,
    Encoder,
    Identity,
    Segment,
    TableName,
    UnmappedType,
    Wanted,
    Write,
    one_by_one,
)
from penstock.connectors.jdbc.write.settings import KAFKA_KEYS, KeyMode, WriteSettings
from penstock.connectors.jdbc.write.tables import TableMismatch, Tables

_KAFKA_SCHEMAS: Final = (STRING, INT32, INT64)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the cells of a column are in records."""

    of_key: bool
    field: str | None  # None: the whole key or value
    kafka: int | None = None  # the index in `KAFKA_KEYS`
    default: Value = None
    convert: Callable[[Value], Value] | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A key column of a layout, by its index, and how its cells are compared."""

    at: int
    identity: Identity | None
    encode: Encoder
    ambiguous: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """How records with one pair of schemas are written to one table."""

    segment: Segment
    sources: tuple[Source, ...]
    encoders: tuple[Encoder, ...]
    keys: tuple[Key, ...]  # sorted by name: other layouts may have the columns in another order

    @property
    def is_ambiguous(self) -> bool:
        """Whether not even the database compares keys in one way only."""
        return any(key.ambiguous for key in self.keys)

    @property
    def key_segment(self) -> Segment:
        """The segment of the keys alone, for `Dialect.equal_keys`."""
        names = tuple(self.segment.columns[key.at] for key in self.keys)
        return Segment(Write.DELETE, self.segment.table, names, tuple(range(len(names))))

    def keys_of(self, columns: Sequence[Cells]) -> list[Value] | None:
        """The keys of rows, whose cells are not encoded; they are equal exactly if the database
        considers them equal. None: only the database knows that."""
        keys: list[Cells] = []
        for key in self.keys:
            cells = key.identity(columns[key.at]) if key.identity is not None else None
            if cells is None:
                return None
            keys.append(cells)
        return keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))

    def encoded_keys(self, columns: Sequence[Cells]) -> list[Cells]:
        """The cells of the keys alone, encoded for `Dialect.equal_keys`."""
        return [key.encode(columns[key.at], {}) for key in self.keys]

    def shown(self, at: int) -> str:
        return f"column '{self.segment.columns[at]}' of table {self.segment.table}"


class Layouts:
    """The layouts of one connection, cached together with its tables. `may_be_stale`: the tables
    may have changed since."""

    def __init__(self, connection: Connection, dialect: Dialect, settings: WriteSettings) -> None:
        self.connection = connection
        self.may_be_stale = False
        self._dialect = dialect
        self._settings = settings
        self._tables = Tables(connection, dialect, settings)
        self._known: dict[tuple[object, ...], Layout | PenstockError] = {}
        self._prepared: set[Segment] = set()
        self._prepared_keys: set[Segment] = set()

    def of(
        self,
        table: TableName,
        key: Schema | None,
        value: Schema | None,
        write: Write,
    ) -> Layout | PenstockError:
        """The layout for records with these schemas, or the error. Creates and alters tables as the
        settings allow."""
        known = self._known.get((table, key, value, write))
        if known is None:
            try:
                known = self._layout(table, key, value, write)
            except (TableMismatch, UnmappedType, DataError) as error:
                known = error
            self._known[table, key, value, write] = known
        return known

    def _layout(
        self,
        table: TableName,
        key: Schema | None,
        value: Schema | None,
        write: Write,
    ) -> Layout:
        wanted = self._wanted(table, key, value)
        if write is Write.DELETE:
            wanted = [(column, source) for column, source in wanted if column.key]
        if not wanted:
            raise TableMismatch(
                f"No fields found using key and value schemas for table: {table.name}"
            )
        columns = [column for column, _ in wanted]
        table_columns = self._tables.fitting(table, columns)
        existing = [table_columns.column(column.name) for column in columns]
        names = [column.name for column in existing if column is not None]
        for at, name in enumerate(names):
            if (first := names.index(name)) != at:
                raise TableMismatch(
                    f"The fields '{columns[first].name}' and '{columns[at].name}' are both column "
                    f"'{name}' of table {table}; rename or remove one of them, for example with "
                    "ReplaceField"
                )
        schemas = [column.schema for column in columns]
        forms = self._dialect.forms(schemas, existing)
        encoders = [
            self._dialect.encoder(schema, forms[at] if forms else None)
            for at, schema in enumerate(schemas)
        ]
        keys = tuple(at for at, column in enumerate(columns) if column.key)
        if write is not Write.INSERT and not keys:
            raise TableMismatch(
                f"Write to table {table} in {write.name} mode requires key field names to be "
                "known, check the primary key configuration"
            )
        if write is Write.UPDATE and len(keys) == len(columns):
            raise TableMismatch(
                f"Write to table {table} in UPDATE mode has nothing to update: all fields are keys"
            )
        singly = not table_columns.transactional
        segment = Segment(write, table, tuple(names), keys, forms, singly=singly)
        if segment not in self._prepared:
            self._dialect.prepare(self.connection, segment)
            self._prepared.add(segment)
        return Layout(
            segment,
            tuple(source for _, source in wanted),
            tuple(encoders),
            tuple(
                Key(
                    at,
                    self._dialect.identity(schemas[at], column),
                    self._dialect.encoder(schemas[at]),
                    column.ambiguous,
                )
                for at in sorted(keys, key=names.__getitem__)
                if (column := existing[at]) is not None
            ),
        )

    def prepare_keys(self, keys: Segment) -> None:
        """Creates what the dialect needs to compare keys, once; outside of any transaction."""
        if keys not in self._prepared_keys:
            self._dialect.prepare_keys(self.connection, keys)
            self._prepared_keys.add(keys)

    def _wanted(
        self, table: TableName, key: Schema | None, value: Schema | None
    ) -> list[tuple[Wanted, Source]]:
        """The columns that records with these schemas need, in their order in a new table."""
        settings = self._settings
        keys = self._key_columns(table, key, value)
        by_name = {column.name: (column, source) for column, source in keys}
        if value is not None and value.type is Type.STRING:
            name = settings.string_column
            by_name.setdefault(name, (Wanted(name, value), Source(False, None)))
        for field in value.fields if value is not None else ():
            if field.name not in by_name and (
                not settings.whitelist or field.name in settings.whitelist
            ):
                by_name[field.name] = self._field_column(field.name, field.schema, of_key=False)
        value_fields = value.field_names if value is not None else ()
        order = dict.fromkeys(
            name for name in (*KAFKA_KEYS, *value_fields, *sorted(by_name)) if name in by_name
        )
        return [by_name[name] for name in order]

    def _key_columns(
        self, table: TableName, key: Schema | None, value: Schema | None
    ) -> list[tuple[Wanted, Source]]:
        settings = self._settings
        names = settings.key_fields
        match settings.key_mode:
            case KeyMode.NONE:
                return []
            case KeyMode.KAFKA:
                return [
                    (Wanted(name, schema, key=True), Source(False, None, kafka=at))
                    for at, (name, schema) in enumerate(
                        zip(names or KAFKA_KEYS, _KAFKA_SCHEMAS, strict=True)
                    )
                ]
            case KeyMode.RECORD_KEY:
                schema, side = key, "key"
            case KeyMode.RECORD_VALUE:
                schema, side = value, "value"
        assert schema is not None, "records without one were refused before"
        mode = settings.key_mode.name
        if schema.type is not Type.STRUCT:
            if len(names) != 1:
                raise TableMismatch(
                    f"Need exactly one PK column defined since the {side} schema for records is a "
                    f"primitive type, defined columns are: [{', '.join(names)}]"
                )
            shifted, shift = self._date(schema)
            source = Source(side == "key", None, convert=shift)
            return [(Wanted(names[0], shifted, key=True), source)]
        missing = [name for name in names if schema.field(name) is None]
        if missing:
            raise TableMismatch(
                f"PK mode for table '{table.name}' is {mode} with configured PK fields "
                f"[{', '.join(names)}], but record {side} schema does not contain field: "
                f"{missing[0]}"
            )
        columns = [
            self._field_column(field.name, field.schema, of_key=side == "key")
            for field in schema.fields
            if not names or field.name in names
        ]
        return [(replace(column, key=True), source) for column, source in columns]

    def _field_column(self, name: str, schema: Schema, *, of_key: bool) -> tuple[Wanted, Source]:
        schema, convert = self._date(schema)
        default = schema.default if self._settings.defaults else None
        if name in self._settings.timestamp_fields and schema.type in (Type.INT64, Type.STRING):
            convert = _moment_ns if self._settings.nanoseconds else moment
            if schema.type is Type.STRING:
                convert = _moment_text
            default = None if default is None else convert(default)
            schema = replace(TIMESTAMP, optional=schema.optional, default=default)
        return Wanted(name, schema), Source(of_key, name, default=default, convert=convert)

    def _date(self, schema: Schema) -> tuple[Schema, Callable[[Value], Value] | None]:
        """The schema with its default, and the conversion, for dates in `date.timezone`."""
        zone = self._settings.date_zone
        if zone is None or schema.logical is not Logical.DATE:
            return schema, None

        def shift(value: date) -> date:
            return datetime(value.year, value.month, value.day, tzinfo=UTC).astimezone(zone).date()

        default = None if schema.default is None else shift(schema.default)
        return replace(schema, default=default), shift


def cells_of(
    records: Records, source: Source, rows: Sequence[int], bad: dict[int, Exception]
) -> Cells:
    """The values of a column in these rows; errors of conversion go into `bad`, by index."""
    cells: Cells
    if source.kafka is not None:
        column = (records.topics, records.partitions, records.offsets)[source.kafka]
        return [column[row] for row in rows]
    values = (records.keys if source.of_key else records.values).values
    chosen = values if len(rows) == len(values) else [values[row] for row in rows]
    name = source.field
    cells = chosen if name is None else [value.get(name) for value in chosen]
    if source.convert is not None:
        cells = one_by_one(source.convert, cells, bad)
    if source.default is not None and None in cells:
        cells = [source.default if cell is None else cell for cell in cells]
    return cells


def _moment_ns(value: int) -> datetime:
    return moment(value // 1000)


def _moment_text(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
