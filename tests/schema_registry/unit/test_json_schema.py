"""JsonSchemaConverter: tables of values, and the registry's requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from penstock.api import Failed, Use
from penstock.convert.json_write import DecimalFormat, dump
from penstock.data import schema as s
from penstock.data.records import Column
from penstock.data.schema import Schema, Type, Value
from penstock.errors import DataError
from penstock.schema_registry.json_schema import JsonSchemaConverter
from penstock.schema_registry.json_schema_names import ABSENT, ONE_OF_FIELD, Options
from penstock.schema_registry.json_schema_read import reader
from penstock.schema_registry.json_schema_schema import json_schema
from penstock.schema_registry.json_schema_write import writer
from penstock.schema_registry.transport import MockTransport

from .json_schema_examples import BOOK, COLOR, PLAIN, UNION_OF, one_of

NOT_READ = "Converting byte[] to Kafka Connect data failed due to serialization error of topic t: "

# schema, value, its JSON: written and read.
VALUES: list[tuple[Schema, Value, str]] = [
    (s.INT8, -128, "-128"),
    (s.INT64, 2**63 - 1, "9223372036854775807"),
    (s.FLOAT32, 0.10000000149011612, "0.1"),
    (s.FLOAT64, 1.5, "1.5"),
    (s.BOOLEAN, True, "true"),
    (s.STRING, "ü", '"ü"'),
    (s.BYTES, b"12", '"MTI="'),
    (s.decimal(2), Decimal("1.25"), '"fQ=="'),
    (s.DATE, date(2020, 2, 29), "18321"),
    (s.TIME, time(1, 2, 3, 4000), "3723004"),
    (s.TIMESTAMP, datetime(2024, 1, 1, tzinfo=UTC), "1704067200000"),
    (s.array(s.OPTIONAL_INT8), [1, None], "[1,null]"),
    (s.map_of(s.STRING, s.BYTES), {"a": b"12"}, '{"a":"MTI="}'),
    (s.map_of(s.INT32, s.BOOLEAN), {5: True}, '[{"key":5,"value":true}]'),
    (
        s.map_of(s.array(s.INT8), s.OPTIONAL_BOOLEAN),
        [([1], None)],
        '[{"key":[1],"value":null}]',
    ),
    (BOOK, {"title": "x", "pages": None}, '{"title":"x","pages":null}'),
    (
        s.struct({"b": BOOK, "l": s.array(BOOK)}),
        {"b": {"title": "x", "pages": 1}, "l": [{"title": "y", "pages": None}]},
        '{"b":{"title":"x","pages":1},"l":[{"title":"y","pages":null}]}',
    ),
    (UNION_OF, {f"{ONE_OF_FIELD}0": "x"}, '"x"'),
    (UNION_OF, {f"{ONE_OF_FIELD}1": 7}, "7"),
    (COLOR, "red", '"red"'),
]


@pytest.mark.parametrize(("schema", "value", "text"), VALUES)
def test_values_are_written_and_read(schema: Schema, value: Value, text: str, scope: Scope) -> None:
    converter = scope()
    before = deepcopy(value)
    (cell,) = write(converter, Column.of([value], schema))
    assert value == before
    assert cell == b"\0\0\0\0\1" + text.encode()
    column = read(converter, [cell])
    assert column.values == [value]
    assert column.runs[0].schema == replace(schema, version=schema.version or 1)


Scope = Callable[..., JsonSchemaConverter]
Register = Callable[..., int]

_numbers = count(1)


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a registry for one test."""
    name = f"json-schema-{next(_numbers)}"
    yield f"mock://{name}"
    MockTransport.forget(name)


@pytest.fixture
def way(url: str) -> MockTransport:
    """The transport to that registry."""
    return MockTransport(url.removeprefix("mock://"))


@pytest.fixture
def scope(url: str) -> Scope:
    """Makes converters that use the registry."""

    def make(use: Use = Use.VALUE, **props: str) -> JsonSchemaConverter:
        given = {key.replace("__", "."): text for key, text in props.items()}
        given["schema.registry.url"] = url
        return JsonSchemaConverter(JsonSchemaConverter.plugin.config.parse(given), use)

    return make


@pytest.fixture
def registry(way: MockTransport) -> Register:
    """Registers schemas where the converters look for them."""

    def register(subject: str, node: Any, **body: Any) -> int:
        body = {"schema": json.dumps(node), "schemaType": "JSON", **body}
        return int(way.request("POST", f"/subjects/{subject}/versions", {}, body)["id"])

    return register


