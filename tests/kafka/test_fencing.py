"""Transactional ids against a real broker: who holds one, and who is fenced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import KafkaException, Producer

from penstock.errors import Unavailable
from penstock.kafka.broker import free_port
from penstock.kafka.fencing import FencedWriter, fence
from penstock.kafka.log import CompactedLog, LogEntry
from penstock.testing.topics import Topics


@pytest.fixture
def topic(topics: Topics, unique: Callable[[str], str]) -> str:
    """A compacted topic of one partition."""
    return topics.create(unique("fencing"), cleanup_policy="compact")


def writer(topics: Topics, topic: str) -> FencedWriter:
    return FencedWriter(topic, f"leader-of-{topic}", {"bootstrap.servers": topics.bootstrap})


def transactional(topics: Topics, name: str) -> Producer:
    """A producer of this transactional id, with a transaction open."""
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def test_a_group_of_records_is_one_transaction(topics: Topics, topic: str) -> None:
    leader = writer(topics, topic)
    leader.claim()
    assert leader.write([(b"a", b"1"), (b"b", None)]) == 1
    assert leader.write([(b"a", b"2")]) == 3, "the end of a transaction takes an offset, too"
    assert [(row.key, row.value) for row in topics.read(topic)] == [
        (b"a", b"1"),
        (b"b", None),
        (b"a", b"2"),
    ]


def test_a_leader_fences_those_before_it_until_they_claim_again(topics: Topics, topic: str) -> None:
    first, second = writer(topics, topic), writer(topics, topic)
    first.claim()
    first.write([(b"k", b"first")])
    second.claim()
    with pytest.raises(Unavailable, match="Failed to perform fencable send to config topic"):
        first.write([(b"k", b"too late")])
    with pytest.raises(Unavailable, match="without claiming write privileges first"):
        first.write([(b"k", b"still too late")])
    second.write([(b"k", b"second")])
    first.claim()
    first.write([(b"k", b"first again")])
    assert topics.values(topic) == [b"first", b"second", b"first again"]


def test_a_writer_must_claim_before_it_writes(topics: Topics, topic: str) -> None:
    with pytest.raises(Unavailable, match="without claiming write privileges first"):
        writer(topics, topic).write([(b"k", b"v")])


def test_fencing_ends_what_is_open_and_lets_nobody_commit(
    topics: Topics, topic: str, unique: Callable[[str], str]
) -> None:
    names = [unique(f"task-{number}") for number in range(10)]
    zombies = [transactional(topics, name) for name in names]
    for zombie in zombies:
        zombie.produce(topic, b"of a zombie", b"k")
        zombie.flush(30)
    settings = {"bootstrap.servers": topics.bootstrap}
    fence(settings, names)
    for zombie in zombies:
        with pytest.raises(KafkaException, match="fenced"):
            zombie.commit_transaction(30)
    successor = transactional(topics, names[0])
    successor.produce(topic, b"of its successor", b"k")
    successor.commit_transaction(30)
    assert topics.values(topic) == [b"of its successor"]


def test_ids_nobody_uses_are_fenced_all_the_same(
    topics: Topics, unique: Callable[[str], str]
) -> None:
    fence({"bootstrap.servers": topics.bootstrap}, [unique("nobody")])
    fence({"bootstrap.servers": topics.bootstrap}, [])


def test_a_round_that_is_not_wanted_any_more_hits_nobody(
    topics: Topics, topic: str, unique: Callable[[str], str]
) -> None:
    name = unique("task")
    producer = transactional(topics, name)
    with pytest.raises(Unavailable, match="superseded by a newer round"):
        fence({"bootstrap.servers": topics.bootstrap}, [name], wanted=lambda: False)
    producer.produce(topic, b"v", b"k")
    producer.commit_transaction(30)
    assert topics.values(topic) == [b"v"]


def test_a_broker_that_does_not_answer_is_an_error() -> None:
    nobody = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    with pytest.raises(Unavailable, match="Failed to fence the producer 'a-task'"):
        fence(nobody, ["a-task"], timeout_s=1.0)


def open_log(topics: Topics, topic: str, isolation: str, received: list[LogEntry]) -> CompactedLog:
    def receive(entries: Sequence[LogEntry]) -> None:
        received.extend(entries)

    client = {"bootstrap.servers": topics.bootstrap}
    return CompactedLog(
        topic,
        1,
        consumer={**client, "isolation.level": isolation},
        producer=client,
        admin=topics.admin,
        receive=receive,
    )


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_log_that_ends_in_a_transactions_end_is_read_to_its_end(
    topics: Topics, topic: str, isolation: str
) -> None:
    leader = writer(topics, topic)
    leader.claim()
    leader.write([(b"a", b"1"), (b"b", b"2")])
    received: list[LogEntry] = []
    log = open_log(topics, topic, isolation, received)
    try:
        log.start(20)
        assert [row.value for row in received] == [b"1", b"2"]
        leader.write([(b"a", b"3")])
        log.read_to_end(20)
        log.append(b"b", b"by anybody").result(20)
        log.read_to_end(20)
        assert [row.value for row in received[2:]] == [b"3", b"by anybody"]
    finally:
        log.close()


def test_an_open_transaction_is_waited_for_and_what_was_aborted_is_not_received(
    topics: Topics, topic: str, unique: Callable[[str], str]
) -> None:
    name = unique("open")
    dead = transactional(topics, name)
    dead.produce(topic, b"never committed", b"k")
    dead.flush(30)
    received: list[LogEntry] = []
    log = open_log(topics, topic, "read_committed", received)
    try:
        log.open()
        with pytest.raises(Unavailable, match="Failed to read to the end"):
            log.read_to_end(2)
        done = threading.Thread(
            target=fence, args=({"bootstrap.servers": topics.bootstrap}, [name])
        )
        done.start()
        log.read_to_end(30)
        done.join()
        assert received == []
    finally:
        log.close()
