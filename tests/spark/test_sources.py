"""Source tasks as real queries: from a file, or a connector made here, to a topic."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.api import Offsets, Plugin, Props, SourceConnector, SourceOffset, SourceReader
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.convert.json import JsonConverter
from penstock.convert.raw import ByteArrayConverter
from penstock.data.records import Column, Records
from penstock.data.schema import BYTES
from penstock.errors import Unavailable
from penstock.flow.plan import Tolerance, TopicGroup
from penstock.flow.sending import Sending
from penstock.testing.topics import Topics
from penstock.testing.waiting import wait_until

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TOPIC = Key("topic", STRING, importance=HIGH, doc="Where records go.")
SEEN = Key("seen", STRING, importance=HIGH, doc="The file that is made when something was read.")
CELLS = [b"\x00\xff", None, b""]


class Cells(SourceConnector):
    """Sends three values that are no text, once; the stored offset counts them."""

    plugin = Plugin("test.Cells", "1", ConfigDef(TOPIC))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config) -> SourceReader:
        return CellReader(config[TOPIC])


class CellReader(SourceReader):
    schema = pa.schema([("cell", pa.binary())])

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        return start or [SourceOffset({"cells": "all"}, {"count": len(CELLS)})]

    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"cell": CELLS}, schema=self.schema)

    def records(self, batch: pa.RecordBatch) -> Records:
        rows = batch.num_rows
        return Records(
            topics=[self._topic] * rows,
            partitions=[None] * rows,
            timestamps=[None] * rows,
            keys=Column.of([None] * rows, None),
            values=Column.of(batch.column(0).to_pylist(), BYTES),
        )


class Gone(SourceConnector):
    """Cannot be read, and from then on cannot be planned either, as if its system had gone away.
    The file says whether it was read."""

    plugin = Plugin("test.Gone", "1", ConfigDef(TOPIC, SEEN))

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config) -> SourceReader:
        return GoneReader(Path(config[SEEN]))


class GoneReader(SourceReader):
    def __init__(self, seen: Path) -> None:
        self._seen = seen

    def latest(self, start: Offsets, max_bytes: int) -> Offsets:
        if self._seen.exists():
            raise Unavailable("it is away")
        return start or [SourceOffset({"cells": "all"}, {"count": 1})]

    def read(self, start: Offsets, end: Offsets) -> Iterator[pa.RecordBatch]:
        self._seen.touch()
        raise Unavailable("it has gone away")

    def records(self, batch: pa.RecordBatch) -> Records:
        raise NotImplementedError


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
    assert flow.stored[-1] == [position(file, 13)]
    assert flow.reports[-1].topics == {topic: 1}


def test_a_source_goes_on_after_the_stored_position(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, file = topics.create(unique("lines")), tmp_path / "in.txt"
    file.write_text("zwölf\nseen\nnew\n")
    seen = len("zwölf\nseen\n".encode())
    task = flow.start(flow.source(unique("src"), topic, file), [position(file, seen)])
    flow.await_done(task, 1)
    with file.open("a") as more:
        more.write("newer\n")
    flow.await_done(task, 2)
    assert topics.values(topic) == [b"new", b"newer"]
    assert flow.stored == [[position(file, seen + 4)], [position(file, seen + 10)]]


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
    assert flow.stored == [[SourceOffset({"cells": "all"}, {"count": 3})]]


def test_a_task_whose_query_failed_ends_though_there_is_nothing_to_plan_with(
    flow: Any, topics: Topics, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics.create(unique("cells"))
    config = Gone.plugin.config.parse({"topic": topic, "seen": str(tmp_path / "seen")})
    flow.start(flow.source(unique("src"), topic, connector=Gone, config=config))
    assert "it has gone away" in flow.await_failure()


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
    assert [(row.records, row.done, row.failed) for row in flow.reports] == [(2, 0, 2)]
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
        TopicGroup(("made-.*",), ("made-.*",), 7, 1, {}),  # left out again
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
    assert min(took_s) < 0.4  # librdkafka looks again after half a second
