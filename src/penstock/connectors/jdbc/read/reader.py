"""Reads the rows of tables, or of a query, in ranges (connectors.md §2).

A range extends from one row's position to another's, both of them in the table. One statement reads
it while the engine polls: each poll returns a piece. If possible, a piece ends between two rows of
different positions, and then has an offset; so after an error, or in another process, reading
resumes after the last piece returned.

A range by timestamp alone ends with all rows of its last timestamp; rows younger than the delay are
not read. So rows of equal timestamps are neither lost nor repeated, as long as transactions are
shorter than the delay.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import orjson
import pyarrow as pa

from penstock.api import (
    DataError,
    Offsets,
    PenstockError,
    Polled,
    Primitive,
    Records,
    SourceContext,
    SourceOffset,
    SourceReader,
    is_transient,
)
from penstock.api import schema as s
from penstock.api.settings import Config
from penstock.connectors.jdbc.drivers.errors import DatabaseAway
from penstock.connectors.jdbc.drivers.moments import zone
from penstock.connectors.jdbc.drivers.types import Sql
from penstock.connectors.jdbc.read import columns as c
from penstock.connectors.jdbc.read import offsets
from penstock.connectors.jdbc.read.columns import SqlColumn
from penstock.connectors.jdbc.read.offsets import Position, TableId
from penstock.connectors.jdbc.read.pool import ReadingPool
from penstock.connectors.jdbc.read.ranges import Range, too_wide
from penstock.connectors.jdbc.read.reached import reached
from penstock.connectors.jdbc.read.reading import LARGEST, Order, Reading, where
from penstock.connectors.jdbc.read.shapes import Shape, Shapes, Unit, units_of
from penstock.connectors.jdbc.read.structs import Structs
from penstock.connectors.jdbc.settings import connection as keys
from penstock.connectors.jdbc.settings import source as k

RANGE_BYTES: Final = 1 << 25
"""Roughly what one statement reads; planning takes several others."""

_PART_BYTES: Final = 1 << 20  # of the records that `read` yields at a time
_SAMPLE_ROWS: Final = 64
_MAX_ROWS: Final = 1_000_000  # of one range, even if rows are small
_MAX_STRIPES: Final = 64  # that one statement names
_ADVICE: Final = (
    " Correct the row, convert the value in 'query', or skip such rows with errors.tolerance=all."
)
_LIMIT: Final = re.compile(
    r"\s*(LIMIT\s+\d+|FETCH\s+(FIRST|NEXT)\s+\d+\s+ROWS?\s+ONLY)\s*", re.IGNORECASE
)
_SHAPE_S: Final = 60.0  # how long planning relies on the known columns of a table


class RangeInterrupted(PenstockError):
    """Reading failed after records were returned that have no offset yet. Returning them again
    would put them into the same transaction twice; a restarted task resumes from the stored offset.
    The cause is retriable, so the worker restarts the task."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """The end of a unit's next range, and about how many bytes the range holds."""

    end: Mapping[str, Primitive]
    size: int


