"""The S3 sink, against moto's server."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BytesIO
from itertools import count
from typing import Any, ClassVar

import boto3
import pyarrow.parquet as pq
import pytest
from botocore.config import Config

from penstock.api import Failed, PenstockError, Records, TaskId, TopicPartition, Unavailable
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.files.objects import S3Sink
from penstock.connectors.files.settings.s3 import S3_SINK, s3_options
from penstock.connectors.files.stores.s3 import S3Client
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable
from penstock.connectors.files.stores.uploads import ObjectStore as WrittenStore
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.routed import routed
from tests.servers.object_store import INSTALL, FaultyProxy, ObjectStore, is_installed

pytestmark = pytest.mark.skipif(not is_installed(), reason=f"{INSTALL} for an S3")

BUCKET = "penstock-tests"
ROW = struct({"id": INT64, "name": STRING}, name="row")
PADDED = struct({"id": INT64, "name": STRING, "pad": STRING}, name="row")
PART = 5_242_880
NUMBERS = count()


def client_for(store: ObjectStore) -> Any:
    """The tests' own client."""
    return boto3.client(
        "s3",
        endpoint_url=store.url,
        region_name="us-west-2",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}),
    )


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        client = client_for(running)
        client.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
        )
        client.close()
        yield running


@pytest.fixture
def proxy(store: ObjectStore) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(store.port)
    yield proxy
    proxy.close()


@pytest.fixture
def client(store: ObjectStore) -> Iterator[Any]:
    client = client_for(store)
    yield client
    client.close()


def settings(url: str, **changes: str) -> dict[str, str]:
    return {
        "s3.bucket.name": BUCKET,
        "store.url": url,
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "aws.access.key.id": "key",
        "aws.secret.access.key": "secret",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "flush.size": "3",
        "s3.part.retries": "0",
        "topics.dir": f"test-{next(NUMBERS)}",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }


