"""The latency of many connectors at once, each with a few records per second.

The probe runs on the cores that it measures, so it has three threads for any number of connectors,
and all three wait in the kernel or in librdkafka, without Python's lock:

- The first sends due records, with one producer for all topics (`linger.ms` is 0), and receives
  acknowledgements in delivery callbacks.
- The second waits for inotify and reads lines appended to the sinks' files.
- The third polls one consumer of all topics that sources write to.

Times are exact to a few tenths of a millisecond.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import random
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from benchmarks.inputs import WrongOutcome
from penstock.testing.topics import Topics

ARRIVE_S: Final = 120.0
"""The time-out for the first records, once all tasks run, and for the last ones."""

_SEED: Final = 1
_LOOK_S: Final = 0.1  # between two checks whether a thread must end
_KAFKA_S: Final = 30.0
_READ: Final = 1 << 16  # bytes

_IN_MODIFY: Final = 0x2
_IN_OVERFLOW: Final = 0x4000
_IN_CLOEXEC: Final = 0o2000000
_EVENT: Final = struct.Struct("iIII")  # watch, mask, cookie, length of the name

_SLOW_WRITE_S: Final = 2.0
_PIPE_BYTES: Final = 4096  # the least that Linux gives a pipe
_PIPE_QUIET_MS: Final = 50  # a pause that ends a write
SLOW_PAD: Final = 2 * _PIPE_BYTES
"""Bytes of a record that does not fit into a pipe: its writer must wait for the reader."""


@dataclass(frozen=True, slots=True)
class Probed:
    """A connector that is measured: a sink from its topic to its file, or a source the other way
    round. The topic has one partition."""

    topic: str
    file: Path
    sink: bool
    slow: bool = False
    """A sink whose file is a named pipe; each write to it takes two seconds."""

    def value(self, number: int) -> bytes:
        """The record with this number, which no other connector has."""
        return b"%s:%d" % (self.topic.encode(), number) + b"x" * (SLOW_PAD if self.slow else 0)


@dataclass(frozen=True, slots=True)
class Pace:
    """`per_s` records a second for each connector, for `warm_s` seconds that do not count and then
    for `seconds` that do. One more record, which does not count either, precedes them."""

    seconds: float
    per_s: float
    warm_s: float = 10.0

    @property
    def ahead(self) -> int:
        """Records of a connector that do not count."""
        return 1 + round(self.warm_s * self.per_s)

    @property
    def total(self) -> int:
        """Records of a connector, including those that do not count."""
        return self.ahead + round(self.seconds * self.per_s)

    def due(self, connectors: int, chance: random.Random) -> list[tuple[float, int]]:
        """When each record is due, in seconds, and its connector, in order. A record may be due at
        any moment of its `1 / per_s` seconds, so that no connector keeps step with a timer."""
        return sorted(
            ((number + chance.random()) / self.per_s, connector)
            for connector in range(connectors)
            for number in range(self.total - 1)
        )


class Arrivals:
    """When each record of a connector was sent and when it arrived."""

    def __init__(self, probed: Probed, total: int) -> None:
        self.sent = [0.0] * total
        self.came: list[float] = []
        self.next = 0
        """The number of the next record to send."""
        self._probed = probed
        self._total = total
        self._rest = b""

    @property
    def complete(self) -> bool:
        return len(self.came) == self._total and all(self.sent)

    def arrived(self, value: bytes, now: float) -> None:
        """Notes one record. Raises WrongOutcome when it is not the one that was due."""
        number = len(self.came)
        due = self._probed.value(number) if number < self._total else b"nothing"
        if value != due:
            target = self._probed.file if self._probed.sink else self._probed.topic
            raise WrongOutcome(f"{due[:80]!r} was due in '{target}', {value[:80]!r} came")
        self.came.append(now)

    def appended(self, block: bytes, now: float) -> None:
        """Notes the complete lines that were appended to a file."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            self.arrived(line, now)

    def latencies_ms(self, ahead: int) -> list[float]:
        """Of all but the first `ahead` records, in the order they were sent."""
        pairs = zip(self.sent[ahead:], self.came[ahead:], strict=True)
        # The acknowledgement may arrive after the record was written.
        return [max(0.0, received_s - sent_s) * 1000 for sent_s, received_s in pairs]


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a probe."""

    latencies_ms: Mapping[Probed, Sequence[float]]
    """Per record that counts: of a sink from the acknowledgement until the line is in the file, of
    a source from the append of the line until it can be consumed."""
    cores: float
    """The worker's CPU usage while they were sent."""
    late_ms: Sequence[float] = ()
    """How late each record was sent; up to one millisecond is intended. Larger values mean that the
    machine had no time for the probe, and that latencies are too high."""

    def of(self, selects: Callable[[Probed], bool]) -> list[float]:
        """The latencies of some connectors."""
        return [
            value
            for probed, values in self.latencies_ms.items()
            if selects(probed)
            for value in values
        ]


