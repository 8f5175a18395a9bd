"""Transactions of source tasks, on real slots with a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaException, Producer

from penstock.flow.driver.ports import Beginning
from penstock.flow.plan import Boundary, Tolerance, Transactions
from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .steps import calls, following, step
from .words import RENAME, Second, words


def exactly_once(
    flow: Any, topics: Topics, unique: Callable[[str], str], boundary: Boundary, **more: Any
) -> tuple[Any, str, str]:
    """A plan, its topic, and the topic of its offsets."""
    topic, stored = (
        topics.create(unique("words"), 2, retention_ms="-1"),
        topics.create(unique("offsets")),
    )
    name = unique("src")
    plan = words(
        flow,
        topic,
        name,
        transactions=Transactions(boundary, 60_000, stored),
        producer={"transactional.id": name, "transaction.timeout.ms": "30000"},
        **more,
    )
    return plan, topic, stored


@pytest.mark.parametrize("boundary", [Boundary.POLL, Boundary.CONNECTOR])
def test_records_and_offsets_are_committed_together(
    flow: Any, topics: Topics, unique: Callable[[str], str], boundary: Boundary
) -> None:
    tolerance = Tolerance(tolerate_all=True)
    plan, topic, stored = exactly_once(
        flow, topics, unique, boundary, transforms=RENAME, tolerance=tolerance
    )
    flow.await_done(flow.start(plan), 7)
    assert sorted(filter(None, topics.values(topic))) == [
        f"word-{number}!".encode() for number in [0, 1, 2, 3, 6, 7, 8]
    ]
    rows = topics.read(stored)
    assert {row.key for row in rows} == {orjson.dumps([plan.task.connector, {"words": "all"}])}
    counts = [orjson.loads(row.value or b"") for row in rows]
    if boundary is Boundary.CONNECTOR:  # the others may have several polls in a transaction
        assert counts == [{"count": 3}, {"count": 6}, {"count": 9}]
    assert counts[-1] == {"count": 9}
    wait_until(lambda: flow.transactions, 10, "the transactions to be told of")
    assert [len(reported) for reported in flow.transactions] == [1] * len(rows)
    assert flow.stored == []
    assert flow.counts.records == 9
    assert flow.counts.failed == 1
    headers = {row.key: row.headers for row in topics.read(topic)}
    assert headers[b"k8"] == (("n", b"8"),)


def test_a_transaction_the_connector_throws_away_is_not_read_again(
    flow: Any, topics: Topics, unique: Callable[[str], str]
) -> None:
    plan, topic, stored = exactly_once(flow, topics, unique, Boundary.CONNECTOR, connector=Second)
    task = flow.start(plan)
    flow.await_done(task, 6)
    wait_until(lambda: len(flow.transactions) == 3, 10, "the transactions")
    assert flow.stop(task)
    assert sorted(row.key for row in topics.read(topic) if row.key) == [
        b"k%d" % number for number in [0, 1, 2, 6, 7, 8]
    ]
    assert [orjson.loads(row.value or b"") for row in topics.read(stored)] == [
        {"count": 3},
        {"count": 6},
        {"count": 9},
    ]
    assert flow.done(task) == 6


def transactional(
    flow: Any,
    topics: Topics,
    unique: Callable[[str], str],
    boundary: Boundary,
    folder: Path,
    *polls: Any,
    interval_ms: int = 60_000,
) -> tuple[Any, str, str]:
    """A plan that follows these steps, its topic, and the topic of its offsets."""
    topic, stored, name = (
        topics.create(unique("steps")),
        topics.create(unique("offsets")),
        unique("s"),
    )
    plan = flow.source(
        name,
        topic,
        transactions=Transactions(boundary, interval_ms, stored),
        producer={"transactional.id": name, "transaction.timeout.ms": "30000"},
        **following(topic, folder, *polls),
    )
    return plan, topic, stored


def test_a_connectors_transaction_goes_over_several_polls(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    polls = [
        {"values": ["a"]},
        {"values": ["b"], "transaction": "complete"},
        {"values": ["c"]},
        {"values": ["d"], "transaction": "aborted"},
        {"values": ["e"]},
        {"values": ["f"], "gate": "last", "transaction": "complete"},
    ]
    plan, topic, stored = transactional(flow, topics, unique, Boundary.CONNECTOR, tmp_path, *polls)
    task = flow.start(plan)
    wait_until(
        lambda: flow.ended or len(flow.transactions) == 2, 60, "a commit, and an abort's offsets"
    )
    assert not flow.ended, flow.ended[0].trace.text
    assert [orjson.loads(row.value or b"") for row in topics.read(stored)] == [
        {"step": 2},
        {"step": 4},
    ]
    (tmp_path / "last").touch()
    wait_until(lambda: len(flow.transactions) == 3, 10, "the last commit")
    assert topics.values(topic) == [b"a", b"b", b"e", b"f"]
    assert calls(tmp_path, "committed") == [["committed", at, at] for at in (2, 4, 6)]
    assert flow.stop(task)
    assert flow.done(task) == 4


@pytest.mark.parametrize("boundary", [Boundary.POLL, Boundary.INTERVAL, Boundary.CONNECTOR])
def test_a_stop_leaves_no_transaction_open_and_none_in_half(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path, boundary: Boundary
) -> None:
    polls = [
        {"values": ["a"], "transaction": "complete"},
        {"values": ["b"], "stored": False},
        {"values": ["c"], "gate": "third", "transaction": "complete"},
    ]
    plan, topic, stored = transactional(flow, topics, unique, boundary, tmp_path, *polls)
    task = flow.start(plan)
    wait_until(lambda: len(topics.read(topic, uncommitted=True)) == 2, 60, "what is open")
    assert flow.stop(task)
    reached = [step(offsets) for offsets in flow.transactions]
    values = topics.values(topic)
    assert (reached, values) in [([], []), ([1], [b"a"])]
    (tmp_path / "third").touch()
    soon = replace(plan, run=99, transactions=Transactions(boundary, 500, stored))
    flow.start(soon, flow.transactions[-1] if reached else ())
    wait_until(lambda: flow.transactions and step(flow.transactions[-1]) == 3, 30, "the last step")
    assert topics.values(topic) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("boundary", [Boundary.POLL, Boundary.INTERVAL])
def test_parts_are_in_one_transaction_and_a_stop_leaves_none_of_them(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path, boundary: Boundary
) -> None:
    polls = [{"parts": ["a,b", "c,gate-1,d"]}]
    plan, topic, _ = transactional(flow, topics, unique, boundary, tmp_path, *polls, interval_ms=1)
    task = flow.start(plan)
    wait_until(lambda: calls(tmp_path, "waits"), 60, "the second part to wait")
    assert flow.stop(task)
    assert topics.values(topic) == []
    assert flow.transactions == []
    (tmp_path / "gate-1").touch()
    flow.await_done(flow.start(replace(plan, run=99)), 4)
    assert topics.values(topic) == [b"a", b"b", b"c", b"d"]
    assert [step(offsets) for offsets in flow.transactions] == [1]


def test_a_commit_that_is_requested_ends_the_interval(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    polls = [{"values": ["a"]}, {"values": ["b"], "gate": "second", "commit": True}]
    plan, topic, _ = transactional(flow, topics, unique, Boundary.INTERVAL, tmp_path, *polls)
    flow.start(plan)
    wait_until(lambda: len(topics.read(topic, uncommitted=True)) == 1, 60, "the first record")
    assert flow.transactions == []
    (tmp_path / "second").touch()
    wait_until(lambda: flow.transactions, 10, "the commit")
    assert topics.values(topic) == [b"a", b"b"]


def test_another_start_of_a_task_fences_the_one_before(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """As when a disconnected worker still runs what another one has been assigned."""
    polls = [{"values": ["a"]}, {"values": ["b"], "gate": "second"}]
    plan, topic, _ = transactional(flow, topics, unique, Boundary.POLL, tmp_path, *polls)
    flow.await_done(flow.start(plan), 1)
    other = replace(plan, task=replace(plan.task, connector=unique("other")))
    flow.start(other, flow.transactions[-1])
    (tmp_path / "second").touch()
    assert f"The task {plan.task} was unable to" in flow.await_failure()
    wait_until(lambda: flow.done(other.task) == 1, 30, "the other one to go on")
    assert topics.values(topic) == [b"a", b"b"]
    assert [ended.task for ended in flow.ended] == [plan.task]


def test_a_task_whose_id_another_one_took_writes_no_more(
    flow: Any, topics: Topics, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, stored = topics.create(unique("lines")), topics.create(unique("offsets"))
    name, file = unique("src"), tmp_path / "in.txt"
    file.write_text("one\n")
    plan = flow.source(
        name,
        topic,
        file,
        transactions=Transactions(Boundary.POLL, 0, stored),
        producer={"transactional.id": name},
    )
    flow.await_done(flow.start(plan), 1)
    successor = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    successor.init_transactions(30)
    with file.open("a") as more:
        more.write("two\n")
    trace = flow.await_failure()
    assert f"The task {plan.task} was unable to" in trace
    assert topics.values(topic) == [b"one"]
    assert len(topics.read(stored)) == 1


def test_an_interval_waits_for_its_end_before_it_commits(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, stored = topics.create(unique("lines")), topics.create(unique("offsets"))
    name, file = unique("src"), tmp_path / "in.txt"
    file.write_text("one\n")
    plan = flow.source(
        name,
        topic,
        file,
        transactions=Transactions(Boundary.INTERVAL, 3_000, stored),
        producer={"transactional.id": name},
    )
    task = flow.start(plan)
    flow.await_done(task, 1)
    lines = [f"line {number}" for number in range(20)]
    with file.open("a", buffering=1) as more:
        for line in lines:
            more.write(f"{line}\n")
            threading.Event().wait(0.02)
    flow.await_done(task, 21)
    assert topics.values(topic) == [b"one", *[line.encode() for line in lines]]
    assert len(topics.read(stored)) <= 3


def test_records_for_the_tasks_own_offsets_topic_are_refused(
    flow: Any, topics: Topics, unique: Callable[[str], str]
) -> None:
    plan, topic, _ = exactly_once(flow, topics, unique, Boundary.POLL)
    own = replace(plan, transactions=Transactions(Boundary.POLL, 0, topic))
    flow.start(own)
    assert "may not produce to their own offsets topics" in flow.await_failure()
    assert topics.values(topic) == []


def test_a_start_that_is_called_off_writes_nothing(
    flow: Any, topics: Topics, unique: Callable[[str], str]
) -> None:
    plan, topic, _ = exactly_once(flow, topics, unique, Boundary.POLL)

    def begin() -> Beginning:
        raise KafkaException("not ours any more")

    with pytest.raises(KafkaException, match="not ours any more"):
        flow.tasks.start(plan, begin)
    assert topics.values(topic) == []
