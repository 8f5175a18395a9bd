"""Internal topics: created and checked on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from penstock.errors import StartupFailed
from penstock.kafka import admin
from penstock.kafka.admin import InternalTopic
from penstock.kafka.broker import Broker, free_port
from penstock.testing.topics import Topics


def config_topic(
    name: str,
    *,
    partitions: int = 1,
    replication: int = 1,
    single: bool = True,
    create: bool = True,
    settings: Mapping[str, str] | None = None,
) -> InternalTopic:
    return InternalTopic(
        name,
        "config.storage.topic",
        "connector configurations",
        partitions,
        replication,
        single=single,
        create=create,
        settings=settings or {},
    )


def test_a_topic_is_made_compacted_with_its_settings(
    topics: Topics, unique: Callable[[str], str]
) -> None:
    topic = config_topic(
        unique("made"),
        partitions=3,
        single=False,
        settings={"segment.bytes": "1048576", "cleanup.policy": "delete"},
    )
    assert admin.ensure(topics.admin, topic) == 3
    found = topics.settings(topic.name)
    assert found["segment.bytes"] == "1048576"
    assert found["cleanup.policy"] == "compact"  # not the user's to choose


def test_a_topic_that_is_there_is_taken_as_it_is(
    topics: Topics, unique: Callable[[str], str]
) -> None:
    name = topics.create(unique("there"), 7, cleanup_policy="compact")
    assert admin.ensure(topics.admin, config_topic(name, partitions=2, single=False)) == 7
    assert admin.ensure(topics.admin, config_topic(name, partitions=2, single=False)) == 7


@pytest.mark.parametrize("policy", ["delete", "delete,compact"])
def test_a_topic_that_is_not_compacted_is_refused_in_kafka_connects_words(
    topics: Topics, unique: Callable[[str], str], policy: str
) -> None:
    name = topics.create(unique("deleted"), cleanup_policy=policy)
    with pytest.raises(StartupFailed) as refused:
        admin.ensure(topics.admin, config_topic(name))
    found = topics.settings(name)["cleanup.policy"]
    assert str(refused.value) == (
        f"Topic '{name}' supplied via the 'config.storage.topic' property is required to have "
        "'cleanup.policy=compact' to guarantee consistency and durability of connector "
        f"configurations, but found the topic currently has 'cleanup.policy={found}'. Continuing "
        "would likely result in eventually losing connector configurations and problems "
        "restarting this Connect cluster in the future. Change the 'config.storage.topic' "
        "property in the Connect worker configurations to use a topic with "
        "'cleanup.policy=compact'."
    )


def test_a_config_topic_with_several_partitions_is_refused_in_kafka_connects_words(
    topics: Topics, unique: Callable[[str], str]
) -> None:
    name = topics.create(unique("wide"), 2, cleanup_policy="compact")
    with pytest.raises(StartupFailed) as refused:
        admin.ensure(topics.admin, config_topic(name))
    assert str(refused.value) == (
        f"Topic '{name}' supplied via the 'config.storage.topic' property is required to have a "
        "single partition in order to guarantee consistency of connector configurations, but "
        "found 2 partitions."
    )


def test_a_missing_topic_that_may_not_be_created_is_refused_in_kafka_connects_words(
    topics: Topics, unique: Callable[[str], str]
) -> None:
    name = unique("missing")
    with pytest.raises(StartupFailed) as refused:
        admin.ensure(topics.admin, config_topic(name, create=False))
    assert str(refused.value) == (
        f"Topic '{name}' specified via the 'config.storage.topic' property is missing. The config "
        "'internal.topics.automatic.creation.enable' is set to 'false', so automatic creation of "
        "internal topics is disabled. Either enable automatic creation or create the topics "
        "manually."
    )
    assert name not in topics.names()


def test_a_topic_that_was_created_by_hand_is_checked_like_one_that_the_worker_creates(
    topics: Topics, unique: Callable[[str], str]
) -> None:
    name = topics.create(unique("by-hand"), cleanup_policy="compact")
    assert admin.ensure(topics.admin, config_topic(name, create=False)) == 1
    other = topics.create(unique("by-hand-deleted"), cleanup_policy="delete")
    with pytest.raises(StartupFailed, match=r"required to have 'cleanup\.policy=compact'"):
        admin.ensure(topics.admin, config_topic(other, create=False))


def test_a_replication_factor_beyond_the_brokers_is_refused_with_the_setting_to_change(
    topics: Topics, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "_few_grace", lambda few: admin.CREATE_TIMEOUT_S - 1)
    name = unique("copied")
    with pytest.raises(StartupFailed) as refused:
        admin.ensure(topics.admin, config_topic(name, replication=3))
    message = str(refused.value)
    assert message.startswith(
        f"Failed to create topic '{name}' ('config.storage.topic') with 1 partitions and "
        "replication factor 3: "
    )
    assert message.endswith(
        "The cluster has fewer brokers than that; set 'config.storage.replication.factor' to at "
        "most their number."
    )
    assert name not in topics.names()


@pytest.mark.parametrize("key", ["offset.storage.topic", "offsets.storage.topic"])
def test_a_connectors_own_offset_topic_has_the_workers_replication_factor(
    topics: Topics, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(admin, "_few_grace", lambda few: admin.CREATE_TIMEOUT_S - 1)
    topic = InternalTopic(unique("own"), key, "source connector offsets", 1, 3)
    with pytest.raises(StartupFailed, match=r"set 'offset\.storage\.replication\.factor' to at"):
        admin.ensure(topics.admin, topic)


def test_a_setting_kafka_refuses_is_reported(topics: Topics, unique: Callable[[str], str]) -> None:
    topic = config_topic(unique("odd"), settings={"segment.bytes": "-5"})
    with pytest.raises(StartupFailed, match=r"segment\.bytes"):
        admin.ensure(topics.admin, topic)


def test_connecting_tells_the_clusters_id(broker: Broker) -> None:
    client, cluster_id = admin.connect({"bootstrap.servers": broker.bootstrap})
    assert cluster_id == client.list_topics(timeout=10).cluster_id
    assert len(cluster_id) == 22


def test_a_broker_that_does_not_answer_is_named(broker: Broker) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(StartupFailed) as refused:
        admin.connect({"bootstrap.servers": nobody}, timeout_s=2)
    assert f"No broker answered at bootstrap.servers={nobody} within 2 s" in str(refused.value)
    assert "Connection refused" in str(refused.value)
