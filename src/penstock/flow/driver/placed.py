"""A task that the worker has started: its phase, its slot, and how busy it is.

The lock of `placements` guards it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from penstock.flow.driver.busyness import Busyness
from penstock.flow.driver.ports import Begins, StoppedMeanwhile
from penstock.flow.driver.slots import Slot
from penstock.flow.plan import FlowPlan


class PlacedPhase(Enum):
    """The phase of a placed task."""

    UNPLACED = "unplaced"  # on no slot: not yet, or between two
    PREPARING = "preparing"  # a source, until it has its producer
    OPENING = "opening"  # until its writer or reader is open
    LATE = "late"  # still opening, but its launch has ended: it counts as started
    RUNNING = "running"
    MOVING = "moving"  # leaves its slot at a record boundary, then restarts on another
    STOPPING = "stopping"
    ENDED = "ended"


P: TypeAlias = PlacedPhase
PLACED_MOVES: Final[Mapping[PlacedPhase, frozenset[PlacedPhase]]] = {
    P.UNPLACED: frozenset({P.PREPARING, P.OPENING, P.ENDED}),
    P.PREPARING: frozenset({P.OPENING, P.UNPLACED, P.STOPPING, P.ENDED}),
    P.OPENING: frozenset({P.LATE, P.RUNNING, P.UNPLACED, P.STOPPING, P.ENDED}),
    P.LATE: frozenset({P.RUNNING, P.MOVING, P.UNPLACED, P.STOPPING, P.ENDED}),
    P.RUNNING: frozenset({P.MOVING, P.UNPLACED, P.STOPPING, P.ENDED}),
    P.MOVING: frozenset({P.UNPLACED, P.STOPPING, P.ENDED}),
    P.STOPPING: frozenset({P.ENDED}),
    P.ENDED: frozenset(),
}
"""How the phases of a placed task follow each other; the first is UNPLACED."""

LAUNCHING: Final = frozenset({P.PREPARING, P.OPENING})
"""A launch waits for the end of these phases, and raises what fails in them."""
STARTED: Final = frozenset({P.LATE, P.RUNNING})


@dataclass(slots=True, eq=False)
class Placed:
    """A task from its start until it has ended. `changed` is notified of every phase."""

    plan: FlowPlan
    begin: Begins
    changed: threading.Condition
    own: bool = False
    """Whether it has, or is to get, a dedicated slot."""
    id: int = 0
    """The id of its current placement, unique within the worker."""
    slot: Slot | None = None
    deaths: int = 0
    """Slots that died while it was on them."""
    busyness: Busyness = field(default_factory=lambda: Busyness.idle(0.0))
    phase: PlacedPhase = PlacedPhase.UNPLACED
    launched: Future[None] = field(default_factory=Future)
    """Done when the phases `LAUNCHING` of its current placement have ended: it has started, or this
    raises why not."""
    in_time: bool = True
    """Whether it ended without being cancelled."""

    def enter(self, phase: PlacedPhase, cause: BaseException | None = None) -> None:
        """Moves to a phase; `cause`: why its launch has failed. Raises AssertionError for a move
        that is not in `PLACED_MOVES`."""
        assert phase in PLACED_MOVES[self.phase], f"task {self.plan.task}: {self.phase} to {phase}"
        if self.phase in LAUNCHING and phase in STARTED:
            self.launched.set_result(None)
        elif self.phase in LAUNCHING and phase not in LAUNCHING:
            self.launched.set_exception(cause or stopped_meanwhile(self.plan))
        self.phase = phase
        self.changed.notify_all()

    def await_end_of(self, phase: PlacedPhase, timeout_s: float) -> bool:
        """Waits while it is in a phase; False if it still is after `timeout_s`."""
        with self.changed:
            return self.changed.wait_for(lambda: self.phase is not phase, timeout_s)

    def await_end(self, timeout_s: float) -> bool:
        """Waits until it has ended; False if it has not after `timeout_s`."""
        with self.changed:
            return self.changed.wait_for(lambda: self.phase is PlacedPhase.ENDED, timeout_s)

    def place(self, id: int, slot: Slot, phase: PlacedPhase) -> None:
        """Puts it on a slot, under a new number."""
        self.id, self.slot = id, slot
        self.busyness = Busyness.idle(time.monotonic())
        self.launched = Future()
        self.enter(phase)


def stopped_meanwhile(plan: FlowPlan) -> StoppedMeanwhile:
    return StoppedMeanwhile(f"Task {plan.task} was stopped before it ran.")
