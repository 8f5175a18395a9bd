"""Offsets within a poll of files."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro
import pytest

from penstock.api import SourceConnector
from penstock.connectors.files.local_source import LocalFileSource
from penstock.connectors.files.spooldir import SpoolDirCsv, SpoolDirLineDelimited

from .test_reader import Run

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}


def avro(numbers: range) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, SCHEMA, [{"n": n} for n in numbers], sync_interval=100)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "settings", "contents"),
    [
        (LocalFileSource, {}, [b'{"n":%d}\n' % n for n in range(8)]),
        (SpoolDirLineDelimited, {}, ["ä%d\n".encode() % n for n in range(8)]),
        (
            SpoolDirCsv,
            {"csv_first_row_as_header": "true", "schema_generation_enabled": "true"},
            [b"a,b\n", *[b"%d,x\n" % n for n in range(7)]],
        ),
    ],
    ids=["json", "lines", "csv"],
)
def test_reading_continues_after_every_record_of_a_poll_of_several_files(
    tmp_path: Path, kind: type[SourceConnector], settings: dict[str, str], contents: list[bytes]
) -> None:
    run = Run(tmp_path, kind, **settings)
    for name in "abc":
        (run.input / name).write_bytes(b"".join(contents))
    polled = run.reader.poll(1 << 20, 2)
    assert polled is not None
    assert polled.offsets_before is not None
    values = polled.records.values.values
    assert len(values) > 20
    for count in range(1, len(values)):
        run.polled = list(polled.offsets_before(count))
        run.stored = {repr(offset.partition): offset for offset in run.polled}
        run.restart()
        assert run.read() == values[count:], count


def test_the_position_in_a_range_of_blocks_keeps_the_beginning_of_the_range(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, format_class="AvroFormat", penstock_split_files_bytes="1000")
    (run.input / "a.avro").write_bytes(avro(range(5_000)))
    read = set()
    while (polled := run.reader.poll(1 << 20, 2)) is not None:
        for part in polled.parts:
            read |= {value["n"] for each in run.reader.read(part) for value in each.values.values}
        run.polled += polled.offsets
        if len(polled.records):
            break
    assert polled is not None, "the rest of the file is smaller than a range"
    assert polled.offsets_before is not None
    rest = [value["n"] for value in polled.records.values.values]
    assert len(rest) > 1
    assert rest[0] not in read
    for offset in polled.offsets_before(1):
        run.stored[repr(offset.partition)] = offset
    run.restart()
    assert [value["n"] for value in run.read()] == rest[1:]
