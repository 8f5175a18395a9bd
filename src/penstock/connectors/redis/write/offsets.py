"""Offsets in Redis, like jcustenborder's sink and Redis' store them: next to the data of each topic
partition. A server that has lost data has also lost its offsets, or has older ones, and receives
the records again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from penstock.api import PenstockError, TopicPartition
from penstock.connectors.redis.client.errors import error_of
from penstock.connectors.redis.client.servers import Servers


def key_of(prefix: str, topic: str, partition: int) -> bytes:
    """The key of a partition's offset.

    >>> key_of("__kafka.offset", "orders", 3)
    b'__kafka.offset.orders.3'
    """
    return f"{prefix}.{topic}.{partition}".encode()


def lineage_key_of(prefix: str, topic: str, partition: int) -> bytes:
    """The key of the lineage of a partition's offset. A key of its own, as the JVM's connectors
    read the other one.

    >>> lineage_key_of("__kafka.offset", "orders", 3)
    b'__kafka.offset.orders.3.lineage'
    """
    return key_of(prefix, topic, partition) + b".lineage"


def written(topic: str, partition: int, offset: int) -> bytes:
    """The stored form of an offset.

    >>> written("orders", 3, 17)
    b'{"topic":"orders","partition":3,"offset":17}'
    """
    return orjson.dumps({"topic": topic, "partition": partition, "offset": offset})


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored offset of a partition, and its lineage: None if that was not stored, as by an
    earlier version or the JVM's connectors."""

    offset: int
    lineage: str | None = None

    def start(self, position: int, lineage: str) -> int:
        """Where a task begins, whose consumer is at `position`. Of another lineage, the offset may
        be that of an earlier topic, so no record is skipped for it.

        >>> Kept(9, "a").start(5, "a"), Kept(9).start(5, "a"), Kept(9, "a").start(5, "b")
        (9, 9, 5)
        """
        if self.lineage in (None, lineage):
            return self.offset
        return min(self.offset, position)


def read_offsets(
    servers: Servers, prefix: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Kept]:
    """The stored offsets; 0 for a partition without one. Raises RedisUnavailable, and
    PenstockError for a key with other contents."""
    offsets: dict[TopicPartition, Kept] = {}
    for topic_partition in partitions:
        topic, partition = topic_partition
        key = key_of(prefix, topic, partition)
        data, lineage = (_read(servers, k) for k in (key, lineage_key_of(prefix, topic, partition)))
        try:
            offset = 0 if data is None else int(orjson.loads(data)["offset"])
            offsets[topic_partition] = Kept(offset, None if lineage is None else lineage.decode())
        except (ValueError, TypeError, KeyError) as error:
            raise PenstockError(
                f"The key '{key.decode()}' contains no offset: {data!r}. Delete it to write the "
                "partition from the beginning"
            ) from error
    return offsets


def _read(servers: Servers, key: bytes) -> Any:
    try:
        return servers.node(key).client.get(key)
    except Exception as error:
        servers.refresh()
        raise error_of(error, f"Cannot read the offset in '{key.decode()}'") from error


def store_lineages(servers: Servers, prefix: str, lineages: Mapping[TopicPartition, str]) -> None:
    """Stores the lineages of offsets that are stored next. Raises RedisUnavailable or
    RedisRefused."""
    for (topic, partition), lineage in lineages.items():
        key = lineage_key_of(prefix, topic, partition)
        try:
            servers.node(key).client.set(key, lineage.encode())
        except Exception as error:
            servers.refresh()
            raise error_of(error, f"Cannot store the lineage in '{key.decode()}'") from error


def store_offsets(
    servers: Servers, prefix: str, offsets: Mapping[TopicPartition, int | None]
) -> None:
    """Stores offsets; None deletes one. Raises RedisUnavailable or RedisRefused."""
    for topic_partition, offset in offsets.items():
        key = key_of(prefix, topic_partition.topic, topic_partition.partition)
        try:
            client = servers.node(key).client
            if offset is None:
                client.delete(key)
            else:
                client.set(key, written(topic_partition.topic, topic_partition.partition, offset))
        except Exception as error:
            servers.refresh()
            raise error_of(error, f"Cannot store the offset in '{key.decode()}'") from error
