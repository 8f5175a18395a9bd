"""The metrics of a worker, for Prometheus.

Names are those that the usual configuration of the JMX exporter gives Kafka Connect's beans:
`kafka.connect:type=sink-task-metrics,connector="c",task="0"` with `put-batch-avg-time-ms` is
`kafka_connect_sink_task_put_batch_avg_time_ms{connector="c",task="0"}`. Rates, averages and maxima
cover the last minute, totals the time since the task was started (kafka-connect.md §14). Metrics
that only penstock has begin with `penstock_`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from penstock import KAFKA_COMMIT, KAFKA_VERSION, VERSION
from penstock.api import Figure as InterceptorFigure
from penstock.clock import Clock
from penstock.cluster.herder.runs import Phase, Run
from penstock.cluster.herder.state import HerderState
from penstock.cluster.records import State
from penstock.flow.driver.reports import (
    Committed,
    InterceptorFigures,
    SlotStanding,
    Standing,
    TaskProgress,
)
from penstock.flow.plan import FlowPlan, SourcePlan
from penstock.ids import TaskId
from penstock.kafka.group import Figure
from penstock.plugins.registry import PluginClass, Registry

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_WINDOW_MS: Final = 60_000  # two of Kafka's samples (metrics.num.samples, metrics.sample.window.ms)

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]
"""Name, labels and value."""


class Window:
    """Values of the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: deque[tuple[int, float]] = deque()
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._forget()
        self._values.append((self._clock.now(), value))
        self._sum += value

    @property
    def rate(self) -> float:
        """Of the sum, per second."""
        self._forget()
        return self._sum / (_WINDOW_MS / 1000)

    @property
    def average(self) -> float:
        """NaN without a value."""
        self._forget()
        return self._sum / len(self._values) if self._values else float("nan")

    @property
    def largest(self) -> float:
        """NaN without a value."""
        self._forget()
        return max((value for _, value in self._values), default=float("nan"))

    @property
    def smallest(self) -> float:
        """NaN without a value."""
        self._forget()
        return min((value for _, value in self._values), default=float("nan"))

    def _forget(self) -> None:
        begin = self._clock.now() - _WINDOW_MS
        while self._values and self._values[0][0] <= begin:
            self._sum -= self._values.popleft()[1]


class _Phases:
    """The phases of a task in the last minute, and when each began."""

    def __init__(self, clock: Clock, phase: Phase) -> None:
        self._clock = clock
        self._spans = deque([(clock.now(), phase)])

    def enter(self, phase: Phase) -> None:
        if self._spans[-1][1] is not phase:
            self._spans.append((self._clock.now(), phase))

    def ratio(self, phase: Phase) -> float:
        """The share of the last minute, or of the time since the start, in a phase."""
        now = self._clock.now()
        begin = now - _WINDOW_MS
        while len(self._spans) > 1 and self._spans[1][0] <= begin:
            self._spans.popleft()
        starts = [max(begin, at) for at, _ in self._spans]
        ends = [*starts[1:], now]
        spent = sum(
            end - start
            for start, end, (_, span_phase) in zip(starts, ends, self._spans, strict=True)
            if span_phase is phase
        )
        return spent / (now - starts[0]) if now > starts[0] else 0.0


