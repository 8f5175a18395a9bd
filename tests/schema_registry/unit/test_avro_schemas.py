"""Connect schemas and values as Avro's, and back."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from penstock.data.records import Column, Failed, Run
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
    OPTIONAL_INT32,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    Value,
    array,
    decimal,
    map_of,
    struct,
)
from penstock.schema_registry import wire

from .avro_examples import RECORD_A, Ask, Make, defaulted, foreign, read, write, written_schema

DECIMAL_NODE = {
    "type": "bytes",
    "scale": 2,
    "precision": 64,
    "connect.version": 1,
    "connect.parameters": {"scale": "2"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}


def logical_node(kind: str, name: str, logical: str) -> dict[str, Any]:
    return {
        "type": kind,
        "connect.version": 1,
        "connect.name": f"org.apache.kafka.connect.data.{name}",
        "logicalType": logical,
    }


ENTRY = {
    "type": "record",
    "name": "MapEntry",
    "namespace": "io.confluent.connect.avro",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
}

# Connect schema, its Avro schema, a value, the bytes after the id; both ways.
BOTH_WAYS: list[tuple[Schema, Any, Value, bytes]] = [
    (INT8, {"type": "int", "connect.type": "int8"}, -3, b"\x05"),
    (INT16, {"type": "int", "connect.type": "int16"}, 300, b"\xd8\x04"),
    (INT32, "int", -1, b"\x01"),
    (INT64, "long", 1 << 40, b"\x80\x80\x80\x80\x80\x40"),
    (FLOAT32, "float", 1.5, b"\x00\x00\xc0\x3f"),
    (FLOAT64, "double", 1.5, b"\x00\x00\x00\x00\x00\x00\xf8\x3f"),
    (BOOLEAN, "boolean", True, b"\x01"),
    (STRING, "string", "ü", b"\x04\xc3\xbc"),
    (BYTES, "bytes", b"\x00\x01", b"\x00\x01"),  # at the top: no length
    (decimal(2), DECIMAL_NODE, Decimal("-1.20"), b"\x88"),
    (DATE, logical_node("int", "Date", "date"), date(1970, 1, 3), b"\x04"),
    (TIME, logical_node("int", "Time", "time-millis"), time(0, 0, 0, 3000), b"\x06"),
    (
        TIMESTAMP,
        logical_node("long", "Timestamp", "timestamp-millis"),
        datetime(1970, 1, 1, 0, 0, 0, 2000, tzinfo=UTC),
        b"\x04",
    ),
    (OPTIONAL_STRING, ["null", "string"], "a", b"\x02\x02a"),
    (
        Schema(Type.INT32, optional=True, default=7),
        [{"type": "int", "connect.default": 7}, "null"],
        1,
        b"\x00\x02",
    ),
    (array(INT32), {"type": "array", "items": "int"}, [1, 2], b"\x04\x02\x04\x00"),
    (
        array(OPTIONAL_INT32),
        {"type": "array", "items": ["null", "int"]},
        [1, None],
        b"\x04\x02\x02\x00\x00",
    ),
    (map_of(STRING, INT32), {"type": "map", "values": "int"}, {"k": 1}, b"\x02\x02k\x02\x00"),
    (
        map_of(INT32, STRING),
        {"type": "array", "items": ENTRY},
        {1: "a"},
        b"\x02\x02\x02a\x00",
    ),
    (
        struct({"x": INT32, "y": OPTIONAL_STRING}, name="a.b.R", version=3),
        {
            "type": "record",
            "name": "R",
            "namespace": "a.b",
            "fields": [
                {"name": "x", "type": "int"},
                {"name": "y", "type": ["null", "string"], "default": None},
            ],
            "connect.version": 3,
            "connect.name": "a.b.R",
        },
        {"x": 1, "y": None},
        b"\x02\x00",
    ),
    (
        struct({"x": replace(INT32, doc="words", parameters={"p": "q"})}, name="R"),
        {
            "type": "record",
            "name": "R",
            "fields": [
                {
                    "name": "x",
                    "type": {
                        "type": "int",
                        "connect.doc": "words",
                        "connect.parameters": {"p": "q"},
                    },
                }
            ],
            "connect.name": "R",
        },
        {"x": 1},
        b"\x02",
    ),
]


@pytest.mark.parametrize(("schema", "node", "value", "payload"), BOTH_WAYS)
def test_schemas_and_values_both_ways(
    avro: Make, ask: Ask, schema: Schema, node: Any, value: Value, payload: bytes
) -> None:
    [cell] = write(avro(), schema, value)
    assert cell == wire.head(1) + payload
    found = written_schema(ask)
    assert found == node
    assert json.dumps(found) == json.dumps(node)  # in Java's order, too
    column = read(avro(), cell)
    assert column.values == [value]
    assert type(column.values[0]) is type(value)
    [run] = column.runs
    # After the null of an optional schema, the registry's version has no place.
    version = schema.version or (None if schema.optional else 1)
    assert run.schema == replace(schema, version=version)


def test_every_place_of_a_nested_record_round_trips(avro: Make) -> None:
    inner = struct({"x": INT32}, name="a.Inner")
    schema = struct(
        {
            "in": inner,
            "maybe": inner.as_optional(),
            "never": inner.as_optional(),
            "all": array(inner.as_optional()),
            "by": map_of(STRING, inner),
            "bys": Schema(
                Type.MAP, name="a.Entry", key_schema=inner, value_schema=array(OPTIONAL_INT32)
            ),
            "lists": array(array(OPTIONAL_STRING, optional=True)),
            "price": decimal(3, optional=True),
            "raw": BYTES.as_optional(),
        },
        name="a.Outer",
        version=2,
    )
    value = {
        "in": {"x": 1},
        "maybe": {"x": 2},
        "never": None,
        "all": [{"x": 3}, None],
        "by": {"k": {"x": 4}},
        "bys": [({"x": 5}, [1, None])],
        "lists": [["a", None], None],
        "price": Decimal("1.500"),
        "raw": b"\0",
    }
    before = copy.deepcopy(value)
    column = read(avro(), *write(avro(), schema, value))
    assert column.values == [value]
    assert column.runs == [Run(1, schema)]
    assert value == before


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -(2**63), 1.5, "text", b"\0", [], [1, "a", None, [2.5]], {"k": None, "l": {}},
     {1: "x", "y": [{"z": b""}]}],
)  # fmt: skip
def test_data_without_a_schema_is_anything(avro: Make, ask: Ask, value: Value) -> None:
    cells = write(avro(), None, value)
    if value is None:
        assert cells == [None]
        assert ask("GET", "/subjects") == (200, [])
        return
    column = read(avro(), *cells)
    assert column == Column([value], [Run(1, None)])
    assert written_schema(ask)["name"] == "Anything"


def test_lists_and_maps_of_anything_keep_their_shape(avro: Make) -> None:
    schema = struct({"l": Schema(Type.ARRAY, value_schema=None)}, name="R", version=1)
    value = {"l": [1, "a", None, [True]]}
    column = read(avro(), *write(avro(), schema, value))
    assert (column.values, column.runs[0].schema) == ([value], schema)


def test_unnamed_structs_are_called_connect_default(avro: Make, ask: Ask) -> None:
    schema = struct({"a": struct({"x": INT32}), "b": struct({"y": INT32}, optional=True)})
    column = read(avro(), *write(avro(), schema, {"a": {"x": 1}, "b": None}))
    node = written_schema(ask)
    inner = node["fields"][0]["type"]
    assert (node["namespace"], node["name"]) == ("io.confluent.connect.avro", "ConnectDefault")
    assert (inner["name"], node["fields"][1]["type"][1]["name"]) == (
        "ConnectDefault2",
        "ConnectDefault3",
    )
    assert column.runs[0].schema == replace(schema, version=1)


POINT = struct({"x": INT32}, name="Point")
POINTS = map_of(INT32, POINT)
SIZES = Schema(
    Type.STRING,
    parameters={
        "io.confluent.connect.avro.Enum": "Size",
        **{f"io.confluent.connect.avro.Enum.{size}": size for size in ("S", "L")},
    },
)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"first": POINT, "all": POINTS}, {"first": {"x": 1}, "all": {2: {"x": 3}}}),
        ({"first": POINT, "all": replace(POINTS, name="shop.Points")},
         {"first": {"x": 1}, "all": {2: {"x": 3}}}),
        ({"first": POINT, "all": map_of(INT32, POINT.as_optional())},
         {"first": {"x": 1}, "all": {2: None}}),
        ({"first": POINT, "texts": map_of(STRING, POINT)},
         {"first": {"x": 1}, "texts": {"a": {"x": 3}}}),
        ({"one": struct({"at": POINT}, name="a.One"), "two": struct({"at": POINT}, name="b.Two")},
         {"one": {"at": {"x": 1}}, "two": {"at": {"x": 2}}}),
        ({"size": SIZES, "all": map_of(INT32, SIZES)}, {"size": "S", "all": {1: "L"}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [None, "Route", "shop.Route"])
def test_a_type_without_a_namespace_is_found_wherever_it_occurs_again(
    avro: Make, ask: Ask, name: str | None, fields: dict[str, Schema], value: Value
) -> None:
    schema = struct(fields, name=name)
    settings = {"enhanced_avro_schema_support": "true"}
    cells = write(avro(**settings), schema, value)
    parsed = fastavro.parse_schema(written_schema(ask))
    assert cells[0] is not None
    fastavro.schemaless_reader(io.BytesIO(cells[0][wire.HEAD_SIZE :]), parsed, None)
    column = read(avro(**settings), *cells)
    assert column.values == [value]
    if "size" not in fields:
        assert column.runs[0].schema == replace(schema, version=1)


def test_a_branch_without_a_namespace_is_found_by_its_name(avro: Make, ask: Ask) -> None:
    other = struct({"y": INT32}, name="Other")
    union = struct(
        {"Other": other.as_optional(), "Point": POINT.as_optional()},
        name="io.confluent.connect.avro.Union",
    )
    schema = struct({"one": POINTS, "two": other, "any": union}, name="shop.Route")
    value = {"one": {1: {"x": 2}}, "two": {"y": 3}, "any": {"Point": {"x": 4}}}
    cells = write(avro(), schema, value)
    fastavro.parse_schema(written_schema(ask))
    latest = {"auto_register_schemas": "false", "use_latest_version": "true"}
    for settings in ({}, latest):
        assert write(avro(**settings), schema, value) == cells
    assert read(avro(), *cells).values == [value]


def test_null_is_a_tombstone_or_a_failure(avro: Make) -> None:
    converter, failed = avro(), dict[int, Exception]()
    column = Column([None, None, None], [Run(1, OPTIONAL_STRING), Run(2, STRING), Run(3, None)])
    assert converter.from_connect(["t"] * 3, column, failed) == [None] * 3
    assert {row: str(error) for row, error in failed.items()} == {
        1: "Found null value for non-optional schema"
    }
    assert converter.to_connect(["t"], [None], failed) == Column([None], [Run(1, None)])


def test_null_fields_are_written_as_their_default_unless_it_is_ignored(avro: Make) -> None:
    value = {"x": None, "y": "a"}
    assert read(avro(), *write(avro(), defaulted(), value)).values == [{"x": 7, "y": "a"}]
    ignoring = avro(ignore_default_for_nullables="true")
    assert read(ignoring, *write(ignoring, defaulted(), value)).values == [value]
    assert read(avro(), *write(avro(), defaulted(), {"y": "a"})).values == [{"x": 7, "y": "a"}]


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        (INT8, 3),
        (INT64, 1 << 40),
        (FLOAT64, 0.5),
        (BOOLEAN, False),
        (STRING, "x"),
        (BYTES, b"\x00\xff"),
        (decimal(2), Decimal("1.25")),
        (DATE, date(2024, 2, 29)),
        (TIME, time(1, 2, 3)),
        (TIMESTAMP, datetime(2024, 2, 29, tzinfo=UTC)),
        (array(INT32), [1, 2]),
        (map_of(STRING, INT32), {"a": 1}),
        (map_of(INT32, STRING), {1: "a"}),
        (struct({"x": INT32}, name="S"), {"x": 1}),
    ],
)
@pytest.mark.parametrize("optional", [False, True])
def test_defaults_round_trip(avro: Make, schema: Schema, default: Value, optional: bool) -> None:
    field = replace(schema, default=default, optional=optional)
    outer = struct({"f": field}, name="R", version=1)
    column = read(avro(), *write(avro(), outer, {}))
    assert column.values == [{"f": default}]
    found = column.runs[0].schema
    assert found is not None
    assert found.fields[0].schema.default == default
    if not optional and isinstance(default, dict) and schema.key_schema is INT32:
        assert found == outer  # no Avro default can say it; connect.default does
    if optional:
        assert found == outer


def test_a_default_of_the_avro_field_is_marked_and_written_back(avro: Make, ask: Ask) -> None:
    node = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "n", "type": "int", "default": 5},
            {"name": "o", "type": ["null", "string"], "default": None},
        ],
    }
    column = read(avro(), foreign(ask, node, {"n": 1, "o": None}))
    schema = column.runs[0].schema
    assert schema == struct(
        {
            "n": Schema(
                Type.INT32,
                default=5,
                parameters={"io.confluent.connect.avro.field.default": "true"},
            ),
            "o": OPTIONAL_STRING,
        },
        name="R",
        version=1,
    )
    write(avro(), schema, column.values[0])
    assert written_schema(ask)["fields"] == [
        {"name": "n", "type": "int", "default": 5},
        {"name": "o", "type": ["null", "string"], "default": None},
    ]


def test_docs_become_parameters_and_docs_again(avro: Make, ask: Ask) -> None:
    node = {
        "type": "record",
        "name": "R",
        "doc": "of the record",
        "fields": [{"name": "x", "type": "int", "doc": "of the field"}],
    }
    cell = foreign(ask, node, {"x": 1})
    column = read(avro(), cell)
    schema = column.runs[0].schema
    assert schema is not None
    assert schema.parameters == {
        "io.confluent.connect.avro.record.doc": "of the record",
        "io.confluent.connect.avro.field.doc.x": "of the field",
    }
    write(avro(), schema, column.values[0])
    found = written_schema(ask)
    assert (found["doc"], found["fields"][0]["doc"]) == ("of the record", "of the field")
    bare = read(avro(connect_meta_data="false"), cell).runs[0].schema
    assert bare is not None
    assert bare.parameters is None
    old = read(avro(discard_type_doc_default="true"), cell).runs[0].schema
    assert old is not None
    assert (old.doc, old.fields[0].schema.doc) == ("of the record", "of the field")


def test_without_metadata_only_avro_is_written(avro: Make, ask: Ask) -> None:
    write(avro(connect_meta_data="false"), struct({"x": INT8}, name="R", version=4), {"x": 1})
    assert written_schema(ask) == {
        "type": "record",
        "name": "R",
        "fields": [{"name": "x", "type": "int"}],
    }


ENUM_NODE = {"type": "enum", "name": "a.E", "symbols": ["RED", "BLUE"], "doc": "d"}
ENUM = replace(
    STRING,
    name="a.E",
    version=1,
    parameters={
        "io.confluent.connect.avro.enum.doc.E": "d",
        "io.confluent.connect.avro.Enum": "a.E",
        "io.confluent.connect.avro.Enum.RED": "RED",
        "io.confluent.connect.avro.Enum.BLUE": "BLUE",
    },
)


def test_enums_are_strings_that_know_what_they_were(avro: Make, ask: Ask) -> None:
    column = read(avro(), foreign(ask, ENUM_NODE, "BLUE"))
    assert column == Column(["BLUE"], [Run(1, ENUM)])
    ask("PUT", "/config", {"compatibility": "NONE"})
    write(avro(), ENUM, "RED")
    assert written_schema(ask)["type"] == "string"


def test_enums_are_written_as_enums_when_that_is_set(avro: Make, ask: Ask) -> None:
    enhanced = avro(enhanced_avro_schema_support="true")
    cells = write(enhanced, ENUM, "RED", "BLUE")
    node = written_schema(ask)
    assert {name: node[name] for name in ("type", "name", "namespace", "symbols", "doc")} == {
        "type": "enum",
        "name": "E",
        "namespace": "a",
        "symbols": ["RED", "BLUE"],
        "doc": "d",
    }
    assert cells == [wire.head(1) + b"\x00", wire.head(1) + b"\x02"]
    assert read(enhanced, *cells) == Column(["RED", "BLUE"], [Run(2, ENUM)])
    failed: Failed = {}
    assert enhanced.from_connect(["t"], Column.of(["GREEN"], ENUM), failed) == [None]
    assert "'GREEN' is not a symbol of the enum a.E" in str(failed[0])


def test_generalized_enums_are_shared_with_other_formats(avro: Make, ask: Ask) -> None:
    shared = avro(generalized_sum_type_support="true")
    column = read(shared, foreign(ask, ENUM_NODE, "BLUE"))
    schema = column.runs[0].schema
    assert schema is not None
    assert schema.parameters == {
        "io.confluent.connect.avro.enum.doc.E": "d",
        "org.apache.kafka.connect.data.Enum": "a.E",
        "org.apache.kafka.connect.data.Enum.RED": "0",
        "org.apache.kafka.connect.data.Enum.BLUE": "1",
    }
    ask("PUT", "/config", {"compatibility": "NONE"})
    assert read(shared, *write(shared, schema, "RED")) == Column(["RED"], [Run(1, schema)])
    assert written_schema(ask)["symbols"] == ["RED", "BLUE"]


FIXED_NODE = {"type": "fixed", "name": "a.F", "size": 2}


def test_fixed_are_bytes_that_know_their_size(avro: Make, ask: Ask) -> None:
    column = read(avro(), foreign(ask, FIXED_NODE, b"ab"))
    schema = replace(BYTES, name="a.F", version=1, parameters={"connect.fixed.size": "2"})
    assert column == Column([b"ab"], [Run(1, schema)])
    assert write(avro(), schema, b"cd") == [wire.head(2) + b"cd"]
    assert written_schema(ask)["type"] == "fixed"
    failed: Failed = {}
    avro().from_connect(["t"], Column.of([b"x"], schema), failed)
    assert "Fixed of 2 bytes given 1 bytes" in str(failed[0])


def test_decimals_may_be_fixed(avro: Make, ask: Ask) -> None:
    node = {**FIXED_NODE, "logicalType": "decimal", "precision": 4, "scale": 1}
    cell = foreign(ask, {"type": "record", "name": "R", "fields": [{"name": "d", "type": node}]},
                   {"d": Decimal("-1.5")})  # fmt: skip
    column = read(avro(), cell)
    schema = column.runs[0].schema
    assert schema is not None
    assert column.values == [{"d": Decimal("-1.5")}]
    assert schema.fields[0].schema.parameters == {
        "scale": "1",
        "connect.decimal.precision": "4",
        "connect.fixed.size": "2",
    }
    ask("PUT", "/config", {"compatibility": "NONE"})
    assert read(avro(), *write(avro(), schema, {"d": Decimal("-2.5")})).values == [
        {"d": Decimal("-2.5")}
    ]


UNION_NODE = {
    "type": "record",
    "name": "R",
    "fields": [
        {
            "name": "u",
            "type": ["null", "int", "string", RECORD_A, {"type": "array", "items": "int"}],
        }
    ],
}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (None, None),
        (1, {"int": 1}),
        ("s", {"string": "s"}),
        ({"x": 1}, {"A": {"x": 1}}),
        ([1], {"array": [1]}),
    ],
)
def test_unions_are_structs_with_a_field_per_branch(
    avro: Make, ask: Ask, given: Any, value: Any
) -> None:
    cell = foreign(ask, UNION_NODE, {"u": given})
    column = read(avro(), cell)
    schema = column.runs[0].schema
    assert schema is not None
    union = schema.fields[0].schema
    assert (union.name, union.optional, union.field_names) == (
        "io.confluent.connect.avro.Union",
        True,
        ("int", "string", "A", "array"),
    )
    assert all(each.schema.optional for each in union.fields)
    assert column.values == [{"u": value}]
    assert write(avro(), schema, {"u": value})[0][5:] == cell[5:]  # type: ignore[index]
    enhanced = read(avro(enhanced_avro_schema_support="true"), cell).runs[0].schema
    assert enhanced is not None
    assert "n.A" in enhanced.fields[0].schema.field_names
    shared = avro(generalized_sum_type_support="true")
    column = read(shared, cell)
    general = column.runs[0].schema
    assert general is not None
    assert general.fields[0].schema.field_names == tuple(
        f"connect_union_field_{index}" for index in (1, 2, 3, 4)
    )
    assert general.fields[0].schema.parameters == {
        "org.apache.kafka.connect.data.Union": "connect_union_0"
    }
    assert write(shared, general, column.values[0])[0][5:] == cell[5:]  # type: ignore[index]


def test_a_union_of_longs_and_ints_keeps_them_apart(avro: Make, ask: Ask) -> None:
    node = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["long", "int"]}]}
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(node)})
    column = read(avro(), wire.head(1) + b"\x02\x0a", wire.head(1) + b"\x00\x0a")
    assert column.values == [{"u": {"int": 5}}, {"u": {"long": 5}}]
    schema = column.runs[0].schema
    assert [cell and cell[5:] for cell in write(avro(), schema, *column.values)] == [
        b"\x02\x0a",
        b"\x00\x0a",
    ]


def test_a_union_of_one_is_flattened_unless_told_otherwise(avro: Make, ask: Ask) -> None:
    node = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int"]}]}
    cell = foreign(ask, node, {"u": 1})
    assert read(avro(), cell).values == [{"u": 1}]
    assert read(avro(flatten_singleton_union="false"), cell).values == [{"u": {"int": 1}}]


def test_logical_types_connect_does_not_know_are_what_encodes_them(avro: Make, ask: Ask) -> None:
    node = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "b", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "c", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        ],
    }
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(node)})
    column = read(avro(), wire.head(1) + b"\x02" + b"\x04no" + b"\x04")
    assert column.values == [{"a": 1, "b": "no", "c": 2}]
    assert column.runs[0].schema == struct({"a": INT64, "b": STRING, "c": INT64}, name="R",
                                           version=1)  # fmt: skip


def test_decimals_keep_more_digits_than_their_precision(avro: Make, ask: Ask) -> None:
    node = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    outer = {"type": "record", "name": "R", "fields": [{"name": "d", "type": node}]}
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(outer)})
    unscaled = (123456789).to_bytes(4, signed=True)
    column = read(avro(), wire.head(1) + b"\x08" + unscaled)
    assert column.values == [{"d": Decimal("1234567.89")}]


def test_text_that_is_not_utf_8_is_read_with_replacements(avro: Make, ask: Ask) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": '"string"'})
    assert read(avro(), wire.head(1) + b"\x04a\xff").values == ["a\ufffd"]


def test_bytes_after_the_data_are_ignored(avro: Make, ask: Ask) -> None:
    cell = foreign(ask, RECORD_A, {"x": 1})
    assert read(avro(), cell + b"more").values == [{"x": 1}]


def test_invalid_names_are_scrubbed_if_that_is_set(avro: Make, ask: Ask) -> None:
    schema = struct({"order-id": INT32, "1st": STRING}, name="my-app.Order Line")
    value = {"order-id": 1, "1st": "x"}
    failed: Failed = {}
    avro().from_connect(["t"], Column.of([value], schema), failed)
    assert "Invalid" in str(failed[0])
    scrubbing = avro(scrub_invalid_names="true", connect_meta_data="false")
    column = read(scrubbing, *write(scrubbing, schema, value))
    assert column.values == [{"order_id": 1, "x1st": "x"}]
    assert column.runs[0].schema == struct(
        {"order_id": INT32, "x1st": STRING}, name="my_app.Order_Line", version=1
    )


def test_maps_with_optional_keys_are_arrays_unless_allowed(avro: Make, ask: Ask) -> None:
    schema = map_of(OPTIONAL_STRING, INT32)
    write(avro(), schema, {"a": 1, None: 2})
    assert written_schema(ask)["type"] == "array"
    ask("PUT", "/config", {"compatibility": "NONE"})
    allowing = avro(allow_optional_map_keys="true")
    column = read(allowing, *write(allowing, schema, {"a": 1}))
    assert written_schema(ask)["type"] == "map"
    assert column.runs[0].schema == replace(map_of(STRING, INT32), version=2)
