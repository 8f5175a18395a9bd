"""A slot: a Spark job that does not end, with one task and one Python worker.

    SlotReading (JVM) ── frames ──> mapPartitions(SlotStage) (Python)

Its stage connects to the worker when Spark has started it; orders sent earlier wait. A slot ends
when its job ends or its connection is lost, whichever comes first.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Final

from penstock.flow.control import Channel, ControlAddress, Listening
from penstock.flow.messages import End, Hello, News, Order
from penstock.flow.spark import job, scratch
from penstock.flow.spark.session import Session
from penstock.flow.stage.host import SlotStage
from penstock.flow.traces import Trace, trace_of

log = logging.getLogger(__name__)

_GROUP: Final = "penstock-slot-"
_EXITED: Final = Trace(
    "Python worker exited unexpectedly: the connection to the slot is lost.", retriable=True
)


class Slot:
    """One slot, from `start` on. `shared`: whether it hosts several tasks."""

    def __init__(
        self,
        number: int,
        shared: bool,
        session: Session,
        address: ControlAddress,
        over: Callable[[Slot, Trace | None], None],
    ) -> None:
        self.number = number
        self.shared = shared
        self.retired = False
        """Whether it accepts no more tasks."""
        self.memory_bytes = 0
        self.ready = threading.Event()
        self.pid: int | None = None
        self._session = session
        self._address = address
        self._on_over = over
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._waiting: list[Order] = []
        self._over = False
        self._ending = False
        self._job_done = threading.Event()

    def start(self) -> None:
        """Starts its Spark job."""
        threading.Thread(target=self._run, name=f"slot-{self.number}", daemon=True).start()

    def connected(self, channel: Channel, pid: int) -> bool:
        """Accepts the connection of its stage; False if the slot no longer needs it."""
        with self._lock:
            if self._over or self._channel is not None:
                return False
            self._channel = channel
            self.pid = pid
            waiting, self._waiting = self._waiting, []
            if waiting:
                self._send(waiting)
        self.ready.set()
        return True

    def send(self, *orders: Order) -> None:
        """Sends orders to the stage, now or once it has connected; ignored after the slot's end."""
        with self._lock:
            if self._over:
                return
            if self._channel is None:
                self._waiting += orders
            else:
                self._send(orders)

    def _send(self, orders: Sequence[Order]) -> None:
        assert self._channel is not None
        with contextlib.suppress(OSError):  # its reader notices, too
            self._channel.send(orders)

    def end(self) -> None:
        """Ends it; its tasks have been stopped."""
        self._ending = True
        self.retired = True
        self.send(End())

    def kill(self) -> None:
        """Ends it although its stage does not answer: Spark kills the Python process."""
        self.retired = True
        with contextlib.suppress(Exception):  # the JVM may be gone
            self._session.get(0).cancelJobGroup(f"{_GROUP}{self.number}")

    def await_end(self, timeout_s: float) -> bool:
        return self._job_done.wait(timeout_s)

    def lost(self, trace: Trace | None = None) -> None:
        """Its connection or its job has ended."""
        with self._lock:
            if self._over:
                return
            self._over = True
            channel = self._channel
        self.retired = True
        self.ready.set()
        if channel is not None:
            with contextlib.suppress(OSError):
                channel.close()
        self._on_over(self, None if self._ending else trace)

    def _run(self) -> None:
        trace: Trace | None = None
        try:
            context = self._session.get()
            context.setJobGroup(f"{_GROUP}{self.number}", f"slot {self.number}", True)
            job.run(context, SlotStage(self.number, self._address))
        except BaseException as error:
            trace = trace_of(error)
        finally:
            self._job_done.set()
            self.lost(trace or Trace("The slot's Spark job ended.", retriable=True))


class Switchboard:
    """Accepts the connections of all slots' stages, and receives their messages."""

    def __init__(
        self,
        find: Callable[[int], Slot | None],
        news: Callable[[Slot, Sequence[News]], None],
        host: str | None = None,
        bind: str | None = None,
    ) -> None:
        self._find = find
        self._news = news
        self._listening = Listening(scratch.claim(), host, bind)
        threading.Thread(target=self._accept, name="slots", daemon=True).start()

    @property
    def address(self) -> ControlAddress:
        return self._listening.address

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listening.accept()
            except OSError:
                if self._listening.closed:
                    return
                continue  # the other end gave up
            threading.Thread(
                target=self._receive, args=(connection,), name="slot-news", daemon=True
            ).start()

    def _receive(self, connection: Connection) -> None:
        slot: Slot | None = None
        try:
            channel = self._listening.proved(connection)
        except Exception as error:
            log.warning("rejected a connection to the slots' port: %s", error)
            connection.close()
            return
        try:
            for message in channel.receive():
                if isinstance(message, Hello):
                    slot = self._find(message.slot)
                    if slot is None or not slot.connected(channel, message.pid):
                        slot = None
                        return
            while slot is not None:
                self._news(slot, channel.receive())
        except (EOFError, OSError):
            pass
        finally:
            channel.close()
            if slot is not None:
                slot.lost(_EXITED)
