"""A connector task on a slot: one thread, which runs the connector's code and may block.

All visible effects of a task go through `Hosted`: once it is cut off, because it did not stop in
time, nothing of it reaches Kafka or the worker any more, even if its thread still runs.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from penstock.api import Figure
from penstock.flow.counts import Counts
from penstock.flow.messages import Failed, Intercepted, News, ProgressMade, Stopped, TaskLoad
from penstock.flow.stage.intercepting import Interceptors
from penstock.flow.stage.working_time import WorkingTime
from penstock.flow.traces import Trace, trace_of
from penstock.host.logs import about
from penstock.ids import TaskId

log = logging.getLogger(__name__)


class HostedPhase(Enum):
    """The phase of a task on a slot."""

    WORKING = "working"
    STOPPING = "stopping"  # asked to stop at the next record boundary
    CUT_OFF = "cut off"  # to all others it has stopped, but its thread may still run
    ENDED = "ended"


P: TypeAlias = HostedPhase
HOSTED_MOVES: Final[Mapping[HostedPhase, frozenset[HostedPhase]]] = {
    P.WORKING: frozenset({P.STOPPING, P.ENDED}),
    P.STOPPING: frozenset({P.CUT_OFF, P.ENDED}),
    P.CUT_OFF: frozenset(),
    P.ENDED: frozenset(),
}
"""How the phases of a task on a slot follow each other; the first is WORKING."""

OVER: Final = frozenset({P.CUT_OFF, P.ENDED})
"""Phases in which the worker has been told that the task has stopped or failed."""


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
        """Guards the phase, the counts, and what other threads pass to the task; notified of
        anything new."""
        self.phase = HostedPhase.WORKING
        self.time = WorkingTime()
        self.interceptors = Interceptors((), self)
        self.opened = ExitStack()
        """What the task has opened. It is closed at the task's end, the last first."""
        self._host = host
        self._deadline = float("inf")  # of a stop
        self._counts = Counts()
        self._reported_figures: Sequence[Figure] = ()
        run = about(task)(self._run)
        self._thread = threading.Thread(target=run, name=f"task-{task}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def enter(self, phase: HostedPhase) -> None:
        """Moves to a phase; the caller holds `turn`. Raises AssertionError for a move that is not
        in `HOSTED_MOVES`."""
        assert phase in HOSTED_MOVES[self.phase], f"task {self.task}: {self.phase} to {phase}"
        self.phase = phase
        self.turn.notify_all()

    @property
    def stopping(self) -> bool:
        """Whether the task was asked to stop, or has ended."""
        return self.phase is not HostedPhase.WORKING

    @property
    def cut_off(self) -> bool:
        return self.phase is HostedPhase.CUT_OFF

    def stop(self, grace_s: float) -> None:
        """Asks the task to stop at the next record boundary; it is late after `grace_s`. A later
        request may only shorten that."""
        with self.turn:
            if self.phase is HostedPhase.WORKING:
                self.enter(HostedPhase.STOPPING)
            self._deadline = min(self._deadline, time.monotonic() + grace_s)
            self.turn.notify_all()

    def is_late(self, now: float) -> bool:
        """Whether the task should have stopped by now, and has not."""
        return self.phase is HostedPhase.STOPPING and now >= self._deadline

    def cut(self) -> None:
        """Cuts off a stopping task, unless it has ended."""
        with self.turn:
            if self.phase in OVER:
                return
            self.enter(HostedPhase.CUT_OFF)
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
        return [ProgressMade(self.id, counts)]

    def intercepted(self) -> list[News]:
        """The current figures of its interceptors, if it has any and they have changed."""
        figures = self.interceptors.figures()
        if not figures or figures == self._reported_figures:
            return []
        self._reported_figures = figures
        return [Intercepted(self.id, figures)]

    def load(self, now: float) -> TaskLoad:
        return self.time.load(now)

    @abstractmethod
    def work(self) -> None:
        """Runs the task until it is stopping; raises if it cannot continue."""

    @abstractmethod
    def finish(self, *, failed: bool) -> None:
        """Finishes what `work` has left undone. Only a task's first error counts."""

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
        """Sends to the worker, unless the task is cut off."""
        if not self.cut_off:
            self._host.send([news])

    def time_left(self) -> float:
        """Seconds until a stopping task is cut off."""
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
            with self.opened:
                self.finish(failed=trace is not None)
        except Interrupted:
            pass
        except BaseException as error:
            trace = trace or trace_of(error)
        last_figures = self.intercepted()
        self.interceptors.close()
        with self.turn:
            if self.phase in OVER:
                return  # it was cut off, and that was reported
            stopped = self.stopping
            self.enter(HostedPhase.ENDED)
        last: News = Stopped(self.id, in_time=True)
        if trace is not None and stopped:
            log.warning("failed to stop the task cleanly: %s", trace.text)
        elif trace is not None:
            last = Failed(self.id, trace)
        self._host.gone(self)
        self._host.send([*self.news(), *last_figures, last])


_AT_LEISURE_S: Final = 30.0
