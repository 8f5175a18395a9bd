"""What a worker makes of the events of its Java host."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from penstock.api import Plugin, SourceConnector
from penstock.cluster import events as e
from penstock.config.define import ConfigDef
from penstock.config.worker import parse_distributed
from penstock.errors import Unsupported
from penstock.ids import TaskId
from penstock.java import messages as m
from penstock.plugins.registry import InstalledPlugin, PluginKind, Registry
from penstock.runtime import java_work
from penstock.runtime.java_work import JavaWork

ACME = {"name": "c", "connector.class": "com.acme.Source"}
CAUSE = m.Cause("X", "boom", "X: boom\n\tat y\n", True)
TASK = TaskId("c", 0)
WORKER = {
    "bootstrap.servers": "localhost:1",
    "group.id": "g",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "config.storage.topic": "config",
    "offset.storage.topic": "offset",
    "status.storage.topic": "status",
    "listeners": "http://127.0.0.1:0",
    "spark.driver.memory": "1g",
    "producer.linger.ms": "3",
}


class Acme(SourceConnector):
    """Stands for a connector written in Java."""

    plugin = Plugin("com.acme.Source", "1", ConfigDef())


class AtOnce(Executor):
    """Runs everything in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        fn(*args, **kwargs)
        return Future()


class FakeHost:
    """Notes the orders, and does `then` with each."""

    def __init__(
        self,
        settings: object,
        opening: Callable[[], m.OpenHost],
        on_event: Callable[[m.Event], None],
        on_end: Callable[[str], None],
    ) -> None:
        self.opening = opening
        self.on_event = on_event
        self.on_end = on_end
        self.orders: list[m.Order] = []
        self.then: Callable[[m.Order], object] = lambda order: None

    def order(self, order: m.Order) -> object:
        self.orders.append(order)
        return self.then(order)

    def order_running(self, order: m.Order, timeout_s: float | None = None) -> object:
        return self.order(order)


class Bench:
    """A worker's Java work with a fake host, and the events that it posts."""

    def __init__(self, *, alone: bool = False) -> None:
        self.posted: list[e.Event] = []
        self.work = JavaWork(
            parse_distributed(WORKER),
            Registry([InstalledPlugin(PluginKind.SOURCE, Acme, Acme.plugin, java=True)]),
            worker_id="w:1",
            kafka_cluster="k",
            exactly_once=False,
            alone=alone,
            resolved=lambda target, configs: configs,
            redacted=lambda text: text.replace("secret", "[hidden]"),
            post=self.posted.append,
            pool=AtOnce(),
        )
        host = self.work._host
        assert isinstance(host, FakeHost)
        self.host = host

    def start_task(self, *during: m.Event, run: int = 1) -> bool:
        def then(order: m.Order) -> None:
            if isinstance(order, m.StartJavaTask):
                for event in during:
                    self.host.on_event(event)

        self.host.then = then
        command = e.StartTask(TASK, run, ACME, {"a": "b"})
        return self.work.start_task(command, lambda: None)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(java_work, "JavaHost", FakeHost)
    return Bench()


def test_the_host_gets_the_workers_settings_but_those_of_rest_and_spark(bench: Bench) -> None:
    opening = bench.host.opening()
    left_out = {"listeners", "spark.driver.memory"}
    assert opening.worker == {k: v for k, v in WORKER.items() if k not in left_out}
    assert (opening.worker_id, opening.kafka_cluster) == ("w:1", "k")


def test_only_connectors_in_java_run_there(bench: Bench) -> None:
    assert bench.work.runs(ACME)
    assert not bench.work.runs({"connector.class": "org.example.Unknown"})


def test_a_task_is_running_when_its_plugin_has_started(bench: Bench) -> None:
    assert bench.start_task(m.JavaTaskStarted(TASK, 1))
    assert bench.posted == [e.TaskStarted(TASK, 1)]
    assert bench.work.stop_task(TASK, 1)
    assert bench.host.orders[-1] == m.StopJavaTask(TASK, 1)
    assert not bench.work.stop_task(TASK, 1)


