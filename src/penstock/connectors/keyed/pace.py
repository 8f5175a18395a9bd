"""A limit of the rate of writes: a pause after every so many of them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pace:
    """After every `every` writes, `pause_ms` pass; 0 of either: none do.

    >>> pace, pauses = Pace(every=2, pause_ms=50), []
    >>> for _ in range(4):
    ...     pace, pause_ms = pace.wrote()
    ...     pauses.append(pause_ms)
    >>> pauses
    [0, 50, 0, 50]
    """

    every: int
    pause_ms: int
    done: int = 0

    def wrote(self) -> tuple[Pace, int]:
        """The state after a write, and the milliseconds to wait now."""
        if not self.every or not self.pause_ms:
            return self, 0
        done = (self.done + 1) % self.every
        return replace(self, done=done), 0 if done else self.pause_ms
