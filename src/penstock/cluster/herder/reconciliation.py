"""Reconciliation: what runs on this worker against its assignment and the target states.

After any event the difference is commanded: starts, stops, restarts, pauses. There are no
multi-step procedures that could stop halfway. Sources: kafka-connect.md §5.5, §5.7, §6.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from penstock.cluster import events as e
from penstock.cluster.fencing import NEW_TASKS, Preflight
from penstock.cluster.herder import fencing, membership, restarts, statuses
from penstock.cluster.herder.runs import SHOWN, Run, RunPhase
from penstock.cluster.herder.turn import Turn
from penstock.cluster.protocol import NO_WORK
from penstock.cluster.records import State, Target
from penstock.cluster.state import NO_CHANGES, Changes
from penstock.ids import TaskId

WARMING_UP: Final = "Spark is starting on this worker; the task starts as soon as it is ready."


def react(turn: Turn, changes: Changes) -> None:
    """Marks what is affected by new records of the config topic."""
    if changes == NO_CHANGES:
        return
    # Sorted, because the order of a set differs between processes.
    for connector in sorted(changes.updated | changes.added):
        turn.connectors.mark_stale(connector)
    for task in sorted(changes.tasks):
        turn.tasks.mark_stale(task)
    for connector in sorted(changes.targets):
        # A resumed connector generates its task configurations again (kafka-connect.md §5.7); one
        # that failed has to be restarted before it is resumed (kafka-connect.md §6.2).
        run = turn.connectors.get(connector)
        if run is not None and run.phase is not RunPhase.FAILED:
            turn.connectors.mark_stale(connector)
    for connector in sorted(changes.committed | changes.removed):
        # Earlier rounds and preflights are about an older task set.
        fencing.end_round(turn, connector, NEW_TASKS)
        turn.fencing = turn.fencing.with_preflight(connector, None)
    for request in restarts.widest(changes.restarts):
        restarts.restart(turn, request)
    for change in changes.logger_levels:
        turn.commands.append(e.ApplyLevel(change.namespace, change.level))
    if changes.need_rebalance:
        membership.join(turn)
    touched = changes.removed | changes.committed | changes.targets
    if touched:
        turn.connectors.touch(c for c in turn.connectors if c in touched)
        turn.tasks.touch(task for task in turn.tasks if task.connector in touched)


def on_task_started(turn: Turn, event: e.TaskStarted) -> None:
    """A task runs."""
    run = turn.tasks.get(event.task)
    if run is None or run.run != event.run or run.phase is not RunPhase.STARTING:
        return  # stopped, or failed meanwhile
    turn.tasks.set(event.task, replace(run, phase=RunPhase.RUNNING))
    if turn.is_ours(event.task):
        statuses.put_task(turn, event.task, State.RUNNING)


def on_task_failed(turn: Turn, event: e.TaskFailed) -> None:
    """A task has failed; its restart may be scheduled."""
    run = turn.tasks.get(event.task)
    if run is None or run.run != event.run or run.phase is RunPhase.STOPPING:
        return  # stopped or revoked meanwhile: its owner reports it
    if not turn.is_ours(event.task):  # it would have been stopped anyway
        turn.tasks.set(event.task, None)
        restarts.forget_recovery(turn, event.task)
        statuses.put_task(turn, event.task, State.UNASSIGNED)
        return
    trace = restarts.recover(turn, event.task, event.trace, event.retriable)
    turn.tasks.set(event.task, replace(run, phase=RunPhase.FAILED, trace=trace))
    statuses.put_task(turn, event.task, State.FAILED, trace)


def on_task_stopped(turn: Turn, event: e.TaskStopped) -> None:
    """A task has stopped."""
    run = turn.tasks.get(event.task)
    if run is None or run.run != event.run:
        return
    turn.tasks.set(event.task, None)
    if not turn.is_ours(event.task):
        restarts.forget_recovery(turn, event.task)
    if not turn.is_ours(event.task) or not turn.membership.may_start():
        statuses.put_task(turn, event.task, State.UNASSIGNED)


def touch(turn: Turn) -> None:
    """Marks what a change of the membership, or of Spark, may affect."""
    before, after = turn.before.membership, turn.membership
    assigned = after.assigned
    if assigned is not before.assigned or after.stopping is not before.stopping:
        # What runs comes first, so that stops precede starts (kafka-connect.md §16.3).
        turn.connectors.touch((*turn.connectors, *assigned.connectors))
        turn.tasks.touch((*turn.tasks, *assigned.tasks))
    elif turn.running.spark_ready is not turn.before.running.spark_ready or (
        after.may_start() and not before.may_start()
    ):
        turn.connectors.touch_unsettled(assigned.connectors)
        turn.tasks.touch_unsettled(assigned.tasks)


def settle_touched(turn: Turn) -> None:
    """Commands the difference for every marked connector and task."""
    connectors, turn.connectors.touched = turn.connectors.touched, {}
    for connector in connectors:
        _settle_connector(turn, connector)
    tasks, turn.tasks.touched = turn.tasks.touched, {}
    for task in tasks:
        _settle_task(turn, task)
    turn.connectors.touched.clear()
    turn.tasks.touched.clear()


def _settle_connector(turn: Turn, name: str) -> None:
    run = turn.connectors.get(name)
    config = turn.cluster.config(name)
    if not turn.is_ours(name) or config is None:
        if run is not None:
            turn.connectors.set(name, None)
            turn.running = turn.running.with_retry(name, None).with_asking(name, None)
            turn.requests = turn.requests.with_plan(name, None)
            restarts.forget_recovery(turn, name)
            statuses.put_connector(turn, name, State.UNASSIGNED)
        return
    target = turn.cluster.target(name)
    failed = run is not None and run.phase is RunPhase.FAILED and not run.stale
    if failed and target is not Target.STOPPED:
        return  # a failed connector only obeys a stop (kafka-connect.md §6.2)
    if target is Target.PAUSED or target is Target.STOPPED:
        phase = RunPhase.PAUSED if target is Target.PAUSED else RunPhase.STOPPED
        if run is None or run.phase is not phase or run.stale:
            restarts.on_restarted(turn, name)
            turn.running = turn.running.with_asking(name, None)
            turn.connectors.set(name, Run(turn.number(), phase))
            statuses.put_connector(turn, name, SHOWN[phase])
        return
    at_rest = run is not None and run.phase in (RunPhase.PAUSED, RunPhase.STOPPED)
    if (run is not None and not at_rest and not run.stale) or not turn.membership.may_start():
        return
    number = turn.number()
    turn.connectors.set(name, Run(number, RunPhase.STARTING))
    restarts.on_restarted(turn, name)
    turn.requests = turn.requests.with_plan(name, None)
    turn.running = turn.running.with_asking(name, None)
    turn.commands.append(e.StartConnector(name, number, config))


def _settle_task(turn: Turn, task: TaskId) -> None:
    run = turn.tasks.get(task)
    ours = turn.is_ours(task) and turn.exists(task)
    should_run = ours and turn.cluster.target(task.connector) is Target.STARTED
    if run is None:
        if ours:
            _begin(turn, task, should_run)
        return
    match run.phase:
        case RunPhase.STARTING | RunPhase.STOPPING:
            return  # its TaskStarted or TaskStopped will follow
        case RunPhase.RUNNING:
            if not should_run or run.stale:
                turn.tasks.set(task, replace(run, phase=RunPhase.STOPPING))
                turn.commands.append(e.StopTask(task, run.run))
        case (
            RunPhase.WAITING
            | RunPhase.FENCING
            | RunPhase.PAUSED
            | RunPhase.FAILED
            | RunPhase.STOPPED
        ):
            if not ours:
                turn.tasks.set(task, None)
                restarts.forget_recovery(turn, task)
                if run.phase is not RunPhase.FAILED:  # a failed task keeps its status
                    statuses.put_task(turn, task, State.UNASSIGNED)
            elif run.stale or _may_move_on(turn, run.phase, should_run):
                _begin(turn, task, should_run)
            elif run.phase is RunPhase.FENCING and turn.fencing.granted(task.connector):
                _start(turn, task, run.run, unclean=run.unclean)
        case _:
            assert_never(run.phase)


def _may_move_on(turn: Turn, phase: RunPhase, should_run: bool) -> bool:
    match phase:
        case RunPhase.WAITING:
            return turn.running.spark_ready or not should_run
        case RunPhase.FENCING:
            return not should_run
        case RunPhase.PAUSED:
            return should_run
        case _:
            # kafka-connect.md §6.1: a failed task stays failed until it is restarted
            return False


def _begin(turn: Turn, task: TaskId, should_run: bool) -> None:
    """Starts a task of ours that is not running, or pauses it before it starts."""
    restarts.on_restarted(turn, task)
    if not should_run:
        turn.tasks.set(task, Run(turn.number(), RunPhase.PAUSED))
        statuses.put_task(turn, task, State.PAUSED)
        return
    config = turn.cluster.config(task.connector)
    known = turn.cluster.task_config(task) is not None
    if config is None or not known or not turn.membership.may_start():
        return
    number, unclean = turn.number(), _ended_uncleanly(turn, task)
    if not turn.running.spark_ready:
        turn.tasks.set(task, Run(number, RunPhase.WAITING, unclean=unclean))
        statuses.put_task(turn, task, State.UNASSIGNED, WARMING_UP)
    elif fencing.needs_fencing(turn, config) and not turn.fencing.granted(task.connector):
        turn.tasks.set(task, Run(number, RunPhase.FENCING, unclean=unclean))
        if task.connector not in turn.fencing.preflights:
            wish = Preflight(turn.now, at=turn.now)
            turn.fencing = turn.fencing.with_preflight(task.connector, wish)
    else:
        _start(turn, task, number, unclean=unclean)


def _ended_uncleanly(turn: Turn, task: TaskId) -> bool:
    """Whether the task's last run may not have left its consumer group: it failed, or its worker
    died, so that its status is still RUNNING though no worker runs it."""
    run = turn.tasks.get(task)
    if run is not None:
        return run.unclean or run.phase is RunPhase.FAILED
    status = turn.statuses.task(task)
    return status is not None and status.state is State.RUNNING


def _start(turn: Turn, task: TaskId, number: int, *, unclean: bool) -> None:
    """Starts a task whose zombies are fenced, or that needs no fencing."""
    cluster = turn.cluster
    config, task_config = cluster.config(task.connector), cluster.task_config(task)
    if config is None or task_config is None or not turn.membership.may_start():
        return
    turn.tasks.set(task, Run(number, RunPhase.STARTING))
    generation = cluster.generation(task.connector)
    turn.commands.append(e.StartTask(task, number, config, task_config, generation, unclean))


def finish_handing_over(turn: Turn) -> None:
    """Rejoins once everything revoked has stopped, so that it can be assigned (kafka-connect.md
    §5.5)."""
    revoked = turn.membership.handing_over
    if revoked and not any(task in turn.tasks for task in revoked.tasks):
        turn.membership = replace(turn.membership, handing_over=NO_WORK)
        membership.join(turn)
