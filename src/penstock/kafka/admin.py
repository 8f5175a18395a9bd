"""Cluster id and internal topics."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from penstock.errors import StartupFailed
from penstock.kafka.clients import ClientSettings
from penstock.kafka.topics import admin_client
from penstock.kafka.transient import is_retriable

CONNECT_TIMEOUT_S: Final = 15.0
CREATE_TIMEOUT_S: Final = 60.0
_LOOK_S: Final = 10.0

_MAY_NOT_ASK: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
    }
)


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A compacted topic: its settings, and its description in errors. Unless `create` is set, it
    must exist."""

    name: str
    key: str  # the worker setting that names it, e.g. config.storage.topic
    purpose: str  # what is lost if it is not compacted, e.g. "connector configurations"
    partitions: int
    replication: int
    single: bool = False
    create: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)


def connect(
    settings: ClientSettings, timeout_s: float = CONNECT_TIMEOUT_S
) -> tuple[AdminClient, str]:
    """An admin client and the Kafka cluster's id; raises StartupFailed when no broker answers."""
    errors: list[str] = []
    within = {"socket.timeout.ms": 10_000, **settings}
    client = admin_client(within, error_cb=lambda error: errors.append(error.str()))
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            metadata = client.list_topics(timeout=1.0)
            if metadata.brokers:
                return client, metadata.cluster_id or ""
        client.poll(0)
    detail = f" Last error: {errors[-1]}." if errors else ""
    raise StartupFailed(
        "Failed to connect to and describe Kafka cluster. Check worker's broker connection and "
        f"security properties. No broker answered at bootstrap.servers="
        f"{settings['bootstrap.servers']} within {timeout_s:.0f} s.{detail}"
    )


def ensure(client: AdminClient, topic: InternalTopic) -> int:
    """Creates the topic if it does not exist, checks it, and returns its number of partitions.

    Raises StartupFailed with Kafka Connect's texts (kafka-connect.md §2.6) when it is not compacted
    or has too many partitions, or is missing and may not be created.
    """
    metadata = client.list_topics(timeout=CREATE_TIMEOUT_S).topics.get(topic.name)
    if metadata is None or metadata.error is not None:
        if not topic.create:
            raise StartupFailed(
                f"Topic '{topic.name}' specified via the '{topic.key}' property is missing. The "
                "config 'internal.topics.automatic.creation.enable' is set to 'false', so "
                "automatic creation of internal topics is disabled. Either enable automatic "
                "creation or create the topics manually."
            )
        _create(client, topic)
    _check_compacted(client, topic)
    partitions = _partitions(client, topic)
    if topic.single and partitions != 1:
        raise StartupFailed(
            f"Topic '{topic.name}' supplied via the '{topic.key}' property is required to have a "
            f"single partition in order to guarantee consistency of {topic.purpose}, but found "
            f"{partitions} partitions."
        )
    return partitions


def _create(client: AdminClient, topic: InternalTopic) -> None:
    new = NewTopic(
        topic.name,
        topic.partitions,
        topic.replication,
        config={**topic.settings, "cleanup.policy": "compact"},
    )
    deadline = time.monotonic() + CREATE_TIMEOUT_S
    while True:
        try:
            client.create_topics([new], operation_timeout=30)[topic.name].result()
            return
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            few = cause.code() == KafkaError.INVALID_REPLICATION_FACTOR
            if not (few or is_retriable(cause)) or time.monotonic() > deadline - _few_grace(few):
                hint = (
                    f" The cluster has fewer brokers than that; set '{_factor_key(topic)}' to at "
                    "most their number."
                    if few
                    else ""
                )
                raise StartupFailed(
                    f"Failed to create topic '{topic.name}' ('{topic.key}') with "
                    f"{topic.partitions} partitions and replication factor {topic.replication}: "
                    f"{cause.str()}.{hint}"
                ) from error
        threading.Event().wait(0.5)


def _few_grace(few: bool) -> float:
    # More brokers may be starting; but a single-broker set-up should not wait a minute.
    return CREATE_TIMEOUT_S - 10 if few else 0


def _factor_key(topic: InternalTopic) -> str:
    prefix = topic.key.removesuffix("topic").replace("offsets.", "offset.")
    return prefix + "replication.factor"


def _check_compacted(client: AdminClient, topic: InternalTopic) -> None:
    policy = _cleanup_policy(client, topic)
    if policy is None:
        return  # kafka-connect.md §2.6: skipped when the broker refuses the look-up
    if policy != "compact":
        raise StartupFailed(
            f"Topic '{topic.name}' supplied via the '{topic.key}' property is required to have "
            f"'cleanup.policy=compact' to guarantee consistency and durability of {topic.purpose}, "
            f"but found the topic currently has 'cleanup.policy={policy}'. Continuing would likely "
            f"result in eventually losing {topic.purpose} and problems restarting this Connect "
            f"cluster in the future. Change the '{topic.key}' property in the Connect worker "
            "configurations to use a topic with 'cleanup.policy=compact'."
        )


def _cleanup_policy(client: AdminClient, topic: InternalTopic) -> str | None:
    """The topic's clean-up policy; None when this user may not describe configs."""
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    deadline = time.monotonic() + CREATE_TIMEOUT_S
    while True:
        try:
            configs: dict[str, Any] = client.describe_configs([resource])[resource].result()
            return str(configs["cleanup.policy"].value)
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() in _MAY_NOT_ASK:
                return None
            if time.monotonic() > deadline:
                raise StartupFailed(
                    f"Failed to describe the configs of topic '{topic.name}' ('{topic.key}'): "
                    f"{cause.str()}."
                ) from error
        threading.Event().wait(0.1)  # created, but this broker does not know it yet


def _partitions(client: AdminClient, topic: InternalTopic) -> int:
    deadline = time.monotonic() + CREATE_TIMEOUT_S
    while time.monotonic() < deadline:
        metadata = client.list_topics(topic.name, timeout=10).topics[topic.name]
        if metadata.error is None and metadata.partitions:
            return len(metadata.partitions)
        threading.Event().wait(0.1)  # created, but this broker does not know it yet
    raise StartupFailed(f"Topic '{topic.name}' ('{topic.key}') exists but has no partitions.")


def has_members(client: AdminClient, group: str) -> bool:
    """Whether the group has members, of any protocol; False if Kafka does not answer."""
    with contextlib.suppress(KafkaException), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its replacement lists consumer groups only
        return any(listed.members for listed in client.list_groups(group, timeout=_LOOK_S))
    return False
