"""How busy a task is, computed from the loads that its stage sends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from penstock.flow.driver.placing import QUIET
from penstock.flow.messages import TaskLoad

PERIOD_S: Final = 1.0
"""How often stages send the loads of busy tasks."""
_RECENT: Final = 0.5  # how much of the share the last period makes up


@dataclass(frozen=True, slots=True)
class Busyness:
    """`share` of the last seconds that the task worked, from 0 to 1. Times are monotonic seconds:
    `checked_at`, of the last load; `quiet_since`, from when on it has had little to do."""

    checked_at: float
    quiet_since: float
    share: float = 0.0
    worked_s: float = 0.0
    """As in the last load."""
    in_call: bool = False
    """Whether it was in connector code at the last load."""

    @classmethod
    def idle(cls, now: float) -> Busyness:
        """A task that was just placed."""
        return cls(now, now)

    def loaded(self, load: TaskLoad, now: float) -> Busyness:
        """With a new load."""
        passed_s = max(1e-3, now - self.checked_at)
        last = min(1.0, (load.busy_s - self.worked_s) / passed_s)
        share = self.share + _RECENT * (last - self.share)
        quiet_since = now if share > QUIET else self.quiet_since
        return Busyness(now, quiet_since, share, load.busy_s, load.in_call)

    def passed(self, now: float) -> Busyness:
        """A period later: stages send no loads of idle tasks."""
        if now - self.checked_at <= 2 * PERIOD_S:
            return self
        return replace(self, share=self.share * (1 - _RECENT))
