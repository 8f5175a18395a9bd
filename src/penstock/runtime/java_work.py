"""The connectors and tasks of a worker that are written in Java: the herder's commands become
orders to the Java host, and its events become the herder's.

A chain is wholly Java here: the host converts, transforms, produces and consumes. Offsets are in
the cluster's own topics, so they are listed as those of any connector.
"""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, assert_never

from penstock.cluster import events as e
from penstock.cluster.records import RawProps
from penstock.config import java_host, render
from penstock.config.define import Config
from penstock.errors import Unsupported
from penstock.flow.traces import Trace, trace_of
from penstock.host.logs import about
from penstock.ids import TaskId
from penstock.java import finding
from penstock.java import messages as m
from penstock.java.hosts import JavaHost
from penstock.java.process import HostSettings
from penstock.plugins.registry import Registry

log = logging.getLogger(__name__)

_OPEN_S: Final = 15.0  # a task that has not opened its plugin by then is shown as RUNNING, too
_OURS: Final = ("spark.", "penstock.", "config.providers", "rest.", "listeners", "admin.listeners")
"""Settings of a worker that are not the host's: it serves no requests, and gets resolved values."""


@dataclass(slots=True)
class _Task:
    """One run of a task in the host. `open` is set when its plugin has started, or failed."""

    run: int
    allow: Callable[[], object]  # raises if an exactly-once task may not start
    open: threading.Event
    failed: bool = False


Resolved = Callable[[str | TaskId, Sequence[RawProps]], Sequence[RawProps]]


