"""What the tasks of a source have in common, and the task that reads one part of a poll."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.api import Offsets, Primitive, SourceContext, SourceReader
from penstock.data.records import Records
from penstock.flow.counts import Counts
from penstock.flow.plan import SourcePlan
from penstock.flow.stage import failures
from penstock.flow.stage.delivery import Delivery, check_still_ours
from penstock.flow.stage.failures import Failures
from penstock.flow.stage.hosted import Hosted, HostPort
from penstock.flow.stage.intercepting import Interceptors
from penstock.flow.stage.pipeline import Failure, Pipeline, Stage, source_steps
from penstock.flow.stage.sending import Sending
from penstock.flow.stage.tap import Tap
from penstock.ids import TaskId


class Producing(Hosted):
    """A task with a reader and a producer, which it closes in the end."""

    def __init__(self, host: HostPort, id: int, plan: SourcePlan) -> None:
        super().__init__(host, id, plan.task)
        self.plan = plan
        self.pipeline = Pipeline(
            source_steps(plan.conversion), plan.tolerance, self.wait_to_try_again
        )
        self.failures = Failures(plan.task, plan.tolerance)
        self._sending: Sending | None = None
        self._reader: SourceReader | None = None
        self._woken = False
        self.opened.callback(self.pipeline.close)
        self.opened.callback(self.close_client)

    def watch(self, tap: Tap) -> None:
        """Shows the next records to `tap`."""
        self.pipeline.tap = tap

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

    def open_sending(self) -> Sending:
        """Creates the producer."""
        self._sending = sending = Sending(self.plan, lambda: check_still_ours(self))
        return sending

    def open_reader(self, context: SourceContext) -> SourceReader:
        self.interceptors = Interceptors(self.plan.interceptors, self)
        self.pipeline.observer = self.interceptors or None
        connector = self.plan.connector.load()()
        connector.check_installed(self.plan.config)
        self._reader = reader = connector.open(self.plan.config, context)
        return reader

    def on_cut(self) -> None:
        """It sends, stores and commits nothing any more: `say`, `check_still_ours`."""
        if self._sending is not None:
            self._sending.drop()

    @property
    def tolerates_errors(self) -> bool:
        return self.plan.tolerance.tolerate_all

    def report(self, record: Records, error: Exception) -> None:
        """Reports a record that the reader cannot build; raises ToleranceExceeded unless that is
        tolerated."""
        self.count(Counts(records=1, failed=1))
        failure = Failure(0, Stage.TASK_POLL, self.plan.connector.runs_as, error)
        self.failures.report([failure], failures.read(record))

    def close_client(self) -> None:
        """Drops records that were sent and not flushed, and closes the producer and the reader."""
        if self._sending is not None:
            self._sending.close()
        if self._reader is not None:
            self._reader.close()


class PartTask(Producing):
    """Reads one part of a poll, on any slot with room."""

    def __init__(self, host: HostPort, id: int, plan: SourcePlan, part: str) -> None:
        super().__init__(host, id, plan)
        self._part = part

    def work(self) -> None:
        sending = self.open_sending()
        with self.time.busy():
            reader = self.open_reader(PartContext(self))
            delivery = Delivery(self, self.plan, reader, self.pipeline, self.failures, sending)
            delivery.send_part(self._part)
            delivery.flush()
            delivery.settle()

    def finish(self, *, failed: bool) -> None:
        if failed and not self.cut_off:
            self.failures.flush()


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
