"""Records into tables (reference §3.2).

A batch is cut into groups: records for one table with the same schemas. A group becomes columns,
the columns what the dialect writes, and all groups of a batch are one transaction. Rows that the
database refuses are looked for by halves, so that a batch without any costs nothing.

Where rows have keys, of several with the same key the last one counts: a statement for many rows
could not do them one after the other. The earlier ones come into their own again if the last one
is refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from penstock.api import DataError, Failed, PenstockError, Records, SinkContext, SinkWriter
from penstock.api.schema import (
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    Schema,
    Type,
    Value,
)
from penstock.connectors.jdbc.dialect import (
    OFFSET_COLUMNS,
    Cells,
    Dialect,
    Encoder,
    Segment,
    TableFound,
    TableName,
    UnmappedType,
    Wanted,
    Write,
    one_by_one,
)
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
)
from penstock.connectors.jdbc.drivers.moments import moment

log = logging.getLogger(__name__)

KAFKA_KEYS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
_KAFKA_SCHEMAS: Final = (STRING, INT32, INT64)


class KeyMode(Enum):
    """Where primary keys come from; the value is what `pk.mode` says."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


class TableMismatch(PenstockError):
    """A table does not have what records need, and may not be changed, or cannot be."""

    code = "jdbc.table"


class GaveUp(PenstockError):
    """The database was away, or others in the way, for as long as `max.retries` allows."""

    code = "jdbc.retries"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the sink's settings say, as far as writing needs it."""

    connector: str
    write: Write
    key_mode: KeyMode
    key_fields: tuple[str, ...]
    table_of: Callable[[str], TableName]  # by topic
    whitelist: frozenset[str] = frozenset()  # empty: every field
    auto_create: bool = False
    auto_evolve: bool = False
    deletes: bool = False
    batch_rows: int | None = None  # of a statement; None: as many as there are
    max_retries: int = 10
    retry_backoff_ms: int = 3000
    table_types: frozenset[str] = frozenset({"TABLE"})
    defaults: bool = True  # a null becomes its field's default
    string_column: str = "record_value"
    timestamp_fields: frozenset[str] = frozenset()
    nanoseconds: bool = False  # what the numbers in timestamp fields count; else microseconds
    trims_errors: bool = False
    offsets: TableName | None = None  # of `penstock.exactly.once`
    tolerates: bool = False  # the framework goes on after a refused record

    def shut_out(self, table: TableName, found: TableFound) -> str | None:
        """Why `table.types` keeps a table from being written to; None: it does not."""
        if found.type in self.table_types:
            return None
        allowed = ", ".join(sorted(self.table_types))
        return f"Table {table} is of type {found.type}, but table.types allows only {allowed}"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the cells of a column are found in records."""

    of_key: bool
    field: str | None  # None: the whole of it
    kafka: int | None = None  # the place in `KAFKA_KEYS`
    default: Value = None
    convert: Callable[[Value], Value] | None = None


@dataclass(frozen=True, slots=True)
class _Layout:
    """How records with one pair of schemas are written to one table."""

    segment: Segment
    sources: tuple[_Source, ...]
    encoders: tuple[Encoder, ...]

    def shown(self, at: int) -> str:
        return f"column '{self.segment.columns[at]}' of table {self.segment.table}"


@dataclass(slots=True)
class _Group:
    """Rows of a batch, in order, that are one segment, with what deletes among them."""

    table: TableName
    key: Schema | None
    value: Schema | None  # None: as long as there are only tombstones
    rows: Sequence[int]
    deletes: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Piece:
    """Encoded rows that are written together; `columns` are as long as `rows`."""

    segment: Segment
    columns: list[Cells]
    rows: list[int]

    def only(self, places: Sequence[int]) -> _Piece:
        columns = [[cells[at] for at in places] for cells in self.columns]
        return _Piece(self.segment, columns, [self.rows[at] for at in places])

    def part(self, start: int, stop: int) -> _Piece:
        columns = [cells[start:stop] for cells in self.columns]
        return _Piece(self.segment, columns, self.rows[start:stop])


@dataclass(slots=True)
class _Work:
    """What a group comes to: what is written, and what instead of a row that is refused."""

    pieces: list[_Piece]
    earlier: dict[int, _Piece]  # by row: the row before it with the same key, alone


class JdbcWriter(SinkWriter):
    """Writes one task's records; connects when there are some, and again after a failure."""

    def __init__(
        self, database: Database, dialect: Dialect, settings: Settings, context: SinkContext
    ) -> None:
        self._context = context
        self._database = database
        self._dialect = dialect
        self._settings = settings
        self._connection: Connection | None = None
        self._forget()
        self._retries = settings.max_retries
        self._not_before = 0.0

    def _forget(self) -> None:
        """What is known of tables goes with the connection on which it was learnt."""
        self._tables: dict[TableName, TableFound] = {}
        self._layouts: dict[tuple[object, ...], _Layout | PenstockError] = {}
        self._prepared: set[Segment] = set()
        self._learnt = False  # nothing is known yet that could have become wrong

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        wait_s = self._not_before - time.monotonic()
        if wait_s > 0:
            self._context.wait(wait_s)
        try:
            refused = self._written(records)
        except (DatabaseAway, DatabaseBusy) as error:
            self.close()
            if self._retries <= 0:
                raise GaveUp(
                    f"Gave up after {self._settings.max_retries} retries (max.retries): {error}"
                ) from error
            self._retries -= 1
            self._not_before = time.monotonic() + self._settings.retry_backoff_ms / 1000
            raise
        except BaseException:
            self.close()
            raise
        self._retries = self._settings.max_retries
        self._not_before = 0.0
        failed.update(refused)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._forget()

    # ── a batch ──────────────────────────────────────────────────────────────────────────────

    def _written(self, records: Records) -> Failed:
        """Writes a batch; what was refused."""
        try:
            return self._once(records)
        except (DatabaseRefused, TableMismatch):
            if not self._learnt:
                raise
            # Perhaps the table was altered, or created anew, since it was looked at.
            self.close()
            return self._once(records)
        except RowRefused:
            # A constraint that is only checked at the end: now it is checked with each statement.
            return self._once(records, immediate=True)

    def _once(self, records: Records, *, immediate: bool = False) -> Failed:
        connection = self._connected()
        refused: Failed = {}
        work = [self._work(connection, records, group, refused) for group in self._groups(records)]
        self._learnt, learnt = True, self._learnt
        mismatched = any(isinstance(error, TableMismatch) for error in refused.values())
        if learnt and mismatched:
            raise TableMismatch("the table may have been altered since")
        offsets = self._settings.offsets
        with connection.transaction():
            if immediate:
                self._dialect.check_at_once(connection)
            done: set[int] = set()
            if offsets is not None:
                following = self._following(connection, offsets, records)
                cells = zip(_places(records), records.offsets, strict=True)
                done = {row for row, (place, at) in enumerate(cells) if at < following[place]}
            for each in work:
                for piece in each.pieces:
                    self._write_piece(connection, piece, each.earlier, refused, done)
            if offsets is not None:
                for row in done & refused.keys():
                    del refused[row]  # it was told of when it was read first
                if refused and not self._settings.tolerates:
                    # The task fails, and shall find everything as it was before.
                    raise self._named(records, *min(refused.items()))
                self._advance(connection, offsets, records, following)
        return {row: self._named(records, row, error) for row, error in refused.items()}

    def _connected(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            self._forget()
            connection = self._database.connect()
            try:
                self._dialect.session(connection)
                if self._settings.offsets is not None:
                    self._make_offsets(connection, self._settings.offsets)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _make_offsets(self, connection: Connection, table: TableName) -> None:
        """Sees to the table of `penstock.exactly.once`: here and not where the writer is opened,
        for while the database is away it is waited for."""
        if self._dialect.table(connection, table) is not None:
            return
        try:
            connection.execute(self._dialect.create_offsets(table))
        except DatabaseRefused as error:
            # Not every database has IF NOT EXISTS; another task may have been faster.
            if self._dialect.table(connection, table) is None:
                raise TableMismatch(
                    f"penstock.exactly.once needs the table {table} (penstock.offsets.table), "
                    f"which cannot be created: {error}"
                ) from error

    def _named(self, records: Records, row: int, error: Exception) -> Exception:
        """The error with the record it is about."""
        if not isinstance(error, RowRefused):
            return error
        what = "the database's words are left out" if self._settings.trims_errors else str(error)
        topic = records.topics[row]
        table = self._settings.table_of(topic)
        return RowRefused(
            f"Table {table} refuses the record at topic='{topic}', "
            f"partition={records.partitions[row]}, offset={_offset(records, row)}: {what}"
        )

    # ── groups ───────────────────────────────────────────────────────────────────────────────

    def _groups(self, records: Records) -> Iterator[_Group]:
        """The batch cut into groups; those of one table in order (reference §3.2: a group ends
        where a schema changes, or where, without upserts, something follows a delete)."""
        topics = records.topics
        key_runs, value_runs = records.keys.runs, records.values.runs
        if (
            len(key_runs) == 1
            and len(value_runs) == 1
            and topics.count(topics[0]) == len(topics)
            and None not in records.values.values
        ):
            table = self._settings.table_of(topics[0])
            yield _Group(table, key_runs[0].schema, value_runs[0].schema, range(len(topics)))
            return
        settings = self._settings
        upserts = settings.write is Write.UPSERT
        tables = {topic: settings.table_of(topic) for topic in set(topics)}
        open_: dict[TableName, tuple[_Group, list[int]]] = {}
        cells = zip(
            topics, records.keys.schemas(), records.values.schemas(), records.values.values,
            strict=True,
        )  # fmt: skip
        for row, (topic, key, value_schema, value) in enumerate(cells):
            table = tables[topic]
            deletes = value is None and settings.deletes
            group, rows = open_.get(table, (None, []))
            if group is not None and group.key == key:
                if deletes:
                    rows.append(row)
                    group.deletes.add(row)
                    continue
                only_deletes = len(group.deletes) == len(rows)
                if only_deletes and upserts:
                    group.value = value_schema
                if group.value == value_schema and (upserts or not group.deletes):
                    rows.append(row)
                    continue
            if group is not None:
                yield group
            rows = [row]
            schema = None if deletes else value_schema
            group = _Group(table, key, schema, rows, {row} if deletes else set())
            open_[table] = group, rows
        for group, _ in open_.values():
            yield group

    def _work(
        self, connection: Connection, records: Records, group: _Group, refused: Failed
    ) -> _Work:
        """What a group comes to. Rows that cannot be written go into `refused`."""
        values = [row for row in group.rows if row not in group.deletes]
        deletes = [row for row in group.rows if row in group.deletes]
        found: list[_Piece] = []
        for rows, write in ((values, self._settings.write), (deletes, Write.DELETE)):
            if not rows:
                continue
            piece = self._piece(connection, records, group, rows, write, refused)
            if piece is not None:
                found.append(piece)
        earlier: dict[int, _Piece] = {}
        if self._settings.write is not Write.INSERT:
            found = _last_ones(found, earlier, together=self._settings.write is Write.UPSERT)
        return _Work(found, earlier)

    def _piece(
        self,
        connection: Connection,
        records: Records,
        group: _Group,
        rows: list[int],
        write: Write,
        refused: Failed,
    ) -> _Piece | None:
        good = self._usable(records, group, rows, write, refused)
        if not good:
            return None
        schema = None if write is Write.DELETE else group.value
        layout = self._layout(connection, group.table, group.key, schema, write)
        if isinstance(layout, PenstockError):
            refused.update(dict.fromkeys(good, layout))
            return None
        columns: list[Cells] = []
        bad: dict[int, Exception] = {}
        for at, (source, encode) in enumerate(zip(layout.sources, layout.encoders, strict=True)):
            wrong: dict[int, Exception] = {}
            cells = _cells(records, source, good, wrong)
            if at in layout.segment.keys and self._settings.key_mode is not KeyMode.NONE:
                for place, cell in enumerate(cells) if None in cells else ():
                    if cell is None:
                        wrong[place] = DataError("it is null, and part of the primary key")
            columns.append(encode(cells, wrong))
            for place, error in wrong.items():
                where = f"{layout.shown(at)}, {_place(records, good[place])}"
                bad[place] = DataError(f"The value for {where} cannot be written: {error}")
        piece = _Piece(layout.segment, columns, good)
        if bad:
            refused.update({good[place]: error for place, error in bad.items()})
            piece = piece.only([place for place in range(len(good)) if place not in bad])
        return piece if piece.rows else None

    def _usable(
        self, records: Records, group: _Group, rows: list[int], write: Write, refused: Failed
    ) -> list[int]:
        """The rows whose keys and values are there and of a kind that has columns."""
        settings = self._settings
        if write is not Write.DELETE:
            fits = group.value is not None and group.value.type in (Type.STRUCT, Type.STRING)
            cells = records.values.values
            lost = [row for row in rows if not fits or cells[row] is None]
            for row in lost:
                refused[row] = DataError(
                    f"{self._demand()} records with a non-null Struct value and non-null Struct "
                    f"schema, but found record at {_place(records, row)} with a "
                    f"{_kind(cells[row])} value and {_schema_kind(group.value)} value schema."
                )
            rows = [row for row in rows if row not in refused] if lost else rows
        if settings.key_mode is KeyMode.RECORD_KEY:
            fits = group.key is not None and (
                group.key.type.is_primitive or group.key.type is Type.STRUCT
            )
            cells = records.keys.values
            lost = [row for row in rows if not fits or cells[row] is None]
            for row in lost:
                refused[row] = DataError(
                    f"{self._demand()} records with a non-null key and non-null Struct or "
                    f"primitive key schema, but found record at {_place(records, row)} with a "
                    f"{_kind(cells[row])} key and {_schema_kind(group.key)} key schema."
                )
            rows = [row for row in rows if row not in refused] if lost else rows
        return rows

    def _demand(self) -> str:
        settings = self._settings
        return (
            f"Sink connector '{settings.connector}' is configured with "
            f"'delete.enabled={str(settings.deletes).lower()}' and "
            f"'pk.mode={settings.key_mode.value}' and therefore requires"
        )

    # ── layouts ──────────────────────────────────────────────────────────────────────────────

    def _layout(
        self,
        connection: Connection,
        table: TableName,
        key: Schema | None,
        value: Schema | None,
        write: Write,
    ) -> _Layout | PenstockError:
        """How records with these schemas are written, or why they cannot be; tables are created
        and altered on the way as the settings allow."""
        known = self._layouts.get((table, key, value, write))
        if known is None:
            try:
                known = self._laid_out(connection, table, key, value, write)
            except (TableMismatch, UnmappedType, DataError) as error:
                known = error
            self._layouts[table, key, value, write] = known
        return known

    def _laid_out(
        self,
        connection: Connection,
        table: TableName,
        key: Schema | None,
        value: Schema | None,
        write: Write,
    ) -> _Layout:
        wanted = self._wanted(table, key, value)
        if write is Write.DELETE:
            wanted = [each for each in wanted if each[0].key]
        if not wanted:
            raise TableMismatch(
                f"No fields found using key and value schemas for table: {table.name}"
            )
        columns = [each for each, _ in wanted]
        found = self._fitting(connection, table, columns)
        there = [found.column(each.name) for each in columns]
        names = [each.name for each in there if each is not None]
        schemas = [each.schema for each in columns]
        # Keys of deletes are compared with those of what they delete: all are texts, then.
        forms = () if self._settings.deletes else self._dialect.forms(schemas, there)
        encoders = [
            self._dialect.encoder(schema, forms[at] if forms else None)
            for at, schema in enumerate(schemas)
        ]
        keys = tuple(at for at, each in enumerate(columns) if each.key)
        if write is not Write.INSERT and not keys:
            raise TableMismatch(
                f"Write to table {table} in {write.name} mode requires key field names to be "
                "known, check the primary key configuration"
            )
        if write is Write.UPDATE and len(keys) == len(columns):
            raise TableMismatch(
                f"Write to table {table} in UPDATE mode has nothing to update: all fields are keys"
            )
        segment = Segment(write, table, tuple(names), keys, forms)
        if segment not in self._prepared:
            self._dialect.prepare(connection, segment)
            self._prepared.add(segment)
        return _Layout(segment, tuple(source for _, source in wanted), tuple(encoders))

    def _wanted(
        self, table: TableName, key: Schema | None, value: Schema | None
    ) -> list[tuple[Wanted, _Source]]:
        """The columns that records with these schemas need, in the order a new table has them."""
        settings = self._settings
        keys = self._key_columns(table, key, value)
        found = {column.name: (column, source) for column, source in keys}
        if value is not None and value.type is Type.STRING:
            name = settings.string_column
            found.setdefault(name, (Wanted(name, value), _Source(False, None)))
        for each in value.fields if value is not None else ():
            if each.name not in found and (
                not settings.whitelist or each.name in settings.whitelist
            ):
                found[each.name] = self._field_column(each.name, each.schema, of_key=False)
        of_value = value.field_names if value is not None else ()
        order = dict.fromkeys(
            name for name in (*KAFKA_KEYS, *of_value, *sorted(found)) if name in found
        )
        return [found[name] for name in order]

    def _key_columns(
        self, table: TableName, key: Schema | None, value: Schema | None
    ) -> list[tuple[Wanted, _Source]]:
        settings = self._settings
        names = settings.key_fields
        match settings.key_mode:
            case KeyMode.NONE:
                return []
            case KeyMode.KAFKA:
                return [
                    (Wanted(name, schema, key=True), _Source(False, None, kafka=at))
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
            source = _Source(side == "key", None)
            return [(Wanted(names[0], schema, key=True), source)]
        missing = [name for name in names if schema.field(name) is None]
        if missing:
            raise TableMismatch(
                f"PK mode for table '{table.name}' is {mode} with configured PK fields "
                f"[{', '.join(names)}], but record {side} schema does not contain field: "
                f"{missing[0]}"
            )
        chosen = [each for each in schema.fields if not names or each.name in names]
        columns = [
            self._field_column(each.name, each.schema, of_key=side == "key") for each in chosen
        ]
        return [(replace(column, key=True), source) for column, source in columns]

    def _field_column(self, name: str, schema: Schema, *, of_key: bool) -> tuple[Wanted, _Source]:
        default = schema.default if self._settings.defaults else None
        convert: Callable[[Value], Value] | None = None
        if name in self._settings.timestamp_fields and schema.type in (Type.INT64, Type.STRING):
            convert = _moment_ns if self._settings.nanoseconds else moment
            if schema.type is Type.STRING:
                convert = _moment_text
            default = None if default is None else convert(default)
            schema = replace(TIMESTAMP, optional=schema.optional, default=default)
        return Wanted(name, schema), _Source(of_key, name, default=default, convert=convert)

    # ── tables ───────────────────────────────────────────────────────────────────────────────

    def _fitting(
        self, connection: Connection, table: TableName, wanted: Sequence[Wanted]
    ) -> TableFound:
        """The table, with all the columns that are wanted."""
        found = self._tables.get(table) or self._dialect.table(connection, table)
        if found is None:
            found = self._created(connection, table, wanted)
        unfit = self._settings.shut_out(table, found)
        if unfit is not None:
            raise TableMismatch(unfit)
        missing = [each for each in wanted if found.column(each.name) is None]
        if missing:
            found = self._evolved(connection, table, found.type, missing)
        self._tables[table] = found
        return found

    def _created(
        self, connection: Connection, table: TableName, wanted: Sequence[Wanted]
    ) -> TableFound:
        if not self._settings.auto_create:
            raise TableMismatch(
                f"Table {table} is missing and auto-creation is disabled: create it, or set "
                "auto.create"
            )
        statement = self._dialect.create(table, wanted)
        log.info("creating table %s: %s", table, statement)
        try:
            connection.execute(statement)
        except (DatabaseRefused, RowRefused) as error:
            # Another task may have been faster; IF NOT EXISTS does not see all of that.
            if self._dialect.table(connection, table) is None:
                raise DatabaseRefused(f"Table {table} cannot be created: {error}") from error
        found = self._dialect.table(connection, table)
        if found is None:
            raise TableMismatch(f"Table {table} was created, and is not found")
        return found

    def _evolved(
        self, connection: Connection, table: TableName, type: str, missing: Sequence[Wanted]
    ) -> TableFound:
        names = ", ".join(f"'{each.name}'" for each in missing)
        if type == "VIEW":
            raise TableMismatch(
                f"View {table} is missing fields ({names}) and views cannot be altered"
            )
        for each in missing:
            if not each.schema.optional and each.schema.default is None:
                raise TableMismatch(
                    f"Cannot ALTER TABLE {table} to add missing field '{each.name}' "
                    f"({each.schema.type.name}), as the field is not optional and does not have a "
                    "default value"
                )
        if not self._settings.auto_evolve:
            raise TableMismatch(
                f"Table {table} is missing fields ({names}) and auto-evolution is disabled: add "
                "them, leave them out with fields.whitelist, or set auto.evolve"
            )
        try:
            for statement in self._dialect.add(table, missing):
                log.info("amending table %s: %s", table, statement)
                connection.execute(statement)
        except (DatabaseRefused, RowRefused) as error:
            found = self._dialect.table(connection, table)
            if found is None or any(found.column(each.name) is None for each in missing):
                raise DatabaseRefused(f"Table {table} cannot be altered: {error}") from error
        found = self._dialect.table(connection, table)
        if found is None:
            raise TableMismatch(f"Table {table} was altered, and is not found")
        return found

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def _write_piece(
        self,
        connection: Connection,
        piece: _Piece,
        earlier: Mapping[int, _Piece],
        refused: Failed,
        done: set[int],
    ) -> None:
        if done:
            piece = piece.only([at for at, row in enumerate(piece.rows) if row not in done])
        most = self._settings.batch_rows or max(1, len(piece.rows))
        for start in range(0, len(piece.rows), most):
            self._by_halves(connection, piece.part(start, start + most), refused)
        for row in [row for row in piece.rows if row in refused and row in earlier]:
            self._write_piece(connection, earlier[row], earlier, refused, done)

    def _by_halves(self, connection: Connection, piece: _Piece, refused: Failed) -> None:
        """Writes the rows; those that the database refuses are found by writing halves."""
        try:
            with connection.savepoint():
                self._dialect.write(connection, piece.segment, piece.columns)
        except RowRefused as error:
            if len(piece.rows) == 1:
                refused[piece.rows[0]] = error
                return
        else:
            return
        middle = len(piece.rows) // 2
        self._by_halves(connection, piece.part(0, middle), refused)
        self._by_halves(connection, piece.part(middle, len(piece.rows)), refused)

    # ── exactly once ─────────────────────────────────────────────────────────────────────────

    def _following(
        self, connection: Connection, offsets: TableName, records: Records
    ) -> dict[tuple[str, int], int]:
        """Where the batch's partitions go on, by what earlier transactions have written. From here
        to the end of this one, nobody else writes records of the same partitions."""
        places = set(_places(records))
        return next_offsets(connection, self._dialect, offsets, self._settings.connector, places)

    def _advance(
        self,
        connection: Connection,
        offsets: TableName,
        records: Records,
        following: Mapping[tuple[str, int], int],
    ) -> None:
        reached = dict(following)
        for place, at in zip(_places(records), records.offsets, strict=True):
            reached[place] = max(at + 1, reached[place])
        store_offsets(connection, self._dialect, offsets, self._settings.connector, reached)


def next_offsets(
    connection: Connection,
    dialect: Dialect,
    table: TableName,
    connector: str,
    places: Iterable[tuple[str, int]],
) -> dict[tuple[str, int], int]:
    """Where each partition goes on by the offsets table; locked until the transaction ends."""
    begin = dialect.begin_offset(table, connection.placeholder)
    next_offset, row = _offset_row(connection, dialect)
    select = f"SELECT {next_offset} FROM {dialect.qualified(table)} WHERE {row}{dialect.locking}"
    found = {}
    for place in sorted(places):
        connection.execute(begin, (connector, *place, 0))
        found[place] = int(connection.rows(select, (connector, *place))[0][0])
    return found


def store_offsets(
    connection: Connection,
    dialect: Dialect,
    table: TableName,
    connector: str,
    reached: Mapping[tuple[str, int], int],
) -> None:
    """Makes the offsets table say where each partition goes on; those it knows only, if not
    locked by `next_offsets` before."""
    next_offset, row = _offset_row(connection, dialect)
    changed = f"{next_offset} = {connection.placeholder}"
    update = f"UPDATE {dialect.qualified(table)} SET {changed} WHERE {row}"
    for place, at in sorted(reached.items()):
        connection.execute(update, (at, connector, *place))


def _offset_row(connection: Connection, dialect: Dialect) -> tuple[str, str]:
    """The offsets table's column for offsets, and what holds for the row of a partition."""
    *keys, next_offset = (dialect.quoted(name) for name in OFFSET_COLUMNS)
    return next_offset, " AND ".join(f"{key} = {connection.placeholder}" for key in keys)


def _last_ones(found: list[_Piece], earlier: dict[int, _Piece], *, together: bool) -> list[_Piece]:
    """The pieces without rows after which another row has the same key; those are found in
    `earlier` by the row that follows. `together`: also where the other is of another piece; then
    what is deleted comes first, even if there is another row later."""
    if not together and len(found) > 1:
        return [one for piece in found for one in _last_ones([piece], earlier, together=True)]
    last: dict[Value, int] = {}
    where: dict[int, tuple[_Piece, int]] = {}
    for piece in found:
        if not piece.segment.keys:
            return found
        keys = _keys(piece)
        if len(found) == 1:
            last = dict(zip(keys, piece.rows, strict=True))
            if len(last) == len(piece.rows):
                return found
            last = {}
        where.update({row: (piece, at) for at, row in enumerate(piece.rows)})
    by_row = sorted(
        (row, key) for piece in found for row, key in zip(piece.rows, _keys(piece), strict=True)
    )
    for row, key in by_row:
        if key in last:
            piece, at = where[last[key]]
            earlier[row] = piece.only([at])
        last[key] = row
    kept = set(last.values())
    if len(found) > 1:
        values, deletes = found
        # A row that was deleted and is there again has nothing left of what it was, also in
        # columns that its record does not know.
        kept.update(dict(zip(_keys(deletes), deletes.rows, strict=True)).values())
        found = [deletes, values]
    thinned = [
        piece.only([at for at, row in enumerate(piece.rows) if row in kept]) for piece in found
    ]
    return [piece for piece in thinned if piece.rows]


def _keys(piece: _Piece) -> list[Value]:
    # By name: the columns of deletes may be in another order than those of what they delete.
    places = sorted(piece.segment.keys, key=piece.segment.columns.__getitem__)
    columns = [piece.columns[at] for at in places]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _cells(
    records: Records, source: _Source, rows: Sequence[int], bad: dict[int, Exception]
) -> Cells:
    """A column's values in these rows."""
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


def _places(records: Records) -> Iterator[tuple[str, int]]:
    for topic, partition in zip(records.topics, records.partitions, strict=True):
        yield topic, partition or 0


def _offset(records: Records, row: int) -> int | str:
    return records.offsets[row] if records.offsets else "?"


def _place(records: Records, row: int) -> str:
    return (
        f"(topic='{records.topics[row]}',partition={records.partitions[row]},"
        f"offset={_offset(records, row)},timestamp={records.timestamps[row]})"
    )


def _kind(value: Value) -> str:
    return "null" if value is None else type(value).__name__


def _schema_kind(schema: Schema | None) -> str:
    return "null" if schema is None else schema.type.name.lower()
