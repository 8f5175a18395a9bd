"""The tasks that really run in a simulated cluster, and their transactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.ids import TaskId
from tests.cluster.simulated.faults import Broken

LEADER: Final = "leader"  # the transactional id of leaders


@dataclass(slots=True)
class Live:
    """A task's actual state on a worker, whatever its herder thinks."""

    run: int
    phase: str  # starting, running, dying, stopping
    zombie: bool = False  # its worker was expelled since it started, and does not know
    epoch: int = 0  # of its transactional id, once its producer is initialised
    began: int = 0  # a number that grows with every task that has read its position
    generation: int | None = None  # of the task set it belongs to, as its worker counts
    task_set: int = 0  # the same, according to the whole topic


@dataclass(slots=True)
class Transactions:
    """Transactional ids with their epochs, and what tasks commit with them."""

    epochs: dict[str, int] = field(default_factory=dict)  # of every transactional id
    commits: int = 0  # transactions of tasks
    fenced: int = 0  # those refused because a newer producer has the id
    _beginnings: int = 0
    _last_begun: dict[TaskId, int] = field(default_factory=dict)
    _newest_begun: dict[str, int] = field(default_factory=dict)
    """The newest task set that has begun, by connector."""

    def init_producer(self, name: str) -> int:
        """`initTransactions`: fences the id's earlier producer; returns the new epoch."""
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def begin(self, task: TaskId, live: Live) -> None:
        """The task has read its offsets: from now on no zombie may change them."""
        self._beginnings += 1
        live.began = self._last_begun[task] = self._beginnings
        newest = self._newest_begun.get(task.connector, -1)
        self._newest_begun[task.connector] = max(newest, live.task_set)

    def commit(self, task: TaskId, live: Live) -> bool:
        """Whether this task's transaction succeeds; raises Broken if it must not."""
        if live.epoch != self.epochs[str(task)]:
            self.fenced += 1
            return False
        if live.began != self._last_begun[task]:
            raise Broken(f"{task} commits after its successor has started")
        if live.task_set < self._newest_begun[task.connector]:
            raise Broken(f"{task} of an older task set commits after a newer set has started")
        self.commits += 1
        return True
