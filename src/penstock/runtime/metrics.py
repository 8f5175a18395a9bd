"""The metrics of a worker, for Prometheus: what it records, shown by `metric_table`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family

from penstock.clock import Clock
from penstock.cluster.herder.runs import Run
from penstock.cluster.herder.state import HerderState
from penstock.flow.driver.reports import Committed, InterceptorFigures, Standing, TaskProgress
from penstock.flow.plan import FlowPlan
from penstock.ids import TaskId
from penstock.kafka.group import ClientMetric
from penstock.plugins.registry import Registry
from penstock.runtime.metric_table import SECTIONS, Scrape, Slots
from penstock.runtime.recording import PhaseTimes, Rebalances, TaskRecord

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counts of one worker. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tasks: dict[TaskId, TaskRecord] = {}
        self._phases: dict[TaskId, PhaseTimes] = {}
        self._starts: dict[tuple[str, bool], int] = {}
        self._started_ms = clock.now()
        self._rebalances = Rebalances(clock)

    def started(self, kind: Literal["connector", "task"], ok: bool) -> None:
        """A connector or task was started, or failed to start."""
        with self._lock:
            self._starts[kind, ok] = self._starts.get((kind, ok), 0) + 1

    def begun(self, plan: FlowPlan) -> None:
        """A task starts; its counts begin at zero."""
        with self._lock:
            self._tasks[plan.task] = TaskRecord(plan, self._clock)

    def ended(self, task: TaskId) -> None:
        with self._lock:
            self._tasks.pop(task, None)

    def phases(self, tasks: Mapping[TaskId, Run]) -> None:
        """The tasks of this worker and their phases."""
        with self._lock:
            for id in self._phases.keys() - tasks.keys():
                del self._phases[id]
            for id, run in tasks.items():
                times = self._phases.get(id)
                if times is None:
                    self._phases[id] = PhaseTimes(self._clock, run.phase)
                else:
                    times.enter(run.phase)

    def report(self, event: TaskProgress | Committed | InterceptorFigures) -> None:
        with self._lock:
            task = self._tasks.get(event.task)
            if task is None or task.plan.run != event.run:
                return
            if isinstance(event, TaskProgress):
                task.progress(event.counts)
            elif isinstance(event, InterceptorFigures):
                task.figures = event.figures
            else:
                task.partitions = event.partitions
                task.commit(event.ok, event.ms)

    def stored(self, task: TaskId, ok: bool, ms: float) -> None:
        """A source task's offsets were stored, or failed to be."""
        with self._lock:
            record = self._tasks.get(task)
            if record is not None:
                record.commit(ok, ms)

    def round_begins(self) -> None:
        with self._lock:
            self._rebalances.begin()

    def round_ends(self) -> None:
        with self._lock:
            self._rebalances.end()

    def exposition(
        self,
        state: HerderState,
        registry: Registry,
        standings: Mapping[TaskId, Standing] = MappingProxyType({}),
        figures: Iterable[ClientMetric] = (),
        slots: Slots | None = None,
    ) -> bytes:
        """All metrics in Prometheus' text format; `figures` are those of the group member."""
        with self._lock:
            scrape = Scrape(
                now=self._clock.now(),
                started_ms=self._started_ms,
                state=state,
                registry=registry,
                starts=self._starts,
                rebalances=self._rebalances,
                tasks=self._tasks,
                phases=self._phases,
                standings=standings,
                slots=slots,
            )
            families = [*_of_table(scrape), *_of_group(figures), *_of_interceptors(scrape)]
        collected = CollectorRegistry(auto_describe=False)
        collected.register(_Collected(families))
        return generate_latest(collected)


def _family(name: str, help: str) -> Family:
    """An empty family. By Prometheus' convention, names of counters end in `_total`; the client
    library adds that."""
    if name.endswith("_total"):
        return Family(name.removesuffix("_total"), help, "counter")
    return Family(name, help, "gauge")


def _of_table(scrape: Scrape) -> Iterator[Family]:
    for section in SECTIONS:
        for metric in section.metrics:
            family = _family(metric.name, metric.help)
            for labels, value in metric.samples(scrape):
                family.add_sample(metric.name, dict(labels), value)
            if family.samples:
                yield family


def _of_group(figures: Iterable[ClientMetric]) -> Iterator[Family]:
    """The metrics of the group's client, under the names that it gives them."""
    for figure in figures:
        group = figure.group.removeprefix("connect-").removesuffix("metrics").replace("-", "_")
        name = f"kafka_connect_{group}{figure.name.replace('-', '_')}"
        family = _family(name, f"{figure.name} of the group's client ({figure.group}).")
        family.add_sample(name, {}, figure.value)
        yield family


def _of_interceptors(scrape: Scrape) -> Iterator[Family]:
    families: dict[str, Family] = {}
    for id in scrape.state.running.tasks:
        task = scrape.tasks.get(id)
        for figure in task.figures if task is not None else ():
            family = families.get(figure.name)
            if family is None:
                help = figure.help or "A figure of an interceptor."
                family = families[figure.name] = _family(figure.name, help)
            labels = {**figure.labels, "connector": id.connector, "task": str(id.number)}
            family.add_sample(figure.name, labels, figure.value)
    yield from families.values()


class _Collected:
    """Passes families to the client library."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families
