"""A source task on a slot: polls its reader, converts and produces, and requests the storing of
offsets.

For at least once, the worker stores the offsets of acknowledged records: it has one offset store
for all its tasks, and knows whether a task is still its own. For exactly once, one transactional
producer, created when the task is placed and never again, sends records and offsets in one
transaction (KIP-618): a producer that the task's next owner has fenced is not replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from confluent_kafka import KafkaException

from penstock.api import Offsets, Polled, Primitive, SourceOffset, Transaction
from penstock.cluster.offset_records import SourceOffset as StoredOffset
from penstock.cluster.offset_records import encode_offset, partition_key
from penstock.data.records import Records
from penstock.errors import Unavailable
from penstock.flow.counts import Counts
from penstock.flow.messages import (
    Begin,
    PartsRead,
    ReadParts,
    Ready,
    Running,
    Store,
    Stored,
    TransactionCommitted,
)
from penstock.flow.plan import Boundary, SourcePlan
from penstock.flow.stage.failures import TaskFailed
from penstock.flow.stage.hosted import HostPort, Interrupted
from penstock.flow.stage.pipeline import Backoff, retriable
from penstock.flow.stage.producing import AGAIN_MAX_MS, PartContext, Producing
from penstock.flow.stage.sending import BatchTooLarge, RecordRefused, Sending
from penstock.flow.traces import Carried

log = logging.getLogger(__name__)

POLL_BYTES: Final = 1 << 20
"""The approximate size of a poll: small enough to stop soon."""

MOST_POLLS: Final = 32
"""The maximum number of polls in one transaction or flush: waiting for Kafka costs as much as
sending a megabyte."""

_MOST_S: Final = 1.0  # the longest that records are read without storing their offsets
_WAIT_MS: Final = 500
_OPEN_WAIT_MS: Final = 50  # while a transaction is open
_ANSWER_WAIT_MS: Final = 50  # for readers that cannot be woken
_ANSWER_S: Final = 0.01  # the usual time of an answer from the worker
_PATIENCE_S: Final = 5.0  # shorter than a session: a worker that hangs loses its tasks
_INIT_S: Final = 60
_END_S: Final = 60
_ABORT_S: Final = 10
_LAST_FLUSH_S: Final = 5  # as long as offset.flush.timeout.ms is by default


class SourceTask(Producing):
    """One source task."""

    def __init__(self, host: HostPort, id: int, plan: SourcePlan) -> None:
        super().__init__(host, id, plan)
        self._begin: Begin | None = None
        self._stored: dict[bytes, SourceOffset] = {}  # by partition key
        self._keys: Mapping[bytes, bytes] = {}
        self._polled = Polled()  # the last one
        self._sent: list[Offsets] = []  # of each poll that is sent, and not acknowledged
        self._acknowledged: dict[bytes, SourceOffset] = {}  # to be stored
        self._storing: dict[int, Offsets] = {}
        self._answers: list[Stored | PartsRead] = []
        self._requested_at = 0.0
        self._tickets = 0
        self._since = 0.0
        self._sent_is_open = False  # the last poll had records and no offsets
        self._has_offsets = False  # of any poll: some sources have none
        self._in_transaction = False
        self._commit_requested = False
        self._store_requested = False  # at once, not with the host's next round

    def begin(self, begin: Begin) -> None:
        with self.turn:
            self._begin = begin
            self.turn.notify_all()

    def answer(self, answer: Stored | PartsRead) -> None:
        with self.turn:
            self._answers.append(answer)
            self._woken = True
            self.turn.notify_all()

    def request_commit(self) -> None:
        with self.turn:
            self._commit_requested = True

    def due(self) -> list[Store]:
        """The request to store acknowledged offsets; empty while an earlier request is open."""
        with self.turn:
            if not self._acknowledged or self._storing or self.cut_off:
                return []
            offsets = list(self._acknowledged.values())
            self._acknowledged = {}
            self._store_requested = False
            self._tickets += 1
            self._storing[self._tickets] = offsets
            self._requested_at = time.monotonic()
            return [Store(self.id, self._tickets, offsets)]

    def stored_offsets(self) -> Offsets:
        with self.turn:
            return list(self._stored.values())

    def stored_offset(self, partition: Mapping[str, Primitive]) -> SourceOffset | None:
        with self.turn:
            return self._stored.get(partition_key(partition))

    def work(self) -> None:
        plan = self._plan
        self._sending = Sending(plan, self._check_still_ours)
        if plan.transactions is not None:
            try:
                self._sending.producer.init_transactions(_INIT_S)
            except (KafkaException, SystemError) as error:
                raise cannot(plan, "be given its transactional id", error) from error
        self.say(Ready(self.id))
        with self.turn:
            self.turn.wait_for(lambda: self._begin is not None or self.stopping)
            if self.stopping or self._begin is None:
                return
            self._keys = self._begin.keys
            self._stored = {
                partition_key(offset.partition): offset for offset in self._begin.offsets
            }
        with self.busy():
            self._open(_Context(self))
        self.say(Running(self.id))
        while not self.stopping:
            try:
                self._advance()
            except BatchTooLarge as refusal:
                if plan.transactions is not None:
                    raise
                self._start_over(refusal)

    def _advance(self) -> None:
        self._take_answers()
        if self._storing and time.monotonic() - self._requested_at > _PATIENCE_S:
            self._await_answers(_PATIENCE_S)  # unreachable: another worker may own the task
        elif not self._step():
            self._await_answers(self._reader.idle_ms / 1000 or (_ANSWER_S if self._storing else 0))

    def _start_over(self, refusal: BatchTooLarge) -> None:
        """Resumes after the stored offsets, with smaller batches."""
        log.warning("%s. The task starts over with batches of that size", refusal)
        self._acknowledge_rest()
        self._store_rest()
        if self._storing or self.cut_off:
            raise refusal
        self._sending.close()
        self._reader.close()
        self.interceptors.close()
        size = {"batch.size": str(refusal.batch_bytes)}
        self._plan = replace(self._plan, producer={**self._plan.producer, **size})
        self._sending = Sending(self._plan, self._check_still_ours)
        self._sent, self._polls, self._unsettled = [], 0, 0
        self._sent_is_open = False
        with self.busy():
            self._open(_Context(self))

    def _await_answers(self, seconds: float) -> None:
        if seconds:
            with self.turn:
                self.turn.wait_for(lambda: self.stopping or self._answers, seconds)

    def _step(self) -> bool:
        """Polls once, and sends the records. Ends a batch that is complete, large or old enough, or
        if nothing more is ready. False if there was nothing to do."""
        polled = self._poll(self._wait_ms())
        if polled is not None:
            if not self._polls:
                self._since = time.monotonic()
            with self.busy():
                self._send(polled)
        if self._is_due(polled):
            with self.busy():
                self._end_batch()
        return polled is not None

    def _wait_ms(self) -> int:
        """How long a poll may wait: not at all while other work is due soon."""
        if not self._polls:
            return _ANSWER_WAIT_MS if self._storing else _WAIT_MS
        transactions = self._plan.transactions
        at_once = transactions is None or transactions.boundary is Boundary.POLL
        waits = transactions is not None and self._sent_is_open and self._has_offsets
        return 0 if at_once and not waits else _OPEN_WAIT_MS

    def _poll(self, wait_ms: int) -> Polled | None:
        """The reader's next records; retries while the source is unavailable."""
        backoff = Backoff(-1, AGAIN_MAX_MS, self.wait_to_try_again)
        began = time.monotonic()
        while True:
            try:
                with self.at_work():
                    polled = self._reader.poll(POLL_BYTES, wait_ms)
            except Exception as error:
                if not retriable(error) or self.stopping:
                    raise
                log.warning("poll failed, retrying: %s", error)
                self.count(Counts(retries=1))
                backoff.again()
                continue
            if polled is not None:
                self.count(Counts(ms=(time.monotonic() - began) * 1000))
            return polled

    def _is_due(self, polled: Polled | None) -> bool:
        """Whether the batch is to end: be flushed or committed."""
        if not self._polls:
            return False
        if self._sending.first_refused is not None:
            return True  # nothing more is to be sent
        transactions = self._plan.transactions
        boundary = Boundary.POLL if transactions is None else transactions.boundary
        if boundary is Boundary.CONNECTOR:
            return polled is not None and polled.transaction is Transaction.COMPLETE
        if transactions is not None and self._sent_is_open:
            # Its offsets come with a later poll, in the same transaction, if ever.
            return polled is None and not self._has_offsets
        if self._polls >= MOST_POLLS or self._commit_requested:
            return True
        age_s = time.monotonic() - self._since
        if boundary is Boundary.INTERVAL:
            assert transactions is not None
            return age_s >= transactions.interval_ms / 1000
        return polled is None or age_s >= _MOST_S

    def _send(self, polled: Polled) -> None:
        transactions = self._plan.transactions
        if polled.transaction is Transaction.ABORTED and transactions is not None:
            if transactions.boundary is Boundary.CONNECTOR:
                self._abort_for_good(polled)
                return
            polled = replace(polled, records=Records.none(), parts=())
        was_open = self._sent_is_open
        self._sent_is_open = True  # until all is sent: it may be interrupted
        self._polls += 1
        self._polled = polled
        if polled.parts:
            self._read_parts(polled.parts)
        else:
            self._send_records(polled.records)
        self._has_offsets = self._has_offsets or bool(polled.offsets)
        self._sent.append(polled.offsets)
        self._polled = Polled()
        self._sent_is_open = not polled.offsets and (len(polled.records) > 0 or was_open)

    def _on_failing(self, first: int, converted: Records) -> None:
        """Sends the records before the one that fails the task, if their offsets can be stored.
        With exactly once, their transaction is aborted."""
        if self._plan.transactions is not None or self._offsets_before(first) is None:
            return
        rows = [row for row, origin in enumerate(converted.origins) if origin < first]
        before = converted.only(rows)
        self._check_still_ours()
        try:
            topics = self._sending.send(before, self._polls)
        except RecordRefused as refusal:  # this one comes first then
            self._on_refused(before.origins[refusal.row])
            return
        self.count(Counts(len(before), topics=frozenset(topics)))
        self._unsettled += len(before)
        self._on_refused(first)

    def _on_refused(self, first: int) -> None:
        offsets = self._offsets_before(first)
        if offsets is not None:
            self._sent.append(offsets)

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
        if self._plan.transactions is not None or len(parts) == 1:
            for part in parts:
                self._send_part(part)
            return
        self._tickets += 1
        ticket = self._tickets
        self.say(ReadParts(self.id, ticket, parts))
        with self.turn:
            self.turn.wait_for(lambda: self.stopping or self._is_answered(ticket))
        if self.stopping:
            raise Interrupted
        self._take_answers()

    def _is_answered(self, ticket: int) -> bool:
        return any(answer.ticket == ticket for answer in self._answers)

    def _before_sending(self, records: Records) -> None:
        transactions = self._plan.transactions
        if transactions is None or not len(records):
            return
        self._begin_transaction()
        if transactions.offsets_topic in records.topics:
            raise TaskFailed(
                "Source tasks may not produce to their own offsets topics when exactly-once "
                f"support is enabled ('{transactions.offsets_topic}')"
            )

    def _begin_transaction(self) -> None:
        if not self._in_transaction:
            self._sending.producer.begin_transaction()
            self._in_transaction = True

    def _end_batch(self) -> None:
        """Waits until Kafka has the sent records. Their offsets are stored with the host's next
        round, together with those of its other tasks; sooner if the connector requests it."""
        commit_requested, self._commit_requested = self._commit_requested, False
        if self._plan.transactions is None:
            self._flush()
            self._settle()
            with self.turn:
                self._acknowledged |= _last_of(self._sent)
                self._store_requested = self._store_requested or commit_requested
            self._store_if_requested()
        else:
            self._commit_transaction()
        self._sending.first_refused = None
        self._sent = []
        self._polls = 0

    def _store_if_requested(self) -> None:
        """Requests the storing of offsets that must not wait for the host's next round."""
        if self._store_requested:
            for store in self.due():
                self.say(store)

    def _take_answers(self) -> None:
        with self.turn:
            answers, self._answers = self._answers, []
        for answer in answers:
            with self.turn:
                offsets = self._storing.pop(answer.ticket, ())
            if answer.error is not None:
                raise Carried(answer.error)
            self._committed(offsets)
            self._store_if_requested()

    def _committed(self, offsets: Offsets) -> None:
        if not offsets:
            return
        with self.turn:
            for offset in offsets:
                self._stored[partition_key(offset.partition)] = offset
        with self.busy():
            self._reader.committed(offsets)

    def _commit_transaction(self) -> None:
        """Commits records and offsets together."""
        assert self._plan.transactions is not None
        topic = self._plan.transactions.offsets_topic
        offsets = list(_last_of(self._sent).values())
        forgotten = [offset for offset in offsets if offset.offset is None]
        try:
            if forgotten:
                self._forget(forgotten)
            self._begin_transaction()
            self._flush()
            for offset in offsets:
                self._sending.send_row(topic, *self._encoded(offset))
            self._flush()
            self._check_still_ours()
            self._sending.producer.commit_transaction(_END_S)
            self._in_transaction = False
        except (KafkaException, SystemError) as error:  # the latter if a callback raised the former
            self._abort()
            raise cannot(self._plan, "finish writing records to Kafka", error) from error
        except BaseException:
            self._abort()
            raise
        self._settle()
        self.say(TransactionCommitted(self.id, offsets))
        self._committed(offsets)

    def _encoded(self, source_offset: SourceOffset) -> tuple[bytes, bytes | None]:
        record = StoredOffset(self.task.connector, source_offset.partition, source_offset.offset)
        return encode_offset(record, self._keys.get(partition_key(source_offset.partition)))

    def _forget(self, offsets: Offsets) -> None:
        """Forgets offsets in the worker's own topic; otherwise they would reappear from there."""
        self._tickets += 1
        ticket = self._tickets
        self.say(Store(self.id, ticket, offsets, forget_only=True))
        with self.turn:
            answered = self.turn.wait_for(lambda: self.cut_off or self._is_answered(ticket), _END_S)
        if not answered:
            raise Unavailable(
                f"Source offsets were not removed from the worker's offsets topic within {_END_S} s"
            )
        self._take_answers()

    def _abort_for_good(self, polled: Polled) -> None:
        """Aborts a transaction, but commits its offsets, so that it is not read again."""
        self._abort()
        self._sent.append(polled.offsets)
        self._sent_is_open = False
        self._commit_transaction()
        self._sent = []
        self._polls = 0

    def _abort(self) -> None:
        """Aborts the open transaction, so that consumers need not wait for its timeout. That of a
        fenced or cancelled task ends without us."""
        if not self._in_transaction:
            return
        self._in_transaction = False
        self._unsettled = 0
        try:
            self._sending.abort(_ABORT_S)
        except (KafkaException, SystemError, AttributeError) as error:  # or it no longer exists
            log.info("failed to abort the transaction: %s", error)

    def finish(self, *, failed: bool) -> None:
        """Ends the batch, if it is complete, and releases everything."""
        try:
            if failed:
                self._acknowledge_rest()
                self._store_rest()
            elif not self.cut_off and hasattr(self, "_reader"):
                self._finish_batch()
        finally:
            if not self.cut_off:
                self._abort()
            self._release()

    def _finish_batch(self) -> None:
        transactions = self._plan.transactions
        if transactions is None:
            complete = True  # as far as there are offsets
        else:
            complete = not self._sent_is_open and transactions.boundary is not Boundary.CONNECTOR
        if self._polls and complete:
            self._end_batch()
        self._store_rest()

    def _acknowledge_rest(self) -> None:
        """After a failure: waits briefly for Kafka, so that the offsets of what was sent before a
        refused record can be stored. With exactly once, nothing of it is committed."""
        if self.cut_off or not hasattr(self, "_sending"):
            return
        if self._plan.transactions is None and self._polls:
            if not self._sending.is_flushed(min(_LAST_FLUSH_S, self.time_left())):
                return
            first = self._sending.first_refused
            if first is None:
                self._flush()
                self._settle()
            with self.turn:
                self._acknowledged |= _last_of(
                    self._sent if first is None else self._sent[: first - 1]
                )
        self._failures.flush()

    def _store_rest(self) -> None:
        """Stores acknowledged offsets, as far as there is time; also after the task has failed."""
        while not self.cut_off:
            for store in self.due():
                self.say(store)
            if not self._storing or self.time_left() <= 0:
                return
            with self.turn:
                self.turn.wait_for(lambda: self._answers or self.cut_off, self.time_left())
            self._take_answers()


def _last_of(sent: Sequence[Offsets]) -> dict[bytes, SourceOffset]:
    """The last offset of each source partition, by its key."""
    return {partition_key(offset.partition): offset for offsets in sent for offset in offsets}


def cannot(plan: SourcePlan, action: str, error: BaseException) -> TaskFailed:
    """Why an exactly-once task cannot continue."""
    return TaskFailed(
        f"The task {plan.task} was unable to {action} before its producer transaction expired or "
        "another one took its place. It may be necessary to reconfigure this connector "
        f"('producer.override.transaction.timeout.ms'): {error.__cause__ or error}"
    )


class _Context(PartContext):
    """The `SourceContext` of a task's reader."""

    def __init__(self, task: SourceTask) -> None:
        super().__init__(task)
        self._task = task

    def request_commit(self) -> None:
        self._task.request_commit()

    @property
    def stored_offsets(self) -> Offsets:  # type: ignore[override]
        return self._task.stored_offsets()

    def stored_offset(self, partition: Mapping[str, Primitive]) -> Mapping[str, Primitive] | None:
        stored = self._task.stored_offset(partition)
        return None if stored is None else stored.offset
