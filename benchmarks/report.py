"""Turns figures into a table and a file.

A figure is one measurement of one runtime in one round; the report has the median over the rounds,
their range, and the ratio of penstock's median to the reference's.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from rich.table import Table
from rich.text import Text

from benchmarks import transforming
from benchmarks.runtimes import PENSTOCK, REFERENCE
from penstock import KAFKA_VERSION, VERSION


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. `value` is None if there were too few records to measure a rate."""

    scenario: str
    name: str
    runtime: str
    round: int
    value: float | None
    points: Sequence[tuple[float, float]] = ()
    """The data behind the value, for plots: records over seconds, or milliseconds by percent."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A run without figures, or with wrong results."""

    scenario: str
    runtime: str
    round: int
    text: str


@dataclass(frozen=True, slots=True)
class Target:
    """A goal for the ratio of penstock to the reference, or for penstock alone."""

    limit: float
    at_least: bool
    of_ratio: bool

    def met(self, ours: float, ratio: float | None) -> bool | None:
        """Whether the goal is met; None without a ratio."""
        value = ratio if self.of_ratio else ours
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def words(self, unit: str) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.limit:g} {'×' if self.of_ratio else unit}"


def _ratio_at_least(limit: float) -> Target:
    return Target(limit, at_least=True, of_ratio=True)


def _ratio_at_most(limit: float) -> Target:
    return Target(limit, at_least=False, of_ratio=True)


def _at_most(limit: float) -> Target:
    return Target(limit, at_least=False, of_ratio=False)


