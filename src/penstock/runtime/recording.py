"""What a worker records about itself and its tasks, for `/metrics`.

Windows cover the last minute: two of Kafka's samples (`metrics.num.samples` of
`metrics.sample.window.ms`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.api import Figure
from penstock.clock import Clock
from penstock.cluster.herder.runs import RunPhase
from penstock.flow.counts import Counts
from penstock.flow.plan import FlowPlan

_WINDOW_MS: Final = 60_000


class Window:
    """Values of the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: deque[tuple[int, float]] = deque()
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._forget()
        self._values.append((self._clock.now(), value))
        self._sum += value

    @property
    def rate(self) -> float:
        """The sum, per second."""
        self._forget()
        return self._sum / (_WINDOW_MS / 1000)

    @property
    def average(self) -> float:
        """NaN without a value."""
        self._forget()
        return self._sum / len(self._values) if self._values else float("nan")

    @property
    def largest(self) -> float:
        """NaN without a value."""
        self._forget()
        return max((value for _, value in self._values), default=float("nan"))

    @property
    def smallest(self) -> float:
        """NaN without a value."""
        self._forget()
        return min((value for _, value in self._values), default=float("nan"))

    def _forget(self) -> None:
        begin = self._clock.now() - _WINDOW_MS
        while self._values and self._values[0][0] <= begin:
            self._sum -= self._values.popleft()[1]


class PhaseTimes:
    """The phases of a task in the last minute, and when each began."""

    def __init__(self, clock: Clock, phase: RunPhase) -> None:
        self._clock = clock
        self._spans = deque([(clock.now(), phase)])

    def enter(self, phase: RunPhase) -> None:
        if self._spans[-1][1] is not phase:
            self._spans.append((self._clock.now(), phase))

    def ratio(self, phase: RunPhase) -> float:
        """The share of the last minute, or of the time since the start, in a phase."""
        now = self._clock.now()
        begin = now - _WINDOW_MS
        while len(self._spans) > 1 and self._spans[1][0] <= begin:
            self._spans.popleft()
        starts = [max(begin, at) for at, _ in self._spans]
        ends = [*starts[1:], now]
        spent = sum(
            end - start
            for start, end, (_, span_phase) in zip(starts, ends, self._spans, strict=True)
            if span_phase is phase
        )
        return spent / (now - starts[0]) if now > starts[0] else 0.0


@dataclass(slots=True)
class TaskRecord:
    """One run of a task: totals since its start, and windows."""

    plan: FlowPlan
    clock: Clock
    read: Window = field(init=False)
    written: Window = field(init=False)
    batch_ms: Window = field(init=False)
    commits: Window = field(init=False)
    """1 for a commit that succeeded, 0 for one that failed."""
    commit_ms: Window = field(init=False)
    active: Window = field(init=False)
    total: Counts = field(default_factory=Counts)
    commits_attempted: int = 0
    commits_completed: int = 0
    uncommitted: int = 0
    partitions: int = 0
    last_error: int = 0
    """When the last record failed, in milliseconds since the epoch; 0: never."""
    figures: Sequence[Figure] = ()
    """The current figures of its interceptors."""

    def __post_init__(self) -> None:
        self.read, self.written = Window(self.clock), Window(self.clock)
        self.batch_ms, self.commits = Window(self.clock), Window(self.clock)
        self.commit_ms, self.active = Window(self.clock), Window(self.clock)

    def progress(self, counts: Counts) -> None:
        """Adds a report of the task."""
        self.total += counts
        self.read.add(counts.records)
        self.written.add(counts.done)
        self.batch_ms.add(counts.ms)
        self.uncommitted += counts.records
        self.active.add(self.uncommitted)
        if counts.failed:
            self.last_error = self.clock.now()

    def commit(self, ok: bool, ms: float) -> None:
        """Adds an attempt to commit, which took `ms`."""
        self.commits.add(1.0 if ok else 0.0)
        self.commit_ms.add(ms)
        self.commits_attempted += 1
        if ok:
            self.commits_completed += 1
            self.uncommitted = 0


@dataclass(slots=True)
class Rebalances:
    """The rebalances of the workers' group, as one worker saw them."""

    clock: Clock
    ms: Window = field(init=False)
    began: int | None = None
    """When the current one began; None: there is none."""
    ended: int | None = None
    """When the last one ended."""
    completed: int = 0

    def __post_init__(self) -> None:
        self.ms = Window(self.clock)

    def begin(self) -> None:
        self.began = self.began or self.clock.now()

    def end(self) -> None:
        now = self.clock.now()
        if self.began is not None:
            self.ms.add(now - self.began)
        self.began, self.ended = None, now
        self.completed += 1
