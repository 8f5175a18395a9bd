"""The Avro converter with a Schema Registry."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from penstock.data.records import Column, Failed, Run
from penstock.data.schema import (
    DATE,
    INT32,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Value,
    array,
    decimal,
    fields_of,
    map_of,
    struct,
)
from penstock.errors import DataError
from penstock.schema_registry import wire

from .avro_examples import RECORD_A, Ask, Make, defaulted, foreign, read, write


def test_two_fields_that_scrubbing_gives_one_name_are_refused(avro: Make, ask: Ask) -> None:
    target = {"type": "record", "name": "R", "fields": [{"name": "a_b", "type": "int"}]}
    body = {"schema": json.dumps(target)}
    assert ask("POST", "/subjects/t-value/versions", body)[0] == 200
    converter = avro(
        scrub_invalid_names="true",
        auto_register_schemas="false",
        use_latest_version="true",
        latest_compatibility_strict="false",
    )
    failed: Failed = {}
    schema = struct({"a-b": INT32, "a_b": INT32}, name="R")
    cells = converter.from_connect(["t"], Column.of([{"a-b": 1, "a_b": 2}], schema), failed)
    assert cells == [None]
    assert "The fields 'a-b' and 'a_b' both become 'a_b'" in str(failed[0])


def test_versions_come_from_the_registry_unless_the_schema_says(avro: Make, ask: Ask) -> None:
    first = foreign(ask, RECORD_A, {"x": 1})
    more = {**RECORD_A, "fields": [*RECORD_A["fields"], {"name": "y", "type": "int",
                                                         "default": 0}]}  # fmt: skip
    second = foreign(ask, more, {"x": 1, "y": 2})
    said = foreign(ask, {**more, "connect.version": 9}, {"x": 3, "y": 4})
    runs = read(avro(), first, first, second, said).runs
    assert [(run.stop, run.schema and run.schema.version) for run in runs] == [
        (2, 1),
        (3, 2),
        (4, 9),
    ]


def test_the_latest_schema_is_written_by_name(avro: Make, ask: Ask) -> None:
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
    converter = avro(auto_register_schemas="false", use_latest_version="true")
    column = read(converter, *write(converter, struct({"x": INT32}, name="n.A"), {"x": 5}))
    assert column.values == [{"extra": None, "n": [1], "x": 5}]
    assert ask("GET", "/subjects/t-value/versions") == (200, [1])


def test_a_bad_row_costs_no_other(avro: Make) -> None:
    schema = struct({"x": INT32}, name="R", version=1)
    good, other = write(avro(), schema, {"x": 1}, {"x": 2})
    assert good is not None
    cells = [b"", good, None, b"\1abcd", wire.head(99) + b"\0", good[:5], other]
    failed: Failed = {}
    column = avro().to_connect(["t"] * 7, cells, failed)
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
    found = avro().from_connect(["t"] * 8, Column.of(rows, schema), failed)
    assert [row for row, cell in enumerate(found) if cell is not None] == [0, 7]
    assert {row: str(error) for row, error in failed.items()} == {
        1: "Field 'x': Invalid type for INT32: class java.lang.String",
        2: "Field 'x': Found null value for non-optional schema",
        3: "Field 'x': Invalid type for INT32: class java.lang.Long",
        4: "Mismatching struct schema",
        5: "Invalid type for STRUCT: class java.lang.Long",
        6: "Field 'x': Invalid type for INT32: class java.lang.Boolean",
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
    avro: Make, schema: Schema | None, value: Value, message: str
) -> None:
    failed: Failed = {}
    assert avro().from_connect(["t"], Column.of([value], schema), failed) == [None]
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
    avro: Make, ask: Ask, node: Any, message: str
) -> None:
    ask("POST", "/subjects/t-value/versions", {"schema": json.dumps(node)})
    failed: Failed = {}
    avro().to_connect(["t"], [wire.head(1) + b"\0"], failed)
    assert message in str(failed[0])
    assert isinstance(failed[0], DataError)


def test_runs_follow_topics_and_schemas(avro: Make) -> None:
    converter = avro()
    first, second = struct({"x": INT32}, name="R", version=1), replace(STRING, version=1)
    column = Column([{"x": 1}, "a", {"x": 2}], [Run(1, first), Run(2, second), Run(3, first)])
    failed: Failed = {}
    topics = ["t", "u", "t"]
    cells = converter.from_connect(topics, column, failed)
    assert converter.to_connect(topics, cells, failed) == column
    assert not failed
    assert converter.to_connect([], [], failed) == Column([], [])


def test_schemas_that_were_read_can_be_sent_to_other_processes(avro: Make) -> None:
    [run] = read(avro(), *write(avro(), defaulted(), {"x": 1})).runs
    assert pickle.loads(pickle.dumps(run.schema)) == run.schema


def test_fields_are_numbered(avro: Make) -> None:
    [run] = read(avro(), *write(avro(), struct({"a": INT32, "b": INT32}), {"a": 1, "b": 2})).runs
    assert run.schema is not None
    assert run.schema.fields == fields_of({"a": INT32, "b": INT32})
