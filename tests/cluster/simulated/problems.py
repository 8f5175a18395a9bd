"""What keeps a simulated cluster from being at rest, and how it differs from its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.cluster.assign import Item
from penstock.cluster.records import RawProps, State, Target
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId
from tests.cluster.simulated.topics import ConfigTopic, StatusTopic
from tests.cluster.simulated.worker import Request, SimWorker


class Cluster(Protocol):
    """What is compared: the workers on one side, the topics on the other."""

    @property
    def protocol(self) -> str:
        """The group's protocol."""

    @property
    def workers(self) -> Mapping[str, SimWorker]: ...

    @property
    def requests(self) -> Sequence[Request]:
        """Those without a result."""

    @property
    def configs(self) -> ConfigTopic: ...

    @property
    def statuses(self) -> StatusTopic: ...

    def planned(self, connector: str) -> tuple[RawProps, ...]:
        """The tasks the connector plans at this moment; none if it is not configured."""


def unrest(cluster: Cluster) -> list[str]:
    """All problems but `ghosts`."""
    problems: list[str] = []
    for worker in cluster.workers.values():
        problems += worker.problems()
        if problems:
            return problems
    for request in cluster.requests:
        if not request.lost:
            problems.append(f"{request.operation} at {request.at} is not answered")
    if problems or not cluster.workers:
        return problems
    owners = _owners(cluster)
    for connector in cluster.configs.state.connectors():
        problems += _problems_of_connector(cluster, connector, owners)
    problems += _strays(cluster)
    problems += _imbalances(cluster)
    return problems or _disagreements(cluster)


def _imbalances(cluster: Cluster) -> list[str]:
    assigned = [worker.state.membership.assigned for worker in cluster.workers.values()]
    loads = {
        "connectors": [len(work.connectors) for work in assigned],
        "tasks": [len(work.tasks) for work in assigned],
    }
    if cluster.protocol == "default":  # which assigns both in one round over the members
        loads = {"connectors and tasks": [len(work) for work in assigned]}
    return [
        f"{items} are not balanced: {counts}"
        for items, counts in loads.items()
        if max(counts) - min(counts) > 1
    ]


def _disagreements(cluster: Cluster) -> list[str]:
    """Statuses that a worker sees differently, or would if it started now. Raises Broken if its
    configuration differs."""
    for worker in cluster.workers.values():
        worker.check_config(worker.state.cluster, full=True)
    views = [(worker.name, worker.state.statuses) for worker in cluster.workers.values()]
    views.append(("a worker that starts now", cluster.statuses.now()))
    return [
        f"{name} sees {status} as the status of {item}, which is {true}"
        for name, statuses in views
        for item, true, status in _different(cluster.statuses.shown(), statuses)
        if not isinstance(item, TaskId) or _tasks_are_known(cluster, item.connector)
    ]


def _owners(cluster: Cluster) -> dict[Item, list[SimWorker]]:
    owners: dict[Item, list[SimWorker]] = {}
    for worker in cluster.workers.values():
        assigned = worker.state.membership.assigned
        items: tuple[Item, ...] = (*assigned.connectors, *assigned.tasks)
        for item in items:
            owners.setdefault(item, []).append(worker)
    return owners


def _problems_of_connector(
    cluster: Cluster, connector: str, all_owners: Mapping[Item, list[SimWorker]]
) -> list[str]:
    state, shown = cluster.configs.state, cluster.statuses.shown()
    target, status = state.target(connector), shown.connector(connector)
    owners = all_owners.get(connector, [])
    if len(owners) != 1:
        return [f"{connector} is assigned to {[worker.name for worker in owners]}"]
    expected = {
        Target.STARTED: State.RUNNING,
        Target.PAUSED: State.PAUSED,
        Target.STOPPED: State.STOPPED,
    }
    problems: list[str] = []
    if target is None or status is None or status.worker_id != owners[0].worker_id:
        problems.append(f"{connector} has status {status}, its owner is {owners[0].name}")
    elif status.state is not expected[target]:
        problems.append(f"{connector} shows {status.state} and is to be {target}")
    if target is Target.STARTED and state.task_configs(connector) != cluster.planned(connector):
        problems.append(f"{connector} has an old task set {state.task_configs(connector)}")
    if _tasks_are_known(cluster, connector):
        for task in state.tasks(connector):
            owners = all_owners.get(task, [])
            problems += _problems_of_task(task, target is Target.STARTED, shown, owners)
    return problems


def _tasks_are_known(cluster: Cluster, connector: str) -> bool:
    """Whether every worker has to know its tasks. A connector that is not started publishes no new
    set, and records of its last one may have been compacted away."""
    configs = cluster.configs
    if configs.state.target(connector) is Target.STARTED or configs.settled(connector):
        return True
    return all(worker.whole for worker in cluster.workers.values())


def _problems_of_task(
    task: TaskId, started: bool, shown: StatusState, owners: list[SimWorker]
) -> list[str]:
    if len(owners) != 1:
        return [f"{task} is assigned to {[worker.name for worker in owners]}"]
    live, status = owners[0].live.get(task), shown.task(task)
    problems: list[str] = []
    if started and (live is None or live.phase != "running"):
        problems.append(f"{task} does not run on {owners[0].name}: {live}")
    state = State.RUNNING if started else State.PAUSED
    expected = (state, owners[0].worker_id)
    if status is None or (status.state, status.worker_id) != expected:
        problems.append(f"{task} has status {status} instead of {expected}")
    return problems


def _strays(cluster: Cluster) -> list[str]:
    state = cluster.configs.state
    started = {
        task
        for connector in state.connectors()
        if state.target(connector) is Target.STARTED
        for task in state.tasks(connector)
    }
    return [
        f"{task} runs on {worker.name}, but should not run"
        for worker in cluster.workers.values()
        for task in worker.live
        if task not in started
    ]


def ghosts(cluster: Cluster) -> list[str]:
    """Statuses of connectors and tasks that do not exist."""
    state, shown = cluster.configs.state, cluster.statuses.shown()
    connectors = state.connectors()
    # A task of an inconsistent set neither runs nor is forgotten (kafka-connect.md §4.3).
    tasks = {TaskId(c, n) for c in connectors for n in range(state.task_count(c))}
    listed = [task for connector in shown.tasks for task in shown.tasks_of(connector)]
    gone = [*(set(shown.connectors) - set(connectors)), *map(str, set(listed) - tasks)]
    return [f"{item} has a status, but is gone" for item in sorted(gone)]


def _different(true: StatusState, seen: StatusState) -> list[tuple[object, object, object]]:
    """The connectors and tasks whose statuses differ, with both statuses."""
    tasks = {
        TaskId(connector, number)
        for rows in (true.tasks, seen.tasks)
        for connector, row in rows.items()
        for number in row
    }
    connectors = {*true.connectors, *seen.connectors}
    different: list[tuple[object, object, object]] = [
        (name, true.connector(name), seen.connector(name))
        for name in sorted(connectors)
        if true.connector(name) != seen.connector(name)
    ]
    return different + [
        (task, true.task(task), seen.task(task))
        for task in sorted(tasks)
        if true.task(task) != seen.task(task)
    ]
