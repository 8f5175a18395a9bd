"""Converts and produces a source's records: of a whole task, or of one part of a poll."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException

from penstock.api import Offsets, Primitive, SourceContext, SourceReader
from penstock.data.records import Records
from penstock.flow.counts import Counts
from penstock.flow.plan import SourcePlan
from penstock.flow.stage import failures
from penstock.flow.stage.failures import Failures, TaskFailed, ToleranceExceeded
from penstock.flow.stage.hosted import Hosted, HostPort, Interrupted
from penstock.flow.stage.intercepting import Interceptors
from penstock.flow.stage.pipeline import (
    Backoff,
    Failure,
    Pipeline,
    Stage,
    retriable,
    source_steps,
)
from penstock.flow.stage.sending import RecordRefused, Refused, Sending
from penstock.flow.stage.tap import Tap
from penstock.ids import TaskId

log = logging.getLogger(__name__)

AGAIN_MAX_MS: Final = 10_000
"""The longest wait between retries while a source is unavailable."""


class Producing(Hosted):
    """Converts and produces a source's records."""

    def __init__(self, host: HostPort, id: int, plan: SourcePlan) -> None:
        super().__init__(host, id, plan.task)
        self._plan = plan
        self._sending: Sending
        self._reader: SourceReader
        self._pipeline = Pipeline(
            source_steps(plan.conversion), plan.tolerance, self.wait_to_try_again
        )
        self._failures = Failures(plan.task, plan.tolerance)
        self._woken = False
        self._polls = 0  # sent, and not acknowledged
        self._unsettled = 0  # records that were sent, but may not be in Kafka yet

    def watch(self, tap: Tap) -> None:
        """Shows the next records to `tap`."""
        self._pipeline.tap = tap

    def wake(self) -> None:
        """Ends the reader's wait, or its next one."""
        with self.turn:
            self._woken = True
            self.turn.notify_all()

    def wait_to_be_woken(self, seconds: float) -> bool:
        """Waits; True when the task is to stop, False early when it was woken."""
        with self.turn:
            self.turn.wait_for(lambda: self.stopping or self._woken, seconds)
            self._woken = False
            return self.stopping

    def _open(self, context: SourceContext) -> None:
        self.interceptors = Interceptors(self._plan.interceptors, self)
        connector = self._plan.connector()
        connector.check_installed(self._plan.config)
        self._reader = connector.open(self._plan.config, context)

    def on_cut(self) -> None:
        """It sends, stores and commits nothing any more: `say`, `_check_still_ours`."""
        if hasattr(self, "_sending"):
            self._sending.drop()

    def _check_still_ours(self) -> None:
        """Raises Interrupted when the task is cancelled: another task owns its records now."""
        if self.cut_off:
            raise Interrupted

    def _send_part(self, part: str) -> None:
        """Sends the records of a part. While the source is unavailable it retries, unless it has
        already read records of the part."""
        backoff = Backoff(-1, AGAIN_MAX_MS, self.wait_to_try_again)
        while True:
            any_sent = False
            try:
                for records in self._reader.read(part):
                    any_sent = True
                    self._send_records(records)
                    if self.stopping:
                        raise Interrupted
                return
            except Exception as error:
                if any_sent or not retriable(error):
                    raise
                log.warning("failed to read a part, retrying: %s", error)
                self.count(Counts(retries=1))
                backoff.again()

    def _send_records(self, records: Records) -> None:
        converted, failed = self.interceptors.convert(self._pipeline, records)
        if self.interceptors and len(converted):
            converted = self.interceptors.on_send(converted)
        try:
            self._failures.report(failed, failures.read(records))
        except ToleranceExceeded:
            self._on_failing(failed[0].origin, converted)
            raise
        self._before_sending(converted)
        self._check_still_ours()
        try:
            topics = self._sending.send(converted, self._polls)
        except RecordRefused as refusal:
            self._on_refused(converted.origins[refusal.row])
            message, error = refusal.refused
            self.interceptors.on_acknowledgement({}, [(message.topic() or "", error.str())])
            report_refused(self._plan, self._failures, [refusal.refused])
            raise
        retries = self._pipeline.take_retries()
        self.count(
            Counts(len(records), failed=len(failed), retries=retries, topics=frozenset(topics))
        )
        self._unsettled += len(converted)

    def _on_failing(self, first: int, converted: Records) -> None:
        """Called when a record fails the task before any of its batch is sent."""

    def _on_refused(self, first: int) -> None:
        """Called when the producer refuses a record, and those before it are sent."""

    @property
    def tolerates_errors(self) -> bool:
        return self._plan.tolerance.tolerate_all

    def report(self, record: Records, error: Exception) -> None:
        """Reports a record that the reader cannot build; raises ToleranceExceeded unless that is
        tolerated."""
        self.count(Counts(records=1, failed=1))
        failure = Failure(0, Stage.TASK_POLL, _task_class(self._plan), error)
        self._failures.report([failure], failures.read(record))

    def _before_sending(self, records: Records) -> None:
        """Called with the records about to be sent."""

    def _flush(self) -> None:
        """Waits until Kafka has the sent records."""
        refused = self._sending.flush()
        if self.interceptors:
            acknowledged = self._sending.take_acknowledged()
            self.interceptors.on_acknowledgement(
                acknowledged, [(message.topic() or "", error.str()) for message, error in refused]
            )
        report_refused(self._plan, self._failures, refused)
        lost = self._failures.flush()
        self._unsettled -= len(refused)
        self.count(Counts(failed=len(refused), lost=lost))

    def _settle(self) -> None:
        """Counts the sent records as done: Kafka has them, and consumers can read them."""
        self.count(Counts(done=self._unsettled))
        self._unsettled = 0

    def _release(self) -> None:
        """Closes everything; drops records that were sent and not flushed."""
        if hasattr(self, "_sending"):
            self._sending.close()
        self._pipeline.close()
        if hasattr(self, "_reader"):
            self._reader.close()


