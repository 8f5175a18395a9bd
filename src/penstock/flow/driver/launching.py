"""Launches a task on a slot: `Open`, a source's beginning, and the wait until it is open."""

from __future__ import annotations

from typing import Final

from penstock.flow.driver.placed import Placed, PlacedPhase, stopped_meanwhile
from penstock.flow.driver.placements import Placements
from penstock.flow.driver.ports import NoSlot, SlotDied
from penstock.flow.messages import Begin

_READY_S: Final = 300.0  # until a source has its producer: executors may have to start first
_OPEN_S: Final = 15.0  # a writer or reader that takes longer to open counts as started
_ATTEMPTS: Final = 3  # launches whose slot dies


def launch(placements: Placements, placed: Placed) -> None:
    """Places a task and waits until it runs. Raises why it cannot start; it may still be on a slot
    then."""
    for attempt in range(_ATTEMPTS):
        try:
            _launch_once(placements, placed)
            return
        except SlotDied:
            if attempt == _ATTEMPTS - 1:
                raise


def _launch_once(placements: Placements, placed: Placed) -> None:
    with placements.lock:
        if placed.phase is PlacedPhase.ENDED:
            raise stopped_meanwhile(placed.plan)
        placements.place(placed)
        launched, prepares = placed.launched, placed.phase is PlacedPhase.PREPARING
    if prepares:
        if not placed.await_end_of(PlacedPhase.PREPARING, _READY_S):
            raise NoSlot(
                f"Task {placed.plan.task} did not get a slot within {_READY_S:.0f} s: has Spark "
                "free cores and memory for this worker?"
            )
        if not launched.done():
            _begin(placements, placed)
    try:
        launched.result(_OPEN_S)
    except TimeoutError:
        with placements.lock:
            if placed.phase is PlacedPhase.OPENING:
                placed.enter(
                    PlacedPhase.LATE
                )  # from now on its failures are those of a running task
        launched.result(0)


def _begin(placements: Placements, placed: Placed) -> None:
    """Tells a source task that has its producer where to start."""
    beginning = placed.begin()
    with placements.lock:
        if placed.phase is PlacedPhase.OPENING:
            assert placed.slot is not None
            placed.slot.send(Begin(placed.id, list(beginning.offsets), dict(beginning.keys)))