@dataclass(slots=True)
class _Task:
    """The counts of one run of a task."""

    plan: FlowPlan
    clock: Clock
    read: Window = field(init=False)
    written: Window = field(init=False)
    batch_ms: Window = field(init=False)
    commits: Window = field(init=False)
    commit_ms: Window = field(init=False)
    active: Window = field(init=False)
    totals: dict[str, float] = field(default_factory=dict)
    uncommitted: int = 0
    partitions: int = 0
    last_error: int = 0
    figures: Sequence[InterceptorFigure] = ()

    def __post_init__(self) -> None:
        self.read, self.written = Window(self.clock), Window(self.clock)
        self.batch_ms, self.commits = Window(self.clock), Window(self.clock)
        self.commit_ms, self.active = Window(self.clock), Window(self.clock)

    def count(self, name: str, by: float) -> None:
        self.totals[name] = self.totals.get(name, 0) + by

    def batch(self, done: TaskProgress) -> None:
        self.read.add(done.records)
        self.written.add(done.done)
        self.batch_ms.add(done.ms)
        self.count("read", done.records)
        self.count("written", done.done)
        self.count("failed", done.failed)
        self.count("retries", done.retries)
        self.count("lost", done.lost)
        self.uncommitted += done.records
        self.active.add(self.uncommitted)
        if done.failed:
            self.last_error = self.clock.now()

    def commit(self, ok: bool, ms: float) -> None:
        self.commits.add(1.0 if ok else 0.0)
        self.commit_ms.add(ms)
        self.count("attempts", 1)
        if ok:
            self.count("committed", 1)
            self.uncommitted = 0


@dataclass(frozen=True, slots=True)
class Slots:
    """A worker's slots, how often tasks have moved between them, and how many have died."""

    slots: Sequence[SlotStanding] = ()
    moves: int = 0
    deaths: int = 0


