"""Workers killed PENSTOCK_KILLS times at random moments while they write files.

A million records go to objects in a store, as Parquet partitioned by a field, and to files in a
folder, as JSON partitioned by a time in the record; once more to files of topics that transforms
make from the timestamp. A third-party tool then reads them. `make soak` kills fifty times; a seed
in its output repeats the moments.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any, Final

import boto3
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from botocore.config import Config
from pyarrow import fs

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.object_store import INSTALL, ObjectStore, is_installed

KILLS: Final = int(os.environ.get("PENSTOCK_KILLS", "2"))
SEED: Final = int(os.environ.get("PENSTOCK_SOAK_SEED", "0")) or random.SystemRandom().getrandbits(
    32
)
RECORDS: Final = 20_000 * max(KILLS, 5)
PARTITIONS: Final = 2
PER_CUT: Final = 500
WAIT_S: Final = 180.0
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "country", "type": "string"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
    ],
}
START_MS: Final = 1_700_000_000_000

pytestmark = [pytest.mark.timeout(300 + 60 * KILLS), pytest.mark.slow(90)]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    if not is_installed():
        pytest.skip(f"{INSTALL} for an S3")
    with ObjectStore() as store:
        client = boto3.client(
            "s3",
            endpoint_url=store.url,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(s3={"addressing_style": "path"}),
        )
        client.create_bucket(Bucket="lake")
        client.close()
        yield store


def filled(topics: Topics) -> str:
    """A topic with RECORDS records: their numbers go to the partitions in turn; the minute and the
    country change now and then."""
    topic = topics.create("kills", PARTITIONS)
    schema = json.dumps(SCHEMA)
    for partition in range(PARTITIONS):
        topics.append(
            topic,
            (
                f'{{"schema":{schema},"payload":{{"id":{number},"country":"c{number // 7 % 5}",'
                f'"at":{START_MS + number * 10}}}}}'.encode()
                for number in range(partition, RECORDS, PARTITIONS)
            ),
            partition=partition,
        )
    return topic


def test_killed_workers_leave_neither_a_gap_nor_a_duplicate(
    make_worker: Callable[..., WorkerProcess], topics: Topics, store: ObjectStore, tmp_path: Path
) -> None:
    sys.stderr.write(f"PENSTOCK_SOAK_SEED={SEED}\n")
    chance = random.Random(SEED)
    topic = filled(topics)

    def started() -> WorkerProcess:
        worker = make_worker(
            value_converter=JSON,
            key_converter="org.apache.kafka.connect.storage.StringConverter",
            offset_flush_interval_ms="300",
            scheduled_rebalance_max_delay_ms="0",
        ).start()
        worker.await_rest()
        return worker

    common = {"topics": topic, "tasks.max": str(PARTITIONS), "flush.size": str(PER_CUT)}
    objects = {
        **common,
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "s3.bucket.name": "lake",
        "s3.region": "us-east-1",
        "store.url": store.url,
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "country",
    }
    folder = tmp_path / "files"
    files = {
        **common,
        "connector.class": "io.penstock.files.LocalFileSinkConnector",
        "store.url": str(folder),
        "format.class": "JsonFormat",
        "partitioner.class": "HourlyPartitioner",
        "timezone": "Europe/Berlin",
        "timestamp.extractor": "RecordField",
        "timestamp.field": "at",
        "rotate.interval.ms": "60000",
    }
    routed_folder = tmp_path / "routed"
    routed = {
        **common,
        "connector.class": "io.penstock.files.LocalFileSinkConnector",
        "store.url": str(routed_folder),
        "format.class": "JsonFormat",
        "transforms": "route,tenths",
        "transforms.route.type": "org.apache.kafka.connect.transforms.TimestampRouter",
        "transforms.route.topic.format": "${topic}-${timestamp}",
        "transforms.route.timestamp.format": "SSS",
        "transforms.tenths.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.tenths.regex": "(.*-.).*",
        "transforms.tenths.replacement": "$1",
    }
    connectors = {"kills-objects": objects, "kills-files": files, "kills-routed": routed}
    worker = started()
    for name, config in connectors.items():
        worker.create(name, config)

    def committed() -> int:
        return min(sum(topics.committed(f"connect-{name}", topic).values()) for name in connectors)

    for kill in range(KILLS):
        wanted = RECORDS * kill // (KILLS + 1) // 2 + 1
        wait_until(lambda: committed() >= wanted, WAIT_S, "more offsets", poll_s=0.05)  # noqa: B023
        Event().wait(chance.uniform(0, 0.5))
        worker.kill()
        worker = started()
    wait_until(lambda: committed() == RECORDS, WAIT_S, "all offsets to be committed", poll_s=0.2)
    for name in connectors:
        worker.request("DELETE", f"/connectors/{name}")
    worker.stop()

    s3 = fs.S3FileSystem(
        access_key="key",
        secret_key="secret",
        endpoint_override=store.url,
        region="us-east-1",
    )
    found = ds.dataset(f"lake/topics/{topic}", filesystem=s3, format="parquet").to_table()
    assert_each_once(found["id"])
    assert len(list(Path(routed_folder, "topics").iterdir())) > 1
    for root in (folder, routed_folder):
        lines = [
            json.loads(line)
            for file in root.rglob("*.json")
            if not file.name.startswith(".")
            for line in file.read_text().splitlines()
        ]
        assert_each_once(pa.chunked_array([pa.array([line["id"] for line in lines], pa.int64())]))


def assert_each_once(ids: Any) -> None:
    counts = pc.value_counts(ids)
    assert len(ids) == RECORDS, f"{len(ids)} records instead of {RECORDS}"
    assert len(counts) == RECORDS
    assert pc.min_max(ids).as_py() == {"min": 0, "max": RECORDS - 1}
