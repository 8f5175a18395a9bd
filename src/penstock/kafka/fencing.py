"""Transactional writes, and fencing of other producers (KIP-618).

A producer that initialises its transactions fences every earlier producer with the same
transactional id and aborts its open transaction. Kafka's `fenceProducers` has the same effect;
librdkafka's admin client does not offer it, so fencing creates a producer for each id and discards
it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.errors import Unavailable
from penstock.kafka.clients import ClientSettings, idempotent

_INIT_S: Final = 30.0
_COMMIT_S: Final = 30.0
_AT_ONCE: Final = 8  # each is a separate client, with threads and connections

_BROKEN: Final = (KafkaException, SystemError)
"""Errors of a producer's calls; SystemError if the error occurred in a callback."""

Record = tuple[bytes, bytes | None]


def fence(
    settings: ClientSettings,
    ids: Iterable[str],
    *,
    wanted: Callable[[], bool] = lambda: True,
    timeout_s: float = _INIT_S,
) -> None:
    """Fences every producer of these transactional ids; returns when none can commit any more.

    Before each id it checks that this is still `wanted`, and raises Unavailable if not: fencing
    late would hit the current tasks. Raises Unavailable when Kafka refuses or does not answer
    within `timeout_s` per id.
    """

    def fence_one(name: str) -> None:
        if not wanted():
            raise Unavailable("Zombie fencing was superseded by a newer round.")
        try:
            _initialised(settings, name, timeout_s)
        except _BROKEN as error:
            raise Unavailable(f"Failed to fence the producer '{name}': {_reason(error)}") from error

    names = list(ids)
    with ThreadPoolExecutor(min(_AT_ONCE, len(names) or 1), thread_name_prefix="fence") as pool:
        for done in [pool.submit(fence_one, name) for name in names]:
            done.result()


class FencedWriter:
    """Writes to one topic in transactions, until another worker claims the transactional id.

    Not thread-safe. After any failure it has to be claimed again, which also aborts an unfinished
    transaction.
    """

    def __init__(self, topic: str, transactional_id: str, settings: ClientSettings) -> None:
        self._topic = topic
        self._id = transactional_id
        self._settings = settings
        self._producer: Producer | None = None

    def claim(self, timeout_s: float = _INIT_S) -> None:
        """Fences every earlier producer with the id. Raises Unavailable."""
        self.release()
        try:
            self._producer = _initialised(self._settings, self._id, timeout_s)
        except _BROKEN as error:
            raise Unavailable(
                "Failed to create and initialize fencable producer for config topic: "
                f"{_reason(error)}"
            ) from error

    def write(self, records: Sequence[Record], timeout_s: float = _COMMIT_S) -> int:
        """Writes the records in one transaction and returns the last offset. When it raises
        Unavailable, none of them is visible, unless only the response was lost."""
        producer = self._producer
        if producer is None:
            raise Unavailable(
                "Cannot produce to config topic without claiming write privileges first"
            )
        offsets: list[int] = []

        def stored(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)

        try:
            producer.begin_transaction()
            for key, value in records:
                producer.produce(self._topic, value, key, on_delivery=stored)
            producer.flush(timeout_s)
            producer.commit_transaction(timeout_s)
        except (BufferError, *_BROKEN) as error:
            self.release()
            raise Unavailable(
                f"Failed to perform fencable send to config topic: {_reason(error)}"
            ) from error
        return max(offsets)

    def release(self) -> None:
        """Discards the producer; the next claim, or the time-out, aborts its open transaction."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


Produce = Callable[[str, bytes, bytes | None], None]
"""Topic, key and value of one more record of a transaction."""


@contextlib.contextmanager
def transaction(
    settings: ClientSettings, transactional_id: str, timeout_s: float = _COMMIT_S
) -> Iterator[Produce]:
    """One transaction of a new producer, which fences all others with this id. What the block
    produces becomes visible together, or not at all. Raises Unavailable."""
    try:
        producer = _initialised(settings, transactional_id, timeout_s)
        producer.begin_transaction()
        yield lambda topic, key, value: producer.produce(topic, value, key)
        producer.flush(timeout_s)
        producer.commit_transaction(timeout_s)
    except (BufferError, *_BROKEN) as error:
        raise Unavailable(f"The transaction failed: {_reason(error)}") from error


def _initialised(settings: ClientSettings, transactional_id: str, timeout_s: float) -> Producer:
    """A producer with this id that has fenced all others. Raises KafkaException."""
    producer = Producer(
        {
            "log_level": 0,
            **idempotent(settings),
            "transactional.id": transactional_id,
        }
    )
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            producer.init_transactions(timeout_s)
            return producer
        except KafkaException as error:
            # The predecessor's transaction may still be aborting.
            if not error.args[0].retriable() or time.monotonic() >= deadline:
                raise


def _reason(error: Exception) -> str:
    return error.args[0].str() if isinstance(error, KafkaException) else str(error)
