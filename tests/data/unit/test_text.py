"""Java's text of values. The floating point texts were printed by a JVM."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.data import schema as s
from penstock.data.schema import Schema, Type, Value
from penstock.data.text import double_text, float_text, text, texts_of, utf8

NESTED = s.struct(
    {
        "i8": s.INT8,
        "gone": s.OPTIONAL_STRING,
        "s": s.STRING,
        "o": s.struct({"x": s.INT32, "y": s.STRING}),
    }
)

TEXTS: list[tuple[Schema | None, Value, str]] = [
    (
        NESTED,
        {"i8": 5, "gone": None, "s": "ü", "o": {"x": 1, "y": "z"}},
        "Struct{i8=5,s=ü,o=Struct{x=1,y=z}}",
    ),
    (NESTED, {"o": {"y": "z", "x": 1}, "i8": 5}, "Struct{i8=5,o=Struct{x=1,y=z}}"),
    (s.struct({}), {}, "Struct{}"),
    (s.array(s.INT32), [1, 2, 3], "[1, 2, 3]"),
    (s.array(s.OPTIONAL_FLOAT32), [s.float32(0.1), None], "[0.1, null]"),
    (s.map_of(s.STRING, s.INT8), {"a": 1, "b": 2}, "{a=1, b=2}"),
    (s.map_of(s.array(s.INT8), s.FLOAT32), [([1], s.float32(1.1))], "{[1]=1.1}"),
    (None, {"k": "v", "k2": "v2"}, "{k2=v2, k=v}"),  # a HashMap's order
    (None, [1, "a", None, True, {"k": [0.1]}], "[1, a, null, true, {k=[0.1]}]"),
    (None, None, "null"),
    (None, True, "true"),
    (None, False, "false"),
    (None, 12, "12"),
    (None, 1e10, "1.0E10"),
    (s.OPTIONAL_STRING, None, "null"),
    (s.STRING, "plain", "plain"),
    (s.decimal(2), Decimal("123.45"), "123.45"),
    (s.decimal(-3), Decimal("1E+3"), "1E+3"),
    (s.decimal(7), Decimal("0.0000001"), "1E-7"),
    (s.decimal(2), Decimal("-0.00"), "0.00"),
    (s.DATE, date(2024, 2, 29), "Thu Feb 29 00:00:00 UTC 2024"),
    (s.TIME, time(13, 14, 15, 999_000), "Thu Jan 01 13:14:15 UTC 1970"),
    (s.TIMESTAMP, datetime(2024, 2, 29, 1, 2, 3, 4000, UTC), "Thu Feb 29 01:02:03 UTC 2024"),
    (
        s.TIMESTAMP,
        datetime(2024, 2, 29, 1, tzinfo=timezone(timedelta(hours=1))),
        "Thu Feb 29 00:00:00 UTC 2024",
    ),
    (s.BYTES, b"\x00\x01", "[B@36de2269"),
    (s.struct({"a": s.BYTES}), {"a": b""}, "Struct{a=[B@0}"),
    (Schema(Type.ARRAY), [1, "x"], "[1, x]"),
    (NESTED, "not a struct", "not a struct"),
    (s.array(s.INT8), {"a": 1}, "{a=1}"),
]


@pytest.mark.parametrize(("schema", "value", "expected"), TEXTS)
def test_a_value_prints_as_in_java(schema: Schema | None, value: Value, expected: str) -> None:
    assert text(schema, value) == expected


DOUBLES = {
    1e10: "1.0E10",
    1e7: "1.0E7",
    9999999.0: "9999999.0",
    123456789.125: "1.23456789125E8",
    5e-324: "4.9E-324",
    1e-3: "0.001",
    9.99e-4: "9.99E-4",
    1.7976931348623157e308: "1.7976931348623157E308",
    2.2250738585072014e-308: "2.2250738585072014E-308",
    100.0: "100.0",
    0.1: "0.1",
    1e-5: "1.0E-5",
    5.960464477539063e-08: "5.960464477539063E-8",
    -1.5e300: "-1.5E300",
    float("inf"): "Infinity",
    float("-inf"): "-Infinity",
}


@pytest.mark.parametrize(("value", "expected"), DOUBLES.items())
def test_doubles_print_their_shortest_digits(value: float, expected: str) -> None:
    assert double_text(value) == expected


def test_zeros_and_nan_print_as_in_java() -> None:
    assert [double_text(0.0), double_text(-0.0), double_text(float("nan"))] == [
        "0.0",
        "-0.0",
        "NaN",
    ]
    assert [float_text(0.0), float_text(-0.0), float_text(float("nan"))] == ["0.0", "-0.0", "NaN"]


FLOATS = {
    0.1: "0.1",
    1.1: "1.1",
    16777216.0: "1.6777216E7",
    33554432.0: "3.3554432E7",
    123456.78: "123456.78",
    1.4e-45: "1.4E-45",
    8.4e-45: "8.4E-45",
    3.4028235e38: "3.4028235E38",
    1e10: "1.0E10",
    9.99e-4: "9.99E-4",
    -2.5: "-2.5",
}


@pytest.mark.parametrize(("value", "expected"), FLOATS.items())
def test_floats_print_the_shortest_digits_of_32_bits(value: float, expected: str) -> None:
    assert float_text(s.float32(value)) == expected


DOUBLES = [0.001, 0.1, 1.0, 100.0, 123456.789, 9999999.999999998, 1 / 3, 5e-3, 2.5e6]


@pytest.mark.parametrize(
    "more", [[], [1e7], [-1.0], [0.0], [1e-4], [math.nan], [math.inf, -math.inf]]
)
def test_many_doubles_have_the_texts_of_each(more: list[float]) -> None:
    values = [*DOUBLES, *more]
    rows: list[Value] = [{"x": value} for value in values]
    assert texts_of(None)(rows).to_pylist() == [text(None, row) for row in rows]


@given(st.lists(st.floats(min_value=1e-3, max_value=1e7, exclude_max=True), min_size=1))
def test_doubles_within_javas_plain_range_print_alike(values: list[float]) -> None:
    rows: list[Value] = [{"x": value} for value in values]
    assert texts_of(None)(rows).to_pylist() == [f"{{x={double_text(value)}}}" for value in values]


MANY: list[tuple[Schema | None, list[Value]]] = [
    (None, []),
    (None, ["a", "b"]),
    (None, [{"a": 1, "%s": "x"}, {"a": None, "%s": True}]),
    (None, [{"a": 1}, {"b": 1}, 5, None, [1]]),
    (None, [{"a": {"c": 1, "b": [1.5]}}, {"a": True}]),
    (None, [{}, {}]),
    (None, [{"a": 1, "b": 2}, {"b": 3, "a": 4}]),
    (None, [{"Aa": 1, "BB": 2}, {"BB": 3, "Aa": 4}]),  # of one bucket: insertion order
    (None, [{"a": 1, "b": 2}, {"a": 3, "c": 4}]),
    (None, [{"a": 1, "b": 2}, {"a": 3, "b": 4, "c": 5}]),
    (None, [{"a": 1}, {"a": 2, "b": 3}]),
    (None, [{1: "x"}, {True: "y"}]),
    (s.struct({"a": s.INT8, "b": s.OPTIONAL_STRING}), [{"a": 1, "b": "x"}, {"a": 2, "b": "%"}]),
    (s.struct({"a": s.INT8, "b": s.OPTIONAL_STRING}), [{"a": 1, "b": None}, {"a": 2}]),
    (s.struct({"f": s.FLOAT32, "t": s.BOOLEAN}), [{"f": 0.5, "t": True}, {"f": 1e10, "t": False}]),
    (s.struct({}), [{}, {}]),
    (
        s.struct({"a": s.OPTIONAL_INT8, "b": s.OPTIONAL_FLOAT64, "c": s.OPTIONAL_STRING}),
        [{"a": 1, "b": 0.5, "c": None}, {"a": None, "c": None}, {"a": 2, "b": 1e9, "c": "x"}],
    ),
    (s.struct({"a": s.OPTIONAL_STRING, "b": s.STRING}), [{"a": None, "b": "null"}, {"b": "y"}]),
    (None, [{"a": 0.0, "b": None}, {"a": -0.0, "b": 1.5}, {"a": -2.25, "b": None}]),
    (None, [{"a": 2**63, "b": 1}, {"a": -(2**70), "b": None}]),
    (None, [{"a": 1, "b": 1}, {"a": 1.0, "b": True}]),
    (s.OPTIONAL_STRING, ["a", None]),
    (s.FLOAT32, [0.5, 1e10]),
]


@pytest.mark.parametrize(("schema", "values"), MANY)
def test_many_at_a_time_have_the_texts_of_each(schema: Schema | None, values: list[Value]) -> None:
    assert texts_of(schema)(values).to_pylist() == [text(schema, value) for value in values]


def test_texts_are_utf8_with_their_line_ends() -> None:
    texts = texts_of(None, "\n")(["ä", None, "", {"a": 1}])
    assert bytes(utf8(texts)) == "ä\nnull\n\n{a=1}\n".encode()
    assert bytes(utf8(texts.slice(1, 2))) == b"null\n\n"
    assert bytes(utf8(texts_of(None, "\n")([]))) == b""


@pytest.mark.parametrize("row", ["x\ud800y", {"a": "x\ud800y"}, ["x\ud800y"]])
def test_half_a_surrogate_pair_is_a_question_mark(row: Value) -> None:
    (reported,) = texts_of(None)([row]).to_pylist()
    assert "x?y" in reported
