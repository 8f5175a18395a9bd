"""The clock as an argument. Always milliseconds since the epoch."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The clock of a shell; tests pass a fake one."""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000
