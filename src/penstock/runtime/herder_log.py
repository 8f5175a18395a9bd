"""Logs the herder's decisions at INFO, in the words of Kafka Connect's log: rebalances,
assignments, lost work, configurations, starts and stops of connectors and tasks.

The herder itself does not log. `HerderLog` compares its states before and after each event, and
looks at the commands. An ordinary event costs a few comparisons.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from penstock.cluster import events as e
from penstock.cluster.assign import Item, configured_work
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.herder.state import HerderState, Joining, Stable, Syncing
from penstock.cluster.protocol import (
    VERSIONS,
    Assignment,
    GroupBytesMalformed,
    Work,
    decode_assignment,
    decode_metadata,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    RestartRequest,
    SkippedRecord,
    TargetState,
    TaskCommit,
    decode_config,
)
from penstock.config import worker_keys as keys
from penstock.host.logs import about
from penstock.ids import TaskId

log = logging.getLogger(__name__)

_BEFORE_RUNNING: Final = frozenset({RunPhase.WAITING, RunPhase.FENCING, RunPhase.STARTING})


class HerderLog:
    """Logs what each step of a herder means to an operator."""

    def __init__(self) -> None:
        self._starting = False  # "Finished starting connectors and tasks" is due

    def observe(
        self, before: HerderState, event: e.Event, after: HerderState, commands: Sequence[e.Command]
    ) -> None:
        """Logs one step: the state before, the event, the state after and the commands."""
        match event:
            case e.MetadataRequested():
                log.info("Rebalance started")
            case e.AssignmentRequested():
                for line in _lost(before, event, after):
                    log.info(line)
            case e.Joined():
                _log_joined(event)
            case e.CoordinatorLost() if before.membership.assigned:
                log.warning(
                    "Broker coordinator was unreachable. Revoking previous assignment %s to avoid "
                    "running tasks while not being a member of the group",
                    _shown(before.membership.assigned),
                )
            case e.ConfigRead() if before.membership.ready:
                for line in _changes(
                    [decode_config(key, value) for _, key, value in event.entries]
                ):
                    log.info(line)
            case _:
                pass
        if before.membership is not after.membership:
            self._log_membership(before, after)
        for command in commands:
            _log_command(command)
        if self._starting and not _any_starting(after):
            self._starting = False
            log.info("Finished starting connectors and tasks")

    def _log_membership(self, before: HerderState, after: HerderState) -> None:
        was, now = before.membership, after.membership
        behind = isinstance(now.last, Syncing | Joining) and now.offered is not None
        if behind and now.syncing and not was.syncing and now.offered is not None:
            log.info(
                "Current config state offset %d is behind group assignment %d, reading to end of "
                "config log",
                after.cluster.offset,
                now.offered.config_offset,
            )
        if was.rejoin_at is not None and now.rejoin_at is None and isinstance(now.last, Joining):
            log.info("Requesting rebalance because scheduled rebalance timeout has been reached")
        if was.handing_over and not now.handing_over:
            log.info("Finished stopping tasks in preparation for rebalance")
        if isinstance(now.last, Stable) and now.last is not was.last:
            self._starting = True
            log.info("Starting connectors and tasks using config offset %d", after.cluster.offset)
        if now.stopping and not was.stopping:
            log.info("Herder stopping")
        if now.left and not was.left:
            log.info("Herder stopped")


def _log_joined(event: e.Joined) -> None:
    try:
        assignment = decode_assignment(event.data)
    except GroupBytesMalformed as error:
        log.warning("the leader's assignment cannot be read, rejoining the group: %s", error)
        return
    log.info(
        "Joined group at generation %d with protocol version %d and got assignment: %s with "
        "rebalance delay: %d",
        event.generation,
        VERSIONS[event.protocol],
        _assignment(assignment),
        assignment.delay_ms,
    )


def _log_command(command: e.Command) -> None:
    match command:
        case e.JoinGroup():
            log.info("(Re-)joining group")
        case e.StartConnector():
            with about(command.connector):
                log.info("Starting connector %s", command.connector)
        case e.StartTask():
            with about(command.task):
                log.info("Starting task %s", command.task)
        case e.StopTask():
            with about(command.task):
                log.info("Stopping task %s", command.task)
        case _:
            pass


def _lost(before: HerderState, event: e.AssignmentRequested, after: HerderState) -> Iterable[str]:
    """The leader's messages about connectors and tasks that no member reports any more."""
    if VERSIONS[event.protocol] == 0:
        return
    try:
        members = {name: decode_metadata(data) for name, data in event.members.items()}
    except GroupBytesMalformed:
        return  # the herder refuses, which is logged elsewhere
    earlier, memory = before.membership.leadership.memory, after.membership.leadership.memory
    if memory is earlier:
        return  # this leader is behind: it assigned nothing
    departed = sorted(earlier.members - members.keys())
    if departed:
        yield f"Members that left the group: {', '.join(departed)}"
    running = (item for member in members.values() for item in _items(member.running))
    lost = frozenset(_items(configured_work(after.cluster))) & earlier.assigned - frozenset(running)
    if not lost:
        return
    yield (
        "Found the following connectors and tasks missing from previous assignments: "
        f"{_listed(sorted(map(str, lost)))}"
    )
    if not departed and earlier.scheduled_ms <= 0:
        yield "No worker seems to have departed the group during the rebalance; reassigning them"
    elif after.settings.max_delay_ms == 0:
        yield (
            f"Scheduled rebalance delays are disabled ({keys.SCHEDULED_REBALANCE_MAX_DELAY.name} = "
            "0); reassigning all lost connectors and tasks immediately"
        )
    elif memory.delay_ms > 0:
        yield (
            "Delayed rebalance in progress. Task reassignment is postponed. New computed rebalance "
            f"delay: {memory.delay_ms}"
        )
    else:
        yield "Delayed rebalance expired. Reassigning lost tasks"


