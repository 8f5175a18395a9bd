"""Converted records on their way to the producer."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from penstock.api import Acknowledged, TopicPartition
from penstock.data.records import Column, Records
from penstock.flow.plan import TopicGroup
from penstock.flow.stage import sending
from penstock.kafka.limits import ProducerLimits, too_large

TOPICS: list[tuple[list[str], list[tuple[str, list[int]]]]] = [
    ([], []),
    (["a", "a"], [("a", [0, 1])]),
    (["a", "b", "a"], [("a", [0, 2]), ("b", [1])]),
]


@pytest.mark.parametrize(("topics", "expected"), TOPICS)
def test_rows_are_grouped_by_topic_in_order(
    topics: list[str], expected: list[tuple[str, list[int]]]
) -> None:
    assert [(topic, list(rows)) for topic, rows in sending._by_topic(topics)] == expected


def records(
    keys: list[bytes | None],
    partitions: list[int | None],
    timestamps: list[int | None],
    contents: list[bytes] | None = None,
) -> Records:
    count = len(keys)
    values = Column.of(list(contents or [b"v"] * count), None)
    return Records(["t"] * count, partitions, timestamps, Column.of(list(keys), None), values)


def a_sender(
    limits: ProducerLimits | None = None, *, stops: bool = False, **settings: int
) -> sending.Sending:
    """One that needs no broker."""
    sender = object.__new__(sending.Sending)
    sender.producer = Producer({"log_level": 0, **settings})
    sender._most_bytes = settings.get("message.max.bytes", 1_000_000)
    sender._topics = sending.TopicCreation((), {})
    sender._topics._ensured |= {"t", "u"}
    sender._limits = limits
    sender._stops = stops
    sender.first_refused = None
    sender._introduced = True
    sender._seen = set()
    sender._refused = []
    sender._check = lambda: None
    return sender


def test_messages_say_only_what_is_known() -> None:
    bare = records([None, None], [None, None], [None, None])
    assert sending._messages(range(2), bare) == [{"value": b"v"}] * 2


@pytest.mark.parametrize(
    ("key", "partition", "timestamp", "message"),
    [
        (b"", None, None, {"key": b"", "value": b"v"}),
        (None, 0, None, {"key": None, "value": b"v", "partition": 0}),
        (None, None, 0, {"key": None, "value": b"v", "timestamp": 0}),
    ],
)
def test_empty_keys_and_zeros_are_not_taken_for_missing_ones(
    key: bytes | None, partition: int | None, timestamp: int | None, message: dict[str, object]
) -> None:
    one = records([key], [partition], [timestamp])
    assert sending._messages(range(1), one) == [message]


class Delivered:
    """As librdkafka reports a record that Kafka has."""

    def __init__(self, partition: int, offset: int, latency_s: float, topic: str = "t") -> None:
        self._told = partition, offset, latency_s
        self._topic = topic

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._told[0]

    def offset(self) -> int:
        return self._told[1]

    def latency(self) -> float:
        return self._told[2]


def test_acknowledged_polls_are_taken_once() -> None:
    made = object.__new__(sending.Sending)
    made._acknowledged, made._refused, made._seen = {}, [], {"t"}
    made._delivered(None, None, Delivered(0, 0, 0.0, "offsets"))  # type: ignore[arg-type]
    for partition, offset, latency_s in ((0, 7, 0.001), (0, 8, 0.003), (1, 0, 0.002)):
        made._delivered(None, None, Delivered(partition, offset, latency_s))  # type: ignore[arg-type]
    assert made.take_acknowledged() == {
        TopicPartition("t", 0): Acknowledged(2, 8, 4.0, 3.0),
        TopicPartition("t", 1): Acknowledged(1, 0, 2.0, 2.0),
    }
    assert made.take_acknowledged() == {}


@pytest.mark.parametrize("timestamp", [None, 5])
@pytest.mark.parametrize("stops", [True, False])
def test_nothing_is_queued_after_a_record_that_is_too_large_unless_that_is_tolerated(
    stops: bool, timestamp: int | None
) -> None:
    sender = a_sender(stops=stops, **{"message.max.bytes": 1_000})
    values: list[Any] = [b"a", b"b", b"x" * 2_000, b"c", b"d"]
    batch = records([None] * 5, [None] * 5, [timestamp] * 5)
    batch.topics, batch.values = ["t", "u", "u", "t", "u"], Column.of(values, None)
    try:
        if stops:
            with pytest.raises(sending.RecordRefused) as refusal:
                sender.send(batch, 1)
            assert refusal.value.row == 2
            assert refusal.value.refused[0].value() == values[2]
            assert len(sender.producer) == 2
        else:
            assert sender.send(batch, 1) == {"t", "u"}
            assert [message.value() for message, _ in sender._refused] == [values[2]]
            assert len(sender.producer) == 4
    finally:
        sender.close()


@pytest.mark.parametrize("timestamps", [[None, None], [5, None], [5, 6]])
def test_records_are_queued_with_timestamps_and_without(timestamps: list[int | None]) -> None:
    # The client itself refuses what its batches cannot have; this needs no broker.
    sender = a_sender()
    try:
        assert sender.send(records([b"k", None], [None, None], timestamps)) == {"t"}
        assert len(sender.producer) == 2
    finally:
        sender.close()


@pytest.mark.parametrize("singly", [False, True])
def test_a_record_above_a_small_limit_is_refused_in_javas_words_and_the_others_are_queued(
    singly: bool,
) -> None:
    sender = a_sender(ProducerLimits(request_bytes=300, buffer_bytes=1 << 20))
    contents = [b"a", bytes(215), bytes(5_000)]
    batch = records([None] * 3, [None] * 3, [5, None, 5] if singly else [None] * 3, contents)
    try:
        sender.send(batch)
        assert len(sender.producer) == 1
    finally:
        sender.close()
    reasons = [error.str() for _, error in sender._refused]
    assert reasons == [too_large(301, 300), too_large(5_086, 300)]
    assert [len(message.value() or b"") for message, _ in sender._refused] == [215, 5_000]


@pytest.mark.parametrize("timestamp", [None, 5])
def test_a_record_that_the_producer_itself_refuses_is_refused_in_javas_words(
    timestamp: int | None,
) -> None:
    sender = a_sender(None, **{"message.max.bytes": 1_000})
    batch = records([None], [None], [timestamp], [bytes(5_000)])
    try:
        sender.send(batch)
    finally:
        sender.close()
    assert [error.str() for _, error in sender._refused] == [too_large(5_086, 1_000)]


GROUPS = [
    (TopicGroup(("a.*",), (), 1, 1, {}), "abc", True),
    (TopicGroup(("a.*",), (), 1, 1, {}), "xabc", False),  # the whole name has to match
    (TopicGroup(("a.*",), (".*c",), 1, 1, {}), "abc", False),
    (TopicGroup(("x", "a.*"), ("y",), 1, 1, {}), "abc", True),
    (TopicGroup((), (), 1, 1, {}), "abc", False),
]


@pytest.mark.parametrize(("group", "topic", "matches"), GROUPS)
def test_a_topic_group_takes_what_it_includes_and_does_not_exclude(
    group: TopicGroup, topic: str, matches: bool
) -> None:
    assert group.matches(topic) is matches
