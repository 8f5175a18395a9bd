"""The sinks to Google Cloud Storage and Azure Blob Storage, against a small server of each."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from requests import RequestException

from penstock.api import Failed, Records, TaskId, TopicPartition, Unavailable
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.files.objects import AivenGcsSink, GcsSink
from penstock.connectors.files.stores.gcs import GcsClient, GcsOptions
from penstock.connectors.files.stores.store import StoreRefused, StoreUnavailable
from penstock.flow.traces import trace_of
from penstock.testing.conformance import SinkConformance, records_of
from penstock.testing.contexts import SinkContextStub
from penstock.testing.waiting import wait_until
from tests.servers.object_store import FaultyProxy

from .cloud_stores import AZURE, BUCKET, GCS, AzureObjects, GcsObjects, Kind, Running, running

pytestmark = pytest.mark.slow(100)

ROW = struct({"id": INT64, "name": STRING}, name="row")
PART = 5_242_880
AT = TopicPartition("orders", 7)


@pytest.fixture(scope="module")
def gcs() -> Iterator[Running]:
    with running(GCS) as store:
        yield store


@pytest.fixture(scope="module")
def azure() -> Iterator[Running]:
    with running(AZURE) as store:
        yield store


@pytest.fixture(params=["gcs", "azure"])
def store(request: pytest.FixtureRequest) -> Running:
    found: Running = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxy(store: Running) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(store.port)
    yield proxy
    proxy.close()


class _Case(SinkConformance):
    kind: ClassVar[Kind]
    idempotent = True
    ordered = False

    @pytest.fixture(autouse=True)
    def _store(self, request: pytest.FixtureRequest) -> Iterator[None]:
        self.running: Running = request.getfixturevalue(self.kind.name)
        self.proxy = FaultyProxy(self.running.port)
        # The proxy is in this process, whose open files are counted.
        name = request.node.name
        url = self.proxy.url if "unreachable" in name or "fatal" in name else self.running.url
        self.given = self.kind.settings(url, flush_size="1", errors_tolerance="all")
        yield
        self.proxy.close()

    def config(self) -> dict[str, str]:
        return self.given

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        kind = ROW if schema else None
        return records_of(rows, schema=kind, keys=list(numbers), first=numbers.start)

    def contents(self) -> list[Any]:
        found = self.running.objects.under(self.given["topics.dir"])
        return [json.loads(line) for name in sorted(found) for line in found[name].splitlines()]

    def bad_records(self) -> Records | None:
        return records_of([{"id": 1, "name": "\ud800"}, {"id": 2, "name": "\udfff"}], schema=ROW)

    def unreachable_target(self) -> AbstractContextManager[object] | None:
        return self._answering("ServerBusy 503")

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


class TestGcs(_Case):
    kind = GCS
    connector = GCS.sink
    bad_configs = (
        ({"gcs.bucket.name": None}, "gcs.bucket.name"),
        ({"store.url": "localhost:9000"}, "store.url"),
        ({"format.class": None}, "format.class"),
        ({"gcs.part.size": "1000"}, "gcs.part.size"),
        ({"gcs.credentials.json": "{"}, "gcs.credentials.json"),
        ({"gcs.credentials.path": "/key.json"}, "penstock.gcs.anonymous"),
        ({"gcs.compression.type": "lzo"}, "gcs.compression.type"),
        ({"gcs.proxy.url": "proxy"}, "gcs.proxy.url"),
        ({"flush.size": None}, "flush.size"),
    )


class TestAivenGcs(_Case):
    kind = GCS
    connector = AivenGcsSink
    idempotent = False
    bad_configs = (
        ({"gcs.bucket.name": None}, "gcs.bucket.name"),
        ({"gcs.endpoint": "localhost:9000"}, "gcs.endpoint"),
        ({"file.name.template": "x"}, "file.name.template"),
        ({"file.max.records": "-1"}, "file.max.records"),
    )

    def config(self) -> dict[str, str]:
        return {
            "gcs.bucket.name": BUCKET,
            "gcs.endpoint": self.given["store.url"],
            "gcs.credentials.default": "false",
            "gcs.retry.backoff.max.attempts": "1",
            "file.name.prefix": f"{self.given['topics.dir']}/",
            "file.compression.type": "none",
            "format.output.type": "jsonl",
            "format.output.fields": "value",
            "format.output.envelope": "false",
            "errors.tolerance": "all",
        }


class TestAzure(_Case):
    kind = AZURE
    connector = AZURE.sink
    bad_configs = (
        ({"azblob.account.name": None}, "azblob.account.name"),
        ({"azblob.account.name": "a-b"}, "azblob.account.name"),
        ({"azblob.account.key": "no base64!"}, "azblob.account.key"),
        ({"azblob.account.key": None}, "azblob.account.key"),
        ({"azblob.sas.token": "sv=1"}, "azblob.sas.token"),
        ({"azblob.container.name": "a_b"}, "azblob.container.name"),
        ({"azblob.block.size": "1000"}, "azblob.block.size"),
        ({"azblob.retry.type": "NEVER"}, "azblob.retry.type"),
        ({"store.url": "localhost:9000"}, "store.url"),
        ({"az.compression.type": "lzo"}, "az.compression.type"),
        ({"flush.size": None}, "flush.size"),
    )


class Task:
    """A writer, called as a worker calls it."""

    def __init__(
        self, kind: Kind, props: dict[str, str], start: int = 0, connector: str = "connector"
    ) -> None:
        self.root = props["topics.dir"]
        self.context = SinkContextStub(TaskId(connector, 0))
        self.writer = kind.sink().open(kind.sink.plugin.config.parse(props), self.context)
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


def test_names_are_those_of_confluent(store: Running) -> None:
    props = store.kind.settings(
        store.url,
        flush_size="3",
        format_class="io.confluent.connect.gcs.format.parquet.ParquetFormat",
        partitioner_class="io.confluent.connect.storage.partitioner.HourlyPartitioner",
        timestamp_extractor="Record",
        timezone="UTC",
    )
    task = Task(store.kind, props)
    task.write(0, 6)
    assert task.committed() == 6
    task.close()
    found = store.objects.under(task.root)
    folder = "orders/year=2023/month=11/day=14/hour=22"
    assert sorted(found) == [
        f"{folder}/orders+7+0000000000.snappy.parquet",
        f"{folder}/orders+7+0000000003.snappy.parquet",
    ]
    rows = pq.ParquetFile(BytesIO(found[sorted(found)[1]])).read().to_pylist()
    assert [row["id"] for row in rows] == [3, 4, 5]


def test_large_objects_are_uploaded_in_parts(store: Running, proxy: FaultyProxy) -> None:
    props = store.kind.settings(proxy.url, flush_size="2000")
    task = Task(store.kind, {**props, store.kind.part: str(PART)})
    for first in range(0, 2000, 100):
        task.write(first, first + 100, size=3000)
    assert store.objects.under(task.root) == {}
    assert task.committed() == 2000
    task.close()
    (data,) = store.objects.under(task.root).values()
    assert ids(data) == list(range(2000))
    sent = [path for method, path in proxy.requests if method == "PUT"]
    parts = [path for path in sent if "upload_id=" in path or "comp=block&" in path]
    # Google's parts are sequential, so the last one has what came meanwhile.
    assert 2 <= len(parts) <= len(data) // PART + 1


def test_an_object_may_end_with_its_last_full_part(store: Running) -> None:
    props = store.kind.settings(
        store.url,
        flush_size="2",
        format_class="ByteArrayFormat",
        format_bytearray_separator="",
    )
    kind = store.kind
    writer = kind.sink().open(
        kind.sink.plugin.config.parse({**props, kind.part: str(PART)}), SinkContextStub()
    )
    writer.assigned({AT: 0})
    for number in range(2):
        records = records_of([bytes([number]) * PART], topic=AT.topic, first=number)
        records.partitions = [AT.partition]
        writer.write(records, {})
    writer.flush()
    assert writer.pre_commit({AT: 2}) == {AT: 2}
    writer.close()
    (data,) = store.objects.under(props["topics.dir"]).values()
    assert data == bytes(PART) + bytes([1]) * PART


def test_the_session_of_an_upload_that_fails_is_in_no_trace(gcs: Running) -> None:
    """Whoever knows its upload_id can write the object without credentials."""
    proxy = FaultyProxy(gcs.port)
    store = GcsClient(GcsOptions(BUCKET, proxy.url, anonymous=True))
    upload = store.begin("a")
    proxy.fault = lambda method, path: "cut"
    with pytest.raises(RequestException):
        upload.abort()
    (session,) = {path.partition("upload_id=")[2] for _, path in proxy.requests if "id=" in path}
    proxy.close()
    with pytest.raises(RequestException) as failure:
        upload.abort()
    store.close()
    assert session in str(failure.value), "the client quotes the address"
    shown = trace_of(failure.value).text
    assert session not in shown
    assert "upload_id=[hidden]" in shown


@pytest.mark.parametrize("fault", ["answer ServerBusy 503", "answer Broken 500", "cut", "lose"])
def test_faults_are_tried_again_and_leave_no_half_object(
    fault: str, store: Running, proxy: FaultyProxy
) -> None:
    chance = random.Random(fault)
    props = store.kind.settings(proxy.url, flush_size="500")
    task = Task(store.kind, {**props, store.kind.part: str(PART)})
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
        for data in store.objects.under(task.root).values():
            assert len(ids(data)) == 500
    task.close()
    found = store.objects.under(task.root)
    assert [row for name in sorted(found) for row in ids(found[name])] == list(range(2000))


def test_requests_are_repeated_at_once(store: Running, proxy: FaultyProxy) -> None:
    props = store.kind.settings(proxy.url, flush_size="3")
    task = Task(store.kind, {**props, store.kind.retries: "3", "gcs.retry.backoff.ms": "1"})
    left = iter([True, True])
    proxy.fault = lambda method, path: "answer ServerBusy 503" if next(left, False) else None
    task.write(0, 3)
    assert task.committed() == 3
    task.close()


def test_files_are_compressed(store: Running) -> None:
    key = "gcs.compression.type" if store.kind is GCS else "az.compression.type"
    task = Task(store.kind, {**store.kind.settings(store.url, flush_size="2"), key: "gzip"})
    task.write(0, 2)
    assert task.committed() == 2
    task.close()
    ((name, data),) = store.objects.under(task.root).items()
    assert name == "orders/partition=7/orders+7+0000000000.json.gz"
    assert ids(gzip.decompress(data)) == [0, 1]


def scheduled(store: Running, url: str, **changes: str) -> dict[str, str]:
    """Files end by the clock, or after four records."""
    about = {"rotate_schedule_interval_ms": "3600000", "timezone": "UTC", "flush_size": "4"}
    return store.kind.settings(url, **about | changes)


def test_objects_of_another_task_are_neither_replaced_nor_repeated(store: Running) -> None:
    props = scheduled(store, store.url)
    first = Task(store.kind, props)
    first.write(0, 4)
    first.writer.flush()
    first.close()  # killed before its offsets are committed
    second = Task(store.kind, {**props, "flush.size": "3"})
    second.write(0, 6)
    with suppress(Unavailable):
        second.committed()
    assert second.context.sought == [{AT: 0}]
    second.write(0, 7)
    assert second.committed() == 7
    second.close()
    found = store.objects.under(second.root)
    assert [ids(found[name]) for name in sorted(found)] == [[0, 1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("what", ["lineage", "timestamp", "connector"])
def test_an_object_of_another_origin_is_replaced_whatever_its_name(
    store: Running, what: str
) -> None:
    """Offsets were reset, or the topic was created again."""
    props = scheduled(store, store.url)
    first = Task(store.kind, props)
    first.write(0, 4)
    assert first.committed() == 4
    first.close()
    connector = "other" if what == "connector" else "connector"
    time = 5 if what == "timestamp" else None
    second = Task(store.kind, {**props, "flush.size": "3"}, connector=connector)
    if what == "lineage":
        second.context.lineages[AT] = "2"
    second.write(0, 3, time=time)
    assert second.committed() == 3
    second.close()
    assert second.context.sought == []
    assert list(map(ids, store.objects.under(second.root).values())) == [[0, 1, 2]]
    third = Task(store.kind, props, connector=connector)
    third.context.lineages[AT] = second.context.lineage(AT)
    third.write(0, 4, time=time)
    with suppress(Unavailable):
        third.committed()
    assert third.context.sought == [{AT: 0}], "the object that replaced it is not recognized"
    third.close()


def test_an_object_of_a_task_that_began_later_is_not_replaced(store: Running) -> None:
    props = scheduled(store, store.url)
    later = Task(store.kind, props)
    later.context.lineages[AT] = "2"
    later.write(0, 4)
    assert later.committed() == 4
    zombie = Task(store.kind, {**props, "flush.size": "2"})
    zombie.write(0, 2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="began later"):
            zombie.committed()
    assert zombie.context.sought == []
    zombie.close()
    later.close()
    assert list(map(ids, store.objects.under(later.root).values())) == [[0, 1, 2, 3]]


def test_an_object_that_changes_while_it_is_replaced_is_looked_at_again(
    proxy: FaultyProxy, store: Running
) -> None:
    props = scheduled(store, store.url)
    old = Task(store.kind, props)
    old.write(0, 4)
    old.committed()
    old.close()
    task = Task(
        store.kind, {**props, **scheduled(store, proxy.url), "topics.dir": props["topics.dir"]}
    )
    rival = Task(store.kind, {**props, "flush.size": "3"})
    for each in (task, rival):
        each.context.lineages[AT] = "2"
    puts: list[str] = []

    def fault(method: str, path: str) -> str | None:
        if method in ("PUT", "POST"):
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
    assert list(map(ids, store.objects.under(task.root).values())) == [[0, 1, 2]]


def test_an_object_that_was_stored_before_its_answer_was_lost_is_its_writers_own(
    store: Running, proxy: FaultyProxy
) -> None:
    props = {**scheduled(store, proxy.url), "gcs.part.retries": "1"}
    task = Task(store.kind, props)
    lost = iter([True])
    proxy.fault = lambda method, path: (
        "lose" if method in ("PUT", "POST") and next(lost, False) else None
    )
    task.write(0, 4)
    assert task.committed() == 4
    assert task.context.sought == []
    task.close()
    assert list(map(ids, store.objects.under(task.root).values())) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("conditional", ["true", "false"])
def test_an_object_that_does_not_say_where_it_ends_is_replaced(
    store: Running, conditional: str
) -> None:
    task = Task(store.kind, scheduled(store, store.url, penstock_conditional_writes=conditional))
    name = f"{task.root}/orders/partition=7/orders+7+0000000000.json"
    store.objects.put(name, b'{"id":0}\n')
    task.write(0, 4)
    assert task.committed() == 4
    task.close()
    assert list(map(ids, store.objects.under(task.root).values())) == [[0, 1, 2, 3]]


def test_a_dropped_upload_leaves_no_object(store: Running) -> None:
    props = store.kind.settings(store.url, flush_size="100000")
    task = Task(store.kind, {**props, store.kind.part: str(PART)})
    for first in range(0, 800, 100):
        task.write(first, first + 100, size=8000)
    task.close()
    assert store.objects.under(task.root) == {}


def test_blocks_that_another_writer_has_discarded_are_written_again(azure: Running) -> None:
    props = azure.kind.settings(azure.url, flush_size="1000")
    task = Task(AZURE, {**props, AZURE.part: str(PART)})
    for first in range(0, 900, 100):
        task.write(first, first + 100, size=8000)
    name = f"{task.root}/orders/partition=7/orders+7+0000000000.json"
    objects = azure.objects
    assert isinstance(objects, AzureObjects)
    wait_until(lambda: objects.has_uncommitted_blocks(name), 30, "the first block's upload")
    objects.put(name, b"of another writer")
    task.write(900, 1000, size=8000)
    task.committed()
    assert task.context.sought == [{AT: 0}]
    task.write(0, 1000, size=10)
    assert task.committed() == 1000
    task.close()
    assert list(map(ids, azure.objects.under(task.root).values())) == [list(range(1000))]


def test_without_a_bucket_a_task_fails(store: Running) -> None:
    props = store.kind.settings(store.url, flush_size="3")
    task = Task(store.kind, {**props, store.kind.bucket: "nobodys-bucket"})
    task.write(0, 3)
    with pytest.raises(StoreRefused, match=r"'nobodys-bucket' at .*404"):
        task.committed()
    task.close()


def findings(kind: Kind, props: dict[str, str]) -> dict[str, str | None]:
    reported = kind.sink().validate_live(kind.sink.plugin.config.parse(props))
    return {each.setting: each.error for each in reported}


def test_problems_are_reported_at_their_setting(store: Running) -> None:
    kind = store.kind
    props = kind.settings(store.url, flush_size="3")
    assert findings(kind, props) == {}
    assert store.objects.under(props["topics.dir"]) == {}
    (reported,) = findings(kind, {**props, kind.bucket: "nobodys-bucket"}).items()
    assert reported[0] == kind.bucket
    assert "does not exist" in (reported[1] or "")
    (reported,) = findings(kind, kind.settings("http://127.0.0.1:9", flush_size="3")).items()
    assert reported[0] == "store.url"
    assert "does not answer" in (reported[1] or "")


@pytest.mark.parametrize(
    ("answer", "setting"),
    [
        ("AuthenticationFailed 403", "azblob.account.key"),
        ("AuthorizationFailure 403", "azblob.account.key"),
        ("AccountIsDisabled 409", "azblob.container.name"),
        ("ServerBusy 503", "store.url"),
    ],
)
def test_refusals_by_azure_are_reported(answer: str, setting: str, azure: Running) -> None:
    proxy = FaultyProxy(azure.port)
    proxy.fault = lambda method, path: f"answer {answer}"
    reported = findings(AZURE, AZURE.settings(proxy.url, flush_size="3"))
    proxy.close()
    assert list(reported) == [setting]


def test_a_wrong_key_of_azure_is_reported(azure: Running) -> None:
    props = AZURE.settings(azure.url, flush_size="3", azblob_account_key="YWJj")
    assert list(findings(AZURE, props)) == ["azblob.account.key"]


def service_account(token_url: str) -> str:
    """A service account with its own key, in JSON."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    about = {
        "type": "service_account",
        "project_id": "tests",
        "private_key_id": "1",
        "private_key": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
        "client_email": "writer@tests.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_url,
    }
    return json.dumps(about)


