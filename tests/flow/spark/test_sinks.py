"""Sink tasks on real slots: from a topic to a file, or to a slow target."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from pyspark import cloudpickle

from penstock.api import Failed, Plugin, Props, SinkConnector, SinkContext, SinkWriter
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.convert.json import JsonConverter
from penstock.convert.raw import ByteArrayConverter
from penstock.data.records import Records
from penstock.flow.plan import Tolerance
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FOLDER = Key("folder", STRING, importance=HIGH, doc="Where the gate and what passes it are.")


class GatedSink(SinkConnector):
    """Writes values in hexadecimal, but only once a file `open` exists."""

    plugin = Plugin("test.GatedSink", "1", ConfigDef(FOLDER))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SinkContext) -> SinkWriter:
        return GatedWriter(Path(config[FOLDER]))


class GatedWriter(SinkWriter):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, records: Records, failed: Failed) -> None:
        (self._folder / "waiting").touch()
        # Not `wait_until`: what travels with the plan brings its module's globals along.
        for _ in range(1200):
            if (self._folder / "open").exists():
                break
            threading.Event().wait(0.05)
        else:
            raise TimeoutError("nobody opened the gate")
        with (self._folder / "written").open("a") as out:
            out.writelines(f"{value.hex()}\n" for value in records.values.values)


def content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                return False  # the broker has only just started
            raise
        return True

    wait_until(committed, 30, "the group's coordinator to be ready")
    consumer.close()


def test_a_sink_reads_from_the_committed_offset_and_commits_what_it_wrote(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name, file = topics.create(unique("lines")), unique("snk"), tmp_path / "out.txt"
    topics.append(topic, [b"%d" % number for number in range(10)])
    commit(topics.bootstrap, f"connect-{name}", topic, 4)
    task = flow.start(flow.sink(name, topic, file))
    flow.await_done(task, 6)
    assert content(file) == "4\n5\n6\n7\n8\n9\n"
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 10}, 10, "offset 10")


def test_a_sink_that_was_stopped_continues_where_it_was(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name, file = topics.create(unique("lines")), unique("snk"), tmp_path / "out.txt"
    topics.append(topic, [b"before"])
    task = flow.start(flow.sink(name, topic, file))
    flow.await_done(task, 1)
    assert flow.stop(task)
    assert topics.committed(f"connect-{name}", topic) == {0: 1}
    topics.append(topic, [b"after", None])
    again = flow.start(flow.sink(name, topic, file))
    flow.await_done(again, 3)
    assert content(file) == "before\nafter\nnull\n"


def test_a_sink_may_begin_at_the_end_of_its_topic(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name, file = topics.create(unique("lines")), unique("snk"), tmp_path / "out.txt"
    topics.append(topic, [b"old"])
    task = flow.start(flow.sink(name, topic, file, consumer={"auto.offset.reset": "latest"}))
    appended: list[bytes] = []

    def one_arrives() -> bool:  # the consumer looks up the end meanwhile
        appended.append(b"new")
        topics.append(topic, [b"new"])
        return flow.done(task) > 0

    wait_until(one_arrives, 60, "a new record")
    assert "old" not in content(file)


def test_partitions_are_shared_when_a_second_member_joins_and_come_back_when_it_leaves(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines"), partitions=4), unique("snk")
    group, file = f"connect-{name}", tmp_path / "out.txt"

    def shares() -> list[int]:
        members = described(topics, name).members
        return sorted(len(member.assignment.topic_partitions) for member in members)

    def append(text: str) -> None:
        for partition in range(4):
            topics.append(topic, [f"{text}-{partition}".encode()], partition=partition)

    def expect(*texts: str) -> None:
        lines = sorted(f"{text}-{partition}" for text in texts for partition in range(4))
        wait_until(lambda: sorted(content(file).split()) == lines, 60, f"{lines} in the file")

    append("alone")
    flow.start(flow.sink(name, topic, file, task=0))
    expect("alone")
    second = flow.start(flow.sink(name, topic, file, task=1))
    wait_until(lambda: shares() == [2, 2], 60, "two partitions each")
    append("shared")
    expect("alone", "shared")
    flow.await_done(second, 2)
    assert flow.stop(second)
    assert flow.done(second) == 2
    wait_until(lambda: shares() == [4], 60, "the first to have all again")
    append("again")
    expect("alone", "shared", "again")
    wait_until(
        lambda: topics.committed(group, topic) == dict.fromkeys(range(4), 3), 10, "all committed"
    )


def test_a_task_that_is_stopped_while_it_joins_is_not_waited_for(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name, file = topics.create(unique("lines")), unique("snk"), tmp_path / "out.txt"
    # So that the first learns of the rebalance only after some seconds.
    slowly = {"heartbeat.interval.ms": "8000"}
    flow.start(flow.sink(name, topic, file, task=0, consumer=slowly))
    wait_until(lambda: group(topics, name) == (STABLE, 1), 60, "the first to be there")
    second = flow.start(flow.sink(name, topic, file, task=1, consumer=slowly))
    wait_until(lambda: group(topics, name) == (JOINING, 2), 6, "the second to wait for the first")
    began = time.monotonic()
    assert flow.stop(second)
    assert time.monotonic() - began < 5
    # Far less than the second's session of 45 s: once the first knows.
    wait_until(lambda: group(topics, name) == (STABLE, 1), 15, "the group to go on")


def test_a_task_may_be_stopped_at_any_moment_of_its_joining(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, name, file = topics.create(unique("lines"), 3), unique("snk"), tmp_path / "out.txt"
    quick = {"heartbeat.interval.ms": "100"}
    flow.start(flow.sink(name, topic, file, task=0, consumer=quick))
    wait_until(lambda: group(topics, name) == (STABLE, 1), 60, "the first to be there")
    for moment in range(16):
        second = flow.start(flow.sink(name, topic, file, task=1, consumer=quick))
        threading.Event().wait(0.025 * moment)
        began = time.monotonic()
        assert flow.stop(second)
        assert time.monotonic() - began < 5
        wait_until(lambda: group(topics, name) == (STABLE, 1), 10, "the first to be alone again")


def group(topics: Topics, sink: str) -> tuple[ConsumerGroupState, int]:
    """The state of a sink's group, and how many members it has."""
    found = described(topics, sink)
    return found.state, len(found.members)


