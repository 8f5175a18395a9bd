"""Records into tables (connectors.md §3.2).

A batch is cut into groups: records for one table with the same schemas. A group becomes columns,
the columns what the dialect writes, and all groups of a batch are one transaction. Rows that the
database refuses are looked for by halves, so that a batch without any costs nothing.

Where rows have keys, of several with the same key the last one counts: a statement for many rows
could not do them one after the other. The earlier ones come into their own again if the last one
is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.api import DataError, Failed, PenstockError, Records, SinkContext, SinkWriter
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
)
from penstock.connectors.jdbc.write.dialect import Cells, Dialect, TableName, Write
from penstock.connectors.jdbc.write.groups import Group, groups, shown_offset, shown_place, usable
from penstock.connectors.jdbc.write.layouts import Layouts, cells_of
from penstock.connectors.jdbc.write.offsets import make_offsets, next_offsets, store_offsets
from penstock.connectors.jdbc.write.pieces import Piece, last_ones
from penstock.connectors.jdbc.write.settings import KeyMode, WriteSettings
from penstock.connectors.jdbc.write.tables import TableMismatch


class GaveUp(PenstockError):
    """The database was away, or others in the way, for as long as `max.retries` allows."""

    code = "jdbc.retries"


@dataclass(slots=True)
class _Work:
    """What a group comes to: what is written, and what instead of a row that is refused."""

    pieces: list[Piece]
    earlier: dict[int, Piece]  # by row: the row before it with the same key, alone


class JdbcWriter(SinkWriter):
    """Writes one task's records; connects when there are some, and again after a failure."""

    def __init__(
        self, database: Database, dialect: Dialect, settings: WriteSettings, context: SinkContext
    ) -> None:
        self._context = context
        self._database = database
        self._dialect = dialect
        self._settings = settings
        self._layouts: Layouts | None = None  # with the connection
        self._retries = settings.max_retries
        self._not_before = 0.0

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
        layouts, self._layouts = self._layouts, None
        if layouts is not None:
            layouts.connection.close()

    def _written(self, records: Records) -> Failed:
        """Writes a batch; what was refused."""
        try:
            return self._once(records)
        except (DatabaseRefused, TableMismatch):
            if self._layouts is None or not self._layouts.learnt:
                raise
            # Perhaps the table was altered, or created anew, since it was looked at.
            self.close()
            return self._once(records)
        except RowRefused:
            # A constraint that is only checked at the end: now it is checked with each statement.
            return self._once(records, immediate=True)

    def _once(self, records: Records, *, immediate: bool = False) -> Failed:
        layouts = self._connected()
        connection = layouts.connection
        refused: Failed = {}
        work = [
            self._work(layouts, records, group, refused)
            for group in groups(records, self._settings)
        ]
        layouts.learnt, learnt = True, layouts.learnt
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
                if refused and not self._context.tolerates_errors:
                    # The task fails, and shall find everything as it was before.
                    raise self._named(records, *min(refused.items()))
                self._advance(connection, offsets, records, following)
        return {row: self._named(records, row, error) for row, error in refused.items()}

    def _connected(self) -> Layouts:
        if self._layouts is None or not self._layouts.connection.is_open:
            self._layouts = None
            connection = self._database.connect()
            try:
                self._dialect.session(connection)
                if self._settings.offsets is not None:
                    # Not where the writer is opened: a database that is away is waited for.
                    make_offsets(connection, self._dialect, self._settings.offsets)
            except BaseException:
                connection.close()
                raise
            self._layouts = Layouts(connection, self._dialect, self._settings)
        return self._layouts

    def _named(self, records: Records, row: int, error: Exception) -> Exception:
        """The error with the record it is about."""
        if not isinstance(error, RowRefused):
            return error
        what = "the database's words are left out" if self._settings.trims_errors else str(error)
        topic = records.topics[row]
        table = self._settings.table_of(topic)
        return RowRefused(
            f"Table {table} refuses the record at topic='{topic}', "
            f"partition={records.partitions[row]}, offset={shown_offset(records, row)}: {what}"
        )

    def _work(self, layouts: Layouts, records: Records, group: Group, refused: Failed) -> _Work:
        """What a group comes to. Rows that cannot be written go into `refused`."""
        values = [row for row in group.rows if row not in group.deletes]
        deletes = [row for row in group.rows if row in group.deletes]
        found: list[Piece] = []
        for rows, write in ((values, self._settings.write), (deletes, Write.DELETE)):
            if not rows:
                continue
            piece = self._piece(layouts, records, group, rows, write, refused)
            if piece is not None:
                found.append(piece)
        earlier: dict[int, Piece] = {}
        if self._settings.write is not Write.INSERT:
            found = last_ones(found, earlier, together=self._settings.write is Write.UPSERT)
        return _Work(found, earlier)

    def _piece(
        self,
        layouts: Layouts,
        records: Records,
        group: Group,
        rows: list[int],
        write: Write,
        refused: Failed,
    ) -> Piece | None:
        good = usable(records, group, rows, write, self._settings, refused)
        if not good:
            return None
        schema = None if write is Write.DELETE else group.value
        layout = layouts.of(group.table, group.key, schema, write)
        if isinstance(layout, PenstockError):
            refused.update(dict.fromkeys(good, layout))
            return None
        columns: list[Cells] = []
        bad: dict[int, Exception] = {}
        for at, (source, encode) in enumerate(zip(layout.sources, layout.encoders, strict=True)):
            wrong: dict[int, Exception] = {}
            cells = cells_of(records, source, good, wrong)
            if at in layout.segment.keys and self._settings.key_mode is not KeyMode.NONE:
                for place, cell in enumerate(cells) if None in cells else ():
                    if cell is None:
                        wrong[place] = DataError("it is null, and part of the primary key")
            columns.append(encode(cells, wrong))
            for place, error in wrong.items():
                where = f"{layout.shown(at)}, {shown_place(records, good[place])}"
                bad[place] = DataError(f"The value for {where} cannot be written: {error}")
        piece = Piece(layout.segment, columns, good)
        if bad:
            refused.update({good[place]: error for place, error in bad.items()})
            piece = piece.only([place for place in range(len(good)) if place not in bad])
        return piece if piece.rows else None

    def _write_piece(
        self,
        connection: Connection,
        piece: Piece,
        earlier: Mapping[int, Piece],
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

    def _by_halves(self, connection: Connection, piece: Piece, refused: Failed) -> None:
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


def _places(records: Records) -> Iterator[tuple[str, int]]:
    for topic, partition in zip(records.topics, records.partitions, strict=True):
        yield topic, partition or 0
