"""Connectors' own offsets topics, on a real broker (kafka-connect.md §4.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from penstock.api import SourceOffset
from penstock.config import worker as worker_config
from penstock.errors import StartupFailed
from penstock.ids import TaskId
from penstock.kafka.broker import Broker
from penstock.kafka.log import CompactedLog, LogEntry
from penstock.offsets.store import OffsetStore
from penstock.testing.processes import worker_settings
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

TASK, OTHER = TaskId("c", 0), TaskId("c", 1)


@pytest.fixture
def cluster(unique: Callable[[str], str]) -> str:
    return unique("offsets")


@pytest.fixture
def offsets(broker: Broker, topics: Topics, cluster: str) -> Iterator[OffsetStore]:
    """The store of a worker whose own topic is `⟨cluster⟩-offset`."""
    settings = {
        "offset.storage.partitions": "3",
        "offset.storage.segment.bytes": "1048576",
    }
    store = OffsetStore(
        worker_config.parse_distributed({**worker_settings(broker.bootstrap, cluster), **settings})
    )
    topic = topics.create(f"{cluster}-offset", 3, cleanup_policy="compact")
    client = {"bootstrap.servers": broker.bootstrap}

    def make(receive: Callable[[Sequence[LogEntry]], None]) -> CompactedLog:
        return CompactedLog(
            topic, 3, consumer=client, producer=client, admin=topics.admin, receive=receive
        )

    store.use(make)
    store.start()
    yield store
    store.close()


def at(position: int) -> list[SourceOffset]:
    return [SourceOffset({"file": "f"}, {"position": position})]


def test_a_topic_of_its_own_is_made_like_the_workers_and_written_before_it(
    offsets: OffsetStore, topics: Topics, cluster: str
) -> None:
    own = f"{cluster}-own"
    lease = offsets.lease(TASK, {"offsets.storage.topic": own})
    assert lease.read(lambda: None) == []
    lease.store(at(5))
    assert topics.values(own) == [b'{"position":5}']
    assert lease.read(lambda: None) == at(5)
    wait_until(
        lambda: topics.values(f"{cluster}-offset") == [b'{"position":5}'],
        30,
        "the worker's topic to be told",
    )
    settings = topics.settings(own)
    assert len(topics.ends(own)) == 3
    assert (settings["cleanup.policy"], settings["segment.bytes"]) == ("compact", "1048576")
    lease.close()


def test_a_connector_that_gets_a_topic_of_its_own_continues_where_it_was(
    offsets: OffsetStore, cluster: str
) -> None:
    before = offsets.lease(TASK, {})
    before.store(at(7))
    before.close()
    after = offsets.lease(TASK, {"offsets.storage.topic": f"{cluster}-own"})
    assert after.read(lambda: None) == at(7)
    after.store(at(9))
    after.close()
    again = offsets.lease(TASK, {"offsets.storage.topic": f"{cluster}-own"})
    assert again.read(lambda: None) == at(9)
    again.close()


def test_tasks_of_a_connector_share_a_log_which_ends_with_the_last(
    offsets: OffsetStore, cluster: str
) -> None:
    props = {"offsets.storage.topic": f"{cluster}-own"}
    first, second = offsets.lease(TASK, props), offsets.lease(OTHER, props)
    [shared] = offsets._own.values()
    first.close()
    second.store(at(3))
    assert second.read(lambda: None) == at(3)
    assert list(offsets._own.values()) == [shared]
    second.close()
    assert offsets._own == {}


def test_a_topic_that_is_not_compacted_fails_the_task(
    offsets: OffsetStore, topics: Topics, cluster: str
) -> None:
    own = topics.create(f"{cluster}-own", cleanup_policy="delete")
    with pytest.raises(
        StartupFailed, match=r"found the topic currently has 'cleanup\.policy=delete'"
    ):
        offsets.lease(TASK, {"offsets.storage.topic": own})
    assert offsets._own == {}
