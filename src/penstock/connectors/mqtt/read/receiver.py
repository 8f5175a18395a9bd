"""Receives messages in a thread of its own, and acknowledges those that Kafka has.

The thread keeps the connection alive however long Kafka takes. It reads nothing while too many
bytes wait for Kafka, so memory is bounded: then the broker keeps the messages, or, at QoS 0, drops
them.

A message of QoS 1 or 2 is acknowledged by `acknowledge` alone. If the connection breaks before, the
broker of a persistent session sends it again, with its message id: one that is still held is not
delivered twice. At QoS 2 PUBREC is what acknowledges: after it a broker forgets the message.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from penstock.api import PenstockError
from penstock.connectors.mqtt.client import packets as p
from penstock.connectors.mqtt.client.connection import Connection
from penstock.connectors.mqtt.client.errors import Unreachable
from penstock.connectors.mqtt.client.options import Options

log = logging.getLogger(__name__)

HELD_BYTES: Final = 16 << 20
"""The payloads that wait for Kafka, or for its offsets, before the socket is read no more."""

_RETRY_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_LOOK_S: Final = 1.0
_SUSPICIOUS: Final = 4  # connections in a row
_SETTLE_S: Final = 1.0
_STEADY_S: Final = 5.0
_LEAVE_S: Final = 5.0
_OVERHEAD: Final = 200  # bytes of a message in memory, beside its payload


class Receiver:
    """One task's connection. All methods but `_run` are called by the task's thread."""

    def __init__(
        self,
        options: Options,
        client_id: str,
        filters: Sequence[str],
        qos: int,
        wake: Callable[[], None],
        *,
        outdated: Sequence[str] = (),
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self._options = options
        self._connection = Connection(options, client_id)
        self._filters, self._outdated = list(filters), list(outdated)
        self._qos = qos
        self._wake = wake
        self._held_bytes = held_bytes
        self._came: deque[p.Message] = deque()
        self._done: deque[Sequence[p.Message]] = deque()
        # Bytes: that have come, that Kafka has, and of QoS 0 those that were taken.
        self._received = self._finished = self._taken = 0
        self._held: dict[int, p.Message] = {}
        self._settled: dict[int, p.Message] = {}  # Kafka has them, the broker does not know yet
        self._recorded: set[int] = set()  # PUBREC was sent, and PUBREL has not come
        self._error: PenstockError | None = None
        self._down_since: float | None = None
        self._trouble = ""
        self._stopping = False
        self._wake_in, self._wake_out = os.pipe()
        self._handles: tuple[int, ...] = (self._wake_in, self._wake_out)
        os.set_blocking(self._wake_out, False)
        os.set_blocking(self._wake_in, False)
        self._thread = threading.Thread(target=self._run, name=f"mqtt-{client_id}", daemon=True)

    def start(self) -> None:
        """Connects, in the background."""
        self._down_since = time.monotonic()
        self._thread.start()

    @property
    def unacknowledged(self) -> int:
        """How many messages the broker waits for an acknowledgement of."""
        return len(self._held)

    @property
    def is_waiting(self) -> bool:
        """Whether messages have been received that were not taken."""
        return bool(self._came)

    def take(self, max_bytes: int) -> list[p.Message]:
        """The next messages, about `max_bytes` of them."""
        came, taken, size = self._came, [], 0
        while came and size < max_bytes:
            message = came.popleft()
            length = len(message.payload) + len(message.topic)
            size += length
            if not message.mid:
                self._taken += length + _OVERHEAD
            taken.append(message)
        return taken

    def check(self) -> None:
        """Raises what has ended the thread; Unreachable while there is no broker for longer than a
        connection may take."""
        if self._error is not None:
            raise self._error
        down = self._down_since
        if down is not None and time.monotonic() - down > self._options.connect_s:
            raise Unreachable(
                f"There is no connection to the broker. {self._trouble} "
                f"({self._options.names.servers})"
            )

    def finish(self, messages: Sequence[p.Message]) -> None:
        """Kafka and the stored offsets have these messages, which were taken first: acknowledges
        them."""
        self._done.append(messages)
        self._rouse()

    def close(self) -> None:
        """Leaves the broker. Messages that were finished before are acknowledged."""
        if self._stopping and not self._thread.is_alive():
            self._release()
            return
        self._stopping = True
        self._rouse()
        if self._thread.ident is None:
            self._release()
        else:
            self._thread.join(_LEAVE_S)  # one that is connecting ends by itself
            if not self._thread.is_alive():
                self._release()

    def _release(self) -> None:
        handles, self._handles = self._handles, ()
        for handle in handles:
            os.close(handle)

    def _rouse(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_out, b"\0")

    def _run(self) -> None:
        try:
            self._receive_all()
        finally:
            self._connection.close()

    def _receive_all(self) -> None:
        tries = 0
        while not self._stopping:
            try:
                self._connect()
                since = time.monotonic()
                self._serve()
                if time.monotonic() - since > _STEADY_S:
                    tries = 0
                if not self._stopping:
                    raise self._connection.loss()
            except Unreachable as error:
                self._trouble = str(error)
                was_connected = self._down_since is None
                if was_connected and tries == _SUSPICIOUS:
                    log.warning(
                        "Connections to the broker do not last. Perhaps another client has the "
                        "client id of this task (%s), or the broker closes them for a reason that "
                        "its log has",
                        self._options.names.client_id,
                    )
                self._down_since = self._down_since or time.monotonic()
                pause_s = _RETRY_S[min(tries, len(_RETRY_S) - 1)]
                log.log(
                    logging.WARNING if tries else logging.INFO,
                    "%s The source connects again in %s s",
                    error,
                    pause_s,
                )
                tries += 1
                self._pause(pause_s)
            except PenstockError as error:
                self._end(error)
            except Exception as error:
                log.exception("The MQTT client failed")
                self._end(PenstockError(f"The MQTT client failed: {error}"))
        self._acknowledge()
        self._leave()

    def _leave(self) -> None:
        """Waits, not long, until the broker has read the acknowledgements, and has answered those
        of QoS 2: what is on its way when a socket is closed can be lost."""
        connection = self._connection
        deadline = time.monotonic() + _SETTLE_S
        pongs, asked = connection.pongs, False
        while connection.is_open and time.monotonic() < deadline:
            if not self._recorded and not asked:
                asked = True
                connection.ping()
            if asked and connection.pongs > pongs:
                return
            connection.pump(0.1)
            self._receive()

    def _end(self, error: PenstockError) -> None:
        self._error = error
        self._stopping = True
        self._connection.abort()
        self._wake()

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._stopping and (left := deadline - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._wake_in, select.POLLIN)
            poll.poll(left * 1000)
            self._drain()
            self._acknowledge()

    def _connect(self) -> None:
        connection = self._connection
        connection.open()
        if not connection.session_present:
            self._held.clear()
            self._settled.clear()
            self._recorded.clear()
        else:
            self._unsubscribe()
        connection.subscribe(self._filters, self._qos)
        self._down_since = None
        log.info(
            "Connected to %s (session %s), subscribed to %s",
            connection.server,
            "resumed" if connection.session_present else "new",
            ", ".join(self._filters[:10]),
        )
        self._receive()

    def _unsubscribe(self) -> None:
        """Subscriptions of the session that the configuration no longer has."""
        if self._outdated:
            self._connection.unsubscribe(self._outdated)
            self._outdated = []

    def _serve(self) -> None:
        connection = self._connection
        while connection.is_open and not self._stopping:
            waiting = self._received - self._finished - self._taken
            reads = waiting < self._held_bytes
            connection.pump(_LOOK_S, reads=reads, wakes=self._wake_in)
            self._drain()
            self._receive()
            self._acknowledge()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._wake_in, 4096)) == 4096:
                pass

    def _receive(self) -> None:
        """Hands over what has come."""
        connection = self._connection
        for answer in connection.take_answers():
            if answer.kind == p.PUBREL:
                self._recorded.discard(answer.mid)
                connection.send(p.acknowledgements(p.PUBCOMP, (answer.mid,)))
        messages = connection.take()
        if not messages:
            return
        came = self._came
        size = 0
        held = self._held
        for message in messages:
            mid = message.mid
            if mid and self._knows(message):
                continue
            size += len(message.payload) + len(message.topic) + _OVERHEAD
            if mid:
                held[mid] = message
            came.append(message)
        self._received += size
        if came:
            self._wake()

    def _knows(self, message: p.Message) -> bool:
        """Whether a message has been sent again that is held, or that Kafka has already."""
        mid = message.mid
        again = message.flags & p.DUP
        if mid in self._recorded:
            if again:
                self._connection.send(p.acknowledgements(p.PUBREC, (mid,)))
                return True
            self._recorded.discard(mid)
        settled = self._settled.pop(mid, None)
        if not again:
            return False
        if settled is not None and _same(settled, message):
            self._answer([settled])
            return True
        before = self._held.get(mid)
        return before is not None and _same(before, message)

    def _acknowledge(self) -> None:
        while self._done:
            messages = self._done.popleft()
            held = self._held
            ready: list[p.Message] = []
            size = 0
            for message in messages:
                mid = message.mid
                if not mid:
                    continue
                size += len(message.payload) + len(message.topic) + _OVERHEAD
                if held.get(mid) is message:
                    del held[mid]
                    ready.append(message)
            self._finished += size
            if self._connection.is_open:
                self._answer(ready)
            else:
                self._settled.update((each.mid, each) for each in ready)

    def _answer(self, messages: Sequence[p.Message]) -> None:
        once = [each.mid for each in messages if each.qos == 1]
        exactly = [each.mid for each in messages if each.qos == 2]
        if once:
            self._connection.send(p.acknowledgements(p.PUBACK, once))
        if exactly:
            self._recorded.update(exactly)
            self._connection.send(p.acknowledgements(p.PUBREC, exactly))


def _same(one: p.Message, other: p.Message) -> bool:
    return one.topic == other.topic and one.payload == other.payload
