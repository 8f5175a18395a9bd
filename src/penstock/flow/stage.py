"""The Python stage: what runs inside Spark's Python workers for every batch of a task.

A stage is a callable for `mapInArrow`: Arrow batches in, one small result row out per partition.
What is expensive to open (producers, writers, converters) is opened once per Python worker and task
run, and kept until the worker goes idle long enough for Spark to end it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pyarrow as pa
from confluent_kafka import KafkaException

from penstock.api import AbortTransaction, Failed, SourceReader
from penstock.data.records import Column, Header, Records
from penstock.data.schema import BYTES
from penstock.flow import failures
from penstock.flow.causes import marked
from penstock.flow.failures import Failures, TaskFailed
from penstock.flow.pipeline import (
    Backoff,
    Failure,
    Pipeline,
    Stage,
    retriable,
    sink_steps,
    source_steps,
)
from penstock.flow.plan import FlowPlan, SinkPlan, SourcePlan
from penstock.flow.ranges import decode
from penstock.flow.reading import Chunk, chunks
from penstock.flow.sending import Refused, Sending
from penstock.ids import TaskId
from penstock.logs import concern

RESULT: Final = pa.schema(
    [
        ("records", pa.int64()),
        ("done", pa.int64()),
        ("failed", pa.int64()),
        ("retries", pa.int64()),
        ("lost", pa.int64()),
        ("rows", pa.int32()),
        ("whole", pa.bool_()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("position", pa.int64()),
    ]
)
"""What a stage reports per partition of a batch: records in, records that reached the other side,
records that failed and are tolerated (what is missing in the sum was left out by a transform), how
often something was tried again, dead letters that Kafka did not take, for
sources how many rows of ranges those were, and for sinks whether it did all of its rows. There is
one row per topic (and for sinks, partition) touched, the first with the counts; `position` is the
offset after the last record that was done."""

RESULT_DDL: Final = (
    "records long, done long, failed long, retries long, lost long, rows int, whole boolean, "
    "topic string, partition int, position long"
)

CONVERTED: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.binary()),
    ]
)
"""Records as they are to be produced, for a producer elsewhere. The last row of a partition has no
topic; its value is the count of what happened, as JSON (`Counts`)."""

CONVERTED_DDL: Final = (
    "topic string, partition int, timestamp long, key binary, value binary, headers binary"
)

_PUT_DELAY_MAX_MS: Final = 5_000


@dataclass(slots=True)
class Counts:
    """What became of the records of one partition of a batch.

    `places` are the topics that were touched, with their partitions where they are known, and the
    offset after the last record done in each.
    """

    records: int = 0
    failed: int = 0
    done: int = 0
    retries: int = 0
    lost: int = 0
    rows: int = 0
    aborted: bool = False
    places: dict[tuple[str, int | None], int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceStage:
    """Ranges read, converted, produced and acknowledged."""

    plan: SourcePlan

    def __call__(self, ranges: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = Counts()
        with marked():
            producing: Producing = _open(self.plan, Producing)
            for batch in producing.read(ranges, counts):
                producing.send(batch, counts)
            producing.flush(counts)
        yield _result(counts)


@dataclass(frozen=True, slots=True)
class ConvertStage:
    """Ranges read and converted: `CONVERTED` rows."""

    plan: SourcePlan

    def __call__(self, ranges: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = Counts()
        with marked():
            converting: Converting = _open(self.plan, Converting)
            try:
                for batch in converting.read(ranges, counts):
                    yield _converted(converting.convert(batch, counts))
            except AbortTransaction:
                counts.aborted = True
                counts.rows = 1  # a transaction is one row of ranges, and over, read or not
            converting.flush_failures(counts)
        told = orjson.dumps(
            {
                "records": counts.records,
                "failed": counts.failed,
                "retries": counts.retries,
                "lost": counts.lost,
                "rows": counts.rows,
                "aborted": counts.aborted,
            }
        )
        yield pa.RecordBatch.from_pylist([{"value": told}], schema=CONVERTED)


@dataclass(frozen=True, slots=True)
class SinkStage:
    """Chunks of Kafka's bytes converted and written to the target, which has them when it returns.

    Once there is a file at `stop`, the rest of the batch is left for another time.
    """

    plan: SinkPlan
    stop: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = Counts()
        whole = True
        with marked():
            writing: Writing = _open(self.plan, Writing)
            for chunk in chunks(batches):
                if os.path.exists(self.stop) or not writing.write(chunk, counts, self.stop):
                    whole = False
                    for _ in batches:  # not left: what the stage tells has to reach the driver
                        pass
                    break
            counts.lost += writing.failures.flush()
        yield _result(counts, whole)


class Converting:
    """The reading end of a source task in one Python worker."""

    def __init__(self, plan: SourcePlan) -> None:
        self.reader: SourceReader = plan.connector().open(plan.config)
        self.failures = Failures(plan.task, plan.tolerance)
        self._pipeline = Pipeline(source_steps(plan.conversion), plan.tolerance)

    def read(self, ranges: Iterable[pa.RecordBatch], counts: Counts) -> Iterator[pa.RecordBatch]:
        """What is in the ranges, one after the other."""
        for batch in ranges:
            for row in batch.column(0).to_pylist():
                for part in decode(row):
                    yield from _pieces(self.reader.read(part.start, part.end))
                counts.rows += 1

    def convert(self, batch: pa.RecordBatch, counts: Counts) -> Records:
        """The records of a batch as they are to be produced."""
        records = self.reader.records(batch)
        converted, failed = self._pipeline.run(records)
        self.failures.report(failed, failures.read(records))
        counts.retries += self._pipeline.take_retries()
        counts.records += len(records)
        counts.failed += len(failed)
        return converted

    def flush_failures(self, counts: Counts) -> None:
        """Waits until the dead letters are in Kafka, and counts those that are not."""
        counts.lost += self.failures.flush()

    def close(self) -> None:
        """Nothing is held open between batches."""


class Producing(Converting):
    """Both ends of a source task in one Python worker."""

    def __init__(self, plan: SourcePlan) -> None:
        super().__init__(plan)
        self._plan = plan
        self._sending = Sending(plan)

    def send(self, batch: pa.RecordBatch, counts: Counts) -> None:
        """Queues the records of a batch that convert."""
        converted = self.convert(batch, counts)
        counts.places |= {(topic, None): None for topic in self._sending.send(converted)}
        counts.done += len(converted)

    def flush(self, counts: Counts) -> None:
        """Waits until Kafka has everything that was queued."""
        refused = self._sending.flush()
        report_refused(self._plan, self.failures, refused)
        counts.done -= len(refused)
        counts.failed += len(refused)
        self.flush_failures(counts)

    def close(self) -> None:
        self._sending.close()


def report_refused(plan: SourcePlan, failures_of: Failures, refused: list[Refused]) -> None:
    """Reports records that Kafka did not take. Raises TaskFailed if that is not tolerated."""
    if refused and not plan.tolerance.tolerate_all and plan.tolerance.dead_letters is None:
        message, error = refused[0]
        raise TaskFailed(
            f"Unrecoverable exception from producer send callback: {len(refused)} records of task "
            f"{plan.task} were refused, the first for topic '{message.topic()}': {error.str()}"
        ) from KafkaException(error)
    class_name = plan.connector.plugin.task_class or plan.connector.plugin.class_name
    for message, error in refused:
        failure = failures.produce_failure(class_name, KafkaException(error))
        letter = failures.refused(message)
        failures_of.report([failure], lambda origin, letter=letter: letter)


class Writing:
    """The open end of a sink task in one Python worker."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan
        plugin = plan.connector.plugin
        self._class_name = plugin.task_class or plugin.class_name
        self._writer = plan.connector().open(plan.config)
        steps = sink_steps(plan.conversion, fields=self._writer.takes_fields)
        self._pipeline = Pipeline(steps, plan.tolerance)
        self.failures = Failures(plan.task, plan.tolerance)

    def write(self, chunk: Chunk, counts: Counts, stop: str) -> bool:
        """Writes what Kafka has; False if it was not, because there is a file at `stop`."""
        raw = chunk.records
        original = failures.consumed(raw, chunk.timestamp_type)
        records, failed = self._pipeline.run(raw)
        self.failures.report(failed, original)
        refused = self._put(records, stop, counts)
        counts.retries += self._pipeline.take_retries()
        if refused is None:
            return False
        self.failures.report(refused, original)
        counts.records += len(raw)
        counts.failed += len(failed) + len(refused)
        counts.done += len(records) - len(refused)
        counts.places[raw.topics[0], raw.partitions[0]] = raw.offsets[-1] + 1
        return True

    def close(self) -> None:
        self._writer.close()

    def _put(self, records: Records, stop: str, counts: Counts) -> list[Failure] | None:
        """Gives the records to the sink, again and again while it asks for that; those it refused.
        None if it still asks when there is a file at `stop`."""
        delay_max = min(self._plan.tolerance.retry_delay_max_ms, _PUT_DELAY_MAX_MS)
        backoff = Backoff(-1, delay_max)
        while len(records):
            failed: Failed = {}
            try:
                self._writer.write(records, failed)
            except Exception as error:
                if not retriable(error):
                    raise
                if os.path.exists(stop):
                    return None
                failures.log.warning("the batch is written again after a while: %s", error)
                counts.retries += 1
                backoff.again()
                continue
            return [
                Failure(records.origins[row], Stage.TASK_PUT, self._class_name, failed[row])
                for row in sorted(failed)
            ]
        return []


