"""Documents, ids and names of the search sinks, over generated values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from penstock.api import DataError
from penstock.api.schema import FLOAT64, INT64, STRING, array, decimal, map_of, struct
from penstock.connectors.common.paths import node
from penstock.connectors.keyed.documents import dump, node_writer
from penstock.connectors.search.settings.elasticsearch import ELASTICSEARCH_SINK, sink_plan
from penstock.connectors.search.write.actions import TopicActions, pointer
from penstock.connectors.search.write.names import (
    data_stream_name,
    index_name,
    key_id,
    opensearch_index_name,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
TOPICS = st.text("abcXYZ._-:", min_size=1, max_size=300)
PLAN = sink_plan(ELASTICSEARCH_SINK.parse({"connection.url": "http://x"}))


@given(JSON)
def test_values_without_schemas_are_themselves(value: Any) -> None:
    node = node_writer(None, mapped=True, compact=True)
    line = dump(node(value))
    assert b"\n" not in line
    assert json.loads(line) == value


@given(st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1)))
def test_maps_are_objects_or_entries(value: dict[str, int]) -> None:
    schema = map_of(STRING, INT64)
    compact = node_writer(schema, mapped=True, compact=True)(value)
    entries = node_writer(schema, mapped=True, compact=False)(value)
    assert compact == value
    assert {each["key"]: each["value"] for each in entries} == value
    assert node_writer(schema, mapped=False, compact=False)(value) == value


@given(st.lists(st.decimals(-(10**12), 10**12, places=2)), st.floats())
def test_decimals_are_numbers_and_what_is_no_number_is_text(
    values: list[Decimal], number: float
) -> None:
    node = node_writer(array(decimal(2)), mapped=True, compact=True)
    assert node(values) == [float(each) for each in values]
    text = node_writer(FLOAT64, mapped=True, compact=True)(number)
    assert float(text) == number or number != number


@given(TOPICS)
def test_names_are_those_that_a_cluster_takes(topic: str) -> None:
    for name in (index_name(topic), opensearch_index_name(topic)):
        assert name == name.lower()
        assert len(name) <= 255
        assert name not in (".", "..")
    assert ":" not in opensearch_index_name(topic)
    assert len(data_stream_name(topic, "LOGS", "d", "${topic}")) <= len("logs-d-") + 100


@given(JSON | st.binary())
def test_ids_are_texts_of_numbers_and_texts(key: Any) -> None:
    try:
        id = key_id(None, key)
    except DataError:
        assert key is None or key == "" or isinstance(key, bool | float | list | dict | bytes)
        return
    assert id == str(key)


@given(st.text(min_size=1, max_size=100), JSON, st.integers(0, 2**62))
def test_actions_are_two_lines_of_json(key: str, value: Any, offset: int) -> None:
    if value is None:
        return
    actions = TopicActions(PLAN, "t", "t")
    made = actions.action(0, None, key, value, actions.nodes(None), 0, offset, None, ())
    assert made is not None
    first, second, rest = made.lines.split(b"\n")
    about = {"_index": "t", "_id": key, "version": offset, "version_type": "external"}
    assert json.loads(first) == {"index": about}
    assert json.loads(second) == value
    assert rest == b""


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.integers())
def test_pointers_lead_to_what_they_name(path: list[str], value: int) -> None:
    document: Any = value
    for name in reversed(path):
        document = {name: document}
    text = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)
    assert node(document, pointer(text)) == value


def test_a_required_field_is_not_null() -> None:
    node = node_writer(struct({"id": INT64}), mapped=True, compact=True)
    assert orjson.loads(dump(node({"id": 1}))) == {"id": 1}
    try:
        node({"id": None})
    except DataError:
        return
    raise AssertionError
