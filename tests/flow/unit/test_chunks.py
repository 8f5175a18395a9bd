"""Frames as a slot's JVM writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import orjson
import pyarrow as pa
import pytest

from penstock.data.records import Header
from penstock.flow.stage import chunks
from penstock.ids import TopicPartition

Cell = bytes | None


def strings(cells: Sequence[Cell]) -> list[bytes]:
    """Validity bits, end offsets and bytes of cells."""
    present = [cell is not None for cell in cells]
    there = b"" if all(present) else np.packbits(present, bitorder="little").tobytes()
    ends = np.cumsum([0, *(len(cell or b"") for cell in cells)]).astype("<i4").tobytes()
    return [there, ends, b"".join(cell or b"" for cell in cells)]


def frame(
    keys: Sequence[Cell],
    values: Sequence[Cell],
    *,
    head: bytes = b"",
    headers: Sequence[Cell] = (),
    first: int = 0,
    epoch: int = 3,
    partition: int = 2,
) -> pa.Buffer:
    """A chunk's frame, laid out by hand."""
    count = len(keys)
    sections = [
        "zwölf".encode(),
        np.arange(first, first + count).astype("<i8").tobytes(),
        np.arange(count).astype("<i8").tobytes(),
        *strings(keys),
        head,
        *strings(values),
        *(strings(headers) if headers else [b""] * 3),
    ]
    out = struct.pack("<6i", chunks.FrameKind.CHUNK, 7, epoch, partition, 1, count)
    out += struct.pack("<13i", *map(len, sections))
    for section in sections:
        out += b"\0" * (-len(out) % 8) + section
    return pa.py_buffer(out + b"\0" * (-len(out) % 8))


def test_a_chunk_holds_every_byte_of_its_records() -> None:
    every = bytes(range(256))
    read = chunks.chunk(frame([b"k", None, b""], [every, b"", None], first=40))
    records = read.records
    assert (read.partition, read.epoch, read.timestamp_type) == (TopicPartition("zwölf", 2), 3, 1)
    assert (records.topics, records.partitions) == (["zwölf"] * 3, [2] * 3)
    assert (records.offsets, records.timestamps) == ([40, 41, 42], [0, 1, 2])
    assert records.keys.values == [b"k", None, b""]
    assert records.values.values == [every, b"", None]
    assert records.headers == []
    assert read.end == 43


def test_the_common_prefix_of_values_is_put_before_each() -> None:
    read = chunks.chunk(frame([None] * 3, [b"1", b"", None], head=b"schema "))
    assert read.records.values.values == [b"schema 1", b"schema ", None]


def test_headers_are_those_of_their_record() -> None:
    reported = orjson.dumps([{"key": 'ü"', "value": "AP8="}, {"key": "none"}])
    read = chunks.chunk(frame([None] * 2, [b"v"] * 2, headers=[None, reported]))
    assert read.records.headers == [[], [Header('ü"', b"\x00\xff"), Header("none", None)]]


def test_a_frame_says_what_it_is_and_for_which_task() -> None:
    assert chunks.kind_and_task(frame([None], [b"v"])) == (chunks.FrameKind.CHUNK, 7)
    event = pa.py_buffer(struct.pack("<i", chunks.FrameKind.EVENT) + b'{"event":"lost","task":9}')
    assert chunks.kind_and_task(event)[0] == chunks.FrameKind.EVENT
    assert chunks.event(event) == {"event": "lost", "task": 9}


@pytest.mark.parametrize("count", [1, 7, 8, 9, 4000])
def test_chunks_of_any_size_are_read(count: int) -> None:
    values: list[Cell] = [None if at % 3 == 1 else b"%d" % at for at in range(count)]
    assert chunks.chunk(frame([None] * count, values)).records.values.values == values
