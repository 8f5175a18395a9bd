"""All metrics of a worker: name, labels, help, and how each is computed.

`GET /metrics` and `docs/metrics.md` are made from this table; to add a metric, add a line. Names
are those that the usual configuration of the JMX exporter gives Kafka Connect's beans:
`kafka.connect:type=sink-task-metrics,connector="c",task="0"` with `put-batch-avg-time-ms` is
`kafka_connect_sink_task_put_batch_avg_time_ms{connector="c",task="0"}` (kafka-connect.md §14).
Metrics that only penstock has begin with `penstock_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from penstock import KAFKA_COMMIT, KAFKA_VERSION, VERSION
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import HerderState
from penstock.cluster.records import State
from penstock.flow.driver.reports import SlotStanding, Standing
from penstock.flow.plan import FlowPlan, SinkPlan, SourcePlan
from penstock.ids import TaskId
from penstock.plugins.ref import PluginRef
from penstock.plugins.registry import Registry
from penstock.runtime.recording import PhaseTimes, Rebalances, TaskRecord

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


@dataclass(frozen=True, slots=True)
class Slots:
    """A worker's slots, how often tasks have moved between them, and how many have died."""

    slots: Sequence[SlotStanding] = ()
    moves: int = 0
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class Scrape:
    """Everything that metrics are computed from, at one moment."""

    now: int
    started_ms: int
    state: HerderState
    registry: Registry
    starts: Mapping[tuple[str, bool], int]
    """How often a `connector` or `task` was started, or failed to start."""
    rebalances: Rebalances
    tasks: Mapping[TaskId, TaskRecord]
    phases: Mapping[TaskId, PhaseTimes]
    standings: Mapping[TaskId, Standing]
    slots: Slots | None


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. Without samples it is not shown."""

    name: str
    labels: tuple[str, ...]
    help: str
    samples: Callable[[Scrape], Iterable[Sample]]

    @property
    def kind(self) -> Literal["counter", "gauge"]:
        """Prometheus' type: by its convention, names of counters end in `_total`."""
        return "counter" if self.name.endswith("_total") else "gauge"


@dataclass(frozen=True, slots=True)
class Section:
    """Metrics of one subject."""

    title: str
    metrics: Sequence[Metric]


_TASK: Final = ("connector", "task")


def _task_labels(id: TaskId) -> dict[str, str]:
    return {"connector": id.connector, "task": str(id.number)}


def _class_labels(plugin: PluginRef[object]) -> dict[str, str]:
    return {"class": plugin.class_name, "version": plugin.version}


def _single(name: str, help: str, value: Callable[[Scrape], float | None]) -> Metric:
    """A metric of the worker, without labels; None: not shown."""

    def samples(scrape: Scrape) -> Iterator[Sample]:
        number = value(scrape)
        if number is not None:
            yield {}, number

    return Metric(name, (), help, samples)


def _tasks(
    name: str,
    help: str,
    value: Callable[[TaskRecord], float],
    applies: Callable[[FlowPlan], bool] = lambda plan: True,
) -> Metric:
    """A metric of every running task to whose plan it applies."""

    def samples(scrape: Scrape) -> Iterator[Sample]:
        for id in scrape.state.running.tasks:
            task = scrape.tasks.get(id)
            if task is not None and applies(task.plan):
                yield _task_labels(id), value(task)

    return Metric(name, _TASK, help, samples)


def _classes(
    name: str,
    labels: tuple[str, ...],
    help: str,
    classes: Callable[[FlowPlan], Iterable[tuple[Labels, PluginRef[object]]]],
) -> Metric:
    """An information about plugins of every running task: the value is 1."""

    def samples(scrape: Scrape) -> Iterator[Sample]:
        for id in scrape.state.running.tasks:
            task = scrape.tasks.get(id)
            if task is not None:
                for extra, plugin in classes(task.plan):
                    yield {**_task_labels(id), **extra, **_class_labels(plugin)}, 1.0

    return Metric(name, (*_TASK, *labels, "class", "version"), help, samples)


_sinks = partial(_tasks, applies=lambda plan: isinstance(plan, SinkPlan))
_sources = partial(_tasks, applies=lambda plan: isinstance(plan, SourcePlan))
_transactional = partial(
    _tasks, applies=lambda plan: isinstance(plan, SourcePlan) and plan.transactions is not None
)


