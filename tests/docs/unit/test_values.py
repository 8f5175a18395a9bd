"""The table of Python values in docs/plugins.md, against the converters."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pytest

from penstock.api import Column, Failed, Use
from penstock.api import schema as schemas
from penstock.api.schema import Schema, Type, check
from penstock.convert.json import JsonConverter
from penstock.schema_registry.avro import AvroConverter
from tests.places import ROOT

PAGE: Final = (ROOT / "docs" / "plugins.md").read_text()
NAMES: Final = {
    **vars(schemas),
    **{each.__name__: each for each in (date, datetime, time, Decimal)},
    "UTC": UTC,
}
PYTHON: Final = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "bytes": bytes,
    "list": list,
    "dict": dict,
    "decimal.Decimal": Decimal,
    "datetime.date": date,
    "datetime.time": time,
    "datetime.datetime": datetime,
    "None": type(None),
}


class Row(NamedTuple):
    connect: str
    schema: str
    python: str
    example: str
    json: str


def rows() -> list[Row]:
    table = PAGE.partition("| Connect's type |")[2].partition("\n\n")[0]
    return [Row(*(c.strip() for c in line[1:-1].split("|"))) for line in table.splitlines()[2:]]


def code(cell: str) -> str:
    """The first code in a cell."""
    return re.findall(r"`([^`]+)`", cell)[0]


def value_of(text: str) -> Any:
    return eval(text, dict(NAMES))


def converter(**settings: str) -> JsonConverter:
    return JsonConverter(JsonConverter.plugin.config.parse(settings), Use.VALUE)


def written(schema: Schema | None, value: object, made: JsonConverter) -> bytes:
    failed: Failed = {}
    (cell,) = made.from_connect(["t"], Column.of([value], schema), failed)
    assert not failed
    assert cell is not None
    return cell


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.connect)
def test_the_converter_writes_and_reads_what_the_table_says(row: Row) -> None:
    schema, value = value_of(code(row.schema)), value_of(code(row.example))
    check(schema, value)
    assert type(value) is PYTHON[code(row.python)]
    made = converter()
    cell = written(schema, value, made)
    payload = code(row.json)
    assert cell.endswith(f'"payload":{payload}}}'.encode())
    column = made.to_connect(["t"], [cell], {})
    assert column.values == [value]
    assert type(column.values[0]) is type(value)
    assert column.schemas() == [schema]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.connect)
def test_the_type_is_the_schemas(row: Row) -> None:
    schema = value_of(code(row.schema))
    logical, base = re.fullmatch(r"(\w+)(?:, of (\w+))?(?: whose .*)?", row.connect).groups()
    if logical == "null":
        assert schema.optional
    elif base is not None:
        assert schema.type is Type[base]
        assert schema.name == f"org.apache.kafka.connect.data.{logical}"
    else:
        assert schema.type is Type[logical]


def test_every_type_is_in_the_table() -> None:
    reported = {row.connect.partition(",")[0].partition(" ")[0] for row in rows()}
    assert reported == {each.name for each in Type} | {
        "Decimal",
        "Date",
        "Time",
        "Timestamp",
        "null",
    }


def test_decimals_are_numbers_with_the_setting_that_it_names() -> None:
    (row,) = [each for each in rows() if each.connect.startswith("Decimal")]
    setting, number = re.findall(r"`([^`]+)`", row.json)[1:]
    name, _, text = setting.partition("=")
    cell = written(
        value_of(code(row.schema)), value_of(code(row.example)), converter(**{name: text})
    )
    assert cell.endswith(f'"payload":{number}}}'.encode())


@pytest.mark.parametrize("value", [None, True, 7, 7.5, "text", ["a", 1], {"a": {"b": None}}])
def test_values_without_a_schema_are_those_of_json(value: object) -> None:
    made = converter(**{"schemas.enable": "false"})
    text = json.dumps(value).encode()
    column = made.to_connect(["t"], [text], {})
    assert column.values == [value]
    assert type(column.values[0]) is type(value)
    assert column.schemas() == [None]


@pytest.mark.parametrize(("text", "kind"), [("1", int), ("1.0", float), ("1e3", float)])
def test_a_fraction_or_an_exponent_makes_a_number_a_float(text: str, kind: type) -> None:
    column = converter(**{"schemas.enable": "false"}).to_connect(["t"], [text.encode()], {})
    assert type(column.values[0]) is kind


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.connect)
def test_avro_has_the_same_values(row: Row) -> None:
    made = AvroConverter(
        AvroConverter.plugin.config.parse({"schema.registry.url": "mock://values"}), Use.VALUE
    )
    schema, value = value_of(code(row.schema)), value_of(code(row.example))
    topics = [f"values-{row.connect}"]
    failed: Failed = {}
    cells = made.from_connect(topics, Column.of([value], schema), failed)
    column = made.to_connect(topics, cells, failed)
    assert not failed
    assert column.values == [value]
    assert type(column.values[0]) is type(value)
