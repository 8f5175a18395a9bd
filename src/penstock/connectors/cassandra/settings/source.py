"""Settings of the source, under the names of Lenses' connector (connectors.md §7.2)."""

from __future__ import annotations

from typing import Any, Final

from penstock.api import PenstockError
from penstock.api.dates import DateFormat, PatternInvalid
from penstock.api.settings import (
    LONG,
    LOW,
    MEDIUM,
    Config,
    ConfigDef,
    Group,
    checking,
)
from penstock.connectors.cassandra.read.offsets import TABLE, moment_ms
from penstock.connectors.cassandra.read.plan import Bucket, Buckets, Mode, SourcePlan, TablePlan
from penstock.connectors.cassandra.settings import lenses
from penstock.connectors.cassandra.text.kcql import Statement

_MODES: Final = {
    "": Mode.BULK,
    "none": Mode.BULK,
    "timestamp": Mode.TIMESTAMP,
    "timeuuid": Mode.TIMEUUID,
    "token": Mode.TOKEN,
    "buckettimeseries": Mode.BUCKETS,
    "bucket-timeseries": Mode.BUCKETS,
}
_UNUSED: Final = "Ignored: a poll reads about 1 MB, regardless of the number of "


def _initial_problem(value: str | None) -> str | None:
    try:
        moment_ms(value or "")
    except PenstockError as error:
        return str(error)
    return None


def _pattern_problem(value: str | None) -> str | None:
    try:
        DateFormat(value or "")
    except PatternInvalid as error:
        return str(error)
    return None


# fmt: off
_IMPORT: Final = Group("Import", numbered=False)
TABLES: Final = _IMPORT.text(TABLE, "",
    "The tables of a task. Set by the connector.", importance=LOW)
BUFFER: Final = _IMPORT.number("connect.cassandra.task.buffer.size", 10_000,
    f"{_UNUSED}rows.", at_least=1)
BATCH: Final = _IMPORT.number("connect.cassandra.batch.size", 100, f"{_UNUSED}rows.", at_least=1)
INTERVAL: Final = _IMPORT.long("connect.cassandra.import.poll.interval", 1_000,
    "How long to wait after a poll without new rows, in ms.", at_least=1)
FILTERING: Final = _IMPORT.flag("connect.cassandra.import.allow.filtering", True,
    "Whether to add ALLOW FILTERING to the statements that read new rows.")
TIME_SLICE: Final = _IMPORT.ignored("connect.cassandra.time.slice.ms", 10_000,
    "see `connect.cassandra.slice.duration`", kind=LONG, at_least=0, importance=MEDIUM)
SLICE: Final = _IMPORT.long("connect.cassandra.slice.duration", 10_000,
    "The time range that a statement reads, in ms; it grows while no rows are found.", at_least=1)
DELAY: Final = _IMPORT.long("connect.cassandra.slice.delay.ms", 30_000,
    "How old rows must be before they are read, in ms: set it to the longest delay of rows.",
    at_least=0)
INITIAL: Final = _IMPORT.text("connect.cassandra.initial.offset", "1900-01-01 00:00:00.0000000Z",
    "Where to begin without an offset: yyyy-MM-dd HH:mm:ss.SSS'Z'.",
    check=checking("yyyy-MM-dd HH:mm:ss.SSS'Z'", _initial_problem))
AS_JSON: Final = _IMPORT.flag("connect.cassandra.mapping.collection.to.json", True,
    "Whether to send collections as JSON strings; otherwise as arrays and maps.")
_BUCKETS: Final = tuple(bucket.name for bucket in Bucket)
BUCKET: Final = _IMPORT.choice("connect.cassandra.bucket.timeseries.mode", "", ("", *_BUCKETS),
    "The length of buckets, for INCREMENTALMODE=buckettimeseries.", offers=_BUCKETS)
BUCKET_FORMAT: Final = _IMPORT.text("connect.cassandra.bucket.timeseries.format", "",
    "The format of bucket names: a Java date pattern.",
    check=checking("a date pattern", _pattern_problem))
