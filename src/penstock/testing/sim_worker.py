"""A worker of a simulated cluster: a herder, its process, and what its commands do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

from penstock.cluster import events as e
from penstock.cluster import protocol
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import PHASE_MOVES, Phase
from penstock.cluster.herder.state import HerderState, Settings, next_wakeup
from penstock.cluster.records import StatusRecord, TaskCommit, TopicStatus
from penstock.ids import TaskId
from penstock.testing.sim_connectors import asks_again_ms, planned, restarts
from penstock.testing.sim_faults import Broken
from penstock.testing.sim_member import GroupClient

if TYPE_CHECKING:
    from penstock.testing.sim import Sim

LEADER: Final = "leader"  # the transactional id of leaders
LONGEST_WAIT_MS: Final = 60_000  # a worker's loop looks at its clock at least so often


@dataclass(slots=True, eq=False)
class Request:
    """A request to the cluster, on its way from worker to worker until it is answered."""

    operation: e.Operation
    hops: int = 0
    at: str = ""
    result: e.Result | None = None
    lost: bool = False  # whoever asked has been told that there will be no answer
    forwarded_by: SimWorker | None = None  # a worker's own: a task set, or a wish to be fenced
    ticket: int = 0  # of such a wish


@dataclass(slots=True)
class Live:
    """A task as it really is on a worker, whatever its herder thinks."""

    run: int
    phase: str  # starting, running, dying, stopping
    zombie: bool = False  # its worker was expelled since it started, and does not know
    epoch: int = 0  # of its transactional id, once its producer is initialised
    began: int = 0  # which beginning this was of all there were, once it has read its position
    generation: int | None = None  # of the task set it belongs to, as its worker counts
    task_set: int = 0  # the same, as the whole topic says


class SimWorker:
    """One herder in its simulated process."""

    def __init__(self, sim: Sim, name: str) -> None:
        self.sim = sim
        self.name = name
        self.worker_id = f"{name}:8083"
        self.alive = True
        self.backlog: list[Callable[[], None]] | None = None  # while the process hangs
        self.live: dict[TaskId, Live] = {}
        self.levels: dict[str, str] = {}  # of loggers
        self.skipped: list[str] = []  # why records had no effect, each time
        self.clock_ms = 0  # by how much its clock is ahead
        self.whole = True  # nothing that it read had been compacted
        self.leader_epoch = 0  # of its producer for the config topic; 0: it has none
        self.appends_until = 0  # what it appends is not stored before
        self.statuses_until = 0
        self.state = HerderState(
            Settings(
                f"http://{name}:8083/",
                self.worker_id,
                max_delay_ms=sim.max_delay_ms,
                transactional=sim.exactly_once,
                exactly_once=sim.exactly_once,
                is_source=lambda config: sim.exactly_once,
                restarts=restarts,
            )
        )
        self.group = GroupClient(self)
        self._config_position = 0
        self._status_position = 0
        self._configs_due = False
        self._statuses_due = False
        self._status_generation = -1
        self._expelled = False
        self._given: protocol.Assignment | None = None  # by the last round
        self._tick_at = 0
        self.later(sim.random.randint(1, 200), self._ready)
        self.later(sim.spark_ms, lambda: self.post(e.SparkReady()))

    @property
    def positions(self) -> tuple[int, int]:
        """How far it has read the config topic and the status topic."""
        return self._config_position, self._status_position

    def now(self) -> int:
        """What its clock shows."""
        return self.sim.now + self.clock_ms

    @property
    def leads(self) -> bool:
        return self.state.membership.leads

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Does something in the process, if it still lives; not before it goes on if it hangs."""
        self.sim.at(delay, partial(self._act, act))

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
        sim, before = self.sim, self.state
        sim.steps += 1
        self.state, commands = step(before, event, self.now())
        self._check_phases(before, event)
        if isinstance(event, e.ConfigRead):
            sim.check_config(self, before.cluster)
        elif isinstance(event, e.Joined) and event.generation < before.membership.last_generation:
            raise Broken(f"{self.name} is in generation {event.generation} after a later one")
        for command in commands:
            self._perform(command)
        if isinstance(event, e.Joined):
            self._given = _read(event.data)
            if self._given is not None and not self._given.error:
                self._own_up()
        if self.state.membership.may_start() and not before.membership.may_start():
            self._check_agreement()
        self._wake_up(isinstance(event, e.Tick))

    def _wake_up(self, ticked: bool) -> None:
        """Sees to the next tick. The loop waits for a span of time, and computes it after each
        event: that its clock was set it notices only then."""
        wakeup = next_wakeup(self.state)
        if wakeup is None or not self.alive:
            return
        wait = min(wakeup - self.now(), LONGEST_WAIT_MS)
        if wait <= 0 and ticked:
            raise Broken(f"{self.name} wakes up for nothing")
        at = self.sim.now + max(wait, 0)
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
        sim, random = self.sim, self.sim.random
        match command:
            case e.AppendConfig():
                self._note_late_plans(*(r for r in command.records if isinstance(r, TaskCommit)))
                sim.append_config(self, command)
            case e.AppendStatus():
                self._append_status(command.record)
            case e.AcquireWriteAccess():
                self.later(random.randint(5, 200), partial(self._claim, command.ticket))
            case e.NoteSkipped():
                self.skipped.append(command.reason)
            case e.ReadConfigToEnd():
                self._read_to_end(command.timeout_ms, command.ticket)
            case e.FenceProducers():
                self._fence(command)
            case e.ForwardFence():
                request = Request(e.FenceZombies(command.connector), hops=1)
                request.forwarded_by, request.ticket = self, command.ticket
                sim.requests.append(request)
                sim.answered(request, e.Elsewhere(command.leader_url))
            case e.JoinGroup():
                self.group.join()
            case e.BackOff():
                self.group.step_out()
            case e.TellMetadata():
                self.group.send_metadata(command)
            case e.TellAssignment():
                self.group.send_shares(command.reply, command.shares)
            case e.RefuseAssignment():
                self.group.refuse(command.reply)
            case e.Answer():
                if isinstance(command.reply, Request):
                    sim.answered(command.reply, command.result)
                else:
                    assert isinstance(command.reply, _Check)
                    self._checked(command.reply, command.result)
            case e.MakeSessionKey():
                if not self.leads:
                    raise Broken(f"{self.name} makes a session key and does not lead")
                self.post(e.SessionKeyMade(random.randbytes(8), self.state.settings.key_algorithm))
            case e.StartConnector() | e.AskConnector():
                self._plan(command)
            case e.ForwardTasks():
                self._note_late_plans(command)
                request = Request(e.PutTasks(command.connector, command.configs), hops=1)
                request.forwarded_by = self
                sim.requests.append(request)
                sim.answered(request, e.Elsewhere(command.leader_url))
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
            self.sim.suspects |= {plan.connector for plan in plans}

    def _append_status(self, record: StatusRecord) -> None:
        status = None if isinstance(record, TopicStatus) else record.status
        if status is not None:
            if status.generation < self._status_generation:
                raise Broken(f"{self.name} writes {record} after a later generation")
            self._status_generation = status.generation
        self.sim.append_status(self, record)

    def _plan(self, command: e.StartConnector | e.AskConnector) -> None:
        name, run = command.connector, command.run
        event = e.ConnectorPlanned(
            name,
            run,
            planned(command.config, self.sim.world.get(name, 0)),
            again_ms=asks_again_ms(command.config),
        )
        if self.sim.random.random() < self.sim.faults.plan_fails:
            retriable = self.sim.random.random() < 0.5
            event = e.ConnectorPlanned(name, run, (), "the plan failed", retriable=retriable)
        self.later(self.sim.random.randint(5, 300), lambda: self.post(event))

    def _start_task(self, command: e.StartTask) -> None:
        task, run = command.task, command.run
        if task in self.live:
            raise Broken(f"{self.name} starts {task}, which has not been reported stopped")
        if not self.state.running.spark_ready:
            raise Broken(f"{self.name} starts {task} without Spark")
        live = Live(run, "starting", self._expelled, generation=command.generation)
        live.task_set = self.sim.configs.task_set(task.connector, self.state.cluster.offset)
        self.live[task] = live
        self.sim.check_exclusive(task)
        done = self._init_producer if self.sim.exactly_once else self._task_started
        if self.sim.random.random() < self.sim.faults.start_fails:
            done = self.task_failed
        self.later(self.sim.random.randint(10, 2_000), partial(done, task, run))

    # A task that delivers exactly once starts in three steps: it takes its transactional id, asks
    # whether it may still start, having read the config topic to its end, and reads its position.

    def _init_producer(self, task: TaskId, run: int) -> None:
        self.live[task].epoch = self.sim.take_id(str(task))
        seen = len(self.sim.configs)
        delay = self.sim.read_delay()
        self.later(delay, partial(self._check_start, _Check(task, run), seen))

    def _check_start(self, check: _Check, seen: int) -> None:
        self.read_configs(seen)
        generation = self.live[check.task].generation
        self.post(e.Requested(check, e.CheckStart(check.task, check.run, generation)))

    def _checked(self, check: _Check, result: e.Result) -> None:
        if isinstance(result, e.Done):
            delay = self.sim.random.randint(1, 100)
            self.later(delay, partial(self._read_position, check.task, check.run))
        else:
            self.later(1, partial(self.task_failed, check.task, check.run))

    def _read_position(self, task: TaskId, run: int) -> None:
        live = self.live[task]
        if live.epoch == self.sim.epochs[str(task)]:
            # One that is fenced already reads on, too, but whatever it sends is not committed.
            self.sim.begin(task, live)
        self._task_started(task, run)
        self.later(self.sim.random.randint(50, 1_000), partial(self._commit, task, run))

    def _commit(self, task: TaskId, run: int) -> None:
        live = self.live.get(task)
        if live is None or live.run != run or live.phase not in ("running", "stopping"):
            return
        if self.sim.commit(task, live):
            self.later(self.sim.random.randint(50, 1_000), partial(self._commit, task, run))
        elif live.phase == "running":
            self.task_failed(task, run)

    def _claim(self, ticket: int) -> None:
        if self.sim.random.random() < self.sim.faults.append_fails:
            self.post(e.WriteAccessAcquired(ticket, "no coordinator"))
        else:
            self.leader_epoch = self.sim.take_id(LEADER)
            self.post(e.WriteAccessAcquired(ticket))

    def _fence(self, command: e.FenceProducers) -> None:
        """Takes one id after the other; a worker that hangs goes on with that afterwards."""
        delay = 0
        for number in range(command.tasks):
            delay += self.sim.random.randint(1, 100)
            self.later(delay, partial(self._fence_one, TaskId(command.connector, number)))
        fails = self.sim.random.random() < self.sim.faults.append_fails
        error = "no coordinator" if fails else None
        event = e.ProducersFenced(command.connector, command.ticket, error)
        self.later(delay + 1, partial(self.post, event))

    def _fence_one(self, task: TaskId) -> None:
        self.sim.take_id(str(task))

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
            self.post(e.TaskFailed(task, run, "it broke", self.sim.random.random() < 0.5))

    def _stop_task(self, command: e.StopTask) -> None:
        live = self.live.get(command.task)
        if live is None or live.run != command.run or live.phase not in ("running", "dying"):
            raise Broken(f"{self.name} stops {command.task}, which is {live}")
        live.phase = "stopping"
        self.later(
            self.sim.random.randint(10, 5_000),
            partial(self._task_stopped, command.task, command.run),
        )

    def _task_stopped(self, task: TaskId, run: int) -> None:
        del self.live[task]
        self.post(e.TaskStopped(task, run))

    def _leave(self) -> None:
        if self.live:
            raise Broken(f"{self.name} leaves while {sorted(map(str, self.live))} run")
        self.sim.gone(self.sim.workers.pop(self.name))
        self.group.leave()

    def _own_up(self) -> None:
        """From the assignment on, what was started before an expulsion is this worker's again."""
        if not self.group.is_member:
            return  # the answer came late: the group has gone on without this worker
        self._expelled = False
        for task in self.state.membership.assigned.tasks:
            live = self.live.get(task)
            if live is not None and live.zombie:
                live.zombie = False
                self.sim.check_exclusive(task)

    def on_expelled(self) -> None:
        """The group has gone on without this worker; it may learn that much later."""
        self._expelled = True
        for live in self.live.values():
            live.zombie = True

    def read_configs_soon(self) -> None:
        if not self._configs_due:
            self._configs_due = True
            self.later(self.sim.read_delay(), self._read_due_configs)

    def _read_due_configs(self) -> None:
        self._configs_due = False
        self.read_configs()

    def read_configs(self, end: int | None = None) -> None:
        start = self._config_position
        end = len(self.sim.configs) if end is None else end
        if end > start:
            self._config_position = end
            self.whole = self.whole and self.sim.configs.is_whole(start, end)
            rows = self.sim.configs.read(start, end)
            if rows:
                self.post(e.ConfigRead(tuple(rows)))

    def read_statuses_soon(self) -> None:
        if not self._statuses_due:
            self._statuses_due = True
            self.later(self.sim.read_delay(), self._read_due_statuses)

    def _read_due_statuses(self) -> None:
        self._statuses_due = False
        self.read_statuses()

    def read_statuses(self) -> None:
        start, end = self._status_position, len(self.sim.statuses)
        if end > start:
            self._status_position = end
            rows = self.sim.statuses.read(start, end)
            if rows:
                self.post(e.StatusRead(tuple((key, value) for _, key, value in rows)))

    def _read_to_end(self, timeout_ms: int, ticket: int) -> None:
        delay = self.sim.read_delay()
        if delay > timeout_ms:
            late = e.ConfigEndReached(in_time=False, ticket=ticket)
            self.later(timeout_ms, lambda: self.post(late))
        else:
            end = len(self.sim.configs) if ticket else None
            self.later(delay, partial(self._reach_end, end, ticket))

    def _reach_end(self, end: int | None, ticket: int) -> None:
        self.read_configs(end)
        self.post(e.ConfigEndReached(in_time=True, ticket=ticket))

    def _check_agreement(self) -> None:
        """Work starts only at the group's agreed config offset (kafka-connect.md §5.3)."""
        given, offset = self._given, self.state.cluster.offset
        if given is None or given.error or given.config_offset != offset:
            raise Broken(f"{self.name} begins work at offset {offset}, but was given {given}")

    def _check_phases(self, before: HerderState, event: e.Event) -> None:
        if before.running.tasks is self.state.running.tasks:
            return
        for task, run in self.state.running.tasks.items():
            was = before.running.tasks.get(task)
            if was is None or was is run:
                continue
            match event:  # what it reports comes first, what is decided then is a second move
                case e.TaskStopped(reported, number) if (reported, number) == (task, was.run):
                    continue
                case e.TaskStarted(reported, number) if (reported, number) == (task, was.run):
                    phase = Phase.RUNNING
                case e.TaskFailed(reported, number) if (reported, number) == (task, was.run):
                    phase = Phase.FAILED if was.phase is not Phase.STOPPING else was.phase
                case _:
                    phase = was.phase
            if run.phase is not phase and run.phase not in PHASE_MOVES[phase]:
                raise Broken(f"{task} on {self.name} goes from {was.phase} to {run.phase}")

    def problems(self) -> list[str]:
        state = self.state
        found: list[str] = []
        if not self.group.is_member or self.group.stage != "stable":
            found.append(f"{self.name} is not a member of the group")
        member = state.membership
        if not member.settled or member.handing_over or member.rejoin_at is not None:
            found.append(f"{self.name} is not at rest")
        if state.cluster.offset != self.sim.configs.offset:
            found.append(f"{self.name} has not read all configs")
        requests, fencing = state.requests, state.fencing
        waiting = requests.writes or requests.queued or requests.plans
        left = waiting or fencing.rounds or fencing.preflights
        if left:
            found.append(f"{self.name} has work left: {left}")
        return found


def _read(data: bytes) -> protocol.Assignment | None:
    try:
        return protocol.decode_assignment(data)
    except protocol.GroupBytesMalformed:
        return None


@dataclass(frozen=True, slots=True)
class _Check:
    """A starting task that has asked whether it may go on."""

    task: TaskId
    run: int
