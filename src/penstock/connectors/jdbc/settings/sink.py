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
    doc="How records are written: insert, upsert (the row with that key is replaced) or update "
    "(only rows that are there are changed). `multi`, Aiven's, is insert: all are many at a time.",
    group=_WRITES,
    order=1,
)
BATCH_SIZE: Final = Key(
    "batch.size",
    INT,
    default=3000,
    importance=MEDIUM,
    check=at_least(0),
    doc="At most so many rows with one statement. Unless it is set, whole batches are written.",
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
    doc="Whether what was written is noted in a table of the same database, in the same "
    "transaction, so that no record is written twice whatever fails.",
    group=_WRITES,
    order=4,
)
OFFSETS_TABLE: Final = Key(
    "penstock.offsets.table",
    STRING,
    default="penstock_offsets",
    importance=LOW,
    check=non_empty(),
    doc="The table of `penstock.exactly.once`; it is created if it is not there.",
    group=_WRITES,
    order=5,
)
TABLE_NAME_FORMAT: Final = Key(
    "table.name.format",
    STRING,
    default="${topic}",
    importance=MEDIUM,
    check=non_empty(),
    doc="The table of a topic's records; `${topic}` stands for the topic. May be qualified: "
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
    doc="Where the primary key comes from: nowhere, topic, partition and offset, the record's key "
    "or fields of its value.",
    group=_MAPPING,
    order=2,
)
PK_FIELDS: Final = Key(
    "pk.fields",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Names of the key's columns. Empty: `__connect_topic`, `__connect_partition` and "
    "`__connect_offset` for `kafka`, else all fields. A key that is not a struct needs one name.",
    group=_MAPPING,
    order=3,
)
FIELDS_WHITELIST: Final = Key(
    "fields.whitelist",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="The value's fields that are written, besides those of the key. Empty: all.",
    group=_MAPPING,
    order=4,
)
DATE_TIMEZONE: Final = Key(
    "date.timezone",
    STRING,
    default="DB_TIMEZONE",
    importance=MEDIUM,
    check=one_of("DB_TIMEZONE", "UTC", ignore_case=True),
    doc="Accepted for compatibility: a date is written as the day it is, whatever the time zone.",
    group=_MAPPING,
    order=6,
)
TABLE_TYPES: Final = Key(
    "table.types",
    LIST,
    default=("TABLE",),
    importance=LOW,
    doc="What may be written to: TABLE, VIEW, PARTITIONED TABLE.",
    group=_MAPPING,
    order=7,
)
TIMESTAMP_FIELDS_LIST: Final = Key(
    "timestamp.fields.list",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Fields with numbers or ISO 8601 texts that are written as timestamps.",
    group=_MAPPING,
    order=8,
)
TIMESTAMP_PRECISION_MODE: Final = Key(
    "timestamp.precision.mode",
    STRING,
    default="microseconds",
    importance=MEDIUM,
    check=one_of("microseconds", "nanoseconds", ignore_case=True),
    doc="What the numbers in `timestamp.fields.list` count, from the epoch on.",
    group=_MAPPING,
    order=9,
)
REPLACE_NULL: Final = Key(
    "replace.null.with.default",
    BOOLEAN,
    default=True,
    importance=MEDIUM,
    doc="Whether a field that is null and has a default is written as that.",
    group=_MAPPING,
    order=10,
)
STRING_COLUMN: Final = Key(
    "string.output.value.column.name",
    STRING,
    default="record_value",
    importance=LOW,
    check=non_empty(),
    doc="The column that values which are plain texts are written to.",
    group=_MAPPING,
    order=11,
)
TOPICS_TO_TABLES: Final = Key(
    "topics.to.tables.mapping",
    LIST,
    default=(),
    importance=MEDIUM,
    doc="Tables of single topics, as a list of `topic:table`; the others go by "
    "`table.name.format`.",
    group=_MAPPING,
    order=12,
)
TABLE_NAME_NORMALIZE: Final = Key(
    "table.name.normalize",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether what is neither a letter, a digit, an underscore nor a dot becomes an underscore "
    "in names of tables.",
    group=_MAPPING,
    order=13,
)
AUTO_CREATE: Final = Key(
    "auto.create",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether a table that is missing is created from the records' schema.",
    group=_DDL,
    order=1,
)
AUTO_EVOLVE: Final = Key(
    "auto.evolve",
    BOOLEAN,
    default=False,
    importance=MEDIUM,
    doc="Whether columns that a table lacks are added, if they may be null or have a default.",
    group=_DDL,
    order=2,
)
MAX_RETRIES: Final = Key(
    "max.retries",
    INT,
    default=10,
    importance=MEDIUM,
    check=at_least(0),
    doc="How often a batch is tried again, while the database is unreachable or busy, before "
    "the task "
    "fails.",
    group=_RETRIES,
    order=1,
)
RETRY_BACKOFF_MS: Final = Key(
    "retry.backoff.ms",
    INT,
    default=3000,
    importance=MEDIUM,
    check=at_least(0),
    doc="Milliseconds between two tries, at least.",
    group=_RETRIES,
    order=2,
)
TRIM_SENSITIVE_LOG: Final = Key(
    "trim.sensitive.log",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="Whether the database's words about a record are omitted from errors: they may hold data.",
)
MERGE_HOLDLOCK: Final = Key(
    "mssql.use.merge.holdlock",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether an upsert locks keys that are not there yet, on SQL Server.",
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
            f"insert.mode={write} needs to know the rows' keys: set pk.mode to kafka, record_key "
            "or record_value",
        )
    if mode == "kafka" and count not in (0, 3):
        yield (
            PK_FIELDS.name,
            "For pk.mode=kafka, pk.fields has to be empty or name three columns, for topic, "
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
