"""Laws of the converters, over generated schemas and values."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.api import Converter, Failed, Use
from penstock.convert.json import JsonConverter
from penstock.convert.json_write import DecimalFormat, dump, writer
from penstock.convert.text import StringConverter
from penstock.data import schema as s
from penstock.data.logical import ms_to_time, unscaled_to_decimal
from penstock.data.records import Column
from penstock.data.schema import INT_BITS, Schema, Value, check, int_range
from penstock.data.text import double_text, float_text
from penstock.errors import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
# Every ms of the years that Python supports.
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
)

LEAVES: list[tuple[Schema, st.SearchStrategy[Value]]] = [
    *((Schema(type), st.integers(*int_range(type))) for type in INT_BITS),
    (s.FLOAT32, FLOATS),
    (s.FLOAT64, DOUBLES),
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

Typed = tuple[Schema, st.SearchStrategy[Value]]


@st.composite
def _leaves(draw: st.DrawFn) -> Typed:
    return draw(st.sampled_from(LEAVES))


@st.composite
def _around(draw: st.DrawFn, inside: st.SearchStrategy[Typed]) -> Typed:
    schema, values = draw(inside)
    match draw(st.sampled_from(["optional", "array", "map", "pairs", "struct"])):
        case "optional":
            return schema.as_optional(), st.none() | values
        case "array":
            return s.array(schema), st.lists(values, max_size=3)
        case "map":
            key, keys = draw(st.sampled_from(LEAVES))
            return s.map_of(key, schema), st.dictionaries(keys, values, max_size=3)
        case "pairs":
            keys = st.lists(st.booleans(), max_size=2)
            return (
                s.map_of(s.array(s.BOOLEAN), schema),
                st.lists(st.tuples(keys, values), max_size=2),
            )
        case _:
            parts = draw(st.dictionaries(TEXT, inside, max_size=4))
            return (
                s.struct({name: of for name, (of, _) in parts.items()}),
                st.fixed_dictionaries({name: each for name, (_, each) in parts.items()}),
            )


TYPED = st.recursive(_leaves(), _around, max_leaves=6)


@st.composite
def columns(draw: st.DrawFn) -> Column:
    """A column of a few runs, each with its own schema."""
    values: list[Value] = []
    schemas: list[Schema | None] = []
    for schema, strategy in draw(st.lists(TYPED, min_size=1, max_size=3)):
        run = draw(st.lists(strategy, max_size=4))
        values += run
        schemas += [schema] * len(run)
    return Column.gather(values, schemas)


PLAIN: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | DOUBLES | TEXT,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXT, inside, max_size=3),
    max_leaves=8,
)

DECIMAL_FORMATS = st.sampled_from(["BASE64", "NUMERIC"])


def json_converter(**props: str) -> JsonConverter:
    props = {name.replace("_", "."): value for name, value in props.items()}
    return JsonConverter(JsonConverter.plugin.config.parse(props), Use.VALUE)


def string_converter() -> StringConverter:
    return StringConverter(StringConverter.plugin.config.parse({}), Use.VALUE)


def write(converter: Converter, column: Column) -> list[bytes | None]:
    failed: Failed = {}
    cells = converter.from_connect(["t"] * len(column), column, failed)
    assert not failed
    return cells


def read(converter: Converter, cells: list[bytes | None]) -> Column:
    failed: Failed = {}
    column = converter.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    return column


@given(column=columns(), decimals=DECIMAL_FORMATS)
def test_values_written_in_envelopes_are_read_back(column: Column, decimals: str) -> None:
    converter = json_converter(decimal_format=decimals)
    assert read(converter, write(converter, column)) == column


@given(column=columns(), decimals=DECIMAL_FORMATS)
def test_a_value_that_is_read_matches_its_schema(column: Column, decimals: str) -> None:
    converter = json_converter(decimal_format=decimals)
    back = read(converter, write(converter, column))
    for schema, start, stop in back.slices():
        assert schema is not None
        for value in back.values[start:stop]:
            check(schema, value)


@given(values=st.lists(PLAIN, max_size=5), enveloped=st.booleans())
def test_schemaless_values_read_as_they_were(values: list[Value], enveloped: bool) -> None:
    converter = json_converter(schemas_enable=str(enveloped).lower())
    cells = write(converter, Column.of(values, None))
    assert read(converter, cells) == Column.of(values, None)
    for value, cell in zip(values, cells, strict=True):
        whole: Any = None if cell is None else json.loads(cell)
        assert (whole["payload"] if enveloped and cell is not None else whole) == value


@given(column=columns(), cut=st.integers(0, 12), decimals=DECIMAL_FORMATS)
def test_a_column_in_pieces_is_the_column_at_once(column: Column, cut: int, decimals: str) -> None:
    converter = json_converter(decimal_format=decimals)
    cells = write(converter, column)
    schemas = [schema for schema, start, stop in column.slices() for _ in range(start, stop)]
    pieces = [
        Column.gather(column.values[part], schemas[part])
        for part in (slice(0, cut), slice(cut, None))
    ]
    assert [cell for piece in pieces for cell in write(converter, piece)] == cells
    for reading in (converter, json_converter()):
        assert [
            value
            for part in (slice(0, cut), slice(cut, None))
            for value in read(reading, cells[part]).values
        ] == column.values


BAD_CELLS = [
    b"",
    b"{",
    b"[1]",
    b'{"schema":',
    b'{"schema":null,"payload":',
    b'{"schema":null,"payload":1,"x":2}',
    b'{"schema":{"type":"int8"},"payload":null}',
    b'{"schema":{"type":"no"},"payload":1}',
    b"\xff",
]


@given(column=columns(), data=st.data())
def test_a_bad_message_never_costs_its_neighbours(column: Column, data: st.DataObject) -> None:
    converter = json_converter()
    good = write(converter, column)
    cells = list(good)
    expected: list[Value] = list(column.values)
    bad_rows: set[int] = set()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(cells)))
        whole = data.draw(st.sampled_from([cell for cell in good if cell] or [b"{"]))
        cut_short = whole[: data.draw(st.integers(0, len(whole) - 1))]
        cells.insert(at, data.draw(st.sampled_from(BAD_CELLS) | st.just(cut_short)))
        expected.insert(at, None)
        bad_rows = {row + (row >= at) for row in bad_rows} | {at}
    failed: Failed = {}
    back = converter.to_connect(["t"] * len(cells), cells, failed)
    assert back.values == expected
    assert failed.keys() == bad_rows
    assert all(isinstance(error, DataError) for error in failed.values())
    good_schemas = [of for of, start, stop in column.slices() for _ in range(start, stop)]
    back_schemas = [of for of, start, stop in back.slices() for _ in range(start, stop)]
    kept = [of for row, of in enumerate(back_schemas) if row not in bad_rows]
    assert kept == good_schemas


@given(column=columns(), at=st.integers(0, 12))
def test_a_bad_value_never_costs_its_neighbours(column: Column, at: int) -> None:
    at = min(at, len(column))
    schemas = [of for of, start, stop in column.slices() for _ in range(start, stop)]
    values = [*column.values[:at], object(), *column.values[at:]]
    mixed = Column.gather(values, [*schemas[:at], s.INT8, *schemas[at:]])
    converter = json_converter()
    good = write(converter, column)
    failed: Failed = {}
    cells = converter.from_connect(["t"] * len(mixed), mixed, failed)
    assert cells == [*good[:at], None, *good[at:]]
    assert failed.keys() == {at}


ODD: st.SearchStrategy[Value] = st.sampled_from([None, True, 1, "text", "\ud800", b"", [], {}])
"""Values that a field of any schema may contain."""
ODD_FLOATS: st.SearchStrategy[Value] = st.sampled_from([1e308, float("nan"), float("-inf")])
ODD_INTEGERS: st.SearchStrategy[Value] = st.sampled_from([200, -(2**15), 2**31, 2**63, True])


def nearly(of: Schema, values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    """Values of a schema, and invalid ones, some of them of the same Python class."""
    if of.type in INT_BITS:
        return values | ODD_INTEGERS
    return values | (ODD_FLOATS if of.type is s.Type.FLOAT64 else ODD)


@st.composite
def structs(draw: st.DrawFn) -> tuple[Schema, list[Value]]:
    """A struct schema, with valid and nearly valid values."""
    parts = draw(st.dictionaries(TEXT, _leaves(), min_size=1, max_size=4))
    fields = {
        name: of.as_optional() if draw(st.booleans()) else of for name, (of, _) in parts.items()
    }
    cells = {
        name: draw(st.sampled_from([each, each | ODD, nearly(of, each)]))
        for name, (of, each) in parts.items()
    }
    alike: st.SearchStrategy[Value] = st.fixed_dictionaries(cells)
    unlike: st.SearchStrategy[Value] = st.none() | st.dictionaries(TEXT, ODD, max_size=2)
    turned = alike.map(lambda struct: dict(reversed(struct.items())))
    given_ = draw(st.sampled_from([alike, alike | turned | unlike]))
    return s.struct(fields), draw(st.lists(given_, min_size=1, max_size=4))


@given(typed=structs(), decimals=DECIMAL_FORMATS)
def test_many_structs_are_written_as_each_by_itself(
    typed: tuple[Schema, list[Value]], decimals: str
) -> None:
    schema, values = typed
    node = writer(schema, decimals=DecimalFormat(decimals), replace_null=True)
    each: list[bytes | None] = []
    refused = set()
    for row, value in enumerate(values):
        try:
            each.append(dump(node(value)))
        except (DataError, TypeError, ValueError):
            each.append(None)
            refused.add(row)
    failed: Failed = {}
    converter = json_converter(schemas_enable="false", decimal_format=decimals)
    cells = converter.from_connect(["t"] * len(values), Column.of(values, schema), failed)
    assert cells == each
    assert failed.keys() == refused


@given(data=st.lists(st.binary(max_size=30) | st.none(), max_size=6), enveloped=st.booleans())
def test_no_bytes_make_a_converter_raise(data: list[bytes | None], enveloped: bool) -> None:
    converter = json_converter(schemas_enable=str(enveloped).lower())
    failed: Failed = {}
    assert len(converter.to_connect(["t"] * len(data), data, failed)) == len(data)
    assert len(read(string_converter(), data)) == len(data)


JSON_NODES: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | DOUBLES | TEXT,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXT, inside, max_size=3),
    max_leaves=6,
)


@given(typed=TYPED, payloads=st.lists(JSON_NODES, min_size=1, max_size=4))
def test_a_payload_reads_the_same_however_its_message_is_laid_out(
    typed: Typed, payloads: list[Value]
) -> None:
    """The quick and the exact way agree, also on payloads that do not match the schema."""
    (cell,) = write(json_converter(), Column.of([None], typed[0].as_optional()))
    assert cell is not None
    schema = json.loads(cell)["schema"]
    quick = [json.dumps({"schema": schema, "payload": each}).encode() for each in payloads]
    exact = [json.dumps({"payload": each, "schema": schema}).encode() for each in payloads]
    quick_failed: Failed = {}
    exact_failed: Failed = {}
    quick_column = json_converter().to_connect(["t"] * len(quick), quick, quick_failed)
    exact_column = json_converter().to_connect(["t"] * len(exact), exact, exact_failed)
    assert quick_column == exact_column
    assert list(map(str, quick_failed.values())) == list(map(str, exact_failed.values()))
    assert quick_failed.keys() == exact_failed.keys()


@given(values=st.lists(st.none() | st.text(max_size=10), max_size=6))
def test_text_reads_as_it_was_written(values: list[str | None]) -> None:
    converter = string_converter()
    cells = write(converter, Column.of(values, s.OPTIONAL_STRING))
    expected = [
        None if value is None else value.encode("utf-8", "replace").decode() for value in values
    ]
    assert read(converter, cells).values == expected


@given(column=columns(), cut=st.integers(0, 12))
def test_text_of_a_column_in_pieces_is_the_text_of_the_column(column: Column, cut: int) -> None:
    converter = string_converter()
    schemas = [of for of, start, stop in column.slices() for _ in range(start, stop)]
    pieces = [
        write(converter, Column.gather(column.values[part], schemas[part]))
        for part in (slice(0, cut), slice(cut, None))
    ]
    assert pieces[0] + pieces[1] == write(converter, column)


@given(value=st.floats(allow_nan=False))
def test_the_text_of_a_double_reads_as_the_same_double(value: float) -> None:
    assert float(double_text(value)) == value


@given(value=st.floats(allow_nan=False, width=32))
def test_the_text_of_a_float_reads_as_the_same_float(value: float) -> None:
    text = float_text(value)
    assert s.float32(float(text)) == value
    assert len(text.lstrip("-").partition("E")[0].replace(".", "").strip("0")) <= 9


@given(hour=st.integers(0, 23), ms=st.integers(0, 999))
def test_times_keep_their_milliseconds(hour: int, ms: int) -> None:
    value = time(hour, 0, 0, ms * 1000)
    converter = json_converter()
    assert read(converter, write(converter, Column.of([value], s.TIME))).values == [value]


@given(unscaled=st.integers(-(10**60), 10**60), scale=st.integers(-5, 50))
def test_decimals_of_any_scale_keep_their_digits(unscaled: int, scale: int) -> None:
    value = unscaled_to_decimal(unscaled, scale)
    assert value == Decimal(f"{unscaled}E{-scale}")
    converter = json_converter()
    (back,) = read(converter, write(converter, Column.of([value], s.decimal(scale)))).values
    assert back.as_tuple() == value.as_tuple()
