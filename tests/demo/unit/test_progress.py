from dataclasses import replace
from typing import Any

import pytest

from penstock.demo.cluster import source_position
from penstock.demo.progress import (
    NOW_MS,
    SETTLED_MS,
    SILENT_MS,
    STALLED_MS,
    DemoProgress,
    Look,
    Pace,
    ShownInstance,
    instances_of,
)

RUNNING = tuple(
    ShownInstance(name, "RUNNING")
    for name in ("demo-source", "demo-source-0", "demo-sink", "demo-sink-0")
)
FAILED = (*RUNNING[:3], ShownInstance("demo-sink-0", "FAILED", "the trace"))


def after(*looks: tuple[int, Look], lines: int = 100) -> DemoProgress:
    progress = DemoProgress.start(lines, 1_000, 0)
    for now_ms, look in looks:
        progress = progress.seen(now_ms, look)
    return progress


def test_a_pace_counts_from_the_last_look_at_zero() -> None:
    pace = Pace()
    for now_ms, count in [(0, 0), (5_000, 0), (5_500, 100), (6_000, 300), (9_000, 300)]:
        pace = pace.seen(now_ms, count)
    assert pace.taken_ms == 1_000
    assert pace.average() == 300


def test_a_pace_that_was_never_seen_at_zero_has_no_rate_yet() -> None:
    pace = Pace().seen(1_000, 70)
    assert (pace.average(), pace.rate(1_000)) == (0, 0)


def test_a_sink_that_commits_everything_at_once_still_took_its_time() -> None:
    looks = [(0, Look()), (1_000, Look(50)), (2_000, Look(100)), (5_000, Look(100, 100))]
    progress = after(*looks)
    assert progress.into_topic.taken_ms == 2_000
    assert progress.out_of_topic.taken_ms == 5_000
    assert progress.out_of_topic.average() == 20


def test_the_rate_now_forgets_what_was_long_ago() -> None:
    pace = Pace()
    for now_ms in range(0, 3 * NOW_MS, 1_000):
        pace = pace.seen(now_ms, 10_000 if now_ms else 0)
    assert pace.average() == 10_000
    assert pace.rate(3 * NOW_MS) == 0
    assert len(pace.recent) <= NOW_MS // 1_000 + 1


def test_a_look_that_failed_takes_nothing_back() -> None:
    progress = after((100, Look(50, 40, 7, 300, RUNNING)), (200, Look()))
    assert (progress.into_topic.count, progress.out_of_topic.count) == (50, 40)
    assert (progress.lag, progress.position, progress.parts) == (10, 7, RUNNING)
    assert progress.moved_ms == 100


def test_records_have_arrived_when_all_of_them_are_committed() -> None:
    assert not after((1, Look(100, 99))).arrived
    assert after((1, Look(100, 100))).arrived


def test_a_record_too_many_is_waited_for() -> None:
    assert not after((1, Look(101, 100))).arrived


def test_arrived_records_settle_when_nothing_follows() -> None:
    progress = after((1_000, Look(100, 100, None, 900)))
    assert not progress.seen(1_000 + SETTLED_MS - 1, Look(100, 100, None, 900)).settled
    assert progress.seen(1_000 + SETTLED_MS, Look(100, 100, None, 900)).settled
    grown = progress.seen(1_000 + SETTLED_MS, Look(100, 100, None, 901))
    assert not grown.settled


@pytest.mark.parametrize(("parts", "limit_ms"), [(RUNNING, SILENT_MS), ((), STALLED_MS)])
def test_waiting_ends_sooner_when_tasks_do_not_run(
    parts: tuple[ShownInstance, ...], limit_ms: int
) -> None:
    progress = after((0, Look(10, 5, None, 0, parts)))
    assert not progress.seen(limit_ms - 1, Look(10, 5)).stalled
    assert progress.seen(limit_ms, Look(10, 5)).stalled


def test_anything_that_moves_keeps_the_waiting_alive() -> None:
    start = after((0, Look(10, 5, 1, 10, RUNNING)))
    for look in (Look(11, 5), Look(10, 6), Look(10, 5, 2), Look(written=11), Look(parts=FAILED)):
        assert start.seen(70_000, look).quiet_ms == 0


def test_failures_are_shown_with_their_trace() -> None:
    assert after((0, Look(parts=FAILED))).failed == (FAILED[3],)
    assert after((0, Look(parts=RUNNING))).failed == ()
    assert "demo-sink-0 FAILED" in after((0, Look(parts=FAILED))).states()


def test_a_task_that_waits_says_what_for() -> None:
    waiting = (
        *RUNNING[:3],
        ShownInstance("demo-sink-0", "UNASSIGNED", "Spark is starting.\nSoon."),
    )
    assert after((0, Look(parts=waiting))).waiting_for == "Spark is starting."
    assert after((0, Look(parts=RUNNING))).waiting_for == "waiting for the first record"


def test_a_connector_without_tasks_is_not_running_yet() -> None:
    assert not after((0, Look(parts=RUNNING[:3]))).running
    assert after((0, Look(parts=RUNNING))).running
    paused = (*RUNNING[:3], replace(RUNNING[3], state="PAUSED"))
    assert not after((0, Look(parts=paused))).running


def test_a_status_answer_becomes_parts() -> None:
    status: dict[str, Any] = {
        "name": "c",
        "connector": {"state": "RUNNING", "worker_id": "w"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w", "trace": "why"}],
        "type": "sink",
    }
    assert instances_of("c", status) == (
        ShownInstance("c", "RUNNING"),
        ShownInstance("c-0", "FAILED", "why"),
    )


@pytest.mark.parametrize(
    ("key", "value", "position"),
    [
        (b'["demo-source",{"filename":"/f"}]', b'{"position":7}', 7),
        (b'["another",{"filename":"/f"}]', b'{"position":7}', None),
        (b'["demo-source",{"filename":"/f"}]', b"null", None),
        (b'["demo-source",{"filename":"/f"}]', b'{"position":"7"}', None),
        (b"\xff", b"{", None),
    ],
)
def test_the_position_is_read_from_the_source_s_own_records(
    key: bytes, value: bytes, position: int | None
) -> None:
    assert source_position(key, value) == position
