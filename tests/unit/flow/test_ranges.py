"""Ranges as rows of text, and back."""

from __future__ import annotations

import pytest

from penstock.api import Offsets, SourceOffset
from penstock.flow.ranges import Range, decode, encode

OFFSETS: list[Offsets] = [
    [],
    [SourceOffset({"filename": "ö.txt"}, {"position": 7})],
    [SourceOffset({"a": 1, "b": None}, None), SourceOffset({}, {"x": 1.5, "y": True})],
]


@pytest.mark.parametrize("start", OFFSETS)
@pytest.mark.parametrize("end", OFFSETS)
def test_ranges_survive_as_a_row(start: Offsets, end: Offsets) -> None:
    ranges = [Range(start, end), Range(end, start)]
    assert decode(encode(ranges)) == ranges