def test_a_task_that_fails_as_it_starts_is_forgotten_by_the_host_first(bench: Bench) -> None:
    assert not bench.start_task(m.JavaTaskFailed(TASK, 1, CAUSE))
    assert bench.host.orders[-1] == m.StopJavaTask(TASK, 1)
    assert bench.posted == [e.TaskFailed(TASK, 1, "X: boom\n\tat y", retriable=True)]


def test_an_event_of_an_earlier_run_is_ignored(bench: Bench) -> None:
    assert bench.start_task(m.JavaTaskStarted(TASK, 2), run=2)
    bench.host.on_event(m.JavaTaskFailed(TASK, 1, CAUSE))
    assert bench.posted == [e.TaskStarted(TASK, 2)]


def test_everything_in_a_host_fails_with_it_once(bench: Bench) -> None:
    assert bench.start_task(m.JavaTaskStarted(TASK, 1))
    bench.work.start_connector("c", 5, ACME)
    bench.posted.clear()
    for _ in range(2):
        bench.host.on_end("it has a secret")
    assert bench.posted == [
        e.TaskFailed(TASK, 1, "it has a [hidden]"),
        e.ConnectorFailed("c", 5, "it has a [hidden]"),
    ]


def test_a_late_stop_of_an_instance_does_not_stop_its_successor(bench: Bench) -> None:
    first = bench.work.start_connector("c", 5, ACME)
    second = bench.work.start_connector("c", 6, ACME)
    first.stop()
    started = [m.StartJavaConnector("c", run, ACME) for run in (5, 6)]
    assert bench.host.orders == [started[0], m.StopJavaConnector("c"), started[1]]
    second.stop()
    assert bench.host.orders[-1] == m.StopJavaConnector("c")


def test_a_connector_that_did_not_start_can_start_again(bench: Bench) -> None:
    def fail(order: m.Order) -> None:
        if isinstance(order, m.StartJavaConnector):
            raise m.JavaError(CAUSE)

    bench.host.then = fail
    with pytest.raises(m.JavaError, match="boom"):
        bench.work.start_connector("c", 5, ACME)
    assert bench.host.orders[-1] == m.StopJavaConnector("c")


def test_a_running_connector_reports_errors_and_requests(bench: Bench) -> None:
    bench.work.start_connector("c", 5, ACME)
    bench.host.on_event(m.JavaReconfiguration("c", 5))
    bench.host.on_event(m.JavaConnectorFailed("c", 5, CAUSE))
    bench.host.on_event(m.JavaConnectorFailed("c", 4, CAUSE))
    assert bench.posted == [
        e.ReconfigurationRequested("c", 5),
        e.ConnectorFailed("c", 5, "X: boom\n\tat y", retriable=True),
    ]


def test_the_producer_of_a_task_asks_the_worker(bench: Bench) -> None:
    def refuse() -> None:
        raise Unsupported("an older set")

    command = e.StartTask(TASK, 1, ACME, {})
    bench.host.then = lambda order: bench.host.on_event(m.JavaTaskStarted(TASK, 1))
    bench.work.start_task(command, refuse)
    bench.host.then = lambda order: None
    bench.host.on_event(m.ProducerReady(TASK, 1))
    assert bench.host.orders[-1] == m.AllowStart(TASK, 1, "an older set")


@pytest.mark.parametrize(
    "call",
    [
        lambda work: work.validate(ACME),
        lambda work: work.start_connector("c", 1, ACME),
        lambda work: work.start_task(e.StartTask(TASK, 1, ACME, {}), lambda: None),
        lambda work: work.alter_offsets("c", ACME, None),
    ],
    ids=["validate", "connector", "task", "offsets"],
)
def test_a_standalone_worker_refuses_them(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[JavaWork], object]
) -> None:
    monkeypatch.setattr(java_work, "JavaHost", FakeHost)
    bench = Bench(alone=True)
    with pytest.raises(Unsupported, match="distributed mode only"):
        call(bench.work)
    assert bench.host.orders == []
