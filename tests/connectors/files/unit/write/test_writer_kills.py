"""Tasks that are killed while they write files leave neither gaps nor duplicates."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from penstock.api import Records
from penstock.api.schema import INT64, OPTIONAL_INT64, STRING, struct
from penstock.connectors.files.stores.store import StoreUnavailable

from .writer_task import AT, HOURLY, MemoryStore, Task, batch

KILLED: dict[str, dict[str, str]] = {
    "default": {"flush.size": "7"},
    "fields": {
        "flush.size": "20",
        "partitioner.class": "FieldPartitioner",
        "partition.field.name": "kind",
    },
    "times": {
        **HOURLY,
        "timestamp.extractor": "Record",
        "rotate.interval.ms": "600000",
        "flush.size": "15",
    },
    "avro with keys": {
        "format.class": "AvroFormat",
        "store.kafka.keys": "true",
        "flush.size": "11",
        "schema.compatibility": "BACKWARD",
    },
    "compressed": {"flush.size": "9", "penstock.compression.type": "gzip"},
}


def a_topic(chance: random.Random, count: int) -> list[Records]:
    """Records one by one, some without a timestamp, of two versions of a schema."""
    time = 1_700_000_000_000
    records = []
    for offset in range(count):
        time += chance.choice([1_000, 30_000, 400_000, -20_000])
        old = chance.random() < 0.2
        value = {"id": offset, "kind": chance.choice("abc")} | ({} if old else {"more": offset})
        fields = {"id": INT64, "kind": STRING} | ({} if old else {"more": OPTIONAL_INT64})
        schema = struct(fields, name="row", version=1 if old else 2)
        stamp = None if chance.random() < 0.05 else time
        records.append(
            batch([value], first=offset, schema=schema, keys=[f"k{offset}"], key_schema=STRING,
                  times=[stamp])
        )  # fmt: skip
    return records


def joined(records: Sequence[Records]) -> Records:
    for place, record in enumerate(records):
        record.origins = [place]
    return Records.together(*records)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("settings", KILLED.values(), ids=KILLED)
def test_a_task_killed_at_any_instant_leaves_neither_a_gap_nor_a_duplicate(
    settings: dict[str, str], seed: int
) -> None:
    chance = random.Random(seed)
    topic = a_topic(chance, 400)
    undisturbed = Task(settings)
    undisturbed.write(joined(topic))
    undisturbed.flush()
    undisturbed.writer.close()
    store = MemoryStore({}, random.Random(seed))
    committed, kills = 0, 0
    while kills < 40:
        task = Task(settings, store, start=committed)
        while task.reached < len(topic) and chance.random() > 0.15:
            some = topic[task.reached : task.reached + chance.randint(1, 40)]
            try:
                task.write(joined(some))
                if chance.random() < 0.4:
                    reached = task.committed()
                    committed = committed if reached is None else reached
            except StoreUnavailable:
                continue
        task.writer.close()
        kills += 1
    store.chance = None
    task = Task(settings, store, start=committed)
    task.write(joined(topic[committed:]) if committed < len(topic) else Records.none())
    task.flush()
    task.writer.close()
    assert store.files == undisturbed.store.files
    assert len(store.files) > 10


SCHEDULED = {
    "default": {"flush.size": "1000"},
    "small": {"flush.size": "5"},
    "fields": {
        "flush.size": "50",
        "partitioner.class": "FieldPartitioner",
        "partition.field.name": "kind",
    },
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("settings", SCHEDULED.values(), ids=SCHEDULED)
def test_with_a_schedule_files_that_others_stored_are_neither_replaced_nor_repeated(
    settings: dict[str, str], seed: int
) -> None:
    """Tasks are killed repeatedly between the end of files and their commit, at different clock
    times, so that the next one would end files elsewhere."""
    chance = random.Random(seed)
    count = 400
    rows = [{"id": n, "kind": chance.choice("abc")} for n in range(count)]
    store = MemoryStore({}, random.Random(seed))
    schedule = {**settings, "rotate.schedule.interval.ms": "1000", "timezone": "UTC"}
    committed = 0
    for kill in range(1_000):
        task = Task(schedule, store, start=committed, create_only=True)
        task.clock.now += chance.randrange(100_000)
        life = chance.randrange(1, 40) if kill < 60 else 10_000
        while life and committed < count:
            life -= 1
            task.clock.now += chance.randrange(600)
            with suppress(StoreUnavailable):
                some = rows[task.reached : task.reached + chance.randrange(1, 12)]
                if some and chance.random() < 0.7:
                    task.write(batch(some, first=task.reached))
                elif chance.random() < 0.5:
                    task.writer.idle()
                else:
                    offset = task.committed()
                    if offset is not None and chance.random() < 0.5:
                        assert offset >= committed
                        committed = offset
            while task.context.sought:  # as a worker does after every call
                task.reached = task.context.sought.pop(0)[AT]
        task.writer.close()
        if committed == count:
            break
    ids = [json.loads(line)["id"] for data in store.files.values() for line in data.splitlines()]
    assert sorted(ids) == list(range(count))
    assert len(store.commits) == len(set(store.commits))
