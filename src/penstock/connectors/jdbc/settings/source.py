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
    doc="How new rows are found: `bulk` reads everything at each poll, `incrementing` by a column "
    "of rising numbers, `timestamp` by one that says when a row was changed, "
    "`timestamp+incrementing` by both.",
    group="Mode",
    order=1,
    recommender=Choices(MODES),
)
INCREMENTING_COLUMN: Final = Key(
    "incrementing.column.name",
    STRING,
    default="",
    doc="The column of rising numbers; by default the one that the database itself numbers.",
    group="Mode",
    order=2,
)
TIMESTAMP_COLUMNS: Final = Key(
    "timestamp.column.name",
    LIST,
    default=(),
    doc="The column that says when a row was changed; of several, the first that is not null.",
    group="Mode",
    order=3,
)
TIMESTAMP_MAPPING: Final = Key(
    "timestamp.columns.mapping",
    LIST,
    default=(),
    doc="`regex:[column1|column2]` for tables whose whole names match; each table matches one.",
    group="Mode",
    order=4,
)
INCREMENTING_MAPPING: Final = Key(
    "incrementing.column.mapping",
    LIST,
    default=(),
    doc="`regex:column` for tables whose whole names match; each table matches one.",
    group="Mode",
    order=5,
)
TIMESTAMP_INITIAL: Final = Key(
    "timestamp.initial",
    LONG,
    default=None,
    importance=LOW,
    doc="The timestamp, in ms since the epoch, after which the first rows are read; -1: the time "
    "of the start. By default everything since 1970.",
    group="Mode",
    order=6,
)
TIMESTAMP_INITIAL_MS: Final = Key(
    "timestamp.initial.ms",
    LONG,
    default=None,
    importance=LOW,
    doc="Aiven's name of `timestamp.initial`.",
    group="Mode",
    order=7,
)
TIMESTAMP_DELAY: Final = Key(
    "timestamp.delay.interval.ms",
    LONG,
    default=0,
    check=at_least(0),
    doc="How old a row's timestamp has to be, in ms, before the row is read: longer than "
    "transactions last, or what they commit late is not seen.",
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
    doc="What columns of timestamps become.",
    group="Mode",
    order=9,
    recommender=Choices(GRANULARITIES),
)
VALIDATE_NON_NULL: Final = Key(
    "validate.non.null",
    BOOLEAN,
    default=True,
    importance=LOW,
    doc="Whether columns that rows are found by are refused when they may be null; rows in which "
    "they are null are never read.",
    group="Mode",
    order=10,
)
CALENDAR: Final = Key(
    "date.calendar.system",
    STRING,
    default="LEGACY",
    importance=LOW,
    check=one_of("LEGACY", "PROLEPTIC_GREGORIAN"),
    doc="The calendar of dates before 1582. They are read in the Gregorian one either way.",
)

TABLE_WHITELIST: Final = Key(
    "table.whitelist",
    LIST,
    default=(),
    doc="The tables to read, by name or by whole name (`schema.table`).",
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
    doc="Regular expressions that the whole names of the tables to read match.",
    group="Tables",
    order=3,
)
TABLE_EXCLUDE: Final = Key(
    "table.exclude.list",
    LIST,
    default=(),
    check=valid_regexes("list of regular expressions"),
    doc="Regular expressions for tables not to read though `table.include.list` has them.",
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
    doc=f"Which kinds of tables there are to read: of {', '.join(KINDS)}.",
    group="Tables",
    order=5,
    recommender=Choices(KINDS),
)
SCHEMA_PATTERN: Final = Key(
    "schema.pattern",
    STRING,
    default=None,
    importance=HIGH,
    doc="The schema in which tables are looked for; `%` and `_` as in LIKE.",
    group="Tables",
    order=6,
)
CATALOG_PATTERN: Final = Key(
    "catalog.pattern",
    STRING,
    default=None,
    doc="The catalog in which tables are looked for; `%` and `_` as in LIKE.",
    group="Tables",
    order=7,
)
QUERY: Final = Key(
    "query",
    STRING,
    default="",
    doc="A SELECT whose rows are read instead of tables.",
    group="Tables",
    order=8,
)
QUERY_SUFFIX: Final = Key(
    "query.suffix",
    STRING,
    default="",
    importance=LOW,
    doc="Put behind every statement that reads rows.",
    group="Tables",
    order=9,
)
QUERY_RETRIES: Final = Key(
    "query.retry.attempts",
    INT,
    default=-1,
    importance=LOW,
    doc="Accepted for compatibility: what fails because the database is unreachable is "
    "retried until "
    "it is back, everything else fails the task.",
)

