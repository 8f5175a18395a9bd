"""Restarts: requested ones (KIP-745), and automatic ones after failures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from penstock.cluster.assign import Item
from penstock.cluster.herder import statuses
from penstock.cluster.herder.runs import Run, RunPhase
from penstock.cluster.herder.turn import Turn
from penstock.cluster.records import RestartRequest, State, Target
from penstock.cluster.recovery import Recovery
from penstock.ids import TaskId

_PAUSED_LOOK_MS: Final = 5_000  # until the target state is checked again


def restart(turn: Turn, request: RestartRequest) -> None:
    """Restarts this worker's share of a connector (KIP-745)."""
    connector, only_failed = request.connector, request.only_failed
    run = turn.connectors.get(connector)
    if run is not None and (not only_failed or run.phase is RunPhase.FAILED):
        restart_connector(turn, connector)
    if not request.include_tasks:
        return
    for task in [task for task in turn.tasks if task.connector == connector]:
        owned = turn.tasks.get(task)
        if owned is not None and (not only_failed or owned.phase is RunPhase.FAILED):
            restart_task(turn, task)


def restart_connector(turn: Turn, connector: str) -> None:
    """Restarts this worker's connector instance."""
    statuses.put_connector(turn, connector, State.RESTARTING)
    turn.connectors.mark_stale(connector)


def restart_task(turn: Turn, task: TaskId) -> None:
    """Restarts this worker's task."""
    statuses.put_task(turn, task, State.RESTARTING)
    turn.tasks.mark_stale(task)


def recover(turn: Turn, item: Item, trace: str, retriable: bool) -> str:
    """Schedules the restart of a failed item, if its policy has one. Returns the trace with a note
    about it."""
    config = turn.cluster.config(_connector(item)) or {}
    policy = turn.state.settings.restarts(config)
    if not policy.covers(retriable):
        return trace
    before = turn.running.recoveries.get(item, Recovery())
    recovery = before.failed(policy, turn.now, str(item))
    turn.running = turn.running.with_recovery(item, recovery)
    return f"{trace.rstrip()}\n\n{recovery.note(policy, turn.now)}\n"


def forget_recovery(turn: Turn, item: Item) -> None:
    """Forgets the failures of an item that leaves."""
    turn.running = turn.running.with_recovery(item, None)


def on_restarted(turn: Turn, item: Item) -> None:
    """Cancels the scheduled restart of a starting item."""
    recovery = turn.running.recoveries.get(item)
    if recovery is not None and recovery.at is not None:
        turn.running = turn.running.with_recovery(item, recovery.restarted())


def recover_due(turn: Turn) -> None:
    """Restarts the failed items that are due."""
    if not turn.membership.may_start():
        return
    for item, recovery in list(turn.running.recoveries.items()):
        if recovery.at is None or turn.now < recovery.at:
            continue
        if turn.cluster.target(_connector(item)) is not Target.STARTED:
            later = replace(recovery, at=turn.now + _PAUSED_LOOK_MS)  # it must not run now
            turn.running = turn.running.with_recovery(item, later)
            continue
        on_restarted(turn, item)
        if isinstance(item, TaskId):
            if _has_failed(turn.tasks.get(item)):
                restart_task(turn, item)
        elif _has_failed(turn.connectors.get(item)):
            restart_connector(turn, item)


def _connector(item: Item) -> str:
    return item.connector if isinstance(item, TaskId) else item


def _has_failed(run: Run | None) -> bool:
    return run is not None and run.phase is RunPhase.FAILED


def widest(requests: Iterable[RestartRequest]) -> list[RestartRequest]:
    """The request with the widest effect for each connector (KIP-745)."""
    by_connector: dict[str, RestartRequest] = {}
    for request in requests:
        known = by_connector.get(request.connector, request)
        by_connector[request.connector] = max(
            (known, request), key=lambda each: (each.include_tasks, not each.only_failed)
        )
    return list(by_connector.values())
