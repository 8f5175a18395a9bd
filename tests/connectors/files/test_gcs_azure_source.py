"""The sources of Google Cloud Storage and Azure Blob Storage, against a small server of each."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.api import DataError, Offsets, SourceOffset, Unavailable
from penstock.api.schema import INT64, STRING, struct
from penstock.testing.conformance import SourceConformance, records_of
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from tests.servers.object_store import FaultyProxy

from .cloud_stores import AZURE, GCS, Kind, Running, running

pytestmark = pytest.mark.slow(95)

ROW = struct({"id": INT64, "name": STRING}, name="row")


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


def settings(kind: Kind, url: str, **changes: str) -> dict[str, str]:
    poll = "gcs.poll.interval.ms" if kind is GCS else "azblob.poll.interval.ms"
    return {**kind.settings(url), poll: "1"} | {
        name.replace("_", "."): value for name, value in changes.items()
    }


def generic(kind: Kind, url: str, **changes: str) -> dict[str, str]:
    return settings(kind, url, mode="GENERIC", topic_regex_list="rows:(?s).*", **changes)


def put(store: Running, props: dict[str, str], name: str, content: bytes) -> str:
    key = f"{props['topics.dir']}/{name}"
    store.objects.put(key, content)
    return key


def lines(numbers: range) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in numbers)


def read(
    kind: Kind, props: dict[str, str], stored: Offsets = (), tasks: int = 1
) -> tuple[list[Any], list[SourceOffset]]:
    """The existing values, and their offsets."""
    connector = kind.source()
    config_def = kind.source.plugin.config
    found: list[Any] = []
    known = {repr(each.partition): each for each in stored}
    for task in connector.plan_tasks(config_def.parse(props), tasks):
        reader = connector.open(config_def.parse(task), SourceContextStub(list(known.values())))
        try:
            while (polled := reader.poll(1 << 20, 0)) is not None:
                found += polled.records.values.values
                known.update((repr(each.partition), each) for each in polled.offsets)
        finally:
            reader.close()
    return found, list(known.values())


class _Case(SourceConformance):
    resumes_within_polls = True
    kind: ClassVar[Kind]

    @pytest.fixture(autouse=True)
    def _root(self, request: pytest.FixtureRequest) -> None:
        self.running: Running = request.getfixturevalue(self.kind.name)
        self.given = generic(self.kind, self.running.url)

    def config(self) -> dict[str, str]:
        return self.given

    def add(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, 5):
            content = lines(range(start, min(start + 5, numbers.stop)))
            put(self.running, self.given, f"{start:06}", content)


class TestGcs(_Case):
    kind = GCS
    connector = GCS.source
    bad_configs = (
        ({"gcs.bucket.name": None}, "gcs.bucket.name"),
        ({"topic.regex.list": ""}, "topic.regex.list"),
        ({"format.class": None}, "format.class"),
        ({"gcs.credentials.json": "[]"}, "gcs.credentials.json"),
    )


class TestAzure(_Case):
    kind = AZURE
    connector = AZURE.source
    bad_configs = (
        ({"azblob.account.name": None}, "azblob.account.name"),
        ({"azblob.account.key": None}, "azblob.account.key"),
        ({"topic.regex.list": ""}, "topic.regex.list"),
        ({"format.class": None}, "format.class"),
    )


class TestInRanges(_Case):
    resumes_within_polls = False
    kind = GCS
    connector = GCS.source
    ordered = False

    def config(self) -> dict[str, str]:
        return {**self.given, "penstock.split.files.bytes": "20"}

    bad_configs = (
        ({"penstock.split.files.bytes": "-1"}, "penstock.split.files.bytes"),
        ({"mode": "RESTORE_BACKUP"}, "penstock.split.files.bytes"),
    )


def in_parquet(count: int) -> bytes:
    out = BytesIO()
    table = pa.table(
        {"id": range(count), "pad": [f"{number * 7919:0100}" for number in range(count)]}
    )
    pq.write_table(table, out, row_group_size=count // 40, compression="none")
    return out.getvalue()


def in_avro(count: int) -> bytes:
    out = BytesIO()
    schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}
    fastavro.writer(
        out,
        fastavro.parse_schema(schema),
        ({"id": number} for number in range(count)),
        sync_interval=1000,
    )
    return out.getvalue()


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("JsonFormat", lines(range(20_000))),
        ("ParquetFormat", in_parquet(20_000)),
        ("AvroFormat", in_avro(20_000)),
        ("CsvFormat", b"id\n" + b"".join(b"%d\n" % number for number in range(20_000))),
        ("StringFormat", b"".join(b"%d\n" % number for number in range(20_000))),
    ],
)
def test_a_large_file_is_read_in_ranges(gcs: Running, form: str, content: bytes) -> None:
    step = len(content) // 19
    split = str(step)
    props = generic(GCS, gcs.url, format_class=form, penstock_split_files_bytes=split)
    put(gcs, props, "large", content)
    config = GCS.source.plugin.config.parse(props)
    stored: dict[str, SourceOffset] = {}
    ids: list[int] = []
    windows: list[int] = []
    for _ in range(10):  # a reader for each poll: it resumes where the last one ended
        reader = GCS.source().open(config, SourceContextStub(list(stored.values())))
        other = GCS.source().open(config, SourceContextStub())
        polled = reader.poll(1 << 20, 0)
        if polled is None:
            reader.close()
            other.close()
            break
        stored |= {repr(each.partition): each for each in polled.offsets}
        windows.append(len(polled.parts))
        batches = [polled.records]
        batches += [each for part in reversed(polled.parts) for each in other.read(part)]
        found = [value for each in batches for value in each.values.values]
        ids += [int(value["id"] if isinstance(value, dict) else value) for value in found]
        reader.close()
        other.close()
    assert sorted(ids) == list(range(20_000))
    if form == "CsvFormat":  # quotes may contain newlines
        assert set(windows) == {0}
    else:
        assert windows[:2] == [8, 8]


def test_a_bad_record_of_a_range_follows_behavior_on_error(gcs: Running) -> None:
    props = generic(GCS, gcs.url, penstock_split_files_bytes="30", behavior_on_error="log")
    key = put(gcs, props, "a", lines(range(5)) + b"{nonsense}\n" + lines(range(6, 20)))

    def read_all(given: dict[str, str]) -> list[int]:
        reader = GCS.source().open(GCS.source.plugin.config.parse(given), SourceContextStub())
        found: list[int] = []
        try:
            while (polled := reader.poll(1 << 20, 0)) is not None:
                batches = [polled.records]
                batches += [each for part in polled.parts for each in reader.read(part)]
                found += [value["id"] for each in batches for value in each.values.values]
        finally:
            reader.close()
        return found

    assert read_all(props) == [*range(5), *range(6, 20)]
    with pytest.raises(DataError, match=rf"'{key}' cannot be read, from byte .*on\.error=log"):
        read_all({**props, "behavior.on.error": "fail"})


@pytest.mark.parametrize("name", ["Json", "Avro", "Parquet"])
def test_objects_of_the_sink_are_restored(store: Running, name: str) -> None:
    kind = store.kind
    props = settings(kind, store.url, format_class=f"{name}Format")
    rows = [{"id": number, "name": f"row {number}"} for number in range(12)]
    sink = kind.sink()
    writer = sink.open(
        kind.sink.plugin.config.parse({**props, "flush.size": "4"}), SinkContextStub()
    )
    records = records_of(rows, schema=ROW, topic="rows")
    writer.write(records, {})
    writer.flush()
    writer.close()
    values, stored = read(kind, props, tasks=2)
    assert values == rows
    assert read(kind, props, stored)[0] == []
    (offset,) = stored
    folder = f"{props['topics.dir']}/rows/partition=0/"
    assert offset.partition == {"folder": folder}
    assert str((offset.offset or {})["lastFileRead"]).startswith(f"{folder}rows+0+0000000008.")


def test_a_large_object_is_read_in_blocks(store: Running) -> None:
    props = generic(store.kind, store.url)
    put(store, props, "large", lines(range(800_000)))  # 11 MB
    values, stored = read(store.kind, props)
    assert [value["id"] for value in values] == list(range(800_000))
    assert read(store.kind, props, stored)[0] == []


def test_many_objects_are_listed_page_by_page(store: Running) -> None:
    props = generic(store.kind, store.url)
    count = 450  # a page has 200
    for number in range(count):
        put(store, props, f"{number:05}", lines(range(number, number + 1)))
    values, _ = read(store.kind, props, tasks=2)
    assert sorted(value["id"] for value in values) == list(range(count))


def test_a_store_that_is_unreachable_for_a_while_costs_and_repeats_nothing(
    store: Running, proxy: FaultyProxy
) -> None:
    kind = store.kind
    props = generic(kind, proxy.url)
    for number in range(20):
        put(store, props, f"{number:02}", lines(range(number * 10, number * 10 + 10)))
    reader = kind.source().open(kind.source.plugin.config.parse(props), SourceContextStub())
    faults = 0
    requests = 0
    seen: list[int] = []

    def fault(method: str, path: str) -> str | None:
        nonlocal requests
        requests += 1
        return ("answer ServerBusy 503", "lose", "answer ServerBusy 503", None)[requests % 4]

    proxy.fault = fault
    for _ in range(1_000):
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


def test_an_object_that_is_replaced_while_it_is_read_is_reported(store: Running) -> None:
    kind = store.kind
    props = generic(kind, store.url)
    key = put(store, props, "a", lines(range(1_000_000)))
    reader = kind.source().open(kind.source.plugin.config.parse(props), SourceContextStub())
    assert reader.poll(1 << 20, 0) is not None
    store.objects.put(key, lines(range(1_000_001)))
    with pytest.raises(DataError, match=rf"'{key}' cannot be read.*was replaced"):
        all(reader.poll(1 << 20, 0) for _ in range(20))
    reader.close()


def test_problems_are_reported_at_their_setting(store: Running) -> None:
    kind = store.kind
    props = settings(kind, store.url)
    put(store, props, "rows/partition=0/rows+0+0000000000.json", b"{}\n")

    def findings(changed: dict[str, str]) -> list[str]:
        config = kind.source.plugin.config.parse(changed)
        return [each.setting for each in kind.source().validate_live(config)]

    assert findings(props) == []
    assert findings({**props, kind.bucket: "no-such-bucket"}) == [kind.bucket]
    assert findings(settings(kind, "http://127.0.0.1:9")) == ["store.url"]
