"""A simulated cluster: many herders, one fake clock, one seed.

Everything around the herders is simulated: the two topics, compacted now and then, with separate
delays for every reader; the group coordinator; tasks and connectors that take time to start and
stop; forwarded requests; and with `exactly_once`, transactional ids with their epochs and tasks
that commit. Workers crash, stop gracefully, restart under their name, hang for longer than a
session, lose their coordinator, and have clocks that jump. `Faults` sets how messages are lost and
delayed. Invariants are checked after every step (`Broken` names the violated one); `problems()`
lists the differences between the cluster and its configuration.

`python -m penstock.testing.sim_chaos --help` runs many seeds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, assert_never

from penstock.cluster import events as e
from penstock.cluster import protocol
from penstock.cluster.assign import Item
from penstock.cluster.herder import step
from penstock.cluster.herder.runs import PHASE_MOVES, Phase
from penstock.cluster.herder.state import HerderState, Settings, next_wakeup
from penstock.cluster.records import (
    RawProps,
    State,
    StatusRecord,
    Target,
    TaskCommit,
    TaskConfig,
    TopicStatus,
    encode_config,
    encode_status,
)
from penstock.cluster.recovery import NO_RESTARTS, Causes, RestartPolicy
from penstock.cluster.state import ClusterState
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId
from penstock.testing.sim_group import REBALANCE_TIMEOUT_MS, Coordinator
from penstock.testing.sim_topics import ConfigTopic, Row, StatusTopic, differences

HEARTBEAT_MS: Final = 3_000
ANSWER_MS: Final = 10_000  # how long a group client waits for its worker's loop
JOIN_MS: Final = REBALANCE_TIMEOUT_MS + 5_000  # how long it waits for the coordinator's response
FORWARD_MS: Final = 90_000  # how long a worker waits for another's response
LONGEST_WAIT_MS: Final = 60_000  # a worker's loop looks at its clock at least so often
SESSION_TICK_MS: Final = 200
START: Final = 1_700_000_000_000
LEADER: Final = "leader"  # the transactional id of leaders
MOST_STEPS: Final = 2_000_000


class Broken(AssertionError):
    """An invariant is violated."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How unreliable the world around the herders is: probabilities, and delays in milliseconds."""

    append_fails: float = 0.0
    append_unanswered: float = 0.0  # stored, but not acknowledged
    append_is_late: float = 0.0  # stored in the end, perhaps when nobody waits for it any more
    start_fails: float = 0.0
    plan_fails: float = 0.0
    read_is_slow: float = 0.0
    status_is_late: float = 0.0
    message_is_lost: float = 0.0  # between a member and its coordinator, either way
    message_is_late: float = 0.0
    forward_is_lost: float = 0.0  # a request from worker to worker, or its answer
    forward_is_late: float = 0.0


NO_FAULTS: Final = Faults()
MANY_FAULTS: Final = Faults(
    append_fails=0.03,
    append_unanswered=0.02,
    append_is_late=0.02,
    start_fails=0.03,
    plan_fails=0.03,
    read_is_slow=0.05,
    status_is_late=0.01,
    message_is_lost=0.01,
    message_is_late=0.02,
    forward_is_lost=0.05,
    forward_is_late=0.05,
)


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
class _Live:
    """A task as it really is on a worker, whatever its herder thinks."""

    run: int
    phase: str  # starting, running, dying, stopping
    zombie: bool = False  # its worker was expelled since it started, and does not know
    epoch: int = 0  # of its transactional id, once its producer is initialised
    began: int = 0  # which beginning this was of all there were, once it has read its position
    generation: int | None = None  # of the task set it belongs to, as its worker counts
    task_set: int = 0  # the same, as the whole topic says


