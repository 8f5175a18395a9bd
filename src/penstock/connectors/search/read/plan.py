"""Which documents a source reads, and how, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

SEQ_NO: Final = "_seq_no"
"""The number of the last write of a document: each shard counts its writes."""


class Format(Enum):
    """The form of a record's value (`value.format`)."""

    MAP = "map"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Which documents are read, and how. Times in ms.

    `indices`: the names and patterns, in the cluster's syntax. `topic`: a template with `${index}`.
    `field`: the one that documents are sorted by. `source`: the fields that are read; none: all.
    `keep_alive_ms`: of points in time; 0: none are used.
    """

    indices: str
    topic: str
    field: str
    query: Mapping[str, Any] | None
    source: tuple[str, ...]
    format: Format
    poll_ms: int
    delay_ms: int
    refreshes: bool
    batch: int
    in_flight: int
    keep_alive_ms: int

    @property
    def by_writes(self) -> bool:
        """Whether documents are read in the order in which they were written."""
        return self.field == SEQ_NO
