"""The contexts that connectors are tested with."""

from __future__ import annotations

import threading

import pytest

from penstock.api import (
    RecordRef,
    SinkContext,
    SourceContext,
    SourceOffset,
    TaskId,
    TopicPartition,
)
from penstock.errors import DataError
from penstock.testing.contexts import SinkContextStub, SourceContextStub

SINK: SinkContext = SinkContextStub()  # the type checker compares them with the protocols
SOURCE: SourceContext = SourceContextStub()


@pytest.mark.parametrize("make", [SinkContextStub, SourceContextStub])
def test_a_task_runs_until_it_is_stopped(
    make: type[SinkContextStub] | type[SourceContextStub],
) -> None:
    context = make(task=TaskId("notes", 3))
    assert context.task == TaskId("notes", 3)
    assert (context.is_running, context.wait(0.001)) == (True, False)
    context.stop()
    assert (context.is_running, context.wait(60)) == (False, True)


def test_stopping_ends_a_wait_in_another_thread() -> None:
    context = SourceContextStub()
    ended: list[bool] = []
    waiting = threading.Thread(target=lambda: ended.append(context.wait(60)))
    waiting.start()
    context.stop()
    waiting.join(10)
    assert ended == [True]


def test_requested_commits_are_counted() -> None:
    context = SinkContextStub()
    context.request_commit()
    context.request_commit()
    assert context.commit_requests == 2


def test_errors_are_tolerated_where_that_is_said() -> None:
    assert not SinkContextStub().tolerates_errors
    assert SinkContextStub(tolerates_errors=True).tolerates_errors


def test_reported_records_are_kept_in_order_with_their_errors() -> None:
    context = SinkContextStub()
    reports = [(RecordRef("t", 0, offset, offset), DataError(f"no {offset}")) for offset in (7, 5)]
    for record, error in reports:
        context.report(record, error)
    assert context.reported == reports


def test_partitions_are_paused_until_they_are_resumed() -> None:
    context = SinkContextStub()
    one, two, three = (TopicPartition("t", number) for number in range(3))
    context.pause([one, two])
    context.pause([two, three])
    assert context.paused == {one, two, three}
    context.resume([two])
    assert context.paused == {one, three}


def test_offsets_stored_at_the_start_and_since_are_reported() -> None:
    start = [
        SourceOffset({"file": "a"}, {"line": 1}),
        SourceOffset({"file": "b"}, {"line": 2}),
    ]
    context = SourceContextStub(start)
    assert list(context.stored_offsets) == start
    assert context.stored_offset({"file": "a"}) == {"line": 1}
    assert context.stored_offset({"file": "c"}) is None
    context.store([SourceOffset({"file": "a"}, {"line": 5}), SourceOffset({"file": "b"}, None)])
    assert context.stored_offset({"file": "a"}) == {"line": 5}
    assert context.stored_offset({"file": "b"}) is None
    assert list(context.stored_offsets) == start