class Probe:
    """Sends records through running connectors, and measures the time. Their files exist, and their
    topics are empty. Every record must arrive once and in order."""

    def __init__(self, topics: Topics, connectors: Sequence[Probed], pace: Pace) -> None:
        self._topics = topics
        self._pace = pace
        self._arrivals = {probed: Arrivals(probed, pace.total) for probed in connectors}
        self._failures: list[BaseException] = []
        self._ready = threading.Event()  # the first record of every connector has arrived
        self._began = 0.0
        self._late_ms: list[float] = []

    def measure(self, cpu_s: Callable[[], float], check: Callable[[], None]) -> Measured:
        """Runs for the length of the pace, and until all records have arrived. `cpu_s` returns the
        worker's CPU time so far; `check` raises its failure if records do not arrive. Raises
        WrongOutcome and TimeoutError."""
        pace, arrivals = self._pace, self._arrivals.values()
        with (
            self._beside(self._watch_files),
            self._beside(self._consume),
            self._beside(self._send),
        ):
            self._await(lambda: all(stream.came and stream.sent[0] for stream in arrivals), check)
            self._began = time.monotonic()
            self._ready.set()
            self._pass_until(self._began + pace.warm_s)
            before, begin = cpu_s(), time.monotonic()
            self._pass_until(self._began + pace.warm_s + pace.seconds)
            after, end = cpu_s(), time.monotonic()
            self._await(lambda: all(stream.complete for stream in arrivals), check)
        return Measured(
            {probed: stream.latencies_ms(pace.ahead) for probed, stream in self._arrivals.items()},
            (after - before) / (end - begin),
            self._late_ms,
        )

    def verify(self) -> None:
        """Raises WrongOutcome if records arrived after the last one. Call it once the connectors
        have stopped."""
        for probed, arrivals in self._arrivals.items():
            if probed.slow:
                records = len(arrivals.came)  # other records would have been refused
            elif probed.sink:
                records = probed.file.read_bytes().count(b"\n")
            else:
                records = self._topics.count(probed.topic)
            if records != self._pace.total:
                raise WrongOutcome(
                    f"{self._pace.total} records were sent through '{probed.topic}', {records} came"
                )
        self._raise_failure()

    @contextlib.contextmanager
    def pipes(self) -> Iterator[None]:
        """Creates the named pipes of slow sinks, and reads them slowly during the block. The sinks
        must stop before the block ends."""
        with contextlib.ExitStack() as running:
            for probed, arrivals in self._arrivals.items():
                if probed.slow:
                    os.mkfifo(probed.file)
                    # Open for writing, too, so that no end of file follows when a sink closes it.
                    pipe = os.open(probed.file, os.O_RDWR | os.O_NONBLOCK)
                    running.callback(os.close, pipe)
                    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
                    running.enter_context(self._beside(partial(_read_slowly, pipe, arrivals)))
            yield

    def _await(self, condition: Callable[[], bool], check: Callable[[], None]) -> None:
        deadline = time.monotonic() + ARRIVE_S
        while not condition():
            if time.monotonic() > deadline:
                check()
                came = sum(len(arrivals.came) for arrivals in self._arrivals.values())
                sent = sum(arrivals.next for arrivals in self._arrivals.values())
                raise TimeoutError(f"{came} of {sent} records came")
            self._pass_until(time.monotonic() + _LOOK_S)

    def _pass_until(self, moment: float) -> None:
        while (wait_s := moment - time.monotonic()) > 0:
            self._raise_failure()
            threading.Event().wait(min(wait_s, _LOOK_S))
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    @contextlib.contextmanager
    def _beside(self, work: Callable[[threading.Event], None]) -> Iterator[None]:
        """Runs `work` in a thread, which stops at the end of the block; keeps its error."""
        stop = threading.Event()

        def kept() -> None:
            try:
                work(stop)
            except BaseException as error:
                self._failures.append(error)

        thread = threading.Thread(target=kept, name="bench-probe", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_KAFKA_S)

    def _send(self, stop: threading.Event) -> None:
        """Sends one record for each connector and, once they arrived, all others when due."""
        producer = Producer(
            {
                "bootstrap.servers": self._topics.bootstrap,
                "linger.ms": 0,
                "socket.nagle.disable": True,
                "log_level": 0,
            }
        )
        connectors = list(self._arrivals)
        with contextlib.ExitStack() as closing:
            files: dict[Probed, int] = {}
            for probed in connectors:
                if not probed.sink:
                    files[probed] = os.open(probed.file, os.O_WRONLY | os.O_APPEND)
                    closing.callback(os.close, files[probed])

            def send(probed: Probed) -> None:
                arrivals = self._arrivals[probed]
                number, arrivals.next = arrivals.next, arrivals.next + 1
                value = probed.value(number)
                if probed.sink:
                    stored = partial(self._stored, arrivals, number)
                    producer.produce(probed.topic, value, partition=0, on_delivery=stored)
                else:
                    arrivals.sent[number] = time.monotonic()
                    os.write(files[probed], value + b"\n")

            for probed in connectors:
                send(probed)
            while not self._ready.is_set() and not stop.is_set():
                producer.poll(_LOOK_S)
            for at_s, connector in self._pace.due(len(connectors), random.Random(_SEED)):
                while (wait_s := self._began + at_s - time.monotonic()) > 0 and not stop.is_set():
                    producer.poll(max(0.001, min(wait_s, _LOOK_S)))  # it has millisecond precision
                if stop.is_set():
                    return
                if at_s >= self._pace.warm_s:
                    self._late_ms.append((time.monotonic() - self._began - at_s) * 1000)
                send(connectors[connector])
            producer.flush(_KAFKA_S)

    def _stored(
        self, arrivals: Arrivals, number: int, error: KafkaError | None, message: Message
    ) -> None:
        if error is None:
            arrivals.sent[number] = time.monotonic()
        else:
            self._failures.append(WrongOutcome(f"a record was not stored: {error.str()}"))

    def _watch_files(self, stop: threading.Event) -> None:
        """Reads lines appended to the files of sinks as soon as inotify reports them."""
        arrivals: dict[int, Arrivals] = {}
        files: dict[int, int] = {}
        with contextlib.ExitStack() as closing:
            watching = _inotify("inotify_init1", _IN_CLOEXEC)
            closing.callback(os.close, watching)
            for probed in self._arrivals:
                if probed.sink and not probed.slow:
                    path = os.fsencode(probed.file)
                    watch = _inotify("inotify_add_watch", watching, path, _IN_MODIFY)
                    arrivals[watch] = self._arrivals[probed]
                    files[watch] = os.open(probed.file, os.O_RDONLY)
                    closing.callback(os.close, files[watch])
            events = select.poll()
            events.register(watching, select.POLLIN)
            changed = list(files)  # lines may have been appended before the watch
            while not stop.is_set():
                for watch in changed:
                    while block := os.read(files[watch], _READ):
                        arrivals[watch].appended(block, time.monotonic())
                ready = events.poll(_LOOK_S * 1000)
                changed = modified(os.read(watching, _READ)) if ready else []

    def _consume(self, stop: threading.Event) -> None:
        """Reads what sources have sent."""
        arrivals = {
            probed.topic: arrivals for probed, arrivals in self._arrivals.items() if not probed.sink
        }
        if not arrivals:
            return
        consumer = Consumer(
            {
                "bootstrap.servers": self._topics.bootstrap,
                "group.id": "bench-probe",
                "enable.auto.commit": False,
                "fetch.min.bytes": 1,
                "socket.nagle.disable": True,
                "log_level": 0,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in arrivals])
            while not stop.is_set():
                message = consumer.poll(_LOOK_S)
                now = time.monotonic()
                if message is not None and message.error() is None:
                    arrivals[message.topic() or ""].arrived(message.value() or b"", now)
        finally:
            consumer.close()


