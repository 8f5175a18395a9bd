"""The running tasks of a worker: placed on slots, moved between them, stopped by name.

Guarantees: a report comes only after the records have reached their target; a task that stops in
time has reported all it did; nothing of a task reaches Kafka after `stop` has returned. The worker
need not know a task's slot: this package handles moves, and slots that die.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, assert_never

from penstock.flow.driver.balancing import Balancer
from penstock.flow.driver.lags import Lags
from penstock.flow.driver.launching import launch
from penstock.flow.driver.placed import LAUNCHING, Placed, PlacedPhase
from penstock.flow.driver.placements import Placements
from penstock.flow.driver.ports import (
    Begins,
    OffsetsPort,
    SlotDied,
    StartFailed,
    StoppedMeanwhile,
)
from penstock.flow.driver.positions import OpenRequests
from penstock.flow.driver.reports import (
    Committed,
    InterceptorFigures,
    Report,
    SlotStanding,
    Standing,
    TaskEnded,
    TaskProgress,
)
from penstock.flow.driver.slots import Slot
from penstock.flow.driver.storing import Stores
from penstock.flow.driver.watching import Seen, Watching
from penstock.flow.messages import (
    Failed,
    Hello,
    Intercepted,
    Load,
    News,
    OffsetsCommitted,
    Positions,
    ProgressMade,
    ReadParts,
    Ready,
    Stop,
    Stopped,
    StoreOffsets,
    TaskNews,
    TaskOpened,
    TransactionCommitted,
    WatchedRecords,
)
from penstock.flow.plan import FlowPlan, SinkPlan, SourcePlan
from penstock.flow.spark.session import Session
from penstock.flow.stage import failures
from penstock.flow.traces import Trace, trace_of
from penstock.host.logs import about
from penstock.ids import TaskId

log = logging.getLogger(__name__)

_ENDED: Final = Trace("The slot ended.", retriable=True)
_FORGIVEN: Final = 3  # executors that may be lost with a task before it counts as the cause
_SLOT_S: Final = 300.0  # until a shared slot is ready
_MARGIN_S: Final = 3.0  # on top of a task's grace: how long a working stage may take to answer
_WORKERS: Final = 64


class Tasks:
    """`ended`, `report` and `gone` are called from the engine's threads; they must not block.

    `gone` is called once if the JVM dies: nothing runs, or can be started, any more.
    """

    def __init__(
        self,
        session: Session,
        *,
        offsets: OffsetsPort,
        ended: Callable[[TaskEnded], None],
        report: Report,
        gone: Callable[[str], None],
    ) -> None:
        self._session = session
        self._offsets = offsets
        self._stores = Stores(offsets, self._submit)
        self._ended = ended
        self._report = report
        self._gone = gone
        self._asking = OpenRequests()
        self._watching = Watching()
        self._lags = Lags()
        self._moves = 0
        self._deaths = 0
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="tasks")
        self._closing = threading.Event()
        self._placements = Placements(session, self._slot_over, self._on_news)
        self._balancer = Balancer(self._placements, self._closing)
        threading.Thread(target=self._watch_jvm, name="jvm-watch", daemon=True).start()

    def warm_up(self) -> None:
        """Starts the shared slots; returns when they are ready."""
        with self._placements.lock:
            self._placements.pool.prepare()
            slots = self._placements.pool.fill()
        for slot in slots:
            slot.ready.wait(_SLOT_S)

    def start(self, plan: FlowPlan, begin: Begins) -> None:
        """Starts one task; returns when it runs, raises if it cannot start. `begin` returns where a
        source task starts; a sink resumes at its group's offsets."""
        self._session.get()
        if plan.tolerance.dead_letters is not None:
            failures.ensure_topic(plan.tolerance.dead_letters)
        with self._placements.lock:
            self._placements.pool.prepare()
            placed = self._placements.add(plan, begin)
        try:
            launch(self._placements, placed)
        except StoppedMeanwhile:
            raise  # `stop` sees to it
        except BaseException:
            self._abandon(placed)
            raise

    def stop(self, task: TaskId, timeout_s: float) -> bool:
        """Stops a task; False if it had to be cancelled: unreported work is repeated."""
        with self._placements.lock:
            placed = self._placements.find(task)
            if placed is None:
                return True
            self._placements.remove(placed)
            slot = placed.slot
            if slot is None:  # between two slots, or not yet on one
                if placed.phase is not PlacedPhase.ENDED:
                    placed.enter(PlacedPhase.ENDED)
                return True
            placed.enter(PlacedPhase.STOPPING)
            self._placements.parts.stop(placed.id, timeout_s)
            slot.send(Stop(placed.id, timeout_s))
        if placed.await_end(timeout_s + _MARGIN_S):
            return placed.in_time
        log.warning("slot %d does not respond; killing it", slot.number)
        slot.kill()
        slot.lost(Trace("The slot did not answer.", retriable=True))
        return False

    def standings(self, timeout_s: float) -> dict[TaskId, Standing]:
        """The state of every running task; lags unknown after `timeout_s` are missing."""
        deadline = time.monotonic() + timeout_s
        with self._placements.lock:
            running = self._placements.running()
            slots = list(self._placements.pool.slots.values())
        positions = self._asking.ask(slots, min(1.0, timeout_s))
        sinks = {
            task: (placed.plan.admin, positions[placed.id])
            for task, placed in running.items()
            if isinstance(placed.plan, SinkPlan)
            and placed.plan.admin is not None
            and placed.id in positions
        }
        behind = self._lags.behind(sinks, max(0.0, deadline - time.monotonic()))
        return {
            task: Standing(
                behind.get(task, {}),
                placed.slot.number if placed.slot else None,
                placed.slot is None or placed.slot.shared,
                round(placed.busyness.share, 3),
            )
            for task, placed in running.items()
        }

    def watch(
        self, task: TaskId, records: int, timeout_s: float, hidden: re.Pattern[str] | None
    ) -> list[Seen] | None:
        """The next records of a task, step by step, without fields whose names match `hidden`; at
        most `records`, fewer if no more arrive in time. None: the task is not running."""
        with self._placements.lock:
            placed = self._placements.find(task)
            if placed is None or placed.phase not in (PlacedPhase.RUNNING, PlacedPhase.MOVING):
                return None
            slot, id = placed.slot, placed.id
        assert slot is not None, "it is on a slot in these phases"
        return self._watching.watch(slot, id, records, timeout_s, hidden)

    def slots(self) -> list[SlotStanding]:
        """The state of every slot."""
        placements = self._placements
        with placements.lock:
            return [
                SlotStanding(slot.number, slot.shared, len(placements.on(slot)), slot.memory_bytes)
                for slot in placements.pool.slots.values()
            ]

    @property
    def moved(self) -> int:
        """The number of moves of tasks between slots."""
        return self._moves

    @property
    def slots_died(self) -> int:
        """The number of slots that have died."""
        return self._deaths

    def close(self) -> None:
        """Ends the slots; stop the tasks before, and Spark afterwards."""
        self._closing.set()
        with self._placements.lock:
            slots = list(self._placements.pool.slots.values())
        self._placements.pool.close(slots)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _relaunch(self, placed: Placed) -> None:
        """Restarts a task that has left or lost its slot."""
        with about(placed.plan.task):
            try:
                launch(self._placements, placed)
            except StoppedMeanwhile:
                pass
            except BaseException as error:
                if self._abandon(placed):
                    self._ended(TaskEnded(placed.plan.task, placed.plan.run, trace_of(error)))

    def _abandon(self, placed: Placed) -> bool:
        """Gives up a task whose launch has failed; False if it was asked to stop meanwhile."""
        with self._placements.lock:
            if not self._placements.remove(placed):
                return False
            if placed.slot is not None:
                self._placements.parts.stop(placed.id, 0)
                placed.slot.send(Stop(placed.id, 0))
                self._placements.take_off(placed, PlacedPhase.ENDED)
            elif placed.phase is not PlacedPhase.ENDED:
                placed.enter(PlacedPhase.ENDED)
            return True

    def _slot_over(self, slot: Slot, trace: Trace | None) -> None:
        """A slot has ended: its tasks restart on other slots. A task that was alone on it fails, as
        it may be the cause, unless the slot was lost with its executor; a task that was working
        gets a dedicated slot."""
        closing, pool = self._closing.is_set(), self._placements.pool
        with self._placements.lock:
            pool.slots.pop(slot.number, None)
            tasks = self._placements.on(slot)
            self._placements.parts.lost(slot, trace or _ENDED)
            if trace is not None and not closing:
                self._deaths += 1
        if tasks and not closing:
            log.warning(
                "slot %d died with %d tasks: %s", slot.number, len(tasks), trace and trace.text
            )
        alone = len(tasks) == 1 and (not slot.shared or slot.pid is None)
        if alone and not closing and tasks[0].deaths < _FORGIVEN and pool.lost_with_executor():
            alone = False
        for placed in tasks:
            if closing:
                self._end(placed, in_time=False)
            else:
                self._on_slot_lost(placed, trace, blamed=alone)

    def _on_slot_lost(self, placed: Placed, trace: Trace | None, *, blamed: bool) -> None:
        """A task was on a slot that has died; `blamed`: it may be the cause."""
        with self._placements.lock:
            if placed.phase is PlacedPhase.STOPPING:
                self._end(placed, in_time=False)
            if placed.slot is None:
                return
            launching = placed.phase in LAUNCHING
            placed.deaths += 1
            placed.own = placed.busyness.in_call or placed.deaths > 1
            if launching and blamed:
                self._placements.take_off(placed, PlacedPhase.ENDED, StartFailed(trace or _ENDED))
            elif launching:
                died = SlotDied(trace.summary if trace else "The slot ended.")
                self._placements.take_off(placed, PlacedPhase.UNPLACED, died)
            elif not blamed:
                self._placements.take_off(placed, PlacedPhase.UNPLACED)
                self._submit(self._relaunch, placed)
        if blamed and not launching:
            self._on_failed(placed, trace or _ENDED)

    def _end(self, placed: Placed, *, in_time: bool) -> None:
        """A task that was on a slot has ended as requested."""
        with self._placements.lock:
            if placed.slot is not None:
                placed.in_time = in_time
                self._placements.take_off(placed, PlacedPhase.ENDED)

    def _submit(self, call: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the worker is stopping
            self._threads.submit(call, *args)

    def _on_news(self, slot: Slot, news: Sequence[News]) -> None:
        stores: list[tuple[TaskId, StoreOffsets]] = []
        for message in news:
            match message:
                case Load():
                    self._balancer.take_load(slot, message)
                case Positions():
                    self._asking.answered(message)
                case WatchedRecords():
                    self._watching.answered(message)
                case StoreOffsets(id):
                    placed = self._placements.by_id(id)
                    if placed is not None:
                        stores.append((placed.plan.task, message))
                case Hello():
                    pass
                case _:
                    self._on_news_of_task(slot, message)
        if stores:
            self._submit(self._stores.store, slot, stores)

    def _on_news_of_task(self, slot: Slot, news: TaskNews) -> None:
        with self._placements.lock:
            placed = self._placements.by_id(news.id)
            owner = self._placements.parts.owner(news.id)
        if owner is not None:
            if isinstance(news, ProgressMade):
                placed = self._placements.by_id(owner)
            elif isinstance(news, Stopped | Failed):
                self._on_part_over(news)
        if placed is None:
            return
        task, run = placed.plan.task, placed.plan.run
        match news:
            case Ready():
                self._advance(placed, {PlacedPhase.PREPARING}, PlacedPhase.OPENING)
            case TaskOpened():
                self._advance(placed, {PlacedPhase.OPENING, PlacedPhase.LATE}, PlacedPhase.RUNNING)
            case ProgressMade():
                self._report(TaskProgress(task, run, news.counts))
            case Intercepted():
                self._report(InterceptorFigures(task, run, news.figures))
            case OffsetsCommitted():
                self._report(Committed(task, run, news.ok, news.ms, news.partitions))
            case ReadParts():
                assert isinstance(placed.plan, SourcePlan)
                with self._placements.lock:
                    self._placements.parts.read(news, slot, placed.plan)
            case TransactionCommitted():
                self._offsets.committed(task, news.offsets)
            case Stopped():
                self._on_stopped(slot, placed, news)
            case Failed():
                self._on_failed(placed, news.trace)
            case _:
                assert_never(news)

    def _advance(self, placed: Placed, from_: Set[PlacedPhase], to: PlacedPhase) -> None:
        """A task says that it got on; what it said before it was asked to stop no longer counts."""
        with self._placements.lock:
            if placed.phase in from_:
                placed.enter(to)

    def _on_stopped(self, slot: Slot, placed: Placed, news: Stopped) -> None:
        if news.stuck:
            log.warning(
                "graceful stop of task %s timed out; retiring slot %d",
                placed.plan.task,
                slot.number,
            )
            self._balancer.retire(slot)
        with self._placements.lock:
            if placed.phase is PlacedPhase.STOPPING:
                self._end(placed, in_time=news.in_time)
            elif placed.phase is PlacedPhase.MOVING:
                self._placements.parts.stop(placed.id, 0)
                self._placements.take_off(placed, PlacedPhase.UNPLACED)
                self._moves += 1
                self._submit(self._relaunch, placed)

    def _on_failed(self, placed: Placed, trace: Trace) -> None:
        """A task on a slot has failed."""
        with self._placements.lock:
            if placed.slot is None:
                return
            launching = placed.phase in LAUNCHING
            self._placements.parts.stop(placed.id, 0)
            failure = StartFailed(trace) if launching else None  # the launch raises it
            self._placements.take_off(placed, PlacedPhase.ENDED, failure)
            running = not launching and self._placements.remove(placed)
        if running:
            self._ended(TaskEnded(placed.plan.task, placed.plan.run, trace))

    def _on_part_over(self, news: Stopped | Failed) -> None:
        parts = self._placements.parts
        with self._placements.lock:
            slot = parts.slot(news.id)
            if isinstance(news, Stopped) and news.stuck:
                self._balancer.retire(slot)
            parts.ended(news.id, news.trace if isinstance(news, Failed) else None)

    def _watch_jvm(self) -> None:
        while not self._session.ready:
            if self._closing.wait(0.2):
                return
        self._session.await_jvm()
        if not self._closing.is_set():
            self._closing.set()
            self._gone("The process has ended.")
