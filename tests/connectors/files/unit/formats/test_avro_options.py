"""The settings of Confluent's AvroData in Avro and Parquet files, read by other libraries."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.api import Column, DataError, Fields
from penstock.api.schema import (
    INT8,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Type,
    Value,
    array,
    map_of,
    struct,
)
from penstock.connectors.files.formats.avro import Avro, AvroOptions
from penstock.connectors.files.formats.columns import AVRO_SCHEMA, Parquet
from penstock.connectors.files.formats.format import Format
from penstock.connectors.files.settings.local import LOCAL_SINK, local_plan

SCRUB = AvroOptions(scrub=True)
ONE_OF = "io.confluent.connect.json.OneOf"
INNER = struct({"a-b": INT64, "2nd": STRING}, name=f"{ONE_OF}.field-0", optional=True)
NAMED = struct(
    {
        f"{ONE_OF}.field.0": INNER,
        "list of": array(INNER),
        "by-key": map_of(STRING, INNER),
        "fine": INT64,
    },
    name=f"{ONE_OF}-1",
)
VALUE: dict[str, Value] = {
    f"{ONE_OF}.field.0": {"a-b": 1, "2nd": "x"},
    "list of": [{"a-b": 2, "2nd": "y"}],
    "by-key": {"k-1": {"a-b": 3, "2nd": "z"}, "n": None},
    "fine": 4,
}
SCRUBBED = {
    "io_confluent_connect_json_OneOf_field_0": {"a_b": 1, "x2nd": "x"},
    "list_of": [{"a_b": 2, "x2nd": "y"}],
    "by_key": {"k-1": {"a_b": 3, "x2nd": "z"}, "n": None},
    "fine": 4,
}
COLOR = Schema(
    Type.STRING,
    name="shop.Color",
    parameters={
        "io.confluent.connect.avro.Enum": "shop.Color",
        "io.confluent.connect.avro.Enum.RED": "RED",
        "io.confluent.connect.avro.Enum.BLUE": "BLUE",
    },
)


def written(format: Format, schema: Schema, column: Column) -> io.BytesIO:
    out = io.BytesIO()
    encoder = format.open(schema, out, "a name")
    encoded = encoder.encode(column)
    assert not isinstance(encoded, dict), encoded
    encoder.append(encoded)
    encoder.finish()
    return io.BytesIO(out.getvalue())


def avro(schema: Schema, values: list[Value], options: AvroOptions) -> tuple[Any, list[Any]]:
    reader = fastavro.reader(written(Avro(options=options), schema, Column.of(values, schema)))
    return reader.writer_schema, list(reader)


def test_names_are_scrubbed_in_avro() -> None:
    declared, rows = avro(NAMED, [VALUE], SCRUB)
    assert rows == [SCRUBBED]
    assert declared["name"] == f"{ONE_OF}_1"
    assert declared["connect.name"] == f"{ONE_OF}-1"


def test_names_are_scrubbed_in_parquet() -> None:
    data = written(Parquet(options=SCRUB), NAMED, Column.of([VALUE], NAMED))
    table = pq.read_table(data)
    row = table.to_pylist()[0]
    assert {**row, "by_key": dict(row["by_key"])} == SCRUBBED
    declared = json.loads(pq.read_metadata(data).metadata[AVRO_SCHEMA])
    assert [field["name"] for field in declared["fields"]] == list(SCRUBBED)


@pytest.mark.parametrize("format", [Avro(options=SCRUB), Parquet(options=SCRUB)])
def test_names_of_columns_are_scrubbed(format: Format) -> None:
    schema = struct({"a-b": INT64, "c": STRING})
    members = {"a-b": pa.array([1, 2]), "c": pa.array(["x", "y"], pa.large_string())}
    data = written(format, schema, Fields(schema, members, 2))
    rows = pq.read_table(data).to_pylist() if isinstance(format, Parquet) else fastavro.reader(data)
    assert list(rows) == [{"a_b": 1, "c": "x"}, {"a_b": 2, "c": "y"}]


@pytest.mark.parametrize("format", [Avro(options=SCRUB), Parquet(options=SCRUB)])
def test_two_fields_never_get_one_name(format: Format) -> None:
    schema = struct({"inner": struct({"a-b": INT64, "a_b": INT64})})
    with pytest.raises(DataError, match="the fields 'a-b' and 'a_b' would both be 'a_b'"):
        format.open(schema, io.BytesIO(), "a name")


@pytest.mark.parametrize("name", ["a-b", "a.b", "1a", ""])
def test_without_scrubbing_invalid_names_of_fields_are_refused_in_avro(name: str) -> None:
    with pytest.raises(DataError, match="is not a valid Avro name"):
        Avro().open(struct({name: INT64}), io.BytesIO(), "a name")


def test_enums_are_written_as_enums() -> None:
    schema = struct({"a": COLOR, "b": COLOR.as_optional()}, name="shop.Car")
    values: list[Value] = [{"a": "RED", "b": None}, {"a": "BLUE", "b": "RED"}]
    declared, rows = avro(schema, values, AvroOptions(enums=True))
    assert rows == values
    color = declared["fields"][0]["type"]
    assert (color["type"], color["name"], color["symbols"]) == (
        "enum",
        "shop.Color",
        ["RED", "BLUE"],
    )
    assert declared["fields"][1]["type"] == ["null", "shop.Color"]
    plain, _ = avro(schema, values, AvroOptions())
    assert plain["fields"][0]["type"]["type"] == "string"


def test_schemas_without_the_properties_of_connect() -> None:
    schema = struct({"a": INT8, "b": COLOR}, name="shop.Car", version=3)
    declared, _ = avro(schema, [{"a": 1, "b": "RED"}], AvroOptions(metadata=False))
    assert "connect." not in json.dumps(declared)


def test_maps_with_optional_keys() -> None:
    schema = struct({"m": map_of(OPTIONAL_STRING, INT64)})
    declared, rows = avro(schema, [{"m": {"k": 1}}], AvroOptions(optional_keys=True))
    assert rows == [{"m": {"k": 1}}]
    assert declared["fields"][0]["type"]["type"] == "map"
    assert avro(schema, [{"m": {"k": 1}}], AvroOptions())[1] == [{"m": [{"key": "k", "value": 1}]}]


def test_a_struct_that_is_optional_once_is_one_type() -> None:
    point = struct({"x": INT64}, name="P")
    schema = struct({"a": point, "b": point.as_optional()})
    assert avro(schema, [{"a": {"x": 1}, "b": None}], AvroOptions())[1] == [
        {"a": {"x": 1}, "b": None}
    ]


@pytest.mark.parametrize("format", ["AvroFormat", "ParquetFormat"])
def test_sinks_have_these_settings(format: str) -> None:
    settings = {
        "store.url": "/store",
        "format.class": format,
        "flush.size": "3",
        "connect.meta.data": "false",
        "enhanced.avro.schema.support": "false",
        "allow.optional.map.keys": "true",
        "scrub.invalid.names": "true",
    }
    plan = local_plan(LOCAL_SINK.parse(settings))
    expected = AvroOptions(metadata=False, enums=False, scrub=True, optional_keys=True)
    assert vars(plan.values)["_options"] == expected
    default = local_plan(LOCAL_SINK.parse({**dict(list(settings.items())[:3])}))
    assert vars(default.values)["_options"] == AvroOptions(enums=True)


POINT = struct({"x": INT64}, name="Point")
POINTS = map_of(INT64, POINT)


@pytest.mark.parametrize(
    "schema",
    [
        struct({"first": POINT, "all": POINTS}, name="Route"),
        struct({"all": POINTS, "first": POINT}, name="Route"),
        struct({"first": POINT, "all": POINTS}, name="shop.Route"),
        struct({"first": POINT, "all": POINTS}),
        struct({"first": POINT, "all": map_of(INT64, POINT.as_optional())}, name="Route"),
    ],
)
def test_a_type_without_a_namespace_is_found_wherever_it_occurs_again(schema: Schema) -> None:
    value: dict[str, Value] = {"first": {"x": 1}, "all": {2: {"x": 3}}}
    _, [record] = avro(schema, [value], AvroOptions())
    assert record == {"first": {"x": 1}, "all": [{"key": 2, "value": {"x": 3}}]}
