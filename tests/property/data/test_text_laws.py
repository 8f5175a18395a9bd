"""Laws of `text`: many at a time are as each by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.data.schema import Value
from penstock.data.text import text, texts_of

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
NAMES = st.sampled_from(["a", "b", "Aa", "BB", "AaAa", "BBBB", "%", "id"])  # some of one bucket
ORDERS = st.permutations(["a", "b", "Aa", "BB"])


@given(st.lists(st.dictionaries(NAMES, PLAIN, max_size=4), max_size=4))
def test_maps_many_at_a_time_have_the_texts_of_each(maps: list[Value]) -> None:
    assert texts_of(None)(maps) == [text(None, each) for each in maps]


@given(ORDERS, ORDERS)
def test_maps_filled_in_another_order_have_the_texts_of_each(
    some: list[str], others: list[str]
) -> None:
    maps: list[Value] = [{name: name for name in names} for names in (some, others, some)]
    assert texts_of(None)(maps) == [text(None, each) for each in maps]
