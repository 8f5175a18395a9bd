"""The settings that the sources of object stores have in common, under the names of Confluent's
connectors (connectors.md §13)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    MEDIUM,
    REQUIRED,
    Config,
    Group,
    Key,
    RegexInvalid,
    checking,
    compile_java,
    invalid,
)
from penstock.connectors.files.read.after import After, Policy
from penstock.connectors.files.read.ledger import FolderLedger, OffsetShape
from penstock.connectors.files.read.names import Patterned, Restored
from penstock.connectors.files.read.plan import Beside, Errors, SourcePlan
from penstock.connectors.files.read.scan import Finding
from penstock.connectors.files.settings.ignored import log_ignored
from penstock.connectors.files.settings.sink import (
    DIRECTORY_DELIM,
    FILE_DELIM,
    HEADERS_FORMAT,
    KEYS_FORMAT,
    PARTITIONER_CLASS,
    TOPICS_DIR,
)
from penstock.connectors.files.settings.source import (
    CHANGED,
    COMPRESSION,
    FILE_KEYS,
    RECORD_MAX_BYTES,
    SOURCE_KEYS,
    STORE_HEADERS,
    STORE_KEYS,
    file_ledger,
    reading_by,
)
from penstock.connectors.files.settings.tables import (
    FORMAT,
    PARTITIONER,
    PARTITIONERS,
    READINGS,
    ReadOptions,
    entry,
)

RESTORE: Final = "RESTORE_BACKUP"
GENERIC: Final = "GENERIC"
_PREFIX: Final = "CloudStorage"  # of the names of Confluent's classes for GENERIC


def _pairs_problem(pairs: Sequence[str] | None) -> str | None:
    for pair in pairs or ():
        topic, colon, pattern = pair.partition(":")
        if not (topic and colon and pattern):
            return f"'{pair}' is not of the form topic:pattern"
        try:
            compile_java(pattern)
        except RegexInvalid as error:
            return f"The pattern of '{topic}' is invalid: {error}"
    return None


def _format(class_name: str) -> str | None:
    """The format of a class, as READINGS names it."""
    package, dot, simple = class_name.rpartition(".")
    return entry(READINGS, FORMAT, f"{package}{dot}{simple.removeprefix(_PREFIX)}")


_NAMES: Final = ", ".join(f"{name}{FORMAT}" for name in READINGS)


def _format_problem(name: str | None) -> str | None:
    return None if name is None or _format(name) else f"It is not one of {_NAMES}"


# fmt: off
_SOURCE: Final = Group("Source", importance=LOW, numbered=False)
FORMAT_CLASS: Final = _SOURCE.text("format.class", REQUIRED,
    "The format of files, as a class name; its package is ignored.",
    check=checking(_NAMES, _format_problem), importance=HIGH)
MODE: Final = _SOURCE.choice("mode", RESTORE, (RESTORE, GENERIC),
    "RESTORE_BACKUP: files that the sink wrote are restored to their topics and partitions. "
    "GENERIC: any files, to the topics of topic.regex.list.", importance=HIGH)
TOPIC_PATTERNS: Final = _SOURCE.listing("topic.regex.list", (),
    "For GENERIC: topics, each with a pattern that the whole names of its files match.",
    check=checking("a list of topic:pattern", _pairs_problem), importance=HIGH)
FOLDERS: Final = _SOURCE.listing("folders", (),
    "The folders of topics.dir that are searched for files; by default all.")
SINCE: Final = _SOURCE.long("file.discovery.starting.timestamp", 0,
    "Files that were modified before this time (ms since the epoch) are skipped.", at_least=0)
ON_ERROR: Final = _SOURCE.choice("behavior.on.error", "fail", ("fail", "ignore", "log"),
    "How to handle a record or a file that cannot be read: fail; or ignore and log, which both "
    "skip and log it.", ignore_case=True, importance=HIGH)
CSV_HEADER: Final = _SOURCE.choice("penstock.csv.header", "true", ("true", "false"),
    "Whether the first row of CSV contains the column names.")
SEPARATOR: Final = _SOURCE.text("format.bytearray.separator", "\n",
    "The separator that ends a record of raw bytes; empty: a file is one record.")
TOMBSTONES: Final = _SOURCE.text("tombstone.encoded.partition", "tombstone",
    "The folder of records without a value, which are restored with store.kafka.keys=true.")
RECORD_BATCH: Final = _SOURCE.ignored("record.batch.max.size", 200,
    "a poll is bounded by bytes, which is faster", at_least=1, importance=MEDIUM)
SPLIT: Final = _SOURCE.long("penstock.split.files.bytes", 0,
    "For GENERIC: larger files are read in ranges of this many bytes, several at a time, if their "
    "format can be split: Parquet, Avro, and lines of JSON, text and CSV (without newlines in "
    "quotes) that are not compressed as a whole. Records keep their order only within a range. 0: "
    "every file is read from beginning to end.", at_least=0)
_POLL_INTERVAL: Final = _SOURCE.long("poll.interval.ms", 60_000,
    "How long to wait before the store is listed again.", at_least=1, importance=MEDIUM)
ERROR_TOPIC: Final = _SOURCE.text("parse.error.topic.prefix", "",
    "The prefix of topics for records that cannot be parsed: not supported, so it is refused "
    f"unless {ON_ERROR.name}=fail, when there are none.")
# fmt: on
IGNORED: Final = (
    *("task.batch.size", "schema.cache.size", "path.format"),
    *("partition.field.name", "storage.class", "partition.duration.ms", "locale", "timezone"),
    *("timestamp.extractor", "timestamp.field", "flush.size", "max.retries"),
)
"""Settings of Confluent's sources, and of the sinks before them, that have no meaning here."""