def _starts(kind: str) -> list[Metric]:
    """The startup metrics of connectors or tasks."""

    def good(scrape: Scrape) -> int:
        return scrape.starts.get((kind, True), 0)

    def bad(scrape: Scrape) -> int:
        return scrape.starts.get((kind, False), 0)

    def share(part: Callable[[Scrape], int], scrape: Scrape) -> float:
        attempts = good(scrape) + bad(scrape)
        return part(scrape) / attempts if attempts else 0.0

    stem = f"kafka_connect_worker_{kind}_startup"
    return [
        _single(
            f"{stem}_attempts_total",
            f"Starts of {kind}s that this worker attempted.",
            lambda scrape: good(scrape) + bad(scrape),
        ),
        _single(f"{stem}_success_total", f"Starts of {kind}s that succeeded.", good),
        _single(f"{stem}_failure_total", f"Starts of {kind}s that failed.", bad),
        _single(
            f"{stem}_success_percentage",
            f"Share of {kind} starts that succeeded, from 0 to 1.",
            partial(share, good),
        ),
        _single(
            f"{stem}_failure_percentage",
            f"Share of {kind} starts that failed, from 0 to 1.",
            partial(share, bad),
        ),
    ]


def _since_rebalance(scrape: Scrape) -> float | None:
    ended = scrape.rebalances.ended
    return None if ended is None else scrape.now - ended


def _epoch(scrape: Scrape) -> float | None:
    member = scrape.state.membership.member
    return None if member is None else member.generation


def _leader_name(scrape: Scrape) -> Iterator[Sample]:
    if (member := scrape.state.membership.member) is not None:
        yield {"leader_name": member.leader_url}, 1.0


def _protocol(scrape: Scrape) -> Iterator[Sample]:
    if (member := scrape.state.membership.member) is not None:
        yield {"connect_protocol": member.protocol}, 1.0


def _app_info(scrape: Scrape) -> Iterator[Sample]:
    yield {"version": KAFKA_VERSION, "commit_id": KAFKA_COMMIT, "penstock": VERSION}, 1.0


_WORKER: Final = (
    _single(
        "kafka_connect_worker_connector_count",
        "Connectors that this worker runs.",
        lambda scrape: len(scrape.state.running.connectors),
    ),
    _single(
        "kafka_connect_worker_task_count",
        "Tasks that this worker runs.",
        lambda scrape: len(scrape.state.running.tasks),
    ),
    *_starts("connector"),
    *_starts("task"),
    Metric(
        "kafka_connect_app_info",
        ("version", "commit_id", "penstock"),
        "Versions: of Kafka Connect, whose behaviour the worker has, and of penstock. Always 1.",
        _app_info,
    ),
    _single(
        "kafka_connect_app_info_start_time_ms",
        "When the worker was started, in milliseconds since the epoch.",
        lambda scrape: scrape.started_ms,
    ),
    _single(
        "penstock_spark_ready",
        "1 when Spark is ready to run tasks, else 0.",
        lambda scrape: float(scrape.state.running.spark_ready),
    ),
)

