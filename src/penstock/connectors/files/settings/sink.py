"""The settings that all sinks of files have in common; ours start with `penstock.`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    Config,
    Key,
    Rule,
    at_least,
    between,
    checking,
    invalid,
    non_empty,
    one_of,
)
from penstock.connectors.files.boundaries.joda import (
    PatternInvalid,
    Write,
    compile_pattern,
    has_names,
)
from penstock.connectors.files.boundaries.paths import Naming
from penstock.connectors.files.boundaries.schemas import Compatibility
from penstock.connectors.files.boundaries.spans import Rules
from penstock.connectors.files.formats.codecs import AVRO_CODECS, FILE_CODECS
from penstock.connectors.files.formats.columns import PARQUET_CODECS
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.settings.avro import AVRO_KEYS, STORAGE_CLASS, avro_options
from penstock.connectors.files.settings.tables import (
    FORMAT,
    FORMATS,
    PARTITIONER,
    PARTITIONERS,
    FormatOptions,
    Period,
    entry,
    known,
)
from penstock.connectors.files.write.plan import (
    ByFields,
    ByPartition,
    ByTime,
    Clock,
    Nulls,
    SinkPlan,
)

log = logging.getLogger(__name__)

_CONNECTOR: Final = "Connector"
_PARTITIONER: Final = "Partitioner"
_STORAGE: Final = "Storage"
_NULLS: Final = "Keys, headers and nulls"


def _zone_problem(name: str | None) -> str | None:
    if not name:
        return None
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "It is not a time zone of the IANA database"
    return None


def _pattern_problem(pattern: str | None) -> str | None:
    try:
        compile_pattern(pattern or "")
    except PatternInvalid as error:
        return str(error)
    return None


FORMAT_CLASS: Final = Key(
    "format.class",
    STRING,
    importance=HIGH,
    check=known(FORMATS, FORMAT),
    doc="The format of the files, as a class name; its package is ignored.",
    group=_CONNECTOR,
    order=1,
)
FLUSH_SIZE: Final = Key(
    "flush.size",
    INT,
    importance=HIGH,
    check=at_least(1),
    doc="How many records, in all open files of a topic partition together, complete these files.",
    group=_CONNECTOR,
    order=2,
)
ROTATE_INTERVAL_MS: Final = Key(
    "rotate.interval.ms",
    LONG,
    default=-1,
    importance=HIGH,
    doc="How much later, in ms, a record's time (by `timestamp.extractor`) may be than that of "
    "the first record of the files; a later record completes them. -1: no limit.",
    group=_CONNECTOR,
    order=3,
)
ROTATE_SCHEDULE_INTERVAL_MS: Final = Key(
    "rotate.schedule.interval.ms",
    LONG,
    default=-1,
    importance=MEDIUM,
    doc="Files are completed at every multiple of this many ms since midnight in `timezone`, even "
    "without new records; -1: never. Not exactly once.",
    group=_CONNECTOR,
    order=4,
)
SCHEMA_COMPATIBILITY: Final = Key(
    "schema.compatibility",
    STRING,
    default="NONE",
    importance=HIGH,
    check=one_of("NONE", "BACKWARD", "FORWARD", "FULL", ignore_case=True),
    doc="Which schemas a file may contain: NONE, one; BACKWARD and FULL, also older versions, "
    "which are projected to the newest; FORWARD, also newer versions, which are projected to the "
    "oldest.",
    group=_CONNECTOR,
    order=5,
)
AVRO_CODEC: Final = Key(
    "avro.codec",
    STRING,
    default="null",
    importance=LOW,
    check=one_of(*AVRO_CODECS),
    doc="How Avro files are compressed.",
    group=_CONNECTOR,
    order=6,
)
PARQUET_CODEC: Final = Key(
    "parquet.codec",
    STRING,
    default="snappy",
    importance=LOW,
    check=one_of(*PARQUET_CODECS),
    doc="How Parquet files are compressed.",
    group=_CONNECTOR,
    order=7,
)
JSON_DECIMAL_FORMAT: Final = Key(
    "json.decimal.format",
    STRING,
    default="BASE64",
    importance=LOW,
    check=one_of("BASE64", "NUMERIC", ignore_case=True),
    doc="How JSON files represent decimals.",
    group=_CONNECTOR,
    order=8,
)
BYTES_EXTENSION: Final = Key(
    "format.bytearray.extension",
    STRING,
    default=".bin",
    importance=LOW,
    doc="The extension of files of raw bytes.",
    group=_CONNECTOR,
    order=9,
)
BYTES_SEPARATOR: Final = Key(
    "format.bytearray.separator",
    STRING,
    default=None,
    importance=LOW,
    doc="The separator after each record in files of raw bytes; by default a line feed.",
    group=_CONNECTOR,
    order=10,
)
CSV_DELIMITER: Final = Key(
    "penstock.csv.delimiter",
    STRING,
    default=",",
    importance=LOW,
    check=checking(
        "one character", lambda text: None if text and len(text) == 1 else "One character"
    ),
    doc="The character between the cells of CSV files.",
    group=_CONNECTOR,
    order=11,
)
CSV_HEADER: Final = Key(
    "penstock.csv.header",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether CSV files begin with the names of their columns.",
    group=_CONNECTOR,
    order=12,
)
TOPICS_DIR: Final = Key(
    "topics.dir",
    STRING,
    default="topics",
    importance=HIGH,
    doc="The folder of all files, with a subfolder for each topic.",
    group=_STORAGE,
    order=1,
)
DIRECTORY_DELIM: Final = Key(
    "directory.delim",
    STRING,
    default="/",
    importance=MEDIUM,
    check=non_empty(),
    doc="The separator between folders.",
    group=_STORAGE,
    order=2,
)
FILE_DELIM: Final = Key(
    "file.delim",
    STRING,
    default="+",
    importance=MEDIUM,
    doc="The separator between topic, partition and offset in file names.",
    group=_STORAGE,
    order=3,
)
ZERO_PAD_WIDTH: Final = Key(
    "filename.offset.zero.pad.width",
    INT,
    default=10,
    importance=LOW,
    check=at_least(0),
    doc="The minimum number of digits of an offset in file names.",
    group=_STORAGE,
    order=4,
)
PARTITIONER_CLASS: Final = Key(
    "partitioner.class",
    STRING,
    default="io.confluent.connect.storage.partitioner.DefaultPartitioner",
    importance=HIGH,
    check=known(PARTITIONERS, PARTITIONER),
    doc="Which folder of its topic a record goes to, as a class name; its package is ignored.",
    group=_PARTITIONER,
    order=1,
)
PARTITION_FIELD_NAME: Final = Key(
    "partition.field.name",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="The fields of FieldPartitioner, which may be nested (`a.b`): strings, integers or "
    "booleans.",
    group=_PARTITIONER,
    order=2,
)
PARTITION_DURATION_MS: Final = Key(
    "partition.duration.ms",
    LONG,
    default=-1,
    importance=MEDIUM,
    doc="The length of TimeBasedPartitioner's periods, in ms.",
    group=_PARTITIONER,
    order=3,
)
PATH_FORMAT: Final = Key(
    "path.format",
    STRING,
    default="",
    importance=MEDIUM,
    check=checking("a pattern of Joda-Time", _pattern_problem),
    doc="The folders of TimeBasedPartitioner: 'year'=YYYY/'month'=MM/'day'=dd.",
    group=_PARTITIONER,
    order=4,
)
LOCALE: Final = Key(
    "locale",
    STRING,
    default="",
    importance=MEDIUM,
    doc="The language of month and day names in `path.format`; only English.",
    group=_PARTITIONER,
    order=5,
)
TIMEZONE: Final = Key(
    "timezone",
    STRING,
    default="",
    importance=MEDIUM,
    check=checking("a time zone", _zone_problem),
    doc="The time zone of periods, time-based folders and scheduled rotations.",
    group=_PARTITIONER,
    order=6,
)
TIMESTAMP_EXTRACTOR: Final = Key(
    "timestamp.extractor",
    STRING,
    default="Wallclock",
    importance=MEDIUM,
    check=one_of(*(clock.value for clock in Clock)),
    doc="The time of a record: the wall-clock time when it is written (not exactly once), its "
    "timestamp, or that in `timestamp.field`.",
    group=_PARTITIONER,
    order=7,
)
TIMESTAMP_FIELD: Final = Key(
    "timestamp.field",
    STRING,
    default="timestamp",
    importance=MEDIUM,
    check=non_empty(),
    doc="The field with the time for RecordField, which may be nested (`a.b`): a Timestamp, ms "
    "since the epoch as a number or a string, or an ISO 8601 string.",
    group=_PARTITIONER,
    order=8,
)
ROTATE_ON_PARTITION_CHANGE: Final = Key(
    "rotate.file.on.partition.change",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether, with `rotate.interval.ms`, files are completed when a record goes to another "
    "folder than the previous one.",
    group=_PARTITIONER,
    order=9,
)
MAX_OPEN_FILES: Final = Key(
    "partitioner.max.open.files",
    INT,
    default=-1,
    importance=LOW,
    doc="How many files of a topic partition may be open; one more completes them. -1: no limit.",
    group=_PARTITIONER,
    order=10,
)
BEHAVIOR_ON_NULL_VALUES: Final = Key(
    "behavior.on.null.values",
    STRING,
    default="fail",
    importance=LOW,
    check=one_of("fail", "ignore", "write", ignore_case=True),
    doc="How to handle records without a value: fail, skip them (ignore), or write their keys to "
    "a separate folder (`tombstone.encoded.partition`).",
    group=_NULLS,
    order=1,
)
REPORT_NULLS: Final = Key(
    "report.null.values.to.dlq",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether skipped records without a value are sent to the dead letter queue, if there is "
    "one.",
    group=_NULLS,
    order=2,
)
TOMBSTONE_PARTITION: Final = Key(
    "tombstone.encoded.partition",
    STRING,
    default="tombstone",
    importance=LOW,
    check=non_empty(),
    doc="The folder of records without a value.",
    group=_NULLS,
    order=3,
)
STORE_KEYS: Final = Key(
    "store.kafka.keys",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether keys are written to a separate file beside that of the values.",
    group=_NULLS,
    order=4,
)
KEYS_FORMAT: Final = Key(
    "keys.format.class",
    STRING,
    default="io.confluent.connect.s3.format.avro.AvroFormat",
    importance=LOW,
    check=known(FORMATS, FORMAT),
    doc="The format of files of keys.",
    group=_NULLS,
    order=5,
)
STORE_HEADERS: Final = Key(
    "store.kafka.headers",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether headers are written to a separate file beside that of the values.",
    group=_NULLS,
    order=6,
)
HEADERS_FORMAT: Final = Key(
    "headers.format.class",
    STRING,
    default="io.confluent.connect.s3.format.avro.AvroFormat",
    importance=LOW,
    check=known(FORMATS, FORMAT),
    doc="The format of files of headers.",
    group=_NULLS,
    order=7,
)

COMPRESSION_DOC: Final = "How JSON, CSV, text and raw files are compressed."
COMPRESSION_CHECK: Final = one_of(*FILE_CODECS)
LEVEL_CHECK: Final = between(-1, 9)
LEVEL_DOC: Final = "The compression level of gzip and bzip2, up to 9; -1: their default."

SINK_KEYS: Final[tuple[Key[object], ...]] = (
    FORMAT_CLASS,
    FLUSH_SIZE,
    ROTATE_INTERVAL_MS,
    ROTATE_SCHEDULE_INTERVAL_MS,
    SCHEMA_COMPATIBILITY,
    AVRO_CODEC,
    PARQUET_CODEC,
    *AVRO_KEYS,
    JSON_DECIMAL_FORMAT,
    BYTES_EXTENSION,
    BYTES_SEPARATOR,
    CSV_DELIMITER,
    CSV_HEADER,
    STORAGE_CLASS,
    TOPICS_DIR,
    DIRECTORY_DELIM,
    FILE_DELIM,
    ZERO_PAD_WIDTH,
    PARTITIONER_CLASS,
    PARTITION_FIELD_NAME,
    PARTITION_DURATION_MS,
    PATH_FORMAT,
    LOCALE,
    TIMEZONE,
    TIMESTAMP_EXTRACTOR,
    TIMESTAMP_FIELD,
    ROTATE_ON_PARTITION_CHANGE,
    MAX_OPEN_FILES,
    BEHAVIOR_ON_NULL_VALUES,
    REPORT_NULLS,
    TOMBSTONE_PARTITION,
    STORE_KEYS,
    KEYS_FORMAT,
    STORE_HEADERS,
    HEADERS_FORMAT,
)

IGNORED: Final = (
    "max.write.duration.ms",
    "retry.backoff.ms",
    "schema.cache.size",
    "schemas.cache.config",
    "schemas.cache.size",
    "shutdown.timeout.ms",
)
"""Settings of Confluent's connectors that do not affect what is written."""


