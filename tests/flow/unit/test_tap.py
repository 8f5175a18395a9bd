"""What users see of records on their way: each step, the end, and no secrets."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from penstock.api import Failed, Plugin, Transform
from penstock.config.define import ConfigDef
from penstock.convert.json import JSON_CONVERTER, JsonConverter
from penstock.data.records import Column, Header, Records
from penstock.data.schema import decimal, struct
from penstock.errors import DataError
from penstock.flow.plan import Conversion, ConverterPlan, Tolerance, TransformPlan
from penstock.flow.stage.pipeline import Pipeline, sink_steps, source_steps
from penstock.flow.stage.tap import HIDDEN, Tap
from penstock.plugins.ref import PluginRef

JSON = ConverterPlan(PluginRef.of(JsonConverter), JSON_CONVERTER.parse({"schemas.enable": "false"}))
HIDE = re.compile("password|token", re.IGNORECASE)
NOTHING = ConfigDef().parse({})


class Doubled(Transform):
    """Doubles `n`; drops 0; fails for 13."""

    plugin = Plugin("test.Doubled", "1", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        rows: Sequence[Any] = records.values.values
        failed |= {row: DataError("13!") for row, each in enumerate(rows) if each["n"] == 13}
        values = [{**each, "n": each["n"] * 2} for each in rows]
        kept = [row for row, each in enumerate(rows) if each["n"]]
        return records.with_values(Column.of(values, None)).only(kept)


def plan(*transforms: TransformPlan) -> Conversion:
    return Conversion(JSON, JSON, JSON, transforms)


def consumed(*values: bytes | None, headers: Sequence[Header] = ()) -> Records:
    count = len(values)
    return Records(
        topics=["t"] * count,
        partitions=[2] * count,
        timestamps=[5] * count,
        keys=Column.of([b"1"] * count, None),
        values=Column.of(list(values), None),
        offsets=list(range(40, 40 + count)),
        headers=[headers] * count if headers else [],
    )


class Watched:
    """A sink's pipeline with a tap."""

    def __init__(self, *transforms: TransformPlan, records: int = 10, seconds: float = 60) -> None:
        self.seen: list[dict[str, Any]] = []
        self.tap = Tap(records, seconds, HIDE, self.seen.extend)
        self.pipeline = Pipeline(sink_steps(plan(*transforms)), Tolerance())
        self.pipeline.tap = self.tap

    def write(self, records: Records, refused: Failed | None = None) -> None:
        """Writes a batch as a sink does."""
        passed, _ = self.pipeline.run(records)
        places = [(each, 2, at) for each, at in zip(passed.topics, passed.offsets, strict=True)]
        self.tap.written(places, refused or {}, {"step": "TASK_PUT"})


DOUBLED = TransformPlan("twice", PluginRef.of(Doubled), NOTHING)


def test_a_record_is_shown_after_each_step() -> None:
    watched = Watched(DOUBLED)
    watched.write(consumed(b'{"n": 21}'))
    (record,) = watched.seen
    assert record["outcome"] == "written"
    steps = record["steps"]
    assert [each["step"] for each in steps] == [
        "READ", "KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER", "TRANSFORMATION",
    ]  # fmt: skip
    assert steps[0] == {
        "step": "READ", "topic": "t", "partition": 2, "offset": 40, "timestamp": 5, "key": "1",
        "value": {"n": 21}, "headers": [], "key_schema": None, "value_schema": None,
    }  # fmt: skip
    assert steps[3]["value"] == {"n": 21}
    assert steps[4]["value"] == {"n": 42}
    assert steps[4]["alias"] == "twice"
    assert steps[4]["class"] == "test.Doubled"


def test_it_is_told_what_became_of_each() -> None:
    watched = Watched(DOUBLED)
    watched.write(
        consumed(b'{"n": 1}', b'{"n": 0}', b"{broken", b'{"n": 13}', b'{"n": 4}'),
        refused={1: DataError("no room")},
    )
    by_offset = {each["steps"][0]["offset"]: each for each in watched.seen}
    assert {offset: each["outcome"] for offset, each in by_offset.items()} == {
        40: "written", 41: "dropped", 42: "failed", 43: "failed", 44: "failed",
    }  # fmt: skip
    assert by_offset[41]["by"]["alias"] == "twice"
    assert by_offset[42]["by"]["step"] == "VALUE_CONVERTER"
    assert by_offset[43]["error"] == "DataError: 13!"
    assert by_offset[44]["by"] == {"step": "TASK_PUT"}
    assert "no room" in by_offset[44]["error"]


