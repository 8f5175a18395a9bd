"""A cluster of workers under load whose members join, stop, die, freeze and lose the network, and
whose broker becomes unreachable: files and topics keep flowing, and every line arrives.

The cluster delivers at least once. When a worker is interrupted, records that were processed but
not yet committed may be repeated: of a source the current batch, of a sink the records written
since the last commit and the current batch. Tasks that stop cleanly repeat nothing. The tests run
in turn on one cluster.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import psutil
import pytest

from penstock.kafka.broker import BRIEF, Broker, BrokerListener, free_port
from penstock.testing.cluster import (
    Flow,
    FlowWatch,
    GrowingFile,
    Repeats,
    Trial,
    WorkerCluster,
    is_task,
)
from penstock.testing.group_log import read_group_log
from penstock.testing.processes import WorkerProcess
from penstock.testing.proxy import Proxy
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

SESSION_S: Final = 6.0  # the shortest that a broker allows
GONE_S: Final = 20.0  # how long the broker is unreachable: longer than every time-out below
PIECE_S: Final = 1.0  # how often files grow: the normal pause between lines
LINES_S: Final = 400
START_S: Final = 240.0  # a worker with its Spark, on a busy machine
# Bounds for an idle machine; a trial's `slowness` extends them.
MOVE_S: Final = 5.0  # until tasks run elsewhere, once the group knows that they must move
BACK_S: Final = 20.0  # until a worker, or all of them, run their share again
CALM_S: Final = 8.0  # the longest pause while another worker starts
TASKS: Final = 6
ITEMS: Final = 12  # each task and its connector

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow(235)]

SETTINGS: Final = {
    "scheduled_rebalance_max_delay_ms": "0",
    "session_timeout_ms": f"{SESSION_S * 1000:.0f}",
    "heartbeat_interval_ms": "1000",
    "rebalance_timeout_ms": "15000",
    "request_timeout_ms": "10000",
    "offset_storage_partitions": "2",
    "task_shutdown_graceful_timeout_ms": "10000",
    "spark_driver_memory": "600m",
}


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """The proxy between one of the workers and the broker."""
    with Proxy(free_port()) as running:
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, proxy: Proxy) -> Iterator[Broker]:
    """A broker only for this module, which stops and starts it."""
    quick = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    ways = [BrokerListener("PROXIED", proxy.target, proxy.port)]
    folder = tmp_path_factory.mktemp("broker")
    with Broker(
        folder, port=free_port(), settings=quick, listeners=ways, java_options=[BRIEF]
    ) as own:
        yield own


@pytest.fixture(scope="module")
def topics(broker: Broker) -> Topics:
    return Topics(broker.bootstrap)


@pytest.fixture(scope="module")
def flows(
    topics: Topics, cluster: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Flow]]:
    folder = tmp_path_factory.mktemp("flows")
    made: list[Flow] = []
    for number, name in enumerate(("a", "b", "c")):
        growing = GrowingFile(folder / f"{name}.txt", lines_s=LINES_S, piece_s=PIECE_S, seed=number)
        made.append(Flow(name, folder, topics.create(f"{cluster}-{name}"), growing))
    yield made
    for flow in made:
        flow.growing.stop()


@dataclass
class Fleet:
    """The cluster, and the records that flow through it."""

    cluster: WorkerCluster
    watch: FlowWatch
    topics: Topics
    group: str
    frozen: list[psutil.Process] = field(default_factory=list)

    @property
    def workers(self) -> list[WorkerProcess]:
        return self.cluster.workers

    def shared(self, *, told_by: WorkerProcess | None = None) -> dict[str, str]:
        """The owners of connectors and tasks, once the running workers share them evenly; `told_by`
        is the worker to ask, if another one was frozen or unreachable."""
        return self.cluster.await_shared(ITEMS, self.cluster.up(), START_S, told_by)

    def tasks_of(self, worker: WorkerProcess) -> set[str]:
        owners = self.cluster.owners(worker)
        return {item for item, owner in owners.items() if owner == worker.id and is_task(item)}

    def leader(self) -> WorkerProcess:
        leads = read_group_log(self.topics).leader(self.group)
        return next(each for each in self.workers if leads.startswith(f"connect-{each.id}-"))

    def taken_over(self, worker: WorkerProcess, since: float) -> float:
        """Waits until everything runs on other workers; returns the seconds since `since`."""
        others = [each for each in self.cluster.up() if each is not worker]
        self.cluster.await_shared(ITEMS, others, START_S)
        return time.monotonic() - since

    def done(self) -> dict[str, tuple[int, int]]:
        """By flow, the committed positions of its source and its sink."""
        stored = self.watch.positions()
        flows = self.watch.flows.items()
        return {name: (stored[name], self.watch.committed(flow)) for name, flow in flows}

    def freeze(self, worker: WorkerProcess) -> None:
        """Suspends the worker and all its child processes, like a suspended machine."""
        process = psutil.Process(worker.pid)
        process.suspend()  # first, so that it starts nothing new
        self.frozen = [process]
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.suspend()
                self.frozen.append(child)

    def thaw(self) -> None:
        for each in self.frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()
        self.frozen = []

    def unstored(self, tasks: set[str], trial: Trial) -> dict[str, Repeats]:
        """What these tasks have processed but not committed; exact once their worker is dead."""
        found: dict[str, Repeats] = {}
        stored = self.watch.positions()
        for name, flow in self.watch.flows.items():
            sent = written = 0
            if f"{flow.source}-0" in tasks:
                sent = self.topics.count(flow.topic) - stored[name] - trial.before[name].sent
            if f"{flow.sink}-0" in tasks:
                written = self.watch.lines_in_target(flow) - self.watch.committed(flow)
                written -= trial.before[name].written
            found[name] = Repeats(sent, written)
        return found


@pytest.fixture(scope="module")
def fleet(
    make_worker: Callable[..., WorkerProcess],
    broker: Broker,
    proxy: Proxy,
    topics: Topics,
    cluster: str,
    flows: list[Flow],
) -> Iterator[Fleet]:
    """Three flows through two workers; a third worker, behind the proxy, is not started yet."""
    behind = {**SETTINGS, "bootstrap_servers": f"127.0.0.1:{proxy.port}"}
    workers = [make_worker(**SETTINGS), make_worker(**SETTINGS), make_worker(**behind)]
    for worker in workers[:2]:
        worker.start()
    for worker in workers[:2]:
        worker.await_rest(START_S)
    for flow in flows:
        workers[0].create(flow.source, flow.source_config())
        workers[0].create(flow.sink, flow.sink_config())
    with FlowWatch(topics, cluster, flows) as watch:
        fleet = Fleet(WorkerCluster(workers), watch, topics, cluster)
        try:
            fleet.shared()
            watch.arriving()
            yield fleet
        finally:
            fleet.thaw()
            for worker in fleet.cluster.up():
                worker.kill()


def tell(what: str, trial: Trial, **seconds: float) -> None:
    """Prints a measurement, for `-s`."""
    took = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    pauses = {
        name: f"{trial.topic_stall_s[name]:.1f}/{trial.target_stall_s[name]:.1f}"
        for name in trial.repeats
    }
    repeats = {name: (each.sent, each.written) for name, each in trial.repeats.items()}
    said = f"longest pauses {pauses}; repeated {repeats}; "
    said += f"{trial.steps_back()} steps back; slowness {trial.slowness:.1f}"
    print(f"\n{what}: {took}; {said}")  # noqa: T201


def test_a_worker_that_is_added_gets_its_share_and_only_what_moves_is_disturbed(
    fleet: Fleet,
) -> None:
    before, starts = fleet.shared(), fleet.cluster.starts()
    with fleet.watch.trial() as trial:
        begin = time.monotonic()
        fleet.workers[2].start().await_rest(START_S)
        after = fleet.shared()
        shared_s = time.monotonic() - begin
        fleet.watch.arriving()
    tell("added", trial, shared=shared_s)
    started = fleet.cluster.starts() - starts
    moved = {item for item, owner in after.items() if owner != before[item]}
    assert len({item for item in moved if is_task(item)}) == TASKS // 3
    assert {after[item] for item in moved} == {fleet.workers[2].id}
    # The new worker gets its tasks before its Spark is ready; they start once, and no others do.
    assert started == {item: 1 for item in moved if is_task(item)}
    stays = [name for name, flow in fleet.watch.flows.items() if not moved & tasks_of(flow)]
    assert all(trial.target_stall_s[name] < CALM_S * trial.slowness for name in stays), trial
    # Revoked tasks stop cleanly: they commit before their successors start.
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)


def tasks_of(flow: Flow) -> set[str]:
    return {f"{flow.source}-0", f"{flow.sink}-0"}


def test_the_tasks_of_a_worker_that_is_stopped_run_elsewhere_at_once_and_repeat_nothing(
    fleet: Fleet,
) -> None:
    fleet.shared()
    leader = fleet.leader()
    worker = next(each for each in fleet.workers if each is not leader)
    with fleet.watch.trial() as trial:
        asked_at = time.monotonic()
        worker.ask_to_stop()
        moved_s = fleet.taken_over(worker, asked_at)
        fleet.watch.arriving()
        wait_until(lambda: worker.exit_code is not None, START_S, "the worker to end")
        code = worker.exit_code
    worker.start().await_rest(START_S)
    tell("stopped", trial, moved=moved_s)
    assert code == 0, worker.log_text()[-2000:]
    assert moved_s < MOVE_S * trial.slowness
    assert trial.stall_s < (MOVE_S + 2 * PIECE_S) * trial.slowness
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)


def test_the_tasks_of_a_worker_that_is_killed_run_elsewhere_when_its_session_is_over(
    fleet: Fleet,
) -> None:
    fleet.shared()
    worker = fleet.leader()  # the next leader knows nothing of earlier rebalances
    tasks = fleet.tasks_of(worker)
    children = psutil.Process(worker.pid).children(recursive=True)
    with fleet.watch.trial() as trial:
        killed_at = time.monotonic()
        worker.kill()
        wait_until(lambda: not any(map(alive, children)), 30, "its Spark to end")
        unstored = fleet.unstored(tasks, trial)
        moved_s = fleet.taken_over(worker, killed_at)
        fleet.watch.arriving()
    worker.start().await_rest(START_S)
    tell("killed", trial, moved=moved_s)
    assert moved_s < SESSION_S + MOVE_S * trial.slowness
    assert trial.stall_s < SESSION_S + (MOVE_S + 2 * PIECE_S) * trial.slowness
    # Exactly the uncommitted records are repeated: the last batch, if it was interrupted.
    assert trial.repeats == unstored
    assert trial.steps_back() == 0, trial.went_back


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_worker_frozen_beyond_its_session_stops_its_reassigned_tasks(
    fleet: Fleet,
) -> None:
    fleet.shared()
    worker = fleet.workers[0]
    tasks = fleet.tasks_of(worker)
    with fleet.watch.trial() as trial:
        frozen_at = time.monotonic()
        fleet.freeze(worker)
        stored = fleet.watch.positions()
        committed = {name: fleet.watch.committed(f) for name, f in fleet.watch.flows.items()}
        try:
            moved_s = fleet.taken_over(worker, frozen_at)
            fleet.watch.arriving()
        finally:
            fleet.thaw()
        begin = time.monotonic()
        fleet.shared(told_by=fleet.workers[1])
        back_s = time.monotonic() - begin
        ends = {name: flow.growing.lines for name, flow in fleet.watch.flows.items()}
        fleet.watch.arriving()
    tell("stood still", trial, moved=moved_s, back=back_s)
    assert moved_s < SESSION_S + MOVE_S * trial.slowness
    assert back_s < BACK_S * trial.slowness
    # It continues its current batch until it learns that it was removed, and repeats at most that.
    # It commits none of it, so the successors' offsets never regress.
    assert trial.steps_back() == 0, trial.went_back
    for name, flow in fleet.watch.flows.items():
        again = trial.repeats[name]
        sends, writes = (f"{each}-0" in tasks for each in (flow.source, flow.sink))
        assert again.sent <= (ends[name] - stored[name] if sends else 0)
        assert again.written <= (ends[name] - committed[name] + again.sent if writes else 0)


@pytest.mark.parametrize("how", [Proxy.cut, Proxy.hang], ids=["refused", "silent"])
def test_a_worker_without_network_gives_its_tasks_up_and_comes_back_with_the_network(
    fleet: Fleet, proxy: Proxy, how: Callable[[Proxy], None]
) -> None:
    fleet.shared()
    worker = fleet.workers[2]
    tasks = fleet.tasks_of(worker)
    assert proxy.connections > 0, "the worker does not go through the proxy"
    starts = fleet.cluster.starts()
    with fleet.watch.trial() as trial:
        broken_at = time.monotonic()
        how(proxy)
        ends = {name: flow.growing.lines for name, flow in fleet.watch.flows.items()}
        stored = fleet.watch.positions()
        committed = {name: fleet.watch.committed(f) for name, f in fleet.watch.flows.items()}
        try:
            moved_s = fleet.taken_over(worker, broken_at)
            fleet.watch.arriving()
            assert worker.alive, worker.log_text()[-2000:]
        finally:
            proxy.restore()
        begin = time.monotonic()
        fleet.shared(told_by=fleet.workers[1])
        back_s = time.monotonic() - begin
        fleet.watch.arriving()
    tell(f"without network ({how.__name__})", trial, moved=moved_s, back=back_s)
    assert moved_s < SESSION_S + MOVE_S * trial.slowness
    assert back_s < BACK_S * trial.slowness
    assert trial.stall_s < SESSION_S + (MOVE_S + 2 * PIECE_S) * trial.slowness
    # An offset in flight reaches the broker once the network is back, if the connection survived;
    # the successor's next commit corrects that.
    late = len(tasks) if how is Proxy.hang else 0
    assert trial.steps_back() <= late, trial.went_back
    # Its current batch and, if the network is silent, what it read until it noticed.
    for name, flow in fleet.watch.flows.items():
        again = trial.repeats[name]
        sends, writes = (f"{each}-0" in tasks for each in (flow.source, flow.sink))
        limit = ends[name] + int(SESSION_S * LINES_S) * 2
        assert again.sent <= (limit - stored[name] if sends else 0)
        assert again.written <= (limit - committed[name] + again.sent if writes else 0)
    assert fleet.cluster.starts() - starts, "nothing was started anywhere"


def test_a_broker_that_is_restarted_is_waited_for(fleet: Fleet, broker: Broker) -> None:
    fleet.shared()
    with fleet.watch.trial() as trial:
        before, up = fleet.done(), fleet.cluster.up()
        broker.stop()
        broker.start()
        begin = time.monotonic()
        fleet.watch.arriving()  # earlier statuses say nothing
        fleet.shared()
        back_s = time.monotonic() - begin
    tell("broker restarted", trial, back=back_s)
    assert fleet.cluster.up() == up, "a worker has ended"
    assert back_s < BACK_S * trial.slowness
    check_repeats(fleet, trial, before)


def test_a_broker_that_is_unreachable_for_longer_than_every_time_out_is_waited_for(
    fleet: Fleet, broker: Broker
) -> None:
    fleet.shared()
    with fleet.watch.trial() as trial:
        before, up = fleet.done(), fleet.cluster.up()
        broker.kill()
        back = time.monotonic() + GONE_S
        wait_until(lambda: time.monotonic() > back, GONE_S + 5, "the outage to last long enough")
        broker.start()
        begin = time.monotonic()
        fleet.watch.arriving()
        fleet.shared()
        back_s = time.monotonic() - begin
    tell("broker away", trial, back=back_s)
    assert fleet.cluster.up() == up, "a worker has ended"
    assert back_s < BACK_S * trial.slowness
    check_repeats(fleet, trial, before)


def check_repeats(fleet: Fleet, trial: Trial, before: dict[str, tuple[int, int]]) -> None:
    """Checks that tasks repeat at most their interrupted batch and the records that they wrote but
    could not commit: those between the offsets committed before the outage and the length of
    the files when everything ran again."""
    assert trial.steps_back() == 0, trial.went_back
    for name, again in trial.repeats.items():
        stored, committed = before[name]
        limit = fleet.watch.flows[name].growing.lines
        assert again.sent <= limit - stored, (name, trial.repeats)
        assert again.written <= limit + trial.before[name].sent + again.sent - committed, name


def test_workers_restarted_one_after_the_other_repeat_nothing(fleet: Fleet) -> None:
    fleet.shared()
    seconds: dict[str, float] = {}
    with fleet.watch.trial() as trial:
        for number, worker in enumerate(fleet.cluster.up()):
            begin = time.monotonic()
            assert worker.stop(60) == 0, worker.log_text()[-2000:]
            worker.start().await_rest(START_S)
            fleet.shared()
            seconds[f"worker {number + 1}"] = time.monotonic() - begin
        fleet.watch.arriving()
    tell("rolling restart", trial, **seconds)
    # Tasks move twice per restart: to the others, and back to the restarted worker.
    assert trial.stall_s < 2 * CALM_S * trial.slowness
    assert (trial.sent_again(), trial.written_again(), trial.steps_back()) == (0, 0, 0)