def described(topics: Topics, sink: str) -> ConsumerGroupDescription:
    """The description of a sink's group, once it exists."""

    def answer() -> ConsumerGroupDescription | None:
        [found] = topics.admin.describe_consumer_groups([f"connect-{sink}"]).values()
        try:
            return found.result()
        except KafkaException:  # there is no such group yet, or its coordinator is starting
            return None

    return wait_until(answer, 30, "the group to be there")


STABLE = ConsumerGroupState.STABLE
JOINING = ConsumerGroupState.PREPARING_REBALANCING


@pytest.mark.parametrize("regex", [False, True])
def test_tasks_that_start_together_write_every_record_once(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path, regex: bool
) -> None:
    topic, name, file = topics.create(unique("lines"), partitions=4), unique("snk"), tmp_path / "o"
    for partition in range(4):
        topics.append(topic, [b"%d-%d" % (partition, at) for at in range(5)], partition=partition)
    both = [
        flow.sink(name, topic, file, task=task, regex=topic if regex else None) for task in range(2)
    ]
    tasks = [flow.start(plan) for plan in both]  # at first, one is assigned everything
    lines = sorted(f"{partition}-{at}" for partition in range(4) for at in range(5))
    wait_until(lambda: sum(map(flow.done, tasks)) >= 20, 60, "all records")
    assert sorted(content(file).split()) == lines


def test_new_topics_that_match_the_pattern_are_read(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    prefix, name, file = unique("pattern"), unique("snk"), tmp_path / "out.txt"
    topics.append(topics.create(f"{prefix}.one"), [b"first"])
    flow.start(flow.sink(name, "", file, regex=f"{prefix}\\.\\w+"))
    wait_until(lambda: content(file) == "first\n", 60, "the first topic")
    topics.append(topics.create(f"{prefix}.two"), [b"second"])
    wait_until(lambda: content(file) == "first\nsecond\n", 60, "the second topic")


BAD_JSON = [b'{"n":1}', b"{no json", b'{"n":2}']


def test_a_record_that_cannot_be_read_fails_the_task_and_says_which(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any, tmp_path: Path
) -> None:
    topic, name, file = topics.create(unique("json")), unique("snk"), tmp_path / "out.txt"
    topics.append(topic, BAD_JSON)
    value = converters(JsonConverter, schemas_enable="false")
    flow.start(flow.sink(name, topic, file, value=value))
    trace = flow.await_failure()
    assert (
        "Tolerance exceeded in error handler: VALUE_CONVERTER failed in class "
        "org.apache.kafka.connect.json.JsonConverter for a record of topic "
        f"'{topic}', partition 0, offset 1: Converting byte[] to Kafka Connect data failed due to "
        "serialization error" in trace
    )
    assert "org.apache.spark" not in trace
    assert content(file) == ""
    assert topics.committed(f"connect-{name}", topic) == {}


def test_a_task_that_failed_has_left_its_group(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("json")), unique("snk")
    topics.append(topic, BAD_JSON)
    value = converters(JsonConverter, schemas_enable="false")
    flow.start(flow.sink(name, topic, tmp_path / "out.txt", value=value))
    flow.await_failure()
    group = f"connect-{name}"
    assert topics.admin.describe_consumer_groups([group])[group].result().members == []


def test_the_neighbours_of_a_tolerated_record_arrive(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any, tmp_path: Path
) -> None:
    topic, name, file = topics.create(unique("json")), unique("snk"), tmp_path / "out.txt"
    topics.append(topic, BAD_JSON)
    value = converters(JsonConverter, schemas_enable="false")
    tolerance = Tolerance(tolerate_all=True)
    task = flow.start(flow.sink(name, topic, file, value=value, tolerance=tolerance))
    flow.await_done(task, 2)
    assert content(file) == "{n=1}\n{n=2}\n"  # as a Java map prints itself
    assert flow.counts.failed == 1
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 3}, 10, "offset 3")


