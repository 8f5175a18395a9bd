"""Reads the messages of a task's subscriptions.

MQTT has no positions. What the source stores as an offset is a count, by which `committed` knows
which messages Kafka has: those are acknowledged to the broker. After a restart the broker of a
persistent session sends the others again. The offset also has the filters of the subscription, so
that those that the configuration no longer has can be taken out of the session.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.api import Offsets, Polled, Primitive, SourceContext, SourceOffset, SourceReader
from penstock.connectors.mqtt.client.options import Options
from penstock.connectors.mqtt.client.packets import Message
from penstock.connectors.mqtt.read.plan import SourcePlan
from penstock.connectors.mqtt.read.receiver import Receiver
from penstock.connectors.mqtt.read.records import Converting

CLIENT_ID: Final = "client.id"
RECEIVED: Final = "received"
FILTERS: Final = "filters"
_WAKES: Final = 3
_QUIET_S: Final = 0.01
"""After so long without a message a commit is requested."""


class MqttReader(SourceReader):
    """Reads through one connection."""

    idle_ms = 0  # `poll` waits

    def __init__(
        self,
        options: Options,
        plan: SourcePlan,
        filters: Sequence[str],
        context: SourceContext,
        client_id: str,
    ) -> None:
        self._context = context
        self._converting = Converting(plan)
        self._partition: Mapping[str, Primitive] = {CLIENT_ID: client_id}
        self._filters = "\n".join(filters)
        stored = context.stored_offset(self._partition) or {}
        count = stored.get(RECEIVED)
        self._received = count if isinstance(count, int) else 0
        before = str(stored.get(FILTERS) or "").split("\n")
        self._receiver = Receiver(
            options,
            client_id,
            filters,
            plan.qos,
            context.wake,
            outdated=[each for each in before if each and each not in filters],
        )
        self._uncommitted: deque[tuple[int, list[Message]]] = deque()
        self._started = False
        self._requested = 0  # up to where a commit was requested
        self._woken = 0  # how often without a message, since one came or a commit was requested

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if not self._started:
            self._started = True
            self._receiver.start()
        messages = self._receiver.take(max_bytes) or self._await(max_bytes, wait_ms)
        if not messages:
            return None
        records = self._converting.records(messages)
        self._received += len(messages)
        if any(message.mid for message in messages):
            self._uncommitted.append((self._received, messages))
        return Polled(
            records,
            [SourceOffset(self._partition, {RECEIVED: self._received, FILTERS: self._filters})],
        )

    def committed(self, offsets: Offsets) -> None:
        reached = -1
        for each in offsets:
            count = None if each.offset is None else each.offset.get(RECEIVED)
            if each.partition == self._partition and isinstance(count, int):
                reached = max(reached, count)
        while self._uncommitted and self._uncommitted[0][0] <= reached:
            self._receiver.finish(self._uncommitted.popleft()[1])

    def close(self) -> None:
        self._receiver.close()

    def _await(self, max_bytes: int, wait_ms: int) -> list[Message]:
        """The next messages, when there are any.

        Where nothing comes any more the broker may have sent as many messages as it does before one
        is acknowledged: a commit is requested, and then nothing is waited for, since the engine
        commits between polls.
        """
        deadline = time.monotonic() + wait_ms / 1000
        receiver = self._receiver
        wants = bool(self._uncommitted) and self._uncommitted[-1][0] > self._requested
        if wants:
            deadline = min(deadline, time.monotonic() + _QUIET_S)
        messages: list[Message] = []
        while not messages:
            receiver.check()
            left = deadline - time.monotonic()
            if left <= 0 or not self._context.is_running:
                break
            self._context.wait(left)
            messages = receiver.take(max_bytes)
            if not messages and self._uncommitted and not wants and self._woken < _WAKES:
                # Perhaps because messages are committed; or else by one that was taken before.
                self._woken += 1
                break
        if messages:
            self._woken = 0
        elif wants:
            self._requested = self._uncommitted[-1][0]
            self._woken = 0
            self._context.request_commit()
        return messages
