"""Reads the messages of a task's subscriptions.

MQTT has no positions. The source's offset is a count: it tells `committed` which messages are in
Kafka and can be acknowledged to the broker. After a restart the broker of a persistent session
sends the others again. The offset also contains the filters of the subscription, so that the reader
can unsubscribe from filters that were removed from the configuration.
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
_MAX_IDLE_WAKES: Final = 3
_QUIET_S: Final = 0.01
"""The pause without messages after which a commit is requested."""


class MqttReader(SourceReader):
    """Reads from one connection."""

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
        earlier = str(stored.get(FILTERS) or "").split("\n")
        self._receiver = Receiver(
            options,
            client_id,
            filters,
            plan.qos,
            context.wake,
            outdated=[old for old in earlier if old and old not in filters],
        )
        self._uncommitted: deque[tuple[int, list[Message]]] = deque()
        self._started = False
        self._requested_count = 0  # the count of the last requested commit
        self._idle_wakes = 0  # wake-ups since the last message or requested commit

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if not self._started:
            self._started = True
            self._receiver.start()
        messages = self._receiver.take(max_bytes) or self._await(max_bytes, wait_ms)
        if not messages:
            return None
        records = self._converting.records(messages)
        before = self._received
        self._received += len(messages)
        if any(message.mid for message in messages):
            self._uncommitted.append((self._received, messages))
        return Polled(
            records,
            self._offsets(self._received),
            offsets_before=lambda count: self._offsets(before + count),
        )

    def _offsets(self, received: int) -> Offsets:
        return [SourceOffset(self._partition, {RECEIVED: received, FILTERS: self._filters})]

    def committed(self, offsets: Offsets) -> None:
        reached = -1
        for source_offset in offsets:
            count = None if source_offset.offset is None else source_offset.offset.get(RECEIVED)
            if source_offset.partition == self._partition and isinstance(count, int):
                reached = max(reached, count)
        while self._uncommitted and self._uncommitted[0][0] <= reached:
            self._receiver.finish(self._uncommitted.popleft()[1])
        if self._uncommitted:
            end, messages = self._uncommitted[0]
            if (stored := reached - (end - len(messages))) > 0:  # a part of a poll
                self._receiver.finish(messages[:stored])
                self._uncommitted[0] = end, messages[stored:]

    def close(self) -> None:
        self._receiver.close()

    def _await(self, max_bytes: int, wait_ms: int) -> list[Message]:
        """Waits for the next messages.

        If none arrive, the broker may have reached its limit of unacknowledged messages. Then the
        reader requests a commit and returns at once, since the engine commits between polls.
        """
        deadline = time.monotonic() + wait_ms / 1000
        receiver = self._receiver
        wants_commit = bool(self._uncommitted) and self._uncommitted[-1][0] > self._requested_count
        if wants_commit:
            deadline = min(deadline, time.monotonic() + _QUIET_S)
        messages: list[Message] = []
        while not messages:
            receiver.check()
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not self._context.is_running:
                break
            self._context.wait(remaining_s)
            messages = receiver.take(max_bytes)
            if (
                not messages
                and self._uncommitted
                and not wants_commit
                and self._idle_wakes < _MAX_IDLE_WAKES
            ):
                # Perhaps woken because messages are committed, or by a message taken before.
                self._idle_wakes += 1
                break
        if messages:
            self._idle_wakes = 0
        elif wants_commit:
            self._requested_count = self._uncommitted[-1][0]
            self._idle_wakes = 0
            self._context.request_commit()
        return messages
