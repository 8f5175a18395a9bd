"""The table of scenarios, each on a fresh worker of one runtime.

A scenario passes each figure to `note`: its name, the value, and, for plots, the curve behind it.
Names are those of `report.ROWS`, and further ones that only the file contains.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka.admin import NewTopic

from benchmarks import inputs
from benchmarks.inputs import JSON, LINES, PARTITIONS, SCHEMAS, TRANSFORMED, TRANSFORMS, Kind
from benchmarks.probe import Pace, Probe, Probed
from benchmarks.runtimes import Session
from benchmarks.watching import (
    Curve,
    await_value,
    cpu_s,
    file_size,
    into_cache,
    percentile,
    topic_ends,
    usage,
    watch,
)
from penstock.kafka.broker import Broker
from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

WARM_RECORDS: Final = 1_000_000
"""A worker is warm when it has moved this many records."""

FIRST_TRIES: Final = 5
LATENCY_PER_S: Final = 100
IDLE_CONNECTORS: Final = 50
IDLE_SETTLE_S: Final = 30.0
_IDLE_AT_ONCE: Final = 5  # created at a time; their start is not measured

MOVING_CONNECTORS: Final = 10
CROWD_CONNECTORS: Final = 100
MOVE_SETTINGS: Final[Mapping[str, str]] = {
    "scheduled.rebalance.max.delay.ms": "0",  # not part of the measurement
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "3000",
}
_TASK_STATUS: Final = "status-task-"

_SLOWEST_PER_S: Final = 20_000
_STARTING_S: Final = 120.0
_CURVE_POINTS: Final = 200
_CONNECT: Final = "org.apache.kafka.connect"
_FILE_SOURCE: Final = f"{_CONNECT}.file.FileStreamSourceConnector"
_FILE_SINK: Final = f"{_CONNECT}.file.FileStreamSinkConnector"
_JSON_CONVERTER: Final = f"{_CONNECT}.json.JsonConverter"

Points = Sequence[tuple[float, float]]


class Note(Protocol):
    """Takes one figure of the scenario."""

    def __call__(self, figure: str, value: float | None, points: Points = ()) -> None: ...


class Load:
    """The records that both runtimes move, generated on first use and shared by all runs."""

    def __init__(
        self, broker: Broker, topics: Topics, folder: Path, records: int, seconds: float
    ) -> None:
        self.records = inputs.whole_batches(records)
        self.seconds = seconds
        self._broker = broker
        self._topics = topics
        self._folder = folder
        self._made: dict[str, list[Path]] = {}

    def files(self) -> list[Path]:
        """Two files that together contain all lines."""
        files = [self._folder / f"lines-{number}.txt" for number in range(2)]
        if "files" not in self._made:
            for file in files:
                inputs.write_file(file, LINES, self.records // len(files))
            self._made["files"] = files
        into_cache(files)
        return files

    def topic(self, kind: Kind) -> str:
        """A topic with all records of a kind."""
        name = f"bench-load-{kind.name}"
        if name not in self._made:
            inputs.fill_topic(self._topics, name, kind, self.records)
            data = self._broker.folder / "data"
            self._made[name] = sorted(data.glob(f"{name}-[0-9]*/*.log"))
        into_cache(self._made[name])
        return name

    @property
    def timeout_s(self) -> float:
        return _STARTING_S + self.records / _SLOWEST_PER_S


@dataclass(frozen=True, slots=True)
class Scenario:
    """One measurement."""

    name: str
    title: str
    measure: Callable[[Session, Load, Note], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the workers that differ from the defaults."""
    alone: bool = False
    """Whether Kafka Connect has no counterpart to measure."""
    plugins: Sequence[str] = ()
    """The families of jars.lock with the connectors that Kafka Connect needs."""


def source_config(file: Path, topic: str) -> dict[str, str]:
    """A file source's configuration; it always has one task."""
    return {"connector.class": _FILE_SOURCE, "tasks.max": "1", "file": str(file), "topic": topic}


