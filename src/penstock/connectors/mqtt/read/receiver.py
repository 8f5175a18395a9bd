"""Receives messages in a separate thread, and acknowledges messages that are in Kafka.

The thread keeps the connection alive, however long Kafka takes. It stops reading while too many
bytes wait for Kafka, so memory is bounded: then the broker keeps the messages or, at QoS 0, drops
them.

Only `_acknowledge` acknowledges messages of QoS 1 and 2. If the connection breaks first, the
broker of a persistent session sends them again with their message ids; messages that are still held
are not delivered twice. At QoS 2 the acknowledgement is PUBREC: after it a broker forgets the
message.
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
"""The limit of bytes waiting for Kafka or its offsets, above which the socket is not read."""

_RETRY_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_LOOK_S: Final = 1.0
_SUSPICIOUS: Final = 4  # connections in a row
_SETTLE_S: Final = 1.0
_STEADY_S: Final = 5.0
_LEAVE_S: Final = 5.0
_OVERHEAD: Final = 200  # bytes of a message in memory, without its payload


class Receiver:
    """One task's connection. The task's thread calls the public methods."""

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
        self._incoming: deque[p.Message] = deque()
        self._finished_messages: deque[Sequence[p.Message]] = deque()
        # Bytes received, in Kafka, and taken at QoS 0.
        self._received = self._finished = self._taken = 0
        self._held: dict[int, p.Message] = {}
        self._settled: dict[int, p.Message] = {}  # in Kafka, but not acknowledged yet
        self._recorded: set[int] = set()  # PUBREC was sent, PUBREL has not arrived
        self._error: PenstockError | None = None
        self._down_since: float | None = None
        self._last_problem = ""
        self._stopping = False
        self._wake_in, self._wake_out = os.pipe()
        self._handles: tuple[int, ...] = (self._wake_in, self._wake_out)
        os.set_blocking(self._wake_out, False)
        os.set_blocking(self._wake_in, False)
        self._thread = threading.Thread(target=self._run, name=f"mqtt-{client_id}", daemon=True)

    def start(self) -> None:
        """Connects in the background."""
        self._down_since = time.monotonic()
        self._thread.start()

    def take(self, max_bytes: int) -> list[p.Message]:
        """Removes and returns the next messages, about `max_bytes`."""
        incoming, messages, size = self._incoming, [], 0
        while incoming and size < max_bytes:
            message = incoming.popleft()
            length = len(message.payload) + len(message.topic)
            size += length
            if not message.mid:
                self._taken += length + _OVERHEAD
            messages.append(message)
        return messages

    def check(self) -> None:
        """Raises the error that ended the thread; Unreachable if the connection is down for longer
        than the connect timeout."""
        if self._error is not None:
            raise self._error
        down_since = self._down_since
        if down_since is not None and time.monotonic() - down_since > self._options.connect_s:
            raise Unreachable(
                f"Not connected to the broker. {self._last_problem} ({self._options.names.servers})"
            )

    def finish(self, messages: Sequence[p.Message]) -> None:
        """Acknowledges messages that are in Kafka, with their offsets, in the order of `take`."""
        self._finished_messages.append(messages)
        self._wake_thread()

    def close(self) -> None:
        """Acknowledges finished messages and disconnects."""
        if self._stopping and not self._thread.is_alive():
            self._release()
            return
        self._stopping = True
        self._wake_thread()
        if self._thread.ident is None:
            self._release()
        else:
            self._thread.join(_LEAVE_S)  # a connecting thread ends on its own
            if not self._thread.is_alive():
                self._release()

    def _release(self) -> None:
        handles, self._handles = self._handles, ()
        for handle in handles:
            os.close(handle)

    def _wake_thread(self) -> None:
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
                self._last_problem = str(error)
                was_connected = self._down_since is None
                if was_connected and tries == _SUSPICIOUS:
                    log.warning(
                        "Connections to the broker keep breaking. Another client may have the "
                        "client id of this task (%s), or the broker closes them: see its log",
                        self._options.names.client_id,
                    )
                self._down_since = self._down_since or time.monotonic()
                pause_s = _RETRY_S[min(tries, len(_RETRY_S) - 1)]
                log.log(
                    logging.WARNING if tries else logging.INFO,
                    "%s The source reconnects in %s s",
                    error,
                    pause_s,
                )
                tries += 1
                self._pause(pause_s)
            except PenstockError as error:
                self._fail(error)
            except Exception as error:
                log.exception("The MQTT client failed")
                self._fail(PenstockError(f"The MQTT client failed: {error}"))
        self._acknowledge()
        self._settle()

    def _settle(self) -> None:
        """Waits briefly until the broker has read the acknowledgements and answered those of QoS 2:
        closing a socket can lose data in flight."""
        connection = self._connection
        deadline = time.monotonic() + _SETTLE_S
        pongs, has_pinged = connection.pongs, False
        while connection.is_open and time.monotonic() < deadline:
            if not self._recorded and not has_pinged:
                has_pinged = True
                connection.ping()
            if has_pinged and connection.pongs > pongs:
                return
            connection.pump(0.1)
            self._receive()

    def _fail(self, error: PenstockError) -> None:
        self._error = error
        self._stopping = True
        self._connection.abort()
        self._wake()

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._stopping and (remaining_s := deadline - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._wake_in, select.POLLIN)
            poll.poll(remaining_s * 1000)
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
        """Unsubscribes from filters that were removed from the configuration."""
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
        """Queues received messages for `take`."""
        connection = self._connection
        for answer in connection.take_answers():
            if answer.kind == p.PUBREL:
                self._recorded.discard(answer.mid)
                connection.send(p.acknowledgements(p.PUBCOMP, (answer.mid,)))
        messages = connection.take()
        if not messages:
            return
        incoming = self._incoming
        size = 0
        held = self._held
        for message in messages:
            mid = message.mid
            if mid and self._is_redelivery(message):
                continue
            size += len(message.payload) + len(message.topic) + _OVERHEAD
            if mid:
                held[mid] = message
            incoming.append(message)
        self._received += size
        if incoming:
            self._wake()

    def _is_redelivery(self, message: p.Message) -> bool:
        """Whether a message is a redelivery of one that is held or already in Kafka."""
        mid = message.mid
        is_duplicate = message.flags & p.DUP
        if mid in self._recorded:
            if is_duplicate:
                self._connection.send(p.acknowledgements(p.PUBREC, (mid,)))
                return True
            self._recorded.discard(mid)
        settled = self._settled.pop(mid, None)
        if not is_duplicate:
            return False
        if settled is not None and _same(settled, message):
            self._answer([settled])
            return True
        held = self._held.get(mid)
        return held is not None and _same(held, message)

    def _acknowledge(self) -> None:
        while self._finished_messages:
            messages = self._finished_messages.popleft()
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
                self._settled.update((message.mid, message) for message in ready)

    def _answer(self, messages: Sequence[p.Message]) -> None:
        at_least_once = [message.mid for message in messages if message.qos == 1]
        exactly_once = [message.mid for message in messages if message.qos == 2]
        if at_least_once:
            self._connection.send(p.acknowledgements(p.PUBACK, at_least_once))
        if exactly_once:
            self._recorded.update(exactly_once)
            self._connection.send(p.acknowledgements(p.PUBREC, exactly_once))


def _same(first: p.Message, second: p.Message) -> bool:
    return first.topic == second.topic and first.payload == second.payload
