"""What data flows ask of topics, on a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException

from penstock.kafka.broker import Broker
from penstock.kafka.topics import create_missing, max_message_bytes, topic_id
from penstock.testing.topics import Topics


def test_a_topic_is_created_once_with_its_settings(
    broker: Broker, topics: Topics, unique: Callable[[str], str]
) -> None:
    settings, topic = {"bootstrap.servers": broker.bootstrap}, unique("made")
    for partitions in (2, 3):
        create_missing(settings, topic, partitions, 1, {"max.message.bytes": "5000"})
    assert max_message_bytes(settings, topic) == 5000
    assert len(topics.admin.list_topics(topic).topics[topic].partitions) == 2


def test_the_id_of_a_topic_changes_when_it_is_created_again(
    broker: Broker, topics: Topics, unique: Callable[[str], str]
) -> None:
    settings, topic = {"bootstrap.servers": broker.bootstrap}, unique("again")
    topics.create(topic)
    first = topic_id(settings, topic)
    assert first is not None
    assert first == topic_id(settings, topic)
    topics.admin.delete_topics([topic], operation_timeout=30)[topic].result()
    with pytest.raises(KafkaException):
        topic_id(settings, topic)
    topics.create(topic)
    assert topic_id(settings, topic) not in (None, first)
