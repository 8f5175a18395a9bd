"""Tables of SQLite files as records."""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from penstock.api import Offsets, Polled, SourceOffset
from penstock.connectors.jdbc.drivers.errors import DatabaseAway
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.reader import JdbcReader, RangeInterrupted
from penstock.connectors.jdbc.read.reading import Blocks
from penstock.connectors.jdbc.read.sqlite import SqliteReading
from penstock.connectors.jdbc.read.tables import selected
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.source import JdbcSource
from penstock.data import schema as s
from penstock.data.schema import Value
from penstock.errors import ConfigInvalid, DataError, PenstockError
from penstock.testing.conformance import SourceConformance
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


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop.db")
    yield shop
    for reader in shop.opened:
        reader.close()


def polls(reader: JdbcReader, max_bytes: int = MOST) -> Iterator[Polled]:
    """Polls until there is nothing more."""
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
    """All rows there are, and what is stored then of what was read."""
    found: list[Value] = []
    stored: list[SourceOffset] = []
    for polled in polls(reader, max_bytes):
        found += rows_of(polled)
        moved = [each.partition for each in polled.offsets]
        stored = [each for each in stored if each.partition not in moved] + list(polled.offsets)
    return found, stored


def ids(rows: list[Value]) -> list[int]:
    return [row["id"] for row in rows]


# ── what every source promises ───────────────────────────────────────────────────────────────────


class OfTable(SourceConformance):
    connector = JdbcSource
    mode = "incrementing"
    bad_configs = (
        ({"mode": None}, "mode"),
        ({"mode": "sometimes"}, "mode"),
        ({"topic.prefix": None}, "topic.prefix"),
        ({"connection.url": "sqlite:x"}, "connection.url"),
        ({"table.whitelist": "a", "query": "SELECT 1"}, "query"),
    )

    def config(self) -> dict[str, str]:
        shop = Shop(self.folder / "shop.db")
        shop(
            "CREATE TABLE IF NOT EXISTS notes "
            "(id INTEGER PRIMARY KEY, text TEXT NOT NULL, changed TIMESTAMP NOT NULL)"
        )
        more = {"timestamp.column.name": "changed"} if self.mode != "incrementing" else {}
        return {**shop.props(mode=self.mode), **more}

    def add(self, numbers: range) -> None:
        self.config()
        with closing(sqlite3.connect(self.folder / "shop.db")) as connection, connection:
            connection.executemany(
                "INSERT INTO notes VALUES (?, ?, ?)",
                [
                    (number + 1, f"note {number:06} {'x' * 50}", self.stamp(number))
                    for number in numbers
                ],
            )

    def stamp(self, number: int) -> str:
        return str(FIRST + timedelta(milliseconds=number))


class TestIncrementing(OfTable):
    pass


class TestTimestamp(OfTable):
    mode = "timestamp"


