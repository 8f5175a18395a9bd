"""Writing to the config topic: groups of records, each after the previous one was read back.

`requests` handles the results of writes. Sources: kafka-connect.md §4.2, §4.3; KIP-507, KIP-618.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.cluster import events as e
from penstock.cluster.herder.state import AcquiringAccess, Write, access_due, key_due
from penstock.cluster.herder.turn import Turn
from penstock.cluster.records import (
    ConfigRecord,
    LoggerLevel,
    RawProps,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
)
from penstock.ids import TaskId

WRITE_TIMEOUT_MS: Final = 30_000  # kafka-connect.md §4.2: one privileged operation in total
RETRY_MIN_MS: Final = 250


def publish(
    turn: Turn, reply: e.Reply | None, connector: str, configs: tuple[RawProps, ...]
) -> None:
    """Writes a task set: every task, then the commit that makes them one.

    Answers 404 for a deleted connector, 400 for tasks of a stopped one.
    Source: kafka-connect.md §4.2.
    """
    refusal = None
    if not turn.cluster.contains(connector):
        refusal = e.Refused(404, f"Connector {connector} not found")
    elif turn.cluster.target(connector) is Target.STOPPED and configs:
        text = f"Cannot submit non-empty set of task configs for stopped connector {connector}"
        refusal = e.Refused(400, text)
    if refusal is not None:
        if reply is not None:
            turn.answer(reply, refusal)
        return
    tasks = tuple(
        TaskConfig(TaskId(connector, number), config) for number, config in enumerate(configs)
    )
    groups: list[tuple[ConfigRecord, ...]] = [tasks] if tasks else []
    groups.append((TaskCommit(connector, len(configs)),))
    write(turn, connector, reply, e.Done(), groups)


def write(
    turn: Turn,
    connector: str | None,
    reply: e.Reply | None,
    result: e.Result,
    groups: list[tuple[ConfigRecord, ...]],
    *,
    read_back: bool = True,
    round: int | None = None,
) -> None:
    """Appends groups of records, each after the previous one was read back; then `reply` gets
    `result`. Without `read_back` it gets that as soon as the last group is stored."""
    first, *rest = groups
    ticket = turn.number()
    deadline = turn.now + WRITE_TIMEOUT_MS
    pending = Write(connector, reply, result, deadline, tuple(rest), read_back, round=round)
    turn.requests = turn.requests.with_write(ticket, pending)
    append(turn, ticket, first)


def append(turn: Turn, ticket: int, records: tuple[ConfigRecord, ...]) -> None:
    """Orders the next group of a write."""
    # Every worker may write target states and logger levels, so these need no transaction.
    anybody = all(isinstance(record, TargetState | LoggerLevel) for record in records)
    as_leader = turn.state.settings.transactional and not anybody
    turn.commands.append(e.AppendConfig(ticket, records, as_leader))


def acquire_write_access(turn: Turn) -> None:
    """As an elected leader, fences the producers of earlier leaders, when due."""
    due = access_due(turn.state)
    if due is not None and turn.now >= due:
        ticket = turn.number()
        turn.membership = turn.membership.with_access(AcquiringAccess(ticket))
        turn.commands.append(e.AcquireWriteAccess(ticket))


def renew_session_key(turn: Turn) -> None:
    """As leader, makes the group's next session key, when due (KIP-507)."""
    due = key_due(turn.state)
    if due is not None and turn.now >= due:
        turn.requests = replace(turn.requests, key=replace(turn.requests.key, pending=True))
        turn.commands.append(e.MakeSessionKey())
