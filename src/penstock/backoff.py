"""The waits between attempts, as a value: every loop that retries with growing waits uses it.

Whether an error is worth a retry is a fact of the error: see `errors.is_transient`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

_MOST_DOUBLINGS: Final = 60


class Chance(Protocol):
    """A `random.Random`, or the module `random`."""

    def uniform(self, a: float, b: float, /) -> float: ...


class Jitter(Enum):
    """How waits vary, so that clients that failed together do not all retry together."""

    NONE = "none"
    HALF = "half"  # at least half of the wait
    FULL = "full"  # any part of the wait
    BEYOND_MAX = "beyond max"  # any part of the maximum, for waits that have grown beyond it


@dataclass(frozen=True, slots=True)
class Backoff:
    """A wait of `first_ms` after the first failure, doubled after each further one unless `grows`
    is false, and at most `max_ms`.

    >>> [Backoff(300, 2_000).delay_ms(failures) for failures in (1, 2, 3, 4, 99)]
    [300, 600, 1200, 2000, 2000]
    >>> Backoff(300, 2_000, grows=False).delay_ms(5)
    300
    """

    first_ms: float
    max_ms: float
    grows: bool = True
    jitter: Jitter = Jitter.NONE

    @staticmethod
    def fixed(ms: float, jitter: Jitter = Jitter.NONE) -> Backoff:
        """The same wait after each failure."""
        return Backoff(ms, ms, grows=False, jitter=jitter)

    def delay_ms(self, failures: int, chance: Chance | None = None) -> float:
        """The wait after a number of failures, from 1. `chance` is needed for jitter."""
        doublings = min(failures - 1, _MOST_DOUBLINGS) if self.grows else 0
        grown: float = max(0, self.first_ms * 2**doublings)
        delay: float = min(grown, max(0, self.max_ms))
        if self.jitter is Jitter.NONE:
            return delay
        assert chance is not None, "jitter needs chance"
        match self.jitter:
            case Jitter.HALF:
                return delay * chance.uniform(0.5, 1)
            case Jitter.FULL:
                return chance.uniform(0, delay)
            case Jitter.BEYOND_MAX:
                return chance.uniform(0, delay) if grown > delay else delay
