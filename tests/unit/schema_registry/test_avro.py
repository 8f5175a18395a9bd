"""Avro as Confluent's AvroConverter reads and writes it: schemas, values, settings, failures."""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from penstock.api.converter import Use
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
    fields_of,
    map_of,
    struct,
)
from penstock.errors import DataError, Unavailable
from penstock.schema_registry import wire
from penstock.schema_registry.avro import AVRO_CONVERTER, AvroConverter
from penstock.schema_registry.transport import MockTransport

Ask = Callable[..., tuple[int, Any]]
Make = Callable[..., AvroConverter]


@pytest.fixture
def make(registry_url: str) -> Make:
    """Makes a converter on the test's own registry; settings with `_` for `.`."""

    def converter(use: Use = Use.VALUE, **props: str) -> AvroConverter:
        given = {name.replace("_", "."): text for name, text in props.items()}
        return AvroConverter(
            AVRO_CONVERTER.parse({"schema.registry.url": registry_url, **given}), use
        )

    return converter


def write(converter: AvroConverter, schema: Schema | None, *values: Value) -> list[bytes | None]:
    failed: Failed = {}
    column = Column.of(list(values), schema)
    cells = converter.from_connect(["t"] * len(values), column, failed)
    assert not failed, failed
    return cells


def read(converter: AvroConverter, *cells: bytes | None, topic: str = "t") -> Column:
    failed: Failed = {}
    column = converter.to_connect([topic] * len(cells), list(cells), failed)
    assert not failed, failed
    return column


def written_schema(ask: Ask, subject: str = "t-value") -> Any:
    return json.loads(ask("GET", f"/subjects/{subject}/versions/latest")[1]["schema"])


def foreign(ask: Ask, schema: Any, value: Any, subject: str = "t-value") -> bytes:
    """A message another program wrote."""
    status, answer = ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})
    assert status == 200, answer
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(schema)), value)
    return wire.head(answer["id"]) + out.getvalue()


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
    (BYTES, "bytes", b"\x00\x01", b"\x00\x01"),  # bare at the top: no length
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
    make: Make, ask: Ask, schema: Schema, node: Any, value: Value, payload: bytes
) -> None:
    [cell] = write(make(), schema, value)
    assert cell == wire.head(1) + payload
    found = written_schema(ask)
    assert found == node
    assert json.dumps(found) == json.dumps(node)  # in Java's order, too
    column = read(make(), cell)
    assert column.values == [value]
    assert type(column.values[0]) is type(value)
    [run] = column.runs
    # Behind the null of an optional one there is no place for the registry's version.
    version = schema.version or (None if schema.optional else 1)
    assert run.schema == replace(schema, version=version)


def test_every_place_of_a_nested_record_round_trips(make: Make) -> None:
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
    column = read(make(), *write(make(), schema, value))
    assert column.values == [value]
    assert column.runs == [Run(1, schema)]
    assert value == before


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -(2**63), 1.5, "text", b"\0", [], [1, "a", None, [2.5]], {"k": None, "l": {}},
     {1: "x", "y": [{"z": b""}]}],
)  # fmt: skip
def test_data_without_a_schema_is_anything(make: Make, ask: Ask, value: Value) -> None:
    cells = write(make(), None, value)
    if value is None:
        assert cells == [None]
        assert ask("GET", "/subjects") == (200, [])
        return
    column = read(make(), *cells)
    assert column == Column([value], [Run(1, None)])
    assert written_schema(ask)["name"] == "Anything"


def test_lists_and_maps_of_anything_keep_their_shape(make: Make) -> None:
    schema = struct({"l": Schema(Type.ARRAY, value_schema=None)}, name="R", version=1)
    value = {"l": [1, "a", None, [True]]}
    column = read(make(), *write(make(), schema, value))
    assert (column.values, column.runs[0].schema) == ([value], schema)


def test_unnamed_structs_are_called_connect_default(make: Make, ask: Ask) -> None:
    schema = struct({"a": struct({"x": INT32}), "b": struct({"y": INT32}, optional=True)})
    column = read(make(), *write(make(), schema, {"a": {"x": 1}, "b": None}))
    node = written_schema(ask)
    inner = node["fields"][0]["type"]
    assert (node["namespace"], node["name"]) == ("io.confluent.connect.avro", "ConnectDefault")
    assert (inner["name"], node["fields"][1]["type"][1]["name"]) == (
        "ConnectDefault2",
        "ConnectDefault3",
    )
    assert column.runs[0].schema == replace(schema, version=1)


