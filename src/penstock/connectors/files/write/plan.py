"""What a sink does, as a value: made from its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from zoneinfo import ZoneInfo

from penstock.connectors.files.boundaries.joda import Write
from penstock.connectors.files.boundaries.paths import Naming
from penstock.connectors.files.boundaries.spans import Rules
from penstock.connectors.files.boundaries.templates import Template, TemplateNaming
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.write.shapes import Shape


class Clock(Enum):
    """Where the time of a record is from."""

    WALL = "Wallclock"
    RECORD = "Record"
    FIELD = "RecordField"


class Nulls(Enum):
    """What becomes of records without a value."""

    FAIL = "fail"
    IGNORE = "ignore"
    WRITE = "write"
    KEEP = "keep"  # they are as others are


class SchemaFolder(Enum):
    """Where the folder named after a record's schema is."""

    NONE = "NONE"
    PREFIX = "PREFIX"
    SUFFIX = "SUFFIX"


@dataclass(frozen=True, slots=True)
class ByPartition:
    """A folder for each Kafka partition: DefaultPartitioner."""


@dataclass(frozen=True, slots=True)
class ByFields:
    """A folder for each value of fields: FieldPartitioner."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ByTime:
    """A folder for each period of time: TimeBasedPartitioner and its kin."""

    write: Write
    zone: ZoneInfo
    duration_ms: int


@dataclass(frozen=True, slots=True)
class ByTemplate:
    """A file for what a template says of time and key."""

    template: Template
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What a sink does."""

    rules: Rules
    naming: Naming | TemplateNaming
    folders: ByPartition | ByFields | ByTime | ByTemplate
    zone: ZoneInfo  # by whose midnight scheduled cuts are made
    clock: Clock | None  # None: times do not matter
    time_field: tuple[str, ...]
    nulls: Nulls
    report_nulls: bool
    tombstone_folder: str
    values: Format
    keys: Format | None
    headers: Format | None
    named: Callable[[str], str]
    """What a folder's name that is from a record becomes where it might lead elsewhere."""
    schema_folder: SchemaFolder = SchemaFolder.NONE
    anew: bool = False
    """Whether files of other writers are left as they are, where the clock says when files end."""
    shape: Shape | None = None
    """What of records is written, if that is not their values."""
    latest_only: bool = False
    """Whether a file holds one record, the latest."""
    cut_on_flush: bool = False
    """Whether files are complete when offsets are to be committed."""

    @property
    def goes_by_the_clock(self) -> bool:
        """Whether the same records may become other files when they are written again."""
        return self.clock is Clock.WALL or self.rules.schedule_ms is not None
