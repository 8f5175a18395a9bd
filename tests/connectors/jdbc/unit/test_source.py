"""The JDBC source: what every source promises, tables and tasks, what is refused."""

from __future__ import annotations

import itertools
import logging
import sqlite3
from contextlib import closing
from datetime import timedelta

import orjson
import pytest

from penstock.api import SourceOffset
from penstock.connectors.jdbc.read.offsets import TableId
from penstock.connectors.jdbc.read.tables import selected
from penstock.connectors.jdbc.settings.source import JDBC_SOURCE
from penstock.connectors.jdbc.source import JdbcSource
from penstock.errors import ConfigInvalid, DataError, PenstockError
from penstock.testing.conformance import SourceConformance

from .shop import FIRST, MOST, Shop, ids, notes, part_rows, poll, read_all


class OfTable(SourceConformance):
    resumes_within_polls = True
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
    resumes_within_polls = False

    def config(self) -> dict[str, str]:
        split = {"penstock.table.parts": "3", "penstock.table.part.keys": "8"}
        return {**super().config(), **split, "penstock.read.parallelism": "2"}

    # The parts of a table are unordered.
    test_small_polls_read_the_same_as_large_ones = None  # type: ignore[assignment]
    test_the_next_reader_continues_exactly_after_the_stored_offsets = None  # type: ignore[assignment]
    test_records_whose_offsets_were_not_stored_are_read_again = None  # type: ignore[assignment]


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


@pytest.mark.parametrize(
    ("sql", "settings", "reported"),
    [
        ("(id TEXT)", {}, "name the column to use in 'incrementing.column.name'"),
        ("(id INT)", {"incrementing__column__name": "no"}, "no column 'no'"),
        ("(id INT)", {"incrementing__column__name": "id"}, "validate.non.null"),
        ("(id TEXT NOT NULL)", {"incrementing__column__name": "id"}, "not an integer column"),
        (
            "(id INT NOT NULL)",
            {"mode": "timestamp", "timestamp__column__name": "id"},
            "not a timestamp column",
        ),
        (
            "(at TIMESTAMP NOT NULL)",
            {"mode": "timestamp", "timestamp__columns__mapping": "x:[at]"},
            "matches 0 of the expressions in 'timestamp.columns.mapping'",
        ),
    ],
)
def test_a_table_that_cannot_be_read_so_is_refused(
    shop: Shop, sql: str, settings: dict[str, object], reported: str
) -> None:
    shop(f"CREATE TABLE t {sql}")
    with pytest.raises(PenstockError) as refused:
        shop.reader(**settings).poll(MOST, 0)
    assert reported in str(refused.value)
    assert "'t'" in str(refused.value)


def test_a_value_that_does_not_fit_names_table_and_column(shop: Shop) -> None:
    shop("CREATE TABLE t (id INTEGER PRIMARY KEY, day DATE)")
    shop("INSERT INTO t VALUES (?, ?)", (1, "soon"))
    reader = shop.reader()
    with pytest.raises(DataError, match=r"Table 't': Column 'day' \(DATE\) contains 'soon'"):
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
