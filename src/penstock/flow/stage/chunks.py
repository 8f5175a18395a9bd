"""The frames that a slot's JVM sends its stage: events of consumers, and Kafka records in chunks.

A row per record would cost Spark more than reading the record, so a frame holds thousands, as the
buffers of Arrow's columns (decision 14). Numbers are little-endian. A chunk begins with six 4-byte
numbers: kind, task, epoch of the partition's assignment, partition, timestamp type, count; then the
length of every section; then the sections, aligned to 8 bytes.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from penstock.data.columns import Cells
from penstock.data.records import Header, Records
from penstock.data.schema import BYTES
from penstock.ids import TopicPartition


class FrameKind(IntEnum):
    """The kinds of frames."""

    EVENT = 0  # of a consumer: see `events`
    CHUNK = 1


_HEAD: Final = struct.Struct("<6i13i")
_HEAD_BYTES: Final = (_HEAD.size + 7) & ~7
_KIND: Final = struct.Struct("<2i")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition, in order, of one assignment of that partition."""

    records: Records
    partition: TopicPartition
    epoch: int
    timestamp_type: int

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.records.offsets[-1] + 1


def kind_and_task(frame: pa.Buffer) -> tuple[FrameKind, int]:
    """The kind of a frame, and its task; an event names its task itself."""
    kind, task = _KIND.unpack_from(frame)
    return FrameKind(kind), task


def event(frame: pa.Buffer) -> dict[str, Any]:
    """The JSON of an event."""
    content: dict[str, Any] = orjson.loads(memoryview(frame)[4:])
    return content


def chunk(frame: pa.Buffer) -> Chunk:
    """The records of a frame; their bytes are not copied."""
    _, _, epoch, partition, timestamp_type, count, *lengths = _HEAD.unpack_from(frame)
    sections: list[pa.Buffer] = []
    at = _HEAD_BYTES
    for length in lengths:
        sections.append(frame.slice(at, length))
        at += (length + 7) & ~7
    name, offsets, timestamps, keys_valid, key_ends, keys, *remaining = sections
    head, values_valid, value_ends, values, headers_valid, header_ends, headers = remaining
    topic = name.to_pybytes().decode()
    records = Records(
        topics=[topic] * count,
        partitions=[partition] * count,
        timestamps=np.frombuffer(timestamps, "<i8").tolist(),
        keys=Cells(_strings(count, keys_valid, key_ends, keys), BYTES),
        values=Cells(_strings(count, values_valid, value_ends, values), BYTES, head.to_pybytes()),
        offsets=np.frombuffer(offsets, "<i8").tolist(),
        headers=[
            [_header(header) for header in orjson.loads(text)] if text else []
            for text in _strings(count, headers_valid, header_ends, headers).to_pylist()
        ]
        if len(header_ends)
        else [],
    )
    return Chunk(records, TopicPartition(topic, partition), epoch, timestamp_type)


def _strings(count: int, valid: pa.Buffer, ends: pa.Buffer, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), count, [valid if len(valid) else None, ends, data])


def _header(cells: dict[str, str]) -> Header:
    value = cells.get("value")
    return Header(cells["key"], None if value is None else b64decode(value))
