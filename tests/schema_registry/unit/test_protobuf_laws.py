"""Laws of the Protobuf converter, over generated schemas and values."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, date, datetime

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.api import Failed, Use
from penstock.data import schema as s
from penstock.data.logical import ms_to_time, unscaled_to_decimal
from penstock.data.records import Column
from penstock.data.schema import INT_BITS, Schema, Type, Value, int_range
from penstock.errors import DataError
from penstock.schema_registry.protobuf import ProtobufConverter
from penstock.schema_registry.protobuf_connect import connect_schema
from penstock.schema_registry.protobuf_files import (
    decode_path,
    encode_path,
    from_base64,
    message_at,
    pool_of,
    to_base64,
)
from penstock.schema_registry.protobuf_names import TYPE, Options
from penstock.schema_registry.protobuf_schema import message_file
from penstock.schema_registry.transport import MockTransport

# The first messages of a schema are slow: they generate its classes.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from("a b_c class from id self name value key".split())
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
)

Typed = tuple[Schema, st.SearchStrategy[Value]]

LEAVES: list[Typed] = [
    *((Schema(type), st.integers(*int_range(type))) for type in INT_BITS),
    (Schema(Type.INT64, parameters={TYPE: "uint32"}), st.integers(0, 2**32 - 1)),
    (Schema(Type.INT64, parameters={TYPE: "fixed64"}), st.integers(*int_range(Type.INT64))),
    (Schema(Type.INT32, parameters={TYPE: "sint32"}), st.integers(*int_range(Type.INT32))),
    (s.FLOAT32, st.floats(allow_nan=False, width=32)),
    (s.FLOAT64, st.floats(allow_nan=False)),
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


@st.composite
def _struct(draw: st.DrawFn, inside: st.SearchStrategy[Typed]) -> Typed:
    parts = {name: draw(_field(inside)) for name in draw(st.lists(NAMES, unique=True, max_size=5))}
    return (
        s.struct({name: of for name, (of, _) in parts.items()}),
        st.fixed_dictionaries({name: each for name, (_, each) in parts.items()}),
    )


@st.composite
def _field(draw: st.DrawFn, inside: st.SearchStrategy[Typed]) -> Typed:
    schema, values = draw(inside)
    match draw(st.sampled_from(["plain", "optional", "array", "map"])):
        case "plain":
            return schema, values
        case "optional":
            return schema.as_optional(), st.none() | values
        case "array":
            return s.array(schema), st.lists(values, max_size=3)
        case _:
            key, keys = draw(st.sampled_from(LEAVES))
            return s.map_of(key, schema), st.dictionaries(keys, values, max_size=3)


STRUCTS: st.SearchStrategy[Typed] = _struct(
    st.recursive(st.sampled_from(LEAVES), lambda inside: _struct(inside), max_leaves=5)
)


@st.composite
def columns(draw: st.DrawFn) -> Column:
    schema, values = draw(STRUCTS)
    return Column.of(draw(st.lists(values, min_size=1, max_size=3)), schema)


def converter(**props: str) -> ProtobufConverter:
    """A converter with a new registry."""
    MockTransport.forget("laws")
    given = {name.replace("_", "."): text for name, text in props.items()}
    given["schema.registry.url"] = "mock://laws"
    return ProtobufConverter(ProtobufConverter.plugin.config.parse(given), Use.VALUE)


def write(of: ProtobufConverter, column: Column) -> list[bytes | None]:
    failed: Failed = {}
    cells = of.from_connect(["t"] * len(column), column, failed)
    assert not failed
    return cells


@pytest.mark.parametrize("setting", ["optional_for_nullables", "wrapper_for_nullables"])
@given(column=columns())
def test_written_values_are_read_back(column: Column, setting: str) -> None:
    of = converter(**{setting: "true"})
    failed: Failed = {}
    cells = write(of, column)
    back = of.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    assert back.values == column.values


def _with_nothing(schema: Schema, value: Value) -> Value:
    """The value as it is read when unset fields cannot be distinguished from empty ones."""
    if schema.logical is not None or (value is None and schema.type is Type.STRUCT):
        return value
    match schema.type:
        case Type.STRUCT:
            return {
                each.name: _with_nothing(each.schema, value.get(each.name))
                for each in schema.fields
            }
        case Type.ARRAY:
            assert schema.value_schema is not None
            return [_with_nothing(schema.value_schema, each) for each in value]
        case Type.MAP:
            assert schema.value_schema is not None
            of = schema.value_schema
            return {name: _with_nothing(of, each) for name, each in value.items()}
    empty: dict[Type, Value] = {Type.BOOLEAN: False, Type.STRING: "", Type.BYTES: b""}
    return empty.get(schema.type, 0) if value is None else value


@given(column=columns())
def test_by_default_null_reads_as_nothing(column: Column) -> None:
    of = converter()
    failed: Failed = {}
    cells = write(of, column)
    back = of.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    schema = column.runs[0].schema
    assert schema is not None
    assert back.values == [_with_nothing(schema, value) for value in column.values]


@given(typed=STRUCTS)
def test_a_schema_that_is_read_has_a_file_that_reads_the_same(typed: Typed) -> None:
    schema, _ = typed
    options = Options(optional_for_nullables=True)
    made = message_file(schema, options)
    message = message_at(pool_of(from_base64(to_base64(made.file))), "default", made.path)
    read = connect_schema(message, options)
    again = message_file(read, options)
    back = message_at(pool_of(again.file), "default", again.path)
    assert connect_schema(back, options) == read


@given(typed=STRUCTS)
def test_an_empty_message_is_a_struct_of_nothing(typed: Typed) -> None:
    schema, _ = typed
    of = converter()
    (cell,) = write(of, Column.of([{}], schema))
    made = message_file(schema, Options())
    message = message_at(pool_of(made.file), "default", made.path)
    assert cell == b"\0\0\0\0\1\0" + GetMessageClass(message)().SerializeToString()


@given(path=st.lists(st.integers(0, 2**20), min_size=1, max_size=5), tail=st.binary(max_size=3))
def test_paths_read_as_they_were_written(path: list[int], tail: bytes) -> None:
    data = encode_path(path)
    assert decode_path(data + tail, 0) == (tuple(path), len(data))


@given(
    column=columns(),
    cut=st.integers(0, 3),
    bad=st.sampled_from([b"", b"\0", b"\0\0\0\0\1", b"\0\0\0\0\1\2\4", b"\0\0\0\0\1\0\xff"]),
)
def test_a_bad_message_never_costs_its_neighbours(column: Column, cut: int, bad: bytes) -> None:
    of = converter(optional_for_nullables="true")
    cells = write(of, column)
    cut = min(cut, len(cells))
    failed: Failed = {}
    mixed = [*cells[:cut], bad, *cells[cut:]]
    back = of.to_connect(["t"] * len(mixed), mixed, failed)
    assert failed.keys() == {cut}
    assert back.values == [*column.values[:cut], None, *column.values[cut:]]


@given(column=columns(), at=st.integers(0, 3))
def test_a_bad_value_never_costs_its_neighbours(column: Column, at: int) -> None:
    of = converter()
    good = write(of, column)
    at = min(at, len(column))
    values = [*column.values[:at], {"no such field": 1}, *column.values[at:]]
    failed: Failed = {}
    mixed = Column.of(values, column.runs[0].schema)
    cells = of.from_connect(["t"] * len(mixed), mixed, failed)
    assert failed.keys() == {at}
    assert cells == [*good[:at], None, *good[at:]]


@given(column=columns(), junk=st.lists(st.binary(max_size=16), max_size=5))
def test_no_bytes_make_a_converter_raise(column: Column, junk: list[bytes]) -> None:
    of = converter()
    write(of, column)
    cells = [b"\0\0\0\0\1\0" + each for each in junk] + junk
    failed: Failed = {}
    assert len(of.to_connect(["t"] * len(cells), cells, failed)) == len(cells)
    for error in failed.values():
        assert isinstance(error, DataError)
        assert not isinstance(error.__cause__, TypeError | AttributeError | LookupError)


@given(file=st.binary(max_size=24))
def test_no_registered_bytes_make_a_converter_raise(file: bytes) -> None:
    of = converter()
    body = {"schema": b64encode(file).decode(), "schemaType": "PROTOBUF"}
    way = MockTransport("laws")
    try:
        way.request("POST", "/subjects/t-value/versions", {}, body)
    except DataError:
        assume(False)
    failed: Failed = {}
    of.to_connect(["t"], [b"\0\0\0\0\1\0"], failed)
    assert all(isinstance(error, DataError) for error in failed.values())
