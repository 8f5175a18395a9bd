"""The settings of a task's Kafka clients: the worker's, with a connector's overrides
(kafka-connect.md §2.5, §7.1, §8.2)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from penstock.config import connector as connector_rules
from penstock.config import connector_keys as keys
from penstock.config import worker as worker_config
from penstock.config.define import Config, ConfigDef, Props
from penstock.errors import ConfigInvalid
from penstock.flow.plan import DeadLetters, SinkPlan
from penstock.ids import TaskId
from penstock.kafka import clients
from penstock.kafka.group_members import remove_members_of
from penstock.kafka.limits import ProducerLimits
from penstock.runtime.interceptors import without

log = logging.getLogger(__name__)

_PRODUCER: Final[Mapping[str, str]] = {
    "acks": "all",
    "delivery.timeout.ms": "2147483647",
    "linger.ms": "5",
    "max.request.size": "1048576",
}
"""Defaults of a source task's producer (kafka-connect.md §8.2). It is idempotent instead of limited
to one request in flight, which also keeps the order and avoids duplicates."""

_IN_ORDER: Final = ("max.in.flight.requests.per.connection", 1)
"""What Kafka Connect sets for each producer. Without it, and without idempotence, a retried batch
could follow later ones."""

_SINK_CONSUMER: Final[Mapping[str, str]] = {
    "auto.offset.reset": "earliest",
    # Cooperative: a rebalance revokes only the partitions that move.
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    "max.poll.records": "10000",  # measured; with more unprocessed records, partitions are paused
}
"""Defaults of a sink task's consumer (kafka-connect.md §7.1)."""

_SHARED_CONSUMER: Final[Mapping[str, str]] = {
    # Members learn of a rebalance with their heartbeats. With one every 3 s, the first of two tasks
    # to join owned all partitions for that long, and records were read twice.
    "heartbeat.interval.ms": "500",
}
"""Further defaults where the connector may have several tasks."""

_PATTERN_CONSUMER: Final[Mapping[str, str]] = {"metadata.max.age.ms": "5000"}
"""Further defaults with `topics.regex`: how soon a new topic is found."""

_OURS: Final = ("key.deserializer", "value.deserializer", "enable.auto.commit")
"""Settings of a sink task's consumer that a user cannot change."""


class TaskClients:
    """Client settings for the tasks of one worker."""

    def __init__(self, worker: Config) -> None:
        self._worker = worker

    def client(self, client: str, props: Props) -> dict[str, str]:
        """See `connector_client`."""
        return worker_config.connector_client(self._worker, client, props)

    def producer(self, task: TaskId, props: Props, *, exactly_once: bool) -> clients.ClientSettings:
        java = {**_PRODUCER, **self.client("producer", props)}
        java.setdefault("client.id", f"connector-producer-{task}")
        java = without(java)
        if exactly_once:
            java["transactional.id"] = worker_config.transactional_id(self._worker, task)
            java["enable.idempotence"] = "true"
        elif "enable.idempotence" not in java:
            java["enable.idempotence"] = str(clients.may_be_idempotent(java)).lower()
        translated = clients.producer(java)
        _say_ignored(task, translated)
        settings = translated.settings
        if not settings["enable.idempotence"]:
            settings.setdefault(*_IN_ORDER)
        settings.setdefault("queue.buffering.max.messages", 500_000)
        settings.setdefault("queue.buffering.max.kbytes", 131_072)
        if exactly_once:  # librdkafka refuses longer time-outs than the transaction's
            most = int(settings.get("transaction.timeout.ms", 60_000))
            settings["socket.timeout.ms"] = min(60_000, most)
            for name in ("delivery.timeout.ms", "request.timeout.ms"):
                if name in settings:
                    settings[name] = min(most, int(settings[name]))
        return settings

    def dead_letters(self, task: TaskId, props: Props) -> DeadLetters | None:
        """The dead letter queue. The settings are a sink's; sources may have them too."""
        settings = ConfigDef(keys.DLQ_TOPIC, keys.DLQ_REPLICATION, keys.DLQ_HEADERS).parse(props)
        topic = settings[keys.DLQ_TOPIC].strip()
        if not topic:
            return None
        java = {
            **_PRODUCER,
            "client.id": f"connector-dlq-producer-{task}",
            **self.client("producer", props),
        }
        producer = clients.producer(without(java)).settings
        if not producer.get("enable.idempotence"):
            producer.setdefault(*_IN_ORDER)
        return DeadLetters(
            topic,
            settings[keys.DLQ_REPLICATION],
            settings[keys.DLQ_HEADERS],
            producer,
            self._admin(f"connector-dlq-adminclient-{task}", props),
            clients.limits(java),
        )

    def limits(self, props: Props) -> ProducerLimits | None:
        """How large a source task's records may be, if its producer does not apply that itself."""
        return clients.limits({**_PRODUCER, **self.client("producer", props)})

    def topics(self, task: TaskId, props: Props) -> clients.ClientSettings:
        """The admin client that creates a source task's topics."""
        return self._admin(f"connector-adminclient-{task}", props)

    def _admin(self, client_id: str, props: Props) -> clients.ClientSettings:
        java = worker_config.connector_admin(self._worker, client_id, props)
        return clients.admin(java).settings


def sink_consumer(
    task: TaskId, settings: Mapping[str, str], *, shared: bool, pattern: bool
) -> dict[str, str]:
    """A sink task's consumer; `shared`: the connector may have several tasks, `pattern`: it
    subscribes to `topics.regex`."""
    return {
        **_SINK_CONSUMER,
        **(_SHARED_CONSUMER if shared else {}),
        **(_PATTERN_CONSUMER if pattern else {}),
        "group.id": connector_rules.consumer_group(task.connector),
        "client.id": _client_id(task),
        **{name: text for name, text in without(settings).items() if name not in _OURS},
    }


def lag_client(task: TaskId, java: Mapping[str, str]) -> clients.ClientSettings | None:
    """Client settings for looking up a sink's lag. With settings that only Java's consumer
    supports, such as a JKS store, the lag is unknown, but the task runs."""
    try:
        return clients.admin(java).settings
    except ConfigInvalid as error:
        log.warning("cannot look up the lag of %s: %s", task, error)
        return None


def group_client(java: Mapping[str, str]) -> clients.Member | None:
    """Client settings for removing a group member; None where kafka-python cannot connect."""
    try:
        return clients.member(java)
    except ConfigInvalid:
        return None


def remove_last_consumer(plan: SinkPlan) -> None:
    """Removes the consumers of the task's last run from its group, if their client id is the task's
    alone. Usually blocks for tens of milliseconds, seconds at most."""
    group, client_id = plan.consumer["group.id"], plan.consumer["client.id"]
    if plan.group_admin is not None and client_id == _client_id(plan.task):
        remove_members_of(plan.group_admin, group, client_id)


def _client_id(task: TaskId) -> str:
    return f"connector-consumer-{task}"


def _say_ignored(task: TaskId, translated: clients.Translated) -> None:
    if translated.ignored:
        log.info("client settings that have no effect: %s", ", ".join(translated.ignored))
