"""Records that flow through several tasks of one source and one sink, and every pause of each task.

The source's tasks send generated records at a steady rate, numbered in a header. The sink's tasks
append the partition and offset of each record to a file, as a line. So every record is identified
at both ends, and the pauses of every task are known.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import orjson

from penstock.testing.processes import WorkerProcess
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

TASKS: Final = 3
ITEMS: Final = 2 * TASKS + 2  # with the two connectors
PARTITIONS: Final = TASKS
RATE: Final = 100  # records per second, of each source task
SETTLE_S: Final = 60.0
_LOOK_S: Final = 0.02
_ASK_S: Final = 0.2
_LINE: Final = re.compile(rb"\{partition=(\d+), offset=(\d+), n=\d+\}\n")
_SCHEMA: Final = (
    '{"type":"record","name":"row","fields":[{"name":"n","type":{"type":"long",'
    '"arg.properties":{"iteration":{"start":0}}}}]}'
)
_JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@dataclass(frozen=True, slots=True)
class Pauses:
    """The longest pauses, in seconds: by source task between two of its records in the topic, by
    partition between two of the sink's writes, and by task in the status topic from UNASSIGNED to
    RUNNING."""

    source: dict[int, float]
    sink: dict[int, float]
    status: dict[str, float]

    @property
    def longest(self) -> float:
        return max(*self.source.values(), *self.sink.values(), *self.status.values())

    def __str__(self) -> str:
        return "; ".join(
            f"{name}: " + ", ".join(f"{value:.1f}" for _, value in sorted(pauses.items()))
            for name, pauses in (
                ("source tasks", self.source),
                ("partitions of the sink", self.sink),
                ("statuses", self.status),
            )
        )


@dataclass
class Stream:
    """A source and a sink of `TASKS` tasks each. As a context manager it follows the target."""

    topics: Topics
    cluster: str
    topic: str
    target: Path
    _tail: int = 0
    _rest: bytes = b""
    _lines: Counter[tuple[int, int]] = field(default_factory=Counter)
    _wrong: list[bytes] = field(default_factory=list)
    _arrived: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def source(self) -> str:
        return f"{self.topic}-src"

    @property
    def sink(self) -> str:
        return f"{self.topic}-snk"

    def create(self, worker: WorkerProcess) -> None:
        """Creates both connectors."""
        worker.create(
            self.source,
            {
                "connector.class": "DatagenConnector",
                "tasks.max": str(TASKS),
                "kafka.topic": self.topic,
                "schema.string": _SCHEMA,
                "random.seed": "1",
                "penstock.records.per.second": str(RATE),
                **_JSON,
            },
        )
        worker.create(
            self.sink,
            {
                "connector.class": "FileStreamSink",
                "tasks.max": str(TASKS),
                "topics": self.topic,
                "file": str(self.target),
                "transforms": "at",
                "transforms.at.type": "org.apache.kafka.connect.transforms.InsertField$Value",
                "transforms.at.partition.field": "partition",
                "transforms.at.offset.field": "offset",
                **_JSON,
            },
        )

    def __enter__(self) -> Stream:
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def arriving(self) -> None:
        """Waits until the sink has written new records of every partition, and each source task has
        sent new ones."""
        begin = time.monotonic()
        sent = self._sent()

        def more() -> bool:
            with self._lock:
                written = all(
                    self._arrived[number] and self._arrived[number][-1] > begin
                    for number in range(PARTITIONS)
                )
            if not written:
                return False
            now = self._sent()
            return all(now.get(task, -1) > sent.get(task, -1) for task in range(TASKS))

        wait_until(more, SETTLE_S, "records of every task", _ASK_S)

    def stop(self, worker: WorkerProcess) -> None:
        """Pauses the source, and waits until everything it sent is written and committed. Raises
        AssertionError if records are missing, repeated or altered."""
        answer = worker.request("PUT", f"/connectors/{self.source}/pause")
        assert answer.status_code == 202, answer.text
        worker.await_states(self.source, ["PAUSED"] * (TASKS + 1))
        ends = self.topics.ends(self.topic)
        group = f"connect-{self.sink}"
        try:
            wait_until(
                lambda: self.topics.committed(group, self.topic) == ends,
                SETTLE_S,
                "everything to be committed",
                _ASK_S,
            )
        except TimeoutError as error:
            found = self.topics.committed(group, self.topic)
            raise AssertionError(f"{error}: of {ends} {found} are committed") from None
        self._check_sent()
        wanted = {(number, at) for number, end in ends.items() for at in range(end)}
        wait_until(lambda: self._written() >= len(wanted), SETTLE_S, "the file to be read")
        with self._lock:
            assert not self._wrong, self._wrong[:5]
            assert set(self._lines) == wanted
            again = [at for at, times in self._lines.items() if times > 1]
            assert not again, f"{len(again)} records were written again, as {again[:5]}"

    def _check_sent(self) -> None:
        numbers: dict[int, list[int]] = defaultdict(list)
        for task, number, _ in self._rows():
            numbers[task].append(number)
        assert set(numbers) == set(range(TASKS))
        for task, found in numbers.items():
            assert sorted(found) == list(range(len(found))), f"of task {task}"

    def _written(self) -> int:
        with self._lock:
            return self._lines.total()

    def _sent(self) -> dict[int, int]:
        """The number of each source task's last record."""
        found: dict[int, int] = {}
        for task, number, _ in self._rows():
            found[task] = max(number, found.get(task, -1))
        return found

    def _rows(self) -> Iterable[tuple[int, int, int]]:
        """The source task, number and time (ms) of every record in the topic."""
        for row in self.topics.read(self.topic):
            headers = dict(row.headers)
            task, number = headers["task.id"], headers["current.iteration"]
            assert task is not None
            assert number is not None
            assert row.timestamp is not None
            yield int(task), int(number), row.timestamp

    def pauses(self, since: float, until: float) -> Pauses:
        """The pauses in this interval, in seconds since the epoch."""
        sent: dict[int, list[float]] = defaultdict(list)
        for task, _, at in self._rows():
            sent[task].append(at / 1000)
        shift = time.time() - time.monotonic()
        with self._lock:
            written = {
                number: [at + shift for at in times] for number, times in self._arrived.items()
            }
        return Pauses(
            {task: _longest(times, since, until) for task, times in sent.items()},
            {number: _longest(times, since, until) for number, times in written.items()},
            self._unassigned(since, until),
        )

    def _unassigned(self, since: float, until: float) -> dict[str, float]:
        """By task, the longest time from an UNASSIGNED to the next RUNNING in the status topic."""
        rows = self.topics.read(f"{self.cluster}-status")
        longest: dict[str, float] = {}
        without: dict[str, float] = {}
        for row in sorted(rows, key=lambda row: row.timestamp or 0):
            name, at = (row.key or b"").decode(), (row.timestamp or 0) / 1000
            if not name.startswith("status-task-") or row.value is None or not since <= at <= until:
                continue
            state = orjson.loads(row.value)["state"]
            longest.setdefault(name, 0.0)
            if state == "UNASSIGNED":
                without.setdefault(name, at)
            elif state == "RUNNING" and name in without:
                longest[name] = max(longest[name], at - without.pop(name))
        for name, at in without.items():
            longest[name] = max(longest[name], until - at)
        return longest

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            if self.target.exists():
                self._look()

    def _look(self) -> None:
        with self.target.open("rb") as file:
            file.seek(self._tail)
            data = file.read()
        now = time.monotonic()
        self._tail += len(data)
        *lines, self._rest = (self._rest + data).splitlines(keepends=True) or [b""]
        if self._rest.endswith(b"\n"):
            lines.append(self._rest)
            self._rest = b""
        with self._lock:
            for line in lines:
                match = _LINE.fullmatch(line)
                if match is None:
                    self._wrong.append(line)
                    continue
                number = int(match[1])
                self._lines[number, int(match[2])] += 1
                self._arrived[number].append(now)


def _longest(times: Sequence[float], since: float, until: float) -> float:
    """The longest time between two consecutive ones, including the bounds."""
    within = [since, *sorted(at for at in times if since < at < until), until]
    return max(after - before for before, after in pairwise(within))
