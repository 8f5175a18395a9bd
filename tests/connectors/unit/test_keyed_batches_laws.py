"""Laws of batches by key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.keyed.batches import last_ones, pieces, previous, rounds

KEYS = st.lists(st.one_of(st.none(), st.sampled_from("abcd")))


@given(KEYS)
def test_writing_only_the_last_ones_leaves_what_writing_all_does(keys: list[str | None]) -> None:
    whole = {key: row for row, key in enumerate(keys) if key is not None}
    last = {keys[row]: row for row in last_ones(keys) if keys[row] is not None}
    assert last == whole
    assert [row for row, key in enumerate(keys) if key is None] == [
        row for row in last_ones(keys) if keys[row] is None
    ]


@given(KEYS)
def test_the_chain_of_earlier_rows_has_all_rows_of_a_key(keys: list[str | None]) -> None:
    before = previous(keys)
    for row in last_ones(keys):
        chain = [row]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        if keys[row] is not None:
            assert chain[::-1] == [at for at, key in enumerate(keys) if key == keys[row]]


@given(KEYS)
def test_rounds_have_every_row_once_no_key_twice_and_those_of_a_key_in_order(
    keys: list[str | None],
) -> None:
    found = rounds(keys)
    assert sorted(row for each in found for row in each) == list(range(len(keys)))
    for each in found:
        own = [keys[row] for row in each if keys[row] is not None]
        assert len(own) == len(set(own))
        assert each == sorted(each)
    for key in "abcd":
        order = [row for each in found for row in each if keys[row] == key]
        assert order == sorted(order)


@given(st.lists(st.integers()), st.integers(0, 5))
def test_pieces_are_the_rows_in_order(rows: list[int], most: int) -> None:
    found = [*pieces(rows, most)]
    assert [row for piece in found for row in piece] == rows
    assert all(0 < len(piece) <= (most or len(rows)) for piece in found)