def write(
    converter: JsonSchemaConverter, column: Column, topics: Sequence[str] | None = None
) -> list[bytes | None]:
    failed: Failed = {}
    cells = converter.from_connect(topics or ["t"] * len(column), column, failed)
    assert not failed
    return cells


def read(converter: JsonSchemaConverter, cells: Sequence[bytes | None]) -> Column:
    failed: Failed = {}
    column = converter.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    return column


def errors_of_writing(converter: JsonSchemaConverter, column: Column) -> dict[int, str]:
    failed: Failed = {}
    cells = converter.from_connect(["t"] * len(column), column, failed)
    assert all(isinstance(error, DataError) for error in failed.values())
    assert [row for row, cell in enumerate(cells) if cell is None] == list(failed)
    return {row: str(error) for row, error in failed.items()}


def errors_of_reading(
    converter: JsonSchemaConverter, cells: Sequence[bytes | None]
) -> dict[int, str]:
    failed: Failed = {}
    column = converter.to_connect(["t"] * len(cells), cells, failed)
    assert all(isinstance(error, DataError) for error in failed.values())
    assert len(column) == len(cells)
    assert all(column.values[row] is None for row in failed)
    return {row: str(error) for row, error in failed.items()}


def test_numeric_decimals_are_numbers_of_the_same_digits(scope: Scope) -> None:
    converter = scope(decimal__format="numeric")
    schema = s.struct({"d": s.decimal(3)})
    value = {"d": Decimal("123456789012345678901234567890.120")}
    (cell,) = write(converter, Column.of([value], schema))
    assert cell is not None
    assert cell[5:] == b'{"d":123456789012345678901234567890.120}'
    (back,) = read(converter, [cell]).values
    assert str(back["d"]) == "123456789012345678901234567890.120"


def test_null_is_a_tombstone_without_a_schema_or_a_way_to_say_it(
    scope: Scope, registry: Register
) -> None:
    converter = scope()
    assert write(converter, Column.of([None], None)) == [None]
    assert write(converter, Column.of([None], s.STRING)) == [None]
    # Nothing was registered for it, so the first schema registered has the first id.
    assert registry("other", {"type": "boolean"}) == 1
    assert write(converter, Column.of([None, "x"], s.OPTIONAL_STRING)) == [
        b"\0\0\0\0\2null",
        b'\0\0\0\0\2"x"',
    ]
    column = read(converter, [None, b"\0\0\0\0\2null"])
    assert column.values == [None, None]
    assert [run.schema and run.schema.type for run in column.runs] == [None, Type.STRING]


def test_null_becomes_the_default_unless_told_otherwise(scope: Scope) -> None:
    schema = s.struct({"n": replace(s.OPTIONAL_INT32, default=5)})
    rows = Column.of([{"n": None}, {}], schema)
    assert write(scope(), rows) == [b'\0\0\0\0\1{"n":5}'] * 2
    ignoring = scope(ignore__default__for__nullables="true")
    assert write(ignoring, rows) == [b'\0\0\0\0\1{"n":null}'] * 2
    # Reading always applies the default.
    assert read(ignoring, [b'\0\0\0\0\1{"n":null}', b"\0\0\0\0\1{}"]).values == [{"n": 5}] * 2


def test_a_required_field_that_is_null_is_left_out_and_reads_as_null(scope: Scope) -> None:
    converter = scope()
    schema = s.struct({"a": s.STRING, "b": s.INT32, "c": BOOK})
    cells = write(converter, Column.of([{"a": None, "b": 1, "c": None}], schema))
    assert cells == [b'\0\0\0\0\1{"b":1}']
    assert read(converter, cells).values == [{"a": None, "b": 1, "c": None}]
    assert errors_of_reading(converter, [b'\0\0\0\0\1{"b":null}']) == {
        0: "Field 'b': Invalid null value for required INT32 field"
    }
    assert errors_of_reading(converter, [b'\0\0\0\0\1{"b":1,"c":{"title":null,"pages":2}}']) == {
        0: "Field 'c.title': Invalid null value for required STRING field"
    }


