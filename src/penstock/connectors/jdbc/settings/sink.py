"""The settings of the JDBC sink, with the names of Confluent's and Aiven's connectors
(connectors.md §3.1); ours start with `penstock.`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    STRING,
    ConfigDef,
    Key,
    at_least,
    invalid,
    non_empty,
    one_of,
)
from penstock.connectors.jdbc.settings.connection import CONNECTION, DB_TIMEZONE, QUOTING, RULES

_WRITES: Final = "Writes"
_MAPPING: Final = "Data Mapping"
_DDL: Final = "DDL Support"
_RETRIES: Final = "Retries"

INSERT_MODE: Final = Key(
    "insert.mode",
    STRING,
    default="insert",
    importance=HIGH,
    check=one_of("insert", "upsert", "update", "multi", ignore_case=True),
    doc="How to write records: insert, upsert (replaces the row with the same key) or update "
    "(changes existing rows only). Aiven's `multi` is the same as insert.",
    group=_WRITES,
    order=1,
)
BATCH_SIZE: Final = Key(
    "batch.size",
    INT,
    default=3000,
    importance=MEDIUM,
    check=at_least(0),
    doc="Maximum number of rows per statement. If not set, each batch is written as a whole.",
    group=_WRITES,
    order=2,
)
DELETE_ENABLED: Final = Key(
    "delete.enabled",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether a record without a value deletes the row with its key; needs "
    "`pk.mode=record_key`.",
    group=_WRITES,
    order=3,
)
EXACTLY_ONCE: Final = Key(
    "penstock.exactly.once",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether to store the offsets of written records in a table of the same database, in the "
    "same transaction, so that no record is written twice after a failure.",
    group=_WRITES,
    order=4,
)
OFFSETS_TABLE: Final = Key(
    "penstock.offsets.table",
    STRING,
    default="penstock_offsets",
    importance=LOW,
    check=non_empty(),
    doc="The table for `penstock.exactly.once`; created if it does not exist.",
    group=_WRITES,
    order=5,
)
TABLE_NAME_FORMAT: Final = Key(
    "table.name.format",
    STRING,
    default="${topic}",
    importance=MEDIUM,
    check=non_empty(),
    doc="The table for a topic's records; `${topic}` is replaced by the topic. May be qualified: "
    "`schema.${topic}`.",
    group=_MAPPING,
    order=1,
)
PK_MODE: Final = Key(
    "pk.mode",
    STRING,
    default="none",
    importance=HIGH,
    check=one_of("none", "kafka", "record_key", "record_value", ignore_case=True),
    doc="Where the primary key comes from: no key, the record's topic, partition and offset, the "
    "record key, or fields of the value.",
    group=_MAPPING,
    order=2,
)
PK_FIELDS: Final = Key(
    "pk.fields",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Names of the key columns. Empty: `__connect_topic`, `__connect_partition` and "
    "`__connect_offset` for `kafka`, otherwise all fields. A key that is not a struct needs one "
    "name.",
    group=_MAPPING,
    order=3,
)
FIELDS_WHITELIST: Final = Key(
    "fields.whitelist",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="The fields of the value to write, besides those of the key. Empty: all.",
    group=_MAPPING,
    order=4,
)
DATE_TIMEZONE: Final = Key(
    "date.timezone",
    STRING,
    default="UTC",
    importance=MEDIUM,
    check=one_of("DB_TIMEZONE", "UTC", ignore_case=True),
    doc="The time zone of dates. UTC: a date is written unchanged. DB_TIMEZONE: the date that a "
    "clock in `db.timezone` shows at midnight UTC, west of UTC the day before; the default of the "
    "JVM connector.",
    group=_MAPPING,
    order=6,
)
TABLE_TYPES: Final = Key(
    "table.types",
    LIST,
    default=("TABLE",),
    importance=LOW,
    doc="Which kinds of tables to write to: TABLE, VIEW, PARTITIONED TABLE.",
    group=_MAPPING,
    order=7,
)
TIMESTAMP_FIELDS_LIST: Final = Key(
    "timestamp.fields.list",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Fields with numbers or ISO 8601 strings to write as timestamps.",
    group=_MAPPING,
    order=8,
)
TIMESTAMP_PRECISION_MODE: Final = Key(
    "timestamp.precision.mode",
    STRING,
    default="microseconds",
    importance=MEDIUM,
    check=one_of("microseconds", "nanoseconds", ignore_case=True),
    doc="The unit of the numbers in `timestamp.fields.list`, counted from the epoch.",
    group=_MAPPING,
    order=9,
)
REPLACE_NULL: Final = Key(
    "replace.null.with.default",
    BOOLEAN,
    default=True,
    importance=MEDIUM,
    doc="Whether to write a null field as its default, if it has one.",
    group=_MAPPING,
    order=10,
)
STRING_COLUMN: Final = Key(
    "string.output.value.column.name",
    STRING,
    default="record_value",
    importance=LOW,
    check=non_empty(),
    doc="The column for values that are plain strings.",
    group=_MAPPING,
    order=11,
)
TOPICS_TO_TABLES: Final = Key(
    "topics.to.tables.mapping",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Tables for individual topics, as a list of `topic:table`; other topics use "
    "`table.name.format`.",
    group=_MAPPING,
    order=12,
)
TABLE_NAME_NORMALIZE: Final = Key(
    "table.name.normalize",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to replace characters in table names by underscores, except for letters, digits, "
    "underscores and dots.",
    group=_MAPPING,
    order=13,
)
AUTO_CREATE: Final = Key(
    "auto.create",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether to create missing tables from the schemas of the records.",
    group=_DDL,
    order=1,
)
AUTO_EVOLVE: Final = Key(
    "auto.evolve",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether to add missing columns to tables, if they are nullable or have a default.",
    group=_DDL,
    order=2,
)
MAX_RETRIES: Final = Key(
    "max.retries",
    INT,
    default=10,
    importance=MEDIUM,
    check=at_least(0),
    doc="How many times to retry a batch while the database is unreachable or busy, before the "
    "task fails.",
    group=_RETRIES,
    order=1,
)
RETRY_BACKOFF_MS: Final = Key(
    "retry.backoff.ms",
    INT,
    default=3000,
    importance=MEDIUM,
    check=at_least(0),
    doc="Minimum milliseconds between two attempts.",
    group=_RETRIES,
    order=2,
)
TRIM_SENSITIVE_LOG: Final = Key(
    "trim.sensitive.log",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether to omit the database's messages about records from errors: they may contain data.",
)
MERGE_HOLDLOCK: Final = Key(
    "mssql.use.merge.holdlock",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether an upsert locks keys that do not exist yet, on SQL Server.",
)


def _key_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Checks that `pk.mode` and `pk.fields` define the keys for deletes, upserts and updates."""
    mode, write = (str(parsed.get(key.name) or "").lower() for key in (PK_MODE, INSERT_MODE))
    fields = parsed.get(PK_FIELDS.name)
    count = len(fields) if isinstance(fields, tuple) else 0
    if parsed.get(DELETE_ENABLED.name) and mode != "record_key":
        yield DELETE_ENABLED.name, "Deletes are only supported for pk.mode record_key"
    if write in ("upsert", "update") and mode == "none":
        yield (
            PK_MODE.name,
            f"insert.mode={write} needs the keys of rows: set pk.mode to kafka, record_key "
            "or record_value",
        )
    if mode == "kafka" and count not in (0, 3):
        yield (
            PK_FIELDS.name,
            "For pk.mode=kafka, pk.fields must be empty or name three columns, for topic, "
            f"partition and offset; it names {count}",
        )