def test_credentials_of_google(
    gcs: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    props = GCS.settings(gcs.url, flush_size="3", penstock_gcs_anonymous="false")
    good, bad = service_account(f"{gcs.url}/token"), service_account(f"{gcs.url}/no-token")
    assert findings(GCS, {**props, "gcs.credentials.json": good}) == {}
    (reported,) = findings(GCS, {**props, "gcs.credentials.json": bad}).items()
    assert reported[0] == "gcs.credentials.json"
    assert "invalid_grant" in (reported[1] or "")
    assert "PRIVATE KEY" not in (reported[1] or "")

    file = tmp_path / "key.json"
    props["gcs.credentials.path"] = str(file)
    (reported,) = findings(GCS, props).items()
    assert reported[0] == "gcs.credentials.path"
    assert "No such file" in (reported[1] or "")
    file.write_text("no JSON")
    assert list(findings(GCS, props)) == ["gcs.credentials.path"]
    file.write_text(bad)
    assert list(findings(GCS, props)) == ["gcs.credentials.path"]
    file.write_text(good)
    assert findings(GCS, props) == {}
    del props["gcs.credentials.path"]
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    assert findings(GCS, props) == {}
    task = Task(GCS, props)
    task.write(0, 3)
    assert task.committed() == 3
    task.close()


@pytest.mark.parametrize(("status", "setting"), [("401", "gcs.credentials.json"), ("403", BUCKET)])
def test_refusals_by_google_are_reported(status: str, setting: str, gcs: Running) -> None:
    proxy = FaultyProxy(gcs.port)
    proxy.fault = lambda method, path: f"answer denied {status}" if "/o" in path else None
    reported = findings(GCS, GCS.settings(proxy.url, flush_size="3"))
    proxy.close()
    assert list(reported) == [GCS.bucket if setting == BUCKET else setting]


def test_aivens_sink_has_its_own_names_and_settings(gcs: Running) -> None:
    root = GCS.settings(gcs.url)["topics.dir"]
    props = {
        "gcs.bucket.name": BUCKET,
        "gcs.endpoint": gcs.url,
        "gcs.credentials.default": "false",
        "file.name.prefix": f"{root}/",
        "file.compression.type": "gzip",
        "gcs.object.content.encoding": "gzip",
        "format.output.type": "jsonl",
        "format.output.fields": "key,value,offset",
    }
    sink = AivenGcsSink()
    config = sink.plugin.config.parse(props)
    assert [*sink.validate_live(config)] == []
    writer = sink.open(config, SinkContextStub())
    writer.assigned({AT: 0})
    records = records_of([{"id": 1}], keys=["a"], topic=AT.topic, first=5)
    records.partitions = [AT.partition]
    writer.write(records, {})
    writer.flush()
    assert writer.pre_commit({AT: 6}) == {AT: 6}
    writer.close()
    ((name, data),) = gcs.objects.under(root).items()
    assert name == "orders-7-5.gz"
    assert json.loads(gzip.decompress(data)) == {"key": "a", "value": {"id": 1}, "offset": 5}
    assert isinstance(gcs.objects, GcsObjects)
    assert gcs.objects.encoding(f"{root}/{name}") == "gzip"
    plain = AivenGcsSink.plugin.config.parse({"gcs.bucket.name": BUCKET})
    assert sink.plugin.class_name == "io.aiven.kafka.connect.gcs.GcsSinkConnector"
    assert GcsSink.plugin.class_name == "io.confluent.connect.gcs.GcsSinkConnector"
    assert plain.props == {"gcs.bucket.name": BUCKET}
