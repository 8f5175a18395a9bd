"""Writes the records of one sink task into files.

A span has the records of one topic partition of Kafka, and a file for each topic that transforms
route them to and each folder. Its files are open until a cut completes them (`boundaries.spans`),
then a few threads store them while the next ones are written. Offsets are committed up to the last
cut before the first file that is not stored.

Where files end by the clock (`rotate.schedule.interval.ms`), a task that takes over from another
one may find files of the same names that end elsewhere. If the store knows where they end, the task
returns to its last cut and skips the records that these files hold.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from penstock.api import (
    Backoff,
    DataError,
    Failed,
    Records,
    SinkContext,
    SinkWriter,
    TopicPartition,
    is_transient,
)
from penstock.connectors.files.boundaries.paths import Contents, to_local
from penstock.connectors.files.boundaries.spans import (
    EMPTY,
    Add,
    Cut,
    Place,
    Span,
    SpanFile,
    advance,
    is_due,
    is_over,
)
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.stores.store import (
    Claim,
    FileExists,
    FileLost,
    Origin,
    Store,
    StoreRefused,
    StoreUnavailable,
)
from penstock.connectors.files.write.files import OpenFiles, Storing
from penstock.connectors.files.write.plan import Clock, SinkPlan
from penstock.connectors.files.write.rows import RowReader, without_stored

log = logging.getLogger(__name__)

_THREADS: Final = 8
_SPANS: Final = 8  # stored at once for one topic partition, before its task waits
_IDLE_MS: Final = 1_000
_LOST: Final = Backoff(200, 3_000)  # before the records of a lost file are read again
_HELD_BYTES: Final = 128 << 20  # held by the formats of all open files of a task


@dataclass(slots=True)
class _Partition:
    """The files of one topic partition."""

    topic_partition: TopicPartition
    span: Span = EMPTY
    open: dict[Place, OpenFiles | DataError] = field(default_factory=dict)
    storing: deque[Storing] = field(default_factory=deque)
    stored: int | None = None  # the last cut before which all files are stored
    next: int = 0  # the offset after the last record
    begin: int = 0  # the offset that the assignment began with
    claim: Claim | None = None
    losses: int = 0  # lost files since one was stored
    unclaimed: bool = False  # the store claims partitions, but not this one yet
    back_at: int | None = None  # the offset it went back to, until records arrive from there
    others: dict[Place, int] = field(default_factory=dict)
    """The last offsets of files that other tasks have stored."""
    last_of_others: int = -1
    """The greatest of them. No offset up to there is committed: a task that began there would not
    find these files by their names."""
    revoked: bool = False
    is_incomplete: bool = False  # its open files lack a refused record

    def note_stored(self, cut: int) -> None:
        """Notes that all files up to a cut are stored."""
        if cut > self.last_of_others:
            self.stored = cut
            self.others = {}

    @property
    def is_empty(self) -> bool:
        """Whether everything that was written is stored."""
        return not self.storing and not self.span.count and not self.is_incomplete


class FileWriter(SinkWriter):
    """Writes a task's records into files of a store."""

    takes_fields = True

    def __init__(
        self,
        plan: SinkPlan,
        store: Store,
        context: SinkContext,
        now: Callable[[], int],
    ) -> None:
        """`now` returns ms since the epoch."""
        self._plan = plan
        self._store = store
        self._context = context
        self._now = now
        self._reader = RowReader(plan)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="files")
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._failure: Exception | None = None
        self._formats: list[tuple[str, Format]] = [("values", plan.values)]
        if plan.keys is not None:
            self._formats.append(("keys", plan.keys))
        if plan.headers is not None:
            self._formats.append(("headers", plan.headers))
        self._closes_when_idle = plan.clock is Clock.WALL and plan.rules.interval_ms is not None
        if plan.rules.schedule_ms is not None or self._closes_when_idle or store.claims:
            self.idle_ms = _IDLE_MS

    def write(self, records: Records, failed: Failed) -> None:
        if len(records):
            with self._failing():
                self._write(records, failed)

    def _write(self, records: Records, failed: Failed) -> None:
        # Errors of the store are raised before anything is written, not halfway.
        topic_partition = records.original(0)
        partition = self._partitions.get(topic_partition)
        if partition is None:
            partition = self._partitions[topic_partition] = _Partition(topic_partition)
        partition.back_at = None
        if partition.unclaimed and self._claim([partition]):
            return  # the consumer was moved; records that are needed are delivered again
        if records.offsets[0] < partition.next:
            self._begin_again(partition, records.offsets[0])
        try:
            self._settle(partition)
        except FileLost as lost:
            self._read_again(partition, lost)
            return
        if self._goes_back(partition):
            return
        now = self._now()
        accepted = self._reader.read(records, now, failed, lambda row: self._ignore(row, failed))
        if partition.others:
            accepted = without_stored(accepted, partition.others)
        batch_rows = accepted.batch_rows
        span, actions, refused = advance(
            self._plan.rules, partition.span, accepted.rows, self._local(now)
        )
        bad: Failed = {row: DataError(reason) for row, reason in refused.items()}
        for action in actions:
            match action:
                case Add(file, rows):
                    if self._plan.latest_only:
                        self._write_latest(partition, file, accepted.records, rows, bad)
                        continue
                    opened = self._opened(partition, file)
                    if isinstance(opened, DataError):
                        bad.update(dict.fromkeys(rows, opened))
                    else:
                        opened.write(accepted.records, rows, bad)
                case Cut(offset):
                    if self._ends_with_the_task(
                        offset,
                        [records.offsets[row] for row in failed],
                        [accepted.records.offsets[row] for row in bad],
                    ):
                        partition.is_incomplete = True
                        break
                    self._cut(partition, offset)
        partition.span = span
        self._limit_memory()
        partition.next = records.offsets[-1] + 1
        for row, error in bad.items():
            failed[row if batch_rows is None else batch_rows[row]] = error

    def _ends_with_the_task(self, offset: int, *refused: Sequence[int]) -> bool:
        """Whether files up to this offset must not be stored, because the task is about to fail for
        a refused record among them, and the next one takes the last offset of a file as proof that
        it holds the records before."""
        if self._context.tolerates_errors or not (self._store.claims or self._plan.create_only):
            return False
        return any(each < offset for offsets in refused for each in offsets)

    def _write_latest(
        self,
        partition: _Partition,
        file: SpanFile,
        records: Records,
        rows: Sequence[int],
        bad: Failed,
    ) -> None:
        """Replaces a file by one with the last of these rows that is accepted."""
        older = partition.open.pop(file.place, None)
        for row in reversed(rows):
            opened = self._opened(partition, file)
            refused: Failed = {}
            if isinstance(opened, DataError):
                refused[row] = opened
            else:
                opened.write(records, [row], refused)
            if not refused:
                if isinstance(older, OpenFiles):
                    older.drop()
                return
            bad.update(refused)
            del partition.open[file.place]
            if isinstance(opened, OpenFiles):
                opened.drop()
        if older is not None:
            partition.open[file.place] = older

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Keeps an error that a retry does not help: records may be in no file, so no later flush
        succeeds."""
        try:
            yield
        except Exception as error:
            if not is_transient(error):
                self._failure = error
            raise

    def idle(self) -> None:
        with self._failing():
            self._idle()

    def _idle(self) -> None:
        now = self._now()
        local = self._local(now)
        self._claim_unclaimed()
        for partition in self._partitions.values():
            if partition.revoked or partition.is_incomplete or self._goes_back(partition):
                continue
            due = is_due(self._plan.rules, partition.span, local)
            if self._closes_when_idle:
                due = due or is_over(self._plan.rules, partition.span, now)
            if due:
                self._cut(partition, partition.next)
                partition.span = EMPTY

    def flush(self) -> None:
        if self._failure is not None:
            raise self._failure
        with self._failing():
            self._flush()

    def _flush(self) -> None:
        for partition in self._partitions.values():
            self._goes_back(partition)
        if self._plan.cut_on_flush:
            for partition in self._partitions.values():
                if partition.span.count and not partition.revoked:
                    self._cut(partition, partition.next)
                    partition.span = EMPTY
        self._retry()
        # No file is being stored when an error is raised, so the next try covers all of them.
        for partition in self._partitions.values():
            for storing in partition.storing:
                storing.wait_for_all()
        for partition in self._partitions.values():
            if self._goes_back(partition):
                continue
            try:
                self._take_stored(partition, wait_for=0)
            except FileLost as lost:
                self._read_again(partition, lost)

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        allowed: dict[TopicPartition, int] = {}
        for topic_partition, offset in reached.items():
            partition = self._partitions.get(topic_partition)
            if partition is None:
                allowed[topic_partition] = offset
                continue
            if partition.unclaimed:
                continue
            self._take_stored(partition, wait_for=None)
            if partition.back_at is not None:
                # A greater offset may still be from before the consumer went back.
                allowed[topic_partition] = min(offset, partition.back_at)
                if offset <= partition.back_at:
                    partition.back_at = None
            elif partition.is_empty and offset > partition.last_of_others:
                partition.note_stored(offset)  # the same as a cut
                allowed[topic_partition] = offset
                if partition.claim is not None:
                    with suppress(StoreUnavailable):  # then they are read and skipped again
                        partition.claim.note(offset)
            elif partition.stored is not None:
                allowed[topic_partition] = partition.stored
        return allowed

    def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
        for topic_partition, offset in partitions.items():
            self._drop(topic_partition)
            self._partitions[topic_partition] = _Partition(
                topic_partition, next=offset, begin=offset, unclaimed=self._store.claims
            )
        self._claim_unclaimed()

    def revoked(self, partitions: frozenset[TopicPartition], *, lost: bool) -> None:
        for topic_partition in partitions:
            if lost:
                self._drop(topic_partition)
                self._partitions.pop(topic_partition, None)
            elif (partition := self._partitions.get(topic_partition)) is not None:
                # The next owner writes these records again. The span still holds back offsets.
                partition.revoked = True
                self._drop_open(partition)
                if partition.claim is not None and not partition.storing:
                    partition.claim.release()

    def close(self) -> None:
        for topic_partition in list(self._partitions):
            self._drop(topic_partition)
        for partition in self._partitions.values():
            if partition.claim is not None:
                partition.claim.release()
        self._partitions = {}
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._store.close()

    def _opened(self, partition: _Partition, file: SpanFile) -> OpenFiles | DataError:
        """The open file, created if necessary; or the error that prevents it."""
        opened = partition.open.get(file.place)
        if opened is None:
            source, number = partition.topic_partition
            topic = self._plan.named(file.topic)
            if file.topic == source or (self._plan.one_topic and not self._plan.naming.has_end):
                source = ""
            # Tombstones have no value to be written.
            formats = self._formats[1:] if file.tombstones else self._formats
            try:
                opened = OpenFiles(
                    self._store.create if partition.claim is None else partition.claim.create,
                    file.schemas,
                    formats,
                    partial(
                        self._plan.naming.path,
                        Contents(topic, file.folder, number, file.start, source),
                    ),
                    self._plan.shape,
                    create_only=self._plan.create_only,
                    origin=self._origin(partition),
                )
            except DataError as error:
                opened = error
            partition.open[file.place] = opened
        return opened

    def _origin(self, partition: _Partition) -> Origin:
        connector = self._context.task.connector
        topic, number = partition.topic_partition
        lineage = self._context.lineage(partition.topic_partition)
        return Origin(f"{connector}/{topic}/{number}", lineage)

    def _cut(self, partition: _Partition, offset: int) -> None:
        """Completes all open files."""
        files = []
        for place, opened in partition.open.items():
            if isinstance(opened, DataError):
                continue
            if opened.rows:
                files += [(place, file) for file in opened.finish()]
            else:
                opened.drop()
        partition.open = {}
        before = partition.storing[-1] if partition.storing else None
        publish = None if partition.claim is None else partition.claim.publish
        partition.storing.append(Storing(offset, files, self._pool, publish, before))
        self._begin(partition)

    def _begin(self, partition: _Partition) -> None:
        """Starts storing spans: all at once, but one after the other where files of other writers
        have to be noticed, since that works for the first span only, and where a later span may
        replace files of an earlier one."""
        for storing in partition.storing:
            storing.begin()
            if self._plan.create_only or self._plan.latest_only or storing.replaces:
                return

    def _goes_back(self, partition: _Partition) -> bool:
        """Whether another task has stored files of the same names. If so, returns to the last cut
        and notes which records to skip."""
        others: dict[Place, int] = {}
        for storing in partition.storing:
            others |= storing.ends_of_others()
        if not others:
            return False
        offset = partition.begin if partition.stored is None else partition.stored
        log.info(
            "Going back to offset %d of %s: another task has already stored files from there on",
            offset,
            partition.topic_partition,
        )
        self._drop(partition.topic_partition)
        for place, end in others.items():
            partition.others[place] = max(end, partition.others.get(place, end))
            partition.last_of_others = max(end, partition.last_of_others)
        partition.span = EMPTY
        partition.next = partition.back_at = offset
        if not partition.revoked:
            self._context.seek({partition.topic_partition: offset})
        return True

    def _claim_unclaimed(self) -> None:
        """Claims the partitions that are not claimed yet. If the store does not answer, `write` and
        `idle` retry."""
        unclaimed = [partition for partition in self._partitions.values() if partition.unclaimed]
        if unclaimed:
            try:
                self._claim(unclaimed)
            except StoreUnavailable as error:
                log.warning("Cannot claim %d partitions yet: %s", len(unclaimed), error)

    def _claim(self, partitions: Sequence[_Partition]) -> bool:
        """Claims partitions and moves the consumer to the offsets that the store knows. Returns
        whether any differs from the next one."""
        claimed = self._store.claim([partition.topic_partition for partition in partitions])
        offsets = {}
        for partition in partitions:
            claim = partition.claim = claimed[partition.topic_partition]
            partition.unclaimed = False
            begin = partition.begin if claim.next is None else claim.next
            if begin != partition.next:
                log.info(
                    "%s continues at offset %d, after its stored files, not at %d",
                    partition.topic_partition,
                    begin,
                    partition.next,
                )
                offsets[partition.topic_partition] = partition.next = partition.back_at = begin
        if offsets:
            self._context.seek(offsets)
        return bool(offsets)

    def _begin_again(self, partition: _Partition, offset: int) -> None:
        """Goes back with the records: their topic was created again. What was written is still
        stored, but says nothing about the offsets from now on."""
        if partition.claim is not None:
            raise StoreRefused(
                f"{partition.topic_partition} begins again at offset {offset}, but its files go up "
                f"to offset {partition.next - 1}: the topic was created again. Move its files away "
                "and remove its folder in logs.dir, then restart the task."
            )
        log.warning(
            "%s begins again at offset %d, not at %d: the topic was created again",
            partition.topic_partition,
            offset,
            partition.next,
        )
        if partition.span.count:
            self._cut(partition, offset)
        for storing in partition.storing:
            storing.replace_others(offset)
        partition.span = EMPTY
        partition.next = partition.begin = offset
        partition.stored = None
        partition.others = {}
        partition.last_of_others = -1

    def _read_again(self, partition: _Partition, error: FileLost) -> None:
        """Reads a partition again after its last stored file, since an open file is lost."""
        log.warning("Writing the records of %s again: %s", partition.topic_partition, error)
        partition.losses += 1
        self._context.wait(_LOST.delay_ms(partition.losses) / 1000)
        self._drop(partition.topic_partition)
        partition.span = EMPTY
        if not self._store.claims:
            offset = partition.begin if partition.stored is None else partition.stored
            partition.next = partition.back_at = offset
            if not partition.revoked:
                self._context.seek({partition.topic_partition: offset})
            return
        partition.stored = None
        partition.claim = None
        partition.unclaimed = True
        partition.next = -1  # unknown until it is claimed
        self._claim_unclaimed()

    def _limit_memory(self) -> None:
        """Makes formats write what they hold, the largest first, down to half of the limit."""
        opened = [
            files
            for partition in self._partitions.values()
            for files in partition.open.values()
            if isinstance(files, OpenFiles)
        ]
        held = sum(files.held_bytes for files in opened)
        if held <= _HELD_BYTES:
            return
        for files in sorted(opened, key=lambda files: -files.held_bytes):
            held -= files.held_bytes
            files.relieve()
            if held <= _HELD_BYTES // 2:
                return

    def _settle(self, partition: _Partition) -> None:
        """Passes held bytes to the store, and waits while too many spans are being stored."""
        if len(partition.storing) > _SPANS:
            self._retry()
        self._take_stored(partition, wait_for=_SPANS)
        for opened in partition.open.values():
            if isinstance(opened, OpenFiles):
                opened.settle()

    def _retry(self) -> None:
        for partition in self._partitions.values():
            for storing in partition.storing:
                storing.retry()

    def _take_stored(self, partition: _Partition, wait_for: int | None) -> None:
        """Notes the spans that are stored. Waits until at most `wait_for` spans are not."""
        storing = partition.storing
        while storing:
            if wait_for is not None and len(storing) > wait_for:
                try:
                    storing[0].wait()
                except FileExists:
                    return  # see `_goes_back`
            elif not storing[0].is_stored:
                return
            partition.note_stored(storing.popleft().offset)
            partition.losses = 0
            self._begin(partition)

    def _drop_open(self, partition: _Partition) -> None:
        for opened in partition.open.values():
            if isinstance(opened, OpenFiles):
                opened.drop()
        partition.open = {}

    def _drop(self, topic_partition: TopicPartition) -> None:
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            self._drop_open(partition)
            while partition.storing:
                partition.storing.popleft().drop()

    def _ignore(self, row: int, failed: Failed) -> None:
        """Leaves out a record without a value, and reports it if that is configured."""
        if self._plan.report_nulls and self._context.tolerates_errors:
            failed[row] = DataError(
                "The record has no value, and behavior.on.null.values is 'ignore'"
            )

    def _local(self, now: int) -> int:
        return to_local(now, self._plan.zone) if self._plan.rules.schedule_ms else now