class Sim:
    """The cluster and its clock. All times in milliseconds."""

    def __init__(
        self,
        seed: int,
        *,
        protocol_name: str = "sessioned",
        max_delay_ms: int = 20_000,
        spark_ms: int = 500,
        exactly_once: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.now = START
        self.protocol = protocol_name
        self.max_delay_ms = max_delay_ms
        self.spark_ms = spark_ms
        self.exactly_once = exactly_once
        self.epochs: dict[str, int] = {}  # of every transactional id
        self.commits = 0  # transactions of tasks
        self.fenced = 0  # those that found themselves fenced
        self._beginnings = 0
        self._last_begun: dict[TaskId, int] = {}
        self._newest_begun: dict[str, int] = {}  # the newest task set that has begun
        self.faults = NO_FAULTS
        self.coordinator = Coordinator()
        self.configs = ConfigTopic()
        self.statuses = StatusTopic()
        self.world: dict[str, int] = {}
        """How many more tasks a connector that is asked again finds than its configuration says."""
        self.workers: dict[str, SimWorker] = {}
        self.requests: list[Request] = []
        self.steps = 0
        self.suspects: set[str] = set()
        """Connectors with a task set that only a restart puts right: half of a stop was stored, a
        worker that had been expelled published a plan of its own, or one was overtaken by a newer
        one on its way to the leader or to the topic (so it is in the JVM, too)."""
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._entries = 0
        self._watch_sessions()

    # ── time ─────────────────────────────────────────────────────────────────────────────────

    def at(self, delay: int, act: Callable[[], None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (self.now + delay, self._entries, act))

    def advance(self, ms: int) -> None:
        """Lets this much time pass."""
        end = self.now + ms
        while self._agenda and self._agenda[0][0] <= end:
            self.now, _, act = heapq.heappop(self._agenda)
            act()
            if self.steps > MOST_STEPS:
                raise Broken(f"the cluster does not come to rest in {MOST_STEPS} steps")
        self.now = end

    def run_until(self, there: Callable[[], bool], within_ms: int = 600_000) -> None:
        """Lets time pass until something holds; AssertionError when it takes too long."""
        end = self.now + within_ms
        while not there():
            if self.now >= end:
                raise AssertionError("\n".join(self.problems()) or "it did not come about")
            self.advance(250)

    def balanced(self) -> bool:
        return not self.problems()

    def _watch_sessions(self) -> None:
        self.coordinator.tick(self.now)
        self.at(SESSION_TICK_MS, self._watch_sessions)

    # ── what happens to workers ──────────────────────────────────────────────────────────────

    def start(self, name: str) -> SimWorker:
        if name in self.workers:
            raise ValueError(f"worker {name} runs")
        worker = self.workers[name] = SimWorker(self, name)
        return worker

    def crash(self, name: str) -> None:
        """Kills the worker."""
        self.gone(self.workers.pop(name))

    def gone(self, worker: SimWorker) -> None:
        """The worker's process has ended; messages to it are lost."""
        worker.alive = False
        worker.live.clear()
        for request in self.requests:
            if request.at == worker.name and request.result is None and not request.lost:
                self._lose(request, "the connection is lost")

    def stop(self, name: str) -> None:
        """Stops the worker gracefully."""
        self.workers[name].post(e.StopRequested())

    def hang(self, name: str, ms: int) -> None:
        """Pauses the process: messages to it wait."""
        worker = self.workers[name]
        if worker.backlog is None:
            worker.backlog = []
            self.at(ms, worker.resume)

    def cut(self, name: str, ms: int) -> None:
        """The worker cannot reach its coordinator."""
        worker = self.workers[name]
        if not worker.cut:
            worker.lose_coordinator()
            self.at(ms, worker.find_coordinator)

    def jump(self, name: str, ms: int) -> None:
        """The worker's clock is set forward or, below 0, backward. Its loop notices when it looks
        at it the next time."""
        self.workers[name].clock_ms += ms

    def compact(self, share: float) -> None:
        """The topics are compacted up to this share of their length.

        Tombstones stay until all that live now have read them: Kafka keeps them for a day.
        """
        read = [worker.positions for worker in self.workers.values()]
        for topic, forget in (
            (self.configs, min((configs for configs, _ in read), default=0)),
            (self.statuses, min((statuses for _, statuses in read), default=0)),
        ):
            topic.compact(int(len(topic) * share), forget)

    def fail_task(self, name: str, task: TaskId) -> None:
        """A running task ends by itself."""
        worker = self.workers[name]
        live = worker.live.get(task)
        if live is not None and live.phase == "running":
            live.phase = "dying"
            worker.later(5, partial(worker.task_failed, task, live.run))

    def request(self, name: str, operation: e.Operation) -> Request:
        """Sends a request to a worker, which may forward it."""
        request = Request(operation)
        self.requests.append(request)
        self._deliver(request, name)
        return request

    def ask(self, name: str, operation: e.Operation) -> e.Result | None:
        """Sends a request and lets time pass until it is answered."""
        request = self.request(name, operation)
        self.run_until(lambda: request.result is not None or request.lost)
        return request.result

    def _deliver(self, request: Request, name: str) -> None:
        request.at = name
        worker = self.workers.get(name)
        if worker is None:
            self.answered(request, e.Refused(500, "IO Error trying to forward REST request"))
            return
        match request.operation:
            case e.PutTasks(connector, configs) if configs != self.planned(connector):
                self.suspects.add(connector)  # it was overtaken by a newer configuration
            case _:
                pass
        worker.post(e.Requested(request, request.operation))

    def answered(self, request: Request, result: e.Result) -> None:
        """A worker's response, possibly a redirect to another worker."""
        if request.result is not None:
            raise Broken(f"{request.operation} is answered twice: {request.result}, {result}")
        if isinstance(result, e.Elsewhere):
            request.hops += 1
            if result.url is None or request.hops > 2:  # kafka-connect.md §1.3: two hops at most
                result = e.Refused(
                    409, "Cannot complete request because of a conflicting operation"
                )
            else:
                self._forward(request, result.url.removeprefix("http://").removesuffix(":8083/"))
                return
        request.result = result
        if request.lost:
            return
        if isinstance(result, e.Refused):
            self._suspect(request)
        self._report_forwarded(request, None if isinstance(result, e.Done) else str(result))

    def _forward(self, request: Request, name: str) -> None:
        request.at = name
        if self.random.random() < self.faults.forward_is_lost:
            fate = self.random.choice(("refused", "unheard", "unanswered"))
            wait = 1 if fate == "refused" else FORWARD_MS
            self.at(wait, partial(self._lose, request, "IO Error trying to forward REST request"))
            if fate != "unanswered":
                return
        late = self.random.random() < self.faults.forward_is_late
        delay = self.random.randint(200, 40_000) if late else self.random.randint(1, 5)
        self.at(delay, partial(self._deliver, request, name))

    def _lose(self, request: Request, error: str) -> None:
        """Whoever asked does not wait any longer; the request may be served all the same."""
        if request.result is None and not request.lost:
            request.lost = True
            self._suspect(request)
            self._report_forwarded(request, error)

    def _suspect(self, request: Request) -> None:
        match request.operation:
            case e.SetTarget(connector, Target.STOPPED):
                self.suspects.add(connector)
            case _:
                pass

    def _report_forwarded(self, request: Request, error: str | None) -> None:
        owner = request.forwarded_by
        match request.operation:
            case e.PutTasks(connector) if owner is not None:
                owner.post(e.TasksForwarded(connector, error))
            case e.FenceZombies(connector) if owner is not None:
                result = request.result
                refused = result if isinstance(result, e.Refused) else e.Refused(500, error or "")
                given = None if isinstance(result, e.Done) else refused
                owner.post(e.FenceForwarded(connector, request.ticket, given))
            case _:
                pass

    # ── the topics ───────────────────────────────────────────────────────────────────────────

    def append_config(self, worker: SimWorker, command: e.AppendConfig) -> None:
        if self.random.random() < self.faults.append_fails:
            # Whatever it was, the producer of a leader is not used again.
            worker.leader_epoch = 0 if command.as_leader else worker.leader_epoch
            failed = e.Appended(command.ticket, -1, "no broker", fenced=command.as_leader)
            worker.later(20, lambda: worker.post(failed))
            return
        late = self.random.random() < self.faults.append_is_late
        if late or worker.appends_until > self.now:
            # One producer's records stay in order: what is behind a late one waits with it.
            delay = self.random.randint(500, 45_000) if late else 0
            worker.appends_until = max(worker.appends_until, self.now + delay) + 1
            in_buffer = self.random.random() < 0.5  # of the worker's process, or of Kafka's
            self.at(
                worker.appends_until - self.now,
                partial(self._append_late, worker, command, worker.leader_epoch, in_buffer),
            )
        else:
            self._append(worker, command, worker.leader_epoch)

    def _append_late(
        self, worker: SimWorker, command: e.AppendConfig, epoch: int, in_buffer: bool
    ) -> None:
        if in_buffer and not worker.alive:
            return
        for record in command.records:
            match record:
                case TaskConfig(task):
                    self.suspects.add(task.connector)
                case TaskCommit(connector):
                    self.suspects.add(connector)
                case _:
                    pass
        self._append(worker, command, epoch)

    def _append(self, worker: SimWorker, command: e.AppendConfig, epoch: int) -> None:
        ticket = command.ticket
        if command.as_leader and (epoch == 0 or epoch != self.epochs.get(LEADER)):
            refused = e.Appended(ticket, -1, "the producer was fenced", fenced=True)
            worker.later(20, lambda: worker.post(refused))
            return
        offset = self.configs.append([encode_config(record) for record in command.records])
        if command.as_leader:
            self.configs.mark_end_of_transaction()
        if self.random.random() >= self.faults.append_unanswered:
            delay = self.random.randint(1, 20)
            worker.later(delay, lambda: worker.post(e.Appended(ticket, offset)))
        for reader in self.workers.values():
            reader.read_configs_soon()

    def append_status(self, worker: SimWorker, record: StatusRecord) -> None:
        row = encode_status(record)
        late = self.random.random() < self.faults.status_is_late
        if late or worker.statuses_until > self.now:
            delay = self.random.randint(100, 8_000) if late else 0
            worker.statuses_until = max(worker.statuses_until, self.now + delay) + 1
            self.at(worker.statuses_until - self.now, partial(self._append_status, row))
        else:
            self._append_status(row)

    def _append_status(self, row: Row) -> None:
        self.statuses.append([row])
        for reader in self.workers.values():
            reader.read_statuses_soon()

    def write_config(self, *rows: Row) -> None:
        """A foreign producer writes to the config topic."""
        self.configs.append(list(rows))
        for reader in self.workers.values():
            reader.read_configs_soon()

    def write_status(self, *rows: Row) -> None:
        """A foreign producer writes to the status topic."""
        for row in rows:
            self._append_status(row)

    def read_delay(self) -> int:
        slow = self.random.random() < self.faults.read_is_slow
        return self.random.randint(500, 6_000) if slow else self.random.randint(1, 40)

    # ── transactional ids ────────────────────────────────────────────────────────────────────

    def take_id(self, name: str) -> int:
        """`initTransactions`: fences the earlier producer with the id."""
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def begin(self, task: TaskId, live: _Live) -> None:
        """The task has read its offsets: from now on no zombie may change them."""
        self._beginnings += 1
        live.began = self._last_begun[task] = self._beginnings
        newest = self._newest_begun.get(task.connector, -1)
        self._newest_begun[task.connector] = max(newest, live.task_set)

    def commit(self, task: TaskId, live: _Live) -> bool:
        """Whether a transaction of this task goes through; Broken if it must not."""
        if live.epoch != self.epochs[str(task)]:
            self.fenced += 1
            return False
        if live.began != self._last_begun[task]:
            raise Broken(f"{task} commits after its successor has started")
        if live.task_set < self._newest_begun[task.connector]:
            raise Broken(f"{task} of an older task set commits after a newer set has started")
        self.commits += 1
        return True

    # ── what must hold ───────────────────────────────────────────────────────────────────────

    def check_config(self, worker: SimWorker, before: ClusterState, *, full: bool = False) -> None:
        """Whoever has read as far sees the same cluster (`differences` says what compaction may
        take away). Only what was read since `before` is looked at, unless `full`."""
        state = worker.state.cluster
        truth = self.configs.truth(state.offset)
        if truth is None:
            return  # it has been away for so long that nobody remembers
        touched = self.configs.touched(before.offset, state.offset)
        if full or len(state.entries) != len(truth.state.entries):
            touched = frozenset(truth.state.entries) | frozenset(state.entries)
        found = differences(truth, state, touched, whole=worker.whole)
        if found:
            raise Broken(f"{worker.name} at offset {state.offset} sees {found[0]}")
        for connector in touched:
            was, now = before.generation(connector), state.generation(connector)
            if was is not None and (now is None or now < was):
                raise Broken(f"{worker.name} counts {connector}'s task sets down: {was}, {now}")

    def check_exclusive(self, task: TaskId) -> None:
        """No task runs twice, except on removed workers that have not noticed yet."""
        holders = [
            worker.name
            for worker in self.workers.values()
            if task in worker.live and not worker.live[task].zombie
        ]
        if len(holders) > 1:
            raise Broken(f"{task} runs on {' and '.join(sorted(holders))}")

    def cluster(self) -> ClusterState:
        """The cluster as the whole config topic says."""
        return self.configs.state

    def shown(self) -> StatusState:
        """The statuses as the whole status topic says."""
        return self.statuses.shown()

    def planned(self, connector: str) -> tuple[RawProps, ...]:
        """The tasks the connector plans at this moment; none when it is not configured."""
        properties = self.cluster().config(connector)
        return () if properties is None else planned(properties, self.world.get(connector, 0))

    def problems(self) -> list[str]:
        """The differences between the cluster and its configuration, when at rest."""
        return self.unrest() or self.ghosts()

    def unrest(self) -> list[str]:
        """The same, but for statuses of what is gone: those have time until the next round."""
        found: list[str] = []
        for worker in self.workers.values():
            found += worker.problems()
            if found:
                return found
        self.requests = [each for each in self.requests if each.result is None]
        for request in self.requests:
            if not request.lost:
                found.append(f"{request.operation} at {request.at} is not answered")
        if found or not self.workers:
            return found
        cluster, shown, owners = self.cluster(), self.shown(), self._owners()
        for connector in cluster.connectors():
            found += self._problems_of(connector, cluster, shown, owners)
        found += self._strays(cluster)
        assigned = [worker.state.membership.assigned for worker in self.workers.values()]
        loads = {
            "connectors": [len(work.connectors) for work in assigned],
            "tasks": [len(work.tasks) for work in assigned],
        }
        if self.protocol == "default":  # which deals both to the same circle of members
            loads = {"connectors and tasks": [len(work) for work in assigned]}
        for what, counts in loads.items():
            if max(counts) - min(counts) > 1:
                found.append(f"{what} are not balanced: {counts}")
        return found or self._disagreements(shown)

    def _disagreements(self, shown: StatusState) -> list[str]:
        """Workers that do not see what is true, and what one would not see that starts now."""
        for worker in self.workers.values():
            self.check_config(worker, worker.state.cluster, full=True)
        seen = [(worker.name, worker.state.statuses) for worker in self.workers.values()]
        seen.append(("a worker that starts now", self.statuses.now()))
        return [
            f"{name} sees {status} as the status of {item}, which is {true}"
            for name, statuses in seen
            for item, true, status in _different(shown, statuses)
            if not isinstance(item, TaskId) or self._tasks_are_known(item.connector)
        ]

    def _owners(self) -> dict[Item, list[SimWorker]]:
        owners: dict[Item, list[SimWorker]] = {}
        for worker in self.workers.values():
            assigned = worker.state.membership.assigned
            items: tuple[Item, ...] = (*assigned.connectors, *assigned.tasks)
            for item in items:
                owners.setdefault(item, []).append(worker)
        return owners

    def _problems_of(
        self,
        connector: str,
        cluster: ClusterState,
        shown: StatusState,
        all_owners: Mapping[Item, list[SimWorker]],
    ) -> list[str]:
        found: list[str] = []
        target, status = cluster.target(connector), shown.connector(connector)
        owners = all_owners.get(connector, [])
        if len(owners) != 1:
            found.append(f"{connector} is assigned to {[w.name for w in owners]}")
            return found
        wanted = {
            Target.STARTED: State.RUNNING,
            Target.PAUSED: State.PAUSED,
            Target.STOPPED: State.STOPPED,
        }
        if target is None or status is None or status.worker_id != owners[0].worker_id:
            found.append(f"{connector} has status {status}, its owner is {owners[0].name}")
        elif status.state is not wanted[target]:
            found.append(f"{connector} shows {status.state} and is to be {target}")
        if target is Target.STARTED and cluster.task_configs(connector) != self.planned(connector):
            found.append(f"{connector} has an old task set {cluster.task_configs(connector)}")
        if not self._tasks_are_known(connector):
            return found
        for task in cluster.tasks(connector):
            owning = all_owners.get(task, [])
            found += self._problems_of_task(task, target is Target.STARTED, shown, owning)
        return found

    def _tasks_are_known(self, connector: str) -> bool:
        """Whether everybody has to know its tasks: a connector that is not started publishes no new
        set, and what its last one was made from may have been compacted away."""
        if self.cluster().target(connector) is Target.STARTED or self.configs.settled(connector):
            return True
        return all(worker.whole for worker in self.workers.values())

    def _problems_of_task(
        self, task: TaskId, started: bool, shown: StatusState, owners: list[SimWorker]
    ) -> list[str]:
        if len(owners) != 1:
            return [f"{task} is assigned to {[w.name for w in owners]}"]
        live, status = owners[0].live.get(task), shown.task(task)
        found: list[str] = []
        if started and (live is None or live.phase != "running"):
            found.append(f"{task} does not run on {owners[0].name}: {live}")
        state = State.RUNNING if started else State.PAUSED
        truth = (state, owners[0].worker_id)
        if status is None or (status.state, status.worker_id) != truth:
            found.append(f"{task} has status {status} instead of {truth}")
        return found

    def _strays(self, cluster: ClusterState) -> list[str]:
        started = {
            task
            for connector in cluster.connectors()
            if cluster.target(connector) is Target.STARTED
            for task in cluster.tasks(connector)
        }
        return [
            f"{task} runs on {worker.name}, but should not run"
            for worker in self.workers.values()
            for task in worker.live
            if task not in started
        ]

    def ghosts(self) -> list[str]:
        """Statuses of connectors and tasks that do not exist."""
        cluster, shown = self.cluster(), self.shown()
        connectors = cluster.connectors()
        # A task of an inconsistent set neither runs nor is forgotten (kafka-connect.md §4.3).
        tasks = {TaskId(c, n) for c in connectors for n in range(cluster.task_count(c))}
        listed = [task for connector in shown.tasks for task in shown.tasks_of(connector)]
        gone = [*(set(shown.connectors) - set(connectors)), *map(str, set(listed) - tasks)]
        return [f"{item} has a status, but is gone" for item in sorted(gone)]


def config(connector: str, tasks: int, version: int = 0) -> dict[str, str | None]:
    """A configuration that makes the simulated connector plan so many tasks."""
    return {"name": connector, "tasks": str(tasks), "version": str(version)}


def planned(properties: RawProps, more: int = 0) -> tuple[RawProps, ...]:
    """The tasks the simulated connector plans. Every third version changes no task."""
    version = int(properties["version"] or 0) // 3
    count = int(properties["tasks"] or 0) + (more if asks_again_ms(properties) else 0)
    return tuple({"task": str(number), "version": str(version)} for number in range(count))


def asks_again_ms(properties: RawProps) -> int | None:
    """How often the simulated connector wants to be asked for its tasks: one in three does."""
    return 15_000 if (properties["name"] or "").endswith(("3", "6", "9")) else None


def restarts(properties: RawProps) -> RestartPolicy:
    """How the simulated connector is restarted: every second one is, three times in a minute."""
    if not (properties.get("name") or "").endswith(("2", "4", "6", "8")):
        return NO_RESTARTS
    return RestartPolicy(Causes.RETRIABLE, 3, backoff_ms=1_000, window_ms=60_000)


def _different(true: StatusState, seen: StatusState) -> list[tuple[object, object, object]]:
    """The connectors and tasks whose statuses differ, with both of them."""
    tasks = {
        TaskId(connector, number)
        for rows in (true.tasks, seen.tasks)
        for connector, row in rows.items()
        for number in row
    }
    connectors = {*true.connectors, *seen.connectors}
    found: list[tuple[object, object, object]] = [
        (name, true.connector(name), seen.connector(name))
        for name in sorted(connectors)
        if true.connector(name) != seen.connector(name)
    ]
    return found + [
        (task, true.task(task), seen.task(task))
        for task in sorted(tasks)
        if true.task(task) != seen.task(task)
    ]


class SimWorker:
    """One herder in its simulated process; also the group's client, as `kafka/group.py` is it."""

    def __init__(self, sim: Sim, name: str) -> None:
        self.sim = sim
        self.name = name
        self.worker_id = f"{name}:8083"
        self.alive = True
        self.cut = False
        self.backlog: list[Callable[[], None]] | None = None  # while the process hangs
        self.live: dict[TaskId, _Live] = {}
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
        self._config_position = 0
        self._status_position = 0
        self._configs_due = False
        self._statuses_due = False
        self._status_generation = -1
        self._sent_until = 0  # what is sent to the coordinator arrives in order …
        self._answered_until = 0  # … and so does what it answers
        self._member = ""
        self._generation = -1
        self._stage = "out"  # then: asking, joining, syncing, stable
        self._attempt = 0  # answers to earlier attempts to join are ignored
        self._join_wanted = False
        self._rejoin_needed = True
        self._expelled = False
        self._given: protocol.Assignment | None = None  # by the last round
        self._began = False
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

    # ── the process ──────────────────────────────────────────────────────────────────────────

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

    # ── commands ─────────────────────────────────────────────────────────────────────────────

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
                self._began = self._join_wanted = True
                self.later(random.randint(1, 50), self._poll)
            case e.BackOff():
                self._step_out()
            case e.TellMetadata():
                self._send_join(command)
            case e.TellAssignment():
                self._send_sync(command.reply, command.shares)
            case e.RefuseAssignment():
                if command.reply == self._attempt:
                    self._try_again()
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
        live = _Live(run, "starting", self._expelled, generation=command.generation)
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
        if not self.cut:
            self.sim.coordinator.leave(self._member, self.sim.now)

    def _own_up(self) -> None:
        """From the assignment on, what was started before an expulsion is this worker's again."""
        if self._member not in self.sim.coordinator.members:
            return  # the answer came late: the group has gone on without this worker
        self._expelled = False
        for task in self.state.membership.assigned.tasks:
            live = self.live.get(task)
            if live is not None and live.zombie:
                live.zombie = False
                self.sim.check_exclusive(task)

    # ── reading ──────────────────────────────────────────────────────────────────────────────

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

    # ── the group's client ───────────────────────────────────────────────────────────────────

    def _step_out(self) -> None:
        """Leaves the group until `JoinGroup` is ordered; the group goes on without this worker."""
        self._attempt += 1
        self._stage = "out"
        self._began = self._join_wanted = False
        self._rejoin_needed = True
        member, self._member = self._member, ""
        if member:
            self.on_expelled(member)
            self._send(lambda: self.sim.coordinator.leave(member, self.sim.now))

    def _poll(self) -> None:
        if self.cut or not self._began or self._stage not in ("out", "stable"):
            return
        if not (self._join_wanted or self._rejoin_needed):
            return
        self._join_wanted = False
        self._rejoin_needed = True
        self._attempt += 1
        attempt = self._attempt
        self._stage = "asking"
        self.later(ANSWER_MS, partial(self._give_up, attempt, "asking"))
        self.post(e.MetadataWanted(attempt))

    def _give_up(self, attempt: int, *stages: str) -> None:
        if self._attempt == attempt and self._stage in stages:
            self._try_again()

    def _try_again(self) -> None:
        self._attempt += 1
        self._stage = "out"
        self._rejoin_needed = True
        self.later(self.sim.random.randint(1, 200), self._poll)

    def _send(self, act: Callable[[], None]) -> None:
        """Sends the coordinator something, unless the way is cut."""
        if self.cut or (delay := self._delay()) is None:
            return
        self._sent_until = max(self._sent_until, self.sim.now + delay)
        self.sim.at(self._sent_until - self.sim.now, act)

    def answer(self, attempt: int, act: Callable[[], None]) -> None:
        """Brings the coordinator's answer, if this attempt to join still waits for it."""
        if (delay := self._delay()) is None:
            return
        self._answered_until = max(self._answered_until, self.sim.now + delay)
        self.later(self._answered_until - self.sim.now, partial(self._take_answer, attempt, act))

    def _delay(self) -> int | None:
        """How long a message takes; None when it is lost, and all that was tried with it: with
        every second one, the connection breaks, and that is noticed."""
        random, faults = self.sim.random, self.sim.faults
        if random.random() < faults.message_is_lost:
            if random.random() < 0.5:
                self.later(random.randint(1, 50), partial(self._break, self._attempt))
            return None
        return (
            random.randint(200, 8_000)
            if random.random() < faults.message_is_late
            else (random.randint(1, 10))
        )

    def _break(self, attempt: int) -> None:
        if attempt == self._attempt and self._stage in ("joining", "syncing"):
            self._try_again()

    def _take_answer(self, attempt: int, act: Callable[[], None]) -> None:
        if not self.cut and self._attempt == attempt:
            act()

    def _send_join(self, command: e.TellMetadata) -> None:
        if command.reply != self._attempt or self._stage != "asking":
            return
        self._stage = "joining"
        self.later(JOIN_MS, partial(self._give_up, self._attempt, "joining", "syncing"))
        data = protocol.encode_metadata(command.metadata, protocol.VERSIONS[self.sim.protocol])
        link, member = _WorkerLink(self, self._attempt), self._member
        self._send(lambda: self.sim.coordinator.join(link, member, data, self.sim.now))

    def take_join(
        self, member: str, generation: int, leader: str, members: Mapping[str, bytes]
    ) -> None:
        self._member, self._generation = member, generation
        self._stage = "syncing"
        if member == leader:
            reply = self._attempt
            self.post(e.AssignmentWanted(reply, member, self.sim.protocol, generation, members))
        else:
            self._send_sync(self._attempt, {})

    def _send_sync(self, attempt: object, shares: Mapping[str, bytes]) -> None:
        if attempt != self._attempt or self._stage != "syncing":
            return
        link, member, generation = _WorkerLink(self, self._attempt), self._member, self._generation
        self._send(
            lambda: self.sim.coordinator.sync(link, member, generation, shares, self.sim.now)
        )

    def take_sync(self, generation: int, data: bytes) -> None:
        self._stage = "stable"
        self._rejoin_needed = False
        self.post(e.Joined(generation, self._member, self.sim.protocol, data))
        self.later(self.sim.random.randint(1, 50), self._poll)
        self.later(HEARTBEAT_MS, partial(self._heartbeat, self._attempt))

    def _heartbeat(self, attempt: int) -> None:
        if self._attempt != attempt or self._stage != "stable" or not self.alive:
            return
        link, member, generation = _WorkerLink(self, attempt), self._member, self._generation
        self._send(lambda: self.sim.coordinator.heartbeat(link, member, generation, self.sim.now))
        self.later(HEARTBEAT_MS, partial(self._heartbeat, attempt))

    def take_refusal(self, *, known: bool) -> None:
        if not known:
            self._member = ""
        self._try_again()

    def on_expelled(self, member: str) -> None:
        if self._member not in ("", member):
            return  # a membership this worker never heard of
        self._expelled = True
        for live in self.live.values():
            live.zombie = True

    def lose_coordinator(self) -> None:
        self.cut = True
        self.later(HEARTBEAT_MS, self._report_loss)

    def _report_loss(self) -> None:
        if self.cut:
            self.post(e.CoordinatorLost())

    def find_coordinator(self) -> None:
        self.cut = False
        if self._stage in ("joining", "syncing"):
            self.later(1, self._try_again)
        else:
            self.later(1, self._poll)

    # ── what must hold ───────────────────────────────────────────────────────────────────────

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
        if self._member not in self.sim.coordinator.members or self._stage != "stable":
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


@dataclass(frozen=True, slots=True)
class _WorkerLink:
    worker: SimWorker
    attempt: int

    def unknown_member(self) -> None:
        self.worker.answer(self.attempt, lambda: self.worker.take_refusal(known=False))

    def round_is_over(self) -> None:
        self.worker.answer(self.attempt, lambda: self.worker.take_refusal(known=True))

    def joined(
        self, member: str, generation: int, leader: str, members: Mapping[str, bytes]
    ) -> None:
        self.worker.answer(
            self.attempt, lambda: self.worker.take_join(member, generation, leader, members)
        )

    def synced(self, generation: int, data: bytes) -> None:
        self.worker.answer(self.attempt, lambda: self.worker.take_sync(generation, data))

    def expelled(self, member: str) -> None:
        self.worker.on_expelled(member)
