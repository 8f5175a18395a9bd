"""The settings of the JDBC source, with the names of the JVM's connectors (connectors.md §2.1);
ours start with `penstock.`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    STRING,
    Choices,
    ConfigDef,
    Key,
    Rule,
    at_least,
    between,
    non_empty,
    one_of,
    unless_none,
    valid_regexes,
)
from penstock.connectors.jdbc.settings import connection as keys

BULK: Final = "bulk"
INCREMENTING: Final = "incrementing"
TIMESTAMP: Final = "timestamp"
BOTH: Final = "timestamp+incrementing"
MODES: Final = (BULK, TIMESTAMP, INCREMENTING, BOTH)

MODE: Final = Key(
    "mode",
    STRING,
    importance=HIGH,
    check=unless_none(one_of(*MODES)),
    doc="How to find new rows: `bulk` reads everything at each poll, `incrementing` uses a column "
    "of increasing numbers, `timestamp` a column with the time of the last change, "
    "`timestamp+incrementing` both.",
    group="Mode",
    order=1,
    recommender=Choices(MODES),
)
INCREMENTING_COLUMN: Final = Key(
    "incrementing.column.name",
    STRING,
    default="",
    doc="The column of increasing numbers. By default, the one that the database generates.",
    group="Mode",
    order=2,
)
TIMESTAMP_COLUMNS: Final = Key(
    "timestamp.column.name",
    LIST,
    default=(),
    doc="The column with the time of a row's last change; of several, the first that is not null.",
    group="Mode",
    order=3,
)
TIMESTAMP_MAPPING: Final = Key(
    "timestamp.columns.mapping",
    LIST,
    default=(),
    doc="`regex:[column1|column2]` for tables whose qualified names match; each table must match "
    "one.",
    group="Mode",
    order=4,
)
INCREMENTING_MAPPING: Final = Key(
    "incrementing.column.mapping",
    LIST,
    default=(),
    doc="`regex:column` for tables whose qualified names match; each table must match one.",
    group="Mode",
    order=5,
)
TIMESTAMP_INITIAL: Final = Key(
    "timestamp.initial",
    LONG,
    default=None,
    importance=LOW,
    doc="Read only rows changed after this timestamp, in ms since the epoch; -1: the time of the "
    "start. By default, everything since 1970.",
    group="Mode",
    order=6,
)
TIMESTAMP_INITIAL_MS: Final = Key(
    "timestamp.initial.ms",
    LONG,
    default=None,
    importance=LOW,
    doc="Aiven's name for `timestamp.initial`.",
    group="Mode",
    order=7,
)
TIMESTAMP_DELAY: Final = Key(
    "timestamp.delay.interval.ms",
    LONG,
    default=0,
    check=at_least(0),
    doc="How old a row's timestamp must be, in ms, before the row is read. Set it to more than the "
    "duration of transactions; rows that are committed later are missed.",
    group="Mode",
    order=8,
)
GRANULARITIES: Final = (
    "connect_logical",
    "micros_long",
    "micros_string",
    "micros_iso_datetime_string",
    "nanos_long",
    "nanos_string",
    "nanos_iso_datetime_string",
)
TIMESTAMP_GRANULARITY: Final = Key(
    "timestamp.granularity",
    STRING,
    default="connect_logical",
    importance=LOW,
    check=one_of(*GRANULARITIES),
    doc="How to represent timestamp columns.",
    group="Mode",
    order=9,
    recommender=Choices(GRANULARITIES),
)
VALIDATE_NON_NULL: Final = Key(
    "validate.non.null",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether to reject nullable incrementing and timestamp columns; rows with null there are "
    "never read.",
    group="Mode",
    order=10,
)
CALENDAR: Final = Key(
    "date.calendar.system",
    STRING,
    default="LEGACY",
    importance=LOW,
    check=one_of("LEGACY", "PROLEPTIC_GREGORIAN"),
    doc="Ignored: dates before 1582 are read in the Gregorian calendar either way.",
)

TABLE_WHITELIST: Final = Key(
    "table.whitelist",
    LIST,
    default=(),
    doc="The tables to read, by name or by qualified name (`schema.table`).",
    group="Tables",
    order=1,
)
TABLE_BLACKLIST: Final = Key(
    "table.blacklist", LIST, default=(), doc="Tables not to read.", group="Tables", order=2
)
TABLE_INCLUDE: Final = Key(
    "table.include.list",
    LIST,
    default=(),
    check=valid_regexes("list of regular expressions"),
    doc="Regular expressions for the qualified names of the tables to read.",
    group="Tables",
    order=3,
)
TABLE_EXCLUDE: Final = Key(
    "table.exclude.list",
    LIST,
    default=(),
    check=valid_regexes("list of regular expressions"),
    doc="Regular expressions for tables to exclude from those that `table.include.list` matches.",
    group="Tables",
    order=4,
)
KINDS: Final = (
    *("TABLE", "VIEW", "SYSTEM TABLE", "GLOBAL TEMPORARY", "LOCAL TEMPORARY", "ALIAS", "SYNONYM"),
    *("PARTITIONED TABLE", "MATERIALIZED VIEW", "FOREIGN TABLE"),
)
TABLE_TYPES: Final = Key(
    "table.types",
    LIST,
    default=("TABLE",),
    importance=LOW,
    doc=f"The kinds of tables to read: any of {', '.join(KINDS)}.",
    group="Tables",
    order=5,
    recommender=Choices(KINDS),
)
SCHEMA_PATTERN: Final = Key(
    "schema.pattern",
    STRING,
    default=None,
    importance=HIGH,
    doc="The schema of the tables to read; `%` and `_` as in LIKE.",
    group="Tables",
    order=6,
)
CATALOG_PATTERN: Final = Key(
    "catalog.pattern",
    STRING,
    default=None,
    doc="The catalog of the tables to read; `%` and `_` as in LIKE.",
    group="Tables",
    order=7,
)
QUERY: Final = Key(
    "query",
    STRING,
    default="",
    doc="A SELECT whose rows to read instead of tables.",
    group="Tables",
    order=8,
)
QUERY_SUFFIX: Final = Key(
    "query.suffix",
    STRING,
    default="",
    importance=LOW,
    doc="Appended to every statement that reads rows.",
    group="Tables",
    order=9,
)
QUERY_RETRIES: Final = Key(
    "query.retry.attempts",
    INT,
    default=-1,
    importance=LOW,
    doc="Ignored: queries are retried until the database is reachable again; "
    "all other errors fail the task.",
)

TOPIC_PREFIX: Final = Key(
    "topic.prefix",
    STRING,
    importance=HIGH,
    check=unless_none(non_empty()),
    doc="Prepended to a table's name to form the name of its topic; with `query`, the topic.",
)
POLL_INTERVAL: Final = Key(
    "poll.interval.ms",
    INT,
    default=5000,
    importance=HIGH,
    check=at_least(0),
    doc="How long to wait before polling a table again that had no new rows, in ms.",
)
BATCH_MAX_ROWS: Final = Key(
    "batch.max.rows",
    INT,
    default=1000,
    importance=LOW,
    doc="Ignored; polls are limited by bytes.",
)
BUFFER_SIZE: Final = Key(
    "max.buffer.size",
    INT,
    default=0,
    importance=LOW,
    doc="Ignored; there is no buffer between reading and sending.",
)
POLL_LINGER: Final = Key("poll.linger.ms", LONG, default=5000, importance=LOW, doc="Ignored.")
TABLE_POLL_INTERVAL: Final = Key(
    "table.poll.interval.ms",
    LONG,
    default=60_000,
    importance=LOW,
    check=at_least(1),
    doc="How often to check for new and deleted tables, in ms.",
)
STARTUP_POLLING: Final = Key(
    "table.monitoring.startup.polling.limit.ms",
    LONG,
    default=10_000,
    importance=LOW,
    doc="Ignored; the tables are listed before tasks are planned.",
)
NUMERIC_MAPPINGS: Final = ("none", "precision_only", "best_fit", "best_fit_eager_double")
NUMERIC_MAPPING: Final = Key(
    "numeric.mapping",
    STRING,
    default=None,
    importance=LOW,
    check=unless_none(one_of(*NUMERIC_MAPPINGS, ignore_case=True)),
    doc="How to represent NUMERIC columns: `none` Decimal; `precision_only` integers if the scale "
    "is 0; `best_fit` integers or FLOAT64 if they fit; `best_fit_eager_double` FLOAT64 whenever "
    "there are digits after the decimal point.",
    recommender=Choices(NUMERIC_MAPPINGS),
)
NUMERIC_PRECISION: Final = Key(
    "numeric.precision.mapping",
    BOOLEAN,
    default=False,
    importance=LOW,
    doc="The old name of `numeric.mapping=precision_only`.",
)
_LEVELS: Final = (
    *("DEFAULT", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"),
    "SQL_SERVER_SNAPSHOT",
)
ISOLATION: Final = Key(
    "transaction.isolation.mode",
    STRING,
    default="DEFAULT",
    importance=LOW,
    check=one_of(*_LEVELS, ignore_case=True),
    doc="The transaction isolation level for reading rows.",
    recommender=Choices(_LEVELS),
)

NUMERIC_SCALE: Final = Key(
    "penstock.numeric.scale",
    INT,
    default=0,
    importance=LOW,
    check=between(0, 1000),
    doc="The scale of NUMERIC columns that are declared without precision and scale.",
)
READ_PARALLELISM: Final = Key(
    "penstock.read.parallelism",
    INT,
    default=1,
    importance=LOW,
    check=between(1, 64),
    doc="How many key ranges to split each read of a table into. They are read in parallel, except "
    "with exactly once, where one transaction contains them all. With more than one, the order of "
    "rows is lost.",
)
TABLE_PARTS: Final = Key(
    "penstock.table.parts",
    INT,
    default=1,
    importance=LOW,
    check=between(1, 1024),
    doc="How many parts to split each table into, to distribute it over tasks; only with "
    "mode=incrementing.",
)
PART_KEYS: Final = Key(
    "penstock.table.part.keys",
    LONG,
    default=100_000,
    importance=LOW,
    check=at_least(1),
    doc="How many consecutive values of the incrementing column belong to the same part of a "
    "table; the parts alternate.",
)
TABLES: Final = Key(
    "tables",
    STRING,
    default=None,
    importance=LOW,
    doc="What a task reads. Set by the connector.",
)


def _tables_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    lists = [
        key.name
        for key in (TABLE_WHITELIST, TABLE_BLACKLIST, TABLE_INCLUDE, TABLE_EXCLUDE)
        if parsed.get(key.name)
    ]
    if parsed.get(QUERY.name) and lists:
        yield QUERY.name, f"'query' does not read tables; remove {', '.join(lists)}, or 'query'"
    if parsed.get(TABLE_WHITELIST.name) and parsed.get(TABLE_BLACKLIST.name):
        yield (
            TABLE_BLACKLIST.name,
            "table.whitelist and table.blacklist are mutually exclusive; remove one of them",
        )
    old = [name for name in lists if name.endswith(("whitelist", "blacklist"))]
    new = [name for name in lists if name.endswith(".list")]
    if old and new:
        yield (
            old[0],
            f"{', '.join(old)} and {', '.join(new)} are mutually exclusive; remove one of them",
        )
    if parsed.get(TABLE_EXCLUDE.name) and not parsed.get(TABLE_INCLUDE.name):
        yield TABLE_EXCLUDE.name, "table.exclude.list needs table.include.list"


def _columns_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    mode = parsed.get(MODE.name)
    named = parsed.get(TIMESTAMP_COLUMNS.name)
    mapped = parsed.get(TIMESTAMP_MAPPING.name)
    if mode in (TIMESTAMP, BOTH) and not named and not mapped:
        yield (
            TIMESTAMP_COLUMNS.name,
            f"mode={mode} needs timestamp.column.name or timestamp.columns.mapping",
        )
    if named and mapped:
        yield (
            TIMESTAMP_MAPPING.name,
            "timestamp.columns.mapping and timestamp.column.name are mutually exclusive; remove "
            "one of them",
        )
    if parsed.get(INCREMENTING_COLUMN.name) and parsed.get(INCREMENTING_MAPPING.name):
        yield (
            INCREMENTING_MAPPING.name,
            "incrementing.column.mapping and incrementing.column.name are mutually exclusive; "
            "remove one of them",
        )
    if parsed.get(QUERY.name):
        if mode in (INCREMENTING, BOTH) and not parsed.get(INCREMENTING_COLUMN.name):
            yield (
                INCREMENTING_COLUMN.name,
                f"mode={mode} with 'query' needs incrementing.column.name",
            )
        for key in (TIMESTAMP_MAPPING, INCREMENTING_MAPPING):
            if parsed.get(key.name):
                yield (
                    key.name,
                    "timestamp.columns.mapping and incrementing.column.mapping do not apply to "
                    "'query'; remove them",
                )
    for key in (TIMESTAMP_MAPPING, INCREMENTING_MAPPING):
        for entry in _list(parsed.get(key.name)):
            try:
                mapping(entry)
            except ValueError as problem:
                yield key.name, f"'{entry}': {problem}"
    parts = parsed.get(TABLE_PARTS.name)
    if isinstance(parts, int) and parts > 1 and (mode != INCREMENTING or parsed.get(QUERY.name)):
        yield TABLE_PARTS.name, "penstock.table.parts needs mode=incrementing, without 'query'"


def _types_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for kind in _list(parsed.get(TABLE_TYPES.name)):
        if kind.upper() not in KINDS:
            yield TABLE_TYPES.name, f"'{kind}' is not one of {', '.join(KINDS)}"


def _list(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def mapping(text: str) -> tuple[str, tuple[str, ...]]:
    """A regular expression, and the columns of tables that match it; raises ValueError for any
    other text.

    >>> mapping("shop.orders:[changed|made]")
    ('shop.orders', ('changed', 'made'))
    """
    pattern, colon, names = text.rpartition(":")
    columns = tuple(name.strip() for name in names.strip("[]").split("|"))
    if not colon or not pattern or not all(columns):
        raise ValueError("expected regex:[column|column]")
    try:
        re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"not a regular expression: {problem}") from None
    return pattern, columns


RULES: Final[tuple[Rule, ...]] = (*keys.RULES, _tables_rule, _columns_rule, _types_rule)

JDBC_SOURCE: Final = ConfigDef(
    *keys.CONNECTION,
    *(MODE, INCREMENTING_COLUMN, TIMESTAMP_COLUMNS, TIMESTAMP_MAPPING, INCREMENTING_MAPPING),
    *(TIMESTAMP_INITIAL, TIMESTAMP_INITIAL_MS, TIMESTAMP_DELAY, TIMESTAMP_GRANULARITY),
    *(VALIDATE_NON_NULL, keys.DB_TIMEZONE, CALENDAR),
    *(TABLE_WHITELIST, TABLE_BLACKLIST, TABLE_INCLUDE, TABLE_EXCLUDE, TABLE_TYPES),
    *(SCHEMA_PATTERN, CATALOG_PATTERN, QUERY, QUERY_SUFFIX, QUERY_RETRIES),
    *(TOPIC_PREFIX, POLL_INTERVAL, BATCH_MAX_ROWS, BUFFER_SIZE, POLL_LINGER),
    *(TABLE_POLL_INTERVAL, STARTUP_POLLING, NUMERIC_MAPPING, NUMERIC_PRECISION),
    *keys.QUOTING,
    *(ISOLATION, NUMERIC_SCALE, READ_PARALLELISM, TABLE_PARTS, PART_KEYS, TABLES),
    rules=RULES,
)
