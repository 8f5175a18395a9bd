"""Flows through a cluster of real workers, monitored during faults.

A `Flow` is a file that grows, a source connector, a topic, a sink connector and a target file. A
`FlowWatch` records every line that arrives in the topic and in the target, and reports repeated
lines and stalls:

    with FlowWatch(topics, cluster, flows) as watch:
        with watch.trial() as trial:
            ...  # faults of a cluster
        assert trial.repeats["orders"] == Repeats(sent=0, written=0)
        assert trial.stall_s < 10

A trial ends by pausing the files until all lines have arrived, so that its counts are exact. It
checks that every line arrived, in order and unaltered.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import httpx
import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from penstock.testing.group_log import read_group_log
from penstock.testing.processes import WorkerProcess
from penstock.testing.slowness import Slowness
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

WIDTH: Final = 64  # bytes of a line, its end included
SETTLE_S: Final = 180.0
_DIGITS: Final = 9
_CONSUME_S: Final = 0.05
_POLL_S: Final = 0.2  # between two requests to the broker or a worker
_STARTED: Final = re.compile(r"^\[[^]]*\] INFO \[\S+\] Creating task (\S+): ", re.MULTILINE)


def line(number: int) -> bytes:
    """A line of a growing file; it begins with its number."""
    return b"%0*d" % (_DIGITS, number) + b"." * (WIDTH - _DIGITS - 1) + b"\n"


class GrowingFile:
    """A file to which its own thread appends `lines_s` lines a second, in pieces that end anywhere;
    `hold` ends the last line and pauses, `go_on` resumes."""

    def __init__(self, file: Path, *, lines_s: int, piece_s: float, seed: int = 0) -> None:
        self.file = file
        self._lines = 0
        self._lines_s = lines_s
        self._piece_s = piece_s
        self._random = Random(seed)
        self._rest = b""
        self._lock = threading.Lock()
        self._growing = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"grow-{file.name}", daemon=True)
        file.touch()
        self._growing.set()
        self._thread.start()

    @property
    def lines(self) -> int:
        """How many lines it has, including an incomplete last one."""
        with self._lock:
            return self._lines

    def hold(self) -> None:
        """Pauses; the file ends with a complete line when this returns."""
        with self._lock:
            self._growing.clear()
            self._append(self._rest)
            self._rest = b""

    def go_on(self) -> None:
        self._growing.set()

    def stop(self) -> None:
        self.hold()
        self._stopped.set()
        self._growing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._random.uniform(0.5, 1.5) * self._piece_s):
            self._growing.wait()
            with self._lock:
                if self._growing.is_set() and not self._stopped.is_set():
                    self._grow(int(self._lines_s * self._piece_s))

    def _grow(self, lines: int) -> None:
        text = self._rest + b"".join(map(line, range(self._lines, self._lines + lines)))
        self._lines += lines
        cut = self._random.randint(0, len(text))
        self._append(text[:cut])
        self._rest = text[cut:]

    def _append(self, data: bytes) -> None:
        with self.file.open("ab", buffering=0) as out:
            out.write(data)


@dataclass(frozen=True, slots=True)
class Flow:
    """A path through the cluster; its connectors are `source` and `sink`."""

    name: str
    folder: Path
    topic: str
    growing: GrowingFile
    partitions: int = 1

    @property
    def source(self) -> str:
        return f"{self.name}-src"

    @property
    def sink(self) -> str:
        return f"{self.name}-snk"

    @property
    def target(self) -> Path:
        return self.folder / f"{self.name}.out"

    def source_config(self, **more: str) -> dict[str, str]:
        """In the names of further settings an underscore stands for a dot."""
        common = {"connector.class": "FileStreamSource", "tasks.max": "1", "topic": self.topic}
        return {**common, "file": str(self.growing.file), **_dotted(more)}

    def sink_config(self, **more: str) -> dict[str, str]:
        common = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": self.topic}
        return {**common, "file": str(self.target), **_dotted(more)}


@dataclass(frozen=True, slots=True)
class Repeats:
    """Duplicate lines in the topic, and duplicates of the topic's records in the target."""

    sent: int
    written: int


