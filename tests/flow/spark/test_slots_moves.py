"""Tasks that move between slots, and what tasks leave behind in the processes of slots."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from penstock.api import (
    Batching,
    Failed,
    PenstockError,
    Plugin,
    Polled,
    Props,
    Records,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.schema import STRING as STRING_SCHEMA
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.flow.driver import placing
from penstock.flow.driver.placing import SlotLimits
from penstock.flow.driver.ports import Beginning
from penstock.flow.spark.session import Session
from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .conftest import Flow
from .diaries import DiaryWriter, calls, keeper, written
from .neighbours import Neighbour, Unique, slot

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TOPIC = Key("topic", STRING, importance=HIGH, doc="Where records go.")


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are moved soon."""
    monkeypatch.setattr(placing, "limits", lambda *_, **__: SlotLimits(1, 4))
    monkeypatch.setattr(placing, "BUSY", 0.3)
    monkeypatch.setattr(placing, "QUIET", 0.2)
    monkeypatch.setattr(placing, "QUIET_S", 2.0)


class Busy(DiaryWriter):
    """Takes a while for every record."""

    batching = Batching(records=5)

    def write(self, records: Records, failed: Failed) -> None:
        threading.Event().wait(0.02 * len(records))
        super().write(records, failed)


def test_a_busy_sink_gets_a_slot_of_its_own_and_returns_when_it_is_quiet(
    restless: None, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    quiet = Neighbour(flow, topics, unique, tmp_path / "quiet")
    topic, folder, name = topics.create(unique("lines")), tmp_path / "busy", unique("busy")
    topics.append(topic, [str(number).encode() for number in range(400)])
    task = flow.start(flow.sink(name, topic, **keeper(Busy, folder)))
    assert slot(flow, task) == slot(flow, quiet.task)
    wait_until(lambda: not flow.standing(task).shared, 15, "the task to have moved")
    assert slot(flow, task) != slot(flow, quiet.task)
    quiet.expect()
    flow.await_done(task, 400)
    assert written(folder) == [str(number) for number in range(400)]
    wait_until(lambda: flow.standing(task).shared, 15, "the task to have returned")
    topics.append(topic, [b"last"])
    flow.await_done(task, 401)
    assert written(folder)[400:] == ["last"]
    assert flow.tasks.moved == 2
    assert len(flow.tasks.slots()) == 1
    assert slot(flow, task) == slot(flow, quiet.task)


class Counter(SourceConnector):
    """Sends the numbers up to 300, one per poll, each after a while."""

    plugin = Plugin("test.Counter", "1", ConfigDef(TOPIC))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def exactly_once(self, config: Config) -> bool:
        return True

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return CountingReader(config[TOPIC], context)


class CountingReader(SourceReader):
    def __init__(self, topic: str, context: SourceContext) -> None:
        self._topic = topic
        stored = context.stored_offset({"of": "numbers"})
        self._next = 0 if stored is None else int(stored["next"] or 0)

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if self._next == 300:
            return None
        number = self._next
        self._next += 1
        deadline = time.monotonic() + 0.02
        while time.monotonic() < deadline:
            pass
        return Polled(
            Records.of(self._topic, [str(number)], schema=STRING_SCHEMA),
            [SourceOffset({"of": "numbers"}, {"next": self._next})],
        )


def test_sources_are_moved_without_loss_or_repetition(
    restless: None,
    monkeypatch: pytest.MonkeyPatch,
    flow: Flow,
    topics: Topics,
    unique: Unique,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(placing, "BUSY", 0.0)  # whatever it does
    Neighbour(flow, topics, unique, tmp_path / "quiet")
    topic = topics.create(unique("numbers"))
    config = Counter.plugin.config.parse({"topic": topic})
    task = flow.start(flow.source(unique("src"), topic, connector=Counter, config=config))
    wait_until(lambda: flow.tasks.moved > 0, 15, "a task to have moved")
    wait_until(lambda: topics.count(topic) >= 300, 30, "all records")
    assert topics.values(topic) == [b"%d" % number for number in range(300)]
    assert slot(flow, task)
    assert not flow.ended


def test_a_task_that_may_not_restart_after_a_move_leaves_no_thread_behind(
    restless: None,
    monkeypatch: pytest.MonkeyPatch,
    flow: Flow,
    topics: Topics,
    unique: Unique,
    tmp_path: Path,
) -> None:
    topic, name = topics.create(unique("numbers")), unique("src")
    config = Counter.plugin.config.parse({"topic": topic})
    plan = flow.source(name, topic, connector=Counter, config=config)
    begun: list[int] = []

    def begin() -> Beginning:
        begun.append(1)
        if len(begun) > 1:
            raise PenstockError("it is another worker's")
        return Beginning([])

    flow._offsets[plan.task] = {}
    flow.tasks.start(plan, begin)
    before = slot(flow, plan.task)
    with flow.tasks._placements.lock:
        [placed] = flow.tasks._placements.on_slots()
        flow.tasks._balancer.move(placed, own=False)
    assert "it is another worker's" in flow.await_failure()
    folder = tmp_path / "looking"
    line = topics.create(unique("lines"))
    topics.append(line, [b"a"])
    looking = flow.start(flow.sink(unique("looking"), line, **keeper(Looking, folder)))
    assert slot(flow, looking) == before
    [[_, names], *_] = wait_until(lambda: calls(folder, "threads"), 60, "a look")
    assert f"task-{plan.task}" not in names


class Looking(DiaryWriter):
    """Notes which threads its process has."""

    def write(self, records: Records, failed: Failed) -> None:
        self.note("threads", sorted(thread.name for thread in threading.enumerate()))


def test_nothing_is_left_behind(
    session: Session, broker: Broker, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    def java_threads() -> list[str]:
        jvm: Any = session.get()._jvm
        names = [thread.getName() for thread in jvm.Thread.getAllStackTraces().keySet()]
        return [n for n in names if n.startswith(("consumer-", "kafka-", "slot-commands"))]

    def python_threads() -> list[str]:
        names = [thread.name for thread in threading.enumerate()]
        return [n for n in names if n.startswith(("slot", "tasks"))]

    def alive(threads: Callable[[], list[str]]) -> Callable[[], bool]:
        return lambda: not threads()

    flow = Flow(session, broker.bootstrap)
    topic, file = topics.create(unique("lines"), 2), tmp_path / "in.txt"
    file.write_text("a\nb\n")
    topics.append(topic, [b"a"])
    for task in range(3):
        flow.start(flow.sink(unique("snk"), topic, tmp_path / "out", task=task))
    source = flow.start(flow.source(unique("src"), topic, file))
    flow.await_done(source, 2)
    assert java_threads()
    assert python_threads()
    flow.close()
    wait_until(alive(java_threads), 10, f"no consumer to be left of {java_threads()}")
    wait_until(alive(python_threads), 10, f"no thread to be left of {python_threads()}")
    # Spark reuses the processes for the slots that follow.
    flow = Flow(session, broker.bootstrap)
    for number in range(2):
        folder = tmp_path / f"looking-{number}"
        flow.start(flow.sink(unique("looking"), topic, **keeper(Looking, folder)))
        [[_, names], *_] = wait_until(lambda at=folder: calls(at, "threads"), 60, "a look")
        tasks = [name for name in names if name.startswith(("task-", "orders", "watch"))]
        assert len(tasks) == 3, names
    flow.close()
