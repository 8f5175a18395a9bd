"""The running tasks of a worker: started from plans, stopped by name, watched for their end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.api import Offsets
from penstock.flow import failures
from penstock.flow.engine import Report, Session, Standing, readable
from penstock.flow.lags import Lags
from penstock.flow.plan import FlowPlan, SinkPlan, SourcePlan
from penstock.flow.sink import SinkTask
from penstock.flow.source import Begin, SourceTask
from penstock.ids import TaskId

_WATCH_S: Final = 1  # how long one look for queries that ended lasts


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task ended without being asked to; `trace` says why."""

    task: TaskId
    run: int
    trace: str


class StoreOffsets(Protocol):
    """Stores source offsets; returns when they are stored, raises when they cannot be."""

    def __call__(self, task: TaskId, offsets: Offsets) -> None: ...


class EncodeOffsets(Protocol):
    """The records of the offsets topic that store source offsets."""

    def __call__(self, task: TaskId, offsets: Offsets) -> Sequence[tuple[bytes, bytes | None]]: ...


class Tasks:
    """`ended`, `report` and `gone` are called from threads of ours; they must not block.

    `gone` is called once if the JVM dies: nothing runs any more, and nothing can be started.
    """

    def __init__(
        self,
        session: Session,
        *,
        store: StoreOffsets,
        encode: EncodeOffsets,
        ended: Callable[[TaskEnded], None],
        report: Report,
        gone: Callable[[str], None],
    ) -> None:
        self._session = session
        self._store = store
        self._encode = encode
        self._ended = ended
        self._report = report
        self._gone = gone
        self._lock = threading.Lock()
        self._running: dict[TaskId, tuple[int, SourceTask | SinkTask]] = {}
        self._lags = Lags()
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watch_queries, name="query-watch", daemon=True)
        self._watch.start()

    def start(self, plan: FlowPlan, begin: Begin) -> None:
        """Starts one task; returns when it runs, raises when it cannot. `begin` says where a source
        task starts; a sink's group knows it."""
        spark = self._session.get()
        if plan.tolerance.dead_letters is not None:
            failures.ensure_topic(plan.tolerance.dead_letters)
        task, run = plan.task, plan.run

        def failed(trace: str) -> None:
            with self._lock:
                if self._running.get(task, (0, None))[0] == run:
                    del self._running[task]
            self._ended(TaskEnded(task, run, trace))

        running: SourceTask | SinkTask
        match plan:
            case SourcePlan():
                running = SourceTask(
                    spark,
                    plan,
                    begin,
                    lambda offsets: self._store(task, offsets),
                    lambda offsets: self._encode(task, offsets),
                    failed,
                    self._report,
                )
            case SinkPlan():
                running = SinkTask(spark, plan, failed, self._report)
        with self._lock:
            self._running[task] = (run, running)
        try:
            running.start()
        except BaseException:
            with self._lock:
                self._running.pop(task, None)
            raise

    def stop(self, task: TaskId, timeout_s: float) -> bool:
        """Ends a task; False when a batch had to be cut off (it will be done again)."""
        with self._lock:
            _, running = self._running.pop(task, (0, None))
        return running is None or running.stop(timeout_s)

    def standings(self, timeout_s: float) -> dict[TaskId, Standing]:
        """How every running task stands; without what Kafka does not tell in so much time."""
        with self._lock:
            running = {task: each for task, (_, each) in self._running.items()}
        sinks = {
            task: (each.settings, each.positions)
            for task, each in running.items()
            if isinstance(each, SinkTask)
        }
        behind = self._lags.behind(sinks, timeout_s)
        return {
            task: Standing(behind.get(task, {}), each.progress) for task, each in running.items()
        }

    def close(self) -> None:
        """Ends the watching; tasks are to be stopped before, and Spark after."""
        self._closing.set()
        self._watch.join(_WATCH_S + 1)

    def _watch_queries(self) -> None:
        while not self._closing.is_set():
            if not self._session.ready:
                self._closing.wait(0.2)
                continue
            streams = self._session.get().streams
            with contextlib.suppress(Exception):  # a query's own error; its task knows
                streams.awaitAnyTermination(_WATCH_S)
            try:
                streams.resetTerminated()
            except Exception as error:
                if not self._closing.is_set():
                    self._gone(readable(error))
                return