def _mapping_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Checks that every entry of the mapping has a topic and a table."""
    entries = parsed.get(TOPICS_TO_TABLES.name)
    for entry in entries if isinstance(entries, tuple) else ():
        topic, _, table = entry.partition(":")
        if not topic or not table:
            name = TOPICS_TO_TABLES.name
            yield name, invalid(name, entry, "it is not of the form topic:table")


JDBC_SINK: Final = ConfigDef(
    *CONNECTION,
    INSERT_MODE,
    BATCH_SIZE,
    DELETE_ENABLED,
    EXACTLY_ONCE,
    OFFSETS_TABLE,
    TABLE_NAME_FORMAT,
    PK_MODE,
    PK_FIELDS,
    FIELDS_WHITELIST,
    DB_TIMEZONE,
    DATE_TIMEZONE,
    TABLE_TYPES,
    TIMESTAMP_FIELDS_LIST,
    TIMESTAMP_PRECISION_MODE,
    REPLACE_NULL,
    STRING_COLUMN,
    TOPICS_TO_TABLES,
    TABLE_NAME_NORMALIZE,
    AUTO_CREATE,
    AUTO_EVOLVE,
    MAX_RETRIES,
    RETRY_BACKOFF_MS,
    *QUOTING,
    TRIM_SENSITIVE_LOG,
    MERGE_HOLDLOCK,
    rules=(*RULES, _key_rule, _mapping_rule),
)
