"""A compacted topic as a log: appends, and delivers everything in it, in order per partition.

An appended record counts only when it is read back; `append` returns its offset, so that a caller
can wait for that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.errors import Unavailable
from penstock.kafka.clients import ClientSettings

log = logging.getLogger(__name__)

_FETCH_S: Final = 0.2
_MOST: Final = 1000  # handed over at once
_RETRY_S: Final = 0.1
START_S: Final = 60.0
_CHECK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One record of the log."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Dropped(Unavailable):
    """The record was dropped before Kafka acknowledged it; it may be appended again."""


_DROPPED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


class CompactedLog:
    """One topic, read from its beginning and then followed, by one thread that calls `receive`.

    `receive` gets non-empty batches in order; it must not block for long.
    """

    def __init__(
        self,
        topic: str,
        partitions: int,
        *,
        consumer: ClientSettings,
        producer: ClientSettings,
        admin: AdminClient,
        receive: Callable[[Sequence[LogEntry]], None],
    ) -> None:
        self.topic = topic
        self._partitions = partitions
        self._receive = receive
        self._consumer = Consumer(
            {
                "log_level": 0,
                **consumer,
                "group.id": f"unused-{topic}",  # librdkafka requires one; nothing joins it
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # From offset 0, or where the log begins: librdkafka takes half a second to look up
                # where that is.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        self._producer = Producer({"log_level": 0, "linger.ms": 0, **producer})
        self._admin = admin
        self._position = dict.fromkeys(range(partitions), -1)  # the next offset, once known
        self._moved = threading.Condition()
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, name=f"log-{topic}", daemon=True)
        self._acks = threading.Thread(target=self._serve, name=f"acks-{topic}", daemon=True)

    def start(self, timeout_s: float = START_S) -> None:
        """Starts reading; returns when everything stored before the call has been received."""
        self.open()
        self.read_to_end(timeout_s)

    def open(self) -> None:
        """Starts reading; returns at once."""
        self._consumer.assign([TopicPartition(self.topic, n, 0) for n in range(self._partitions)])
        self._reader.start()
        self._acks.start()

    def append(self, key: bytes, value: bytes | None) -> Future[tuple[int, int]]:
        """Sends one record; the future holds its partition and offset once it is stored."""
        sent: Future[tuple[int, int]] = Future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                kind = Dropped if error.code() in _DROPPED else Unavailable
                text = f"Failed to append to topic '{self.topic}': {error.str()}"
                sent.set_exception(kind(text))
            else:
                sent.set_result((message.partition() or 0, message.offset() or 0))

        try:
            self._producer.produce(self.topic, value, key, on_delivery=delivered)
        except (BufferError, KafkaException) as error:
            sent.set_exception(Unavailable(f"Failed to append to topic '{self.topic}': {error}"))
        return sent

    def drop(self) -> None:
        """Drops every appended record that is not acknowledged: it is not sent any more, and its
        future raises Dropped. Kafka may have stored records that were sent already."""
        self._producer.purge()

    def read_to_end(self, timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
        """Returns when everything stored before the call has been received; raises Unavailable
        when that takes longer than `timeout_s`.

        With `isolation.level=read_committed` it also waits for open transactions. Meanwhile it
        calls `check` periodically, which ends the wait by raising.
        """
        deadline = time.monotonic() + timeout_s
        for number, end in self._ends(deadline).items():
            while not self._reached(number, end, min(_CHECK_S, deadline - time.monotonic())):
                check()
                if time.monotonic() >= deadline:
                    raise Unavailable(
                        f"Failed to read to the end of topic '{self.topic}' (offset {end} of "
                        f"partition {number}) within {timeout_s:.0f} s."
                    )

    def _reached(self, number: int, end: int, timeout_s: float) -> bool:
        with self._moved:
            return self._moved.wait_for(
                lambda: self._position[number] >= end or self._closing.is_set(),
                max(0.0, timeout_s),
            )

    def close(self, timeout_s: float = 5.0) -> None:
        """Flushes the producer, then stops reading."""
        self._producer.flush(timeout_s)
        self._closing.set()
        with self._moved:
            self._moved.notify_all()
        if self._reader.is_alive():
            self._reader.join(timeout_s)
            self._acks.join(timeout_s)
        self._consumer.close()

    def _ends(self, deadline: float) -> dict[int, int]:
        """The end offset of every partition, from the admin client: the consumer is busy."""
        requests = {
            TopicPartition(self.topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for number in range(self._partitions)
        }
        while True:
            try:
                answers = self._admin.list_offsets(requests, request_timeout=5.0)
                return {at.partition: int(row.result().offset) for at, row in answers.items()}
            except KafkaException as error:
                if time.monotonic() > deadline or self._closing.is_set():
                    raise Unavailable(
                        f"Failed to list the end offsets of topic '{self.topic}': {error}"
                    ) from error
                # A restarted broker refuses the known leader epoch; a metadata request renews it.
                with contextlib.suppress(KafkaException):
                    self._admin.list_topics(self.topic, timeout=5.0)
                self._closing.wait(_RETRY_S)

    def _read(self) -> None:
        while not self._closing.is_set():
            first = self._consumer.poll(_FETCH_S)
            if first is None:
                continue
            # With a time-out, `consume` would wait for all of them.
            messages = [first, *self._consumer.consume(_MOST, 0)]
            entries: list[LogEntry] = []
            ends: list[tuple[int, int]] = []
            for message in messages:
                error = message.error()
                if error is None:
                    number, offset = message.partition() or 0, message.offset() or 0
                    entries.append(LogEntry(number, offset, message.key(), message.value()))
                    ends.append((number, offset + 1))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends.append((message.partition() or 0, message.offset() or 0))
                else:
                    log.warning("failed to read topic '%s', retrying: %s", self.topic, error.str())
            if entries:
                self._receive(entries)
            if ends:
                with self._moved:
                    for number, position in ends:
                        self._position[number] = max(self._position[number], position)
                    self._moved.notify_all()

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)
