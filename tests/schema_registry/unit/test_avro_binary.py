"""Avro's binary encoding, both ways, checked with fastavro."""

from __future__ import annotations

import copy
import io
import json
import struct
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.data.avro.decode import Malformed, decoder
from penstock.data.avro.schema import parse
from penstock.schema_registry.avro_encode import encoder


def encoded(schema: Any, datum: Any) -> bytes:
    node, named = parse(json.dumps(schema))
    return encoder(node, named)(datum)


def decoded(schema: Any, data: bytes, at: int = 0) -> tuple[Any, int]:
    node, named = parse(json.dumps(schema))
    return decoder(node, named, lambda union: None, lambda key: True)(data, at)


def judged(schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(schema)), datum)
    return out.getvalue()


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_longs(number: int) -> None:
    data = encoded("long", number)
    assert data == judged("long", number)
    assert decoded("long", b"xx" + data, 2) == (number, len(data) + 2)


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 4095, 4096, -4096, -4097, 2**31 - 1,
                                    -(2**31)])  # fmt: skip
def test_ints_at_the_edges(number: int) -> None:
    data = encoded("int", number)
    assert data == judged("int", number)
    assert decoded("int", data) == (number, len(data))


INNER = {"type": "record", "name": "n.I", "fields": [{"name": "x", "type": "int"}]}
CASES: list[tuple[Any, Any]] = [
    ("string", "ü" * 5000),
    ("bytes", b"\0" * 5000),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    ({"type": "map", "values": "string"}, {"a": "b", "": ""}),
    ({"type": "array", "items": {"type": "array", "items": "int"}}, [[1], [], [2, 3]]),
    ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, [{}, {}]),
    (["null", "int"], None),
    (["int", "null"], 5),
    (
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": INNER},
                {"name": "b", "type": "n.I"},
                {"name": "quote's \" \\", "type": {"type": "array", "items": "n.I"}},
            ],
        },
        {"a": {"x": 1}, "b": {"x": 2}, "quote's \" \\": [{"x": 3}]},
    ),
]


@pytest.mark.parametrize(("schema", "datum"), CASES)
def test_bytes_and_values_are_those_of_fastavro(schema: Any, datum: Any) -> None:
    data = encoded(schema, datum)
    assert data == judged(schema, datum)
    assert decoded(schema, data) == (datum, len(data))


def test_nesting_has_no_depth_at_which_it_fails() -> None:
    schema: Any = "int"
    datum: Any = 7
    for level in range(40):
        inside = {"name": "f", "type": {"type": "array", "items": schema}}
        schema = {"type": "record", "name": f"L{level}", "fields": [inside]}
        datum = {"f": [datum]}
    data = encoded(schema, datum)
    assert data == judged(schema, datum)
    assert decoded(schema, data) == (datum, len(data))


def test_types_that_occur_again_do_not_multiply() -> None:
    schema: Any = {"type": "record", "name": "L0", "fields": [{"name": "x", "type": "int"}]}
    datum: Any = {"x": 1}
    for level in range(1, 16):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"L{level - 1}"}]
        schema = {"type": "record", "name": f"L{level}", "fields": fields}
        datum = {"a": datum, "b": datum}
    data = encoded(schema, datum)
    assert data == b"\x02" * 2**15
    assert decoded(schema, data) == (datum, len(data))


def test_blocks_may_tell_their_size() -> None:
    data = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # two elements in two bytes, then one
    assert decoded({"type": "array", "items": "int"}, data) == ([1, 2, 3], len(data))
    entry = b"\x02k\x02"
    assert decoded({"type": "map", "values": "int"}, b"\x01\x06" + entry + b"\x00") == ({"k": 1}, 6)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("int", b""),
        ("int", b"\x80"),
        ("int", b"\xff\xff\xff\xff\x1f"),
        ("int", b"\x80\x80\x80\x80\x80\x80\x01"),
        ("long", b"\xff" * 50),
        ("string", b"\x04a"),
        ("string", b"\x01"),
        ("bytes", b"\x06ab"),
        ("double", b"\0" * 7),
        ("float", b"\0" * 3),
        ("boolean", b""),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01"),
        (["null", "int"], b"\x04"),
        (["null", "int"], b"\x01"),
        ({"type": "array", "items": "int"}, b"\x04\x02"),
    ],
)
def test_bytes_that_are_not_data_of_the_schema_raise(schema: Any, data: bytes) -> None:
    with pytest.raises((Malformed, IndexError, struct.error)):
        decoded(schema, data)
