"""The standalone worker: configurations and statuses in memory, source offsets in a file, no group
(kafka-connect.md §12).

It is a cluster's worker with other shells: the same herder decides, on logs in memory, and leads a
group in which it is the only member. The differences for users are here too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.clock import Clock
from penstock.cluster import events as e
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.records import Target
from penstock.config import render
from penstock.config import worker_keys as keys
from penstock.config.define import Config, ConfigDef, Props
from penstock.config.properties import load_connector_file
from penstock.config.restart import RESTART
from penstock.config.tracing import TRACE
from penstock.errors import PenstockError
from penstock.kafka.group import Callbacks, ClientMetric
from penstock.kafka.log import LogEntry
from penstock.offsets.file import FileLog
from penstock.offsets.store import Log, OffsetStore, Receive
from penstock.plugins.registry import Registry
from penstock.runtime.ports import GroupPort, Leader
from penstock.runtime.worker import Worker

log = logging.getLogger(__name__)

_MEMBER: Final = "alone"
_LOOK_S: Final = 0.02
_RETRY_S: Final = 0.2
_START_S: Final = 90.0  # the time-out of REST
_WAITS: Final = 16  # requests that wait for a connector to start; others queue
_TARGETS: Final = {
    "RUNNING": Target.STARTED,
    "PAUSED": Target.PAUSED,
    "STOPPED": Target.STOPPED,
}
_DEFINITION: Final = ConfigDef(*keys.DISTRIBUTED.keys, keys.OFFSET_STORAGE_FILE)


class ConnectorFileFailed(PenstockError):
    """A connector given on the command line could not be created; the worker stops, as in Kafka
    Connect."""

    exit_code = 3


def lone_config(props: Props) -> Config:
    """The configuration of a standalone worker; raises ConfigInvalid with every problem.

    It has all settings of a worker: those of a cluster always have their defaults, and name no
    group and no topics.
    """
    own = ConfigDef(*RESTART.keys, *TRACE.keys)
    parsed = keys.STANDALONE.extended(*own.keys).parse(props)
    values: dict[str, object] = {}
    for key in _DEFINITION.keys:
        if key.name in keys.STANDALONE or key.name in own:
            values[key.name] = parsed[key]
        else:
            values[key.name] = "" if key.required else key.default
    values[keys.CONNECT_PROTOCOL.name] = "compatible"  # no requests to other workers
    return Config(_DEFINITION, values, parsed.props)


class MemoryLog:
    """A log of one partition in memory; an appended record is received at once."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._next = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        """There is nothing in it yet."""

    def start(self, timeout_s: float = 0.0) -> None:
        """There is nothing in it yet."""

    def append(self, key: bytes, value: bytes | None) -> Future[tuple[int, int]]:
        with self._lock:  # received in the order of the offsets
            at = self._next
            self._next += 1
            self._receive([LogEntry(0, at, key, value)])
        done: Future[tuple[int, int]] = Future()
        done.set_result((0, at))
        return done

    def drop(self) -> None:
        """Nothing is ever in flight."""

    def read_to_end(self, timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
        """Everything has been received already."""

    def close(self, timeout_s: float = 0.0) -> None:
        """Nothing to send, nothing to keep."""


class GroupOfOne:
    """A group whose only member is the leader. Every rebalance completes at once."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._generation = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="group")
        self._leaving = threading.Event()

    def join(self) -> None:
        """Requests a rebalance. Returns at once."""
        with suppress(RuntimeError):  # the worker is stopping
            self._pool.submit(self._round)

    def step_out(self) -> None:
        """No other member waits for this one."""

    def figures(self) -> Sequence[ClientMetric]:
        """There is no group client."""
        return ()

    def leave(self, timeout_s: float) -> None:
        """No rebalance starts any more."""
        self._leaving.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _round(self) -> None:
        while not self._leaving.is_set():
            try:
                name, metadata = self._callbacks.offers()[0]
                self._generation += 1
                shares = self._callbacks.perform_assignment(
                    _MEMBER, name, self._generation, {_MEMBER: metadata}
                )
                self._callbacks.joined(self._generation, _MEMBER, name, shares[_MEMBER])
                return
            except TimeoutError as error:  # only if the loop is busy
                log.warning("%s", error)
                self._leaving.wait(_RETRY_S)


class _LogsAndGroup:
    """Logs and group of a standalone worker (`penstock.runtime.ports.Alone`)."""

    def __init__(self, config: Config) -> None:
        self._file = Path(config[keys.OFFSET_STORAGE_FILE])
        self._interval_s = config[keys.OFFSET_FLUSH_INTERVAL] / 1000

    def open(self, config: Receive, status: Receive, offsets: OffsetStore) -> tuple[Log, Log]:
        log.info("source offsets are stored in '%s'", self._file)
        logs: list[FileLog] = []

        def opened(receive: Receive) -> Log:
            logs.append(FileLog(self._file, self._interval_s, receive))
            return logs[0]

        # Write the file soon after a task has ended or a user has altered offsets.
        offsets.use_alone(opened, lambda: logs[0].flush())
        return MemoryLog(config), MemoryLog(status)

    def group(self, callbacks: Callbacks) -> GroupPort:
        return GroupOfOne(callbacks)