def sink_config(topic: str, file: Path, tasks: int = 1) -> dict[str, str]:
    """A file sink's configuration."""
    return {
        "connector.class": _FILE_SINK,
        "tasks.max": str(tasks),
        "topics": topic,
        "file": str(file),
    }


def from_files(session: Session, load: Load) -> Curve:
    """Two file sources at once, each into its own topic."""
    files = load.files()
    per_file = load.records // len(files)
    names = [session.name("source") for _ in files]
    for name in names:
        session.topics.create(name)
    configs = {name: source_config(file, name) for name, file in zip(names, files, strict=True)}
    ends = topic_ends(session.topics, names)
    with session.running(configs) as began:
        curve = watch(ends, load.records, began, load.timeout_s, session.check)
    for name in names:
        inputs.check(inputs.values_of(session.topics, name), LINES, per_file, partitions=1)
    delete_topics(session.topics, names)
    return curve


def into_file(kind: Kind, settings: Mapping[str, str]) -> Callable[[Session, Load], Curve]:
    """A file sink of two tasks that share the partitions of a topic."""

    def run(session: Session, load: Load) -> Curve:
        topic = load.topic(kind)
        name = session.name("sink")
        file = session.folder / f"{name}.txt"
        config = {**sink_config(topic, file, PARTITIONS), **settings}
        size = inputs.line_bytes(kind, load.records)
        with session.running({name: config}) as began:
            curve = watch(file_size(file), size, began, load.timeout_s, session.check)
        inputs.check(inputs.lines_of(file), kind, load.records, PARTITIONS)
        file.unlink()
        return curve.scaled(load.records / size)

    return run


def cold_and_warm(run: Callable[[Session, Load], Curve]) -> Callable[[Session, Load, Note], None]:
    """The first run of the worker, and the second: the first has warmed it up."""

    def measure(session: Session, load: Load, note: Note) -> None:
        note_curve(note, "cold", run(session, load))
        note_curve(note, "warm", run(session, load))

    return measure


def warm_up(session: Session, load: Load) -> None:
    """Moves records both ways before something else is measured."""
    from_files(session, load)
    into_file(LINES, {})(session, load)


def note_curve(note: Note, name: str, curve: Curve) -> None:
    """Notes a run's rate, and the rate from the PUT on."""
    note(name, curve.rate, curve.thinned(_CURVE_POINTS).points)
    note(f"{name}.from_put", curve.points[-1][1] / curve.took_s)


def create_topics(topics: Topics, names: Iterable[str]) -> None:
    """Makes topics of one partition each, known to the broker when it returns."""
    new = [NewTopic(name, 1, 1) for name in names]
    for created in topics.admin.create_topics(new, operation_timeout=30).values():
        created.result()
    wait_until(lambda: topics.names() >= {topic.topic for topic in new}, 30, "topics to be known")


def delete_topics(topics: Topics, names: Iterable[str]) -> None:
    """Deletes topics, so that the next run finds the disk as this one did."""
    for done in topics.admin.delete_topics(list(names), operation_timeout=30).values():
        done.result()


def start(session: Session, load: Load, note: Note) -> None:
    """From the start of the process, cold: until the worker lists its connectors, until the first
    record of a source and the first of a sink have moved; and the CPU time until then."""
    note("connectors_s", session.connectors_s)
    source, sink = session.name("start"), session.name("start")
    into, out = (session.folder / f"{name}.txt" for name in (source, sink))
    inputs.write_file(into, LINES, 1)
    inputs.fill_topic(session.topics, sink, LINES, 1)
    session.topics.create(source)
    ends = topic_ends(session.topics, [source])
    began = session.worker.started
    with session.running({source: source_config(into, source), sink: sink_config(sink, out)}):
        watches = {"source_s": ends, "sink_s": file_size(out)}
        with ThreadPoolExecutor(len(watches)) as pool:
            curves = {
                name: pool.submit(watch, done, 1, began, _STARTING_S, session.check)
                for name, done in watches.items()
            }
            for name, curve in curves.items():
                note(name, curve.result().took_s)
        note("cpu_s", cpu_s(session.worker.pid))
    inputs.check(inputs.values_of(session.topics, source), LINES, 1, partitions=1)
    inputs.check(inputs.lines_of(out), LINES, 1, PARTITIONS)
    delete_topics(session.topics, [source, sink])


