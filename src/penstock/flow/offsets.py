"""How far a batch of Spark's has read: the last line of its entry in the query's offset log.

Checkpoints are disposable (design §4.5): what counts is stored in Kafka.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson


def reached(checkpoint: Path, batch: int) -> Any:
    """The JSON value of the position at which `batch` ends."""
    lines = (checkpoint / "offsets" / str(batch)).read_bytes().splitlines()
    return orjson.loads(lines[-1])
