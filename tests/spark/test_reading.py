"""What a sink's stage is given of a topic, read by Spark's tasks from a real broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from penstock.flow.engine import Session
from penstock.flow.reading import Reader, Span
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle

from penstock.flow import reading
from penstock.kafka.broker import Broker
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

# Spark's Python workers cannot import test modules.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def shown(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The chunks as rows that come back from a Python worker."""
    for chunk in reading.chunks(batches):
        raw = chunk.records
        headers = raw.headers or [[]] * len(raw)
        rows = [
            {
                "topic": raw.topics[at],
                "partition": raw.partitions[at],
                "type": chunk.timestamp_type,
                "offset": raw.offsets[at],
                "timestamp": raw.timestamps[at],
                "key": raw.keys.values[at],
                "value": raw.values.values[at],
                "names": [header.name for header in headers[at]],
                "headers": [header.value for header in headers[at]],
                "of": len(raw),
            }
            for at in range(len(raw))
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=SHOWN)


SHOWN = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("type", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("names", pa.list_(pa.string())),
        ("headers", pa.list_(pa.binary())),
        ("of", pa.int32()),
    ]
)
DDL = (
    "topic string, partition int, type int, offset long, timestamp long, key binary, "
    "value binary, names array<string>, headers array<binary>, of int"
)


@pytest.fixture
def read(session: Session, broker: Broker) -> Callable[..., list[Any]]:
    """Reads spans as rows, by partition and in their order."""

    def read(*spans: Span, patience_ms: int = 30_000, **kafka: str) -> list[Any]:
        settings = {name.replace("_", "."): text for name, text in kafka.items()}
        told = {"bootstrap.servers": broker.bootstrap, **settings}
        # The session's own settings stay as they are: a query has a copy, too.
        spark = session.get().newSession()
        reader = Reader(spark, told, lambda chunks: chunks.mapInArrow(shown, DDL), patience_ms)
        return reader.rows(spans)

    return read


@pytest.fixture
def topic(topics: Topics, unique: Callable[[str], str]) -> str:
    return topics.create(unique("read"), partitions=2)


def produce(broker: Broker, topic: str, *records: dict[str, Any], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for record in records:
        producer.produce(topic, **{"partition": 0, **record})
    assert producer.flush(30) == 0


def offsets(rows: Iterable[Any]) -> list[int]:
    return [row.offset for row in rows]


def test_every_byte_of_a_record_arrives(
    read: Callable[..., list[Any]], broker: Broker, topic: str
) -> None:
    every = bytes(range(256))
    records: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "timestamp": 5},
        {"key": None, "value": None, "timestamp": 6},
        {"key": b"", "value": b"", "timestamp": 1_700_000_000_123},
        {"key": every, "value": every, "headers": [("h", every), ('ü"\n', None), ("h", b"")]},
        {"value": b"last"},
    ]
    produce(broker, topic, *records)
    rows = read(Span(topic, 0, 0, 5))
    assert [(row.topic, row.partition, row.type) for row in rows] == [(topic, 0, 0)] * 5
    assert offsets(rows) == [0, 1, 2, 3, 4]
    assert [row.timestamp for row in rows[:3]] == [5, 6, 1_700_000_000_123]
    for row, record in zip(rows, records, strict=True):
        assert (row.key, row.value) == (record.get("key"), record["value"])
        assert list(zip(row.names, row.headers, strict=True)) == record.get("headers", [])


def test_what_values_begin_with_goes_along_once(
    read: Callable[..., list[Any]], broker: Broker, topic: str
) -> None:
    """Chunks of values that all begin alike, that begin with less of it, with something else, with
    nothing more, and that are no values at all."""
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
    spans = [
        Span(topic, 0, at, min(at + 10_000, len(values))) for at in range(0, len(values), 10_000)
    ]
    rows = [row for span in spans for row in read(span)]
    assert offsets(rows) == list(range(len(values)))
    assert [row.value for row in rows] == values
    # Where they go on alike, chunks are as large as without; some thousand.
    assert rows[5_000].of == 4_000
    assert rows[-1].of >= 900


def test_spans_of_several_partitions_are_read_and_no_more_than_them(
    read: Callable[..., list[Any]], topics: Topics, topic: str
) -> None:
    for partition in range(2):
        topics.append(topic, [b"%d" % at for at in range(30)], partition=partition)
    rows = read(Span(topic, 1, 10, 20), Span(topic, 0, 0, 3))
    assert [(row.partition, row.offset) for row in rows] == [
        *((1, at) for at in range(10, 20)),
        *((0, at) for at in range(3)),
    ]
    assert all(row.value == b"%d" % row.offset for row in rows)


