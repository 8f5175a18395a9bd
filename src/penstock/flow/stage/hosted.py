"""A connector task on a slot: one thread, which runs the connector's code and may block.

All visible effects of a task go through `Hosted`: once it is cancelled, because it did not stop in
time, nothing of it reaches Kafka or the worker any more, even if its thread still runs.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from penstock.api import Figure
from penstock.flow.counts import Counts
from penstock.flow.messages import Failed, Intercepted, News, Progress, Stopped, TaskLoad
from penstock.flow.stage.intercepting import Interceptors
from penstock.flow.traces import Trace, trace_of
from penstock.host.logs import about
from penstock.ids import TaskId

log = logging.getLogger(__name__)


class HostPort(Protocol):
    """The part of a slot's host that a task uses."""

    def send(self, news: Sequence[News]) -> None:
        """Sends to the worker; ignored when it is gone."""

    def send_to_reader(self, command: Mapping[str, Any]) -> None:
        """Sends a command for the task's consumer to the slot's JVM."""

    def gone(self, task: Hosted) -> None:
        """The task has stopped or failed."""


class Interrupted(BaseException):
    """The task is stopping while it waits for a retry: it abandons the operation."""


class Hosted(ABC):
    """From `start` until `Stopped` or `Failed` is sent, exactly one of them."""

    def __init__(self, host: HostPort, id: int, task: TaskId) -> None:
        self.id = id
        self.task = task
        self.turn = threading.Condition()
        """Guards what other threads pass to the task; notified of anything new."""
        self.stopping = False
        self.cut_off = False
        self._host = host
        self._deadline = 0.0
        self._counts = Counts()
        self.interceptors = Interceptors((), self)
        self._reported_figures: Sequence[Figure] = ()
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
        """Cuts the task off: to all others it has stopped, even if its thread still runs."""
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
        """Releases what others wait for."""

    def news(self) -> list[News]:
        """The progress since the last call."""
        with self.turn:
            counts = self._counts
            if not counts:
                return []
            self._counts = Counts()
        return [Progress(self.id, counts)]

    def intercepted(self) -> list[News]:
        """The current figures of its interceptors, if it has any and they have changed."""
        figures = self.interceptors.figures()
        if not figures or figures == self._reported_figures:
            return []
        self._reported_figures = figures
        return [Intercepted(self.id, figures)]

    def load(self, now: float) -> TaskLoad:
        since = self._busy_since
        busy_s = self._busy_s + (0.0 if since is None else now - since)
        return TaskLoad(busy_s, since is not None or self._in_call)

    @abstractmethod
    def work(self) -> None:
        """Runs the task until it is stopping; raises if it cannot continue."""

    @abstractmethod
    def finish(self, *, failed: bool) -> None:
        """Finishes and closes what `work` has left open. Only a task's first error counts."""

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Counts the time in the block as the task's own work."""
        if self._busy_since is not None:
            yield  # nested
            return
        self._busy_since = began = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None
            self._busy_s += time.monotonic() - began

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Connector code runs in the block, but may only wait: counts just its CPU time."""
        began = time.thread_time()
        self._in_call = True
        try:
            yield
        finally:
            self._in_call = False
            self._busy_s += time.thread_time() - began

    def count(self, counts: Counts) -> None:
        """Adds to what the next `news` reports."""
        with self.turn:
            self._counts += counts

    def wait(self, seconds: float) -> bool:
        """Waits; True, early, when the task must stop."""
        with self.turn:
            return self.turn.wait_for(lambda: self.stopping, seconds)

    def wait_to_try_again(self, seconds: float) -> None:
        """Waits; raises Interrupted when the task must stop."""
        if self.wait(seconds):
            raise Interrupted

    def say(self, news: News) -> None:
        """Sends to the worker, unless the task is cancelled."""
        if not self.cut_off:
            self._host.send([news])

    def time_left(self) -> float:
        """Seconds until a stopping task is cancelled."""
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
            return  # it was cancelled, and that was reported
        if trace is not None and self.stopping:
            log.warning("failed to stop the task cleanly: %s", trace.text)
        last: News = Stopped(self.id, in_time=True)
        if trace is not None and not self.stopping:
            last = Failed(self.id, trace)
        self._host.gone(self)
        self._host.send([*self.news(), *last_figures, last])


_AT_LEISURE_S: Final = 30.0
