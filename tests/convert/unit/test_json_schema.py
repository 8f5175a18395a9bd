"""Schemas as JSON: one table, both ways, and what cannot be read."""

from __future__ import annotations

import orjson
import pytest

from penstock.api import Use
from penstock.convert.json import JsonConverter
from penstock.convert.json_read import parse, reader
from penstock.convert.json_schema import read_schema, schema_node
from penstock.data import schema as s
from penstock.data.records import Column
from penstock.data.schema import Schema, Type, Value
from penstock.errors import DataError


def read(text: str) -> Schema | None:
    return read_schema(
        parse(text.encode()), lambda schema, node: reader(schema, replace_null=True)(node)
    )


def written(schema: Schema) -> str:
    return orjson.dumps(schema_node(schema, lambda _, value: value)).decode()


SCHEMAS: list[tuple[Schema, str]] = [
    (s.BOOLEAN, '{"type":"boolean","optional":false}'),
    (s.INT8, '{"type":"int8","optional":false}'),
    (s.INT16, '{"type":"int16","optional":false}'),
    (s.INT32, '{"type":"int32","optional":false}'),
    (s.OPTIONAL_INT64, '{"type":"int64","optional":true}'),
    (s.FLOAT32, '{"type":"float","optional":false}'),
    (s.FLOAT64, '{"type":"double","optional":false}'),
    (s.BYTES, '{"type":"bytes","optional":false}'),
    (s.STRING, '{"type":"string","optional":false}'),
    (
        s.array(s.OPTIONAL_STRING),
        '{"type":"array","items":{"type":"string","optional":true},"optional":false}',
    ),
    (
        s.map_of(s.STRING, s.INT8, optional=True),
        '{"type":"map","keys":{"type":"string","optional":false},'
        '"values":{"type":"int8","optional":false},"optional":true}',
    ),
    (
        s.struct({"a": s.INT8, "b": s.decimal(2, optional=True)}, name="ab", version=2),
        '{"type":"struct","fields":[{"type":"int8","optional":false,"field":"a"},'
        '{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal",'
        '"version":1,"parameters":{"scale":"2"},"field":"b"}],'
        '"optional":false,"name":"ab","version":2}',
    ),
    (s.struct({}), '{"type":"struct","fields":[],"optional":false}'),
    (
        Schema(
            Type.STRING,
            name="n",
            version=1,
            doc="d",
            parameters={"z": "1", "a": "2"},
            default="x",
        ),
        '{"type":"string","optional":false,"name":"n","version":1,"doc":"d",'
        '"parameters":{"z":"1","a":"2"},"default":"x"}',
    ),
]


@pytest.mark.parametrize(("schema", "text"), SCHEMAS)
def test_a_schema_is_written_in_the_order_of_the_jvm(schema: Schema, text: str) -> None:
    assert written(schema) == text


@pytest.mark.parametrize(("schema", "text"), SCHEMAS)
def test_a_written_schema_reads_as_itself(schema: Schema, text: str) -> None:
    assert read(text) == schema


def test_null_describes_no_schema() -> None:
    assert read("null") is None


def test_optional_is_false_and_unknown_members_are_nothing_unless_said() -> None:
    assert read('{"type":"int8","color":"red"}') == s.INT8


def test_members_of_another_json_type_count_as_missing() -> None:
    text = (
        '{"type":"int8","optional":"true","name":1,"version":"1","doc":[],"parameters":3,"items":1}'
    )
    assert read(text) == s.INT8


def test_a_default_is_read_as_a_payload() -> None:
    schema = read(
        '{"type":"int32","name":"org.apache.kafka.connect.data.Date","version":1,"default":0}'
    )
    assert schema is not None
    assert str(schema.default) == "1970-01-01"


def test_a_null_default_of_an_optional_schema_is_none() -> None:
    assert read('{"type":"int8","optional":true,"default":null}') == s.OPTIONAL_INT8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "Schema must contain 'type' field"),
        ('{"type":1}', "Schema must contain 'type' field"),
        ('"int8"', "Schema must contain 'type' field"),
        ('{"type":"int7"}', "Unknown schema type: int7"),
        ('{"type":"array"}', "Array schema did not specify the element type"),
        ('{"type":"array","items":null}', "Array schema did not specify the element type"),
        (
            '{"type":"map","values":{"type":"int8"}}',
            "Map schema did not specify the key type",
        ),
        (
            '{"type":"map","keys":{"type":"int8"}}',
            "Map schema did not specify the value type",
        ),
        ('{"type":"map","keys":null,"values":{"type":"int8"}}', "keySchema cannot be null."),
        ('{"type":"struct"}', 'Struct schema\'s "fields" argument is not an array.'),
        ('{"type":"struct","fields":{}}', 'Struct schema\'s "fields" argument is not an array.'),
        (
            '{"type":"struct","fields":[{"type":"int8"}]}',
            "Struct schema's field name not specified properly",
        ),
        (
            '{"type":"struct","fields":[null]}',
            "Struct schema's field name not specified properly",
        ),
        (
            '{"type":"struct","fields":[{"type":"int8","field":"a"},{"type":"int8","field":"a"}]}',
            "Cannot create field because of field name duplication a",
        ),
        ('{"type":"int8","parameters":{"a":1}}', "Schema parameters must have string values."),
        ('{"type":"int8","default":null}', "Invalid null value for required INT8 field"),
        ('{"type":"string","default":5}', "Invalid default value"),
    ],
)
def test_an_invalid_schema_says_why(text: str, message: str) -> None:
    with pytest.raises(DataError) as refused:
        read(text)
    assert str(refused.value) == message


def test_an_invalid_schema_fails_only_the_rows_that_carry_it() -> None:
    converter = JsonConverter(JsonConverter.plugin.config.parse({}), Use.VALUE)
    good = b'{"schema":{"type":"int8"},"payload":1}'
    bad = b'{"schema":{"type":"int7"},"payload":1}'
    failed: dict[int, Exception] = {}
    column = converter.to_connect(["t"] * 4, [bad, good, bad, good], failed)
    assert column.values == [None, 1, None, 1]
    assert [str(failed[row]) for row in (0, 2)] == ["Unknown schema type: int7"] * 2
    assert len(failed) == 2


def defaults() -> list[tuple[Schema, Value, str]]:
    return [
        (Schema(Type.INT8, default=5), 5, '{"type":"int8","optional":false,"default":5}'),
        (
            Schema(Type.BYTES, default=b"\x01"),
            b"\x01",
            '{"type":"bytes","optional":false,"default":"AQ=="}',
        ),
    ]


@pytest.mark.parametrize(("schema", "value", "text"), defaults())
def test_a_default_is_written_in_its_payload_form(schema: Schema, value: Value, text: str) -> None:
    converter = JsonConverter(JsonConverter.plugin.config.parse({}), Use.VALUE)
    (cell,) = converter.from_connect(["t"], Column.of([value], schema), {})
    assert cell is not None
    assert cell.startswith(f'{{"schema":{text},"payload":'.encode())