_REBALANCES: Final = (
    _single(
        "kafka_connect_worker_rebalance_completed_rebalances_total",
        "Rebalances of the workers' group that this worker has completed.",
        lambda scrape: scrape.rebalances.completed,
    ),
    _single(
        "kafka_connect_worker_rebalance_rebalancing",
        "1 while the workers' group rebalances, else 0.",
        lambda scrape: float(scrape.rebalances.began is not None),
    ),
    _single(
        "kafka_connect_worker_rebalance_rebalance_max_time_ms",
        "Longest rebalance of the last minute, in milliseconds.",
        lambda scrape: scrape.rebalances.ms.largest,
    ),
    _single(
        "kafka_connect_worker_rebalance_rebalance_avg_time_ms",
        "Average time of the last minute's rebalances, in milliseconds.",
        lambda scrape: scrape.rebalances.ms.average,
    ),
    _single(
        "kafka_connect_worker_rebalance_time_since_last_rebalance_ms",
        "Time since the last rebalance ended, in milliseconds.",
        _since_rebalance,
    ),
    _single(
        "kafka_connect_worker_rebalance_epoch",
        "Generation of the workers' group.",
        _epoch,
    ),
    Metric(
        "kafka_connect_worker_rebalance_leader_name",
        ("leader_name",),
        "URL of the group's leader, as a label. Always 1.",
        _leader_name,
    ),
    Metric(
        "kafka_connect_worker_rebalance_connect_protocol",
        ("connect_protocol",),
        "Protocol that the workers agreed on, as a label. Always 1.",
        _protocol,
    ),
    _single(
        "kafka_connect_coordinator_rebalance_total",
        "Rebalances of the workers' group that this worker has completed.",
        lambda scrape: scrape.rebalances.completed,
    ),
    _single(
        "kafka_connect_coordinator_rebalance_latency_max",
        "Longest rebalance of the last minute, in milliseconds.",
        lambda scrape: scrape.rebalances.ms.largest,
    ),
    _single(
        "kafka_connect_coordinator_rebalance_latency_avg",
        "Average time of the last minute's rebalances, in milliseconds.",
        lambda scrape: scrape.rebalances.ms.average,
    ),
    _single(
        "kafka_connect_coordinator_assigned_connectors",
        "Connectors that the leader has assigned to this worker.",
        lambda scrape: len(scrape.state.membership.owned.connectors),
    ),
    _single(
        "kafka_connect_coordinator_assigned_tasks",
        "Tasks that the leader has assigned to this worker.",
        lambda scrape: len(scrape.state.membership.owned.tasks),
    ),
)


def _shown(state: State | None) -> str:
    return (state or State.UNASSIGNED).value.lower()


def _task_statuses(scrape: Scrape) -> Iterator[tuple[TaskId, str]]:
    for id in scrape.state.running.tasks:
        status = scrape.state.statuses.task(id)
        yield id, _shown(status.state if status else None)


def _connector_status(scrape: Scrape) -> Iterator[Sample]:
    for name in scrape.state.running.connectors:
        status = scrape.state.statuses.connector(name)
        yield {"connector": name, "status": _shown(status.state if status else None)}, 1.0
    yield from _task_status(scrape)


def _task_status(scrape: Scrape) -> Iterator[Sample]:
    for id, status in _task_statuses(scrape):
        yield {**_task_labels(id), "status": status}, 1.0


def _connector_info(scrape: Scrape) -> Iterator[Sample]:
    for name in scrape.state.running.connectors:
        config = scrape.state.cluster.config(name) or {}
        entry = scrape.registry.find_connector_of(config)
        if entry is not None:
            labels = {
                "connector": name,
                "connector_class": entry.plugin.class_name,
                "connector_type": entry.kind.value,
                "connector_version": entry.plugin.version,
            }
            yield labels, 1.0


def _task_counts(scrape: Scrape, status: str | None) -> Iterator[Sample]:
    """The number of a connector's tasks on this worker, all or those with a status."""
    counts: dict[str, Counter[str]] = {}
    for id, shown in _task_statuses(scrape):
        counts.setdefault(id.connector, Counter())[shown] += 1
    for name, of_connector in counts.items():
        number = of_connector.total() if status is None else of_connector[status]
        yield {"connector": name}, number


_CONNECTORS: Final = (
    Metric(
        "kafka_connect_connector_status",
        ("connector", "task", "status"),
        "Status of a connector, or of a task, as a label. Always 1.",
        _connector_status,
    ),
    Metric(
        "kafka_connect_connector_info",
        ("connector", "connector_class", "connector_type", "connector_version"),
        "Class, type and version of a connector, as labels. Always 1.",
        _connector_info,
    ),
    Metric(
        "kafka_connect_worker_connector_total_task_count",
        ("connector",),
        "Tasks of a connector on this worker.",
        partial(_task_counts, status=None),
    ),
    *(
        Metric(
            f"kafka_connect_worker_connector_{status}_task_count",
            ("connector",),
            f"Tasks of a connector on this worker that are {status.upper()}.",
            partial(_task_counts, status=status),
        )
        for status in ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
    ),
)


def _phase_ratios(scrape: Scrape, phase: RunPhase) -> Iterator[Sample]:
    for id in scrape.state.running.tasks:
        if (times := scrape.phases.get(id)) is not None:
            yield _task_labels(id), times.ratio(phase)


