"""Write times of records in a partition of a topic."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.api import TopicPartition
from penstock.connectors.cassandra.write.times import Clock, RecordTimes

PLACE = TopicPartition("t", 0)
STEPS = st.lists(st.tuples(st.integers(1, 700), st.integers(-3_000, 3_000)), min_size=1)


def records_of(first: int, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets and timestamps; a timestamp is at most nine seconds before the latest one."""
    offset, latest, records = first, 1_700_000_000_000, []
    for more, ms in steps:
        offset += more
        timestamp = max(latest + ms, latest - 9_000)
        latest = max(latest, timestamp)
        records.append((offset, timestamp))
    return records


def times_of(times: RecordTimes, records: list[tuple[int, int]]) -> list[int | None]:
    times.begin()
    return [times.of(PLACE, offset, timestamp) for offset, timestamp in records]


@given(st.integers(0, 5_000), STEPS, st.integers(1, 9))
def test_a_later_record_has_a_later_time(
    first: int, steps: list[tuple[int, int]], size: int
) -> None:
    times, records = RecordTimes(), records_of(first, steps)
    written = [
        us
        for start in range(0, len(records), size)
        for us in times_of(times, records[start : start + size])
    ]
    assert None not in written
    assert all(earlier < later for earlier, later in pairwise(written))  # type: ignore[operator]
    for (_, timestamp), us in zip(records, written, strict=True):
        assert us is not None
        assert us >= timestamp * 1_000


@given(st.integers(0, 5_000), STEPS, st.integers(1, 9))
def test_a_batch_that_is_repeated_has_the_same_times(
    first: int, steps: list[tuple[int, int]], size: int
) -> None:
    times, records = RecordTimes(), records_of(first, steps)
    for start in range(0, len(records), size):
        batch = records[start : start + size]
        assert times_of(times, batch) == times_of(times, batch)


def test_a_record_that_is_much_older_keeps_its_own_time() -> None:
    times = RecordTimes()
    assert times_of(times, [(5, 1_700_000_020_000), (6, 1_700_000_000_000)]) == [
        1_700_000_020_000_005,
        1_700_000_000_000_006,
    ]


def test_records_of_one_millisecond_follow_each_other_across_a_thousand() -> None:
    assert times_of(RecordTimes(), [(999, 7), (1_000, 7), (1_001, 8)]) == [7_999, 8_000, 8_001]


def test_without_a_timestamp_there_is_no_time() -> None:
    assert times_of(RecordTimes(), [(1, -1)]) == [None]


def test_the_clock_never_says_the_same_twice() -> None:
    present = iter([5, 5, 3, 9])
    clock = Clock(lambda: next(present))
    assert [clock.next() for _ in range(4)] == [5, 6, 7, 9]
