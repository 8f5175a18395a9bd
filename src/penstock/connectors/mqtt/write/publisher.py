"""Publishes messages in bulk, and returns those that the broker refuses.

At QoS 1 and 2 a message is delivered when the broker has acknowledged it; at QoS 0 when the broker
answers a ping sent after it. After a broken connection unacknowledged messages are published again.
Sessions are clean: a sink resumes from the records in Kafka.

A broker may close the connection because of a message without naming it. Then messages are
published one by one, and one that breaks the connection twice is refused.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from penstock.api import DataError
from penstock.connectors.mqtt.client import packets as p
from penstock.connectors.mqtt.client.connection import Connection
from penstock.connectors.mqtt.client.errors import Unreachable
from penstock.connectors.mqtt.client.options import Options
from penstock.connectors.mqtt.client.packets import Item

log = logging.getLogger(__name__)

_RETRY_S: Final = (0.0, 0.2, 0.5, 1.0, 2.0)
_BLOCK: Final = 1 << 20  # bytes that are sent at once
_SILENT_S: Final = 60.0
_FAILURE: Final = 0x80
_AGAIN: Final = frozenset({0x91, 0x97})  # packet identifier in use, quota exceeded
_LOSSES: Final = 2
_MIDS: Final = 65_535
_REASONS: Final = {
    0x80: "unspecified error",
    0x83: "implementation specific error",
    0x87: "not authorized",
    0x90: "topic name invalid",
    0x95: "packet too large",
    0x99: "payload format invalid",
    0x9A: "retain not supported",
    0x9B: "QoS not supported",
}


class _Batch:
    """The progress of a call of `publish`. Messages are indexes in `items`."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.waiting = deque(range(len(items)))
        self.pending: dict[int, int] = {}  # indexes by message id
        self.refused: dict[int, DataError] = {}

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + len(self.pending)

    def requeue(self) -> None:
        """Queues unacknowledged messages again, in order."""
        self.waiting.extendleft(sorted(self.pending.values(), reverse=True))
        self.pending.clear()


