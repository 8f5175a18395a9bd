"""The running tasks of a worker: placed on slots, moved between them, stopped by name.

Guarantees: a report comes only after the records have reached their target; a task that stops in
time has reported all it did; nothing of a task reaches Kafka after `stop` has returned. The worker
need not know a task's slot: this module handles moves, and slots that die.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, assert_never

from penstock.flow.driver import placing
from penstock.flow.driver.lags import Lags
from penstock.flow.driver.parts import Parts
from penstock.flow.driver.placed import Placed
from penstock.flow.driver.placing import SlotFigures, TaskFigures
from penstock.flow.driver.pool import SlotPool
from penstock.flow.driver.ports import (
    Begins,
    NoSlot,
    OffsetsPort,
    SlotDied,
    StartFailed,
    StoppedMeanwhile,
)
from penstock.flow.driver.positions import Asking
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
    Begin,
    Failed,
    Hello,
    Intercepted,
    Load,
    News,
    OffsetsCommitted,
    Open,
    Positions,
    Progress,
    ReadParts,
    Ready,
    Running,
    Stop,
    Stopped,
    Store,
    TaskNews,
    TransactionCommitted,
    Watched,
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

_LOOK_S: Final = 1.0
_MOVE_GRACE_S: Final = 60.0
_READY_S: Final = 300.0  # until a source has its producer: executors may have to start first
_OPEN_S: Final = 15.0  # a writer or reader that takes longer to open counts as started
_MARGIN_S: Final = 3.0  # on top of a task's grace: how long a working stage may take to answer
_RECENT: Final = 0.5  # how much of a task's busyness the last second makes up
_WORKERS: Final = 64
_RETRIES: Final = 3  # of a start whose slot died


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
        self._lock = threading.RLock()  # guards everything below
        self._placed: dict[TaskId, Placed] = {}
        self._by_id: dict[int, Placed] = {}
        self._ids = 0
        self._asking = Asking()
        self._watching = Watching()
        self._pool = SlotPool(session, self._slot_over, self._on_news)
        self._parts = Parts(self._pool, self._next_id, self._end_if_free)
        self._moves = 0
        self._deaths = 0
        self._lags = Lags()
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="tasks")
        self._closing = threading.Event()
        for target, name in ((self._watch_jvm, "jvm-watch"), (self._watch_loads, "slot-loads")):
            threading.Thread(target=target, name=name, daemon=True).start()

    def warm_up(self) -> None:
        """Starts the shared slots; returns when they are ready."""
        with self._lock:
            self._pool.prepare()
            slots = self._pool.fill()
        for slot in slots:
            slot.ready.wait(_READY_S)

    def start(self, plan: FlowPlan, begin: Begins) -> None:
        """Starts one task; returns when it runs, raises if it cannot start. `begin` returns where a
        source task starts; a sink resumes at its group's offsets."""
        self._session.get()
        if plan.tolerance.dead_letters is not None:
            failures.ensure_topic(plan.tolerance.dead_letters)
        placed = Placed(plan, begin)
        with self._lock:
            self._pool.prepare()
            assert plan.task not in self._placed, f"task {plan.task} is already running"
            self._placed[plan.task] = placed
        try:
            self._launch(placed)
        except BaseException:
            with self._lock:
                self._release(placed)
            raise

    def stop(self, task: TaskId, timeout_s: float) -> bool:
        """Stops a task; False if it had to be cancelled: unreported work is repeated."""
        with self._lock:
            placed = self._placed.pop(task, None)
            if placed is None:
                return True
            stopped: Future[bool] = Future()
            placed.stopped = stopped
            slot = placed.slot
            if slot is None:  # between two slots, or not yet on one
                stopped.set_result(True)
            else:
                self._parts.stop(placed.id, timeout_s)
                slot.send(Stop(placed.id, timeout_s))
        try:
            return stopped.result(timeout_s + _MARGIN_S)
        except TimeoutError:
            log.warning("slot %d does not respond; killing it", slot.number if slot else -1)
            if slot is not None:
                slot.kill()
                slot.lost(Trace("The slot did not answer.", retriable=True))
            return False

    def standings(self, timeout_s: float) -> dict[TaskId, Standing]:
        """The state of every running task; lags unknown after `timeout_s` are missing."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            running = dict(self._placed)
            slots = list(self._pool.slots.values())
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
                round(placed.busy, 3),
            )
            for task, placed in running.items()
        }

    def watch(
        self, task: TaskId, records: int, timeout_s: float, hidden: re.Pattern[str] | None
    ) -> list[Seen] | None:
        """The next records of a task, step by step, without fields whose names match `hidden`; at
        most `records`, fewer if no more arrive in time. None: the task is not running."""
        with self._lock:
            placed = self._placed.get(task)
            slot = placed.slot if placed is not None and placed.running else None
        if placed is None or slot is None:
            return None
        return self._watching.watch(slot, placed.id, records, timeout_s, hidden)

    def slots(self) -> list[SlotStanding]:
        """The state of every slot."""
        with self._lock:
            return [
                SlotStanding(slot.number, slot.shared, len(self._on(slot)), slot.memory_bytes)
                for slot in self._pool.slots.values()
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
        with self._lock:
            slots = list(self._pool.slots.values())
        self._pool.close(slots)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _figures(self) -> list[SlotFigures]:
        """The figures of the slots that accept tasks."""
        now = time.monotonic()
        return [
            SlotFigures(
                slot.number,
                slot.shared,
                {
                    placed.id: TaskFigures(
                        placed.busy,
                        now - placed.quiet_since,
                        placed.running and placed.stopped is None and not placed.moving,
                    )
                    for placed in self._on(slot)
                },
            )
            for slot in self._pool.slots.values()
            if not slot.retired
        ]

    def _on(self, slot: Slot) -> list[Placed]:
        return [placed for placed in self._by_id.values() if placed.slot is slot]

    def _launch(self, placed: Placed, slot: Slot | None = None) -> None:
        """Places a task and starts it; raises if it cannot start."""
        for attempt in range(_RETRIES):
            try:
                self._launch_once(placed, slot)
                return
            except SlotDied:
                slot = None
                if attempt == _RETRIES - 1:
                    raise

    def _launch_once(self, placed: Placed, slot: Slot | None) -> None:
        with self._lock:
            if placed.stopped is not None:
                self._done_stopping(placed, True)
                raise StoppedMeanwhile(f"Task {placed.plan.task} was stopped before it ran.")
            self._forget_id(placed)
            placed.id = self._next_id()
            placed.slot = slot or self._pool.choose(self._figures(), own=placed.own)
            placed.ready, placed.started = Future(), Future()
            if isinstance(placed.plan, SinkPlan):
                placed.ready.set_result(None)
            placed.running = placed.moving = False
            placed.in_call = False
            placed.busy_s = placed.busy = 0.0
            placed.checked_at = placed.quiet_since = time.monotonic()
            self._by_id[placed.id] = placed
            own_slot, id = placed.slot, placed.id
            own_slot.send(Open(id, placed.plan))
        if isinstance(placed.plan, SourcePlan):
            self._await(placed, placed.ready, _READY_S)
            beginning = placed.begin()
            with self._lock:
                if placed.stopped is None and placed.id == id:
                    own_slot.send(Begin(id, list(beginning.offsets), dict(beginning.keys)))
        try:
            self._await(placed, placed.started, _OPEN_S)
        except TimeoutError:  # from now on its failures are those of a running task
            _settle(placed.started)

    def _await(self, placed: Placed, event: Future[None], timeout_s: float) -> None:
        try:
            event.result(timeout_s)
        except TimeoutError:
            if event is placed.ready:
                raise NoSlot(
                    f"Task {placed.plan.task} did not get a slot within {timeout_s:.0f} s: has "
                    "Spark free cores and memory for this worker?"
                ) from None
            raise

    def _relaunch(self, placed: Placed) -> None:
        """Restarts a task that has left or lost its slot."""
        with about(placed.plan.task):
            try:
                self._launch(placed)
            except StoppedMeanwhile:
                pass
            except BaseException as error:
                with self._lock:
                    if placed.slot is not None and self._by_id.get(placed.id) is placed:
                        placed.slot.send(Stop(placed.id, 0))
                self._fail(placed, trace_of(error))

    def _forget_id(self, placed: Placed) -> None:
        if self._by_id.get(placed.id) is placed:
            del self._by_id[placed.id]

    def _release(self, placed: Placed) -> None:
        """Forgets a task that did not start."""
        slot = placed.slot
        if slot is not None and self._by_id.get(placed.id) is placed:
            slot.send(Stop(placed.id, 0))
        self._forget_id(placed)
        if self._placed.get(placed.plan.task) is placed:
            del self._placed[placed.plan.task]
        placed.slot = None
        self._end_if_free(slot)

    def _done_stopping(self, placed: Placed, in_time: bool) -> None:
        self._forget_id(placed)
        slot, placed.slot = placed.slot, None
        for event in (placed.ready, placed.started):
            if not event.done():
                event.set_exception(StoppedMeanwhile("The task was stopped before it ran."))
        if placed.stopped is not None and not placed.stopped.done():
            placed.stopped.set_result(in_time)
        self._end_if_free(slot)

    def _end_if_free(self, slot: Slot | None) -> None:
        """Ends a dedicated slot after its task, and a retired slot after its last task."""
        if slot is None or (slot.shared and not slot.retired) or self._on(slot):
            return
        if not self._parts.is_on(slot):
            slot.end()

    def _fail(self, placed: Placed, trace: Trace) -> None:
        with self._lock:
            self._parts.stop(placed.id, 0)
            self._forget_id(placed)
            slot, placed.slot = placed.slot, None
            self._end_if_free(slot)
            if placed.stopped is not None:
                self._done_stopping(placed, True)
                return
            task = placed.plan.task
            if self._placed.get(task) is not placed:
                return
            del self._placed[task]
        self._ended(TaskEnded(task, placed.plan.run, trace))

    def _slot_over(self, slot: Slot, trace: Trace | None) -> None:
        """A slot has ended: its tasks restart on other slots. A task that was alone on it fails, as
        it may be the cause, unless the slot was lost with its executor; a task that was working
        gets a dedicated slot."""
        with self._lock:
            self._pool.slots.pop(slot.number, None)
            tasks = self._on(slot)
            self._parts.lost(slot, trace or _ENDED)
            if trace is not None and not self._closing.is_set():
                self._deaths += 1
        if self._closing.is_set():
            for placed in tasks:
                with self._lock:
                    self._done_stopping(placed, False)
            return
        if tasks:
            log.warning(
                "slot %d died with %d tasks: %s", slot.number, len(tasks), trace and trace.text
            )
        alone = len(tasks) == 1 and (not slot.shared or slot.pid is None)
        if alone and tasks[0].deaths < _FORGIVEN and self._pool.lost_with_executor():
            alone = False
        for placed in tasks:
            with self._lock:
                self._forget_id(placed)
                placed.slot = None
                if placed.stopped is not None:
                    self._done_stopping(placed, False)
                    continue
                waiting = [event for event in (placed.ready, placed.started) if not event.done()]
                placed.deaths += 1
                placed.own = placed.in_call or placed.deaths > 1
                died: BaseException = SlotDied(trace.summary if trace else "The slot ended.")
                if alone:
                    died = StartFailed(trace or _ENDED)
                for event in waiting:
                    event.set_exception(died)
            if waiting:
                continue  # its launch retries
            if alone:
                self._fail(placed, trace or _ENDED)
            else:
                self._submit(self._relaunch, placed)

    def _submit(self, call: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the worker is stopping
            self._threads.submit(call, *args)

    def _on_news(self, slot: Slot, news: Sequence[News]) -> None:
        stores: list[tuple[TaskId, Store]] = []
        for message in news:
            match message:
                case Load():
                    self._take_load(slot, message)
                case Positions():
                    self._asking.answered(message)
                case Watched():
                    self._watching.answered(message)
                case Store(id):
                    placed = self._by_id.get(id)
                    if placed is not None:
                        stores.append((placed.plan.task, message))
                case Hello():
                    pass
                case _:
                    self._on_news_of_task(slot, message)
        if stores:
            self._submit(self._stores.store, slot, stores)

    def _on_news_of_task(self, slot: Slot, news: TaskNews) -> None:
        with self._lock:
            placed = self._by_id.get(news.id)
            owner = self._parts.owner(news.id)
        if owner is not None:
            if isinstance(news, Progress):
                placed = self._by_id.get(owner)
            elif isinstance(news, Stopped | Failed):
                self._on_part_over(news)
        if placed is None:
            return
        task, run = placed.plan.task, placed.plan.run
        match news:
            case Ready():
                _settle(placed.ready)
            case Running():
                placed.running = True
                _settle(placed.started)
            case Progress():
                self._report(TaskProgress(task, run, news.counts))
            case Intercepted():
                self._report(InterceptorFigures(task, run, news.figures))
            case OffsetsCommitted():
                self._report(Committed(task, run, news.ok, news.ms, news.partitions))
            case ReadParts():
                assert isinstance(placed.plan, SourcePlan)
                with self._lock:
                    self._parts.read(news, slot, placed.plan)
            case TransactionCommitted():
                self._offsets.committed(task, news.offsets)
            case Stopped():
                self._on_stopped(slot, placed, news)
            case Failed():
                self._on_failed(placed, news.trace)
            case _:
                assert_never(news)

    def _on_stopped(self, slot: Slot, placed: Placed, news: Stopped) -> None:
        if news.stuck:
            log.warning(
                "graceful stop of task %s timed out; retiring slot %d",
                placed.plan.task,
                slot.number,
            )
            self._retire(slot)
        with self._lock:
            if placed.stopped is not None:
                self._done_stopping(placed, news.in_time)
                return
            if not placed.moving:
                return
            self._parts.stop(placed.id, 0)
            self._forget_id(placed)
            placed.slot = None
            self._moves += 1
            self._end_if_free(slot)
        self._submit(self._relaunch, placed)

    def _on_failed(self, placed: Placed, trace: Trace) -> None:
        with self._lock:
            waiting = [event for event in (placed.ready, placed.started) if not event.done()]
            if waiting:
                self._forget_id(placed)
                slot, placed.slot = placed.slot, None
                self._end_if_free(slot)
                for event in waiting:
                    event.set_exception(StartFailed(trace))
                if placed.stopped is not None:
                    self._done_stopping(placed, True)
                return
        self._fail(placed, trace)

    def _on_part_over(self, news: Stopped | Failed) -> None:
        with self._lock:
            slot = self._parts.slot(news.id)
            if isinstance(news, Stopped) and news.stuck:
                self._retire(slot)
            self._parts.ended(news.id, news.trace if isinstance(news, Failed) else None)

    def _take_load(self, slot: Slot, load: Load) -> None:
        now = time.monotonic()
        with self._lock:
            slot.memory_bytes = load.rss
            for id, task in load.tasks.items():
                placed = self._by_id.get(id)
                if placed is None:
                    continue
                passed_s = max(1e-3, now - placed.checked_at)
                share = min(1.0, (task.busy_s - placed.busy_s) / passed_s)
                placed.checked_at, placed.busy_s = now, task.busy_s
                placed.busy += _RECENT * (share - placed.busy)
                placed.in_call = task.in_call
                if placed.busy > placing.QUIET:
                    placed.quiet_since = now

    def _watch_loads(self) -> None:
        while not self._closing.wait(_LOOK_S):
            with self._lock:
                if not self._pool.is_ready:
                    continue
                self._pool.follow_cluster()
                now = time.monotonic()
                for placed in self._by_id.values():
                    if now - placed.checked_at > 2 * _LOOK_S:  # no new load: it is idle
                        placed.busy *= 1 - _RECENT
                for move in placing.moves(self._figures(), self._pool.limits):
                    self._move(self._by_id[move.task], own=move.own)

    def _move(self, placed: Placed, *, own: bool) -> None:
        """Stops a task at a record boundary; it then restarts on another slot."""
        assert placed.slot is not None
        log.info(
            "task %s moves from slot %d to %s",
            placed.plan.task,
            placed.slot.number,
            "a dedicated slot" if own else "a shared slot",
        )
        placed.moving = True
        placed.own = own
        if not own:
            placed.deaths = 0
        placed.slot.send(Stop(placed.id, _MOVE_GRACE_S))

    def _retire(self, slot: Slot) -> None:
        """Moves all tasks off a slot, which then ends."""
        with self._lock:
            slot.retired = True
            for placed in self._on(slot):
                if placed.stopped is None and not placed.moving and placed.started.done():
                    self._move(placed, own=placed.own)

    def _watch_jvm(self) -> None:
        while not self._session.ready:
            if self._closing.wait(0.2):
                return
        self._session.await_jvm()
        if not self._closing.is_set():
            self._closing.set()
            self._gone("The process has ended.")


def _settle(event: Future[None]) -> None:
    with suppress(InvalidStateError):  # another thread has settled it
        event.set_result(None)
