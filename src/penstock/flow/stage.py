"""The Python stage: what runs inside Spark's Python workers for every batch of a task.

A stage is a callable for `mapInArrow`: Arrow batches in, one small result row out per partition.
What is expensive to open (producers, writers, converters) is opened once per Python worker and task
run, and kept until the worker goes idle long enough for Spark to end it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.api import Converter, Failed, SourceReader
from penstock.data.records import Column, RecordError, Records, Stage
from penstock.errors import PenstockError
from penstock.flow.plan import FlowPlan, SinkPlan, SourcePlan, Tolerance
from penstock.ids import TaskId

log = logging.getLogger(__name__)  # a Python worker's standard error, and so the worker's log

RESULT: Final = pa.schema(
    [("records", pa.int64()), ("done", pa.int64()), ("failed", pa.int64()), ("topic", pa.string())]
)
"""What a stage reports per partition: records in, records that reached the other side, records
that were dropped because errors are tolerated, and one row per topic touched."""

RESULT_DDL: Final = "records long, done long, failed long, topic string"

_FLUSH_S: Final = 1.0  # short enough to notice a refusal soon
_TOPIC_TIMEOUT_S: Final = 60


class TaskFailed(PenstockError):
    """A task cannot go on; the message is the reason its status shows."""

    code = "task.failed"


class ToleranceExceeded(TaskFailed):
    """A record failed and `errors.tolerance` is `none`."""


@dataclass(frozen=True, slots=True)
class SourceStage:
    """Connect records out of Arrow batches, converted, produced and acknowledged."""

    plan: SourcePlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        producing = _open(self.plan, Producing)
        total = dropped = 0
        topics: dict[str, int] = {}
        for batch in batches:
            records = producing.reader.records(batch)
            total += len(records)
            dropped += producing.send(records, topics)
        producing.flush()
        yield _result(total, total - dropped, dropped, topics)


@dataclass(frozen=True, slots=True)
class SinkStage:
    """Kafka's bytes converted and written to the target; the target has them when it returns."""

    plan: SinkPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writing = _open(self.plan, Writing)
        total = dropped = 0
        topics: dict[str, int] = {}
        for batch in batches:
            total += batch.num_rows
            dropped += writing.write(batch, topics)
        yield _result(total, total - dropped, dropped, topics)


