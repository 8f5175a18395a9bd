"""CSV, read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from penstock.api import DataError, Fields
from penstock.api.schema import (
    DATE,
    INT16,
    INT32,
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
    Schema,
    Type,
    Value,
    struct,
)
from penstock.connectors.files.formats.csv_read import Dialect
from penstock.connectors.files.formats.decoder import (
    Truncated,
)

from .readings import START, File, read, reading, values


def csv_rows(text: str, **options: Any) -> list[Value]:
    found = values(reading("Csv", **options), text.encode())
    assert found == values(reading("Csv", **options), text.encode(), max_bytes=1)
    return found


def test_csv_is_text_unless_something_else_is_said() -> None:
    result = read(reading("Csv"), b'id,name\n1,"a ""b"", c\nd"\n,""\n')
    assert result.values == [{"id": "1", "name": 'a "b", c\nd'}, {"id": None, "name": ""}]
    assert result.schemas[0] == struct({"id": OPTIONAL_STRING, "name": OPTIONAL_STRING})


def test_csv_without_a_header() -> None:
    assert csv_rows("1,a\n", csv_header=False) == [{"column1": "1", "column2": "a"}]
    assert csv_rows("1,a\n", csv_header=False, csv_names=("id", "n")) == [{"id": "1", "n": "a"}]
    schema = struct({"id": INT32, "n": STRING})
    assert csv_rows("1,a\n", csv_header=False, schema=schema) == [{"id": 1, "n": "a"}]


def test_csv_in_other_dialects() -> None:
    assert csv_rows("a;b\n1;'x;''y'\n", csv_dialect=Dialect(";", "'")) == [{"a": "1", "b": "x;'y"}]
    assert csv_rows('a\tb\n"1\t\n\t\n', csv_dialect=Dialect("\t", None)) == [
        {"a": '"1', "b": None},
        {"a": None, "b": None},
    ]
    assert csv_rows("a,b\nNULL,\n", csv_null="NULL") == [{"a": None, "b": ""}]
    data = "ü,b\r\né,2\r\n"
    for encoding in ("utf-16", "latin-1", "utf-8-sig"):
        found = values(reading("Csv", encoding=encoding), data.encode(encoding))
        assert found == [{"ü": "é", "b": "2"}]


def test_types_of_csv_are_inferred() -> None:
    text = (
        "i,f,b,s,t,d,zip,none\n"
        "1,1.5,true,x,2024-02-29T13:14:15.016Z,2024-02-29,007,\n"
        "-2,2,FALSE,1,2024-02-29 13:14,2024-03-01,1,\n"
        ",,,,,,,\n"
    )
    result = read(reading("Csv", csv_infer_rows=10), text.encode())
    assert result.schemas[0] == struct(
        {
            "i": OPTIONAL_INT64,
            "f": OPTIONAL_FLOAT64,
            "b": OPTIONAL_BOOLEAN,
            "s": OPTIONAL_STRING,
            "t": TIMESTAMP.as_optional(),
            "d": DATE.as_optional(),
            "zip": OPTIONAL_STRING,
            "none": OPTIONAL_STRING,
        }
    )
    assert result.values[0] == {
        "i": 1,
        "f": 1.5,
        "b": True,
        "s": "x",
        "t": datetime(2024, 2, 29, 13, 14, 15, 16_000, tzinfo=UTC),
        "d": date(2024, 2, 29),
        "zip": "007",
        "none": None,
    }
    assert result.values[2] == dict.fromkeys(result.values[0])


def test_cells_that_do_not_fit_fail_their_row_alone() -> None:
    text = "id,name\n" + "".join(f"{number},n\n" for number in range(50)) + "x,n\n51,n\n"
    its = reading("Csv", csv_infer_rows=10)
    result = read(its, text.encode())
    assert [row["id"] for row in result.values if row] == [*range(50), 51]
    assert {row: str(error) for row, error in result.failed.items()} == {
        50: "Line 52: column 'id': 'x' is not of type INT64"
    }


@pytest.mark.parametrize(
    ("text", "expected", "error"),
    [
        (
            "a,b\n1\n1,2\n1,2,3\n",
            [None, ("1", "2"), None],
            "Line 2: it has 1 cells, but the file has 2",
        ),
        ('a,b\n"1"x,2\n3,4\n', [None, ("3", "4")], "Line 2: text follows a closing quote"),
        ('a,b\n5" pipe,2\n3,"4\n5"\n', [('5" pipe', "2"), ("3", "4\n5")], None),
        ('a,b\n"1\n2",\n"x"y,1\n', [("1\n2", None), None], "Line 4: text follows"),
        ("a,b\n1\r2,3\n", [("1\r2", "3")], None),
    ],
)
def test_bad_rows_of_csv(text: str, expected: list[Any], error: str | None) -> None:
    for max_bytes in (1, 1000):
        result = read(reading("Csv"), text.encode(), max_bytes=max_bytes)
        assert [row and tuple(row.values()) for row in result.values] == expected
        assert result.error is None
        if error is not None:
            assert error in str(next(iter(result.failed.values())))


def test_a_quote_that_is_not_closed() -> None:
    text = b'a,b\n1,2\n"3,4\n5,6\n'
    result = read(reading("Csv"), text)
    assert (len(result.values), type(result.error)) == (1, Truncated)
    result = read(reading("Csv", csv_dialect=Dialect(newlines=False)), text)
    assert [row and row["a"] for row in result.values] == ["1", None, "5"]
    assert "Line 3: a quote is not closed" in str(result.failed[1])


def test_columns_of_csv_and_a_schema() -> None:
    level = Schema(Type.INT8, default=7)
    schema = struct({"id": INT16, "level": level, "note": OPTIONAL_STRING, "name": STRING})
    rows = csv_rows("name,other,id\n,x,1\n", schema=schema)
    assert rows == [{"id": 1, "level": 7, "note": None, "name": ""}]
    with pytest.raises(DataError, match="no column 'id', which the schema needs"):
        reading("Csv", schema=schema).open(File(b"name\nx\n"), START).read(100)
    with pytest.raises(DataError, match="two columns named 'a'"):
        reading("Csv").open(File(b"a,a\n1,2\n"), START).read(100)
    result = read(reading("Csv", schema=schema), b"id,name\n40000,a\n3,b\n,c\n")
    assert [row and row["id"] for row in result.values] == [None, 3, None]


def test_numbers_of_csv_are_fields() -> None:
    chunk = reading("Csv", csv_infer_rows=1).open(File(b"a,b\n1,x\n,y\n"), START).read(100)
    assert chunk is not None
    assert isinstance(chunk.values, Fields)
