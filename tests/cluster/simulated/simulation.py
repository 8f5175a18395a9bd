"""The simulated cluster: its clock, its workers, and requests on their way to them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from penstock.cluster import events as e
from penstock.cluster.records import RawProps, Target
from penstock.cluster.state import ClusterState
from penstock.cluster.statuses import StatusState
from penstock.ids import TaskId
from tests.cluster.simulated import problems
from tests.cluster.simulated.connectors import planned
from tests.cluster.simulated.coordinator import Coordinator
from tests.cluster.simulated.faults import NO_FAULTS, Broken
from tests.cluster.simulated.tasks import Transactions
from tests.cluster.simulated.topics import ConfigTopic, Row, StatusTopic
from tests.cluster.simulated.worker import Request, SimWorker

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
        self.transactions = Transactions()
        self.faults = NO_FAULTS
        self.coordinator = Coordinator()
        self.configs = ConfigTopic()
        self.statuses = StatusTopic()
        self.extra_tasks: dict[str, int] = {}
        """By connector: how many more tasks than configured it plans, if it replans."""
        self.workers: dict[str, SimWorker] = {}
        self.requests: list[Request] = []
        self.steps = 0
        self.suspects: set[str] = set()
        """Connectors whose task set only a restart corrects: half of a stop was stored, an expelled
        worker published task configurations, or a newer set overtook an older one on its way to the
        leader or to the topic (as in the JVM, too)."""
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._entries = 0
        self._watch_sessions()

    def at(self, delay: int, act: Callable[[], None]) -> None:
        """Schedules `act` for `delay` ms from now."""
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

    def run_until(self, condition: Callable[[], bool], within_ms: int = 600_000) -> None:
        """Lets time pass until the condition holds; AssertionError when it takes too long."""
        end = self.now + within_ms
        while not condition():
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
        self.remove_worker(name)

    def remove_worker(self, name: str) -> None:
        """The worker's process has ended; messages to it are lost."""
        worker = self.workers.pop(name)
        worker.alive = False
        worker.live.clear()
        for request in self.requests:
            if request.at == name and request.result is None and not request.lost:
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
        """Sets the worker's clock forward or, below 0, back. Its loop notices when it next reads
        the clock."""
        self.workers[name].clock_ms += ms

    def compact(self, share: float) -> None:
        """Compacts the topics up to this share of their length.

        Tombstones stay until all workers of this moment have read them: Kafka keeps them for a day.
        """
        positions = [worker.positions for worker in self.workers.values()]
        for topic, forget in (
            (self.configs, min((configs for configs, _ in positions), default=0)),
            (self.statuses, min((statuses for _, statuses in positions), default=0)),
        ):
            topic.compact(int(len(topic) * share), forget)

    def fail_task(self, name: str, task: TaskId) -> None:
        """A running task fails."""
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

    def forward(self, request: Request, url: str) -> None:
        """Sends a worker's own request to the leader."""
        self.requests.append(request)
        self.answered(request, e.Elsewhere(url))

    def _deliver(self, request: Request, name: str) -> None:
        request.at = name
        worker = self.workers.get(name)
        if worker is None:
            self.answered(request, e.Refused(500, "IO Error trying to forward REST request"))
            return
        match request.operation:
            case e.PutTasks(connector, configs) if configs != self.planned(connector):
                self.suspects.add(connector)  # a newer configuration overtook it
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
                self._redirect(request, result.url.removeprefix("http://").removesuffix(":8083/"))
                return
        request.result = result
        if request.lost:
            return
        if isinstance(result, e.Refused):
            self._suspect(request)
        self._report_forwarded(request, None if isinstance(result, e.Done) else str(result))

    def _redirect(self, request: Request, name: str) -> None:
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
        """The sender stops waiting; the request may still be served."""
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
                failure = result if isinstance(result, e.Refused) else e.Refused(500, error or "")
                refused = None if isinstance(result, e.Done) else failure
                owner.post(e.FenceForwarded(connector, request.ticket, refused))
            case _:
                pass

    def write_config(self, *rows: Row) -> None:
        """A foreign producer writes to the config topic."""
        self.configs.append(list(rows))
        self.wake_config_readers()

    def wake_config_readers(self) -> None:
        """The config topic has grown."""
        for worker in self.workers.values():
            worker.read_configs_soon()

    def write_status(self, *rows: Row) -> None:
        """Stores rows in the status topic, and wakes its readers."""
        for row in rows:
            self.statuses.append([row])
            for worker in self.workers.values():
                worker.read_statuses_soon()

    def read_delay(self) -> int:
        """How long it takes a reader to get new records."""
        slow = self.random.random() < self.faults.read_is_slow
        return self.random.randint(500, 6_000) if slow else self.random.randint(1, 40)

    def check_exclusive(self, task: TaskId) -> None:
        """No task runs twice, except on expelled workers that have not noticed yet."""
        holders = [
            worker.name
            for worker in self.workers.values()
            if task in worker.live and not worker.live[task].zombie
        ]
        if len(holders) > 1:
            raise Broken(f"{task} runs on {' and '.join(sorted(holders))}")

    def cluster(self) -> ClusterState:
        """The cluster according to the whole config topic."""
        return self.configs.state

    def shown(self) -> StatusState:
        """The statuses according to the whole status topic."""
        return self.statuses.shown()

    def planned(self, connector: str) -> tuple[RawProps, ...]:
        """The tasks the connector plans at this moment; none if it is not configured."""
        properties = self.cluster().config(connector)
        if properties is None:
            return ()
        return planned(properties, self.extra_tasks.get(connector, 0))

    def problems(self) -> list[str]:
        """The differences between the cluster and its configuration, when at rest."""
        return self.unrest() or self.ghosts()

    def unrest(self) -> list[str]:
        """The same without `ghosts`, which have time until the next rebalance."""
        self.requests = [request for request in self.requests if request.result is None]
        return problems.unrest(self)

    def ghosts(self) -> list[str]:
        """Statuses of connectors and tasks that do not exist."""
        return problems.ghosts(self)