_OPENED: dict[TaskId, tuple[int, float, Any]] = {}
_IDLE_S: Final = 60.0  # as long as Spark keeps a process that nobody uses


def _open(plan: FlowPlan, kind: Callable[[Any], Any]) -> Any:
    """The open end of a task in this Python worker, made when it is not there yet.

    Only one run of a task is kept: an older one has been stopped or given away. Others that were
    not used for a while are closed, so a worker does not collect the past.
    """
    concern(plan.task)
    now = time.monotonic()
    for task, (run, used, end) in list(_OPENED.items()):
        if now - used > _IDLE_S or (task == plan.task and run != plan.run):
            del _OPENED[task]
            with contextlib.suppress(Exception):  # it is nobody's any more
                end.close()
    _rest_the_collector()
    known = _OPENED.get(plan.task)
    end = known[2] if known else kind(plan)
    _OPENED[plan.task] = (plan.run, now, end)
    return end


def _rest_the_collector() -> None:
    """A batch is thousands of containers that live for a moment and are in no cycles; looking for
    cycles among them again and again cost up to two fifths of the time (docs/performance.md)."""
    if gc.get_threshold()[0] < _COLLECT_AFTER:
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER, 10, 10)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of about a megabyte: rows may be large."""
    for batch in batches:
        pieces = max(1, min(batch.nbytes // _PIECE, batch.num_rows))
        rows = -(-batch.num_rows // pieces)
        for start in range(0, batch.num_rows, max(1, rows)):
            yield batch.slice(start, rows)


_PIECE: Final = 1 << 20
_COLLECT_AFTER: Final = 200_000


def _converted(records: Records) -> pa.RecordBatch:
    headers: list[bytes | None] = [None] * len(records)
    if any(records.headers):
        headers = [
            _packed(each) if each else None  # rare: most sources have no headers
            for each in records.headers
        ]
    columns = [
        records.topics,
        records.partitions,
        records.timestamps,
        records.keys.values,
        records.values.values,
        headers,
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(cells, field.type) for cells, field in zip(columns, CONVERTED, strict=True)],
        schema=CONVERTED,
    )


def _packed(headers: Iterable[Header]) -> bytes:
    return orjson.dumps(
        [[header.name, None if header.value is None else header.value.hex()] for header in headers]
    )


def unpacked(rows: pa.Table) -> Records:
    """The records of `CONVERTED` rows that have a topic."""
    headers: list[Any] = []
    packed = rows.column("headers")
    if packed.null_count < len(packed):
        headers = [
            [Header(name, None if cell is None else bytes.fromhex(cell)) for name, cell in each]
            for each in (orjson.loads(cell) if cell else () for cell in packed.to_pylist())
        ]
    return Records(
        topics=rows.column("topic").to_pylist(),
        partitions=rows.column("partition").to_pylist(),
        timestamps=rows.column("timestamp").to_pylist(),
        keys=Column.of(rows.column("key").to_pylist(), BYTES),
        values=Column.of(rows.column("value").to_pylist(), BYTES),
        headers=headers,
    )


def _result(counts: Counts, whole: bool = True) -> pa.RecordBatch:
    places = list(counts.places.items()) or [(("", None), None)]
    first = (
        *(counts.records, counts.done, counts.failed),
        *(counts.retries, counts.lost, counts.rows),
    )
    rows = [
        (*(first if not number else (0,) * len(first)), whole, *place, position)
        for number, (place, position) in enumerate(places)
    ]
    columns = zip(zip(*rows, strict=True), RESULT, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(cells, column.type) for cells, column in columns], schema=RESULT
    )
