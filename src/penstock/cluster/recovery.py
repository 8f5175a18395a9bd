"""When a failed connector or task is restarted automatically.

Kafka Connect leaves a failed connector or task alone until a user restarts it; so does penstock
with `penstock.restart.policy=off`. Otherwise it is restarted after a backoff that doubles each
time, at most `attempts` times within a window; after that it stays FAILED.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from penstock.backoff import Backoff


class Causes(Enum):
    """Which failures are followed by a restart."""

    OFF = "off"
    RETRIABLE = "retriable"  # those that may pass: a server is unreachable, a process was killed
    ANY = "any"


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How one connector and its tasks are restarted."""

    causes: Causes = Causes.OFF
    attempts: int = 10  # within the window; -1: any number
    backoff_ms: int = 5_000
    backoff_max_ms: int = 300_000
    window_ms: int = 3_600_000

    def covers(self, retriable: bool) -> bool:
        """Whether a failure of this kind is restarted."""
        return self.causes is Causes.ANY or (self.causes is Causes.RETRIABLE and retriable)


NO_RESTARTS: Final = RestartPolicy()


@dataclass(frozen=True, slots=True)
class Recovery:
    """The restarts of one connector or task, in ms of the worker's clock."""

    past: tuple[int, ...] = ()  # when it failed, if that still counts
    at: int | None = None  # when it is restarted

    def failed(self, policy: RestartPolicy, now: int, spread: str) -> Recovery:
        """After another failure; `at` is None if it was one too many. Items with another `spread`
        wait a little longer or shorter, so that they do not all restart at once."""
        past = tuple(at for at in self.past if now - at < policy.window_ms)
        if 0 <= policy.attempts <= len(past):
            return Recovery(past)
        backoff = Backoff(policy.backoff_ms, policy.backoff_max_ms)
        wait_ms = int(backoff.delay_ms(len(past) + 1))
        wait_ms -= wait_ms * (zlib.crc32(spread.encode()) % 20) // 100
        return Recovery((*past, now), now + wait_ms)

    def restarted(self) -> Recovery:
        """After a start, automatic or by a user."""
        return replace(self, at=None)

    def note(self, policy: RestartPolicy, now: int) -> str:
        """The note about it in a status."""
        times = f"{policy.attempts}" if policy.attempts >= 0 else "any number"
        if self.at is None:
            return (
                f"It was restarted {len(self.past)} times within {policy.window_ms // 1000} s, and "
                "will not be restarted automatically again (penstock.restart.attempts)."
            )
        return (
            f"Automatic restart in {-(-(self.at - now) // 1000)} s: restart {len(self.past)} of "
            f"{times} (penstock.restart.policy)."
        )
