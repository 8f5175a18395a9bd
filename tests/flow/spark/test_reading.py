"""What a sink receives from its topics: every record, byte for byte, in chunks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark import cloudpickle

from penstock.api import Failed, Records
from penstock.convert.raw import ByteArrayConverter
from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .conftest import Flow
from .diaries import DiaryWriter, keeper

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Cell = bytes | None
Read = Callable[..., list["Row"]]


class Dump(DiaryWriter):
    """Writes each record in full, bytes in hexadecimal."""

    def write(self, records: Records, failed: Failed) -> None:
        lines = []
        for at in range(len(records)):
            headers = records.headers[at] if records.headers else ()
            row = {
                "topic": records.topics[at],
                "partition": records.partitions[at],
                "offset": records.offsets[at],
                "timestamp": records.timestamps[at],
                "key": hexadecimal(records.keys.values[at]),
                "value": hexadecimal(records.values.values[at]),
                "headers": [[header.name, hexadecimal(header.value)] for header in headers],
                "of": len(records),
            }
            lines.append(orjson.dumps(row) + b"\n")
        with (self.folder / "dump").open("ab") as out:
            out.write(b"".join(lines))


def hexadecimal(cell: Any) -> str | None:
    return None if cell is None else cell.hex()


@dataclass(frozen=True)
class Row:
    """A record as a writer received it, and its batch size."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Cell
    value: Cell
    headers: list[tuple[str, Cell]]
    of: int


def dumped(folder: Path) -> list[Row]:
    file = folder / "dump"
    rows = [orjson.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []
    return [
        Row(
            **{
                **row,
                "key": cell(row["key"]),
                "value": cell(row["value"]),
                "headers": [(name, cell(value)) for name, value in row["headers"]],
            }
        )
        for row in rows
    ]


def cell(text: str | None) -> Cell:
    return None if text is None else bytes.fromhex(text)


@pytest.fixture
def read(flow: Flow, converters: Any, unique: Callable[[str], str], tmp_path: Path) -> Read:
    """Has a sink read this many records of a topic and stop; returns what it received."""

    def read(topic: str, records: int, *, name: str | None = None, **consumer: str) -> list[Row]:
        folder, raw = tmp_path / unique("dump"), converters(ByteArrayConverter)
        plan = flow.sink(
            name or unique("snk"),
            topic,
            key=raw,
            value=raw,
            header=raw,
            consumer={"max.poll.records": "10000"}
            | {name.replace("_", "."): text for name, text in consumer.items()},
            **keeper(Dump, folder),
        )
        before = flow.done(plan.task)
        task = flow.start(plan)
        flow.await_done(task, before + records)
        assert flow.stop(task)
        return dumped(folder)

    return read


@pytest.fixture
def topic(topics: Topics, unique: Callable[[str], str]) -> str:
    return topics.create(unique("read"), partitions=2)


def produce(broker: Broker, topic: str, *records: dict[str, Any], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for record in records:
        producer.produce(topic, **{"partition": 0, **record})
    assert producer.flush(30) == 0


def offsets(rows: Iterable[Row]) -> list[int]:
    return [row.offset for row in rows]


def test_every_byte_of_a_record_arrives(read: Read, broker: Broker, topic: str) -> None:
    every = bytes(range(256))
    records: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "timestamp": 5},
        {"key": None, "value": None, "timestamp": 6},
        {"key": b"", "value": b"", "timestamp": 1_700_000_000_123},
        {"key": every, "value": every, "headers": [("h", every), ('ü"\n', None), ("h", b"")]},
        {"value": b"last"},
    ]
    produce(broker, topic, *records)
    rows = read(topic, 5)
    assert [(row.topic, row.partition) for row in rows] == [(topic, 0)] * 5
    assert offsets(rows) == [0, 1, 2, 3, 4]
    assert [row.timestamp for row in rows[:3]] == [5, 6, 1_700_000_000_123]
    for row, record in zip(rows, records, strict=True):
        assert (row.key, row.value) == (record.get("key"), record["value"])
        assert row.headers == record.get("headers", [])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_arrive(read: Read, broker: Broker, topic: str, codec: str) -> None:
    values = [b"%d " % at * 50 for at in range(500)]
    settings = {"compression.type": codec, "linger.ms": 100}
    produce(broker, topic, *({"value": value} for value in values), **settings)
    assert [row.value for row in read(topic, 500)] == values


def test_a_common_value_prefix_is_sent_once_per_chunk(
    read: Read, broker: Broker, topic: str
) -> None:
    """Chunks of values with a common prefix, with less of it, with another one, with nothing after
    it, and chunks of nulls."""
    long, other = b"schema " * 20, b"another " * 20
    values: list[bytes | None] = [
        *(long + b"%d" % at for at in range(9_000)),
        *(long[:100] + b"%d" % at for at in range(3_000)),
        *(None if at % 3 else long[:100] for at in range(3_000)),
        *(other + b"%d" % at for at in range(6_000)),
        *(b"" if at % 2 else long + b"%d" % at for at in range(100)),
        *(None for _ in range(10)),
        *(long for _ in range(5_000)),
    ]
    produce(broker, topic, *({"value": each} for each in values))
    rows = read(topic, len(values), max_partition_fetch_bytes=str(1 << 24))
    assert offsets(rows) == list(range(len(values)))
    assert [row.value for row in rows] == values
    # With a common prefix, chunks are as large as without: some thousand.
    assert max(row.of for row in rows[:9_000]) == 4_000


