"""A sink task on a slot: writes what its consumer reads, and decides what may be committed.

The consumer is in the slot's JVM (`SlotConsumer.java`); it is the task's member in the group
`connect-<name>`, and obeys the commands sent here. Its events overtake waiting records: when a
partition is revoked, its unwritten records are dropped, as the next owner reads them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final, assert_never

import pyarrow as pa
from confluent_kafka import KafkaException

from penstock.api import RecordRef, SinkWriter, TopicPartition, Unavailable
from penstock.backoff import Backoff
from penstock.flow.messages import TaskOpened
from penstock.flow.plan import SinkPlan
from penstock.flow.stage.committing import Commits
from penstock.flow.stage.consumer import Consumer
from penstock.flow.stage.events import (
    Assigned,
    Closed,
    CommitDone,
    ConsumerEvent,
    Lost,
    Revoked,
    Sought,
)
from penstock.flow.stage.failures import ConsumerFailed
from penstock.flow.stage.hosted import Hosted, HostPort
from penstock.flow.stage.inbox import Inbox
from penstock.flow.stage.intercepting import Interceptors
from penstock.flow.stage.owned import Owned
from penstock.flow.stage.pipeline import Pipeline, sink_steps
from penstock.flow.stage.reporting import Reporting
from penstock.flow.stage.sink_context import StageSinkContext
from penstock.flow.stage.tap import Tap
from penstock.flow.stage.target import Target
from penstock.flow.stage.writing import Writing
from penstock.kafka import topics
from penstock.kafka.group_members import remove_member

_RETRY_COMMIT_S: Final = 1.0
_LAST_COMMIT_S: Final = 3.0
_REJOIN_S: Final = 0.1
_FLUSH_AGAIN: Final = Backoff(100, 1_600)
_CLOSE_MS: Final = 1_000


class SinkTask(Hosted):
    """One sink task."""

    def __init__(self, host: HostPort, id: int, plan: SinkPlan) -> None:
        super().__init__(host, id, plan.task)
        self.plan = plan
        self.inbox = Inbox(self.turn)
        self.owned = Owned()
        self.reporting = Reporting(plan, self.owned, self.count)
        self.consumer = Consumer(host, id, lambda: self.cut_off)
        self._consuming: Consuming | None = None  # once the consumer is open

    def take_frame(self, frame: pa.Buffer) -> None:
        """A chunk of records."""
        self.inbox.put_frame(frame)

    def take_event(self, event: ConsumerEvent) -> None:
        """An event of the consumer."""
        self.inbox.put_event(event)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The position of each partition that it owns."""
        return self.owned.positions

    @property
    def tolerates_errors(self) -> bool:
        """See `SinkContext.tolerates_errors`."""
        return self.plan.tolerance.tolerate_all

    def on_cut(self) -> None:
        self.consumer.close(0)

    def report(self, record: RecordRef, error: Exception) -> None:
        """See `SinkContext.report`."""
        try:
            self.reporting.report_written(record, error)
        finally:
            with self.turn:
                self.turn.notify_all()

    def request_commit(self) -> None:
        self.inbox.request_commit()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        self.consumer.pause(partitions, paused)

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `SinkContext.seek`."""
        self.owned.request_seek(offsets)
        with self.turn:
            self.turn.notify_all()

    def lineage(self, at: TopicPartition, /) -> str:
        """See `SinkContext.lineage`."""
        return self.consumer.lineages.of(at)

    def topic_id(self, topic: str, /) -> str | None:
        """See `SinkContext.topic_id`."""
        if self.plan.admin is None:
            return None
        try:
            return topics.topic_id(dict(self.plan.admin), topic)
        except KafkaException as error:
            raise Unavailable(f"Kafka did not tell the id of topic '{topic}': {error}") from error

    def watch(self, tap: Tap) -> None:
        """Shows the next records to `tap`, if its writer is open."""
        if self._consuming is not None:
            self._consuming.writing.watch(tap)

    def work(self) -> None:
        plan = self.plan
        with self.time.busy():
            self.interceptors = Interceptors(plan.interceptors, self)
            connector = plan.connector.load()()
            connector.check_installed(plan.config)
            writer = connector.open(plan.config, StageSinkContext(self))
            self.opened.callback(writer.close)
            steps = sink_steps(plan.conversion, fields=writer.takes_fields)
            observer = self.interceptors or None
            pipeline = Pipeline(steps, plan.tolerance, self.wait_to_try_again, observer)
            self.opened.callback(pipeline.close)
        if self.stopping:
            return
        self._consuming = Consuming(self, writer, pipeline)
        self.consumer.open(plan)
        self.opened.callback(self._leave_group)
        self.say(TaskOpened(self.id))
        self._consuming.run()

    def finish(self, *, failed: bool) -> None:
        """Commits what is written. Then the task leaves its group and closes the writer."""
        if self._consuming is not None and self.inbox.closed is None:
            self._consuming.commit_at_last()

    def _leave_group(self) -> None:
        self.consumer.close(_CLOSE_MS)
        with self.turn:
            timeout_s = min(_CLOSE_MS / 1000 + 1, self.time_left() + 0.5)
            self.turn.wait_for(lambda: self.inbox.closed is not None, timeout_s)
            closed = self.inbox.closed
        if closed is not None and closed.member is not None and self.plan.group_admin is not None:
            remove_member(self.plan.group_admin, self.plan.consumer["group.id"], closed.member)


class Consuming:
    """A sink task whose writer is open, from its first record to its last commit; for the task's
    thread."""

    def __init__(self, task: SinkTask, writer: SinkWriter, pipeline: Pipeline) -> None:
        self._task = task
        self._inbox = task.inbox
        self._owned = task.owned
        self._consumer = task.consumer
        self._target = target = Target(writer, task.owned, task.count)
        self.writing = Writing(
            task,
            target,
            pipeline,
            task.plan.tolerance,
            task.owned,
            task.reporting,
            task.consumer,
            self,
        )
        self.commits = Commits(
            task, target, task.owned, task.reporting, task.consumer, self.obey_seeks
        )
        self._commit_at = 0.0
        self._idle_at = float("inf")

    def run(self) -> None:
        """Returns when the task is to stop."""
        interval_s = self._task.plan.commit_interval_ms / 1000
        self._commit_at = time.monotonic() + interval_s
        self._schedule_idle()
        while not self._task.stopping:
            self._await_something()
            if self._task.reporting.error is not None:
                raise self._task.reporting.error
            if self.handle_events():
                continue
            now = time.monotonic()
            if self._inbox.take_commit_request() or now >= self._commit_at:
                self._commit_at = now + (interval_s if self.commits.begin() else _RETRY_COMMIT_S)
            self._write_next()
            if now >= self._idle_at:
                self._idle()
                self._schedule_idle()

    def _await_something(self) -> None:
        inbox, task = self._inbox, self._task
        with task.turn:
            while not (
                inbox.events
                or inbox.frames
                or inbox.commit_requested
                or task.stopping
                or task.reporting.error
                or self._owned.seek_requested
            ):
                due = min(self._commit_at, self.writing.pending.until, self._idle_at)
                remaining_s = due - time.monotonic()
                if remaining_s <= 0:
                    return
                task.turn.wait(remaining_s)

    def _schedule_idle(self) -> None:
        """Sets when the writer's `idle` is due."""
        every_ms = self._target.writer.idle_ms
        self._idle_at = time.monotonic() + every_ms / 1000 if every_ms else float("inf")

    def _idle(self) -> None:
        try:
            with self._task.time.busy(), self._target.called() as writer:
                writer.idle()
        except Exception as error:
            self._target.note_retry("periodic work failed", error)

    def _write_next(self) -> None:
        """Takes the next chunk, and writes if the batch is full or its linger time has passed."""
        frame = self._inbox.take_frame()
        if frame is not None:
            with self._task.time.busy():
                self.writing.take(frame)
        if self.writing.write_due() and not self._inbox.frames:
            self._task.reporting.flush()

    def handle_events(self) -> bool:
        """Handles the consumer's events, and begins seeks; False if there are neither."""
        events = self._inbox.take_events()
        for event in events:
            self._handle(event)
        return self.obey_seeks() or bool(events)

    def wait_for_event(self, seconds: float) -> None:
        """Waits, at most until the consumer has an event; raises Interrupted when stopping."""
        task = self._task
        with task.turn:
            task.turn.wait_for(
                lambda: task.stopping or self._inbox.events or self._owned.seek_requested, seconds
            )
        task.wait_to_try_again(0)

    def obey_seeks(self) -> bool:
        """Moves the consumer to the positions that the writer has requested. Drops records read
        before. False if it has requested none."""
        if not self._owned.seek_requested:
            return False
        ticket, rows = self._owned.leave()
        if rows:
            self.commits.forget(rows)
            self.writing.drop(rows.keys())
            self._consumer.seek(ticket, rows.values())
        return True

    def _handle(self, event: ConsumerEvent) -> None:
        match event:
            case Assigned(partitions):
                self._consumer.lineages.assigned(event)
                self._owned.assign(partitions)
                starts = {at: start.offset for at, start in partitions.items()}
                with self._task.time.busy(), self._target.called() as writer:
                    writer.assigned(starts)
            case Revoked(revoked):
                self.writing.drop(revoked)
                self.commits.release(revoked)
            case Lost(lost):
                self._owned.forget(lost)
                self.writing.drop(lost)
                with self._task.time.busy(), self._target.called() as writer:
                    writer.revoked(lost, lost=True)
            case Sought(ticket, positions):
                self._owned.arrive(ticket, positions)
            case CommitDone():
                if not self.commits.end(event):
                    self._commit_at = min(self._commit_at, time.monotonic() + _RETRY_COMMIT_S)
            case Closed(_, trace):
                raise ConsumerFailed(trace or "it was closed")
            case _:
                assert_never(event)

    def commit_at_last(self) -> None:
        """Lets the writer finish its partitions, and commits. After an error of the writer, or a
        lost report, only what it had stored before counts. Kafka refuses a commit during a
        rebalance, so it retries."""
        until = time.monotonic() + min(_LAST_COMMIT_S, self._task.time_left())
        owned = self._owned.partitions
        with self._task.time.busy():
            failures = 0
            while self._owned.is_certain and not self.commits.settle(owned, revoked=bool(owned)):
                remaining_s = until - time.monotonic()
                if remaining_s <= 0:
                    break  # what was not flushed is read again
                failures += 1
                self._pause(min(_FLUSH_AGAIN.delay_ms(failures) / 1000, remaining_s))
        self._await_commits(until)  # one may be in flight
        while time.monotonic() < until:
            left_ms = int(max(1.0, (until - time.monotonic()) * 1000))
            if not self.commits.begin_last(owned, left_ms):
                break
            self._await_commits(until)
            if not self.commits.refused_by_rebalance:
                break
            self._pause(_REJOIN_S)
        self._task.reporting.flush()

    def _pause(self, seconds: float) -> None:
        with self._task.turn:
            self._task.turn.wait(seconds)

    def _await_commits(self, until: float) -> None:
        task, inbox = self._task, self._inbox
        while self.commits.in_flight and inbox.closed is None:
            with task.turn:
                remaining_s = until - time.monotonic()
                if remaining_s <= 0 or not task.turn.wait_for(lambda: inbox.events, remaining_s):
                    return
            for event in inbox.take_events():
                match event:
                    case CommitDone():
                        self.commits.end(event)
                    case Revoked():  # what was written is about to be committed
                        self._consumer.released(0, {})
                    case Assigned() | Lost() | Sought() | Closed():
                        pass
                    case _:
                        assert_never(event)
