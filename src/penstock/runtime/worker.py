"""A worker: the loop that turns events into steps and commands into effects.

One thread owns the herder's state; the inbox is the only lock. Connector code and calls to Spark
run in a pool and come back as events.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, assert_never

import orjson

from penstock.clock import Clock
from penstock.cluster import events as e
from penstock.cluster.herder import step
from penstock.cluster.herder.state import AwaitingSpark, HerderSettings, HerderState, next_wakeup
from penstock.cluster.protocol import GroupBytesMalformed
from penstock.cluster.records import (
    VERSIONED,
    RawProps,
    StatusRecord,
    TaskStatus,
    TopicStatus,
)
from penstock.config import worker as worker_config
from penstock.config import worker_keys as keys
from penstock.config.define import Config
from penstock.config.tracing import hidden_fields
from penstock.errors import PenstockError
from penstock.flow.spark.session import Session
from penstock.host.logs import about
from penstock.ids import TaskId
from penstock.kafka import admin, clients
from penstock.offsets.admin import OffsetAdmin
from penstock.offsets.store import OffsetStore
from penstock.plugins.registry import PluginKind, Registry
from penstock.runtime.connectors import RunningConnectors
from penstock.runtime.herder_log import HerderLog
from penstock.runtime.inbox import EventInbox, reject, resolve
from penstock.runtime.instances import Instances
from penstock.runtime.java_work import JavaWork
from penstock.runtime.leader import LeaderRequests, ZombieFencing
from penstock.runtime.loggers import Loggers
from penstock.runtime.membership import GroupMembership
from penstock.runtime.metric_table import Slots
from penstock.runtime.metrics import Metrics
from penstock.runtime.planning import Planner
from penstock.runtime.ports import Alone, Leader
from penstock.runtime.reload import Reloads
from penstock.runtime.tasks import RunningTasks
from penstock.runtime.topics import InternalTopics

log = logging.getLogger(__name__)

_TICK_S: Final = 60.0  # the longest wait for an event
_FIRST_S: Final = 2.0  # how long Spark and the plugins wait for the topics to be read
_STANDINGS_S: Final = 3.0  # how long a scrape waits for figures from Kafka
_POOL: Final = 16
_STARTS: Final = 4  # tasks that start concurrently; each makes Spark start Python processes
_REQUESTS: Final = 16  # concurrent ones to the leader; each may wait for its timeout


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
        self._alone = alone
        self._inbox = EventInbox()
        self._exactly_once = worker_config.exactly_once(config)
        self._state = HerderState(self._herder_settings(url, worker_id))
        self._admin, self.kafka_cluster_id = admin.connect(clients.admin(config.props).settings)
        self._session = Session(
            worker_config.spark_settings(config),
            log.info,
            registry.roots,
            encrypted=worker_config.kafka_encrypted(config),
        )
        self.loggers = Loggers(clock)
        self.metrics = Metrics(clock)
        # Writes and claims of the leader, one after the other.
        self._leading = ThreadPoolExecutor(1, thread_name_prefix="leading")
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix="work")
        self._starts = ThreadPoolExecutor(_STARTS, thread_name_prefix="start")
        self._requests = ThreadPoolExecutor(_REQUESTS, thread_name_prefix="leader")
        post = self._inbox.post
        offsets = OffsetStore(config)
        self._topics = InternalTopics(config, self._admin, offsets, post, alone)
        self._group = GroupMembership(config, worker_id, self._inbox, self.metrics, alone)
        self._reloads = Reloads(self._reload)
        self.planner = Planner(
            config, registry, self._reloads.hold, lambda props: java.validate(props)
        )
        java = JavaWork(
            config,
            registry,
            worker_id=worker_id,
            kafka_cluster=self.kafka_cluster_id,
            exactly_once=self._exactly_once,
            alone=alone is not None,
            resolved=self.planner.resolved_for_java,
            redacted=self.planner.providers.redacted,
            post=post,
            pool=self._pool,
        )
        self.offset_admin = OffsetAdmin(config, offsets, self.planner.resolved, java.alter_offsets)
        self._instances = Instances()
        self._connectors = RunningConnectors(
            registry, self.planner, self._instances, self.offset_admin, java, self.metrics, post
        )
        self._leader = LeaderRequests(leader, post)
        self._fencing = ZombieFencing(config, self.planner.resolved, self._fencing_is_current, post)
        self._tasks = RunningTasks(
            self._session,
            planner=self.planner,
            offsets=offsets,
            topics=self._topics,
            java=java,
            reloads=self._reloads,
            metrics=self.metrics,
            inbox=self._inbox,
            pool=self._pool,
            exactly_once=self._exactly_once,
            grace_s=self._group.grace_s,
            active_topics=self._active_topics,
            jvm_gone=self._on_jvm_gone,
        )
        self._topics_read = threading.Event()
        self._loop = threading.Thread(target=self._run, name="herder", daemon=True)

    def _herder_settings(self, url: str, worker_id: str) -> HerderSettings:
        config = self.config
        key_algorithm, key_bytes = worker_config.session_keys(config)
        return HerderSettings(
            url=url,
            worker_id=worker_id,
            max_delay_ms=config[keys.SCHEDULED_REBALANCE_MAX_DELAY],
            sync_timeout_ms=config[keys.WORKER_SYNC_TIMEOUT],
            unsync_backoff_ms=config[keys.WORKER_UNSYNC_BACKOFF],
            key_ttl_ms=config[keys.INTER_WORKER_KEY_TTL] or 1 << 60,
            key_algorithm=key_algorithm,
            key_bytes=key_bytes,
            topic_tracking=config[keys.TOPIC_TRACKING_ENABLE],
            transactional=config[keys.EXACTLY_ONCE_SOURCE_SUPPORT].lower() != "disabled",
            exactly_once=self._exactly_once,
            is_source=self._is_source,
            restarts=lambda config: self.planner.restarts(config),
        )

    @property
    def state(self) -> HerderState:
        """The herder's state at this moment, an immutable value."""
        return self._state

    def exposition(self) -> bytes:
        """All metrics of this worker, in Prometheus' text format. Takes up to _STANDINGS_S when
        Kafka does not answer."""
        driver = self._tasks.driver
        standings, figures = driver.standings(_STANDINGS_S), self._group.figures()
        return self.metrics.exposition(
            self._state,
            self.registry,
            standings,
            figures,
            Slots(driver.slots(), driver.moved, driver.slots_died),
        )

    def watch(self, task: TaskId, records: int, timeout_s: float) -> list[Any] | None:
        """The next records of a task of this worker, step by step, as `GET …/trace` shows them:
        without secrets. Waits for them, up to the timeout. None: the task is not running."""
        props = self._state.cluster.config(task.connector) or {}
        hidden = hidden_fields(self.config.props, props)
        watched = self._tasks.driver.watch(task, records, timeout_s, hidden)
        if watched is None:
            return None
        text = self.planner.without_secrets(orjson.dumps(watched).decode(), props)
        shown: list[Any] = orjson.loads(text)
        return shown

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
            self._topics.read_config(timeout_ms / 1000)
        except PenstockError as error:
            log.warning("%s", error)
            return False
        return True

    def submit(self, operation: e.Operation) -> Future[e.Result]:
        """Requests an operation; the future holds the result, or stays empty if the worker ends."""
        return self._inbox.request(operation)

    def start(self) -> None:
        """Starts everything; returns once the internal topics have been checked.

        The group is joined and Spark warms up in the background. Raises StartupFailed.
        """
        self._topics.open()
        self._loop.start()
        threading.Thread(target=self._warm_up, name="spark-start", daemon=True).start()
        threading.Thread(target=self._read_topics, name="logs-start", daemon=True).start()
        threading.Thread(target=self._load_plugins, name="plugins-start", daemon=True).start()

    def stop(self) -> None:
        """Starts an orderly shutdown; `ended` is set when it is complete."""
        self._session.abort()
        self._inbox.post(e.StopRequested())

    def _run(self) -> None:
        herder_log = HerderLog()
        try:
            while not self._state.membership.left:
                event, before = self._next_event(), self._state
                self._state, commands = step(before, event, self._clock.now())
                herder_log.observe(before, event, self._state, commands)
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
            self._inbox.close()
            self._shut_down()

    def _next_event(self) -> e.Event:
        wakeup = next_wakeup(self._state)
        if wakeup is None:
            return self._inbox.next(_TICK_S)
        return self._inbox.next(min(_TICK_S, max(0, wakeup - self._clock.now()) / 1000))

    def _perform(self, command: e.Command) -> None:
        match command:
            case e.AppendConfig() if command.as_leader:
                self._leading.submit(self._topics.write_config, command)
            case e.AppendConfig():
                self._topics.append_config(command)
            case e.AcquireWriteAccess():
                self._leading.submit(self._topics.acquire_write_access, command)
            case e.AppendStatus():
                self._topics.append_status(self._versioned(command.record))
            case e.NoteSkipped():
                position = "" if command.at is None else f" at offset {command.at}"
                log.error(
                    "ignoring a record of the %s topic%s: %s",
                    command.topic,
                    position,
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
            case e.ReturnMetadata():
                resolve(command.reply, command.metadata)
            case e.ReturnAssignment():
                resolve(command.reply, command.shares)
            case e.RefuseAssignment():
                reject(command.reply, GroupBytesMalformed(command.reason))
            case e.Answer():
                resolve(command.reply, command.result)
            case e.MakeSessionKey():
                algorithm, length = worker_config.session_keys(self.config)
                self._inbox.post(e.SessionKeyMade(secrets.token_bytes(length), algorithm))
            case e.StartConnector() | e.AskConnector():
                self._pool.submit(about(command.connector)(self._connectors.plan), command)
            case e.ForwardTasks():
                self._requests.submit(about(command.connector)(self._leader.put_tasks), command)
            case e.FenceProducers():
                self._pool.submit(about(command.connector)(self._fencing.fence), command)
            case e.ForwardFence():
                self._requests.submit(about(command.connector)(self._leader.fence), command)
            case e.StartTask():
                self._starts.submit(about(command.task)(self._tasks.start), command)
            case e.StopTask():
                self._pool.submit(about(command.task)(self._tasks.stop), command)
            case e.ApplyLevel():
                self._apply_level(command)
            case e.LeaveGroup():
                pass  # the loop then ends; shutting down leaves the group
            case _:
                assert_never(command)

    def _apply_level(self, command: e.ApplyLevel) -> None:
        try:
            self.loggers.set_level(command.namespace, command.level)
        except PenstockError as error:  # written by a worker that knows other levels
            log.warning("failed to set the level of logger '%s': %s", command.namespace, error)

    def _versioned(self, record: StatusRecord) -> StatusRecord:
        """The record with the plugin's version, in the states in which a 4.3.1 worker adds it."""
        if isinstance(record, TopicStatus) or record.status is None:
            return record
        connector = record.task.connector if isinstance(record, TaskStatus) else record.connector
        if record.status.state not in VERSIONED:
            return record
        config = self._state.cluster.config(connector) or {}
        entry = self.registry.find_connector_of(config)
        version = entry.plugin.version if entry is not None else None
        return replace(record, status=replace(record.status, version=version))

    def _is_source(self, config: RawProps) -> bool:
        entry = self.registry.find_connector_of(config)
        return entry is not None and entry.kind is PluginKind.SOURCE

    def _fencing_is_current(self, connector: str, ticket: int) -> bool:
        round = self._state.fencing.rounds.get(connector)
        return round is not None and round.ticket == ticket

    def _active_topics(self, connector: str) -> Collection[str]:
        return self._state.statuses.topics.get(connector, ())

    def _read_config(self, command: e.ReadConfigToEnd) -> None:
        in_time = self.read_config_to_end(command.timeout_ms)
        self._inbox.post(e.ConfigEndReached(in_time, command.ticket))

    def _reload(self, target: str | TaskId) -> None:
        """Restarts a connector or task whose secret has expired (kafka-connect.md §13.4)."""
        restart = (
            e.RestartTask(target) if isinstance(target, TaskId) else e.RestartConnector(target)
        )

        def served(answer: Future[e.Result]) -> None:
            result = answer.result()
            if isinstance(result, e.Refused):
                log.error("failed to restart %s: %s", target, result.message)

        self.submit(restart).add_done_callback(served)

    def _read_topics(self) -> None:
        try:
            self._topics.start()
            self._inbox.post(e.LogsReady(self._others_work()))
            self._topics_read.set()
        except Exception as error:
            # When the worker stops, the shutdown has closed the topics.
            if not self._state.membership.stopping:
                self.failure = error
                self.stop()

    def _others_work(self) -> bool:
        return self._alone is None and admin.has_members(self._admin, self.config[keys.GROUP_ID])

    def _load_plugins(self) -> None:
        """Imports the plugins when the first requests can be served; one that needs them earlier
        imports them itself."""
        self._topics_read.wait(_FIRST_S)
        self.registry.load()
        self.registry.in_java()

    def _warm_up(self) -> None:
        # Spark's start takes all cores, so what serves requests goes first.
        self._topics_read.wait(_FIRST_S)
        if self._state.membership.stopping:
            return
        try:
            self._session.start()
            # A worker that joins others takes over running tasks, which should pause only briefly.
            # Without others, tasks wait for this worker; they start its slots themselves.
            joins = isinstance(self._state.membership.phase, AwaitingSpark)
            if joins:
                self._tasks.driver.warm_up()
            self._inbox.post(e.SparkReady())
            log.info("Spark is ready")
            if not joins and not self._state.running.tasks:
                self._tasks.driver.warm_up()
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
        with ThreadPoolExecutor(1, thread_name_prefix="closing") as pool:  # while Spark stops
            closed = pool.submit(self._topics.close)
            self._session.stop()
            closed.result()
        self.planner.providers.close()
        for pool in (self._pool, self._starts, self._requests, self._leading):
            pool.shutdown(wait=False, cancel_futures=True)
        self.ended.set()
