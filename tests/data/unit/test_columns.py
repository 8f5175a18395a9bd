"""Columns held by Arrow look like others to code that does not know them."""

from __future__ import annotations

import pyarrow as pa

from penstock.data import schema as s
from penstock.data.columns import Cells, Fields
from penstock.data.records import Column, Records

ROW = s.struct({"id": s.INT64, "name": s.OPTIONAL_STRING})


def two(schema: s.Schema | None = ROW) -> Fields:
    names = pa.array(["ä", None if schema else "b"], pa.large_string())
    return Fields(schema, {"id": pa.array([1, 2], pa.int64()), "name": names}, 2)


def test_cells_are_bytes_and_nulls() -> None:
    cells = Cells(pa.array([b"a", None, b""], pa.binary()), s.BYTES)
    assert len(cells) == 3
    assert cells == Column.of([b"a", None, b""], s.BYTES)
    assert cells.only([2, 0]) == Column.of([b"", b"a"], s.BYTES)
    assert cells.whole() is cells.rests


def test_a_common_prefix_of_cells_is_there_once() -> None:
    cells = Cells(pa.array([b"a", None, b""], pa.binary()), s.BYTES, b"head")
    assert cells == Column.of([b"heada", None, b"head"], s.BYTES)
    assert cells.whole().to_pylist() == cells.values


def test_fields_are_structs() -> None:
    fields = two()
    assert fields == Column.of([{"id": 1, "name": "ä"}, {"id": 2, "name": None}], ROW)
    assert [type(value["id"]) for value in fields.values] == [int, int]
    assert list(fields.slices()) == [(ROW, 0, 2)]


def test_fields_are_maps() -> None:
    assert two(None) == Column.of([{"id": 1, "name": "ä"}, {"id": 2, "name": "b"}], None)
    doubles = Fields(None, {"x": pa.array([0.5, 1.0]), "y": pa.array([True, False])}, 2)
    assert doubles.values == [{"x": 0.5, "y": True}, {"x": 1.0, "y": False}]
    assert Fields(None, {}, 2).values == [{}, {}]


def test_integers_with_nulls_stay_integers() -> None:
    fields = Fields(ROW, {"id": pa.array([1, None], pa.int64())}, 2)
    assert repr(fields.values) == "[{'id': 1}, {'id': None}]"


def test_rows_are_chosen_without_making_any() -> None:
    chosen = two().only([1])
    assert isinstance(chosen, Fields)
    assert chosen == Column.of([{"id": 2, "name": None}], ROW)
    assert len(two().only([])) == 0


def test_a_batch_takes_them_for_columns() -> None:
    fields = two()
    batch = Records(["t"] * 2, [0, 0], [None] * 2, Cells(pa.array([b"k", None]), s.BYTES), fields)
    assert len(batch) == 2
    assert batch.but({0}).values == fields.only([1])
    assert Records.together(batch.only([1]), batch.only([0])).values.values == fields.values


def test_a_member_may_be_one_value_for_all_rows() -> None:
    fields = two(None)
    same = {"s": "x", "f": 1.0, "t": True, "n": 7}
    made = fields.changed(None, {"id": fields.members["id"], **same})
    assert made is not None
    assert repr(made.values) == repr([{"id": 1, **same}, {"id": 2, **same}])
    assert fields.changed(None, {"s": b"x"}) is None


def test_maps_are_fields_if_it_is_known_how_they_are_printed() -> None:
    ids = pa.array([1, 2], pa.int64())
    fields = Fields(None, {"Aa": ids, "id": ids}, 2)
    added = fields.changed(None, {**fields.members, "BB": 5})  # in Aa's hash bucket, and last
    assert added is not None
    assert added.values[0] == {"Aa": 1, "id": 1, "BB": 5}
    assert added.only([0]).changed(None, added.members) is not None
    both = Fields(None, {"Aa": ids, "BB": ids}, 2)
    assert both.changed(None, both.members) is None
    assert both.changed(s.struct({"Aa": s.INT64, "BB": s.INT64}), both.members) is not None
