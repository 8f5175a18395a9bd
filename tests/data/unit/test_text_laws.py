"""Laws of `text`: a batch has the same texts as its values one by one."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from penstock.data.schema import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    Value,
    struct,
)
from penstock.data.text import text, texts_of

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
)
NAMES = st.sampled_from(["a", "b", "Aa", "BB", "AaAa", "BBBB", "%", "id"])  # some share a bucket
ORDERS = st.permutations(["a", "b", "Aa", "BB"])


@given(st.lists(st.dictionaries(NAMES, PLAIN, max_size=4), max_size=4))
def test_maps_many_at_a_time_have_the_texts_of_each(maps: list[Value]) -> None:
    assert texts_of(None)(maps).to_pylist() == [text(None, each) for each in maps]


@given(ORDERS, ORDERS)
def test_maps_filled_in_another_order_have_the_texts_of_each(
    some: list[str], others: list[str]
) -> None:
    maps: list[Value] = [{name: name for name in names} for names in (some, others, some)]
    assert texts_of(None)(maps).to_pylist() == [text(None, each) for each in maps]


STRUCT: Final = struct(
    {"i": OPTIONAL_INT64, "d": OPTIONAL_FLOAT64, "s": OPTIONAL_STRING, "b": OPTIONAL_BOOLEAN}
)
STRUCTS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        "b": st.none() | st.booleans(),
    },
)


@given(st.lists(STRUCTS, max_size=4))
def test_structs_many_at_a_time_have_the_texts_of_each(structs: list[Value]) -> None:
    assert texts_of(STRUCT)(structs).to_pylist() == [text(STRUCT, each) for each in structs]
