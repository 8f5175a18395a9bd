"""Three workers that are killed, suspended for longer than a session, and started again, while
files grow: every line is in the topic exactly once, in order (KIP-618).

Lines have one width and begin with their number, so that hundreds of thousands of them are checked
as arrays. Faults are injected for PENSTOCK_SOAK_S seconds (`make soak`). To repeat a run's
schedule, set PENSTOCK_CHAOS_SEED to the seed it printed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, Final

import httpx
import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

pytestmark = pytest.mark.slow(210)

WIDTH: Final = 64  # bytes of a line, including its end
CHAOS_S: Final = float(os.environ.get("PENSTOCK_SOAK_S", "35"))
SETTLE_S: Final = 150.0
SESSION_MS: Final = 6_000
STUCK_S: Final = 20.0  # the pause between faults while nothing arrives
ZOMBIE_S: Final = 11.0  # how long a worker is suspended: longer than its session
FAILED_S: Final = 10.0  # after this long the operator restarts a failed task
LINES_S: Final = 4_500  # by which a file grows per second
_LEADS: Final = re.compile(rb"^\[([-\d]+ [:,\d]+)\].*elected leader", re.MULTILINE)

SETTINGS: Final = {
    "exactly_once_source_support": "enabled",
    "session_timeout_ms": str(SESSION_MS),
    "heartbeat_interval_ms": "1500",
    "scheduled_rebalance_max_delay_ms": "2000",
    "offset_storage_partitions": "5",
    "offset_flush_interval_ms": "500",
}


class Feed:
    """A file that grows until `stop`, in pieces that end anywhere."""

    def __init__(self, file: Path, seed: int) -> None:
        self.file = file
        self.lines = 0
        self._random = Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._grow, name=f"feed-{file.name}", daemon=True)
        file.touch()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _grow(self) -> None:
        with self.file.open("ab", buffering=0) as out:
            rest = b""
            begin = time.monotonic()
            while not self._over.is_set():
                due = int((time.monotonic() - begin) * LINES_S)
                text = rest + b"".join(map(line, range(self.lines, due)))
                self.lines = max(self.lines, due)
                cut = self._random.randint(0, len(text))
                out.write(text[:cut])
                rest = text[cut:]
                self._over.wait(self._random.uniform(0.02, 0.3))
            out.write(rest)


def line(number: int) -> bytes:
    return b"%09d" % number + b"." * (WIDTH - 10) + b"\n"


@dataclass
class Cluster:
    """The workers, and the faults injected into them."""

    workers: list[WorkerProcess]
    random: Random
    frozen: dict[int, float] = field(default_factory=dict)  # worker number: until when
    down: dict[int, float] = field(default_factory=dict)
    reported: list[str] = field(default_factory=list)
    failing: dict[str, float] = field(default_factory=dict)  # task: since when
    restarted: int = 0  # tasks, by the operator

    def answering(self) -> list[WorkerProcess]:
        return [
            worker
            for number, worker in enumerate(self.workers)
            if worker.alive and number not in self.frozen
        ]

    def leader(self) -> int | None:
        """The worker that claimed the config topic last."""
        claims = {
            number: _LEADS.findall(worker.log.read_bytes())
            for number, worker in enumerate(self.workers)
            if worker.alive
        }
        claimed = {number: found[-1] for number, found in claims.items() if found}
        return max(claimed, key=lambda number: claimed[number]) if claimed else None

    def owner(self, connector: str, default: int) -> int:
        """The worker that runs the connector's task; `default` if unknown."""
        status = self.request("GET", f"/connectors/{connector}/status")
        tasks = status.json()["tasks"] if status is not None and status.status_code == 200 else []
        owners = {task["worker_id"] for task in tasks if task["state"] == "RUNNING"}
        found = [number for number, worker in enumerate(self.workers) if worker.id in owners]
        return found[0] if found else default

    def kill(self, number: int, what: str) -> None:
        if number not in self.down:
            self.thaw(number)
            self.workers[number].kill()
            self.down[number] = time.monotonic() + self.random.uniform(0.0, 6.0)
            self.tell(f"{what} {number} is killed")

    def freeze(self, number: int) -> None:
        if number not in self.down and number not in self.frozen:
            os.kill(self.workers[number].pid, signal.SIGSTOP)
            self.frozen[number] = time.monotonic() + ZOMBIE_S
            self.tell(f"worker {number} stands still")

    def thaw(self, number: int) -> None:
        if self.frozen.pop(number, None) is not None:
            os.kill(self.workers[number].pid, signal.SIGCONT)
            self.tell(f"worker {number} goes on")

    def recover(self, now: float) -> None:
        """Restarts and resumes the workers whose outage is over."""
        for number in [number for number, until in self.frozen.items() if now >= until]:
            self.thaw(number)
        for number in [number for number, until in self.down.items() if now >= until]:
            del self.down[number]
            self.workers[number].start()
            self.tell(f"worker {number} is started")

    def request(self, method: str, path: str, body: object = None) -> httpx.Response | None:
        """The answer of a random worker; None if it does not answer within 5 s."""
        workers = self.answering()
        if not workers:
            return None
        url = self.random.choice(workers).url + path
        with contextlib.suppress(httpx.HTTPError):
            return httpx.request(method, url, json=body, timeout=5.0, trust_env=False)
        return None

    def restart_failed(self, connectors: list[str]) -> None:
        """Restarts tasks that stay failed, as an operator would."""
        for connector in connectors:
            status = self.request("GET", f"/connectors/{connector}/status")
            if status is None or status.status_code != 200:
                continue
            for task in status.json()["tasks"]:
                name = f"{connector}-{task['id']}"
                if task["state"] != "FAILED":
                    self.failing.pop(name, None)
                    continue
                # The owner soon overwrites a zombie's status, and a new task set the failure of
                # the old one; the operator handles only failures that stay.
                since = self.failing.setdefault(name, time.monotonic())
                if time.monotonic() - since > FAILED_S:
                    self.tell(f"{name} failed: {task['trace'][-200:]}")
                    self.request("POST", f"/connectors/{connector}/tasks/{task['id']}/restart")
                    self.failing.pop(name)
                    self.restarted += 1

    def tell(self, text: str) -> None:
        self.reported.append(f"{time.monotonic():9.1f} {text}")

    def close(self) -> None:
        for number in list(self.frozen):
            self.thaw(number)


