"""A source task: plans what to read next, has it read, converted and produced by its query, and
stores how far it got.

At least once, the Python stage produces, and the positions are stored after each range. Exactly
once, a range is a transaction (KIP-618): the stage converts, and one transactional producer, made
when the task starts and never again, sends records and positions together. It lives here, with
the task, and not in Spark's Python workers, which come and go: a producer that was fenced by the
task's next owner must not be replaced by a new one of the old owner.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from confluent_kafka import KafkaException

from penstock.api import Offsets, SourceReader
from penstock.flow.engine import IDLE_S, BatchDone, Query, Report, readable
from penstock.flow.failures import Failures, TaskFailed
from penstock.flow.pipeline import Backoff, retriable
from penstock.flow.plan import Boundary, SourcePlan
from penstock.flow.ranges import Range, Ranges
from penstock.flow.sending import Sending
from penstock.flow.stage import (
    CONVERTED_DDL,
    RESULT_DDL,
    ConvertStage,
    SourceStage,
    report_refused,
    unpacked,
)
from penstock.ids import TaskId
from penstock.logs import about

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

BATCH_BYTES: Final = 1 << 25
"""About how much one range holds: large enough to be fast, small enough to stop soon."""

_MOST_PLANNED: Final = 2
"""Ranges planned: the one Spark works on, and the next. Spark is given one at a time, for what it
finds there is done side by side, and ranges are to be done in order."""

_LOOK_S: Final = 1.0  # how often a busy task looks whether its query is alive
_AGAIN_MAX_MS: Final = 10_000

_INIT_S: Final = 60
_END_S: Final = 60
_ABORT_S: Final = 10

Begin = Callable[[], Offsets]
"""Where a task starts reading. Called once nothing that ran before can write any more; raises when
the task must not start after all."""

Encode = Callable[[Offsets], Sequence[tuple[bytes, bytes | None]]]
"""Positions as records of the offsets topic."""


class SourceQuery(Query):
    """Reads, converts and produces the ranges it is given; `done` is told, in their order, how many
    rows of them are where they go."""

    def __init__(
        self,
        spark: SparkSession,
        plan: SourcePlan,
        done: Callable[[int], None],
        report: Report,
    ) -> None:
        super().__init__(spark, plan.task, plan.run)
        self._plan = plan
        self._done = done
        self._report = report
        self.ranges = Ranges(spark)

    def frame(self, checkpoint: Path) -> DataFrame:
        return self.ranges.frame().mapInArrow(SourceStage(self._plan), RESULT_DDL)

    def after(self, checkpoint: Path, batch: int, rows: Any) -> None:
        self._done(sum(row.rows for row in rows))
        self._report(batch_done(self._plan.task, self._plan.run, rows, self.batch_ms))


class ExactlyOnceQuery(SourceQuery):
    """Records and positions of a batch reach Kafka together or not at all; `encode` makes the
    records that store the position a number of rows reaches."""

    def __init__(
        self,
        spark: SparkSession,
        plan: SourcePlan,
        sending: Sending,
        encode: Callable[[int], Sequence[tuple[bytes, bytes | None]]],
        done: Callable[[int], None],
        report: Report,
    ) -> None:
        super().__init__(spark, plan, done, report)
        assert plan.transactions is not None
        self._offsets_topic = plan.transactions.offsets_topic
        self._encode = encode
        self._sending = sending
        self._failures = Failures(plan.task, plan.tolerance)

    def frame(self, checkpoint: Path) -> DataFrame:
        return self.ranges.frame().mapInArrow(ConvertStage(self._plan), CONVERTED_DDL)

    def take(self, frame: DataFrame, checkpoint: Path, batch: int) -> pa.Table:
        return frame.toArrow()

    def after(self, checkpoint: Path, batch: int, rows: pa.Table) -> None:
        records = unpacked(rows.filter(rows.column("topic").is_valid()))
        told = rows.filter(rows.column("topic").is_null()).column("value").to_pylist()
        counts = [orjson.loads(cell) for cell in told]
        done = sum(count["rows"] for count in counts)
        failed = sum(count["failed"] for count in counts)
        aborted = any(count["aborted"] for count in counts)
        topics: set[str] = set()
        sent = lost = 0
        producer = self._sending.producer
        try:
            producer.begin_transaction()
            if self._offsets_topic in records.topics:
                raise TaskFailed(
                    "Source tasks may not produce to their own offsets topics when exactly-once "
                    f"support is enabled ('{self._offsets_topic}')"
                )
            if not aborted:
                topics = self._sending.send(records)
                refused = self._sending.flush()
                if refused:
                    report_refused(self._plan, self._failures, refused)
                    lost = self._failures.flush()
                failed += len(refused)
                sent = len(records) - len(refused)
            for key, value in self._encode(done):
                producer.produce(self._offsets_topic, value, key)
            self._sending.flush()
            producer.commit_transaction(_END_S)
        except (KafkaException, SystemError) as error:  # the latter when a callback met the former
            self._abort()
            raise cannot(self._plan, "finish writing records to Kafka", error) from error
        except BaseException:
            self._abort()
            raise
        self._done(done)
        self._report(
            BatchDone(
                self._plan.task,
                self._plan.run,
                records=sum(count["records"] for count in counts),
                done=sent,
                failed=failed,
                topics=dict.fromkeys(topics, 1),
                ms=self.batch_ms,
                retries=sum(count["retries"] for count in counts),
                lost=lost + sum(count["lost"] for count in counts),
            )
        )

    def _abort(self) -> None:
        """Ends the open transaction, so that consumers need not wait for its time-out. Fenced or
        cut off, it ends without us."""
        try:
            self._sending.producer.purge()
            self._sending.producer.abort_transaction(_ABORT_S)
        except (KafkaException, SystemError, AttributeError) as error:  # or there is none any more
            log.info("the open transaction was not aborted: %s", error)


class SourceTask:
    """Plans in a thread of its own from `start` to `stop`.

    `committed` gets the position after each range whose records are acknowledged; when it returns
    the position is stored. Exactly once, `encode` makes the records that store it instead. `failed`
    is called with a trace when the task has ended because it could not go on.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: SourcePlan,
        begin: Begin,
        committed: Callable[[Offsets], None],
        encode: Encode,
        failed: Callable[[str], None],
        report: Report,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._begin = begin
        self._committed = committed
        self._encode = encode
        self._failed = failed
        self._report = report
        self._sending: Sending | None = None
        self._query: SourceQuery | None = None  # none while there is nothing to read
        self._reader: SourceReader
        self._turn = threading.Condition()  # guards the open ranges
        self._open: deque[_Open] = deque()  # the first one is with Spark
        self._stopping = threading.Event()
        run = about(plan.task)(self._run)
        self._thread = threading.Thread(target=run, name=f"source-{plan.task}", daemon=True)

    def start(self) -> None:
        """Returns when planning begins; raises what stands against it."""
        plan = self._plan
        if plan.transactions is not None:
            self._sending = Sending(plan)
        try:
            if self._sending is not None:
                try:
                    self._sending.producer.init_transactions(_INIT_S)
                except (KafkaException, SystemError) as error:
                    raise cannot(plan, "be given its transactional id", error) from error
            self._planned = self._begin()
            self._reader = plan.connector().open(plan.config)
        except BaseException:
            self._let_go()
            raise
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Finishes the batch in hand; False if it was cut off."""
        deadline = time.monotonic() + timeout_s
        self._stopping.set()
        with self._turn:
            self._turn.notify_all()
        in_time = self._end_query(timeout_s)
        self._thread.join(max(_LOOK_S, deadline - time.monotonic()))
        self._end_query(0)  # one that was being started meanwhile
        self._let_go()
        return in_time

    @property
    def progress(self) -> Mapping[str, Any]:
        """See `Query.progress`; empty while there is no query."""
        query = self._query
        return query.progress if query is not None else {}

    def _end_query(self, timeout_s: float) -> bool:
        query, self._query = self._query, None
        return query is None or query.stop(timeout_s)

    def _let_go(self) -> None:
        if self._sending is not None:
            self._sending.close()

    # ── planning ─────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        trace: str | None = None
        try:
            trace = self._loop()
        except BaseException as error:
            trace = readable(error)
        if trace is not None and not self._stopping.is_set():
            self._end_query(0)
            self._let_go()
            self._failed(trace)

    def _loop(self) -> str | None:
        """Plans until the task is stopped, or until its query fails; then its trace."""
        last = time.monotonic()
        while not self._stopping.is_set():
            query = self._query
            if query is not None and not query.alive and not self._stopping.is_set():
                return query.ended()
            with self._turn:
                if len(self._open) >= _MOST_PLANNED:
                    self._turn.wait(_LOOK_S)
                    continue
            end = self._latest(self._planned)
            if end == self._planned or not self._is_due(end, last):
                if query is not None and not self._open and query.idle_s > IDLE_S:
                    self._end_query(0)
                self._stopping.wait(self._reader.idle_ms / 1000)
                continue
            if self._open and self._latest(end) == end:
                # What comes until the range in hand is done is better read together with this.
                with self._turn:
                    self._turn.wait_for(self._is_free, _LOOK_S)
                continue
            last = time.monotonic()
            self._add(end)
        return None

    def _is_free(self) -> bool:
        return not self._open or self._stopping.is_set()

    def _latest(self, start: Offsets) -> Offsets:
        """Where the next range ends; asked again and again while what is read is away, unless the
        query has failed meanwhile: then there is nothing to say."""
        boundary = self._plan.transactions and self._plan.transactions.boundary
        most = sys.maxsize if boundary is Boundary.CONNECTOR else BATCH_BYTES
        backoff = Backoff(-1, _AGAIN_MAX_MS, self._stopping.wait)
        while True:
            try:
                return self._reader.latest(start, most)
            except Exception as error:
                if not retriable(error) or self._stopping.is_set():
                    raise
                if self._query is not None and not self._query.alive:
                    return start
                log.warning("there is nothing to read for now: %s", error)
                backoff.again()

    def _is_due(self, end: Offsets, last: float) -> bool:
        """Whether a transaction up to `end` may begin. By `interval`, its time has come, or it is
        full, so that waiting would only make it late."""
        transactions = self._plan.transactions
        if transactions is None or transactions.boundary is not Boundary.INTERVAL:
            return True
        if time.monotonic() - last >= transactions.interval_ms / 1000:
            return True
        return self._reader.latest(end, 1) != end

    def _add(self, end: Offsets) -> None:
        parts = [Range(*part) for part in self._reader.parts(self._planned, end)]
        rows = [[part] for part in parts] if self._sending is None else [parts]
        self._planned = end
        if self._query is None:
            query = self._new_query()
            query.start()
            self._query = query
        with self._turn:
            self._open.append(_Open(end, rows, len(rows)))
            if len(self._open) == 1:
                self._query.ranges.add(rows)

    def _new_query(self) -> SourceQuery:
        if self._sending is None:
            return SourceQuery(self._spark, self._plan, self._rows_done, self._report)
        return ExactlyOnceQuery(
            self._spark,
            self._plan,
            self._sending,
            lambda rows: self._encode(self._end_after(rows)),
            self._rows_done,
            self._report,
        )

    # ── what the query did ───────────────────────────────────────────────────────────────────

    def _end_after(self, rows: int) -> Offsets:
        """What is reached when so many rows more are done; nothing new within a range."""
        with self._turn:
            first = self._open[0]
            return first.end if rows >= first.left else ()

    def _rows_done(self, rows: int) -> None:
        reached = self._end_after(rows)
        if reached and self._sending is None:
            self._committed(reached)
        with self._turn:
            self._open[0].left -= rows
            if self._open[0].left <= 0:
                self._open.popleft()
                if self._open and self._query is not None:
                    self._query.ranges.add(self._open[0].rows)
            self._turn.notify_all()


@dataclass(slots=True)
class _Open:
    """A range that is planned: where it ends, its rows, and how many of them are not done."""

    end: Offsets
    rows: Sequence[Sequence[Range]]
    left: int


def cannot(plan: SourcePlan, what: str, error: BaseException) -> TaskFailed:
    """Why an exactly-once task cannot go on."""
    return TaskFailed(
        f"The task {plan.task} was unable to {what} before its producer transaction expired or "
        "another one took its place. It may be necessary to reconfigure this connector "
        f"('producer.override.transaction.timeout.ms'): {error.__cause__ or error}"
    )


def batch_done(task: TaskId, run: int, rows: list[Any], ms: float) -> BatchDone:
    """A batch's result rows, summed up."""
    return BatchDone(
        task,
        run,
        records=sum(row.records for row in rows),
        done=sum(row.done for row in rows),
        failed=sum(row.failed for row in rows),
        topics={row.topic: 1 for row in rows if row.topic},
        ms=ms,
        retries=sum(row.retries for row in rows),
        lost=sum(row.lost for row in rows),
    )
