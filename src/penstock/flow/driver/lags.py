"""How many records sinks have before them, asked of Kafka when somebody wants to know.

With clients of its own, one per Kafka cluster and identity: a task's own consumer answers only when
its fetch is over, and not at all while it seeks.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.ids import TaskId, TopicPartition

_CONNECTION: Final = ("bootstrap.", "security.", "sasl.", "ssl.", "client.dns.", "reconnect.")

_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Identity = frozenset[tuple[str, object]]


class Lags:
    """Asked by one thread at a time; others wait for it."""

    def __init__(self) -> None:
        self._clients: dict[_Identity, AdminClient] = {}
        self._lock = threading.Lock()

    def behind(
        self,
        tasks: Mapping[TaskId, tuple[Mapping[str, object], Mapping[TopicPartition, int]]],
        timeout_s: float,
    ) -> dict[TaskId, dict[TopicPartition, int]]:
        """Of each task, given its consumer's settings and where it reads each partition next, the
        records up to the end; without those that Kafka does not tell in so many seconds."""
        deadline = time.monotonic() + timeout_s
        groups: dict[_Identity, dict[TaskId, Mapping[TopicPartition, int]]] = {}
        for task, (settings, positions) in tasks.items():
            groups.setdefault(_identity(settings), {})[task] = positions
        found: dict[TaskId, dict[TopicPartition, int]] = {}
        with self._lock:
            self._clients = {each: at for each, at in self._clients.items() if each in groups}
            for identity, members in groups.items():
                client = self._client(identity, deadline)
                places = {place for positions in members.values() for place in positions}
                ends = _offsets(client, places, deadline)
                for task, positions in members.items():
                    found[task] = {
                        place: max(0, ends[place] - position)
                        for place, position in positions.items()
                        if place in ends
                    }
        return found

    def _client(self, identity: _Identity, deadline: float) -> AdminClient:
        if identity not in self._clients:
            settings: dict[str, Any] = dict(identity)
            client = AdminClient({**settings, "log_level": 0})
            # Asked for a leader before it has a connection, it would wait for it in vain.
            with contextlib.suppress(KafkaException):
                client.list_topics(timeout=max(0.0, deadline - time.monotonic()))
            self._clients[identity] = client
        return self._clients[identity]


def _identity(settings: Mapping[str, object]) -> _Identity:
    return frozenset(
        (name, value) for name, value in settings.items() if name.startswith(_CONNECTION)
    )


def _offsets(
    client: AdminClient, places: Iterable[TopicPartition], deadline: float
) -> dict[TopicPartition, int]:
    """Where partitions end: a request per broker, however many they are."""
    wanted = {KafkaPartition(*place): _LATEST for place in places}
    left = deadline - time.monotonic()
    if not wanted or left <= 0:
        return {}
    found: dict[TopicPartition, int] = {}
    for at, answer in client.list_offsets(wanted, request_timeout=left).items():
        with contextlib.suppress(KafkaException, TimeoutError):
            offset = answer.result(max(0.0, deadline - time.monotonic())).offset
            found[TopicPartition(at.topic, at.partition)] = offset
    return found