def _predicates(plan: FlowPlan) -> Iterator[tuple[Labels, PluginRef[object]]]:
    for transform in plan.conversion.transforms:
        if transform.predicate is not None:
            yield {"transform": transform.alias}, transform.predicate.plugin


_TASKS: Final = (
    Metric(
        "kafka_connect_connector_task_status",
        (*_TASK, "status"),
        "Status of a task, as a label. Always 1.",
        _task_status,
    ),
    Metric(
        "kafka_connect_connector_task_running_ratio",
        _TASK,
        "Share of the last minute in which the task was running, from 0 to 1.",
        partial(_phase_ratios, phase=RunPhase.RUNNING),
    ),
    Metric(
        "kafka_connect_connector_task_pause_ratio",
        _TASK,
        "Share of the last minute in which the task was paused, from 0 to 1.",
        partial(_phase_ratios, phase=RunPhase.PAUSED),
    ),
    _tasks(
        "kafka_connect_connector_task_batch_size_max",
        "Most records in one report of the last minute; tasks report four times a second.",
        lambda task: task.read.largest,
    ),
    _tasks(
        "kafka_connect_connector_task_batch_size_avg",
        "Average number of records in the reports of the last minute.",
        lambda task: task.read.average,
    ),
    _tasks(
        "kafka_connect_connector_task_offset_commit_max_time_ms",
        "Longest offset commit of the last minute, in milliseconds.",
        lambda task: task.commit_ms.largest,
    ),
    _tasks(
        "kafka_connect_connector_task_offset_commit_avg_time_ms",
        "Average time of the last minute's offset commits, in milliseconds.",
        lambda task: task.commit_ms.average,
    ),
    _tasks(
        "kafka_connect_connector_task_offset_commit_success_percentage",
        "Share of the last minute's offset commits that succeeded, from 0 to 1.",
        lambda task: task.commits.average,
    ),
    _tasks(
        "kafka_connect_connector_task_offset_commit_failure_percentage",
        "Share of the last minute's offset commits that failed, from 0 to 1.",
        lambda task: 1 - task.commits.average,
    ),
    _classes(
        "kafka_connect_connector_task_key_converter_class",
        (),
        "Class and version of the key converter, as labels. Always 1.",
        lambda plan: [({}, plan.conversion.key.plugin)],
    ),
    _classes(
        "kafka_connect_connector_task_value_converter_class",
        (),
        "Class and version of the value converter, as labels. Always 1.",
        lambda plan: [({}, plan.conversion.value.plugin)],
    ),
    _classes(
        "kafka_connect_connector_task_header_converter_class",
        (),
        "Class and version of the header converter, as labels. Always 1.",
        lambda plan: [({}, plan.conversion.header.plugin)],
    ),
    _classes(
        "kafka_connect_connector_transform_class",
        ("transform",),
        "Class and version of a transform, as labels. Always 1.",
        lambda plan: [({"transform": t.alias}, t.plugin) for t in plan.conversion.transforms],
    ),
    _classes(
        "kafka_connect_connector_predicate_class",
        ("transform",),
        "Class and version of a transform's predicate, as labels. Always 1.",
        _predicates,
    ),
)

_SOURCES: Final = (
    _sources(
        "kafka_connect_source_task_source_record_poll_rate",
        "Records that the source has read, per second.",
        lambda task: task.read.rate,
    ),
    _sources(
        "kafka_connect_source_task_source_record_poll_total",
        "Records that the source has read.",
        lambda task: task.total.records,
    ),
    _sources(
        "kafka_connect_source_task_source_record_write_rate",
        "Records that Kafka has acknowledged, per second.",
        lambda task: task.written.rate,
    ),
    _sources(
        "kafka_connect_source_task_source_record_write_total",
        "Records that Kafka has acknowledged.",
        lambda task: task.total.done,
    ),
    _sources(
        "kafka_connect_source_task_poll_batch_max_time_ms",
        "Longest time that one report of the last minute spent in `poll`, in milliseconds.",
        lambda task: task.batch_ms.largest,
    ),
    _sources(
        "kafka_connect_source_task_poll_batch_avg_time_ms",
        "Average time that the reports of the last minute spent in `poll`, in milliseconds.",
        lambda task: task.batch_ms.average,
    ),
    _transactional(
        "kafka_connect_source_task_transaction_size_min",
        "Fewest records in one report of the last minute, with exactly once.",
        lambda task: task.written.smallest,
    ),
    _transactional(
        "kafka_connect_source_task_transaction_size_max",
        "Most records in one report of the last minute, with exactly once.",
        lambda task: task.written.largest,
    ),
    _transactional(
        "kafka_connect_source_task_transaction_size_avg",
        "Average number of records in the reports of the last minute, with exactly once.",
        lambda task: task.written.average,
    ),
)


