"""Connectors created, changed and deleted at random, for PENSTOCK_SOAK_S seconds.

Two real workers; now and then the operations pause until the cluster is stable, and the test checks
that every task runs once, none is forgotten, records of every pair of connectors arrive, and no
slot, consumer or process of a deleted connector is left. `make soak` runs it for ten minutes; a
seed in its output repeats the operations.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

SECONDS = float(os.environ.get("PENSTOCK_SOAK_S", "12"))
SEED = int(os.environ.get("PENSTOCK_SOAK_SEED", "0")) or random.SystemRandom().randrange(1 << 32)
ALIVE = 40  # pairs of connectors at once, at most
BETWEEN_CHECKS = 60  # operations
REST_S = 180.0
TOPICS = 8

pytestmark = [pytest.mark.timeout(SECONDS + 1200), pytest.mark.slow(60)]


@dataclass
class Pair:
    """A source that reads a file into a topic, and a sink that writes it into another."""

    name: str
    folder: Path
    topic: str
    lines: int = 0
    paused: set[str] = field(default_factory=set)

    @property
    def connectors(self) -> list[str]:
        return [f"{self.name}-src", f"{self.name}-snk"]

    def config(self, connector: str) -> dict[str, str]:
        file = {"file": str(self.folder / f"{connector}.txt")}
        if connector.endswith("-src"):
            return {"connector.class": "FileStreamSource", "topic": self.topic, **file}
        return {"connector.class": "FileStreamSink", "topics": self.topic, **file}

    def append(self) -> None:
        self.lines += 1
        with (self.folder / f"{self.name}-src.txt").open("a") as out:
            out.write(f"{self.name} {self.lines}\n")

    def wanted(self) -> list[str]:
        return [f"{self.name} {number + 1}" for number in range(self.lines)]

    def written(self) -> list[str]:
        file = self.folder / f"{self.name}-snk.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith(f"{self.name} ")]


class Churn:
    """Runs operations on a cluster, and knows their expected results."""

    def __init__(self, workers: list[WorkerProcess], topics: Topics, folder: Path) -> None:
        self.random = random.Random(SEED)
        self.workers = workers
        self.topics = topics
        self.folder = folder
        self.names = [topics.create(f"churn-{number}") for number in range(TOPICS)]
        self.pairs: list[Pair] = []
        self.gone: list[str] = []
        self.made = 0
        self.done: Counter[str] = Counter()

    def step(self) -> None:
        """Runs one random operation."""
        kinds = [self.create] * 4 + [self.delete] * 3 + [self.change, self.pause, self.restart] * 2
        if not self.pairs:
            kinds = [self.create]
        elif len(self.pairs) >= ALIVE:
            kinds = [self.delete]
        kind = self.random.choice(kinds)
        kind()
        self.done[kind.__name__] += 1

    def ask(self, method: str, path: str, body: object = None) -> None:
        """Sends a request to a random worker; retries while the cluster rebalances."""

        def answered() -> bool:
            answer = self.random.choice(self.workers).request(method, path, body)
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
            return answer.status_code not in (409, 503)

        wait_until(answered, REST_S, f"{method} {path} to be served")

    def create(self) -> None:
        pair = Pair(f"p{self.made}", self.folder, self.random.choice(self.names))
        self.made += 1
        pair.append()
        for connector in pair.connectors:
            self.ask("PUT", f"/connectors/{connector}/config", pair.config(connector))
        self.pairs.append(pair)

    def delete(self) -> None:
        pair = self.pairs.pop(self.random.randrange(len(self.pairs)))
        for connector in pair.connectors:
            self.ask("DELETE", f"/connectors/{connector}")
        self.gone += pair.connectors

    def change(self) -> None:
        pair = self.random.choice(self.pairs)
        connector = self.random.choice(pair.connectors)
        config = {**pair.config(connector), "errors.retry.timeout": str(self.random.randrange(9))}
        self.ask("PUT", f"/connectors/{connector}/config", config)
        pair.append()

    def pause(self) -> None:
        pair = self.random.choice(self.pairs)
        connector = self.random.choice(pair.connectors)
        wish = "resume" if connector in pair.paused else "pause"
        self.ask("PUT", f"/connectors/{connector}/{wish}")
        pair.paused ^= {connector}

    def restart(self) -> None:
        pair = self.random.choice(self.pairs)
        connector = self.random.choice(pair.connectors)
        self.ask("POST", f"/connectors/{connector}/restart?includeTasks=true")
        pair.append()

    def check(self) -> None:
        """Waits until the cluster is stable, and checks the invariants."""
        for pair in self.pairs:
            for connector in sorted(pair.paused):
                self.ask("PUT", f"/connectors/{connector}/resume")
            pair.paused.clear()
            pair.append()
        alive = [name for pair in self.pairs for name in pair.connectors]
        wait_until(lambda: self.states() == dict.fromkeys(alive, "RUNNING"), REST_S, "all to run")
        for pair in self.pairs:
            wait_until(
                lambda pair=pair: set(pair.wanted()) <= set(pair.written()),
                REST_S,
                f"the lines of {pair.name}",
            )
            first = list(dict.fromkeys(pair.written()))
            assert first == pair.wanted(), f"the lines of {pair.name} are out of order"
        sinks = {f"connect-{name}" for name in alive if name.endswith("-snk")}
        wait_until(lambda: self.consumers() == len(sinks), REST_S, "a consumer for every sink")
        assert self.hosted() == len(alive), "a task runs twice, or is forgotten"
        members = self.topics.admin.describe_consumer_groups(sorted(sinks)) if sinks else {}
        for group, answer in members.items():
            assert len(answer.result().members) == 1, f"{group} has another member"

    def states(self) -> dict[str, str]:
        """The state of every connector and its task; BETWEEN if they differ."""
        answer = self.workers[0].request("GET", "/connectors?expand=status")
        found = {}
        for name, row in answer.json().items():
            status = row["status"]
            states = {status["connector"]["state"], *(task["state"] for task in status["tasks"])}
            one = len(states) == 1 and len(status["tasks"]) == 1
            found[name] = states.pop() if one else "BETWEEN"
        return found

    def hosted(self) -> int:
        """Tasks on the slots of all workers."""
        text = "".join(worker.request("GET", "/metrics").text for worker in self.workers)
        return sum(
            int(float(n)) for n in re.findall(r"^penstock_slot_tasks\{.*\} (\S+)", text, re.M)
        )

    def consumers(self) -> int:
        """Threads of sink tasks' consumers in all JVMs."""
        return sum(stacks(worker).count('"consumer-') for worker in self.workers)