def test_null_is_a_tombstone_or_a_failure(make: Make) -> None:
    converter, failed = make(), dict[int, Exception]()
    column = Column([None, None, None], [Run(1, OPTIONAL_STRING), Run(2, STRING), Run(3, None)])
    assert converter.from_connect(["t"] * 3, column, failed) == [None] * 3
    assert {row: str(error) for row, error in failed.items()} == {
        1: "Found null value for non-optional schema"
    }
    assert converter.to_connect(["t"], [None], failed) == Column([None], [Run(1, None)])


def defaulted(default: Value = 7) -> Schema:
    return struct(
        {"x": Schema(Type.INT32, optional=True, default=default), "y": OPTIONAL_STRING}, name="R"
    )


def test_null_fields_are_written_as_their_default_unless_it_is_ignored(make: Make) -> None:
    value = {"x": None, "y": "a"}
    assert read(make(), *write(make(), defaulted(), value)).values == [{"x": 7, "y": "a"}]
    ignoring = make(ignore_default_for_nullables="true")
    assert read(ignoring, *write(ignoring, defaulted(), value)).values == [value]
    assert read(make(), *write(make(), defaulted(), {"y": "a"})).values == [{"x": 7, "y": "a"}]


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
def test_defaults_round_trip(make: Make, schema: Schema, default: Value, optional: bool) -> None:
    field = replace(schema, default=default, optional=optional)
    outer = struct({"f": field}, name="R", version=1)
    column = read(make(), *write(make(), outer, {}))
    assert column.values == [{"f": default}]
    found = column.runs[0].schema
    assert found is not None
    assert found.fields[0].schema.default == default
    if not optional and isinstance(default, dict) and schema.key_schema is INT32:
        assert found == outer  # no Avro default can say it; connect.default does
    if optional:
        assert found == outer


def test_a_default_of_the_avro_field_is_marked_and_written_back(make: Make, ask: Ask) -> None:
    node = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "n", "type": "int", "default": 5},
            {"name": "o", "type": ["null", "string"], "default": None},
        ],
    }
    column = read(make(), foreign(ask, node, {"n": 1, "o": None}))
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
    write(make(), schema, column.values[0])
    assert written_schema(ask)["fields"] == [
        {"name": "n", "type": "int", "default": 5},
        {"name": "o", "type": ["null", "string"], "default": None},
    ]


def test_docs_become_parameters_and_docs_again(make: Make, ask: Ask) -> None:
    node = {
        "type": "record",
        "name": "R",
        "doc": "of the record",
        "fields": [{"name": "x", "type": "int", "doc": "of the field"}],
    }
    cell = foreign(ask, node, {"x": 1})
    column = read(make(), cell)
    schema = column.runs[0].schema
    assert schema is not None
    assert schema.parameters == {
        "io.confluent.connect.avro.record.doc": "of the record",
        "io.confluent.connect.avro.field.doc.x": "of the field",
    }
    write(make(), schema, column.values[0])
    found = written_schema(ask)
    assert (found["doc"], found["fields"][0]["doc"]) == ("of the record", "of the field")
    bare = read(make(connect_meta_data="false"), cell).runs[0].schema
    assert bare is not None
    assert bare.parameters is None
    old = read(make(discard_type_doc_default="true"), cell).runs[0].schema
    assert old is not None
    assert (old.doc, old.fields[0].schema.doc) == ("of the record", "of the field")


def test_without_metadata_only_avro_is_written(make: Make, ask: Ask) -> None:
    write(make(connect_meta_data="false"), struct({"x": INT8}, name="R", version=4), {"x": 1})
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


def test_enums_are_strings_that_know_what_they_were(make: Make, ask: Ask) -> None:
    column = read(make(), foreign(ask, ENUM_NODE, "BLUE"))
    assert column == Column(["BLUE"], [Run(1, ENUM)])
    ask("PUT", "/config", {"compatibility": "NONE"})
    write(make(), ENUM, "RED")
    assert written_schema(ask)["type"] == "string"


def test_enums_are_written_as_enums_when_that_is_set(make: Make, ask: Ask) -> None:
    enhanced = make(enhanced_avro_schema_support="true")
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


def test_generalized_enums_are_shared_with_other_formats(make: Make, ask: Ask) -> None:
    shared = make(generalized_sum_type_support="true")
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


