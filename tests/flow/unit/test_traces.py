"""The trace of a failure, and which failures are transient."""

from __future__ import annotations

import errno
import json
import logging

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import DataError, PenstockError, Unavailable
from penstock.flow.stage.failures import ToleranceExceeded
from penstock.flow.traces import Carried, Trace, java_may_pass, passes, trace_of


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
        (kafka(KafkaError.NOT_ENOUGH_REPLICAS), True),
        (kafka(KafkaError.NOT_CONTROLLER), True),
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
    assert trace_of(outer).retriable is expected


def test_an_error_that_was_being_handled_is_no_cause() -> None:
    error = ValueError("no")
    error.__context__ = Unavailable("away")
    assert not passes(error)


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited)",
        "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired",
    ],
)
def test_errors_of_spark_and_kafka_count_too(text: str) -> None:
    assert java_may_pass(text)
    assert trace_of(PenstockError(text)).retriable


def raised() -> BaseException:
    """A record that cannot be converted, as the engine raises it."""
    try:
        try:
            try:
                json.loads("{")
            except ValueError as error:
                raise DataError("Converting byte[] to Kafka Connect data failed") from error
        except DataError as error:
            raise ToleranceExceeded("Tolerance exceeded in error handler") from error
    except ToleranceExceeded as error:
        return error


def test_the_first_line_says_it_all() -> None:
    trace = trace_of(raised())
    assert trace.summary == (
        "ToleranceExceeded: Tolerance exceeded in error handler (caused by JSONDecodeError: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"
    )


def test_the_causes_follow_and_then_the_stack() -> None:
    _, first, second, *stack = trace_of(raised()).text.split("\n")
    assert first == "Caused by: DataError: Converting byte[] to Kafka Connect data failed"
    assert second.startswith("Caused by: JSONDecodeError: Expecting property name")
    assert stack[0] == "Traceback (most recent call last):"
    assert any("json.loads" in line for line in stack)


def test_a_cause_that_the_message_names_is_not_repeated_in_the_first_line() -> None:
    error = DataError("cannot read 'x': no such column")
    error.__cause__ = KeyError("x")
    assert trace_of(error).summary == "DataError: cannot read 'x': no such column"


def test_frames_of_the_engine_are_left_out_unless_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails() -> BaseException:
        try:
            passes("no error")  # type: ignore[arg-type]
        except BaseException as error:
            return error
        raise AssertionError

    error = fails()
    assert "/flow/traces.py" not in trace_of(error).text
    with caplog.at_level(logging.DEBUG, "penstock.flow.traces"):
        assert "/flow/traces.py" in trace_of(error).text


class Unnameable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("has no words")


def test_an_error_whose_text_cannot_be_made_has_a_trace() -> None:
    error = PenstockError("no")
    error.__cause__ = Unnameable()
    assert trace_of(error).summary == "PenstockError: no (caused by Unnameable)"


def test_more_lines_of_a_message_come_after_the_causes() -> None:
    error = PenstockError("The consumer failed: java.lang.Exception: no\n\tat a.B(C.java:1)")
    assert trace_of(error) == Trace(
        "PenstockError: The consumer failed: java.lang.Exception: no\n\tat a.B(C.java:1)"
    )


def test_an_error_from_elsewhere_keeps_its_trace() -> None:
    there = Trace("ValueError: no\nTraceback (most recent call last):\n  …", retriable=True)
    assert trace_of(Carried(there)) == there


def test_a_trace_within_sparks_error_is_that_of_the_python_process() -> None:
    text = (
        "An error occurred while calling o42.collect.\n: org.apache.spark.SparkException: Job "
        'aborted:\nTraceback (most recent call last):\n  File "x.py", line 1, in f\n'
        "ModuleNotFoundError: No module named 'penstock'\n\n\tat org.apache.spark.api.python"
    )
    trace = trace_of(RuntimeError(text))
    assert trace.summary == "ModuleNotFoundError: No module named 'penstock'"
    assert "org.apache.spark" not in trace.text
