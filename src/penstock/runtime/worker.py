"""A worker: the loop that turns events into steps and commands into effects.

One thread owns the herder's state; the inbox is the only lock. Connector code and calls to Spark
run in a pool and come back as events.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol, TypeVar, assert_never

from penstock.api import Offsets
from penstock.clock import Clock
from penstock.cluster import events as e
from penstock.cluster import protocol
from penstock.cluster.herder import step
from penstock.cluster.herder.state import HerderState, Settings, next_wakeup
from penstock.cluster.protocol import GroupBytesMalformed
from penstock.cluster.records import (
    VERSIONED,
    RawProps,
    StatusRecord,
    TaskStatus,
    TopicStatus,
    encode_config,
    encode_status,
)
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.config.define import Config
from penstock.errors import PenstockError
from penstock.flow.driver.ports import Beginning, StoppedMeanwhile, Storing
from penstock.flow.driver.reports import Committed, TaskEnded, TaskProgress
from penstock.flow.driver.tasks import Tasks
from penstock.flow.plan import SourcePlan
from penstock.flow.spark.session import Session, SessionAborted
from penstock.flow.traces import Trace, trace_of
from penstock.host.logs import about
from penstock.ids import TaskId
from penstock.kafka import admin, clients
from penstock.kafka.fencing import FencedWriter, fence
from penstock.kafka.group import Callbacks, Figure, WorkerGroup
from penstock.kafka.log import START_S, CompactedLog, Entry
from penstock.offsets.admin import OffsetAdmin
from penstock.offsets.store import (
    COMMITTED,
    OPEN_TRANSACTION_S,
    PRODUCER,
    Lease,
    Log,
    OffsetStore,
    Receive,
    connector_admin,
    offsets_topic,
)
from penstock.plugins.registry import Kind, Registry
from penstock.runtime.herder_log import HerderLog
from penstock.runtime.instances import InstanceContext, Instances
from penstock.runtime.loggers import Loggers
from penstock.runtime.metrics import Metrics, Slots
from penstock.runtime.planning import Planner
from penstock.runtime.reload import Reloads
from penstock.runtime.task_clients import remove_last_consumer

log = logging.getLogger(__name__)

T = TypeVar("T")

_ANSWER_S: Final = 10.0  # how long the group waits for the loop; a turn takes milliseconds
_LOOK_S: Final = 0.1  # how soon the group notices that the loop has ended
_STANDINGS_S: Final = 3.0  # how long a scrape waits for figures from Kafka
_POOL: Final = 16
_STARTS: Final = 4  # tasks that start side by side; each makes Spark start Python processes
_REQUESTS: Final = 16  # to the leader side by side; each may wait for its time-out


class Leader(Protocol):
    """Requests of this worker to the leader at a URL. Raises when a request fails: an error with an
    `http_status` where the leader refused it."""

    def put_tasks(
        self, url: str, connector: str, configs: Sequence[Mapping[str, str | None]]
    ) -> None:
        """Submits a connector's task set."""

    def fence(self, url: str, connector: str) -> None:
        """Requests zombie fencing for a connector."""


class Group(Protocol):
    """A worker's membership of its group; see `WorkerGroup`."""

    def join(self) -> None: ...

    def step_out(self) -> None: ...

    def leave(self, timeout_s: float) -> None: ...

    def figures(self) -> Sequence[Figure]: ...


class Alone(Protocol):
    """Replaces topics and group in standalone mode; see `standalone`."""

    def open(self, config: Receive, status: Receive, offsets: OffsetStore) -> tuple[Log, Log]:
        """Makes the config log, the status log and the offset store's log. Raises StartupFailed."""

    def group(self, callbacks: Callbacks) -> Group:
        """A group of one."""


