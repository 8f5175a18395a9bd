"""What is reported of failed records, and where."""

from __future__ import annotations

import logging

import pytest

from penstock.data.records import Column, Header, Records
from penstock.data.schema import INT32, STRING, struct
from penstock.errors import DataError
from penstock.flow.plan import Tolerance
from penstock.flow.stage import failures
from penstock.flow.stage.failures import Failures, ToleranceExceeded, context_headers
from penstock.flow.stage.pipeline import Failure, Stage
from penstock.ids import TaskId

TASK = TaskId("c", 3)
BAD = Failure(1, Stage.VALUE_CONVERTER, "test.Converter", DataError("no good"))


def consumed() -> Records:
    return Records(
        topics=["t"] * 3,
        partitions=[4] * 3,
        timestamps=[7] * 3,
        keys=Column.of([b"k", None, b"k"], None),
        values=Column.of([b"a", b"b", None], None),
        offsets=[10, 11, 12],
        headers=[[], [Header("h", b"1")], []],
    )


def test_no_failure_is_no_trouble() -> None:
    Failures(TASK, Tolerance()).report([], failures.consumed(consumed()))


def test_the_first_failed_record_is_named_with_its_place() -> None:
    with pytest.raises(ToleranceExceeded) as raised:
        Failures(TASK, Tolerance()).report([BAD], failures.consumed(consumed()))
    assert str(raised.value) == (
        "Tolerance exceeded in error handler: VALUE_CONVERTER failed in class test.Converter for "
        "a record of topic 't', partition 4, offset 11: no good"
    )
    assert isinstance(raised.value.__cause__, DataError)


@pytest.mark.parametrize("tolerate_all", [True, False])
@pytest.mark.parametrize(
    ("log", "messages", "said"),
    [
        (False, True, []),
        (
            True,
            False,
            [
                "Error encountered in task c-3. Executing stage 'VALUE_CONVERTER' with class "
                "'test.Converter'."
            ],
        ),
        (
            True,
            True,
            [
                "Error encountered in task c-3. Executing stage 'VALUE_CONVERTER' with class "
                "'test.Converter', where consumed record is {topic='t', partition=4, offset=11, "
                "timestamp=7, timestampType=LogAppendTime}."
            ],
        ),
    ],
)
def test_failures_are_logged_as_far_as_wanted(
    log: bool,
    messages: bool,
    said: list[str],
    tolerate_all: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tolerance = Tolerance(tolerate_all, log=log, log_messages=messages)
    original = failures.consumed(consumed(), 1)
    if tolerate_all:
        Failures(TASK, tolerance).report([BAD], original)
    else:
        with pytest.raises(ToleranceExceeded):
            Failures(TASK, tolerance).report([BAD], original)
    assert caplog.messages == said
    assert all(record.levelno == logging.ERROR for record in caplog.records)
    assert all(record.exc_info for record in caplog.records)


def test_a_dead_letter_of_a_sink_is_what_was_consumed() -> None:
    letter = failures.consumed(consumed())(1)
    assert (letter.key, letter.value, letter.timestamp) == (None, b"b", 7)
    assert list(letter.headers) == [("h", b"1")]


def test_context_headers_say_where_and_why() -> None:
    letter = failures.consumed(consumed())(1)
    headers = dict(context_headers(TASK, BAD, letter))
    trace = headers.pop("__connect.errors.exception.stacktrace")
    assert headers == {
        "__connect.errors.topic": b"t",
        "__connect.errors.partition": b"4",
        "__connect.errors.offset": b"11",
        "__connect.errors.connector.name": b"c",
        "__connect.errors.task.id": b"3",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"test.Converter",
        "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
        "__connect.errors.exception.message": b"no good",
    }
    assert trace is not None
    assert b"no good" in trace


def test_an_error_of_others_is_named_by_its_class_and_may_have_no_message() -> None:
    failure = Failure(0, Stage.TASK_PUT, "t", ValueError())
    headers = dict(context_headers(TASK, failure, failures.consumed(consumed())(0)))
    assert headers["__connect.errors.exception.class.name"] == b"ValueError"
    assert headers["__connect.errors.exception.message"] is None


def test_a_dead_letter_of_a_source_is_the_record_as_json() -> None:
    records = Records(
        topics=["t"],
        partitions=[None],
        timestamps=[None],
        keys=Column.of(["k"], STRING),
        values=Column.of([{"a": 1}], struct({"a": INT32})),
        headers=[[Header("h", 5, INT32)]],
    )
    letter = failures.read(records)(0)
    assert letter.key == b'{"schema":{"type":"string","optional":false},"payload":"k"}'
    assert letter.value is not None
    assert letter.value.endswith(b'"payload":{"a":1}}')
    assert (letter.partition, letter.offset, list(letter.headers)) == (None, None, [("h", b"5")])
    headers = dict(context_headers(TASK, BAD, letter))
    assert "__connect.errors.offset" not in headers


def test_a_source_record_that_is_no_json_is_text() -> None:
    records = Records(
        topics=["t"],
        partitions=[None],
        timestamps=[None],
        keys=Column.of([None], None),
        values=Column.of(["text"], INT32),
    )
    assert failures.read(records)(0).value == b"text"
