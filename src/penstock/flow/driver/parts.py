"""The parts of polls, read in parallel on the shared slots.

The owner's lock guards `Parts`.
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
    """The parts of one poll: the waiting ones, and the slots of those being read."""

    owner: int  # the number of its task
    owner_slot: Slot
    ticket: int
    plan: SourcePlan
    waiting: list[str]
    running: dict[int, Slot] = field(default_factory=dict)
    error: Trace | None = None


class Parts:
    """Each running part has a unique number, as tasks do."""

    def __init__(
        self, pool: SlotPool, number: Callable[[], int], on_left: Callable[[Slot], None]
    ) -> None:
        """`number` returns the next number; `on_left` is called with a slot that a part left."""
        self._pool = pool
        self._number = number
        self._on_left = on_left
        self._running: dict[int, _Reading] = {}

    def read(self, request: ReadParts, slot: Slot, plan: SourcePlan) -> None:
        """Reads the parts of a poll; its task, on `slot`, gets `PartsRead` when all are done."""
        self._read_next(_Reading(request.id, slot, request.ticket, plan, list(request.parts)))

    def owner(self, number: int) -> int | None:
        """The task whose part this is."""
        reading = self._running.get(number)
        return reading.owner if reading else None

    def slot(self, number: int) -> Slot:
        return self._running[number].running[number]

    def is_on(self, slot: Slot) -> bool:
        """Whether the slot is reading a part."""
        return any(slot in reading.running.values() for reading in self._running.values())

    def ended(self, number: int, error: Trace | None) -> None:
        """A part was read or has failed; after a failure no other part of its poll starts."""
        reading = self._running.pop(number)
        slot = reading.running.pop(number)
        if error is not None and reading.error is None:
            reading.error = error
            reading.waiting.clear()
        self._read_next(reading)
        self._on_left(slot)

    def lost(self, slot: Slot, trace: Trace) -> None:
        """A slot has ended: its parts have failed."""
        for number, reading in list(self._running.items()):
            if reading.running[number] is slot:
                self.ended(number, trace)

    def stop(self, owner: int, grace_s: float) -> None:
        """Stops the parts of a task that is stopping."""
        for number, reading in self._running.items():
            if reading.owner == owner:
                reading.waiting.clear()
                reading.running[number].send(Stop(number, grace_s))

    def _read_next(self, reading: _Reading) -> None:
        """Reads up to one part per allowed shared slot in parallel; answers when all are done."""
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
        busy = [slot for reading in self._running.values() for slot in reading.running.values()]
        return min(shared, key=lambda slot: (busy.count(slot), slot.number))
