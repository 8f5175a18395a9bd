"""Why a connector or task failed: the trace in its status, and whether the error is transient.

A trace begins with a one-line summary: the error, its message and its root cause. The causes
follow, a line each, and the stack without the engine's frames. Credentials are redacted.
"""

from __future__ import annotations

import errno
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from penstock.config.redaction import redacted
from penstock.errors import PenstockError, is_transient
from penstock.kafka.transient import is_retriable

log = logging.getLogger(__name__)

_SYSTEM: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.EIO, errno.ENETUNREACH, errno.EHOSTUNREACH}
)

_JAVA: Final = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.NetworkException",
    "org.apache.kafka.common.errors.CoordinatorNotAvailableException",
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException",
)
"""Words in traces of Spark and of Kafka's Java clients whose errors are transient."""

_PYTHON: Final = "Traceback (most recent call last)"
_NOISE: Final = ("JVM stacktrace:", "\n\tat org.apache.spark", "\nDriver stacktrace:")
_OWN_FRAMES: Final = ("/penstock/flow/", "/pyspark/", "/py4j/", "/threading.py", "/contextlib.py")


@dataclass(frozen=True, slots=True)
class Trace:
    """Why something failed. `retriable`: the error is transient, so a retry may help."""

    text: str
    retriable: bool = False

    @property
    def summary(self) -> str:
        """The first line."""
        return self.text.split("\n", 1)[0]


class Carried(PenstockError):
    """An error from another process or thread; its trace is that of what failed there."""

    code = "task.failed_elsewhere"

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.text)
        self.trace = trace


def trace_of(error: BaseException) -> Trace:
    """The trace of an error. With `penstock.flow.traces` at DEBUG level it has every frame."""
    if isinstance(error, Carried):
        return error.trace
    text = str(error)
    if (start := text.find(_PYTHON)) >= 0:  # Spark's, of an error in a Python process
        return Trace(redacted(_of_python(text[start:])), passes(error) or java_may_pass(text))
    chain = list(_chain(error))
    lines = [_with_root(_line(error), chain)]
    lines += [f"Caused by: {_line(cause)}" for cause in chain[1:]]
    lines += text.strip().split("\n")[1:]
    lines += _stack(chain)
    return Trace(redacted("\n".join(lines)), passes(error) or java_may_pass(text))


def message_of(error: BaseException) -> str:
    """The message of an error and, unless the message names it, its root cause."""
    return redacted(_with_root(str(error), list(_chain(error))))


def java_may_pass(trace: str) -> bool:
    """Whether the error of a Java trace is transient."""
    return any(words in trace for words in _JAVA)


def passes(error: BaseException) -> bool:
    """Whether an error, or one of its causes, is transient."""
    return any(_passes(cause) for cause in _chain(error))


def _passes(error: BaseException) -> bool:
    if is_transient(error):
        return True
    if isinstance(error, KafkaException):
        return is_retriable(error)
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _SYSTEM


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, up to the root cause."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _with_root(text: str, chain: list[BaseException]) -> str:
    """The text, with the chain's root cause unless the text contains it already."""
    root = str(chain[-1])
    if len(chain) == 1 or (root and root in text):
        return text
    return f"{text.rstrip()} (caused by {_line(chain[-1])})"


def _line(error: BaseException) -> str:
    message = str(error).strip().split("\n", 1)[0]
    name = type(error).__qualname__
    return f"{name}: {message}" if message else name


def _stack(chain: list[BaseException]) -> list[str]:
    """The frames, root cause first, without the engine's."""
    lines: list[str] = []
    for error in reversed(chain):
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if log.isEnabledFor(logging.DEBUG)
            or not any(own in frame.filename for own in _OWN_FRAMES)
        ]
        if frames:
            lines += [f"{_PYTHON}:", *"".join(traceback.format_list(frames)).splitlines()]
            lines.append(_line(error))
    return lines


def _of_python(text: str) -> str:
    for noise in _NOISE:
        end = text.find(noise)
        text = text[:end] if end > 0 else text
    text = text.strip()
    return f"{text.splitlines()[-1]}\n{text}"
