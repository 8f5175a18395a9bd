"""The settings of the JDBC source, with the names of the JVM's connectors (connectors.md §2.1);
ours start with `penstock.`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from penstock.api.settings import (
    HIGH,
    LONG,
    LOW,
    REQUIRED,
    ConfigDef,
    Group,
    Rule,
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

# fmt: off
_MODE: Final = Group("Mode")
MODE: Final = _MODE.text("mode", REQUIRED,
    "How to find new rows: `bulk` reads everything at each poll, `incrementing` uses a column of "
    "increasing numbers, `timestamp` a column with the time of the last change, "
    "`timestamp+incrementing` both.", check=unless_none(one_of(*MODES)), offers=MODES,
    importance=HIGH)
INCREMENTING_COLUMN: Final = _MODE.text("incrementing.column.name", "",
    "The column of increasing numbers. By default, the one that the database generates.")
TIMESTAMP_COLUMNS: Final = _MODE.listing("timestamp.column.name", (),
    "The column with the time of a row's last change; of several, the first that is not null.")
TIMESTAMP_MAPPING: Final = _MODE.listing("timestamp.columns.mapping", (),
    "`regex:[column1|column2]` for tables whose qualified names match; each table must match one.")
INCREMENTING_MAPPING: Final = _MODE.listing("incrementing.column.mapping", (),
    "`regex:column` for tables whose qualified names match; each table must match one.")
TIMESTAMP_INITIAL: Final = _MODE.long("timestamp.initial", None,
    "Read only rows changed after this timestamp, in ms since the epoch; -1: the time of the "
    "start. By default, everything since 1970.", importance=LOW)
TIMESTAMP_INITIAL_MS: Final = _MODE.long("timestamp.initial.ms", None,
    "Aiven's name for `timestamp.initial`.", importance=LOW)
TIMESTAMP_DELAY: Final = _MODE.long("timestamp.delay.interval.ms", 0,
    "How old a row's timestamp must be, in ms, before the row is read. Set it to more than the "
    "duration of transactions; rows that are committed later are missed.", at_least=0)
GRANULARITIES: Final = (
    "connect_logical",
    "micros_long",
    "micros_string",
    "micros_iso_datetime_string",
    "nanos_long",
    "nanos_string",
    "nanos_iso_datetime_string",
)
TIMESTAMP_GRANULARITY: Final = _MODE.choice(
    "timestamp.granularity", "connect_logical", GRANULARITIES,
    "How to represent timestamp columns.", offers=GRANULARITIES, importance=LOW)
VALIDATE_NON_NULL: Final = _MODE.flag("validate.non.null", True,
    "Whether to reject nullable incrementing and timestamp columns; rows with null there are "
    "never read.", importance=LOW)
_SETTINGS: Final = Group(importance=LOW)
CALENDAR: Final = _SETTINGS.choice(
    "date.calendar.system", "LEGACY", ("LEGACY", "PROLEPTIC_GREGORIAN"),
    "Dates are read as PROLEPTIC_GREGORIAN says. LEGACY is accepted, as it is the default, but not "
    "applied: it would shift dates before 1582-10-15 by up to 12 days.")

_TABLES: Final = Group("Tables")
TABLE_WHITELIST: Final = _TABLES.listing("table.whitelist", (),
    "The tables to read, by name or by qualified name (`schema.table`).")
TABLE_BLACKLIST: Final = _TABLES.listing("table.blacklist", (), "Tables not to read.")
TABLE_INCLUDE: Final = _TABLES.listing("table.include.list", (),
    "Regular expressions for the qualified names of the tables to read.",
    check=valid_regexes("list of regular expressions"))
TABLE_EXCLUDE: Final = _TABLES.listing("table.exclude.list", (),
    "Regular expressions for tables to exclude from those that `table.include.list` matches.",
    check=valid_regexes("list of regular expressions"))
KINDS: Final = (
    *("TABLE", "VIEW", "SYSTEM TABLE", "GLOBAL TEMPORARY", "LOCAL TEMPORARY", "ALIAS", "SYNONYM"),
    *("PARTITIONED TABLE", "MATERIALIZED VIEW", "FOREIGN TABLE"),
)
TABLE_TYPES: Final = _TABLES.listing("table.types", ("TABLE",),
    f"The kinds of tables to read: any of {', '.join(KINDS)}.", offers=KINDS, importance=LOW)
SCHEMA_PATTERN: Final = _TABLES.text("schema.pattern", None,
    "The schema of the tables to read; `%` and `_` as in LIKE.", importance=HIGH)
CATALOG_PATTERN: Final = _TABLES.text("catalog.pattern", None,
    "The catalog of the tables to read; `%` and `_` as in LIKE.")
QUERY: Final = _TABLES.text("query", "", "A SELECT whose rows to read instead of tables.")
QUERY_SUFFIX: Final = _TABLES.text("query.suffix", "",
    "Appended to every statement that reads rows.", importance=LOW)
QUERY_RETRIES: Final = _SETTINGS.ignored("query.retry.attempts", -1,
    "queries are retried until the database is reachable again; all other errors fail the task")

TOPIC_PREFIX: Final = _SETTINGS.text("topic.prefix", REQUIRED,
    "Prepended to a table's name to form the name of its topic; with `query`, the topic.",
    check=unless_none(non_empty()), importance=HIGH)
POLL_INTERVAL: Final = _SETTINGS.number("poll.interval.ms", 5000,
    "How long to wait before polling a table again that had no new rows, in ms.", at_least=0,
    importance=HIGH)
BATCH_MAX_ROWS: Final = _SETTINGS.ignored("batch.max.rows", 1000, "polls are limited by bytes")
BUFFER_SIZE: Final = _SETTINGS.ignored("max.buffer.size", 0,
    "there is no buffer between reading and sending")
POLL_LINGER: Final = _SETTINGS.ignored("poll.linger.ms", 5000, kind=LONG)
TABLE_POLL_INTERVAL: Final = _SETTINGS.long("table.poll.interval.ms", 60_000,
    "How often to check for new and deleted tables, in ms.", at_least=1)
STARTUP_POLLING: Final = _SETTINGS.ignored("table.monitoring.startup.polling.limit.ms", 10_000,
    "the tables are listed before tasks are planned", kind=LONG)
NUMERIC_MAPPINGS: Final = ("none", "precision_only", "best_fit", "best_fit_eager_double")
NUMERIC_MAPPING: Final = _SETTINGS.text("numeric.mapping", None,
    "How to represent NUMERIC columns: `none` Decimal; `precision_only` integers if the scale is "
    "0; `best_fit` integers or FLOAT64 if they fit; `best_fit_eager_double` FLOAT64 whenever "
    "there are digits after the decimal point.",
    check=unless_none(one_of(*NUMERIC_MAPPINGS, ignore_case=True)), offers=NUMERIC_MAPPINGS)
NUMERIC_PRECISION: Final = _SETTINGS.flag("numeric.precision.mapping", False,
    "The old name of `numeric.mapping=precision_only`.")
_LEVELS: Final = (
    *("DEFAULT", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE"),
    "SQL_SERVER_SNAPSHOT",
)
ISOLATION: Final = _SETTINGS.choice("transaction.isolation.mode", "DEFAULT", _LEVELS,
    "The transaction isolation level for reading rows.", ignore_case=True, offers=_LEVELS)

NUMERIC_SCALE: Final = _SETTINGS.number("penstock.numeric.scale", 0,
    "The scale of NUMERIC columns that are declared without precision and scale.", at_least=0,
    at_most=1000)
READ_PARALLELISM: Final = _SETTINGS.number("penstock.read.parallelism", 1,
    "How many key ranges to split each read of a table into. They are read in parallel, except "
    "with exactly once, where one transaction contains them all. With more than one, the order "
    "of rows is lost.", at_least=1, at_most=64)
TABLE_PARTS: Final = _SETTINGS.number("penstock.table.parts", 1,
    "How many parts to split each table into, to distribute it over tasks; only with "
    "mode=incrementing.", at_least=1, at_most=1024)
PART_KEYS: Final = _SETTINGS.long("penstock.table.part.keys", 100_000,
    "How many consecutive values of the incrementing column belong to the same part of a table; "
    "the parts alternate.", at_least=1)
TABLES: Final = _SETTINGS.text("tables", None, "What a task reads. Set by the connector.")
# fmt: on


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
    *_MODE,
    keys.DB_TIMEZONE,
    CALENDAR,
    *_TABLES,
    *(QUERY_RETRIES, TOPIC_PREFIX, POLL_INTERVAL, BATCH_MAX_ROWS, BUFFER_SIZE, POLL_LINGER),
    *(TABLE_POLL_INTERVAL, STARTUP_POLLING, NUMERIC_MAPPING, NUMERIC_PRECISION),
    *keys.QUOTING,
    *(ISOLATION, NUMERIC_SCALE, READ_PARALLELISM, TABLE_PARTS, PART_KEYS, TABLES),
    rules=RULES,
)