def _partitioner_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """The settings that a partitioner needs are set."""
    name = entry(PARTITIONERS, PARTITIONER, str(parsed.get(PARTITIONER_CLASS.name) or ""))
    if name is None:
        return
    shown = f"{PARTITIONER_CLASS.name}={name}{PARTITIONER}"
    if name == "Field" and not parsed.get(PARTITION_FIELD_NAME.name):
        field = PARTITION_FIELD_NAME.name
        yield field, invalid(field, "", f"{shown} needs the names of fields")
    period = PARTITIONERS[name]
    if period is None:
        return
    duration = parsed.get(PARTITION_DURATION_MS.name)
    if period.duration_ms is None and isinstance(duration, int) and duration <= 0:
        field = PARTITION_DURATION_MS.name
        yield field, invalid(field, duration, f"{shown} needs a positive number of ms")
    pattern = parsed.get(PATH_FORMAT.name)
    if period.path is None and not pattern:
        yield PATH_FORMAT.name, invalid(PATH_FORMAT.name, "", f"{shown} needs a pattern")
    if not parsed.get(TIMEZONE.name):
        yield TIMEZONE.name, invalid(TIMEZONE.name, "", f"{shown} needs a time zone")
    locale = str(parsed.get(LOCALE.name) or "en").replace("_", "-").lower()
    if period.path is None and has_names(str(pattern or "")) and locale.split("-")[0] != "en":
        yield (
            LOCALE.name,
            invalid(
                LOCALE.name,
                parsed.get(LOCALE.name),
                "Names of months and days are only in English; use numbers in path.format, or set "
                "en",
            ),
        )


