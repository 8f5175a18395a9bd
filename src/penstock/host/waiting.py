"""Waiting for a condition: bounded, and clear about what did not happen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

POLL_S: Final = 0.05


def wait_until(
    condition: Callable[[], T], timeout_s: float, what: str, poll_s: float = POLL_S
) -> T:
    """The first true value of `condition`; raises TimeoutError, naming `what`, if there is none.
    A condition that is expensive to check is checked less often."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}; last seen: {value!r}")
        pause.wait(poll_s)
