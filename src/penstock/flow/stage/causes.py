"""Whether what made a task fail may pass by itself.

A failure reaches the worker as the text of a trace, often from a Python worker of Spark's. So the
side that still has the exception says so in the text: `marked` adds a note to errors that pass, and
`may_pass` looks for it, or for what Spark and Kafka's Java clients say themselves.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, KafkaException

NOTE: Final = "What made it fail may pass by itself."

_KAFKA: Final = frozenset(
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
"""Beyond those Kafka itself calls retriable: time that was not enough, and producers of a task that
was elsewhere meanwhile."""

_SYSTEM: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.EIO, errno.ENETUNREACH, errno.EHOSTUNREACH}
)

_SAID: Final = (
    NOTE,
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.NetworkException",
    "org.apache.kafka.common.errors.CoordinatorNotAvailableException",
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException",
)


def may_pass(trace: str) -> bool:
    """Whether the error of a trace may pass by itself."""
    return any(said in trace for said in _SAID)


def passes(error: BaseException) -> bool:
    """Whether an error, or one that led to it, may pass by itself."""
    seen: BaseException | None = error
    while seen is not None:
        if _passes(seen):
            return True
        seen = seen.__cause__
    return False


def _passes(error: BaseException) -> bool:
    if getattr(error, "retriable", False) is True:
        return True
    if isinstance(error, KafkaException) and error.args:
        said = error.args[0]
        return isinstance(said, KafkaError) and (said.retriable() or said.code() in _KAFKA)
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _SYSTEM


@contextmanager
def marked() -> Iterator[None]:
    """Adds `NOTE` to errors that may pass, so that their traces say so."""
    try:
        yield
    except BaseException as error:
        mark(error)
        raise


def mark(error: BaseException) -> None:
    """Adds `NOTE` to an error that may pass."""
    if passes(error) and NOTE not in getattr(error, "__notes__", ()):
        error.add_note(NOTE)


_NOISE: Final = ("JVM stacktrace:", "\n\tat org.apache.spark", "\nDriver stacktrace:")


def readable(error: BaseException) -> str:
    """A trace as text. For an error from a Python worker, its trace there rather than Spark's."""
    mark(error)
    text = str(error)
    start = text.find("Traceback (most recent call last)")
    if start >= 0:
        for noise in _NOISE:
            end = text.find(noise, start)
            text = text[:end] if end > 0 else text
        return text[start:].strip()
    return "".join(traceback.format_exception(error)).strip()