def test_partitions_and_topics_are_read_each_in_its_order(
    read: Read, topics: Topics, topic: str
) -> None:
    for partition in range(2):
        topics.append(topic, [b"%d" % at for at in range(3000)], partition=partition)
    rows = read(topic, 6000)
    for partition in range(2):
        mine = [row for row in rows if row.partition == partition]
        assert offsets(mine) == list(range(3000))
        assert all(row.value == b"%d" % row.offset for row in mine)


@pytest.mark.parametrize("most", ["1", "500"])
def test_a_sink_continues_where_it_was_and_back_where_it_is_told(
    read: Read,
    broker: Broker,
    topics: Topics,
    topic: str,
    unique: Callable[[str], str],
    most: str,
) -> None:
    name = unique("again")
    topics.append(topic, [b"%d" % at for at in range(100)], partition=0)
    assert offsets(read(topic, 100, name=name, max_poll_records=most)) == list(range(100))
    topics.append(topic, [b"100"], partition=0)
    assert offsets(read(topic, 1, name=name, max_poll_records=most)) == [100]
    commit(broker, f"connect-{name}", topic, 40)
    rows = read(topic, 61, name=name, max_poll_records=most)
    assert offsets(rows) == list(range(40, 101))
    assert all(row.value == b"%d" % row.offset for row in rows)


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


LARGE = {"max_partition_fetch_bytes": str(1 << 25), "fetch_max_bytes": str(1 << 26)}


def test_values_that_begin_alike_are_not_too_many(read: Read, topics: Topics, topic: str) -> None:
    topics.append(topic, [b"x" * 700_000] * 20, partition=0)
    rows = read(topic, 20, **LARGE)
    assert all(row.value == b"x" * 700_000 for row in rows)
    assert max(row.of for row in rows) == 6  # four megabytes, were each sent in full


def test_a_chunk_has_some_thousand_records_or_a_megabyte(
    read: Read, topics: Topics, topic: str
) -> None:
    topics.append(topic, [b"small"] * 9000, partition=0)
    topics.append(topic, [b"%d" % at + b"x" * 700_000 for at in range(5)], partition=1)
    rows = read(topic, 9005, **LARGE)
    assert max(row.of for row in rows if row.partition == 0) == 4000
    assert max(row.of for row in rows if row.partition == 1) == 2
    assert [row.offset for row in rows if row.partition == 0] == list(range(9000))
    assert all(len(row.value or b"") == 700_001 for row in rows if row.partition == 1)


def test_offsets_that_are_no_records_are_skipped(read: Read, broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-x"})
    producer.init_transactions()
    for text, good in [("a", True), ("b", False), ("c", True)]:
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{text}{number}", partition=0)
        if good:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    # Three records and their transaction's end marker, three times.
    committed = read(topic, 6, isolation_level="read_committed")
    assert [row.value for row in committed] == [b"a0", b"a1", b"a2", b"c0", b"c1", b"c2"]
    every = read(topic, 9)
    assert offsets(every) == [0, 1, 2, 4, 5, 6, 8, 9, 10]


@pytest.mark.parametrize("start", [None, 0, 4])
def test_deleted_records_are_skipped(
    read: Read,
    broker: Broker,
    topics: Topics,
    topic: str,
    unique: Callable[[str], str],
    start: int | None,
) -> None:
    name = unique("late")
    topics.append(topic, [b"%d" % at for at in range(10)], partition=0)
    if start is not None:
        commit(broker, f"connect-{name}", topic, start)
    [deleted] = topics.admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    deleted.result()
    assert offsets(read(topic, 4, name=name)) == [6, 7, 8, 9]


def test_a_deleted_offset_fails_the_task_where_it_may_not_be_reset(
    flow: Flow, broker: Broker, topics: Topics, unique: Callable[[str], str]
) -> None:
    topic, name = topics.create(unique("read")), unique("late")
    topics.append(topic, [b"%d" % at for at in range(10)], partition=0)
    commit(broker, f"connect-{name}", topic, 4)
    [deleted] = topics.admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    deleted.result()
    flow.start(flow.sink(name, topic, "/dev/null", consumer={"auto.offset.reset": "none"}))
    assert "OffsetOutOfRangeException" in flow.await_failure()


def test_timestamps_of_two_types_are_not_in_one_chunk(
    read: Read, topics: Topics, topic: str
) -> None:
    topics.append(topic, [b"made", b"made"], partition=0)
    wanted = ConfigEntry(
        "message.timestamp.type",
        "LogAppendTime",
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[wanted])
    topics.admin.incremental_alter_configs([resource])[resource].result()
    wait_until(
        lambda: topics.settings(topic)["message.timestamp.type"] == "LogAppendTime", 10, "the type"
    )
    topics.append(topic, [b"appended"], partition=0)
    rows = read(topic, 3)
    assert [(row.value, row.of) for row in rows] == [(b"made", 2), (b"made", 2), (b"appended", 1)]
