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
from queue import Empty, SimpleQueue
from threading import Thread
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
_ASKS_JVM: Final = ("py4j.", "pyspark.")
"""Modules of errors whose text comes from the JVM."""
_JVM_S: Final = 5.0
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

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.text)
        self.trace = trace


def trace_of(error: BaseException) -> Trace:
    """The trace of an error. With `penstock.flow.traces` at DEBUG level it has every frame."""
    if isinstance(error, Carried):
        return error.trace
    chain = _told(error)
    text = chain[0].text
    if (start := text.find(_PYTHON)) >= 0:  # Spark's, of an error in a Python process
        return Trace(redacted(_of_python(text[start:])), passes(error) or java_may_pass(text))
    lines = [_with_root(chain[0].line, chain)]
    lines += [f"Caused by: {cause.line}" for cause in chain[1:]]
    lines += text.strip().split("\n")[1:]
    lines += _stack(chain)
    return Trace(redacted("\n".join(lines)), passes(error) or java_may_pass(text))


def message_of(error: BaseException) -> str:
    """The message of an error and, unless the message names it, its root cause."""
    chain = _told(error)
    return redacted(_with_root(chain[0].text, chain))


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


@dataclass(frozen=True, slots=True)
class _Told:
    """An error and its text, which is asked for once."""

    error: BaseException
    text: str

    @property
    def line(self) -> str:
        """Its class, and the first line of its text."""
        message = self.text.strip().split("\n", 1)[0]
        name = type(self.error).__qualname__
        return f"{name}: {message}" if message else name


def _told(error: BaseException) -> list[_Told]:
    """The error and its causes, up to the root cause."""
    return [_Told(cause, _text(cause)) for cause in _chain(error)]


def _text(error: BaseException) -> str:
    """The error's text; without one, what there is without the JVM, or nothing."""
    if not type(error).__module__.startswith(_ASKS_JVM):
        return _own_text(error) or ""
    # The text comes from the JVM, which may have ended, or may never respond.
    texts: SimpleQueue[str | None] = SimpleQueue()
    Thread(target=lambda: texts.put(_own_text(error)), daemon=True).start()
    try:
        text = texts.get(timeout=_JVM_S)
    except Empty:
        text = None
    return f"{_known(error)} (the JVM does not respond)".strip() if text is None else text


def _own_text(error: BaseException) -> str | None:
    try:
        return str(error)
    except Exception as cause:
        log.debug("An error of %s has no text: %s", type(error), type(cause))
        return None


def _known(error: BaseException) -> str:
    """What an error of a JVM says without it: py4j's message, or Spark's description."""
    known = getattr(error, "errmsg", None) or getattr(error, "_desc", None)
    return known.strip() if isinstance(known, str) else ""


def _with_root(text: str, chain: list[_Told]) -> str:
    """The text, with the chain's root cause unless the text contains it already."""
    root = chain[-1]
    if len(chain) == 1 or (root.text and root.text in text):
        return text
    return f"{text.rstrip()} (caused by {root.line})"


def _stack(chain: list[_Told]) -> list[str]:
    """The frames, root cause first, without the engine's."""
    lines: list[str] = []
    for told in reversed(chain):
        frames = [
            frame
            for frame in traceback.extract_tb(told.error.__traceback__)
            if log.isEnabledFor(logging.DEBUG)
            or not any(own in frame.filename for own in _OWN_FRAMES)
        ]
        if frames:
            lines += [f"{_PYTHON}:", *"".join(traceback.format_list(frames)).splitlines()]
            lines.append(told.line)
    return lines


def _of_python(text: str) -> str:
    for noise in _NOISE:
        end = text.find(noise)
        text = text[:end] if end > 0 else text
    text = text.strip()
    return f"{text.splitlines()[-1]}\n{text}"