class Producing:
    """The open end of a source task in one Python worker."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        self.reader: SourceReader = plan.connector().open(plan.config)
        self._key = plan.key.build(is_key=True)
        self._value = plan.value.build(is_key=False)
        self._refused: list[tuple[str, KafkaError]] = []
        self._producer = Producer(
            {
                **plan.producer,
                "on_delivery": self._delivered,
                "delivery.report.only.error": True,
                "log_level": 3,
            }
        )
        self._known: set[str] = set()

    def send(self, records: Records, topics: dict[str, int]) -> int:
        """Queues every record that converts; the number of those that did not and are tolerated."""
        values = _from_connect(self._value, records, records.values, Stage.VALUE_CONVERTER)
        keys = _from_connect(self._key, records, records.keys, Stage.KEY_CONVERTER)
        failed = _judge(records, self._plan.tolerance)
        _log_tolerated(self._plan.task, records, self._plan.tolerance)
        for topic, rows in _by_topic(records.topics, failed):
            self._ensure(topic)
            topics[topic] = topics.get(topic, 0) + len(rows)
            self._queue(topic, rows, keys, values, records)
        return len(failed)

    def flush(self) -> None:
        """Waits until everything queued is acknowledged, however long Kafka is away; raises when
        something was refused."""
        while self._producer.flush(_FLUSH_S) and not self._refused:
            pass
        if self._refused:
            topic, error = self._refused[0]
            count, self._refused = len(self._refused), []
            raise TaskFailed(
                f"Unrecoverable exception from producer send callback: {count} records of task "
                f"{self._plan.task} were refused, the first for topic '{topic}': {error.str()}"
            )

    def close(self) -> None:
        """Drops what is still queued; nothing of it was reported as done."""
        self._producer.purge()

    def _queue(
        self,
        topic: str,
        rows: range | list[int],
        keys: list[bytes | None],
        values: list[bytes | None],
        records: Records,
    ) -> None:
        if records.headers and any(records.headers):
            for row in rows:
                self._produce_one(topic, row, keys[row], values[row], records)
            return
        partitions, timestamps = records.partitions, records.timestamps
        messages: list[dict[str, Any]]
        if not any(keys) and not any(p is not None for p in partitions) and not any(timestamps):
            messages = [{"value": values[row]} for row in rows]
        else:
            messages = [
                _message(keys[row], values[row], partitions[row], timestamps[row]) for row in rows
            ]
        self._produce(topic, messages)

    def _produce(self, topic: str, messages: list[dict[str, Any]]) -> None:
        while messages:
            queued = self._producer.produce_batch(topic, messages)
            self._producer.poll(0)
            if queued == len(messages):
                return
            refused = [message for message in messages if "_error" in message]
            for message in refused:
                error: KafkaError = message.pop("_error")
                if error.code() != KafkaError._QUEUE_FULL:
                    raise TaskFailed(
                        f"Unrecoverable exception trying to send to '{topic}': {error.str()}"
                    )
            messages = refused
            self._producer.poll(0.1)  # the queue is full: let the broker catch up

    def _produce_one(
        self, topic: str, row: int, key: bytes | None, value: bytes | None, records: Records
    ) -> None:
        extra: dict[str, Any] = {
            name: cell
            for name, cell in (
                ("partition", records.partitions[row]),
                ("timestamp", records.timestamps[row]),
            )
            if cell is not None
        }
        while True:
            try:
                self._producer.produce(
                    topic, value, key, headers=list(records.headers[row]), **extra
                )
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise TaskFailed(
                    f"Unrecoverable exception trying to send to '{topic}': {error}"
                ) from error

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append((message.topic() or "", error))

    def _ensure(self, topic: str) -> None:
        """Creates `topic` when the plan says how and it is not there (reference §8.5)."""
        if topic in self._known:
            return
        groups = (group for group in self._plan.topic_groups if group.matches(topic))
        group = next(groups, None)
        if group is not None:
            admin = AdminClient(_admin_settings(self._plan.producer))
            if topic not in admin.list_topics(timeout=_TOPIC_TIMEOUT_S).topics:
                new = NewTopic(
                    topic, group.partitions, group.replication, config={**group.settings}
                )
                try:
                    admin.create_topics([new], request_timeout=_TOPIC_TIMEOUT_S)[topic].result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise TaskFailed(
                            f"Task failed to create new topic {topic}: {error}. Ensure that the "
                            "task is authorized to create topics or that the topic exists and "
                            "restart the task"
                        ) from error
        self._known.add(topic)


class Writing:
    """The open end of a sink task in one Python worker."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan
        self._writer = plan.connector().open(plan.config)
        self._key = plan.key.build(is_key=True)
        self._value = plan.value.build(is_key=False)

    def write(self, batch: pa.RecordBatch, topics: dict[str, int]) -> int:
        """Writes one batch; the number of records that failed and are tolerated."""
        names = _cells(batch, "topic")
        keys, values = _cells(batch, "key"), _cells(batch, "value")
        bad_keys: Failed = {}
        key_column = self._key.to_connect(names, keys, bad_keys)
        bad_values: Failed = {}
        value_column = self._value.to_connect(names, values, bad_values)
        records = Records(
            topics=names,
            partitions=_cells(batch, "partition"),
            timestamps=_cells(batch, "timestamp"),
            keys=key_column,
            values=value_column,
            offsets=_cells(batch, "offset"),
        )
        _add_errors(records, bad_keys, Stage.KEY_CONVERTER)
        _add_errors(records, bad_values, Stage.VALUE_CONVERTER)
        _judge(records, self._plan.tolerance)
        self._writer.write(records)
        for topic in set(names):
            topics[topic] = topics.get(topic, 0) + names.count(topic)
        failed = _judge(records, self._plan.tolerance)
        _log_tolerated(self._plan.task, records, self._plan.tolerance)
        return len(failed)

    def close(self) -> None:
        self._writer.close()


