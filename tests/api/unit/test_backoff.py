"""The waits between attempts."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import Unavailable
from penstock.backoff import Backoff, Jitter
from penstock.errors import DataError, is_transient

backoffs = st.builds(
    Backoff,
    st.integers(0, 10_000),
    st.integers(0, 100_000),
    grows=st.booleans(),
    jitter=st.sampled_from(Jitter),
)


@given(backoff=backoffs, failures=st.integers(1, 10_000), seed=st.integers())
def test_a_wait_is_never_negative_and_never_above_the_maximum(
    backoff: Backoff, failures: int, seed: int
) -> None:
    assert 0 <= backoff.delay_ms(failures, random.Random(seed)) <= backoff.max_ms


@given(first_ms=st.integers(0, 10_000), max_ms=st.integers(0, 10_000))
def test_without_jitter_waits_double_up_to_the_maximum(first_ms: int, max_ms: int) -> None:
    waits = [Backoff(first_ms, max_ms).delay_ms(failures) for failures in range(1, 100)]
    assert waits[0] == min(first_ms, max_ms)
    for earlier, later in pairwise(waits):
        assert later == min(2 * earlier, max_ms)


@pytest.mark.parametrize(
    ("jitter", "failures", "low", "high"),
    [
        (Jitter.NONE, 2, 200, 200),
        (Jitter.HALF, 2, 100, 200),
        (Jitter.FULL, 2, 0, 200),
        (Jitter.BEYOND_MAX, 2, 200, 200),
        (Jitter.BEYOND_MAX, 9, 0, 1_000),
    ],
)
def test_how_far_waits_vary(jitter: Jitter, failures: int, low: int, high: int) -> None:
    backoff, chance = Backoff(100, 1_000, jitter=jitter), random.Random(1)
    waits = {backoff.delay_ms(failures, chance) for _ in range(1_000)}
    assert low <= min(waits) <= low + (high - low) / 50
    assert high - (high - low) / 50 <= max(waits) <= high


def test_a_fixed_wait_does_not_grow() -> None:
    assert {Backoff.fixed(70).delay_ms(failures) for failures in (1, 2, 99)} == {70}


def test_negative_settings_mean_no_wait() -> None:
    assert Backoff(-5, 100).delay_ms(3) == Backoff(5, -1).delay_ms(3) == 0


def test_an_error_tells_whether_a_retry_may_help() -> None:
    class Client(Exception):
        def retriable(self) -> bool:  # a method says nothing by itself
            return False

    assert is_transient(Unavailable("away"))
    assert not any(map(is_transient, [DataError("bad"), ValueError(), Client()]))
