"""Rows of tables, or of a query, as records (reference, connectors §2).

What is read next is planned by position: a range goes from one row's position up to another's, both
of them in the table, so it can be read again and holds the same rows. A range by timestamp alone
ends with all rows of its last timestamp; nothing younger than the delay is looked at. So rows of
equal timestamps are neither lost nor repeated, as long as transactions last shorter than the delay.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import orjson
import pyarrow as pa

from penstock import VERSION
from penstock.api import (
    Finding,
    Offsets,
    Plugin,
    Primitive,
    Props,
    SourceConnector,
    SourceOffset,
    SourceReader,
)
from penstock.config.define import Config, Key
from penstock.config.regex import compile_java
from penstock.connectors.jdbc import columns as c
from penstock.connectors.jdbc import keys, offsets
from penstock.connectors.jdbc import source_keys as k
from penstock.connectors.jdbc.columns import Sql, SqlColumn
from penstock.connectors.jdbc.database import Connection, DatabaseAway
from penstock.connectors.jdbc.driver import DriverConnection
from penstock.connectors.jdbc.offsets import Position, TableId
from penstock.connectors.jdbc.read_driver import DriverReading
from penstock.connectors.jdbc.read_mysql import MysqlReading
from penstock.connectors.jdbc.read_postgresql import PostgresqlReading
from penstock.connectors.jdbc.read_sqlite import SqliteReading
from penstock.connectors.jdbc.reading import Order, Reading, where, whole
from penstock.connectors.jdbc.url import Kind
from penstock.data import schema as s
from penstock.data.records import Column, Records
from penstock.data.schema import Schema
from penstock.data.structs import structs_of
from penstock.errors import DataError, PenstockError

log = logging.getLogger(__name__)

READINGS: Final[Mapping[Kind, type[Reading]]] = {
    Kind.POSTGRESQL: PostgresqlReading,
    Kind.MYSQL: MysqlReading,
    Kind.SQLITE: SqliteReading,
    Kind.OTHER: DriverReading,
}
_SAMPLE_ROWS: Final = 64
_MOST_ROWS: Final = 1_000_000  # of one range, however small rows are
_MOST_STRIPES: Final = 64  # that one statement names
_SHAPE_S: Final = 60.0  # how long planning goes by what it knows of a table's columns
_US: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_METADATA: Final = b"penstock.jdbc"


class Unfit(PenstockError):
    """A table, or the query, is not what a setting needs; `setting` is its name."""

    code = "jdbc.unfit"

    def __init__(self, text: str, setting: str = "") -> None:
        self.setting = setting
        super().__init__(text)


class JdbcSource(SourceConnector):
    """Sends the rows of tables, or of a query, to topics, and goes on as rows are added."""

    plugin = Plugin(
        class_name="io.confluent.connect.jdbc.JdbcSourceConnector",
        version=VERSION,
        config=k.JDBC_SOURCE,
        task_class="io.confluent.connect.jdbc.source.JdbcSourceTask",
        also=("io.aiven.connect.jdbc.JdbcSourceConnector",),
    )

    def validate_live(self, config: Config) -> Iterable[Finding]:
        from penstock.connectors.jdbc.live import source_findings  # it looks by what is here

        return source_findings(config)

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        if config[k.QUERY].strip():
            return [config.props]
        with contextlib.closing(_Session(config)) as session, session.reading() as reading:
            tables = selected(config, tables_of(config, reading))
        refuse_same_names(tables)
        if not tables:
            log.warning("there is no table to read yet; it is looked again now and then")
        parts = config[k.TABLE_PARTS]
        units = [Unit(table, part, parts) for table in tables for part in range(parts)]
        groups = _groups(units, min(max_tasks, len(units)))
        return [{**config.props, k.TABLES.name: _written(group)} for group in groups]

    def replan_ms(self, config: Config) -> int | None:
        return None if config[k.QUERY].strip() else config[k.TABLE_POLL_INTERVAL]

    def exactly_once(self, config: Config) -> bool:
        return config[k.MODE] != k.BULK  # what a table holds now cannot be read again

    def alter_offsets(self, config: Config, offsets: Offsets) -> bool:
        for each in offsets:
            if each.offset is None:
                continue  # whatever it is of, it may be forgotten
            if "table" not in each.partition and "query" not in each.partition:
                raise PenstockError(
                    "Partition objects should contain the key 'table' or the key 'query'"
                )
            _check_offset(each.offset)
        return True

    def open(self, config: Config) -> JdbcReader:
        return JdbcReader(config)


def _check_offset(offset: Mapping[str, Primitive]) -> None:
    known = {offsets.INCREMENTING, offsets.TIMESTAMP, offsets.NANOS, offsets.POLLED}
    if not known & set(offset):
        raise PenstockError(
            "Offset objects should either be null or contain one of the keys "
            f"{', '.join(repr(each) for each in sorted(known))}"
        )
    offsets.position(offset)
    offsets.polled(offset)


# ── which tables ─────────────────────────────────────────────────────────────────────────────────


def tables_of(config: Config, reading: Reading) -> list[TableId]:
    """The tables there are, of the kinds and where the configuration wants them."""
    kinds = [each.upper() for each in config[k.TABLE_TYPES]]
    schema, catalog = config[k.SCHEMA_PATTERN] or None, config[k.CATALOG_PATTERN] or None
    return reading.tables(kinds, schema, catalog)


def selected(config: Config, tables: Sequence[TableId]) -> list[TableId]:
    """The tables that the configuration wants, of those there are, in their order."""
    wanted, unwanted = set(config[k.TABLE_WHITELIST]), set(config[k.TABLE_BLACKLIST])
    include = [compile_java(each) for each in config[k.TABLE_INCLUDE]]
    exclude = [compile_java(each) for each in config[k.TABLE_EXCLUDE]]
    found = []
    for table in sorted(tables):
        called = table_names(table)
        if wanted and not wanted & set(called):
            continue
        if unwanted & set(called):
            continue
        if include and not any(each.fullmatch(name) for each in include for name in called[:2]):
            continue
        if any(each.fullmatch(name) for each in exclude for name in called[:2]):
            continue
        found.append(table)
    return found


def refuse_same_names(tables: Sequence[TableId]) -> None:
    """Raises Unfit if tables would share a topic."""
    names: dict[str, list[TableId]] = {}
    for table in tables:
        names.setdefault(table.name, []).append(table)
    twice = [str(each) for same in names.values() if len(same) > 1 for each in same]
    if twice:
        raise Unfit(
            "The topic of a table is named after the table alone, and several of these have "
            f"the same name: {', '.join(twice)}. Name the ones to read in 'table.whitelist', "
            "or set 'schema.pattern'.",
            k.TABLE_WHITELIST.name,
        )


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


def _groups(units: Sequence[Unit], count: int) -> list[Sequence[Unit]]:
    """Neighbours together, the first groups one larger where it does not come out even."""
    groups: list[Sequence[Unit]] = []
    start = 0
    for left in range(count, 0, -1):
        stop = start + -(-(len(units) - start) // left)
        groups.append(units[start:stop])
        start = stop
    return groups


def _written(units: Sequence[Unit]) -> str:
    cells = [
        [u.table.catalog, u.table.schema, u.table.name, u.part, u.parts] for u in units if u.table
    ]
    return orjson.dumps(cells).decode()


def _units(config: Config) -> list[Unit]:
    if config[k.QUERY].strip():
        return [Unit(None)]
    return [
        Unit(TableId(catalog, schema, name), part, parts)
        for catalog, schema, name, part, parts in orjson.loads(config[k.TABLES] or "[]")
    ]


# ── connections ──────────────────────────────────────────────────────────────────────────────────


class _Session:
    """Connections to the database of a configuration: opened when needed, kept for the next use
    unless something went wrong."""

    def __init__(self, config: Config) -> None:
        self._database = keys.database_of(config)
        self._quoting = keys.quotes(config)
        self._level = config[k.ISOLATION].upper().replace("_", " ")
        self._kept: list[Reading] = []
        self.close = weakref.finalize(self, _close_all, self._kept)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reading]:
        """A connection for a while."""
        reading = self.take()
        try:
            yield reading
        except BaseException:
            reading.connection.close()
            raise
        self.keep(reading)

    def take(self, *, fresh: bool = False) -> Reading:
        if fresh:
            _close_all(self._kept)
        while self._kept:
            kept = self._kept.pop()
            if kept.connection.is_open:
                return kept
        connection = self._database.connect()
        try:
            self._isolate(connection)
            return READINGS[connection.kind](connection, self._quoting)
        except BaseException:
            connection.close()
            raise

    def keep(self, reading: Reading) -> None:
        self._kept.append(reading)

    def _isolate(self, connection: Connection) -> None:
        if self._level == "DEFAULT" or (
            self._level == "SQL SERVER SNAPSHOT" and connection.kind is not Kind.OTHER
        ):
            return
        match connection.kind:
            case Kind.POSTGRESQL:
                how = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL "
            case Kind.MYSQL:
                how = "SET SESSION TRANSACTION ISOLATION LEVEL "
            case Kind.SQLITE:
                return  # it has one level only, the strictest
            case Kind.OTHER:
                assert isinstance(connection, DriverConnection)
                connection.isolate(self._level)
                return
        connection.execute(how + self._level)


def _close_all(kept: list[Reading]) -> None:
    while kept:
        kept.pop().connection.close()


# ── tables as they are read ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a table, to read it: its columns, and the order in which it is read."""

    source: str
    columns: tuple[SqlColumn, ...]
    order: Order | None  # None: in no order, mode bulk
    key: SqlColumn | None  # numbers rows, so that ranges of them can be read side by side