TOPIC_PREFIX: Final = Key(
    "topic.prefix",
    STRING,
    importance=HIGH,
    check=unless_none(non_empty()),
    doc="Put before a table's name to make the name of its topic; with `query`, the topic.",
)
POLL_INTERVAL: Final = Key(
    "poll.interval.ms",
    INT,
    default=5000,
    importance=HIGH,
    check=at_least(0),
    doc="How long after a table had no more new rows it is looked at again, in ms.",
)
BATCH_MAX_ROWS: Final = Key(
    "batch.max.rows",
    INT,
    default=1000,
    importance=LOW,
    doc="Accepted for compatibility; a poll is bounded by bytes, which is faster.",
)
BUFFER_SIZE: Final = Key(
    "max.buffer.size",
    INT,
    default=0,
    importance=LOW,
    doc="Accepted for compatibility; there is no buffer between reading and sending.",
)
POLL_LINGER: Final = Key(
    "poll.linger.ms", LONG, default=5000, importance=LOW, doc="Accepted for compatibility."
)
TABLE_POLL_INTERVAL: Final = Key(
    "table.poll.interval.ms",
    LONG,
    default=60_000,
    importance=LOW,
    check=at_least(1),
    doc="How often it is looked whether tables are new or gone, in ms.",
)
STARTUP_POLLING: Final = Key(
    "table.monitoring.startup.polling.limit.ms",
    LONG,
    default=10_000,
    importance=LOW,
    doc="Accepted for compatibility; tables are looked for before tasks are planned.",
)
NUMERIC_MAPPINGS: Final = ("none", "precision_only", "best_fit", "best_fit_eager_double")
NUMERIC_MAPPING: Final = Key(
    "numeric.mapping",
    STRING,
    default=None,
    importance=LOW,
    check=unless_none(one_of(*NUMERIC_MAPPINGS, ignore_case=True)),
    doc="What NUMERIC columns become: `none` Decimal, `precision_only` whole numbers where they "
    "have no digits after the point, `best_fit` whole numbers or FLOAT64 where they fit, "
    "`best_fit_eager_double` FLOAT64 whenever there is a digit after the point.",
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
    doc="The isolation level in which rows are read.",
    recommender=Choices(_LEVELS),
)

NUMERIC_SCALE: Final = Key(
    "penstock.numeric.scale",
    INT,
    default=0,
    importance=LOW,
    check=between(0, 1000),
    doc="Digits after the point of NUMERIC columns that are declared without any limits.",
)
READ_PARALLELISM: Final = Key(
    "penstock.read.parallelism",
    INT,
    default=1,
    importance=LOW,
    check=between(1, 64),
    doc="Into how many ranges of keys what is read of one table at once is split. They are read "
    "side by side, but for exactly once, where one transaction holds them all. More than one gives "
    "up the order of its rows.",
)
TABLE_PARTS: Final = Key(
    "penstock.table.parts",
    INT,
    default=1,
    importance=LOW,
    check=between(1, 1024),
    doc="Into how many parts, which tasks share, each table is split; with mode=incrementing.",
)
PART_KEYS: Final = Key(
    "penstock.table.part.keys",
    LONG,
    default=100_000,
    importance=LOW,
    check=at_least(1),
    doc="Parts of a table take turns for so many values of the incrementing column each.",
)
TABLES: Final = Key(
    "tables",
    STRING,
    default=None,
    importance=LOW,
    doc="Of a task: what it reads. Not to be set.",
)


def _tables_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    lists = [
        key.name
        for key in (TABLE_WHITELIST, TABLE_BLACKLIST, TABLE_INCLUDE, TABLE_EXCLUDE)
        if parsed.get(key.name)
    ]
    if parsed.get(QUERY.name) and lists:
        yield QUERY.name, f"'query' reads no tables; remove {', '.join(lists)}, or 'query'"
    if parsed.get(TABLE_WHITELIST.name) and parsed.get(TABLE_BLACKLIST.name):
        yield (
            TABLE_BLACKLIST.name,
            "table.whitelist and table.blacklist are exclusive; remove one of them",
        )
    old = [name for name in lists if name.endswith(("whitelist", "blacklist"))]
    new = [name for name in lists if name.endswith(".list")]
    if old and new:
        yield old[0], f"{', '.join(old)} and {', '.join(new)} are exclusive; remove one of them"
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
        yield TIMESTAMP_MAPPING.name, "it and timestamp.column.name are exclusive; remove one"
    if parsed.get(INCREMENTING_COLUMN.name) and parsed.get(INCREMENTING_MAPPING.name):
        yield INCREMENTING_MAPPING.name, "it and incrementing.column.name are exclusive; remove one"
    if parsed.get(QUERY.name):
        if mode in (INCREMENTING, BOTH) and not parsed.get(INCREMENTING_COLUMN.name):
            yield INCREMENTING_COLUMN.name, f"mode={mode} with 'query' needs its name"
        for key in (TIMESTAMP_MAPPING, INCREMENTING_MAPPING):
            if parsed.get(key.name):
                yield key.name, "a query is not a table whose name could match"
    for key in (TIMESTAMP_MAPPING, INCREMENTING_MAPPING):
        for entry in _list(parsed.get(key.name)):
            try:
                mapping(entry)
            except ValueError as problem:
                yield key.name, f"'{entry}': {problem}"
    parts = parsed.get(TABLE_PARTS.name)
    if isinstance(parts, int) and parts > 1 and (mode != INCREMENTING or parsed.get(QUERY.name)):
        yield TABLE_PARTS.name, "tables are split into parts with mode=incrementing only"


def _types_rule(parsed: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for kind in _list(parsed.get(TABLE_TYPES.name)):
        if kind.upper() not in KINDS:
            yield TABLE_TYPES.name, f"'{kind}' is none of {', '.join(KINDS)}"


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
        raise ValueError(f"no regular expression: {problem}") from None
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
