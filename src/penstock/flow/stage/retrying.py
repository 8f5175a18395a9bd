"""Waits between the attempts of one operation of a task (KIP-298)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.backoff import Backoff, Jitter

_FIRST_MS: Final = 300


class Retrying:
    """300 ms after the first failure, doubled each time, and beyond `delay_max_ms` a random part of
    that; for `timeout_ms`, -1: for ever. `wait` may end the operation by raising."""

    def __init__(
        self,
        timeout_ms: int,
        delay_max_ms: int,
        wait: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backoff = Backoff(_FIRST_MS, delay_max_ms, jitter=Jitter.BEYOND_MAX)
        self._wait = wait or threading.Event().wait
        self._clock = clock
        self._end = clock() + timeout_ms / 1000 if timeout_ms >= 0 else float("inf")
        self._failures = 0

    def again(self) -> bool:
        """Waits until the next attempt; returns False at once if there is none."""
        remaining_s = self._end - self._clock()
        if remaining_s <= 0:
            return False
        self._failures += 1
        self._wait(min(self._backoff.delay_ms(self._failures, random) / 1000, remaining_s))
        return True
