"""The local folder sink in the conformance suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from penstock.api import ConfigInvalid, DataError, Finding, Records
from penstock.api.schema import INT64, STRING, struct
from penstock.connectors.files.local import LocalFileSink
from penstock.connectors.files.settings.local import LOCAL_SINK
from penstock.testing.conformance import SinkConformance, records_of

ROW = struct({"id": INT64, "name": STRING}, name="row")
FIELDS = "io.confluent.connect.storage.partitioner.FieldPartitioner"


class _Case(SinkConformance):
    connector = LocalFileSink
    idempotent = True
    ordered = False
    extension = "json"
    bad_configs = (
        ({"store.url": None}, "store.url"),
        ({"store.url": "s3://bucket"}, "store.url"),
        ({"store.url": "relative/path"}, "store.url"),
        ({"format.class": None}, "format.class"),
        ({"format.class": "XmlFormat"}, "format.class"),
        ({"flush.size": "0"}, "flush.size"),
        ({"partitioner.class": "com.example.Mine"}, "partitioner.class"),
        ({"partitioner.class": FIELDS}, "partition.field.name"),
        ({"partitioner.class": "TimeBasedPartitioner"}, "partition.duration.ms"),
        ({"partitioner.class": "TimeBasedPartitioner"}, "path.format"),
        ({"partitioner.class": "HourlyPartitioner"}, "timezone"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"path.format": "'year"}, "path.format"),
        ({"rotate.schedule.interval.ms": "60000"}, "timezone"),
        ({"behavior.on.null.values": "write"}, "store.kafka.keys"),
        ({"timestamp.extractor": "Sundial"}, "timestamp.extractor"),
        ({"schema.compatibility": "SOME"}, "schema.compatibility"),
        ({"avro.codec": "lzo"}, "avro.codec"),
    )

    def config(self) -> dict[str, str]:
        if not (self.folder / "store").exists():
            (self.folder / "disk").mkdir()
            self.point_at("disk")
        return {
            "store.url": str(self.folder / "store"),
            "format.class": "JsonFormat",
            "flush.size": "1",
            "errors.tolerance": "all",
        }

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        rows = [{"id": number, "name": f"row {number}"} for number in numbers]
        kind = ROW if schema else None
        return records_of(rows, schema=kind, keys=list(numbers), first=numbers.start)

    def contents(self) -> list[Any]:
        files = sorted((self.folder / "store").rglob(f"*.{self.extension}"))
        return [row for file in files for row in self.read(file)]

    def read(self, file: Path) -> list[Any]:
        return [json.loads(line) for line in file.read_text().splitlines()]

    def bad_records(self) -> Records | None:
        rows = [{"id": 1, "name": "\ud800"}, {"id": 2, "name": "\udfff"}]
        return records_of(rows, schema=ROW, first=900)

    def point_at(self, target: str) -> None:
        """Replaces the folder at once, also while the sink's threads store files."""
        link = self.folder / "link"
        link.symlink_to(target)
        link.replace(self.folder / "store")

    def unreachable_target(self) -> AbstractContextManager[object] | None:
        (self.folder / "file").write_text("in the way of the folder")
        return self.away("file")

    def refusing_target(self) -> AbstractContextManager[object] | None:
        """The folder is in a file system that takes no files, not even from root."""
        return self.away("/sys")

    @contextmanager
    def away(self, target: str) -> Iterator[None]:
        self.point_at(target)
        try:
            yield
        finally:
            self.point_at("disk")


class TestJson(_Case):
    pass


class TestParquet(_Case):
    extension = "parquet"

    def config(self) -> dict[str, str]:
        return super().config() | {"format.class": "ParquetFormat"}

    def records(self, numbers: range, *, schema: bool) -> Records | None:
        return super().records(numbers, schema=True) if schema else None

    def read(self, file: Path) -> list[Any]:
        return pq.ParquetFile(file).read().to_pylist()


class TestAvro(TestParquet):
    extension = "avro"

    def config(self) -> dict[str, str]:
        return super().config() | {"format.class": "AvroFormat"}

    def read(self, file: Path) -> list[Any]:
        with file.open("rb") as data:
            return list(fastavro.reader(data))


class TestFolders(_Case):
    bad_configs = (({"partition.field.name": ""}, "partition.field.name"),)

    def config(self) -> dict[str, str]:
        return super().config() | {"partitioner.class": FIELDS, "partition.field.name": "name"}

    def bad_records(self) -> Records | None:
        return records_of([{"id": 1}, {"id": 2, "name": 1.5}], first=900)


def problems(**changes: str | None) -> list[str]:
    given = {"store.url": "/tmp/x", "format.class": "JsonFormat", "flush.size": "3"}
    props = {name.replace("_", "."): value for name, value in changes.items()}
    with pytest.raises(ConfigInvalid) as invalid:
        LOCAL_SINK.parse({**given, **props})
    return list(invalid.value.problems)


def test_names_in_other_languages_are_refused() -> None:
    time_based = {
        "partitioner_class": "TimeBasedPartitioner",
        "partition_duration_ms": "1000",
        "timezone": "UTC",
    }
    assert problems(**time_based, path_format="MMM", locale="de_DE") == [
        "Invalid value de_DE for configuration locale: Names of months and days are only in "
        "English; use numbers in path.format, or set en"
    ]
    for locale in ("en", "en-US", "en_GB", ""):
        LOCAL_SINK.parse(
            {
                **{name.replace("_", "."): value for name, value in time_based.items()},
                "path.format": "MMM",
                "locale": locale,
                "store.url": "/tmp/x",
                "format.class": "JsonFormat",
                "flush.size": "3",
            }
        )


def findings(url: str) -> list[Finding]:
    given = {"store.url": url, "format.class": "JsonFormat", "flush.size": "3"}
    return list(LocalFileSink().validate_live(LOCAL_SINK.parse(given)))


def test_a_folder_that_cannot_be_written_is_reported_before(tmp_path: Path) -> None:
    assert findings(str(tmp_path / "a" / "b")) == []
    (tmp_path / "a").write_text("no folder")
    (reported,) = findings(f"file://{tmp_path}/a/b")
    assert reported.setting == "store.url"
    assert reported.error == f"Cannot write to {tmp_path}/a/b: {tmp_path}/a is not a folder."


def test_avro_needs_a_package() -> None:
    sink = LocalFileSink()
    given = {"store.url": "/tmp/x", "format.class": "JsonFormat", "flush.size": "3"}
    assert sink.required_modules(LOCAL_SINK.parse(given)) == []
    keys = {**given, "store.kafka.keys": "true"}
    assert sink.required_modules(LOCAL_SINK.parse(keys)) == ["fastavro"]


def test_a_name_that_is_too_long_is_the_fault_of_its_record() -> None:
    from penstock.connectors.files.settings.local import local_plan

    given = {"store.url": "/tmp/x", "format.class": "JsonFormat", "flush.size": "3"}
    plan = local_plan(LOCAL_SINK.parse(given))
    assert plan.named("a=b/c") == "a=b%2Fc"
    for text in ("x" * 256, "\ud800"):
        with pytest.raises(DataError):
            plan.named(text)