_OPENED: dict[TaskId, tuple[int, float, Any]] = {}
_IDLE_S: Final = 300.0


def _open(plan: FlowPlan, kind: Callable[[Any], Any]) -> Any:
    """The open end of a task in this Python worker, made when it is not there yet.

    Only one run of a task is kept: an older one has been stopped or given away. Others that were
    not used for a while are closed, so a worker does not collect the past.
    """
    now = time.monotonic()
    for task, (run, used, end) in list(_OPENED.items()):
        if now - used > _IDLE_S or (task == plan.task and run != plan.run):
            del _OPENED[task]
            end.close()
    known = _OPENED.get(plan.task)
    end = known[2] if known else kind(plan)
    _OPENED[plan.task] = (plan.run, now, end)
    return end


def _from_connect(
    converter: Converter, records: Records, column: Column, stage: Stage
) -> list[bytes | None]:
    failed: Failed = {}
    cells = converter.from_connect(records.topics, column, failed)
    _add_errors(records, failed, stage)
    return cells


def _add_errors(records: Records, failed: Failed, stage: Stage) -> None:
    seen = {error.row for error in records.errors}
    records.errors += [
        RecordError(row, stage, cause) for row, cause in failed.items() if row not in seen
    ]


def _judge(records: Records, tolerance: Tolerance) -> set[int]:
    """The rows that failed, all of them tolerated; raises when they are not to be."""
    if records.errors and not tolerance.tolerate_all:
        error = records.errors[0]
        raise ToleranceExceeded(
            f"Tolerance exceeded in error handler: {error.stage.value} failed for a record of "
            f"{_place(records, error)}: {error.cause}"
        ) from error.cause
    return {error.row for error in records.errors}


def _log_tolerated(task: TaskId, records: Records, tolerance: Tolerance) -> None:
    """Writes the failures to the worker's log, if `errors.log.enable`; which records they were
    only with `errors.log.include.messages`, for their place may be nobody's business."""
    if not tolerance.log:
        return
    for error in records.errors:
        where = f" of {_place(records, error)}" if tolerance.log_messages else ""
        log.error(
            "[%s] %s failed for a record%s, which is left out: %s",
            task,
            error.stage.value,
            where,
            error.cause,
        )


def _place(records: Records, error: RecordError) -> str:
    where = f"topic '{records.topics[error.row]}'"
    if records.offsets:
        where += f", partition {records.partitions[error.row]}"
        where += f", offset {records.offsets[error.row]}"
    return where


def _by_topic(topics: list[str], failed: set[int]) -> Iterator[tuple[str, range | list[int]]]:
    """Rows to send by topic, in order; without failures and with one topic it is all of them."""
    if not topics:
        return
    if not failed and topics.count(topics[0]) == len(topics):
        yield topics[0], range(len(topics))
        return
    rows: dict[str, list[int]] = {}
    for row, topic in enumerate(topics):
        if row not in failed:
            rows.setdefault(topic, []).append(row)
    yield from rows.items()


def _message(
    key: bytes | None, value: bytes | None, partition: int | None, timestamp: int | None
) -> dict[str, Any]:
    message: dict[str, Any] = {"value": value, "key": key}
    if partition is not None:
        message["partition"] = partition
    if timestamp is not None:
        message["timestamp"] = timestamp
    return message


def _cells(batch: pa.RecordBatch, name: str) -> list[Any]:
    column = batch.column(name)
    if pa.types.is_integer(column.type):
        return column.to_numpy().tolist()  # type: ignore[no-any-return]
    return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def _result(records: int, done: int, failed: int, topics: dict[str, int]) -> pa.RecordBatch:
    names = list(topics) or [""]
    first = [records] + [0] * (len(names) - 1)
    rows = [first, [done, *first[1:]], [failed, *first[1:]], names]
    return pa.RecordBatch.from_arrays(
        [pa.array(row, field.type) for row, field in zip(rows, RESULT, strict=True)], schema=RESULT
    )


def _admin_settings(producer: Any) -> dict[str, Any]:
    shared = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.id", "socket.")
    return {name: value for name, value in producer.items() if name.startswith(shared)}
