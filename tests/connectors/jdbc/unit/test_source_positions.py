"""Where the JDBC source resumes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, time, timedelta

import pytest

from penstock.api import SourceOffset
from penstock.testing.waiting import wait_until

from .shop import FIRST, MOST, Shop, ids, notes, part_rows, poll, polls, read_all, rows_of


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
def test_positions_of_the_jvm_connector_are_continued(
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


@pytest.mark.parametrize(
    ("mode", "reached"),
    [
        # Of rows with one timestamp, none is skipped: they are read again.
        ("timestamp", [None, 2, 2, 2, 5]),
        ("timestamp+incrementing", [1, 2, 3, 4, 5]),
        ("incrementing", [1, 2, 3, 4, 5]),
        ("bulk", [None, None, None, None, None]),
    ],
)
def test_offsets_within_a_poll_skip_no_row(
    shop: Shop, mode: str, reached: list[int | None]
) -> None:
    second = timedelta(seconds=1)
    notes(shop, [str(FIRST)] * 2 + [str(FIRST + second)] * 3 + [str(FIRST + 2 * second)])
    settings: dict[str, object] = {"mode": mode, "validate__non__null": False}
    if "timestamp" in mode:
        settings["timestamp__column__name"] = "changed"
    polled = poll(shop.reader(**settings))
    assert polled.offsets_before is not None
    assert len(polled.records) == 6
    for count, expected in enumerate(reached, 1):
        offsets = polled.offsets_before(count)
        if expected is None:
            assert offsets == ()
            continue
        rest, _ = read_all(shop.reader(offsets, **settings))
        assert ids(rest) == list(range(expected + 1, 7)), count


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
    # A late commit between the last row read and the delay is read in its turn.
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


def test_reading_may_begin_now_and_readers_elsewhere_are_reported(shop: Shop) -> None:
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


def test_of_a_clock_in_whole_seconds_the_running_one_is_left_for_later(shop: Shop) -> None:
    notes(shop, [])
    settings = {"mode": "timestamp", "timestamp__column__name": "changed"}
    reader = shop.reader(**settings, validate__non__null=False)
    found: list[int] = []

    def write_read_write() -> bool:
        """False if the second was over meanwhile, so that nothing was tested."""
        found.clear()
        shop("DELETE FROM notes; INSERT INTO notes (changed) VALUES (CURRENT_TIMESTAMP)")
        with closing(sqlite3.connect(shop.file)) as connection:
            found.extend(ids(read_all(reader)[0]))
            ((same,),) = connection.execute("SELECT changed = CURRENT_TIMESTAMP FROM notes")
        shop("INSERT INTO notes (changed) SELECT changed FROM notes")
        return bool(same)

    wait_until(write_read_write, 30, "a write and a read within a second")

    def both() -> bool:
        found.extend(ids(read_all(reader)[0]))
        return len(found) == 2

    wait_until(both, 10, "both rows")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Europe/Berlin"])
def test_moments_in_milliseconds_are_instants_in_any_zone(shop: Shop, zone: str) -> None:
    shop("CREATE TABLE notes (id INTEGER PRIMARY KEY, changed TIMESTAMP, at TIME)")
    start_ms = 1_704_110_400_123
    shop("INSERT INTO notes VALUES (?, ?, ?)", (1, start_ms, 3_600_000), (2, start_ms + 1, None))
    settings = {
        "mode": "timestamp",
        "timestamp__column__name": "changed",
        "validate__non__null": False,
        "db__timezone": zone,
    }
    reader = shop.reader(**settings)
    found, stored = read_all(reader)
    moment = datetime(2024, 1, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    assert [row["changed"] for row in found] == [moment, moment + timedelta(milliseconds=1)]
    assert found[0]["at"] == time(1)
    assert stored[0].offset is not None
    assert stored[0].offset["timestamp"] == start_ms + 1
    shop("INSERT INTO notes VALUES (3, ?, NULL)", (start_ms + 2,))
    assert ids(read_all(shop.reader(stored, **settings))[0]) == [3]


def test_a_moment_that_is_a_real_number_is_a_julian_day(shop: Shop) -> None:
    shop("CREATE TABLE notes (id INTEGER PRIMARY KEY, changed TIMESTAMP)")
    shop("INSERT INTO notes (changed) VALUES (2460311.25)")
    (row,), _ = read_all(shop.reader())
    assert row["changed"] == datetime(2024, 1, 1, 18, tzinfo=UTC)


def test_a_timestamp_column_without_a_time_is_warned_about_where_rows_may_be_missed(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop("CREATE TABLE notes (id INTEGER PRIMARY KEY, day DATE NOT NULL)")
    shop("INSERT INTO notes VALUES (1, '2024-01-01')")
    for mode, warnings in (("timestamp+incrementing", 0), ("timestamp", 1)):
        caplog.clear()
        read_all(shop.reader(mode=mode, timestamp__column__name="day"))
        assert caplog.text.count("column 'day' has no time") == warnings