class Publisher:
    """One task's connection for publishing. `stops`: publish no more messages after a refused one,
    and only wait for those that were sent."""

    def __init__(
        self,
        options: Options,
        client_id: str,
        *,
        qos: int,
        retain: bool,
        window: int,
        retry_s: float,
        wait: Callable[[float], bool],
        stops: bool = False,
    ) -> None:
        self._connection = Connection(replace(options, clean=True), client_id)
        self._qos = qos
        self._first = p.PUBLISH | qos << 1 | retain
        self._window = window
        self._retry_s = retry_s
        self._stops = stops
        self._wait = wait  # returns True when the task is being stopped
        self._mid = 0

    def open(self) -> None:
        """Connects, if there is no connection. Raises Unreachable, Refused."""
        if not self._connection.is_open:
            self._connection.open()

    def idle(self) -> None:
        """Keeps the connection alive."""
        self._connection.pump(0.0)
        self._connection.take()
        self._connection.take_answers()

    def close(self) -> None:
        self._connection.close()

    def publish(self, items: Sequence[Item]) -> dict[int, DataError]:
        """Publishes messages; returns the refused ones by index when all others are delivered, or
        those before the first refused one.
        Raises Unreachable if the connection is not restored in time; some may have been published
        by then."""
        batch = _Batch(items)
        deadline = time.monotonic() + self._retry_s
        losses = tries = 0
        while True:
            unfinished = batch.unfinished
            was_open = False
            try:
                self.open()
                was_open = True
                self._refuse_large(batch)
                alone = losses >= _LOSSES
                if self._qos:
                    self._publish(batch, alone=alone)
                else:
                    self._publish_unacknowledged(batch, alone=alone)
                return batch.refused
            except Unreachable as error:
                batch.requeue()
                if batch.unfinished < unfinished:
                    losses = tries = 0
                    deadline = time.monotonic() + self._retry_s
                elif was_open:
                    losses += 1
                if losses >= 2 * _LOSSES:
                    self._refuse_first(batch)
                    losses = _LOSSES
                    continue
                pause_s = _RETRY_S[min(tries, len(_RETRY_S) - 1)]
                tries += 1
                if time.monotonic() + pause_s > deadline or self._wait(pause_s):
                    raise
                log.warning("%s The sink reconnects.", error)

    def _refuse_large(self, batch: _Batch) -> None:
        """Refuses messages above the broker's maximum packet size."""
        most = self._connection.maximum_packet_bytes
        large = [
            index
            for index in batch.waiting
            if len(batch.items[index].payload) + len(batch.items[index].topic) + 16 > most
            and len(p.publish(self._first, batch.items[index], 1)) > most
        ]
        if large and self._stops:
            del large[1:]
            batch.waiting = deque(index for index in batch.waiting if index <= large[0])
        for index in large:
            size = len(batch.items[index].payload)
            batch.refused[index] = DataError(
                f"The broker {self._connection.server} accepts packets of at most {most} bytes; "
                f"the record's payload has {size}"
            )
        if large:
            batch.waiting = deque(index for index in batch.waiting if index not in batch.refused)

    def _refuse_first(self, batch: _Batch) -> None:
        index = batch.waiting.popleft()
        if self._stops:
            batch.waiting.clear()
        item = batch.items[index]
        batch.refused[index] = DataError(
            f"The broker {self._connection.server} closes the connection whenever it receives this "
            f"record, for '{item.topic.decode()}' with a payload of {len(item.payload)} bytes: the "
            "record may be too large, or the topic forbidden"
        )

    def _publish(self, batch: _Batch, *, alone: bool) -> None:
        """Publishes at QoS 1 and 2."""
        connection = self._connection
        connection.take_answers()
        window = 1 if alone else max(1, min(self._window, connection.receive_maximum, _MIDS))
        heard_at = time.monotonic()
        while batch.waiting or batch.pending:
            free = window - len(batch.pending)
            if batch.waiting and free * 2 >= window:
                self._send(batch, free)
            connection.pump(1.0)
            if answers := connection.take_answers():
                heard_at = time.monotonic()
                self._answered(batch, answers)
            if not connection.is_open:
                raise connection.loss()
            if time.monotonic() - heard_at > _SILENT_S:
                connection.abort()
                raise Unreachable(
                    f"The broker {connection.server} acknowledged nothing for {_SILENT_S:.0f} s."
                )

    def _send(self, batch: _Batch, most: int) -> None:
        out: list[bytes] = []
        size = 0
        waiting, pending, items = batch.waiting, batch.pending, batch.items
        first = self._first
        while waiting and len(out) < most and size < _BLOCK:
            index = waiting.popleft()
            mid = self._mid % _MIDS + 1
            while mid in pending:
                mid = mid % _MIDS + 1
            self._mid = mid
            pending[mid] = index
            packet = p.publish(first, items[index], mid)
            size += len(packet)
            out.append(packet)
        self._connection.send(b"".join(out))

    def _answered(self, batch: _Batch, answers: Sequence[p.Answer]) -> None:
        pending = batch.pending
        release: list[int] = []
        for kind, mid, reason in answers:
            if kind == p.PUBREC and mid in pending and reason < _FAILURE:
                release.append(mid)
                continue
            index = pending.pop(mid, None)
            if index is None or reason < _FAILURE:
                continue
            if reason in _AGAIN:
                batch.waiting.append(index)
                self._wait(0.1)
                continue
            reason_text = _REASONS.get(reason, f"reason code {reason}")
            topic = batch.items[index].topic.decode()
            batch.refused[index] = DataError(
                f"The broker {self._connection.server} refused the record for '{topic}': "
                f"{reason_text}"
            )
            if self._stops:
                batch.waiting.clear()
        if release:
            self._connection.send(p.acknowledgements(p.PUBREL, release))

    def _publish_unacknowledged(self, batch: _Batch, *, alone: bool) -> None:
        """Publishes at QoS 0, in blocks with a ping each, whose answer proves delivery."""
        connection = self._connection
        items, pending = batch.items, batch.pending
        while batch.waiting:
            out: list[bytes] = []
            size = 0
            while batch.waiting and size < _BLOCK and not (alone and out):
                index = batch.waiting.popleft()
                pending[index] = index
                packet = p.publish(self._first, items[index], 0)
                size += len(packet)
                out.append(packet)
            pongs = connection.pongs
            connection.send(b"".join(out))
            connection.ping()
            deadline = time.monotonic() + _SILENT_S
            while connection.pongs == pongs:
                if not connection.is_open:
                    raise connection.loss()
                if time.monotonic() > deadline:
                    connection.abort()
                    raise Unreachable(f"The broker {connection.server} did not respond.")
                connection.pump(1.0)
            pending.clear()