class _TaskOffsets:
    """The worker's offset store, for its running tasks."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def store(self, task: TaskId, offsets: Offsets) -> Storing:
        """Kafka has stored the offsets when the wait is over, however long that takes. A stop does
        not wait for it: the task is cut off then, and reads the same records again."""
        began = time.monotonic()
        with self._measured(task, began, failures_only=True):
            lease = self._worker.lease(task)
            wait = lease.send(offsets)

        def stored() -> None:
            with self._measured(task, began):
                wait()

        return Storing(stored, apart=lease.has_own_topic)

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
                self._worker.metrics.stored(task, ok, (time.monotonic() - began) * 1000)

    def forget(self, task: TaskId, offsets: Offsets) -> None:
        self._worker.lease(task).forget(offsets)

    def committed(self, task: TaskId, offsets: Offsets) -> None:
        self._worker.lease(task).committed(offsets)


class Worker:
    """One member of a cluster, from `start` to `stop`.

    `ended` is set when the worker is down; `failure` is the error that ended it, if one did.
    """

    def __init__(
        self,
        config: Config,
        registry: Registry,
        *,
        url: str,
        worker_id: str,
        clock: Clock,
        leader: Leader,
        alone: Alone | None = None,
    ) -> None:
        self.config = config
        self.registry = registry
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self._clock = clock
        self._leader = leader
        self._alone = alone
        self._leaving = threading.Event()
        self._inbox: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
        self._exactly_once = worker_config.exactly_once(config)
        self._state = HerderState(
            Settings(
                url=url,
                worker_id=worker_id,
                max_delay_ms=config[keys.SCHEDULED_REBALANCE_MAX_DELAY],
                sync_timeout_ms=config[keys.WORKER_SYNC_TIMEOUT],
                unsync_backoff_ms=config[keys.WORKER_UNSYNC_BACKOFF],
                key_ttl_ms=config[keys.INTER_WORKER_KEY_TTL] or 1 << 60,
                key_algorithm=config[keys.INTER_WORKER_KEY_GENERATION_ALGORITHM],
                topic_tracking=config[keys.TOPIC_TRACKING_ENABLE],
                transactional=config[keys.EXACTLY_ONCE_SOURCE_SUPPORT].lower() != "disabled",
                exactly_once=self._exactly_once,
                is_source=self._is_source,
                restarts=lambda config: self.planner.restarts(config),
            )
        )
        self._client = clients.admin(config.props).settings
        self._admin, self.kafka_cluster_id = admin.connect(self._client)
        self._session = Session(
            worker_config.spark_settings(config),
            log.info,
            registry.roots,
            encrypted=worker_config.kafka_encrypted(config),
        )
        self._offsets = OffsetStore(config)
        self.loggers = Loggers(clock)
        self.metrics = Metrics(clock)
        self._instances = Instances()
        self._leases: dict[TaskId, Lease] = {}
        self._reloads = Reloads(self._reload)
        self.planner = Planner(config, registry, self._reloads.hold)
        self.offset_admin = OffsetAdmin(config, self._offsets, self.planner.resolved)
        self._grace_s = config[keys.TASK_SHUTDOWN_TIMEOUT] / 1000
        self._session_end: float | None = None  # known while the group cannot be reached
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix="work")
        self._starts = ThreadPoolExecutor(_STARTS, thread_name_prefix="start")
        self._requests = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="leader")
        # Writes and claims of the leader, one after the other.
        self._leading = ThreadPoolExecutor(1, thread_name_prefix="leading")
        self._tasks = Tasks(
            self._session,
            offsets=_TaskOffsets(self),
            ended=self._on_ended,
            report=self._on_report,
            gone=self._on_jvm_gone,
        )
        self._config_log: Log
        self._status_log: Log
        self._config_writer: FencedWriter
        self._group = self._make_group()
        self._loop = threading.Thread(target=self._run, name="herder", daemon=True)

    # ── from outside ─────────────────────────────────────────────────────────────────────────

    @property
    def state(self) -> HerderState:
        """The herder's state at this moment, an immutable value."""
        return self._state

    def exposition(self) -> bytes:
        """All metrics of this worker, in Prometheus' text format. Takes up to _STANDINGS_S when
        Kafka does not answer."""
        standings, figures = self._tasks.standings(_STANDINGS_S), self._group.figures()
        return self.metrics.exposition(
            self._state,
            self.registry,
            standings,
            figures,
            Slots(self._tasks.slots(), self._tasks.moved, self._tasks.slots_died),
        )

    def _is_source(self, config: RawProps) -> bool:
        found = self.registry.find_connector(config.get("connector.class"))
        return found is not None and found.kind is Kind.SOURCE

    @property
    def started(self) -> bool:
        """Whether the worker has completed startup (KIP-1017)."""
        return self._state.membership.member is not None

    @property
    def exactly_once(self) -> bool:
        """Whether source tasks deliver exactly once."""
        return self._exactly_once

    def read_config_to_end(self, timeout_ms: int | None = None) -> bool:
        """Reads the config topic to its end; False if that takes longer than the time-out, by
        default `worker.sync.timeout.ms`."""
        if timeout_ms is None:
            timeout_ms = self._state.settings.sync_timeout_ms
        try:
            self._config_log.read_to_end(timeout_ms / 1000)
        except PenstockError as error:
            log.warning("%s", error)
            return False
        return True

    def submit(self, operation: e.Operation) -> Future[e.Result]:
        """Requests an operation; the future holds the result, or stays empty if the worker ends."""
        answer: Future[e.Result] = Future()
        self._post(e.Requested(answer, operation))
        return answer

    def start(self) -> None:
        """Starts everything; returns once the internal topics have been checked.

        The group is joined and Spark warms up in the background. Raises StartupFailed.
        """
        self._open_logs()
        self._loop.start()
        threading.Thread(target=self._warm_up, name="spark-start", daemon=True).start()
        threading.Thread(target=self._read_logs, name="logs-start", daemon=True).start()

    def stop(self) -> None:
        """Starts an orderly shutdown; `ended` is set when it is complete."""
        self._session.abort()
        self._post(e.StopRequested())

    # ── the loop ─────────────────────────────────────────────────────────────────────────────

    def _post(self, event: e.Event) -> None:
        match event:
            case e.MetadataWanted():
                self.metrics.round_begins()
            case e.Joined():
                self.metrics.round_ends()
            case _:
                pass
        self._inbox.put(event)

    def _run(self) -> None:
        told = HerderLog()
        try:
            while not self._state.membership.left:
                event, before = self._next_event(), self._state
                self._state, commands = step(before, event, self._clock.now())
                told.observe(before, event, self._state, commands)
                running = self._state.running
                if running.tasks is not before.running.tasks:
                    self.metrics.phases(running.tasks)
                if running.connectors is not before.running.connectors:
                    self._instances.keep(running.connectors)
                for command in commands:
                    self._perform(command)
        except BaseException as error:  # an impossible state: stop, other workers take over
            log.exception("uncaught error in the herder; the worker stops")
            self.failure = error
        finally:
            self._leaving.set()
            self._shut_down()

    def _next_event(self) -> e.Event:
        wakeup = next_wakeup(self._state)
        timeout = None if wakeup is None else max(0, wakeup - self._clock.now()) / 1000
        try:
            return self._inbox.get(timeout=min(timeout, 60.0) if timeout is not None else 60.0)
        except queue.Empty:
            return e.Tick()

    def _perform(self, command: e.Command) -> None:
        match command:
            case e.AppendConfig() if command.as_leader:
                self._leading.submit(self._write_config, command)
            case e.AppendConfig():
                self._append_config(command)
            case e.AcquireWriteAccess():
                self._leading.submit(self._acquire_write_access, command)
            case e.AppendStatus():
                self._status_log.append(*encode_status(self._versioned(command.record)))
            case e.NoteSkipped():
                where = "" if command.at is None else f" at offset {command.at}"
                log.error(
                    "ignoring a record of the %s topic%s: %s",
                    command.topic,
                    where,
                    command.reason,
                )
            case e.ReadConfigToEnd():
                self._pool.submit(self._read_config, command)
            case e.JoinGroup():
                self._group.join()
            case e.BackOff():
                log.warning(
                    "failed to read to the end of the config topic within "
                    f"{keys.WORKER_SYNC_TIMEOUT.name}; leaving the group, will rejoin after a "
                    "backoff"
                )
                self._group.step_out()
            case e.TellMetadata():
                _tell(command.reply, command.metadata)
            case e.TellAssignment():
                _tell(command.reply, command.shares)
            case e.RefuseAssignment():
                _refuse(command.reply, GroupBytesMalformed(command.reason))
            case e.Answer():
                _tell(command.reply, command.result)
            case e.MakeSessionKey():
                bits = self.config[keys.INTER_WORKER_KEY_SIZE] or 256
                algorithm = self.config[keys.INTER_WORKER_KEY_GENERATION_ALGORITHM]
                self._post(e.SessionKeyMade(secrets.token_bytes(bits // 8), algorithm))
            case e.StartConnector() | e.AskConnector():
                self._pool.submit(about(command.connector)(self._plan), command)
            case e.ForwardTasks():
                self._requests.submit(about(command.connector)(self._forward_tasks), command)
            case e.FenceProducers():
                self._pool.submit(about(command.connector)(self._fence_producers), command)
            case e.ForwardFence():
                self._requests.submit(about(command.connector)(self._forward_fence), command)
            case e.StartTask():
                self._starts.submit(about(command.task)(self._start_task), command)
            case e.StopTask():
                self._pool.submit(about(command.task)(self._stop_task), command)
            case e.ApplyLevel():
                self._apply_level(command)
            case e.LeaveGroup():
                pass  # the loop ends by itself; shutting down leaves the group
            case _:
                assert_never(command)

    def _apply_level(self, command: e.ApplyLevel) -> None:
        try:
            self.loggers.set_level(command.namespace, command.level)
        except PenstockError as error:  # written by a worker that knows other levels
            log.warning("failed to set the level of logger '%s': %s", command.namespace, error)

    def _versioned(self, record: StatusRecord) -> StatusRecord:
        """The record with the plugin's version, in the states in which a 4.2.0 worker adds it."""
        if isinstance(record, TopicStatus) or record.status is None:
            return record
        named = record.task.connector if isinstance(record, TaskStatus) else record.connector
        if record.status.state not in VERSIONED:
            return record
        config = self._state.cluster.config(named) or {}
        version = self.registry.version(config.get("connector.class"))
        return replace(record, status=replace(record.status, version=version))

    # ── effects that take time ───────────────────────────────────────────────────────────────

    def _append_config(self, command: e.AppendConfig) -> None:
        sent = [self._config_log.append(*encode_config(record)) for record in command.records]

        lock = threading.Lock()
        open_sends = len(sent)

        def stored(_: Future[tuple[int, int]]) -> None:
            nonlocal open_sends
            with lock:  # the first of them may be done here, and later ones in Kafka's thread
                open_sends -= 1
                if open_sends:
                    return
            failures = (future.exception() for future in sent)
            error = next((failure for failure in failures if failure is not None), None)
            offset = -1 if error else max(future.result()[1] for future in sent)
            self._post(e.Appended(command.ticket, offset, str(error) if error else None))

        for future in sent:
            future.add_done_callback(stored)

    def _write_config(self, command: e.AppendConfig) -> None:
        rows = [encode_config(record) for record in command.records]
        try:
            offset = self._config_writer.write(rows)
        except PenstockError as error:
            log.warning(
                "Failed to write to config topic as leader; will rejoin group if necessary and, if "
                "still leader, attempt to reclaim write privileges for the config topic: %s",
                error,
            )
            self._post(e.Appended(command.ticket, -1, str(error), fenced=True))
        else:
            self._post(e.Appended(command.ticket, offset))

    def _acquire_write_access(self, command: e.AcquireWriteAccess) -> None:
        try:
            self._config_writer.claim()
        except PenstockError as error:
            log.warning("Unable to claim write privileges for config topic: %s", error)
            self._post(e.WriteAccessAcquired(command.ticket, str(error)))
        else:
            log.info("elected leader; acquired write access to the config topic")
            self._post(e.WriteAccessAcquired(command.ticket))

    def _read_config(self, command: e.ReadConfigToEnd) -> None:
        in_time = self.read_config_to_end(command.timeout_ms)
        self._post(e.ConfigEndReached(in_time, command.ticket))

    def _fence_producers(self, command: e.FenceProducers) -> None:
        """Stops fencing when another leader has started its own round meanwhile: the rest of this
        one would fence the current tasks."""
        name, ticket = command.connector, command.ticket

        def wanted() -> bool:
            round = self._state.fencing.rounds.get(name)
            return round is not None and round.ticket == ticket

        log.info("fencing zombie source tasks: producers of %d tasks", command.tasks)
        try:
            client_id = f"connector-worker-adminclient-{name}"
            used = self.planner.resolved(command.config)
            settings = connector_admin(self.config, client_id, used)
            tasks = (TaskId(name, number) for number in range(command.tasks))
            ids = [worker_config.transactional_id(self.config, task) for task in tasks]
            fence(settings, ids, wanted=wanted)
        except Exception as error:
            log.warning("failed to fence zombie source tasks: %s", error)
            self._post(e.ProducersFenced(name, ticket, str(error)))
        else:
            self._post(e.ProducersFenced(name, ticket))

    def _forward_fence(self, command: e.ForwardFence) -> None:
        refused = None
        try:
            self._leader.fence(command.leader_url, command.connector)
        except Exception as error:
            log.info("zombie fencing request to the leader failed: %s", error)
            refused = e.Refused(getattr(error, "http_status", 500), str(error))
        self._post(e.FenceForwarded(command.connector, command.ticket, refused))

    def _plan(self, command: e.StartConnector | e.AskConnector) -> None:
        name, run = command.connector, command.run
        starting = isinstance(command, e.StartConnector)
        running = self._instances.get(name, run)
        try:
            planned = self.planner.planned(
                name, command.config, running, self._connector_context(command)
            )
        except Exception as error:
            trace = trace_of(error)
            shown = self.planner.providers.redacted(trace.text)
            if starting:
                log.error("failed to generate task configs: %s", shown)
                self.metrics.started("connector", False)
            else:
                said = self.planner.providers.redacted(str(error))
                log.warning("failed to generate task configs; keeping the current ones: %s", said)
            self._post(e.ConnectorPlanned(name, run, (), shown, retriable=trace.retriable))
        else:
            if running is None:
                self._instances.put(name, run, planned.connector)
            if starting:
                self.metrics.started("connector", True)
            configs = tuple(planned.configs)
            self._post(e.ConnectorPlanned(name, run, configs, again_ms=planned.again_ms))

    def _connector_context(self, command: e.StartConnector | e.AskConnector) -> InstanceContext:
        """The context of one run's connector instance."""
        name, run, config = command.connector, command.run, command.config

        def read() -> Offsets:
            if not self._is_source(config):
                return ()
            return self.offset_admin.stored(name, self.planner.resolved(config))

        return InstanceContext(
            name, read, lambda: self._post(e.ReconfigurationRequested(name, run))
        )

    def _forward_tasks(self, command: e.ForwardTasks) -> None:
        try:
            self._leader.put_tasks(command.leader_url, command.connector, command.configs)
        except Exception as error:
            log.warning("failed to submit task configs to the leader: %s", error)
            self._post(e.TasksForwarded(command.connector, str(error)))
        else:
            self._post(e.TasksForwarded(command.connector))

    def _start_task(self, command: e.StartTask) -> None:
        task = command.task
        try:
            self._session.get()
            plan = self.planner.flow(
                task, command.run, command.connector_config, command.task_config
            )
            log.info("Creating task %s", plan.describe())
            self.metrics.begun(plan)
            if isinstance(plan, SourcePlan):
                used = self.planner.resolved(command.connector_config)
                self._leases[task] = self._offsets.lease(task, used)
            elif command.unclean:
                remove_last_consumer(plan)
            self._tasks.start(plan, lambda: self._begin(command))
        except StoppedMeanwhile:
            pass  # the stop reports it
        except SessionAborted:
            self._end_lease(task)
            self._post(e.TaskStopped(task, command.run))
        except Exception as error:
            trace = trace_of(error)
            log.error("the task failed to start: %s", self.planner.providers.redacted(trace.text))
            self.metrics.started("task", False)
            self._end_lease(task)
            self._post_failed(task, command.run, trace)
        else:
            self.metrics.started("task", True)
            self._post(e.TaskStarted(task, command.run))

    def _begin(self, command: e.StartTask) -> Beginning:
        """The stored offsets from which a source task starts. With exactly once its producer has
        initialised its transactions by now, which fenced its predecessor. A zombie of an older task
        set would have fenced its successor instead, so the task goes on only if its set is still
        current at the end of the config topic (kafka-connect.md §4.8)."""
        lease = self.lease(command.task)
        if not self._exactly_once:
            return Beginning(lease.read(lambda: None))

        def check() -> None:
            answer: Future[e.Result] = Future()
            start = e.CheckStart(command.task, command.run, command.generation)
            self._post(e.Requested(answer, start))
            result = self._answered(answer)
            if isinstance(result, e.Refused):
                raise PenstockError(result.message)

        self._config_log.read_to_end(OPEN_TRANSACTION_S, check)
        check()
        return Beginning(lease.read(check), lease.keys())

    def _stop_task(self, command: e.StopTask) -> None:
        grace_s = self._grace()
        # A cancelled task may still be running; no offsets are stored for it from then on.
        lease = self._leases.get(command.task)
        over = threading.Timer(grace_s, lease.close) if lease else None
        if over is not None:
            over.daemon = True
            over.start()
        try:
            if self._tasks.stop(command.task, grace_s):
                log.info("Graceful stop of task %s succeeded.", command.task)
            else:
                log.warning(
                    "Graceful stop of task %s failed: it took longer than %s. It is cancelled; "
                    "records whose offsets were not stored are processed again",
                    command.task,
                    keys.TASK_SHUTDOWN_TIMEOUT.name,
                )
        except Exception as error:
            trace = self.planner.providers.redacted(trace_of(error).text)
            log.error("failed to stop the task cleanly: %s", trace)
        if over is not None:
            over.cancel()
        self._reloads.hold(command.task, None)
        self._end_lease(command.task)
        self.metrics.ended(command.task)
        self._post(e.TaskStopped(command.task, command.run))

    def _on_ended(self, ended: TaskEnded) -> None:
        lease = self._leases.pop(ended.task, None)
        if lease is not None:
            self._pool.submit(lease.close)
        self._post_failed(ended.task, ended.run, ended.trace)

    def _post_failed(self, task: TaskId, run: int, trace: Trace) -> None:
        shown = self.planner.providers.redacted(trace.text)
        self._post(e.TaskFailed(task, run, shown, retriable=trace.retriable))

    def _reload(self, what: str | TaskId) -> None:
        """Restarts a connector or task whose secret has expired (kafka-connect.md §13.4)."""
        restart = e.RestartTask(what) if isinstance(what, TaskId) else e.RestartConnector(what)

        def served(answer: Future[e.Result]) -> None:
            result = answer.result()
            if isinstance(result, e.Refused):
                log.error("failed to restart %s: %s", what, result.message)

        self.submit(restart).add_done_callback(served)

    def _end_lease(self, task: TaskId) -> None:
        lease = self._leases.pop(task, None)
        if lease is not None:
            lease.close()

    def _on_report(self, event: TaskProgress | Committed) -> None:
        self.metrics.report(event)
        if isinstance(event, TaskProgress):
            self._on_batch(event)

    def _on_batch(self, batch: TaskProgress) -> None:
        log.debug("%d records processed, %d skipped", batch.done, batch.failed)
        tracked = self._state.statuses.topics.get(batch.task.connector, {})
        for topic in batch.topics:
            if topic not in tracked:
                self._post(e.TopicUsed(batch.task, topic))

    def lease(self, task: TaskId) -> Lease:
        """A running source task's lease on its offsets; raises when the task has ended."""
        lease = self._leases.get(task)
        if lease is None:
            raise PenstockError(f"Task {task} has ended; its offsets are no longer stored.")
        return lease

    # ── starting and ending ──────────────────────────────────────────────────────────────────

    def _open_logs(self) -> None:
        if self._alone is not None:
            self._config_log, self._status_log = self._alone.open(
                self._on_config_entries, self._on_status_entries, self._offsets
            )
            return
        config = self.config
        consumer = clients.consumer(config.props).settings
        # KIP-618: once all workers are "enabled", everybody reads committed records only; before,
        # the isolation level is the Java client's default.
        consumer.setdefault("isolation.level", "read_uncommitted")
        if self._exactly_once:
            consumer["isolation.level"] = COMMITTED
        producer = clients.producer(config.props).settings
        base = worker_config.client_id_base(config)

        def opened(which: str, suffix: str, receive: Receive) -> CompactedLog:
            topic = topics[which]
            client_id = {"client.id": base + suffix}
            return CompactedLog(
                topic.name,
                admin.ensure(self._admin, topic),
                consumer={**consumer, **client_id},
                producer={**producer, **client_id, **PRODUCER},
                admin=self._admin,
                receive=receive,
            )

        topics = internal_topics(config)
        self._offsets.use(lambda receive: opened("offset", "offsets", receive))
        self._status_log = opened("status", "statuses", self._on_status_entries)
        self._config_log = opened("config", "configs", self._on_config_entries)
        leader = {**producer, "client.id": f"{base}configs-leader"}
        leader.pop("delivery.timeout.ms", None)  # the transaction's time-out is what counts
        self._config_writer = FencedWriter(
            topics["config"].name, f"connect-cluster-{config[keys.GROUP_ID]}", leader
        )

    def _on_config_entries(self, entries: Sequence[Entry]) -> None:
        self._post(e.ConfigRead(tuple((row.offset, row.key, row.value) for row in entries)))

    def _on_status_entries(self, entries: Sequence[Entry]) -> None:
        self._post(e.StatusRead(tuple((row.key, row.value) for row in entries)))

    def _read_logs(self) -> None:
        try:
            self._config_log.start(OPEN_TRANSACTION_S if self._exactly_once else START_S)
            self._status_log.start()
            self._offsets.start()
            self._post(e.LogsReady(self._others_work()))
        except Exception as error:
            if (
                not self._state.membership.stopping
            ):  # otherwise the logs were closed by the shutdown
                self.failure = error
                self.stop()

    def _others_work(self) -> bool:
        return self._alone is None and admin.has_members(self._admin, self.config[keys.GROUP_ID])

    def _warm_up(self) -> None:
        try:
            self._session.start()
            self._post(e.SparkReady())
            log.info("Spark is ready")
            if not self._state.running.tasks:  # otherwise they warm it up themselves
                self._tasks.warm_up()
                log.info("Spark is warm")
        except Exception as error:
            if not self._state.membership.stopping:
                self.failure = error
                self.stop()

    def _on_jvm_gone(self, trace: str) -> None:
        log.error("Spark's JVM has ended: %s", trace)
        self.failure = PenstockError(
            "Spark's JVM has ended, so this worker stops; other workers take over its tasks. If it "
            "ran out of memory, raise 'spark.driver.memory'."
        )
        self.stop()

    def _shut_down(self) -> None:
        self._group.leave(5.0)
        self._reloads.close()
        self._instances.close()
        self._tasks.close()
        for name in ("_config_log", "_status_log"):
            opened: Log | None = getattr(self, name, None)
            if opened is not None:
                opened.close()
        self._offsets.close()
        self._session.stop()
        self.planner.providers.close()
        for pool in (self._pool, self._starts, self._requests, self._leading):
            pool.shutdown(wait=False, cancel_futures=True)
        self.ended.set()

    # ── the group ────────────────────────────────────────────────────────────────────────────

    def _make_group(self) -> Group:
        config = self.config
        settings = self._state.settings
        callbacks = Callbacks(
            offers=self._offers,
            share_out=self._share_out,
            joined=self._on_joined,
            lost=self._on_lost,
        )
        if self._alone is not None:
            return self._alone.group(callbacks)
        return WorkerGroup(
            clients.member(config.props),
            group_id=config[keys.GROUP_ID],
            client_id=config[keys.CLIENT_ID] or f"connect-{settings.worker_id}",
            session_timeout_ms=config[keys.SESSION_TIMEOUT],
            heartbeat_interval_ms=config[keys.HEARTBEAT_INTERVAL],
            rebalance_timeout_ms=config[keys.REBALANCE_TIMEOUT],
            callbacks=callbacks,
        )

    def _on_joined(self, generation: int, member: str, name: str, assignment: bytes) -> None:
        self._session_end = None
        self._post(e.Joined(generation, member, name, assignment))

    def _on_lost(self, session_end: float) -> None:
        self._session_end = session_end
        self._post(e.CoordinatorLost())

    def _grace(self) -> float:
        """How many seconds a task may take to stop. While the group coordinator is unreachable, no
        longer than the session: after that the task may be reassigned, and offsets that this worker
        stores when it reaches Kafka again would overwrite the new owner's."""
        end = self._session_end
        if end is None:
            return self._grace_s
        return max(0.0, min(self._grace_s, end - time.monotonic()))

    def _offers(self) -> list[tuple[str, bytes]]:
        answer: Future[protocol.MemberMetadata] = Future()
        self._post(e.MetadataWanted(answer))
        metadata = self._answered(answer)
        offered = protocol.offered(self.config[keys.CONNECT_PROTOCOL].lower())
        return [
            (name, protocol.encode_metadata(metadata, protocol.VERSIONS[name])) for name in offered
        ]

    def _share_out(
        self, member: str, name: str, generation: int, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        answer: Future[Mapping[str, bytes]] = Future()
        self._post(e.AssignmentWanted(answer, member, name, generation, members))
        return self._answered(answer)

    def _answered(self, answer: Future[T]) -> T:
        """The loop's reply; raises TimeoutError when there is none, or the loop has ended."""
        for _ in range(int(_ANSWER_S / _LOOK_S)):
            with contextlib.suppress(TimeoutError):
                return answer.result(_LOOK_S)
            if not self._loop.is_alive() or self._leaving.is_set():
                break
        raise TimeoutError("The herder did not answer the group in time.")


def internal_topics(config: Config) -> dict[str, admin.InternalTopic]:
    """The three internal topics with their settings (kafka-connect.md §2.3, §2.6)."""

    def settings(prefix: str) -> dict[str, str]:
        found = worker_config.topic_settings(config, prefix)
        for name in found.dropped:
            log.warning("ignoring '%s': penstock sets this for its internal topics", name)
        return found.settings

    return {
        "offset": replace(
            offsets_topic(config, config[keys.OFFSET_STORAGE_TOPIC]),
            settings=settings(keys.OFFSET_STORAGE_PREFIX),
        ),
        "status": admin.InternalTopic(
            config[keys.STATUS_STORAGE_TOPIC],
            keys.STATUS_STORAGE_TOPIC.name,
            "connector and task statuses",
            config[keys.STATUS_STORAGE_PARTITIONS],
            config[keys.STATUS_STORAGE_REPLICATION],
            settings=settings(keys.STATUS_STORAGE_PREFIX),
        ),
        "config": admin.InternalTopic(
            config[keys.CONFIG_STORAGE_TOPIC],
            keys.CONFIG_STORAGE_TOPIC.name,
            "connector configurations",
            1,
            config[keys.CONFIG_STORAGE_REPLICATION],
            single=True,
            settings=settings(keys.CONFIG_STORAGE_PREFIX),
        ),
    }


def _tell(reply: e.Reply, result: object) -> None:
    assert isinstance(reply, Future)
    if not reply.done():
        reply.set_result(result)


def _refuse(reply: e.Reply, error: Exception) -> None:
    assert isinstance(reply, Future)
    if not reply.done():
        reply.set_exception(error)
