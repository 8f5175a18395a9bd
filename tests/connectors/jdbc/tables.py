"""Shared by the JDBC connectors' tests with real servers: tables read as records, records written
into tables, and servers that are killed meanwhile."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from penstock.api import Failed, Offsets, Polled, SinkWriter, SourceOffset
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.errors import DatabaseAway, DatabaseBusy
from penstock.connectors.jdbc.drivers.url import Kind, parse
from penstock.connectors.jdbc.read.reader import JdbcReader
from penstock.connectors.jdbc.settings.sink import JDBC_SINK
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.sink import JdbcSink
from penstock.connectors.jdbc.source import JdbcSource
from penstock.data import schema as s
from penstock.data.records import Column, Records
from penstock.data.schema import Schema, Value
from penstock.errors import Unavailable
from penstock.ids import TaskId
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SinkContextStub, SourceContextStub
from tests.servers.databases import DatabaseServer

MOST: Final = 1 << 25  # more than any test's table has

KEY: Final = s.struct({"id": s.INT64})
ROW: Final = s.struct({"id": s.INT64, "name": s.OPTIONAL_STRING, "amount": s.OPTIONAL_INT64})

_KILLS: Final = 3
_BATCH: Final = 500
_KILL_S: Final = 60

_names = itertools.count(1)


def run(server: DatabaseServer, *statements: str) -> None:
    with server.connect() as connection:
        for statement in statements:
            connection.execute(statement)


def props(server: DatabaseServer, table: str, **settings: object) -> dict[str, str]:
    """A source's settings; in the names of those given, two underscores are a dot."""
    given = {name.replace("__", "."): str(value) for name, value in settings.items()}
    whitelist = {} if "query" in given else {"table.whitelist": table}
    return {
        **server.settings(),
        "topic.prefix": "shop-",
        "mode": "incrementing",
        "poll.interval.ms": "0",
        "connection.attempts": "1",
        **whitelist,
        **given,
    }


def open_reader(
    server: DatabaseServer,
    table: str,
    stored: Offsets = (),
    range_bytes: int = MOST,
    **settings: object,
) -> JdbcReader:
    (task,) = JdbcSource().plan_tasks(JDBC_SOURCE.parse(props(server, table, **settings)), 1)
    return reader_of(task, stored, range_bytes)


def reader_of(task: Mapping[str, str], stored: Offsets = (), range_bytes: int = MOST) -> JdbcReader:
    context = SourceContextStub(stored)
    return JdbcReader(JDBC_SOURCE.parse(task), context, range_bytes=range_bytes)


def read(reader: JdbcReader, max_bytes: int = MOST) -> tuple[list[Any], list[SourceOffset]]:
    """All existing rows, and the offsets that are stored then."""
    found: list[Any] = []
    stored: list[SourceOffset] = []
    for polled in polls(reader, max_bytes):
        found += rows_of(reader, polled)
        moved = [each.partition for each in polled.offsets]
        stored = [each for each in stored if each.partition not in moved] + list(polled.offsets)
    return found, stored


def polls(reader: JdbcReader, max_bytes: int = MOST) -> Iterator[Polled]:
    """Polls until nothing is left."""
    for _ in range(10_000):
        polled = reader.poll(max_bytes, 0)
        if polled is None:
            return
        yield polled
    pytest.fail("there is always more")


def rows_of(reader: JdbcReader, polled: Polled) -> list[Any]:
    """The rows of a poll and of its parts."""
    batches = [polled.records, *(each for part in polled.parts for each in reader.read(part))]
    return [row for batch in batches for row in batch.values.values]


def only_poll(reader: JdbcReader) -> Polled:
    """Everything, returned by one poll."""
    (polled,) = polls(reader)
    return polled


def only_row(reader: JdbcReader) -> tuple[dict[str, Any], Schema]:
    records = only_poll(reader).records
    ((schema, _, _),) = records.values.slices()
    assert schema is not None
    s.check(schema, records.values.values[0])
    return records.values.values[0], schema


def ids_read_around_a_kill(server: DatabaseServer, table: str) -> list[int]:
    """The ids of a table whose server is killed after a range was read; reads fail until it is
    back, then the rest is read."""
    named = {"incrementing__column__name": "id"}
    reader = open_reader(server, table, range_bytes=100, **named)
    planner = open_reader(server, table, **named, penstock__read__parallelism=2)
    planned = only_poll(planner)
    first = reader.poll(MOST, 0)
    assert first is not None
    server.kill()
    with pytest.raises(Unavailable):
        reader.poll(MOST, 0)
    with pytest.raises(Unavailable):
        rows_of(planner, planned)
    server.start()
    seen = [row["id"] for row in rows_of(reader, first) + read(reader)[0]]
    assert seen == [row["id"] for row in rows_of(planner, planned)]
    return seen


class NotesConformance(SourceConformance):
    """A table `notes` as a source; subclasses recreate it for each test."""

    resumes_within_polls = True
    connector = JdbcSource
    mode = "incrementing"
    notes = "notes"  # as it is written in SQL
    server: DatabaseServer

    def config(self) -> dict[str, str]:
        named = {"incrementing.column.name": "id"}
        if self.mode != "incrementing":
            named["timestamp.column.name"] = "changed"
        return {**props(self.server, "notes", mode=self.mode), **named}

    def add(self, numbers: range) -> None:
        rows = ", ".join(
            f"({each + 1}, 'note {each} {'x' * 50}', '2024-01-01 00:{each // 7:02}:00.000001')"
            for each in numbers
        )
        run(self.server, f"INSERT INTO {self.notes} VALUES {rows}")


