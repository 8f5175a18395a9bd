"""`step`: each event goes to its subject, and then what runs is reconciled.

Rules it keeps:

- State changes when a record is read back from its topic, not when it is sent.
- A connector or task is started only while it is assigned to this worker, at the config offset the
  group agreed on, and after its earlier runs have stopped.
- What this worker runs is reconciled, not scripted: after any event, `_settle` compares what is
  assigned and wanted with what runs, and orders the difference.
- Where source tasks deliver exactly once, a task set starts only after its zombies were fenced, and
  only a leader that has fenced its predecessors writes (KIP-618).

It knows nothing of clocks, sockets, Spark or Kafka clients. Sources: kafka-connect.md §4.2, §4.8,
§5.3, §5.5, §5.6, §5.7, §6; KIP-415, KIP-507, KIP-618.
"""

from __future__ import annotations

from typing import assert_never

from penstock.cluster import events as e
from penstock.cluster.herder import (
    fencing,
    membership,
    reconciliation,
    requests,
    restarts,
    statuses,
    task_configs,
    writes,
)
from penstock.cluster.herder.state import HerderState
from penstock.cluster.herder.turn import Turn
from penstock.cluster.records import SessionKey, SkippedRecord, decode_config
from penstock.cluster.state import fold_all


def step(state: HerderState, event: e.Event, now: int) -> tuple[HerderState, list[e.Command]]:
    """The state after an event, and the commands it causes; `now` in ms."""
    turn = Turn(state, now)
    _take(turn, event)
    _settle(turn)
    return turn.result(), turn.commands


def _take(turn: Turn, event: e.Event) -> None:
    match event:
        case e.ConfigRead():
            _on_config(turn, event)
        case e.StatusRead():
            statuses.on_statuses(turn, event)
        case e.LogsReady():
            membership.on_logs_ready(turn, event)
        case e.ConfigEndReached() if event.ticket:
            fencing.on_round_read(turn, event)
        case e.ConfigEndReached():
            membership.on_synced(turn, event.in_time)
        case e.MetadataRequested():
            membership.on_metadata_requested(turn, event)
        case e.AssignmentRequested():
            membership.on_assignment_requested(turn, event)
        case e.Joined():
            membership.on_joined(turn, event)
        case e.CoordinatorLost():
            membership.on_coordinator_lost(turn)
        case e.Requested():
            requests.on_requested(turn, event)
        case e.Appended():
            requests.on_appended(turn, event)
        case e.WriteAccessAcquired():
            membership.on_write_access(turn, event)
        case e.ProducersFenced():
            fencing.on_fenced(turn, event)
        case e.FenceForwarded():
            result = event.refused or e.Done()
            fencing.on_fence_answer(turn, event.connector, event.ticket, result)
        case e.SessionKeyMade():
            key = SessionKey(event.key, event.algorithm, turn.now)
            writes.write(turn, None, None, e.Done(), [(key,)])
        case e.ConnectorPlanned():
            task_configs.on_planned(turn, event)
        case e.ConnectorFailed():
            task_configs.on_connector_failed(turn, event)
        case e.ReconfigurationRequested():
            task_configs.on_reconfiguration(turn, event)
        case e.TasksForwarded():
            task_configs.on_forwarded(turn, event)
        case e.TaskStarted():
            reconciliation.on_task_started(turn, event)
        case e.TaskFailed():
            reconciliation.on_task_failed(turn, event)
        case e.TaskStopped():
            reconciliation.on_task_stopped(turn, event)
        case e.TopicUsed():
            statuses.on_topic_used(turn, event)
        case e.SparkReady():
            membership.on_spark_ready(turn)
        case e.StopRequested():
            membership.on_stop_requested(turn)
        case e.Tick():
            _on_tick(turn)
        case _:
            assert_never(event)


def _on_config(turn: Turn, event: e.ConfigRead) -> None:
    records = [(at, decode_config(key, value)) for at, key, value in event.entries]
    turn.commands += [
        e.NoteSkipped("config", at, record.reason)
        for at, record in records
        if isinstance(record, SkippedRecord)
    ]
    turn.cluster, changes = fold_all(turn.cluster, records)
    if not turn.membership.ready:
        return  # start-up: nothing can react yet
    requests.finish_writes(turn)
    reconciliation.react(turn, changes)
    if not turn.membership.syncing:
        membership.agree(turn, synced=False)


def _on_tick(turn: Turn) -> None:
    requests.fail_overdue(turn)
    task_configs.retry_due(turn)
    membership.on_tick(turn)
    restarts.recover_due(turn)
    task_configs.ask_due(turn)


def _settle(turn: Turn) -> None:
    """Orders the difference between this worker's assignment and what it runs."""
    reconciliation.touch(turn)
    reconciliation.settle_touched(turn)
    reconciliation.finish_handing_over(turn)
    writes.acquire_write_access(turn)
    requests.serve_queued(turn)
    reconciliation.settle_touched(turn)
    fencing.ask_fences(turn)
    fencing.record_rounds(turn)
    writes.renew_session_key(turn)
    membership.return_metadata(turn)
    membership.leave(turn)
