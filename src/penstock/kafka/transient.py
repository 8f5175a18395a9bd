"""Which errors of librdkafka are transient: a retry, or a restart of the task, may help."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

_TRANSIENT: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
"""Beyond the errors that Kafka itself calls retriable: timeouts, and producers fenced because the
task ran on another worker meanwhile."""


def is_transient(error: KafkaException) -> bool:
    """Whether a retry may help."""
    cause = error.args[0] if error.args else None
    return isinstance(cause, KafkaError) and (cause.retriable() or cause.code() in _TRANSIENT)
