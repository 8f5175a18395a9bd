"""Measures the progress of a run, and a worker's resource usage. `probe` measures latencies."""

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
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from penstock.testing.topics import Topics

LOOK_S: Final = 0.005
"""The minimum time between two checks of a run's progress."""
_LOOK_SHARE: Final = 10  # checks may take a tenth of the time, which the run loses

_FIRST_SHARE: Final = 0.25
_CHECK_S: Final = 1.0
_KAFKA_S: Final = 30.0
_MEMORY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Curve:
    """The progress of a run: seconds since its request, and the amount done by then."""

    points: tuple[tuple[float, int], ...]

    @property
    def rate(self) -> float | None:
        """Per second, from the first check with progress to the one with everything; None if the
        first check saw so much that the rest says little."""
        (first_s, first), (last_s, last) = self.points[0], self.points[-1]
        return (last - first) / (last_s - first_s) if first <= last * _FIRST_SHARE else None

    @property
    def took_s(self) -> float:
        """From the request to the last record."""
        return self.points[-1][0]

    def scaled(self, factor: float) -> Curve:
        """The curve in another unit of work."""
        return Curve(tuple((at, round(done * factor)) for at, done in self.points))

    def thinned(self, most: int) -> Curve:
        """The curve with at most `most` points, including the first and the last."""
        step = max(1, -(-(len(self.points) - 1) // max(1, most - 1)))
        points = self.points[: -1 if len(self.points) > 1 else None : step]
        return Curve((*points, self.points[-1]) if len(self.points) > 1 else self.points)


def watch(
    done: Callable[[], int],
    whole: int,
    began: float,
    timeout_s: float,
    check: Callable[[], None],
) -> Curve:
    """Polls until `done` reaches `whole`. `check` is called once a second and may raise to end the
    run early. Raises TimeoutError when it takes too long."""
    points: list[tuple[float, int]] = []
    pause = threading.Event()
    checked = began
    before = 0
    while before < whole:
        asked_at = time.monotonic()
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
            pause.wait(max(LOOK_S, (now - asked_at) * _LOOK_SHARE))
    return Curve(tuple(points))


def file_size(file: Path) -> Callable[[], int]:
    """A function that returns the size of a file; 0 while it does not exist."""

    def size() -> int:
        try:
            return os.stat(file).st_size
        except FileNotFoundError:
            return 0

    return size


def topic_ends(topics: Topics, names: Sequence[str]) -> Callable[[], int]:
    """A function that counts the records of topics of one partition each."""
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    requests = {TopicPartition(name, 0): newest for name in names}
    level = IsolationLevel.READ_UNCOMMITTED

    def count() -> int:
        offsets = topics.admin.list_offsets(
            requests, isolation_level=level, request_timeout=_KAFKA_S
        )
        return sum(int(row.result().offset) for row in offsets.values())

    return count


def into_cache(files: Sequence[Path]) -> None:
    """Reads files into the cache, and flushes pending writes to disk, so that every run starts with
    the machine in the same state."""
    os.sync()
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.read(1 << 22):
                pass


def await_value(
    topics: Topics,
    names: Sequence[str],
    value: bytes,
    send: Callable[[], None],
    timeout_s: float,
    check: Callable[[], None],
) -> int:
    """Calls `send`, and waits until a record with this value is in each of these topics of one
    partition; returns how many records arrived meanwhile. `check` is called now and then, and may
    raise to end the wait early. Raises TimeoutError."""
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
        missing, records, deadline = set(names), 0, time.monotonic() + timeout_s
        while missing:
            message = consumer.poll(_CHECK_S)
            if message is None:
                check()
            elif message.error() is None:
                records += 1
                if message.value() == value:
                    missing.discard(message.topic() or "")
            if missing and time.monotonic() > deadline:
                raise TimeoutError(f"{value!r} did not come in {len(missing)} topics")
        return records
    finally:
        consumer.close()


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of a process and its descendants: seconds of CPU so far, MB of memory now."""

    cpu_s: float
    memory_mb: float
    """Proportional set size: pages shared by several processes count once."""
    programs: dict[str, float]
    """The memory by program."""


def cpu_s(pid: int) -> float:
    """The seconds of CPU that the process and its descendants have used so far. Ended processes
    count through the parent that waited for them."""
    used = 0.0
    for process in _family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def usage(pid: int) -> Usage:
    """The resource usage of the process and its descendants."""
    programs: dict[str, float] = {}
    for process in _family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            memory = process.memory_full_info().pss / 1e6
            programs[process.name()] = programs.get(process.name(), 0.0) + memory
    return Usage(cpu_s(pid), sum(programs.values()), programs)


@contextlib.contextmanager
def peak_memory(pid: int) -> Iterator[list[float]]:
    """The memory (MB) that the process and its descendants use during the block, each second."""
    samples = [usage(pid).memory_mb]
    over = threading.Event()

    def look() -> None:
        while not over.wait(_MEMORY_S):
            samples.append(usage(pid).memory_mb)

    thread = threading.Thread(target=look, name="memory", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _family(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]
