"""JsonConverter: tables of values and bytes, read both ways, in pieces and mixed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from penstock.api import Failed
from penstock.data import schema as s
from penstock.data.records import Column, Run
from penstock.data.schema import Schema, Type, Value
from penstock.errors import ConfigInvalid, DataError

from .json_converter import converter, read, read_one, refusal, write

BARE = {"schemas.enable": "false"}
NUMERIC = {"decimal.format": "numeric"}
KEEP_NULL = {"replace.null.with.default": "false"}
NOT_READ = "Converting byte[] to Kafka Connect data failed due to serialization error: "
NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
    "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false "
    "in your converter configuration."
)

ORDER = s.struct(
    {"id": s.INT32, "price": s.decimal(2, optional=True), "ts": s.TIMESTAMP}, name="Order"
)

# Schema, value, and its payload: written and read.
VALUES: list[tuple[Schema, Value, str]] = [
    (s.BOOLEAN, True, "true"),
    (s.INT8, -128, "-128"),
    (s.INT16, 32767, "32767"),
    (s.INT32, -(2**31), "-2147483648"),
    (s.INT64, 2**63 - 1, "9223372036854775807"),
    (s.FLOAT32, s.float32(0.1), "0.1"),
    (s.FLOAT64, 0.1, "0.1"),
    (s.FLOAT64, 100.0, "100.0"),
    (s.STRING, 'ü"\\\n', '"ü\\"\\\\\\n"'),
    (s.STRING, "", '""'),
    (s.BYTES, b"\x00\xff", '"AP8="'),
    (s.BYTES, b"", '""'),
    (s.OPTIONAL_STRING, None, "null"),
    (s.array(s.INT8), [1, 2], "[1,2]"),
    (s.array(s.OPTIONAL_INT8), [1, None], "[1,null]"),
    (s.array(s.STRING), [], "[]"),
    (s.map_of(s.STRING, s.INT8), {"b": 1, "a": 2}, '{"b":1,"a":2}'),
    (s.map_of(s.INT32, s.STRING), {1: "x"}, '[[1,"x"]]'),
    (s.map_of(s.INT32, s.STRING), {}, "[]"),
    (s.map_of(s.array(s.INT8), s.BYTES), [([1], b"\x01")], '[[[1],"AQ=="]]'),
    (s.decimal(2), Decimal("2.00"), '"AMg="'),
    (s.DATE, date(2024, 2, 29), "19782"),
    (s.TIME, time(0, 0, 1, 5000), "1005"),
    (s.TIMESTAMP, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "1700000000000"),
    (s.TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), "-1"),
    (
        ORDER,
        {
            "id": 1,
            "price": Decimal("2.00"),
            "ts": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        },
        '{"id":1,"price":"AMg=","ts":1700000000000}',
    ),
    (
        ORDER,
        {"id": 1, "price": None, "ts": datetime(1970, 1, 1, tzinfo=UTC)},
        '{"id":1,"price":null,"ts":0}',
    ),
    (
        s.struct({"a": s.struct({"b": s.array(s.struct({"c": s.OPTIONAL_STRING}))})}),
        {"a": {"b": [{"c": "x"}, {"c": None}]}},
        '{"a":{"b":[{"c":"x"},{"c":null}]}}',
    ),
]


@pytest.mark.parametrize(("schema", "value", "payload"), VALUES)
def test_a_value_is_written_bare(schema: Schema, value: Value, payload: str) -> None:
    assert write(Column.of([value], schema), BARE) == ([payload.encode()], {})


@pytest.mark.parametrize(("schema", "value", "payload"), VALUES)
def test_a_value_is_written_in_an_envelope_and_read_from_it(
    schema: Schema, value: Value, payload: str
) -> None:
    (cell,), failed = write(Column.of([value], schema))
    assert not failed
    assert cell is not None
    assert cell.startswith(b'{"schema":{"type":')
    assert cell.endswith(f',"payload":{payload}}}'.encode())
    assert read([cell] * 3) == (Column.of([value] * 3, schema), {})


@pytest.mark.parametrize(("schema", "value", "payload"), VALUES)
def test_a_payload_alone_reads_by_the_configured_schema(
    schema: Schema, value: Value, payload: str
) -> None:
    (cell,), _ = write(Column.of([value], schema))
    assert cell is not None
    content = json.dumps(json.loads(cell)["schema"], indent=1)
    assert read([payload.encode(), None], {"schema.content": content}) == (
        Column([value, None], [Run(1, schema), Run(2, None)]),
        {},
    )


def test_the_envelope_is_byte_for_byte_the_jvms() -> None:
    value = {"id": 1, "price": Decimal("2.00"), "ts": datetime(2023, 11, 14, 22, 13, 20, 0, UTC)}
    cells, _ = write(Column.of([value], ORDER))
    assert cells == [
        b'{"schema":{"type":"struct","fields":['
        b'{"type":"int32","optional":false,"field":"id"},'
        b'{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal",'
        b'"version":1,"parameters":{"scale":"2"},"field":"price"},'
        b'{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp",'
        b'"version":1,"field":"ts"}],"optional":false,"name":"Order"},'
        b'"payload":{"id":1,"price":"AMg=","ts":1700000000000}}'
    ]


def test_a_struct_is_written_in_schema_order_with_all_its_fields() -> None:
    schema = s.struct({"a": s.INT8, "b": s.OPTIONAL_STRING, "c": s.INT8})
    assert write(Column.of([{"c": 3, "a": 1}], schema), BARE)[0] == [b'{"a":1,"b":null,"c":3}']


SCHEMALESS: list[tuple[Value, str]] = [
    (True, "true"),
    (1, "1"),
    (-(2**63), "-9223372036854775808"),
    (1.5, "1.5"),
    ("x", '"x"'),
    ([1, "a", None], '[1,"a",null]'),
    ({"a": {"b": [1.0]}}, '{"a":{"b":[1.0]}}'),
    ({}, "{}"),
    ("1234567890123456789012", '"1234567890123456789012"'),
    ({"id": 9223372036854775807}, '{"id":9223372036854775807}'),
]


@pytest.mark.parametrize(("value", "text"), SCHEMALESS)
def test_a_schemaless_value_is_plain_json(value: Value, text: str) -> None:
    column = Column([value, None], [Run(2, None)])
    assert write(column, BARE) == ([text.encode(), None], {})
    assert read([text.encode(), None], BARE) == (column, {})


@pytest.mark.parametrize(("value", "text"), SCHEMALESS)
def test_a_schemaless_value_has_a_null_schema_in_the_envelope(value: Value, text: str) -> None:
    column = Column([value, None, value], [Run(3, None)])
    cell = f'{{"schema":null,"payload":{text}}}'.encode()
    assert write(column) == ([cell, None, cell], {})
    assert read([cell, None, cell]) == (column, {})


def test_a_schemaless_map_with_other_keys_is_an_array_of_pairs() -> None:
    column = Column.of([{"a": 1, 2: "b"}, {"x": {1: b"\x01"}}], None)
    assert write(column, BARE)[0] == [b'[["a",1],[2,"b"]]', b'{"x":[[1,"AQ=="]]}']


@pytest.mark.parametrize(
    ("value", "place", "java"),
    [
        (Decimal("1.5"), "", "class java.math.BigDecimal"),
        ([date(2024, 1, 1)], "Field '[0]': ", "class java.util.Date"),
        ({"a": {"b": [0, 2**70]}}, "Field 'a.b[1]': ", "class java.math.BigInteger"),
        ({1: Decimal(1)}, "Field '[1]': ", "class java.math.BigDecimal"),
    ],
)
def test_a_logical_value_needs_a_schema(value: Value, place: str, java: str) -> None:
    _, failed = write(Column.of([value, 1], None), BARE)
    assert failed == {0: f"{place}Java class {java} does not have corresponding schema type."}


def test_a_lone_surrogate_is_written_as_an_escape() -> None:
    assert write(Column.of(["\ud800"], None), BARE)[0] == [b'"\\ud800"']
    assert write(Column.of([{"a": "\ud800"}], s.struct({"a": s.STRING})), BARE)[0] == [
        b'{"a":"\\ud800"}'
    ]


def test_deep_nesting_is_written_all_the_same() -> None:
    value: Value = 1
    for _ in range(300):
        value = [value]
    assert write(Column.of([value], None), BARE)[0] == [b"[" * 300 + b"1" + b"]" * 300]


@pytest.mark.parametrize(
    ("value", "text"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (-1e999, "-Infinity")]
)
def test_numbers_that_json_lacks_are_texts(value: float, text: str) -> None:
    quoted = f'"{text}"'.encode()
    assert write(Column.of([value], None), BARE)[0] == [quoted]
    assert write(Column.of([[None, {"a": value}]], None), BARE)[0] == [b'[null,{"a":%b}]' % quoted]
    assert write(Column.of([value], s.FLOAT64), BARE)[0] == [quoted]
    assert write(Column.of([value], s.FLOAT32), BARE)[0] == [quoted]
    in_struct = Column.of([{"a": value}], s.struct({"a": s.FLOAT64}))
    assert write(in_struct, BARE)[0] == [b'{"a":%b}' % quoted]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775808", -(2**63)),
        ("[18446744073709551621]", [5]),
        ('{"a":123456789012345678901234567890}', {"a": -4362896299872285998}),
        ("1e400", float("inf")),
        ('{"a":"1e400","b":1e400}', {"a": "1e400", "b": float("inf")}),
        ("007", 7),
        ('{"a":-007.50,"b":"00","c":[1e05,0,0.5,100]}', None),
        ("1 2", 1),
        ('{"a":1} trailing', {"a": 1}),
        ('{"a":1,"a":2}', {"a": 2}),
        (" \n", None),
        ("", None),
        ('"\\ud800"', "\ud800"),
        ("-0", 0),
    ],
)
def test_texts_that_jackson_reads_are_read(text: str, value: Value) -> None:
    if value is None and text.strip():
        value = {"a": -7.5, "b": "00", "c": [1e05, 0, 0.5, 100]}
    assert read_one(text.encode(), BARE) == value


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32-le", "utf-8-sig"])
def test_json_in_another_unicode_encoding_is_recognised(encoding: str) -> None:
    assert read_one('{"ä":[1]}'.encode(encoding), BARE) == {"ä": [1]}


@pytest.mark.parametrize(
    "cell",
    [
        b"{",
        b"{'a':1}",
        b"[1,]",
        b"NaN",
        b"nul",
        b"1x",
        b'"\xff"',
        b'{"a":01x}',
        b"\x80",
        b"[" * 100_000,
    ],
)
def test_bad_json_is_a_data_error_with_its_cause(cell: bytes) -> None:
    failed: Failed = {}
    column = converter(BARE).to_connect(["t"] * 3, [b"1", cell, b"2"], failed)
    assert column == Column.of([1, None, 2], None)
    assert str(failed[1]) == NOT_READ
    assert failed[1].__cause__ is not None
    assert refusal(cell) == NOT_READ


@pytest.mark.parametrize(
    "cell",
    [
        b"1",
        b"null",
        b"{}",
        b"",
        b'{"schema":null}',
        b'{"payload":1}',
        b'{"schema":null,"payload":1,"more":2}',
        b'{"schema":{"type":"int8"},"payload":1,"more":2}',
        b'{"schema":null,"payload":{"a":1},"more":2}',
    ],
)
def test_an_envelope_has_exactly_two_members(cell: bytes) -> None:
    seen = b'{"schema":{"type":"int8"},"payload":1}'
    bare = b'{"schema":null,"payload":1}'
    assert refusal(cell) == NO_ENVELOPE
    assert read([seen, cell, seen])[1] == {1: NO_ENVELOPE}
    assert read([bare, cell, bare])[1] == {1: NO_ENVELOPE}


@pytest.mark.parametrize(
    "cell",
    [
        b'{"schema":{"type":"int8"},"payload":5}',
        b'{"payload":5,"schema":{"type":"int8"}}',
        b' { "schema" : {"type":"int8"} , "payload" : 5 } ',
        b'{"schema": {"type": "int8"}, "payload": 5}\n',
        b'{"schema":{"type":"int8"},"payload":5} {"schema":',
        b'{"schema":{"type":"int8"},"payload":4,"payload":5}',
        b'{"schema":{"type":"int8"},"payload":05}',
        b'{"\\u0073chema":{"type":"int8"},"payload":5}',
        b'{"schema":{"x":1,"payload":3,"type":"int8"},"payload":5}',
        b'{"schema":{"doc":[",\\"payload\\":"],"type":"int8"},"payload":5}',
    ],
)
def test_an_envelope_is_read_however_it_is_laid_out(cell: bytes) -> None:
    seen = b'{"schema":{"type":"int8"},"payload":5}'
    assert read([cell, seen, cell, cell]) == (Column.of([5] * 4, s.INT8), {})


def test_messages_of_several_schemas_become_runs() -> None:
    one = b'{"schema":{"type":"int8"},"payload":1}'
    two = b'{"schema":{"type":"string","optional":true},"payload":null}'
    # An equal schema spelled otherwise starts no new run.
    same = b'{"schema":{"optional":false,"type":"int8"},"payload":2}'
    bad = b'{"schema":{"type":"int8"},"payload":'
    column, failed = read([one, same, bad, two, None, two, one])
    assert column == Column(
        [1, 2, None, None, None, None, 1],
        [
            Run(3, s.INT8),
            Run(4, s.OPTIONAL_STRING),
            Run(5, None),
            Run(6, s.OPTIONAL_STRING),
            Run(7, s.INT8),
        ],
    )
    assert failed == {2: NOT_READ}


def test_a_column_of_failures_has_one_schemaless_run() -> None:
    column, failed = read([b"x", b"y"])
    assert column == Column([None, None], [Run(2, None)])
    assert len(failed) == 2


def test_rows_that_fail_first_belong_to_the_first_run() -> None:
    column, _ = read([b"x", b'{"schema":{"type":"int8"},"payload":1}'])
    assert column.runs == [Run(2, s.INT8)]


def test_more_schemas_than_the_cache_holds_are_read_all_the_same() -> None:
    cells = [
        b'{"schema":{"type":"int8","version":%d},"payload":%d}' % (version, version)
        for version in range(5)
    ] * 2
    column, failed = read(cells, {"schemas.cache.size": "0"})
    assert column.values == [*range(5), *range(5)]
    assert not failed
    schemas = [Schema(Type.INT8, version=version) for version in range(5)]
    written, _ = write(Column.gather([1] * 5, schemas), {"schemas.cache.size": "2"})
    assert read(written)[0] == Column.gather([1] * 5, schemas)


def test_tombstones_and_nulls_are_different_things() -> None:
    column = Column([None, None], [Run(1, None), Run(2, s.OPTIONAL_INT8)])
    envelope = b'{"schema":{"type":"int8","optional":true},"payload":null}'
    assert write(column) == ([None, envelope], {})
    assert write(column, BARE) == ([None, b"null"], {})
    assert read([None, envelope]) == (column, {})


def test_a_null_that_is_required_fails_its_row() -> None:
    message = "Conversion error: null value for field that is required and has no default value"
    assert write(Column.of([1, None, 2], s.INT8), BARE) == ([b"1", None, b"2"], {1: message})
    assert write(Column.of([{}], s.struct({"a": s.INT8})), BARE)[1] == {0: f"Field 'a': {message}"}


WITH_DEFAULT = Schema(Type.INT32, optional=True, default=7)


def test_a_null_is_replaced_by_the_default_when_asked_for() -> None:
    schema = s.struct({"a": WITH_DEFAULT})
    column = Column.of([{"a": None}, {}], schema)
    assert write(column, BARE)[0] == [b'{"a":7}', b'{"a":7}']
    assert write(column, BARE | KEEP_NULL)[0] == [b'{"a":null}', b'{"a":null}']
    cells, _ = write(column, KEEP_NULL)
    assert read(cells)[0].values == [{"a": 7}, {"a": 7}]
    assert read(cells, KEEP_NULL)[0].values == [{"a": None}, {"a": None}]
    assert write(Column.of([None], WITH_DEFAULT), BARE)[0] == [b"7"]


def test_a_required_null_has_no_default_when_not_asked_for() -> None:
    schema = s.struct({"a": Schema(Type.INT32, default=7)})
    column = Column.of([{"a": None}], schema)
    assert write(column, BARE)[0] == [b'{"a":7}']
    assert 0 in write(column, BARE | KEEP_NULL)[1]
    cell = (
        b'{"schema":{"type":"struct","fields":[{"type":"int32","default":7,"field":"a"}]},'
        b'"payload":{}}'
    )
    assert read_one(cell) == {"a": 7}
    message = "Field 'a': Invalid null value for required INT32 field"
    assert refusal(cell, KEEP_NULL) == message


def test_fields_may_be_missing_added_or_in_another_order() -> None:
    head = (
        '{"schema":{"type":"struct","fields":[{"type":"int8","field":"a"},'
        '{"type":"string","optional":true,"field":"b"}]},"payload":'
    )
    cells = [
        f"{head}{payload}}}".encode()
        for payload in ('{"b":"x","a":1}', '{"a":1}', '{"a":1,"b":"x","c":0}', '{"b":"x"}')
    ]
    column, failed = read(cells)
    assert column.values == [{"a": 1, "b": "x"}, {"a": 1, "b": None}, {"a": 1, "b": "x"}, None]
    assert list(column.values[0]) == ["a", "b"]
    assert failed == {3: "Field 'a': Invalid null value for required INT8 field"}


def test_numeric_decimals_keep_every_digit() -> None:
    value = {"a": Decimal("123456789012345678901234567890.10"), "b": Decimal("1.50")}
    schema = s.struct({"a": s.decimal(2), "b": s.decimal(2)})
    column = Column.of([value], schema)
    assert write(column, BARE | NUMERIC)[0] == [b'{"a":123456789012345678901234567890.10,"b":1.50}']
    cells, _ = write(column, NUMERIC)
    (back,) = read(cells)[0].values
    assert {name: str(each) for name, each in back.items()} == {
        "a": "123456789012345678901234567890.10",
        "b": "1.50",
    }


def test_a_32_bit_float_is_written_with_its_own_digits() -> None:
    values = [s.float32(1.1), s.float32(16777216.0), s.float32(1e-45)]
    cells, _ = write(Column.of(values, s.FLOAT32), BARE)
    assert [json.loads(cell or b"") for cell in cells] == [1.1, 16777216.0, 1.4e-45]


@pytest.mark.parametrize("text", ["{", '{"type":"int8'])
def test_a_configured_schema_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(
        DataError, match="Failed to parse schema in converter config due to serialization error"
    ):
        converter({"schema.content": text})


@pytest.mark.parametrize("content", ["", " ", "null"])
def test_no_configured_schema_leaves_the_envelope_in_place(content: str) -> None:
    cell = b'{"schema":{"type":"int8"},"payload":1}'
    assert read([cell], {"schema.content": content})[0] == Column.of([1], s.INT8)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('{"type":"int8"}', 0),
        ('{"type":"int8","optional":true}', 0),
        ('{"type":"string","optional":true}', None),
        ('{"type":"array","items":{"type":"int8"}}', []),
    ],
)
@pytest.mark.parametrize("cell", [b"", b" \n"])
def test_an_empty_message_is_missing_rather_than_null(
    cell: bytes, schema: str, value: Value
) -> None:
    assert read_one(cell, {"schema.content": schema}) == value


def test_a_configured_schema_is_for_reading_enveloped_messages_only() -> None:
    content = {"schema.content": '{"type":"int8"}'}
    assert read([b"1"], content | BARE)[0] == Column.of([1], None)
    assert write(Column.of(["x"], s.STRING), content)[0] == [
        b'{"schema":{"type":"string","optional":false},"payload":"x"}'
    ]


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        converter({"decimal.format": "HEX", "schemas.enable": "maybe"})
    assert refused.value.problems == (
        "Invalid value maybe for configuration schemas.enable: "
        "Expected value to be either true or false",
        "Invalid value HEX for configuration decimal.format: "
        "String must be one of (case insensitive): NUMERIC, BASE64",
    )


def test_a_schemaless_part_of_a_schema_takes_anything() -> None:
    schema = Schema(Type.ARRAY)
    assert write(Column.of([[1, "a", None, {"b": b"\x01"}]], schema), BARE)[0] == [
        b'[1,"a",null,{"b":"AQ=="}]'
    ]
