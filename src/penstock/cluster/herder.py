"""The decisions of a worker: `step(state, event, now) -> (state, commands)`.

Rules it keeps:

- State changes when a record is read back from its topic, not when it is sent.
- A connector or task is started only while it is assigned to this worker, at the config offset the
  group agreed on, and after everything older of it has stopped.
- What this worker runs is reconciled, not scripted: after any event, `_settle` compares what is
  assigned and wanted with what runs, and orders the difference.

It knows nothing of clocks, sockets, Spark or Kafka clients. Sources: reference §4.2, §5.3,
§5.5-5.7, §6; KIP-415, KIP-507.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeVar, assert_never

from penstock.cluster import events as e
from penstock.cluster.assign import Memory, assign_cooperative, assign_eager, configured_work
from penstock.cluster.protocol import (
    NO_WORK,
    Assignment,
    AssignmentError,
    MemberMetadata,
    Work,
    decode_assignment,
    decode_metadata,
    encode_assignment,
)
from penstock.cluster.records import (
    ConnectorConfig,
    ConnectorStatus,
    RawProps,
    SessionKey,
    State,
    Status,
    Target,
    TargetState,
    TaskCommit,
    TaskConfig,
    TaskStatus,
    TopicStatus,
    TopicUse,
    decode_config,
    decode_status,
)
from penstock.cluster.state import NO_CHANGES, Changes, ClusterState, fold_all
from penstock.cluster.statuses import StatusState, fold_statuses, may_put_safely
from penstock.ids import TaskId

WRITE_TIMEOUT_MS: Final = 30_000  # reference §4.2: one privileged operation in total
_RETRY_MIN_MS: Final = 250
_RETRY_MAX_MS: Final = 60_000
WARMING_UP: Final = "Spark is starting on this worker; the task starts as soon as it is there."

K = TypeVar("K")
V = TypeVar("V")

_VERSIONS: Final[Mapping[str, int]] = {"default": 0, "compatible": 1, "sessioned": 2}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker knows of itself before anything happened."""

    url: str
    worker_id: str
    max_delay_ms: int = 300_000
    sync_timeout_ms: int = 3_000
    key_ttl_ms: int = 3_600_000
    key_algorithm: str = "HmacSHA256"
    topic_tracking: bool = True


@dataclass(frozen=True, slots=True)
class Member:
    """This worker's place in the group since the last completed round."""

    id: str
    generation: int
    protocol: str
    leader: str
    leader_url: str

    @property
    def leads(self) -> bool:
        return self.id == self.leader


class Phase(Enum):
    """Where a connector instance or task is on this worker."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    PAUSED = "paused"  # nothing runs because the target state says so
    FAILED = "failed"


PHASE_MOVES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.STARTING: frozenset({Phase.RUNNING, Phase.FAILED}),
    Phase.RUNNING: frozenset({Phase.STOPPING, Phase.FAILED}),
    Phase.STOPPING: frozenset(),  # ends by leaving the table; what comes next starts anew
    Phase.PAUSED: frozenset({Phase.STARTING}),
    Phase.FAILED: frozenset({Phase.STARTING, Phase.PAUSED}),
}
"""How phases follow each other; absent tasks begin in STARTING or PAUSED."""


@dataclass(frozen=True, slots=True)
class Run:
    """One start of a connector instance or task; `stale`: it has to be started anew."""

    run: int
    phase: Phase
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Config records on their way: what was appended, who waits, and what follows."""

    reply: e.Reply | None
    result: e.Result
    deadline: int
    then: tuple[tuple[object, ...], ...] = ()  # groups of records still to append, in order
    offset: int | None = None  # of its last record, once stored


