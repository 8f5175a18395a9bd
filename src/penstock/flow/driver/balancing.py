"""Moves tasks between slots, as `placing` decides from their loads."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from penstock.flow.driver import placing
from penstock.flow.driver.busyness import PERIOD_S
from penstock.flow.driver.placed import Placed, PlacedPhase
from penstock.flow.driver.placements import Placements
from penstock.flow.driver.slots import Slot
from penstock.flow.messages import Load, Stop

log = logging.getLogger(__name__)

_MOVE_GRACE_S: Final = 60.0


class Balancer:
    """Its thread looks at all tasks once a second, until `closing` is set."""

    def __init__(self, placements: Placements, closing: threading.Event) -> None:
        self._placements = placements
        self._closing = closing
        threading.Thread(target=self._run, name="slot-loads", daemon=True).start()

    def take_load(self, slot: Slot, load: Load) -> None:
        """The load of a slot's tasks."""
        now = time.monotonic()
        with self._placements.lock:
            slot.memory_bytes = load.rss
            for id, task in load.tasks.items():
                placed = self._placements.by_id(id)
                if placed is not None:
                    placed.busyness = placed.busyness.loaded(task, now)

    def move(self, placed: Placed, *, own: bool) -> None:
        """Stops a task at a record boundary; it then restarts on another slot. Needs the lock."""
        assert placed.slot is not None
        log.info(
            "task %s moves from slot %d to %s",
            placed.plan.task,
            placed.slot.number,
            "a dedicated slot" if own else "a shared slot",
        )
        placed.enter(PlacedPhase.MOVING)
        placed.own = own
        if not own:
            placed.deaths = 0
        placed.slot.send(Stop(placed.id, _MOVE_GRACE_S))

    def retire(self, slot: Slot) -> None:
        """Moves all tasks off a slot, which then ends."""
        with self._placements.lock:
            slot.retired = True
            for placed in self._placements.movable(slot):
                self.move(placed, own=placed.own)

    def _run(self) -> None:
        while not self._closing.wait(PERIOD_S):
            with self._placements.lock:
                self._look()

    def _look(self) -> None:
        placements, pool = self._placements, self._placements.pool
        if not pool.is_ready:
            return
        pool.follow_cluster()
        now = time.monotonic()
        for placed in placements.on_slots():
            placed.busyness = placed.busyness.passed(now)
        for move in placing.moves(placements.figures(), pool.limits):
            placed_there = placements.by_id(move.task)
            assert placed_there is not None, "figures have tasks on slots only"
            self.move(placed_there, own=move.own)