def _schedule_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """A schedule needs a time zone."""
    schedule = parsed.get(ROTATE_SCHEDULE_INTERVAL_MS.name)
    if isinstance(schedule, int) and schedule > 0 and not parsed.get(TIMEZONE.name):
        text = f"{ROTATE_SCHEDULE_INTERVAL_MS.name} needs a time zone"
        yield TIMEZONE.name, invalid(TIMEZONE.name, "", text)


def _nulls_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Without a value, only a record's key can be written."""
    behavior = str(parsed.get(BEHAVIOR_ON_NULL_VALUES.name) or "").lower()
    if behavior == "write" and not parsed.get(STORE_KEYS.name):
        name = BEHAVIOR_ON_NULL_VALUES.name
        yield name, invalid(name, "write", f"It needs {STORE_KEYS.name}=true")


SINK_RULES: Final[tuple[Rule, ...]] = (_partitioner_rule, _schedule_rule, _nulls_rule)


def plan_of(
    config: Config,
    *,
    compression: str,
    level: int,
    named: Callable[[str], str],
    ignored: Iterable[str] = IGNORED,
    hdfs: bool = False,
) -> SinkPlan:
    """The plan of a valid configuration. `named`: see `SinkPlan`. `hdfs`: names and rotation are
    those of Confluent's HDFS connector."""
    _log_ignored(config, ignored)
    zone = ZoneInfo(config[TIMEZONE] or "UTC")
    naming = Naming(
        config[TOPICS_DIR].strip("/") if hdfs else config[TOPICS_DIR],
        config[DIRECTORY_DELIM],
        config[FILE_DELIM],
        config[ZERO_PAD_WIDTH],
        has_end=hdfs,
    )
    folders = _folders(config, zone, naming.delimiter)
    clock = _clock(config, folders, by_wall=hdfs)
    options = _format_options(config, compression, level, bare_parquet=hdfs)
    return SinkPlan(
        rules=Rules(
            flush_size=config[FLUSH_SIZE],
            interval_ms=None if clock is None else _positive(config[ROTATE_INTERVAL_MS]),
            schedule_ms=_positive(config[ROTATE_SCHEDULE_INTERVAL_MS]),
            cut_on_folder=config[ROTATE_ON_PARTITION_CHANGE],
            max_files=_positive(config[MAX_OPEN_FILES]),
            compatibility=Compatibility(config[SCHEMA_COMPATIBILITY].upper()),
        ),
        naming=naming,
        folders=folders,
        zone=zone,
        clock=clock,
        time_field=tuple(config[TIMESTAMP_FIELD].split(".")),
        nulls=Nulls(config[BEHAVIOR_ON_NULL_VALUES].lower()),
        report_nulls=config[REPORT_NULLS],
        tombstone_folder=config[TOMBSTONE_PARTITION],
        values=_format(config, FORMAT_CLASS, options),
        keys=_format(config, KEYS_FORMAT, options) if config[STORE_KEYS] else None,
        headers=_format(config, HEADERS_FORMAT, options) if config[STORE_HEADERS] else None,
        named=named,
    )