def test_a_missing_required_field_of_the_outermost_struct_is_null(scope: Scope) -> None:
    converter = scope()
    schema = s.struct({"title": s.STRING, "pages": s.INT32})
    write(converter, Column.of([{"title": "t", "pages": 2}], schema))
    assert read(converter, [b'\0\0\0\0\1{"pages":3}']).values == [{"title": None, "pages": 3}]


def test_a_missing_required_field_of_an_inner_struct_is_refused(scope: Scope) -> None:
    converter = scope()
    schema = s.struct({"c": BOOK, "l": s.array(BOOK)})
    cells = [b'{"c":{"pages":2},"l":[]}', b'{"c":{"title":"t","pages":2},"l":[{"pages":1}]}', b"{}"]
    write(converter, Column.of([{"c": {"title": "t", "pages": 2}, "l": []}], schema))
    message = 'Invalid value: null used for required field: "title", schema type: STRING'
    assert errors_of_reading(converter, [b"\0\0\0\0\1" + cell for cell in cells]) == {
        0: f"Field 'c.title': {message}",
        1: f"Field 'l[0].title': {message}",
    }


READ_LENIENTLY: list[tuple[Schema, str, Value]] = [
    (s.INT8, "300", 44),
    (s.INT32, '"x"', 0),
    (s.INT64, "1e3", 1000),
    (s.FLOAT64, "1", 1.0),
    (s.array(s.INT8), "5", []),
    (s.STRING, "5", None),
    (BOOK, '{"pages":2,"more":true,"title":"x"}', {"title": "x", "pages": 2}),
]


@pytest.mark.parametrize(("schema", "text", "value"), READ_LENIENTLY)
def test_json_of_another_shape_reads_as_in_the_jvm(
    schema: Schema, text: str, value: Value, scope: Scope, registry: Register
) -> None:
    registry("t-value", json_schema(schema, PLAIN))
    assert read(scope(), [b"\0\0\0\0\1" + text.encode()]).values == [value]


REFUSED_JSON: list[tuple[Schema, str, str]] = [
    (BOOK, "[1]", "Structs should be encoded as JSON objects, but found ARRAY"),
    (
        s.map_of(s.STRING, s.INT8),
        "[]",
        "Maps with string fields should be encoded as JSON objects, but found ARRAY",
    ),
    (
        s.map_of(s.INT8, s.INT8),
        "{}",
        "Maps with non-string fields should be encoded as JSON array of objects, but found OBJECT",
    ),
    (s.map_of(s.INT8, s.INT8), "[1]", "Found invalid map entry instead of object: NUMBER"),
    (
        s.map_of(s.INT8, s.INT8),
        '[{"key":1}]',
        "Found invalid map entry, expected length 2 but found :1",
    ),
    (s.BYTES, '"="', "Invalid bytes field"),
    (s.decimal(0), "true", "Invalid type for Decimal, underlying representation should be numeric"),
    (s.DATE, '"x"', "Invalid type for Date, underlying representation should be integer but was"),
    (UNION_OF, "true", "Did not find matching oneof field for data"),
    (
        s.struct({"a": s.array(s.STRING)}),
        '{"a":[1]}',
        "Field 'a[0]': Invalid value: null used for required",
    ),
    (s.INT8, "{", NOT_READ),
]


@pytest.mark.parametrize(("schema", "text", "message"), REFUSED_JSON)
def test_json_the_schema_cannot_take_is_refused_and_costs_no_neighbour(
    schema: Schema, text: str, message: str, scope: Scope, registry: Register
) -> None:
    registry("t-value", json_schema(schema.as_optional(), PLAIN))
    bad, good = b"\0\0\0\0\1" + text.encode(), b"\0\0\0\0\1null"
    errors = errors_of_reading(scope(), [good, bad, good])
    assert errors.keys() == {1}
    assert errors[1].startswith(message)


REFUSED_VALUES: list[tuple[Schema, Value, str]] = [
    (s.INT8, 128, "Invalid type for INT8: class java.lang.Long"),
    (s.INT32, "x", "Invalid type for INT32: class java.lang.String"),
    (s.STRING, 1, "Invalid type for STRING: class java.lang.Long"),
    (s.array(s.INT8), {}, "Invalid type for ARRAY: class java.util.HashMap"),
    (s.map_of(s.STRING, s.INT8), [], "Invalid type for MAP: class java.util.ArrayList"),
    (BOOK, "x", "Invalid type for STRUCT: class java.lang.String"),
    (BOOK, {"title": "x", "more": 1}, "Mismatching schema."),
    (UNION_OF, {"more": 1}, "Mismatching schema."),
    (s.DATE, 1, "Invalid type for Date, expected Date but was class java.lang.Long"),
    (
        s.decimal(2),
        Decimal("1.234"),
        "Decimal value has mismatching scale for given Decimal schema.",
    ),
]


