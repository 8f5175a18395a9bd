"""Statements as requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.cassandra.write.requests import Grouping, Request
from penstock.connectors.cassandra.write.rows import Bound


@given(
    keys=st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=60),
    most=st.integers(1, 8),
    size=st.integers(0, 600_000),
)
def test_statements_of_a_partition_go_together_in_order(
    keys: list[int | None], most: int, size: int
) -> None:
    sent: list[Request] = []
    grouping = Grouping(most, sent.append)
    for row, key in enumerate(keys):
        grouping.add("unlogged", Bound(row, None, [], key, size))
    grouping.finish()
    rows = [bound.row for request in sent for bound in request.bounds]
    assert sorted(rows) == list(range(len(keys)))
    for request in sent:
        found = [bound.row for bound in request.bounds]
        assert found == sorted(found)
        assert 0 < len(found) <= most
        assert len({keys[row] for row in found}) == 1
        assert len(found) == 1 or keys[found[0]] is not None
        assert size * (len(found) - 1) < 1 << 20
    for key in set(keys) - {None}:
        ordered = [row for row in rows if keys[row] == key]
        assert ordered == sorted(ordered)