def mode_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """GENERIC needs patterns; RESTORE_BACKUP does not split files."""
    if parsed.get(MODE.name) == GENERIC and not parsed.get(TOPIC_PATTERNS.name):
        text = f"{MODE.name}={GENERIC} needs it"
        yield TOPIC_PATTERNS.name, invalid(TOPIC_PATTERNS.name, [], text)
    if parsed.get(MODE.name) == RESTORE and (split := parsed.get(SPLIT.name)):
        text = f"It must be 0, since {MODE.name}={RESTORE} keeps the order of records"
        yield SPLIT.name, invalid(SPLIT.name, split, text)


def error_topic_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """No topic is promised to records that cannot be parsed."""
    behavior = str(parsed.get(ON_ERROR.name) or "")
    if (prefix := parsed.get(ERROR_TOPIC.name)) and behavior.lower() != "fail":
        text = (
            "Records that cannot be parsed are not sent to a topic. Remove it, and find them in "
            f"the log; or set {ON_ERROR.name}=fail"
        )
        yield ERROR_TOPIC.name, invalid(ERROR_TOPIC.name, prefix, text)


OBJECT_RULES: Final = (mode_rule, error_topic_rule)
OBJECT_KEYS: Final = (
    FORMAT_CLASS,
    MODE,
    TOPICS_DIR,
    DIRECTORY_DELIM,
    FILE_DELIM,
    replace(PARTITIONER_CLASS, doc="The partitioner of the sink that wrote the files."),
    TOPIC_PATTERNS,
    FOLDERS,
    SINCE,
    ON_ERROR,
    ERROR_TOPIC,
    RECORD_BATCH,
    CSV_HEADER,
    SEPARATOR,
    SPLIT,
    STORE_KEYS,
    KEYS_FORMAT,
    STORE_HEADERS,
    HEADERS_FORMAT,
    TOMBSTONES,
    replace(CHANGED, default="ignore"),
    *(key for key in FILE_KEYS if key is not CHANGED),
    *SOURCE_KEYS,
)
"""The keys of all sources of object stores."""


def poll_interval(name: str) -> Key[int]:
    """The pause between two listings of a store."""
    return replace(_POLL_INTERVAL, name=name)


def modules_of(config: Config) -> list[str]:
    """The modules that the formats of a configuration need."""
    classes = [config[FORMAT_CLASS]]
    classes += [config[KEYS_FORMAT]] if config[STORE_KEYS] else []
    classes += [config[HEADERS_FORMAT]] if config[STORE_HEADERS] else []
    return ["fastavro"] if "Avro" in map(_format, classes) else []


