"""What a configuration says to a reader of monitored files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from penstock.api.schema import Schema
from penstock.connectors.files.monitor.changes import Mode, Shrunk
from penstock.connectors.files.monitor.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Watch:
    """Files that are monitored, and where they go."""

    pattern: Pattern
    topic: str
    mode: Mode


class After(Enum):
    """What is done with a file of mode UPDATE when all of it was sent."""

    NOTHING = "nothing"
    DELETE = "delete"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class MonitorPlan:
    """Which files are read, when, and as what. Times are in ms."""

    watches: tuple[Watch, ...]
    """The first one that fits a file counts."""
    refresh_ms: int
    most_backoff_ms: int
    max_age_ms: int
    name_filter: re.Pattern[str]
    slice_bytes: int = 0
    """0: a file is one record, or what was appended to it."""
    whole_lines: bool = False
    """Slices end with a line."""
    key_schema: Schema | None = None
    """Of keys with name and offset; None: keys are paths."""
    most_records: int = 10_000
    """Of a poll."""
    shrunk: Shrunk = Shrunk.WHOLE
    after: After = After.NOTHING
    after_folder: str = ""
    share: int = 0
    shares: int = 1
