"""How a sink's writer is called, and what it may request of the engine while it runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from pyspark import cloudpickle

from penstock.api import (
    Batching,
    DataError,
    Failed,
    Plugin,
    RecordRef,
    Records,
    TopicPartition,
    Transform,
)
from penstock.config.define import ConfigDef
from penstock.flow.plan import DeadLetters, Tolerance, TransformPlan
from penstock.kafka import clients
from penstock.kafka.broker import Broker
from penstock.plugins.ref import PluginRef
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .conftest import Flow
from .diaries import DiaryWriter, batches, calls, keeper, written

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Unique = Callable[[str], str]

NEVER_MS = 3_600_000


def values(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in numbers]


def test_a_writer_is_called_in_the_order_of_its_contract(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, values(0, 1, 2))
    plan = flow.sink(name, topic, commit_interval_ms=NEVER_MS, **keeper(DiaryWriter, tmp_path))
    task = flow.start(plan)
    flow.await_done(task, 3)
    assert flow.stop(task)
    found = calls(tmp_path)
    assert [call for call in found if call[0] != "write"] == [
        ["open"],
        ["assigned", [[0, 0]]],
        ["flush"],
        ["revoked", [0], False],
        ["pre_commit", [[0, 3]]],
        ["close"],
    ]
    assert [call[0] for call in found].index("write") == 2
    assert written(tmp_path) == ["0", "1", "2"]
    assert topics.committed(f"connect-{name}", topic) == {0: 3}


def test_partitions_that_another_task_takes_are_finished_and_committed_first(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines"), 2), unique("snk")
    for partition in range(2):
        topics.append(topic, values(0, 1), partition=partition)
    first, second = tmp_path / "first", tmp_path / "second"
    plan = flow.sink(name, topic, commit_interval_ms=NEVER_MS, **keeper(DiaryWriter, first))
    flow.await_done(flow.start(plan), 4)
    flow.start(flow.sink(name, topic, task=1, **keeper(DiaryWriter, second)))
    [_, [[moved, position]]] = wait_until(lambda: calls(second, "assigned"), 30, "a share")[0]
    assert position == 2
    reported = calls(first, "flush", "revoked", "pre_commit")
    assert reported == [["flush"], ["revoked", [moved], False], ["pre_commit", [[moved, 2]]]]
    assert topics.committed(f"connect-{name}", topic) == {moved: 2}
    for partition in range(2):
        topics.append(topic, values(2), partition=partition)
    wait_until(lambda: written(second), 10, "a record for the new owner")
    assert batches(second) == [[[moved, 2, "2"]]]


def test_partitions_that_are_lost_are_not_committed(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    group = f"connect-{name}"
    topics.append(topic, values(0, 1))
    plan = flow.sink(name, topic, commit_interval_ms=NEVER_MS, **keeper(DiaryWriter, tmp_path))
    flow.await_done(flow.start(plan), 2)
    [found] = topics.admin.describe_consumer_groups([group]).values()
    client = KafkaAdminClient(bootstrap_servers=topics.bootstrap)
    client.remove_group_members(group, [MemberToRemove(found.result().members[0].member_id)])
    client.close()
    wait_until(lambda: len(calls(tmp_path, "assigned")) == 2, 30, "the partition to come back")
    assert calls(tmp_path, "assigned", "revoked", "pre_commit", "flush") == [
        ["assigned", [[0, 0]]],
        ["revoked", [0], True],
        ["assigned", [[0, 0]]],
    ]
    wait_until(lambda: len(written(tmp_path)) == 4, 10, "the records to come again")
    assert written(tmp_path) == ["0", "1", "0", "1"]
    assert not flow.ended


class Idle(DiaryWriter):
    idle_ms = 100

    def idle(self) -> None:
        self.note("idle")


def test_idle_is_called_again_and_again_without_records_too(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic = topics.create(unique("lines"))
    flow.start(flow.sink(unique("snk"), topic, **keeper(Idle, tmp_path)))
    wait_until(lambda: len(calls(tmp_path, "idle")) >= 5, 30, "some calls")
    topics.append(topic, values(0))
    wait_until(lambda: written(tmp_path), 10, "the record")
    before = len(calls(tmp_path, "idle"))
    wait_until(lambda: len(calls(tmp_path, "idle")) >= before + 5, 10, "more calls")


class Threes(DiaryWriter):
    batching = Batching(records=3)


def test_a_batch_has_no_more_records_than_the_writer_wants(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic = topics.create(unique("lines"))
    topics.append(topic, values(*range(10)))
    flow.await_done(flow.start(flow.sink(unique("snk"), topic, **keeper(Threes, tmp_path))), 10)
    assert written(tmp_path) == [str(number) for number in range(10)]
    assert max(len(rows) for rows in batches(tmp_path)) == 3
    assert len(batches(tmp_path)) <= 7  # polls do not always return a multiple of three


class Patient(DiaryWriter):
    batching = Batching(records=4, linger_ms=NEVER_MS)


def test_a_batch_waits_until_it_is_full(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    task = flow.start(flow.sink(name, topic, **keeper(Patient, tmp_path)))
    for number in range(3):
        topics.append(topic, values(number))
    wait_until(lambda: flow.counts.records == 3, 10, "three to be read")
    assert batches(tmp_path) == []
    topics.append(topic, values(3))
    wait_until(lambda: batches(tmp_path), 10, "the batch")
    assert batches(tmp_path) == [[[0, at, str(at)] for at in range(4)]]
    topics.append(topic, values(4))
    wait_until(lambda: flow.counts.records == 5, 10, "one more")
    assert flow.stop(task)
    assert topics.committed(f"connect-{name}", topic) == {0: 4}  # the rest is redelivered


class Lingering(DiaryWriter):
    batching = Batching(records=100, linger_ms=1500)


def test_a_batch_that_is_not_full_is_written_after_its_time(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic = topics.create(unique("lines"))
    flow.start(flow.sink(unique("snk"), topic, **keeper(Lingering, tmp_path)))
    wait_until(lambda: calls(tmp_path, "assigned"), 30, "the assignment")
    for number in range(2):
        topics.append(topic, values(number))
    wait_until(lambda: batches(tmp_path), 10, "the batch")
    assert batches(tmp_path) == [[[0, 0, "0"], [0, 1, "1"]]]


class Mixed(DiaryWriter):
    batching = Batching(records=4, linger_ms=NEVER_MS, by_partition=False)


class Unmixed(DiaryWriter):
    batching = Batching(records=4, linger_ms=NEVER_MS)


@pytest.mark.parametrize("writer", [Mixed, Unmixed])
def test_a_batch_is_of_one_partition_unless_the_writer_does_not_mind(
    writer: Any, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines"), 2), unique("snk")
    task = flow.start(flow.sink(name, topic, **keeper(writer, tmp_path)))
    for partition in (0, 1):
        topics.append(topic, values(0, 1), partition=partition)
    flow.await_done(task, 4)
    found = [[row[0] for row in rows] for rows in batches(tmp_path)]
    if writer is Mixed:
        assert [sorted(rows) for rows in found] == [[0, 0, 1, 1]]
    else:
        assert sorted(found) == [[0, 0], [1, 1]]
    wait_until(
        lambda: topics.committed(f"connect-{name}", topic) == {0: 2, 1: 2}, 10, "all committed"
    )


class Pausing(DiaryWriter):
    """Pauses and resumes partition 0 when a record says so."""

    def write(self, records: Records, failed: Failed) -> None:
        super().write(records, failed)
        zero = [TopicPartition(records.topics[0], 0)]
        if "pause" in records.values.values:
            self.context.pause(zero)
        if "resume" in records.values.values:
            self.context.resume(zero)


def test_a_paused_partition_rests_until_it_is_resumed(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic = topics.create(unique("lines"), 2)
    flow.start(flow.sink(unique("snk"), topic, **keeper(Pausing, tmp_path)))

    def append(partition: int, value: bytes) -> None:
        topics.append(topic, [value], partition=partition)

    append(1, b"pause")
    wait_until(lambda: written(tmp_path) == ["pause"], 30, "the pause")
    append(0, b"waits")
    for number in range(3):
        append(1, b"%d" % number)
    wait_until(lambda: len(written(tmp_path)) == 4, 10, "the other partition's records")
    assert "waits" not in written(tmp_path)
    append(1, b"resume")
    wait_until(lambda: "waits" in written(tmp_path), 10, "the delivery to be resumed")
    assert not flow.ended


class Seeking(DiaryWriter):
    """Seeks to the offset that a record names, once."""

    batching = Batching(records=1)

    def write(self, records: Records, failed: Failed) -> None:
        super().write(records, failed)
        (value,) = records.values.values
        if str(value).startswith("to ") and not calls(self.folder, "sought"):
            self.note("sought")
            place = TopicPartition(records.topics[0], records.partitions[0] or 0)
            self.context.seek({place: int(str(value).removeprefix("to "))})


@pytest.mark.parametrize("target", [1, 6])
def test_a_writer_may_continue_elsewhere(
    target: int, flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, [*values(0, 1), b"to %d" % target, *values(*range(3, 10))])
    flow.start(flow.sink(name, topic, **keeper(Seeking, tmp_path)))
    wait_until(lambda: "9" in written(tmp_path), 30, "the last record")
    every = [row[1] for rows in batches(tmp_path) for row in rows]
    assert every == [0, 1, 2, *range(target, 10)]
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 10}, 10, "the commit")


def test_an_offset_that_was_sought_is_committed(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, values(*range(4)))
    first = flow.start(flow.sink(name, topic, **keeper(DiaryWriter, tmp_path / "first")))
    flow.await_done(first, 4)
    assert flow.stop(first)
    assert topics.committed(f"connect-{name}", topic) == {0: 4}

    class Back(DiaryWriter):
        def assigned(self, partitions: Mapping[TopicPartition, int]) -> None:
            super().assigned(partitions)
            self.context.seek(dict.fromkeys(partitions, 2))

        def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            return dict.fromkeys(reached, 2)

    flow.start(flow.sink(name, topic, **keeper(Back, tmp_path / "second")))
    wait_until(lambda: written(tmp_path / "second") == ["2", "3"], 30, "those records again")
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 2}, 10, "the commit")


class Requesting(DiaryWriter):
    def write(self, records: Records, failed: Failed) -> None:
        super().write(records, failed)
        if "commit" in records.values.values:
            self.context.request_commit()


def test_a_commit_that_is_requested_does_not_wait_for_its_interval(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, values(0))
    plan = flow.sink(name, topic, commit_interval_ms=NEVER_MS, **keeper(Requesting, tmp_path))
    flow.await_done(flow.start(plan), 1)
    assert topics.committed(f"connect-{name}", topic) == {}
    topics.append(topic, [b"commit"])
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 2}, 5, "the commit")
    wait_until(lambda: flow.commits, 5, "its report")
    assert [(commit.ok, commit.partitions) for commit in flow.commits] == [(True, 1)]


class Holding(DiaryWriter):
    """Commits partition 0 up to offset 3, and nothing else."""

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.note("pre_commit")
        return {at: min(3, offset) for at, offset in reached.items() if at.partition == 0}


def test_offsets_that_the_writer_holds_back_are_not_committed(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines"), 2), unique("snk")
    for partition in range(2):
        topics.append(topic, values(*range(5)), partition=partition)
    task = flow.start(flow.sink(name, topic, **keeper(Holding, tmp_path / "first")))
    flow.await_done(task, 10)
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 3}, 10, "a part")
    wait_until(lambda: len(calls(tmp_path / "first", "pre_commit")) >= 3, 10, "more commits")
    assert flow.stop(task)
    assert topics.committed(f"connect-{name}", topic) == {0: 3}
    again = flow.start(flow.sink(name, topic, **keeper(DiaryWriter, tmp_path / "second")))
    wait_until(lambda: len(written(tmp_path / "second")) == 7, 30, "the rest to come again")
    assert flow.stop(again)
    assert topics.committed(f"connect-{name}", topic) == {0: 5, 1: 5}
    rows = [tuple(row[:2]) for batch in batches(tmp_path / "second") for row in batch]
    assert sorted(rows) == [(0, 3), (0, 4), *((1, at) for at in range(5))]


class Late(DiaryWriter):
    """Reports `bad` records from another thread, long after `write` returned."""

    def write(self, records: Records, failed: Failed) -> None:
        super().write(records, failed)
        for row, value in enumerate(records.values.values):
            if value == "bad":
                ref = records.ref(row)
                threading.Timer(0.3, self._report, [ref]).start()

    def _report(self, ref: RecordRef) -> None:
        try:
            self.context.report(ref, DataError("refused late"))
        except Exception as error:
            self.note("raised", type(error).__name__)

    def pre_commit(self, reached: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return reached


def test_a_record_that_is_reported_late_becomes_a_dead_letter(
    flow: Flow, topics: Topics, broker: Broker, unique: Unique, tmp_path: Path
) -> None:
    topic, name, dead = topics.create(unique("lines")), unique("snk"), topics.create(unique("dead"))
    java = {"bootstrap.servers": broker.bootstrap}
    letters = DeadLetters(
        dead, 1, True, clients.producer(java).settings, clients.admin(java).settings
    )
    tolerance = Tolerance(tolerate_all=True, dead_letters=letters)
    topics.append(topic, [b"0", b"bad", b"2"])
    task = flow.start(flow.sink(name, topic, tolerance=tolerance, **keeper(Late, tmp_path)))
    wait_until(lambda: topics.count(dead) == 1, 30, "the letter")
    [letter] = topics.read(dead)
    reported = dict(letter.headers)
    assert letter.value == b"bad"
    assert reported["__connect.errors.offset"] == b"1"
    assert reported["__connect.errors.stage"] == b"TASK_PUT"
    assert reported["__connect.errors.exception.message"] == b"refused late"
    wait_until(lambda: flow.counts.failed == 1, 10, "the report")
    assert flow.done(task) == 2
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 3}, 10, "all committed")
    assert not flow.ended


def test_after_a_record_that_is_reported_late_and_not_tolerated_nothing_more_is_committed(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, [b"0", b"bad", b"2"])
    plan = flow.sink(name, topic, commit_interval_ms=NEVER_MS, **keeper(Late, tmp_path))
    flow.start(plan)
    trace = flow.await_failure()
    assert "Tolerance exceeded in error handler: TASK_PUT failed in class" in trace
    assert f"a record of topic '{topic}', partition 0, offset 1: refused late" in trace
    assert topics.committed(f"connect-{name}", topic) == {}
    assert calls(tmp_path, "raised") == [["raised", "ToleranceExceeded"]]
    assert not calls(tmp_path, "flush"), "the writer may have more to report"


class Together(Late):
    """The same, with batches of several partitions, made of several chunks."""

    batching = Batching(records=6, linger_ms=NEVER_MS, by_partition=False)


def test_a_late_report_names_the_record_whatever_its_batch_was_made_of(
    flow: Flow, topics: Topics, broker: Broker, unique: Unique, tmp_path: Path
) -> None:
    topic, dead = topics.create(unique("lines"), 2), topics.create(unique("dead"))
    java = {"bootstrap.servers": broker.bootstrap}
    letters = DeadLetters(
        dead, 1, True, clients.producer(java).settings, clients.admin(java).settings
    )
    tolerance = Tolerance(tolerate_all=True, dead_letters=letters)
    flow.start(flow.sink(unique("snk"), topic, tolerance=tolerance, **keeper(Together, tmp_path)))
    for key, partition, value in [
        (b"a", 0, b"0"),
        (b"b", 1, b"bad"),
        (b"c", 0, b"bad"),
        (b"d", 1, b"1"),
        (b"e", 1, b"bad"),
        (b"f", 0, b"2"),
    ]:
        topics.append(topic, [value], key=key, partition=partition)
    wait_until(lambda: topics.count(dead) == 3, 30, "the letters")
    reported = [(row.key, dict(row.headers)) for row in topics.read(dead)]
    places = {
        key: (cells["__connect.errors.partition"], cells["__connect.errors.offset"])
        for key, cells in reported
    }
    assert places == {b"b": (b"1", b"0"), b"c": (b"0", b"1"), b"e": (b"1", b"2")}


class Slow(DiaryWriter):
    """Waits in every `write` for a file `open`; creates `waiting`."""

    def write(self, records: Records, failed: Failed) -> None:
        (self.folder / "waiting").touch()
        for _ in range(1200):
            if (self.folder / "open").exists():
                break
            threading.Event().wait(0.05)
        super().write(records, failed)


def test_a_consumer_stays_in_its_group_however_long_a_write_takes(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, values(*range(3)))
    quick = {"session.timeout.ms": "6000", "max.poll.interval.ms": "6000"}
    task = flow.start(flow.sink(name, topic, consumer=quick, **keeper(Slow, tmp_path)))
    wait_until((tmp_path / "waiting").exists, 30, "the write")
    threading.Timer(8, (tmp_path / "open").touch).start()
    flow.await_done(task, 3)
    assert calls(tmp_path, "revoked") == []
    assert written(tmp_path) == ["0", "1", "2"]


def test_no_more_is_read_ahead_than_a_task_may_hold(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    """Twenty megabytes while the writer waits: about four are held, plus a poll."""
    topic, name = topics.create(unique("lines")), unique("snk")
    small = {"max.poll.records": "10"}
    task = flow.start(flow.sink(name, topic, consumer=small, **keeper(Slow, tmp_path)))
    wait_until(lambda: calls(tmp_path, "assigned"), 30, "the assignment")
    pid = flow.tasks._placements.pool.slots[flow.standing(task).slot or 0].pid
    before = resident(pid)
    topics.append(topic, [b"%d" % at + b"x" * 20_000 for at in range(1000)])
    wait_until((tmp_path / "waiting").exists, 30, "the write")
    threading.Event().wait(2)
    assert resident(pid) - before < 12 << 20
    (tmp_path / "open").touch()
    flow.await_done(task, 1000)
    assert [value.rstrip("x") for value in written(tmp_path)] == [str(at) for at in range(1000)]


def resident(pid: int | None) -> int:
    """The memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