def test_fixed_are_bytes_that_know_their_size(make: Make, ask: Ask) -> None:
    column = read(make(), foreign(ask, FIXED_NODE, b"ab"))
    schema = replace(BYTES, name="a.F", version=1, parameters={"connect.fixed.size": "2"})
    assert column == Column([b"ab"], [Run(1, schema)])
    assert write(make(), schema, b"cd") == [wire.head(2) + b"cd"]
    assert written_schema(ask)["type"] == "fixed"
    failed: Failed = {}
    make().from_connect(["t"], Column.of([b"x"], schema), failed)
    assert "Fixed of 2 bytes given 1 bytes" in str(failed[0])


def test_decimals_may_be_fixed(make: Make, ask: Ask) -> None:
    node = {**FIXED_NODE, "logicalType": "decimal", "precision": 4, "scale": 1}
    cell = foreign(ask, {"type": "record", "name": "R", "fields": [{"name": "d", "type": node}]},
                   {"d": Decimal("-1.5")})  # fmt: skip
    column = read(make(), cell)
    schema = column.runs[0].schema
    assert schema is not None
    assert column.values == [{"d": Decimal("-1.5")}]
    assert schema.fields[0].schema.parameters == {
        "scale": "1",
        "connect.decimal.precision": "4",
        "connect.fixed.size": "2",
    }
    ask("PUT", "/config", {"compatibility": "NONE"})
    assert read(make(), *write(make(), schema, {"d": Decimal("-2.5")})).values == [
        {"d": Decimal("-2.5")}
    ]


RECORD_A = {"type": "record", "name": "n.A", "fields": [{"name": "x", "type": "int"}]}
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
    make: Make, ask: Ask, given: Any, value: Any
) -> None:
    cell = foreign(ask, UNION_NODE, {"u": given})
    column = read(make(), cell)
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
    assert write(make(), schema, {"u": value})[0][5:] == cell[5:]  # type: ignore[index]
    enhanced = read(make(enhanced_avro_schema_support="true"), cell).runs[0].schema
    assert enhanced is not None
    assert "n.A" in enhanced.fields[0].schema.field_names
    shared = make(generalized_sum_type_support="true")
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


def test_a_union_of_longs_and_ints_keeps_them_apart(make: Make, ask: Ask) -> None:
    node = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["long", "int"]}]}
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(node)})
    column = read(make(), wire.head(1) + b"\x02\x0a", wire.head(1) + b"\x00\x0a")
    assert column.values == [{"u": {"int": 5}}, {"u": {"long": 5}}]
    schema = column.runs[0].schema
    assert [cell and cell[5:] for cell in write(make(), schema, *column.values)] == [
        b"\x02\x0a",
        b"\x00\x0a",
    ]


def test_a_union_of_one_is_flattened_unless_told_otherwise(make: Make, ask: Ask) -> None:
    node = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int"]}]}
    cell = foreign(ask, node, {"u": 1})
    assert read(make(), cell).values == [{"u": 1}]
    assert read(make(flatten_singleton_union="false"), cell).values == [{"u": {"int": 1}}]


def test_logical_types_connect_does_not_know_are_what_encodes_them(make: Make, ask: Ask) -> None:
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
    column = read(make(), wire.head(1) + b"\x02" + b"\x04no" + b"\x04")
    assert column.values == [{"a": 1, "b": "no", "c": 2}]
    assert column.runs[0].schema == struct({"a": INT64, "b": STRING, "c": INT64}, name="R",
                                           version=1)  # fmt: skip


def test_decimals_keep_more_digits_than_their_precision(make: Make, ask: Ask) -> None:
    node = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    outer = {"type": "record", "name": "R", "fields": [{"name": "d", "type": node}]}
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(outer)})
    unscaled = (123456789).to_bytes(4, signed=True)
    column = read(make(), wire.head(1) + b"\x08" + unscaled)
    assert column.values == [{"d": Decimal("1234567.89")}]


def test_text_that_is_not_utf_8_is_read_with_replacements(make: Make, ask: Ask) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": '"string"'})
    assert read(make(), wire.head(1) + b"\x04a\xff").values == ["a\ufffd"]


def test_what_follows_the_data_is_not_looked_at(make: Make, ask: Ask) -> None:
    cell = foreign(ask, RECORD_A, {"x": 1})
    assert read(make(), cell + b"more").values == [{"x": 1}]


