"""Handles failed records: logs them, sends dead letters, or fails the task (KIP-298,
kafka-connect.md §7.3, §7.4).

Dead letters of a sink are the records as they were consumed, byte for byte. A source has no such
bytes (nothing was in Kafka yet), so its dead letters hold the record as the connector read it,
before transforms, as JSON with schemas; for a record that Kafka refused, the refused bytes.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from penstock.api import Failed, Use
from penstock.config.redaction import redacted
from penstock.convert.header import SimpleHeaderConverter
from penstock.convert.json import JsonConverter
from penstock.data.records import Column, Header, Records
from penstock.data.text import text
from penstock.errors import PenstockError
from penstock.flow.plan import DeadLetters, Tolerance
from penstock.flow.stage.pipeline import Failure, Stage
from penstock.flow.traces import message_of
from penstock.ids import TaskId
from penstock.kafka.topics import create_missing

log = logging.getLogger(__name__)  # a Python worker's standard error, and so the worker's log

_PREFIX: Final = "__connect.errors."
_BATCH_BYTES: Final = 16_384  # Java's default; a topic may accept no larger batches
_TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


class FatalFailure(PenstockError):
    """A task cannot continue; its status shows the message."""


class ConsumerFailed(PenstockError):
    """The task's consumer cannot continue."""

    def __init__(self, trace: str) -> None:
        """`trace` is a Java stack trace."""
        super().__init__(f"The task's consumer failed: {trace}")


class ToleranceExceeded(FatalFailure):
    """A record failed and `errors.tolerance` is `none`."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A failed record, as its dead letter stores it."""

    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    described: str  # for the log


class Original(Protocol):
    """The original of a record, by its place in the batch that was read."""

    def __call__(self, origin: int) -> Letter: ...


class Failures:
    """Reports the failures of one task in one Python worker; decides whether it may continue."""

    def __init__(self, task: TaskId, tolerance: Tolerance) -> None:
        self._task = task
        self._tolerance = tolerance
        self._producer: Producer | None = None  # created with the first dead letter
        self._lost_letters = 0
        self.loss: FatalFailure | None = None
        """Why a dead letter is lost, from then on."""

    def report(self, failures: Sequence[Failure], original: Original) -> None:
        """Logs failures and sends dead letters as configured. Then raises ToleranceExceeded if
        there are failures and they are not tolerated."""
        if not failures:
            return
        tolerance = self._tolerance
        if tolerance.log or tolerance.dead_letters is not None:
            for failure in failures:
                letter = original(failure.origin)
                if tolerance.log:
                    self._log(failure, letter)
                if tolerance.dead_letters is not None:
                    self._send(tolerance.dead_letters, failure, letter)
        if not tolerance.tolerate_all:
            first = failures[0]
            suffix = f" for {_place(original(first.origin))}"
            raise ToleranceExceeded(
                f"Tolerance exceeded in error handler: {describe(first, suffix)}"
            ) from first.cause

    def flush(self) -> int:
        """Waits until the dead letters are in Kafka; those it refuses are logged, and `loss` is
        set. Returns their number since the last call."""
        if self._producer is not None:
            self._producer.flush()
        lost, self._lost_letters = self._lost_letters, 0
        return lost

    def _log(self, failure: Failure, letter: Letter) -> None:
        """Describes records only with `errors.log.include.messages`: they may be confidential."""
        record = f", where {letter.described}" if self._tolerance.log_messages else ""
        log.error(
            "Error encountered in task %s. Executing stage '%s' with class '%s'%s.",
            self._task,
            failure.stage.value,
            failure.class_name,
            record,
            exc_info=failure.cause,
        )

    def _send(self, plan: DeadLetters, failure: Failure, letter: Letter) -> None:
        if self._producer is None:
            batches = {"batch.size": _BATCH_BYTES}
            self._producer = Producer({**batches, **plan.producer, "log_level": 3})
        headers = list(letter.headers)
        if plan.context_headers:
            headers += context_headers(self._task, failure, letter)
        message: dict[str, Any] = {"key": letter.key, "value": letter.value, "headers": headers}
        if letter.timestamp is not None and letter.timestamp >= 0:
            message["timestamp"] = letter.timestamp
        if plan.limits is not None:
            refusal = plan.limits.refusal(letter.key, letter.value, headers)
            if refusal is not None:
                self._lost(plan.topic, refusal)
                return
        while True:
            try:
                self._producer.produce(plan.topic, on_delivery=self._delivered, **message)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                self._lost(plan.topic, error)
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._lost(message.topic() or "", error)

    def _lost(self, topic: str, error: object) -> None:
        self._lost_letters += 1
        self.loss = self.loss or FatalFailure(
            f"Could not produce a message to the dead letter queue '{topic}' "
            "(errors.deadletterqueue.topic.name), so its record would be lost: "
            f"{error}. Let the queue take it, or remove the setting"
        )
        log.error("Could not produce message to dead letter queue. topic=%s: %s", topic, error)