@dataclass
class Arrivals:
    """The lines that have arrived in a topic or a target."""

    ordered: bool
    lines: int = 0
    distinct: int = 0
    wrong: list[str] = field(default_factory=list)
    arrived_at: float = field(default_factory=time.monotonic)
    stall_s: float = 0.0
    _times: Counter[int] = field(default_factory=Counter)
    _last_new: int = -1

    def take(self, data: bytes) -> None:
        """Adds whole lines."""
        now = time.monotonic()
        self.stall_s = max(self.stall_s, now - self.arrived_at)
        self.arrived_at = now
        for at in range(0, len(data), WIDTH):
            self._take_line(data[at : at + WIDTH])

    def _take_line(self, text: bytes) -> None:
        number = int(text[:_DIGITS]) if text[:_DIGITS].isdigit() else -1
        if text != line(number):
            self.wrong.append(f"altered: {text!r}")
        self.lines += 1
        self._times[number] += 1
        if self._times[number] == 1:
            self.distinct += 1
            if self.ordered and number <= self._last_new:
                self.wrong.append(f"out of order: {number} after {self._last_new}")
            self._last_new = number

    def missing(self, lines: int) -> list[int]:
        return [number for number in range(lines) if number not in self._times]


@dataclass
class Trial:
    """What happened between two moments at which every line had arrived.

    `slowness` is the machine's `Slowness.factor` meanwhile.
    """

    slowness: float = 1.0
    before: dict[str, Repeats] = field(default_factory=dict)  # all repeats before it began
    went_back: dict[str, int] = field(default_factory=dict)  # how often stored offsets regressed
    repeats: dict[str, Repeats] = field(default_factory=dict)
    topic_stall_s: dict[str, float] = field(default_factory=dict)
    target_stall_s: dict[str, float] = field(default_factory=dict)

    @property
    def stall_s(self) -> float:
        """The longest time without an arrival in any topic or target."""
        return max([*self.topic_stall_s.values(), *self.target_stall_s.values()])

    def sent_again(self) -> int:
        return sum(repeats.sent for repeats in self.repeats.values())

    def written_again(self) -> int:
        return sum(repeats.written for repeats in self.repeats.values())

    def steps_back(self) -> int:
        return sum(self.went_back.values())


