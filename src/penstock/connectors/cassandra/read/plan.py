"""The plan of a source task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """How new rows are recognized (`INCREMENTALMODE`)."""

    BULK = ""  # not at all: every poll reads all rows
    TIMESTAMP = "timestamp"
    TIMEUUID = "timeuuid"
    TOKEN = "token"  # by the position of the partition key on the ring
    BUCKETS = "buckettimeseries"


class Bucket(Enum):
    """The length of a bucket, in ms."""

    DAY = 86_400_000
    HOUR = 3_600_000
    MINUTE = 60_000
    SECOND = 1_000


@dataclass(frozen=True, slots=True)
class Buckets:
    """The names of buckets, and the column that holds them."""

    length: Bucket
    pattern: str
    column: str


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table and its topic. `columns`: pairs of column and alias; empty: all columns."""

    keyspace: str
    table: str
    topic: str
    mode: Mode
    column: str = ""  # the column that identifies new rows
    columns: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    buckets: Buckets | None = None
    unwraps: bool = False  # values are strings: the columns joined with commas, or JSON
    unwraps_json: bool = False
    key_columns: tuple[str, ...] = ()
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The tables of a task, and how to read them. Times in ms; `initial_ms` since the epoch."""

    tables: tuple[TablePlan, ...]
    interval_ms: int = 1_000
    slice_ms: int = 10_000
    delay_ms: int = 30_000
    initial_ms: int = 0
    fetch: int = 5_000
    filters: bool = True
    as_json: bool = True
    consistency: str = ""
    setting: str = ""  # the setting that messages name
