"""The decisions of a worker: `step(state, event, now) -> (state, commands)`.

Rules it keeps:

- State changes when a record is read back from its topic, not when it is sent.
- A connector or task is started only while it is assigned to this worker, at the config offset the
  group agreed on, and after everything older of it has stopped.
- What this worker runs is reconciled, not scripted: after any event, `_settle` compares what is
  assigned and wanted with what runs, and orders the difference.
- Where source tasks deliver exactly once, a task set starts only after the older ones were fenced,
  and only a leader that has fenced those before it writes (KIP-618).

It knows nothing of clocks, sockets, Spark or Kafka clients. Sources: reference §4.2, §5.3,
§4.8, §5.5-5.7, §6; KIP-415, KIP-507, KIP-618.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar, assert_never

from penstock.cluster import events as e
from penstock.cluster.assign import (
    Item,
    MemberShare,
    Memory,
    assign_cooperative,
    assign_eager,
    configured_work,
)
from penstock.cluster.fencing import (
    GIVE_UP_MS,
    LOST_LEADERSHIP,
    NEW_TASKS,
    NOT_READ,
    NOT_READ_AGAIN,
    PERMANENT,
    Preflight,
    Round,
    Stage,
    need,
)
from penstock.cluster.herder_state import (
    SHOWN,
    Asking,
    Claim,
    HerderState,
    Member,
    Phase,
    Retry,
    Run,
    Runs,
    Write,
    claim_due,
    key_due,
)
from penstock.cluster.protocol import (
    NO_WORK,
    VERSIONS,
    Assignment,
    AssignmentError,
    GroupBytesMalformed,
    MemberMetadata,
    Work,
    decode_assignment,
    decode_metadata,
    encode_assignment,
)
from penstock.cluster.records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorStatus,
    LoggerLevel,
    RawProps,
    RestartRequest,
    SessionKey,
    Skipped,
    State,
    Status,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskFencing,
    TaskStatus,
    TopicStatus,
    TopicUse,
    decode_config,
    decode_status,
)
from penstock.cluster.recovery import Recovery
from penstock.cluster.state import NO_CHANGES, Changes, fold_all
from penstock.cluster.statuses import fold_statuses, may_put_safely
from penstock.ids import TaskId

WRITE_TIMEOUT_MS: Final = 30_000  # reference §4.2: one privileged operation in total
_RETRY_MIN_MS: Final = 250
_RETRY_MAX_MS: Final = 60_000
_FENCE_RETRY_MAX_MS: Final = 5_000
_WAITS: Final = 5
_NEVER_MS: Final = 1 << 50
"""How often a worker that cannot read the config topic waits before it gives up what it runs."""

_PAUSED_LOOK_MS: Final = 5_000  # whether what is to be restarted may run again
_SHUTTING_DOWN: Final = e.Refused(500, "Worker is shutting down")
_WRITE_FAILED: Final = (
    "Failed to write to config topic; this may be due to a transient error and the request can be "
    "safely retried"
)
WARMING_UP: Final = "Spark is starting on this worker; the task starts as soon as it is there."


K = TypeVar("K")
V = TypeVar("V")


def step(state: HerderState, event: e.Event, now: int) -> tuple[HerderState, list[e.Command]]:
    """The state after an event, and what has to be done because of it."""
    turn = _Turn(state, now)
    turn.take(event)
    turn.settle()
    return turn.result(), turn.commands


class _Turn:
    """One step in the making: the state as it becomes, and the commands so far."""

    def __init__(self, state: HerderState, now: int) -> None:
        self.state = state
        self.now = now
        self.commands: list[e.Command] = []
        self._before = state
        self._connectors = Runs(state.connectors)
        self._tasks = Runs(state.tasks)
        self._assigned: tuple[Work, frozenset[Item]] = NO_WORK, frozenset()

    def result(self) -> HerderState:
        connectors, tasks = self._connectors.frozen(), self._tasks.frozen()
        if connectors is not self.state.connectors or tasks is not self.state.tasks:
            self._set(connectors=connectors, tasks=tasks)
        return self.state

    # ── small tools ──────────────────────────────────────────────────────────────────────────

    def _set(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]

    def _number(self) -> int:
        number = self.state.next_number
        self._set(next_number=number + 1)
        return number

    @property
    def _generation(self) -> int:
        return self.state.member.generation if self.state.member else self.state.last_generation

    def _leads(self) -> bool:
        return self.state.member is not None and self.state.member.leads

    def _is_ours(self, item: Item) -> bool:
        """Whether it is assigned to this worker, and the worker stays."""
        work, items = self._assigned
        if work is not self.state.assigned:
            work = self.state.assigned
            items = frozenset((*work.connectors, *work.tasks))
            self._assigned = work, items
        return item in items and not self.state.stopping

    def _exists(self, task: TaskId) -> bool:
        """Whether the task is in `cluster.tasks(...)`, without listing all of them."""
        entry = self.state.cluster.entries.get(task.connector)
        return (
            entry is not None
            and entry.config is not None
            and not entry.inconsistent
            and 0 <= task.number < (entry.task_count or 0)
        )

    def _join(self) -> None:
        absent = self.state.stopping or self.state.held or self.state.out
        if self.state.ready and not absent:
            self._set(joining=True)
            if e.JoinGroup() not in self.commands:
                self.commands.append(e.JoinGroup())

    def _sync(self) -> None:
        if not self.state.syncing:
            self._set(syncing=True)
            self.commands.append(e.ReadConfigToEnd(self.state.settings.sync_timeout_ms))

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def take(self, event: e.Event) -> None:
        match event:
            case e.ConfigRead():
                self._on_config(event)
            case e.StatusRead():
                self._on_statuses(event)
            case e.LogsReady():
                self._set(ready=True, held=event.others and not self.state.spark_ready)
                self._join()
            case e.ConfigEndReached() if event.ticket:
                self._on_round_read(event)
            case e.ConfigEndReached():
                self._on_synced(event.in_time)
            case e.MetadataWanted():
                self._on_metadata_wanted(event)
            case e.AssignmentWanted():
                self._share_out(event)
            case e.Joined():
                self._on_joined(event)
            case e.CoordinatorLost():
                self._on_coordinator_lost()
            case e.Requested(reply, e.CheckStart() as operation):
                self._answer_check(reply, operation)
            case e.Requested():
                self._set(queued=(*self.state.queued, (event.reply, event.operation)))
            case e.Appended():
                self._on_appended(event)
            case e.ConfigTopicClaimed():
                self._on_claimed(event)
            case e.ProducersFenced():
                self._on_fenced(event)
            case e.FenceForwarded():
                result = event.refused or e.Done()
                self._on_fence_answer(event.connector, event.ticket, result)
            case e.SessionKeyMade():
                key = SessionKey(event.key, event.algorithm, self.now)
                self._write(None, None, e.Done(), [(key,)])
            case e.ConnectorPlanned():
                self._on_planned(event)
            case e.ReconfigurationRequested():
                self._on_reconfiguration(event)
            case e.TasksForwarded():
                if event.error is None:
                    self._set(retries=_with(self.state.retries, event.connector, None))
                else:
                    self._replan_later(event.connector)
            case e.TaskStarted():
                self._on_task_started(event)
            case e.TaskFailed():
                self._on_task_failed(event)
            case e.TaskStopped():
                self._on_task_stopped(event)
            case e.TopicUsed():
                self._on_topic_used(event)
            case e.SparkReady():
                self._set(spark_ready=True)
                if self.state.held:
                    self._set(held=False)
                    self._join()
            case e.StopRequested():
                self._set(stopping=True, joining=False)
            case e.Tick():
                self._on_tick()
            case _:
                assert_never(event)

    def _on_config(self, event: e.ConfigRead) -> None:
        before = self.state.cluster
        records = [(at, decode_config(key, value)) for at, key, value in event.entries]
        self.commands += [
            e.NoteSkipped("config", at, each.reason)
            for at, each in records
            if isinstance(each, Skipped)
        ]
        cluster, changes = fold_all(before, records)
        self._set(cluster=cluster)
        if not self.state.ready:
            return  # start-up: there is nothing yet that could react
        self._finish_writes()
        self._react(changes)
        if self.state.offered is not None and not self.state.syncing:
            self._agree(self.state.offered, synced=False)

    def _on_synced(self, in_time: bool) -> None:
        self._set(syncing=False)
        if in_time:
            if self.state.out:
                self._set(out=False, waits=0)
                self._join()
            if self.state.offered is not None:
                self._agree(self.state.offered, synced=True)
        elif self.state.out or self.state.offered is not None:
            self._step_out()

    def _step_out(self) -> None:
        """Leaves the group for a while: a member that cannot follow the config topic keeps the
        others from going on (reference §5.6). What it runs goes on, but not for ever."""
        if self.state.stopping:
            return
        if not self.state.out:
            self.commands.append(e.StepOut())
        settings, waits = self.state.settings, self.state.waits
        if self.state.member is not None and self.state.member.eager:
            wait_ms, waits = settings.unsync_backoff_ms, 0
        elif waits < _WAITS:
            wait_ms, waits = settings.max_delay_ms // 10 // (_WAITS - waits), waits + 1
        else:
            self._set(assigned=NO_WORK, handing_over=NO_WORK)
            wait_ms, waits = 0, 0
        back_at = self.now + max(wait_ms, _RETRY_MIN_MS)
        self._set(out=True, joining=True, offered=None, waits=waits, back_at=back_at)

    def _react(self, changes: Changes) -> None:
        if changes == NO_CHANGES:
            return
        # Sorted, for the order of a set is not the same in every process.
        for connector in sorted(changes.updated | changes.added):
            self._mark_connector_stale(connector)
        for task in sorted(changes.tasks):
            self._mark_task_stale(task)
        for connector in sorted(changes.targets):
            # Resuming also asks the connector again what its tasks are (§5.7); one that failed
            # has to be restarted before it is resumed (§6.2).
            run = self._connectors.get(connector)
            if run is not None and run.phase is not Phase.FAILED:
                self._mark_connector_stale(connector)
        for connector in sorted(changes.committed | changes.removed):
            # Nothing that was asked before speaks of the task set that has just been committed.
            self._end_round(connector, NEW_TASKS)
            self._set(preflights=_with(self.state.preflights, connector, None))
        for request in _widest(changes.restarts):
            self._restart(request)
        for each in changes.logger_levels:
            self.commands.append(e.ApplyLevel(each.namespace, each.level))
        if changes.need_rebalance:
            self._join()
        touched = changes.removed | changes.committed | changes.targets
        if touched:
            self._connectors.touch(c for c in self._connectors if c in touched)
            self._tasks.touch(task for task in self._tasks if task.connector in touched)

    def _mark_connector_stale(self, connector: str) -> None:
        run = self._connectors.get(connector)
        if run is not None:
            self._connectors.set(connector, replace(run, stale=True))

    def _mark_task_stale(self, task: TaskId) -> None:
        run = self._tasks.get(task)
        if run is not None:
            self._tasks.set(task, replace(run, stale=True))

    def _restart(self, request: RestartRequest) -> None:
        """Has what this worker runs of a connector started anew (KIP-745)."""
        connector, only_failed = request.connector, request.only_failed
        run = self._connectors.get(connector)
        if run is not None and (not only_failed or run.phase is Phase.FAILED):
            self._restart_connector(connector)
        if not request.include_tasks:
            return
        for task in [task for task in self._tasks if task.connector == connector]:
            owned = self._tasks.get(task)
            if owned is not None and (not only_failed or owned.phase is Phase.FAILED):
                self._restart_task(task)

    def _restart_connector(self, connector: str) -> None:
        self._put_connector(connector, State.RESTARTING)
        self._mark_connector_stale(connector)

    def _restart_task(self, task: TaskId) -> None:
        self._put_task(task, State.RESTARTING)
        self._mark_task_stale(task)

    # ── the group ────────────────────────────────────────────────────────────────────────────

    def _on_metadata_wanted(self, event: e.MetadataWanted) -> None:
        # A round begins, whoever asked for it; what an earlier one still waited for is void.
        self._set(joining=True, offered=None, metadata_for=event.reply)
        if self.state.member is not None and self.state.member.eager:
            self._set(assigned=NO_WORK)  # everything is stopped before every round (§5.4)

    def _tell_metadata(self) -> None:
        state = self.state
        if state.metadata_for is None:
            return
        if self._tasks and (state.member is None or state.member.eager):
            return  # what nobody was asked to give back stops before the group is told anything
        running = state.running()
        allocation = None
        if running:
            leader = state.member.leader if state.member else ""
            leader_url = state.member.leader_url if state.member else ""
            allocation = Assignment(leader, leader_url, state.cluster.offset, running)
        metadata = MemberMetadata(state.settings.url, state.cluster.offset, allocation)
        self.commands.append(e.TellMetadata(state.metadata_for, metadata))
        self._set(metadata_for=None)

    def _on_coordinator_lost(self) -> None:
        # Others may be given our work while nobody can reach us: give it up (§5.6).
        self._set(assigned=NO_WORK, handing_over=NO_WORK, offered=None, member=None, rejoin_at=None)
        self._lose_leadership()
        # The membership may still be valid when the coordinator is found again.
        self._join()

    def _share_out(self, event: e.AssignmentWanted) -> None:
        """Leads one round (§5.3, §5.5): everyone gets a share, at one config offset."""
        version = VERSIONS[event.protocol]
        try:
            members = {name: decode_metadata(data) for name, data in event.members.items()}
        except GroupBytesMalformed as error:  # somebody who is no worker is in the group
            self.commands.append(e.RefuseAssignment(event.reply, str(error)))
            return
        offset = max(metadata.config_offset for metadata in members.values())
        mine = members[event.member]

        def assignment(share: Work, revoked: Work, delay_ms: int) -> bytes:
            return encode_assignment(
                Assignment(event.member, mine.url, agreed, share, revoked, delay_ms), version
            )

        if self.state.cluster.offset < offset:
            self._sync()
            mismatch = encode_assignment(
                Assignment(
                    event.member, mine.url, offset, error=int(AssignmentError.CONFIG_MISMATCH)
                ),
                version,
            )
            self.commands.append(e.TellAssignment(event.reply, dict.fromkeys(members, mismatch)))
            return
        agreed = self.state.cluster.offset
        work = configured_work(self.state.cluster)
        if version == 0:
            given = {
                name: MemberShare(share)
                for name, share in assign_eager(members.keys(), work).items()
            }
            kept = dict.fromkeys(members, NO_WORK)
            delay_ms = 0
        else:
            memory, given, delay_ms = assign_cooperative(
                self.state.memory,
                members,
                work,
                last_completed_generation=self.state.last_generation,
                generation=event.generation,
                now_ms=self.now,
                max_delay_ms=self.state.settings.max_delay_ms,
            )
            self._set(memory=memory)
            kept = {name: members[name].running.minus(given[name].revocations) for name in members}
        owners: dict[Item, str] = {}
        for name, share in given.items():
            for work in (kept[name], share.additions):
                owners |= dict.fromkeys((*work.connectors, *work.tasks), members[name].url)
        self._set(owners=owners)
        shares = {
            name: assignment(share.additions, share.revocations, delay_ms)
            for name, share in given.items()
        }
        self.commands.append(e.TellAssignment(event.reply, shares))

    def _on_joined(self, event: e.Joined) -> None:
        try:
            given = decode_assignment(event.data)
        except GroupBytesMalformed:  # the leader is no worker; what runs goes on meanwhile
            self._set(joining=True, rejoin_at=self.now + _RETRY_MIN_MS)
            return
        member = Member(
            event.member, event.generation, event.protocol, given.leader, given.leader_url
        )
        before = self.state.member
        if not member.leads:
            self._set(memory=Memory(), owners={})  # a leader's memory is of its own rounds only
        if before is None or (before.id, before.leader) != (member.id, member.leader):
            self._lose_leadership()  # who was away cannot know who has led meanwhile
        self._set(member=member, last_generation=event.generation, joining=False, rejoin_at=None)
        if given.error == AssignmentError.NONE:
            self._take_on(given)
        self._agree(given, synced=False)

    def _take_on(self, given: Assignment) -> None:
        """Makes the share this worker's own, so that the next round is told of it (§5.5).

        Nothing of it starts before `_agree`; what is revoked stops at once.
        """
        if given.delay_ms > 0:
            self._set(rejoin_at=self.now + given.delay_ms)
        eager = self.state.member is not None and self.state.member.eager
        if not eager and not given.work and not given.revoked:
            return
        held = NO_WORK if eager else self.state.assigned
        # Balancing may revoke what it has only just given (§5.5, step 6): there is nothing to stop
        # then, but the group waits for another round all the same.
        revoked = held.minus(held.minus(given.revoked)) or given.revoked
        self._set(
            assigned=held.minus(given.revoked).plus(given.work),
            handing_over=self.state.handing_over.minus(given.work).plus(revoked),
        )

    def _agree(self, given: Assignment, *, synced: bool) -> None:
        """Goes on if this worker has read the config topic just as far as the leader (§5.3)."""
        offset = self.state.cluster.offset
        wrong = given.error != AssignmentError.NONE
        if (wrong or offset < given.config_offset) and not synced:
            self._set(offered=given)
            self._sync()
            return
        self._set(offered=None)
        if wrong or offset != given.config_offset:
            self._join()
            return
        self._correct_statuses()
        if self._leads():
            self._clear_statuses()

    def _clear_statuses(self) -> None:
        """Once a round is complete, its leader forgets the statuses of what is gone (§5.7)."""
        cluster, statuses = self.state.cluster, self.state.statuses
        for connector in sorted(statuses.names() | frozenset(statuses.topics)):
            there = cluster.contains(connector)
            if not there:
                for topic in statuses.topics_of(connector):
                    self._append_status(TopicStatus(topic, connector, None))
            count = cluster.task_count(connector)
            for number in sorted(statuses.tasks.get(connector, {})):
                if number >= count:
                    self._append_status(TaskStatus(TaskId(connector, number), None))
            if not there and statuses.connector(connector) is not None:
                self._append_status(ConnectorStatus(connector, None))

    def _renew_session_key(self) -> None:
        due = key_due(self.state)
        if due is not None and self.now >= due:
            self._set(making_key=True)
            self.commands.append(e.MakeSessionKey())

    # ── requests ─────────────────────────────────────────────────────────────────────────────

    def _serve_queued(self) -> None:
        """Requests are served between rounds, when everybody knows who leads and who owns what."""
        state = self.state
        if state.stopping:
            for reply, _ in state.queued:
                self._answer(reply, _SHUTTING_DOWN)
            self._set(queued=(), plans={})
            for name in list(state.rounds):
                self._end_round(name, _SHUTTING_DOWN)
            return
        if not state.settled() or not (state.queued or state.plans):
            return
        self._set(queued=(), plans={})
        kept: list[tuple[e.Reply, e.Operation]] = []
        writing = {write.connector for write in state.writes.values()}
        for reply, operation in state.queued:
            connector = _written_connector(operation)
            if connector is not None and connector in writing:
                kept.append((reply, operation))
            elif self._leads() and not state.may_write() and _is_privileged(operation):
                kept.append((reply, operation))  # the claim is under way, or will be tried again
            elif self._serve(reply, operation):
                writing.add(connector)
        held: dict[str, tuple[RawProps, ...]] = {}
        for connector, configs in state.plans.items():
            if self._leads() and (connector in writing or not state.may_write()):
                held[connector] = configs
            else:
                self._hand_in(connector, configs)
        self._set(queued=tuple(kept), plans=held)

    def _hand_in(self, connector: str, configs: tuple[RawProps, ...]) -> None:
        """Publishes a task set this worker's own connector instance has planned."""
        if self._leads():
            self._publish(None, connector, configs)
        elif (url := self._leader_url()) is not None:
            self.commands.append(e.ForwardTasks(url, connector, configs))
        else:
            self._replan_later(connector)

    def _serve(self, reply: e.Reply, operation: e.Operation) -> bool:
        """Serves a request; True when that began a write."""
        match operation:
            case e.Ping():
                return self._answer(reply, e.Done())
            case e.RestartConnector() | e.RestartTask():
                return self._serve_restart(reply, operation)
            case e.SetTarget() if operation.target is not Target.STOPPED:
                return self._serve_target(reply, operation)  # any worker writes these itself
            case e.SetLevel():
                level = LoggerLevel(operation.namespace, operation.level)
                return self._write(None, reply, e.Done(), [(level,)], read_back=False)
            case e.ResetTopics():
                for topic in self.state.statuses.topics_of(operation.connector):
                    self._append_status(TopicStatus(topic, operation.connector, None))
                return self._answer(reply, e.Done())
            case _ if not self._leads():
                return self._answer(reply, e.Elsewhere(self._leader_url()))
            case e.CreateConnector():
                if self.state.cluster.contains(operation.connector):
                    text = f"Connector {operation.connector} already exists"
                    return self._answer(reply, e.Refused(409, text))
                config = ConnectorConfig(operation.connector, operation.config)
                target = operation.target
                first = (TargetState(operation.connector, target),) if target else ()
                done = e.Done(created=True)
                return self._write(operation.connector, reply, done, [(*first, config)])
            case e.PutConfig():
                created = not self.state.cluster.contains(operation.connector)
                config = ConnectorConfig(operation.connector, operation.config)
                return self._write(operation.connector, reply, e.Done(created=created), [(config,)])
            case e.DeleteConnector():
                name = operation.connector
                if not self.state.cluster.contains(name):
                    return self._answer(reply, e.Refused(404, f"Connector {name} not found"))
                gone = (ConnectorConfig(name, None), TargetState(name, None))
                return self._write(name, reply, e.Done(), [gone])
            case e.SetTarget():
                return self._serve_target(reply, operation)
            case e.RestartAll():
                return self._serve_restart_all(reply, operation)
            case e.CheckThere() | e.CheckStopped():
                return self._answer_state(reply, operation)
            case e.PutTasks():
                return self._publish(reply, operation.connector, operation.configs)
            case e.FenceZombies():
                return self._serve_fence(reply, operation.connector)
            case e.CheckStart():
                return self._answer_check(reply, operation)
            case _:
                assert_never(operation)

    def _answer_state(self, reply: e.Reply, check: e.CheckThere | e.CheckStopped) -> bool:
        name, cluster = check.connector, self.state.cluster
        if not cluster.contains(name):
            return self._answer(reply, e.Refused(404, f"Connector {name} not found"))
        stopped = cluster.target(name) is Target.STOPPED and not cluster.task_count(name)
        if isinstance(check, e.CheckStopped) and not stopped:
            text = (
                "Connectors must be in the STOPPED state before their offsets can be modified. "
                "This can be done for the specified connector by issuing a 'PUT' request to the "
                f"'/connectors/{name}/stop' endpoint"
            )
            return self._answer(reply, e.Refused(400, text))
        return self._answer(reply, e.Done())

    def _serve_target(self, reply: e.Reply, operation: e.SetTarget) -> bool:
        name = operation.connector
        if not self.state.cluster.contains(name):
            return self._answer(reply, e.Refused(404, f"Unknown connector {name}"))
        record = (TargetState(name, operation.target),)
        if operation.target is Target.STOPPED:
            return self._write(name, reply, e.Done(), [(TaskCommit(name, 0),), record])
        return self._write(name, reply, e.Done(), [record], read_back=False)  # §4.2

    def _serve_restart(self, reply: e.Reply, operation: e.RestartConnector | e.RestartTask) -> bool:
        item: Item
        if isinstance(operation, e.RestartTask):
            item, name = operation.task, operation.task.connector
        else:
            item = name = operation.connector
        if not self.state.cluster.contains(name):
            return self._answer(reply, e.Refused(404, f"Unknown connector: {name}"))
        if isinstance(item, TaskId) and not self._exists(item):
            return self._answer(reply, e.Refused(404, f"Unknown task: {item}"))
        if not self._is_ours(item):
            return self._answer(reply, e.Elsewhere(self._owner_url(item)))
        if isinstance(item, TaskId):
            self._restart_task(item)
        else:
            self._restart_connector(item)
        return self._answer(reply, e.Done())

    def _serve_restart_all(self, reply: e.Reply, operation: e.RestartAll) -> bool:
        name, only_failed = operation.connector, operation.only_failed
        if not self.state.cluster.contains(name):
            return self._answer(reply, e.Refused(404, f"Unknown connector: {name}"))
        status = self.state.statuses.connector(name)
        result: e.Result
        if status is None:
            result = e.Refused(404, f"Status for connector {name} not found")
        else:

            def told(status: Status, *, included: bool = True) -> Status:
                hit = included and (not only_failed or status.state is State.FAILED)
                return replace(status, state=State.RESTARTING) if hit else status

            tasks = {
                task.number: told(each, included=operation.include_tasks)
                for task, each in self.state.statuses.tasks_of(name).items()
            }
            result = e.Done(restarting=e.Restarting(told(status), tasks))
        request = RestartRequest(name, operation.include_tasks, only_failed)
        return self._write(name, reply, result, [(request,)], read_back=False)

    def _owner_url(self, item: Item) -> str | None:
        """Where a request about this item goes: the leader knows its owner, others the leader."""
        return self.state.owners.get(item) if self._leads() else self._leader_url()

    def _leader_url(self) -> str | None:
        member = self.state.member
        return member.leader_url or None if member else None

    def _answer(self, reply: e.Reply, result: e.Result) -> bool:
        self.commands.append(e.Answer(reply, result))
        return False

    # ── writes ───────────────────────────────────────────────────────────────────────────────

    def _publish(
        self, reply: e.Reply | None, connector: str, configs: tuple[RawProps, ...]
    ) -> bool:
        """Writes a task set: every task, then the commit that makes them one (§4.2)."""
        refusal = None
        if not self.state.cluster.contains(connector):
            refusal = e.Refused(404, f"Connector {connector} not found")
        elif self.state.cluster.target(connector) is Target.STOPPED and configs:
            text = f"Cannot submit non-empty set of task configs for stopped connector {connector}"
            refusal = e.Refused(400, text)
        if refusal is not None:
            return False if reply is None else self._answer(reply, refusal)
        tasks = tuple(
            TaskConfig(TaskId(connector, number), config) for number, config in enumerate(configs)
        )
        groups: list[tuple[ConfigRecord, ...]] = [tasks] if tasks else []
        groups.append((TaskCommit(connector, len(configs)),))
        return self._write(connector, reply, e.Done(), groups)

    def _write(
        self,
        connector: str | None,
        reply: e.Reply | None,
        result: e.Result,
        groups: list[tuple[ConfigRecord, ...]],
        *,
        read_back: bool = True,
        round: int | None = None,
    ) -> bool:
        """Appends groups of records, each when the one before has been read back."""
        first, *rest = groups
        ticket = self._number()
        deadline = self.now + WRITE_TIMEOUT_MS
        write = Write(connector, reply, result, deadline, tuple(rest), read_back, round=round)
        self._set(writes={**self.state.writes, ticket: write})
        self._append(ticket, first)
        return True

    def _append(self, ticket: int, records: tuple[ConfigRecord, ...]) -> None:
        # Target states and logger levels are every worker's to write, and so in no transaction.
        anybody = all(isinstance(record, TargetState | LoggerLevel) for record in records)
        as_leader = self.state.settings.transactional and not anybody
        self.commands.append(e.AppendConfig(ticket, records, as_leader))

    def _on_appended(self, event: e.Appended) -> None:
        if event.fenced and self.state.claim is Claim.HELD:
            self._set(claim=Claim.NONE, claim_at=self.now)  # claimed anew if this still leads
        write = self.state.writes.get(event.ticket)
        if write is None:
            return  # given up on
        if event.error is not None:
            self._fail_write(event.ticket, event.error)
            return
        write = replace(write, offset=event.offset)
        self._set(writes={**self.state.writes, event.ticket: write})
        self._finish_writes()

    def _finish_writes(self) -> None:
        for ticket, write in list(self.state.writes.items()):
            if write.offset is None:
                continue
            if write.read_back and write.offset >= self.state.cluster.offset:
                continue
            if write.then:
                following, *rest = write.then
                write = replace(write, then=tuple(rest), offset=None)
                self._set(writes={**self.state.writes, ticket: write})
                self._append(ticket, following)
                continue
            self._set(writes=_with(self.state.writes, ticket, None))
            if write.reply is not None:
                self._answer(write.reply, write.result)
            elif write.round is not None and write.connector is not None:
                self._end_round(write.connector, write.result, of=write.round)
            elif write.connector is not None:
                self._set(retries=_with(self.state.retries, write.connector, None))
            else:
                self._set(making_key=False)

    def _fail_write(self, ticket: int, cause: str) -> None:
        write = self.state.writes[ticket]
        self._set(writes=_with(self.state.writes, ticket, None))
        failed = e.Refused(500, f"{_WRITE_FAILED}: {cause}")
        if write.reply is not None:
            self._answer(write.reply, failed)
        elif write.round is not None and write.connector is not None:
            self._end_round(write.connector, failed, of=write.round)
        elif write.connector is not None:
            self._replan_later(write.connector)
        else:
            self._set(making_key=False, key_retry_at=self.now + _RETRY_MIN_MS)

    def _on_claimed(self, event: e.ConfigTopicClaimed) -> None:
        if self.state.claim is not Claim.ASKED or event.ticket != self.state.claim_ticket:
            return  # leadership was lost meanwhile
        if event.error is None:
            self._set(claim=Claim.HELD)
        else:
            self._set(claim=Claim.NONE, claim_at=self.now + _RETRY_MIN_MS)

    def _claim_config_topic(self) -> None:
        due = claim_due(self.state)
        if due is not None and self.now >= due:
            ticket = self._number()
            self._set(claim=Claim.ASKED, claim_ticket=ticket)
            self.commands.append(e.ClaimConfigTopic(ticket))

    def _lose_leadership(self) -> None:
        """Forgets what was claimed and begun as leader, and what was asked of the one before."""
        self._set(claim=Claim.NONE, claim_at=self.now)
        for connector in list(self.state.rounds):
            self._end_round(connector, LOST_LEADERSHIP)
        self._set(
            preflights={
                connector: replace(each, ticket=0, at=self.now)
                for connector, each in self.state.preflights.items()
            }
        )

    # ── fencing, as leader (reference §4.8) ──────────────────────────────────────────────────

    def _serve_fence(self, reply: e.Reply, connector: str) -> bool:
        config = self.state.cluster.config(connector)
        if config is None:
            return self._answer(reply, e.Refused(404, f"Connector {connector} not found"))
        if not self.state.settings.is_source(config):
            text = f"Connector {connector} is not a source connector"
            return self._answer(reply, e.Refused(400, text))
        round = self._join_round(connector)
        self._set_round(connector, replace(round, waiting=(*round.waiting, reply)))
        return False

    def _join_round(self, connector: str) -> Round:
        """The round there is, or a new one, which begins with reading the config topic."""
        round = self.state.rounds.get(connector)
        if round is None:
            round = Round(self._number(), Stage.READING)
            timeout_ms = self.state.settings.sync_timeout_ms
            self.commands.append(e.ReadConfigToEnd(timeout_ms, round.ticket))
        return round

    def _set_round(self, connector: str, round: Round) -> None:
        self._set(rounds={**self.state.rounds, connector: round})

    def _on_round_read(self, event: e.ConfigEndReached) -> None:
        found = (each for each in self.state.rounds.items() if each[1].ticket == event.ticket)
        connector, round = next(found, ("", None))
        if round is None:
            return  # it is over
        if round.stage is Stage.CHECKING:
            if event.in_time:  # a newer task set would have ended the round when it was read
                self._set_round(connector, replace(round, stage=Stage.RECORDING))
            else:
                self._end_round(connector, NOT_READ_AGAIN)
            return
        config = self.state.cluster.config(connector)
        if not event.in_time:
            self._end_round(connector, NOT_READ)
        elif config is None:
            self._end_round(connector, e.Refused(404, f"Connector {connector} not found"))
        elif (needed := need(self.state.cluster, connector)) is None:
            self._end_round(connector, e.Done())
        elif needed.fence:
            self._set_round(connector, replace(round, stage=Stage.FENCING, tasks=needed.tasks))
            fence = e.FenceProducers(connector, round.ticket, config, needed.fence)
            self.commands.append(fence)
        else:
            self._set_round(connector, replace(round, stage=Stage.RECORDING, tasks=needed.tasks))

    def _on_fenced(self, event: e.ProducersFenced) -> None:
        round = self.state.rounds.get(event.connector)
        if round is None or round.ticket != event.ticket:
            return
        if event.error is not None:
            text = f"Failed to perform zombie fencing: {event.error}"
            self._end_round(event.connector, e.Refused(500, text))
            return
        self._set_round(event.connector, replace(round, stage=Stage.CHECKING))
        timeout_ms = self.state.settings.sync_timeout_ms
        self.commands.append(e.ReadConfigToEnd(timeout_ms, round.ticket))

    def _record_rounds(self) -> None:
        """Writes that a task set may start; never while another set is being written."""
        recording = [
            (connector, round)
            for connector, round in self.state.rounds.items()
            if round.stage is Stage.RECORDING
        ]
        if not recording or not self.state.may_write():
            return
        writing = {write.connector for write in self.state.writes.values()}
        for connector, round in recording:
            if connector not in writing:
                self._set_round(connector, replace(round, stage=Stage.WRITING))
                record = TaskFencing(connector, round.tasks)
                self._write(connector, None, e.Done(), [(record,)], round=round.ticket)

    def _end_round(self, connector: str, result: e.Result, *, of: int | None = None) -> None:
        """Tells everybody who waits for a round; `of` is its ticket, None: whichever there is."""
        round = self.state.rounds.get(connector)
        if round is None or of not in (None, round.ticket):
            return
        self._set(rounds=_with(self.state.rounds, connector, None))
        for reply in round.waiting:
            self._answer(reply, result)
        if round.own:
            self._on_fence_answer(connector, round.own, result)

    # ── fencing, for the tasks of this worker ────────────────────────────────────────────────

    def _needs_fencing(self, config: RawProps) -> bool:
        return self.state.settings.exactly_once and self.state.settings.is_source(config)

    def _ask_fences(self) -> None:
        """Asks the leader for the rounds that tasks wait for, and forgets those nobody needs."""
        if not self.state.preflights:
            return
        waiting = {
            task.connector for task, run in self._tasks.items() if run.phase is Phase.FENCING
        }
        for connector, each in list(self.state.preflights.items()):
            if connector not in waiting:
                self._set(preflights=_with(self.state.preflights, connector, None))
            elif not each.ticket and not each.granted and self.now >= each.at:
                self._ask_fence(connector, each)

    def _ask_fence(self, connector: str, preflight: Preflight) -> None:
        if not self.state.may_ask_fence():
            return
        ticket = self._number()
        asked = replace(preflight, ticket=ticket, attempts=preflight.attempts + 1)
        self._set(preflights={**self.state.preflights, connector: asked})
        if self._leads():
            self._set_round(connector, replace(self._join_round(connector), own=ticket))
        elif (url := self._leader_url()) is not None:
            self.commands.append(e.ForwardFence(url, connector, ticket))

    def _on_fence_answer(self, connector: str, ticket: int, result: e.Result) -> None:
        preflight = self.state.preflights.get(connector)
        if preflight is None or preflight.ticket != ticket:
            return  # of an older task set, or of an older leader
        tasks = [
            (task, run)
            for task, run in self._tasks.items()
            if task.connector == connector and run.phase is Phase.FENCING
        ]
        over = self.now - preflight.since >= GIVE_UP_MS
        if isinstance(result, e.Done):
            granted = replace(preflight, granted=True)
            self._set(preflights={**self.state.preflights, connector: granted})
            self._tasks.touch(task for task, _ in tasks)
        elif isinstance(result, e.Refused) and (result.status in PERMANENT or over):
            self._set(preflights=_with(self.state.preflights, connector, None))
            for task, run in tasks:
                trace = self._recover(task, result.message, result.status not in PERMANENT)
                self._tasks.set(task, replace(run, phase=Phase.FAILED, trace=trace))
                self._put_task(task, State.FAILED, trace)
        else:
            delay = min(_RETRY_MIN_MS << min(preflight.attempts - 1, 16), _FENCE_RETRY_MAX_MS)
            later = replace(preflight, ticket=0, at=self.now + delay)
            self._set(preflights={**self.state.preflights, connector: later})

    def _answer_check(self, reply: e.Reply, check: e.CheckStart) -> bool:
        """The last question before a task reads its position. Answered at once: a task that waits
        for it must not keep its group from a round."""
        task, run = check.task, self._tasks.get(check.task)
        if self.state.cluster.generation(task.connector) != check.generation:
            text = (
                f"Cannot start source task {task} with exactly-once support as the connector has "
                "already generated a new set of task configs"
            )
            return self._answer(reply, e.Refused(500, text))
        if run is None or run.run != check.run or not self._is_ours(task):
            text = (
                f"Cannot start source task {task} as it has already been revoked from this worker"
            )
            return self._answer(reply, e.Refused(500, text))
        return self._answer(reply, e.Done())

    # ── connectors and tasks ─────────────────────────────────────────────────────────────────

    def _on_planned(self, event: e.ConnectorPlanned) -> None:
        name = event.connector
        run = self._connectors.get(name)
        if run is None or run.run != event.run:
            return  # given away or started anew meanwhile
        if run.phase is Phase.RUNNING and not run.stale:
            self._on_asked_again(event)
            return
        if run.phase is not Phase.STARTING:
            return
        if event.trace is not None:
            trace = self._recover(name, event.trace, event.retriable)
            self._connectors.set(name, replace(run, phase=Phase.FAILED, trace=trace))
            self._put_connector(name, State.FAILED, trace)
            return
        self._connectors.set(name, replace(run, phase=Phase.RUNNING))
        if run.stale:
            return  # made from a configuration that has been replaced
        self._put_connector(name, State.RUNNING)
        if event.again_ms is not None:
            asking = Asking(self.now + event.again_ms, event.again_ms)
            self._set(asking={**self.state.asking, name: asking})
        self._adopt(name, event.configs)

    def _on_reconfiguration(self, event: e.ReconfigurationRequested) -> None:
        """Has a running connector asked for its tasks now; once more where it is asked already."""
        run = self._connectors.get(event.connector)
        if run is None or run.run != event.run or run.phase is not Phase.RUNNING:
            return  # one that starts is asked anyway
        known = self.state.asking.get(event.connector)
        asking = Asking(self.now, _NEVER_MS) if known is None else replace(known, at=self.now)
        if known is not None and known.at is None:
            asking = replace(known, again=True)
        self._set(asking={**self.state.asking, event.connector: asking})
        self._ask_due()

    def _on_asked_again(self, event: e.ConnectorPlanned) -> None:
        """A running connector was asked again. One that cannot tell now is asked later: what it
        reads from is away for a while, and its tasks know that better."""
        asking = self.state.asking.get(event.connector)
        if asking is None or asking.at is not None:
            return  # nobody wants to know any more
        every_ms = event.again_ms or asking.every_ms
        later = Asking(self.now if asking.again else self.now + every_ms, every_ms)
        self._set(asking={**self.state.asking, event.connector: later})
        if event.trace is None:
            self._adopt(event.connector, event.configs)

    def _adopt(self, name: str, configs: tuple[RawProps, ...]) -> None:
        """Has a task set published, if it is another one than there is."""
        cluster = self.state.cluster
        entry = cluster.entries.get(name)
        same = (
            entry is not None
            and not entry.inconsistent
            and not entry.deferred  # records newer than the commit: compaction leaves it with holes
            and entry.applied_config == entry.config
            and cluster.task_configs(name) == configs
        )
        if same:
            self._set(retries=_with(self.state.retries, name, None))
        else:
            self._set(plans={**self.state.plans, name: configs})

    def _recover(self, item: Item, trace: str, retriable: bool) -> str:
        """Plans the restart of what has failed, if there is to be one; the trace that says so."""
        config = self.state.cluster.config(_connector(item)) or {}
        policy = self.state.settings.restarts(config)
        if not policy.covers(retriable):
            return trace
        before = self.state.recoveries.get(item, Recovery())
        recovery = before.failed(policy, self.now, str(item))
        self._set(recoveries={**self.state.recoveries, item: recovery})
        return f"{trace.rstrip()}\n\n{recovery.told(policy, self.now)}\n"

    def _forget_recovery(self, item: Item) -> None:
        """What happens to it elsewhere, or under another configuration, is another story."""
        self._set(recoveries=_with(self.state.recoveries, item, None))

    def _on_restarted(self, item: Item) -> None:
        recovery = self.state.recoveries.get(item)
        if recovery is not None and recovery.at is not None:
            self._set(recoveries={**self.state.recoveries, item: recovery.restarted()})

    def _recover_due(self) -> None:
        """Restarts what it is time for."""
        if not self.state.may_start():
            return
        for item, recovery in list(self.state.recoveries.items()):
            if recovery.at is None or self.now < recovery.at:
                continue
            if self.state.cluster.target(_connector(item)) is not Target.STARTED:
                later = replace(recovery, at=self.now + _PAUSED_LOOK_MS)  # it is not to run now
                self._set(recoveries={**self.state.recoveries, item: later})
                continue
            self._on_restarted(item)
            if isinstance(item, TaskId):
                if _has_failed(self._tasks.get(item)):
                    self._restart_task(item)
            elif _has_failed(self._connectors.get(item)):
                self._restart_connector(item)

    def _replan_later(self, connector: str) -> None:
        if connector not in self._connectors:
            return  # given away: its owner asks it again anyway
        retry = self.state.retries.get(connector, Retry(None, 0))
        delay = min(_RETRY_MIN_MS << min(retry.attempts, 16), _RETRY_MAX_MS)
        retry = Retry(self.now + delay, retry.attempts + 1)
        self._set(retries={**self.state.retries, connector: retry})

    def _on_task_started(self, event: e.TaskStarted) -> None:
        run = self._tasks.get(event.task)
        if run is None or run.run != event.run or run.phase is not Phase.STARTING:
            return  # stopped, or failed before this could be told
        self._tasks.set(event.task, replace(run, phase=Phase.RUNNING))
        if self._is_ours(event.task):
            self._put_task(event.task, State.RUNNING)

    def _on_task_failed(self, event: e.TaskFailed) -> None:
        run = self._tasks.get(event.task)
        if run is None or run.run != event.run or run.phase is Phase.STOPPING:
            return  # stopped or given away meanwhile: its owner now speaks for it
        if not self._is_ours(event.task):  # it would have been stopped at the next opportunity
            self._tasks.set(event.task, None)
            self._forget_recovery(event.task)
            self._put_task(event.task, State.UNASSIGNED)
            return
        trace = self._recover(event.task, event.trace, event.retriable)
        self._tasks.set(event.task, replace(run, phase=Phase.FAILED, trace=trace))
        self._put_task(event.task, State.FAILED, trace)

    def _on_task_stopped(self, event: e.TaskStopped) -> None:
        run = self._tasks.get(event.task)
        if run is None or run.run != event.run:
            return
        self._tasks.set(event.task, None)
        if not self._is_ours(event.task):
            self._forget_recovery(event.task)
        if not self._is_ours(event.task) or not self.state.may_start():
            self._put_task(event.task, State.UNASSIGNED)

    def _on_topic_used(self, event: e.TopicUsed) -> None:
        name = event.task.connector
        known = self.state.statuses.topics.get(name, {})
        if (
            self.state.settings.topic_tracking
            and event.topic not in known
            and self.state.cluster.contains(name)
        ):
            use = TopicUse(event.task.number, self.now)
            self._append_status(TopicStatus(event.topic, name, use))

    def _on_tick(self) -> None:
        for ticket, write in list(self.state.writes.items()):
            if self.now >= write.deadline:
                self._fail_write(ticket, f"no answer within {WRITE_TIMEOUT_MS} ms")
        for connector, retry in list(self.state.retries.items()):
            if retry.at is not None and self.now >= retry.at:
                self._set(retries={**self.state.retries, connector: replace(retry, at=None)})
                self._mark_connector_stale(connector)
        if self.state.rejoin_at is not None and self.now >= self.state.rejoin_at:
            self._set(rejoin_at=None)
            self._join()
        if self.state.back_at is not None and self.now >= self.state.back_at:
            self._set(back_at=None)
            self._sync()
        self._recover_due()
        self._ask_due()

    def _ask_due(self) -> None:
        """Asks the connectors for their tasks again for which it is time."""
        for name, asking in list(self.state.asking.items()):
            if asking.at is None or self.now < asking.at:
                continue
            run, config = self._connectors.get(name), self.state.cluster.config(name)
            if run is None or config is None or run.phase is not Phase.RUNNING or run.stale:
                self._set(asking=_with(self.state.asking, name, None))
            elif not self.state.may_start():
                later = replace(asking, at=self.now + asking.every_ms)
                self._set(asking={**self.state.asking, name: later})
            else:
                self._set(asking={**self.state.asking, name: replace(asking, at=None)})
                self.commands.append(e.AskConnector(name, run.run, config))

    # ── reconciliation ───────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """Orders what is missing between what is wanted of this worker and what it runs."""
        self._touch()
        self._settle_touched()
        self._finish_handing_over()
        self._claim_config_topic()
        self._serve_queued()
        self._settle_touched()
        self._ask_fences()
        self._record_rounds()
        self._renew_session_key()
        self._tell_metadata()
        idle = not self._tasks and not self.state.writes
        if self.state.stopping and idle and not self.state.left:
            self._set(left=True)
            self.commands.append(e.LeaveGroup())

    def _touch(self) -> None:
        """Marks what the change of this worker's own situation may have an effect on."""
        before, state = self._before, self.state
        assigned = state.assigned
        if assigned is not before.assigned or state.stopping is not before.stopping:
            # What runs comes first: what has to stop is told so before anything starts (§16.3).
            self._connectors.touch((*self._connectors, *assigned.connectors))
            self._tasks.touch((*self._tasks, *assigned.tasks))
        elif state.spark_ready is not before.spark_ready or (
            state.may_start() and not before.may_start()
        ):
            self._connectors.touch_unsettled(assigned.connectors)
            self._tasks.touch_unsettled(assigned.tasks)

    def _settle_touched(self) -> None:
        connectors, self._connectors.touched = self._connectors.touched, {}
        for connector in connectors:
            self._settle_connector(connector)
        tasks, self._tasks.touched = self._tasks.touched, {}
        for task in tasks:
            self._settle_task(task)
        self._connectors.touched.clear()
        self._tasks.touched.clear()

    def _settle_connector(self, name: str) -> None:
        run = self._connectors.get(name)
        config = self.state.cluster.config(name)
        if not self._is_ours(name) or config is None:
            if run is not None:
                self._connectors.set(name, None)
                self._set(
                    retries=_with(self.state.retries, name, None),
                    plans=_with(self.state.plans, name, None),
                    asking=_with(self.state.asking, name, None),
                )
                self._forget_recovery(name)
                self._put_connector(name, State.UNASSIGNED)
            return
        target = self.state.cluster.target(name)
        failed = run is not None and run.phase is Phase.FAILED and not run.stale
        if failed and target is not Target.STOPPED:
            return  # a failed connector only follows a stop (§6.2)
        if target is Target.PAUSED or target is Target.STOPPED:
            phase = Phase.PAUSED if target is Target.PAUSED else Phase.STOPPED
            if run is None or run.phase is not phase or run.stale:
                self._on_restarted(name)
                self._set(asking=_with(self.state.asking, name, None))
                self._connectors.set(name, Run(self._number(), phase))
                self._put_connector(name, SHOWN[phase])
            return
        at_rest = run is not None and run.phase in (Phase.PAUSED, Phase.STOPPED)
        if (run is not None and not at_rest and not run.stale) or not self.state.may_start():
            return
        number = self._number()
        self._connectors.set(name, Run(number, Phase.STARTING))
        self._on_restarted(name)
        self._set(
            plans=_with(self.state.plans, name, None), asking=_with(self.state.asking, name, None)
        )
        self.commands.append(e.StartConnector(name, number, config))

    def _settle_task(self, task: TaskId) -> None:
        run = self._tasks.get(task)
        ours = self._is_ours(task) and self._exists(task)
        wanted = ours and self.state.cluster.target(task.connector) is Target.STARTED
        if run is None:
            if ours:
                self._begin(task, wanted)
            return
        match run.phase:
            case Phase.STARTING | Phase.STOPPING:
                return  # it will report; then it is looked at again
            case Phase.RUNNING:
                if not wanted or run.stale:
                    self._tasks.set(task, replace(run, phase=Phase.STOPPING))
                    self.commands.append(e.StopTask(task, run.run))
            case Phase.WAITING | Phase.FENCING | Phase.PAUSED | Phase.FAILED | Phase.STOPPED:
                if not ours:
                    self._tasks.set(task, None)
                    self._forget_recovery(task)
                    if run.phase is not Phase.FAILED:  # it ended when it failed, and stays so
                        self._put_task(task, State.UNASSIGNED)
                elif run.stale or self._may_move_on(run.phase, wanted):
                    self._begin(task, wanted)
                elif run.phase is Phase.FENCING and self._is_granted(task):
                    self._start(task, run.run)
            case _:
                assert_never(run.phase)

    def _may_move_on(self, phase: Phase, wanted: bool) -> bool:
        match phase:
            case Phase.WAITING:
                return self.state.spark_ready or not wanted
            case Phase.FENCING:
                return not wanted
            case Phase.PAUSED:
                return wanted
            case _:
                return False  # a failed task stays failed until it is restarted (§6.1)

    def _begin(self, task: TaskId, wanted: bool) -> None:
        """Starts a task of ours that is not running, or pauses it before it has begun."""
        self._on_restarted(task)
        if not wanted:
            self._tasks.set(task, Run(self._number(), Phase.PAUSED))
            self._put_task(task, State.PAUSED)
            return
        config = self.state.cluster.config(task.connector)
        known = self.state.cluster.task_config(task) is not None
        if config is None or not known or not self.state.may_start():
            return
        number = self._number()
        if not self.state.spark_ready:
            self._tasks.set(task, Run(number, Phase.WAITING))
            self._put_task(task, State.UNASSIGNED, WARMING_UP)
        elif self._needs_fencing(config) and not self._is_granted(task):
            self._tasks.set(task, Run(number, Phase.FENCING))
            if task.connector not in self.state.preflights:
                wish = Preflight(self.now, at=self.now)
                self._set(preflights={**self.state.preflights, task.connector: wish})
        else:
            self._start(task, number)

    def _is_granted(self, task: TaskId) -> bool:
        """Whether every older task of the connector has been fenced."""
        preflight = self.state.preflights.get(task.connector)
        return preflight is not None and preflight.granted

    def _start(self, task: TaskId, number: int) -> None:
        """Orders the start of a task that nothing keeps from starting any more."""
        cluster = self.state.cluster
        config, task_config = cluster.config(task.connector), cluster.task_config(task)
        if config is None or task_config is None or not self.state.may_start():
            return
        self._tasks.set(task, Run(number, Phase.STARTING))
        generation = cluster.generation(task.connector)
        self.commands.append(e.StartTask(task, number, config, task_config, generation))

    def _finish_handing_over(self) -> None:
        """Once everything revoked has stopped, the next round may give it to others (§5.5)."""
        revoked = self.state.handing_over
        if revoked and not any(task in self._tasks for task in revoked.tasks):
            self._set(handing_over=NO_WORK)
            self._join()

    # ── statuses ─────────────────────────────────────────────────────────────────────────────

    def _on_statuses(self, event: e.StatusRead) -> None:
        records = [decode_status(key, value) for key, value in event.entries]
        before = self.state.statuses
        self._set(statuses=fold_statuses(before, records))
        last: dict[TaskId, Status | None] = {}
        for record in records:
            match record:
                case Skipped(reason):
                    self.commands.append(e.NoteSkipped("status", None, reason))
                case ConnectorStatus(name, None):
                    if self._leads():
                        self._forget_tasks([*before.tasks_of(name), *last], name)
                    self._correct_connector(name)
                    for task in [task for task in self._tasks if task.connector == name]:
                        self._correct_task(task)  # they are forgotten with their connector
                case ConnectorStatus(name):
                    self._correct_connector(name)
                case TaskStatus(task):
                    last[task] = record.status
                    self._correct_task(task)
                case _:
                    pass
        for task, said in last.items():
            self._say_again(task, said)

    def _forget_tasks(self, known: Iterable[TaskId], connector: str) -> None:
        """A connector's tombstone speaks for its tasks only as long as it is in the topic."""
        for task in dict.fromkeys(known):
            if task.connector == connector and self.state.statuses.task(task) is None:
                self._append_status(TaskStatus(task, None))

    def _say_again(self, task: TaskId, said: Status | None) -> None:
        """Nobody heeds an UNASSIGNED that came too late (§4.4), but whoever starts after what was
        said before has been compacted away: so the owner has the last word."""
        run = self._tasks.get(task)
        late = said is not None and said != self.state.statuses.task(task)
        if late and run is not None and run.phase in SHOWN and self._is_ours(task):
            self._put_task(task, SHOWN[run.phase], run.trace)

    def _correct_statuses(self) -> None:
        """Corrects what is known; what is not known may only be on its way."""
        statuses = self.state.statuses
        for connector in self._connectors:
            known = statuses.connectors.get(connector)
            if known is not None and self._is_outdated(known):
                self._correct_connector(connector)
        none: Mapping[int, Status] = {}
        for task in self._tasks:
            known = statuses.tasks.get(task.connector, none).get(task.number)
            if known is not None and self._is_outdated(known):
                self._correct_task(task)

    def _correct_connector(self, name: str) -> None:
        run, cached = self._connectors.get(name), self.state.statuses.connector(name)
        if run is None or run.phase not in SHOWN or not self._is_ours(name):
            return
        if self._is_outdated(cached):
            self._put_connector(name, SHOWN[run.phase], run.trace)

    def _correct_task(self, task: TaskId) -> None:
        run, cached = self._tasks.get(task), self.state.statuses.task(task)
        if run is None or run.phase not in SHOWN or not self._is_ours(task):
            return
        if self._is_outdated(cached):
            self._put_task(task, SHOWN[run.phase], run.trace)

    def _is_outdated(self, cached: Status | None) -> bool:
        """Whether a worker that has missed a round spoke last; the owner of now corrects that."""
        return cached is None or (
            cached.worker_id != self.state.settings.worker_id
            and cached.generation < self._generation
        )

    def _put_connector(self, name: str, state: State, trace: str | None = None) -> None:
        cached = self.state.statuses.connector(name)
        if self.state.cluster.contains(name) and self._may_put(state, cached):
            self._append_status(ConnectorStatus(name, self._status(state, trace)))

    def _put_task(self, task: TaskId, state: State, trace: str | None = None) -> None:
        if self._exists(task) and self._may_put(state, self.state.statuses.task(task)):
            self._append_status(TaskStatus(task, self._status(state, trace)))

    def _may_put(self, state: State, cached: Status | None) -> bool:
        safe = state in (State.UNASSIGNED, State.FAILED)
        me = self.state.settings.worker_id
        return not safe or may_put_safely(cached, me, self._generation)

    def _status(self, state: State, trace: str | None) -> Status:
        return Status(state, self.state.settings.worker_id, self._generation, trace)

    def _append_status(self, record: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        self.commands.append(e.AppendStatus(record))


def _connector(item: Item) -> str:
    return item.connector if isinstance(item, TaskId) else item


def _has_failed(run: Run | None) -> bool:
    return run is not None and run.phase is Phase.FAILED


def _widest(requests: Iterable[RestartRequest]) -> list[RestartRequest]:
    """Of several requests about a connector the one with the widest effect (KIP-745)."""
    widest: dict[str, RestartRequest] = {}
    for request in requests:
        known = widest.get(request.connector, request)
        widest[request.connector] = max(
            (known, request), key=lambda each: (each.include_tasks, not each.only_failed)
        )
    return list(widest.values())


def _written_connector(operation: e.Operation) -> str | None:
    """The connector whose records an operation writes."""
    match operation:
        case e.Ping() | e.RestartConnector() | e.RestartTask():
            return None
        case e.CheckThere() | e.CheckStopped() | e.ResetTopics() | e.SetLevel():
            return None
        case e.FenceZombies() | e.CheckStart():
            return None  # what a round writes waits for its turn by itself
        case _:
            return operation.connector


def _is_privileged(operation: e.Operation) -> bool:
    """Whether it takes a leader that may write."""
    match operation:
        case e.SetTarget():
            return operation.target is Target.STOPPED
        case e.FenceZombies():
            return True
        case _:
            return _written_connector(operation) is not None


def _with(table: Mapping[K, V], key: K, value: V | None) -> Mapping[K, V]:
    """The table with `key` set to `value`, or without it."""
    if value is None and key not in table:
        return table
    changed = dict(table)
    if value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed
