"""Sinks under chaos for PENSTOCK_SOAK_S seconds a family: broken connections, lost answers, refused
records, killed servers and workers.

At the end the store must hold what the topic says: each record, or the last of each key, except the
dead letters. `make soak` runs every family for ten minutes; a seed in its output repeats the
choices.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Final

import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics

from .chaos.compare import Sent, compare_keys, compare_records
from .chaos.driver import Chaos, Result
from .chaos.families import FAMILIES, QUICK, UNAVAILABLE, missing

SECONDS: Final = float(os.environ.get("PENSTOCK_SOAK_S", "0"))
SEED: Final = int(os.environ.get("PENSTOCK_SOAK_SEED", "0")) or random.SystemRandom().getrandbits(
    32
)

pytestmark = [pytest.mark.timeout(2 * SECONDS + 900), pytest.mark.slow(65)]


@pytest.mark.parametrize("name", [*FAMILIES, *UNAVAILABLE] if SECONDS else QUICK)
def test_a_sink_loses_nothing_whatever_happens(
    name: str, make_worker: Callable[..., WorkerProcess], topics: Topics
) -> None:
    if (reason := missing(name)) is not None:
        pytest.skip(reason)
    seed = f"PENSTOCK_SOAK_SEED={SEED}"
    sys.stderr.write(f"{seed}\n")
    family = FAMILIES[name]()
    try:
        chaos = Chaos(name, family, make_worker, topics, SEED)
        try:
            result = chaos.run(SECONDS)
            sys.stderr.write(f"{name}: {result}\n")
            check(result, networked=family.networked)
        except BaseException:
            sys.stderr.write(f"{name} failed; {seed}\n")
            raise
        finally:
            sys.stderr.write(chaos.evidence)
            chaos.close()
    finally:
        family.close()


def check(result: Result, *, networked: bool) -> None:
    """Fails if the store differs from the topic, or if the run proves nothing."""
    assert not result.lost, f"lost: {result.lost[:5]}; {result}"
    assert not result.wrong, f"wrong: {result.wrong[:5]}; {result}"
    assert not result.unordered, f"out of order: {result.unordered[:5]}; {result}"
    of_network = ("cut", "lose_answers") if networked else ()
    for fault in (*of_network, "refuse", "kill_worker"):
        assert result.faults[fault], f"there was no '{fault}': {result}"
    assert result.answers_lost or not networked, "no answer was lost"
    assert result.failures or result.dead or result.held, f"nothing was refused: {result}"
    assert result.records > 200, f"too few records: {result}"


SENT: Final = [Sent(0, 0, "a", 1), Sent(0, 1, "b", 2), Sent(0, 2, "a", 3), Sent(0, 3, "b", None)]


def test_the_comparison_of_keys_finds_what_is_lost_or_wrong() -> None:
    assert not compare_keys(SENT, set(), [("a", 3)]).lost
    assert compare_keys(SENT, set(), []).lost == ["a: stored None, allowed 3"]
    assert compare_keys(SENT, set(), [("a", 1)]).wrong == ["a: stored 1, allowed 3"]
    assert compare_keys(SENT, set(), [("a", 3), ("b", 2)]).wrong == ["b: stored 2, allowed None"]
    assert compare_keys(SENT, set(), [("a", 3), ("z", 9)]).wrong == ["z: not in the topic"]


def test_the_comparison_of_keys_allows_a_dead_letter_and_what_was_there_before_it() -> None:
    for number in (1, 3):
        found = compare_keys(SENT, {(0, 2)}, [("a", number)])
        assert (found.lost, found.wrong) == ([], [])


def test_the_comparison_of_records_finds_what_is_lost_repeated_or_out_of_order() -> None:
    sent = SENT[:3]
    right = [("a", 1), ("b", 2), ("a", 3)]
    assert compare_records(sent, set(), right) == compare_records(sent, set(), iter(right))
    assert compare_records(sent, set(), right[:2]).lost == [sent[2]]
    assert compare_records(sent, {(0, 2)}, right[:2]).lost == []
    assert compare_records(sent, set(), [*right, right[0]]).repeated == 1
    swapped = [right[1], right[0], right[2]]
    assert compare_records(sent, set(), swapped).unordered == [sent[0]]
    assert compare_records(sent, set(), swapped, lambda key, number: key).unordered == []


def test_records_that_a_restart_repeats_are_in_order_but_skipped_ones_are_not() -> None:
    a, b, c = right = [("a", 1), ("b", 2), ("a", 3)]
    sent = [*SENT[:3], Sent(1, 0, "z", 9)]
    z = ("z", 9)  # of another partition
    for repeated in ([a, b, a, z, b, c], [a, b, c, *right, z], [z, a, b, a, c, b]):
        assert compare_records(sent, set(), repeated).unordered == []
    for skipped in ([a, c, b, z], [a, c, b, c, z], [a, c, a, b, c, z]):
        assert compare_records(sent, set(), skipped).unordered == [sent[1]]
        assert compare_records(sent, {(0, 1)}, skipped).unordered == []