class JdbcReader(SourceReader):
    """Reads the tables of one task, one range of each in turn. `clock` returns seconds since the
    epoch, for the poll interval; a range holds about `range_bytes`."""

    def __init__(
        self,
        config: Config,
        context: SourceContext,
        *,
        clock: Callable[[], float] = time.time,
        range_bytes: int = RANGE_BYTES,
    ) -> None:
        self._config = config
        self._context = context
        self._clock = clock
        self._range_bytes = range_bytes
        # The size of each unit's next range. With several units the first ranges are small, so
        # that none waits long for its turn.
        self._sizes: dict[Unit, int] = {}
        self._mode = config[k.MODE]
        self._units = units_of(config)
        self._pool = ReadingPool(config)
        self._shapes = Shapes(config)
        self._suffix = f" {config[k.QUERY_SUFFIX]}" if config[k.QUERY_SUFFIX] else ""
        self._interval_s = config[k.POLL_INTERVAL] / 1000
        self._mapping = c.Mapping(
            numeric=_numeric(config),
            granularity=config[k.TIMESTAMP_GRANULARITY],
            zone=zone(config[keys.DB_TIMEZONE]),
            unlimited_scale=config[k.NUMERIC_SCALE],
        )
        self._began_us = int(clock() * 1_000_000)
        self._reached = reached(self._units, self._mode, context.stored_offsets)
        self._next = 0  # the unit whose turn it is
        self._range: Range | None = None
        self._end: Mapping[str, Primitive] = {}  # of the range
        self._offset_is_due = False  # records of the range were returned, and no offset since
        self._beyond: set[Unit] = set()  # reported to have rows that no offset can hold
        self._quiet: dict[Unit, float] = {}  # when a unit had no further rows to plan
        self._known_shapes: dict[Unit, tuple[float, Shape]] = {}  # for planning, with their time
        self._structs: dict[
            tuple[TableId | None, tuple[SqlColumn, ...], frozenset[int]], Structs
        ] = {}
        self.idle_ms = min(100, max(10, config[k.POLL_INTERVAL] // 5))

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        try:
            if self._config[k.READ_PARALLELISM] > 1:
                return self._poll_parts()
            if self._range is None:
                self._range = self._next_range(max_bytes)
            return None if self._range is None else self._poll_piece(self._range, max_bytes)
        except Exception as error:
            offset_is_due, called = self._offset_is_due, self._range and self._range.unit.called
            self._forget()
            if offset_is_due and is_transient(error) and self._mode != k.BULK:
                raise RangeInterrupted(
                    f"{called} has many rows with the same offset, and reading failed among them; "
                    f"the task must restart from the first of these rows: {error}"
                ) from error
            raise

    def _poll_piece(self, rows: Range, max_bytes: int) -> Polled:
        with _naming(rows.unit):
            blocks = rows.take(max_bytes)
            offset = self._offset_after(rows, blocks)
            structs = self._structs_for(rows, blocks)
            values, refused = structs.values(blocks)
            first = min(refused, default=0)
            if first and not self._context.tolerates_errors:
                # The records before it are sent first; the next poll starts with it.
                rows.put_back(blocks, first)
                offset = self._offset_after(rows, blocks)
                values, refused = values[: sum(block.num_rows for block in blocks)], {}
                self._context.request_commit()
        if refused:
            values = self._report(rows.unit, structs, blocks, values, refused)
        if not rows.has_more():
            self._range = None
            self._next = self._units.index(rows.unit) + 1
        self._offset_is_due = offset is None
        reached = () if offset is None else [self._reach(rows.unit, offset)]
        return Polled(
            structs.records(values),
            reached,
            # Rows that were skipped are no records.
            offsets_before=None if refused else partial(self._offsets_before, rows, blocks),
        )

    def _offsets_before(self, rows: Range, blocks: Sequence[pa.RecordBatch], count: int) -> Offsets:
        position = rows.position_before(blocks, count)
        if position is None:
            return ()
        return [SourceOffset(self._reached[rows.unit].partition, position.stored())]

    def _offset_after(
        self, rows: Range, blocks: list[pa.RecordBatch]
    ) -> Mapping[str, Primitive] | None:
        """The offset after the last row in `blocks`, some of which may be put back for it; None if
        the row that follows has the same."""
        if not rows.has_more():
            return self._end
        position = rows.end_at_position(blocks)
        return None if position is None else position.stored()

    def _report(
        self,
        unit: Unit,
        structs: Structs,
        blocks: Sequence[pa.RecordBatch],
        values: Sequence[s.Value],
        refused: c.Refused,
    ) -> list[s.Value]:
        """Reports rows that cannot become records, and returns the values of the others. Raises if
        that is not tolerated."""
        advice = "" if self._context.tolerates_errors else _ADVICE
        start = 0
        for block in blocks:
            for row in range(start, start + block.num_rows):
                if row in refused:
                    error = DataError(f"{unit.called}: {refused[row]}{advice}")
                    self._context.report(structs.remains(block, row - start, refused[row]), error)
            start += block.num_rows
        return [value for row, value in enumerate(values) if row not in refused]

    def _poll_parts(self) -> Polled | None:
        """The next ranges of as many units as fit, for reading in parallel."""
        remaining_bytes = self._range_bytes
        parts: list[str] = []
        ends: list[tuple[Unit, Mapping[str, Primitive]]] = []
        for index in self._turns():
            unit = self._units[index]
            planned = self._plan(unit, remaining_bytes)
            if planned is None:
                continue
            for low, high in self._split(unit, planned.end):
                parts.append(orjson.dumps([index, low, high]).decode())
            ends.append((unit, planned.end))
            remaining_bytes -= planned.size
            if remaining_bytes <= 0:
                self._next = index + 1
                break
        if not ends:
            return None
        return Polled(offsets=[self._reach(unit, end) for unit, end in ends], parts=parts)

    def _turns(self) -> list[int]:
        """The units, starting with the one whose turn it is, so that a busy one starves none."""
        count = len(self._units)
        return [(self._next + at) % count for at in range(count)]

    def _next_range(self, max_bytes: int) -> Range | None:
        for index in self._turns():
            unit = self._units[index]
            first_size = max_bytes if len(self._units) > 1 else self._range_bytes
            size = min(self._range_bytes, self._sizes.get(unit, first_size))
            planned = self._plan(unit, size)
            if planned is not None:
                self._sizes[unit] = 2 * size
                self._next = index
                self._end = planned.end
                return self._open(unit, self._reached[unit].offset, planned.end)
        return None

    def _reach(self, unit: Unit, offset: Mapping[str, Primitive]) -> SourceOffset:
        self._reached[unit] = replace(self._reached[unit], offset=offset)
        return SourceOffset(self._reached[unit].partition, offset)

    def _forget(self) -> None:
        """Drops the current range: reading resumes from each unit's last offset, without waiting
        for the poll interval."""
        if self._range is not None:
            self._range.close()
            self._range = None
        self._offset_is_due = False
        self._quiet.clear()

    def close(self) -> None:
        self._forget()
        self._pool.close()

    def _plan(self, unit: Unit, max_bytes: int) -> _Planned | None:
        """The next range of a unit; None if it has none, or its poll interval is not over."""
        start, now = self._reached[unit].offset, self._clock()
        if self._mode == k.BULK:
            last = offsets.polled(start)
            if last is not None and now * 1000 < last + self._interval_s * 1000:
                return None
            return _Planned({offsets.POLLED: int(now * 1000)}, 0)
        quiet_since = self._quiet.get(unit)
        if quiet_since is not None and 0 <= now - quiet_since < self._interval_s:
            return None
        end, size, full = self._look(unit, offsets.position(start), max_bytes)
        if full:
            self._quiet.pop(unit, None)
        else:
            self._quiet[unit] = now
        offset = None if end is None else end.stored()
        return None if offset is None or offset == start else _Planned(offset, size)

    def _look(
        self, unit: Unit, start: Position, max_bytes: int
    ) -> tuple[Position | None, int, bool]:
        """The position of the last row of the next range, None if there is no row; the range's
        size; and whether more rows may follow."""
        try:
            with self._pool.reading() as reading:
                shape = self._planned_shape(unit, reading)
                return self._look_at(unit, shape, self._begin(start), max_bytes)
        except Exception as error:
            self._known_shapes.pop(unit, None)  # its columns may have changed
            if isinstance(error, DataError):
                raise DataError(f"{unit.called}: {error}") from error
            raise

    def _look_at(
        self, unit: Unit, shape: Shape, start: Position, max_bytes: int
    ) -> tuple[Position | None, int, bool]:
        order = shape.order
        assert order is not None
        reading = order.reading
        conditions = [order.after(start), self._stripe(unit, shape, reading)]
        if order.timestamp:
            conditions.append(order.before(self._bound_us(reading, order)))
        from_where = f" FROM {shape.source}{where(*conditions)}"
        sample = f"{shape.select(reading)}{where(*conditions)} ORDER BY {order.by}"
        size = rows = 0
        for batch in reading.sample(sample, shape.columns, _SAMPLE_ROWS):
            size, rows = size + batch.nbytes, rows + batch.num_rows
        if not rows:
            if order.unlimited and unit not in self._beyond:
                self._refuse_beyond(unit, order, shape)
            return None, 0, False
        max_rows = max(1, min(_MAX_ROWS, max_bytes * rows // max(size, 1)))
        keys = f"SELECT {order.keys}{from_where}"
        if self._suffix:
            return self._look_with_suffix(order, keys, max_rows, size // rows)
        last = reading.first(f"{keys} ORDER BY {order.by}", max_rows - 1)
        full = bool(last)
        if not full:
            last = reading.first(f"{keys} ORDER BY {order.backwards}")
        if not last:
            return None, 0, False  # the rows were deleted meanwhile
        return order.position(last[0]), max_rows * size // rows, full

    def _refuse_beyond(self, unit: Unit, order: Order, shape: Shape) -> None:
        """Reports the first row whose number no offset can hold: neither it nor those after it can
        be read."""
        number = order.incrementing
        beyond = where(f"{number} > {LARGEST}")
        for (found,) in order.reading.first(
            f"SELECT {number} AS penstock_id FROM {shape.source}{beyond} ORDER BY {number}"
        ):
            self._beyond.add(unit)
            topic = self._structs_of(unit.table, shape.columns, frozenset()).topic
            self._context.report(
                Records.of(topic, [{number: str(found)}]),
                DataError(
                    f"{unit.called}: Column {number} contains {found}, which is larger than an "
                    "offset can be (INT64). Read this table in another mode, or by a 'query' "
                    "without such rows."
                ),
            )

    def _look_with_suffix(
        self, order: Order, keys: str, max_rows: int, row_bytes: int
    ) -> tuple[Position | None, int, bool]:
        """The same with a suffix, which may be a LIMIT and so ends this statement too."""
        sql = f"{keys} ORDER BY {order.by}{self._suffix}"
        rows = list(itertools.islice(itertools.chain(*order.reading.keys(sql)), max_rows))
        if not rows:
            return None, 0, False
        return order.position(rows[-1]), len(rows) * row_bytes, True

    def _bound_us(self, reading: Reading, order: Order) -> int:
        """Rows from this time on wait, because transactions may still add some. In a column of
        whole seconds, a second is complete only when it is over."""
        assert order.column is not None
        bound = reading.clock_us(order.column, order.zone) - self._config[k.TIMESTAMP_DELAY] * 1000
        return bound - bound % order.column.resolution_us

    def _begin(self, start: Position) -> Position:
        """The position after which to read: the stored one, or one before the first row."""
        begin = start
        if self._mode in (k.INCREMENTING, k.BOTH) and begin.incrementing is None:
            begin = replace(begin, incrementing=-1)
        if self._mode in (k.TIMESTAMP, k.BOTH) and begin.timestamp_ns is None:
            initial = self._config[k.TIMESTAMP_INITIAL]
            if initial is None:
                initial = self._config[k.TIMESTAMP_INITIAL_MS]
            at_us = self._began_us if initial == -1 else (initial or 0) * 1000
            begin = replace(begin, timestamp_ns=at_us * 1000)
        return begin

    def _split(
        self, unit: Unit, high: Mapping[str, Primitive]
    ) -> list[tuple[Mapping[str, Primitive], Mapping[str, Primitive]]]:
        """The next range of a unit, up to `high`, as ranges of keys; in one piece without keys."""
        ways = self._config[k.READ_PARALLELISM]
        if self._mode == k.BULK:
            if self._shapes.statement(unit):
                return [({}, high)]
            with self._pool.reading() as reading:
                cuts = self._cuts(self._planned_shape(unit, reading), reading, ways)
            pairs = zip([None, *cuts], [*cuts, None], strict=True)
            return [({}, _bulk(high, first, last)) for first, last in pairs]
        begin = self._begin(offsets.position(self._reached[unit].offset))
        if self._mode != k.INCREMENTING:
            return [(begin.stored(), high)]
        first, last = begin.incrementing, offsets.position(high).incrementing
        assert first is not None
        assert last is not None
        cuts = sorted({first + (last - first) * at // ways for at in range(ways + 1)})
        return [(Position(a).stored(), Position(b).stored()) for a, b in itertools.pairwise(cuts)]

    def _cuts(self, shape: Shape, reading: Reading, ways: int) -> list[int]:
        """The keys that divide a table into ranges."""
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

    def read(self, part: str) -> Iterator[Records]:
        index, low, high = orjson.loads(part)
        unit = self._units[index]
        with contextlib.closing(self._open(unit, low, high)) as rows, _naming(unit):
            while rows.has_more():
                blocks = rows.take(_PART_BYTES)
                structs = self._structs_for(rows, blocks)
                values, refused = structs.values(blocks)
                first = min(refused, default=0)
                if first and not self._context.tolerates_errors:
                    yield structs.records(values[:first])
                if refused:
                    values = self._report(unit, structs, blocks, values, refused)
                yield structs.records(values)

    def _open(
        self, unit: Unit, low: Mapping[str, Primitive] | None, high: Mapping[str, Primitive]
    ) -> Range:
        """A range with its first rows read. Retries once with a fresh connection: a lost pooled one
        is noticed only here."""
        try:
            return self._opened(unit, low, high, fresh=False)
        except DatabaseAway:
            return self._opened(unit, low, high, fresh=True)

    def _opened(
        self,
        unit: Unit,
        low: Mapping[str, Primitive] | None,
        high: Mapping[str, Primitive],
        *,
        fresh: bool,
    ) -> Range:
        reading = self._pool.take(fresh=fresh)
        try:
            with _naming(unit):
                if statement := self._shapes.statement(unit):
                    shape, blocks = self._shapes.run(unit, reading, statement)
                    rows = Range(unit, shape, self._pool, reading)
                    rows.begin_rows(shape.columns, blocks)
                    rows.has_more()
                    return rows
                shape = self._shapes.of(unit, reading)
                rows = Range(unit, shape, self._pool, reading)
                order_by = f" ORDER BY {shape.order.by}" if shape.order else ""
                conditions = self._conditions(unit, shape, reading, low, high)
                suffix = self._suffix
                if shape.order and not shape.order.incrementing and _LIMIT.fullmatch(suffix):
                    # It has limited the range already; here it could cut off rows of the range's
                    # last timestamp.
                    suffix = ""
                rows.begin(conditions, f"{order_by}{suffix}")
                rows.has_more()
        except BaseException:
            reading.connection.close()
            raise
        return rows

    def _conditions(
        self,
        unit: Unit,
        shape: Shape,
        reading: Reading,
        low: Mapping[str, Primitive] | None,
        high: Mapping[str, Primitive],
    ) -> list[str]:
        """The conditions for the rows of a range."""
        if shape.order is None:
            conditions = []
            if shape.key is not None:
                name = reading.name(shape.key.name)
                if offsets.FROM in high:
                    conditions.append(f"{name} > {high[offsets.FROM]}")
                if offsets.TO in high:
                    conditions.append(f"{name} <= {high[offsets.TO]}")
            return conditions
        begin, end = self._begin(offsets.position(low)), offsets.position(high)
        order = shape.order
        return [
            order.after(begin),
            order.up_to(end),
            self._stripe(unit, shape, reading, begin, end),
        ]

    def _stripe(
        self,
        unit: Unit,
        shape: Shape,
        reading: Reading,
        begin: Position | None = None,
        end: Position | None = None,
    ) -> str:
        """The condition for rows of the unit's part of the table: by ranges, which can use an
        index, if there are few of them."""
        if unit.parts == 1:
            return ""
        assert shape.order is not None
        name, width = shape.order.incrementing, self._config[k.PART_KEYS]
        low = None if begin is None else begin.incrementing
        high = None if end is None else end.incrementing
        if low is not None and high is not None:
            distance = width * unit.parts
            first = max(low, 0) // distance * distance + unit.part * width
            starts = range(first, high + 1, distance)
            if len(starts) <= _MAX_STRIPES:
                ranges = [f"{name} BETWEEN {start} AND {start + width - 1}" for start in starts]
                return f"({' OR '.join(ranges)})" if ranges else "1 = 0"
        return f"{reading.stripe(name, width, unit.parts)} = {unit.part}"

    def _structs_for(self, rows: Range, blocks: Sequence[pa.RecordBatch]) -> Structs:
        columns, table = rows.shape.columns, rows.unit.table
        wide = too_wide(columns, blocks)
        structs = self._structs.get((table, columns, wide))
        if structs is None:
            structs = self._structs[table, columns, wide] = self._structs_of(table, columns, wide)
        return structs

    def _structs_of(
        self, table: TableId | None, columns: Sequence[SqlColumn], wide: frozenset[int]
    ) -> Structs:
        name = None if table is None else table.name
        widened = [
            replace(column, sql_type=Sql.BIGINT) if at in wide else column
            for at, column in enumerate(columns)
        ]
        schemas = {column.name: c.schema_of(column, self._mapping) for column in widened}
        return Structs(
            self._config[k.TOPIC_PREFIX] + (name or ""),
            s.struct(schemas, name=name),
            tuple(widened),
            tuple(c.cells_of(column, schemas[column.name], self._mapping) for column in widened),
        )

    def _planned_shape(self, unit: Unit, reading: Reading) -> Shape:
        now = self._clock()
        known = self._known_shapes.get(unit)
        if known is not None and 0 <= now - known[0] < _SHAPE_S:
            shape = known[1]
            order = shape.order and replace(shape.order, reading=reading)
            return replace(shape, order=order)
        shape = self._shapes.of(unit, reading)
        self._known_shapes[unit] = now, shape
        return shape


@contextlib.contextmanager
def _naming(unit: Unit) -> Iterator[None]:
    """Adds the name of the table or query to errors about data."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{unit.called}: {error}") from error


def _numeric(config: Config) -> str:
    mapping = config[k.NUMERIC_MAPPING]
    if mapping is not None:
        return mapping.lower()
    return "precision_only" if config[k.NUMERIC_PRECISION] else "none"


def _bulk(
    high: Mapping[str, Primitive], first: int | None, last: int | None
) -> Mapping[str, Primitive]:
    """A bulk poll of the rows after key `first`, up to key `last`."""
    bounds = dict(high)
    if first is not None:
        bounds[offsets.FROM] = first
    if last is not None:
        bounds[offsets.TO] = last
    return bounds