def test_one_reader_reads_batch_after_batch(
    session: Session, broker: Broker, topics: Topics, topic: str
) -> None:
    """What it has planned for so many spans is used for others, and two of its jobs may differ in
    how many there are."""
    for partition in range(2):
        topics.append(topic, [b"%d" % at for at in range(40)], partition=partition)
    spark = session.get().newSession()
    kafka = {"bootstrap.servers": broker.bootstrap}
    reader = Reader(spark, kafka, lambda chunks: chunks.mapInArrow(shown, DDL))
    for batch in [
        [Span(topic, 0, 0, 10)],
        [Span(topic, 1, 5, 6)],
        [Span(topic, 0, 10, 11), Span(topic, 1, 6, 20)],
        [Span(topic, 0, 11, 40)],
        [Span(topic, 1, 20, 40), Span(topic, 0, 0, 3)],
    ]:
        told = [(row.partition, row.offset) for row in reader.rows(batch)]
        assert told == [
            (span.partition, at) for span in batch for at in range(span.start, span.end)
        ]


@pytest.mark.parametrize("most", ["1", "500"])
def test_it_goes_on_where_it_was_and_back_where_it_is_told(
    read: Callable[..., list[Any]], topics: Topics, topic: str, most: str
) -> None:
    """A consumer is used again; what it has fetched beyond a span must be neither lost nor kept."""
    topics.append(topic, [b"%d" % at for at in range(100)], partition=0)
    for start, end in [(0, 40), (40, 41), (41, 90), (89, 90), (40, 90), (90, 100), (0, 100)]:
        rows = read(Span(topic, 0, start, end), max_poll_records=most)
        assert offsets(rows) == list(range(start, end))
        assert all(row.value == b"%d" % row.offset for row in rows)


def test_values_that_begin_alike_are_not_too_many(
    read: Callable[..., list[Any]], topics: Topics, topic: str
) -> None:
    topics.append(topic, [b"x" * 700_000] * 20, partition=0)
    rows = read(Span(topic, 0, 0, 20))
    assert all(row.value == b"x" * 700_000 for row in rows)
    assert max(row.of for row in rows) == 6  # four megabytes, were each there by itself


def test_a_chunk_has_some_thousand_records_or_a_megabyte(
    read: Callable[..., list[Any]], topics: Topics, topic: str
) -> None:
    topics.append(topic, [b"small"] * 9000, partition=0)
    topics.append(topic, [b"%d" % at + b"x" * 700_000 for at in range(5)], partition=1)
    rows = read(Span(topic, 0, 0, 9000), Span(topic, 1, 0, 5))
    assert {row.of for row in rows if row.partition == 0} == {4000, 1000}
    assert [row.of for row in rows if row.partition == 1] == [2, 2, 2, 2, 1]
    assert [row.offset for row in rows if row.partition == 0] == list(range(9000))
    assert all(len(row.value) == 700_001 for row in rows if row.partition == 1)


def test_offsets_that_are_no_records_are_gone_past(
    read: Callable[..., list[Any]], broker: Broker, topic: str
) -> None:
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
    # Three records and the mark of their transaction's end, three times.
    committed = read(Span(topic, 0, 0, 12), isolation_level="read_committed")
    assert [row.value for row in committed] == [b"a0", b"a1", b"a2", b"c0", b"c1", b"c2"]
    assert read(Span(topic, 0, 3, 8), isolation_level="read_committed") == []
    every = read(Span(topic, 0, 0, 12))
    assert offsets(every) == [0, 1, 2, 4, 5, 6, 8, 9, 10]


@pytest.mark.parametrize("start", [-2, 0, 4])
def test_what_was_deleted_is_gone_past(
    read: Callable[..., list[Any]], topics: Topics, topic: str, start: int
) -> None:
    topics.append(topic, [b"%d" % at for at in range(10)], partition=0)
    [deleted] = topics.admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    deleted.result()
    assert offsets(read(Span(topic, 0, start, 10))) == [6, 7, 8, 9]
    assert offsets(read(Span(topic, 0, start, 5))) == []


def test_timestamps_of_two_types_are_told_apart(
    read: Callable[..., list[Any]], topics: Topics, topic: str
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
    rows = read(Span(topic, 0, 0, 3))
    assert [(row.value, row.type) for row in rows] == [(b"made", 0), (b"made", 0), (b"appended", 1)]


def test_a_broker_that_gives_nothing_is_not_waited_for_without_end(
    read: Callable[..., list[Any]], topics: Topics, topic: str
) -> None:
    topics.append(topic, [b"one"], partition=0)
    with pytest.raises(Py4JJavaError, match=f"no record of {topic}-0 from offset 1 on, up to 5"):
        read(Span(topic, 0, 0, 5), patience_ms=1500)
    assert offsets(read(Span(topic, 0, 0, 1))) == [0]