def _changes(records: Iterable[ConfigRecord | SkippedRecord]) -> Iterable[str]:
    for record in records:
        match record:
            case ConnectorConfig(name, None):
                yield f"Connector {name} config removed"
            case ConnectorConfig(name):
                yield f"Connector {name} config updated"
            case TaskCommit(name, count):
                tasks = ", ".join(str(TaskId(name, number)) for number in range(count))
                yield f"Tasks [{tasks}] configs updated"
            case TargetState(name, target) if target is not None:
                yield f"Setting connector {name} state to {target}"
            case RestartRequest(name, include_tasks, only_failed):
                yield (
                    f"Received restart request for connector {name} "
                    f"(includeTasks={include_tasks}, onlyFailed={only_failed})"
                )
            case _:
                pass


def _any_starting(state: HerderState) -> bool:
    runs = chain(state.running.connectors.values(), state.running.tasks.values())
    return any(run.phase in _BEFORE_RUNNING for run in runs)


def _items(work: Work) -> Iterable[Item]:
    yield from work.connectors
    yield from work.tasks


def _assignment(assignment: Assignment) -> str:
    return (
        f"Assignment{{error={int(assignment.error)}, leader='{assignment.leader}', "
        f"leaderUrl='{assignment.leader_url}', offset={assignment.config_offset}, "
        f"connectorIds={_listed(assignment.work.connectors)}, "
        f"taskIds={_listed(assignment.work.tasks)}, "
        f"revokedConnectorIds={_listed(assignment.revoked.connectors)}, "
        f"revokedTaskIds={_listed(assignment.revoked.tasks)}, delay={assignment.delay_ms}}}"
    )


def _shown(work: Work) -> str:
    return f"connectorIds={_listed(work.connectors)}, taskIds={_listed(work.tasks)}"


def _listed(items: Iterable[Item]) -> str:
    return f"[{', '.join(map(str, items))}]"
