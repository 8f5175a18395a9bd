"""The tasks of a worker and the slots they are on.

Its `lock` guards the tasks, the pool of slots, and the parts of polls. All methods need it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from penstock.flow.driver.parts import Parts
from penstock.flow.driver.placed import STARTED, Placed, PlacedPhase
from penstock.flow.driver.placing import SlotFigures, TaskFigures
from penstock.flow.driver.pool import SlotPool
from penstock.flow.driver.ports import Begins
from penstock.flow.driver.slots import Slot
from penstock.flow.messages import News, Open
from penstock.flow.plan import FlowPlan, SinkPlan
from penstock.flow.spark.session import Session
from penstock.flow.traces import Trace
from penstock.ids import TaskId


class Placements:
    """`over` and `news` are called from the slots' threads, without the lock."""

    def __init__(
        self,
        session: Session,
        over: Callable[[Slot, Trace | None], None],
        news: Callable[[Slot, Sequence[News]], None],
    ) -> None:
        self.lock = threading.RLock()
        self.pool = SlotPool(session, over, news)
        self.parts = Parts(self.pool, self._next_id, self.end_if_free)
        self._by_task: dict[TaskId, Placed] = {}  # those that were not asked to stop
        self._by_id: dict[int, Placed] = {}  # those on a slot
        self._ids = 0

    def add(self, plan: FlowPlan, begin: Begins) -> Placed:
        """A task that is to be launched."""
        assert plan.task not in self._by_task, f"task {plan.task} is already running"
        placed = Placed(plan, begin, threading.Condition(self.lock))
        self._by_task[plan.task] = placed
        return placed

    def running(self) -> dict[TaskId, Placed]:
        """All tasks that were not asked to stop."""
        return dict(self._by_task)

    def find(self, task: TaskId) -> Placed | None:
        return self._by_task.get(task)

    def by_id(self, id: int) -> Placed | None:
        """The task of a current placement."""
        return self._by_id.get(id)

    def on_slots(self) -> Iterable[Placed]:
        return self._by_id.values()

    def on(self, slot: Slot) -> list[Placed]:
        return [placed for placed in self._by_id.values() if placed.slot is slot]

    def remove(self, placed: Placed) -> bool:
        """Forgets a task by its name, so that it can be started again; False if it was forgotten
        before."""
        if self._by_task.get(placed.plan.task) is not placed:
            return False
        del self._by_task[placed.plan.task]
        return True

    def place(self, placed: Placed) -> None:
        """Places a task on a slot, and sends it there."""
        slot = self.pool.choose(self.figures(), own=placed.own)
        sink = isinstance(placed.plan, SinkPlan)
        placed.place(self._next_id(), slot, PlacedPhase.OPENING if sink else PlacedPhase.PREPARING)
        self._by_id[placed.id] = placed
        slot.send(Open(placed.id, placed.plan))

    def take_off(
        self, placed: Placed, phase: PlacedPhase, cause: BaseException | None = None
    ) -> None:
        """A task has left its slot, or has lost it: `phase` is UNPLACED or ENDED."""
        self._by_id.pop(placed.id, None)
        slot, placed.slot = placed.slot, None
        placed.enter(phase, cause)
        if slot is not None:
            self.end_if_free(slot)

    def end_if_free(self, slot: Slot) -> None:
        """Ends a dedicated slot after its task, and a retired slot after its last task."""
        if (slot.shared and not slot.retired) or self.on(slot) or self.parts.is_on(slot):
            return
        slot.end()

    def figures(self) -> list[SlotFigures]:
        """The figures of the slots that accept tasks."""
        now = time.monotonic()
        return [
            SlotFigures(
                slot.number,
                slot.shared,
                {
                    placed.id: TaskFigures(
                        placed.busyness.share,
                        now - placed.busyness.quiet_since,
                        placed.phase is PlacedPhase.RUNNING,
                    )
                    for placed in self.on(slot)
                },
            )
            for slot in self.pool.slots.values()
            if not slot.retired
        ]

    def movable(self, slot: Slot) -> list[Placed]:
        """The tasks that can be asked to leave a slot."""
        return [placed for placed in self.on(slot) if placed.phase in STARTED]

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids
