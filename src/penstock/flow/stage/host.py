"""The stage of a slot: hosts connector tasks for as long as its Spark task runs.

Spark passes it frames, one at a time: records that the consumers in the JVM have read, and their
events. The worker sends it orders (`messages`); it sends commands to the JVM's consumers over a
socket of the same machine.

    main thread      takes Spark's frames and hands each to its task
    orders           receives the worker's orders
    watch            cuts off tasks that do not stop, reports progress to the worker, and requests
                     the storing of source offsets, once a second for all source tasks
    a thread a task  runs the connector's code; may block
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, assert_never

import orjson
import pyarrow as pa

from penstock.flow import control
from penstock.flow.control import Channel, ControlAddress
from penstock.flow.messages import (
    AskPositions,
    Begin,
    End,
    Failed,
    Hello,
    Load,
    News,
    OffsetsStored,
    Open,
    OpenPart,
    Order,
    PartsRead,
    Positions,
    Stop,
    Stopped,
    WatchedRecords,
    WatchRecords,
)
from penstock.flow.plan import FlowPlan, SinkPlan, SourcePlan
from penstock.flow.stage import chunks, events
from penstock.flow.stage.chunks import FrameKind
from penstock.flow.stage.events import ReaderStarted
from penstock.flow.stage.hosted import Hosted
from penstock.flow.stage.producing import PartTask
from penstock.flow.stage.sink import SinkTask
from penstock.flow.stage.source import SourceTask
from penstock.flow.stage.tap import Tap
from penstock.flow.traces import trace_of

log = logging.getLogger(__name__)

_WATCH_S: Final = 0.25
_LOAD_EVERY: Final = 4  # looks
_STORE_EVERY: Final = 4
_COLLECT_AFTER: Final = 200_000
_STUCK: Final = 70
"""The exit code of a stage that ends while a task's thread still runs."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class SlotStage:
    """Spark's function: takes frames until there are no more, and yields nothing."""

    slot: int
    worker: ControlAddress

    def __call__(self, frames: Iterable[bytes]) -> Iterator[bytes]:
        _rest_the_collector()
        Host(self.slot, control.connect(self.worker)).run(frames)
        yield from ()


