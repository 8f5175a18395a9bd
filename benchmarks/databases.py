"""Topics into tables and tables into topics, next to the database alone.

Kafka Connect has no JDBC connector of its own, so only penstock is measured here, next to the rates
of the same server for a bulk load, for batches of INSERTs and for single ones, all of them sent by
one client that has the rows ready.
"""

from __future__ import annotations

import contextlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import inputs
from benchmarks.inputs import PARTITIONS, SCHEMAS, WrongOutcome
from benchmarks.runtimes import Session
from benchmarks.scenarios import (
    JSON_WITH_SCHEMAS,
    Load,
    Note,
    Scenario,
    delete_topics,
    note_curve,
    sink_config,
)
from benchmarks.watching import Curve, peak_memory, topic_ends, watch
from penstock.config.define import Secret
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.url import parse
from penstock.errors import PenstockError
from tests.servers.databases import DatabaseServer, MariaDbServer, PostgresServer

_SINK: Final = "io.confluent.connect.jdbc.JdbcSinkConnector"
_SOURCE: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
_FILTER: Final = "org.apache.kafka.connect.transforms.Filter"

_BATCH: Final = 3_000  # rows of a statement or batch, the JVM connector's default
_SLOW_SHARE: Final = 20  # slower ways of inserting get only this part of the rows
_SLOW_MOST: Final = 20_000
_KEYS: Final = re.compile(rb'"id":(\d+)')
_CSV: Final = "%(id)d,user-%(name)d,%(city)s,%(score)d.5,%(active)s"
_COLUMNS: Final = ("id", "name", "city", "score", "active")

Row = tuple[object, ...]


class Target(ABC):
    """A database, and its dialect."""

    text: str
    truth: str
    parameters = ""  # of its URL, for a client that loads files

    @abstractmethod
    def server(self) -> DatabaseServer:
        """A server that is not started yet."""

    @abstractmethod
    def bulk(self, connection: Connection, table: str, file: Path) -> None:
        """Loads a file in the fastest way that the database offers."""

    def connect(self, server: DatabaseServer) -> Connection:
        """A connection that may also load files."""
        url = parse(server.url + self.parameters, server.user, Secret(server.password))
        return Database(url, attempts=1).connect()

    def create(self, connection: Connection, table: str, key: str = "") -> None:
        """Creates a table for the rows of `inputs.SCHEMAS`."""
        columns = (
            f"id BIGINT NOT NULL {key}, name {self.text} NOT NULL, city {self.text}, "
            f"score DOUBLE PRECISION NOT NULL, active {self.truth} NOT NULL"
        )
        connection.execute(f"CREATE TABLE {table} ({columns})")

    def fill(
        self, connection: Connection, table: str, key: str, folder: Path, records: int
    ) -> float:
        """Creates a table with this many rows; returns the seconds it took to load them."""
        file = folder / "rows.csv"
        write_csv(file, records)
        self.create(connection, table, key)
        began = time.monotonic()
        self.bulk(connection, table, file)
        took_s = time.monotonic() - began
        file.unlink()
        return took_s


class Postgresql(Target):
    text, truth = "TEXT", "BOOLEAN"

    def server(self) -> DatabaseServer:
        return PostgresServer()

    def bulk(self, connection: Connection, table: str, file: Path) -> None:
        with (
            connection.errors(),
            connection.raw.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy,
            file.open("rb") as opened,
        ):
            while block := opened.read(1 << 20):
                copy.write(block)


class _LargerMariaDb(MariaDbServer):
    buffer_pool_mb = 512  # enough for the rows of a run, as on a real server


class MariaDb(Target):
    text, truth = "VARCHAR(255)", "TINYINT"
    parameters = "?allowLoadLocalInfile=true"

    def server(self) -> DatabaseServer:
        return _LargerMariaDb()

    def bulk(self, connection: Connection, table: str, file: Path) -> None:
        connection.execute(
            f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {table} CHARACTER SET utf8mb4 "
            "FIELDS TERMINATED BY ','"
        )


