"""Headers, transforms and failures, on real slots with a real broker."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark import cloudpickle

from penstock.api import (
    Failed,
    Plugin,
    Props,
    SinkConnector,
    SinkContext,
    SinkWriter,
    SourceOffset,
    Transform,
)
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.convert.json import JsonConverter
from penstock.data.records import Records
from penstock.errors import DataError, Unavailable
from penstock.flow.plan import DeadLetters, Tolerance, TransformPlan
from penstock.kafka import clients
from penstock.kafka.broker import Broker
from penstock.plugins.ref import PluginRef
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .words import NOTHING, RENAME, words

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FOLDER = Key("folder", STRING, importance=HIGH, doc="Where to write.")


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
    assert flow.counts.records == 3
    assert flow.counts.failed == 0
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
        transforms=(TransformPlan("fail", PluginRef.of(FailOnly), NOTHING),),
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
    assert flow.counts.failed == 2


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


@pytest.mark.parametrize("value", [b"poison", b"fail"])
def test_a_sink_does_not_commit_a_record_whose_dead_letter_is_refused(
    flow: Any,
    topics: Topics,
    broker: Broker,
    unique: Callable[[str], str],
    tmp_path: Path,
    value: bytes,
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    dead = topics.create(unique("dead"), max_message_bytes="100")  # too few for a letter
    topics.append(topic, [b"good", value])
    plan = flow.sink(
        name,
        topic,
        connector=Journal,
        config=Journal.plugin.config.parse({"folder": str(tmp_path)}),
        transforms=(TransformPlan("fail", PluginRef.of(FailOnly), NOTHING),),
        tolerance=Tolerance(tolerate_all=True, dead_letters=dead_letters(broker, dead)),
    )
    flow.start(plan)
    assert f"dead letter queue '{dead}' (errors.deadletterqueue.topic.name)" in flow.await_failure()
    assert topics.committed(f"connect-{name}", topic) == {}
    assert flow.counts.lost == 1


def test_a_record_kafka_refuses_costs_only_itself_when_tolerated(
    flow: Any, topics: Topics, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, dead, file = topics.create(unique("big")), unique("dead"), tmp_path / "in.txt"
    file.write_text("small\n" + "x" * 3_000_000 + "\nlast\n")
    tolerance = Tolerance(tolerate_all=True, dead_letters=dead_letters(broker, dead))
    plan = flow.source(unique("src"), topic, file, tolerance=tolerance)
    flow.await_done(flow.start(plan), 2)
    assert topics.values(topic) == [b"small", b"last"]
    assert flow.counts.failed == 1


def test_a_record_kafka_refuses_fails_the_task_otherwise(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = topics.create(unique("big")), tmp_path / "in.txt"
    file.write_text("small\n" + "x" * 3_000_000 + "\n")
    flow.start(flow.source(unique("src"), topic, file))
    trace = flow.await_failure()
    assert "Unrecoverable exception from producer send callback" in trace
    assert flow.stored == [[SourceOffset({"filename": str(file)}, {"position": 6})]]


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
