import itertools
import os
import time
from pathlib import Path

import pytest

from benchmarks.watching import Curve, cpu_s, file_size, percentile, usage, watch


def nothing() -> None:
    pass


def test_a_rate_is_taken_from_the_first_look_to_the_last() -> None:
    assert Curve(((2.0, 100), (3.0, 600), (4.0, 1_100))).rate == 500
    assert Curve(((2.0, 100), (3.0, 600), (4.0, 1_100))).took_s == 4.0


@pytest.mark.parametrize("points", [((1.0, 10),), ((1.0, 6), (1.5, 10))])
def test_no_rate_is_reported_when_the_first_look_saw_most_of_it(
    points: tuple[tuple[float, int], ...],
) -> None:
    assert Curve(points).rate is None


@pytest.mark.parametrize("many", [1, 2, 3, 199, 200, 201, 5_000])
def test_a_thinned_curve_keeps_its_ends(many: int) -> None:
    curve = Curve(tuple((float(at), at * 2) for at in range(1, many + 1)))
    thinned = curve.thinned(200)
    assert (thinned.points[0], thinned.points[-1]) == (curve.points[0], curve.points[-1])
    assert len(thinned.points) <= 201
    assert set(thinned.points) <= set(curve.points)
    assert len(set(thinned.points)) == len(thinned.points)


def test_a_watch_sees_every_step_and_ends_with_the_last() -> None:
    steps = itertools.chain([0, 0, 3, 3, 7], itertools.repeat(9))
    began = time.monotonic()
    curve = watch(lambda: next(steps), 9, began, 30, nothing)
    assert [done for _, done in curve.points] == [3, 7, 9]
    assert curve.scaled(2).points[-1] == (curve.took_s, 18)


def test_a_watch_ends_with_what_its_check_raises() -> None:
    def failed() -> None:
        raise RuntimeError("the task has failed")

    with pytest.raises(RuntimeError, match="the task has failed"):
        watch(lambda: 0, 9, time.monotonic() - 2, 30, failed)


def test_a_watch_has_a_bound() -> None:
    with pytest.raises(TimeoutError, match="4 of 9 were done"):
        watch(lambda: 4, 9, time.monotonic() - 31, 30, nothing)


def test_the_size_of_a_file_that_is_not_there_is_nothing(tmp_path: Path) -> None:
    size = file_size(tmp_path / "file")
    assert size() == 0
    (tmp_path / "file").write_bytes(b"123")
    assert size() == 3


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1), (50, 50), (95, 95), (99, 99), (99.5, 100), (100, 100)]
)
def test_a_percentile_is_a_value_that_was_seen(percent: float, value: float) -> None:
    assert percentile([*range(100, 0, -1)], percent) == value
    assert percentile([7.0], percent) == 7.0


def test_usage_counts_what_this_process_uses() -> None:
    before = usage(os.getpid())
    deadline = time.process_time() + 0.2
    while time.process_time() < deadline:
        pass
    after = usage(os.getpid())
    assert after.cpu_s - before.cpu_s >= 0.1
    assert cpu_s(os.getpid()) >= after.cpu_s
    assert after.memory_mb > 1
    assert sum(after.programs.values()) == after.memory_mb
