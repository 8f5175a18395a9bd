"""REST requests: when and by which worker they are served, and when they are answered.

A request is served between rebalances, and one that writes is answered once the worker has read its
records back. Sources: kafka-connect.md §4.2, §5.7; KIP-745, KIP-875.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from penstock.cluster import events as e
from penstock.cluster.assign import Item
from penstock.cluster.herder import fencing, restarts, statuses, task_configs, writes
from penstock.cluster.herder.state import KeyRotation, NoAccess, WriteAccess
from penstock.cluster.herder.turn import Turn
from penstock.cluster.herder.writes import RETRY_MIN_MS, WRITE_TIMEOUT_MS
from penstock.cluster.records import (
    ConnectorConfig,
    LoggerLevel,
    RawProps,
    RestartRequest,
    State,
    Status,
    Target,
    TargetState,
    TaskCommit,
    TopicStatus,
)
from penstock.ids import TaskId

_SHUTTING_DOWN: Final = e.Refused(500, "Worker is shutting down")
_WRITE_FAILED: Final = (
    "Failed to write to config topic; this may be due to a transient error and the request can be "
    "safely retried"
)


def on_requested(turn: Turn, event: e.Requested) -> None:
    """Queues a request; the check of a starting task is answered at once."""
    if isinstance(event.operation, e.CheckStart):
        turn.answer(event.reply, fencing.check_start(turn, event.operation))
    else:
        queued = (*turn.requests.queued, (event.reply, event.operation))
        turn.requests = replace(turn.requests, queued=queued)


def serve_queued(turn: Turn) -> None:
    """Serves queued requests, between rebalances, when leader and owners are known."""
    state, requests = turn.state, turn.requests
    if state.membership.stopping:
        for reply, _ in requests.queued:
            turn.answer(reply, _SHUTTING_DOWN)
        turn.requests = replace(turn.requests, queued=(), plans={})
        for name in list(turn.fencing.rounds):
            fencing.end_round(turn, name, _SHUTTING_DOWN)
        return
    if not state.membership.settled or not (requests.queued or requests.plans):
        return
    turn.requests = replace(requests, queued=(), plans={})
    remaining: list[tuple[e.Reply, e.Operation]] = []
    for reply, operation in requests.queued:
        connector = _written_connector(operation)
        if connector is not None and connector in turn.requests.writing():
            remaining.append((reply, operation))
        elif turn.membership.leads and not state.may_write() and _is_privileged(operation):
            remaining.append((reply, operation))  # write access is being acquired
        else:
            result = _serve(turn, reply, operation)
            if result is not None:
                turn.answer(reply, result)
    writing = turn.requests.writing()
    plans: dict[str, tuple[RawProps, ...]] = {}
    for connector, configs in requests.plans.items():
        if turn.membership.leads and (connector in writing or not state.may_write()):
            plans[connector] = configs
        else:
            task_configs.hand_in(turn, connector, configs)
    turn.requests = replace(turn.requests, queued=tuple(remaining), plans=plans)


def _serve(turn: Turn, reply: e.Reply, operation: e.Operation) -> e.Result | None:
    """Serves a request. Returns the answer, or None if it follows later."""
    match operation:
        case e.Ping():
            return e.Done()
        case e.RestartConnector() | e.RestartTask() | e.FindTask():
            return _serve_here(turn, operation)
        case e.SetTarget() if operation.target is not Target.STOPPED:
            return _serve_target(turn, reply, operation)  # any worker writes these itself
        case e.SetLevel():
            level = LoggerLevel(operation.namespace, operation.level)
            writes.write(turn, None, reply, e.Done(), [(level,)], read_back=False)
            return None
        case e.ResetTopics():
            for topic in turn.statuses.topics_of(operation.connector):
                statuses.append_status(turn, TopicStatus(topic, operation.connector, None))
            return e.Done()
        case _ if not turn.membership.leads:
            return e.Elsewhere(turn.membership.leader_url)
        case e.CreateConnector():
            if turn.cluster.contains(operation.connector):
                text = f"Connector {operation.connector} already exists"
                return e.Refused(409, text)
            config = ConnectorConfig(operation.connector, operation.config)
            target = operation.target
            first = (TargetState(operation.connector, target),) if target else ()
            done = e.Done(created=True)
            writes.write(turn, operation.connector, reply, done, [(*first, config)])
            return None
        case e.PutConfig():
            created = not turn.cluster.contains(operation.connector)
            config = ConnectorConfig(operation.connector, operation.config)
            writes.write(turn, operation.connector, reply, e.Done(created=created), [(config,)])
            return None
        case e.DeleteConnector():
            name = operation.connector
            if not turn.cluster.contains(name):
                return e.Refused(404, f"Connector {name} not found")
            tombstones = (ConnectorConfig(name, None), TargetState(name, None))
            writes.write(turn, name, reply, e.Done(), [tombstones])
            return None
        case e.SetTarget():
            return _serve_target(turn, reply, operation)
        case e.RestartAll():
            return _serve_restart_all(turn, reply, operation)
        case e.CheckExists() | e.CheckStopped():
            return _check(turn, operation)
        case e.PutTasks():
            writes.publish(turn, reply, operation.connector, operation.configs)
            return None
        case e.FenceZombies():
            return fencing.serve_fence(turn, reply, operation.connector)
        case e.CheckStart():
            return fencing.check_start(turn, operation)
        case _:
            assert_never(operation)


def _check(turn: Turn, check: e.CheckExists | e.CheckStopped) -> e.Result:
    name, cluster = check.connector, turn.cluster
    if not cluster.contains(name):
        return e.Refused(404, f"Connector {name} not found")
    stopped = cluster.target(name) is Target.STOPPED and not cluster.task_count(name)
    if isinstance(check, e.CheckStopped) and not stopped:
        text = (
            "Connectors must be in the STOPPED state before their offsets can be modified. "
            "This can be done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{name}/stop' endpoint"
        )
        return e.Refused(400, text)
    return e.Done()


def _serve_target(turn: Turn, reply: e.Reply, operation: e.SetTarget) -> e.Result | None:
    name = operation.connector
    if not turn.cluster.contains(name):
        return e.Refused(404, f"Unknown connector {name}")
    record = (TargetState(name, operation.target),)
    if operation.target is Target.STOPPED:
        writes.write(turn, name, reply, e.Done(), [(TaskCommit(name, 0),), record])
        return None
    # kafka-connect.md §4.2: answered without reading it back.
    writes.write(turn, name, reply, e.Done(), [record], read_back=False)
    return None


def _serve_here(turn: Turn, operation: e.RestartConnector | e.RestartTask | e.FindTask) -> e.Result:
    """Serves requests as the owner of the connector or task."""
    item: Item
    if isinstance(operation, e.RestartConnector):
        item = name = operation.connector
    else:
        item, name = operation.task, operation.task.connector
    if not turn.cluster.contains(name):
        return e.Refused(404, f"Unknown connector: {name}")
    if isinstance(item, TaskId) and not turn.exists(item):
        return e.Refused(404, f"Unknown task: {item}")
    if not turn.is_ours(item):
        return e.Elsewhere(_owner_url(turn, item))
    match operation:
        case e.RestartTask(task):
            restarts.restart_task(turn, task)
        case e.RestartConnector(connector):
            restarts.restart_connector(turn, connector)
    return e.Done()


def _serve_restart_all(turn: Turn, reply: e.Reply, operation: e.RestartAll) -> e.Result | None:
    name, only_failed = operation.connector, operation.only_failed
    if not turn.cluster.contains(name):
        return e.Refused(404, f"Unknown connector: {name}")
    status = turn.statuses.connector(name)
    result: e.Result
    if status is None:
        result = e.Refused(404, f"Status for connector {name} not found")
    else:

        def after(status: Status, *, included: bool = True) -> Status:
            hit = included and (not only_failed or status.state is State.FAILED)
            return replace(status, state=State.RESTARTING) if hit else status

        tasks = {
            task.number: after(status, included=operation.include_tasks)
            for task, status in turn.statuses.tasks_of(name).items()
        }
        result = e.Done(restarting=e.Restarting(after(status), tasks))
    request = RestartRequest(name, operation.include_tasks, only_failed)
    writes.write(turn, name, reply, result, [(request,)], read_back=False)
    return None


def _owner_url(turn: Turn, item: Item) -> str | None:
    """The worker to forward a request about this item to: the leader knows its owner, others the
    leader."""
    membership = turn.membership
    return membership.leadership.owners.get(item) if membership.leads else membership.leader_url


def on_appended(turn: Turn, event: e.Appended) -> None:
    """Records of a write are stored, or are not."""
    if event.fenced and isinstance(turn.membership.leadership.access, WriteAccess):
        # Acquired again if this worker still leads.
        turn.membership = turn.membership.with_access(NoAccess(turn.now))
    write = turn.requests.writes.get(event.ticket)
    if write is None:
        return  # given up on
    if event.error is not None:
        _fail_write(turn, event.ticket, event.error)
        return
    write = replace(write, offset=event.offset)
    turn.requests = turn.requests.with_write(event.ticket, write)
    finish_writes(turn)


def finish_writes(turn: Turn) -> None:
    """Continues writes that are stored, or read back, as far as required."""
    for ticket, write in list(turn.requests.writes.items()):
        if write.offset is None:
            continue
        if write.read_back and write.offset >= turn.cluster.offset:
            continue
        if write.then:
            following, *rest = write.then
            write = replace(write, then=tuple(rest), offset=None)
            turn.requests = turn.requests.with_write(ticket, write)
            writes.append(turn, ticket, following)
            continue
        turn.requests = turn.requests.with_write(ticket, None)
        if write.reply is not None:
            turn.answer(write.reply, write.result)
        elif write.round is not None and write.connector is not None:
            fencing.end_round(turn, write.connector, write.result, of=write.round)
        elif write.connector is not None:
            turn.running = turn.running.with_retry(write.connector, None)
        else:
            turn.requests = replace(turn.requests, key=replace(turn.requests.key, pending=False))


def _fail_write(turn: Turn, ticket: int, cause: str) -> None:
    write = turn.requests.writes[ticket]
    turn.requests = turn.requests.with_write(ticket, None)
    failed = e.Refused(500, f"{_WRITE_FAILED}: {cause}")
    if write.reply is not None:
        turn.answer(write.reply, failed)
    elif write.round is not None and write.connector is not None:
        fencing.end_round(turn, write.connector, failed, of=write.round)
    elif write.connector is not None:
        task_configs.replan_later(turn, write.connector)
    else:
        turn.requests = replace(turn.requests, key=KeyRotation(retry_at=turn.now + RETRY_MIN_MS))


def fail_overdue(turn: Turn) -> None:
    """Fails the writes that were not stored and read back in time."""
    for ticket, write in list(turn.requests.writes.items()):
        if turn.now >= write.deadline:
            _fail_write(turn, ticket, f"no answer within {WRITE_TIMEOUT_MS} ms")


def _written_connector(operation: e.Operation) -> str | None:
    """The connector whose records an operation writes."""
    match operation:
        case e.Ping() | e.RestartConnector() | e.RestartTask() | e.FindTask():
            return None
        case e.CheckExists() | e.CheckStopped() | e.ResetTopics() | e.SetLevel():
            return None
        case e.FenceZombies() | e.CheckStart():
            return None  # a round waits for other writes by itself
        case _:
            return operation.connector


def _is_privileged(operation: e.Operation) -> bool:
    """Whether it requires a leader with write access to the config topic."""
    match operation:
        case e.SetTarget():
            return operation.target is Target.STOPPED
        case e.FenceZombies():
            return True
        case _:
            return _written_connector(operation) is not None
