"""Values of Avro schemas, by their annotations."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.api import DataError
from penstock.api.avro import reads
from penstock.api.schema import check
from penstock.connectors.generator.makers import maker
from penstock.connectors.generator.quickstarts import QUICKSTARTS


def made(kind: Any, count: int = 300, first: int = 0, **annotations: Any) -> list[Any]:
    node = {**(kind if isinstance(kind, dict) else {"type": kind}), "arg.properties": annotations}
    return maker(node)(np.random.default_rng(5), first, count)


@pytest.mark.parametrize("name", sorted(QUICKSTARTS))
def test_a_quickstarts_values_are_those_of_its_schema(name: str) -> None:
    quickstart = QUICKSTARTS[name]
    schema = reads(json.dumps(quickstart.schema)).schema
    assert schema is not None
    assert quickstart.key in schema.field_names
    values = maker(quickstart.schema)(np.random.default_rng(3), 0, 50)
    for value in values:
        check(schema, value)
    assert len({str(value) for value in values}) > 1


@pytest.mark.parametrize(
    "kind",
    [
        "boolean", "int", "long", "float", "double", "bytes", "string",
        {"type": "fixed", "name": "F", "size": 3},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "array", "items": "int"},
        {"type": "map", "values": {"type": "string", "arg.properties": {"regex": "x+"}}},
        {"type": "record", "name": "Nothing", "fields": []},
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 3},
        ["null", "int"],
        ["string"],
    ],
)  # fmt: skip
def test_every_type_has_values(kind: Any) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}
    schema = reads(json.dumps(record)).schema
    assert schema is not None
    for value in maker(record)(np.random.default_rng(1), 0, 40):
        check(schema, value)


@pytest.mark.parametrize(
    ("annotations", "text"),
    [([], "must be an object"), ("x", "must be an object"), ({"ranges": 1}, "unknown entries")],
)
def test_malformed_annotations_are_refused(annotations: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        maker({"type": "int", "arg.properties": annotations})


def test_a_named_type_may_be_used_again() -> None:
    point = {
        "type": "record",
        "name": "P",
        "namespace": "n",
        "fields": [{"name": "x", "type": "int"}],
    }
    line = {
        "type": "record",
        "name": "L",
        "fields": [{"name": "a", "type": point}, {"name": "b", "type": "n.P"}],
    }
    (value,) = maker(line)(np.random.default_rng(1), 0, 1)
    assert set(value) == {"a", "b"}
    assert set(value["b"]) == {"x"}


def test_ranges_include_their_begin_but_not_their_end() -> None:
    assert set(made("int", range={"min": 3, "max": 6})) == {3, 4, 5}
    assert all(0.5 <= each < 0.75 for each in made("double", range={"min": 0.5, "max": 0.75}))
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
    assert set(made(decimal, range={"min": 1, "max": 1.2})) <= {
        Decimal("1.0"), Decimal("1.1"), Decimal("1.2"),
    }  # fmt: skip


def test_iterations_depend_on_the_number_of_the_record_alone() -> None:
    assert made("int", 3, 10, iteration={"start": 5}) == [15, 16, 17]
    assert made("long", 3, 1, iteration={"start": 100, "step": -10}) == [90, 80, 70]
    assert made("int", 5, 0, iteration={"start": 1, "restart": 4}) == [1, 2, 3, 1, 2]
    assert made("int", 4, 0, iteration={"start": 3, "restart": 0}) == [3, 2, 1, 3]
    assert made("int", 4, 0, iteration={"start": 0, "restart": 4, "initial": 2}) == [2, 3, 0, 1]
    assert made("double", 2, 1, iteration={"start": 0}) == [1.0, 2.0]
    assert made("boolean", 3, 0, iteration={"start": True}) == [True, False, True]
    assert made("string", 2, 7, iteration={"start": 0}, prefix="id-") == ["id-7", "id-8"]


def test_lengths_odds_prefixes_keys() -> None:
    assert {len(each) for each in made("string", length={"min": 2, "max": 4})} == {2, 3}
    assert {len(each) for each in made("bytes", length=5)} == {5}
    assert all(made("boolean", odds=1.0))
    assert all(each.endswith("!") for each in made("string", suffix="!", regex="[ab]"))
    rows = made({"type": "map", "values": "int"}, 20, length=3, keys={"regex": "[a-z]{9}"})
    assert all(len(row) == 3 and all(len(key) == 9 for key in row) for row in rows)


def test_options_are_values_of_the_type(tmp_path: Path) -> None:
    assert set(made("bytes", options=["NDI="])) == {b"42"}
    assert set(made("string", options=["a", "b"])) == {"a", "b"}
    file = tmp_path / "options.json"
    file.write_text('["one", "two"]')
    named = {"file": str(file), "encoding": "json"}
    assert set(made("string", options=named)) == {"one", "two"}


@pytest.mark.parametrize(
    ("kind", "annotations", "reported"),
    [
        ("int", {"rnage": {}}, "rnage"),
        ("int", {"range": {"min": 5, "max": 5}}, "is empty"),
        ("int", {"iteration": {}}, "no 'start'"),
        ("int", {"iteration": {"start": 1, "restart": 1}}, "never advances"),
        ("string", {"options": []}, "non-empty list"),
        ("string", {"options": {"file": "nowhere", "encoding": "json"}}, "cannot be read"),
        ("string", {"options": {"file": "f", "encoding": "binary"}}, "encoding"),
        ("string", {"regex": "(?<=a)"}, "regex"),
        ("duck", {}, "'duck'"),
    ],
)
def test_unsupported_input_is_reported(kind: str, annotations: Any, reported: str) -> None:
    with pytest.raises(DataError, match=reported):
        made(kind, **annotations)


def test_unions_of_several_types_are_refused() -> None:
    with pytest.raises(DataError, match="union"):
        maker(["int", "string"])
