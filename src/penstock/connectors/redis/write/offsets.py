"""Offsets in Redis, like jcustenborder's sink and Redis' store them: next to the data of each topic
partition. A server that has lost data has also lost its offsets, or has older ones, and receives
the records again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def written(topic: str, partition: int, offset: int) -> bytes:
    """The stored form of an offset.

    >>> written("orders", 3, 17)
    b'{"topic":"orders","partition":3,"offset":17}'
    """
    return orjson.dumps({"topic": topic, "partition": partition, "offset": offset})


def read_offsets(
    servers: Servers, prefix: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The stored offsets; 0 for a partition without one. Raises RedisUnavailable, and
    PenstockError for a key with other contents."""
    offsets: dict[TopicPartition, int] = {}
    for topic_partition in partitions:
        key = key_of(prefix, topic_partition.topic, topic_partition.partition)
        try:
            data: Any = servers.node(key).client.get(key)
        except Exception as error:
            servers.refresh()
            raise error_of(error, f"Cannot read the offset in '{key.decode()}'") from error
        try:
            offsets[topic_partition] = 0 if data is None else int(orjson.loads(data)["offset"])
        except (ValueError, TypeError, KeyError) as error:
            raise PenstockError(
                f"The key '{key.decode()}' contains no offset: {data!r}. Delete it to write the "
                "partition from the beginning"
            ) from error
    return offsets


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
