"""What a source's task has sent and stored when a record fails it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from penstock.api import (
    Column,
    Offsets,
    Plugin,
    Polled,
    Primitive,
    Props,
    Records,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.api.schema import STRING as STRING_SCHEMA
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.flow.plan import Boundary, SourcePlan, Tolerance, Transactions
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .conftest import Flow
from .words import RENAME

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

Unique = Callable[[str], str]

POLLS = Key("polls", STRING, importance=HIGH, doc="Values, polls and topics.")
PARTITION: Mapping[str, Primitive] = {"script": "all"}
BIG = "x" * 3_000_000  # more than a producer takes
MEDIUM = "x" * 20_000
TOLERANT = Tolerance(tolerate_all=True)


class Script(SourceConnector):
    """Reads `topic=value,topic=value|…`: `|` separates polls. The offset counts records."""

    plugin = Plugin("test.Script", "1", ConfigDef(POLLS))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        stored = context.stored_offset(PARTITION)
        return ScriptReader(config[POLLS], int(stored["count"] or 0) if stored else 0)


class ScriptReader(SourceReader):
    timestamp: int | None = None

    def __init__(self, polls: str, count: int) -> None:
        self.polls = [poll.split(",") for poll in polls.split("|")]
        self.skip = count
        self.count = 0

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        while self.polls:
            rows = self.polls.pop(0)
            first, self.count = self.count, self.count + len(rows)
            rows = rows[max(0, self.skip - first) :]
            if not rows:
                continue
            if rows == ["raise"]:
                raise ValueError("the source is broken")
            pairs = [row.split("=") for row in rows]
            words = {"big": BIG, "medium": MEDIUM}
            values: list[Any] = [words.get(value, value) for _, value in pairs]
            start = self.count - len(rows)
            return Polled(
                Records(
                    topics=[topic for topic, _ in pairs],
                    partitions=[None] * len(rows),
                    timestamps=[self.timestamp] * len(rows),
                    keys=Column.of([None] * len(rows), None),
                    values=Column.of(values, STRING_SCHEMA),
                ),
                self.offsets(start + len(rows)),
                offsets_before=self.offsets_before(start),
            )
        return None

    def offsets(self, count: int) -> Offsets:
        return [SourceOffset(PARTITION, {"count": count})]

    def offsets_before(self, start: int) -> Callable[[int], Offsets] | None:
        return lambda records: self.offsets(start + records)


class Dated(Script):
    """Its records have timestamps, so they are produced one by one."""

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        reader = super().open(config, context)
        assert isinstance(reader, ScriptReader)
        reader.timestamp = 1_700_000_000_000
        return reader


def script(flow: Flow, name: str, polls: str, **more: Any) -> SourcePlan:
    connector = more.pop("connector", Script)
    config = Script.plugin.config.parse({"polls": polls})
    return flow.source(name, "", connector=connector, config=config, **more)


def count(number: int) -> list[SourceOffset]:
    return [SourceOffset(PARTITION, {"count": number})]


@pytest.mark.parametrize(
    ("bad", "transforms", "problem"),
    [
        ("fail", RENAME, "TRANSFORMATION failed"),
        (BIG, (), "producer send callback"),
    ],
    ids=["transform", "producer"],
)
def test_lines_before_the_failing_line_of_a_file_are_sent_and_stored(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path, bad: str, transforms: Any,
    problem: str,
) -> None:  # fmt: skip
    topic, name, file = topics.create(unique("lines")), unique("src"), tmp_path / "in.txt"
    file.write_text(f"ä\n{bad}\nb\n")
    flow.start(flow.source(name, topic, file, transforms=transforms))
    assert problem in flow.await_failure()
    expected = ["ä!".encode() if transforms else "ä".encode()]
    assert topics.values(topic) == expected
    assert flow.stored == [[SourceOffset({"filename": str(file)}, {"position": 3})]]
    flow.ended.clear()
    again = flow.source(name, topic, file, transforms=transforms)
    flow.start(again, flow.stored[0])
    assert problem in flow.await_failure()
    assert topics.values(topic) == expected, "nothing is repeated"


@pytest.mark.parametrize("connector", [Script, Dated])
def test_no_record_after_a_refused_one_is_sent_whatever_its_topic(
    flow: Flow, topics: Topics, unique: Unique, connector: type[Script]
) -> None:
    one, other = topics.create(unique("one")), topics.create(unique("other"))
    polls = f"{one}=a|{one}=b,{other}=c,{other}=big,{one}=d,{other}=e|{one}=f"
    flow.start(script(flow, unique("src"), polls, connector=connector))
    assert "producer send callback" in flow.await_failure()
    assert (topics.values(one), topics.values(other)) == ([b"a", b"b"], [b"c"])
    assert flow.stored[-1] == count(3)


def test_offsets_before_the_poll_with_a_record_that_the_broker_refuses_are_stored(
    flow: Flow, topics: Topics, unique: Unique
) -> None:
    topic = topics.create(unique("lines"))
    narrow = topics.create(unique("narrow"), max_message_bytes="10000")
    flow.start(script(flow, unique("src"), f"{topic}=a|{narrow}=medium|{topic}=b"))
    assert "producer send callback" in flow.await_failure()
    assert topics.values(topic)[0] == b"a"
    assert flow.stored[-1] == count(1)


def test_records_polled_before_an_error_are_sent_and_stored(
    flow: Flow, topics: Topics, unique: Unique
) -> None:
    topic = topics.create(unique("lines"))
    flow.start(script(flow, unique("src"), f"{topic}=a|{topic}=b,{topic}=c|raise"))
    assert "the source is broken" in flow.await_failure()
    assert topics.values(topic) == [b"a", b"b", b"c"]
    assert flow.stored[-1] == count(3)


class Unknowing(Script):
    """Knows only the offset after a poll."""

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        reader = super().open(config, context)
        assert isinstance(reader, ScriptReader)
        reader.offsets_before = lambda start: None  # type: ignore[method-assign]
        return reader


def test_nothing_of_a_poll_is_sent_if_the_offset_before_the_failing_record_is_unknown(
    flow: Flow, topics: Topics, unique: Unique
) -> None:
    topic = topics.create(unique("lines"))
    polls = f"{topic}=a|{topic}=b,{topic}=fail"
    flow.start(script(flow, unique("src"), polls, connector=Unknowing, transforms=RENAME))
    assert "TRANSFORMATION failed" in flow.await_failure()
    assert topics.values(topic) == [b"a!"]
    assert flow.stored[-1] == count(1)


@pytest.mark.parametrize("size", ["big", "medium"])
@pytest.mark.parametrize("tolerance", [Tolerance(), TOLERANT], ids=["none", "all"])
def test_with_exactly_once_a_refused_record_fails_the_transaction_even_if_errors_are_tolerated(
    flow: Flow, topics: Topics, unique: Unique, size: str, tolerance: Tolerance
) -> None:
    offsets = topics.create(unique("offsets"), cleanup_policy="compact")
    topic = topics.create(unique("lines"), max_message_bytes="10000")
    name = unique("src")
    plan = script(
        flow,
        name,
        f"{topic}=a,{topic}={size},{topic}=b",
        tolerance=tolerance,
        transactions=Transactions(Boundary.POLL, 60_000, offsets),
        producer={"transactional.id": name, "transaction.timeout.ms": "30000"},
    )
    flow.start(plan)
    assert "producer" in flow.await_failure()
    assert topics.values(topic) == []
    assert flow.transactions == []


def test_without_exactly_once_a_refused_record_costs_only_itself_if_errors_are_tolerated(
    flow: Flow, topics: Topics, unique: Unique
) -> None:
    topic = topics.create(unique("lines"))
    polls = f"{topic}=a,{topic}=big,{topic}=b"
    flow.start(script(flow, unique("src"), polls, tolerance=TOLERANT))
    wait_until(lambda: flow.stored, 30, "the offset to be stored")
    assert topics.values(topic) == [b"a", b"b"]
    assert flow.stored[-1] == count(3)


@pytest.mark.parametrize("tolerates", [True, False])
def test_a_topic_for_small_batches_gets_every_record(
    flow: Flow, topics: Topics, unique: Unique, tmp_path: Path, tolerates: bool
) -> None:
    topic, file = topics.create(unique("narrow"), max_message_bytes="10000"), tmp_path / "in.txt"
    lines = [f"{number:04}{'x' * 100}" for number in range(1_000)]
    if tolerates:
        lines.insert(500, MEDIUM)  # too large for the topic even alone
    file.write_text("".join(f"{line}\n" for line in lines))
    tolerance = Tolerance(tolerate_all=tolerates)
    flow.start(flow.source(unique("src"), topic, file, tolerance=tolerance))
    end = [SourceOffset({"filename": str(file)}, {"position": file.stat().st_size})]
    wait_until(lambda: flow.stored[-1:] == [end] or flow.ended, 60, "the end to be stored")
    assert not flow.ended, flow.ended[0].trace.text
    found = [(value or b"").decode() for value in topics.values(topic)]
    assert found == [line for line in lines if line != MEDIUM]
