"""Reports about the results of records, in other topics (connectors.md §12.1).

A sink cannot produce with the plugin API, so the reporter has its own producer, like the reporter
of Confluent's connector: the configuration names its brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.api import ConfigInvalid, PenstockError, Unavailable, kafka
from penstock.api.kafka import ClientSettings, Translated
from penstock.api.settings import invalid, prefixed
from penstock.connectors.http.client.messages import Answer, Request
from penstock.connectors.http.templates import Row, value_text

_FLUSH_S: Final = 30.0
_BATCH_BYTES: Final = 16_384  # Java's default; a topic may accept no larger batches


class Kind(Enum):
    """The format of reports."""

    CONFLUENT = "confluent"
    LENSES = "lenses"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic for reports. `producer`, `admin`: librdkafka's settings. `creates`: partitions and
    replication factor of a missing topic; None: it must exist."""

    name: str
    producer: ClientSettings = field(repr=False)
    admin: ClientSettings = field(default_factory=dict, repr=False)
    key_json: bool = True
    value_json: bool = True
    creates: tuple[int, int] | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class ReportPlan:
    """The topics of reports; None: no report."""

    results: Topic | None = None
    errors: Topic | None = None
    kind: Kind = Kind.CONFLUENT
    error_is_response: bool = False


class ReportLost(PenstockError):
    """Kafka does not accept a report, and would not accept it later."""


@dataclass(frozen=True, slots=True)
class _Report:
    topic: str
    key: bytes | None
    value: bytes
    headers: Sequence[tuple[str, bytes]]
    partition: int | None


def producer_settings(java: Mapping[str, str], prefix: str) -> ClientSettings:
    """The settings of Java's producer for ours. Raises ConfigInvalid, which names the setting, also
    if ours has no such setting."""
    translated = _translated(kafka.producer, java, prefix)
    if translated.ignored:
        text = "not supported for reports; remove it"
        raise ConfigInvalid(
            [invalid(prefix + name, java[name], text) for name in translated.ignored]
        )
    return translated.settings


def admin_settings(java: Mapping[str, str], prefix: str) -> ClientSettings:
    """The settings of the client that creates topics. Raises ConfigInvalid, which names the
    setting."""
    return _translated(kafka.admin, java, prefix).settings


def _translated(
    translate: Callable[[Mapping[str, str]], Translated], java: Mapping[str, str], prefix: str
) -> Translated:
    try:
        return translate(java)
    except ConfigInvalid as error:
        raise prefixed(error, prefix) from error


