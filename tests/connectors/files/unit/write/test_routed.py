"""Records that transforms route to other topics: where they are stored, what is committed."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest

from penstock.api import Failed, Records, TopicPartition
from penstock.connectors.files.settings.aiven import AIVEN_S3_SINK, aiven_plan
from penstock.connectors.files.stores.store import StoreUnavailable
from penstock.connectors.files.write.writer import FileWriter
from penstock.testing.contexts import SinkContextStub
from penstock.testing.routed import routed

from .writer_task import AT, HOURLY, MemoryStore, Task, batch

DAYS = ("orders-1", "orders-2")


def numbers(first: int, stop: int) -> Records:
    return batch(list(range(first, stop)), first=first)


def stored(store: MemoryStore) -> dict[str, list[int]]:
    """The records of each file, by its name in `topics.dir`."""
    return {
        name.removeprefix("topics/"): [json.loads(line) for line in data.splitlines()]
        for name, data in store.files.items()
    }


def everything(store: MemoryStore) -> list[int]:
    """The records of all files."""
    return [number for numbers in stored(store).values() for number in numbers]


def test_each_record_is_in_a_file_of_its_own_topic() -> None:
    task = Task({"flush.size": "4"})
    task.write(routed(numbers(0, 8), DAYS, AT))
    assert task.committed() == 8
    assert stored(task.store) == {
        "orders-1/partition=3/orders-1+3+0000000000.json": [0, 2],
        "orders-2/partition=3/orders-2+3+0000000001.json": [1, 3],
        "orders-1/partition=3/orders-1+3+0000000004.json": [4, 6],
        "orders-2/partition=3/orders-2+3+0000000005.json": [5, 7],
    }


def test_nothing_is_committed_beyond_a_record_of_any_topic_that_is_not_stored() -> None:
    task = Task({"flush.size": "2"})
    for number in range(5):  # one poll each
        task.write(routed(numbers(number, number + 1), DAYS, AT))
    assert task.committed() == 4
    task.writer.revoked(frozenset({AT}), lost=False)
    assert task.writer.pre_commit({AT: 5}).get(AT, 4) == 4
    task.writer.close()
    assert sorted(everything(task.store)) == [0, 1, 2, 3]


def test_the_offsets_of_a_partition_are_held_back_if_all_its_records_have_another_topic() -> None:
    task = Task({"flush.size": "3"})
    task.write(routed(numbers(0, 2), ["all"], AT))
    assert not task.committed()
    task.write(routed(numbers(2, 4), ["all"], AT))
    assert task.committed() == 3


def test_partitions_of_several_topics_that_go_to_one_topic_have_files_of_their_own() -> None:
    others = TopicPartition("orders2", AT.partition)
    task = Task({"flush.size": "2"}, one_topic=False)
    task.writer.assigned({others: 0})
    task.write(routed(numbers(0, 2), ["all"], AT))
    task.write(routed(numbers(0, 2), ["all"], others))
    task.write(numbers(2, 4))
    task.flush()
    assert stored(task.store) == {
        "all/partition=3/all+orders+3+0000000000.json": [0, 1],
        "all/partition=3/all+orders2+3+0000000000.json": [0, 1],
        "orders/partition=3/orders+3+0000000002.json": [2, 3],
    }
    assert task.writer.pre_commit({AT: 4, others: 2}) == {AT: 4, others: 2}


def test_a_topic_that_a_record_names_leads_nowhere_else() -> None:
    task = Task({"flush.size": "1"})
    task.write(routed(numbers(0, 1), ["../../etc"], AT))
    task.flush()
    assert list(task.store.files) == [
        "topics/..%2F..%2Fetc/partition=3/..%2F..%2Fetc+3+0000000000.json"
    ]


def test_with_an_interval_files_end_where_the_folder_of_their_topic_changes() -> None:
    settings = {
        **HOURLY,
        "timestamp.extractor": "Record",
        "rotate.interval.ms": "36000000",
        "flush.size": "100",
    }
    task = Task(settings)
    hour = 3_600_000
    times = [1_700_000_000_000 + (hour if offset >= 6 else 0) for offset in range(8)]
    task.write(routed(batch(list(range(8)), times=times), DAYS, AT))
    assert task.committed() == 6
    assert sorted(stored(task.store).values()) == [[0, 2, 4], [1, 3, 5]]


def test_files_of_other_tasks_are_recognized_by_topic() -> None:
    store = MemoryStore({})
    schedule = {"flush.size": "4", "rotate.schedule.interval.ms": "3600000", "timezone": "UTC"}
    first = Task(schedule, store, create_only=True)
    first.write(routed(numbers(0, 4), DAYS, AT))
    first.flush()
    first.writer.close()  # killed before its offsets are committed
    second = Task({**schedule, "flush.size": "3"}, store, create_only=True)
    second.write(routed(numbers(0, 6), DAYS, AT))
    with suppress(StoreUnavailable):
        second.committed()
    assert second.context.sought == [{AT: 0}]
    second.write(routed(numbers(0, 7), DAYS, AT))
    assert second.committed() == 7
    assert sorted(everything(store)) == list(range(7))


@pytest.mark.parametrize("seed", range(4))
def test_a_task_killed_at_any_instant_leaves_neither_a_gap_nor_a_duplicate(seed: int) -> None:
    settings = {"flush.size": "7"}
    undisturbed = Task(settings)
    undisturbed.write(routed(numbers(0, 400), ["a", "b", "a", "c", "c"], AT))
    undisturbed.flush()
    chance = random.Random(seed)
    store = MemoryStore({}, random.Random(seed))
    committed = 0
    for kill in range(60):
        task = Task(settings, store, start=committed)
        while task.reached < 400 and (kill == 59 or chance.random() > 0.15):
            stop = min(task.reached + chance.randint(1, 40), 400)
            with suppress(StoreUnavailable):
                task.write(routed(numbers(task.reached, stop), ["a", "b", "a", "c", "c"], AT))
                if chance.random() < 0.4:
                    committed = task.committed() or committed
        store.chance = None if kill == 59 else store.chance
        if kill == 59:
            task.flush()
        task.writer.close()
    assert store.files == undisturbed.store.files


def aiven(template: str, *batches: Records, **changes: str) -> dict[str, bytes]:
    """The objects of Aiven's sink to S3 after these batches."""
    settings = {
        "aws.s3.bucket.name": "lake",
        "file.compression.type": "none",
        "file.name.template": template,
        "format.output.type": "jsonl",
        "format.output.envelope": "false",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    store = MemoryStore({})
    plan = aiven_plan(AIVEN_S3_SINK.parse(settings))
    writer = FileWriter(plan, store, SinkContextStub(), lambda: 0)
    failed: Failed = {}
    for records in batches:
        writer.write(records, failed)
    assert failed == {}
    writer.flush()
    writer.close()
    return store.files


def test_templates_name_the_topic_of_each_record() -> None:
    files = aiven(
        "{{topic}}/{{partition}}-{{start_offset}}", routed(numbers(0, 4), ["a", "orders"], AT)
    )
    assert files == {"a/orders+3-0": b"0\n2", "orders/3-0": b"1\n3"}


def test_an_object_of_a_key_has_the_latest_record_of_all_its_topics() -> None:
    records = batch([0, 1, 2, 3], keys=["k"] * 4)
    assert aiven("{{key}}", routed(records, ["a", "b"], AT)) == {"k": b"3"}
    assert aiven("{{topic}}-{{key}}", routed(records, ["a", "b"], AT)) == {"a-k": b"2", "b-k": b"3"}
