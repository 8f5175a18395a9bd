"""Converts the chunks of a sink task, and writes them."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa

from penstock.api import Batching, Failed, TopicPartition
from penstock.data.records import Records
from penstock.flow.counts import Counts
from penstock.flow.plan import Tolerance
from penstock.flow.stage import failures
from penstock.flow.stage.batches import Converted, Originals
from penstock.flow.stage.chunks import chunk
from penstock.flow.stage.consumer import HELD_BYTES, Consumer
from penstock.flow.stage.hosted import Hosted
from penstock.flow.stage.owned import Owned
from penstock.flow.stage.pipeline import Pipeline, Stage
from penstock.flow.stage.reporting import Reporting
from penstock.flow.stage.retrying import Retrying
from penstock.flow.stage.tap import Tap
from penstock.flow.stage.target import Target

_PUT_DELAY_MAX_MS: Final = 5_000


class Interruptions(Protocol):
    """What may happen while a write is retried."""

    def obey_seeks(self) -> bool:
        """Begins the seeks that the writer has requested; False if there are none."""

    def handle_events(self) -> bool:
        """Handles the consumer's events; False if there are none."""

    def wait_for_event(self, seconds: float) -> None:
        """Waits, at most until the consumer has an event; raises Interrupted when stopping."""


class Pending:
    """Chunks that are converted, and wait to be written."""

    def __init__(self) -> None:
        self._parts: list[Converted] = []
        self.until = float("inf")
        """When they are written at the latest."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, part: Converted, batching: Batching) -> None:
        if not self._parts:
            self.until = time.monotonic() + batching.linger_ms / 1000
        self._parts.append(part)

    def is_due(self, batching: Batching) -> bool:
        """Whether there are enough of them, or they have waited long enough."""
        if not self._parts:
            return False
        if batching.linger_ms <= 0 or time.monotonic() >= self.until:
            return True
        records = sum(len(part.records) for part in self._parts)
        held_bytes = sum(part.bytes for part in self._parts)
        return (0 < batching.records <= records) or held_bytes >= HELD_BYTES // 2

    def take(self) -> list[Converted]:
        """All of them."""
        parts, self._parts = self._parts, []
        self.until = float("inf")
        return parts

    def drop(self, partitions: Set[TopicPartition]) -> int:
        """Drops the chunks of some partitions; returns their bytes."""
        dropped = sum(part.bytes for part in self._parts if part.chunk.partition in partitions)
        self._parts = [part for part in self._parts if part.chunk.partition not in partitions]
        if not self._parts:
            self.until = float("inf")
        return dropped


class Writing:
    """From a consumer's chunks to calls of the writer; for the task's thread."""

    def __init__(
        self,
        task: Hosted,
        target: Target,
        pipeline: Pipeline,
        tolerance: Tolerance,
        owned: Owned,
        reporting: Reporting,
        consumer: Consumer,
        meanwhile: Interruptions,
    ) -> None:
        self._task = task
        self._target = target
        self._batching = target.writer.batching
        self._pipeline = pipeline
        self._delay_max_ms = min(tolerance.retry_delay_max_ms, _PUT_DELAY_MAX_MS)
        self._owned = owned
        self._reporting = reporting
        self._consumer = consumer
        self._meanwhile = meanwhile
        self._tap: Tap | None = None
        self.pending = Pending()

    def watch(self, tap: Tap) -> None:
        """Shows the next records to `tap`."""
        self._tap = self._pipeline.tap = tap

    def take(self, frame: pa.Buffer) -> None:
        """Converts the records of a chunk, unless its assignment has ended."""
        received = chunk(frame)
        if not self._owned.has(received):
            self._consumer.done(len(frame))
            return
        self._consumer.arrived(received)
        original = failures.consumed(received.records, received.timestamp_type)
        consumed = self._task.interceptors.on_consume(received.records)
        records, failed = self._pipeline.run(consumed)
        self._reporting.report(failed, original)
        self._task.count(
            Counts(
                len(received.records),
                failed=len(failed),
                retries=self._pipeline.take_retries(),
                topics=frozenset({received.partition.topic}),
            )
        )
        self.pending.add(Converted(received, records, len(frame), original), self._batching)

    def drop(self, partitions: Set[TopicPartition]) -> None:
        """Drops unwritten records: the next owner of the partitions reads them."""
        if dropped := self.pending.drop(partitions):
            self._consumer.done(dropped)

    def write_due(self) -> bool:
        """Writes what is pending, if it is due; False if it is not."""
        if not self.pending.is_due(self._batching):
            return False
        with self._task.time.busy():
            began = time.monotonic()
            self._write(self.pending.take())
            self._task.count(Counts(ms=(time.monotonic() - began) * 1000))
        return True

    def _write(self, parts: Sequence[Converted]) -> None:
        try:
            if self._batching.by_partition:
                for partition in dict.fromkeys(part.chunk.partition for part in parts):
                    of_partition = [part for part in parts if part.chunk.partition == partition]
                    if self._owned.has(of_partition[0].chunk):
                        self._write_batch(of_partition)
            else:
                self._write_batch(parts)
        finally:
            for part in parts:
                self._consumer.done(part.bytes)

    def _write_batch(self, parts: Sequence[Converted]) -> None:
        """Writes chunks in one or more calls; after each, the offsets it reached count."""
        originals = Originals(parts)
        records = originals.together()
        if records is not None:
            most = self._batching.records or len(records)
            moves = self._owned.moves
            for start in range(0, len(records), most):
                rows = range(start, min(start + most, len(records)))
                batch = records if len(rows) == len(records) else records.only(rows)
                batch = replace(batch, source=originals)
                if moves != self._owned.moves:
                    batch = self._still_ours(batch)
                self._put(batch, originals)
                if rows.stop < len(records):
                    ends: dict[TopicPartition, tuple[int, int]] = {}
                    for row in rows:
                        source = originals.chunk(records.origins[row])
                        ends[source.partition] = source.epoch, records.offsets[row] + 1
                    for partition, end in ends.items():
                        self._owned.reach(partition, *end)
        for part in parts:
            self._owned.reach(part.chunk.partition, part.chunk.epoch, part.chunk.end)

    def _put(self, records: Records, originals: Originals) -> None:
        """Passes records to the writer, and retries while its errors are retriable; drops records
        whose partitions are revoked or sought meanwhile."""
        retrying = Retrying(-1, self._delay_max_ms, self._meanwhile.wait_for_event)
        moves = self._owned.moves
        failed: Failed = {}
        while len(records):
            try:
                with (
                    self._task.interceptors.stage("put", len(records), failed),
                    self._target.called() as writer,
                ):
                    writer.write(records, failed)
                self._meanwhile.obey_seeks()
                break
            except Exception as error:
                failed = {}
                self._target.note_retry("write failed", error)
                self._meanwhile.obey_seeks()
                if moves == self._owned.moves:
                    retrying.again()
                    self._meanwhile.handle_events()
                if moves != self._owned.moves:
                    moves = self._owned.moves
                    records = self._still_ours(records)
        if self._tap is not None:
            by = {"step": Stage.TASK_PUT.value, "class": self._reporting.class_name}
            self._tap.written(originals.places(records), failed, by)
            self._tap = None if self._tap.done else self._tap
        if failed:
            refused = [
                self._reporting.failure(records.origins[row], failed[row]) for row in sorted(failed)
            ]
            self._reporting.report(refused, originals)
        self._task.count(Counts(done=len(records) - len(failed), failed=len(failed)))

    def _still_ours(self, records: Records) -> Records:
        """The records without those of ended assignments, and of partitions that are being
        sought."""
        assert isinstance(records.source, Originals)
        chunks = map(records.source.chunk, records.origins)
        rows = [row for row, chunk in enumerate(chunks) if self._owned.has(chunk)]
        return records if len(rows) == len(records) else records.only(rows)
