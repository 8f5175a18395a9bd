"""Laws of formats: written values can be read, from any position on."""

from __future__ import annotations

import functools
import io
from datetime import datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api import Column
from penstock.api.schema import (
    BYTES,
    STRING,
    Logical,
    Schema,
    Type,
    Value,
    fields_of,
    struct,
    time_to_ms,
)
from penstock.connectors.files.formats.avro import Avro
from penstock.connectors.files.formats.columns import Orc, Parquet
from penstock.connectors.files.formats.csv_read import Dialect
from penstock.connectors.files.formats.decoder import Position, Reading
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.formats.json import JsonLines
from penstock.connectors.files.formats.lines import Csv, RawBytes, TextLines
from penstock.connectors.files.settings.tables import ReadOptions, reading_of
from tests.convert.unit.test_round_trips import LEAVES, PLAIN, TYPED

START = Position()
NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True)


class File(io.BytesIO):
    @property
    def size(self) -> int:
        return len(self.getbuffer())


@st.composite
def rows(draw: st.DrawFn) -> tuple[Schema, list[Value]]:
    """A struct schema with names that all formats accept, and some values."""
    parts = draw(st.dictionaries(NAMES, TYPED, min_size=1, max_size=4))
    schema = distinct(struct({name: renamed(of) for name, (of, _) in parts.items()}))
    each = st.fixed_dictionaries(
        {name: values.map(functools.partial(shaped, of)) for name, (of, values) in parts.items()}
    )
    return schema, draw(st.lists(each, max_size=5))


@st.composite
def flat_rows(draw: st.DrawFn) -> tuple[Schema, list[Value]]:
    parts = draw(st.dictionaries(NAMES, st.sampled_from(LEAVES), min_size=1, max_size=4))
    nulls = {name: draw(st.booleans()) for name in parts}
    schema = struct(
        {name: of.as_optional() if nulls[name] else of for name, (of, _) in parts.items()}
    )
    each = st.fixed_dictionaries(
        {
            name: (st.none() | values if nulls[name] else values)
            for name, (_, values) in parts.items()
        }
    )
    return schema, draw(st.lists(each, max_size=8))


def renamed(schema: Schema) -> Schema:
    """The schema with field names that Avro accepts, and without structs that have no fields."""
    fields = {f"f{at}": renamed(field.schema) for at, field in enumerate(schema.fields)}
    if schema.type is Type.STRUCT and not fields:
        fields = {"f": STRING.as_optional()}
    return Schema(
        schema.type,
        schema.optional,
        name=schema.name,
        version=schema.version,
        parameters=schema.parameters,
        key_schema=schema.key_schema and renamed(schema.key_schema),
        value_schema=schema.value_schema and renamed(schema.value_schema),
        fields=fields_of(fields),
    )


def shaped(schema: Schema | None, value: Value) -> Value:
    """A value of the schema under the names that `renamed` gives."""
    if value is None or schema is None or schema.logical is not None:
        return value
    match schema.type:
        case Type.ARRAY:
            return [shaped(schema.value_schema, each) for each in value]
        case Type.MAP:
            if isinstance(value, dict):
                return {name: shaped(schema.value_schema, each) for name, each in value.items()}
            return [(key, shaped(schema.value_schema, each)) for key, each in value]
        case Type.STRUCT:
            return {
                f"f{at}": shaped(field.schema, value[field.name])
                for at, field in enumerate(schema.fields)
            } or {"f": None}
    return value


def distinct(schema: Schema, numbers: Any = None) -> Schema:
    """The schema with a unique name for each struct, as Avro requires."""
    numbers = iter(range(1000)) if numbers is None else numbers
    fields = {field.name: distinct(field.schema, numbers) for field in schema.fields}
    name = schema.name
    if schema.type is Type.STRUCT:
        name = f"shop.S{next(numbers)}"
    return Schema(
        schema.type,
        schema.optional,
        name=name,
        version=schema.version,
        parameters=schema.parameters,
        key_schema=schema.key_schema and distinct(schema.key_schema, numbers),
        value_schema=schema.value_schema and distinct(schema.value_schema, numbers),
        fields=fields_of(fields),
    )


