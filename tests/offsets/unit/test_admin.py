"""Which offsets users may set."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api import SourceOffset
from penstock.connectors.file import FILE_SOURCE, FileStreamSource
from penstock.errors import BadRequest, PenstockError
from penstock.offsets.admin import NOT_GIVEN, requested, sink_offsets

PLACE = {"kafka_topic": "t", "kafka_partition": 3}


def test_numbers_may_be_texts_and_nothing_forgets() -> None:
    pairs: list[dict[str, Any]] = [
        {"partition": {"kafka_topic": "t", "kafka_partition": "1"}, "offset": {"kafka_offset": 5}},
        {"partition": PLACE, "offset": {"kafka_offset": "6"}},
        {"partition": {**PLACE, "kafka_partition": 4}, "offset": None},
    ]
    assert sink_offsets(pairs) == {("t", 1): 5, ("t", 3): 6, ("t", 4): None}


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (None, {}, "cannot be null or missing"),
        ({"kafka_topic": "t"}, {}, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({**PLACE, "kafka_topic": None}, {}, "topic names must be valid strings"),
        ({**PLACE, "kafka_partition": None}, {}, "partitions must be valid numbers"),
        ({**PLACE, "kafka_partition": 1.5}, {}, "Partition values for sink connectors need"),
        ({**PLACE, "kafka_partition": True}, {}, "Partition values for sink connectors need"),
        ({**PLACE, "kafka_partition": 2**31}, {}, "Partition values for sink connectors need"),
        ({**PLACE, "kafka_partition": " 3"}, {}, "Partition values for sink connectors need"),
        (PLACE, {"kafka_offset": "1_000"}, "Offset values for sink connectors need to be integers"),
        (PLACE, {"kafka_offset": 2**63}, "Offset values for sink connectors need to be integers"),
        (PLACE, {}, "should either be null or contain the key 'kafka_offset'"),
        (PLACE, {"kafka_offset": None}, "Offset values for sink connectors need to be integers"),
    ],
)
def test_sink_offsets_that_make_no_sense_are_refused(
    partition: object, offset: object, message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        sink_offsets([{"partition": partition, "offset": offset}])


@pytest.mark.parametrize("body", [None, [], "x", {"nope": []}])
def test_a_request_of_another_shape_is_refused(body: object) -> None:
    with pytest.raises(PenstockError, match="Cannot deserialize"):
        requested(body)


@pytest.mark.parametrize("body", [{}, {"offsets": None}, {"offsets": []}])
def test_a_request_without_offsets_is_refused(body: object) -> None:
    with pytest.raises(BadRequest, match=NOT_GIVEN):
        requested(body)


@pytest.mark.parametrize(
    "offsets", ["x", ["x"], [None], [{"partition": 1}], [{"offset": []}], [{"x": {}}]]
)
def test_offsets_of_another_shape_are_refused(offsets: object) -> None:
    with pytest.raises(PenstockError, match="Cannot deserialize"):
        requested({"offsets": offsets})


FILE = {"filename": "/in"}


def alter(*offsets: SourceOffset, file: str | None = "/in") -> bool:
    props = {"topic": "t"} | ({"file": file} if file else {})
    return FileStreamSource().alter_offsets(FILE_SOURCE.parse(props), offsets)


def test_a_file_source_takes_positions_and_forgets_anything() -> None:
    assert alter(SourceOffset(FILE, {"position": 0}), SourceOffset({"any": 1}, None))


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (FILE, {"position": -1}, "non-negative"),
        (FILE, {"position": "1"}, "expected to be a Long"),
        (FILE, {"position": True}, "expected to be a Long"),
        (FILE, {"other": 1}, "contain the key 'position'"),
        ({"other": "x"}, {"position": 1}, "contain the key 'filename'"),
    ],
)
def test_a_file_source_refuses_other_offsets(
    partition: dict[str, str], offset: dict[str, Any], message: str
) -> None:
    with pytest.raises(PenstockError, match=message):
        alter(SourceOffset(partition, offset))


def test_offsets_of_standard_input_are_nobodys() -> None:
    with pytest.raises(PenstockError, match="stdin"):
        alter(SourceOffset(FILE, {"position": 1}), file=None)
