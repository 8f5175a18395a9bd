"""How the JDBC source reads ranges in polls and pieces."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from penstock.api import SourceOffset
from penstock.connectors.jdbc.drivers.errors import DatabaseAway
from penstock.connectors.jdbc.read.reader import RangeInterrupted
from penstock.connectors.jdbc.read.reading import Blocks
from penstock.connectors.jdbc.read.sqlite import SqliteReading

from .shop import FIRST, MOST, Shop, ids, notes, part_rows, poll, polls, read_all, rows_of


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


BY_TIME: Mapping[str, object] = {
    "mode": "timestamp",
    "timestamp__column__name": "changed",
    "validate__non__null": False,
}
BY_BOTH: Mapping[str, object] = {**BY_TIME, "mode": "timestamp+incrementing"}


class Statements:
    """The statements that read ranges, and the block that is to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run: list[str] = []
        self.fail_at: int | None = None  # the block that fails
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
    # SQLite compares milliseconds, so pairs of rows have equal times despite microseconds.
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


def test_after_a_lost_connection_a_bulk_poll_begins_again(
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
    shop("PRAGMA journal_mode = DELETE")  # readers block writers
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