@dataclass(frozen=True, slots=True)
class _Polled:
    """What a look at a table found: from where, up to where, and whether there may be more."""

    start: Mapping[str, Primitive] | None
    end: Mapping[str, Primitive] | None
    full: bool
    at: float


@dataclass(frozen=True, slots=True)
class _Known:
    """What is stored of a unit, and under which partition."""

    partition: Mapping[str, Primitive]
    offset: Mapping[str, Primitive] | None


class JdbcReader(SourceReader):
    """Plans and reads the tables of one task. `clock` tells seconds since the epoch, which only
    polls go by."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._clock = clock
        self._mode = config[k.MODE]
        self._zone = keys.zone(config[keys.DB_TIMEZONE])
        self._units = _units(config)
        self._session = _Session(config)
        self._query = config[k.QUERY].strip().rstrip(";").rstrip()
        self._suffix = f" {config[k.QUERY_SUFFIX]}" if config[k.QUERY_SUFFIX] else ""
        self._interval_s = config[k.POLL_INTERVAL] / 1000
        self._mapping = c.Mapping(
            numeric=_numeric(config),
            granularity=config[k.TIMESTAMP_GRANULARITY],
            zone=self._zone,
            unlimited_scale=config[k.NUMERIC_SCALE],
        )
        self._began_us = int(clock() * 1_000_000)
        self._first = 0  # the unit that is looked at first, so that a busy one starves no other
        self._polls: dict[Unit, _Polled] = {}
        self._shapes: dict[Unit, tuple[float, Shape]] = {}
        self._left_out: set[str] = set()
        self._compiled: dict[tuple[bytes, tuple[str, ...]], _Rows] = {}
        self.idle_ms = min(100, max(10, config[k.POLL_INTERVAL] // 5))

    # ── planning ─────────────────────────────────────────────────────────────────────────────

    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        known = self._known(start)
        ends = {unit: each.offset for unit, each in known.items()}
        left, changed = max_bytes, False
        for at in range(len(self._units)):
            index = (self._first + at) % len(self._units)
            unit = self._units[index]
            end, size = self._end(unit, ends[unit], left)
            if end == ends[unit]:
                continue
            ends[unit], changed = end, True
            left -= size
            if left <= 0:
                self._first = index + 1
                break
        if not changed:
            return start
        return [
            SourceOffset(each.partition, ends[unit])
            for unit, each in known.items()
            if ends[unit] is not None
        ]

    def _end(
        self, unit: Unit, start: Mapping[str, Primitive] | None, max_bytes: int
    ) -> tuple[Mapping[str, Primitive] | None, int]:
        """Where the next range of a unit ends, and about how many bytes it holds."""
        now = self._clock()
        if self._mode == k.BULK:
            last = offsets.polled(start)
            if last is not None and now * 1000 < last + self._interval_s * 1000:
                return start, 0
            return {offsets.POLLED: int(now * 1000)}, 0
        polled = self._polls.get(unit)
        if polled is not None and not polled.full and 0 <= now - polled.at < self._interval_s:
            if start == polled.start:
                return polled.end, 0
            if start == polled.end:
                return start, 0
        end, size, full = self._look(unit, offsets.position(start), max_bytes)
        found = start if end is None else end.stored()
        self._polls[unit] = _Polled(start, found, full, now)
        return found, size

    def _look(
        self, unit: Unit, start: Position, max_bytes: int
    ) -> tuple[Position | None, int, bool]:
        """The position of the last row of the next range, None if there is no row; the range's
        size, and whether more follows."""
        try:
            with self._session.reading() as reading:
                shape = self._planned_shape(unit, reading)
                return self._look_at(unit, shape, self._begin(unit, start), max_bytes)
        except Exception as error:
            self._shapes.pop(unit, None)  # its columns may be other ones by now
            if isinstance(error, DataError):
                raise DataError(f"{self._called(unit)}: {error}") from error
            raise

    def _look_at(
        self, unit: Unit, shape: Shape, start: Position, max_bytes: int
    ) -> tuple[Position | None, int, bool]:
        order = shape.order
        assert order is not None
        reading = order.reading
        held = [order.after(start), self._stripe(unit, shape, reading)]
        if order.timestamp:
            held.append(order.before(self._bound_us(reading, order)))
        chosen = f" FROM {shape.source}{where(*held)}"
        sample = f"SELECT {_list(reading, shape)}{chosen} ORDER BY {order.by}"
        size = rows = 0
        for batch in reading.sample(sample, shape.columns, _SAMPLE_ROWS):
            size, rows = size + batch.nbytes, rows + batch.num_rows
        if not rows:
            return None, 0, False
        most = max(1, min(_MOST_ROWS, max_bytes * rows // max(size, 1)))
        if self._suffix:
            return self._look_with_suffix(order, f"SELECT {order.keys}{chosen}", most, size // rows)
        cells = f"SELECT {order.keys}{chosen} ORDER BY"
        last = reading.first(f"{cells} {order.by}", most - 1)
        full = bool(last)
        if not full:
            last = reading.first(f"{cells} {order.backwards}")
        if not last:
            return None, 0, False  # they were taken away meanwhile
        return self._position(order, last[0]), most * size // rows, full

    def _look_with_suffix(
        self, order: Order, sql: str, most: int, row_bytes: int
    ) -> tuple[Position | None, int, bool]:
        """The suffix may be a LIMIT, so the statement has to be the one that reads."""
        found = f"{sql} ORDER BY {order.by}{self._suffix}"
        rows = list(itertools.islice(itertools.chain(*order.reading.keys(found)), most))
        if not rows:
            return None, 0, False
        return self._position(order, rows[-1]), len(rows) * row_bytes, True

    def _position(self, order: Order, row: Sequence[Any]) -> Position:
        cells = list(row)
        at_us = None
        if order.timestamp:
            assert order.column is not None
            at_us = self._micros(cells.pop(0), order.column)
        number = whole(cells.pop(0), f"Column {order.incrementing}") if order.incrementing else None
        return Position(number, at_us)

    def _micros(self, value: object, column: SqlColumn) -> int:
        """A moment as a driver returns it, in microseconds since the epoch."""
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime):
            raise DataError(
                f"Column '{column.name}' ({column.told}) holds {value!r}, no timestamp."
            )
        wall = (value.replace(tzinfo=UTC) - _EPOCH) // _US
        if column.zoned:
            return wall if value.tzinfo is None else (value - _EPOCH) // _US
        return c.instant_us(wall, self._zone)

    def _bound_us(self, reading: Reading, order: Order) -> int:
        """What is younger is left for later: transactions may still add to it, and a clock that
        the column shows in whole seconds has to be past a second for it to be complete."""
        assert order.column is not None
        bound = reading.now_us() - self._config[k.TIMESTAMP_DELAY] * 1000
        return bound - bound % order.column.resolution_us

    def _begin(self, unit: Unit, start: Position) -> Position:
        """Where reading begins: at what is stored, or before the first row."""
        first = start
        if self._mode in (k.INCREMENTING, k.BOTH) and first.incrementing is None:
            first = replace(first, incrementing=-1)
        if self._mode in (k.TIMESTAMP, k.BOTH) and first.timestamp_us is None:
            initial = self._config[k.TIMESTAMP_INITIAL]
            if initial is None:
                initial = self._config[k.TIMESTAMP_INITIAL_MS]
            at_us = self._began_us if initial == -1 else (initial or 0) * 1000
            first = replace(first, timestamp_us=at_us)
        return first

    # ── positions ────────────────────────────────────────────────────────────────────────────

    def _known(self, start: Offsets) -> dict[Unit, _Known]:
        stored: dict[tuple[tuple[str, Primitive], ...], SourceOffset] = {
            tuple(sorted(each.partition.items())): each for each in start
        }

        def lookup(partition: Mapping[str, Primitive]) -> SourceOffset | None:
            return stored.get(tuple(sorted(partition.items())))

        known: dict[Unit, _Known] = {}
        for unit in self._units:
            candidates: Sequence[Mapping[str, Primitive]] = [unit.partition]
            if unit.table is not None and unit.parts == 1:
                candidates = unit.table.partitions()
            found = next((each for each in map(lookup, candidates) if each is not None), None)
            known[unit] = _Known(
                unit.partition if found is None else found.partition,
                None if found is None else found.offset,
            )
            if unit.table is not None and self._mode == k.INCREMENTING:
                known[unit] = replace(
                    known[unit], offset=self._furthest(unit.table, known[unit], start)
                )
        return known

    def _furthest(
        self, table: TableId, own: _Known, start: Offsets
    ) -> Mapping[str, Primitive] | None:
        """Where reading may go on, if the table was split into another number of parts before:
        everything up to the whole table's position was read, and everything up to the least one
        of all its parts."""
        names = {each["table"] for each in table.partitions()}
        parts: dict[int, dict[int, int]] = {}
        best = offsets.position(own.offset).incrementing
        for each in start:
            if each.partition.get("table") not in names or each.offset is None:
                continue
            number = offsets.position(each.offset).incrementing
            if number is None:
                continue
            part = each.partition.get(offsets.PART)
            if part is None:
                best = number if best is None else max(best, number)
            else:
                index, _, count = str(part).partition("/")
                parts.setdefault(int(count), {})[int(index)] = number
        for parted, numbers in parts.items():
            if len(numbers) == parted:
                least = min(numbers.values())
                best = least if best is None else max(best, least)
        if best is None or (own.offset is not None and best == own.offset.get("incrementing")):
            return own.offset
        return Position(best).stored()

    def parts(self, start: Offsets, end: Offsets) -> Sequence[tuple[Offsets, Offsets]]:
        """A table's range for itself, for there is no order among tables; and of a range, where it
        is wished, ranges of keys."""
        before, after = self._known(start), self._known(end)
        found: list[tuple[Offsets, Offsets]] = []
        for unit in self._units:
            low, high = before[unit].offset, after[unit].offset
            if low == high or high is None:
                continue
            for first, last in self._split(unit, low, high):
                found.append(
                    (
                        [SourceOffset(unit.partition, first)] if first else [],
                        [SourceOffset(unit.partition, last)],
                    )
                )
        return found

    def _split(
        self, unit: Unit, low: Mapping[str, Primitive] | None, high: Mapping[str, Primitive]
    ) -> list[tuple[Mapping[str, Primitive], Mapping[str, Primitive]]]:
        ways = self._config[k.READ_PARALLELISM]
        if self._mode == k.BULK:
            if ways == 1:
                return [({}, high)]
            with self._session.reading() as reading:
                cuts = self._cuts(self._planned_shape(unit, reading), reading, ways)
            pairs = zip([None, *cuts], [*cuts, None], strict=True)
            return [({}, _bulk(high, first, last)) for first, last in pairs]
        begin = self._begin(unit, offsets.position(low))
        end = offsets.position(high)
        if self._mode != k.INCREMENTING or ways == 1:
            return [(begin.stored(), high)]
        first, last = begin.incrementing, end.incrementing
        assert first is not None
        assert last is not None
        cuts = sorted({first + (last - first) * at // ways for at in range(ways + 1)})
        return [(Position(a).stored(), Position(b).stored()) for a, b in itertools.pairwise(cuts)]

    def _cuts(self, shape: Shape, reading: Reading, ways: int) -> list[int]:
        """Keys at which a table is cut into ranges."""
        if shape.key is None:
            return []
        name = reading.name(shape.key.name)
        ((low, high),) = reading.connection.rows(
            f"SELECT MIN({name}), MAX({name}) FROM {shape.source}"
        )
        if low is None or high is None:
            return []
        low, high = int(low), int(high)
        return sorted({low + (high - low) * at // ways for at in range(1, ways)})

    # ── reading ──────────────────────────────────────────────────────────────────────────────

    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        before, after = self._known(start), self._known(end)
        for unit in self._units:
            low, high = before[unit].offset, after[unit].offset
            if low != high and high is not None:
                yield from self._rows(unit, low, high)

    def _rows(
        self, unit: Unit, low: Mapping[str, Primitive] | None, high: Mapping[str, Primitive]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a range. A connection that was kept may be lost, which shows only now; so as
        long as nothing was read it is tried once more with another."""
        for fresh in (False, True):
            reading = self._session.take(fresh=fresh)
            begun = False
            try:
                shape = self._shape(unit, reading)
                described = self._described(unit, shape)
                sql = self._statement(unit, shape, reading, low, high)
                for batch in reading.blocks(sql, shape.columns):
                    begun = True
                    yield batch.replace_schema_metadata({_METADATA: described})
            except DataError as error:
                reading.connection.close()
                raise DataError(f"{self._called(unit)}: {error}") from error
            except DatabaseAway:
                reading.connection.close()
                if begun or fresh:
                    raise
                continue
            except BaseException:
                reading.connection.close()
                raise
            self._session.keep(reading)
            return

    def _statement(
        self,
        unit: Unit,
        shape: Shape,
        reading: Reading,
        low: Mapping[str, Primitive] | None,
        high: Mapping[str, Primitive],
    ) -> str:
        chosen = f"SELECT {_list(reading, shape)} FROM {shape.source}"
        if shape.order is None:
            held = []
            if shape.key is not None:
                name = reading.name(shape.key.name)
                if offsets.FROM in high:
                    held.append(f"{name} > {high[offsets.FROM]}")
                if offsets.TO in high:
                    held.append(f"{name} <= {high[offsets.TO]}")
            return f"{chosen}{where(*held)}{self._suffix}"
        begin, end = self._begin(unit, offsets.position(low)), offsets.position(high)
        order = shape.order
        held = [
            order.after(begin),
            order.up_to(end),
            self._stripe(unit, shape, reading, begin, end),
        ]
        return f"{chosen}{where(*held)} ORDER BY {order.by}{self._suffix}"

    def _stripe(
        self,
        unit: Unit,
        shape: Shape,
        reading: Reading,
        begin: Position | None = None,
        end: Position | None = None,
    ) -> str:
        """That a row belongs to the unit's part of the table: by ranges, which an index finds,
        where there are few of them."""
        if unit.parts == 1:
            return ""
        assert shape.order is not None
        name, width = shape.order.incrementing, self._config[k.PART_KEYS]
        low = None if begin is None else begin.incrementing
        high = None if end is None else end.incrementing
        if low is not None and high is not None:
            turn = width * unit.parts
            first = max(low, 0) // turn * turn + unit.part * width
            starts = range(first, high + 1, turn)
            if len(starts) <= _MOST_STRIPES:
                ranges = [f"{name} BETWEEN {at} AND {at + width - 1}" for at in starts]
                return f"({' OR '.join(ranges)})" if ranges else "1 = 0"
        return f"{reading.stripe(name, width, unit.parts)} = {unit.part}"

    def records(self, batch: pa.RecordBatch) -> Records:
        described = batch.schema.metadata[_METADATA]
        wide = tuple(_too_wide(batch))
        rows = self._compiled.get((described, wide))
        if rows is None:
            rows = self._compiled[described, wide] = _Rows.of(described, wide, self._mapping)
        try:
            values = rows.values(batch)
        except DataError as error:
            raise DataError(f"{rows.called}: {error}") from error
        nothing: list[None] = [None] * len(values)
        return Records(
            topics=[rows.topic] * len(values),
            partitions=[*nothing],
            timestamps=[*nothing],
            keys=Column.of([*nothing], None),
            values=Column.of(values, rows.schema),
        )

    # ── what a table is ──────────────────────────────────────────────────────────────────────

    def _called(self, unit: Unit) -> str:
        return "The query" if unit.table is None else f"Table '{unit.table}'"

    def _planned_shape(self, unit: Unit, reading: Reading) -> Shape:
        now = self._clock()
        known = self._shapes.get(unit)
        if known is not None and 0 <= now - known[0] < _SHAPE_S:
            shape = known[1]
            order = shape.order and replace(shape.order, reading=reading)
            return replace(shape, order=order)
        shape = self._shape(unit, reading)
        self._shapes[unit] = now, shape
        return shape

    def source(self, unit: Unit, reading: Reading) -> str:
        """What is read, as it stands behind FROM."""
        if unit.table is None:
            return f"({self._query}) penstock_query"
        return reading.table(unit.table)

    def _shape(self, unit: Unit, reading: Reading) -> Shape:
        source = self.source(unit, reading)
        columns, left_out = reading.columns(source, unit.table)
        for told in left_out:
            if (
                text := f"{self._called(unit)}: {told}, which Connect has no type for"
            ) not in self._left_out:
                self._left_out.add(text)
                log.warning("%s; it is left out", text)
        order = self.order(unit, columns, reading)
        return Shape(source, tuple(columns), order, _numbered(columns))

    def order(self, unit: Unit, columns: Sequence[SqlColumn], reading: Reading) -> Order | None:
        """The order in which a unit with these columns is read; None: in none. Raises Unfit if it
        cannot be read as the settings want it."""
        if not columns:
            raise Unfit(
                f"{self._called(unit)} has no column of a type that Connect has.",
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
                    f"{self._called(unit)} has no column '{name}' ({setting}); it has "
                    f"{c.names(columns)}.",
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
                    f"{self._called(unit)}: column '{name}' ({found.told}) holds no whole numbers "
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
                        f"{self._called(unit)}: column '{each.name}' ({each.told}) holds no "
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
                f"{self._called(unit)} has no column, or several, that the database numbers by "
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
                f"{self._called(unit)} matches {len(found)} of the expressions in '{key.name}'; "
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

    def _described(self, unit: Unit, shape: Shape) -> bytes:
        """What `records` has to know of a batch."""
        prefix = self._config[k.TOPIC_PREFIX]
        name = None if unit.table is None else unit.table.name
        return orjson.dumps(
            {
                "topic": prefix + (name or ""),
                "name": name,
                "called": self._called(unit),
                "columns": [
                    {**asdict(each), "sql_type": each.sql_type.value} for each in shape.columns
                ],
            }
        )


def _numbered(columns: Sequence[SqlColumn]) -> SqlColumn | None:
    """The column that the database itself numbers, if there is just one."""
    numbered = [each for each in columns if each.counts and each.sql_type in c.NUMBERS]
    return numbered[0] if len(numbered) == 1 else None


def _numeric(config: Config) -> str:
    given = config[k.NUMERIC_MAPPING]
    if given is not None:
        return given.lower()
    return "precision_only" if config[k.NUMERIC_PRECISION] else "none"


def _list(reading: Reading, shape: Shape) -> str:
    return ", ".join(reading.selected(each) for each in shape.columns)


def _bulk(
    high: Mapping[str, Primitive], first: int | None, last: int | None
) -> Mapping[str, Primitive]:
    """A bulk poll of the rows behind one key and up to another."""
    found = dict(high)
    if first is not None:
        found[offsets.FROM] = first
    if last is not None:
        found[offsets.TO] = last
    return found


def _too_wide(batch: pa.RecordBatch) -> Iterator[str]:
    """The columns of 32 bits that hold more, which only SQLite's can."""
    if b'"widens":true' not in batch.schema.metadata[_METADATA]:
        return
    for each in orjson.loads(batch.schema.metadata[_METADATA])["columns"]:
        widens = each["widens"] and each["sql_type"] == Sql.INTEGER.value
        if widens and c.not_within(batch.column(each["name"]), s.Type.INT32) is not None:
            yield each["name"]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What turns batches of one table into structs."""

    topic: str
    called: str
    schema: Schema
    cells: tuple[c.Cells, ...]

    @classmethod
    def of(cls, described: bytes, wide: Sequence[str], mapping: c.Mapping) -> _Rows:
        told = orjson.loads(described)
        columns = [
            SqlColumn(**{**each, "sql_type": Sql(each["sql_type"])}) for each in told["columns"]
        ]
        columns = [
            replace(each, sql_type=Sql.BIGINT) if each.name in wide else each for each in columns
        ]
        schemas = {each.name: c.schema_of(each, mapping) for each in columns}
        return cls(
            told["topic"],
            told["called"],
            s.struct(schemas, name=told["name"]),
            tuple(c.cells_of(each, schemas[each.name], mapping) for each in columns),
        )

    def values(self, batch: pa.RecordBatch) -> list[s.Value]:
        cells = [read(column) for read, column in zip(self.cells, batch.columns, strict=True)]
        return structs_of(self.schema.field_names)(cells)