class Metrics:
    """The counts of one worker. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tasks: dict[TaskId, _Task] = {}
        self._phases: dict[TaskId, _Phases] = {}
        self._starts: dict[tuple[str, bool], int] = {}
        self._started_ms = clock.now()
        self._round_began: int | None = None
        self._round_ended: int | None = None
        self._rounds = 0
        self._round_ms = Window(clock)

    def started(self, kind: str, ok: bool) -> None:
        """A `connector` or `task` was started, or failed to start."""
        with self._lock:
            self._starts[kind, ok] = self._starts.get((kind, ok), 0) + 1

    def begun(self, plan: FlowPlan) -> None:
        """A task starts; its counts begin at zero."""
        with self._lock:
            self._tasks[plan.task] = _Task(plan, self._clock)

    def ended(self, task: TaskId) -> None:
        with self._lock:
            self._tasks.pop(task, None)

    def phases(self, tasks: Mapping[TaskId, Run]) -> None:
        """The tasks of this worker and their phases."""
        with self._lock:
            for id in self._phases.keys() - tasks.keys():
                del self._phases[id]
            for id, run in tasks.items():
                phases = self._phases.get(id)
                if phases is None:
                    self._phases[id] = _Phases(self._clock, run.phase)
                else:
                    phases.enter(run.phase)

    def report(self, event: TaskProgress | Committed | InterceptorFigures) -> None:
        with self._lock:
            task = self._tasks.get(event.task)
            if task is None or task.plan.run != event.run:
                return
            if isinstance(event, TaskProgress):
                task.batch(event)
            elif isinstance(event, InterceptorFigures):
                task.figures = event.figures
            else:
                task.partitions = event.partitions
                task.commit(event.ok, event.ms)

    def stored(self, task: TaskId, ok: bool, ms: float) -> None:
        """A source task's offsets were stored, or failed to be."""
        with self._lock:
            counts = self._tasks.get(task)
            if counts is not None:
                counts.commit(ok, ms)

    def round_begins(self) -> None:
        with self._lock:
            self._round_began = self._round_began or self._clock.now()

    def round_ends(self) -> None:
        with self._lock:
            now = self._clock.now()
            if self._round_began is not None:
                self._round_ms.add(now - self._round_began)
            self._round_began, self._round_ended = None, now
            self._rounds += 1

    def exposition(
        self,
        state: HerderState,
        registry: Registry,
        standings: Mapping[TaskId, Standing] = MappingProxyType({}),
        figures: Iterable[Figure] = (),
        slots: Slots | None = None,
    ) -> bytes:
        """All metrics in Prometheus' text format; `figures` are those of the group member."""
        with self._lock:
            samples = [
                *self._of_worker(state),
                *_of_group(figures),
                *_of_connectors(state, registry),
                *self._of_tasks(state),
                *_of_standings(standings),
                *_of_slots(slots),
                *_of_restarts(state),
            ]
        collected = CollectorRegistry(auto_describe=False)
        collected.register(_Collector(samples))
        return generate_latest(collected)

    def _of_worker(self, state: HerderState) -> Iterator[Sample]:
        yield "kafka_connect_worker_connector_count", {}, len(state.running.connectors)
        yield "kafka_connect_worker_task_count", {}, len(state.running.tasks)
        for kind in ("connector", "task"):
            good, bad = (self._starts.get((kind, ok), 0) for ok in (True, False))
            stem = f"kafka_connect_worker_{kind}_startup"
            yield f"{stem}_attempts_total", {}, good + bad
            yield f"{stem}_success_total", {}, good
            yield f"{stem}_failure_total", {}, bad
            yield f"{stem}_success_percentage", {}, good / (good + bad) if good + bad else 0.0
            yield f"{stem}_failure_percentage", {}, bad / (good + bad) if good + bad else 0.0
        stem = "kafka_connect_worker_rebalance"
        yield f"{stem}_completed_rebalances_total", {}, self._rounds
        yield f"{stem}_rebalancing", {}, float(self._round_began is not None)
        yield f"{stem}_rebalance_max_time_ms", {}, self._round_ms.largest
        yield f"{stem}_rebalance_avg_time_ms", {}, self._round_ms.average
        if self._round_ended is not None:
            since = self._clock.now() - self._round_ended
            yield f"{stem}_time_since_last_rebalance_ms", {}, since
        if (group := state.membership.member) is not None:
            yield f"{stem}_epoch", {}, group.generation
            member = {"leader_name": group.leader_url}
            yield f"{stem}_leader_name", member, 1.0
            yield f"{stem}_connect_protocol", {"connect_protocol": group.protocol}, 1.0
        stem = "kafka_connect_coordinator"
        yield f"{stem}_rebalance_total", {}, self._rounds
        yield f"{stem}_rebalance_latency_max", {}, self._round_ms.largest
        yield f"{stem}_rebalance_latency_avg", {}, self._round_ms.average
        running = state.membership.owned
        yield "kafka_connect_coordinator_assigned_connectors", {}, len(running.connectors)
        yield "kafka_connect_coordinator_assigned_tasks", {}, len(running.tasks)
        labels = {"version": KAFKA_VERSION, "commit_id": KAFKA_COMMIT, "penstock": VERSION}
        yield "kafka_connect_app_info", labels, 1.0
        yield "kafka_connect_app_info_start_time_ms", {}, self._started_ms
        yield "penstock_spark_ready", {}, float(state.running.spark_ready)

    def _of_tasks(self, state: HerderState) -> Iterator[Sample]:
        for id in state.running.tasks:
            labels = {"connector": id.connector, "task": str(id.number)}
            phases, task = self._phases.get(id), self._tasks.get(id)
            if phases is not None:
                stem = "kafka_connect_connector_task"
                yield f"{stem}_running_ratio", labels, phases.ratio(Phase.RUNNING)
                yield f"{stem}_pause_ratio", labels, phases.ratio(Phase.PAUSED)
            if task is not None:
                yield from _of_task(labels, task)


def _of_group(figures: Iterable[Figure]) -> Iterator[Sample]:
    for figure in figures:
        group = figure.group.removeprefix("connect-").removesuffix("metrics").replace("-", "_")
        yield f"kafka_connect_{group}{figure.name.replace('-', '_')}", {}, figure.value


