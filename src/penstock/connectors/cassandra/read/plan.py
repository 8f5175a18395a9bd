"""What a source task reads, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """What tells new rows (`INCREMENTALMODE`)."""

    BULK = ""  # nothing: all rows are read again and again
    TIMESTAMP = "timestamp"
    TIMEUUID = "timeuuid"
    TOKEN = "token"  # the partition key, as it is placed on the ring
    BUCKETS = "buckettimeseries"


class Bucket(Enum):
    """The length of a bucket, in ms."""

    DAY = 86_400_000
    HOUR = 3_600_000
    MINUTE = 60_000
    SECOND = 1_000


@dataclass(frozen=True, slots=True)
class Buckets:
    """How buckets are named, and the column that has their names."""

    length: Bucket
    pattern: str
    column: str


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table and its topic. Empty `columns`: all; each with the name it gets."""

    keyspace: str
    table: str
    topic: str
    mode: Mode
    column: str = ""  # what tells new rows
    columns: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    buckets: Buckets | None = None
    unwraps: bool = False  # values are texts: the columns', separated by commas, or JSON
    unwraps_json: bool = False
    key_columns: tuple[str, ...] = ()
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """All tables of a task, and how they are read. Times in ms; `initial_ms` since the epoch."""

    tables: tuple[TablePlan, ...]
    interval_ms: int = 1_000
    slice_ms: int = 10_000
    delay_ms: int = 30_000
    initial_ms: int = 0
    fetch: int = 5_000
    filters: bool = True
    as_json: bool = True
    consistency: str = ""
    setting: str = ""  # what messages blame