class Host:
    """The tasks of one slot."""

    def __init__(self, slot: int, worker: Channel) -> None:
        self._slot = slot
        self._worker = worker
        self._lock = threading.Lock()
        """Guards changes of the tasks; reading one or listing them is atomic."""
        self._tasks: dict[int, Hosted] = {}
        self._cut: list[Hosted] = []  # their threads may still run
        self._reader = _ReaderLink()
        self._over = threading.Event()

    def run(self, frames: Iterable[bytes]) -> None:
        """Returns when Spark has no more frames."""
        self.send([Hello(self._slot, os.getpid())])
        for target, name in ((self._take_orders, "orders"), (self._watch, "watch")):
            threading.Thread(target=target, name=name, daemon=True).start()
        try:
            for frame in frames:
                self._take(pa.py_buffer(frame))
        finally:
            self._over.set()
            self._worker.close()
            self._reader.close()
            self._leave_nobody()

    def send(self, news: Sequence[News]) -> None:
        """Sends to the worker; ignored when it is gone, as this slot then ends, too."""
        with contextlib.suppress(OSError):
            self._worker.send(news)

    def send_to_reader(self, command: Mapping[str, Any]) -> None:
        """Sends a command for a consumer to the slot's JVM."""
        self._reader.send(command)

    def gone(self, task: Hosted) -> None:
        """A task has stopped or failed."""
        with self._lock:
            self._tasks.pop(task.id, None)

    def _take(self, frame: pa.Buffer) -> None:
        kind, id = chunks.kind_and_task(frame)
        match kind:
            case FrameKind.CHUNK:
                task = self._tasks.get(id)
                if isinstance(task, SinkTask):
                    task.take_frame(frame)
            case FrameKind.EVENT:
                self._take_event(chunks.event(frame))
            case _:
                assert_never(kind)

    def _take_event(self, content: Mapping[str, Any]) -> None:
        match events.decode(content):
            case ReaderStarted(host, port, token):
                self._reader.connect(host, port, token)
            case event:
                task = self._tasks.get(content["task"])
                if isinstance(task, SinkTask):
                    task.take_event(event)

    def _take_orders(self) -> None:
        try:
            while True:
                for order in self._worker.receive():
                    self._obey(order)
        except (EOFError, OSError):
            self._cut_all()  # the worker has ended the slot, or is gone: others own its tasks now
        finally:
            self._reader.send({"do": "end", "task": -1})
            self._reader.close()

    def _cut_all(self) -> None:
        with self._lock:
            tasks = list(self._tasks.values())
            self._tasks.clear()
            self._cut += tasks
        for task in tasks:
            task.stop(0)
            task.cut()

    def _obey(self, order: Order) -> None:
        match order:
            case Open(id, plan):
                self._open(id, lambda: _task_of(self, id, plan))
            case OpenPart(id, plan, part):
                self._open(id, lambda: PartTask(self, id, plan, part))
            case Begin(id):
                task = self._tasks.get(id)
                if isinstance(task, SourceTask):
                    task.begin(order)
            case Stop(id, grace_s):
                hosted = self._tasks.get(id)
                if hosted is None:
                    self.send([Stopped(id, in_time=True)])  # it has just failed
                else:
                    hosted.stop(grace_s)
            case OffsetsStored(id) | PartsRead(id):
                task = self._tasks.get(id)
                if isinstance(task, SourceTask):
                    task.answer(order)
            case AskPositions(ticket):
                sinks = [t for t in list(self._tasks.values()) if isinstance(t, SinkTask)]
                self.send([Positions(ticket, {task.id: task.positions for task in sinks})])
            case WatchRecords(id, ticket, records, seconds, hidden):
                task = self._tasks.get(id)
                if isinstance(task, SinkTask | SourceTask):
                    show = partial(self._show, ticket)
                    task.watch(Tap(records, seconds, hidden, show))
            case End():
                self._worker.close()
            case _:
                assert_never(order)

    def _show(self, ticket: int, records: Sequence[Mapping[str, Any]]) -> None:
        self.send([WatchedRecords(ticket, records)])

    def _open(self, id: int, make: Callable[[], Hosted]) -> None:
        try:
            task = make()
        except BaseException as error:
            self.send([Failed(id, trace_of(error))])
            return
        with self._lock:
            self._tasks[id] = task
        task.start()

    def _watch(self) -> None:
        looks = 0
        last: Mapping[int, float] = {}
        while not self._over.wait(_WATCH_S):
            looks += 1
            now = time.monotonic()
            tasks = list(self._tasks.values())
            for task in tasks:
                if task.is_late(now):
                    with self._lock:
                        self._tasks.pop(task.id, None)
                        self._cut.append(task)
                    task.cut()
            news = [message for task in tasks for message in task.news()]
            if looks % _STORE_EVERY == 0:
                for task in tasks:
                    if isinstance(task, SourceTask):
                        news += task.due()
            if looks % _LOAD_EVERY == 0:
                news += [message for task in tasks for message in task.intercepted()]
                load = {task.id: task.load(now) for task in tasks}
                busy = {id: round(task_load.busy_s, 1) for id, task_load in load.items()}
                if busy != last:
                    last = busy
                    news.append(Load(_rss(), load))
            if news:
                self.send(news)

    def _leave_nobody(self) -> None:
        """Tasks stop before their slot ends. If a thread still runs, ends the process: the thread
        would keep running in the next slot that Spark puts on this process."""
        self._cut_all()
        deadline = time.monotonic() + 1
        for task in self._cut:
            task.join(max(0.0, deadline - time.monotonic()))
        if any(task.alive for task in self._cut):
            os._exit(_STUCK)


def _task_of(host: Host, id: int, plan: FlowPlan) -> Hosted:
    match plan:
        case SinkPlan():
            return SinkTask(host, id, plan)
        case SourcePlan():
            return SourceTask(host, id, plan)


class _ReaderLink:
    """The connection to the JVM's consumers; earlier commands wait until it is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards all of it, and keeps commands in one piece."""
        self._socket: socket.socket | None = None
        self._waiting: list[bytes] = []
        self._closed = False

    def connect(self, host: str, port: int, token: str) -> None:
        connection = socket.create_connection((host, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            if self._closed:
                connection.close()
                return
            connection.sendall(b"".join([token.encode() + b"\n", *self._waiting]))
            self._waiting.clear()
            self._socket = connection

    def send(self, command: Mapping[str, Any]) -> None:
        line = orjson.dumps(command) + b"\n"
        with self._lock:
            if self._socket is None:
                self._waiting.append(line)
            else:
                with contextlib.suppress(OSError):  # the JVM's task has ended, and so does this one
                    self._socket.sendall(line)

    def close(self) -> None:
        """Closes it; the JVM then ends the slot's frames."""
        with self._lock:
            self._closed = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._socket.close()


def _rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE


def _rest_the_collector() -> None:
    """Makes garbage collection rare. A batch is thousands of short-lived containers without cycles;
    searching them for cycles cost up to two fifths of the time (docs/performance.md)."""
    if gc.get_threshold()[0] < _COLLECT_AFTER:
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER, 10, 10)