def test_invalid_names_are_scrubbed_if_that_is_set(make: Make, ask: Ask) -> None:
    schema = struct({"order-id": INT32, "1st": STRING}, name="my-app.Order Line")
    value = {"order-id": 1, "1st": "x"}
    failed: Failed = {}
    make().from_connect(["t"], Column.of([value], schema), failed)
    assert "Invalid" in str(failed[0])
    scrubbing = make(scrub_invalid_names="true", connect_meta_data="false")
    column = read(scrubbing, *write(scrubbing, schema, value))
    assert column.values == [{"order_id": 1, "x1st": "x"}]
    assert column.runs[0].schema == struct(
        {"order_id": INT32, "x1st": STRING}, name="my_app.Order_Line", version=1
    )


def test_maps_with_optional_keys_are_arrays_unless_allowed(make: Make, ask: Ask) -> None:
    schema = map_of(OPTIONAL_STRING, INT32)
    write(make(), schema, {"a": 1, None: 2})
    assert written_schema(ask)["type"] == "array"
    ask("PUT", "/config", {"compatibility": "NONE"})
    allowing = make(allow_optional_map_keys="true")
    column = read(allowing, *write(allowing, schema, {"a": 1}))
    assert written_schema(ask)["type"] == "map"
    assert column.runs[0].schema == replace(map_of(STRING, INT32), version=2)


def test_versions_come_from_the_registry_unless_the_schema_says(make: Make, ask: Ask) -> None:
    first = foreign(ask, RECORD_A, {"x": 1})
    more = {**RECORD_A, "fields": [*RECORD_A["fields"], {"name": "y", "type": "int",
                                                         "default": 0}]}  # fmt: skip
    second = foreign(ask, more, {"x": 1, "y": 2})
    said = foreign(ask, {**more, "connect.version": 9}, {"x": 3, "y": 4})
    runs = read(make(), first, first, second, said).runs
    assert [(run.stop, run.schema and run.schema.version) for run in runs] == [
        (2, 1),
        (3, 2),
        (4, 9),
    ]


def test_a_schema_built_on_another_is_read(make: Make, ask: Ask) -> None:
    ask("POST", "/subjects/a/versions", {"schema": json.dumps(RECORD_A)})
    outer = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "n.A"}]}
    body = {
        "schema": json.dumps(outer),
        "references": [{"name": "n.A", "subject": "a", "version": 1}],
    }
    assert ask("POST", "/subjects/t-value/versions", body)[0] == 200
    assert read(make(), wire.head(2) + b"\x04").values == [{"a": {"x": 2}}]


@pytest.mark.parametrize(
    ("strategy", "subjects"),
    [
        ("TopicNameStrategy", ["t-value"]),
        ("RecordNameStrategy", ["n.A"]),
        ("TopicRecordNameStrategy", ["t-n.A"]),
    ],
)
def test_subjects_are_named_as_the_settings_say(
    make: Make, ask: Ask, strategy: str, subjects: list[str]
) -> None:
    converter = make(
        value_subject_name_strategy=f"io.confluent.kafka.serializers.subject.{strategy}"
    )
    schema = struct({"x": INT32}, name="n.A")
    assert read(converter, *write(converter, schema, {"x": 1})).values == [{"x": 1}]
    assert ask("GET", "/subjects") == (200, subjects)


def test_the_latest_schema_is_written_by_name(make: Make, ask: Ask) -> None:
    latest = {
        "type": "record",
        "name": "n.A",
        "fields": [
            {"name": "extra", "type": ["null", "string"], "default": None},
            {"name": "n", "type": {"type": "array", "items": "int"}, "default": [1]},
            {"name": "x", "type": ["null", "long"], "default": None},
        ],
    }
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(latest)})
    converter = make(auto_register_schemas="false", use_latest_version="true")
    column = read(converter, *write(converter, struct({"x": INT32}, name="n.A"), {"x": 5}))
    assert column.values == [{"extra": None, "n": [1], "x": 5}]
    assert ask("GET", "/subjects/t-value/versions") == (200, [1])


def test_a_latest_schema_that_does_not_fit_is_refused(make: Make, ask: Ask) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(RECORD_A)})
    converter = make(auto_register_schemas="false", use_latest_version="true")
    failed: Failed = {}
    schema = struct({"z": STRING}, name="n.A")
    assert converter.from_connect(["t"], Column.of([{"z": "a"}], schema), failed) == [None]
    assert "Failed to serialize Avro data from topic t: Incompatible schema" in str(failed[0])
    assert "latest.compatibility.strict=false" in str(failed[0])


