"""Counts that are added up."""

from __future__ import annotations

from dataclasses import fields
from functools import reduce
from operator import add

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.counts import Counts

NUMBERS = st.integers(0, 10**6)
COUNTS = st.builds(
    Counts,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS.map(float),
    st.frozensets(st.sampled_from(["a", "b", "c"])),
)


@given(st.lists(COUNTS))
def test_reports_add_up_to_what_one_report_would_have_said(reports: list[Counts]) -> None:
    total = reduce(add, reports, Counts())
    for name in (field.name for field in fields(Counts) if field.name != "topics"):
        assert getattr(total, name) == sum(getattr(report, name) for report in reports)
    assert total.topics == frozenset().union(*(report.topics for report in reports))


@given(COUNTS)
def test_nothing_added_changes_nothing(counts: Counts) -> None:
    assert counts + Counts() == Counts() + counts == counts