class FlowWatch:
    """While entered, its thread records what arrives in the topics and targets of `flows`; leaving
    it stops the files."""

    def __init__(self, topics: Topics, cluster: str, flows: Sequence[Flow]) -> None:
        self.flows = {flow.name: flow for flow in flows}
        self._topics = topics
        self._cluster = cluster
        self._in_topic = {flow.name: Arrivals(flow.partitions == 1) for flow in flows}
        self._in_target = {flow.name: Arrivals(flow.partitions == 1) for flow in flows}
        self._read_bytes = dict.fromkeys(self.flows, 0)  # of each target
        self._by_topic = {flow.topic: flow.name for flow in flows}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._slowness = Slowness()
        self._failure: BaseException | None = None

    def __enter__(self) -> FlowWatch:
        self._thread.start()
        self._slowness.start()
        return self

    def __exit__(self, *_: object) -> None:
        for flow in self.flows.values():
            flow.growing.stop()
        self._stopped.set()
        self._thread.join()
        self._slowness.stop()

    @contextlib.contextmanager
    def trial(self) -> Iterator[Trial]:
        """Raises AssertionError if a line is missing, altered or out of order."""
        trial = Trial()
        self.settle()
        with self._lock:
            trial.before = self._repeats()
        went_back = self._steps_back()
        self.go_on()
        self.arriving()
        with self._lock:
            for arrivals in (*self._in_topic.values(), *self._in_target.values()):
                arrivals.arrived_at, arrivals.stall_s = time.monotonic(), 0.0
        self._slowness.clear()
        yield trial
        trial.slowness = self._slowness.factor
        with self._lock:
            trial.topic_stall_s = _stalls(self._in_topic)
            trial.target_stall_s = _stalls(self._in_target)
        self.settle()
        with self._lock:
            for name, after in self._repeats().items():
                before = trial.before[name]
                sent, written = after.sent - before.sent, after.written - before.written
                trial.repeats[name] = Repeats(sent, written)
        trial.went_back = {
            name: steps - went_back[name] for name, steps in self._steps_back().items()
        }
        self.go_on()

    def settle(self) -> None:
        """Pauses the files, waits until every line has arrived and all offsets are stored, and
        checks the lines."""
        for flow in self.flows.values():
            flow.growing.hold()
        try:
            wait_until(self._is_through, SETTLE_S, "everything to be through", _POLL_S)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {self._progress()}") from None
        with self._lock:
            for side in (self._in_topic, self._in_target):
                for name, arrivals in side.items():
                    assert not arrivals.wrong, (name, arrivals.wrong[:5], len(arrivals.wrong))

    def go_on(self) -> None:
        with self._lock:
            for arrivals in (*self._in_topic.values(), *self._in_target.values()):
                arrivals.arrived_at = time.monotonic()
        for flow in self.flows.values():
            flow.growing.go_on()

    def arriving(self, timeout_s: float = SETTLE_S) -> None:
        """Waits until every target has new lines."""
        with self._lock:
            before = {name: arrivals.lines for name, arrivals in self._in_target.items()}

        def more() -> bool:
            with self._lock:
                return all(self._in_target[name].lines > lines for name, lines in before.items())

        wait_until(more, timeout_s, "something new in every target")

    def positions(self) -> dict[str, int]:
        """The stored offset of each flow's source, in lines."""
        stored = self._topics.latest(f"{self._cluster}-offset")
        offsets = {name: stored.get(_offset_key(flow)) for name, flow in self.flows.items()}
        return {
            name: int(orjson.loads(value)["position"]) // WIDTH if value else 0
            for name, value in offsets.items()
        }

    def committed(self, flow: Flow) -> int:
        """The committed offsets of the sink, summed."""
        return self._committed()[flow.name]

    def _committed(self) -> dict[str, int]:
        # Not from an admin client: after a broker restart it may get no response for a while.
        commits = read_group_log(self._topics).commits
        return {
            name: sum(offsets[-1] for offsets in commits.get(f"connect-{flow.sink}", {}).values())
            for name, flow in self.flows.items()
        }

    def lines_in_target(self, flow: Flow) -> int:
        return flow.target.stat().st_size // WIDTH if flow.target.exists() else 0

    def _repeats(self) -> dict[str, Repeats]:
        return {
            name: Repeats(topic.lines - topic.distinct, self._in_target[name].lines - topic.lines)
            for name, topic in self._in_topic.items()
        }

    def _is_through(self) -> bool:
        assert self._failure is None, self._failure
        with self._lock:
            for name, flow in self.flows.items():
                lines = flow.growing.lines
                topic, target = self._in_topic[name], self._in_target[name]
                if min(topic.distinct, target.distinct) < lines or target.lines < topic.lines:
                    return False
        stored, committed = self.positions(), self._committed()
        return all(
            stored[name] == flow.growing.lines and committed[name] == self._topics.count(flow.topic)
            for name, flow in self.flows.items()
        )

    def _progress(self) -> str:
        stored = self.positions()
        with self._lock:
            return "; ".join(
                f"{name}: {flow.growing.lines} lines, {self._in_topic[name].distinct} in the topic "
                f"(missing {self._in_topic[name].missing(flow.growing.lines)[:3]}), "
                f"{self._in_target[name].distinct} in the target (missing "
                f"{self._in_target[name].missing(flow.growing.lines)[:3]}); stored: "
                f"{stored[name]} and {self.committed(flow)}"
                for name, flow in self.flows.items()
            )

    def _steps_back(self) -> dict[str, int]:
        """By source and sink of each flow, how often a stored offset was followed by a lower one.

        A task resumes at its predecessor's offset. If a zombie predecessor stored an offset after
        that, the offset would regress.
        """
        stored: dict[bytes, list[int]] = {_offset_key(flow): [] for flow in self.flows.values()}
        for row in self._topics.read(f"{self._cluster}-offset"):
            if row.key in stored and row.value is not None:
                stored[row.key].append(int(orjson.loads(row.value)["position"]))
        commits = read_group_log(self._topics).commits
        steps: dict[str, int] = {}
        for name, flow in self.flows.items():
            group = f"connect-{flow.sink}"
            assert group in commits, f"{group} has committed nothing"
            sides = {"source": [stored[_offset_key(flow)]], "sink": list(commits[group].values())}
            for kind, partitions in sides.items():
                steps[f"{name} {kind}"] = sum(
                    later < earlier
                    for offsets in partitions
                    for earlier, later in itertools.pairwise(offsets)
                )
        return steps

    def _run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._topics.bootstrap,
                "group.id": f"watch-of-{self._cluster}",  # required by librdkafka; nothing joins it
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        try:
            consumer.assign(
                [
                    TopicPartition(flow.topic, number, OFFSET_BEGINNING)
                    for flow in self.flows.values()
                    for number in range(flow.partitions)
                ]
            )
            while not self._stopped.is_set():
                self._consume(consumer)
        except BaseException as error:
            self._failure = error
        finally:
            consumer.close()

    def _consume(self, consumer: Consumer) -> None:
        rows_by_flow: dict[str, list[bytes]] = {}
        for message in consumer.consume(5_000, _CONSUME_S):
            if message.error() is None:
                name = self._by_topic[message.topic() or ""]
                rows_by_flow.setdefault(name, []).append((message.value() or b"") + b"\n")
        with self._lock:
            for name, rows in rows_by_flow.items():
                self._in_topic[name].take(b"".join(rows))
            for name, flow in self.flows.items():
                data = self._new_lines(flow)
                if data:
                    self._in_target[name].take(data)

    def _new_lines(self, flow: Flow) -> bytes:
        """Whole lines that were appended to the target since the last call."""
        if not flow.target.exists():
            return b""
        with flow.target.open("rb") as file:
            file.seek(self._read_bytes[flow.name])
            data = file.read()
        data = data[: len(data) - len(data) % WIDTH]
        self._read_bytes[flow.name] += len(data)
        return data