def written(format: Format, schema: Schema | None, values: list[Value]) -> bytes | None:
    """The bytes of a file; None if the format cannot represent a value."""
    out = io.BytesIO()
    encoder = format.open(schema, out, "a name")
    encoded = encoder.encode(Column.of(values, schema))
    if isinstance(encoded, dict):
        return None
    encoder.append(encoded)
    encoder.finish()
    return out.getvalue()


def read(
    reading: Reading,
    data: bytes,
    start: Position = START,
    stop: int | None = None,
    max_bytes: int = 100,
) -> tuple[list[Value], set[Schema | None], list[Position]]:
    decoder = reading.open(File(data), start, stop)
    values: list[Value] = []
    schemas: set[Schema | None] = set()
    positions = [start]
    while (chunk := decoder.read(max_bytes)) is not None:
        assert not chunk.failed, chunk.failed
        values += chunk.values.values
        schemas |= set(chunk.values.schemas())
        positions.append(chunk.after)
    return values, schemas, positions


def reading(format: Format, name: str, **options: Any) -> Reading:
    return reading_of(name, ReadOptions(**options), f"a{format.ending}")


SIZES = st.sampled_from([1, 30, 10_000])


@given(typed=rows(), codec=st.sampled_from(["null", "deflate", "snappy"]), max_bytes=SIZES)
def test_avro(typed: tuple[Schema, list[Value]], codec: str, max_bytes: int) -> None:
    schema, values = typed
    data = written(Avro(codec), schema, values)
    assert data is not None
    found, schemas, positions = read(reading(Avro(), "Avro"), data, max_bytes=max_bytes)
    assert found == values
    assert schemas <= {schema}
    for at in positions:
        assert read(reading(Avro(), "Avro"), data, at)[0] == values[at.record :]


@settings(max_examples=60)
@given(typed=rows(), max_bytes=SIZES)
def test_parquet(typed: tuple[Schema, list[Value]], max_bytes: int) -> None:
    schema, values = typed
    data = written(Parquet(), schema, values)
    if data is None:  # a Decimal of more than 38 digits
        return
    found, schemas, positions = read(reading(Parquet(), "Parquet"), data, max_bytes=max_bytes)
    assert found == values
    if not has_pairs(schema):
        assert schemas <= {schema}
    for at in positions:
        assert read(reading(Parquet(), "Parquet"), data, at)[0] == values[at.record :]


def _in_ns(value: Value) -> bool:
    """Whether Arrow can read the value from ORC files, as ns in 64 bits."""
    return not isinstance(value, datetime) or 1678 <= value.year <= 2261


@settings(max_examples=60)
@given(typed=flat_rows(), max_bytes=SIZES)
def test_orc(typed: tuple[Schema, list[Value]], max_bytes: int) -> None:
    schema, values = typed
    values = [row for row in values if all(map(_in_ns, row.values()))]
    data = written(Orc(), schema, values) if values else None
    if data is None:
        return
    times = [field.name for field in schema.fields if field.schema.logical is Logical.TIME]
    expected = [
        {
            name: time_to_ms(cell) if name in times and cell is not None else cell
            for name, cell in row.items()
        }
        for row in values
    ]
    assert read(reading(Orc(), "Orc"), data, max_bytes=max_bytes)[0] == expected


@given(
    typed=rows() | flat_rows(),
    numeric=st.booleans(),
    max_bytes=SIZES,
    cut=st.floats(0, 1),
)
def test_json_lines(
    typed: tuple[Schema, list[Value]], numeric: bool, max_bytes: int, cut: float
) -> None:
    schema, values = typed
    format = JsonLines(numeric=numeric)
    data = written(format, schema, values)
    assert data is not None
    its = reading(format, "Json", schema=schema)
    found, _, positions = read(its, data, max_bytes=max_bytes)
    assert found == values
    check_places(its, data, values, positions, cut)


@given(values=st.lists(PLAIN, max_size=8), max_bytes=SIZES, cut=st.floats(0, 1))
def test_json_lines_without_a_schema(values: list[Value], max_bytes: int, cut: float) -> None:
    data = written(JsonLines(), None, values)
    assert data is not None
    its = reading(JsonLines(), "Json")
    found, _, positions = read(its, data, max_bytes=max_bytes)
    assert found == values
    check_places(its, data, values, positions, cut)
    documents = reading(JsonLines(), "Json", json_documents=True)
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    assert read(documents, data, max_bytes=max_bytes)[0] == flat
    array = b"[" + b",".join(data.splitlines()) + b"]"
    assert read(documents, array, max_bytes=max_bytes)[0] == values


