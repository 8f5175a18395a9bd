"""Taking measurements: how far a run has got, how long a record takes, what a worker uses."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from penstock.testing.topics import Topics

LOOK_S: Final = 0.005
"""Between two looks at how far a run is, at least."""
_LOOK_SHARE: Final = 10  # looking may take a tenth of the time, for it takes it from the run

_FIRST_SHARE: Final = 0.25
_CHECK_S: Final = 1.0
_TAIL_S: Final = 30.0  # for what was sent last to arrive
_KAFKA_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Curve:
    """How far a run was at which time: seconds since it was ordered, and what was done by then."""

    points: tuple[tuple[float, int], ...]

    @property
    def rate(self) -> float | None:
        """Per second, from the first look that saw something to the one that saw everything; None
        if the first saw so much that the rest tells little."""
        (first_s, first), (last_s, last) = self.points[0], self.points[-1]
        return (last - first) / (last_s - first_s) if first <= last * _FIRST_SHARE else None

    @property
    def took_s(self) -> float:
        """From the order to the last record."""
        return self.points[-1][0]

    def scaled(self, factor: float) -> Curve:
        """The same with another unit of work."""
        return Curve(tuple((at, round(done * factor)) for at, done in self.points))

    def thinned(self, most: int) -> Curve:
        """The same with at most so many points, the first and the last among them."""
        step = max(1, -(-(len(self.points) - 1) // max(1, most - 1)))
        kept = self.points[: -1 if len(self.points) > 1 else None : step]
        return Curve((*kept, self.points[-1]) if len(self.points) > 1 else self.points)


def watch(
    done: Callable[[], int],
    whole: int,
    began: float,
    timeout_s: float,
    check: Callable[[], None],
) -> Curve:
    """Looks until `done` reaches `whole`. `check` is called once a second and raises what ends the
    run early. Raises TimeoutError when it takes too long."""
    points: list[tuple[float, int]] = []
    pause = threading.Event()
    checked = began
    before = 0
    while before < whole:
        asked = time.monotonic()
        now_done, now = done(), time.monotonic()
        if now_done > before:
            points.append((now - began, now_done))
            before = now_done
        elif now - checked >= _CHECK_S:
            if now - began > timeout_s:
                raise TimeoutError(f"{before:,} of {whole:,} were done after {timeout_s:.0f} s")
            check()
            checked = now
        if before < whole:
            pause.wait(max(LOOK_S, (now - asked) * _LOOK_SHARE))
    return Curve(tuple(points))


def file_size(file: Path) -> Callable[[], int]:
    """A look at the bytes of a file that may not be there yet."""

    def size() -> int:
        try:
            return os.stat(file).st_size
        except FileNotFoundError:
            return 0

    return size


def topic_ends(topics: Topics, names: Sequence[str]) -> Callable[[], int]:
    """A look at the records of topics of one partition each."""
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(name, 0): newest for name in names}
    level = IsolationLevel.READ_UNCOMMITTED

    def count() -> int:
        found = topics.admin.list_offsets(wanted, isolation_level=level, request_timeout=_KAFKA_S)
        return sum(int(row.result().offset) for row in found.values())

    return count


def into_cache(files: Sequence[Path]) -> None:
    """Reads files, and has what is still to be written to disk written, so that every run finds
    the machine the same."""
    os.sync()
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.read(1 << 22):
                pass


# ── latency ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pace:
    """One record every `1 / per_s` seconds, for `warm_s` seconds that do not count and then for
    `seconds` that do."""

    seconds: float
    warm_s: float = 10.0
    per_s: int = 100

    @property
    def warm(self) -> int:
        return round(self.warm_s * self.per_s)

    @property
    def total(self) -> int:
        return self.warm + round(self.seconds * self.per_s)

    def numbers(self, wait: Callable[[float], object], stop: threading.Event) -> Iterator[int]:
        """Every record's number when it is due; `wait` is given the seconds until then. Ends early
        once `stop` is set."""
        begin = time.monotonic()
        for number in range(self.total):
            while (left := begin + number / self.per_s - time.monotonic()) > 0:
                wait(left)
            if stop.is_set():
                return
            yield number


class _Arrivals:
    """When each number was sent and when it came; what comes twice or out of order is refused."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.sent = [0.0] * pace.total
        self.came: list[float] = []

    @property
    def complete(self) -> bool:
        return len(self.came) >= self._pace.total and all(self.sent)

    def arrived(self, number: int, now: float) -> None:
        if number != len(self.came):
            raise ValueError(f"record {len(self.came)} was due, {number} came")
        self.came.append(now)

    def latencies_ms(self) -> list[float]:
        """Of the records that count, in the order they were sent."""
        pairs = zip(self.sent, self.came, strict=True)
        # An acknowledgement may be heard of after the record has been written already.
        return [max(0.0, came - sent) * 1000 for sent, came in pairs][self._pace.warm :]


