"""Headers, transforms, failures and transactions, on real slots with a real broker."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaException, Producer
from pyspark import cloudpickle

from penstock.api import (
    Failed,
    Plugin,
    Polled,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
    Transaction,
    Transform,
)
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.convert.json import JsonConverter
from penstock.data.records import Column, Header, Records
from penstock.data.schema import INT8, OPTIONAL_STRING
from penstock.data.schema import STRING as STRING_SCHEMA
from penstock.errors import DataError, Unavailable
from penstock.flow.driver.ports import Beginning
from penstock.flow.plan import Boundary, DeadLetters, Tolerance, Transactions, TransformPlan
from penstock.kafka import clients
from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .steps import calls, following, step

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FOLDER = Key("folder", STRING, importance=HIGH, doc="Where to write.")
TOPIC = Key("topic", STRING, importance=HIGH, doc="Where records go.")
NOTHING = ConfigDef().parse({})


class Journal(SinkConnector):
    """Writes records as JSON; rejects `poison`, and is unavailable while a file `away` exists."""

    plugin = Plugin("test.Journal", "1", ConfigDef(FOLDER), task_class="test.JournalTask")

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return JournalWriter(Path(config[FOLDER]))


class JournalWriter(SinkWriter):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, records: Records, failed: Failed) -> None:
        if (self._folder / "away").exists():
            (self._folder / "asked").touch()
            raise Unavailable("the target is away")
        with (self._folder / "journal").open("ab") as out:
            for row, value in enumerate(records.values.values):
                if value == "poison":
                    failed[row] = DataError("the target does not like it")
                    continue
                headers = records.headers[row] if records.headers else ()
                line = [value, records.topics[row], [[h.name, h.value] for h in headers]]
                out.write(orjson.dumps(line) + b"\n")


def journal(folder: Path) -> list[Any]:
    file = folder / "journal"
    return [orjson.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


class Rename(Transform):
    """Appends `!` to values; drops `drop`, fails for `fail`."""

    plugin = Plugin("test.Rename", "1", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        values = records.values.values
        failed |= {row: DataError("as told") for row, value in enumerate(values) if value == "fail"}
        kept = [row for row, value in enumerate(values) if value != "drop"]
        shouted = Column.of([value and f"{value}!" for value in values], OPTIONAL_STRING)
        return records.with_values(shouted).only(kept)


RENAME = (TransformPlan("rename", Rename, NOTHING),)


def dead_letters(broker: Broker, topic: str) -> DeadLetters:
    java = {"bootstrap.servers": broker.bootstrap}
    return DeadLetters(
        topic, 1, True, clients.producer(java).settings, clients.admin(java).settings
    )


def test_a_sink_gets_headers_with_schemas_and_what_transforms_left(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    headers = [("a", b"12"), ("a", b"true"), ("b", b"text"), ("c", None)]
    topics.append(topic, [b"one", b"drop"], headers=headers)
    topics.append(topic, [b"two"])
    config = Journal.plugin.config.parse({"folder": str(tmp_path)})
    plan = flow.sink(name, topic, connector=Journal, config=config, transforms=RENAME)
    task = flow.start(plan)
    flow.await_done(task, 2)
    assert journal(tmp_path) == [
        ["one!", topic, [["a", 12], ["a", True], ["b", "text"], ["c", None]]],
        ["two!", topic, []],
    ]
    assert sum(report.records for report in flow.reports) == 3
    assert sum(report.failed for report in flow.reports) == 0
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 3}, 20, "offset 3")


def test_failed_records_of_a_sink_go_to_the_dead_letter_topic_as_they_were_consumed(
    flow: Any, topics: Topics, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name, dead = topics.create(unique("lines")), unique("snk"), unique("dead")
    topics.append(topic, [b"good", b"poison", b"fail"], key=b"k", headers=[("h", b"x")])
    config = Journal.plugin.config.parse({"folder": str(tmp_path)})
    plan = flow.sink(
        name,
        topic,
        connector=Journal,
        config=config,
        transforms=(TransformPlan("fail", FailOnly, NOTHING),),
        tolerance=Tolerance(tolerate_all=True, dead_letters=dead_letters(broker, dead)),
    )
    flow.await_done(flow.start(plan), 1)
    assert [line[0] for line in journal(tmp_path)] == ["good"]
    letters = {row.value: row for row in topics.read(dead)}
    assert set(letters) == {b"poison", b"fail"}
    for value, stage, class_name, offset in (
        (b"poison", b"TASK_PUT", b"test.JournalTask", b"1"),
        (b"fail", b"TRANSFORMATION", b"test.FailOnly", b"2"),
    ):
        letter = letters[value]
        reported = dict(letter.headers)
        assert (letter.key, letter.headers[0]) == (b"k", ("h", b"x"))
        assert reported["__connect.errors.topic"] == topic.encode()
        assert reported["__connect.errors.offset"] == offset
        assert reported["__connect.errors.stage"] == stage
        assert reported["__connect.errors.class.name"] == class_name
        assert reported["__connect.errors.connector.name"] == name.encode()
        assert (
            reported["__connect.errors.exception.class.name"]
            == b"org.apache.kafka.connect.errors.DataException"
        )
    assert sum(report.failed for report in flow.reports) == 2


class FailOnly(Transform):
    """Fails for `fail`."""

    plugin = Plugin("test.FailOnly", "1", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        values = records.values.values
        failed |= {row: DataError("as told") for row, value in enumerate(values) if value == "fail"}
        return records


def test_a_record_the_target_refuses_fails_the_task_unless_tolerated(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("lines"))
    topics.append(topic, [b"poison"])
    config = Journal.plugin.config.parse({"folder": str(tmp_path)})
    flow.start(flow.sink(unique("snk"), topic, connector=Journal, config=config))
    trace = flow.await_failure()
    assert (
        "Tolerance exceeded in error handler: TASK_PUT failed in class test.JournalTask for a "
        f"record of topic '{topic}', partition 0, offset 0: the target does not like it"
    ) in trace


def test_a_target_that_is_unreachable_gets_the_batch_again_in_order(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, [b"1", b"2", b"3"])
    (tmp_path / "away").touch()
    config = Journal.plugin.config.parse({"folder": str(tmp_path)})
    task = flow.start(flow.sink(name, topic, connector=Journal, config=config))
    wait_until((tmp_path / "asked").exists, 60, "the target to be asked")
    assert topics.committed(f"connect-{name}", topic) == {}
    (tmp_path / "away").unlink()
    flow.await_done(task, 3)
    assert [line[0] for line in journal(tmp_path)] == ["1", "2", "3"]
    assert not flow.ended


def test_a_stop_does_not_wait_for_a_target_that_is_unreachable(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, [b"1"])
    (tmp_path / "away").touch()
    config = Journal.plugin.config.parse({"folder": str(tmp_path)})
    task = flow.start(flow.sink(name, topic, connector=Journal, config=config))
    wait_until((tmp_path / "asked").exists, 60, "the target to be asked")
    assert flow.stop(task, 20)
    assert topics.committed(f"connect-{name}", topic) == {}
    assert journal(tmp_path) == []
    assert not flow.ended


class Slow(Journal):
    """Takes a second for every write."""

    plugin = Plugin("test.Slow", "1", ConfigDef(FOLDER))

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return SlowWriter(Path(config[FOLDER]))


class SlowWriter(JournalWriter):
    def write(self, records: Records, failed: Failed) -> None:
        super().write(records, failed)
        threading.Event().wait(1)


def test_a_stop_leaves_the_rest_of_a_large_batch_for_another_time(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines"), 2), unique("snk")
    for partition in (0, 1):
        topics.append(topic, [b"%d" % n for n in range(300_000)], partition=partition)
    config = Journal.plugin.config.parse({"folder": str(tmp_path)})
    task = flow.start(flow.sink(name, topic, connector=Slow, config=config))
    wait_until((tmp_path / "journal").exists, 60, "the first write")
    assert flow.stop(task, 30)
    reached = topics.committed(f"connect-{name}", topic)
    written = journal(tmp_path)
    assert 0 < sum(reached.values()) == len(written) < 600_000
    again = flow.start(flow.sink(name, topic, connector=Journal, config=config))
    flow.await_done(again, 600_000 - len(written))
    everything = [int(line[0]) for line in journal(tmp_path)]
    assert len(everything) == 600_000
    assert sorted(everything) == sorted([*range(300_000), *range(300_000)])


class Words(SourceConnector):
    """Sends the numbers 0 to 8 as words, three per poll, with all parts of a record."""

    plugin = Plugin("test.Words", "1", ConfigDef(TOPIC), task_class="test.WordsTask")

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return WordReader(config[TOPIC], context)


class WordReader(SourceReader):
    abort = -1

    def __init__(self, topic: str, context: SourceContext) -> None:
        self._topic = topic
        stored = context.stored_offset({"words": "all"})
        self._next = 0 if stored is None else int(stored["count"] or 0)

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        numbers = range(self._next, min(self._next + 3, 9))
        if not numbers:
            return None
        self._next = numbers.stop
        return Polled(
            Records(
                topics=[self._topic for _ in numbers],
                partitions=[number % 2 for number in numbers],
                timestamps=[1_000 + number for number in numbers],
                keys=Column.of([f"k{number}" for number in numbers], STRING_SCHEMA),
                values=Column.of([word(number) for number in numbers], STRING_SCHEMA),
                headers=[[Header("n", number, INT8)] if number else [] for number in numbers],
            ),
            [SourceOffset({"words": "all"}, {"count": numbers.stop})],
            Transaction.ABORTED if self.abort in numbers else Transaction.COMPLETE,
        )


def word(number: int) -> str:
    return {4: "drop", 5: "fail"}.get(number, f"word-{number}")


class Second(Words):
    """The same; the second transaction is aborted."""

    plugin = Plugin("test.Second", "1", ConfigDef(TOPIC))

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        reader = WordReader(config[TOPIC], context)
        reader.abort = 4
        return reader


def words(flow: Any, topic: str, name: str, **more: Any) -> Any:
    kind = more.pop("connector", Words)
    config = kind.plugin.config.parse({"topic": topic})
    return flow.source(name, topic, connector=kind, config=config, **more)


def test_a_source_record_has_its_partition_timestamp_key_and_headers(
    flow: Any, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = topics.create(unique("words"), 2, retention_ms="-1")
    flow.await_done(flow.start(words(flow, topic, unique("src"))), 9)
    rows = topics.read(topic)
    assert [(row.partition, row.key) for row in rows] == [
        (number % 2, b"k%d" % number) for number in [0, 2, 4, 6, 8, 1, 3, 5, 7]
    ]
    assert [row.timestamp for row in rows if row.partition == 1] == [1001, 1003, 1005, 1007]
    assert [row.headers for row in rows][:2] == [(), (("n", b"2"),)]


def test_failed_records_of_a_source_go_to_a_dead_letter_topic_too(
    flow: Any, topics: Topics, broker: Broker, unique: Callable[[str], str]
) -> None:
    # A letter has its record's timestamp, which is long past: Kafka might delete it.
    topic = topics.create(unique("words"), 2, retention_ms="-1")
    dead = topics.create(unique("dead"), retention_ms="-1")
    tolerance = Tolerance(tolerate_all=True, dead_letters=dead_letters(broker, dead))
    plan = words(flow, topic, unique("src"), transforms=RENAME, tolerance=tolerance)
    flow.await_done(flow.start(plan), 7)
    assert len(topics.values(topic)) == 7
    (letter,) = topics.read(dead)
    reported = dict(letter.headers)
    assert letter.value == b'{"schema":{"type":"string","optional":false},"payload":"fail"}'
    assert reported["n"] == b"5"
    assert reported["__connect.errors.stage"] == b"TRANSFORMATION"
    assert reported["__connect.errors.topic"] == topic.encode()
    wait_until(lambda: flow.stored, 10, "the offset to be stored")
    assert flow.stored[-1] == [SourceOffset({"words": "all"}, {"count": 9})]


def test_a_record_kafka_refuses_costs_only_itself_when_tolerated(
    flow: Any, topics: Topics, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, dead, file = topics.create(unique("big")), unique("dead"), tmp_path / "in.txt"
    file.write_text("small\n" + "x" * 3_000_000 + "\nlast\n")
    tolerance = Tolerance(tolerate_all=True, dead_letters=dead_letters(broker, dead))
    plan = flow.source(unique("src"), topic, file, tolerance=tolerance)
    flow.await_done(flow.start(plan), 2)
    assert topics.values(topic) == [b"small", b"last"]
    assert sum(report.failed for report in flow.reports) == 1


def test_a_record_kafka_refuses_fails_the_task_otherwise(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = topics.create(unique("big")), tmp_path / "in.txt"
    file.write_text("small\n" + "x" * 3_000_000 + "\n")
    flow.start(flow.source(unique("src"), topic, file))
    trace = flow.await_failure()
    assert "Unrecoverable exception from producer send callback" in trace
    assert flow.stored == []


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
    assert sum(report.records for report in flow.reports) == 9
    assert sum(report.failed for report in flow.reports) == 1
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


def test_json_with_headers_survives_both_ways(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any, tmp_path: Path
) -> None:
    topic = topics.create(unique("words"), 2, retention_ms="-1")
    json = converters(JsonConverter)
    flow.await_done(flow.start(words(flow, topic, unique("src"), value=json, header=json)), 9)
    config = Journal.plugin.config.parse({"folder": str(tmp_path)})
    sink = flow.sink(
        unique("snk"), topic, connector=Journal, config=config, value=json, header=json
    )
    flow.await_done(flow.start(sink), 9)
    assert [line for line in journal(tmp_path) if line[0] == "word-8"] == [
        ["word-8", topic, [["n", 8]]]
    ]