class Reporter:
    """Produces reports; `flush` waits until Kafka has acknowledged them. A report that Kafka does
    not accept now is produced again by the next `flush`; after one that it never accepts, every
    `flush` raises."""

    def __init__(self, plan: ReportPlan) -> None:
        self._plan = plan
        self._producers: dict[str, Any] = {}
        self._unsent: list[_Report] = []
        self._problem = ""
        self._loss: ReportLost | None = None
        for topic in (plan.results, plan.errors):
            if topic is None:
                continue
            if topic.creates is not None:
                _create(topic, *topic.creates)
            self._producers[topic.name] = Producer(
                {
                    "acks": "all",
                    "linger.ms": 20,
                    "batch.size": _BATCH_BYTES,
                    **topic.producer,
                    "log_level": 3,
                }
            )

    def taken(self, row: Row, request: Request, answer: Answer) -> None:
        """Reports a record that the server has accepted."""
        topic = self._plan.results
        if topic is None:
            return
        if self._plan.kind is Kind.LENSES:
            headers = [
                ("response_content", answer.body),
                ("response_status_code", str(answer.status).encode()),
            ]
            self._produce(topic, row, _lenses_headers(row) + headers, request.body or b"")
            return
        self._produce(topic, row, _position_headers(row), _value(topic, answer.text))

    def refused(self, row: Row, request: Request, answer: Answer | None, error: Exception) -> None:
        """Reports a record that was not delivered."""
        topic = self._plan.errors
        if topic is None:
            return
        if self._plan.kind is Kind.LENSES:
            headers = _lenses_headers(row)
            if answer is not None:
                headers.append(("response_content", answer.body))
                headers.append(("response_status_code", str(answer.status).encode()))
            headers.append(("error_message", str(error).encode()))
            self._produce(topic, row, headers, request.body or b"")
            return
        status = "null" if answer is None else str(answer.status)
        reason = "null" if answer is None else answer.reason
        content = "null" if answer is None else answer.text
        message = "null" if answer is not None else str(error)
        name = "null" if answer is not None else type(error).__name__
        details = [
            ("error_message", message),
            ("exception", name),
            ("response_content", content),
            ("status_code", status),
            ("payload", (request.body or b"").decode("utf-8", "replace")),
            ("reason_phrase", reason),
            ("url", request.url),
        ]
        text = (
            "Retry time lapsed, unable to process HTTP request. HTTP Response code: "
            f"{status}, Reason phrase: {reason}, Url: {request.url}, Response content: {content}, "
            f"Exception: {name}, Error message: {message}"
        )
        value = content if self._plan.error_is_response else text
        headers = _position_headers(row) + [(name, text.encode()) for name, text in details]
        self._produce(topic, row, headers, _value(topic, value))

    def flush(self) -> None:
        """Waits for all reports. Raises Unavailable if some have not reached Kafka yet; ReportLost
        if one never will."""
        deadline = time.monotonic() + _FLUSH_S
        unsent, self._unsent = self._unsent, []
        for report in unsent:
            self._send(report)
        for name, producer in self._producers.items():
            if producer.flush(max(0.0, deadline - time.monotonic())):
                raise Unavailable(
                    f"Reports to '{name}' did not reach Kafka within {_FLUSH_S:.0f} s"
                )
        if self._loss is not None:
            raise self._loss
        if self._unsent:
            raise Unavailable(f"A report did not reach Kafka: {self._problem}")

    def close(self) -> None:
        """Drops unflushed reports."""
        for producer in self._producers.values():
            producer.purge()
            producer.flush(1)

    def _produce(
        self, topic: Topic, row: Row, headers: Sequence[tuple[str, bytes]], value: bytes
    ) -> None:
        self._send(_Report(topic.name, _key(topic, row), value, headers, topic.partition))

    def _send(self, report: _Report) -> None:
        producer = self._producers[report.topic]
        options = {} if report.partition is None else {"partition": report.partition}
        while True:
            try:
                producer.produce(
                    report.topic,
                    value=report.value,
                    key=report.key,
                    headers=list(report.headers),
                    on_delivery=partial(self._delivered, report),
                    **options,
                )
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                self._delivered(report, error.args[0], None)
                return
            else:
                producer.poll(0)
                return

    def _delivered(self, report: _Report, error: Any, message: Any) -> None:
        if error is None:
            return
        if _may_pass(error):
            self._unsent.append(report)
            self._problem = str(error)
        else:
            self._loss = self._loss or ReportLost(
                f"Kafka does not accept a report to '{report.topic}' of {len(report.value)} bytes: "
                f"{error}. Change the topic's settings or ACLs, or report to another one"
            )


def _may_pass(error: KafkaError) -> bool:
    """Whether the same report may not get this error of a producer again."""
    local = (error._PURGE_INFLIGHT, error._UNKNOWN_TOPIC)
    return error.code() in local or kafka.is_retriable(error)


def _position_headers(row: Row) -> list[tuple[str, bytes]]:
    return [
        ("input_record_offset", str(row.offset).encode()),
        ("input_record_timestamp", str(row.timestamp).encode()),
        ("input_record_partition", str(row.partition).encode()),
        ("input_record_topic", row.topic.encode()),
    ]


def _lenses_headers(row: Row) -> list[tuple[str, bytes]]:
    return [
        ("input_topic", row.topic.encode()),
        ("input_partition", str(row.partition).encode()),
        ("input_offset", str(row.offset).encode()),
        ("input_timestamp", str(row.timestamp).encode()),
        ("input_key", (value_text(row.key_schema, row.key) or "").encode()),
        ("input_payload", (value_text(row.value_schema, row.value) or "").encode()),
    ]


def _value(topic: Topic, text: str) -> bytes:
    return orjson.dumps(text) if topic.value_json else text.encode()


def _key(topic: Topic, row: Row) -> bytes | None:
    if row.key is None:
        return None
    if isinstance(row.key, bytes):
        return row.key
    if isinstance(row.key, str):
        return orjson.dumps(row.key) if topic.key_json else row.key.encode()
    return repr(row.key).encode()


def _create(topic: Topic, partitions: int, replication: int) -> None:
    try:
        kafka.create_missing(topic.admin, topic.name, partitions, replication)
    except KafkaException as error:
        raise Unavailable(f"The topic '{topic.name}' cannot be created: {error}") from error
