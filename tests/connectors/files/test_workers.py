"""The file sinks on a real worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from botocore.config import Config

from penstock.connectors.files.hdfs import HdfsSink
from penstock.connectors.files.local import LocalFileSink
from penstock.connectors.files.objects import S3Sink
from penstock.connectors.files.stores.hadoop import Hadoop, HadoopOptions
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.hadoop import HadoopServer
from tests.servers.object_store import INSTALL, ObjectStore, is_installed

WAIT_S: Final = 240.0
RECORDS: Final = 100_000
PER_FILE: Final = 1_000  # divides the records of each partition, so that every file is complete
PARTITIONS: Final = 2
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"

SOAK = pytest.mark.soak  # test_kills.py kills workers that write local files and objects at once
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(90)]


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    """Tests kill it, and leave it running."""
    started = make_worker(
        key_converter=JSON,
        value_converter=JSON,
        value_converter_schemas_enable="false",
        offset_flush_interval_ms="500",
    ).start()
    started.await_rest()
    return started


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A new bucket in a new store."""
    if not is_installed():
        pytest.skip(f"{INSTALL} for an S3")
    with ObjectStore() as store:
        resource = boto3.resource(
            "s3",
            endpoint_url=store.url,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            config=Config(s3={"addressing_style": "path"}),
        )
        yield resource.create_bucket(Bucket="lake")
        resource.meta.client.close()


def filled(topics: Topics, name: str) -> str:
    """A topic with RECORDS records, spread evenly over its partitions."""
    topic = topics.create(name, PARTITIONS)
    for partition in range(PARTITIONS):
        numbers = range(partition, RECORDS, PARTITIONS)
        values = (json.dumps({"id": number}).encode() for number in numbers)
        topics.append(topic, values, partition=partition)
    return topic


def config(
    kind: type[LocalFileSink | S3Sink | HdfsSink], topic: str, **settings: str
) -> dict[str, str]:
    return {
        "connector.class": kind.plugin.class_name,
        "topics": topic,
        "tasks.max": str(PARTITIONS),
        "format.class": "JsonFormat",
        "flush.size": str(PER_FILE),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def check(files: dict[str, bytes], topic: str, *, ends: bool = False) -> None:
    """Checks that every record exists once, in order, in the file of its offset. `ends`: file
    names contain the last offset, too."""
    expected = {}
    for partition in range(PARTITIONS):
        numbers = range(partition, RECORDS, PARTITIONS)
        for start in range(0, len(numbers), PER_FILE):
            lines = "".join(f'{{"id":{number}}}\n' for number in numbers[start : start + PER_FILE])
            end = f"+{start + PER_FILE - 1:010}" if ends else ""
            name = f"{topic}/partition={partition}/{topic}+{partition}+{start:010}{end}.json"
            expected[f"topics/{name}"] = lines.encode()
    assert files.keys() == expected.keys()
    assert files == expected


@SOAK
def test_a_worker_that_is_killed_leaves_neither_gaps_nor_duplicates(
    worker: WorkerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = filled(topics, "killed-files")
    store = tmp_path / "store"
    worker.create("killed-files", config(LocalFileSink, topic, store_url=str(store)))

    def count() -> int:
        return sum(1 for _ in store.rglob("*+*.json"))

    total = RECORDS // PER_FILE
    for share in (0.1, 0.4, 0.7):
        wait_until(lambda: count() >= total * share, WAIT_S, "files", poll_s=0.01)  # noqa: B023
        worker.kill()
        worker.start().await_rest()

    def committed() -> bool:
        return sum(topics.committed("connect-killed-files", topic).values()) == RECORDS

    wait_until(committed, WAIT_S, "all offsets to be committed", poll_s=0.2)
    files = {
        str(file.relative_to(store)): file.read_bytes()
        for file in store.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }
    check(files, topic)
    worker.request("DELETE", "/connectors/killed-files")


def test_a_worker_that_is_killed_leaves_whole_files_in_hdfs(
    worker: WorkerProcess, topics: Topics
) -> None:
    topic = filled(topics, "hdfs-files")
    with HadoopServer() as server:
        hadoop = Hadoop(HadoopOptions(server.url))
        worker.create("hdfs-files", config(HdfsSink, topic, store_url=server.url))

        def count() -> int:
            return sum(1 for _ in hadoop.names(f"/topics/{topic}"))

        total = RECORDS // PER_FILE
        wait_until(lambda: count() >= total * 0.3, WAIT_S, "files", poll_s=0.1)
        worker.kill()
        worker.start().await_rest()

        def committed() -> bool:
            return sum(topics.committed("connect-hdfs-files", topic).values()) == RECORDS

        wait_until(committed, WAIT_S, "all offsets to be committed", poll_s=0.2)
        files = {
            f"{folder.path}/{name}".removeprefix("/"): hadoop.read(f"{folder.path}/{name}")
            for folder in hadoop.entries(f"/topics/{topic}")
            for name in hadoop.names(folder.path)
        }
        check(files, topic, ends=True)
        worker.request("DELETE", "/connectors/hdfs-files")
        wait_until(lambda: not worker.status("hdfs-files"), WAIT_S, "the sink to be deleted")
        hadoop.close()


def test_a_topic_becomes_objects(worker: WorkerProcess, topics: Topics, bucket: Any) -> None:
    topic = filled(topics, "objects")
    settings = config(
        S3Sink,
        topic,
        s3_bucket_name=bucket.name,
        s3_region="us-east-1",
        store_url=bucket.meta.client.meta.endpoint_url,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        storage_class="io.confluent.connect.s3.storage.S3Storage",
    )
    worker.create("objects", settings)

    def committed() -> bool:
        return sum(topics.committed("connect-objects", topic).values()) == RECORDS

    wait_until(committed, WAIT_S, "all offsets to be committed", poll_s=0.2)
    check({each.key: each.get()["Body"].read() for each in bucket.objects.all()}, topic)
    worker.request("DELETE", "/connectors/objects")
