"""Polls collections for changed documents.

A task reads its collections in turn, one page at a time. It sees the latest state of a document,
not every state in between, and no deletions.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.api import Polled, SourceContext, SourceOffset, SourceReader
from penstock.connectors.couchbase.client.errors import error_of
from penstock.connectors.couchbase.client.keyspace import Keyspace
from penstock.connectors.couchbase.client.store import Store, Stored
from penstock.connectors.couchbase.read import statements
from penstock.connectors.couchbase.read.events import Converting, Row
from penstock.connectors.couchbase.read.offsets import (
    LAST,
    Position,
    is_dcp,
    offset_of,
    partition_of,
    position_of,
)
from penstock.connectors.couchbase.settings.source import SourcePlan

_TOGETHER: Final = 500

log = logging.getLogger(__name__)


class _Collection:
    """One collection and its position."""

    def __init__(self, plan: SourcePlan, keyspace: Keyspace) -> None:
        self.keyspace = keyspace
        self.partition = partition_of(plan, keyspace)
        self.converting = Converting(plan, keyspace)
        self.position: Position | None = None  # None: not known yet
        self.begins_now = False
        self.rows: deque[Row] = deque()


class CouchbaseReader(SourceReader):
    """Reads one task's collections; connects with the first poll."""

    idle_ms = 100

    def __init__(
        self,
        plan: SourcePlan,
        connect: Callable[[], Store],
        context: SourceContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._connect = connect
        self._context = context
        self._clock = clock
        self._store: Store | None = None
        self._collections = deque(_Collection(plan, keyspace) for keyspace in plan.collections)
        self._not_before = clock()
        if any(is_dcp(stored.offset) for stored in context.stored_offsets):
            log.warning(
                "The stored offsets were written by Couchbase's connector, which reads the change "
                "protocol (DCP), and cannot be used; starting as couchbase.stream.from specifies"
            )

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if self._clock() < self._not_before:
            return None
        for _ in range(len(self._collections)):
            collection = self._collections[0]
            if not collection.rows:
                self._fetch(collection)
            if collection.rows:
                polled = self._polled(collection, max_bytes)
                if not collection.rows:
                    self._collections.rotate(-1)
                return polled
            self._collections.rotate(-1)
            if collection.begins_now:  # stored, so that a restart does not start later
                collection.begins_now = False
                assert collection.position is not None
                return Polled(offsets=[self._offset(collection, collection.position)])
        self._not_before = self._clock() + self._plan.interval_ms / 1000
        return None

    def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _fetch(self, collection: _Collection) -> None:
        if collection.position is None:
            collection.position = self._start_position(collection)
        statement, parameters = statements.page(
            self._plan, collection.keyspace, collection.position
        )
        page = self._query(collection.keyspace, statement, parameters)
        collection.rows.extend(list(self._read(collection.keyspace, page)))

    def _read(self, keyspace: Keyspace, page: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
        """The documents of a page, up to `_TOGETHER` per call."""
        if self._plan.without_value and not self._plan.sequence:
            for row in page:
                yield Row(row["id"], row["mark"], Stored(b"", row["mark"], 0))
            return
        failure = f"Cannot read {keyspace}"
        for start in range(0, len(page), _TOGETHER):
            rows = page[start : start + _TOGETHER]
            try:
                stored = self._connected().get(keyspace, [row["id"] for row in rows])
            except Exception as error:
                raise error_of(error, failure) from error
            for row in rows:
                document = stored.get(row["id"])
                if isinstance(document, Exception):
                    raise error_of(document, failure) from document
                yield Row(row["id"], row["mark"], document)

    def _start_position(self, collection: _Collection) -> Position:
        if self._plan.uses_saved:
            saved = position_of(self._plan, self._context.stored_offset(collection.partition))
            if saved is not None:
                return saved
        if self._plan.from_beginning:
            return Position(None)
        statement, parameters = statements.newest(self._plan, collection.keyspace)
        rows = self._query(collection.keyspace, statement, parameters)
        mark = rows[0].get("mark") if rows else None
        if isinstance(mark, float) and not self._plan.sequence:
            mark = int(mark)
        collection.begins_now = mark is not None
        return Position(mark, LAST)

    def _polled(self, collection: _Collection, max_bytes: int) -> Polled:
        rows: list[Row] = []
        values = []
        size, last = 0, collection.rows[0]
        while collection.rows and (size < max_bytes or not rows):
            last = collection.rows.popleft()
            converted = collection.converting.record(last)
            if converted is not None:
                rows.append(last)
                values.append(converted[0])
                size += converted[1]
        collection.position = Position(last.mark, last.id)
        return Polled(
            collection.converting.records(rows, values),
            [self._offset(collection, last)],
            offsets_before=lambda count: [self._offset(collection, rows[count - 1])],
        )

    def _offset(self, collection: _Collection, last: Row | Position) -> SourceOffset:
        position = Position(last.mark, last.id)
        return SourceOffset(collection.partition, offset_of(self._plan, position))

    def _connected(self) -> Store:
        if self._store is None:
            self._store = self._connect()
        return self._store

    def _query(
        self, keyspace: Keyspace, statement: str, parameters: dict[str, object]
    ) -> Sequence[Mapping[str, Any]]:
        try:
            return self._connected().query(statement, parameters, reads=True)
        except Exception as error:
            raise error_of(error, f"Cannot read {keyspace}") from error
