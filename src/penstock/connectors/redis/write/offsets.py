"""Offsets in Redis, as jcustenborder's sink and Redis' keep them: how far each topic partition is
written, beside what was written. A server that has lost its data has lost them, too, or has older
ones, and gets the records again.
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
    """What is stored of an offset.

    >>> written("orders", 3, 17)
    b'{"topic":"orders","partition":3,"offset":17}'
    """
    return orjson.dumps({"topic": topic, "partition": partition, "offset": offset})


def read_offsets(
    servers: Servers, prefix: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The stored offsets; 0 for a partition that has none. Raises RedisUnavailable, and
    PenstockError for a key that holds something else."""
    found: dict[TopicPartition, int] = {}
    for at in partitions:
        key = key_of(prefix, at.topic, at.partition)
        try:
            data: Any = servers.node(key).client.get(key)
        except Exception as error:
            servers.refresh()
            raise error_of(error, f"Cannot read the offset in '{key.decode()}'") from error
        try:
            found[at] = 0 if data is None else int(orjson.loads(data)["offset"])
        except (ValueError, TypeError, KeyError) as error:
            raise PenstockError(
                f"The key '{key.decode()}' holds no offset: {data!r}. Delete it to have the "
                "partition written from its begin"
            ) from error
    return found


def store_offsets(
    servers: Servers, prefix: str, offsets: Mapping[TopicPartition, int | None]
) -> None:
    """Stores offsets; None deletes one. Raises RedisUnavailable or RedisRefused."""
    for at, offset in offsets.items():
        key = key_of(prefix, at.topic, at.partition)
        try:
            client = servers.node(key).client
            if offset is None:
                client.delete(key)
            else:
                client.set(key, written(at.topic, at.partition, offset))
        except Exception as error:
            servers.refresh()
            raise error_of(error, f"Cannot store the offset in '{key.decode()}'") from error
