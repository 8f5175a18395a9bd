"""How a sink's batch is read: Kafka's records in chunks, some thousand to a row.

Spark's streaming source plans the batches and keeps the account of them; the records themselves are
read by `KafkaReading.java`, in Spark's tasks, one for each partition of a topic. Spark's own reader
makes a row of every record, of which its way to Python takes every one apart again; a chunk goes
that way as one row whose cells are the buffers of Arrow's columns (decision 14).
"""

from __future__ import annotations

import functools
import zipfile
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa

from penstock.data.columns import Cells
from penstock.data.records import Header, Records
from penstock.data.schema import BYTES
from penstock.flow.compiled import compiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK_DDL: Final = (
    "topic string, partition int, timestamp_type int, offsets binary, timestamps binary, "
    "keys_there binary, key_ends binary, keys binary, "
    "value_head binary, values_there binary, value_ends binary, values binary, "
    "headers_there binary, header_ends binary, headers binary"
)
"""Numbers are little-endian, of 8 bytes, and of 4 for what ends where. `…_there` is a bit for each
record and empty where none is null; the three of headers are empty where no record has any. What is
in `value_head` all values begin with; `values` are what follows."""

_PLANS: Final = 8  # kept: with many partitions every batch may be of another number of them
_PATIENCE_MS: Final = 120_000  # as Spark's reader has it
_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True)
class Span:
    """What of a partition is in a batch; a negative start means the first record there is."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition, in order."""

    records: Records
    timestamp_type: int


def prepare(spark: SparkSession, folder: Path) -> None:
    """Makes the JVMs of the driver and the executors know the reader; once, before it is used. Its
    archive is written to `folder`."""
    jvm: Any = spark._jvm
    classes = compiled(spark, "KafkaReading.java").getBytecodes()
    archive = folder / "kafka-reading.jar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as jar:
        for name in classes:
            jar.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
    context: Any = spark.sparkContext._jsc
    context.addJar(archive.as_uri())
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(
        jvm.java.net.URI.create(archive.as_uri()).toURL()
    )


class Reader:
    """Reads batches of spans one after the other, in the query's own session, which is set up for
    chunks. `kafka` are the consumer's settings in Java's names; `stage` makes of a frame of chunks
    what is wanted of them.

    Spark plans that once for as many spans as there are, and not for every batch, of which it would
    be a good part where the batch is small.
    """

    def __init__(
        self,
        spark: SparkSession,
        kafka: Mapping[str, str],
        stage: Callable[[DataFrame], DataFrame],
        patience_ms: int = _PATIENCE_MS,
    ) -> None:
        self._spark = spark
        self._kafka = dict(kafka)
        self._stage = stage
        self._patience_ms = patience_ms
        self._planned = functools.lru_cache(_PLANS)(self._plan)
        spark.conf.set(_PER_BATCH, "1")  # a chunk is an Arrow batch's worth

    def rows(self, spans: Sequence[Span]) -> list[Any]:
        """What `stage` makes of the chunks of these spans. Raises when Kafka gives nothing for
        `patience_ms`; what Kafka has no more, it goes past."""
        reading, frame = self._planned(len(spans))
        reading.tell(
            "\n".join(f"{each.partition} {each.start} {each.end} {each.topic}" for each in spans)
        )
        return frame.collect()

    def _plan(self, spans: int) -> tuple[Any, DataFrame]:
        """The frame that reads so many spans, with a partition for each of them and a row for each
        chunk, and what has to be told which."""
        from pyspark.sql import DataFrame

        jvm: Any = self._spark._jvm
        session: Any = self._spark._jsparkSession
        encoder = jvm.org.apache.spark.sql.Encoders.row(
            jvm.org.apache.spark.sql.types.StructType.fromDDL(_CHUNK_DDL)
        )
        numbers = session.range(0, spans, 1, spans)
        reading = jvm.penstock.KafkaReading(self._kafka, self._patience_ms)
        chunks = DataFrame(numbers.mapPartitions(reading, encoder), self._spark)
        return reading, self._stage(chunks)


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    """The chunks in the Arrow batches that a stage is given."""
    for batch in batches:
        for row in range(batch.num_rows):
            yield _chunk({name: batch.column(name)[row] for name in batch.schema.names})


def _chunk(cells: Mapping[str, pa.Scalar]) -> Chunk:
    topic, partition = cells["topic"].as_py(), cells["partition"].as_py()
    offsets = np.frombuffer(cells["offsets"].as_buffer(), "<i8").tolist()
    count = len(offsets)
    records = Records(
        topics=[topic] * count,
        partitions=[partition] * count,
        timestamps=np.frombuffer(cells["timestamps"].as_buffer(), "<i8").tolist(),
        keys=Cells(_strings(cells, "key", count), BYTES),
        values=Cells(_strings(cells, "value", count), BYTES, cells["value_head"].as_py()),
        offsets=offsets,
        headers=[
            [_header(each) for each in orjson.loads(text)] if text else []
            for text in _strings(cells, "header", count).to_pylist()
        ]
        if len(cells["header_ends"].as_buffer())
        else [],
    )
    return Chunk(records, cells["timestamp_type"].as_py())


def _strings(cells: Mapping[str, pa.Scalar], what: str, count: int) -> pa.Array:
    there = cells[f"{what}s_there"].as_buffer()
    buffers = [
        there if len(there) else None,
        cells[f"{what}_ends"].as_buffer(),
        cells[f"{what}s"].as_buffer(),
    ]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _header(cells: dict[str, str]) -> Header:
    value = cells.get("value")
    return Header(cells["key"], None if value is None else b64decode(value))
