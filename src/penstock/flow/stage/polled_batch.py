"""The polls of a source that were sent since the last flush or transaction, as a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from penstock.api import Offsets, Polled, SourceOffset, Transaction
from penstock.cluster.offset_records import partition_key
from penstock.flow.plan import Boundary, Transactions

MOST_POLLS: Final = 32
"""The maximum number of polls in one transaction or flush: waiting for Kafka costs as much as
sending a megabyte."""

_WAIT_MS: Final = 500
_OPEN_WAIT_MS: Final = 50  # while a transaction is open
_ANSWER_WAIT_MS: Final = 50  # for readers that cannot be woken
_MOST_S: Final = 1.0  # the longest that records are read without storing their offsets


@dataclass(frozen=True, slots=True)
class PolledBatch:
    """Polls that were sent, and that Kafka has not acknowledged. `since`: the time of the first.
    `offsets`: of each poll whose records are all sent. `is_open`: the last record's offset is still
    to come, with a later poll. `has_offsets`: whether any poll of the task had some; some sources
    have none."""

    polls: int = 0
    since: float = 0.0
    offsets: tuple[Offsets, ...] = ()
    is_open: bool = False
    has_offsets: bool = False

    def begin_poll(self, now: float) -> PolledBatch:
        """A poll is about to be sent; that may be interrupted."""
        since = self.since if self.polls else now
        return replace(self, polls=self.polls + 1, since=since, is_open=True)

    def end_poll(self, polled: Polled, was_open: bool) -> PolledBatch:
        """A poll is sent; `was_open`: the batch was open before."""
        return replace(
            self.with_offsets(polled.offsets),
            is_open=not polled.offsets and (len(polled.records) > 0 or was_open),
            has_offsets=self.has_offsets or bool(polled.offsets),
        )

    def with_offsets(self, offsets: Offsets) -> PolledBatch:
        """The records before these offsets are sent."""
        return replace(self, offsets=(*self.offsets, offsets))

    def close(self) -> PolledBatch:
        """Its transaction is aborted, and its offsets are complete."""
        return replace(self, is_open=False)

    def end(self) -> PolledBatch:
        """Kafka has all of it: the next one begins."""
        return PolledBatch(is_open=self.is_open, has_offsets=self.has_offsets)

    def wait_ms(self, transactions: Transactions | None, *, storing: bool) -> int:
        """How long a poll may wait: not at all while other work is due soon. `storing`: the worker
        has not answered yet."""
        if not self.polls:
            return _ANSWER_WAIT_MS if storing else _WAIT_MS
        at_once = transactions is None or transactions.boundary is Boundary.POLL
        waits = transactions is not None and self.is_open and self.has_offsets
        return 0 if at_once and not waits else _OPEN_WAIT_MS

    def is_due(
        self, polled: Polled | None, now: float, transactions: Transactions | None, requested: bool
    ) -> bool:
        """Whether it is to end: be flushed or committed. `polled`: the last poll, None if there was
        nothing to read; `requested`: the connector requests a commit."""
        if not self.polls:
            return False
        boundary = Boundary.POLL if transactions is None else transactions.boundary
        if boundary is Boundary.CONNECTOR:
            return polled is not None and polled.transaction is Transaction.COMPLETE
        if transactions is not None and self.is_open:
            # Its offsets come with a later poll, in the same transaction, if ever.
            return polled is None and not self.has_offsets
        if self.polls >= MOST_POLLS or requested:
            return True
        age_s = now - self.since
        if transactions is not None and boundary is Boundary.INTERVAL:
            return age_s >= transactions.interval_ms / 1000
        return polled is None or age_s >= _MOST_S


def last_of(sent: Iterable[Offsets]) -> dict[bytes, SourceOffset]:
    """The last offset of each source partition, by its key."""
    return {partition_key(offset.partition): offset for offsets in sent for offset in offsets}