class JavaInstance:
    """A connector instance in the host."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def stop(self) -> None:
        self._stop()


class JavaWork:
    """What runs in a worker's Java host. Thread-safe; everything here blocks but `runs`."""

    def __init__(
        self,
        worker: Config,
        registry: Registry,
        *,
        worker_id: str,
        kafka_cluster: str,
        exactly_once: bool,
        alone: bool,
        resolved: Resolved,
        redacted: Callable[[str], str],
        post: Callable[[e.Event], None],
        pool: Executor,
    ) -> None:
        """`alone`: the worker is a standalone one; `resolved` resolves the placeholders in the
        configurations of a connector or task that starts."""
        self._registry = registry
        self._exactly_once = exactly_once
        self._alone = alone
        self._resolved = resolved
        self._redacted = redacted
        self._post = post
        self._pool = pool
        self._lock = threading.Lock()  # guards the runs
        self._tasks: dict[TaskId, _Task] = {}
        self._connectors: dict[str, int] = {}
        self._changing: dict[str, threading.Lock] = {}  # one start or stop of a connector at a time
        settings = {name: text for name, text in worker.props.items() if not name.startswith(_OURS)}
        self._host = JavaHost(
            HostSettings(worker[java_host.HEAP], shlex.split(worker[java_host.OPTIONS])),
            lambda: m.OpenHost(finding.host_settings(settings), worker_id, kafka_cluster),
            self._on_event,
            self._on_end,
        )

    def runs(self, config: Mapping[str, str | None]) -> bool:
        """Whether a configuration names a connector that is written in Java."""
        entry = self._registry.find_connector_of(config)
        return entry is not None and entry.java

    def validate(self, config: RawProps) -> render.Json:
        """`ConfigInfos`, by the plugin's own code; `config` is resolved."""
        self._check_distributed()
        infos: render.Json = self._host.order(m.Validate(config))
        return infos

    def start_connector(self, name: str, run: int, config: RawProps) -> JavaInstance:
        """Starts a connector instance; an earlier one of this name is stopped first."""
        self._check_distributed()
        [resolved] = self._resolved(name, [config])
        with self._change(name):
            with self._lock:
                earlier = self._connectors.pop(name, None)
            if earlier is not None:
                self._host.order_running(m.StopJavaConnector(name))
            with self._lock:
                self._connectors[name] = run
            try:
                self._host.order(m.StartJavaConnector(name, run, resolved))
            except BaseException:
                with self._lock:
                    self._connectors.pop(name, None)
                # The host still knows one that has failed.
                self._host.order_running(m.StopJavaConnector(name))
                raise
        return JavaInstance(lambda: self._stop_connector(name, run))

    def _stop_connector(self, name: str, run: int) -> None:
        """Stops an instance, unless a later one has replaced it."""
        with self._change(name):
            with self._lock:
                if self._connectors.get(name) != run:
                    return
                del self._connectors[name]
            self._host.order_running(m.StopJavaConnector(name))

    def _change(self, name: str) -> threading.Lock:
        with self._lock:
            return self._changing.setdefault(name, threading.Lock())

    def task_configs(self, name: str, config: RawProps) -> Sequence[dict[str, str]]:
        """What a running instance generates, with resolved values."""
        [resolved] = self._resolved(name, [config])
        configs: list[dict[str, str]] = self._host.order(m.GenerateTaskConfigs(name, resolved))
        return configs

    def start_task(self, command: e.StartTask, allow: Callable[[], object]) -> bool:
        """Starts a task; returns whether it runs, or has failed. `allow` is called when the
        producer of an exactly-once task is ready; what it raises fails the task."""
        self._check_distributed()
        task, run = command.task, command.run
        configs = command.connector_config, command.task_config
        config, task_config = self._resolved(task, configs)
        started = _Task(run, allow, threading.Event())
        with self._lock:
            self._tasks[task] = started
        try:
            self._host.order(m.StartJavaTask(task, run, config, task_config, self._exactly_once))
        except BaseException:
            if self._ended(task, run) is None:
                return False  # its end has been reported
            raise
        started.open.wait(_OPEN_S)
        with self._lock:
            is_running = self._tasks.get(task) is started and not started.failed
        if is_running:
            self._post(e.TaskStarted(task, run))
        return is_running

    def stop_task(self, task: TaskId, run: int) -> bool:
        """Stops a task; False if it does not run here."""
        if self._ended(task, run) is None:
            return False
        self._host.order_running(m.StopJavaTask(task, run))
        return True

    def alter_offsets(self, name: str, config: RawProps, offsets: Sequence[m.Json] | None) -> str:
        """Alters a stopped connector's offsets, or resets them; the message for the user."""
        self._check_distributed()
        pairs = offsets and [
            {"partition": pair.get("partition"), "offset": pair.get("offset")} for pair in offsets
        ]
        answer = self._host.order(m.AlterOffsets(name, config, pairs))
        return str(answer["message"])

    def close(self) -> None:
        """Stops the host, if one runs."""
        self._host.close()

    def _check_distributed(self) -> None:
        if self._alone:
            raise Unsupported(
                "Connectors written in Java run in distributed mode only: a standalone worker's "
                "offset file has one writer. Start 'penstock distributed' instead."
            )

    def _ended(self, task: TaskId, run: int) -> _Task | None:
        """Removes a run; None if it has been removed already, so that its end is reported once."""
        with self._lock:
            known = self._tasks.get(task)
            if known is None or known.run != run:
                return None
            del self._tasks[task]
        known.open.set()
        return known

    def _on_event(self, event: m.Event) -> None:
        match event:
            case m.JavaTaskStarted(task, run):
                if (known := self._known(task, run)) is not None:
                    known.open.set()
            case m.JavaTaskFailed(task, run, cause):
                if (known := self._known(task, run)) is not None:
                    known.failed = True
                    known.open.set()
                    self._pool.submit(about(task)(self._on_failed), task, run, cause)
            case m.ProducerReady(task, run):
                self._pool.submit(about(task)(self._allow), task, run)
            case m.JavaConnectorFailed(name, run, cause):
                with self._lock:
                    is_current = self._connectors.get(name) == run
                if is_current:
                    shown = self._shown(cause)
                    log.error("Connector %s failed: %s", name, shown)
                    self._post(e.ConnectorFailed(name, run, shown, cause.retriable))
            case m.JavaReconfiguration(name, run):
                self._post(e.ReconfigurationRequested(name, run))
            case m.Exiting():
                pass  # part of the reason of the host's end
            case _:
                assert_never(event)

    def _known(self, task: TaskId, run: int) -> _Task | None:
        with self._lock:
            known = self._tasks.get(task)
        return known if known is not None and known.run == run else None

    def _on_failed(self, task: TaskId, run: int, cause: m.Cause) -> None:
        """Reports a failed task, after the host has forgotten it: only then can it start again."""
        try:
            self._host.order_running(m.StopJavaTask(task, run))
        except m.JavaError as error:
            log.warning("failed to stop the failed task: %s", error)
        if self._ended(task, run) is not None:
            self._fail(task, run, Trace(self._shown(cause), cause.retriable))

    def _allow(self, task: TaskId, run: int) -> None:
        known = self._known(task, run)
        if known is None:
            return
        refusal: str | None = None
        try:
            known.allow()
        except Exception as error:
            refusal = str(error)
        self._host.order_running(m.AllowStart(task, run, refusal))

    def _on_end(self, reason: str) -> None:
        """Everything in the host has failed with it."""
        with self._lock:
            tasks, self._tasks = self._tasks, {}
            connectors, self._connectors = self._connectors, {}
        shown = self._redacted(reason)
        for task, known in tasks.items():
            known.open.set()
            with about(task):
                self._fail(task, known.run, Trace(shown))
        for name, run in connectors.items():
            self._post(e.ConnectorFailed(name, run, shown))

    def _fail(self, task: TaskId, run: int, trace: Trace) -> None:
        log.error("Task %s failed: %s", task, trace.text)
        self._post(e.TaskFailed(task, run, trace.text, retriable=trace.retriable))

    def _shown(self, cause: m.Cause) -> str:
        return self._redacted(cause.trace.rstrip())


def java_trace(error: BaseException) -> Trace:
    """The trace of an error: Java's, if it was raised there."""
    if isinstance(error, m.JavaError):
        return Trace(error.cause.trace.rstrip(), error.cause.retriable)
    return trace_of(error)
