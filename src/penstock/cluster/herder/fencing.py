"""Zombie fencing: the leader's rounds, and what this worker's own tasks wait for (KIP-618).

A round reads the config topic, fences the producers of the zombie source tasks, reads again, and
records the task count; only then may the new task set start. Source: kafka-connect.md §4.8.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.backoff import Backoff
from penstock.cluster import events as e
from penstock.cluster.fencing import (
    GIVE_UP_MS,
    LOST_LEADERSHIP,
    NOT_READ,
    NOT_READ_AGAIN,
    PERMANENT,
    FencingStage,
    Preflight,
    Round,
    need,
)
from penstock.cluster.herder import restarts, statuses, writes
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import NoAccess
from penstock.cluster.herder.turn import Turn
from penstock.cluster.herder.writes import RETRY_MIN_MS
from penstock.cluster.records import RawProps, State, TaskFencing

_BACKOFF: Final = Backoff(RETRY_MIN_MS, 5_000)


def serve_fence(turn: Turn, reply: e.Reply, connector: str) -> e.Result | None:
    """Answers a worker once the zombie tasks of a source connector are fenced (None); 404 or 400 at
    once if there is no such connector."""
    config = turn.cluster.config(connector)
    if config is None:
        return e.Refused(404, f"Connector {connector} not found")
    if not turn.state.settings.is_source(config):
        text = f"Connector {connector} is not a source connector"
        return e.Refused(400, text)
    round = _join_round(turn, connector)
    _set_round(turn, connector, replace(round, waiting=(*round.waiting, reply)))
    return None


def _join_round(turn: Turn, connector: str) -> Round:
    """The existing round, or a new one, which begins by reading the config topic."""
    round = turn.fencing.rounds.get(connector)
    if round is None:
        round = Round(turn.number(), FencingStage.READING)
        timeout_ms = turn.state.settings.sync_timeout_ms
        turn.commands.append(e.ReadConfigToEnd(timeout_ms, round.ticket))
    return round


def _set_round(turn: Turn, connector: str, round: Round) -> None:
    turn.fencing = turn.fencing.with_round(connector, round)


def on_round_read(turn: Turn, event: e.ConfigEndReached) -> None:
    """The config topic was read for a round, before or after its fencing."""
    matching = (item for item in turn.fencing.rounds.items() if item[1].ticket == event.ticket)
    connector, round = next(matching, ("", None))
    if round is None:
        return  # it is over
    if round.stage is FencingStage.CHECKING:
        if event.in_time:  # a newer task set would have ended the round when it was read
            _set_round(turn, connector, replace(round, stage=FencingStage.RECORDING))
        else:
            end_round(turn, connector, NOT_READ_AGAIN)
        return
    config = turn.cluster.config(connector)
    if not event.in_time:
        end_round(turn, connector, NOT_READ)
    elif config is None:
        end_round(turn, connector, e.Refused(404, f"Connector {connector} not found"))
    elif (needed := need(turn.cluster, connector)) is None:
        end_round(turn, connector, e.Done())
    elif needed.fence:
        _set_round(turn, connector, replace(round, stage=FencingStage.FENCING, tasks=needed.tasks))
        fence = e.FenceProducers(connector, round.ticket, config, needed.fence)
        turn.commands.append(fence)
    else:
        _set_round(
            turn, connector, replace(round, stage=FencingStage.RECORDING, tasks=needed.tasks)
        )


def on_fenced(turn: Turn, event: e.ProducersFenced) -> None:
    """The producers of the zombie tasks are fenced; is the task set still the newest?"""
    round = turn.fencing.rounds.get(event.connector)
    if round is None or round.ticket != event.ticket:
        return
    if event.error is not None:
        text = f"Failed to perform zombie fencing: {event.error}"
        end_round(turn, event.connector, e.Refused(500, text))
        return
    _set_round(turn, event.connector, replace(round, stage=FencingStage.CHECKING))
    timeout_ms = turn.state.settings.sync_timeout_ms
    turn.commands.append(e.ReadConfigToEnd(timeout_ms, round.ticket))


def record_rounds(turn: Turn) -> None:
    """Records the task counts of the rounds that have fenced; never while another record about
    the connector is being written."""
    recording = [
        (connector, round)
        for connector, round in turn.fencing.rounds.items()
        if round.stage is FencingStage.RECORDING
    ]
    if not recording or not turn.state.may_write():
        return
    writing = turn.requests.writing()
    for connector, round in recording:
        if connector not in writing:
            _set_round(turn, connector, replace(round, stage=FencingStage.WRITING))
            record = TaskFencing(connector, round.tasks)
            writes.write(turn, connector, None, e.Done(), [(record,)], round=round.ticket)


def end_round(turn: Turn, connector: str, result: e.Result, *, of: int | None = None) -> None:
    """Answers all who wait for a round; `of` is its ticket, None: any."""
    round = turn.fencing.rounds.get(connector)
    if round is None or of not in (None, round.ticket):
        return
    turn.fencing = turn.fencing.with_round(connector, None)
    for reply in round.waiting:
        turn.answer(reply, result)
    if round.own:
        on_fence_answer(turn, connector, round.own, result)


def needs_fencing(turn: Turn, config: RawProps) -> bool:
    """Whether tasks of this configuration wait for zombie fencing."""
    return turn.state.settings.exactly_once and turn.state.settings.is_source(config)


def ask_fences(turn: Turn) -> None:
    """Asks the leader for the rounds that tasks wait for; drops those no task waits for."""
    if not turn.fencing.preflights:
        return
    waiting = {task.connector for task, run in turn.tasks.items() if run.phase is RunPhase.FENCING}
    for connector, preflight in list(turn.fencing.preflights.items()):
        if connector not in waiting:
            turn.fencing = turn.fencing.with_preflight(connector, None)
        elif not preflight.ticket and not preflight.granted and turn.now >= preflight.at:
            _ask_fence(turn, connector, preflight)


def _ask_fence(turn: Turn, connector: str, preflight: Preflight) -> None:
    if not turn.state.may_ask_fence():
        return
    ticket = turn.number()
    sent = replace(preflight, ticket=ticket, attempts=preflight.attempts + 1)
    turn.fencing = turn.fencing.with_preflight(connector, sent)
    if turn.membership.leads:
        _set_round(turn, connector, replace(_join_round(turn, connector), own=ticket))
    elif (url := turn.membership.leader_url) is not None:
        turn.commands.append(e.ForwardFence(url, connector, ticket))


def on_fence_answer(turn: Turn, connector: str, ticket: int, result: e.Result) -> None:
    """A round is over, here or on the leader: its tasks start or fail, or it is requested again."""
    preflight = turn.fencing.preflights.get(connector)
    if preflight is None or preflight.ticket != ticket:
        return  # of an older task set, or of an older leader
    tasks = [
        (task, run)
        for task, run in turn.tasks.items()
        if task.connector == connector and run.phase is RunPhase.FENCING
    ]
    over = turn.now - preflight.since >= GIVE_UP_MS
    if isinstance(result, e.Done):
        granted = replace(preflight, granted=True)
        turn.fencing = turn.fencing.with_preflight(connector, granted)
        turn.tasks.touch(task for task, _ in tasks)
    elif isinstance(result, e.Refused) and (result.status in PERMANENT or over):
        turn.fencing = turn.fencing.with_preflight(connector, None)
        for task, run in tasks:
            trace = restarts.recover(turn, task, result.message, result.status not in PERMANENT)
            turn.tasks.set(task, replace(run, phase=RunPhase.FAILED, trace=trace))
            statuses.put_task(turn, task, State.FAILED, trace)
    else:
        delay = int(_BACKOFF.delay_ms(preflight.attempts))
        later = replace(preflight, ticket=0, at=turn.now + delay)
        turn.fencing = turn.fencing.with_preflight(connector, later)


def check_start(turn: Turn, check: e.CheckStart) -> e.Result:
    """The last check before a task reads its offsets (KIP-618). Answered at once: a task that
    waits for it must not delay a rebalance."""
    task, run = check.task, turn.tasks.get(check.task)
    if turn.cluster.generation(task.connector) != check.generation:
        text = (
            f"Cannot start source task {task} with exactly-once support as the connector has "
            "already generated a new set of task configs"
        )
        return e.Refused(500, text)
    if run is None or run.run != check.run or not turn.is_ours(task):
        text = f"Cannot start source task {task} as it has already been revoked from this worker"
        return e.Refused(500, text)
    return e.Done()


def lose_leadership(turn: Turn) -> None:
    """Drops the write access and the rounds of a leader, and requests to the previous one."""
    turn.membership = turn.membership.with_access(NoAccess(turn.now))
    for connector in list(turn.fencing.rounds):
        end_round(turn, connector, LOST_LEADERSHIP)
    preflights = {
        connector: replace(preflight, ticket=0, at=turn.now)
        for connector, preflight in turn.fencing.preflights.items()
    }
    turn.fencing = replace(turn.fencing, preflights=preflights)
