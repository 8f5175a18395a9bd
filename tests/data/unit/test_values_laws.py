"""Laws of `values` and `projection`."""

from __future__ import annotations

import copy

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.data import schema as s
from penstock.data.projection import project
from penstock.data.schema import INT_BITS, Schema, Value, check, int_range
from penstock.data.value_text import to_text
from penstock.data.values import parse

PLAIN = st.text("abcxyz .-_/ü", min_size=1, max_size=8).map(lambda text: f"t{text}")
LEAVES: list[tuple[Schema, st.SearchStrategy[Value]]] = [
    (s.STRING, PLAIN),
    (s.BOOLEAN, st.booleans()),
    *((Schema(type), st.integers(*int_range(type))) for type in INT_BITS),
]
SCALARS: st.SearchStrategy[Value] = st.booleans() | st.integers(-(2**63), 2**63 - 1) | PLAIN
BLANK = "".join(map(chr, range(0x21)))  # for Java's `trim`
NOISE = st.text('0123456789+-.eE:,[]{}"\\ TZntrulfas\ufffdü😀١', max_size=24)


@given(NOISE | st.text(max_size=24))
@example("\x1b[")
def test_every_text_is_something(text: str) -> None:
    schema, value = parse(text)
    if schema == s.STRING:
        # As in Kafka Connect, a text that begins with blanks may be reduced to them.
        assert value == text or (text.startswith(value) and not value.strip(BLANK))
    written = to_text(schema, value)
    assert (written is None) == (value is None)


@given(SCALARS)
def test_a_scalar_is_read_as_it_was_written(value: Value) -> None:
    text = to_text(None, value)
    assert text is not None
    schema, back = parse(text)
    assert schema is not None
    assert (back, type(back)) == (value, type(value))
    check(schema, back)


@given(st.sampled_from(LEAVES).flatmap(lambda leaf: st.tuples(st.just(leaf[0]), st.lists(leaf[1]))))
def test_a_list_is_read_as_it_was_written(typed: tuple[Schema, list[Value]]) -> None:
    element, values = typed
    text = to_text(s.array(element), values)
    assert text is not None
    schema, back = parse(text)
    assert back == values
    assert schema is not None
    if values:
        check(schema, back)


@given(
    st.sampled_from(LEAVES).flatmap(
        lambda leaf: st.tuples(st.just(leaf[0]), st.dictionaries(PLAIN, leaf[1], min_size=1))
    )
)
def test_a_map_is_read_as_it_was_written(typed: tuple[Schema, dict[str, Value]]) -> None:
    mapped, values = typed
    text = to_text(s.map_of(s.STRING, mapped), values)
    assert text is not None
    schema, back = parse(text)
    assert list(back.items()) == list(values.items())
    assert schema is not None
    check(schema, back)


NUMBERS = [Schema(type) for type in INT_BITS] + [s.FLOAT32, s.FLOAT64]


@given(st.data(), st.integers(0, 3), st.integers(0, 5))
def test_an_integer_fits_every_wider_type(data: st.DataObject, narrow: int, wide: int) -> None:
    source, target = NUMBERS[narrow], NUMBERS[max(narrow, wide)]
    value = data.draw(st.integers(*int_range(source.type)))
    projected = project(source, value, target)
    check(target, projected)
    if target.type in INT_BITS:
        assert projected == value
    else:
        assert abs(projected - value) <= abs(value) / (2**24 if target == s.FLOAT32 else 2**53)


STRUCTS = st.dictionaries(PLAIN, st.sampled_from(LEAVES), max_size=5)


@given(STRUCTS, st.data())
def test_a_struct_projects_to_any_part_of_itself(
    fields: dict[str, tuple[Schema, st.SearchStrategy[Value]]], data: st.DataObject
) -> None:
    value = {name: data.draw(values) for name, (_, values) in fields.items()}
    before = copy.deepcopy(value)
    source = s.struct({name: schema for name, (schema, _) in fields.items()})
    assert project(source, value, source) == value
    part = data.draw(st.lists(st.sampled_from(sorted(fields)), unique=True)) if fields else []
    target = s.struct({name: fields[name][0] for name in part})
    assert project(source, value, target) == {name: value[name] for name in part}
    assert value == before
