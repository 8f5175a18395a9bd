"""Documents in text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from penstock.connectors.mongodb.text.shell import TextInvalid, parse, parse_documents

OID = ObjectId("65a000000000000000000001")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "b": [true, null, 1.5, "x"]}', {"a": 1, "b": [True, None, 1.5, "x"]}),
        ("{a: 'it''s'}".replace("''", "\\'"), {"a": "it's"}),
        ("{$match: {a: {$gt: -5}}}", {"$match": {"a": {"$gt": -5}}}),
        ('{"i": {"$oid": "65a000000000000000000001"}}', {"i": OID}),
        ("{i: ObjectId('65a000000000000000000001')}", {"i": OID}),
        ('{"n": {"$numberLong": "5"}}', {"n": Int64(5)}),
        ("{n: NumberLong(5), d: NumberDecimal('1.10')}", {"n": Int64(5), "d": Decimal128("1.10")}),
        ("{d: ISODate('2026-01-31T12:30:00Z')}", {"d": datetime(2026, 1, 31, 12, 30, tzinfo=UTC)}),
        ("{d: new Date(5)}", {"d": DatetimeMS(5)}),
        (
            '{"d": {"$date": {"$numberLong": "5"}}}',
            {"d": datetime(1970, 1, 1, microsecond=5000, tzinfo=UTC)},
        ),
        ("{t: Timestamp(1, 2), r: /a.b/i}", {"t": Timestamp(1, 2), "r": Regex("a.b", "i")}),
        ("{b: BinData(0, 'AAEC')}", {"b": Binary(b"\x00\x01\x02", 0)}),
        ("{a: MinKey, b: MaxKey(), c: undefined}", {"a": MinKey(), "b": MaxKey(), "c": None}),
        ('{"s": "\\u00e9\\ud83d\\ude00\\n", x: 1,}', {"s": "é😀\n", "x": 1}),
        ("[1, -Infinity, 2e3]", [1, float("-inf"), 2000.0]),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = parse(text)
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "text", ["", "{", "{a}", "{a: }", "[1 2]", "{a: 'x}", "{} {}", "{a: 99999999999999999999x}",
             "{a: ObjectId('x')}", "{'a': {$oid: 'x'}}", "nonsense", "'\\q'"]
)  # fmt: skip
def test_an_invalid_value_is_refused(text: str) -> None:
    with pytest.raises(TextInvalid):
        parse(text)


def test_an_array_of_documents_may_have_single_backslashes() -> None:
    assert parse_documents(r'[{"regexp": "^key\..*$"}]') == [{"regexp": r"^key\..*$"}]
    assert parse_documents(r'[{"regexp": "^key\\..*$"}]') == [{"regexp": r"^key\..*$"}]
    assert parse_documents(" ") == []
    with pytest.raises(TextInvalid, match="an array of documents"):
        parse_documents("[1]")
