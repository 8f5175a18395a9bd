"""A worker: the loop that turns events into steps and commands into effects.

One thread owns the herder's state; the inbox is the only lock. Code of connectors and calls to
Spark run in a pool and come back as events.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeVar, assert_never

from penstock.api import Offsets
from penstock.clock import Clock
from penstock.cluster import events as e
from penstock.cluster import protocol
from penstock.cluster.herder import HerderState, Settings, next_wakeup, step
from penstock.cluster.records import (
    VERSIONED,
    Skipped,
    SourceOffset,
    StatusRecord,
    TaskStatus,
    TopicStatus,
    decode_offset,
    encode_config,
    encode_offset,
    encode_status,
    partition_key,
)
from penstock.config import worker as keys
from penstock.config.define import Config
from penstock.errors import PenstockError
from penstock.flow.engine import BatchDone, Session, SessionAborted, readable
from penstock.flow.tasks import TaskEnded, Tasks
from penstock.flow.warmup import warm_up
from penstock.ids import TaskId
from penstock.kafka import admin, clients
from penstock.kafka.group import Callbacks, WorkerGroup
from penstock.kafka.log import CompactedLog, Entry
from penstock.planning import Planner
from penstock.plugins import Registry

log = logging.getLogger(__name__)

T = TypeVar("T")

_ANSWER_S: Final = 10.0  # how long the group waits for the loop; a turn takes milliseconds
_LOOK_S: Final = 0.1  # how soon the group notices that the loop has ended
_POOL: Final = 16
_STARTS: Final = 4  # tasks that start at once; each makes Spark start Python processes
_PRODUCER: Final[clients.Settings] = {"acks": "all", "delivery.timeout.ms": 2_147_483_647}
"""Records of the internal topics wait for Kafka as long as it takes (reference §4.3)."""

ForwardTasks = Callable[[str, str, Sequence[Mapping[str, str | None]]], None]
"""Hands a task set to the leader at a URL; raises when the leader does not take it."""


class Worker:
    """One member of a cluster, from `start` to `stop`.

    `ended` is set when the worker is down, in order or not; `failure` says why if not.
    """

    def __init__(
        self,
        config: Config,
        registry: Registry,
        *,
        url: str,
        worker_id: str,
        clock: Clock,
        forward: ForwardTasks,
    ) -> None:
        self.config = config
        self.registry = registry
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self._clock = clock
        self._forward = forward
        self._leaving = threading.Event()
        self._inbox: queue.SimpleQueue[e.Event] = queue.SimpleQueue()
        self._state = HerderState(
            Settings(
                url=url,
                worker_id=worker_id,
                max_delay_ms=config[keys.SCHEDULED_REBALANCE_MAX_DELAY],
                sync_timeout_ms=config[keys.WORKER_SYNC_TIMEOUT],
                key_ttl_ms=config[keys.INTER_WORKER_KEY_TTL] or 1 << 60,
                key_algorithm=config[keys.INTER_WORKER_KEY_GENERATION_ALGORITHM],
                topic_tracking=config[keys.TOPIC_TRACKING_ENABLE],
            )
        )
        self._client = clients.admin(config.props).settings
        self._admin, self.kafka_cluster_id = admin.connect(self._client)
        self._session = Session(keys.spark_settings(config), log.info)
        self._offsets = OffsetStore()
        self.planner = Planner(config, registry)
        self._grace_s = config[keys.TASK_SHUTDOWN_TIMEOUT] / 1000
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix="work")
        self._starts = ThreadPoolExecutor(_STARTS, thread_name_prefix="start")
        self._tasks = Tasks(
            self._session,
            store=self._store_offsets,
            ended=lambda ended: self._post(_failed(ended)),
            report=self._on_batch,
            gone=self._on_jvm_gone,
        )
        self._config_log: CompactedLog
        self._status_log: CompactedLog
        self._offset_log: CompactedLog
        self._group = self._make_group()
        self._loop = threading.Thread(target=self._run, name="herder", daemon=True)

    # ── from outside ─────────────────────────────────────────────────────────────────────────

    @property
    def state(self) -> HerderState:
        """What the worker knows at this moment; a value that does not change any more."""
        return self._state

    def submit(self, operation: e.Operation) -> Future[e.Result]:
        """Asks for an operation; the future holds the result, or stays empty if the worker ends."""
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
        """Asks the worker to end in order; `ended` tells when it has."""
        self._session.abort()
        self._post(e.StopRequested())

    # ── the loop ─────────────────────────────────────────────────────────────────────────────

    def _post(self, event: e.Event) -> None:
        self._inbox.put(event)

    def _run(self) -> None:
        try:
            while not self._state.left:
                event = self._next_event()
                self._state, commands = step(self._state, event, self._clock.now())
                for command in commands:
                    self._perform(command)
        except BaseException as error:  # an impossible state: stop, the others take over
            log.exception("the worker cannot go on")
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
            case e.AppendConfig():
                self._append_config(command)
            case e.AppendStatus():
                self._status_log.append(*encode_status(self._versioned(command.record)))
            case e.ReadConfigToEnd():
                self._pool.submit(self._read_config, command.timeout_ms / 1000)
            case e.JoinGroup():
                self._group.join()
            case e.TellMetadata():
                _tell(command.reply, command.metadata)
            case e.TellAssignment():
                _tell(command.reply, command.shares)
            case e.Answer():
                _tell(command.reply, command.result)
            case e.MakeSessionKey():
                bits = self.config[keys.INTER_WORKER_KEY_SIZE] or 256
                algorithm = self.config[keys.INTER_WORKER_KEY_GENERATION_ALGORITHM]
                self._post(e.SessionKeyMade(secrets.token_bytes(bits // 8), algorithm))
            case e.StartConnector():
                self._pool.submit(self._plan, command)
            case e.ForwardTasks():
                self._pool.submit(self._forward_tasks, command)
            case e.StartTask():
                self._starts.submit(self._start_task, command)
            case e.StopTask():
                self._pool.submit(self._stop_task, command)
            case e.LeaveGroup():
                pass  # the loop ends by itself; shutting down leaves the group
            case _:
                assert_never(command)

    def _versioned(self, record: StatusRecord) -> StatusRecord:
        """The record with the plugin's version, in the states in which a 4.2.0 worker says it."""
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

    def _read_config(self, timeout_s: float) -> None:
        try:
            self._config_log.read_to_end(timeout_s)
        except PenstockError as error:
            log.warning("%s", error)
            self._post(e.ConfigEndReached(in_time=False))
        else:
            self._post(e.ConfigEndReached(in_time=True))

    def _plan(self, command: e.StartConnector) -> None:
        name = command.connector
        try:
            configs = self.planner.task_configs(name, command.config)
        except Exception as error:
            log.exception("[%s] the connector failed to start", name)
            self._post(e.ConnectorPlanned(name, command.run, (), readable(error)))
        else:
            self._post(e.ConnectorPlanned(name, command.run, tuple(configs)))

    def _forward_tasks(self, command: e.ForwardTasks) -> None:
        try:
            self._forward(command.leader_url, command.connector, command.configs)
        except Exception as error:
            log.warning("[%s] the leader did not take the tasks: %s", command.connector, error)
            self._post(e.TasksForwarded(command.connector, str(error)))
        else:
            self._post(e.TasksForwarded(command.connector))

    def _start_task(self, command: e.StartTask) -> None:
        task = command.task
        try:
            self._session.get()
            self._offset_log.read_to_end(self.config[keys.OFFSET_FLUSH_TIMEOUT] / 1000 + 30)
            plan = self.planner.flow(
                task,
                command.run,
                command.connector_config,
                command.task_config,
                self._offsets.of(task.connector),
            )
            log.info("starting %s", plan.describe())
            self._tasks.start(plan)
        except SessionAborted:
            self._post(e.TaskStopped(task, command.run))
        except Exception as error:
            log.exception("[%s] the task failed to start", task)
            self._post(e.TaskFailed(task, command.run, readable(error)))
        else:
            self._post(e.TaskStarted(task, command.run))

    def _stop_task(self, command: e.StopTask) -> None:
        try:
            if not self._tasks.stop(command.task, self._grace_s):
                log.warning("[%s] a batch was cut off; it will be done again", command.task)
        except Exception:
            log.exception("[%s] the task did not stop cleanly", command.task)
        self._post(e.TaskStopped(command.task, command.run))

    def _on_batch(self, batch: BatchDone) -> None:
        log.debug("[%s] %d records moved, %d left out", batch.task, batch.done, batch.failed)
        tracked = self._state.statuses.topics.get(batch.task.connector, {})
        for topic in batch.topics:
            if topic not in tracked:
                self._post(e.TopicUsed(batch.task, topic))

    def _store_offsets(self, task: TaskId, offsets: Offsets) -> None:
        """Stores what a source task has reached; returns when Kafka has it, however long it takes.

        A stop does not wait for it: the batch counts as cut off then, and is done again.
        """
        sent = [
            self._offset_log.append(*self._offsets.encode(task.connector, each)) for each in offsets
        ]
        for future in sent:
            future.result()

    # ── starting and ending ──────────────────────────────────────────────────────────────────

    def _open_logs(self) -> None:
        config = self.config
        consumer = clients.consumer(config.props).settings
        producer = clients.producer(config.props).settings
        base = keys.client_id_base(config)
        topics = internal_topics(config)
        receivers: dict[str, tuple[str, Callable[[Sequence[Entry]], None]]] = {
            "config": ("configs", self._on_config_entries),
            "status": ("statuses", self._on_status_entries),
            "offset": ("offsets", self._offsets.receive),
        }
        opened: dict[str, CompactedLog] = {}
        for which, topic in topics.items():
            partitions = admin.ensure(self._admin, topic)
            suffix, receive = receivers[which]
            client_id = {"client.id": base + suffix}
            opened[which] = CompactedLog(
                topic.name,
                partitions,
                consumer={**consumer, **client_id},
                producer={**producer, **client_id, **_PRODUCER},
                admin=self._admin,
                receive=receive,
            )
        self._config_log, self._status_log = opened["config"], opened["status"]
        self._offset_log = opened["offset"]

    def _on_config_entries(self, entries: Sequence[Entry]) -> None:
        self._post(e.ConfigRead(tuple((row.offset, row.key, row.value) for row in entries)))

    def _on_status_entries(self, entries: Sequence[Entry]) -> None:
        self._post(e.StatusRead(tuple((row.key, row.value) for row in entries)))

    def _read_logs(self) -> None:
        try:
            for each in (self._config_log, self._status_log, self._offset_log):
                each.start()
            self._post(e.LogsReady())
        except Exception as error:
            if not self._state.stopping:  # else the logs were closed under us, and that is fine
                self.failure = error
                self.stop()

    def _warm_up(self) -> None:
        try:
            self._session.start()
            self._post(e.SparkReady())
            log.info("Spark is ready")
            if not self._state.tasks:  # else they warm it up themselves, and need not wait
                warm_up(self._session.get())
                log.info("Spark is warm")
        except Exception as error:
            if not self._state.stopping:
                self.failure = error
                self.stop()

    def _on_jvm_gone(self, trace: str) -> None:
        log.error("Spark's JVM is gone: %s", trace)
        self.failure = PenstockError(
            "Spark's JVM ended, so this worker ends too; its tasks move to other workers. Was it "
            "out of memory? See 'spark.driver.memory'."
        )
        self.stop()

    def _shut_down(self) -> None:
        self._group.leave(5.0)
        self._tasks.close()
        for name in ("_config_log", "_status_log", "_offset_log"):
            opened: CompactedLog | None = getattr(self, name, None)
            if opened is not None:
                opened.close()
        self._session.stop()
        for pool in (self._pool, self._starts):
            pool.shutdown(wait=False, cancel_futures=True)
        self.ended.set()

    # ── the group ────────────────────────────────────────────────────────────────────────────

    def _make_group(self) -> WorkerGroup:
        config = self.config
        settings = self._state.settings
        return WorkerGroup(
            clients.member(config.props),
            group_id=config[keys.GROUP_ID],
            client_id=config[keys.CLIENT_ID] or f"connect-{settings.worker_id}",
            session_timeout_ms=config[keys.SESSION_TIMEOUT],
            heartbeat_interval_ms=config[keys.HEARTBEAT_INTERVAL],
            rebalance_timeout_ms=config[keys.REBALANCE_TIMEOUT],
            callbacks=Callbacks(
                offers=self._offers,
                share_out=self._share_out,
                joined=lambda *round: self._post(e.Joined(*round)),
                lost=lambda: self._post(e.CoordinatorLost()),
            ),
        )

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
        """What the loop answers; raises TimeoutError when it does not, or has ended."""
        for _ in range(int(_ANSWER_S / _LOOK_S)):
            with contextlib.suppress(TimeoutError):
                return answer.result(_LOOK_S)
            if not self._loop.is_alive() or self._leaving.is_set():
                break
        raise TimeoutError("The worker's loop does not answer its group.")