def objects(client: Any, root: str) -> dict[str, bytes]:
    """The bucket's objects, by name within `topics.dir`."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{root}/")
    names = [each["Key"] for page in pages for each in page.get("Contents", ())]
    return {
        name.removeprefix(f"{root}/"): client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        for name in names
    }


def uploads(client: Any, root: str) -> list[str]:
    """Incomplete uploads."""
    found = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())
    return [each["Key"] for each in found if each["Key"].startswith(f"{root}/")]


class TestS3(SinkConformance):
    connector = S3Sink
    idempotent = True
    ordered = False
    url: ClassVar[str]
    bad_configs = (
        ({"s3.bucket.name": None}, "s3.bucket.name"),
        ({"store.url": "localhost:9000"}, "store.url"),
        ({"format.class": None}, "format.class"),
        ({"s3.part.size": "1000"}, "s3.part.size"),
        ({"aws.secret.access.key": ""}, "aws.secret.access.key"),
        ({"s3.ssea.name": "ROT13"}, "s3.ssea.name"),
        ({"s3.acl.canned": "everybody"}, "s3.acl.canned"),
        ({"s3.credentials.provider.class": "com.example.Vault"}, "s3.credentials.provider.class"),
        (
            {"s3.credentials.provider.class": "AwsAssumeRoleCredentialsProvider"},
            "s3.credentials.provider.sts.role.arn",
        ),
        ({"s3.wan.mode": "true"}, "s3.wan.mode"),
        ({"s3.compression.type": "lzo"}, "s3.compression.type"),
        ({"flush.size": None}, "flush.size"),
    )

    @pytest.fixture(autouse=True)
    def _store(
        self, store: ObjectStore, proxy: FaultyProxy, client: Any, request: pytest.FixtureRequest
    ) -> None:
        self.proxy, self.client = proxy, client
        # The proxy is in this process, whose open files are counted.
        name = request.node.name
        url = proxy.url if "unreachable" in name or "fatal" in name else store.url
        self.given = settings(url, flush_size="1", errors_tolerance="all")

    def config(self) -> dict[str, str]:
        return self.given

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        kind = ROW if schema else None
        return records_of(rows, schema=kind, keys=list(numbers), first=numbers.start)

    def contents(self) -> list[Any]:
        found = objects(self.client, self.given["topics.dir"])
        return [json.loads(line) for name in sorted(found) for line in found[name].splitlines()]

    def bad_records(self) -> Records | None:
        return records_of([{"id": 1, "name": "\ud800"}, {"id": 2, "name": "\udfff"}], schema=ROW)

    def unreachable_target(self) -> AbstractContextManager[object] | None:
        return self._answering("SlowDown 503")

    def refusing_target(self) -> AbstractContextManager[object] | None:
        return self._answering("AccessDenied 403")

    @contextmanager
    def _answering(self, error: str) -> Iterator[None]:
        """The store answers every request with an error."""
        self.proxy.fault = lambda method, path: f"answer {error}"
        try:
            yield
        finally:
            self.proxy.fault = lambda method, path: None


AT = TopicPartition("orders", 7)


class Task:
    """A writer, called as a worker calls it."""

    def __init__(self, props: dict[str, str], start: int = 0, connector: str = "connector") -> None:
        self.root = props["topics.dir"]
        config = S3_SINK.parse(props)
        self.context = SinkContextStub(TaskId(connector, 0))
        self.writer = S3Sink().open(config, self.context)
        self.writer.assigned({AT: start})
        self.reached = start

    def write(self, first: int, stop: int, size: int = 0, time: int | None = None) -> None:
        chance = random.Random(first)
        rows = [
            {"id": number, "name": chance.randbytes(size).hex() if size else f"row {number}"}
            for number in range(first, stop)
        ]
        records = records_of(rows, schema=ROW, topic=AT.topic, first=first)
        records.partitions = [AT.partition] * len(records)
        if time is not None:
            records.timestamps = [time] * len(records)
        failed: Failed = {}
        self.writer.write(records, failed)
        assert failed == {}
        self.reached = stop

    def committed(self) -> int | None:
        self.writer.flush()
        return self.writer.pre_commit({AT: self.reached}).get(AT)

    def close(self) -> None:
        self.writer.close()


def ids(data: bytes) -> list[int]:
    return [json.loads(line)["id"] for line in data.splitlines()]


def test_names_are_those_of_confluent(store: ObjectStore, client: Any) -> None:
    props = settings(
        store.url,
        format_class="io.confluent.connect.s3.format.parquet.ParquetFormat",
        partitioner_class="io.confluent.connect.storage.partitioner.HourlyPartitioner",
        timestamp_extractor="Record",
        timezone="UTC",
    )
    task = Task(props)
    task.write(0, 6)
    assert task.committed() == 6
    task.close()
    found = objects(client, task.root)
    folder = "orders/year=2023/month=11/day=14/hour=22"
    assert sorted(found) == [
        f"{folder}/orders+7+0000000000.snappy.parquet",
        f"{folder}/orders+7+0000000003.snappy.parquet",
    ]
    rows = pq.ParquetFile(BytesIO(found[sorted(found)[1]])).read().to_pylist()
    assert [row["id"] for row in rows] == [3, 4, 5]


def test_large_objects_are_uploaded_in_parts(proxy: FaultyProxy, client: Any) -> None:
    props = settings(proxy.url, flush_size="2000", s3_part_size=str(PART))
    task = Task(props)
    for first in range(0, 2000, 100):
        task.write(first, first + 100, size=3000)
    assert task.committed() == 2000
    task.close()
    (data,) = objects(client, task.root).values()
    assert ids(data) == list(range(2000))
    parts = [path for method, path in proxy.requests if method == "PUT" and "partNumber=" in path]
    assert len(parts) == len(data) // PART + 1
    assert uploads(client, task.root) == []


def test_objects_have_tags_encryption_storage_class_and_acl(
    store: ObjectStore, client: Any
) -> None:
    props = settings(
        store.url,
        s3_object_tagging="true",
        s3_ssea_name="AES256",
        penstock_s3_storage_class="STANDARD_IA",
        s3_compression_type="gzip",
        s3_acl_canned="public-read",
        flush_size="2",
    )
    task = Task(props)
    task.write(0, 2)
    assert task.committed() == 2
    task.close()
    name = f"{task.root}/orders/partition=7/orders+7+0000000000.json.gz"
    found = client.get_object(Bucket=BUCKET, Key=name)
    assert found["ServerSideEncryption"] == "AES256"
    assert found["StorageClass"] == "STANDARD_IA"
    assert ids(gzip.decompress(found["Body"].read())) == [0, 1]
    tags = client.get_object_tagging(Bucket=BUCKET, Key=name)["TagSet"]
    assert {each["Key"]: each["Value"] for each in tags} == {
        "startOffset": "0",
        "endOffset": "1",
        "recordCount": "2",
    }
    grants = client.get_object_acl(Bucket=BUCKET, Key=name)["Grants"]
    assert any(each["Permission"] == "READ" for each in grants)


def test_bytes_of_many_open_objects_wait_in_files(store: ObjectStore, client: Any) -> None:
    props = settings(
        store.url,
        flush_size="3000",
        partitioner_class="FieldPartitioner",
        partition_field_name="name",
    )
    writer = S3Sink().open(S3_SINK.parse(props), SinkContextStub())
    writer.assigned({AT: 0})
    for first in range(0, 3000, 600):
        rows = [
            {
                "id": number,
                "name": f"{number % 60}",
                "pad": "y" * 30_000 if number % 60 < 3 else "",
            }
            for number in range(first, first + 600)
        ]
        records = records_of(rows, schema=PADDED, topic=AT.topic, first=first)
        records.partitions = [AT.partition] * len(records)
        writer.write(records, {})
    writer.flush()
    assert writer.pre_commit({AT: 3000}) == {AT: 3000}
    writer.close()
    found = objects(client, props["topics.dir"])
    assert len(found) == 60
    for name, data in found.items():
        number = int(name.split("name=")[1].split("/")[0])
        assert ids(data) == list(range(number, 3000, 60))


@pytest.mark.parametrize(
    "fault", ["answer SlowDown 503", "answer InternalError 500", "cut", "lose"]
)
def test_faults_are_tried_again_and_leave_no_half_object(
    fault: str, proxy: FaultyProxy, client: Any
) -> None:
    chance = random.Random(fault)
    props = settings(proxy.url, flush_size="500", s3_part_size=str(PART))
    task = Task(props)
    proxy.fault = lambda method, path: fault if chance.random() < 0.4 else None
    rows = 0
    for _ in range(300):
        try:
            if rows < 2000:
                task.write(rows, rows + 100, size=8000)
                rows += 100
            elif task.committed() == 2000:
                break
        except Unavailable:
            pass
        for data in objects(client, task.root).values():
            assert len(ids(data)) == 500
    task.close()
    proxy.fault = lambda method, path: None
    found = objects(client, task.root)
    assert [row for name in sorted(found) for row in ids(found[name])] == list(range(2000))


def scheduled(url: str, **changes: str) -> dict[str, str]:
    """Files end by the clock, or after four records."""
    return settings(
        url,
        flush_size="4",
        rotate_schedule_interval_ms="3600000",
        timezone="UTC",
        **changes,
    )


def test_objects_are_stored_by_the_topic_that_a_transform_gives_to_records(
    store: ObjectStore, client: Any
) -> None:
    props = settings(store.url, flush_size="2", topics="orders,returns")
    task = Task(props)
    returns = TopicPartition("returns", AT.partition)
    task.writer.assigned({returns: 0})
    failed: Failed = {}
    for offset in range(5):  # one poll each
        rows = records_of([{"id": offset, "name": ""}], schema=ROW, first=offset)
        task.writer.write(routed(rows, ["all", "orders-2024"], AT), failed)
        rows = records_of([{"id": 10 + offset, "name": ""}], schema=ROW, first=offset)
        task.writer.write(routed(rows, ["all"], returns), failed)
    task.writer.flush()
    task.writer.revoked(frozenset({AT, returns}), lost=False)
    allowed = task.writer.pre_commit({AT: 5, returns: 5})
    task.close()
    assert failed == {}
    assert allowed == {AT: 4, returns: 4}
    found = objects(client, task.root)
    assert {name: ids(data) for name, data in found.items()} == {
        "all/partition=7/all+orders+7+0000000000.json": [0],
        "orders-2024/partition=7/orders-2024+orders+7+0000000001.json": [1],
        "all/partition=7/all+orders+7+0000000002.json": [2],
        "orders-2024/partition=7/orders-2024+orders+7+0000000003.json": [3],
        "all/partition=7/all+returns+7+0000000000.json": [10, 11],
        "all/partition=7/all+returns+7+0000000002.json": [12, 13],
    }


def test_objects_of_another_task_are_neither_replaced_nor_repeated(
    store: ObjectStore, client: Any
) -> None:
    props = scheduled(store.url)
    first = Task(props)
    first.write(0, 4)
    first.writer.flush()
    first.close()  # killed before its offsets are committed
    second = Task({**props, "flush.size": "3"})
    second.write(0, 6)
    with suppress(Unavailable):
        second.committed()
    assert second.context.sought == [{AT: 0}]
    second.write(0, 7)
    assert second.committed() == 7
    second.close()
    found = objects(client, second.root)
    assert [ids(found[name]) for name in sorted(found)] == [[0, 1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("what", ["lineage", "timestamp", "connector"])
def test_an_object_of_another_origin_is_replaced_whatever_its_name(
    store: ObjectStore, client: Any, what: str
) -> None:
    """Offsets were reset, or the topic was created again."""
    props = scheduled(store.url)
    first = Task(props)
    first.write(0, 4)
    assert first.committed() == 4
    first.close()
    connector = "other" if what == "connector" else "connector"
    time = 5 if what == "timestamp" else None
    second = Task({**props, "flush.size": "3"}, connector=connector)
    if what == "lineage":
        second.context.lineages[AT] = "2"
    second.write(0, 3, time=time)
    assert second.committed() == 3
    second.close()
    assert second.context.sought == []
    assert list(map(ids, objects(client, second.root).values())) == [[0, 1, 2]]
    third = Task(props, connector=connector)
    third.context.lineages[AT] = second.context.lineage(AT)
    third.write(0, 4, time=time)
    with suppress(Unavailable):
        third.committed()
    assert third.context.sought == [{AT: 0}], "the object that replaced it is not recognized"
    third.close()


def test_an_object_of_a_task_that_began_later_is_not_replaced(
    store: ObjectStore, client: Any
) -> None:
    props = scheduled(store.url)
    later = Task(props)
    later.context.lineages[AT] = "2"
    later.write(0, 4)
    assert later.committed() == 4
    zombie = Task({**props, "flush.size": "2"})
    zombie.write(0, 2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="began later"):
            zombie.committed()
    assert zombie.context.sought == []
    zombie.close()
    later.close()
    assert list(map(ids, objects(client, later.root).values())) == [[0, 1, 2, 3]]


def test_an_object_that_changes_while_it_is_replaced_is_looked_at_again(
    proxy: FaultyProxy, store: ObjectStore, client: Any
) -> None:
    props = scheduled(store.url)
    old = Task(props)
    old.write(0, 4)
    old.committed()
    old.close()
    task = Task({**props, "store.url": proxy.url})
    rival = Task({**props, "flush.size": "3"})
    for each in (task, rival):
        each.context.lineages[AT] = "2"
    puts: list[str] = []

    def fault(method: str, path: str) -> str | None:
        if method == "PUT":
            puts.append(path)
            if len(puts) == 2:  # the existing object was looked at
                rival.write(0, 3)
                assert rival.committed() == 3
        return None

    proxy.fault = fault
    task.write(0, 4)
    with suppress(Unavailable):
        task.committed()
    assert task.context.sought == [{AT: 0}]
    task.close()
    rival.close()
    assert list(map(ids, objects(client, task.root).values())) == [[0, 1, 2]]


def test_an_object_that_was_stored_before_its_answer_was_lost_is_its_writers_own(
    proxy: FaultyProxy, client: Any
) -> None:
    task = Task(scheduled(proxy.url))
    lost = iter([True])
    proxy.fault = lambda method, path: "lose" if method == "PUT" and next(lost, False) else None
    task.write(0, 4)
    with pytest.raises(Unavailable):
        task.committed()
    assert task.committed() == 4
    assert task.context.sought == []
    task.close()
    assert list(map(ids, objects(client, task.root).values())) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("conditional", ["true", "false"])
def test_an_object_that_does_not_say_where_it_ends_is_replaced(
    store: ObjectStore, client: Any, conditional: str
) -> None:
    task = Task(scheduled(store.url, enable_conditional_writes=conditional))
    name = f"{task.root}/orders/partition=7/orders+7+0000000000.json"
    client.put_object(Bucket=BUCKET, Key=name, Body=b'{"id":0}\n')
    task.write(0, 4)
    assert task.committed() == 4
    task.close()
    assert list(map(ids, objects(client, task.root).values())) == [[0, 1, 2, 3]]


def test_a_store_without_conditions_is_written_without_them(
    proxy: FaultyProxy, client: Any
) -> None:
    task = Task(scheduled(proxy.url))
    refused = iter([True])
    proxy.fault = lambda method, path: (
        "answer NotImplemented 501" if method == "PUT" and next(refused, False) else None
    )
    task.write(0, 4)
    assert task.committed() == 4
    task.close()
    assert list(map(ids, objects(client, task.root).values())) == [[0, 1, 2, 3]]


def test_a_dropped_file_is_removed(proxy: FaultyProxy, client: Any) -> None:
    task = Task(settings(proxy.url, flush_size="100000", s3_part_size=str(PART)))
    for first in range(0, 800, 100):
        task.write(first, first + 100, size=8000)
    task.close()
    assert objects(client, task.root) == {}
    assert uploads(client, task.root) == []


def test_without_a_bucket_a_task_fails(store: ObjectStore) -> None:
    task = Task(settings(store.url, s3_bucket_name="nobodys-bucket"))
    task.write(0, 3)
    with pytest.raises(StoreRefused, match=r"Bucket 'nobodys-bucket' at .*NoSuchBucket, 404"):
        task.committed()
    task.close()


def findings(props: dict[str, str]) -> dict[str, str | None]:
    reported = S3Sink().validate_live(S3_SINK.parse(props))
    return {each.setting: each.error for each in reported}


def test_a_bucket_that_can_be_written_has_no_findings(store: ObjectStore, client: Any) -> None:
    props = settings(store.url)
    assert findings(props) == {}
    assert objects(client, props["topics.dir"]) == {}
    assert uploads(client, props["topics.dir"]) == []


def test_a_missing_bucket_is_reported(store: ObjectStore) -> None:
    (reported,) = findings(settings(store.url, s3_bucket_name="nobodys-bucket")).items()
    assert reported[0] == "s3.bucket.name"
    assert "The specified bucket does not exist (NoSuchBucket, 404)" in (reported[1] or "")


@pytest.mark.parametrize(
    ("answer", "setting"),
    [
        ("InvalidAccessKeyId 403", "aws.access.key.id"),
        ("SignatureDoesNotMatch 403", "aws.secret.access.key"),
        ("AccessDenied 403", "s3.bucket.name"),
        ("IllegalLocationConstraintException 400", "s3.region"),
        ("SlowDown 503", "store.url"),
    ],
)
def test_refusals_by_the_store_are_reported(answer: str, setting: str, proxy: FaultyProxy) -> None:
    proxy.fault = lambda method, path: f"answer {answer}"
    reported = findings(settings(proxy.url))
    assert list(reported) == [setting]
    assert answer.split()[0] in (reported[setting] or "")


def test_a_missing_store_is_reported() -> None:
    reported = findings(settings("http://127.0.0.1:9"))
    assert list(reported) == ["store.url"]
    assert "does not answer" in (reported["store.url"] or "")


def test_a_role_is_assumed(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", store.url)
    props = settings(
        store.url,
        s3_credentials_provider_class="io.confluent.connect.s3.auth.AwsAssumeRoleCredentialsProvider",
        s3_credentials_provider_sts_role_arn="arn:aws:iam::123456789012:role/writer",
    )
    assert findings(props) == {}


def test_credentials_are_found_in_the_environment_and_in_profiles(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    props = settings(store.url)
    del props["aws.access.key.id"], props["aws.secret.access.key"]
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    assert "Unable to locate credentials" in (findings(props)["s3.bucket.name"] or "")
    (tmp_path / "credentials").write_text(
        "[writer]\naws_access_key_id = a\naws_secret_access_key = b\n"
    )
    assert findings({**props, "penstock.s3.profile": "writer"}) == {}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert findings(props) == {}
    options = s3_options(S3_SINK.parse({**props, "penstock.s3.profile": "nobodys"}), "name")
    with pytest.raises(PenstockError, match="nobodys"):
        WrittenStore(S3Client(options)).check("x")


def test_a_name_the_store_does_not_take_yet_is_tried_again(proxy: FaultyProxy) -> None:
    task = Task(settings(proxy.url))
    proxy.fault = lambda method, path: "answer SlowDown 503"
    task.write(0, 3)
    with pytest.raises(StoreUnavailable):
        task.committed()
    proxy.fault = lambda method, path: None
    assert task.committed() == 3
    task.close()
