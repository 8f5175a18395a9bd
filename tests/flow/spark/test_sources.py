"""Source tasks on real slots: from a file, or a connector made here, to a topic."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from penstock.api import (
    Plugin,
    Polled,
    Props,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
)
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.convert.json import JsonConverter
from penstock.convert.raw import ByteArrayConverter
from penstock.data.records import Column, Records
from penstock.data.schema import BYTES
from penstock.flow.plan import Tolerance, TopicGroup
from penstock.flow.stage.sending import Sending
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

from .steps import calls, following, step

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TOPIC = Key("topic", STRING, importance=HIGH, doc="Where records go.")
CELLS = [b"\x00\xff", None, b""]


class Cells(SourceConnector):
    """Sends three non-text values, once; the stored offset counts them."""

    plugin = Plugin("test.Cells", "1", ConfigDef(TOPIC))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return CellReader(config[TOPIC], bool(context.stored_offsets))


class CellReader(SourceReader):
    def __init__(self, topic: str, done: bool) -> None:
        self._topic = topic
        self._done = done

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        if self._done:
            return None
        self._done = True
        return Polled(
            Records.of(self._topic, CELLS, schema=BYTES),
            [SourceOffset({"cells": "all"}, {"count": len(CELLS)})],
        )


def position(file: Path, at: object) -> SourceOffset:
    return SourceOffset({"filename": str(file)}, {"position": at})  # type: ignore[dict-item]


def test_a_file_goes_to_a_topic_and_its_position_is_stored(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = topics.create(unique("lines")), tmp_path / "in.txt"
    file.write_text("eins\nzwölf\n\n")
    task = flow.start(flow.source(unique("src"), topic, file))
    flow.await_done(task, 3)
    assert topics.values(topic) == [b"eins", "zwölf".encode(), b""]
    wait_until(lambda: flow.stored == [[position(file, 13)]], 10, "the position to be stored")
    assert flow.counts.topics == {topic}


def test_a_source_continues_after_the_stored_position(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = topics.create(unique("lines")), tmp_path / "in.txt"
    file.write_text("zwölf\nseen\nnew\n")
    seen = len("zwölf\nseen\n".encode())
    task = flow.start(flow.source(unique("src"), topic, file), [position(file, seen)])
    flow.await_done(task, 1)
    expected = [[position(file, seen + 4)]]
    wait_until(lambda: flow.stored == expected, 10, "the first position to be stored")
    with file.open("a") as more:
        more.write("newer\n")
    flow.await_done(task, 2)
    expected.append([position(file, seen + 10)])
    wait_until(lambda: flow.stored == expected, 10, "the second")
    assert topics.values(topic) == [b"new", b"newer"]


def test_a_position_that_is_no_number_fails_the_task(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = topics.create(unique("lines")), tmp_path / "in.txt"
    file.write_text("line\n")
    flow.start(flow.source(unique("src"), topic, file), [position(file, "ten")])
    assert "Offset position is the incorrect type" in flow.await_failure()
    assert topics.values(topic) == []


def test_a_file_that_cannot_be_read_fails_the_task_with_the_reason(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    flow.start(flow.source(unique("src"), topics.create(unique("lines")), tmp_path))
    assert "Is a directory" in flow.await_failure()


def test_a_source_that_was_stopped_is_silent(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = topics.create(unique("lines")), tmp_path / "in.txt"
    file.write_text("before\n")
    name = unique("src")
    task = flow.start(flow.source(name, topic, file))
    flow.await_done(task, 1)
    assert flow.stop(task)
    with file.open("a") as more:
        more.write("after\n")
    again = flow.start(flow.source(name, topic, file), flow.stored[-1])
    flow.await_done(again, 2)
    assert topics.values(topic) == [b"before", b"after"]
    assert not flow.ended


JSON = [
    ("false", b'"z\xc3\xb6"'),
    ("true", b'{"schema":{"type":"string","optional":false},"payload":"z\xc3\xb6"}'),
]


@pytest.mark.parametrize(("schemas", "expected"), JSON)
def test_lines_become_json(
    flow: Any,
    topics: Topics,
    unique: Callable[[str], str],
    converters: Any,
    tmp_path: Path,
    schemas: str,
    expected: bytes,
) -> None:
    topic, file = topics.create(unique("json")), tmp_path / "in.txt"
    file.write_text("zö\n")
    value = converters(JsonConverter, schemas_enable=schemas)
    task = flow.start(flow.source(unique("src"), topic, file, value=value))
    flow.await_done(task, 1)
    assert topics.values(topic) == [expected]


def test_bytes_of_a_foreign_connector_arrive_as_they_are(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any
) -> None:
    topic = topics.create(unique("cells"))
    config = Cells.plugin.config.parse({"topic": topic})
    value = converters(ByteArrayConverter)
    plan = flow.source(unique("src"), topic, connector=Cells, config=config, value=value)
    task = flow.start(plan)
    flow.await_done(task, 3)
    assert topics.values(topic) == CELLS
    expected = [[SourceOffset({"cells": "all"}, {"count": 3})]]
    wait_until(lambda: flow.stored == expected, 10, "the offset to be stored")


def test_a_value_its_converter_refuses_fails_the_task(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any, tmp_path: Path
) -> None:
    topic, file = topics.create(unique("lines")), tmp_path / "in.txt"
    file.write_text("text\n")
    value = converters(ByteArrayConverter)
    flow.start(flow.source(unique("src"), topic, file, value=value))
    trace = flow.await_failure()
    assert "Tolerance exceeded in error handler: VALUE_CONVERTER failed in class" in trace
    assert "Invalid schema type for ByteArrayConverter: STRING" in trace
    assert "org.apache.spark" not in trace
    assert topics.values(topic) == []
    assert flow.stored == []


def test_refused_values_are_dropped_and_counted_when_errors_are_tolerated(
    flow: Any, topics: Topics, unique: Callable[[str], str], converters: Any, tmp_path: Path
) -> None:
    topic, file = topics.create(unique("lines")), tmp_path / "in.txt"
    file.write_text("text\nmore\n")
    plan = flow.source(
        unique("src"),
        topic,
        file,
        value=converters(ByteArrayConverter),
        tolerance=Tolerance(tolerate_all=True),
    )
    flow.start(plan)
    wait_until(lambda: flow.stored, 60, "the batch to be over")
    assert flow.stored == [[position(file, 10)]]
    wait_until(lambda: flow.reports, 10, "its report")
    counts = flow.counts
    assert (counts.records, counts.done, counts.failed) == (2, 0, 2)
    assert topics.values(topic) == []


def test_a_topic_kafka_does_not_take_fails_the_task(
    flow: Any, unique: Callable[[str], str], tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("line\n")
    flow.start(flow.source(unique("src"), "no topic has this name!", file))
    assert "no topic has this name!" in flow.await_failure()


def test_a_topic_is_made_as_the_first_group_that_matches_says(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = unique("made"), tmp_path / "in.txt"
    file.write_text("line\n")
    groups = (
        TopicGroup(("made-.*",), ("made-.*",), 7, 1, {}),  # excluded again
        TopicGroup(("made-.*",), (), 3, 1, {"retention.ms": "123456"}),
        TopicGroup((".*",), (), 5, 1, {}),
    )
    task = flow.start(flow.source(unique("src"), topic, file, topic_groups=groups))
    flow.await_done(task, 1)
    assert len(topics.ends(topic)) == 3
    assert topics.settings(topic)["retention.ms"] == "123456"


def test_a_topic_that_cannot_be_made_fails_the_task(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = unique("unmade"), tmp_path / "in.txt"
    file.write_text("line\n")
    groups = (TopicGroup((".*",), (), 1, 5, {}),)  # there is one broker, not five
    flow.start(flow.source(unique("src"), topic, file, topic_groups=groups))
    trace = flow.await_failure()
    assert f"Unable to create topic(s) '{topic}'" in trace
    assert topic not in topics.names()


def test_a_new_producer_does_not_wait_for_its_id(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("first"))
    plan = flow.source(unique("src"), topic, tmp_path / "none")
    one = Records([topic], [None], [None], Column.of([None], BYTES), Column.of([b"v"], BYTES))
    took_s: list[float] = []
    for _ in range(5):
        began = time.monotonic()
        sending = Sending(plan)
        sending.send(one)
        assert sending.flush() == []
        took_s.append(time.monotonic() - began)
        sending.close()
    assert topics.count(topic) == 5
    assert min(took_s) < 0.4  # librdkafka retries after half a second


def test_offsets_are_committed_to_the_reader_when_they_are_stored(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [{"values": ["a", "b"]}, {"values": []}, {"values": ["c"], "gate": "third"}]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    task = flow.start(plan, [SourceOffset({"of": "others"}, {"step": 7})])
    wait_until(lambda: calls(tmp_path, "committed"), 60, "the first steps to be stored")
    wait_until(lambda: calls(tmp_path, "committed")[-1] == ["committed", 2, 2], 10, "both")
    assert [step(offsets) for offsets in flow.stored][-1] == 2
    (tmp_path / "third").touch()
    wait_until(lambda: calls(tmp_path, "committed")[-1] == ["committed", 3, 3], 10, "the third")
    assert [step(offsets) for offsets in flow.stored][-1] == 3
    assert topics.values(topic) == [b"a", b"b", b"c"]
    assert flow.stop(task)
    assert calls(tmp_path, "open") == [["open", [{"step": 7}]]]
    [[_, thread]] = calls(tmp_path, "close")
    assert thread == f"task-{task}"


def test_a_stop_stores_what_was_sent(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [{"values": [str(number)]} for number in range(2000)]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    task = flow.start(plan)
    wait_until(lambda: topics.count(topic) > 0, 60, "the first record")
    assert flow.stop(task)
    reached = step(flow.stored[-1])
    assert topics.values(topic) == [b"%d" % number for number in range(reached)]
    assert flow.done(task) == reached
    assert calls(tmp_path, "committed")[-1] == ["committed", reached, reached]
    again = flow.start(plan, flow.stored[-1])
    flow.await_done(again, 2000)
    assert topics.values(topic) == [b"%d" % number for number in range(2000)]


def test_a_system_that_is_unreachable_is_asked_again(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [{"values": ["a"], "gate": "there", "away": True}]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    task = flow.start(plan)
    wait_until(lambda: len(calls(tmp_path, "away")) >= 2, 60, "a second attempt")
    wait_until(lambda: flow.counts.retries > 0, 10, "the report")
    (tmp_path / "there").touch()
    flow.await_done(task, 1)
    assert topics.values(topic) == [b"a"]
    assert not flow.ended


def test_a_stop_does_not_wait_for_a_system_that_is_unreachable(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [{"values": ["a"]}, {"values": ["b"], "gate": "there", "away": True}]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    task = flow.start(plan)
    wait_until(lambda: len(calls(tmp_path, "away")) >= 3, 60, "a third attempt")
    began = time.monotonic()
    assert flow.stop(task)
    assert time.monotonic() - began < 10  # of the 30 s that it may take
    assert step(flow.stored[-1]) == 1
    assert len(calls(tmp_path, "close")) == 1
    assert not flow.ended


def test_a_poll_that_raises_fails_the_task_and_the_reader_is_closed(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [{"values": ["a"]}, {"fails": True, "gate": "go"}]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    flow.await_done(flow.start(plan), 1)
    (tmp_path / "go").touch()
    assert "ValueError: there is no such step" in flow.await_failure()
    assert len(calls(tmp_path, "close")) == 1


def test_a_record_that_cannot_be_built_fails_the_task_after_those_before_it_are_stored(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [{"values": ["a"], "commit": True}, {"bad": "b"}, {"values": ["c"]}]
    flow.start(flow.source(unique("src"), topic, **following(topic, tmp_path, *polls)))
    trace = flow.await_failure()
    assert "Tolerance exceeded in error handler: TASK_POLL failed in class test.StepsTask" in trace
    assert "b is no record" in trace
    assert topics.values(topic) == [b"a"]
    assert [step(offsets) for offsets in flow.stored] == [1]


def test_a_record_that_cannot_be_built_is_counted_and_skipped_when_errors_are_tolerated(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [{"values": ["a"]}, {"bad": "b", "values": ["c"]}]
    plan = flow.source(
        unique("src"),
        topic,
        tolerance=Tolerance(tolerate_all=True),
        **following(topic, tmp_path, *polls),
    )
    flow.start(plan)
    wait_until(lambda: topics.values(topic) == [b"a", b"c"], 60, "the other records")
    wait_until(lambda: flow.stored and step(flow.stored[-1]) == 2, 10, "the offset")
    wait_until(lambda: flow.counts.done == 2, 10, "its report")
    assert (flow.counts.records, flow.counts.failed) == (3, 1)


def test_records_of_polls_without_offsets_belong_to_the_poll_that_has_them(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [
        {"values": ["a"], "stored": False},
        {"values": ["b"], "stored": False},
        {"values": ["c"], "gate": "third"},
    ]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    task = flow.start(plan)
    wait_until(lambda: topics.count(topic) == 2, 60, "two records")
    threading.Event().wait(1)
    assert flow.stored == []
    (tmp_path / "third").touch()
    wait_until(lambda: flow.stored, 10, "the offset")
    assert [step(offsets) for offsets in flow.stored] == [3]
    assert flow.stop(task)
    assert topics.values(topic) == [b"a", b"b", b"c"]


def test_a_stop_in_the_middle_of_such_polls_stores_nothing_of_them(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("steps"))
    polls = [
        {"values": ["a"]},
        {"values": ["b"], "stored": False},
        {"values": ["c"], "gate": "never"},
    ]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    task = flow.start(plan)
    wait_until(lambda: topics.count(topic) == 2, 60, "two records")
    assert flow.stop(task)
    assert [step(offsets) for offsets in flow.stored] == [1]


def test_parts_are_read_side_by_side_and_their_offset_follows_all_of_them(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("parts"))
    parts = ["a,b,gate-1,c", "d,gate-2,e", "f"]
    polls = [{"parts": parts}, {"values": ["last"]}]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    flow.start(plan)
    wait_until(lambda: len(calls(tmp_path, "waits")) == 2, 60, "two parts at once")
    processes = {pid for _, _, pid in calls(tmp_path, "part")}
    assert len(processes) == 2
    assert flow.stored == []
    (tmp_path / "gate-1").touch()
    wait_until(lambda: len(calls(tmp_path, "part")) == 3, 10, "the third part")
    assert flow.stored == []
    (tmp_path / "gate-2").touch()
    wait_until(lambda: flow.stored and step(flow.stored[-1]) == 2, 10, "the offsets")
    found = topics.values(topic)
    assert sorted(filter(None, found)) == [b"a", b"b", b"c", b"d", b"e", b"f", b"last"]
    assert found[-1] == b"last"
    assert flow.counts.records == 7
    assert not flow.ended


def test_a_part_that_fails_fails_the_task(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("parts"))
    polls = [{"parts": ["a,gate-1", "b,!", "c", "d"]}]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    flow.start(plan)
    wait_until(lambda: calls(tmp_path, "waits"), 60, "the first part to wait")
    (tmp_path / "gate-1").touch()
    assert "there is no such part" in flow.await_failure()
    assert flow.stored == []


@pytest.mark.parametrize("parts", [["a,gate-1,b", "c,gate-2,d", "e"], ["a,gate-1,b"]])
def test_a_stop_in_the_middle_of_parts_stores_nothing_of_them(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path, parts: list[str]
) -> None:
    topic = topics.create(unique("parts"))
    polls = [{"values": ["first"]}, {"parts": parts}]
    plan = flow.source(unique("src"), topic, **following(topic, tmp_path, *polls))
    task = flow.start(plan)
    wait_until(lambda: len(calls(tmp_path, "waits")) == min(2, len(parts)), 60, "parts to wait")
    began = time.monotonic()
    assert flow.stop(task)
    assert time.monotonic() - began < 10  # of the 30 s that it may take
    assert [step(offsets) for offsets in flow.stored] == [1]
    for gate in ("gate-1", "gate-2"):
        (tmp_path / gate).touch()
    again = flow.start(plan, flow.stored[-1])
    wait_until(lambda: step(flow.stored[-1]) == 2, 30, "the parts to be read again")
    expected = {value for part in parts for value in part.split(",") if "gate" not in value}
    assert {cell.decode() for cell in topics.values(topic) if cell} == expected | {"first"}
    assert flow.stop(again)
    assert not flow.ended
