"""Laws over generated schemas: written values are Avro, and read back unchanged."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.api.converter import Use
from penstock.data.avro.schema import parse, text_of
from penstock.data.records import Column, Failed
from penstock.data.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    Value,
    array,
    decimal,
    int_range,
    map_of,
    struct,
)
from penstock.schema_registry import wire
from penstock.schema_registry.avro import AVRO_CONVERTER, AvroConverter
from penstock.schema_registry.avro_schema import WriteSettings, avro_schema
from penstock.schema_registry.compatibility import avro_obstacles, parse_avro
from penstock.schema_registry.transport import MockTransport

LAWFUL = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
leaves = st.one_of(
    st.sampled_from(
        [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES, DATE, TIME, TIMESTAMP]
    ),
    st.integers(0, 12).map(decimal),
)


def optional(schemas: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.tuples(schemas, st.booleans()).map(lambda it: it[0].as_optional() if it[1] else it[0])


def containers(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        inner.map(array),
        st.builds(map_of, st.just(STRING), inner),
        st.builds(_entries, names, st.sampled_from([INT32, STRING.as_optional()]), inner),
        st.builds(_record, names, st.dictionaries(names, inner, max_size=4)),
    )


def _entries(name: str, key: Schema, value: Schema) -> Schema:
    return Schema(Type.MAP, name=f"e.{name}", key_schema=key, value_schema=value)


def _record(name: str, fields: dict[str, Schema]) -> Schema:
    numbered = tuple(Field(each, index, of) for index, (each, of) in enumerate(fields.items()))
    return Schema(Type.STRUCT, name=f"r.{name}", fields=numbered)


schemas = st.recursive(optional(leaves), lambda inner: optional(containers(inner)), max_leaves=8)


def named(schema: Schema) -> Iterable[Schema]:
    """The named schemas inside one."""
    if schema.type in (Type.STRUCT, Type.MAP) and schema.name is not None:
        yield schema.as_required()
    for inner in (schema.key_schema, schema.value_schema, *(each.schema for each in schema.fields)):
        if inner is not None:
            yield from named(inner)


def consistent(schema: Schema) -> bool:
    """Whether equal names mean equal schemas, as in Avro."""
    seen: dict[str | None, Schema] = {}
    return all(seen.setdefault(each.name, each) == each for each in named(schema))


_SIMPLE: dict[Type, st.SearchStrategy[Value]] = {
    **{each: st.integers(*int_range(each)) for each in (Type.INT8, Type.INT16, Type.INT32,
                                                        Type.INT64)},
    Type.FLOAT32: st.floats(width=32, allow_nan=False),
    Type.FLOAT64: st.floats(allow_nan=False),
    Type.BOOLEAN: st.booleans(),
    Type.STRING: texts,
    Type.BYTES: st.binary(max_size=5),
}  # fmt: skip


def values(schema: Schema) -> st.SearchStrategy[Value]:
    strategy = required_values(schema)
    return st.none() | strategy if schema.optional else strategy


def required_values(schema: Schema) -> st.SearchStrategy[Value]:
    if schema.name == decimal(0).name:
        scale = schema.scale
        return st.integers(-(10**30), 10**30).map(
            lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
        )
    if schema.name == DATE.name:
        return st.dates()
    if schema.name == TIME.name:
        return st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000, fold=0))
    if schema.name == TIMESTAMP.name:
        return st.datetimes(timezones=st.just(UTC)).map(
            lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000, fold=0)
        )
    match schema.type:
        case Type.ARRAY:
            assert schema.value_schema is not None
            return st.lists(values(schema.value_schema), max_size=3)
        case Type.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            return st.dictionaries(
                values(schema.key_schema), values(schema.value_schema), max_size=3
            )
        case Type.STRUCT:
            return st.fixed_dictionaries({f.name: values(f.schema) for f in schema.fields})
        case _:
            return _SIMPLE[schema.type]


def exactly(value: Value) -> str:
    """A value with all that `==` ignores: the sign of zero, the scale of a decimal."""
    if isinstance(value, dict):
        return repr(sorted((exactly(key), exactly(each)) for key, each in value.items()))
    if isinstance(value, list):
        return repr([exactly(each) for each in value])
    return repr(value)


def converter(scope: str) -> AvroConverter:
    MockTransport.forget(scope)
    config = AVRO_CONVERTER.parse({"schema.registry.url": f"mock://{scope}"})
    return AvroConverter(config, Use.VALUE)


@given(
    data=st.data(), schema=st.builds(_record, names, st.dictionaries(names, schemas, max_size=5))
)
@LAWFUL
def test_written_values_are_read_back(data: st.DataObject, schema: Schema) -> None:
    if not consistent(schema):
        return
    rows = data.draw(st.lists(values(schema), min_size=1, max_size=4))
    avro, failed = converter("laws"), dict[int, Exception]()
    topics = ["t"] * len(rows)
    cells = avro.from_connect(topics, Column.of(rows, schema), failed)
    assert not failed
    column = avro.to_connect(topics, cells, failed)
    assert not failed
    assert column.values == rows
    assert [exactly(value) for value in column.values] == [exactly(value) for value in rows]
    [run] = column.runs
    assert run.schema is not None
    assert Schema(Type.STRUCT, name=schema.name, fields=run.schema.fields) == schema


@given(
    data=st.data(), schema=st.builds(_record, names, st.dictionaries(names, schemas, max_size=5))
)
@LAWFUL
def test_written_bytes_are_avro(data: st.DataObject, schema: Schema) -> None:
    """Another reader, with the registered schema, reads exactly the bytes."""
    if not consistent(schema):
        return
    row = data.draw(values(schema))
    avro, failed = converter("bytes"), dict[int, Exception]()
    [cell] = avro.from_connect(["t"], Column.of([row], schema), failed)
    assert cell is not None, failed
    text = text_of(avro_schema(schema, WriteSettings()))
    # fastavro knows no decimals with more scale than precision and rounds to the latter.
    plain = json.loads(text.replace('"logicalType":"decimal"', '"logicalType":"none"'))
    body = io.BytesIO(cell[wire.HEAD_SIZE :])
    fastavro.schemaless_reader(body, fastavro.parse_schema(plain), None)
    assert body.read() == b""
    assert avro_obstacles(parse_avro(text), parse_avro(text)) == []


@given(schema=st.builds(_record, names, st.dictionaries(names, schemas, max_size=5)))
@LAWFUL
def test_a_schemas_text_is_the_same_after_parsing(schema: Schema) -> None:
    if not consistent(schema):
        return
    text = text_of(avro_schema(schema, WriteSettings()))
    node, _ = parse(text)
    assert text_of(node) == text


@st.composite
def sharing(draw: st.DrawFn) -> Schema:
    """A schema in which one type occurs at several places, with namespaces and without."""

    def name(*choices: str) -> str | None:
        return draw(st.sampled_from([None, *choices]))

    point = struct({"x": INT32}, name=name("Point", "a.Point"))
    holder = struct({"point": point, "more": array(point)}, name=name("Holder", "b.Holder"))
    places = st.sampled_from(
        [point, point.as_optional(), holder, array(holder), map_of(STRING, point),
         map_of(INT32, point), replace(map_of(INT32, holder), name="c.Entry")]
    )  # fmt: skip
    fields = draw(st.lists(places, min_size=2, max_size=6))
    return struct({f"f{at}": each for at, each in enumerate(fields)}, name=name("Top", "a.Top"))


@given(schema=sharing())
@LAWFUL
def test_a_type_is_found_wherever_it_occurs(schema: Schema) -> None:
    text = text_of(avro_schema(schema, WriteSettings()))
    fastavro.parse_schema(json.loads(text))
    node, _ = parse(text)
    assert text_of(node) == text


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    | texts | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(rows=st.lists(anything, min_size=1, max_size=4))
@LAWFUL
def test_data_without_a_schema_round_trips(rows: list[Value]) -> None:
    avro, failed = converter("anything"), dict[int, Exception]()
    topics = ["t"] * len(rows)
    cells = avro.from_connect(topics, Column.of(rows, None), failed)
    column = avro.to_connect(topics, cells, failed)
    assert not failed
    assert column.values == rows
    assert column.schemas() == [None] * len(rows)


@given(cells=st.lists(st.binary(max_size=12).map(lambda data: wire.head(1) + data), max_size=6))
@LAWFUL
def test_no_bytes_cost_a_neighbour(cells: list[bytes]) -> None:
    avro, failed = converter("broken"), dict[int, Exception]()
    schema = _record("R", {"s": STRING, "d": decimal(2), "a": array(INT32), "t": TIMESTAMP})
    row = {
        "s": "x", "d": Decimal("1.00"), "a": [1], "t": datetime(2024, 1, 1, tzinfo=UTC)
    }  # fmt: skip
    [good] = avro.from_connect(["t"], Column.of([row], schema), failed)
    mixed = [cell for bad in cells for cell in (bad, good)]
    failed = Failed()
    column = avro.to_connect(["t"] * len(mixed), mixed, failed)
    assert [column.values[index] for index in range(1, len(mixed), 2)] == [row] * len(cells)
    assert not any(index % 2 for index in failed)
