"""JsonConverter: payloads and values that do not fit their schema."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from penstock.data import schema as s
from penstock.data.records import Column, Run
from penstock.data.schema import Schema, Type, Value

from .json_converter import read_one, refusal, write


def payload_of(schema: str, payload: str) -> Value:
    return read_one(f'{{"schema":{schema},"payload":{payload}}}'.encode())


DECIMAL = (
    '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}'
)
DATE = '{"type":"int32","name":"org.apache.kafka.connect.data.Date"}'
TIME = '{"type":"int32","name":"org.apache.kafka.connect.data.Time"}'
TIMESTAMP = '{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"}'


@pytest.mark.parametrize(
    ("schema", "payload", "value"),
    [
        ('{"type":"int8"}', "300", 44),
        ('{"type":"int16"}', "40000", -25536),
        ('{"type":"int32"}', "4294967297", 1),
        ('{"type":"int32"}', "1.9", 1),
        ('{"type":"int32"}', "0.99999999999999999999", 0),
        ('{"type":"int32"}', "1e30", 1073741824),
        ('{"type":"int64"}', "1e999999", 0),
        ('{"type":"int64"}', "18446744073709551621", 5),
        ('{"type":"int8"}', '"7"', 0),
        ('{"type":"int8"}', "true", 0),
        ('{"type":"float"}', "0.1", 0.10000000149011612),
        ('{"type":"float"}', "1e39", float("inf")),
        ('{"type":"double"}', "3", 3.0),
        ('{"type":"double"}', "1e400", float("inf")),
        ('{"type":"double"}', "1" + "0" * 400, float("inf")),
        ('{"type":"double"}', '"NaN"', 0.0),
        ('{"type":"double"}', "true", 0.0),
        ('{"type":"boolean"}', "1", False),
        ('{"type":"string"}', "1", None),
        ('{"type":"bytes"}', "1", None),
        ('{"type":"bytes"}', '" AP8B\\n AP8= "', b"\x00\xff\x01\x00\xff"),
        ('{"type":"array","items":{"type":"int8"}}', "5", []),
        ('{"type":"array","items":{"type":"int8"}}', '{"a":1,"b":2}', [1, 2]),
        (DECIMAL, "1.50", Decimal("1.50")),
        (DECIMAL, "15", Decimal(15)),
        (
            DECIMAL,
            "123456789012345678901234567890.12",
            Decimal("123456789012345678901234567890.12"),
        ),
        (DECIMAL, '"AMg="', Decimal("2.00")),
    ],
)
def test_payloads_of_another_type_read_as_jackson_reads_them(
    schema: str, payload: str, value: Value
) -> None:
    got = payload_of(schema, payload)
    assert got == value
    assert type(got) is type(value)
    assert str(got) == str(value)


STRUCT = '{"type":"struct","fields":[{"type":%s,"field":"a"}]}'


@pytest.mark.parametrize(
    ("schema", "payload", "message"),
    [
        ('{"type":"int8"}', "null", "Invalid null value for required INT8 field"),
        ('{"type":"bytes"}', '"AP8"', "Invalid bytes field"),
        ('{"type":"bytes"}', '"ü"', "Invalid bytes field"),
        ('{"type":"bytes"}', '" A P\\n8= "', "Invalid bytes field"),
        (
            '{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}}',
            "[]",
            "Maps with string fields should be encoded as JSON objects, but found ARRAY",
        ),
        (
            '{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}}',
            "{}",
            "Maps with non-string fields should be encoded as JSON array of tuples, "
            "but found OBJECT",
        ),
        (
            '{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}}',
            "[5]",
            "Found invalid map entry instead of array tuple: NUMBER",
        ),
        (
            '{"type":"map","keys":{"type":"int8"},"values":{"type":"int8"}}',
            "[[1,2,3]]",
            "Found invalid map entry, expected length 2 but found :3",
        ),
        (
            STRUCT % '"int8"',
            '"x"',
            "Structs should be encoded as JSON objects, but found STRING",
        ),
        (STRUCT % '"int8"', "{}", "Field 'a': Invalid null value for required INT8 field"),
        (
            STRUCT % '"string"',
            '{"a":5}',
            "Field 'a': Invalid value: null used for required field: \"a\", schema type: STRING",
        ),
        (
            STRUCT % '"array","items":{"type":"string"}',
            '{"a":[5]}',
            "Field 'a[0]': Invalid value: null used for required element of array "
            'field: "a", schema type: STRING',
        ),
        (
            DECIMAL,
            "true",
            "Invalid type for Decimal, underlying representation should be numeric or bytes "
            "but was BOOLEAN",
        ),
        (DECIMAL, '"!"', "Invalid bytes for Decimal field"),
        (DECIMAL, '""', "Invalid bytes for Decimal field"),
        (
            DATE,
            "1.5",
            "Invalid type for Date, underlying representation should be integer but was NUMBER",
        ),
        (
            TIME,
            "2147483648",
            "Invalid type for Time, underlying representation should be integer but was NUMBER",
        ),
        (
            TIMESTAMP,
            '"1"',
            "Invalid type for Timestamp, underlying representation should be integral "
            "but was STRING",
        ),
        (
            TIMESTAMP,
            "1.5",
            "Invalid type for Timestamp, underlying representation should be integral "
            "but was NUMBER",
        ),
        (
            TIME,
            "-1",
            "Time values must use number of milliseconds greater than 0 and less than 86400000",
        ),
    ],
)
def test_a_payload_its_schema_cannot_take_says_why(schema: str, payload: str, message: str) -> None:
    assert refusal(f'{{"schema":{schema},"payload":{payload}}}'.encode()) == message


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (s.INT8, "x", "Invalid type for INT8: class java.lang.String"),
        (s.INT8, 128, "Invalid type for INT8: class java.lang.Long"),
        (s.INT32, True, "Invalid type for INT32: class java.lang.Boolean"),
        (s.INT64, 2**63, "Invalid type for INT64: class java.math.BigInteger"),
        (s.FLOAT64, 1, "Invalid type for FLOAT64: class java.lang.Long"),
        (s.FLOAT32, "x", "Invalid type for FLOAT32: class java.lang.String"),
        (s.BOOLEAN, 1, "Invalid type for BOOLEAN: class java.lang.Long"),
        (s.STRING, b"x", "Invalid type for STRING: class [B"),
        (s.BYTES, "x", "Invalid type for bytes type: class java.lang.String"),
        (s.array(s.INT8), {}, "Invalid type for ARRAY: class java.util.HashMap"),
        (s.map_of(s.STRING, s.INT8), [], "Invalid type for MAP: class java.util.ArrayList"),
        (s.map_of(s.INT8, s.INT8), 5, "Invalid type for MAP: class java.lang.Long"),
        (s.struct({}), 5, "Invalid type for STRUCT: class java.lang.Long"),
        (s.struct({"a": s.INT8}), {"a": 1, "b": 2}, "Mismatching schema."),
        (
            s.decimal(2),
            5,
            "Invalid type for Decimal, expected BigDecimal but was class java.lang.Long",
        ),
        (
            s.decimal(2),
            Decimal("1.5"),
            "Decimal value has mismatching scale for given Decimal schema. "
            "Schema has scale 2, value has scale 1.",
        ),
        (
            s.DATE,
            datetime(2024, 1, 1, tzinfo=UTC),
            "Invalid type for Date, expected Date but was class java.util.Date",
        ),
        (s.TIME, 5, "Invalid type for Time, expected Date but was class java.lang.Long"),
        (
            s.TIMESTAMP,
            "x",
            "Invalid type for Timestamp, expected Date but was class java.lang.String",
        ),
        (
            Schema(Type.BYTES, name=s.Logical.DECIMAL.value),
            Decimal(1),
            "Invalid Decimal schema: scale parameter not found.",
        ),
        (
            Schema(Type.INT8, default="not a number"),
            1,
            "Invalid type for INT8: class java.lang.String",
        ),
    ],
)
def test_a_value_that_is_none_of_its_schemas_fails_its_row(
    schema: Schema, value: Value, message: str
) -> None:
    column = Column([value, "next"], [Run(1, schema), Run(2, s.STRING)])
    cells, failed = write(column)
    assert failed == {0: message}
    assert cells[1] is not None
