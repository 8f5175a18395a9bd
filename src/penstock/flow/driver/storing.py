"""Stores the offsets of source tasks, for all tasks of a slot at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.flow.driver.ports import OffsetsPort, Storing
from penstock.flow.driver.slots import Slot
from penstock.flow.messages import OffsetsStored, StoreOffsets
from penstock.flow.traces import trace_of
from penstock.host.logs import about
from penstock.ids import TaskId


class Stores:
    """Answers each `StoreOffsets` with `OffsetsStored`. `submit` runs a call in another thread."""

    def __init__(self, offsets: OffsetsPort, submit: Callable[..., None]) -> None:
        self._offsets = offsets
        self._submit = submit

    def store(self, slot: Slot, requests: Sequence[tuple[TaskId, StoreOffsets]]) -> None:
        """Sends all offsets, then waits for all of them. Offsets for another broker are awaited in
        another thread, so that they delay no other task."""
        waiting: list[tuple[TaskId, StoreOffsets, Storing]] = []
        answers: list[OffsetsStored] = []
        for task, store in requests:
            with about(task):
                try:
                    if store.forget_only:
                        self._offsets.forget(task, store.offsets)
                        answers.append(OffsetsStored(store.id, store.ticket))
                    else:
                        waiting.append((task, store, self._offsets.store(task, store.offsets)))
                except BaseException as failure:
                    answers.append(OffsetsStored(store.id, store.ticket, trace_of(failure)))
        for task, store, storing in waiting:
            if storing.apart:
                self._submit(self._answer_apart, slot, task, store, storing)
            else:
                answers.append(self._stored(task, store, storing))
        if answers:
            slot.send(*answers)

    def _answer_apart(
        self, slot: Slot, task: TaskId, store: StoreOffsets, storing: Storing
    ) -> None:
        slot.send(self._stored(task, store, storing))

    def _stored(self, task: TaskId, store: StoreOffsets, storing: Storing) -> OffsetsStored:
        with about(task):
            try:
                storing.wait()
            except BaseException as failure:
                return OffsetsStored(store.id, store.ticket, trace_of(failure))
        return OffsetsStored(store.id, store.ticket)
