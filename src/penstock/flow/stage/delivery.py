"""Converts a source's records and delivers them to Kafka."""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import KafkaException

from penstock.api import SourceReader
from penstock.data.records import Records
from penstock.errors import is_transient
from penstock.flow.counts import Counts
from penstock.flow.plan import SourcePlan
from penstock.flow.stage import failures
from penstock.flow.stage.failures import Failures, FatalFailure, ToleranceExceeded
from penstock.flow.stage.hosted import Hosted, Interrupted
from penstock.flow.stage.pipeline import Pipeline
from penstock.flow.stage.retrying import Retrying
from penstock.flow.stage.sending import RecordRefused, Refused, Sending

log = logging.getLogger(__name__)

AGAIN_MAX_MS: Final = 10_000
"""The longest wait between retries while a source is unavailable."""


class Delivery:
    """The way of a task's records from its reader to Kafka; for the task's thread."""

    def __init__(
        self,
        task: Hosted,
        plan: SourcePlan,
        reader: SourceReader,
        pipeline: Pipeline,
        failures_of: Failures,
        sending: Sending,
    ) -> None:
        self._task = task
        self._plan = plan
        self._reader = reader
        self._pipeline = pipeline
        self._failures = failures_of
        self._sending = sending
        self._unsettled = 0  # records that were sent, but may not be in Kafka yet

    @property
    def poll(self) -> int:
        """The number of the poll that is being sent, since the last flush."""
        return 0

    def send_part(self, part: str) -> None:
        """Sends the records of a part. While the source is unavailable it retries, unless it has
        already read records of the part."""
        retrying = Retrying(-1, AGAIN_MAX_MS, self._task.wait_to_try_again)
        while True:
            any_sent = False
            try:
                for records in self._reader.read(part):
                    any_sent = True
                    self.send(records)
                    if self._task.stopping:
                        raise Interrupted
                return
            except Exception as error:
                if any_sent or not is_transient(error):
                    raise
                log.warning("failed to read a part, retrying: %s", error)
                self._task.count(Counts(retries=1))
                retrying.again()

    def send(self, records: Records) -> None:
        """Converts records and sends them, and reports those that fail. Raises ToleranceExceeded if
        that is not tolerated, or RecordRefused."""
        interceptors = self._task.interceptors
        converted, failed = self._pipeline.run(records)
        if interceptors and len(converted):
            converted = interceptors.on_send(converted)
        try:
            self._failures.report(failed, failures.read(records))
        except ToleranceExceeded:
            self.on_failing(failed[0].origin, converted)
            raise
        self.before_sending(converted)
        check_still_ours(self._task)
        try:
            topics = self._sending.send(converted, self.poll)
        except RecordRefused as refusal:
            self.on_refused(converted.origins[refusal.row])
            message, error = refusal.refused
            interceptors.on_acknowledgement({}, [(message.topic() or "", error.str())])
            report_refused(self._plan, self._failures, [refusal.refused])
            raise
        retries = self._pipeline.take_retries()
        self._task.count(
            Counts(len(records), failed=len(failed), retries=retries, topics=frozenset(topics))
        )
        self._unsettled += len(converted)

    def before_sending(self, records: Records) -> None:
        """Called with the records about to be sent."""

    def on_failing(self, first: int, converted: Records) -> None:
        """Called when a record fails the task before any of its batch is sent."""

    def on_refused(self, first: int) -> None:
        """Called when the producer refuses a record, and those before it are sent."""

    def flush(self) -> None:
        """Waits until Kafka has the sent records."""
        refused = self._sending.flush()
        interceptors = self._task.interceptors
        if interceptors:
            acknowledged = self._sending.take_acknowledged()
            interceptors.on_acknowledgement(
                acknowledged, [(message.topic() or "", error.str()) for message, error in refused]
            )
        report_refused(self._plan, self._failures, refused)
        lost = self._failures.flush()
        self._unsettled -= len(refused)
        self._task.count(Counts(failed=len(refused), lost=lost))

    def settle(self) -> None:
        """Counts the sent records as done: Kafka has them, and consumers can read them."""
        self._task.count(Counts(done=self._unsettled))
        self._unsettled = 0


def check_still_ours(task: Hosted) -> None:
    """Raises Interrupted when the task is cut off: another task owns its records now."""
    if task.cut_off:
        raise Interrupted


def report_refused(plan: SourcePlan, failures_of: Failures, refused: list[Refused]) -> None:
    """Reports records that Kafka refused. Raises FatalFailure if that is not tolerated; it never is
    with exactly once, as their transaction would be incomplete."""
    tolerance = plan.tolerance
    tolerated = tolerance.tolerate_all and plan.transactions is None
    if refused and not tolerated and (tolerance.tolerate_all or tolerance.dead_letters is None):
        message, error = refused[0]
        raise FatalFailure(
            f"Unrecoverable exception from producer send callback: {len(refused)} records of task "
            f"{plan.task} were refused, the first for topic '{message.topic()}': {error.str()}"
        ) from KafkaException(error)
    for message, error in refused:
        failure = failures.produce_failure(plan.connector.runs_as, KafkaException(error))
        letter = failures.refused(message)
        failures_of.report([failure], lambda origin, letter=letter: letter)
