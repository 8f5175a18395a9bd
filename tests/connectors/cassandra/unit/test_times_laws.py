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


@given(
    st.integers(0, 5_000),
    st.lists(st.integers(0, 3), min_size=2, max_size=60),
    st.integers(1, 9),
    st.data(),
)
def test_a_task_that_resumes_at_a_committed_offset_writes_with_the_same_times(
    first: int, steps: list[int], size: int, data: st.DataObject
) -> None:
    at_ms = 1_700_000_000_000
    records = [(first + row, at_ms + sum(steps[:row]) // 5) for row in range(len(steps))]
    written = times_of(RecordTimes(), records)
    done = data.draw(st.integers(1, len(records)))
    times = RecordTimes()
    for start in range(0, done, size):
        times_of(times, records[start : min(start + size, done)])
    committed = times.resumable({PLACE: first + done})[PLACE]
    assert first <= committed <= first + done
    rest = committed - first
    assert times_of(RecordTimes(), records[rest:]) == written[rest:]


def test_the_last_offset_is_committed_if_no_record_follows() -> None:
    times = RecordTimes()
    times_of(times, [(998, 7), (999, 7)])
    assert times.resumable({PLACE: 1_000}) == {PLACE: 999}
    assert times.resumable({PLACE: 1_000}) == {PLACE: 1_000}


def test_no_offset_within_an_unwritten_batch_is_committed_unless_a_task_may_resume_there() -> None:
    times = RecordTimes()
    times_of(times, [(5, 7), (6, 7)])
    assert times.resumable({PLACE: 5}) == {}


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
