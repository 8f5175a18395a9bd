"""The polls of a source since the last flush or transaction: when a batch is open, and when due."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import Offsets, Polled, SourceOffset, Transaction
from penstock.data.records import Column, Records
from penstock.flow.plan import Boundary, Transactions
from penstock.flow.stage.polled_batch import MOST_POLLS, PolledBatch, last_of

RECORDS = replace(
    Records.none(),
    topics=["t"],
    partitions=[None],
    timestamps=[None],
    keys=Column.of([None], None),
    values=Column.of([b"v"], None),
)


def offset(number: int, partition: str = "p") -> SourceOffset:
    return SourceOffset({"from": partition}, {"at": number})


WITH_OFFSETS = Polled(RECORDS, offsets=[offset(1)])
WITHOUT = Polled(RECORDS)
EMPTY = Polled()


def sent(*polls: Polled, batch: PolledBatch | None = None) -> PolledBatch:
    """The batch after polls at the times 0, 0.01, …"""
    batch = batch or PolledBatch()
    for number, polled in enumerate(polls):
        batch = batch.begin_poll(number / 100).end_poll(polled, batch.is_open)
    return batch


def transactions(boundary: Boundary) -> Transactions:
    return Transactions(boundary, 500, "offsets")


@pytest.mark.parametrize(
    ("polls", "is_open"),
    [
        ((WITH_OFFSETS,), False),
        ((WITHOUT,), True),
        ((WITHOUT, WITH_OFFSETS), False),
        ((WITHOUT, EMPTY), True),
        ((EMPTY,), False),
        ((WITH_OFFSETS, WITHOUT), True),
    ],
)
def test_a_batch_is_open_until_the_offset_of_its_last_record_comes(
    polls: tuple[Polled, ...], is_open: bool
) -> None:
    assert sent(*polls).is_open is is_open


def test_a_batch_whose_sending_was_interrupted_is_open() -> None:
    assert PolledBatch().begin_poll(0).is_open


@pytest.mark.parametrize(
    ("boundary", "polled", "now", "requested", "due"),
    [
        (None, None, 0.0, False, True),
        (None, WITH_OFFSETS, 0.5, False, False),
        (None, WITH_OFFSETS, 1.0, False, True),
        (None, WITH_OFFSETS, 0.5, True, True),
        (Boundary.POLL, WITH_OFFSETS, 0.0, False, False),
        (Boundary.POLL, None, 0.0, False, True),
        (Boundary.INTERVAL, None, 0.4, False, False),
        (Boundary.INTERVAL, WITH_OFFSETS, 0.5, False, True),
        (Boundary.INTERVAL, None, 0.4, True, True),
        (Boundary.CONNECTOR, None, 9.0, True, False),
        (Boundary.CONNECTOR, Polled(RECORDS, transaction=Transaction.COMPLETE), 0.0, False, True),
    ],
)
def test_when_a_batch_ends(
    boundary: Boundary | None, polled: Polled | None, now: float, requested: bool, due: bool
) -> None:
    planned = None if boundary is None else transactions(boundary)
    assert sent(WITH_OFFSETS).is_due(polled, now, planned, requested) is due


def test_a_transaction_waits_for_the_offset_of_its_last_record_if_there_may_be_one() -> None:
    planned = transactions(Boundary.POLL)
    assert not sent(WITH_OFFSETS, WITHOUT).is_due(None, 9, planned, True)
    assert sent(WITHOUT).is_due(None, 0, planned, False), "the source has no offsets at all"


polls = st.sampled_from([WITH_OFFSETS, WITHOUT, EMPTY])


@given(
    polls=st.lists(polls, max_size=40),
    boundary=st.sampled_from([None, *Boundary]),
    requested=st.booleans(),
)
def test_an_empty_batch_is_never_due_and_a_full_one_with_its_offsets_is(
    polls: list[Polled], boundary: Boundary | None, requested: bool
) -> None:
    planned = None if boundary is None else transactions(boundary)
    batch = sent(*polls)
    assert not batch.end().is_due(None, 99, planned, requested)
    assert batch.end().is_open == batch.is_open
    assert batch.end().has_offsets == batch.has_offsets
    if len(polls) >= MOST_POLLS and not batch.is_open and boundary is not Boundary.CONNECTOR:
        assert boundary is Boundary.INTERVAL or batch.is_due(EMPTY, 0, planned, requested)


@given(numbers=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=12))
def test_the_last_offset_of_each_source_partition_counts(numbers: list[tuple[str, int]]) -> None:
    polled: list[Offsets] = [[offset(number, partition)] for partition, number in numbers]
    last = {str(each.partition["from"]): each.offset for each in last_of(polled).values()}
    assert last == {partition: {"at": number} for partition, number in numbers}