def first_record(session: Session, load: Load, note: Note) -> None:
    """A warm worker's connectors from the PUT to their first record."""
    warm_up(session, load)
    tries = [(_first_sourced(session), _first_sunk(session)) for _ in range(FIRST_TRIES)]
    for name, values in zip(("source_s", "sink_s"), zip(*tries, strict=True), strict=True):
        note(name, statistics.median(values), [(float(at), s) for at, s in enumerate(values)])


def _first_sourced(session: Session) -> float:
    name = session.name("first")
    file = session.folder / f"{name}.txt"
    inputs.write_file(file, LINES, 1)
    session.topics.create(name)
    ends = topic_ends(session.topics, [name])
    with session.running({name: source_config(file, name)}) as began:
        curve = watch(ends, 1, began, _STARTING_S, session.check)
    inputs.check(inputs.values_of(session.topics, name), LINES, 1, partitions=1)
    delete_topics(session.topics, [name])
    return curve.took_s


def _first_sunk(session: Session) -> float:
    name = session.name("first")
    file = session.folder / f"{name}.txt"
    inputs.fill_topic(session.topics, name, LINES, 1)
    with session.running({name: sink_config(name, file)}) as began:
        curve = watch(file_size(file), 1, began, _STARTING_S, session.check)
    inputs.check(inputs.lines_of(file), LINES, 1, PARTITIONS)
    delete_topics(session.topics, [name])
    return curve.took_s


def latency(session: Session, load: Load, note: Note) -> None:
    """A hundred records a second through a warm worker, first in, then out."""
    warm_up(session, load)
    for direction, sink in (("source", False), ("sink", True)):
        (probed,) = probed_connectors(session, direction, 1, sink=sink)
        probe = Probe(session.topics, [probed], Pace(load.seconds, LATENCY_PER_S))
        with session.running(probed_configs([probed])):
            session.await_connectors(1)
            measured = probe.measure(partial(cpu_s, session.worker.pid), session.check)
        probe.verify()
        delete_topics(session.topics, [probed.topic])
        note_latencies(note, f"{direction}.", measured.latencies_ms[probed])
        note(f"{direction}.probe_late.p99_ms", percentile(measured.late_ms, 99))


def probed_connectors(session: Session, purpose: str, count: int, *, sink: bool) -> list[Probed]:
    """Connectors that a probe measures, with an empty topic and an empty file each."""
    names = [session.name(purpose) for _ in range(count)]
    connectors = [Probed(name, session.folder / f"{name}.txt", sink) for name in names]
    create_topics(session.topics, names)
    for probed in connectors:
        probed.file.touch()
    return connectors


def probed_configs(connectors: Sequence[Probed]) -> dict[str, dict[str, str]]:
    """Their configurations. A connector has the name of its topic."""
    return {
        probed.topic: sink_config(probed.topic, probed.file)
        if probed.sink
        else source_config(probed.file, probed.topic)
        for probed in connectors
    }


def note_latencies(note: Note, prefix: str, latencies_ms: Sequence[float]) -> None:
    """Notes the percentiles of the report."""
    points = [(float(percent), percentile(latencies_ms, percent)) for percent in range(101)]
    for percent in (50, 95, 99):
        note(f"{prefix}p{percent}_ms", percentile(latencies_ms, percent), points)