def rows_of(records: int) -> Iterator[list[Row]]:
    """The rows of `inputs.SCHEMAS`, in blocks."""
    for block in inputs.generated(_CSV, records):
        yield [_row(line.decode()) for line in block]


def _row(line: str) -> Row:
    number, name, city, score, active = line.split(",")
    return int(number), name, city, float(score), active == "true"


def write_csv(file: Path, records: int) -> None:
    with file.open("wb") as out:
        for block in inputs.generated(_CSV, records):
            lines = [line.replace(b",true", b",1").replace(b",false", b",0") for line in block]
            out.write(b"\n".join(lines) + b"\n")


def check_table(connection: Connection, table: str, records: int) -> None:
    """Raises WrongOutcome unless the table has every row once, as it was sent."""
    names = len({number % 1_000 for number in range(min(records, 1_000))})
    query = (
        f"SELECT COUNT(*), COUNT(DISTINCT id), SUM(id), COUNT(DISTINCT name), SUM(score), "
        f"SUM(CASE WHEN active THEN 1 ELSE 0 END), COUNT(city) FROM {table}"
    )
    ((count, different, total, distinct, score, active, cities),) = connection.rows(query)
    numbers = np.arange(records, dtype=np.int64)
    expected = (
        records,
        records,
        int(numbers.sum()),
        names,
        float((numbers % 500 + 0.5).sum()),
        int((numbers & 1).sum()),
        records,
    )
    actual = (
        count,
        different,
        int(total or 0),
        distinct,
        float(score or 0),
        int(active or 0),
        cities,
    )
    if actual != expected:
        raise WrongOutcome(f"'{table}' should hold {expected}, it holds {actual}")


def _into_table(target: Target, upserting: bool) -> Callable[[Session, Load, Note], None]:
    keys = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    settings = keys if upserting else {"insert.mode": "insert", "pk.mode": "none"}

    def measure(session: Session, load: Load, note: Note) -> None:
        topic = load.topic(SCHEMAS)
        with target.server() as server, target.connect(server) as connection:
            for run in ("cold", "warm"):
                table = f"rows_{run}"
                config = {
                    **sink_config(topic, session.folder / "unused", PARTITIONS),
                    **JSON_WITH_SCHEMAS,
                    **server.settings(),
                    **settings,
                    "connector.class": _SINK,
                    "table.name.format": table,
                    "auto.create": "true",
                }
                config.pop("file")
                with session.running({session.name("sink"): config}) as began:
                    done = _count_of(connection, table)
                    curve = watch(done, load.records, began, load.timeout_s, session.check)
                check_table(connection, table, load.records)
                note_curve(note, run, curve)
            _floors(target, connection, session.folder, load, note, upserting)
        note_curve(note, "bare", _decoded_only(session, load, topic))

    return measure


def _count_of(connection: Connection, table: str) -> Callable[[], int]:
    """A function that returns the number of rows of a table."""

    def count() -> int:
        with contextlib.suppress(PenstockError):  # it does not exist yet
            ((rows,),) = connection.rows(f"SELECT COUNT(*) FROM {table}")
            return int(rows)
        return 0

    return count


def _decoded_only(session: Session, load: Load, topic: str) -> Curve:
    """The same records read and converted, and then dropped by a transform: the cost without
    writing. Measured by the group's offsets."""
    name = session.name("bare")
    config = {
        **sink_config(topic, session.folder / "nothing.txt", PARTITIONS),
        **JSON_WITH_SCHEMAS,
        "transforms": "drop",
        "transforms.drop.type": _FILTER,
    }

    def committed() -> int:
        return sum(session.topics.committed(f"connect-{name}", topic).values())

    with session.running({name: config}) as began:
        return watch(committed, load.records, began, load.timeout_s, session.check)


