"""The transactions of an exactly-once source task (KIP-618).

One transactional producer, created when the task is placed and never again, sends records and
offsets in one transaction: a producer that the task's next owner has fenced is not replaced.
"""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import KafkaException

from penstock.data.records import Records
from penstock.flow.plan import SourcePlan, Transactions
from penstock.flow.stage.failures import FatalFailure
from penstock.flow.stage.sending import Sending

log = logging.getLogger(__name__)

_INIT_S: Final = 60
_END_S: Final = 60
_ABORT_S: Final = 10


class Transacting:
    """The current transaction of a task; for the task's thread."""

    def __init__(self, plan: SourcePlan, transactions: Transactions, sending: Sending) -> None:
        self._plan = plan
        self._sending = sending
        self.offsets_topic = transactions.offsets_topic
        self._is_open = False

    def init(self) -> None:
        """Fences the task's earlier producers. Raises FatalFailure."""
        try:
            self._sending.producer.init_transactions(_INIT_S)
        except (KafkaException, SystemError) as error:
            raise self.cannot("be given its transactional id", error) from error

    def begin(self) -> None:
        """Begins a transaction unless one is open."""
        if not self._is_open:
            self._sending.producer.begin_transaction()
            self._is_open = True

    def begin_for(self, records: Records) -> None:
        """Begins a transaction for records, unless one is open. Raises FatalFailure if they are for
        the task's own offsets topic."""
        self.begin()
        if self.offsets_topic in records.topics:
            raise FatalFailure(
                "Source tasks may not produce to their own offsets topics when exactly-once "
                f"support is enabled ('{self.offsets_topic}')"
            )

    def commit(self) -> None:
        self._sending.producer.commit_transaction(_END_S)
        self._is_open = False

    def abort(self) -> bool:
        """Aborts the open transaction, so that consumers need not wait for its timeout; False if
        there is none. That of a fenced or cut off task ends without us."""
        if not self._is_open:
            return False
        self._is_open = False
        try:
            self._sending.abort(_ABORT_S)
        except (KafkaException, SystemError, AttributeError) as error:  # or it no longer exists
            log.info("failed to abort the transaction: %s", error)
        return True

    def cannot(self, action: str, error: BaseException) -> FatalFailure:
        """Why the task cannot continue."""
        return FatalFailure(
            f"The task {self._plan.task} was unable to {action} before its producer transaction "
            "expired or another one took its place. It may be necessary to reconfigure this "
            f"connector ('producer.override.transaction.timeout.ms'): {error.__cause__ or error}"
        )