@pytest.mark.parametrize(("schema", "value", "message"), REFUSED_VALUES)
def test_values_that_are_not_their_schemas_are_refused(
    schema: Schema, value: Value, message: str, scope: Scope, way: MockTransport
) -> None:
    way.request("PUT", "/config", {}, {"compatibility": "NONE"})
    mixed = Column.gather([True, value, False], [s.BOOLEAN, schema, s.BOOLEAN])
    errors = errors_of_writing(scope(), mixed)
    assert errors.keys() == {1}
    assert errors[1].startswith(message)


def test_every_topic_of_a_batch_has_its_own_schema(scope: Scope) -> None:
    column = Column.of([1, 2, 3], s.INT64)
    converter = scope()
    cells = write(converter, column, ["a", "b", "a"])
    failed: Failed = {}
    back = converter.to_connect(["a", "b", "a"], cells, failed)
    assert not failed
    assert back.values == [1, 2, 3]
    assert back.runs == [back.runs[0]]  # equal schemas are one run


def test_the_latest_version_is_used_if_it_takes_the_values(
    scope: Scope, registry: Register
) -> None:
    registry("t-value", {"type": "number"})
    latest = {"auto__register__schemas": "false", "use__latest__version": "true"}
    converter = scope(**latest)
    assert write(converter, Column.of([5], s.INT32)) == [b"\0\0\0\0\1" + b"5"]
    (error,) = errors_of_writing(converter, Column.of(["x"], s.STRING)).values()
    assert "Incompatible schema" in error
    assert "latest.compatibility.strict=false" in error
    lenient = scope(**latest, latest__compatibility__strict="false")
    assert write(lenient, Column.of(["x"], s.STRING)) == [b'\0\0\0\0\1"x"']


def test_messages_can_be_validated(scope: Scope, registry: Register) -> None:
    registry("t-value", {"type": "integer", "maximum": 5})
    strict = scope(json__fail__invalid__schema="true")
    assert read(strict, [b"\0\0\0\0\1" + b"5"]).values == [5]
    (error,) = errors_of_reading(strict, [b"\0\0\0\0\1" + b"6"]).values()
    assert error.startswith(NOT_READ)
    assert "6 is greater than the maximum of 5" in error
    writing = scope(
        json__fail__invalid__schema="true",
        auto__register__schemas="false",
        use__latest__version="true",
        latest__compatibility__strict="false",
    )
    assert errors_of_writing(writing, Column.of([5, 6], s.INT64)).keys() == {1}


def test_a_union_is_the_alternative_that_knows_most_of_the_object() -> None:
    cat, dog = s.struct({"name": s.STRING, "lives": s.INT64}), s.struct({"name": s.STRING})
    union = one_of(dog, cat)
    assert reader(union)({"name": "a", "lives": 9}) == {
        f"{ONE_OF_FIELD}1": {"name": "a", "lives": 9}
    }
    assert reader(union)({"name": "a"}) == {f"{ONE_OF_FIELD}0": {"name": "a"}}
    assert writer(union, PLAIN)({f"{ONE_OF_FIELD}0": None}) is ABSENT
    assert writer(union.as_optional(), PLAIN)({f"{ONE_OF_FIELD}0": None}) is None


def test_a_plain_bytes_schema_takes_a_decimal_as_a_number() -> None:
    options = Options(decimals=DecimalFormat.BASE64)
    assert dump(writer(s.BYTES, options)(Decimal("1.50"))) == b"1.50"


def test_numbers_that_are_not_finite_are_texts(scope: Scope) -> None:
    schema = s.struct({"f": s.FLOAT64})
    assert write(scope(), Column.of([{"f": float("nan")}], schema)) == [b'\0\0\0\0\1{"f":"NaN"}']


def test_schemas_that_json_schema_cannot_say_are_refused(scope: Scope) -> None:
    anything = Schema(Type.ARRAY)
    (error,) = errors_of_writing(scope(), Column.of([[1]], anything)).values()
    assert error == "A JSON Schema cannot express an array or map of anything"
