"""The lag of sinks, requested from Kafka on demand.

It uses separate clients, one per Kafka cluster and identity: a task's consumer answers only after
its fetch, and not at all while it seeks.
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
from penstock.kafka.topics import admin_client

_CONNECTION: Final = ("bootstrap.", "security.", "sasl.", "ssl.", "client.dns.", "reconnect.")

_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]

_Identity = frozenset[tuple[str, object]]


class Lags:
    """Thread-safe; calls run one at a time."""

    def __init__(self) -> None:
        self._clients: dict[_Identity, AdminClient] = {}
        self._lock = threading.Lock()

    def behind(
        self,
        tasks: Mapping[TaskId, tuple[Mapping[str, object], Mapping[TopicPartition, int]]],
        timeout_s: float,
    ) -> dict[TaskId, dict[TopicPartition, int]]:
        """The lag of each task by partition, from its consumer's settings and positions. Partitions
        for which Kafka does not answer within `timeout_s` are missing."""
        deadline = time.monotonic() + timeout_s
        groups: dict[_Identity, dict[TaskId, Mapping[TopicPartition, int]]] = {}
        for task, (settings, positions) in tasks.items():
            groups.setdefault(_identity(settings), {})[task] = positions
        lags: dict[TaskId, dict[TopicPartition, int]] = {}
        with self._lock:
            self._clients = {
                identity: client for identity, client in self._clients.items() if identity in groups
            }
            for identity, members in groups.items():
                client = self._client(identity, deadline)
                partitions = {at for positions in members.values() for at in positions}
                ends = _offsets(client, partitions, deadline)
                for task, positions in members.items():
                    lags[task] = {
                        partition: max(0, ends[partition] - position)
                        for partition, position in positions.items()
                        if partition in ends
                    }
        return lags

    def _client(self, identity: _Identity, deadline: float) -> AdminClient:
        if identity not in self._clients:
            settings: dict[str, Any] = dict(identity)
            client = admin_client(settings)
            # Without a connection it would wait in vain for a partition's leader.
            with contextlib.suppress(KafkaException):
                client.list_topics(timeout=max(0.0, deadline - time.monotonic()))
            self._clients[identity] = client
        return self._clients[identity]


def _identity(settings: Mapping[str, object]) -> _Identity:
    return frozenset(
        (name, value) for name, value in settings.items() if name.startswith(_CONNECTION)
    )


def _offsets(
    client: AdminClient, partitions: Iterable[TopicPartition], deadline: float
) -> dict[TopicPartition, int]:
    """The end offsets of partitions, with one request per broker."""
    requests = {KafkaPartition(*partition): _LATEST for partition in partitions}
    remaining_s = deadline - time.monotonic()
    if not requests or remaining_s <= 0:
        return {}
    ends: dict[TopicPartition, int] = {}
    for partition, answer in client.list_offsets(requests, request_timeout=remaining_s).items():
        with contextlib.suppress(KafkaException, TimeoutError):
            offset = answer.result(max(0.0, deadline - time.monotonic())).offset
            ends[TopicPartition(partition.topic, partition.partition)] = offset
    return ends