def _lags(scrape: Scrape) -> Iterator[Sample]:
    for id, standing in scrape.standings.items():
        for (topic, number), records in standing.behind.items():
            yield {**_task_labels(id), "topic": topic, "partition": str(number)}, records


def _largest_lags(scrape: Scrape) -> Iterator[Sample]:
    for id, standing in scrape.standings.items():
        if standing.behind:
            yield _task_labels(id), max(standing.behind.values())


_SINKS: Final = (
    _sinks(
        "kafka_connect_sink_task_sink_record_read_rate",
        "Records read from Kafka, per second.",
        lambda task: task.read.rate,
    ),
    _sinks(
        "kafka_connect_sink_task_sink_record_read_total",
        "Records read from Kafka.",
        lambda task: task.total.records,
    ),
    _sinks(
        "kafka_connect_sink_task_sink_record_send_rate",
        "Records that the connector has written, per second.",
        lambda task: task.written.rate,
    ),
    _sinks(
        "kafka_connect_sink_task_sink_record_send_total",
        "Records that the connector has written.",
        lambda task: task.total.done,
    ),
    _sinks(
        "kafka_connect_sink_task_sink_record_active_count",
        "Records read since the last commit.",
        lambda task: task.uncommitted,
    ),
    _sinks(
        "kafka_connect_sink_task_sink_record_active_count_max",
        "Most records without a commit in the last minute.",
        lambda task: task.active.largest,
    ),
    _sinks(
        "kafka_connect_sink_task_sink_record_active_count_avg",
        "Average number of records without a commit in the last minute.",
        lambda task: task.active.average,
    ),
    _sinks(
        "kafka_connect_sink_task_put_batch_max_time_ms",
        "Longest time that one report of the last minute spent in the connector's `write`, "
        "including waits between retries, in milliseconds.",
        lambda task: task.batch_ms.largest,
    ),
    _sinks(
        "kafka_connect_sink_task_put_batch_avg_time_ms",
        "Average time that the reports of the last minute spent in the connector's `write`, "
        "in milliseconds.",
        lambda task: task.batch_ms.average,
    ),
    _sinks(
        "kafka_connect_sink_task_partition_count",
        "Topic partitions that the task owns.",
        lambda task: task.partitions,
    ),
    _sinks(
        "kafka_connect_sink_task_offset_commit_seq_no",
        "Number of the last offset commit.",
        lambda task: task.commits_attempted,
    ),
    _sinks(
        "kafka_connect_sink_task_offset_commit_completion_rate",
        "Completed offset commits, per second.",
        lambda task: task.commits.rate,
    ),
    _sinks(
        "kafka_connect_sink_task_offset_commit_completion_total",
        "Completed offset commits.",
        lambda task: task.commits_completed,
    ),
    _sinks(
        "kafka_connect_sink_task_offset_commit_skip_rate",
        "Always 0: the task waits for every commit.",
        lambda task: 0.0,
    ),
    _sinks(
        "kafka_connect_sink_task_offset_commit_skip_total",
        "Always 0: the task waits for every commit.",
        lambda task: 0,
    ),
    Metric(
        "kafka_connect_sink_task_sink_record_lag_max",
        _TASK,
        "Lag of the task's topic partition that is furthest behind, in records.",
        _largest_lags,
    ),
    Metric(
        "penstock_sink_record_lag",
        (*_TASK, "topic", "partition"),
        "Lag of a topic partition: records that the sink has not written yet. The worker looks it "
        "up in Kafka with every scrape, so it is available while the target is not.",
        _lags,
    ),
)


def _restarts(scrape: Scrape) -> Iterator[Sample]:
    for item, recovery in scrape.state.running.recoveries.items():
        labels = _task_labels(item) if isinstance(item, TaskId) else {"connector": item, "task": ""}
        yield labels, len(recovery.past)


