"""A task that the worker has started: its slot, and the events that callers wait for.

The lock of `tasks` guards it.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.flow.driver.ports import Begins
from penstock.flow.driver.slots import Slot
from penstock.flow.plan import FlowPlan


@dataclass(slots=True, eq=False)
class Placed:
    """A task that the worker has started and not stopped."""

    plan: FlowPlan
    begin: Begins
    id: int = 0
    slot: Slot | None = None
    ready: Future[None] = field(default_factory=Future)
    started: Future[None] = field(default_factory=Future)
    stopped: Future[bool] | None = None  # set once a stop is requested
    running: bool = False  # its writer or reader is open
    moving: bool = False
    own: bool = False  # it has, or is to get, a dedicated slot
    deaths: int = 0  # slots that died while it was on them
    busy_s: float = 0.0
    in_call: bool = False
    busy: float = 0.0
    quiet_since: float = field(default_factory=time.monotonic)
    checked_at: float = field(default_factory=time.monotonic)
