"""Batches through steps: what fails, what is retried, what is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.api import Converter, Failed, HeaderConverter, Plugin, Predicate, Transform, Use
from penstock.config.define import Config, ConfigDef
from penstock.convert.json import JSON_CONVERTER, JsonConverter
from penstock.data.columns import Cells, Fields
from penstock.data.records import Column, Header, Records
from penstock.data.schema import INT8, OPTIONAL_STRING, STRING
from penstock.errors import DataError, Unavailable
from penstock.flow.plan import Conversion, ConverterPlan, PredicatePlan, Tolerance, TransformPlan
from penstock.flow.stage.pipeline import (
    Pipeline,
    Stage,
    Step,
    sink_steps,
    source_steps,
)
from penstock.flow.stage.retrying import Retrying
from penstock.plugins.ref import PluginRef
from penstock.transform.replace_field import REPLACE_FIELD, ReplaceFieldValue

NOTHING = ConfigDef().parse({})
RETRY = Tolerance(retry_timeout_ms=10_000)


class Text(Converter):
    """UTF-8; refuses what begins with `bad`."""

    plugin = Plugin("test.Text", "1", ConfigDef())

    def to_connect(
        self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
    ) -> Column:
        values: list[str | None] = []
        for row, cell in enumerate(cells):
            if cell is not None and cell.startswith(b"bad"):
                failed[row] = DataError(f"{self.use.value}: {cell.decode()}")
            values.append(None if cell is None or row in failed else cell.decode())
        return Column.of(values, OPTIONAL_STRING)

    def from_connect(
        self, topics: Sequence[str], column: Column, failed: Failed
    ) -> list[bytes | None]:
        cells: list[bytes | None] = []
        for row, value in enumerate(column.values):
            if value is not None and value.startswith("bad"):
                failed[row] = DataError(f"{self.use.value}: {value}")
            cells.append(None if value is None else value.encode())
        return cells


class Shout(Transform):
    """Upper case; drops `drop`, fails for `fail`, raises for `raise`."""

    plugin = Plugin("test.Shout", "1", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        values = records.values.values
        for row, value in enumerate(values):
            if value == "fail":
                failed[row] = DataError("asked to fail")
            if value == "raise":
                raise RuntimeError("a bug")
        shouted = records.with_values(
            Column.of([value and value.upper() for value in values], OPTIONAL_STRING)
        )
        return shouted.only([row for row, value in enumerate(values) if value != "drop"])


class Starts(Predicate):
    """Values that begin with `x`; fails for null."""

    plugin = Plugin("test.Starts", "1", ConfigDef())

    def test(self, records: Records, failed: Failed) -> Sequence[bool]:
        values = records.values.values
        failed |= {row: DataError("null") for row, value in enumerate(values) if value is None}
        return [value is not None and value.startswith("x") for value in values]


class Look(Transform):
    """Looks at every value."""

    plugin = Plugin("test.Look", "1", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        assert not isinstance(records.values, Fields)
        return records


STARTS = PredicatePlan(PluginRef.of(Starts), NOTHING)
TEXT = ConverterPlan(PluginRef.of(Text), NOTHING)
SHOUT = TransformPlan("shout", PluginRef.of(Shout), NOTHING)


def batch(*values: bytes | None, headers: list[list[Header]] | None = None) -> Records:
    count = len(values)
    return Records(
        topics=["t"] * count,
        partitions=[0] * count,
        timestamps=[None] * count,
        keys=Column.of([b"k%d" % row for row in range(count)], None),
        values=Column.of(list(values), None),
        offsets=list(range(10, 10 + count)),
        headers=list(headers or []),
    )


def sink(*transforms: TransformPlan, tolerance: Tolerance | None = None) -> Pipeline:
    return Pipeline(sink_steps(Conversion(TEXT, TEXT, TEXT, transforms)), tolerance or Tolerance())


def test_bytes_become_records() -> None:
    records, failures = sink().run(batch(b"a", None, b"c"))
    assert failures == []
    assert records.values == Column.of(["a", None, "c"], OPTIONAL_STRING)
    assert records.keys.values == ["k0", "k1", "k2"]
    assert list(records.origins) == [0, 1, 2]


def test_a_failed_record_does_not_cost_its_neighbours() -> None:
    records, failures = sink(SHOUT).run(batch(b"a", b"bad", b"fail", b"d", b"drop", b"f"))
    assert records.values.values == ["A", "D", "F"]
    assert records.offsets == [10, 13, 15]
    assert list(records.origins) == [0, 3, 5]
    assert [(f.origin, f.stage, f.class_name, str(f.cause)) for f in failures] == [
        (1, Stage.VALUE_CONVERTER, "test.Text", "value: bad"),
        (2, Stage.TRANSFORMATION, "test.Shout", "asked to fail"),
    ]


def test_a_transform_that_raises_is_asked_record_by_record() -> None:
    records, failures = sink(SHOUT).run(batch(b"a", b"raise", b"drop", b"d"))
    assert records.values.values == ["A", "D"]
    assert list(records.origins) == [0, 3]
    assert [(f.origin, str(f.cause)) for f in failures] == [(1, "a bug")]


@pytest.mark.parametrize(
    ("negate", "expected"), [(False, ["a", "XB", "d"]), (True, ["A", "xb", "D"])]
)
def test_a_predicate_says_which_records_a_transform_is_for(
    negate: bool, expected: list[str]
) -> None:
    guarded = TransformPlan("shout", PluginRef.of(Shout), NOTHING, STARTS, negate)
    records, failures = sink(guarded).run(batch(b"a", b"xb", None, b"d"))
    assert records.values.values == expected
    assert list(records.origins) == [0, 1, 3]
    assert [(f.origin, f.stage) for f in failures] == [(2, Stage.TRANSFORMATION)]


@pytest.mark.parametrize(("values", "expected"), [((b"xa", b"xb"), ["XA", "XB"]), ((b"a",), ["a"])])
def test_a_predicate_may_hold_for_all_or_none(
    values: tuple[bytes, ...], expected: list[str]
) -> None:
    guarded = TransformPlan("shout", PluginRef.of(Shout), NOTHING, STARTS)
    assert sink(guarded).run(batch(*values))[0].values.values == expected


def test_failures_behind_a_predicate_keep_their_place() -> None:
    guarded = TransformPlan("shout", PluginRef.of(Shout), NOTHING, STARTS, negate=True)
    records, failures = sink(guarded).run(batch(b"xa", b"fail", b"drop", b"b"))
    assert records.values.values == ["xa", "B"]
    assert [failure.origin for failure in failures] == [1]


def test_headers_are_converted_and_a_bad_one_fails_its_record() -> None:
    headers = [
        [Header("a", b"1"), Header("b", b"bad one"), Header("c", b"bad two")],
        [],
        [Header("d", None)],
    ]
    records, failures = sink().run(batch(b"1", b"2", b"3", headers=headers))
    assert [list(each) for each in records.headers] == [[], [Header("d", None, OPTIONAL_STRING)]]
    assert [(f.origin, f.stage, str(f.cause)) for f in failures] == [
        (0, Stage.HEADER_CONVERTER, "header: bad one")
    ]


def test_a_header_that_records_share_fails_all_of_them_and_no_other() -> None:
    bad, good = Header("h", b"bad"), Header("h", b"1")
    headers = [[good, bad], [good], [bad], [], [good, good]]
    values = [str(row).encode() for row in range(len(headers))]
    records, failures = sink().run(batch(*values, headers=headers))
    assert sorted(failure.origin for failure in failures) == [0, 2]
    assert [len(each) for each in records.headers] == [1, 0, 2]


def test_a_source_transforms_then_converts_headers_keys_values() -> None:
    steps = source_steps(Conversion(TEXT, TEXT, TEXT, (SHOUT,)))
    assert [step.stage for step in steps] == [
        Stage.TRANSFORMATION,
        Stage.HEADER_CONVERTER,
        Stage.KEY_CONVERTER,
        Stage.VALUE_CONVERTER,
    ]
    records = Records(
        topics=["t", "t"],
        partitions=[None, None],
        timestamps=[None, None],
        keys=Column.of(["k", "bad"], STRING),
        values=Column.of(["v", "w"], STRING),
        headers=[[Header("h", "x", STRING)], []],
    )
    done, failures = Pipeline(steps, Tolerance()).run(records)
    assert (done.keys.values, done.values.values) == ([b"k"], [b"V"])
    assert list(done.headers[0]) == [Header("h", b"x")]
    assert [(f.origin, f.stage) for f in failures] == [(1, Stage.KEY_CONVERTER)]
    assert records.headers[0] == [Header("h", "x", STRING)]


class Flaky:
    """A step that refuses each row a number of times."""

    def __init__(self, refusals: dict[int, int], error: type[Exception] = Unavailable) -> None:
        self.refusals = refusals
        self.error = error
        self.seen: list[list[int]] = []

    def __call__(self, records: Records, failed: Failed) -> Records:
        self.seen.append(list(records.origins))
        for row, origin in enumerate(records.origins):
            if self.refusals.get(origin, 0):
                self.refusals[origin] -= 1
                failed[row] = self.error(f"row {origin}")
        return records


def flaky(step: Flaky, tolerance: Tolerance, waits: list[float]) -> Pipeline:
    return Pipeline([Step(Stage.TRANSFORMATION, "F", step)], tolerance, waits.append)


def test_transient_failures_are_tried_again_alone() -> None:
    step, waits = Flaky({1: 2, 3: 1}), []
    records, failures = flaky(step, RETRY, waits).run(batch(b"a", b"b", b"c", b"d"))
    assert records.values.values == [b"a", b"b", b"c", b"d"]
    assert failures == []
    assert step.seen == [[0, 1, 2, 3], [1, 3], [1]]
    assert waits == [0.3, 0.6]


def test_without_a_retry_timeout_nothing_is_tried_again() -> None:
    step, waits = Flaky({1: 1}), []
    records, failures = flaky(step, Tolerance(), waits).run(batch(b"a", b"b"))
    assert (records.values.values, [f.origin for f in failures], waits) == ([b"a"], [1], [])


def test_permanent_failures_are_not_tried_again() -> None:
    step, waits = Flaky({0: 1}, DataError), []
    _, failures = flaky(step, RETRY, waits).run(batch(b"a", b"b"))
    assert (len(failures), waits, len(step.seen)) == (1, [], 1)


def waits_of(timeout_ms: int, delay_max_ms: int, most: int = 20) -> list[float]:
    now, waits = [0.0], []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    retrying = Retrying(timeout_ms, delay_max_ms, wait, lambda: now[0])
    while len(waits) < most and retrying.again():
        pass
    return waits


def test_waits_double_and_end_with_the_timeout() -> None:
    assert waits_of(2_000, 60_000) == [0.3, 0.6, pytest.approx(1.1)]


def test_waits_beyond_the_longest_are_a_random_part_of_it() -> None:
    waits = waits_of(-1, 1_000, most=50)
    assert waits[:2] == [0.3, 0.6]
    assert all(0 <= wait <= 1 for wait in waits)
    assert len(set(waits[2:])) > 10


def test_records_left_out_and_put_together_again_are_the_same() -> None:
    whole = batch(b"a", b"b", b"c", b"d", headers=[[Header("h", b"1")], [], [], []])
    whole.values = Column.gather([1, "b", "c", 4], [INT8, STRING, STRING, INT8])
    odd, even = whole.only([1, 3]), whole.only([0, 2])
    again = Records.together(odd, even)
    assert again.values == whole.values
    assert (again.offsets, list(again.origins)) == (whole.offsets, [0, 1, 2, 3])
    assert [list(each) for each in again.headers] == [[Header("h", b"1")], [], [], []]
    assert whole.but({0, 2}).values == odd.values


def test_a_header_converter_need_not_be_a_converter() -> None:
    class Only(HeaderConverter):
        plugin = Plugin("test.Only", "1", ConfigDef())

        def __init__(self, config: Config, use: Use) -> None:
            assert use is Use.HEADER
            super().__init__(config, use)

        def to_connect(
            self, topics: Sequence[str], cells: Sequence[bytes | None], failed: Failed
        ) -> Column:
            return Column.of([7] * len(cells), INT8)

        def from_connect(
            self, topics: Sequence[str], column: Column, failed: Failed
        ) -> list[bytes | None]:
            return [b"7"] * len(column)

    steps = sink_steps(Conversion(TEXT, TEXT, ConverterPlan(PluginRef.of(Only), NOTHING)))
    records, _ = Pipeline(steps, Tolerance()).run(batch(b"a", headers=[[Header("h", b"x")]]))
    assert list(records.headers[0]) == [Header("h", 7, INT8)]


JSON = ConverterPlan(PluginRef.of(JsonConverter), JSON_CONVERTER.parse({"schemas.enable": "false"}))


def fields(values: list[bytes | None], *transforms: TransformPlan, wanted: bool = True) -> Column:
    """The values for a writer that takes fields."""
    steps = sink_steps(Conversion(TEXT, JSON, TEXT, transforms), fields=wanted)
    records = batch(*values).with_values(Cells(pa.array(values, pa.binary()), None))
    return Pipeline(steps, Tolerance()).run(records)[0].values


def test_who_takes_fields_is_given_them_where_all_values_are_alike() -> None:
    alike: list[bytes | None] = [b'{"a":1}', b'{"a":2}']
    reported = Column.of([{"a": 1}, {"a": 2}], None)
    assert isinstance(fields(alike), Fields)
    assert fields(alike) == reported
    for column in (fields(alike, wanted=False), fields([*alike, None])):
        assert not isinstance(column, Fields)
        assert column.values[:2] == reported.values


def test_one_that_fails_costs_the_others_no_more_than_the_short_cut() -> None:
    assert fields([b'{"a":1}', b"{", b'{"a":2}']).values == [{"a": 1}, {"a": 2}]


def test_transforms_that_look_at_values_are_given_no_fields() -> None:
    drop = TransformPlan(
        "drop", PluginRef.of(ReplaceFieldValue), REPLACE_FIELD.parse({"exclude": "a"})
    )
    look = TransformPlan("look", PluginRef.of(Look), NOTHING)
    assert isinstance(fields([b'{"a":1,"b":2}'], drop), Fields)
    assert not isinstance(fields([b'{"a":1,"b":2}'], drop, look), Fields)
    guarded = replace(drop, predicate=STARTS)
    assert not isinstance(fields([b'{"a":1,"b":2}'], guarded), Fields)


class Watching:
    """Keeps the stages that it is told of."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int, int]] = []

    @contextmanager
    def stage(self, name: str, records: int, failed: Sized) -> Iterator[None]:
        yield
        self.stages.append((name, records, len(failed)))


def test_an_observer_is_told_of_every_run_with_records_and_changes_nothing() -> None:
    watching, records = Watching(), batch(b"a", b"raise", b"drop")
    observed = sink(SHOUT)
    observed.observer = watching
    passed, failures = observed.run(records)
    assert watching.stages == [("convert", 3, 1)]
    alone, alone_failures = sink(SHOUT).run(records)
    assert passed.values.values == alone.values.values
    assert [f.origin for f in failures] == [f.origin for f in alone_failures]
    observed.run(records.only([]))
    assert len(watching.stages) == 1
