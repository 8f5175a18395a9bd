"""The sink to S3 as Aiven's connector: names, and the bytes of files."""

from __future__ import annotations

import gzip
import threading
from base64 import b64encode
from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.api import ConfigInvalid, Failed, Header, Records, TopicPartition
from penstock.api.schema import INT64, OPTIONAL_BYTES, STRING, struct
from penstock.connectors.files.settings.aiven import AIVEN_S3_SINK, aiven_plan
from penstock.connectors.files.settings.s3_aiven import AIVEN_SOURCE
from penstock.connectors.files.stores.store import NewFile, Store, StoreUnavailable
from penstock.connectors.files.write.writer import FileWriter
from penstock.testing.conformance import records_of
from penstock.testing.contexts import SinkContextStub

AT = TopicPartition("logs", 1)
ROW = struct({"id": INT64, "name": STRING}, name="row")
NOW = 1_700_000_000_000  # 2023-11-14T22:13:20Z
PLAIN = {"aws.s3.bucket.name": "lake", "file.compression.type": "none"}


class Objects(Store):
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def create(self, path: str) -> NewFile:
        return _Object(path, self)


class _Object(NewFile):
    def __init__(self, path: str, store: Objects) -> None:
        super().__init__(path)
        self._name, self._store = path, store

    def settle(self) -> None:
        return None

    def commit(self) -> None:
        self._store.objects[self._name] = b"".join(self.held)

    def drop(self) -> None:
        self.held = []


def written(
    settings: dict[str, str], *batches: Records, refused: set[int] | None = None
) -> dict[str, bytes]:
    """The objects after these batches, with a flush after each."""
    config = AIVEN_S3_SINK.parse({**PLAIN, **settings})
    store = Objects()
    writer = FileWriter(aiven_plan(config), store, SinkContextStub(), lambda: NOW)
    writer.assigned({AT: batches[0].offsets[0]})
    for batch in batches:
        batch.topics, batch.partitions = [AT.topic] * len(batch), [AT.partition] * len(batch)
        failed: Failed = {}
        writer.write(batch, failed)
        assert set(failed) == (refused or set())
        writer.flush()
        end = batch.offsets[-1] + 1
        assert writer.pre_commit({AT: end}) == {AT: end}
    writer.close()
    return store.objects


def raw(*values: bytes | None, first: int = 0, keys: Any = None) -> Records:
    return records_of(list(values), schema=OPTIONAL_BYTES, keys=keys, first=first)


def b64(text: str) -> bytes:
    return b64encode(text.encode())


def test_values_are_base64_lines_without_a_last_line_feed() -> None:
    assert written({}, raw(b"one", None, b"three")) == {
        "logs-1-0": b64("one") + b"\n\n" + b64("three")
    }


def test_fields_of_csv_are_in_the_order_of_the_setting() -> None:
    records = raw(b"a,b", keys=["k"])
    records.timestamps = [NOW]
    records.headers = [[Header("h", b"x"), Header("n", None)]]
    given = {
        "format.output.fields": "offset,key,value,timestamp,headers",
        "format.output.fields.value.encoding": "none",
    }
    headers = b64("h") + b":" + b64("x") + b";" + b64("n") + b":;"
    expected = b",".join([b"0", b64("k"), b"a,b", b"%d" % NOW, headers])
    assert written(given, records) == {"logs-1-0": expected}


def test_csv_refuses_what_is_not_bytes() -> None:
    records = records_of([{"id": 1, "name": "x"}, b"x"])
    assert written({}, records, refused={0}) == {"logs-1-0": b64("x")}


def test_json_lines_have_the_fields_in_the_order_of_javas_hash_map() -> None:
    records = records_of([{"id": 1, "name": "x"}], schema=ROW, keys=["k"])
    records.timestamps = [NOW + 5]
    records.headers = [[Header("h", 7)]]
    given = {
        "format.output.type": "jsonl",
        "format.output.fields": "key,value,offset,timestamp,headers",
    }
    line = (
        b'{"headers":[{"key":"h","value":7}],"offset":0,"value":{"id":1,"name":"x"},"key":"k",'
        b'"timestamp":"2023-11-14T22:13:20.005Z"}'
    )
    assert written(given, records) == {"logs-1-0": line}


def test_json_lines_may_do_without_an_envelope() -> None:
    records = records_of([{"id": 1}, [2], None, "x"])
    given = {"format.output.type": "jsonl", "format.output.envelope": "false"}
    assert written(given, records) == {"logs-1-0": b'{"id":1}\n[2]\nnull\n"x"'}


