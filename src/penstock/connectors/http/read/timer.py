"""Timing of polls."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Timer:
    """Polls every `interval_ms`, or every `catchup_ms` while the last record is older than the
    interval and the previous poll returned newer ones. Times in ms.

    >>> timer = Timer(60_000, 30_000).polled(now=0, latest=None)
    >>> timer.due
    60000
    >>> Timer(60_000, 30_000).polled(now=1_000_000, latest=5).due
    1030000
    """

    interval_ms: int
    catchup_ms: int
    due: int = 0
    latest: int | None = None

    def polled(self, now: int, latest: int | None) -> Timer:
        """The state after a poll that ended at the record `latest` (ms since 1970)."""
        is_behind = latest is not None and latest != self.latest and latest < now - self.interval_ms
        wait = self.catchup_ms if is_behind else self.interval_ms
        return replace(self, due=now + wait, latest=latest)

    def put_off(self, until: int) -> Timer:
        """The state without a poll before that time."""
        return replace(self, due=max(self.due, until))


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `per_second` requests per second, evenly spaced; 0: no limit.

    >>> rate, waits = Rate(2.0), []
    >>> for _ in range(3):
    ...     rate, wait = rate.asked(0)
    ...     waits.append(wait)
    >>> waits
    [0, 500, 1000]
    """

    per_second: float
    next: int = 0

    def asked(self, now: int) -> tuple[Rate, int]:
        """The state after a request, and the ms to wait before it."""
        if not self.per_second:
            return self, 0
        at = max(now, self.next)
        return replace(self, next=at + int(1000 / self.per_second)), at - now