def _at_least(limit: float) -> Target:
    return Target(limit, at_least=True, of_ratio=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    scenario: str
    name: str
    title: str
    unit: str
    target: Target | None = None


def _moving(scenario: str, title: str, warm: Target | None) -> tuple[Row, ...]:
    """The rows of a scenario that moves records: from the first to the last one, and, as users see
    it, from the PUT to the last one."""
    from_put = "  the same from the PUT on"
    return (
        Row(scenario, "cold", f"{title}, cold", "rec/s", _ratio_at_least(1.5)),
        Row(scenario, "cold.from_put", from_put, "rec/s", _ratio_at_least(1)),
        Row(scenario, "warm", f"{title}, warm", "rec/s", warm),
        Row(scenario, "warm.from_put", from_put, "rec/s"),
    )


def _percentiles(
    scenario: str, title: str, *, p50: float | None, p99: float, prefix: str = ""
) -> tuple[Row, ...]:
    """The rows of a latency, with the goals in ms."""
    middle = None if p50 is None else _at_most(p50)
    return (
        Row(scenario, f"{prefix}p50_ms", f"{title}, p50", "ms", middle),
        Row(scenario, f"{prefix}p95_ms", f"{title}, p95", "ms"),
        Row(scenario, f"{prefix}p99_ms", f"{title}, p99", "ms", _at_most(p99)),
    )


def _using(scenario: str, title: str, cpu: float | None, memory: float | None) -> tuple[Row, ...]:
    """The rows of a worker's resource usage, with the goals for the ratios."""
    targets = [None if limit is None else _ratio_at_most(limit) for limit in (cpu, memory)]
    return (
        Row(scenario, "cpu", f"{title}, CPU", "cores", targets[0]),
        Row(scenario, "memory_mb", f"{title}, memory", "MB", targets[1]),
    )


def _sinking(scenario: str, title: str, target: Target | None) -> tuple[Row, ...]:
    """The rows of a scenario that fills a table."""
    return (
        Row(scenario, "cold", f"{title}, cold", "rec/s"),
        Row(scenario, "warm", f"{title}, warm", "rec/s", target),
        Row(scenario, "warm.from_put", "  the same from the PUT on", "rec/s"),
        Row(scenario, "bare", "  read and converted, not written", "rec/s"),
        Row(scenario, "floor.bulk", "  the server's bulk load of a file", "rec/s"),
        Row(scenario, "floor.batches", "  batches of 3,000 INSERTs", "rec/s"),
        Row(scenario, "floor.rows", "  one INSERT after the other", "rec/s"),
    )


def _reading(scenario: str, title: str) -> tuple[Row, ...]:
    """The rows of a scenario that reads a table."""
    return (
        Row(scenario, "cold", f"{title}, cold", "rec/s"),
        Row(scenario, "warm", f"{title}, warm", "rec/s", _at_least(200_000)),
        Row(scenario, "warm.from_put", "  the same from the PUT on", "rec/s"),
        Row(scenario, "warm.memory_mb", "  memory, at most", "MB"),
        Row(scenario, "floor.select", "  a SELECT of all rows, received", "rec/s"),
    )


def _storing(scenario: str, title: str, target: float) -> tuple[Row, ...]:
    return (
        Row(scenario, "warm", title, "rec/s", _at_least(target)),
        Row(scenario, "warm.from_put", "  from the PUT on", "rec/s"),
        Row(scenario, "hand", "  a loop in one process", "rec/s"),
        Row(scenario, "share", "  penstock to that loop", "×"),
        Row(scenario, "memory_mb", "  memory, at most", "MB"),
    )


def _files(scenario: str, title: str, least: float | None) -> tuple[Row, ...]:
    """The rows of a scenario that reads files."""
    return (
        Row(scenario, "cold", f"{title}, cold", "rec/s"),
        Row(scenario, "warm", f"{title}, warm", "rec/s", _at_least(least) if least else None),
        Row(scenario, "warm.from_put", "  the same from the PUT on", "rec/s"),
        Row(scenario, "floor.loop", "  a loop of one process", "rec/s"),
    )


def _transforming(scenario: str, kind: str) -> tuple[Row, ...]:
    return tuple(
        Row(scenario, case.name, f"{case.name}, {kind}", "rec/s", _ratio_at_least(2))
        for case in transforming.CASES
    )


ROWS: Final = (
    Row("start", "rest_s", "process start to REST", "s", _ratio_at_most(0.4)),
    Row("start", "connectors_s", "  to the list of connectors", "s", _ratio_at_most(0.3)),
    Row("start", "source_s", "  to the first record of a source", "s", _ratio_at_most(1.0)),
    Row("start", "sink_s", "  to the first record of a sink", "s", _ratio_at_most(1.0)),
    Row("start", "cpu_s", "  CPU time until then", "s"),
    *_moving("source", "file → topic", _ratio_at_least(4)),
    *_moving("sink-lines", "topic → file, text", None),
    *_moving("sink-json", "topic → file, JSON", _ratio_at_least(2)),
    *_moving("sink-schemas", "topic → file, with schemas", _ratio_at_least(2)),
    *_moving("sink-transforms", "topic → file, 3 transforms", _ratio_at_least(2)),
    Row("first", "source_s", "PUT to first record, source", "s", _at_most(0.2)),
    Row("first", "sink_s", "PUT to first record, sink", "s", _at_most(0.2)),
    *_percentiles("latency", "append to topic", p50=15, p99=50, prefix="source."),
    *_percentiles("latency", "topic to file", p50=8, p99=25, prefix="sink."),
    *_percentiles("quiet-sinks", "20 sinks × 5/s", p50=15, p99=60),
    *_using("quiet-sinks", "20 sinks × 5/s", 2, 1.5),
    *_percentiles("quiet-sources", "20 sources × 5/s", p50=40, p99=150),
    *_using("quiet-sources", "20 sources × 5/s", 3, 1.5),
    Row("quiet-200", "running_s", "200 connectors, last PUT to RUNNING", "s", _at_most(60)),
    Row("quiet-200", "running.from_first_s", "  the same from the first PUT on", "s"),
    *_percentiles("quiet-200", "100 sinks × 1/s", p50=None, p99=250, prefix="sink."),
    *_percentiles("quiet-200", "100 sources × 1/s", p50=None, p99=250, prefix="source."),
    *_using("quiet-200", "200 connectors × 1/s", 2, 2),
    *_percentiles("slow-neighbour", "19 sinks beside a slow one", p50=None, p99=100),
    *_using("slow-neighbour", "20 sinks, one slow", None, None),
    *_using("idle", "50 idle connectors", 1.2, 1.2),
    Row("move", "stopped_s", "worker stopped to tasks elsewhere", "s", _at_most(5)),
    Row("move", "stopped.line_s", "  the same until they moved a line", "s"),
    Row("move", "stopped.sink_s", "  until the sinks among them wrote one", "s"),
    Row("move", "killed_s", "worker killed to tasks elsewhere", "s", _at_most(15)),
    Row("move", "killed.line_s", "  the same until they moved a line", "s"),
    Row("move", "killed.sink_s", "  until the sinks among them wrote one", "s"),
    Row("move", "joined_s", "worker added to 100 tasks, to balance", "s"),
    Row("move", "joined.moved", "  tasks that moved to it", "tasks"),
    Row("move", "joined.rest_s", "  how long each did nothing, median", "s"),
    Row("move", "joined.disturbed", "  tasks disturbed that did not", "tasks", _at_most(0)),
    *_transforming("transforms", "JSON"),
    *_transforming("transforms-schemas", "with schemas"),
    *_sinking("postgresql-insert", "topic → PostgreSQL, insert", _at_least(120_000)),
    *_sinking("postgresql-upsert", "topic → PostgreSQL, upsert", _at_least(80_000)),
    *_reading("postgresql-read", "PostgreSQL → topic"),
    *_sinking("mariadb-insert", "topic → MariaDB, insert", _at_least(120_000)),
    *_sinking("mariadb-upsert", "topic → MariaDB, upsert", _at_least(80_000)),
    *_reading("mariadb-read", "MariaDB → topic"),
    *_storing("s3-json", "topic → S3, JSON lines", 300_000),
    *_storing("s3-parquet", "topic → S3, Parquet", 250_000),
    *_storing("s3-avro", "topic → S3, Avro", 150_000),
    *_files("s3-json-read", "S3, JSON lines → topic", 250_000),
    *_files("s3-parquet-read", "S3, Parquet → topic", 200_000),
    *_files("csv-read", "folder, CSV → topic", 200_000),
    *_files("csv-headers-read", "  with spooldir's headers", None),
    *_storing("mongodb-write", "topic → MongoDB", 40_000),
    *_storing("search-index", "topic → OpenSearch", 20_000),
    *_storing("search-read", "OpenSearch → topic", 20_000),
    *_storing("cassandra-insert", "topic → Cassandra", 15_000),
    *_storing("cassandra-read", "Cassandra → topic", 15_000),
    *_storing("redis-set", "topic → Redis strings", 100_000),
    *_storing("redis-hash", "topic → Redis hashes", 100_000),
    *_storing("redis-stream-read", "Redis stream → topic", 100_000),
    *_storing("mqtt-source-qos0", "MQTT, QoS 0 → topic", 10_000),
    *_storing("mqtt-source-qos1", "MQTT, QoS 1 → topic", 5_000),
    *_storing("mqtt-sink-qos0", "topic → MQTT, QoS 0", 10_000),
    *_storing("mqtt-sink-qos1", "topic → MQTT, QoS 1", 5_000),
    *_storing("http-sink", "topic → HTTP, a request each", 3_000),
    *_storing("http-sink-batch", "topic → HTTP, batches of 1,000", 100_000),
    *_files("http-source", "HTTP, pages → topic", None),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The rounds of one runtime, summed up."""

    median: float
    low: float
    high: float


def summary(figures: Sequence[Figure], scenario: str, name: str, runtime: str) -> Summary | None:
    """The summary of the figures with a value; None without any."""
    values = [
        figure.value
        for figure in figures
        if (figure.scenario, figure.name, figure.runtime) == (scenario, name, runtime)
        and figure.value is not None
    ]
    return Summary(statistics.median(values), min(values), max(values)) if values else None


def ratio(ours: Summary | None, theirs: Summary | None) -> float | None:
    """How many times the reference's median ours is."""
    if ours is None or theirs is None or not theirs.median:
        return None
    return ours.median / theirs.median


def number_words(value: float) -> str:
    """A figure with three significant digits.

    >>> number_words(412_345.6), number_words(12.84), number_words(0.1304)
    ('412,346', '12.8', '0.13')
    """
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def summary_words(summary: Summary | None) -> str:
    """The median, and the range of the rounds in brackets."""
    if summary is None:
        return "–"
    low, high = number_words(summary.low), number_words(summary.high)
    return f"{number_words(summary.median)} ({low}–{high})"


def table(figures: Sequence[Figure], title: str) -> Table:
    """The measurements next to the goals; only rows with figures."""
    shown = Table(title=title, title_justify="left")
    for column in ("", "unit"):
        shown.add_column(column)
    for column in ("penstock", f"Kafka Connect {KAFKA_VERSION}", "ratio", "target"):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in ROWS:
        ours = summary(figures, row.scenario, row.name, PENSTOCK)
        theirs = summary(figures, row.scenario, row.name, REFERENCE)
        if ours is None and theirs is None:
            continue
        times = ratio(ours, theirs)
        shown.add_row(
            row.title,
            row.unit,
            summary_words(ours),
            summary_words(theirs),
            "–" if times is None else f"{times:.2f}",
            _target_text(row, ours, times),
        )
    return shown


def _target_text(row: Row, ours: Summary | None, times: float | None) -> Text:
    if row.target is None:
        return Text("")
    words = row.target.words(row.unit)
    met = None if ours is None else row.target.met(ours.median, times)
    if met is None:
        return Text(words)
    return Text(f"{words} {'✓' if met else '✗'}", style="green" if met else "red")


def document(
    figures: Sequence[Figure],
    problems: Sequence[Problem],
    *,
    records: int,
    rounds: int,
    seconds: float,
    reference_options: Sequence[str],
) -> dict[str, object]:
    """All measurements, as JSON: every figure of every round, and the content of the table."""
    rows: list[dict[str, object]] = []
    for row in ROWS:
        ours = summary(figures, row.scenario, row.name, PENSTOCK)
        theirs = summary(figures, row.scenario, row.name, REFERENCE)
        if ours is None and theirs is None:
            continue
        times = ratio(ours, theirs)
        target = row.target
        rows.append(
            {
                "scenario": row.scenario,
                "name": row.name,
                "title": row.title,
                "unit": row.unit,
                PENSTOCK: _members(ours),
                REFERENCE: _members(theirs),
                "ratio": times,
                "target": target and target.words(row.unit),
                "met": target.met(ours.median, times) if target and ours else None,
            }
        )
    return {
        "penstock": VERSION,
        "kafka_connect": KAFKA_VERSION,
        "machine": {
            "processors": os.cpu_count(),
            "memory_mb": psutil.virtual_memory().total // 1_000_000,
            "system": platform.system(),
            "release": platform.release(),
            "python": platform.python_version(),
        },
        "reference_options": list(reference_options),
        "records": records,
        "rounds": rounds,
        "seconds": seconds,
        "rows": rows,
        "figures": [
            {
                "scenario": figure.scenario,
                "name": figure.name,
                "runtime": figure.runtime,
                "round": figure.round,
                "value": figure.value,
                "points": [list(point) for point in figure.points],
            }
            for figure in figures
        ],
        "problems": [
            {
                "scenario": problem.scenario,
                "runtime": problem.runtime,
                "round": problem.round,
                "text": problem.text,
            }
            for problem in problems
        ],
    }


def _members(summary: Summary | None) -> dict[str, float] | None:
    if summary is None:
        return None
    return {"median": summary.median, "low": summary.low, "high": summary.high}


def write(file: Path, content: dict[str, object]) -> None:
    """Writes the document for plots, atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    new.replace(file)
