"""The compacted log against a real topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from penstock.errors import Unavailable
from penstock.kafka.broker import BRIEF, Broker, free_port
from penstock.kafka.log import CompactedLog, Dropped, LogEntry
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

_TURNS: Final = 20


class Reader:
    """Opens logs on one topic and keeps what each received."""

    def __init__(self, topics: Topics, topic: str, partitions: int) -> None:
        self._topics = topics
        self.topic = topics.create(topic, partitions, cleanup_policy="compact")
        self._partitions = partitions
        self._open: list[CompactedLog] = []

    def open(self, received: list[LogEntry], bootstrap: str | None = None) -> CompactedLog:
        servers = bootstrap or self._topics.bootstrap
        client = {"bootstrap.servers": servers}

        def receive(entries: Sequence[LogEntry]) -> None:
            assert entries, "batches are not empty"
            received.extend(entries)

        log = CompactedLog(
            self.topic,
            self._partitions,
            consumer=client,
            producer=client,
            admin=self._topics.admin,
            receive=receive,
        )
        self._open.append(log)
        return log

    def close(self) -> None:
        for log in self._open:
            log.close()


@pytest.fixture
def reader(topics: Topics, unique: Callable[[str], str]) -> Iterator[Reader]:
    """Logs of one topic with one partition; closed at the end."""
    reader = Reader(topics, unique("log"), 1)
    yield reader
    reader.close()


def test_appended_records_are_received_in_order_with_their_offsets(reader: Reader) -> None:
    received: list[LogEntry] = []
    log = reader.open(received)
    log.start()
    assert received == []
    sent = [log.append(b"key", b"%d" % number) for number in range(5)]
    assert [future.result(30) for future in sent] == [(0, number) for number in range(5)]
    log.read_to_end(30)
    assert received == [LogEntry(0, number, b"key", b"%d" % number) for number in range(5)]


def test_appended_records_are_received_at_once(reader: Reader) -> None:
    received: list[LogEntry] = []
    log = reader.open(received)
    log.start()
    began = time.monotonic()
    for number in range(_TURNS):
        log.append(b"key", b"%d" % number).result(30)
        wait_until(lambda count=number + 1: len(received) == count, 30, "the record", poll_s=0.002)
    # A reader that waits for more before it delivers records takes 0.2 s for each.
    assert time.monotonic() - began < _TURNS * 0.1


def test_starting_receives_everything_there_was(reader: Reader) -> None:
    first: list[LogEntry] = []
    log = reader.open(first)
    log.start()
    log.append(b"a", b"1")
    log.append(b"b", None).result(30)
    log.close()

    again: list[LogEntry] = []
    reader.open(again).start()
    assert again == [LogEntry(0, 0, b"a", b"1"), LogEntry(0, 1, b"b", None)]


def test_reading_to_the_end_waits_for_what_others_appended(reader: Reader, topics: Topics) -> None:
    received: list[LogEntry] = []
    log = reader.open(received)
    log.start()
    topics.append(reader.topic, [b"%d" % number for number in range(500)], key=b"k")
    log.read_to_end(30)
    assert [entry.value for entry in received] == [b"%d" % number for number in range(500)]


def test_reading_an_empty_log_to_its_end_takes_no_records(reader: Reader) -> None:
    received: list[LogEntry] = []
    log = reader.open(received)
    log.start()
    log.read_to_end(10)
    assert received == []


def test_every_partition_is_read(topics: Topics, unique: Callable[[str], str]) -> None:
    reader = Reader(topics, unique("log"), 3)
    received: list[LogEntry] = []
    log = reader.open(received)
    try:
        log.start()
        for partition in range(3):
            topics.append(reader.topic, [b"x", None], key=b"k", partition=partition)
        log.read_to_end(30)
        assert sorted((entry.partition, entry.offset, entry.value) for entry in received) == [
            (partition, offset, value)
            for partition in range(3)
            for offset, value in enumerate([b"x", None])
        ]
    finally:
        reader.close()


def test_an_end_that_is_not_reached_in_time_is_an_error(reader: Reader, topics: Topics) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    log = reader.open([], bootstrap=nobody)  # the ends are known, but nothing can be read
    topics.append(reader.topic, [b"unreachable"], key=b"k")
    with pytest.raises(Unavailable, match=rf"Failed to read to the end of topic '{reader.topic}'"):
        log.start(1.0)


def test_a_closed_log_has_sent_what_was_appended(reader: Reader, topics: Topics) -> None:
    log = reader.open([])
    log.start()
    sent = log.append(b"last", b"words")
    log.close()
    assert sent.result(0) == (0, 0)
    assert topics.latest(reader.topic) == {b"last": b"words"}


def test_dropped_records_are_not_sent_any_more(reader: Reader) -> None:
    log = reader.open([], bootstrap=f"127.0.0.1:{free_port()}")
    log.open()
    sent = log.append(b"key", b"too late")
    log.drop()
    with pytest.raises(Dropped):
        sent.result(10)


def test_a_broker_that_goes_away_and_comes_back_is_read_on(
    tmp_path_factory: pytest.TempPathFactory, unique: Callable[[str], str]
) -> None:
    # A restart is faster if the old session expires sooner.
    quick = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    with Broker(tmp_path_factory.mktemp("own-broker"), settings=quick, java_options=[BRIEF]) as own:
        reader = Reader(Topics(own.bootstrap), unique("log"), 1)
        received: list[LogEntry] = []
        log = reader.open(received)
        try:
            log.start()
            log.append(b"k", b"before").result(30)
            own.stop()
            during = log.append(b"k", b"during")
            own.start()
            assert during.result(60) == (0, 1)
            log.read_to_end(60)
            assert [entry.value for entry in received] == [b"before", b"during"]
        finally:
            reader.close()
