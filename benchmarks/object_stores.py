"""Topics into objects of a store, next to a loop written by hand in a single process with
confluent-kafka, orjson, pyarrow or fastavro, and boto3.

The store is moto's server, on the same two cores. Kafka Connect has no such connector of its own.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import boto3
import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.config import Config
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from benchmarks.inputs import JSON, PARTITIONS, SCHEMAS, Kind, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import JSON_WITH_SCHEMAS, Load, Note, Scenario, note_curve
from benchmarks.watching import peak_memory, watch
from penstock.testing.topics import Topics
from tests.servers.object_store import ObjectStore

_SINK: Final = "io.confluent.connect.s3.S3SinkConnector"
_PER_FILE: Final = 100_000
_AT_ONCE: Final = 10_000  # records that the loop by hand consumes
_QUIET_S: Final = 30.0
_SCHEMALESS: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_COLUMNS: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("city", pa.string()),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("active", pa.bool_(), nullable=False),
    ]
)
_AVRO: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": "string"},
            {"name": "city", "type": ["null", "string"]},
            {"name": "score", "type": "double"},
            {"name": "active", "type": "boolean"},
        ],
    }
)

Rows = Sequence[bytes]


def _json_file(values: Rows) -> bytes:
    return b"\n".join([orjson.dumps(orjson.loads(value)) for value in values]) + b"\n"


def _parquet_file(values: Rows) -> bytes:
    rows = [orjson.loads(value)["payload"] for value in values]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, _COLUMNS), out, compression="snappy")
    return out.getvalue()


def _avro_file(values: Rows) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, _AVRO, [orjson.loads(value)["payload"] for value in values])
    return out.getvalue()


def _json_ids(data: bytes) -> list[int]:
    return [orjson.loads(line)["id"] for line in data.splitlines()]


def _parquet_ids(data: bytes) -> list[int]:
    ids: list[int] = pq.read_table(io.BytesIO(data), columns=["id"])["id"].to_pylist()
    return ids


def _avro_ids(data: bytes) -> list[int]:
    return [row["id"] for row in fastavro.reader(io.BytesIO(data))]  # type: ignore[index, call-overload, misc]


@dataclass(frozen=True, slots=True)
class Form:
    """A format: penstock's settings, the encoder of a user's loop, and the reader for checks."""

    kind: Kind
    settings: Mapping[str, str]
    by_hand: Callable[[Rows], bytes]
    ids: Callable[[bytes], list[int]]


_FORMS: Final[Mapping[str, Form]] = {
    "json": Form(JSON, {"format.class": "JsonFormat", **_SCHEMALESS}, _json_file, _json_ids),
    "parquet": Form(
        SCHEMAS, {"format.class": "ParquetFormat", **JSON_WITH_SCHEMAS}, _parquet_file, _parquet_ids
    ),
    "avro": Form(
        SCHEMAS, {"format.class": "AvroFormat", **JSON_WITH_SCHEMAS}, _avro_file, _avro_ids
    ),
}


def _into_objects(form: Form) -> Callable[[Session, Load, Note], None]:
    def measure(session: Session, load: Load, note: Note) -> None:
        topic = load.topic(form.kind)
        if load.records % (PARTITIONS * _PER_FILE):
            raise ValueError(f"--records has to be a multiple of {PARTITIONS * _PER_FILE:,} here")
        rate = None
        for run in ("cold", "warm"):
            with ObjectStore() as store:
                client = _client(store)
                client.create_bucket(Bucket="bench")
                name = session.name("objects")
                config = {
                    **form.settings,
                    "connector.class": _SINK,
                    "topics": topic,
                    "tasks.max": str(PARTITIONS),
                    "flush.size": str(_PER_FILE),
                    "s3.bucket.name": "bench",
                    "s3.region": "us-east-1",
                    "store.url": store.url,
                    "aws.access.key.id": "key",
                    "aws.secret.access.key": "secret",
                    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
                }

                def stored(name: str = name) -> int:
                    return sum(session.topics.committed(f"connect-{name}", topic).values())

                with (
                    peak_memory(session.worker.pid) as peak,
                    session.running({name: config}) as began,
                ):
                    curve = watch(stored, load.records, began, load.timeout_s, session.check)
                _check(_objects(client), form, load.records)
                client.close()
            note_curve(note, run, curve)
            rate = curve.rate
            note("memory_mb" if run == "warm" else "cold.memory_mb", max(peak))
        with ObjectStore() as store:
            client = _client(store)
            client.create_bucket(Bucket="bench")
            began = time.monotonic()
            _loop_by_hand(session.topics, topic, form, client)
            hand = load.records / (time.monotonic() - began)
            _check(_objects(client), form, load.records)
            client.close()
        note("hand", hand)
        note("share", None if rate is None else rate / hand)

    return measure


def _loop_by_hand(topics: Topics, topic: str, form: Form, client: Any) -> None:
    """A user's loop: one process that reads, collects, encodes and uploads."""
    ends = topics.ends(topic)
    consumer = Consumer(
        {
            "bootstrap.servers": topics.bootstrap,
            "group.id": "bench-by-hand",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    pending: dict[int, list[bytes]] = {partition: [] for partition in ends}
    starts = dict.fromkeys(ends, 0)
    remaining = sum(ends.values())
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
        deadline = time.monotonic() + _QUIET_S
        while remaining:
            messages = consumer.consume(_AT_ONCE, 0.5)
            if messages:
                deadline = time.monotonic() + _QUIET_S
            elif time.monotonic() > deadline:
                raise WrongOutcome(f"{remaining:,} records of '{topic}' could not be read")
            for message in messages:
                number = message.partition() or 0
                pending[number].append(message.value() or b"")
                remaining -= 1
                if len(pending[number]) == _PER_FILE:
                    key = f"topics/{topic}/partition={number}/{topic}+{number}+{starts[number]:010}"
                    client.put_object(Bucket="bench", Key=key, Body=form.by_hand(pending[number]))
                    starts[number] += _PER_FILE
                    pending[number] = []
    finally:
        consumer.close()


def _client(store: ObjectStore) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=store.url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}),
    )


def _objects(client: Any) -> Iterator[bytes]:
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="bench"):
        for item in page.get("Contents", ()):
            yield client.get_object(Bucket="bench", Key=item["Key"])["Body"].read()


def _check(objects: Iterator[bytes], form: Form, records: int) -> None:
    """Raises WrongOutcome unless every record is stored once."""
    ids = np.sort(np.concatenate([np.array(form.ids(data), np.int64) for data in objects]))
    if not np.array_equal(ids, np.arange(records)):
        raise WrongOutcome(f"{records:,} records were to be stored, {len(ids):,} are there")


SCENARIOS: Final = tuple(
    Scenario(
        f"s3-{name}",
        f"topic → S3, {name}",
        _into_objects(form),
        {"offset.flush.interval.ms": "200"},  # offsets tell how much is stored
        alone=True,
    )
    for name, form in _FORMS.items()
)