class WorkerCluster:
    """Some workers of one cluster, dead ones included."""

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        self.workers = list(workers)

    def up(self) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.alive]

    def states(self, via: WorkerProcess | None = None) -> dict[str, tuple[str, str]]:
        """State and worker of every connector and task according to one worker; empty while it does
        not answer."""
        worker = via or self.up()[0]
        try:
            answer = worker.request("GET", "/connectors?expand=status")
        except httpx.TransportError:
            return {}
        states: dict[str, tuple[str, str]] = {}
        for name, row in answer.json().items() if answer.status_code == 200 else ():
            status = row["status"]
            states[name] = status["connector"]["state"], status["connector"]["worker_id"]
            for task in status["tasks"]:
                states[f"{name}-{task['id']}"] = task["state"], task["worker_id"]
        return states

    def owners(self, via: WorkerProcess | None = None) -> dict[str, str]:
        """The worker of every running connector and task: `connector` or `connector-number`."""
        states = self.states(via).items()
        return {name: worker for name, (state, worker) in states if state == "RUNNING"}

    def await_shared(
        self,
        items: int,
        workers: Sequence[WorkerProcess],
        timeout_s: float,
        via: WorkerProcess | None = None,
    ) -> dict[str, str]:
        """Waits until this number of connectors and tasks runs on exactly these workers, whose
        loads differ by at most one task and one connector. Returns their `owners`."""
        ids = {worker.id for worker in workers}
        owners: dict[str, str] = {}

        def shared() -> bool:
            nonlocal owners
            owners = self.owners(via or workers[0])
            return (
                len(owners) == items
                and set(owners.values()) <= ids
                and all(
                    _even(ids, [owner for item, owner in owners.items() if is_task(item) is tasks])
                    for tasks in (True, False)
                )
            )

        try:
            wait_until(shared, timeout_s, f"{items} to run, shared by {sorted(ids)}", _POLL_S)
        except TimeoutError as error:
            states = self.states(via or workers[0])
            traces = "\n".join(self._traces(via or workers[0]))
            raise TimeoutError(f"{error}; states: {states}\n{traces}") from None
        return owners

    def _traces(self, via: WorkerProcess) -> list[str]:
        """Why tasks have failed."""
        answer = via.request("GET", "/connectors?expand=status")
        rows = answer.json().items() if answer.status_code == 200 else ()
        return [
            f"{name}-{task['id']}: {task['trace']}"
            for name, row in rows
            for task in row["status"]["tasks"]
            if "trace" in task
        ]

    def starts(self) -> Counter[str]:
        """How often each task has been started, according to the workers' logs."""
        starts: Counter[str] = Counter()
        for worker in self.workers:
            starts.update(_STARTED.findall(worker.log_text()))
        return starts


def is_task(item: str) -> bool:
    """Whether this names a task (it ends with a number) rather than a connector."""
    return item.rpartition("-")[2].isdigit()


def _even(workers: set[str], owners: Sequence[str]) -> bool:
    loads = Counter(dict.fromkeys(workers, 0))
    loads.update(owners)
    return max(loads.values()) - min(loads.values()) <= 1


def _stalls(side: Mapping[str, Arrivals]) -> dict[str, float]:
    now = time.monotonic()
    return {
        name: max(arrivals.stall_s, now - arrivals.arrived_at) for name, arrivals in side.items()
    }


def _offset_key(flow: Flow) -> bytes:
    return orjson.dumps([flow.source, {"filename": str(flow.growing.file)}])


def _dotted(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in settings.items()}
