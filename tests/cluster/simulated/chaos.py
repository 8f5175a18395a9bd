"""Trouble for simulated clusters, by seed, and the command that makes it for many seeds.

    python -m tests.cluster.simulated.chaos --seeds 10000 --jobs 2

prints every seed that fails, with how to run it alone, and ends with 1 if there was one.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from penstock.cluster import events as e
from penstock.cluster.herder.runs import RunPhase
from penstock.cluster.protocol import VERSIONS
from penstock.cluster.records import Target
from penstock.ids import TaskId
from tests.cluster.simulated.connectors import config
from tests.cluster.simulated.faults import MANY_FAULTS, NO_FAULTS
from tests.cluster.simulated.simulation import Sim

TROUBLE_MS: Final = 120_000
PROGRESS: Final = 1_000  # seeds between two progress messages

KINDS: Final = (
    ("sessioned", False),
    ("sessioned", True),
    ("compatible", False),
    ("sessioned", False),
    ("default", False),
    ("sessioned", True),
    ("compatible", True),
    ("default", True),
)
"""Protocol, and whether tasks deliver exactly once: seeds take turns."""


def kind_of(
    seed: int, protocol: str | None = None, exactly_once: bool | None = None
) -> tuple[str, bool]:
    """The protocol of a seed, and whether its tasks deliver exactly once, unless given."""
    name, once = KINDS[seed % len(KINDS)]
    return protocol or name, once if exactly_once is None else exactly_once


def survive(seed: int, protocol: str | None = None, exactly_once: bool | None = None) -> Sim:
    """The cluster after two minutes of trouble, once it is at rest again; AssertionError if an
    invariant breaks or it does not come to rest."""
    name, once = kind_of(seed, protocol, exactly_once)
    sim = Sim(seed, protocol_name=name, exactly_once=once)
    try:
        Chaos(sim).run(TROUBLE_MS)
    except AssertionError as error:
        raise AssertionError(f"seed {seed} ({name}, exactly once: {once}): {error}") from error
    return sim


@dataclass(slots=True)
class Chaos:
    """Makes trouble for a while, then ends all faults."""

    sim: Sim
    most_workers: int = 5
    connectors: int = 6
    _names: int = 0
    _versions: int = 0

    def run(self, ms: int) -> None:
        """Trouble for this long, then rest until the cluster is as configured."""
        sim = self.sim
        for _ in range(3):
            self._start()
        end = sim.now + ms
        sim.faults = MANY_FAULTS
        while sim.now < end:
            sim.advance(int(sim.random.expovariate(1 / 1_500)) + 1)
            self._act()
        self._repair()

    def _act(self) -> None:
        random = self.sim.random
        acts: list[tuple[int, Callable[[], None]]] = [
            (5, self._start),
            (2, self._crash),
            (2, self._stop),
            (2, self._bounce),
            (4, self._hang),
            (4, self._cut),
            (3, self._jump),
            (4, self._fail),
            (3, self._compact),
            (2, self._change_extra_tasks),
            (4, self._burst),
            (24, self._request),
        ]
        [act] = random.choices([act for _, act in acts], [weight for weight, _ in acts])
        act()

    def _start(self) -> None:
        if len(self.sim.workers) < self.most_workers:
            self._names += 1
            stopped = [f"w{n}" for n in range(1, 4) if f"w{n}" not in self.sim.workers]
            reuse = stopped and self.sim.random.random() < 0.5
            self.sim.start(self.sim.random.choice(stopped) if reuse else f"x{self._names}")

    def _any_worker(self) -> str | None:
        names = list(self.sim.workers)
        return self.sim.random.choice(names) if names else None

    def _crash(self) -> None:
        if (name := self._any_worker()) is not None:
            self.sim.crash(name)

    def _stop(self) -> None:
        if (name := self._any_worker()) is not None:
            self.sim.stop(name)

    def _bounce(self) -> None:
        """A worker dies and soon restarts; the group may still have its former membership."""
        if (name := self._any_worker()) is not None:
            self.sim.crash(name)
            self.sim.advance(self.sim.random.randint(0, 8_000))
            self.sim.start(name)

    def _jump(self) -> None:
        if (name := self._any_worker()) is not None:
            self.sim.jump(name, self.sim.random.choice((-60_000, -5_000, 5_000, 60_000)))

    def _compact(self) -> None:
        self.sim.compact(self.sim.random.choice((0.5, 0.9, 1.0)))

    def _change_extra_tasks(self) -> None:
        """The number of parts of a connector's source system changes."""
        self.sim.extra_tasks[self._any_connector()] = self.sim.random.randint(0, 2)

    def _burst(self) -> None:
        """Requests for one connector, to several workers at once."""
        connector = self._any_connector()
        for _ in range(self.sim.random.randint(2, 5)):
            if (name := self._any_worker()) is not None:
                self.sim.request(name, self._operation(connector))

    def _hang(self) -> None:
        if (name := self._any_worker()) is not None:
            self.sim.hang(name, self.sim.random.choice((300, 4_000, 15_000, 40_000)))

    def _cut(self) -> None:
        if (name := self._any_worker()) is not None:
            self.sim.cut(name, self.sim.random.choice((300, 4_000, 8_000, 20_000)))

    def _fail(self) -> None:
        name = self._any_worker()
        if name is not None and self.sim.workers[name].live:
            self.sim.fail_task(name, self.sim.random.choice(list(self.sim.workers[name].live)))

    def _request(self) -> None:
        if (name := self._any_worker()) is not None:
            self.sim.request(name, self._operation(self._any_connector()))

    def _any_connector(self) -> str:
        return f"c{self.sim.random.randint(1, self.connectors)}"

    def _operation(self, connector: str) -> e.Operation:
        random = self.sim.random
        self._versions += 1
        properties = config(connector, random.randint(0, 4), self._versions)
        kind = random.choices(
            (
                "create",
                "put",
                "delete",
                "pause",
                "resume",
                "stop",
                "restart",
                "restart all",
                "restart task",
                "level",
                "reset topics",
            ),
            (6, 10, 2, 3, 5, 2, 2, 2, 3, 1, 1),
        )[0]
        match kind:
            case "create":
                return e.CreateConnector(connector, properties, random.choice((None, *Target)))
            case "put":
                return e.PutConfig(connector, properties)
            case "delete":
                return e.DeleteConnector(connector)
            case "pause":
                return e.SetTarget(connector, Target.PAUSED)
            case "resume":
                return e.SetTarget(connector, Target.STARTED)
            case "stop":
                return e.SetTarget(connector, Target.STOPPED)
            case "restart":
                return e.RestartConnector(connector)
            case "restart all":
                include_tasks, only_failed = random.random() < 0.7, random.random() < 0.5
                return e.RestartAll(connector, include_tasks, only_failed)
            case "level":
                return e.SetLevel("penstock", random.choice(("DEBUG", "INFO")))
            case "reset topics":
                return e.ResetTopics(connector)
            case _:
                return e.RestartTask(TaskId(connector, random.randint(0, 3)))

    def _repair(self) -> None:
        """Ends all faults and restarts what failed; everything else must recover by itself."""
        sim = self.sim
        sim.faults = NO_FAULTS
        if not sim.workers:
            self._start()
        for worker in list(sim.workers.values()):
            worker.resume()
            if worker.group.cut:
                worker.group.find_coordinator()
        sim.advance(120_000)
        for connector in sorted(sim.suspects):
            if (name := self._any_worker()) is not None:
                sim.request(name, e.RestartConnector(connector))
        if not sim.workers:  # the last one was stopping
            self._start()
        for _ in range(20):
            sim.advance(15_000)
            if not self._restart_failed():
                break
        sim.run_until(lambda: not sim.unrest(), 300_000)
        # The leader tombstones stale statuses in every rebalance (kafka-connect.md §5.7). Some may
        # have been written since the last one, so one more follows, with a worker that reads only
        # the compacted topics.
        sim.compact(1.0)
        sim.start("last")
        sim.run_until(sim.balanced, 300_000)

    def _restart_failed(self) -> bool:
        sim = self.sim
        failed: list[e.Operation] = []
        for worker in sim.workers.values():
            failed += [
                e.RestartConnector(connector)
                for connector, run in worker.state.running.connectors.items()
                if run.phase is RunPhase.FAILED
            ]
            failed += [
                e.RestartTask(task)
                for task, run in worker.state.running.tasks.items()
                if run.phase is RunPhase.FAILED
            ]
        for operation in failed:
            name = self._any_worker()
            if name is not None:
                sim.request(name, operation)
        return bool(failed)


