"""A sink task on a slot: writes what its consumer reads, and decides what may be committed.

The consumer is in the slot's JVM (`SlotConsumer.java`); it is the task's member in the group
`connect-<name>`, and obeys the commands sent here. Its events overtake waiting records: when a
partition is revoked, its unwritten records are dropped, as the next owner reads them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.api import Batching, Failed, RecordRef, SinkWriter, TopicPartition
from penstock.data.records import Records
from penstock.flow.counts import Counts
from penstock.flow.messages import OffsetsCommitted, Running
from penstock.flow.plan import SinkPlan
from penstock.flow.stage import failures
from penstock.flow.stage.batches import Converted, Originals
from penstock.flow.stage.chunks import Chunk, chunk
from penstock.flow.stage.consumer import HELD_BYTES, Consumer
from penstock.flow.stage.failures import ConsumerFailed, Failures, ToleranceExceeded
from penstock.flow.stage.hosted import Hosted, HostPort
from penstock.flow.stage.intercepting import Interceptors
from penstock.flow.stage.pipeline import Backoff, Failure, Pipeline, Stage, retriable, sink_steps
from penstock.flow.stage.progress import Progress, due, reached
from penstock.flow.stage.seeking import Seeks
from penstock.flow.stage.sink_context import StageSinkContext
from penstock.flow.stage.tap import Tap
from penstock.kafka.group_members import remove_member

log = logging.getLogger(__name__)

_RETRY_COMMIT_S: Final = 1.0
_LAST_COMMIT_S: Final = 3.0
_REJOIN_S: Final = 0.1
_CLOSE_MS: Final = 1_000
_PUT_DELAY_MAX_MS: Final = 5_000
_REJOINING: Final = ("RebalanceInProgressException", "rebalance")


class SinkTask(Hosted):
    """One sink task."""

    def __init__(self, host: HostPort, id: int, plan: SinkPlan) -> None:
        super().__init__(host, id, plan.task)
        self._plan = plan
        self._writer: SinkWriter
        self._pipeline: Pipeline
        self._tap: Tap | None = None
        self._failures = Failures(plan.task, plan.tolerance)
        self._reporting = threading.Lock()  # guards the failures
        plugin = plan.connector.plugin
        self._class_name = plugin.task_class or plugin.class_name
        self._frames: deque[pa.Buffer] = deque()
        self._events: deque[dict[str, Any]] = deque()
        self._progress: dict[TopicPartition, Progress] = {}
        self._is_certain = True  # whether a flush that succeeds proves that records are stored
        self._seeks = Seeks()
        self._moves = 0  # how often partitions were assigned, revoked or sought
        self._commits: dict[int, tuple[float, dict[TopicPartition, int]]] = {}
        self._consumer = Consumer(host, id, lambda: self.cut_off)
        self.lineage = self._consumer.lineages.of
        self._tickets = 0
        self._commit_at = 0.0
        self._commit_requested = False
        self._refusal: str | None = None
        self._errant: BaseException | None = None
        self._opened = False
        self._closed = threading.Event()
        self._left_behind: str | None = None  # a member whose group may not know that it has left
        self._pending: list[Converted] = []
        self._linger_until = 0.0
        self._idle_at = float("inf")

    def take_frame(self, frame: pa.Buffer) -> None:
        """A chunk of records."""
        with self.turn:
            self._frames.append(frame)
            self.turn.notify_all()

    def take_event(self, event: dict[str, Any]) -> None:
        """An event of the consumer."""
        if event["event"] == "closed":
            self._left_behind = event.get("member")
            self._closed.set()
        with self.turn:
            self._events.append(event)
            self.turn.notify_all()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The position of each partition that it owns."""
        with self.turn:
            return {at: progress.position for at, progress in self._progress.items()}

    @property
    def tolerates_errors(self) -> bool:
        """See `SinkContext.tolerates_errors`."""
        return self._plan.tolerance.tolerate_all

    def on_cut(self) -> None:
        if self._opened:
            self._consumer.close(0)

    def report(self, record: RecordRef, error: Exception) -> None:
        """See `SinkContext.report`."""
        failure = Failure(record.row, Stage.TASK_PUT, self._class_name, error)
        assert isinstance(record.source, Originals), "the record is one that this task was given"
        try:
            with self._reporting:
                self._failures.report([failure], record.source)
        except ToleranceExceeded as exceeded:
            at = record.source.chunk(record.row).partition
            with self.turn:
                if (progress := self._progress.get(at)) is not None:
                    self._progress[at] = progress.bar(record.offset)
                self._is_certain = False  # the writer may not have reported others
                self._errant = self._errant or exceeded
                self.turn.notify_all()
            raise
        self.count(Counts(failed=1, done=-1))

    def request_commit(self) -> None:
        with self.turn:
            self._commit_requested = True
            self.turn.notify_all()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        self._consumer.pause(partitions, paused)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `SinkContext.seek`."""
        with self.turn:
            self._seeks.ask(offsets)
        self.take_event({"event": "seek"})

    def watch(self, tap: Tap) -> None:
        """Shows the next records to `tap`."""
        self._tap = tap
        if hasattr(self, "_pipeline"):
            self._pipeline.tap = tap

    def work(self) -> None:
        plan = self._plan
        with self.busy():
            self.interceptors = Interceptors(plan.interceptors, self)
            connector = plan.connector()
            connector.check_installed(plan.config)
            self._writer = connector.open(plan.config, StageSinkContext(self))
            steps = sink_steps(plan.conversion, fields=self._writer.takes_fields)
            self._pipeline = Pipeline(steps, plan.tolerance, self.wait_to_try_again)
        if self.stopping:
            return
        self._opened = True
        self._consumer.open(plan)
        self.say(Running(self.id))
        interval_s = plan.commit_interval_ms / 1000
        self._commit_at = time.monotonic() + interval_s
        self._schedule_idle()
        while not self.stopping:
            self._await_something()
            if self._errant is not None:
                raise self._errant
            if self._handle_events():
                continue
            now = time.monotonic()
            if now >= self._commit_at or self._commit_requested:
                self._commit_requested = False
                self._commit_at = now + (interval_s if self._commit() else _RETRY_COMMIT_S)
            self._write_next()
            if now >= self._idle_at:
                with self.busy():
                    self._idle()
                self._schedule_idle()

    def _schedule_idle(self) -> None:
        """Sets when the writer's `idle` is due."""
        every_ms = self._writer.idle_ms
        self._idle_at = time.monotonic() + every_ms / 1000 if every_ms else float("inf")

    def _idle(self) -> None:
        try:
            with self._calling_writer():
                self._writer.idle()
        except Exception as error:
            self._note_retry("periodic work failed", error)

    @contextmanager
    def _calling_writer(self) -> Iterator[None]:
        """Calls the writer. After an error that a retry does not help, the writer is in an unknown
        state, in which a flush may succeed although records are lost."""
        try:
            yield
        except BaseException as error:
            if not (isinstance(error, Exception) and retriable(error)):
                self._is_certain = False
            raise

    def _note_retry(self, problem: str, error: Exception) -> None:
        """Logs an error after which the writer is called again; raises any other."""
        if not retriable(error):
            raise error
        log.warning("%s, retrying: %s", problem, error)
        self.count(Counts(retries=1))

    def _await_something(self) -> None:
        with self.turn:
            while not (
                self._events
                or self._frames
                or self.stopping
                or self._commit_requested
                or self._errant
            ):
                due = self._commit_at
                if self._pending:
                    due = min(due, self._linger_until)
                due = min(due, self._idle_at)
                remaining_s = due - time.monotonic()
                if remaining_s <= 0:
                    return
                self.turn.wait(remaining_s)

    def _handle_events(self) -> bool:
        """Handles the consumer's events; False if there are none."""
        with self.turn:
            events, self._events = self._events, deque()
        for event in events:
            self._handle(event)
        self._obey_seeks()
        return bool(events)

    def _obey_seeks(self) -> None:
        """Moves the consumer to the positions that the writer requested. Drops records read before,
        and forgets the offsets reached."""
        if not self._seeks.asked:
            return
        with self.turn:
            ticket, rows = self._seeks.start()
            for at in rows:
                self._progress[at] = self._progress[at].seek()
            for _, offsets in self._commits.values():
                for at in rows:
                    offsets.pop(at, None)
        if rows:
            self._moves += 1
            self._drop(frozenset(rows))
            self._consumer.seek(ticket, rows.values())

    def _handle(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "assigned":
                starts: dict[TopicPartition, int] = {}
                self._consumer.lineages.assigned(event)
                self._moves += 1
                with self.turn:
                    for topic, partition, epoch, position in event["partitions"]:
                        at = TopicPartition(topic, partition)
                        starts[at] = position
                        self._progress[at] = Progress(epoch, position)
                        self._seeks.assigned(at, epoch)
                with self.busy(), self._calling_writer():
                    self._writer.assigned(starts)
            case "revoked":
                partitions = frozenset(TopicPartition(*row) for row in event["partitions"])
                ticket, offsets = self._released(partitions)
                self._consumer.released(ticket, offsets)
            case "lost":
                partitions = frozenset(TopicPartition(*row) for row in event["partitions"])
                self._forget(partitions)
                with self.busy(), self._calling_writer():
                    self._writer.revoked(partitions, lost=True)
            case "sought":
                with self.turn:
                    for topic, partition, epoch, position in event["partitions"]:
                        at = TopicPartition(topic, partition)
                        if self._seeks.arrived(at, event["id"]):
                            self._progress[at] = self._progress[at].arrive(epoch, position)
            case "committed":
                self._on_committed(event["id"], event.get("error"))
            case "closed":
                raise ConsumerFailed(event.get("trace") or "it was closed")

    def _released(
        self, partitions: frozenset[TopicPartition]
    ) -> tuple[int, Mapping[TopicPartition, int]]:
        """Finishes revoked partitions; returns the ticket and offsets of their commit."""
        self._drop(partitions)
        with self.busy():
            if not self._settled(partitions, revoked=True):
                with self._calling_writer():  # their next owner writes the records again
                    self._writer.revoked(partitions, lost=True)
        offsets = self._due(partitions)
        self._forget(partitions)
        return self._ticket(offsets), offsets

    def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        with self.turn:
            for at in partitions:
                self._progress.pop(at, None)
            self._seeks.forget(partitions)
        self._moves += 1
        self._drop(partitions)

    def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        """Drops converted, unwritten records: the next owner of the partitions reads them."""
        for part in self._pending:
            if part.chunk.partition in partitions:
                self._consumer.done(part.bytes)
        self._pending = [part for part in self._pending if part.chunk.partition not in partitions]

    def _write_next(self) -> None:
        """Takes the next chunk, and writes if the batch is full or its linger time has passed."""
        with self.turn:
            frame = self._frames.popleft() if self._frames else None
        batching = self._writer.batching
        if frame is not None:
            with self.busy():
                self._convert(frame)
        if not self._pending:
            return
        waits = batching.linger_ms > 0 and not self._is_full(batching)
        if waits and time.monotonic() < self._linger_until:
            return
        with self.busy():
            began = time.monotonic()
            self._write_pending(batching)
            self.count(Counts(ms=(time.monotonic() - began) * 1000))
        if not self._frames:
            self._failures_flushed()

    def _is_full(self, batching: Batching) -> bool:
        records = sum(len(part.records) for part in self._pending)
        held_bytes = sum(part.bytes for part in self._pending)
        return (0 < batching.records <= records) or held_bytes >= HELD_BYTES // 2

    def _convert(self, frame: pa.Buffer) -> None:
        received = chunk(frame)
        if not self._is_ours(received):
            self._consumer.done(len(frame))  # of an assignment that has ended
            return
        self._consumer.arrived(received)
        original = failures.consumed(received.records, received.timestamp_type)
        records, failed = self.interceptors.receive(self._pipeline, received.records)
        with self._reporting:
            self._failures.report(failed, original)
        self.count(
            Counts(
                len(received.records),
                failed=len(failed),
                retries=self._pipeline.take_retries(),
                topics=frozenset({received.partition.topic}),
            )
        )
        if not self._pending:
            self._linger_until = time.monotonic() + self._writer.batching.linger_ms / 1000
        self._pending.append(Converted(received, records, len(frame), original))

    def _write_pending(self, batching: Batching) -> None:
        parts, self._pending = self._pending, []
        try:
            if batching.by_partition:
                for partition in dict.fromkeys(part.chunk.partition for part in parts):
                    of_partition = [part for part in parts if part.chunk.partition == partition]
                    if self._is_ours(of_partition[0].chunk):
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
            most = self._writer.batching.records or len(records)
            moves = self._moves
            for start in range(0, len(records), most):
                rows = range(start, min(start + most, len(records)))
                batch = records if len(rows) == len(records) else records.only(rows)
                batch = replace(batch, source=originals)
                self._put(batch if moves == self._moves else self._still_ours(batch), originals)
                if rows.stop < len(records):
                    ends: dict[TopicPartition, tuple[int, int]] = {}
                    for row in rows:
                        source = originals.chunk(records.origins[row])
                        ends[source.partition] = source.epoch, records.offsets[row] + 1
                    for partition, end in ends.items():
                        self._reach(partition, *end)
        for part in parts:
            self._reach(part.chunk.partition, part.chunk.epoch, part.chunk.end)

    def _reach(self, partition: TopicPartition, epoch: int, position: int) -> None:
        with self.turn:
            if (progress := self._progress.get(partition)) is not None:
                self._progress[partition] = progress.reach(epoch, position)

    def _put(self, records: Records, originals: Originals) -> None:
        """Passes records to the writer, and retries while its errors are retriable; drops records
        whose partitions are revoked or sought meanwhile."""
        delay_max = min(self._plan.tolerance.retry_delay_max_ms, _PUT_DELAY_MAX_MS)
        backoff = Backoff(-1, delay_max, self._wait_for_event)
        moves = self._moves
        failed: Failed = {}
        while len(records):
            failed = {}
            try:
                with (
                    self.interceptors.stage("put", len(records), failed),
                    self._calling_writer(),
                ):
                    self._writer.write(records, failed)
                self._obey_seeks()
                break
            except Exception as error:
                self._note_retry("write failed", error)
                self._obey_seeks()
                if moves == self._moves:
                    backoff.again()
                    self._handle_events()
                if moves != self._moves:
                    moves = self._moves
                    records = self._still_ours(records)
        if self._tap is not None:
            by = {"step": Stage.TASK_PUT.value, "class": self._class_name}
            self._tap.written(originals.places(records), failed, by)
            self._tap = None if self._tap.done else self._tap
        refused = [
            Failure(records.origins[row], Stage.TASK_PUT, self._class_name, failed[row])
            for row in sorted(failed)
        ]
        if refused:
            with self._reporting:
                self._failures.report(refused, originals)
        self.count(Counts(done=len(records) - len(refused), failed=len(refused)))

    def _still_ours(self, records: Records) -> Records:
        """The records without those of ended assignments, and of partitions that are being
        sought."""
        assert isinstance(records.source, Originals)
        chunks = map(records.source.chunk, records.origins)
        rows = [row for row, chunk in enumerate(chunks) if self._is_ours(chunk)]
        return records if len(rows) == len(records) else records.only(rows)

    def _is_ours(self, chunk: Chunk) -> bool:
        progress = self._progress.get(chunk.partition)
        return progress is not None and progress.epoch == chunk.epoch

    def _wait_for_event(self, seconds: float) -> None:
        """Waits, at most until the consumer has an event; raises Interrupted when stopping."""
        with self.turn:
            self.turn.wait_for(lambda: self.stopping or self._events, seconds)
        self.wait_to_try_again(0)

    def _failures_flushed(self) -> None:
        """Waits until the dead letters are in Kafka. Raises TaskFailed if Kafka has refused one:
        its record is nowhere, and must not be committed."""
        with self._reporting:
            lost, loss = self._failures.flush(), self._failures.loss
        if lost:
            self.count(Counts(lost=lost))
        if loss is not None:
            self._is_certain = False
            raise loss

    def _commit(self) -> bool:
        """Commits what is written, unless a commit is in progress; False if it should be retried
        soon. If the partition moves meanwhile, its new owner reads the records again."""
        if self._commits:
            return False
        if all(progress.reached is None for progress in self._progress.values()):
            return True
        with self.busy():
            if not self._settled(self._progress):
                return False
        offsets = self._due(self._progress)
        if offsets:
            self._consumer.commit(self._ticket(offsets), offsets)
        return True

    def _settled(self, partitions: Iterable[TopicPartition], *, revoked: bool = False) -> bool:
        """Flushes the writer, lets it finish partitions if they are revoked, and grants the offsets
        that it allows. False if it has to be tried again; then nothing is granted."""
        try:
            with self._calling_writer():
                self._writer.flush()
                self._obey_seeks()
                if revoked:
                    self._writer.revoked(frozenset(partitions), lost=False)
                written = reached(self._progress, partitions)
                offered = self._writer.pre_commit(dict(written)) if written else {}
        except Exception as error:
            self._note_retry("flush failed, offsets are not committed", error)
            return False
        self._failures_flushed()
        with self.turn:
            if not self._is_certain:
                return False
            for at in offered.keys() & written.keys():
                self._progress[at] = self._progress[at].grant(offered[at])
        return True

    def _due(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offsets to commit."""
        with self.turn:
            return due(self._progress, partitions)

    def _ticket(self, offsets: Mapping[TopicPartition, int]) -> int:
        self._tickets += 1
        if offsets:
            self._commits[self._tickets] = time.monotonic(), dict(offsets)
        return self._tickets

    def _on_committed(self, ticket: int, error: str | None) -> None:
        began, offsets = self._commits.pop(ticket, (0.0, {}))
        if not offsets:
            return
        ms = (time.monotonic() - began) * 1000
        self._refusal = error
        if error is not None:
            log.warning("failed to commit offsets: %s", error)
            self._commit_at = min(self._commit_at, time.monotonic() + _RETRY_COMMIT_S)
        else:
            self.interceptors.on_commit(offsets)
            with self.turn:
                for at, offset in offsets.items():
                    if (progress := self._progress.get(at)) is not None:
                        self._progress[at] = progress.commit(offset)
        self.say(OffsetsCommitted(self.id, error is None, ms, len(self._progress)))

    def finish(self, *, failed: bool) -> None:
        """Commits what is written, leaves the group and closes the writer."""
        error: BaseException | None = None
        try:
            if self._opened and not self._closed.is_set():
                self._commit_at_last()
        except BaseException as unfinished:
            error = unfinished
        if self._opened:
            self._consumer.close(_CLOSE_MS)
            self._closed.wait(min(_CLOSE_MS / 1000 + 1, self.time_left() + 0.5))
            if self._left_behind is not None and self._plan.group_admin is not None:
                group = self._plan.consumer["group.id"]
                remove_member(self._plan.group_admin, group, self._left_behind)
        with suppress(Exception):  # errors of closing a pipeline help nobody
            if hasattr(self, "_pipeline"):
                self._pipeline.close()
        if hasattr(self, "_writer"):
            self._writer.close()
        if error is not None:
            raise error

    def _commit_at_last(self) -> None:
        """Lets the writer finish its partitions, and commits. After an error of the writer, or a
        lost report, only what it had stored before counts. Kafka refuses a commit during a
        rebalance, so it retries."""
        until = time.monotonic() + min(_LAST_COMMIT_S, self.time_left())
        owned = frozenset(self._progress)
        with self.busy():
            while self._is_certain and not self._settled(owned, revoked=bool(owned)):
                if time.monotonic() >= until:
                    break  # what was not flushed is read again
                with self.turn:
                    self.turn.wait(_REJOIN_S)
        self._await_commits(until)  # one may be in progress
        while (offsets := self._due(owned)) and time.monotonic() < until:
            ticket = self._ticket(offsets)
            left_ms = int(max(1.0, (until - time.monotonic()) * 1000))
            self._consumer.commit(ticket, offsets, left_ms)
            self._await_commits(until)
            if self._refusal is None or not any(word in self._refusal for word in _REJOINING):
                break
            with self.turn:
                self.turn.wait(_REJOIN_S)
        self._failures_flushed()

    def _await_commits(self, until: float) -> None:
        while self._commits and not self._closed.is_set():
            with self.turn:
                remaining_s = until - time.monotonic()
                if remaining_s <= 0 or not self.turn.wait_for(lambda: self._events, remaining_s):
                    return
                events, self._events = self._events, deque()
            for event in events:
                match event["event"]:
                    case "committed":
                        self._on_committed(event["id"], event.get("error"))
                    case "revoked":  # what was written is about to be committed
                        self._consumer.released(0, {})