@dataclass(frozen=True, slots=True)
class HerderState:
    """Everything a worker knows and intends."""

    settings: Settings
    cluster: ClusterState = field(default_factory=ClusterState)
    statuses: StatusState = field(default_factory=StatusState)
    memory: Memory = field(default_factory=Memory)
    member: Member | None = None
    last_generation: int = -1  # of the last round that was completed
    ready: bool = False  # the topics have been read once
    spark_ready: bool = False
    stopping: bool = False
    left: bool = False
    joining: bool = False  # a round was asked for and is not complete
    syncing: bool = False  # the config topic is being read to its end
    offered: Assignment | None = None  # an assignment this worker cannot take on yet
    assigned: Work = NO_WORK
    handing_over: Work = NO_WORK  # revoked, and not all of it has stopped
    rejoin_at: int | None = None  # the delay of held back work ends
    connectors: Mapping[str, Run] = field(default_factory=dict)
    tasks: Mapping[TaskId, Run] = field(default_factory=dict)
    writes: Mapping[int, Write] = field(default_factory=dict)
    queued: tuple[tuple[e.Reply, e.Operation], ...] = ()
    replan_at: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # when, and which attempt
    making_key: bool = False
    next_number: int = 1  # for runs and tickets

    def running(self) -> Work:
        """What the group has to be told this worker runs."""
        return self.assigned.plus(self.handing_over)


def step(state: HerderState, event: e.Event, now: int) -> tuple[HerderState, list[e.Command]]:
    """The state after an event, and what has to be done because of it."""
    turn = _Turn(state, now)
    turn.take(event)
    turn.settle()
    return turn.state, turn.commands


def next_wakeup(state: HerderState) -> int | None:
    """When a `Tick` is due, if nothing else happens before."""
    times = [write.deadline for write in state.writes.values()]
    times += [at for at, _ in state.replan_at.values()]
    if state.rejoin_at is not None:
        times.append(state.rejoin_at)
    if state.member is not None and state.member.leads and state.cluster.session_key is not None:
        times.append(state.cluster.session_key.created_ms + state.settings.key_ttl_ms)
    return min(times, default=None)


