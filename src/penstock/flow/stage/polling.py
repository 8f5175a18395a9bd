"""The loop of a source task: polls its reader, sends the records and ends batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaException

from penstock.api import Offsets, Polled, SourceReader, Transaction
from penstock.data.records import Records
from penstock.errors import Unavailable, is_transient
from penstock.flow.counts import Counts
from penstock.flow.messages import ReadParts, StoreOffsets, TransactionCommitted
from penstock.flow.plan import Boundary, SourcePlan
from penstock.flow.stage.delivery import AGAIN_MAX_MS, Delivery, check_still_ours
from penstock.flow.stage.hosted import Hosted, Interrupted
from penstock.flow.stage.polled_batch import PolledBatch, last_of
from penstock.flow.stage.producing import Producing
from penstock.flow.stage.retrying import Retrying
from penstock.flow.stage.sending import RecordRefused, Sending
from penstock.flow.stage.source_offsets import SourceOffsets
from penstock.flow.stage.transacting import Transacting

log = logging.getLogger(__name__)

POLL_BYTES: Final = 1 << 20
"""The approximate size of a poll: small enough to stop soon."""

_FORGET_S: Final = 60
_LAST_FLUSH_S: Final = 5  # as long as offset.flush.timeout.ms is by default


class Polling(Delivery):
    """A source task whose reader is open, from its first poll to its last offsets; for the task's
    thread."""

    def __init__(
        self,
        task: Producing,
        reader: SourceReader,
        sending: Sending,
        offsets: SourceOffsets,
        transacting: Transacting | None,
    ) -> None:
        plan: SourcePlan = task.plan
        super().__init__(task, plan, reader, task.pipeline, task.failures, sending)
        self._offsets = offsets
        self._transacting = transacting
        self._batch = PolledBatch()
        self._polled = Polled()  # the one that is being sent

    @property
    def poll(self) -> int:
        return self._batch.polls

    def step(self) -> bool:
        """Polls once, and sends the records. Ends a batch that is complete, large or old enough, or
        if nothing more is ready. False if there was nothing to do."""
        wait_ms = self._batch.wait_ms(self._plan.transactions, storing=self._offsets.storing)
        polled = polled_by(self._reader, self._task, wait_ms)
        if polled is not None:
            began = time.monotonic()
            with self._task.time.busy():
                self._send_poll(polled, began)
        if self._is_due(polled):
            with self._task.time.busy():
                self._end_batch()
        return polled is not None

    @property
    def idle_ms(self) -> int:
        """How long to wait after a poll without records."""
        return self._reader.idle_ms

    def _is_due(self, polled: Polled | None) -> bool:
        """Whether the batch is to end: be flushed or committed."""
        if self._batch.polls and self._sending.first_refused is not None:
            return True  # nothing more is to be sent
        return self._batch.is_due(
            polled, time.monotonic(), self._plan.transactions, self._offsets.commit_requested
        )

    def _send_poll(self, polled: Polled, now: float) -> None:
        transactions = self._plan.transactions
        if polled.transaction is Transaction.ABORTED and transactions is not None:
            if transactions.boundary is Boundary.CONNECTOR:
                self._abort_for_good(polled)
                return
            polled = replace(polled, records=Records.none(), parts=())
        was_open = self._batch.is_open
        self._batch = self._batch.begin_poll(now)
        self._polled = polled
        if polled.parts:
            self._read_parts(polled.parts)
        else:
            self.send(polled.records)
        self._batch = self._batch.end_poll(polled, was_open)
        self._polled = Polled()

    def before_sending(self, records: Records) -> None:
        if self._transacting is not None and len(records):
            self._transacting.begin_for(records)

    def on_failing(self, first: int, converted: Records) -> None:
        """Sends the records before the one that fails the task, if their offsets can be stored.
        With exactly once, their transaction is aborted."""
        if self._transacting is not None or self._offsets_before(first) is None:
            return
        rows = [row for row, origin in enumerate(converted.origins) if origin < first]
        before = converted.only(rows)
        check_still_ours(self._task)
        try:
            topics = self._sending.send(before, self.poll)
        except RecordRefused as refusal:  # this one comes first then
            self.on_refused(before.origins[refusal.row])
            return
        self._task.count(Counts(len(before), topics=frozenset(topics)))
        self._unsettled += len(before)
        self.on_refused(first)

    def on_refused(self, first: int) -> None:
        offsets = self._offsets_before(first)
        if offsets is not None:
            self._batch = self._batch.with_offsets(offsets)

    def _offsets_before(self, first: int) -> Offsets | None:
        """The offsets of the last poll before a record; None if they are unknown."""
        polled = self._polled
        if polled.parts:
            return None
        if not first:
            return ()
        return None if polled.offsets_before is None else polled.offsets_before(first)

    def _read_parts(self, parts: Sequence[str]) -> None:
        """Reads parts in parallel; with exactly once one after the other, as one producer sends all
        of them in one transaction."""
        if self._transacting is not None or len(parts) == 1:
            for part in parts:
                self.send_part(part)
            return
        task = self._task
        ticket = self._offsets.new_ticket()
        task.say(ReadParts(task.id, ticket, parts))
        with task.turn:
            task.turn.wait_for(lambda: task.stopping or self._offsets.is_answered(ticket))
        if task.stopping:
            raise Interrupted
        self.take_answers()

    def _end_batch(self) -> None:
        """Waits until Kafka has the sent records. Their offsets are stored with the host's next
        round, together with those of its other tasks; sooner if the connector requests it."""
        commit_requested = self._offsets.take_commit_request()
        if self._transacting is None:
            self.flush()
            self.settle()
            self._offsets.acknowledge(last_of(self._batch.offsets), at_once=commit_requested)
            self._store_if_requested()
        else:
            self._commit(self._transacting)
        self._sending.first_refused = None
        self._batch = self._batch.end()

    def _store_if_requested(self) -> None:
        """Requests the storing of offsets that must not wait for the host's next round."""
        if self._offsets.at_once:
            self._store()

    def _store(self) -> None:
        """Requests the storing of acknowledged offsets."""
        if not self._task.cut_off:
            for store in self._offsets.due():
                self._task.say(store)

    def take_answers(self) -> None:
        """Takes the worker's answers. Raises what a request has failed with."""
        for offsets in self._offsets.take_answers():
            self._committed(offsets)
            self._store_if_requested()

    def _committed(self, offsets: Offsets) -> None:
        if not offsets:
            return
        self._offsets.committed(offsets)
        with self._task.time.busy():
            self._reader.committed(offsets)

    def _commit(self, transacting: Transacting) -> None:
        """Commits records and offsets together."""
        offsets = list(last_of(self._batch.offsets).values())
        forgotten = [offset for offset in offsets if offset.offset is None]
        try:
            if forgotten:
                forget(forgotten, self._offsets, self._task)
                self.take_answers()
            transacting.begin()
            self.flush()
            for offset in offsets:
                self._sending.send_row(transacting.offsets_topic, *self._offsets.encoded(offset))
            self.flush()
            check_still_ours(self._task)
            transacting.commit()
        except (KafkaException, SystemError) as error:  # the latter if a callback raised the former
            self._abort()
            raise transacting.cannot("finish writing records to Kafka", error) from error
        except BaseException:
            self._abort()
            raise
        self.settle()
        self._task.say(TransactionCommitted(self._task.id, offsets))
        self._committed(offsets)

    def _abort_for_good(self, polled: Polled) -> None:
        """Aborts a transaction, but commits its offsets, so that it is not read again."""
        assert self._transacting is not None
        self._abort()
        self._batch = self._batch.with_offsets(polled.offsets).close()
        self._commit(self._transacting)
        self._batch = self._batch.end()

    def _abort(self) -> None:
        if self._transacting is not None and self._transacting.abort():
            self._unsettled = 0

    def finish(self) -> None:
        """Ends the batch, if it is complete, and stores offsets."""
        try:
            transactions = self._plan.transactions
            if transactions is None:
                complete = True  # as far as there are offsets
            else:
                complete = (
                    not self._batch.is_open and transactions.boundary is not Boundary.CONNECTOR
                )
            if self._batch.polls and complete:
                self._end_batch()
            self._store_rest()
        finally:
            if not self._task.cut_off:
                self._abort()

    def finish_after_failure(self) -> None:
        """Stores the offsets of what was sent before a refused record. With exactly once, nothing
        of it is committed."""
        try:
            if not self._task.cut_off:
                self._acknowledge_rest()
            self._store_rest()
        finally:
            if not self._task.cut_off:
                self._abort()

    def _acknowledge_rest(self) -> None:
        """Waits briefly for Kafka."""
        if self._transacting is None and self._batch.polls:
            if not self._sending.is_flushed(min(_LAST_FLUSH_S, self._task.time_left())):
                return
            sent, first = self._batch.offsets, self._sending.first_refused
            if first is None:
                self.flush()
                self.settle()
            self._offsets.acknowledge(last_of(sent if first is None else sent[: first - 1]))
        self._failures.flush()

    def _store_rest(self) -> None:
        """Stores acknowledged offsets, as far as there is time; also after the task has failed."""
        task = self._task
        while not task.cut_off:
            self._store()
            if not self._offsets.storing or task.time_left() <= 0:
                return
            with task.turn:
                task.turn.wait_for(lambda: self._offsets.answered or task.cut_off, task.time_left())
            self.take_answers()


