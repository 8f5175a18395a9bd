"""The tasks that run on a worker: the herder's commands start and stop them, and their ends and
progress become events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Executor

from penstock.cluster import events as e
from penstock.config import worker_keys as keys
from penstock.errors import PenstockError
from penstock.flow.driver.ports import Beginning, StoppedMeanwhile
from penstock.flow.driver.reports import Committed, InterceptorFigures, TaskEnded, TaskProgress
from penstock.flow.driver.tasks import Tasks
from penstock.flow.plan import SourcePlan
from penstock.flow.spark.session import Session, SessionAborted
from penstock.flow.traces import Trace, trace_of
from penstock.host.logs import about
from penstock.ids import TaskId
from penstock.offsets.store import OPEN_TRANSACTION_S, OffsetStore
from penstock.runtime.inbox import EventInbox
from penstock.runtime.metrics import Metrics
from penstock.runtime.planning import Planner
from penstock.runtime.reload import Reloads
from penstock.runtime.task_clients import remove_last_consumer
from penstock.runtime.task_offsets import TaskOffsets
from penstock.runtime.topics import InternalTopics

log = logging.getLogger(__name__)


class RunningTasks:
    """`start` and `stop` block; their outcome becomes an event. `driver` runs them on Spark."""

    def __init__(
        self,
        session: Session,
        *,
        planner: Planner,
        offsets: OffsetStore,
        topics: InternalTopics,
        reloads: Reloads,
        metrics: Metrics,
        inbox: EventInbox,
        pool: Executor,
        exactly_once: bool,
        grace_s: Callable[[], float],
        active_topics: Callable[[str], Collection[str]],
        jvm_gone: Callable[[str], None],
    ) -> None:
        """`grace_s`: how long a task may take to stop; `active_topics`: those already recorded for
        a connector; `jvm_gone` is called with the trace when Spark's JVM has ended."""
        self._session = session
        self._planner = planner
        self._topics = topics
        self._reloads = reloads
        self._metrics = metrics
        self._inbox = inbox
        self._pool = pool
        self._exactly_once = exactly_once
        self._grace_s = grace_s
        self._active_topics = active_topics
        self._offsets = TaskOffsets(offsets, metrics)
        self.driver = Tasks(
            session,
            offsets=self._offsets,
            ended=self._on_ended,
            report=self._on_report,
            gone=jvm_gone,
        )

    def start(self, command: e.StartTask) -> None:
        """Starts a task, as soon as Spark is ready."""
        task = command.task
        try:
            self._session.get()
            plan = self._planner.flow(
                task, command.run, command.connector_config, command.task_config
            )
            log.info("Creating task %s", plan.describe())
            self._metrics.begun(plan)
            if isinstance(plan, SourcePlan):
                self._offsets.open(task, self._planner.resolved(command.connector_config))
            elif command.unclean:
                remove_last_consumer(plan)
            self.driver.start(plan, lambda: self._begin(command))
        except StoppedMeanwhile:
            pass  # the stop reports it
        except SessionAborted:
            self._offsets.close(task)
            self._inbox.post(e.TaskStopped(task, command.run))
        except Exception as error:
            self._metrics.started("task", False)
            self._offsets.close(task)
            self._failed(task, command.run, trace_of(error))
        else:
            self._metrics.started("task", True)
            self._inbox.post(e.TaskStarted(task, command.run))

    def stop(self, command: e.StopTask) -> None:
        """Stops a task; it is cancelled when the grace period expires."""
        grace_s = self._grace_s()
        # A cancelled task may still be running; no offsets are stored for it from then on.
        lease = self._offsets.find(command.task)
        over = threading.Timer(grace_s, lease.close) if lease else None
        if over is not None:
            over.daemon = True
            over.start()
        try:
            if self.driver.stop(command.task, grace_s):
                log.info("Graceful stop of task %s succeeded.", command.task)
            else:
                log.warning(
                    "Graceful stop of task %s failed: it took longer than %s. It is cancelled; "
                    "records whose offsets were not stored are processed again",
                    command.task,
                    keys.TASK_SHUTDOWN_TIMEOUT.name,
                )
        except Exception as error:
            trace = self._planner.providers.redacted(trace_of(error).text)
            log.error("failed to stop the task cleanly: %s", trace)
        if over is not None:
            over.cancel()
        self._reloads.hold(command.task, None)
        self._offsets.close(command.task)
        self._metrics.ended(command.task)
        self._inbox.post(e.TaskStopped(command.task, command.run))

    def _begin(self, command: e.StartTask) -> Beginning:
        """The stored offsets from which a source task starts. With exactly once its producer has
        initialised its transactions by now, which fenced its predecessor. A zombie of an older task
        set would have fenced its successor instead, so the task continues only if its set is still
        current at the end of the config topic (kafka-connect.md §4.8)."""
        lease = self._offsets.lease(command.task)
        if not self._exactly_once:
            return Beginning(lease.read(lambda: None))

        def check() -> None:
            start = e.CheckStart(command.task, command.run, command.generation)
            result = self._inbox.wait(self._inbox.request(start))
            if isinstance(result, e.Refused):
                raise PenstockError(result.message)

        self._topics.read_config(OPEN_TRANSACTION_S, check)
        check()
        return Beginning(lease.read(check), lease.keys())

    def _on_ended(self, ended: TaskEnded) -> None:
        lease = self._offsets.remove(ended.task)
        if lease is not None:
            self._pool.submit(lease.close)
        with about(ended.task):
            self._failed(ended.task, ended.run, ended.trace)

    def _failed(self, task: TaskId, run: int, trace: Trace) -> None:
        """The one place where a failed task is logged."""
        shown = self._planner.providers.redacted(trace.text)
        log.error("Task %s failed: %s", task, shown)
        self._inbox.post(e.TaskFailed(task, run, shown, retriable=trace.retriable))

    def _on_report(self, event: TaskProgress | Committed | InterceptorFigures) -> None:
        self._metrics.report(event)
        if isinstance(event, TaskProgress):
            self._on_progress(event)

    def _on_progress(self, progress: TaskProgress) -> None:
        counts = progress.counts
        log.debug("%d records processed, %d skipped", counts.done, counts.failed)
        active = self._active_topics(progress.task.connector)
        for topic in counts.topics:
            if topic not in active:
                self._inbox.post(e.TopicUsed(progress.task, topic))
