"""Task configurations: a connector instance generates them, and the leader publishes them.

A running connector generates them again when it requests a reconfiguration, and periodically if
what it reads from may change. Sources: kafka-connect.md §5.7, §6.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.backoff import Backoff
from penstock.cluster import events as e
from penstock.cluster.herder import restarts, statuses, writes
from penstock.cluster.herder.runs import Run, RunPhase
from penstock.cluster.herder.state import Replan, Retry
from penstock.cluster.herder.turn import Turn
from penstock.cluster.herder.writes import RETRY_MIN_MS
from penstock.cluster.records import RawProps, State

_BACKOFF: Final = Backoff(RETRY_MIN_MS, 60_000)
_NEVER_MS: Final = 1 << 50


def on_planned(turn: Turn, event: e.ConnectorPlanned) -> None:
    """A connector instance runs, and has generated its task configurations; or it failed."""
    name = event.connector
    run = turn.connectors.get(name)
    if run is None or run.run != event.run:
        return  # revoked or restarted meanwhile
    if run.phase is RunPhase.RUNNING and not run.stale:
        _on_repeated(turn, event)
        return
    if run.phase is not RunPhase.STARTING:
        return
    if event.trace is not None:
        _fail(turn, name, run, event.trace, event.retriable)
        return
    turn.connectors.set(name, replace(run, phase=RunPhase.RUNNING))
    if run.stale:
        return  # made from a configuration that has been replaced
    statuses.put_connector(turn, name, State.RUNNING)
    if event.again_ms is not None:
        asking = Replan(turn.now + event.again_ms, event.again_ms)
        turn.running = turn.running.with_asking(name, asking)
    _adopt(turn, name, event.configs)


def on_connector_failed(turn: Turn, event: e.ConnectorFailed) -> None:
    """A running connector instance has failed by itself; its tasks keep running."""
    run = turn.connectors.get(event.connector)
    if run is None or run.run != event.run or run.phase is not RunPhase.RUNNING:
        return  # stopped, revoked or restarted meanwhile
    turn.running = turn.running.with_asking(event.connector, None)
    _fail(turn, event.connector, run, event.trace, event.retriable)


def _fail(turn: Turn, name: str, run: Run, trace: str, retriable: bool) -> None:
    trace = restarts.recover(turn, name, trace, retriable)
    turn.connectors.set(name, replace(run, phase=RunPhase.FAILED, trace=trace))
    statuses.put_connector(turn, name, State.FAILED, trace)


def on_reconfiguration(turn: Turn, event: e.ReconfigurationRequested) -> None:
    """Orders a running connector to generate its task configurations now; if it already does, again
    afterwards."""
    run = turn.connectors.get(event.connector)
    if run is None or run.run != event.run or run.phase is not RunPhase.RUNNING:
        return  # a starting one does so anyway
    known = turn.running.asking.get(event.connector)
    asking = Replan(turn.now, _NEVER_MS) if known is None else replace(known, at=turn.now)
    if known is not None and known.at is None:
        asking = replace(known, again=True)
    turn.running = turn.running.with_asking(event.connector, asking)
    ask_due(turn)


def _on_repeated(turn: Turn, event: e.ConnectorPlanned) -> None:
    """Adopts the task configurations of a running connector. If it failed to generate them, it
    keeps the current ones and retries later: its tasks notice an outage by themselves."""
    asking = turn.running.asking.get(event.connector)
    if asking is None or asking.at is not None:
        return  # no longer needed
    every_ms = event.again_ms or asking.every_ms
    later = Replan(turn.now if asking.again else turn.now + every_ms, every_ms)
    turn.running = turn.running.with_asking(event.connector, later)
    if event.trace is None:
        _adopt(turn, event.connector, event.configs)


def _adopt(turn: Turn, name: str, configs: tuple[RawProps, ...]) -> None:
    """Submits a task set if it differs from the current one."""
    cluster = turn.cluster
    entry = cluster.entries.get(name)
    same = (
        entry is not None
        and not entry.inconsistent
        and not entry.deferred  # records newer than the commit: compaction leaves it with holes
        and entry.applied_config == entry.config
        and cluster.task_configs(name) == configs
    )
    if same:
        turn.running = turn.running.with_retry(name, None)
    else:
        turn.requests = turn.requests.with_plan(name, configs)


def replan_later(turn: Turn, connector: str) -> None:
    """Restarts a connector after a delay, because its task set could not be published."""
    if connector not in turn.connectors:
        return  # revoked: its owner generates them anyway
    retry = turn.running.retries.get(connector, Retry(None, 0))
    delay = int(_BACKOFF.delay_ms(retry.attempts + 1))
    retry = Retry(turn.now + delay, retry.attempts + 1)
    turn.running = turn.running.with_retry(connector, retry)


def ask_due(turn: Turn) -> None:
    """Orders the due connectors to generate their task configurations again."""
    for name, asking in list(turn.running.asking.items()):
        if asking.at is None or turn.now < asking.at:
            continue
        run, config = turn.connectors.get(name), turn.cluster.config(name)
        if run is None or config is None or run.phase is not RunPhase.RUNNING or run.stale:
            turn.running = turn.running.with_asking(name, None)
        elif not turn.membership.may_start():
            later = replace(asking, at=turn.now + asking.every_ms)
            turn.running = turn.running.with_asking(name, later)
        else:
            turn.running = turn.running.with_asking(name, replace(asking, at=None))
            turn.commands.append(e.AskConnector(name, run.run, config))


def hand_in(turn: Turn, connector: str, configs: tuple[RawProps, ...]) -> None:
    """Publishes a task set of this worker's connector instance, or forwards it to the leader."""
    if turn.membership.leads:
        writes.publish(turn, None, connector, configs)
    elif (url := turn.membership.leader_url) is not None:
        turn.commands.append(e.ForwardTasks(url, connector, configs))
    else:
        replan_later(turn, connector)


def on_forwarded(turn: Turn, event: e.TasksForwarded) -> None:
    """The leader has published a task set, or has not."""
    if event.error is None:
        turn.running = turn.running.with_retry(event.connector, None)
    else:
        replan_later(turn, event.connector)


def retry_due(turn: Turn) -> None:
    """Restarts the connectors whose task sets could not be published."""
    for connector, retry in list(turn.running.retries.items()):
        if retry.at is not None and turn.now >= retry.at:
            turn.running = turn.running.with_retry(connector, replace(retry, at=None))
            turn.connectors.mark_stale(connector)
