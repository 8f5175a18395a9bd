"""The contents of a broker's topics and groups, read by an independent client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.testing.waiting import wait_until

Cell = bytes | None

_READ_S: Final = 60.0
_RETRY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Stored:
    """One record of a topic."""

    partition: int
    offset: int
    key: Cell
    value: Cell
    timestamp: int | None = None
    headers: tuple[tuple[str, Cell], ...] = ()


class Topics:
    """The topics and groups of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    @cached_property
    def _producer(self) -> Producer:
        return Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0}
        )

    def create(self, topic: str, partitions: int = 1, **settings: str) -> str:
        """Creates a topic, and waits until the broker knows it; in the names of settings an
        underscore stands for a dot."""
        config = {name.replace("_", "."): text for name, text in settings.items()}
        new = NewTopic(topic, partitions, 1, config=config)
        self.admin.create_topics([new], operation_timeout=30)[topic].result()
        wait_until(lambda: len(self.ends(topic)) == partitions, 30, f"'{topic}' to be known")
        return topic

    def append(
        self,
        topic: str,
        values: Iterable[Cell],
        *,
        key: Cell = None,
        partition: int = -1,
        headers: Sequence[tuple[str, Cell]] = (),
    ) -> None:
        """Appends one record per value, and returns when all are stored."""
        producer = self._producer
        refused: list[str] = []

        def stored(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                refused.append(error.str())

        for value in values:
            while True:
                try:
                    producer.produce(
                        topic, value, key, partition, on_delivery=stored, headers=list(headers)
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        unsent = producer.flush(30)
        if unsent or refused:
            reason = f": {refused[0]}" if refused else ""
            raise KafkaException(
                f"{unsent} records were not stored, {len(refused)} were refused{reason}"
            )

    def names(self) -> set[str]:
        return set(self.admin.list_topics(timeout=30).topics)

    def ends(self, topic: str) -> dict[int, int]:
        """The offset after the last record of every partition; empty if there is no such topic."""
        deadline = time.monotonic() + _RETRY_S
        while True:
            try:
                return self._ends(topic)
            except KafkaException:  # a topic was just created, or a broker restarted
                if time.monotonic() > deadline:
                    raise
                threading.Event().wait(0.1)

    def _ends(self, topic: str) -> dict[int, int]:
        known = self.admin.list_topics(topic, timeout=30).topics.get(topic)
        if known is None or known.error is not None:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        specs = {TopicPartition(topic, number): latest for number in known.partitions}
        offsets = self.admin.list_offsets(specs, request_timeout=30)
        return {at.partition: int(row.result().offset) for at, row in offsets.items()}

    def count(self, topic: str) -> int:
        """How many records were ever written to the topic, transaction markers included."""
        return sum(self.ends(topic).values())

    def read(self, topic: str, *, uncommitted: bool = False) -> list[Stored]:
        """All records in the topic at this moment, in order per partition; those of uncommitted
        transactions only if `uncommitted`."""
        ends = {number: end for number, end in self.ends(topic).items() if end > 0}
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"reader-of-{topic}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted" if uncommitted else "read_committed",
                "log_level": 0,
            }
        )
        rows: list[Stored] = []
        try:
            # Offset 0, not OFFSET_BEGINNING: librdkafka takes half a second to look that up.
            consumer.assign([TopicPartition(topic, number, 0) for number in ends])
            deadline = time.monotonic() + _READ_S
            while ends:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"'{topic}' was not read to its end within {_READ_S:.0f} s")
                remaining = max(1, sum(ends.values()) - len(rows))
                for message in consumer.consume(min(remaining, 10_000), 0.1):
                    number, offset = message.partition() or 0, message.offset() or 0
                    if message.error() is None:
                        rows.append(_stored(message))
                        offset += 1
                    if offset >= ends.get(number, 0):
                        ends.pop(number, None)
        finally:
            consumer.close()
        return sorted(rows, key=lambda row: (row.partition, row.offset))

    def values(self, topic: str) -> list[Cell]:
        """The values of all records in the topic, in order per partition."""
        return [row.value for row in self.read(topic)]

    def latest(self, topic: str) -> dict[Cell, Cell]:
        """The last value of every key, tombstones included."""
        return {row.key: row.value for row in self.read(topic)}

    def settings(self, topic: str) -> Mapping[str, str]:
        """The topic's settings, defaults included."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self.admin.describe_configs([resource])[resource].result()
        return {name: entry.value for name, entry in entries.items()}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The committed offsets of a consumer group for a topic, by partition."""
        groups = [ConsumerGroupTopicPartitions(group)]
        answer = self.admin.list_consumer_group_offsets(groups, request_timeout=30)[group]
        rows: Sequence[TopicPartition] = answer.result().topic_partitions or []
        return {row.partition: row.offset for row in rows if row.topic == topic and row.offset >= 0}


def _stored(message: Message) -> Stored:
    kind, timestamp = message.timestamp()
    return Stored(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=message.key(),
        value=message.value(),
        timestamp=timestamp if kind else None,
        headers=tuple((name, cell) for name, cell in _pairs(message.headers())),
    )


def _pairs(headers: object) -> Iterable[tuple[str, Cell]]:
    return headers if isinstance(headers, list) else ()
