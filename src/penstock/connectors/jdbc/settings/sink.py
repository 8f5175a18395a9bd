"""The settings of the JDBC sink, with the names of Confluent's and Aiven's connectors
(connectors.md §3.1); ours start with `penstock.`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIGH,
    LOW,
    ConfigDef,
    Group,
    flag,
    invalid,
    non_empty,
)
from penstock.connectors.jdbc.settings.connection import CONNECTION, DB_TIMEZONE, QUOTING, RULES

# fmt: off
_WRITES: Final = Group("Writes")
INSERT_MODE: Final = _WRITES.choice(
    "insert.mode", "insert", ("insert", "upsert", "update", "multi"),
    "How to write records: insert, upsert (replaces the row with the same key) or update "
    "(changes existing rows only). Aiven's `multi` is the same as insert.", ignore_case=True,
    importance=HIGH)
BATCH_SIZE: Final = _WRITES.number("batch.size", 3000,
    "Maximum number of rows per statement. If not set, each batch is written as a whole.",
    at_least=0)
DELETE_ENABLED: Final = _WRITES.flag("delete.enabled", False,
    "Whether a record without a value deletes the row with its key; needs `pk.mode=record_key`.")
EXACTLY_ONCE: Final = _WRITES.flag("penstock.exactly.once", False,
    "Whether to store the offsets of written records in a table of the same database, in the "
    "same transaction, so that no record is written twice after a failure.")
OFFSETS_TABLE: Final = _WRITES.text("penstock.offsets.table", "penstock_offsets",
    "The table for `penstock.exactly.once`; created if it does not exist.", check=non_empty(),
    importance=LOW)
_MAPPING: Final = Group("Data Mapping")
TABLE_NAME_FORMAT: Final = _MAPPING.text("table.name.format", "${topic}",
    "The table for a topic's records; `${topic}` is replaced by the topic. May be qualified: "
    "`schema.${topic}`.", check=non_empty())
PK_MODE: Final = _MAPPING.choice("pk.mode", "none", ("none", "kafka", "record_key", "record_value"),
    "Where the primary key comes from: no key, the record's topic, partition and offset, the "
    "record key, or fields of the value.", ignore_case=True, importance=HIGH)
PK_FIELDS: Final = _MAPPING.listing("pk.fields", (),
    "Names of the key columns. Empty: `__connect_topic`, `__connect_partition` and "
    "`__connect_offset` for `kafka`, otherwise all fields. A key that is not a struct needs one "
    "name.")
FIELDS_WHITELIST: Final = _MAPPING.listing("fields.whitelist", (),
    "The fields of the value to write, besides those of the key. Empty: all.")
DATE_TIMEZONE: Final = _MAPPING.choice("date.timezone", "UTC", ("DB_TIMEZONE", "UTC"),
    "The time zone of dates. UTC: a date is written unchanged. DB_TIMEZONE: the date that a "
    "clock in `db.timezone` shows at midnight UTC, west of UTC the day before; the default of "
    "the JVM connector.", ignore_case=True, order=6)
TABLE_TYPES: Final = _MAPPING.listing("table.types", ("TABLE",),
    "Which kinds of tables to write to: TABLE, VIEW, PARTITIONED TABLE.", importance=LOW)
TIMESTAMP_FIELDS_LIST: Final = _MAPPING.listing("timestamp.fields.list", (),
    "Fields with numbers or ISO 8601 strings to write as timestamps.")
TIMESTAMP_PRECISION_MODE: Final = _MAPPING.choice(
    "timestamp.precision.mode", "microseconds", ("microseconds", "nanoseconds"),
    "The unit of the numbers in `timestamp.fields.list`, counted from the epoch.", ignore_case=True)
REPLACE_NULL: Final = _MAPPING.flag("replace.null.with.default", True,
    "Whether to write a null field as its default, if it has one.")
STRING_COLUMN: Final = _MAPPING.text("string.output.value.column.name", "record_value",
    "The column for values that are plain strings.", check=non_empty(), importance=LOW)
TOPICS_TO_TABLES: Final = _MAPPING.listing("topics.to.tables.mapping", (),
    "Tables for individual topics, as a list of `topic:table`; other topics use "
    "`table.name.format`.")
TABLE_NAME_NORMALIZE: Final = _MAPPING.flag("table.name.normalize", False,
    "Whether to replace characters in table names by underscores, except for letters, digits, "
    "underscores and dots.", importance=LOW)
_DDL: Final = Group("DDL Support")
AUTO_CREATE: Final = _DDL.flag("auto.create", False,
    "Whether to create missing tables from the schemas of the records.")
AUTO_EVOLVE: Final = _DDL.flag("auto.evolve", False,
    "Whether to add missing columns to tables, if they are nullable or have a default.")
_RETRIES: Final = Group("Retries")
MAX_RETRIES: Final = _RETRIES.number("max.retries", 10,
    "How many times to retry a batch while the database is unreachable or busy, before the task "
    "fails.", at_least=0)
RETRY_BACKOFF_MS: Final = _RETRIES.number("retry.backoff.ms", 3000,
    "Minimum milliseconds between two attempts.", at_least=0)
TRIM_SENSITIVE_LOG: Final = flag("trim.sensitive.log", False,
    "Whether to omit the database's messages about records from errors: they may contain data.",
    importance=LOW)
MERGE_HOLDLOCK: Final = flag("mssql.use.merge.holdlock", True,
    "Whether an upsert locks keys that do not exist yet, on SQL Server.", importance=LOW)
# fmt: on


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
    *_WRITES,
    *(TABLE_NAME_FORMAT, PK_MODE, PK_FIELDS, FIELDS_WHITELIST, DB_TIMEZONE, DATE_TIMEZONE),
    *(TABLE_TYPES, TIMESTAMP_FIELDS_LIST, TIMESTAMP_PRECISION_MODE, REPLACE_NULL),
    *(STRING_COLUMN, TOPICS_TO_TABLES, TABLE_NAME_NORMALIZE),
    *_DDL,
    *_RETRIES,
    *QUOTING,
    TRIM_SENSITIVE_LOG,
    MERGE_HOLDLOCK,
    rules=(*RULES, _key_rule, _mapping_rule),
)
