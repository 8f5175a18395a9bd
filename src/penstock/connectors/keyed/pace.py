"""Limits of the rate of writes: pauses between them, and the number of requests in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pace:
    """A pause of `pause_ms` after every `every` writes; none if either is 0.

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


@dataclass(frozen=True, slots=True)
class Window:
    """How many requests may be in flight, at most `most`: half as many after a request for which
    the store was too busy, and a tenth of `most` more after a batch without such a request.

    >>> window = Window.of(100).shrunk().shrunk()
    >>> window.now, window.grown().now, Window(3, 1).shrunk().now
    (25, 35, 1)
    """

    most: int
    now: int

    @classmethod
    def of(cls, most: int) -> Window:
        """A window that is fully open."""
        return cls(most, most)

    def shrunk(self) -> Window:
        """After a request for which the store was too busy."""
        return Window(self.most, max(self.now // 2, 1))

    def grown(self) -> Window:
        """After a batch that the store accepted."""
        return Window(self.most, min(self.now + max(self.most // 10, 1), self.most))
