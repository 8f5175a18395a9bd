"""Admin clients, and what data flows need of them: missing topics are created, and limits read.

`settings` are librdkafka's, as `clients.admin` translates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from penstock.kafka.connection import ClientSettings

_TIMEOUT_S: Final = 60
_NO_ID: Final = Uuid(0, 0)


def admin_client(settings: Mapping[str, Any], **also: Any) -> AdminClient:
    """An admin client that does not log by itself; its errors are those of its calls."""
    return AdminClient({"log_level": 0, **settings, **also})


def create_missing(
    settings: ClientSettings,
    topic: str,
    partitions: int,
    replication: int,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Creates a topic if it does not exist. Raises KafkaException."""
    admin = admin_client(settings)
    if topic in admin.list_topics(timeout=_TIMEOUT_S).topics:
        return
    new = NewTopic(topic, partitions, replication, config=dict(configs or {}))
    try:
        admin.create_topics([new], request_timeout=_TIMEOUT_S)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def max_message_bytes(settings: ClientSettings, topic: str) -> int:
    """The size of the largest batch that a topic accepts. Raises KafkaException, and KeyError or
    ValueError if the broker does not say."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = admin_client(settings)  # referenced until it has answered
    described = admin.describe_configs([resource], request_timeout=_TIMEOUT_S)
    return int(described[resource].result()["max.message.bytes"].value)


def topic_id(settings: ClientSettings, topic: str) -> str | None:
    """The id of a topic, which another topic of the same name does not have; None if the broker
    has none (KIP-516). Raises KafkaException."""
    admin = admin_client(settings)  # referenced until it has answered
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=_TIMEOUT_S)
    id: Uuid | None = described[topic].result().topic_id
    return None if id is None or id == _NO_ID else str(id)