class StandaloneWorker(Worker):
    """A worker without a cluster. `config` is from `lone_config`."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        *,
        url: str,
        worker_id: str,
        clock: Clock,
        leader: Leader,
    ) -> None:
        self._loaded = threading.Event()
        self._waiting: list[Future[e.Result]] = []  # pings that wait for `load`
        self._asking = threading.Lock()
        self._waits = ThreadPoolExecutor(_WAITS, thread_name_prefix="started")
        super().__init__(
            config,
            registry,
            url=url,
            worker_id=worker_id,
            clock=clock,
            leader=leader,
            alone=_LogsAndGroup(config),
        )

    @property
    def started(self) -> bool:
        """Whether the connectors of the command line have been created (KIP-1017)."""
        return self._loaded.is_set() and super().started

    def submit(self, operation: e.Operation) -> Future[e.Result]:
        """Requests an operation as in a cluster, with the differences of kafka-connect.md §12.3: a
        PUT of a configuration returns when the connector has started, and requests between workers
        are refused."""
        refused = self._refused(operation)
        if refused is not None:
            answer: Future[e.Result] = Future()
            answer.set_result(refused)
            return answer
        match operation:
            case e.Ping():
                return self._when_loaded()
            case e.CreateConnector() | e.PutConfig():
                return self._when_started(operation.connector, super().submit(operation))
        return super().submit(operation)

    def load(self, files: Sequence[Path]) -> None:
        """Creates the connectors in the files, one after the other; the worker must have started.
        Raises ConnectorFileFailed for the first failure."""
        for file in files:
            try:
                name = self._load(file)
            except (PenstockError, OSError) as error:
                text = self.planner.providers.redacted(str(error))
                raise ConnectorFileFailed(
                    f"Failed to create connector for {file}: {text}"
                ) from error
            if name is None:
                return  # the worker is stopping
            log.info("Created connector %s", name)
        self._loaded.set()
        with self._asking:
            waiting, self._waiting = self._waiting, []
        for future in waiting:
            super().submit(e.Ping()).add_done_callback(_passing_on(future))

    def _load(self, file: Path) -> str | None:
        connector = load_connector_file(file.read_bytes(), str(file))
        invalid = render.invalid_text(self.planner.validate(connector.config))
        if invalid is not None:
            raise PenstockError(invalid)
        target = _TARGETS[connector.initial_state] if connector.initial_state else None
        create = e.CreateConnector(connector.name, connector.config, target)
        result = self._result(self.submit(create))
        if self.state.membership.stopping:
            return None
        if isinstance(result, e.Refused):
            raise PenstockError(result.message)
        return connector.name

    def _refused(self, operation: e.Operation) -> e.Refused | None:
        cluster = self.state.cluster
        match operation:
            case e.PutTasks():
                return e.Refused(
                    500,
                    "Kafka Connect in standalone mode does not support externally setting task "
                    "configurations.",
                )
            case e.FenceZombies():
                return e.Refused(
                    500,
                    "Kafka Connect in standalone mode does not support exactly-once source "
                    "connectors.",
                )
            case e.RestartConnector(name) if not cluster.contains(name):
                return e.Refused(404, f"Connector {name} not found")
            case e.RestartTask(task) | e.FindTask(task) if not cluster.contains(task.connector):
                return e.Refused(404, f"Connector {task.connector} not found")
            case e.RestartTask(task) | e.FindTask(task) if task not in cluster.tasks(
                task.connector
            ):
                return e.Refused(404, f"Task {task} not found")
        return None

    def _when_loaded(self) -> Future[e.Result]:
        with self._asking:
            if not self._loaded.is_set():
                waiting: Future[e.Result] = Future()
                self._waiting.append(waiting)
                return waiting
        return super().submit(e.Ping())

    def _when_started(self, name: str, served: Future[e.Result]) -> Future[e.Result]:
        answer: Future[e.Result] = Future()

        def wait() -> None:
            result = self._result(served)
            answer.set_result(
                self._start_of(name, result) if isinstance(result, e.Done) else result
            )

        self._waits.submit(wait)
        return answer

    def _result(self, served: Future[e.Result]) -> e.Result:
        while not self.ended.is_set():
            with suppress(TimeoutError):
                return served.result(_LOOK_S)
        return e.Refused(500, "Worker is shutting down")

    def _start_of(self, name: str, done: e.Done) -> e.Result:
        """`done` once the connector runs, or need not, and its tasks are known; else its error."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and not self.ended.is_set():
            state = self.state
            run = state.running.connectors.get(name)
            if not state.cluster.contains(name):
                return done  # deleted meanwhile
            if run is not None and not run.stale:
                if run.phase is RunPhase.FAILED:
                    return e.Refused(500, _last_line(run.trace or "it failed"))
                publishing = name in state.requests.plans or any(
                    write.connector == name for write in state.requests.writes.values()
                )
                if run.phase is not RunPhase.STARTING and not publishing:
                    return done
            self.ended.wait(_LOOK_S)
        return e.Refused(500, f"Connector {name} is configured but has not started yet")


def _last_line(trace: str) -> str:
    """The error message in a trace."""
    return trace.strip().splitlines()[-1].partition(": ")[2] or trace.strip().splitlines()[-1]


def _passing_on(to: Future[e.Result]) -> Callable[[Future[e.Result]], None]:
    return lambda served: to.set_result(served.result())
