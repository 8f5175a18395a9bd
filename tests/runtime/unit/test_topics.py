"""The internal topics of a worker."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from penstock.cluster.records import TopicStatus
from penstock.errors import Unavailable
from penstock.kafka.log import Dropped
from penstock.runtime import topics


class LogStub:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def append(self, key: bytes, value: bytes | None) -> Future[tuple[int, int]]:
        sent: Future[tuple[int, int]] = Future()
        if self.error is None:
            sent.set_result((0, 7))
        else:
            sent.set_exception(self.error)
        return sent


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (None, []),
        (Unavailable("too large"), ["Failed to write status update: too large"]),
        (Dropped("the worker stops"), []),
    ],
)
def test_a_status_that_kafka_refuses_is_logged(
    error: Exception | None, logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    internal: Any = object.__new__(topics.InternalTopics)
    internal._status_log = LogStub(error)
    internal.append_status(TopicStatus("orders", "source", None))
    assert caplog.messages == logged
