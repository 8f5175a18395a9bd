"""What a worker writes to the status topic: statuses of its connectors and tasks, corrections.

A status counts once it is read back. Sources: kafka-connect.md §4.4, §5.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.cluster import events as e
from penstock.cluster.herder.runs import SHOWN
from penstock.cluster.herder.turn import Turn
from penstock.cluster.records import (
    ConnectorStatus,
    SkippedRecord,
    State,
    Status,
    TaskStatus,
    TopicStatus,
    TopicUse,
    decode_status,
)
from penstock.cluster.statuses import fold_statuses, may_put_safely
from penstock.ids import TaskId


def on_statuses(turn: Turn, event: e.StatusRead) -> None:
    """Folds the records; the owner corrects wrong statuses of its connectors and tasks."""
    records = [decode_status(key, value) for key, value in event.entries]
    before = turn.statuses
    turn.statuses = fold_statuses(before, records)
    last: dict[TaskId, Status | None] = {}
    for record in records:
        match record:
            case SkippedRecord(reason):
                turn.commands.append(e.NoteSkipped("status", None, reason))
            case ConnectorStatus(name, None):
                if turn.membership.leads:
                    _forget_tasks(turn, [*before.tasks_of(name), *last], name)
                _correct_connector(turn, name)
                for task in [task for task in turn.tasks if task.connector == name]:
                    _correct_task(turn, task)  # they are forgotten with their connector
            case ConnectorStatus(name):
                _correct_connector(turn, name)
            case TaskStatus(task):
                last[task] = record.status
                _correct_task(turn, task)
            case _:
                pass
    for task, status in last.items():
        _say_again(turn, task, status)


def on_topic_used(turn: Turn, event: e.TopicUsed) -> None:
    """Records that a connector uses a topic, unless that is known (KIP-558)."""
    name = event.task.connector
    known = turn.statuses.topics.get(name, {})
    if (
        turn.state.settings.topic_tracking
        and event.topic not in known
        and turn.cluster.contains(name)
    ):
        use = TopicUse(event.task.number, turn.now)
        append_status(turn, TopicStatus(event.topic, name, use))


def clear_statuses(turn: Turn) -> None:
    """Writes tombstones for what is no longer configured, as leader after a rebalance
    (kafka-connect.md §5.7)."""
    cluster, statuses = turn.cluster, turn.statuses
    for connector in sorted(statuses.names() | frozenset(statuses.topics)):
        exists = cluster.contains(connector)
        if not exists:
            for topic in statuses.topics_of(connector):
                append_status(turn, TopicStatus(topic, connector, None))
        count = cluster.task_count(connector)
        for number in sorted(statuses.tasks.get(connector, {})):
            if number >= count:
                append_status(turn, TaskStatus(TaskId(connector, number), None))
        if not exists and statuses.connector(connector) is not None:
            append_status(turn, ConnectorStatus(connector, None))


def correct_statuses(turn: Turn) -> None:
    """Corrects the known statuses; others may not have arrived."""
    statuses = turn.statuses
    for connector in turn.connectors:
        known = statuses.connectors.get(connector)
        if known is not None and _is_outdated(turn, known):
            _correct_connector(turn, connector)
    none: Mapping[int, Status] = {}
    for task in turn.tasks:
        known = statuses.tasks.get(task.connector, none).get(task.number)
        if known is not None and _is_outdated(turn, known):
            _correct_task(turn, task)


def _forget_tasks(turn: Turn, known: Iterable[TaskId], connector: str) -> None:
    """Writes a tombstone for each task: their connector's may be compacted away."""
    for task in dict.fromkeys(known):
        if task.connector == connector and turn.statuses.task(task) is None:
            append_status(turn, TaskStatus(task, None))


def _say_again(turn: Turn, task: TaskId, status: Status | None) -> None:
    """Writes the owner's status again after a late UNASSIGNED. Readers ignore that one
    (kafka-connect.md §4.4), but not once compaction has removed the status before it."""
    run = turn.tasks.get(task)
    late = status is not None and status != turn.statuses.task(task)
    if late and run is not None and run.phase in SHOWN and turn.is_ours(task):
        put_task(turn, task, SHOWN[run.phase], run.trace)


def _correct_connector(turn: Turn, name: str) -> None:
    run, cached = turn.connectors.get(name), turn.statuses.connector(name)
    if run is None or run.phase not in SHOWN or not turn.is_ours(name):
        return
    if _is_outdated(turn, cached):
        put_connector(turn, name, SHOWN[run.phase], run.trace)


def _correct_task(turn: Turn, task: TaskId) -> None:
    run, cached = turn.tasks.get(task), turn.statuses.task(task)
    if run is None or run.phase not in SHOWN or not turn.is_ours(task):
        return
    if _is_outdated(turn, cached):
        put_task(turn, task, SHOWN[run.phase], run.trace)


def _is_outdated(turn: Turn, cached: Status | None) -> bool:
    """Whether there is no status, or the last is by another worker of an older generation."""
    return cached is None or (
        cached.worker_id != turn.state.settings.worker_id
        and cached.generation < turn.membership.generation
    )


def put_connector(turn: Turn, name: str, state: State, trace: str | None = None) -> None:
    """Writes a connector's status, unless it is deleted or another worker's is newer."""
    cached = turn.statuses.connector(name)
    if turn.cluster.contains(name) and _may_put(turn, state, cached):
        append_status(turn, ConnectorStatus(name, _status(turn, state, trace)))


def put_task(turn: Turn, task: TaskId, state: State, trace: str | None = None) -> None:
    """Writes a task's status, unless it is deleted or another worker's is newer."""
    if turn.exists(task) and _may_put(turn, state, turn.statuses.task(task)):
        append_status(turn, TaskStatus(task, _status(turn, state, trace)))


def _may_put(turn: Turn, state: State, cached: Status | None) -> bool:
    safe = state in (State.UNASSIGNED, State.FAILED)
    me = turn.state.settings.worker_id
    return not safe or may_put_safely(cached, me, turn.membership.generation)


def _status(turn: Turn, state: State, trace: str | None) -> Status:
    return Status(state, turn.state.settings.worker_id, turn.membership.generation, trace)


def append_status(turn: Turn, record: ConnectorStatus | TaskStatus | TopicStatus) -> None:
    """Orders a record of the status topic."""
    turn.commands.append(e.AppendStatus(record))
