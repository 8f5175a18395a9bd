"""Counts of what a task has done, added up from the stage to `/metrics`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a task's records: `records` were read, `done` reached the target, `failed` were
    tolerated; transforms dropped the difference. `topics` are the topics they came from or went to.

    `retries`: repeated operations. `lost`: dead letters that Kafka did not accept. `ms`: time spent
    in the connector's own code.
    """

    records: int = 0
    done: int = 0
    failed: int = 0
    retries: int = 0
    lost: int = 0
    ms: float = 0.0
    topics: frozenset[str] = frozenset()

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.records + other.records,
            self.done + other.done,
            self.failed + other.failed,
            self.retries + other.retries,
            self.lost + other.lost,
            self.ms + other.ms,
            self.topics | other.topics,
        )

    def __bool__(self) -> bool:
        """Whether there is anything to report; time alone is not."""
        return bool(self.records or self.done or self.failed or self.retries or self.lost)
