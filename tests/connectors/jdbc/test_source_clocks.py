"""A MariaDB server in another time zone than `db.timezone`, one whose clocks are set back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.servers.databases import DatabaseServer, MariaDbServer

from .tables import open_reader, polls, read, rows_of, run


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        with MariaDbServer() as server:
            yield server


@pytest.fixture
def table(unique: Callable[[str], str]) -> str:
    return unique("t").replace("-", "_")[:40]


@pytest.mark.parametrize("kind", ["DATETIME(6)", "TIMESTAMP(6)", "DATETIME", "TIMESTAMP"])
def test_a_row_is_read_when_it_is_as_old_as_the_delay(
    server: DatabaseServer, table: str, kind: str
) -> None:
    run(
        server,
        f"CREATE TABLE {table} (id INTEGER AUTO_INCREMENT PRIMARY KEY, "
        f"at {kind} NOT NULL DEFAULT CURRENT_TIMESTAMP({'6' if '6' in kind else ''}))",
        f"INSERT INTO {table} () VALUES ()",
        f"INSERT INTO {table} (at) SELECT at - INTERVAL 61 SECOND FROM {table}",
    )
    for zone in ("UTC", "Europe/Berlin", "America/New_York"):
        settings: dict[str, object] = {
            "mode": "timestamp",
            "timestamp__column__name": "at",
            "timestamp__delay__interval__ms": 60_000,
            "db__timezone": zone,
        }
        assert [row["id"] for row in read(open_reader(server, table, **settings))[0]] == [2]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_a_time_without_a_zone_is_that_of_the_setting_and_one_with_is_an_instant(
    server: DatabaseServer, table: str, zone: str
) -> None:
    run(
        server,
        f"CREATE TABLE {table} (id INTEGER, at DATETIME NOT NULL, instant TIMESTAMP NOT NULL)",
        f"INSERT INTO {table} VALUES (1, '2024-07-01 12:00:00', '2024-07-01 12:00:00')",
    )
    reader = open_reader(
        server,
        table,
        mode="timestamp+incrementing",
        incrementing__column__name="id",
        timestamp__column__name="instant",
        db__timezone=zone,
        validate__non__null=False,
    )
    ((row,), (stored,)) = read(reader)
    hours = {"UTC": 12, "Europe/Berlin": 10, "America/New_York": 16}[zone]
    assert row["at"] == datetime(2024, 7, 1, hours, tzinfo=UTC)
    assert row["instant"] == datetime(2024, 7, 1, 10, tzinfo=UTC)
    assert stored.offset is not None
    assert stored.offset["timestamp"] == row["instant"].timestamp() * 1000


def test_a_view_has_the_values_that_other_clients_see(server: DatabaseServer, table: str) -> None:
    run(
        server,
        f"CREATE TABLE {table}_t (id INTEGER, at TIMESTAMP NOT NULL)",
        f"INSERT INTO {table}_t VALUES (1, '2024-07-01 12:00:00')",
        f"CREATE VIEW {table} AS SELECT id, DATE_FORMAT(at, '%H:%i') AS shown, "
        f"TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW()) AS shift FROM {table}_t",
    )
    with server.connect() as connection:
        ((shown, shift),) = connection.rows(f"SELECT shown, shift FROM {table}")
    reader = open_reader(
        server, table, mode="bulk", table__types="VIEW", poll__interval__ms=3_600_000
    )
    assert read(reader)[0] == [{"id": 1, "shown": shown, "shift": shift}]
    assert shown == "12:00"


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("columns", ["at", "changed,at"])
def test_nothing_is_lost_or_repeated_in_the_hour_that_is_there_twice(
    server: DatabaseServer, table: str, mode: str, columns: str
) -> None:
    start = datetime(2024, 10, 26, 23, 0, tzinfo=UTC)
    instants = [start + timedelta(minutes=7 * (id // 2)) for id in range(80)]
    rows = ", ".join(f"({id}, NULL, '{at:%Y-%m-%d %H:%M:%S}')" for id, at in enumerate(instants))
    run(
        server,
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, changed TIMESTAMP NULL, "
        "at TIMESTAMP NOT NULL DEFAULT '2000-01-01', KEY (at))",
        "SET time_zone = '+00:00'",
        f"INSERT INTO {table} VALUES {rows}",
    )
    settings: dict[str, object] = {
        "mode": mode,
        "timestamp__column__name": columns,
        "incrementing__column__name": "id",
    }
    assert [row["at"] for row in read(open_reader(server, table, **settings))[0]] == instants
    reader = open_reader(server, table, range_bytes=200, **settings)
    done = 0
    for polled in polls(reader, 100):
        done += len(rows_of(reader, polled))
        if polled.offsets:
            rest = open_reader(server, table, polled.offsets, **settings)
            assert sorted(row["id"] for row in read(rest)[0]) == list(range(done, 80))
    assert done == 80
