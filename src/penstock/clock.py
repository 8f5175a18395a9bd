"""Time as a value that can be handed in. Always milliseconds since the epoch."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a shell takes the time from; tests hand in a fake one."""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000
