"""Keys, values and headers between Kafka's bytes and lines, both ways."""

from __future__ import annotations

import json

import pytest

from penstock.api import Converter, Failed, Use
from penstock.cli.records.lines import ShownRecord, Written, json_line, record_of, text_lines
from penstock.cli.records.sides import (
    Cell,
    ConvertedSide,
    Guessed,
    Side,
    Unwritable,
    framed,
    text_of,
)
from penstock.convert.json import JsonConverter
from penstock.convert.numbers import LongConverter
from penstock.convert.raw import ByteArrayConverter
from penstock.convert.text import StringConverter
from penstock.data import schema as s
from penstock.data.records import Column


def converted(kind: type[Converter], **settings: str) -> ConvertedSide:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return ConvertedSide(kind(kind.plugin.config.parse(given), Use.VALUE))


def line_of(side: Side, value: bytes | None) -> bytes:
    """The line of JSON that shows a value."""
    (cell,) = side.read(["t"], [value])
    return json_line(ShownRecord("t", 0, 0, None, Cell(None), cell, ()))


def bytes_of(side: Side, line: bytes) -> bytes | None:
    """The bytes of a JSON line's value."""
    failed: Failed = {}
    written = side.write(["t"], [record_of(line.decode()).value], failed)
    assert not failed
    cell: bytes | None = written[0]
    return cell


@pytest.mark.parametrize(
    ("cell", "shown", "kind"),
    [
        (b'{"a": 1.10, "n": 12345678901234567890123}', None, "JSON"),
        (b"[1,2]", None, "JSON"),
        (b'{"a":\n 1}', '{"a":  1}', "JSON"),
        (b"plain {", '"plain {"', "text"),
        (b"{broken", '"{broken"', "text"),
        (b"7", '"7"', "text"),
        (b"", '""', "text"),
        ("Grüße\n".encode(), '"Grüße\\n"', "text"),
        (b"\xff\xfe", '"//4="', "bytes"),
        (b"\0\0\0\0\7a", '"AAAAAAdh"', "bytes"),
        (None, "null", ""),
    ],
)
def test_bytes_without_a_converter_are_shown_as_text_number_or_hexadecimal(
    cell: bytes | None, shown: str | None, kind: str
) -> None:
    side = Guessed()
    line = line_of(side, cell)
    text = cell.decode() if shown is None and cell else shown
    assert f'"value":{text}' in line.decode()
    assert side.kind(cell) == kind
    again = bytes_of(side, line)
    if kind == "JSON":
        assert again is not None
        assert json.loads(again) == json.loads(cell or b"")
    else:
        assert again == cell


def test_numbers_without_a_converter_keep_their_digits() -> None:
    value = b'{"price":1.10,"id":12345678901234567890123}'
    assert bytes_of(Guessed(), line_of(Guessed(), value)) == value


def test_headers_without_a_converter_are_texts() -> None:
    assert Guessed(json=False).read(["t"], [b"[1]"]) == [Cell("[1]")]


ORDER = s.struct(
    {
        "id": s.INT64,
        "price": s.decimal(2),
        "day": s.DATE,
        "at": s.TIMESTAMP,
        "photo": s.OPTIONAL_BYTES,
        "tags": s.array(s.STRING),
        "sizes": s.map_of(s.STRING, s.INT32),
    },
    name="order",
)


def order() -> bytes:
    """A struct with fields of many types, written by a JsonConverter."""
    from datetime import UTC, date, datetime
    from decimal import Decimal

    value = {
        "id": 9_007_199_254_740_993,
        "price": Decimal("12345678901234567.80"),
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 12, 30, 0, 5000, UTC),
        "photo": b"\0\1",
        "tags": ["a", "b"],
        "sizes": {"x": 1},
    }
    converter = JsonConverter(JsonConverter.plugin.config.parse({}), Use.VALUE)
    (cell,) = converter.from_connect(["t"], Column.of([value], ORDER), {})
    assert cell is not None
    return cell


@pytest.mark.parametrize(
    ("side", "cell"),
    [
        (converted(StringConverter), b"a string"),
        (converted(StringConverter), b'{"not": "JSON"}'),
        (converted(StringConverter), None),
        (converted(ByteArrayConverter), b"\0\xff"),
        (converted(ByteArrayConverter), b"text"),
        (converted(LongConverter), (7).to_bytes(8, "big")),
        (converted(LongConverter), None),
        (converted(JsonConverter, schemas_enable="false"), b'{"a":[1,2.5,null,"x"]}'),
        (converted(JsonConverter, schemas_enable="false"), b'"text"'),
        (converted(JsonConverter, schemas_enable="false"), None),
        (converted(JsonConverter), order()),
        (converted(JsonConverter), b'{"schema":null,"payload":{"a":1}}'),
        (converted(JsonConverter), b'{"schema":{"type":"string","optional":true},"payload":"x"}'),
        (converted(JsonConverter), b'{"schema":{"type":"string","optional":true},"payload":null}'),
        (converted(JsonConverter), None),
    ],
)
def test_a_converter_writes_again_the_bytes_that_it_read(side: Side, cell: bytes | None) -> None:
    assert bytes_of(side, line_of(side, cell)) == cell


