"""The rows that tables are filled with, and what a table contains in the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.databases import Postgresql, check_table, rows_of, write_csv
from benchmarks.inputs import SCHEMAS, WrongOutcome, generated
from penstock.connectors.jdbc.drivers.connection import Connection
from penstock.connectors.jdbc.drivers.database import Database
from penstock.connectors.jdbc.drivers.url import parse

RECORDS = 2_500


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    database = Database(parse(f"jdbc:sqlite:{tmp_path / 'bench.db'}"))
    with contextlib.closing(database.connect()) as made:
        Postgresql().create(made, "rows", "PRIMARY KEY")  # SQLite accepts any type name
        yield made


def fill(connection: Connection) -> None:
    rows = [row for block in rows_of(RECORDS) for row in block]
    with connection.transaction():
        connection.many("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", rows)


def test_the_rows_are_those_of_the_records() -> None:
    payloads = [json.loads(v)["payload"] for b in generated(SCHEMAS.value, 50) for v in b]
    assert [row for block in rows_of(50) for row in block] == [
        tuple(each.values()) for each in payloads
    ]


def test_the_file_has_a_line_for_every_row(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", 3)
    assert (tmp_path / "rows.csv").read_text().splitlines() == [
        "0,user-0,Graz,0.5,0",
        "1,user-1,Zürich,1.5,1",
        "2,user-2,Łódź,2.5,0",
    ]


def test_a_table_with_every_row_passes(connection: Connection) -> None:
    fill(connection)
    check_table(connection, "rows", RECORDS)


@pytest.mark.parametrize(
    "spoil",
    [
        "DELETE FROM rows WHERE id = 7",
        "UPDATE rows SET id = 9999 WHERE id = 7",
        "UPDATE rows SET score = score + 1 WHERE id = 7",
        "UPDATE rows SET active = 1 WHERE id = 8",
        "UPDATE rows SET city = NULL WHERE id = 7",
        "UPDATE rows SET name = 'other' WHERE id = 7",
    ],
)
def test_a_table_with_other_rows_does_not(connection: Connection, spoil: str) -> None:
    fill(connection)
    connection.execute(spoil)
    with pytest.raises(WrongOutcome, match="'rows' should hold"):
        check_table(connection, "rows", RECORDS)
