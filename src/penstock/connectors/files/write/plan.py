"""The plan of a sink: a value made from its configuration."""

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
    """The source of a record's time."""

    WALL = "Wallclock"
    RECORD = "Record"
    FIELD = "RecordField"


class Nulls(Enum):
    """How records without a value are handled."""

    FAIL = "fail"
    IGNORE = "ignore"
    WRITE = "write"
    KEEP = "keep"  # like any other record


class SchemaFolder(Enum):
    """Position of the folder that is named after a record's schema."""

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
    """A file for each time and key that a template renders."""

    template: Template
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """How a sink writes its files."""

    rules: Rules
    naming: Naming | TemplateNaming
    folders: ByPartition | ByFields | ByTime | ByTemplate
    zone: ZoneInfo  # scheduled cuts count from its midnight
    clock: Clock | None  # None: times do not matter
    time_field: tuple[str, ...]
    nulls: Nulls
    report_nulls: bool
    tombstone_folder: str
    values: Format
    keys: Format | None
    headers: Format | None
    named: Callable[[str], str]
    """Turns a text of a record into a folder name that cannot escape its folder."""
    schema_folder: SchemaFolder = SchemaFolder.NONE
    create_only: bool = False
    """Whether to keep files of other writers unchanged, where files end by the clock."""
    shape: Shape | None = None
    """What to write of records instead of their values."""
    latest_only: bool = False
    """Whether a file holds one record, the latest."""
    cut_on_flush: bool = False
    """Whether files are completed whenever offsets are committed."""
    one_topic: bool = False
    """Whether the connector reads a single topic."""
