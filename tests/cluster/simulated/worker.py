"""A worker of a simulated cluster: a herder, its process, and what its commands do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, assert_never

from penstock.cluster import events as e
from penstock.cluster import protocol
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import PHASE_MOVES, RunPhase
from penstock.cluster.herder.state import HerderSettings, HerderState, next_wakeup
from penstock.cluster.records import StatusRecord, TaskCommit, TopicStatus
from penstock.cluster.state import ClusterState
from penstock.ids import TaskId
from tests.cluster.simulated.connectors import planned, replan_ms, restarts
from tests.cluster.simulated.faults import Broken
from tests.cluster.simulated.member import GroupClient, Network
from tests.cluster.simulated.producers import Brokers, Producers
from tests.cluster.simulated.tasks import Live
from tests.cluster.simulated.topics import StatusTopic, differences
from tests.cluster.simulated.world import Process

LONGEST_WAIT_MS: Final = 60_000  # a worker's loop reads its clock at least this often


@dataclass(slots=True, eq=False)
class Request:
    """A request to the cluster, on its way from worker to worker until it is answered."""

    operation: e.Operation
    hops: int = 0
    at: str = ""
    result: e.Result | None = None
    lost: bool = False  # the sender no longer waits for an answer
    forwarded_by: Process | None = None  # the worker that sent it, if it publishes tasks or fences
    ticket: int = 0  # of a fencing


class Surroundings(Network, Brokers, Protocol):
    """What a worker may use of the cluster."""

    steps: int
    """Of all herders, so far."""

    @property
    def max_delay_ms(self) -> int: ...

    @property
    def spark_ms(self) -> int:
        """How long Spark takes to start."""

    @property
    def exactly_once(self) -> bool: ...

    @property
    def extra_tasks(self) -> Mapping[str, int]:
        """By connector: how many more tasks than configured it plans, if it replans."""

    @property
    def statuses(self) -> StatusTopic: ...

    def read_delay(self) -> int:
        """How long it takes a reader to get new records."""

    def forward(self, request: Request, url: str) -> None:
        """Sends a worker's own request to the leader."""

    def answered(self, request: Request, result: e.Result) -> None:
        """A worker's response, possibly a redirect to another worker."""

    def check_exclusive(self, task: TaskId) -> None:
        """Broken if the task runs twice."""

    def remove_worker(self, name: str) -> None:
        """The worker's process has ended."""


