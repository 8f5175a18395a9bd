"""Schemas as values, and values against schemas."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from penstock.data import schema as s
from penstock.data.schema import Schema, Type, Value, check
from penstock.errors import DataError

PERSON = s.struct(
    {"id": s.INT64, "name": s.OPTIONAL_STRING, "tags": s.array(s.STRING, optional=True)},
    name="Person",
)


def test_equal_attributes_make_equal_schemas() -> None:
    one = s.struct({"a": s.map_of(s.STRING, s.decimal(2))}, name="x", version=3)
    two = s.struct({"a": s.map_of(s.STRING, s.decimal(2))}, name="x", version=3)
    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize(
    "other",
    [
        Schema(Type.INT64),
        Schema(Type.INT32, optional=True),
        Schema(Type.INT32, default=5),
        Schema(Type.INT32, name="n"),
        Schema(Type.INT32, version=1),
        Schema(Type.INT32, doc="d"),
        Schema(Type.INT32, parameters={"k": "v"}),
    ],
)
def test_any_other_attribute_makes_another_schema(other: Schema) -> None:
    assert other != s.INT32


def test_a_pickled_schema_is_the_same_schema() -> None:
    copy = pickle.loads(pickle.dumps(PERSON))
    assert copy == PERSON
    assert hash(copy) == hash(PERSON)
    assert copy.field("name") == PERSON.field("name")


def test_a_schema_whose_default_cannot_be_hashed_can() -> None:
    schema = Schema(Type.ARRAY, value_schema=s.INT32, default=[1, 2])
    assert {schema: 1}[Schema(Type.ARRAY, value_schema=s.INT32, default=[1, 2])] == 1


def test_fields_are_found_by_name_and_know_their_place() -> None:
    found = PERSON.field("tags")
    assert found is not None
    assert found.index == 2
    assert PERSON.field("other") is None
    assert PERSON.field_names == ("id", "name", "tags")


def test_a_field_name_is_used_once() -> None:
    fields = (s.Field("a", 0, s.INT8), s.Field("a", 1, s.INT8))
    with pytest.raises(DataError, match="Cannot create field because of field name duplication a"):
        Schema(Type.STRUCT, fields=fields)


def test_logical_types_are_recognised_by_name_alone() -> None:
    assert s.DATE.logical is s.Logical.DATE
    assert Schema(Type.STRING, name=s.Logical.TIME.value).logical is s.Logical.TIME
    assert Schema(Type.INT32, name="Date").logical is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (None, "Invalid Decimal schema: scale parameter not found."),
        ({"scale": "two"}, "Invalid scale parameter found in Decimal schema: "),
    ],
)
def test_a_decimal_without_a_scale_says_so(parameters: dict[str, str] | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _ = Schema(Type.BYTES, name=s.Logical.DECIMAL.value, parameters=parameters).scale


def test_optional_and_back_is_the_same() -> None:
    assert PERSON.as_optional().optional
    assert PERSON.as_optional().as_required() == PERSON
    assert PERSON.as_required() is PERSON


@pytest.mark.parametrize(
    ("value", "type", "wrapped"),
    [
        (300, Type.INT8, 44),
        (128, Type.INT8, -128),
        (-129, Type.INT8, 127),
        (65_535, Type.INT16, -1),
        (2**31, Type.INT32, -(2**31)),
        (2**64 + 5, Type.INT64, 5),
        (7, Type.INT8, 7),
    ],
)
def test_integers_wrap_as_in_java(value: int, type: Type, wrapped: int) -> None:
    assert s.wrap_int(value, type) == wrapped


def test_float32_rounds_and_overflows_as_in_java() -> None:
    assert s.float32(0.1) == 0.10000000149011612
    assert s.float32(1e39) == float("inf")


GOOD: list[tuple[Schema, Value]] = [
    (s.INT8, -128),
    (s.INT64, 2**63 - 1),
    (s.FLOAT64, 1.5),
    (s.BOOLEAN, False),
    (s.STRING, ""),
    (s.BYTES, b""),
    (s.OPTIONAL_INT8, None),
    (s.decimal(2), Decimal("1.25")),
    (s.DATE, date(2024, 2, 29)),
    (s.TIME, time(1, 2, 3)),
    (s.TIMESTAMP, datetime(2024, 2, 29, tzinfo=UTC)),
    (s.array(s.INT8), [1, 2]),
    (s.map_of(s.STRING, s.INT8), {"a": 1}),
    (s.map_of(s.array(s.INT8), s.INT8), [([1], 1)]),
    (PERSON, {"id": 1}),
    (PERSON, {"id": 1, "name": None, "tags": ["x"]}),
]


@pytest.mark.parametrize(("schema", "value"), GOOD)
def test_a_value_of_the_schema_is_accepted(schema: Schema, value: Value) -> None:
    check(schema, value)


BAD: list[tuple[Schema, Value, str]] = [
    (s.INT8, None, "Invalid value: null used for required value, schema type: INT8"),
    (
        s.INT8,
        128,
        "Invalid Java object for schema with type INT8: class java.lang.Long for value",
    ),
    (
        s.INT32,
        True,
        "Invalid Java object for schema with type INT32: class java.lang.Boolean for value",
    ),
    (
        s.INT64,
        2**63,
        "Invalid Java object for schema with type INT64: class java.math.BigInteger for value",
    ),
    (
        s.FLOAT64,
        1,
        "Invalid Java object for schema with type FLOAT64: class java.lang.Long for value",
    ),
    (
        s.DATE,
        datetime(2024, 1, 1, tzinfo=UTC),
        'Invalid Java object for schema "org.apache.kafka.connect.data.Date" with type INT32: '
        "class java.util.Date for value",
    ),
    (
        s.array(s.STRING),
        ["a", None],
        "Invalid value: null used for required element of array value, schema type: STRING",
    ),
    (
        s.map_of(s.STRING, s.INT8),
        {"a": "b"},
        "Invalid Java object for schema with type INT8: class java.lang.String "
        "for value of map value",
    ),
    (
        s.map_of(s.INT8, s.INT8),
        {"a": 1},
        "Invalid Java object for schema with type INT8: class java.lang.String "
        "for key of map value",
    ),
    (PERSON, {}, 'Invalid value: null used for required field: "id", schema type: INT64'),
    (
        PERSON,
        {"id": 1, "tags": [1]},
        "Invalid Java object for schema with type STRING: class java.lang.Long "
        'for element of array field: "tags"',
    ),
    (PERSON, {"id": 1, "nick": "x"}, "nick is not a valid field name"),
    (Schema(Type.ARRAY), [1], "No schema defined for element of array value"),
]


@pytest.mark.parametrize(("schema", "value", "message"), BAD)
def test_a_value_of_another_kind_is_refused(schema: Schema, value: Value, message: str) -> None:
    with pytest.raises(DataError) as refused:
        check(schema, value)
    assert str(refused.value) == message


def test_a_required_field_may_be_left_to_its_default() -> None:
    check(s.struct({"a": Schema(Type.INT8, default=7)}), {})
