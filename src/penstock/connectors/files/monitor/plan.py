"""The configuration of a reader of monitored files."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from enum import Enum

from penstock.api.schema import Schema
from penstock.connectors.files.monitor.changes import Mode, Shrunk
from penstock.connectors.files.monitor.patterns import Pattern
from penstock.connectors.files.stores.folders import absolute


@dataclass(frozen=True, slots=True)
class Watch:
    """Files that are monitored, and the topic of their records."""

    pattern: Pattern
    topic: str
    mode: Mode


class Cleanup(Enum):
    """What happens to a file of mode UPDATE once all of it was sent."""

    NOTHING = "nothing"
    DELETE = "delete"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class MonitorPlan:
    """Which files are read, when, and as what. Times are in ms."""

    watches: tuple[Watch, ...]
    """The first one that matches a file applies."""
    refresh_ms: int
    max_backoff_ms: int
    max_age_ms: int
    name_filter: re.Pattern[str]
    slice_bytes: int = 0
    """0: a record is a whole file, or what was appended to it."""
    whole_lines: bool = False
    """Slices end with a line."""
    key_schema: Schema | None = None
    """The schema of keys with name and offset; None: keys are paths."""
    max_records: int = 10_000
    """Records of a poll."""
    shrunk: Shrunk = Shrunk.WHOLE
    after: Cleanup = Cleanup.NOTHING
    after_folder: str = ""
    share: int = 0
    shares: int = 1

    def moved(self, path: str) -> str:
        """Where a file of a watch of mode UPDATE is moved to: its path below the folder that all of
        these watches share is kept, so that files of different folders never replace each other."""
        folders = [watch.pattern.folder for watch in self.watches if watch.mode is Mode.UPDATE]
        shared = posixpath.commonpath(folders).rstrip("/")
        return absolute(f"{self.after_folder}/{path.removeprefix(f'{shared}/')}")
