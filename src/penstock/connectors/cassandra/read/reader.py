"""Reads the tables of one source task (connectors.md §7.2).

A table with a column that identifies new rows is read in slices of time. The rows of a slice are
sorted, so that a reader can resume at every offset: all rows before it were sent. A slice that is
too large to sort is sent unsorted, with an offset on its last row only. A table that is read by
token is already ordered; offsets cover whole partitions. A table without such a column is read
completely by every poll, in parallel ranges of tokens.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final

import orjson

from penstock.api import (
    ConfigInvalid,
    Offsets,
    Polled,
    Primitive,
    Records,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.dates import DateFormat
from penstock.api.schema import EPOCH, STRING, Schema
from penstock.connectors.cassandra.client.access import Access, close
from penstock.connectors.cassandra.client.errors import error_of
from penstock.connectors.cassandra.read.offsets import moment_ms, moment_text, partition_of
from penstock.connectors.cassandra.read.plan import Buckets, Mode, SourcePlan, TablePlan
from penstock.connectors.cassandra.read.queries import (
    parts_of,
    problems,
    range_statement,
    ranges,
    statement,
)
from penstock.connectors.cassandra.read.values import moment_ms as row_ms
from penstock.connectors.cassandra.read.values import rows_as
from penstock.connectors.cassandra.text.codecs import converter
from penstock.connectors.cassandra.text.values import Texts

_MAX_SORTED: Final = 100_000  # rows of a slice
_LONG_AGO_MS: Final = -2_177_452_800_000  # 1901: an earlier position is only an initial offset
_ROW_BYTES: Final = 16
_MAX_PARTS_BYTES: Final = 1 << 20


@dataclass(slots=True)
class _Shape:
    """How rows of a table become values."""

    names: list[str]
    schema: Schema
    value_of: Callable[[Sequence[Any]], dict[str, Any]]


@dataclass(slots=True)
class _Table:
    """A table and the reader's progress in it. `position`: the stored offset of the last row
    sent."""

    plan: TablePlan
    position: str | None
    due_s: float = 0.0
    slice_ms: int = 0
    prepared: dict[bool, Any] = field(default_factory=dict)
    shape: _Shape | None = None
    ready: deque[tuple[Sequence[Any], str | None]] = field(default_factory=deque)
    pages: _Pages | None = None  # the unread pages of a slice
    carried: list[Sequence[Any]] = field(default_factory=list)  # rows read, but not ready yet
    highest_ms: int | None = None  # of the rows of an unsorted slice
    is_late: bool = False  # whether later slices are available already


class CassandraReader(SourceReader):
    """Reads a task's tables; connects at the first poll."""

    idle_ms = 50

    def __init__(
        self,
        access: Access,
        plan: SourcePlan,
        context: SourceContext,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._access = access
        self._plan = plan
        self._context = context
        self._now_ms = now_ms
        self._session: Any = None
        self._tables = [
            _Table(table, self._stored(table), slice_ms=plan.slice_ms) for table in plan.tables
        ]
        self.idle_ms = max(min(plan.interval_ms, 100), 1)

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        for _ in range(len(self._tables)):
            table = self._tables[0]
            polled = self._polled(table, max_bytes)
            if polled is not None:
                if not table.ready:
                    self._tables.append(self._tables.pop(0))
                return polled
            self._tables.append(self._tables.pop(0))
        return None

    def read(self, part: str) -> Iterator[Records]:
        number, start, end = orjson.loads(part)
        plan = self._plan.tables[number]
        session = self._connected()
        keys = [column.name for column in _described(session, plan).partition_key]
        prepared = self._prepare(range_statement(plan, self._plan, keys))
        shape: _Shape | None = None
        for page, names, kinds in self._pages(prepared, (start, end)):
            if shape is None:
                shape = self._shape(plan, names, kinds)
            yield from self._chunks(plan, shape, page)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            close(session)

    def _stored(self, plan: TablePlan) -> str | None:
        offset = self._context.stored_offset(partition_of(plan.table))
        value = None if offset is None else offset.get(plan.column)
        return value if isinstance(value, str) and value else None

    def _connected(self) -> Any:
        if self._session is None:
            session = self._access.session()
            messages = [
                message
                for plan in self._plan.tables
                for message in problems(session.cluster.metadata, plan, self._plan.setting)
            ]
            if messages:
                close(session)
                raise ConfigInvalid(messages)
            self._session = session
        return self._session

    def _polled(self, table: _Table, max_bytes: int) -> Polled | None:
        if not table.ready and table.pages is None:
            if time.monotonic() < table.due_s:
                return None
            if table.plan.mode is Mode.BULK:
                return self._bulk(table)
            self._begin(table)
        while not table.ready and table.pages is not None:
            self._read_on(table)
        if not table.ready:
            return None
        return self._take_ready(table, max_bytes)

    def _wait(self, table: _Table) -> None:
        table.due_s = time.monotonic() + self._plan.interval_ms / 1000

    def _bulk(self, table: _Table) -> Polled:
        session = self._connected()
        count = parts_of(self._partitions(session, table.plan))
        number = self._plan.tables.index(table.plan)
        self._wait(table)
        position = moment_text(self._plan.initial_ms)
        return Polled(
            offsets=[_offset(table.plan, position)],
            parts=[orjson.dumps([number, *tokens]).decode() for tokens in ranges(count)],
        )

    def _partitions(self, session: Any, plan: TablePlan) -> int | None:
        """The estimated number of a table's partitions; None if unknown."""
        try:
            estimates = session.execute(
                "SELECT partitions_count FROM system.size_estimates "
                "WHERE keyspace_name = %s AND table_name = %s",
                (plan.keyspace, plan.table),
            )
            counts = [row[0] for row in estimates]
        except Exception:  # the user may not read it, or it does not exist
            return None
        return sum(counts) if counts else None

    def _begin(self, table: _Table) -> None:
        """Starts reading the next slice, or the next tokens."""
        self._connected()
        plan = table.plan
        if plan.mode is Mode.TOKEN:
            is_first = table.position is None
            values: tuple[Any, ...] = ()
            prepared = self._statement(table, is_first=is_first)
            if table.position is not None:
                values = (_parsed_key(prepared, table.position),)
            table.pages = self._pages(prepared, values)
            return
        previous = self._plan.initial_ms
        if table.position is not None:
            previous = moment_ms(table.position)
        newest = upper = max(previous, self._now_ms() - self._plan.delay_ms)
        if previous > _LONG_AGO_MS:
            upper = min(upper, previous + table.slice_ms)
        table.is_late = upper < newest
        bounds: tuple[Any, ...] = (_moment(previous), _moment(upper))
        if plan.buckets is not None:
            bounds = (*bounds, bucket_names(plan.buckets, previous, upper))
        table.pages = self._pages(self._statement(table), bounds)

    def _read_on(self, table: _Table) -> None:
        """Continues a slice: to its end, so that it can be sorted, unless it is too large."""
        assert table.pages is not None
        most = 1 if table.plan.mode is Mode.TOKEN else _MAX_SORTED
        rows = table.carried
        for page, names, kinds in table.pages:
            if table.shape is None:
                table.shape = self._shape(table.plan, names, kinds)
            rows += page
            if len(rows) > most:
                break
        ended = table.pages.ended
        # Hold back the last row: its offset depends on the row after it.
        table.carried = [] if ended or not rows else [rows.pop()]
        if rows:
            take = self._take_tokens if table.plan.mode is Mode.TOKEN else self._take_times
            take(table, rows, ended=ended)
        if ended:
            table.pages = None
            self._end(table, is_empty=not rows)

    def _end(self, table: _Table, *, is_empty: bool) -> None:
        """Ends a slice; after an empty one the next is longer."""
        if not is_empty:
            table.slice_ms = self._plan.slice_ms
        elif table.is_late:
            table.slice_ms *= 2
        else:
            self._wait(table)

    def _take_tokens(self, table: _Table, rows: list[Sequence[Any]], *, ended: bool) -> None:
        """Queues rows in token order, with an offset on the last row of each partition."""
        assert table.shape is not None
        index = table.shape.names.index(table.plan.column)
        keys = [str(row[index]) for row in (*rows, *table.carried)]
        for number, row in enumerate(rows):
            is_last = ended if number + 1 == len(keys) else keys[number] != keys[number + 1]
            table.ready.append((row, keys[number] if is_last else None))
            if is_last:
                table.position = keys[number]

    def _take_times(self, table: _Table, rows: list[Sequence[Any]], *, ended: bool) -> None:
        """Queues rows of a slice: sorted, with an offset for each timestamp, or unsorted."""
        assert table.shape is not None
        index = table.shape.names.index(table.plan.column)
        moments = [row_ms(row[index]) for row in rows]
        if ended and table.highest_ms is None:
            order = sorted(range(len(rows)), key=moments.__getitem__)
            for number, row in enumerate(order):
                is_last = number + 1 == len(order) or moments[order[number + 1]] != moments[row]
                text = moment_text(moments[row]) if is_last else None
                table.ready.append((rows[row], text))
            table.position = moment_text(moments[order[-1]])
            return
        highest = max(*moments, table.highest_ms or moments[0])
        table.ready.extend((row, None) for row in rows)
        table.highest_ms = highest
        if ended:
            table.position, table.highest_ms = moment_text(highest), None
            table.ready[-1] = (rows[-1], table.position)

    def _take_ready(self, table: _Table, max_bytes: int) -> Polled:
        """Ready rows up to an offset; without an offset if `max_bytes` is reached before it."""
        rows: list[Sequence[Any]] = []
        reached: list[tuple[int, str]] = []  # each offset, with the number of rows up to it
        size = 0
        while table.ready and (not rows or size + _size(table.ready[0][0]) <= max_bytes):
            row, position = table.ready.popleft()
            size += _size(row)
            rows.append(row)
            if position is not None:
                reached.append((len(rows), position))
        if reached:
            complete, _ = reached[-1]
            table.ready.extendleft((row, None) for row in reversed(rows[complete:]))
            del rows[complete:]
        assert table.shape is not None
        records = self._records(table.plan, table.shape, rows)

        def offsets(count: int) -> Offsets:
            passed = bisect_right(reached, count, key=itemgetter(0))
            return [_offset(table.plan, reached[passed - 1][1])] if passed else []

        return Polled(records, offsets(len(rows)), offsets_before=offsets)

    def _records(self, plan: TablePlan, shape: _Shape, rows: Sequence[Sequence[Any]]) -> Records:
        values = [shape.value_of(row) for row in rows]
        if not plan.unwraps:
            return Records.of(plan.topic, values, schema=shape.schema)
        if plan.unwraps_json:
            texts = [_json(value) for value in values]
            keys = None
            if plan.key_columns:
                indexes = [shape.names.index(name) for name in plan.key_columns]
                keys = [plan.delimiter.join(str(row[index]) for index in indexes) for row in rows]
            key_schema = STRING if keys else None
            return Records.of(plan.topic, texts, schema=STRING, keys=keys, key_schema=key_schema)
        joined = [",".join(_plain(cell) for cell in value.values()) for value in values]
        return Records.of(plan.topic, joined, schema=STRING)

    def _chunks(
        self, plan: TablePlan, shape: _Shape, rows: Sequence[Sequence[Any]]
    ) -> Iterator[Records]:
        start = size = 0
        for at, row in enumerate(rows):
            size += _size(row)
            if size >= _MAX_PARTS_BYTES:
                yield self._records(plan, shape, rows[start : at + 1])
                start, size = at + 1, 0
        if start < len(rows):
            yield self._records(plan, shape, rows[start:])

    def _shape(self, plan: TablePlan, names: Sequence[str], kinds: Sequence[Any]) -> _Shape:
        name = f"{plan.keyspace}.{plan.table}".replace("-", ".")
        schema, value_of = rows_as(names, kinds, plan.ignored, name, as_json=self._plan.as_json)
        return _Shape(list(names), schema, value_of)

    def _statement(self, table: _Table, *, is_first: bool = False) -> Any:
        prepared = table.prepared.get(is_first)
        if prepared is None:
            prepared = self._prepare(statement(table.plan, self._plan, is_first=is_first))
            table.prepared[is_first] = prepared
        return prepared

    def _prepare(self, text: str) -> Any:
        from cassandra import ConsistencyLevel

        try:
            prepared = self._connected().prepare(text)
        except ConfigInvalid:
            raise
        except Exception as error:
            raise error_of(error, f"{self._plan.setting}: cannot prepare: {text}") from error
        if self._plan.consistency:
            prepared.consistency_level = ConsistencyLevel.name_to_value[self._plan.consistency]
        return prepared

    def _pages(self, prepared: Any, values: Sequence[Any]) -> _Pages:
        return _Pages(self._connected(), prepared, values, self._plan.fetch)


class _Pages:
    """The pages of a statement's rows, each with the columns' names and types. After an error the
    next call reads the same page again."""

    def __init__(self, session: Any, prepared: Any, values: Sequence[Any], fetch: int) -> None:
        self._session = session
        self._bound = prepared.bind(values)
        self._bound.fetch_size = fetch
        self._query = prepared.query_string
        self._state: Any = None
        self.ended = False

    def __iter__(self) -> _Pages:
        return self

    def __next__(self) -> tuple[list[Sequence[Any]], list[str], list[Any]]:
        if self.ended:
            raise StopIteration
        try:
            result = self._session.execute(self._bound, paging_state=self._state)
        except Exception as error:
            raise error_of(error, f"Cannot read: {self._query}") from error
        self._state = result.paging_state
        self.ended = not self._state
        return list(result.current_rows), result.column_names, result.column_types


def bucket_names(buckets: Buckets, first_ms: int, last_ms: int) -> list[str]:
    """The names of all buckets between two timestamps, both included."""
    pattern = DateFormat(buckets.pattern)
    step = buckets.length.value
    names = [pattern.format(ms) for ms in range(first_ms, last_ms + 1, step)]
    return list(dict.fromkeys([*names, pattern.format(last_ms)]))


def _described(session: Any, plan: TablePlan) -> Any:
    keyspace = session.cluster.metadata.keyspaces[plan.keyspace]
    return keyspace.tables.get(plan.table) or keyspace.views[plan.table]


def _offset(plan: TablePlan, position: str) -> SourceOffset:
    partition: dict[str, Primitive] = partition_of(plan.table)
    return SourceOffset(partition, {plan.column: position})


def _moment(ms: int) -> datetime:
    return (EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None)


def _parsed_key(prepared: Any, text: str) -> Any:
    """The value of a partition key, from its text in an offset."""
    return converter(prepared.column_metadata[0].type, Texts())(text)


def _size(row: Sequence[Any]) -> int:
    return sum(
        len(cell) + _ROW_BYTES if isinstance(cell, (str, bytes, list, dict)) else _ROW_BYTES
        for cell in row
    )


def _json(value: dict[str, Any]) -> str:
    return orjson.dumps(value, default=str).decode()


def _plain(value: Any) -> str:
    return "null" if value is None else str(value)
