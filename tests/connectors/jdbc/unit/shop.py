"""A database in a file, and what a source reads from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.api import Offsets, Polled, SourceOffset
from penstock.connectors.jdbc.read.reader import JdbcReader
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.source import JdbcSource
from penstock.data.schema import Value
from penstock.testing.contexts import SourceContextStub

MOST = 1 << 25
FIRST = datetime(2024, 1, 1, 12, 0, 0)  # noqa: DTZ001 - SQLite has no zones


class Shop:
    """A database in a file, and connectors that read it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.now = 1_700_000_000.0
        self.opened: list[JdbcReader] = []
        self("PRAGMA journal_mode = WAL")

    def __call__(self, sql: str, *rows: tuple[Any, ...]) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            if rows:
                connection.executemany(sql, rows)
            else:
                connection.executescript(sql)

    def props(self, **settings: object) -> dict[str, str]:
        given = {name.replace("__", "."): str(value) for name, value in settings.items()}
        return {
            "connection.url": f"jdbc:sqlite:{self.file}",
            "topic.prefix": "shop-",
            "mode": "incrementing",
            "poll.interval.ms": "0",
            **given,
        }

    def tasks(self, most: int = 1, **settings: object) -> list[Mapping[str, str]]:
        config = JDBC_SOURCE.parse(self.props(**settings))
        return list(JdbcSource().plan_tasks(config, most))

    def open(
        self, props: Mapping[str, str], stored: Offsets = (), range_bytes: int = MOST
    ) -> JdbcReader:
        reader = JdbcReader(
            JDBC_SOURCE.parse(props),
            SourceContextStub(stored),
            clock=lambda: self.now,
            range_bytes=range_bytes,
        )
        self.opened.append(reader)
        return reader

    def reader(
        self, stored: Offsets = (), range_bytes: int = MOST, **settings: object
    ) -> JdbcReader:
        (task,) = self.tasks(**settings)
        return self.open(task, stored, range_bytes)


def polls(reader: JdbcReader, max_bytes: int = MOST) -> Iterator[Polled]:
    """Polls until nothing is left."""
    for _ in range(1000):
        polled = reader.poll(max_bytes, 0)
        if polled is None:
            return
        yield polled
    pytest.fail("there is always more")


def poll(reader: JdbcReader, max_bytes: int = MOST) -> Polled:
    polled = reader.poll(max_bytes, 0)
    assert polled is not None
    return polled


def rows_of(polled: Polled) -> list[Value]:
    assert not polled.parts
    return polled.records.values.values


def part_rows(reader: JdbcReader, part: str) -> list[Value]:
    return [value for records in reader.read(part) for value in records.values.values]


def read_all(reader: JdbcReader, max_bytes: int = MOST) -> tuple[list[Value], list[SourceOffset]]:
    """All rows, and the offsets that are stored after reading them."""
    found: list[Value] = []
    stored: list[SourceOffset] = []
    for polled in polls(reader, max_bytes):
        found += rows_of(polled)
        moved = [each.partition for each in polled.offsets]
        stored = [each for each in stored if each.partition not in moved] + list(polled.offsets)
    return found, stored


def ids(rows: list[Value]) -> list[int]:
    return [row["id"] for row in rows]


def notes(shop: Shop, stamps: list[str | None]) -> None:
    shop("CREATE TABLE notes (id INTEGER PRIMARY KEY, changed TIMESTAMP)")
    shop("INSERT INTO notes (changed) VALUES (?)", *[(stamp,) for stamp in stamps])
