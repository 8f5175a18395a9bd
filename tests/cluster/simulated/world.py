"""What all parts of a simulated cluster use: its clock, chance and faults, and a process."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from penstock.cluster import events as e
from tests.cluster.simulated.faults import Faults


class World(Protocol):
    """One clock and one source of chance for everything.

    Tests replace `random` and `faults` while time passes: look them up each time.
    """

    @property
    def now(self) -> int:
        """In milliseconds."""

    @property
    def random(self) -> Random: ...

    @property
    def faults(self) -> Faults: ...

    def at(self, delay: int, act: Callable[[], None]) -> None:
        """Schedules `act` for `delay` ms from now."""


class Process(Protocol):
    """A worker's process, which may hang or be dead."""

    @property
    def alive(self) -> bool: ...

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Schedules `act` in the process: waits while it hangs, dropped once it is dead."""

    def post(self, event: e.Event) -> None:
        """Hands the worker an event."""
