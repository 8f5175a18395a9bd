"""Tasks on slots, in every order of what can happen to them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.connectors.file import FILE_SINK, FILE_SOURCE, FileStreamSink, FileStreamSource
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.text import StringConverter
from penstock.flow.driver import launching
from penstock.flow.driver.placed import PlacedPhase
from penstock.flow.driver.placing import SlotFigures, SlotLimits
from penstock.flow.driver.ports import Beginning, StoppedMeanwhile
from penstock.flow.driver.reports import TaskEnded
from penstock.flow.driver.tasks import Tasks
from penstock.flow.messages import Begin, Failed, Open, Ready, Stop, Stopped, TaskOpened
from penstock.flow.plan import (
    Conversion,
    ConverterPlan,
    FlowPlan,
    SinkPlan,
    SourcePlan,
    Tolerance,
)
from penstock.flow.traces import Trace
from penstock.ids import TaskId
from penstock.plugins.ref import PluginRef
from penstock.testing.waiting import wait_until

_TEXT = ConverterPlan(PluginRef.of(StringConverter), StringConverter.plugin.config.parse({}))
_HEADER = ConverterPlan(
    PluginRef.of(SimpleHeaderConverter), SimpleHeaderConverter.plugin.config.parse({})
)
CONVERSION = Conversion(_TEXT, _TEXT, _HEADER)


def sink(name: str) -> FlowPlan:
    config = FILE_SINK.parse({})
    task, tolerance = TaskId(name, 0), Tolerance()
    return SinkPlan(
        task,
        1,
        PluginRef.of(FileStreamSink),
        config,
        CONVERSION,
        tolerance,
        ("t",),
        None,
        {},
        {},
        {},
    )


def source(name: str) -> FlowPlan:
    config = FILE_SOURCE.parse({"topic": "t"})
    return SourcePlan(
        TaskId(name, 0), 1, PluginRef.of(FileStreamSource), config, CONVERSION, Tolerance(), {}
    )


class SessionStub:
    """Spark, as far as it is asked."""

    ready = False

    def get(self) -> None:
        pass


class SlotStub:
    """A slot whose stage is the test."""

    def __init__(self, number: int, shared: bool, pool: PoolStub) -> None:
        self.number, self.shared, self._pool = number, shared, pool
        self.retired = False
        self.pid: int | None = 1
        self.memory_bytes = 0
        self.sent: list[Any] = []
        self.killed = False

    def send(self, *orders: Any) -> None:
        self.sent += orders

    def end(self) -> None:
        self.retired = True

    def kill(self) -> None:
        self.killed = True

    def lost(self, trace: Trace | None = None) -> None:
        if self._pool.slots.get(self.number) is self:
            self._pool.over(self, trace)


class PoolStub:
    """A pool of at most two shared slots and two dedicated ones."""

    def __init__(self, over: Callable[[Any, Trace | None], None]) -> None:
        self.slots: dict[int, SlotStub] = {}
        self.limits = SlotLimits(2, 2)
        self.is_ready = False  # nothing moves by itself
        self.over = over
        self._numbers = 0

    def prepare(self) -> None:
        pass

    def lost_with_executor(self) -> bool:
        return False

    def shared(self) -> list[SlotStub]:
        return [slot for slot in self.slots.values() if slot.shared and not slot.retired]

    def choose(self, figures: Iterable[SlotFigures], *, own: bool) -> SlotStub:
        shared = self.shared()
        if own or len(shared) < self.limits.shared:
            self._numbers += 1
            slot = self.slots[self._numbers] = SlotStub(self._numbers, not own, self)
            return slot
        return min(shared, key=lambda slot: slot.number)

    def close(self, slots: Iterable[SlotStub]) -> None:
        pass


class Engine:
    """`Tasks` on stubs: what it was told, and what became of every start and stop."""

    def __init__(self) -> None:
        self.ended: list[TaskEnded] = []
        session: Any = SessionStub()
        offsets: Any = None
        self.tasks = Tasks(
            session,
            offsets=offsets,
            ended=self.ended.append,
            report=lambda event: None,
            gone=lambda why: None,
        )
        self.placements = self.tasks._placements
        self.pool: Any = PoolStub(self.tasks._slot_over)
        self.placements.pool = self.pool

    def start(self, plan: FlowPlan) -> Future[None]:
        """Starts a task in another thread; returns when it is on a slot."""
        return self._call(lambda: self.tasks.start(plan, lambda: Beginning([])))

    def stop(self, task: TaskId) -> Future[bool]:
        return self._call(lambda: self.tasks.stop(task, 30))

    def _call(self, call: Callable[[], Any]) -> Future[Any]:
        outcome: Future[Any] = Future()

        def run() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return outcome

    def placed(self, task: TaskId) -> Any:
        return self.placements.find(task)

    def await_phase(self, task: TaskId, *phases: PlacedPhase) -> Any:
        def there() -> Any:
            placed = self.placed(task)
            return placed if placed is not None and placed.phase in phases else None

        return wait_until(there, 30, f"{task} in {phases}")

    def news(self, slot: Any, *news: Any) -> None:
        self.tasks._on_news(slot, news)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_a_source_begins_when_it_has_its_producer(engine: Engine) -> None:
    plan = source("in")
    started = engine.start(plan)
    placed = engine.await_phase(plan.task, PlacedPhase.PREPARING)
    slot = placed.slot
    engine.news(slot, Ready(placed.id))
    wait_until(lambda: Begin(placed.id, [], {}) in slot.sent, 30, "its beginning")
    assert not started.done()
    engine.news(slot, TaskOpened(placed.id))
    assert started.result(30) is None
    assert placed.phase is PlacedPhase.RUNNING


@pytest.mark.parametrize("make", [source, sink])
def test_a_task_that_fails_while_it_starts_is_a_failed_start(
    engine: Engine, make: Callable[[str], FlowPlan]
) -> None:
    plan = make("c")
    started = engine.start(plan)
    placed = engine.await_phase(plan.task, PlacedPhase.PREPARING, PlacedPhase.OPENING)
    engine.news(placed.slot, Failed(placed.id, Trace("no such file")))
    assert "no such file" in str(started.exception(30))
    assert engine.placed(plan.task) is None
    assert not engine.ended


def test_a_task_that_opens_late_has_started_and_its_failure_is_reported(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "_OPEN_S", 0.01)
    plan = sink("c")
    assert engine.start(plan).result(30) is None
    placed = engine.await_phase(plan.task, PlacedPhase.LATE)
    engine.news(placed.slot, Failed(placed.id, Trace("no such host")))
    assert engine.ended == [TaskEnded(plan.task, 1, Trace("no such host"))]
    assert engine.placed(plan.task) is None


def test_a_task_whose_slot_dies_while_it_starts_starts_on_another(engine: Engine) -> None:
    neighbour, plan = sink("n"), sink("c")
    engine.start(neighbour)
    first = engine.await_phase(neighbour.task, PlacedPhase.OPENING).slot
    engine.pool.limits = SlotLimits(1, 2)  # so they share
    started = engine.start(plan)
    placed = engine.await_phase(plan.task, PlacedPhase.OPENING)
    assert placed.slot is first
    first.lost(Trace("killed"))
    wait_until(lambda: placed.slot is not None and placed.slot is not first, 30, "another slot")
    engine.news(placed.slot, TaskOpened(placed.id))
    assert started.result(30) is None
    assert placed.deaths == 1


def test_a_task_that_was_alone_on_a_slot_that_died_has_failed(engine: Engine) -> None:
    plan = sink("c")
    started = engine.start(plan)
    placed = engine.await_phase(plan.task, PlacedPhase.OPENING)
    slot = placed.slot
    engine.news(slot, TaskOpened(placed.id))
    started.result(30)
    slot.shared = False
    slot.lost(Trace("killed"))
    assert engine.ended == [TaskEnded(plan.task, 1, Trace("killed"))]


def test_a_move_is_a_stop_and_a_start_on_another_slot(engine: Engine) -> None:
    plan = sink("c")
    started = engine.start(plan)
    placed = engine.await_phase(plan.task, PlacedPhase.OPENING)
    slot, id = placed.slot, placed.id
    engine.news(slot, TaskOpened(id))
    started.result(30)
    with engine.placements.lock:
        engine.tasks._balancer.move(placed, own=True)
    assert Stop(id, 60.0) in slot.sent
    engine.news(slot, Stopped(id, in_time=True))
    wait_until(lambda: placed.slot is not None and placed.slot is not slot, 30, "another slot")
    assert placed.id != id
    assert engine.tasks.moved == 1
    engine.news(placed.slot, TaskOpened(placed.id))
    assert engine.await_phase(plan.task, PlacedPhase.RUNNING) is placed
    assert not engine.ended


def test_a_start_that_is_stopped_says_so_and_its_grace_is_kept(engine: Engine) -> None:
    plan = sink("c")
    started = engine.start(plan)
    placed = engine.await_phase(plan.task, PlacedPhase.OPENING)
    slot, id = placed.slot, placed.id
    stopped = engine.stop(plan.task)
    assert isinstance(started.exception(30), StoppedMeanwhile)
    wait_until(lambda: Stop(id, 30) in slot.sent, 30, "the stop")
    assert [order for order in slot.sent if isinstance(order, Stop)] == [Stop(id, 30)]
    engine.news(slot, Stopped(id, in_time=False))
    assert stopped.result(30) is False


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_every_start_and_stop_has_one_outcome(seed: int) -> None:
    chance, engine = random.Random(seed), Engine()
    starts: dict[TaskId, Future[None]] = {}
    stops: dict[TaskId, Future[bool]] = {}
    for number in range(4):
        plan = chance.choice([sink, source])(f"c{number}")
        starts[plan.task] = engine.start(plan)
    for _ in range(60):
        with engine.placements.lock:
            placed = list(engine.placements.on_slots())
        if not placed:
            continue
        task = chance.choice(placed)
        slot, id = task.slot, task.id
        if slot is None:
            continue
        match chance.randrange(9):
            case 0 | 1 | 2:
                engine.news(slot, Ready(id))
            case 3 | 4:
                engine.news(slot, TaskOpened(id))
            case 5:
                engine.news(slot, Failed(id, Trace("no")))
            case 6:
                with engine.placements.lock:
                    if task.phase is PlacedPhase.RUNNING:
                        engine.tasks._balancer.move(task, own=chance.random() < 0.5)
                engine.news(slot, Stopped(id, in_time=chance.random() < 0.9))
            case 7:
                slot.lost(Trace("killed"))
            case _:
                if task.plan.task not in stops:
                    stops[task.plan.task] = engine.stop(task.plan.task)
    for id in starts.keys() - stops.keys():
        stops[id] = engine.stop(id)

    def settled() -> bool:
        for placed in list(engine.placements.on_slots()):
            if placed.phase is PlacedPhase.STOPPING:
                engine.news(placed.slot, Stopped(placed.id, in_time=True))
        return all(future.done() for future in [*starts.values(), *stops.values()])

    wait_until(settled, 30, "an outcome of every start and stop")
    failed = [ended.task for ended in engine.ended]
    assert len(set(failed)) == len(failed)
    for task_id, started in starts.items():
        assert not (started.exception() is not None and task_id in failed)
    wait_until(lambda: not list(engine.placements.on_slots()), 30, "no task left on a slot")
    assert engine.placements.running() == {}
    opened = [order.id for slot in engine.pool.slots.values() for order in _opens(slot)]
    assert len(set(opened)) == len(opened)


def _opens(slot: SlotStub) -> list[Open]:
    return [order for order in slot.sent if isinstance(order, Open)]