_ERRORS: Final = (
    _tasks(
        "kafka_connect_task_error_total_record_failures",
        "Failed operations on records, including those that were retried.",
        lambda task: task.total.failed + task.total.retries,
    ),
    _tasks(
        "kafka_connect_task_error_total_record_errors",
        "Records that failed.",
        lambda task: task.total.failed,
    ),
    _tasks(
        "kafka_connect_task_error_total_records_skipped",
        "Records that were skipped because they failed.",
        lambda task: task.total.failed,
    ),
    _tasks(
        "kafka_connect_task_error_total_retries",
        "Operations that were retried.",
        lambda task: task.total.retries,
    ),
    _tasks(
        "kafka_connect_task_error_total_errors_logged",
        "Failed records that were logged (errors.log.enable).",
        lambda task: task.total.failed if task.plan.tolerance.log else 0,
    ),
    _tasks(
        "kafka_connect_task_error_deadletterqueue_produce_requests",
        "Failed records that were sent to the dead letter queue.",
        lambda task: task.total.failed if task.plan.tolerance.dead_letters is not None else 0,
    ),
    _tasks(
        "kafka_connect_task_error_deadletterqueue_produce_failures",
        "Dead letters that Kafka did not accept.",
        lambda task: task.total.lost,
    ),
    _tasks(
        "kafka_connect_task_error_last_error_timestamp",
        "When a record last failed, in milliseconds since the epoch; 0: never.",
        lambda task: task.last_error,
    ),
    Metric(
        "penstock_restarts_in_window",
        _TASK,
        "Automatic restarts that count against penstock.restart.max; `task` is empty for a "
        "connector.",
        _restarts,
    ),
    _single(
        "penstock_failed_tasks",
        "Failed tasks on this worker.",
        lambda scrape: sum(
            run.phase is RunPhase.FAILED for run in scrape.state.running.tasks.values()
        ),
    ),
)


def _yes(flag: bool) -> str:
    return "true" if flag else "false"


def _busy_ratios(scrape: Scrape) -> Iterator[Sample]:
    for id, standing in scrape.standings.items():
        if standing.slot is not None:
            placed = {"slot": str(standing.slot), "shared": _yes(standing.shared)}
            yield {**_task_labels(id), **placed}, standing.busy


def _each_slot(scrape: Scrape, value: Callable[[SlotStanding], float]) -> Iterator[Sample]:
    for slot in scrape.slots.slots if scrape.slots is not None else ():
        yield {"slot": str(slot.number), "shared": _yes(slot.shared)}, value(slot)


_SLOTS: Final = (
    Metric(
        "penstock_task_busy_ratio",
        (*_TASK, "slot", "shared"),
        "Share of the last seconds in which the task converted, wrote or produced records, "
        "including waits for the target or Kafka, from 0 to 1. A task near 1 is saturated; more "
        "tasks help if there are more partitions or parts.",
        _busy_ratios,
    ),
    Metric(
        "penstock_slot_tasks",
        ("slot", "shared"),
        "Tasks on a slot.",
        partial(_each_slot, value=lambda slot: slot.tasks),
    ),
    Metric(
        "penstock_slot_memory_bytes",
        ("slot", "shared"),
        "Resident memory of a slot's Python process when it was last active.",
        partial(_each_slot, value=lambda slot: slot.memory_bytes),
    ),
    _single(
        "penstock_slot_moves_total",
        "Moves of tasks between slots. A high count means that tasks are busy intermittently.",
        lambda scrape: None if scrape.slots is None else scrape.slots.moves,
    ),
    _single(
        "penstock_slot_deaths_total",
        "Slots that died. If it is not 0, look for `slot … died with` in the log.",
        lambda scrape: None if scrape.slots is None else scrape.slots.deaths,
    ),
)

SECTIONS: Final = (
    Section("Worker", _WORKER),
    Section("Rebalances", _REBALANCES),
    Section("Connectors", _CONNECTORS),
    Section("Tasks", _TASKS),
    Section("Source tasks", _SOURCES),
    Section("Sink tasks", _SINKS),
    Section("Errors and restarts", _ERRORS),
    Section("Slots", _SLOTS),
)
"""All metrics, in the order in which they are shown."""
