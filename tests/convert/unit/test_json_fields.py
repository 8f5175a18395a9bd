"""JSON read into fields: the same values as one by one, or none at all."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pyarrow as pa
import pytest

from penstock.api.converter import Use
from penstock.convert.json import JsonConverter
from penstock.convert.json_fields import Attempts
from penstock.data.columns import Cells, Fields
from penstock.data.records import Column
from penstock.data.schema import BYTES
from penstock.data.text import column_texts

FIELDS = [
    {"field": "b", "type": "int8"},
    {"field": "i", "type": "int32", "optional": True},
    {"field": "l", "type": "int64"},
    {"field": "d", "type": "double"},
    {"field": "s", "type": "string", "optional": True},
    {"field": "t", "type": "boolean"},
]
PLAIN = b'{"b":1,"i":2,"l":3,"d":0.5,"s":"x","t":true}'


def converter(**settings: str) -> JsonConverter:
    props = {name.replace("_", "."): value for name, value in settings.items()}
    return JsonConverter(JsonConverter.plugin.config.parse(props), Use.VALUE)


def fields_of(json: JsonConverter, cells: Sequence[bytes | None]) -> Fields | None:
    return json.to_fields(Cells(pa.array(cells, pa.binary()), BYTES))


def one_by_one(json: JsonConverter, cells: Sequence[bytes | None]) -> Column:
    failed: dict[int, Exception] = {}
    column = json.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    return column


def assert_same(fields: Fields, column: Column) -> None:
    assert fields.runs == column.runs
    assert [sorted(map(repr, value.items())) for value in fields.values] == [
        sorted(map(repr, value.items())) for value in column.values
    ]
    texts = [text for array in column_texts(fields) for text in array.to_pylist()]
    assert texts == [text for array in column_texts(column) for text in array.to_pylist()]


def enveloped(*payloads: bytes, fields: object = None, blank: bytes = b"") -> list[bytes]:
    schema = orjson.dumps({"type": "struct", "fields": fields or FIELDS})
    return [b'{"schema":' + schema + b',"payload":' + each + blank + b"}" for each in payloads]


ALIKE = {
    "all kinds": [
        b'{"a":1,"b":"x","c":0.5,"d":true}',
        b'{"a":-2,"b":"\xc3\xa4","c":1e9,"d":false}',
    ],
    "another order": [b'{"a":1,"b":2}', b'{"b":3,"a":4}'],
    "blanks": [b'{ "a" : 1 }', b'{\n\t"a":2\r}'],
    "escapes": [b'{"a":"\\u0000\\n\\ud83d\\ude00\\""}', b'{"\\u0061":"}\\\\"}'],
    "whole doubles": [b'{"a":1.0}', b'{"a":2.5}', b'{"a":3e0}'],
    "tiny doubles": [b'{"a":1e-400}', b'{"a":4.9e-324}', b'{"a":1.7976931348623157e308}'],
    "ends of 64 bits": [b'{"a":9223372036854775807}', b'{"a":-9223372036854775808}', b'{"a":-0}'],
    "what looks like a date": [b'{"a":"2024-02-29"}', b'{"a":"12:00:00"}'],
}


@pytest.mark.parametrize("cells", ALIKE.values(), ids=ALIKE)
def test_objects_that_are_alike_are_fields(cells: list[bytes]) -> None:
    json = converter(schemas_enable="false")
    fields = fields_of(json, cells)
    assert fields is not None
    assert_same(fields, one_by_one(json, cells))


UNLIKE = {
    "no object": [b"5"],
    "an empty object": [b"{}"],
    "an array": [b"[1]"],
    "nothing": [b""],
    "blanks around it": [b' {"a":1}', b'{"a":2}'],
    "a null": [b'{"a":1}', b'{"a":null}'],
    "a null first": [b'{"a":null}'],
    "a missing member": [b'{"a":1,"b":2}', b'{"a":1}'],
    "one more member": [b'{"a":1}', b'{"a":1,"b":2}'],
    "a member twice": [b'{"a":1,"a":2}', b'{"a":1,"a":2}'],
    "nested": [b'{"a":{"b":1}}'],
    "nested later": [b'{"a":1}', b'{"a":[1]}'],
    "another class": [b'{"a":1}', b'{"a":"1"}'],
    "an integer among doubles": [b'{"a":1.5}', b'{"a":2}'],
    "an integer among doubles, blanks": [b'{"a":1.5}', b'{"a" : -2 }'],
    "an integer among doubles, escaped": [b'{"ab":1.5}', b'{"a\\u0062":2}'],
    "a double among integers": [b'{"a":1}', b'{"a":2.0}'],
    "an exponent among integers": [b'{"a":1}', b'{"a":2e3}'],
    "more than 64 bits": [b'{"a":1}', b'{"a":9223372036854775808}'],
    "a zero with a sign": [b'{"a":1.5}', b'{"a":-0.0}'],
    "half a surrogate pair": [b'{"a":"x"}', b'{"a":"\\ud800"}'],
    "a name that is one": [b'{"\\ud800":"x"}'],
    "names of one bucket": [b'{"Aa":1,"BB":2}'],
    "text behind it": [b'{"a":1}', b'{"a":1} x'],
    "two in one": [b'{"a":0}', b'{"a":1}{"a":2}'],
    "a leading zero": [b'{"a":1}', b'{"a":01}'],
    "UTF-16": ['{"a":1}'.encode("utf-16-le")],
}


@pytest.mark.parametrize("cells", UNLIKE.values(), ids=UNLIKE)
def test_ambiguous_messages_are_left_to_the_exact_reader(cells: list[bytes]) -> None:
    assert fields_of(converter(schemas_enable="false"), cells) is None


BROKEN = {
    "no UTF-8": b'{"a":"\xff"}',
    "a control character": b'{"a":"\n"}',
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "too large": b'{"a":1e400}',
    "an open object": b'{"a":1',
    "a comma too many": b'{"a":1,}',
    "another quote": b"{'a':1}",
    "a comment": b'{"a":/*1*/1}',
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("first", [b'{"a":1}', b'{"a":0.5}', b'{"a":"x"}'])
def test_malformed_json_is_left_to_the_reader_that_explains_it(broken: bytes, first: bytes) -> None:
    assert fields_of(converter(schemas_enable="false"), [first, broken]) is None


def test_parts_that_make_one_object_together_are_none_each() -> None:
    json = converter(schemas_enable="false")
    # As many objects as cells, but not one in each.
    assert fields_of(json, [b'{"a":1}', b'{"a":', b"2}", b'{"a":3}{"a":4}']) is None
    assert fields_of(json, [b'{"a":1}', b'{"a":"}', b'{"}', b'{"a":4}{"a":5}']) is None


def test_payloads_of_a_schema_are_fields() -> None:
    json = converter()
    cells = enveloped(
        PLAIN,
        b'{"t":false,"b":-128,"i":null,"l":-3,"d":7,"s":null}',
        b'{"b":127,"l":3,"d":-1e300,"s":"\\u00e4","t":true}',
    )
    fields = fields_of(json, cells)
    assert fields is not None
    assert_same(fields, one_by_one(converter(), cells))


PAYLOADS = {
    "null": b"null",
    "a required field is null": b'{"b":1,"i":2,"l":null,"d":0.5,"s":"x","t":true}',
    "a required field is missing": b'{"b":1,"i":2,"d":0.5,"s":"x","t":true}',
    "too large": b'{"b":128,"i":2,"l":3,"d":0.5,"s":"x","t":true}',
    "one more field": b'{"b":1,"i":2,"l":3,"d":0.5,"s":"x","t":true,"u":1}',
    "a string for a number": b'{"b":"1","i":2,"l":3,"d":0.5,"s":"x","t":true}',
    "a number for a string": b'{"b":1,"i":2,"l":3,"d":0.5,"s":5,"t":true}',
    "a zero with a sign": b'{"b":1,"i":2,"l":3,"d":-0,"s":"x","t":true}',
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_payloads_that_need_work_are_left_to_it(payload: bytes) -> None:
    assert fields_of(converter(), enveloped(PLAIN, payload)) is None


@pytest.mark.parametrize(
    "field",
    [
        {"field": "x", "type": "float"},
        {"field": "x", "type": "bytes"},
        {"field": "x", "type": "array", "items": {"type": "int32"}},
        {"field": "x", "type": "int32", "name": "org.apache.kafka.connect.data.Date"},
    ],
)
def test_schemas_with_other_fields_have_no_short_cut(field: object) -> None:
    assert fields_of(converter(), enveloped(b'{"x":1}', fields=[field])) is None


def test_a_default_takes_the_place_of_null_unless_told_otherwise() -> None:
    field = {"field": "x", "type": "int32", "optional": True, "default": 7}
    cells = enveloped(b'{"x":1}', b'{"x":null}', fields=[field])
    assert fields_of(converter(), cells) is None
    fields = fields_of(converter(replace_null_with_default="false"), cells)
    assert fields is not None
    assert fields.values == [{"x": 1}, {"x": None}]


def test_messages_have_to_have_the_same_head_and_their_brace() -> None:
    assert fields_of(converter(), [*enveloped(PLAIN), b'{"schema":null,"payload":1}']) is None
    assert fields_of(converter(), [*enveloped(PLAIN), enveloped(PLAIN)[0][:-1] + b"]"]) is None
    assert fields_of(converter(), enveloped(PLAIN, blank=b" ")) is None
    assert fields_of(converter(), [b'{"payload":1,"schema":null}']) is None


def test_another_schema_is_found_in_the_next_batch() -> None:
    json = converter()
    for fields in ([{"field": "x", "type": "int32"}], [{"field": "x", "type": "string"}]):
        value = 1 if fields[0]["type"] == "int32" else "1"
        payload = orjson.dumps({"x": value})
        found = fields_of(json, enveloped(payload, fields=fields))
        assert found is not None
        assert found.values == [{"x": value}]


def test_a_schema_of_the_settings_reads_bare_payloads() -> None:
    schema = orjson.dumps({"type": "struct", "fields": FIELDS}).decode()
    fields = fields_of(converter(schema_content=schema), [PLAIN])
    assert fields is not None
    assert fields.values[0]["l"] == 3


def test_nulls_among_the_cells_are_none() -> None:
    assert fields_of(converter(schemas_enable="false"), [b'{"a":1}', None]) is None
    assert fields_of(converter(schemas_enable="false"), []) is None


def test_a_part_of_an_array_is_read_from_where_it_begins() -> None:
    cells = pa.array([b"no", b'{"a":1}', b'{"a":2}', b"json"], pa.binary()).slice(1, 2)
    fields = converter(schemas_enable="false").to_fields(Cells(cells, BYTES))
    assert fields is not None
    assert fields.values == [{"a": 1}, {"a": 2}]
    cells = pa.array([b"no", *enveloped(PLAIN, PLAIN), b"json"], pa.binary()).slice(1, 2)
    fields = converter().to_fields(Cells(cells, BYTES))
    assert fields is not None
    assert [value["l"] for value in fields.values] == [3, 3]


@pytest.mark.parametrize("size", [1, 100, -30, -1, None])
def test_a_common_prefix_of_messages_may_be_there_once(size: int | None) -> None:
    """The head is part of the schema, all of it, or some of the payload, too."""
    cells = enveloped(PLAIN, PLAIN.replace(b'"t":true', b'"t":false'))
    head = cells[0][: cells[0].index(b'"t"')][:size]
    rests = pa.array([cell.removeprefix(head) for cell in cells], pa.binary())
    fields = converter().to_fields(Cells(rests, BYTES, head))
    assert fields is not None
    assert_same(fields, one_by_one(converter(), cells))
    assert converter().to_fields(Cells(pa.array([b"", b"}"], pa.binary()), BYTES, head)) is None
    bare = converter(schemas_enable="false").to_fields(Cells(pa.array([b"1}"]), BYTES, b'{"a":'))
    assert bare is not None
    assert bare.values == [{"a": 1}]


def test_a_fast_path_that_fails_is_tried_more_and_more_rarely() -> None:
    attempts = Attempts()
    tried = []
    for batch in range(300):
        if attempts.due():
            tried.append(batch)
            attempts.record(False)
    assert tried[:5] == [0, 2, 6, 14, 30]
    assert tried[-1] - tried[-2] == 64
    while not attempts.due():
        pass
    attempts.record(True)
    assert attempts.due()
    assert attempts.due()
