"""A source of words, and a transform that shouts them."""

from __future__ import annotations

import sys
from typing import Any

from pyspark import cloudpickle

from penstock.api import (
    Failed,
    Plugin,
    Polled,
    Props,
    SourceConnector,
    SourceContext,
    SourceOffset,
    SourceReader,
    Transaction,
    Transform,
)
from penstock.config.define import HIGH, STRING, Config, ConfigDef, Key
from penstock.data.records import Column, Header, Records
from penstock.data.schema import INT8, OPTIONAL_STRING
from penstock.data.schema import STRING as STRING_SCHEMA
from penstock.errors import DataError
from penstock.flow.plan import TransformPlan
from penstock.plugins.ref import PluginRef

# Spark's Python workers cannot import test modules; classes made here travel with the plan.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TOPIC = Key("topic", STRING, importance=HIGH, doc="Where records go.")
NOTHING = ConfigDef().parse({})


class Rename(Transform):
    """Appends `!` to values; drops `drop`, fails for `fail`."""

    plugin = Plugin("test.Rename", "1", ConfigDef())

    def apply(self, records: Records, failed: Failed) -> Records:
        values = records.values.values
        failed |= {row: DataError("as told") for row, value in enumerate(values) if value == "fail"}
        kept = [row for row, value in enumerate(values) if value != "drop"]
        shouted = Column.of([value and f"{value}!" for value in values], OPTIONAL_STRING)
        return records.with_values(shouted).only(kept)


RENAME = (TransformPlan("rename", PluginRef.of(Rename), NOTHING),)


class Words(SourceConnector):
    """Sends the numbers 0 to 8 as words, three per poll, with all parts of a record."""

    plugin = Plugin("test.Words", "1", ConfigDef(TOPIC), task_class="test.WordsTask")

    def plan_tasks(self, config: Config, max_tasks: int) -> list[Props]:
        return [config.props]

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        return WordReader(config[TOPIC], context)


class WordReader(SourceReader):
    abort = -1

    def __init__(self, topic: str, context: SourceContext) -> None:
        self._topic = topic
        stored = context.stored_offset({"words": "all"})
        self._next = 0 if stored is None else int(stored["count"] or 0)

    def poll(self, max_bytes: int, wait_ms: int) -> Polled | None:
        numbers = range(self._next, min(self._next + 3, 9))
        if not numbers:
            return None
        self._next = numbers.stop
        return Polled(
            Records(
                topics=[self._topic for _ in numbers],
                partitions=[number % 2 for number in numbers],
                timestamps=[1_000 + number for number in numbers],
                keys=Column.of([f"k{number}" for number in numbers], STRING_SCHEMA),
                values=Column.of([word(number) for number in numbers], STRING_SCHEMA),
                headers=[[Header("n", number, INT8)] if number else [] for number in numbers],
            ),
            [SourceOffset({"words": "all"}, {"count": numbers.stop})],
            Transaction.ABORTED if self.abort in numbers else Transaction.COMPLETE,
        )


def word(number: int) -> str:
    return {4: "drop", 5: "fail"}.get(number, f"word-{number}")


class Second(Words):
    """The same; the second transaction is aborted."""

    plugin = Plugin("test.Second", "1", ConfigDef(TOPIC))

    def open(self, config: Config, context: SourceContext) -> SourceReader:
        reader = WordReader(config[TOPIC], context)
        reader.abort = 4
        return reader


def words(flow: Any, topic: str, name: str, **more: Any) -> Any:
    kind = more.pop("connector", Words)
    config = kind.plugin.config.parse({"topic": topic})
    return flow.source(name, topic, connector=kind, config=config, **more)