def describe(failure: Failure, where: str = "") -> str:
    """The stage, class and cause of a failure; `where` follows the class."""
    summary = f"{failure.stage.value} failed in class {failure.class_name}{where}"
    return f"{summary}: {message_of(failure.cause)}"


def context_headers(
    task: TaskId, failure: Failure, letter: Letter
) -> list[tuple[str, bytes | None]]:
    """The context headers of a dead letter (kafka-connect.md §7.4). Texts are UTF-8."""
    cause = failure.cause
    exception_class = getattr(cause, "java_name", None) or _qualified(type(cause))
    details: list[tuple[str, str | None]] = [("topic", letter.topic)]
    if letter.partition is not None:
        details.append(("partition", str(letter.partition)))
    if letter.offset is not None:
        details.append(("offset", str(letter.offset)))
    details += [
        ("connector.name", task.connector),
        ("task.id", str(task.number)),
        ("stage", failure.stage.value),
        ("class.name", failure.class_name),
        ("exception.class.name", exception_class),
        ("exception.message", message_of(cause) if cause.args else None),
        (
            "exception.stacktrace",
            redacted(f"{exception_class}: {''.join(traceback.format_exception(cause))}"),
        ),
    ]
    return [
        (_PREFIX + name, None if detail is None else detail.encode("utf-8", "replace"))
        for name, detail in details
    ]


def _qualified(kind: type) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _place(letter: Letter) -> str:
    place = f"a record of topic '{letter.topic}'"
    if letter.offset is not None:
        place += f", partition {letter.partition}, offset {letter.offset}"
    return place


def consumed(raw: Records, timestamp_type: int = 0) -> Original:
    """The originals of a sink's batch: records as they were consumed, byte for byte."""
    kind = _TIMESTAMP_TYPES.get(timestamp_type, "NoTimestampType")

    def original(origin: int) -> Letter:
        topic, partition = raw.topics[origin], raw.partitions[origin]
        offset, timestamp = raw.offsets[origin], raw.timestamps[origin]
        return Letter(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp=timestamp,
            key=raw.keys.values[origin],
            value=raw.values.values[origin],
            headers=[(h.name, h.value) for h in raw.headers[origin]] if raw.headers else (),
            described=(
                f"consumed record is {{topic='{topic}', partition={partition}, offset={offset}, "
                f"timestamp={timestamp}, "
                f"timestampType={kind}}}"
            ),
        )

    return original


def read(records: Records) -> Original:
    """The originals of a source's batch: records as the connector read them, as JSON."""

    def original(origin: int) -> Letter:
        record = records.only([origin])
        topic = records.topics[origin]
        headers = record.headers[0] if record.headers else ()
        return Letter(
            topic=topic,
            partition=records.partitions[origin],
            offset=None,
            timestamp=records.timestamps[origin],
            key=_as_json(topic, record.keys),
            value=_as_json(topic, record.values),
            headers=[(header.name, _as_text(topic, header)) for header in headers],
            described=(
                f"source record is {{topic='{topic}', partition={records.partitions[origin]}, "
                f"timestamp={records.timestamps[origin]}}}"
            ),
        )

    return original


def _as_bytes(headers: Any) -> list[tuple[str, bytes | None]]:
    """Headers as `Message.headers` returns them; its types allow more than we ever send."""
    return [(name, cell) for name, cell in headers or ()]


def refused(message: Message) -> Letter:
    """A record that Kafka refused."""
    topic = message.topic() or ""
    return Letter(
        topic=topic,
        partition=None,
        offset=None,
        timestamp=None,
        key=message.key(),
        value=message.value(),
        headers=_as_bytes(message.headers()),
        described=f"source record is {{topic='{topic}'}}",
    )


_JSON: Final = JsonConverter(JsonConverter.plugin.config.parse({}), Use.VALUE)
_TEXT: Final = SimpleHeaderConverter(SimpleHeaderConverter.plugin.config.parse({}), Use.HEADER)


def _as_json(topic: str, column: Column) -> bytes | None:
    failed: Failed = {}
    cells = _JSON.from_connect([topic], column, failed)
    if not failed:
        return cells[0]
    return text(column.runs[0].schema, column.values[0]).encode("utf-8", "replace")


def _as_text(topic: str, header: Header) -> bytes | None:
    failed: Failed = {}
    cells = _TEXT.from_connect([topic], Column.of([header.value], header.schema), failed)
    return text(header.schema, header.value).encode("utf-8", "replace") if failed else cells[0]


def ensure_topic(plan: DeadLetters) -> None:
    """Creates the dead letter topic if it is missing: one partition. Raises FatalFailure."""
    try:
        create_missing(dict(plan.admin), plan.topic, 1, plan.replication)
    except KafkaException as error:
        raise FatalFailure(
            f"Could not initialize dead letter queue with topic={plan.topic} (setting "
            f"'errors.deadletterqueue.topic.name'): {error.args[0].str()}"
        ) from error


def produce_failure(class_name: str, cause: Exception) -> Failure:
    """The failure of a record that Kafka did not accept."""
    return Failure(0, Stage.KAFKA_PRODUCE, class_name, cause)
