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
from penstock.flow.traces import Trace
from penstock.host.logs import about
from penstock.ids import TaskId
from penstock.offsets.store import OPEN_TRANSACTION_S, OffsetStore
from penstock.runtime.inbox import EventInbox
from penstock.runtime.java_work import JavaWork, java_trace
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
        java: JavaWork,
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
        self._java = java
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
            if self._java.runs(command.connector_config):
                runs = self._java.start_task(command, lambda: self._check_current(command))
                self._metrics.started("task", runs)
                return
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
            self._failed(task, command.run, java_trace(error))
        else:
            self._metrics.started("task", True)
            self._inbox.post(e.TaskStarted(task, command.run))

    def stop(self, command: e.StopTask) -> None:
        """Stops a task; it is cancelled when the grace period expires."""
        if self._stopped_in_java(command):
            return
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
            trace = self._planner.providers.redacted(java_trace(error).text)
            log.error("failed to stop the task cleanly: %s", trace)
        if over is not None:
            over.cancel()
        self._reloads.hold(command.task, None)
        self._offsets.close(command.task)
        self._metrics.ended(command.task)
        self._inbox.post(e.TaskStopped(command.task, command.run))

    def close(self) -> None:
        """Stops all slots, and the Java host."""
        self.driver.close()
        self._java.close()

    def _stopped_in_java(self, command: e.StopTask) -> bool:
        try:
            if not self._java.stop_task(command.task, command.run):
                return False
        except Exception as error:
            trace = self._planner.providers.redacted(java_trace(error).text)
            log.error("failed to stop the task cleanly: %s", trace)
        self._reloads.hold(command.task, None)
        self._inbox.post(e.TaskStopped(command.task, command.run))
        return True

    def _begin(self, command: e.StartTask) -> Beginning:
        """The stored offsets from which a source task starts. With exactly once its producer has
        initialised its transactions by now, which fenced its predecessor. A zombie of an older task
        set would have fenced its successor instead, so the task continues only if its set is still
        current at the end of the config topic (kafka-connect.md §4.8)."""
        lease = self._offsets.lease(command.task)
        if not self._exactly_once:
            return Beginning(lease.read(lambda: None))

        check = self._check_current(command)
        return Beginning(lease.read(check), lease.keys())

    def _check_current(self, command: e.StartTask) -> Callable[[], None]:
        """Checks that an exactly-once task belongs to the current task set, at the end of the
        config topic; what it returns checks that again. Raises the refusal."""

        def check() -> None:
            start = e.CheckStart(command.task, command.run, command.generation)
            result = self._inbox.wait(self._inbox.request(start))
            if isinstance(result, e.Refused):
                raise PenstockError(result.message)

        self._topics.read_config(OPEN_TRANSACTION_S, check)
        check()
        return check

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
