"""One step in progress: the state and the commands so far."""

from __future__ import annotations

from dataclasses import replace

from penstock.cluster import events as e
from penstock.cluster.assign import Item
from penstock.cluster.herder.runs import CONNECTOR_MOVES, Runs
from penstock.cluster.herder.state import Fencing, HerderState, Membership, Requests, RunningWork
from penstock.cluster.protocol import NO_WORK, Work
from penstock.cluster.state import ClusterState
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId


class Turn:
    """The state that the subjects change while one event is handled; `result` ends it.

    A subject assigns whole parts of the state, each made from the one before. What runs is changed
    in `connectors` and `tasks`, which `result` puts into the state.
    """

    def __init__(self, state: HerderState, now: int) -> None:
        self.before = state
        self.state = state
        self.now = now
        self.commands: list[e.Command] = []
        self.connectors = Runs(state.running.connectors, CONNECTOR_MOVES)
        self.tasks = Runs(state.running.tasks)
        self._assigned: tuple[Work, frozenset[Item]] = NO_WORK, frozenset()

    def result(self) -> HerderState:
        connectors, tasks = self.connectors.frozen(), self.tasks.frozen()
        if connectors is not self.running.connectors or tasks is not self.running.tasks:
            self.running = replace(self.running, connectors=connectors, tasks=tasks)
        return self.state

    @property
    def cluster(self) -> ClusterState:
        return self.state.cluster

    @cluster.setter
    def cluster(self, cluster: ClusterState) -> None:
        self.state = replace(self.state, cluster=cluster)

    @property
    def statuses(self) -> StatusState:
        return self.state.statuses

    @statuses.setter
    def statuses(self, statuses: StatusState) -> None:
        self.state = replace(self.state, statuses=statuses)

    @property
    def membership(self) -> Membership:
        return self.state.membership

    @membership.setter
    def membership(self, membership: Membership) -> None:
        self.state = replace(self.state, membership=membership)

    @property
    def requests(self) -> Requests:
        return self.state.requests

    @requests.setter
    def requests(self, requests: Requests) -> None:
        self.state = replace(self.state, requests=requests)

    @property
    def fencing(self) -> Fencing:
        return self.state.fencing

    @fencing.setter
    def fencing(self, fencing: Fencing) -> None:
        self.state = replace(self.state, fencing=fencing)

    @property
    def running(self) -> RunningWork:
        return self.state.running

    @running.setter
    def running(self, running: RunningWork) -> None:
        self.state = replace(self.state, running=running)

    def number(self) -> int:
        """A unique number for a run or a ticket."""
        number = self.state.next_number
        self.state = replace(self.state, next_number=number + 1)
        return number

    def is_ours(self, item: Item) -> bool:
        """Whether the item is assigned to this worker, which is not stopping."""
        work, items = self._assigned
        if work is not self.membership.assigned:
            work = self.membership.assigned
            items = frozenset((*work.connectors, *work.tasks))
            self._assigned = work, items
        return item in items and not self.membership.stopping

    def exists(self, task: TaskId) -> bool:
        """Whether the task is in `cluster.tasks(...)`, without listing all of them."""
        entry = self.cluster.entries.get(task.connector)
        return (
            entry is not None
            and entry.config is not None
            and not entry.inconsistent
            and 0 <= task.number < (entry.task_count or 0)
        )

    def answer(self, reply: e.Reply, result: e.Result) -> None:
        """Answers a request."""
        self.commands.append(e.Answer(reply, result))