def test_only_so_many_are_shown_and_then_it_costs_nothing() -> None:
    watched = Watched(records=3)
    watched.write(consumed(b"1", b"2"))
    watched.write(consumed(b"3", b"4"))
    assert [each["steps"][0]["value"] for each in watched.seen] == ["1", "2", "3"]
    assert watched.tap.done
    watched.write(consumed(b"5"))
    assert watched.pipeline.tap is None
    assert len(watched.seen) == 3


def test_after_its_time_none_are_shown() -> None:
    watched = Watched(seconds=0)
    watched.write(consumed(b"1"))
    assert watched.seen == []
    assert watched.pipeline.tap is None


def test_a_record_that_is_never_written_here_is_waited_for_until_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(records=1, seconds=60)
    watched.pipeline.run(consumed(b"1"))  # and its partition is revoked
    assert watched.tap.over
    assert not watched.tap.done
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert watched.tap.done


def test_records_of_a_later_request_are_not_shown_to_an_earlier_one() -> None:
    watched = Watched(records=1)
    other: list[dict[str, Any]] = []
    step = watched.pipeline.steps[0]

    def ask(records: Records, failed: Failed) -> Records:
        watched.pipeline.tap = Tap(5, 60, None, other.extend)
        return step.apply(records, failed)

    watched.pipeline.steps = [replace(step, apply=ask), *watched.pipeline.steps[1:]]
    watched.write(consumed(b"1"))
    assert len(watched.seen) == 1
    assert other == []
    assert watched.pipeline.tap is not None, "that of whoever asked last"


def test_records_pass_as_without_it() -> None:
    values = [b'{"n": %d}' % number for number in (1, 0, 13, 7)]
    watched = Watched(DOUBLED)
    plain = Pipeline(sink_steps(plan(DOUBLED)), Tolerance())
    assert repr(watched.pipeline.run(consumed(*values))) == repr(plain.run(consumed(*values)))


def test_secrets_are_hidden_by_name_at_any_depth() -> None:
    watched = Watched()
    value = (
        b'{"user": {"Password": "p1", "name": "n"}, "tokens": ["t1"], "list": [{"token": "t2"}]}'
    )
    watched.write(consumed(value, headers=[Header("auth-token", b'"h1"'), Header("id", b"7")]))
    shown = str(watched.seen)
    assert not re.search("p1|t1|t2|h1", shown)
    assert watched.seen[0]["steps"][-1]["value"]["user"] == {"Password": HIDDEN, "name": "n"}
    assert watched.seen[0]["steps"][0]["headers"] == [["auth-token", HIDDEN], ["id", "7"]]


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, None),
        (b"plain text", "plain text"),
        (b"\xff\x00", "<2 bytes>"),
        (b'{"password": "half', "<18 bytes>"),
        (b"[1, 2.5]", [1, 2.5]),
    ],
)
def test_bytes_are_shown_as_far_as_they_can_be_told_to_hold_no_secret(
    cell: bytes | None, shown: object
) -> None:
    watched = Watched()
    watched.pipeline.steps = ()
    watched.write(consumed(cell))
    assert watched.seen[0]["steps"][0]["value"] == shown


def test_large_values_are_cut_or_left_out() -> None:
    watched = Watched()
    watched.write(consumed(b'"' + b"x" * 5000 + b'"'))
    assert watched.seen[0]["steps"][-1]["value"].endswith("x… (3000 more)")
    many = b"[" + b",".join([b'"%s"' % (b"y" * 1000)] * 100) + b"]"
    watched.write(consumed(many))
    assert "not shown" in watched.seen[1]["steps"][-1]["value"]


def test_a_sources_records_are_shown_with_their_schemas_when_they_are_converted() -> None:
    schema = struct({"price": decimal(1)}, name="Offer")
    seen: list[dict[str, Any]] = []
    pipeline = Pipeline(source_steps(plan()), Tolerance())
    pipeline.tap = Tap(1, 60, None, seen.extend)
    pipeline.run(Records.of("t", [{"price": Decimal("1.5")}], schema=schema))
    (record,) = seen
    assert record["outcome"] == "converted"
    read, *_, converted = record["steps"]
    assert read["value"] == {"price": "1.5"}
    assert read["value_schema"] == "STRUCT Offer"
    assert "offset" not in read
    assert converted["value"] == {"price": "Dw=="}