class OffsetStore:
    """What the offset topic says, by connector: the stored offset of every source partition.

    Written by the log's thread, read by others; the key bytes a partition was first stored under
    are kept, for keys compare as bytes (reference §4.5).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_connector: dict[str, dict[bytes, tuple[bytes, SourceOffset]]] = {}

    def receive(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            for entry in entries:
                record = decode_offset(entry.key, entry.value)
                if isinstance(record, Skipped):
                    log.warning("offset record %d is skipped: %s", entry.offset, record.reason)
                    continue
                rows = self._by_connector.setdefault(record.connector, {})
                key = partition_key(record.partition)
                if record.offset is None:
                    rows.pop(key, None)
                else:
                    rows[key] = (entry.key or b"", record)

    def of(self, connector: str) -> list[SourceOffset]:
        """The stored offsets of a connector."""
        with self._lock:
            return [record for _, record in self._by_connector.get(connector, {}).values()]

    def encode(self, connector: str, offset: Any) -> tuple[bytes, bytes | None]:
        """The record that stores an offset, under the key bytes its partition has already."""
        record = SourceOffset(connector, offset.partition, offset.offset)
        with self._lock:
            known = self._by_connector.get(connector, {}).get(partition_key(offset.partition))
        return encode_offset(record, known[0] if known else None)


def internal_topics(config: Config) -> dict[str, admin.InternalTopic]:
    """The three topics of a cluster as they are to be made (reference §2.3, §2.6)."""

    def settings(prefix: str) -> dict[str, str]:
        found = keys.topic_settings(config, prefix)
        for name in found.dropped:
            log.warning("'%s' is ignored: penstock decides this for its own topics", name)
        return found.settings

    return {
        "offset": admin.InternalTopic(
            config[keys.OFFSET_STORAGE_TOPIC],
            keys.OFFSET_STORAGE_TOPIC.name,
            "source connector offsets",
            config[keys.OFFSET_STORAGE_PARTITIONS],
            config[keys.OFFSET_STORAGE_REPLICATION],
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


def _failed(ended: TaskEnded) -> e.TaskFailed:
    return e.TaskFailed(ended.task, ended.run, ended.trace)


def _tell(reply: e.Reply, result: object) -> None:
    assert isinstance(reply, Future)
    if not reply.done():
        reply.set_result(result)
