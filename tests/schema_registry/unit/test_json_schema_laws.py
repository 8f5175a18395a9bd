"""Laws of the JSON Schema converter, over generated schemas and values."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from penstock.api import Failed, Use
from penstock.data import schema as s
from penstock.data.logical import ms_to_time, unscaled_to_decimal
from penstock.data.records import Column
from penstock.data.schema import INT_BITS, Schema, Value, check, int_range
from penstock.errors import DataError
from penstock.schema_registry.json_schema import JsonSchemaConverter
from penstock.schema_registry.json_schema_connect import Document, connect_schema
from penstock.schema_registry.json_schema_names import ONE_OF, ONE_OF_FIELD, Options
from penstock.schema_registry.json_schema_schema import json_schema
from penstock.schema_registry.transport import MockTransport

# The first message of a schema is slow: it compiles the schema.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
)

Typed = tuple[Schema, st.SearchStrategy[Value]]

LEAVES: list[Typed] = [
    *((Schema(type), st.integers(*int_range(type))) for type in INT_BITS),
    (s.FLOAT32, st.floats(allow_nan=False, allow_infinity=False, width=32)),
    (s.FLOAT64, st.floats(allow_nan=False, allow_infinity=False)),
    (s.BOOLEAN, st.booleans()),
    (s.STRING, TEXT),
    (s.BYTES, st.binary(max_size=8)),
    (s.DATE, st.dates(date(1, 1, 1), date(9999, 12, 31))),
    (s.TIME, st.integers(0, 86_399_999).map(ms_to_time)),
    (s.TIMESTAMP, MOMENTS),
    (
        s.decimal(3),
        st.integers(-(10**40), 10**40).map(lambda unscaled: unscaled_to_decimal(unscaled, 3)),
    ),
]
# Of different JSON types, so that the value identifies its alternative.
ALTERNATIVES: list[Typed] = [
    (s.STRING, TEXT),
    (s.BOOLEAN, st.booleans()),
    (s.INT64, st.integers(*int_range(s.Type.INT64))),
]
UNION = s.struct(
    {f"{ONE_OF_FIELD}{at}": schema.as_optional() for at, (schema, _) in enumerate(ALTERNATIVES)},
    name=ONE_OF,
)


@st.composite
def _union_values(draw: st.DrawFn) -> Value:
    at = draw(st.integers(0, len(ALTERNATIVES) - 1))
    return {f"{ONE_OF_FIELD}{at}": draw(ALTERNATIVES[at][1])}


@st.composite
def _around(draw: st.DrawFn, inside: st.SearchStrategy[Typed]) -> Typed:
    schema, values = draw(inside)
    match draw(st.sampled_from(["optional", "array", "map", "entries", "struct"])):
        case "optional":
            return schema.as_optional(), st.none() | values
        case "array":
            return s.array(schema), st.lists(values, max_size=3)
        case "map":
            return s.map_of(s.STRING, schema), st.dictionaries(TEXT, values, max_size=3)
        case "entries":
            key, keys = draw(st.sampled_from(LEAVES))
            return s.map_of(key, schema), st.dictionaries(keys, values, max_size=3)
        case _:
            parts = draw(st.dictionaries(TEXT, inside, max_size=4))
            return (
                s.struct({name: of for name, (of, _) in parts.items()}),
                st.fixed_dictionaries({name: each for name, (_, each) in parts.items()}),
            )


TYPED: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(LEAVES) | st.just((UNION, _union_values())), _around, max_leaves=6
)


@st.composite
def columns(draw: st.DrawFn) -> Column:
    schema, values = draw(TYPED)
    return Column.of(draw(st.lists(values, min_size=1, max_size=4)), schema)


def converter(**props: str) -> JsonSchemaConverter:
    """A converter with a new registry."""
    MockTransport.forget("laws")
    given = {name.replace("_", "."): text for name, text in props.items()}
    given["schema.registry.url"] = "mock://laws"
    return JsonSchemaConverter(JsonSchemaConverter.plugin.config.parse(given), Use.VALUE)


def write(of: JsonSchemaConverter, column: Column) -> list[bytes | None]:
    failed: Failed = {}
    cells = of.from_connect(["t"] * len(column), column, failed)
    assert not failed
    return cells


def read(of: JsonSchemaConverter, cells: list[bytes | None]) -> Column:
    failed: Failed = {}
    column = of.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    return column


DECIMALS = st.sampled_from(["BASE64", "NUMERIC"])


@given(column=columns(), decimals=DECIMALS)
def test_written_values_are_read_back(column: Column, decimals: str) -> None:
    of = converter(decimal_format=decimals)
    back = read(of, write(of, column))
    assert back.values == column.values
    for (schema, _, _), (read_schema, start, stop) in zip(
        column.slices(), back.slices(), strict=True
    ):
        assert schema is not None
        assert read_schema is not None
        assert read_schema == replace(schema, version=schema.version or 1)
        for value in back.values[start:stop]:
            check(read_schema, value)


@given(typed=TYPED)
def test_schemas_read_as_they_were_written(typed: Typed) -> None:
    schema, _ = typed
    document = Document.of(json.dumps(json_schema(schema, Options())))
    assert connect_schema(document, Options()) == schema


@given(column=columns())
def test_written_documents_are_valid(column: Column) -> None:
    # By default, and in the JVM, decimals are strings although the schema says number.
    cells = write(converter(decimal_format="NUMERIC"), column)
    schema = column.runs[0].schema
    assert schema is not None
    node: dict[str, Any] = json_schema(schema, Options())
    Draft7Validator.check_schema(node)
    for cell in cells:
        if cell is not None:
            Draft7Validator(node).validate(json.loads(cell[5:]))


@given(column=columns(), cut=st.integers(0, 4), data=st.data())
def test_a_bad_message_never_costs_its_neighbours(
    column: Column, cut: int, data: st.DataObject
) -> None:
    of = converter()
    cells = write(of, column)
    cut = min(cut, len(cells))
    bad = data.draw(st.sampled_from([b"", b"\0", b"\0\0\0\0\1", b"\0\0\0\0\1{", b"\1\0\0\0\1{}"]))
    failed: Failed = {}
    mixed = [*cells[:cut], bad, *cells[cut:]]
    back = of.to_connect(["t"] * len(mixed), mixed, failed)
    # A message without bytes after the id is null, not an error.
    assert failed.keys() == (set() if bad == b"\0\0\0\0\1" else {cut})
    assert all(isinstance(error, DataError) for error in failed.values())
    assert back.values == [*column.values[:cut], None, *column.values[cut:]]


@given(column=columns(), junk=st.lists(st.binary(max_size=12) | st.none(), max_size=4))
def test_no_bytes_make_a_converter_raise(column: Column, junk: list[bytes | None]) -> None:
    of = converter()
    write(of, column)
    cells = [each and b"\0\0\0\0\1" + each for each in junk] + junk
    failed: Failed = {}
    assert len(of.to_connect(["t"] * len(cells), cells, failed)) == len(cells)
    assert all(isinstance(error, DataError) for error in failed.values())


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXT,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXT, inside, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(
    "type properties items oneOf anyOf allOf enum const $ref title default required not $id $defs "
    "connect.type connect.index connect.parameters connect.version additionalProperties".split()
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    JSON | st.sampled_from(["string", "object", "array", "number", "#", "map", "int8"]),
    lambda inside: st.dictionaries(WORDS, inside, max_size=4) | st.lists(inside, max_size=3),
    max_leaves=8,
)


@given(node=SCHEMAS)
@example(node={"type": {}, "$ref": "string", "properties": "string"})
def test_no_json_schema_makes_a_converter_raise(node: Any) -> None:
    of = converter()
    body = {"schema": json.dumps(node), "schemaType": "JSON"}
    way = MockTransport("laws")
    try:
        way.request("POST", "/subjects/t-value/versions", {}, body)
    except DataError:
        return  # the registry accepts only objects and booleans
    failed: Failed = {}
    of.to_connect(["t"], [b"\0\0\0\0\1null"], failed)
    for error in failed.values():
        assert isinstance(error, DataError)
        if "Could not resolve reference" not in str(error):
            assert not isinstance(error.__cause__, TypeError | AttributeError | LookupError)