def test_json_is_an_array() -> None:
    records = records_of([{"id": 1}, {"id": 2}])
    expected = b'[\n{"value":{"id":1}},\n{"value":{"id":2}}\n]'
    assert written({"format.output.type": "json"}, records) == {"logs-1-0": expected}


def test_an_object_ends_when_offsets_are_committed() -> None:
    assert written({}, raw(b"a", b"b"), raw(b"c", first=2)) == {
        "logs-1-0": b64("a") + b"\n" + b64("b"),
        "logs-1-2": b64("c"),
    }


def test_an_object_ends_at_file_max_records() -> None:
    found = written({"file.max.records": "2"}, raw(b"a", b"b", b"c"))
    assert found == {"logs-1-0": b64("a") + b"\n" + b64("b"), "logs-1-2": b64("c")}


def test_names_by_template() -> None:
    template = "x/{{ topic }}/{{partition:padding=true}}/{{start_offset:padding=true}}"
    assert list(written({"file.name.template": template}, raw(b"a", first=7))) == [
        "x/logs/0000000001/00000000000000000007"
    ]


def test_names_by_time_have_the_first_offset_of_all() -> None:
    template = (
        "{{topic}}-{{partition}}-{{start_offset}}/{{timestamp:unit=YYYY}}-{{timestamp:unit=MM}}-"
        "{{timestamp:unit=dd}}T{{timestamp:unit=HH}}"
    )
    given = {
        "file.name.template": template,
        "timestamp.source": "event",
        "timestamp.timezone": "Europe/Berlin",
    }
    records = raw(b"a", b"b", b"c")
    records.timestamps = [NOW, NOW + 3_600_000, NOW + 1]
    assert written(given, records) == {
        "logs-1-0/2023-11-14T23": b64("a") + b"\n" + b64("c"),
        "logs-1-0/2023-11-15T00": b64("b"),
    }


def test_an_object_of_a_key_has_its_latest_record() -> None:
    first = raw(b"1", b"2", b"3", b"4", keys=["a", "b", "a", None])
    second = raw(b"5", first=4, keys=["b"])
    assert written({"file.name.template": "k/{{key}}"}, first, second) == {
        "k/a": b64("3"),
        "k/b": b64("5"),
        "k/null": b64("4"),
    }


def test_keys_may_have_objects_of_all_their_records() -> None:
    given = {"file.name.template": "{{key}}/{{topic}}-{{partition}}-{{start_offset}}"}
    found = written(given, raw(b"1", b"2", b"3", keys=["a", "b", "a"]))
    assert found == {"a/logs-1-0": b64("1") + b"\n" + b64("3"), "b/logs-1-1": b64("2")}


def test_a_prefix_has_names_of_its_own_kind() -> None:
    given = {"aws.s3.prefix": "in/{{topic}}/", "file.compression.type": "gzip"}
    ((name, data),) = written(given, raw(b"a", first=5)).items()
    assert name == "in/logs/logs-1-00000000000000000005.gz"
    assert gzip.decompress(data) == b64("a")


