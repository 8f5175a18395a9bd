"""Kafka clients of a connector's own, configured with the settings of Java's clients: for reports
and other records that are not the connector's data.

    >>> producer({"bootstrap.servers": "b:9092", "linger.ms": "20"}).settings["linger.ms"]
    20
"""

from penstock.kafka.clients import ClientSettings, Translated, admin, consumer, producer
from penstock.kafka.topics import admin_client, create_missing
from penstock.kafka.transient import is_retriable

__all__ = [
    "ClientSettings",
    "Translated",
    "admin",
    "admin_client",
    "consumer",
    "create_missing",
    "is_retriable",
    "producer",
]
