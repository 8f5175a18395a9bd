"""The generator, by the conformance suite and by its offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from penstock.api import Header, PenstockError, Props, SourceContext, SourceOffset, SourceReader
from penstock.api.schema import INT64, STRING
from penstock.api.settings import Config
from penstock.connectors.generator.settings import DATAGEN
from penstock.connectors.generator.source import BLOCK, DatagenSource, GeneratorReader
from penstock.testing.conformance import SourceConformance
from penstock.testing.contexts import SourceContextStub

FAST = {"kafka.topic": "t", "max.interval": "0"}


class GrowingSource(DatagenSource):
    """One task, whose end moves as the suite adds records, without the headers that count its
    starts."""

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return super().plan_tasks(config, 1)

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        reader = super().open(config, context)
        assert isinstance(reader, GeneratorReader)
        reader._end = TestConformance.end  # type: ignore[assignment]
        reader._headers = lambda first, count: []  # type: ignore[method-assign]
        return reader


class TestConformance(SourceConformance):
    resumes_within_polls = True
    connector = GrowingSource
    end = SimpleNamespace(records=0, fails=False)
    bad_configs = (
        ({"quickstart": "userz"}, "must be one out of"),
        ({"quickstart": None}, "Must set exactly one of"),
        ({"schema.string": '"int"'}, "Must set exactly one of"),
        ({"quickstart": None, "schema.string": "{"}, "unable to use the schema"),
        ({"quickstart": None, "schema.string": '"int"'}, "is not a record"),
        ({"quickstart": None, "schema.filename": "nowhere.avsc"}, "Unable to find the schema file"),
        ({"schema.keyfield": "shoe"}, "does not contain the field"),
        ({"penstock.error.rate": "2"}, "penstock.error.rate"),
        ({"penstock.at.end": "explode"}, "penstock.at.end"),
    )

    @pytest.fixture(autouse=True)
    def _empty(self) -> None:
        self.end.records = 0

    def config(self) -> dict[str, str]:
        return {**FAST, "quickstart": "orders", "random.seed": "7", "max.interval": "0"}

    def add(self, numbers: range) -> None:
        self.end.records = numbers.stop


def _reader(stored: list[SourceOffset] | None = None, **settings: str) -> Any:
    config = DATAGEN.parse({**FAST, "random.seed": "3", **settings})
    return DatagenSource().open(config, SourceContextStub(stored or []))


def _polled(reader: Any, count: int) -> Any:
    """`count` records of one poll."""
    polled = reader.poll(1 << 30, 0)
    assert polled is not None
    assert len(polled.records) == count
    return polled


def test_keys_headers_and_offsets_are_datagens() -> None:
    polled = _polled(_reader(quickstart="users", iterations="3"), 3)
    records = polled.records
    assert records.keys.values == [row["userid"] for row in records.values.values]
    assert records.keys.schemas() == [STRING] * 3
    assert records.headers[2] == (
        Header("task.generation", 0, INT64),
        Header("task.id", 0, INT64),
        Header("current.iteration", 2, INT64),
    )
    assert polled.offsets == [
        SourceOffset(
            {"task.id": 0}, {"task.generation": 1, "current.iteration": 3, "random.seed": 3}
        )
    ]


def test_a_task_continues_with_the_same_records_at_any_place() -> None:
    whole = _polled(_reader(quickstart="orders", iterations=str(BLOCK + 50)), BLOCK + 50).records
    for first in (1, BLOCK - 1, BLOCK, BLOCK + 7):
        stored = SourceOffset(
            {"task.id": 0}, {"task.generation": 4, "current.iteration": first, "random.seed": 3}
        )
        rest = _polled(
            _reader([stored], quickstart="orders", iterations=str(BLOCK + 50)), BLOCK + 50 - first
        ).records
        assert rest.values.values == whole.values.values[first:]
        assert rest.headers[0][0] == Header("task.generation", 4, INT64)


def test_tasks_send_different_records() -> None:
    props = DatagenSource().plan_tasks(DATAGEN.parse({**FAST, "quickstart": "users"}), 2)
    assert [each["task.id"] for each in props] == ["0", "1"]
    first, second = (
        _polled(_reader(quickstart="users", iterations="20", **{"task.id": task}), 20).records
        for task in "01"
    )
    assert first.values.values != second.values.values


def test_a_task_fails_when_its_records_are_stored_as_datagens_does() -> None:
    reader = _reader(quickstart="users", iterations="5")
    polled = _polled(reader, 5)
    assert reader.poll(1 << 20, 0) is None  # not stored yet
    reader.committed(polled.offsets)
    with pytest.raises(PenstockError, match="generated the configured 5 number of messages"):
        reader.poll(1 << 20, 0)


def test_records_come_at_their_rate() -> None:
    reader = _reader(quickstart="users", **{"penstock.records.per.second": "1000"})
    total, polls = 0, 0
    while total < 300:
        polled = reader.poll(1 << 20, 50)
        total += len(polled.records) if polled else 0
        polls += 1
    assert polls >= 3, "not all at once"
    slow = _reader(quickstart="users", **{"penstock.records.per.second": "0.01"})
    assert slow.poll(1 << 20, 10) is None


def test_a_share_of_the_values_does_not_fit() -> None:
    config: Mapping[str, str] = {"quickstart": "users", "iterations": "1000"}
    records = _polled(_reader(**config, **{"penstock.error.rate": "0.1"}), 1000).records
    bad = [value for value in records.values.values if isinstance(value, str)]
    assert 50 < len(bad) < 150
    assert bad[0].startswith("malformed record ")
    again = _polled(_reader(**config, **{"penstock.error.rate": "0.1"}), 1000).records
    assert again.values.values == records.values.values


class TestOffsets:
    good: ClassVar[dict[str, int]] = {
        "task.generation": 1, "current.iteration": 5, "random.seed": 9,
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("partition", "offset"),
        [
            ({}, good),
            ({"task.id": "0"}, good),
            ({"task.id": 0}, {**good, "current.iteration": -1}),
            ({"task.id": 0}, {"current.iteration": 5}),
        ],
    )
    def test_an_invalid_offset_is_refused(self, partition: Any, offset: Any) -> None:
        config = DATAGEN.parse({**FAST, "quickstart": "users"})
        with pytest.raises(PenstockError):
            DatagenSource().alter_offsets(config, [SourceOffset(partition, offset)])

    def test_they_may_be_set(self) -> None:
        config = DATAGEN.parse({**FAST, "quickstart": "users"})
        assert DatagenSource().alter_offsets(config, [SourceOffset({"task.id": 0}, self.good)])


def test_a_schema_of_ones_own() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    reader = _reader(**{"schema.string": json.dumps(schema), "iterations": "2"})
    records = _polled(reader, 2).records
    assert records.keys.values == [None, None]
    assert {*records.values.values[0]} == {"n"}