def test_an_incompatible_schema_fails_with_the_registrys_words(make: Make, ask: Ask) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(RECORD_A)})
    failed: Failed = {}
    schema = struct({"x": STRING}, name="n.A")
    make().from_connect(["t", "t"], Column.of([{"x": "a"}] * 2, schema), failed)
    assert set(failed) == {0, 1}
    error = failed[0]
    assert isinstance(error, DataError)
    assert not error.retriable
    assert error.java_name == "org.apache.kafka.common.config.ConfigException"
    assert str(error).startswith(
        "Failed to access Avro data from topic t : Schema being registered is incompatible with an "
        'earlier schema for subject "t-value", details: ['
    )


def test_a_bad_row_costs_no_other(make: Make) -> None:
    schema = struct({"x": INT32}, name="R", version=1)
    good, other = write(make(), schema, {"x": 1}, {"x": 2})
    assert good is not None
    cells = [b"", good, None, b"\1abcd", wire.head(99) + b"\0", good[:5], other]
    failed: Failed = {}
    column = make().to_connect(["t"] * 7, cells, failed)
    assert column.values == [None, {"x": 1}, None, None, None, None, {"x": 2}]
    assert {row: str(error) for row, error in failed.items() if row < 5} == {
        0: "Failed to deserialize data for topic t to Avro: Unknown magic byte!",
        3: "Failed to deserialize data for topic t to Avro: Unknown magic byte!",
        4: "Failed to deserialize data for topic t to Avro: Error retrieving Avro value schema for "
        "id 99: Schema 99 not found; error code: 40403",
    }
    assert str(failed[5]).startswith(
        "Failed to deserialize data for topic t to Avro: Error deserializing Avro message for id 1"
    )
    assert all(isinstance(error, DataError) for error in failed.values())
    assert column.schemas()[1] == column.schemas()[6] == schema

    failed = {}
    rows: list[Value] = [{"x": 1}, {"x": "a"}, {"x": None}, {"x": 2**31}, {"y": 1}, 5, {"x": True},
                         {"x": 2}]  # fmt: skip
    found = make().from_connect(["t"] * 8, Column.of(rows, schema), failed)
    assert [row for row, cell in enumerate(found) if cell is not None] == [0, 7]
    assert {row: str(error) for row, error in failed.items()} == {
        1: "Invalid type for INT32: class java.lang.String",
        2: "Found null value for non-optional schema",
        3: "Invalid type for INT32: class java.lang.Long",
        4: "Mismatching struct schema",
        5: "Invalid type for STRUCT: class java.lang.Long",
        6: "Invalid type for INT32: class java.lang.Boolean",
    }


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (decimal(2), 1.5, "Invalid type for Decimal, expected BigDecimal but was"),
        (decimal(2), Decimal("1.234"), "mismatching scale"),
        (DATE, "x", "Invalid type for Date, expected Date but was class java.lang.String"),
        (TIME, 1, "Invalid type for Time, expected Date but was class java.lang.Long"),
        (TIMESTAMP, 1, "Invalid type for Timestamp, expected Date but was"),
        (array(INT32), {}, "Invalid type for ARRAY"),
        (array(INT32), ["a"], "Invalid type for INT32: class java.lang.String"),
        (array(INT32), [None], "Found null value for non-optional schema"),
        (map_of(STRING, INT32), {1: 1}, "Invalid type for STRING: class java.lang.Long"),
        (None, Decimal(1), "Unknown Java type for schemaless data: class java.math.BigDecimal"),
        (struct({"x": INT32}, name="no good"), {"x": 1}, "Invalid"),
    ],
)
def test_values_that_are_none_of_the_schemas_are_refused(
    make: Make, schema: Schema | None, value: Value, message: str
) -> None:
    failed: Failed = {}
    assert make().from_connect(["t"], Column.of([value], schema), failed) == [None]
    assert message in str(failed[0])
    assert isinstance(failed[0], DataError)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("null", "Standalone null schemas are not supported by this converter"),
        (
            {"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]},
            "Record L contains itself",
        ),
        ({"type": "int", "connect.type": "int99"}, "Connect type annotation for Avro int field"),
        ({"type": "int", "connect.version": "x"}, "Invalid Connect version found: x"),
        ({"type": "int", "connect.name": 5}, "Invalid schema name: 5"),
        ({"type": "int", "connect.parameters": []}, "Expected JSON object for schema parameters"),
        (
            {"type": "int", "logicalType": "date", "connect.name": "x"},
            "Mismatched names: name already added",
        ),
        (
            {"type": "int", "logicalType": "date", "connect.version": 5},
            "Mismatched versions: version already added",
        ),
    ],
)
def test_schemas_without_a_connect_schema_are_refused(
    make: Make, ask: Ask, node: Any, message: str
) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(node)})
    failed: Failed = {}
    make().to_connect(["t"], [wire.head(1) + b"\0"], failed)
    assert message in str(failed[0])
    assert isinstance(failed[0], DataError)


