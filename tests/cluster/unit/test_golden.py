"""Records that a Kafka Connect 4.3.1 worker wrote, read and written again: not a byte differs.

The files under `tests/golden/` hold its config, status and offset topics after connectors were
created, paused, resumed, changed, restarted, stopped, broken and deleted. Placeholders replace only
what names a machine: the worker's address, the folder, the prefix of the topics.
"""

from __future__ import annotations

import json

import pytest

from penstock.cluster.offset_records import decode_offset, encode_offset
from penstock.cluster.records import (
    SkippedRecord,
    decode_config,
    decode_status,
    encode_config,
    encode_status,
)
from tests.places import TESTS

GOLDEN = TESTS / "golden"


def captured(topic: str) -> list[tuple[bytes, bytes | None]]:
    """Key and value of every record of a topic."""
    rows = map(json.loads, (GOLDEN / f"{topic}.jsonl").read_text().splitlines())
    return [(row["key"].encode(), row["value"] and row["value"].encode()) for row in rows]


@pytest.mark.parametrize(("key", "value"), captured("configs"))
def test_captured_config_records_come_back_byte_for_byte(key: bytes, value: bytes | None) -> None:
    record = decode_config(key, value)
    assert not isinstance(record, SkippedRecord)
    assert encode_config(record) == (key, value)


@pytest.mark.parametrize(("key", "value"), captured("status"))
def test_captured_status_records_come_back_byte_for_byte(key: bytes, value: bytes | None) -> None:
    record = decode_status(key, value)
    assert not isinstance(record, SkippedRecord)
    assert encode_status(record) == (key, value)


@pytest.mark.parametrize(("key", "value"), captured("offsets"))
def test_captured_source_offsets_come_back_byte_for_byte(key: bytes, value: bytes | None) -> None:
    record = decode_offset(key, value)
    assert not isinstance(record, SkippedRecord)
    assert encode_offset(record) == (key, value)
