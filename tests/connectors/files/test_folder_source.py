"""The local folder sources in the conformance suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.files.local_source import LocalFileSource
from penstock.connectors.files.spooldir import (
    SpoolDirAvro,
    SpoolDirBinaryFile,
    SpoolDirCsv,
    SpoolDirJson,
    SpoolDirLineDelimited,
    SpoolDirSchemaLessJson,
)
from penstock.testing.conformance import SourceConformance

SCHEMA = json.dumps(
    {
        "name": "row",
        "type": "STRUCT",
        "fieldSchemas": {
            "id": {"type": "INT64"},
            "name": {"type": "STRING", "isOptional": True},
        },
    }
)
KEY = json.dumps({"name": "key", "type": "STRUCT", "fieldSchemas": {"id": {"type": "INT64"}}})


class _Case(SourceConformance):
    resumes_within_polls = True
    per_file: ClassVar[int] = 3
    policy: ClassVar[str] = "NONE"
    more: ClassVar[dict[str, str]] = {}
    bad_configs = (
        ({"input.path": None}, "input.path"),
        ({"input.path": "relative"}, "input.path"),
        ({"topic": None}, "topic"),
        ({"input.file.pattern": "("}, "input.file.pattern"),
        ({"cleanup.policy": "BURN"}, "cleanup.policy"),
        ({"cleanup.policy": "MOVE", "finished.path": ""}, "finished.path"),
        ({"files.sort.attributes": "Color"}, "files.sort.attributes"),
    )

    @property
    def input(self) -> Path:
        path = self.folder / "in"
        path.mkdir(exist_ok=True)
        return path

    def config(self) -> dict[str, str]:
        return {
            "input.path": str(self.input),
            "input.file.pattern": "(?s).*",
            "error.path": str(self.folder / "errors"),
            "finished.path": str(self.folder / "done"),
            "topic": "rows",
            "cleanup.policy": self.policy,
            "empty.poll.wait.ms": "1",
            **self.more,
        }

    def add(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, self.per_file):
            some = range(start, min(start + self.per_file, numbers.stop))
            draft = self.folder / "draft"
            draft.write_bytes(self.file(some))
            draft.rename(self.input / f"rows {start:06} %+ü\n")

    def file(self, numbers: range) -> bytes:
        """The content of a file."""
        return b"".join(b'{"id": %d}\n' % number for number in numbers)


class TestJsonLines(_Case):
    connector = LocalFileSource
    more: ClassVar[dict[str, str]] = {"format.class": "JsonFormat"}
    bad_configs = (
        *_Case.bad_configs,
        ({"format.class": None}, "format.class"),
        ({"format.class": "XmlFormat"}, "format.class"),
        ({"penstock.tail": "true", "cleanup.policy": "DELETE"}, "penstock.tail"),
        ({"penstock.tail": "true", "format.class": "AvroFormat"}, "penstock.tail"),
        ({"timestamp.mode": "FIELD"}, "timestamp.field"),
    )


class TestTail(_Case):
    connector = LocalFileSource
    more: ClassVar[dict[str, str]] = {"format.class": "JsonFormat", "penstock.tail": "true"}

    def add(self, numbers: range) -> None:
        with (self.input / "a.log").open("ab") as file:
            file.write(self.file(numbers))


class TestForgetful(_Case):
    """With marks in place of offsets of files."""

    connector = LocalFileSource
    more: ClassVar[dict[str, str]] = {
        "format.class": "JsonFormat",
        "penstock.remembered.files": "0",
        "penstock.late.files.ms": "0",
    }


class TestParquet(_Case):
    connector = LocalFileSource
    more: ClassVar[dict[str, str]] = {"format.class": "ParquetFormat"}

    def file(self, numbers: range) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": list(numbers)}), sink)
        content: bytes = sink.getvalue().to_pybytes()
        return content


class TestMoved(_Case):
    connector = LocalFileSource
    policy = "MOVE"
    more: ClassVar[dict[str, str]] = {"format.class": "JsonFormat"}


class TestSpoolDirCsv(_Case):
    connector = SpoolDirCsv
    policy = "MOVEBYDATE"
    more: ClassVar[dict[str, str]] = {
        "value.schema": SCHEMA,
        "key.schema": KEY,
        "csv.first.row.as.header": "true",
        "csv.skip.lines": "1",
    }
    bad_configs = (
        *_Case.bad_configs,
        ({"error.path": None}, "error.path"),
        ({"value.schema": ""}, "value.schema"),
        ({"value.schema": '{"type": "MAP"}'}, "value.schema"),
        ({"parser.timestamp.date.formats": "dd/MM/yyyy"}, "parser.timestamp.date.formats"),
        ({"csv.escape.char": "-1"}, "csv.escape.char"),
        ({"csv.null.field.indicator": "SOME"}, "csv.null.field.indicator"),
    )

    def file(self, numbers: range) -> bytes:
        rows = (b'%d,"row \\"%d\\""\n' % (number, number) for number in numbers)
        return b"# a comment\nid,name\n" + b"".join(rows)


class TestSpoolDirJson(_Case):
    connector = SpoolDirJson
    policy = "DELETE"
    more: ClassVar[dict[str, str]] = {"value.schema": SCHEMA, "key.schema": KEY}


class TestSpoolDirSchemaLessJson(_Case):
    connector = SpoolDirSchemaLessJson


class TestSpoolDirLines(_Case):
    connector = SpoolDirLineDelimited
    policy = "MOVE"


class TestSpoolDirBinary(_Case):
    connector = SpoolDirBinaryFile
    per_file = 1


class TestSpoolDirAvro(_Case):
    connector = SpoolDirAvro

    def file(self, numbers: range) -> bytes:
        path = self.folder / "avro"
        schema = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}
        with path.open("wb") as file:
            fastavro.writer(file, schema, [{"id": number} for number in numbers])
        return path.read_bytes()
