"""Writes records into tables (connectors.md §3.2).

A batch is divided into groups: records for one table with the same schemas. The dialect encodes the
columns of a group, and all groups of a batch are written in one transaction. The writer finds the
rows that the database refuses by halving, so a batch without any costs nothing.

Of several rows with the same key, only the last one is written: a statement for many rows could not
write them one after the other. If the database refuses it, the one before is written. Where only
the database knows which keys are equal (texts without case, padded or rounded values), it is asked,
or the rows keep their order.

If a row is refused and the task does not tolerate that, the whole batch is rolled back: the task
fails, and reads the batch again when it is restarted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.api import (
    DataError,
    Failed,
    PenstockError,
    Records,
    SinkContext,
    SinkWriter,
)
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseRefused,
    RowRefused,
)
from penstock.connectors.jdbc.write.dialect import Cells, Dialect, Write
from penstock.connectors.jdbc.write.groups import Group, groups, shown_offset, shown_place, usable
from penstock.connectors.jdbc.write.layouts import Layout, Layouts, cells_of
from penstock.connectors.jdbc.write.offsets import OffsetsTable, below
from penstock.connectors.jdbc.write.pieces import Piece, in_order, last_ones
from penstock.connectors.jdbc.write.settings import KeyMode, WriteSettings
from penstock.connectors.jdbc.write.tables import TableMismatch

log = logging.getLogger(__name__)


class GaveUp(PenstockError):
    """The database was down or busy longer than `max.retries` allows."""


class _RolledBack(Exception):
    """Rolls a batch back whose refused rows are not tolerated."""

    def __init__(self, refused: Failed) -> None:
        self.refused = refused


@dataclass(slots=True)
class _Work:
    """The pieces to write for a group, and the rows to write instead of refused ones. `unknown`
    are the keys of all rows that the database has to compare first."""

    pieces: list[Piece]
    earlier: dict[int, Piece] = field(default_factory=dict)  # by row: the one before it, same key
    unknown: Piece | None = None


class _Commit(NamedTuple):
    """A batch that is being committed, and its refused rows."""

    transaction_id: str
    records: Records
    refused: Failed


class _Made(NamedTuple):
    """A piece, its layout, and its cells before encoding."""

    piece: Piece
    layout: Layout
    cells: list[Cells]


class JdbcWriter(SinkWriter):
    """Writes the records of one task. Connects for the first ones, and after failures."""

    def __init__(
        self, database: Database, dialect: Dialect, settings: WriteSettings, context: SinkContext
    ) -> None:
        self._context = context
        self._database = database
        self._dialect = dialect
        self._settings = settings
        table = settings.offsets
        self._offsets = None if table is None else OffsetsTable(dialect, table, settings.connector)
        self._topic_ids: dict[str, str | None] = {}
        self._layouts: Layouts | None = None  # owns the connection
        self._retries = settings.max_retries
        self._not_before = 0.0
        self._committing: _Commit | None = None  # whose outcome is unknown

    def write(self, records: Records, failed: Failed) -> None:
        if not len(records):
            return
        wait_s = self._not_before - time.monotonic()
        if wait_s > 0:
            self._context.wait(wait_s)
        try:
            written = self._already_written(records)
            refused = self._write_batch(records) if written is None else written
        except _RolledBack as rolled_back:
            refused = rolled_back.refused
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

    def _write_batch(self, records: Records) -> Failed:
        """Writes a batch; returns the refused rows."""
        try:
            return self._try_batch(records)
        except (DatabaseRefused, TableMismatch):
            if self._layouts is None or not self._layouts.may_be_stale:
                raise
            # Perhaps the table was altered or re-created since it was looked up.
            self.close()
            return self._try_batch(records)
        except RowRefused:
            # A deferred constraint: check it with each statement, to find the rows.
            return self._try_batch(records, immediate=True)

    def _try_batch(self, records: Records, *, immediate: bool = False) -> Failed:
        layouts = self._connected()
        connection = layouts.connection
        refused: Failed = {}
        work = [
            self._work(layouts, records, group, refused)
            for group in groups(records, self._settings)
        ]
        layouts.may_be_stale, may_be_stale = True, layouts.may_be_stale
        mismatched = any(isinstance(error, TableMismatch) for error in refused.values())
        if may_be_stale and mismatched:
            raise TableMismatch("the table may have been altered since")
        offsets = self._offsets
        with connection.transaction():
            if immediate:
                self._dialect.check_at_once(connection)
            done: set[int] = set()
            if offsets is not None:
                # Where they were read: transforms may give records of two topics the same one.
                originals = [records.original(row) for row in range(len(records))]
                ids = {at: self._topic_id(at.topic) for at in set(originals)}
                next_by_partition = offsets.read(connection, ids)
                done = below(originals, records.offsets, next_by_partition)
                if done:
                    # Was the topic created again since the task asked for its id?
                    self._topic_ids.clear()
                    ids = {at: self._topic_id(at.topic) for at in ids}
                    next_by_partition = offsets.read(connection, ids)
                    done = below(originals, records.offsets, next_by_partition)
                if done:
                    log.warning(
                        "Skipping %d records of %s that are written according to table %s. If "
                        "offsets were set without the REST API, set the connector's offsets with "
                        "PATCH /connectors/%s/offsets",
                        len(done),
                        ", ".join(sorted({f"{originals[row]}" for row in done})),
                        offsets.table,
                        offsets.connector,
                    )
            for group_work in work:
                group_work = self._compared(connection, group_work, refused)
                for piece in group_work.pieces:
                    self._write_piece(connection, piece, group_work.earlier, refused, done)
            if offsets is not None:
                for row in done & refused.keys():
                    del refused[row]  # already reported when it was first written
                for topic_partition, offset in zip(originals, records.offsets, strict=True):
                    reached = max(offset + 1, next_by_partition[topic_partition])
                    next_by_partition[topic_partition] = reached
                offsets.store(connection, ids, next_by_partition)
            named = {row: self._named(records, row, error) for row, error in refused.items()}
            if named and not self._context.tolerates_errors:
                raise _RolledBack(named)
            if offsets is None and self._settings.write is Write.INSERT:
                # What follows is the COMMIT, whose outcome is unknown if the connection is lost.
                number = connection.transaction_id()
                self._committing = None if number is None else _Commit(number, records, named)
        self._committing = None
        return named

    def _already_written(self, records: Records) -> Failed | None:
        """The refused rows of a batch whose connection was lost during its COMMIT, if that took
        place; None: write it."""
        lost = self._committing
        if lost is None:
            return None
        committed = self._connected().connection.was_committed(lost.transaction_id)
        self._committing = None
        if not committed:
            return None
        rows = {
            (lost.records.original(row), offset): row
            for row, offset in enumerate(lost.records.offsets)
        }
        again = [
            rows.get((records.original(row), offset)) for row, offset in enumerate(records.offsets)
        ]
        if None in again:
            return None  # other records: those of the lost batch are no longer this task's
        log.info("The connection was lost during a COMMIT that took place; not writing it again")
        return {at: lost.refused[row] for at, row in enumerate(again) if row in lost.refused}

    def _connected(self) -> Layouts:
        if self._layouts is None or not self._layouts.connection.is_open:
            self._layouts = None
            connection = self._database.connect()
            try:
                self._dialect.session(connection)
                if self._offsets is not None:
                    # Here, not in `open`, so that retries cover a database that is unreachable.
                    self._offsets.create(connection)
            except BaseException:
                connection.close()
                raise
            self._layouts = Layouts(connection, self._dialect, self._settings)
        return self._layouts

    def _named(self, records: Records, row: int, error: Exception) -> Exception:
        """The error, with its record in the message."""
        if not isinstance(error, RowRefused):
            return error
        reason = (
            "the database's message is omitted (trim.sensitive.log)"
            if self._settings.trims_errors
            else str(error)
        )
        topic = records.topics[row]
        table = self._settings.table_of(topic)
        return RowRefused(
            f"Table {table} rejected the record at topic='{topic}', "
            f"partition={records.partitions[row]}, offset={shown_offset(records, row)}: {reason}"
        )

    def _work(self, layouts: Layouts, records: Records, group: Group, refused: Failed) -> _Work:
        """The work for a group; rows that cannot be written go into `refused`."""
        values = [row for row in group.rows if row not in group.deletes]
        deletes = [row for row in group.rows if row in group.deletes]
        made: list[_Made] = []
        for rows, write in ((values, self._settings.write), (deletes, Write.DELETE)):
            if not rows:
                continue
            of_kind = self._made(layouts, records, group, rows, write, refused)
            if of_kind is not None:
                made.append(of_kind)
        pieces = [each.piece for each in made]
        if self._settings.write is Write.INSERT or not made:
            return _Work(pieces)
        for each in made:
            each.piece.keys = each.layout.keys_of(each.cells)
        if all(piece.keys is not None for piece in pieces):
            return self._thinned(_Work(pieces))
        ambiguous = made[0].layout.is_ambiguous
        if ambiguous or self._dialect.sequential:
            return _Work(in_order(pieces, singly=ambiguous))
        keys = made[0].layout.key_segment
        layouts.prepare_keys(keys)
        encoded = [each.layout.encoded_keys(each.cells) for each in made]
        columns = [[cell for part in key for cell in part] for key in zip(*encoded, strict=True)]
        rows = [row for piece in pieces for row in piece.rows]
        return _Work(pieces, unknown=Piece(keys, columns, rows))

    def _thinned(self, work: _Work) -> _Work:
        """The work without rows that later ones with the same key override."""
        together = self._settings.write is Write.UPSERT
        return _Work(last_ones(work.pieces, work.earlier, together=together), work.earlier)

    def _compared(self, connection: Connection, work: _Work, refused: Failed) -> _Work:
        """The work, with keys as the database compares them; those it cannot have go into
        `refused`."""
        if work.unknown is None:
            return work
        firsts = self._firsts(connection, work.unknown, refused)
        pieces = [
            piece.only([at for at, row in enumerate(piece.rows) if row in firsts])
            for piece in work.pieces
        ]
        for piece in pieces:
            piece.keys = [firsts[row] for row in piece.rows]
        return self._thinned(_Work([piece for piece in pieces if piece.rows]))

    def _firsts(self, connection: Connection, keys: Piece, refused: Failed) -> dict[int, int]:
        """The first row with the same key for each row, by row; finds keys that the database
        refuses by halving."""
        rows = keys.rows
        try:
            with connection.savepoint():
                groups = self._dialect.equal_keys(connection, keys.segment, keys.columns)
        except RowRefused as error:
            if len(rows) == 1:
                refused[rows[0]] = error
                return {}
            middle = len(rows) // 2
            for part in (keys.part(0, middle), keys.part(middle, len(rows))):
                self._firsts(connection, part, refused)
            good = keys.only([at for at, row in enumerate(rows) if row not in refused])
            if len(good.rows) == len(rows):
                raise
            return self._firsts(connection, good, refused) if good.rows else {}
        firsts = dict(zip(rows, rows, strict=True))
        for group in groups:
            firsts.update((rows[at], rows[min(group)]) for at in group)
        return firsts

    def _made(
        self,
        layouts: Layouts,
        records: Records,
        group: Group,
        rows: list[int],
        write: Write,
        refused: Failed,
    ) -> _Made | None:
        good = usable(records, group, rows, write, self._settings, refused)
        if not good:
            return None
        schema = None if write is Write.DELETE else group.value
        layout = layouts.of(group.table, group.key, schema, write)
        if isinstance(layout, PenstockError):
            refused.update(dict.fromkeys(good, layout))
            return None
        columns: list[Cells] = []
        plain: list[Cells] = []
        bad: dict[int, Exception] = {}
        for at, (source, encode) in enumerate(zip(layout.sources, layout.encoders, strict=True)):
            bad_cells: dict[int, Exception] = {}
            cells = cells_of(records, source, good, bad_cells)
            if at in layout.segment.keys and self._settings.key_mode is not KeyMode.NONE:
                for index, cell in enumerate(cells) if None in cells else ():
                    if cell is None:
                        bad_cells[index] = DataError("it is null, but part of the primary key")
            plain.append(cells)
            columns.append(encode(cells, bad_cells))
            for index, error in bad_cells.items():
                cell_shown = f"{layout.shown(at)}, {shown_place(records, good[index])}"
                bad[index] = DataError(f"The value for {cell_shown} cannot be written: {error}")
        if bad:
            refused.update({good[index]: error for index, error in bad.items()})
            kept = [index for index in range(len(good)) if index not in bad]
            good = [good[index] for index in kept]
            plain, columns = (
                [[cells[index] for index in kept] for cells in either]
                for either in (plain, columns)
            )
        if not good:
            return None
        return _Made(Piece(layout.segment, columns, good), layout, plain)

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
        max_rows = self._settings.batch_rows or max(1, len(piece.rows))
        if piece.segment.singly:
            max_rows = 1
        for start in range(0, len(piece.rows), max_rows):
            self._by_halves(connection, piece.part(start, start + max_rows), refused)
        for row in [row for row in piece.rows if row in refused and row in earlier]:
            self._write_piece(connection, earlier[row], earlier, refused, done)

    def _by_halves(self, connection: Connection, piece: Piece, refused: Failed) -> None:
        """Writes the rows; finds those that the database refuses by halving."""
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

    def _topic_id(self, topic: str) -> str | None:
        if topic not in self._topic_ids:
            self._topic_ids[topic] = self._context.topic_id(topic)
        return self._topic_ids[topic]