def polled_by(reader: SourceReader, task: Hosted, wait_ms: int) -> Polled | None:
    """The reader's next records; retries while the source is unavailable."""
    retrying = Retrying(-1, AGAIN_MAX_MS, task.wait_to_try_again)
    began = time.monotonic()
    while True:
        try:
            with task.time.at_work():
                polled = reader.poll(POLL_BYTES, wait_ms)
        except Exception as error:
            if not is_transient(error) or task.stopping:
                raise
            log.warning("poll failed, retrying: %s", error)
            task.count(Counts(retries=1))
            retrying.again()
            continue
        if polled is not None:
            task.count(Counts(ms=(time.monotonic() - began) * 1000))
        return polled


def forget(forgotten: Offsets, offsets: SourceOffsets, task: Hosted) -> None:
    """Has the worker forget offsets in its own topic, and waits for its answer; otherwise they
    would reappear from there."""
    ticket = offsets.new_ticket()
    task.say(StoreOffsets(task.id, ticket, forgotten, forget_only=True))
    with task.turn:
        answered = task.turn.wait_for(
            lambda: task.cut_off or offsets.is_answered(ticket), _FORGET_S
        )
    if not answered:
        raise Unavailable(
            f"Source offsets were not removed from the worker's offsets topic within {_FORGET_S} s"
        )
