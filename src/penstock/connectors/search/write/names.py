"""Names of indices and data streams from topics, and ids of documents from keys
(connectors.md §15)."""

from __future__ import annotations

from typing import Final

from penstock.api import DataError
from penstock.api.schema import Schema, Type, Value, java_class

TOPIC: Final = "${topic}"
"""Stands for the topic in the namespace of a data stream."""

_LONGEST: Final = 255
_LONGEST_NAMESPACE: Final = 100
_ID_TYPES: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.STRING)


def index_name(topic: str) -> str:
    """The index of a topic, as Confluent's connector derives it.

    >>> index_name("_Orders"), index_name("..")
    ('orders', 'dotdot')
    """
    name = topic.lower()[:_LONGEST]
    if name.startswith(("-", "_")):
        name = name[1:]
    return name.replace(".", "dot") if name in (".", "..") else name


def opensearch_index_name(topic: str) -> str:
    """The index of a topic, as Aiven's connector derives it.

    >>> opensearch_index_name("+A:b")
    'a_b'
    """
    name = topic.lower()[:_LONGEST].replace(":", "_")
    if name.startswith(("-", "_", "+")):
        name = name[1:]
    return name.replace(".", "dot") if name in (".", "..") else name


def data_stream_name(topic: str, type: str, dataset: str, namespace: str) -> str:
    """The data stream of a topic: `{type}-{dataset}-{namespace}`.

    >>> data_stream_name("Orders", "LOGS", "shop", "${topic}")
    'logs-shop-orders'
    """
    named = namespace.replace(TOPIC, topic.lower())[:_LONGEST_NAMESPACE]
    return f"{type.lower()}-{dataset}-{named}"


def place_id(topic: str, partition: int, offset: int) -> str:
    """The id of a document whose record's key is ignored.

    >>> place_id("orders", 0, 7)
    'orders+0+7'
    """
    return f"{topic}+{partition}+{offset}"


def key_id(schema: Schema | None, key: Value) -> str:
    """The id of a document from its record's key. Raises DataError for a key that cannot be an id.

    >>> key_id(None, 7)
    '7'
    """
    if type(key) is str and (schema is None or schema.type is Type.STRING):
        return key
    if key is None:
        raise DataError("Key is used as document id and can not be null.")
    if schema is not None:
        kind = schema.type.value
        if schema.type in _ID_TYPES and type(key) is int:
            return str(key)
    else:
        if type(key) is int:
            return str(key)
        kind = _kind(key)
    raise DataError(f"{kind} is not supported as the document id.")


def _kind(key: Value) -> str:
    """Kafka Connect's name for the type of a schemaless key."""
    kinds = {bool: "BOOLEAN", float: "FLOAT64", bytes: "BYTES", list: "ARRAY", dict: "MAP"}
    return kinds.get(type(key)) or java_class(key)