def test_a_schema_of_another_format_is_refused(make: Make, ask: Ask) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": "{}", "schemaType": "JSON"})
    failed: Failed = {}
    make().to_connect(["t"], [wire.head(1) + b"{}"], failed)
    assert "schema 1 is of type JSON" in str(failed[0])


def test_a_topic_whose_subject_lacks_the_schema_is_refused(make: Make) -> None:
    [cell] = write(make(), STRING, "a")
    failed: Failed = {}
    make().to_connect(["mirrored"], [cell], failed)
    assert "Error retrieving Avro value schema version for id 1" in str(failed[0])
    assert "Subject 'mirrored-value' not found.; error code: 40401" in str(failed[0])


def test_a_registry_that_is_down_is_asked_once_a_batch(
    make: Make, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = struct({"x": INT32}, name="R")
    cells = write(make(), schema, {"x": 1}, {"x": 2})
    asked: list[str] = []

    def down(self: MockTransport, method: str, path: str, *args: object) -> object:
        asked.append(path)
        raise Unavailable("no answer")

    monkeypatch.setattr(MockTransport, "request", down)
    failed: Failed = {}
    mixed = [*cells, wire.head(7) + b"\0", *cells]
    make().to_connect(["t", "u", "t", "t", "u"], mixed, failed)
    assert len(asked) == 1
    assert [type(failed[row]) for row in range(5)] == [Unavailable] * 5
    assert "Network connection error while deserializing data for topic u: no answer" in str(
        failed[4]
    )
    failed = {}
    column = Column([{"x": 1}, {"y": 1}, {"x": 3}],
                    [Run(1, schema), Run(2, struct({"y": INT32})), Run(3, schema)])  # fmt: skip
    make().from_connect(["t"] * 3, column, failed)
    assert len(asked) == 2
    assert all(isinstance(error, Unavailable) and error.retriable for error in failed.values())
    assert set(failed) == {0, 1, 2}


def test_what_is_known_is_used_while_the_registry_is_down(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    converter = make()
    schema = struct({"x": INT32}, name="R")
    cells = write(converter, schema, {"x": 1})
    read(converter, *cells)

    def down(*args: object) -> object:
        raise Unavailable("no answer")

    monkeypatch.setattr(MockTransport, "request", down)
    assert read(converter, *write(converter, schema, {"x": 1})).values == [{"x": 1}]


def test_runs_follow_topics_and_schemas(make: Make) -> None:
    converter = make()
    first, second = struct({"x": INT32}, name="R", version=1), replace(STRING, version=1)
    column = Column([{"x": 1}, "a", {"x": 2}], [Run(1, first), Run(2, second), Run(3, first)])
    failed: Failed = {}
    topics = ["t", "u", "t"]
    cells = converter.from_connect(topics, column, failed)
    assert converter.to_connect(topics, cells, failed) == column
    assert not failed
    assert converter.to_connect([], [], failed) == Column([], [])


def test_keys_have_subjects_of_their_own(make: Make, ask: Ask) -> None:
    write(make(Use.KEY), STRING, "a")
    assert ask("GET", "/subjects") == (200, ["t-key"])


def test_schemas_that_were_read_can_be_sent_to_other_processes(make: Make) -> None:
    [run] = read(make(), *write(make(), defaulted(), {"x": 1})).runs
    assert pickle.loads(pickle.dumps(run.schema)) == run.schema


def test_fields_are_numbered(make: Make) -> None:
    [run] = read(make(), *write(make(), struct({"a": INT32, "b": INT32}), {"a": 1, "b": 2})).runs
    assert run.schema is not None
    assert run.schema.fields == fields_of({"a": INT32, "b": INT32})