def test_snappy_is_framed_as_java_frames_it() -> None:
    value = bytes(range(256)) * 400
    given = {"file.compression.type": "snappy", "format.output.fields.value.encoding": "none"}
    ((name, data),) = written(given, raw(value)).items()
    assert name == "logs-1-0.snappy"
    assert data[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    found, at = b"", 16
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        block = data[at + 4 : at + 4 + size]
        rest = len(value) - len(found)
        found += pa.decompress(block, min(rest, 32 << 10), "snappy", asbytes=True)
        at += 4 + size
    assert found == value


def test_avro_has_the_fields_in_a_record() -> None:
    records = records_of([{"id": 1, "name": "x"}], schema=ROW, keys=["k"], key_schema=STRING)
    records.headers = [[Header("h", 7)]]
    given = {"format.output.type": "avro", "format.output.fields": "key,value,offset,headers"}
    ((name, data),) = written(given, records).items()
    assert name == "logs-1-0.avro"
    reader: Any = fastavro.reader(BytesIO(data))
    expected = {
        "key": "k",
        "value": {"id": 1, "name": "x"},
        "offset": 0,
        "headers": {"h": "7"},
    }
    assert list(reader) == [expected]
    assert reader.writer_schema["name"] == "io.aiven.avro.output.schema.connector_records"


@pytest.mark.parametrize(("envelope", "columns"), [("true", ["value"]), ("false", ["id", "name"])])
def test_parquet_is_compressed_within(envelope: str, columns: list[str]) -> None:
    records = records_of([{"id": 1, "name": "x"}], schema=ROW)
    given = {
        "format.output.type": "parquet",
        "format.output.envelope": envelope,
        "file.compression.type": "gzip",
    }
    ((name, data),) = written(given, records).items()
    assert name == "logs-1-0.gz"
    file = pq.ParquetFile(BytesIO(data))
    assert file.schema_arrow.names == columns
    assert file.metadata.row_group(0).column(0).compression == "GZIP"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"aws.s3.bucket.name": ""}, "aws.s3.bucket.name"),
        ({"aws.access.key.id": "x"}, "aws.secret.access.key"),
        ({"file.name.template": "{{topic}}"}, "file.name.template"),
        ({"file.name.template": "plain"}, "file.name.template"),
        ({"file.name.template": "{{key}}-{{timestamp:unit=yyyy}}"}, "file.name.template"),
        ({"file.name.template": "{{topic}}{{partition}}{{start_offset:pad=1}}"}, "file.name.temp"),
        ({"file.name.template": "{{key}}", "file.max.records": "2"}, "file.max.records"),
        ({"format.output.fields": "key,values"}, "format.output.fields"),
        (
            {"format.output.fields": "key,value", "format.output.envelope": "false"},
            "format.output.envelope",
        ),
        ({"format.output.type": "orc"}, "format.output.type"),
        ({"timestamp.timezone": "Mars/Olympus"}, "timestamp.timezone"),
        ({"aws.s3.prefix": "{{utc_date}}/"}, "aws.s3.prefix"),
        ({"aws_s3_bucket": "lake"}, "aws_s3_bucket"),
    ],
)
def test_impossible_settings_are_reported(settings: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigInvalid, match=name.replace(".", r"\.")):
        AIVEN_S3_SINK.parse({**PLAIN, **settings})


def test_an_older_record_of_a_key_never_replaces_a_later_one() -> None:
    newer = threading.Event()

    class Slow(Objects):
        """Stores an older record only after the later one, if both are being stored."""

        def __init__(self) -> None:
            super().__init__()
            self.away = True

        def create(self, path: str) -> NewFile:
            store = self

            class File(_Object):
                def commit(self) -> None:
                    if store.away:
                        raise StoreUnavailable("the store is away")
                    if b"".join(self.held) == b64("old"):
                        newer.wait(0.3)
                    super().commit()
                    newer.set()

            return File(path, self)

    config = AIVEN_S3_SINK.parse({**PLAIN, "file.name.template": "{{key}}"})
    store = Slow()
    writer = FileWriter(aiven_plan(config), store, SinkContextStub(), lambda: NOW)
    writer.assigned({AT: 0})
    for first, value in enumerate((b"old", b"new")):
        batch = raw(value, first=first, keys=["k"])
        batch.topics, batch.partitions = [AT.topic], [AT.partition]
        writer.write(batch, {})
        with suppress(StoreUnavailable):
            writer.flush()
        store.away = False
    assert store.objects == {"k": b64("new")}
    writer.close()


def test_a_refused_record_of_a_key_does_not_remove_the_one_before() -> None:
    template = {"file.name.template": "{{key}}"}
    good, bad = raw(b"good", keys=["k"]), records_of([{"id": 1}], keys=["k"], first=1)
    parts = [good, bad]
    for row, part in enumerate(parts):
        part.origins = [row]
    together = Records.together(*parts)
    config = AIVEN_S3_SINK.parse({**PLAIN, **template})
    for batches in ([together], parts):
        store = Objects()
        writer = FileWriter(aiven_plan(config), store, SinkContextStub(), lambda: NOW)
        refused = 0
        for batch in batches:
            batch.topics, batch.partitions = [AT.topic] * len(batch), [AT.partition] * len(batch)
            failed: Failed = {}
            writer.write(batch, failed)
            refused += len(failed)
        writer.flush()
        writer.close()
        assert refused == 1
        assert store.objects == {"k": b64("good")}


def test_the_former_name_of_the_format_of_the_source_is_refused() -> None:
    props = {
        "aws.s3.bucket.name": "b",
        "file.name.template": "{{topic}}-{{partition}}-{{start_offset}}",
        "input.type": "avro",
    }
    problems = {value.name: value.errors for value in AIVEN_SOURCE.validate(props) if value.errors}
    assert problems.keys() == {"input.type"}
    assert "input.format" in problems["input.type"][0]
