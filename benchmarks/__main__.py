"""Starts a broker, penstock and the real Kafka Connect, and times the same work on both in turn.

Machines are noisy: each figure is taken several times, the two runtimes take turns in one run, and
what is worth quoting is the median and the ratio.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import click
import httpx
import psutil

from penstock import jars
from penstock.config.properties import render_properties
from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess, worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

LINES = 1_000_000
ROUNDS = 3
_TIMEOUT_S = 300


class Runtime(Protocol):
    """A worker that can be measured."""

    url: str

    def start(self) -> object: ...
    def close(self) -> None: ...
    @property
    def pid(self) -> int: ...


class Reference:
    """The real Kafka Connect as a process, with the file connectors on its class path."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.url = settings["listeners"]
        self._file = folder / "reference.properties"
        plugin = folder / "plugins" / "file"
        plugin.mkdir(parents=True)
        for jar in jars.folder("connect").glob("connect-file-*.jar"):
            (plugin / jar.name).symlink_to(jar)
        own = {**settings, "plugin.path": str(plugin.parent)}
        self._file.write_bytes(render_properties(own))
        self._log = folder / "reference.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Reference:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(jars.java(), "-Xmx1g", "-cp", f"{jars.folder('connect')}/*"),
                    "org.apache.kafka.connect.cli.ConnectDistributed",
                    str(self._file),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        return self

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)


class Bench:
    """One runtime on one broker."""

    def __init__(self, runtime: Runtime, topics: Topics, folder: Path, name: str) -> None:
        self.runtime, self.topics, self.folder, self.name = runtime, topics, folder, name
        self.http = httpx.Client(base_url=runtime.url, timeout=100, trust_env=False)
        self._number = 0

    def new(self, what: str) -> str:
        self._number += 1
        return f"bench-{self.name}-{what}-{self._number}"

    def start(self) -> float:
        """Seconds from process start to the first REST answer."""
        began = time.monotonic()
        self.runtime.start()
        wait_until(self._answers, _TIMEOUT_S, f"{self.name} to answer")
        return time.monotonic() - began

    def _answers(self) -> bool:
        if not psutil.pid_exists(self.runtime.pid):
            raise RuntimeError(f"{self.name} ended while starting; see {self.folder}")
        try:
            return self.http.get("/", timeout=1).status_code == 200
        except httpx.TransportError:
            return False

    def put(self, connector: str, config: dict[str, str]) -> None:
        self.http.put(f"/connectors/{connector}/config", json=config).raise_for_status()

    def drop(self, connector: str) -> None:
        self.http.delete(f"/connectors/{connector}").raise_for_status()

    def first_record(self) -> float:
        """Seconds from PUT of a file source to its first record in the topic."""
        name = self.new("first")
        file = self.folder / f"{name}.txt"
        file.write_text("one line\n")
        self.topics.create(name)
        began = time.monotonic()
        self.put(name, {"connector.class": "FileStreamSource", "file": str(file), "topic": name})
        wait_until(lambda: self.topics.count(name) >= 1, _TIMEOUT_S, "the first record")
        took = time.monotonic() - began
        self.drop(name)
        return took

    def source(self, file: Path, lines: int) -> tuple[float, str]:
        """Records per second from a file into a topic, from PUT on; and the topic."""
        name = self.new("in")
        self.topics.create(name)
        began = time.monotonic()
        self.put(name, {"connector.class": "FileStreamSource", "file": str(file), "topic": name})
        wait_until(lambda: self.topics.count(name) >= lines, _TIMEOUT_S, f"{lines} records")
        took = time.monotonic() - began
        self.drop(name)
        return lines / took, name

    def sink(self, topic: str, size: int, lines: int) -> float:
        """Records per second from a topic into a file, from PUT on."""
        name = self.new("out")
        file = self.folder / f"{name}.txt"
        began = time.monotonic()
        self.put(name, {"connector.class": "FileStreamSink", "file": str(file), "topics": topic})
        wait_until(
            lambda: file.exists() and file.stat().st_size >= size, _TIMEOUT_S, f"{size} bytes"
        )
        took = time.monotonic() - began
        self.drop(name)
        file.unlink()
        return lines / took

    def memory_mb(self) -> dict[str, float]:
        """Proportional set size of the process and its children, by program."""
        root = psutil.Process(self.runtime.pid)
        found: dict[str, float] = {}
        for process in [root, *root.children(recursive=True)]:
            try:
                mb = process.memory_full_info().pss / 1e6
            except psutil.Error:
                continue
            found[process.name()] = found.get(process.name(), 0) + mb
        return found


@contextmanager
def both(folder: Path) -> Iterator[list[Bench]]:
    with Broker(folder / "kafka", say=click.echo) as broker:
        topics = Topics(broker.bootstrap)
        ours = WorkerProcess(folder, worker_settings(broker.bootstrap, "bench-penstock"))
        real = Reference(folder, worker_settings(broker.bootstrap, "bench-reference"))
        benches = [
            Bench(ours, topics, folder, "penstock"),
            Bench(real, topics, folder, "reference"),
        ]
        try:
            yield benches
        finally:
            for bench in benches:
                bench.runtime.close()


def make_file(file: Path, lines: int) -> int:
    with file.open("w") as out:
        for number in range(lines):
            out.write(f"{number:08d} the quick brown fox jümps over the lazy dog, once more\n")
    return file.stat().st_size


def main(lines: int, rounds: int) -> None:
    jars.java()
    figures: dict[str, dict[str, list[float]]] = {}

    def note(bench: Bench, what: str, value: float) -> None:
        figures.setdefault(what, {}).setdefault(bench.name, []).append(value)
        click.echo(f"  {bench.name:10s} {what}: {value:,.2f}")

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as temporary:
        folder = Path(temporary)
        file = folder / "lines.txt"
        size = make_file(file, lines)
        with both(folder) as benches:
            for bench in benches:
                note(bench, "s from process start to REST", bench.start())
            click.echo("warming up")
            for bench in benches:
                bench.first_record()
                _, topic = bench.source(file, lines)
                bench.sink(topic, size, lines)
            for _ in range(rounds):
                turns: list[Callable[[Bench], None]] = [
                    lambda b: note(b, "s from PUT to first record", b.first_record()),
                ]
                for turn in turns:
                    for bench in benches:
                        turn(bench)
                for bench in benches:
                    rate, topic = bench.source(file, lines)
                    note(bench, "rec/s file to topic", rate)
                    note(bench, "rec/s topic to file", bench.sink(topic, size, lines))
            for bench in benches:
                for program, mb in bench.memory_mb().items():
                    note(bench, f"MB (PSS) of {program}", mb)
    click.echo(f"\nmedians of {rounds} rounds, {lines:,} lines of {size // lines} bytes")
    for what, by_name in figures.items():
        medians = {name: statistics.median(values) for name, values in by_name.items()}
        row = "  ".join(f"{name} {value:,.2f}" for name, value in medians.items())
        ratio = ""
        if len(medians) == 2 and medians.get("reference"):
            ratio = f"  ratio {medians['penstock'] / medians['reference']:.2f}"
        click.echo(f"{what:32s} {row}{ratio}")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else LINES,
        int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS,
    )