class Elsewhere(Transform):
    """Gives records another topic."""

    plugin = Plugin("test.Elsewhere", "1", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        return records.with_topics(["elsewhere"] * len(records))


ELSEWHERE = (TransformPlan("elsewhere", PluginRef.of(Elsewhere), ConfigDef().parse({})),)


def test_offsets_are_of_the_topic_that_was_read_whatever_transforms_make_of_it(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, values(*range(10)))
    plan = flow.sink(name, topic, transforms=ELSEWHERE, **keeper(Threes, tmp_path))
    flow.await_done(flow.start(plan), 10)
    assert written(tmp_path) == [str(number) for number in range(10)]
    wait_until(lambda: topics.committed(f"connect-{name}", topic) == {0: 10}, 10, "all committed")


def test_a_late_report_names_the_topic_that_was_read(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path
) -> None:
    topic, name = topics.create(unique("lines")), unique("snk")
    topics.append(topic, [b"0", b"bad", b"2"])
    late = keeper(Late, tmp_path)
    flow.start(flow.sink(name, topic, commit_interval_ms=NEVER_MS, transforms=ELSEWHERE, **late))
    assert f"a record of topic '{topic}', partition 0, offset 1" in flow.await_failure()
    assert topics.committed(f"connect-{name}", topic) == {}