def _log_ignored(config: Config, ignored: Iterable[str]) -> None:
    names = [name for name in ignored if name in config.props]
    if names:
        log.info("Ignoring settings that have no meaning in penstock: %s", ", ".join(names))


def _positive(value: int) -> int | None:
    return value if value > 0 else None


def _folders(config: Config, zone: ZoneInfo, delimiter: str) -> ByPartition | ByFields | ByTime:
    name = entry(PARTITIONERS, PARTITIONER, config[PARTITIONER_CLASS])
    assert name is not None, "it is checked"
    if name == "Field":
        return ByFields(config[PARTITION_FIELD_NAME])
    period = PARTITIONERS[name]
    if period is None:
        return ByPartition()
    return ByTime(_pattern(config, period, delimiter), zone, _duration_ms(config, period))


def _pattern(config: Config, period: Period, delimiter: str) -> Write:
    if period.path is None:
        return compile_pattern(config[PATH_FORMAT])
    parts = [compile_pattern(part) for part in period.path.split("/")]
    return lambda moment: delimiter.join([part(moment) for part in parts])


def _duration_ms(config: Config, period: Period) -> int:
    return config[PARTITION_DURATION_MS] if period.duration_ms is None else period.duration_ms


def _clock(
    config: Config, folders: ByPartition | ByFields | ByTime, *, by_wall: bool
) -> Clock | None:
    """The source of times, if they matter. `rotate.interval.ms` is for partitioners by time, as in
    Confluent's connectors; here also for others, if the source of times is set. `by_wall`: for
    these it is the clock, as in Confluent's HDFS connector."""
    if isinstance(folders, ByTime):
        return Clock(config[TIMESTAMP_EXTRACTOR])
    if _positive(config[ROTATE_INTERVAL_MS]) is None:
        return None
    if TIMESTAMP_EXTRACTOR.name in config.props:
        return Clock(config[TIMESTAMP_EXTRACTOR])
    if by_wall:
        return Clock.WALL
    log.warning(
        "Ignoring %s: the partitioner is not time-based and %s is not set",
        ROTATE_INTERVAL_MS.name,
        TIMESTAMP_EXTRACTOR.name,
    )
    return None


def _format(config: Config, key: Key[str], options: FormatOptions) -> Format:
    name = entry(FORMATS, FORMAT, config[key])
    assert name is not None, "it is checked"
    return FORMATS[name](options)


def _format_options(
    config: Config, compression: str, level: int, *, bare_parquet: bool
) -> FormatOptions:
    separator = config[BYTES_SEPARATOR]
    return FormatOptions(
        compression=compression,
        level=None if level < 0 else level,
        avro_codec=config[AVRO_CODEC],
        avro=avro_options(config),
        parquet_codec=config[PARQUET_CODEC],
        bare_parquet=bare_parquet,
        numeric_decimals=config[JSON_DECIMAL_FORMAT].upper() == "NUMERIC",
        extension=config[BYTES_EXTENSION],
        separator=b"\n" if separator is None else separator.encode(),
        csv_delimiter=config[CSV_DELIMITER],
        csv_header=config[CSV_HEADER],
    )
