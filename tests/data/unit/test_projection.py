"""Projection, beside the golden cases: when work is done, and when none is."""

from __future__ import annotations

import copy

import pytest

from penstock.data import schema as s
from penstock.data.projection import ProjectionError, project, projector
from penstock.data.schema import Schema, Type, Value
from penstock.errors import DataError

OLD = s.struct({"id": s.INT32, "gone": s.OPTIONAL_STRING, "tags": s.array(s.INT8)}, name="Row")
NEW = s.struct(
    {
        "tags": s.array(s.INT64),
        "added": s.OPTIONAL_STRING,
        "id": s.FLOAT64,
        "state": Schema(Type.STRING, default="new"),
    },
    name="Row",
)


def test_a_struct_gets_the_fields_of_the_target_in_its_order() -> None:
    value = {"id": 5, "gone": "x", "tags": [1, 2]}
    before = copy.deepcopy(value)
    projected = project(OLD, value, NEW)
    assert projected == {"tags": [1, 2], "added": None, "id": 5.0, "state": "new"}
    assert list(projected) == ["tags", "added", "id", "state"]
    assert type(projected["id"]) is float
    assert value == before


def test_a_value_that_needs_no_work_is_given_back_itself() -> None:
    tags: list[Value] = [1, 2]
    value = {"id": 5, "gone": None, "tags": tags}
    assert projector(OLD, OLD)(value) is value
    assert project(s.array(s.INT8), tags, s.array(s.INT64)) is tags
    assert project(OLD, value, NEW)["tags"] is tags


def test_a_field_left_out_is_null_or_its_default() -> None:
    source = s.struct({"a": s.OPTIONAL_INT8, "b": Schema(Type.INT8, default=7)})
    assert project(source, {}, source) == {"a": None, "b": 7}
    assert project(source, {"b": None}, source) == {"a": None, "b": 7}


def test_an_impossible_projection_fails_only_with_a_value() -> None:
    to_text = projector(s.array(s.INT8), s.array(s.STRING))
    assert to_text([]) == []
    assert projector(s.OPTIONAL_STRING, s.OPTIONAL_STRING)(None) is None
    with pytest.raises(
        ProjectionError,
        match=r"^Schema type mismatch\. source type: INT8 and target type: STRING$",
    ):
        to_text([1])


def test_a_problem_inside_is_the_cause() -> None:
    target = s.struct({"id": s.STRING}, name="Row")
    with pytest.raises(ProjectionError, match=r"^Error projecting id$") as raised:
        project(OLD, {"id": 5}, target)
    assert isinstance(raised.value.__cause__, ProjectionError)
    assert raised.value.java_name == "org.apache.kafka.connect.errors.SchemaProjectorException"


def test_a_null_where_none_may_be_is_refused() -> None:
    wide = s.struct({"id": s.INT64})
    message = '^Invalid value: null used for required field: "id", schema type: INT64$'
    for row in ({"id": None}, {}):
        with pytest.raises(DataError, match=message):
            project(s.struct({"id": s.INT32}), row, wide)


def test_a_long_becomes_the_nearest_float() -> None:
    # Via a double it would become 2**53.
    assert project(s.INT64, 2**53 + 2**29 + 1, s.FLOAT32) == 2**53 + 2**30
    assert project(s.INT64, -(2**53) - 2**29 - 1, s.FLOAT32) == -(2**53) - 2**30
    assert project(s.INT32, 16777217, s.FLOAT32) == 16777216.0


def test_values_without_an_inner_schema_stay_unchanged() -> None:
    anything = Schema(Type.ARRAY)
    assert project(anything, [1, "a"], anything) == [1, "a"]
    assert project(anything, [], s.array(s.INT8)) == []
    with pytest.raises(ProjectionError, match="Only one of source and target has a schema"):
        project(anything, [1], s.array(s.INT8))