class PartTask(Producing):
    """Reads one part of a poll, on any slot with room."""

    def __init__(self, host: HostPort, id: int, plan: SourcePlan, part: str) -> None:
        super().__init__(host, id, plan)
        self._part = part

    def work(self) -> None:
        self._sending = Sending(self._plan, self._check_still_ours)
        with self.busy():
            self._open(PartContext(self))
            self._send_part(self._part)
            self._flush()
            self._settle()

    def finish(self, *, failed: bool) -> None:
        try:
            if failed and not self.cut_off:
                self._failures.flush()
        finally:
            self._release()


def report_refused(plan: SourcePlan, failures_of: Failures, refused: list[Refused]) -> None:
    """Reports records that Kafka refused. Raises TaskFailed if that is not tolerated; it never is
    with exactly once, as their transaction would be incomplete."""
    tolerance = plan.tolerance
    tolerated = tolerance.tolerate_all and plan.transactions is None
    if refused and not tolerated and (tolerance.tolerate_all or tolerance.dead_letters is None):
        message, error = refused[0]
        raise TaskFailed(
            f"Unrecoverable exception from producer send callback: {len(refused)} records of task "
            f"{plan.task} were refused, the first for topic '{message.topic()}': {error.str()}"
        ) from KafkaException(error)
    class_name = _task_class(plan)
    for message, error in refused:
        failure = failures.produce_failure(class_name, KafkaException(error))
        letter = failures.refused(message)
        failures_of.report([failure], lambda origin, letter=letter: letter)


def _task_class(plan: SourcePlan) -> str:
    plugin = plan.connector.plugin
    return plugin.task_class or plugin.class_name


class PartContext:
    """The `SourceContext` of a part's reader: without stored offsets."""

    stored_offsets: Offsets = ()

    def __init__(self, task: Producing) -> None:
        self._hosted = task

    @property
    def task(self) -> TaskId:
        return self._hosted.task

    @property
    def is_running(self) -> bool:
        return not self._hosted.stopping

    def wait(self, seconds: float) -> bool:
        return self._hosted.wait_to_be_woken(seconds)

    def wake(self) -> None:
        self._hosted.wake()

    @property
    def tolerates_errors(self) -> bool:
        return self._hosted.tolerates_errors

    def report(self, record: Records, error: Exception) -> None:
        self._hosted.report(record, error)

    def request_commit(self) -> None:
        """Does nothing: the task commits the offsets of its parts."""

    def stored_offset(self, partition: Mapping[str, Primitive]) -> Mapping[str, Primitive] | None:
        return None
