"""Records that a sink has to store again, although objects of their names exist: after a reset of
its offsets, and of a topic that was created again. And records that transforms route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import boto3
import pytest
from botocore.config import Config
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until
from tests.servers.object_store import INSTALL, ObjectStore, is_installed

WAIT_S: Final = 90.0

pytestmark = pytest.mark.timeout(400)


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
        yield resource.create_bucket(Bucket="again")
        resource.meta.client.close()


@pytest.fixture(scope="module")
def worker(shared_worker: WorkerProcess) -> WorkerProcess:
    return shared_worker


def config(bucket: Any, topics: str, folder: str, **changes: str) -> dict[str, str]:
    """Objects end every second."""
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": topics,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "s3.bucket.name": "again",
        "s3.region": "us-east-1",
        "store.url": bucket.meta.client.meta.endpoint_url,
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "topics.dir": folder,
        "flush.size": "1000",
        "rotate.schedule.interval.ms": "1000",
        "timezone": "UTC",
        "consumer.override.metadata.max.age.ms": "1000",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def stored(bucket: Any, folder: str) -> dict[str, list[int]]:
    return {
        each.key.removeprefix(f"{folder}/"): [
            json.loads(line)["id"] for line in each.get()["Body"].read().splitlines()
        ]
        for each in bucket.objects.filter(Prefix=f"{folder}/")
    }


def ids(bucket: Any, folder: str) -> list[int]:
    return sorted(number for found in stored(bucket, folder).values() for number in found)


def fill(topics: Topics, topic: str, numbers: range) -> None:
    topics.append(topic, (json.dumps({"id": number}).encode() for number in numbers))


def await_committed(topics: Topics, connector: str, topic: str, offset: int) -> None:
    wait_until(
        lambda: topics.committed(f"connect-{connector}", topic).get(0) == offset,
        WAIT_S,
        f"the commit of offset {offset}",
        poll_s=0.1,
    )


def test_after_a_reset_of_offsets_records_are_stored_again(
    worker: WorkerProcess, topics: Topics, bucket: Any
) -> None:
    topic = topics.create("reset")
    fill(topics, topic, range(10))
    worker.create("reset", config(bucket, topic, "reset"))
    await_committed(topics, "reset", topic, 10)
    [name] = stored(bucket, "reset")
    before = bucket.Object(f"reset/{name}").metadata
    worker.request("PUT", "/connectors/reset/stop")
    wait_until(lambda: worker.status("reset")["connector"]["state"] == "STOPPED", WAIT_S, "a stop")
    assert worker.request("DELETE", "/connectors/reset/offsets").status_code == 200
    fill(topics, topic, range(10, 13))
    worker.request("PUT", "/connectors/reset/resume")
    await_committed(topics, "reset", topic, 13)
    assert set(ids(bucket, "reset")) == set(range(13))
    after = bucket.Object(f"reset/{name}").metadata
    assert after["penstock-writer"] != before["penstock-writer"], "it was not written again"
    worker.request("DELETE", "/connectors/reset")


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "running"])
def test_the_records_of_a_topic_that_was_created_again_are_stored(
    worker: WorkerProcess, topics: Topics, bucket: Any, stopped: bool
) -> None:
    folder = f"created-{stopped}".lower()
    topic = topics.create(folder)
    fill(topics, topic, range(20))
    worker.create(folder, config(bucket, topic, folder))
    await_committed(topics, folder, topic, 20)
    assert set(ids(bucket, folder)) == set(range(20))
    if stopped:
        worker.request("PUT", f"/connectors/{folder}/stop")
        wait_until(lambda: worker.status(folder)["connector"]["state"] == "STOPPED", WAIT_S, "it")
    before = identity(topics, topic)
    for future in topics.admin.delete_topics([topic]).values():
        future.result(30)
    # A consumer that looks for its topic may create it again by itself.
    wait_until(lambda: is_new(topics, topic, before), WAIT_S, "another topic", poll_s=0.2)
    fill(topics, topic, range(100, 110))
    if stopped:
        worker.request("PUT", f"/connectors/{folder}/resume")
    wait_until(
        lambda: set(range(100, 110)) <= set(ids(bucket, folder)), WAIT_S, "objects", poll_s=0.3
    )
    worker.request("DELETE", f"/connectors/{folder}")


def identity(topics: Topics, topic: str) -> str | None:
    """The id of a topic; None if there is no such topic."""
    described = topics.admin.describe_topics(TopicCollection([topic]))[topic]
    try:
        return str(described.result(30).topic_id)
    except KafkaException:
        return None


def is_new(topics: Topics, topic: str, before: str | None) -> bool:
    """Whether a topic has been created again; creates it if it is missing."""
    if (current := identity(topics, topic)) is None:
        with suppress(KafkaException):  # the deletion is not complete
            topics.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        return False
    return current != before


def test_records_that_are_routed_are_stored_by_their_new_topics(
    worker: WorkerProcess, topics: Topics, bucket: Any
) -> None:
    names = [topics.create("routed-eins"), topics.create("routed-zwei")]
    for number, topic in enumerate(names):
        fill(topics, topic, range(100 * number, 100 * number + 7))
    routed = config(
        bucket,
        ",".join(names),
        "routed",
        transforms="route",
        transforms_route_type="org.apache.kafka.connect.transforms.RegexRouter",
        transforms_route_regex=".*",
        transforms_route_replacement="all",
        flush_size="3",
    )
    del routed["rotate.schedule.interval.ms"]
    worker.create("routed", routed)
    for topic in names:
        await_committed(topics, "routed", topic, 6)
    worker.request("DELETE", "/connectors/routed")
    found = stored(bucket, "routed")
    assert all(name.startswith("all/partition=0/all+") for name in found)
    assert ids(bucket, "routed") == [*range(6), *range(100, 106)]
