"""The commits of a sink task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from penstock.flow.messages import OffsetsCommitted
from penstock.flow.stage.consumer import Consumer
from penstock.flow.stage.events import CommitDone
from penstock.flow.stage.hosted import Hosted
from penstock.flow.stage.owned import Owned
from penstock.flow.stage.reporting import Reporting
from penstock.flow.stage.target import Target
from penstock.ids import TopicPartition

log = logging.getLogger(__name__)

_REJOINING: Final = ("RebalanceInProgressException", "rebalance")


class Commits:
    """Decides what may be committed, and keeps the commits in flight; for the task's thread."""

    def __init__(
        self,
        task: Hosted,
        target: Target,
        owned: Owned,
        reporting: Reporting,
        consumer: Consumer,
        obey_seeks: Callable[[], bool],
    ) -> None:
        """`obey_seeks` begins the seeks that the writer has requested in `flush`."""
        self._task = task
        self._target = target
        self._owned = owned
        self._reporting = reporting
        self._consumer = consumer
        self._obey_seeks = obey_seeks
        self._in_flight: dict[int, tuple[float, dict[TopicPartition, int]]] = {}
        self._tickets = 0
        self._failure: str | None = None
        """Why the last flush failed."""
        self.refusal: str | None = None
        """Why Kafka has refused the last commit."""

    @property
    def in_flight(self) -> bool:
        return bool(self._in_flight)

    @property
    def refused_by_rebalance(self) -> bool:
        """Whether Kafka has refused the last commit because the group is rebalancing."""
        return self.refusal is not None and any(word in self.refusal for word in _REJOINING)

    def begin(self) -> bool:
        """Commits what is written, unless a commit is in flight; False if it should be retried
        soon. If a partition moves meanwhile, its new owner reads the records again."""
        if self._in_flight:
            return False
        partitions = self._owned.partitions
        if not self._owned.reached(partitions):
            return True
        with self._task.time.busy():
            if not self.settle(partitions):
                return False
        offsets = self._owned.due(partitions)
        if offsets:
            self._consumer.commit(self._ticket(offsets), offsets)
        return True

    def begin_last(self, partitions: Iterable[TopicPartition], left_ms: int) -> bool:
        """Commits what may be committed, without a flush; False if there is nothing."""
        offsets = self._owned.due(partitions)
        if offsets:
            self._consumer.commit(self._ticket(offsets), offsets, left_ms)
        return bool(offsets)

    def settle(self, partitions: Iterable[TopicPartition], *, revoked: bool = False) -> bool:
        """Flushes the writer, lets it finish partitions if they are revoked, and grants the offsets
        that it permits. False if it has to be tried again; then nothing is granted."""
        try:
            with self._target.called() as writer:
                writer.flush()
                self._obey_seeks()
                if revoked:
                    writer.revoked(frozenset(partitions), lost=False)
                written = self._owned.reached(partitions)
                offered = writer.pre_commit(dict(written)) if written else {}
        except Exception as error:
            before, self._failure = self._failure, str(error)
            problem = "flush failed, offsets are not committed"
            self._target.note_retry(problem, error, repeats=self._failure == before)
            return False
        self._failure = None
        self._reporting.flush()
        return self._owned.grant({at: offered[at] for at in offered.keys() & written.keys()})

    def release(self, partitions: frozenset[TopicPartition]) -> None:
        """Finishes revoked partitions, and passes their offsets to the consumer."""
        with self._task.time.busy():
            if not self.settle(partitions, revoked=True):
                with self._target.called() as writer:  # their next owner writes the records again
                    writer.revoked(partitions, lost=True)
        offsets = self._owned.due(partitions)
        self._owned.forget(partitions)
        self._consumer.released(self._ticket(offsets), offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """What is in flight of partitions does not count: they are read from elsewhere."""
        for _, offsets in self._in_flight.values():
            for at in partitions:
                offsets.pop(at, None)

    def end(self, event: CommitDone) -> bool:
        """Kafka has answered; False if it has refused the offsets."""
        began, offsets = self._in_flight.pop(event.ticket, (0.0, {}))
        if not offsets:
            return True
        ms = (time.monotonic() - began) * 1000
        self.refusal = event.error
        if event.error is not None:
            log.warning("failed to commit offsets: %s", event.error)
        else:
            self._task.interceptors.on_commit(offsets)
            self._owned.commit(offsets)
        ok = event.error is None
        self._task.say(OffsetsCommitted(self._task.id, ok, ms, len(self._owned.partitions)))
        return ok

    def _ticket(self, offsets: Mapping[TopicPartition, int]) -> int:
        self._tickets += 1
        if offsets:
            self._in_flight[self._tickets] = time.monotonic(), dict(offsets)
        return self._tickets
