"""What keeps a simulated cluster from being at rest, and as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.cluster.assign import Item
from penstock.cluster.records import State, Target
from penstock.cluster.state import ClusterState
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId

if TYPE_CHECKING:
    from penstock.testing.sim import Sim
    from penstock.testing.sim_worker import SimWorker


def unrest(sim: Sim) -> list[str]:
    """The same, but for statuses of what is gone: those have time until the next round."""
    found: list[str] = []
    for worker in sim.workers.values():
        found += worker.problems()
        if found:
            return found
    sim.requests = [each for each in sim.requests if each.result is None]
    for request in sim.requests:
        if not request.lost:
            found.append(f"{request.operation} at {request.at} is not answered")
    if found or not sim.workers:
        return found
    cluster, shown, owners = sim.cluster(), sim.shown(), _owners(sim)
    for connector in cluster.connectors():
        found += _problems_of(sim, connector, cluster, shown, owners)
    found += _strays(sim, cluster)
    assigned = [worker.state.membership.assigned for worker in sim.workers.values()]
    loads = {
        "connectors": [len(work.connectors) for work in assigned],
        "tasks": [len(work.tasks) for work in assigned],
    }
    if sim.protocol == "default":  # which deals both to the same circle of members
        loads = {"connectors and tasks": [len(work) for work in assigned]}
    for what, counts in loads.items():
        if max(counts) - min(counts) > 1:
            found.append(f"{what} are not balanced: {counts}")
    return found or _disagreements(sim, shown)


def _disagreements(sim: Sim, shown: StatusState) -> list[str]:
    """Workers that do not see what is true, and what one would not see that starts now."""
    for worker in sim.workers.values():
        sim.check_config(worker, worker.state.cluster, full=True)
    seen = [(worker.name, worker.state.statuses) for worker in sim.workers.values()]
    seen.append(("a worker that starts now", sim.statuses.now()))
    return [
        f"{name} sees {status} as the status of {item}, which is {true}"
        for name, statuses in seen
        for item, true, status in _different(shown, statuses)
        if not isinstance(item, TaskId) or _tasks_are_known(sim, item.connector)
    ]


def _owners(sim: Sim) -> dict[Item, list[SimWorker]]:
    owners: dict[Item, list[SimWorker]] = {}
    for worker in sim.workers.values():
        assigned = worker.state.membership.assigned
        items: tuple[Item, ...] = (*assigned.connectors, *assigned.tasks)
        for item in items:
            owners.setdefault(item, []).append(worker)
    return owners


def _problems_of(
    sim: Sim,
    connector: str,
    cluster: ClusterState,
    shown: StatusState,
    all_owners: Mapping[Item, list[SimWorker]],
) -> list[str]:
    found: list[str] = []
    target, status = cluster.target(connector), shown.connector(connector)
    owners = all_owners.get(connector, [])
    if len(owners) != 1:
        found.append(f"{connector} is assigned to {[w.name for w in owners]}")
        return found
    wanted = {
        Target.STARTED: State.RUNNING,
        Target.PAUSED: State.PAUSED,
        Target.STOPPED: State.STOPPED,
    }
    if target is None or status is None or status.worker_id != owners[0].worker_id:
        found.append(f"{connector} has status {status}, its owner is {owners[0].name}")
    elif status.state is not wanted[target]:
        found.append(f"{connector} shows {status.state} and is to be {target}")
    if target is Target.STARTED and cluster.task_configs(connector) != sim.planned(connector):
        found.append(f"{connector} has an old task set {cluster.task_configs(connector)}")
    if not _tasks_are_known(sim, connector):
        return found
    for task in cluster.tasks(connector):
        owning = all_owners.get(task, [])
        found += _problems_of_task(task, target is Target.STARTED, shown, owning)
    return found


def _tasks_are_known(sim: Sim, connector: str) -> bool:
    """Whether everybody has to know its tasks: a connector that is not started publishes no new
    set, and what its last one was made from may have been compacted away."""
    if sim.cluster().target(connector) is Target.STARTED or sim.configs.settled(connector):
        return True
    return all(worker.whole for worker in sim.workers.values())


def _problems_of_task(
    task: TaskId, started: bool, shown: StatusState, owners: list[SimWorker]
) -> list[str]:
    if len(owners) != 1:
        return [f"{task} is assigned to {[w.name for w in owners]}"]
    live, status = owners[0].live.get(task), shown.task(task)
    found: list[str] = []
    if started and (live is None or live.phase != "running"):
        found.append(f"{task} does not run on {owners[0].name}: {live}")
    state = State.RUNNING if started else State.PAUSED
    truth = (state, owners[0].worker_id)
    if status is None or (status.state, status.worker_id) != truth:
        found.append(f"{task} has status {status} instead of {truth}")
    return found


def _strays(sim: Sim, cluster: ClusterState) -> list[str]:
    started = {
        task
        for connector in cluster.connectors()
        if cluster.target(connector) is Target.STARTED
        for task in cluster.tasks(connector)
    }
    return [
        f"{task} runs on {worker.name}, but should not run"
        for worker in sim.workers.values()
        for task in worker.live
        if task not in started
    ]


def ghosts(sim: Sim) -> list[str]:
    """Statuses of connectors and tasks that do not exist."""
    cluster, shown = sim.cluster(), sim.shown()
    connectors = cluster.connectors()
    # A task of an inconsistent set neither runs nor is forgotten (kafka-connect.md §4.3).
    tasks = {TaskId(c, n) for c in connectors for n in range(cluster.task_count(c))}
    listed = [task for connector in shown.tasks for task in shown.tasks_of(connector)]
    gone = [*(set(shown.connectors) - set(connectors)), *map(str, set(listed) - tasks)]
    return [f"{item} has a status, but is gone" for item in sorted(gone)]


def _different(true: StatusState, seen: StatusState) -> list[tuple[object, object, object]]:
    """The connectors and tasks whose statuses differ, with both of them."""
    tasks = {
        TaskId(connector, number)
        for rows in (true.tasks, seen.tasks)
        for connector, row in rows.items()
        for number in row
    }
    connectors = {*true.connectors, *seen.connectors}
    found: list[tuple[object, object, object]] = [
        (name, true.connector(name), seen.connector(name))
        for name in sorted(connectors)
        if true.connector(name) != seen.connector(name)
    ]
    return found + [
        (task, true.task(task), seen.task(task))
        for task in sorted(tasks)
        if true.task(task) != seen.task(task)
    ]