def idle(session: Session, load: Load, note: Note) -> None:
    """Connectors with nothing to do, half of them sources and half of them sinks."""
    names = [session.name("idle") for _ in range(IDLE_CONNECTORS)]
    configs: dict[str, dict[str, str]] = {}
    for number, name in enumerate(names):
        session.topics.create(name)
        file = session.folder / f"{name}.txt"
        file.touch()
        configs[name] = sink_config(name, file) if number % 2 else source_config(file, name)
    with contextlib.ExitStack() as running:
        for start in range(0, IDLE_CONNECTORS, _IDLE_AT_ONCE):
            group = names[start : start + _IDLE_AT_ONCE]
            running.enter_context(session.running({name: configs[name] for name in group}))
            session.await_tasks(start + len(group))
        threading.Event().wait(min(IDLE_SETTLE_S, load.seconds))
        before, began = usage(session.worker.pid), time.monotonic()
        threading.Event().wait(load.seconds)
        after, ended = usage(session.worker.pid), time.monotonic()
        session.await_tasks(IDLE_CONNECTORS)
    note("cpu", (after.cpu_s - before.cpu_s) / (ended - began))
    note("memory_mb", after.memory_mb)
    for program, memory in sorted(after.programs.items()):
        note(f"memory_mb.{program}", memory)
    delete_topics(session.topics, names)


def move(session: Session, load: Load, note: Note) -> None:
    """Tasks on two workers, one of which is stopped, and later killed; then a third worker joins
    while many tasks run."""
    other = session.join()
    with contextlib.ExitStack() as running:
        names = _growing_sources(session, running, MOVING_CONNECTORS, 0)
        with _sinks(session, names) as sinks:
            _await_spread(session, len(names) + len(sinks), 2)
            for departure, number in (("stopped", signal.SIGTERM), ("killed", signal.SIGKILL)):
                _departure(session, names, sinks, other, departure, number, note)
                session.back(other)
                _await_spread(session, len(names) + len(sinks), 2)
        names += _growing_sources(session, running, CROWD_CONNECTORS - len(names), len(names))
        _await_spread(session, len(names), 2)
        _arrival(session, names, note)
    delete_topics(session.topics, names)


def _growing_sources(
    session: Session, running: contextlib.ExitStack, count: int, running_tasks: int
) -> list[str]:
    """Adds `count` file sources, each of which has moved a line already; they run until `running`
    is closed."""
    names = [session.name("move") for _ in range(count)]
    for start in range(0, count, _IDLE_AT_ONCE):
        group = names[start : start + _IDLE_AT_ONCE]
        configs: dict[str, dict[str, str]] = {}
        for name in group:
            session.topics.create(name)
            configs[name] = source_config(session.folder / f"{name}.txt", name)
        running.enter_context(session.running(configs))
        session.await_tasks(running_tasks + start + len(group))
        _move_a_line(session, group)
    return names


@contextlib.contextmanager
def _sinks(session: Session, topics: Sequence[str]) -> Iterator[dict[str, str]]:
    """A file sink for each of these topics; the topics by the sinks' names."""
    sinks = {session.name("sink"): topic for topic in topics}
    configs = {
        name: sink_config(topic, session.folder / f"{name}.txt") for name, topic in sinks.items()
    }
    with session.running(configs):
        session.await_tasks(len(topics) + len(sinks))
        yield sinks


def _await_in_files(session: Session, sinks: Sequence[str], line: bytes) -> None:
    """Waits until all these sinks have written a line."""

    def written() -> bool:
        return all(line in (session.folder / f"{name}.txt").read_bytes() for name in sinks)

    session.wait(written, f"a line in the files of {len(sinks)} sinks")


def _move_a_line(session: Session, names: Sequence[str], *, once: bool = True) -> bytes:
    """Appends a line to each source's file, and waits until all are in their topics. Returns the
    line. `once`: raises WrongOutcome if other records arrive."""
    line = session.name("line").encode()

    def append() -> None:
        for name in names:
            with (session.folder / f"{name}.txt").open("ab") as file:
                file.write(line + b"\n")

    records = await_value(session.topics, names, line, append, _STARTING_S, session.check)
    if once and records != len(names):
        raise inputs.WrongOutcome(f"{len(names)} lines were sent, {records} records came")
    return line


def _await_spread(session: Session, tasks: int, workers: int) -> None:
    """Waits until `tasks` tasks run, distributed evenly."""

    def spread() -> bool:
        owners = Counter(owner for state, owner in session.tasks().values() if state == "RUNNING")
        even = len(owners) == workers and max(owners.values()) - min(owners.values()) <= 1
        return even and owners.total() == tasks

    session.wait(spread, f"{tasks} tasks to run on {workers} workers")