class _Turn:
    """One step in the making: the state as it becomes, and the commands so far."""

    def __init__(self, state: HerderState, now: int) -> None:
        self.state = state
        self.now = now
        self.commands: list[e.Command] = []

    # ── small tools ──────────────────────────────────────────────────────────────────────────

    def _set(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]

    def _number(self) -> int:
        number = self.state.next_number
        self._set(next_number=number + 1)
        return number

    def _set_connector(self, connector: str, run: Run | None) -> None:
        self._set(connectors=_with(self.state.connectors, connector, run))

    def _set_task(self, task: TaskId, run: Run | None) -> None:
        self._set(tasks=_with(self.state.tasks, task, run))

    @property
    def _generation(self) -> int:
        return self.state.member.generation if self.state.member else self.state.last_generation

    def _leads(self) -> bool:
        return self.state.member is not None and self.state.member.leads

    def _join(self) -> None:
        if self.state.ready and not self.state.stopping:
            self._set(joining=True)
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
                records = [decode_status(key, value) for key, value in event.entries]
                self._set(statuses=fold_statuses(self.state.statuses, records))
            case e.LogsReady():
                self._set(ready=True)
                self._join()
            case e.ConfigEndReached():
                self._set(syncing=False)
                if self.state.offered is not None:
                    self._take_assignment(self.state.offered, synced=True)
            case e.MetadataWanted():
                self._tell_metadata(event)
            case e.AssignmentWanted():
                self._share_out(event)
            case e.Joined():
                self._on_joined(event)
            case e.CoordinatorLost():
                # Others may be given our work while nobody can reach us: give it up (§5.6).
                self._set(assigned=NO_WORK, offered=None, member=None, joining=True, rejoin_at=None)
            case e.Requested():
                self._set(queued=(*self.state.queued, (event.reply, event.operation)))
            case e.Appended():
                self._on_appended(event)
            case e.SessionKeyMade():
                self._set(making_key=False)
                key = SessionKey(event.key, event.algorithm, self.now)
                self._write(None, e.Done(), [(key,)])
            case e.ConnectorPlanned():
                self._on_planned(event)
            case e.TasksForwarded():
                if event.error is None:
                    self._set(replan_at=_with(self.state.replan_at, event.connector, None))
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
            case e.StopRequested():
                self._set(stopping=True, joining=False)
            case e.Tick():
                self._on_tick()
            case _:
                assert_never(event)

    def _on_config(self, event: e.ConfigRead) -> None:
        before = self.state.cluster
        records = [(at, decode_config(key, value)) for at, key, value in event.entries]
        cluster, changes = fold_all(before, records)
        self._set(cluster=cluster)
        if not self.state.ready:
            return  # start-up: there is nothing yet that could react
        self._finish_writes()
        self._react(changes)
        if self.state.offered is not None and not self.state.syncing:
            self._take_assignment(self.state.offered, synced=False)

    def _react(self, changes: Changes) -> None:
        if changes == NO_CHANGES:
            return
        for connector in changes.updated | changes.added:
            self._mark_connector_stale(connector)
        for task in changes.tasks:
            run = self.state.tasks.get(task)
            if run is not None:
                self._set_task(task, replace(run, stale=True))
        for connector in changes.targets:
            # Resuming also asks the connector again what its tasks are (§5.7).
            if self.state.cluster.target(connector) is Target.STARTED:
                self._mark_connector_stale(connector)
        for request in changes.restarts:
            self._restart(request.connector, request.include_tasks, request.only_failed)
        if changes.need_rebalance:
            self._join()

    def _mark_connector_stale(self, connector: str) -> None:
        run = self.state.connectors.get(connector)
        if run is not None:
            self._set_connector(connector, replace(run, stale=True))

    def _restart(self, connector: str, include_tasks: bool, only_failed: bool) -> None:
        """Marks what this worker runs of a connector to be started anew (KIP-745)."""
        run = self.state.connectors.get(connector)
        if run is not None and (not only_failed or run.phase is Phase.FAILED):
            self._set_connector(connector, replace(run, stale=True))
        for task, owned in list(self.state.tasks.items()):
            if not include_tasks or task.connector != connector:
                continue
            if not only_failed or owned.phase is Phase.FAILED:
                self._set_task(task, replace(owned, stale=True))

    # ── the group ────────────────────────────────────────────────────────────────────────────

    def _tell_metadata(self, event: e.MetadataWanted) -> None:
        self._set(joining=True)  # a round begins, whoever asked for it
        state = self.state
        running = state.running()
        allocation = None
        if running:
            leader = state.member.leader if state.member else ""
            leader_url = state.member.leader_url if state.member else ""
            allocation = Assignment(leader, leader_url, state.cluster.offset, running)
        metadata = MemberMetadata(state.settings.url, state.cluster.offset, allocation)
        self.commands.append(e.TellMetadata(event.reply, metadata))

    def _share_out(self, event: e.AssignmentWanted) -> None:
        """Leads one round (§5.3, §5.5): everyone gets a share, at one config offset."""
        version = _VERSIONS[event.protocol]
        members = {name: decode_metadata(data) for name, data in event.members.items()}
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
            shares = {
                name: assignment(share, NO_WORK, 0)
                for name, share in assign_eager(members.keys(), work).items()
            }
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
            shares = {
                name: assignment(share.additions, share.revocations, delay_ms)
                for name, share in given.items()
            }
        self.commands.append(e.TellAssignment(event.reply, shares))

    def _on_joined(self, event: e.Joined) -> None:
        given = decode_assignment(event.data)
        member = Member(
            event.member, event.generation, event.protocol, given.leader, given.leader_url
        )
        if not member.leads:
            self._set(memory=Memory())  # a leader's memory is of its own rounds only
        self._set(member=member, last_generation=event.generation, joining=False, rejoin_at=None)
        self._take_assignment(given, synced=False)

    def _take_assignment(self, given: Assignment, *, synced: bool) -> None:
        """Takes the assignment on if this worker has read the config topic just as far (§5.3)."""
        behind = self.state.cluster.offset < given.config_offset
        if given.error != AssignmentError.NONE or behind:
            if synced and not behind:
                self._set(offered=None)
                self._join()
                return
            self._set(offered=given)
            self._sync()
            return
        self._set(offered=None)
        if self.state.cluster.offset > given.config_offset:
            self._join()
            return
        eager = self.state.member is not None and _VERSIONS[self.state.member.protocol] == 0
        if eager:
            self._set(assigned=given.work, handing_over=NO_WORK)
        else:
            held = self.state.assigned
            revoked = held.minus(held.minus(given.revoked))
            self._set(
                assigned=held.minus(given.revoked).plus(given.work),
                handing_over=self.state.handing_over.plus(revoked),
            )
        if given.delay_ms > 0:
            self._set(rejoin_at=self.now + given.delay_ms)
        self._after_assignment()

    def _after_assignment(self) -> None:
        """What the leader does once a round is complete: keys and cleaning up (§5.7)."""
        if not self._leads():
            return
        self._renew_session_key()
        cluster, statuses = self.state.cluster, self.state.statuses
        for connector in sorted(statuses.names() | frozenset(statuses.topics)):
            if not cluster.contains(connector):
                for topic in statuses.topics_of(connector):
                    self._append_status(TopicStatus(topic, connector, None))
            for task in statuses.tasks_of(connector):
                if task.number >= (cluster.task_count(connector) or 0):
                    self._append_status(TaskStatus(task, None))
            if not cluster.contains(connector) and statuses.connector(connector) is not None:
                self._append_status(ConnectorStatus(connector, None))

    def _renew_session_key(self) -> None:
        key, settings = self.state.cluster.session_key, self.state.settings
        member = self.state.member
        if member is None or member.protocol != "sessioned" or self.state.making_key:
            return
        if (
            key is None
            or key.algorithm != settings.key_algorithm
            or self.now >= key.created_ms + settings.key_ttl_ms
        ):
            self._set(making_key=True)
            self.commands.append(e.MakeSessionKey())

    # ── requests and writes ──────────────────────────────────────────────────────────────────

    def _serve_queued(self) -> None:
        """Requests are served between rounds, when everybody knows who leads and who owns what."""
        state = self.state
        if state.stopping:
            for reply, _ in state.queued:
                self.commands.append(e.Answer(reply, e.Refused(500, "Worker is shutting down")))
            self._set(queued=())
            return
        while self.state.queued and self._settled():
            (reply, operation), *rest = self.state.queued
            self._set(queued=tuple(rest))
            self._serve(reply, operation)

    def _settled(self) -> bool:
        state = self.state
        return state.member is not None and not state.joining and state.offered is None

    def _serve(self, reply: e.Reply, operation: e.Operation) -> None:
        match operation:
            case e.Ping():
                self._answer(reply, e.Done())
            case e.RestartConnector() | e.RestartTask():
                self._serve_restart(reply, operation)
            case e.SetTarget() if operation.target is not Target.STOPPED:
                self._serve_target(reply, operation)  # any worker writes these itself
            case _ if not self._leads():
                self._answer(reply, e.Elsewhere(self._leader_url()))
            case e.CreateConnector():
                if self.state.cluster.contains(operation.connector):
                    text = f"Connector {operation.connector} already exists"
                    self._answer(reply, e.Refused(409, text))
                    return
                config = ConnectorConfig(operation.connector, operation.config)
                target = operation.target
                first = (TargetState(operation.connector, target),) if target else ()
                self._write(reply, e.Done(created=True), [(*first, config)])
            case e.PutConfig():
                created = not self.state.cluster.contains(operation.connector)
                config = ConnectorConfig(operation.connector, operation.config)
                self._write(reply, e.Done(created=created), [(config,)])
            case e.DeleteConnector():
                name = operation.connector
                if self._known(reply, name, f"Connector {name} not found"):
                    gone = (ConnectorConfig(name, None), TargetState(name, None))
                    self._write(reply, e.Done(), [gone])
            case e.SetTarget():
                self._serve_target(reply, operation)
            case e.PutTasks():
                self._publish(reply, operation.connector, operation.configs)
            case _:
                assert_never(operation)

    def _serve_target(self, reply: e.Reply, operation: e.SetTarget) -> None:
        name = operation.connector
        if not self._known(reply, name, f"Unknown connector {name}"):
            return
        records: tuple[object, ...] = (TargetState(name, operation.target),)
        if operation.target is Target.STOPPED:
            self._write(reply, e.Done(), [(TaskCommit(name, 0),), records])
        else:
            self._write(None, e.Done(), [records])  # not waited to be read back (§4.2)
            self._answer(reply, e.Done())

    def _serve_restart(self, reply: e.Reply, operation: e.RestartConnector | e.RestartTask) -> None:
        if isinstance(operation, e.RestartTask):
            name, task = operation.task.connector, operation.task
            if not self._known(reply, name, f"Unknown connector: {name}"):
                return
            if task not in self.state.cluster.tasks(name):
                self._answer(reply, e.Refused(404, f"Unknown task: {task}"))
                return
            owned = self.state.tasks.get(task)
            if owned is not None and task in self.state.assigned.tasks:
                self._put_task(task, State.RESTARTING)
                self._set_task(task, replace(owned, stale=True))
                self._answer(reply, e.Done())
                return
        else:
            name = operation.connector
            if not self._known(reply, name, f"Unknown connector: {name}"):
                return
            run = self.state.connectors.get(name)
            if run is not None and name in self.state.assigned.connectors:
                self._put_connector(name, State.RESTARTING)
                self._set_connector(name, replace(run, stale=True))
                self._answer(reply, e.Done())
                return
        # Not ours: the owner has to do it. Its status says who that is, as far as anybody knows.
        self._answer(reply, e.Elsewhere(self._leader_url()))

    def _known(self, reply: e.Reply, connector: str, text: str) -> bool:
        if self.state.cluster.contains(connector):
            return True
        self._answer(reply, e.Refused(404, text))
        return False

    def _leader_url(self) -> str | None:
        member = self.state.member
        return member.leader_url or None if member else None

    def _answer(self, reply: e.Reply, result: e.Result) -> None:
        self.commands.append(e.Answer(reply, result))

    def _publish(
        self, reply: e.Reply | None, connector: str, configs: tuple[RawProps, ...]
    ) -> None:
        """Writes a task set: every task, then the commit that makes them one (§4.2)."""
        if self.state.cluster.target(connector) is Target.STOPPED and configs:
            text = f"Cannot submit non-empty set of task configs for stopped connector {connector}"
            if reply is not None:
                self._answer(reply, e.Refused(400, text))
            return
        tasks = tuple(
            TaskConfig(TaskId(connector, number), config) for number, config in enumerate(configs)
        )
        groups: list[tuple[object, ...]] = [tasks] if tasks else []
        self._write(reply, e.Done(), [*groups, (TaskCommit(connector, len(configs)),)])

    def _write(
        self, reply: e.Reply | None, result: e.Result, groups: list[tuple[object, ...]]
    ) -> None:
        """Appends groups of records, each when the one before has been read back."""
        first, *rest = groups
        ticket = self._number()
        write = Write(reply, result, self.now + WRITE_TIMEOUT_MS, tuple(rest))
        self._set(writes={**self.state.writes, ticket: write})
        self.commands.append(e.AppendConfig(ticket, first))  # type: ignore[arg-type]

    def _on_appended(self, event: e.Appended) -> None:
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
            if write.offset is None or write.offset >= self.state.cluster.offset:
                continue
            if write.then:
                following, *rest = write.then
                write = replace(write, then=tuple(rest), offset=None)
                self._set(writes={**self.state.writes, ticket: write})
                self.commands.append(e.AppendConfig(ticket, following))  # type: ignore[arg-type]
            else:
                self._set(writes=_with(self.state.writes, ticket, None))
                if write.reply is not None:
                    self._answer(write.reply, write.result)

    def _fail_write(self, ticket: int, cause: str) -> None:
        write = self.state.writes[ticket]
        self._set(writes=_with(self.state.writes, ticket, None))
        if write.reply is not None:
            text = (
                "Failed to write to config topic; this may be due to a transient error and the "
                f"request can be safely retried: {cause}"
            )
            self._answer(write.reply, e.Refused(500, text))

    # ── connectors and tasks ─────────────────────────────────────────────────────────────────

    def _on_planned(self, event: e.ConnectorPlanned) -> None:
        run = self.state.connectors.get(event.connector)
        if run is None or run.run != event.run:
            return  # stopped or started anew meanwhile
        if event.trace is not None:
            self._set_connector(event.connector, replace(run, phase=Phase.FAILED))
            self._put_connector(event.connector, State.FAILED, event.trace)
            return
        self._set_connector(event.connector, replace(run, phase=Phase.RUNNING))
        self._put_connector(event.connector, State.RUNNING)
        cluster = self.state.cluster
        same = (
            cluster.task_configs(event.connector) == event.configs
            and event.connector not in cluster.inconsistent
            and cluster.applied_connector_config(event.connector) == cluster.config(event.connector)
        )
        if same or run.stale:
            return
        if self._leads():
            self._publish(None, event.connector, event.configs)
        elif (url := self._leader_url()) is not None:
            self.commands.append(e.ForwardTasks(url, event.connector, event.configs))
        else:
            self._replan_later(event.connector)

    def _replan_later(self, connector: str) -> None:
        _, attempt = self.state.replan_at.get(connector, (0, 0))
        delay = min(_RETRY_MIN_MS << min(attempt, 16), _RETRY_MAX_MS)
        planned = (self.now + delay, attempt + 1)
        self._set(replan_at={**self.state.replan_at, connector: planned})

    def _on_task_started(self, event: e.TaskStarted) -> None:
        run = self.state.tasks.get(event.task)
        if run is not None and run.run == event.run:
            self._set_task(event.task, replace(run, phase=Phase.RUNNING))
            self._put_task(event.task, State.RUNNING)

    def _on_task_failed(self, event: e.TaskFailed) -> None:
        run = self.state.tasks.get(event.task)
        if run is None or run.run != event.run or run.phase is Phase.STOPPING:
            return  # stopped or given away meanwhile: its owner now speaks for it
        self._set_task(event.task, replace(run, phase=Phase.FAILED))
        self._put_task(event.task, State.FAILED, event.trace)

    def _on_task_stopped(self, event: e.TaskStopped) -> None:
        run = self.state.tasks.get(event.task)
        if run is None or run.run != event.run:
            return
        self._set_task(event.task, None)
        stays = event.task in self.state.assigned.tasks and not self.state.stopping
        if not stays and event.task in self.state.cluster.tasks(event.task.connector):
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
        for connector, (at, attempt) in list(self.state.replan_at.items()):
            if self.now >= at:
                # Keeps the count of attempts, for the next delay; asked again as if it were stale.
                self._set(
                    replan_at={**self.state.replan_at, connector: (self.now + (1 << 40), attempt)}
                )
                self._mark_connector_stale(connector)
        if self.state.rejoin_at is not None and self.now >= self.state.rejoin_at:
            self._set(rejoin_at=None)
            self._join()
        if self._leads():
            self._renew_session_key()

    # ── reconciliation ───────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """Orders what is missing between what is wanted of this worker and what it runs."""
        for connector in self._touched_connectors():
            self._settle_connector(connector)
        for task in self._touched_tasks():
            self._settle_task(task)
        self._finish_handing_over()
        self._serve_queued()
        idle = not self.state.tasks and not self.state.writes
        if self.state.stopping and idle and not self.state.left:
            self._set(left=True)
            self.commands.append(e.LeaveGroup())

    def _touched_connectors(self) -> list[str]:
        return list(dict.fromkeys((*self.state.assigned.connectors, *self.state.connectors)))

    def _touched_tasks(self) -> list[TaskId]:
        return list(dict.fromkeys((*self.state.assigned.tasks, *self.state.tasks)))

    def _may_start(self) -> bool:
        return self._settled() and not self.state.stopping

    def _settle_connector(self, name: str) -> None:
        run = self.state.connectors.get(name)
        config = self.state.cluster.config(name)
        ours = name in self.state.assigned.connectors and not self.state.stopping
        if not ours or config is None:
            if run is not None:
                self._set_connector(name, None)
                if config is not None:
                    self._put_connector(name, State.UNASSIGNED)
            return
        target = self.state.cluster.target(name)
        if target is not Target.STARTED:
            if run is None or run.phase is not Phase.PAUSED:
                self._set_connector(name, Run(self._number(), Phase.PAUSED))
                shown = State.PAUSED if target is Target.PAUSED else State.STOPPED
                self._put_connector(name, shown)
            elif run.stale:
                self._set_connector(name, replace(run, stale=False))
            elif self._shows_wrong_pause(name, target):
                self._put_connector(
                    name, State.PAUSED if target is Target.PAUSED else State.STOPPED
                )
            return
        fresh = run is not None and run.phase is not Phase.PAUSED and not run.stale
        if fresh or not self._may_start():
            return
        number = self._number()
        self._set_connector(name, Run(number, Phase.STARTING))
        self.commands.append(e.StartConnector(name, number, config))

    def _shows_wrong_pause(self, name: str, target: Target | None) -> bool:
        shown = self.state.statuses.connector(name)
        other = State.STOPPED if target is Target.PAUSED else State.PAUSED
        return shown is not None and shown.state is other

    def _settle_task(self, task: TaskId) -> None:
        run = self.state.tasks.get(task)
        cluster = self.state.cluster
        ours = task in self.state.assigned.tasks and not self.state.stopping
        exists = task in cluster.tasks(task.connector)
        wanted = ours and exists and cluster.target(task.connector) is Target.STARTED
        paused = ours and exists and not wanted
        if run is None:
            self._begin(task, wanted, paused)
            return
        match run.phase:
            case Phase.STARTING | Phase.STOPPING:
                return  # it will report; then it is looked at again
            case Phase.RUNNING:
                if not wanted or run.stale:
                    self._set_task(task, replace(run, phase=Phase.STOPPING))
                    self.commands.append(e.StopTask(task, run.run))
            case Phase.PAUSED | Phase.FAILED:
                if not ours or not exists:
                    self._set_task(task, None)
                    if exists:
                        self._put_task(task, State.UNASSIGNED)
                elif (run.phase is Phase.PAUSED and wanted) or (run.stale and wanted):
                    if self._may_start():
                        self._set_task(task, None)
                        self._begin(task, wanted, paused)
                elif run.phase is Phase.FAILED and paused:
                    return  # a failed task stays failed until it is restarted
            case _:
                assert_never(run.phase)

    def _begin(self, task: TaskId, wanted: bool, paused: bool) -> None:
        if paused:
            self._set_task(task, Run(self._number(), Phase.PAUSED))
            self._put_task(task, State.PAUSED)
            return
        cluster = self.state.cluster
        connector_config = cluster.config(task.connector)
        task_config = cluster.task_config(task)
        if not wanted or connector_config is None or task_config is None or not self._may_start():
            return
        number = self._number()
        self._set_task(task, Run(number, Phase.STARTING))
        if not self.state.spark_ready:
            self._put_task(task, State.UNASSIGNED, WARMING_UP)
        self.commands.append(e.StartTask(task, number, connector_config, task_config))

    def _finish_handing_over(self) -> None:
        """Once everything revoked has stopped, the next round may give it to others (§5.5)."""
        revoked = self.state.handing_over
        if revoked and not any(task in self.state.tasks for task in revoked.tasks):
            self._set(handing_over=NO_WORK)
            self._join()

    # ── statuses ─────────────────────────────────────────────────────────────────────────────

    def _put_connector(self, name: str, state: State, trace: str | None = None) -> None:
        cached = self.state.statuses.connector(name)
        if self._may_put(state, cached):
            self._append_status(ConnectorStatus(name, self._status(state, trace)))

    def _put_task(self, task: TaskId, state: State, trace: str | None = None) -> None:
        if self._may_put(state, self.state.statuses.task(task)):
            self._append_status(TaskStatus(task, self._status(state, trace)))

    def _may_put(self, state: State, cached: Status | None) -> bool:
        safe = state in (State.UNASSIGNED, State.FAILED)
        me = self.state.settings.worker_id
        return not safe or may_put_safely(cached, me, self._generation)

    def _status(self, state: State, trace: str | None) -> Status:
        return Status(state, self.state.settings.worker_id, self._generation, trace)

    def _append_status(self, record: ConnectorStatus | TaskStatus | TopicStatus) -> None:
        self.commands.append(e.AppendStatus(record))


def _with(table: Mapping[K, V], key: K, value: V | None) -> Mapping[K, V]:
    """The table with `key` set to `value`, or without it."""
    changed = dict(table)
    if value is None:
        changed.pop(key, None)
    else:
        changed[key] = value
    return changed
