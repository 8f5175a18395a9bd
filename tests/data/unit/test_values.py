"""Text to values and back, beside the golden cases: intended differences from Java."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from struct import unpack

import pytest

from penstock.data import schema as s
from penstock.data.schema import Schema, Type, Value
from penstock.data.value_text import to_text
from penstock.data.values import nearest_float32, parse
from penstock.errors import DataError


@pytest.mark.parametrize(
    "text",
    [
        "0000-12-31",
        "0001-01-01",
        "99999-1-01",
        "24:00:00.000Z",
        "23:59:60.000Z",
        "0000-01-01T00:00:00.000Z",
        "[24:00:00.000Z]",
        '{"a": [0000-12-31]}',
        '["2024-02-29", 99999999]',
        '["00:00:00.000Z", 86400000]',
        " [0000-12-31] ",
    ],
)
def test_a_temporal_that_python_lacks_leaves_the_text_a_string(text: str) -> None:
    assert parse(text) == (s.STRING, text)


def test_in_quotes_it_is_a_string_by_itself() -> None:
    assert parse('["24:00:00.000Z", "x"]') == (s.array(s.STRING), ["24:00:00.000Z", "x"])


def test_a_float_without_a_schema_has_the_digits_it_prints() -> None:
    assert parse("0.1") == (s.FLOAT32, s.float32(0.1))
    assert parse('[0.1, "a"]') == (Schema(Type.ARRAY), [0.1, "a"])
    assert parse('{"a": [0.1], "b": 1}')[1] == {"a": [0.1], "b": 1}
    assert parse('[[0.1], ["a"]]') == (s.array(s.array(s.STRING)), [[0.1], ["a"]])
    assert parse('[{"a": 0.1}, 1]')[1] == [{"a": 0.1}, 1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{[1]: 2}", [([1], 2)]),
        ("{[1]: 2, [1]: 3}", [([1], 3)]),
        ("{{}: 2}", [({}, 2)]),
        ("{1: 2, [1]: 3}", [(1, 2), ([1], 3)]),
        ("{1: 2, true: 3}", [(1, 2), (True, 3)]),
        ('{1: 2, "1": 3}', {1: 2, "1": 3}),
        ("{16777216: 1, 16777217: 2, 0.5: 3}", {16777216.0: 2, 0.5: 3}),
    ],
)
def test_a_map_is_pairs_where_its_keys_cannot_be_a_dicts(text: str, value: Value) -> None:
    found = parse(text)[1]
    assert found == value
    assert type(found) is type(value)


def test_a_map_of_pairs_is_written_as_a_map() -> None:
    for text in ("{[1]:2}", '[{[1]:2},"a"]', "{1:2,true:3}"):
        assert to_text(*parse(text)) == text


def test_nesting_without_end_is_the_callers_business() -> None:
    with pytest.raises(RecursionError):
        parse("[" * 100_000)


# 16777217 is halfway between two 32-bit floats, the even one of which is 16777216.
@pytest.mark.parametrize(
    ("exact", "bits"),
    [
        ("16777217", 0x4B800000),
        ("16777217.000000000000000000000000000001", 0x4B800001),
        ("16777216.999999999999999999999999999999", 0x4B800000),
        ("16777218.999999999999999999999999999999", 0x4B800001),
        ("16777219", 0x4B800002),
        ("-16777217.000000000000000000000000000001", 0xCB800001),
        ("9007199791611905", 0x5A000001),
        ("7.006492321624085e-46", 0x00000000),
        ("7.006492321624086e-46", 0x00000001),
        ("3.4028235677973366e38", 0x7F7FFFFF),
        ("3.4028235677973367e38", 0x7F800000),
        ("0.1", 0x3DCCCCCD),
        ("1e400", 0x7F800000),
    ],
)
def test_the_nearest_float_is_found_in_one_step(exact: str, bits: int) -> None:
    assert nearest_float32(Decimal(exact)) == unpack(">f", bits.to_bytes(4))[0]


POINT = s.struct({"x": s.OPTIONAL_INT32, 'q"': Schema(Type.STRING, default="d"), "f": s.FLOAT32})

TEXTS: list[tuple[Schema | None, Value, str | None]] = [
    (None, None, None),
    (s.OPTIONAL_STRING, None, None),
    (POINT, {"f": s.float32(0.1)}, '{"x":null,"q\\"":"d","f":0.1}'),
    (POINT, {"x": 1, 'q"': "\\", "f": 1e10}, '{"x":1,"q\\"":"\\\\","f":1.0E10}'),
    (s.array(s.BYTES), [b"\x00\xff", b""], '["AP8=",""]'),
    (s.BYTES, bytearray(b"\x00"), "AA=="),
    (None, [memoryview(b"a")], '["YQ=="]'),
    (s.array(s.OPTIONAL_STRING), ["a", None], '["a",null]'),
    (s.map_of(s.INT8, s.array(s.STRING)), {1: ["a"]}, '{1:["a"]}'),
    (s.map_of(s.array(s.INT8), s.INT8), [([1], 2)], "{[1]:2}"),
    (None, {"a": [1, {"b": None}]}, '{"a":[1,{"b":null}]}'),
    (s.DATE, date(1970, 1, 1), "00:00:00.000Z"),
    (s.DATE, date(1970, 1, 2), "1970-01-02"),
    (s.TIMESTAMP, datetime(2024, 2, 29, tzinfo=UTC), "2024-02-29"),
    (s.TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), "23:59:59.999Z"),
    (s.array(s.TIME), [time(1, 2, 3, 4000)], "[01:02:03.004Z]"),
    (s.decimal(-2), Decimal("1E+2"), "1E+2"),
    (s.array(s.STRING), "no list", "no list"),
    (s.array(s.array(s.STRING)), ["no list"], '["no list"]'),
    (s.array(s.map_of(s.STRING, s.INT8)), [["no map"]], '[["no map"]]'),
    (s.array(POINT), ["no struct"], '["no struct"]'),
]


@pytest.mark.parametrize(("schema", "value", "text"), TEXTS)
def test_a_value_has_a_text(schema: Schema | None, value: Value, text: str | None) -> None:
    assert to_text(schema, value) == text


def test_an_object_that_is_no_value_has_no_text() -> None:
    with pytest.raises(DataError, match="Failed to serialize unexpected value type set: "):
        to_text(None, {1})
