"""Spark's offsets and Connect's, and the checkpoint a query resumes from.

Checkpoints are disposable (design §4.5): what counts is stored in Kafka. To resume, a fresh
checkpoint is seeded as if its batch 0 had ended at the stored position; what a batch reached is
read back from the last line of its entry in the offset log.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import orjson

from penstock.api import Offsets, SourceOffset

_VERSION = "v1"


def to_spark(offsets: Offsets) -> list[list[Any]]:
    """Source offsets as the JSON value Spark keeps for them."""
    return [[dict(at.partition), at.offset and dict(at.offset)] for at in offsets]


def from_spark(value: Any) -> Offsets:
    """The source offsets in a JSON value of Spark's."""
    return [SourceOffset(partition, offset) for partition, offset in value]


def seed(checkpoint: Path, offset: Any) -> None:
    """Makes `checkpoint` look as if batch 0 had ended at `offset` (a JSON value)."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_bytes(orjson.dumps({"id": str(uuid.uuid4())}))
    batch = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    lines = [_VERSION.encode(), orjson.dumps(batch), orjson.dumps(offset)]
    (checkpoint / "offsets" / "0").write_bytes(b"\n".join(lines))
    (checkpoint / "commits" / "0").write_bytes(b'v1\n{"nextBatchWatermarkMs":0}')


def reached(checkpoint: Path, batch: int) -> Any:
    """The JSON value of the position at which `batch` ends."""
    lines = (checkpoint / "offsets" / str(batch)).read_bytes().splitlines()
    return orjson.loads(lines[-1])
