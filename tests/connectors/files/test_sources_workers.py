"""The file sources on a real worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from botocore.config import Config

from penstock.connectors.files.local_source import LocalFileSource
from penstock.connectors.files.objects import S3Sink, S3Source
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.object_store import INSTALL, ObjectStore, is_installed

WAIT_S: Final = 240.0
FILES: Final = 40
PER_FILE: Final = 5_000
ROWS: Final = 60
PARTITIONS: Final = 2
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"

SOAK = pytest.mark.soak
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(110)]


@pytest.fixture(scope="module")
def worker(make_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    """Tests kill it, and leave it running."""
    started = make_worker(
        key_converter=JSON,
        key_converter_schemas_enable="false",
        value_converter=JSON,
        value_converter_schemas_enable="false",
        offset_flush_interval_ms="500",
        exactly_once_source_support="enabled",
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


@pytest.mark.parametrize(
    "policy", [pytest.param("NONE", marks=SOAK), "MOVE", pytest.param("DELETE", marks=SOAK)]
)
def test_a_worker_that_is_killed_while_it_reads_neither_loses_nor_repeats(
    worker: WorkerProcess, topics: Topics, tmp_path: Path, policy: str
) -> None:
    name = f"killed-{policy.lower()}"
    topic = topics.create(name, PARTITIONS)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(FILES):
        begin = number * PER_FILE
        lines = (f'{{"id":{each}}}\n' for each in range(begin, begin + PER_FILE))
        (folder / f"{number:03} %+ü.json").write_text("".join(lines))
    worker.create(
        name,
        {
            "connector.class": LocalFileSource.plugin.class_name,
            "tasks.max": "2",
            "topic": topic,
            "format.class": "JsonFormat",
            "input.path": str(folder),
            "cleanup.policy": policy,
            "finished.path": str(tmp_path / "done"),
            "exactly.once.support": "required",
        },
    )
    for share in (0.05, 0.5):
        wait_until(
            lambda: topics.count(topic) >= FILES * PER_FILE * share,  # noqa: B023
            WAIT_S,
            "records",
            poll_s=0.01,
        )
        worker.kill()
        worker.start().await_rest()

    def ids() -> list[int]:
        return sorted(json.loads(each.value or b"")["id"] for each in topics.read(topic))

    wait_until(lambda: len(ids()) >= FILES * PER_FILE, WAIT_S, "all records", poll_s=0.5)
    assert ids() == list(range(FILES * PER_FILE))
    left = {"NONE": FILES, "MOVE": 0, "DELETE": 0}[policy]
    wait_until(lambda: len(list(folder.iterdir())) == left, WAIT_S, f"{left} files", poll_s=0.1)
    assert len(list((tmp_path / "done").glob("*"))) == (FILES if policy == "MOVE" else 0)
    worker.request("DELETE", f"/connectors/{name}")


def test_a_topic_that_became_objects_comes_back(
    worker: WorkerProcess, topics: Topics, bucket: Any
) -> None:
    topic = topics.create("lake", PARTITIONS)
    for number in range(ROWS):
        topics.append(
            topic,
            [json.dumps({"id": number}).encode()],
            key=json.dumps({"k": number % 7}).encode(),
            partition=number % PARTITIONS,
            headers=[("number", f"h {number}".encode())],
        )
    rows = topics.count(topic)
    shared = {
        "s3.bucket.name": bucket.name,
        "s3.region": "us-east-1",
        "store.url": bucket.meta.client.meta.endpoint_url,
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "store.kafka.keys": "true",
        "keys.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "store.kafka.headers": "true",
        "headers.format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "tasks.max": str(PARTITIONS),
    }
    worker.create(
        "to-lake",
        {
            **shared,
            "connector.class": S3Sink.plugin.class_name,
            "topics": topic,
            "flush.size": "5",
        },
    )
    wait_until(
        lambda: sum(topics.committed("connect-to-lake", topic).values()) == rows,
        WAIT_S,
        "all offsets to be committed",
        poll_s=0.2,
    )
    back = topics.create("lake-back", PARTITIONS)
    worker.create(
        "from-lake",
        {
            **shared,
            "connector.class": S3Source.plugin.class_name,
            "s3.poll.interval.ms": "500",
            "transforms": "back",
            "transforms.back.type": "org.apache.kafka.connect.transforms.RegexRouter",
            "transforms.back.regex": "(.*)",
            "transforms.back.replacement": "$1-back",
        },
    )

    def stored(name: str) -> list[tuple[Any, ...]]:
        cells = [
            (
                each.partition,
                json.loads(each.key or b""),
                json.loads(each.value or b""),
                each.headers,
            )
            for each in topics.read(name)
        ]
        return sorted(cells, key=lambda cell: cell[0])  # a partition keeps its order

    wait_until(lambda: len(stored(back)) >= rows, WAIT_S, "all records", poll_s=0.5)
    assert stored(back) == stored(topic)
    for name in ("to-lake", "from-lake"):
        worker.request("DELETE", f"/connectors/{name}")