def _departure(
    session: Session,
    names: Sequence[str],
    sinks: Mapping[str, str],
    leaving: WorkerProcess,
    departure: str,
    number: signal.Signals,
    note: Note,
) -> None:
    """The time from the signal to a worker until its tasks run elsewhere, and until they have moved
    a line."""
    tasks = session.tasks()
    moving = [name for name in (*names, *sinks) if tasks[f"{name}-0"][1] == leaving.id]
    sources, drains = [n for n in moving if n in names], [n for n in moving if n in sinks]
    began = time.monotonic()
    os.kill(leaving.pid, number)

    def moved() -> bool:
        tasks = session.tasks()
        return all(tasks.get(f"{name}-0") == ("RUNNING", session.worker.id) for name in moving)

    session.wait(moved, f"{len(moving)} tasks to run elsewhere")
    note(f"{departure}_s", time.monotonic() - began)
    # A killed worker may not have committed its last lines, which are then sent again.
    _move_a_line(session, sources, once=number is not signal.SIGKILL)
    note(f"{departure}.line_s", time.monotonic() - began)
    line = _move_a_line(session, [sinks[name] for name in drains], once=False)
    _await_in_files(session, drains, line)
    note(f"{departure}.sink_s", time.monotonic() - began)
    session.wait(lambda: not leaving.alive, "the worker to end")
    _move_a_line(session, names)


def _arrival(session: Session, names: Sequence[str], note: Note) -> None:
    """The effect of a new worker on many running tasks. A task is disturbed if any worker reports a
    change of its state although it stays on its worker."""
    before = session.tasks()
    begin = session.topics.ends(session.status_topic)
    newcomer = session.join()
    _await_spread(session, len(names), 3)
    note("joined_s", time.monotonic() - newcomer.started)
    _move_a_line(session, names)
    after = session.tasks()
    moved = {task for task in after if after[task][1] != before[task][1]}
    reported: dict[str, list[int]] = {}
    for row in session.topics.read(session.status_topic):
        key = (row.key or b"").decode()
        if row.offset >= begin[row.partition] and key.startswith(_TASK_STATUS):
            reported.setdefault(key.removeprefix(_TASK_STATUS), []).append(row.timestamp or 0)
    rests = sorted((max(times) - min(times)) / 1000 for task, times in reported.items())
    note("joined.moved", len(moved))
    note("joined.disturbed", len(set(reported) - moved))
    note("joined.rest_s", statistics.median(rests), [(float(at), s) for at, s in enumerate(rests)])


PLAIN_JSON: Final = {
    "value.converter": _JSON_CONVERTER,
    "value.converter.schemas.enable": "false",
}
JSON_WITH_SCHEMAS: Final = {
    "value.converter": _JSON_CONVERTER,
    "value.converter.schemas.enable": "true",
}

SCENARIOS: Final = (
    Scenario("start", "process start to the first records", start),
    Scenario("source", "file → topic, two files", cold_and_warm(from_files)),
    Scenario("sink-lines", "topic → file, text", cold_and_warm(into_file(LINES, {}))),
    Scenario("sink-json", "topic → file, JSON", cold_and_warm(into_file(JSON, PLAIN_JSON))),
    Scenario(
        "sink-schemas",
        "topic → file, JSON with schemas",
        cold_and_warm(into_file(SCHEMAS, JSON_WITH_SCHEMAS)),
    ),
    Scenario(
        "sink-transforms",
        "topic → file, JSON, three transforms",
        cold_and_warm(into_file(TRANSFORMED, {**PLAIN_JSON, **TRANSFORMS})),
    ),
    Scenario("first", "PUT to the first record, warm", first_record),
    Scenario("latency", "latency at 100 records/s", latency),
    Scenario("idle", f"{IDLE_CONNECTORS} idle connectors", idle),
    Scenario("move", "tasks that move to another worker", move, MOVE_SETTINGS),
)