def _of_task(labels: Labels, task: _Task) -> Iterator[Sample]:
    totals, source = task.totals, isinstance(task.plan, SourcePlan)

    def total(name: str) -> float:
        return totals.get(name, 0)

    stem = "kafka_connect_connector_task"
    yield f"{stem}_batch_size_max", labels, task.read.largest
    yield f"{stem}_batch_size_avg", labels, task.read.average
    yield f"{stem}_offset_commit_max_time_ms", labels, task.commit_ms.largest
    yield f"{stem}_offset_commit_avg_time_ms", labels, task.commit_ms.average
    good = task.commits.average
    yield f"{stem}_offset_commit_success_percentage", labels, good
    yield f"{stem}_offset_commit_failure_percentage", labels, 1 - good
    conversion = task.plan.conversion
    for part, plan in (
        ("key", conversion.key),
        ("value", conversion.value),
        ("header", conversion.header),
    ):
        yield f"{stem}_{part}_converter_class", {**labels, **_class_labels(plan.kind)}, 1.0
    for transform in conversion.transforms:
        of = {**labels, "transform": transform.alias}
        yield (
            "kafka_connect_connector_transform_class",
            {**of, **_class_labels(transform.kind)},
            1.0,
        )
        if transform.predicate is not None:
            predicate = _class_labels(transform.predicate[0])
            yield "kafka_connect_connector_predicate_class", {**of, **predicate}, 1.0
    if source:
        stem = "kafka_connect_source_task"
        yield f"{stem}_source_record_poll_rate", labels, task.read.rate
        yield f"{stem}_source_record_poll_total", labels, total("read")
        yield f"{stem}_source_record_write_rate", labels, task.written.rate
        yield f"{stem}_source_record_write_total", labels, total("written")
        yield f"{stem}_poll_batch_max_time_ms", labels, task.batch_ms.largest
        yield f"{stem}_poll_batch_avg_time_ms", labels, task.batch_ms.average
        if isinstance(task.plan, SourcePlan) and task.plan.transactions is not None:
            yield f"{stem}_transaction_size_min", labels, task.written.smallest
            yield f"{stem}_transaction_size_max", labels, task.written.largest
            yield f"{stem}_transaction_size_avg", labels, task.written.average
    else:
        stem = "kafka_connect_sink_task"
        yield f"{stem}_sink_record_read_rate", labels, task.read.rate
        yield f"{stem}_sink_record_read_total", labels, total("read")
        yield f"{stem}_sink_record_send_rate", labels, task.written.rate
        yield f"{stem}_sink_record_send_total", labels, total("written")
        yield f"{stem}_sink_record_active_count", labels, task.uncommitted
        yield f"{stem}_sink_record_active_count_max", labels, task.active.largest
        yield f"{stem}_sink_record_active_count_avg", labels, task.active.average
        yield f"{stem}_put_batch_max_time_ms", labels, task.batch_ms.largest
        yield f"{stem}_put_batch_avg_time_ms", labels, task.batch_ms.average
        yield f"{stem}_partition_count", labels, task.partitions
        yield f"{stem}_offset_commit_seq_no", labels, total("attempts")
        yield f"{stem}_offset_commit_completion_rate", labels, task.commits.rate
        yield f"{stem}_offset_commit_completion_total", labels, total("committed")
        yield f"{stem}_offset_commit_skip_rate", labels, 0.0  # the caller waits for them
        yield f"{stem}_offset_commit_skip_total", labels, 0
    yield from _of_errors(labels, task)
    for figure in task.figures:
        yield figure.name, {**figure.labels, **labels}, figure.value


def _class_labels(kind: PluginClass) -> Labels:
    return {"class": kind.plugin.class_name, "version": kind.plugin.version}


def _of_standings(standings: Mapping[TaskId, Standing]) -> Iterator[Sample]:
    """The lag of sinks, the placement of tasks, and how busy they are."""
    for id, standing in standings.items():
        labels = {"connector": id.connector, "task": str(id.number)}
        for (topic, partition), records in standing.behind.items():
            place = {"topic": topic, "partition": str(partition)}
            yield "penstock_sink_record_lag", {**labels, **place}, records
        if standing.behind:
            most = max(standing.behind.values())
            yield "kafka_connect_sink_task_sink_record_lag_max", labels, most
        if standing.slot is not None:
            placed = {**labels, "slot": str(standing.slot), "shared": _yes(standing.shared)}
            yield "penstock_task_busy_ratio", placed, standing.busy


