"""A source task on a slot: polls its reader, converts and produces, and requests the storing of
offsets.

For at least once, the worker stores the offsets of acknowledged records: it has one offset store
for all its tasks, and knows whether a task is still its own. For exactly once, records and offsets
are in one transaction (`transacting`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.api import Offsets, Primitive
from penstock.flow.messages import Begin, OffsetsStored, PartsRead, Ready, StoreOffsets, TaskOpened
from penstock.flow.plan import SourcePlan
from penstock.flow.stage.hosted import HostPort
from penstock.flow.stage.polling import Polling
from penstock.flow.stage.producing import PartContext, Producing
from penstock.flow.stage.sending import BatchTooLarge, Sending
from penstock.flow.stage.source_offsets import SourceOffsets
from penstock.flow.stage.transacting import Transacting

log = logging.getLogger(__name__)

_ANSWER_S: Final = 0.01  # the usual time of an answer from the worker
_PATIENCE_S: Final = 5.0  # shorter than a session: a worker that hangs loses its tasks


class SourceTask(Producing):
    """One source task."""

    def __init__(self, host: HostPort, id: int, plan: SourcePlan) -> None:
        super().__init__(host, id, plan)
        self.offsets = SourceOffsets(self.turn, id, plan.task)
        self._begin: Begin | None = None
        self._polling: Polling | None = None  # once its reader is open

    def begin(self, begin: Begin) -> None:
        with self.turn:
            self._begin = begin
            self.turn.notify_all()

    def answer(self, answer: OffsetsStored | PartsRead) -> None:
        self.offsets.answer(answer)
        self.wake()

    def due(self) -> list[StoreOffsets]:
        """The request to store acknowledged offsets, if there is one to make."""
        with self.turn:
            return [] if self.cut_off else self.offsets.due()

    def work(self) -> None:
        plan = self.plan
        sending = self.open_sending()
        transacting = None
        if plan.transactions is not None:
            transacting = Transacting(plan, plan.transactions, sending)
            transacting.init()
        self.say(Ready(self.id))
        with self.turn:
            self.turn.wait_for(lambda: self._begin is not None or self.stopping)
            if self.stopping or self._begin is None:
                return
        self.offsets.begin(self._begin)
        self._polling = polling = self._open(sending, transacting)
        self.say(TaskOpened(self.id))
        while not self.stopping:
            try:
                self._advance(polling)
            except BatchTooLarge as refusal:
                if transacting is not None:
                    raise
                self._polling = polling = self._start_over(polling, refusal)

    def _open(self, sending: Sending, transacting: Transacting | None) -> Polling:
        with self.time.busy():
            reader = self.open_reader(_Context(self))
        return Polling(self, reader, sending, self.offsets, transacting)

    def _advance(self, polling: Polling) -> None:
        polling.take_answers()
        if self.offsets.storing_for_s() > _PATIENCE_S:
            self._await_answers(_PATIENCE_S)  # unreachable: another worker may own the task
        elif not polling.step():
            answer_s = _ANSWER_S if self.offsets.storing else 0
            self._await_answers(polling.idle_ms / 1000 or answer_s)

    def _await_answers(self, seconds: float) -> None:
        if seconds:
            with self.turn:
                self.turn.wait_for(lambda: self.stopping or self.offsets.answered, seconds)

    def _start_over(self, polling: Polling, refusal: BatchTooLarge) -> Polling:
        """Resumes after the stored offsets, with smaller batches."""
        log.warning("%s. The task starts over with batches of that size", refusal)
        polling.finish_after_failure()
        if self.offsets.storing or self.cut_off:
            raise refusal
        self.close_client()
        self.interceptors.close()
        size = {"batch.size": str(refusal.batch_bytes)}
        self.plan = replace(self.plan, producer={**self.plan.producer, **size})
        return self._open(self.open_sending(), None)

    def finish(self, *, failed: bool) -> None:
        """Ends the batch, if it is complete, and stores what can be stored."""
        if self._polling is None:
            self.failures.flush()
        elif failed:
            self._polling.finish_after_failure()
        elif not self.cut_off:
            self._polling.finish()


class _Context(PartContext):
    """The `SourceContext` of a task's reader."""

    def __init__(self, task: SourceTask) -> None:
        super().__init__(task)
        self._task = task

    def request_commit(self) -> None:
        self._task.offsets.request_commit()

    @property
    def stored_offsets(self) -> Offsets:  # type: ignore[override]
        return self._task.offsets.stored()

    def stored_offset(self, partition: Mapping[str, Primitive]) -> Mapping[str, Primitive] | None:
        stored = self._task.offsets.stored_offset(partition)
        return None if stored is None else stored.offset
