"""The sources of S3, against moto's server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, ClassVar

import boto3
import pytest
from botocore.config import Config

from penstock.api import (
    DataError,
    Header,
    Offsets,
    Records,
    SourceOffset,
    TopicPartition,
    Unavailable,
)
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.files.objects import AivenS3Source, S3Sink, S3Source
from penstock.connectors.files.settings.s3 import s3_source_plan
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from tests.servers.object_store import INSTALL, FaultyProxy, ObjectStore, is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason=f"{INSTALL} for an S3")

BUCKET = "penstock-sources"
NUMBERS = count()
KEY = struct({"id": INT64}, name="key")
ROW = struct({"id": INT64, "name": STRING}, name="row")


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture(scope="module")
def client(store: ObjectStore) -> Iterator[Any]:
    client = boto3.client(
        "s3",
        endpoint_url=store.url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}),
    )
    client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(store.port)
    yield proxy
    proxy.close()


def settings(url: str, **changes: str) -> dict[str, str]:
    return {
        "s3.bucket.name": BUCKET,
        "s3.region": "us-east-1",
        "store.url": url,
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "s3.part.retries": "0",
        "s3.poll.interval.ms": "1",
        "topics.dir": f"test-{next(NUMBERS)}",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def generic(url: str, **changes: str) -> dict[str, str]:
    return settings(url, mode="GENERIC", topic_regex_list="rows:(?s).*", **changes)


def put(client: Any, props: dict[str, str], name: str, content: bytes) -> str:
    key = f"{props['topics.dir']}/{name}"
    client.put_object(Bucket=BUCKET, Key=key, Body=content)
    return key


def lines(numbers: range) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in numbers)


def read(
    props: dict[str, str], stored: Offsets = (), tasks: int = 1, most: int = 1 << 20
) -> tuple[list[Records], list[SourceOffset]]:
    """All existing records, and their offsets."""
    connector = S3Source()
    batches: list[Records] = []
    known = {repr(each.partition): each for each in stored}
    for task in connector.plan_tasks(S3Source.plugin.config.parse(props), tasks):
        reader = connector.open(
            S3Source.plugin.config.parse(task), SourceContextStub(list(known.values()))
        )
        try:
            while (polled := reader.poll(most, 0)) is not None:
                batches.append(polled.records)
                known.update((repr(each.partition), each) for each in polled.offsets)
        finally:
            reader.close()
    return batches, list(known.values())


def values(batches: list[Records]) -> list[Any]:
    return [value for records in batches for value in records.values.values]


class _Case(SourceConformance):
    resumes_within_polls = True
    url: ClassVar[str]
    client: ClassVar[Any]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _store(cls, store: ObjectStore, client: Any) -> None:
        cls.url, cls.client = store.url, client

    @pytest.fixture(autouse=True)
    def _root(self) -> None:
        self.root = f"conformance-{next(NUMBERS)}"


class TestRestoring(_Case):
    connector = S3Source
    bad_configs = (
        ({"s3.bucket.name": None}, "s3.bucket.name"),
        ({"store.url": "localhost:9000"}, "store.url"),
        ({"format.class": None}, "format.class"),
        ({"format.class": "XmlFormat"}, "format.class"),
        ({"mode": "BACKUP"}, "mode"),
        ({"mode": "GENERIC"}, "topic.regex.list"),
        ({"topic.regex.list": "a"}, "topic.regex.list"),
        ({"topic.regex.list": "a:("}, "topic.regex.list"),
        ({"behavior.on.error": "panic"}, "behavior.on.error"),
        (
            {"behavior.on.error": "log", "parse.error.topic.prefix": "error"},
            "parse.error.topic.prefix",
        ),
        ({"aws.secret.access.key": ""}, "aws.secret.access.key"),
    )

    def config(self) -> dict[str, str]:
        return settings(self.url, topics_dir=self.root)

    def add(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, 5):
            content = lines(range(start, min(start + 5, numbers.stop)))
            name = f"{self.root}/rows/partition=0/rows+0+{start:010}.json"
            self.client.put_object(Bucket=BUCKET, Key=name, Body=content)


class TestGeneric(_Case):
    connector = S3Source

    def config(self) -> dict[str, str]:
        return generic(self.url, topics_dir=self.root)

    def add(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, 5):
            content = lines(range(start, min(start + 5, numbers.stop)))
            name = f"{self.root}/a b%+ü/x&{start:010}"
            self.client.put_object(Bucket=BUCKET, Key=name, Body=content)


class TestAiven(_Case):
    connector = AivenS3Source
    bad_configs = (
        ({"aws.s3.bucket.name": None}, "aws.s3.bucket.name"),
        ({"aws.s3.endpoint": "localhost"}, "aws.s3.endpoint"),
        ({"file.name.template": None}, "file.name.template"),
        ({"file.name.template": "("}, "file.name.template"),
        ({"file.name.template": ".*", "topic": ""}, "topic"),
        ({"file.name.template": ".*", "distribution.type": "partition"}, "file.name.template"),
        ({"input.format": "xml"}, "input.format"),
        ({"aws.secret.access.key": ""}, "aws.secret.access.key"),
    )

    def config(self) -> dict[str, str]:
        return {
            "aws.s3.bucket.name": BUCKET,
            "aws.s3.endpoint": self.url,
            "aws.s3.prefix": f"{self.root}/",
            "aws.access.key.id": "key",
            "aws.secret.access.key": "secret",
            "topic": "rows",
            "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}",
            "input.format": "jsonl",
            "penstock.poll.interval.ms": "1",
        }

    def add(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, 5):
            content = lines(range(start, min(start + 5, numbers.stop)))
            name = f"{self.root}/rows-0-{start:06}.jsonl"
            self.client.put_object(Bucket=BUCKET, Key=name, Body=content)


def written(props: dict[str, str], records: Records, **changes: str) -> None:
    """Writes records with the sink."""
    given = {
        **{name: props[name] for name in props if not name.startswith(("s3.poll", "mode"))},
        "flush.size": "3",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    config = S3Sink.plugin.config.parse(given)
    writer = S3Sink().open(config, SinkContextStub())
    writer.assigned({TopicPartition("rows", 3): 0})
    failed: dict[int, Exception] = {}
    writer.write(records, failed)
    writer.flush()
    assert not failed
    writer.close()


@pytest.mark.parametrize("format", ["Json", "Avro", "Parquet"])
@pytest.mark.parametrize("partitioner", ["DefaultPartitioner", "FieldPartitioner"])
def test_objects_of_the_sink_are_restored(
    store: ObjectStore, client: Any, format: str, partitioner: str
) -> None:
    props = settings(
        store.url,
        format_class=f"{format}Format",
        partitioner_class=partitioner,
        store_kafka_keys="true",
        keys_format_class=f"{format}Format",
        store_kafka_headers="true",
        headers_format_class=f"{format}Format",
    )
    rows = [{"id": number, "name": f"n{number % 2}"} for number in range(12)]
    records = Records.of(
        "rows",
        rows,
        keys=[{"id": number} for number in range(12)],
        schema=ROW,
        key_schema=KEY,
        timestamps=[1_000] * 12,
        headers=[[Header("h", f"v{number}", STRING)] for number in range(12)],
    )
    records.partitions = [3] * 12
    records.offsets = list(range(12))
    written(props, records, partition_field_name="name")

    batches, _ = read(props)
    back = sorted(
        (
            (key["id"], value, list(headers), topic, partition)
            for each in batches
            for key, value, headers, topic, partition in zip(
                each.keys.values,
                each.values.values,
                each.headers,
                each.topics,
                each.partitions,
                strict=True,
            )
        ),
        key=lambda row: row[0],
    )
    assert [row[0] for row in back] == list(range(12))
    assert [row[1] for row in back] == rows
    assert [[(h.name, h.value) for h in row[2]] for row in back] == [
        [("h", f"v{number}")] for number in range(12)
    ]
    assert {row[3:] for row in back} == {("rows", 3)}


def test_tombstones_come_back_between_the_values(store: ObjectStore) -> None:
    props = settings(store.url, store_kafka_keys="true", keys_format_class="JsonFormat")
    cells: list[Any] = [{"v": 1}, None, {"v": 2}, None, {"v": 3}]
    records = Records.of("rows", cells, keys=["a", "a", "a", "b", "b"], key_schema=STRING)
    records.partitions = [3] * 5
    records.offsets = list(range(5))
    written(props, records, flush_size="1", behavior_on_null_values="write")

    batches, _ = read(props)
    pairs = [
        pair for each in batches for pair in zip(each.keys.values, each.values.values, strict=True)
    ]
    assert pairs == [("a", {"v": 1}), ("a", None), ("a", {"v": 2}), ("b", None), ("b", {"v": 3})]


def test_files_of_a_partition_are_read_by_one_task_in_the_order_of_offsets(
    store: ObjectStore, client: Any
) -> None:
    props = settings(store.url, partitioner_class="FieldPartitioner")
    for start in range(0, 40, 2):
        folder = f"rows/name=n{start * 7 % 3}"
        put(client, props, f"{folder}/rows+0+{start:010}.json", lines(range(start, start + 2)))
    batches, _ = read(props, tasks=3)
    assert [value["id"] for value in values(batches)] == list(range(40))


def test_a_large_object_is_read_in_blocks(store: ObjectStore, client: Any) -> None:
    props = generic(store.url)
    put(client, props, "large", lines(range(1_000_000)))  # 14 MB
    batches, stored = read(props)
    ids = [value["id"] for value in values(batches)]
    assert ids == list(range(1_000_000))
    assert values(read(props, stored)[0]) == []


def test_many_objects_are_listed_page_by_page(store: ObjectStore, client: Any) -> None:
    props = generic(store.url)
    for number in range(1_050):
        put(client, props, f"{number:05}", lines(range(number, number + 1)))
    batches, _ = read(props, tasks=2)
    assert sorted(value["id"] for value in values(batches)) == list(range(1_050))


def test_a_store_that_is_unreachable_for_a_while_costs_and_repeats_nothing(
    store: ObjectStore, client: Any, proxy: FaultyProxy
) -> None:
    props = generic(proxy.url)
    for number in range(20):
        put(client, props, f"{number:02}", lines(range(number * 10, number * 10 + 10)))
    connector, config = S3Source(), S3Source.plugin.config.parse(props)
    reader = connector.open(config, SourceContextStub())
    faults = 0
    seen: list[int] = []
    for turn in range(400):
        kind = ("answer SlowDown 503", None, "lose")[turn % 3]
        proxy.fault = lambda method, path, kind=kind: kind  # type: ignore[misc]
        try:
            polled = reader.poll(100, 0)
        except Unavailable:
            faults += 1
            continue
        if polled is None:
            if len(seen) == 200:
                break
            continue
        seen += [value["id"] for value in polled.records.values.values]
    reader.close()
    assert faults
    assert seen == list(range(200))


def test_an_object_that_is_replaced_while_it_is_read_is_reported(
    store: ObjectStore, client: Any
) -> None:
    props = generic(store.url)
    key = put(client, props, "a", lines(range(1_000_000)))
    reader = S3Source().open(S3Source.plugin.config.parse(props), SourceContextStub())
    assert reader.poll(1 << 20, 0) is not None
    client.put_object(Bucket=BUCKET, Key=key, Body=lines(range(1_000_001)))
    with pytest.raises(DataError, match=rf"'{key}' cannot be read.*was replaced"):
        all(reader.poll(1 << 20, 0) for _ in range(20))
    reader.close()


@pytest.mark.parametrize(
    ("behavior", "expected"), [("fail", [0, 1]), ("log", [0, 1, 3, 4]), ("ignore", [0, 1, 3, 4])]
)
def test_a_bad_record_follows_behavior_on_error(
    store: ObjectStore, client: Any, behavior: str, expected: list[int]
) -> None:
    props = generic(store.url, behavior_on_error=behavior)
    put(client, props, "a", lines(range(2)) + b"{nonsense}\n" + lines(range(3, 5)))
    reader = S3Source().open(S3Source.plugin.config.parse(props), SourceContextStub())
    ids: list[int] = []
    error: Exception | None = None
    try:
        while (polled := reader.poll(1 << 20, 0)) is not None:
            ids += [value["id"] for value in polled.records.values.values]
    except DataError as raised:
        error = raised
    reader.close()
    assert ids == expected
    assert (error is not None) == (behavior == "fail")
    if error is not None:
        assert "Line 3" in str(error)
        assert "behavior.on.error=log" in str(error)


def test_an_object_of_another_format_is_reported_with_its_name(
    store: ObjectStore, client: Any
) -> None:
    props = generic(store.url, format_class="ParquetFormat")
    key = put(client, props, "a", b"no parquet at all")
    with pytest.raises(DataError, match=rf"'{key}' cannot be read"):
        read(props)
    batches, stored = read({**props, "behavior.on.error": "log"})
    assert values(batches) == []
    assert json.loads(json.dumps(dict(stored[0].offset or {})))["error"]


def test_offsets_are_those_of_confluents_source(store: ObjectStore, client: Any) -> None:
    props = settings(store.url)
    folder = f"{props['topics.dir']}/rows/partition=0/"
    for start in (0, 5):
        put(
            client,
            props,
            f"rows/partition=0/rows+0+{start:010}.json",
            lines(range(start, start + 5)),
        )
    _, stored = read(props)
    offset = {"lastFileRead": f"{folder}rows+0+0000000005.json", "fileOffset": "5", "eof": "true"}
    assert stored == [SourceOffset({"folder": folder}, offset)]
    begun = {"lastFileRead": f"{folder}rows+0+0000000000.json", "fileOffset": "3", "eof": "false"}
    batches, _ = read(props, [SourceOffset({"folder": folder}, begun)])
    assert [value["id"] for value in values(batches)] == list(range(3, 10))


def test_problems_are_reported_at_their_setting(store: ObjectStore) -> None:
    def findings(**changes: str) -> list[str]:
        config = S3Source.plugin.config.parse(settings(store.url) | changes)
        return [each.setting for each in S3Source().validate_live(config)]

    assert findings() == []
    assert findings(**{"s3.bucket.name": "no-such-bucket"}) == ["s3.bucket.name"]
    assert findings(**{"store.url": "http://127.0.0.1:1"}) == ["store.url"]


def test_settings_of_the_sink_are_accepted(store: ObjectStore) -> None:
    props = settings(
        store.url,
        flush_size="3",
        rotate_interval_ms="1",
        path_format="'year'=YYYY",
        partitioner_class="io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
    )
    assert s3_source_plan(S3Source.plugin.config.parse(props)).finding.order is not None
