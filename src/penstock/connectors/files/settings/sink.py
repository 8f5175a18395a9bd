"""The settings that all sinks of files have in common; ours start with `penstock.`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    Group,
    Key,
    Rule,
    checking,
    invalid,
    non_empty,
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
from penstock.connectors.files.settings.avro import AVRO_KEYS, avro_options
from penstock.connectors.files.settings.ignored import log_ignored
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


def _delimiter_problem(text: str | None) -> str | None:
    return None if text and len(text) == 1 else "One character"


def _storage_problem(name: str | None) -> str | None:
    if not name or name.startswith("io.confluent.connect."):
        return None
    return "Only Confluent's own storage classes are supported; remove the setting"


# fmt: off
_CONNECTOR: Final = Group("Connector", importance=LOW)
FORMAT_CLASS: Final = _CONNECTOR.text("format.class", REQUIRED,
    "The format of the files, as a class name; its package is ignored.",
    check=known(FORMATS, FORMAT), importance=HIGH)
FLUSH_SIZE: Final = _CONNECTOR.number("flush.size", REQUIRED,
    "How many records, in all open files of a topic partition together, complete these files.",
    at_least=1, importance=HIGH)
ROTATE_INTERVAL_MS: Final = _CONNECTOR.long("rotate.interval.ms", -1,
    "How much later, in ms, a record's time (by `timestamp.extractor`) may be than that of the "
    "first record of the files; a later record completes them. -1: no limit.", importance=HIGH)
ROTATE_SCHEDULE_INTERVAL_MS: Final = _CONNECTOR.long("rotate.schedule.interval.ms", -1,
    "Files are completed at every multiple of this many ms since midnight in `timezone`, even "
    "without new records; -1: never. Not exactly once.", importance=MEDIUM)
SCHEMA_COMPATIBILITY: Final = _CONNECTOR.choice("schema.compatibility",
    "NONE", ("NONE", "BACKWARD", "FORWARD", "FULL"),
    "Which schemas a file may contain: NONE, one; BACKWARD and FULL, also older versions, which "
    "are projected to the newest; FORWARD, also newer versions, which are projected to the oldest.",
    ignore_case=True, importance=HIGH)
AVRO_CODEC: Final = _CONNECTOR.choice("avro.codec", "null", tuple(AVRO_CODECS),
    "How Avro files are compressed.")
PARQUET_CODEC: Final = _CONNECTOR.choice("parquet.codec", "snappy", tuple(PARQUET_CODECS),
    "How Parquet files are compressed.")
JSON_DECIMAL_FORMAT: Final = _CONNECTOR.choice("json.decimal.format",
    "BASE64", ("BASE64", "NUMERIC"),
    "How JSON files represent decimals.", ignore_case=True)
BYTES_EXTENSION: Final = _CONNECTOR.text("format.bytearray.extension", ".bin",
    "The extension of files of raw bytes.")
BYTES_SEPARATOR: Final = _CONNECTOR.text("format.bytearray.separator", None,
    "The separator after each record in files of raw bytes; by default a line feed.")
CSV_DELIMITER: Final = _CONNECTOR.text("penstock.csv.delimiter", ",",
    "The character between the cells of CSV files.",
    check=checking("one character", _delimiter_problem))
CSV_HEADER: Final = _CONNECTOR.flag("penstock.csv.header", True,
    "Whether CSV files begin with the names of their columns.")
_STORAGE: Final = Group("Storage")
TOPICS_DIR: Final = _STORAGE.text("topics.dir", "topics",
    "The folder of all files, with a subfolder for each topic.", importance=HIGH)
DIRECTORY_DELIM: Final = _STORAGE.text("directory.delim", "/",
    "The separator between folders.", check=non_empty())
FILE_DELIM: Final = _STORAGE.text("file.delim", "+",
    "The separator between topic, partition and offset in file names.")
ZERO_PAD_WIDTH: Final = _STORAGE.number("filename.offset.zero.pad.width", 10,
    "The minimum number of digits of an offset in file names.", at_least=0, importance=LOW)
STORAGE_CLASS: Final = _STORAGE.text("storage.class", None,
    "The class of Confluent's connector that stores files; the connector decides.",
    check=checking("a class of Confluent's", _storage_problem), importance=LOW)
_PARTITIONER: Final = Group("Partitioner")
PARTITIONER_CLASS: Final = _PARTITIONER.text("partitioner.class",
    "io.confluent.connect.storage.partitioner.DefaultPartitioner",
    "Which folder of its topic a record goes to, as a class name; its package is ignored.",
    check=known(PARTITIONERS, PARTITIONER), importance=HIGH)
PARTITION_FIELD_NAME: Final = _PARTITIONER.listing("partition.field.name", (),
    "The fields of FieldPartitioner, which may be nested (`a.b`): strings, integers or booleans.")
PARTITION_DURATION_MS: Final = _PARTITIONER.long("partition.duration.ms", -1,
    "The length of TimeBasedPartitioner's periods, in ms.")
PATH_FORMAT: Final = _PARTITIONER.text("path.format", "",
    "The folders of TimeBasedPartitioner: 'year'=YYYY/'month'=MM/'day'=dd.",
    check=checking("a pattern of Joda-Time", _pattern_problem))
LOCALE: Final = _PARTITIONER.text("locale", "",
    "The language of month and day names in `path.format`; only English.")
TIMEZONE: Final = _PARTITIONER.text("timezone", "",
    "The time zone of periods, time-based folders and scheduled rotations.",
    check=checking("a time zone", _zone_problem))
TIMESTAMP_EXTRACTOR: Final = _PARTITIONER.choice("timestamp.extractor",
    "Wallclock", tuple(clock.value for clock in Clock),
    "The time of a record: the wall-clock time when it is written (not exactly once), its "
    "timestamp, or that in `timestamp.field`.")
TIMESTAMP_FIELD: Final = _PARTITIONER.text("timestamp.field", "timestamp",
    "The field with the time for RecordField, which may be nested (`a.b`): a Timestamp, ms since "
    "the epoch as a number or a string, or an ISO 8601 string.", check=non_empty())
ROTATE_ON_PARTITION_CHANGE: Final = _PARTITIONER.flag("rotate.file.on.partition.change", True,
    "Whether, with `rotate.interval.ms`, files are completed when a record goes to another folder "
    "than the previous one.", importance=LOW)
MAX_OPEN_FILES: Final = _PARTITIONER.number("partitioner.max.open.files", -1,
    "How many files of a topic partition may be open; one more completes them. -1: no limit.",
    importance=LOW)
_NULLS: Final = Group("Keys, headers and nulls", importance=LOW)
BEHAVIOR_ON_NULL_VALUES: Final = _NULLS.choice("behavior.on.null.values",
    "fail", ("fail", "ignore", "write"),
    "How to handle records without a value: fail, skip them (ignore), or write their keys to a "
    "separate folder (`tombstone.encoded.partition`).", ignore_case=True)
REPORT_NULLS: Final = _NULLS.flag("report.null.values.to.dlq", True,
    "Whether skipped records without a value are sent to the dead letter queue, if there is one.")
TOMBSTONE_PARTITION: Final = _NULLS.text("tombstone.encoded.partition", "tombstone",
    "The folder of records without a value.", check=non_empty())
STORE_KEYS: Final = _NULLS.flag("store.kafka.keys", False,
    "Whether keys are written to a separate file beside that of the values.")
KEYS_FORMAT: Final = _NULLS.text("keys.format.class",
    "io.confluent.connect.s3.format.avro.AvroFormat",
    "The format of files of keys.", check=known(FORMATS, FORMAT))
STORE_HEADERS: Final = _NULLS.flag("store.kafka.headers", False,
    "Whether headers are written to a separate file beside that of the values.")
HEADERS_FORMAT: Final = _NULLS.text("headers.format.class",
    "io.confluent.connect.s3.format.avro.AvroFormat",
    "The format of files of headers.", check=known(FORMATS, FORMAT))
# fmt: on


@dataclass(frozen=True, slots=True)
class CompressionKeys:
    """How files are compressed that their format does not compress."""

    type: Key[str]
    level: Key[int]


def compression(group: Group, prefix: str, order: int = -1) -> CompressionKeys:
    """Declares compression, in a group; names begin with `prefix`."""
    return CompressionKeys(
        group.choice(
            f"{prefix}.compression.type",
            "none",
            tuple(FILE_CODECS),
            "How JSON, CSV, text and raw files are compressed.",
            importance=LOW,
            order=order,
        ),
        group.number(
            f"{prefix}.compression.level",
            -1,
            "The compression level of gzip and bzip2, up to 9; -1: their default.",
            at_least=-1,
            at_most=9,
            importance=LOW,
        ),
    )


SINK_KEYS: Final = (*_CONNECTOR, *AVRO_KEYS, *_STORAGE, *_PARTITIONER, *_NULLS)

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
    compression: CompressionKeys,
    named: Callable[[str], str],
    ignored: Iterable[str] = IGNORED,
    hdfs: bool = False,
) -> SinkPlan:
    """The plan of a valid configuration. `named`: see `SinkPlan`. `hdfs`: names and rotation are
    those of Confluent's HDFS connector."""
    log_ignored(config, ignored)
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
    options = _format_options(config, compression, bare_parquet=hdfs)
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
    config: Config, compression: CompressionKeys, *, bare_parquet: bool
) -> FormatOptions:
    separator, level = config[BYTES_SEPARATOR], config[compression.level]
    return FormatOptions(
        compression=config[compression.type],
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
