"""The parts of polls: read side by side on the shared slots, for the tasks they are of.

Its owner's lock guards it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.flow.driver.pool import SlotPool
from penstock.flow.driver.slots import Slot
from penstock.flow.messages import OpenPart, PartsRead, ReadParts, Stop
from penstock.flow.plan import SourcePlan
from penstock.flow.traces import Trace


@dataclass(slots=True, eq=False)
class _Reading:
    """The parts of one poll, on their way: those that wait, and the slots of the others."""

    owner: int  # the number of its task
    owner_slot: Slot
    ticket: int
    plan: SourcePlan
    waiting: list[str]
    running: dict[int, Slot] = field(default_factory=dict)
    error: Trace | None = None


class Parts:
    """Each running part has a number of its own, as tasks have."""

    def __init__(
        self, pool: SlotPool, number: Callable[[], int], left: Callable[[Slot], None]
    ) -> None:
        """`number` gives the next one; `left` is called with slots that a part has left."""
        self._pool = pool
        self._number = number
        self._left = left
        self._running: dict[int, _Reading] = {}

    def read(self, asked: ReadParts, slot: Slot, plan: SourcePlan) -> None:
        """Has the parts of a poll read; its task, on `slot`, is told when all of them are."""
        self._go_on(_Reading(asked.id, slot, asked.ticket, plan, list(asked.parts)))

    def owner(self, number: int) -> int | None:
        """The task whose part this is."""
        reading = self._running.get(number)
        return reading.owner if reading else None

    def slot(self, number: int) -> Slot:
        return self._running[number].running[number]

    def is_on(self, slot: Slot) -> bool:
        """Whether a part is read there."""
        return any(slot in reading.running.values() for reading in self._running.values())

    def ended(self, number: int, error: Trace | None) -> None:
        """A part is read, or failed: then no more of its poll are begun."""
        reading = self._running.pop(number)
        slot = reading.running.pop(number)
        if error is not None and reading.error is None:
            reading.error = error
            reading.waiting.clear()
        self._go_on(reading)
        self._left(slot)

    def lost(self, slot: Slot, why: Trace) -> None:
        """A slot is over."""
        for number, reading in list(self._running.items()):
            if reading.running[number] is slot:
                self.ended(number, why)

    def stop(self, owner: int, grace_s: float) -> None:
        """Stops what is read for a task that is to stop."""
        for number, reading in self._running.items():
            if reading.owner == owner:
                reading.waiting.clear()
                reading.running[number].send(Stop(number, grace_s))

    def _go_on(self, reading: _Reading) -> None:
        """Has as many parts read side by side as there may be shared slots; answers when none is
        left."""
        while reading.waiting and len(reading.running) < self._pool.limits.shared:
            slot = self._choose()
            number = self._number()
            self._running[number] = reading
            reading.running[number] = slot
            slot.send(OpenPart(number, reading.plan, reading.waiting.pop(0)))
        if not reading.running:
            reading.owner_slot.send(PartsRead(reading.owner, reading.ticket, reading.error))

    def _choose(self) -> Slot:
        """The shared slot with the fewest parts."""
        shared = self._pool.shared()
        if len(shared) < self._pool.limits.shared:
            return self._pool.add(shared=True)
        busy = [slot for each in self._running.values() for slot in each.running.values()]
        return min(shared, key=lambda slot: (busy.count(slot), slot.number))