JSON = [
    ("false", [b'{"a":[1,true,null]}', b'"text"', None], "{a=[1, true, null]}\ntext\nnull\n"),
    (
        "true",
        [
            b'{"schema":{"type":"struct","fields":[{"field":"a","type":"int32"}]},'
            b'"payload":{"a":7}}',
            b'{"schema":{"type":"string"},"payload":"text"}',
            None,
        ],
        "Struct{a=7}\ntext\nnull\n",
    ),
]


@pytest.mark.parametrize(("schemas", "cells", "expected"), JSON)
def test_json_is_read_with_and_without_schemas(
    flow: Any,
    topics: Topics,
    unique: Callable[[str], str],
    converters: Any,
    tmp_path: Path,
    schemas: str,
    cells: list[bytes | None],
    expected: str,
) -> None:
    topic, file = topics.create(unique("json")), tmp_path / "out.txt"
    topics.append(topic, cells)
    value = converters(JsonConverter, schemas_enable=schemas)
    task = flow.start(flow.sink(unique("snk"), topic, file, value=value))
    flow.await_done(task, 3)
    assert content(file) == expected


@pytest.fixture
def gated(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any, tmp_path: Path
) -> tuple[Any, str, str]:
    """A task whose target blocks it in the middle of a batch; its group and topic."""
    topic, name = topics.create(unique("cells")), unique("snk")
    topics.append(topic, [b"\x00\xff", b"\x01"])
    config = GatedSink.plugin.config.parse({"folder": str(tmp_path)})
    value = converters(ByteArrayConverter)
    task = flow.start(flow.sink(name, topic, connector=GatedSink, config=config, value=value))
    wait_until(lambda: (tmp_path / "waiting").exists(), 60, "the batch to be with the target")
    return task, f"connect-{name}", topic


def test_a_task_that_was_removed_from_its_group_joins_again_and_reads_on(
    flow: Any, topics: Topics, gated: tuple[Any, str, str], tmp_path: Path
) -> None:
    _, group, topic = gated
    name = group.removeprefix("connect-")
    member = described(topics, name).members[0].member_id
    client = KafkaAdminClient(bootstrap_servers=topics.bootstrap)
    client.remove_group_members(group, [MemberToRemove(member_id=member)])
    client.close()

    def is_back() -> bool:
        members = described(topics, name).members
        return bool(members) and members[0].member_id != member and owned(members[0]) == [topic]

    wait_until(is_back, 30, "the task to have joined again")
    (tmp_path / "open").touch()
    wait_until(lambda: topics.committed(group, topic) == {0: 2}, 60, "both records to be done")
    assert set(content(tmp_path / "written").split()) == {"00ff", "01"}  # twice, if cut off late


def owned(member: MemberDescription) -> list[str]:
    return [place.topic for place in member.assignment.topic_partitions]


def test_a_stop_waits_for_the_batch_in_hand_and_commits_it(
    flow: Any, topics: Topics, gated: tuple[Any, str, str], tmp_path: Path
) -> None:
    task, group, topic = gated
    opener = threading.Timer(1.0, (tmp_path / "open").touch)
    opener.start()
    assert flow.stop(task, 30)
    opener.join()
    assert content(tmp_path / "written") == "00ff\n01\n"
    assert topics.committed(group, topic) == {0: 2}
    assert flow.done(task) == 2


def test_how_far_a_sink_is_behind_is_known_while_its_target_keeps_it_waiting(
    flow: Any, topics: Topics, gated: tuple[Any, str, str], tmp_path: Path
) -> None:
    task, _, topic = gated
    assert flow.standing(task).behind == {(topic, 0): 2}  # it began where the topic begins
    assert flow.standing(task).slot is not None
    wait_until(lambda: flow.standing(task).busy > 0.5, 10, "the task to count as busy")
    topics.append(topic, [b"\x02"])
    assert flow.standing(task).behind == {(topic, 0): 3}
    (tmp_path / "open").touch()
    wait_until(lambda: flow.standing(task).behind == {(topic, 0): 0}, 60, "nothing to be left")


def test_a_stop_cuts_off_a_batch_that_takes_too_long_and_commits_nothing_of_it(
    flow: Any, topics: Topics, gated: tuple[Any, str, str], tmp_path: Path
) -> None:
    task, group, topic = gated
    assert not flow.stop(task, 0.5)
    assert topics.committed(group, topic) == {}
    assert content(tmp_path / "written") == ""
    assert not flow.ended, "a task that was stopped has not failed"
