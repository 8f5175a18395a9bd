"""The connector instances and tasks of a worker, and how their phases follow each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from penstock.cluster.records import State


class RunPhase(Enum):
    """The phase of a connector instance or task on this worker."""

    WAITING = "waiting"  # a task, for Spark to start
    FENCING = "fencing"  # a task, until the zombie tasks of its connector are fenced
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    PAUSED = "paused"  # nothing runs because the target state says so
    STOPPED = "stopped"  # the same for a connector whose target state is STOPPED
    FAILED = "failed"


P: TypeAlias = RunPhase
PHASE_MOVES: Final[Mapping[RunPhase, frozenset[RunPhase]]] = {
    P.WAITING: frozenset({P.FENCING, P.STARTING, P.PAUSED}),
    P.FENCING: frozenset({P.STARTING, P.PAUSED, P.FAILED}),
    P.STARTING: frozenset({P.RUNNING, P.FAILED}),
    P.RUNNING: frozenset({P.STOPPING, P.FAILED}),
    P.STOPPING: frozenset(),  # ends by leaving the table; the next run starts over
    P.PAUSED: frozenset({P.WAITING, P.FENCING, P.STARTING}),
    P.FAILED: frozenset({P.WAITING, P.FENCING, P.STARTING, P.PAUSED}),
}
"""How the phases of a task follow each other; absent tasks begin in WAITING, FENCING, STARTING or
PAUSED."""

CONNECTOR_MOVES: Final[Mapping[RunPhase, frozenset[RunPhase]]] = {
    P.STARTING: frozenset({P.RUNNING, P.FAILED, P.PAUSED, P.STOPPED}),
    P.RUNNING: frozenset({P.STARTING, P.FAILED, P.PAUSED, P.STOPPED}),
    P.PAUSED: frozenset({P.STARTING, P.STOPPED}),
    P.STOPPED: frozenset({P.STARTING, P.PAUSED}),
    P.FAILED: frozenset({P.STARTING, P.PAUSED, P.STOPPED}),
}
"""The same for a connector, which has no STOPPING: its instance generates task configurations and
holds nothing, so a new one may replace it in any phase."""


SHOWN: Final[Mapping[RunPhase, State]] = {
    RunPhase.RUNNING: State.RUNNING,
    RunPhase.PAUSED: State.PAUSED,
    RunPhase.STOPPED: State.STOPPED,
    RunPhase.FAILED: State.FAILED,
}
"""The status in each lasting phase; the other phases end by themselves."""


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a connector instance or task; `stale`: it must be restarted; `unclean`: a task
    whose last run may not have left its consumer group."""

    run: int
    phase: RunPhase
    stale: bool = False
    unclean: bool = False
    trace: str | None = None  # why it failed


K = TypeVar("K")


class Runs(Generic[K]):
    """The runs of a worker while they change: copied once, at the first change.

    `touched` are the keys to reconcile: with a thousand tasks, the start of one must not cost work
    for all others. `set` raises AssertionError for a move not in `moves`.
    """

    def __init__(
        self, rows: Mapping[K, Run], moves: Mapping[RunPhase, frozenset[RunPhase]] = PHASE_MOVES
    ) -> None:
        self._rows = rows
        self._moves = moves
        self._own: dict[K, Run] | None = None
        self.touched: dict[K, None] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def items(self) -> Iterable[tuple[K, Run]]:
        return self._rows.items()

    def get(self, key: K) -> Run | None:
        return self._rows.get(key)

    def touch(self, keys: Iterable[K]) -> None:
        self.touched |= dict.fromkeys(keys)

    def touch_unsettled(self, keys: Iterable[K]) -> None:
        """Touches items that had to wait or have not started yet."""
        idle = (
            key for key, run in self._rows.items() if run.stale or run.phase is not RunPhase.RUNNING
        )
        self.touch(idle)
        self.touch(key for key in keys if key not in self._rows)

    def set(self, key: K, run: Run | None) -> None:
        if self._own is None:
            self._rows = self._own = dict(self._rows)
        self.touched[key] = None
        if run is None:
            self._own.pop(key, None)
            return
        before = self._own.get(key)
        if before is not None and run.phase not in (before.phase, *self._moves[before.phase]):
            raise AssertionError(f"{key} goes from {before.phase} to {run.phase}")
        self._own[key] = run

    def mark_stale(self, key: K) -> None:
        run = self.get(key)
        if run is not None:
            self.set(key, replace(run, stale=True))

    def frozen(self) -> Mapping[K, Run]:
        return self._rows
