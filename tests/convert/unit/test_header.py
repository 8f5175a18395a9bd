"""SimpleHeaderConverter: what it does with many headers, beside the golden cases."""

from __future__ import annotations

from penstock.api import Failed, Use
from penstock.convert.header import SimpleHeaderConverter
from penstock.data import schema as s
from penstock.data.records import Column, Run
from penstock.data.schema import Schema, Type, Value


def converter() -> SimpleHeaderConverter:
    return SimpleHeaderConverter(SimpleHeaderConverter.plugin.config.parse({}), Use.HEADER)


def read(cells: list[bytes | None], by: SimpleHeaderConverter | None = None) -> Column:
    failed: Failed = {}
    column = (by or converter()).to_connect(["t"] * len(cells), cells, failed)
    assert not failed
    return column


def test_headers_are_what_they_look_like() -> None:
    cells = [b"a", b"", b"12", b"13", None, b"null", b"[1]", b"\xff"]
    assert read(cells) == Column(
        ["a", "", 12, 13, None, None, [1], "\ufffd"],
        [Run(2, s.STRING), Run(4, s.INT8), Run(6, None), Run(7, s.array(s.INT8)), Run(8, s.STRING)],
    )


def test_repeated_headers_are_read_once() -> None:
    same = converter()
    first, second = read([b"[1, 2]", b"[1, 2]"], same).values
    assert first is second
    assert read([b"[1, 2]"], same).values[0] is first


def test_more_texts_than_are_kept_are_read_all_the_same() -> None:
    same = converter()
    cells: list[bytes | None] = [str(number).encode() for number in range(9000)]
    assert read(cells, same).values == list(range(9000))
    assert read([None, *cells[:10], None], same).values == [None, *range(10), None]
    long = b"x" * 10_000
    assert read([long, long], same).values == [long.decode()] * 2


def test_headers_that_are_nested_too_deeply_stay_bytes() -> None:
    cell = b"[" * 100_000
    assert read([cell, b"1"]) == Column([cell, 1], [Run(1, s.BYTES), Run(2, s.INT8)])


def test_values_are_written_as_text() -> None:
    point = s.struct({"x": s.INT8, "y": s.OPTIONAL_STRING})
    column = Column(
        ["ü", None, 1, None, {"x": 1}, [1.5, "a"], b"\x00", "a\ud800"],
        [
            Run(1, s.STRING),
            Run(2, s.OPTIONAL_STRING),
            Run(4, None),
            Run(5, point),
            Run(8, None),
        ],
    )
    failed: Failed = {}
    cells = converter().from_connect(["t"] * 8, column, failed)
    assert not failed
    assert cells == [
        *("ü".encode(), None, b"1", None, b'{"x":1,"y":null}', b'[1.5,"a"]', b"AA==", b"a?")
    ]


def test_a_value_without_a_text_costs_its_row_only() -> None:
    failed: Failed = {}
    values: list[Value] = ["a", object(), "b", [{1}]]
    cells = converter().from_connect(["t"] * 4, Column.of(values, None), failed)
    assert cells == [b"a", None, b"b", None]
    assert failed.keys() == {1, 3}
    assert all(
        str(error).startswith("Failed to serialize unexpected value type ")
        for error in failed.values()
    )


def test_a_column_without_rows_has_no_runs() -> None:
    assert read([]) == Column([], [])
    assert converter().from_connect([], Column([], []), {}) == []


def test_a_value_that_is_none_of_its_schemas_has_the_text_of_its_class() -> None:
    column = Column.of(["a", ["b"]], Schema(Type.MAP, key_schema=s.STRING, value_schema=s.INT8))
    assert converter().from_connect(["t"] * 2, column, {}) == [b"a", b'["b"]']