def _read_slowly(pipe: int, arrivals: Arrivals, stop: threading.Event) -> None:
    """Delays each write to a pipe by two seconds, and then reads it. A write consists of the
    records sent until it began; later ones belong to the next, which waits as long."""
    events = select.poll()
    events.register(pipe, select.POLLIN)
    while not stop.is_set():
        if not events.poll(_LOOK_S * 1000):
            continue
        sent = arrivals.next
        stop.wait(_SLOW_WRITE_S)
        while len(arrivals.came) < sent and events.poll(_PIPE_QUIET_MS):
            arrivals.appended(os.read(pipe, _READ), time.monotonic())


def modified(events: bytes) -> list[int]:
    """The watches of a block of inotify's events, each once, in order.

    >>> modified(_EVENT.pack(2, _IN_MODIFY, 0, 0) + _EVENT.pack(1, _IN_MODIFY, 0, 0))
    [2, 1]
    """
    watches: dict[int, None] = {}
    at = 0
    while at < len(events):
        watch, mask, _, length = _EVENT.unpack_from(events, at)
        if mask & _IN_OVERFLOW:
            raise OSError("inotify lost events: the probe was too slow")
        watches[watch] = None
        at += _EVENT.size + length
    return list(watches)


def _inotify(function: str, *arguments: object) -> int:
    """Calls a function of inotify's. Raises OSError."""
    result: int = getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return result