@given(typed=flat_rows() | rows(), header=st.booleans(), max_bytes=SIZES)
def test_csv(typed: tuple[Schema, list[Value]], header: bool, max_bytes: int) -> None:
    schema, values = typed
    format = Csv(header=header)
    if len(schema.fields) == 1 and schema.fields[0].schema.type in (Type.STRING, Type.BYTES):
        # A null alone in a row would be an empty line, so it is written as an empty string.
        values = [row for row in values if None not in row.values()]
    data = written(format, schema, values)
    assert data is not None
    its = reading(format, "Csv", schema=schema, csv_header=header)
    found, schemas, positions = read(its, data, max_bytes=max_bytes)
    assert found == values
    assert schemas <= {schema}
    for at in positions:
        assert read(its, data, at)[0] == values[at.record :]


LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")))


@given(lines=LINES, max_bytes=SIZES, cut=st.floats(0, 1))
def test_text(lines: list[str], max_bytes: int, cut: float) -> None:
    if lines and lines[0].startswith("\ufeff"):
        lines[0] = ""
    data = written(TextLines(), STRING, lines)
    assert data is not None
    its = reading(TextLines(), "String")
    found, _, positions = read(its, data, max_bytes=max_bytes)
    assert found == lines
    check_places(its, data, lines, positions, cut)


@given(
    pieces=st.lists(st.binary(max_size=9)),
    separator=st.sampled_from([b"\n", b"ab", b"abc", b"\r\n"]),
    max_bytes=SIZES,
    cut=st.floats(0, 1),
)
def test_raw_bytes(pieces: list[bytes], separator: bytes, max_bytes: int, cut: float) -> None:
    pieces = [piece.replace(separator, b"").replace(separator, b"") for piece in pieces]
    pieces = [b"" if separator in piece + separator[:-1] else piece for piece in pieces]
    data = written(RawBytes(separator=separator), BYTES, pieces)
    assert data is not None
    its = reading(RawBytes(), "ByteArray", separator=separator)
    found, _, positions = read(its, data, max_bytes=max_bytes)
    assert found == pieces
    check_places(its, data, pieces, positions, cut)


def check_places(
    its: Reading, data: bytes, values: list[Value], positions: list[Position], cut: float
) -> None:
    """Checks that reading resumes at each position, and that two ranges have each record once."""
    for at in positions:
        assert read(its, data, at)[0] == values[at.record :]
        assert read(its, data, Position(at.record, None))[0] == values[at.record :]
    middle = int(len(data) * cut)
    first, second = read(its, data, stop=middle)[0], read(its, data, Position(0, middle))[0]
    assert first + second == values


CELLS = st.sampled_from(["a", "", '"', '""', "\n", ",", "\r\n", "ü", '"a"', ' "', "1"])


@given(
    text=st.lists(CELLS, max_size=30).map("".join),
    newlines=st.booleans(),
    sizes=st.tuples(SIZES, SIZES),
)
def test_any_csv_is_read_the_same_in_any_pieces(
    text: str, newlines: bool, sizes: tuple[int, int]
) -> None:
    """Quotes may be anywhere."""
    dialect = Dialect(newlines=newlines)
    its = reading(Csv(), "Csv", csv_header=False, csv_names=("a", "b"), csv_dialect=dialect)

    def outcome(max_bytes: int) -> Any:
        decoder = its.open(File(text.encode()), START)
        rows: list[Any] = []
        try:
            while (chunk := decoder.read(max_bytes)) is not None:
                for row, value in enumerate(chunk.values.values):
                    rows.append(str(chunk.failed[row]) if row in chunk.failed else value)
        except Exception as error:
            rows.append(str(error))
        return rows

    assert outcome(sizes[0]) == outcome(sizes[1])


def has_pairs(schema: Schema | None) -> bool:
    """Whether there are maps with keys that are not strings, whose Avro schema differs."""
    if schema is None:
        return False
    inside = (schema.key_schema, schema.value_schema, *(each.schema for each in schema.fields))
    pairs = schema.type is Type.MAP and schema.key_schema != STRING
    return pairs or any(map(has_pairs, inside))