Job = tuple[int, str | None, bool | None]


def _outcome(job: Job) -> tuple[Job, str | None]:
    """Why a seed fails, if it does: any exception counts."""
    try:
        survive(*job)
    except Exception as error:
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return job, f"{kind}{error}"
    return job, None


@click.command(help=__doc__)
@click.option("--seeds", default=500, show_default=True, help="How many seeds to run.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option(
    "--protocol",
    type=click.Choice(sorted(VERSIONS)),
    help="The group's protocol; without it, each seed has its own.",
)
@click.option(
    "--exactly-once/--no-exactly-once",
    default=None,
    help="Whether source tasks deliver exactly once; without it, each seed has its own.",
)
@click.option("--jobs", default=1, show_default=True, help="How many processes to run them in.")
def main(
    seeds: int, first: int, protocol: str | None, exactly_once: bool | None, jobs: int
) -> None:
    """Runs the seeds; exit code 1 if one fails."""
    began, failed = time.monotonic(), 0
    queue: list[Job] = [(seed, protocol, exactly_once) for seed in range(first, first + seeds)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        done = pool.imap_unordered(_outcome, queue, chunksize=10)
        for count, ((seed, *_), error) in enumerate(done, 1):
            if count % PROGRESS == 0:
                click.echo(f"{count} seeds, {failed} failed", err=True)
            if error is not None:
                failed += 1
                name, once = kind_of(seed, protocol, exactly_once)
                flag = "--exactly-once" if once else "--no-exactly-once"
                alone = f"--seeds 1 --first {seed} --protocol {name} {flag}"
                click.echo(f"{error}\n  python -m tests.cluster.simulated.chaos {alone}")
    took = time.monotonic() - began
    click.echo(f"{seeds - failed} of {seeds} seeds passed, {failed} failed, in {took:.0f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