def test_a_value_with_a_schema_is_easy_to_read() -> None:
    document = json.loads(line_of(converted(JsonConverter), order()))
    assert document["value"]["price"] == 12345678901234567.80
    assert document["value_schema"]["name"] == "order"


def test_bytes_that_a_converter_cannot_read_are_shown_and_written_unchanged() -> None:
    side = converted(JsonConverter, schemas_enable="false")
    line = line_of(side, b"{broken")
    document = json.loads(line)
    assert document["value_encoding"] == "base64"
    assert document["value_error"].startswith("Converting byte[] to Kafka Connect data failed")
    assert "line 1" in document["value_error"]  # the cause
    assert bytes_of(side, line) == b"{broken"
    (cell,) = side.read(["t"], [b"{broken"])
    lines = text_lines(
        ShownRecord("t", 0, 5, 1_700_000_000_123, Cell("k"), cell, ()), headers=False, trace=False
    )
    assert lines[0] == "t-0@5 2023-11-14T22:13:20.123Z key=k value={broken"
    assert lines[1].startswith("  value not converted: Converting byte[]")


@pytest.mark.parametrize(
    ("side", "text", "cell"),
    [
        (Guessed(), '{"a": 1}', b'{"a": 1}'),
        (converted(StringConverter), '{"a": 1}', b'{"a": 1}'),
        (converted(JsonConverter, schemas_enable="false"), '{"a": 1}', b'{"a":1}'),
        (converted(JsonConverter), "7", b'{"schema":null,"payload":7}'),
        (converted(LongConverter), "7", (7).to_bytes(8, "big")),
        (converted(ByteArrayConverter), "ü", "ü".encode()),
    ],
)
def test_a_line_of_text_means_what_the_converter_takes(side: Side, text: str, cell: bytes) -> None:
    failed: Failed = {}
    assert side.write(["t"], [side.parsed(text)], failed) == [cell]
    assert not failed


def test_a_line_that_is_no_json_is_refused_by_a_converter_of_json() -> None:
    with pytest.raises(Unwritable, match="JsonConverter writes JSON, and 'plain' is not JSON"):
        converted(JsonConverter).parsed("plain")


@pytest.mark.parametrize(
    ("side", "line", "why"),
    [
        (Guessed(), '{"value": 1, "value_schema": {"type": "int8"}}', "only a converter can write"),
        (Guessed(), '{"value": "?", "value_encoding": "base64"}', "base64"),
        (Guessed(), '{"value": "?", "value_encoding": "hex"}', "the encoding must be 'base64'"),
        (converted(LongConverter), '{"value": "seven"}', '"seven" does not fit its schema, INT64'),
        (converted(LongConverter), '{"value": 7.5}', "7.5 does not fit its schema, INT64"),
        (converted(JsonConverter), '{"value": 1, "value_schema": {"type": "int7"}}', "int7"),
        (
            converted(JsonConverter),
            '{"value": 1, "value_schema": {"type": "string"}}',
            "1 does not fit its schema, STRING",
        ),
    ],
)
def test_a_value_that_cannot_be_written_is_refused_with_the_reason(
    side: Side, line: str, why: str
) -> None:
    failed: Failed = {}
    side.write(["t"], [record_of(line).value], failed)
    assert why in str(failed[0])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("plain", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ("{}", "it has no 'value'"),
        ('{"value": 1, "vlaue": 2}', "it has an unknown member 'vlaue'"),
        ('{"value": 1, "timestamp": "now"}', "its 'timestamp' is not a number"),
        ('{"value": 1, "headers": 7}', "its 'headers' are not a list"),
        ('{"value": 1, "headers": [{"value": 7}]}', "one of its headers has no 'name'"),
        (
            '{"value": 1, "headers": [{"name": "a", "text": 7}]}',
            "its header 'a' has an unknown member",
        ),
    ],
)
def test_a_line_that_is_no_record_is_refused(line: str, why: str) -> None:
    with pytest.raises(Unwritable, match=why):
        record_of(line)


def test_headers_may_be_an_object() -> None:
    assert record_of('{"value": null, "headers": {"a": "1", "b": null}}') == Written(
        Cell(None), Cell(None), [("a", Cell("1")), ("b", Cell(None))]
    )


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        (b"\0\0\0\0\7a", 7),
        (b"\0\0\0\0\0a", None),
        (b"\1\0\0\0\7", None),
        (b"\0", None),
        (None, None),
    ],
)
def test_a_schema_registrys_format_is_recognized(cell: bytes | None, number: int | None) -> None:
    assert framed(cell) == number


def test_texts_of_a_line_of_text_stay_on_it() -> None:
    shown = ShownRecord("t", 0, 0, None, Cell("a\nb\x1b"), Cell({"a": 1}), [("h", Cell("x\ny"))])
    assert text_lines(shown, headers=True, trace=False) == [
        't-0@0 key=a\\nb\\x1b value={"a":1}',
        "  header h: x\\ny",
    ]
    assert text_of(Cell("AAE=", encoding="base64")) == "\\x00\\x01"