def append_latency_ms(file: Path, topics: Topics, topic: str, pace: Pace) -> list[float]:
    """From the append of a line to `file` until it can be consumed from `topic`, per line."""
    arrivals = _Arrivals(pace)

    def append(stop: threading.Event) -> None:
        with file.open("ab", buffering=0) as out:
            for number in pace.numbers(stop.wait, stop):
                arrivals.sent[number] = time.monotonic()
                out.write(b"%d\n" % number)

    settings = {
        "bootstrap.servers": topics.bootstrap,
        "group.id": "bench-latency",
        "enable.auto.commit": False,
        "fetch.min.bytes": 1,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
        consumer.poll(1.0)
        with _beside(append):
            deadline = time.monotonic() + pace.warm_s + pace.seconds + _TAIL_S
            while not arrivals.complete:
                message = consumer.poll(0.1)
                now = time.monotonic()
                if message is not None and message.error() is None:
                    arrivals.arrived(int(message.value() or b"-1"), now)
                elif now > deadline:
                    raise TimeoutError(f"{len(arrivals.came)} of {pace.total} lines came")
    finally:
        consumer.close()
    return arrivals.latencies_ms()


def sink_latency_ms(file: Path, topics: Topics, topic: str, pace: Pace) -> list[float]:
    """From the acknowledgement of a record in `topic` until its line is in `file`, per record."""
    arrivals = _Arrivals(pace)
    settings = {"bootstrap.servers": topics.bootstrap, "linger.ms": 0, "log_level": 0}
    producer = Producer(settings)

    def produce(stop: threading.Event) -> None:
        for number in pace.numbers(producer.poll, stop):
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=_noted(number))
        producer.flush(_KAFKA_S)

    def _noted(number: int) -> Callable[[KafkaError | None, Message], None]:
        def stored(error: KafkaError | None, message: Message) -> None:
            if error is None:
                arrivals.sent[number] = time.monotonic()

        return stored

    pause = threading.Event()
    with file.open("rb", buffering=0) as lines, _beside(produce):
        lines.seek(0, os.SEEK_END)
        deadline = time.monotonic() + pace.warm_s + pace.seconds + _TAIL_S
        rest = b""
        while not arrivals.complete:
            block = lines.read(1 << 16)
            now = time.monotonic()
            if not block:
                if now > deadline:
                    raise TimeoutError(f"{len(arrivals.came)} of {pace.total} lines came")
                pause.wait(0.001)
                continue
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                arrivals.arrived(int(line), now)
    return arrivals.latencies_ms()


def await_value(
    topics: Topics,
    names: Sequence[str],
    value: bytes,
    send: Callable[[], None],
    timeout_s: float,
    check: Callable[[], None],
) -> int:
    """Waits until a record with this value is in each of these topics of one partition, `send`
    having seen to it; how many records came meanwhile. `check` is called now and then, and raises
    what ends the wait early. Raises TimeoutError."""
    settings = {
        "bootstrap.servers": topics.bootstrap,
        "group.id": "bench-values",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(name, 0, topics.count(name)) for name in names])
        send()
        missing, seen, deadline = set(names), 0, time.monotonic() + timeout_s
        while missing:
            message = consumer.poll(_CHECK_S)
            if message is None:
                check()
            elif message.error() is None:
                seen += 1
                if message.value() == value:
                    missing.discard(message.topic() or "")
            if missing and time.monotonic() > deadline:
                raise TimeoutError(f"{value!r} did not come in {len(missing)} topics")
        return seen
    finally:
        consumer.close()


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@contextlib.contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Does the work in a thread meanwhile, which is told to stop when the block is left."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name="bench-load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_KAFKA_S)


# ── what a worker uses ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and all it started have used: seconds of CPU so far, MB of memory now."""

    cpu_s: float
    memory_mb: float
    """Proportional set size: pages that processes share are counted once between them."""
    programs: dict[str, float]
    """The memory by program."""


def usage(pid: int) -> Usage:
    """What the process and its descendants use. Processes that have ended meanwhile count through
    whoever waited for them."""
    root = psutil.Process(pid)
    cpu_s = 0.0
    programs: dict[str, float] = {}
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            memory = process.memory_full_info().pss / 1e6
            cpu_s += times.user + times.system + times.children_user + times.children_system
            programs[process.name()] = programs.get(process.name(), 0.0) + memory
    return Usage(cpu_s, sum(programs.values()), programs)
