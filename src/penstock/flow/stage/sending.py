"""Sends records to Kafka: the producer of a source task, and the topics it may create."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.api import Acknowledged
from penstock.data.records import Records
from penstock.flow.plan import Settings, SourcePlan, TopicGroup
from penstock.flow.stage.failures import FatalFailure
from penstock.ids import TopicPartition
from penstock.kafka import topics
from penstock.kafka.limits import ProducerLimits, record_bytes, too_large

log = logging.getLogger(__name__)

_FLUSH_S: Final = 1.0  # short enough to notice a refusal soon
_INTRODUCE_S: Final = 1.0
_MOST_BYTES: Final = 1_000_000  # librdkafka's default of message.max.bytes and batch.size
_BATCH_OVERHEAD: Final = 512
_OF_THE_CLIENT: Final = frozenset(
    {KafkaError._FATAL, KafkaError._FENCED, KafkaError._PURGE_QUEUE, KafkaError._STATE}
)
"""Errors that say nothing about the record they come with."""

Refused = tuple[Any, KafkaError]
"""A `Message` or `_Unsent`, and the reason."""

Report = Callable[[KafkaError | None, Any], None]


class BatchTooLarge(FatalFailure):
    """A topic refused a batch of records that it may accept in batches of `batch_bytes`. Java's
    producer would divide the batch; librdkafka does not."""

    def __init__(self, topic: str, most_bytes: int | None) -> None:
        self.batch_bytes = max(1, (most_bytes or 0) - _BATCH_OVERHEAD)
        limit = "" if most_bytes is None else f" of more than {most_bytes} bytes"
        super().__init__(
            f"Topic '{topic}' does not accept batches{limit} (max.message.bytes). Set "
            f"'producer.override.batch.size' to at most {self.batch_bytes}"
        )


class RecordRefused(Exception):
    """The producer did not accept a record, and no later one was sent."""

    def __init__(self, row: int, refused: Refused) -> None:
        super().__init__(refused[1].str())
        self.row = row
        self.refused = refused


class Sending:
    """A producer of converted records: keys, values and headers are bytes."""

    def __init__(self, plan: SourcePlan, check: Callable[[], None] = lambda: None) -> None:
        """`check` is called while waiting for Kafka, and ends the wait by raising."""
        self._check = check
        self._stops = not plan.tolerance.tolerate_all or plan.transactions is not None
        self._most_bytes = int(plan.producer.get("message.max.bytes", _MOST_BYTES))
        self._batch_bytes = int(plan.producer.get("batch.size", _MOST_BYTES))
        self.first_refused: int | None = None
        """The first poll since the last flush that a refused record is from."""
        self._topics = TopicCreation(plan.topic_groups, plan.admin)
        self._limits = plan.limits
        self._refused: list[Refused] = []
        self._introduced = False
        self._acknowledged: dict[TopicPartition, list[float]] = {}  # for interceptors
        self._seen: set[str] = set()  # topics of records, in contrast to internal ones
        self.producer = Producer(
            {
                **plan.producer,
                "on_delivery": partial(self._delivered, None),
                # Only interceptors need a delivery report for every record.
                "delivery.report.only.error": not plan.interceptors,
                "log_level": 3,
            }
        )

    def send(self, records: Records, poll: int | None = None) -> set[str]:
        """Queues all records, and returns their topics. Blocks while the queue is full. Unless
        refusals are tolerated, raises RecordRefused at the first record that the producer does not
        accept; `poll` counts the polls since the last flush."""
        # confluent-kafka's batches have neither headers nor timestamps.
        singly = any(records.headers) or records.timestamps.count(None) < len(records)
        report = partial(self._delivered, poll)
        if self._stops and (singly or self._may_be_too_large(records)):
            last: str | None = None
            for row, topic in enumerate(records.topics):
                if topic != last:
                    self._prepare(topic)
                    last = topic
                if self._limits is not None and (
                    refusal := _refusal(self._limits, topic, row, records)
                ):
                    raise RecordRefused(row, refusal)
                self._produce_one(topic, row, records, report)
            return set(records.topics)
        topics: set[str] = set()
        for topic, rows in _by_topic(records.topics):
            self._prepare(topic)
            topics.add(topic)
            if self._limits is not None:
                rows = self._small_enough(self._limits, topic, rows, records, report)
            if singly:
                for row in rows:
                    self._produce_one(topic, row, records, report)
            else:
                self._produce(topic, _messages(rows, records), report)
        return topics

    def _prepare(self, topic: str) -> None:
        self._topics.ensure(topic)
        if not self._introduced:
            self._introduce(topic)
        self._seen.add(topic)

    def _may_be_too_large(self, records: Records) -> bool:
        """Whether the producer may refuse a record for its size. A batch cannot be stopped there,
        so these records are produced one by one."""
        return self._limits is not None or any(
            max(map(len, filter(None, cells)), default=0) > self._most_bytes // 2
            for cells in (records.values.values, records.keys.values)
        )

    def _small_enough(
        self,
        limits: ProducerLimits,
        topic: str,
        rows: range | list[int],
        records: Records,
        report: Report,
    ) -> list[int]:
        """The rows that may be sent; the others are refused as Java's producer refuses them."""
        fitting = []
        for row in rows:
            refusal = _refusal(limits, topic, row, records)
            if refusal is None:
                fitting.append(row)
            else:
                message, error = refusal
                report(error, message)
                self._raise_if_broken()
        return fitting

    def send_row(self, topic: str, key: bytes, value: bytes | None) -> None:
        """Queues a record of an internal topic."""
        self.producer.produce(topic, value, key)

    def _introduce(self, topic: str) -> None:
        """Makes a new producer get its id at once. librdkafka requests one when it gets the
        cluster's metadata. The first time it usually has no connection for that, as it is switching
        from the bootstrap address to the broker's, and would retry after half a second; the second
        time it has one."""
        self._introduced = True
        with contextlib.suppress(KafkaException):  # Kafka is unreachable; `flush` waits for it
            for _ in range(2):
                self.producer.list_topics(topic, timeout=_INTRODUCE_S)

    def is_flushed(self, timeout_s: float) -> bool:
        """Waits until everything queued is acknowledged or refused; False if that takes longer."""
        return self.producer.flush(timeout_s) == 0

    def flush(self) -> list[Refused]:
        """Waits until everything queued is acknowledged or refused, however long Kafka is
        unavailable; returns the refused records. Raises FatalFailure when the producer itself
        cannot continue."""
        while self.producer.flush(_FLUSH_S):
            self._check()
            self._raise_if_broken()
        self._raise_if_broken()
        refused, self._refused = self._refused, []
        self._check_batches(refused)
        return refused

    def _check_batches(self, refused: list[Refused]) -> None:
        """Raises BatchTooLarge if records were refused because of the batch that they were in."""
        topics = {
            message.topic() or ""
            for message, error in refused
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and not isinstance(message, _Unsent)
        }
        for topic in topics:
            most_bytes = self._topics.max_message_bytes(topic)
            too_narrow = BatchTooLarge(topic, most_bytes)
            if too_narrow.batch_bytes < self._batch_bytes:
                raise too_narrow

    def abort(self, timeout_s: float) -> None:
        """Aborts the open transaction; its delivery reports no longer count. Drops queued records,
        but none in flight, or the next transaction would fail."""
        self.producer.abort_transaction(timeout_s)
        self.producer.poll(0)
        self._refused = []
        self.first_refused = None
        self._acknowledged = {}

    def drop(self) -> None:
        """Drops records that are queued and not in flight. Thread-safe."""
        producer = getattr(self, "producer", None)
        if producer is not None:
            producer.purge(in_flight=False)

    def close(self) -> None:
        """Drops queued records, none of which was reported as done, and the producer."""
        if hasattr(self, "producer"):
            self.producer.purge()
            del self.producer  # its threads and connections end with it

    def _raise_if_broken(self) -> None:
        for _, error in self._refused:
            if error.fatal() or error.code() in _OF_THE_CLIENT:
                raise FatalFailure(
                    f"Unrecoverable exception from producer send callback: {error.str()}"
                )

    def _produce(self, topic: str, messages: list[dict[str, Any]], report: Report) -> None:
        while messages:
            queued = self.producer.produce_batch(topic, messages, on_delivery=report)
            self.producer.poll(0)
            if queued == len(messages):
                return
            full = []
            for message in [message for message in messages if "_error" in message]:
                error: KafkaError = message.pop("_error")
                unsent = _Unsent(topic, message)
                if error.code() == KafkaError._QUEUE_FULL:
                    full.append(message)
                else:
                    report(self._in_javas_words(error, unsent), unsent)
                    self._raise_if_broken()
            messages = full
            if messages:
                self._check()
                self.producer.poll(0.1)  # let the broker catch up

    def _produce_one(self, topic: str, row: int, records: Records, report: Report) -> None:
        key, value, headers = _parts(row, records)
        message = _message(key, value, records.partitions[row], records.timestamps[row])
        while True:
            try:
                self.producer.produce(topic, headers=headers, on_delivery=report, **message)
                self.producer.poll(0)
                return
            except BufferError:
                self._check()
                self.producer.poll(0.1)
            except KafkaException as error:
                unsent = _Unsent(topic, {**message, "headers": headers})
                self._refuse(row, unsent, error.args[0], report)
                return

    def _refuse(self, row: int, message: _Unsent, error: KafkaError, report: Report) -> None:
        """Refuses a record that the producer did not accept."""
        error = self._in_javas_words(error, message)
        if self._stops:
            raise RecordRefused(row, (message, error))
        report(error, message)
        self._raise_if_broken()

    def _in_javas_words(self, error: KafkaError, message: _Unsent) -> KafkaError:
        if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
            return error
        size = record_bytes(message.key(), message.value(), message.headers())
        return KafkaError(error.code(), too_large(size, self._most_bytes))

    def _delivered(self, poll: int | None, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._refused.append((message, error))
            if poll is not None and (self.first_refused is None or poll < self.first_refused):
                self.first_refused = poll
            return
        if message.topic() not in self._seen:
            return
        place = TopicPartition(message.topic() or "", message.partition() or 0)
        of = self._acknowledged.setdefault(place, [0, 0, 0.0, 0.0])
        ms = (message.latency() or 0.0) * 1000
        of[0] += 1
        of[1] = max(of[1], message.offset() or 0)
        of[2] += ms
        of[3] = max(of[3], ms)

    def take_acknowledged(self) -> dict[TopicPartition, Acknowledged]:
        """Acknowledged records since the last call, if the task has interceptors."""
        acknowledged, self._acknowledged = self._acknowledged, {}
        return {
            place: Acknowledged(int(records), int(offset), ms, most)
            for place, (records, offset, ms, most) in acknowledged.items()
        }


class _Unsent:
    """A record that the producer did not even queue, with the methods of a `Message`."""

    def __init__(self, topic: str, message: dict[str, Any]) -> None:
        self._topic = topic
        self._message = message

    def topic(self) -> str:
        return self._topic

    def key(self) -> bytes | None:
        return self._message.get("key")

    def value(self) -> bytes | None:
        return self._message.get("value")

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self._message.get("headers") or []


class TopicCreation:
    """Creates topics for the first record sent to them (kafka-connect.md §8.5)."""

    def __init__(self, groups: tuple[TopicGroup, ...], admin: Settings) -> None:
        """`admin`: the settings of the client that creates them, in librdkafka's names."""
        self._groups = groups
        self._settings = dict(admin)
        self._ensured: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Creates `topic` if it is missing and a group matches it. Raises FatalFailure."""
        if topic in self._ensured:
            return
        group = next((group for group in self._groups if group.matches(topic)), None)
        if group is not None:
            try:
                topics.create_missing(
                    self._settings, topic, group.partitions, group.replication, group.settings
                )
            except KafkaException as error:
                raise FatalFailure(_not_created(topic, group, error.args[0])) from error
        self._ensured.add(topic)

    def max_message_bytes(self, topic: str) -> int | None:
        """The size of the largest batch that a topic accepts; None if that cannot be read."""
        try:
            return topics.max_message_bytes(self._settings, topic)
        except (KafkaException, KeyError, ValueError) as error:
            log.info("failed to read max.message.bytes of topic '%s': %s", topic, error)
            return None


def _not_created(topic: str, group: TopicGroup, error: KafkaError) -> str:
    match error.code():
        case (
            KafkaError.TOPIC_AUTHORIZATION_FAILED
            | KafkaError.CLUSTER_AUTHORIZATION_FAILED
            | KafkaError.UNSUPPORTED_VERSION
        ):
            return (
                f"Task failed to create new topic {topic}. Ensure that the task is authorized to "
                f"create topics or that the topic exists and restart the task: {error.str()}"
            )
        case KafkaError._TIMED_OUT | KafkaError.REQUEST_TIMED_OUT | KafkaError._TRANSPORT:
            return f"Timed out while checking for or creating topic(s) '{topic}': {error.str()}"
        case _:
            return (
                f"Unable to create topic(s) '{topic}' with {group.partitions} partitions, "
                f"replication factor {group.replication} and settings {dict(group.settings)} "
                f"('topic.creation.*'): {error.str()}"
            )


def _by_topic(topics: list[str]) -> Iterator[tuple[str, range | list[int]]]:
    """Rows to send by topic, in order."""
    if not topics:
        return
    if topics.count(topics[0]) == len(topics):
        yield topics[0], range(len(topics))
        return
    rows: dict[str, list[int]] = {}
    for row, topic in enumerate(topics):
        rows.setdefault(topic, []).append(row)
    yield from rows.items()


def _messages(rows: range | list[int], records: Records) -> list[dict[str, Any]]:
    keys, values = records.keys.values, records.values.values
    partitions, timestamps = records.partitions, records.timestamps
    if (
        keys.count(None) == len(keys)
        and partitions.count(None) == len(partitions)
        and timestamps.count(None) == len(timestamps)
    ):
        return [{"value": values[row]} for row in rows]
    return [_message(keys[row], values[row], partitions[row], timestamps[row]) for row in rows]


def _parts(row: int, records: Records) -> tuple[bytes | None, bytes | None, list[Any]]:
    """Key, value and headers of a converted record."""
    headers = records.headers[row] if records.headers else ()
    return (
        records.keys.values[row],
        records.values.values[row],
        [(header.name, header.value) for header in headers],
    )


def _refusal(
    limits: ProducerLimits, topic: str, row: int, records: Records
) -> tuple[_Unsent, KafkaError] | None:
    """The record and the error, if Java's producer would refuse it."""
    key, value, headers = _parts(row, records)
    text = limits.refusal(key, value, headers)
    if text is None:
        return None
    message = _Unsent(topic, {"key": key, "value": value, "headers": headers})
    return message, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, text)


def _message(
    key: bytes | None, value: bytes | None, partition: int | None, timestamp: int | None
) -> dict[str, Any]:
    message: dict[str, Any] = {"value": value, "key": key}
    if partition is not None:
        message["partition"] = partition
    if timestamp is not None:
        message["timestamp"] = timestamp
    return message