def _floors(
    target: Target,
    connection: Connection,
    folder: Path,
    load: Load,
    note: Note,
    keyed: bool,
) -> None:
    """Measures the server alone, without any pipeline."""
    key = "PRIMARY KEY" if keyed else ""
    took_s = target.fill(connection, "floor_bulk", key, folder, load.records)
    note("floor.bulk", load.records / took_s)
    check_table(connection, "floor_bulk", load.records)

    some = max(_BATCH, min(load.records // _SLOW_SHARE, _SLOW_MOST))
    rows = [row for block in rows_of(some) for row in block]
    places = ", ".join([connection.placeholder] * len(_COLUMNS))
    for name, size in (("batches", _BATCH), ("rows", 1)):
        table = f"floor_{name}"
        target.create(connection, table, key)
        sql = f"INSERT INTO {table} ({', '.join(_COLUMNS)}) VALUES ({places})"
        began = time.monotonic()
        for start in range(0, some, _BATCH):
            with connection.transaction():
                if size > 1:
                    # psycopg sends all rows before the first answer, as pgjdbc does; PyMySQL sends
                    # them as one statement, as Connector/J can.
                    connection.many(sql, rows[start : start + _BATCH])
                    continue
                for row in rows[start : start + _BATCH]:
                    connection.execute(sql, row)
        note(f"floor.{name}", some / (time.monotonic() - began))
        check_table(connection, table, some)


def _from_table(target: Target) -> Callable[[Session, Load, Note], None]:
    def measure(session: Session, load: Load, note: Note) -> None:
        with target.server() as server, target.connect(server) as connection:
            target.fill(connection, "big", "PRIMARY KEY", session.folder, load.records)
            note("floor.select", load.records / _selected_s(connection))
            for run in ("cold", "warm"):
                note_curve(note, run, _snapshot(session, load, server, note, run))

    return measure


def _selected_s(connection: Connection) -> float:
    """How long it takes to receive the whole table and discard it."""
    began = time.monotonic()
    with connection.transaction(writing=False):
        for _ in connection.stream(f"SELECT {', '.join(_COLUMNS)} FROM big"):
            pass
    return time.monotonic() - began


def _snapshot(session: Session, load: Load, server: DatabaseServer, note: Note, run: str) -> Curve:
    """Copies the whole table into a topic; two tasks share its key range."""
    prefix = session.name("table") + "-"
    topic = f"{prefix}big"
    session.topics.create(topic)
    config = {
        **server.settings(),
        **JSON_WITH_SCHEMAS,
        "connector.class": _SOURCE,
        "tasks.max": "2",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "big",
        "topic.prefix": prefix,
        "penstock.table.parts": "2",
    }
    ends = topic_ends(session.topics, [topic])
    with (
        peak_memory(session.worker.pid) as peak,
        session.running({session.name("table"): config}) as began,
    ):
        curve = watch(ends, load.records, began, load.timeout_s, session.check)
    note(f"{run}.memory_mb", max(peak))
    numbers = [
        np.array(_KEYS.findall(b"\n".join(block)), dtype=bytes).astype(np.int64)
        for block in inputs.values_of(session.topics, topic)
    ]
    ids = np.sort(np.concatenate(numbers))
    if not np.array_equal(ids, np.arange(load.records)):
        raise WrongOutcome(f"{load.records:,} rows were read, {len(ids):,} records came")
    delete_topics(session.topics, [topic])
    return curve


def _scenarios(name: str, title: str, target: Target) -> tuple[Scenario, ...]:
    settings = {"offset.flush.interval.ms": "500"}  # offsets tell how far `bare` is
    return (
        Scenario(
            f"{name}-insert",
            f"topic → {title}, insert",
            _into_table(target, upserting=False),
            settings,
            alone=True,
        ),
        Scenario(
            f"{name}-upsert",
            f"topic → {title}, upsert",
            _into_table(target, upserting=True),
            settings,
            alone=True,
        ),
        Scenario(f"{name}-read", f"{title} → topic", _from_table(target), alone=True),
    )


SCENARIOS: Final = (
    *_scenarios("postgresql", "PostgreSQL", Postgresql()),
    *_scenarios("mariadb", "MariaDB", MariaDb()),
)
