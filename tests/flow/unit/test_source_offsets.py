"""The offsets of a source task, from Kafka's acknowledgement to the worker's answer."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import Offsets, SourceOffset
from penstock.flow.messages import Begin, OffsetsStored, StoreOffsets
from penstock.flow.stage.polled_batch import last_of
from penstock.flow.stage.source_offsets import SourceOffsets
from penstock.flow.traces import Carried, trace_of
from penstock.ids import TaskId


def offset(number: int) -> SourceOffset:
    return SourceOffset({"from": "p"}, {"at": number})


def offsets() -> SourceOffsets:
    made = SourceOffsets(threading.Condition(), 7, TaskId("source", 0))
    made.begin(Begin(7, [offset(0)]))
    return made


@given(steps=st.lists(st.sampled_from(["acknowledge", "due", "answer", "take"]), max_size=30))
def test_in_every_order_offsets_are_stored_one_request_at_a_time_and_never_go_back(
    steps: list[str],
) -> None:
    task, acknowledged, asked, stored = offsets(), 0, 0, 0
    request: StoreOffsets | None = None
    answered = False
    for step in steps:
        match step:
            case "acknowledge":
                acknowledged += 1
                task.acknowledge(last_of([[offset(acknowledged)]]))
            case "due":
                due = task.due()
                if request is not None or asked == acknowledged:
                    assert due == []
                else:
                    [request] = due
                    assert request.offsets == [offset(acknowledged)]
                    asked = acknowledged
            case "answer" if request is not None and not answered:
                task.answer(OffsetsStored(7, request.ticket))
                answered = True
            case "take":
                for done in task.take_answers():
                    task.committed(done)
                    stored = int(str(done[0].offset and done[0].offset["at"]))
                    assert stored == asked
                if answered:
                    request, answered = None, False
        assert task.storing is (request is not None)
        assert task.stored() == [offset(stored)]


def test_a_refused_request_raises_the_workers_error_after_the_answers_before_it() -> None:
    task = offsets()
    task.acknowledge(last_of([[offset(3)]]))
    [request] = task.due()
    task.answer(OffsetsStored(7, request.ticket))
    task.answer(OffsetsStored(7, 99, trace_of(ValueError("fenced"))))
    taken: list[Offsets] = []
    with pytest.raises(Carried, match="fenced"):
        taken.extend(task.take_answers())
    assert taken == [[offset(3)]]


def test_a_requested_commit_is_taken_once_and_stored_at_once() -> None:
    task = offsets()
    task.request_commit()
    assert task.take_commit_request()
    assert not task.take_commit_request()
    task.acknowledge(last_of([[offset(1)]]), at_once=True)
    assert task.at_once
    assert len(task.due()) == 1
    assert not task.at_once