def _of_slots(slots: Slots | None) -> Iterator[Sample]:
    """The slots that host this worker's tasks."""
    if slots is None:
        return
    for slot in slots.slots:
        labels = {"slot": str(slot.number), "shared": _yes(slot.shared)}
        yield "penstock_slot_tasks", labels, slot.tasks
        yield "penstock_slot_memory_bytes", labels, slot.memory_bytes
    yield "penstock_slot_moves_total", {}, slots.moves
    yield "penstock_slot_deaths_total", {}, slots.deaths


def _yes(flag: bool) -> str:
    return "true" if flag else "false"


def _of_errors(labels: Labels, task: _Task) -> Iterator[Sample]:
    stem, tolerance = "kafka_connect_task_error", task.plan.tolerance
    failed, retries = task.totals.get("failed", 0), task.totals.get("retries", 0)
    yield f"{stem}_total_record_failures", labels, failed + retries
    yield f"{stem}_total_record_errors", labels, failed
    yield f"{stem}_total_records_skipped", labels, failed
    yield f"{stem}_total_retries", labels, retries
    yield f"{stem}_total_errors_logged", labels, failed if tolerance.log else 0
    letters = failed if tolerance.dead_letters is not None else 0
    yield f"{stem}_deadletterqueue_produce_requests", labels, letters
    yield f"{stem}_deadletterqueue_produce_failures", labels, task.totals.get("lost", 0)
    yield f"{stem}_last_error_timestamp", labels, task.last_error


def _of_connectors(state: HerderState, registry: Registry) -> Iterator[Sample]:
    """Statuses of what this worker runs; those of tasks under both usual names."""
    for name in state.running.connectors:
        status = state.statuses.connector(name)
        shown = (status.state if status else State.UNASSIGNED).value.lower()
        yield "kafka_connect_connector_status", {"connector": name, "status": shown}, 1.0
        config = state.cluster.config(name) or {}
        entry = registry.find_connector(config.get("connector.class"))
        if entry is not None:
            labels = {
                "connector": name,
                "connector_class": entry.plugin.class_name,
                "connector_type": entry.kind.value,
                "connector_version": entry.plugin.version,
            }
            yield "kafka_connect_connector_info", labels, 1.0
    counts: dict[str, dict[str, int]] = {}
    for id in state.running.tasks:
        task_status = state.statuses.task(id)
        shown = (task_status.state if task_status else State.UNASSIGNED).value.lower()
        labels = {"connector": id.connector, "task": str(id.number), "status": shown}
        yield "kafka_connect_connector_task_status", labels, 1.0
        yield "kafka_connect_connector_status", labels, 1.0
        of = counts.setdefault(id.connector, {})
        of[shown] = of.get(shown, 0) + 1
    for name, of in counts.items():
        stem, of_connector = "kafka_connect_worker_connector", {"connector": name}
        yield f"{stem}_total_task_count", of_connector, sum(of.values())
        for shown in ("running", "paused", "failed", "unassigned", "destroyed", "restarting"):
            yield f"{stem}_{shown}_task_count", of_connector, of.get(shown, 0)


def _of_restarts(state: HerderState) -> Iterator[Sample]:
    for item, recovery in state.running.recoveries.items():
        labels = (
            {"connector": item.connector, "task": str(item.number)}
            if isinstance(item, TaskId)
            else {"connector": item, "task": ""}
        )
        yield "penstock_restarts_in_window", labels, len(recovery.past)
    failed = sum(run.phase is Phase.FAILED for run in state.running.tasks.values())
    yield "penstock_failed_tasks", {}, failed


class _Collector:
    """Passes samples to the client library, one family per name."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = list(samples)

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, labels, value in self._samples:
            family = families.get(name)
            if family is None:
                kind = "counter" if name.endswith("_total") else "gauge"
                stem = name.removesuffix("_total") if kind == "counter" else name
                family = families[name] = Metric(stem, name.replace("_", " "), kind)
            family.add_sample(name, dict(labels), value)
        yield from families.values()
