"""The stored offsets of the worker's running source tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.api import Offsets
from penstock.cluster.records import RawProps
from penstock.errors import PenstockError
from penstock.flow.driver.ports import Storing
from penstock.ids import TaskId
from penstock.offsets.store import Lease, OffsetStore
from penstock.runtime.metrics import Metrics


class TaskOffsets:
    """A lease on the offset store for each running source task (an `OffsetsPort`)."""

    def __init__(self, offsets: OffsetStore, metrics: Metrics) -> None:
        self._offsets = offsets
        self._metrics = metrics
        self._leases: dict[TaskId, Lease] = {}

    def open(self, task: TaskId, config: RawProps) -> None:
        """Begins the lease of a task that starts; `config` is its connector's, resolved."""
        self._leases[task] = self._offsets.lease(task, config)

    def find(self, task: TaskId) -> Lease | None:
        """The lease of a task; None for a sink task, and after the end."""
        return self._leases.get(task)

    def lease(self, task: TaskId) -> Lease:
        """The lease of a running task; raises when the task has ended."""
        lease = self._leases.get(task)
        if lease is None:
            raise PenstockError(f"Task {task} has ended; its offsets are no longer stored.")
        return lease

    def remove(self, task: TaskId) -> Lease | None:
        """Forgets a lease and returns it, for the caller to close."""
        return self._leases.pop(task, None)

    def close(self, task: TaskId) -> None:
        """Ends the lease of a task, if it has one."""
        lease = self.remove(task)
        if lease is not None:
            lease.close()

    def store(self, task: TaskId, offsets: Offsets) -> Storing:
        """The wait ends when Kafka has stored the offsets, however long that takes. A stop does not
        wait for it: the task is then cancelled, and reads the same records again."""
        began = time.monotonic()
        with self._measured(task, began, failures_only=True):
            lease = self.lease(task)
            wait = lease.send(offsets)

        def stored() -> None:
            with self._measured(task, began):
                wait()

        return Storing(stored, apart=lease.has_own_topic)

    def forget(self, task: TaskId, offsets: Offsets) -> None:
        self.lease(task).forget(offsets)

    def committed(self, task: TaskId, offsets: Offsets) -> None:
        self.lease(task).committed(offsets)

    @contextmanager
    def _measured(
        self, task: TaskId, began: float, *, failures_only: bool = False
    ) -> Iterator[None]:
        ok = False
        try:
            yield
            ok = True
        finally:
            if not (ok and failures_only):
                self._metrics.stored(task, ok, (time.monotonic() - began) * 1000)
