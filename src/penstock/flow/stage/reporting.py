"""The failed records of a sink task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.api import RecordRef
from penstock.flow.counts import Counts
from penstock.flow.plan import SinkPlan
from penstock.flow.stage.batches import Originals
from penstock.flow.stage.failures import Failures, Original, ToleranceExceeded
from penstock.flow.stage.owned import Owned
from penstock.flow.stage.pipeline import Failure, Stage


class Reporting:
    """Reports failed records; any thread may call it."""

    def __init__(self, plan: SinkPlan, owned: Owned, count: Callable[[Counts], None]) -> None:
        self.class_name = plan.connector.runs_as
        self._failures = Failures(plan.task, plan.tolerance)
        self._lock = threading.Lock()
        """Guards the failures."""
        self._owned = owned
        self._count = count
        self.error: ToleranceExceeded | None = None
        """The error of a record that the writer has reported, and that fails the task."""

    def report(self, failures: Sequence[Failure], original: Original) -> None:
        """See `Failures.report`."""
        with self._lock:
            self._failures.report(failures, original)

    def report_written(self, record: RecordRef, error: Exception) -> None:
        """See `SinkContext.report`."""
        originals = record.source
        assert isinstance(originals, Originals), "the record is one that this task was given"
        try:
            self.report([self.failure(record.row, error)], originals)
        except ToleranceExceeded as exceeded:
            self._owned.bar(originals.chunk(record.row).partition, record.offset)
            self.error = self.error or exceeded
            raise
        self._count(Counts(failed=1, done=-1))

    def failure(self, origin: int, error: Exception) -> Failure:
        """Why the writer could not write a record."""
        return Failure(origin, Stage.TASK_PUT, self.class_name, error)

    def flush(self) -> None:
        """Waits until the dead letters are in Kafka. Raises FatalFailure if Kafka has refused one:
        its record is nowhere, and must not be committed."""
        with self._lock:
            lost, loss = self._failures.flush(), self._failures.loss
        if lost:
            self._count(Counts(lost=lost))
        if loss is not None:
            self._owned.doubt()
            raise loss