BUCKET_FIELD: Final = _IMPORT.text("connect.cassandra.bucket.timeseries.field.name", "bucket",
    "The column with the bucket names.")
# fmt: on

LENSES_SOURCE: Final = ConfigDef(
    *lenses.BASE,
    *(TABLES, lenses.KCQL, BUFFER, BATCH, INTERVAL, FILTERING, TIME_SLICE, SLICE, DELAY, INITIAL),
    *(AS_JSON, BUCKET, BUCKET_FORMAT, BUCKET_FIELD),
    rules=(lenses.key_space_rule,),
)


def problems(config: Config) -> list[tuple[str, str]]:
    """Problems of the KCQL: the setting to blame, and the message."""
    name = lenses.KCQL.name
    errors: list[tuple[str, str]] = []
    tables: set[str] = set()
    for statement in lenses.statements(config):
        if statement.source in tables:
            errors.append((name, f"{name}: table {statement.source} is read twice"))
        tables.add(statement.source)
        if statement.mode == "dsesearchtimestamp":
            errors.append(
                (name, f"{name}: INCREMENTALMODE=dsesearchtimestamp needs DSE Search, which is not "
                 "supported; use timestamp")
            )  # fmt: skip
            continue
        if statement.mode not in _MODES:
            modes = ", ".join(key for key in _MODES if key and "-" not in key)
            errors.append((name, f"{name}: INCREMENTALMODE={statement.mode} is not one of {modes}"))
            continue
        mode = _MODES[statement.mode]
        if mode is not Mode.BULK and len(statement.keys) != 1:
            errors.append(
                (
                    name,
                    f"{name}: Only one primary key column is allowed to be specified in "
                    f"Incremental mode. Received {','.join(statement.keys)} for source "
                    f"{statement.source}",
                )
            )
        if mode is Mode.BUCKETS and not config[BUCKET]:
            errors.append(
                (BUCKET.name, f"You should specify {BUCKET.name} while using {statement.mode}")
            )
        if (mode is Mode.BUCKETS or config[BUCKET]) and not config[BUCKET_FORMAT]:
            errors.append(
                (
                    BUCKET_FORMAT.name,
                    f"You should specify {BUCKET_FORMAT.name} while using BUCKETTIMESERIES",
                )
            )
    return errors


def source_plan(config: Config) -> SourcePlan:
    """The plan of a task; for a configuration without `problems`."""
    assigned = {table.strip() for table in config[TABLES].split(",") if table.strip()}
    return SourcePlan(
        tables=tuple(
            _table(statement, config)
            for statement in lenses.statements(config)
            if not assigned or statement.source in assigned
        ),
        interval_ms=config[INTERVAL],
        slice_ms=config[SLICE],
        delay_ms=config[DELAY],
        initial_ms=moment_ms(config[INITIAL]),
        fetch=config[lenses.FETCH],
        filters=config[FILTERING],
        as_json=config[AS_JSON],
        consistency=config[lenses.LEVEL].upper(),
        setting=lenses.KCQL.name,
    )


def _table(statement: Statement, config: Config) -> TablePlan:
    mode = _MODES[statement.mode]
    buckets: Any = None
    if mode is Mode.BUCKETS:
        buckets = Buckets(Bucket[config[BUCKET]], config[BUCKET_FORMAT], config[BUCKET_FIELD])
    return TablePlan(
        keyspace=config[lenses.KEY_SPACE],
        table=statement.source,
        topic=statement.target,
        mode=mode,
        column=statement.keys[0] if statement.keys else "",
        columns=()
        if statement.everything
        else tuple((field.name, field.alias) for field in statement.fields),
        ignored=statement.ignored,
        buckets=buckets,
        unwraps=statement.unwraps,
        unwraps_json=statement.format == "json",
        key_columns=statement.with_keys,
        delimiter=statement.delimiter,
    )
