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
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from penstock.cluster import events as e
from penstock.cluster.records import (
    RawProps,
    StatusRecord,
    Target,
    TaskCommit,
    TaskConfig,
    encode_config,
    encode_status,
)
from penstock.cluster.state import ClusterState
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId
from penstock.testing import sim_problems
from penstock.testing.sim_connectors import planned
from penstock.testing.sim_faults import NO_FAULTS, Broken
from penstock.testing.sim_group import Coordinator
from penstock.testing.sim_topics import ConfigTopic, Row, StatusTopic, differences
from penstock.testing.sim_worker import LEADER, Live, Request, SimWorker

FORWARD_MS: Final = 90_000  # how long a worker waits for another's response
SESSION_TICK_MS: Final = 200
START: Final = 1_700_000_000_000
MOST_STEPS: Final = 2_000_000


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
        if not worker.group.cut:
            worker.group.lose_coordinator()
            self.at(ms, worker.group.find_coordinator)

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

    def take_id(self, name: str) -> int:
        """`initTransactions`: fences the earlier producer with the id."""
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def begin(self, task: TaskId, live: Live) -> None:
        """The task has read its offsets: from now on no zombie may change them."""
        self._beginnings += 1
        live.began = self._last_begun[task] = self._beginnings
        newest = self._newest_begun.get(task.connector, -1)
        self._newest_begun[task.connector] = max(newest, live.task_set)

    def commit(self, task: TaskId, live: Live) -> bool:
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
        return sim_problems.unrest(self)

    def ghosts(self) -> list[str]:
        """Statuses of connectors and tasks that do not exist."""
        return sim_problems.ghosts(self)