class SimWorker:
    """One herder in its simulated process."""

    def __init__(self, sim: Surroundings, name: str) -> None:
        self._sim = sim
        self.name = name
        self.worker_id = f"{name}:8083"
        self.alive = True
        self.backlog: list[Callable[[], None]] | None = None  # while the process hangs
        self.live: dict[TaskId, Live] = {}
        self.levels: dict[str, str] = {}  # of loggers
        self.skipped: list[str] = []  # why records had no effect, each time
        self.clock_ms = 0  # how far its clock is ahead
        self.whole = True  # no config record was compacted away before it read it
        self.state = HerderState(
            HerderSettings(
                f"http://{name}:8083/",
                self.worker_id,
                max_delay_ms=sim.max_delay_ms,
                transactional=sim.exactly_once,
                exactly_once=sim.exactly_once,
                is_source=lambda config: sim.exactly_once,
                restarts=restarts,
            )
        )
        self.group = GroupClient(sim, self)
        self.producers = Producers(sim, self)
        self._config_position = 0
        self._status_position = 0
        self._configs_due = False
        self._statuses_due = False
        self._status_generation = -1
        self._expelled = False
        self._assignment: protocol.Assignment | None = None  # of the last rebalance
        self._tick_at = 0
        self.later(sim.random.randint(1, 200), self._ready)
        self.later(sim.spark_ms, lambda: self.post(e.SparkReady()))

    @property
    def positions(self) -> tuple[int, int]:
        """How far it has read the config topic and the status topic."""
        return self._config_position, self._status_position

    def now(self) -> int:
        """The time on its clock."""
        return self._sim.now + self.clock_ms

    @property
    def leads(self) -> bool:
        return self.state.membership.leads

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Schedules `act` in the process: waits while it hangs, dropped once it is dead."""
        self._sim.at(delay, partial(self._act, act))

    def _act(self, act: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.backlog is not None:
            self.backlog.append(act)
        else:
            act()

    def resume(self) -> None:
        backlog, self.backlog = self.backlog or [], None
        for act in backlog:
            self._act(act)

    def post(self, event: e.Event) -> None:
        self._act(partial(self._take, event))

    def _take(self, event: e.Event) -> None:
        before = self.state
        self._sim.steps += 1
        self.state, commands = step(before, event, self.now())
        self._check_phases(before, event)
        if isinstance(event, e.ConfigRead):
            self.check_config(before.cluster)
        elif isinstance(event, e.Joined) and event.generation < before.membership.last_generation:
            raise Broken(f"{self.name} is in generation {event.generation} after a later one")
        for command in commands:
            self._perform(command)
        if isinstance(event, e.Joined):
            self._assignment = _decode(event.data)
            if self._assignment is not None and not self._assignment.error:
                self._regain_tasks()
        if self.state.membership.may_start() and not before.membership.may_start():
            self._check_agreement()
        self._wake_up(isinstance(event, e.Tick))

    def _wake_up(self, ticked: bool) -> None:
        """Schedules the next tick. The loop computes its wait after each event, so it notices only
        then that its clock was set."""
        wakeup = next_wakeup(self.state)
        if wakeup is None or not self.alive:
            return
        wait = min(wakeup - self.now(), LONGEST_WAIT_MS)
        if wait <= 0 and ticked:
            raise Broken(f"{self.name} wakes up for nothing")
        at = self._sim.now + max(wait, 0)
        if at != self._tick_at:
            self._tick_at = at
            self.later(max(wait, 0), partial(self._tick, at))

    def _tick(self, at: int) -> None:
        if self._tick_at == at:
            self._tick_at = 0
            self.post(e.Tick())

    def _ready(self) -> None:
        self.read_configs()
        self.read_statuses()
        self.post(e.LogsReady())

    def _perform(self, command: e.Command) -> None:
        match command:
            case e.AppendConfig():
                self._note_late_plans(*(r for r in command.records if isinstance(r, TaskCommit)))
                self.producers.append_config(command)
            case e.AppendStatus():
                self._append_status(command.record)
            case e.AcquireWriteAccess():
                delay = self._sim.random.randint(5, 200)
                self.later(delay, partial(self._acquire_write_access, command.ticket))
            case e.NoteSkipped():
                self.skipped.append(command.reason)
            case e.ReadConfigToEnd():
                self._read_to_end(command.timeout_ms, command.ticket)
            case e.FenceProducers():
                self._fence(command)
            case e.ForwardFence():
                request = Request(e.FenceZombies(command.connector), hops=1)
                request.forwarded_by, request.ticket = self, command.ticket
                self._sim.forward(request, command.leader_url)
            case e.JoinGroup():
                self.group.join()
            case e.BackOff():
                self.group.step_out()
            case e.ReturnMetadata():
                self.group.send_metadata(command)
            case e.ReturnAssignment():
                self.group.send_assignments(command.reply, command.shares)
            case e.RefuseAssignment():
                self.group.refuse(command.reply)
            case e.Answer():
                if isinstance(command.reply, Request):
                    self._sim.answered(command.reply, command.result)
                else:
                    assert isinstance(command.reply, _Check)
                    self._checked(command.reply, command.result)
            case e.MakeSessionKey():
                if not self.leads:
                    raise Broken(f"{self.name} makes a session key and does not lead")
                key = self._sim.random.randbytes(8)
                self.post(e.SessionKeyMade(key, self.state.settings.key_algorithm))
            case e.StartConnector() | e.AskConnector():
                self._plan(command)
            case e.ForwardTasks():
                self._note_late_plans(command)
                request = Request(e.PutTasks(command.connector, command.configs), hops=1)
                request.forwarded_by = self
                self._sim.forward(request, command.leader_url)
            case e.StartTask():
                self._start_task(command)
            case e.StopTask():
                self._stop_task(command)
            case e.ApplyLevel():
                self.levels[command.namespace] = command.level
            case e.LeaveGroup():
                self._leave()
            case _:
                assert_never(command)

    def _note_late_plans(self, *plans: TaskCommit | e.ForwardTasks) -> None:
        if self._expelled:
            self._sim.suspects.update(plan.connector for plan in plans)

    def _append_status(self, record: StatusRecord) -> None:
        status = None if isinstance(record, TopicStatus) else record.status
        if status is not None:
            if status.generation < self._status_generation:
                raise Broken(f"{self.name} writes {record} after a later generation")
            self._status_generation = status.generation
        self.producers.append_status(record)

    def _plan(self, command: e.StartConnector | e.AskConnector) -> None:
        name, run = command.connector, command.run
        event = e.ConnectorPlanned(
            name,
            run,
            planned(command.config, self._sim.extra_tasks.get(name, 0)),
            again_ms=replan_ms(command.config),
        )
        if self._sim.random.random() < self._sim.faults.plan_fails:
            retriable = self._sim.random.random() < 0.5
            event = e.ConnectorPlanned(name, run, (), "the plan failed", retriable=retriable)
        self.later(self._sim.random.randint(5, 300), lambda: self.post(event))

    def _start_task(self, command: e.StartTask) -> None:
        task, run = command.task, command.run
        if task in self.live:
            raise Broken(f"{self.name} starts {task}, which has not been reported stopped")
        if not self.state.running.spark_ready:
            raise Broken(f"{self.name} starts {task} without Spark")
        live = Live(run, "starting", self._expelled, generation=command.generation)
        live.task_set = self._sim.configs.task_set(task.connector, self.state.cluster.offset)
        self.live[task] = live
        self._sim.check_exclusive(task)
        proceed = self._init_producer if self._sim.exactly_once else self._task_started
        if self._sim.random.random() < self._sim.faults.start_fails:
            proceed = self.task_failed
        self.later(self._sim.random.randint(10, 2_000), partial(proceed, task, run))

    # A task that delivers exactly once starts in three steps: it initialises its producer, asks
    # whether it may still start, having read the config topic to its end, and reads its offset.

    def _init_producer(self, task: TaskId, run: int) -> None:
        self.live[task].epoch = self._sim.transactions.init_producer(str(task))
        end = len(self._sim.configs)
        delay = self._sim.read_delay()
        self.later(delay, partial(self._check_start, _Check(task, run), end))

    def _check_start(self, check: _Check, end: int) -> None:
        self.read_configs(end)
        generation = self.live[check.task].generation
        self.post(e.Requested(check, e.CheckStart(check.task, check.run, generation)))

    def _checked(self, check: _Check, result: e.Result) -> None:
        if isinstance(result, e.Done):
            delay = self._sim.random.randint(1, 100)
            self.later(delay, partial(self._read_offset, check.task, check.run))
        else:
            self.later(1, partial(self.task_failed, check.task, check.run))

    def _read_offset(self, task: TaskId, run: int) -> None:
        live, transactions = self.live[task], self._sim.transactions
        if live.epoch == transactions.epochs[str(task)]:
            # A fenced task starts as well, but cannot commit.
            transactions.begin(task, live)
        self._task_started(task, run)
        self.later(self._sim.random.randint(50, 1_000), partial(self._commit, task, run))

    def _commit(self, task: TaskId, run: int) -> None:
        live = self.live.get(task)
        if live is None or live.run != run or live.phase not in ("running", "stopping"):
            return
        if self._sim.transactions.commit(task, live):
            self.later(self._sim.random.randint(50, 1_000), partial(self._commit, task, run))
        elif live.phase == "running":
            self.task_failed(task, run)

    def _acquire_write_access(self, ticket: int) -> None:
        if self._sim.random.random() < self._sim.faults.append_fails:
            self.post(e.WriteAccessAcquired(ticket, "no coordinator"))
        else:
            self.producers.acquire_write_access()
            self.post(e.WriteAccessAcquired(ticket))

    def _fence(self, command: e.FenceProducers) -> None:
        """Fences one transactional id after the other; a worker that hangs resumes afterwards."""
        delay = 0
        for number in range(command.tasks):
            delay += self._sim.random.randint(1, 100)
            self.later(delay, partial(self._fence_one, TaskId(command.connector, number)))
        fails = self._sim.random.random() < self._sim.faults.append_fails
        error = "no coordinator" if fails else None
        event = e.ProducersFenced(command.connector, command.ticket, error)
        self.later(delay + 1, partial(self.post, event))

    def _fence_one(self, task: TaskId) -> None:
        self._sim.transactions.init_producer(str(task))

    def _task_started(self, task: TaskId, run: int) -> None:
        live = self.live[task]
        if live.run == run and live.phase == "starting":
            live.phase = "running"
            self.post(e.TaskStarted(task, run))

    def task_failed(self, task: TaskId, run: int) -> None:
        live = self.live.get(task)
        if live is not None and live.run == run:
            if live.phase != "stopping":
                del self.live[task]
            self.post(e.TaskFailed(task, run, "it broke", self._sim.random.random() < 0.5))

    def _stop_task(self, command: e.StopTask) -> None:
        live = self.live.get(command.task)
        if live is None or live.run != command.run or live.phase not in ("running", "dying"):
            raise Broken(f"{self.name} stops {command.task}, which is {live}")
        live.phase = "stopping"
        self.later(
            self._sim.random.randint(10, 5_000),
            partial(self._task_stopped, command.task, command.run),
        )

    def _task_stopped(self, task: TaskId, run: int) -> None:
        del self.live[task]
        self.post(e.TaskStopped(task, run))

    def _leave(self) -> None:
        if self.live:
            raise Broken(f"{self.name} leaves while {sorted(map(str, self.live))} run")
        self._sim.remove_worker(self.name)
        self.group.leave()

    def _regain_tasks(self) -> None:
        """Assigned tasks that started before an expulsion are this worker's again."""
        if not self.group.is_member:
            return  # the response came late: the group has removed this worker meanwhile
        self._expelled = False
        for task in self.state.membership.assigned.tasks:
            live = self.live.get(task)
            if live is not None and live.zombie:
                live.zombie = False
                self._sim.check_exclusive(task)

    def on_expelled(self) -> None:
        """The group has removed this worker, which may learn of it much later."""
        self._expelled = True
        for live in self.live.values():
            live.zombie = True

    def read_configs_soon(self) -> None:
        if not self._configs_due:
            self._configs_due = True
            self.later(self._sim.read_delay(), self._read_due_configs)

    def _read_due_configs(self) -> None:
        self._configs_due = False
        self.read_configs()

    def read_configs(self, end: int | None = None) -> None:
        start = self._config_position
        end = len(self._sim.configs) if end is None else end
        if end > start:
            self._config_position = end
            self.whole = self.whole and self._sim.configs.is_whole(start, end)
            rows = self._sim.configs.read(start, end)
            if rows:
                self.post(e.ConfigRead(tuple(rows)))

    def read_statuses_soon(self) -> None:
        if not self._statuses_due:
            self._statuses_due = True
            self.later(self._sim.read_delay(), self._read_due_statuses)

    def _read_due_statuses(self) -> None:
        self._statuses_due = False
        self.read_statuses()

    def read_statuses(self) -> None:
        start, end = self._status_position, len(self._sim.statuses)
        if end > start:
            self._status_position = end
            rows = self._sim.statuses.read(start, end)
            if rows:
                self.post(e.StatusRead(tuple((key, value) for _, key, value in rows)))

    def _read_to_end(self, timeout_ms: int, ticket: int) -> None:
        delay = self._sim.read_delay()
        if delay > timeout_ms:
            late = e.ConfigEndReached(in_time=False, ticket=ticket)
            self.later(timeout_ms, lambda: self.post(late))
        else:
            end = len(self._sim.configs) if ticket else None
            self.later(delay, partial(self._reach_end, end, ticket))

    def _reach_end(self, end: int | None, ticket: int) -> None:
        self.read_configs(end)
        self.post(e.ConfigEndReached(in_time=True, ticket=ticket))

    def _check_agreement(self) -> None:
        """Work starts only at the group's agreed config offset (kafka-connect.md §5.3)."""
        assignment, offset = self._assignment, self.state.cluster.offset
        if assignment is None or assignment.error or assignment.config_offset != offset:
            raise Broken(f"{self.name} begins work at offset {offset}, but was given {assignment}")

    def check_config(self, before: ClusterState, *, full: bool = False) -> None:
        """Workers at the same offset see the same cluster (`differences` lists what compaction may
        remove). Only what was read since `before` is checked, unless `full`."""
        state, configs = self.state.cluster, self._sim.configs
        truth = configs.truth(state.offset)
        if truth is None:
            return  # the worker is so far behind that its truth has been dropped
        touched = configs.touched(before.offset, state.offset)
        if full or len(state.entries) != len(truth.state.entries):
            touched = frozenset(truth.state.entries) | frozenset(state.entries)
        different = differences(truth, state, touched, whole=self.whole)
        if different:
            raise Broken(f"{self.name} at offset {state.offset} sees {different[0]}")
        for connector in touched:
            was, now = before.generation(connector), state.generation(connector)
            if was is not None and (now is None or now < was):
                raise Broken(f"{self.name} counts {connector}'s task sets down: {was}, {now}")

    def _check_phases(self, before: HerderState, event: e.Event) -> None:
        if before.running.tasks is self.state.running.tasks:
            return
        for task, run in self.state.running.tasks.items():
            was = before.running.tasks.get(task)
            if was is None or was is run:
                continue
            match event:  # the reported move comes first; the herder may decide on a second one
                case e.TaskStopped(reported, number) if (reported, number) == (task, was.run):
                    continue
                case e.TaskStarted(reported, number) if (reported, number) == (task, was.run):
                    phase = RunPhase.RUNNING
                case e.TaskFailed(reported, number) if (reported, number) == (task, was.run):
                    phase = RunPhase.FAILED if was.phase is not RunPhase.STOPPING else was.phase
                case _:
                    phase = was.phase
            if run.phase is not phase and run.phase not in PHASE_MOVES[phase]:
                raise Broken(f"{task} on {self.name} goes from {was.phase} to {run.phase}")

    def problems(self) -> list[str]:
        state = self.state
        problems: list[str] = []
        if not self.group.is_member or self.group.stage != "stable":
            problems.append(f"{self.name} is not a member of the group")
        member = state.membership
        if not member.settled or member.handing_over or member.rejoin_at is not None:
            problems.append(f"{self.name} is not at rest")
        if state.cluster.offset != self._sim.configs.offset:
            problems.append(f"{self.name} has not read all configs")
        requests, fencing = state.requests, state.fencing
        writing = requests.writes or requests.queued or requests.plans
        pending = writing or fencing.rounds or fencing.preflights
        if pending:
            problems.append(f"{self.name} has work left: {pending}")
        return problems


def _decode(data: bytes) -> protocol.Assignment | None:
    try:
        return protocol.decode_assignment(data)
    except protocol.GroupBytesMalformed:
        return None


@dataclass(frozen=True, slots=True)
class _Check:
    """A starting task that asked whether it may continue."""

    task: TaskId
    run: int
