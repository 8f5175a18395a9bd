"""Laws of JSON read into fields: always the same values as one by one."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.converter import Use
from penstock.convert.json import JsonConverter
from penstock.data.columns import Cells
from penstock.data.records import Column
from penstock.data.schema import BYTES
from penstock.data.text import column_texts

SPELLINGS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["0", "-0", "-0.0", "1E5", "1e-7", "5.0", "null", "true", "false", "{}", "[1]"]
    ),
    st.sampled_from(
        ["NaN", "-Infinity", "1e999", "01", "'a'", "", '"\\ud800"', '"\\ud83d\\ude00"']
    ),
    st.text(max_size=3)
    .map(lambda text: orjson.dumps(text.encode("utf-8", "replace").decode()))
    .map(bytes.decode),
)
NAMES = st.sampled_from(["a", "b", "c", "Aa", "BB", "\\u0061"])
NUMBERS = st.integers(-5, 5).map(str) | st.integers(-20, 20).map(lambda n: str(n / 4))


def text_of(members: list[tuple[str, str]]) -> bytes:
    return ("{" + ",".join(f'"{name}":{spelling}' for name, spelling in members) + "}").encode()


OBJECTS = st.lists(st.tuples(NAMES, SPELLINGS), max_size=3).map(text_of)
ALIKE = st.tuples(NUMBERS, NUMBERS, st.booleans()).map(
    lambda row: text_of([("a", row[0]), ("c", row[1]), ("b", str(row[2]).lower())])
)
ROWS = st.lists(OBJECTS | ALIKE, min_size=1, max_size=3) | st.lists(ALIKE, min_size=1, max_size=3)
SHARES = st.sampled_from([0.0, 0.5, 1.0])
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "a", "type": "int16", "optional": True},
        {"field": "b", "type": "boolean", "optional": True},
        {"field": "c", "type": "double", "optional": True},
    ],
}


def read(schemas: bool, cells: list[bytes], share: float) -> None:
    alike = takewhile(lambda each: len(set(each)) == 1, zip(*cells, strict=False))
    head = cells[0][: round(share * sum(1 for _ in alike))]
    rests = pa.array([cell.removeprefix(head) for cell in cells], pa.binary())
    json = JsonConverter(
        JsonConverter.plugin.config.parse({"schemas.enable": str(schemas).lower()}), Use.VALUE
    )
    fields = json.to_fields(Cells(rests, BYTES, head))
    if fields is None:
        return
    failed: dict[int, Exception] = {}
    column = json.to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    assert fields.runs == column.runs
    assert list(map(reported, fields.values)) == list(map(reported, column.values))
    assert texts(fields) == texts(column)


def reported(value: Any) -> list[tuple[str, str]]:
    return sorted((name, repr(each)) for name, each in value.items())


def texts(column: Column) -> list[str]:
    return [text for array in column_texts(column) for text in array.to_pylist()]


@given(ROWS, SHARES)
def test_objects_have_the_values_they_have_one_by_one(cells: list[bytes], share: float) -> None:
    read(False, cells, share)


@given(ROWS, SHARES)
def test_payloads_have_the_values_they_have_one_by_one(payloads: list[bytes], share: float) -> None:
    head = b'{"schema":' + orjson.dumps(SCHEMA) + b',"payload":'
    read(True, [head + each + b"}" for each in payloads], share)