def known_by(config: Config) -> str:
    """The source partition key that names the file or folder."""
    return "fileName" if config[MODE] == GENERIC else "folder"


def prefixes_of(config: Config) -> tuple[str, ...]:
    """The prefixes of the names of files."""
    root, delimiter = config[TOPICS_DIR], config[DIRECTORY_DELIM]
    base = f"{root}{delimiter}" if root else ""
    folders = sorted(f"{base}{folder.strip(delimiter)}{delimiter}" for folder in config[FOLDERS])
    return tuple(folders) or (base,)


def object_source_plan(
    config: Config, poll: Key[int], place: str, ignored: Iterable[str]
) -> SourcePlan:
    """The plan of a valid configuration. `place`: the prefix of object names that identifies
    their store; `ignored`: settings that have no meaning here."""
    log_ignored(config, ignored)
    behavior = config[ON_ERROR].lower()
    skips = behavior != "fail"
    options = ReadOptions(
        compression=config[COMPRESSION],
        record_max_bytes=config[RECORD_MAX_BYTES],
        csv_header=config[CSV_HEADER] == "true",
        separator=config[SEPARATOR].encode() or None,
    )
    format = _format(config[FORMAT_CLASS])
    assert format is not None, "validation has seen to it"
    plan = SourcePlan(
        finding=Finding(
            prefixes=prefixes_of(config),
            names=lambda path: None,
            poll_ms=config[poll],
            since_ms=config[SINCE],
            again=config[CHANGED] == "read",
        ),
        reading=reading_by(format, options),
        ledger=file_ledger(config, OffsetShape("fileName", "fileOffset", {}), place),
        errors=Errors(f"{ON_ERROR.name}=log", skips_files=skips, skips_records=skips),
        after=After(Policy.NONE),
    )
    if config[MODE] == GENERIC:
        finding = replace(plan.finding, names=_patterns(config))
        return replace(plan, finding=finding, split_bytes=config[SPLIT])
    return _restoring(config, plan, options)


def _patterns(config: Config) -> Patterned:
    pairs = [pair.partition(":") for pair in config[TOPIC_PATTERNS]]
    return Patterned(0, tuple((topic, compile_java(pattern)) for topic, _, pattern in pairs))


def _restoring(config: Config, plan: SourcePlan, options: ReadOptions) -> SourcePlan:
    root, delimiter = config[TOPICS_DIR], config[DIRECTORY_DELIM]
    keys = config[STORE_KEYS]
    names = Restored(
        f"{root}{delimiter}" if root else "",
        delimiter,
        config[FILE_DELIM],
        tombstones=config[TOMBSTONES] if keys else None,
        pattern=_any_of(config),
    )
    # Files of a Kafka partition may be in several folders: then their offsets define the order.
    one_folder = _partitioner(config) == "Default"
    order = None if one_folder and not keys else lambda file: (names.start(file.path), file.path)
    return replace(
        plan,
        finding=replace(plan.finding, names=names, order=order),
        ledger=lambda stored, task, tasks: FolderLedger(stored, one_lane=one_folder and not keys),
        keys=_beside(config, "keys", KEYS_FORMAT, names, options) if keys else None,
        headers=(
            _beside(config, "headers", HEADERS_FORMAT, names, options)
            if config[STORE_HEADERS]
            else None
        ),
    )


def _any_of(config: Config) -> re.Pattern[str] | None:
    """The patterns of the files to restore, if any are configured."""
    pairs = [pair.partition(":") for pair in config[TOPIC_PATTERNS]]
    if not pairs:
        return None
    return re.compile("|".join(f"(?:{compile_java(pattern).pattern})" for _, _, pattern in pairs))


def _partitioner(config: Config) -> str | None:
    """The partitioner's name in its table."""
    return entry(PARTITIONERS, PARTITIONER, config[PARTITIONER_CLASS])


def _beside(
    config: Config, side: str, key: Key[str], names: Restored, options: ReadOptions
) -> Beside:
    format = _format(config[key])
    assert format is not None, "validation has seen to it"
    member = {"keys": "key", "headers": "headers"}[side]
    return Beside(side, names.stem, reading_by(format, replace(options, member=member)))
