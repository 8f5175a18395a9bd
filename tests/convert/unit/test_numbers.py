"""The number converters and the BooleanConverter, batch by batch."""

from __future__ import annotations

from datetime import date

import pytest

from penstock.api import Converter, Failed, Use
from penstock.convert.numbers import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from penstock.data import schema as s
from penstock.data.records import Column, Run
from penstock.data.schema import Schema, Value
from penstock.errors import DataError

# Converter, the schema it reads, values and their bytes.
NUMBERS: list[tuple[type[Converter], Schema, list[tuple[Value, str]]]] = [
    (BooleanConverter, s.OPTIONAL_BOOLEAN, [(True, "01"), (False, "00")]),
    (ShortConverter, s.OPTIONAL_INT16, [(1, "0001"), (-(2**15), "8000"), (2**15 - 1, "7fff")]),
    (IntegerConverter, s.OPTIONAL_INT32, [(1, "00000001"), (-1, "ffffffff")]),
    (LongConverter, s.OPTIONAL_INT64, [(1, "0000000000000001"), (-(2**63), "8000000000000000")]),
    (FloatConverter, s.OPTIONAL_FLOAT32, [(1.5, "3fc00000"), (s.float32(0.1), "3dcccccd")]),
    (DoubleConverter, s.OPTIONAL_FLOAT64, [(0.1, "3fb999999999999a"), (-0.0, "8" + "0" * 15)]),
]


def made(kind: type[Converter]) -> Converter:
    return kind(kind.plugin.config.parse({}), Use.VALUE)


def read(kind: type[Converter], cells: list[bytes | None]) -> tuple[Column, Failed]:
    failed: Failed = {}
    return made(kind).to_connect(["t"] * len(cells), cells, failed), failed


def write(kind: type[Converter], column: Column) -> tuple[list[bytes | None], dict[int, str]]:
    failed: Failed = {}
    cells = made(kind).from_connect(["t"] * len(column), column, failed)
    assert all(isinstance(error, DataError) for error in failed.values())
    return cells, {row: str(error) for row, error in failed.items()}


@pytest.mark.parametrize(("kind", "schema", "pairs"), NUMBERS)
def test_a_batch_goes_both_ways(
    kind: type[Converter], schema: Schema, pairs: list[tuple[Value, str]]
) -> None:
    values = [value for value, _ in pairs] * 3
    cells = [bytes.fromhex(hex) for _, hex in pairs] * 3
    for nulls in ([], [None], [None] * 3):
        column = Column.of([*nulls, *values, *nulls], schema)
        assert read(kind, [*nulls, *cells, *nulls]) == (column, {})
        assert write(kind, column) == ([*nulls, *cells, *nulls], {})


@pytest.mark.parametrize(("kind", "schema", "pairs"), NUMBERS)
def test_bytes_of_another_length_cost_their_row_only(
    kind: type[Converter], schema: Schema, pairs: list[tuple[Value, str]]
) -> None:
    value, cell = pairs[0][0], bytes.fromhex(pairs[0][1])
    # Together these have the right length.
    column, failed = read(kind, [cell, cell + cell, b"", None, cell])
    assert column == Column.of([value, None, None, None, value], schema)
    name = kind.plugin.simple_name.removesuffix("Converter").lower()
    assert {row: str(error) for row, error in failed.items()} == {
        1: f"Failed to deserialize {name}: ",
        2: f"Failed to deserialize {name}: ",
    }
    assert all(error.__cause__ is not None for error in failed.values())


@pytest.mark.parametrize("kind", [each for each, _, _ in NUMBERS])
def test_no_rows_make_no_runs(kind: type[Converter]) -> None:
    assert read(kind, []) == (Column([], []), {})
    assert write(kind, Column([], [])) == ([], {})


def test_values_of_another_class_cost_their_row_only() -> None:
    column = Column(
        [1, 2**31, True, None, 5, 7, 1.5, date(2024, 1, 1), {"a": 1}, {"a": 1}, [([1], 1)], 2],
        [
            Run(4, s.INT32),
            Run(5, s.INT16),
            Run(7, None),
            Run(8, s.DATE),
            Run(9, s.struct({"a": s.INT8})),
            Run(10, s.map_of(s.STRING, s.INT8)),
            Run(11, s.map_of(s.array(s.INT8), s.INT8)),
            Run(12, s.INT32),
        ],
    )
    cells, failed = write(IntegerConverter, column)
    assert cells == [b"\0\0\0\1", *[None] * 10, b"\0\0\0\2"]
    was = {
        1: "java.lang.Long",
        2: "java.lang.Boolean",
        4: "java.lang.Short",
        5: "java.lang.Long",
        6: "java.lang.Double",
        7: "java.util.Date",
        8: "org.apache.kafka.connect.data.Struct",
        9: "java.util.HashMap",
        10: "java.util.HashMap",
    }
    assert failed == {
        row: f"Failed to serialize to integer (was class {name}): " for row, name in was.items()
    }


def test_numbers_without_a_schema_are_longs_or_doubles() -> None:
    assert write(LongConverter, Column.of([1, None], None)) == ([b"\0" * 7 + b"\1", None], {})
    assert write(DoubleConverter, Column.of([0.0], None)) == ([b"\0" * 8], {})
    assert write(FloatConverter, Column.of([0.0], None))[1] == {
        0: "Failed to serialize to float (was class java.lang.Double): "
    }
    assert write(LongConverter, Column.of([2**63], None))[1] == {
        0: "Failed to serialize to long (was class java.math.BigInteger): "
    }


def test_a_boolean_wants_its_schema_even_for_null() -> None:
    column = Column([True, None, None, 1, False], [Run(2, None), Run(3, s.STRING), Run(5, None)])
    cells, failed = write(BooleanConverter, column)
    assert cells == [b"\1", None, None, None, b"\0"]
    assert failed == {
        2: "Invalid schema type for BooleanConverter: STRING",
        3: "BooleanConverter is not compatible with objects of type class java.lang.Long",
    }
