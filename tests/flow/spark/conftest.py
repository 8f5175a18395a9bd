"""One Spark session for all slots, and tasks started from hand-made plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest

from penstock.api import HeaderConverter, Offsets, SinkConnector, SourceConnector, SourceOffset
from penstock.config.define import Config
from penstock.connectors.file import FILE_SINK, FILE_SOURCE, FileStreamSink, FileStreamSource
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.text import StringConverter
from penstock.flow.counts import Counts
from penstock.flow.driver.ports import Beginning, StartFailed, Storing
from penstock.flow.driver.reports import Committed, Standing, TaskEnded, TaskProgress
from penstock.flow.driver.tasks import Tasks
from penstock.flow.plan import (
    Conversion,
    ConverterPlan,
    FlowPlan,
    SinkPlan,
    SourcePlan,
    Tolerance,
    TopicGroup,
    Transactions,
    TransformPlan,
)
from penstock.flow.spark.session import Session
from penstock.flow.traces import trace_of
from penstock.ids import TaskId
from penstock.kafka import clients
from penstock.kafka.broker import Broker
from penstock.plugins.ref import PluginRef
from penstock.testing.waiting import wait_until


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """The real SparkContext of a worker."""
    session = Session({}, lambda text: None)
    session.start()
    yield session
    session.stop()


def converter(kind: type[HeaderConverter], **props: str) -> ConverterPlan:
    settings = {name.replace("_", "."): text for name, text in props.items()}
    return ConverterPlan(PluginRef.of(kind), kind.plugin.config.parse(settings))


class Flow:
    """Runs tasks and keeps what they report; stores the offsets of source tasks in memory."""

    def __init__(self, session: Session, bootstrap: str) -> None:
        self.stored: list[Offsets] = []
        self.forgotten: list[Offsets] = []
        self.transactions: list[Offsets] = []  # the offsets of committed ones
        self.ended: list[TaskEnded] = []
        self.reports: list[TaskProgress] = []  # of all tasks
        self.commits: list[Committed] = []
        self._bootstrap = bootstrap
        self._runs = 0
        self._started: list[TaskId] = []
        self._offsets: dict[TaskId, dict[str, SourceOffset]] = {}  # by source partition
        self.tasks = Tasks(
            session,
            offsets=self,
            ended=self.ended.append,
            report=self._report,
            gone=lambda trace: pytest.fail(trace),
        )

    def store(self, task: TaskId, offsets: Offsets) -> Storing:
        def stored() -> None:
            self.stored.append(offsets)
            self._keep(task, offsets)

        return Storing(stored)

    def forget(self, task: TaskId, offsets: Offsets) -> None:
        self.forgotten.append(offsets)

    def committed(self, task: TaskId, offsets: Offsets) -> None:
        self.transactions.append(offsets)
        self._keep(task, offsets)

    def _keep(self, task: TaskId, offsets: Offsets) -> None:
        self._offsets[task] |= {repr(sorted(at.partition.items())): at for at in offsets}

    def source(
        self,
        name: str,
        topic: str,
        file: Path | str = "",
        *,
        connector: type[SourceConnector] = FileStreamSource,
        config: Config | None = None,
        value: ConverterPlan | None = None,
        header: ConverterPlan | None = None,
        transforms: tuple[TransformPlan, ...] = (),
        tolerance: Tolerance | None = None,
        producer: Mapping[str, str] | None = None,
        transactions: Transactions | None = None,
        topic_groups: tuple[TopicGroup, ...] = (),
    ) -> SourcePlan:
        self._runs += 1
        return SourcePlan(
            TaskId(name, 0),
            self._runs,
            PluginRef.of(connector),
            config or FILE_SOURCE.parse({"file": str(file), "topic": topic}),
            Conversion(
                converter(StringConverter),
                value or converter(StringConverter),
                header or converter(SimpleHeaderConverter),
                transforms,
            ),
            tolerance or Tolerance(),
            {
                **clients.producer(
                    {"bootstrap.servers": self._bootstrap, **(producer or {})}
                ).settings,
                "enable.idempotence": True,
            },
            topic_groups,
            transactions,
            admin=clients.admin({"bootstrap.servers": self._bootstrap}).settings,
        )

    def sink(
        self,
        name: str,
        topic: str,
        file: Path | str = "",
        *,
        task: int = 0,
        connector: type[SinkConnector] = FileStreamSink,
        config: Config | None = None,
        key: ConverterPlan | None = None,
        value: ConverterPlan | None = None,
        header: ConverterPlan | None = None,
        transforms: tuple[TransformPlan, ...] = (),
        tolerance: Tolerance | None = None,
        commit_interval_ms: int = 500,
        regex: str | None = None,
        consumer: Mapping[str, str] | None = None,
    ) -> SinkPlan:
        self._runs += 1
        java = {
            "bootstrap.servers": self._bootstrap,
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": "1000",  # how soon new topics are noticed
            **(consumer or {}),
        }
        return SinkPlan(
            TaskId(name, task),
            self._runs,
            PluginRef.of(connector),
            config or FILE_SINK.parse({"file": str(file)}),
            Conversion(
                key or converter(StringConverter),
                value or converter(StringConverter),
                header or converter(SimpleHeaderConverter),
                transforms,
            ),
            tolerance or Tolerance(),
            () if regex else (topic,),
            regex,
            {
                "partition.assignment.strategy": (
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
                ),
                "heartbeat.interval.ms": "500",
                "group.id": f"connect-{name}",
                **java,
            },
            clients.admin(java).settings,
            clients.member(java),
            commit_interval_ms,
        )

    def start(self, plan: FlowPlan, stored: Offsets = ()) -> TaskId:
        """Starts a task; one that fails before it runs ends like those that fail later. A source
        task that is moved resumes after the offsets stored meanwhile."""
        self._started.append(plan.task)
        self._offsets[plan.task] = {}
        self._keep(plan.task, stored)
        try:
            self.tasks.start(plan, lambda: Beginning(list(self._offsets[plan.task].values())))
        except StartFailed as failure:
            self.ended.append(TaskEnded(plan.task, plan.run, trace_of(failure)))
        return plan.task

    def stop(self, task: TaskId, timeout_s: float = 30) -> bool:
        self._started.remove(task)
        return self.tasks.stop(task, timeout_s)

    def standing(self, task: TaskId) -> Standing:
        return self.tasks.standings(10)[task]

    def _report(self, event: TaskProgress | Committed) -> None:
        if isinstance(event, TaskProgress):
            self.reports.append(event)
        else:
            self.commits.append(event)

    @property
    def counts(self) -> Counts:
        """What all tasks have done so far."""
        return reduce(add, (report.counts for report in self.reports), Counts())

    def done(self, task: TaskId) -> int:
        """Records the task has reported as done."""
        return sum(report.counts.done for report in self.reports if report.task == task)

    def await_done(self, task: TaskId, records: int) -> None:
        """Waits until the task has reported this many records or more."""

        def reached() -> bool:
            assert not self.ended, self.ended[0].trace.text
            return self.done(task) >= records

        wait_until(reached, 60, f"{records} records of {task}")

    def await_failure(self) -> str:
        """The trace of the task that fails next."""
        wait_until(lambda: self.ended, 60, "a task to fail")
        return self.ended[-1].trace.text

    def close(self) -> None:
        for task in self._started:
            self.tasks.stop(task, 5)
        self.tasks.close()


@pytest.fixture
def flow(session: Session, broker: Broker) -> Iterator[Flow]:
    """Tasks of one test; stopped at its end."""
    flow = Flow(session, broker.bootstrap)
    yield flow
    flow.close()


@pytest.fixture(scope="session")
def converters() -> Callable[..., Any]:
    """Makes the plan of a converter; in the names of its settings an underscore is a dot."""
    return converter
