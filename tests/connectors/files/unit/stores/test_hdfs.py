"""The sink to HDFS, on a file system in memory: recovery, rivals, and a process that is killed
before or after any operation."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from penstock.api import Failed, PenstockError, TopicPartition
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.files.settings.hdfs import HDFS_SINK, hdfs_folders, hdfs_plan
from penstock.connectors.files.stores.hdfs import HdfsStore
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable
from penstock.connectors.files.write.writer import FileWriter
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.routed import routed

from .memory_hadoop import Disk, Killed, MemoryHadoop
from .test_wal import HEAD, entry

AT = TopicPartition("orders", 7)
ROW = struct({"id": INT64, "kind": STRING}, name="row")
TOTAL = 40


def props(**changes: str) -> dict[str, str]:
    return {
        "store.url": "hdfs://host:8020",
        "format.class": "JsonFormat",
        "flush.size": "5",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


BY_KIND = props(partitioner_class="FieldPartitioner", partition_field_name="kind", flush_size="7")


class Task:
    """A sink task as the engine runs it: it resumes where the writer seeks."""

    def __init__(
        self,
        disk: Disk,
        given: dict[str, str],
        committed: int = 0,
        before: Callable[[str, str], None] = lambda what, path: None,
        routes_to: str = "",
    ) -> None:
        config = HDFS_SINK.parse(given)
        self.hadoop = MemoryHadoop(disk, before)
        self.context = SinkContextStub()
        store = HdfsStore(lambda: self.hadoop, "", hdfs_folders(config))  # type: ignore[arg-type,return-value]
        self.writer = FileWriter(hdfs_plan(config), store, self.context, lambda: 1_700_000_000_000)
        self.next = committed
        self.committed = committed
        self.routes_to = routes_to

    def assign(self) -> None:
        self.writer.assigned({AT: self.next})
        self._seek()

    def _seek(self) -> bool:
        if not self.context.sought:
            return False
        self.next = self.context.sought[-1][AT]
        self.context.sought.clear()
        return True

    def write(self, stop: int) -> None:
        while self.next < stop:
            upto = min(self.next + 3, stop)
            rows = [{"id": at, "kind": "ab"[at % 2]} for at in range(self.next, upto)]
            records = records_of(rows, schema=ROW, topic=AT.topic, first=self.next)
            records.partitions = [AT.partition] * len(records)
            if self.routes_to:
                records = routed(records, [self.routes_to], AT)
            failed: Failed = {}
            self.writer.write(records, failed)
            assert failed == {}
            if not self._seek():
                self.next = upto

    def commit(self) -> int | None:
        self.writer.flush()
        if self._seek():
            return None
        allowed = self.writer.pre_commit({AT: self.next}).get(AT)
        if allowed is not None:
            self.committed = allowed
        return allowed

    def run(self, stop: int) -> None:
        self.assign()
        for upto in range(4, stop + 4, 4):
            self.write(min(upto, stop))
            self.commit()


def check(disk: Disk, upto: int) -> None:
    """Records below `upto` are in one file each, named by its offsets."""
    seen: list[int] = []
    for name, data in disk.files("/topics/orders").items():
        ids = [json.loads(line)["id"] for line in data.splitlines()]
        topic, partition, start, end = name.rpartition("/")[2].removesuffix(".json").split("+")
        assert (topic, partition, int(start), int(end)) == ("orders", "7", ids[0], ids[-1])
        assert all(one < other for one, other in pairwise(ids))
        seen += ids
    assert sorted(seen) == list(range(len(seen)))
    assert len(seen) >= upto


def write_and_commit(task: Task, stop: int) -> None:
    task.write(stop)
    task.commit()


def test_names_have_both_offsets() -> None:
    disk = Disk()
    task = Task(disk, props())
    task.run(12)
    assert task.committed == 10
    assert sorted(disk.files("/topics")) == [
        "orders/partition=7/orders+7+0000000000+0000000004.json",
        "orders/partition=7/orders+7+0000000005+0000000009.json",
    ]


@pytest.mark.parametrize("committed", [0, 7, 10, 12, 25])
def test_names_of_files_say_where_to_continue(committed: int) -> None:
    disk = Disk()
    first = Task(disk, props())
    first.run(12)
    second = Task(disk, props(), committed)
    second.assign()
    assert second.next == 10
    second.write(20)
    second.commit()
    check(disk, 20)


def test_without_files_the_committed_offset_counts() -> None:
    disk = Disk()
    task = Task(disk, props(), committed=3)
    task.assign()
    assert task.next == 3


def test_files_that_were_moved_away_are_not_written_again() -> None:
    disk = Disk()
    Task(disk, props()).run(12)
    disk.entries = {p: d for p, d in disk.entries.items() if not p.endswith(".json")}
    task = Task(disk, props(), committed=0)
    task.assign()
    assert task.next == 10


def test_other_files_and_other_partitions_do_not_count() -> None:
    disk = Disk()
    hadoop = MemoryHadoop(disk)
    hadoop.make_folder("/topics/orders/partition=8")
    for name in (
        "partition=8/orders+8+0000000000+0000000099.json",
        "partition=8/orders+7+0+x.json",
        "partition=8/others+7+0+50.json",
        "partition=8/notes.txt",
    ):
        disk.entries[f"/topics/orders/{name}"] = b""
    task = Task(disk, props(), committed=2)
    task.assign()
    assert task.next == 2
    disk.entries["/topics/orders/partition=8/orders+7+0000000000+0000000041.snappy.parquet"] = b""
    task.assign()
    assert task.next == 42


@pytest.mark.parametrize("given", [props(), BY_KIND], ids=["one", "several"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_that_is_killed_at_any_operation_leaves_neither_gaps_nor_duplicates(
    given: dict[str, str], when: str
) -> None:
    operations: list[str] = []
    whole = Disk()
    Task(whole, given, before=lambda what, path: operations.append(what)).run(TOTAL)
    expected = whole.files("/topics/orders")
    check(whole, TOTAL - 7)
    chance = random.Random(1)
    for kill_at in range(len(operations)):
        disk = Disk()
        left = kill_at
        committed = 0
        dead = False

        def before(what: str, path: str) -> None:
            nonlocal left, dead
            if dead or (left <= 0 and (when == "before" or what == "renamed")):
                dead = True
                raise Killed
            left -= 1

        task = Task(disk, given, before=before)
        with suppress(Killed):
            task.run(TOTAL)
        # Committed offsets may be behind the files, and read ones ahead of them.
        committed = task.committed
        if disk.files("/topics/orders"):
            committed = chance.choice([0, committed, task.next])
        again = Task(disk, given, committed)
        again.run(TOTAL)
        assert disk.files("/topics/orders") == expected, kill_at
        again.writer.close()
        assert not [path for path in disk.entries if "_tmp" in path], kill_at


@pytest.mark.parametrize("given", [props(), BY_KIND], ids=["one", "several"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_so_does_a_task_whose_records_are_routed_to_another_topic(
    given: dict[str, str], when: str
) -> None:
    operations: list[str] = []
    whole = Disk()
    task = Task(whole, given, 0, lambda what, path: operations.append(what), "all")
    task.run(TOTAL)
    expected = whole.files("/topics/all")
    names = [name.rpartition("/")[2] for name in expected]
    assert all(name.startswith("all+orders+7+") for name in names)
    for kill_at in range(0, len(operations), 4):
        disk = Disk()
        left = kill_at
        dead = False

        def before(what: str, path: str) -> None:
            nonlocal left, dead
            if dead or (left <= 0 and (when == "before" or what == "renamed")):
                dead = True
                raise Killed
            left -= 1

        task = Task(disk, given, 0, before, "all")
        with suppress(Killed):
            task.run(TOTAL)
        again = Task(disk, given, task.committed, routes_to="all")
        again.run(TOTAL)
        assert disk.files("/topics/all") == expected, kill_at
        again.writer.close()


def test_files_of_records_routed_to_a_topic_do_not_hide_records_of_that_topic() -> None:
    disk = Disk()
    routing = Task(disk, props(), routes_to="orders")
    source = TopicPartition("returns", AT.partition)
    routing.writer.assigned({source: 0})
    rows = [{"id": at, "kind": "r"} for at in range(5)]
    failed: Failed = {}
    records = routed(records_of(rows, schema=ROW, topic="x"), ["orders"], source)
    routing.writer.write(records, failed)
    assert failed == {}
    routing.writer.flush()
    assert len(disk.files("/topics/orders")) == 1
    task = Task(disk, props())
    task.assign()
    assert task.next == 0
    task.write(5)
    task.commit()
    assert len(disk.files("/topics/orders")) == 2


def test_a_task_whose_partition_was_taken_over_can_write_nothing() -> None:
    disk = Disk()
    zombie = Task(disk, props())
    zombie.assign()
    zombie.write(4)
    successor = Task(disk, props())
    successor.run(7)
    with pytest.raises(StoreRefused, match="taken over"):
        write_and_commit(zombie, 5)
    check(disk, 5)
    successor.write(12)
    successor.commit()
    check(disk, 10)


def test_two_tasks_that_claim_at_once_do_not_both_write() -> None:
    disk = Disk()
    first, second = Task(disk, props()), Task(disk, props())
    first.assign()
    second.assign()
    second.write(5)
    second.commit()
    with pytest.raises(PenstockError):
        write_and_commit(first, 5)
    check(disk, 5)


@pytest.mark.parametrize("given", [props(), BY_KIND], ids=["one", "several"])
def test_a_store_that_is_unreachable_now_and_then_loses_nothing(given: dict[str, str]) -> None:
    whole = Disk()
    Task(whole, given).run(TOTAL)
    for seed in range(30):
        chance = random.Random(seed)
        disk = Disk()

        def before(what: str, path: str, chance: random.Random = chance) -> None:
            if chance.random() < 0.2:
                raise StoreUnavailable(f"no {what}")

        task = Task(disk, given, before=before)
        task.assign()
        for upto in range(4, TOTAL + 4, 4):
            persist(task, partial(task.write, min(upto, TOTAL)))
            persist(task, task.commit)
        while task.writer._partitions[AT].storing:
            persist(task, task.commit)
        assert disk.files("/topics/orders") == whole.files("/topics/orders"), seed


def persist(task: Task, call: Callable[[], Any]) -> None:
    for _ in range(1_000):
        try:
            call()
        except StoreUnavailable:
            task._seek()
        else:
            return
    raise AssertionError("it never comes back")


def test_a_large_file_whose_stream_breaks_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.files.stores.hdfs.HELD", 1)
    disk = Disk()
    breaks = [9, 10, 17]

    def before(what: str, path: str) -> None:
        if what in ("write", "close"):
            count[0] += 1
            if count[0] in breaks:
                raise StoreUnavailable("all datanodes are bad")

    count = [0]
    task = Task(disk, props(flush_size="10"), before=before)
    task.assign()
    for upto in range(4, TOTAL + 4, 4):
        while task.next < min(upto, TOTAL):
            persist(task, partial(task.write, min(upto, TOTAL)))
            persist(task, task.commit)
    assert count[0] > 20
    check(disk, TOTAL)
    assert len(disk.files("/topics/orders")) == TOTAL // 10


def log_with(disk: Disk, data: bytes, name: str = "log") -> None:
    MemoryHadoop(disk).make_folder("/logs/orders/7")
    disk.entries[f"/logs/orders/7/{name}"] = data


def lines(first: int, stop: int) -> bytes:
    return b"".join(
        json.dumps({"id": at, "kind": "ab"[at % 2]}, separators=(",", ":")).encode() + b"\n"
        for at in range(first, stop)
    )


def test_commits_that_confluents_connector_has_begun_are_finished() -> None:
    disk = Disk()
    MemoryHadoop(disk).make_folder("/topics/+tmp/orders/partition=7")
    MemoryHadoop(disk).make_folder("/topics/orders/partition=7")
    root = "hdfs://host:8020/topics/"
    name = "/topics/orders/partition=7/orders+7+0000000000+0000000004.json"
    disk.entries["/topics/+tmp/orders/partition=7/x_tmp.json"] = lines(0, 5)
    data = HEAD + entry("BEGIN")
    data += entry(f"{root}/+tmp/orders/partition=7/x_tmp.json", f"hdfs://host:8020/{name}")
    log_with(disk, data + entry("END"))
    log_with(disk, HEAD, "log.1")
    task = Task(disk, props(), committed=0)
    task.assign()
    assert task.next == 5
    assert disk.entries[name] == lines(0, 5)
    assert not [path for path in disk.entries if path.startswith("/logs/orders/7/log")]
    task.write(10)
    task.commit()
    check(disk, 10)


def test_a_log_says_where_to_continue_if_its_files_were_moved_away() -> None:
    disk = Disk()
    files = entry("BEGIN") + entry("/t", "/topics/orders/x/orders+7+0+41.json") + entry("END")
    log_with(disk, HEAD + files, "log.1")
    task = Task(disk, props(), committed=3)
    task.assign()
    assert task.next == 42
    again = Task(disk, props(), committed=3)
    again.assign()
    assert again.next == 42


def test_a_log_is_taken_from_a_connector_that_was_killed() -> None:
    disk = Disk()
    log_with(disk, HEAD)
    disk.open.add("/logs/orders/7/log")
    task = Task(disk, props(), committed=3)
    task.assign()  # its lease is being recovered
    assert task.writer._partitions[AT].unclaimed
    task.writer.idle()
    assert not task.writer._partitions[AT].unclaimed


def test_an_invalid_log_is_refused() -> None:
    disk = Disk()
    log_with(disk, b"what is this")
    with pytest.raises(StoreRefused, match="/logs/orders/7/log should be the write-ahead log"):
        Task(disk, props()).assign()


def test_records_that_are_left_out_are_not_read_again() -> None:
    disk = Disk()
    task = Task(disk, props(behavior_on_null_values="ignore"))
    task.run(5)
    records = records_of([None] * 4, topic=AT.topic, first=5)
    records.partitions = [AT.partition] * 4
    task.writer.write(records, {})
    task.next = 9
    assert task.commit() == 9
    again = Task(disk, props(), committed=9)
    again.assign()
    assert again.next == 9


def test_an_assignment_waits_for_a_store_that_is_unreachable() -> None:
    disk = Disk()
    Task(disk, props()).run(12)
    away = [True]

    def before(what: str, path: str) -> None:
        if away[0]:
            raise StoreUnavailable("the namenode is away")

    task = Task(disk, props(), committed=12, before=before)
    task.assign()
    assert task.next == 12
    assert task.commit() is None
    with pytest.raises(StoreUnavailable):
        task.write(15)
    away[0] = False
    task.writer.idle()
    assert task._seek()
    assert task.next == 10
    task.write(20)
    task.commit()
    check(disk, 20)


def test_a_partition_that_is_given_up_leaves_nothing_behind() -> None:
    disk = Disk()
    task = Task(disk, props())
    task.run(7)
    task.writer.flush()
    task.writer.revoked(frozenset({AT}), lost=False)
    assert task.writer.pre_commit({AT: 7}) == {AT: 5}
    task.writer.close()
    assert disk.files("/topics/+tmp") == {}
    assert list(disk.files("/logs")) == ["orders/7/next+5"]


def test_a_topic_that_was_created_again_fails_the_task_with_what_to_do() -> None:
    disk = Disk()
    Task(disk, props()).run(12)
    task = Task(disk, props())
    task.assign()
    assert task.next == 10
    task.next = 0  # Kafka has no offset 10, so the consumer begins again
    with pytest.raises(StoreRefused, match=r"orders-7 begins again at offset 0.*logs\.dir"):
        task.write(5)
    check(disk, 10)


def test_a_record_that_is_refused_is_not_passed_over_at_the_next_start() -> None:
    disk = Disk()
    task = Task(disk, props(flush_size="2"))
    task.assign()
    rows = [{"id": 0, "kind": "a"}, {"id": 1, "kind": "\ud800"}, {"id": 2, "kind": "a"}]
    records = records_of(rows, schema=ROW, topic=AT.topic)
    records.partitions = [AT.partition] * 3
    failed: Failed = {}
    task.writer.write(records, failed)
    assert list(failed) == [1]  # which fails the task
    task.writer.flush()
    task.writer.revoked(frozenset({AT}), lost=False)
    assert task.writer.pre_commit({AT: 0}).get(AT, 0) == 0
    task.writer.close()
    again = Task(disk, props())
    again.assign()
    assert again.next == 0
