"""A connector task on a slot: one thread, which runs the connector's code and may block.

Whatever a task does that others see, it does through `Hosted`: once it is cancelled, because it did
not stop in time, nothing of it reaches Kafka or the worker any more, whenever its thread returns.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from penstock.api import Figure
from penstock.flow.messages import Failed, Intercepted, News, Progress, Stopped, TaskLoad
from penstock.flow.stage.intercepting import Interceptors
from penstock.flow.traces import Trace, trace_of
from penstock.host.logs import about
from penstock.ids import TaskId

log = logging.getLogger(__name__)


class HostPort(Protocol):
    """What a task needs of its slot's host."""

    def send(self, news: Sequence[News]) -> None:
        """Tells the worker; nothing happens when it is gone."""

    def tell_reader(self, command: Mapping[str, Any]) -> None:
        """Tells the JVM beside what the task's consumer is to do."""

    def gone(self, task: Hosted) -> None:
        """The task has stopped or failed."""


class Interrupted(BaseException):
    """The task is to stop while it waits to try something again: what it does is left undone."""


@dataclass(slots=True)
class Counts:
    """What became of records since this was last taken."""

    records: int = 0
    failed: int = 0
    done: int = 0
    retries: int = 0
    lost: int = 0
    ms: float = 0.0
    topics: set[str] = field(default_factory=set)


class Hosted(ABC):
    """From `start` until `Stopped` or `Failed` is sent, exactly one of them."""

    def __init__(self, host: HostPort, id: int, task: TaskId) -> None:
        self.id = id
        self.task = task
        self.turn = threading.Condition()
        """Guards what other threads tell the task; notified when there is something."""
        self.stopping = False
        self.cut_off = False
        self._host = host
        self._deadline = 0.0
        self._counts = Counts()
        self.interceptors = Interceptors((), self)
        self._told: Sequence[Figure] = ()
        self._busy_s = 0.0
        self._busy_since: float | None = None
        self._in_call = False
        self._over = False
        run = about(task)(self._run)
        self._thread = threading.Thread(target=run, name=f"task-{task}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace_s: float) -> None:
        """Asks the task to stop at the next record boundary, and cuts it off after `grace_s`."""
        with self.turn:
            earlier = self._deadline if self.stopping else float("inf")
            self._deadline = min(earlier, time.monotonic() + grace_s)
            self.stopping = True
            self.turn.notify_all()

    def is_late(self, now: float) -> bool:
        """Whether the task should have stopped by now, and has not."""
        return self.stopping and not self._over and now >= self._deadline

    def cut(self) -> None:
        """Cuts the task off: it has stopped for everybody else, whatever its thread does."""
        with self.turn:
            if self._over:
                return
            self.cut_off = True
            self._over = True
        self.on_cut()
        self._host.send([Stopped(self.id, in_time=False, stuck=True)])

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def alive(self) -> bool:
        """Whether its thread still runs."""
        return self._thread.is_alive()

    @abstractmethod
    def on_cut(self) -> None:
        """Lets go of what others wait for."""

    def news(self) -> list[News]:
        """What became of records since this was asked last."""
        with self.turn:
            counts = self._counts
            if not any((counts.records, counts.done, counts.failed, counts.retries, counts.lost)):
                return []
            self._counts = Counts()
        return [
            Progress(
                self.id,
                records=counts.records,
                done=counts.done,
                failed=counts.failed,
                topics=frozenset(counts.topics),
                ms=counts.ms,
                retries=counts.retries,
                lost=counts.lost,
            )
        ]

    def intercepted(self) -> list[News]:
        """The present figures of its interceptors, if it has any and they have changed."""
        figures = self.interceptors.figures()
        if not figures or figures == self._told:
            return []
        self._told = figures
        return [Intercepted(self.id, figures)]

    def load(self, now: float) -> TaskLoad:
        since = self._busy_since
        busy_s = self._busy_s + (0.0 if since is None else now - since)
        return TaskLoad(busy_s, since is not None or self._in_call)

    @abstractmethod
    def work(self) -> None:
        """Runs the task until it is stopping; raises what it cannot go on with."""

    @abstractmethod
    def finish(self, *, failed: bool) -> None:
        """Puts in order what `work` has left. Only the first error of a task counts."""

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Whatever takes time meanwhile is the task's own work."""
        if self._busy_since is not None:
            yield  # within another
            return
        self._busy_since = began = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None
            self._busy_s += time.monotonic() - began

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """The connector's own code runs meanwhile, but may only wait: just the processor counts."""
        began = time.thread_time()
        self._in_call = True
        try:
            yield
        finally:
            self._in_call = False
            self._busy_s += time.thread_time() - began

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        """The counts, to be added to."""
        with self.turn:
            yield self._counts

    def wait(self, seconds: float) -> bool:
        """Waits; True early when the task is to stop."""
        with self.turn:
            return self.turn.wait_for(lambda: self.stopping, seconds)

    def wait_to_try_again(self, seconds: float) -> None:
        """Waits; raises Interrupted when the task is to stop."""
        if self.wait(seconds):
            raise Interrupted

    def say(self, news: News) -> None:
        """Tells the worker, unless the task is cancelled."""
        if not self.cut_off:
            self._host.send([news])

    def time_left(self) -> float:
        """Until a task that is stopping is cancelled, in seconds."""
        return max(0.0, self._deadline - time.monotonic()) if self.stopping else _AT_LEISURE_S

    def _run(self) -> None:
        trace: Trace | None = None
        try:
            self.work()
        except Interrupted:
            pass
        except BaseException as error:
            trace = trace_of(error)
        try:
            self.finish(failed=trace is not None)
        except Interrupted:
            pass
        except BaseException as error:
            trace = trace or trace_of(error)
        last_figures = self.intercepted()
        self.interceptors.close()
        with self.turn:
            over, self._over = self._over, True
        if over:
            return  # it was cancelled, and that was said
        if trace is not None and self.stopping:
            log.warning("failed to stop the task cleanly: %s", trace.text)
        last: News = Stopped(self.id, in_time=True)
        if trace is not None and not self.stopping:
            last = Failed(self.id, trace)
        self._host.gone(self)
        self._host.send([*self.news(), *last_figures, last])


_AT_LEISURE_S: Final = 30.0