def jvm(worker: WorkerProcess) -> psutil.Process:
    children = psutil.Process(worker.pid).children()
    return next(child for child in children if "java" in child.name())


def stacks(worker: WorkerProcess) -> str:
    command = ["jstack", str(jvm(worker).pid)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def pythons(worker: WorkerProcess) -> int:
    """Python processes of a worker's slots, without their daemon."""
    daemons = [child for child in jvm(worker).children() if "python" in child.name()]
    return sum(len(daemon.children()) for daemon in daemons)


def test_a_cluster_outlives_whatever_is_created_and_deleted(
    make_worker: Callable[..., WorkerProcess], topics: Topics, tmp_path: Path
) -> None:
    print(f"PENSTOCK_SOAK_SEED={SEED}")  # noqa: T201 - to repeat a failure
    workers = [make_worker(), make_worker()]
    for worker in workers:
        worker.start().await_rest()
    churn = Churn(workers, topics, tmp_path)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        churn.step()
        if sum(churn.done.values()) % BETWEEN_CHECKS == 0:
            churn.check()
    churn.check()
    while churn.pairs:
        churn.delete()
    wait_until(lambda: churn.states() == {}, REST_S, "all to be deleted")
    wait_until(lambda: churn.consumers() == 0, REST_S, "no consumer to be left")
    wait_until(lambda: churn.hosted() == 0, REST_S, "no task to be left on a slot")
    slots = os.cpu_count() or 1
    for worker in workers:
        assert pythons(worker) <= slots + 1, "Python processes are left of slots that are gone"
    print(f"{2 * churn.made} connectors, {dict(churn.done)}")  # noqa: T201 - a summary
    for worker in workers:
        family = psutil.Process(worker.pid).children(recursive=True)
        assert worker.stop() == 0
        wait_until(
            lambda family=family: not any(child.is_running() for child in family), 30, "the end"
        )