@dataclass
class Target:
    """A database, a table in it that no other test uses, and sinks that write there."""

    database: dict[str, str]  # the settings that name it
    table: str
    connection: Connection
    opened: list[SinkWriter] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        return self.connection.kind

    @property
    def url(self) -> str:
        return self.database["connection.url"]

    def props(self, **settings: str) -> dict[str, str]:
        """A sink's settings; in the names of those given, two underscores are a dot."""
        return {
            "name": "sink",
            **self.database,
            "retry.backoff.ms": "0",
            "connection.attempts": "1",
            **{name.replace("__", "."): text for name, text in settings.items()},
        }

    def sink(self, **settings: str) -> SinkWriter:
        props = self.props(**settings)
        context = SinkContextStub(
            TaskId(props["name"], 0), tolerates_errors=props.get("errors.tolerance") == "all"
        )
        writer = JdbcSink().open(JDBC_SINK.parse(props), context)
        self.opened.append(writer)
        return writer

    def close(self) -> None:
        """Closes its sinks."""
        for writer in self.opened:
            writer.close()

    def quoted(self, name: str) -> str:
        return f"`{name}`" if self.kind is Kind.MYSQL else f'"{name}"'

    def create(self, columns: str) -> None:
        self.connection.execute(f"CREATE TABLE {self.quoted(self.table)} ({columns})")

    def rows(self, columns: str = "*", order: str = "1") -> list[tuple[Any, ...]]:
        table = self.quoted(self.table)
        return self.connection.rows(f"SELECT {columns} FROM {table} ORDER BY {order}")

    def records(
        self,
        values: Sequence[Value],
        schema: Schema | None = ROW,
        keys: Sequence[Value] | None = None,
        key_schema: Schema | None = None,
        first: int = 0,
    ) -> Records:
        count = len(values)
        schemas = [None if value is None else schema for value in values]
        return Records(
            topics=[self.table] * count,
            partitions=[0] * count,
            timestamps=[1_700_000_000_000] * count,
            keys=Column.of(list(keys) if keys else [None] * count, key_schema if keys else None),
            values=Column.gather(list(values), schemas),
            offsets=list(range(first, first + count)),
        )

    def keyed(self, rows: Sequence[tuple[int, Value]], first: int = 0) -> Records:
        """Records with the key as a struct; a value of None is a tombstone."""
        keys = [{"id": key} for key, _ in rows]
        return self.records([row for _, row in rows], ROW, keys, KEY, first)


@contextmanager
def target_of(request: pytest.FixtureRequest, folder: Path) -> Iterator[Target]:
    """A table in the database that a fixture's parameter names: a SQLite file in the folder, or a
    server. It is removed at the end."""
    table = f"Orders_{next(_names)}"
    if request.param == "sqlite":
        settings = {"connection.url": f"jdbc:sqlite:{folder / 'shop.db'}"}
        connection = Database(parse(settings["connection.url"])).connect()
    else:
        server: DatabaseServer = request.getfixturevalue(request.param)
        settings, connection = server.settings(), server.connect()
    with connection:
        made = Target(settings, table, connection)
        try:
            yield made
        finally:
            made.close()
            connection.execute(f"DROP TABLE IF EXISTS {made.quoted(table)}")


def only(*kinds: str) -> Any:
    """Runs a test with these databases only."""
    return pytest.mark.parametrize("target", kinds, indirect=True)


def row(number: int, name: str | None = None, amount: int | None = None) -> dict[str, Value]:
    return {"id": number, "name": name, "amount": amount}


def write(writer: SinkWriter, records: Records) -> Failed:
    failed: Failed = {}
    writer.write(records, failed)
    return failed


def ids_written_around_kills(server: DatabaseServer, once: bool) -> tuple[int, int, list[int]]:
    """A sink writes batches, with retries, while the server is killed and restarted a few times.
    Returns the number of rows, numbered from 0, the number of retries, and the final ids in the
    table."""
    keys = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
    settings = {"penstock.exactly.once": "true"} if once else keys
    with server.connect() as connection:
        target = Target(server.settings(), "orders", connection)
    writer = target.sink(
        auto__create="true", max__retries="1000", retry__backoff__ms="20", **settings
    )
    written, over = threading.Event(), threading.Event()

    def interrupt() -> None:
        try:
            for _ in range(_KILLS):
                written.clear()
                written.wait(_KILL_S)
                server.kill()
                server.start()
        finally:
            over.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    count = retries = 0
    while not over.is_set() or count < 20 * _BATCH:
        batch = target.records([row(count + at) for at in range(_BATCH)], first=count)
        try:
            assert write(writer, batch) == {}
        except (DatabaseAway, DatabaseBusy):
            retries += 1
            continue
        count += _BATCH
        written.set()
    thread.join(_KILL_S)
    target.close()
    with server.connect() as connection:
        found = replace(target, connection=connection).rows(target.quoted("id"))
    return count, retries, [number for (number,) in found]