@pytest.fixture
def trio(make_worker: Callable[..., WorkerProcess]) -> Iterator[Cluster]:
    """Three workers of one group that all answer."""
    seed = int(os.environ.get("PENSTOCK_CHAOS_SEED") or SystemRandom().randrange(1_000_000))
    print(f"PENSTOCK_CHAOS_SEED={seed}")  # noqa: T201 - to repeat the run
    cluster = Cluster([make_worker(**SETTINGS).start() for _ in range(3)], Random(seed))
    try:
        for worker in cluster.workers:
            worker.await_rest(180)
        yield cluster
    finally:
        cluster.close()  # a suspended process cannot be stopped


def settings_of(file: Path, topic: str, **more: str) -> dict[str, str]:
    own = {name.replace("_", "."): text for name, text in more.items()}
    named = {"connector.class": "FileStreamSource", "tasks.max": "1"}
    return {**named, "file": str(file), "topic": topic, **own}


def committed_lines(topics: Topics, topic: str) -> np.ndarray[Any, Any]:
    """The numbers of the committed lines in the topic, in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": topics.bootstrap,
            "group.id": f"reader-of-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    numbers: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            for message in consumer.consume(50_000, 1.0):
                if message.error() is not None:
                    return np.array(numbers, np.int64)
                value = message.value() or b""
                numbers.append(int(value[:9]))
                assert value + b"\n" == line(numbers[-1]), "a line was torn or altered"
    finally:
        consumer.close()


def check(numbers: np.ndarray[Any, Any], sent: int) -> None:
    """Every line once, in order."""
    assert len(np.unique(numbers)) == len(numbers), "lines are there twice"
    assert len(numbers) == sent, "lines are missing"
    assert (numbers == np.arange(sent)).all(), "lines are out of order"


@pytest.mark.timeout(CHAOS_S + 900)
def test_every_line_arrives_exactly_once_whatever_happens_to_the_workers(
    trio: Cluster, topics: Topics, cluster: str, tmp_path: Path
) -> None:
    random = trio.random
    # One transaction per batch; and one per interval, with the connector's own offsets topic.
    kinds: dict[str, dict[str, str]] = {
        "poll": {},
        "interval": {
            "transaction_boundary": "interval",
            "transaction_boundary_interval_ms": "400",
            "offsets_storage_topic": f"{cluster}-own-offsets",
        },
    }
    feeds = {name: Feed(tmp_path / f"{name}.txt", random.randrange(1_000)) for name in kinds}
    names = {name: topics.create(f"{cluster}-{name}") for name in kinds}
    configs = {
        name: settings_of(feeds[name].file, names[name], **more) for name, more in kinds.items()
    }
    try:
        for name, config in configs.items():
            trio.workers[0].create(name, config)
        for name in kinds:
            trio.workers[0].await_states(name, ["RUNNING", "RUNNING"], 180)
            wait_until(lambda n=name: topics.count(names[n]) > 0, 180, "the first lines")
        make_trouble(trio, configs, lambda: sum(map(topics.count, names.values())))
    finally:
        for feed in feeds.values():
            feed.stop()
    settle(trio, topics, feeds, names)
    for worker in trio.workers:
        assert worker.stop() == 0, worker.log_text()[-2_000:]
    for name, feed in feeds.items():
        check(committed_lines(topics, names[name]), feed.lines)
        assert feed.lines > CHAOS_S * LINES_S / 2, "too little to show anything"
    own = topics.latest(f"{cluster}-own-offsets")
    assert [value for value in own.values() if value] == [
        b'{"position":%d}' % (feeds["interval"].lines * WIDTH)
    ]
    print("\n".join(trio.reported))  # noqa: T201 - what happened, for `-s`


def make_trouble(
    trio: Cluster, configs: dict[str, dict[str, str]], arrived: Callable[[], int]
) -> None:
    """Injects random faults, which include killed leaders and a zombie. Records must arrive between
    two faults, or they would only hit workers that are starting."""
    random = trio.random
    begin = last = time.monotonic()
    planned = [(CHAOS_S * 0.15, "leader"), (CHAOS_S * 0.4, "zombie"), (CHAOS_S * 0.7, "leader")]
    before, pause = arrived(), random.uniform(1, 4)
    while (now := time.monotonic()) < begin + CHAOS_S or planned:
        trio.recover(now)
        trio.restart_failed(list(configs))
        if now >= last + pause and (arrived() > before or now >= last + STUCK_S):
            acts = ["kill", "kill", "zombie", "leader", "config", "config"]
            what = random.choice(acts)
            if planned and now >= begin + planned[0][0]:
                what = planned.pop(0)[1]
            hit(trio, what, configs)
            before, last, pause = arrived(), now, random.uniform(2, 8)
        threading.Event().wait(0.2)


def hit(trio: Cluster, what: str, configs: dict[str, dict[str, str]]) -> None:
    random = trio.random
    up = [number for number in range(3) if number not in trio.down]
    match what:
        case "kill" if len(up) > 1:
            trio.kill(random.choice(up), "worker")
        case "leader":
            leader = trio.leader()
            if leader is not None:
                trio.kill(leader, "leader")
        case "zombie" if not trio.frozen:
            trio.freeze(trio.owner(random.choice(list(configs)), default=random.choice(up or [0])))
        case "config":
            name = random.choice(list(configs))
            changed = {**configs[name], "note": str(random.random())}
            answer = trio.request("PUT", f"/connectors/{name}/config", changed)
            trio.tell(f"{name} is changed: {answer.status_code if answer else 'no answer'}")
        case _:
            pass


def settle(trio: Cluster, topics: Topics, feeds: dict[str, Feed], names: dict[str, str]) -> None:
    """Ends the faults, and waits until everything has arrived."""
    trio.tell("the trouble is over")
    deadline = time.monotonic() + SETTLE_S
    seen: dict[str, int] = {}
    while time.monotonic() < deadline:
        trio.recover(float("inf"))
        trio.restart_failed(list(names))
        seen = {name: len(committed_lines(topics, topic)) for name, topic in names.items()}
        if all(seen[name] >= feed.lines for name, feed in feeds.items()):
            trio.tell(f"everything is there: {seen}, {trio.restarted} restarts by hand")
            return
        threading.Event().wait(1.0)
    raise AssertionError(
        "\n".join([f"{seen} of {[feed.lines for feed in feeds.values()]} arrived", *trio.reported])
    )
