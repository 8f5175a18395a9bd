"""The faults of a simulated cluster, and the error of a broken invariant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class Broken(AssertionError):
    """An invariant is violated."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities of faults around the herders."""

    append_fails: float = 0.0
    append_unanswered: float = 0.0  # stored, but not acknowledged
    append_is_late: float = 0.0  # stored eventually, perhaps when nobody still waits
    start_fails: float = 0.0
    plan_fails: float = 0.0
    read_is_slow: float = 0.0
    status_is_late: float = 0.0
    message_is_lost: float = 0.0  # between a member and its coordinator, either way
    message_is_late: float = 0.0
    forward_is_lost: float = 0.0  # a request from worker to worker, or its answer
    forward_is_late: float = 0.0


NO_FAULTS: Final = Faults()
MANY_FAULTS: Final = Faults(
    append_fails=0.03,
    append_unanswered=0.02,
    append_is_late=0.02,
    start_fails=0.03,
    plan_fails=0.03,
    read_is_slow=0.05,
    status_is_late=0.01,
    message_is_lost=0.01,
    message_is_late=0.02,
    forward_is_lost=0.05,
    forward_is_late=0.05,
)