class TestTimestampIncrementing(OfTable):
    mode = "timestamp+incrementing"

    def stamp(self, number: int) -> str:
        return str(FIRST + timedelta(seconds=number // 7))  # seven of each


class TestQuery(OfTable):
    bad_configs = ()

    def config(self) -> dict[str, str]:
        query = "SELECT id, text FROM notes WHERE text LIKE 'note%'"
        return {**super().config(), "query": query, "incrementing.column.name": "id"}


class TestParts(OfTable):
    def config(self) -> dict[str, str]:
        split = {"penstock.table.parts": "3", "penstock.table.part.keys": "8"}
        return {**super().config(), **split, "penstock.read.parallelism": "2"}

    # The parts of a table have no order among them.
    test_small_polls_read_the_same_as_large_ones = None  # type: ignore[assignment]
    test_another_reader_goes_on_exactly_after_the_stored_offsets = None  # type: ignore[assignment]
    test_what_was_read_but_not_stored_is_read_again_also_when_there_is_more = None  # type: ignore[assignment]


# ── positions ────────────────────────────────────────────────────────────────────────────────────


def notes(shop: Shop, stamps: list[str | None]) -> None:
    shop("CREATE TABLE notes (id INTEGER PRIMARY KEY, changed TIMESTAMP)")
    shop("INSERT INTO notes (changed) VALUES (?)", *[(stamp,) for stamp in stamps])


def test_positions_are_stored_as_the_jvms_connector_does(shop: Shop) -> None:
    notes(shop, ["2024-01-01 12:00:00.250"])
    at_ms = int(FIRST.replace(tzinfo=UTC).timestamp() * 1000) + 250
    cases = {
        "incrementing": {"incrementing": 1},
        "timestamp": {"timestamp": at_ms, "timestamp_nanos": 250_000_000},
        "timestamp+incrementing": {
            "incrementing": 1,
            "timestamp": at_ms,
            "timestamp_nanos": 250_000_000,
        },
    }
    for mode, offset in cases.items():
        reader = shop.reader(
            mode=mode, timestamp__column__name="changed", validate__non__null=False
        )
        assert poll(reader).offsets == [SourceOffset({"protocol": "1", "table": "notes"}, offset)]


@pytest.mark.parametrize(
    "partition", [{"protocol": "1", "table": "notes"}, {"table": "notes"}], ids=["1", "before 1"]
)
def test_what_the_jvms_connector_stored_is_gone_on_from(
    shop: Shop, partition: dict[str, str]
) -> None:
    notes(shop, ["2024-01-01 12:00:00"] * 5)
    stored = [
        SourceOffset({"table": "others"}, {"incrementing": 9}),
        SourceOffset(partition, {"incrementing": 3}),
    ]
    rows, end = read_all(shop.reader(stored))
    assert ids(rows) == [4, 5]
    assert end == [SourceOffset(partition, {"incrementing": 5})]


def test_an_old_timestamp_without_nanoseconds_is_gone_on_from(shop: Shop) -> None:
    notes(shop, ["2024-01-01 12:00:00", "2024-01-01 12:00:01"])
    stored = [
        SourceOffset(
            {"table": "notes"}, {"timestamp": int(FIRST.replace(tzinfo=UTC).timestamp()) * 1000}
        )
    ]
    reader = shop.reader(
        stored, mode="timestamp", timestamp__column__name="changed", validate__non__null=False
    )
    assert ids(read_all(reader)[0]) == [2]


@pytest.mark.parametrize("max_bytes", [1, 100, MOST])
@pytest.mark.parametrize("range_bytes", [1, 100, MOST])
@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_rows_of_equal_timestamps_are_neither_lost_nor_repeated(
    shop: Shop, mode: str, range_bytes: int, max_bytes: int
) -> None:
    stamps: list[str | None] = [str(FIRST + timedelta(seconds=at // 9)) for at in range(60)]
    notes(shop, stamps)
    settings: dict[str, object] = {
        "mode": mode,
        "timestamp__column__name": "changed",
        "validate__non__null": False,
    }
    reader = shop.reader((), range_bytes, **settings)
    rows, end = read_all(reader, max_bytes)
    assert sorted(ids(rows)) == list(range(1, 61))
    assert read_all(reader, max_bytes) == ([], [])
    assert read_all(shop.reader(end, range_bytes, **settings), max_bytes) == ([], [])


def test_by_timestamp_alone_a_range_ends_with_all_rows_of_its_last_one(shop: Shop) -> None:
    notes(shop, [str(FIRST)] * 10 + [str(FIRST + timedelta(seconds=1))] * 2)
    reader = shop.reader(
        range_bytes=1,
        mode="timestamp",
        timestamp__column__name="changed",
        validate__non__null=False,
    )
    assert [len(polled.records) for polled in polls(reader)] == [10, 2]


def test_rows_younger_than_the_delay_are_left_for_later(shop: Shop) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    old, young = now - timedelta(hours=2), now - timedelta(minutes=5)
    notes(shop, [str(old), str(young)])
    settings: dict[str, object] = {
        "mode": "timestamp",
        "timestamp__column__name": "changed",
        "validate__non__null": False,
    }
    hour = shop.reader(**settings, timestamp__delay__interval__ms=3_600_000)
    rows, end = read_all(hour)
    assert ids(rows) == [1]
    # Committed late, between what was read and the delay: it is read in its turn.
    shop("INSERT INTO notes (changed) VALUES (?)", (str(old + timedelta(minutes=50)),))
    rows, end = read_all(hour)
    assert ids(rows) == [3]
    assert ids(read_all(shop.reader(end, **settings))[0]) == [2]


def test_a_changed_row_is_read_again(shop: Shop) -> None:
    notes(shop, [str(FIRST), str(FIRST)])
    reader = shop.reader(
        mode="timestamp+incrementing", timestamp__column__name="changed", validate__non__null=False
    )
    read_all(reader)
    shop("UPDATE notes SET changed = '2024-01-02 00:00:00' WHERE id = 1")
    assert ids(read_all(reader)[0]) == [1]


def test_the_first_timestamp_that_is_not_null_counts(shop: Shop) -> None:
    shop("CREATE TABLE notes (id INTEGER PRIMARY KEY, changed TIMESTAMP, made TIMESTAMP NOT NULL)")
    shop(
        "INSERT INTO notes (changed, made) VALUES (?, ?)",
        (None, "2024-01-01 00:00:00"),
        ("2024-01-03 00:00:00", "2024-01-01 00:00:00"),
        (None, "2024-01-02 00:00:00"),
    )
    reader = shop.reader(mode="timestamp", timestamp__column__name="changed,made")
    assert ids(read_all(reader)[0]) == [1, 3, 2]


def test_reading_may_begin_with_a_moment(shop: Shop) -> None:
    notes(shop, [str(FIRST), str(FIRST + timedelta(seconds=5))])
    settings: dict[str, object] = {
        "mode": "timestamp",
        "timestamp__column__name": "changed",
        "validate__non__null": False,
    }
    begin = int(FIRST.replace(tzinfo=UTC).timestamp() * 1000)
    assert ids(read_all(shop.reader(**settings, timestamp__initial=begin))[0]) == [2]
    assert ids(read_all(shop.reader(**settings, timestamp__initial__ms=begin))[0]) == [2]


def test_reading_may_begin_now_and_readers_elsewhere_are_told(shop: Shop) -> None:
    notes(shop, ["2023-01-01 00:00:00"])
    settings: dict[str, object] = {
        "mode": "timestamp",
        "timestamp__column__name": "changed",
        "validate__non__null": False,
        "timestamp__initial": -1,
    }
    alone = shop.reader(**settings)
    planner = shop.reader(**settings, penstock__read__parallelism=2)
    assert alone.poll(MOST, 0) is None
    assert planner.poll(MOST, 0) is None
    shop("INSERT INTO notes (changed) VALUES (?)", (str(datetime(2024, 6, 1)),))  # noqa: DTZ001
    (part,) = poll(planner).parts
    shop.now += 10_000_000
    assert ids(part_rows(shop.reader(**settings), part)) == [2]
    assert ids(rows_of(poll(alone))) == [2]


def test_moments_in_the_zone_of_the_database(shop: Shop) -> None:
    notes(shop, ["2024-07-01 12:00:00"])
    settings: dict[str, object] = {
        "mode": "timestamp",
        "timestamp__column__name": "changed",
        "validate__non__null": False,
        "db__timezone": "America/New_York",
    }
    reader = shop.reader(**settings)
    ((row,), end) = read_all(reader)
    assert row["changed"] == datetime(2024, 7, 1, 16, tzinfo=UTC)
    assert end[0].offset is not None
    assert end[0].offset["timestamp"] == int(row["changed"].timestamp() * 1000)
    assert read_all(reader) == ([], [])
    assert read_all(shop.reader(end, **settings)) == ([], [])


# ── polls ────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_is_looked_at_again_after_the_poll_interval(shop: Shop) -> None:
    notes(shop, [None])
    reader = shop.reader(poll__interval__ms=5000)
    assert ids(rows_of(poll(reader))) == [1]
    shop("INSERT INTO notes (changed) VALUES (NULL)")
    assert reader.poll(MOST, 0) is None
    shop.now += 4.9
    assert reader.poll(MOST, 0) is None
    shop.now += 0.1
    assert ids(rows_of(poll(reader))) == [2]


def test_a_table_with_more_than_a_range_is_read_without_waiting(shop: Shop) -> None:
    notes(shop, [None] * 20)
    reader = shop.reader(range_bytes=100, poll__interval__ms=5000)
    assert len(read_all(reader)[0]) == 20


def test_in_bulk_everything_is_read_at_each_poll(shop: Shop) -> None:
    notes(shop, [None] * 3)
    reader = shop.reader(mode="bulk", poll__interval__ms=60_000)
    rows, end = read_all(reader)
    assert ids(rows) == [1, 2, 3]
    assert end == [SourceOffset({"protocol": "1", "table": "notes"}, {"polled": 1_700_000_000_000})]
    shop.now += 59.9
    assert read_all(reader) == ([], [])
    assert read_all(shop.reader(end, mode="bulk", poll__interval__ms=60_000)) == ([], [])
    shop.now += 0.1
    assert ids(read_all(reader)[0]) == [1, 2, 3]


def test_a_bulk_poll_may_be_read_side_by_side(shop: Shop) -> None:
    notes(shop, [None] * 50)
    reader = shop.reader(mode="bulk", poll__interval__ms=60_000, penstock__read__parallelism=4)
    polled = poll(reader)
    assert len(polled.records) == 0
    assert polled.offsets == [
        SourceOffset({"protocol": "1", "table": "notes"}, {"polled": 1_700_000_000_000})
    ]
    assert len(polled.parts) == 4
    read = [ids(part_rows(reader, part)) for part in polled.parts]
    assert all(read)
    assert sorted(itertools.chain(*read)) == list(range(1, 51))


def test_no_table_starves_another(shop: Shop) -> None:
    for name in "abc":
        shop(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
        shop(f"INSERT INTO {name} VALUES (?)", *[(at,) for at in range(1, 41)])
    reader = shop.reader(range_bytes=100)
    seen: list[str] = []
    for polled in itertools.islice(polls(reader), 6):
        seen += dict.fromkeys(polled.records.topics)
    assert set(seen[:4]) == {"shop-a", "shop-b", "shop-c"}


# ── pieces of a range ────────────────────────────────────────────────────────────────────────────

BY_TIME: Mapping[str, object] = {
    "mode": "timestamp",
    "timestamp__column__name": "changed",
    "validate__non__null": False,
}
BY_BOTH: Mapping[str, object] = {**BY_TIME, "mode": "timestamp+incrementing"}


class Statements:
    """The statements that read ranges, and the failures that they are to have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run: list[str] = []
        self.fail_at: int | None = None  # the block that is not read
        original = SqliteReading.blocks

        def blocks(reading: SqliteReading, sql: str, columns: Any) -> Blocks:
            if " LIMIT 64" in sql:  # a sample
                yield from original(reading, sql, columns)
                return
            self.run.append(sql)
            for at, block in enumerate(original(reading, sql, columns)):
                if at == self.fail_at:
                    self.fail_at = None
                    raise DatabaseAway("unplugged")
                yield block

        monkeypatch.setattr(SqliteReading, "blocks", blocks)
        monkeypatch.setattr("penstock.connectors.jdbc.read.sqlite.BLOCK_ROWS", 10)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    return Statements(monkeypatch)


@pytest.mark.parametrize("settings", [{}, BY_TIME, BY_BOTH], ids=["number", "time", "both"])
def test_one_statement_gives_a_range_in_pieces_that_have_offsets(
    shop: Shop, statements: Statements, settings: dict[str, object]
) -> None:
    # SQLite compares milliseconds: pairs of rows are of one moment, whatever else they say.
    notes(shop, [str(FIRST + timedelta(microseconds=500 * at)) for at in range(1, 101)])
    given = list(polls(shop.reader(**settings), 200))
    assert len(statements.run) == 1
    assert len(given) > 5
    assert ids([row for polled in given for row in rows_of(polled)]) == list(range(1, 101))
    done = 0
    for polled in given:
        done += len(polled.records)
        assert polled.offsets
        rest = read_all(shop.reader(polled.offsets, **settings))[0]
        assert ids(rest) == list(range(done + 1, 101))


def test_pieces_are_about_as_large_as_is_asked_for(shop: Shop) -> None:
    shop("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
    shop("INSERT INTO t VALUES (?, ?)", *[(at, "x" * 1000) for at in range(20_000)])
    sizes = [len(polled.records) for polled in polls(shop.reader(), 1 << 20)]
    assert sum(sizes) == 20_000
    assert all(1000 <= size <= 1100 for size in sizes[:-1])


def test_small_rows_are_given_some_thousand_at_once(shop: Shop) -> None:
    shop("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    shop("INSERT INTO t VALUES (?)", *[(at,) for at in range(50_000)])
    sizes = [len(polled.records) for polled in polls(shop.reader())]
    assert sum(sizes) == 50_000
    assert max(sizes) < 20_000


def test_a_bulk_poll_has_an_offset_with_its_last_piece(shop: Shop, statements: Statements) -> None:
    notes(shop, [None] * 50)
    given = list(polls(shop.reader(mode="bulk", poll__interval__ms=60_000), 100))
    assert len(statements.run) == 1
    assert len(given) > 3
    assert ids([row for polled in given for row in rows_of(polled)]) == list(range(1, 51))
    *others, last = given
    assert [list(polled.offsets) for polled in others] == [[]] * len(others)
    assert last.offsets == [
        SourceOffset({"protocol": "1", "table": "notes"}, {"polled": 1_700_000_000_000})
    ]


def test_rows_of_one_timestamp_have_an_offset_with_the_last_of_them(shop: Shop) -> None:
    notes(shop, [str(FIRST)] * 40 + [str(FIRST + timedelta(seconds=1))] * 30)
    given = list(polls(shop.reader(**BY_TIME), 200))
    done, seen = 0, []
    for polled in given:
        done += len(polled.records)
        seen += [done] if polled.offsets else []
    assert seen == [40, 70]
    assert len(given) > 3


@pytest.mark.parametrize("settings", [{}, BY_TIME, BY_BOTH], ids=["number", "time", "both"])
@pytest.mark.parametrize("block", [0, 1, 3, 9])
def test_after_a_lost_connection_the_same_rows_come_again_and_no_others(
    shop: Shop, statements: Statements, settings: dict[str, object], block: int
) -> None:
    notes(shop, [str(FIRST + timedelta(seconds=at)) for at in range(100)])
    statements.fail_at = block
    reader = shop.reader(**settings, poll__interval__ms=60_000)
    seen: list[int] = []
    failures = 0
    while len(seen) < 100:
        try:
            polled = poll(reader, 100)
        except DatabaseAway:
            failures += 1
        else:
            seen += ids(rows_of(polled))
    assert failures == (1 if block else 0), "a connection that was kept may be lost"
    assert seen == list(range(1, 101))
    assert reader.poll(MOST, 0) is None


def test_after_a_lost_connection_a_bulk_poll_begins_anew(
    shop: Shop, statements: Statements
) -> None:
    notes(shop, [None] * 50)
    statements.fail_at = 3
    reader = shop.reader(mode="bulk", poll__interval__ms=60_000)
    assert ids(rows_of(poll(reader, 100)))[0] == 1
    with pytest.raises(DatabaseAway):
        list(polls(reader, 100))
    assert ids(read_all(reader, 100)[0]) == list(range(1, 51))


def test_a_connection_that_is_lost_between_rows_of_one_timestamp_fails_the_task(
    shop: Shop, statements: Statements
) -> None:
    notes(shop, [str(FIRST)] * 50)
    statements.fail_at = 3
    reader = shop.reader(**BY_TIME)
    assert not poll(reader, 100).offsets
    with pytest.raises(RangeInterrupted, match=r"Table 'notes'.*unplugged") as failed:
        list(polls(reader, 100))
    assert not failed.value.retriable, "the rows would be in the same transaction twice"
    assert isinstance(failed.value.__cause__, DatabaseAway)
    assert ids(read_all(shop.reader(**BY_TIME))[0]) == list(range(1, 51))


@pytest.mark.parametrize("mode", ["incrementing", "bulk"])
def test_nothing_is_locked_when_the_last_piece_is_given_or_the_reader_closed(
    shop: Shop, statements: Statements, mode: str
) -> None:
    shop("PRAGMA journal_mode = DELETE")  # whoever reads keeps others from writing
    notes(shop, [None] * 50)

    def is_locked() -> bool:
        with closing(sqlite3.connect(shop.file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                return True
            return False

    reader = shop.reader(mode=mode, poll__interval__ms=60_000)
    left = 50
    while left:
        left -= len(poll(reader, 100).records)
        assert is_locked() == (left > 10)  # a block is read ahead
    reader = shop.reader(mode=mode)
    poll(reader, 100)
    assert is_locked()
    reader.close()
    assert not is_locked()


def test_parts_of_several_tables_may_be_read_side_by_side(shop: Shop) -> None:
    for name in "ab":
        shop(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
        shop(f"INSERT INTO {name} VALUES (?)", *[(at,) for at in range(1, 41)])
    polled = poll(shop.reader(penstock__read__parallelism=2))
    assert [each.partition["table"] for each in polled.offsets] == ["a", "b"]
    read = [ids(part_rows(shop.reader(), part)) for part in polled.parts]
    assert len(read) == 4
    assert read[0] + read[1] == read[2] + read[3] == list(range(1, 41))


# ── tables and tasks ─────────────────────────────────────────────────────────────────────────────


def test_tables_go_to_tasks_as_neighbours(shop: Shop) -> None:
    for name in "abcde":
        shop(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
    planned = [[cell[2] for cell in orjson.loads(t["tables"])] for t in shop.tasks(2)]
    assert planned == [["a", "b", "c"], ["d", "e"]]
    assert len(shop.tasks(9)) == 5


def test_a_new_table_is_part_of_the_next_plan(shop: Shop) -> None:
    shop("CREATE TABLE a (id INTEGER PRIMARY KEY)")
    before = shop.tasks(5)
    shop("CREATE TABLE b (id INTEGER PRIMARY KEY)")
    assert len(shop.tasks(5)) == len(before) + 1
    config = JDBC_SOURCE.parse(shop.props(table__poll__interval__ms=1234))
    assert JdbcSource().replan_ms(config) == 1234


def test_without_tables_there_are_no_tasks_yet(shop: Shop) -> None:
    assert shop.tasks(3) == []


ALL = [TableId("db", "app", "orders"), TableId("db", "app", "users"), TableId("db", "log", "users")]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["app.orders", "app.users", "log.users"]),
        ({"table__whitelist": "orders"}, ["app.orders"]),
        ({"table__whitelist": "log.users, db.app.orders"}, ["app.orders", "log.users"]),
        ({"table__blacklist": "users"}, ["app.orders"]),
        ({"table__include__list": "app\\..*"}, ["app.orders", "app.users"]),
        ({"table__include__list": "db\\..*", "table__exclude__list": ".*users"}, ["app.orders"]),
        ({"table__include__list": "user"}, []),
    ],
)
def test_tables_are_chosen(shop: Shop, settings: dict[str, object], names: list[str]) -> None:
    config = JDBC_SOURCE.parse(shop.props(**settings))
    assert [f"{each.schema}.{each.name}" for each in selected(config, ALL)] == names


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_a_table_in_parts_is_read_once_by_all_tasks_together(shop: Shop, parts: int) -> None:
    notes(shop, [None] * 100)
    settings: dict[str, object] = {
        "penstock__table__parts": parts,
        "penstock__table__part__keys": 7,
    }
    tasks = shop.tasks(parts, **settings)
    assert len(tasks) == parts
    read = [ids(read_all(shop.open(task))[0]) for task in tasks]
    assert sorted(itertools.chain(*read)) == list(range(1, 101))
    assert all(each == sorted(each) for each in read)


def test_the_number_of_parts_may_change_and_nothing_is_lost(shop: Shop) -> None:
    notes(shop, [None] * 50)
    reached: list[SourceOffset] = []
    seen: list[int] = []
    for count, more in ((1, 50), (3, 40), (2, 30), (1, 20)):
        settings: dict[str, object] = {
            "penstock__table__parts": count,
            "penstock__table__part__keys": 4,
        }
        for task in shop.tasks(count, **settings):
            rows, end = read_all(shop.open(task, reached))
            seen += ids(rows)
            changed = [dict(each.partition) for each in end]
            reached = [each for each in reached if dict(each.partition) not in changed]
            reached += end
        shop("INSERT INTO notes (changed) VALUES (?)", *[(None,)] * more)
    last = shop.open(shop.tasks()[0], reached)
    seen += ids(read_all(last)[0])
    assert set(seen) == set(range(1, 191))
    assert len(seen) - len(set(seen)) <= 2 * 4 * 3, "at most some turns of keys are read again"


def test_ranges_of_keys_are_read_side_by_side_where_it_is_wished(shop: Shop) -> None:
    notes(shop, [None] * 90)
    reader = shop.reader(penstock__read__parallelism=3)
    read = [ids(part_rows(shop.reader(), part)) for part in poll(reader).parts]
    assert [len(each) // 10 for each in read] == [2, 3, 3]
    assert list(itertools.chain(*read)) == list(range(1, 91))


# ── records ──────────────────────────────────────────────────────────────────────────────────────


def test_a_row_is_a_struct_named_after_its_table_without_a_key(shop: Shop) -> None:
    shop(
        "CREATE TABLE things (id INTEGER PRIMARY KEY, small SMALLINT NOT NULL, big BIGINT, "
        "price DECIMAL(10, 2), ratio REAL, weight DOUBLE, good BOOLEAN, name VARCHAR(20), "
        "raw BLOB, day DATE, at TIME, stamp TIMESTAMP)"
    )
    shop(
        "INSERT INTO things VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (1, 2, 1 << 40, "12.5", 0.5, 0.1, 1, "ä", b"\0\xff", "2024-02-29", "23:59:59.5", 1500),
        (2, -2, None, None, None, None, None, None, None, None, None, None),
    )
    reader = shop.reader()
    records = poll(reader).records
    assert records.topics == ["shop-things"] * 2
    assert records.keys.values == [None, None]
    assert records.timestamps == [None, None]
    assert records.values.values == [
        {
            "id": 1,
            "small": 2,
            "big": 1 << 40,
            "price": Decimal("12.50"),
            "ratio": 0.5,
            "weight": 0.1,
            "good": True,
            "name": "ä",
            "raw": b"\0\xff",
            "day": date(2024, 2, 29),
            "at": time(23, 59, 59, 500_000),
            "stamp": datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC),
        },
        {**dict.fromkeys(records.values.values[0]), "id": 2, "small": -2},
    ]
    ((schema, _, _),) = records.values.slices()
    assert schema == s.struct(
        {
            "id": s.INT32,
            "small": s.INT16,
            "big": s.OPTIONAL_INT64,
            "price": s.decimal(2, optional=True),
            "ratio": s.OPTIONAL_FLOAT32,
            "weight": s.OPTIONAL_FLOAT64,
            "good": s.OPTIONAL_BOOLEAN,
            "name": s.OPTIONAL_STRING,
            "raw": s.OPTIONAL_BYTES,
            "day": s.DATE.as_optional(),
            "at": s.TIME.as_optional(),
            "stamp": s.TIMESTAMP.as_optional(),
        },
        name="things",
    )


def test_an_integer_beyond_32_bits_widens_its_batch(shop: Shop) -> None:
    shop("CREATE TABLE n (id INTEGER PRIMARY KEY, v INTEGER)")
    shop("INSERT INTO n VALUES (?, ?)", (1, 7))
    reader = shop.reader()
    rows, _ = read_all(reader)
    shop("INSERT INTO n VALUES (?, ?)", (2, 1 << 40))
    ((schema, _, _),) = poll(reader).records.values.slices()
    assert schema is not None
    field = schema.field("v")
    assert field is not None
    assert field.schema == s.OPTIONAL_INT64
    assert rows == [{"id": 1, "v": 7}]


def test_rows_of_a_query_have_the_prefix_as_topic_and_no_name(shop: Shop) -> None:
    notes(shop, [None])
    reader = shop.reader(
        query="SELECT id, 'it''s 100%' AS text FROM notes;", incrementing__column__name="id"
    )
    polled = poll(reader)
    assert polled.offsets == [SourceOffset({"query": "query"}, {"incrementing": 1})]
    records = polled.records
    assert records.topics == ["shop-"]
    assert records.values.values == [{"id": 1, "text": "it's 100%"}]
    assert [each.schema and each.schema.name for each in records.values.runs] == [None]


def test_a_suffix_that_limits_loses_nothing(shop: Shop) -> None:
    notes(shop, [None] * 25)
    assert ids(read_all(shop.reader(query__suffix="LIMIT 10"))[0]) == list(range(1, 26))


def test_names_that_need_quotes(shop: Shop) -> None:
    shop('CREATE TABLE "my ""table""" ("the id" INTEGER PRIMARY KEY, "select" TEXT)')
    shop('INSERT INTO "my ""table""" VALUES (?, ?)', (1, "x"))
    assert read_all(shop.reader())[0] == [{"the id": 1, "select": "x"}]


def test_a_column_that_is_added_while_it_runs_is_in_the_next_rows(shop: Shop) -> None:
    notes(shop, [None])
    reader = shop.reader()
    read_all(reader)
    shop("ALTER TABLE notes ADD COLUMN text TEXT; INSERT INTO notes (text) VALUES ('new')")
    rows, _ = read_all(reader)
    assert rows == [{"id": 2, "changed": None, "text": "new"}]


# ── what cannot be ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sql", "settings", "told"),
    [
        ("(id TEXT)", {}, "name the one to go by in 'incrementing.column.name'"),
        ("(id INT)", {"incrementing__column__name": "no"}, "no column 'no'"),
        ("(id INT)", {"incrementing__column__name": "id"}, "validate.non.null"),
        ("(id TEXT NOT NULL)", {"incrementing__column__name": "id"}, "no whole numbers"),
        (
            "(id INT NOT NULL)",
            {"mode": "timestamp", "timestamp__column__name": "id"},
            "holds no timestamps",
        ),
        (
            "(at TIMESTAMP NOT NULL)",
            {"mode": "timestamp", "timestamp__columns__mapping": "x:[at]"},
            "matches 0 of the expressions in 'timestamp.columns.mapping'",
        ),
    ],
)
def test_a_table_that_cannot_be_read_so_is_refused(
    shop: Shop, sql: str, settings: dict[str, object], told: str
) -> None:
    shop(f"CREATE TABLE t {sql}")
    with pytest.raises(PenstockError) as refused:
        shop.reader(**settings).poll(MOST, 0)
    assert told in str(refused.value)
    assert "'t'" in str(refused.value)


def test_a_value_that_does_not_fit_names_table_and_column(shop: Shop) -> None:
    shop("CREATE TABLE t (id INTEGER PRIMARY KEY, day DATE)")
    shop("INSERT INTO t VALUES (?, ?)", (1, "soon"))
    reader = shop.reader()
    with pytest.raises(DataError, match=r"Table 't': Column 'day' \(DATE\) holds 'soon'"):
        read_all(reader)


@pytest.mark.parametrize(
    "settings",
    [
        {"table__whitelist": "a", "table__blacklist": "b"},
        {"table__whitelist": "a", "table__include__list": "b"},
        {"table__exclude__list": "b"},
        {"table__types": "CHAIR"},
        {"mode": "timestamp"},
        {"timestamp__columns__mapping": "nothing"},
        {"query": "SELECT 1"},
        {"mode": "bulk", "penstock__table__parts": 2},
        {"db__timezone": "Mars"},
        {"numeric__mapping": "roughly"},
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    shop: Shop, settings: dict[str, object]
) -> None:
    with pytest.raises(ConfigInvalid):
        JDBC_SOURCE.parse(shop.props(**settings))


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"file": "x"}, {"incrementing": 1}),
        ({"table": "t"}, {"incrementing": "1"}),
        ({"table": "t"}, {"number": 1}),
        ({"table": "t"}, {"timestamp": 1, "timestamp_nanos": 1_000_000_000}),
    ],
)
def test_offsets_that_mean_nothing_are_refused(
    shop: Shop, partition: dict[str, str], offset: dict[str, int]
) -> None:
    config = JDBC_SOURCE.parse(shop.props())
    with pytest.raises(PenstockError):
        JdbcSource().alter_offsets(config, [SourceOffset(partition, offset)])


def test_the_password_is_in_no_message(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shop("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    stored = [SourceOffset({"table": "t"}, {"incrementing": "x"})]
    with pytest.raises(PenstockError) as refused:
        shop.reader(stored, connection__password="swordfish").poll(MOST, 0)
    assert "swordfish" not in str(refused.value) + caplog.text
