"""Which failures may pass by themselves."""

from __future__ import annotations

import errno
import traceback

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import DataError, Unavailable
from penstock.flow.stage.causes import NOTE, marked, may_pass, passes, readable
from penstock.flow.stage.failures import ToleranceExceeded


def kafka(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unavailable("away"), True),
        (DataError("not a number"), False),
        (ConnectionResetError("reset"), True),
        (TimeoutError("slow"), True),
        (OSError(errno.ENOSPC, "full"), True),
        (FileNotFoundError(errno.ENOENT, "none"), False),
        (kafka(KafkaError._MSG_TIMED_OUT), True),
        (kafka(KafkaError._FENCED), True),
        (kafka(KafkaError.TOPIC_AUTHORIZATION_FAILED), False),
        (kafka(KafkaError.MSG_SIZE_TOO_LARGE), False),
        (ValueError("no"), False),
    ],
)
def test_an_error_passes_or_not_wherever_it_is_in_the_chain(
    error: BaseException, expected: bool
) -> None:
    outer = ToleranceExceeded("a record failed")
    outer.__cause__ = error
    assert passes(error) is expected
    assert passes(outer) is expected
    assert may_pass(readable(outer)) is expected


def test_what_was_being_handled_by_the_way_is_no_cause() -> None:
    error = ValueError("no")
    error.__context__ = Unavailable("away")
    assert not passes(error)


def test_the_note_is_in_the_trace_once() -> None:
    with pytest.raises(Unavailable) as caught, marked(), marked():
        raise Unavailable("away")
    text = "".join(traceback.format_exception(caught.value))
    assert text.count(NOTE) == 1


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited)",
        "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
    ],
)
def test_what_spark_and_kafka_say_counts_too(text: str) -> None:
    assert may_pass(text)
