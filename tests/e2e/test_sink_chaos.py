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

from .chaos.driver import Chaos
from .chaos.families import FAMILIES, QUICK, missing

SECONDS: Final = float(os.environ.get("PENSTOCK_SOAK_S", "0"))
SEED: Final = int(os.environ.get("PENSTOCK_SOAK_SEED", "0")) or random.SystemRandom().getrandbits(
    32
)

pytestmark = pytest.mark.timeout(SECONDS + 900)


@pytest.mark.parametrize("name", FAMILIES if SECONDS else QUICK)
def test_a_sink_loses_nothing_whatever_happens(
    name: str, make_worker: Callable[..., WorkerProcess], topics: Topics
) -> None:
    if (reason := missing(name)) is not None:
        pytest.skip(reason)
    sys.stderr.write(f"PENSTOCK_SOAK_SEED={SEED}\n")
    family = FAMILIES[name]()
    try:
        chaos = Chaos(name, family, make_worker, topics, SEED)
        try:
            result = chaos.run(SECONDS)
        finally:
            chaos.close()
    finally:
        family.close()
    sys.stderr.write(f"{name}: {result}\n")
    assert not result.lost, f"lost: {result.lost[:5]}; {result}"
    assert not result.wrong, f"wrong: {result.wrong[:5]}; {result}"
    assert not result.unordered, f"out of order: {result.unordered[:5]}; {result}"
    for fault in ("cut", "lose_answers", "refuse", "kill_worker"):
        assert result.faults[fault], f"there was no '{fault}': {result}"
    assert result.answers_lost, "no answer was lost"
    assert result.failures or result.dead, f"nothing was refused: {result}"
    assert result.records > 200, f"too few records: {result}"
